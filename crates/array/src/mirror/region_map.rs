//! The region map of one leg, in memory: what is wanted, what was written last, what is durable.
//!
//! Two bits stand for each region: D "the legs may differ here" and L "this leg may lack promised data here". A change is
//! wanted first; one *batch* writes every page with changes into its older slot, then the leg is flushed, and only then
//! do the bits count as durable and may the next batch begin (R-SLOT). Everybody who waits meanwhile shares the next
//! batch. A bit that is no longer wanted stops being durable at once: its clearing may be under way.
//!
//! A slot that could not be read may hold a record of any number, and may be readable at the next start. So it is the first
//! to be written, and a page of which neither slot could be read counts as durable only when both are written anew.
//!
//! RAM: six bits for each region and leg, 0.75 MiB for 1 TiB in regions of 1 MiB.

use super::layout::{REGIONS_PER_PAGE, WORDS_PER_PAGE, encode_page, read_page};

/// D of one region in its word.
pub const D: u64 = 1;
/// L of one region in its word.
pub const L: u64 = 2;
/// D of every region of a word.
const ALL_D: u64 = 0x5555_5555_5555_5555;

/// Where a page's newest record is.
#[derive(Clone, Copy, Debug, Default)]
struct Slots {
    seq: u64,
    newest: Option<u8>,
    /// Slots that could not be read and were not written since, one bit each.
    unreadable: u8,
    /// A bit of one of them was put right.
    is_mended: bool,
}

/// The map of one leg.
#[derive(Debug)]
pub struct LegMap {
    want: Vec<u64>,
    written: Vec<u64>,
    durable: Vec<u64>,
    slots: Vec<Slots>,
    /// Pages to write, one bit each.
    changed: Vec<u64>,
    changes: u32,
    /// The next page to look at, so that every page has its turn.
    cursor: u32,
    /// Pages of the batch under way.
    batch: Vec<u32>,
    /// Regions that exist; the bits behind them are never set.
    regions: u32,
}

impl LegMap {
    /// A map of `pages` pages for `regions` regions without any bit set.
    pub fn new(pages: u32, regions: u32) -> LegMap {
        let words = pages as usize * WORDS_PER_PAGE;
        LegMap {
            want: vec![0; words],
            written: vec![0; words],
            durable: vec![0; words],
            slots: vec![Slots::default(); pages as usize],
            changed: vec![0; (pages as usize).div_ceil(64)],
            changes: 0,
            cursor: 0,
            batch: Vec::with_capacity(16),
            regions,
        }
    }

    /// Number of pages.
    pub fn pages(&self) -> u32 {
        self.slots.len() as u32
    }

    /// Forgets everything, before it is loaded again.
    pub fn clear(&mut self) {
        self.want.fill(0);
        self.written.fill(0);
        self.durable.fill(0);
        self.slots.fill(Slots::default());
        self.changed.fill(0);
        self.changes = 0;
        self.batch.clear();
    }

    #[inline]
    fn at(region: u32) -> (usize, u32) {
        ((region / 32) as usize, region % 32 * 2)
    }

    fn touch(&mut self, page: u32) {
        let (word, bit) = ((page / 64) as usize, 1 << (page % 64));
        if self.changed[word] & bit == 0 {
            self.changed[word] |= bit;
            self.changes += 1;
        }
    }

    /// Wants these bits set for a region.
    pub fn set(&mut self, region: u32, bits: u64) {
        let (word, shift) = Self::at(region);
        if self.want[word] >> shift & bits != bits {
            self.want[word] |= bits << shift;
            self.touch(region / REGIONS_PER_PAGE);
        }
    }

    /// Wants no bit for a region; what was durable counts no longer.
    pub fn unset(&mut self, region: u32) {
        let (word, shift) = Self::at(region);
        if self.want[word] >> shift & (D | L) != 0 {
            self.want[word] &= !((D | L) << shift);
            self.durable[word] &= !((D | L) << shift);
            self.touch(region / REGIONS_PER_PAGE);
        }
    }

    /// Wants exactly `bits` for a region.
    pub fn put(&mut self, region: u32, bits: u64) {
        let (word, shift) = Self::at(region);
        let want = self.want[word] & !((D | L) << shift) | bits << shift;
        if want != self.want[word] {
            self.want[word] = want;
            self.durable[word] &= want;
            self.touch(region / REGIONS_PER_PAGE);
        }
    }

