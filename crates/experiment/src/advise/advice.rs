//! What follows from a search: the front, the best, what binds it, the next parameter, and how sure all that is.

use super::choice::SPARE;
use super::load::Load;
use super::{Advisor, Variant, Variants};
use crate::failure::Failure;
use crate::format::{count, figure, plural, shares, thousandths, time, words};
use crate::open::Spare;
use crate::verdict::Caution;
use nandu_sim::decimals;
use nandu_sim::replay::Length;
use nandu_sim::steady::{State, TOO_SHORT};
use nandu_stack::{BuildOptions, BuiltPart};
use nandu_sweep::axis::{Axis, Step};
use nandu_sweep::bound::{Bound, Side};
use nandu_sweep::id::Shared;
use nandu_sweep::metric::{Kind, of_tenant};
use nandu_sweep::pareto::front;
use nandu_sweep::racing::{Found, PARTS};
use nandu_sweep::{Figure, Figures};
use serde::Serialize;

/// An SSD of a variant.
#[derive(Clone, Serialize)]
pub struct Drive {
    /// Its name in the stack.
    pub name: String,
    /// What of its flash is spare.
    #[serde(flatten)]
    pub spare: Spare,
}

/// A variant that ran all requests.
#[derive(Clone, Serialize)]
pub struct Row {
    /// Its place among the variants.
    pub point: usize,
    /// What it is.
    pub settings: String,
    /// The same for people: where spare flash is chosen, with over-provisioning as vendors count it.
    #[serde(skip)]
    pub shown: String,
    /// Its SSDs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub drives: Vec<Drive>,
    /// What it costs.
    #[serde(rename = "cost", serialize_with = "decimals::one")]
    pub cost_thousandths: u64,
    /// Whether it meets the bounds on all traces.
    pub meets: bool,
    /// By how much it misses them at worst.
    #[serde(rename = "missed_by", serialize_with = "decimals::one")]
    pub missed_by_thousandths: u64,
    /// Whether requests came faster than they were served.
    pub saturated: bool,
    /// The longest of the traces' 99th percentiles.
    pub p99_ns: u64,
    /// The shortest of its lives; not there where nothing is worn.
    #[serde(
        rename = "lifetime_years",
        serialize_with = "decimals::option",
        skip_serializing_if = "Option::is_none"
    )]
    pub lifetime_years_thousandths: Option<u64>,
    /// Whether it was in steady state.
    pub state: &'static str,
    /// Whether nothing is better in every way.
    pub front: bool,
    /// Whether a lifetime that is asked for is that of flash of which nothing was erased: it meets any bound.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unworn: bool,
    #[serde(skip)]
    figures: Vec<Figures>,
}

/// A parameter one step away, as runs of a part of the requests show it.
#[derive(Serialize)]
pub struct Next {
    /// The parameter and its two steps.
    pub settings: String,
    /// The figure that binds.
    pub figure: String,
    /// That figure of the best.
    pub from: u64,
    /// The same one step away.
    pub to: u64,
    /// The cost of the best.
    #[serde(rename = "cost_from", serialize_with = "decimals::one")]
    pub cost_from_thousandths: u64,
    /// The cost one step away.
    #[serde(rename = "cost_to", serialize_with = "decimals::one")]
    pub cost_to_thousandths: u64,
    /// The unit of the figure.
    #[serde(skip)]
    pub kind: Option<Kind>,
}

/// What a tenant sees of the best, at worst.
#[derive(Serialize)]
pub struct TenantLatency {
    /// The tenant.
    pub name: String,
    /// Its mean latency.
    pub mean_ns: u64,
    /// Its 99th percentile.
    pub p99_ns: u64,
}

