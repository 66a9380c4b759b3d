//! The options of the arbiter.

use super::SsdConfig;
use crate::nand::queued::{Queued, Suspending};
use crate::nand::Geometry;
use nandu_base::{BuildError, Span};
use nandu_ftl::Units;
use schemars::JsonSchema;
use serde::Deserialize;

/// Which operation a die does next.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Arbiter {
    /// First come, first served: every operation has its time as soon as it is issued.
    #[default]
    Fcfs,
    /// Operations wait for their die; reads of the host go first.
    Queued {
        /// Reads that may overtake the oldest operation of another kind, 0 to 65535; 0 keeps the order of issue.
        #[serde(default = "default_reads_ahead")]
        reads_ahead: u32,
        /// Programs and erases that run stand still for reads of the host; by default they do not.
        suspension: Option<SuspensionConfig>,
    },
}

/// How programs and erases that run are suspended for reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SuspensionConfig {
    /// Times that one program may be suspended, 0 to 65535; 1 by default.
    pub programs: u32,
    /// Times that one erase may be suspended, 0 to 65535; 4 by default.
    pub erases: u32,
    /// From the suspension until the die can read: 20 us by default. Data sheets say 5 to some 100 us.
    pub suspend: Span,
    /// From the last read until the operation goes on: 20 us by default.
    pub resume: Span,
}

impl Default for SuspensionConfig {
    fn default() -> SuspensionConfig {
        SuspensionConfig { programs: 1, erases: 4, suspend: Span::from_us(20), resume: Span::from_us(20) }
    }
}

impl SuspensionConfig {
    fn plan(&self) -> Result<Suspending, BuildError> {
        let SuspensionConfig { programs, erases, suspend, resume } = *self;
        if programs.max(erases) > 65_535 {
            return Err(BuildError::at("arbiter", "an operation is suspended at most 65535 times"));
        }
        if suspend.longer(resume) > Span::from_secs(1) {
            return Err(BuildError::at("arbiter", "`suspend` and `resume` take at most 1 s each"));
        }
        Ok(Suspending { programs, erases, suspend, resume })
    }
}

fn default_reads_ahead() -> u32 {
    16
}

impl SsdConfig {
    /// The queue of the arbiter `queued`; none for `fcfs`.
    pub(super) fn queue(&self, units: &Units, geometry: Geometry) -> Result<Option<Queued>, BuildError> {
        match self.arbiter {
            Arbiter::Fcfs => Ok(None),
            Arbiter::Queued { reads_ahead: 65_536.., .. } => {
                Err(BuildError::at("arbiter", "reads_ahead is not within 0 to 65535"))
            }
            // The host's pages could fill the last free block before the erase that replaces it, and a cut come in between.
            Arbiter::Queued { .. } if !self.gc.separate => {
                Err(BuildError::at("gc", "separate = false is for the arbiter `fcfs` only"))
            }
            Arbiter::Queued { reads_ahead, suspension } => {
                let plane_bits = geometry.planes.trailing_zeros();
                let mut queue = Queued::new(units.chips(), plane_bits, units.width(), reads_ahead);
                if let Some(suspension) = suspension {
                    queue.suspend_with(suspension.plan()?);
                }
                Ok(Some(queue))
            }
        }
    }
}
