//! `2q`: a line must be asked for again after it has left a queue for new lines before it may stay long.
//!
//! A line comes into A1in, a queue in the order of arrival; being met there changes nothing. What leaves A1in is remembered by its
//! number in A1out. A line that comes while A1out remembers it goes to Am, a list in the order of use. When memory is short the
//! oldest of A1in goes if A1in has more than its share, else the oldest of Am. Johnson and Shasha, "2Q: a low overhead high
//! performance buffer management replacement algorithm", VLDB 1994, section 3.2 (full version).
//!
//! Where we differ: nothing. A line holds one block.
//!
//! Cost: 9 bytes for each line, 24 to 40 for each number that is remembered. O(1) for each event.

use nandu::replacement::{
    Arrival, Cause, Chain, GhostQueue, Hit, Line, List, Recall, Replacement, ReplacementOptions, Room,
    Victim, each_once,
};
use nandu::units::{BuildError, Ratio, Violation};
use nandu::{Declared, options};

/// Options of `2q`.
#[options(crate = nandu)]
#[derive(Clone, Debug)]
pub struct Config {
    /// A1in, as a share of the lines.
    #[option(default = Ratio::new(1, 4), above = Ratio::ZERO, below = Ratio::new(1, 1))]
    pub new: Ratio,
    /// A1out, as a share of the lines.
    #[option(default = Ratio::new(1, 2), above = Ratio::ZERO, range = ..=Ratio::new(4, 1))]
    pub remembered: Ratio,
}

impl Declared for Config {
    const NAME: &'static str = "2q";
    const SUMMARY: &'static str = "A queue for new lines, a list for those asked for again (2Q). By blocks.";
    const SOURCE: &'static str = "Johnson and Shasha, VLDB 1994";
    const DRAWS: &'static [&'static str] = &["", "new = \"1/2\", remembered = \"2\""];
}

impl ReplacementOptions for Config {
    type Policy = TwoQ;

    fn build(&self, room: Room) -> Result<TwoQ, BuildError> {
        let of = |share: Ratio| share.of(room.blocks).max(1) as usize;
        Ok(TwoQ {
            chain: Chain::new(room.slots()),
            a1in: List::default(),
            am: List::default(),
            in_am: vec![false; room.slots()],
            share: of(self.new) as u32,
            a1out: GhostQueue::new(of(self.remembered)),
        })
    }
}

/// The policy.
pub struct TwoQ {
    chain: Chain,
    a1in: List,
    am: List,
    in_am: Vec<bool>,
    /// Lines beyond which A1in must give.
    share: u32,
    a1out: GhostQueue,
}

impl Replacement for TwoQ {
    #[inline]
    fn miss(&mut self, line: u64, _cause: Cause) -> Recall {
        if self.a1out.remove(line) { Recall::Once } else { Recall::Nothing }
    }

    #[inline]
    fn insert(&mut self, slot: u32, _lines: &[Line], arrival: Arrival) {
        let again = arrival.recall == Recall::Once;
        self.in_am[slot as usize] = again;
        if again { &mut self.am } else { &mut self.a1in }.push(&mut self.chain, slot);
    }

    fn refill(&mut self, _slot: u32, _lines: &[Line], _arrival: Arrival) {}

    #[inline]
    fn hit(&mut self, slot: u32, _lines: &[Line], _hit: Hit) {
        if self.in_am[slot as usize] {
            self.am.renew(&mut self.chain, slot);
        }
    }

    #[inline]
    fn victim(&mut self, lines: &[Line], _incoming: Recall) -> Option<Victim> {
        if self.a1in.len() > self.share || self.am.is_empty() {
            let slot = self.a1in.pop(&mut self.chain)?;
            self.a1out.push(lines[slot as usize].number);
            return Some(Victim::Whole(slot));
        }
        self.am.pop(&mut self.chain).map(Victim::Whole)
    }

    fn remove(&mut self, slot: u32, _lines: &[Line]) {
        let list = if self.in_am[slot as usize] { &mut self.am } else { &mut self.a1in };
        list.remove(&mut self.chain, slot);
    }

    fn bytes(&self) -> usize {
        self.chain.bytes() + self.in_am.len() + self.a1out.bytes()
    }

