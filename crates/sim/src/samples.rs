//! A run over time: what the machines count, read off as the run goes on.
//!
//! Samples are taken every so many requests, so that a run has about [`SAMPLES`] of them, and the blocks of flash devices
//! about [`MAPS`] times. Where nobody knows how many requests there will be, they begin close together; whenever there are twice as many
//! as wanted, every second one is given up and the next come half as often.

use nandu_base::{Ask, Counter, FlashMap, Instant, Resource, Span, Work};
use nandu_stack::Graph;

/// Samples of a run, about.
pub const SAMPLES: u64 = 200;
/// Pictures of the blocks, about.
pub const MAPS: u64 = 40;

/// The samples of one device.
#[derive(Clone, Debug)]
pub struct DeviceSamples {
    /// Its name.
    pub device: String,
    /// What it counts: name, and value at each sample.
    pub counters: Vec<(&'static str, Vec<u64>)>,
    /// Its blocks, with the number of the sample.
    pub maps: Vec<(usize, FlashMap)>,
}

/// All samples of a run.
#[derive(Clone, Debug, Default)]
pub struct Samples {
    /// When they were taken, from the start of the replay.
    pub times: Vec<Span>,
    /// The devices, children first.
    pub devices: Vec<DeviceSamples>,
    /// At each sample for each tenant, SYSTEM first: device time, and the part of it that was collection.
    pub used: Vec<Vec<(u64, u64)>>,
}

impl Samples {
    /// Requests from one sample to the next, in a run of `total`.
    pub fn every(total: u64) -> u64 {
        (total / SAMPLES).max(1)
    }

    /// Reads the machines off at the end of a run, unless that was the last sample.
    pub fn end(&mut self, graph: &mut Graph, start: Instant, now: Instant) {
        if self.times.last().is_some_and(|&last| last < now.since(start)) {
            self.take(graph, start, now);
        }
    }

    /// Reads the machines off. Counters count since the start of the measurement: a warm-up sets them back. True when samples
    /// became too many: every second one is gone, and the next should come half as often.
    pub fn take(&mut self, graph: &mut Graph, start: Instant, now: Instant) -> bool {
        let number = self.times.len();
        let maps_too = (number as u64).is_multiple_of(SAMPLES / MAPS);
        self.times.push(now.since(start));
        self.used.push(used(graph));
        for node in 0..graph.len() as u32 {
            if number == 0 {
                let (counters, maps) = (Vec::new(), Vec::new());
                self.devices.push(DeviceSamples { device: graph.name(node).into(), counters, maps });
            }
            let device = &mut self.devices[node as usize];
            for counter in &graph.report(node, Ask::Counters).counters {
                device.put(counter, number);
            }
            if maps_too {
                device.maps.extend(graph.report(node, Ask::FlashMap).flash_map.map(|map| (number, map)));
            }
        }
        let are_too_many = self.times.len() as u64 == 2 * SAMPLES;
        if are_too_many {
            self.thin_out();
        }
        are_too_many
    }

    /// Gives up every second sample.
    fn thin_out(&mut self) {
        thin_out(&mut self.times);
        thin_out(&mut self.used);
        for device in &mut self.devices {
            device.counters.iter_mut().for_each(|(_, values)| thin_out(values));
            device.maps.retain(|(number, _)| number.is_multiple_of(2));
            device.maps.iter_mut().for_each(|(number, _)| *number /= 2);
        }
    }
}

fn thin_out<T>(values: &mut Vec<T>) {
    let mut place = 0;
    values.retain(|_| {
        place += 1;
        place % 2 == 1
    });
}

/// Device time of each tenant so far, and the part of it that was collection; a channel is busy while its die is.
fn used(graph: &Graph) -> Vec<(u64, u64)> {
    let counted = [Resource::Die, Resource::Head, Resource::Device];
    let mut used: Vec<(u64, u64)> = Vec::new();
    for charges in (0..graph.len() as u32).map(|node| graph.charges(node)) {
        for tenant in charges.tenants() {
            let busy = |work: Work| counted.iter().map(|&r| charges.get(tenant, r, work).0).sum::<u64>();
            if used.len() <= usize::from(tenant.0) {
                used.resize(usize::from(tenant.0) + 1, (0, 0));
            }
            let own = &mut used[usize::from(tenant.0)];
            own.0 += Work::ALL.map(busy).iter().sum::<u64>();
            own.1 += busy(Work::Gc);
        }
    }
    used
}

impl DeviceSamples {
    fn put(&mut self, counter: &Counter, number: usize) {
        let known = self.counters.iter_mut().find(|(name, _)| *name == counter.name);
        let values = match known {
            Some((_, values)) => values,
            None => {
                // A counter that comes late was zero before.
                self.counters.push((counter.name, vec![0; number]));
                &mut self.counters.last_mut().expect("it was just put there").1
            }
        };
        values.resize(number, values.last().copied().unwrap_or(0));
        values.push(counter.value);
    }

    /// The values of one counter.
    pub fn counter(&self, name: &str) -> Option<&[u64]> {
        self.counters.iter().find(|(known, _)| *known == name).map(|(_, values)| values.as_slice())
    }
}
