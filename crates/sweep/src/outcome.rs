//! What a sweep says: which points meet the bounds, which of them are on the front, which is the best, and what is missing where
//! none meets them.
//!
//! *Best*: of the points of the front the one with the best figure of the first goal; of those that are equal in it the one
//! that is better in the next; of those that are equal in all of them the first in order, and the others are named. *Nearest*: when no
//! point meets the bounds, the one whose worst miss is the smallest, relative to figure and limit.

use crate::Sweep;
use crate::bound::Goal;
use crate::id::Id;
use crate::metric::Figure;
use crate::pareto::front;
use crate::search::Known;
use nandu_sim::decimals;
use nandu_sim::steady::State;
use serde::Serialize;
use serde::ser::{SerializeStruct, Serializer};

/// Figures that every point is watched by, shown or not: failed requests, saturation, steady state, what a rate is made of, and whether
/// its lifetime is that of even wear.
const WATCHED: [&str; 6] = ["failed", "saturated", "state", "requests", "duration", "wear_is_chance"];

/// Names of the figures that are kept of each point: those that are shown, then those that are watched.
pub(crate) fn shown_and_watched(sweep: &Sweep) -> Vec<String> {
    let shown = sweep.metrics.iter().map(|m| m.name.clone());
    shown.chain(WATCHED.map(str::to_string)).collect()
}

/// A column.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Column {
    /// The figure.
    pub name: String,
    /// The unit it is in.
    pub unit: &'static str,
}

/// A bound, and how points stand to it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct BoundResult {
    /// The bound as it was given.
    pub bound: String,
    /// Points that meet it.
    pub met_by: usize,
    /// Points with the figure nearest to it or farthest within it; the first of several.
    pub best_point: Option<usize>,
}

/// A goal.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct GoalResult {
    /// `minimise` or `maximise`.
    pub aim: &'static str,
    /// The figure.
    pub metric: String,
}

/// A point that was measured.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Row {
    /// Its place in the order of all points, from 0.
    pub point: usize,
    /// Its name.
    pub id: Id,
    /// For each axis the name of the step.
    pub steps: Vec<String>,
    /// For each column the figure; absent where the point has none. As JSON decimals of the column's unit, null where there is none.
    #[serde(skip)]
    pub figures: Vec<Option<Figure>>,
    /// For each bound by how many thousandths it is missed; 0 where it is met.
    #[serde(rename = "missed_by", serialize_with = "decimals::list")]
    pub missed_by_thousandths: Vec<u64>,
    /// Requests that were measured, and the simulated time in ns that they took: what `iops`, a whole number, is made of.
    #[serde(skip)]
    pub measured: (u64, u64),
    /// Whether its blocks were erased too rarely to say which wears out first.
    #[serde(skip)]
    pub wear_is_chance: bool,
    /// Whether no request failed.
    pub whole: bool,
    /// Whether it kept up with the requests.
    pub kept_up: bool,
    /// Whether it was in steady state.
    pub state: State,
    /// Whether it counts: it is whole, kept up or need not, was not found unsteady or may be, and meets all bounds.
    pub meets: bool,
    /// Whether it is on the Pareto front of the points that count.
    pub front: bool,
}

/// The result of a sweep. Serialised it has stable field names and is the same however often the sweep was interrupted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// Version of these fields.
    pub schema: u32,
    /// Names of the axes.
    pub axes: Vec<String>,
    /// The columns.
    pub columns: Vec<Column>,
    /// The goals, the first one decides.
    pub goals: Vec<GoalResult>,
    /// The bounds.
    pub bounds: Vec<BoundResult>,
    /// Points of the whole sweep.
    pub points: usize,
    /// Points that cannot be built and were left out.
    pub impossible: usize,
    /// The points that were measured, in order.
    pub rows: Vec<Row>,
    /// The best point that counts.
    pub best: Option<usize>,
    /// Further points that are as good as the best in every goal.
    pub ties: Vec<usize>,
    /// The point that comes nearest, when none counts.
    pub nearest: Option<usize>,
}

/// A row as JSON: what is kept in thousandths is written as a decimal.
#[derive(Serialize)]
struct RowRecord<'a> {
    #[serde(flatten)]
    row: &'a Row,
    figures: Vec<Shown>,
}

