//! Moving pages the short way, for most drives: within their plane, a few after each page that the host writes.
//!
//! `collect` does the same for all drives, page by page. Here what a move changes in the block that is cleared is added up and
//! entered once, and the plane's number of valid pages, which a move leaves as it is, is left alone. Results are the same.
//! Looking for the next valid page in a loop of its own over a slice of owners was tried: 13 instructions a move more.

use super::Ssd;
use super::collect::Clearing;
use super::host::Usage;
use nandu_base::{Cx, Instant, TenantId, Window, Work};
use nandu_ftl::Ppn;
use nandu_ftl::blocks::Content;
use nandu_ftl::gc::GcPolicy;
use nandu_ftl::mapping::Mapping;

impl<M: Mapping, G: GcPolicy, const DEFERS: bool> Ssd<M, G, DEFERS> {
    /// The same as [`clear_pages`](Ssd::clear_pages) where pages move within their plane and no tenants are kept apart, with
    /// nothing per page that can be done once: most moves of most drives come this way.
    #[inline(always)]
    pub(super) fn clear_pages_within(&mut self, plane: u32, budget: u32, cause: TenantId, cx: &mut Cx<'_>) {
        let Clearing { victim, mut next, to, .. } = self.clearing[plane as usize];
        if M::PAGED || DEFERS || !to.is_full() {
            return self.clear_pages(plane, budget, cause, cx);
        }
        let outer = self.lanes.work_for(Work::Gc);
        let mut valid = self.blocks.layout().pages - u32::from(self.blocks.invalid(victim));
        let (mut usage, mut moved, mut left, mut end) = (Usage::default(), 0, budget, Instant::ZERO);
        while valid > 0 {
            if left == 0 && self.may_pause(plane) {
                break;
            }
            let from = Ppn(next);
            next += 1;
            if let Some(ahead) = self.blocks.data_entered_at(Ppn(next + 7)) {
                self.map.prefetch(ahead);
            }
            match self.blocks.data_at(from) {
                Some(lpn) if self.map.is_at(lpn, from) => {
                    let to = self.next_page_for_moved(plane);
                    let (start, until, die, bus) = self.lanes.move_page(plane, cx.now);
                    (usage.die, usage.bus, end) = (usage.die + die, usage.bus + bus, until);
                    self.seq += 1;
                    moved += 1;
                    self.blocks.programmed(to, Content::Data(lpn));
                    self.map.set(lpn, to);
                    if cx.medium.is_some() {
                        self.store_moved(from, to, Content::Data(lpn), Window { start, end }, cx);
                    }
                }
                Some(_) => continue,
                None if self.move_record(from, plane, &mut usage, cx) => {}
                None => continue,
            }
            valid -= 1;
            left = left.saturating_sub(1);
        }
        self.count.pages_moved += u64::from(moved);
        self.last_change = self.last_change.later(end);
        self.blocks.moved_away(victim, moved, end);
        self.charge_gc(usage, cause, cx);
        if valid > 0 {
            self.clearing[plane as usize].next = next;
        } else {
            self.erase(victim, plane, cause, cx);
        }
        self.lanes.work_for(outer);
    }

    /// The next page for data that moves within the plane, which has as many valid pages afterwards as before.
    #[inline(always)]
    fn next_page_for_moved(&mut self, plane: u32) -> Ppn {
        let p = &mut self.blocks.planes[plane as usize];
        if !p.moved.is_full() {
            return p.moved.take();
        }
        let page = self.next_moved_page_elsewhere(plane);
        self.blocks.planes[plane as usize].valid -= 1;
        page
    }
}
