//! Any bytes as a description of columns and a file that it describes: a trace whose requests are in order, or an error.

use nandu_trace::BadLines;
use nandu_trace::columns::{ColumnFile, Columns};
use nandu_trace::load::{LoadOptions, parse_bytes};

/// The first byte chooses a separator, lines to pass over, a further word, and whether wrong lines are skipped. The first line behind it is the list
/// of columns, the rest the file.
pub fn check(input: &[u8]) {
    let Some((&first, bytes)) = input.split_first() else { return };
    let end = bytes.iter().position(|&b| b == b'\n').unwrap_or(bytes.len());
    let (list, file) = (&bytes[..end], bytes.get(end + 1..).unwrap_or_default());
    let Ok(list) = std::str::from_utf8(list) else { return };
    let ops = match first & 16 {
        0 => Default::default(),
        _ => [("get".to_string(), "read".to_string())].into(),
    };
    let described = ColumnFile {
        columns: list.into(),
        separator: [None, Some('|'), Some('\t'), Some(';')][usize::from(first & 3)],
        skip_lines: u64::from(first >> 2 & 3),
        ops,
    };
    let Ok(columns) = Columns::of(described) else { return };
    let bad_lines = if first & 32 == 0 { BadLines::Stop } else { BadLines::Skip };
    let options = LoadOptions { columns: Some(columns), bad_lines, ..LoadOptions::default() };
    let Ok(trace) = parse_bytes(None, file, options) else { return };
    assert!(trace.records.windows(2).all(|pair| pair[0].time() <= pair[1].time()), "times fall");
}
