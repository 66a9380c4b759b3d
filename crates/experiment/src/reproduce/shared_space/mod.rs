//! Shared space (2019): two tenants of a drive lend each other erased units before they collect, against the VSSD framework, where
//! each has its own.
//!
//! Three pairs of loads run on each arrangement of the drive: with units of 20 MiB and with single blocks, without lending and with
//! several shares of it; once more with loads that come in phases ([`bursts`]), and once with units that are set aside ([`pools`]). What the paper leaves open is in the experiment's README.
//! [`pair`] runs, [`verdicts`] holds what came out against the claims, [`side`] sets arrangements side by side. [`scenes`] are the small
//! examples of the paper, [`shootout`] compares schedulers.

mod bursts;
mod pair;
mod pools;
mod scenes;
mod shootout;
mod side;
mod verdicts;

use super::runner::Runner;
use super::{Findings, Paper};
use crate::failure::Failure;
use pair::{PAIRS, Pair};

/// The paper.
pub const PAPER: Paper = Paper {
    name: "shared-space",
    requests: 300_000,
    quick: 60_000,
    expected: include_str!("../../../experiments/03-shared-space/expected.json"),
    full_only: include_str!("../../../experiments/03-shared-space/full-only.json"),
    measure,
};

fn measure(runner: &Runner) -> Result<Findings, Failure> {
    let mut found = Findings::default();
    if runner.wants(&["C3-5", "C3-6", "C3-8"]) {
        scenes::measure(runner, &mut found)?;
    }
    if runner.wants(&["C3-11"]) {
        shootout::measure(runner, &mut found)?;
    }
    let beside = [&["C3-5", "C3-6", "C3-8", "C3-11"][..], &pools::CLAIMS].concat();
    let without_pool = |id: &&str| runner.wants_some(id, |case| !pools::has(case));
    if runner.wants_beside(&beside) || pools::CLAIMS.iter().any(without_pool) {
        pairs(runner, &mut found)?;
    }
    let pools = pools::measure(runner, &mut found)?;
    side::pools(&pools, &mut found);
    Ok(found)
}

/// What is measured on pairs of tenants.
fn pairs(runner: &Runner, found: &mut Findings) -> Result<(), Failure> {
    let pairs: Vec<Pair> = PAIRS.iter().map(|loads| Pair::run(runner, *loads)).collect::<Result<_, _>>()?;
    verdicts::collection(&pairs, found);
    verdicts::hosts(&pairs, found);
    verdicts::lending(&pairs, found);
    verdicts::workloads(runner, found)?;
    verdicts::presets(found)?;
    let phased = bursts::measure(runner, found)?;
    side::tables(&pairs, &phased, found);
    verdicts::figures(&pairs, found);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::pair::{BETA, Unit, Way};
    use super::*;

    fn runner(requests: u64) -> Runner<'static> {
        Runner::small(requests)
    }

    /// What C3-1, C3-2 and C3-9 rest on.
    #[test]
    fn who_borrows_clears_later_and_moves_less() {
        let pair = Pair::run(&runner(60_000), PAIRS[0]).expect("the stack is well formed");
        for unit in [Unit::Superblock, Unit::Block] {
            let of = |way| pair.collection(unit, way).expect("financial1 collects");
            let (vssd, shared) = (of(Way::Vssd), of(Way::Shared(BETA)));
            assert!(shared.cleared < vssd.cleared && shared.valid() < vssd.valid(), "{shared:?}, {vssd:?}");
            assert!(shared.latency_ms() < vssd.latency_ms() && shared.gained() > vssd.gained());
        }
    }

    /// Claims and findings name the same cases, and what has not happened has no figure.
    #[test]
    fn where_nothing_is_collected_lending_changes_nothing() {
        let found = measure(&runner(1_000)).expect("the stack is well formed");
        let value = |id: &str, case: &str| {
            let mut all = found.measured.iter();
            all.find(|m| m.id == id && m.case == case).expect("it is measured").value
        };
        assert_eq!(value("C3-1", "pages gained"), None);
        assert_eq!(value("C3-4", "lending alone, mean"), Some(1.0));
        assert_eq!(value("W3-7", "pages programmed"), Some(1.0));
        for claim in PAPER.expected().claims {
            let known = found.measured.iter().any(|m| m.id == claim.id && m.case == claim.case);
            assert!(known, "{} {}", claim.id, claim.case);
        }
    }
}
