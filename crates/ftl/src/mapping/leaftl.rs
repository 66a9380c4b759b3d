//! LeaFTL: a cached translation page is a set of learned segments, each a line through many entries; changes are laid over them.
//!
//! ```text
//! segment:  <first page, stride, length, place>    pages first, first + stride, ... lie in flash pages that follow each other
//! learn:    the entries of each group of 256 pages in the order of their places; as long as place and page go on by the same
//!             steps, they are one segment
//! change:   a new segment is laid over the old ones, which stay as they are; one that goes on where the last change ended makes that
//!             segment longer
//! compact:  a page over which many segments were laid is learned anew, if that takes fewer
//! ```
//!
//! Source: J. Sun, S. Li, Y. Sun, C. Sun, D. Vucinic, J. Huang, "LeaFTL: A Learning-Based Flash Translation Layer for Solid-State Drives",
//! ASPLOS 2023. The size of a segment, groups of 256 pages and compaction as writes go on are checked against the authors' program
//! (platformxlab/LeaFTL, `learnedftl.py`). A modern comparator for the TPC-FTL paper (B2-9).
//!
//! Where we differ: the error bound is 0, one of the paper's settings. Every segment is exact then, so that no entry is guessed wrong, no
//! data page is read for the logical pages in its spare area, and there is no buffer of conflicts. Segments are learned when a translation page
//! comes and when it is compacted, and a page at a time in between, since a map hears of no write buffer; a page is compacted when a
//! sixteenth of its entries was laid over it, where the paper goes by a number of writes to the drive. Translation pages on the flash are lists of
//! entries, and the unit of the cache, of which the least recently used goes ([`super::whole`], without its buffer). Moves of collection wait in a
//! table ([`super::moves`]).
//!
//! *Striping hides no segments*: on a drive with several planes every so many pages lie in a row on one of them, and the stride says so.
//!
//! RAM of the drive: 8 bytes per cached page and per segment, and what the cache takes. Time: O(1) for an entry in RAM, O(n log n) for the
//! n entries of a page that comes or is compacted.

use super::whole::{Form, WholePages, WholeSettings};
use super::{Given, MapOptions, PagedOptions};
use nandu_base::{BuildError, Declared, options};

/// The map.
pub type Leaftl = WholePages<Segments>;

/// Options of `leaftl`.
#[options]
#[derive(Clone, Copy, Debug)]
pub struct LeaftlConfig {
    #[option(flatten, default)]
    #[allow(missing_docs)] // they are those of all maps on the flash
    pub paged: PagedOptions,
}

impl Declared for LeaftlConfig {
    const NAME: &'static str = "leaftl";
    const SUMMARY: &'static str = "LeaFTL: whole translation pages are cached as learned segments, 8 bytes each, which are exact; a segment has pages at \
                                   equal distances, so that a drive with several planes has long ones too.";
    const SOURCE: &'static str = "Sun and others, ASPLOS 2023";
}

impl MapOptions for LeaftlConfig {
    type Map = Leaftl;

    fn paged(&self) -> Option<&PagedOptions> {
        Some(&self.paged)
    }

    fn build(&self, given: Given<'_>) -> Result<Leaftl, BuildError> {
        let ram = self.paged.ram(Segments::most(given.shape.entries() as u64))?;
        Ok(Leaftl::new(given.shape, WholeSettings { ram, buffer: 0, forgets_buffer: false }))
    }
}

/// Bytes of a cached page beside its segments.
const HEADER: u64 = 8;
/// Bytes of a segment.
const SEGMENT: u64 = 8;
/// Entries of a group, within which segments lie.
const GROUP: usize = 256;
/// A page is compacted when more than one in so many of its entries was laid over it.
const LAID: u64 = 16;

/// A page as learned segments, and those that were laid over them.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Segments {
    learned: u32,
    laid: u32,
    /// The entry and the word that would make the last segment longer; no word is zero.
    next: (u32, u32),
}

/// Segments that may be laid over a page of so many entries.
fn laid_most(entries: u64) -> u64 {
    entries / LAID + 1
}

/// Segments that the entries of a page take.
fn learn(words: &[u32]) -> u32 {
    let mut places: Vec<(u32, usize)> = Vec::with_capacity(GROUP);
    let mut segments = 0;
    for group in words.chunks(GROUP) {
        places.clear();
        places.extend(group.iter().enumerate().filter(|(_, word)| **word != 0).map(|(at, &word)| (word, at)));
        places.sort_unstable();
        // The last entry of the segment, and its stride once it has two.
        let mut last: Option<(u32, usize, Option<usize>)> = None;
        for &(word, at) in &places {
            let stride = last.and_then(|(before, page, stride)| {
                let step = at.checked_sub(page)?;
                (word == before + 1 && stride.is_none_or(|stride| stride == step)).then_some(step)
            });
            segments += u32::from(stride.is_none());
            last = Some((word, at, stride));
        }
    }
    segments
}

