//! Options of `hetero-mirror`: those of `mirror`, and what is delayed.

use super::config::*;
use super::hold::Spare;
use super::policy::{Ack, Limit, Policy};
use crate::member::InitialSync;
use crate::scrub::ScrubConfig;
use nandu_base::{BuildContext, BuildError, ByteLen, DeviceConfig, Kind, Machine, Ratio, Span};
use schemars::JsonSchema;
use serde::Deserialize;

/// When a write without FUA is acknowledged.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
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
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FlushMode {
    /// Both legs: flushed data survive the loss of either.
    AllLegs,
    /// The leader, when the follower has said durably that it may lack data there.
    Leader,
}

/// What sets the wait limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WaitLimit {
    /// `wait_ratio` times the faster leg's time.
    Ratio,
    /// The `wait_quantile` of how far the legs were apart so far.
    Quantile,
    /// As `ratio`, and a leg that reports or expects to be slow is delayed before it is late.
    GcHint,
}

/// How the ratio is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WaitBasis {
    /// So much longer than the faster leg: the paper's words.
    Additional,
    /// So long from the start.
    Total,
}

/// In which order a delayed leg catches up.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DelayOrder {
    /// The oldest write first, one by one: the paper's step 6.
    Fifo,
    /// Ascending, adjacent writes joined: what the paper's section 3.3 promises.
    Elevator,
}

/// What happens when data are exposed for too long.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OnLimit {
    /// Writes wait for both legs.
    Block,
    /// The late leg is left out until it answers again.
    Degrade,
}

/// When the delay queue of the leg that follows is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum HoldMode {
    /// Never: it catches up at once.
    Never,
    /// While the leg says that it stands still to save power: it is not woken.
    Standby,
    /// Always between batches: so the leg has rests long enough to stop in.
    Always,
}

/// How many requests the manager has in hand.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Manager {
    /// One: the next one is taken when a write is on both legs or its wait limit is over. The paper's step 3.
    Serial,
    /// All; only overlapping ones wait for each other.
    Pipelined,
}

