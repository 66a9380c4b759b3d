//! Collects parsed requests into a [`Trace`]: first arrival at zero, whole sectors, streams numbered, order of time.

use crate::cursor::{Cursor, Nanos};
use crate::error::{Fault, TraceError};
use crate::record::{MAX_STREAMS, MAX_TIME_NS, Record, RecordError};
use crate::requests::{Requests, Streamed};
use crate::spool::Spool;
use crate::trace::{Arrival, Meta, Stream, Trace};
use nandu_base::{Op, SECTOR, Span};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Most the origin is moved back beyond need: 13 days.
const MAX_SLACK_NS: u64 = 1 << 50;

/// Names and numbers of the streams seen so far.
#[derive(Default)]
struct StreamTable {
    names: Vec<String>,
    numbers: BTreeMap<u64, u16>,
    words: BTreeMap<Box<[u8]>, u16>,
    last_number: Option<(u64, u16)>,
    last_word: Option<(Box<[u8]>, u16)>,
}

impl StreamTable {
    fn add(&mut self, name: String) -> Result<u16, RecordError> {
        let stream = self.names.len() as u64;
        if stream >= MAX_STREAMS {
            return Err(RecordError::Stream { stream });
        }
        self.names.push(name);
        Ok(stream as u16)
    }

    /// A format that knows no streams, or numbers them itself: they are called by their numbers.
    #[cold]
    #[inline(never)]
    fn cover(&mut self, stream: u16) -> Result<(), RecordError> {
        while self.names.len() <= usize::from(stream) {
            self.add(self.names.len().to_string())?;
        }
        Ok(())
    }

    #[cold]
    #[inline(never)]
    fn look_up_number(&mut self, number: u64) -> Result<u16, RecordError> {
        let stream = match self.numbers.get(&number) {
            Some(&stream) => stream,
            None => {
                let stream = self.add(number.to_string())?;
                self.numbers.insert(number, stream);
                stream
            }
        };
        self.last_number = Some((number, stream));
        Ok(stream)
    }

    fn look_up_word(&mut self, word: &[u8]) -> Result<u16, RecordError> {
        if let Some((last, stream)) = &self.last_word
            && **last == *word
        {
            return Ok(*stream);
        }
        let stream = match self.words.get(word) {
            Some(&stream) => stream,
            None => {
                let name = String::from_utf8_lossy(word).replace([',', ' '], "_");
                let stream = self.add(name)?;
                self.words.insert(word.into(), stream);
                stream
            }
        };
        self.last_word = Some((word.into(), stream));
        Ok(stream)
    }
}

/// The order in which streams have their first requests.
#[derive(Default)]
struct FirstSeen {
    /// Streams in that order.
    order: Vec<u16>,
    seen: Vec<bool>,
}

impl FirstSeen {
    /// Looks at further `records` in order of time of a trace that has `streams` streams so far.
    fn look(&mut self, records: &[Record], streams: usize) {
        self.seen.resize(streams.max(self.seen.len()), false);
        for r in records {
            if self.order.len() == streams {
                return;
            }
            let seen = &mut self.seen[usize::from(r.stream())];
            if !std::mem::replace(seen, true) {
                self.order.push(r.stream());
            }
        }
    }

    /// Puts the `names` in that order, those without a request last. Returns which number each stream has now, when one has another.
    fn sort(mut self, names: &mut Vec<String>) -> Option<Vec<u16>> {
        self.seen.resize(names.len(), false);
        self.order.extend((0u16..).zip(&self.seen).filter(|(_, seen)| !**seen).map(|(stream, _)| stream));
        if self.order.is_sorted() {
            return None;
        }
        let mut numbers = vec![0; names.len()];
        (0u16..).zip(&self.order).for_each(|(number, &stream)| numbers[usize::from(stream)] = number);
        *names = self.order.iter().map(|&stream| std::mem::take(&mut names[usize::from(stream)])).collect();
        Some(numbers)
    }
}

/// A time that goes back by less is one of requests that were noted a little late.
const RESTART_LEAST_NS: u64 = 1_000_000_000;

/// Times in the order of the file that went back far: where that happened first, by how much, and how often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Restarts {
    /// Number of the request in the file, from 1.
    request: u64,
    back_ns: u64,
    count: u64,
}

