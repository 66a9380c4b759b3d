//! Options of `queue`.

use crate::cost::CostConfig;
use crate::machine::Parts;
use crate::order::OrderConfig;
pub use crate::schedulers::SchedulerConfig;
use crate::schedulers::{Given, Weights};
use nandu_base::{BuildContext, BuildError, DeviceConfig, Kind, Machine, Plant, Registry, Span, options};

/// Options of `queue`.
#[options]
#[derive(Clone, Debug)]
pub struct QueueConfig {
    /// The device below.
    pub below: String,
    /// Who goes next.
    #[option(default = SchedulerConfig::named("drr"))]
    pub scheduler: SchedulerConfig,
    /// In which order the requests of one tenant go. For `noop`, `cfq` with slices `slo`, `cffq`, `flashfq` and `drr`; the others have an order of
    /// their own.
    #[option(default, unset = "`fifo`", table)]
    pub order: OrderConfig,
    /// Requests in flight below at a time.
    #[option(unset = "what the device below takes; 1 with `anticipatory`", range = 1..=65_536)]
    pub depth: Option<u32>,
    /// What a request is taken to cost.
    #[option(default, unset = "`CC`", table)]
    pub cost: CostConfig,
    /// How far ahead of its `max` rates a tenant may be.
    #[option(default = Span::from_ms(1))]
    pub burst: Span,
    /// How often a tenant's latency is compared with its `target_latency`.
    #[option(default = Span::from_ms(100), above = Span::ZERO)]
    pub latency_window: Span,
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
        self.scheduler.options()?.flaw().map_or(Ok(()), |flaw| Err(BuildError::at("scheduler", flaw)))
    }
}

impl DeviceConfig for QueueConfig {
    fn children(&self) -> Vec<String> {
        vec![self.below.clone()]
    }

    fn settle(&mut self, registry: &Registry) -> Result<(), BuildError> {
        self.scheduler.settle("scheduler", registry)
    }

    fn build(&self, cx: &BuildContext<'_>) -> Result<Box<dyn Machine>, BuildError> {
        self.check()?;
        let scheduler = self.scheduler.options()?;
        if !scheduler.takes_order() && self.order != OrderConfig::Fifo {
            return Err(BuildError::at(
                "order",
                "this scheduler has an order of its own; only `fifo` goes with it",
            ));
        }
        if let Some((tenant, flaw)) = cx.shares.iter().find_map(|t| Some((&t.name, t.flaw()?))) {
            return Err(BuildError { key: None, reason: format!("tenant `{tenant}`: {flaw}") });
        }
        let below = cx.only_child();
        let depth = self.depth.unwrap_or(if scheduler.one_at_a_time() { 1 } else { below.depth.max(1) });
        let parts = Parts {
            limits: below.clone(),
            depth,
            cost: self.cost,
            tenants: cx.shares,
            burst: self.burst,
            window: self.latency_window,
            lanes: false,
            forgets: cx.planted(FORGETS),
            cuts_short: cx.planted(CUTS_SHORT),
        };
        let weights = Weights(cx.shares.iter().map(|t| t.weight.max(1)).collect());
        Ok(scheduler.queue(Given { weights, order: self.order }, parts))
    }
}
