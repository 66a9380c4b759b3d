//! How full units were when their tenant cleared them: a histogram for each tenant.
//!
//! The shared-space paper says that who clears later finds fewer valid pages (S3-16). What counts is what had to be moved out of a unit
//! before its erase, whatever the erase was for: a page that became invalid while its unit was being cleared cost nothing.
//!
//! Twenty steps of 5 % of a unit; a unit without valid pages is in the first. A pool clears one unit at a time, so one number for each
//! pool is enough. Cost: an addition for each page that is moved on a drive with tenants. RAM: 8 bytes per pool and 160 per tenant.

use crate::isolation::TENANTS_MAX;
use nandu_base::Report;

/// Steps of the histogram.
pub(super) const STEPS: usize = 20;

/// The histograms of a drive.
pub(super) struct Victims {
    /// Pages moved out of the unit that each pool is clearing.
    moved: Vec<u32>,
    /// Pages moved out of the unit that each pool has cleared last.
    last: Vec<u32>,
    /// Units cleared, by tenant and by how full they were.
    units: Vec<[u64; STEPS]>,
}

impl Victims {
    pub fn new(pools: usize, tenants: usize) -> Victims {
        Victims { moved: vec![0; pools], last: vec![0; pools], units: vec![[0; STEPS]; tenants] }
    }

    /// A page of a pool was moved.
    #[inline]
    pub fn moved(&mut self, pool: u32) {
        self.moved[pool as usize] += 1;
    }

    /// `tenant` has erased a unit of `pages` pages in a pool.
    pub fn erased(&mut self, pool: u32, tenant: usize, pages: u32) {
        let valid = std::mem::take(&mut self.moved[pool as usize]).min(pages);
        self.last[pool as usize] = valid;
        let step = (valid as usize * STEPS).div_ceil(pages as usize).saturating_sub(1);
        // A group of planes that is nobody's is never erased.
        if let Some(units) = self.units.get_mut(tenant) {
            units[step] += 1;
        }
    }

    /// Pages that were moved out of the unit that the pool has cleared last.
    pub fn last(&self, pool: u32) -> u32 {
        self.last[pool as usize]
    }

    /// After a power cut nothing is being cleared.
    pub fn restart(&mut self) {
        self.moved.fill(0);
        self.last.fill(0);
    }

    pub fn reset(&mut self) {
        self.units.fill([0; STEPS]);
    }

    /// Puts in the figures of a tenant.
    pub fn put(&self, tenant: usize, report: &mut Report) {
        NAMES[tenant].iter().zip(&self.units[tenant]).for_each(|(&name, &value)| report.put(name, value));
    }
}

macro_rules! steps {
    ($n:literal: $($percent:literal)*) => {
        [$(concat!("tenant_", $n, "_victims_valid_up_to_", $percent, "_percent")),*]
    };
}

macro_rules! names {
    ($($n:literal)*) => {
        [$(steps!($n: 5 10 15 20 25 30 35 40 45 50 55 60 65 70 75 80 85 90 95 100)),*]
    };
}

/// Names of each tenant's counters.
const NAMES: [[&str; STEPS]; TENANTS_MAX] = names!(1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16);

#[cfg(test)]
mod tests {
    use super::*;
    use nandu_base::Ask;

    #[test]
    fn a_unit_counts_by_what_was_moved_out_of_it() {
        let mut victims = Victims::new(4, 2);
        for valid in [0, 1, 5, 6, 100] {
            (0..valid).for_each(|_| victims.moved(3));
            victims.moved(2);
            victims.erased(3, 1, 100);
        }
        let mut report = Report::new(Ask::Counters);
        victims.put(1, &mut report);
        let counted: Vec<(&str, u64)> =
            report.counters.iter().filter(|c| c.value > 0).map(|c| (c.name, c.value)).collect();
        let want = [
            ("tenant_2_victims_valid_up_to_5_percent", 3),
            ("tenant_2_victims_valid_up_to_10_percent", 1),
            ("tenant_2_victims_valid_up_to_100_percent", 1),
        ];
        assert_eq!(counted, want);
        // What the other pool has moved is still to be counted.
        victims.erased(2, 0, 10);
        assert_eq!(victims.units[0][9], 1);
        victims.reset();
        assert_eq!(victims.units, [[0; STEPS]; 2]);
    }
}
