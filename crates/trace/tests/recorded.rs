//! Recorded traces, when they are present: every file is read and measures what its list says.
//!
//! The files are others' recordings and not part of the repository. Their folder is named by `NANDU_TRACES`, or is
//! `../shared/traces` beside the workspace. Without it the tests say so and pass.

use nandu_base::ByteLen;
use nandu_trace::fit::{Fit, fit};
use nandu_trace::formats::by_name;
use nandu_trace::stats::{Stats, StatsOptions, stats};
use nandu_trace::write::{Unsupported, write};
use nandu_trace::{Arrival, LoadOptions, Origin, Record, Trace, load, parse_bytes};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

fn folder() -> Option<PathBuf> {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2)?;
    let folder = match std::env::var_os("NANDU_TRACES") {
        Some(path) => PathBuf::from(path),
        None => workspace.join("../shared/traces"),
    };
    if folder.is_dir() {
        return Some(folder);
    }
    println!("skipped: no recorded traces in {}; set NANDU_TRACES to their folder", folder.display());
    None
}

fn read(path: &Path) -> Trace {
    load(path, &LoadOptions::default()).unwrap_or_else(|e| panic!("{e}"))
}

/// A row of the list: file, format, requests, write %, mean KiB, mean inter-arrival ms, span s, footprint MiB,
/// written MiB, 4K-aligned %. Source: the table in the folder's README.md, as printed there.
type Row = (
    &'static str,
    &'static str,
    u64,
    &'static str,
    &'static str,
    &'static str,
    f64,
    [&'static str; 2],
    &'static str,
);

const ROWS: [Row; 11] = [
    (
        "Financial1-first10000.spc.zst",
        "spc",
        10_000,
        "59.23",
        "5.40",
        "25.96",
        259.6,
        ["28.6", "14.6"],
        "0.1",
    ),
    ("WebSearch1-first60s.spc.zst", "spc", 24_783, "0.02", "15.06", "2.423", 60.1, ["363.4", "0.0"], "99.9"),
    (
        "msps-dtrs-300s.ascii.zst",
        "msps",
        127_043,
        "10.96",
        "55.33",
        "2.361",
        300.0,
        ["4969.8", "718.9"],
        "97.4",
    ),
    (
        "cloudphysics-vm-2h.csv.zst",
        "cloudphysics",
        113_872,
        "58.75",
        "36.07",
        "63.23",
        7200.0,
        ["1051.6", "815.2"],
        "0.1",
    ),
    (
        "blkreplay-linux-mysql.load.zst",
        "blkreplay",
        80_794,
        "91.10",
        "14.32",
        "44.56",
        3600.0,
        ["556.9", "485.5"],
        "90.4",
    ),
    (
        "blkreplay-windows-shared-server.load.zst",
        "blkreplay",
        1_371,
        "100.0",
        "3.85",
        "2626",
        3597.0,
        ["1.0", "1.0"],
        "90.4",
    ),
    ("msr-hm_0-148s.csv.zst", "msr", 7_016, "17.05", "11.80", "21.16", 148.4, ["52.8", "4.6"], "89.7"),
    (
        "msr-rsrch_1.csv.zst",
        "msr",
        13_780,
        "99.70",
        "12.17",
        "41843",
        6.7 * 86_400.0,
        ["112.4", "112.4"],
        "92.7",
    ),
    ("msr-wdev_1.csv.zst", "msr", 1_055, "100.0", "5.13", "564519", 6.9 * 86_400.0, ["1.4", "1.4"], "99.6"),
    (
        "iozone-aligned-100k.trace.zst",
        "disksim",
        100_000,
        "100.0",
        "359.9",
        "9.365",
        936.0,
        ["1059.8", "1059.8"],
        "100",
    ),
    (
        "systor17-additional-first999.csv.zst",
        "systor",
        999,
        "29.93",
        "20.23",
        "1.333",
        1.3,
        ["21.3", "2.7"],
        "14.8",
    ),
];

/// `value` agrees with `printed` to the last printed digit.
fn agrees(what: &str, value: f64, printed: &str) {
    let decimals = printed.split_once('.').map_or(0, |(_, d)| d.len()) as i32;
    let expected: f64 = printed.parse().unwrap();
    let unit = 10f64.powi(-decimals);
    assert!((value - expected).abs() <= 0.51 * unit, "{what}: measured {value}, listed {printed}");
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / 1_048_576.0
}

fn measured(folder: &Path, file: &str) -> (Trace, Stats) {
    let trace = read(&folder.join(file));
    let s = stats(&trace.clone().into(), StatsOptions { reuse: trace.records.len() < 50_000 });
    (trace, s)
}

#[test]
fn every_listed_trace_measures_what_the_list_says() {
    let Some(folder) = folder() else { return };
    for (file, format, requests, write, kib, ms, span, [touched, written], aligned) in ROWS {
        let (trace, s) = measured(&folder, file);
        assert_eq!((trace.meta.format.as_str(), s.requests), (format, requests), "{file}");
        agrees(&format!("{file}: write %"), s.write_percent, write);
        agrees(&format!("{file}: mean KiB"), s.size_mean_bytes / 1024.0, kib);
        agrees(&format!("{file}: inter-arrival ms"), s.interarrival_mean_ns.unwrap() / 1e6, ms);
        agrees(&format!("{file}: footprint MiB"), mib(s.footprint_bytes), touched);
        agrees(&format!("{file}: written MiB"), mib(s.footprint_written_bytes), written);
        agrees(&format!("{file}: aligned %"), s.aligned_4k_percent, aligned);
        let seconds = s.duration_ns.unwrap() as f64 / 1e9;
        assert!((seconds - span).abs() <= span * 0.01 + 0.05, "{file}: span {seconds} s, listed {span}");
    }
}

#[test]
fn the_order_only_trace_keeps_flush_and_fua() {
    let Some(folder) = folder() else { return };
    let (trace, s) = measured(&folder, "nbd-integrity-order-only.csv.zst");
    assert_eq!((trace.meta.format.as_str(), trace.meta.arrival), ("nbd-integrity", Arrival::OrderOnly));
    // 66,505 W + 1,189 W with FUA + 1,191 FLUSH + 105 R, from the folder's README.md.
    assert_eq!((s.requests, s.write_requests, s.fua_requests), (68_990, 67_694, 1_189));
    assert_eq!((s.flush_requests, s.read_requests, s.interarrival_mean_ns), (1_191, 105, None));
    agrees("write %", s.write_percent, "98.1");
    agrees("mean KiB", s.size_mean_bytes / 1024.0, "4.68");
    agrees("written MiB", mib(s.footprint_written_bytes), "30.6");
    assert!(s.max_extent_bytes <= 50 << 20);
}

#[test]
fn the_common_trace_is_what_its_script_says() {
    let Some(folder) = folder() else { return };
    let trace = read(&folder.join("common.mqsim.zst"));
    let s = stats(&trace.clone().into(), StatsOptions::default());
    assert_eq!((trace.meta.format.as_str(), s.requests), ("mqsim", 1_000_000));
    // Golden: SHA-256 over the layout of record.rs, computed from the same file by 12 lines of Python; exact.
    let hash = "24b1c9b6dd51ad0e4547d87c9434bb86952ae3af1655f0ad8d60a3bd73279a62";
    assert_eq!(trace.content_hash().to_string(), hash);
    // 3,103,563 pages of 4 KiB, from the folder's README.md.
    assert_eq!(s.read_bytes + s.written_bytes, 3_103_563 * 4096);
    assert!((s.write_percent - 70.0).abs() < 0.2, "{}", s.write_percent);
    assert!((s.interarrival_mean_ns.unwrap() - 1e6).abs() < 5e3);
}

#[test]
fn eight_real_drives_with_measured_service_times() {
    let Some(folder) = folder() else { return };
    let mut files = 0;
    for entry in std::fs::read_dir(folder.join("disksim-valid")).unwrap() {
        let path = entry.unwrap().path();
        if !path.to_string_lossy().ends_with(".trace.zst") {
            continue;
        }
        files += 1;
        let trace = read(&path);
        assert_eq!(
            (trace.meta.format.as_str(), trace.meta.arrival),
            ("disksim-valid", Arrival::GapAfterCompletion)
        );
        let service = trace.service.as_ref().unwrap();
        assert_eq!(service.len(), trace.records.len());
        assert!(trace.records.len() >= 9_000, "{}", path.display());
        // A drive of the 1990s: the mean service time lies between 3 and 30 ms.
        let mean = service.iter().map(|s| s.0).sum::<u64>() / service.len() as u64;
        assert!((3_000_000..30_000_000).contains(&mean), "{}: {mean} ns", path.display());
        assert!((0..trace.records.len() - 1).all(|i| trace.gap_after(i).is_some()));
    }
    assert_eq!(files, 8);
}

#[test]
fn every_recording_of_the_folder_is_known_and_nothing_else_is() {
    let Some(folder) = folder() else { return };
    let mut paths: Vec<PathBuf> = Vec::new();
    for place in [folder.clone(), folder.join("disksim-valid")] {
        let files = std::fs::read_dir(place).unwrap().map(|e| e.unwrap().path());
        paths.extend(files.filter(|p| p.extension().is_some_and(|e| e == "zst")));
    }
    paths.retain(|p| !p.to_string_lossy().contains(".parv"));
    paths.sort();
    let mut missing = String::new();
    for path in &paths {
        let trace = read(path);
        let name = path.file_name().unwrap().to_string_lossy();
        let expected = if name == "common.mqsim.zst" { Origin::StandIn } else { Origin::Real };
        if trace.meta.origin != expected {
            let (requests, hash) = (trace.records.len(), trace.content_hash());
            missing.push_str(&format!("    real(\"{name}\", {requests}, \"{hash}\"),\n"));
        }
    }
    assert!(missing.is_empty(), "not known:\n{missing}");
    // The same requests are known in another form; without one of them they are not.
    let trace = read(&folder.join("msr-wdev_1.csv.zst"));
    let mut out = Vec::new();
    write(&trace.clone().into(), by_name("msr").unwrap(), &mut out, Unsupported::Stop).unwrap();
    let origin = |bytes: &[u8]| parse_bytes(None, bytes, LoadOptions::default()).unwrap().meta.origin;
    assert_eq!(origin(&out), Origin::Real);
    let cut = out.len() - 60;
    let cut = cut + out[cut..].iter().position(|&b| b == b'\n').unwrap();
    assert_eq!(origin(&out[..cut]), Origin::Unknown);
}

#[test]
fn completion_order_is_sorted_and_counted() {
    let Some(folder) = folder() else { return };
    let trace = read(&folder.join("systor17-additional-first999.csv.zst"));
    // 299 timestamps step back, from the folder's README.md.
    assert_eq!(trace.meta.sorted_requests, 299);
    assert!(trace.records.windows(2).all(|w| w[0].time() <= w[1].time()));
}

#[test]
fn recorded_traces_survive_parquet_and_fitting() {
    let Some(folder) = folder() else { return };
    for file in ["Financial1-first10000.spc.zst", "msr-hm_0-148s.csv.zst", "nbd-integrity-order-only.csv.zst"]
    {
        let trace = read(&folder.join(file));
        let mut out = Vec::new();
        write(&trace.clone().into(), by_name("parquet").unwrap(), &mut out, Unsupported::Stop).unwrap();
        let back = parse_bytes(None, &out, LoadOptions::default()).unwrap();
        assert_eq!(
            (back.content_hash(), back.service),
            (trace.content_hash(), trace.service.clone()),
            "{file}"
        );
        let before = stats(&trace.clone().into(), StatsOptions::default());
        let (fitted, report) = fit(trace, ByteLen(before.footprint_bytes), Fit::Compact).unwrap();
        let after = stats(&fitted.clone().into(), StatsOptions::default());
        assert!(report.span_after_bytes <= before.footprint_bytes);
        assert_eq!((after.footprint_bytes, after.reuse), (before.footprint_bytes, before.reuse), "{file}");
        assert_eq!(after.pages_per_request_mean, before.pages_per_request_mean);
    }
}

/// Of the accesses of 1,000 requests, the share that goes to pages which were asked for at least twice in the 1,000 requests `distance` thousand before.
fn percent_still_hot(trace: &Trace, distance: usize) -> f64 {
    let count = |records: &[Record]| {
        let mut pages = BTreeMap::<(u16, u64), u64>::new();
        for record in records {
            if record.len_sectors() == 0 {
                continue;
            }
            let last = (record.offset_sectors() + record.len_sectors() - 1) / 8;
            (record.offset_sectors() / 8..=last)
                .for_each(|page| *pages.entry((record.stream(), page)).or_default() += 1);
        }
        pages
    };
    let windows: Vec<_> = trace.records.chunks(1_000).map(count).collect();
    let pairs = windows.iter().zip(&windows[distance..]);
    let shares = pairs.map(|(before, now)| {
        let hot = now.iter().filter(|(page, _)| before.get(page).is_some_and(|&n| n >= 2));
        hot.map(|(_, n)| n).sum::<u64>() as f64 / now.values().sum::<u64>() as f64
    });
    let all: Vec<f64> = shares.collect();
    100.0 * all.iter().sum::<f64>() / all.len() as f64
}

/// What the drift of `financial1` is fitted to. Both figures are of the first 10,000 requests of Financial1.
#[test]
fn a_hot_set_that_moves_grows_cold_as_that_of_financial1_does() {
    const RECORDED: [(usize, f64); 2] = [(1, 14.2), (4, 5.2)];
    let made = |drift: &str| {
        let params = serde_json::json!({ "requests": 10_000, "drift": drift });
        nandu_trace::synth::by_name("financial1").unwrap().trace(&params, 7).unwrap()
    };
    let (stays, moves) = (made("0"), made("120 KiB"));
    for (distance, recorded) in RECORDED {
        let [stays, moves] = [&stays, &moves].map(|trace| percent_still_hot(trace, distance));
        assert!((moves - recorded).abs() < 5.0, "{moves} % after {distance}, recorded {recorded} %");
        assert!(stays > 2.0 * recorded, "{stays} % after {distance} where nothing moves");
    }
    let Some(folder) = folder() else { return };
    let trace = read(&folder.join("Financial1-first10000.spc.zst"));
    for (distance, recorded) in RECORDED {
        let percent = percent_still_hot(&trace, distance);
        assert!(
            (percent - recorded).abs() < 0.1,
            "{percent} % after {distance}, in the sources {recorded} %"
        );
    }
}
