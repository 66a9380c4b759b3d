//! Advice: which drive, spare flash, map, cache and so on meets the bounds on all traces for the least money.
//!
//! [`choice`] has the variants, [`cost`] what they cost, [`nandu_sweep::racing`] the search, [`advice`] what follows from it. A variant is as good as
//! it is on the trace that suits it least: bounds are held against each trace.

mod advice;
mod choice;
mod cost;

pub use advice::{Advice, Check, Next, Row, lifetime};

use crate::failure::Failure;
use crate::format::{plural, visible};
use crate::open::{named, text as stack_text};
use crate::parallel;
use crate::plan::{Common, Made, extended, on_room, requests_of};
use crate::replay::{Load as Source, Replay};
use crate::source::{self, Wanted};
use crate::talk::{Bar, Talk};
use cost::Prices;
use nandu_base::{ByteLen, Op, Precondition, Registry, Span};
use nandu_sim::tap::{Look, Slowest, run_tapped};
use nandu_sim::{Extension, RunOptions, RunWorkload};
use nandu_stack::{BuildOptions, Stack, StackFile};
use nandu_sweep::bound::Bound;
use nandu_sweep::id::Shared;
use nandu_sweep::journal::Record;
use nandu_sweep::metric::{Devices, Kind as MetricKind, figures};
use nandu_sweep::racing::{Found, Measure, PARTS, Score, Seen, race};
use nandu_sweep::survey::with_settings;
use nandu_sweep::{Figure, Figures, Id, Journal, Space, best};
use nandu_trace::Requests;
use nandu_trace::fit::Fit;
use nandu_trace::pages::{PAGE, PageSet};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Mutex;

/// Variants that are measured one by one at most.
const EXHAUSTIVE: usize = 512;
/// Most requests whose critical paths are looked at.
const SLOW: usize = 20_000;

/// What is asked for.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    /// What is advised has to serve each of them: its requests, and how they are replayed.
    pub traces: Vec<Replay>,
    /// Longest 99th percentile of latency.
    pub p99: Option<Span>,
    /// Least lifetime of the flash, in thousandths of a year.
    pub life: Option<u64>,
    /// Further bounds.
    pub bound: Vec<String>,
    /// A file of prices in place of the rough ones that are built in.
    pub cost: Option<PathBuf>,
    /// Size of the drives; what the traces touch and a tenth where none is given.
    pub capacity: Option<ByteLen>,
    /// The stack that varies, instead of the built-in choice.
    pub stack: Option<String>,
    /// With a stack: what varies, `PATH=VALUES`.
    pub axis: Vec<String>,
    /// Work of the search in runs of all requests; a tenth of the variants, 24 to 60, where none is given.
    pub budget: Option<u64>,
    /// Every variant is measured.
    pub exhaustive: bool,
    /// Runs at the same time.
    pub threads: usize,
    /// Folder of the journal: what is in it is not run again.
    pub out: Option<PathBuf>,
}

/// A lifetime as people write it: `5y`, `0.5 years`; thousandths of a year.
///
/// # Errors
/// It is none.
pub fn life(text: &str) -> Result<u64, String> {
    let number = text.trim().trim_end_matches("years").trim_end_matches("year").trim_end_matches('y');
    MetricKind::Years
        .read(&format!("{} years", number.trim()))
        .map_err(|_| "write years, for example 5y".into())
}

/// Where variants come from.
enum Variants {
    /// The built-in choice, with drives of this size.
    Choice(ByteLen),
    /// A stack whose options vary.
    Of(Box<StackFile>),
}

/// One trace, laid onto the drives.
struct Load {
    name: String,
    /// By place in [`PARTS`]: what runs, and what names its runs.
    parts: Vec<(RunOptions, Shared)>,
}

/// Everything that runs share.
pub struct Advisor<'a> {
    asked: &'a Asked,
    variants: Variants,
    space: Space,
    registry: Registry,
    bounds: Vec<Bound>,
    prices: Prices,
    loads: Vec<Load>,
    room: ByteLen,
    threads: usize,
    seed: u64,
    bar: Bar<'a>,
    /// What is known by name.
    known: Mutex<BTreeMap<Id, Figures>>,
    journal: Mutex<Option<Journal>>,
}

/// A variant that can be built.
struct Variant {
    stack: Stack,
    cost: u64,
}

/// Every variant with all requests.
fn all(advisor: &Advisor) -> Result<Found, Failure> {
    let whole = PARTS.len() - 1;
    let asked: Vec<(usize, usize)> = (0..advisor.space.len()).map(|point| (point, whole)).collect();
    let scores = (&mut &*advisor).measure(&asked)?;
    let mut found = Found { sixteenths: PARTS[0] * asked.len() as u64, settled: true, ..Found::default() };
    let scores = scores.into_iter().map(|seen| seen.map(|seen| seen.score));
    found.scores[whole] = asked.iter().map(|asked| asked.0).zip(scores).collect();
    found.best = found.ranked().first().copied();
    Ok(found)
}

