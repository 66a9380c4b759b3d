//! Grow: the legs have become longer, and the mirror serves more from now on.
//!
//! The records of a leg lie at its end, so they move ([`crate::member::moved`] tells which of two places counts after a cut).
//!
//! 1. *Quiet.* New requests wait. What is under way ends, both legs flush, and every mark is cleared: the maps are empty.
//! 2. *New records.* At the new end of each leg the place of the records is zeroed and flushed. Then the map is written: D and L for
//!    every new region, unless what is new reads the same on both legs, and for the region with the old records, which differ. Then, when
//!    that is durable, the superblock. It says Opening, under a fresh generation with the one in force as its base, and the new size.
//!    Until both are durable the old records count: a leg that is lost, or that does not take its new records, ends the growth, and the
//!    mirror serves what it did.
//! 3. *Old records.* The old ones are zeroed: the superblocks when the rest is durably gone, so that a start after a cut knows where something is
//!    left. A leg that is lost from here on is left out, and the other one goes on alone.
//! 4. *Opening.* The mirror is opened anew at its new size, in two phases as always. Requests that waited are served, and what is
//!    new is resynced from the leader.
//!
//! A leg that became no longer, because it was the longer one already, keeps its records. Cost: two zeroed extents and one map for each leg,
//! while requests wait.

use super::layout::{Layout, PAGE, State, Superblock, encode_superblock};
use super::leg::Leg;
use super::member::Proc;
use super::region_map::{Bits, D, L, LegMap};
use super::work::Ready;
use super::{MAX_LEGS, Mirror, Phase, Tag, least};
use crate::member::set::Set;
use crate::member::set::refuse;
use nandu_base::{
    AdminError, ByteLen, ByteOffset, Cx, DeviceEvent, Draft, ErrorKind, Flags, Instant, Notice, Op,
    OpenOptions, Payload, ReqId,
};
use std::collections::VecDeque;

/// Steps of a growth.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum GrowStep {
    /// 1: what is under way ends.
    Drain,
    /// 1: all of it is flushed.
    Flush,
    /// 1: every mark is cleared.
    Clear,
    /// 1: durably.
    Map,
    /// 2 and 3: what is written in this stage.
    Write(Stage),
    /// 2 and 3: it is flushed.
    Written(Stage),
}

/// What is written, in this order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stage {
    /// The place of the new records is zeroed.
    Wipe,
    /// The pages of the map.
    Pages,
    /// The superblock.
    Record,
    /// The old records but for the superblocks are zeroed.
    OldMap,
    /// The old superblocks are zeroed.
    Erase,
}

/// What is to become of the mirror.
struct Plan {
    layouts: Vec<Layout>,
    capacity: ByteLen,
    maps: Vec<LegMap>,
    records: Vec<Superblock>,
    /// Pieces of this stage that each leg was sent.
    sent: [u32; MAX_LEGS],
    /// Whether one of them is under way.
    flies: [bool; MAX_LEGS],
}

/// A growth, and those who wait for its end.
#[derive(Default)]
pub(super) struct Growing {
    is_on: bool,
    plan: Option<Plan>,
    is_equal: bool,
    waits: VecDeque<ReqId>,
    /// Writes of a growth that are not back, be it over.
    flying: u32,
}

impl Growing {
    /// A request waits.
    pub(super) fn hold(&mut self, id: ReqId) {
        self.waits.push_back(id);
    }
}

impl Mirror {
    /// A request of a client begins.
    pub(super) fn begin_request(&mut self, id: ReqId, cx: &mut Cx<'_>) {
        let request = &cx.requests[id];
        match request.op {
            Op::Reset => {
                cx.requests[id].fail(ErrorKind::Unsupported);
                cx.finish(id);
            }
            Op::Flush => self.client_flush(id, cx),
            _ if request.len == ByteLen::ZERO => cx.finish(id),
            _ if self.policy.serial => {
                self.op_queue.push_back(id);
                self.work.add(Ready::Serial);
            }
            _ => drop(self.admit(id, cx)),
        }
    }

    pub(super) fn is_growing(&self) -> bool {
        self.growing.is_on
    }

