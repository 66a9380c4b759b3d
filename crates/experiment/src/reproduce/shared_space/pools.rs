//! A pool of units that is set aside for lending: equation (1) as units that hold nothing of any tenant (S3-11, O3-4).
//!
//! The paper has its users give up "a part of the space that they were allocated", and does not say whether they fill the rest as before. What is set
//! aside at Table 2's 15 % of spare units and filled to the rest has no room for 10 % of all. So a tenant exports as much less, and the
//! arrangements without a pool have the same units and the same data.

use super::pair::{Collection, PAIRS, POOLS, Pair, Unit, Way, may_set_aside};
use super::verdicts::{in_words, more, put, sides, slowest};
use crate::failure::Failure;
use crate::reproduce::runner::Runner;
use crate::reproduce::{Findings, Measured};

const WIDE: Unit = Unit::Superblock;
/// The claims that have these cases.
pub const CLAIMS: [&str; 3] = ["C3-1", "C3-2", "C3-4"];
/// Why the quick form has no figures.
const TOO_SHORT: &str = "a tenant has not used what it has spare beside a pool before the run ends";

/// What was run with a share set aside.
pub struct Pool {
    /// The share, in percent.
    pub percent: u64,
    /// The pairs of Table 4.
    pub pairs: Vec<Pair>,
}

/// With what their cases begin.
const CASES: &str = "reserved pool";

fn case(percent: u64) -> String {
    format!("{CASES}, {percent} %")
}

/// Whether this is one of these cases.
pub fn has(case: &str) -> bool {
    case.starts_with(CASES)
}

/// Runs and judges the shares that are asked for.
pub fn measure(runner: &Runner, found: &mut Findings) -> Result<Vec<Pool>, Failure> {
    let mut pools = Vec::new();
    for percent in POOLS {
        if !CLAIMS.iter().any(|id| runner.wants_case(id, &case(percent))) {
            continue;
        }
        if !may_set_aside(runner) {
            for id in CLAIMS {
                let (case, reason) = (case(percent), TOO_SHORT.into());
                found.measured.push(Measured { id, case, reason, ..Measured::default() });
            }
            continue;
        }
        let pairs = PAIRS.iter().map(|loads| Pair::with_pool(runner, percent, *loads));
        let pool = Pool { percent, pairs: pairs.collect::<Result<_, _>>()? };
        judge(&pool, found);
        pools.push(pool);
    }
    Ok(pools)
}

fn judge(Pool { percent, pairs }: &Pool, found: &mut Findings) {
    let (way, case) = (Way::Reserved(*percent), case(*percent));
    let gained = sides(pairs, WIDE, way, Collection::gained);
    let reason = in_words(pairs, gained.as_deref(), 0, " pages gained in a second of a die's time");
    put(found, "C3-1", &case, gained.as_deref().map(more), pairs, reason);
    let ms = sides(pairs, WIDE, way, Collection::latency_ms);
    let reason = in_words(pairs, ms.as_deref(), 2, " ms");
    put(found, "C3-2", &case, ms.as_deref().map(|ms| -more(ms)), pairs, reason);
    slowest(&case, (Way::VssdBehindCfq, way), |t| t.total.mean_ns, pairs, found);
}
