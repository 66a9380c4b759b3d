//! The machine: its state, its events, and what happens after each of them.

use crate::append::Writer;
use crate::bypass::Marks;
use crate::commit::Commit;
use crate::config::{Planted, Promote, Rewrite};
use crate::dram::Dram;
use crate::figures::Counts;
use crate::gc::Collector;
use crate::host::HostOp;
use crate::load::Load;
use crate::map::Map;
use crate::open::Opening;
use crate::ring::{Ring, Shape};
use nandu_base::{
    BuildContext, ByteLen, ByteOffset, Counter, Cx, DeviceEvent, Draft, Effect, ErrorKind, Flags, Instant,
    Limits, Machine, Op, OpenError, OpenHow, Payload, Peek, ReqId, Span, Step, TenantId, TimerKey, Violation,
};
use std::collections::VecDeque;

const IDLE: TimerKey = TimerKey(0);
const REOPEN: TimerKey = TimerKey(1);

/// Choices that do not change.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Policy {
    /// Each change is durable before it is acknowledged.
    pub ack_durable: bool,
    pub promote: Promote,
    pub rewrite: Rewrite,
    /// Bytes; 0 for never.
    pub read_bypass: u64,
    pub write_bypass: u64,
    /// Frames that may wait before they are appended.
    pub flush_pages: u32,
    pub flush_idle: Span,
    pub spin_aware: bool,
    pub disk_volatile: bool,
    /// Longest request to the disk, in whole pages.
    pub disk_max: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    Closed,
    Opening,
    Running,
    Failed,
    Closing,
}

/// What a request to a child is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Tag {
    Header,
    Data,
    Prepare,
    Load,
    Collect,
    Demote,
    DemoteFlush,
    Erase,
    EraseFlush,
    Commit,
    Bypass,
    Record,
}

const TAGS: [Tag; 12] = [
    Tag::Header,
    Tag::Data,
    Tag::Prepare,
    Tag::Load,
    Tag::Collect,
    Tag::Demote,
    Tag::DemoteFlush,
    Tag::Erase,
    Tag::EraseFlush,
    Tag::Commit,
    Tag::Bypass,
    Tag::Record,
];

/// The hybrid disk.
pub(crate) struct Hybrid {
    pub limits: Limits,
    pub page: u64,
    /// The disk's number as a child.
    pub disk: u8,
    pub rings: Vec<Ring>,
    pub map: Map,
    pub dram: Dram,
    pub policy: Policy,
    pub planted: Planted,
    /// Bytes of each child.
    pub sizes: Vec<u64>,
    pub seed: u64,
    pub phase: Phase,
    pub set: u64,
    /// The next version.
    pub version: u64,
    /// Grows with each start and failure: answers to older requests are not heard.
    epoch: u16,
    pub in_flight: u32,
    gone: Vec<bool>,
    /// A child was lost since the last start.
    was_lost: bool,
    reopen_after: Span,
    pub ops: Vec<HostOp>,
    pub free_ops: Vec<u32>,
    /// Requests that wait for frames.
    pub wait_frames: VecDeque<u32>,
    /// Requests that wait until nothing of their extent is on its way to the disk.
    pub wait_bypass: Vec<u32>,
    /// Requests that wait for a commit.
    pub wait_durable: Vec<u32>,
    pub loads: Vec<Load>,
    pub free_loads: Vec<u32>,
    pub writers: Vec<Writer>,
    pub collectors: Vec<Collector>,
    pub commit: Commit,
    pub marks: Marks,
    /// Data of the host went to the disk since it was last flushed.
    pub disk_unflushed: bool,
    /// Pages of rings went to the disk since it was last flushed.
    pub demoted_unflushed: bool,
    pub disk_stands: bool,
    /// What waits in DRAM is to be appended.
    pub flushing: bool,
    pub last_request: Instant,
    idle_timer: bool,
    /// Pages that were read from below the top ring, at their number modulo the table's length.
    pub ghosts: Vec<u32>,
    pub opening: Opening,
    /// Something changed that the pumps look at.
    pub stir: bool,
    pub count: Counts,
}

