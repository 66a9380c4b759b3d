//! `nandu trace`: measure, convert and make traces.

use crate::args::{ConvertArgs, GenerateArgs, InfoArgs, TraceCommand, WriteArgs};
use crate::commands::mrc::mrc;
use crate::console::Console;
use crate::failure::Failure;
use crate::files::{self, Kind};
use crate::format::{count, plural, short_hash, size, three, time};
use crate::output;
use crate::replay::file_of_columns;
use crate::source;
use crate::table::Table;
use nandu_base::ByteLen;
use nandu_base::registry::nearest;
use nandu_trace::fit::Fit;
use nandu_trace::record::MAX_END_SECTORS;
use nandu_trace::stats::{Stats, StatsOptions, stats};
use nandu_trace::synth;
use nandu_trace::write::{Unsupported, WriteReport, write};
use nandu_trace::{Format, Meta, Requests, formats};
use serde::Serialize;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Does what `nandu trace` is asked.
pub fn trace(command: &TraceCommand, console: Console) -> Result<(), Failure> {
    match command {
        TraceCommand::Info(args) => info(args, console),
        TraceCommand::Convert(args) => convert(args, console),
        TraceCommand::Mrc(args) => mrc(args, console),
        TraceCommand::Generate(args) => generate(args, console),
    }
}

/// A trace and its figures.
#[derive(Serialize)]
struct Measured {
    /// Where it comes from.
    meta: Meta,
    /// SHA-256 of the requests.
    content_hash: String,
    /// What papers say of a trace.
    stats: Stats,
}

fn info(args: &InfoArgs, console: Console) -> Result<(), Failure> {
    let mut all = Vec::new();
    for name in &args.traces {
        let trace = source::requests(&args.read.wanted(name), crate::registry(), console)?;
        let _waiting = console.waiting(format!("measuring {name}"));
        let stats = stats(&trace, StatsOptions { reuse: !args.no_reuse });
        let content_hash = trace.content_hash().to_string();
        all.push(Measured { content_hash, meta: trace.meta().clone(), stats });
    }
    if args.json {
        return output::print_json(
            &serde_json::json!({ "schema": nandu_sim::result::SCHEMA, "traces": all }),
        );
    }
    let mut text = figures(&all);
    if args.streams {
        for measured in &all {
            let _ = write!(text, "\n{}\n{}", measured.meta.source, streams(&measured.stats));
        }
    }
    output::print(&text)
}

/// One row for each figure, one column for each trace.
fn figures(all: &[Measured]) -> String {
    let names: Vec<String> = all.iter().map(|m| short_name(&m.meta.source)).collect();
    let mut table = Table::new(std::iter::once("<").chain(names.iter().map(String::as_str)));
    let mut row = |name: &str, cell: &dyn Fn(&Measured) -> String| {
        let cells: Vec<String> = all.iter().map(cell).collect();
        if cells.iter().any(|c| c != "-") {
            table.row(std::iter::once(name.to_string()).chain(cells));
        }
    };
    row("format", &|m| m.meta.format.clone());
    row("origin", &|m| m.meta.origin.name().into());
    row("content hash", &|m| short_hash(&m.content_hash).into());
    row("requests", &|m| count(m.stats.requests));
    row("reads", &|m| count(m.stats.read_requests));
    row("writes", &|m| count(m.stats.write_requests));
    row("flushes", &|m| some(m.stats.flush_requests));
    row("trims", &|m| some(m.stats.trim_requests));
    row("write-zeroes", &|m| some(m.stats.write_zeroes_requests));
    row("resets", &|m| some(m.stats.reset_requests));
    row("with FUA", &|m| some(m.stats.fua_requests));
    row("writes in all", &|m| share(m.stats.write_percent));
    row("read", &|m| size(m.stats.read_bytes));
    row("written", &|m| size(m.stats.written_bytes));
    row("span", &|m| m.stats.duration_ns.map_or_else(|| "order only".into(), time));
    row("mean inter-arrival", &|m| {
        m.stats.interarrival_mean_ns.map_or_else(|| "-".into(), |ns| time(ns as u64))
    });
    row("mean size", &|m| size(m.stats.size_mean_bytes as u64));
    row("mean 4 KiB pages", &|m| three(m.stats.pages_per_request_mean));
    row("footprint", &|m| size(m.stats.footprint_bytes));
    row("footprint written", &|m| size(m.stats.footprint_written_bytes));
    row("sequential", &|m| share(m.stats.sequential_percent));
    row("4 KiB aligned", &|m| share(m.stats.aligned_4k_percent));
    row("last byte", &|m| size(m.stats.max_extent_bytes));
    row("streams", &|m| count(m.stats.streams.iter().filter(|s| s.requests > 0).count() as u64));
    row("page reuse", &|m| m.stats.reuse.as_ref().map_or_else(|| "-".into(), |r| share(r.reused_percent)));
    row("reuse distance p50", &|m| distance(m.stats.reuse.as_ref().and_then(|r| r.distance_median_pages)));
    row("reuse distance p90", &|m| distance(m.stats.reuse.as_ref().and_then(|r| r.distance_p90_pages)));
    let lengths: std::collections::BTreeSet<u64> =
        all.iter().flat_map(|m| m.stats.size_histogram.iter().map(|b| b.up_to_bytes)).collect();
    for length in lengths {
        row(&format!("up to {}", size(length)), &|m| of_length(&m.stats, length));
    }
    table.to_string()
}

