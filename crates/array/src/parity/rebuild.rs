//! Rebuild: a leg that lacks data gets it from the others, from the front to the end; and with `write_hole = "resync"` the
//! parity is computed anew after an unclean end.
//!
//! One extent at a time is locked against reads and writes, read from all other legs, and their xor is written. Then the
//! mark moves on in memory; superblocks say it after the next checkpoint, when it is durable. Both kinds of work are the
//! same: the parity of a row is one more leg that is the xor of the others.

use super::layout::PAGE;
use super::piece::{Kind, Phase, Piece};
use super::{NONE, Parity, REBUILD, Run, Tag, bits};
use crate::locks::Claim;
use nandu_base::{ByteLen, ByteOffset, Cx, Draft, Flags, Instant, Op, Span};

/// How long a rebuild waits before it tries again what could not be read.
const RETRY: Span = Span::from_secs(1);
/// How often it tries one sector before that is lost.
const TRIES: u32 = 3;

/// The rebuild under way.
#[derive(Debug)]
pub(super) struct Rebuild {
    /// Leg offset below which the parity is right.
    pub(super) parity_upto: u64,
    /// The piece under way.
    pub(super) piece: u32,
    /// The timer is set.
    pub(super) waits: bool,
    /// When the rate allows the next piece.
    pub(super) next_at: Instant,
    /// Length of the next piece: short where something cannot be read.
    pub(super) len: u64,
    /// Bytes since the last checkpoint.
    pub(super) unsaved: u64,
    /// How often the sector that is next could not be made.
    failed: u32,
    /// Whether the piece under way is about a sector that is lost.
    mends: bool,
}

impl Default for Rebuild {
    fn default() -> Rebuild {
        let (parity_upto, next_at) = (u64::MAX, Instant::ZERO);
        Rebuild {
            parity_upto,
            piece: NONE,
            waits: false,
            next_at,
            len: u64::MAX,
            unsaved: 0,
            failed: 0,
            mends: false,
        }
    }
}

impl Parity {
    /// The leg to rebuild and the extent, or none: nothing is left, or nothing can be done. When nothing else is left a sector that is
    /// lost is tried.
    fn rebuild_next(&self) -> Option<(usize, u64, u64)> {
        let data = self.geometry.data;
        if let Some(leg) = bits(self.legs_in()).find(|&l| self.legs[l].upto < data) {
            let at = self.legs[leg].upto;
            return Some((leg, at, data.min(at + self.rebuild_len().0)));
        }
        let at = self.rebuild.parity_upto;
        if self.legs_in() != self.all() {
            return None;
        }
        if at < data {
            let row_end = (self.geometry.row(at) + 1) << self.geometry.chunk_bits;
            let leg = self.geometry.parity(self.geometry.row(at));
            return Some((leg, at, row_end.min(at + self.rebuild_len().0)));
        }
        let (leg, start) = self.lost.next()?;
        Some((leg, start, start + self.lost.unit()))
    }

    /// Whether a leg or the parity is not rebuilt to the end.
    pub(super) fn rebuilds(&self) -> bool {
        let data = self.geometry.data;
        self.rebuild.parity_upto < data || bits(self.legs_in()).any(|l| self.legs[l].upto < data)
    }

    pub(super) fn pump_rebuild(&mut self, cx: &mut Cx<'_>) {
        let busy = self.rebuild.piece != NONE || self.rebuild.waits;
        if busy || self.run != Run::Running || self.is_held() {
            return;
        }
        if self.rebuild.next_at > cx.now {
            if self.rebuild_next().is_some() {
                self.rebuild.waits = true;
                cx.wake_at(REBUILD, self.rebuild.next_at);
            }
            return;
        }
        let Some((leg, start, end)) = self.rebuild_next() else { return };
        self.rebuild.mends = !self.rebuilds();
        if self.rebuild.mends {
            self.lost.tried();
        }
        let i = self.new_piece(Kind::Rebuild(leg as u8), NONE, start, end, 0, 0);
        self.pieces[i as usize].legs = 1 << leg;
        self.rebuild.piece = i;
        self.claim(i, Claim::Write, cx);
    }

