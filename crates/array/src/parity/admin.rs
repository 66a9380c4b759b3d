//! What an operator asks for, and what an operator is told. The words are those of the mirror ([`crate::mirror`]).
//!
//! **Scrub.** See [`super::scrub`].
//!
//! **Replace.** The leg is left out as if it had failed, and what comes in its place must hold no records: it is rebuilt from the
//! front, at `rebuild_rate`. It is refused where the others cannot make up for it: one of them is missing or not rebuilt, the
//! parity is not computed, or they have lost sectors of their own. A leg that was replaced is never believed again: the others
//! took a generation that it does not know. A start that finds it in its old place is refused as long as the new one counts as
//! current.
//!
//! **Health.** Said to the parents and to the driver whenever it changes.

use super::{Parity, Run, bits};
use nandu_base::{Admin, AdminError, Cx, DeviceEvent, Health, Notice};

fn refuse(why: String, remedy: &'static str) -> Result<(), AdminError> {
    Err(AdminError::Refused { why, remedy })
}

impl Parity {
    pub(super) fn obey(&mut self, admin: Admin, cx: &mut Cx<'_>) -> Result<(), AdminError> {
        if matches!(admin, Admin::Lead(_)) {
            return Err(AdminError::Unknown); // no leg leads here
        }
        if self.run != Run::Running {
            return refuse("too few legs are there".into(), "bring back the legs that were used last");
        }
        match admin {
            Admin::Scrub { mends } => {
                self.scrub.course.begin(mends.unwrap_or(self.maintenance.mends), cx.now);
                self.made_progress = true;
                Ok(())
            }
            Admin::StopScrub => self.scrub.course.stop(),
            Admin::Replace(child) => self.ask_replace(usize::from(child), cx),
            Admin::Lead(_) | Admin::AcceptLost => Err(AdminError::Unknown),
            Admin::Extend(_) => refuse(
                "a parity array keeps the number of its legs: each row is made of all of them".into(),
                "make a larger one beside it, and copy",
            ),
            Admin::Grow { .. } => refuse(
                "a parity array keeps the size with which it was made: new rows have no parity yet".into(),
                "make a larger one beside it, and copy",
            ),
        }
    }

    fn ask_replace(&mut self, x: usize, cx: &mut Cx<'_>) -> Result<(), AdminError> {
        let data = self.geometry.data;
        let name = |leg: usize| &self.legs[leg].name;
        if let Some(other) = (0..self.legs.len()).find(|&l| l != x && self.legs[l].durable != data)
            && !self.planted.needed_leg_replaced
        {
            let why = format!("leg `{}` is needed, for `{}` is missing or not rebuilt", name(x), name(other));
            return refuse(why, "add or rebuild that one first");
        }
        if self.rebuild.parity_upto < data {
            let why = format!("leg `{}` is needed, for the parity is not computed yet", name(x));
            return refuse(why, "wait until `bytes_to_rebuild` is 0");
        }
        if let Some(other) = self.lost_beside(x) {
            let why = format!("leg `{}` is needed, for sectors of `{}` are lost", name(x), name(other));
            return refuse(
                why,
                "write over them first, or give the leg up with `fail` and lose its sectors there too",
            );
        }
        self.leave(x, cx);
        (self.legs[x].failed, self.legs[x].replaced) = (true, true);
        Ok(())
    }

    /// How safely the data are held; nothing while that is not known.
    pub(super) fn standing(&self) -> Option<Health> {
        let data = self.geometry.data;
        let full = |l: usize| self.legs[l].durable == data && self.legs[l].recorded == data;
        match self.run {
            Run::Failed => Some(Health::Failed),
            Run::Running if !bits(self.all()).all(full) || self.rebuilds() => Some(Health::Degraded),
            Run::Running if self.lost.len() > 0 => Some(Health::Degraded),
            Run::Running => Some(Health::Healthy),
            Run::Closed | Run::Opening | Run::Closing => None,
        }
    }

    /// Says so when that has changed.
    pub(super) fn tell_health(&mut self, cx: &mut Cx<'_>) {
        let Some(health) = self.standing().filter(|&now| now != self.told) else { return };
        self.told = health;
        cx.event(DeviceEvent::Notice(Notice::Health(health)));
    }
}
