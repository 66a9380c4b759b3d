//! Sweeps: a sweep file or a stack, what varies and what is wanted, made ready to be measured; the engine is [`nandu_sweep`].

use crate::console::Console;
use crate::failure::Failure;
use crate::format::plural;
use crate::open::{text as stack_text, with_sets};
use crate::plan::{Common, Made, extended, on_room, requests_of, warm_up};
use crate::renamed;
use crate::replay::{Load, Replay, columns_beside};
use crate::source::generator;
use crate::verdict::Caution;
use nandu_base::registry::nearest;
use nandu_base::{Registry, Span};
use nandu_sim::run::{length, precondition_name};
use nandu_sim::steady::{State, TOO_SHORT};
use nandu_sim::{Extension, Pace, RunOptions};
use nandu_stack::StackFile;
pub use nandu_sweep::Shard;
pub use nandu_sweep::journal::{Journal, Record};
pub use nandu_sweep::measure::Bench;
use nandu_sweep::search::{self, SearchKind};
pub use nandu_sweep::survey::Survey;
use nandu_sweep::survey::{survey, with_settings};
use nandu_sweep::{Figure, Outcome, Sweep, SweepFile, id};
use serde::Serialize;
use std::path::{Path, PathBuf};

/// The sweeps that come with Nandu: name and text.
pub const BUILTIN: &[(&str, &str)] = &[
    ("hybrid-ratio", include_str!("../stacks/sweeps/hybrid-ratio.toml")),
    ("spare-blocks", include_str!("../stacks/sweeps/spare-blocks.toml")),
];

/// What is asked for.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    /// Sweep file, or the stack that is varied: a file, or the name of a built-in one.
    pub what: String,
    /// The text of the stack that is varied, where it is at hand and `what` is only what it is called.
    pub stack: Option<String>,
    /// What varies: `PATH=VALUES`.
    pub axis: Vec<String>,
    /// What a point must meet.
    pub bound: Vec<String>,
    /// Figures to have little of; the first decides.
    pub minimise: Vec<String>,
    /// Figures to have much of; these goals come after.
    pub maximise: Vec<String>,
    /// Further figures to show.
    pub metric: Vec<String>,
    /// How points are chosen.
    pub search: Option<String>,
    /// Points that cannot be built are left out.
    pub skip_invalid: bool,
    /// Points count where requests came faster than they were served.
    pub allow_saturated: bool,
    /// Points count that were not in steady state.
    pub allow_unsteady: bool,
    /// Options of the stack in all points.
    pub set: Vec<(String, String)>,
    /// What all points replay.
    pub replay: Replay,
    /// The part that is measured; the whole where none is given.
    pub shard: Option<Shard>,
    /// Runs at the same time.
    pub threads: usize,
}

/// What is asked for, together with what its file says.
pub struct Question {
    /// What tables and pages call it.
    pub name: String,
    /// What all points replay.
    pub replay: Replay,
    trace: Load,
    file: SweepFile,
    asked: Asked,
}

/// A sweep that is ready to be measured.
pub struct Prepared {
    /// What tables and pages call it.
    pub name: String,
    /// The stack that is varied.
    pub file: StackFile,
    /// What it may name.
    pub registry: Registry,
    /// The points, bounds and goals.
    pub sweep: Sweep,
    /// What was seen of each point when it was built.
    pub survey: Survey,
    /// How points are chosen.
    pub search: &'static SearchKind,
    /// What all points replay.
    pub replay: Replay,
    /// The same, planned.
    pub options: RunOptions,
    /// The part that is measured.
    pub shard: Shard,
    /// Runs at the same time.
    pub threads: usize,
}

