//! Where experiments are run: stack files of an experiment with options put over them, on a load that all of them share.

use crate::console::Console;
use crate::failure::Failure;
use crate::open::{Opened, open_text};
use crate::plan::{Common, Plan, plan, together};
use crate::race::race;
use crate::replay::{self, Replay};
use crate::source::{self, GenSetting, Wanted, WarmUp};
use nandu_base::{Precondition, Ratio, Registry, Span};
use nandu_sim::RunResult;
use nandu_sim::samples::Samples;
use nandu_sim::tap::{DeviceLanes, Look, run_tapped};
use nandu_trace::fit::Fit;
use std::collections::BTreeMap;

/// What all runs of a reproduction share.
pub struct Runner<'a> {
    /// The seed.
    pub seed: u64,
    /// Requests of each generated load.
    pub requests: u64,
    /// Recorded traces to take in place of generated ones, by the name of the generator.
    pub recorded: BTreeMap<String, String>,
    /// What stacks and recorded traces may name.
    pub registry: Registry,
    /// Runs at the same time.
    pub jobs: usize,
    /// Claims that are asked for, each by its number, or by number and case with a blank between; all of them where there is none.
    pub only: Vec<String>,
    /// The quick form: what no claim asks for is left out too.
    pub quick: bool,
    /// What stands in place of what in every stack file and option: a variant that is broken on purpose.
    pub instead: Vec<(String, String)>,
    /// Where remarks and progress go.
    pub console: Console<'a>,
}

/// One stack of an experiment.
#[derive(Clone, Debug)]
pub struct Setup {
    /// What results are found by.
    pub label: String,
    /// The text of the stack file.
    pub text: &'static str,
    /// Options put over it.
    pub set: Vec<(String, String)>,
}

/// A load: the name of a generator, and the parameters that differ.
#[derive(Clone, Debug, Default)]
pub struct Load {
    /// The generator, or the recorded trace that stands for it.
    pub name: &'static str,
    /// Parameters of the generator.
    pub settings: Vec<GenSetting>,
    /// Requests, instead of the experiment's.
    pub requests: Option<u64>,
    /// What drives hold at the start; they are full where nothing is said.
    pub start: Option<Precondition>,
    /// How often it is replayed; the requests of a generated load are divided among the passes. 0 means once.
    pub passes: u32,
    /// Every request counts, from a start with nothing in memory. Otherwise the first fifth does not.
    pub cold: bool,
}

impl Load {
    /// A generator as it is.
    pub fn plain(name: &'static str) -> Load {
        Load { name, ..Load::default() }
    }

    /// The same from a start with nothing in memory.
    pub fn cold(self) -> Load {
        Load { cold: true, ..self }
    }

    /// The same, replayed so often in a row.
    pub fn repeated(self, passes: u32) -> Load {
        Load { passes, ..self }
    }

    /// With one more parameter.
    pub fn with(mut self, key: &str, value: impl Into<serde_json::Value>) -> Load {
        self.settings.push(GenSetting { key: key.into(), value: value.into() });
        self
    }
}

/// What a load is like.
pub struct Description {
    /// `real` or `synthetic`.
    pub origin: String,
    /// Requests.
    pub requests: u64,
    /// Share of writes in percent.
    pub write_percent: f64,
    /// Mean time between arrivals in milliseconds; 0 where there are no times.
    pub gap_ms: f64,
    /// Mean pages of 4 KiB of a request.
    pub pages: f64,
    /// Where its last request ends.
    pub end_gib: f64,
}

/// Results by the label of their setup.
pub type Results = BTreeMap<String, RunResult>;

#[cfg(test)]
impl Runner<'static> {
    /// One that tests can wait for.
    pub fn small(requests: u64) -> Runner<'static> {
        let (recorded, registry) = (BTreeMap::new(), nandu_sim::builtin());
        let (only, instead) = (Vec::new(), Vec::new());
        Runner {
            seed: 1,
            requests,
            recorded,
            registry,
            jobs: 2,
            only,
            quick: false,
            instead,
            console: Console::SILENT,
        }
    }
}