/// How a bound held in one check.
#[derive(Serialize)]
pub struct Check {
    /// The bound.
    pub bound: String,
    /// Its least figure; not there where nothing was erased in any run.
    #[serde(rename = "min", skip_serializing_if = "Option::is_none")]
    pub least: Option<u64>,
    /// Its largest.
    #[serde(rename = "max", skip_serializing_if = "Option::is_none")]
    pub most: Option<u64>,
    /// In how many runs nothing was erased, so that the bound holds and says little.
    #[serde(skip_serializing_if = "is_none")]
    pub unworn: usize,
    /// In how many runs it held.
    pub held: usize,
    /// Of so many.
    pub of: usize,
    /// The unit of the figure.
    #[serde(skip)]
    pub kind: Option<Kind>,
}

#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_none(number: &usize) -> bool {
    *number == 0
}

/// The whole advice.
#[derive(Serialize)]
pub struct Advice {
    schema: u32,
    /// The bounds.
    pub wanted: Vec<String>,
    /// Where the requests come from.
    pub traces: Vec<String>,
    /// Variants there are.
    pub variants: usize,
    /// Variants that ran at least a part of the requests.
    pub looked_at: usize,
    /// The work of the search, in thousandths of a run of all requests.
    #[serde(rename = "runs", serialize_with = "decimals::one")]
    pub runs_thousandths: u64,
    /// Whether the search ended by itself.
    pub settled: bool,
    /// Whether the best meets the bounds on all traces.
    pub meets: bool,
    /// The best, or the nearest where none meets the bounds.
    pub best: Option<Row>,
    /// What each tenant sees of it; empty where there is one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tenants: Vec<TenantLatency>,
    /// Variants that ran all requests, the best first.
    pub rows: Vec<Row>,
    /// Shares of the time of the slowest hundredth of the requests, in thousandths.
    #[serde(rename = "slowest_hundredth", serialize_with = "decimals::named")]
    pub slowest_hundredth_thousandths: Vec<(String, u64)>,
    /// What holds the best back, in words.
    pub binds: String,
    /// The parameter that brings most.
    pub next: Option<Next>,
    /// Twice the size of the drives, where that is what is left against wear.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub larger: Option<String>,
    /// How the bounds hold on parts of the traces and with another seed.
    pub checks: Vec<Check>,
    /// How sure all that is.
    pub confidence: &'static str,
    /// Whether a runtime ends the load of some trace.
    #[serde(skip)]
    has_runtime: bool,
}

/// The largest figure among the traces; of lifetimes the least.
pub fn worst(figures: &[Figures], name: &str) -> Option<u64> {
    let values = figures.iter().filter_map(|f| match f.get(name)? {
        Figure::Value(v) => Some(*v),
        Figure::Unworn => None,
    });
    if name.starts_with("lifetime") { values.min() } else { values.max() }
}

/// A lifetime in words.
pub fn lifetime(thousandths: Option<u64>) -> String {
    figure(Kind::Years, Some(thousandths.map_or(Figure::Unworn, Figure::Value)))
}

