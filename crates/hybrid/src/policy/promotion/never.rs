//! `never`: no page that is read is copied up; the top ring takes what is written.
//!
//! Cost: none.

use super::{Promotion, PromotionOptions};
use nandu_base::{BuildError, Declared, options};

/// Options of `never`.
#[options]
#[derive(Clone, Debug)]
pub struct NeverConfig {}

impl Declared for NeverConfig {
    const NAME: &'static str = "never";
    const SUMMARY: &'static str = "None.";
    const SOURCE: &'static str = "";
}

impl PromotionOptions for NeverConfig {
    type Policy = Never;

    fn build(&self, _slots: usize) -> Result<Never, BuildError> {
        Ok(Never)
    }
}

/// The rule.
#[derive(Clone, Copy, Debug)]
pub struct Never;

impl Promotion for Never {
    fn admits(&mut self, _page: u32) -> bool {
        false
    }
}
