//! The hybrid disk (Yoo, Hong, Shin): which share of SLC cells makes it quick, long-lived and frugal.
//!
//! Each of three loads runs on the disk with eleven shares of SLC, and with half of it in other readings of what the paper leaves open, and on other
//! flash caches. What is assumed is in the experiment's README. [`runs`] has the stacks and runs them, [`verdicts`] holds what came
//! out against the claims.

mod runs;
mod verdicts;

use super::lab::Lab;
use super::{Findings, Paper};
use crate::failure::Failure;
use runs::{LOADS, Runs};

/// The paper.
pub const PAPER: Paper = Paper {
    name: "hybrid-disk",
    requests: 400_000,
    quick: 20_000,
    expected: include_str!("../../../experiments/04-hybrid-disk/expected.json"),
    full_only: include_str!("../../../experiments/04-hybrid-disk/full-only.json"),
    measure,
};

fn measure(lab: &Lab) -> Result<Findings, Failure> {
    let all: Vec<Runs> = LOADS.iter().map(|load| Runs::of(lab, load)).collect::<Result<_, _>>()?;
    let mut found = Findings::default();
    for runs in &all {
        verdicts::ratios(runs, &mut found);
        verdicts::zones(runs, &mut found);
        verdicts::readings(runs, &mut found);
        verdicts::others(runs, &mut found);
    }
    verdicts::in_general(&all, &mut found);
    verdicts::figures(&all, &mut found);
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Claims and findings name the same cases; and a ring that is a tenth is there.
    #[test]
    fn every_claim_is_measured_or_says_why_not() {
        let lab = Lab::small(1_200);
        let found = measure(&lab).expect("the stacks are well formed");
        for claim in PAPER.expected().claims {
            let mut all = found.measured.iter();
            let measured = all.find(|m| m.id == claim.id && m.case == claim.case);
            assert!(measured.is_some(), "{} {}", claim.id, claim.case);
        }
        assert!(found.measured.iter().all(|m| m.value.is_some() || !m.reason.is_empty()));
    }
}