impl Advice {
    /// What follows from what was `found`.
    ///
    /// # Errors
    /// A further run failed.
    pub fn of(advisor: &Advisor, found: &Found) -> Result<Advice, Failure> {
        let mut rows: Vec<Row> = Vec::new();
        for point in found.ranked() {
            if let Some(variant) = advisor.variant(point) {
                rows.push(row(advisor, point, &variant)?);
            }
        }
        let costs: Vec<Option<Vec<i128>>> = rows
            .iter()
            .map(|row| {
                let life = row.lifetime_years_thousandths.map_or(i128::from(u64::MAX), i128::from);
                let sound = row.missed_by_thousandths < u64::MAX && !row.saturated;
                sound.then(|| vec![i128::from(row.cost_thousandths), i128::from(row.p99_ns), -life])
            })
            .collect();
        rows.iter_mut().zip(front(&costs)).for_each(|(row, on)| row.front = on);
        let best = rows.first().cloned();
        let mut advice = Advice {
            schema: nandu_sim::result::SCHEMA,
            wanted: advisor.bounds.iter().map(|b| b.text.clone()).collect(),
            traces: advisor.loads.iter().map(|l| l.name.clone()).collect(),
            variants: advisor.space.len(),
            looked_at: {
                let all: std::collections::BTreeSet<usize> =
                    found.scores.iter().flat_map(|part| part.keys().copied()).collect();
                all.len()
            },
            runs_thousandths: found.sixteenths * 1000 / PARTS[0],
            settled: found.settled,
            meets: best.as_ref().is_some_and(|row| row.meets),
            tenants: best.iter().flat_map(|best| advisor.latencies(&best.figures)).collect(),
            best,
            rows,
            slowest_hundredth_thousandths: Vec::new(),
            binds: String::new(),
            next: None,
            larger: None,
            checks: Vec::new(),
            confidence: "unsure",
            has_runtime: advisor.loads.iter().any(|load| matches!(load.length(), Length::Millis(_))),
        };
        let Some(best) = &advice.best else { return Ok(advice) };
        let Some(variant) = advisor.variant(best.point) else { return Ok(advice) };
        advisor.is_found();
        let tight = tightest(advisor, best);
        // A tenant whose latency is the tightest bound is asked what its own requests wait for.
        let tenant = tight.and_then(|bound| bound.metric.name.strip_prefix("tenant.")?.split('.').next());
        let sums: Vec<(&str, u64)> = advisor.slow_path(&variant, tenant)?.into_iter().collect();
        let parts = shares(&sums.iter().map(|s| s.1).collect::<Vec<_>>());
        let mut path: Vec<(String, u64)> = sums
            .iter()
            .zip(parts)
            .filter(|(_, part)| *part > 0)
            .map(|(s, part)| (words(s.0), part))
            .collect();
        path.sort_by_key(|(name, part)| (std::cmp::Reverse(*part), name.clone()));
        let binds = binds(advisor, best, &path, tight);
        let next = next(advisor, found, best.point, tight)?;
        let larger = match (&advisor.variants, tight) {
            (Variants::Choice(drives), Some(bound)) if bound.metric.name.starts_with("lifetime") => {
                // Wear spreads over what there is: as many doublings as the bound is missed by, up to five at a time.
                let largest = drives.sizes.last().map_or(0, |size| size.0 >> 20);
                let times =
                    best.missed_by_thousandths.div_ceil(1000).clamp(2, 32).next_power_of_two().ilog2();
                // Those that were chosen among are not enough.
                let sizes = (1..=times).map(|doubled| format!("{}MiB", largest << doubled));
                Some(sizes.collect::<Vec<_>>().join(","))
            }
            _ => None,
        };
        let checks = checks(advisor, &variant)?;
        let held = checks.iter().all(|c| c.held == c.of);
        let confidence = match (advice.meets, held, found.settled) {
            // A lifetime that no run has seen is no knowledge.
            (true, ..) if best.unworn => "unsure",
            (true, true, true) => "fairly sure",
            (true, true, false) | (true, false, true) => "somewhat sure",
            (false, _, true) if checks.iter().any(|c| c.held == 0) => {
                "fairly sure that this choice is not enough"
            }
            _ => "unsure",
        };
        (advice.slowest_hundredth_thousandths, advice.binds) = (path, binds);
        advice.larger = larger.filter(|_| next.is_none() && !advice.meets);
        (advice.next, advice.checks, advice.confidence) = (next, checks, confidence);
        Ok(advice)
    }

