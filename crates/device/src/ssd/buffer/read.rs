//! Reads of a drive with a write buffer.

use super::super::executor::Pieces;
use super::Ssd;
use crate::nand::queued::NONE;
use nandu_base::{ByteLen, Cx, Overlay, Phase, ReqId, SECTOR, Step, Work};
use nandu_ftl::Lpn;
use nandu_ftl::mapping::Mapping;
use nandu_ftl::plan::pages::Part;

/// What the buffer holds of a page that is read.
#[derive(Clone, Copy)]
enum Found {
    Nothing,
    /// Some sectors that are wanted; they are laid over those of the flash.
    Some(Overlay),
    /// All that are wanted.
    All(Overlay),
}

impl<M: Mapping> Ssd<M> {
    /// Reads from the buffer what it holds, and the rest from the flash.
    pub(super) fn read_buffered(&mut self, id: ReqId, cx: &mut Cx<'_>) -> Step {
        let pages = self.pages_of(id, cx);
        let buffer = self.buffer();
        if buffer.plan.planted.read_ignores || !buffer.slots.holds_any(pages.first, pages.end) {
            return self.without_buffer(id, cx);
        }
        self.plan.exec.lanes.work_for(Work::Read);
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

    /// What the buffer holds now is kept until the die has sensed the rest.
    fn read_mixed(&mut self, id: ReqId, cx: &mut Cx<'_>) -> Step {
        let pages = self.pages_of(id, cx);
        let request = &cx.requests[id];
        let (cause, now) = (request.cause, cx.now);
        self.plan.map.begin(Lpn(pages.end));
        let mut pieces = Pieces::of_request(id, cx, cause, Work::Read);
        let mut linked = ByteLen::ZERO;
        for lpn in pages.first..pages.end {
            let wanted = self.plan.host.page.sectors_of(self.plan.host.page.part(&pages, lpn));
            let found = self.find(lpn, wanted);
            if let Found::All(overlay) | Found::Some(overlay) = found {
                linked.0 += u64::from(overlay.count) * SECTOR;
            }
            let mut at = None;
            if !matches!(found, Found::All(_)) {
                at = self.plan.translate(Lpn(lpn), &mut pieces.after, cause, cx);
            }
            let overlay = match found {
                Found::Nothing => None,
                Found::All(overlay) | Found::Some(overlay) => Some(overlay),
            };
            if let Some(ppn) = at {
                self.plan.count.host_pages_read += 1;
                self.plan.read_page(lpn, ppn, overlay, &mut pieces, cx);
            } else {
                self.plan.exec.bring(id, lpn, None, overlay, cx);
            }
        }
        let link = self.buffer().plan.link.transfer(linked);
        self.plan.gather_some(Lpn(pages.first), cause, cx);
        if pieces.after.node != NONE {
            self.plan.exec.answer_of(&mut pieces);
        }
        if let Some(answer) = pieces.tally.answer() {
            self.plan.exec.queue.not_before(answer, now + link);
            return self.plan.exec.finish_pieces(id, pieces, cx);
        }
        if now + link > pieces.tally.slowest.time.end.later(pieces.after.at) {
            pieces.charge(cx);
            cx.requests[id].path.add(Phase::Bus, link);
            return self.plan.exec.finish(id, now + link, cx);
        }
        self.plan.exec.finish_pieces(id, pieces, cx)
    }
}
