//! What papers say of a trace: counts, sizes, arrivals, footprint, reuse.
//!
//! Counts are exact integers; means and shares are computed from them at the end. Field names carry their unit and
//! stay stable: `--json` prints them as they are.

use crate::pages::{PAGE, PageSet, page_range};
use crate::requests::Requests;
use crate::reuse::StackDistance;
use crate::trace::Stream;
use nandu_base::Op;
use serde::Serialize;

/// What a trace looks like.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Stats {
    /// All requests.
    pub requests: u64,
    /// Reads.
    pub read_requests: u64,
    /// Writes.
    pub write_requests: u64,
    /// Flushes.
    pub flush_requests: u64,
    /// Trims.
    pub trim_requests: u64,
    /// Write-zeroes.
    pub write_zeroes_requests: u64,
    /// Resets.
    pub reset_requests: u64,
    /// Requests with FUA.
    pub fua_requests: u64,
    /// Writes in all requests, percent.
    pub write_percent: f64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// From the first to the last arrival; `None` when only the order is known.
    pub duration_ns: Option<u64>,
    /// Mean time between arrivals; `None` when only the order is known or there is one request.
    pub interarrival_mean_ns: Option<f64>,
    /// Mean length of requests that have one.
    pub size_mean_bytes: f64,
    /// Lengths by power of two.
    pub size_histogram: Vec<SizeBucket>,
    /// Mean 4 KiB pages that a request with an extent touches.
    pub pages_per_request_mean: f64,
    /// Distinct 4 KiB pages touched, summed over streams, in bytes.
    pub footprint_bytes: u64,
    /// Distinct 4 KiB pages written, summed over streams, in bytes.
    pub footprint_written_bytes: u64,
    /// Requests that start where the one before in the same stream ended, percent of those with an extent.
    pub sequential_percent: f64,
    /// Requests whose offset and length are multiples of 4 KiB, percent of those with an extent.
    pub aligned_4k_percent: f64,
    /// One past the last byte touched, over all streams.
    pub max_extent_bytes: u64,
    /// How often pages come back; `None` when not asked for or beyond 4 TiB of footprint.
    pub reuse: Option<Reuse>,
    /// One row per stream.
    pub streams: Vec<StreamStats>,
}

/// How often 4 KiB pages come back.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Reuse {
    /// Pages touched, counted each time.
    pub page_accesses: u64,
    /// Pages touched, counted once.
    pub distinct_pages: u64,
    /// Accesses to a page seen before, percent.
    pub reused_percent: f64,
    /// Half of the reuses have at most this many other pages in between (LRU stack distance).
    pub distance_median_pages: Option<u64>,
    /// Nine tenths of the reuses have at most this many.
    pub distance_p90_pages: Option<u64>,
    /// The largest.
    pub distance_max_pages: Option<u64>,
}

/// Requests with a length in one range.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct SizeBucket {
    /// Longest length in this bucket, a power of two; the shortest is one byte more than the bucket before.
    pub up_to_bytes: u64,
    /// Requests in it.
    pub requests: u64,
}

/// What one stream looks like.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct StreamStats {
    /// What the file calls it.
    pub name: String,
    /// Its requests.
    pub requests: u64,
    /// Writes in them, percent.
    pub write_percent: f64,
    /// Mean length of requests that have one.
    pub size_mean_bytes: f64,
    /// Distinct 4 KiB pages touched, in bytes.
    pub footprint_bytes: u64,
    /// One past the last byte touched.
    pub max_extent_bytes: u64,
}

/// What to compute.
#[derive(Clone, Copy, Debug)]
pub struct StatsOptions {
    /// Reuse distances: most of the time, and about 28 B of memory per distinct page.
    pub reuse: bool,
}

impl Default for StatsOptions {
    fn default() -> StatsOptions {
        StatsOptions { reuse: true }
    }
}

/// Sums over one stream.
#[derive(Clone, Default)]
struct Sums {
    requests: u64,
    writes: u64,
    extents: u64,
    bytes: u64,
    next_sector: Option<u64>,
}

/// `num` in `den`, 0 when there is nothing to divide.
fn mean(num: u64, den: u64) -> f64 {
    if den == 0 { 0.0 } else { num as f64 / den as f64 }
}

fn percent(num: u64, den: u64) -> f64 {
    100.0 * mean(num, den)
}

