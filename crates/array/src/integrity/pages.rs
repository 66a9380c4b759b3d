//! The pages of tags that are in memory.
//!
//! A page is found by its region in two steps through flat tables, of which only the parts in use exist. A page that nobody uses and
//! whose tags are on the device makes room by second chance: the hand goes round, and a page that was used since it came by
//! stays once more. RAM: 4 bytes a block that is covered, and 40 bytes a page.

use super::layout::{DAMAGED, Layout, UNCHECKED};
use nandu_base::Instant;

/// No page.
pub(super) const NONE: u32 = u32::MAX;
/// Regions in one part of the table.
const PART: u32 = 1024;

/// How far a page is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    /// It is being read.
    Loading,
    /// Its tags are right.
    Ready,
}

/// A page of tags.
#[derive(Clone, Copy, Debug)]
pub(super) struct Page {
    pub(super) region: u32,
    pub(super) state: State,
    /// The tags on the device are, or will be, older.
    pub(super) dirty: bool,
    /// New writes wait: the tags are about to be written.
    pub(super) held: bool,
    /// It was used since the hand came by.
    used: bool,
    /// Parts that need it.
    pub(super) pins: u32,
    /// Changes of its blocks that are under way, or begin as soon as its mark is durable.
    pub(super) writing: u32,
    /// The change of the marks that says that it is dirty.
    pub(super) mark: u64,
    /// The last write.
    pub(super) written: Instant,
}

/// The pages in memory.
#[derive(Debug)]
pub(super) struct Pages {
    slots: Vec<Page>,
    tags: Vec<u32>,
    /// The page of each region, by parts of the table.
    of: Vec<Box<[u32]>>,
    per_region: usize,
    most: usize,
    hand: usize,
}

impl Pages {
    pub(super) fn new(layout: &Layout, most: usize) -> Pages {
        let parts = layout.regions.div_ceil(u64::from(PART)) as usize;
        let per_region = layout.per_region() as usize;
        Pages {
            slots: Vec::new(),
            tags: Vec::new(),
            of: vec![Box::default(); parts],
            per_region,
            most,
            hand: 0,
        }
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.slots.clear();
        self.tags.clear();
        self.of.iter_mut().for_each(|part| *part = Box::default());
        self.hand = 0;
    }

    /// The page of a region.
    pub(super) fn find(&mut self, region: u32) -> Option<u32> {
        let part = &self.of[(region / PART) as usize];
        let slot = part.get((region % PART) as usize).copied().filter(|&slot| slot != NONE)?;
        self.slots[slot as usize].used = true;
        Some(slot)
    }

    /// A page for a region that has none, to be loaded. `None` while all are in use.
    pub(super) fn take(&mut self, region: u32) -> Option<u32> {
        let slot = if self.slots.len() < self.most {
            self.tags.resize(self.tags.len() + self.per_region, UNCHECKED);
            self.slots.len() as u32
        } else {
            self.evict()?
        };
        let fresh = Page {
            region,
            state: State::Loading,
            dirty: false,
            held: false,
            used: true,
            pins: 0,
            writing: 0,
            mark: 0,
            written: Instant::ZERO,
        };
        match self.slots.get_mut(slot as usize) {
            Some(page) => *page = fresh,
            None => self.slots.push(fresh),
        }
        let part = &mut self.of[(region / PART) as usize];
        if part.is_empty() {
            *part = vec![NONE; PART as usize].into();
        }
        part[(region % PART) as usize] = slot;
        Some(slot)
    }

    fn evict(&mut self) -> Option<u32> {
        for _ in 0..2 * self.slots.len() {
            let slot = self.hand;
            self.hand = (self.hand + 1) % self.slots.len();
            let page = &mut self.slots[slot];
            if page.pins > 0 || page.dirty || page.state == State::Loading {
                continue;
            }
            if !std::mem::take(&mut page.used) {
                let region = page.region;
                self.of[(region / PART) as usize][(region % PART) as usize] = NONE;
                return Some(slot as u32);
            }
        }
        None
    }

    /// Everything in memory, in the order of the slots.
    pub(super) fn all(&self) -> impl Iterator<Item = &Page> {
        self.slots.iter()
    }

    pub(super) fn tags(&self, slot: u32) -> &[u32] {
        &self.tags[slot as usize * self.per_region..][..self.per_region]
    }

    pub(super) fn tags_mut(&mut self, slot: u32) -> &mut [u32] {
        &mut self.tags[slot as usize * self.per_region..][..self.per_region]
    }

    /// A page has been read, or could not be.
    pub(super) fn loaded(&mut self, slot: u32, found: Option<&[u8]>) {
        let tags = &mut self.tags[slot as usize * self.per_region..][..self.per_region];
        match found {
            Some(bytes) => decode(bytes, tags),
            None => tags.fill(DAMAGED),
        }
        self.slots[slot as usize].state = State::Ready;
    }
}

impl std::ops::Index<u32> for Pages {
    type Output = Page;
    fn index(&self, slot: u32) -> &Page {
        &self.slots[slot as usize]
    }
}

impl std::ops::IndexMut<u32> for Pages {
    fn index_mut(&mut self, slot: u32) -> &mut Page {
        &mut self.slots[slot as usize]
    }
}

/// The tags in a page's bytes.
pub(super) fn decode(bytes: &[u8], tags: &mut [u32]) {
    for (tag, bytes) in tags.iter_mut().zip(bytes.chunks_exact(4)) {
        *tag = u32::from_le_bytes(bytes.try_into().expect("four bytes"));
    }
}

/// The bytes of a page's tags.
pub(super) fn encode(tags: &[u32], bytes: &mut [u8]) {
    for (tag, bytes) in tags.iter().zip(bytes.chunks_exact_mut(4)) {
        bytes.copy_from_slice(&tag.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandu_base::ByteLen;

    #[test]
    fn what_is_used_stays_and_what_is_dirty_or_pinned_stays_always() {
        let layout = Layout::new(ByteLen::gib(2), 512, 512).expect("it has room");
        let mut pages = Pages::new(&layout, 3);
        for region in [5, 2000, 7] {
            let slot = pages.take(region).expect("there is room");
            pages.loaded(slot, None);
        }
        let (dirty, pinned) = (pages.find(5).expect("it is here"), pages.find(2000).expect("it is here"));
        pages[dirty].dirty = true;
        pages[pinned].pins = 1;
        let third = pages.take(9).expect("region 7 goes");
        assert_eq!((pages.find(7), pages.find(9)), (None, Some(third)));
        assert_eq!(pages.take(11), None, "what is being read stays");
        pages.loaded(third, Some(&[2; 4096]));
        assert_eq!(pages.tags(third)[0], 0x0202_0202);
        assert_eq!(pages.tags(dirty)[0], DAMAGED);
        pages.clear();
        assert_eq!(pages.find(5), None);
    }
}
