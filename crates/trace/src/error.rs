//! What can be wrong with a trace: where, what, and what would be right.

use crate::record::RecordError;
use std::fmt;

/// Why one field of one line is not what the format says.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Why {
    /// The field is not of the expected form.
    #[error("expected {0}")]
    Expected(&'static str),
    /// A whole number beyond 64 bits.
    #[error("the number does not fit 64 bits")]
    TooLarge,
    /// A time that is no 64-bit count of nanoseconds.
    #[error("the time does not fit a 64-bit count of nanoseconds (584 years)")]
    TimeTooLarge,
    /// Something follows the last field.
    #[error("text after the last field; expected the end of the line")]
    TrailingText,
    /// The request does not fit a record.
    #[error(transparent)]
    Bounds(#[from] RecordError),
}

/// A fault inside one line, before file and line number are known.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    /// Position in the block where the fault was seen.
    pub at: usize,
    /// Name of the field with its unit, e.g. "LBA (512 B)".
    pub field: &'static str,
    /// What is wrong with it.
    pub why: Why,
}

/// A bad line with its place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LineError {
    /// File or other source.
    pub source_name: String,
    /// Line, from 1.
    pub line: u64,
    /// Byte in the line, from 1.
    pub column: usize,
    /// Name of the field with its unit.
    pub field: &'static str,
    /// What stands there, at most 40 characters, non-printing ones escaped.
    pub found: String,
    /// What is wrong with it.
    pub why: Why,
    /// Name of the format and a line that would be right.
    pub format: &'static str,
    /// A line as the format writes it.
    pub example: &'static str,
}

impl fmt::Display for LineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LineError { source_name, line, column, field, found, why, format, example } = self;
        write!(f, "{source_name}:{line}:{column}: {field}: ")?;
        match found.as_str() {
            "" => write!(f, "the line ends here; ")?,
            text => write!(f, "found `{text}`; ")?,
        }
        // Columns that were described have no line that could be shown.
        match *format {
            crate::columns::NAME => write!(f, "{why}. A line has {example}"),
            _ => write!(f, "{why}. A line of {format} looks like `{example}`"),
        }
    }
}

impl std::error::Error for LineError {}

