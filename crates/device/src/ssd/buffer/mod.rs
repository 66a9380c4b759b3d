//! The write buffer of a page-mapped drive: RAM of the controller that acknowledges writes before they are programmed.
//!
//! - *Write*: it takes a slot for each of its pages and is acknowledged when it has crossed the link. A page that waits in the
//!   buffer is replaced in place, so its older version is never programmed. When no slot is free writes wait, first come, first
//!   served.
//! - *Writing out*: while more than `keep` pages wait, or the oldest has waited for `dirty_expire`, or somebody waits for them, the
//!   oldest are programmed, at most `max_programs` at a time, over the planes in turn as without a buffer. A slot is free when its program is
//!   complete; until then reads find the page in it.
//! - *Read*: what the buffer holds crosses the link at once; what it holds a part of is read from the flash with that part laid over.
//! - *Flush*: everything that came before it is programmed, then trims are put on record. A write with FUA ends when its own pages
//!   are programmed.
//! - *Trim*: a page that waits is dropped, unless a flush waits for it: then it is programmed first, like one of which a part
//!   is trimmed, and like all with a log-block map, where a flush puts no trims on record. With `power_loss_protection` it waits until
//!   what came before it is programmed, and a write to its pages waits for it.
//!
//! *Power cuts*: the buffer is lost, what was programmed counts by its sequence number as without a buffer. The drive
//! promises no order between writes that were not flushed. With `power_loss_protection` what is acknowledged is durable; see
//! `dump`.
//!
//! *Lanes.* A log-block map has a plane for each page, and a plane that merges takes nothing: there each plane has a lane of its own,
//! with its oldest page and so many programs at a time. While writes wait for room because planes merge, the drive tells those
//! above (`GcPressure`). Other maps put pages where there is room; they have one lane.
//!
//! *A page of two parts.* A slot holds one stretch of sectors. When a newer write would leave a gap, the older part is programmed at
//! once and the newer one takes a slot of its own.
//!
//! Own design after what controllers are known to do. Cost: without a buffer nothing, for the way here is one that a drive takes
//! that has something to see to (`attend`); with one some hundred instructions a page, and an event only when somebody
//! waits or a page has waited for `dirty_expire`. RAM: see `slots`.
//!
//! Files: `slots` which pages there are, `read` reads, `destage` from the buffer to the dies, `dump` what capacitors save.

mod destage;
mod dump;
mod read;
mod slots;

use super::Ssd;
use crate::write_buffer::{Held, Link};
use nandu_base::{
    BuildContext, Cx, ErrorKind, Flags, Instant, Op, Phase, Report, ReqId, Resource, Span, Step, TimerKey,
    Work,
};
use nandu_ftl::mapping::Mapping;
use nandu_ftl::plan::pages::Pages;
use slots::{Slots, State};
use std::collections::VecDeque;

/// A write that waits for room.
#[derive(Clone, Copy)]
struct Late {
    id: ReqId,
    came: Instant,
    /// The first page that has no room yet.
    next: u32,
}

/// A write with FUA, some of whose pages are not programmed.
#[derive(Clone, Copy)]
struct Durable {
    id: ReqId,
    came: Instant,
    /// Pages that are not programmed, and one while it is taken apart.
    left: u32,
    /// When its data has crossed the link.
    crossed: Instant,
}

/// A flush, or a trim with protected pages, that waits for every page that came before it.
#[derive(Clone, Copy)]
struct Barrier {
    id: ReqId,
    came: Instant,
    ticket: u64,
    left: u32,
}

/// What happened since the counters were reset.
#[derive(Clone, Copy, Default)]
struct Counts {
    pages_read: u64,
    pages_replaced: u64,
    pages_trimmed: u64,
    pages_written: u64,
    writes_held: u64,
    longest_hold: Span,
    held: Span,
}

/// Faults that are planted in the buffer.
#[derive(Clone, Copy, Default)]
pub(super) struct Planted {
    pub flush_ignores: bool,
    pub read_ignores: bool,
    pub slot_too_early: bool,
    pub trim_ignores: bool,
    pub fua_ignores: bool,
    pub not_dumped: bool,
    pub slot_lost: bool,
}

