//! How full units were when they were cleared, by tenant: the histogram that drives with tenants count.
//!
//! A drive has a counter for each tenant and step of 5 % of a unit (`tenant_1_victims_valid_up_to_5_percent`); here they are one again.

use crate::result::LayerResult;

/// Steps of the histogram: units with up to 1/20, 2/20, ... of their pages valid.
pub const STEPS: usize = 20;

/// The units that tenant `number` of a layer, counted from 1, has cleared, by how full they were. `None` where the layer is no drive that
/// tells tenants apart, or has no such tenant.
pub fn of(layer: &LayerResult, number: u32) -> Option<[u64; STEPS]> {
    let mut units = [0; STEPS];
    for (percent, units) in (5..).step_by(100 / STEPS).zip(&mut units) {
        let name = format!("tenant_{number}_victims_valid_up_to_{percent}_percent");
        *units = *layer.counters.get(name.as_str())?;
    }
    Some(units)
}

/// The same in percent of all units cleared; `None` where there was none.
pub fn shares(units: &[u64; STEPS]) -> Option<[f64; STEPS]> {
    let all: u64 = units.iter().sum();
    (all > 0).then(|| units.map(|n| n as f64 * 100.0 / all as f64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn layer(counters: BTreeMap<&'static str, u64>) -> LayerResult {
        LayerResult {
            name: "ssd".into(),
            kind: "ssd",
            requests: BTreeMap::new(),
            bytes: BTreeMap::new(),
            forwarded: 0,
            finished: 0,
            failed: 0,
            latency_mean_ns: 0,
            latency_max_ns: 0,
            latency_breakdown_total_ns: BTreeMap::new(),
            counters,
            charges: Vec::new(),
            busy_ns: BTreeMap::new(),
            util_thousandths: BTreeMap::new(),
            energy: Vec::new(),
            tenants: Vec::new(),
        }
    }

    #[test]
    fn counters_are_one_histogram_again() {
        let names = (1..=STEPS as u64).map(|step| {
            let name = format!("tenant_1_victims_valid_up_to_{}_percent", step * 5);
            (&*Box::leak(name.into_boxed_str()), step % 2)
        });
        let layer = layer(names.collect());
        let units = of(&layer, 1).expect("every step is counted");
        assert_eq!((units[0], units[1], units[19]), (1, 0, 0));
        assert_eq!(shares(&units).map(|shares| shares[2]), Some(10.0));
        assert_eq!(of(&layer, 2), None);
        assert_eq!(shares(&[0; STEPS]), None);
    }
}
