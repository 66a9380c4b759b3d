//! What came out, claim by claim.

use super::runs::{
    HALF, MONEY, OTHERS, Runs, TENTHS, Way, all_j, counter, disk_j, hit_percent, life, read_us, saturation,
};
use super::{GENERAL, GENERAL_PRICE, PRICE};
use crate::reproduce::{Figure, Findings, Measured, Shape};
use nandu_sim::RunResult;

/// Points over the share of SLC, in percent.
type Line = Vec<(f64, f64)>;

/// Why a rule for stopping the disk has nothing to decide.
const NEVER_STOPS: &str = "the disk never stops under this load";

fn put(
    found: &mut Findings,
    runs: &Runs,
    id: &'static str,
    case: String,
    value: Option<f64>,
    reason: String,
) {
    let value = value.filter(|v| v.is_finite());
    found.measured.push(Measured { id, case, value, origin: runs.origin(), reason, ..Measured::default() });
}

/// A figure of each share; nothing where one has none.
fn over(runs: &Runs, of: impl Fn(&RunResult) -> Option<f64>) -> Option<Line> {
    TENTHS.map(|tenths| Some((tenths as f64 * 10.0, of(runs.share(tenths))?))).collect()
}

fn in_words(line: &Line) -> String {
    let words: Vec<String> = line.iter().map(|p| format!("{:.4}", p.1)).collect();
    let short = |word: &String| {
        word.split_once('.').map_or(word.clone(), |(whole, part)| match whole.len() {
            1 | 2 => format!("{whole}.{}", &part[..3 - whole.len()]),
            _ => whole.to_string(),
        })
    };
    words.iter().map(short).collect::<Vec<_>>().join(" ")
}

/// How straight a line is: r2 of a least-squares fit; 0 where it falls.
fn straightness(line: &Line) -> f64 {
    let n = line.len() as f64;
    let mean = |of: &dyn Fn(&(f64, f64)) -> f64| line.iter().map(of).sum::<f64>() / n;
    let (x, y) = (mean(&|p| p.0), mean(&|p| p.1));
    let covariance = mean(&|p| (p.0 - x) * (p.1 - y));
    let (a, b) = (mean(&|p| (p.0 - x) * (p.0 - x)), mean(&|p| (p.1 - y) * (p.1 - y)));
    if covariance <= 0.0 || a * b == 0.0 {
        return 0.0;
    }
    covariance * covariance / (a * b)
}

/// C4-1 to C4-6: what a larger share of SLC does.
pub fn ratios(runs: &Runs, found: &mut Findings) {
    let load = runs.load;
    let reads = over(runs, |r| Some(read_us(r))).unwrap_or_default();
    let worse = reads.windows(2).filter(|pair| pair[1].1 > pair[0].1).count() as f64;
    let states = [saturation(runs.share(0)), saturation(runs.share(10))];
    let words = format!("us from all MLC{} to all SLC{}: {}", states[0], states[1], in_words(&reads));
    put(found, runs, "C4-1", load.into(), Some(worse), words.clone());
    let (mlc, slc) = (runs.share(0), runs.share(10));
    put(found, runs, "C4-1", format!("{load}, ends"), Some(read_us(slc) / read_us(mlc)), words);
    let hits = over(runs, |r| Some(hit_percent(r))).unwrap_or_default();
    let reason = format!("% found: {}", in_words(&hits));
    put(found, runs, "C4-2", load.into(), Some(hit_percent(mlc) - hit_percent(slc)), reason);
    lives(runs, found);
    for (case, of) in [("disk", disk_j as fn(&RunResult) -> f64), ("all", all_j)] {
        let line = over(runs, |r| Some(of(r))).unwrap_or_default();
        let value = (1.0 - of(mlc) / of(slc)) * 100.0;
        let reason = format!(
            "J: {}; {} starts of the disk with all MLC, {} with all SLC",
            in_words(&line),
            counter(mlc, "spin_ups"),
            counter(slc, "spin_ups")
        );
        put(found, runs, "C4-5", format!("{load}, {case}"), Some(value), reason);
    }
}

