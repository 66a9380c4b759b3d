//! One run from start to end: requests, power cuts, starts, and the last look at everything.
//!
//! What is done is a list of steps ([`Step`]). A seed draws each when it comes (`drawn.rs`), a case lists them (`listed.rs`); both hand
//! them to [`Session::take`], which writes them down where that is wanted.

mod adversary;
mod changes;
mod drawn;
mod growth;
mod hammer;
mod legs;
mod listed;
mod maintenance;
mod peeks;
mod restarts;

use super::case::{Case, Close, Ground, Step, Tear, What, When};
use super::judge::Judge;
use super::oracle::{Asked, Oracle};
use super::plan::Plan;
use super::watch::{Watch, redundancy};
use crate::charges::check_charges;
use crate::engine::{Engine, Media, Submission};
use nandu_base::{
    ByteLen, ByteOffset, Content, ErrorKind, Flags, Instant, Limits, Op, OpenOptions, Payload, Registry, Rng,
    Span, Stamp, TenantId, Violation,
};
use nandu_stack::{BuildOptions, Built, Stack};
use std::collections::BTreeSet;

/// Events without an answer after which a stack has stalled.
const STALL: u32 = 200_000;
/// Events between two looks at the machines' own invariants.
const CHECK_EVERY: u64 = 64;
/// Events that a redundant device may take to make its legs equal.
const PATIENCE: u32 = 5_000;
/// By what a run ends that has taken more events than a case may; it is nothing that a stack has broken.
pub(super) const TOO_LONG: &str = "too long";
/// Starts after one power cut until the stack counts as unable to start.
const STARTS: u32 = 60;

/// What a run of a seed did.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Tally {
    pub requests: u64,
    pub events: u64,
    pub crashes: u64,
    /// Power cuts beside the run.
    pub peeks: u64,
    pub recoveries: u64,
    pub start_longest: Span,
    pub from_checkpoint: u64,
    pub fell_back: u64,
    pub mirrors_compared: u64,
    pub chores: u64,
    pub not_created: u64,
    /// Changes of tenants that were tried, and deals that were made.
    pub changes: u64,
    pub deals: u64,
    pub digest: u64,
}

/// A run that ended early.
pub(super) type Broken = Violation;

fn broken(invariant: &'static str, what: impl Into<String>) -> Broken {
    Violation { invariant, what: what.into() }
}

/// A way into the stack.
struct Entry {
    node: u32,
    tenant: TenantId,
    limits: Limits,
    /// The first export of the same device: what one writes the other reads, so one oracle judges both.
    judged: usize,
}

/// Where the steps of a run come from.
enum Source<'a> {
    Drawn(Box<drawn::Drawn<'a>>),
    Listed(&'a Case),
}

/// A run.
pub(super) struct Session<'a> {
    ground: Ground,
    /// With what it is built from when a leg has become longer.
    stack: (&'a Stack, &'a Registry),
    planted: &'a BTreeSet<String>,
    source: Option<Source<'a>>,
    /// Steps are listed: one may ask for what another would have made that was left out.
    is_listed: bool,
    /// The steps so far, where they are written down.
    taken: Option<Vec<Step>>,
    /// The clean end, once it has come.
    close: Option<Close>,
    /// When the last step was complete, cuts beside the run left out.
    base: Instant,
    /// Events since the last step.
    since: u64,
    /// How the next loss of power tears.
    tear: Tear,
    /// Events that it may still take, cuts beside the run included; only a case has a bound.
    left: u64,
    /// A leg that was replaced: it may be blank, or half made, at the next start.
    replaced: Option<u32>,
    /// What is in its place is wiped before that.
    wipe: bool,
    /// A ring that was given up: a blank one comes in its place after the next cut.
    given_up: Option<u32>,
    spaces: changes::Spaces,
    lengths: growth::Lengths,
    /// What the first export served at first.
    served_first: ByteLen,
    /// Pages of a unit of the drive.
    unit_pages: u64,
    entries: Vec<Entry>,
    roots: Vec<u32>,
    engine: Engine<Judge>,
    watch: Watch,
    /// Events since an answer came.
    quiet_for: u32,
    answers: u64,
    /// Why it did not start the last time.
    refusal: String,
    pub tally: Tally,
}

