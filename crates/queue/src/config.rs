//! Options of `queue`.

use crate::cost::CostConfig;
use crate::machine::{Parts, Queue};
use crate::order::OrderConfig;
use crate::schedulers::{
    Anticipatory, AnticipatoryConfig, Cffq, CffqConfig, Cfq, CfqConfig, Deadline, DeadlineConfig, Drr,
    DrrConfig, Fios, FiosConfig, FlashFq, FlashFqConfig, Noop, Scheduler, Slices, Vssd, VssdConfig, Weights,
};
use nandu_base::{BuildContext, BuildError, DeviceConfig, Kind, Machine, Plant, Span};
use schemars::JsonSchema;
use serde::Deserialize;

/// Options of `queue`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct QueueConfig {
    /// The device below.
    pub below: String,
    /// Who goes next.
    #[serde(default)]
    pub scheduler: SchedulerConfig,
    /// In which order the requests of one tenant go. For `noop`, `cfq` with slices `slo`, `cffq`, `flashfq` and `drr`; the
    /// others have an order of their own.
    #[serde(default)]
    pub order: OrderConfig,
    /// Requests on their way below at a time. Default: what the device below takes; 1 with `anticipatory`. From 1 to 65536.
    #[schemars(range(min = 1, max = 65_536))]
    pub depth: Option<u32>,
    /// What a request is taken to cost.
    #[serde(default)]
    pub cost: CostConfig,
    /// How far ahead of its `max` rates a tenant may be. Default 1 ms.
    #[serde(default = "burst")]
    pub burst: Span,
    /// How often a tenant's latency is compared with its `target_latency`. Default 100 ms; more than 0.
    #[serde(default = "window")]
    pub window: Span,
}

fn burst() -> Span {
    Span::from_ms(1)
}

fn window() -> Span {
    Span::from_ms(100)
}

/// Who goes next.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum SchedulerConfig {
    /// One queue for all.
    Noop,
    /// Along the addresses, with deadlines.
    Deadline(DeadlineConfig),
    /// An elevator that waits for the one who will be back.
    Anticipatory(AnticipatoryConfig),
    /// Slices of time in turn.
    Cfq(CfqConfig),
    /// CFQ's turns with FIFO inside.
    Cffq(CffqConfig),
    /// Slices of cost in epochs, reads first.
    Fios(FiosConfig),
    /// Start-time fair queueing with a bound.
    #[serde(rename = "flashfq")]
    FlashFq(FlashFqConfig),
    /// Credits over channel queues.
    Vssd(VssdConfig),
    /// Deficit round robin by cost.
    Drr(DrrConfig),
}

impl Default for SchedulerConfig {
    fn default() -> SchedulerConfig {
        SchedulerConfig::Drr(DrrConfig::default())
    }
}

/// Faults that can be planted.
pub(crate) const FORGETS: &str = "queue.forgets";
pub(crate) const CUTS_SHORT: &str = "queue.cuts-short";

const PLANTS: &[Plant] = &[
    Plant::new(FORGETS, "progress", "now and then a request that had to wait is never sent"),
    Plant::new(CUTS_SHORT, "I-1", "now and then a write that had to wait is answered without being sent"),
];

/// The machine kind `queue`.
pub fn kind() -> Kind {
    Kind::of::<QueueConfig>("queue", "fair queue: who goes next when tenants share a device")
        .with_plants(PLANTS)
}

impl QueueConfig {
    fn check(&self) -> Result<(), BuildError> {
        if self.depth.is_some_and(|d| d == 0 || d > 65_536) {
            return Err(BuildError::at("depth", "1 to 65536 requests can be on their way"));
        }
        if self.window == Span::ZERO {
            return Err(BuildError::at("window", "is longer than nothing"));
        }
        if let Some(flaw) = self.cost.flaw() {
            return Err(BuildError::at("cost", flaw));
        }
        if let Some(flaw) = self.order.flaw() {
            return Err(BuildError::at("order", flaw));
        }
        self.scheduler.flaw().map_or(Ok(()), |flaw| Err(BuildError::at("scheduler", flaw)))
    }

    /// Whether the scheduler asks the knob `order`.
    fn takes_order(&self) -> bool {
        match &self.scheduler {
            SchedulerConfig::Noop
            | SchedulerConfig::Cffq(_)
            | SchedulerConfig::FlashFq(_)
            | SchedulerConfig::Drr(_) => true,
            SchedulerConfig::Cfq(c) => c.slices == Slices::Slo,
            _ => false,
        }
    }
}

