//! Advice: which drive, spare flash, map, cache and so on meets the bounds on all traces for the least money.
//!
//! [`choice`] has the variants, [`cost`] what they cost, [`load`] what runs on them, [`nandu_sweep::racing`] the search, [`advice`] what follows from it. A
//! variant is as good as it is on the trace that suits it least: bounds are held against each trace, and latencies against each tenant.

mod advice;
mod choice;
mod cost;
mod load;

pub use advice::{Advice, Check, Drive, Next, Row, TenantLatency, lifetime};

use crate::console::{Bar, Console};
use crate::failure::Failure;
use crate::format::{plural, visible};
use crate::open::{named, text as stack_text, with_sets};
use crate::parallel;
use crate::plan::{Common, Made, on_room, requests_of};
use crate::replay::{Load as Source, Replay, file_of_columns};
use crate::source::{self, Wanted, generator};
use choice::{Drives, PART, Part};
use cost::Prices;
use load::Load;
use nandu_base::{BadLines, ByteLen, Op, Precondition, Registry, Span};
use nandu_sim::replay::Length;
use nandu_sim::tap::{Ended, Look, Slowest, Tap, run_tapped};
use nandu_sim::{Extension, RunOptions, RunWorkload};
use nandu_stack::{BuildOptions, Stack, StackFile};
use nandu_sweep::bound::Bound;
use nandu_sweep::id::Shared;
use nandu_sweep::journal::Record;
use nandu_sweep::metric::{Devices, Kind as MetricKind, Metric, figures, is_latency, of_tenant};
use nandu_sweep::racing::{Found, Measure, PARTS, Score, Seen, race};
use nandu_sweep::survey::with_settings;
use nandu_sweep::{Figure, Figures, Id, Journal, Space, best};
use nandu_trace::Requests;
use nandu_trace::fit::Fit;
use nandu_trace::pages::{PAGE, PageSet};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// Variants that are measured one by one at most.
const EXHAUSTIVE: usize = 512;
/// Most requests whose critical paths are looked at.
const SLOW: usize = 20_000;

/// What is asked for.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    /// What is advised has to serve each of them: its requests, and how they are replayed.
    pub traces: Vec<Replay>,
    /// In place of these: tenants with the requests of each, which run at the same time. A tenant that comes again has requests for another time.
    pub tenants: Vec<(String, Replay)>,
    /// Longest 99th percentile of latency.
    pub p99: Option<Span>,
    /// Least lifetime of the flash, in thousandths of a year.
    pub life: Option<u64>,
    /// Further bounds.
    pub bound: Vec<String>,
    /// A file of prices in place of the rough ones that are built in.
    pub cost: Option<PathBuf>,
    /// Sizes of drives among which is chosen; what the traces touch and a tenth where none is given.
    pub capacity: Vec<ByteLen>,
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
    /// The built-in choice.
    Choice(Drives),
    /// A stack whose options vary.
    Of(Box<StackFile>),
}

