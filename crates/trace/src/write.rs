//! Writes a trace as text of any [`Format`] that has a writer, or as Parquet.
//!
//! What a format has no word for (flush, trim, FUA, several streams) is a typed error, or dropped and counted when
//! asked. Times are written on the recording's own clock, so that reading the file back gives the same trace. Streams stay
//! apart in every format that tells streams apart: one whose name has no place in it gets a name of its own there.

use crate::error::TraceError;
use crate::formats::{FORMATS, Format, Kind};
use crate::record::Record;
use crate::requests::Requests;
use crate::trace::{Arrival, Stream};
use nandu_base::{Op, Span};
use serde::Serialize;
use std::collections::BTreeSet;
use std::fmt;
use std::io::{self, Write};

/// What to do with requests that the format cannot express.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Unsupported {
    /// Stop with [`TraceError::Inexpressible`].
    #[default]
    Stop,
    /// Leave them out (a FUA write stays as a plain write) and count them. Gaps after completions are left out too: the
    /// times of issue stay, as arrivals.
    Drop,
}

/// What was lost on the way into a format.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct WriteReport {
    /// Requests written.
    pub requests: u64,
    /// Requests left out because the format has no such operation.
    pub dropped_requests: u64,
    /// Requests written without their FUA flag.
    pub dropped_fua: u64,
    /// Times cut to the coarser unit of the format.
    pub rounded_times: u64,
    /// Requests whose gap after the completion before them became an arrival at the recorded time: a closed loop that is
    /// written as an open one.
    pub dropped_gaps: u64,
    /// Requests whose measured response time is not in the file, because the format has no place for it.
    pub dropped_response_times: u64,
    /// Requests whose measured response time was not kept while the trace was read, because there are too many of them.
    pub unread_response_times: u64,
    /// Streams that have another name in the file, because theirs has no place in it.
    pub renamed_streams: u64,
}

/// How a text format is written.
#[derive(Clone, Copy, Debug)]
pub struct LineWriter {
    /// Finest unit of its time in ns; 0 when it has no times.
    pub time_unit_ns: u64,
    /// Operations it has.
    pub ops: &'static [Op],
    /// True when it has FUA.
    pub fua: bool,
    /// True when it tells streams apart.
    pub streams: bool,
    /// True when it has measured response times.
    pub response_times: bool,
    /// What each of the streams is called in its lines, each by another name; [`Row::label`] has it.
    pub labels: fn(&[Stream]) -> Vec<String>,
    /// Lines before the first request.
    pub header: &'static str,
    /// Appends one line.
    pub write_row: fn(&Row<'_>, &mut Vec<u8>),
}

impl LineWriter {
    /// A writer with streams, without FUA and header, that writes nothing: the base of the others.
    pub const PLAIN: LineWriter = LineWriter {
        time_unit_ns: 1,
        ops: &[],
        fua: false,
        streams: true,
        response_times: false,
        labels: device_numbers,
        header: "",
        write_row: |_, _| {},
    };
}

/// One request on its way into a line.
pub struct Row<'a> {
    /// Number of the line, from 0.
    pub index: u64,
    /// The request.
    pub record: Record,
    /// Its arrival on the recording's clock, a multiple of the writer's unit.
    pub time_ns: u64,
    /// Its stream.
    pub stream: &'a Stream,
    /// What the stream is called in this format.
    pub label: &'a str,
    /// Its measured response time, 0 when unknown.
    pub service: Span,
}

impl Row<'_> {
    /// Appends text; writing to memory cannot fail.
    pub fn put(&self, out: &mut Vec<u8>, text: fmt::Arguments<'_>) {
        out.write_fmt(text).expect("a Vec takes any text");
    }

    /// The time in seconds with nine decimals.
    pub fn seconds(&self) -> String {
        format!("{}.{:09}", self.time_ns / 1_000_000_000, self.time_ns % 1_000_000_000)
    }
}

/// A number for each stream, each another one: its name where that is a number as it is printed, else the lowest that no
/// other stream has, in the order of the streams.
pub fn device_numbers(streams: &[Stream]) -> Vec<String> {
    distinct(
        streams,
        |stream| {
            // "007" would be read as 7.
            let number = stream.name.parse::<u64>().ok().filter(|n| n.to_string() == stream.name);
            number.map(|n| n.to_string())
        },
        |_, n| n.to_string(),
    )
}

/// A label for each stream: the one that is `own` to it, else the first of `other`, counted from 0, that no stream has.
/// Where two have the same of their own the first keeps it.
pub fn distinct(
    streams: &[Stream],
    own: impl Fn(&Stream) -> Option<String>,
    other: impl Fn(&Stream, u64) -> String,
) -> Vec<String> {
    let mut taken = BTreeSet::new();
    let owned: Vec<Option<String>> =
        streams.iter().map(|stream| own(stream).filter(|label| taken.insert(label.clone()))).collect();
    let free = |stream: &Stream, taken: &mut BTreeSet<String>| {
        let label = (0..).map(|n| other(stream, n)).find(|label| !taken.contains(label));
        let label = label.expect("there are more numbers than streams");
        taken.insert(label.clone());
        label
    };
    let labels = streams.iter().zip(owned);
    labels.map(|(stream, own)| own.unwrap_or_else(|| free(stream, &mut taken))).collect()
}