/// C4-3, C4-4, C4-6: how long the flash lasts.
fn lives(runs: &Runs, found: &mut Findings) {
    let load = runs.load;
    for (name, way) in [
        ("first region", Way::FirstRegion),
        ("mean over cells", Way::MeanOverCells),
        ("all cycles", Way::AllCycles),
    ] {
        let line = over(runs, |r| life(r, way));
        let reason = line
            .as_ref()
            .map_or("a ring was not erased".into(), |l| format!("TiB of the host: {}", in_words(l)));
        let (id, value) = if load == "bonnie" {
            let least = line.as_ref().and_then(|l| l.iter().min_by(|a, b| a.1.total_cmp(&b.1)));
            ("C4-4", least.map(|p| p.0 / 100.0))
        } else {
            ("C4-3", line.as_ref().map(straightness))
        };
        put(found, runs, id, format!("{load}, {name}"), value, reason);
    }
    let shares: Vec<(u64, &RunResult)> = TENTHS.map(|tenths| (10 * tenths, runs.share(tenths))).collect();
    quickest(runs, load.into(), &shares, found);
}

/// C4-6: of drives by their percent of SLC, the quickest that lasts at least the mean of both ends.
fn quickest(runs: &Runs, case: String, drives: &[(u64, &RunResult)], found: &mut Findings) {
    let lives: Option<Vec<f64>> = drives.iter().map(|(_, r)| life(r, Way::MeanOverCells)).collect();
    let best = lives.and_then(|lives| {
        let least = (lives.first()? + lives.last()?) / 2.0;
        let enough = drives.iter().zip(lives).filter(|(_, life)| *life >= least);
        enough.min_by(|(a, _), (b, _)| read_us(a.1).total_cmp(&read_us(b.1)))
    });
    let reason = best.map_or("a ring was not erased".into(), |((_, r), life)| {
        format!("{:.0} us, {life:.2} TiB, {:.0} J of the disk", read_us(r), disk_j(r))
    });
    put(found, runs, "C4-6", case, best.map(|((percent, _), _)| *percent as f64 / 100.0), reason);
}

/// C4-1, C4-2, C4-5, C4-6: what more SLC does where it is paid for with the MLC that it costs.
pub fn price(runs: &Runs, found: &mut Findings) {
    let case = |rest: &str| format!("{PRICE}, {}{rest}", runs.load);
    let drives: Vec<(u64, &RunResult)> = MONEY.map(|percent| (percent, runs.money(percent))).into();
    let words = |of: fn(&RunResult) -> f64| {
        in_words(&drives.iter().map(|(percent, r)| (*percent as f64, of(r))).collect())
    };
    let (mlc, slc) = (runs.money(0), runs.money(100));
    let reason = format!("us with 0, 25, 50, 75 and 100 % of the money in SLC: {}", words(read_us));
    put(found, runs, "C4-1", case(", ends"), Some(read_us(slc) / read_us(mlc)), reason);
    let reason = format!("% found: {}", words(hit_percent));
    put(found, runs, "C4-2", case(""), Some(hit_percent(mlc) - hit_percent(slc)), reason);
    let saved = (1.0 - disk_j(mlc) / disk_j(slc)) * 100.0;
    put(found, runs, "C4-5", case(", disk"), Some(saved), format!("J: {}", words(disk_j)));
    quickest(runs, case(""), &drives, found);
}

/// C4-4, in general: both ends of each load.
pub fn in_general(all: &[Runs], found: &mut Findings) {
    ends(all, GENERAL, |runs| [runs.share(10), runs.share(0)], found);
}

/// The same where the ends cost as much.
pub fn in_general_price(all: &[Runs], found: &mut Findings) {
    ends(all, GENERAL_PRICE, |runs| [runs.money(100), runs.money(0)], found);
}

