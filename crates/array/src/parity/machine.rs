//! The array as a machine: what the driver calls.

use super::layout::PAGE;
use super::piece::{Answer, Kind, Phase, Piece};
use super::{NONE, Parity, Run, SCRUB, STALL, Tag, bits};
use crate::member::set::Set;
use crate::member::work::Worker;
use nandu_base::{
    Absence, Admin, AdminError, Administer, Advise, ByteLen, ByteOffset, ChildUse, Children, Cx, DeviceEvent,
    Health, Limits, Machine, Maintenance, MaintenanceKind, Members, Needs, Op, OpenOptions, Peek, Place,
    Redundancy, Report, ReqId, Span, Step, TimerKey, Violation,
};

impl Machine for Parity {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn needs(&self) -> Needs {
        Needs { answers_from_below: true, ..Needs::records() }
    }

    fn open(&mut self, how: OpenOptions, cx: &mut Cx<'_>) -> Step {
        self.how = how;
        self.run = Run::Opening;
        for seat in self.roster.iter_mut() {
            seat.begin();
            seat.replaced = false;
        }
        cx.cancel_wake(SCRUB);
        cx.cancel_wake(STALL);
        self.scrub.forget();
        self.roster.forget_stalls();
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
        if self.growing.holds() {
            self.growing.hold(id);
            return Step::Idle;
        }
        self.begin_request(id, cx);
        self.advance(cx);
        cx.only_step()
    }

    fn child_done(&mut self, id: ReqId, cx: &mut Cx<'_>) -> Step {
        let (tag, leg, index) = Tag::of(cx.requests[id].cookie);
        let answer = Answer::of(id, cx);
        let is_last = self.roster.returned(leg);
        if is_last && self.run != Run::Running || !self.legs[leg].is_in() {
            self.stir();
        }
        match tag {
            Tag::Part => self.part_done(answer, leg, index, cx),
            Tag::Flush => self.flush_part_done(answer, leg, index, cx),
            Tag::Checkpoint => self.checkpoint_flushed(answer.error, leg, cx),
            Tag::SbWrite => self.superblock_written(answer.error, leg, cx),
            Tag::Settle => self.join_settled(answer.error, leg, cx),
            Tag::SbRead => self.superblock_read(id, leg, index, cx),
            Tag::Grow => self.grow_done(answer.error, leg, cx),
            Tag::Header | Tag::Replay | Tag::Redo => self.open_part_done(id, tag, leg, index, cx),
            Tag::Straggler => {}
        }
        self.advance(cx);
        cx.only_step()
    }

    fn timer(&mut self, key: TimerKey, cx: &mut Cx<'_>) -> Step {
        match key {
            SCRUB => self.scrub.course.woke(),
            STALL => self.look_for_stalls(cx),
            _ => self.rebuild.waits = false,
        }
        self.stir();
        self.advance(cx);
        cx.only_step()
    }

    fn child_event(&mut self, child: u8, event: DeviceEvent, cx: &mut Cx<'_>) -> Step {
        self.heard(usize::from(child), event, cx);
        self.advance(cx);
        cx.only_step()
    }

    #[inline]
    fn prepare(&self, _op: Op, offset: ByteOffset, _len: ByteLen) -> Option<(u8, ByteOffset)> {
        let (row, index, below) = self.geometry.place(offset.0);
        Some((self.geometry.leg(row, index) as u8, ByteOffset(below)))
    }

    fn report(&mut self, report: &mut Report) {
        self.put_figures(report);
    }