impl Hybrid {
    #[allow(clippy::too_many_arguments)] // what the options amount to
    pub fn new(
        limits: Limits,
        page: u64,
        frames: usize,
        shapes: &[Shape],
        sizes: Vec<u64>,
        policy: Policy,
        planted: Planted,
        cx: &BuildContext<'_>,
    ) -> Hybrid {
        let pages = (limits.capacity.0 / page) as usize;
        let slots: u32 = shapes.iter().map(Shape::slots).sum();
        let name = cx.name.bytes().fold(0u64, |h, b| h.wrapping_mul(131).wrapping_add(u64::from(b)));
        let ghosts = if policy.promote == Promote::SecondTouch { slots as usize } else { 0 };
        Hybrid {
            limits,
            page,
            disk: shapes.len() as u8,
            map: Map::new(pages, slots as usize),
            dram: Dram::new(frames, ByteLen(page), pages),
            rings: shapes.iter().map(|s| Ring::new(*s)).collect(),
            policy,
            planted,
            sizes,
            seed: cx.seed ^ name << 32,
            phase: Phase::Closed,
            set: 0,
            version: 1,
            epoch: 0,
            in_flight: 0,
            gone: vec![false; shapes.len() + 1],
            was_lost: false,
            reopen_after: Span::ZERO,
            ops: Vec::new(),
            free_ops: Vec::new(),
            wait_frames: VecDeque::new(),
            wait_bypass: Vec::new(),
            wait_durable: Vec::new(),
            loads: Vec::new(),
            free_loads: Vec::new(),
            writers: shapes.iter().map(|_| Writer::default()).collect(),
            collectors: shapes.iter().map(|_| Collector::default()).collect(),
            commit: Commit::default(),
            marks: Marks::default(),
            disk_unflushed: false,
            demoted_unflushed: false,
            disk_stands: false,
            flushing: false,
            last_request: Instant::ZERO,
            idle_timer: false,
            ghosts: vec![u32::MAX; ghosts],
            opening: Opening::default(),
            stir: false,
            count: Counts::default(),
        }
    }

    /// The ring that holds a slot.
    pub fn ring_of_slot(&self, slot: u32) -> usize {
        usize::from(self.rings.len() > 1 && slot >= self.rings[1].shape.slot_base)
    }

    /// Whether nothing but the disk is below a ring.
    pub fn is_lowest(&self, ring: usize) -> bool {
        ring + 1 == self.rings.len()
    }

    /// Answers to what was sent until now are not heard.
    pub fn begin_epoch(&mut self) {
        self.epoch = self.epoch.wrapping_add(1);
    }

    fn cookie(&self, tag: Tag, index: u32) -> u64 {
        (tag as u64) << 56 | u64::from(self.epoch) << 32 | u64::from(index)
    }

    /// Sends a request of the machine's own to a child.
    #[allow(clippy::too_many_arguments)] // the fields of a request
    pub fn send_own(
        &mut self,
        child: u8,
        op: Op,
        offset: ByteOffset,
        len: u64,
        payload: Payload,
        tag: Tag,
        index: u32,
        cx: &mut Cx<'_>,
    ) {
        let cookie = self.cookie(tag, index);
        let flags = if matches!(tag, Tag::Load | Tag::Commit) { Flags::NONE } else { Flags::BACKGROUND };
        let draft = Draft { op, flags, offset, len: ByteLen(len), payload, cookie };
        let id = cx.own(TenantId::SYSTEM, draft);
        self.in_flight += 1;
        cx.send(child, id);
    }

    /// Sends a request on behalf of one of the host's.
    #[allow(clippy::too_many_arguments)] // the fields of a request
    pub fn send_for(
        &mut self,
        parent: ReqId,
        child: u8,
        op: Op,
        offset: ByteOffset,
        len: u64,
        payload: Payload,
        tag: Tag,
        index: u32,
        cx: &mut Cx<'_>,
    ) {
        let cookie = self.cookie(tag, index);
        let draft = Draft { op, flags: Flags::NONE, offset, len: ByteLen(len), payload, cookie };
        let id = cx.child(parent, draft);
        self.in_flight += 1;
        cx.send(child, id);
    }