/// Where requests go.
struct Door {
    /// The tenant, of several.
    tenant: Option<String>,
    /// Place of its export.
    export: usize,
    /// What the export holds at least.
    room: ByteLen,
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
    doors: Vec<Door>,
    threads: usize,
    seed: u64,
    console: Console<'a>,
    /// How far runs are, from the first one on: what came before says nothing of how long they take.
    bar: Mutex<Option<Arc<Bar<'a>>>>,
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

fn bounds(asked: &Asked, console: Console) -> Result<Vec<Bound>, Failure> {
    let p99 = asked.p99.map(|span| match span.to_string() {
        text if MetricKind::Time.read(&text) == Ok(span.0) => format!("p99<={text}"),
        _ => format!("p99<={} ns", span.0),
    });
    let life = asked.life.map(|n| format!("lifetime>={}.{:03} years", n / 1000, n % 1000));
    let all = p99.into_iter().chain(life).chain(asked.bound.iter().cloned());
    let tenants: Vec<&str> = tenants(asked)?.into_iter().map(|(name, _)| name).collect();
    let devices = Devices::of_tenants(tenants.iter().copied());
    let present = all.map(|text| {
        let (text, names) = nandu_sim::renamed::present(&text);
        names.iter().for_each(|(old, new)| console.note(crate::renamed::note(old, new)));
        text
    });
    let bounds = present.map(|text| Bound::parse(&text, &devices)).collect::<Result<Vec<_>, _>>()?;
    if bounds.is_empty() {
        return Err(Failure::input("nothing is asked for: give --p99, --life or --bound")
            .with_help("for example `nandu advise TRACE --p99 2ms --life 5y`"));
    }
    let each = |bound: Bound| match is_latency(&bound.metric.name) && !tenants.is_empty() {
        true => tenants.iter().map(|tenant| of_one(&bound, tenant)).collect(),
        false => vec![bound],
    };
    Ok(bounds.into_iter().flat_map(each).collect())
}

/// What a bound on a latency asks for one of the tenants.
fn of_one(bound: &Bound, tenant: &str) -> Bound {
    let name = of_tenant(tenant, &bound.metric.name);
    let text = bound.text.replacen(&bound.metric.name, &name, 1);
    Bound { text, metric: Metric { name, kind: bound.metric.kind }, ..bound.clone() }
}

/// What is wrong with the name of a tenant, which a key of the winner's stack file is.
///
/// # Errors
/// It has other letters than such keys have.
pub fn tenant_name(name: &str) -> Result<(), String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    match name.is_empty() || !name.chars().all(plain) {
        true => Err("a name has letters, digits, `-` and `_`".into()),
        false => Ok(()),
    }
}

/// The tenants with the requests of each, as many for each.
fn tenants(asked: &Asked) -> Result<Vec<(&str, Vec<&Replay>)>, Failure> {
    let mut out: Vec<(&str, Vec<&Replay>)> = Vec::new();
    if !asked.tenants.is_empty() && !asked.traces.is_empty() {
        return Err(Failure::input(
            "there are traces and tenants: a trace runs by itself, those of tenants at the same time",
        )
        .with_help("give each trace to a tenant, or none"));
    }
    for (tenant, load) in &asked.tenants {
        tenant_name(tenant).map_err(|why| Failure::input(format!("tenant `{}`: {why}", visible(tenant))))?;
        match out.iter_mut().find(|known| known.0 == tenant) {
            Some(known) => known.1.push(load),
            None => out.push((tenant, vec![load])),
        }
    }
    if let [(alone, _)] = out[..] {
        let message = format!("tenant `{alone}` is the only tenant");
        return Err(Failure::input(message).with_help("give its traces by themselves, or another tenant"));
    }
    let uneven = out.windows(2).find(|two| two[0].1.len() != two[1].1.len());
    if let Some([a, b]) = uneven {
        let traces = |load: &[&Replay]| plural(load.len() as u64, "trace");
        let message = format!("tenants: `{}` has {}, `{}` has {}", a.0, traces(&a.1), b.0, traces(&b.1));
        return Err(Failure::input(message).with_help(
            "the first traces of all tenants run together, then the second ones: give as many for each",
        ));
    }
    Ok(out)
}

/// Bytes that the traces touch at most, each by itself.
fn touched<'a>(
    loads: impl Iterator<Item = &'a Replay>,
    registry: &Registry,
    console: Console,
) -> Result<u64, Failure> {
    let mut most = 0;
    for load in loads {
        let mut set = PageSet::new();
        let requests = requests(load, registry, console)?;
        requests.iter().filter(|r| r.op() != Op::Flush).for_each(|r| set.add(r));
        most = most.max(set.index().len() * PAGE);
    }
    Ok(most)
}

fn requests(load: &Replay, registry: &Registry, console: Console) -> Result<Requests, Failure> {
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
    source::requests(&wanted, registry, console)
}

fn trace(load: &Replay) -> Result<&Source, Failure> {
    load.trace.as_ref().ok_or_else(|| Failure::input("advice needs a trace"))
}

