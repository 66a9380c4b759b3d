//! Why a command did not do what was asked, and the exit code that says so.

use crate::format::visible;
use crate::output;
use nandu_sim::RunError;
use nandu_stack::StackError;
use nandu_sweep::SweepError;
use nandu_trace::TraceError;
use std::fmt;
use std::path::Path;

/// The run failed.
pub const FAILED: u8 = 1;
/// The input was wrong.
pub const INPUT: u8 = 2;
/// Everything was done, and no point of the sweep meets its bounds.
pub const UNMET: u8 = 3;

/// A command that ends with an error. Each line of the message is one problem; lines that begin with a space belong to
/// the line before.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// The exit code.
    pub code: u8,
    /// What, where, why, and what would be right.
    pub message: String,
}

impl Failure {
    /// The caller can mend this.
    pub fn input(message: impl Into<String>) -> Failure {
        Failure { code: INPUT, message: message.into() }
    }

    /// What was asked is right, but it went wrong.
    pub fn failed(message: impl Into<String>) -> Failure {
        Failure { code: FAILED, message: message.into() }
    }

    /// A file of the caller's cannot be read.
    pub fn unreadable(path: &Path, error: &std::io::Error) -> Failure {
        Failure::input(format!("{}: {error}", path.display()))
    }

    /// A file that was asked for cannot be written.
    pub fn unwritable(path: &Path, error: &std::io::Error) -> Failure {
        Failure::failed(format!("{}: cannot be written: {error}", path.display()))
    }

    /// The same failure with one more line that says what would help.
    pub fn with_help(mut self, help: impl fmt::Display) -> Failure {
        self.message = format!("{}\n  {help}", self.message);
        self
    }

    /// Says it on stderr.
    pub fn print(&self) {
        for line in visible(&self.message).lines() {
            if line.starts_with(' ') {
                output::say(format_args!("{line}"));
            } else {
                output::say(format_args!("error: {line}"));
            }
        }
    }
}

impl From<StackError> for Failure {
    fn from(error: StackError) -> Failure {
        // A parser's message may have several lines; only the first has the place.
        let lines = error.problems().iter().map(|p| p.to_string().trim_end().replace('\n', "\n  "));
        Failure::input(lines.collect::<Vec<_>>().join("\n"))
    }
}

impl From<SweepError> for Failure {
    fn from(error: SweepError) -> Failure {
        let input = error.is_input();
        let (place, inner) = match error {
            SweepError::Stack { point, error } => (point, Failure::from(error)),
            SweepError::Run { point, error } => (point, Failure::from(error)),
            other if input => return Failure::input(other.to_string()),
            other => return Failure::failed(other.to_string()),
        };
        Failure { message: format!("point {place}: {}", inner.message), ..inner }
    }
}

impl From<TraceError> for Failure {
    fn from(error: TraceError) -> Failure {
        Failure::input(error.to_string())
    }
}

impl From<RunError> for Failure {
    fn from(error: RunError) -> Failure {
        match error {
            RunError::Stack(error) => error.into(),
            error @ RunError::NothingCounts { .. } => Failure::input(error.to_string()),
            other => Failure::failed(other.to_string()),
        }
    }
}
