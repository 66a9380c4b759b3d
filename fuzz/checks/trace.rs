//! Any bytes as a trace, in each format and in the one that is recognised: a trace whose requests are in order, or an error.

use nandu_trace::BadLines;
use nandu_trace::formats::FORMATS;
use nandu_trace::load::{LoadOptions, parse_bytes};

/// The first byte says which format: one beyond the last lets it be recognised. Wrong lines stop the reading, or are skipped.
pub fn check(input: &[u8]) {
    let Some((&first, bytes)) = input.split_first() else { return };
    let format = FORMATS.get(usize::from(first & 31)).copied();
    let bad_lines = if first & 32 == 0 { BadLines::Stop } else { BadLines::Skip };
    let limit = (first & 64 != 0).then_some(3);
    let Ok(trace) = parse_bytes(format, bytes, LoadOptions { bad_lines, limit, ..LoadOptions::default() })
    else {
        return;
    };
    assert!(trace.records.windows(2).all(|pair| pair[0].time() <= pair[1].time()), "times fall");
    assert!(limit.is_none_or(|limit| trace.records.len() as u64 <= limit), "more than was asked for");
}
