//! `rotate`: of every so many blocks that are cleared, clear the next one in turn for its wear, whatever it has worn.
//!
//! Data that rests moves on by itself, and nobody counts erases. Ban, "Wear leveling of static areas in flash memory", US patent
//! 6,732,221 (2004), the form that chooses deterministically.
//!
//! Where we differ: each pool of a plane has a count and a turn of its own, the count is of blocks that are cleared for room, and a
//! block that must not be moved is passed over. The turn comes when it is paid for, so later where clearing gains little.
//!
//! Cost: a look at the blocks that are passed over for each one that is named. 8 bytes for each pool.

use nandu::levelling::{LevellingOptions, WearPolicy, WearView};
use nandu::{Declared, options};

/// Options of `rotate`.
#[options(crate = nandu)]
#[derive(Clone, Debug)]
pub struct Config {
    /// Of so many blocks that are cleared, one is followed by the next in turn.
    #[option(default = 100, range = 1..)]
    interval: u32,
}

impl Declared for Config {
    const NAME: &'static str = "rotate";
    const SUMMARY: &'static str = "The next block in turn, whatever it has worn.";
    const SOURCE: &'static str = "Ban, US patent 6,732,221 (2004)";
    const DRAWS: &'static [&'static str] = &["interval = 1", "interval = 3"];
}

impl LevellingOptions for Config {
    type Policy = Rotate;

    fn build(&self, pools: u32, _endurance: u32) -> Rotate {
        Rotate { interval: self.interval, pools: vec![Turn::default(); pools as usize] }
    }
}

/// What is known of a pool.
#[derive(Clone, Default)]
struct Turn {
    /// Blocks cleared since the last one in turn.
    since: u32,
    /// The place from which on the next one is looked for.
    next: u32,
}

/// The policy.
pub struct Rotate {
    interval: u32,
    pools: Vec<Turn>,
}

impl WearPolicy for Rotate {
    fn is_due(&mut self, pool: u32, is_paid: bool) -> bool {
        let turn = &mut self.pools[pool as usize];
        turn.since += 1;
        let is_due = is_paid && turn.since >= self.interval;
        if is_due {
            turn.since = 0;
        }
        is_due
    }

    fn victim(&mut self, view: WearView<'_>) -> Option<usize> {
        let turn = &mut self.pools[view.pool as usize];
        let from = (turn.next as usize).min(view.blocks.len());
        let place = (from..view.blocks.len()).chain(0..from).find(|&place| view.may_move(place))?;
        turn.next = place as u32 + 1;
        Some(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandu::levelling::{Standing, Worn};
    use nandu::victim::BlockId;

    #[test]
    fn blocks_go_in_turn_and_what_must_stay_is_passed_over() {
        let mut policy = Config { interval: 1 }.build(1, 0);
        let standings = [Standing::Movable, Standing::Kept, Standing::Movable, Standing::Bad];
        let blocks = standings.map(|standing| Worn { block: BlockId(0), erases: 0, standing });
        let mut next = || policy.victim(WearView { pool: 0, blocks: &blocks });
        assert_eq!([next(), next(), next()], [Some(0), Some(2), Some(0)]);
        assert_eq!(policy.victim(WearView { pool: 0, blocks: &blocks[1..2] }), None);
    }

    #[test]
    fn one_of_so_many_is_due() {
        let mut policy = Config { interval: 2 }.build(2, 0);
        let mut due = |pool, is_paid| policy.is_due(pool, is_paid);
        assert_eq!(
            [due(0, true), due(1, true), due(0, false), due(0, true), due(0, true)],
            [false, false, false, true, false]
        );
    }
}
