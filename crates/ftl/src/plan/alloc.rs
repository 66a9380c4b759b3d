//! Which page comes next: every page of data and of trim records that the drive programs is taken here. (Translation pages and checkpoints have areas of their
//! own: [`crate::MapArea`], [`crate::checkpoint`].)
//!
//! An open block has a key: its *pool*, its *stream*, and whether pages of the host's go there or pages that have moved. A pool is a plane or a group
//! of planes (a wide unit lies in all of them), or a tenant's part of one; with isolation by channel or die the tenant has pools of its own. What else a block is follows from
//! when it is opened: the mode of its cells (`slc`), which of the erased ones it is (`wear`), and who gives it (`tenants`). So a page is taken in the same way whatever of
//! these there is: the tenant's turn names the pool, the stream the open block of it, and a block is opened when that is full.
//!
//! *When no block may be opened* a whole one is cleared first, before the write goes on: at least the last erased block is for pages that move. With tenants units come
//! back or are borrowed before that (`tenants/loans`).
//!
//! Cost: a look at one open block; `take_host_page` is the same for a drive whose pools are its planes and that has one stream.

use super::{Flash, Planner};
use crate::mapping::Mapping;
use crate::{Lpn, Ppn};
use nandu_base::{Cx, TenantId};

/// A page taken for the host's data.
pub(super) struct Taken {
    pub ppn: Ppn,
    pub plane: u32,
    /// Whether the plane is low on free blocks: some pages are moved after the write.
    pub low: bool,
}

impl<M: Mapping + ?Sized, F: Flash> Planner<M, F> {
    /// The next page for the host's data of `lpn`.
    pub(super) fn next_host_page(&mut self, lpn: Lpn, cause: TenantId, cx: &mut Cx<'_>) -> Ppn {
        if self.tenants.is_some() {
            self.count_written(lpn);
        }
        let stream = self.stream_of(lpn);
        let page = self.take_page(lpn, stream, cause, cx);
        if self.planted.program_twice && self.seq % 512 == 511 {
            return Ppn(page.0 ^ 1);
        }
        page
    }

    /// Takes the next page for `lpn`, of a stream of the tenant whose page it is; it counts as valid from here on.
    pub(super) fn take_page(&mut self, lpn: Lpn, stream: u32, cause: TenantId, cx: &mut Cx<'_>) -> Ppn {
        let tenant = self.tenants.is_some().then(|| self.tenant_writes(lpn, cause));
        for _ in 0..2 * self.blocks.planes.len() {
            let pool = match tenant {
                None => self.turns.take(),
                Some(tenant) => self.tenants_mut().next_pool(tenant),
            };
            if self.blocks.planes[pool as usize].has_room() {
                return self.take_in(pool, stream, cause, cx);
            }
        }
        panic!(
            "I-5: no block of a drive, or tenant, whose space was checked has room for another valid page"
        );
    }

    /// Takes the next page of a stream in a pool that has room.
    fn take_in(&mut self, pool: u32, stream: u32, cause: TenantId, cx: &mut Cx<'_>) -> Ppn {
        if self.blocks.open_of(pool, stream).is_full() {
            self.open_block(pool, stream, cause, cx);
        }
        self.blocks.planes[pool as usize].valid += 1;
        self.blocks.open_of(pool, stream).take()
    }

    /// Takes the next page for the host's data on the plane whose turn it is, where pools are planes and there is one stream.
    #[inline(always)]
    pub(super) fn take_host_page(&mut self, cause: TenantId, cx: &mut Cx<'_>) -> Taken {
        let plane = self.turns.take();
        let p = &mut self.blocks.planes[plane as usize];
        if p.valid >= p.valid_max || p.host.is_full() {
            return self.take_host_page_of_new_block(plane, cause, cx);
        }
        p.valid += 1;
        Taken { ppn: p.host.take(), plane, low: p.free <= self.host.gc_start || p.clearing }
    }

