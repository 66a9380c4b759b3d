//! Trim journal: makes trims survive a power cut.
//!
//! A write is found again after a cut because its page carries its logical number and its sequence number. A trim leaves
//! no page behind, so without a record the newest old version would come back. The journal collects trimmed extents, each
//! with the number of the last program before it ("as of"), and at a flush, or before any block is erased, writes them
//! into a page of the drive. At a restart an extent beats every page of it whose number is not larger.
//!
//! An extent is needed while an older page than its own exists anywhere on the drive. Records that nobody needs are
//! dropped. When there are as many as may be ([`RECORDS_MAX`] by default), what is still unmapped is written anew as of now, into as few records as
//! possible; the old ones stay readable until everything issued before is complete.
//!
//! Own design; the papers are silent about trim. RAM: 16 bytes per extent that is on record.

use crate::address::{Lpn, Ppn};

/// Records on the drive above which the journal is written anew, at most.
pub const RECORDS_MAX: usize = 16;
/// Bytes of a record before its extents: magic, count.
const HEADER: usize = 8;
const EXTENT: usize = 16;
const MAGIC: u32 = 0x4E4A_5432; // "NJT2"

/// A run of logical pages that was trimmed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extent {
    /// First page.
    pub first: Lpn,
    /// Number of pages.
    pub count: u32,
    /// Sequence number of the last program before the trim.
    pub as_of: u64,
}

/// One record on the drive.
#[derive(Clone, Debug)]
pub struct Record {
    /// Where it lies now; moves with garbage collection.
    pub ppn: Ppn,
    /// The pages. Of the table of tenants: an extent of no pages, in the range of the tenant in whose unit it lies.
    pub extents: Vec<Extent>,
    /// It holds the table of tenants ([`crate::isolation::Table`]) and no trims.
    pub is_table: bool,
}

/// The journal.
#[derive(Clone, Debug)]
pub struct TrimJournal {
    /// Trimmed since the last record, in order.
    pending: Vec<Extent>,
    /// Records by slot; an empty slot can be used again.
    records: Vec<Option<Record>>,
    /// Records above which it is written anew.
    most: usize,
}

impl Default for TrimJournal {
    fn default() -> TrimJournal {
        TrimJournal::new(1, RECORDS_MAX)
    }
}

impl TrimJournal {
    /// An empty journal whose records each concern one of `parts` parts of the drive, and that is written anew when there are `most` for each
    /// part, 1 to [`RECORDS_MAX`].
    pub fn new(parts: usize, most: usize) -> TrimJournal {
        TrimJournal { pending: Vec::new(), records: Vec::new(), most: parts.max(1) * most }
    }

    /// An empty one of the same drive.
    pub fn emptied(&self) -> TrimJournal {
        TrimJournal::new(1, self.most)
    }

    /// Pages that its records may take on a drive of `logical` pages of `page` bytes, in `parts` parts: what is unmapped, twice while it
    /// is written anew, and the records that may be there before.
    pub fn pages_max(logical: u64, page: usize, parts: usize) -> u64 {
        let extents = TrimJournal::extents_per_record(page) as u64;
        2 * (logical / (2 * extents) + 2) + (parts.max(1) * RECORDS_MAX) as u64
    }

    /// Extents that fit a record in a page of `page` bytes.
    pub fn extents_per_record(page: usize) -> usize {
        (page - HEADER) / EXTENT
    }

    /// Notes a trim. An extent that continues the last one, with no program in between, grows it.
    pub fn trimmed(&mut self, extent: Extent) {
        match self.pending.last_mut() {
            Some(last) if last.first.0 + last.count == extent.first.0 && last.as_of == extent.as_of => {
                last.count += extent.count;
            }
            _ => self.pending.push(extent),
        }
    }

    /// Extents that wait for a record.
    #[inline]
    pub fn pending(&self) -> usize {
        self.pending.len()
    }

