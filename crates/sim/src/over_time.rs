//! Tenants over a run: what each used of the devices, and what it wrote, moved, erased, lent and borrowed inside a drive that tells tenants apart.
//!
//! Read off with the other [samples](crate::samples), by simulated time. Device time is that of [`crate::fairness`]. Figures count from the start of the
//! measurement, lent and borrowed units are those of the moment.

use crate::samples::{DeviceSamples, Samples};
use nandu_base::Span;
use serde::Serialize;

/// What a tenant of the stack used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Used {
    /// The tenant.
    pub tenant: String,
    /// Time that dies, heads and other devices were busy for it.
    pub device_ns: Vec<u64>,
    /// That part of it that was garbage collection.
    pub gc_ns: Vec<u64>,
}

/// What happened to a tenant inside a drive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Inside {
    /// The drive.
    pub device: String,
    /// The tenant's number there, from 1.
    pub number: u32,
    /// Bytes that the host wrote to its space.
    pub host_bytes_written: Vec<u64>,
    /// Pages that collection moved.
    pub gc_pages_moved: Vec<u64>,
    /// Blocks erased that it had filled: its wear.
    pub block_erases: Vec<u64>,
    /// Units that it has lent.
    pub units_lent: Vec<u64>,
    /// Units that it has borrowed.
    pub units_borrowed: Vec<u64>,
}

/// All tenants of a run over time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct OverTime {
    /// When the figures were read off, from the start of the replay.
    pub at_ns: Vec<u64>,
    /// By tenant of the stack.
    pub tenants: Vec<Used>,
    /// By tenant of each drive that tells them apart.
    pub drives: Vec<Inside>,
}

impl OverTime {
    /// What `samples` say of tenants with these names; nothing where there is one and no drive tells tenants apart.
    pub fn of(samples: &Samples, names: &[&str]) -> Option<OverTime> {
        let drives: Vec<Inside> = samples.devices.iter().flat_map(inside).collect();
        if samples.times.is_empty() || names.len() < 2 && drives.is_empty() {
            return None;
        }
        let used = |(place, name): (usize, &&str)| Used {
            tenant: (*name).into(),
            // SYSTEM comes first there.
            device_ns: samples.used.iter().map(|used| used[place + 1].0).collect(),
            gc_ns: samples.used.iter().map(|used| used[place + 1].1).collect(),
        };
        Some(OverTime {
            at_ns: samples.times.iter().map(|&Span(ns)| ns).collect(),
            tenants: names.iter().enumerate().map(used).collect(),
            drives,
        })
    }
}

/// The tenants of one drive that was ever written by one of them.
fn inside(device: &DeviceSamples) -> Vec<Inside> {
    let of =
        |number: u32, what: &str| device.counter(&format!("tenant_{number}_{what}")).map(<[u64]>::to_vec);
    let tenant = |number: u32| {
        let host_bytes_written = of(number, "host_bytes_written")?;
        let none = || vec![0; host_bytes_written.len()];
        Some(Inside {
            device: device.device.clone(),
            number,
            gc_pages_moved: of(number, "gc_pages_moved").unwrap_or_else(none),
            block_erases: of(number, "block_erases").unwrap_or_else(none),
            units_lent: of(number, "units_lent_now").unwrap_or_else(none),
            units_borrowed: of(number, "units_borrowed_now").unwrap_or_else(none),
            host_bytes_written,
        })
    };
    (1..=16).map_while(tenant).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandu_base::Span;

    #[test]
    fn tenants_of_the_stack_and_of_a_drive_stand_beside_each_other() {
        let counters = [
            ("tenant_1_host_bytes_written", vec![0, 4096]),
            ("tenant_1_units_lent_now", vec![0, 2]),
            ("tenant_2_host_bytes_written", vec![0, 0]),
        ];
        let drive = DeviceSamples { device: "ssd".into(), counters: counters.to_vec(), maps: Vec::new() };
        let mut samples = Samples::default();
        (samples.times, samples.devices) = (vec![Span(0), Span(9)], vec![drive]);
        samples.used = vec![vec![(0, 0); 2], vec![(1, 1), (7, 3)]];
        let over = OverTime::of(&samples, &["a"]).expect("a drive tells tenants apart");
        assert_eq!((&over.at_ns, &over.tenants[0].device_ns), (&vec![0, 9], &vec![0, 7]));
        assert_eq!(over.tenants[0].gc_ns, [0, 3]);
        assert_eq!((over.drives.len(), &over.drives[0].units_lent), (2, &vec![0, 2]));
        samples.devices.clear();
        assert_eq!(OverTime::of(&samples, &["a"]), None);
        samples.used.iter_mut().for_each(|used| used.push((0, 0)));
        assert!(OverTime::of(&samples, &["a", "b"]).is_some());
    }
}
