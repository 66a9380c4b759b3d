//! Fig 7 and 8: completed writes and response over the load, for every scheme and every reading of Hete-Mr, with the
//! comparators of today; and how much of it is borrowed (W1-6). What is run follows from the claims that are asked for. The quick
//! form leaves out loads, and arrangements that no claim is about.

use super::{
    CACHES_OFF, CAP, Drive, HDD_1, HDD_MR, HETE_MR, MLC, RAID_0, SSD_1, SSD_MR, STRIPED, counter, measured,
    more, setup, small_files,
};
use crate::failure::Failure;
use crate::reproduce::runner::{Runner, Setup};
use crate::reproduce::watch::{Runs, Watch, Watched};
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
/// Those that the second drive is measured with.
const READINGS_MLC: [&str; 4] = ["ack first", "ack wait-limit", "ack both", "hedged"];
/// That of the pair without memory: no other answers earlier.
const READINGS_CACHES_OFF: [&str; 1] = ["ack first"];
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

/// Loads of the quick form. The last is more than any scheme of a claim completes, and stands for all above the one before it.
const QUICK: [u64; 4] = [40, 80, 120, 320];
/// Whose delay queues are drawn over the run at the greatest load.
const QUEUED: [&str; 4] = ["ack first", "one at a time", "bounded", "as shipped"];
/// Labels that are no reading of Hete-Mr.
const SSD: &str = "SSD-1";
const TWO: &str = "SSD-Mr";
const DISK: &str = "HDD-1";

/// One scheme at every load.
struct Curve {
    /// Completed writes a second.
    done: Vec<f64>,
    /// Mean response in milliseconds.
    response: Vec<f64>,
}

impl Curve {
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

/// Every setup at the loads of this form.
struct Sweep {
    loads: &'static [u64],
    runs: Vec<Runs>,
}

impl Sweep {
    fn run(runner: &Runner, setups: &[Setup]) -> Result<Sweep, Failure> {
        let loads: &'static [u64] = if runner.quick { &QUICK } else { &LOADS };
        let drawn = if runner.only.is_empty() { &QUEUED[..] } else { &[] };
        let watch = |&load: &u64| {
            let sampled = if Some(&load) == loads.last() { drawn } else { &[] };
            Watch { sampled, ..Watch::plain(setups.into(), small_files(load), CAP) }
        };
        let all: Vec<Watch> = loads.iter().map(watch).collect();
        Ok(Sweep { loads, runs: runner.watch_all(&all)? })
    }

    /// At each of all loads; where one was not run, the next greater one stands for it.
    fn curve(&self, label: &str) -> Curve {
        let mut curve = Curve { done: Vec::new(), response: Vec::new() };
        for load in LOADS {
            let n = self.loads.iter().position(|&l| l >= load).expect("the last load is the greatest");
            let times = &self.runs[n][label].times;
            let most = if self.loads[n] == load { f64::MAX } else { load as f64 };
            curve.done.push(times.per_second().min(most));
            curve.response.push(times.mean_ms());
        }
        curve
    }

