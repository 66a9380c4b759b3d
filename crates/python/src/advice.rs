//! Advice: which stack meets the bounds for the least money.

use crate::policy::registry;
use crate::runs::{Options, json, threads};
use crate::trace::{Trace, replay_of};
use crate::work::{Said, work};
use nandu::units::{parse_size, parse_span};
use nandu::{Failure, advise as advice};
use pyo3::prelude::*;
use std::path::PathBuf;

/// What advice asks for, beside its traces.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Wanted {
    p99: Option<String>,
    life: Option<String>,
    bound: Vec<String>,
    cost: Option<PathBuf>,
    capacity: Vec<String>,
    stack: Option<String>,
    axis: Vec<String>,
    budget: Option<u64>,
    exhaustive: bool,
    jobs: Option<usize>,
    out: Option<PathBuf>,
}

/// Which stack meets the bounds on all traces, or with the traces of all tenants at the same time, for the least money. Returns the advice, the winning stack file and what was said.
#[pyfunction]
#[pyo3(signature = (wanted, traces, tenants, options, *, progress=None))]
pub fn advise(
    py: Python<'_>,
    wanted: Wanted,
    traces: Vec<Trace>,
    tenants: Vec<(String, Trace)>,
    options: Options,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<(String, Option<String>, Said)> {
    let registry = registry();
    let ((text, best), said) = work(py, progress, move |console| {
        let wrong = |key: &'static str| move |why: String| Failure::input(format!("`{key}`: {why}"));
        let load = |trace: &Trace| replay_of(Some(trace), options.clone());
        let tenants = tenants.iter().map(|(name, trace)| Ok((name.clone(), load(trace)?)));
        let p99 = wanted.p99.map(|text| parse_span(&text).map_err(|e| wrong("p99")(e.to_string())));
        let capacity = wanted.capacity.iter().map(|text| parse_size(text));
        let asked = advice::Asked {
            traces: traces.iter().map(load).collect::<Result<_, _>>()?,
            tenants: tenants.collect::<Result<_, Failure>>()?,
            p99: p99.transpose()?,
            life: wanted.life.as_deref().map(advice::life).transpose().map_err(wrong("life"))?,
            bound: wanted.bound,
            cost: wanted.cost,
            capacity: capacity.collect::<Result<_, _>>().map_err(|e| wrong("capacity")(e.to_string()))?,
            stack: wanted.stack,
            axis: wanted.axis,
            budget: wanted.budget,
            exhaustive: wanted.exhaustive,
            threads: threads(wanted.jobs),
            out: wanted.out,
        };
        let advisor = advice::Advisor::prepare(&asked, &registry, console)?;
        let found = advisor.find()?;
        let said = advice::Advice::of(&advisor, &found)?;
        advisor.ends();
        said.cautions().iter().for_each(|caution| caution.say(console));
        Ok((json(&said)?, advice::winner(&advisor, &found, &said)?))
    })?;
    Ok((text, best, said))
}
