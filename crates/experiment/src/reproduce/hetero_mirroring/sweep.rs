//! Fig 7 and 8: completed writes and response over the load, for every scheme and every reading of Hete-Mr, with the
//! comparators of today; and how much of it is borrowed (W1-6).

use super::{
    CAP, Drive, HDD_1, HDD_MR, HETE_MR, MLC, RAID_0, SSD_1, SSD_MR, STRIPED, counter, measured, more, setup,
    small_files,
};
use crate::failure::Failure;
use crate::reproduce::lab::{Lab, Setup};
use crate::reproduce::watch::{Runs, Watched};
use crate::reproduce::{Figure, Findings, Shape};
use nandu_sim::RunResult;

/// Writes a second.
const LOADS: [u64; 8] = [40, 80, 120, 160, 200, 240, 280, 320];
/// What is put over the stack file for each reading, by the name of the case.
const READINGS: [(&str, &[(&str, &str)]); 6] = [
    ("ack first", &[]),
    ("ack wait-limit", &[("device.mirror.write_ack", "\"wait-limit\"")]),
    ("ack both", &[("device.mirror.write_ack", "\"both\"")]),
    ("one at a time", &[("device.mirror.dispatch", "\"serial\"")]),
    ("bounded", BOUNDED),
    ("hedged", HEDGED),
];
/// Those that a second drive is measured with.
const READINGS_MLC: [&str; 4] = ["ack first", "ack wait-limit", "ack both", "hedged"];
/// A write that a frozen drive holds goes to the disk too, ahead of what waits for it (O1-9).
const HEDGED: &[(&str, &str)] = &[("device.mirror.write_hedge", "true")];
const BOUNDED: &[(&str, &str)] =
    &[("device.mirror.max_exposed_bytes", "\"64 MiB\""), ("device.mirror.max_exposed_time", "\"5 s\"")];
/// Hete-Mr as it comes: bounded, the delay queue ascending and joined.
const DEFAULTS: &[(&str, &str)] = &[
    ("device.mirror.max_exposed_bytes", "\"64 MiB\""),
    ("device.mirror.max_exposed_time", "\"5 s\""),
    ("device.mirror.delay_order", "\"elevator\""),
    ("device.mirror.wait_min", "\"1 ms\""),
];
/// Linux md with a write-mostly disk: no delay queue, 256 writes behind the drive.
const BEHIND: &[(&str, &str)] =
    &[("device.mirror.write_ack", "\"leader\""), ("device.mirror.write_behind", "256")];

/// One scheme at every load.
struct Curve {
    /// Completed writes a second.
    done: Vec<f64>,
    /// Mean response in milliseconds.
    response: Vec<f64>,
}

impl Curve {
    fn of(runs: &[Runs], label: &str) -> Curve {
        let each = |figure: fn(&Watched) -> f64| runs.iter().map(|r| figure(&r[label])).collect();
        Curve { done: each(|w| w.times.per_second()), response: each(|w| w.times.mean_ms()) }
    }

    fn most(&self) -> f64 {
        self.done.iter().copied().fold(0.0, f64::max)
    }

    fn mean_done(&self) -> f64 {
        self.done.iter().sum::<f64>() / self.done.len() as f64
    }

    fn mean_response(&self) -> f64 {
        self.response.iter().sum::<f64>() / self.response.len() as f64
    }
}

/// What the claims need, and with the drive of the stack files other arrangements too.
fn setups(drive: Drive) -> Vec<Setup> {
    let mut all = vec![
        drive.setup("SSD-1", SSD_1, &[]),
        drive.setup("SSD-Mr", SSD_MR, &[]),
        drive.setup("HDD-1", HDD_1, &[]),
    ];
    all.extend(READINGS.map(|(name, set)| drive.setup(name, HETE_MR, set)));
    if drive.prefix.is_empty() {
        all.extend([
            setup("HDD-Mr", HDD_MR, &[]),
            setup("as shipped", HETE_MR, DEFAULTS),
            setup("write-behind", HETE_MR, BEHIND),
            setup("striped drives", STRIPED, &[]),
            setup("RAID-0", RAID_0, &[]),
        ]);
    }
    all
}

