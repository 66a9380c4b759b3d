//! Lays a trace onto a device of a given capacity.
//!
//! | method    | what it does                                                                                      |
//! |-----------|---------------------------------------------------------------------------------------------------|
//! | `error`   | nothing: offsets stay; several streams, or a request beyond the end, is an error                   |
//! | `concat`  | streams in a row, each from its own multiple of 1 MiB                                              |
//! | `compact` | only touched 4 KiB pages, densely, in order of stream and address                                  |
//! | `wrap`    | as `concat`, then modulo the capacity; a request that crosses the end is cut there and counted      |
//!
//! Offsets within a page are kept by every method. Pages that lie side by side in one stream stay so under `compact`,
//! so sequential runs stay sequential (runs that
//! were apart may come to touch). The fitted trace has one address space; its streams remain as names.

use crate::pages::{PAGE, PageIndex, PageSet};
use crate::record::{Record, RecordError};
use crate::trace::{Stream, Trace};
pub use nandu_base::Fit;
use nandu_base::{ByteLen, SECTOR};
use serde::Serialize;
use std::sync::Arc;

/// What fitting did.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct FitReport {
    /// The method.
    pub method: Fit,
    /// Capacity that was fitted to.
    pub capacity_bytes: u64,
    /// One past the last byte touched before, over all streams.
    pub span_before_bytes: u64,
    /// One past the last byte touched afterwards.
    pub span_after_bytes: u64,
    /// Requests whose offset was taken modulo the capacity.
    pub wrapped_requests: u64,
    /// Requests cut at the end of the device.
    pub clipped_requests: u64,
    /// Bytes cut off them.
    pub clipped_bytes: u64,
}

/// Why a trace does not fit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FitError {
    /// `error` with more than one stream.
    SeveralStreams {
        /// Streams with requests.
        streams: usize,
        /// Stream of the first request.
        first: String,
        /// The next stream.
        second: String,
        /// First request of another stream, from 0.
        index: u64,
    },
    /// A request ends beyond the device.
    Beyond {
        /// The first such request, from 0.
        index: u64,
        /// Its offset in the trace.
        offset_bytes: u64,
        /// Its length.
        len_bytes: u64,
        /// Its stream.
        stream: String,
        /// The capacity.
        capacity_bytes: u64,
        /// What the whole trace needs with this method.
        needed_bytes: u64,
        /// The method.
        method: &'static str,
        /// What would work.
        remedy: &'static str,
    },
    /// The device has not one page.
    NoCapacity {
        /// The capacity.
        capacity_bytes: u64,
    },
    /// A fitted offset is beyond what a record holds.
    Bounds {
        /// The request, from 0.
        index: u64,
        /// What is wrong.
        why: RecordError,
    },
}

impl FitError {
    /// What does not fit, without what to do about it.
    pub fn what(&self) -> String {
        match self {
            FitError::SeveralStreams { streams, first, second, index } => format!(
                "the trace has {streams} streams with address spaces of their own, which would overlay each other: first `{first}`, then \
                 `{second}` (request {index} is the first of the second)"
            ),
            FitError::Beyond {
                index,
                offset_bytes,
                len_bytes,
                stream,
                capacity_bytes,
                needed_bytes,
                method,
                ..
            } => {
                let [len, capacity, needed] =
                    [len_bytes, capacity_bytes, needed_bytes].map(|&bytes| ByteLen(bytes));
                format!(
                    "request {index} ({len} at byte {offset_bytes}, stream `{stream}`) ends beyond the capacity of {capacity}; the trace \
                     needs {needed} with `{method}`"
                )
            }
            FitError::NoCapacity { capacity_bytes } => {
                format!("a capacity of {capacity_bytes} bytes holds no 4 KiB page")
            }
            FitError::Bounds { index, why } => format!("request {index}: {why}"),
        }
    }
}

impl std::fmt::Display for FitError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let remedy = match self {
            FitError::SeveralStreams { .. } => "fit it with `concat`, `compact` or `wrap`",
            FitError::Beyond { remedy, .. } => remedy,
            FitError::NoCapacity { .. } => "give a larger device",
            FitError::Bounds { .. } => "fit it with `compact` or `wrap`",
        };
        write!(f, "{}; {remedy}", self.what())
    }
}

