//! Sweeps: on the threads of this process, or point by point wherever somebody helps.

use crate::failure::raised;
use crate::policy::registry;
use crate::runs::{Options, json, threads};
use crate::stack::Stack;
use crate::trace::{Trace, replay_of};
use crate::work::{Said, work};
use nandu::sweep::{self as sweeps, Bench, Journal, Prepared, Question, Record, Survey};
use nandu::{Console, Failure};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What a sweep asks for, beside its requests.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Asked {
    what: String,
    stack: Option<Stack>,
    axis: Vec<String>,
    bound: Vec<String>,
    minimise: Vec<String>,
    maximise: Vec<String>,
    metric: Vec<String>,
    search: Option<String>,
    skip_invalid: bool,
    allow_saturated: bool,
    allow_unsteady: bool,
    set: Vec<(String, String)>,
    shard: Option<String>,
    jobs: Option<usize>,
    out: Option<PathBuf>,
    from: Vec<PathBuf>,
}

/// Where points lie that were measured before: the journal that is added to, and those of others.
struct Folders {
    out: Option<PathBuf>,
    from: Vec<PathBuf>,
}

impl Asked {
    /// The question, and the folders of its journals.
    fn question(self, trace: Option<&Trace>, options: Options) -> Result<(Question, Folders), Failure> {
        let shard = self.shard.as_deref().map(sweeps::Shard::parse).transpose().map_err(Failure::input)?;
        let mut set = self.set;
        let (what, stack) = match &self.stack {
            None => (self.what, None),
            Some(stack) => {
                set = [stack.sets(), &set].concat();
                stack.source()
            }
        };
        let asked = sweeps::Asked {
            what,
            stack,
            axis: self.axis,
            bound: self.bound,
            minimise: self.minimise,
            maximise: self.maximise,
            metric: self.metric,
            search: self.search,
            skip_invalid: self.skip_invalid,
            allow_saturated: self.allow_saturated,
            allow_unsteady: self.allow_unsteady,
            set,
            replay: replay_of(trace, options)?,
            shard,
            threads: threads(self.jobs),
        };
        let question = Question::read(asked, &registry())?;
        Ok((question, Folders { out: self.out, from: self.from }))
    }
}

/// What came out, as the command prints it, with what to know before believing it.
fn told(prepared: &Prepared, bench: &Bench<'_>, console: Console) -> Result<String, Failure> {
    let outcome = prepared.outcome(bench);
    prepared.cautions(&outcome).iter().for_each(|caution| caution.say(console));
    json(&prepared.record(&outcome))
}