impl Question {
    /// Reads the sweep file that is meant: a file, a built-in one, or one around a stack.
    ///
    /// # Errors
    /// There is none, it is wrong, or nothing is replayed.
    pub fn read(asked: Asked, registry: &Registry) -> Result<Question, Failure> {
        let path = Path::new(&asked.what);
        let shipped = BUILTIN.iter().find(|(name, _)| *name == asked.what && !path.is_file());
        let (text, name) = match shipped {
            _ if asked.stack.is_some() => (String::new(), asked.what.clone()),
            Some((name, text)) => ((*text).to_string(), (*name).to_string()),
            None => stack_text(&asked.what).map_err(|failure| missing(&asked.what, failure))?,
        };
        // A stack file has no key `stack`: what has one, or axes, is a sweep file.
        let keys = ["stack", "axis", "goal", "bound"];
        let begins = |line: &str, key: &str| {
            line.strip_prefix(key).is_some_and(|rest| rest.trim_start().starts_with('='))
        };
        let is_sweep = text
            .lines()
            .any(|l| l.trim() == "[[axis]]" || keys.iter().any(|key| begins(l.trim_start(), key)));
        let folder = path.parent().filter(|_| shipped.is_none()).map(Path::to_path_buf).unwrap_or_default();
        let mut file = match is_sweep {
            true => SweepFile::parse(&text, &name)?,
            false => SweepFile { stack: asked.what.clone(), ..SweepFile::default() },
        };
        let goals =
            |aim: &str, names: &[String]| names.iter().map(|n| format!("{aim} {n}")).collect::<Vec<_>>();
        if !asked.minimise.is_empty() || !asked.maximise.is_empty() {
            file.goal = goals("minimise", &asked.minimise);
            file.goal.extend(goals("maximise", &asked.maximise));
        }
        if !asked.bound.is_empty() {
            file.bound.clone_from(&asked.bound);
        }
        file.metric.extend(asked.metric.iter().cloned());
        file.search = asked.search.clone().or(file.search);
        file.skip_invalid |= asked.skip_invalid;
        file.allow_saturated |= asked.allow_saturated;
        file.allow_unsteady |= asked.allow_unsteady;
        let beside = folder.join(&file.stack);
        if is_sweep && beside.is_file() {
            file.stack = beside.display().to_string();
        }
        if let Some(toml::Value::String(columns)) = file.load.get_mut("columns") {
            *columns = columns_beside(columns, &folder);
        }
        let mut load = Replay::of(&file.load, &name)?;
        if let Some(Load::Named(trace)) = &mut load.trace {
            let beside = folder.join(trace.as_str());
            if generator(trace, registry).is_none() && beside.is_file() {
                *trace = beside.display().to_string();
            }
        }
        let mut replay = asked.replay.over(load);
        if is_sweep {
            replay.notes.extend(renamed::in_sweep_file(&text));
        }
        let names = file.take_present_names();
        replay.notes.extend(names.iter().map(|(old, new)| renamed::note(old, new)));
        let Some(trace) = replay.trace.clone() else {
            let message =
                format!("{name}: a sweep needs requests: neither --trace nor `trace` in [load] is given");
            return Err(Failure::input(message)
                .with_help("for example --trace mixed-zipf; all points replay the same"));
        };
        Ok(Question { name, replay, trace, file, asked })
    }

    /// The files that it reads.
    pub fn inputs(&self) -> Vec<PathBuf> {
        [&self.asked.what, &self.file.stack]
            .map(PathBuf::from)
            .into_iter()
            .chain(self.replay.files())
            .collect()
    }

    /// Builds every point once, and lays the requests onto the smallest.
    ///
    /// # Errors
    /// A point cannot be built, or the requests cannot be had.
    pub fn prepare(self, registry: &Registry, console: Console) -> Result<Prepared, Failure> {
        self.prepare_surveyed(registry, console, None)
    }

