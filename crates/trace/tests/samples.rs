//! Files that the tools themselves wrote, or read: fio 3.33 and 3.42, blkparse 1.2.0; and lines of recordings as they are published. `samples/README.md`
//! says where each comes from.
//!
//! `fio-3.33*` were written by one run of fio (`rw=randrw`, 16 requests of 4 KiB, `fsync=4`, `thinktime=2ms`, `log_offset=1`,
//! `write_iolog`), `fio-3.42*` by one of a newer fio with `log_issue_time=1`. `made.blktrace.0` holds the events of `blktrace_api.h` as this project put them together, since recording needs a
//! kernel that allows it; `blkparse-1.2.0.txt` is what blkparse printed of it.

use nandu_base::Op;
use nandu_trace::{LoadOptions, Origin, Trace, load};
use std::path::Path;

fn sample(name: &str) -> Trace {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/samples").join(name);
    load(&path, &LoadOptions::default()).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn fio_s_iolog_and_logs_hold_the_same_requests() {
    let iolog = sample("fio-3.33.iolog");
    assert_eq!((iolog.meta.format.as_str(), iolog.meta.origin), ("fio-iolog", Origin::Unknown));
    // 16 requests and one sync; the think time of 2 ms makes at least 30 ms.
    assert_eq!(iolog.records.len(), 17);
    assert_eq!(iolog.records.iter().filter(|r| r.op() == Op::Flush).count(), 1);
    assert!((30_000_000..100_000_000).contains(&iolog.span().0), "{}", iolog.span().0);
    let plain = |t: &Trace| -> Vec<(Op, u64, u64)> {
        let asked = t.records.iter().filter(|r| r.op() != Op::Flush);
        asked.map(|r| (r.op(), r.offset().0, r.len().0)).collect()
    };
    for log in ["fio-3.33_lat.log", "fio-3.33_bw.log"] {
        let log = sample(log);
        assert_eq!(log.meta.format, "fio-log");
        assert_eq!(plain(&log), plain(&iolog));
        // Both clocks start with the job.
        assert!(log.span().0.abs_diff(iolog.span().0) < 3_000_000, "{}", log.span().0);
    }
}

#[test]
fn issue_times_of_a_log_are_its_arrivals() {
    let (iolog, log) = (sample("fio-3.42.iolog"), sample("fio-3.42_clat.log"));
    assert!(log.meta.notes.is_empty(), "{:?}", log.meta.notes);
    let asked: Vec<_> = iolog.records.iter().filter(|r| r.op() != Op::Flush).collect();
    assert_eq!(log.records.len(), asked.len());
    for (log, asked) in log.records.iter().zip(asked) {
        assert_eq!((log.op(), log.offset(), log.len()), (asked.op(), asked.offset(), asked.len()));
        // The log has ns of the moment of issue, the iolog us of the moment just before.
        assert!(log.time().0.abs_diff(asked.time().0) < 500_000, "{} {}", log.time().0, asked.time().0);
    }
}

#[test]
fn blktrace_is_read_as_blkparse_prints_it() {
    let (binary, text) = (sample("made.blktrace.0"), sample("blkparse-1.2.0.txt"));
    assert_eq!((binary.meta.format.as_str(), text.meta.format.as_str()), ("blktrace", "blkparse"));
    assert_eq!((&binary.records, &binary.streams), (&text.records, &text.streams));
    // Nine queued requests, of which one is a flush with a write behind it.
    let ops: Vec<(Op, bool)> = binary.records.iter().map(|r| (r.op(), r.fua())).collect();
    let write = (Op::Write, false);
    let expected = [
        write,
        (Op::Read, false),
        (Op::Read, false),
        write,
        (Op::Trim, false),
        (Op::Write, true),
        (Op::Flush, false),
    ];
    assert_eq!(ops[..7], expected);
    assert_eq!(ops[7..], [(Op::Flush, false), (Op::Write, true), write]);
    assert_eq!(binary.streams.iter().map(|s| s.name.as_str()).collect::<Vec<_>>(), ["8_0", "259_3"]);
}

fn with(columns: &str, name: &str) -> Result<Trace, nandu_trace::TraceError> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/samples").join(name);
    let columns = Some(columns.parse().unwrap());
    load(&path, &LoadOptions { columns, ..LoadOptions::default() })
}

/// What pandas wrote (3.1, with pyarrow 26): every compression, integers of 8 to 64 bits with and without sign, no `fua`.
#[test]
fn parquet_of_pandas_is_read_in_every_compression() {
    let described = "time:us=ts,op=kind,offset:sectors=lba,size:sectors=sectors,stream=vol";
    let own = sample("pandas-own-columns.parquet");
    assert_eq!(own.records.len(), 3);
    assert_eq!(
        (own.records[2].time().0, own.records[2].offset().0, own.records[2].len().0),
        (3_000_000, 1 << 42, 1 << 20)
    );
    assert_eq!(own.streams.iter().map(|s| s.name.as_str()).collect::<Vec<_>>(), ["3", "9"]);
    for codec in ["plain", "snappy", "gzip", "brotli", "lz4", "zstd"] {
        let trace = with(described, &format!("pandas-{codec}.parquet")).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!((trace.records, trace.streams), (own.records.clone(), own.streams.clone()), "{codec}");
    }
    // By place, and with a time that knows its unit and operations that are numbers.
    let by_place = with("time:us,op,offset:sectors,size:sectors,stream", "pandas-snappy.parquet").unwrap();
    assert_eq!(by_place.records, own.records);
    let numbers = "time=ts,op:read0=kind,offset:sectors=lba,size:sectors=sectors,stream=vol";
    assert_eq!(with(numbers, "pandas-timestamps.parquet").unwrap().records, own.records);
}