impl std::error::Error for FitError {}

/// Each stream's base in `concat` is a multiple of this.
const CONCAT_ALIGN: u64 = 1 << 20;

/// Lays `trace` onto a device of `capacity`. Deterministic; the records are changed in place.
///
/// # Errors
/// [`FitError`], naming the first request that does not fit and what to do.
pub fn fit(mut trace: Trace, capacity: ByteLen, method: Fit) -> Result<(Trace, FitReport), FitError> {
    let placing = placing(&trace.streams, || trace.records.iter().copied(), capacity, method)?;
    let mut report = FitReport::new(method, capacity, trace.max_extent().0);
    for s in &mut trace.streams {
        s.max_extent_bytes = 0;
    }
    for (index, r) in trace.records.iter_mut().enumerate() {
        *r = placing.put(index as u64, *r, &mut report)?;
        let s = &mut trace.streams[usize::from(r.stream())];
        s.max_extent_bytes = s.max_extent_bytes.max(r.end().0);
    }
    report.span_after_bytes = trace.max_extent().0;
    Ok((trace, report))
}

impl FitReport {
    /// Of records of which the last byte was before `span`, before any was put.
    pub(crate) fn new(method: Fit, capacity: ByteLen, span: u64) -> FitReport {
        FitReport {
            method,
            capacity_bytes: capacity.0,
            span_before_bytes: span,
            span_after_bytes: 0,
            wrapped_requests: 0,
            clipped_requests: 0,
            clipped_bytes: 0,
        }
    }
}

/// One past the last byte that any stream touches.
pub(crate) fn extent(streams: &[Stream]) -> u64 {
    streams.iter().map(|s| s.max_extent_bytes).max().unwrap_or(0)
}

/// Where a method puts each request.
#[derive(Clone, Debug)]
pub(crate) enum Placing {
    /// Where it is.
    Same,
    /// Streams in a row, each from its base.
    InRow(Vec<u64>),
    /// Touched pages densely.
    Dense(Arc<PageIndex>),
    /// In a row, then modulo `room`.
    Wrapped { bases: Vec<u64>, room: u64 },
}

impl Placing {
    /// First byte before the end of the room is minded, and afterwards, and the length.
    fn of(&self, r: Record) -> (u64, u64, u64) {
        let in_row = |bases: &[u64]| bases[usize::from(r.stream())].saturating_add(r.offset().0);
        match self {
            Placing::Same => (r.offset().0, r.offset().0, r.len().0),
            Placing::InRow(bases) => (in_row(bases), in_row(bases), r.len().0),
            Placing::Dense(touched) => {
                let at = touched.rank(r) * PAGE + r.offset().0 % PAGE;
                (at, at, r.len().0)
            }
            Placing::Wrapped { bases, room } => {
                let linear = in_row(bases);
                let offset = linear % room;
                (linear, offset, r.len().0.min(room - offset))
            }
        }
    }

    /// Puts request `index` and counts what that changed.
    pub(crate) fn put(&self, index: u64, r: Record, report: &mut FitReport) -> Result<Record, FitError> {
        if r.is_empty() || matches!(self, Placing::Same) {
            return Ok(r);
        }
        let (linear, offset, len) = self.of(r);
        report.wrapped_requests += u64::from(offset != linear);
        report.clipped_requests += u64::from(len < r.len().0);
        report.clipped_bytes += r.len().0 - len;
        let moved = r.moved(offset / SECTOR, len / SECTOR, r.stream());
        moved.map_err(|why| FitError::Bounds { index, why })
    }

    /// Puts a request that was put before.
    pub(crate) fn again(&self, r: Record) -> Record {
        if r.is_empty() {
            return r;
        }
        let (_, offset, len) = self.of(r);
        r.moved(offset / SECTOR, len / SECTOR, r.stream()).expect("it was put before")
    }
}

