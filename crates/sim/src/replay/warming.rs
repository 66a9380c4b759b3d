//! Warm-ups: of all workloads together, and of each.
//!
//! A request counts when as many were sent before it as warm the stack, and as many of its own workload as warm that. The measurement
//! begins with the first request that counts: then the machines' counters are set back. A workload that still warms up keeps the
//! devices busy meanwhile, and its requests are left out of the latencies.
//!
//! Cost: nothing once every workload counts; before, a look at two numbers for each request.

use super::{Host, Source};
use crate::engine::Engine;
use nandu_base::Instant;

/// Which workloads still warm up.
pub(super) struct Warming {
    /// Requests of each workload that do not count; `None` once one has counted.
    least: Vec<Option<u64>>,
    /// Requests of all workloads that do not count.
    warm_up: u64,
    /// When the measurement began.
    pub begun: Option<Instant>,
    /// Whether any workload still warms up, or none has sent a request.
    pub is_on: bool,
}

impl Warming {
    pub fn new(sources: &[Source], warm_up: u64) -> Warming {
        Warming {
            least: sources.iter().map(|s| Some(s.warm_up)).collect(),
            warm_up,
            begun: None,
            is_on: true,
        }
    }

    /// Every workload counts, in a measurement that began at `begun`.
    pub fn over(begun: Instant) -> Warming {
        Warming { least: Vec::new(), warm_up: 0, begun: Some(begun), is_on: false }
    }

    /// Workload `who`, which has sent `issued` requests, sends request `number`: whether the measurement begins with it.
    #[cold]
    pub fn ends<S: Host>(&mut self, engine: &mut Engine<S>, who: usize, issued: u64, number: u64) -> bool {
        let counts = self.least[who].is_some_and(|least| issued >= least && number >= self.warm_up);
        if !counts {
            return false;
        }
        let begins = self.begun.is_none();
        if begins {
            let now = engine.now();
            self.begun = Some(now);
            if number > 0 {
                engine.graph.reset_counters();
                engine.sink().begin(number, now);
            }
            let warm = self.least.iter().enumerate().filter(|&(_, &least)| least > Some(0));
            warm.for_each(|(source, _)| engine.sink().count_from(source, u64::MAX));
        }
        engine.sink().count_from(who, number);
        self.least[who] = None;
        if begins {
            // Without a warm-up of its own a workload counts from here on.
            self.least.iter_mut().for_each(|least| *least = least.filter(|&n| n > 0));
        }
        self.is_on = self.least.iter().any(Option::is_some);
        begins
    }
}