fn bounds(asked: &Asked) -> Result<Vec<Bound>, Failure> {
    let p99 = asked.p99.map(|span| match span.to_string() {
        text if MetricKind::Time.read(&text) == Ok(span.0) => format!("p99<={text}"),
        _ => format!("p99<={} ns", span.0),
    });
    let life = asked.life.map(|n| format!("lifetime>={}.{:03} years", n / 1000, n % 1000));
    let all = p99.into_iter().chain(life).chain(asked.bound.iter().cloned());
    let bounds = all.map(|text| Bound::parse(&text, &Devices::default())).collect::<Result<Vec<_>, _>>()?;
    match bounds.is_empty() {
        true => Err(Failure::input("nothing is asked for: give --p99, --life or --bound")
            .with_help("for example nandu advise TRACE --p99 2ms --life 5y")),
        false => Ok(bounds),
    }
}

/// Bytes that the traces touch at most, each by itself.
fn touched(asked: &Asked, registry: &Registry, talk: Talk) -> Result<u64, Failure> {
    let mut most = 0;
    for load in &asked.traces {
        let mut set = PageSet::new();
        let requests = requests(load, registry, talk)?;
        requests.iter().filter(|r| r.op() != Op::Flush).for_each(|r| set.add(r));
        most = most.max(set.index().len() * PAGE);
    }
    Ok(most)
}

fn requests(load: &Replay, registry: &Registry, talk: Talk) -> Result<Requests, Failure> {
    let name = match trace(load)? {
        Source::Named(name) => name.clone(),
        Source::Given(requests) => return Ok(requests.first(load.limit.unwrap_or(u64::MAX))),
    };
    let wanted = Wanted {
        name,
        settings: load.settings.clone(),
        limit: load.limit,
        format: load.trace_format.clone(),
        columns: load.columns.clone(),
        bad_lines: load.bad_lines,
        seed: load.seed(),
        room: None,
    };
    source::requests(&wanted, registry, talk)
}

fn trace(load: &Replay) -> Result<&Source, Failure> {
    load.trace.as_ref().ok_or_else(|| Failure::input("advice needs a trace"))
}

impl<'a> Advisor<'a> {
    /// Reads the traces and lays them onto drives.
    ///
    /// # Errors
    /// A trace, a bound, a price or an option is wrong.
    pub fn prepare(asked: &'a Asked, registry: &Registry, talk: Talk<'a>) -> Result<Advisor<'a>, Failure> {
        let bounds = bounds(asked)?;
        let prices = Prices::of(asked.cost.as_deref())?;
        let registry = registry.clone();
        let first = asked.traces.first().ok_or_else(|| Failure::input("advice needs a trace"))?;
        let (seed, precondition) = (first.seed(), first.precondition.unwrap_or(Precondition::Aged));
        let (variants, space, room) = match &asked.stack {
            Some(name) => {
                let (text, shown) = stack_text(named(name).1)?;
                let file = StackFile::parse(&text, &shown)?;
                let axes = asked.axis.iter().map(|text| nandu_sweep::axis::Axis::parse(text));
                let space = Space::new(axes.collect::<Result<_, _>>()?, &[])?;
                let survey = nandu_sweep::survey::survey(&file, &space, &registry, None, (seed, 1, true))?;
                let room = survey.smallest().map_or(ByteLen(0), |(room, _)| room);
                (Variants::Of(Box::new(file)), space, room)
            }
            None if !asked.axis.is_empty() => {
                return Err(Failure::input("--axis varies a stack, and none is named: give --stack"));
            }
            None => {
                const STEP: u64 = 64 << 20;
                let bytes = match asked.capacity {
                    Some(capacity) => capacity.0,
                    None => touched(asked, &registry, talk)? / 10 * 11,
                };
                // Metadata of a mirror takes some; blocks of small drives are few.
                let capacity = (bytes + (8 << 20)).next_multiple_of(STEP).max(4 * STEP);
                (Variants::Choice(ByteLen(capacity)), choice::space()?, ByteLen(capacity - (8 << 20)))
            }
        };
        let common = Common { seed, precondition, registry: &registry, talk };
        let loads = asked.traces.iter().map(|replay| load(replay, common, room));
        let loads = loads.collect::<Result<Vec<_>, _>>()?;
        let each: u64 =
            loads.iter().map(|l| l.parts.last().map_or(0, |(o, _)| requests_of(&o.workloads[0]))).sum();
        let runs = if asked.exhaustive { space.len() as u64 } else { budget(asked, space.len()) };
        let mut advisor = Advisor {
            asked,
            variants,
            space,
            registry,
            bounds,
            prices,
            loads,
            room,
            threads: asked.threads,
            seed,
            bar: talk.bar(each * runs, "requests at most"),
            known: Mutex::default(),
            journal: Mutex::default(),
        };
        if let Some(folder) = &asked.out {
            let program = crate::sweep::program()?;
            let mut known = BTreeMap::new();
            let (journal, damaged) = Journal::open(folder, &program, |r| {
                known.insert(r.id, r.figures);
            })?;
            if !known.is_empty() {
                talk.note(format!("{} known already", plural(known.len() as u64, "run")));
            }
            if damaged > 0 {
                talk.warning(format!("{} of the journal damaged; measured again", plural(damaged, "line")));
            }
            (advisor.known, advisor.journal) = (Mutex::new(known), Mutex::new(Some(journal)));
        }
        Ok(advisor)
    }

    /// Looks for the best.
    ///
    /// # Errors
    /// There are too many variants to measure each, or a run failed.
    pub fn find(&self) -> Result<Found, Failure> {
        let points = self.space.len();
        if !self.asked.exhaustive {
            return race(&self.space, self.seed, budget(self.asked, points), &mut &*self);
        }
        if points > EXHAUSTIVE {
            return Err(Failure::input(format!(
                "--exhaustive: there are {points} variants, at most {EXHAUSTIVE} are measured one by one; vary less with --stack and --axis"
            )));
        }
        all(self)
    }

    /// The work is done.
    pub fn ends(&self) {
        self.bar.clear();
    }
}

