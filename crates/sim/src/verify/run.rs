//! Running many seeds.

use super::case::Case;
use super::case_text::{CaseError, EVENTS};
use super::draw::Shape;
use super::panics::caught;
use super::plan::{Draws, Plan};
use super::session::{Session, TOO_LONG, Tally};
use crate::replay::Go;
use crate::threads::on_each;
use nandu_base::{ByteLen, Registry, Span, Violation};
use nandu_stack::{BuildOptions, Stack, StackError, builtin};
use std::collections::BTreeSet;
use std::io::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// What to verify.
#[derive(Clone, Debug)]
pub struct VerifyOptions {
    /// Which stacks.
    pub shape: Shape,
    /// How the stack was named on the command line; for the command that repeats a failure.
    pub stack_name: Option<String>,
    /// The first seed.
    pub first_seed: u64,
    /// How many seeds.
    pub seeds: u64,
    /// Whether the power is cut.
    pub crash: bool,
    /// Whether more is demanded than stacks promise: that what was acknowledged survives, flushed or not.
    pub acknowledged: bool,
    /// What is drawn.
    pub draws: Draws,
    /// A fault to plant.
    pub plant: Option<String>,
    /// One seed in this many is run twice and compared; 0 for none.
    pub repeat_one_in: u64,
    /// Seeds that may fail before the rest is left out; 0 for no bound.
    pub failures_max: u64,
    /// Log.
    pub log: bool,
    /// Threads; 0 for one on each core.
    pub threads: usize,
    /// The machines and policies of stacks. A policy beyond those that Nandu ships is drawn wherever one of its family is.
    pub registry: Registry,
}

impl Default for VerifyOptions {
    fn default() -> VerifyOptions {
        VerifyOptions {
            shape: Shape::Random,
            stack_name: None,
            first_seed: 1,
            seeds: 100,
            crash: false,
            acknowledged: false,
            draws: Draws::Growth,
            plant: None,
            repeat_one_in: 16,
            failures_max: 10,
            log: false,
            threads: 0,
            registry: builtin(),
        }
    }
}

/// Most that the exports of a stack may hold together: 24 bytes are kept for each sector, by each seed that runs.
pub const EXPORTED: ByteLen = ByteLen::gib(32);

/// Why seeds could not be run.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    /// The stack file is wrong, or does not know the fault that is to be planted.
    #[error(transparent)]
    Stack(#[from] StackError),
    /// The exports hold more than can be remembered.
    #[error(
        "the exports of the stack hold {}, and each of their sectors is remembered: at most {} can be verified; leave out --full-size, or give the devices a smaller `capacity` or `size`",
        .0,
        EXPORTED
    )]
    TooLarge(ByteLen),
    /// It was called off.
    #[error("the verified simulation was called off")]
    Stopped,
}

/// A seed that failed.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The seed.
    pub seed: u64,
    /// What is broken.
    pub violation: Violation,
    /// Events taken until then, over all starts of the stack.
    pub event: u64,
    /// The stack file.
    pub stack: String,
    /// What does it again.
    pub command: String,
}

/// What one seed did.
#[derive(Clone, Debug)]
pub struct SeedReport {
    /// The seed.
    pub seed: u64,
    /// Digest of every answer in order.
    pub digest: u64,
    /// Requests of the host.
    pub requests: u64,
    /// Events of the simulation.
    pub events: u64,
    /// Power cuts.
    pub crashes: u64,
    /// Power cuts of a copy, beside the run.
    pub peeks: u64,
    /// Starts after a cut or an end that were complete.
    pub recoveries: u64,
    /// The longest of them, in simulated time.
    pub start_longest: Span,
    /// Drives that started from a checkpoint of their map.
    pub from_checkpoint: u64,
    /// Drives that had a checkpoint and scanned everything all the same.
    pub fell_back: u64,
    /// Mirrors whose legs were compared at rest.
    pub mirrors_compared: u64,
    /// Changes of tenants while the stack ran.
    pub changes: u64,
    /// Of these, drives that dealt their space anew.
    pub deals: u64,
    /// What operators asked of mirrors, and was done.
    pub chores: u64,
    /// Whether the faults never let the stack be created, or start again.
    pub not_created: bool,
    /// The failure, if there was one.
    pub failure: Option<Box<Failure>>,
}

/// What all seeds did.
#[derive(Clone, Default, Debug)]
pub struct VerifyReport {
    /// Seeds that were run.
    pub seeds: u64,
    /// Requests of the host.
    pub requests: u64,
    /// Events of the simulation.
    pub events: u64,
    /// Power cuts.
    pub crashes: u64,
    /// Power cuts of a copy, beside the run.
    pub peeks: u64,
    /// Starts after a cut or an end that were complete.
    pub recoveries: u64,
    /// The longest of them, in simulated time.
    pub start_longest: Span,
    /// Drives that started from a checkpoint of their map.
    pub from_checkpoint: u64,
    /// Drives that had a checkpoint and scanned everything all the same.
    pub fell_back: u64,
    /// Mirrors whose legs were compared at rest.
    pub mirrors_compared: u64,
    /// Changes of tenants while the stack ran.
    pub changes: u64,
    /// Of these, drives that dealt their space anew.
    pub deals: u64,
    /// What operators asked of mirrors, and was done.
    pub chores: u64,
    /// Stacks that the faults never let be created, or start again.
    pub not_created: u64,
    /// Digest of all seeds' digests, in the order of the seeds.
    pub digest: u64,
    /// Seeds that failed, in order.
    pub failures: Vec<Failure>,
}

