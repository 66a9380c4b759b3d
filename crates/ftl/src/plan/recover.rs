//! The first fill of a drive, and its start after a power cut.
//!
//! Recovery reads the out-of-band record of every page that is not erased. For each logical page the version with the
//! largest sequence number wins, unless a trim record names the page as of a number that is not smaller. Blocks that were
//! being written are continued behind their last page. Until then nothing is written, so a cut changes nothing; what a start does
//! where no block is erased is in [`room`](super::room), and may be cut over and over too.
//!
//! Cost: one page read per programmed page, all dies at once. A checkpoint bounds it for maps on the flash (see `replay`).
//! What the start took is in the counters `recovery_pages_read` and `recovery_ns`; whether a checkpoint was enough, or there was
//! one and it was not, in `recovery_from_checkpoint` and `recovery_fell_back`.

use super::flash::After;
use super::{Flash, Planner};
use crate::blocks::Content;
use crate::isolation::Table;
use crate::log_block::tag::Tag;
use crate::mapping::{Mapping, Tp};
use crate::trim_journal::{Extent, Record, TrimJournal};
use crate::{BlockId, Lpn, Ppn};
use nandu_base::{ByteLen, Cx, Medium, Oob, OwnKeys, Report, TenantId, UnitState};

pub(super) const JOURNAL_KEY: u64 = 1 << 32;
/// Keys from here on name translation pages.
pub(super) const MAP_KEY: u64 = 1 << 33;

/// What a start took.
#[derive(Clone, Default)]
pub struct Figures {
    /// Pages read, by die.
    read: Vec<u64>,
    took_ns: u64,
    /// Whether a checkpoint was enough.
    bounded: bool,
    /// Whether there was one, and it was not.
    fell_back: bool,
    /// Blocks of copies that were given up for want of room.
    pub given_up: u64,
}

impl Figures {
    /// Notes page reads on a die.
    pub fn note(&mut self, die: u32, pages: u64) {
        if self.read.len() <= die as usize {
            self.read.resize(die as usize + 1, 0);
        }
        self.read[die as usize] += pages;
    }

    /// Pages read, by die.
    pub fn pages(&self) -> &[u64] {
        &self.read
    }

    /// The start took so long, in nanoseconds.
    pub fn took(&mut self, ns: u64) {
        self.took_ns = ns;
    }

    /// Puts in what a start took, when there was one.
    pub fn report(&self, report: &mut Report) {
        if !self.read.is_empty() {
            report.put("recovery_pages_read", self.read.iter().sum());
            report.put("recovery_ns", self.took_ns);
            report.put("recovery_from_checkpoint", u64::from(self.bounded));
            report.put("recovery_fell_back", u64::from(self.fell_back));
            report.put("recovery_copies_given_up", self.given_up);
        }
    }
}

/// The out-of-band key of a page with this content.
pub(super) fn key(content: Content) -> u64 {
    match content {
        Content::Data(lpn) => u64::from(lpn.0),
        Content::Journal(_) => JOURNAL_KEY,
        Content::Map(tp) => MAP_KEY + u64::from(tp.0),
        Content::Free | Content::Waste => unreachable!("only data and records are programmed"),
    }
}

/// A page's record without the mark of SLC mode.
pub(super) fn without_mode(state: UnitState) -> UnitState {
    match state {
        UnitState::Programmed(oob) => UnitState::Programmed(Oob { key: oob.key & !Oob::SLC, ..oob }),
        other => other,
    }
}

impl<M: Mapping + ?Sized, F: Flash> Planner<M, F> {
    /// How the pages that it programs for itself are told from those of the host.
    pub fn own_keys(&self) -> OwnKeys {
        match self.map.log_blocks() {
            Some(_) => OwnKeys::Marked(Tag::MARK),
            None => OwnKeys::From(JOURNAL_KEY),
        }
    }

