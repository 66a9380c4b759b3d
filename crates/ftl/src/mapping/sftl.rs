//! S-FTL: whole translation pages are cached, each as short as its runs allow; scattered changes wait in a buffer.
//!
//! ```text
//! page:   a run is a stretch of pages in a row that lie in a row on the flash; a cached translation page has the place where
//!           each run begins and a bit for each entry that says whether one begins there; as a plain list where that is shorter
//! miss:   read the translation page, cache all of it, with the changes of it that wait in the buffer
//! room:   the least recently used page goes; its changes,
//!           when they are few, go to the buffer, entry by entry; for room there, the page whose changes came first is
//!           written with one read and one write
//!           when they are many, are written with one write, without a read: the page is known as a whole
//! ```
//!
//! Source: S. Jiang, L. Zhang, X. Yuan, H. Hu, Y. Chen, "S-FTL: An Efficient Address Translation for Flash Memory by
//! Exploiting Spatial Locality", MSST 2011: its three patterns are sequential writes (runs), clustered accesses (whole pages) and
//! sparse writes (the buffer). Checked against its abstract, and against the model of it in the program of LeaFTL's authors
//! (platformxlab/LeaFTL, `sftl.py`), which has no buffer. A modern comparator for the TPC-FTL paper (B2-9).
//!
//! Where we differ: how many changes are few, how large the buffer is and which of it goes first are not in what was checked, so
//! they are ours: one entry in 32 of the page, an eighth of the RAM (`dirty_buffer_share`), and the page that came first. That
//! model counts two bits for an entry, of which one says nothing that the places of runs do not; we count one. Moves of
//! collection wait in a table ([`super::moves`]). Room is made for a page in its plain size before it is read, so that no page
//! of RAM stands by; it is shortened when it has come.
//!
//! *Striping hides runs*, as with [CFTL](super::Cftl): on a drive with several planes pages in a row lie on different planes, and
//! a cached page is a plain list.
//!
//! RAM of the drive: 8 bytes per cached page; 4 per run and a bit per entry, or 4 per entry; and what the cache takes
//! ([`super::whole`]), whose time and memory of the simulator are the map's.

use super::whole::{CHANGE, Form, WholePages, WholeSettings};
use super::{Given, MapOptions, PagedOptions};
use nandu_base::{BuildError, Declared, Ratio, options};

/// The map.
pub type Sftl = WholePages<Runs>;

/// Options of `sftl`.
#[options]
#[derive(Clone, Copy, Debug)]
pub struct SftlConfig {
    #[option(flatten, default)]
    #[allow(missing_docs)] // they are those of all maps on the flash
    pub paged: PagedOptions,
    /// Share of `cmt_size` for single changes of translation pages that have left the cache. With 0 every changed page is
    /// written when it leaves.
    #[option(default = Ratio::new(1, 8), below = Ratio::new(1, 1))]
    pub dirty_buffer_share: Ratio,
}

impl Declared for SftlConfig {
    const NAME: &'static str = "sftl";
    const SUMMARY: &'static str = "S-FTL: whole translation pages are cached, shortened to the runs in them; a few changes of a page that leaves wait in a \
                                   buffer. On a drive with several planes pages have no runs.";
    const SOURCE: &'static str = "Jiang, Zhang, Yuan, Hu, Chen, MSST 2011";
    const DRAWS: &'static [&'static str] =
        &["", "dirty_buffer_share = \"1/2\"", "dirty_buffer_share = \"0\""];
}

impl MapOptions for SftlConfig {
    type Map = Sftl;

    fn paged(&self) -> Option<&PagedOptions> {
        Some(&self.paged)
    }

    fn build(&self, given: Given<'_>) -> Result<Sftl, BuildError> {
        let share = self.dirty_buffer_share;
        let least = Runs::most(given.shape.entries() as u64);
        let ram = self.paged.ram(least)?;
        let settings = WholeSettings {
            ram,
            buffer: share.of(ram).min(ram - least) / CHANGE,
            forgets_buffer: (given.planted)("ssd.map-buffer-forgotten"),
        };
        Ok(Sftl::new(given.shape, settings))
    }
}

/// Bytes of a cached page beside its entries.
const HEADER: u64 = 8;
/// Bytes of an entry, or of the begin of a run.
const ENTRY: u64 = 4;

/// A page as the begins of its runs, or as a list.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Runs(u32);

/// Whether an entry continues the run of the one before it. Unmapped pages in a row are a run too.
fn continues(before: u32, word: u32) -> bool {
    if before == 0 { word == 0 } else { word == before + 1 }
}

impl Form for Runs {
    /// A run falls into three.
    const GROWTH: u64 = 2 * ENTRY;

    fn new(words: &[u32]) -> Runs {
        let begins = words.windows(2).filter(|pair| !continues(pair[0], pair[1])).count() as u32;
        Runs(u32::from(!words.is_empty()) + begins)
    }

    fn change(&mut self, words: &mut [u32], at: usize, word: u32) -> u32 {
        // Runs begin at this entry and at the next one, or not.
        let around = at.saturating_sub(1)..(at + 2).min(words.len());
        let before = Runs::new(&words[around.clone()]);
        let old = std::mem::replace(&mut words[at], word);
        self.0 = self.0 + Runs::new(&words[around]).0 - before.0;
        old
    }

    fn bytes(&self, entries: u64) -> u64 {
        Runs::most(entries).min(HEADER + entries.div_ceil(8) + ENTRY * u64::from(self.0))
    }

    fn most(entries: u64) -> u64 {
        HEADER + ENTRY * entries
    }

