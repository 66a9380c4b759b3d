//! Operations on extents: what is under way, and how far each leg has come with it.

use super::lag::Piece;
use super::{DELAYED, Legs, MAX_LEGS};
use nandu_base::{ByteLen, Flags, Instant, IoError, Op, Payload, ReqId, TenantId};

/// What an operation does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Free,
    Read,
    /// Write, trim or write-zeroes.
    Write,
    /// The legs are compared.
    Scrub,
    /// From leg to legs: a resync, or the repair of what could not be read.
    Copy {
        from: u8,
        to: Legs,
        repair: bool,
    },
}

/// One leg's share in an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Part {
    /// None, or the leg has left.
    None,
    /// In the leg's delay queue, waiting or under way.
    Queued,
    Flying,
    Done,
    Failed,
}

/// The shares of all legs: one bit for each in the state that it is in, none for [`Part::None`].
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Parts {
    queued: Legs,
    flying: Legs,
    done: Legs,
    failed: Legs,
}

impl Parts {
    /// No leg has one.
    pub(super) const NONE: Parts = Parts { queued: 0, flying: 0, done: 0, failed: 0 };

    /// The legs whose share is in this state.
    #[inline]
    pub(super) fn all(self, part: Part) -> Legs {
        match part {
            Part::None => !(self.queued | self.flying | self.done | self.failed),
            Part::Queued => self.queued,
            Part::Flying => self.flying,
            Part::Done => self.done,
            Part::Failed => self.failed,
        }
    }

    /// Whether some leg's share is in this state.
    #[inline]
    pub(super) fn any(self, part: Part) -> bool {
        self.all(part) != 0
    }

    /// Whether this leg's share is in this state.
    #[inline]
    pub(super) fn is(self, leg: usize, part: Part) -> bool {
        self.all(part) >> leg & 1 != 0
    }

    /// The legs that have not answered.
    #[inline]
    pub(super) fn open(self) -> Legs {
        self.queued | self.flying
    }

    /// A leg's share is in this state from now on.
    #[inline]
    pub(super) fn set(&mut self, leg: usize, part: Part) {
        let bit = 1 << leg;
        self.queued &= !bit;
        self.flying &= !bit;
        self.done &= !bit;
        self.failed &= !bit;
        match part {
            Part::None => {}
            Part::Queued => self.queued |= bit,
            Part::Flying => self.flying |= bit,
            Part::Done => self.done |= bit,
            Part::Failed => self.failed |= bit,
        }
    }
}

/// Something under way on an extent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Operation {
    pub(super) kind: Kind,
    /// The client's request, or none.
    pub(super) parent: ReqId,
    pub(super) op: Op,
    pub(super) flags: Flags,
    pub(super) payload: Payload,
    pub(super) start: u64,
    pub(super) end: u64,
    /// The piece under way.
    pub(super) at: u64,
    pub(super) upto: u64,
    pub(super) parts: Parts,
    pub(super) tries: [u8; MAX_LEGS],
    /// Legs that take this trim as write-zeroes; for reads, legs that failed it; of a scrub, legs that failed the part under way, or that are
    /// written.
    pub(super) legs: Legs,
    /// Child requests that are not back.
    pub(super) flying: u8,
    /// Whether the piece was sent.
    pub(super) issued: bool,
    /// Whether the operation has ended and only waits for stragglers.
    pub(super) over: bool,
    /// Whether the client has its answer; the extent is free then.
    pub(super) acked: bool,
    /// Whether the wait limit is over; of a scrub, whether it mends.
    pub(super) waited: bool,
    /// Whether a read has begun anew past a late leg.
    pub(super) anew: bool,
    /// Whether it waits for room within the exposure bound.
    pub(super) gated: bool,
    /// Number of this write among all.
    pub(super) version: u64,
    /// When it was issued, and when the first leg had it; zero when that one had it from its delay queue.
    pub(super) sent: Instant,
    pub(super) first: Instant,
    /// Pieces in the delay queue of each leg, where there are any: only writes of two legs are delayed.
    pub(super) pieces: [u32; DELAYED],
    /// Bytes that count as exposed.
    pub(super) exposed: u64,
    pub(super) cause: TenantId,
    pub(super) error: Option<IoError>,
}

impl Operation {
    /// An operation on `start..end` that has not begun.
    pub(super) fn new(kind: Kind, op: Op, flags: Flags, payload: Payload, start: u64, end: u64) -> Operation {
        Operation {
            kind,
            parent: ReqId::NONE,
            op,
            flags,
            payload,
            start,
            end,
            at: start,
            upto: end,
            parts: Parts::NONE,
            tries: [0; MAX_LEGS],
            legs: 0,
            flying: 0,
            issued: false,
            over: false,
            acked: false,
            waited: false,
            anew: false,
            gated: false,
            version: 0,
            sent: Instant::ZERO,
            first: Instant::ZERO,
            pieces: [0; DELAYED],
            exposed: 0,
            cause: TenantId::SYSTEM,
            error: None,
        }
    }

    /// The share of a leg in the piece under way, for its delay queue.
    pub(super) fn piece(&self, i: u32, leg: usize) -> Piece {
        let zeroes = self.op == Op::Trim && self.legs >> leg & 1 != 0;
        Piece {
            start: self.at,
            end: self.upto,
            oldest: self.version,
            since: self.sent,
            tries: 0,
            op: if zeroes { Op::WriteZeroes } else { self.op },
            fua: self.flags.has(Flags::FUA),
            payload: self.payload.slice(ByteLen(self.at - self.start)),
            writer: i,
            cause: self.cause,
        }
    }

    /// The client's request, as long as it is not answered.
    pub(super) fn client(&self) -> Option<ReqId> {
        (self.parent != ReqId::NONE).then_some(self.parent)
    }
}