impl<'a> Advisor<'a> {
    /// Reads the traces and lays them onto drives.
    ///
    /// # Errors
    /// A trace, a bound, a price or an option is wrong.
    pub fn prepare(
        asked: &'a Asked,
        registry: &Registry,
        console: Console<'a>,
    ) -> Result<Advisor<'a>, Failure> {
        let bounds = bounds(asked, console)?;
        let prices = Prices::of(asked.cost.as_deref())?;
        let registry = registry.clone();
        let all = || asked.traces.iter().chain(asked.tenants.iter().map(|(_, load)| load));
        let first = all().next().ok_or_else(|| Failure::input("advice needs a trace"))?;
        let (seed, precondition) = (first.seed(), first.precondition.unwrap_or(Precondition::Aged));
        let (variants, space, doors) = match &asked.stack {
            Some(name) => of_stack(asked, name, &registry, seed)?,
            None if !asked.axis.is_empty() => {
                return Err(Failure::input("--axis varies a stack, and none is named: give --stack"));
            }
            None => built_in(asked, &registry, console)?,
        };
        let common = Common { seed, precondition, registry: &registry, console };
        let loads = loads(asked, common, &doors)?;
        let mut advisor = Advisor {
            asked,
            variants,
            space,
            registry,
            bounds,
            prices,
            loads,
            doors,
            threads: asked.threads,
            seed,
            console,
            bar: Mutex::default(),
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
                console.note(format!("{} known already", plural(known.len() as u64, "run")));
            }
            crate::sweep::damaged(folder, damaged, console);
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
        *self.bar.lock().expect("no holder panics") = None;
    }

    /// Progress of runs. The first begins with that of the search, which may end sooner.
    fn bar(&self) -> Arc<Bar<'a>> {
        let mut bar = self.bar.lock().expect("no holder panics");
        let bar = bar.get_or_insert_with(|| {
            let points = self.space.len();
            let runs = if self.asked.exhaustive { points as u64 } else { budget(self.asked, points) };
            Arc::new(self.begun(runs * 2, "at most"))
        });
        Arc::clone(bar)
    }

    /// Progress of so many halves of a run of everything.
    fn begun(&self, halves: u64, how: &str) -> Bar<'a> {
        let lengths = || self.loads.iter().map(Load::length);
        let all = lengths().map(Length::amount).fold(0, u64::saturating_add);
        let unit = lengths().map(Length::unit).max().unwrap_or_default();
        self.console.bar(all.saturating_mul(halves) / 2, &format!("{unit} {how}"))
    }

    /// The search is over, and the best is looked at: where its slowest requests spend their time, halves of the load, and another seed.
    fn is_found(&self) {
        // What a runtime ends is run once more, to count its requests.
        let more =
            if self.loads.iter().any(|load| matches!(load.length(), Length::Millis(_))) { 2 } else { 0 };
        let bar = Arc::new(self.begun(7 + more, "to check the best"));
        *self.bar.lock().expect("no holder panics") = Some(bar);
    }
}

/// Runs of all requests that the search may take.
fn budget(asked: &Asked, points: usize) -> u64 {
    asked.budget.unwrap_or((points as u64 / 10).clamp(24, 60))
}

/// A stack of the user's own, what varies, and where requests go.
fn of_stack(
    asked: &Asked,
    name: &str,
    registry: &Registry,
    seed: u64,
) -> Result<(Variants, Space, Vec<Door>), Failure> {
    let (text, shown) = stack_text(named(name).1)?;
    let file = with_sets(StackFile::parse(&text, &shown)?, &[])?;
    let axes = asked.axis.iter().map(|text| nandu_sweep::axis::Axis::parse(text));
    let space = Space::new(axes.collect::<Result<_, _>>()?, &[])?;
    let door = |tenant: Option<&str>| {
        let survey = nandu_sweep::survey::survey(&file, &space, registry, tenant, (seed, 1, true))?;
        let (room, point) = survey.smallest().unwrap_or_default();
        let export = survey.seen.get(point).and_then(Option::as_ref).map_or(0, |seen| seen.export);
        Ok::<_, Failure>(Door { tenant: tenant.map(str::to_string), export, room })
    };
    let doors = match &tenants(asked)?[..] {
        [] => vec![door(None)?],
        tenants => tenants.iter().map(|(name, _)| door(Some(name))).collect::<Result<_, _>>()?,
    };
    Ok((Variants::Of(Box::new(file)), space, doors))
}

