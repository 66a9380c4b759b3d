//! The hybrid disk (Yoo, Hong, Shin): which share of SLC cells makes it quick, long-lived and frugal.
//!
//! Each of three loads runs on the disk with eleven shares of SLC, and with half of it in other readings of what the paper leaves open, and on other
//! flash caches. What is assumed is in the experiment's README. [`runs`] has the stacks and runs them, [`verdicts`] holds what came
//! out against the claims.

mod runs;
mod verdicts;

use super::runner::Runner;
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

fn measure(runner: &Runner) -> Result<Findings, Failure> {
    let (mut found, mut all) = (Findings::default(), Vec::new());
    for load in LOADS {
        let groups: Vec<Group> =
            Group::ALL.into_iter().filter(|group| group.is_wanted(runner, load)).collect();
        if groups.is_empty() {
            continue;
        }
        let runs = Runs::of(runner, load, &groups)?;
        for group in groups {
            match group {
                Group::Ratios => verdicts::ratios(&runs, &mut found),
                Group::Price => verdicts::price(&runs, &mut found),
                Group::Zones => verdicts::zones(&runs, &mut found),
                Group::Readings => verdicts::readings(&runs, &mut found),
                Group::Others => verdicts::others(&runs, &mut found),
            }
        }
        all.push(runs);
    }
    if runner.wants_case("C4-4", GENERAL) {
        verdicts::in_general(&all, &mut found);
    }
    if runner.wants_case("C4-4", GENERAL_PRICE) {
        verdicts::in_general_price(&all, &mut found);
    }
    if runner.only.is_empty() {
        verdicts::figures(&all, &mut found);
    }
    Ok(found)
}

/// The case of C4-4 that is about all loads.
const GENERAL: &str = "in general";
/// The same where drives cost as much.
const GENERAL_PRICE: &str = "same price, in general";
/// What cases begin with that compare drives of one price.
const PRICE: &str = "same price";

/// Claims that rest on the same runs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Group {
    Ratios,
    /// The same claims, of drives that cost as much.
    Price,
    Zones,
    Readings,
    Others,
}

impl Group {
    const ALL: [Group; 5] = [Group::Ratios, Group::Price, Group::Zones, Group::Readings, Group::Others];

    fn claims(self) -> &'static [&'static str] {
        match self {
            Group::Ratios => &["C4-1", "C4-2", "C4-3", "C4-4", "C4-5", "C4-6"],
            Group::Price => &["C4-1", "C4-2", "C4-4", "C4-5", "C4-6"],
            Group::Zones => &["C4-7"],
            Group::Readings => &["O4-1", "O4-2", "O4-5", "O4-9", "O4-14", "W4-2", "W4-5"],
            Group::Others => &["B4-3", "B4-4", "B4-5", "B4-7"],
        }
    }

    /// Whether one of its claims is asked for, of this load.
    fn is_wanted(self, runner: &Runner, load: &str) -> bool {
        let is_here = |case: &str| {
            let general = if self == Group::Price { GENERAL_PRICE } else { GENERAL };
            case.starts_with(PRICE) == (self == Group::Price) && (case == general || case.contains(load))
        };
        self.claims().iter().any(|id| runner.wants_some(id, is_here))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Claims and findings name the same cases; and a ring that is a tenth is there.
    #[test]
    fn every_claim_is_measured_or_says_why_not() {
        let runner = Runner::small(1_200);
        let found = measure(&runner).expect("the stacks are well formed");
        for claim in PAPER.expected().claims {
            let mut all = found.measured.iter();
            let measured = all.find(|m| m.id == claim.id && m.case == claim.case);
            assert!(measured.is_some(), "{} {}", claim.id, claim.case);
        }
        assert!(found.measured.iter().all(|m| m.value.is_some() || !m.reason.is_empty()));
    }

    /// What is run follows from what is asked for, and comes out the same.
    #[test]
    fn a_case_that_is_asked_for_needs_no_other_load() {
        let only = ["C4-7 bonnie, energy", "B4-3 bonnie, reads"].map(String::from).into();
        let some = measure(&Runner { only, ..Runner::small(1_200) }).expect("the stacks are well formed");
        let all = measure(&Runner::small(1_200)).expect("the stacks are well formed");
        assert!(some.measured.iter().all(|m| m.case.contains("bonnie")));
        for m in &some.measured {
            let same = all.measured.iter().find(|other| other.id == m.id && other.case == m.case);
            assert_eq!(same.map(|other| other.value), Some(m.value), "{} {}", m.id, m.case);
        }
        assert_eq!(some.measured.len(), 2 + 2 + 3 * runs::OTHERS.len());
    }
}
