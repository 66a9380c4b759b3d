//! Runs, races, curves, seeds and papers. Each returns the JSON that the command of its name prints, byte for byte, and what was said meanwhile.

use crate::failure::raised;
use crate::policy::registry;
use crate::stack::Stack;
use crate::table::{Column, Table, Values, texts};
use crate::trace::{Trace, replay_of};
use crate::work::{Said, work};
use nandu::plan::{Common, extended, plan};
use nandu::race::{Race, compare as race_of, run as run_one};
use nandu::reproduce::record::{Form, Record};
use nandu::reproduce::runner::Runner;
use nandu::sim::tap::{Ended, Look, Tap, run_tapped};
use nandu::sim::verify::{VerifyOptions, verify as run_seeds};
use nandu::units::{Op, Phase};
use nandu::{Failure, mrc as curves, reproduce as papers, verdict, verify as verified};
use pyo3::prelude::*;
use serde_json::to_string_pretty;

/// Options of a load by name.
pub type Options = Vec<(String, String)>;

/// As the command prints it.
pub fn json(value: &impl serde::Serialize) -> Result<String, Failure> {
    let text = to_string_pretty(value).map_err(|e| Failure::failed(format!("JSON: {e}")))?;
    Ok(text + "\n")
}

/// Threads that are asked for; all cores by default.
pub fn threads(asked: Option<usize>) -> usize {
    asked.unwrap_or_else(nandu::cores)
}

/// Keeps every request.
#[derive(Default)]
struct Log(Vec<Ended>);

impl Tap for Log {
    fn ended(&mut self, request: &Ended) {
        self.0.push(*request);
    }
}

impl Log {
    /// A row for each request, in the order in which they ended.
    fn table(self, exports: &[String]) -> Table {
        let all = self.0;
        let ops = [Op::Read, Op::Write, Op::Flush, Op::Trim, Op::WriteZeroes, Op::Reset];
        let numbers = |name: &str, of: &dyn Fn(&Ended) -> u64| {
            Column::full(name, Values::U64(all.iter().map(of).collect()))
        };
        let words = |name: &str, words: &mut dyn Iterator<Item = &str>, of: &dyn Fn(&Ended) -> usize| {
            let (offsets, bytes) = texts(words);
            let codes = all.iter().map(|r| of(r) as i8).collect();
            Column::full(name, Values::Words(codes, offsets, bytes))
        };
        let place = |op: Op| ops.iter().position(|known| *known == op).unwrap_or(0);
        let mut columns = vec![
            numbers("request", &|r| r.number),
            words("export", &mut exports.iter().map(String::as_str), &|r| r.source),
            words("op", &mut ops.iter().map(|op| op.name()), &|r| place(r.op)),
            numbers("offset", &|r| r.offset.0),
            numbers("size", &|r| r.len.0),
            numbers("arrival_ns", &|r| r.arrival.0),
            numbers("latency_ns", &|r| r.latency().0),
            numbers("failed", &|r| u64::from(r.failed)),
        ];
        for phase in Phase::ALL {
            columns.push(numbers(&format!("{}_ns", phase.name()), &|r| r.path.get(phase).0));
        }
        let rows = all.len();
        Table::new(columns, rows)
    }
}