impl Restarts {
    /// Looks for them among `records` as the file has them. The clock began again where the latest time so far is followed by one that lies
    /// more than half of the time that has passed before it, and the next goes on from there.
    fn among(records: &[Record]) -> Option<Restarts> {
        let mut found: Option<Restarts> = None;
        let (mut first, mut latest) = (u64::MAX, 0u64);
        for (i, r) in records.iter().enumerate() {
            let time = r.time().0;
            let back = latest.saturating_sub(time);
            let goes_on = || records.get(i + 1).is_some_and(|next| next.time().0 < latest);
            let falls = back >= RESTART_LEAST_NS && back > (latest - first) / 2;
            if falls && records[i - 1].time().0 == latest && goes_on() {
                let seen = found.get_or_insert(Restarts { request: i as u64 + 1, back_ns: back, count: 0 });
                seen.count += 1;
            }
            (first, latest) = (first.min(time), latest.max(time));
        }
        found
    }

    fn note(self) -> String {
        let Restarts { request, back_ns, count } = self;
        let times = if count == 1 { "once".into() } else { format!("{count} times") };
        format!(
            "the times go far back {times}, first by {} s at request {request} of the file: files of one clock were joined, or a clock \
             began again; the parts are sorted into each other by time, so split the file there if each has a clock of its own",
            back_ns / 1_000_000_000
        )
    }
}

/// What one line says; extents in sectors.
#[derive(Clone, Copy, Debug)]
pub struct Line {
    /// Arrival on the recording's clock, in ns.
    pub time_ns: u64,
    /// What is asked.
    pub op: Op,
    /// Force unit access.
    pub fua: bool,
    /// First sector of 512 B.
    pub offset_sectors: u64,
    /// Sectors of 512 B.
    pub len_sectors: u64,
    /// From [`Builder::stream`] or [`Builder::stream_named`].
    pub stream: u16,
}

/// A trace under construction.
pub struct Builder {
    records: Vec<Record>,
    service: Option<Vec<Span>>,
    keep_service: bool,
    /// Measured response times that were asked for and not kept.
    unread_service: u64,
    streams: StreamTable,
    /// Clock value that record time 0 stands for.
    origin_ns: Option<u64>,
    /// Arrival of the latest line, relative to the origin.
    last_ns: u64,
    /// How far the origin was moved back last; doubles, so that moving it stays cheap.
    moved_back_ns: u64,
    /// One past the last sector of any request.
    max_end_sectors: u64,
    sorted_requests: u64,
    rounded_requests: u64,
    rounded_times: u64,
    arrival: Arrival,
    /// Requests that are held at most.
    held: u64,
    /// Those before, once there are more.
    spool: Option<Spool>,
    first_seen: FirstSeen,
    restarts: Option<Restarts>,
}

impl Builder {
    /// An empty builder; measured service times are dropped unless `keep_service`.
    pub fn new(arrival: Arrival, keep_service: bool) -> Builder {
        Builder {
            records: Vec::new(),
            service: None,
            keep_service,
            unread_service: 0,
            streams: StreamTable::default(),
            origin_ns: None,
            last_ns: 0,
            moved_back_ns: 0,
            max_end_sectors: 0,
            sorted_requests: 0,
            rounded_requests: 0,
            rounded_times: 0,
            arrival,
            held: u64::MAX,
            spool: None,
            first_seen: FirstSeen::default(),
            restarts: None,
        }
    }

    /// Of more than `held` requests the first are put aside; times to them do not move any more, and measured service times are counted and dropped.
    pub fn holding(self, held: u64) -> Builder {
        Builder { held, ..self }
    }

    /// Puts the first half of the requests aside when there are too many; to be called now and then.
    ///
    /// # Errors
    /// [`TraceError::Disorder`], and those of writing a temporary file.
    #[inline]
    pub fn settle(&mut self, source_name: &str) -> Result<(), TraceError> {
        match (self.records.len() as u64) < self.held || self.arrival == Arrival::GapAfterCompletion {
            true => Ok(()),
            false => self.put_aside(self.records.len() / 2, source_name),
        }
    }

