//! Reads a trace: compression and format by content, line by line, with typed errors.

use crate::builder::Builder;
use crate::columns::{self, Columns};
use crate::cursor::Cursor;
use crate::error::{Fault, LineError, TraceError, excerpt};
use crate::formats::{self, Format, Kind};
use crate::input::{Blocks, LINE_LIMIT, Place};
use crate::requests::Requests;
use crate::trace::{Arrival, Meta, Origin, Trace};
use nandu_base::BadLines;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

/// How to read a trace.
#[derive(Clone, Debug)]
pub struct LoadOptions {
    /// Formats that may be recognised; those of this crate unless a registry has [others](formats::of).
    pub formats: Vec<&'static Format>,
    /// The format; `None` recognises it by content.
    pub format: Option<&'static Format>,
    /// Which column is what, of text in no format or of Parquet; takes the place of a format.
    pub columns: Option<Columns>,
    /// What to do with a line that is wrong: stop with a [`LineError`], or skip it and keep the first few messages in
    /// [`Meta::skipped_first`].
    pub bad_lines: BadLines,
    /// Read only this many requests from the start of the file.
    pub limit: Option<u64>,
    /// Keep measured response times where the format has them (8 bytes per request).
    pub keep_service: bool,
    /// Whether the file was recorded or made up, where that is known from elsewhere. Without it a recording that is
    /// [known](crate::known) by its content is real, a Parquet file written here says when it is a stand-in, and others are unknown.
    pub origin: Origin,
}

impl Default for LoadOptions {
    fn default() -> LoadOptions {
        LoadOptions {
            formats: formats::FORMATS.to_vec(),
            format: None,
            columns: None,
            bad_lines: BadLines::Stop,
            limit: None,
            keep_service: true,
            origin: Origin::Unknown,
        }
    }
}

/// Messages kept of skipped lines.
const SKIPPED_SHOWN: usize = 5;
/// Text that is looked at to recognise the format, in bytes.
const SAMPLE: usize = 1 << 16;
/// Requests or bad lines that decide.
const SAMPLE_LINES: u64 = 64;

/// Reads the trace in file `path`.
///
/// # Errors
/// Any [`TraceError`] of reading: the file, its compression, its format, one of its lines.
pub fn load(path: &Path, options: &LoadOptions) -> Result<Trace, TraceError> {
    load_requests(path, options, u64::MAX).map(Requests::into_trace)
}

/// Reads the trace in file `path`; one of more than `held` requests is not held but put aside.
///
/// # Errors
/// As [`load`], and [`TraceError::Disorder`].
pub fn load_requests(path: &Path, options: &LoadOptions, held: u64) -> Result<Requests, TraceError> {
    let source_name = path.display().to_string();
    let file =
        File::open(path).map_err(|error| TraceError::Io { source_name: source_name.clone(), error })?;
    let mut head = [0; formats::parquet::MAGIC.len()];
    if file.read_exact_at(&mut head, 0).is_ok() && head == formats::parquet::MAGIC {
        return formats::parquet::read(file, &source_name, options, held).map(named);
    }
    parse_requests(Box::new(file), &source_name, options, held)
}

/// Reads a trace from bytes; `format` overrides the one of `options`. For tests and fuzzing: any bytes give a trace or
/// an error.
///
/// # Errors
/// As [`load`].
pub fn parse_bytes(
    format: Option<&'static Format>,
    bytes: &[u8],
    options: LoadOptions,
) -> Result<Trace, TraceError> {
    let options = LoadOptions { format: format.or(options.format), ..options };
    parse_reader(Box::new(bytes), "(bytes)", &options)
}

/// Reads a trace from `raw`, compressed or not; `source_name` stands in errors and in [`Meta::source`].
///
/// # Errors
/// As [`load`].
pub fn parse_reader(
    raw: Box<dyn Read + '_>,
    source_name: &str,
    options: &LoadOptions,
) -> Result<Trace, TraceError> {
    parse_requests(raw, source_name, options, u64::MAX).map(Requests::into_trace)
}

