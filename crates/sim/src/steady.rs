//! Whether a run was in steady state, by the rule of SNIA's Solid State Storage Performance Test Specification (PTS, "steady
//! state", the same in versions 1.0 to 2.0): over a measurement window of five rounds,
//!
//! - the highest and the lowest value lie within 20 % of the average of each other, and
//! - the line fitted by least squares rises or falls by no more than 10 % of the average from the first to the last round.
//!
//! In the specification a round is one pass of a test loop, a minute or so of a fixed load. A trace has no loop. Here the *whole
//! measurement* is the window, because its figures are what is reported, and a round is a fifth of it: equally long
//! stretches of simulated time. What the windows of the history do not divide is left out at the start.
//!
//! What is followed: requests per second where the stack sets the pace (a closed loop); the mean latency where the trace sets it
//! (recorded times, a fixed rate), because its throughput is the trace's own. Such a load is judged by the same rule before the drive
//! is: where the requests or the bytes of the rounds are not within it, the *load varies*, and nothing is said of the drive. Where requests come faster than they
//! are served the rounds show what the stack can do, and not the load: such a run is not steady.
//! The specification conditions drives before it measures. Here a drive that [uses up](crate::spare) erased blocks is not steady, however level its figures are.
//! Fewer than [`LEAST`] requests in a round are *too few*: the mean of so few latencies would not lie still in a drive that does.

use crate::decimals;
use crate::metrics::Window;
use serde::Serialize;

/// Rounds of a measurement window.
pub const ROUNDS: usize = 5;

/// Least requests of a round.
pub const LEAST: u64 = 1000;

/// The rule, for those who read a result.
pub const RULE: &str = "steady: in five equal parts of the run, IOPS (closed loop) or mean latency (open loop) lie within\n\
20 % of their average, their fitted line rises or falls by at most 10 % (SNIA PTS), and no drive\n\
uses up its erased blocks";

/// What is said of a run that is [too short](State::TooShort), with what it lacks.
pub const TOO_SHORT: &str =
    "too short to show a steady state: each fifth of a run has to have 1,000 requests and to last 1 ms";

/// What is known of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum State {
    /// Both conditions hold.
    #[serde(rename = "steady")]
    Steady,
    /// One does not, a drive uses up its erased blocks, or requests came faster than they were served.
    #[serde(rename = "not steady")]
    NotSteady,
    /// What is asked of the stack changes by more than the conditions allow, so that they say nothing of the stack.
    #[serde(rename = "load varies")]
    LoadVaries,
    /// The rounds have too few requests.
    #[serde(rename = "too short")]
    TooShort,
}

impl State {
    /// As it is serialised.
    pub fn name(self) -> &'static str {
        match self {
            State::Steady => "steady",
            State::NotSteady => "not steady",
            State::LoadVaries => "load varies",
            State::TooShort => "too short",
        }
    }
}

/// The verdict.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SteadyState {
    /// Whether both conditions hold, and no drive uses up its erased blocks.
    #[serde(rename = "attained")]
    pub is_steady: bool,
    /// Whether a drive programmed so much more than it cleared that its erased blocks come to an end.
    pub uses_up_spare: bool,
    /// Whether the load itself does not meet them: then they say nothing of the stack.
    pub load_varies: bool,
    /// `requests per second` or `mean latency in ns`.
    pub metric: &'static str,
    /// Its value in each round.
    pub rounds: [u64; ROUNDS],
    /// Highest less lowest, in thousandths of the average: at most 200.
    #[serde(rename = "excursion", serialize_with = "decimals::one")]
    pub excursion_thousandths: u64,
    /// What the fitted line rises or falls by, in thousandths of the average: at most 100.
    #[serde(rename = "slope", serialize_with = "decimals::one")]
    pub slope_thousandths: u64,
}

/// The rule on the values of five rounds; `None` when they are all zero.
pub fn judge(metric: &'static str, rounds: [u64; ROUNDS]) -> Option<SteadyState> {
    let wide = rounds.map(i128::from);
    let sum: i128 = wide.iter().sum();
    if sum == 0 {
        return None;
    }
    let range = wide.iter().max()? - wide.iter().min()?;
    // The fitted line through the rounds 1 to 5 rises by sum((x - 3) y) / 10 a round, four times that from first to last.
    let moment: i128 = (-2i128..).zip(wide).map(|(x, y)| x * y).sum();
    let rise = moment.abs() * 4;
    Some(SteadyState {
        // range <= 20 % of sum / 5; rise / 10 <= 10 % of sum / 5.
        is_steady: range * 25 <= sum && rise * 5 <= sum,
        uses_up_spare: false,
        load_varies: false,
        metric,
        rounds,
        excursion_thousandths: (range * 5000 / sum) as u64,
        slope_thousandths: (rise * 500 / sum) as u64,
    })
}

