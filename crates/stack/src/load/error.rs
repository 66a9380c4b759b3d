//! What can be wrong with a stack file, and where.

use std::fmt;

/// Everything found wrong with a stack, in the order of the file. Never empty.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{}", self.lines())]
pub struct StackError {
    problems: Vec<Problem>,
}

impl StackError {
    /// Each problem; at least one.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// No error when nothing was found.
    pub(crate) fn unless_empty(mut problems: Vec<Problem>) -> Result<(), StackError> {
        if problems.is_empty() {
            return Ok(());
        }
        problems.sort_by(|a, b| a.at.cmp(&b.at));
        problems.dedup();
        Err(StackError { problems })
    }

    fn lines(&self) -> String {
        self.problems.iter().map(Problem::to_string).collect::<Vec<_>>().join("\n")
    }
}

impl From<Problem> for StackError {
    fn from(problem: Problem) -> StackError {
        StackError { problems: vec![problem] }
    }
}

/// One thing that is wrong.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{at}: {reason}")]
pub struct Problem {
    /// Where.
    pub at: At,
    /// What.
    pub reason: Reason,
}

/// A place in a stack file.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum At {
    /// A line and column of the file, both from 1; columns count characters.
    File {
        /// The file's name as the caller gave it.
        name: String,
        /// The line.
        line: usize,
        /// The column.
        column: usize,
    },
    /// An override given beside the file.
    Set {
        /// What was to be set.
        path: String,
        /// To what.
        value: String,
    },
    /// The stack as a whole, in the words of the caller (`--inject-bug`).
    Option(&'static str),
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            At::File { name, line, column } => write!(f, "{name}:{line}:{column}"),
            At::Set { path, value } => write!(f, "--set {path}={value}"),
            At::Option(option) => f.write_str(option),
        }
    }
}

/// What is wrong. `nearest` is the known name that was perhaps meant.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Reason {
    /// The text is not TOML.
    #[error("{message}")]
    Syntax {
        /// The parser's words.
        message: String,
    },
    /// A key that nothing reads.
    #[error("unknown key `{key}` in {place}{}", hint(.nearest, .known))]
    UnknownKey {
        /// The key.
        key: String,
        /// The table it stands in.
        place: String,
        /// What was perhaps meant.
        nearest: Option<String>,
        /// The keys that the table knows.
        known: Vec<String>,
    },
    /// A key to be left out that is not there.
    #[error("`{key}` is not set in {place}, so it cannot be left out{}", hint(.nearest, .set))]
    NotSet {
        /// The key.
        key: String,
        /// The table it would stand in.
        place: String,
        /// What was perhaps meant.
        nearest: Option<String>,
        /// The keys that are set there.
        set: Vec<String>,
    },
    /// A key that must be there.
    #[error("{place} needs `{key}`")]
    MissingKey {
        /// The key.
        key: String,
        /// The table that lacks it.
        place: String,
    },
    /// A word that is not one of those allowed: a machine kind, a policy, a name of a device or tenant.
    #[error("unknown {what} `{word}`{}", hint(.nearest, .known))]
    UnknownWord {
        /// What kind of word it is.
        what: String,
        /// The word.
        word: String,
        /// What was perhaps meant.
        nearest: Option<String>,
        /// The words that are known.
        known: Vec<String>,
    },
    /// A value of the wrong type, with a bad unit or out of bounds.
    #[error("`{key}` in {place}: {message}")]
    BadValue {
        /// The key.
        key: String,
        /// The table it stands in.
        place: String,
        /// What is wrong with it.
        message: String,
    },
    /// A name that is not made of letters, digits, `-` and `_`, or longer than 64 characters.
    #[error("`{name}` is not a valid name: use up to 64 letters, digits, `-` and `_`")]
    BadName {
        /// The name.
        name: String,
    },
    /// Devices that stand on each other.
    #[error("device cycle: {}", arrows(.devices))]
    Cycle {
        /// The devices, the first one again at the end.
        devices: Vec<String>,
    },
    /// A device that no export reaches.
    #[error("unused device `{device}`: no export reaches it")]
    Unused {
        /// The device.
        device: String,
    },
    /// Two devices (or an export and a device) that would write over each other.
    #[error(
        "device `{device}` is used by {first} and {second}: only slices that do not overlap may share a device"
    )]
    Shared {
        /// The device below.
        device: String,
        /// One user.
        first: String,
        /// The other.
        second: String,
    },
    /// The stack has no way in.
    #[error("a stack needs at least one `[export.NAME]`")]
    NoExport,
    /// More than a stack can hold.
    #[error("{what}: at most {most}")]
    TooMany {
        /// What there is too much of.
        what: String,
        /// The bound.
        most: usize,
    },
    /// Options that are right one by one but cannot be built together.
    #[error("device `{device}`{}: {why}", key_of(.key))]
    Impossible {
        /// The device.
        device: String,
        /// The option at fault, if there is one.
        key: Option<String>,
        /// What is wrong and what would be right.
        why: String,
    },
}

fn key_of(key: &Option<String>) -> String {
    key.as_ref().map_or(String::new(), |key| format!(": `{key}`"))
}

fn hint(nearest: &Option<String>, known: &[String]) -> String {
    match nearest {
        Some(name) => format!("; did you mean `{name}`?"),
        None if known.is_empty() => String::new(),
        None => format!("; known: {}", known.join(", ")),
    }
}

fn arrows(devices: &[String]) -> String {
    devices.iter().map(|d| format!("`{d}`")).collect::<Vec<_>>().join(" -> ")
}
