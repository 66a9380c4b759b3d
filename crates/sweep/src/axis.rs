//! One thing that varies: its steps, and the parameters that each step sets.
//!
//! A step may set several parameters at once, and leave some out: the share of SLC in a hybrid changes two capacities, and at its ends
//! one of the rings is gone.

use crate::error::SweepError;
use crate::quantity::{Pace, range};
use std::collections::BTreeSet;

/// Most steps of an axis.
pub const STEPS: usize = 4096;

/// What a step does to one parameter of the stack file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Setting {
    /// The dotted path of the parameter, for example `device.disk.spin_down`.
    pub path: String,
    /// Its value as TOML or text; `None` leaves the parameter or table out.
    pub value: Option<String>,
}

/// One place on an axis.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Step {
    /// What tables call it.
    pub name: String,
    /// What it does.
    pub settings: Vec<Setting>,
}

/// One thing that varies.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Axis {
    /// What tables call it.
    pub name: String,
    /// Its places, in order; at least one, of different names.
    pub steps: Vec<Step>,
}

impl Axis {
    /// Checks that there are steps and that they can be told apart.
    pub fn new(name: &str, steps: Vec<Step>) -> Result<Axis, SweepError> {
        let place = format!("axis `{name}`");
        let good = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if name.is_empty() || name.len() > 64 || !name.chars().all(good) {
            let right = "use up to 64 letters, digits, `-`, `_` and `.`";
            return Err(SweepError::bad(place, "this cannot be a name", right));
        }
        if steps.is_empty() {
            return Err(SweepError::bad(
                place,
                "it has no values",
                "give `values`, `from` and `to`, or `[[axis.step]]`",
            ));
        }
        if steps.len() > STEPS {
            return Err(SweepError::bad(
                place,
                format!("it has {} values", steps.len()),
                format!("at most {STEPS}"),
            ));
        }
        let mut seen = BTreeSet::new();
        if let Some(twice) = steps.iter().find(|s| !seen.insert(s.name.as_str())) {
            return Err(SweepError::bad(
                place,
                format!("`{}` stands twice", twice.name),
                "give each step once",
            ));
        }
        Ok(Axis { name: name.into(), steps })
    }

    /// An axis over one parameter.
    pub fn of_parameter(
        name: &str,
        parameter: &str,
        values: Vec<(String, String)>,
    ) -> Result<Axis, SweepError> {
        let step = |(name, value)| Step {
            name,
            settings: vec![Setting { path: parameter.into(), value: Some(value) }],
        };
        Axis::new(name, values.into_iter().map(step).collect())
    }

    /// `PATH=VALUE,VALUE,..`, `PATH=FROM..TO+STEP` or `PATH=FROM..TO*FACTOR`; several parameters that change together are
    /// parted by `;` and have as many values each.
    pub fn parse(text: &str) -> Result<Axis, SweepError> {
        let place = format!("--axis {text}");
        let wrong = |what: &str| {
            SweepError::bad(
                place.clone(),
                what,
                "write PATH=VALUE,VALUE or PATH=FROM..TO+STEP, for example device.disk.spin_down=2 s,5 s,10 s",
            )
        };
        let mut parameters: Vec<(&str, Vec<String>)> = Vec::new();
        for part in outside(text, ';') {
            let (path, values) = part.split_once('=').ok_or_else(|| wrong("there is no `=`"))?;
            let (path, values) = (path.trim(), values.trim());
            if path.is_empty() || values.is_empty() {
                return Err(wrong("the path or the values are missing"));
            }
            parameters.push((path, listed(values).map_err(|why| wrong(&why))?));
        }
        let Some((first, values)) = parameters.first() else { return Err(wrong("it is empty")) };
        if let Some((path, other)) = parameters.iter().find(|k| k.1.len() != values.len()) {
            let what = format!("`{first}` has {} values and `{path}` has {}", values.len(), other.len());
            return Err(wrong(&what));
        }
        let name = first.rsplit('.').next().unwrap_or(first);
        let steps = values.iter().enumerate().map(|(i, value)| Step {
            name: value.clone(),
            settings: parameters
                .iter()
                .map(|(path, values)| Setting { path: (*path).into(), value: Some(values[i].clone()) })
                .collect(),
        });
        Axis::new(name, steps.collect())
    }
}

/// The values of a one-line axis: a list or a range.
fn listed(text: &str) -> Result<Vec<String>, String> {
    let ends = text.split_once("..").filter(|(from, _)| crate::quantity::Decimal::split(from).is_some());
    let Some((from, rest)) = ends else {
        let values: Vec<String> = outside(text, ',').iter().map(|v| v.trim().to_string()).collect();
        return match values.iter().any(String::is_empty) {
            true => Err("a value is missing between two commas".into()),
            false => Ok(values),
        };
    };
    match (rest.split_once('+'), rest.split_once('*')) {
        (Some((to, step)), _) => range(from.trim(), to.trim(), Pace::By(step.trim()), STEPS),
        (None, Some((to, factor))) => range(from.trim(), to.trim(), Pace::Times(factor.trim()), STEPS),
        (None, None) => Err("a range needs a step".into()),
    }
}

/// `text` cut at `at`, but not within brackets or quotes.
fn outside(text: &str, at: char) -> Vec<&str> {
    let (mut parts, mut start, mut depth, mut quote) = (Vec::new(), 0, 0usize, None);
    for (i, c) in text.char_indices() {
        match (quote, c) {
            (Some(q), c) if c == q => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(c),
            (None, '[' | '{') => depth += 1,
            (None, ']' | '}') => depth = depth.saturating_sub(1),
            (None, c) if c == at && depth == 0 => {
                parts.push(&text[start..i]);
                start = i + c.len_utf8();
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        match Axis::parse(text) {
            Err(error) => error.to_string(),
            Ok(axis) => {
                let one = |s: &Setting| format!("{}={}", s.path, s.value.as_deref().unwrap_or("-"));
                let step = |s: &Step| s.settings.iter().map(one).collect::<Vec<_>>().join(" ");
                format!("{}: {}", axis.name, axis.steps.iter().map(step).collect::<Vec<_>>().join(" | "))
            }
        }
    }

    #[test]
    fn a_line_is_an_axis() {
        assert_eq!(shown("device.d.rest = 2 s, 5 s"), "rest: device.d.rest=2 s | device.d.rest=5 s");
        assert_eq!(shown("device.d.n=1..4*2"), "n: device.d.n=1 | device.d.n=2 | device.d.n=4");
        assert_eq!(shown("a.b=1,2;a.c=4 MiB..8 MiB+4 MiB"), "b: a.b=1 a.c=4 MiB | a.b=2 a.c=8 MiB");
        assert_eq!(shown("a.b=[1, 2],\"x,y\""), "b: a.b=[1, 2] | a.b=\"x,y\"");
    }

    #[test]
    fn what_is_no_axis_says_why() {
        for (text, why) in [
            ("device.d", "there is no `=`"),
            ("=1", "are missing"),
            ("a=", "are missing"),
            ("a=1,,2", "between two commas"),
            ("a=1,1", "`1` stands twice"),
            ("a=1..3", "a range needs a step"),
            ("a=3..1+1", "do not lead"),
            ("a=1,2;b=3", "`a` has 2 values and `b` has 1"),
            ("a=0..1000000+1", "more than 4096 steps"),
        ] {
            assert!(shown(text).contains(why), "{text}: {}", shown(text));
        }
    }
}
