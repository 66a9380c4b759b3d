//! What a paper claims and what counts as reproduced: `expected.json` of an experiment, written before the measurement.

use serde::{Deserialize, Serialize};

/// The claims of one paper.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expected {
    /// The name that `nandu reproduce` takes.
    pub paper: String,
    /// The paper.
    pub title: String,
    /// What the experiment asks.
    pub question: String,
    /// When the bounds were set.
    pub written: String,
    /// The claims, in the order in which they are shown.
    pub claims: Vec<Claim>,
}

/// One claim, or one case of a claim.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// Its number.
    pub id: String,
    /// Which case of it.
    pub case: String,
    /// The case is not the paper's, although the claim is: another scheduler beside those that it names, for example.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ours: bool,
    /// Section or figure of the paper.
    #[serde(rename = "where")]
    pub place: String,
    /// The claim in words.
    pub says: String,
    /// What is measured, with its unit.
    pub unit: String,
    /// The figure of the paper.
    pub claimed: String,
    /// Measured figures within count as reproduced; absent where nothing is measured.
    pub reproduced: Option<Bounds>,
    /// Measured figures within agree in direction.
    pub direction: Option<Bounds>,
    /// Why the bounds are where they are.
    pub tolerance: String,
}

/// Whose claim it is. The two are counted apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClaimKind {
    /// The paper says it.
    Paper,
    /// We say it: of a weakness, of a choice that the paper leaves open, or of what the paper does not compare with.
    Bet,
}

impl ClaimKind {
    /// Both, in the order of tables.
    pub const ALL: [ClaimKind; 2] = [ClaimKind::Paper, ClaimKind::Bet];

    /// The words of tables.
    pub fn words(self) -> &'static str {
        match self {
            ClaimKind::Paper => "claims of the paper",
            ClaimKind::Bet => "own bets",
        }
    }
}

/// From a least to a most figure, both included; `None` is unbounded.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bounds(pub Option<f64>, pub Option<f64>);

impl Bounds {
    /// Whether `value` lies within.
    pub fn hold(self, value: f64) -> bool {
        self.0.is_none_or(|least| value >= least) && self.1.is_none_or(|most| value <= most)
    }
}

/// How a claim came out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Within the tolerance.
    Reproduced,
    /// Beyond the tolerance, on the right side.
    DirectionOnly,
    /// Neither.
    NotReproduced,
    /// Not tried, or nothing in the run could have told the claim from its opposite.
    NotMeasured,
}

impl Verdict {
    /// The words of tables.
    pub fn words(self) -> &'static str {
        match self {
            Verdict::Reproduced => "reproduced",
            Verdict::DirectionOnly => "direction only",
            Verdict::NotReproduced => "not reproduced",
            Verdict::NotMeasured => "not measured",
        }
    }
}

impl Claim {
    /// Whose it is: the paper's claims have numbers that begin with C.
    pub fn kind(&self) -> ClaimKind {
        if self.id.starts_with('C') && !self.ours { ClaimKind::Paper } else { ClaimKind::Bet }
    }

    /// The verdict on a measured figure.
    pub fn verdict(&self, value: Option<f64>) -> Verdict {
        match value {
            None => Verdict::NotMeasured,
            Some(value) if self.reproduced.is_some_and(|b| b.hold(value)) => Verdict::Reproduced,
            Some(value) if self.direction.is_some_and(|b| b.hold(value)) => Verdict::DirectionOnly,
            Some(_) => Verdict::NotReproduced,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_decide_the_verdict() {
        let claim = Claim {
            id: "C0-0".into(),
            case: String::new(),
            ours: false,
            place: String::new(),
            says: String::new(),
            unit: String::new(),
            claimed: String::new(),
            reproduced: Some(Bounds(Some(0.4), Some(0.6))),
            direction: Some(Bounds(None, Some(1.0))),
            tolerance: String::new(),
        };
        let verdicts = [0.4, 0.6, 0.61, 1.0, 1.01].map(|v| claim.verdict(Some(v)));
        let (yes, nearly, no) = (Verdict::Reproduced, Verdict::DirectionOnly, Verdict::NotReproduced);
        assert_eq!(verdicts, [yes, yes, nearly, nearly, no]);
        assert_eq!(claim.verdict(None), Verdict::NotMeasured);
        assert_eq!(claim.kind(), ClaimKind::Paper);
        assert_eq!(Claim { ours: true, ..claim.clone() }.kind(), ClaimKind::Bet);
        assert_eq!(Claim { id: "W0-1".into(), ..claim }.kind(), ClaimKind::Bet);
    }
}
