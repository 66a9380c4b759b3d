//! What the collector asks and enters for a whole run of pages at once.

use super::{BlockTable, MAP};
use crate::address::{BlockId, Lpn, Ppn};
use nandu_base::Instant;

/// How far ahead of the page that is looked at its successors are told of, in pages.
const LOOK_AHEAD: u32 = 8;

impl BlockTable {
    /// The same of pages that have an owner's word, for those who look ahead.
    #[inline]
    pub fn data_entered_at(&self, ppn: Ppn) -> Option<Lpn> {
        let lpn = self.owners.get(ppn.0 as usize)?.wrapping_sub(1);
        (lpn < MAP - 1).then_some(Lpn(lpn))
    }

    /// The first page from `from` on and before `end` that holds data which `is_live`, or something that is not data; `ahead`
    /// hears of pages that will be looked at soon.
    #[inline(always)]
    pub fn next_kept(
        &self,
        from: Ppn,
        end: Ppn,
        ahead: impl Fn(Lpn),
        is_live: impl Fn(Lpn, Ppn) -> bool,
    ) -> Option<(Ppn, Option<Lpn>)> {
        let words = &self.owners[from.0 as usize..end.0 as usize];
        for (ppn, &word) in (from.0..).map(Ppn).zip(words) {
            if let Some(lpn) = self.data_entered_at(Ppn(ppn.0 + LOOK_AHEAD)) {
                ahead(lpn);
            }
            let data = match word.wrapping_sub(1) {
                lpn if lpn < MAP - 1 => Some(Lpn(lpn)),
                u32::MAX => self.unowned(ppn),
                _ => None,
            };
            match data {
                Some(lpn) if !is_live(lpn, ppn) => {}
                data => return Some((ppn, data)),
            }
        }
        None
    }

    /// `count` pages of `block` moved to other blocks of its pool, where they count as valid; the last is there at `when`.
    #[inline]
    pub fn moved_away(&mut self, block: BlockId, count: u32, when: Instant) {
        self.invalid[block.0 as usize] += count as u16;
        let safe_at = &mut self.safe_at[block.0 as usize];
        *safe_at = safe_at.later(when);
    }
}
