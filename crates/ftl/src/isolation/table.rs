//! Which logical pages are whose: ranges that come and go while a drive runs.
//!
//! A tenant has one range of the logical space. Its first `live` pages are its own; behind them may be pages that it had and is giving up
//! (`going`): they hold nothing any more, but units with old versions of them are still its units. A range is given to another tenant only
//! when no version of any of its pages is left on the drive, so that a page always tells by its logical number whose unit it lies in.
//!
//! *On the flash* the table is one page, kept beside the records of trims (see [`crate::trim_journal`]) and moved as they are. The newest
//! one counts. What each tenant has in units follows from its range, so that the table says all there is to know.
//!
//! *Changes.* A tenant that comes or grows takes a gap: one record, and it is there. One that shrinks or goes: a record in which the pages are
//! going, then its units with versions of them are cleared, then a record in which the pages are nobody's. A power cut in between
//! leaves a table with pages that are going, and the rest is done later.
//!
//! RAM: 12 bytes for a tenant and 6 for a boundary. Cost: a binary search for a page; a change sorts the ranges.

use crate::address::Lpn;

/// The range of one tenant. Of no pages where there is no tenant.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Part {
    /// First page.
    pub first: u32,
    /// Pages that are its own.
    pub live: u32,
    /// Pages behind them that it is giving up.
    pub going: u32,
}

impl Part {
    /// Pages that its units may hold versions of.
    pub fn held(&self) -> u32 {
        self.live + self.going
    }

    /// One past the last of them.
    pub fn end(&self) -> u32 {
        self.first + self.held()
    }

    /// The pages that it is giving up.
    pub fn tail(&self) -> std::ops::Range<u32> {
        self.first + self.live..self.end()
    }
}

/// The ranges of all tenants.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Table {
    parts: Vec<Part>,
    /// Ends of ranges and of the gaps between them, in order, and whose each is.
    ends: Vec<u32>,
    owners: Vec<u16>,
}

/// Nobody's pages.
const NOBODY: u16 = u16::MAX;
/// Bytes of a page before the table: those of a record of trims with one extent.
const AT: usize = 24;
const MAGIC: u32 = 0x4E54_5431; // "NTT1"

impl Table {
    /// Words of a page that the largest table takes, with what stands before it.
    pub const WORDS: u64 = (AT / 4 + 2 + 3 * super::TENANTS_MAX) as u64;

    /// Tenants with these pages, one behind the other, and so many places in all.
    pub fn new(sizes: &[u32], places: usize) -> Table {
        let mut parts = vec![Part::default(); places.max(sizes.len())];
        let mut first = 0;
        for (part, &live) in parts.iter_mut().zip(sizes) {
            *part = Part { first, live, going: 0 };
            first += live;
        }
        Table::of(parts)
    }

    fn of(parts: Vec<Part>) -> Table {
        let mut table = Table { parts, ends: Vec::new(), owners: Vec::new() };
        table.order();
        table
    }

    /// Whether these ranges end and do not meet: what a drive has written never does, damaged bytes may.
    fn are_apart(parts: &[Part]) -> bool {
        let end = |part: &Part| part.first.checked_add(part.live)?.checked_add(part.going);
        let held = parts.iter().filter(|part| part.live > 0 || part.going > 0);
        let mut held: Vec<(u32, Option<u32>)> = held.map(|part| (part.first, end(part))).collect();
        held.sort_unstable();
        held.iter().all(|(_, end)| end.is_some()) && held.windows(2).all(|pair| pair[0].1 <= Some(pair[1].0))
    }

    fn order(&mut self) {
        let mut by_place: Vec<(Part, u16)> = self.parts.iter().copied().zip(0..).collect();
        by_place.retain(|(part, _)| part.held() > 0);
        by_place.sort_unstable_by_key(|(part, _)| part.first);
        self.ends.clear();
        self.owners.clear();
        let mut end = 0;
        for (part, tenant) in by_place {
            assert!(part.first >= end, "I-7: two tenants have the page {}", part.first);
            if part.first > end {
                self.ends.push(part.first);
                self.owners.push(NOBODY);
            }
            end = part.end();
            self.ends.push(end);
            self.owners.push(tenant);
        }
    }

    /// The ranges, by tenant.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Gives a tenant another range.
    pub fn set(&mut self, tenant: usize, part: Part) {
        self.parts[tenant] = part;
        self.order();
    }

    /// The tenant of a page, those that are going included; beyond all tenants when it is nobody's.
    #[inline]
    pub fn of_page(&self, lpn: Lpn) -> usize {
        let at = self.ends.partition_point(|&end| end <= lpn.0);
        usize::from(self.owners.get(at).copied().unwrap_or(NOBODY))
    }

    /// Where the run of pages of one owner ends that `lpn` lies in.
    pub fn run_end(&self, lpn: Lpn) -> u32 {
        let at = self.ends.partition_point(|&end| end <= lpn.0);
        self.ends.get(at).copied().unwrap_or(u32::MAX)
    }

    /// Whether every page from `first` up to `end` is some tenant's own.
    pub fn are_live(&self, mut first: u32, end: u32) -> bool {
        while first < end {
            let Some(part) = self.parts.get(self.of_page(Lpn(first))) else { return false };
            if first >= part.first + part.live {
                return false;
            }
            first = part.first + part.live;
        }
        true
    }

