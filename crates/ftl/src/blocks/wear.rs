//! Wear: which erased block is opened next, how many erases a block stands, and what happens to one that is worn out.
//!
//! *Dynamic levelling* is the choice among erased blocks ([`FreeOrder`]). *Static levelling* is the controller's: it clears
//! a block for its wear, which a policy names ([`crate::wear`]).
//!
//! *Endurance.* A block is made for so many program and erase cycles, each block for its own number when they vary: it is drawn
//! from the seed and the block's number, so it is the same after every start. A block that comes to its number is bad from
//! that erase on: it is never opened again, and its plane holds that much less. Bad blocks from the factory have the number 0
//! and are drawn the same way; the first blocks of a plane are good, as makers promise of the first block of a chip.
//!
//! *End of life.* A block is retired only when the plane keeps an erased one and room for what it holds, and the drive room
//! for all its logical pages. When there is no such room, the block stays in use past its number and the drive is
//! [worn out](BlockTable::is_worn_out): the controller takes no more writes.
//!
//! *After a power cut* nothing of this is on record, and nothing has to be: the medium knows each block's erases, and the rest
//! follows from them and the seed. That the drive was worn out shows when the next block comes to its number, so after a start
//! it may take a few more writes.
//!
//! RAM: 1 byte per block.

use super::{BlockTable, FreeList, NONE};
use crate::address::{BlockId, Layout};
use crate::wear::{Standing, Worn};
use nandu_base::{Ratio, Rng};

/// Which of a plane's erased blocks is opened next.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum FreeOrder {
    /// The one that was erased longest ago: all take their turn.
    #[default]
    Fifo,
    /// For the host's pages the one with the fewest erases, for moved pages, which change less often, the one with the most.
    LeastWorn,
}

/// Which of the erased blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Choice {
    First,
    LeastWorn,
    MostWorn,
}

impl FreeOrder {
    pub(super) fn of_host(self) -> Choice {
        match self {
            FreeOrder::Fifo => Choice::First,
            FreeOrder::LeastWorn => Choice::LeastWorn,
        }
    }

    pub(super) fn of_moved(self) -> Choice {
        match self {
            FreeOrder::Fifo => Choice::First,
            FreeOrder::LeastWorn => Choice::MostWorn,
        }
    }
}

/// How the blocks of a drive wear.
#[derive(Clone, Copy, Debug)]
pub struct WearRules {
    /// Which erased block is opened next.
    pub order: FreeOrder,
    /// Erases that a block stands on the mean; 0 for any number.
    pub endurance: u32,
    /// How far a block's own number may lie from the mean, as a share of it, below 1.
    pub variation: Ratio,
    /// Share of the blocks that are bad from the factory.
    pub factory_bad: Ratio,
    /// Blocks at the start of each plane that are not bad from the factory.
    pub good_first: u32,
    /// The seed of the draws.
    pub seed: u64,
    /// Blocks of which each of ours is made: it ends with the first of them.
    pub width: u32,
    /// A fault to plant: a worn out block is used again.
    pub keeps_worn: bool,
}

impl Default for WearRules {
    /// Nothing ever wears out.
    fn default() -> WearRules {
        WearRules {
            order: FreeOrder::default(),
            endurance: 0,
            variation: Ratio::new(0, 1),
            factory_bad: Ratio::new(0, 1),
            good_first: 1,
            seed: 0,
            width: 1,
            keeps_worn: false,
        }
    }
}

impl WearRules {
    /// Whether a block is bad from the factory.
    pub fn is_factory_bad(&self, layout: &Layout, block: BlockId) -> bool {
        let index = block.0 - layout.first_block(layout.plane_of_block(block)).0;
        let draw = || Rng::new(self.seed).fork(2 * u64::from(block.0)).chance(self.factory_bad);
        self.factory_bad.num > 0 && index >= self.good_first && draw()
    }

    /// Erases that a block stands.
    pub fn limit(&self, block: BlockId) -> u32 {
        if self.endurance == 0 {
            return u32::MAX;
        }
        let span = self.variation.of(u64::from(self.endurance));
        let name = |member: u32| u64::from(block.0) * u64::from(self.width) + u64::from(member);
        let draw = |member| Rng::new(self.seed).fork(2 * name(member) + 1).between(0, 2 * span);
        let least = || (0..self.width).map(draw).min().unwrap_or(0);
        let limit = u64::from(self.endurance) + if span > 0 { least() } else { 0 } - span;
        limit.clamp(1, u64::from(u32::MAX)) as u32
    }
}

