//! VSSD: each tenant has units in proportion to its space, spare ones included, and collects among them only.
//!
//! Chang, Chen and Su, "VSSD: performance isolation in a solid-state drive", ACM TODAES 20(4), 2015, as the shared-space paper uses it
//! (B3-3): per-user block allocation, collection in one's own space only. Its other half, credits over channel queues, is a
//! scheduler and lives in the machine `queue`.
//!
//! Cost: none per request; one division per tenant when the drive is made.

use super::{Given, Isolation, IsolationOptions, Space, in_proportion};
use nandu_base::{Declared, options};

/// Options of `vssd`.
#[options]
#[derive(Clone, Copy, Debug)]
pub struct VssdConfig {}

impl Declared for VssdConfig {
    const NAME: &'static str = "vssd";
    const SUMMARY: &'static str = "Each has units in proportion to its space.";
    const SOURCE: &'static str = "Chang, Chen and Su, ACM TODAES 20(4), 2015";
}

impl IsolationOptions for VssdConfig {
    fn may_be_dealt(&self) -> bool {
        true
    }

    fn build(&self, _: Given) -> Box<dyn Isolation> {
        Box::new(Vssd)
    }
}

/// The policy; it has no state.
#[derive(Clone, Copy, Default, Debug)]
pub struct Vssd;

impl Isolation for Vssd {
    fn shares(&self, space: &Space) -> Vec<u32> {
        in_proportion(space)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_tenant_was_given_stays_out() {
        // S3-12: 40, 20 and 20 GB of 100 GB.
        let space = Space {
            units: 1000,
            pages: 8,
            groups: 1,
            logical: 100,
            sizes: vec![40, 20, 20],
            weights: vec![1; 3],
        };
        assert_eq!(Vssd.shares(&space), [400, 200, 200]);
    }
}