/// Options of `hetero-mirror`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HeteroConfig {
    /// The two devices that hold the same data. The first one leads a new mirror: name the faster one first.
    pub legs: Vec<String>,
    /// When a write without FUA is acknowledged. Default "first".
    #[serde(default = "default_write_ack")]
    pub write_ack: AckMode,
    /// With `write_ack = "leader"`, the most writes that only the leader has. Default 256, as with mdadm; 1 to 16383.
    #[serde(default = "default_write_behind")]
    pub write_behind: u32,
    /// How many requests are served at once. Default "pipelined".
    #[serde(default = "default_dispatch")]
    pub dispatch: Manager,
    /// What a flush covers. Default "all-legs".
    #[serde(default = "default_flush_scope")]
    pub flush_scope: FlushMode,
    /// What sets the wait limit. Default "ratio".
    #[serde(default = "default_wait_limit")]
    pub wait_limit: WaitLimit,
    /// Wait limit as a multiple of the faster leg's time. Default 1.3; above 0, at most 1000.
    #[serde(default = "default_wait_ratio")]
    pub wait_ratio: Ratio,
    /// From when that is counted. Default "additional".
    #[serde(default = "default_wait_ratio_basis")]
    pub wait_ratio_basis: WaitBasis,
    /// Which share of writes keeps within the wait limit "quantile". Default 0.8; above 0, below 1.
    #[serde(default = "default_wait_quantile")]
    pub wait_quantile: Ratio,
    /// Least wait limit. Default 1 ms; at most 10 s.
    #[serde(default = "default_wait_min")]
    pub wait_min: Span,
    /// In which order a delayed leg catches up. Default "elevator".
    #[serde(default = "default_delay_order")]
    pub delay_order: DelayOrder,
    /// Delayed writes in flight at once on a leg. Default 4, with "fifo" 1; 1 to 256.
    #[serde(default)]
    pub delay_depth: Option<u32>,
    /// Longest write that adjacent ones are joined to. Default 256 KiB; 4 KiB to 16 MiB.
    #[serde(default = "default_delay_batch")]
    pub delay_batch: ByteLen,
    /// A leg with less than this in its queue may be written directly again. Default 1 MiB, with "fifo" 0: only when its
    /// queue is empty.
    #[serde(default)]
    pub resume_below: Option<ByteLen>,
    /// Most acknowledged bytes that are not durable on both legs, which also bounds the memory of the queues. Default
    /// 64 MiB; at least 64 KiB.
    #[serde(default = "default_max_exposed_bytes")]
    pub max_exposed_bytes: ByteLen,
    /// Longest time for which they are not. Default 5 s; 1 ms to 1 h.
    #[serde(default = "default_max_exposed_time")]
    pub max_exposed_time: Span,
    /// What happens then. Default "block".
    #[serde(default = "default_on_limit")]
    pub on_limit: OnLimit,
    /// A read that a leg has not returned after this time is sent to the other one too. Costs a copy of each read. Default
    /// 0: never; otherwise 1 us to 10 s.
    #[serde(default)]
    pub hedge_after: Span,
    /// While one leg catches up, a write that the other one has not taken within its usual time and the wait limit is sent
    /// to the delayed leg too, ahead of its queue: one leg is enough. Default false.
    #[serde(default)]
    pub write_hedge: bool,
    /// Writes in flight on one leg from which it is delayed, while the other has at most half as many; if that one was delayed, it is
    /// written directly from then on. Default 0: never; at most 65535.
    #[serde(default)]
    pub critical_backlog: u32,
    /// When the delay queue of the leg that follows is kept, to let it rest: until half of an exposure bound is reached, or
    /// the leg is needed. Other than "never" needs `write_ack = "first"`. Default "never".
    #[serde(default = "default_write_batching")]
    pub write_batching: HoldMode,
    /// Bytes for which one mark says "the legs may differ here". Default 1 MiB; a power of two from 64 KiB to 64 MiB.
    #[serde(default = "default_region_size")]
    pub region_size: ByteLen,
    /// A region without writes for this long is marked clean again. Default 5 s; 1 ms to 1 h.
    #[serde(default = "default_bitmap_delay")]
    pub bitmap_delay: Span,
    /// Most regions marked at once while both legs are members, which bounds what is copied after a crash. Default 1024;
    /// 32 to 65536.
    #[serde(default = "default_max_dirty_regions")]
    pub max_dirty_regions: u32,
    /// Bytes copied by one request of a resync. Default 256 KiB; a multiple of 4 KiB from 4 KiB to 16 MiB.
    #[serde(default = "default_resync_chunk")]
    pub resync_chunk: ByteLen,
    /// Copies in flight at once. Default 2; 1 to 64.
    #[serde(default = "default_resync_depth")]
    pub resync_depth: u32,
    /// Bytes a second that a resync copies at most. Default 0: no limit; otherwise at least 4 KiB.
    #[serde(default)]
    pub resync_rate: ByteLen,
    /// Which leg serves a read when both are current. Default "leader", as in the paper.
    #[serde(default = "default_hetero_read")]
    pub read_policy: ReadPolicy,
    /// How often a failed write is tried again on its leg before the leg is given up. Default 1; 0 to 16.
    #[serde(default = "default_write_retries")]
    pub write_retries: u8,
    /// What is known of two blank legs. Default "resync".
    #[serde(default)]
    pub initial_sync: InitialSync,
    /// The comparison of both legs. Default: only by command, 32 MiB a second.
    #[serde(default)]
    pub scrub: ScrubConfig,
    /// Which leg leads when both are healthy. Default "manual".
    #[serde(default = "default_failback")]
    pub failback: Failback,
    /// Regions that are marked ahead of a sequential writer. Default 8; 0 to 64.
    #[serde(default = "default_mark_ahead")]
    pub mark_ahead: u32,
    /// Requests for data in flight at once on each leg, one number for each. Default []: no bound, as 0; at most 65535.
    #[serde(default)]
    pub leg_queue_depth: Vec<u32>,
}

