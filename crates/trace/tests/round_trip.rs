//! What is written reads back as the same trace, in every format that can be written.

use nandu_base::{Op, Span};
use nandu_trace::formats::{FORMATS, Format, by_name};
use nandu_trace::write::{LineWriter, Unsupported, write};
use nandu_trace::{Arrival, LoadOptions, Meta, Origin, Record, Trace, TraceError, parse_bytes};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

/// A trace of reads and writes whose times are multiples of `unit` ns.
fn traces(unit: u64, streams: u16) -> impl Strategy<Value = Trace> {
    let request = (1u64..5_000_000, 0u64..1 << 33, 1u64..5000, any::<bool>(), 0..streams);
    (prop::collection::vec(request, 1..60), 0u64..1 << 40).prop_map(move |(requests, start)| {
        let mut time = 0;
        // Streams numbered in order of appearance, as a reader numbers them.
        let mut seen: Vec<u16> = Vec::new();
        let records: Vec<Record> = requests
            .into_iter()
            .enumerate()
            .map(|(i, (gap, at, len, read, stream))| {
                time += if i == 0 { 0 } else { gap * unit };
                let stream = seen.iter().position(|&s| s == stream).unwrap_or_else(|| {
                    seen.push(stream);
                    seen.len() - 1
                });
                let op = if read { Op::Read } else { Op::Write };
                Record::new(time, op, false, at, len, stream as u16).unwrap()
            })
            .collect();
        let names = (0..seen.len()).map(|n| n.to_string()).collect();
        let meta = Meta { start_ns: start * unit, ..Meta::default() };
        Trace::from_records(records, names, meta).unwrap()
    })
}

/// Every format that can be written and has times, with the unit of its times in ns and how many streams it tells apart.
fn written() -> impl Iterator<Item = (&'static Format, u64, u16)> {
    FORMATS.iter().copied().filter(|format| format.is_writable()).filter_map(|format| match format.writer {
        Some(LineWriter { time_unit_ns: 0, .. }) => None,
        Some(writer) => Some((format, writer.time_unit_ns, if writer.streams { 5 } else { 1 })),
        None => Some((format, 1, 5)),
    })
}

fn text(trace: &Trace, format: &str, unsupported: Unsupported) -> Result<Vec<u8>, TraceError> {
    let mut out = Vec::new();
    write(&trace.clone().into(), by_name(format)?, &mut out, unsupported)?;
    Ok(out)
}

#[test]
fn every_format_that_can_be_written_reads_back() {
    for (format, unit, streams) in written() {
        let name = format.name;
        let same = |trace: Trace| {
            let out = text(&trace, name, Unsupported::Stop).unwrap();
            let back = parse_bytes(Some(format), &out, LoadOptions::default()).unwrap();
            prop_assert_eq!(&back.records, &trace.records, "{}: {}", name, String::from_utf8_lossy(&out));
            prop_assert_eq!(back.meta.start_ns, trace.meta.start_ns, "{}", name);
            prop_assert_eq!(back.content_hash(), trace.content_hash());
            Ok(())
        };
        TestRunner::default().run(&traces(unit, streams), same).unwrap_or_else(|e| panic!("{name}: {e}"));
    }
}

proptest! {
    #[test]
    fn damaged_parquet_is_an_error_or_a_trace(trace in traces(1, 3), edits in prop::collection::vec((any::<usize>(), any::<u8>()), 1..4)) {
        let mut bytes = text(&trace, "parquet", Unsupported::Stop).unwrap();
        for (at, byte) in edits {
            let at = 4 + at % (bytes.len() - 4);
            bytes[at] = byte;
        }
        let _ = parse_bytes(None, &bytes, LoadOptions::default());
    }
}

