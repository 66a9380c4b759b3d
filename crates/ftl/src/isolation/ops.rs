//! OPS isolation: each tenant has units for its data, and its own part of the spare ones by weight.
//!
//! Kim, Lee and Noh, "Towards SLO Complying SSDs Through OPS Isolation", FAST 2015: blocks, those of the over-provisioned space (OPS)
//! included, belong to one virtual machine each, and the size of its part of the OPS sets its speed, for it sets the cost of its collection.
//! There the sizes follow from IOPS targets while the drive runs; here the weights are given and stay. No fairness of time: that
//! is what VSSD adds (B3-2).
//!
//! Spare units are those beyond what the data of all logical pages fills, given to tenants or not, so a tenant that is still to come finds
//! its part. Cost: none per request.

use super::{Given, Isolation, IsolationOptions, Space};
use nandu_base::{Declared, options};

/// Options of `ops`: the weights are the tenants'.
#[options]
#[derive(Clone, Copy, Debug)]
pub struct OpsConfig {}

impl Declared for OpsConfig {
    const NAME: &'static str = "ops";
    const SUMMARY: &'static str = "Each has units for its data, and a part of the spare ones by weight.";
    const SOURCE: &'static str = "Kim, Lee and Noh, FAST 2015";
}

impl IsolationOptions for OpsConfig {
    fn weighs(&self) -> bool {
        true
    }

    fn build(&self, _: Given) -> Box<dyn Isolation> {
        Box::new(Ops)
    }
}

/// The policy; it has no state.
#[derive(Clone, Copy, Default, Debug)]
pub struct Ops;

impl Isolation for Ops {
    fn shares(&self, space: &Space) -> Vec<u32> {
        let row = u64::from(space.pages) * u64::from(space.groups);
        let data = |pages: u64| pages.div_ceil(row);
        let given: u64 = space.sizes.iter().map(|&size| u64::from(size)).sum();
        let units: Vec<u64> = space.sizes.iter().map(|&size| data(u64::from(size))).collect();
        let kept = data(u64::from(space.logical).saturating_sub(given));
        let spare = u64::from(space.units).saturating_sub(units.iter().sum::<u64>() + kept);
        // The part of tenants that are still to come.
        let spare = spare * given / u64::from(space.logical.max(1));
        let weights: u64 = space.weights.iter().map(|&weight| u64::from(weight)).sum();
        let part = |weight: u32| spare * u64::from(weight) / weights.max(1);
        units.iter().zip(&space.weights).map(|(&units, &weight)| (units + part(weight)) as u32).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spare_units_go_by_weight() {
        let space = Space {
            units: 120,
            pages: 10,
            groups: 1,
            logical: 1000,
            sizes: vec![400, 600],
            weights: vec![3, 1],
        };
        assert_eq!(Ops.shares(&space), [40 + 15, 60 + 5]);
        let half = Space { sizes: vec![200, 300], ..space };
        assert_eq!(Ops.shares(&half), [20 + 7, 30 + 2]);
    }
}