    /// Rebuilds everything from the medium; returns when the scan is complete.
    pub fn recover(&mut self, cx: &mut Cx<'_>) -> After {
        if self.map.log_blocks().is_some() {
            return self.recover_logged(cx);
        }
        self.recovery = Figures::default();
        self.recovery.note(0, 0);
        self.order_units(cx);
        self.recover_table(cx);
        self.start_over();
        self.seq = 0;
        let checkpoint = self.find_checkpoint(cx);
        self.recovery.fell_back = checkpoint.is_some();
        let replayed = checkpoint.and_then(|checkpoint| {
            self.seq = self.seq.max(checkpoint.seq);
            self.replay(&checkpoint, cx)
        });
        self.recovery.bounded = replayed.is_some();
        self.recovery.fell_back &= !self.recovery.bounded;
        let mut map_pages = replayed.unwrap_or_else(|| self.scan_everything(cx));
        if self.has_map_pages() {
            self.forget_old_versions();
        }
        let written = self.restore_blocks(cx);
        if !self.recovery.bounded {
            (0..).zip(written).for_each(|(die, pages)| self.recovery.note(die, pages));
        }
        let mut end = self.scanned(cx);
        if self.has_map_pages() {
            if self.recovery.bounded && cx.pool.content() == nandu_base::Content::Stamps {
                self.compare_with_scan(cx);
            }
            self.claim_map_blocks(&mut map_pages, cx);
            end = end.later(self.recover_map(&map_pages, cx));
        }
        end = end.later(self.make_room(cx));
        if self.recovery.bounded {
            end = end.later(self.record_trims(cx, TenantId::SYSTEM));
        }
        self.blocks.retire_after_start();
        self.attention |= self.blocks.has_ended();
        end
    }

    /// All pages that were read for this start have been sensed, all dies at once.
    pub(super) fn scanned(&mut self, cx: &mut Cx<'_>) -> After {
        let mut end = After::now(cx);
        for (die, &pages) in (0..).zip(&self.recovery.read) {
            end = end.later(self.exec.scan(die, pages, cx));
        }
        end
    }

    /// Forgets everything that a loss of power takes.
    fn start_over(&mut self) {
        self.map.reset();
        self.journal = self.journal.emptied();
        self.blocks = self.blocks.for_recovery();
        self.blocks.set_rooms(self.host.reserved, self.host.needed);
        self.clearing.fill(super::collect::Clearing::IDLE);
        self.paging.restart();
        self.exec.restart_entries();
    }

    /// Rebuilds the map from all out-of-band records.
    fn scan_everything(&mut self, cx: &mut Cx<'_>) -> Vec<(u64, Ppn)> {
        self.start_over();
        let mut map_pages = vec![(0, Ppn(0)); self.map.translation_pages() as usize];
        let newest = self.find_newest(&mut map_pages, cx);
        self.apply_trims(&newest);
        self.forget_going();
        self.keep_needed_records(&newest, cx);
        map_pages
    }

    /// Panics when a start from a checkpoint has not found what a scan of everything finds. Where contents are verified.
    fn compare_with_scan(&self, cx: &mut Cx<'_>) {
        let layout = *self.blocks.layout();
        let mut newest = vec![(0, None); self.host.logical as usize];
        let mut trims = Vec::new();
        for block in layout.all_blocks().filter(|&block| !self.paging.is_anchor(block)) {
            let first = layout.first_page(block).0;
            for ppn in (first..first + layout.pages).map(Ppn) {
                let medium = cx.medium.as_deref().expect("recovery reads the medium");
                match without_mode(medium.state(self.exec.unit(ppn))) {
                    UnitState::Programmed(Oob { key, seq }) if key < JOURNAL_KEY => {
                        let best = &mut newest[key as usize];
                        *best = (*best).max((seq, Some(ppn)));
                    }
                    UnitState::Programmed(Oob { key: JOURNAL_KEY, .. }) => {
                        trims.extend(self.extents_at(ppn, cx));
                    }
                    _ => {}
                }
            }
        }
        for extent in trims.iter().chain(self.journal.waiting()) {
            for lpn in extent.first.0..extent.first.0 + extent.count {
                if newest[lpn as usize].0 <= extent.as_of {
                    newest[lpn as usize].1 = None;
                }
            }
        }
        for (lpn, (seq, at)) in (0..).map(Lpn).zip(newest) {
            let (here, at) = (self.map.get(lpn), at.filter(|_| self.is_somebodys(lpn.0, lpn.0 + 1)));
            assert!(
                here == at,
                "{lpn:?} is at {here:?} by the checkpoint, at {at:?} (number {seq}) by its record"
            );
        }
    }

