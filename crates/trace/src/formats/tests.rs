//! What holds for every format in the list.

use super::*;
use crate::load::{LoadOptions, parse_bytes};
use nandu_base::BadLines;
use proptest::prelude::*;

fn skip() -> LoadOptions {
    LoadOptions { bad_lines: BadLines::Skip, ..LoadOptions::default() }
}

/// A line of the format as a file has it, with what must stand before it.
fn with_header(f: &Format) -> String {
    match f.name {
        "fio-iolog" => format!("fio version 3 iolog\n{}\n", f.example),
        "blkreplay" => format!("start ; sector; length ; op\n{}\n", f.example),
        _ => format!("{}\n", f.example),
    }
}

#[test]
fn each_example_is_recognised_as_its_format() {
    for f in FORMATS.iter().filter(|f| matches!(f.kind, Kind::Text { .. })) {
        let text = with_header(f);
        let t = parse_bytes(Some(f), text.as_bytes(), LoadOptions::default()).unwrap();
        assert_eq!((t.records.len(), t.records[0].time().0, t.meta.format.as_str()), (1, 0, f.name));
        // One line cannot tell us from ns, see msps.
        let expected = if f.name == "msps" { "mqsim" } else { f.name };
        assert_eq!(recognise(FORMATS, text.as_bytes()).map(|f| f.name), Some(expected));
    }
}

#[test]
fn a_header_that_is_repeated_passes() {
    for (name, header) in [
        ("msr", "Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime"),
        ("cloudphysics", "version,time,op,size,lbn"),
        ("systor", "Timestamp,Response,IOType,LUN,Offset,Size"),
        ("nbd-integrity", "seq,op,fua,offset,length"),
        ("alibaba", "device_id,opcode,offset,length,timestamp"),
        ("tencent-cbs", "Timestamp,Offset,Size,IOType,VolumeID"),
        ("k5cloud", "ID,Timestamp,Type,Offset,Length"),
    ] {
        let line = by_name(name).unwrap().example;
        let text = format!("{header}\n{line}\n{header}\n{line}\n");
        let t = parse_bytes(None, text.as_bytes(), LoadOptions::default()).unwrap();
        assert_eq!((t.records.len(), t.meta.format.as_str()), (2, name));
    }
}

#[test]
fn names_are_unique_and_found() {
    for &f in FORMATS {
        assert!(std::ptr::eq(by_name(f.name).unwrap(), f));
    }
    assert!(by_name("vhs").unwrap_err().to_string().contains("mqsim"));
}

#[test]
fn a_bad_line_is_named_with_its_place() {
    let text = "0 0 8 8 1\n5 0 8 8 1\n\n9 0 x8 8 1\n10 0 8 8 1\n";
    let e = parse_bytes(None, text.as_bytes(), LoadOptions::default()).unwrap_err();
    let TraceError::Line(line) = &e else { panic!("{e}") };
    assert_eq!((line.line, line.column, line.field, line.found.as_str()), (4, 5, "LBA (512 B)", "x8 8 1"));
    assert!(e.to_string().contains("expected a whole number"), "{e}");
    let t = parse_bytes(None, text.as_bytes(), skip()).unwrap();
    assert_eq!((t.records.len(), t.meta.skipped_lines, t.meta.skipped_first.len()), (3, 1, 1));
}

#[test]
fn out_of_bounds_is_an_error_not_a_wrap() {
    for bad in ["0 0 274877906944 1 1", "0 0 0 4194304 1", "0 0 18446744073709551615 8 1", "0 0 0 0 1"] {
        let e = parse_bytes(by_name("mqsim").ok(), format!("{bad}\n").as_bytes(), LoadOptions::default());
        assert!(matches!(e, Err(TraceError::Line(_))), "{bad}: {e:?}");
    }
}

