//! SW Leveler: clear blocks that were not erased while others were erased many times (Chang, Hsieh, Kuo: "Endurance enhancement
//! of flash-memory storage systems: an efficient static wear leveling design", DAC 2007, section 3).
//!
//! A table of flags (the paper's BET) says which sets of 2^k blocks have seen an erase in this interval. The *unevenness* is the
//! erases of the interval over the flags that are set. When it comes to `unevenness`, the next set without a flag is cleared, in
//! turn from where the last one was. When all flags are set by then, a new interval begins.
//!
//! We differ:
//! - Each pool has a table and a turn of its own. The flags follow from the erases of the blocks, which are looked at when a block
//!   is cleared, and not at each erase. After a start an interval begins.
//! - A set is cleared block by block, one each time that clearing has paid for it. A block of it that was erased meanwhile is
//!   left out.
//! - A set in which no block may be moved is passed over, and an interval is over when none but such sets have no flag: the
//!   paper's controller may move every block, ours not those of other tenants. The next interval begins with the next look.
//! - The turn goes on where the last interval ended, and begins at the first set, not at a random one, so that a run can be
//!   repeated.
//!
//! Cost: one pass over the plane's counters for each block that is cleared and paid for; 4 bytes for each block of the plane, in
//! each pool.

use super::{LevellingOptions, Standing, WearPolicy, WearView, Worn};
use nandu_base::{Declared, options};
use std::ops::Range;

/// Options of `sw-leveler`.
#[options]
#[derive(Clone, Debug)]
pub struct SwLevelerConfig {
    /// Erases for each set of blocks that was erased at all, from which on one that was not is cleared.
    #[option(default = 100, range = 1..)]
    pub unevenness: u32,
    /// How many blocks share a flag, as a power of two.
    #[option(default = 0, range = ..=8)]
    pub set_bits: u32,
}

impl Declared for SwLevelerConfig {
    const NAME: &'static str = "sw-leveler";
    const SUMMARY: &'static str = "The next block that was not erased while others were erased many times.";
    const SOURCE: &'static str = "Chang, Hsieh, Kuo, DAC 2007";
    const DRAWS: &'static [&'static str] =
        &["unevenness = 1", "unevenness = 1, set_bits = 1", "unevenness = 2"];
}

impl LevellingOptions for SwLevelerConfig {
    type Policy = SwLeveler;

    fn build(&self, pools: u32, _endurance: u32) -> SwLeveler {
        SwLeveler {
            unevenness: self.unevenness,
            set_bits: self.set_bits,
            pools: vec![Interval::default(); pools as usize],
            sets: Vec::new(),
        }
    }
}

/// What is known of the interval of a pool.
#[derive(Clone, Debug, Default)]
struct Interval {
    /// The erases of each block when it began; none before the first look.
    began: Vec<u32>,
    /// The set from which on the next one is looked for.
    turn: usize,
    /// What is left of the set that is being cleared.
    rest: Range<usize>,
    /// Whether the last look found no set to clear.
    is_over: bool,
}

impl Interval {
    /// Begins with the erases as they are.
    fn begin(&mut self, blocks: &[Worn]) {
        self.began.clear();
        self.began.extend(blocks.iter().map(|worn| worn.erases));
        (self.rest, self.is_over) = (0..0, false);
    }

    /// Erases of a block since it began.
    fn since(&self, place: usize, worn: &Worn) -> u32 {
        worn.erases.saturating_sub(self.began[place])
    }
}

/// The policy.
#[derive(Clone, Debug)]
pub struct SwLeveler {
    unevenness: u32,
    set_bits: u32,
    pools: Vec<Interval>,
    /// Memory for the sets of a look.
    sets: Vec<Set>,
}

impl WearPolicy for SwLeveler {
    fn is_due(&mut self, pool: u32, is_paid: bool) -> bool {
        let interval = &mut self.pools[pool as usize];
        if is_paid && interval.is_over {
            interval.began.clear();
        }
        is_paid
    }

