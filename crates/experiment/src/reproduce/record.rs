//! A reproduction as a record with stable field names.

use super::expected::{ClaimKind, Verdict};
use super::{Figure, Outcome, Reproduction, Sheet};
use serde::Serialize;

/// How long a reproduction is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Form {
    /// The length that verdicts are about.
    Full,
    /// `--quick`: no verdict that the full form does not give.
    Quick,
    /// Any other length; verdicts are those of its own figures.
    Other,
}

impl Form {
    /// The form of so many `requests`, where a number is asked for.
    pub fn of(requests: Option<u64>, quick: bool) -> Form {
        match (requests, quick) {
            (Some(_), _) => Form::Other,
            (None, true) => Form::Quick,
            (None, false) => Form::Full,
        }
    }
}

/// A reproduction as JSON.
#[derive(Serialize)]
pub struct Record<'a> {
    /// Version of these fields.
    pub schema: u32,
    /// The name that the command takes.
    pub paper: &'a str,
    /// The paper's.
    pub title: &'a str,
    /// When the bounds were written.
    pub written: &'a str,
    /// How long it was.
    pub form: Form,
    /// Requests of each load.
    pub requests: u64,
    /// The seed.
    pub seed: u64,
    /// How many claims of each kind came out how.
    pub counts: [Counts; 2],
    /// Every claim.
    pub claims: &'a [Outcome],
    /// The figures, drawn again.
    pub figures: &'a [Figure],
    /// Tables without verdicts.
    pub tables: &'a [Sheet],
}

impl<'a> Record<'a> {
    /// The record of `r`.
    pub fn of(r: &'a Reproduction, form: Form) -> Record<'a> {
        Record {
            schema: nandu_sim::result::SCHEMA,
            paper: &r.expected.paper,
            title: &r.expected.title,
            written: &r.expected.written,
            form,
            requests: r.requests,
            seed: r.seed,
            counts: ClaimKind::ALL.map(|kind| Counts::of(&r.outcomes, kind)),
            claims: &r.outcomes,
            figures: &r.figures,
            tables: &r.tables,
        }
    }
}

/// How many claims of a kind came out how.
#[derive(Serialize)]
pub struct Counts {
    kind: ClaimKind,
    /// Within the bounds.
    pub reproduced: usize,
    /// In the direction only.
    pub direction_only: usize,
    /// Neither.
    pub not_reproduced: usize,
    /// Without a verdict.
    pub not_measured: usize,
}

impl Counts {
    /// Of the claims of this kind.
    pub fn of(outcomes: &[Outcome], kind: ClaimKind) -> Counts {
        let count = |v: Verdict| outcomes.iter().filter(|o| o.kind == kind && o.verdict == v).count();
        Counts {
            kind,
            reproduced: count(Verdict::Reproduced),
            direction_only: count(Verdict::DirectionOnly),
            not_reproduced: count(Verdict::NotReproduced),
            not_measured: count(Verdict::NotMeasured),
        }
    }

    /// In a line.
    pub fn words(&self) -> String {
        let Counts { kind, reproduced, direction_only, not_reproduced, not_measured } = self;
        format!(
            "{}: {reproduced} reproduced, {direction_only} direction only, {not_reproduced} not reproduced, \
             {not_measured} not measured\n",
            kind.words()
        )
    }
}