/// The wear of a drive.
#[derive(Clone, Debug)]
pub(super) struct Wear {
    pub rules: WearRules,
    /// Whether each block is bad.
    pub bad: Vec<bool>,
    /// Bad blocks by plane.
    pub bad_in: Vec<u32>,
    /// Valid pages that the planes together must be able to hold.
    pub needed: u64,
    pub worn_out: bool,
    pub retired: u32,
    /// Who owns each plane, where planes have owners that end one by one.
    pub owners: Vec<u16>,
    /// Of each owner, the valid pages that its planes must be able to hold, and whether they cannot any more.
    pub ends: Vec<(u64, bool)>,
}

impl Wear {
    pub fn new(layout: &Layout, rules: WearRules) -> Wear {
        let mut wear = Wear {
            rules,
            bad: vec![false; layout.block_end() as usize],
            bad_in: vec![0; layout.planes as usize],
            needed: 0,
            worn_out: false,
            retired: 0,
            owners: Vec::new(),
            ends: Vec::new(),
        };
        if rules.factory_bad.num > 0 {
            for block in layout.all_blocks().filter(|&block| rules.is_factory_bad(layout, block)) {
                wear.bad[block.0 as usize] = true;
                wear.bad_in[layout.plane_of_block(block) as usize] += 1;
            }
        }
        wear
    }
}

impl BlockTable {
    /// The rules of wear.
    pub fn wear_rules(&self) -> &WearRules {
        &self.wear.rules
    }

    /// Whether a block is bad.
    #[inline]
    pub fn is_bad(&self, block: BlockId) -> bool {
        self.wear.bad[block.0 as usize]
    }

    /// Bad blocks of a plane.
    pub fn bad_in(&self, plane: u32) -> u32 {
        self.wear.bad_in[plane as usize]
    }

    /// Blocks that were retired since the start.
    pub fn retired(&self) -> u32 {
        self.wear.retired
    }

    /// Whether too few blocks are left to take more writes.
    pub fn is_worn_out(&self) -> bool {
        self.wear.worn_out
    }

    /// Says how much each plane may hold: all of its good blocks but `reserved`, and how many valid pages all planes together
    /// must be able to hold.
    pub fn set_rooms(&mut self, reserved: u32, needed: u64) {
        self.wear.needed = needed;
        if !self.shares.is_empty() {
            return;
        }
        for (plane, bad) in self.planes.iter_mut().zip(&self.wear.bad_in) {
            plane.valid_max = self.layout.blocks.saturating_sub(bad + reserved) * self.layout.pages;
        }
    }

    /// Valid pages that all planes together may hold.
    pub fn room(&self) -> u64 {
        self.planes.iter().map(|p| u64::from(p.valid_max)).sum()
    }

    /// Cycles of a block: its erases, those of SLC mode weighed.
    pub fn cycles(&self, block: BlockId) -> u32 {
        let erases = self.erases[block.0 as usize];
        match &self.modes {
            None => erases,
            Some(modes) => modes.cycles(block, erases, self.wear.rules.endurance),
        }
    }

    /// Retires an erased block that has come to its number of erases, when `least_free` other blocks of its plane are erased
    /// and there is room. False when it stays in use.
    pub(super) fn retire(&mut self, block: BlockId, least_free: u32) -> bool {
        if self.cycles(block) < self.wear.rules.limit(block) || self.wear.worn_out || !self.shares.is_empty()
        {
            return false;
        }
        let plane = self.layout.plane_of_block(block) as usize;
        let owner = self.wear.owners.get(plane).map(|&owner| usize::from(owner));
        if owner.is_some_and(|owner| self.wear.ends.get(owner).is_none_or(|end| end.1)) {
            return false;
        }
        let pages = self.layout.pages;
        let (needed, room) = match owner {
            None => (self.wear.needed, self.room()),
            Some(owner) => (self.wear.ends[owner].0, self.room_of_owner(owner)),
        };
        let p = &mut self.planes[self.pool_of[block.0 as usize] as usize];
        if p.valid + pages > p.valid_max || needed + u64::from(pages) > room {
            match owner {
                None => self.wear.worn_out = true,
                Some(owner) => self.wear.ends[owner].1 = true,
            }
            return false;
        }
        if p.free < least_free {
            return false;
        }
        p.valid_max -= pages;
        self.wear.bad[block.0 as usize] = true;
        self.wear.bad_in[plane] += 1;
        self.wear.retired += 1;
        self.oldest[block.0 as usize] = u64::MAX;
        !self.wear.rules.keeps_worn
    }