/// Flush, trim and FUA in a closed-loop trace with measured times.
fn rich() -> Trace {
    let ops = [
        (Op::Write, true),
        (Op::Flush, false),
        (Op::Trim, false),
        (Op::Read, false),
        (Op::WriteZeroes, false),
    ];
    let record = |(i, &(op, fua)): (usize, &(Op, bool))| {
        let (at, len) = if op == Op::Flush { (0, 0) } else { (i as u64 * 8, 8) };
        Record::new(i as u64 * 1000, op, fua, at, len, 0).unwrap()
    };
    let records: Vec<Record> = ops.iter().enumerate().map(record).collect();
    let meta = Meta { origin: Origin::StandIn, arrival: Arrival::GapAfterCompletion, ..Meta::default() };
    let mut trace = Trace::from_records(records, vec!["disk a".into()], meta).unwrap();
    trace.service = Some((0..5).map(Span).collect());
    trace
}

#[test]
fn parquet_keeps_everything() {
    let trace = rich();
    let out = text(&trace, "parquet", Unsupported::Stop).unwrap();
    let back = parse_bytes(None, &out, LoadOptions::default()).unwrap();
    assert_eq!((back.records, back.service), (trace.records.clone(), trace.service.clone()));
    assert_eq!((back.meta.origin, back.meta.arrival), (Origin::StandIn, Arrival::GapAfterCompletion));
    assert_eq!(back.meta.format, "parquet");
    for cut in [4, 8, out.len() / 2, out.len() - 1] {
        assert!(parse_bytes(None, &out[..cut], LoadOptions::default()).is_err(), "cut at {cut}");
    }
}

#[test]
fn what_a_format_cannot_say_is_an_error_or_counted() {
    let trace = rich();
    let e = text(&trace, "mqsim", Unsupported::Stop).unwrap_err();
    assert!(matches!(e, TraceError::Inexpressible { index: 0, .. }), "{e}");
    let mut out = Vec::new();
    let report =
        write(&trace.clone().into(), by_name("mqsim").unwrap(), &mut out, Unsupported::Drop).unwrap();
    assert_eq!((report.requests, report.dropped_requests, report.dropped_fua), (2, 3, 1));
    assert_eq!((report.dropped_gaps, report.dropped_response_times), (1, 2));
    let report =
        write(&trace.clone().into(), by_name("cloudphysics").unwrap(), &mut Vec::new(), Unsupported::Drop)
            .unwrap();
    assert_eq!((report.requests, report.dropped_fua), (5, 1));
    let e = text(&trace, "systor", Unsupported::Stop).unwrap_err();
    assert!(matches!(e, TraceError::NoWriter { .. }), "{e}");
    let mut two = trace.clone();
    two.records[4] = two.records[4].moved(8, 8, 1).unwrap();
    let two = Trace::from_records(two.records, vec!["0".into(), "1".into()], two.meta).unwrap();
    let e = text(&two, "blkreplay", Unsupported::Drop).unwrap_err();
    assert!(e.to_string().contains("concat"), "{e}");
}

#[test]
fn order_only_goes_to_nbd_integrity_and_back() {
    let mut trace = rich();
    trace.records.truncate(4);
    for r in &mut trace.records {
        *r = r.at(0).unwrap();
    }
    trace.meta.arrival = Arrival::OrderOnly;
    assert!(matches!(text(&trace, "spc", Unsupported::Drop), Err(TraceError::Inexpressible { .. })));
    let out = text(&trace, "nbd-integrity", Unsupported::Stop).unwrap();
    let back = parse_bytes(None, &out, LoadOptions::default()).unwrap();
    assert_eq!((back.records, back.meta.arrival), (trace.records, Arrival::OrderOnly));
}

/// A trace with one request of each of these streams.
fn of_streams(names: &[&str]) -> Trace {
    let record = |n| Record::new(n * 1000, Op::Write, false, n * 8, 8, n as u16).unwrap();
    let records = (0..names.len() as u64).map(record).collect();
    Trace::from_records(records, names.iter().map(|name| name.to_string()).collect(), Meta::default())
        .unwrap()
}

