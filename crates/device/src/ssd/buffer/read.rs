//! Reads of a drive with a write buffer.

use super::super::host::{Part, Usage};
use super::super::waits::Slowest;
use super::Ssd;
use crate::nand::queued::{Job, Order, Page};
use nandu_base::{ByteLen, Cx, Overlay, Phase, ReqId, SECTOR, Step, Work};
use nandu_ftl::Lpn;
use nandu_ftl::gc::GcPolicy;
use nandu_ftl::mapping::Mapping;

/// What the buffer holds of a page that is read.
#[derive(Clone, Copy)]
enum Found {
    Nothing,
    /// Some sectors that are wanted; they are laid over those of the flash.
    Some(Overlay),
    /// All that are wanted.
    All(Overlay),
}

impl<M: Mapping, G: GcPolicy, const DEFERS: bool> Ssd<M, G, DEFERS> {
    /// Reads from the buffer what it holds, and the rest from the flash.
    pub(super) fn read_buffered(&mut self, id: ReqId, cx: &mut Cx<'_>) -> Step {
        let pages = self.pages_of(id, cx);
        let buffer = self.buffer();
        if buffer.plan.planted.read_ignores || !buffer.slots.holds_any(pages.first, pages.end) {
            return self.without_buffer(id, cx);
        }
        self.lanes.work_for(Work::Read);
        if DEFERS {
            self.read_mixed_later(id, cx);
            return Step::Idle;
        }
        self.read_mixed(id, cx)
    }

    fn find(&mut self, lpn: u32, wanted: Part) -> Found {
        let slots = &self.buffer().slots;
        let held = slots.find(lpn).and_then(|at| slots.slot(at).held.overlay());
        let Some(Overlay { first, count, payload }) = held else { return Found::Nothing };
        let (start, end) = (first.max(wanted.first), (first + count).min(wanted.first + wanted.count));
        if start >= end {
            return Found::Nothing;
        }
        let payload = payload.slice(ByteLen(u64::from(start - first) * SECTOR));
        let overlay = Overlay { first: start, count: end - start, payload };
        if overlay.count == wanted.count {
            self.buffer().count.pages_read += 1;
            return Found::All(overlay);
        }
        Found::Some(overlay)
    }

    fn read_mixed(&mut self, id: ReqId, cx: &mut Cx<'_>) -> Step {
        let pages = self.pages_of(id, cx);
        let request = &cx.requests[id];
        let (cause, now, fetches) = (request.cause, cx.now, !request.payload.is_none());
        if M::PAGED {
            self.map.begin(Lpn(pages.end));
        }
        let (mut slowest, mut is_slc) = (Slowest::none(now), false);
        let (mut ready, mut usage, mut linked) = (now, Usage::default(), ByteLen::ZERO);
        for lpn in pages.first..pages.end {
            let wanted = self.host.sectors(self.host.part(&pages, lpn));
            let found = self.find(lpn, wanted);
            if let Found::All(overlay) | Found::Some(overlay) = found {
                linked.0 += u64::from(overlay.count) * SECTOR;
            }
            let mut at = None;
            if !matches!(found, Found::All(_)) {
                let known;
                (at, known) = if M::PAGED {
                    self.where_is(Lpn(lpn), ready, cause, cx)
                } else {
                    (self.map.get(Lpn(lpn)), now)
                };
                if known != ready {
                    // Pages that begin at different times share no array operation.
                    self.serial = self.serial.wrapping_add(1);
                    ready = known;
                    slowest.map_only(ready);
                }
                if let Some(ppn) = at {
                    let time = self.sense_in_mode(ppn, ready, &mut usage);
                    if time.end > slowest.end() {
                        is_slc = self.is_slc(ppn);
                    }
                    slowest.note(ready, time);
                    self.count.host_pages_read += 1;
                }
            }
            if fetches {
                self.fetch(id, &pages, lpn, at, cx);
                if let Found::All(overlay) | Found::Some(overlay) = found {
                    self.lay_over(id, lpn, &overlay, cx);
                }
            }
        }
        usage.charge(cx, cause, Work::Read);
        let link = self.buffer().plan.link.transfer(linked);
        let end = slowest.end().later(now + link);
        let path = &mut cx.requests[id].path;
        if end == slowest.end() {
            slowest.explain_read(now, self.timing_in(is_slc), path);
        } else {
            path.add(Phase::Bus, link);
        }
        if M::PAGED {
            self.gather_some(cause, cx);
        }
        self.finish(id, end, cx)
    }

    /// The same with the arbiter `queued`: what the buffer holds now is kept until the die has sensed the rest.
    fn read_mixed_later(&mut self, id: ReqId, cx: &mut Cx<'_>) {
        let pages = self.pages_of(id, cx);
        let request = &cx.requests[id];
        let (cause, fetches) = (request.cause, !request.payload.is_none());
        let answer = self.queue.answer(id, cx.now, cause);
        let order = Order { now: cx.now, cause, answer, serial: self.serial };
        let mut linked = ByteLen::ZERO;
        for lpn in pages.first..pages.end {
            let wanted = self.host.sectors(self.host.part(&pages, lpn));
            let found = self.find(lpn, wanted);
            if let Found::All(overlay) | Found::Some(overlay) = found {
                linked.0 += u64::from(overlay.count) * SECTOR;
            }
            match (found, self.map.get(Lpn(lpn))) {
                (Found::All(overlay), _) if fetches => self.lay_over(id, lpn, &overlay, cx),
                (Found::All(_), _) => {}
                (found, Some(ppn)) => {
                    self.count.host_pages_read += 1;
                    let overlay = match found {
                        Found::Some(overlay) if fetches => {
                            cx.pool.keep(overlay.payload);
                            Some(overlay)
                        }
                        _ => None,
                    };
                    let slc = self.mode_of(ppn, Job::Read);
                    let page = Page { slc, ..Page::read(self.stripes.units.place(ppn), lpn) };
                    self.queue.read(Job::Read, &order, Page { overlay, ..page });
                }
                (found, None) if fetches => {
                    self.fetch(id, &pages, lpn, None, cx);
                    if let Found::Some(overlay) = found {
                        self.lay_over(id, lpn, &overlay, cx);
                    }
                }
                _ => {}
            }
        }
        let link = self.buffer().plan.link.transfer(linked);
        self.queue.not_before(answer, cx.now + link);
    }
}