impl<'a> Session<'a> {
    /// Builds and starts the stack of `plan`, whose steps are drawn.
    pub fn new(
        plan: &'a Plan,
        stack: (&'a Stack, &'a Registry),
        planted: &'a BTreeSet<String>,
    ) -> Result<Session<'a>, Broken> {
        let drawn = Source::Drawn(Box::new(drawn::Drawn::new(plan)));
        Session::on(plan.ground(), drawn, stack, planted, u64::MAX)
    }

    /// Builds and starts the stack of `case`, whose steps are listed and may take so many events.
    pub fn of(
        case: &'a Case,
        stack: (&'a Stack, &'a Registry),
        planted: &'a BTreeSet<String>,
        events: u64,
    ) -> Result<Session<'a>, Broken> {
        Session::on(case.ground.clone(), Source::Listed(case), stack, planted, events)
    }

    fn on(
        ground: Ground,
        source: Source<'a>,
        stack: (&'a Stack, &'a Registry),
        planted: &'a BTreeSet<String>,
        left: u64,
    ) -> Result<Session<'a>, Broken> {
        let built = build(&ground, stack.0, planted, 0);
        let entries: Vec<Entry> = built
            .exports
            .iter()
            .map(|e| {
                let limits = built.parts[e.node as usize].machine.limits().clone();
                let judged = built.exports.iter().position(|other| other.node == e.node);
                Entry { node: e.node, tenant: e.tenant, limits, judged: judged.expect("it is one of them") }
            })
            .collect();
        // Numbers of different devices differ, so that data of one in another is found.
        let first = |export: usize| 1 + export as u32 * (1 << 24);
        let keeps = ground.acknowledged || keeps_writes(&built);
        let oracle = |i, e: &Entry| Oracle::new(e.limits.capacity, first(i)).keeping_writes(keeps);
        let oracles = entries.iter().enumerate().map(|(i, e)| oracle(i, e)).collect();
        let watch = Watch::new(&built);
        let media = fresh(&built);
        let engine = Engine::new(built, media, Content::Stamps, Judge::new(oracles), Instant::ZERO);
        let roots = entries.iter().map(|e| e.node).collect();
        let mut session = Session {
            ground,
            stack,
            planted,
            is_listed: matches!(source, Source::Listed(_)),
            source: Some(source),
            taken: None,
            close: None,
            base: Instant::ZERO,
            since: 0,
            tear: Tear::default(),
            left,
            replaced: None,
            wipe: false,
            given_up: None,
            spaces: changes::Spaces::default(),
            lengths: growth::Lengths::default(),
            served_first: entries[0].limits.capacity,
            unit_pages: 0,
            entries,
            roots,
            engine,
            watch,
            quiet_for: 0,
            answers: 0,
            refusal: String::new(),
            tally: Tally::default(),
        };
        session.create()?;
        session.base = session.engine.now();
        session.learn_spaces();
        Ok(session)
    }

    fn create(&mut self) -> Result<(), Broken> {
        let how = OpenOptions { create: true, ..OpenOptions::default() };
        let mut last = String::new();
        for turn in 1..=STARTS {
            let started = self.engine.open(how, &self.roots);
            self.look()?;
            let Err((node, error)) = started else { return Ok(()) };
            if !self.watch.explains_start(node) {
                let name = self.engine.graph.name(node);
                return Err(broken("open", format!("{name} cannot be created: {error}")));
            }
            last = error.to_string();
            // An injected error was in the way. Nothing is stored yet: start from scratch.
            let built = build(&self.ground, self.stack.0, self.planted, u64::from(turn) << 32);
            let media = fresh(&built);
            let keeps = self.ground.acknowledged || keeps_writes(&built);
            let oracle = |i: u32, e: &Entry| Oracle::new(e.limits.capacity, i << 24).keeping_writes(keeps);
            let oracles = (1..).zip(&self.entries).map(|(i, e)| oracle(i, e)).collect();
            self.engine = Engine::new(built, media, Content::Stamps, Judge::new(oracles), self.engine.now());
            self.watch.restart();
        }
        // Faults without end are no fault of the stack: there is nothing to verify.
        self.engine.sink().note(Instant::ZERO, || format!("not created in {STARTS} attempts: {last}"));
        self.tally.not_created = 1;
        Ok(())
    }

    /// Writes the steps down from here on.
    pub fn write_down(&mut self) {
        self.taken = Some(Vec::new());
    }

    /// What was written down, as a case.
    pub fn case(&mut self) -> Case {
        let steps = self.taken.take().unwrap_or_default();
        let plant = self.planted.iter().next().cloned();
        Case { ground: self.ground.clone(), steps, close: self.close, plant, breaks: None }
    }

    /// Keeps a log from here on.
    pub fn keep_log(&mut self) {
        self.engine.sink().log = Some(Vec::new());
    }

    /// The log so far.
    pub fn take_log(&mut self) -> Vec<String> {
        self.engine.sink().log.take().unwrap_or_default()
    }

    /// Takes all steps, then looks at everything.
    pub fn run(&mut self) -> Result<(), Broken> {
        let mut source = self.source.take().expect("a session runs once");
        if self.tally.not_created > 0 {
            return Ok(());
        }
        let steps = match &mut source {
            Source::Drawn(drawn) => drawn.run(self),
            Source::Listed(case) => self.take_all(&case.steps),
        };
        if steps.is_err()
            && let Some(taken) = &mut self.taken
        {
            // What broke it may have happened by itself.
            taken.push(Step { when: When::Events(self.since), what: What::Wait });
        }
        steps?;
        if self.tally.not_created > 0 {
            return Ok(());
        }
        self.settle()?;
        self.compare_mirrors()?;
        self.check_parity()?;
        self.read_everything()?;
        let close = match &mut source {
            Source::Drawn(drawn) => drawn.close(self)?,
            Source::Listed(case) => case.close,
        };
        if let Some(close) = close {
            self.close = Some(close);
            self.close_and_start(close)?;
            if self.tally.not_created > 0 {
                return Ok(());
            }
            self.read_everything()?;
        }
        self.settle()?;
        self.check()?;
        self.end()?;
        self.tally.digest = self.engine.sink().digest.value();
        Ok(())
    }

    /// Takes a step that has come, and writes down how to come to it.
    fn take(&mut self, when: When, what: What) -> Result<(), Broken> {
        self.note_step(when, &what);
        match &what {
            What::Ask { export, asked } if self.is_beyond(*export, *asked) => {}
            What::Ask { export, asked } => self.submit(*export, *asked)?,
            What::Chore { device, chore } => self.do_chore_at(device, *chore)?,
            What::Share(share) => self.change_share(*share)?,
            What::Deal(deal) => self.make_deal(*deal)?,
            What::Cut(cut) => self.cut(cut)?,
            What::Peek { at, tear } => {
                let mut rng = tear.rng(self.ground.seed, Tear::PEEKS);
                self.may_peek(*at, &mut rng)?;
            }
            What::Wait => {}
        }
        self.step_is_complete(&what);
        Ok(())
    }

    fn note_step(&mut self, when: When, what: &What) {
        if let Some(taken) = &mut self.taken {
            taken.push(Step { when, what: what.clone() });
        }
    }

    fn step_is_complete(&mut self, what: &What) {
        self.since = 0;
        if !matches!(what, What::Peek { .. }) {
            self.base = self.engine.now();
        }
    }

    /// The machine of this name.
    fn node(&self, name: &str) -> Option<u32> {
        (0..self.engine.graph.len() as u32).find(|&node| self.engine.graph.name(node) == name)
    }

    /// Whether a request that is due at `next` arrives before the next event.
    fn may_arrive(&mut self, next: Instant) -> bool {
        let full = self.engine.sink().under_way() >= self.ground.depth as usize;
        !full && self.engine.next_at().is_none_or(|at| at > next)
    }

    /// Takes one event.
    fn step(&mut self) -> Result<(), Broken> {
        if !self.engine.step() {
            return Err(broken("progress", "requests are under way but nothing will happen"));
        }
        self.left = self.left.checked_sub(1).ok_or_else(|| broken(TOO_LONG, "the events are used up"))?;
        self.tally.events += 1;
        self.since += 1;
        self.look_at_size();
        if self.tally.events.is_multiple_of(CHECK_EVERY) {
            self.check()?;
        }
        self.look()
    }

    /// Looks at what the last event has done.
    fn look(&mut self) -> Result<(), Broken> {
        let now = self.engine.now();
        let exposed = self.watch.look(&mut self.engine.graph, &self.roots);
        let sink = self.engine.sink();
        if exposed {
            sink.note(now, || "a device has lost what was not flushed".into());
            sink.oracles.iter_mut().for_each(Oracle::device_cut);
        }
        let violation = sink.violation.take();
        let (answers, under_way) = (sink.answers, sink.under_way());
        let failure = sink.failure.take();
        if let Some(violation) = violation
            && (violation.invariant != "I-1" || !self.may_lose_what_is_cached())
        {
            return Err(violation);
        }
        if let Some((op, kind)) = failure {
            let never = matches!(
                kind,
                ErrorKind::BadExtent
                    | ErrorKind::Unsupported
                    | ErrorKind::NoSpace
                    | ErrorKind::NotErased
                    | ErrorKind::OutOfOrder
            );
            // A cache above says of a flush that what it held could not be written.
            let says_worn = kind == ErrorKind::ReadOnly || op == Op::Flush && kind == ErrorKind::WriteFailed;
            let is_worn = says_worn && Watch::is_worn_out(&mut self.engine.graph);
            let given_up = kind == ErrorKind::Lost && self.watch.has_missed();
            let is_explained = || self.roots.iter().any(|&root| self.watch.explains(root));
            if !is_worn && (never || !given_up && !is_explained()) {
                return Err(broken("failures", format!("a {} failed without cause: {kind}", op.name())));
            }
        }
        self.quiet_for = if answers != self.answers || under_way == 0 { 0 } else { self.quiet_for + 1 };
        self.answers = answers;
        if self.quiet_for > STALL {
            return Err(broken("progress", format!("no answer within {STALL} events")));
        }
        Ok(())
    }

    /// What a volatile cache above a worn-out drive holds cannot be written, and is told of at the next flush only.
    fn may_lose_what_is_cached(&mut self) -> bool {
        self.watch.has_faults() && Watch::is_worn_out(&mut self.engine.graph)
    }

    fn check(&mut self) -> Result<(), Broken> {
        self.engine.graph.check()?;
        self.watch.check_order(&self.engine.graph)?;
        self.watch.check_scrubs(&mut self.engine.graph)?;
        check_charges(&mut self.engine.graph)
    }

    fn submit(&mut self, export: usize, asked: Asked) -> Result<(), Broken> {
        self.tally.requests += 1;
        let now = self.engine.now();
        let before = self.before();
        let judged = self.entries[export].judged;
        let (sink, pool) = self.engine.sink_and_pool();
        let (serial, cookie) = sink.comes(judged, asked, now);
        let payload = match asked.op {
            Op::Read => pool.allocate(asked.len),
            Op::Write => Payload::run(Stamp::new(serial, asked.offset.sector())),
            _ => Payload::NONE,
        };
        let entry = &self.entries[export];
        self.engine.submit(Submission {
            node: entry.node,
            op: asked.op,
            flags: asked.flags,
            offset: asked.offset,
            len: asked.len,
            payload,
            tenant: entry.tenant,
            cookie,
            arrival: now,
        });
        self.check_harm(&asked, before)?;
        self.look()
    }

    /// Waits until nothing of the host is under way.
    fn wait(&mut self) -> Result<(), Broken> {
        while self.engine.sink().under_way() > 0 {
            self.step()?;
        }
        Ok(())
    }

    /// Flushes every export, several times where errors are injected, and lets the stack come to rest.
    fn settle(&mut self) -> Result<(), Broken> {
        self.wait()?;
        for export in 0..self.entries.len() {
            let (offset, len) = (ByteOffset::ZERO, ByteLen::ZERO);
            self.submit(export, Asked { op: Op::Flush, flags: Flags::NONE, offset, len })?;
            self.wait()?;
        }
        self.check()
    }

    /// Reads every sector of every export.
    fn read_everything(&mut self) -> Result<(), Broken> {
        self.wait()?;
        for export in 0..self.entries.len() {
            let limits = &self.entries[export].limits;
            let capacity = limits.capacity.0;
            let piece = limits.max_io.0.min(64 << 10).min(capacity);
            let mut at = 0;
            while at < capacity {
                let len = piece.min(capacity - at);
                self.submit(
                    export,
                    Asked { op: Op::Read, flags: Flags::NONE, offset: ByteOffset(at), len: ByteLen(len) },
                )?;
                self.wait()?;
                at += len;
            }
        }
        self.check()
    }

    /// Lets time pass, at most `span` and `events`, until `done`.
    fn idle_until(&mut self, span: Span, done: impl Fn(&Session<'_>) -> bool) -> Result<bool, Broken> {
        let end = self.engine.now() + span;
        for _ in 0..PATIENCE {
            if done(self) {
                return Ok(true);
            }
            if self.engine.next_at().is_none_or(|at| at > end) {
                break;
            }
            self.step()?;
        }
        Ok(done(self))
    }

    /// Nothing may be left of requests and buffers.
    fn check_leaks(&mut self) -> Result<(), Broken> {
        // What was sent to a device that was lost may still come back.
        for _ in 0..STALL {
            if self.engine.graph.requests.alive() == 0 || !self.engine.step() {
                break;
            }
        }
        let alive = self.engine.graph.requests.alive();
        if alive > 0 {
            return Err(broken("leaks", format!("{alive} requests are alive in a stack that was closed")));
        }
        let living = self.engine.graph.pool.living();
        if living > 0 {
            return Err(broken("leaks", format!("{living} buffers are held in a stack that was closed")));
        }
        Ok(())
    }

    /// The last end of the stack.
    fn end(&mut self) -> Result<(), Broken> {
        self.wait()?;
        self.engine.close();
        self.look()?;
        self.check()?;
        self.check_leaks()
    }
}

