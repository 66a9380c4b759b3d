//! Traces: a file, a generator, or columns that somebody else holds.

use crate::arrow::{STREAM, Stream, Taken, Words, read};
use crate::failure::raised;
use crate::policy::registry;
use crate::table::{Column, Table, Values, texts};
use crate::work::work;
use nandu::format::{Builder, Line};
use nandu::source::{GenSetting, Wanted};
use nandu::trace::{Arrival, Meta, Requests};
use nandu::units::Op;
use nandu::{Console, Failure, FaultKind, Load, Replay};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

/// Where requests come from.
#[derive(Clone)]
enum Origin {
    /// A file or a generator, with its parameters and the options of reading it.
    Named(Box<Replay>),
    /// They are here.
    Held(Requests),
}

/// The requests of a load.
#[pyclass(frozen, module = "nandu._nandu", from_py_object)]
#[derive(Clone)]
pub struct Trace(Origin);

impl Trace {
    /// Puts the requests into `replay`, which says how they are replayed.
    pub fn put(&self, replay: Replay) -> Replay {
        match &self.0 {
            Origin::Named(own) => replay.over((**own).clone()),
            Origin::Held(requests) => Replay { trace: Some(Load::Given(requests.clone())), ..replay },
        }
    }

    /// Its requests.
    pub fn requests(&self, seed: u64, console: Console) -> Result<Requests, Failure> {
        match &self.0 {
            Origin::Held(requests) => Ok(requests.clone()),
            Origin::Named(replay) => {
                let wanted = Wanted {
                    name: self.name(),
                    settings: replay.settings.clone(),
                    limit: replay.limit,
                    format: replay.trace_format.clone(),
                    columns: replay.columns.clone(),
                    bad_lines: replay.bad_lines,
                    seed,
                    room: None,
                };
                nandu::source::requests(&wanted, &registry(), console)
            }
        }
    }

    /// What messages call it.
    pub fn name(&self) -> String {
        match &self.0 {
            Origin::Named(replay) => replay.trace.as_ref().and_then(Load::name).unwrap_or_default().into(),
            Origin::Held(requests) => requests.meta().source.clone(),
        }
    }
}

/// The options of a load by name over those of `trace`.
pub fn replay_of(trace: Option<&Trace>, options: Vec<(String, String)>) -> Result<Replay, Failure> {
    let own = options.into_iter().try_fold(Replay::default(), |all, (key, value)| all.with(&key, &value))?;
    Ok(trace.map_or(own.clone(), |trace| trace.put(own)))
}

/// Which column is what.
struct Roles {
    time: Option<String>,
    op: String,
    offset: String,
    size: String,
    stream: Option<String>,
}

impl Roles {
    fn names(&self) -> Vec<&str> {
        let needed = [&self.op, &self.offset, &self.size];
        needed.into_iter().chain(&self.time).chain(&self.stream).map(String::as_str).collect()
    }