    /// The same, with what another process has seen of the points when it built them.
    ///
    /// # Errors
    /// As [`Question::prepare`].
    pub fn prepare_surveyed(
        self,
        registry: &Registry,
        console: Console,
        known: Option<Survey>,
    ) -> Result<Prepared, Failure> {
        let Question { name, replay, trace, file: asked, asked: given } = self;
        let Asked { axis, set, shard, threads, stack, .. } = given;
        replay.notes.iter().for_each(|note| console.note(note));
        let space = asked.space(&axis)?;
        let (text, shown) = match stack {
            Some(text) => (text, asked.stack.clone()),
            None => stack_text(&asked.stack)?,
        };
        let file = with_sets(StackFile::parse(&text, &shown)?, &set)?;
        let how = (replay.seed(), threads, asked.skip_invalid);
        let survey = match known {
            Some(known) if known.seen.len() == space.len() => known,
            Some(_) => return Err(Failure::input(format!("{name}: what was seen is of another sweep"))),
            None => survey(&file, &space, registry, replay.export.as_deref(), how)?,
        };
        if let Some(error) = &survey.impossible {
            let left = survey.seen.iter().filter(|s| s.is_none()).count() as u64;
            console
                .note(format!("{} cannot be built and left out, the first: {error}", plural(left, "point")));
        }
        let sweep = asked.sweep(space, &survey.devices)?;
        if let Some(point) = survey.seen.iter().position(Option::is_some) {
            let notes = with_settings(&file, &sweep.space, point)?.load(registry)?.notes;
            notes.iter().for_each(|note| console.note(note));
        }
        let search = search::by_name(asked.search.as_deref())?;
        let Some((room, smallest)) = survey.smallest() else {
            return Err(Failure::input(format!("{name}: no point can be built")));
        };
        let common = Common { seed: replay.seed(), precondition: replay.precondition(), registry, console };
        let point = (sweep.space.len() > 1).then(|| sweep.space.label(smallest));
        let Made { workload, renew } = on_room(&trace, &replay, common, room, point.as_deref())?;
        let total = requests_of(&workload);
        let warm_up = warm_up(&replay, &workload)?;
        if warm_up >= total {
            let message =
                format!("a warm-up of {warm_up} requests leaves nothing to measure: there are {total}");
            return Err(Failure::input(message));
        }
        let mut options = RunOptions {
            workloads: vec![workload],
            extension: Extension { renew: vec![renew], ..Extension::NONE },
            seed: common.seed,
            precondition: common.precondition,
            warm_up,
            stack_name: asked.stack.clone(),
        };
        extended(&mut options, replay.extend);
        let (shard, registry) = (shard.unwrap_or(Shard::WHOLE), registry.clone());
        Ok(Prepared { name, file, registry, sweep, survey, search, replay, options, shard, threads })
    }
}

fn missing(what: &str, failure: Failure) -> Failure {
    match nearest(what, BUILTIN.iter().map(|b| b.0)) {
        Some(near) => failure.with_help(format!("the sweep `{near}` comes with Nandu")),
        None => failure,
    }
}

/// The name of this build of the program, for journals.
///
/// # Errors
/// The file that holds this code cannot be read.
pub fn program() -> Result<String, Failure> {
    let own = own_object().map_or_else(std::env::current_exe, Ok).and_then(|path| id::program(&path));
    own.map_err(|e| Failure::failed(format!("the program cannot read itself: {e}")))
}

/// Says that so many `lines` of the journal in `folder` could not be read.
pub fn damaged(folder: &Path, lines: u64, console: Console) {
    if lines > 0 {
        let lines = plural(lines, "line");
        let folder = folder.display();
        console
            .warning(format!("{folder}: {lines} of the journal damaged; what they held is measured again"));
    }
}

/// The file that this code was loaded from: the program, or a library of it. The system says which where it has `/proc`.
fn own_object() -> Option<PathBuf> {
    let here = own_object as *const () as usize;
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let line = maps.lines().find(|line| {
        let range = line.split(' ').next().and_then(|range| range.split_once('-'));
        let place = |text| usize::from_str_radix(text, 16).ok();
        range.and_then(|(from, to)| Some(place(from)? <= here && here < place(to)?)).unwrap_or(false)
    })?;
    Some(PathBuf::from(&line[line.find('/')?..])).filter(|path| path.is_file())
}

