//! What an operator asks for, and what an operator is told.
//!
//! **Replace.** The leg is left out as if it had failed, and what comes in its place must hold no records: it is copied in
//! full, at `resync_rate`. It is refused where the other leg lacks data. A leg that was replaced is never believed again: the
//! survivor took a generation that it does not know, and the new leg has that one. If it is named again it is copied in full
//! or refused ([`super::decide`]). One that was blank and leaves again before it is a member has records that the others gave it: it returns as any leg does.
//!
//! **Lead.** A planned swap of the roles is the two steps of any takeover: both legs flush and marks are cleared as far as
//! nothing is under way, then the other leg takes Solo and the old leader rejoins as one that was late. New writes and
//! flushes wait while Solo is taken, and what was in use is copied back. With `failback = "immediate"` that happens by itself when
//! the second leg leads a whole pair. From the takeover to the rejoin the device is degraded, and says so.
//!
//! **Health.** Said to the parents and to the driver whenever it changes.

use super::member::Proc;
use super::work::Ready;
use super::{Mirror, Phase};
use crate::member::set::{Set, refuse};
use nandu_base::{Admin, AdminError, Cx};

/// A planned swap of the roles.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Swap {
    /// Marks are to be cleared first.
    Wanted,
    /// They are, as far as that is possible.
    Cleared,
}

impl Mirror {
    pub(super) fn obey(&mut self, admin: Admin, cx: &mut Cx<'_>) -> Result<(), AdminError> {
        if self.phase != Phase::Running || self.opened_after_join {
            return refuse("no leg may serve now", "bring back a leg that may lead");
        }
        if self.is_growing() {
            return refuse("it is growing", "wait until that is over");
        }
        match self.maintain(admin, cx)? {
            Some(Admin::Lead(child)) => self.ask_lead(usize::from(child)),
            Some(Admin::Grow { is_equal }) => self.ask_grow(is_equal, cx),
            Some(Admin::Extend(name)) => self.ask_extend(name, cx),
            Some(_) => Err(AdminError::Unknown),
            None => Ok(()),
        }
    }

    fn ask_lead(&mut self, leg: usize) -> Result<(), AdminError> {
        if leg != 0 && self.maintenance.lead_first {
            let why = format!("the stack file says that `{}` leads", self.roster[0].name);
            return refuse(why, "take `failback = \"immediate\"` out of it");
        }
        if !self.is_whole() || self.lacks_some() || self.proc != Proc::None {
            let why = "the legs are not equal";
            return refuse(why, "wait until all are members and the resync is over");
        }
        if leg != self.leader {
            (self.swap, self.swap_to) = (Some(Swap::Wanted), Some(leg));
            self.work.add(Ready::Swap);
        }
        Ok(())
    }

    /// Moves a planned swap on.
    pub(super) fn pump_swap(&mut self, cx: &mut Cx<'_>) {
        let settled = self.phase == Phase::Running
            && self.proc == Proc::None
            && self.is_whole()
            && !self.lacks_some()
            && !self.opened_after_join;
        if !settled {
            self.swap = None;
            return;
        }
        if self.swap.is_none() && self.maintenance.lead_first && self.leader != 0 && !self.exposure.is_late {
            (self.swap, self.swap_to) = (Some(Swap::Wanted), Some(0));
        }
        match self.swap {
            Some(Swap::Wanted) => {
                self.start_clear(cx.now, cx);
                self.swap = Some(Swap::Cleared);
                self.work.add(Ready::Swap);
            }
            Some(Swap::Cleared) if !self.is_clearing() => {
                self.swap = None;
                self.count.swaps += 1;
                let old = self.leader;
                self.leave(old, cx);
                // It has not failed: it rejoins when all its old requests have ended.
                self.roster[old].comes_back();
            }
            _ => {}
        }
    }
}
