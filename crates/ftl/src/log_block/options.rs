//! What a log-block map declares beside its name.

use super::{LogBlocks, Region};
use nandu_base::options::Options;
use nandu_base::{BuildError, options};
use std::fmt::Debug;

/// The options of a log-block map, declared in its file. A registry takes them where they are [`nandu_base::Declared`] too.
pub trait LogBlockOptions: Options + Debug + Send + Sync + 'static {
    /// How pages are dealt out to planes.
    fn dealt(&self) -> &DealtOptions;

    /// Refuses to lend log blocks; by default they are lent.
    ///
    /// # Errors
    /// Why they are not.
    fn lends(&self) -> Result<(), &'static str> {
        Ok(())
    }

    /// How many log blocks a pool has.
    fn quota(&self) -> LogQuota;

    /// The map of one pool with so many log blocks: of a plane, or a tenant's part of it.
    fn of_pool(&self, region: Region, logs: u32) -> Box<dyn LogBlocks>;
}

/// The options that all log-block maps have. They stand in the table `mapping` beside a map's own.
#[options]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DealtOptions {
    /// Consecutive pages on one plane before the next has its turn.
    #[option(default = 1, range = 1..=1 << 20)]
    pub interleave: u32,
}

/// How many log blocks a pool has, by the options of its map.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogQuota {
    /// So many; all that are spare where no number is given.
    pub wanted: Option<u32>,
    /// Of these, the ones that it cannot do without.
    pub least: u32,
    /// Blocks for sequential writes beside them.
    pub others: u32,
}

/// Blocks beside those of the data and of the log: one for a merge to go to, and one for the host to go on.
const FOR_MERGES: u32 = 2;

impl LogQuota {
    /// Blocks without which a pool of so many logical ones cannot go on.
    pub fn needed(&self, logical: u32) -> u32 {
        logical + FOR_MERGES + self.least + self.others
    }

    /// The log blocks of a pool with so many `good` blocks for so many logical ones.
    ///
    /// # Errors
    /// They do not fit, or none is left.
    pub fn logs(&self, good: u32, logical: u32) -> Result<u32, BuildError> {
        let most = good.saturating_sub(logical + FOR_MERGES).saturating_sub(self.others);
        let logs = self.wanted.unwrap_or(most);
        if logs == 0 || logs > most {
            let why = format!(
                "{good} good blocks in a plane, or a tenant's part of it, hold {logical} logical ones, {FOR_MERGES} for merges and {} for sequential writes: \
                 {logs} log blocks do not fit, at least 1 and at most {most}; raise `spare_factor` or the number of blocks",
                self.others
            );
            return Err(BuildError::at("spare_factor", why));
        }
        Ok(logs)
    }
}
