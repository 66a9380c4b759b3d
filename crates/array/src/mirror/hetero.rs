//! Options of `hetero-mirror`: those of `mirror`, and what is delayed.

use super::config::*;
use super::hold::Spare;
use super::policy::{Ack, Limit, Policy};
use nandu_base::{BuildContext, BuildError, ByteLen, DeviceConfig, Kind, Machine, Ratio, Span, options};

/// When a write without FUA is acknowledged.
#[options]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AckMode {
    /// When either leg has it: step 5.2 of the paper.
    First,
    /// When both have it, or the wait limit of the slower one is over: step 5.3 of the paper.
    WaitLimit,
    /// When both have it, as a plain mirror.
    Both,
    /// When the leader has it, as long as the other leg lacks fewer than `write_behind` such writes, otherwise when both
    /// have it. No leg is ever delayed. This is what Linux md does with a write-mostly leg and a write-behind limit.
    Leader,
}

/// What a flush covers.
#[options]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FlushMode {
    /// Both legs: flushed data survive the loss of either.
    AllLegs,
    /// The leader, when the follower has said durably that it may lack data there.
    Leader,
}

/// What sets the wait limit.
#[options]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WaitLimit {
    /// `wait_ratio` times the faster leg's time.
    Ratio,
    /// The `wait_quantile` of how far the legs were apart so far.
    Quantile,
    /// As `ratio`, and a leg that reports or expects to be slow is delayed before it is late.
    GcHint,
}

/// How the ratio is read.
#[options]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WaitBasis {
    /// So much longer than the faster leg: the paper's words.
    Additional,
    /// So long from the start.
    Total,
}

/// In which order a delayed leg catches up.
#[options]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DelayOrder {
    /// The oldest write first, one by one: the paper's step 6.
    Fifo,
    /// Ascending, adjacent writes joined: what the paper's section 3.3 promises.
    Elevator,
}

/// What happens when data are exposed for too long.
#[options]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OnLimit {
    /// Writes wait for both legs.
    Block,
    /// The late leg is left out until it answers again.
    Degrade,
}

/// When the delay queue of the leg that follows is kept.
#[options]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HoldMode {
    /// Never: it catches up at once.
    Never,
    /// While the leg says that it stands still to save power: it is not woken.
    Standby,
    /// Always between batches: so the leg has rests long enough to stop in.
    Always,
}

/// How many requests the manager has in hand.
#[options]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Manager {
    /// One: the next one is taken when a write is on both legs or its wait limit is over. The paper's step 3.
    Serial,
    /// All; only overlapping ones wait for each other.
    Pipelined,
}

/// Options of `hetero-mirror`.
#[options]
#[derive(Clone, Debug)]
pub struct HeteroConfig {
    /// The two devices that hold the same data. The first one leads a new mirror: name the faster one first.
    pub legs: Vec<String>,
    /// When a write without FUA is acknowledged.
    #[option(default = AckMode::First)]
    pub write_ack: AckMode,
    /// With `write_ack = "leader"`, the most writes that only the leader has.
    #[option(default = 256, note = "as with mdadm", range = 1..=16_383)]
    pub write_behind: u32,
    /// How many requests are served at once.
    #[option(default = Manager::Pipelined)]
    pub dispatch: Manager,
    /// What a flush covers.
    #[option(default = FlushMode::AllLegs)]
    pub flush_scope: FlushMode,
    /// What sets the wait limit.
    #[option(default = WaitLimit::Ratio)]
    pub wait_limit: WaitLimit,
    /// Wait limit as a multiple of the faster leg's time.
    #[option(default = Ratio::new(13, 10), above = Ratio::ZERO, range = ..=Ratio::new(1000, 1))]
    pub wait_ratio: Ratio,
    /// From when that is counted.
    #[option(default = WaitBasis::Additional)]
    pub wait_ratio_basis: WaitBasis,
    /// Which share of writes keeps within the wait limit "quantile".
    #[option(default = Ratio::new(4, 5), above = Ratio::ZERO, below = Ratio::new(1, 1))]
    pub wait_quantile: Ratio,
    /// Least wait limit.
    #[option(default = Span::from_ms(1), range = ..=Span::from_secs(10))]
    pub wait_min: Span,
    /// In which order a delayed leg catches up.
    #[option(default = DelayOrder::Elevator)]
    pub delay_order: DelayOrder,
    /// Delayed writes in flight at once on a leg. With "elevator" as many as the leg takes while they are waited for.
    #[option(unset = "4, with \"fifo\" 1", range = 1..=256)]
    pub delay_depth: Option<u32>,
    /// Longest write that adjacent ones are joined to.
    #[option(default = ByteLen::kib(256), range = ByteLen::kib(4)..=ByteLen::mib(16))]
    pub delay_batch: ByteLen,
    /// A leg with less than this in its queue may be written directly again.
    #[option(unset = "1 MiB, with \"fifo\" 0: only when its queue is empty")]
    pub resume_below: Option<ByteLen>,
    /// Most acknowledged bytes that are not durable on both legs, which also bounds the memory of the queues.
    #[option(default = ByteLen::mib(64), range = ByteLen::kib(64)..)]
    pub max_exposed_bytes: ByteLen,
    /// Longest time for which they are not.
    #[option(default = Span::from_secs(5), range = Span::from_ms(1)..=Span::from_secs(3600))]
    pub max_exposed_time: Span,
    /// What happens then.
    #[option(default = OnLimit::Block)]
    pub on_limit: OnLimit,
    /// A read that a leg has not returned after this time is sent to the other one too. Costs a copy of each read.
    #[option(default, off = "never", range = Span::from_us(1)..=Span::from_secs(10))]
    pub hedge_after: Span,
    /// While one leg catches up, a write that the other one has not taken within its usual time and the wait limit is sent to the delayed leg too,
    /// ahead of its queue: one leg is enough.
    #[option(default)]
    pub write_hedge: bool,
    /// Writes in flight on one leg from which it is delayed, while the other has at most half as many; if that one was delayed, it is written
    /// directly from then on.
    #[option(default, off = "never", range = ..=65_535)]
    pub critical_backlog: u32,
    /// When the delay queue of the leg that follows is kept, to let it rest: until half of an exposure bound is reached, or the leg is needed.
    /// Other than "never" needs `write_ack = "first"`.
    #[option(default = HoldMode::Never)]
    pub write_batching: HoldMode,
    #[option(flatten, default)]
    #[allow(missing_docs)] // they have words of their own
    pub common: CommonConfig,
    /// Which leg serves a read when both are current.
    #[option(default = ReadPolicy::Leader, note = "as in the paper")]
    pub read_policy: ReadPolicy,
}

