//! When translation pages come that are being read: a request that needs an entry which another one is fetching waits for that fetch.
//!
//! RAM: 12 bytes per translation page.

use crate::nand::queued::NONE;
use nandu_base::Instant;
use nandu_ftl::mapping::Tp;

/// The reads of translation pages.
#[derive(Clone, Debug, Default)]
pub(in crate::ssd) struct Fetched {
    /// When each one's last fetch ends.
    comes_at: Vec<Instant>,
    /// The latest of them: from then on no fetch is under way.
    last: Instant,
    /// The fetch of each that waits.
    coming: Vec<u32>,
    /// How many wait.
    waiting: u32,
    /// When the erases of all blocks that were opened so far are complete. A translation page that is complete must not name
    /// a page of a block whose erase a power cut may still undo: a start would take the block's old page for the one that is
    /// named.
    pub opened_from: Instant,
}

impl Fetched {
    /// Of so many translation pages.
    pub fn of(pages: u32) -> Fetched {
        let (comes_at, coming) = (vec![Instant::ZERO; pages as usize], vec![NONE; pages as usize]);
        Fetched { comes_at, coming, ..Fetched::default() }
    }

    /// When the last fetch of a translation page ends, if it does not wait.
    #[inline(always)]
    pub fn comes_at(&self, tp: Tp) -> Instant {
        self.comes_at[tp.0 as usize]
    }

    /// The fetch of it that waits, or [`NONE`].
    #[inline(always)]
    pub fn coming(&self, tp: Tp) -> u32 {
        self.coming[tp.0 as usize]
    }

    /// Whether every fetch is over at `at`.
    #[inline(always)]
    pub fn are_over(&self, at: Instant) -> bool {
        self.last <= at && self.waiting == 0
    }

    /// When the last of the fetches comes that do not wait.
    pub fn last_comes(&self) -> Instant {
        self.last
    }

    /// A fetch that nothing stood before ends at `end`.
    #[inline]
    pub fn came(&mut self, tp: Tp, end: Instant) {
        self.comes_at[tp.0 as usize] = end;
        self.last = self.last.later(end);
    }

    /// A fetch waits.
    pub fn waits(&mut self, tp: Tp, node: u32) {
        self.coming[tp.0 as usize] = node;
        self.waiting += 1;
    }

    /// A fetch that waited ends at `end`.
    pub fn comes(&mut self, tp: Tp, node: u32, end: Instant) {
        self.waiting -= 1;
        let coming = &mut self.coming[tp.0 as usize];
        if *coming == node {
            *coming = NONE;
        }
        let at = &mut self.comes_at[tp.0 as usize];
        *at = at.later(end);
        self.last = self.last.later(end);
    }

    /// Forgets everything that a loss of power takes.
    pub fn restart(&mut self) {
        *self = Fetched::of(self.comes_at.len() as u32);
    }
}
