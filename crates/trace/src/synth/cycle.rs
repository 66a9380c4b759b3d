//! A load that comes in phases: a busy part and a quiet part, again and again, as by day and by night.
//!
//! Arrivals are drawn as for a load that does not change, on a clock of their own, and that clock is bent: in each cycle the first `share` of
//! its time passes in the first `busy` of the cycle. So `share` of the requests arrive in `busy` of the time, the mean over whole
//! cycles is what it was, and operations, sizes and places stay the same. `offset` says where in its cycle the load begins: two
//! loads with offsets half a cycle apart are busy in turns.
//!
//! Not after a published trace: the length of a day and its shape are settings. Cost: two divisions for each request.

use super::ALL;
use nandu_base::{Ratio, Span, options};
use serde::Serialize;

/// Settings of a [`Cycle`].
#[options]
#[derive(Clone, Copy, Debug, Serialize)]
pub struct CycleParams {
    /// Length of a cycle of a busy and a quiet phase.
    #[option(default = Span::ZERO, off = "a load that does not change over time", range = Span::from_ms(1)..)]
    pub period: Span,
    /// Part of a cycle that is busy.
    #[option(default = Ratio::new(1, 4), above = Ratio::ZERO, below = ALL)]
    pub busy: Ratio,
    /// Share of the requests that arrive in it.
    #[option(default = Ratio::new(9, 10), above = Ratio::ZERO, below = ALL)]
    pub busy_share: Ratio,
    /// Part of a cycle that is over when the load begins.
    #[option(default = Ratio::ZERO, below = ALL)]
    pub offset: Ratio,
}

/// A clock that is bent.
#[derive(Clone, Copy, Debug)]
pub struct Cycle {
    period: u64,
    /// The busy part by the steady clock and by the bent one.
    steady: u64,
    bent: u64,
    /// What is over at the start, on both.
    steady_start: u64,
    bent_start: u64,
}

impl Cycle {
    /// The cycle of settings that were checked; `None` for a load that does not change.
    pub fn new(p: CycleParams) -> Option<Cycle> {
        if p.period == Span::ZERO {
            return None;
        }
        // Shares lie within 0 and 1, and a cycle has a million nanoseconds at least; both parts of it have one.
        let part = |share: Ratio| share.of(p.period.0).clamp(1, p.period.0 - 1);
        let (steady, bent, bent_start) = (part(p.busy_share), part(p.busy), p.offset.of(p.period.0));
        let (busy, quiet) = ((bent, steady), (p.period.0 - bent, p.period.0 - steady));
        let steady_start = match bent_start.checked_sub(bent) {
            None => scale(bent_start, busy),
            Some(over) => steady + scale(over, quiet),
        };
        Some(Cycle { period: p.period.0, steady, bent, steady_start, bent_start })
    }

    /// When what a steady load does at `ns` happens.
    #[inline]
    pub fn bend(&self, ns: u64) -> u64 {
        let at = ns.saturating_add(self.steady_start);
        let (cycles, within) = (at / self.period, at % self.period);
        let bent = match within.checked_sub(self.steady) {
            None => scale(within, (self.steady, self.bent)),
            Some(over) => self.bent + scale(over, (self.period - self.steady, self.period - self.bent)),
        };
        (cycles * self.period).saturating_add(bent).saturating_sub(self.bent_start)
    }
}

/// `ns` of the first length as a part of the second.
#[inline]
fn scale(ns: u64, (from, to): (u64, u64)) -> u64 {
    (u128::from(ns) * u128::from(to) / u128::from(from)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandu_base::options::Options;
    use proptest::prelude::*;

    fn params(offset: Ratio) -> CycleParams {
        CycleParams { period: Span::from_ms(100), offset, ..CycleParams::default() }
    }

    #[test]
    fn nine_of_ten_requests_arrive_in_a_quarter_of_the_time() {
        let cycle = Cycle::new(params(Ratio::ZERO)).unwrap();
        let ms = |n: u64| cycle.bend(n * 1_000_000) / 1_000_000;
        assert_eq!([0, 45, 90, 95, 100, 190].map(ms), [0, 12, 25, 62, 100, 125]);
    }

    #[test]
    fn a_load_begins_where_its_offset_says() {
        let cycle = Cycle::new(params(Ratio::new(1, 2))).unwrap();
        // Half of a cycle is over: the other half brings what is left of the quiet part, 6.7 of 100 ms.
        assert_eq!(cycle.bend(0), 0);
        assert_eq!(cycle.bend(6_666_667) / 1_000_000, 50);
        assert_eq!(cycle.bend(96_666_667) / 1_000_000, 75);
    }

    #[test]
    fn what_does_not_change_has_no_cycle_and_bad_settings_are_refused() {
        assert!(Cycle::new(CycleParams::default()).is_none());
        let bad = |p: CycleParams| p.check_ranges().unwrap_err().key.expect("an option");
        assert_eq!(bad(CycleParams { period: Span(1), ..params(Ratio::ZERO) }), "period");
        assert_eq!(bad(CycleParams { busy: Ratio::new(1, 1), ..params(Ratio::ZERO) }), "busy");
        assert_eq!(bad(CycleParams { busy_share: Ratio::ZERO, ..params(Ratio::ZERO) }), "busy_share");
        assert_eq!(bad(params(Ratio::new(1, 1))), "offset");
    }

    proptest! {
        /// Time never runs back, whole cycles take as long as before, and the obvious model agrees: walk along the cycles.
        #[test]
        fn agrees_with_walking_along_the_cycles(
            busy in 1u64..20,
            share in 1u64..20,
            offset in 0u64..20,
            at in prop::collection::vec(0u64..2_000_000_000, 1..20),
        ) {
            let part = |n: u64| Ratio::new(n, 20);
            let p = CycleParams { period: Span::from_ms(20), busy: part(busy), busy_share: part(share), offset: part(offset) };
            prop_assert!(p.check_ranges().is_ok());
            let cycle = Cycle::new(p).unwrap();
            let mut at = at;
            at.sort_unstable();
            let mut last = 0;
            for ns in at {
                let bent = cycle.bend(ns);
                prop_assert!(bent >= last);
                last = bent;
                prop_assert!(cycle.bend(ns + 20_000_000).abs_diff(bent + 20_000_000) <= 2);
                // In milliseconds of the bent clock, from the start of its cycle: a millisecond holds this much of the steady one.
                let holds = |ms: u64| match ms % 20 < busy {
                    true => share as f64 / busy as f64,
                    false => (20 - share) as f64 / (20 - busy) as f64,
                };
                let (mut left, mut walked) = (ns as f64 / 1e6, 0.0);
                for ms in offset.. {
                    let step = holds(ms);
                    if left <= step {
                        walked += left / step;
                        break;
                    }
                    left -= step;
                    walked += 1.0;
                }
                prop_assert!((walked - bent as f64 / 1e6).abs() < 1e-3, "{} at {}, {} walked", bent, ns, walked);
            }
        }
    }
}
