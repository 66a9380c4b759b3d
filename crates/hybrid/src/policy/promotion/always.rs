//! `always`: every page that is read from below is copied up, as the paper of the hybrid disk has it (S4-5).
//!
//! Cost: none.

use super::{Promotion, PromotionOptions};
use nandu_base::{BuildError, Declared, options};

/// Options of `always`.
#[options]
#[derive(Clone, Debug)]
pub struct AlwaysConfig {}

impl Declared for AlwaysConfig {
    const NAME: &'static str = "always";
    const SUMMARY: &'static str = "All of them, as the paper has it.";
    const SOURCE: &'static str = "the paper on the SLC/MLC hybrid disk";
}

impl PromotionOptions for AlwaysConfig {
    type Policy = Always;

    fn build(&self, _slots: usize) -> Result<Always, BuildError> {
        Ok(Always)
    }
}

/// The rule.
#[derive(Clone, Copy, Debug)]
pub struct Always;

impl Promotion for Always {
    fn admits(&mut self, _page: u32) -> bool {
        true
    }
}