/// Where `method` puts requests of these streams on a device of `capacity`; `records` reads them from the first on, as often as is needed.
pub(crate) fn placing<I: Iterator<Item = Record>>(
    streams: &[Stream],
    records: impl Fn() -> I,
    capacity: ByteLen,
    method: Fit,
) -> Result<Placing, FitError> {
    if capacity.0 < PAGE {
        return Err(FitError::NoCapacity { capacity_bytes: capacity.0 });
    }
    let placing = match method {
        Fit::Error => {
            one_stream(streams, &records)?;
            Placing::Same
        }
        Fit::Concat => match bases(streams) {
            bases if bases.iter().all(|&base| base == 0) => Placing::Same,
            bases => Placing::InRow(bases),
        },
        Fit::Compact => {
            let mut touched = PageSet::new();
            records().for_each(|r| touched.add(r));
            let touched = touched.index();
            let fits = touched.len().saturating_mul(PAGE) <= capacity.0;
            let placing = Placing::Dense(Arc::new(touched));
            if fits {
                return Ok(placing);
            }
            placing
        }
        // Whole pages, so that what is aligned stays aligned.
        Fit::Wrap => {
            return Ok(Placing::Wrapped { bases: bases(streams), room: capacity.0 - capacity.0 % PAGE });
        }
    };
    if matches!(placing, Placing::Same) && extent(streams) <= capacity.0 {
        return Ok(placing);
    }
    check_end(streams, &records, capacity, method, &placing)?;
    Ok(placing)
}

fn one_stream<I: Iterator<Item = Record>>(
    streams: &[Stream],
    records: impl Fn() -> I,
) -> Result<(), FitError> {
    let used = streams.iter().filter(|s| s.requests > 0).count();
    if used <= 1 {
        return Ok(());
    }
    let first = records().next().map_or(0, |r| r.stream());
    match (0u64..).zip(records()).find(|(_, r)| r.stream() != first) {
        None => Ok(()),
        Some((index, other)) => Err(FitError::SeveralStreams {
            streams: used,
            first: streams[usize::from(first)].name.clone(),
            second: streams[usize::from(other.stream())].name.clone(),
            index,
        }),
    }
}

/// Refuses the first request that ends beyond the capacity where it is put.
fn check_end<I: Iterator<Item = Record>>(
    streams: &[Stream],
    records: impl Fn() -> I,
    capacity: ByteLen,
    method: Fit,
    placing: &Placing,
) -> Result<(), FitError> {
    let end = |r: &Record| if r.is_empty() { 0 } else { placing.of(*r).0.saturating_add(r.len().0) };
    let beyond = (0u64..).zip(records()).find(|(_, r)| end(r) > capacity.0);
    let Some((index, r)) = beyond else { return Ok(()) };
    Err(FitError::Beyond {
        index,
        offset_bytes: r.offset().0,
        len_bytes: r.len().0,
        stream: streams[usize::from(r.stream())].name.clone(),
        capacity_bytes: capacity.0,
        needed_bytes: records().map(|r| end(&r)).max().unwrap_or(0),
        method: method.name(),
        remedy: match method {
            Fit::Compact => "give a larger device, or fit it with `wrap`",
            _ => "give a larger device, or fit it with `compact` (touched pages only) or `wrap`",
        },
    })
}

