//! What a request is taken to cost the device, before it is sent.
//!
//! - `linear`: a base for the operation and a time for each byte, as FIOS and FlashFQ do (Park and Shen, FAST 2012,
//!   section 3.3: on flash the cost of a request is close to linear in its length). The defaults are those of the drive in
//!   docs/experiments/benchmark.md for pages of 4 KiB: a read 52 us, a write 412 us, spread over its 64 dies for each further byte.
//! - `bytes`: bytes and nothing else, with a floor of one page for a request.
//!
//! Costs are nanoseconds of one die. Slices, credits and quanta that a scheduler is given as times are amounts of the same: with
//! `bytes`, where a byte is a nanosecond, 100 us are 24 pages, and 10 ms are 2441.

use crate::pending::Class;
use nandu_base::{Span, options};

/// How the cost of a request is reckoned.
#[options]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CostConfig {
    /// A base and a time for each 4 KiB beyond the first.
    #[default]
    Linear {
        /// A read of up to 4 KiB.
        #[option(default = READ, above = Span::ZERO, range = ..=MOST)]
        read_4k: Span,
        /// A write of up to 4 KiB.
        #[option(default = WRITE, above = Span::ZERO, range = ..=MOST)]
        write_4k: Span,
        /// Each further 4 KiB read.
        #[option(default = READ, range = ..=MOST)]
        read_per_4k: Span,
        /// Each further 4 KiB written.
        #[option(default = WRITE, range = ..=MOST)]
        write_per_4k: Span,
    },
    /// Its bytes, at least 4 KiB; 1 ns for a byte.
    Bytes,
}

const READ: Span = Span::from_us(52);
const WRITE: Span = Span::from_us(412);

const PAGE: u64 = 4096;

/// Longest cost of 4 KiB: a turn is made of many.
const MOST: Span = Span::from_secs(1);

impl CostConfig {
    /// The cost of a request of `len` bytes; never 0.
    pub fn of(&self, class: Class, len: u64) -> Span {
        match *self {
            CostConfig::Bytes => Span(len.max(PAGE)),
            CostConfig::Linear { read_4k: read, write_4k: write, read_per_4k, write_per_4k } => {
                let (base, more) = match class {
                    Class::Read => (read, read_per_4k),
                    Class::Write => (write, write_per_4k),
                };
                Span((base + more * len.saturating_sub(1).checked_div(PAGE).unwrap_or(0)).0.max(1))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_costs_its_base_and_each_further_page() {
        let cost = CostConfig::default();
        assert_eq!(cost.of(Class::Read, 512), Span::from_us(52));
        assert_eq!(cost.of(Class::Read, 4096), Span::from_us(52));
        assert_eq!(cost.of(Class::Write, 4097), Span::from_us(824));
        assert_eq!(cost.of(Class::Write, 0), Span::from_us(412));
        assert_eq!(CostConfig::Bytes.of(Class::Read, 65_536), Span(65_536));
    }
}