impl Form for Segments {
    const GROWTH: u64 = SEGMENT;

    fn new(words: &[u32]) -> Segments {
        Segments { learned: learn(words), ..Segments::default() }
    }

    fn change(&mut self, words: &mut [u32], at: usize, word: u32) -> u32 {
        let old = std::mem::replace(&mut words[at], word);
        if self.next != (at as u32, word) || at.is_multiple_of(GROUP) {
            self.laid += 1;
        }
        self.next = if word == 0 { (0, 0) } else { (at as u32 + 1, word + 1) };
        if u64::from(self.laid) > laid_most(words.len() as u64) {
            // Segments that were laid over others may be fewer than those that they leave of them.
            let learned = learn(words).min(self.learned + self.laid);
            *self = Segments { learned, ..Segments::default() };
        }
        old
    }

    fn bytes(&self, _entries: u64) -> u64 {
        HEADER + SEGMENT * u64::from(self.learned + self.laid)
    }

    fn most(entries: u64) -> u64 {
        HEADER + SEGMENT * (entries + laid_most(entries))
    }

    fn fits(&self, words: &[u32]) -> bool {
        // How many there are depends on the order of the changes; their bounds do not.
        let entries = words.len() as u64;
        u64::from(self.laid) <= laid_most(entries) && u64::from(self.learned) <= entries
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::{Lpn, Ppn};
    use crate::mapping::{MapOp, MapOps, MapShape, Mapping, Tp};
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// A filled map of 512 pages in two translation pages: pages in a row go to four planes in turn.
    fn striped(ram: u64) -> (Leaftl, MapOps) {
        let settings = WholeSettings { ram, buffer: 0, forgets_buffer: false };
        let mut map = Leaftl::new(MapShape::new(512, 8, 2), settings);
        for lpn in 0..512 {
            map.set(Lpn(lpn), Ppn(lpn % 4 * 1000 + lpn / 4));
        }
        (0..2).for_each(|tp| assert_eq!(map.place(Tp(tp), Ppn(9000 + tp)), None));
        (map, MapOps::default())
    }

    #[test]
    fn pages_on_planes_in_turn_are_a_segment_for_each_plane() {
        let (mut map, mut ops) = striped(Segments::most(256));
        assert_eq!(map.lookup(Lpn(9), &mut ops), Some(Ppn(1002)));
        assert_eq!((map.used, ops.list()), (HEADER + 4 * SEGMENT, &[MapOp::Read(Tp(0))][..]));
    }

    #[test]
    fn writes_in_a_row_are_one_segment_over_the_others() {
        let (mut map, mut ops) = striped(Segments::most(256));
        (40..70).for_each(|lpn| {
            map.update(Lpn(lpn), Some(Ppn(5000 + lpn)), &mut ops);
        });
        assert_eq!(map.used, HEADER + 5 * SEGMENT);
        map.update(Lpn(80), None, &mut ops);
        assert_eq!(map.used, HEADER + 6 * SEGMENT, "that a page is trimmed is said by a segment too");
        map.check().unwrap();
    }

    #[test]
    fn a_page_over_which_much_was_laid_is_learned_anew() {
        let (mut map, mut ops) = striped(Segments::most(256));
        // Every fourth page, as one writer of one plane has them.
        (0..17).for_each(|turn| {
            map.update(Lpn(4 * turn), Some(Ppn(6000 + turn)), &mut ops);
        });
        assert_eq!(map.used, HEADER + 21 * SEGMENT);
        map.update(Lpn(68), Some(Ppn(6017)), &mut ops);
        assert_eq!(map.used, HEADER + 5 * SEGMENT, "and what is left of the plane");
        map.check().unwrap();
    }

    proptest! {
        /// The obvious model: from the smallest place on, the next one is looked for among all.
        #[test]
        fn segments_are_those_that_a_search_finds(places in prop::collection::vec(0u32..40, 1..60)) {
            let mut words = vec![0; places.len()];
            // A place holds one page.
            let held: BTreeMap<u32, usize> = places.iter().enumerate().map(|(at, &place)| (place, at)).collect();
            held.iter().for_each(|(&place, &at)| words[at] = place + 1);
            let mut segments = 0;
            let mut left = held;
            while let Some((mut place, mut at)) = left.pop_first() {
                segments += 1;
                let mut stride = None;
                while let Some(&next) = left.get(&(place + 1)) {
                    if next < at || stride.is_some_and(|stride| next != at + stride) {
                        break;
                    }
                    left.remove(&(place + 1));
                    stride = Some(next - at);
                    (place, at) = (place + 1, next);
                }
            }
            prop_assert_eq!(learn(&words), segments);
        }
    }
}
