//! `never`: nobody stays. A ring of buckets that are emptied in turn, as bcache's `fifo`.

use super::{Demotion, DemotionOptions, LEVELS};
use nandu_base::{BuildError, Declared, options};

/// Options of `never`.
#[options]
#[derive(Clone, Debug)]
pub struct NeverConfig {}

impl Declared for NeverConfig {
    const NAME: &'static str = "never";
    const SUMMARY: &'static str = "None: all go down.";
    const SOURCE: &'static str = "Linux, bcache fifo";
}

impl DemotionOptions for NeverConfig {
    type Policy = NeverStays;

    fn build(&self) -> Result<NeverStays, BuildError> {
        Ok(NeverStays)
    }
}

/// The rule.
#[derive(Clone, Copy, Debug)]
pub struct NeverStays;

impl Demotion for NeverStays {
    fn budget(&self, _zone: u32, _room: u32) -> u32 {
        0
    }

    fn least(&self, _counts: &[u32; LEVELS], _budget: u32) -> u8 {
        u8::MAX
    }
}
