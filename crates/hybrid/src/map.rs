//! Where the newest version of each page of the disk is, and what each page of the rings holds.
//!
//! Two flat tables: 4 bytes for each page of the disk, and 13 bytes for each page (slot) of the rings. Slots of all rings
//! have consecutive numbers, and so have their units.
//!
//! A page of the disk is on the disk; or in a slot; or on the disk with a *mark* in some unit, which says that what older
//! groups hold of it is void; or on the disk with such a mark still wanted. "On the disk" without a mark means that no
//! group on flash holds anything of it that differs from the disk.

use nandu_base::Violation;

/// Where the truth about a page is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Where {
    /// On the disk, and nothing else is on flash.
    Disk,
    /// On the disk; older groups say otherwise, and the mark that corrects them is not in a ring yet.
    Wanted,
    /// On the disk, and this unit (of all rings) holds the mark.
    Marked(u32),
    /// In this slot (of all rings).
    Slot(u32),
}

const DISK: u32 = 0;
const WANTED: u32 = 1;
const FIRST: u32 = 2;

/// The page that a slot without data names.
const NONE: u32 = u32::MAX;

/// Both tables.
#[derive(Clone, Debug)]
pub struct Map {
    place: Vec<u32>,
    slots: u32,
    page: Vec<u32>,
    version: Vec<u64>,
    dirty: Vec<bool>,
    uses: Vec<u8>,
    /// Pages whose newest version is in a slot and not on the disk.
    dirty_pages: u32,
    /// The same of each region, where the disk has a map of them; pages of a region.
    dirty_in: Vec<u32>,
    region_pages: u32,
}

impl Map {
    /// Of a disk of `pages` pages and rings of `slots` slots in all.
    pub fn new(pages: usize, slots: usize, region_pages: Option<u32>) -> Map {
        let regions = region_pages.map_or(0, |of| pages.div_ceil(of as usize));
        Map {
            place: vec![DISK; pages],
            slots: slots as u32,
            page: vec![NONE; slots],
            version: vec![0; slots],
            dirty: vec![false; slots],
            uses: vec![0; slots],
            dirty_pages: 0,
            dirty_in: vec![0; regions],
            region_pages: region_pages.unwrap_or(1),
        }
    }

    /// Counts a page as dirty, or no longer, when that has changed.
    fn recount(&mut self, page: u32, was: bool, is: bool) {
        if was == is {
            return;
        }
        let region = self.dirty_in.get_mut((page / self.region_pages) as usize);
        for count in region.into_iter().chain([&mut self.dirty_pages]) {
            *count = if is { *count + 1 } else { *count - 1 };
        }
    }

    /// Dirty pages of a region.
    pub fn dirty_in(&self, region: u32) -> u32 {
        self.dirty_in[region as usize]
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.place.fill(DISK);
        self.page.fill(NONE);
        self.dirty_pages = 0;
        self.dirty_in.fill(0);
    }

    /// Where a page is.
    #[inline]
    pub fn find(&self, page: u32) -> Where {
        match self.place[page as usize] {
            DISK => Where::Disk,
            WANTED => Where::Wanted,
            at if at - FIRST < self.slots => Where::Slot(at - FIRST),
            at => Where::Marked(at - FIRST - self.slots),
        }
    }

    /// Says where a page is.
    #[inline]
    pub fn put(&mut self, page: u32, at: Where) {
        let was = self.is_dirty_page(page);
        self.place[page as usize] = match at {
            Where::Disk => DISK,
            Where::Wanted => WANTED,
            Where::Slot(slot) => slot + FIRST,
            Where::Marked(unit) => unit + FIRST + self.slots,
        };
        self.recount(page, was, self.is_dirty_page(page));
    }

    #[inline]
    fn is_dirty_page(&self, page: u32) -> bool {
        matches!(self.find(page), Where::Slot(slot) if self.page(slot) == page && self.is_dirty(slot))
    }

    /// Pages of which the disk lacks the newest version that a slot holds.
    pub fn dirty(&self) -> u32 {
        self.dirty_pages
    }

    /// Whether the newest version of its page is in this slot.
    #[inline]
    pub fn is_live(&self, slot: u32) -> bool {
        let page = self.page[slot as usize];
        page != NONE && self.place[page as usize] == slot + FIRST
    }