pub(super) fn measure(lab: &Lab, drive: Drive, found: &mut Findings) -> Result<(), Failure> {
    let setups = setups(drive);
    let runs = sweep(lab, &setups)?;
    let curve = |label: &str| Curve::of(&runs, label);
    let (ssd, mirror, disk) = (curve("SSD-1"), curve("SSD-Mr"), curve("HDD-1"));
    for (name, _) in READINGS {
        let (case, curve, from) = (drive.case(name), curve(name), &runs[7][name].result);
        throughput(&case, &curve, &mirror, from, found);
        response(&case, &curve, &ssd, from, found);
        if name.starts_with("ack") {
            in_order(&case, &curve, [&ssd, &mirror], from, found);
        }
    }
    let first = curve("ack first");
    let from = &runs[7]["ack first"].result;
    for (name, curve) in [("SSD-Mr, most", &mirror), ("Hete-Mr, most", &first)] {
        found.measured.push(measured("C1-2", &drive.case(name), curve.most(), from, in_words(&curve.done)));
    }
    let less = -more(first.mean_response(), mirror.mean_response());
    let reason = format!("{} against {} ms", in_words(&first.response), in_words(&mirror.response));
    found.measured.push(measured("C1-3", &drive.case("of the abstract"), less, from, reason));
    let slower = more(mirror.mean_response(), ssd.mean_response());
    let reason = format!("{} against {} ms", in_words(&mirror.response), in_words(&ssd.response));
    found.measured.push(measured("C1-5", &drive.case("SSD-Mr"), slower, &runs[7]["SSD-Mr"].result, reason));
    for (name, curve) in [("SSD-1", &ssd), ("SSD-Mr", &mirror), ("Hete-Mr", &first)] {
        knee(&drive.case(name), curve, from, found);
        if !drive.prefix.is_empty() {
            decline(&drive.case(&format!("{name}, beyond it")), curve, from, found);
        }
    }
    borrowed(drive, &runs, [&curve("bounded"), &ssd, &disk], found);
    if drive.prefix.is_empty() {
        figures(&runs, &setups, found);
    } else {
        figures_again("with the paper's pair", &runs, &setups, found);
    }
    Ok(())
}

fn readings_mlc() -> impl Iterator<Item = (&'static str, &'static [(&'static str, &'static str)])> {
    READINGS.into_iter().filter(|(name, _)| READINGS_MLC.contains(name))
}

/// Every setup at every load.
fn sweep(lab: &Lab, setups: &[Setup]) -> Result<Vec<Runs>, Failure> {
    LOADS.iter().map(|&load| lab.watch(setups, &small_files(load), CAP)).collect()
}

/// The claims about drives that freeze once more, with a drive that does so for longer.
pub(super) fn measure_mlc(lab: &Lab, found: &mut Findings) -> Result<(), Failure> {
    let mut setups = vec![MLC.setup("SSD-1", SSD_1, &[]), MLC.setup("SSD-Mr", SSD_MR, &[])];
    setups.extend(readings_mlc().map(|(name, set)| MLC.setup(name, HETE_MR, set)));
    let runs = sweep(lab, &setups)?;
    let (ssd, mirror) = (Curve::of(&runs, "SSD-1"), Curve::of(&runs, "SSD-Mr"));
    for name in READINGS_MLC {
        let (case, curve, from) = (MLC.case(name), Curve::of(&runs, name), &runs[7][name].result);
        throughput(&case, &curve, &mirror, from, found);
        response(&case, &curve, &ssd, from, found);
    }
    let slower = more(mirror.mean_response(), ssd.mean_response());
    let reason = format!("{} against {} ms", in_words(&mirror.response), in_words(&ssd.response));
    found.measured.push(measured("C1-5", &MLC.case("SSD-Mr"), slower, &runs[7]["SSD-Mr"].result, reason));
    figures_again("with a drive of MLC", &runs, &setups, found);
    Ok(())
}