#[test]
fn a_parquet_column_that_does_not_fit_is_named() {
    let file = "pandas-snappy.parquet";
    for (columns, says) in [
        (
            "time:us=when,op=kind,offset=lba,size=sectors",
            "column `when`: there is none; the file has ts, kind, lba, sectors, vol",
        ),
        ("time=ts,op=kind,offset=lba,size=sectors", "column `ts`: nothing says in which unit it is"),
        ("time:us=kind,op=kind,offset=lba,size=sectors", "column `kind`: it holds BYTE_ARRAY; times"),
        ("time:us=ts,op=vol,offset=lba,size=sectors", "vol: `3`; expected R, read"),
    ] {
        let e = with(columns, file).unwrap_err().to_string();
        assert!(e.contains(says), "{e}");
    }
    let e = load(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/samples").join(file),
        &LoadOptions::default(),
    );
    let e = e.unwrap_err().to_string();
    assert!(e.contains("column `time_ns`: there is none") && e.contains("--columns time:us=ts"), "{e}");
}

/// A sample of published lines, by its content alone: format, streams, span, and offset and length of its requests.
#[test]
fn published_lines_are_what_their_publishers_say() {
    type Lines = (&'static str, &'static str, usize, u64, &'static [(Op, u64, u64)]);
    let all: [Lines; 5] = [
        (
            "alibaba.csv",
            "alibaba",
            6,
            763_000,
            &[
                (Op::Read, 126_703_661_056, 4096),
                (Op::Write, 19_496_058_880, 77_824),
                (Op::Write, 9_811_763_200, 12_288),
                (Op::Write, 573_190_144, 12_288),
                (Op::Write, 4_184_444_928, 4096),
                (Op::Read, 126_703_644_672, 4096),
                (Op::Write, 19_546_832_896, 4096),
            ],
        ),
        (
            "tencent-cbs.csv",
            "tencent-cbs",
            7,
            0,
            &[
                (Op::Read, 12_910_952 * 512, 65_536),
                (Op::Write, 6_338_688 * 512, 4096),
                (Op::Read, 1_904_106_400 * 512, 196_608),
                (Op::Read, 342_884_064 * 512, 131_072),
                (Op::Read, 15_114_104 * 512, 4096),
                (Op::Read, 140_441_472 * 512, 16_384),
                (Op::Write, 15_361_816 * 512, 266_240),
                (Op::Read, 23_803_384 * 512, 4096),
                (Op::Write, 5_331_600 * 512, 2048),
            ],
        ),
        (
            "k5cloud.csv",
            "k5cloud",
            1,
            5_924_393_000,
            &[
                (Op::Write, 7_155_568_640, 4096),
                (Op::Write, 7_132_311_552, 8192),
                (Op::Write, 15_264_690_176, 28_672),
                (Op::Write, 28_121_042_944, 4096),
                (Op::Write, 15_264_718_848, 4096),
                (Op::Write, 7_155_568_640, 4096),
            ],
        ),
        (
            "fiu.blkparse",
            "fiu",
            1,
            791_527_125,
            &[
                (Op::Write, 508_516_672 * 512, 4096),
                (Op::Write, 508_516_680 * 512, 4096),
                (Op::Write, 508_516_688 * 512, 4096),
                (Op::Read, 283_193_112 * 512, 4096),
                (Op::Read, 283_193_120 * 512, 4096),
                (Op::Read, 283_193_184 * 512, 4096),
            ],
        ),
        ("xperf.csv", "exchange-etw", 1, 0, &[(Op::Read, 0x1_8f0b_8000, 4096)]),
    ];
    for (name, format, streams, span, lines) in all {
        let trace = sample(name);
        assert_eq!((trace.meta.format.as_str(), trace.meta.origin), (format, Origin::Unknown), "{name}");
        assert_eq!((trace.streams.len(), trace.span().0), (streams, span), "{name}");
        let read: Vec<(Op, u64, u64)> =
            trace.records.iter().map(|r| (r.op(), r.offset().0, r.len().0)).collect();
        assert_eq!(read, lines, "{name}");
    }
    let whole_seconds = sample("tencent-cbs.csv").meta;
    assert_eq!(whole_seconds.start_ns, 1_538_323_200_000_000_000);
    assert!(
        whole_seconds.notes.iter().any(|note| note.contains("whole seconds")),
        "{:?}",
        whole_seconds.notes
    );
    // The event is logged at its end; it took 283 us.
    let xperf = sample("xperf.csv");
    assert_eq!((xperf.meta.start_ns, xperf.service.expect("it is measured")[0].0), (8_329_000, 283_000));
}