/// The simulated time that ends a load, where one does.
fn runtime(options: &RunOptions) -> Option<Span> {
    let of = |w: &nandu_sim::RunWorkload| match w.pace() {
        Pace::ClosedFor { runtime, .. } => Some(runtime),
        _ => None,
    };
    options.workloads.iter().filter_map(of).max()
}

/// What makes a load longer: one that a runtime ends sends no more for being repeated.
pub(crate) fn longer(has_runtime: bool) -> &'static str {
    if has_runtime { "a longer `runtime`" } else { "a longer load (--repeat)" }
}

impl Prepared {
    /// Where its points are measured.
    pub fn bench(&self) -> Bench<'_> {
        Bench::new(&self.sweep, &self.file, &self.registry, &self.options, &self.survey)
    }

    /// Requests that each point replays, at most where a runtime ends it.
    pub fn each(&self) -> u64 {
        self.options.workloads.iter().map(requests_of).sum()
    }

    /// The simulated time that each point takes, where a runtime ends it.
    pub fn runtime(&self) -> Option<Span> {
        runtime(&self.options)
    }

    /// Whether a load begins again until its runtime is over, however many requests that takes.
    fn begins_again(&self) -> bool {
        self.options.workloads.iter().any(|w| w.passes > 1 && matches!(w.pace(), Pace::ClosedFor { .. }))
    }

    /// How long the load of each point is, in words.
    pub fn each_in_words(&self) -> String {
        let requests = plural(self.each(), "request");
        match self.runtime() {
            None => format!("{requests} each"),
            Some(runtime) if self.begins_again() => format!("for {runtime} each"),
            Some(runtime) => format!("at most {requests} and {runtime} each"),
        }
    }

    /// Measures what is asked for and not known.
    ///
    /// # Errors
    /// A point cannot be run, or the journal not be written.
    pub fn measure(
        &self,
        bench: &mut Bench<'_>,
        mut journal: Option<Journal>,
        console: Console,
    ) -> Result<(), Failure> {
        let (all, known) = self.say_known(bench, console);
        let bar = console.runs(std::iter::repeat_n(length(&self.options), all - known));
        let moved = |n| bar.add(n);
        let done = bench.measure(self.search, self.shard, self.threads, journal.as_mut(), &moved);
        bar.clear();
        Ok(done?)
    }

    /// Says how many points are known before anything is measured. Returns how many there are, and how many are known.
    pub fn say_known(&self, bench: &Bench<'_>, console: Console) -> (usize, usize) {
        let (all, known) = bench.progress(self.shard);
        if known > 0 {
            console.note(format!("{known} of {} known already", plural(all as u64, "point")));
        }
        (all, known)
    }

    /// What came out.
    pub fn outcome(&self, bench: &Bench<'_>) -> Outcome {
        let outcome = Outcome::of(&self.sweep, bench.ids(), bench.known());
        if self.shard.is_whole() { outcome } else { outcome.without_verdict() }
    }

    /// What a reader must know before believing the figures of `outcome`.
    pub fn cautions(&self, outcome: &Outcome) -> Vec<Caution> {
        let mut out = Vec::new();
        let mut say = |serious, text| out.push(Caution { text, serious });
        for workload in &self.options.workloads {
            let meta = workload.trace.meta();
            if meta.origin.name() == "synthetic" {
                say(false, format!("`{}` is a generated load, not a recorded trace", meta.format));
            }
        }
        let unworn = outcome.rows.iter().filter(|r| r.figures.contains(&Some(Figure::Unworn))).count();
        if unworn > 0 {
            let points = plural(unworn as u64, "point");
            let longer = longer(self.begins_again());
            say(
                true,
                format!(
                    "{points} erased nothing in some flash: such a lifetime meets any bound and says little; {longer} says more"
                ),
            );
        }
        let lives = |name: &str| name == "lifetime" || name.ends_with(".lifetime");
        let chance = outcome.rows.iter().filter(|r| r.wear_is_chance).count();
        if chance > 0 && self.sweep.metrics.iter().any(|m| lives(&m.name)) {
            let points = plural(chance as u64, "point");
            say(
                false,
                format!(
                    "{points} erased a block fewer than twice on the mean, too rarely to say which wears out first: `lifetime` is that of even wear \
                     there and jumps where a block stands out; compare `lifetime_region`, which is that of even wear in all points"
                ),
            );
        }
        let unsteady = outcome.rows.iter().filter(|r| r.state == State::NotSteady).count();
        if unsteady > 0 {
            let points = plural(unsteady as u64, "point");
            let (count, hint) = match self.sweep.allow_unsteady {
                true => ("", ""),
                false => (" and do not count", "; --allow-unsteady lets them count"),
            };
            say(
                true,
                format!(
                    "{points} not in steady state{count}: a longer load, --extend or --precondition aged come nearer to what lasts{hint}"
                ),
            );
        }
        let short = outcome.rows.iter().filter(|r| r.state == State::TooShort).count();
        if short > 0 {
            let points = plural(short as u64, "point");
            let longer = if self.begins_again() { "a longer `runtime`" } else { "a longer load or --repeat" };
            say(false, format!("{points} {TOO_SHORT}; {longer} says more"));
        }
        let saturated = outcome.rows.iter().filter(|r| !r.kept_up).count();
        if saturated > 0 {
            let points = plural(saturated as u64, "point");
            say(
                true,
                format!(
                    "{points} saturated: latencies measure the queue there; lower the load (--time-scale, --rate-iops) or use --iodepth"
                ),
            );
        }
        out
    }

    /// What all points replay, in words.
    pub fn load_line(&self) -> String {
        let o = &self.options;
        let loads: Vec<String> = o
            .workloads
            .iter()
            .map(|w| {
                let meta = w.trace.meta();
                format!("{} ({}), {}, fit {}", meta.source, meta.origin.name(), w.pace_in_words(), w.fit)
            })
            .collect();
        format!(
            "{}, {}, precondition {}, seed {}",
            loads.join("; "),
            self.each_in_words(),
            precondition_name(o.precondition),
            o.seed
        )
    }

    /// The sweep and its `outcome` as a record.
    pub fn record<'a>(&'a self, outcome: &'a Outcome) -> SweepRecord<'a> {
        SweepRecord {
            sweep: &self.name,
            version: env!("CARGO_PKG_VERSION"),
            stack: &self.options.stack_name,
            load: self.load_line(),
            shard: self.shard.to_string(),
            outcome,
        }
    }
}

/// A sweep as JSON.
#[derive(Serialize)]
pub struct SweepRecord<'a> {
    /// Its name.
    pub sweep: &'a str,
    /// That of the program.
    pub version: &'static str,
    /// The stack that was varied.
    pub stack: &'a str,
    /// What all points replayed.
    pub load: String,
    /// The part that was measured.
    pub shard: String,
    /// What came out.
    #[serde(flatten)]
    pub outcome: &'a Outcome,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shipped_sweep_is_built_in() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("stacks/sweeps");
        for entry in std::fs::read_dir(folder).expect("the folder of sweeps") {
            let path = entry.expect("the folder can be listed").path();
            let name = path.file_stem().expect("it has a name").to_string_lossy();
            assert!(BUILTIN.iter().any(|b| b.0 == name), "add stacks/sweeps/{name}.toml to BUILTIN");
        }
    }

    #[test]
    fn this_code_was_loaded_from_this_test() {
        let own = own_object().expect("this system has /proc");
        assert_eq!(own, std::env::current_exe().expect("a program"));
    }
}
