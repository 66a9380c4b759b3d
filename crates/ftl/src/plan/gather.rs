//! Gathering a logical block: its pages are copied from wherever they lie into one flash block, in order, so that a map that
//! stands for blocks can name it by one entry ([`crate::mapping::switching`]).
//!
//! One block at a time, a few pages after each request of the host. A copy is a read on one die and a program on
//! another, as a page that the host writes: it is followed by the moves of collection that make good for it, and the old
//! place is not erased before the copy is complete. So a cut finds the newest version of each page wherever gathering was, and
//! nothing of it is recorded. A block that is given up halfway keeps its copies; the rest of the flash block is wasted
//! until it is cleared. A plane takes a gathered block only while it has room for one more block of valid pages and
//! collection is not behind there; a map that gathers has one block of each plane for it.

use super::flash::{After, Awaited, Job, Pieces};
use super::{Flash, Planner};
use crate::blocks::Content;
use crate::mapping::{Gather, Mapping};
use crate::{BlockId, Cursor, Layout, Lpn, Ppn};
use nandu_base::{Cx, TenantId, Work};

/// What was gathered since the counters were reset.
#[derive(Clone, Copy, Default, Debug)]
pub struct Counts {
    pub blocks: u64,
    pub pages: u64,
    pub given_up: u64,
    /// Requests after which a plane had no room for a block that the map wanted.
    pub no_room: u64,
}

/// The flash block that is being filled.
#[derive(Clone, Copy, Debug)]
struct Gathering {
    cursor: Cursor,
    /// Its plane, or its tenant's pool there.
    pool: u32,
    /// Its first page.
    first: Ppn,
    /// The entries of the logical block are read behind this.
    entries: Awaited,
}

/// What a drive keeps to gather blocks.
#[derive(Default, Debug)]
pub struct Gatherer {
    under_way: Option<Gathering>,
    /// The plane to ask for room next.
    turn: u32,
    pub count: Counts,
}

impl Gatherer {
    /// Forgets what a loss of power takes.
    pub fn restart(&mut self) {
        self.under_way = None;
    }

    /// The block of the pool that is being filled, if one is.
    #[inline]
    pub fn open_in(&self, pool: u32, layout: &Layout) -> Option<BlockId> {
        let open = self.under_way.as_ref().filter(|g| g.pool == pool)?;
        Some(layout.block(open.first))
    }
}

impl<M: Mapping + ?Sized, F: Flash> Planner<M, F> {
    /// After a request for page `lpn`: copies as many pages as may be.
    #[inline]
    pub fn gather_some(&mut self, lpn: Lpn, cause: TenantId, cx: &mut Cx<'_>) {
        if self.map.gathers()
            && (self.paging.gatherer.under_way.is_some() || self.map.wants_gathered().is_some())
        {
            self.gather_pages(lpn, cause, cx);
        }
    }

    /// Whether a request for this page may be followed by copies. Where tenants are kept apart a block is gathered after requests for the range that
    /// it lies in: nobody pays, or moves pages, for what another one reads.
    fn may_gather_after(&self, lpn: Lpn) -> bool {
        let Some(tenants) = self.tenants.as_deref() else { return true };
        let of_block = match &self.paging.gatherer.under_way {
            Some(open) => Some(tenants.of_pool(open.pool)),
            None => self.map.wants_gathered().map(|first| tenants.of(first)),
        };
        of_block == Some(tenants.of(lpn))
    }

    #[inline(never)]
    fn gather_pages(&mut self, lpn: Lpn, cause: TenantId, cx: &mut Cx<'_>) {
        if !self.may_gather_after(lpn) {
            return;
        }
        if self.paging.gatherer.under_way.is_none() {
            self.paging.gatherer.under_way = self.start_gathering(cause, cx);
        }
        for _ in 0..self.map.gathered_at_once() {
            let Some(open) = self.paging.gatherer.under_way else { return };
            let has_room = self.blocks.planes[open.pool as usize].has_room();
            match self.map.gather() {
                Gather::Page(lpn) if has_room => self.gather_page(lpn, open, cause, cx),
                Gather::Done => {
                    self.paging.gatherer.count.blocks += 1;
                    self.end_gathering(Some(open.first), cause, cx);
                }
                Gather::Page(_) | Gather::Broken => self.give_gathering_up(cause, cx),
            }
        }
    }

    /// Ends the gathering that is under way, if one is.
    pub(super) fn give_gathering_up(&mut self, cause: TenantId, cx: &mut Cx<'_>) {
        if let Some(open) = self.paging.gatherer.under_way {
            self.paging.gatherer.count.given_up += 1;
            self.blocks.waste(open.cursor);
            self.end_gathering(None, cause, cx);
        }
    }

    fn end_gathering(&mut self, at: Option<Ppn>, cause: TenantId, cx: &mut Cx<'_>) {
        self.paging.gatherer.under_way = None;
        self.map.end_gathering(at, &mut self.paging.ops);
        self.run_map_ops(After::now(cx), cause, cx);
    }

    /// Opens a flash block for the logical block that the map wants, in the plane whose turn it is, of the pool whose pages they are.
    fn start_gathering(&mut self, cause: TenantId, cx: &mut Cx<'_>) -> Option<Gathering> {
        let layout = *self.blocks.layout();
        let group = self.paging.gatherer.turn;
        self.paging.gatherer.turn = if group + 1 == layout.planes { 0 } else { group + 1 };
        let first = self.map.wants_gathered()?;
        let pool = self.pool_for(first, group);
        // As many free blocks stay as a write of the host leaves: one at least, for moved pages. Who owes blocks takes none.
        let least = self.host.gc_start.max(self.host.urgent + 1);
        let has_room = |pool: &u32| {
            let p = &self.blocks.planes[*pool as usize];
            p.valid + layout.pages <= p.valid_max && p.free >= least && !self.is_debtor(*pool)
        };
        let Some(pool) = pool.filter(has_room) else {
            self.paging.gatherer.count.no_room += 1;
            return None;
        };
        let starts = self.map.start_gathering(&mut self.paging.ops);
        let ready = self.run_map_ops(After::now(cx), cause, cx);
        if !starts {
            return None;
        }
        let cursor =
            self.blocks.open_free(pool, self.seq + 1).expect("a pool that was asked has a free block");
        self.exec.opened(cursor);
        let entries = self.exec.await_later(ready);
        Some(Gathering { cursor, pool, first: layout.first_page(cursor.block(&layout)), entries })
    }

    fn gather_page(&mut self, lpn: Lpn, mut open: Gathering, cause: TenantId, cx: &mut Cx<'_>) {
        let from = self.map.get(lpn).expect("a page of a block that is not broken is mapped");
        let to = open.cursor.take();
        self.paging.gatherer.under_way = Some(open);
        self.blocks.planes[open.pool as usize].valid += 1;
        self.exec.begin_group();
        let mut pieces = Pieces::of_nobody(cx, cause, Work::Map);
        let outer = self.exec.work_for(Work::Map);
        let after = self.exec.still_awaited(&open.entries, cx);
        let copying = self.copying(from, to, Content::Data(lpn), after);
        self.exec.carry(copying, [Job::PreRead, Job::Gathered], &mut pieces, cx);
        self.exec.work_for(outer);
        pieces.charge(cx);
        self.paging.gatherer.count.pages += 1;
        self.blocks.invalidate(from);
        self.relocate(lpn, from, to, cause, cx);
        self.clear_after_write(open.pool, cause, cx);
    }
}