    /// The extents that wait for a record.
    pub fn waiting(&self) -> &[Extent] {
        &self.pending
    }

    /// Records on the drive.
    pub fn records(&self) -> impl Iterator<Item = (u32, &Record)> {
        self.records.iter().enumerate().filter_map(|(slot, r)| r.as_ref().map(|r| (slot as u32, r)))
    }

    /// Those of trims.
    fn trims(&self) -> impl Iterator<Item = (u32, &Record)> {
        self.records().filter(|(_, record)| !record.is_table)
    }

    /// The slot of the table of tenants, if there is one.
    pub fn table(&self) -> Option<u32> {
        self.records().find(|(_, record)| record.is_table).map(|(slot, _)| slot)
    }

    /// The extents to put on record now.
    pub fn take_pending(&mut self) -> Vec<Extent> {
        std::mem::take(&mut self.pending)
    }

    /// Puts extents back that do not go on record now, in their order and before those that came since.
    pub fn put_back(&mut self, mut extents: Vec<Extent>) {
        extents.append(&mut self.pending);
        self.pending = extents;
    }

    /// Whether the journal should be written anew.
    pub fn is_long(&self) -> bool {
        self.trims().count() >= self.most
    }

    /// What is on record and still unmapped, as of `now`; and the slots that records of it replace.
    pub fn renew(&self, now: u64, is_unmapped: impl Fn(Lpn) -> bool) -> (Vec<Extent>, Vec<u32>) {
        let extents = self.trims().flat_map(|(_, r)| r.extents.iter().copied()).collect();
        (unmapped(extents, now, is_unmapped), self.trims().map(|(slot, _)| slot).collect())
    }

    /// Notes a record that was written; returns its slot.
    pub fn written(&mut self, record: Record) -> u32 {
        match self.records.iter().position(Option::is_none) {
            Some(slot) => {
                self.records[slot] = Some(record);
                slot as u32
            }
            None => {
                self.records.push(Some(record));
                (self.records.len() - 1) as u32
            }
        }
    }

    /// The record in a slot.
    pub fn record(&self, slot: u32) -> Option<&Record> {
        self.records.get(slot as usize)?.as_ref()
    }

    /// A record moved.
    pub fn moved(&mut self, slot: u32, to: Ppn) {
        self.records[slot as usize].as_mut().expect("a record that moves exists").ppn = to;
    }

    /// Drops a record; its page becomes invalid.
    pub fn drop_record(&mut self, slot: u32) -> Ppn {
        self.records[slot as usize].take().expect("a record that is dropped exists").ppn
    }

    /// Slots whose records nobody needs when the oldest page on the drive has number `oldest`. With `by_first`, a planted fault, only the first
    /// extent of each is asked.
    pub fn unneeded(&self, oldest: u64, by_first: bool) -> Vec<u32> {
        let asked = |r: &Record| if by_first { r.extents.len().min(1) } else { r.extents.len() };
        self.trims()
            .filter(|(_, r)| r.extents[..asked(r)].iter().all(|e| e.as_of < oldest))
            .map(|(slot, _)| slot)
            .collect()
    }

    /// Writes a record's bytes into `page`, which holds zeros.
    pub fn encode(extents: &[Extent], page: &mut [u8]) {
        page[0..4].copy_from_slice(&MAGIC.to_le_bytes());
        page[4..8].copy_from_slice(&(extents.len() as u32).to_le_bytes());
        for (bytes, extent) in page[HEADER..].chunks_exact_mut(EXTENT).zip(extents) {
            bytes[..4].copy_from_slice(&extent.first.0.to_le_bytes());
            bytes[4..8].copy_from_slice(&extent.count.to_le_bytes());
            bytes[8..].copy_from_slice(&extent.as_of.to_le_bytes());
        }
    }