    /// Gives the map its blocks, one of each pool erased.
    fn claim_map_blocks(&mut self, found: &mut [(u64, Ppn)], cx: &mut Cx<'_>) {
        let claimed = self.paging.area.claim(&mut self.blocks);
        assert!(claimed, "I-5: a pool has no erased block in place of one that its map had");
        for pool in 0..self.blocks.planes.len() as u32 {
            self.erase_least_map_block(pool, found, cx);
        }
    }

    /// A map that is partly on the flash is not asked about every page: those it knows to be superseded are forgotten.
    fn forget_old_versions(&mut self) {
        for block in self.blocks.layout().all_blocks() {
            let first = self.blocks.layout().first_page(block).0;
            for ppn in (first..first + self.blocks.layout().pages).map(Ppn) {
                if self.blocks.data_at(ppn).is_some_and(|lpn| self.map.get(lpn) != Some(ppn)) {
                    self.blocks.forget(ppn);
                }
            }
        }
    }

    /// Maps every logical page to its newest version, and collects the trim records. Returns the versions' numbers.
    fn find_newest(&mut self, map_pages: &mut [(u64, Ppn)], cx: &mut Cx<'_>) -> Vec<u64> {
        let layout = *self.blocks.layout();
        let mut newest = vec![0u64; self.host.logical as usize];
        for block in layout.all_blocks() {
            if self.paging.is_anchor(block) {
                continue;
            }
            let first = layout.first_page(block).0;
            let mut marks = [0; 2];
            for ppn in (first..first + layout.pages).map(Ppn) {
                let medium = cx.medium.as_deref().expect("recovery reads the medium");
                let mut state = medium.state(self.exec.unit(ppn));
                if let UnitState::Programmed(oob) = &mut state {
                    marks[usize::from(oob.key & Oob::SLC != 0)] += 1;
                    oob.key &= !Oob::SLC;
                }
                match state {
                    UnitState::Erased => {}
                    UnitState::Torn => self.blocks.programmed(ppn, Content::Waste),
                    UnitState::Programmed(Oob { key, seq }) if key < JOURNAL_KEY => {
                        self.seq = self.seq.max(seq);
                        let lpn = Lpn(key as u32);
                        self.blocks.programmed(ppn, Content::Data(lpn));
                        let best = &mut newest[lpn.0 as usize];
                        let better =
                            if self.planted.oldest_wins { *best == 0 || seq < *best } else { seq > *best };
                        if better {
                            *best = seq;
                            self.map.set(lpn, ppn);
                        }
                    }
                    UnitState::Programmed(Oob { key, seq }) if key >= MAP_KEY => {
                        self.seq = self.seq.max(seq);
                        let tp = Tp((key - MAP_KEY) as u32);
                        self.blocks.programmed(ppn, Content::Map(tp));
                        let best = &mut map_pages[tp.0 as usize];
                        *best = (*best).max((seq, ppn));
                    }
                    UnitState::Programmed(Oob { seq, .. }) => {
                        self.seq = self.seq.max(seq);
                        self.read_record(ppn, cx);
                    }
                }
            }
            self.restore_mode(block, marks[1], marks[0]);
        }
        newest
    }

    /// Takes a trim record in. A copy that garbage collection left behind holds the same extents and does no harm.
    pub(super) fn read_record(&mut self, ppn: Ppn, cx: &mut Cx<'_>) {
        let extents = self.extents_at(ppn, cx);
        let is_table = self.tenants.is_some() && self.table_at(ppn, cx).is_some();
        self.seq = extents.iter().map(|e| e.as_of).fold(self.seq, u64::max);
        let slot = self.journal.written(Record { ppn, extents, is_table });
        self.blocks.programmed(ppn, Content::Journal(slot));
    }