    /// The trace of columns in the order of `names`.
    fn trace(&self, found: Vec<(String, Taken)>, unit_ns: u64, label: &str) -> Result<Trace, Failure> {
        let wrong = |why: String| Failure { kind: FaultKind::Trace, message: format!("{label}: {why}") };
        let column = |name: &String| {
            let taken = found.iter().find(|(n, _)| n == name).map(|(_, taken)| taken);
            taken.ok_or_else(|| wrong(format!("unknown column `{name}`")))
        };
        let numbers = |name: &String| match column(name)? {
            Taken::Numbers(all, unit) => Ok((all, *unit)),
            Taken::Words(_) => Err(wrong(format!("column `{name}` has texts where numbers are needed"))),
        };
        let (offsets, sizes) = (numbers(&self.offset)?.0, numbers(&self.size)?.0);
        let times = self.time.as_ref().map(numbers).transpose()?;
        let ops = column(&self.op)?;
        let rows = |taken: &Taken| match taken {
            Taken::Numbers(all, _) => all.len(),
            Taken::Words(words) => words.at.len(),
        };
        if let Some((name, other)) = found.iter().find(|(_, taken)| rows(taken) != offsets.len()) {
            let (own, offset, offsets) = (rows(other), &self.offset, offsets.len());
            return Err(wrong(format!(
                "column `{name}` has {own} rows and column `{offset}` has {offsets}; all need the same number"
            )));
        }
        let known: Vec<Op> = match ops {
            Taken::Words(words) => {
                words.known.iter().map(|w| op(w).map_err(wrong)).collect::<Result<_, _>>()?
            }
            Taken::Numbers(..) => vec![Op::Read, Op::Write],
        };
        let streams = self.stream.as_ref().map(column).transpose()?;
        let arrival = if times.is_some() { Arrival::Timestamps } else { Arrival::OrderOnly };
        let mut builder = Builder::new(arrival, false);
        for (row, (&offset, &size)) in offsets.iter().zip(sizes).enumerate() {
            let here = |why: String| wrong(format!("row {row}: {why}"));
            let whole = |name: &str, n: i128| {
                u64::try_from(n).map_err(|_| here(format!("`{name}` = {n} is not from 0 to 2^64-1")))
            };
            let time_ns = match &times {
                Some((all, unit)) => {
                    whole("time", all[row].saturating_mul(i128::from(unit.unwrap_or(unit_ns))))?
                }
                None => 0,
            };
            let place = match ops {
                Taken::Words(words) => words.at[row] as usize,
                Taken::Numbers(all, _) => usize::try_from(all[row]).unwrap_or(usize::MAX),
            };
            let op = *known
                .get(place)
                .ok_or_else(|| here("an operation is 0 for a read or 1 for a write".into()))?;
            let stream = match streams {
                None => builder.stream_named(b"0"),
                Some(Taken::Words(words)) => {
                    builder.stream_named(words.known[words.at[row] as usize].as_bytes())
                }
                Some(Taken::Numbers(all, _)) => builder.stream(whole("stream", all[row])?),
            };
            let stream = stream.map_err(|e| here(e.to_string()))?;
            let (offset, size) = (whole(&self.offset, offset)?, whole(&self.size, size)?);
            let (offset, size) = if op == Op::Flush { (0, 0) } else { (offset, size) };
            let line = Line { time_ns, op, fua: false, offset_sectors: 0, len_sectors: 0, stream };
            builder.push_bytes(row, line, offset, size).map_err(|fault| here(fault.why.to_string()))?;
        }
        if builder.is_empty() {
            return Err(wrong("there are no requests in it".into()));
        }
        let meta = Meta { format: "table".into(), source: label.into(), arrival, ..Meta::default() };
        Ok(Trace(Origin::Held(builder.finish(meta).into())))
    }
}

/// An operation by the words that traces and fio have for it.
fn op(word: &str) -> Result<Op, String> {
    match word.to_ascii_lowercase().as_str() {
        "r" | "read" => Ok(Op::Read),
        "w" | "write" => Ok(Op::Write),
        "d" | "t" | "trim" | "discard" => Ok(Op::Trim),
        "f" | "flush" => Ok(Op::Flush),
        _ => Err(format!("unknown operation `{word}`; known are read, write, trim and flush")),
    }
}

/// A column that Python hands over: a list of words, or the type and the bytes of a buffer, perhaps with the words that its numbers stand for.
#[derive(FromPyObject)]
enum Given {
    Words(Vec<String>),
    Coded(String, Vec<u8>, Vec<String>),
    Buffer(String, Vec<u8>),
}

impl Given {
    fn taken(self) -> Result<Taken, String> {
        let (format, bytes) = match self {
            Given::Words(all) => {
                let mut words = Words::default();
                all.iter().for_each(|word| words.push(word));
                return Ok(Taken::Words(words));
            }
            Given::Coded(_, bytes, known) if !known.is_empty() => {
                let mut words = Words::default();
                for &code in &bytes {
                    words.push(known.get(usize::from(code)).ok_or("a number stands for no word")?);
                }
                return Ok(Taken::Words(words));
            }
            Given::Coded(format, bytes, _) | Given::Buffer(format, bytes) => (format, bytes),
        };
        macro_rules! numbers {
            ($type:ty) => {
                bytes.chunks_exact(size_of::<$type>()).map(|part| {
                    i128::from(<$type>::from_ne_bytes(
                        part.try_into().expect("a chunk has the size of its type"),
                    ))
                })
            };
        }
        let all: Vec<i128> = match format.as_str() {
            "b" => numbers!(i8).collect(),
            "B" | "?" => numbers!(u8).collect(),
            "h" => numbers!(i16).collect(),
            "H" => numbers!(u16).collect(),
            "i" => numbers!(i32).collect(),
            "I" => numbers!(u32).collect(),
            "l" | "q" => numbers!(i64).collect(),
            "L" | "Q" => numbers!(u64).collect(),
            _ => return Err(format!("numbers of the format `{format}` are not whole; cast them first")),
        };
        Ok(Taken::Numbers(all, None))
    }
}