/// Writes `trace` to `out` in `format`.
///
/// # Errors
/// `Inexpressible`, `NoWriter`, or `Io` from `out`.
pub fn write(
    trace: &Requests,
    format: &'static Format,
    out: &mut (dyn Write + Send),
    unsupported: Unsupported,
) -> Result<WriteReport, TraceError> {
    match (&format.kind, &format.writer) {
        (Kind::Parquet, _) => crate::formats::parquet::write(trace, out),
        (_, Some(writer)) => write_lines(trace, format, writer, out, unsupported),
        (_, None) => Err(TraceError::NoWriter { format: format.name, known: writable_names() }),
    }
}

fn writable_names() -> String {
    FORMATS.iter().filter(|f| f.is_writable()).map(|f| f.name).collect::<Vec<_>>().join(", ")
}

fn write_lines(
    trace: &Requests,
    format: &'static Format,
    writer: &LineWriter,
    out: &mut dyn Write,
    unsupported: Unsupported,
) -> Result<WriteReport, TraceError> {
    const FLUSH_AT: usize = 1 << 16;
    let io_error =
        |error: io::Error| TraceError::Io { source_name: format!("{} output", format.name), error };
    check_whole(trace, format, writer, unsupported)?;
    let labels = (writer.labels)(trace.streams());
    let mut report = WriteReport {
        renamed_streams: if writer.streams { renamed(trace.streams(), &labels) } else { 0 },
        unread_response_times: trace.meta().unread_response_times,
        ..WriteReport::default()
    };
    let gaps = trace.meta().arrival == Arrival::GapAfterCompletion;
    let mut text: Vec<u8> = writer.header.into();
    for (index, record) in trace.iter().enumerate() {
        if !admit(record, index as u64, format, writer, unsupported, &mut report)? {
            continue;
        }
        let time = clock(trace, record, index as u64, format)?;
        let unit = writer.time_unit_ns.max(1);
        report.rounded_times += u64::from(writer.time_unit_ns > 0 && !time.is_multiple_of(unit));
        let row = Row {
            index: report.requests,
            record,
            time_ns: time - time % unit,
            stream: &trace.streams()[usize::from(record.stream())],
            label: &labels[usize::from(record.stream())],
            service: trace.service().and_then(|s| s.get(index)).copied().unwrap_or_default(),
        };
        (writer.write_row)(&row, &mut text);
        // The first request comes after none.
        report.dropped_gaps += u64::from(gaps && report.requests > 0);
        report.requests += 1;
        if text.len() >= FLUSH_AT {
            out.write_all(&text).map_err(io_error)?;
            text.clear();
        }
    }
    out.write_all(&text).and_then(|()| out.flush()).map_err(io_error)?;
    let lost = trace.service().is_some() && !writer.response_times;
    report.dropped_response_times = if lost { report.requests } else { 0 };
    Ok(report)
}

/// Streams that have requests, beside others, and are not called by their names.
fn renamed(streams: &[Stream], labels: &[String]) -> u64 {
    let used = || streams.iter().zip(labels).filter(|(stream, _)| stream.requests > 0);
    if used().count() < 2 {
        return 0;
    }
    used().filter(|(stream, label)| stream.name != label.replace(',', "_")).count() as u64
}

/// What no single request shows: times and streams.
fn check_whole(
    trace: &Requests,
    format: &'static Format,
    writer: &LineWriter,
    unsupported: Unsupported,
) -> Result<(), TraceError> {
    let refuse = |what: &str, remedy| {
        Err(TraceError::Inexpressible { format: format.name, what: what.into(), index: 0, remedy })
    };
    let used = trace.streams().iter().filter(|s| s.requests > 0).count();
    if used > 1 && !writer.streams {
        return refuse(
            "more than one stream",
            "fit the trace with `concat` first, or write spc, msr or parquet",
        );
    }
    if trace.meta().arrival == Arrival::OrderOnly && writer.time_unit_ns > 0 {
        return refuse("a trace without times", "write nbd-integrity or parquet");
    }
    if trace.meta().arrival != Arrival::OrderOnly && writer.time_unit_ns == 0 {
        return refuse("arrival times", "write another format, or parquet");
    }
    if trace.meta().arrival == Arrival::GapAfterCompletion && unsupported == Unsupported::Stop {
        return refuse(
            "gaps after completions",
            "write parquet, or ask to drop the gaps: the times of issue become arrivals then",
        );
    }
    Ok(())
}

/// Whether a request is written; counts what is lost.
fn admit(
    record: Record,
    index: u64,
    format: &'static Format,
    writer: &LineWriter,
    unsupported: Unsupported,
    report: &mut WriteReport,
) -> Result<bool, TraceError> {
    let refuse = |what: String| {
        let remedy = "ask to drop what the format has no word for, or write parquet";
        Err(TraceError::Inexpressible { format: format.name, what, index, remedy })
    };
    let known = writer.ops.contains(&record.op());
    let fua_lost = record.fua() && !writer.fua;
    match unsupported {
        Unsupported::Stop if !known => refuse(format!("{} requests", record.op().name())),
        Unsupported::Stop if fua_lost => refuse("FUA".into()),
        Unsupported::Drop if !known => {
            report.dropped_requests += 1;
            Ok(false)
        }
        _ => {
            report.dropped_fua += u64::from(fua_lost);
            Ok(true)
        }
    }
}

fn clock(trace: &Requests, record: Record, index: u64, format: &'static Format) -> Result<u64, TraceError> {
    record.time().0.checked_add(trace.meta().start_ns).ok_or_else(|| TraceError::Inexpressible {
        format: format.name,
        what: "a time beyond 64 bits of ns".into(),
        index,
        remedy: "set the start of the trace to 0",
    })
}