    /// Reads a record's bytes. `None` when they are none.
    pub fn decode(page: &[u8]) -> Option<Vec<Extent>> {
        let word = |at: usize| Some(u32::from_le_bytes(page.get(at..at + 4)?.try_into().ok()?));
        if word(0)? != MAGIC {
            return None;
        }
        (0..word(4)? as usize)
            .map(|i| {
                let at = HEADER + EXTENT * i;
                let as_of = u64::from_le_bytes(page.get(at + 8..at + 16)?.try_into().ok()?);
                Some(Extent { first: Lpn(word(at)?), count: word(at + 4)?, as_of })
            })
            .collect()
    }
}

/// Sorts and merges extents, cut to the pages that are unmapped.
fn unmapped(mut extents: Vec<Extent>, as_of: u64, is_unmapped: impl Fn(Lpn) -> bool) -> Vec<Extent> {
    extents.sort_by_key(|e| (e.first, e.count));
    let mut out: Vec<Extent> = Vec::new();
    let mut done = 0; // pages below are settled
    for extent in extents {
        for lpn in extent.first.0.max(done)..extent.first.0 + extent.count {
            if is_unmapped(Lpn(lpn)) {
                match out.last_mut() {
                    Some(last) if last.first.0 + last.count == lpn => last.count += 1,
                    _ => out.push(Extent { first: Lpn(lpn), count: 1, as_of }),
                }
            }
        }
        done = done.max(extent.first.0 + extent.count);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extent(first: u32, count: u32, as_of: u64) -> Extent {
        Extent { first: Lpn(first), count, as_of }
    }

    #[test]
    fn pages_of_overlapping_extents_are_recorded_once() {
        let trims = vec![extent(20, 1, 7), extent(0, 10, 7), extent(8, 4, 7), extent(2, 3, 7)];
        let found = unmapped(trims, 9, |lpn| lpn.0 != 5);
        let found: Vec<(u32, u32, u64)> = found.iter().map(|e| (e.first.0, e.count, e.as_of)).collect();
        assert_eq!(found, [(0, 5, 9), (6, 6, 9), (20, 1, 9)]);
    }

    #[test]
    fn a_record_reads_back_as_it_was_written() {
        let extents = [extent(3, 9, 7), extent(70, 1, 1 << 40)];
        let mut page = vec![0; 512];
        TrimJournal::encode(&extents, &mut page);
        assert_eq!(TrimJournal::decode(&page), Some(extents.to_vec()));
        assert_eq!(TrimJournal::decode(&[0; 512]), None);
    }

    #[test]
    fn trims_merge_only_when_nothing_was_programmed_between() {
        let mut journal = TrimJournal::default();
        journal.trimmed(extent(10, 4, 5));
        journal.trimmed(extent(14, 2, 5));
        journal.trimmed(extent(16, 1, 6));
        assert_eq!(journal.take_pending(), [extent(10, 6, 5), extent(16, 1, 6)]);
        assert_eq!(journal.pending(), 0);
    }

    #[test]
    fn many_records_become_one_without_what_was_written_since() {
        let mut journal = TrimJournal::default();
        for i in 0..RECORDS_MAX as u32 {
            journal.written(Record {
                ppn: Ppn(i),
                extents: vec![extent(i, 1, u64::from(i))],
                is_table: false,
            });
        }
        assert!(journal.is_long());
        let (extents, replaced) = journal.renew(99, |lpn| lpn != Lpn(4));
        assert_eq!(extents, [extent(0, 4, 99), extent(5, 11, 99)]);
        assert_eq!(replaced.len(), RECORDS_MAX);
    }

    #[test]
    fn a_record_older_than_every_page_is_not_needed() {
        let mut journal = TrimJournal::default();
        let slot = journal.written(Record {
            ppn: Ppn(0),
            extents: vec![extent(0, 1, 5), extent(9, 1, 8)],
            is_table: false,
        });
        assert!(journal.unneeded(8, false).is_empty());
        assert_eq!(journal.unneeded(9, false), [slot]);
    }
}