    /// Where records will lie, and how much is served then.
    fn room(&self, cx: &Cx<'_>) -> (Vec<Layout>, ByteLen) {
        let mut layouts = self.layouts.clone();
        for (leg, layout) in layouts.iter_mut().enumerate() {
            let next = Layout::of(cx.peek.limits(leg as u8).capacity, self.shift);
            // Neither set of records may lie in the other.
            if let Some(next) = next.filter(|next| next.map >= layout.slots[1] + PAGE) {
                *layout = next;
            }
        }
        let capacity = least(&layouts);
        (layouts, capacity)
    }

    pub(super) fn ask_grow(&mut self, is_equal: bool, cx: &mut Cx<'_>) -> Result<(), AdminError> {
        if !self.is_whole() || self.lacks_some() || self.proc != Proc::None || !self.lost.is_empty() {
            let why = "the legs are not equal";
            return refuse(why, "wait until it is healthy");
        }
        if self.scrub.course.pass.is_some() {
            return refuse("a scrub is under way", "wait for its end, or say `scrub DEVICE stop`");
        }
        let (_, capacity) = self.room(cx);
        if capacity <= self.limits.capacity {
            let why = format!("its legs have room for {capacity}, and so much is served");
            return refuse(why, "make all legs longer first, by more than their records take");
        }
        (self.growing.is_on, self.growing.is_equal) = (true, is_equal);
        self.swap = None;
        self.proc = Proc::Grow(GrowStep::Drain);
        self.stir();
        Ok(())
    }

    pub(super) fn run_grow(&mut self, step: GrowStep, cx: &mut Cx<'_>) -> bool {
        let next = match step {
            GrowStep::Drain
                if self.growing.flying == 0
                    && self.ops_alive() == 0
                    && self.op_queue.is_empty()
                    && self.flushes.is_empty()
                    && self.repairs.is_empty()
                    && self.heals.is_empty()
                    && !self.is_clearing() =>
            {
                self.stop_copies(cx);
                (0..self.legs.len()).for_each(|leg| self.await_cover(leg, cx));
                GrowStep::Flush
            }
            GrowStep::Flush if self.legs.iter().all(Leg::is_covered) => {
                self.start_clear(Instant::MAX, cx);
                GrowStep::Clear
            }
            GrowStep::Clear if !self.is_clearing() => GrowStep::Map,
            GrowStep::Map if self.legs.iter().all(|l| l.map_is_settled() && l.sb_is_settled()) => {
                if !self.plan_growth(cx) {
                    self.stop_growing(cx);
                    return true;
                }
                GrowStep::Write(Stage::Wipe)
            }
            GrowStep::Write(stage) if self.is_written(stage) => {
                for leg in 0..self.legs.len() {
                    if self.legs[leg].is_in() {
                        self.flush_anew(leg, cx);
                    }
                }
                GrowStep::Written(stage)
            }
            GrowStep::Write(stage) => return self.write_stage(stage, cx),
            GrowStep::Written(stage) if self.all_in(Leg::is_covered) => {
                let old_first = self.planted.old_records_first;
                match stage {
                    Stage::Wipe if old_first => self.begin_stage(Stage::OldMap),
                    Stage::Wipe => self.begin_stage(Stage::Pages),
                    Stage::Pages => self.begin_stage(Stage::Record),
                    Stage::Record if !old_first => self.begin_stage(Stage::OldMap),
                    Stage::OldMap => self.begin_stage(Stage::Erase),
                    Stage::Erase if old_first => self.begin_stage(Stage::Pages),
                    Stage::Record | Stage::Erase => {
                        self.open_larger();
                        return true;
                    }
                }
            }
            _ => return false,
        };
        self.proc = Proc::Grow(next);
        true
    }

    fn begin_stage(&mut self, stage: Stage) -> GrowStep {
        if let Some(plan) = &mut self.growing.plan {
            plan.sent = [0; MAX_LEGS];
        }
        if stage == Stage::OldMap && !self.planted.old_records_first {
            self.phase = Phase::Growing;
        }
        GrowStep::Write(stage)
    }

