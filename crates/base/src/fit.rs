//! How a trace is laid onto a device: a word that stack files, the command line and the traces share.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a trace is brought onto a device of another size.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Fit {
    /// Addresses stay as they are. A request outside the device stops the run.
    #[default]
    Error,
    /// The volumes of the trace lie one after the other.
    Concat,
    /// Only pages that the trace touches take room, densely.
    Compact,
    /// Addresses are taken modulo the capacity.
    Wrap,
}

impl Fit {
    /// Every method.
    pub const ALL: [Fit; 4] = [Fit::Error, Fit::Concat, Fit::Compact, Fit::Wrap];

    /// Its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Fit::Error => "error",
            Fit::Concat => "concat",
            Fit::Compact => "compact",
            Fit::Wrap => "wrap",
        }
    }
}