/// Runs of all requests that the search may take.
fn budget(asked: &Asked, points: usize) -> u64 {
    asked.budget.unwrap_or((points as u64 / 10).clamp(24, 60))
}

/// One trace with its parts.
fn load(replay: &Replay, common: Common, room: ByteLen) -> Result<Load, Failure> {
    let own = Replay { fit: Some(replay.fit.unwrap_or(Fit::Compact)), ..replay.clone() };
    let Made { workload, renew } = on_room(trace(replay)?, &own, common, room, None)?;
    let source = workload.trace.meta().source.clone();
    let part = |&one_in: &u64| {
        let whole = one_in == 1;
        let trace = workload.trace.first((workload.trace.len() / one_in).max(1));
        let mut options = RunOptions {
            workloads: vec![RunWorkload { trace, ..workload.clone() }],
            seed: common.seed,
            precondition: common.precondition,
            warm_up: 0,
            extension: Extension { renew: vec![renew.clone()], ..Extension::NONE },
            stack_name: "advice".into(),
        };
        if whole {
            extended(&mut options, replay.extend);
        }
        let shared = Shared::of(&options);
        (options, shared)
    };
    Ok(Load { name: source, parts: PARTS.iter().map(part).collect() })
}

impl Advisor<'_> {
    fn file(&self, point: usize) -> Result<StackFile, Failure> {
        match &self.variants {
            Variants::Choice(capacity) => choice::stack(&self.space, point, *capacity),
            Variants::Of(file) => Ok(with_settings(file, &self.space, point)?),
        }
    }

    /// The variant at a point; `None` when it cannot be built or is too small.
    fn variant(&self, point: usize) -> Option<Variant> {
        let file = self.file(point).ok()?;
        let stack = file.load(&self.registry).ok()?;
        let built = stack.build(&BuildOptions::default()).ok()?;
        let room = built.parts[stack.exports.first()?.node as usize].machine.limits().capacity;
        if room < self.room || stack.exports.len() != 1 {
            return None;
        }
        Some(Variant { cost: self.prices.price(&file, &stack).ok()?, stack })
    }

    /// The figures of a run: known, or measured and noted.
    fn run(&self, variant: &Variant, options: &RunOptions, shared: &Shared) -> Result<Figures, Failure> {
        let id = shared.id(variant.stack.hash_long(), 0);
        if let Some(known) = self.known.lock().expect("no holder panics").get(&id) {
            return Ok(known.clone());
        }
        let result = nandu_sim::run(&variant.stack, options, self.bar.follow())?;
        let record = Record { id, figures: figures(&result) };
        if let Some(journal) = self.journal.lock().expect("no holder panics").as_mut() {
            journal.append(&record)?;
        }
        self.known.lock().expect("no holder panics").insert(id, record.figures.clone());
        Ok(record.figures)
    }

    /// By how much the figures of one trace miss the bounds, at worst.
    fn missed(&self, figures: &Figures) -> u64 {
        let is = |name: &str| figures.get(name).is_some_and(|f| *f != Figure::Value(0));
        if is("failed") {
            return u64::MAX;
        }
        let worst = self.bounds.iter().map(|b| b.missed_by(figures.get(&b.metric.name).copied())).max();
        // What does not keep up is worse than what only is slow.
        worst.unwrap_or(0).saturating_add(if is("saturated") { 1_000_000 } else { 0 })
    }

    /// The score of a variant with these figures by trace.
    fn score(&self, cost: u64, figures: &[Figures]) -> Score {
        let missed = figures.iter().map(|f| self.missed(f)).max().unwrap_or(0);
        Score { missed, cost, then: advice::worst(figures, "p99").unwrap_or(u64::MAX) }
    }

    /// For each bound how far the worst of these figures by trace is from meeting it.
    fn margins(&self, figures: &[Figures]) -> Vec<f64> {
        let is = |name: &str| figures.iter().any(|f| f.get(name).is_some_and(|f| *f != Figure::Value(0)));
        // What fails or does not keep up meets nothing, by as much as a twofold figure would at least.
        let least = if is("failed") || is("saturated") { 1.0 } else { f64::NEG_INFINITY };
        let worst = |bound: &Bound| {
            figures.iter().map(|f| bound.margin(f.get(&bound.metric.name).copied())).fold(least, f64::max)
        };
        self.bounds.iter().map(worst).collect()
    }

    /// Where the time of the slowest hundredth of the requests went, by phase, over all traces.
    fn slow_path(&self, variant: &Variant) -> Result<BTreeMap<&'static str, u64>, Failure> {
        let mut sums = BTreeMap::new();
        for load in &self.loads {
            let (options, _) = load.parts.last().expect("the whole is a part");
            // The first turn is enough to see what is slow.
            let options = RunOptions { extension: Extension::NONE, ..options.clone() };
            let slow = (requests_of(&options.workloads[0]) / 100).clamp(1, SLOW as u64) as usize;
            let seen =
                run_tapped(&variant.stack, &options, Slowest::new(slow), Look::default(), self.bar.follow())?;
            for request in seen.tap.into_sorted() {
                for phase in nandu_base::Phase::ALL {
                    *sums.entry(phase.name()).or_default() += request.path.get(phase).0;
                }
            }
        }
        Ok(sums)
    }
}

