//! What was read ahead and what was asked for: the word of a cache above (spec 6.3, K9; W4-2).
//!
//! A prefetching cache reads more than it was asked for and later throws away what nobody met. If each of these pages is
//! copied to the top ring, the ring wears for nothing. So a read that says [`Flags::SPECULATIVE`](nandu_base::Flags) promotes
//! nothing and is no touch. What of it is used, the cache tells ([`Hints::used`](nandu_base::Hints::used)): a page that is
//! still in DRAM is promoted then, if `promote` admits it; of one that has left, only the touch is noted.
//!
//! Cost: a bit for each frame; a look-up for each page that is told.

use crate::machine::Hybrid;
use crate::map::Where;
use nandu_base::{ByteLen, ByteOffset};

impl Hybrid {
    /// The host uses these bytes, which were read ahead.
    pub(crate) fn note_use(&mut self, offset: ByteOffset, len: ByteLen) {
        let pages = offset.0 / self.page..(offset.0 + len.0).div_ceil(self.page);
        for page in pages {
            self.count.told_pages += 1;
            match self.dram.find(page as u32) {
                Some(at) => self.frame_used(at),
                None => self.touched_late(page as u32),
            }
        }
    }

    fn frame_used(&mut self, at: u32) {
        let f = &mut self.dram.frames[at as usize];
        if !std::mem::take(&mut f.speculative) || f.loading {
            return; // when it is loaded, it is promoted like any other
        }
        let page = f.page;
        let (is_below, is_dirty) = match self.map.find(page) {
            Where::Slot(slot) => (self.ring_of_slot(slot) > 0, self.map.is_dirty(slot)),
            _ => (true, false),
        };
        self.promote(at, is_below, is_dirty);
        self.dram.settle(at);
        self.made_progress = true;
    }

    /// Copies a frame to the top ring, if what it holds lies below and is admitted.
    pub(crate) fn promote(&mut self, at: u32, is_below: bool, is_dirty: bool) {
        let f = &self.dram.frames[at as usize];
        let (page, is_ahead) = (f.page, f.speculative && !self.planted.promotes_unused);
        if is_ahead {
            self.count.ahead_pages += 1;
        }
        if !is_below || is_ahead || f.dirty != 0 || !self.has_rings() || !self.promotion.admits(page) {
            return;
        }
        let f = &mut self.dram.frames[at as usize];
        (f.promote, f.promote_dirty) = (true, is_dirty);
    }

    /// A page is used that has left DRAM.
    fn touched_late(&mut self, page: u32) {
        self.count.told_late_pages += 1;
        self.promotion.touched(page);
    }

    /// Whether no frame is on its way to the top ring that was read ahead and never used.
    pub(crate) fn promotes_only_used(&self) -> bool {
        !self.dram.frames.iter().any(|f| f.promote && f.speculative)
    }
}
