//! `even`: each tenant has units for its data, and as many spare ones as any other, however small it is.
//!
//! In proportion to space, as `vssd` deals, a small tenant has few spare units, and its collection is as dear as that of a large one;
//! here it has more of them and collects less. No source: own design, as small as an isolation can be.
//!
//! Cost: none per request; one division when the drive is made.

use nandu::isolation::{Given, Isolation, IsolationOptions, Space};
use nandu::{Declared, options};

/// Options of `even`: none.
#[options(crate = nandu)]
#[derive(Clone, Debug)]
pub struct Config {}

impl Declared for Config {
    const NAME: &'static str = "even";
    const SUMMARY: &'static str = "Each has units for its data, and as many spare ones as any other.";
    const SOURCE: &'static str = "";
}

impl IsolationOptions for Config {
    fn build(&self, _: Given) -> Box<dyn Isolation> {
        Box::new(Even)
    }
}

/// The policy; it has no state.
pub struct Even;

impl Isolation for Even {
    fn shares(&self, space: &Space) -> Vec<u32> {
        let row = space.pages * space.groups;
        let data: Vec<u32> = space.sizes.iter().map(|&pages| pages.div_ceil(row)).collect();
        // What belongs to nobody yet keeps its units, and its part of the spare ones.
        let given: u32 = space.sizes.iter().sum();
        let kept = space.logical.saturating_sub(given).div_ceil(row);
        let spare = space.units.saturating_sub(data.iter().sum::<u32>() + kept);
        let spare = u64::from(spare) * u64::from(given) / u64::from(space.logical.max(1));
        let each = spare as u32 / data.len().max(1) as u32;
        data.into_iter().map(|units| units + each).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_tenant_has_as_many_spare_units_as_a_large_one() {
        let space = Space {
            units: 130,
            pages: 10,
            groups: 1,
            logical: 1000,
            sizes: vec![100, 900],
            weights: vec![1; 2],
        };
        assert_eq!(Even.shares(&space), [10 + 15, 90 + 15]);
    }

    #[test]
    fn it_holds_what_every_isolation_must() {
        (1..200).for_each(|seed| nandu::isolation::conformance::run(&Config {}, seed));
    }
}