/// Where each stream starts under `concat`, in bytes.
fn bases(streams: &[Stream]) -> Vec<u64> {
    let mut next = 0u64;
    let base_of = |s: &Stream| {
        let base = next;
        next = next.saturating_add(s.max_extent_bytes.next_multiple_of(CONCAT_ALIGN));
        base
    };
    streams.iter().map(base_of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::{LoadOptions, parse_bytes};
    use crate::stats::{StatsOptions, stats};

    fn trace(text: &str) -> Trace {
        parse_bytes(None, text.as_bytes(), LoadOptions::default()).unwrap()
    }

    const TWO: &str = "0,8,4096,w,0.0\n3,1000001,6144,r,0.1\n0,16,4096,w,0.2\n3,1000013,512,w,0.3\n";

    #[test]
    fn several_streams_need_a_choice() {
        let e = fit(trace(TWO), ByteLen::gib(1), Fit::Error).unwrap_err();
        assert!(matches!(&e, FitError::SeveralStreams { index: 1, second, .. } if second == "3"), "{e}");
    }

    #[test]
    fn error_names_the_first_request_beyond() {
        let t = trace("0,0,4096,w,0.0\n0,2048,4096,w,0.0\n0,8192,512,r,1.0\n");
        let e = fit(t.clone(), ByteLen::mib(1), Fit::Error).unwrap_err();
        assert!(matches!(e, FitError::Beyond { index: 1, needed_bytes: 4_194_816, .. }), "{e}");
        let (same, report) = fit(t.clone(), ByteLen(4_194_816), Fit::Error).unwrap();
        assert_eq!((same.records, report.span_after_bytes), (t.records, 4_194_816));
    }

    #[test]
    fn concat_gives_each_stream_its_own_base() {
        let (t, report) = fit(trace(TWO), ByteLen::gib(1), Fit::Concat).unwrap();
        assert_eq!(t.records[0].offset().0, 4096);
        assert_eq!(t.records[1].offset().0, (1 << 20) + 1_000_001 * 512);
        assert_eq!((t.streams.len(), report.span_before_bytes), (2, 1_000_014 * 512));
        assert!(matches!(
            fit(trace(TWO), ByteLen::mib(2), Fit::Concat),
            Err(FitError::Beyond { index: 1, .. })
        ));
    }

    #[test]
    fn compact_keeps_runs_and_offsets_within_pages() {
        let (t, report) = fit(trace(TWO), ByteLen(4 * 4096), Fit::Compact).unwrap();
        let offsets: Vec<u64> = t.records.iter().map(|r| r.offset().0).collect();
        assert_eq!(offsets, [0, 2 * 4096 + 512, 4096, 2 * 4096 + 13 * 512]);
        assert_eq!(report.span_after_bytes, 2 * 4096 + 14 * 512);
        assert!(fit(trace(TWO), ByteLen(3 * 4096), Fit::Compact).is_err());
        assert!(fit(trace(TWO), ByteLen(100), Fit::Compact).is_err());
    }

    #[test]
    fn wrap_cuts_at_the_end_and_counts() {
        let t = trace("0,0,4096,w,0.0\n0,30,4096,w,0.1\n0,40,4096,w,0.2\n0,2000000,1048576,r,0.3\n");
        let (t, report) = fit(t, ByteLen(16_384 + 100), Fit::Wrap).unwrap();
        assert_eq!((t.records[1].offset().0, t.records[1].len().0), (30 * 512, 2 * 512));
        assert_eq!(t.records[2].offset().0, 8 * 512);
        assert_eq!((report.wrapped_requests, report.clipped_requests), (2, 2));
        assert_eq!(report.clipped_bytes, 6 * 512 + 1_048_576 - 16_384);
        assert!(t.max_extent().0 <= 16_384);
    }

    proptest::proptest! {
        #[test]
        fn every_fit_stays_inside(
            requests in proptest::collection::vec((0u64..5, 0u64..1 << 22, 1u64..300, proptest::bool::ANY), 1..200),
            capacity in 1u64..1 << 32,
        ) {
            let line = |(i, (asu, lba, sectors, write)): (usize, (u64, u64, u64, bool))|
                format!("{asu},{lba},{},{},{i}.5\n", sectors * 512, if write { 'w' } else { 'r' });
            let t = trace(&requests.into_iter().enumerate().map(line).collect::<String>());
            let before = stats(&t.clone().into(), StatsOptions::default());
            for method in Fit::ALL {
                let Ok((fitted, report)) = fit(t.clone(), ByteLen(capacity), method) else { continue };
                assert!(fitted.max_extent().0 <= capacity, "{method:?}");
                assert_eq!(fitted.records.len(), t.records.len());
                let after = stats(&fitted.clone().into(), StatsOptions::default());
                if method != Fit::Wrap {
                    assert_eq!(report.clipped_requests, 0);
                    assert_eq!(after.footprint_bytes, before.footprint_bytes);
                    // Runs stay; pages that were apart may come to lie side by side.
                    assert!(after.sequential_percent >= before.sequential_percent);
                    assert_eq!(after.reuse, before.reuse);
                }
                assert!(after.footprint_bytes <= before.footprint_bytes);
            }
        }
    }
}