    /// Stops serving: every request of the host fails, what is under way is no longer heard of, dirty DRAM stays. When a
    /// child was lost, the machine starts again as soon as it is back. After a failure of another kind it does not: it
    /// would begin from what is proven, and silently lose what was acknowledged since.
    pub fn fail(&mut self, kind: ErrorKind, cx: &mut Cx<'_>) {
        if self.phase == Phase::Opening {
            self.open_failed(OpenError::Records(whole(kind)), cx);
            return;
        }
        if !matches!(self.phase, Phase::Running | Phase::Closing) {
            return;
        }
        self.count.failures += 1;
        let was_closing = self.phase == Phase::Closing;
        self.phase = if was_closing { Phase::Closing } else { Phase::Failed };
        self.drop_work(kind, cx);
        if was_closing {
            self.opening.close_is_due = true;
            return;
        }
        cx.event(DeviceEvent::Lost);
    }

    fn arm_reopen(&mut self, cx: &mut Cx<'_>) {
        self.reopen_after = (self.reopen_after * 2).longer(Span::from_ms(10));
        if self.reopen_after > Span::from_secs(1) {
            self.reopen_after = Span::from_secs(1);
        }
        cx.wake_at(REOPEN, cx.now + self.reopen_after);
    }

    /// Forgets what is under way, and answers the host.
    fn drop_work(&mut self, kind: ErrorKind, cx: &mut Cx<'_>) {
        self.begin_epoch();
        for i in 0..self.ops.len() as u32 {
            if self.ops[i as usize].is_alive() {
                self.ops[i as usize].error = Some(kind);
                self.finish_op(i, None, cx);
            }
        }
        self.wait_frames.clear();
        self.wait_bypass.clear();
        self.wait_durable.clear();
        for load in &mut self.loads {
            cx.pool.release(std::mem::replace(&mut load.data, Payload::NONE));
        }
        self.loads.clear();
        self.free_loads.clear();
        for writer in &mut self.writers {
            writer.abandon(cx.pool);
        }
        for collector in &mut self.collectors {
            collector.abandon(cx.pool);
        }
        self.opening.abandon(cx.pool);
        self.commit = Commit::default();
        self.marks = Marks::default();
        self.dram.keep_dirty();
        self.flushing = false;
    }

    /// Starts again where nothing stands in the way.
    fn try_reopen(&mut self, cx: &mut Cx<'_>) {
        if self.phase == Phase::Failed && self.was_lost && !self.gone.contains(&true) && self.in_flight == 0 {
            self.phase = Phase::Opening;
            self.opening.is_first = false;
            self.start_open(OpenHow::default(), cx);
        }
    }

    /// The start has failed.
    pub fn open_failed(&mut self, error: OpenError, cx: &mut Cx<'_>) {
        self.phase = Phase::Failed;
        self.begin_epoch();
        self.opening.abandon(cx.pool);
        if self.opening.is_first {
            cx.opened(Err(error));
        } else {
            self.arm_reopen(cx);
        }
    }

    /// Everything is read: serves from now on.
    pub fn opened(&mut self, cx: &mut Cx<'_>) {
        self.phase = Phase::Running;
        self.dram.open(cx.pool);
        self.count.recoveries += 1;
        (self.disk_unflushed, self.demoted_unflushed) = (false, false);
        self.reopen_after = Span::ZERO;
        self.was_lost = false;
        self.stir = true;
        if std::mem::take(&mut self.opening.is_first) {
            cx.opened(Ok(()));
        } else {
            cx.event(DeviceEvent::Back);
        }
    }

    /// Does what events have made possible, until nothing more is.
    fn advance(&mut self, cx: &mut Cx<'_>) {
        while std::mem::take(&mut self.stir) {
            if !matches!(self.phase, Phase::Running | Phase::Closing) || self.opening.close_is_due {
                break;
            }
            self.retry_frames(cx);
            self.retry_bypasses(cx);
            self.decide_to_append(cx);
            for ring in 0..self.rings.len() {
                self.pump_collector(ring, cx);
                self.pump_writer(ring, cx);
            }
            self.pump_commit(cx);
            self.answer_durable(cx);
            self.pump_close();
        }
        self.close_at_last(cx);
    }

