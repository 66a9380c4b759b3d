//! `nandu reproduce`: papers, claim by claim. What is claimed, what is measured, and whether it holds.
//!
//! A paper is a folder in `experiments/` with its stack files and `expected.json`, which says what counts as reproduced
//! and is written before the measurement, and a module here that measures. [`lab`] runs stacks, [`expected`] gives
//! verdicts, [`page`] draws the figures again.

pub mod expected;
mod hetero_mirroring;
mod hybrid_disk;
pub mod lab;
pub mod page;
mod segment_prefetch;
mod shared_space;
mod tpc_ftl;
mod watch;

use crate::failure::Failure;
use expected::{Claim, Expected, Verdict};
use lab::Lab;
use nandu_base::registry::nearest;
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
    /// Measures every claim.
    measure: fn(&Lab) -> Result<Findings, Failure>,
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
pub struct Measured {
    /// The claim.
    pub id: &'static str,
    /// Which case of it.
    pub case: String,
    /// The figure in the claim's unit; `None` when the run had nothing to measure.
    pub value: Option<f64>,
    /// `real` or `stand-in`: what was replayed; empty for what needs no load.
    pub origin: String,
    /// What explains the figure.
    pub reason: String,
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
    /// The measured figure, in the claim's unit.
    pub measured: Option<f64>,
    /// How it came out.
    pub verdict: Verdict,
    /// `real` or `stand-in`.
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

    /// Measures every claim.
    pub fn reproduce(&self, lab: &Lab) -> Result<Reproduction, Failure> {
        let expected = self.expected();
        let Findings { measured, figures, tables } = (self.measure)(lab)?;
        for m in &measured {
            let known = expected.claims.iter().any(|c| c.id == m.id && c.case == m.case);
            assert!(known, "{} {} is measured but not in expected.json", m.id, m.case);
        }
        let outcomes = expected.claims.iter().map(|claim| outcome(claim, &measured)).collect();
        Ok(Reproduction { expected, requests: lab.requests, seed: lab.seed, outcomes, figures, tables })
    }
}

fn outcome(claim: &Claim, measured: &[Measured]) -> Outcome {
    let found = measured.iter().find(|m| m.id == claim.id && m.case == claim.case);
    let value = found.and_then(|m| m.value);
    Outcome {
        claim: claim.clone(),
        measured: value,
        verdict: claim.verdict(value),
        origin: found.map_or_else(String::new, |m| m.origin.clone()),
        reason: match found {
            Some(m) => m.reason.clone(),
            None if claim.reproduced.is_some() => "the trace is not at hand".into(),
            None => "nothing here measures it".into(),
        },
    }
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
        }
    }
}
