//! Single requests of a run: the log, the slowest, and the picture of the lanes agree with the run and with each other.

mod support;

use serde_json::Value;
use std::path::Path;
use support::{good, nandu, root};

const RUN: [&str; 7] = ["run", "small-ssd", "--trace", "mixed-zipf", "--limit", "30000", "--iodepth=8"];

/// The lines of a log as numbers; words are 0.
fn lines(path: &Path) -> (Vec<String>, Vec<Vec<u64>>) {
    let text = std::fs::read_to_string(path).expect("the log is there");
    let mut lines = text.lines();
    let head = lines.next().expect("a head").split(',').map(String::from).collect();
    (head, lines.map(|l| l.split(',').map(|cell| cell.parse().unwrap_or(0)).collect()).collect())
}

#[test]
fn a_closer_look_changes_nothing_and_agrees_with_itself() {
    let folder = tempfile::tempdir().expect("a folder");
    let (log, lanes) = (folder.path().join("log.csv"), folder.path().join("lanes.json"));
    let (log_name, lanes_name) = (log.to_str().unwrap(), lanes.to_str().unwrap());
    let closer = ["--json", "--slowest", "3", "--request-log", log_name, "--timeline", lanes_name];
    let mut looked: Value = serde_json::from_str(&good(&[&RUN[..], &closer].concat())).unwrap();
    let plain: Value = serde_json::from_str(&good(&[&RUN[..], &["--json"]].concat())).unwrap();
    let slowest = looked.as_object_mut().unwrap().remove("slowest").unwrap();
    assert_eq!(looked, plain);

    let (head, rows) = lines(&log);
    let column = |name: &str| head.iter().position(|h| h == name).unwrap();
    let (latency, first_phase) = (column("latency_ns"), column("queue_ns"));
    assert_eq!(rows.len(), 30_000);
    for row in &rows {
        assert_eq!(row[first_phase..].iter().sum::<u64>(), row[latency], "request {}", row[0]);
    }
    let mut sorted: Vec<(u64, u64)> = rows.iter().map(|r| (u64::MAX - r[latency], r[0])).collect();
    sorted.sort();
    for (slow, (latency, number)) in slowest.as_array().unwrap().iter().zip(sorted) {
        assert_eq!(slow["request"], number);
        assert_eq!(slow["latency_ns"], u64::MAX - latency);
        let path: u64 = slow["path_ns"].as_object().unwrap().values().map(|v| v.as_u64().unwrap()).sum();
        assert_eq!(slow["latency_ns"], path);
    }

    let picture: Value = serde_json::from_str(&std::fs::read_to_string(&lanes).unwrap()).unwrap();
    let events = picture["traceEvents"].as_array().unwrap();
    let named = |ph: &'static str| events.iter().filter(move |e| e["ph"] == ph);
    assert!(named("b").any(|e| e["args"]["request"] == slowest[0]["request"]), "the slowest is in it");
    assert_eq!(named("b").count(), named("e").count());
    never_two_at_once(named("X"));
    let works: std::collections::BTreeSet<&str> = named("X").filter_map(|e| e["cat"].as_str()).collect();
    assert_eq!(works.into_iter().collect::<Vec<_>>(), ["gc", "read", "write"]);
}

/// A lane does one thing at a time.
fn never_two_at_once<'a>(spans: impl Iterator<Item = &'a Value>) {
    let mut lanes = std::collections::BTreeMap::<u64, Vec<(u64, u64)>>::new();
    let ns = |v: &Value| (v.as_f64().unwrap() * 1000.0).round() as u64;
    for span in spans {
        let start = ns(&span["ts"]);
        let lane = lanes.entry(span["pid"].as_u64().unwrap() << 32 | span["tid"].as_u64().unwrap());
        lane.or_default().push((start, start + ns(&span["dur"])));
    }
    assert!(lanes.len() > 4, "dies, planes and channels were busy");
    for (lane, mut spans) in lanes {
        spans.sort();
        assert!(spans.windows(2).all(|w| w[0].1 <= w[1].0), "lane {lane:x}");
    }
}

#[test]
fn a_window_is_what_was_asked_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let lanes = folder.path().join("lanes.json");
    good(&[&RUN[..], &["--timeline", lanes.to_str().unwrap(), "--window", "5ms..6ms"]].concat());
    let picture: Value = serde_json::from_str(&std::fs::read_to_string(&lanes).unwrap()).unwrap();
    let spans: Vec<(f64, f64)> = picture["traceEvents"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|e| e["ph"] == "X")
        .map(|e| (e["ts"].as_f64().unwrap(), e["dur"].as_f64().unwrap()))
        .collect();
    assert!(!spans.is_empty() && spans.iter().all(|(ts, dur)| ts + dur >= 5000.0 && *ts <= 6000.0));
}

#[test]
fn what_cannot_be_written_is_refused_before_the_run() {
    let missing = root().join("no-such-folder/log.csv");
    for option in ["--request-log", "--timeline"] {
        let ran = nandu(&[&RUN[..], &[option, missing.to_str().unwrap()]].concat());
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{}", ran.err);
        assert!(ran.err.contains("there is no directory"), "{}", ran.err);
    }
    let ran = nandu(&[&RUN[..], &["--timeline", "x.json", "--window", "6ms..5ms"]].concat());
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("is not after"), "{}", ran.err);
}
