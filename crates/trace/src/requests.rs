//! The requests of a load: held in memory, or read again from where they come from each time they are wanted.
//!
//! A trace of a few million requests is held, 16 B each. A longer one is *streamed*: a generator makes its requests again for each reader, and a file
//! that was read lies decoded on disk. Either way a reader takes blocks of records in order, so nothing that replays them knows the difference,
//! and memory does not grow with their number.
//!
//! Cost: a streamed load is read once before it is replayed, for its hash, its length and how far it reaches.

use crate::fit::{self, Fit, FitError, FitReport, Placing};
use crate::record::Record;
use crate::trace::{Arrival, ContentHash, ContentHasher, Meta, Stream, Trace};
use nandu_base::{ByteLen, ByteOffset, Span};
use std::fmt::Debug;
use std::sync::Arc;

/// Requests above which a load is streamed: 4,194,304, 64 MiB.
pub const HELD_MOST: u64 = 1 << 22;

/// Records of a block that readers take at once where they have no reason for another number.
pub const BLOCK: usize = 512;

/// What gives the same records each time it is asked.
pub trait Again: Debug + Send + Sync {
    /// A feed of all records from the first on.
    fn feed(&self) -> Box<dyn Feed + '_>;
}

/// Records in order of time, a block at a time.
pub trait Feed {
    /// Appends up to `most` records; fewer only at the end.
    fn fill(&mut self, out: &mut Vec<Record>, most: usize);
}

/// An iterator that can be cloned gives the same records again.
#[derive(Clone, Debug)]
pub struct Remade<I>(pub I);

impl<I: Iterator<Item = Record> + Clone + Debug + Send + Sync> Again for Remade<I> {
    fn feed(&self) -> Box<dyn Feed + '_> {
        Box::new(Remade(self.0.clone()))
    }
}

impl<I: Iterator<Item = Record>> Feed for Remade<I> {
    fn fill(&mut self, out: &mut Vec<Record>, most: usize) {
        out.extend(self.0.by_ref().take(most));
    }
}

/// Requests that are not held.
#[derive(Clone, Debug)]
pub struct Streamed {
    /// Where they come from and what was done to them.
    pub meta: Meta,
    source: Arc<dyn Again>,
    /// Where each of them is put.
    placing: Placing,
    /// Its extent is that of the records as they are put.
    streams: Vec<Stream>,
    len: u64,
    span: Span,
    /// Of the records as they come, before they are put anywhere.
    hash: ContentHash,
}

/// The requests of a load.
#[derive(Clone, Debug)]
pub enum Requests {
    /// In memory.
    Held(Arc<Trace>),
    /// Read again from where they come from.
    Streamed(Arc<Streamed>),
}

impl From<Trace> for Requests {
    fn from(trace: Trace) -> Requests {
        Requests::Held(Arc::new(trace))
    }
}

impl From<Arc<Trace>> for Requests {
    fn from(trace: Arc<Trace>) -> Requests {
        Requests::Held(trace)
    }
}

impl Streamed {
    /// The first `most` records of `source`, whose streams have these names. `seen` is told now and then how many were looked at.
    ///
    /// # Panics
    /// When a record names a stream that is not there.
    pub fn survey(
        source: Arc<dyn Again>,
        most: u64,
        names: Vec<String>,
        meta: Meta,
        mut seen: impl FnMut(u64),
    ) -> Streamed {
        let mut hasher = ContentHasher::new(meta.arrival);
        let mut streams: Vec<Stream> =
            names.into_iter().map(|name| Stream { name, ..Stream::default() }).collect();
        let (mut len, mut last) = (0, 0);
        let reader = Origin::Streamed { feed: source.feed(), left: most, placing: &Placing::Same };
        let mut blocks = Blocks::new(Reader(reader));
        while let Some(block) = blocks.next_block() {
            hasher.update(block);
            for record in block {
                let stream = &mut streams[usize::from(record.stream())];
                stream.requests += 1;
                stream.max_extent_bytes = stream.max_extent_bytes.max(record.end().0);
                last = record.time().0;
            }
            len += block.len() as u64;
            seen(len);
        }
        drop(blocks);
        let hash = hasher.finish();
        Streamed { meta, source, placing: Placing::Same, streams, len, span: Span(last), hash }
    }

