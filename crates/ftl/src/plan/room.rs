//! Room to work after a start: a plane without an erased block gets one before the host may write.
//!
//! A running drive keeps the last erased block of a plane for pages that move. A power cut can find that block written and
//! nothing cleared by it: pages are torn, and what had made the victim's other pages invalid may not have come to pass. Then
//! the copies take the room that clearing needs, and each further cut takes a page more.
//!
//! But nothing in that block is the only one of its kind: it holds copies, and what they are copies of is still there, for where a
//! victim was erased since there is an erased block. So the start *gives up copies*: the originals count again, the block is erased, and
//! clearing begins anew with a whole block of room. It takes the newest block all of whose valid pages have an original in the same
//! plane. What is an original is not believed but found: the version before, not trimmed since by any record on the drive, with the same
//! content. Where a checkpoint may name the copies, all checkpoints are erased before.
//!
//! For this to hold over any number of cuts the host must not put a page beside the copies while no block is erased. So a start that
//! finds none closes the host's open blocks and clears until there is one; what the host writes first goes to a block that was
//! erased, behind that erase. A cut on the way leaves a state of the same kind.
//!
//! Tenants' pools share erased blocks and lend them; there copies are given up only where clearing would find no room. A debtor's last
//! erased blocks may have been borrowed ones: a start counts these as given back, although nothing was cleared for it. Where no copies
//! can be given up either, the pool borrows one anew.
//!
//! Cost: nothing where every plane has an erased block. Otherwise, while copies are given up, a record for each page of the
//! drive, and two page reads for each page of the blocks that are looked at, which count as `recovery_pages_read`.
//!
//! The idea is that of any copy-then-erase collector: moving is not done before the erase. The drives that we know of keep spare
//! blocks for it instead, so many that a capacitor or the count of cuts in practice is enough; nothing is published about it.

use super::flash::After;
use super::recover::JOURNAL_KEY;
use super::{Flash, Planner};
use crate::blocks::Content;
use crate::mapping::Mapping;
use crate::trim_journal::{Extent, TrimJournal};
use crate::{BlockId, Lpn, Ppn};
use nandu_base::{ByteLen, Cx, Oob, TenantId, UnitState, Work};

/// A programmed page: its key, its number and where it is.
type Version = (u64, u64, Ppn);

/// What lies on the drive, and every trim that is on record.
struct Traces {
    versions: Vec<Version>,
    trims: Vec<Extent>,
}

impl Traces {
    /// The versions of a key before number `seq`, newest first.
    fn before(&self, key: u64, seq: u64) -> impl Iterator<Item = &Version> {
        let end = self.versions.partition_point(|&(k, s, _)| (k, s) < (key, seq));
        self.versions[..end].iter().rev().take_while(move |&&(k, ..)| k == key)
    }

    fn is_trimmed_since(&self, lpn: Lpn, seq: u64) -> bool {
        let covers = |e: &Extent| (e.first.0..e.first.0 + e.count).contains(&lpn.0);
        self.trims.iter().any(|extent| extent.as_of >= seq && covers(extent))
    }
}

impl<M: Mapping + ?Sized, F: Flash> Planner<M, F> {
    /// Sees to it that each plane has an erased block again; returns when what can be timed ahead is complete.
    pub(super) fn make_room(&mut self, cx: &mut Cx<'_>) -> After {
        for pool in 0..self.blocks.planes.len() as u32 {
            // Each turn clears a block or gives one up, which the next turns clear into.
            for _ in 0..2 * self.blocks.layout().blocks {
                if self.blocks.planes[pool as usize].free > 0 || self.blocks.is_worn_out() {
                    break;
                }
                if !self.make_some_room(pool, cx) {
                    break;
                }
            }
        }
        if self.exec.holds_back() {
            self.exec.serve(cx);
        }
        self.exec.all_given()
    }

    /// Clears a block of a pool without an erased one, or gives copies up; false when there is nothing to do.
    fn make_some_room(&mut self, pool: u32, cx: &mut Cx<'_>) -> bool {
        if !self.has_victim(pool) {
            return false;
        }
        let has_tenants = self.tenants.is_some();
        if !has_tenants {
            self.blocks.waste_host(pool);
        }
        if self.has_room_to_clear(pool) {
            if !has_tenants {
                self.clear_whole_block(pool, TenantId::SYSTEM, cx);
            }
            return !has_tenants;
        }
        self.blocks.planes[pool as usize].clearing = false;
        self.give_copies_up(pool, cx) || self.borrow_for_room(pool)
    }

    /// Whether the block that is being cleared, and the trims that go on record before its erase, have room.
    fn has_room_to_clear(&self, pool: u32) -> bool {
        let victim = self.victim_of(pool).expect("a block is being cleared");
        let valid = self.blocks.layout().pages - u32::from(self.blocks.invalid(victim));
        let records =
            self.journal.pending().div_ceil(TrimJournal::extents_per_record(1 << self.host.page.bits));
        // A tenant's block is not cleared at once: trims may come before that.
        let records = if self.tenants.is_some() { records.max(1) } else { records };
        let p = &self.blocks.planes[pool as usize];
        let left = p.moved.left() + if self.host.separate { 0 } else { p.host.left() };
        valid + records as u32 <= left
    }