    /// The first gap of so many pages below `logical`.
    pub fn gap(&self, pages: u32, logical: u32) -> Option<u32> {
        self.gaps(logical).find(|gap| gap.1 - gap.0 >= pages).map(|gap| gap.0)
    }

    /// Pages of the longest gap below `logical`.
    pub fn longest_gap(&self, logical: u32) -> u32 {
        self.gaps(logical).map(|gap| gap.1 - gap.0).max().unwrap_or(0)
    }

    /// Pages that nobody has, behind a tenant's last one.
    pub fn gap_behind(&self, tenant: usize, logical: u32) -> u32 {
        let end = self.parts[tenant].end();
        self.gaps(logical).find(|gap| gap.0 == end).map_or(0, |gap| gap.1 - gap.0)
    }

    fn gaps(&self, logical: u32) -> impl Iterator<Item = (u32, u32)> + '_ {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        let runs = starts.zip(self.ends.iter().copied().chain([logical]));
        let owners = self.owners.iter().copied().chain([NOBODY]);
        runs.zip(owners).filter(|((first, end), owner)| *owner == NOBODY && end > first).map(|(run, _)| run)
    }

    /// Writes it into a page that holds a record of trims with one extent.
    pub fn encode(&self, page: &mut [u8]) {
        let words = [MAGIC, self.parts.len() as u32];
        let parts = self.parts.iter().flat_map(|part| [part.first, part.live, part.going]);
        for (bytes, word) in page[AT..].chunks_exact_mut(4).zip(words.into_iter().chain(parts)) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
    }

    /// Reads it from a page; `None` when there is none in it.
    pub fn decode(page: &[u8]) -> Option<Table> {
        let word = |at: usize| {
            let bytes = page.get(AT + 4 * at..AT + 4 * at + 4)?;
            Some(u32::from_le_bytes(bytes.try_into().ok()?))
        };
        if word(0)? != MAGIC || word(1)? as usize > super::TENANTS_MAX {
            return None;
        }
        let part = |at: usize| Some(Part { first: word(at)?, live: word(at + 1)?, going: word(at + 2)? });
        (0..word(1)? as usize)
            .map(|tenant| part(2 + 3 * tenant))
            .collect::<Option<Vec<Part>>>()
            .filter(|parts| Table::are_apart(parts))
            .map(Table::of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LOGICAL: u32 = 60;

    proptest! {
        /// Against the obvious: who has each page.
        #[test]
        fn it_is_a_list_of_pages(steps in prop::collection::vec((0usize..4, 0u32..25, any::<bool>()), 1..60)) {
            let mut table = Table::new(&[10, 5], 4);
            let mut pages = vec![usize::from(NOBODY); LOGICAL as usize];
            pages[..10].fill(0);
            pages[10..15].fill(1);
            for (tenant, size, keeps_tail) in steps {
                let part = table.parts()[tenant];
                let run = |pages: &[usize], from: usize| {
                    pages[from..].iter().take_while(|&&owner| owner == usize::from(NOBODY)).count()
                };
                if part.held() == 0 {
                    let first = (0..=LOGICAL as usize - size as usize).find(|&at| run(&pages, at) >= size as usize);
                    prop_assert_eq!(table.gap(size, LOGICAL), first.map(|at| at as u32).filter(|_| size > 0)
                        .or(table.gap(size, LOGICAL).filter(|_| size == 0)));
                    if let Some(first) = first.filter(|_| size > 0) {
                        table.set(tenant, Part { first: first as u32, live: size, going: 0 });
                    }
                } else if size > part.live && part.going == 0 {
                    prop_assert_eq!(table.gap_behind(tenant, LOGICAL) as usize, run(&pages, part.end() as usize));
                    if size - part.live <= table.gap_behind(tenant, LOGICAL) {
                        table.set(tenant, Part { live: size, ..part });
                    }
                } else {
                    let live = size.min(part.live);
                    let going = if keeps_tail { part.held() - live } else { 0 };
                    table.set(tenant, Part { live, going, ..part });
                }
                pages.fill(usize::from(NOBODY));
                for (tenant, part) in table.parts().iter().enumerate() {
                    (part.first..part.end()).for_each(|page| pages[page as usize] = tenant);
                }
                for page in 0..LOGICAL {
                    let owner = table.of_page(Lpn(page));
                    prop_assert_eq!(owner, pages[page as usize]);
                    let is_live = table.parts().get(owner).is_some_and(|part| !part.tail().contains(&page));
                    prop_assert_eq!(table.are_live(page, page + 1), is_live);
                }
                let mut page = vec![0; 512];
                table.encode(&mut page);
                prop_assert_eq!(Table::decode(&page), Some(table.clone()));
            }
        }
    }

    #[test]
    fn a_page_without_a_table_has_none() {
        assert_eq!(Table::decode(&[0; 512]), None);
        let mut page = vec![0; 512];
        Table::new(&[1; 16], 16).encode(&mut page);
        assert!(Table::decode(&page).is_some());
        assert_eq!(Table::decode(&page[..100]), None);
    }
}
