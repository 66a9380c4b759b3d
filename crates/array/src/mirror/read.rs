//! Reads: from a member that is current, and from the other one when the first cannot return its data.
//!
//! A read waits for every earlier write of its extent and holds later ones back, so that no write is in flight there and
//! every member that is not stale and does not lag there holds the newest data (`read_only_current`). What the leader
//! lacks is read from memory when one entry of a delay queue has all of it. When no leg is current for the whole extent the
//! read is split where that changes. An extent that fails on both legs is read
//! again block by block: two legs with different bad sectors still return everything. What one leg could not return is
//! copied back to it from the other one ([`super::copy`]).

use super::config::ReadPolicy;
use super::layout::PAGE;
use super::leg::Place;
use super::op::Part;
use super::work::Ready;
use super::{Legs, Mirror, Tag, each};
use crate::member::set::Set;
use nandu_base::{ByteLen, ByteOffset, Cx, Draft, ErrorKind, IoError, Op, ReqId, Span};

impl Mirror {
    pub(super) fn read_begin(&mut self, i: u32, cx: &mut Cx<'_>) {
        if !self.lost.is_empty() && self.read_lost(i, cx) {
            return;
        }
        let leg = self.choose(i, cx);
        let (lags, silent) = (self.lags(), leg.is_some_and(|leg| self.legs[leg].silent));
        if lags && (silent || leg != Some(self.leader)) && self.read_queue(i, cx) {
            return;
        }
        if (lags && leg.is_none() || silent) && self.shorten(i) {
            self.read_begin(i, cx);
            return;
        }
        match leg {
            Some(leg) => self.read_from(i, leg, cx),
            None => self.read_nowhere(i, cx),
        }
    }

    /// Lost data are an error, never what some leg still holds (`lost_never_read`).
    fn read_lost(&mut self, i: u32, cx: &mut Cx<'_>) -> bool {
        let op = &self.ops[i as usize];
        let Some((from, to)) = self.lost.first(op.at, op.upto) else { return false };
        let error = IoError { kind: ErrorKind::Lost, at: ByteLen(from - op.start), len: ByteLen(to - from) };
        if op.parent != ReqId::NONE {
            cx.requests[op.parent].error = Some(error);
        }
        self.count.lost_reads += 1;
        self.end(i, cx);
        true
    }

    /// Whether some leg lacks data that it will get from its queue.
    pub(super) fn lags(&self) -> bool {
        self.lag.iter().any(|l| !l.is_empty())
    }

    /// The leader lacks the data or is silent: it may be in the memory of a delay queue.
    pub(super) fn read_queue(&mut self, i: u32, cx: &mut Cx<'_>) -> bool {
        let op = &self.ops[i as usize];
        let Some(held) = self.lag.iter().find_map(|lag| lag.holder(op.at, op.upto)) else { return false };
        let (to, len) = (op.payload.slice(ByteLen(op.at - op.start)), ByteLen(op.upto - op.at));
        match held {
            Some(payload) => cx.pool.copy(payload, to, len),
            None => cx.pool.zero(to, len),
        }
        self.count.queue_reads += 1;
        self.read_good(i, cx);
        true
    }

    /// As far as what the legs lack is the same.
    pub(super) fn alike(&self, i: u32) -> u64 {
        let op = &self.ops[i as usize];
        let upto = self.lag.iter().fold(op.upto, |upto, lag| upto.min(lag.border(op.at)));
        match self.lacks_some() {
            true => upto.min(((op.at >> self.shift) + 1) << self.shift),
            false => upto,
        }
    }

    /// No leg can return all of it, or only a silent one: the read goes on up to the next border between what the legs lack.
    /// False when there is none.
    fn shorten(&mut self, i: u32) -> bool {
        let upto = self.alike(i);
        let op = &self.ops[i as usize];
        let is_shorter = upto < op.upto;
        self.count.split_reads += u64::from(is_shorter);
        if is_shorter {
            let op = &mut self.ops[i as usize];
            (op.upto, op.legs) = (upto, 0);
        }
        is_shorter
    }

    /// Whether a leg may be read for this extent.
    pub(super) fn is_current(&self, leg: usize, start: u64, end: u64) -> bool {
        if self.legs[leg].place != Place::Member {
            return false;
        }
        if self.lag[leg].lacks(start, end) && !self.planted.read_lagging {
            return false;
        }
        leg == self.leader
            || self.planted.read_before_resync
            || self.stale[leg].count() == 0
            || self.regions_of(start, end).all(|r| !self.stale[leg].has(r))
    }

    /// The leg to read: of those that are current and have not failed this read, one that answers, if there is any.
    fn choose(&self, i: u32, cx: &Cx<'_>) -> Option<usize> {
        let op = &self.ops[i as usize];
        let can = |leg: &usize| op.legs >> leg & 1 == 0 && self.is_current(*leg, op.at, op.upto);
        let legs = (0..self.legs.len()).filter(can).fold(0, |legs: Legs, leg| legs | 1 << leg);
        let loud =
            each(legs).filter(|&leg| !self.legs[leg].silent).fold(0, |legs: Legs, leg| legs | 1 << leg);
        let legs = if loud != 0 { loud } else { legs };
        match legs.count_ones() {
            0 | 1 => each(legs).next(),
            _ => Some(self.route(legs, op.at, op.upto, cx)),
        }
    }

