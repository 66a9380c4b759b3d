//! What an operator asks for, and what an operator is told.
//!
//! **Replace.** The leg is left out as if it had failed, and what comes in its place must hold no records: it is copied in
//! full, at `resync_rate`. It is refused where the other leg lacks data. A leg that was replaced is never believed again: the
//! survivor took a generation that it does not know, and the new leg has that one. If it is named again it is copied in full
//! or refused ([`super::decide`]).
//!
//! **Lead.** A planned swap of the roles is the two steps of any takeover: both legs flush and marks are cleared as far as
//! nothing is under way, then the other leg takes Solo and the old leader rejoins as one that was late. New writes and
//! flushes wait while Solo is taken, and what was in use is copied back. With `failback = "immediate"` that happens by itself when
//! the second leg leads a whole pair. From the takeover to the rejoin the device is degraded, and says so.
//!
//! **Health.** Said to the parents and to the driver whenever it changes.

use super::member::Proc;
use super::{Mirror, Phase};
use nandu_base::{Admin, AdminError, Cx, DeviceEvent, Health, Notice};

/// A planned swap of the roles.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Swap {
    /// Marks are to be cleared first.
    Wanted,
    /// They are, as far as that is possible.
    Cleared,
}

pub(super) fn refuse(why: String, remedy: &'static str) -> Result<(), AdminError> {
    Err(AdminError::Refused { why, remedy })
}

impl Mirror {
    pub(super) fn obey(&mut self, admin: Admin, cx: &mut Cx<'_>) -> Result<(), AdminError> {
        if self.phase != Phase::Running || self.opened_after_join {
            return refuse("no leg may serve now".into(), "bring back a leg that may lead");
        }
        if self.is_growing() {
            return refuse("it is growing".into(), "wait until that is over");
        }
        match admin {
            Admin::Scrub { mends } => {
                self.scrub.course.begin(mends.unwrap_or(self.maintenance.scrub_mends), cx.now);
                self.made_progress = true;
            }
            Admin::StopScrub => return self.scrub.course.stop(),
            Admin::Lead(child) => return self.ask_lead(usize::from(child)),
            Admin::Replace(child) => return self.ask_replace(usize::from(child), cx),
            Admin::AcceptLost => return Err(AdminError::Unknown),
            Admin::Grow { is_equal } => return self.ask_grow(is_equal, cx),
            Admin::Extend(name) => return self.ask_extend(name, cx),
        }
        Ok(())
    }

    fn ask_lead(&mut self, leg: usize) -> Result<(), AdminError> {
        if leg != 0 && self.maintenance.lead_first {
            let why = format!("the stack file says that `{}` leads", self.names[0]);
            return refuse(why, "take `failback = \"immediate\"` out of it");
        }
        if !self.is_whole() || self.lacks_some() || self.proc != Proc::None {
            let why = "the legs are not equal".into();
            return refuse(why, "wait until all are members and the resync is over");
        }
        if leg != self.leader {
            (self.swap, self.swap_to) = (Some(Swap::Wanted), Some(leg));
            self.made_progress = true;
        }
        Ok(())
    }

    fn ask_replace(&mut self, x: usize, cx: &mut Cx<'_>) -> Result<(), AdminError> {
        if !self.can_do_without(x) {
            let others = if self.legs.len() == 2 { "the other one lacks" } else { "the others lack" };
            let why = format!("leg `{}` holds data that {others}", self.names[x]);
            return refuse(why, "wait until the other leg is resynced");
        }
        self.leave(x, cx);
        self.legs[x].replaced = true;
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
                self.made_progress = true;
            }
            Some(Swap::Cleared) if !self.is_clearing() => {
                self.swap = None;
                self.count.swaps += 1;
                let old = self.leader;
                self.leave(old, cx);
                // It has not failed: it rejoins when all its old requests have ended.
                self.legs[old].failed = false;
                self.legs[old].back = true;
            }
            _ => {}
        }
    }

    /// How safely the data are held; nothing while that is not known.
    pub(super) fn standing(&self) -> Option<Health> {
        match self.phase {
            Phase::Failed => Some(Health::Failed),
            Phase::Running if self.opened_after_join => None,
            Phase::Running if !self.is_whole() || self.lacks_some() => Some(Health::Degraded),
            Phase::Running if self.exposure.is_late => Some(Health::Exposed),
            Phase::Running => Some(Health::Healthy),
            Phase::Closed | Phase::Opening | Phase::Closing | Phase::Growing => None,
        }
    }

    /// Says so when that has changed.
    pub(super) fn tell_health(&mut self, cx: &mut Cx<'_>) {
        let Some(health) = self.standing().filter(|&now| now != self.told) else { return };
        self.told = health;
        cx.event(DeviceEvent::Notice(Notice::Health(health)));
    }
}
