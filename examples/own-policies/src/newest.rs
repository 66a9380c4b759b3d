//! `newest-first`: the line that came last goes.
//!
//! One list in the order of arrival; being met changes nothing. Cost: 8 bytes for each line, O(1) for each event.

use nandu::replacement::{
    Arrival, Chain, Hit, Line, List, Recall, Replacement, ReplacementOptions, Room, Victim, each_once,
};
use nandu::units::{BuildError, Violation};
use nandu::{Declared, options};

/// Options of `newest-first`.
#[options(crate = nandu)]
#[derive(Clone, Debug)]
pub struct Config {
    /// Lines that came last and stay all the same.
    #[option(default = 1, range = 1..=1000)]
    pub spare: u32,
}

impl Declared for Config {
    const NAME: &'static str = "newest-first";
    const SUMMARY: &'static str = "The line that came last goes.";
    const SOURCE: &'static str = "";
}

impl ReplacementOptions for Config {
    type Policy = NewestFirst;

    fn build(&self, room: Room) -> Result<NewestFirst, BuildError> {
        Ok(NewestFirst { chain: Chain::new(room.slots()), list: List::default(), spare: self.spare })
    }
}

/// The policy.
pub struct NewestFirst {
    chain: Chain,
    list: List,
    spare: u32,
}

impl Replacement for NewestFirst {
    fn insert(&mut self, slot: u32, _lines: &[Line], _arrival: Arrival) {
        self.list.push(&mut self.chain, slot);
    }

    fn refill(&mut self, _slot: u32, _lines: &[Line], _arrival: Arrival) {}

    fn hit(&mut self, _slot: u32, _lines: &[Line], _hit: Hit) {}

    fn victim(&mut self, _lines: &[Line], _incoming: Recall) -> Option<Victim> {
        let mut slot = self.list.newest();
        for _ in 1..self.spare.min(self.list.len()) {
            slot = self.chain.older(slot);
        }
        if self.list.is_empty() {
            return None;
        }
        self.list.remove(&mut self.chain, slot);
        Some(Victim::Whole(slot))
    }

    fn remove(&mut self, slot: u32, _lines: &[Line]) {
        self.list.remove(&mut self.chain, slot);
    }

    fn bytes(&self) -> usize {
        self.chain.bytes()
    }

    fn check(&self, lines: &[Line]) -> Result<(), Violation> {
        each_once(self.list.iter(&self.chain), lines)
    }
}

#[cfg(test)]
mod tests {
    use nandu::replacement::{ReplacementConfig, conformance, policy};

    #[test]
    fn it_keeps_what_every_policy_keeps() {
        let registry = nandu::builtin().with(policy::<super::Config>());
        let config = ReplacementConfig::of("newest-first", &registry).unwrap();
        for seed in 0..50 {
            conformance::run(config.options().unwrap(), seed).unwrap();
        }
    }
}