    pub(super) fn rebuild_begin(&mut self, i: u32, cx: &mut Cx<'_>) {
        let p = self.pieces[i as usize];
        let Kind::Rebuild(leg) = p.kind else { unreachable!("a piece of a rebuild") };
        let others = self.all() & !(1 << leg);
        // While it waited for its extent the leg may have gone and come back, to be rebuilt from the front.
        if self.has_gone(&p, usize::from(leg)) || self.is_held() || self.readable(p.end) & others != others {
            return self.rebuild_over(i, cx);
        }
        if self.lost.legs(p.start, p.end) & others != 0 {
            return self.rebuild_failed(i, cx);
        }
        let sum = cx.pool.allocate(p.len());
        self.pieces[i as usize].sum = sum;
        self.read_legs(i, others, cx);
    }

    pub(super) fn rebuild_part_done(&mut self, i: u32, phase: Phase, cx: &mut Cx<'_>) {
        let p = self.pieces[i as usize];
        let Kind::Rebuild(leg) = p.kind else { unreachable!("a piece of a rebuild") };
        let leg = usize::from(leg);
        if self.has_gone(&p, leg) || p.again && p.bad == 0 {
            return self.rebuild_over(i, cx);
        }
        if p.again {
            return self.rebuild_failed(i, cx);
        }
        if phase == Phase::Reading {
            let (offset, len, payload) = (ByteOffset(p.at), p.len(), p.sum);
            let cookie = Tag::Part.cookie(leg, i);
            let q = &mut self.pieces[i as usize];
            (q.phase, q.flying) = (Phase::Place, 1);
            let draft = Draft { op: Op::Write, flags: Flags::BACKGROUND, offset, len, payload, cookie };
            return self.send(leg, nandu_base::ReqId::NONE, draft, cx);
        }
        let len = p.end - p.start;
        self.count.sectors_mended += self.lost.mend(leg, p.start, p.end);
        self.count.rebuilt_bytes += len;
        self.rebuild_passed(leg, &p);
        if self.rebuild_rate > 0 {
            let from = self.rebuild.next_at.later(cx.now);
            let nanos = u128::from(len) * 1_000_000_000 / u128::from(self.rebuild_rate);
            self.rebuild.next_at = from + Span(nanos as u64);
        }
        self.rebuild_over(i, cx);
    }

    /// What a piece was about is rebuilt, or on record as lost: go on behind it.
    fn rebuild_passed(&mut self, leg: usize, p: &Piece) {
        self.rebuild.failed = 0;
        if self.rebuild.mends {
            return;
        }
        if self.legs[leg].upto < self.geometry.data {
            self.legs[leg].upto = p.end;
        } else {
            self.rebuild.parity_upto = p.end;
        }
        self.rebuild.len = self.rebuild.len.saturating_mul(2);
        self.rebuild.unsaved += p.end - p.start;
    }

    /// Another leg cannot read what a piece needs: come as near as possible, then wait, and at last go on without it.
    fn rebuild_failed(&mut self, i: u32, cx: &mut Cx<'_>) {
        let p = self.pieces[i as usize];
        let Kind::Rebuild(leg) = p.kind else { unreachable!("a piece of a rebuild") };
        let (leg, unit, len) = (usize::from(leg), self.lost.unit(), p.end - p.start);
        self.rebuild.len = if len > PAGE { PAGE } else { unit };
        if self.planted.lost_forgotten && len <= PAGE {
            self.rebuild_passed(leg, &p);
        } else if len <= unit {
            self.count.rebuild_stops += 1;
            self.rebuild.failed += 1;
            self.rebuild.next_at = cx.now + RETRY;
            let may_pass = self.journaled && !self.rebuild.mends && self.rebuild.failed > TRIES;
            if may_pass && self.lost.add(leg, p.start) {
                self.count.sectors_lost += 1;
                self.rebuild.next_at = cx.now;
                self.rebuild_passed(leg, &p);
            }
        }
        self.rebuild_over(i, cx);
    }

    /// Whether the leg that is rebuilt has gone since the piece was made.
    fn has_gone(&self, p: &Piece, leg: usize) -> bool {
        p.legs == 0 && !(self.planted.rebuild_goes_on && self.legs[leg].is_in())
    }

    fn rebuild_over(&mut self, i: u32, cx: &mut Cx<'_>) {
        self.end(i, None, cx);
    }

    /// Whether the mark should become durable now: at the end, and after each thirty-second part.
    pub(super) fn rebuild_wants_checkpoint(&self) -> bool {
        let data = self.geometry.data;
        let done = self.legs.iter().any(|l| l.upto == data && l.durable != data);
        let part = ByteLen((data / 32).max(16 * PAGE)).0;
        done || self.rebuild.unsaved >= part
    }
}