    /// Goes back to the originals of a block of copies, and erases it; false when there is none.
    #[cold]
    fn give_copies_up(&mut self, pool: u32, cx: &mut Cx<'_>) -> bool {
        let traces = self.traces(cx);
        let plane = self.blocks.plane_of_pool(pool);
        let is_candidate = |block: &BlockId| {
            !self.blocks.is_bad(*block)
                && !self.paging.is_anchor(*block)
                && !self.paging.area.owns(*block)
                && self.blocks.pool_of_block(*block) == pool
        };
        let mut blocks: Vec<BlockId> =
            self.blocks.layout().plane_blocks(plane).filter(is_candidate).collect();
        blocks.sort_unstable_by_key(|&block| std::cmp::Reverse(self.blocks.oldest(block)));
        for block in blocks {
            let Some(copies) = self.copies_in(block, &traces, cx) else { continue };
            if self.paging.keeper.as_ref().is_some_and(|keeper| self.blocks.oldest(block) <= keeper.last) {
                self.give_checkpoints_up(cx);
            }
            for (copy, original) in copies {
                self.go_back(copy, original, cx);
            }
            self.recovery.given_up += 1;
            self.blocks.close(block);
            let outer = self.exec.work_for(Work::Gc);
            self.erase_alone(block, pool, TenantId::SYSTEM, cx);
            self.exec.work_for(outer);
            return true;
        }
        false
    }

    /// Every programmed page of data and of trims, in the order of keys and numbers, and all trims.
    fn traces(&mut self, cx: &mut Cx<'_>) -> Traces {
        let layout = *self.blocks.layout();
        let mut traces = Traces { versions: Vec::new(), trims: self.journal.waiting().to_vec() };
        for block in layout.all_blocks().filter(|&block| !self.paging.is_anchor(block)) {
            let first = layout.first_page(block).0;
            for ppn in (first..first + layout.pages).map(Ppn) {
                let medium = cx.medium.as_deref().expect("a start reads the medium");
                let UnitState::Programmed(oob) = medium.state(self.exec.unit(ppn)) else { continue };
                // A version is one in whatever mode its block is.
                let key = oob.key & !Oob::SLC;
                if key == JOURNAL_KEY {
                    traces.trims.extend(self.extents_at(ppn, cx));
                }
                if key <= JOURNAL_KEY {
                    traces.versions.push((key, oob.seq, ppn));
                }
            }
        }
        traces.versions.sort_unstable();
        traces
    }

    /// The valid pages of a block with their originals; `None` when one of them has none.
    fn copies_in(&mut self, block: BlockId, traces: &Traces, cx: &mut Cx<'_>) -> Option<Vec<(Ppn, Ppn)>> {
        let layout = *self.blocks.layout();
        let first = layout.first_page(block).0;
        let mut copies = Vec::new();
        let mut is_written = false;
        for ppn in (first..first + layout.pages).map(Ppn) {
            let content = self.blocks.content(ppn);
            is_written |= content != Content::Free;
            let is_valid = match content {
                Content::Data(lpn) => self.map.get(lpn) == Some(ppn),
                Content::Journal(slot) => self.journal.record(slot).is_some_and(|record| record.ppn == ppn),
                Content::Free | Content::Waste | Content::Map(_) => false,
            };
            if is_valid {
                copies.push((ppn, self.original(ppn, content, traces, cx)?));
            }
        }
        is_written.then_some(copies)
    }

    /// The page that this one is a copy of.
    fn original(&mut self, ppn: Ppn, content: Content, traces: &Traces, cx: &mut Cx<'_>) -> Option<Ppn> {
        let medium = cx.medium.as_deref().expect("a start reads the medium");
        let UnitState::Programmed(oob) = medium.state(self.exec.unit(ppn)) else { return None };
        let key = oob.key & !Oob::SLC;
        let layout = *self.blocks.layout();
        let pool = self.blocks.pool_of_page(ppn);
        let elsewhere = |at: Ppn| {
            layout.block(at) != layout.block(ppn)
                && layout.plane(at) == layout.plane(ppn)
                && self.blocks.pool_of_page(at) == pool
        };
        if let Content::Data(lpn) = content {
            // Pages move within their plane: a version before that lies elsewhere was the host's.
            let &(_, seq, at) = traces.before(key, oob.seq).next()?;
            let is_sound = elsewhere(at) && !traces.is_trimmed_since(lpn, seq);
            return (is_sound && self.is_same(ppn, at, cx)).then_some(at);
        }
        let records: Vec<Ppn> =
            traces.before(key, oob.seq).map(|&(.., at)| at).filter(|&at| elsewhere(at)).collect();
        records.into_iter().find(|&at| self.is_same(ppn, at, cx))
    }

    /// Whether two pages hold the same.
    fn is_same(&mut self, a: Ppn, b: Ppn, cx: &mut Cx<'_>) -> bool {
        let sectors = self.host.page.sectors;
        let pages = [a, b].map(|ppn| {
            self.recovery.note(self.exec.die_of(ppn), 1);
            let payload = cx.pool.allocate(ByteLen(1 << self.host.page.bits));
            let medium = cx.medium.as_deref_mut().expect("a start reads the medium");
            (medium.read(cx.pool, self.exec.unit(ppn), 0, sectors, payload), payload)
        });
        let [(a_reads, a), (b_reads, b)] = pages;
        let same = a_reads && b_reads;
        let same = same && (0..u64::from(sectors)).all(|i| cx.pool.sector(a, i) == cx.pool.sector(b, i));
        cx.pool.release(a);
        cx.pool.release(b);
        same
    }

    /// The original counts again instead of its copy.
    fn go_back(&mut self, copy: Ppn, original: Ppn, cx: &mut Cx<'_>) {
        let content = self.blocks.content(copy);
        self.blocks.invalidate(copy);
        self.blocks.revive(original, content);
        match content {
            Content::Data(lpn) => self.relocate(lpn, copy, original, TenantId::SYSTEM, cx),
            Content::Journal(slot) => self.journal.moved(slot, original),
            Content::Free | Content::Waste | Content::Map(_) => {
                unreachable!("only data and records are copied")
            }
        }
    }
}
