//! A trace in memory: records, streams and where they come from.

use crate::record::{Record, RecordError};
use nandu_base::{ByteOffset, Span};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// A recorded or generated list of requests in order of arrival.
#[derive(Clone, Debug)]
pub struct Trace {
    /// The requests, times never falling, the first at 0 when the trace has times.
    pub records: Vec<Record>,
    /// The streams (volumes, ASUs, disks) that [`Record::stream`] points into, in order of their first requests.
    pub streams: Vec<Stream>,
    /// Response time of each request as the recording measured it, when the format has it; as long as `records`.
    pub service: Option<Vec<Span>>,
    /// Where the trace comes from and what was done to it.
    pub meta: Meta,
}

/// One address space of a trace.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Stream {
    /// What the file calls it.
    pub name: String,
    /// Requests of this stream.
    pub requests: u64,
    /// One past the last byte any of its requests touches.
    pub max_extent_bytes: u64,
}

/// How requests follow each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Arrival {
    /// Each request has a recorded arrival: replay open loop (at its time) or closed loop.
    #[default]
    Timestamps,
    /// Each request was issued a recorded gap after the completion before it: replay closed loop with
    /// [`Trace::gap_after`]. Record times are the issue times of the recording.
    GapAfterCompletion,
    /// Only the order is known, all times are 0: replay closed loop.
    OrderOnly,
}

/// Whether a trace was recorded or made up.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// Recorded on a machine: one of the [recordings that are known](crate::known).
    Real,
    /// Made by a generator; results say so.
    #[serde(rename = "synthetic")]
    StandIn,
    /// A file says what was asked, not who asked.
    #[default]
    Unknown,
}

impl Origin {
    /// The word results carry: `real`, `synthetic` or `unknown`.
    pub const fn name(self) -> &'static str {
        match self {
            Origin::Real => "real",
            Origin::StandIn => "synthetic",
            Origin::Unknown => "unknown",
        }
    }
}

/// How whoever made a trace wants it replayed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Asked {
    /// Requests outstanding: always where the trace has no times, at most where it has.
    pub outstanding: u32,
    /// No request begins later than this after the start.
    pub runtime: Option<Span>,
    /// It begins again until then.
    pub again: bool,
}

/// Where a trace comes from and what reading it changed.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Meta {
    /// Name of the format or generator.
    pub format: String,
    /// File path as given, or generator and seed.
    pub source: String,
    /// Compression of the file: plain, zstd, gzip or bzip2.
    pub compression: String,
    /// Recorded or made up.
    pub origin: Origin,
    /// How requests follow each other.
    pub arrival: Arrival,
    /// First arrival on the recording's own clock, in ns of that clock (Unix seconds, filetime, ...).
    pub start_ns: u64,
    /// Requests whose offset or length was not a multiple of 512 B and was widened to whole sectors.
    pub rounded_requests: u64,
    /// Times with digits below a nanosecond, rounded to the nearest nanosecond.
    pub rounded_times: u64,
    /// Requests that arrived before their predecessor in the file; the trace is sorted stably by time.
    pub sorted_requests: u64,
    /// Bad lines skipped on request.
    pub skipped_lines: u64,
    /// The first few of them.
    pub skipped_first: Vec<String>,
    /// Requests whose measured response time was not kept, because the trace has more than are held.
    #[serde(default)]
    pub unread_response_times: u64,
    /// What a reader of results should know, e.g. a unit that was inferred.
    pub notes: Vec<String>,
    /// How it is to be replayed, where its maker says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<Asked>,
}

/// `1 line`, `1,234 lines`.
fn plural(n: u64, one: &str) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    format!("{text} {one}{}", if n == 1 { "" } else { "s" })
}

impl Meta {
    /// Everything that reading guessed, changed or left out, a sentence each; and whether requests are missing because of it.
    pub fn remarks(&self) -> Vec<(String, bool)> {
        let mut out: Vec<(String, bool)> = self.notes.iter().map(|note| (note.clone(), false)).collect();
        if self.skipped_lines > 0 {
            let lines = plural(self.skipped_lines, "line");
            out.push((format!("{lines} skipped, the first: {}", self.skipped_first.join("; ")), true));
        }
        if self.sorted_requests > 0 {
            let n = plural(self.sorted_requests, "request");
            out.push((
                format!("{n} stood after a later one in the file; the trace is sorted by arrival"),
                false,
            ));
        }
        if self.rounded_requests > 0 {
            let n = plural(self.rounded_requests, "request");
            out.push((format!("{n} widened to whole sectors of 512 B"), false));
        }
        out
    }
}

