//! Log-block translation: logical blocks lie whole in data blocks, and what is overwritten goes to a few log blocks first.
//!
//! The map of a whole drive is then one entry per block, small enough for the RAM of a memory card. The price is the
//! *merge*: when log blocks run out, the newest pages of a logical block are brought together in one block again.
//!
//! - *Switch merge*: the log block holds every page of its logical block at its own position; it becomes the data block.
//! - *Partial merge*: it holds the first pages so; the rest is copied behind them, and it becomes the data block.
//! - *Full merge*: the newest version of each page is copied into a free block.
//!
//! Three members of the family, one file each: [`BlockMap`] (no log but a replacement block), [`Bast`] (a log block
//! belongs to one logical block), [`Fast`] (log blocks are shared by all). Each looks after one plane; a drive has one for
//! each of its planes ([`LogMap`]). They decide *where*; the executor in `nandu-device` decides *when*.
//!
//! *In-order programming.* The papers write a page of a data block wherever it belongs. Flash of today takes the pages of
//! a block in order only, so a page that would leave a gap goes to the log, and a merge fills gaps with filler pages.
//!
//! *Trims* (own design; the papers have none): a *mark*, one page in the log that names the pages of one logical block that
//! are unmapped. It counts until the logical block is merged.
//!
//! *Power cuts* (own design): every page carries a [`Tag`] in its out-of-band record, with the role of its block and the
//! block's number in the order of opening. See [`recover`].
//!
//! RAM here: 4 bytes per logical and per physical page; a real controller keeps [`LogBlocks::map_ram`].

pub mod bast;
pub mod block_map;
pub mod fast;
pub mod homes;
pub mod map;
pub mod merge;
mod options;
pub mod recover;
pub mod region;
pub mod tag;

pub use bast::{Bast, BastConfig};
pub use block_map::{BlockMap, BlockMapConfig};
pub use fast::{Fast, FastConfig};
pub use homes::Homes;
pub use map::LogMap;
pub use options::{DealtOptions, LogBlockOptions, log_blocks};
pub use region::{NONE, Part, Region, Shape};
pub use tag::{Role, Tag};

/// Faults that are planted; all false outside `verify --inject-bug`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Planted {
    /// A merge now and then copies the version in the data block although the log has a newer one.
    pub stale_page_wins: bool,
    /// A log block now and then counts as in order although it is not.
    pub wrong_switch: bool,
}

/// A page that was taken, and what its out-of-band record says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Taken {
    /// The physical page, as [`Region`] numbers them.
    pub spot: u32,
    /// Where the version before lies; it stays readable until the next step of a merge.
    pub old: Option<u32>,
    /// The out-of-band record.
    pub tag: Tag,
}

/// What a trim of some pages of a logical block needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unmapped {
    /// Nothing: none of them is mapped.
    Nothing,
    /// A mark at this page.
    Mark(Taken),
    /// The merge that has begun: when its last step is complete, the pages are unmapped for good.
    Merge,
}

/// One flash operation of a merge.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// Copy a page.
    Copy {
        /// Its newest version.
        from: u32,
        /// Where it goes.
        to: Taken,
    },
    /// Program a page without data, for the pages above it to be in order.
    Filler(Taken),
    /// Erase a block; all its pages have newer versions, and those were issued before.
    Erase(u32),
}

/// What happened since the counters were reset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Switch merges.
    pub switches: u64,
    /// Partial merges.
    pub partials: u64,
    /// Full merges.
    pub fulls: u64,
    /// Pages copied.
    pub copies: u64,
    /// Pages programmed without data.
    pub fillers: u64,
    /// Trim marks.
    pub marks: u64,
    /// Pages that trims unmapped.
    pub unmapped: u64,
    /// Log blocks given up.
    pub logs_closed: u64,
    /// Pages that were written in them.
    pub log_pages_used: u64,
}

impl Counts {
    /// Adds those of another plane.
    pub fn add(&mut self, other: &Counts) {
        self.switches += other.switches;
        self.partials += other.partials;
        self.fulls += other.fulls;
        self.copies += other.copies;
        self.fillers += other.fillers;
        self.marks += other.marks;
        self.unmapped += other.unmapped;
        self.logs_closed += other.logs_closed;
        self.log_pages_used += other.log_pages_used;
    }
}

/// Block map with a log, for one plane.
///
/// A write asks for a page ([`take`](LogBlocks::take)). When there is none, a merge has begun: its steps are done one by
/// one, in order ([`step`](LogBlocks::step)), until there is none left; then the write asks again. The controller issues all of
/// them at once, each behind the one before: when they run is the executor's business.
pub trait LogBlocks: Send {
    /// The blocks.
    fn region(&self) -> &Region;

    /// The blocks, to change.
    fn region_mut(&mut self) -> &mut Region;

    /// Takes the page for a new version of logical page `page`. `None`: a merge has begun.
    fn take(&mut self, page: u32) -> Option<Taken>;

    /// Unmaps pages `first..end` of one logical block. `None`: a merge has begun that must be done before.
    fn unmap(&mut self, first: u32, end: u32) -> Option<Unmapped>;

    /// The next step of the merge that has begun; `None` when it is complete.
    fn step(&mut self) -> Option<Step>;

    /// Whether a merge has begun and is not complete.
    fn is_merging(&self) -> bool;

    /// Log blocks in use.
    fn logs(&self) -> u32;

    /// Log blocks that may be opened yet before one must be given up.
    fn room(&self) -> u32;

    /// Begins to give up a log block before that is needed; false when there is none that is worth it.
    fn tidy(&mut self) -> bool;

    /// Begins to move a logical block that has no log block of its own into the block that is opened next; false when it has one.
    fn rewrite(&mut self, lbn: u32) -> bool;

    /// Blocks that are not bad, of which there must be so many.
    fn blocks_needed(&self) -> u32;

    /// Erased blocks that must be left now.
    fn free_needed(&self) -> u32;

    /// Takes over what was found on the flash: which block is what. Blocks to erase are named in `found`.
    fn adopt(&mut self, found: &recover::Found);

    /// Whether a log block belongs to one logical block.
    fn logs_are_dedicated(&self) -> bool;

    /// Whether a new version of `page` needs a log block of its own that is not there yet, and one would be given up for want of room.
    /// By default none is lent, nor what follows here asked for.
    fn wants_log(&self, _page: u32) -> bool {
        false
    }

    /// So many log blocks more, or fewer, may be open from here on: a block was borrowed or lent, or is back.
    fn change_logs(&mut self, _by: i32) {
        unreachable!("a map that lends log blocks says how")
    }

    /// Erased blocks that it can do without as it is.
    fn spare(&self) -> u32 {
        0
    }

    /// Blocks that it has written and erased ones that it cannot do without, together.
    fn least_held(&self) -> u32 {
        self.region().good() - self.region().free() + self.free_needed()
    }

    /// Begins to give up the log block that costs least for another tenant; false when there is none. One merge leaves a block to spare.
    fn give_up_one(&mut self) -> bool {
        false
    }

    /// Pages that this would move.
    fn give_up_cost(&self) -> u32 {
        0
    }

    /// Bytes of RAM that a controller with this map needs for the plane.
    fn map_ram(&self) -> u64;
}

#[cfg(test)]
mod tests;
