//! Which block is what, found from the out-of-band records of a plane after a power cut.
//!
//! *Merges are atomic.* A block that a full merge fills counts once its last page is there ([`Tag::is_last`]); before that
//! it is given up, for everything in it still lies where it was copied from. A log block that a switch or partial merge
//! turns into a data block counts as one when it is in order and full, or has the last page, or when there is no other.
//! Where a logical block has several blocks, those opened before its data block are given up: their erase was due.
//!
//! *Versions.* Among the blocks that are kept, the version of a page with the largest sequence number is the newest, unless
//! a mark with a larger one names the page. Older versions never outlive what hides them: random log blocks are erased in
//! the order of opening, and a merge erases the data block before the log block.
//!
//! Source: own design; the papers do not treat power cuts.

use super::region::{Owner, Region};
use super::tag::{Role, Tag};

/// One page, as it was found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Page {
    /// A program or an erase of it was cut off.
    Torn,
    /// Its tag and its sequence number.
    Tagged(Tag, u64),
}

/// One block, as it was found.
#[derive(Clone, Debug)]
pub struct Block {
    /// Which.
    pub block: u32,
    /// Its pages that are not erased.
    pub pages: Vec<Page>,
}

impl Block {
    fn header(&self) -> Option<Tag> {
        self.pages.iter().find_map(|page| match *page {
            Page::Tagged(tag, _) => Some(tag),
            Page::Torn => None,
        })
    }

    fn has_last(&self) -> bool {
        self.pages.iter().any(|page| matches!(page, Page::Tagged(tag, _) if tag.is_last))
    }

    /// Whether each page lies at its own position.
    fn is_in_order(&self, pages: u32) -> bool {
        (0..).zip(&self.pages).all(|(position, page)| match *page {
            Page::Tagged(tag, _) => !tag.is_mark && tag.page % pages == position,
            Page::Torn => false,
        })
    }
}

/// A mark, as it was found.
#[derive(Clone, Debug)]
pub struct Mark {
    /// The block that it lies in.
    pub block: u32,
    /// Its sequence number.
    pub seq: u64,
    /// The pages that were unmapped.
    pub pages: Vec<u32>,
}

/// A log block that belongs to one logical block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Log {
    /// The logical block.
    pub lbn: u32,
    /// The log block.
    pub block: u32,
    /// Its number in the order of opening.
    pub birth: u32,
}

/// What the blocks of a plane are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Log blocks that belong to one logical block each, in the order of opening.
    pub dedicated: Vec<Log>,
    /// Log blocks of all, in the order of opening.
    pub shared: Vec<u32>,
    /// Blocks to erase, in this order, before the plane is written.
    pub doomed: Vec<u32>,
    /// Largest sequence number.
    pub seq: u64,
}

/// A block of one logical block.
#[derive(Clone, Copy)]
struct Candidate {
    lbn: u32,
    birth: u32,
    block: u32,
    /// Whether it is a data block, whatever else there is.
    is_data: bool,
    is_in_order: bool,
}

/// Fills a region that was [reset](Region::reset) with what was found. With `dedicated`, every log block belongs to one
/// logical block. The caller erases the doomed blocks and tells the region so.
pub fn rebuild(
    region: &mut Region,
    blocks: &[Block],
    marks: &[Mark],
    dedicated: bool,
    oldest_wins: bool,
) -> Found {
    let (mut found, mut candidates, mut doomed) = sort(region, blocks, dedicated);
    candidates.sort_unstable_by_key(|c| (c.lbn, c.birth));
    for group in candidates.chunk_by(|a, b| a.lbn == b.lbn) {
        settle(region, group, &mut found, &mut doomed);
    }
    found.dedicated.sort_unstable_by_key(|log| log.birth);
    doomed.sort_unstable();
    found.doomed = doomed.into_iter().map(|(_, block)| block).collect();
    restore_versions(region, blocks, marks, &mut found, oldest_wins);
    found
}