    fn reader(&self) -> Reader<'_> {
        Reader(Origin::Streamed { feed: self.source.feed(), left: self.len, placing: &self.placing })
    }

    /// Lays the requests onto a device of `capacity`, as [`fit::fit`] does.
    ///
    /// # Errors
    /// As [`fit::fit`].
    ///
    /// # Panics
    /// When they were laid onto a device before.
    pub fn fit(mut self, capacity: ByteLen, method: Fit) -> Result<(Streamed, FitReport), FitError> {
        assert!(matches!(self.placing, Placing::Same), "a streamed load is fitted once");
        let placing = fit::placing(&self.streams, || self.iter(), capacity, method)?;
        let mut report = FitReport::new(method, capacity, fit::extent(&self.streams));
        let mut streams = self.streams.clone();
        streams.iter_mut().for_each(|stream| stream.max_extent_bytes = 0);
        for (index, record) in self.iter().enumerate() {
            let record = placing.put(index as u64, record, &mut report)?;
            let stream = &mut streams[usize::from(record.stream())];
            stream.max_extent_bytes = stream.max_extent_bytes.max(record.end().0);
        }
        (self.placing, self.streams) = (placing, streams);
        report.span_after_bytes = fit::extent(&self.streams);
        Ok((self, report))
    }

    fn iter(&self) -> Records<'_> {
        Records { blocks: Blocks::new(self.reader()), next: 0 }
    }

    /// The first `most` of the requests.
    fn first(&self, most: u64) -> Streamed {
        let names = self.streams.iter().map(|stream| stream.name.clone()).collect();
        let part = Streamed::survey(Arc::clone(&self.source), most, names, self.meta.clone(), |_| ());
        Streamed { placing: self.placing.clone(), streams: self.streams.clone(), ..part }
    }
}

impl Requests {
    /// Where they come from and what was done to them.
    pub fn meta(&self) -> &Meta {
        match self {
            Requests::Held(trace) => &trace.meta,
            Requests::Streamed(streamed) => &streamed.meta,
        }
    }

    /// Its streams, with what they touch.
    pub fn streams(&self) -> &[Stream] {
        match self {
            Requests::Held(trace) => &trace.streams,
            Requests::Streamed(streamed) => &streamed.streams,
        }
    }

    /// One past the last byte any request touches, over all streams.
    pub fn max_extent(&self) -> ByteOffset {
        ByteOffset(fit::extent(self.streams()))
    }

    /// The measured response times, in the order of the requests, where the recording has them and they are held.
    pub fn service(&self) -> Option<&[Span]> {
        match self {
            Requests::Held(trace) => trace.service.as_deref(),
            Requests::Streamed(_) => None,
        }
    }

    /// How many there are.
    pub fn len(&self) -> u64 {
        match self {
            Requests::Held(trace) => trace.records.len() as u64,
            Requests::Streamed(streamed) => streamed.len,
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// From the first to the last arrival.
    pub fn span(&self) -> Span {
        match self {
            Requests::Held(trace) => trace.span(),
            Requests::Streamed(streamed) => streamed.span,
        }
    }

    /// Think time after request `index`; see [`Trace::gap_after`]. A load with such gaps is held.
    pub fn gap_after(&self, index: u64) -> Option<Span> {
        match self {
            Requests::Held(trace) => trace.gap_after(index as usize),
            Requests::Streamed(_) => None,
        }
    }

    /// Reads them from the first on.
    pub fn reader(&self) -> Reader<'_> {
        match self {
            Requests::Held(trace) => Reader(Origin::Held(&trace.records)),
            Requests::Streamed(streamed) => streamed.reader(),
        }
    }

    /// All of them in order.
    pub fn iter(&self) -> Records<'_> {
        Records { blocks: Blocks::new(self.reader()), next: 0 }
    }

    /// See [`Trace::content_hash`]. Reads all of them, unless they are streamed and not fitted yet.
    pub fn content_hash(&self) -> ContentHash {
        if let Requests::Streamed(streamed) = self
            && matches!(streamed.placing, Placing::Same)
        {
            return streamed.hash;
        }
        let mut hasher = ContentHasher::new(self.meta().arrival);
        let mut blocks = Blocks::new(self.reader());
        while let Some(block) = blocks.next_block() {
            hasher.update(block);
        }
        hasher.finish()
    }

