//! Parameter files of DiskSim as drives.
//!
//! Reads what DiskSim 4.0's validation folder has: a system file (`.parv`) that names a disk (`.diskspecs`), which
//! names its layout and mechanics (`.model`), which names a seek curve (`.seek`). One disk is made of it, with the slowest
//! bus that it hangs on. What a file asks for and this model does not have is refused by name; what concerns the host or
//! statistics is not looked at.
//!
//! Where we differ from DiskSim: a cache with `Fast write level` 1 or 2 holds as many writes as there may be write segments,
//! of a segment's size in all. Slips are taken in rising order. A write never overtakes its data.
//!
//! Files: `params` the language of the files, `model` what they mean.

mod model;
mod params;

use super::drive::Drive;
use nandu_base::registry::ReadText;
use std::fmt;
use std::path::{Path, PathBuf};

/// What is wrong with a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ParamError {
    /// The file.
    pub file: PathBuf,
    /// What is wrong, and what would be right.
    pub what: String,
}

impl fmt::Display for ParamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.file.display(), self.what)
    }
}

impl std::error::Error for ParamError {}

/// The disk of the system file at `path`; `read` gets the text of it and of the files that it names.
pub fn read(path: &Path, read: ReadText) -> Result<Drive, ParamError> {
    let blocks = params::read(path, read)?;
    model::drive(path, &blocks, read)
}

#[cfg(test)]
mod tests;
