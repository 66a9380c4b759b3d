//! The map of dirty regions, which lies on the disk: which regions the rings may have something newer of, and which pages were lost with the rings.
//!
//! In the manner of the write-intent bitmap of md (`md(4)`, "Bitmap write-intent logging") and of the region bitmap of dm-clone (kernel
//! documentation, "On-disk metadata"): one bit for each region, set durably before the first page of the region is newer in a ring, and cleared some time after nothing of it is.
//! Behind it lies one bit for each page: a page that was lost with the rings fails until it is written whole ([`crate::lost`]).
//!
//! *Layout.* Data pages, then the pages of the first bitmap, then those of the second, then the two superblocks. Each sector of 512 B stands for itself: a mark, its
//! place, a CRC-32C, and 3904 bits. A cut leaves a sector old or new, so no sector needs a second slot. A flipped bit is put right from the checksum. The bytes of a
//! region stand in the superblock of the disk, where sets without a map have 0.
//!
//! *Deviations.* md clears a bit when its counter falls to zero and some seconds have passed; here when the region was at rest at two commits in a row.
//!
//! Cost on the disk: one sector for each 3904 regions, and one for each 3904 pages: 32 MiB for 1 TiB of pages of 4 KiB. Memory: two bits for each region, two for each page.

use nandu_base::{SECTOR, Seal};

const MAGIC: [u8; 8] = *b"NanduHM\x01";
const SEAL: Seal = Seal::inside(16);
/// Bytes of a sector before its bits.
const FIXED: usize = 24;
/// Bits in a sector.
const BITS: u32 = (SECTOR as u32 - FIXED as u32) * 8;

/// Where the map lies on a disk, and how much of the disk is left for data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Layout {
    /// Bytes of a page.
    pub page: u64,
    /// Pages of a region.
    pub region_pages: u32,
    /// Pages of data, from the start of the disk.
    pub pages: u32,
    /// Pages of the map that say which regions are dirty; they follow the data.
    pub dirty: u32,
    /// Pages of the map that say which pages are lost; they follow those.
    pub lost: u32,
}

impl Layout {
    /// On a disk of `size` bytes. None: it is too small, or the region is no whole number of pages.
    pub fn of(size: u64, page: u64, region: u64) -> Option<Layout> {
        if page == 0 || region == 0 || !region.is_multiple_of(page) || region / page > u64::from(u32::MAX) {
            return None;
        }
        let region_pages = (region / page) as u32;
        let room = u32::try_from((size / page).checked_sub(2)?).ok()?;
        let in_page = (page / SECTOR) as u32 * BITS;
        let needs = |pages: u32| (pages.div_ceil(region_pages).div_ceil(in_page), pages.div_ceil(in_page));
        let mut pages = room;
        loop {
            let (dirty, lost) = needs(pages);
            let fits = room.checked_sub(dirty + lost)?;
            if fits == 0 {
                return None;
            }
            if pages <= fits {
                return Some(Layout { page, region_pages, pages, dirty, lost });
            }
            pages = fits;
        }
    }

    /// Pages of the map.
    pub fn map_pages(&self) -> u32 {
        self.dirty + self.lost
    }

    /// First byte of the map on the disk.
    pub fn at(&self) -> u64 {
        u64::from(self.pages) * self.page
    }

    /// Regions.
    pub fn regions(&self) -> u32 {
        self.pages.div_ceil(self.region_pages)
    }

    /// The region of a page.
    pub fn region_of(&self, page: u32) -> u32 {
        page / self.region_pages
    }

    /// The pages of a region, from the first to one past the last.
    pub fn pages_of(&self, region: u32) -> (u32, u32) {
        let first = region * self.region_pages;
        (first, first.saturating_add(self.region_pages).min(self.pages))
    }

    fn in_page(&self) -> u32 {
        (self.page / SECTOR) as u32 * BITS
    }

    /// The page of the map that has the bit of a region.
    pub fn of_region(&self, region: u32) -> u32 {
        region / self.in_page()
    }

    /// The page of the map that has the bit of a page of data.
    pub fn of_page(&self, page: u32) -> u32 {
        self.dirty + page / self.in_page()
    }

