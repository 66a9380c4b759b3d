//! Page map: the whole map in RAM, one entry per logical page.
//!
//! A lookup is one array access and costs no flash operation. This is the baseline B2-1 of the TPC-FTL paper (S2,
//! section IV: "PM"), and what a drive with enough RAM does.
//!
//! RAM: 4 bytes per logical page, 1 GiB per TiB of 4 KiB pages. The array is zero-filled by the system when it is first
//! touched, so untouched parts of a large drive cost nothing here.

use super::{Given, MapOptions, Mapping, page_of, word_of};
use crate::address::{Lpn, Ppn};
use crate::filled::{FilledMap, Initial};
use nandu_base::{BuildError, Declared, options};
use std::sync::Arc;

/// Options of `page`: it has none.
#[options]
#[derive(Clone, Copy, Debug)]
pub struct PageMapConfig {}

impl Declared for PageMapConfig {
    const NAME: &'static str = "page";
    const SUMMARY: &'static str = "The whole map in RAM, 4 bytes per page.";
    const SOURCE: &'static str = "";
}

impl MapOptions for PageMapConfig {
    type Map = PageMap;

    fn build(&self, given: Given<'_>) -> Result<PageMap, BuildError> {
        Ok(PageMap::new(given.shape.pages))
    }
}

/// The map. An entry holds the physical page number plus one; zero means unmapped, or, on a drive that began with every page
/// mapped, that nothing was entered since.
#[derive(Clone, Debug)]
pub struct PageMap {
    entries: Vec<u32>,
    filled: Option<FilledMap>,
}

impl PageMap {
    /// A map of `pages` logical pages, none of them mapped.
    pub fn new(pages: u32) -> PageMap {
        PageMap { entries: vec![0; pages as usize], filled: None }
    }

    /// Logical pages.
    pub fn len(&self) -> u32 {
        self.entries.len() as u32
    }

    /// Where a page lies that has no entry.
    #[inline]
    fn unentered(&self, lpn: Lpn) -> Option<Ppn> {
        self.filled.as_ref().and_then(|filled| filled.get(lpn))
    }

    /// Whether there is no logical page.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

impl Mapping for PageMap {
    #[inline]
    fn get(&self, lpn: Lpn) -> Option<Ppn> {
        page_of(self.entries[lpn.0 as usize]).or_else(|| self.unentered(lpn))
    }

    #[inline]
    fn is_at(&self, lpn: Lpn, ppn: Ppn) -> bool {
        let word = self.entries[lpn.0 as usize];
        word == ppn.0 + 1 || (word == 0 && self.unentered(lpn) == Some(ppn))
    }

    #[inline]
    fn set(&mut self, lpn: Lpn, ppn: Ppn) -> Option<Ppn> {
        let old = std::mem::replace(&mut self.entries[lpn.0 as usize], word_of(Some(ppn)));
        page_of(old).or_else(|| self.unentered(lpn))
    }

    #[inline]
    fn clear(&mut self, lpn: Lpn) -> Option<Ppn> {
        let old = page_of(std::mem::replace(&mut self.entries[lpn.0 as usize], 0));
        let old = old.or_else(|| self.unentered(lpn));
        if let Some(filled) = &mut self.filled {
            filled.trim(lpn);
        }
        old
    }

    fn begin_as(&mut self, initial: &Arc<dyn Initial>) -> bool {
        self.filled = Some(FilledMap::new(Arc::clone(initial)));
        true
    }

    fn reset(&mut self) {
        *self = PageMap::new(self.len());
    }

    #[inline(always)]
    fn lookup_cached(&mut self, lpn: Lpn) -> Option<Option<Ppn>> {
        Some(self.get(lpn))
    }

    #[inline(always)]
    fn update_cached(&mut self, lpn: Lpn, to: Ppn) -> Option<Option<Ppn>> {
        Some(self.set(lpn, to))
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
    fn a_filled_map_is_one_with_every_entry() {
        let layout = crate::Layout::new(4, 9, 4).unwrap();
        let filled: Arc<dyn Initial> = Arc::new(crate::filled::Filled::new(layout, vec![2, 0, 3, 1], 0, 100));
        let (mut lazy, mut full) = (PageMap::new(100), PageMap::new(100));
        assert!(lazy.begin_as(&filled));
        (0..100).for_each(|lpn| assert_eq!(full.set(Lpn(lpn), filled.place(Lpn(lpn))), None));
        let seed = 3;
        let mut rng = nandu_base::Rng::new(seed);
        for turn in 0..2000 {
            let lpn = Lpn(rng.below(100) as u32);
            let old = match rng.below(3) {
                0 => (lazy.get(lpn), full.get(lpn)),
                1 => (lazy.clear(lpn), full.clear(lpn)),
                _ => {
                    let ppn = Ppn(rng.below(144) as u32);
                    (lazy.set(lpn, ppn), full.set(lpn, ppn))
                }
            };
            assert_eq!(old.0, old.1, "seed {seed}, turn {turn}");
        }
        lazy.reset();
        assert_eq!(lazy.get(Lpn(0)), None, "what is in RAM is lost");
    }

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