/// A figure as JSON.
#[derive(Serialize)]
#[serde(untagged)]
enum Shown {
    Whole(Option<Figure>),
    Decimal(f64),
}

impl Serialize for Outcome {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let columns: Vec<Column> = self
            .columns
            .iter()
            .map(|column| Column { name: column.name.clone(), unit: column.unit.trim_end_matches("/1000") })
            .collect();
        let shown = |(column, figure): (&Column, &Option<Figure>)| match figure {
            Some(Figure::Value(n)) if column.unit.ends_with("/1000") => Shown::Decimal(*n as f64 / 1000.0),
            figure => Shown::Whole(*figure),
        };
        let record =
            |row| RowRecord { row, figures: self.columns.iter().zip(&row.figures).map(shown).collect() };
        let rows: Vec<RowRecord<'_>> = self.rows.iter().map(record).collect();
        let mut out = serializer.serialize_struct("Outcome", 11)?;
        out.serialize_field("schema", &self.schema)?;
        out.serialize_field("axes", &self.axes)?;
        out.serialize_field("columns", &columns)?;
        out.serialize_field("goals", &self.goals)?;
        out.serialize_field("bounds", &self.bounds)?;
        out.serialize_field("points", &self.points)?;
        out.serialize_field("invalid", &self.impossible)?;
        out.serialize_field("rows", &rows)?;
        out.serialize_field("best", &self.best)?;
        out.serialize_field("ties", &self.ties)?;
        out.serialize_field("nearest", &self.nearest)?;
        out.end()
    }
}

impl Outcome {
    /// Judges what is `known` of the points called `ids`.
    pub fn of(sweep: &Sweep, ids: &[Option<Id>], known: &Known) -> Outcome {
        let mut rows: Vec<Row> = Vec::new();
        for (point, (id, figures)) in ids.iter().zip(known).enumerate() {
            if let (Some(id), Some(figures)) = (id, figures) {
                rows.push(row(sweep, point, *id, figures));
            }
        }
        let costs: Vec<Option<Vec<i128>>> =
            rows.iter().map(|r| costs(sweep, r).filter(|_| r.meets)).collect();
        rows.iter_mut().zip(front(&costs)).for_each(|(row, on)| row.front = on);
        let on_front = || (0..rows.len()).filter(|&i| rows[i].front);
        let best = on_front().min_by_key(|&i| (&costs[i], i));
        let ties = on_front().filter(|&i| best.is_some_and(|b| b != i && costs[b] == costs[i]));
        Outcome {
            schema: nandu_sim::result::SCHEMA,
            axes: sweep.space.axes().iter().map(|a| a.name.clone()).collect(),
            columns: sweep
                .metrics
                .iter()
                .map(|m| Column { name: m.name.clone(), unit: m.kind.unit() })
                .collect(),
            goals: sweep
                .goals
                .iter()
                .map(|g| GoalResult { aim: g.aim.name(), metric: g.metric.name.clone() })
                .collect(),
            bounds: (0..sweep.bounds.len()).map(|bound| bound_result(sweep, &rows, bound)).collect(),
            points: sweep.space.len(),
            impossible: ids.iter().filter(|id| id.is_none()).count(),
            best: best.map(|i| rows[i].point),
            ties: ties.map(|i| rows[i].point).collect(),
            nearest: nearest(sweep, &rows),
            rows,
        }
    }

    /// The points alone: of a part of a sweep no point can be called the best.
    pub fn without_verdict(mut self) -> Outcome {
        (self.best, self.nearest) = (None, None);
        self.ties.clear();
        self.rows.iter_mut().for_each(|row| row.front = false);
        self
    }

    /// The row of `point`.
    pub fn row(&self, point: usize) -> Option<&Row> {
        self.rows.iter().find(|r| r.point == point)
    }

    /// Points that count.
    pub fn meeting(&self) -> usize {
        self.rows.iter().filter(|r| r.meets).count()
    }
}

/// The figure of `name` in a row.
fn figure(sweep: &Sweep, row: &Row, name: &str) -> Option<Figure> {
    let column = sweep.metrics.iter().position(|m| m.name == name)?;
    row.figures[column]
}

