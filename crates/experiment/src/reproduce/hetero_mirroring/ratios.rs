//! Fig 4, 9 and 10: the times of single writes. How often the drive freezes, and how far the legs are apart.
//!
//! For the ratios both legs get every write at the same moment, one write at a time. The mirror is run first; then each leg
//! alone gets the writes at the times at which the mirror had let them in. A device does the same for the same requests, so
//! that these are the legs' times within the mirror; how many add up to the mirror's own time is in the reasons. The third
//! set-up has as many in the system as Fig 7 and 8 have for the responses of Fig 9 and 10, and one at a time for the wait limit.
//!
//! Once more the ratios are taken inside the mirror itself, by the answers of its legs, as the mirror counts them: with a queue before each leg no
//! leg alone takes as long as within the mirror, for a queue that differs by one write goes on differing.

use super::{CAP, Drive, HDD_1, HETE_MR, SSD_1, counter, measured, small_files};
use crate::failure::Failure;
use crate::reproduce::runner::{Load, Runner};
use crate::reproduce::watch::{Runs, Times, Watch, Watched};
use crate::reproduce::{Figure, Findings, Shape};
use nandu_base::{Instant, Span};
use nandu_sim::RunResult;

/// Writes of a figure.
const DRAWN: usize = 1_000;
/// A write is slow beyond so many medians.
const SLOW: u64 = 10;
/// Multiples of the faster leg's time that are tried as wait limit, in tenths.
const LIMITS: [u64; 9] = [10, 13, 15, 18, 20, 25, 30, 50, 100];
/// Why a mirror says nothing of how far its legs are apart.
const ALWAYS_DELAYED: &str = "one leg is delayed all the time, and its writes wait in the queue";

pub(super) fn measure(runner: &Runner, drive: Drive, found: &mut Findings) -> Result<(), Failure> {
    let caps: &[u32] = if drive.open { &[1, CAP] } else { &[1] };
    let wanted: Vec<(u64, u32)> = caps.iter().flat_map(|&cap| [(100, cap), (200, cap)]).collect();
    let pairs = Pair::run(runner, drive, &wanted)?;
    let (single, open) = pairs.split_at(2);
    let pairs = if open.is_empty() { single } else { open };
    let [calm, busy] = pairs else { unreachable!("there is one for each of two loads") };
    let once = largest(calm, drive, "C1-7", found);
    let twice = largest(busy, drive, "C1-8", found);
    let reason = format!("{twice:.1} against {once:.1}");
    found.measured.push(measured("C1-8", &drive.case("twice the load"), twice / once, &busy.result, reason));
    found.moot_unless(once > 0.0, "the drive is never the slower leg");
    for (n, case) in ["100/s", "200/s"].into_iter().enumerate() {
        frozen(&drive.case(case), [calm, busy][n], found);
        within(&drive.case(case), &single[n], open.get(n), found);
    }
    limits(single, drive, found);
    inside(runner, drive, found)
}

/// C1-10 alone, at these loads.
pub(super) fn wait_limit(
    runner: &Runner,
    drive: Drive,
    loads: &[u64],
    found: &mut Findings,
) -> Result<(), Failure> {
    let single: Vec<(u64, u32)> = loads.iter().map(|&per_second| (per_second, 1)).collect();
    for (per_second, pair) in loads.iter().zip(&Pair::run(runner, drive, &single)?) {
        within(&drive.case(&format!("{per_second}/s")), pair, None, found);
    }
    Ok(())
}

/// C1-7, C1-8 within the mirror: how far its legs are apart on the writes that both had under way at once.
///
/// While Hete-Mr delays a leg, nothing is under way on both. So the paper's pair is also run as a mirror that delays nothing.
fn inside(runner: &Runner, drive: Drive, found: &mut Findings) -> Result<(), Failure> {
    within_mirror(runner, drive, "inside", &[], found)?;
    if drive.open {
        let both = [("device.mirror.write_ack", "\"both\"")];
        within_mirror(runner, drive, "inside, none delayed", &both, found)?;
    }
    Ok(())
}