/// Why a trace cannot be read, written, made or fitted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// A request stands far behind its place in the order of time.
    #[error(
        "{source_name}: a request that arrives {ns} ns after the first stands more than {window} requests behind its place; a \
         trace so long is not sorted in memory: sort the file by time, or split it where a clock began again"
    )]
    Disorder {
        /// The file.
        source_name: String,
        /// Its arrival.
        ns: u64,
        /// How far a request may stand behind its place.
        window: u64,
    },
    /// The operating system refused.
    #[error("{source_name}: {error}")]
    Io {
        /// File or other source.
        source_name: String,
        /// What it said.
        #[source]
        error: std::io::Error,
    },
    /// The compressed stream ends in the middle.
    #[error("{source_name}: the {compression} stream ends early; the file is cut short, copy it again")]
    Truncated {
        /// File or other source.
        source_name: String,
        /// zstd, gzip, bzip2 or xz.
        compression: &'static str,
    },
    /// The compressed stream is damaged.
    #[error("{source_name}: the {compression} stream is damaged: {detail}")]
    Corrupt {
        /// File or other source.
        source_name: String,
        /// zstd, gzip, bzip2, xz or parquet.
        compression: &'static str,
        /// What the decoder said.
        detail: String,
    },
    /// There is not one request in the file.
    #[error("{source_name}: no requests; expected at least one line such as `{example}`")]
    Empty {
        /// File or other source.
        source_name: String,
        /// A line that would be right.
        example: &'static str,
    },
    /// It is a file of files.
    #[error(
        "{source_name}: it is a {kind} archive, which begins with `{first}`, and a trace is one file: \
         `{unpack} {source_name} {first} | nandu trace info -`"
    )]
    Archive {
        /// File or other source.
        source_name: String,
        /// tar or zip.
        kind: &'static str,
        /// Its first file.
        first: String,
        /// What writes one of its files to standard output.
        unpack: &'static str,
    },
    /// No format reads the first lines.
    #[error("{source_name}: no trace format fits, the first line is `{first_line}`; formats: {known}")]
    UnknownFormat {
        /// File or other source.
        source_name: String,
        /// The first line, at most 80 characters.
        first_line: String,
        /// Names of all formats.
        known: String,
    },
    /// There is no format or generator of this name.
    #[error("unknown {what} `{name}`; known: {known}")]
    UnknownName {
        /// "trace format" or "generator".
        what: &'static str,
        /// What was asked for.
        name: String,
        /// The names that exist.
        known: String,
    },
    /// A line is wrong.
    #[error(transparent)]
    Line(#[from] Box<LineError>),
    /// A record of a binary format is wrong.
    #[error("{source_name}: record {record} (byte {at}): {field}: {why}; the file is read as {format}")]
    BadRecord {
        /// File or other source.
        source_name: String,
        /// Number of the record, from 0.
        record: u64,
        /// Where it starts in the decoded file.
        at: u64,
        /// Name of the field.
        field: &'static str,
        /// What is wrong with it.
        why: Why,
        /// Name of the format.
        format: &'static str,
    },
    /// A column that is asked for is not there, or cannot be read.
    #[error("{source_name}: column `{column}`: {why}")]
    Column {
        /// File or other source.
        source_name: String,
        /// Its name in the file.
        column: String,
        /// What is wrong and what would be right.
        why: String,
    },
    /// A row of a table is wrong.
    #[error("{source_name}: row {row}: {why}")]
    Row {
        /// File or other source.
        source_name: String,
        /// Its place, from 0.
        row: u64,
        /// What is wrong and what would be right.
        why: String,
    },
    /// A line never ends.
    #[error("{source_name}: line {line} is longer than {limit} bytes; this is not a text trace")]
    LineTooLong {
        /// File or other source.
        source_name: String,
        /// Line, from 1.
        line: u64,
        /// Longest line that is read, in bytes.
        limit: usize,
    },
    /// A request is out of bounds.
    #[error("request {index}: {why}")]
    Record {
        /// Number of the request, from 0.
        index: u64,
        /// What is wrong.
        why: RecordError,
    },
    /// The target format has no word for something in the trace.
    #[error("{format} cannot express {what} (request {index}); {remedy}")]
    Inexpressible {
        /// Name of the format.
        format: &'static str,
        /// What it cannot express.
        what: String,
        /// Number of the first such request, from 0.
        index: u64,
        /// What would work.
        remedy: &'static str,
    },
    /// The format can be read but not written.
    #[error("{format} is read only; formats that can be written: {known}")]
    NoWriter {
        /// Name of the format.
        format: &'static str,
        /// Names of those that can.
        known: String,
    },
    /// The trace does not fit the device.
    #[error(transparent)]
    Fit(#[from] crate::fit::FitError),
    /// A key of a fio job file is unknown or wrong.
    #[error("{source_name}:{line}: {key}: {why}")]
    Job {
        /// The file.
        source_name: String,
        /// Line, from 1.
        line: u64,
        /// The key, or the section.
        key: String,
        /// What is wrong and what would be right.
        why: String,
    },
    /// A parameter of a generator is wrong.
    #[error("generator {generator}: {parameter}: {why}")]
    Parameter {
        /// Name of the generator.
        generator: &'static str,
        /// Name of the parameter.
        parameter: String,
        /// What is wrong and what would be right.
        why: String,
    },
}

/// At most `limit` characters of `bytes`, control and non-ASCII bytes escaped.
pub(crate) fn excerpt(bytes: &[u8], limit: usize) -> String {
    let shown = &bytes[..bytes.len().min(limit)];
    let mut text = shown.escape_ascii().to_string();
    if bytes.len() > limit {
        text.push_str("...");
    }
    text
}