    pub(super) fn extents_at(&self, ppn: Ppn, cx: &mut Cx<'_>) -> Vec<Extent> {
        let record = self.decoded_at(ppn, TrimJournal::decode, cx);
        record.expect("a page with a record's mark holds a record")
    }

    /// The table of tenants that lies at `ppn`, if one does.
    pub(super) fn table_at(&self, ppn: Ppn, cx: &mut Cx<'_>) -> Option<Table> {
        self.decoded_at(ppn, Table::decode, cx)
    }

    /// The records on the flash, of trims and of tenants, with their numbers.
    pub(super) fn records_on_flash(&self, cx: &Cx<'_>) -> Vec<(Ppn, u64)> {
        let medium = cx.medium.as_deref().expect("recovery reads the medium");
        let layout = self.blocks.layout();
        let record = |ppn: Ppn| match without_mode(medium.state(self.exec.unit(ppn))) {
            UnitState::Programmed(Oob { key: JOURNAL_KEY, seq }) => Some((ppn, seq)),
            _ => None,
        };
        let firsts = layout.all_blocks().map(|block| layout.first_page(block).0);
        firsts.flat_map(|first| (first..first + layout.pages).map(Ppn)).filter_map(record).collect()
    }

    fn decoded_at<T>(&self, ppn: Ppn, decode: fn(&[u8]) -> Option<T>, cx: &mut Cx<'_>) -> Option<T> {
        let page = ByteLen(1 << self.host.page.bits);
        let payload = cx.pool.allocate_metadata(page);
        let medium = cx.medium.as_deref_mut().expect("recovery reads the medium");
        let readable = medium.read(cx.pool, self.exec.unit(ppn), 0, self.host.page.sectors, payload);
        let decoded = decode(cx.pool.bytes(payload, page)).filter(|_| readable);
        cx.pool.release(payload);
        decoded
    }

    pub(super) fn apply_trims(&mut self, newest: &[u64]) {
        for (_, record) in self.journal.records() {
            for extent in &record.extents {
                for lpn in extent.first.0..extent.first.0 + extent.count {
                    if newest[lpn as usize] <= extent.as_of {
                        self.map.clear(Lpn(lpn));
                    }
                }
            }
        }
    }

    /// The number of the program of a page; 0 where it cannot be read.
    pub(super) fn number_at(&self, ppn: Ppn, cx: &Cx<'_>) -> u64 {
        match cx.medium.as_deref().expect("recovery reads the medium").state(self.exec.unit(ppn)) {
            UnitState::Programmed(oob) => oob.seq,
            UnitState::Erased | UnitState::Torn => 0,
        }
    }

    /// Gives up records that nothing depends on: copies that garbage collection left behind, and those that were given up
    /// before the cut but not erased yet. Newest first, a record stays when it hides an old version of a page that no
    /// record before hides; so there are never more than unmapped pages.
    fn keep_needed_records(&mut self, newest: &[u64], cx: &Cx<'_>) {
        let numbered = |(slot, record): (u32, &Record)| (self.number_at(record.ppn, cx), slot);
        let mut slots: Vec<(u64, u32)> = self.journal.records().map(numbered).collect();
        slots.sort_unstable_by(|a, b| b.cmp(a));
        let mut hidden = vec![false; newest.len()];
        let mut has_table = false;
        for (_, slot) in slots {
            let record = self.journal.record(slot).expect("a record that was read is there");
            // Of tables the newest, which comes first.
            let mut needed = record.is_table && !has_table;
            has_table |= record.is_table;
            for extent in &record.extents {
                for lpn in extent.first.0..extent.first.0 + extent.count {
                    let version = newest[lpn as usize];
                    let hides = version > 0 && version <= extent.as_of;
                    needed |= hides && !hidden[lpn as usize];
                    hidden[lpn as usize] |= hides;
                }
            }
            if !needed {
                self.journal.drop_record(slot);
            }
        }
    }

