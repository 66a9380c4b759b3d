//! Sweep files: TOML that names a stack, the requests, what varies, and what is wanted.
//!
//! ```toml
//! stack = "hybrid"                        # a stack file beside this one, or a built-in stack
//! goal = ["minimise p99", "minimise energy"]
//! bound = ["lifetime >= 5 years"]
//! metric = ["disk.spin_ups"]              # further columns
//!
//! [load]                                  # options of `nandu run`, without the dashes
//! trace = "mixed-zipf"
//! gen = { requests = 20000 }
//!
//! [[axis]]
//! name = "rest"
//! parameter = "device.disk.spin_down"
//! values = ["2 s", "5 s", "10 s"]         # or from, to and by or times
//!
//! [[axis]]
//! name = "ratio"
//! [[axis.step]]
//! name = "0"
//! set = { "device.mlc.capacity" = "1 GiB" }
//! unset = ["device.slc", "device.hybrid.slc"]
//!
//! [[skip]]                                # points that lie at these steps of these axes
//! ratio = "0"
//! ```

use crate::axis::{Axis, STEPS, Setting, Step};
use crate::bound::{Bound, Goal};
use crate::error::SweepError;
use crate::metric::{Devices, Metric};
use crate::quantity::{Pace, range};
use crate::search;
use crate::space::{Skip, Space};
use serde::Deserialize;
use std::collections::BTreeMap;
use toml::Value;

/// Longest sweep file in bytes.
const LONGEST: usize = 1 << 20;
/// Most dots in one line: a key of more parts would nest tables without end.
const DOTS: usize = 256;

/// The text of a sweep file, read but not yet held against a stack.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SweepFile {
    /// What it is for.
    pub description: Option<String>,
    /// The stack file, or the name of a built-in stack.
    pub stack: String,
    /// Options of the load.
    #[serde(default)]
    pub load: toml::Table,
    /// What varies.
    #[serde(default)]
    pub axis: Vec<AxisTable>,
    /// What is left out.
    #[serde(default)]
    pub skip: Vec<BTreeMap<String, OneOrMany>>,
    /// `minimise FIGURE` and `maximise FIGURE`, the most important first.
    #[serde(default)]
    pub goal: Vec<String>,
    /// `FIGURE <= LIMIT` and `FIGURE >= LIMIT`.
    #[serde(default)]
    pub bound: Vec<String>,
    /// Further figures to show.
    #[serde(default)]
    pub metric: Vec<String>,
    /// How points are chosen; `exhaustive` without it.
    #[serde(default)]
    pub search: Option<String>,
    /// Whether points that cannot be built are left out instead of refused.
    #[serde(default, alias = "skip_impossible")]
    pub skip_invalid: bool,
    /// Whether points count where requests came faster than they were served.
    #[serde(default)]
    pub allow_saturated: bool,
    /// Whether points count that were not in steady state.
    #[serde(default)]
    pub allow_unsteady: bool,
}

/// One axis of a sweep file.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AxisTable {
    /// Its name; without it the last part of the parameter.
    pub name: Option<String>,
    /// The dotted path of the one parameter that varies.
    #[serde(alias = "knob")]
    pub parameter: Option<String>,
    /// Its values.
    pub values: Option<Vec<Value>>,
    /// Or the first of a range.
    pub from: Option<Value>,
    /// The last of it.
    pub to: Option<Value>,
    /// What is added from one to the next.
    pub by: Option<Value>,
    /// Or the factor from one to the next.
    pub times: Option<Value>,
    /// Or steps that set several parameters each.
    pub step: Option<Vec<StepTable>>,
}

/// One step that sets several parameters.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepTable {
    /// What tables call it.
    pub name: String,
    /// Parameters with their values.
    #[serde(default)]
    pub set: BTreeMap<String, Value>,
    /// Parameters and tables to leave out.
    #[serde(default)]
    pub unset: Vec<String>,
}

/// A text or several.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum OneOrMany {
    /// One.
    One(String),
    /// Several.
    Many(Vec<String>),
}

/// A sweep that was checked against its stack.
#[derive(Clone, Debug)]
pub struct Sweep {
    /// All points.
    pub space: Space,
    /// What is wanted, the most important first.
    pub goals: Vec<Goal>,
    /// What must be met.
    pub bounds: Vec<Bound>,
    /// The figures that are shown: those of the goals, of the bounds, and further ones; each once.
    pub metrics: Vec<Metric>,
    /// Whether saturated points count.
    pub allow_saturated: bool,
    /// Whether points count that were not in steady state.
    pub allow_unsteady: bool,
}

