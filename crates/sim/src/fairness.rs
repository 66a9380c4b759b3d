//! What tenants that share a stack got of it: shares, and how even they are.
//!
//! The measure is *device time*: how long dies, heads and devices without further detail were busy for a tenant, collection
//! that it caused included. It does not depend on how large or how dear a tenant's requests are, and an idle tenant uses none.
//!
//! *Share error*: how far its share is from the one that its weight stands for, as a part of that. *Slowdown* (the mean latency
//! beside others over the mean latency alone) is in [`TenantResult`](crate::result::TenantResult), as it takes runs of its own.
//!
//! *Jain's index* of x is (sum x)^2 / (n sum x^2), here of device time over weight: 1 when all are served by their
//! weights, 1/n when one has everything. (Jain, Chiu, Hawe, DEC-TR-301, 1984.) It says something about a scheduler only
//! while tenants have something to ask for, so it is taken over those that were *backlogged*: one that asks for little uses
//! little, and no scheduler is unfair for that.

use crate::decimals;
use crate::result::LayerResult;
use nandu_base::{ChargeTable, Resource, Span, TenantId, Work};
use serde::Serialize;

/// What one tenant used of the devices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DeviceTime {
    /// Its weight.
    pub weight: u16,
    /// Time that dies, heads and other devices were busy for it.
    pub busy_ns: u64,
    /// That part of it that was garbage collection.
    pub gc_ns: u64,
    /// Its part of the device time of all tenants, in thousandths.
    #[serde(rename = "share", serialize_with = "decimals::one")]
    pub share_thousandths: u64,
    /// The part that its weight stands for while all ask, in thousandths.
    #[serde(rename = "wanted", serialize_with = "decimals::one")]
    pub wanted_thousandths: u64,
    /// The share less what its weight stands for, over that, in thousandths: 50 for a twentieth too much.
    #[serde(rename = "error", serialize_with = "decimals::one")]
    pub error_thousandths: i64,
    /// Whether it had requests waiting all the time.
    pub backlogged: bool,
}

/// Resources whose busy time is device time; a channel is busy while its die is.
const COUNTED: [&str; 3] = ["die", "head", "device"];

/// Device time of a tenant in one machine, and the part of it that was garbage collection.
pub fn device_time(charges: &ChargeTable, tenant: TenantId) -> (Span, Span) {
    let counted = Resource::ALL.into_iter().filter(|resource| COUNTED.contains(&resource.name()));
    let (mut all, mut gc) = (Span::ZERO, Span::ZERO);
    for resource in counted {
        all = Work::ALL.into_iter().fold(all, |sum, work| sum + charges.get(tenant, resource, work));
        gc += charges.get(tenant, resource, Work::Gc);
    }
    (all, gc)
}

/// The device time of tenants, each given by name and weight.
pub fn device_times(tenants: &[(&str, u16)], layers: &[LayerResult]) -> Vec<DeviceTime> {
    let mut out: Vec<DeviceTime> =
        tenants.iter().map(|&(_, weight)| DeviceTime { weight, ..DeviceTime::default() }).collect();
    for charge in layers.iter().flat_map(|l| &l.charges).filter(|c| COUNTED.contains(&c.resource)) {
        let Some(place) = tenants.iter().position(|&(name, _)| name == charge.tenant) else { continue };
        out[place].busy_ns += charge.busy_ns;
        if charge.work == "gc" {
            out[place].gc_ns += charge.busy_ns;
        }
    }
    let busy: u128 = out.iter().map(|t| u128::from(t.busy_ns)).sum();
    let weights: u128 = out.iter().map(|t| u128::from(t.weight)).sum();
    let part = |n: u128, of: u128| (n * 1000 + of / 2).checked_div(of).unwrap_or(0) as u64;
    for tenant in &mut out {
        tenant.share_thousandths = part(tenant.busy_ns.into(), busy);
        tenant.wanted_thousandths = part(tenant.weight.into(), weights);
        // Of the exact shares: over x W / (all x w), less one.
        let (has, wanted) =
            (i128::from(tenant.busy_ns) * weights as i128, busy as i128 * i128::from(tenant.weight));
        tenant.error_thousandths = ((has - wanted) * 1000 + (has - wanted).signum() * wanted / 2)
            .checked_div(wanted)
            .unwrap_or(0) as i64;
    }
    out
}

/// Jain's index of device time over weight of the tenants that were backlogged, in thousandths; `None` for fewer than two, or when
/// nothing was used.
pub fn jain(times: &[DeviceTime]) -> Option<u64> {
    let times: Vec<&DeviceTime> = times.iter().filter(|t| t.backlogged).collect();
    if times.len() < 2 {
        return None;
    }
    // Microseconds at weight 10,000: the squares of a year of them fit.
    let scaled = |t: &DeviceTime| u128::from(t.busy_ns / 1000) * 10_000 / u128::from(t.weight.max(1));
    let sum: u128 = times.iter().copied().map(scaled).sum();
    let squares: u128 = times.iter().map(|t| scaled(t) * scaled(t)).sum();
    let below = squares * times.len() as u128;
    Some(((sum * sum).checked_mul(1000)? + below / 2).checked_div(below)? as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::Charge;

    fn time(weight: u16, busy_ns: u64) -> DeviceTime {
        DeviceTime { weight, busy_ns, backlogged: true, ..DeviceTime::default() }
    }

    #[test]
    fn an_error_is_a_part_of_what_is_wanted() {
        let charge =
            |tenant: &str, busy_ns| Charge { tenant: tenant.into(), resource: "die", work: "read", busy_ns };
        let layer = |charges| LayerResult { charges, ..LayerResult::default() };
        let of = |a, b| {
            let times =
                device_times(&[("a", 300), ("b", 100)], &[layer(vec![charge("a", a), charge("b", b)])]);
            [times[0].error_thousandths, times[1].error_thousandths]
        };
        assert_eq!(of(300, 100), [0, 0]);
        // 60 and 40 % in place of 75 and 25.
        assert_eq!(of(600, 400), [-200, 600]);
        assert_eq!(of(0, 0), [0, 0]);
        assert_eq!(of(7, 0), [333, -1000]);
    }

    #[test]
    fn the_index_is_one_by_weight_and_one_nth_for_a_winner() {
        assert_eq!(jain(&[time(100, 1_000_000), time(300, 3_000_000)]), Some(1000));
        assert_eq!(jain(&[time(100, 1_000_000), time(100, 0), time(100, 0), time(100, 0)]), Some(250));
        // x = 1, 2, 3: 36 / (3 * 14).
        assert_eq!(jain(&[time(100, 1_000_000), time(100, 2_000_000), time(100, 3_000_000)]), Some(857));
        assert_eq!(jain(&[time(100, 0), time(100, 0)]), None);
        assert_eq!(jain(&[time(100, 5)]), None);
        // 0.99996 is 1.000 and not 0.999.
        assert_eq!(jain(&[time(100, 1_006_000), time(100, 994_000)]), Some(1000));
    }

    #[test]
    fn who_asks_for_little_is_no_sign_of_unfairness() {
        let idle = DeviceTime { backlogged: false, ..time(400, 7_000) };
        assert_eq!(jain(&[time(100, 1_000_000), idle, time(300, 3_000_000)]), Some(1000));
        assert_eq!(jain(&[time(100, 1_000_000), idle]), None);
    }
}