/// A file without its folders; a generator as it is.
fn short_name(source: &str) -> String {
    if source.contains(", seed ") {
        return source.into();
    }
    Path::new(source).file_name().map_or_else(|| source.into(), |n| n.to_string_lossy().into_owned())
}

fn some(n: u64) -> String {
    if n == 0 { "-".into() } else { count(n) }
}

fn share(percent: f64) -> String {
    format!("{percent:.1} %")
}

fn distance(pages: Option<u64>) -> String {
    pages.map_or_else(|| "-".into(), |p| plural(p, "page"))
}

fn of_length(stats: &Stats, length: u64) -> String {
    let bucket = stats.size_histogram.iter().find(|b| b.up_to_bytes == length);
    bucket.map_or_else(|| "-".into(), |b| share(100.0 * b.requests as f64 / stats.requests.max(1) as f64))
}

fn streams(stats: &Stats) -> Table {
    let mut table = Table::new(["<stream", "requests", "writes", "mean size", "footprint", "last byte"]);
    for s in &stats.streams {
        table.row([
            s.name.clone(),
            count(s.requests),
            share(s.write_percent),
            size(s.size_mean_bytes as u64),
            size(s.footprint_bytes),
            size(s.max_extent_bytes),
        ]);
    }
    table
}

fn convert(args: &ConvertArgs, console: Console) -> Result<(), Failure> {
    let format = output_format(&args.output, args.write.to.as_deref())?;
    let columns = args.read.columns.as_ref().and_then(file_of_columns);
    let inputs: Vec<&Path> = columns.iter().map(PathBuf::as_path).chain([Path::new(&args.input)]).collect();
    files::allow(&[(&args.output, Kind::Trace)], &inputs, args.write.force)?;
    let trace = source::requests(&args.read.wanted(&args.input), crate::registry(), console)?;
    let method = match args.fit.as_deref() {
        Some("compact") => Some(Fit::Compact),
        Some(_) => Some(Fit::Concat),
        None => None,
    };
    let trace = match method {
        Some(method) => {
            let room = ByteLen(MAX_END_SECTORS * nandu_base::SECTOR);
            let fitted =
                trace.fit(room, method).map_err(|e| Failure::input(format!("{}: {e}", args.input)))?;
            // What lies in one address space is written as one stream.
            fitted.0.joined()
        }
        None => trace,
    };
    save(&trace, format, &args.output, &args.write, console)
}

fn generate(args: &GenerateArgs, console: Console) -> Result<(), Failure> {
    if source::generator(&args.name, crate::registry()).is_none() {
        let near = nearest(&args.name, synth::of(crate::registry()).map(|s| s.name));
        let hint = near.map_or_else(String::new, |n| format!("; did you mean `{n}`?"));
        return Err(Failure::input(format!("unknown generator `{}`{hint}", args.name))
            .with_help("`nandu list generators` shows them"));
    }
    let format = output_format(&args.output, args.write.to.as_deref())?;
    files::allow(&[(&args.output, Kind::Trace)], &[], args.write.force)?;
    let trace = source::requests(&args.read.wanted(&args.name), crate::registry(), console)?;
    save(&trace, format, &args.output, &args.write, console)
}