/// The built-in choice, as large as what the traces touch.
fn built_in(
    asked: &Asked,
    registry: &Registry,
    console: Console,
) -> Result<(Variants, Space, Vec<Door>), Failure> {
    const STEP: u64 = 64 << 20;
    /// Metadata of a mirror takes some; blocks of small drives are few.
    const MORE: u64 = 8 << 20;
    let tenants = tenants(asked)?;
    let sized = |bytes: u64| bytes.next_multiple_of(STEP).max(4 * STEP);
    // Traces are laid onto the smallest; larger drives take the same requests.
    let mut sizes: Vec<u64> = asked.capacity.iter().map(|capacity| sized(capacity.0)).collect();
    sizes.sort_unstable();
    let (mut parts, mut doors) = (Vec::new(), Vec::new());
    for (export, (name, loads)) in tenants.iter().enumerate() {
        let bytes = match sizes.first() {
            Some(least) => (least - MORE) / tenants.len() as u64 / PART * PART,
            None => (touched(loads.iter().copied(), registry, console)? / 10 * 11).next_multiple_of(PART),
        };
        let size = ByteLen(bytes.max(PART));
        parts.push(Part { name: (*name).into(), size });
        doors.push(Door { tenant: Some((*name).into()), export, room: size });
    }
    if sizes.is_empty() {
        let bytes = match tenants.is_empty() {
            true => touched(asked.traces.iter(), registry, console)? / 10 * 11,
            false => parts.iter().map(|part| part.size.0).sum(),
        };
        sizes.push(sized(bytes + MORE));
    }
    if tenants.is_empty() {
        doors.push(Door { tenant: None, export: 0, room: ByteLen(sizes[0] - MORE) });
    }
    let mut sizes: Vec<ByteLen> = sizes.into_iter().map(ByteLen).collect();
    sizes.dedup();
    let drives = Drives { sizes, parts };
    let space = choice::space(&drives)?;
    Ok((Variants::Choice(drives), space, doors))
}

/// The seed of the requests of the tenant at `place`: with one seed, generators of the same pace would send at the same instants.
fn seed_of(seed: u64, place: u64) -> u64 {
    seed.wrapping_add(place)
}

/// What runs: each trace by itself, or the first traces of all tenants, then the second ones.
fn loads(asked: &Asked, common: Common, doors: &[Door]) -> Result<Vec<Load>, Failure> {
    let made = |replay: &Replay, place: u64, limit: Option<u64>| {
        let fit = Some(replay.fit.unwrap_or(Fit::Compact));
        let own = Replay { fit, limit: limit.or(replay.limit), ..replay.clone() };
        let common = Common { seed: seed_of(common.seed, place), ..common };
        let door = &doors[place as usize];
        let Made { workload, renew } = on_room(trace(replay)?, &own, common, door.room, None)?;
        Ok::<_, Failure>(Made { workload: RunWorkload { export: door.export, ..workload }, renew })
    };
    let tenants = tenants(asked)?;
    let Some((_, first)) = tenants.first() else {
        let one = |replay: &Replay| Ok(Load::of(vec![made(replay, 0, None)?], common, replay.extend));
        return asked.traces.iter().map(one).collect();
    };
    let together = |turn: usize| {
        let all = || (0u64..).zip(&tenants).map(|(place, (_, loads))| (place, loads[turn]));
        let whole = all().map(|(place, load)| made(load, place, None)).collect::<Result<Vec<_>, _>>()?;
        let lengths = load::lengths(&whole.iter().map(|made| &made.workload).collect::<Vec<_>>());
        // What is left out is no part of what is laid onto the drive.
        let fitted = whole.into_iter().zip(all()).zip(lengths).map(|((one, (place, load)), length)| {
            match length < one.workload.trace.len() {
                true => made(load, place, Some(length)),
                false => Ok(one),
            }
        });
        let extend = all().next().and_then(|(_, load)| load.extend);
        Ok(Load::of(fitted.collect::<Result<_, _>>()?, common, extend))
    };
    (0..first.len()).map(together).collect()
}