/// Media on which nothing was ever written.
fn fresh(built: &Built) -> Media {
    let mut media = Media::fresh(built, true);
    media.cache_files(built);
    media
}

/// Whether what is acknowledged is durable: a device that stands alone and has no volatile cache says so, and one that
/// settles what it holds, of which no member fails.
fn keeps_writes(built: &Built) -> bool {
    let root = built.parts.last().filter(|part| !part.machine.limits().volatile_cache);
    root.is_some_and(|part| {
        let top = built.parts.len() as u32 - 1;
        let said = redundancy(&*part.machine, part.children.len());
        top == 0 || said.settles && !said.bears_a_loss() && !may_fail(built, top)
    })
}

/// Whether something fails on which this device depends.
fn may_fail(built: &Built, node: u32) -> bool {
    let part = &built.parts[node as usize];
    let members = redundancy(&*part.machine, part.children.len()).members;
    part.machine.needs().injects_faults || members.iter().any(|child| may_fail(built, part.children[child]))
}

/// The machines that stand on `ground`. Each session draws its faults anew.
fn build(ground: &Ground, stack: &Stack, planted: &BTreeSet<String>, session: u64) -> Built {
    let options = BuildOptions {
        seed: Rng::new(ground.seed).fork(4).fork(session).bits(),
        precondition: ground.precondition,
        planted: planted.clone(),
    };
    stack.build(&options).expect("the stack was built when it was drawn")
}