    /// Finds out how far each block of each unit is written, and numbers the unit's pages accordingly.
    fn order_units(&mut self, cx: &mut Cx<'_>) {
        self.exec.restart_units();
        if !self.exec.is_wide() {
            return;
        }
        let medium: &dyn Medium = cx.medium.as_deref().expect("recovery reads the medium");
        let layout = *self.blocks.layout();
        let mut is_free = vec![false; layout.pages as usize];
        for unit in layout.all_blocks() {
            for (slot, is_free) in (0..).zip(is_free.iter_mut()) {
                let at = self.exec.units().slot(unit, slot);
                *is_free = medium.state(u64::from(at.0)) == UnitState::Erased;
            }
            self.exec.units_mut().set_order(unit, |slot| is_free[slot as usize]);
        }
    }

    /// Erases of a unit, by its most worn block.
    fn erases_on(&self, medium: &dyn Medium, unit: BlockId) -> u32 {
        self.worst_of(unit, |first| medium.erases(first))
    }

    /// The most that any block of a unit has of what is told of its first page.
    fn worst_of(&self, unit: BlockId, told: impl Fn(u64) -> u32) -> u32 {
        let units = self.exec.units();
        let first = |member| u64::from(units.chips().first_page(units.block(unit, member)).0);
        (0..units.width()).map(|member| told(first(member))).max().unwrap_or(0)
    }

    /// Puts every block in its place. Returns the pages that were scanned, by die.
    ///
    /// Of blocks that are written in part, more than can stay open may be found: one was cleared for its wear, or an erase
    /// that was under way has emptied some blocks of a unit and not others. Those with valid data, and of these the ones with
    /// the most room, stay open. Where the map has blocks of its own, one of which nothing can be read may have been one of them: it is erased.
    fn restore_blocks(&mut self, cx: &mut Cx<'_>) -> Vec<u64> {
        let layout = *self.blocks.layout();
        let medium: &dyn Medium = cx.medium.as_deref().expect("recovery reads the medium");
        let dies = self.exec.units().chips().planes >> self.host.plane_bits;
        let mut scanned = vec![0; dies as usize];
        let (mut later, mut torn) = (Vec::new(), Vec::new());
        self.erases_ever = 0;
        for block in layout.all_blocks() {
            let erases = self.erases_on(medium, block);
            self.erases_ever += u64::from(erases);
            if self.slc.is_some() {
                let erases = self.worst_of(block, |first| medium.slc_erases(first));
                self.blocks.restore_slc_erases(block, erases);
            }
            if self.paging.is_anchor(block) {
                self.blocks.restore_wear(block, erases);
                continue;
            }
            let found = self.look_at(block, medium);
            // Of a block in SLC mode only the pages that it has.
            let written = match self.blocks.slc_rules() {
                Some(rules) if self.blocks.is_slc(block) => rules.pages,
                _ => found.written,
            };
            for page in 0..written {
                scanned[self.exec.die_of(Ppn(layout.first_page(block).0 + page)) as usize] += 1;
            }
            if found.is_map {
                self.blocks.restore_wear(block, erases);
                if self.tenants.is_some() {
                    let pool = self.owner_after_cut(block, found.lpn, &[]);
                    self.blocks.restore_owner(block, pool);
                }
                self.paging.area.restore(block, self.blocks.pool_of_block(block), found.written);
            } else if self.has_map_pages() && found.written > 0 && !found.is_readable {
                self.blocks.restore_wear(block, erases);
                torn.push(block);
            } else {
                later.push((block, found, erases));
            }
        }
        if self.tenants.is_some() {
            // A record that is not kept still says whose the unit is.
            for (block, found, _) in later.iter_mut().filter(|(_, f, _)| f.lpn.is_none() && f.is_readable) {
                found.lpn = self.lpn_of_a_record(*block, cx);
            }
        }
        self.restore_in_order(later, torn, cx);
        scanned
    }