/// Runs the seeds of `options`. `progress` hears, in no order, how many seeds are done, and may call it off.
pub fn verify<R: Into<Go>>(
    options: &VerifyOptions,
    progress: impl Fn(u64) -> R + Sync,
) -> Result<VerifyReport, VerifyError> {
    if let Shape::File(text) = &options.shape {
        let planted = options.plant.iter().cloned().collect();
        let built = Stack::parse_with(text, &options.registry)?
            .build(&BuildOptions { planted, ..BuildOptions::default() })?;
        let bytes =
            built.exports.iter().map(|e| built.parts[e.node as usize].machine.limits().capacity.0).sum();
        if ByteLen(bytes) > EXPORTED {
            return Err(VerifyError::TooLarge(ByteLen(bytes)));
        }
    }
    let threads = match options.threads {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        n => n,
    };
    let next = AtomicU64::new(0);
    let (done, failed) = (AtomicU64::new(0), AtomicU64::new(0));
    let (stop, called_off) = (AtomicBool::new(false), AtomicBool::new(false));
    let reports = Mutex::new(Vec::new());
    on_each(threads.min(options.seeds.max(1) as usize), &stop, || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            if at >= options.seeds || stop.load(Ordering::Relaxed) {
                return;
            }
            let report = run_seed(options, options.first_seed + at);
            if report.failure.is_some() {
                let count = failed.fetch_add(1, Ordering::Relaxed) + 1;
                stop.fetch_or(options.failures_max > 0 && count >= options.failures_max, Ordering::Relaxed);
            }
            reports.lock().expect("no thread panics with the lock").push(report);
            if progress(done.fetch_add(1, Ordering::Relaxed) + 1).into() == Go::Stop {
                called_off.store(true, Ordering::Relaxed);
                stop.store(true, Ordering::Relaxed);
            }
        }
    });
    if called_off.into_inner() {
        return Err(VerifyError::Stopped);
    }
    let mut reports = reports.into_inner().expect("no thread panics with the lock");
    reports.sort_by_key(|r| r.seed);
    // Threads that were under way went on for different times; up to the last failure that counts all runs agree.
    let mut failing = reports.iter().enumerate().filter(|(_, r)| r.failure.is_some()).map(|(i, _)| i);
    if let Some(last) = options.failures_max.checked_sub(1).and_then(|n| failing.nth(n as usize)) {
        reports.truncate(last + 1);
    }
    Ok(VerifyReport::sum(reports))
}

impl VerifyReport {
    fn sum(reports: Vec<SeedReport>) -> VerifyReport {
        let mut sum = VerifyReport::default();
        let mut digest = super::Digest::default();
        for r in reports {
            sum.seeds += 1;
            sum.requests += r.requests;
            sum.events += r.events;
            sum.crashes += r.crashes;
            sum.peeks += r.peeks;
            sum.recoveries += r.recoveries;
            sum.start_longest = sum.start_longest.longer(r.start_longest);
            sum.from_checkpoint += r.from_checkpoint;
            sum.fell_back += r.fell_back;
            sum.mirrors_compared += r.mirrors_compared;
            sum.changes += r.changes;
            sum.deals += r.deals;
            sum.chores += r.chores;
            sum.not_created += u64::from(r.not_created);
            digest.add(r.digest);
            sum.failures.extend(r.failure.map(|f| *f));
        }
        sum.digest = digest.value();
        sum
    }
}

/// Runs one seed; where the plan says so, twice.
pub fn run_seed(options: &VerifyOptions, seed: u64) -> SeedReport {
    let mut plan = Plan::draw(seed, &options.shape, options.crash, options.draws, &options.registry);
    plan.acknowledged = options.acknowledged;
    let (tally, mut result) = run_plan(&plan, options);
    let twice = options.repeat_one_in > 0 && seed.is_multiple_of(options.repeat_one_in);
    if twice && result.is_ok() {
        let (again, second) = run_plan(&plan, options);
        if second.is_err() || again.digest != tally.digest {
            let what = format!("two runs of seed {seed} differ: {:x} and {:x}", tally.digest, again.digest);
            result = Err(Violation { invariant: "I-14", what });
        }
    }
    let failure = result.err().map(|violation| failure(options, &plan, &tally, violation));
    SeedReport::of(seed, &tally, failure)
}

fn failure(options: &VerifyOptions, plan: &Plan, tally: &Tally, violation: Violation) -> Box<Failure> {
    let command = command(options, plan.seed);
    Box::new(Failure { seed: plan.seed, violation, event: tally.events, stack: plan.toml.clone(), command })
}