/// Reads a trace from `raw`; one of more than `held` requests is not held but put aside.
///
/// # Errors
/// As [`load_requests`].
pub fn parse_requests(
    raw: Box<dyn Read + '_>,
    source_name: &str,
    options: &LoadOptions,
    held: u64,
) -> Result<Requests, TraceError> {
    let mut blocks = Blocks::new(raw, source_name)?;
    if blocks.holds(formats::parquet::MAGIC)? {
        return formats::parquet::read(blocks.spooled()?, source_name, options, held).map(named);
    }
    let head = blocks.head(SAMPLE)?;
    if let Some((kind, unpack, first)) = archive(head) {
        let first = excerpt(first, 80);
        return Err(TraceError::Archive { source_name: source_name.into(), kind, first, unpack });
    }
    let binary = match options.format {
        _ if options.columns.is_some() => None,
        Some(format) => matches!(format.kind, Kind::Binary { .. }).then_some(format),
        None => formats::recognise(&options.formats, head).filter(|f| matches!(f.kind, Kind::Binary { .. })),
    };
    if let Some(format) = binary.filter(|_| !head.is_empty()) {
        let notes = (format.note)(head).into_iter().collect();
        return finish(blocks, format, options, notes, held);
    }
    let sample = blocks.sample(SAMPLE)?;
    if sample.iter().all(u8::is_ascii_whitespace) {
        let example = options.format.unwrap_or(formats::FORMATS[0]).example;
        return Err(TraceError::Empty { source_name: source_name.into(), example });
    }
    let format = match options.format {
        _ if options.columns.is_some() => &columns::FORMAT,
        Some(format) => format,
        None => formats::recognise(&options.formats, sample)
            .ok_or_else(|| unknown_format(source_name, sample, &options.formats))?,
    };
    // Also where the format was named: what is guessed within it is.
    let notes = (format.note)(sample).into_iter().collect();
    finish(blocks, format, options, notes, held)
}

/// What archive begins so, what takes a file out of it, and its first file. Traces are published in them.
fn archive(head: &[u8]) -> Option<(&'static str, &'static str, &[u8])> {
    if let Some(rest) = head.strip_prefix(b"PK\x03\x04") {
        let len = usize::from(u16::from_le_bytes([*rest.get(22)?, *rest.get(23)?]));
        return Some(("zip", "unzip -p", rest.get(26..)?.get(..len)?));
    }
    let name = head.get(..100).filter(|_| head.get(257..262) == Some(b"ustar"))?;
    Some(("tar", "tar -xOf", &name[..memchr::memchr(0, name).unwrap_or(name.len())]))
}

/// Reads all of `blocks` in `format`.
fn finish(
    mut blocks: Blocks<'_>,
    format: &'static Format,
    options: &LoadOptions,
    notes: Vec<String>,
    held: u64,
) -> Result<Requests, TraceError> {
    let source_name = blocks.source_name().to_string();
    let mut job = Job::new(format, options, held);
    match (format.kind, &options.columns) {
        (Kind::Columns, Some(columns)) => {
            let parser = columns.parser(blocks.sample(SAMPLE)?, &source_name)?;
            job.builder.set_arrival(parser.arrival());
            drive_with(&mut blocks, &mut job, parser)?;
        }
        (Kind::Text { parse } | Kind::Binary { parse }, _) => parse(&mut blocks, &mut job)?,
        (Kind::Parquet | Kind::Columns, _) => {
            let detail = "it does not start with PAR1".into();
            return Err(TraceError::Corrupt { source_name, compression: format.name, detail });
        }
    }
    if job.builder.is_empty() && job.skipped == 0 {
        return Err(TraceError::Empty { source_name, example: format.example });
    }
    if let Some(last) = job.last_bad.take().filter(|_| job.builder.is_empty()) {
        return Err(last);
    }
    let meta = Meta {
        format: format.name.into(),
        source: source_name,
        compression: blocks.compression().name().into(),
        origin: options.origin,
        skipped_lines: job.skipped,
        skipped_first: job.skipped_first,
        notes,
        ..Meta::default()
    };
    job.builder.finish_requests(meta).map(named)
}

/// Says where they come from, when that is known by their content.
fn named(mut requests: Requests) -> Requests {
    if let Requests::Held(trace) = &mut requests {
        crate::known::name_origin(Arc::make_mut(trace));
    }
    requests
}