/// Runs one stack. Returns its result as JSON, the log of its requests where it is asked for, and what was said.
#[pyfunction]
#[pyo3(signature = (stack, trace, options, *, log=false, progress=None))]
pub fn run(
    py: Python<'_>,
    stack: Stack,
    trace: Option<Trace>,
    options: Options,
    log: bool,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<(String, Option<Table>, Said)> {
    let registry = registry();
    let ((text, table), said) = work(py, progress, move |console| {
        let replay = replay_of(trace.as_ref(), options)?;
        let opened = stack.open()?;
        opened.remarks().into_iter().for_each(|line| console.note(line));
        if !log {
            let row = run_one(opened, &replay, &registry, console)?;
            nandu::race::warn(std::slice::from_ref(&row), console);
            return Ok((json(&row.result)?, None));
        }
        let (seed, precondition) = (replay.seed(), replay.precondition());
        let mut plans =
            plan(vec![opened], &replay, Common { seed, precondition, registry: &registry, console })?;
        let mut plan = plans.remove(0);
        extended(&mut plan.options, replay.extend);
        let stack = &plan.opened.stack;
        let bar = console.runs([plan.length()]);
        let seen = run_tapped(stack, &plan.options, Log::default(), Look::default(), bar.follow())?;
        let export = |w: &nandu::sim::RunWorkload| stack.exports[w.export].name.clone();
        let exports: Vec<String> = plan.options.workloads.iter().map(export).collect();
        let rows = verdict::rows(vec![(plan.opened.label.clone(), seen.result)]);
        nandu::race::warn(&rows, console);
        Ok((json(&rows[0].result)?, Some(seen.tap.table(&exports))))
    })?;
    Ok((text, table, said))
}

/// Runs several stacks on the same requests; the first is the baseline.
#[pyfunction]
#[pyo3(signature = (stacks, trace, options, *, jobs=None, progress=None))]
pub fn compare(
    py: Python<'_>,
    stacks: Vec<Stack>,
    trace: Option<Trace>,
    options: Options,
    jobs: Option<usize>,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<(String, Said)> {
    let registry = registry();
    work(py, progress, move |console| {
        let replay = replay_of(trace.as_ref(), options)?;
        let mut opened = stacks.iter().map(Stack::open).collect::<Result<Vec<_>, _>>()?;
        nandu::race::tell_apart(&mut opened);
        for stack in &opened {
            stack.remarks().iter().for_each(|line| console.note(format!("{}: {line}", stack.label)));
        }
        let rows = race_of(opened, &replay, (threads(jobs), false), &registry, console)?;
        nandu::race::warn(&rows, console);
        json(&Race::of(&rows))
    })
}

/// The curves of miss ratios of policies, without a device.
#[pyfunction]
#[pyo3(signature = (trace, policies, sizes, *, segment=None, sample=None, repeat=1, jobs=None, seed=1, progress=None))]
#[allow(clippy::too_many_arguments)]
pub fn mrc(
    py: Python<'_>,
    trace: Trace,
    policies: Vec<String>,
    sizes: Vec<String>,
    segment: Option<&str>,
    sample: Option<&str>,
    repeat: u32,
    jobs: Option<usize>,
    seed: u64,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<(String, Said)> {
    let registry = registry();
    let fault = |why: String| raised(py, &Failure::input(why));
    let policies = policies.iter().map(|name| curves::Policy::of(name, &registry)).collect::<Result<_, _>>();
    let asked = curves::Asked {
        policies: policies.map_err(fault)?,
        sizes: sizes.iter().map(|size| size.parse()).collect::<Result<_, _>>().map_err(fault)?,
        segment: segment.map(curves::segment).transpose().map_err(fault)?,
        sample: sample.map(curves::sample).transpose().map_err(fault)?,
        hashed: false,
        repeat: repeat.max(1),
        threads: threads(jobs),
    };
    work(py, progress, move |console| {
        let (name, trace) = (trace.name(), trace.requests(seed, console)?);
        json(&curves::curves(trace, &name, &asked)?.to_json())
    })
}

/// Seeds of the verified simulation, with the classes that are registered.
#[pyfunction]
#[pyo3(signature = (what=None, *, seeds=100, first_seed=1, crash=false, full_size=false, jobs=None, progress=None))]
#[allow(clippy::too_many_arguments)]
pub fn verify(
    py: Python<'_>,
    what: Option<String>,
    seeds: u64,
    first_seed: u64,
    crash: bool,
    full_size: bool,
    jobs: Option<usize>,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<(String, Said)> {
    let registry = registry();
    work(py, progress, move |console| {
        let shape = verified::shape(what.as_deref(), None, &registry)?;
        let (shape, divided_by) = if full_size { (shape, None) } else { shape.divided(&registry) };
        let options = VerifyOptions {
            shape,
            stack_name: what.map(|name| if full_size { format!("{name} --full-size") } else { name }),
            first_seed,
            seeds,
            crash,
            threads: jobs.unwrap_or(0),
            registry,
            ..VerifyOptions::default()
        };
        let bar = console.bar(seeds, "seeds");
        let report = run_seeds(&options, |_| bar.add(1))?;
        json(&verified::record(&options, &report, divided_by))
    })
}

/// The claims of a paper, or of all, measured.
#[pyfunction]
#[pyo3(signature = (paper=None, *, quick=false, requests=None, seed=1, recorded=Vec::new(), jobs=None, progress=None))]
#[allow(clippy::too_many_arguments)]
pub fn reproduce(
    py: Python<'_>,
    paper: Option<&str>,
    quick: bool,
    requests: Option<u64>,
    seed: u64,
    recorded: Vec<(String, String)>,
    jobs: Option<usize>,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<(String, Said)> {
    let chosen = paper.map(papers::paper).transpose();
    let chosen = chosen.map_err(|failure| raised(py, &failure))?;
    let registry = registry();
    work(py, progress, move |console| {
        let form = Form::of(requests, quick);
        let all = papers::PAPERS.iter().filter(|p| chosen.is_none_or(|c| c.name == p.name));
        let done = all.map(|paper| {
            let runner = Runner {
                seed,
                requests: requests.unwrap_or(if quick { paper.quick } else { paper.requests }),
                recorded: recorded.iter().cloned().collect(),
                registry: registry.clone(),
                jobs: threads(jobs),
                only: Vec::new(),
                quick: form == Form::Quick,
                instead: Vec::new(),
                console,
            };
            paper.reproduce(&runner)
        });
        let done = done.collect::<Result<Vec<_>, _>>()?;
        json(&done.iter().map(|r| Record::of(r, form)).collect::<Vec<_>>())
    })
}