impl SeedReport {
    fn of(seed: u64, tally: &Tally, failure: Option<Box<Failure>>) -> SeedReport {
        SeedReport {
            not_created: tally.not_created > 0,
            seed,
            digest: tally.digest,
            requests: tally.requests,
            events: tally.events,
            crashes: tally.crashes,
            peeks: tally.peeks,
            recoveries: tally.recoveries,
            start_longest: tally.start_longest,
            from_checkpoint: tally.from_checkpoint,
            fell_back: tally.fell_back,
            mirrors_compared: tally.mirrors_compared,
            changes: tally.changes,
            deals: tally.deals,
            chores: tally.chores,
            failure,
        }
    }
}

fn run_plan(plan: &Plan, options: &VerifyOptions) -> (Tally, Result<(), Violation>) {
    let (tally, result, _) = run_session(plan, options, false);
    (tally, result)
}

/// Runs the plan; with `writes_down` also says what was done, as a case.
fn run_session(
    plan: &Plan,
    options: &VerifyOptions,
    writes_down: bool,
) -> (Tally, Result<(), Violation>, Option<Case>) {
    let doing = format!("running seed {}; to repeat: {}", plan.seed, command(options, plan.seed));
    let stack =
        Stack::parse_with(&plan.toml, &options.registry).expect("the stack was parsed when it was drawn");
    let planted = planted(&stack, options.plant.as_ref());
    run_it(doing, || Session::new(plan, (&stack, &options.registry), &planted), options.log, writes_down)
}

/// The fault that is to be planted, if the stack has a machine that knows it.
fn planted(stack: &Stack, plant: Option<&String>) -> BTreeSet<String> {
    let known: BTreeSet<&str> = stack.devices.iter().flat_map(|d| d.kind.plants).map(|p| p.name).collect();
    plant.into_iter().filter(|p| known.contains(p.as_str())).cloned().collect()
}

fn run_it<'a>(
    doing: String,
    start: impl FnOnce() -> Result<Session<'a>, Violation>,
    log: bool,
    writes_down: bool,
) -> (Tally, Result<(), Violation>, Option<Case>) {
    match caught(doing.clone(), start).and_then(|inner| inner) {
        Err(violation) => (Tally::default(), Err(violation), None),
        Ok(mut session) => {
            if log {
                session.keep_log();
            }
            if writes_down {
                session.write_down();
            }
            let result = caught(doing, || session.run()).and_then(|inner| inner);
            let mut out = std::io::stdout().lock();
            // A reader that has gone away is no failure.
            let _ = session.take_log().iter().try_for_each(|line| writeln!(out, "{line}"));
            (session.tally, result, writes_down.then(|| session.case()))
        }
    }
}

/// A seed as a case: all that it does, listed. What it breaks is named in it, if it breaks something.
pub fn case_of(options: &VerifyOptions, seed: u64) -> (SeedReport, Option<Case>) {
    let mut plan = Plan::draw(seed, &options.shape, options.crash, options.draws, &options.registry);
    plan.acknowledged = options.acknowledged;
    let (tally, result, case) = run_session(&plan, options, true);
    let breaks = result.as_ref().err().map(|violation| violation.invariant.to_string());
    let case = case.map(|case| Case { breaks, ..case });
    let failure = result.err().map(|violation| failure(options, &plan, &tally, violation));
    (SeedReport::of(seed, &tally, failure), case)
}

/// Runs a case.
///
/// # Errors
/// The stack cannot be built, a step does not fit it, or it does not come to its end.
pub fn run_case(case: &Case, registry: &Registry, log: bool) -> Result<SeedReport, CaseError> {
    let (stack, _) = case.stack(registry)?;
    run_case_on(case, (&stack, registry), log, EVENTS)
}

/// Runs a case on its stack, for at most so many events.
pub(super) fn run_case_on(
    case: &Case,
    (stack, registry): (&Stack, &Registry),
    log: bool,
    events: u64,
) -> Result<SeedReport, CaseError> {
    let planted = planted(stack, case.plant.as_ref());
    let doing = format!("running a case of {} steps", case.steps.len());
    let (tally, result, _) =
        run_it(doing, || Session::of(case, (stack, registry), &planted, events), log, false);
    if result.as_ref().is_err_and(|violation| violation.invariant == TOO_LONG) {
        return Err(CaseError::TooLong(events));
    }
    let failure = result.err().map(|violation| {
        let command = String::new();
        let stack = case.ground.stack.clone();
        Box::new(Failure { seed: case.ground.seed, violation, event: tally.events, stack, command })
    });
    Ok(SeedReport::of(case.ground.seed, &tally, failure))
}

/// The command that runs one seed again.
fn command(options: &VerifyOptions, seed: u64) -> String {
    let mut words = vec!["nandu verify".to_string()];
    words.extend(options.stack_name.clone());
    words.push(format!("--first-seed {seed} --seeds 1"));
    if options.crash {
        words.push("--crash".into());
    }
    if options.acknowledged {
        words.push("--durable-acks".into());
    }
    words.extend(options.plant.as_ref().map(|p| format!("--inject-bug {p}")));
    words.join(" ")
}