/// SHA-256 over the decoded requests; the same requests have the same hash whatever format and compression held them.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ContentHash(pub [u8; 32]);

impl std::fmt::Display for ContentHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}

impl std::fmt::Debug for ContentHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self}")
    }
}

impl Serialize for ContentHash {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

/// Accumulates a [`ContentHash`]: for generators that never hold their records.
pub struct ContentHasher(Sha256);

impl ContentHasher {
    /// The hasher of a trace with this kind of arrival.
    pub fn new(arrival: Arrival) -> ContentHasher {
        let mut sha = Sha256::new();
        sha.update(b"nandu-trace 1\n");
        sha.update([match arrival {
            Arrival::Timestamps => b't',
            Arrival::GapAfterCompletion => b'g',
            Arrival::OrderOnly => b'o',
        }]);
        ContentHasher(sha)
    }

    /// Adds records in order.
    pub fn update(&mut self, records: &[Record]) {
        let mut block = [0u8; 4096];
        for chunk in records.chunks(block.len() / 16) {
            for (slot, record) in block.chunks_exact_mut(16).zip(chunk) {
                slot.copy_from_slice(&record.to_bytes());
            }
            self.0.update(&block[..chunk.len() * 16]);
        }
    }

    /// The hash of what was added.
    pub fn finish(self) -> ContentHash {
        ContentHash(self.0.finalize().into())
    }
}

impl Trace {
    /// A trace from records that are already in order of time; counts requests and extents per stream.
    ///
    /// # Errors
    /// [`RecordError::Stream`] when a record points beyond `names`.
    pub fn from_records(records: Vec<Record>, names: Vec<String>, meta: Meta) -> Result<Trace, RecordError> {
        debug_assert!(records.windows(2).all(|w| w[0].time() <= w[1].time()), "records out of order");
        let mut streams: Vec<Stream> =
            names.into_iter().map(|name| Stream { name, ..Stream::default() }).collect();
        for r in &records {
            let stream = u64::from(r.stream());
            let s = streams.get_mut(usize::from(r.stream())).ok_or(RecordError::Stream { stream })?;
            s.requests += 1;
            s.max_extent_bytes = s.max_extent_bytes.max(r.end().0);
        }
        Ok(Trace { records, streams, service: None, meta })
    }

    /// True unless only the order of requests is known.
    pub fn has_times(&self) -> bool {
        self.meta.arrival != Arrival::OrderOnly
    }

    /// One past the last byte any request touches, over all streams.
    pub fn max_extent(&self) -> ByteOffset {
        ByteOffset(self.streams.iter().map(|s| s.max_extent_bytes).max().unwrap_or(0))
    }

    /// From the first to the last arrival.
    pub fn span(&self) -> Span {
        Span(self.records.last().map_or(0, |r| r.time().0))
    }

    /// Think time between the completion of request `index` and the issue of the next, as recorded.
    /// `None` for the last request and for traces whose [`Arrival`] is not `GapAfterCompletion`.
    pub fn gap_after(&self, index: usize) -> Option<Span> {
        if self.meta.arrival != Arrival::GapAfterCompletion {
            return None;
        }
        let done = self.records.get(index)?.time().0.checked_add(self.service.as_ref()?.get(index)?.0)?;
        self.records.get(index.checked_add(1)?)?.time().0.checked_sub(done).map(Span)
    }

    /// Hash of the requests: SHA-256 over a version line, the kind of arrival and each record's 16 bytes. Stream
    /// names, measured times and the recording's clock do not enter. Reads all records once; keep the result.
    pub fn content_hash(&self) -> ContentHash {
        let mut hasher = ContentHasher::new(self.meta.arrival);
        hasher.update(&self.records);
        hasher.finish()
    }
}