    /// The first `most` of them; held when they are few.
    pub fn first(&self, most: u64) -> Requests {
        match self {
            _ if most >= self.len() => self.clone(),
            Requests::Held(trace) => {
                let most = most as usize;
                let service = trace.service.as_ref().map(|service| service[..most].to_vec());
                let (streams, meta) = (trace.streams.clone(), trace.meta.clone());
                Trace { records: trace.records[..most].to_vec(), streams, service, meta }.into()
            }
            Requests::Streamed(streamed) if most <= HELD_MOST => Requests::from(streamed.first(most).hold()),
            Requests::Streamed(streamed) => Requests::Streamed(Arc::new(streamed.first(most))),
        }
    }

    /// Lays the requests onto a device of `capacity`; see [`fit::fit`].
    ///
    /// # Errors
    /// As [`fit::fit`].
    pub fn fit(self, capacity: ByteLen, method: Fit) -> Result<(Requests, FitReport), FitError> {
        match self {
            Requests::Held(trace) => {
                let (trace, report) = fit::fit(Arc::unwrap_or_clone(trace), capacity, method)?;
                Ok((trace.into(), report))
            }
            Requests::Streamed(streamed) => {
                let (streamed, report) = Arc::unwrap_or_clone(streamed).fit(capacity, method)?;
                Ok((Requests::Streamed(Arc::new(streamed)), report))
            }
        }
    }

    /// The same requests as those of one stream: for a load whose streams lie in one space, each in its place.
    pub fn joined(self) -> Requests {
        let names = vec!["0".to_string()];
        match self {
            Requests::Held(trace) => {
                let trace = Arc::unwrap_or_clone(trace);
                let records = trace.records.into_iter().map(Record::in_one_stream).collect();
                let joined = Trace::from_records(records, names, trace.meta).expect("there is one stream");
                Trace { service: trace.service, ..joined }.into()
            }
            Requests::Streamed(_) => {
                let meta = self.meta().clone();
                let joined = Streamed::survey(Arc::new(Joined(self)), u64::MAX, names, meta, |_| ());
                Requests::Streamed(Arc::new(joined))
            }
        }
    }

    /// The trace in memory: a streamed one is collected.
    pub fn into_trace(self) -> Trace {
        match self {
            Requests::Held(trace) => Arc::unwrap_or_clone(trace),
            Requests::Streamed(streamed) => streamed.hold(),
        }
    }

    /// The trace in memory, to be changed: a streamed one is collected.
    pub fn held_mut(&mut self) -> &mut Trace {
        if let Requests::Streamed(streamed) = self {
            *self = Requests::from(streamed.hold());
        }
        match self {
            Requests::Held(trace) => Arc::make_mut(trace),
            Requests::Streamed(_) => unreachable!("it was collected"),
        }
    }

    /// True unless only the order of requests is known.
    pub fn has_times(&self) -> bool {
        self.meta().arrival != Arrival::OrderOnly
    }

    /// Whether each request has an arrival time that counts.
    pub fn is_timed(&self) -> bool {
        self.meta().arrival == Arrival::Timestamps
    }
}

impl Streamed {
    fn hold(&self) -> Trace {
        let (streams, meta) = (self.streams.clone(), self.meta.clone());
        Trace { records: self.iter().collect(), streams, service: None, meta }
    }
}

/// Requests as those of one stream.
#[derive(Debug)]
struct Joined(Requests);

impl Again for Joined {
    fn feed(&self) -> Box<dyn Feed + '_> {
        Box::new(Joining(self.0.reader()))
    }
}

struct Joining<'a>(Reader<'a>);

impl Feed for Joining<'_> {
    fn fill(&mut self, out: &mut Vec<Record>, most: usize) {
        let had = out.len();
        self.0.fill(out, most);
        out[had..].iter_mut().for_each(|record| *record = record.in_one_stream());
    }
}

/// Reads requests from the first on, in blocks.
pub struct Reader<'a>(Origin<'a>);

