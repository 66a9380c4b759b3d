//! Papers, claim by claim. What is claimed, what is measured, and whether it holds.
//!
//! A paper is a folder in `experiments/` with its stack files and `expected.json`, which says what counts as reproduced
//! and is written before the measurement, and a module here that measures. [`runner`] runs stacks, [`expected`] gives
//! verdicts; the program draws the figures again.
//!
//! A figure of which nothing in the run could have made another one has no verdict ([`Measured::moot`]). Nor has a figure of the
//! quick form where the full form says otherwise: `full-only.json` of the experiment lists these; `cargo xtask results` writes it
//! from a run of each form.

pub mod expected;
mod hetero_mirroring;
mod hybrid_disk;
pub mod record;
pub mod runner;
mod segment_prefetch;
mod shared_space;
mod tpc_ftl;
mod watch;

use crate::failure::Failure;
use expected::{Claim, ClaimKind, Expected, Verdict};
use nandu_base::registry::nearest;
use runner::Runner;
use serde::Serialize;

/// A paper that can be reproduced.
pub struct Paper {
    /// The name that the command takes.
    pub name: &'static str,
    /// Requests of each load.
    pub requests: u64,
    /// Requests of each load with `--quick`.
    pub quick: u64,
    /// Its `expected.json`.
    expected: &'static str,
    /// Its `full-only.json`: number and case of each claim on which the quick form has no verdict.
    full_only: &'static str,
    /// Measures every claim.
    measure: fn(&Runner) -> Result<Findings, Failure>,
}

/// Every paper; a new one is a module and a line.
pub const PAPERS: &[Paper] = &[
    segment_prefetch::PAPER,
    hetero_mirroring::PAPER,
    tpc_ftl::PAPER,
    shared_space::PAPER,
    hybrid_disk::PAPER,
];

/// What an experiment found.
#[derive(Default)]
pub struct Findings {
    /// One for each claim that was measured.
    pub measured: Vec<Measured>,
    /// Figures of the paper, drawn again.
    pub figures: Vec<Figure>,
    /// What stands side by side without a claim.
    pub tables: Vec<Sheet>,
}

impl Findings {
    /// Unless it `could` have come out otherwise, what was measured last has no verdict; `why` ends the sentence "nothing
    /// could have shown otherwise:".
    pub fn moot_unless(&mut self, could: bool, why: &str) {
        if let Some(last) = self.measured.last_mut().filter(|_| !could) {
            last.moot = why.into();
        }
    }
}

/// A table without verdicts.
#[derive(Clone, Debug, Serialize)]
pub struct Sheet {
    /// What it shows.
    pub title: String,
    /// The heads of its columns; `<` in front stands for words, which are aligned to the left.
    pub heads: Vec<&'static str>,
    /// Its rows.
    pub rows: Vec<Vec<String>>,
}

/// A figure that belongs to a claim.
#[derive(Default)]
pub struct Measured {
    /// The claim.
    pub id: &'static str,
    /// Which case of it.
    pub case: String,
    /// The figure in the claim's unit; `None` when the run had nothing to measure.
    pub value: Option<f64>,
    /// `real` or `synthetic`: what was replayed; empty for what needs no load.
    pub origin: String,
    /// What explains the figure.
    pub reason: String,
    /// Why nothing in the run could have made another figure; empty where something could.
    pub moot: String,
}

/// How a figure is drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Shape {
    /// Points joined by lines, over a logarithmic axis.
    Log,
    /// Points joined by lines, over an even axis.
    Lines,
    /// Bars up and down from zero, over an even axis.
    Bars,
}

/// A plot.
#[derive(Clone, Debug, Serialize)]
pub struct Figure {
    /// How it is drawn.
    pub shape: Shape,
    /// Which figure of the paper, and what it shows.
    pub title: String,
    /// What the horizontal axis shows, with its unit.
    pub x: &'static str,
    /// What the vertical axis shows, with its unit.
    pub y: &'static str,
    /// Lines by name.
    pub lines: Vec<(String, Vec<(f64, f64)>)>,
}

/// A claim with what was measured.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// The claim.
    #[serde(flatten)]
    pub claim: Claim,
    /// Whose it is.
    pub kind: ClaimKind,
    /// The measured figure, in the claim's unit.
    pub measured: Option<f64>,
    /// How it came out.
    pub verdict: Verdict,
    /// The verdict of this run by itself. In the quick form `verdict` is not given where the full form says otherwise.
    pub by_itself: Verdict,
    /// `real` or `synthetic`.
    pub origin: String,
    /// What explains it.
    pub reason: String,
}

/// All outcomes of a paper.
pub struct Reproduction {
    /// What was expected.
    pub expected: Expected,
    /// Requests of each load.
    pub requests: u64,
    /// The seed.
    pub seed: u64,
    /// Every claim, in the paper's order.
    pub outcomes: Vec<Outcome>,
    /// The figures.
    pub figures: Vec<Figure>,
    /// Tables without verdicts.
    pub tables: Vec<Sheet>,
}

