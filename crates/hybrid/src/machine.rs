//! The machine: its state, its events, and what happens after each of them.

use crate::append::Writer;
use crate::bypass::Marks;
use crate::commit::Commit;
use crate::config::{CacheMode, Planted, Tiers};
use crate::destage::Destage;
use crate::dram::{Dram, Order};
use crate::figures::Counts;
use crate::gc::Collector;
use crate::host::HostOp;
use crate::load::Load;
use crate::map::Map;
use crate::open::Opening;
use crate::policy::below::Below;
use crate::policy::demotion::Demotion;
use crate::policy::promotion::Promotion;
use crate::policy::sequential::Streams;
use crate::region_map::Layout;
use crate::regions::Regions;
use crate::ring::{Ring, Shape};
use crate::through::Through;
use nandu_base::{
    BuildContext, ByteLen, ByteOffset, Cx, Draft, ErrorKind, Flags, Instant, Limits, Op, Payload, ReqId,
    Span, TenantId, TimerKey,
};
use std::collections::VecDeque;

pub(crate) const IDLE: TimerKey = TimerKey(0);
pub(crate) const REOPEN: TimerKey = TimerKey(1);

/// Choices that do not change.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Policy {
    /// Each change is durable before it is acknowledged.
    pub ack_durable: bool,
    /// Bytes; 0 for never.
    pub read_bypass: u64,
    pub write_bypass: u64,
    pub sequential_cutoff: u64,
    pub tiers: Tiers,
    pub cache_mode: CacheMode,
    /// Most pages that may be dirty in the rings; 0 for any.
    pub dirty_max: u32,
    pub write_back: Order,
    /// Frames that may wait before they are appended.
    pub flush_pages: u32,
    pub append_idle: Span,
    pub spin_aware: bool,
    pub disk_volatile: bool,
    /// The disk has a map of dirty regions.
    pub is_mapped: bool,
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
    /// A flush of the host, where that is one of the disk.
    Flush,
    Destage,
    /// A page of the map of dirty regions, and the flush behind it.
    Region,
    /// A frame of DRAM goes to the disk, for there are no rings.
    Drain,
}