    /// Whether a block has come to its number of erases, on a drive that can still do without some.
    pub fn is_spent(&self, block: BlockId) -> bool {
        !self.wear.worn_out && self.cycles(block) >= self.wear.rules.limit(block)
    }

    /// A block that is spent, and looked after by somebody else, is bad from here on; false when it is used nevertheless.
    pub fn give_up(&mut self, block: BlockId) -> bool {
        self.wear.bad[block.0 as usize] = true;
        self.wear.bad_in[self.layout.plane_of_block(block) as usize] += 1;
        self.wear.retired += 1;
        !self.wear.rules.keeps_worn
    }

    /// After a start: retires the erased blocks that had come to their number of erases.
    pub fn retire_after_start(&mut self) {
        if self.wear.rules.endurance == 0 || !self.shares.is_empty() {
            return;
        }
        for plane in 0..self.layout.planes {
            let erased: Vec<BlockId> = self.free_in(plane).collect();
            let mut kept = Vec::with_capacity(erased.len());
            for (at, &block) in erased.iter().enumerate() {
                self.planes[plane as usize].free = (kept.len() + erased.len() - at - 1) as u32;
                if !self.retire(block, 1) {
                    kept.push(block);
                }
            }
            self.free[plane as usize] = FreeList::EMPTY;
            self.planes[plane as usize].free = 0;
            kept.into_iter().for_each(|block| self.push_free(block));
        }
    }

    /// Takes one of a pool's erased blocks out of its plane's list: the first, or the least or the most worn.
    pub(super) fn take_free(&mut self, pool: u32, choice: Choice) -> Option<u32> {
        let plane = self.plane_of_pool(pool);
        let head = self.free[plane as usize].head;
        if head == NONE || self.planes[pool as usize].free == 0 {
            return None;
        }
        let mut best = (NONE, head);
        if choice != Choice::First {
            let (mut before, mut block) = (NONE, head);
            let key = |block: u32| {
                let erases = self.erases[block as usize];
                if choice == Choice::MostWorn { u32::MAX - erases } else { erases }
            };
            while block != NONE {
                // Nothing is less worn than a new block.
                if key(block) < key(best.1) {
                    best = (before, block);
                }
                if key(best.1) == 0 {
                    break;
                }
                (before, block) = (block, self.next_free[block as usize]);
            }
        }
        let (before, block) = best;
        let next = self.next_free[block as usize];
        let list = &mut self.free[plane as usize];
        if before == NONE {
            list.head = next;
        } else {
            self.next_free[before as usize] = next;
        }
        if list.tail == block {
            list.tail = before;
        }
        self.planes[pool as usize].free -= 1;
        Some(block)
    }

    /// The erases of the blocks of a pool's plane that are not bad.
    pub fn erases_of_plane(&self, pool: u32) -> impl Iterator<Item = u32> {
        let all = self.layout.plane_blocks(self.plane_of_pool(pool));
        all.filter(|&block| !self.is_bad(block)).map(|block| self.erases(block))
    }