fn unknown_format(source_name: &str, sample: &[u8], formats: &[&'static Format]) -> TraceError {
    let first = sample.split(|&b| b == b'\n').find(|l| !l.trim_ascii().is_empty()).unwrap_or_default();
    // Blanks before a line keep every parser from it: they are shown.
    TraceError::UnknownFormat {
        source_name: source_name.into(),
        first_line: excerpt(first.trim_ascii_end(), 80),
        known: formats::names(formats),
    }
}

/// The parser of one text format: a state machine over lines.
pub trait LineParser: Sized {
    /// How requests of this format follow each other.
    const ARRIVAL: Arrival = Arrival::Timestamps;

    /// A parser for a file that begins with these lines.
    fn begin(_sample: &[u8]) -> Self
    where
        Self: Default,
    {
        Self::default()
    }

    /// Reads one line at `c` up to and with its newline; lines that carry no request add none.
    fn line(&mut self, c: &mut Cursor<'_>, out: &mut Builder) -> Result<(), Fault>;

    /// The last line was read; the fault is shown as one of it.
    ///
    /// # Errors
    /// The file must not end here.
    fn end(&mut self, _out: &mut Builder) -> Result<(), Fault> {
        Ok(())
    }
}

/// The parser of one binary format: a state machine over records.
pub trait RecordParser: Sized {
    /// Bytes that tell how long a record is.
    const HEAD: usize;

    /// A parser for a file that begins with these bytes; `None` when it is of another format.
    fn begin(head: &[u8]) -> Option<Self>;

    /// Length of the record that begins with these [`RecordParser::HEAD`] bytes.
    ///
    /// # Errors
    /// No record begins so, and what follows cannot be found.
    fn len(&self, head: &[u8]) -> Result<usize, Fault>;

    /// Reads one record; one that carries no request adds none.
    ///
    /// # Errors
    /// What is wrong with it.
    fn record(&mut self, bytes: &[u8], out: &mut Builder) -> Result<(), Fault>;
}

/// One parse under way.
pub struct Job {
    format: &'static Format,
    bad_lines: BadLines,
    limit: usize,
    keep_service: bool,
    held: u64,
    pub(crate) builder: Builder,
    skipped: u64,
    skipped_first: Vec<String>,
    last_bad: Option<TraceError>,
}

impl Job {
    fn new(format: &'static Format, options: &LoadOptions, held: u64) -> Job {
        Job {
            format,
            bad_lines: options.bad_lines,
            limit: options.limit.map_or(usize::MAX, |n| usize::try_from(n).unwrap_or(usize::MAX)),
            keep_service: options.keep_service,
            held,
            builder: Builder::new(Arrival::Timestamps, options.keep_service).holding(held),
            skipped: 0,
            skipped_first: Vec::new(),
            last_bad: None,
        }
    }

    fn bad(&mut self, error: TraceError) -> Result<(), TraceError> {
        if self.bad_lines == BadLines::Stop {
            return Err(error);
        }
        self.skipped += 1;
        if self.skipped_first.len() < SKIPPED_SHOWN {
            self.skipped_first.push(error.to_string());
        }
        self.last_bad = Some(error);
        Ok(())
    }
}

/// Runs parser `P` over all blocks.
pub fn drive<P: LineParser + Default>(blocks: &mut Blocks<'_>, job: &mut Job) -> Result<(), TraceError> {
    job.builder = Builder::new(P::ARRIVAL, job.keep_service).holding(job.held);
    let parser = P::begin(blocks.sample(SAMPLE)?);
    drive_with(blocks, job, parser)
}

/// Runs `parser` over all blocks.
pub(crate) fn drive_with<P: LineParser>(
    blocks: &mut Blocks<'_>,
    job: &mut Job,
    mut parser: P,
) -> Result<(), TraceError> {
    let mut lines = 0;
    while job.builder.len() < job.limit {
        let (text, place) = match blocks.next_block()? {
            Some(block) => block,
            None => break,
        };
        let mut c = Cursor::new(text);
        while !c.at_end() && job.builder.len() < job.limit {
            let start = c.pos();
            if let Err(fault) = parser.line(&mut c, &mut job.builder) {
                c.seek(refuse(start, fault, text, &place, job)?);
            }
        }
        lines = place.lines_before + memchr::memchr_iter(b'\n', text).count() as u64;
        job.builder.settle(place.source_name)?;
    }
    if job.builder.len() >= job.limit {
        return Ok(());
    }
    parser.end(&mut job.builder).or_else(|fault| {
        let (field, why) = (fault.field, fault.why);
        job.bad(TraceError::Line(Box::new(LineError {
            source_name: blocks.source_name().to_string(),
            line: lines,
            column: 1,
            field,
            found: String::new(),
            why,
            format: job.format.name,
            example: job.format.example,
        })))
    })
}

/// Runs parser `P` over all records.
pub fn drive_records<P: RecordParser>(blocks: &mut Blocks<'_>, job: &mut Job) -> Result<(), TraceError> {
    let format = job.format.name;
    let Some(mut parser) = P::begin(blocks.head(SAMPLE)?) else {
        let detail = format!("its first bytes are not those of {format}");
        let source_name = blocks.source_name().to_string();
        return Err(TraceError::Corrupt { source_name, compression: format, detail });
    };
    let (mut record, mut at) = (0, 0);
    let bad = |source_name: &str, record, at, fault: Fault| {
        let (source_name, field, why) = (source_name.to_string(), fault.field, fault.why);
        TraceError::BadRecord { source_name, record, at, field, why, format }
    };
    while job.builder.len() < job.limit {
        let head = blocks.bytes(P::HEAD)?;
        if head.is_empty() {
            break;
        }
        let len = match head.get(..P::HEAD).map(|head| parser.len(head)) {
            Some(Ok(len)) => len,
            // Where the next record begins is not known.
            Some(Err(fault)) => return Err(bad(blocks.source_name(), record, at, fault)),
            None => usize::MAX,
        };
        let Some(bytes) = blocks.bytes(len.min(crate::input::BLOCK))?.get(..len) else {
            let source_name = blocks.source_name().to_string();
            return Err(TraceError::Truncated { source_name, compression: format });
        };
        let read = parser.record(bytes, &mut job.builder);
        blocks.take(len);
        if let Err(fault) = read {
            job.bad(bad(blocks.source_name(), record, at, fault))?;
        }
        job.builder.settle(blocks.source_name())?;
        record += 1;
        at += len as u64;
    }
    Ok(())
}

/// A blank line is passed over; any other bad line is reported with its place. Returns where the next line starts.
#[cold]
#[inline(never)]
fn refuse(
    start: usize,
    fault: Fault,
    text: &[u8],
    place: &Place<'_>,
    job: &mut Job,
) -> Result<usize, TraceError> {
    let mut c = Cursor::new(text);
    c.seek(start);
    let line = c.rest_of_line();
    c.skip_line();
    if line.trim_ascii().is_empty() {
        return Ok(c.pos());
    }
    let number = place.lines_before + 1 + memchr::memchr_iter(b'\n', &text[..start]).count() as u64;
    if line.len() > LINE_LIMIT {
        let source_name = place.source_name.to_string();
        return Err(TraceError::LineTooLong { source_name, line: number, limit: LINE_LIMIT });
    }
    let at = fault.at.clamp(start, start + line.len()) - start;
    let error = LineError {
        source_name: place.source_name.to_string(),
        line: number,
        column: at + 1,
        field: fault.field,
        found: excerpt(line[at..].trim_ascii_end(), 40),
        why: fault.why,
        format: job.format.name,
        example: job.format.example,
    };
    job.bad(TraceError::Line(Box::new(error)))?;
    Ok(c.pos())
}

/// Tries parser `P` on the first lines: true when it reads more lines than it refuses.
pub fn reads_most<P: LineParser + Default>(sample: &[u8]) -> bool {
    let mut parser = P::begin(sample);
    let mut scratch = Builder::new(P::ARRIVAL, false);
    let mut c = Cursor::new(sample);
    let mut bad = 0;
    while !c.at_end() && scratch.len() as u64 + bad < SAMPLE_LINES {
        let start = c.pos();
        if parser.line(&mut c, &mut scratch).is_err() {
            c.seek(start);
            bad += u64::from(!c.rest_of_line().trim_ascii().is_empty());
            c.skip_line();
        }
    }
    scratch.len() as u64 > bad
}