#[test]
fn volumes_stay_apart_in_every_format_that_tells_them_apart() {
    // Names that are no numbers; numbers that are the places of others; two spellings of one number; hosts without a disk.
    let all = [
        &["web_0", "usr_1", "usr_2"][..],
        &["1", "web", "0"],
        &["7", "007", "+7", "0"],
        &["a", "a_0", "a_00", "b"],
        &["3", "volume_3", "volume", "volume_0"],
        &["disk a", "disk_a", "disk,a", "disk\ta", ""],
        &["_0", "0", "_", "volume__0"],
    ];
    for names in all {
        let trace = of_streams(names);
        for (format, ..) in written().filter(|(_, _, streams)| *streams > 1) {
            let mut out = Vec::new();
            write(&trace.clone().into(), format, &mut out, Unsupported::Stop).unwrap();
            let back = parse_bytes(Some(format), &out, LoadOptions::default()).unwrap();
            let shown = String::from_utf8_lossy(&out);
            assert_eq!(back.records, trace.records, "{} {names:?}: {shown}", format.name);
        }
    }
}

#[test]
fn what_volumes_are_called_elsewhere_is_counted() {
    let renamed = |names: &[&str], format| {
        let format = by_name(format).unwrap();
        write(&of_streams(names).into(), format, &mut Vec::new(), Unsupported::Stop).unwrap().renamed_streams
    };
    assert_eq!(renamed(&["web_0", "usr_1", "7"], "spc"), 2);
    assert_eq!(renamed(&["web_0", "usr_1", "7"], "msr"), 1);
    assert_eq!(renamed(&["web_0"], "spc"), 0, "where there is one its name tells nothing apart");
}

#[test]
fn a_closed_loop_is_not_written_as_an_open_one_unasked() {
    let text = "W Hit 4583176 4 663.00000 45422.00000\nR Miss 100 8 900.00000 10.00000\n";
    let read = |text: &[u8]| parse_bytes(None, text, LoadOptions::default()).unwrap();
    let trace = read(text.as_bytes());
    assert_eq!(trace.meta.arrival, Arrival::GapAfterCompletion);
    let e = self::text(&trace, "spc", Unsupported::Stop).unwrap_err();
    assert!(e.to_string().contains("gaps after completions") && e.to_string().contains("parquet"), "{e}");
    let mut out = Vec::new();
    let report = write(&trace.clone().into(), by_name("spc").unwrap(), &mut out, Unsupported::Drop).unwrap();
    assert_eq!((report.requests, report.dropped_gaps, report.dropped_response_times), (2, 1, 2));
    let kept = read(&self::text(&trace, "parquet", Unsupported::Stop).unwrap());
    assert_eq!((kept.gap_after(0), kept.content_hash()), (trace.gap_after(0), trace.content_hash()));
}

#[test]
fn response_times_that_are_not_kept_are_counted() {
    use nandu_trace::{Requests, load::parse_requests};
    // More text than one block, of which half is put aside.
    let lines: String = (0..40_000u64)
        .map(|n| format!("{},hm,0,Write,{},4096,{}\n", 1000 + n, n * 4096, 1 + n % 9))
        .collect();
    let requests =
        parse_requests(Box::new(lines.as_bytes()), "hm.csv", &LoadOptions::default(), 10_000).unwrap();
    assert!(matches!(requests, Requests::Streamed(_)));
    for (format, ..) in written() {
        let report = write(&requests, format, &mut Vec::new(), Unsupported::Stop).unwrap();
        let counted = (report.unread_response_times, report.dropped_response_times);
        assert_eq!(counted, (40_000, 0), "{}", format.name);
    }
    let held =
        parse_requests(Box::new(lines.as_bytes()), "hm.csv", &LoadOptions::default(), u64::MAX).unwrap();
    for (format, ..) in written() {
        let report = write(&held, format, &mut Vec::new(), Unsupported::Stop).unwrap();
        let has_them = format.writer.is_none_or(|writer| writer.response_times);
        let dropped = if has_them { 0 } else { 40_000 };
        let counted = (report.unread_response_times, report.dropped_response_times);
        assert_eq!(counted, (0, dropped), "{}", format.name);
    }
}