    fn check(&self, lines: &[Line]) -> Result<(), Violation> {
        self.a1out.check(lines)?;
        each_once(self.a1in.iter(&self.chain).chain(self.am.iter(&self.chain)), lines)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandu::replacement::{ReplacementConfig, conformance};
    use nandu::source::{GenSetting, Wanted, requests};
    use nandu::{Console, mrc};
    use serde_json::Value;

    #[test]
    fn it_keeps_what_every_replacement_policy_keeps() {
        let config = ReplacementConfig::of("2q", &crate::registry()).expect("it is registered");
        for seed in 0..50 {
            conformance::run(config.options().expect("it is known"), seed).expect("the invariants hold");
        }
    }

    #[test]
    fn an_option_out_of_its_range_is_refused_with_its_place_in_the_stack() {
        let refused = |option: &str| {
            let stack = format!(
                "[export.data]\ndevice = \"c\"\n[device.c]\nkind = \"cache\"\nbelow = \"m\"\nsize = \"1 MiB\"\n\
                 replacement = {{ kind = \"2q\", {option} }}\n[device.m]\nkind = \"memory\"\nsize = \"4 MiB\"\n"
            );
            let load = serde_json::json!({ "requests": 10, "space": "4 MiB" });
            let run = nandu::Experiment::with(&crate::registry(), &stack)
                .and_then(|experiment| experiment.generate("uniform", &load).run());
            run.err().map(|error| error.to_string())
        };
        assert_eq!(refused("new = \"999/1000\", remembered = 4"), None);
        for (option, says) in [
            (
                "new = 0",
                "`replacement.new` in device `c` (kind `cache`): 0 is out of bounds: above 0, below 1",
            ),
            ("new = 1", "1 is out of bounds: above 0, below 1"),
            ("remembered = 4.5", "4.5 is out of bounds: above 0, at most 4"),
        ] {
            let said = refused(option).expect(option);
            assert!(said.contains(says), "{option}: {said}");
        }
    }

    #[test]
    fn a_line_stays_when_it_was_asked_for_after_it_had_left() {
        let room = Room { blocks: 4, line: 1, fault: None };
        let mut policy = Config::default().build(room).expect("the options are good");
        let lines: Vec<Line> =
            (0..4).map(|number| Line { number, cached: 1, blocks: 1, ..Line::default() }).collect();
        for slot in 0..4 {
            policy.insert(slot, &lines, Arrival::by(Cause::Read));
        }
        assert_eq!(
            policy.victim(&lines, Recall::Nothing),
            Some(Victim::Whole(0)),
            "the oldest new line goes"
        );
        let recall = policy.miss(0, Cause::Read);
        assert_eq!(recall, Recall::Once);
        policy.insert(0, &lines, Arrival { recall, ..Arrival::by(Cause::Read) });
        let gone: Vec<_> = (0..3).filter_map(|_| policy.victim(&lines, Recall::Nothing)).collect();
        assert_eq!(
            gone,
            [Victim::Whole(1), Victim::Whole(2), Victim::Whole(0)],
            "A1in keeps its share of one line"
        );
    }

    /// The 2Q of `examples/python` is held against the same figures.
    #[test]
    fn it_misses_what_another_one_misses() {
        let want: Value = serde_json::from_str(include_str!("../misses.json")).expect("JSON");
        let wanted = Wanted {
            name: want["generator"].as_str().expect("a name").into(),
            settings: vec![GenSetting { key: "requests".into(), value: want["requests"].clone() }],
            seed: 1,
            ..Wanted::default()
        };
        let registry = crate::registry();
        let load = requests(&wanted, &registry, Console::SILENT).expect("a generator");
        let sizes = want["sizes"].as_array().expect("a list").iter();
        let asked = mrc::Asked {
            policies: vec![mrc::Policy::of("2q", &registry).expect("it is registered")],
            sizes: sizes.map(|size| size.to_string().parse().expect("blocks")).collect(),
            segment: None,
            sample: None,
            hashed: false,
            repeat: 1,
            threads: 1,
        };
        let curves = mrc::curves(load, &wanted.name, &asked).expect("curves").to_json();
        let misses: Value =
            curves["points"].as_array().expect("points").iter().map(|p| p["misses"].clone()).collect();
        assert_eq!(misses, want["2q"]);
    }
}