    /// Writes a page of the map.
    pub fn encode(&self, at: u32, map: &RegionMap, out: &mut [u8]) {
        let (bits, first) = match at.checked_sub(self.dirty) {
            None => (&map.dirty, at * self.in_page()),
            Some(at) => (&map.lost, at * self.in_page()),
        };
        for (sector, out) in (0u32..).zip(out.chunks_exact_mut(SECTOR as usize)) {
            out[..8].copy_from_slice(&MAGIC);
            let place = u64::from(at) * (self.page / SECTOR) + u64::from(sector);
            out[8..16].copy_from_slice(&place.to_le_bytes());
            out[16..FIXED].fill(0);
            let from = first + sector * BITS;
            for (byte, out) in (0u32..).zip(&mut out[FIXED..]) {
                *out = (0..8).fold(0, |sum, bit| sum | u8::from(bits.has(from + byte * 8 + bit)) << bit);
            }
            SEAL.put(out);
        }
    }

    /// Reads a page of the map. Of a sector that cannot be read all bits are set; whether there was one.
    pub fn decode(&self, at: u32, map: &mut RegionMap, bytes: Option<&[u8]>) -> bool {
        let (bits, first) = match at.checked_sub(self.dirty) {
            None => (&mut map.dirty, at * self.in_page()),
            Some(at) => (&mut map.lost, at * self.in_page()),
        };
        let mut is_damaged = false;
        for sector in 0..(self.page / SECTOR) as u32 {
            let place = u64::from(at) * (self.page / SECTOR) + u64::from(sector);
            let read = |bytes: &[u8]| {
                let is_ours = bytes[..8] == MAGIC && bytes[8..16] == place.to_le_bytes();
                (is_ours && SEAL.holds(bytes)).then(|| bytes[FIXED..].to_vec())
            };
            let start = sector as usize * SECTOR as usize;
            let found =
                bytes.and_then(|bytes| SEAL.read(&bytes[start..start + SECTOR as usize], &MAGIC, read));
            let from = first + sector * BITS;
            is_damaged |= found.is_none() && from < bits.len;
            for bit in 0..BITS {
                let is_set =
                    found.as_ref().is_none_or(|(found, _)| found[(bit / 8) as usize] >> (bit % 8) & 1 != 0);
                bits.set(from + bit, is_set);
            }
        }
        is_damaged
    }
}

/// A row of bits.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Bits {
    words: Vec<u64>,
    len: u32,
    count: u32,
}

impl Bits {
    /// So many bits, none of them set.
    pub fn new(len: u32) -> Bits {
        Bits { words: vec![0; len.div_ceil(64) as usize], len, count: 0 }
    }

    /// Whether a bit is set; one beyond the last is not.
    #[inline]
    pub fn has(&self, at: u32) -> bool {
        at < self.len && self.words[(at / 64) as usize] >> (at % 64) & 1 != 0
    }

    /// Sets or clears a bit; one beyond the last stays clear.
    pub fn set(&mut self, at: u32, is_set: bool) {
        if at >= self.len || self.has(at) == is_set {
            return;
        }
        self.words[(at / 64) as usize] ^= 1 << (at % 64);
        self.count = if is_set { self.count + 1 } else { self.count - 1 };
    }

    /// Clears all.
    pub fn clear(&mut self) {
        self.words.fill(0);
        self.count = 0;
    }

    /// Bits that are set.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Whether any of these is set.
    pub fn any(&self, from: u32, to: u32) -> bool {
        self.count > 0 && (from..to.min(self.len)).any(|at| self.has(at))
    }

    /// Runs of bits that are set, each from its first to one past its last.
    pub fn runs(&self) -> Vec<(u32, u32)> {
        let mut runs: Vec<(u32, u32)> = Vec::new();
        let set = self.words.iter().enumerate().filter(|(_, word)| **word != 0);
        for at in set.flat_map(|(at, _)| at as u32 * 64..at as u32 * 64 + 64).filter(|&at| self.has(at)) {
            match runs.last_mut() {
                Some(last) if last.1 == at => last.1 = at + 1,
                _ => runs.push((at, at + 1)),
            }
        }
        runs
    }
}