impl Planted {
    pub fn of(cx: &BuildContext<'_>) -> Planted {
        Planted {
            flush_ignores: cx.planted("ssd.buffer-forgotten-by-flush"),
            fua_ignores: cx.planted("ssd.buffer-forgotten-by-fua"),
            read_ignores: cx.planted("ssd.buffer-forgotten-by-read"),
            trim_ignores: cx.planted("ssd.buffer-forgotten-by-trim"),
            slot_too_early: cx.planted("ssd.buffer-left-early"),
            slot_lost: cx.planted("ssd.buffer-slot-lost"),
            not_dumped: cx.planted("ssd.buffer-not-saved"),
        }
    }
}

/// What was settled from the options.
pub(super) struct Plan {
    /// Pages that fit.
    pub capacity: u32,
    pub logical: u32,
    /// Pages that may stay unwritten.
    pub keep: u32,
    pub dirty_expire: Span,
    /// Of each lane.
    pub max_programs: u32,
    /// Planes that pages belong to; 1 where they belong to none.
    pub lanes: u32,
    /// The sectors of a page, as [`Held`] has them.
    pub all: u128,
    pub link: Link,
    pub key: TimerKey,
    /// Where the medium keeps the slots when they outlive a power cut, and how far apart they are.
    pub dump: Option<(u64, u32)>,
    pub planted: Planted,
}

/// The write buffer.
pub(super) struct Buffer {
    plan: Plan,
    slots: Slots,
    held: VecDeque<Late>,
    durables: Vec<Durable>,
    barriers: VecDeque<Barrier>,
    /// Pages that are programmed, with the end of that, while an older version of theirs is not: with capacitors.
    behind: Vec<(u32, Instant)>,
    /// When the timer fires.
    armed: Option<Instant>,
    /// The session ends when the buffer is empty.
    closing: bool,
    /// The drive has said that merges hold it up.
    is_pressed: bool,
    count: Counts,
}

impl Buffer {
    pub fn new(plan: Plan) -> Buffer {
        let mut slots = Slots::new(plan.capacity, plan.logical, plan.lanes);
        slots.loses_some = plan.planted.slot_lost;
        Buffer {
            slots,
            plan,
            held: VecDeque::new(),
            durables: Vec::new(),
            barriers: VecDeque::new(),
            behind: Vec::new(),
            armed: None,
            closing: false,
            is_pressed: false,
            count: Counts::default(),
        }
    }

    pub fn key(&self) -> TimerKey {
        self.plan.key
    }

    /// Whether a write that comes now waits for nobody.
    pub fn has_room(&self) -> bool {
        self.held.is_empty() && self.slots.has_room()
    }

    /// What the drive has to say of itself now: under pressure from when a write waits for room while planes merge until
    /// half of the buffer is free.
    pub fn pressure(&mut self, merges: bool) -> Option<bool> {
        let pressed = match self.is_pressed {
            true => self.slots.used() > self.plan.capacity / 2,
            false => merges && !self.held.is_empty(),
        };
        (std::mem::replace(&mut self.is_pressed, pressed) != pressed).then_some(pressed)
    }

    /// Units of the medium for what capacitors save.
    pub fn dump_units(&self) -> u64 {
        self.plan.dump.map_or(0, |(_, stride)| u64::from(stride) * u64::from(self.plan.capacity))
    }

    pub fn is_empty(&self) -> bool {
        self.slots.used() == 0
    }

    /// RAM for the data of all slots.
    pub fn bytes(&self, page: u64) -> u64 {
        u64::from(self.plan.capacity) * page
    }

    /// Puts in its figures, or counts them anew.
    pub fn report(&mut self, report: &mut Report) {
        report.put("buffer_pages", u64::from(self.slots.used()));
        let c = &mut self.count;
        report.count("buffer_pages_read", &mut c.pages_read);
        report.count("buffer_pages_replaced", &mut c.pages_replaced);
        report.count("buffer_pages_trimmed", &mut c.pages_trimmed);
        report.count("buffer_pages_programmed", &mut c.pages_written);
        report.count("write_stalls", &mut c.writes_held);
        report.count("write_stall_max_ns", &mut c.longest_hold);
        report.count("write_stall_ns", &mut c.held);
        report.busy(Resource::Device, &mut self.plan.link.busy, 1);
    }