#[pymethods]
impl Trace {
    /// The requests of a file or a generator: parameters of the generator, and options of reading.
    #[staticmethod]
    fn named(
        py: Python<'_>,
        name: String,
        settings: Vec<(String, String)>,
        options: Vec<(String, String)>,
    ) -> PyResult<Trace> {
        let read = || -> Result<Replay, Failure> {
            let mut replay = replay_of(None, options)?;
            for (key, value) in settings {
                let setting = format!("{key}={value}").parse::<GenSetting>();
                replay.settings.push(setting.map_err(Failure::input)?);
            }
            Ok(Replay { trace: Some(name.into()), ..replay })
        };
        Ok(Trace(Origin::Named(Box::new(read().map_err(|failure| raised(py, &failure))?))))
    }

    /// The requests of a table that another library holds, through the Arrow C stream interface.
    #[staticmethod]
    #[pyo3(signature = (capsule, *, time, op, offset, size, stream, unit_ns, label))]
    #[allow(clippy::too_many_arguments)]
    fn of_stream(
        py: Python<'_>,
        capsule: &Bound<'_, PyCapsule>,
        time: Option<String>,
        op: String,
        offset: String,
        size: String,
        stream: Option<String>,
        unit_ns: u64,
        label: &str,
    ) -> PyResult<Trace> {
        let pointer = capsule.pointer_checked(Some(STREAM))?.cast::<Stream>();
        let roles = Roles { time, op, offset, size, stream };
        // SAFETY: a capsule of this name holds such a stream, and the interpreter's lock keeps others from it.
        let found = unsafe { read(pointer, &roles.names()) };
        let trace = found
            .map_err(|why| Failure { kind: FaultKind::Trace, message: format!("{label}: {why}") })
            .and_then(|found| py.detach(|| roles.trace(found, unit_ns, label)));
        trace.map_err(|failure| raised(py, &failure))
    }

    /// The requests of columns by name: lists of words, or the format and the bytes of buffers.
    #[staticmethod]
    #[pyo3(signature = (columns, *, time, op, offset, size, stream, unit_ns, label))]
    #[allow(clippy::too_many_arguments)]
    fn of_buffers(
        py: Python<'_>,
        columns: Vec<(String, Bound<'_, PyAny>)>,
        time: Option<String>,
        op: String,
        offset: String,
        size: String,
        stream: Option<String>,
        unit_ns: u64,
        label: &str,
    ) -> PyResult<Trace> {
        let wrong = |why: String| Failure { kind: FaultKind::Trace, message: format!("{label}: {why}") };
        let mut found = Vec::new();
        for (name, given) in columns {
            let taken = given.extract::<Given>()?.taken().map_err(|why| format!("column `{name}`: {why}"));
            found.push((name, taken.map_err(|why| raised(py, &wrong(why)))?));
        }
        let roles = Roles { time, op, offset, size, stream };
        let trace = py.detach(|| roles.trace(found, unit_ns, label));
        trace.map_err(|failure| raised(py, &failure))
    }

    /// What messages call it.
    #[getter]
    fn label(&self) -> String {
        self.name()
    }

    /// The requests as a table: `time_ns`, `op`, `offset`, `size`, `stream`.
    #[pyo3(signature = (seed=1))]
    fn to_table(&self, py: Python<'_>, seed: u64) -> PyResult<Table> {
        let own = self.clone();
        let make = move |console: Console| Ok(table_of(&own.requests(seed, console)?.into_trace()));
        Ok(work(py, None, make)?.0)
    }
}

fn table_of(trace: &nandu::Trace) -> Table {
    let records = &trace.records;
    let ops = [Op::Read, Op::Write, Op::Flush, Op::Trim, Op::WriteZeroes, Op::Reset];
    let place = |op: Op| ops.iter().zip(0..).find(|(known, _)| **known == op).map_or(0, |(_, i)| i);
    let (offsets, bytes) = texts(ops.iter().map(|op| op.name()));
    let codes = records.iter().map(|r| place(r.op())).collect();
    let columns = vec![
        Column::full("time_ns", Values::U64(records.iter().map(|r| r.time().0).collect())),
        Column::full("op", Values::Words(codes, offsets, bytes)),
        Column::full("offset", Values::U64(records.iter().map(|r| r.offset().0).collect())),
        Column::full("size", Values::U64(records.iter().map(|r| r.len().0).collect())),
        Column::full("stream", Values::U64(records.iter().map(|r| u64::from(r.stream())).collect())),
    ];
    Table::new(columns, records.len())
}
