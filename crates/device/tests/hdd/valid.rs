//! Eight drives of the 1990s, measured: DiskSim's validation set.
//!
//! Each drive is read from DiskSim's parameter files, replays its trace closed loop as it was measured, and the times are
//! held against the measured ones. The *demerit* is the root mean square of the horizontal distance between the two
//! distributions (Ruemmler and Wilkes, 1994), sampled at every 0.0001 of probability with linear interpolation, as DiskSim
//! computes it, but from the exact times, not from a histogram. The bounds were set before the first measurement.
//!
//! ```text
//! cargo test -p nandu-device --test hdd valid -- --nocapture
//! ```
//!
//! With `NANDU_HDD_EXPLAIN=1` it also prints both means and the demerit by what was asked.

use super::disk::{disk, one};
use nandu_base::{Instant, Op, Span};
use nandu_graph::testkit::Bed;
use nandu_trace::{LoadOptions, Trace, load};
use std::path::PathBuf;

/// Each drive with the demerit that DiskSim states for itself and the one that it reached when it was run, in us.
const DRIVES: &[(&str, u64, u64)] = &[
    ("atlas_III", 378, 378),
    ("barracuda", 349, 348),
    ("cheetah4LP", 318, 318),
    ("ibm18es", 135, 136),
    ("atlas10k", 268, 268),
    ("hp_c2247a", 90, 89),
    ("hp_c3323a", 306, 305),
    ("hp_c2490a", 254, 254),
];

/// At most this much of DiskSim's demerit, in percent.
const MOST_PERCENT: u64 = 125;

fn folder() -> Option<PathBuf> {
    let traces = std::env::var_os("NANDU_TRACES")
        .map_or_else(|| PathBuf::from("../../../shared/traces"), PathBuf::from)
        .join("disksim-valid");
    traces.join("atlas10k.parv").is_file().then_some(traces)
}

/// The time of a sorted list at a probability in 1/10,000, between its neighbours.
fn quantile(sorted: &[u64], p: u64) -> f64 {
    let last = (sorted.len() - 1) as u64;
    let (at, part) = (last * p / 10_000, last * p % 10_000);
    let (low, high) = (sorted[at as usize], sorted[last.min(at + 1) as usize]);
    low as f64 + (high - low) as f64 * part as f64 / 10_000.0
}

/// In ns.
fn demerit(mut a: Vec<u64>, mut b: Vec<u64>) -> f64 {
    a.sort_unstable();
    b.sort_unstable();
    let sum: f64 = (0..=10_000).map(|p| (quantile(&a, p) - quantile(&b, p)).powi(2)).sum();
    (sum / 10_001.0).sqrt()
}

/// The times that the drive takes for the requests of a trace, in ns.
fn replay(disk: &mut Bed, trace: &Trace) -> Vec<u64> {
    let mut at = Instant::ZERO;
    let mut times = Vec::with_capacity(trace.records.len());
    for (number, record) in trace.records.iter().enumerate() {
        let took = one(disk, at, record.op(), record.offset().sector(), record.len().sectors());
        times.push(took);
        at = at + Span(took) + trace.gap_after(number).unwrap_or(Span::ZERO);
    }
    times
}

fn mean(times: &[u64]) -> f64 {
    times.iter().sum::<u64>() as f64 / times.len() as f64 / 1e6
}

#[test]
fn the_demerit_of_half_of_the_drives_is_at_most_disksims_and_none_is_far_above() {
    let Some(folder) = folder() else {
        println!("skipped: the DiskSim validation set is not there");
        return;
    };
    println!("drive        requests  measured ms  simulated ms  demerit ms  DiskSim's  of DiskSim's");
    let (mut at_most, mut above) = (0, Vec::new());
    for &(name, stated, reached) in DRIVES {
        let trace = load(&folder.join(format!("{name}.trace.zst")), &LoadOptions::default()).unwrap();
        let parameters = folder.join(format!("{name}.parv"));
        let mut disk = disk(&format!("disksim = {:?}", parameters.display().to_string())).unwrap();
        let times = replay(&mut disk, &trace);
        let measured: Vec<u64> = trace.service.as_ref().unwrap().iter().map(|s| s.0).collect();
        explain(name, &trace, &measured, &times);
        let (m, s) = (mean(&measured), mean(&times));
        let ours = demerit(measured, times) / 1000.0;
        let theirs = stated.min(reached);
        let percent = ours * 100.0 / theirs as f64;
        println!(
            "{name:<12} {:>8}  {m:>11.3}  {s:>12.3}  {:>10.4}  {:>9.3}  {percent:>10.1} %",
            trace.records.len(),
            ours / 1000.0,
            theirs as f64 / 1000.0
        );
        at_most += usize::from(ours <= theirs as f64);
        if percent > MOST_PERCENT as f64 {
            above.push(name);
        }
    }
    assert!(above.is_empty(), "above {MOST_PERCENT} % of DiskSim's demerit: {above:?}");
    assert!(at_most * 2 >= DRIVES.len(), "only {at_most} drives at or below DiskSim's demerit");
}

/// Where the two differ, by what was asked.
fn explain(name: &str, trace: &Trace, measured: &[u64], times: &[u64]) {
    if std::env::var_os("NANDU_HDD_EXPLAIN").is_none() {
        return;
    }
    let mut classes: std::collections::BTreeMap<String, Vec<(u64, u64)>> = Default::default();
    let mut last: Option<(Op, u64)> = None;
    for (at, record) in trace.records.iter().enumerate() {
        let first = record.offset().sector();
        if let Some((op, end)) = last {
            let way = match first.abs_diff(end) {
                0 => "seq",
                1..=2000 if first > end => "near+",
                1..=2000 => "near-",
                _ => "far",
            };
            let class = format!("{}{} {way}", &op.name()[..1], &record.op().name()[..1]);
            classes.entry(class).or_default().push((measured[at], times[at]));
        }
        last = Some((record.op(), first + record.len().sectors()));
    }
    for (class, pairs) in classes {
        let (m, s): (Vec<u64>, Vec<u64>) = pairs.into_iter().unzip();
        println!(
            "    {name:<10} {class:<9} {:>5} measured {:>7.3} simulated {:>7.3} demerit {:>6.3}",
            m.len(),
            mean(&m),
            mean(&s),
            demerit(m.clone(), s.clone()) / 1e6
        );
    }
}