    /// The one of these legs that the policy takes.
    fn route(&self, legs: Legs, at: u64, upto: u64, cx: &Cx<'_>) -> usize {
        let expected =
            |leg: usize| cx.peek.expected_latency(leg as u8, Op::Read, ByteOffset(at), ByteLen(upto - at));
        let is_busy = |leg: usize| usize::from(cx.peek.is_busy(leg as u8));
        let count = self.legs.len();
        let cost = |leg: usize| {
            let l = &self.legs[leg];
            let (busy, latency, queue) = match self.read_policy {
                ReadPolicy::Leader => (0, Span::ZERO, 0),
                ReadPolicy::Balanced => (is_busy(leg), expected(leg), l.reads),
                // The one after the last one comes first.
                ReadPolicy::RoundRobin => ((leg + count - 1 - self.last_read) % count, Span::ZERO, 0),
                ReadPolicy::ShortestQueue => (0, Span::ZERO, l.reads),
                ReadPolicy::LatencyAware => (0, expected(leg), l.reads),
            };
            (busy, latency, queue, leg != self.leader)
        };
        each(legs).min_by_key(|&leg| cost(leg)).expect("there are several")
    }

    pub(super) fn read_from(&mut self, i: u32, leg: usize, cx: &mut Cx<'_>) {
        let op = &self.ops[i as usize];
        debug_assert!(op.at < op.upto);
        let to = op.payload.slice(ByteLen(op.at - op.start));
        let buffer = self.read_buffer(to, op.upto - op.at, cx);
        let first = op.flying == 0;
        let op = &mut self.ops[i as usize];
        op.flying += 1;
        op.parts.set(leg, Part::Flying);
        let draft = Draft {
            op: Op::Read,
            flags: op.flags,
            offset: ByteOffset(op.at),
            len: ByteLen(op.upto - op.at),
            payload: buffer,
            cookie: Tag::Data.cookie(leg, i),
        };
        let parent = op.parent;
        self.legs[leg].reads += 1;
        self.count.reads[leg] += 1;
        self.last_read = leg;
        self.send(leg, parent, draft, cx);
        self.sent_buffer(buffer, cx);
        if first {
            self.start_hedge(i, cx);
        }
    }

    pub(super) fn read_back(&mut self, id: ReqId, leg: usize, i: u32, cx: &mut Cx<'_>) {
        let parts = &mut self.ops[i as usize].parts;
        let left = !parts.is(leg, Part::Flying);
        parts.set(leg, Part::None);
        let asks_other = parts.any(Part::Flying);
        if left && asks_other {
            return;
        }
        self.explain(i, id, cx);
        if left {
            // The leg has left since, and may have answered from what was left of it.
            self.read_begin(i, cx);
            return;
        }
        let Some(error) = cx.requests[id].error else {
            self.take_buffer(i, id, cx);
            self.read_good(i, cx);
            return;
        };
        let op = &mut self.ops[i as usize];
        op.legs |= 1 << leg;
        op.error = Some(IoError { at: ByteLen(error.at.0 + op.at - op.start), ..error });
        if error.kind == ErrorKind::Gone {
            self.leave(leg, cx);
            if self.ops[i as usize].over {
                return;
            }
        } else {
            self.count.read_errors[leg] += 1;
        }
        if !asks_other {
            self.read_begin(i, cx);
        }
    }

    /// The extent, or the block of it that was asked for, is there.
    fn read_good(&mut self, i: u32, cx: &mut Cx<'_>) {
        let op = &self.ops[i as usize];
        let (at, upto) = (op.at, op.upto);
        for leg in each(op.legs) {
            if self.is_member(leg) {
                self.repairs.push_back(super::copy::Repair { leg, at, upto });
                self.work.add(Ready::Copies);
            }
        }
        let op = &mut self.ops[i as usize];
        if op.upto == op.end {
            self.end(i, cx);
            return;
        }
        // After an error block by block, otherwise as far as one leg is current.
        let next = if op.error.is_some() { op.end.min(op.upto + PAGE) } else { op.end };
        (op.at, op.upto) = (op.upto, next);
        op.legs = 0;
        self.read_begin(i, cx);
    }

    /// No leg returns it. A long extent is tried block by block, once.
    fn read_nowhere(&mut self, i: u32, cx: &mut Cx<'_>) {
        let op = &mut self.ops[i as usize];
        let whole = op.at == op.start && op.upto == op.end;
        if whole && op.upto - op.at > PAGE && op.error.is_some() {
            op.upto = op.at + PAGE;
            op.legs = 0;
            self.read_begin(i, cx);
            return;
        }
        let gone = IoError { kind: ErrorKind::Gone, at: ByteLen::ZERO, len: ByteLen(op.end - op.start) };
        let error = op.error.unwrap_or(gone);
        if op.parent != ReqId::NONE {
            cx.requests[op.parent].error = Some(error);
        }
        self.end(i, cx);
    }
}
