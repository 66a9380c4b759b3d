//! Page map: the whole map in RAM, one entry per logical page.
//!
//! A lookup is one array access and costs no flash operation. This is the baseline B2-1 of the TPC-FTL paper (S2,
//! section IV: "PM"), and what a drive with enough RAM does.
//!
//! RAM: 4 bytes per logical page, 1 GiB per TiB of 4 KiB pages. The array is zero-filled by the system when it is first
//! touched, so untouched parts of a large drive cost nothing here.

use super::{page_of, word_of, Mapping};
use crate::address::{Lpn, Ppn};

/// The map. An entry holds the physical page number plus one; zero means unmapped.
#[derive(Clone, Debug)]
pub struct PageMap {
    entries: Vec<u32>,
}

impl PageMap {
    /// A map of `pages` logical pages, none of them mapped.
    pub fn new(pages: u32) -> PageMap {
        PageMap { entries: vec![0; pages as usize] }
    }

    /// Logical pages.
    pub fn len(&self) -> u32 {
        self.entries.len() as u32
    }

    /// Whether there is no logical page.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

impl Mapping for PageMap {
    const PAGED: bool = false;

    #[inline]
    fn get(&self, lpn: Lpn) -> Option<Ppn> {
        page_of(self.entries[lpn.0 as usize])
    }

    #[inline]
    fn set(&mut self, lpn: Lpn, ppn: Ppn) -> Option<Ppn> {
        page_of(std::mem::replace(&mut self.entries[lpn.0 as usize], word_of(Some(ppn))))
    }

    #[inline]
    fn clear(&mut self, lpn: Lpn) -> Option<Ppn> {
        page_of(std::mem::replace(&mut self.entries[lpn.0 as usize], 0))
    }

    fn reset(&mut self) {
        *self = PageMap::new(self.len());
    }

    #[inline]
    fn prefetch(&self, lpn: Lpn) {
        crate::prefetch(&self.entries, lpn.0 as usize);
    }

    fn ram(&self) -> u64 {
        4 * self.entries.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_found_where_it_was_put_last() {
        let mut map = PageMap::new(8);
        assert_eq!(map.get(Lpn(3)), None);
        assert_eq!(map.set(Lpn(3), Ppn(0)), None);
        assert_eq!(map.set(Lpn(3), Ppn(9)), Some(Ppn(0)));
        assert_eq!(map.get(Lpn(3)), Some(Ppn(9)));
        assert_eq!(map.clear(Lpn(3)), Some(Ppn(9)));
        assert_eq!(map.get(Lpn(3)), None);
    }
}
