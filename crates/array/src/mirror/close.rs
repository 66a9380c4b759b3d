//! Close: what is under way ends, both legs flush, every mark is cleared, and the superblocks say that the end was in order.
//!
//! A leg is not closed before everything that was sent to it is back. With a leader that does not take some write the resync goes on first
//! ([`super::stuck`]).

use super::leg::Leg;
use super::member::Proc;
use super::{CLEAR, Mirror, Phase, RESYNC, SCRUB};
use crate::member::set::Set;
use nandu_base::{Cx, Instant};

/// Close.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum CloseStep {
    Drain,
    Flush,
    Clear,
    Map,
    Record,
    /// What was sent to a leg that has left comes back: the legs are closed next.
    Stragglers,
}

impl Mirror {
    pub(super) fn start_close(&mut self, cx: &mut Cx<'_>) {
        // A mirror that has failed has nothing to make durable, but what it sent must come back: a leg is closed next.
        if self.phase != Phase::Running {
            self.let_go();
            self.proc = Proc::Close(CloseStep::Stragglers);
        }
        self.phase = Phase::Closing;
        self.stop_growing(cx);
        self.stir();
        cx.cancel_wake(CLEAR);
        cx.cancel_wake(RESYNC);
        self.hurry_resync();
        cx.cancel_wake(SCRUB);
    }

    pub(super) fn run_close(&mut self, step: CloseStep, cx: &mut Cx<'_>) -> bool {
        match step {
            CloseStep::Drain if self.close_waits() => self.proc = Proc::None,
            CloseStep::Stragglers if self.roster.is_home() => {
                self.phase = Phase::Closed;
                self.proc = Proc::None;
                cx.closed();
            }
            CloseStep::Drain if self.ops_alive() == 0 && self.op_queue.is_empty() && !self.is_clearing() => {
                self.stop_copies(cx);
                for leg in 0..self.legs.len() {
                    if self.legs[leg].is_in() {
                        self.await_cover(leg, cx);
                    }
                }
                self.proc = Proc::Close(CloseStep::Flush);
            }
            CloseStep::Flush if self.all_in(Leg::is_covered) => {
                self.start_clear(Instant::MAX, cx);
                self.proc = Proc::Close(CloseStep::Clear);
            }
            CloseStep::Clear if !self.is_clearing() => self.proc = Proc::Close(CloseStep::Map),
            CloseStep::Map if self.all_in(|l| l.map_is_settled() && l.sb_is_settled()) => {
                let now = cx.now.0;
                let whole = self.is_whole();
                for leg in 0..self.legs.len() {
                    if self.legs[leg].is_in() {
                        let together = if whole { now } else { self.legs[leg].sb.together };
                        self.write_sb(leg, |sb| (sb.clean, sb.together) = (true, together), cx);
                    }
                }
                self.proc = Proc::Close(CloseStep::Record);
            }
            CloseStep::Record if self.all_in(Leg::sb_is_settled) => {
                self.proc = Proc::Close(CloseStep::Stragglers);
            }
            _ => return false,
        }
        true
    }
}