    /// Begins to append what waits in DRAM when it is much, or needed, or the host pauses.
    fn decide_to_append(&mut self, cx: &mut Cx<'_>) {
        let waiting = self.dram.waiting;
        if waiting == 0 {
            self.flushing = false;
            return;
        }
        let wanted = !self.wait_frames.is_empty() || self.has_drainers() || self.phase == Phase::Closing;
        self.flushing |= wanted || waiting > self.policy.flush_pages;
        if !self.flushing && !self.idle_timer {
            self.idle_timer = true;
            cx.wake_at(IDLE, self.last_request + self.policy.flush_idle);
        }
    }

    fn idle_is_over(&mut self, cx: &mut Cx<'_>) {
        self.idle_timer = false;
        if self.last_request + self.policy.flush_idle <= cx.now {
            self.flushing = self.dram.waiting > 0;
        }
        self.stir = true;
    }

    /// The end: DRAM is appended and proven, collections have stopped, and the last answers have come.
    fn close_at_last(&mut self, cx: &mut Cx<'_>) {
        let is_over = self.opening.close_is_due || self.is_parked();
        if self.phase != Phase::Closing || self.in_flight > 0 || !is_over {
            return;
        }
        self.drop_work(ErrorKind::Gone, cx);
        self.opening.close_is_due = false;
        self.dram.close(cx.pool);
        cx.cancel_wake(IDLE);
        cx.cancel_wake(REOPEN);
        self.phase = Phase::Closed;
        cx.closed();
    }
}

/// A failure of a whole request.
pub(crate) fn whole(kind: ErrorKind) -> nandu_base::IoError {
    nandu_base::IoError { kind, at: ByteLen::ZERO, len: ByteLen::ZERO }
}

impl Machine for Hybrid {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn keeps_records(&self) -> bool {
        true
    }

    fn open(&mut self, how: OpenHow, cx: &mut Cx<'_>) -> Step {
        if let Some(k) = (0..cx.peek.children()).find(|&k| !cx.peek.is_open(k as u8)) {
            cx.opened(Err(OpenError::Child(k as u8)));
            return Step::Idle;
        }
        self.phase = Phase::Opening;
        self.gone.fill(false);
        self.opening.is_first = true;
        self.start_open(how, cx);
        Step::Idle
    }

    fn close(&mut self, cx: &mut Cx<'_>) -> Step {
        self.opening.close_is_due = self.phase != Phase::Running;
        if self.opening.close_is_due {
            // A start that is under way is given up.
            self.begin_epoch();
            self.opening.abandon(cx.pool);
        }
        self.phase = Phase::Closing;
        self.begin_close();
        self.stir = true;
        self.advance(cx);
        Step::Idle
    }

    fn request(&mut self, id: ReqId, cx: &mut Cx<'_>) -> Step {
        if self.phase != Phase::Running {
            return cx.fail(id, ErrorKind::Gone);
        }
        if cx.requests[id].op == Op::Reset {
            return cx.fail(id, ErrorKind::Unsupported);
        }
        self.last_request = cx.now;
        self.stir |= cx.requests[id].op != Op::Read;
        self.admit(id, cx);
        self.advance(cx);
        only_step(cx)
    }

    fn child_done(&mut self, id: ReqId, cx: &mut Cx<'_>) -> Step {
        self.in_flight -= 1;
        let request = &cx.requests[id];
        let (cookie, failed) = (request.cookie, request.error.is_some());
        let (tag, epoch, index) = (TAGS[(cookie >> 56) as usize], (cookie >> 32) as u16, cookie as u32);
        self.stir = true;
        if epoch == self.epoch {
            match tag {
                Tag::Header | Tag::Data => self.group_part_done(index as usize, tag, failed, cx),
                Tag::Prepare => self.unit_prepared(index as usize, failed, cx),
                Tag::Load => self.load_done(index, id, cx),
                Tag::Collect => self.collect_read(index as usize, failed, cx),
                Tag::Demote => self.demoted(index as usize, failed, cx),
                Tag::DemoteFlush => self.batch_flushed(index as usize, failed, cx),
                Tag::Erase | Tag::EraseFlush => {
                    self.erased(index as usize, tag == Tag::EraseFlush, failed, cx);
                }
                Tag::Commit => self.commit_flushed(failed, cx),
                Tag::Bypass => self.bypass_done(index, id, cx),
                Tag::Record => self.record_done(id, cx),
            }
        }
        if self.in_flight == 0 && self.phase == Phase::Failed && !self.opening.is_first {
            self.try_reopen(cx);
        }
        self.advance(cx);
        only_step(cx)
    }

