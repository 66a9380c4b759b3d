//! How figures come out of a machine or a policy: by one method, in which each figure is named once.
//!
//! A [`Report`] visits whoever has figures (`report(&mut self, report: &mut Report)`). It asks for one thing at a time ([`Ask`]): counters, busy
//! times, energy and so on, or that counting begins anew. So what is put in, and what begins anew, stand side by side:
//!
//! ```
//! use nandu_base::{Ask, Report};
//!
//! #[derive(Default)]
//! struct Gate {
//!     closings: u64,
//!     is_closed: bool,
//! }
//!
//! impl Gate {
//!     fn report(&mut self, report: &mut Report) {
//!         report.put("gate_is_closed", u64::from(self.is_closed)); // how it stands
//!         report.count("gate_closings", &mut self.closings); // what was counted, from 0 when counting begins anew
//!     }
//! }
//!
//! let mut gate = Gate { closings: 3, is_closed: true };
//! let mut report = Report::new(Ask::Counters);
//! gate.report(&mut report);
//! assert_eq!(report.counter("gate_closings"), Some(3));
//! gate.report(&mut Report::new(Ask::Anew));
//! assert!(gate.closings == 0 && gate.is_closed);
//! ```
//!
//! Except for [`Ask::Anew`] and [`Ask::Watch`] a report changes nothing.

use crate::charge::Resource;
use crate::energy::{EnergyPart, WearRegion};
use crate::flash_map::FlashMap;
use crate::machine::{Counter, Machine};
use crate::tenancy::TenantSpace;
use crate::timeline::Timeline;
use crate::units::{Instant, Span};

/// What a report asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ask {
    /// Named figures, in a stated order.
    Counters,
    /// Busy time of each resource since counting began, over all of its kind, and how many there are; the charges add up to it.
    Busy,
    /// What was drawn since counting began, by state. Counting began at `from`, now is `to`: for what rests.
    Energy {
        /// When counting began.
        from: Instant,
        /// Now.
        to: Instant,
    },
    /// How flash wears.
    Wear,
    /// The space of each tenant, of a device that tells tenants apart by their space.
    Spaces,
    /// The blocks of a flash device as they are now.
    FlashMap,
    /// What the lanes did in the window that is watched.
    Lanes,
    /// Keep from now on what the lanes do between these two moments.
    Watch {
        /// First moment.
        from: Instant,
        /// Last moment.
        to: Instant,
    },
    /// Begin to count anew, as at the end of a warm-up. State stays.
    Anew,
}

/// A visit for figures.
#[derive(Debug)]
pub struct Report {
    ask: Ask,
    /// The named figures, in the order in which they were put in.
    pub counters: Vec<Counter>,
    /// Busy times.
    pub busy: Vec<(Resource, Span, u32)>,
    /// What was drawn.
    pub energy: Vec<EnergyPart>,
    /// Wear.
    pub wear: Vec<WearRegion>,
    /// Tenants' spaces.
    pub spaces: Vec<TenantSpace>,
    /// The blocks.
    pub flash_map: Option<FlashMap>,
    /// The lanes.
    pub lanes: Option<Timeline>,
}

/// A figure that counts from nothing: a number or a time.
pub trait Figure: Default {
    /// Its value, in its counter's unit (a time in nanoseconds).
    fn value(&self) -> u64;
}

impl Figure for u64 {
    fn value(&self) -> u64 {
        *self
    }
}

impl Figure for u32 {
    fn value(&self) -> u64 {
        u64::from(*self)
    }
}

impl Figure for Span {
    fn value(&self) -> u64 {
        self.0
    }
}

impl Report {
    /// A visit that asks for this.
    pub fn new(ask: Ask) -> Report {
        Report {
            ask,
            counters: Vec::new(),
            busy: Vec::new(),
            energy: Vec::new(),
            wear: Vec::new(),
            spaces: Vec::new(),
            flash_map: None,
            lanes: None,
        }
    }

    /// The visit of a machine that asks for this.
    pub fn of<M: Machine + ?Sized>(machine: &mut M, ask: Ask) -> Report {
        let mut report = Report::new(ask);
        machine.report(&mut report);
        report
    }