fn row(sweep: &Sweep, point: usize, id: Id, figures: &[Option<Figure>]) -> Row {
    let (shown, watched) = figures.split_at(sweep.metrics.len());
    let none = |figure: Option<Figure>| figure == Some(Figure::Value(0));
    let number = |figure: Option<Figure>| match figure {
        Some(Figure::Value(n)) => n,
        _ => 0,
    };
    let mut row = Row {
        point,
        id,
        steps: sweep.space.names(point).into_iter().map(str::to_string).collect(),
        figures: shown.to_vec(),
        missed_by_thousandths: Vec::new(),
        measured: (number(watched[3]), number(watched[4])),
        wear_is_chance: number(watched[5]) == 1,
        whole: none(watched[0]),
        kept_up: none(watched[1]),
        state: match watched[2] {
            Some(Figure::Value(0)) => State::Steady,
            Some(Figure::Value(1)) => State::NotSteady,
            Some(Figure::Value(2)) => State::LoadVaries,
            _ => State::TooShort,
        },
        meets: false,
        front: false,
    };
    row.missed_by_thousandths =
        sweep.bounds.iter().map(|b| b.missed_by(figure(sweep, &row, &b.metric.name))).collect();
    let bounds = row.missed_by_thousandths.iter().all(|&by| by == 0);
    let steady = row.state != State::NotSteady || sweep.allow_unsteady;
    row.meets = bounds && row.whole && (row.kept_up || sweep.allow_saturated) && steady;
    row
}

/// How good a row is in each goal; `None` where a figure is missing.
fn costs(sweep: &Sweep, row: &Row) -> Option<Vec<i128>> {
    let cost = |goal: &Goal| goal.cost(figure(sweep, row, &goal.metric.name));
    sweep.goals.iter().map(cost).collect()
}

fn bound_result(sweep: &Sweep, rows: &[Row], bound: usize) -> BoundResult {
    use crate::bound::{Aim, Side};
    let asked = &sweep.bounds[bound];
    let aim = match asked.side {
        Side::AtMost => Aim::Minimise,
        Side::AtLeast => Aim::Maximise,
    };
    let goal = Goal { metric: asked.metric.clone(), aim };
    let costs = rows.iter().filter_map(|r| Some((goal.cost(figure(sweep, r, &asked.metric.name))?, r.point)));
    BoundResult {
        bound: asked.text.clone(),
        met_by: rows.iter().filter(|r| r.missed_by_thousandths[bound] == 0).count(),
        best_point: costs.min().map(|(_, point)| point),
    }
}

