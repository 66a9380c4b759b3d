//! The mirror as a machine: what the driver calls.

use super::layout::PAGE;
use super::member::Proc;
use super::policy::Ack;
use super::region_map::D;
use super::work::Ready;
use super::{CLEAR, EXPOSE, HEDGE, Mirror, Phase, REST, SCRUB, STALL, Tag, WAIT};
use crate::member::set::{Seat, Set};
use crate::member::work::Worker;
use nandu_base::{
    Absence, Admin, AdminError, Administer, Advise, ByteLen, ByteOffset, ChildUse, Children, Cx, DeviceEvent,
    ErrorKind, Health, Limits, Machine, Maintenance, MaintenanceKind, Members, Needs, Op, OpenOptions, Peek,
    Place, Redundancy, Report, ReqId, Span, Step, TimerKey, Violation,
};

impl Machine for Mirror {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn needs(&self) -> Needs {
        // A leg that is late has not answered.
        Needs { answers_from_below: self.policy.ack == Ack::Both, ..Needs::records() }
    }

    fn open(&mut self, how: OpenOptions, cx: &mut Cx<'_>) -> Step {
        self.how = how;
        self.phase = Phase::Opening;
        self.roster.iter_mut().for_each(Seat::begin);
        self.start_open();
        self.advance(cx);
        cx.only_step()
    }

    fn close(&mut self, cx: &mut Cx<'_>) -> Step {
        self.start_close(cx);
        self.advance(cx);
        cx.only_step()
    }

    fn request(&mut self, id: ReqId, cx: &mut Cx<'_>) -> Step {
        if self.is_growing() {
            self.growing.hold(id);
            return Step::Idle;
        }
        if self.phase != Phase::Running {
            return cx.fail(id, ErrorKind::Gone);
        }
        self.begin_request(id, cx);
        self.advance(cx);
        cx.only_step()
    }

    fn child_done(&mut self, id: ReqId, cx: &mut Cx<'_>) -> Step {
        let request = &cx.requests[id];
        let (tag, leg, index) = Tag::of(request.cookie);
        let failed = request.error.is_some();
        let is_last = self.roster.returned(leg);
        self.legs[leg].silent = false;
        self.came_back(leg, tag, cx);
        match tag {
            Tag::Data => self.data_done(id, leg, index, cx),
            Tag::Flush => {
                self.flush_done(leg, failed, cx);
                self.answer_flushes(id, cx);
            }
            Tag::MapWrite | Tag::SbWrite => self.record_written(id, leg, tag == Tag::SbWrite, index, cx),
            Tag::Drain => self.drain_done(id, leg, index, cx),
            Tag::Grow => self.grow_done(id, leg, cx),
            Tag::MapRead | Tag::SbRead => self.record_read(id, leg, tag == Tag::SbRead, index, cx),
        }
        if is_last && !self.legs[leg].is_in() {
            self.work.add(Ready::Records); // the last straggler
        }
        self.advance(cx);
        cx.only_step()
    }

    fn timer(&mut self, key: TimerKey, cx: &mut Cx<'_>) -> Step {
        match key {
            CLEAR => self.clear_timer(cx),
            WAIT => self.limit_timer(cx),
            REST => self.work.add(Ready::Drain),
            HEDGE => self.hedge_timer(cx),
            SCRUB => self.scrub_timer(),
            EXPOSE => self.exposure_timer(),
            STALL => self.look_for_stalls(cx),
            _ => self.resync_timer(),
        }
        self.advance(cx);
        cx.only_step()
    }

    fn child_event(&mut self, child: u8, event: DeviceEvent, cx: &mut Cx<'_>) -> Step {
        let leg = usize::from(child);
        match self.heard(leg, event, cx) {
            Some(DeviceEvent::GcPressure(on)) => self.paces[leg].pressed = on,
            Some(DeviceEvent::Standby(stands)) => self.note_standing(leg, stands),
            _ => {}
        }
        self.advance(cx);
        cx.only_step()
    }

    #[inline]
    fn prepare(&self, _op: Op, offset: ByteOffset, _len: ByteLen) -> Option<(u8, ByteOffset)> {
        Some((self.leader as u8, offset))
    }

    fn report(&mut self, report: &mut Report) {
        self.put_figures(report);
    }