    /// What it asks for.
    #[inline]
    pub fn ask(&self) -> Ask {
        self.ask
    }

    /// Whether it asks for counters: for those that take long to find.
    #[inline]
    pub fn wants_counters(&self) -> bool {
        self.ask == Ask::Counters
    }

    /// Whether counting begins anew: for what no method here does it.
    #[inline]
    pub fn begins_anew(&self) -> bool {
        self.ask == Ask::Anew
    }

    /// A figure that says how things stand, or follows from others. Its name has its unit as suffix (`_bytes`, `_ns`, `_pages`).
    #[inline]
    pub fn put(&mut self, name: &'static str, value: u64) {
        if self.ask == Ask::Counters {
            self.counters.push(Counter { name, value });
        }
    }

    /// A figure that counts, from nothing when counting begins anew.
    #[inline]
    pub fn count(&mut self, name: &'static str, figure: &mut impl Figure) {
        self.put(name, figure.value());
        self.restart(figure);
    }

    /// What several figures were made from: it is as at first when counting begins anew.
    #[inline]
    pub fn restart<T: Default>(&mut self, counts: &mut T) {
        if self.ask == Ask::Anew {
            *counts = T::default();
        }
    }

    /// Busy time of `parts` parts of a kind, from nothing when counting begins anew.
    pub fn busy(&mut self, resource: Resource, time: &mut Span, parts: u32) {
        self.put_busy(resource, *time, parts);
        self.restart(time);
    }

    /// The same of a time that is a sum.
    pub fn put_busy(&mut self, resource: Resource, time: Span, parts: u32) {
        if self.ask == Ask::Busy {
            self.busy.push((resource, time, parts));
        }
    }

    /// What was drawn between the two moments that `parts` is given.
    pub fn energy(&mut self, parts: impl FnOnce(Instant, Instant, &mut Vec<EnergyPart>)) {
        if let Ask::Energy { from, to } = self.ask {
            parts(from, to, &mut self.energy);
        }
    }

    /// How its flash wears.
    pub fn wear<R: IntoIterator<Item = WearRegion>>(&mut self, regions: impl FnOnce() -> R) {
        if self.ask == Ask::Wear {
            self.wear.extend(regions());
        }
    }

    /// The space of each tenant.
    pub fn spaces(&mut self, spaces: impl FnOnce(&mut Vec<TenantSpace>)) {
        if self.ask == Ask::Spaces {
            spaces(&mut self.spaces);
        }
    }

    /// The blocks of a flash device.
    pub fn flash_map(&mut self, map: impl FnOnce() -> FlashMap) {
        if self.ask == Ask::FlashMap {
            self.flash_map = Some(map());
        }
    }

    /// The lanes that are noted here while they are watched.
    pub fn lanes(&mut self, lanes: &mut Option<Timeline>) {
        match self.ask {
            Ask::Watch { from, to } => *lanes = Some(Timeline::new(from, to)),
            Ask::Lanes => self.lanes.clone_from(lanes),
            _ => {}
        }
    }

    /// The value of the counter `name`; nothing where there is none.
    pub fn counter(&self, name: &str) -> Option<u64> {
        Counter::find(&self.counters, name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_visit_asks_for_one_thing() {
        let figures = |ask, counted: &mut u64, busy: &mut Span| {
            let mut report = Report::new(ask);
            report.count("counted", counted);
            report.put("stands", 7);
            report.busy(Resource::Head, busy, 2);
            report.wear(|| -> [WearRegion; 0] { panic!("nobody asked") });
            (report.counters, report.busy)
        };
        let (mut counted, mut busy) = (3, Span(5));
        let all = [Counter { name: "counted", value: 3 }, Counter { name: "stands", value: 7 }];
        assert_eq!(figures(Ask::Counters, &mut counted, &mut busy), (all.to_vec(), vec![]));
        assert_eq!(figures(Ask::Busy, &mut counted, &mut busy), (vec![], vec![(Resource::Head, Span(5), 2)]));
        assert_eq!((counted, busy), (3, Span(5)), "asking changes nothing");
        assert_eq!(figures(Ask::Anew, &mut counted, &mut busy), (vec![], vec![]));
        assert_eq!((counted, busy), (0, Span::ZERO));
    }
}