/// The paper called `name`.
pub fn paper(name: &str) -> Result<&'static Paper, Failure> {
    let names = || PAPERS.iter().map(|p| p.name);
    PAPERS.iter().find(|p| p.name == name).ok_or_else(|| {
        let hint = nearest(name, names()).map_or_else(String::new, |n| format!("; did you mean `{n}`?"));
        let known = names().collect::<Vec<_>>().join(", ");
        Failure::input(format!("no paper is called `{name}`; there is {known}{hint}"))
    })
}

impl Paper {
    /// The claims and their bounds.
    pub fn expected(&self) -> Expected {
        serde_json::from_str(self.expected).expect("an experiment that ships is well formed")
    }

    /// Number and case of each claim on which the quick form has no verdict.
    fn full_only(&self) -> Vec<(String, String)> {
        serde_json::from_str(self.full_only).expect("an experiment that ships is well formed")
    }

    /// Measures every claim that is asked for.
    pub fn reproduce(&self, runner: &Runner) -> Result<Reproduction, Failure> {
        let expected = self.expected();
        let Findings { measured, figures, tables } = (self.measure)(runner)?;
        for m in &measured {
            let known = expected.claims.iter().any(|c| c.id == m.id && c.case == m.case);
            assert!(known, "{} {} is measured but not in expected.json", m.id, m.case);
        }
        let full_only = if runner.quick { self.full_only() } else { Vec::new() };
        let asked = expected.claims.iter().filter(|claim| runner.wants_case(&claim.id, &claim.case));
        let outcomes = asked.map(|claim| {
            let open = full_only.iter().any(|(id, case)| *id == claim.id && *case == claim.case);
            outcome(claim, &measured, open)
        });
        let outcomes = outcomes.collect();
        Ok(Reproduction { expected, requests: runner.requests, seed: runner.seed, outcomes, figures, tables })
    }
}

/// A claim and what was found of it; `open` where this form is too short to tell.
fn outcome(claim: &Claim, measured: &[Measured], open: bool) -> Outcome {
    let found = measured.iter().find(|m| m.id == claim.id && m.case == claim.case);
    let value = found.and_then(|m| m.value).filter(|v| v.is_finite());
    let moot = found.map_or("", |m| m.moot.as_str());
    let by_itself = claim.verdict(value.filter(|_| moot.is_empty()));
    // A file is the same in both forms.
    let generated = found.is_none_or(|m| ["", "synthetic"].contains(&m.origin.as_str()));
    let open = open && generated && by_itself != Verdict::NotMeasured;
    let reason = match found {
        Some(m) => m.reason.clone(),
        None if claim.reproduced.is_some() => "the trace is not at hand".into(),
        None => "nothing here measures it".into(),
    };
    let reason = match (open, moot) {
        (true, _) => join("only the full form can tell", &reason),
        (false, "") => reason,
        (false, why) => join(&format!("nothing could have shown otherwise: {why}"), &reason),
    };
    Outcome {
        claim: claim.clone(),
        kind: claim.kind(),
        measured: value,
        verdict: if open { Verdict::NotMeasured } else { by_itself },
        by_itself,
        origin: found.map_or_else(String::new, |m| m.origin.clone()),
        reason,
    }
}

fn join(first: &str, second: &str) -> String {
    if second.is_empty() { first.into() } else { format!("{first}; {second}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_experiment_is_well_formed() {
        for paper in PAPERS {
            let expected = paper.expected();
            assert_eq!(expected.paper, paper.name);
            for claim in &expected.claims {
                let same = |c: &&Claim| c.id == claim.id && c.case == claim.case;
                assert_eq!(expected.claims.iter().filter(same).count(), 1, "{} {}", claim.id, claim.case);
                assert_eq!(claim.reproduced.is_some(), claim.direction.is_some(), "{}", claim.id);
            }
            for (id, case) in paper.full_only() {
                let known = expected.claims.iter().any(|c| c.id == id && c.case == case);
                assert!(known, "{}: {id} {case} is in full-only.json and no claim", paper.name);
            }
        }
    }

    #[test]
    fn what_could_not_fail_and_what_is_too_short_has_no_verdict() {
        let mut claims = PAPERS[0].expected().claims.into_iter();
        let claim = claims.find(|c| c.id == "C0-4").expect("it is claimed");
        let least = claim.reproduced.and_then(|b| b.0).expect("C0-4 has a least figure");
        let (id, case) = ("C0-4", claim.case.clone());
        let mut found = Findings::default();
        let value = Some(least + 1.0);
        let reason = String::from("so it is");
        found.measured.push(Measured {
            id,
            case,
            value,
            origin: "synthetic".into(),
            reason,
            ..Measured::default()
        });
        let of = |found: &Findings, open| {
            let o = outcome(&claim, &found.measured, open);
            (o.verdict, o.by_itself, o.reason)
        };
        let (yes, none) = (Verdict::Reproduced, Verdict::NotMeasured);
        assert_eq!(of(&found, false), (yes, yes, "so it is".into()));
        assert_eq!(of(&found, true), (none, yes, "only the full form can tell; so it is".into()));
        found.moot_unless(true, "never said");
        assert_eq!(of(&found, false).0, yes);
        found.moot_unless(false, "one block");
        let why = "nothing could have shown otherwise: one block; so it is";
        assert_eq!(of(&found, true), (none, none, why.into()));
    }
}