enum Origin<'a> {
    Held(&'a [Record]),
    Streamed { feed: Box<dyn Feed + 'a>, left: u64, placing: &'a Placing },
}

impl Reader<'_> {
    /// Appends up to `most` records; fewer only at the end.
    pub fn fill(&mut self, out: &mut Vec<Record>, most: usize) {
        match &mut self.0 {
            Origin::Held(records) => {
                let (block, rest) = records.split_at(most.min(records.len()));
                out.extend_from_slice(block);
                *records = rest;
            }
            Origin::Streamed { feed, left, placing } => {
                let (had, most) = (out.len(), most.min(usize::try_from(*left).unwrap_or(usize::MAX)));
                feed.fill(out, most);
                *left = if out.len() - had < most { 0 } else { *left - most as u64 };
                if !matches!(placing, Placing::Same) {
                    out[had..].iter_mut().for_each(|record| *record = placing.again(*record));
                }
            }
        }
    }
}

/// The blocks of a reader.
struct Blocks<'a> {
    reader: Reader<'a>,
    block: Vec<Record>,
}

impl<'a> Blocks<'a> {
    fn new(reader: Reader<'a>) -> Blocks<'a> {
        Blocks { reader, block: Vec::with_capacity(BLOCK) }
    }

    fn next_block(&mut self) -> Option<&[Record]> {
        self.block.clear();
        self.reader.fill(&mut self.block, BLOCK);
        (!self.block.is_empty()).then_some(&self.block)
    }
}

/// Requests one by one.
pub struct Records<'a> {
    blocks: Blocks<'a>,
    next: usize,
}

impl Iterator for Records<'_> {
    type Item = Record;

    #[inline]
    fn next(&mut self) -> Option<Record> {
        if self.next == self.blocks.block.len() {
            self.next = 0;
            self.blocks.next_block()?;
        }
        self.next += 1;
        Some(self.blocks.block[self.next - 1])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synth;
    use serde_json::json;

    fn both(requests: u64) -> (Requests, Requests, ContentHash) {
        let make =
            || synth::by_name("mixed-zipf").unwrap().generator(&json!({ "requests": requests }), 9).unwrap();
        let meta = make().meta();
        let names = vec!["mixed-zipf".to_string()];
        let streamed = Streamed::survey(Arc::new(Remade(make())), u64::MAX, names, meta, |_| ());
        let hash = streamed.hash;
        (make().into_trace().into(), Requests::Streamed(Arc::new(streamed)), hash)
    }

    #[test]
    fn streamed_requests_are_those_that_are_held() {
        let (held, streamed, hash) = both(3_000);
        assert!(held.iter().eq(streamed.iter()));
        assert_eq!((held.len(), held.span()), (streamed.len(), streamed.span()));
        assert_eq!((held.content_hash(), streamed.content_hash()), (hash, hash));
        for most in [1, 511, 512, 513, 2_999, 3_000, 4_000] {
            let (a, b) = (held.first(most), streamed.first(most));
            assert!(a.iter().eq(b.iter()), "the first {most}");
            assert_eq!((a.len(), a.span()), (b.len(), b.span()), "the first {most}");
        }
    }

    #[test]
    fn every_method_of_fitting_puts_them_where_it_puts_held_ones() {
        for (method, capacity) in [
            (Fit::Error, ByteLen::gib(8)),
            (Fit::Concat, ByteLen::gib(9)),
            (Fit::Compact, ByteLen::mib(200)),
            (Fit::Wrap, ByteLen::mib(64)),
        ] {
            let (held, streamed, _) = both(2_000);
            let (held, of_held) = held.fit(capacity, method).expect("it fits");
            let (streamed, of_streamed) = streamed.fit(capacity, method).expect("it fits");
            assert_eq!(of_held, of_streamed, "{method:?}");
            assert!(held.iter().eq(streamed.iter()), "{method:?}");
            assert!(held.first(700).iter().eq(streamed.first(700).iter()), "{method:?}");
            assert_eq!(held.content_hash(), streamed.content_hash(), "{method:?}");
        }
        let (held, streamed, _) = both(2_000);
        let why = |requests: Requests| requests.fit(ByteLen::mib(1), Fit::Concat).unwrap_err();
        assert_eq!(why(held), why(streamed));
    }
}