    pub fn check(&self) -> Result<(), nandu_base::Violation> {
        self.slots.check()
    }

    fn is_protected(&self) -> bool {
        self.plan.dump.is_some()
    }
}

impl<M: Mapping> Ssd<M> {
    #[inline(always)]
    fn buffer(&mut self) -> &mut Buffer {
        self.buffer.as_deref_mut().expect("only asked of a drive with a write buffer")
    }

    /// A request came to a drive with a buffer.
    pub(super) fn request_buffered(&mut self, id: ReqId, cx: &mut Cx<'_>) -> Step {
        self.empty_slots(cx);
        // Operations of one kind that are issued together may share the dies' array operations; others do not.
        self.plan.exec.begin_group();
        let step = match cx.requests[id].op {
            Op::Write => self.write_buffered(id, cx),
            Op::Read => self.read_buffered(id, cx),
            Op::Flush => self.flush_buffered(id, cx),
            Op::Trim | Op::WriteZeroes => self.trim_buffered(id, cx),
            Op::Reset => cx.fail(id, ErrorKind::Unsupported),
        };
        self.write_out(cx);
        step
    }

    fn pages_of(&self, id: ReqId, cx: &Cx<'_>) -> Pages {
        let request = &cx.requests[id];
        self.plan.host.page.pages(request.offset, request.len)
    }

    fn write_buffered(&mut self, id: ReqId, cx: &mut Cx<'_>) -> Step {
        let pages = self.pages_of(id, cx);
        if !self.plan.is_somebodys(pages.first, pages.end) {
            return cx.fail(id, ErrorKind::NoSpace);
        }
        let mut write = Late { id, came: cx.now, next: pages.first };
        let asks_for_fua = cx.requests[id].flags.has(Flags::FUA);
        let buffer = self.buffer();
        if asks_for_fua && !buffer.is_protected() && !buffer.plan.planted.fua_ignores {
            buffer.durables.push(Durable { id, came: cx.now, left: 1, crossed: Instant::ZERO });
        }
        if buffer.held.is_empty() && self.admit(&mut write, cx) {
            return match self.acknowledge(&write, cx) {
                Some(end) => Step::FinishAt(id, end),
                None => Step::Idle,
            };
        }
        self.buffer().held.push_back(write);
        Step::Idle
    }

    /// Lets writes that wait in, as far as there is room.
    fn admit_held(&mut self, cx: &mut Cx<'_>) {
        self.plan.exec.begin_group();
        while let Some(&first) = self.buffer().held.front() {
            let mut write = first;
            if !self.admit(&mut write, cx) {
                *self.buffer().held.front_mut().expect("it was there") = write;
                return;
            }
            self.buffer().held.pop_front();
            if let Some(end) = self.acknowledge(&write, cx) {
                cx.finish_at(write.id, end);
            }
        }
    }

