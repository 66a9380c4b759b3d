//! What is done with a line of a trace that is wrong. Stack files and the command line name it, the reader of traces does it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What to do with a line that is wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum BadLines {
    /// The first one is an error.
    #[default]
    Stop,
    /// They are left out and counted, and the first few messages are kept.
    Skip,
}

impl BadLines {
    /// Every way.
    pub const ALL: [BadLines; 2] = [BadLines::Stop, BadLines::Skip];

    /// Its name in stack files and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            BadLines::Stop => "stop",
            BadLines::Skip => "skip",
        }
    }
}
