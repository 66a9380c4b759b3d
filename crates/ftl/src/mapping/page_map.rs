//! Page map: the whole map in RAM, one entry per logical page.
//!
//! A lookup is one array access and costs no flash operation. This is the baseline B2-8 of the TPC-FTL paper (S2,
//! section II: "page mapping"), and what a drive with enough RAM does.
//!
//! RAM: 4 bytes per logical page, 1 GiB per TiB of 4 KiB pages. The array is zero-filled by the system when it is first
//! touched, so untouched parts of a large drive cost nothing here.

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

    /// Where the page lies.
    #[inline]
    pub fn get(&self, lpn: Lpn) -> Option<Ppn> {
        match self.entries[lpn.0 as usize] {
            0 => None,
            entry => Some(Ppn(entry - 1)),
        }
    }

    /// Puts the page at `ppn`; returns where it lay before.
    #[inline]
    pub fn set(&mut self, lpn: Lpn, ppn: Ppn) -> Option<Ppn> {
        match std::mem::replace(&mut self.entries[lpn.0 as usize], ppn.0 + 1) {
            0 => None,
            old => Some(Ppn(old - 1)),
        }
    }

    /// Forgets the page; returns where it lay.
    #[inline]
    pub fn clear(&mut self, lpn: Lpn) -> Option<Ppn> {
        match std::mem::replace(&mut self.entries[lpn.0 as usize], 0) {
            0 => None,
            old => Some(Ppn(old - 1)),
        }
    }

    /// Asks the processor to fetch the entry.
    #[inline]
    pub fn prefetch(&self, lpn: Lpn) {
        crate::prefetch(&self.entries, lpn.0 as usize);
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
