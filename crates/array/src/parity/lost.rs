//! Sectors of a leg that a rebuild could not make: their content is lost until they are written.
//!
//! A rebuild that meets a sector which another leg cannot read tries it some times, one sector alone, then puts it on this list and
//! goes on, as the bad block lists of Linux md do. From then on the leg counts as unable to read there: a read of it is made from the others,
//! which works again if the other leg reads again, and fails otherwise; it is never answered with what lies there. The other
//! leg's own copy is left as it is.
//!
//! A sector leaves the list when its place was written: by a write of the client that does not need what is lost, by a read
//! that made it from the others, or by the array itself, which tries one of them each second. It is *mended* then, and
//! stays on the list of the superblocks until a checkpoint that began later has flushed all legs: a cut may take the write with it.
//! A write of the client is also in the journal until then, and what is replayed is mended.
//!
//! The list lies behind the record in each superblock and has its checksum there. It holds [`MOST`] sectors; when it is full the rebuild
//! stops where it is. Without a journal there is no list: a rebuild stops.
//!
//! Cost: 16 B for each entry. A request looks at nothing while the list is empty, at every entry otherwise.

use super::layout::{PAGE, Superblock};
use crate::member::slots::Record;
use nandu_base::seal::flipped_bit;

/// Most sectors on the list: what fits behind the record.
pub const MOST: usize = 440;
const HEAD: usize = 512;

/// What a leg carries in one slot: its superblock, and the list behind it.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Written {
    pub(super) sb: Superblock,
    pub(super) lost: Vec<u64>,
}

impl Record for Written {
    fn number(&self) -> u64 {
        self.sb.head.seq
    }