impl Measure for &Advisor<'_> {
    type Error = Failure;

    fn costs(&mut self, points: &[usize]) -> Result<Vec<Option<u64>>, Failure> {
        let advisor: &Advisor<'_> = self;
        Ok(parallel::map(points, advisor.threads, |&point| Some(advisor.variant(point)?.cost)))
    }

    fn measure(&mut self, points: &[(usize, usize)]) -> Result<Vec<Option<Seen>>, Failure> {
        let advisor: &Advisor<'_> = self;
        let scores = parallel::map(points, advisor.threads, |&(point, part)| {
            let Some(variant) = advisor.variant(point) else { return Ok(None) };
            let figures = advisor.loads.iter().map(|load| {
                let (options, shared) = &load.parts[part];
                advisor.run(&variant, options, shared)
            });
            let figures: Vec<Figures> = figures
                .collect::<Result<_, Failure>>()
                .map_err(|failure| failure.at(advisor.space.label(point)))?;
            let score = advisor.score(variant.cost, &figures);
            Ok(Some(Seen { score, margins: advisor.margins(&figures) }))
        });
        scores.into_iter().collect()
    }
}

/// The winning stack file, with where it comes from; `None` where nothing was found.
///
/// # Errors
/// The stack cannot be written down.
pub fn winner(advisor: &Advisor, found: &Found, advice: &Advice) -> Result<Option<String>, Failure> {
    let (Some(_), Some(point)) = (&advice.best, found.best) else { return Ok(None) };
    let replay = &advisor.asked.traces[0];
    let label = advisor.space.label(point);
    let described = toml::Value::String(format!("{label}: advised")).to_string();
    let file = advisor.file(point)?.with_set("description", &described)?;
    let fit = replay.fit.unwrap_or(Fit::Compact).name();
    let state = nandu_sim::run::precondition_name(replay.precondition.unwrap_or(Precondition::Aged));
    let trace = replay.trace.as_ref().and_then(Source::name).unwrap_or("TRACE");
    let mut line = format!("--trace {trace} --fit {fit} --precondition {state}");
    replay.limit.iter().for_each(|n| line += &format!(" --limit {n}"));
    for setting in &replay.settings {
        line += &format!(" --gen '{}={}'", setting.key, source::plain(&setting.value));
    }
    replay.closed.iter().for_each(|n| line += &format!(" --closed {n}"));
    replay.time_scale.iter().for_each(|r| line += &format!(" --time-scale {}/{}", r.num, r.den));
    replay.extend.iter().for_each(|n| line += &format!(" --extend {n}"));
    let comment = format!(
        "{label}, the best of {} that `nandu advise` looked at.\n\n{}\n\n  nandu run THIS {line}",
        plural(advice.looked_at as u64, "variant"),
        visible(&advice.summary())
    );
    Ok(Some(best::text(&comment, &file)))
}