    /// Puts the first `count` requests in order of time aside.
    #[cold]
    fn put_aside(&mut self, count: usize, source_name: &str) -> Result<(), TraceError> {
        let failed = |error| TraceError::Io { source_name: source_name.into(), error };
        self.unread_service += self.service.take().map_or(0, |service| service.len() as u64);
        // Further on a time so early has no place any more.
        if self.spool.is_none() && self.sorted_requests > 0 {
            self.restarts = Restarts::among(&self.records);
        }
        self.records.sort_by_key(|r| r.time());
        let first = self.records.first().map_or(0, |r| r.time().0);
        let spool = match &mut self.spool {
            Some(spool) => spool,
            None => {
                for r in &mut self.records {
                    *r = r.at(r.time().0 - first).expect("an earlier time fits when the later one did");
                }
                self.last_ns -= first;
                self.origin_ns = self.origin_ns.map(|origin| origin + first);
                self.spool.insert(Spool::new().map_err(failed)?)
            }
        };
        if spool.len() > 0 && first < spool.last().0 {
            let source_name = source_name.into();
            return Err(TraceError::Disorder { source_name, ns: first, window: self.held / 2 });
        }
        self.first_seen.look(&self.records[..count], self.streams.names.len());
        spool.put(&self.records[..count]).map_err(failed)?;
        self.records.drain(..count);
        Ok(())
    }

