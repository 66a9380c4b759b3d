//! Every trace format, one file each, and the one list of them.
//!
//! To add a format: a file with a [`LineParser`](crate::load::LineParser), a [`Format`], and one line in [`FORMATS`].
//! The command line, the documentation and the conformance tests read that list.

use crate::error::TraceError;
use crate::input::Blocks;
use crate::load::Job;
use crate::write::LineWriter;

pub mod blkreplay;
pub mod cloudphysics;
pub mod disksim;
pub mod disksim_valid;
pub mod mqsim;
pub mod msps;
pub mod msr;
pub mod nbd_integrity;
pub mod parquet;
pub mod spc;
pub mod systor;

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
    /// How it is read.
    pub kind: Kind,
    /// How it is written, where it can be.
    pub writer: Option<LineWriter>,
}

/// How a format is read.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// Lines of text.
    Text {
        /// Reads all blocks into the job's builder.
        parse: fn(&mut Blocks<'_>, &mut Job) -> Result<(), TraceError>,
    },
    /// Parquet columns.
    Parquet,
}

/// Every format. The first whose `sniff` accepts the first lines is taken.
pub static FORMATS: [&Format; 11] = [
    &spc::FORMAT,
    &msr::FORMAT,
    &cloudphysics::FORMAT,
    &systor::FORMAT,
    &nbd_integrity::FORMAT,
    &blkreplay::FORMAT,
    &disksim_valid::FORMAT,
    &disksim::FORMAT,
    &msps::FORMAT,
    &mqsim::FORMAT,
    &parquet::FORMAT,
];

/// The format whose lines these are.
pub fn recognise(sample: &[u8]) -> Option<&'static Format> {
    FORMATS.into_iter().find(|f| (f.sniff)(sample))
}

/// The format of this name.
///
/// # Errors
/// [`TraceError::UnknownName`] with the names that exist.
pub fn by_name(name: &str) -> Result<&'static Format, TraceError> {
    FORMATS.into_iter().find(|f| f.name == name).ok_or_else(|| TraceError::UnknownName {
        what: "trace format",
        name: name.into(),
        known: names(),
    })
}

/// The names of all formats, for messages.
pub fn names() -> String {
    FORMATS.map(|f| f.name).join(", ")
}

/// For formats that need no remark.
pub(crate) fn no_note(_: &[u8]) -> Option<String> {
    None
}

#[cfg(test)]
mod tests;
