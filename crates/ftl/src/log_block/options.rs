//! What a log-block map declares beside its name.

use super::{LogBlocks, Region};
use nandu_base::BuildError;
use schemars::JsonSchema;
use serde::Deserialize;
use std::fmt::Debug;

/// The options of a log-block map, declared in its file. A registry takes them where they are [`nandu_base::Declared`] too.
pub trait LogBlockOptions: Debug + Send + Sync + 'static {
    /// How pages are dealt out to planes.
    fn dealt(&self) -> &DealtOptions;

    /// Refuses to lend log blocks; by default they are lent.
    ///
    /// # Errors
    /// Why they are not.
    fn lends(&self) -> Result<(), &'static str> {
        Ok(())
    }

    /// The map of one pool: a plane, or a tenant's part of it.
    ///
    /// # Errors
    /// The pool is too small for the log blocks that are asked for.
    fn of_pool(&self, region: Region) -> Result<Box<dyn LogBlocks>, BuildError>;
}

/// The options that all log-block maps have. They stand in the table `mapping` beside a map's own.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, JsonSchema)]
pub struct DealtOptions {
    /// Consecutive pages on one plane before the next has its turn.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 1_048_576))]
    pub interleave: u32,
}

fn one() -> u32 {
    1
}

/// The number of log blocks of a pool: so many as are `wanted`, or all that are spare beside one for a merge to go to, one for the host to go on and
/// `others`.
///
/// # Errors
/// They do not fit, or none is left.
pub fn log_blocks(region: &Region, wanted: Option<u32>, others: u32) -> Result<u32, BuildError> {
    let (good, logical) = (region.good(), region.shape().logical);
    let most = good.saturating_sub(logical + 2).saturating_sub(others);
    let logs = wanted.unwrap_or(most);
    if logs == 0 || logs > most {
        let why = format!(
            "{good} good blocks in a plane, or a tenant's part of it, hold {logical} logical ones, 2 for merges and {others} for sequential writes: {logs} \
             log blocks do not fit, at least 1 and at most {most}; raise `spare_factor` or the number of blocks"
        );
        return Err(BuildError::at("spare_factor", why));
    }
    Ok(logs)
}