/// Puts every block back and tells what it can be.
fn sort(region: &mut Region, blocks: &[Block], dedicated: bool) -> (Found, Vec<Candidate>, Vec<(u32, u32)>) {
    let pages = region.shape().pages;
    let (mut found, mut candidates, mut doomed, mut shared) =
        (Found::default(), Vec::new(), Vec::new(), Vec::new());
    for found_block in blocks {
        let owners: Vec<Owner> = found_block.pages.iter().map(|page| owner(*page, pages)).collect();
        let block = found_block.block;
        let header = found_block.header();
        let (role, birth) = header.map_or((Role::Direct, 0), |tag| (tag.role, tag.birth));
        region.restore(block, role, birth, &owners);
        let Some(tag) = header else {
            if !owners.is_empty() {
                doomed.push((0, block));
            }
            continue;
        };
        let is_full = owners.len() as u32 == pages;
        let is_in_order = found_block.is_in_order(pages);
        let is_data = match role {
            Role::Merged if !found_block.has_last() => {
                doomed.push((birth, block));
                continue;
            }
            Role::Log if !dedicated => {
                shared.push((birth, block));
                continue;
            }
            Role::Merged | Role::Direct => true,
            Role::Log | Role::Sequential => found_block.has_last() || is_in_order && is_full,
        };
        candidates.push(Candidate { lbn: tag.page / pages, birth, block, is_data, is_in_order });
    }
    shared.sort_unstable();
    found.shared = shared.into_iter().map(|(_, block)| block).collect();
    (found, candidates, doomed)
}

fn owner(page: Page, pages: u32) -> Owner {
    match page {
        Page::Torn => Owner::Waste,
        Page::Tagged(tag, _) if tag.is_filler => Owner::Filler,
        Page::Tagged(tag, _) if tag.is_mark => Owner::Mark(tag.page / pages),
        Page::Tagged(tag, _) => Owner::Data(tag.page),
    }
}

/// The blocks of one logical block, in the order of opening: the newest data block stays, what is older goes, and what is
/// newer is its log block.
fn settle(region: &mut Region, group: &[Candidate], found: &mut Found, doomed: &mut Vec<(u32, u32)>) {
    let newest = group.len() - 1;
    let mut data = (0..group.len()).rev().find(|&at| group[at].is_data);
    let after = data.map_or(0, |at| at + 1);
    if group.len() - after > 1 {
        // A log block is only opened when the one before has become the data block.
        data = Some(newest - 1);
    } else if data.is_none() && group[newest].is_in_order {
        data = Some(newest);
    }
    if let Some(at) = data {
        region.set_data(group[at].lbn, group[at].block);
        doomed.extend(group[..at].iter().map(|c| (c.birth, c.block)));
    }
    let logs = data.map_or(0, |at| at + 1);
    found.dedicated.extend(group[logs..].iter().map(|c| Log { lbn: c.lbn, block: c.block, birth: c.birth }));
}

/// Maps every page to its newest version.
fn restore_versions(
    region: &mut Region,
    blocks: &[Block],
    marks: &[Mark],
    found: &mut Found,
    oldest_wins: bool,
) {
    let shape = region.shape();
    let mut newest = vec![(0, 0); (shape.logical * shape.pages) as usize];
    for block in blocks {
        let is_kept = !found.doomed.contains(&block.block);
        for (position, page) in (0..).zip(&block.pages) {
            let Page::Tagged(tag, seq) = *page else { continue };
            found.seq = found.seq.max(seq);
            if !is_kept || tag.is_filler || tag.is_mark {
                continue;
            }
            let best = &mut newest[tag.page as usize];
            let is_better = if oldest_wins { best.0 == 0 || seq < best.0 } else { seq > best.0 };
            if is_better {
                *best = (seq, block.block << shape.page_bits() | position);
            }
        }
    }
    for mark in marks.iter().filter(|mark| !found.doomed.contains(&mark.block)) {
        for &page in &mark.pages {
            let best = &mut newest[page as usize];
            if best.0 < mark.seq {
                *best = (0, 0);
            }
        }
    }
    for (page, (seq, spot)) in (0..).zip(newest) {
        if seq > 0 {
            region.restore_page(page, spot);
        }
    }
}