    /// Puts the pages of a write into the buffer; false when it is full before all are in.
    fn admit(&mut self, write: &mut Late, cx: &mut Cx<'_>) -> bool {
        let request = &cx.requests[write.id];
        let (payload, cause) = (request.payload, request.cause);
        let pages = self.plan.host.page.pages(request.offset, request.len);
        if !self.buffer().barriers.is_empty() && self.waits_for_trim(&pages, cx) {
            return false;
        }
        let durable = self.buffer().durables.iter().position(|d| d.id == write.id);
        let page_sectors = self.plan.host.page.sectors;
        while write.next < pages.end {
            let lpn = write.next;
            let part = self.plan.host.page.sectors_of(self.plan.host.page.part(&pages, lpn));
            let data = payload.slice(self.plan.host.page.before(&pages, lpn));
            let found = self.waiting_slot(lpn);
            let at = match found {
                Some(at) if self.buffer().slots.slot(at).held.stays_whole_with(part.first, part.count) => {
                    let buffer = self.buffer();
                    buffer.count.pages_replaced += 1;
                    let slot = buffer.slots.slot_mut(at);
                    slot.held.lay_over(cx.pool, page_sectors, part.first, part.count, data);
                    slot.cause = cause;
                    at
                }
                found => {
                    if let Some(at) = found {
                        self.program_slot(at, cx);
                    }
                    let lane = self.lane_of(lpn);
                    let buffer = self.buffer();
                    if !buffer.slots.has_room() {
                        return false;
                    }
                    let held = match part.count == page_sectors {
                        true => Held::keep_page(cx.pool, data, buffer.plan.all),
                        false => Held::keep(cx.pool, data, part.first, part.count),
                    };
                    buffer.slots.take(lpn, lane, held, cx.now, cause)
                }
            };
            self.dump(at, cx);
            if let Some(durable) = durable {
                let buffer = self.buffer();
                buffer.slots.slot_mut(at).waiter = write.id;
                buffer.durables[durable].left += 1;
                self.program_slot(at, cx);
            }
            write.next += 1;
        }
        true
    }

    /// Whether a trim of some of these pages waits for the buffer: it would wait for what comes after it too, and never end.
    #[inline(never)]
    fn waits_for_trim(&self, pages: &Pages, cx: &Cx<'_>) -> bool {
        let Some(buffer) = self.buffer.as_deref() else { return false };
        let meets = |barrier: &Barrier| {
            let trimmed = self.pages_of(barrier.id, cx);
            trimmed.first < pages.end && pages.first < trimmed.end
        };
        let mut trims = buffer.barriers.iter().filter(|barrier| cx.requests[barrier.id].op != Op::Flush);
        trims.any(meets)
    }

    /// The pool that a page belongs to, if it belongs to one.
    #[inline(always)]
    fn lane_of(&self, lpn: u32) -> u32 {
        self.plan.map.log_blocks().map_or(0, |map| map.home(lpn).0)
    }

    /// The slot in which a page waits.
    #[inline]
    fn waiting_slot(&mut self, lpn: u32) -> Option<u32> {
        let slots = &self.buffer().slots;
        slots.find(lpn).filter(|&at| slots.slot(at).state == State::Waiting)
    }

    /// A write is in the buffer as a whole: when it ends, if that is known. One with FUA ends when it is programmed.
    fn acknowledge(&mut self, write: &Late, cx: &mut Cx<'_>) -> Option<Instant> {
        let &Late { id, came, .. } = write;
        let request = &cx.requests[id];
        let (len, cause) = (request.len, request.cause);
        let buffer = self.buffer();
        let hold = cx.now.since(came);
        if hold > Span::ZERO {
            buffer.count.writes_held += 1;
            buffer.count.longest_hold = buffer.count.longest_hold.longer(hold);
            buffer.count.held += hold;
        }
        let (start, transfer) = buffer.plan.link.take(cx.now, len);
        let end = start + transfer;
        cx.charges.charge(cause, Resource::Device, Work::Write, transfer);
        if let Some(at) = buffer.durables.iter().position(|d| d.id == id) {
            buffer.durables[at].crossed = end;
            self.one_is_durable(at, cx);
            return None;
        }
        let path = &mut cx.requests[id].path;
        path.add(Phase::Queue, start.since(came));
        path.add(Phase::Bus, transfer);
        Some(end)
    }

    /// A page of a write with FUA is programmed, or the write is in the buffer as a whole.
    fn one_is_durable(&mut self, at: usize, cx: &mut Cx<'_>) {
        let buffer = self.buffer();
        buffer.durables[at].left -= 1;
        if buffer.durables[at].left > 0 {
            return;
        }
        let Durable { id, came, crossed, .. } = buffer.durables.swap_remove(at);
        let link = buffer.plan.link.transfer(cx.requests[id].len);
        let end = crossed.later(cx.now);
        let rest = end.since(came) - link;
        let program = Span(rest.0.min(self.plan.exec.shortest_program().0));
        let path = &mut cx.requests[id].path;
        path.add(Phase::Bus, link);
        path.add(Phase::Program, program);
        path.add(Phase::Queue, rest - program);
        cx.finish_at(id, end);
    }

