//! `small-files`: streams that write whole small files, the load of the hetero-mirror paper (spec S1-25).
//!
//! Per request: the gap (exponential), the stream (evenly), and whether it overwrites (with chance `overwrite`) or writes a
//! new file. A new file has a length of 1 to `steps` times `step`, evenly, and lies behind the newest file of its stream;
//! each stream has an equal part of the space, and at the part's end it goes on at the start, over the oldest files. An
//! overwrite takes one of the stream's files evenly and writes it again as a whole. Every request is a write. With
//! `size_by_stream` all files of a stream are as long as each other: n steps in stream n.
//!
//! From the paper (its section 4.1): 40 to 320 writes per second, sizes 10 to 500 KB in steps of 10 KB, random; overwrite
//! shares of 0, 30 and 70 %; its Fig 4 has 50 streams, one for each size. Ours: where files lie, how overwritten files are
//! chosen, and KB as KiB, so that lengths are whole sectors.
//!
//! Cost: 8 bytes for each file that is there.

use super::fixed::exponential;
use super::{ALL, Generate, MOST_LEN, MOST_SPACE, Made, Records, check_gaps};
use crate::record::{MAX_TIME_NS, Record};
use nandu_base::{BuildError, ByteLen, Declared, Op, Ratio, Rng, SECTOR, Span, options};
use serde::Serialize;
use std::collections::VecDeque;

/// Parameters of `small-files`.
#[options]
#[derive(Clone, Debug, Serialize)]
pub struct SmallFiles {
    /// Requests to make.
    #[option(default = 100_000, also = "all arrivals within 26 days")]
    pub requests: u64,
    /// Mean time between arrivals, exponentially distributed: 25 ms to 3.125 ms are 40 to 320 writes per second.
    #[option(default = Span::from_us(6_250), also = "all arrivals within 26 days")]
    pub interarrival: Span,
    /// Share of requests that write a file again that is there.
    #[option(default = Ratio::ZERO, range = ..=ALL)]
    pub overwrite: Ratio,
    /// Streams, each with its own part of the space.
    #[option(default = 50, range = 1..=4096)]
    pub streams: u64,
    /// Files are a multiple of this long.
    #[option(default = ByteLen::kib(10), range = ByteLen(SECTOR)..=MOST_LEN, multiple_of = ByteLen(SECTOR))]
    pub step: ByteLen,
    /// The longest file in steps.
    #[option(default = 50, range = 1.., also = "the longest file at most 2 GiB - 512 B")]
    pub steps: u64,
    /// Each stream writes files of one size: the first of one step, the next of two, and from one step again after `steps`.
    #[option(default = false)]
    pub size_by_stream: bool,
    /// Files begin at a multiple of this.
    #[option(default = ByteLen::kib(4), range = ByteLen(SECTOR).., multiple_of = ByteLen(SECTOR))]
    pub align: ByteLen,
    /// Address space.
    #[option(default = ByteLen::gib(8), range = ..=MOST_SPACE, also = "room for the longest file of each stream")]
    pub space: ByteLen,
}

impl Declared for SmallFiles {
    const NAME: &'static str = "small-files";
    const SUMMARY: &'static str = "streams that write and overwrite whole files of 10 to 500 KiB";
    const SOURCE: &'static str =
        "rate 40 to 320/s, sizes 10 to 500 KB evenly, all writes, overwrite share 0, 30 or 70 %";
}

impl Generate for SmallFiles {
    fn records(&self, seed: u64) -> Made {
        self.check()?;
        Ok(Box::new(Files::new(self.clone(), seed)))
    }
}

impl SmallFiles {
    fn check(&self) -> Result<(), BuildError> {
        let longest = self.step.0.checked_mul(self.steps).filter(|&len| len <= MOST_LEN.0);
        let Some(longest) = longest else {
            return Err(BuildError::at("steps", "the longest file is one step to 2 GiB - 512 B"));
        };
        if self.space.0 / self.streams < longest.saturating_add(self.align.0) {
            let least = longest.saturating_add(self.align.0).saturating_mul(self.streams);
            let why = format!("each stream needs room for its longest file: {least} bytes to 128 TiB");
            return Err(BuildError::at("space", why));
        }
        check_gaps(self.requests, self.interarrival)
    }
}

/// One stream: its files from the oldest to the newest, as first sector and sectors within its part.
#[derive(Clone, Debug, Default)]
struct Stream {
    files: VecDeque<(u32, u32)>,
}

/// Yields the records of `small-files`.
#[derive(Clone, Debug)]
pub(super) struct Files {
    p: SmallFiles,
    arrivals: Rng,
    choices: Rng,
    lengths: Rng,
    streams: Vec<Stream>,
    /// Sectors of each stream's part, a multiple of the alignment.
    part: u64,
    made: u64,
    now_ns: u64,
}