    /// What a reader must know before believing the figures of the variants that ran all requests.
    pub fn cautions(&self) -> Vec<Caution> {
        let which = |state: State| {
            let is = |row: &&Row| row.state == state.name();
            let among = if self.best.iter().any(|best| is(&best)) { ", the best among them," } else { "" };
            let (n, all) = (self.rows.iter().filter(is).count(), self.rows.len() as u64);
            (n > 0).then(|| {
                format!("{} of {} that ran all requests{among}", count(n as u64), plural(all, "variant"))
            })
        };
        let unsteady = which(State::NotSteady).map(|which| Caution {
            text: format!(
                "{which} not in steady state: a longer load or --extend comes nearer to what lasts"
            ),
            serious: true,
        });
        let short = which(State::TooShort).map(|which| Caution {
            text: format!("{which} {TOO_SHORT}; a longer load says more"),
            serious: false,
        });
        let unworn = self.rows.iter().filter(|row| row.unworn).count() as u64;
        let among =
            if self.best.as_ref().is_some_and(|best| best.unworn) { ", the best among them," } else { "" };
        let unworn = (unworn > 0).then(|| Caution {
            text: format!(
                "{} of {} that ran all requests{among} erased nothing in some flash: such a lifetime meets any bound and says little; \
                 {} says more",
                count(unworn),
                plural(self.rows.len() as u64, "variant"),
                if self.has_runtime { "a longer `runtime`" } else { "a longer load" }
            ),
            serious: true,
        });
        unworn.into_iter().chain(unsteady).chain(short).collect()
    }

    /// One line for the head of the winning file.
    pub fn summary(&self) -> String {
        let best = self.best.as_ref();
        let said = best.map_or(String::new(), |b| {
            format!(
                "Measured: p99 {}, lifetime {}, cost {}",
                time(b.p99_ns),
                lifetime(b.lifetime_years_thousandths),
                thousandths(b.cost_thousandths)
            )
        });
        format!("Wanted: {}. {said}.\nTraces: {}.", self.wanted.join(" and "), self.traces.join("; "))
    }
}

impl Advisor<'_> {
    /// What each of several tenants sees at worst.
    fn latencies(&self, figures: &[Figures]) -> Vec<TenantLatency> {
        let of = |tenant: &String| {
            let [mean_ns, p99_ns] =
                ["mean", "p99"].map(|name| worst(figures, &of_tenant(tenant, name)).unwrap_or(0));
            TenantLatency { name: tenant.clone(), mean_ns, p99_ns }
        };
        self.doors.iter().filter_map(|door| door.tenant.as_ref()).map(of).collect()
    }
}

fn row(advisor: &Advisor, point: usize, variant: &Variant) -> Result<Row, Failure> {
    let figures = advisor.loads.iter().map(|load| {
        let (options, shared) = load.parts.last().expect("the whole is a part");
        advisor.run(variant, options, shared)
    });
    let figures: Vec<Figures> = figures.collect::<Result<_, _>>()?;
    let score = advisor.score(variant.cost, &figures);
    let mut built = variant.stack.build(&BuildOptions::default())?;
    let drive = |part: &mut BuiltPart| Some(Drive { name: part.name.clone(), spare: Spare::of(part)? });
    let drives: Vec<Drive> = built.parts.iter_mut().filter_map(drive).collect();
    Ok(Row {
        point,
        settings: advisor.space.label(point),
        shown: shown(advisor, point, &drives),
        drives,
        cost_thousandths: variant.cost,
        meets: score.missed == 0,
        missed_by_thousandths: score.missed,
        saturated: worst(&figures, "saturated") == Some(1),
        p99_ns: advisor.slowest(&figures).unwrap_or(0),
        lifetime_years_thousandths: worst(&figures, "lifetime"),
        state: match worst(&figures, "state") {
            Some(0) => "steady",
            _ if figures.iter().any(|f| f.get("state") == Some(&Figure::Value(1))) => "not steady",
            Some(2) => "load varies",
            _ => "too short",
        },
        front: false,
        unworn: advisor
            .bounds
            .iter()
            .any(|bound| figures.iter().any(|f| f.get(&bound.metric.name) == Some(&Figure::Unworn))),
        figures,
    })
}

