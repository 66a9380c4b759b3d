//! The hybrid disk as a machine: what the driver calls.

use crate::machine::{Hybrid, IDLE, Phase, TAGS, Tag};
use crate::region_map::ranges;
use nandu_base::{
    Absence, Admin, AdminError, Administer, Advise, ByteLen, ByteOffset, ChildUse, Children, Cx, DeviceEvent,
    ErrorKind, Health, Hints, Limits, Machine, Members, Needs, Op, OpenError, OpenOptions, Peek, RamPower,
    Redundancy, Report, ReqId, Span, Step, TimerKey, Violation,
};

impl Machine for Hybrid {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn needs(&self) -> Needs {
        Needs::records()
    }

    fn open(&mut self, how: OpenOptions, cx: &mut Cx<'_>) -> Step {
        let is_gone = |k: u8| !cx.peek.is_open(k);
        let may_lack = |k: u8| self.is_spare(k) || k != self.disk && self.may_lose_rings();
        if let Some(k) = (0..=self.disk).find(|&k| is_gone(k) && !may_lack(k)) {
            cx.opened(Err(OpenError::Child(k)));
            return Step::Idle;
        }
        self.phase = Phase::Opening;
        self.gone = (0..=self.disk).map(is_gone).collect();
        if let Some(through) = &mut self.through {
            through.create = how.create;
        }
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
        if self.joins() {
            (0..self.disk).for_each(|child| self.begin_epoch_of(child));
            self.phase = Phase::Closing;
            self.end_join(cx);
        }
        self.phase = Phase::Closing;
        self.begin_close();
        self.made_progress = true;
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
        self.made_progress |= cx.requests[id].op != Op::Read;
        self.admit(id, cx);
        self.advance(cx);
        cx.only_step()
    }

    fn child_done(&mut self, id: ReqId, cx: &mut Cx<'_>) -> Step {
        self.in_flight -= 1;
        let request = &cx.requests[id];
        let (child, cookie, failed) = (request.child, request.cookie, request.error.is_some());
        let is_gone = request.error.is_some_and(|error| error.kind == ErrorKind::Gone);
        self.heard_gone |= is_gone && !self.is_spare(child);
        let (tag, epoch, index) = (TAGS[(cookie >> 56) as usize], (cookie >> 32) as u16, cookie as u32);
        self.made_progress = true;
        if epoch == self.epochs[usize::from(child)] {
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
                Tag::Commit => self.commit_flushed(child, failed, cx),
                Tag::Bypass => self.bypass_done(index, id, cx),
                Tag::Record => self.record_done(id, cx),
                Tag::Destage => self.destage_done(index, failed, cx),
                Tag::Flush => self.disk_flushed(index, id, cx),
                Tag::Region => self.round_done(failed, cx),
                Tag::Drain => self.drained(index, failed, cx),
            }
        }
        if self.in_flight == 0 && self.phase == Phase::Failed && !self.opening.is_first {
            self.try_reopen(cx);
        }
        self.advance(cx);
        cx.only_step()
    }

    fn timer(&mut self, key: TimerKey, cx: &mut Cx<'_>) -> Step {
        match key {
            IDLE => self.idle_is_over(cx),
            _ => self.try_reopen(cx),
        }
        self.advance(cx);
        cx.only_step()
    }

    fn child_event(&mut self, child: u8, event: DeviceEvent, cx: &mut Cx<'_>) -> Step {
        match event {
            DeviceEvent::Lost if self.is_spare(child) => self.ring_lost(child, cx),
            DeviceEvent::Back if self.is_spare(child) => self.ring_back(child, cx),
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
                self.made_progress = true;
            }
            DeviceEvent::Standby(_)
            | DeviceEvent::GcPressure(_)
            | DeviceEvent::Resized(_)
            | DeviceEvent::Notice(_) => {}
        }
        self.advance(cx);
        cx.only_step()
    }

    fn report(&mut self, report: &mut Report) {
        if report.wants_counters() {
            self.put_figures(report);
        }
        // What the host wrote and what came from below went into the DRAM; what the host read and what was appended went out.
        report.energy(|from, to, out| {
            let time = Span(to.0.saturating_sub(from.0));
            let held = self.dram.frames.len() as u64 * self.page;
            RamPower::DDR3L.account(held, self.moved_in_dram(), time, out);
        });
        report.restart(&mut self.count);
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
        if !self.holds_only_copies() {
            let what = "DRAM or a ring has data that the disk does not have".into();
            return Err(Violation { invariant: "copies_only", what });
        }
        if !self.is_within_bound() {
            let (dirty, most) = (self.map.dirty(), self.policy.dirty_max);
            let what = format!("{dirty} pages of the rings are newer than the disk, {most} may be");
            return Err(Violation { invariant: "dirty_bounded", what });
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

    fn advise(&self) -> Option<&dyn Advise> {
        Some(self)
    }

    fn hints(&mut self) -> Option<&mut dyn Hints> {
        Some(self)
    }

    fn members(&self) -> Option<&dyn Members> {
        Some(self)
    }

    fn administer(&mut self) -> Option<&mut dyn Administer> {
        Some(self)
    }
}

impl Advise for Hybrid {
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
}

impl Hints for Hybrid {
    fn foresee(&mut self, _op: Op, _offset: ByteOffset, _len: ByteLen) -> Option<(u8, ByteOffset)> {
        None
    }

    fn used(&mut self, offset: ByteOffset, len: ByteLen) -> Option<(u8, ByteOffset)> {
        if self.phase == Phase::Running {
            self.note_use(offset, len);
        }
        None
    }
}

impl Members for Hybrid {
    fn left_over(&self, child: u8, below: &Limits) -> ByteLen {
        let unit = self.rings.get(usize::from(child)).map_or(self.page, |ring| ring.shape.unit_bytes());
        ByteLen(below.capacity.0 % unit)
    }

    fn health(&self) -> Option<Health> {
        match self.phase {
            Phase::Running if self.has_rings() => Some(Health::Healthy),
            Phase::Running => Some(Health::Degraded),
            Phase::Failed => Some(Health::Failed),
            _ => None,
        }
    }

    fn needs_child(&self, child: u8) -> bool {
        self.may_lose_rings() && self.phase == Phase::Running && (child == self.disk || self.has_rings())
    }

    /// It stands on the disk, and on its rings unless they hold copies only.
    fn redundancy(&self) -> Option<Redundancy> {
        let children = usize::from(self.disk) + 1;
        let disk = Children::first(children).without(Children::first(children - 1));
        let members = if self.is_through() { disk } else { Children::first(children) };
        let absence = match (self.is_through(), self.may_lose_rings()) {
            (true, _) => Absence::Copy,
            (false, true) => Absence::GivenUp,
            (false, false) => Absence::None,
        };
        let enough = members.count();
        let none = Redundancy::none(children);
        Some(Redundancy { members, enough, complete: members, settles: true, absence, ..none })
    }

    fn child_use(&self, child: u8) -> Option<ChildUse> {
        self.ring_use(child)
    }

    fn lost(&self, out: &mut Vec<(ByteOffset, ByteLen)>) {
        if let Some(regions) = &self.regions {
            let lost = ranges(&regions.lost.runs(), self.page, self.limits.capacity.0);
            out.extend(lost.into_iter().map(|(from, to)| (ByteOffset(from), ByteLen(to - from))));
        }
    }
}

impl Administer for Hybrid {
    fn admin(&mut self, admin: Admin, cx: &mut Cx<'_>) -> Result<(), AdminError> {
        let result = self.obey(admin, cx);
        self.advance(cx);
        result
    }
}