/// The cases of [`inside`] that begin with `prefix`, with these options of the mirror.
fn within_mirror(
    runner: &Runner,
    drive: Drive,
    prefix: &str,
    set: &[(&str, &str)],
    found: &mut Findings,
) -> Result<(), Failure> {
    let case = |name: &str| drive.case(&format!("{prefix}, {name}"));
    let count = DRAWN as u64;
    let mut largest = [0.0; 2];
    for (n, (id, per_second)) in [("C1-7", 100), ("C1-8", 200)].into_iter().enumerate() {
        let load = Load { requests: Some(runner.requests / 3 + count), ..small_files(per_second) };
        let setup = drive.setup("mirror", HETE_MR, set);
        let result = runner.last(&[setup], &load, CAP, count)?.remove("mirror").expect("it was run");
        let counted = |name: &str| counter(&result, "mirror", name);
        let times = |leg: &str| counted(&format!("leg_{leg}_slower_most_thousandths")) as f64 / 1e3;
        largest[n] = times("a");
        let both = counted("leg_a_slower") + counted("leg_b_slower");
        let reason = format!(
            "{:.1} where the disk is slower; {both} writes were under way on both legs at once, of {count} and those in the system before",
            times("b"),
        );
        found.measured.push(measured(id, &case("largest"), largest[n], &result, reason));
        found.moot_unless(both > 0, ALWAYS_DELAYED);
        let [flash, disk] = ["a", "b"].map(|leg| counted(&format!("leg_{leg}_slower_8x")));
        let reason = format!("{flash} writes on which the drive is slower, {disk} on which the disk is");
        let share = flash as f64 * 100.0 / (flash + disk).max(1) as f64;
        found.measured.push(measured(id, &case("whose fault"), share, &result, reason));
        found.moot_unless(flash + disk > 0, "no write is 8 times as long on one leg as on the other");
        if id == "C1-8" {
            let [once, twice] = largest;
            let reason = format!("{twice:.1} against {once:.1}");
            found.measured.push(measured(id, &case("twice the load"), twice / once, &result, reason));
            found.moot_unless(both > 0, ALWAYS_DELAYED);
        }
    }
    Ok(())
}

/// Both legs' times of each write of one run.
pub(super) struct Pair {
    ssd: Vec<Span>,
    disk: Vec<Span>,
    result: RunResult,
    /// Writes on which the slower leg alone takes as long as the mirror did.
    pub agree: usize,
    /// Writes a second that were let in.
    rate: f64,
}

impl Pair {
    /// One for each of so many writes a second with so many in the system at most.
    pub fn run(runner: &Runner, drive: Drive, wanted: &[(u64, u32)]) -> Result<Vec<Pair>, Failure> {
        let mirror = || vec![drive.setup("mirror", HETE_MR, &[("device.mirror.write_ack", "\"both\"")])];
        let watch = |&(per_second, cap): &(u64, u32)| Watch::plain(mirror(), small_files(per_second), cap);
        let wholes = runner.watch_all(&wanted.iter().map(watch).collect::<Vec<_>>())?;
        let wholes: Vec<Watched> =
            wholes.into_iter().map(|mut runs| runs.remove("mirror").expect("it was run")).collect();
        // The platters turn by the clock, and opening the mirror took its time.
        let let_in = |whole: &Watched| {
            let opened = whole.start.since(Instant::ZERO);
            whole.times.let_in.iter().map(|&at| opened + at).collect()
        };
        let times: Vec<Vec<Span>> = wholes.iter().map(let_in).collect();
        let legs = || vec![drive.setup("ssd", SSD_1, &[]), drive.setup("disk", HDD_1, &[])];
        let watches = wanted.iter().zip(&times).map(|(&(per_second, _), times)| {
            let all = u32::try_from(times.len()).unwrap_or(u32::MAX);
            Watch { at: Some(times), ..Watch::plain(legs(), small_files(per_second), all) }
        });
        let runs = runner.watch_all(&watches.collect::<Vec<_>>())?;
        Ok(wholes.into_iter().zip(runs).map(|(whole, runs)| Pair::of(whole, &runs)).collect())
    }