    fn check(&self) -> Result<(), Violation> {
        let broken = |invariant, what: String| Err(Violation { invariant, what });
        if self.phase != Phase::Running || self.proc != Proc::None {
            return Ok(());
        }
        if self.exposure.bytes > self.policy.exposed_bytes {
            let (bytes, most) = (self.exposure.bytes, self.policy.exposed_bytes);
            return broken(
                "exposure_bounded_or_announced",
                format!("{bytes} B are exposed, at most {most} B may be"),
            );
        }
        if self.held_too_long() {
            let what = "the queue of a leg that may rest was kept past the bound".into();
            return broken("exposure_bounded_or_announced", what);
        }
        let map = &self.legs[self.leader].map;
        for region in 0..self.region_count {
            let (active, stale) = (self.regions.find(region).is_some(), self.is_stale(region));
            let marked = map.wanted(region) & D != 0;
            if stale && !marked {
                return broken("intent_before_data", format!("region {region} is stale without D"));
            }
            if marked && !active && !stale {
                return broken("quiet_means_equal_and_clean", format!("region {region} has D for no reason"));
            }
        }
        let flying: u32 = self.ops.iter().map(|op| u32::from(op.flying)).sum();
        let data: u32 = self.legs.iter().map(|l| l.reads + l.data_writes - l.drains).sum();
        if flying != data {
            return broken(
                "one_in_flight_per_block_and_leg",
                format!("{flying} parts are under way, {data} requests"),
            );
        }
        Ok(())
    }

    fn advise(&self) -> Option<&dyn Advise> {
        Some(self)
    }

    fn members(&self) -> Option<&dyn Members> {
        Some(self)
    }

    fn administer(&mut self) -> Option<&mut dyn Administer> {
        Some(self)
    }
}

impl Advise for Mirror {
    fn expected_latency(&self, op: Op, offset: ByteOffset, len: ByteLen, peek: &Peek<'_>) -> Span {
        let legs = (0..self.legs.len() as u8).filter(|&l| self.legs[usize::from(l)].is_in());
        let spans = legs.map(|l| peek.expected_latency(l, op, offset, len));
        let span = if op == Op::Read { spans.min() } else { spans.max() };
        span.unwrap_or(Span::ZERO)
    }

    fn is_busy(&self, peek: &Peek<'_>) -> bool {
        self.is_held()
            || (0..self.legs.len() as u8)
                .filter(|&l| self.legs[usize::from(l)].is_in())
                .all(|l| peek.is_busy(l))
    }

    fn locate(&self, offset: ByteOffset, len: ByteLen, peek: &Peek<'_>) -> Option<Place> {
        peek.locate(self.leader as u8, offset, len)
    }
}

impl Members for Mirror {
    fn left_over(&self, child: u8, _below: &Limits) -> ByteLen {
        let layout = &self.layouts[usize::from(child)];
        ByteLen(layout.data.0 - self.limits.capacity.0 + layout.leg.0 % PAGE)
    }

    fn health(&self) -> Option<Health> {
        self.standing()
    }

    fn redundancy(&self) -> Option<Redundancy> {
        let (c, leads) = (&self.count, |leg| leg == self.leader);
        let count = self.legs.len();
        let lacks_nothing = |leg| self.is_member(leg) && (leads(leg) || self.stale[leg].count() == 0);
        let complete = Children::of(count, lacks_nothing);
        let absence = match complete.count() as usize == count {
            true => Absence::Follower { leader: self.leader as u8 },
            false => Absence::None,
        };
        let is_marked = self.lacks_some() || self.legs[self.leader].map.count_d() > 0;
        Some(Redundancy {
            enough: 1,
            complete,
            // A leg that is too far behind for its limits goes on alone too.
            shaken: c.swaps > 0 || c.timeouts.iter().any(|&n| n > 0) || c.degrades > 0,
            settles: true,
            absence,
            in_order: true,
            at_rest: self.is_whole() && !is_marked,
            departures: c.solos,
            ..Redundancy::none(count)
        })
    }

    fn maintenance(&self, out: &mut Vec<Maintenance>) {
        let of = self.limits.capacity;
        let lacking = self.lacking().map(|leg| self.stale[leg].count()).max().unwrap_or(0) << self.shift;
        if lacking > 0 {
            out.push(Maintenance { kind: MaintenanceKind::Resync, left: ByteLen(lacking.min(of.0)), of });
        }
        out.extend(self.scrub.course.maintenance(of));
    }

    fn child_use(&self, child: u8) -> Option<ChildUse> {
        Some(self.use_of(usize::from(child)))
    }

    fn needs_child(&self, child: u8) -> bool {
        let x = usize::from(child);
        self.phase == Phase::Running && self.is_member(x) && !self.can_do_without(x)
    }
}

impl Administer for Mirror {
    fn admin(&mut self, admin: Admin, cx: &mut Cx<'_>) -> Result<(), AdminError> {
        let result = self.obey(admin, cx);
        self.advance(cx);
        result
    }
}