    fn fits(&self, words: &[u32]) -> bool {
        Runs::new(words) == *self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::{Lpn, Ppn};
    use crate::mapping::{MapOp, MapOps, MapShape, Mapping, Tp};
    use proptest::prelude::*;

    /// A filled map of 192 pages in order, in three translation pages of 64 entries.
    fn filled(pages: u64, buffer: u64) -> (Sftl, MapOps) {
        let ram = Runs::most(64) * pages + CHANGE * buffer;
        let settings = WholeSettings { ram, buffer, forgets_buffer: false };
        let mut map = Sftl::new(MapShape::new(192, 6, 2), settings);
        for lpn in 0..192 {
            map.set(Lpn(lpn), Ppn(lpn));
        }
        (0..3).for_each(|tp| assert_eq!(map.place(Tp(tp), Ppn(200 + tp)), None));
        (map, MapOps::default())
    }

    #[test]
    fn a_page_in_order_is_one_run_and_a_write_makes_three() {
        let (mut map, mut ops) = filled(1, 0);
        assert_eq!(map.lookup(Lpn(5), &mut ops), Some(Ppn(5)));
        assert_eq!((map.used, map.counts().loads), (HEADER + 8 + ENTRY, 1));
        assert_eq!(map.update_cached(Lpn(9), Ppn(150)), Some(Some(Ppn(9))));
        assert_eq!(map.used, HEADER + 8 + 3 * ENTRY);
        // The page behind it continues the new run.
        map.update(Lpn(10), Some(Ppn(151)), &mut ops);
        assert_eq!(map.used, HEADER + 8 + 3 * ENTRY);
        map.check().unwrap();
    }

    #[test]
    fn a_page_without_runs_is_a_plain_list() {
        let (mut map, mut ops) = filled(1, 0);
        (0..64).rev().for_each(|lpn| {
            map.update(Lpn(lpn), Some(Ppn(300 - lpn)), &mut ops);
        });
        assert_eq!((map.page(Tp(0)).form.0, map.used), (64, Runs::most(64)));
        assert_eq!(map.update_cached(Lpn(0), Ppn(400)), None, "it might need room");
        map.check().unwrap();
    }

    #[test]
    fn short_pages_share_the_room_of_one() {
        let (mut map, mut ops) = filled(1, 0);
        map.lookup(Lpn(0), &mut ops);
        // Room is made for a page in its plain size.
        map.lookup(Lpn(64), &mut ops);
        assert_eq!(map.cached, 1);
        let (mut map, mut ops) = filled(2, 0);
        map.lookup(Lpn(0), &mut ops);
        map.lookup(Lpn(64), &mut ops);
        assert_eq!((map.cached, map.used), (2, 2 * (HEADER + 8 + ENTRY)));
    }

    #[test]
    fn few_changes_wait_in_the_buffer_and_many_are_written_without_a_read() {
        let (mut map, mut ops) = filled(1, 3);
        (0..2).for_each(|lpn| {
            map.update(Lpn(lpn), Some(Ppn(150 + lpn)), &mut ops);
        });
        map.lookup(Lpn(64), &mut ops);
        assert_eq!(ops.list(), [MapOp::Read(Tp(0)), MapOp::Read(Tp(1))], "no write");
        assert_eq!((map.buffered, map.lookup_cached(Lpn(1))), (2, Some(Some(Ppn(151)))));
        map.check().unwrap();
        ops.clear();
        // Loaded again, with its changes; three are too many for the buffer.
        map.update(Lpn(2), Some(Ppn(152)), &mut ops);
        assert_eq!((map.buffered, map.page(Tp(0)).changes), (0, 3));
        map.lookup(Lpn(64), &mut ops);
        assert_eq!(ops.list(), [MapOp::Read(Tp(0)), MapOp::Write(Tp(0)), MapOp::Read(Tp(1))]);
        assert_eq!(map.stored(Tp(0))[..4], [151, 152, 153, 4]);
        map.check().unwrap();
    }

    #[test]
    fn the_changes_that_came_first_leave_a_full_buffer() {
        let (mut map, mut ops) = filled(1, 1);
        map.update(Lpn(0), Some(Ppn(150)), &mut ops);
        map.update(Lpn(64), Some(Ppn(151)), &mut ops);
        assert_eq!((ops.list(), map.buffered), (&[MapOp::Read(Tp(0)), MapOp::Read(Tp(1))][..], 1));
        map.relocate(Lpn(0), Ppn(152), &mut ops);
        assert_eq!(map.get(Lpn(0)), Some(Ppn(152)), "a change in the buffer follows collection");
        ops.clear();
        map.lookup(Lpn(128), &mut ops);
        assert_eq!(ops.list(), [MapOp::Read(Tp(0)), MapOp::Write(Tp(0)), MapOp::Read(Tp(2))]);
        assert_eq!((map.stored(Tp(0))[0], map.buffered, map.is_changed(Lpn(64))), (153, 1, true));
        map.check().unwrap();
    }

    proptest! {
        /// The obvious model: the runs of a page, counted anew after each change.
        #[test]
        fn runs_are_counted_as_in_a_list(changes in prop::collection::vec((0u32..64, 0u32..40), 1..60)) {
            let (mut map, mut ops) = filled(2, 4);
            let mut list: Vec<u32> = (1..=64).collect();
            for (lpn, place) in changes {
                let to = place.checked_sub(1).map(Ppn);
                map.update(Lpn(lpn), to, &mut ops);
                list[lpn as usize] = place;
                let is_new = |at: usize| at == 0 || match list[at - 1] {
                    0 => list[at] != 0,
                    before => list[at] != before + 1,
                };
                let runs = (0..64).filter(|&at| is_new(at)).count() as u64;
                prop_assert_eq!(map.used, (HEADER + 8 + 4 * runs).min(HEADER + 4 * 64));
                prop_assert!(map.check().is_ok());
            }
        }
    }
}