    /// Wants every page written, changed or not.
    pub fn touch_all(&mut self) {
        (0..self.pages()).for_each(|page| self.touch(page));
    }

    /// Whether the bit is set, durable, and no clearing is pending.
    #[inline]
    pub fn is_durable(&self, region: u32, bit: u64) -> bool {
        let (word, shift) = Self::at(region);
        self.durable[word] >> shift & bit == bit
    }

    /// The wanted bits of a region.
    #[inline]
    pub fn wanted(&self, region: u32) -> u64 {
        let (word, shift) = Self::at(region);
        self.want[word] >> shift & (D | L)
    }

    /// Whether some page waits to be written.
    pub fn has_changes(&self) -> bool {
        self.changes > 0
    }

    /// Whether all that is wanted is durable.
    pub fn is_settled(&self) -> bool {
        self.changes == 0 && self.batch.is_empty()
    }

    /// Begins a batch of at most `most` pages, in the order of their numbers from where the last one ended; how many.
    pub fn begin(&mut self, most: usize) -> usize {
        assert!(self.batch.is_empty(), "slot_alternates_after_flush: a batch begins inside another");
        let pages = self.pages();
        let mut page = self.cursor;
        for _ in 0..pages {
            page = if page >= pages { 0 } else { page };
            let (word, bit) = ((page / 64) as usize, 1 << (page % 64));
            if self.changed[word] & bit != 0 {
                self.changed[word] &= !bit;
                self.changes -= 1;
                self.batch.push(page);
                if self.batch.len() == most {
                    break;
                }
            }
            page += 1;
        }
        self.cursor = page + 1;
        self.batch.len()
    }

    /// The pages of the batch under way.
    pub fn batch(&self) -> &[u32] {
        &self.batch
    }

    /// Fills the record of a page of this batch; the slot it goes to.
    pub fn encode(&mut self, page: u32, set_tag: u64, one_slot: bool, out: &mut [u8]) -> u8 {
        let words = page as usize * WORDS_PER_PAGE..(page as usize + 1) * WORDS_PER_PAGE;
        self.written[words.clone()].copy_from_slice(&self.want[words.clone()]);
        let slots = &mut self.slots[page as usize];
        // A slot that cannot be read may hold the update after the newest known one: it is the one to replace.
        let slot = match (slots.unreadable, slots.newest) {
            (0, Some(newest)) => 1 - newest,
            (0, None) => 0,
            (bad, _) => bad.trailing_zeros() as u8,
        };
        let slot = if one_slot { 0 } else { slot };
        slots.seq += 1 + u64::from(slots.unreadable != 0);
        slots.unreadable &= !(1 << slot);
        slots.newest = Some(slot);
        encode_page(page, slots.seq, set_tag, &self.written[words], out);
        slot
    }

    /// The slot that holds the newest record of a page.
    pub fn newest(&self, page: u32) -> u8 {
        self.slots[page as usize].newest.unwrap_or(0)
    }

    /// The batch is durable.
    pub fn finish(&mut self) {
        let mut batch = std::mem::take(&mut self.batch);
        for page in batch.drain(..) {
            if self.slots[page as usize].unreadable != 0 {
                self.touch(page); // the other slot may still hold a record that looks newer
                continue;
            }
            let words = page as usize * WORDS_PER_PAGE..(page as usize + 1) * WORDS_PER_PAGE;
            for word in words {
                self.durable[word] = self.written[word] & self.want[word];
            }
        }
        self.batch = batch;
    }

    /// A slot of a page was read. Whether a bit of it was put right: then the page will be written.
    pub fn offer(&mut self, page: u32, slot: u8, set_tag: u64, bytes: &[u8]) -> bool {
        let Some(((seq, words), is_mended)) = read_page(page, set_tag, bytes) else { return false };
        let slots = &mut self.slots[page as usize];
        slots.is_mended |= is_mended;
        if slots.newest.is_none() || seq > slots.seq {
            slots.seq = seq;
            slots.newest = Some(slot);
            let start = page as usize * WORDS_PER_PAGE;
            self.written[start..start + WORDS_PER_PAGE].copy_from_slice(&words);
        }
        is_mended
    }