/// C4-4: on which load all SLC gains least, of these two drives of a load.
fn ends(all: &[Runs], case: &str, of: fn(&Runs) -> [&RunResult; 2], found: &mut Findings) {
    let ratio = |runs: &Runs| {
        let [slc, mlc] = of(runs).map(|r| life(r, Way::FirstRegion));
        Some(slc? / mlc?)
    };
    let ratios: Option<Vec<f64>> = all.iter().map(ratio).collect();
    let reason = ratios.as_ref().map_or("a ring was not erased".into(), |ratios| {
        let word = |(runs, ratio): (&Runs, &f64)| format!("{} {ratio:.2}", runs.load);
        all.iter().zip(ratios).map(word).collect::<Vec<_>>().join(", ")
    });
    let least = ratios.map(|ratios| ratios.into_iter().fold(f64::MAX, f64::min));
    put(found, &all[0], "C4-4", case.into(), least, reason);
}

/// One figure of two setups: their ratio and both in words.
fn against(
    one: &RunResult,
    other: &RunResult,
    of: fn(&RunResult) -> f64,
    unit: &str,
) -> (Option<f64>, String) {
    let (a, b) = (of(one), of(other));
    ((b > 0.0).then(|| a / b), format!("{a:.1} against {b:.1} {unit}"))
}

fn lasts(one: &RunResult, other: &RunResult) -> (Option<f64>, String) {
    let life = |r| life(r, Way::FirstRegion);
    match (life(one), life(other)) {
        (Some(a), Some(b)) => (Some(a / b), format!("{a:.2} against {b:.2} TiB of the host")),
        _ => (None, "a ring was not erased".into()),
    }
}

fn starts(r: &RunResult) -> f64 {
    counter(r, "spin_ups") as f64
}

/// C4-7: the cold zone of MLC.
pub fn zones(runs: &Runs, found: &mut Findings) {
    let (wide, narrow) = (runs.get(HALF), runs.get("cold 30"));
    let (value, reason) = against(wide, narrow, starts, "starts");
    put(found, runs, "C4-7", format!("{}, spin-ups", runs.load), value, reason);
    let (value, reason) = against(wide, narrow, disk_j, "J");
    put(found, runs, "C4-7", format!("{}, energy", runs.load), value, reason);
    found.moot_unless(starts(wide) + starts(narrow) > 0.0, NEVER_STOPS);
}

/// What the paper leaves open, read otherwise.
pub fn readings(runs: &Runs, found: &mut Findings) {
    let (load, half) = (runs.load, runs.get(HALF));
    let mut row = |id, case: String, (value, reason): (Option<f64>, String)| {
        put(found, runs, id, case, value, reason);
    };
    row("O4-1", load.into(), against(runs.get("none stays"), half, read_us, "us"));
    let mlc: fn(&RunResult) -> f64 = |r| counter(r, "mlc_bytes_written") as f64 / 1e6;
    let slc: fn(&RunResult) -> f64 = |r| counter(r, "slc_bytes_written") as f64 / 1e6;
    let inclusive = runs.get("inclusive");
    let (value, reason) = against(inclusive, half, mlc, "MB");
    let kept = counter(inclusive, "kept_below_pages");
    row("O4-2", load.into(), (value, format!("{reason}; {kept} pages went down without being written")));
    row("O4-5", load.into(), against(runs.get("lru"), half, slc, "MB"));
    let fixed = [("2 s", "after 2 s"), ("10 s", HALF), ("60 s", "after 60 s")];
    let best = fixed.iter().map(|(_, label)| disk_j(runs.get(label))).fold(f64::MAX, f64::min);
    let rule = runs.get("break-even");
    let words = fixed.iter().map(|(after, label)| {
        format!("{after} {:.0} J, {} starts", disk_j(runs.get(label)), starts(runs.get(label)))
    });
    let reason = format!(
        "break-even {:.0} J, {} starts; {}; never {:.0} J",
        disk_j(rule),
        starts(rule),
        words.collect::<Vec<_>>().join("; "),
        disk_j(runs.get("never stops"))
    );
    let stops = starts(rule) + fixed.iter().map(|(_, label)| starts(runs.get(label))).sum::<f64>();
    put(found, runs, "O4-9", load.into(), Some(disk_j(rule) / best), reason);
    found.moot_unless(stops > 0.0, NEVER_STOPS);
    let long = runs.get("long pass");
    let passed = long.total.mean_ns != half.total.mean_ns || disk_j(long) != disk_j(half);
    for (case, (value, reason)) in
        [("reads", against(long, half, read_us, "us")), ("life", lasts(long, half))]
    {
        put(found, runs, "O4-14", format!("{load}, {case}"), value, reason);
        found.moot_unless(passed, "no read is above 64 KiB");
    }
    let touch = runs.get("second touch");
    let mut row = |id, case: String, (value, reason): (Option<f64>, String)| {
        put(found, runs, id, case, value, reason);
    };
    row("W4-2", format!("{load}, life"), lasts(touch, half));
    row("W4-2", format!("{load}, reads"), against(touch, half, read_us, "us"));
    row("W4-5", load.into(), against(runs.get("spin-aware"), runs.get("shipped"), starts, "starts"));
}

