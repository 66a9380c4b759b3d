//! `sequential`: read-ahead as Linux does it, with a marker that starts the next window before it is needed (B0-3).
//!
//! A read that begins where an earlier one ended goes on with its stream. The first time this happens while blocks are
//! missing, a window of `window_min` blocks behind the read is brought. The first block of each window carries a marker; a
//! read that meets the marker brings the next window, twice as long, up to `window_max` blocks. A read that belongs to no stream
//! begins one and brings nothing. After Linux mm/readahead.c (`ondemand_readahead`) and SARC (Gill and Modha, USENIX
//! 2005, section 2).
//!
//! Where we differ: Linux keeps one state for each open file; a block device knows none, so that the 16 streams used last
//! are told apart by where they go on. Windows are not aligned.
//!
//! Cost: 640 bytes; a read looks at 16 streams.

use super::{Look, Prefetch, PrefetchOptions, Range, Units};
use nandu_base::{BuildError, ByteLen, Declared, Report, options};

const STREAMS: usize = 16;

/// Options of `sequential`.
#[options]
#[derive(Clone, Debug)]
pub struct SequentialConfig {
    /// First window.
    #[option(default = ByteLen::kib(16), range = ..=Units::MOST, also = "a multiple of the block")]
    pub window_min: ByteLen,
    /// Longest window.
    #[option(default = ByteLen::kib(128), range = ..=Units::MOST, also = "a multiple of the block")]
    pub window_max: ByteLen,
}

impl Declared for SequentialConfig {
    const NAME: &'static str = "sequential";
    const SUMMARY: &'static str = "Behind sequential reads, in windows that double (Linux read-ahead).";
    const SOURCE: &'static str = "Linux mm/readahead.c";
}

impl PrefetchOptions for SequentialConfig {
    type Policy = Sequential;

    fn build(&self, units: &Units) -> Result<Sequential, BuildError> {
        let initial = units.blocks("prefetch.window_min", self.window_min)?;
        Ok(Sequential::new(initial, units.blocks("prefetch.window_max", self.window_max)?))
    }
}

/// A sequence of reads.
#[derive(Clone, Copy, Default, Debug)]
struct Stream {
    /// Where the next read is expected.
    next: u64,
    /// The block whose meeting starts the next window.
    marker: Option<u64>,
    /// End and length of the window brought last.
    end: u64,
    len: u64,
    /// When it was used last.
    used: u64,
}

/// The prefetcher.
#[derive(Clone, Debug)]
pub struct Sequential {
    initial: u64,
    most: u64,
    streams: [Stream; STREAMS],
    now: u64,
    windows: u64,
}

impl Sequential {
    /// Windows from `window_min` to `window_max` blocks.
    pub fn new(initial: u64, most: u64) -> Sequential {
        let streams = [Stream { next: u64::MAX, ..Stream::default() }; STREAMS];
        Sequential { initial: initial.min(most), most, streams, now: 0, windows: 0 }
    }
}

impl Prefetch for Sequential {
    fn plan(&mut self, look: &Look<'_>, ahead: &mut Vec<Range>) {
        self.now += 1;
        let Range { first, end } = look.asked;
        let goes_on = |s: &Stream| s.next == first || s.marker.is_some_and(|m| first <= m && m < end);
        let Some(stream) = self.streams.iter_mut().find(|s| goes_on(s)) else {
            let oldest = self.streams.iter_mut().min_by_key(|s| s.used);
            if let Some(stream) = oldest {
                *stream = Stream { next: end, marker: None, end, len: 0, used: self.now };
            }
            return;
        };
        stream.used = self.now;
        stream.next = end;
        let met = stream.marker.is_some_and(|m| first <= m && m < end);
        let broke = !look.missing.is_empty();
        if !met && !broke {
            return;
        }
        // A window that was thrown away before it was met begins anew behind the read.
        let from = if met { stream.end.max(end) } else { end };
        stream.len = if stream.len == 0 { self.initial } else { (2 * stream.len).min(self.most) };
        stream.end = from + stream.len;
        stream.marker = Some(from);
        self.windows += 1;
        ahead.push(Range { first: from, end: stream.end });
    }

    fn bytes(&self) -> usize {
        size_of_val(&self.streams)
    }

    fn report(&mut self, report: &mut Report) {
        report.count("read_ahead_windows", &mut self.windows);
    }
}