/// The variant in words, with the over-provisioning of its drives beside the spare flash that is chosen for them.
fn shown(advisor: &Advisor, point: usize, drives: &[Drive]) -> String {
    let is_chosen = |axis: &Axis, step: &Step, drive: &Drive| match advisor.variants {
        Variants::Choice(_) => axis.name == SPARE,
        Variants::Of(_) => {
            step.settings.iter().any(|s| s.path == format!("device.{}.spare_factor", drive.name))
        }
    };
    advisor.space.label_with(point, |axis, step| {
        let chosen = drives.iter().filter(|drive| is_chosen(axis, step, drive));
        let mut words: Vec<String> = chosen.map(|drive| drive.spare.as_vendors_count()).collect();
        // The legs of a mirror are alike.
        words.dedup();
        if words.is_empty() { String::new() } else { format!(" ({})", words.join(", ")) }
    })
}

/// Thousandths of erases of a block on the mean below which the most worn block is much by chance.
const CHANCE: u64 = 10_000;

/// Mean erases of a block, in thousandths, of the device and trace that have most.
fn erases_per_block(figures: &[Figures]) -> Option<u64> {
    let of = |(name, figure): (&String, &Figure)| match figure {
        Figure::Value(value) if name.ends_with(".erases_per_block") => Some(*value),
        _ => None,
    };
    figures.iter().flatten().filter_map(of).max()
}

/// The bound with the least slack, or that is missed most.
fn tightest<'a>(advisor: &'a Advisor, best: &Row) -> Option<&'a Bound> {
    let slack = |bound: &&Bound| {
        let values = best.figures.iter().filter_map(|f| match f.get(&bound.metric.name)? {
            Figure::Value(v) => Some(*v),
            Figure::Unworn => None,
        });
        // Figure over limit in thousandths, above 1000 when missed: the largest is the tightest.
        let ratio = |v: u64| match bound.side {
            Side::AtMost => u128::from(v) * 1000 / u128::from(bound.limit.max(1)),
            Side::AtLeast => u128::from(bound.limit) * 1000 / u128::from(v.max(1)),
        };
        values.map(ratio).max().unwrap_or(0)
    };
    advisor.bounds.iter().max_by_key(slack)
}

/// What holds the best back, in words.
fn binds(advisor: &Advisor, best: &Row, path: &[(String, u64)], tight: Option<&Bound>) -> String {
    if let Some(bound) = tight.filter(|b| b.metric.name.starts_with("lifetime")) {
        let waf = worst(&best.figures, "waf").map_or("-".into(), thousandths);
        let skew = worst(&best.figures, "wear_skew").map_or("-".into(), thousandths);
        let text = format!(
            "wear ({} is the tightest bound): WAF {waf}, the most worn block has {skew} times the mean",
            bound.text
        );
        let asked = bound.text.strip_prefix("lifetime>=").filter(|_| bound.metric.name == "lifetime");
        let is_even = worst(&best.figures, "lifetime") == worst(&best.figures, "lifetime_region");
        return match (asked, erases_per_block(&best.figures).filter(|&erases| erases < CHANCE)) {
            (Some(_), Some(erases)) if is_even => format!(
                "{text}, which is no more than chance gives it, for a block was erased {} times on the mean: wear is taken as even; \
                 longer traces say more",
                thousandths(erases)
            ),
            (Some(years), Some(erases)) => format!(
                "{text}; a block was erased {} times on the mean, so which was erased most is much by chance: longer traces, or \
                 --bound 'lifetime_region>={years}', say more",
                thousandths(erases)
            ),
            _ => text,
        };
    }
    let share = |name: &str| path.iter().find(|p| p.0 == name).map_or(0, |p| p.1);
    let (gc, map, bus, queue) = (share("gc"), share("translation"), share("channel"), share("queue"));
    let die = share("nand read") + share("program");
    let largest = [gc, map, bus, queue, die].into_iter().max().unwrap_or(0);
    let bursts = advisor.loads.iter().map(Load::burstiness).max().unwrap_or(0);
    match largest {
        0 => "none of the phases of flash".into(),
        n if n == gc => "collection: slow requests wait for pages to be moved and blocks to be erased".into(),
        n if n == map => "the map: slow requests wait for translation pages".into(),
        n if n == bus => "the channel: slow requests wait for transfers on a channel".into(),
        n if n == die => "the die: slow requests are read or programmed for most of their time".into(),
        _ if bursts >= 4000 => format!(
            "bursts: slow requests wait behind others, and the busiest hundredth of the time brings {} times the mean load",
            thousandths(bursts)
        ),
        _ => "the die: slow requests wait for other operations of their die".into(),
    }
}