fn default_write_batching() -> HoldMode {
    HoldMode::Never
}
fn default_write_ack() -> AckMode {
    AckMode::First
}
fn default_write_behind() -> u32 {
    256
}
fn default_dispatch() -> Manager {
    Manager::Pipelined
}
fn default_flush_scope() -> FlushMode {
    FlushMode::AllLegs
}
fn default_wait_limit() -> WaitLimit {
    WaitLimit::Ratio
}
fn default_wait_ratio() -> Ratio {
    Ratio::new(13, 10)
}
fn default_wait_ratio_basis() -> WaitBasis {
    WaitBasis::Additional
}
fn default_wait_quantile() -> Ratio {
    Ratio::new(4, 5)
}
fn default_wait_min() -> Span {
    Span::from_ms(1)
}
fn default_delay_order() -> DelayOrder {
    DelayOrder::Elevator
}
fn default_delay_batch() -> ByteLen {
    ByteLen::kib(256)
}
fn default_max_exposed_bytes() -> ByteLen {
    ByteLen::mib(64)
}
fn default_max_exposed_time() -> Span {
    Span::from_secs(5)
}
fn default_on_limit() -> OnLimit {
    OnLimit::Block
}
fn default_hetero_read() -> ReadPolicy {
    ReadPolicy::Leader
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
        HeteroConfig {
            legs: mirror.legs,
            write_ack: default_write_ack(),
            write_behind: default_write_behind(),
            dispatch: default_dispatch(),
            flush_scope: default_flush_scope(),
            wait_limit: default_wait_limit(),
            wait_ratio: default_wait_ratio(),
            wait_ratio_basis: default_wait_ratio_basis(),
            wait_quantile: default_wait_quantile(),
            wait_min: default_wait_min(),
            delay_order: default_delay_order(),
            delay_depth: None,
            delay_batch: default_delay_batch(),
            resume_below: None,
            max_exposed_bytes: default_max_exposed_bytes(),
            max_exposed_time: default_max_exposed_time(),
            on_limit: default_on_limit(),
            hedge_after: Span::ZERO,
            write_hedge: false,
            critical_backlog: 0,
            write_batching: default_write_batching(),
            region_size: mirror.region_size,
            bitmap_delay: mirror.bitmap_delay,
            max_dirty_regions: mirror.max_dirty_regions,
            resync_chunk: mirror.resync_chunk,
            resync_depth: mirror.resync_depth,
            resync_rate: mirror.resync_rate,
            read_policy: mirror.read_policy,
            write_retries: mirror.write_retries,
            initial_sync: mirror.initial_sync,
            scrub: mirror.scrub,
            failback: mirror.failback,
            mark_ahead: mirror.mark_ahead,
            leg_queue_depth: mirror.leg_queue_depth,
        }
    }

    /// The same with other options of `mirror`.
    pub fn with_mirror(&self, mirror: MirrorConfig) -> HeteroConfig {
        HeteroConfig {
            legs: mirror.legs,
            region_size: mirror.region_size,
            bitmap_delay: mirror.bitmap_delay,
            max_dirty_regions: mirror.max_dirty_regions,
            resync_chunk: mirror.resync_chunk,
            resync_depth: mirror.resync_depth,
            resync_rate: mirror.resync_rate,
            read_policy: mirror.read_policy,
            write_retries: mirror.write_retries,
            initial_sync: mirror.initial_sync,
            scrub: mirror.scrub,
            failback: mirror.failback,
            mark_ahead: mirror.mark_ahead,
            leg_queue_depth: mirror.leg_queue_depth,
            ..self.clone()
        }
    }

    fn mirror(&self) -> MirrorConfig {
        MirrorConfig {
            legs: self.legs.clone(),
            region_size: self.region_size,
            bitmap_delay: self.bitmap_delay,
            max_dirty_regions: self.max_dirty_regions,
            resync_chunk: self.resync_chunk,
            resync_depth: self.resync_depth,
            resync_rate: self.resync_rate,
            read_policy: self.read_policy,
            write_retries: self.write_retries,
            initial_sync: self.initial_sync,
            scrub: self.scrub,
            failback: self.failback,
            mark_ahead: self.mark_ahead,
            leg_queue_depth: self.leg_queue_depth.clone(),
            request_timeout: Span::ZERO, // `on_limit` and `hedge_after` are for legs that hang
        }
    }

    fn policy(&self) -> Result<Policy, BuildError> {
        if self.legs.len() != 2 {
            let why = format!("a hetero-mirror has exactly two legs, not {}", self.legs.len());
            return Err(BuildError::at("legs", why));
        }
        let fifo = self.delay_order == DelayOrder::Fifo;
        let bound =
            |key, good: bool, what: String| if good { Ok(()) } else { Err(BuildError::at(key, what)) };
        let Ratio { num, den } = self.wait_ratio;
        bound(
            "wait_ratio",
            num > 0 && num / den <= 1000,
            format!("{num}/{den} is not above 0 and at most 1000"),
        )?;
        let Ratio { num, den } = self.wait_quantile;
        bound("wait_quantile", num > 0 && num < den, format!("{num}/{den} is not between 0 and 1"))?;
        bound(
            "wait_min",
            self.wait_min <= Span::from_secs(10),
            format!("{} is more than 10 s", self.wait_min),
        )?;
        let behind = self.write_behind;
        bound(
            "write_behind",
            (1..=16_383).contains(&behind),
            format!("{behind} is out of bounds: 1 to 16383"),
        )?;
        let depth = self.delay_depth.unwrap_or(if fifo { 1 } else { 4 });
        bound("delay_depth", (1..=256).contains(&depth), format!("{depth} is out of bounds: 1 to 256"))?;
        let batch = self.delay_batch;
        bound(
            "delay_batch",
            (4096..=16 << 20).contains(&batch.0),
            format!("{batch} is out of bounds: 4 KiB to 16 MiB"),
        )?;
        let (bytes, time) = (self.max_exposed_bytes, self.max_exposed_time);
        bound("max_exposed_bytes", bytes.0 >= 64 << 10, format!("{bytes} is less than 64 KiB"))?;
        let times = Span::from_ms(1)..=Span::from_secs(3600);
        bound("max_exposed_time", times.contains(&time), format!("{time} is out of bounds: 1 ms to 1 h"))?;
        let (hedge, hedges) = (self.hedge_after, Span::from_us(1)..=Span::from_secs(10));
        bound(
            "hedge_after",
            hedge == Span::ZERO || hedges.contains(&hedge),
            format!("{hedge} is out of bounds: 0, or 1 us to 10 s"),
        )?;
        let backlog = self.critical_backlog;
        bound("critical_backlog", backlog <= 65_535, format!("{backlog} is out of bounds: 0 to 65535"))?;
        bound(
            "write_batching",
            self.write_batching == HoldMode::Never || self.write_ack == AckMode::First,
            "with `write_ack` other than \"first\" each write would wait for the leg that rests".into(),
        )?;
        Ok(Policy {
            ack: match self.write_ack {
                AckMode::First => Ack::First,
                AckMode::WaitLimit => Ack::WaitLimit,
                AckMode::Both => Ack::Both,
                AckMode::Leader => Ack::Leader,
            },
            behind: behind as usize,
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
            depth,
            batch: batch.0,
            resume: self.resume_below.unwrap_or(if fifo { ByteLen::ZERO } else { ByteLen::mib(1) }).0,
            exposed_bytes: bytes.0,
            exposed_time: time,
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