/// Fig 7 and 8 of a set-up that is not the first.
fn figures_again(whose: &str, runs: &[Runs], setups: &[Setup], found: &mut Findings) {
    for (title, y, of) in [
        (
            format!("Fig 7 {whose}: completed writes"),
            "writes completed, 1/s",
            (|c| &c.done) as fn(&Curve) -> &Vec<f64>,
        ),
        (format!("Fig 8 {whose}: mean response"), "mean response, ms", |c| &c.response),
    ] {
        let line = |s: &Setup| {
            let curve = Curve::of(runs, &s.label);
            let points = LOADS.iter().zip(of(&curve)).map(|(&load, &value)| (load as f64, value));
            (s.label.clone(), points.collect())
        };
        let (shape, x) = (Shape::Lines, "writes offered, 1/s");
        let lines = setups.iter().map(line).collect();
        found.figures.push(Figure { shape, title, x, y, lines });
    }
}

fn in_words(line: &[f64]) -> String {
    line.iter().map(|v| format!("{v:.1}")).collect::<Vec<_>>().join(" ")
}

/// C1-1, C1-2.
fn throughput(case: &str, curve: &Curve, mirror: &Curve, from: &RunResult, found: &mut Findings) {
    let (ours, theirs) = (in_words(&curve.done), in_words(&mirror.done));
    let gain = more(curve.mean_done(), mirror.mean_done());
    let reason = format!("writes/s from 40 to 320: {ours}; SSD-Mr {theirs}");
    found.measured.push(measured("C1-1", case, gain, from, reason));
    let reason = format!(
        "{:.1} against {:.1} writes/s; legs delayed {} and {} times, {:.0} MB wait at the end of 320/s",
        curve.most(),
        mirror.most(),
        counter(from, "mirror", "leg_a_delays"),
        counter(from, "mirror", "leg_b_delays"),
        waiting(from),
    );
    found.measured.push(measured("C1-2", case, more(curve.most(), mirror.most()), from, reason));
}

/// C1-3.
fn response(case: &str, curve: &Curve, ssd: &Curve, from: &RunResult, found: &mut Findings) {
    let less = -more(curve.mean_response(), ssd.mean_response());
    let reason = format!("{} against {} ms", in_words(&curve.response), in_words(&ssd.response));
    found.measured.push(measured("C1-3", case, less, from, reason));
}

/// C1-4: the loads at which the mirror of unlike legs answers first, and two drives last.
fn in_order(case: &str, curve: &Curve, [ssd, mirror]: [&Curve; 2], from: &RunResult, found: &mut Findings) {
    let ordered = |n: &usize| curve.response[*n] < ssd.response[*n] && ssd.response[*n] < mirror.response[*n];
    let loads: Vec<usize> = (0..LOADS.len()).filter(ordered).collect();
    let names = loads.iter().map(|&n| LOADS[n].to_string()).collect::<Vec<_>>().join(" ");
    let reason = if loads.is_empty() { "at no load".into() } else { format!("at {names} writes/s") };
    found.measured.push(measured("C1-4", case, loads.len() as f64, from, reason));
}

/// C1-6: the first load that is not completed.
fn knee(case: &str, curve: &Curve, from: &RunResult, found: &mut Findings) {
    let short = |n: &usize| curve.done[*n] < 0.9 * LOADS[*n] as f64;
    let (load, reason) = match (0..LOADS.len()).find(short) {
        Some(n) => (LOADS[n], format!("{:.1} of {} are completed", curve.done[n], LOADS[n])),
        None => (LOADS[7] + 40, "no load is too much".into()),
    };
    found.measured.push(measured("C1-6", case, load as f64, from, reason));
}

/// C1-6: how far throughput at the greatest load is below the most.
fn decline(case: &str, curve: &Curve, from: &RunResult, found: &mut Findings) {
    let last = curve.done[LOADS.len() - 1];
    let reason = format!("{last:.1} writes/s at {} offered, {:.1} at most", LOADS[7], curve.most());
    found.measured.push(measured("C1-6", case, -more(last, curve.most()), from, reason));
}