/// The machine kind `hetero-mirror`.
pub fn hetero_kind() -> Kind {
    Kind::of::<HeteroConfig>(
        "hetero-mirror",
        "two unlike devices with the same data; a slow one catches up later",
    )
    .with_plants(HETERO_PLANTS)
}

impl HeteroConfig {
    /// A hetero-mirror with the options of `mirror`, and every other one at its default.
    pub fn over(mirror: MirrorConfig) -> HeteroConfig {
        HeteroConfig::with_defaults(Vec::new()).with_mirror(mirror)
    }

    /// The same with other options of `mirror`.
    pub fn with_mirror(&self, mirror: MirrorConfig) -> HeteroConfig {
        HeteroConfig {
            legs: mirror.legs,
            common: mirror.common,
            read_policy: mirror.read_policy,
            ..self.clone()
        }
    }

    fn mirror(&self) -> MirrorConfig {
        MirrorConfig {
            legs: self.legs.clone(),
            common: self.common.clone(),
            read_policy: self.read_policy,
            request_timeout: Span::ZERO, // `on_limit` and `hedge_after` are for legs that hang
        }
    }

    fn policy(&self) -> Result<Policy, BuildError> {
        if self.legs.len() != 2 {
            let why = format!("a hetero-mirror has exactly two legs, not {}", self.legs.len());
            return Err(BuildError::at("legs", why));
        }
        let fifo = self.delay_order == DelayOrder::Fifo;
        if self.write_batching != HoldMode::Never && self.write_ack != AckMode::First {
            return Err(BuildError::at(
                "write_batching",
                "with `write_ack` other than \"first\" each write would wait for the leg that rests",
            ));
        }
        Ok(Policy {
            ack: match self.write_ack {
                AckMode::First => Ack::First,
                AckMode::WaitLimit => Ack::WaitLimit,
                AckMode::Both => Ack::Both,
                AckMode::Leader => Ack::Leader,
            },
            behind: self.write_behind as usize,
            fast_flush: self.flush_scope == FlushMode::Leader,
            lists_lost: true,
            limit: match self.wait_limit {
                WaitLimit::Ratio => Limit::Ratio,
                WaitLimit::Quantile => Limit::Quantile,
                WaitLimit::GcHint => Limit::GcHint,
            },
            ratio: self.wait_ratio,
            total: self.wait_ratio_basis == WaitBasis::Total,
            quantile: self.wait_quantile,
            floor: self.wait_min,
            sweep: !fifo,
            depth: self.delay_depth.unwrap_or(if fifo { 1 } else { 4 }),
            batch: self.delay_batch.0,
            resume: self.resume_below.unwrap_or(if fifo { ByteLen::ZERO } else { ByteLen::mib(1) }).0,
            exposed_bytes: self.max_exposed_bytes.0,
            exposed_time: self.max_exposed_time,
            degrade: self.on_limit == OnLimit::Degrade,
            serial: self.dispatch == Manager::Serial,
            hedge: self.hedge_after,
            write_hedge: self.write_hedge,
            critical_backlog: self.critical_backlog,
            spare: match self.write_batching {
                HoldMode::Never => Spare::Never,
                HoldMode::Standby => Spare::Standing,
                HoldMode::Always => Spare::Batches,
            },
        })
    }
}

impl DeviceConfig for HeteroConfig {
    fn children(&self) -> Vec<String> {
        self.legs.clone()
    }

    fn build(&self, cx: &BuildContext<'_>) -> Result<Box<dyn Machine>, BuildError> {
        self.mirror().build_with(self.policy()?, cx)
    }
}