    /// A flush covers what is in the buffer now; trims are put on record when that is programmed.
    fn flush_buffered(&mut self, id: ReqId, cx: &mut Cx<'_>) -> Step {
        let buffer = self.buffer();
        if buffer.is_protected() || buffer.plan.planted.flush_ignores {
            return self.without_buffer(id, cx);
        }
        self.wait_for_buffer(id, cx)
    }

    fn wait_for_buffer(&mut self, id: ReqId, cx: &mut Cx<'_>) -> Step {
        let slots = &self.buffer().slots;
        let (ticket, left) = (slots.ticket, slots.used());
        if left == 0 {
            return self.without_buffer(id, cx);
        }
        self.buffer().barriers.push_back(Barrier { id, came: cx.now, ticket, left });
        Step::Idle
    }

    /// A trim: what is in the buffer of its pages is older than it.
    fn trim_buffered(&mut self, id: ReqId, cx: &mut Cx<'_>) -> Step {
        let pages = self.pages_of(id, cx);
        let buffer = self.buffer();
        if buffer.plan.planted.trim_ignores || !buffer.slots.holds_any(pages.first, pages.end) {
            return self.without_buffer(id, cx);
        }
        if buffer.is_protected() {
            // The trim may be undone by a power cut until it is on record, the pages may not: they go first.
            return self.wait_for_buffer(id, cx);
        }
        let may_drop = self.buffer().barriers.is_empty() && self.plan.map.log_blocks().is_none();
        for lpn in pages.first..pages.end {
            let is_whole = self.plan.host.page.part(&pages, lpn).is_none();
            if let Some(at) = self.waiting_slot(lpn) {
                let buffer = self.buffer();
                if is_whole && may_drop {
                    buffer.count.pages_trimmed += 1;
                    let gone = buffer.slots.drop_waiting(at);
                    cx.pool.release(gone.payload);
                } else {
                    self.program_slot(at, cx);
                }
            }
            self.buffer().slots.hide(lpn);
        }
        self.without_buffer(id, cx)
    }

    /// Carries a request out as a drive without a buffer does.
    fn without_buffer(&mut self, id: ReqId, cx: &mut Cx<'_>) -> Step {
        self.plan.exec.lanes.work_for(match cx.requests[id].op {
            Op::Read => Work::Read,
            Op::Flush => Work::Journal,
            _ => Work::Write,
        });
        match cx.requests[id].op {
            Op::Read => self.plan.read(id, cx),
            Op::Flush => self.plan.flush(id, cx),
            _ => self.trim(id, cx),
        }
    }

    /// The pages that a barrier waited for are programmed: its request goes on.
    fn pass(&mut self, barrier: &Barrier, cx: &mut Cx<'_>) {
        let Barrier { id, came, .. } = *barrier;
        cx.requests[id].path.add(Phase::Queue, cx.now.since(came));
        // It goes on at another time: its pages share no operation with those that were issued last.
        self.plan.exec.begin_group();
        let is_trim = cx.requests[id].op != Op::Flush;
        let step = if is_trim { self.trim_buffered(id, cx) } else { self.without_buffer(id, cx) };
        if let Step::FinishAt(id, end) = step {
            cx.finish_at(id, end);
        }
    }

    /// The buffer's timer has fired.
    pub(super) fn buffer_timer(&mut self, cx: &mut Cx<'_>) {
        self.buffer().armed = None;
        if let Some(medium) = cx.medium.as_deref_mut() {
            medium.settle(cx.now);
        }
        self.empty_slots(cx);
        self.write_out(cx);
    }

    /// The session is to end: true when nothing is in the buffer. Otherwise the buffer ends it.
    pub(super) fn is_empty_at_end(&mut self, cx: &mut Cx<'_>) -> bool {
        if self.buffer.is_none() {
            return true;
        }
        self.empty_slots(cx);
        if self.buffer().is_empty() {
            return true;
        }
        self.buffer().closing = true;
        self.write_out(cx);
        false
    }
}