impl Advisor<'_> {
    fn file(&self, point: usize) -> Result<StackFile, Failure> {
        match &self.variants {
            Variants::Choice(drives) => choice::stack(&self.space, point, drives),
            Variants::Of(file) => Ok(with_settings(file, &self.space, point)?),
        }
    }

    /// The variant at a point; `None` when it cannot be built or is too small.
    fn variant(&self, point: usize) -> Option<Variant> {
        let file = self.file(point).ok()?;
        let stack = file.load(&self.registry).ok()?;
        let built = stack.build(&BuildOptions::default()).ok()?;
        let holds = |door: &Door| {
            let export = stack.exports.get(door.export)?;
            Some(built.parts[export.node as usize].machine.limits().capacity >= door.room)
        };
        if !self.doors.iter().all(|door| holds(door).unwrap_or(false)) {
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
        let result = nandu_sim::run(&variant.stack, options, self.bar().follow())?;
        let record = Record { id, figures: figures(&result) };
        if let Some(journal) = self.journal.lock().expect("no holder panics").as_mut() {
            journal.append(&record)?;
        }
        self.known.lock().expect("no holder panics").insert(id, record.figures.clone());
        Ok(record.figures)
    }

    /// How many requests a run sends.
    fn sent(&self, variant: &Variant, options: &RunOptions) -> Result<u64, Failure> {
        let result = nandu_sim::run(&variant.stack, options, self.bar().follow())?;
        Ok(result.total.requests + result.total.failed)
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
        Score { missed, cost, then: self.slowest(figures).unwrap_or(u64::MAX) }
    }

    /// The largest p99, of any trace and tenant.
    fn slowest(&self, figures: &[Figures]) -> Option<u64> {
        let of = |door: &Door| match &door.tenant {
            Some(tenant) => advice::worst(figures, &of_tenant(tenant, "p99")),
            None => advice::worst(figures, "p99"),
        };
        self.doors.iter().filter_map(of).max()
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

    /// Where the time of the slowest hundredth of the requests went, by phase, over all traces: of those of one tenant, or of all.
    fn slow_path(
        &self,
        variant: &Variant,
        tenant: Option<&str>,
    ) -> Result<BTreeMap<&'static str, u64>, Failure> {
        let door = self.doors.iter().position(|door| door.tenant.as_deref() == tenant && tenant.is_some());
        let mut sums = BTreeMap::new();
        for load in &self.loads {
            // The first turn is enough to see what is slow.
            let options = RunOptions { extension: Extension::NONE, ..load.whole().clone() };
            let counted =
                options.workloads.iter().enumerate().filter(|(place, _)| door.is_none_or(|d| d == *place));
            let requests: u64 = counted.map(|(_, workload)| requests_of(workload)).sum();
            let slow = (requests / 100).clamp(1, SLOW as u64) as usize;
            let tap = SlowestOf { only: door, slowest: Slowest::new(slow) };
            let seen = run_tapped(&variant.stack, &options, tap, Look::default(), self.bar().follow())?;
            for request in seen.tap.slowest.into_sorted() {
                for phase in nandu_base::Phase::ALL {
                    *sums.entry(phase.name()).or_default() += request.path.get(phase).0;
                }
            }
        }
        Ok(sums)
    }
}

/// The slowest requests of one workload, or of all.
struct SlowestOf {
    only: Option<usize>,
    slowest: Slowest,
}

impl Tap for SlowestOf {
    fn ended(&mut self, request: &Ended) {
        if self.only.is_none_or(|only| only == request.source) {
            self.slowest.ended(request);
        }
    }
}

