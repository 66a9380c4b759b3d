//! The option `die_scheduler`: which operation a die does next.

use super::{SsdConfig, timing_of};
use crate::nand::queued::{Costs, Queued, Suspending};
use crate::nand::{Geometry, Profile};
use nandu_base::{BuildContext, BuildError, Registry, Span, options};
use nandu_ftl::Units;
use nandu_queue::config::SchedulerConfig;
use nandu_queue::order::OrderConfig;
use nandu_queue::schedulers::{Given, Weights};

/// Which operation a die does next.
#[options]
#[derive(Clone, PartialEq, Debug, Default)]
pub enum DieScheduler {
    /// First come, first served: an operation takes its die when nothing stands before it any more, behind what the die has.
    #[default]
    Fcfs,
    /// Operations wait for their die; reads of the host and of the map go first.
    OutOfOrder {
        /// Reads that may overtake the oldest operation of another kind; 0 keeps the order of issue.
        #[option(default = 16, range = ..=65_535)]
        max_read_bypass: u32,
        /// Programs and erases that run stand still for reads of the host.
        #[option(unset = "they do not", table)]
        suspend: Option<SuspensionConfig>,
        /// Whose operation a die does next: one of the schedulers of `queue`, for each die, by the time that operations take. The
        /// order within a tenant stays that of `max_read_bypass`, but `fios`, `vssd` and classic `cfq` have their own. By default tenants are
        /// not told apart. Not `deadline` and `anticipatory`, which walk along addresses.
        tenant_scheduler: Option<SchedulerConfig>,
    },
}

/// How programs and erases that run are suspended for reads.
#[options]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SuspensionConfig {
    /// Times that one program may be suspended.
    #[option(default = 1, range = ..=65_535)]
    pub max_per_program: u32,
    /// Times that one erase may be suspended.
    #[option(default = 4, range = ..=65_535)]
    pub max_per_erase: u32,
    /// From the suspension until the die can read. Data sheets say 5 to some 100 us.
    #[option(default = Span::from_us(20), range = ..=Span::from_secs(1))]
    pub suspend_latency: Span,
    /// From the last read until the operation goes on.
    #[option(default = Span::from_us(20), range = ..=Span::from_secs(1))]
    pub resume_latency: Span,
}

impl SuspensionConfig {
    fn plan(&self) -> Suspending {
        Suspending {
            programs: self.max_per_program,
            erases: self.max_per_erase,
            suspend: self.suspend_latency,
            resume: self.resume_latency,
        }
    }
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
            &DieScheduler::OutOfOrder { max_read_bypass, suspend, ref tenant_scheduler } => {
                let plane_bits = geometry.planes.trailing_zeros();
                let mut queue = Queued::new(units.chips(), plane_bits, units.width(), max_read_bypass);
                queue.follows_erases = !self.gc.separate_frontier;
                if let Some(suspend) = suspend {
                    queue.suspend_with(suspend.plan());
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
        let refuse = |flaw: &'static str| BuildError::at("die_scheduler.tenant_scheduler", flaw);
        let scheduler =
            scheduler.options().map_err(|error| error.within("die_scheduler.tenant_scheduler"))?;
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

    /// Refuses a suspension that suspends nothing.
    pub(super) fn check_suspension(&self) -> Result<(), BuildError> {
        match &self.die_scheduler {
            DieScheduler::OutOfOrder { suspend: Some(s), .. }
                if s.max_per_program == 0 && s.max_per_erase == 0 =>
            {
                let why = "no program and no erase may stand still: give `max_per_program` or `max_per_erase`, or leave it out";
                Err(BuildError::at("die_scheduler.suspend", why))
            }
            _ => Ok(()),
        }
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