    /// A slot of a page could not be read.
    pub fn offer_nothing(&mut self, page: u32, slot: u8) {
        self.slots[page as usize].unreadable |= 1 << slot;
    }

    /// A planted fault: of two slots that could not be read one is forgotten.
    pub fn forget_one_unreadable(&mut self, page: u32) {
        let slots = &mut self.slots[page as usize];
        slots.unreadable &= slots.unreadable.wrapping_neg();
    }

    /// Everything was read. A page without a valid record, or with one that may hide a newer one, reads as `otherwise`
    /// for every region, and will be written.
    pub fn loaded(&mut self, otherwise: u64) {
        for page in 0..self.pages() {
            let start = page as usize * WORDS_PER_PAGE;
            let words = start..start + WORDS_PER_PAGE;
            let slots = self.slots[page as usize];
            let sure = slots.newest.is_some() && slots.unreadable == 0;
            if slots.is_mended {
                self.touch(page);
            }
            if sure {
                self.durable[words.clone()].copy_from_slice(&self.written[words.clone()]);
            } else {
                self.written[words.clone()].fill(ALL_D * otherwise);
                self.durable[words.clone()].fill(0);
                self.touch(page);
            }
            self.want[words.clone()].copy_from_slice(&self.written[words]);
        }
        self.forget_beyond();
    }

    /// Bits of regions that do not exist mean nothing.
    fn forget_beyond(&mut self) {
        let (word, shift) = Self::at(self.regions);
        if let Some(last) = self.want.get_mut(word) {
            *last &= (1 << shift) - 1;
            self.want[word + 1..].fill(0);
        }
    }

    /// Regions with a wanted bit, in order.
    pub fn any(&self) -> impl Iterator<Item = u32> + '_ {
        let words = self.want.iter().enumerate().filter(|&(_, &bits)| bits != 0);
        words.flat_map(|(word, &bits)| {
            (0..32).filter(move |i| bits >> (2 * i) & (D | L) != 0).map(move |i| word as u32 * 32 + i)
        })
    }

    /// Whether a region has a wanted L.
    pub fn any_l(&self) -> bool {
        self.want.iter().any(|&bits| bits & (ALL_D * L) != 0)
    }

    /// Regions with a wanted D.
    pub fn count_d(&self) -> u64 {
        self.want.iter().map(|&bits| u64::from((bits & ALL_D).count_ones())).sum()
    }
}

/// A plain bitmap over regions that counts what is set.
#[derive(Debug)]
pub struct Bits {
    words: Vec<u64>,
    count: u64,
    len: u32,
}

impl Bits {
    /// `len` bits, none set.
    pub fn new(len: u32) -> Bits {
        Bits { words: vec![0; (len as usize).div_ceil(64)], count: 0, len }
    }

    /// Whether bit `i` is set.
    #[inline]
    pub fn has(&self, i: u32) -> bool {
        self.words[(i / 64) as usize] >> (i % 64) & 1 != 0
    }

    /// Sets bit `i`.
    pub fn set(&mut self, i: u32) {
        if !self.has(i) {
            self.words[(i / 64) as usize] |= 1 << (i % 64);
            self.count += 1;
        }
    }

    /// Clears bit `i`.
    pub fn unset(&mut self, i: u32) {
        if self.has(i) {
            self.words[(i / 64) as usize] &= !(1 << (i % 64));
            self.count -= 1;
        }
    }

    /// Clears every bit.
    pub fn clear(&mut self) {
        self.words.fill(0);
        self.count = 0;
    }

