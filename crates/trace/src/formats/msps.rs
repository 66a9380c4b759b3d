//! Microsoft Production Server traces as `.ascii`: the columns of [`super::mqsim`] with a time in us.
//!
//! Nothing in a line tells us from ns. The rule: take the first lines (up to 64 KiB); when at least 16 of them carry
//! times that are not all multiples of 100, and the mean gap between them is below 20,000, the unit is the us. Read
//! as ns such a file would bring more than 50,000 requests a second, which no recorded server disk does. A trace for
//! a fast drive may, so the choice is stated in [`crate::Meta::notes`] and an explicit format overrides it.
//! Source: SNIA IOTTA, Microsoft Production Server (IISWC '08); the reduction is SSDSim's.

use super::mqsim::FiveColumns;
use super::{Format, Kind, Tried};
use crate::cursor::Cursor;
use crate::load::{drive, reads_most};

/// Microsoft Production Server traces in five columns.
pub static FORMAT: Format = Format {
    name: "msps",
    summary: "Microsoft Production Server .ascii: time(us) device LBA(512 B) sectors op(1=read)",
    example: "979 0 287641400 128 1",
    tried: Tried::Recordings,
    sniff,
    note,
    kind: Kind::Text { parse: drive::<FiveColumns<1000>> },
    writer: None,
};

/// Mean gap between arrivals below which times are us.
const MEAN_GAP: u64 = 20_000;
/// Fewest lines that decide.
const LINES: u64 = 16;

fn sniff(sample: &[u8]) -> bool {
    if !reads_most::<FiveColumns<1000>>(sample) {
        return false;
    }
    let (mut first, mut highest, mut lines, mut even) = (None, 0u64, 0u64, true);
    for line in sample.split(|&b| b == b'\n') {
        let mut c = Cursor::new(line);
        c.blanks();
        if let Ok(time) = c.uint("time") {
            first.get_or_insert(time);
            highest = highest.max(time);
            lines += 1;
            even &= time.is_multiple_of(100);
        }
    }
    let span = highest.saturating_sub(first.unwrap_or(0));
    lines >= LINES && !even && span / lines < MEAN_GAP
}

fn note(_: &[u8]) -> Option<String> {
    Some(
        "times are taken as microseconds: as nanoseconds the first lines would bring more than 50,000 requests a \
         second; --trace-format mqsim reads them as nanoseconds"
            .into(),
    )
}

#[cfg(test)]
mod tests {
    use crate::load::{LoadOptions, parse_bytes};

    fn lines(gap: u64) -> Vec<u8> {
        (0..40u64).flat_map(|n| format!("{} 0 {} 8 1\n", n * gap + n % 7, n * 64).into_bytes()).collect()
    }

    #[test]
    fn the_mean_gap_decides() {
        let format = |gap| parse_bytes(None, &lines(gap), LoadOptions::default()).unwrap().meta.format;
        assert_eq!(format(2_361), "msps");
        assert_eq!(format(19_000), "msps");
        assert_eq!(format(21_000), "mqsim");
        assert_eq!(format(1_000_000), "mqsim");
    }

    #[test]
    fn an_inferred_unit_is_stated_and_can_be_overridden() {
        let t = parse_bytes(None, &lines(2_000), LoadOptions::default()).unwrap();
        assert_eq!((t.records[1].time().0, t.meta.notes.len()), (2_001_000, 1));
        let mqsim = crate::formats::by_name("mqsim").unwrap();
        let t = parse_bytes(Some(mqsim), &lines(2_000), LoadOptions::default()).unwrap();
        assert_eq!((t.records[1].time().0, t.meta.notes.len()), (2_001, 0));
    }
}