/// Of the variants one step from `point`, the one that brings the tightest figure most, by runs of the same part.
fn next(
    advisor: &Advisor,
    found: &Found,
    point: usize,
    tight: Option<&Bound>,
) -> Result<Option<Next>, Failure> {
    let Some(bound) = tight else { return Ok(None) };
    let part = PARTS.len() - 2;
    let own = advisor.space.steps(point);
    let figure = |point: usize| -> Result<Option<(u64, u64)>, Failure> {
        let Some(variant) = advisor.variant(point) else { return Ok(None) };
        let figures: Vec<Figures> = advisor
            .loads
            .iter()
            .map(|load| advisor.run(&variant, &load.parts[part].0, &load.parts[part].1))
            .collect::<Result<_, _>>()?;
        Ok(worst(&figures, &bound.metric.name).map(|value| (value, variant.cost)))
    };
    let Some((from, cost)) = figure(point)? else { return Ok(None) };
    let mut best: Option<(u64, u64, usize)> = None;
    for &other in found.scores[part].keys() {
        let apart = advisor.space.steps(other).iter().zip(&own).filter(|(a, b)| a != b).count();
        if apart != 1 || found.short(other).is_none() {
            continue;
        }
        let Some((value, cost)) = figure(other)? else { continue };
        let better = |a: u64, b: u64| match bound.side {
            Side::AtMost => a < b,
            Side::AtLeast => a > b,
        };
        if better(value, best.map_or(from, |b| b.0)) {
            best = Some((value, cost, other));
        }
    }
    let named = |other: usize| {
        let names = advisor.space.names(point).into_iter().zip(advisor.space.names(other));
        let changed = advisor.space.axes().iter().zip(names).find(|(_, (a, b))| a != b);
        changed.map_or(String::new(), |(axis, (a, b))| format!("{} from {a} to {b}", axis.name))
    };
    Ok(best.map(|(value, other_cost, other)| Next {
        settings: named(other),
        figure: bound.metric.name.clone(),
        from,
        to: value,
        cost_from_thousandths: cost,
        cost_to_thousandths: other_cost,
        kind: Some(bound.metric.kind),
    }))
}

/// The bounds on the second half of each trace, on its first half, and with another seed.
fn checks(advisor: &Advisor, variant: &Variant) -> Result<Vec<Check>, Failure> {
    let mut all: Vec<Figures> = Vec::new();
    for load in &advisor.loads {
        let ways = load.ways(|options| advisor.sent(variant, options))?;
        for way in ways {
            all.push(advisor.run(variant, &way, &Shared::of(&way))?);
        }
    }
    let check = |bound: &Bound| {
        let values: Vec<u64> = all
            .iter()
            .filter_map(|f| match f.get(&bound.metric.name)? {
                Figure::Value(v) => Some(*v),
                Figure::Unworn => None,
            })
            .collect();
        let held = all.iter().filter(|f| bound.missed_by(f.get(&bound.metric.name).copied()) == 0).count();
        let unworn = all.iter().filter(|f| f.get(&bound.metric.name) == Some(&Figure::Unworn)).count();
        let (least, most) = (values.iter().min().copied(), values.iter().max().copied());
        (unworn > 0 || least.is_some()).then(|| Check {
            bound: bound.text.clone(),
            least,
            most,
            unworn,
            held,
            of: all.len(),
            kind: Some(bound.metric.kind),
        })
    };
    Ok(advisor.bounds.iter().filter_map(check).collect())
}