    /// Bits set.
    #[inline]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The first bit set at `from` or behind it.
    pub fn next(&self, from: u32) -> Option<u32> {
        if from >= self.len {
            return None;
        }
        let mut word = (from / 64) as usize;
        let mut bits = self.words[word] >> (from % 64) << (from % 64);
        while bits == 0 {
            word += 1;
            bits = *self.words.get(word)?;
        }
        Some(word as u32 * 64 + bits.trailing_zeros())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mirror::layout::PAGE;

    fn write(map: &mut LegMap) -> Vec<(u32, u8, Vec<u8>)> {
        map.begin(8);
        let pages = map.batch().to_vec();
        pages
            .into_iter()
            .map(|page| {
                let mut out = vec![0; PAGE as usize];
                let slot = map.encode(page, 7, false, &mut out);
                (page, slot, out)
            })
            .collect()
    }

    #[test]
    fn a_bit_counts_once_its_batch_is_durable_and_not_after_it_is_unset() {
        let mut map = LegMap::new(2, 30_000);
        map.set(20_000, D);
        assert!(!map.is_durable(20_000, D));
        let records = write(&mut map);
        assert_eq!(records.len(), 1);
        assert_eq!((records[0].0, records[0].1), (1, 0));
        assert!(!map.is_durable(20_000, D));
        map.finish();
        assert!(map.is_durable(20_000, D) && map.is_settled());
        map.unset(20_000);
        assert!(!map.is_durable(20_000, D));
        assert_eq!(write(&mut map)[0].1, 1, "slots take turns");
        map.set(20_000, D); // before the clearing is durable
        map.finish();
        assert!(!map.is_durable(20_000, D), "the batch said clear");
        write(&mut map);
        map.finish();
        assert!(map.is_durable(20_000, D));
    }

    #[test]
    fn the_newest_valid_slot_is_believed_and_no_slot_means_all() {
        let mut map = LegMap::new(2, 30_000);
        map.set(5, D);
        let first = write(&mut map);
        map.finish();
        map.set(6, D | L);
        let second = write(&mut map);
        map.finish();
        let mut back = LegMap::new(2, 30_000);
        for (page, slot, bytes) in second.iter().chain(&first) {
            back.offer(*page, *slot, 7, bytes);
        }
        back.loaded(D);
        assert_eq!((back.wanted(5), back.wanted(6), back.wanted(7)), (D, D | L, 0));
        assert_eq!(back.wanted(REGIONS_PER_PAGE + 3), D, "page 1 was never written");
        assert!(back.any_l());
        back.set(9, D);
        assert_eq!(write(&mut back)[0].1, 0, "slot 1 is the newest");
    }

    #[test]
    fn a_slot_that_cannot_be_read_may_hide_news() {
        let mut map = LegMap::new(1, 16_000);
        map.set(5, D);
        let record = write(&mut map);
        map.finish();
        let mut back = LegMap::new(1, 16_000);
        back.offer(0, 0, 7, &record[0].2);
        back.offer_nothing(0, 1);
        back.loaded(D | L);
        assert_eq!(back.wanted(77), D | L);
        assert_eq!(write(&mut back)[0].1, 1);
    }

    #[test]
    fn two_slots_that_cannot_be_read_are_both_written_before_the_page_counts() {
        let mut map = LegMap::new(1, 16_000);
        let mut old = Vec::new();
        for region in 0..5 {
            map.set(region, D);
            old = write(&mut map);
            map.finish();
        }
        let mut back = LegMap::new(1, 16_000);
        back.offer_nothing(0, 0);
        back.offer_nothing(0, 1);
        back.loaded(D);
        let first = write(&mut back);
        back.finish();
        assert!(!back.is_settled() && !back.is_durable(77, D), "the old record is in the other slot");
        let second = write(&mut back);
        back.finish();
        assert!(back.is_settled() && back.is_durable(77, D));
        assert_ne!(first[0].1, second[0].1);
        // Whichever slot the newest old record was in, the next start finds the new ones.
        assert_eq!(old.len(), 1);
        let mut next = LegMap::new(1, 16_000);
        for (page, slot, bytes) in first.iter().chain(&second) {
            next.offer(*page, *slot, 7, bytes);
        }
        next.loaded(D);
        assert_eq!(next.wanted(77), D);
    }

    #[test]
    fn bits_are_found_in_order() {
        let mut bits = Bits::new(200);
        for i in [3, 64, 199] {
            bits.set(i);
            bits.set(i);
        }
        assert_eq!(bits.count(), 3);
        assert_eq!(bits.next(0), Some(3));
        assert_eq!(bits.next(4), Some(64));
        assert_eq!(bits.next(65), Some(199));
        bits.unset(199);
        assert_eq!(bits.next(65), None);
    }
}