    /// The run at the greatest load.
    fn last(&self, label: &str) -> &Watched {
        &self.runs[self.runs.len() - 1][label]
    }
}

/// A row: number and case of a claim, and the curves that it rests on.
struct Row {
    id: &'static str,
    case: &'static str,
    curves: Vec<&'static str>,
}

/// What is claimed of a drive.
fn rows(drive: Drive) -> Vec<Row> {
    let row = |id, case, curves: &[&'static str]| Row { id, case, curves: curves.to_vec() };
    let mut rows = vec![row("C1-5", TWO, &[TWO, SSD])];
    for (name, _) in readings(drive) {
        rows.extend([
            row("C1-1", name, &[name, TWO]),
            row("C1-2", name, &[name, TWO]),
            row("C1-3", name, &[name, SSD]),
        ]);
        if drive.prefix != MLC.prefix && name.starts_with("ack") {
            rows.push(row("C1-4", name, &[name, SSD, TWO]));
        }
    }
    if !drive.is_whole() {
        return rows;
    }
    rows.extend([
        row("C1-2", "SSD-Mr, most", &[TWO]),
        row("C1-2", "Hete-Mr, most", &["ack first"]),
        row("C1-3", "of the abstract", &["ack first", TWO]),
        row("C1-6", SSD, &[SSD]),
        row("C1-6", TWO, &[TWO]),
        row("C1-6", "Hete-Mr", &["ack first"]),
        row("W1-6", "bounded", &["bounded", SSD, DISK]),
        row("W1-6", "unbounded", &["ack first"]),
    ]);
    if drive.open {
        rows.extend([
            row("C1-6", "SSD-1, beyond it", &[SSD]),
            row("C1-6", "SSD-Mr, beyond it", &[TWO]),
            row("C1-6", "Hete-Mr, beyond it", &["ack first"]),
        ]);
    }
    rows
}

/// Readings of Hete-Mr that a drive is measured with.
fn readings(drive: Drive) -> impl Iterator<Item = (&'static str, &'static [(&'static str, &'static str)])> {
    let some: Option<&[&str]> = match drive.prefix {
        prefix if prefix == MLC.prefix => Some(&READINGS_MLC),
        prefix if prefix == CACHES_OFF.prefix => Some(&READINGS_CACHES_OFF),
        _ => None,
    };
    READINGS.into_iter().filter(move |(name, _)| some.is_none_or(|some| some.contains(name)))
}

/// What `rows` rest on; where no claim is asked for in particular and there is time, with the drive of the stack files other arrangements too.
fn setups(runner: &Runner, drive: Drive, rows: &[Row]) -> Vec<Setup> {
    let schemes = [(SSD, SSD_1), (TWO, SSD_MR), (DISK, HDD_1)];
    let mut all: Vec<Setup> = schemes.map(|(name, text)| drive.setup(name, text, &[])).into();
    all.extend(readings(drive).map(|(name, set)| drive.setup(name, HETE_MR, set)));
    all.retain(|setup| rows.iter().any(|row| row.curves.contains(&setup.label.as_str())));
    if drive.prefix.is_empty() && runner.only.is_empty() && !runner.quick {
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

pub(super) fn measure(runner: &Runner, drive: Drive, found: &mut Findings) -> Result<(), Failure> {
    let mut rows = rows(drive);
    rows.retain(|row| runner.wants_case(row.id, &drive.case(row.case)));
    if rows.is_empty() {
        return Ok(());
    }
    let setups = setups(runner, drive, &rows);
    let sweep = Sweep::run(runner, &setups)?;
    for row in &rows {
        judge(drive, row, &sweep, found);
    }
    if runner.only.is_empty() {
        match drive.prefix {
            "" => figures(&sweep, &setups, found),
            _ => figures_again(drive.words, &sweep, &setups, found),
        }
    }
    Ok(())
}

/// One row.
fn judge(drive: Drive, row: &Row, sweep: &Sweep, found: &mut Findings) {
    let case = &drive.case(row.case);
    let curves: Vec<Curve> = row.curves.iter().map(|label| sweep.curve(label)).collect();
    let from = &sweep.last(row.curves[0]).result;
    match (row.id, &curves[..]) {
        ("C1-1", [ours, mirror]) => throughput(case, ours, mirror, from, found),
        ("C1-2", [ours, mirror]) => most(case, ours, mirror, from, found),
        ("C1-2", [ours]) => {
            found.measured.push(measured("C1-2", case, ours.most(), from, in_words(&ours.done)));
        }
        ("C1-3", [ours, other]) => response("C1-3", case, [ours, other], -1.0, from, found),
        ("C1-5", [mirror, ssd]) => response("C1-5", case, [mirror, ssd], 1.0, from, found),
        ("C1-4", [ours, ssd, mirror]) => in_order(case, ours, [ssd, mirror], from, found),
        ("C1-6", [ours]) if row.case.ends_with("beyond it") => {
            decline(case, ours, from, found);
            found.moot_unless(sweep.loads.len() == LOADS.len(), "one load stands for all that are too much");
        }
        ("C1-6", [ours]) => knee(case, ours, from, found),
        ("W1-6", [ours, ssd, disk]) => bounded(case, [ours, ssd, disk], from, found),
        ("W1-6", _) => unbounded(case, sweep.last(row.curves[0]), found),
        (id, curves) => unreachable!("{id} rests on {} curves", curves.len()),
    }
}

/// Fig 7 and 8 of a set-up that is not the first.
fn figures_again(whose: &str, sweep: &Sweep, setups: &[Setup], found: &mut Findings) {
    for (title, y, of) in [
        (
            format!("Fig 7 {whose}: completed writes"),
            "writes completed, 1/s",
            (|c| &c.done) as fn(&Curve) -> &Vec<f64>,
        ),
        (format!("Fig 8 {whose}: mean response"), "mean response, ms", |c| &c.response),
    ] {
        let line = |s: &Setup| {
            let curve = sweep.curve(&s.label);
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

/// C1-1.
fn throughput(case: &str, curve: &Curve, mirror: &Curve, from: &RunResult, found: &mut Findings) {
    let (ours, theirs) = (in_words(&curve.done), in_words(&mirror.done));
    let gain = more(curve.mean_done(), mirror.mean_done());
    let reason = format!("writes/s from 40 to 320: {ours}; SSD-Mr {theirs}");
    found.measured.push(measured("C1-1", case, gain, from, reason));
}

/// C1-2.
fn most(case: &str, curve: &Curve, mirror: &Curve, from: &RunResult, found: &mut Findings) {
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

/// C1-3, C1-5: by how much one answers later than the other, or with `sign` below zero earlier.
fn response(
    id: &'static str,
    case: &str,
    [one, other]: [&Curve; 2],
    sign: f64,
    from: &RunResult,
    found: &mut Findings,
) {
    let value = sign * more(one.mean_response(), other.mean_response());
    let reason = format!("{} against {} ms", in_words(&one.response), in_words(&other.response));
    found.measured.push(measured(id, case, value, from, reason));
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
fn bounded(case: &str, [bounded, ssd, disk]: [&Curve; 3], kept: &RunResult, found: &mut Findings) {
    let slower = ssd.most().min(disk.most());
    let reason = format!(
        "{:.1} writes/s; the drive alone {:.1}, the disk alone {:.1}; at most {:.0} MB on one leg only",
        bounded.most(),
        ssd.most(),
        disk.most(),
        counter(kept, "mirror", "exposed_bytes_max") as f64 / 1e6,
    );
    found.measured.push(measured("W1-6", case, bounded.most() / slower, kept, reason));
}

/// W1-6: what waits where nothing bounds it.
fn unbounded(case: &str, free: &Watched, found: &mut Findings) {
    let seconds = free.times.seconds();
    let reason = format!("{:.0} MB wait after {seconds:.0} s", waiting(&free.result));
    let each_second = waiting(&free.result) / seconds;
    found.measured.push(measured("W1-6", case, each_second, &free.result, reason));
}

/// The delay queues over a run.
fn queues(run: &Watched) -> Vec<(f64, f64)> {
    let device = run.samples.devices.iter().find(|d| d.device == "mirror");
    let of = |name| device.and_then(|d| d.counter(name)).unwrap_or_default();
    let both = of("leg_a_queue_bytes").iter().zip(of("leg_b_queue_bytes"));
    let points = run.samples.times.iter().zip(both);
    points.map(|(at, (a, b))| (at.0 as f64 / 1e9, (a + b) as f64 / 1e6)).collect()
}

/// Fig 7 and 8, borrowed time, and the comparators where they were run.
fn figures(sweep: &Sweep, setups: &[Setup], found: &mut Findings) {
    let names: Vec<&str> = setups.iter().map(|s| s.label.as_str()).collect();
    let split = names.iter().position(|n| *n == "HDD-Mr").unwrap_or(names.len());
    found.figures.push(Figure {
        shape: Shape::Lines,
        title: "Borrowed time: what waits for a leg at 320 writes/s".into(),
        x: "seconds",
        y: "in the delay queues, MB",
        lines: QUEUED
            .into_iter()
            .filter(|label| names.contains(label))
            .map(|label| (label.to_string(), queues(sweep.last(label))))
            .collect(),
    });
    let lines = |labels: &[&str], of: fn(&Curve) -> &Vec<f64>| {
        let line = |label: &&str| {
            let curve = sweep.curve(label);
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
    if split == names.len() {
        return;
    }
    let others: Vec<&str> = [SSD, "ack first"].into_iter().chain(names[split..].iter().copied()).collect();
    draw("Completed writes beside other arrangements", done, lines(&others, |c| &c.done));
    draw("Mean response beside other arrangements", answer, lines(&others, |c| &c.response));
}