    fn read(bytes: &[u8]) -> Option<(Written, bool)> {
        let (sb, head) = Superblock::read(bytes)?;
        let (lost, tail) = Lost::decode(bytes, sb.lost)?;
        Some((Written { sb, lost }, head || tail))
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Lost,
    /// Its place was written.
    Mended,
    /// The same, and legs are being flushed since.
    Flushing,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Entry {
    leg: u8,
    /// Number of the unit on the leg.
    unit: u64,
    state: State,
}

/// The list.
#[derive(Debug)]
pub(super) struct Lost {
    /// log2 of the bytes of a unit: the smallest that can be read alone.
    bits: u32,
    entries: Vec<Entry>,
    /// The entry that is tried next.
    turn: usize,
}

impl Lost {
    pub(super) fn new(align: u32) -> Lost {
        Lost { bits: align.trailing_zeros(), entries: Vec::new(), turn: 0 }
    }

    /// Bytes of one sector on the list.
    pub(super) fn unit(&self) -> u64 {
        1 << self.bits
    }

    /// Whether it names no sector, not even one that was mended.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Sectors that are lost.
    pub(super) fn count(&self) -> usize {
        self.entries.iter().filter(|e| e.state == State::Lost).count()
    }

    fn units(&self, start: u64, end: u64) -> std::ops::Range<u64> {
        start >> self.bits..end.div_ceil(self.unit())
    }

    /// The legs that have lost something from `start` to before `end`.
    #[inline]
    pub(super) fn legs(&self, start: u64, end: u64) -> u16 {
        if self.entries.is_empty() {
            return 0;
        }
        let units = self.units(start, end);
        let here = self.entries.iter().filter(|e| e.state == State::Lost && units.contains(&e.unit));
        here.fold(0, |legs, e| legs | 1 << e.leg)
    }

    /// One sector of a leg is lost; false when the list is full.
    pub(super) fn add(&mut self, leg: usize, start: u64) -> bool {
        let (leg, unit) = (leg as u8, start >> self.bits);
        match self.entries.iter().position(|e| (e.leg, e.unit) == (leg, unit)) {
            Some(at) => self.entries[at].state = State::Lost,
            None if self.entries.len() == MOST => return false,
            None => self.entries.push(Entry { leg, unit, state: State::Lost }),
        }
        true
    }

    /// This extent of a leg was written. Returns how many sectors were lost there.
    pub(super) fn mend(&mut self, leg: usize, start: u64, end: u64) -> u64 {
        if self.entries.is_empty() {
            return 0;
        }
        let units = self.units(start, end);
        let here =
            |e: &&mut Entry| usize::from(e.leg) == leg && e.state == State::Lost && units.contains(&e.unit);
        self.entries.iter_mut().filter(here).map(|e| e.state = State::Mended).count() as u64
    }

    /// All legs are being flushed.
    pub(super) fn flushing(&mut self) {
        let mended = self.entries.iter_mut().filter(|e| e.state != State::Lost);
        mended.for_each(|e| e.state = State::Flushing);
    }

    /// That is done.
    pub(super) fn flushed(&mut self) {
        self.entries.retain(|e| e.state != State::Flushing);
    }

    /// A leg goes: nothing of it is read any more.
    pub(super) fn drop_leg(&mut self, leg: usize) {
        self.entries.retain(|e| usize::from(e.leg) != leg);
    }

    pub(super) fn clear(&mut self) {
        self.entries.clear();
    }

    /// The lost sector whose turn it is: its leg and where it begins.
    pub(super) fn next(&self) -> Option<(usize, u64)> {
        let mut lost = self.entries.iter().filter(|e| e.state == State::Lost);
        let entry = lost.nth(self.turn % self.count().max(1))?;
        Some((usize::from(entry.leg), entry.unit << self.bits))
    }

    /// It is being tried: the turn of another one comes.
    pub(super) fn tried(&mut self) {
        self.turn = self.turn.wrapping_add(1);
    }

    /// Writes the list into a superblock of zeros, behind its record. Returns what the record says of it: the number of entries and a
    /// checksum, 0 for none.
    pub(super) fn encode(&self, page: &mut [u8]) -> u64 {
        let words = page[HEAD..].chunks_exact_mut(8);
        for (word, e) in words.zip(&self.entries) {
            word.copy_from_slice(&(e.unit << 4 | u64::from(e.leg)).to_le_bytes());
        }
        Lost::seal(page, self.entries.len())
    }

    fn seal(page: &[u8], count: usize) -> u64 {
        match count {
            0 => 0,
            _ => u64::from(crc32c::crc32c(&page[HEAD..HEAD + count * 8])) << 32 | count as u64,
        }
    }

    /// The words of the list in a superblock whose record says `seal`, also when a single bit of them has flipped, and whether it had; `None` when
    /// they are not those.
    pub(super) fn decode(page: &[u8], seal: u64) -> Option<(Vec<u64>, bool)> {
        let count = (seal & 0xFFFF_FFFF) as usize;
        if page.len() < PAGE as usize || count > MOST {
            return None;
        }
        let mut list = page[HEAD..HEAD + count * 8].to_vec();
        let difference = (seal ^ Lost::seal(page, count)) >> 32;
        if difference != 0 {
            let bit = flipped_bit(difference as u32, list.len())?;
            list[bit / 8] ^= 1 << (bit % 8);
        }
        let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
        Some((list.chunks_exact(8).map(word).collect(), difference != 0))
    }

    /// Takes over what [`decode`](Lost::decode) has found, as far as it lies on one of so many legs of `data` bytes.
    pub(super) fn restore(&mut self, words: &[u64], legs: usize, data: u64) {
        let units = data >> self.bits;
        let entry = |&word: &u64| Entry { leg: (word & 15) as u8, unit: word >> 4, state: State::Lost };
        let is_here = |e: &Entry| usize::from(e.leg) < legs && e.unit < units;
        self.entries = words.iter().map(entry).filter(is_here).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mended_sector_stays_until_a_flush_that_began_later() {
        let mut lost = Lost::new(512);
        assert!(lost.add(1, 4096) && lost.add(2, 512));
        assert_eq!((lost.legs(0, 8192), lost.legs(0, 512), lost.legs(4096, 4608)), (0b110, 0, 0b10));
        lost.flushing();
        assert_eq!(lost.mend(1, 0, 8192), 1);
        assert_eq!((lost.legs(0, 8192), lost.count()), (0b100, 1));
        lost.flushed();
        assert_eq!(lost.entries.len(), 2, "it was mended after the flush began");
        lost.flushing();
        lost.flushed();
        assert_eq!(lost.entries.len(), 1);
    }

    #[test]
    fn a_list_reads_back_and_any_other_is_refused() {
        let mut lost = Lost::new(4096);
        (0..MOST as u64).for_each(|k| assert!(lost.add((k % 5) as usize, k * 12_288)));
        assert!(!lost.add(0, 1 << 40), "the list is full");
        let mut page = vec![0; PAGE as usize];
        let seal = lost.encode(&mut page);
        let mut again = Lost::new(4096);
        let (words, is_mended) = Lost::decode(&page, seal).expect("what was written");
        assert!(!is_mended);
        again.restore(&words, 5, 1 << 40);
        assert_eq!(again.entries, lost.entries);
        again.restore(&words, 5, 12_288);
        assert_eq!(again.entries.len(), 1, "what lies behind the data is none of ours");
        page[HEAD + 9] ^= 1;
        assert_eq!(Lost::decode(&page, seal), Some((words, true)), "a bit has flipped");
        page[HEAD + 90] ^= 1;
        assert_eq!(Lost::decode(&page, seal), None, "another list");
        assert_eq!(Lost::decode(&page, 0), Some((vec![], false)), "a superblock without one");
        assert_eq!(Lost::decode(&page, MOST as u64 + 1), None);
    }
}