impl Files {
    fn new(p: SmallFiles, seed: u64) -> Files {
        let root = Rng::new(seed);
        let align = p.align.0 / SECTOR;
        // Places within a part are kept in 32 bits.
        let part = (p.space.0 / SECTOR / p.streams).min(u64::from(u32::MAX)) / align * align;
        Files {
            arrivals: root.fork(1),
            choices: root.fork(2),
            lengths: root.fork(3),
            streams: vec![Stream::default(); p.streams as usize],
            part,
            made: 0,
            now_ns: 0,
            p,
        }
    }

    /// The place of a new file: behind the newest, or at the start when the part ends. Files in its way are gone.
    fn new_file(&mut self, stream: usize) -> (u32, u32) {
        let align = self.p.align.0 / SECTOR;
        let steps = if self.p.size_by_stream {
            stream as u64 % self.p.steps + 1
        } else {
            self.lengths.between(1, self.p.steps)
        };
        let len = self.p.step.0 / SECTOR * steps;
        let files = &mut self.streams[stream].files;
        let mut first =
            files.back().map_or(0, |&(first, len)| u64::from(first + len).next_multiple_of(align));
        if first + len > self.part {
            // Older files may still lie between the newest and the end of the part: they are next to go.
            while files.front().is_some_and(|&(old, _)| u64::from(old) >= first) {
                files.pop_front();
            }
            first = 0;
        }
        let meets = |&(old, size): &(u32, u32)| u64::from(old) < first + len && first < u64::from(old + size);
        while files.front().is_some_and(meets) {
            files.pop_front();
        }
        let file = (first as u32, len as u32);
        files.push_back(file);
        file
    }
}

impl Records for Files {
    fn left(&self) -> u64 {
        self.p.requests - self.made
    }
    fn boxed_clone(&self) -> Box<dyn Records> {
        Box::new(self.clone())
    }
}

impl Iterator for Files {
    type Item = Record;

    fn next(&mut self) -> Option<Record> {
        if self.made == self.p.requests {
            return None;
        }
        if self.made > 0 {
            let gap = exponential(self.p.interarrival.0, self.arrivals.bits());
            self.now_ns = self.now_ns.saturating_add(gap).min(MAX_TIME_NS);
        }
        self.made += 1;
        let stream = self.choices.below(self.p.streams) as usize;
        let files = self.streams[stream].files.len() as u64;
        let overwrites = self.choices.chance(self.p.overwrite) && files > 0;
        let (first, len) = if overwrites {
            self.streams[stream].files[self.choices.below(files) as usize]
        } else {
            self.new_file(stream)
        };
        let start = stream as u64 * self.part + u64::from(first);
        let record = Record::new(self.now_ns, Op::Write, false, start, u64::from(len), 0);
        Some(record.expect("checked parameters keep every request in bounds"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synth::by_name;
    use serde_json::json;

    #[test]
    fn files_of_a_stream_never_overlap_but_what_is_gone() {
        let p = SmallFiles { requests: 20_000, streams: 3, space: ByteLen::mib(6), ..SmallFiles::default() };
        let mut files = Files::new(p, 5);
        while files.next().is_some() {
            for stream in &files.streams {
                let mut places: Vec<_> = stream.files.iter().copied().collect();
                places.sort_unstable();
                assert!(places.windows(2).all(|w| w[0].0 + w[0].1 <= w[1].0), "seed 5: {places:?}");
                assert!(places.iter().all(|&(first, len)| u64::from(first + len) <= files.part));
            }
        }
    }

    #[test]
    fn a_stream_may_write_files_of_one_size() {
        let params =
            json!({"requests": 5_000, "size_by_stream": true, "space": "900 MiB", "overwrite": "30 %"});
        let trace = by_name(SmallFiles::NAME).unwrap().trace(&params, 3).unwrap();
        let part = (900 << 20) / 50 / 4096 * 4096;
        let mut sizes = std::collections::BTreeSet::new();
        for record in &trace.records {
            let stream = record.offset().0 / part;
            assert_eq!(record.len().0, (stream + 1) * 10 * 1024, "seed 3: stream {stream}");
            sizes.insert(record.len().0);
        }
        assert_eq!(sizes.len(), 50, "seed 3");
    }

    #[test]
    fn the_overwrite_share_is_the_share_of_places_seen_before() {
        for percent in [0, 30, 70] {
            let params = json!({"requests": 20_000, "overwrite": format!("{percent} %"), "space": "64 GiB"});
            let trace = by_name(SmallFiles::NAME).unwrap().trace(&params, 3).unwrap();
            let mut seen = std::collections::BTreeSet::new();
            let again = trace.records.iter().filter(|r| !seen.insert(r.offset().0)).count();
            let share = again as f64 / 20_000.0 * 100.0;
            assert!((share - f64::from(percent)).abs() < 2.0, "seed 3: {share} % of {percent} %");
        }
    }
}
