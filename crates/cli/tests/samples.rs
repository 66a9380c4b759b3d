//! Every sample of a trace format is recognised by its content.

mod support;

use serde_json::Value;
use support::{files, good, root};

/// A sample: its name, its format and its requests.
type Sample = (&'static str, &'static str, u64);

const SAMPLES: [Sample; 20] = [
    ("alibaba.csv", "alibaba", 7),
    ("blkparse-1.2.0.txt", "blkparse", 10),
    ("fio-3.33.iolog", "fio-iolog", 17),
    ("fio-3.33_bw.log", "fio-log", 16),
    ("fio-3.33_lat.log", "fio-log", 16),
    ("fio-3.42.iolog", "fio-iolog", 17),
    ("fio-3.42_clat.log", "fio-log", 16),
    ("fiu.blkparse", "fiu", 6),
    ("k5cloud.csv", "k5cloud", 6),
    ("made.blktrace.0", "blktrace", 10),
    ("pandas-brotli.parquet", "parquet", 3),
    ("pandas-gzip.parquet", "parquet", 3),
    ("pandas-lz4.parquet", "parquet", 3),
    ("pandas-own-columns.parquet", "parquet", 3),
    ("pandas-plain.parquet", "parquet", 3),
    ("pandas-snappy.parquet", "parquet", 3),
    ("pandas-timestamps.parquet", "parquet", 3),
    ("pandas-zstd.parquet", "parquet", 3),
    ("tencent-cbs.csv", "tencent-cbs", 9),
    ("xperf.csv", "exchange-etw", 1),
];

/// What says which columns of a Parquet file are which; nothing where they have the names that Nandu gives them.
fn columns(name: &str) -> Option<&'static str> {
    match name {
        "pandas-own-columns.parquet" => None,
        "pandas-timestamps.parquet" => Some("time=ts,op:read0=kind,offset:sectors=lba,size:sectors=sectors"),
        name if name.ends_with(".parquet") => {
            Some("time:us=ts,op=kind,offset:sectors=lba,size:sectors=sectors")
        }
        _ => None,
    }
}

#[test]
fn every_sample_is_recognised_by_its_content() {
    let folder = root().join("crates/trace/tests/samples");
    let there: Vec<String> = files(&folder).into_iter().filter(|name| name != "README.md").collect();
    assert_eq!(there, SAMPLES.map(|sample| sample.0), "each file has a row");
    for (name, format, requests) in SAMPLES {
        let path = folder.join(name).display().to_string();
        let mut args = vec!["trace", "info", &path, "--json", "--quiet"];
        args.extend(columns(name).into_iter().flat_map(|columns| ["--columns", columns]));
        let info: Value = serde_json::from_str(&good(&args)).expect("JSON");
        let trace = &info["traces"][0];
        let found = (trace["meta"]["format"].as_str(), trace["stats"]["requests"].as_u64());
        assert_eq!(found, (Some(format), Some(requests)), "{name}");
    }
}
