//! Miss ratios, page by page: other people's numbers, and what must hold for any trace.

mod support;

use support::{good, nandu, recorded};

/// Golden: libCacheSim aa0fc40 (2024-10) on the common trace, one access for each 4 KiB page in order, objects of equal
/// size, S3-FIFO with a small queue of 0.1 and two meetings; LIRS also with 0.3.5. To four digits, as it prints them.
const LIBCACHESIM: [(&str, [&str; 5]); 3] = [
    ("10000", ["0.6337", "0.5403", "0.5399", "0.5490", "0.5399"]),
    ("50000", ["0.5086", "0.4450", "0.4479", "0.4543", "0.4439"]),
    ("200000", ["0.3853", "0.3604", "0.3676", "0.3643", "0.3598"]),
];

#[test]
fn the_miss_ratios_are_those_of_libcachesim() {
    let Some(trace) = recorded("common.mqsim.zst") else { return };
    for lookup in [&[][..], &["--hashed"]] {
        let trace = trace.to_str().expect("the path is UTF-8");
        let words = [
            "trace",
            "mrc",
            trace,
            "--policy",
            "lru,arc,s3-fifo,sieve,lirs",
            "--sizes",
            "10000,50000,200000",
        ];
        let table = good(&[&words, lookup].concat());
        for (row, (blocks, ratios)) in table.lines().skip(1).zip(LIBCACHESIM) {
            let cells: Vec<&str> = row.split_whitespace().collect();
            assert_eq!(cells[0].replace(',', ""), blocks);
            assert_eq!(cells[cells.len() - 5..], ratios, "{blocks} blocks {lookup:?}");
        }
    }
}

#[test]
fn a_curve_has_twenty_sizes_and_ends_with_the_cold_misses() {
    let words = ["trace", "mrc", "mixed-zipf", "--gen", "requests=20000", "--gen", "space=256MiB", "--json"];
    let curve: serde_json::Value = serde_json::from_str(&good(&words)).expect("JSON");
    let points = curve["points"].as_array().expect("points");
    assert_eq!(points.len(), 20 * 4);
    let footprint = curve["footprint_blocks"].as_u64();
    for point in &points[19 * 4..] {
        assert_eq!(
            point["misses"].as_u64(),
            footprint,
            "a cache as large as the trace misses each block once"
        );
    }
    let lru: Vec<u64> =
        points.iter().filter(|p| p["policy"] == "lru").map(|p| p["misses"].as_u64().unwrap()).collect();
    assert!(lru.is_sorted_by(|a, b| a >= b), "a larger LRU never misses more: {lru:?}");
}

#[test]
fn one_pass_finds_what_simulating_each_size_finds() {
    let words = ["trace", "mrc", "mixed-zipf", "--gen", "requests=8000", "--gen", "space=64MiB"];
    let points = |more: &[&str]| -> Vec<serde_json::Value> {
        let text = good(&[&words[..], &["--json", "--repeat", "2"], more].concat());
        let curve: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        curve["points"].as_array().expect("points").clone()
    };
    // Segments of one block prefetch nothing, and are simulated.
    let (at_once, simulated) =
        (points(&["--policy", "lru"]), points(&["--policy", "lru", "--segment", "4KiB"]));
    let misses = |points: &[serde_json::Value]| -> Vec<(u64, u64)> {
        points.iter().map(|p| (p["blocks"].as_u64().unwrap(), p["misses"].as_u64().unwrap())).collect()
    };
    assert_eq!(misses(&at_once), misses(&simulated));
    assert!(at_once[0].get("list_operations").is_none() && simulated[0].get("list_operations").is_some());
    let sampled = points(&["--policy", "lru", "--sample", "25%"]);
    for (point, exact) in sampled.iter().zip(&at_once).rev().take(12) {
        let (got, want) = (point["miss_ratio"].as_f64().unwrap(), exact["miss_ratio"].as_f64().unwrap());
        let error = point["standard_error"].as_f64().expect("an error");
        assert!((got - want).abs() < 0.1 && error < 0.1, "{got} +- {error}, {want}");
    }
    assert!(good(&[&words[..], &["--policy", "lru", "--sample", "1/4"]].concat()).contains(" +- 0.0"));
}

#[test]
fn wrong_words_are_answered() {
    for (words, answer) in [
        (["--policy", "lruu"], "did you mean `lru`"),
        (["--sizes", "0"], "at least one block"),
        (["--segment", "12KiB"], "a power of two"),
        (["--sample", "0"], "between 0 and 1"),
        (["--sample", "1%,2%"], "1/100"),
    ] {
        let ran = nandu(&[&["trace", "mrc", "uniform", "--gen", "requests=10"], &words[..]].concat());
        assert!(ran.code == 2 && ran.err.contains(answer), "{words:?}: {}", ran.err);
    }
}