/// The verdict on a history of equal windows, `window_ns` long, of which the last may be cut short; `None` when there are too
/// few for five rounds or one of them has too few requests.
pub fn of_history(
    windows: &[Window],
    window_ns: u64,
    duration_ns: u64,
    by_latency: bool,
) -> Option<SteadyState> {
    let whole = usize::try_from(duration_ns / window_ns.max(1)).ok()?.min(windows.len());
    let length = whole / ROUNDS;
    let first = whole - length * ROUNDS;
    if length == 0 {
        return None;
    }
    let (mut rounds, mut requests, mut bytes) = ([0; ROUNDS], [0; ROUNDS], [0; ROUNDS]);
    for (i, round) in windows[first..whole].chunks(length).enumerate() {
        requests[i] = round.iter().map(|w| w.requests).sum();
        bytes[i] = round.iter().map(|w| w.bytes).sum();
        let latency: u128 = round.iter().map(|w| u128::from(w.latency_total)).sum();
        let time = u128::from(window_ns) * length as u128;
        let n = u128::from(requests[i]);
        rounds[i] = if by_latency { latency.checked_div(n)? } else { n * 1_000_000_000 / time } as u64;
    }
    if requests.iter().any(|&n| n < LEAST) {
        return None;
    }
    let lies_still = |of| judge("the load", of).is_none_or(|verdict| verdict.is_steady);
    let load_varies = by_latency && !(lies_still(requests) && lies_still(bytes));
    let verdict = judge(if by_latency { "mean latency in ns" } else { "requests per second" }, rounds)?;
    Some(SteadyState { load_varies, ..verdict })
}

impl SteadyState {
    /// The same of a run whose requests came faster than they were served, or did not: what ends in a round is then what the stack could do, and says nothing
    /// of the load; and latency that grows without end is not steady.
    pub(crate) fn with_saturation(self, saturated: bool) -> SteadyState {
        let (is_steady, load_varies) = (self.is_steady && !saturated, self.load_varies && !saturated);
        SteadyState { is_steady, load_varies, ..self }
    }

    /// The same of a run in which a drive used up erased blocks, or none did.
    pub(crate) fn with_spare(self, uses_up_spare: bool) -> SteadyState {
        SteadyState { is_steady: self.is_steady && !uses_up_spare, uses_up_spare, ..self }
    }
}

