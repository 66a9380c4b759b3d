//! A leg that hangs is left out: see [`crate::stall`].
//!
//! It has not failed: it rejoins when all its old requests have ended, as a leg does that `on_limit = "degrade"` left out. A
//! leg that the other one cannot do without is waited for. Writes go on with the other leg, and reads begin anew there; what the
//! late leg still returns ends as a straggler.

use super::op::{Kind, Part};
use super::{Mirror, Phase};
use nandu_base::Cx;

impl Mirror {
    pub(super) fn stall_timer(&mut self, cx: &mut Cx<'_>) {
        if let Some(leg) = self.stalls.look(cx).filter(|&leg| self.may_do_without(leg)) {
            self.leave_stalled(leg, cx);
        }
        if self.legs.iter().any(|leg| leg.in_flight > 0) {
            self.stalls.sent(cx);
        }
    }

    fn may_do_without(&self, leg: usize) -> bool {
        // A new set begins with both legs: the second one may take its time to join the first.
        let serves = matches!(self.phase, Phase::Running | Phase::Closing) && !self.opened_after_join;
        serves && self.legs[leg].is_in() && self.can_do_without(leg)
    }

    fn leave_stalled(&mut self, leg: usize, cx: &mut Cx<'_>) {
        let waits = |i: &u32| {
            let op = &self.ops[*i as usize];
            let asked = op.parts.all(Part::Flying) == 1 << leg;
            op.kind == Kind::Read && !op.over && asked
        };
        let reads: Vec<u32> = (0..self.ops.len() as u32).filter(waits).collect();
        self.count.timeouts[leg] += 1;
        self.leave(leg, cx);
        (self.legs[leg].failed, self.legs[leg].back) = (false, true);
        for i in reads {
            if !self.ops[i as usize].over {
                self.read_anew(i, cx);
            }
        }
    }
}