    /// Requests so far.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.records.len() + self.spool.as_ref().map_or(0, |spool| spool.len() as usize)
    }

    /// True before the first request.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Sets how requests follow each other.
    pub fn set_arrival(&mut self, arrival: Arrival) {
        self.arrival = arrival;
    }

    /// The stream of a device number.
    #[inline(always)]
    pub fn stream(&mut self, number: u64) -> Result<u16, RecordError> {
        match self.streams.last_number {
            Some((last, stream)) if last == number => Ok(stream),
            _ => self.streams.look_up_number(number),
        }
    }

    /// The stream of a device name; commas and blanks in the name become underscores.
    pub fn stream_named(&mut self, name: &[u8]) -> Result<u16, RecordError> {
        self.streams.look_up_word(name)
    }

    /// Counts a time that was rounded to a nanosecond and returns it.
    #[inline(always)]
    pub fn nanos(&mut self, time: Nanos) -> u64 {
        self.rounded_times += u64::from(time.rounded);
        time.ns
    }

    /// Adds a request whose extent is in bytes: widened to whole sectors and counted when it is not.
    #[inline(always)]
    pub fn push_bytes(&mut self, at: usize, line: Line, offset: u64, len: u64) -> Result<(), Fault> {
        let end = offset.checked_add(len).ok_or_else(|| Cursor::bounds(at, RecordError::Offset))?;
        let first = offset / SECTOR;
        let uneven = !(offset | len).is_multiple_of(SECTOR);
        let len_sectors = if len == 0 { 0 } else { end.div_ceil(SECTOR) - first };
        self.push(at, Line { offset_sectors: first, len_sectors, ..line })?;
        self.rounded_requests += u64::from(uneven);
        Ok(())
    }

    /// Adds a request; `at` is where its line starts.
    ///
    /// # Errors
    /// A fault when it does not fit a [`Record`]; nothing is added then.
    #[inline(always)]
    pub fn push(&mut self, at: usize, line: Line) -> Result<(), Fault> {
        let relative = match self.origin_ns {
            Some(origin) if line.time_ns >= origin => line.time_ns - origin,
            _ => self.set_origin(at, line.time_ns)?,
        };
        let relative = if relative > MAX_TIME_NS { self.tighten(line.time_ns) } else { relative };
        if usize::from(line.stream) >= self.streams.names.len() {
            self.streams.cover(line.stream).map_err(|why| Cursor::bounds(at, why))?;
        }
        let record =
            Record::new(relative, line.op, line.fua, line.offset_sectors, line.len_sectors, line.stream)
                .map_err(|why| Cursor::bounds(at, why))?;
        self.keep(record, relative);
        Ok(())
    }

    /// Adds a plain read or write of the device that came last, well inside all bounds. `false` adds nothing and sends
    /// the line to [`Builder::push`], which does everything else. `op` is a read or a write.
    #[inline(always)]
    pub fn push_usual(
        &mut self,
        time_ns: u64,
        device: u64,
        op: Op,
        offset_sectors: u64,
        len_sectors: u64,
    ) -> bool {
        debug_assert!(matches!(op, Op::Read | Op::Write));
        let (Some((last, stream)), Some(origin)) = (self.streams.last_number, self.origin_ns) else {
            return false;
        };
        if last != device || time_ns < origin {
            return false;
        }
        let relative = time_ns - origin;
        let Some(record) = Record::usual(relative, op, offset_sectors, len_sectors, stream) else {
            return false;
        };
        self.keep(record, relative);
        true
    }

    #[inline(always)]
    fn keep(&mut self, record: Record, relative: u64) {
        self.sorted_requests += u64::from(relative < self.last_ns);
        self.last_ns = relative;
        self.max_end_sectors = self.max_end_sectors.max(record.offset_sectors() + record.len_sectors());
        self.records.push(record);
    }

    /// Keeps the measured response time of the request added last.
    #[inline]
    pub fn push_service(&mut self, ns: u64) {
        if !self.keep_service {
            return;
        }
        if self.spool.is_some() {
            self.unread_service += 1;
        } else {
            self.service.get_or_insert_default().push(Span(ns));
        }
    }

    /// The first line, or one before the origin: moves the origin and all records so far.
    #[cold]
    #[inline(never)]
    fn set_origin(&mut self, at: usize, time_ns: u64) -> Result<u64, Fault> {
        if self.spool.is_some() {
            return Err(Cursor::bounds(at, RecordError::Early));
        }
        let Some(origin) = self.origin_ns.filter(|_| !self.records.is_empty()) else {
            self.origin_ns = Some(time_ns);
            self.last_ns = 0;
            return Ok(0);
        };
        // Further back than needed, so that a file in falling order moves its records only a few times.
        let needed = origin - time_ns;
        let generous = self.moved_back_ns.saturating_mul(2).min(MAX_SLACK_NS).min(origin);
        let latest = self.records.iter().map(|r| r.time().0).max().unwrap_or(0);
        let room = MAX_TIME_NS - latest;
        if needed > room {
            return Err(Cursor::bounds(at, RecordError::Time { ns: latest.saturating_add(needed) }));
        }
        let back = needed.max(generous.min(room));
        for r in &mut self.records {
            *r = r.at(r.time().0 + back).map_err(|why| Cursor::bounds(at, why))?;
        }
        self.moved_back_ns = back;
        self.origin_ns = Some(origin - back);
        self.last_ns += back;
        Ok(time_ns - (origin - back))
    }

    /// Takes back what the origin was moved too far; returns `time_ns` relative to it.
    #[cold]
    #[inline(never)]
    fn tighten(&mut self, time_ns: u64) -> u64 {
        if self.spool.is_some() {
            return time_ns - self.origin_ns.unwrap_or(0);
        }
        let first = self.records.iter().map(|r| r.time().0).min().unwrap_or(0);
        for r in &mut self.records {
            *r = r.at(r.time().0 - first).expect("an earlier time fits when the later one did");
        }
        self.moved_back_ns = 0;
        self.last_ns -= first;
        let origin = self.origin_ns.unwrap_or(0) + first;
        self.origin_ns = Some(origin);
        time_ns - origin
    }

    /// All requests: held, or put aside when they were too many.
    ///
    /// # Errors
    /// As [`Builder::settle`].
    pub fn finish_requests(mut self, mut meta: Meta) -> Result<Requests, TraceError> {
        if self.spool.is_none() {
            return Ok(self.finish(meta).into());
        }
        self.put_aside(self.records.len(), &meta.source)?;
        self.describe(&mut meta, 0);
        let mut spool = self.spool.take().expect("it is there");
        if self.sorted_requests > 0
            && let Some(numbers) = self.first_seen.sort(&mut self.streams.names)
        {
            spool.renumber(numbers);
        }
        let streamed = Streamed::survey(Arc::new(spool), u64::MAX, self.streams.names, meta, |_| ());
        Ok(Requests::Streamed(Arc::new(streamed)))
    }

    /// What was seen of the requests, of which the first arrived `first` after the origin, on the clock that the meta begins with.
    fn describe(&self, meta: &mut Meta, first: u64) {
        meta.start_ns = meta.start_ns.saturating_add(self.origin_ns.unwrap_or(0)).saturating_add(first);
        meta.arrival = self.arrival;
        meta.sorted_requests = self.sorted_requests;
        meta.rounded_requests = self.rounded_requests;
        meta.rounded_times = self.rounded_times;
        meta.unread_response_times = self.unread_service;
        meta.notes.extend(self.restarts.map(Restarts::note));
    }

    /// Sorts by time where needed, sets the first arrival to 0, counts streams. They are numbered in the order of their first requests, by
    /// time and, of one time, as the file has them.
    ///
    /// # Panics
    /// When requests were put aside.
    pub fn finish(mut self, mut meta: Meta) -> Trace {
        assert!(self.spool.is_none(), "requests were put aside");
        if self.sorted_requests > 0 {
            self.restarts = Restarts::among(&self.records);
            self.sort();
            self.first_seen.look(&self.records, self.streams.names.len());
            if let Some(numbers) = std::mem::take(&mut self.first_seen).sort(&mut self.streams.names) {
                self.records.iter_mut().for_each(|r| *r = r.in_stream(numbers[usize::from(r.stream())]));
            }
        }
        let first = self.records.first().map_or(0, |r| r.time().0);
        if first > 0 {
            for r in &mut self.records {
                *r = r.at(r.time().0 - first).expect("an earlier time fits when the later one did");
            }
        }
        self.describe(&mut meta, first);
        let mut trace = Trace { records: self.records, streams: Vec::new(), service: self.service, meta };
        trace.streams =
            self.streams.names.into_iter().map(|name| Stream { name, ..Stream::default() }).collect();
        if let [only] = trace.streams.as_mut_slice() {
            only.requests = trace.records.len() as u64;
            only.max_extent_bytes = self.max_end_sectors * SECTOR;
            return trace;
        }
        for r in &trace.records {
            if let Some(s) = trace.streams.get_mut(usize::from(r.stream())) {
                s.requests += 1;
                s.max_extent_bytes = s.max_extent_bytes.max(r.end().0);
            }
        }
        trace
    }

    /// Stable sort by time; measured times move with their requests.
    fn sort(&mut self) {
        let Some(service) = &mut self.service else {
            return self.records.sort_by_key(|r| r.time());
        };
        let mut both: Vec<(Record, Span)> =
            self.records.iter().copied().zip(service.iter().copied()).collect();
        both.sort_by_key(|(r, _)| r.time());
        for (i, (r, s)) in both.into_iter().enumerate() {
            self.records[i] = r;
            service[i] = s;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(time_ns: u64) -> Line {
        Line { time_ns, op: Op::Read, fua: false, offset_sectors: time_ns % 1000, len_sectors: 1, stream: 0 }
    }

    fn built(times: &[u64]) -> Trace {
        let mut b = Builder::new(Arrival::Timestamps, true);
        b.stream(7).unwrap();
        for &t in times {
            b.push(0, line(t)).unwrap();
            b.push_service(t * 10);
        }
        b.finish(Meta::default())
    }

    #[test]
    fn a_stream_that_no_line_has_named_is_called_by_its_number() {
        let mut b = Builder::new(Arrival::Timestamps, false);
        b.push(0, Line { stream: 2, ..line(5) }).unwrap();
        let t = b.finish(Meta::default());
        let names: Vec<(&str, u64)> = t.streams.iter().map(|s| (s.name.as_str(), s.requests)).collect();
        assert_eq!(names, [("0", 0), ("1", 0), ("2", 1)]);
        assert_eq!(crate::stats::stats(&t.into(), Default::default()).streams.len(), 3);
    }

    #[test]
    fn the_first_arrival_is_zero_and_order_is_restored() {
        let t = built(&[5_000_000_500, 5_000_000_700, 5_000_000_100, 5_000_000_600]);
        assert_eq!(t.records.iter().map(|r| r.time().0).collect::<Vec<_>>(), [0, 400, 500, 600]);
        assert_eq!(t.meta.start_ns, 5_000_000_100);
        assert_eq!(t.meta.sorted_requests, 1);
        assert_eq!(t.service.unwrap()[0], Span(50_000_001_000));
        assert_eq!((t.streams[0].name.as_str(), t.streams[0].requests), ("7", 4));
    }

    /// A trace of these times and devices, held or put aside.
    fn of_devices(lines: &[(u64, u64)], held: u64) -> Requests {
        let mut b = Builder::new(Arrival::Timestamps, false).holding(held);
        for &(time_ns, device) in lines {
            let stream = b.stream(device).unwrap();
            b.push(0, Line { stream, ..line(time_ns) }).unwrap();
            b.settle("test").unwrap();
        }
        b.finish_requests(Meta::default()).unwrap()
    }

    #[test]
    fn streams_are_numbered_by_time_and_not_by_their_lines() {
        // Device 9 has the first line, 4 the first request; 7 and 9 come at one time, as the file has them.
        let lines = [(50, 9), (10, 4), (60, 4), (50, 7), (70, 9), (80, 3), (75, 4), (90, 7)];
        for held in [u64::MAX, 7, 4] {
            let all = of_devices(&lines, held);
            assert_eq!(matches!(all, Requests::Streamed(_)), held < 8, "{held}");
            let names: Vec<&str> = all.streams().iter().map(|s| s.name.as_str()).collect();
            assert_eq!(names, ["4", "9", "7", "3"], "{held}");
            let numbers: Vec<u16> = all.iter().map(|r| r.stream()).collect();
            assert_eq!(numbers, [0, 1, 2, 0, 1, 0, 3, 2], "{held}");
            // The same requests in order are the same trace.
            let mut sorted = lines;
            sorted.sort_by_key(|l| l.0);
            let ordered = of_devices(&sorted, u64::MAX);
            assert_eq!(all.content_hash(), ordered.content_hash(), "{held}");
            let of = |r: &Requests| r.streams().to_vec();
            assert_eq!(of(&all), of(&ordered), "{held}");
        }
    }

    #[test]
    fn a_clock_that_begins_again_is_said() {
        const S: u64 = 1_000_000_000;
        let notes = |seconds: &[u64]| {
            let lines: Vec<(u64, u64)> = seconds.iter().map(|s| (s * S, 0)).collect();
            of_devices(&lines, u64::MAX).meta().notes.clone()
        };
        let once = &notes(&[100, 110, 120, 0, 10, 20, 30])[..];
        assert!(once[0].contains("far back once, first by 120 s at request 4 of the file"), "{once:?}");
        let twice = &notes(&[0, 10, 20, 0, 10, 20, 30, 1, 2, 3])[..];
        assert!(twice[0].contains("far back 2 times, first by 20 s at request 4"), "{twice:?}");
        // A few lines that were noted late; one line that was noted very late; order.
        for quiet in
            [&[0, 10, 8, 11, 9, 12, 20, 19][..], &[0, 10, 20, 1, 21, 22], &[0, 10, 20, 0], &[0, 1, 2]]
        {
            assert_eq!(notes(quiet), [""; 0], "{quiet:?}");
        }
        let lines: Vec<(u64, u64)> = [0, 10, 20, 0, 10, 20, 30, 40].map(|s| (s * S, 0)).into();
        assert_eq!(of_devices(&lines, 6).meta().notes.len(), 1, "also where requests are put aside");
    }

    #[test]
    fn a_file_in_falling_order_is_sorted_without_moving_records_each_time() {
        let times: Vec<u64> = (0..50_000u64).rev().map(|n| 1 << 60 | n).collect();
        let t = built(&times);
        assert_eq!(t.records.last().unwrap().time().0, 49_999);
        assert_eq!((t.meta.sorted_requests, t.meta.start_ns), (49_999, 1 << 60));
    }

    #[test]
    fn a_trace_beyond_52_days_is_an_error_in_both_directions() {
        let mut b = Builder::new(Arrival::Timestamps, false);
        b.push(0, line(1 << 60)).unwrap();
        assert!(b.push(0, line((1 << 60) + (1 << 52))).is_err());
        assert!(b.push(0, line((1 << 60) - (1 << 52))).is_err());
        b.push(0, line((1 << 60) - (1 << 51))).unwrap();
        assert_eq!(b.finish(Meta::default()).records.len(), 2);
        // Moved back by more than needed, the whole 52 days still fit.
        let mut b = Builder::new(Arrival::Timestamps, false);
        for back in [0, 1, 1 << 49, (1 << 49) + 1] {
            b.push(0, line((1 << 60) - back)).unwrap();
        }
        let first = (1 << 60) - (1 << 49) - 1;
        b.push(0, line(first + MAX_TIME_NS)).unwrap();
        assert!(b.push(0, line(first + MAX_TIME_NS + 1)).is_err());
        assert!(b.push(0, line(first - 1)).is_err());
        let t = b.finish(Meta::default());
        assert_eq!((t.meta.start_ns, t.span().0), (first, MAX_TIME_NS));
    }

    #[test]
    fn uneven_extents_widen_outwards() {
        let mut b = Builder::new(Arrival::Timestamps, false);
        b.push_bytes(0, line(0), 1000, 100).unwrap();
        b.push_bytes(0, line(0), 1024, 512).unwrap();
        assert!(b.push_bytes(0, line(0), u64::MAX, 512).is_err());
        assert!(b.push_bytes(0, line(0), 100, 0).is_err());
        b.stream(0).unwrap();
        let t = b.finish(Meta::default());
        assert_eq!((t.records[0].offset().0, t.records[0].len().0), (512, 1024));
        assert_eq!((t.records[1].offset().0, t.records[1].len().0), (1024, 512));
        assert_eq!(t.meta.rounded_requests, 1);
    }
}