    fn check(&self) -> Result<(), Violation> {
        let broken = |invariant, what: String| Err(Violation { invariant, what });
        let active = |p: &&Piece| p.kind == Kind::Write && p.flying > 0;
        let writes: Vec<&Piece> = self.pieces.iter().filter(active).collect();
        for (i, a) in writes.iter().enumerate() {
            if let Some(b) = writes[..i].iter().find(|b| a.start < b.end && b.start < a.end) {
                let what = format!("{}..{} and {}..{} are written at once", a.start, a.end, b.start, b.end);
                return broken("one_write_per_stripe", what);
            }
            let placed = self.journaled && a.phase == Phase::Place;
            if placed && a.slot == NONE && !self.planted.journal_skipped {
                return broken("journal_before_place", format!("{}..{} is in no journal", a.start, a.end));
            }
        }
        let lacks = (0..self.legs.len()).find(|&l| self.legs[l].durable != self.geometry.data);
        if let (Run::Running, false, Some(leg)) = (self.run, self.parity_is_right(self.geometry.data), lacks)
        {
            let what = format!("`{}` is not rebuilt, and the parity is not computed", self.roster[leg].name);
            return broken("parity_before_rebuild", what);
        }
        let flying: u32 = self.pieces.iter().map(|p| u32::from(p.flying)).sum();
        let requests: u32 = (0..self.legs.len()).map(|leg| self.roster[leg].in_flight()).sum();
        if flying > requests {
            return broken("one_write_per_stripe", format!("{flying} parts under way, {requests} requests"));
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

impl Advise for Parity {
    /// A read takes what its leg takes, or the slowest leg when its own is missing. A write takes a read and a write, and
    /// one more write with a journal, of the slowest leg.
    fn expected_latency(&self, op: Op, offset: ByteOffset, len: ByteLen, peek: &Peek<'_>) -> Span {
        if op == Op::Flush && self.journaled || len.0 == 0 && op != Op::Flush {
            return Span::ZERO;
        }
        let (row, index, below) = self.geometry.place(offset.0);
        let len = ByteLen(len.0.min(self.geometry.chunk() - (below & (self.geometry.chunk() - 1))));
        let slowest = |op| {
            let spans =
                bits(self.legs_in()).map(|l| peek.expected_latency(l as u8, op, ByteOffset(below), len));
            spans.max().unwrap_or(Span::ZERO)
        };
        let leg = self.geometry.leg(row, index);
        match op {
            Op::Read if self.readable(below + len.0) >> leg & 1 != 0 => {
                peek.expected_latency(leg as u8, op, ByteOffset(below), len)
            }
            Op::Read | Op::Flush => slowest(op),
            _ => slowest(Op::Read) + slowest(Op::Write) * (1 + u64::from(self.journaled)),
        }
    }

    fn is_busy(&self, peek: &Peek<'_>) -> bool {
        self.is_held() || bits(self.legs_in()).any(|l| peek.is_busy(l as u8))
    }

    /// The place of the first byte. Lanes of the legs are dealt in turn, so that no two legs share one.
    fn locate(&self, offset: ByteOffset, len: ByteLen, peek: &Peek<'_>) -> Option<Place> {
        let (row, index, below) = self.geometry.place(offset.0);
        let leg = self.geometry.leg(row, index);
        let rest = self.geometry.chunk() - (below & (self.geometry.chunk() - 1));
        let place = peek.locate(leg as u8, ByteOffset(below), ByteLen(len.0.min(rest)))?;
        Some(Place { lane: place.lane * u32::from(self.geometry.legs) + leg as u32, ..place })
    }
}

impl Members for Parity {
    fn left_over(&self, child: u8, _below: &Limits) -> ByteLen {
        let layout = &self.legs[usize::from(child)].layout;
        ByteLen(layout.journal - self.geometry.data + layout.leg.0 % PAGE)
    }

    fn health(&self) -> Option<Health> {
        self.standing()
    }

    fn redundancy(&self) -> Option<Redundancy> {
        let (c, legs) = (&self.count, self.legs.len());
        let is_whole = self.full_legs() == legs;
        let none = Redundancy::none(legs);
        // Without a journal it does not promise to bear the loss of a leg together with a cut.
        let bears_both = is_whole && self.journal.len() > 0;
        let written =
            c.full_stripe_writes + c.read_modify_writes + c.reconstruct_writes + c.parityless_writes;
        Some(Redundancy {
            enough: none.enough - 1,
            // What one leg lacks none of the others can do without.
            complete: if is_whole { none.members } else { Children::NONE },
            shaken: c.timeouts > 0,
            keeps: true,
            absence: if bears_both { Absence::Any } else { Absence::None },
            // Not while it starts, the first time or anew: the journal may not be replayed yet.
            at_rest: is_whole
                && self.run == Run::Running
                && self.bytes_to_rebuild() == 0
                && self.lost.count() == 0
                && self.pieces.len() == self.free_pieces.len(),
            changes: written + c.repairs + c.rebuilt_bytes + c.legs_lost + c.scrub.mended_bytes,
            departures: if self.members.settled == self.members.version { c.legs_lost } else { 0 },
            ..none
        })
    }

    fn maintenance(&self, out: &mut Vec<Maintenance>) {
        let of = ByteLen(self.geometry.data);
        let left = self.bytes_to_rebuild();
        if self.run == Run::Running && left > 0 {
            // Of the leg, or of the parity, that lacks most.
            out.push(Maintenance {
                kind: MaintenanceKind::Rebuild,
                left: ByteLen(left),
                of: ByteLen(of.0.max(left)),
            });
        }
        out.extend(self.scrub.course.maintenance(of));
    }

    fn child_use(&self, child: u8) -> Option<ChildUse> {
        Some(self.use_of(usize::from(child)))
    }

    fn needs_child(&self, child: u8) -> bool {
        let leg = usize::from(child);
        self.serves(leg) && !self.can_do_without(leg)
    }
}

impl Administer for Parity {
    fn admin(&mut self, admin: Admin, cx: &mut Cx<'_>) -> Result<(), AdminError> {
        let result = self.obey(admin, cx);
        self.advance(cx);
        result
    }
}
