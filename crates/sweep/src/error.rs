//! What can go wrong with a sweep, and where.

use nandu_sim::RunError;
use nandu_stack::StackError;
use std::path::PathBuf;

/// Why a sweep did not take place or did not end.
#[derive(Debug, thiserror::Error)]
pub enum SweepError {
    /// The text of a sweep file is not TOML, or a key or type is wrong.
    #[error("{file}:{line}:{column}: {message}")]
    Syntax {
        /// The file as the caller called it.
        file: String,
        /// The line, from 1.
        line: usize,
        /// The column in characters, from 1.
        column: usize,
        /// The parser's words.
        message: String,
    },
    /// Something that was asked for makes no sense.
    #[error("{place}: {what}; {right}")]
    Bad {
        /// Where it stands.
        place: String,
        /// What is wrong.
        what: String,
        /// What would be right.
        right: String,
    },
    /// A point whose stack is wrong or cannot be built.
    #[error("point {point}: {error}")]
    Stack {
        /// The point in words.
        point: String,
        /// Why.
        error: StackError,
    },
    /// A point whose run failed.
    #[error("point {point}: {error}")]
    Run {
        /// The point in words.
        point: String,
        /// Why.
        error: RunError,
    },
    /// A results folder that cannot be used.
    #[error("{}: {why}; {right}", .folder.display())]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// Why.
        why: String,
        /// What would be right.
        right: String,
    },
    /// A file that cannot be read or written.
    #[error("{}: {error}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
}

impl SweepError {
    /// The caller's words were wrong.
    pub fn bad(place: impl Into<String>, what: impl Into<String>, right: impl Into<String>) -> SweepError {
        SweepError::Bad { place: place.into(), what: what.into(), right: right.into() }
    }

    /// Whether the caller can mend it.
    pub fn is_input(&self) -> bool {
        !matches!(self, SweepError::Run { .. } | SweepError::Io { .. })
    }
}

/// `; did you mean x?`, or the words that are known.
pub(crate) fn known<'a>(word: &str, words: impl IntoIterator<Item = &'a str>) -> String {
    let words: Vec<&str> = words.into_iter().collect();
    // Any word of two letters is near to any other.
    match nandu_base::registry::nearest(word, words.iter().copied()).filter(|_| word.len() > 2) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("known: {}", words.join(", ")),
    }
}