    /// Puts units in their places: full ones, then those written in part, last those that nobody knows the owner of. Of `torn` ones nothing can be read.
    fn restore_in_order(
        &mut self,
        mut units: Vec<(BlockId, Found, u32)>,
        torn: Vec<BlockId>,
        cx: &mut Cx<'_>,
    ) {
        let pages = self.blocks.layout().pages;
        units.sort_unstable_by_key(|(block, found, _)| {
            let is_in_part = (1..pages).contains(&found.written);
            let has_owner = found.written == 0 || found.lpn.is_some() || self.tenants.is_none();
            (
                !has_owner,
                is_in_part,
                is_in_part && found.valid == 0,
                is_in_part.then_some(found.written),
                *block,
            )
        });
        let pools = 0..self.blocks.planes.len() as u32;
        let mut held: Vec<u32> = pools.map(|pool| self.paging.area.blocks_of(pool)).collect();
        for (block, found, erases) in units {
            if self.tenants.is_some() && found.written > 0 {
                let pool = self.owner_after_cut(block, found.lpn, &held);
                self.blocks.restore_owner(block, pool);
                held[pool as usize] += 1;
            }
            // Where all pages are torn the first that can be read is yet to come.
            let oldest = found.oldest.min(self.seq + 1);
            self.blocks.restore_block(block, found.written, found.valid, oldest, erases);
        }
        self.erase_torn_blocks(torn, cx);
        self.blocks.settle_open();
        self.settle_loans(&held);
    }

    /// A logical page that some record in a block names.
    fn lpn_of_a_record(&self, block: BlockId, cx: &mut Cx<'_>) -> Option<Lpn> {
        let first = self.blocks.layout().first_page(block).0;
        (first..first + self.blocks.layout().pages).map(Ppn).find_map(|ppn| {
            let medium = cx.medium.as_deref().expect("recovery reads the medium");
            let state = without_mode(medium.state(self.exec.unit(ppn)));
            let is_record = matches!(state, UnitState::Programmed(oob) if oob.key == JOURNAL_KEY);
            let extents = is_record.then(|| self.extents_at(ppn, cx))?;
            extents.first().map(|extent| extent.first)
        })
    }

    /// What a block holds after a scan.
    fn look_at(&self, block: BlockId, medium: &dyn Medium) -> Found {
        let layout = self.blocks.layout();
        let first = layout.first_page(block).0;
        let mut found =
            Found { written: 0, valid: 0, oldest: u64::MAX, is_map: false, is_readable: false, lpn: None };
        for page in 0..layout.pages {
            let ppn = Ppn(first + page);
            let content = self.blocks.content(ppn);
            if content != Content::Free {
                found.written = page + 1;
            }
            if let UnitState::Programmed(oob) = medium.state(self.exec.unit(ppn)) {
                found.is_readable = true;
                found.oldest = found.oldest.min(oob.seq);
                let key = oob.key & !Oob::SLC;
                let data = (key < JOURNAL_KEY).then_some(Lpn(key as u32));
                found.lpn = found.lpn.or(data).or_else(|| match content {
                    Content::Journal(slot) => Some(self.journal.record(slot)?.extents.first()?.first),
                    Content::Map(_) => Some(Lpn(self.map.span(Tp((key - MAP_KEY) as u32)).start)),
                    _ => None,
                });
            }
            found.valid += match content {
                Content::Data(lpn) => u32::from(self.map.get(lpn) == Some(ppn)),
                Content::Journal(slot) => u32::from(self.journal.record(slot).is_some_and(|r| r.ppn == ppn)),
                Content::Map(_) => {
                    found.is_map = true;
                    0
                }
                Content::Free | Content::Waste => 0,
            };
        }
        found
    }
}

/// What a scan has found in a block.
#[derive(Clone, Copy)]
struct Found {
    /// Pages from the start that are programmed or torn.
    written: u32,
    valid: u32,
    /// The smallest sequence number.
    oldest: u64,
    /// It holds translation pages.
    is_map: bool,
    /// Some page of it can be read.
    is_readable: bool,
    /// A logical page whose data, trim or entry it holds.
    lpn: Option<Lpn>,
}