impl Measure for &Advisor<'_> {
    type Error = Failure;

    fn costs(&mut self, points: &[usize]) -> Result<Vec<Option<u64>>, Failure> {
        let advisor: &Advisor<'_> = self;
        // Before the first run that is the work; between runs there is little of it.
        let is_first = !points.is_empty() && advisor.bar.lock().expect("no holder panics").is_none();
        let bar = is_first.then(|| advisor.console.bar(points.len() as u64, "variants priced"));
        Ok(parallel::map(points, advisor.threads, |&point| {
            let cost = advisor.variant(point).map(|variant| variant.cost);
            if let Some(bar) = &bar {
                bar.add(1);
            }
            cost
        }))
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
    let (Some(best), Some(point)) = (&advice.best, found.best) else { return Ok(None) };
    let tenants = tenants(advisor.asked)?;
    let replay = match tenants.first() {
        Some((_, loads)) => loads[0],
        None => &advisor.asked.traces[0],
    };
    let label = advisor.space.label(point);
    let described = toml::Value::String(format!("{label}: advised")).to_string();
    let mut file = advisor.file(point)?.with_set("description", &described)?;
    let precondition = Some(replay.precondition.unwrap_or(Precondition::Aged));
    let common =
        Replay { precondition, extend: replay.extend, seed: Some(advisor.seed), ..Replay::default() };
    let fit = Some(replay.fit.unwrap_or(Fit::Compact));
    let mut line = common.options();
    let mut workloads = String::new();
    if tenants.is_empty() {
        line = Replay { fit, precondition, seed: Some(advisor.seed), ..replay.clone() }.options();
    } else {
        // A stack of the user's own may have workloads: what was advised for are others.
        for workload in file.load(&advisor.registry)?.workloads {
            file = file.without(&format!("workload.{}", workload.name))?;
        }
        workloads = together(advisor, &tenants)?;
    }
    let comment = format!(
        "{}, the best of {} that `nandu advise` looked at.\n\n{}\n\n  nandu run THIS {line}",
        best.shown,
        plural(advice.looked_at as u64, "variant"),
        visible(&advice.summary())
    );
    Ok(Some(best::text(&comment, &file) + &workloads))
}

