//! `second-touch`: a page is copied up at its second read from below, as far as a table remembers ([`Touches`]); then it begins anew.
//!
//! A page that is read once, as in a scan, then never displaces what the ring holds, and costs no program.
//!
//! Cost: 5 bytes for each page of the rings.

use super::{Promotion, PromotionOptions, Touches};
use nandu_base::{BuildError, Declared, options};

/// Options of `second-touch`.
#[options]
#[derive(Clone, Debug)]
pub struct SecondTouchConfig {}

impl Declared for SecondTouchConfig {
    const NAME: &'static str = "second-touch";
    const SUMMARY: &'static str = "One that was read from there before, as far as a table of as many entries as the rings have pages remembers.";
    const SOURCE: &'static str = "";
}

impl PromotionOptions for SecondTouchConfig {
    type Policy = SecondTouch;

    fn build(&self, slots: usize) -> Result<SecondTouch, BuildError> {
        Ok(SecondTouch(Touches::new(slots)))
    }
}

/// The rule and its table.
#[derive(Clone, Debug)]
pub struct SecondTouch(Touches);

impl Promotion for SecondTouch {
    fn admits(&mut self, page: u32) -> bool {
        self.0.is_hot(page, 2)
    }

    fn touched(&mut self, page: u32) {
        self.0.touch(page);
    }
}