    fn timer(&mut self, key: TimerKey, cx: &mut Cx<'_>) -> Step {
        match key {
            IDLE => self.idle_is_over(cx),
            _ => self.try_reopen(cx),
        }
        self.advance(cx);
        only_step(cx)
    }

    fn child_event(&mut self, child: u8, event: DeviceEvent, cx: &mut Cx<'_>) -> Step {
        match event {
            DeviceEvent::Lost => {
                self.gone[usize::from(child)] = true;
                self.was_lost = true;
                if self.phase == Phase::Opening {
                    self.open_failed(OpenError::Child(child), cx);
                } else {
                    self.fail(ErrorKind::Gone, cx);
                }
            }
            DeviceEvent::Back => {
                // What it held in volatile memory is gone, whether or not it said so.
                self.fail(ErrorKind::Gone, cx);
                self.gone[usize::from(child)] = false;
                self.was_lost = true;
                if !self.opening.is_first {
                    self.try_reopen(cx);
                }
            }
            DeviceEvent::Standby(stands) if child == self.disk => {
                self.disk_stands = stands;
                self.stir = true;
            }
            DeviceEvent::Standby(_) | DeviceEvent::GcPressure(_) | DeviceEvent::Resized(_) => {}
        }
        self.advance(cx);
        only_step(cx)
    }

    fn used(&mut self, offset: ByteOffset, len: ByteLen) -> Option<(u8, ByteOffset)> {
        if self.phase == Phase::Running {
            self.note_use(offset, len);
        }
        None
    }

    fn expected_latency(&self, op: Op, offset: ByteOffset, len: ByteLen, peek: &Peek<'_>) -> Span {
        if op != Op::Read || len == ByteLen::ZERO {
            return Span::ZERO;
        }
        let page = (offset.0 / self.page) as u32;
        if self.dram.find(page).is_some() {
            return Span::ZERO;
        }
        let (child, at) = self.source(page);
        peek.expected_latency(child, op, at, ByteLen(self.page))
    }

    fn is_busy(&self, _peek: &Peek<'_>) -> bool {
        !self.wait_frames.is_empty()
    }

    fn counters(&self, out: &mut Vec<Counter>) {
        self.put_figures(out);
    }

    fn reset_counters(&mut self) {
        self.count = Counts::default();
    }

    fn check(&self) -> Result<(), Violation> {
        if self.phase != Phase::Running {
            return Ok(());
        }
        let broken = |what: &str| Err(Violation { invariant: "I-12", what: what.into() });
        for ring in &self.rings {
            if ring.used > ring.shape.units || ring.start >= ring.shape.units {
                return broken("the units in use are more than the ring has");
            }
        }
        if !self.dram.is_sound() {
            return broken("a frame that waits to be appended is not in the row, or one that does not is");
        }
        if !self.promotes_only_used() {
            let what = "a page that was only read ahead is on its way to the top ring".into();
            return Err(Violation { invariant: "unused_not_promoted", what });
        }
        let unit_in_use = |unit: u32| {
            let ring = usize::from(self.rings.len() > 1 && unit >= self.rings[1].shape.unit_base);
            self.rings[ring].is_used(unit - self.rings[ring].shape.unit_base)
        };
        let in_use = |slot: u32| {
            let ring = &self.rings[self.ring_of_slot(slot)];
            ring.is_used(ring.shape.unit_of(slot))
        };
        self.map.check(in_use, unit_in_use)
    }
}

/// A single effect is better returned: the driver follows it without its queue.
#[inline]
fn only_step(cx: &mut Cx<'_>) -> Step {
    match cx.effects[..] {
        [Effect::Step(step)] => {
            cx.effects.clear();
            step
        }
        _ => Step::Idle,
    }
}