/// What a verdict, or that there is none, says of the run.
pub fn state(verdict: Option<&SteadyState>) -> State {
    match verdict {
        None => State::TooShort,
        Some(verdict) if verdict.load_varies => State::LoadVaries,
        Some(verdict) if verdict.is_steady => State::Steady,
        Some(_) => State::NotSteady,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_steady(rounds: [u64; ROUNDS]) -> bool {
        judge("requests per second", rounds).unwrap().is_steady
    }

    #[test]
    fn the_range_may_be_a_fifth_of_the_average_and_no_more() {
        // Average 1000, no slope: 900 to 1100 is 20 %.
        assert!(is_steady([1000, 900, 1000, 1100, 1000].map(|y| y * 10)), "slope 8 %");
        assert!(is_steady([900, 1100, 1000, 1100, 900]), "range 20 %");
        assert!(!is_steady([899, 1101, 1000, 1101, 899]), "range 20.2 %");
    }

    #[test]
    fn the_fitted_line_may_rise_or_fall_by_a_tenth_of_the_average() {
        // A straight line from 950 to 1050 rises by 10 %; the range is as much and would allow twice that.
        assert!(is_steady([950, 975, 1000, 1025, 1050]));
        assert!(is_steady([1050, 1025, 1000, 975, 950]));
        assert!(!is_steady([948, 974, 1000, 1026, 1052]), "10.4 %");
        assert!(!is_steady([1052, 1026, 1000, 974, 948]));
        let verdict = judge("requests per second", [948, 974, 1000, 1026, 1052]).unwrap();
        assert_eq!((verdict.excursion_thousandths, verdict.slope_thousandths), (104, 104));
    }

    #[test]
    fn a_drive_that_runs_out_of_free_blocks_is_not_steady_and_then_is() {
        // The shape of the specification's convergence plots: fresh out of the box, transition, steady state.
        let rate = [60_000, 42_000, 20_000, 9_500, 8_100, 7_900, 8_000, 8_050, 7_950];
        let verdicts: Vec<bool> =
            rate.windows(ROUNDS).map(|five| is_steady(five.try_into().expect("five rounds"))).collect();
        assert_eq!(verdicts, [false, false, false, false, true]);
    }

    /// The obvious way: a fit in floating point.
    #[test]
    fn whole_numbers_agree_with_a_fit() {
        let seed = 4;
        let mut rng = nandu_base::Rng::new(seed);
        for turn in 0..10_000 {
            let y = [0; ROUNDS].map(|_| 900 + rng.below(250));
            let average = y.iter().sum::<u64>() as f64 / 5.0;
            let slope = (0..5).map(|x| (x as f64 - 2.0) * (y[x] as f64 - average)).sum::<f64>() / 10.0;
            let range = (y.iter().max().unwrap() - y.iter().min().unwrap()) as f64;
            let near =
                (4.0 * slope.abs() - 0.1 * average).abs() < 1e-6 || (range - 0.2 * average).abs() < 1e-6;
            let want = range <= 0.2 * average && 4.0 * slope.abs() <= 0.1 * average;
            assert!(near || is_steady(y) == want, "seed {seed}, turn {turn}: {y:?}");
        }
    }

    fn window(requests: u64) -> Window {
        Window { requests, latency_total: requests * 500, ..Window::default() }
    }

    #[test]
    fn rounds_are_fifths_of_whole_windows() {
        // Twelve whole windows and one cut short: the first two are left out.
        let mut windows: Vec<Window> = vec![window(999_000), window(1)];
        windows.extend([10, 10, 11, 9, 10, 10, 10, 10, 10, 10].map(|n| window(n * 1000)));
        windows.push(window(3));
        let verdict = of_history(&windows, 1_000_000, 12_400_000, false).unwrap();
        assert_eq!((verdict.rounds, verdict.is_steady), ([10_000_000; 5], true));
        assert_eq!(of_history(&windows, 1_000_000, 12_400_000, true).unwrap().rounds, [500; 5]);
        assert_eq!(of_history(&windows, 1_000_000, 4_000_000, true), None);
        windows[3] = window(999);
        windows[2] = window(0);
        assert_eq!(of_history(&windows, 1_000_000, 12_400_000, true), None, "one request too few");
        windows[2] = window(1);
        assert!(of_history(&windows, 1_000_000, 12_400_000, true).is_some());
    }

    #[test]
    fn a_load_that_varies_says_nothing_of_the_stack_that_it_waits_for() {
        let rises: Vec<Window> = [10, 10, 10, 10, 14].map(|n| window(n * 1000)).to_vec();
        let of = |by_latency| state(of_history(&rises, 1_000_000, 5_000_000, by_latency).as_ref());
        assert_eq!((of(true), of(false)), (State::LoadVaries, State::NotSteady));
        let larger: Vec<Window> =
            [1, 1, 1, 1, 2].map(|bytes| Window { bytes: bytes * 9000, ..window(5000) }).to_vec();
        let of = |by_latency| state(of_history(&larger, 1_000_000, 5_000_000, by_latency).as_ref());
        assert_eq!((of(true), of(false)), (State::LoadVaries, State::Steady));
        let saturated =
            |verdict: Option<SteadyState>| state(verdict.map(|v| v.with_saturation(true)).as_ref());
        assert_eq!(saturated(of_history(&rises, 1_000_000, 5_000_000, true)), State::NotSteady);
        let level: Vec<Window> = vec![window(5000); 5];
        let verdict = || of_history(&level, 1_000_000, 5_000_000, true);
        assert_eq!((state(verdict().as_ref()), saturated(verdict())), (State::Steady, State::NotSteady));
        assert_eq!(state(None).name(), "too short");
        assert!(
            TOO_SHORT.starts_with(State::TooShort.name()) && TOO_SHORT.contains("1,000") && LEAST == 1000
        );
    }
}
