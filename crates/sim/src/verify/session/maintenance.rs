//! What operators do meanwhile: they scrub mirrors and parity arrays, swap roles, replace legs, and make them longer (`growth.rs`).

use super::{Broken, STALL, Session, broken};
use crate::verify::case::Chore;
use crate::verify::watch::Watch;
use nandu_base::Admin;

impl Session<'_> {
    /// An operator comes. What an array refuses has changed nothing, and where there is no such array there is nothing to do.
    pub(super) fn do_chore_at(&mut self, device: &str, chore: Chore) -> Result<(), Broken> {
        let arrays = self.watch.looked_after();
        let found = self.node(device).and_then(|node| arrays.iter().find(|(array, _)| *array == node));
        let Some((array, legs)) = found else { return Ok(()) };
        let has = |leg: u8| usize::from(leg) < legs.len();
        let admin = match chore {
            Chore::Scrub => Admin::Scrub { mends: None },
            Chore::StopScrub => Admin::StopScrub,
            Chore::Lead(leg) if has(leg) => Admin::Lead(leg),
            Chore::Replace(leg) if has(leg) => return self.replace_leg(*array, leg, legs),
            Chore::Grow(bytes) => return self.grow(*array, bytes, legs),
            Chore::Lead(_) | Chore::Replace(_) => return Ok(()),
        };
        self.do_chore(*array, admin)?;
        Ok(())
    }

    pub(super) fn do_chore(&mut self, array: u32, admin: Admin) -> Result<bool, Broken> {
        let result = self.engine.admin(array, admin.clone());
        let now = self.engine.now();
        self.engine.sink().note(now, || format!("operator: {admin:?}: {result:?}"));
        self.tally.chores += u64::from(result.is_ok());
        self.look()?;
        Ok(result.is_ok())
    }

    /// Puts a blank medium in place of a leg that is a leaf, where the others are too. Where faults may come in between nobody can
    /// say how it ends; the tests of the arrays themselves do that.
    ///
    /// Starts from then on may find the leg blank and are told that it may be initialised. All of the stack is told so: a
    /// drive with cells of its own that hold something is started as ever.
    fn replace_leg(&mut self, array: u32, child: u8, legs: &[u32]) -> Result<(), Broken> {
        let leg = legs[usize::from(child)];
        let are_leaves = legs.iter().all(|&leg| self.engine.has_block_medium(leg));
        let other = self.replaced.is_some_and(|earlier| earlier != leg);
        if self.watch.has_faults() || other || !are_leaves {
            return Ok(());
        }
        let departures = Watch::departures(&self.engine.graph, array);
        if !Watch::uses_all(&self.engine.graph, array) || !self.do_chore(array, Admin::Replace(child))? {
            return Ok(());
        }
        // The old one is pulled out when the others have said durably that they go on alone.
        for _ in 0..STALL {
            if Watch::departures(&self.engine.graph, array) > departures && self.engine.is_idle_leaf(leg) {
                self.replaced = Some(leg);
                self.engine.replace_medium(leg);
                return self.look();
            }
            self.step()?;
        }
        Err(broken("progress", "a leg that is replaced is still in use"))
    }
}