impl SweepFile {
    /// Reads `text`; `name` is how the file is called in messages.
    pub fn parse(text: &str, name: &str) -> Result<SweepFile, SweepError> {
        let at = |byte: usize, message: &str| {
            let before = text.get(..byte).unwrap_or(text);
            let line = before.matches('\n').count() + 1;
            let column = before.rsplit('\n').next().map_or(0, |l| l.chars().count()) + 1;
            SweepError::Syntax {
                file: name.into(),
                line,
                column,
                message: message.trim_end().replace('\n', "; "),
            }
        };
        if text.len() > LONGEST {
            return Err(at(0, "a sweep file is at most 1 MiB long"));
        }
        let mut byte = 0;
        for line in text.split_inclusive('\n') {
            if line.matches('.').count() > DOTS {
                return Err(at(byte, "more than 256 dots in one line: break the line"));
            }
            byte += line.len();
        }
        toml::from_str(text).map_err(|e| at(e.span().map_or(0, |s| s.start), e.message()))
    }

    /// The axes, further ones behind them, and all their points.
    pub fn space(&self, further: &[String]) -> Result<Space, SweepError> {
        let own = self.axis.iter().enumerate().map(|(i, table)| axis(i, table));
        let axes: Vec<Axis> =
            own.chain(further.iter().map(|text| Axis::parse(text))).collect::<Result<_, _>>()?;
        let skip = |table: &BTreeMap<String, OneOrMany>| {
            let list = |words: &OneOrMany| match words {
                OneOrMany::One(word) => vec![word.clone()],
                OneOrMany::Many(words) => words.clone(),
            };
            Skip { at: table.iter().map(|(axis, steps)| (axis.clone(), list(steps))).collect() }
        };
        Space::new(axes, &self.skip.iter().map(skip).collect::<Vec<_>>())
    }

    /// Gives goals, bounds and metrics that had another name in the version before their present one; returns the pairs.
    pub fn take_present_names(&mut self) -> Vec<(&'static str, &'static str)> {
        let mut pairs = Vec::new();
        for text in self.goal.iter_mut().chain(&mut self.bound).chain(&mut self.metric) {
            let (present, found) = nandu_sim::renamed::present(text);
            *text = present;
            pairs.extend(found);
        }
        pairs
    }

    /// What is wanted of the points of `space`, whose figures are those of `devices`.
    pub fn sweep(&self, space: Space, devices: &Devices) -> Result<Sweep, SweepError> {
        search::by_name(self.search.as_deref())?;
        let goals: Vec<Goal> = self.goal.iter().map(|t| Goal::parse(t, devices)).collect::<Result<_, _>>()?;
        let bounds: Vec<Bound> =
            self.bound.iter().map(|t| Bound::parse(t, devices)).collect::<Result<_, _>>()?;
        let mut further: Vec<&str> = self.metric.iter().map(String::as_str).collect();
        if goals.is_empty() && bounds.is_empty() && further.is_empty() {
            further = vec!["mean", "p99", "iops", "energy", "lifetime"];
        }
        let further = further.iter().map(|name| Metric::resolve(name, devices, &format!("metric `{name}`")));
        let further = further.collect::<Result<Vec<_>, _>>()?;
        let mut metrics: Vec<Metric> = Vec::new();
        let asked = goals.iter().map(|g| &g.metric).chain(bounds.iter().map(|b| &b.metric)).chain(&further);
        for metric in asked {
            if !metrics.contains(metric) {
                metrics.push(metric.clone());
            }
        }
        if let Some(twice) =
            goals.iter().enumerate().find(|(i, g)| goals[..*i].iter().any(|o| o.metric == g.metric))
        {
            let what = format!("`{}` is a goal twice", twice.1.metric.name);
            return Err(SweepError::bad("goal", what, "give each figure once"));
        }
        Ok(Sweep {
            space,
            goals,
            bounds,
            metrics,
            allow_saturated: self.allow_saturated,
            allow_unsteady: self.allow_unsteady,
        })
    }
}

/// A value as tables show it.
fn shown(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_string)
}

fn axis(index: usize, table: &AxisTable) -> Result<Axis, SweepError> {
    let last = table.parameter.as_deref().and_then(|k| k.rsplit('.').next());
    let name = table.name.as_deref().or(last).unwrap_or_default();
    let place = if name.is_empty() { format!("axis number {}", index + 1) } else { format!("axis `{name}`") };
    let forms = "give `parameter` with `values`, `parameter` with `from`, `to` and `by` or `times`, or `name` with `[[axis.step]]`";
    let wrong = |what: &str| SweepError::bad(place.clone(), what, forms);
    let ranged = [&table.from, &table.to, &table.by, &table.times].iter().any(|v| v.is_some());
    match (&table.parameter, &table.values, &table.step) {
        (Some(parameter), Some(values), None) if !ranged => {
            Axis::of_parameter(name, parameter, values.iter().map(|v| (shown(v), v.to_string())).collect())
        }
        (Some(parameter), None, None) => {
            let (Some(from), Some(to)) = (&table.from, &table.to) else {
                return Err(wrong("it has no values"));
            };
            let texts = [&table.by, &table.times].map(|v| v.as_ref().map(shown));
            let pace = match &texts {
                [Some(by), None] => Pace::By(by),
                [None, Some(times)] => Pace::Times(times),
                _ => return Err(wrong("a range has either `by` or `times`")),
            };
            let values = range(&shown(from), &shown(to), pace, STEPS).map_err(|why| wrong(&why))?;
            Axis::of_parameter(name, parameter, values.into_iter().map(|v| (v.clone(), v)).collect())
        }
        (None, None, Some(steps)) if !ranged && table.name.is_some() => {
            Axis::new(name, steps.iter().map(|s| step(s, &place)).collect::<Result<_, _>>()?)
        }
        _ => Err(wrong("it is none of the three forms")),
    }
}

