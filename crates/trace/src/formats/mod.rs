//! Every trace format, one file each, and the one list of them.
//!
//! To add a format: a file with a [`LineParser`](crate::load::LineParser), a [`Format`], and one line in [`FORMATS`]; or a file of
//! another crate and one line where a program makes its registry. The command line reads the registry, the documentation and the
//! conformance tests that list.

use crate::cursor::Cursor;
use crate::error::TraceError;
use crate::input::Blocks;
use crate::load::Job;
use crate::write::LineWriter;
use nandu_base::registry::Entry;
use nandu_base::{Policy, Registry};

pub mod alibaba;
pub mod blkparse;
pub mod blkreplay;
pub mod blktrace;
pub mod cloudphysics;
pub mod disksim;
pub mod disksim_valid;
pub mod exchange_etw;
pub mod fio_iolog;
pub mod fio_log;
pub mod fiu;
pub mod k5cloud;
pub mod mqsim;
pub mod msps;
pub mod msr;
pub mod nbd_integrity;
pub mod oracle_general;
pub mod parquet;
pub mod spc;
pub mod systor;
pub mod tencent_cbs;
pub mod vscsi;

/// One trace format.
#[derive(Debug)]
pub struct Format {
    /// Name on the command line and in results.
    pub name: &'static str,
    /// One line for lists.
    pub summary: &'static str,
    /// A line as the format has it.
    pub example: &'static str,
    /// True when the first lines are of this format.
    pub sniff: fn(&[u8]) -> bool,
    /// What a reader should know when the format was recognised by these first lines.
    pub note: fn(&[u8]) -> Option<String>,
    /// What its reader was tried on.
    pub tried: Tried,
    /// How it is read.
    pub kind: Kind,
    /// How it is written, where it can be.
    pub writer: Option<LineWriter>,
}

impl Format {
    /// Whether it can be written.
    pub fn is_writable(&self) -> bool {
        self.writer.is_some() || matches!(self.kind, Kind::Parquet)
    }
}

/// How a format is read.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// Lines of text.
    Text {
        /// Reads all blocks into the job's builder.
        parse: fn(&mut Blocks<'_>, &mut Job) -> Result<(), TraceError>,
    },
    /// Records that are no text.
    Binary {
        /// Reads all records into the job's builder.
        parse: fn(&mut Blocks<'_>, &mut Job) -> Result<(), TraceError>,
    },
    /// Parquet columns.
    Parquet,
    /// Lines of columns that the options describe.
    Columns,
}

/// What a reader was tried on: how far its result can be trusted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tried {
    /// Recordings as they are published.
    Recordings,
    /// Files that the tool of the format wrote, or reads.
    Tool,
    /// Lines as they are published.
    Lines,
    /// The publisher's description alone: untested against a real file.
    Description,
}

impl Tried {
    /// The words lists carry.
    pub const fn name(self) -> &'static str {
        match self {
            Tried::Recordings => "recordings",
            Tried::Tool => "files of its tool",
            Tried::Lines => "published lines",
            Tried::Description => "untested against a real file",
        }
    }
}

/// Every format. The first whose `sniff` accepts the first lines is taken.
pub static FORMATS: &[&Format] = &[
    &spc::FORMAT,
    &msr::FORMAT,
    &tencent_cbs::FORMAT,
    &cloudphysics::FORMAT,
    &systor::FORMAT,
    &nbd_integrity::FORMAT,
    &alibaba::FORMAT,
    &k5cloud::FORMAT,
    &fiu::FORMAT,
    &exchange_etw::FORMAT,
    &blkparse::FORMAT,
    &blkreplay::FORMAT,
    &fio_iolog::FORMAT,
    &fio_log::FORMAT,
    &disksim_valid::FORMAT,
    &disksim::FORMAT,
    &msps::FORMAT,
    &mqsim::FORMAT,
    &blktrace::FORMAT,
    &vscsi::FORMAT,
    &oracle_general::FORMAT,
    &parquet::FORMAT,
];