    /// The blocks of a pool's plane with their erases, and what can be done with each for its wear; `may` says which of those that hold
    /// something may be moved.
    pub fn wear_of_plane(&self, pool: u32, may: impl Fn(BlockId) -> bool) -> impl Iterator<Item = Worn> {
        self.layout.plane_blocks(self.plane_of_pool(pool)).map(move |block| {
            let standing = match self.is_bad(block) {
                true => Standing::Bad,
                false if self.is_written(self.layout.first_page(block)) && may(block) => Standing::Movable,
                false => Standing::Kept,
            };
            Worn { block, erases: self.erases(block), standing }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Lpn;
    use crate::blocks::Content;
    use proptest::prelude::*;

    fn table(rules: WearRules) -> BlockTable {
        let mut table = BlockTable::with_wear(Layout::new(1, 12, 4).unwrap(), rules);
        table.set_rooms(5, 8);
        table
    }

    #[test]
    fn a_block_that_comes_to_its_number_is_never_opened_again() {
        let mut t = table(WearRules { endurance: 2, ..WearRules::default() });
        let block = t.open_free(0, 1).unwrap().block(t.layout());
        t.erased(block);
        assert!(!t.is_bad(block));
        for _ in 0..11 {
            t.open_free(0, 1);
        }
        assert_eq!(t.open_free(0, 1).unwrap().block(t.layout()), block);
        // No other block is erased: it goes one more round.
        t.erased(block);
        assert!(!t.is_bad(block) && !t.is_worn_out());
        let other = BlockId(5);
        t.erased(other);
        let again = t.open_free(0, 1).unwrap().block(t.layout());
        t.erased(again);
        assert!(again == block && t.is_bad(block));
        assert_eq!((t.retired(), t.room(), t.planes[0].free), (1, 24, 1));
        assert_eq!(t.open_free(0, 1).unwrap().block(t.layout()), other);
        assert_eq!(t.open_free(0, 1), None);
    }

    #[test]
    fn blocks_retire_until_the_room_is_used_up() {
        let mut t = table(WearRules { endurance: 1, ..WearRules::default() });
        let mut retired = 0;
        while !t.is_worn_out() {
            let block = t.open_free(0, 1).unwrap().block(t.layout());
            t.erased(block);
            retired += u32::from(t.is_bad(block));
        }
        // Room for 7 blocks of 4 pages, 8 pages are needed: five may go.
        assert_eq!((retired, t.room()), (5, 8));
        let free = t.planes[0].free;
        t.erased(BlockId(0));
        assert_eq!(t.planes[0].free, free + 1, "a drive that is worn out retires nothing");
    }

    #[test]
    fn what_wears_is_the_same_after_a_start() {
        let rules = WearRules {
            endurance: 3,
            variation: Ratio::new(1, 2),
            factory_bad: Ratio::new(1, 6),
            seed: 5,
            ..WearRules::default()
        };
        let mut t = table(rules);
        let factory = t.bad_in(0);
        assert!((1..4).contains(&factory), "seed 5 has {factory} of 12");
        for _ in 0..60 {
            if t.is_worn_out() {
                break;
            }
            let block = t.open_free(0, 1).unwrap().block(t.layout());
            t.erased(block);
        }
        assert!(t.retired() > 0);
        let mut again = t.for_recovery();
        for block in again.layout().all_blocks() {
            again.restore_block(block, 0, 0, u64::MAX, t.erases(block));
        }
        again.set_rooms(5, 8);
        again.retire_after_start();
        assert_eq!(again.wear.bad, t.wear.bad);
        assert_eq!((again.room(), again.planes[0].free), (t.room(), t.planes[0].free));
        assert_eq!(again.free_blocks().count(), t.free_blocks().count());
    }

    #[test]
    fn a_block_that_is_moved_for_its_wear_is_written_and_not_open() {
        let mut t = table(WearRules::default());
        for lpn in 0..3 {
            let ppn = t.open_free(0, 1).unwrap().take();
            t.programmed(ppn, Content::Data(Lpn(lpn)));
        }
        for _ in 0..4 {
            t.wore(BlockId(1));
            t.wore(BlockId(2));
            t.wore(BlockId(2));
        }
        let standing = |may: fn(BlockId) -> bool| {
            t.wear_of_plane(0, may).map(|worn| (worn.erases, worn.standing)).collect::<Vec<_>>()
        };
        let all = standing(|_| true);
        assert_eq!(
            all[..4],
            [(0, Standing::Movable), (4, Standing::Movable), (8, Standing::Movable), (0, Standing::Kept)]
        );
        assert_eq!(standing(|block| block != BlockId(0))[..2], [(0, Standing::Kept), (4, Standing::Movable)]);
    }

    proptest! {
        /// The obvious model: a list, sorted before each choice.
        #[test]
        fn free_blocks_are_taken_as_from_a_sorted_list(steps in prop::collection::vec((any::<bool>(), 0u32..4), 1..60)) {
            let mut t = table(WearRules { order: FreeOrder::LeastWorn, ..WearRules::default() });
            let mut free: Vec<u32> = (0..12).collect();
            let mut taken = Vec::new();
            for (is_for_moved, back) in steps {
                let erases = |&b: &u32| t.erases(BlockId(b));
                let want = match is_for_moved {
                    true => free.iter().copied().rev().max_by_key(erases),
                    false => free.iter().copied().min_by_key(erases),
                };
                let got = if is_for_moved { t.open_free_for_moved(0, 1) } else { t.open_free(0, 1) };
                let got = got.map(|cursor| cursor.block(t.layout()).0);
                prop_assert_eq!(got, want);
                free.retain(|b| Some(*b) != got);
                taken.extend(got);
                for _ in 0..back.min(taken.len() as u32) {
                    let block = taken.remove(0);
                    t.erased(BlockId(block));
                    free.push(block);
                }
                prop_assert_eq!(t.free_blocks().map(|b| b.0).collect::<Vec<_>>(), free.clone());
            }
        }
    }
}
