//! A leg that hangs is left out: see [`crate::stall`].
//!
//! Everything under way on it counts as answered with `Gone`, so that pieces, checkpoints and superblocks go on as if it had
//! been unplugged. It has not failed: it is taken back when all its old requests have ended, and rebuilt. A leg that is needed
//! is waited for. Nothing is given up while the array opens.

use super::piece::Answer;
use super::{Parity, Run, Tag};
use crate::stall::under_way;
use nandu_base::{Cx, ErrorKind};

impl Parity {
    pub(super) fn stall_timer(&mut self, cx: &mut Cx<'_>) {
        if let Some(leg) = self.stalls.look(cx).filter(|&leg| self.may_do_without(leg)) {
            self.leave_stalled(leg, cx);
        }
        if self.legs.iter().any(|leg| leg.in_flight > 0) {
            self.stalls.sent(cx);
        }
    }

    fn may_do_without(&self, leg: usize) -> bool {
        let full = |l: usize| l == leg || self.legs[l].durable == self.geometry.data;
        let serves = matches!(self.run, Run::Running | Run::Closing);
        let others_suffice = (0..self.legs.len()).all(full) && self.parity_is_right(self.geometry.data);
        serves && self.legs[leg].is_in() && others_suffice
    }

    fn leave_stalled(&mut self, leg: usize, cx: &mut Cx<'_>) {
        let ids = under_way(leg, cx);
        self.count.timeouts += 1;
        self.leave(leg, cx);
        self.legs[leg].back = true;
        for id in ids {
            let (tag, _, index) = Tag::of(cx.requests[id].cookie);
            let answer = Answer::LOST;
            match tag {
                Tag::Part => self.part_done(answer, leg, index, cx),
                Tag::Flush => self.flush_part_done(answer, leg, index, cx),
                Tag::Checkpoint => self.checkpoint_flushed(answer.error, leg, cx),
                Tag::SbWrite => self.superblock_written(answer.error, leg, cx),
                Tag::Settle | Tag::SbRead | Tag::Header | Tag::Replay | Tag::Redo | Tag::Straggler => {
                    continue;
                }
            }
            cx.requests[id].cookie = Tag::Straggler.cookie(leg, 0);
        }
    }
}

impl Answer {
    /// Of a request that nobody waits for any more.
    const LOST: Answer = Answer { id: nandu_base::ReqId::NONE, error: Some(ErrorKind::Gone) };
}