/// The format that `--to` or the extension names.
fn output_format(path: &Path, to: Option<&str>) -> Result<&'static Format, Failure> {
    let known = formats::of(crate::registry());
    if let Some(name) = to {
        return Ok(formats::among(&known, name)?);
    }
    let file = path.file_name().unwrap_or_default().to_string_lossy();
    let file = file.strip_suffix(".zst").unwrap_or(&file);
    let extension = file.rsplit_once('.').map_or("", |(_, e)| e);
    formats::among(&known, extension).map_err(|_| {
        let names: Vec<&str> = known.iter().filter(|f| f.is_writable()).map(|f| f.name).collect();
        let what = match extension {
            "" => "a name without an extension".into(),
            extension => format!("the extension `.{extension}`"),
        };
        Failure::input(format!("{}: {what} names no trace format", path.display()))
            .with_help(format!("write --to FORMAT, or one of these as the extension: {}", names.join(", ")))
    })
}

fn save(
    trace: &Requests,
    format: &'static Format,
    path: &Path,
    args: &WriteArgs,
    console: Console,
) -> Result<(), Failure> {
    let unsupported = if args.drop { Unsupported::Drop } else { Unsupported::Stop };
    let zstd = path.extension().is_some_and(|e| e == "zst");
    let waiting = console.waiting(format!("writing {}", path.display()));
    let report: WriteReport = files::write_file(path, |out| {
        if !zstd {
            return write_to(trace, format, out, unsupported);
        }
        let failed = |e: std::io::Error| Failure::unwritable(path, &e);
        let mut encoder = zstd::Encoder::new(out, 3).map_err(failed)?;
        let report = write_to(trace, format, &mut encoder, unsupported)?;
        encoder.finish().map_err(failed)?;
        Ok(report)
    })?;
    drop(waiting);
    if report.dropped_requests + report.dropped_fua > 0 {
        let (requests, fua) = (plural(report.dropped_requests, "request"), report.dropped_fua);
        console.warning(format!(
            "{requests} and {fua} FUA flags left out: {} has no word for them",
            format.name
        ));
    }
    losses(&report, format.name, console);
    if report.rounded_times > 0 {
        console.note(format!("{} cut to the unit of {}", plural(report.rounded_times, "time"), format.name));
    }
    console.note(format!(
        "{} written to {} as {}",
        plural(report.requests, "request"),
        path.display(),
        format.name
    ));
    Ok(())
}

/// Says what else is not in the file.
fn losses(report: &WriteReport, format: &str, console: Console) {
    if report.dropped_gaps > 0 {
        console.warning(format!(
            "{} after completions left out: the closed loop is written as an open one, whose arrivals are the recording's \
             times of issue",
            plural(report.dropped_gaps, "gap")
        ));
    }
    if report.dropped_response_times > 0 {
        let times = plural(report.dropped_response_times, "measured response time");
        console.note(format!("{times} left out: {format} has no place for them"));
    }
    if report.unread_response_times > 0 {
        let times = plural(report.unread_response_times, "measured response time");
        console.warning(format!(
            "{times} left out: of a trace of more than {} requests they are not kept; --limit reads fewer",
            count(nandu_trace::requests::HELD_MOST)
        ));
    }
    if report.renamed_streams > 0 {
        let streams = plural(report.renamed_streams, "stream");
        console.note(format!("{streams} under another name: {format} has no place for theirs"));
    }
}

fn write_to(
    trace: &Requests,
    format: &'static Format,
    out: &mut (dyn std::io::Write + Send),
    unsupported: Unsupported,
) -> Result<WriteReport, Failure> {
    write(trace, format, out, unsupported).map_err(|error| match &error {
        nandu_trace::TraceError::Io { .. } => Failure::failed(error.to_string()),
        nandu_trace::TraceError::Inexpressible { what, .. } if what.contains("stream") => {
            Failure::from(error).with_help("--fit concat lays the streams in a row")
        }
        nandu_trace::TraceError::Inexpressible { .. } => {
            Failure::from(error).with_help("--drop leaves out what the format has no word for")
        }
        _ => error.into(),
    })
}