/// The disk alone, and other flash caches.
pub fn others(runs: &Runs, found: &mut Findings) {
    let (load, half) = (runs.load, runs.get(HALF));
    let mut row = |id, case: String, (value, reason): (Option<f64>, String)| {
        put(found, runs, id, case, value, reason);
    };
    row("B4-3", format!("{load}, reads"), against(half, runs.get("disk"), read_us, "us"));
    row("B4-3", format!("{load}, energy"), against(half, runs.get("disk"), all_j, "J"));
    for (id, name, _) in OTHERS {
        let other = runs.get(name);
        row(id, format!("{name}, {load}, reads"), against(half, other, read_us, "us"));
        row(id, format!("{name}, {load}, energy"), against(half, other, disk_j, "J"));
        row(id, format!("{name}, {load}, life"), lasts(half, other));
    }
}

/// The paper's figures, drawn again over the share of SLC.
pub fn figures(all: &[Runs], found: &mut Findings) {
    let lines = |of: &dyn Fn(&RunResult) -> Option<f64>| -> Vec<(String, Line)> {
        all.iter().filter_map(|runs| Some((runs.load.to_string(), over(runs, of)?))).collect()
    };
    let mut draw = |title: &str, y, lines: Vec<(String, Line)>| {
        if !lines.is_empty() {
            let figure =
                Figure { shape: Shape::Lines, title: title.into(), x: "cells with one bit, %", y, lines };
            found.figures.push(figure);
        }
    };
    draw("Mean read over the share of SLC", "mean read, us", lines(&|r| Some(read_us(r))));
    draw("Pages found in flash", "% of pages read below DRAM", lines(&|r| Some(hit_percent(r))));
    draw("Life until the first region has ended", "TiB of the host", lines(&|r| life(r, Way::FirstRegion)));
    draw(
        "Life until the cells are worn on the mean",
        "TiB of the host",
        lines(&|r| life(r, Way::MeanOverCells)),
    );
    draw("Energy of the disk", "J", lines(&|r| Some(disk_j(r))));
    draw("Starts of the disk", "starts", lines(&|r| Some(starts(r))));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_straight_or_not() {
        let line =
            |of: fn(f64) -> f64| -> Line { (0..=10).map(|x| (f64::from(x), of(f64::from(x)))).collect() };
        assert!((straightness(&line(|x| 3.0 * x + 2.0)) - 1.0).abs() < 1e-9);
        assert_eq!(straightness(&line(|x| 5.0 - x)), 0.0);
        assert_eq!(straightness(&line(|_| 1.0)), 0.0);
        // x^2 over 0 to 10: r2 = 0.9276.
        assert!((straightness(&line(|x| x * x)) - 0.9276).abs() < 1e-3);
        assert_eq!(in_words(&vec![(0.0, 1.2345), (1.0, 12.345), (2.0, 123.45)]), "1.23 12.3 123");
    }
}