pub(crate) const TAGS: [Tag; 16] = [
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
    Tag::Flush,
    Tag::Destage,
    Tag::Region,
    Tag::Drain,
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
    /// Of each child. Grows with each start, failure and departure: answers to older requests are not heard.
    pub epochs: Vec<u16>,
    pub in_flight: u32,
    pub gone: Vec<bool>,
    /// A child was lost since the last start.
    pub was_lost: bool,
    /// A child has said since the last start that it is gone, in an answer.
    pub heard_gone: bool,
    /// Service ended by another failure than the loss of a child.
    pub gave_up: bool,
    pub reopen_after: Span,
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
    pub destage: Destage,
    pub marks: Marks,
    /// Data of the host went to the disk since it was last flushed.
    pub disk_unflushed: bool,
    /// Pages of rings went to the disk since it was last flushed.
    pub demoted_unflushed: bool,
    pub disk_stands: bool,
    /// What waits in DRAM is to be appended.
    pub flushing: bool,
    pub last_request: Instant,
    pub idle_timer: bool,
    pub promotion: Box<dyn Promotion>,
    pub demotion: Box<dyn Demotion>,
    pub streams: Streams,
    /// Where it can do without rings: what it knows of them.
    pub through: Option<Through>,
    /// The map of dirty regions, where there is one.
    pub regions: Option<Regions>,
    pub below: Below,
    pub opening: Opening,
    /// Something changed that the pumps look at.
    pub made_progress: bool,
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
        layout: Option<Layout>,
        policy: Policy,
        promotion: Box<dyn Promotion>,
        demotion: Box<dyn Demotion>,
        planted: Planted,
        cx: &BuildContext<'_>,
    ) -> Hybrid {
        let pages = (limits.capacity.0 / page) as usize;
        let slots: u32 = shapes.iter().map(Shape::slots).sum();
        let name = cx.name.bytes().fold(0u64, |h, b| h.wrapping_mul(131).wrapping_add(u64::from(b)));
        let is_inclusive = policy.tiers == Tiers::Inclusive && shapes.len() > 1;
        let does_without = policy.cache_mode == CacheMode::Writethrough || layout.is_some();
        let above = if is_inclusive { shapes[0].slots() as usize } else { 0 };
        Hybrid {
            limits,
            page,
            disk: shapes.len() as u8,
            map: Map::new(pages, slots as usize, layout.map(|layout| layout.region_pages)),
            dram: Dram::new(frames, ByteLen(page), pages, policy.write_back, planted.forgets_age),
            rings: shapes.iter().map(|s| Ring::new(*s)).collect(),
            policy,
            planted,
            sizes,
            seed: cx.seed ^ name << 32,
            phase: Phase::Closed,
            set: 0,
            version: 1,
            epochs: vec![0; shapes.len() + 1],
            in_flight: 0,
            gone: vec![false; shapes.len() + 1],
            was_lost: false,
            heard_gone: false,
            gave_up: false,
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
            destage: Destage::default(),
            marks: Marks::default(),
            disk_unflushed: false,
            demoted_unflushed: false,
            disk_stands: false,
            flushing: false,
            last_request: Instant::ZERO,
            idle_timer: false,
            promotion,
            demotion,
            streams: Streams::new(policy.sequential_cutoff),
            through: does_without.then(|| Through::new(shapes.len())),
            regions: layout.map(Regions::new),
            below: Below::new(above, planted.stale_below),
            opening: Opening::default(),
            made_progress: false,
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
        (0..=self.disk).for_each(|child| self.begin_epoch_of(child));
    }

    /// The same of one child.
    pub fn begin_epoch_of(&mut self, child: u8) {
        let epoch = &mut self.epochs[usize::from(child)];
        *epoch = epoch.wrapping_add(1);
    }

    fn cookie(&self, child: u8, tag: Tag, index: u32) -> u64 {
        (tag as u64) << 56 | u64::from(self.epochs[usize::from(child)]) << 32 | u64::from(index)
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
        let cookie = self.cookie(child, tag, index);
        let flags = if matches!(tag, Tag::Load | Tag::Commit | Tag::Region) {
            Flags::NONE
        } else {
            Flags::BACKGROUND
        };
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
        let cookie = self.cookie(child, tag, index);
        let draft = Draft { op, flags: Flags::NONE, offset, len: ByteLen(len), payload, cookie };
        let id = cx.child(parent, draft);
        self.in_flight += 1;
        cx.send(child, id);
    }

    /// Does what events have made possible, until nothing more is.
    pub fn advance(&mut self, cx: &mut Cx<'_>) {
        while std::mem::take(&mut self.made_progress) {
            if !matches!(self.phase, Phase::Running | Phase::Closing) || self.opening.close_is_due {
                break;
            }
            self.take_rings_that_joined(cx);
            self.retry_frames(cx);
            self.retry_bypasses(cx);
            self.decide_to_append(cx);
            for ring in 0..self.rings.len() {
                if self.has_rings() {
                    self.pump_collector(ring, cx);
                }
                if self.has_rings() {
                    self.pump_writer(ring, cx);
                }
            }
            self.pump_destage(cx);
            self.pump_drain(cx);
            self.pump_regions(cx);
            self.pump_commit(cx);
            self.answer_durable(cx);
            self.pump_close();
        }
        self.close_at_last(cx);
    }

    /// Whether the host has sent nothing for long enough.
    pub fn pauses(&self, cx: &Cx<'_>) -> bool {
        self.last_request + self.policy.append_idle <= cx.now
    }

    /// Begins to append what waits in DRAM when it is much, or needed, or the host pauses.
    fn decide_to_append(&mut self, cx: &mut Cx<'_>) {
        let waiting = self.dram.waiting;
        if waiting == 0 {
            self.flushing = false;
            return;
        }
        let wanted = !self.wait_frames.is_empty() || self.has_drainers() || self.phase == Phase::Closing;
        // By age all is appended once it has begun, by use only what is too much: the rest may be written again before it goes.
        let goes_on = self.flushing && (self.policy.write_back == Order::Oldest || self.pauses(cx));
        self.flushing = wanted || waiting > self.policy.flush_pages || goes_on;
        if !self.flushing && !self.idle_timer {
            self.idle_timer = true;
            cx.wake_at(IDLE, self.last_request + self.policy.append_idle);
        }
    }

    pub fn idle_is_over(&mut self, cx: &mut Cx<'_>) {
        self.idle_timer = false;
        if self.pauses(cx) {
            self.flushing = self.dram.waiting > 0;
        }
        self.made_progress = true;
    }
}

/// A failure of a whole request.
pub(crate) fn whole(kind: ErrorKind) -> nandu_base::IoError {
    nandu_base::IoError { kind, at: ByteLen::ZERO, len: ByteLen::ZERO }
}
