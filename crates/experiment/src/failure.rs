//! Why something was not done, in words for whoever asked for it, and what kind of fault it is.

use nandu_sim::RunError;
use nandu_sim::verify::{CaseError, ShrinkError, VerifyError};
use nandu_stack::StackError;
use nandu_sweep::SweepError;
use nandu_trace::TraceError;
use std::fmt;
use std::path::Path;

/// What is at fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// What was asked for: the caller can mend it.
    Input,
    /// A stack file, as [`Kind::Input`].
    Stack,
    /// A trace or a generator, as [`Kind::Input`].
    Trace,
    /// What was asked is right, but it went wrong.
    Run,
    /// Whoever asked has called it off.
    Stopped,
}

impl Kind {
    /// Whether the caller can mend it.
    pub fn is_input(self) -> bool {
        matches!(self, Kind::Input | Kind::Stack | Kind::Trace)
    }
}

/// Something that was not done. Each line of the message is one problem; lines that begin with a space belong to
/// the line before.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// What is at fault.
    pub kind: Kind,
    /// What, where, why, and what would be right.
    pub message: String,
}

impl Failure {
    /// The caller can mend this.
    pub fn input(message: impl Into<String>) -> Failure {
        Failure { kind: Kind::Input, message: message.into() }
    }

    /// What was asked is right, but it went wrong.
    pub fn failed(message: impl Into<String>) -> Failure {
        Failure { kind: Kind::Run, message: message.into() }
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

    /// The same failure of `place`.
    pub fn at(self, place: impl fmt::Display) -> Failure {
        Failure { message: format!("{place}: {}", self.message), ..self }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

impl From<StackError> for Failure {
    fn from(error: StackError) -> Failure {
        // A parser's message may have several lines; only the first has the place.
        let lines = error.problems().iter().map(|p| p.to_string().trim_end().replace('\n', "\n  "));
        Failure { kind: Kind::Stack, message: lines.collect::<Vec<_>>().join("\n") }
    }
}

impl From<SweepError> for Failure {
    fn from(error: SweepError) -> Failure {
        let input = error.is_input();
        match error {
            SweepError::Stack { point, error } => Failure::from(error).at(format!("point {point}")),
            SweepError::Run { point, error } => Failure::from(error).at(format!("point {point}")),
            other if input => Failure::input(other.to_string()),
            other => Failure::failed(other.to_string()),
        }
    }
}

impl From<VerifyError> for Failure {
    fn from(error: VerifyError) -> Failure {
        match error {
            VerifyError::Stack(error) => error.into(),
            error @ VerifyError::TooLarge(_) => Failure::input(error.to_string()),
            error @ VerifyError::Stopped => Failure { kind: Kind::Stopped, message: error.to_string() },
        }
    }
}

impl From<CaseError> for Failure {
    fn from(error: CaseError) -> Failure {
        Failure::input(error.to_string())
    }
}

impl From<ShrinkError> for Failure {
    fn from(error: ShrinkError) -> Failure {
        match error {
            ShrinkError::Case(error) => error.into(),
            error @ ShrinkError::Stopped => Failure { kind: Kind::Stopped, message: error.to_string() },
            other => Failure::failed(other.to_string()),
        }
    }
}

impl From<TraceError> for Failure {
    fn from(error: TraceError) -> Failure {
        Failure { kind: Kind::Trace, message: error.to_string() }
    }
}

impl From<RunError> for Failure {
    fn from(error: RunError) -> Failure {
        match error {
            RunError::Stack(error) => error.into(),
            error @ RunError::NothingCounts { .. } => Failure::input(error.to_string()),
            error @ RunError::Stopped => Failure { kind: Kind::Stopped, message: error.to_string() },
            other => Failure::failed(other.to_string()),
        }
    }
}