    /// What the new records say. False: the legs have changed again, and there is nothing to gain.
    fn plan_growth(&mut self, cx: &Cx<'_>) -> bool {
        let (layouts, capacity) = self.room(cx);
        let was = self.limits.capacity;
        if capacity <= was {
            return false;
        }
        let y = self.leader;
        let before = self.legs[y].sb.generation;
        let fresh = self.fresh_gen(y, State::Opening, cx.now);
        let regions = capacity.0.div_ceil(1 << self.shift) as u32;
        let old_ends = self.layouts.iter().map(|layout| layout.slots[1] + PAGE);
        let unequal_end =
            if self.growing.is_equal { old_ends.max().unwrap_or(was.0).min(capacity.0) } else { capacity.0 };
        let record = |leg: usize| {
            let (layout, mut sb) = (&layouts[leg], self.legs[leg].sb);
            sb.begin_opening(fresh, before, self.legs[y].sb.history);
            (sb.leg_bytes, sb.map, sb.lost) = (layout.leg.0, layout.map, layout.lost);
            (sb.served, sb.clean, sb.seq) = (capacity.0, false, sb.seq + 1);
            sb
        };
        let records = (0..self.legs.len()).map(record).collect();
        let map = |leg: usize| {
            let mut map = LegMap::new(layouts[leg].pages, regions);
            map.touch_all();
            let bits = if leg == y { D } else { D | L };
            self.regions_of(was.0, unequal_end).for_each(|region| map.put(region, bits));
            map
        };
        let maps = (0..self.legs.len()).map(map).collect();
        let (sent, flies) = ([0; MAX_LEGS], [false; MAX_LEGS]);
        self.growing.plan = Some(Plan { layouts, capacity, maps, records, sent, flies });
        true
    }

    fn moves(&self, leg: usize) -> bool {
        let plan = self.growing.plan.as_ref();
        plan.is_some_and(|plan| plan.layouts[leg].leg != self.layouts[leg].leg)
    }

    /// Pieces of a stage on a leg.
    fn pieces(&self, leg: usize, stage: Stage) -> u32 {
        let Some(plan) = self.growing.plan.as_ref().filter(|_| self.moves(leg)) else { return 0 };
        let zeroed = |layout: &Layout| (layout.lost + 2 * PAGE - layout.map).div_ceil(self.chunk) as u32;
        match stage {
            Stage::Wipe => zeroed(&plan.layouts[leg]) + 2,
            Stage::Pages => plan.layouts[leg].pages,
            Stage::Record => 1,
            Stage::OldMap => zeroed(&self.layouts[leg]),
            Stage::Erase => 2,
        }
    }

    fn is_written(&self, stage: Stage) -> bool {
        let Some(plan) = &self.growing.plan else { return false };
        (0..self.legs.len()).all(|leg| {
            !self.legs[leg].is_in() || !plan.flies[leg] && plan.sent[leg] == self.pieces(leg, stage)
        })
    }

    /// Sends each leg its next piece, one at a time.
    fn write_stage(&mut self, stage: Stage, cx: &mut Cx<'_>) -> bool {
        let mut any = false;
        for leg in 0..self.legs.len() {
            let pieces = self.pieces(leg, stage);
            let Some(plan) = &mut self.growing.plan else { return false };
            let n = plan.sent[leg];
            if !self.legs[leg].is_in() || plan.flies[leg] || n == pieces {
                continue;
            }
            (plan.sent[leg], plan.flies[leg], any) = (n + 1, true, true);
            let layout = match stage {
                Stage::OldMap | Stage::Erase => &self.layouts[leg],
                Stage::Wipe | Stage::Pages | Stage::Record => &plan.layouts[leg],
            };
            let zero = |at: u64, len: u64| (Op::WriteZeroes, at, len, Payload::NONE);
            let (op, at, len, payload) = match stage {
                Stage::Wipe | Stage::Erase if n + 2 >= pieces => {
                    zero(layout.slots[(pieces - n - 1) as usize], PAGE)
                }
                Stage::Wipe | Stage::OldMap | Stage::Erase => {
                    let at = layout.map + u64::from(n) * self.chunk;
                    zero(at, self.chunk.min(layout.lost + 2 * PAGE - at))
                }
                Stage::Pages => {
                    plan.maps[leg].begin(1);
                    let payload = cx.pool.allocate_metadata(ByteLen(PAGE));
                    let out = cx.pool.bytes_mut(payload, ByteLen(PAGE));
                    let page = plan.maps[leg].batch()[0];
                    let slot = plan.maps[leg].encode(page, plan.records[leg].set[0], false, out);
                    (Op::Write, layout.page(page, slot).0, PAGE, payload)
                }
                Stage::Record => {
                    let payload = cx.pool.allocate_metadata(ByteLen(PAGE));
                    encode_superblock(&plan.records[leg], cx.pool.bytes_mut(payload, ByteLen(PAGE)));
                    (Op::Write, layout.slots[0], PAGE, payload)
                }
            };
            self.growing.flying += 1;
            let (flags, cookie) = (Flags::NONE, Tag::Grow.cookie(leg, 0));
            let draft = Draft { op, flags, offset: ByteOffset(at), len: ByteLen(len), payload, cookie };
            self.send(leg, ReqId::NONE, draft, cx);
            cx.pool.release(payload); // the request holds it
        }
        any
    }