    /// The times of the mirror `whole` and of its legs alone.
    fn of(whole: Watched, legs: &Runs) -> Pair {
        let first = whole.times.first();
        let times = |t: &Times| (first..t.end.len()).map(|n| t.end[n] - t.let_in[n]).collect::<Vec<_>>();
        let (ssd, disk) = (times(&legs["ssd"].times), times(&legs["disk"].times));
        let own = times(&whole.times);
        let agree = (0..own.len()).filter(|&n| ssd[n].longer(disk[n]) == own[n]).count();
        Pair { ssd, disk, rate: whole.times.per_second(), result: whole.result, agree }
    }

    /// SSD / HDD where the drive is slower, else below zero HDD / SSD, as the paper draws it.
    fn ratios(&self) -> impl Iterator<Item = f64> + '_ {
        self.ssd.iter().zip(&self.disk).map(|(s, d)| {
            let (s, d) = (s.0.max(1) as f64, d.0.max(1) as f64);
            if s >= d { s / d } else { -d / s }
        })
    }
}

/// C1-7, C1-8: the largest ratio of a figure, and whose fault it is.
fn largest(pair: &Pair, drive: Drive, id: &'static str, found: &mut Findings) -> f64 {
    let drawn: Vec<f64> = pair.ratios().take(DRAWN).collect();
    let largest = drawn.iter().copied().fold(0.0, f64::max);
    let least = drawn.iter().copied().fold(0.0, f64::min);
    let all = pair.ratios().fold(0.0, f64::max);
    let reason = format!(
        "{:.1} where the disk is slower; {all:.1} over all {} writes, of which {} take the mirror as long as the slower leg \
         alone; {:.0} a second were let in",
        -least,
        pair.ssd.len(),
        pair.agree,
        pair.rate,
    );
    found.measured.push(measured(id, &drive.case("largest"), largest, &pair.result, reason));
    let flash = pair.ratios().filter(|r| *r > SLOW as f64).count();
    let disk = pair.ratios().filter(|r| *r < -(SLOW as f64)).count();
    let reason = format!("{flash} writes on which the drive is slower, {disk} on which the disk is");
    let share = flash as f64 * 100.0 / (flash + disk).max(1) as f64;
    found.measured.push(measured(id, &drive.case("whose fault"), share, &pair.result, reason));
    found.moot_unless(flash + disk > 0, "no write is 10 times as long on one leg as on the other");
    let (figure, load) = if id == "C1-7" { (9, 100) } else { (10, 200) };
    found.figures.push(Figure {
        shape: Shape::Bars,
        title: format!(
            "{}Fig {figure}: response of the slower leg by the faster one's, {load} writes/s",
            drive.prefix
        ),
        x: "write",
        y: "SSD / HDD above zero, HDD / SSD below",
        lines: vec![(
            "ratio".into(),
            drawn.into_iter().enumerate().map(|(n, ratio)| (n as f64 + 1.0, ratio)).collect(),
        )],
    });
    largest
}

fn median(times: &[Span]) -> Span {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    sorted.get(sorted.len() / 2).copied().unwrap_or(Span::ZERO)
}

/// C1-9: writes that are slow on both legs.
fn frozen(case: &str, pair: &Pair, found: &mut Findings) {
    let limits = [median(&pair.ssd) * SLOW, median(&pair.disk) * SLOW];
    let slow = |n: usize| [pair.ssd[n] > limits[0], pair.disk[n] > limits[1]];
    let all: Vec<[bool; 2]> = (0..pair.ssd.len()).map(slow).collect();
    let both = all.iter().filter(|s| s[0] && s[1]).count();
    let [drive, disk] = [0, 1].map(|leg| all.iter().filter(|s| s[leg]).count());
    let reason = format!(
        "{drive} slow on the drive, {disk} on the disk; medians {} and {}",
        median(&pair.ssd),
        median(&pair.disk),
    );
    found.measured.push(measured("C1-9", case, both as f64, &pair.result, reason));
    found.moot_unless(drive > 0 && disk > 0, "one of the legs has no slow write at all");
}