/// A format as the entry of a registry.
impl From<&'static Format> for Entry {
    fn from(format: &'static Format) -> Entry {
        Entry::Policy(Policy {
            family: FAMILY,
            name: format.name,
            summary: format.summary,
            source: "",
            draws: &[],
            schema: &|| schemars::json_schema!({ "type": "object" }),
            declared: Vec::new,
            item: format,
        })
    }
}

/// What registries call trace formats.
pub const FAMILY: &str = "trace format";

/// The formats of this crate as entries of a registry.
pub fn policies() -> Entry {
    let policies = FORMATS.iter().filter_map(|&format| match Entry::from(format) {
        Entry::Policy(policy) => Some(policy),
        _ => None,
    });
    Entry::Policies(policies.collect())
}

/// The formats of a registry.
pub fn of(registry: &Registry) -> Vec<&'static Format> {
    let of = |policy: &Policy| policy.item.downcast_ref::<Format>();
    registry.policies(FAMILY).filter_map(of).collect()
}

/// The one of `formats` whose first lines, or bytes, these are.
pub fn recognise(formats: &[&'static Format], sample: &[u8]) -> Option<&'static Format> {
    // Text holds no zero byte; what holds one is text of no kind.
    let start = &sample[..sample.len().min(1 << 10)];
    let text = memchr::memchr(0, start).is_none();
    formats.iter().copied().find(|f| matches!(f.kind, Kind::Text { .. }) == text && (f.sniff)(sample))
}

/// The format of this name.
///
/// # Errors
/// [`TraceError::UnknownName`] with the names that exist.
pub fn by_name(name: &str) -> Result<&'static Format, TraceError> {
    among(FORMATS, name)
}

/// The one of `formats` of this name.
///
/// # Errors
/// As [`by_name`].
pub fn among(formats: &[&'static Format], name: &str) -> Result<&'static Format, TraceError> {
    formats.iter().copied().find(|f| f.name == name).ok_or_else(|| TraceError::UnknownName {
        what: FAMILY,
        name: name.into(),
        known: names(formats),
    })
}

/// The names of formats, for messages.
pub fn names(formats: &[&'static Format]) -> String {
    formats.iter().map(|f| f.name).collect::<Vec<_>>().join(", ")
}

/// For formats that need no remark.
pub fn no_note(_: &[u8]) -> Option<String> {
    None
}

/// Passes over the line here when it is a header that begins with `start`, which is a letter. Files that were joined have
/// it again in the middle.
#[inline(always)]
pub(crate) fn passes_header(c: &mut Cursor<'_>, start: &[u8]) -> bool {
    c.peek().is_ascii_alphabetic() && skip_header(c, start)
}

#[cold]
fn skip_header(c: &mut Cursor<'_>, start: &[u8]) -> bool {
    let found = c.rest_of_line().starts_with(start);
    if found {
        c.skip_line();
    }
    found
}

/// Times of the first lines, as whole units: how many, the mean gap between them in thousandths, and whether one has a
/// fraction. `read` gives the time of a line, and whether it has a fraction.
pub(crate) fn mean_gap(sample: &[u8], read: fn(&mut Cursor<'_>) -> Option<(u64, bool)>) -> (u64, u64, bool) {
    let (mut first, mut highest, mut lines, mut fraction) = (None, 0u64, 0u64, false);
    for line in sample.split(|&b| b == b'\n') {
        if let Some((time, part)) = read(&mut Cursor::new(line)) {
            first.get_or_insert(time);
            highest = highest.max(time);
            lines += 1;
            fraction |= part;
        }
    }
    let span = highest.saturating_sub(first.unwrap_or(0));
    (lines, span.saturating_mul(1000) / lines.max(1), fraction)
}

#[cfg(test)]
mod tests;