/// Looks at every request once, and at every page once more for reuse. Memory grows with the footprint and not with the requests.
pub fn stats(trace: &Requests, options: StatsOptions) -> Stats {
    let mut by_op = [0u64; Op::ALL.len()];
    let mut bytes_by_op = [0u64; Op::ALL.len()];
    let mut sizes = [0u64; 64];
    let mut sums = vec![Sums::default(); trace.streams().len()];
    let (mut fua, mut extents, mut pages, mut aligned, mut sequential) = (0, 0, 0, 0, 0);
    let (mut touched, mut written) = (PageSet::new(), PageSet::new());
    for r in trace.iter() {
        let (op, len) = (r.op() as usize, r.len().0);
        by_op[op] += 1;
        bytes_by_op[op] += len;
        fua += u64::from(r.fua());
        let s = &mut sums[usize::from(r.stream())];
        s.requests += 1;
        s.writes += u64::from(r.op() == Op::Write);
        if r.is_empty() {
            continue;
        }
        extents += 1;
        s.extents += 1;
        s.bytes += len;
        let (first, end) = page_range(r);
        pages += end - first;
        aligned += u64::from((r.offset().0 | len).is_multiple_of(PAGE));
        sequential += u64::from(s.next_sector == Some(r.offset_sectors()));
        s.next_sector = Some(r.offset_sectors() + r.len_sectors());
        sizes[len.next_power_of_two().trailing_zeros() as usize & 63] += 1;
        touched.add(r);
        if r.op() == Op::Write {
            written.add(r);
        }
    }
    let (touched, written) = (touched.index(), written.index());
    let requests = trace.len();
    let duration_ns = trace.has_times().then(|| trace.span().0);
    Stats {
        requests,
        read_requests: by_op[Op::Read as usize],
        write_requests: by_op[Op::Write as usize],
        flush_requests: by_op[Op::Flush as usize],
        trim_requests: by_op[Op::Trim as usize],
        write_zeroes_requests: by_op[Op::WriteZeroes as usize],
        reset_requests: by_op[Op::Reset as usize],
        fua_requests: fua,
        write_percent: percent(by_op[Op::Write as usize], requests),
        read_bytes: bytes_by_op[Op::Read as usize],
        written_bytes: bytes_by_op[Op::Write as usize],
        duration_ns,
        interarrival_mean_ns: duration_ns.filter(|_| requests > 1).map(|ns| mean(ns, requests - 1)),
        size_mean_bytes: mean(bytes_by_op.iter().sum(), extents),
        size_histogram: histogram(&sizes),
        pages_per_request_mean: mean(pages, extents),
        footprint_bytes: touched.len() * PAGE,
        footprint_written_bytes: written.len() * PAGE,
        sequential_percent: percent(sequential, extents),
        aligned_4k_percent: percent(aligned, extents),
        max_extent_bytes: trace.max_extent().0,
        reuse: if options.reuse { reuse(trace, &touched) } else { None },
        streams: stream_rows(trace.streams(), &sums, &touched.pages_by_stream(trace.streams().len())),
    }
}

fn histogram(sizes: &[u64; 64]) -> Vec<SizeBucket> {
    let used = sizes.iter().enumerate().filter(|&(_, &n)| n > 0);
    used.map(|(bits, &requests)| SizeBucket { up_to_bytes: 1 << bits, requests }).collect()
}

fn stream_rows(streams: &[Stream], sums: &[Sums], pages: &[u64]) -> Vec<StreamStats> {
    let rows = streams.iter().zip(sums).zip(pages);
    rows.map(|((stream, s), &pages)| StreamStats {
        name: stream.name.clone(),
        requests: s.requests,
        write_percent: percent(s.writes, s.requests),
        size_mean_bytes: mean(s.bytes, s.extents),
        footprint_bytes: pages * PAGE,
        max_extent_bytes: stream.max_extent_bytes,
    })
    .collect()
}

fn reuse(requests: &Requests, touched: &crate::pages::PageIndex) -> Option<Reuse> {
    let mut stack = StackDistance::new(touched.len())?;
    let mut accesses = 0;
    for r in requests.iter().filter(|r| !r.is_empty()) {
        let (first, end) = page_range(r);
        stack.access(touched.rank(r), end - first);
        accesses += end - first;
    }
    Some(Reuse {
        page_accesses: accesses,
        distinct_pages: touched.len(),
        reused_percent: percent(stack.reused(), accesses),
        distance_median_pages: stack.quantile(1, 2),
        distance_p90_pages: stack.quantile(9, 10),
        distance_max_pages: stack.quantile(1, 1),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::{LoadOptions, parse_bytes};

    fn of(text: &str) -> Stats {
        stats(
            &parse_bytes(None, text.as_bytes(), LoadOptions::default()).unwrap().into(),
            StatsOptions::default(),
        )
    }

    #[test]
    fn a_small_trace_by_hand() {
        // Pages 0-1 written, 2 read right behind (sequential), 0 read again unaligned on another device.
        let s = of("0,0,8192,w,0.0\n0,16,4096,r,0.001\n1,1,512,r,0.003\n0,0,4096,w,0.004\n");
        assert_eq!((s.requests, s.write_requests, s.write_percent), (4, 2, 50.0));
        assert_eq!((s.duration_ns, s.interarrival_mean_ns), (Some(4_000_000), Some(4_000_000.0 / 3.0)));
        assert_eq!(s.size_mean_bytes, (8192.0 + 4096.0 + 512.0 + 4096.0) / 4.0);
        assert_eq!((s.footprint_bytes, s.footprint_written_bytes), (4 * 4096, 2 * 4096));
        assert_eq!(
            (s.pages_per_request_mean, s.sequential_percent, s.aligned_4k_percent),
            (1.25, 25.0, 75.0)
        );
        let reuse = s.reuse.unwrap();
        assert_eq!((reuse.page_accesses, reuse.distinct_pages, reuse.distance_median_pages), (5, 4, Some(3)));
        let sizes: Vec<_> = s.size_histogram.iter().map(|b| (b.up_to_bytes, b.requests)).collect();
        assert_eq!(sizes, [(512, 1), (4096, 2), (8192, 1)]);
        assert_eq!((s.streams[1].name.as_str(), s.streams[1].footprint_bytes), ("1", 4096));
    }

    #[test]
    fn flushes_count_but_have_no_size() {
        let s = of("seq,op,fua,offset,length\n0,W,1,0,1024\n1,FLUSH,0,0,0\n");
        assert_eq!((s.flush_requests, s.fua_requests, s.size_mean_bytes), (1, 1, 1024.0));
        assert_eq!((s.duration_ns, s.interarrival_mean_ns, s.write_percent), (None, None, 50.0));
    }

    #[test]
    fn field_names_are_stable() {
        let json = serde_json::to_value(of("0,0,8192,w,0.0\n")).unwrap();
        for name in ["write_percent", "interarrival_mean_ns", "footprint_written_bytes", "size_histogram"] {
            assert!(json.get(name).is_some(), "{name} is gone");
        }
    }
}