/// Number and case of a claim that is asked for; without a case, all of them.
pub fn asked(one: &str) -> (&str, Option<&str>) {
    one.split_once(' ').map_or((one, None), |(id, case)| (id, Some(case)))
}

impl Runner<'_> {
    pub(super) fn open(&self, setups: &[Setup]) -> Result<Vec<Opened>, Failure> {
        let put =
            |text: &str| self.instead.iter().fold(text.to_string(), |t, (from, to)| t.replace(from, to));
        let open = |s: &Setup| {
            let set: Vec<_> = s.set.iter().map(|(path, value)| (path.clone(), put(value))).collect();
            open_text(&s.label, &put(s.text), &set, &self.registry)
        };
        setups.iter().map(open).collect()
    }

    fn asked(&self) -> impl Iterator<Item = (&str, Option<&str>)> {
        self.only.iter().map(|one| asked(one))
    }

    /// Whether a case of one of these claims is asked for.
    pub fn wants(&self, claims: &[&str]) -> bool {
        claims.iter().any(|id| self.wants_some(id, |_| true))
    }

    /// Whether this case of this claim is asked for.
    pub fn wants_case(&self, id: &str, case: &str) -> bool {
        self.wants_some(id, |asked| asked == case)
    }

    /// Whether a case like `these` of this claim is asked for.
    pub fn wants_some(&self, id: &str, these: impl Fn(&str) -> bool) -> bool {
        self.only.is_empty() || self.asked().any(|(number, case)| number == id && case.is_none_or(&these))
    }

    /// Whether a claim is asked for that is none of these.
    pub fn wants_beside(&self, claims: &[&str]) -> bool {
        self.only.is_empty() || self.asked().any(|(id, _)| !claims.contains(&id))
    }

    fn common(&self, precondition: Precondition) -> Common<'_> {
        Common { seed: self.seed, precondition, registry: &self.registry, console: Console::SILENT }
    }

    /// Runs every setup on the same requests, one outstanding; unless the load is
    /// cold, the first fifth warms what is cached and does not count.
    pub fn run(&self, setups: &[Setup], load: &Load) -> Result<Results, Failure> {
        let stacks = self.open(setups)?;
        let plans = self.plan(stacks, load, None)?;
        let rows = race(&plans, self.jobs, false, self.console)?;
        Ok(rows.into_iter().map(|row| (row.label, row.result)).collect())
    }

    /// Runs every setup on the same requests. With a `cap` they arrive at their times, at most so many in the system; else one is
    /// outstanding. The first third warms what is cached and does not count.
    pub fn warmed(&self, setups: &[Setup], load: &Load, cap: Option<u32>) -> Result<Results, Failure> {
        self.counting(setups, load, cap, |all| all - all / 3)
    }

    /// The same, and the last `count` requests count.
    pub fn last(&self, setups: &[Setup], load: &Load, cap: u32, count: u64) -> Result<Results, Failure> {
        self.counting(setups, load, Some(cap), |_| count)
    }

    /// Of all requests, those that count are the last `count`.
    fn counting(
        &self,
        setups: &[Setup],
        load: &Load,
        cap: Option<u32>,
        count: impl Fn(u64) -> u64,
    ) -> Result<Results, Failure> {
        let stacks = self.open(setups)?;
        let mut plans = self.plan(stacks, load, cap)?;
        for plan in &mut plans {
            let all = plan.requests();
            plan.options.warm_up = all.saturating_sub(count(all));
        }
        let rows = race(&plans, self.jobs, false, self.console)?;
        Ok(rows.into_iter().map(|row| (row.label, row.result)).collect())
    }

    /// Runs one setup as [`Runner::run`] does, and what its machines count over time.
    pub fn follow(&self, setup: &Setup, load: &Load) -> Result<(RunResult, Samples), Failure> {
        let plans = self.plan(self.open(std::slice::from_ref(setup))?, load, None)?;
        let rows = race(&plans, 1, true, self.console)?;
        let row = rows.into_iter().next().expect("one stack gives one row");
        Ok((row.result, row.samples))
    }

    /// Runs every setup on the same loads at once, each on the export of its name, on drives that are full. Requests arrive at
    /// their times, and all of them count.
    pub fn together(&self, setups: &[Setup], loads: &[(&str, Load)]) -> Result<Results, Failure> {
        let stacks = self.open(setups)?;
        let load = |(export, load): &(&str, Load)| {
            let requests = load.requests.unwrap_or(self.requests);
            let (trace, settings, fit) = self.source(load, requests);
            let export = Some((*export).into());
            let replay = Replay { settings, export, fit, limit: Some(requests), ..Replay::default() };
            (trace.into(), replay)
        };
        let loads: Vec<(replay::Load, Replay)> = loads.iter().map(load).collect();
        let plans = together(stacks, &loads, self.common(Precondition::Filled))?;
        let rows = race(&plans, self.jobs, false, self.console)?;
        Ok(rows.into_iter().map(|row| (row.label, row.result)).collect())
    }

    /// Runs every setup on the workloads of its own stack file, on drives that are full.
    pub fn own(&self, setups: &[Setup]) -> Result<Results, Failure> {
        let stacks = self.open(setups)?;
        let plans = plan(stacks, &Replay::default(), self.common(Precondition::Filled))?;
        let rows = race(&plans, self.jobs, false, self.console)?;
        Ok(rows.into_iter().map(|row| (row.label, row.result)).collect())
    }

    /// Runs one setup as [`Runner::run`] does, and returns what the lanes of its devices did from start to end.
    pub fn lanes(&self, setup: &Setup, load: &Load) -> Result<Vec<DeviceLanes>, Failure> {
        let plans = self.plan(self.open(std::slice::from_ref(setup))?, load, None)?;
        let plan = plans.into_iter().next().expect("one stack gives one plan");
        let look = Look { lanes: Some((Span::ZERO, Span::from_ms(86_400_000))), ..Look::default() };
        let seen = run_tapped(&plan.opened.stack, &plan.options, (), look, |_| ())?;
        Ok(seen.lanes)
    }

    /// Measures a load itself.
    pub fn describe(&self, load: &Load) -> Result<Description, Failure> {
        let (name, settings, _) = self.source(load, self.requests);
        let limit = Some(self.requests);
        let wanted = Wanted { name, settings, limit, seed: self.seed, ..Wanted::default() };
        let trace = source::requests(&wanted, &self.registry, Console::SILENT)?;
        let stats = nandu_trace::stats::stats(&trace, nandu_trace::stats::StatsOptions { reuse: false });
        Ok(Description {
            origin: trace.meta().origin.name().into(),
            requests: stats.requests,
            write_percent: stats.write_percent,
            gap_ms: stats.interarrival_mean_ns.unwrap_or(0.0) / 1e6,
            pages: stats.pages_per_request_mean,
            end_gib: stats.max_extent_bytes as f64 / f64::from(1 << 30),
        })
    }

    /// What gives the requests of a load: the generator with its settings, or the recorded trace that stands for it, which has none and is fitted.
    fn source(&self, load: &Load, requests: u64) -> (String, Vec<GenSetting>, Option<Fit>) {
        if let Some(file) = self.recorded.get(load.name) {
            return (file.clone(), Vec::new(), Some(Fit::Compact));
        }
        let requests = GenSetting { key: "requests".into(), value: requests.into() };
        let settings = load.settings.iter().cloned().chain([requests]).collect();
        (load.name.into(), settings, None)
    }

    /// The runs of `stacks`: with a `cap` requests arrive at their times and all of them count, else one is outstanding.
    pub(super) fn plan(
        &self,
        stacks: Vec<Opened>,
        load: &Load,
        cap: Option<u32>,
    ) -> Result<Vec<Plan>, Failure> {
        let passes = load.passes.max(1);
        let requests = load.requests.unwrap_or(self.requests) / u64::from(passes);
        let (trace, settings, fit) = self.source(load, requests);
        let precondition = load.start.unwrap_or(Precondition::Filled);
        let load = Replay {
            trace: Some(trace.into()),
            settings,
            fit,
            closed: cap.is_none().then_some(1),
            cap,
            limit: Some(requests),
            repeat: Some(passes),
            warm_up: (cap.is_none() && !load.cold).then_some(WarmUp::Share(Ratio::new(1, 5))),
            ..Replay::default()
        };
        plan(stacks, &load, self.common(precondition))
    }
}