/// Percent of writes that the slower leg has within `tenths` tenths of the faster leg's time after it.
fn share_within(pair: &Pair, tenths: u64) -> f64 {
    let within = |(s, d): &(&Span, &Span)| {
        let (fast, slow) = (s.0.min(d.0), s.0.max(d.0));
        (slow - fast) * 10 <= fast * tenths
    };
    let count = pair.ssd.iter().zip(&pair.disk).filter(within).count();
    count as f64 * 100.0 / pair.ssd.len().max(1) as f64
}

/// C1-10; with more writes in the system in the reason.
fn within(case: &str, pair: &Pair, open: Option<&Pair>, found: &mut Findings) {
    let counted = |name| counter(&pair.result, "mirror", name);
    let mut reason = format!(
        "{:.1} % within 3 times; of all writes the disk took twice as long or more on {}, the drive on {}",
        share_within(pair, 30),
        counted("leg_b_slower_2x"),
        counted("leg_a_slower_2x"),
    );
    if let Some(open) = open {
        reason += &format!("; with {CAP} in the system {:.1} % of writes", share_within(open, 13));
    }
    found.measured.push(measured("C1-10", case, share_within(pair, 13), &pair.result, reason));
}

fn limits(single: &[Pair], drive: Drive, found: &mut Findings) {
    let line = |pair: &Pair| LIMITS.map(|k| (k as f64 / 10.0, share_within(pair, k))).to_vec();
    found.figures.push(Figure {
        shape: Shape::Log,
        title: drive.case("Writes within the wait limit, by its multiple of the faster leg's time"),
        x: "wait limit / faster leg (log scale)",
        y: "writes within it, %",
        lines: vec![("100 writes/s".into(), line(&single[0])), ("200 writes/s".into(), line(&single[1]))],
    });
}

/// C1-14, Fig 4: 50 streams on the drive alone.
pub(super) fn streams(runner: &Runner, drive: Drive, found: &mut Findings) -> Result<(), Failure> {
    let load = small_files(100);
    let load = if drive.open { load.with("size_by_stream", true) } else { load };
    let run = runner.watch(&[drive.setup("ssd", SSD_1, &[])], &load, CAP)?.remove("ssd");
    let run = run.expect("it was run");
    let times = run.times.responses();
    let limit = median(&times) * SLOW;
    let slow: Vec<bool> = times.iter().map(|t| *t > limit).collect();
    let count = slow.iter().filter(|s| **s).count();
    let again = slow.windows(2).filter(|w| w[0] && w[1]).count();
    let stretches =
        slow.windows(2).filter(|w| !w[0] && w[1]).count() + usize::from(slow.first() == Some(&true));
    let seconds = (run.times.seconds() * 2.0 / 3.0).max(1e-9);
    let reason = format!("{count} of {} writes, median {}, in {seconds:.0} s", times.len(), median(&times));
    found.measured.push(measured("C1-14", &drive.case("peaks"), stretches as f64, &run.result, reason));
    let any = count as f64 / times.len().max(1) as f64;
    let after = again as f64 / count.max(1) as f64;
    let reason = format!("{:.1} % after a slow one, {:.2} % of all", after * 100.0, any * 100.0);
    let times_as = if count > 0 { after / any } else { 0.0 };
    found.measured.push(measured("C1-14", &drive.case("clustered"), times_as, &run.result, reason));
    found.moot_unless(count > 0, "no write is slow");
    let longest = times.iter().copied().max().unwrap_or(Span::ZERO);
    let held = counter(&run.result, "ssd", "write_stall_max_ns");
    let reason = format!("the drive's own part; with the wait before it {longest}");
    let case = drive.case("longest");
    found.measured.push(measured("C1-14", &case, held as f64 / 1e9, &run.result, reason));
    found.figures.push(Figure {
        shape: Shape::Bars,
        title: drive.case("Fig 4: response of single writes, the drive alone, 100 writes/s"),
        x: "write",
        y: "response, ms",
        lines: vec![(
            "SSD-1".into(),
            times.iter().take(DRAWN).enumerate().map(|(n, t)| (n as f64 + 1.0, t.0 as f64 / 1e6)).collect(),
        )],
    });
    Ok(())
}