    /// Says what a slot holds.
    pub fn fill(&mut self, slot: u32, page: u32, version: u64, dirty: bool) {
        let at = slot as usize;
        let counted = |map: &Map| map.is_live(slot) && map.is_dirty(slot);
        self.recount(self.page[at], counted(self), false);
        (self.page[at], self.version[at], self.dirty[at], self.uses[at]) = (page, version, dirty, 0);
        self.recount(page, false, counted(self));
    }

    /// The slot is erased.
    pub fn empty(&mut self, slot: u32) {
        self.recount(self.page[slot as usize], self.is_live(slot) && self.is_dirty(slot), false);
        self.page[slot as usize] = NONE;
    }

    /// The page of which a slot holds a version.
    pub fn page(&self, slot: u32) -> u32 {
        self.page[slot as usize]
    }

    /// That version.
    pub fn version(&self, slot: u32) -> u64 {
        self.version[slot as usize]
    }

    /// Whether the disk lacks it.
    pub fn is_dirty(&self, slot: u32) -> bool {
        self.dirty[slot as usize]
    }

    /// The disk may not hold what this slot holds after all.
    pub fn soil(&mut self, slot: u32) {
        let is_live = self.is_live(slot);
        self.recount(self.page[slot as usize], is_live && self.is_dirty(slot), is_live);
        self.dirty[slot as usize] = true;
    }

    /// The disk holds what this slot holds.
    pub fn clean(&mut self, slot: u32) {
        self.recount(self.page[slot as usize], self.is_live(slot) && self.is_dirty(slot), false);
        self.dirty[slot as usize] = false;
    }

    /// The slot was read.
    pub fn touch(&mut self, slot: u32) {
        self.uses[slot as usize] = self.uses[slot as usize].saturating_add(1);
    }

    /// Reads of the slot since it was filled, and what its page has inherited; 255 stands for more.
    pub fn uses(&self, slot: u32) -> u8 {
        self.uses[slot as usize]
    }

    /// What its page inherits.
    pub fn set_uses(&mut self, slot: u32, uses: u8) {
        self.uses[slot as usize] = uses;
    }

    /// I-12: every page that is in a slot is in one that holds it, of a unit in use, and marks are in units in use.
    /// `in_use` tells of a slot, `unit_in_use` of a unit.
    pub fn check(
        &self,
        in_use: impl Fn(u32) -> bool,
        unit_in_use: impl Fn(u32) -> bool,
    ) -> Result<(), Violation> {
        let broken = |what| Err(Violation { invariant: "I-12", what });
        for page in 0..self.place.len() as u32 {
            match self.find(page) {
                Where::Slot(slot) if self.page(slot) != page => {
                    return broken(format!(
                        "page {page} is looked for in slot {slot}, which holds {}",
                        self.page(slot)
                    ));
                }
                Where::Slot(slot) if !in_use(slot) => {
                    return broken(format!("page {page} is valid in slot {slot} of a unit that is erased"));
                }
                Where::Marked(unit) if !unit_in_use(unit) => {
                    return broken(format!("the mark of page {page} is in unit {unit}, which is erased"));
                }
                _ => {}
            }
        }
        let dirty = (0..self.place.len() as u32).filter(|&page| self.is_dirty_page(page)).count();
        if dirty != self.dirty_pages as usize {
            return broken(format!("{dirty} pages are dirty, {} are counted", self.dirty_pages));
        }
        for (region, &counted) in self.dirty_in.iter().enumerate() {
            let first = region as u32 * self.region_pages;
            let end = first.saturating_add(self.region_pages).min(self.place.len() as u32);
            let dirty = (first..end).filter(|&page| self.is_dirty_page(page)).count();
            if dirty != counted as usize {
                return broken(format!("{dirty} pages of region {region} are dirty, {counted} are counted"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_read_back() {
        let mut map = Map::new(4, 10, Some(3));
        for at in [Where::Disk, Where::Wanted, Where::Slot(9), Where::Marked(0), Where::Marked(7)] {
            map.put(3, at);
            assert_eq!(map.find(3), at);
        }
        map.fill(9, 3, 1, true);
        assert!(!map.is_live(9));
        map.put(3, Where::Slot(9));
        assert!(map.is_live(9) && map.is_dirty(9));
        assert_eq!((map.dirty(), map.dirty_in(0), map.dirty_in(1)), (1, 0, 1));
        map.clean(9);
        assert_eq!((map.dirty(), map.dirty_in(1)), (0, 0));
        map.soil(9);
        assert!(map.check(|_| true, |_| true).is_ok());
        assert_eq!(map.check(|_| false, |_| true).unwrap_err().invariant, "I-12");
    }
}