    /// A piece was written or not.
    pub(super) fn grow_done(&mut self, id: ReqId, leg: usize, cx: &mut Cx<'_>) {
        self.stir();
        self.growing.flying -= 1;
        if self.legs[leg].is_in() {
            self.legs[leg].wrote();
        }
        let Some(plan) = &mut self.growing.plan else { return };
        plan.flies[leg] = false;
        if let Proc::Grow(GrowStep::Write(Stage::Pages)) = self.proc {
            plan.maps[leg].finish();
        }
        match cx.requests[id].error {
            Some(error) if error.kind == ErrorKind::Gone || self.phase == Phase::Growing => {
                self.leave(leg, cx);
            }
            // It does not take its new records; its old ones stand.
            Some(_) => self.stop_growing(cx),
            None => {}
        }
    }

    /// Both legs have their new records: from here on only these count.
    fn open_larger(&mut self) {
        if let Some(plan) = self.growing.plan.take() {
            let regions = plan.capacity.0.div_ceil(1 << self.shift) as u32;
            for leg in (0..self.legs.len()).filter(|&leg| plan.layouts[leg] != self.layouts[leg]) {
                self.legs[leg].move_records(&plan.layouts[leg], regions, plan.records[leg]);
            }
            (self.layouts, self.limits.capacity) = (plan.layouts, plan.capacity);
            self.region_count = regions;
            self.stale.iter_mut().for_each(|stale| *stale = Bits::new(regions));
        }
        self.phase = Phase::Growing;
        self.start_open();
    }

    /// A leg was lost since the old records began to go: the other one goes on.
    pub(super) fn grow_without(&mut self) {
        self.how = OpenOptions { alone: true, ..self.how };
        if self.growing.plan.is_none() || self.legs.iter().all(|leg| !leg.is_in()) {
            self.open_larger();
        }
    }

    /// The mirror is open at its new size.
    pub(super) fn grown(&mut self, cx: &mut Cx<'_>) {
        self.how.alone = false;
        self.count.growths += 1;
        let capacity = self.limits.capacity;
        cx.event(DeviceEvent::Resized(capacity));
        cx.event(DeviceEvent::Notice(Notice::Grown(capacity)));
        self.go_on_after_growth(cx);
    }

    /// No leg is there to open it at its new size. Its records have moved all the same.
    pub(super) fn grown_in_vain(&mut self, cx: &mut Cx<'_>) {
        self.how.alone = false;
        self.phase = Phase::Failed;
        let capacity = self.limits.capacity;
        cx.event(DeviceEvent::Resized(capacity));
        cx.event(DeviceEvent::Notice(Notice::Grown(capacity)));
        self.go_on_after_growth(cx);
        cx.event(DeviceEvent::Lost);
    }

    /// Ends a growth whose new records are not in force: the old ones are.
    pub(super) fn stop_growing(&mut self, cx: &mut Cx<'_>) {
        if !self.growing.is_on {
            return;
        }
        self.growing.plan = None;
        if matches!(self.proc, Proc::Grow(_)) {
            self.proc = Proc::None;
        }
        cx.event(DeviceEvent::Notice(Notice::NotGrown));
        self.go_on_after_growth(cx);
    }

    fn go_on_after_growth(&mut self, cx: &mut Cx<'_>) {
        self.stir();
        self.growing.is_on = false;
        for id in std::mem::take(&mut self.growing.waits) {
            match self.phase {
                Phase::Running | Phase::Closing => self.begin_request(id, cx),
                _ => {
                    cx.requests[id].fail(ErrorKind::Gone);
                    cx.finish(id);
                }
            }
        }
    }
}