fn step(table: &StepTable, place: &str) -> Result<Step, SweepError> {
    let set = table.set.iter().map(|(path, v)| Setting { path: path.clone(), value: Some(v.to_string()) });
    let unset = table.unset.iter().map(|path| Setting { path: path.clone(), value: None });
    match table.name.trim() {
        "" => Err(SweepError::bad(place, "a step has an empty name", "name each step")),
        name => Ok(Step { name: name.into(), settings: set.chain(unset).collect() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const GOOD: &str = r#"
stack = "hybrid"
goal = ["minimise p99", "maximise lifetime"]
bound = ["lifetime >= 5 years"]
metric = ["iops"]
[load]
trace = "mixed-zipf"
[[axis]]
parameter = "device.disk.spin_down"
values = ["2 s", 5, 0.5]
[[axis]]
name = "ratio"
[[axis.step]]
name = "0"
set = { "device.mlc.capacity" = "1 GiB" }
unset = ["device.slc"]
[[axis.step]]
name = "1/2"
[[skip]]
ratio = "0"
spin_down = ["5"]
"#;

    fn read(text: &str) -> Result<Sweep, String> {
        let all = || {
            let file = SweepFile::parse(text, "s.toml")?;
            file.sweep(file.space(&[])?, &Devices::default())
        };
        all().map_err(|e: SweepError| e.to_string())
    }

    #[test]
    fn a_file_is_read_as_it_stands() {
        let sweep = read(GOOD).unwrap();
        let labels: Vec<String> = (0..sweep.space.len()).map(|p| sweep.space.label(p)).collect();
        assert_eq!(
            labels,
            [
                "spin_down 2 s, ratio 0",
                "spin_down 2 s, ratio 1/2",
                "spin_down 5, ratio 1/2",
                "spin_down 0.5, ratio 0",
                "spin_down 0.5, ratio 1/2"
            ]
        );
        let names: Vec<&str> = sweep.metrics.iter().map(|m| m.name.as_str()).collect();
        assert_eq!(names, ["p99", "lifetime", "iops"]);
        let values: Vec<_> =
            sweep.space.settings(0).iter().map(|s| (s.path.as_str(), s.value.as_deref())).collect();
        assert_eq!(
            values,
            [
                ("device.disk.spin_down", Some("\"2 s\"")),
                ("device.mlc.capacity", Some("\"1 GiB\"")),
                ("device.slc", None)
            ]
        );
    }

    #[test]
    fn what_is_wrong_has_its_place() {
        let wrong = |from: &str, to: &str| read(&GOOD.replace(from, to)).map(|_| ()).unwrap_err();
        assert!(wrong("goal =", "gaol =").starts_with("s.toml:3:1: unknown field `gaol`"));
        assert!(wrong("stack = \"hybrid\"", "").contains("missing field `stack`"));
        assert!(wrong("\"hybrid\"", "7").starts_with("s.toml:2:9: "));
        assert!(wrong("[load]", "[load").starts_with("s.toml:6:6: "));
        assert!(
            wrong("values = [\"2 s\", 5, 0.5]", "from = 1")
                .contains("axis `spin_down`: it has no values; give")
        );
        assert!(wrong("values =", "from = 1\nvalues =").contains("none of the three forms"));
        assert!(
            wrong("ratio = \"0\"", "ration = \"0\"").contains("unknown axis `ration`; did you mean `ratio`?")
        );
        assert!(wrong("minimise p99", "minimise lifetime").contains("`lifetime` is a goal twice"));
        assert!(wrong("stack =", "search = \"magic\"\nstack =").contains("unknown search `magic`"));
        assert!(read(&format!("a{}", ".a".repeat(300))).unwrap_err().contains("256 dots"));
    }

    proptest! {
        /// Files with lines cut out, doubled, cut short or with bytes changed: refused or read, no panic.
        #[test]
        fn no_file_breaks_the_reader(edits in proptest::collection::vec((0usize..500, 0u8..4, any::<char>()), 1..12)) {
            let mut text: Vec<char> = GOOD.chars().collect();
            for (at, what, c) in edits {
                let at = at % text.len().max(1);
                match what {
                    0 if !text.is_empty() => { text.remove(at); }
                    1 => text.insert(at, c),
                    2 => text.truncate(at.max(20)),
                    _ => { let part: Vec<char> = text[at..(at + 40).min(text.len())].to_vec(); text.extend(part); }
                }
            }
            let _ = read(&text.into_iter().collect::<String>());
        }

        #[test]
        fn no_line_breaks_the_axis_parser(text in ".{0,60}") {
            let _ = Axis::parse(&text);
            let _ = Bound::parse(&text, &Devices::default());
            let _ = Goal::parse(&text, &Devices::default());
        }
    }
}