/// Measures the points of a sweep; with a folder `out`, what its journal holds is not run again.
#[pyfunction]
#[pyo3(signature = (asked, trace, options, *, progress=None))]
pub fn sweep(
    py: Python<'_>,
    asked: Asked,
    trace: Option<Trace>,
    options: Options,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<(String, Said)> {
    let registry = registry();
    work(py, progress, move |console| {
        let (question, folders) = asked.question(trace.as_ref(), options)?;
        let prepared = question.prepare(&registry, console)?;
        let (mut bench, program) = (prepared.bench(), sweeps::program()?);
        let mut journal = None;
        if let Some(folder) = &folders.out {
            let (own, lines) = bench.resume(folder, &program)?;
            sweeps::damaged(folder, lines, console);
            journal = Some(own);
        }
        for folder in &folders.from {
            sweeps::damaged(folder, bench.take_from(folder, &program, journal.as_mut())?, console);
        }
        prepared.measure(&mut bench, journal, console)?;
        told(&prepared, &bench, console)
    })
}

/// A sweep whose points are measured here and there: who asks has the whole of it, who helps measures one point at a time.
#[pyclass(frozen, module = "nandu._nandu")]
pub struct Points {
    prepared: Arc<Prepared>,
    said: Said,
    journal: Mutex<Option<Journal>>,
    known: Mutex<Vec<Record>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[pymethods]
impl Points {
    /// Makes it ready. `seen` is the text of [`Points::seen`] of who asks; without it every point is built once.
    #[new]
    #[pyo3(signature = (asked, trace, options, seen=None))]
    fn new(
        py: Python<'_>,
        asked: Asked,
        trace: Option<Trace>,
        options: Options,
        seen: Option<String>,
    ) -> PyResult<Points> {
        let registry = registry();
        let (made, said) = work(py, None, move |console| {
            let (question, folders) = asked.question(trace.as_ref(), options)?;
            let seen = seen.map(|text| serde_json::from_str::<Survey>(&text)).transpose();
            let seen = seen.map_err(|e| Failure::failed(format!("what was seen of the points: {e}")))?;
            let prepared = question.prepare_surveyed(&registry, console, seen)?;
            let (mut known, mut journal, program) = (Vec::new(), None, sweeps::program()?);
            if let Some(folder) = &folders.out {
                let (own, lines) = Journal::open(folder, &program, |record| known.push(record))?;
                sweeps::damaged(folder, lines, console);
                journal = Some(own);
            }
            for folder in &folders.from {
                let lines = Journal::read(folder, &program, |record| known.push(record))?;
                sweeps::damaged(folder, lines, console);
            }
            let mut bench = prepared.bench();
            known.iter().for_each(|record| bench.take(record));
            prepared.say_known(&bench, console);
            drop(bench);
            Ok((prepared, journal, known))
        })?;
        let (prepared, journal, known) = made;
        let (journal, known) = (Mutex::new(journal), Mutex::new(known));
        Ok(Points { prepared: Arc::new(prepared), said, journal, known })
    }

    /// What was seen of the points when they were built, for others.
    fn seen(&self) -> PyResult<String> {
        serde_json::to_string(&self.prepared.survey).map_err(|e| PyValueError::new_err(e.to_string()))
    }

    /// The points to measure next; none when all are known.
    fn wanted(&self, py: Python<'_>) -> PyResult<Vec<usize>> {
        let mut bench = self.prepared.bench();
        locked(&self.known).iter().for_each(|record| bench.take(record));
        let wanted = bench.wanted(self.prepared.search, self.prepared.shard);
        wanted.map_err(|error| raised(py, &error.into()))
    }

    /// Measures one point; returns its record.
    fn measure(&self, py: Python<'_>, point: usize) -> PyResult<String> {
        let prepared = Arc::clone(&self.prepared);
        let (record, _) = work(py, None, move |console| {
            let bench = prepared.bench();
            let bar = console.runs([nandu::sim::run::length(&prepared.options)]);
            let record = bench.record(point, &|more| bar.add(more))?;
            serde_json::to_string(&record).map_err(|e| Failure::failed(format!("JSON: {e}")))
        })?;
        Ok(record)
    }

    /// Takes the record of a point that was measured elsewhere.
    fn take(&self, py: Python<'_>, record: &str) -> PyResult<()> {
        let read = || -> Result<Record, Failure> {
            let record: Record = serde_json::from_str(record)
                .map_err(|e| Failure::failed(format!("the record of a point: {e}")))?;
            if let Some(journal) = locked(&self.journal).as_mut() {
                journal.append(&record)?;
            }
            Ok(record)
        };
        let record = read().map_err(|failure| raised(py, &failure))?;
        locked(&self.known).push(record);
        Ok(())
    }

    /// The sweep as the command prints it, and what was said.
    fn told(&self, py: Python<'_>) -> PyResult<(String, Said)> {
        let (prepared, known) = (Arc::clone(&self.prepared), std::mem::take(&mut *locked(&self.known)));
        *locked(&self.journal) = None;
        let (text, said) = work(py, None, move |console| {
            let mut bench = prepared.bench();
            known.iter().for_each(|record| bench.take(record));
            told(&prepared, &bench, console)
        })?;
        Ok((text, [self.said.clone(), said].concat()))
    }
}

/// The name of this build: what another has measured may mean something else.
#[pyfunction]
pub fn program(py: Python<'_>) -> PyResult<String> {
    sweeps::program().map_err(|failure| raised(py, &failure))
}
