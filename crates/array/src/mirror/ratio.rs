//! How far apart the legs are: for each write that both legs had under way at once, how many times as long the slower leg
//! took (paper section 4.2, Fig 9 and 10; C1-7 to C1-10).
//!
//! Powers of two are counted, for each leg apart, with the largest ratio. Writes that wait in a delay queue do not count:
//! their time is that of the queue. Cost: one division for each write; 152 B.

use nandu_base::{Report, Span};

/// Ratios told apart: below 2, from 2, from 4, ... from 256 on.
const STEPS: usize = 9;

/// The ratios of a run.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ratios {
    /// Writes by the power of two of the ratio, by the leg that was slower.
    steps: [[u64; STEPS]; 2],
    /// The largest ratio, in thousandths.
    most: [u64; 2],
}

/// Names of the counters: at least so many times as long.
const NAMES: [[&str; STEPS]; 2] = [
    [
        "leg_a_slower",
        "leg_a_slower_2x",
        "leg_a_slower_4x",
        "leg_a_slower_8x",
        "leg_a_slower_16x",
        "leg_a_slower_32x",
        "leg_a_slower_64x",
        "leg_a_slower_128x",
        "leg_a_slower_256x",
    ],
    [
        "leg_b_slower",
        "leg_b_slower_2x",
        "leg_b_slower_4x",
        "leg_b_slower_8x",
        "leg_b_slower_16x",
        "leg_b_slower_32x",
        "leg_b_slower_64x",
        "leg_b_slower_128x",
        "leg_b_slower_256x",
    ],
];

impl Ratios {
    /// `leg` took `slow`, the other one `fast`, which is not longer.
    #[inline]
    pub(super) fn add(&mut self, leg: usize, slow: Span, fast: Span) {
        let fast = fast.0.max(1);
        let times = (slow.0 / fast).max(1);
        self.steps[leg][(times.ilog2() as usize).min(STEPS - 1)] += 1;
        let thousandths = (u128::from(slow.0) * 1000 / u128::from(fast)).min(u128::from(u64::MAX)) as u64;
        self.most[leg] = self.most[leg].max(thousandths);
    }

    /// Writes for which a leg took at least so many times as long as the other, for each power of two.
    pub(super) fn report(&mut self, report: &mut Report) {
        for (leg, names) in NAMES.iter().enumerate() {
            let mut above: u64 = self.steps[leg].iter().sum();
            for (step, name) in names.iter().enumerate() {
                report.put(name, above);
                above -= self.steps[leg][step];
            }
        }
        for (leg, name) in
            ["leg_a_slower_most_thousandths", "leg_b_slower_most_thousandths"].into_iter().enumerate()
        {
            report.put(name, self.most[leg]);
        }
        report.restart(self);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandu_base::Ask;

    #[test]
    fn ratios_are_those_of_a_list() {
        let seed = 7;
        let mut rng = nandu_base::Rng::new(seed);
        let (mut ratios, mut list) = (Ratios::default(), Vec::new());
        for _ in 0..2_000 {
            let (fast, leg) = (rng.below(50), rng.below(2) as usize);
            let most = 1 << rng.below(14);
            let slow = fast + rng.below(most);
            ratios.add(leg, Span(slow), Span(fast));
            list.push((leg, slow, fast.max(1)));
        }
        let mut report = Report::new(Ask::Counters);
        ratios.report(&mut report);
        for (leg, names) in NAMES.iter().enumerate() {
            for (step, name) in names.iter().enumerate() {
                let least = if step == 0 { 0 } else { 1 << step };
                let are = list.iter().filter(|w| w.0 == leg && w.1 >= least * w.2).count() as u64;
                let told = report.counter(name);
                assert_eq!(told, Some(are), "seed {seed}, {name}");
            }
            let most = list.iter().filter(|w| w.0 == leg).map(|w| w.1 * 1000 / w.2).max();
            assert_eq!(Some(ratios.most[leg]), most, "seed {seed}, leg {leg}");
        }
    }
}