    /// The same when `plane` holds as much as it may, or has no block open.
    #[inline(never)]
    fn take_host_page_of_new_block(&mut self, mut plane: u32, cause: TenantId, cx: &mut Cx<'_>) -> Taken {
        for _ in 0..self.blocks.planes.len() {
            if self.blocks.planes[plane as usize].has_room() {
                break;
            }
            plane = self.turns.take();
        }
        assert!(
            self.blocks.planes[plane as usize].has_room(),
            "I-5: no plane of a drive whose geometry was checked has room for another valid page"
        );
        let ppn = self.take_in(plane, 0, cause, cx);
        let p = &self.blocks.planes[plane as usize];
        Taken { ppn, plane, low: p.free <= self.host.gc_start || p.clearing }
    }

    /// Opens a block for a stream of the host's pages of a pool. With tenants what was lent comes back first, then units are borrowed; only then a block is cleared.
    #[cold]
    fn open_block(&mut self, pool: u32, stream: u32, cause: TenantId, cx: &mut Cx<'_>) {
        self.make_slc_room(pool, cause, cx);
        let has_tenants = self.tenants.is_some();
        // Each turn gains a page at least, here or with who owes a unit.
        for _ in 0..self.blocks.layout().real_pages() {
            if has_tenants {
                self.fill_up(pool, cx);
            }
            // Pages that moved may have left room in a block that they opened.
            if !self.blocks.open_of(pool, stream).is_full() {
                return;
            }
            let may_open = !has_tenants || self.may_open(pool);
            if self.blocks.planes[pool as usize].free > self.host.urgent && may_open {
                let cursor = self.open_for_host(pool).expect("there is an erased block");
                self.exec.opened(cursor);
                *self.blocks.open_of(pool, stream) = cursor;
                if has_tenants {
                    self.look_ahead(pool);
                }
                return;
            }
            // Who has lent so much that it has nothing to clear waits for what is owed to it.
            if !has_tenants || self.has_victim(pool) || !self.is_creditor(pool) {
                self.count.clears_forced += 1;
                self.clear_whole_block(pool, cause, cx);
            } else {
                self.demand(pool, cx);
            }
        }
        panic!("I-8: pool {pool} gets no erased block, neither by clearing nor back from who owes it");
    }

    /// The next page for data that moves within the plane, which has as many valid pages afterwards as before.
    #[inline(always)]
    pub(super) fn next_page_for_moved(&mut self, plane: u32) -> Ppn {
        let p = &mut self.blocks.planes[plane as usize];
        if !p.moved.is_full() {
            return p.moved.take();
        }
        let page = self.next_moved_page_elsewhere(plane);
        self.blocks.planes[plane as usize].valid -= 1;
        page
    }

    /// The next page for data that leaves the block that is being cleared in a pool: in the block that is opened for its wear, or in that for moved pages.
    #[inline(always)]
    pub(super) fn next_page_for_cleared(&mut self, pool: u32) -> Ppn {
        match &mut self.clearing[pool as usize].to {
            to if to.is_full() => self.next_moved_page(pool),
            to => {
                self.blocks.planes[pool as usize].valid += 1;
                to.take()
            }
        }
    }

    /// The next page for data that moves within the plane; it counts as valid from here on.
    #[inline(always)]
    pub(super) fn next_moved_page(&mut self, plane: u32) -> Ppn {
        if self.blocks.planes[plane as usize].moved.is_full() {
            return self.next_moved_page_elsewhere(plane);
        }
        let p = &mut self.blocks.planes[plane as usize];
        p.valid += 1;
        p.moved.take()
    }

    /// The same when the block for moved pages is full, or there is none.
    #[inline(never)]
    fn next_moved_page_elsewhere(&mut self, plane: u32) -> Ppn {
        let separate = self.host.separate;
        let p = &self.blocks.planes[plane as usize];
        if separate || p.host.is_full() {
            let cursor = match separate {
                true => self.blocks.open_free_for_moved(plane, self.seq + 1),
                false => self.blocks.open_free(plane, self.seq + 1),
            };
            let cursor = cursor.expect("one free block is kept for moved pages");
            self.exec.opened(cursor);
            let p = &mut self.blocks.planes[plane as usize];
            *(if separate { &mut p.moved } else { &mut p.host }) = cursor;
        }
        let p = &mut self.blocks.planes[plane as usize];
        p.valid += 1;
        if separate { &mut p.moved } else { &mut p.host }.take()
    }
}