    fn victim(&mut self, view: WearView<'_>) -> Option<usize> {
        let interval = &mut self.pools[view.pool as usize];
        if interval.began.len() != view.blocks.len() {
            interval.begin(view.blocks);
            return None;
        }
        while let Some(place) = interval.rest.next() {
            if view.may_move(place) && interval.since(place, &view.blocks[place]) == 0 {
                return Some(place);
            }
        }
        let sets = &mut self.sets;
        sets.clear();
        sets.resize(view.blocks.len().div_ceil(1 << self.set_bits), Set::default());
        for (place, worn) in view.blocks.iter().enumerate().filter(|(_, worn)| worn.standing != Standing::Bad)
        {
            let set = &mut sets[place >> self.set_bits];
            set.erases += u64::from(interval.since(place, worn));
            set.may_move |= view.may_move(place);
        }
        let flags = sets.iter().filter(|set| set.erases > 0).count() as u64;
        let erases: u64 = sets.iter().map(|set| set.erases).sum();
        if flags == 0 || erases < flags * u64::from(self.unevenness) {
            return None;
        }
        let in_turn = (interval.turn..sets.len()).chain(0..interval.turn);
        let next = in_turn.into_iter().find(|&set| sets[set].erases == 0 && sets[set].may_move);
        interval.is_over = next.is_none();
        let set = next?;
        interval.turn = (set + 1) % sets.len();
        interval.rest = set << self.set_bits..view.blocks.len().min((set + 1) << self.set_bits);
        interval.rest.find(|&place| view.may_move(place))
    }
}

/// What the blocks of a set that are not bad have in common.
#[derive(Clone, Copy, Default, Debug)]
struct Set {
    /// Their erases in the interval; its flag is set when there are any.
    erases: u64,
    /// Whether one of them may be moved.
    may_move: bool,
}

#[cfg(test)]
mod tests {
    use super::super::tests::worn;
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn of(unevenness: u32, set_bits: u32) -> SwLeveler {
        SwLevelerConfig { unevenness, set_bits }.build(1, 0)
    }

    fn look(policy: &mut SwLeveler, blocks: &[(u32, Standing)]) -> Option<usize> {
        policy.victim(WearView { pool: 0, blocks: &worn(blocks.iter().copied()) })
    }

    /// A look when one is due, at blocks with so many erases that may all be moved but `kept`.
    fn asked(policy: &mut SwLeveler, erases: &[u32], kept: Option<usize>) -> Option<usize> {
        assert!(!policy.is_due(0, false) && policy.is_due(0, true));
        let standing = |place| if Some(place) == kept { Standing::Kept } else { Standing::Movable };
        let blocks: Vec<_> =
            erases.iter().enumerate().map(|(place, &erases)| (erases, standing(place))).collect();
        look(policy, &blocks)
    }

    #[test]
    fn the_next_block_without_an_erase_goes_when_the_others_have_many() {
        let policy = &mut of(3, 0);
        assert_eq!(asked(policy, &[5, 5, 5, 5], None), None, "the interval begins");
        assert_eq!(asked(policy, &[7, 5, 5, 5], None), None, "two erases for one flag");
        assert_eq!(asked(policy, &[8, 5, 5, 5], None), Some(1));
        assert_eq!(asked(policy, &[10, 6, 5, 5], None), Some(2), "six erases for two flags");
        assert_eq!(asked(policy, &[13, 6, 5, 5], Some(3)), Some(2), "what must stay is passed over");
        assert_eq!(
            asked(policy, &[13, 6, 6, 5], Some(3)),
            None,
            "nothing else is left: the interval is over"
        );
        assert_eq!(asked(policy, &[13, 6, 6, 5], None), None, "the next one begins");
        assert_eq!(asked(policy, &[16, 6, 6, 5], None), Some(3), "in turn from the last one on");
        assert_eq!(asked(policy, &[16, 6, 6, 6], None), None);
        assert_eq!(
            asked(policy, &[18, 6, 6, 6], None),
            Some(1),
            "six erases for two flags, and the turn begins anew"
        );
    }

    #[test]
    fn a_set_of_blocks_has_one_flag_and_is_cleared_whole() {
        let policy = &mut of(3, 1);
        assert_eq!(asked(policy, &[0; 5], None), None);
        assert_eq!(
            asked(policy, &[3, 0, 0, 0, 0], None),
            Some(2),
            "the second block shares the flag of the first"
        );
        assert_eq!(asked(policy, &[3, 0, 1, 0, 0], None), Some(3), "the set is cleared to its end");
        assert_eq!(asked(policy, &[3, 0, 1, 1, 0], None), None, "five erases for two flags");
        assert_eq!(asked(policy, &[4, 0, 1, 1, 0], None), Some(4), "the last set has one block");
    }

