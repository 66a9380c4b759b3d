//! What operators do meanwhile: they scrub mirrors, swap roles, and replace legs.

use super::{broken, Broken, Session, STALL};
use nandu_base::Admin;

impl Session<'_> {
    /// Now and then an operator comes. What a mirror refuses has changed nothing.
    pub(super) fn may_do_chore(&mut self) -> Result<(), Broken> {
        let one_in = self.plan.chore_one_in;
        if one_in == 0 || self.chore_rng.below(one_in) > 0 {
            return Ok(());
        }
        let mirrors: Vec<(u32, [u32; 2])> = self.watch.mirrors().collect();
        if mirrors.is_empty() {
            return Ok(());
        }
        let (mirror, legs) = mirrors[self.chore_rng.below(mirrors.len() as u64) as usize];
        let leg = self.chore_rng.below(2) as u8;
        let admin = match self.chore_rng.below(8) {
            0..=3 => Admin::Scrub { mends: None },
            4 => Admin::StopScrub,
            5 | 6 => Admin::Lead(leg),
            _ => return self.replace_leg(mirror, leg, legs),
        };
        self.do_chore(mirror, admin)?;
        Ok(())
    }

    fn do_chore(&mut self, mirror: u32, admin: Admin) -> Result<bool, Broken> {
        let result = self.engine.admin(mirror, admin);
        let now = self.engine.now();
        self.engine.sink().note(now, || format!("operator: {admin:?}: {result:?}"));
        self.tally.chores += u64::from(result.is_ok());
        self.look()?;
        Ok(result.is_ok())
    }

    /// Puts a blank medium in place of a leg that is a leaf, where the other one is too. Where faults may come in between nobody can
    /// say how it ends; the tests of the mirror itself do that.
    ///
    /// Starts from then on may find the leg blank and are told that it may be initialised. All of the stack is told so: a
    /// drive with cells of its own that hold something is started as ever.
    fn replace_leg(&mut self, mirror: u32, child: u8, legs: [u32; 2]) -> Result<(), Broken> {
        let leg = legs[usize::from(child)];
        let are_leaves = legs.iter().all(|&leg| self.engine.has_block_medium(leg));
        let other = self.replaced.is_some_and(|earlier| earlier != leg);
        if self.watch.has_faults() || other || !are_leaves {
            return Ok(());
        }
        let solos = self.figure(mirror, "solos");
        let was_member = self.figure(mirror, ["leg_a_is_member", "leg_b_is_member"][usize::from(child)]) == 1;
        if !was_member || !self.do_chore(mirror, Admin::Replace(child))? {
            return Ok(());
        }
        // The old one is pulled out when the other has said durably that it goes on alone.
        for _ in 0..STALL {
            if self.figure(mirror, "solos") > solos && self.engine.is_idle_leaf(leg) {
                self.replaced = Some(leg);
                self.engine.replace_medium(leg);
                return self.look();
            }
            self.step()?;
        }
        Err(broken("progress", "a leg that is replaced is still in use"))
    }

    fn figure(&self, node: u32, name: &str) -> u64 {
        let mut counters = Vec::new();
        self.engine.graph.machine(node).counters(&mut counters);
        counters.iter().find(|c| c.name == name).map_or(0, |c| c.value)
    }
}
