//! What a mirror is told to do: the options that its parts ask for, in the form in which they ask.

use super::hold::Spare;
use nandu_base::{Ratio, Span};

/// How a mirror of any kind is looked after.
#[derive(Clone, Copy, Debug)]
pub struct Maintenance {
    /// From the beginning of a scrub to that of the next; zero for never.
    pub scrub_every: Span,
    /// Bytes a second that a scrub compares at most; zero for no limit.
    pub scrub_rate: u64,
    /// Whether a scrub that begins by itself mends what differs.
    pub scrub_mends: bool,
    /// Whether the first leg is to lead whenever both are whole.
    pub lead_first: bool,
    /// Regions declared ahead of a sequential writer.
    pub mark_ahead: u32,
    /// Requests for data in flight at once on each leg; zero for no bound.
    pub leg_queue_depth: [u32; super::MAX_LEGS],
}

/// When a write is acknowledged that does not say FUA.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ack {
    /// When either leg has it.
    First,
    /// When both have it, or one has and the wait limit is over.
    WaitLimit,
    /// When both have it; then no leg is ever delayed.
    Both,
    /// When the leader has it and the follower lacks few enough; no leg is ever delayed.
    Leader,
}

impl Ack {
    /// Whether a leg can be late.
    #[inline]
    pub(super) fn has_limit(self) -> bool {
        matches!(self, Ack::First | Ack::WaitLimit)
    }
}

/// What sets the wait limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Limit {
    /// A multiple of the faster leg's time.
    Ratio,
    /// A quantile of the differences seen.
    Quantile,
    /// As `Ratio`, and what the leg says of itself.
    GcHint,
}

/// How writes are delayed.
#[derive(Clone, Copy, Debug)]
pub struct Policy {
    /// When a write is acknowledged.
    pub ack: Ack,
    /// Writes that only the leader has, at most, with `Ack::Leader`.
    pub behind: usize,
    /// Whether a flush may count on the leader alone where the follower says L.
    pub fast_flush: bool,
    /// Whether lost data are listed and reported; a `mirror` refuses instead.
    pub lists_lost: bool,
    /// What sets the wait limit.
    pub limit: Limit,
    /// The ratio of `Limit::Ratio`.
    pub ratio: Ratio,
    /// Whether the ratio counts from the issue instead of the first completion.
    pub total: bool,
    /// The quantile of `Limit::Quantile`.
    pub quantile: Ratio,
    /// The least wait limit.
    pub floor: Span,
    /// Ascending batches instead of the oldest first.
    pub sweep: bool,
    /// Drained requests under way at once.
    pub depth: u32,
    /// Bytes of a batch.
    pub batch: u64,
    /// Bytes below which a leg may be in step again.
    pub resume: u64,
    /// Most bytes that only one leg has durably.
    pub exposed_bytes: u64,
    /// Longest time that only one leg has them.
    pub exposed_time: Span,
    /// Whether the late leg is left out past that time.
    pub degrade: bool,
    /// Whether one request is served at a time.
    pub serial: bool,
    /// A read that takes longer is also sent to the other leg; zero for never.
    pub hedge: Span,
    /// Whether a write that its only direct leg has not taken in time goes to the delayed one ahead of its queue.
    pub write_hedge: bool,
    /// Writes under way on a leg from which it is delayed, while the other one has at most half as many; zero for never.
    pub critical_backlog: u32,
    /// When the queue of the follower is kept.
    pub spare: Spare,
}

impl Policy {
    /// What `mirror` does: nothing is delayed.
    pub const MIRROR: Policy = Policy {
        ack: Ack::Both,
        behind: 0,
        fast_flush: false,
        lists_lost: false,
        limit: Limit::Ratio,
        ratio: Ratio { num: 13, den: 10 },
        total: false,
        quantile: Ratio { num: 4, den: 5 },
        floor: Span(1_000_000),
        sweep: true,
        depth: 1,
        batch: 0,
        resume: 0,
        exposed_bytes: u64::MAX,
        exposed_time: Span(u64::MAX),
        degrade: false,
        serial: false,
        hedge: Span(0),
        write_hedge: false,
        critical_backlog: 0,
        spare: Spare::Never,
    };
}