#[test]
fn an_empty_file_is_an_error() {
    for text in ["", "\n\n  \n", "seq,op,fua,offset,length\n"] {
        let e = parse_bytes(by_name("nbd-integrity").ok(), text.as_bytes(), LoadOptions::default());
        assert!(matches!(e, Err(TraceError::Empty { .. })), "{e:?}");
    }
    let e = parse_bytes(None, b"hello world\n", LoadOptions::default()).unwrap_err();
    assert!(matches!(&e, TraceError::UnknownFormat { first_line, .. } if first_line == "hello world"), "{e}");
}

#[test]
fn an_archive_says_how_its_file_is_read() {
    // The heads that tar and zip write before a file of this name.
    let mut tar = [0; 512];
    tar[..11].copy_from_slice(b"2018_07.csv");
    tar[257..263].copy_from_slice(b"ustar\0");
    let zip = [&b"PK\x03\x04"[..], &[0; 22], &[11, 0, 0, 0], b"2018_07.csv", &[0; 40]].concat();
    for (bytes, word) in [(&tar[..], "tar -xOf (bytes) 2018_07.csv"), (&zip, "unzip -p (bytes) 2018_07.csv")]
    {
        let e = parse_bytes(None, bytes, LoadOptions::default()).unwrap_err();
        assert!(matches!(e, TraceError::Archive { .. }) && e.to_string().contains(word), "{e}");
    }
    for len in 0..zip.len() {
        assert!(parse_bytes(None, &zip[..len], LoadOptions::default()).is_err());
    }
}

#[test]
fn all_lines_bad_is_an_error_even_when_skipping() {
    let e = parse_bytes(by_name("spc").ok(), b"a\nb\n", skip());
    assert!(matches!(e, Err(TraceError::Line(_))), "{e:?}");
}

#[test]
fn a_limit_stops_early() {
    let text: String = (0..100).map(|n| format!("{} 0 {n} 8 1\n", n * 1_000_003)).collect();
    let options = LoadOptions { limit: Some(7), ..LoadOptions::default() };
    assert_eq!(parse_bytes(None, text.as_bytes(), options).unwrap().records.len(), 7);
}

#[test]
fn a_line_across_blocks_is_whole() {
    let count = 60_000u64;
    let text: String = (0..count).map(|n| format!("{} 0 {} 8 1\n", n * 1_000_003, n * 8)).collect();
    assert!(text.len() > crate::input::BLOCK);
    let t = parse_bytes(None, text.as_bytes(), LoadOptions::default()).unwrap();
    assert_eq!(t.records.len() as u64, count);
    assert!(t.records.iter().enumerate().all(|(n, r)| r.offset_sectors() == n as u64 * 8));
    let bad = format!("{text}oops\n");
    let e = parse_bytes(None, bad.as_bytes(), LoadOptions::default()).unwrap_err();
    assert!(matches!(&e, TraceError::Line(l) if l.line == count + 1), "{e}");
}

proptest! {
    #[test]
    fn any_bytes_give_a_trace_or_an_error(bytes: Vec<u8>) {
        let _ = parse_bytes(None, &bytes, skip());
        for &f in FORMATS {
            let _ = (f.sniff)(&bytes);
            let _ = parse_bytes(Some(f), &bytes, skip());
            let _ = parse_bytes(Some(f), &bytes, LoadOptions::default());
        }
    }

    #[test]
    fn any_damaged_line_gives_a_trace_or_an_error(
        which in 0..FORMATS.len(),
        edits in prop::collection::vec((0usize..400, prop::sample::select(&b"0123456789,; .\nRWrw-x\r9"[..])), 1..8),
    ) {
        let f = FORMATS[which];
        let mut text = with_header(f).repeat(4).into_bytes();
        for (at, byte) in edits {
            let at = at % text.len();
            text[at] = byte;
        }
        let _ = parse_bytes(None, &text, skip());
        if let Ok(t) = parse_bytes(Some(f), &text, skip()) {
            assert!(t.records.windows(2).all(|w| w[0].time() <= w[1].time()));
            assert_eq!(t.streams.iter().map(|s| s.requests).sum::<u64>(), t.records.len() as u64);
        }
    }
}