    #[test]
    fn what_was_erased_or_must_stay_is_left_out_of_a_set() {
        let policy = &mut of(2, 2);
        assert_eq!(asked(policy, &[0; 8], None), None);
        assert_eq!(asked(policy, &[2, 0, 0, 0, 0, 0, 0, 0], None), Some(4));
        assert_eq!(asked(policy, &[2, 0, 0, 0, 1, 1, 0, 0], Some(6)), Some(7));
        assert_eq!(asked(policy, &[2, 0, 0, 0, 1, 1, 0, 1], None), None);
    }

    #[test]
    fn an_interval_is_over_when_no_tenant_has_anything_left() {
        use Standing::{Bad, Kept, Movable};
        let policy = &mut of(2, 0);
        let own = |erases: [u32; 4]| {
            [(erases[0], Movable), (erases[1], Movable), (erases[2], Kept), (erases[3], Bad)]
        };
        let others = |erases: [u32; 4]| {
            own(erases).map(|(erases, standing)| match standing {
                Movable => (erases, Kept),
                Kept => (erases, Movable),
                Bad => (erases, Bad),
            })
        };
        assert_eq!(look(policy, &own([0; 4])), None);
        assert_eq!(look(policy, &own([3, 1, 0, 9])), None, "nothing of its own");
        assert_eq!(
            look(policy, &others([3, 1, 0, 9])),
            Some(2),
            "asked again before one is due: it is the same interval"
        );
        assert_eq!(look(policy, &own([3, 1, 0, 9])), None);
        assert!(policy.is_due(0, true));
        assert_eq!(look(policy, &own([4, 1, 0, 9])), None, "the next interval begins");
        assert_eq!(look(policy, &own([6, 1, 0, 9])), Some(1));
    }

    #[test]
    fn each_pool_has_an_interval() {
        let mut policy = SwLevelerConfig { unevenness: 2, set_bits: 0 }.build(2, 0);
        let mut look = |pool, erases: [u32; 2]| {
            policy.victim(WearView { pool, blocks: &worn(erases.map(|erases| (erases, Standing::Movable))) })
        };
        assert_eq!(
            [look(0, [0, 0]), look(1, [7, 0]), look(0, [2, 0]), look(1, [8, 0]), look(1, [9, 0])],
            [None, None, Some(1), None, Some(1)]
        );
    }

    proptest! {
        /// The obvious model: the erases of the interval as a log, the flags as a set, the blocks of the set that is cleared as a list.
        #[test]
        fn agrees_with_a_log_of_erases(
            steps in prop::collection::vec((0usize..7, 0usize..9), 1..200),
            unevenness in 1u32..6,
            set_bits in 0u32..3,
        ) {
            let (mut policy, mut erases) = (of(unevenness, set_bits), [0u32; 7]);
            let width = 1 << set_bits;
            let (mut log, mut turn, mut list, mut is_over) = (Vec::new(), 0, Vec::new(), false);
            asked(&mut policy, &erases, None);
            for (block, kept) in steps {
                erases[block] += 1;
                log.push(block);
                let sets: Vec<Vec<usize>> = (0..7).collect::<Vec<_>>().chunks(width).map(<[usize]>::to_vec).collect();
                let flags: BTreeSet<usize> = log.iter().map(|block| block / width).collect();
                let goes = |log: &[usize], block: usize| block != kept && !log.contains(&block);
                let want = if std::mem::take(&mut is_over) {
                    (log, list) = (Vec::new(), Vec::new());
                    None
                } else if let Some(at) = list.iter().position(|&block| goes(&log, block)) {
                    list.drain(..=at).next_back()
                } else if log.len() < flags.len() * unevenness as usize {
                    list.clear();
                    None
                } else {
                    let open = |&set: &usize| !flags.contains(&set) && sets[set].iter().any(|&block| goes(&log, block));
                    let next = (0..sets.len()).map(|n| (turn + n) % sets.len()).find(open);
                    is_over = next.is_none();
                    next.and_then(|set| {
                        turn = set + 1;
                        let at = sets[set].iter().position(|&block| goes(&log, block))?;
                        list = sets[set][at + 1..].to_vec();
                        Some(sets[set][at])
                    })
                };
                prop_assert_eq!(asked(&mut policy, &erases, Some(kept)), want);
            }
        }
    }
}