/// What the map says.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RegionMap {
    /// Regions of which a ring may have something newer than the disk.
    pub dirty: Bits,
    /// Pages that were lost with the rings.
    pub lost: Bits,
}

impl RegionMap {
    /// Of a disk on which nothing is dirty, and nothing lost.
    pub fn new(layout: &Layout) -> RegionMap {
        RegionMap { dirty: Bits::new(layout.regions()), lost: Bits::new(layout.pages) }
    }
}

/// Bytes from the first to one past the last, of runs of units of so many bytes.
pub fn ranges(runs: &[(u32, u32)], unit: u64, end: u64) -> Vec<(u64, u64)> {
    runs.iter().map(|&(from, to)| (u64::from(from) * unit, (u64::from(to) * unit).min(end))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout() -> Layout {
        Layout::of(40 << 20, 2048, 8192).expect("it fits")
    }

    #[test]
    fn data_map_and_superblocks_fill_the_disk_and_do_not_meet() {
        for (size, page, region) in [(40 << 20, 2048, 8192), (2 << 20, 4096, 4096), (1 << 40, 4096, 1 << 20)]
        {
            let l = Layout::of(size, page, region).expect("it fits");
            let all = u64::from(l.pages + l.map_pages() + 2);
            assert!(all * page <= size && (all + 2) * page > size, "{l:?}");
            assert!(u64::from(l.regions()) * region >= u64::from(l.pages) * page);
            assert_eq!(l.of_region(l.regions() - 1), l.dirty - 1);
            assert_eq!(l.of_page(l.pages - 1), l.map_pages() - 1);
        }
        assert_eq!(Layout::of(1 << 40, 4096, 1 << 20).map(|l| l.map_pages()), Some(34 + 8595));
        assert_eq!(Layout::of(3 * 4096, 4096, 4096), None);
        assert_eq!(Layout::of(1 << 20, 4096, 6000), None);
    }

    #[test]
    fn pages_of_the_map_read_back_with_any_bit_flipped_and_a_damaged_sector_sets_all_its_bits() {
        let l = layout();
        let mut map = RegionMap::new(&l);
        for at in [0, 3, l.regions() - 1] {
            map.dirty.set(at, true);
        }
        for at in [0, 7, BITS, l.pages - 1] {
            map.lost.set(at, true);
        }
        let mut pages: Vec<Vec<u8>> = Vec::new();
        for at in 0..l.map_pages() {
            let mut page = vec![0xA5; 2048];
            l.encode(at, &map, &mut page);
            pages.push(page);
        }
        let read = |pages: &[Vec<u8>]| {
            let mut found = RegionMap::new(&l);
            let damaged = (0u32..).zip(pages).filter(|(at, page)| l.decode(*at, &mut found, Some(page)));
            (damaged.count(), found)
        };
        assert_eq!(read(&pages), (0, map.clone()));
        for bit in (0..2048 * 8).step_by(37) {
            pages[0][bit / 8] ^= 1 << (bit % 8);
            assert_eq!(read(&pages), (0, map.clone()), "bit {bit}");
            pages[0][bit / 8] ^= 1 << (bit % 8);
        }
        let other = pages[1].clone();
        pages[1] = pages[2].clone();
        assert!(read(&pages).0 > 0, "a page in the place of another one is none");
        pages[1] = other;
        pages[0][..100].fill(0);
        let (damaged, found) = read(&pages);
        assert_eq!(damaged, 1);
        assert_eq!(found.lost, map.lost);
        assert_eq!(
            found.dirty.count(),
            BITS + u32::from(l.regions() > BITS),
            "the first sector, and the last bit"
        );
    }

    #[test]
    fn runs_are_told_apart() {
        let mut bits = Bits::new(200);
        for at in [0, 1, 2, 63, 64, 199] {
            bits.set(at, true);
        }
        assert_eq!(bits.runs(), [(0, 3), (63, 65), (199, 200)]);
        assert_eq!(ranges(&bits.runs(), 10, 1995), [(0, 30), (630, 650), (1990, 1995)]);
        assert_eq!((bits.count(), bits.any(3, 63), bits.any(3, 64)), (6, false, true));
        bits.set(200, true);
        assert_eq!(bits.count(), 6);
    }
}