impl SchedulerConfig {
    /// What is wrong with its options, if anything is.
    pub fn flaw(&self) -> Option<&'static str> {
        let least = Span::from_us(10);
        let flaw = match self {
            SchedulerConfig::Cfq(c) if c.slice_sync == Span::ZERO || c.slice_async == Span::ZERO => {
                "`slice_sync` and `slice_async` are longer than nothing"
            }
            SchedulerConfig::Cfq(c) if c.quantum == 0 => "`quantum` is at least 1",
            SchedulerConfig::Cfq(c) if c.async_requests == Some(0) => "`async_requests` is at least 1",
            SchedulerConfig::Cfq(c)
                if c.slices == Slices::Slo && (c.sync_first || c.async_requests.is_some()) =>
            {
                "`sync_first` and `async_requests` are of classic slices: with `slo` a tenant has one queue"
            }
            SchedulerConfig::Cffq(c) if c.slice == Span::ZERO => "`slice` is longer than nothing",
            SchedulerConfig::Deadline(c) if c.batch == 0 => "`batch` is at least 1",
            SchedulerConfig::Fios(c) if c.slice < least => "`slice` is at least 10 us",
            SchedulerConfig::Drr(c) if c.quantum < least => "`quantum` is at least 10 us",
            SchedulerConfig::Vssd(c) if c.credits < least => "`credits` is at least 10 us",
            SchedulerConfig::Vssd(c) if c.per_channel == 0 => "`per_channel` is at least 1",
            SchedulerConfig::Vssd(c) if c.channels == 0 || c.channels > 64 => "`channels` is 1 to 64",
            _ => return None,
        };
        Some(flaw)
    }

    /// The scheduler for tenants of these weights, SYSTEM first, for a device that has one for each of its parts. `order` is for
    /// those that ask it.
    pub fn boxed(&self, weights: Weights, order: OrderConfig) -> Box<dyn Scheduler> {
        match *self {
            SchedulerConfig::Noop => Box::new(Noop::new(order)),
            SchedulerConfig::Deadline(c) => Box::new(Deadline::new(c)),
            SchedulerConfig::Anticipatory(c) => Box::new(Anticipatory::new(c, weights.0.len())),
            SchedulerConfig::Cfq(c) => Box::new(Cfq::new(c, weights, order)),
            SchedulerConfig::Cffq(c) => Box::new(Cffq::new(c, weights, order)),
            SchedulerConfig::Fios(c) => Box::new(Fios::new(c, weights)),
            SchedulerConfig::FlashFq(c) => Box::new(FlashFq::new(c, weights, order)),
            SchedulerConfig::Vssd(c) => Box::new(Vssd::new(c, weights)),
            SchedulerConfig::Drr(c) => Box::new(Drr::new(c, weights, order)),
        }
    }
}

impl DeviceConfig for QueueConfig {
    fn children(&self) -> Vec<String> {
        vec![self.below.clone()]
    }

    fn build(&self, cx: &BuildContext<'_>) -> Result<Box<dyn Machine>, BuildError> {
        self.check()?;
        if !self.takes_order() && self.order != OrderConfig::Fifo {
            return Err(BuildError::at(
                "order",
                "this scheduler has an order of its own; only `fifo` goes with it",
            ));
        }
        if let Some((tenant, flaw)) = cx.shares.iter().find_map(|t| Some((&t.name, t.flaw()?))) {
            return Err(BuildError { key: None, reason: format!("tenant `{tenant}`: {flaw}") });
        }
        let below = cx.only_child();
        let single = matches!(self.scheduler, SchedulerConfig::Anticipatory(_));
        let depth = self.depth.unwrap_or(if single { 1 } else { below.depth.max(1) });
        let lanes = matches!(self.scheduler, SchedulerConfig::Vssd(_));
        let parts = Parts {
            limits: below.clone(),
            depth,
            cost: self.cost,
            tenants: cx.shares,
            burst: self.burst,
            window: self.window,
            lanes,
            forgets: cx.planted(FORGETS),
            cuts_short: cx.planted(CUTS_SHORT),
        };
        let weights = Weights(cx.shares.iter().map(|t| t.weight.max(1)).collect());
        let (tenants, order) = (cx.shares.len(), self.order);
        Ok(match self.scheduler {
            SchedulerConfig::Noop => Queue::boxed(Noop::new(order), parts),
            SchedulerConfig::Deadline(c) => Queue::boxed(Deadline::new(c), parts),
            SchedulerConfig::Anticipatory(c) => Queue::boxed(Anticipatory::new(c, tenants), parts),
            SchedulerConfig::Cfq(c) => Queue::boxed(Cfq::new(c, weights, order), parts),
            SchedulerConfig::Cffq(c) => Queue::boxed(Cffq::new(c, weights, order), parts),
            SchedulerConfig::Fios(c) => Queue::boxed(Fios::new(c, weights), parts),
            SchedulerConfig::FlashFq(c) => Queue::boxed(FlashFq::new(c, weights, order), parts),
            SchedulerConfig::Vssd(c) => Queue::boxed(Vssd::new(c, weights), parts),
            SchedulerConfig::Drr(c) => Queue::boxed(Drr::new(c, weights, order), parts),
        })
    }
}