/// Megabytes that wait for a leg.
fn waiting(r: &RunResult) -> f64 {
    let bytes = |leg| counter(r, "mirror", leg) as f64 / 1e6;
    bytes("leg_a_queue_bytes") + bytes("leg_b_queue_bytes")
}

/// W1-6: what a bound leaves of it.
fn borrowed(drive: Drive, runs: &[Runs], [bounded, ssd, disk]: [&Curve; 3], found: &mut Findings) {
    let slower = ssd.most().min(disk.most());
    let free = &runs[7]["ack first"];
    let kept = &runs[7]["bounded"].result;
    let reason = format!(
        "{:.1} writes/s; the drive alone {:.1}, the disk alone {:.1}; at most {:.0} MB on one leg only",
        bounded.most(),
        ssd.most(),
        disk.most(),
        counter(kept, "mirror", "exposed_bytes_max") as f64 / 1e6,
    );
    found.measured.push(measured("W1-6", &drive.case("bounded"), bounded.most() / slower, kept, reason));
    let seconds = free.times.seconds();
    let reason = format!("{:.0} MB wait after {seconds:.0} s", waiting(&free.result));
    let case = drive.case("unbounded");
    found.measured.push(measured("W1-6", &case, waiting(&free.result) / seconds, &free.result, reason));
    if !drive.prefix.is_empty() {
        return;
    }
    found.figures.push(Figure {
        shape: Shape::Lines,
        title: "Borrowed time: what waits for a leg at 320 writes/s".into(),
        x: "seconds",
        y: "in the delay queues, MB",
        lines: ["ack first", "one at a time", "bounded", "as shipped"]
            .map(|label| (label.to_string(), queues(&runs[7][label])))
            .into(),
    });
}

/// The delay queues over a run.
fn queues(run: &Watched) -> Vec<(f64, f64)> {
    let device = run.samples.devices.iter().find(|d| d.device == "mirror");
    let of = |name| device.and_then(|d| d.counter(name)).unwrap_or_default();
    let both = of("leg_a_queue_bytes").iter().zip(of("leg_b_queue_bytes"));
    let points = run.samples.times.iter().zip(both);
    points.map(|(at, (a, b))| (at.0 as f64 / 1e9, (a + b) as f64 / 1e6)).collect()
}

/// Fig 7 and 8, and the comparators.
fn figures(runs: &[Runs], setups: &[Setup], found: &mut Findings) {
    let names: Vec<&str> = setups.iter().map(|s| s.label.as_str()).collect();
    let split = names.iter().position(|n| *n == "HDD-Mr").unwrap_or(names.len());
    let others: Vec<&str> =
        ["SSD-1", "ack first"].into_iter().chain(names[split..].iter().copied()).collect();
    let lines = |labels: &[&str], of: fn(&Curve) -> &Vec<f64>| {
        let line = |label: &&str| {
            let curve = Curve::of(runs, label);
            let points = LOADS.iter().zip(of(&curve)).map(|(&load, &value)| (load as f64, value));
            ((*label).to_string(), points.collect())
        };
        labels.iter().map(line).collect::<Vec<(String, Vec<(f64, f64)>)>>()
    };
    let mut draw = |title: &str, y, lines| {
        let (shape, title, x) = (Shape::Lines, title.into(), "writes offered, 1/s");
        found.figures.push(Figure { shape, title, x, y, lines });
    };
    let (done, answer) = ("writes completed, 1/s", "mean response, ms");
    draw("Fig 7: completed writes, each reading of Hete-Mr", done, lines(&names[..split], |c| &c.done));
    draw("Fig 8: mean response, each reading of Hete-Mr", answer, lines(&names[..split], |c| &c.response));
    draw("Completed writes beside other arrangements", done, lines(&others, |c| &c.done));
    draw("Mean response beside other arrangements", answer, lines(&others, |c| &c.response));
}