/// The first traces of all tenants as workloads of a stack file: the same requests at the same times, so that a run of it gives the figures
/// of the advice.
fn together(advisor: &Advisor, tenants: &[(&str, Vec<&Replay>)]) -> Result<String, Failure> {
    let mut text = String::new();
    let workloads = advisor.loads[0].whole().workloads.iter().zip(tenants);
    for (place, (workload, (tenant, loads))) in (0..).zip(workloads) {
        let replay = loads[0];
        let quoted = |text: &str| toml::Value::String(text.into()).to_string();
        let name = replay.trace.as_ref().and_then(Source::name).unwrap_or_default();
        let source = match generator(name, &advisor.registry) {
            Some(_) => format!("generator = {}", quoted(name)),
            // Requests that were handed over have no file.
            None if name.is_empty() => {
                format!(
                    "# The requests of {}: name a file of them.\ntrace = \"TRACE\"",
                    visible(&workload.trace.meta().source)
                )
            }
            None => {
                let whole = |name: &str| {
                    let path = std::path::absolute(name);
                    path.map(|p| p.display().to_string())
                        .map_err(|e| Failure::unreadable(Path::new(name), &e))
                };
                let mut lines = format!("trace = {}", quoted(&whole(name)?));
                replay.trace_format.iter().for_each(|name| lines += &format!("\ntrace_format = \"{name}\""));
                if let Some(columns) = &replay.columns {
                    let file = file_of_columns(columns).map(|_| whole(&columns.to_string())).transpose()?;
                    lines += &format!("\ncolumns = {}", quoted(&file.unwrap_or_else(|| columns.to_string())));
                }
                if replay.bad_lines != BadLines::Stop {
                    lines += &format!("\nbad_lines = \"{}\"", replay.bad_lines.name());
                }
                lines
            }
        };
        // A load that begins again until its runtime is over says so itself.
        let requests = workload.trace.len();
        text += &format!("\n[workload.{tenant}]\nexport = \"{tenant}\"\n{source}\nnumber_ios = {requests}\n");
        text += &format!("fit = \"{}\"\n", replay.fit.unwrap_or(Fit::Compact).name());
        replay.closed.iter().for_each(|n| text += &format!("iodepth = {n}\n"));
        replay.time_scale.iter().for_each(|r| text += &format!("time_scale = \"{}/{}\"\n", r.num, r.den));
        if generator(name, &advisor.registry).is_some() {
            text += &format!("seed = {}\n", seed_of(advisor.seed, place));
        }
        if !replay.settings.is_empty() {
            text += &format!("\n[workload.{tenant}.parameters]\n");
        }
        // The last of equal keys counts, as on the command line.
        let settings: BTreeMap<_, _> = replay.settings.iter().map(|s| (&s.key, &s.value)).collect();
        for (key, value) in settings {
            let value = toml::Value::try_from(value).map_err(|e| {
                Failure::input(format!("--gen {key}={}: {e}", visible(&source::plain(value))))
            })?;
            text += &format!("{key} = {value}\n");
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::console::{Listener, Work};
    use std::sync::atomic::{AtomicU64, Ordering};

    /// Hears how much work there is, and how much of it is done.
    #[derive(Default)]
    struct Ear(Mutex<Vec<(String, Arc<Heard>)>>);

    #[derive(Default)]
    struct Heard {
        total: AtomicU64,
        done: AtomicU64,
    }

    struct Counted(Arc<Heard>);

    impl Listener for Ear {
        fn note(&self, _: &str) {}
        fn warning(&self, _: &str) {}
        fn begins(&self, total: Option<u64>, what: &str) -> Box<dyn Work> {
            let heard = Arc::new(Heard::default());
            heard.total.store(total.unwrap_or(0), Ordering::Relaxed);
            self.0.lock().expect("no holder panics").push((what.into(), Arc::clone(&heard)));
            Box::new(Counted(heard))
        }
    }

    impl Work for Counted {
        fn done(&self, more: u64) {
            self.0.done.fetch_add(more, Ordering::Relaxed);
        }
        fn grows(&self, more: u64) {
            self.0.total.fetch_add(more, Ordering::Relaxed);
        }
        fn ends(&self) {}
    }

    /// What each part of the work is, how much there was to do and how much was done.
    fn heard(replay: Replay) -> Vec<(String, u64, u64)> {
        let asked = Asked {
            traces: vec![Replay { extend: Some(0), ..replay }],
            p99: Some(Span::from_secs(10)),
            stack: Some("small-ssd".into()),
            axis: vec!["device.ssd.spare_factor=0.1,0.2".into()],
            budget: Some(4),
            threads: 1,
            ..Asked::default()
        };
        let (ear, registry) = (Ear::default(), nandu_sim::builtin());
        let advisor = Advisor::prepare(&asked, &registry, Console::to(&ear)).expect("it is right");
        let found = advisor.find().expect("it runs");
        assert!(Advice::of(&advisor, &found).expect("it runs").meets);
        drop(advisor);
        let heard = ear.0.into_inner().expect("no holder panics");
        let of = |heard: &AtomicU64| heard.load(Ordering::Relaxed);
        heard.into_iter().map(|(what, n)| (what, of(&n.total), of(&n.done))).collect()
    }

    #[test]
    fn each_part_of_the_work_has_its_own_progress() {
        let load =
            Replay { trace: Some("uniform".to_string().into()), limit: Some(1600), ..Replay::default() };
        let heard = heard(load);
        let [(priced, 2, 2), (search, 6400, searched), (checks, 5600, 5600)] = &heard[heard.len() - 3..]
        else {
            panic!("{heard:?}");
        };
        assert_eq!(
            [priced, search, checks],
            ["variants priced", "requests at most", "requests to check the best"]
        );
        assert!((1600..=6400).contains(searched), "{heard:?}");
    }

    #[test]
    fn what_a_runtime_ends_is_searched_and_checked_by_its_time() {
        let folder = tempfile::tempdir().expect("a folder");
        let job = "[a]\nioengine=libaio\niodepth=4\nrw=randread\nsize=1m\nruntime=200ms\ntime_based\n";
        let file = folder.path().join("job.fio");
        std::fs::write(&file, job).expect("it can be written");
        let load = Replay { trace: Some(file.display().to_string().into()), ..Replay::default() };
        let heard = heard(load);
        let [.., (search, 800, _), (checks, 900, 900)] = &heard[..] else { panic!("{heard:?}") };
        let unit = "ms of simulated time";
        assert_eq!((search, checks), (&format!("{unit} at most"), &format!("{unit} to check the best")));
    }
}