/// The row that comes nearest to meeting all bounds, where none does.
fn nearest(sweep: &Sweep, rows: &[Row]) -> Option<usize> {
    if rows.iter().any(|r| r.meets) {
        return None;
    }
    let key = |row: &&Row| {
        let worst = row.missed_by_thousandths.iter().copied().max().unwrap_or(0);
        let sum: u128 = row.missed_by_thousandths.iter().map(|&by| u128::from(by)).sum();
        let saturated = !row.kept_up && !sweep.allow_saturated;
        let unsteady = row.state == State::NotSteady && !sweep.allow_unsteady;
        (
            !row.whole,
            saturated,
            unsteady,
            worst,
            sum,
            costs(sweep, row).is_none(),
            costs(sweep, row),
            row.point,
        )
    };
    rows.iter().min_by_key(key).map(|r| r.point)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::axis::Axis;
    use crate::file::SweepFile;
    use crate::metric::Devices;

    fn sweep(goals: &[&str], bounds: &[&str]) -> Sweep {
        let list = |texts: &[&str]| texts.iter().map(|t| t.to_string()).collect();
        let file = SweepFile { goal: list(goals), bound: list(bounds), ..SweepFile::default() };
        let space = crate::Space::new(vec![Axis::parse("a.n=1,2,3,4,5").unwrap()], &[]).unwrap();
        file.sweep(space, &Devices::default()).unwrap()
    }

    /// Points with these figures; the last three of each are failed requests, saturation and state. Each measured 7 requests in 9 ns.
    fn judged(sweep: &Sweep, rows: &[&[u64]]) -> Outcome {
        let id = |n: usize| Id::parse(&format!("{n:064x}"));
        let all = |r: &[u64]| r.iter().chain(&[7, 9, 0]).map(|&v| Some(Figure::Value(v))).collect();
        let known = rows.iter().map(|r| Some(all(r))).collect();
        Outcome::of(sweep, &(0..rows.len()).map(id).collect::<Vec<_>>(), &known)
    }

    fn on_front(outcome: &Outcome) -> Vec<usize> {
        outcome.rows.iter().filter(|r| r.front).map(|r| r.point).collect()
    }

    #[test]
    fn the_first_goal_decides_and_ties_are_named() {
        let sweep = sweep(&["minimise p99", "maximise lifetime"], &[]);
        let rows: [&[u64]; 5] =
            [&[5, 9, 0, 0, 0], &[3, 4, 0, 0, 0], &[3, 4, 0, 0, 2], &[4, 4, 0, 0, 3], &[1, 99, 0, 1, 0]];
        let outcome = judged(&sweep, &rows);
        assert_eq!((outcome.best, &outcome.ties[..], outcome.nearest), (Some(1), &[2][..], None));
        assert_eq!(on_front(&outcome), [0, 1, 2]);
        assert_eq!(outcome.rows[0].measured, (7, 9));
        assert!(!outcome.rows[4].meets, "a saturated point does not count");
        let allowed = Sweep { allow_saturated: true, ..sweep };
        assert_eq!(judged(&allowed, &rows).best, Some(4));
    }

    #[test]
    fn a_point_that_was_not_steady_does_not_count_unless_it_may() {
        let sweep = sweep(&["minimise p99"], &["p99<=10 ns"]);
        let rows: [&[u64]; 2] = [&[3, 0, 0, 1], &[7, 0, 0, 0]];
        assert_eq!(judged(&sweep, &rows).best, Some(1));
        assert_eq!(judged(&sweep, &rows[..1]).nearest, Some(0));
        let allowed = Sweep { allow_unsteady: true, ..sweep };
        assert_eq!(judged(&allowed, &rows).best, Some(0));
    }

    #[test]
    fn where_no_point_meets_the_bounds_the_nearest_is_named() {
        let sweep = sweep(&["minimise p99"], &["p99<=10 ns", "lifetime>=1 year"]);
        let rows: [&[u64]; 4] =
            [&[10, 100, 0, 0, 0], &[14, 900, 0, 0, 0], &[30, 2000, 0, 0, 0], &[10, 1000, 1, 0, 0]];
        let outcome = judged(&sweep, &rows);
        assert_eq!((outcome.best, outcome.nearest, outcome.meeting()), (None, Some(1), 0));
        assert_eq!(outcome.rows[1].missed_by_thousandths, [400, 111]);
        let bounds: Vec<(usize, Option<usize>)> =
            outcome.bounds.iter().map(|b| (b.met_by, b.best_point)).collect();
        assert_eq!(bounds, [(2, Some(0)), (2, Some(2))]);
    }

    #[test]
    fn thousandths_are_decimals_in_json() {
        let sweep = sweep(&["maximise lifetime", "minimise waf", "minimise p99"], &[]);
        let outcome = judged(&sweep, &[&[1500, 1043, 7, 0, 0, 0]]);
        let json = serde_json::to_value(&outcome).expect("JSON");
        let units: Vec<&str> =
            json["columns"].as_array().into_iter().flatten().filter_map(|c| c["unit"].as_str()).collect();
        assert_eq!(units, ["years", "1", "ns"]);
        assert_eq!(json["rows"][0]["figures"], serde_json::json!([1.5, 1.043, 7]));
        assert_eq!(json["schema"], nandu_sim::result::SCHEMA);
    }

    #[test]
    fn a_point_without_the_figure_of_a_goal_is_never_the_best() {
        let sweep = sweep(&["maximise lifetime"], &[]);
        let id = Id::parse(&"0".repeat(64));
        let watched = [Some(Figure::Value(0)); WATCHED.len()];
        let row = |figure| Some([&[figure][..], &watched].concat().into_boxed_slice());
        let known = vec![row(None), row(Some(Figure::Value(7))), row(Some(Figure::Unworn))];
        let outcome = Outcome::of(&sweep, &[id; 3], &known);
        assert_eq!((outcome.best, on_front(&outcome)), (Some(2), vec![2]));
    }
}
