//! `referenced`: a page stays if it was read since it was written there. A second chance, as CLOCK gives it.
//!
//! What the paper of the hybrid disk has (S4-9): a page that was used is copied within its ring, and begins anew.

use super::{Demotion, DemotionOptions, LEVELS};
use nandu_base::{BuildError, Declared, options};

/// Options of `referenced`.
#[options]
#[derive(Clone, Debug)]
pub struct ReferencedConfig {}

impl Declared for ReferencedConfig {
    const NAME: &'static str = "referenced";
    const SUMMARY: &'static str =
        "Those that were read since they were written there, as far as half of the reserve holds them.";
    const SOURCE: &'static str = "the paper on the SLC/MLC hybrid disk";
}

impl DemotionOptions for ReferencedConfig {
    type Policy = Referenced;

    fn build(&self) -> Result<Referenced, BuildError> {
        Ok(Referenced)
    }
}

/// The rule.
#[derive(Clone, Copy, Debug)]
pub struct Referenced;

impl Demotion for Referenced {
    fn budget(&self, _zone: u32, room: u32) -> u32 {
        room
    }

    fn least(&self, _counts: &[u32; LEVELS], _budget: u32) -> u8 {
        1
    }
}
