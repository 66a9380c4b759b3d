//! The option `die_scheduler`: which operation a die does next.

use super::{SsdConfig, timing_of};
use crate::nand::queued::{Costs, Queued, Suspending};
use crate::nand::{Geometry, Profile};
use nandu_base::{BuildContext, BuildError, Registry, Span};
use nandu_ftl::Units;
use nandu_queue::config::SchedulerConfig;
use nandu_queue::order::OrderConfig;
use nandu_queue::schedulers::{Given, Weights};
use schemars::JsonSchema;
use serde::Deserialize;

/// Which operation a die does next.
#[derive(Clone, PartialEq, Debug, Default, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum DieScheduler {
    /// First come, first served: an operation takes its die when nothing stands before it any more, behind what the die has.
    #[default]
    Fcfs,
    /// Operations wait for their die; reads of the host and of the map go first.
    OutOfOrder {
        /// Reads that may overtake the oldest operation of another kind, 0 to 65535; 0 keeps the order of issue.
        #[serde(default = "default_max_read_bypass")]
        max_read_bypass: u32,
        /// Programs and erases that run stand still for reads of the host; by default they do not.
        suspend: Option<SuspensionConfig>,
        /// Whose operation a die does next: one of the schedulers of `queue`, for each die, by the time that operations take. The
        /// order within a tenant stays that of `max_read_bypass`, but `fios` and `vssd` have their own. By default tenants are
        /// not told apart. Not `deadline` and `anticipatory`, which walk along addresses.
        tenant_scheduler: Option<SchedulerConfig>,
    },
}

/// How programs and erases that run are suspended for reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SuspensionConfig {
    /// Times that one program may be suspended, 0 to 65535; 1 by default.
    pub max_per_program: u32,
    /// Times that one erase may be suspended, 0 to 65535; 4 by default.
    pub max_per_erase: u32,
    /// From the suspension until the die can read: 20 us by default. Data sheets say 5 to some 100 us.
    pub suspend_latency: Span,
    /// From the last read until the operation goes on: 20 us by default.
    pub resume_latency: Span,
}

impl Default for SuspensionConfig {
    fn default() -> SuspensionConfig {
        SuspensionConfig {
            max_per_program: 1,
            max_per_erase: 4,
            suspend_latency: Span::from_us(20),
            resume_latency: Span::from_us(20),
        }
    }
}

impl SuspensionConfig {
    fn plan(&self) -> Result<Suspending, BuildError> {
        let SuspensionConfig {
            max_per_program: programs,
            max_per_erase: erases,
            suspend_latency: suspend,
            resume_latency: resume,
        } = *self;
        if programs.max(erases) > 65_535 {
            return Err(BuildError::at("die_scheduler", "an operation is suspended at most 65535 times"));
        }
        if suspend.longer(resume) > Span::from_secs(1) {
            return Err(BuildError::at(
                "die_scheduler",
                "`suspend` and `resume_latency` take at most 1 s each",
            ));
        }
        Ok(Suspending { programs, erases, suspend, resume })
    }
}

fn default_max_read_bypass() -> u32 {
    16
}

impl SsdConfig {
    /// What is kept of operations that wait.
    pub(super) fn queue(
        &self,
        units: &Units,
        geometry: Geometry,
        profile: &Profile,
        cx: &BuildContext<'_>,
    ) -> Result<Queued, BuildError> {
        match &self.die_scheduler {
            DieScheduler::Fcfs => {
                let plane_bits = geometry.planes.trailing_zeros();
                let mut queue = Queued::without_lines(units.chips(), plane_bits, units.width());
                queue.follows_erases = !self.gc.separate_frontier;
                Ok(queue)
            }
            DieScheduler::OutOfOrder { max_read_bypass: 65_536.., .. } => {
                Err(BuildError::at("die_scheduler", "max_read_bypass is not within 0 to 65535"))
            }
            &DieScheduler::OutOfOrder { max_read_bypass, suspend, ref tenant_scheduler } => {
                let plane_bits = geometry.planes.trailing_zeros();
                let mut queue = Queued::new(units.chips(), plane_bits, units.width(), max_read_bypass);
                queue.follows_erases = !self.gc.separate_frontier;
                if let Some(suspend) = suspend {
                    queue.suspend_with(suspend.plan()?);
                }
                if let Some(scheduler) = tenant_scheduler {
                    self.share_dies(&mut queue, scheduler, max_read_bypass, profile, cx)?;
                }
                Ok(queue)
            }
        }
    }

    /// Gives every die the scheduler.
    fn share_dies(
        &self,
        queue: &mut Queued,
        scheduler: &SchedulerConfig,
        ahead: u32,
        profile: &Profile,
        cx: &BuildContext<'_>,
    ) -> Result<(), BuildError> {
        let refuse = |flaw: &'static str| BuildError::at("die_scheduler", flaw);
        let scheduler = scheduler.options()?;
        scheduler.flaw().map_or(Ok(()), |flaw| Err(refuse(flaw)))?;
        let timing = timing_of(profile, self.gc.copyback);
        let slc = self.slc_mode(profile, &timing)?.map(|(_, timing)| timing);
        let weights = Weights(cx.shares.iter().map(|tenant| tenant.weight.max(1)).collect());
        let order = OrderConfig::ReadsFirst { max_read_bypass: ahead };
        let tenants = weights.0.len();
        let given = Given { weights, order };
        scheduler.of_die(given.clone()).map_err(refuse)?;
        let of_die = || scheduler.of_die(given.clone()).expect("it is for dies");
        queue.share_by(Costs::new(timing, slc), scheduler.anticipation(), tenants, of_die);
        Ok(())
    }

    /// Looks up the scheduler of its dies.
    pub(super) fn settle_die_scheduler(&mut self, registry: &Registry) -> Result<(), BuildError> {
        match &mut self.die_scheduler {
            DieScheduler::OutOfOrder { tenant_scheduler: Some(scheduler), .. } => {
                scheduler.settle("die_scheduler.tenant_scheduler", registry)
            }
            _ => Ok(()),
        }
    }
}
