//! Threshold: clear the least worn block with data when the most worn one of the plane has been erased more often by more than
//! the allowed spread.
//!
//! Of every so many blocks that a pool clears, one may be cleared so. Own design, after the dual pools of Chang ("On efficient wear
//! leveling for large-scale flash-memory storage systems", SAC 2007); we keep no pools, and look at all blocks instead.
//!
//! Ties go to the lowest block number. Cost: one pass over the plane's counters for each block that may be cleared, two more where they are too far apart; 4
//! bytes of state for a pool.

use super::{LevellingOptions, WearPolicy, WearView};
use nandu_base::{BuildError, Declared, options};

/// Options of `threshold`.
#[options]
#[derive(Clone, Debug)]
pub struct ThresholdConfig {
    /// Cold data is moved when the erases of two blocks of a plane differ by more than this.
    #[option(unset = "a twentieth of the endurance", off = "never")]
    pub static_wl_threshold: Option<u32>,
    /// Of so many blocks that are cleared, one may be cleared for its wear, once as many pages as it has were gained.
    #[option(default = 16, range = 1..)]
    pub static_wl_interval: u32,
}

impl Declared for ThresholdConfig {
    const NAME: &'static str = "threshold";
    const SUMMARY: &'static str = "The least worn block, when the most worn one is too far ahead.";
    const SOURCE: &'static str = "after Chang, SAC 2007";
    const DRAWS: &'static [&'static str] = &[
        "static_wl_threshold = 2, static_wl_interval = 2",
        "static_wl_threshold = 1, static_wl_interval = 1",
    ];
}

impl LevellingOptions for ThresholdConfig {
    type Policy = Threshold;

    fn check(&self) -> Result<(), BuildError> {
        let is_usual = self.static_wl_interval == ThresholdConfig::default().static_wl_interval;
        if self.static_wl_threshold == Some(0) && !is_usual {
            let why = "with `static_wl_threshold = 0` no block is cleared for its wear: give another spread, or leave it out";
            return Err(BuildError::at("wear.static_wl_interval", why));
        }
        Ok(())
    }

    fn build(&self, pools: u32, endurance: u32) -> Threshold {
        let spread = match self.static_wl_threshold {
            Some(0) => u32::MAX,
            Some(spread) => spread,
            None => (endurance / 20).max(8),
        };
        Threshold::new(spread, self.static_wl_interval, pools)
    }
}

/// The policy.
#[derive(Clone, Debug)]
pub struct Threshold {
    /// Erases that two blocks of a plane may differ by.
    spread: u32,
    /// Blocks cleared before one may be cleared for its wear.
    every: u32,
    /// Blocks of each pool cleared since.
    since: Vec<u32>,
}

impl Threshold {
    /// Of blocks that may differ by `spread` erases, `u32::MAX` for any number, one of `every` that are cleared in each of so many pools.
    pub fn new(spread: u32, every: u32, pools: u32) -> Threshold {
        Threshold { spread, every, since: vec![0; pools as usize] }
    }
}

impl WearPolicy for Threshold {
    fn is_due(&mut self, pool: u32, is_paid: bool) -> bool {
        let since = &mut self.since[pool as usize];
        *since += 1;
        let is_due = self.spread != u32::MAX && *since >= self.every && is_paid;
        if is_due {
            *since = 0;
        }
        is_due
    }

    fn is_level(&self, least: u32, most: u32) -> bool {
        most - least <= self.spread
    }

    fn victim(&mut self, view: WearView<'_>) -> Option<usize> {
        let most = view.most();
        let erases = |place: usize| view.blocks[place].erases;
        let movable = (0..view.blocks.len()).filter(|&place| view.may_move(place));
        movable.filter(|&place| most - erases(place) > self.spread).min_by_key(|&place| erases(place))
    }
}

#[cfg(test)]
mod tests {
    use super::super::Standing;
    use super::super::tests::blocks;
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// The obvious model: sort what may be moved by (erases, number) and take the first, if it is far enough behind.
        #[test]
        fn agrees_with_sorting(blocks in blocks(), spread in 0u32..20) {
            let good = |place: &usize| blocks[*place].standing != Standing::Bad;
            let most = (0..blocks.len()).filter(good).map(|place| blocks[place].erases).max();
            let mut order: Vec<usize> =
                (0..blocks.len()).filter(|&place| blocks[place].standing == Standing::Movable).collect();
            order.sort_by_key(|&place| (blocks[place].erases, place));
            let is_cold = |place: &usize| most.is_some_and(|most| most > blocks[*place].erases + spread);
            let want = order.first().copied().filter(is_cold);
            let view = WearView { pool: 0, blocks: &blocks };
            let mut policy = Threshold::new(spread, 1, 1);
            prop_assert_eq!(policy.victim(view), want);
            let erases = || (0..blocks.len()).filter(good).map(|place| blocks[place].erases);
            if let Some((least, most)) = erases().min().zip(erases().max()) {
                prop_assert_eq!(policy.is_level(least, most), most - least <= spread);
                prop_assert!(!policy.is_level(least, most) || want.is_none());
            }
        }
    }

    #[test]
    fn one_of_so_many_is_due_once_it_is_paid_for() {
        let mut policy = Threshold::new(4, 3, 2);
        assert_eq!(
            [true, true, false, true, true].map(|is_paid| policy.is_due(1, is_paid)),
            [false, false, false, true, false]
        );
        assert!(!policy.is_due(0, true), "each pool has its own turn");
        assert!((0..9).all(|_| !Threshold::new(u32::MAX, 1, 1).is_due(0, true)), "never is never");
    }
}
