//! What the lanes of all devices and the requests did in a window, as a trace that Perfetto and Chrome's tracing page open.
//!
//! The format is the JSON of the Trace Event Format: one process for each device with a thread for each lane (`X` events),
//! and a process for the requests, each an asynchronous pair (`b`, `e`) with its critical path as arguments. Times are
//! microseconds from the start of the replay.

use nandu_base::{LaneSpan, Phase, Span};
use nandu_sim::tap::{DeviceLanes, Ended};
use std::collections::BTreeMap;
use std::io::{self, Write};

/// Most requests that are kept.
const REQUESTS_MAX: usize = 1 << 18;
/// Number of the process that holds the requests; devices follow.
const REQUESTS: u32 = 1;

/// Requests that were under way in the window.
pub struct Picture {
    from: Span,
    to: Span,
    requests: Vec<Ended>,
    lost: u64,
    last_end: Span,
}

impl Picture {
    /// An empty picture of what happens from `from` to `to`.
    pub fn new(from: Span, to: Span) -> Picture {
        Picture { from, to, requests: Vec::new(), lost: 0, last_end: Span::ZERO }
    }

    /// A request has ended.
    pub fn ended(&mut self, request: &Ended) {
        self.last_end = self.last_end.longer(request.end);
        if request.arrival > self.to || request.end < self.from {
            return;
        }
        if self.requests.len() < REQUESTS_MAX {
            self.requests.push(*request);
        } else {
            self.lost += 1;
        }
    }

    /// From when to when.
    pub fn window(&self) -> (Span, Span) {
        (self.from, self.to)
    }

    /// When the last request of the run ended.
    pub fn last_end(&self) -> Span {
        self.last_end
    }

    /// Requests in it.
    pub fn requests(&self) -> usize {
        self.requests.len()
    }

    /// Requests for which there was no room.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Writes the picture with what the lanes of `devices` did.
    pub fn write(&self, devices: &[DeviceLanes], out: &mut (dyn Write + Send)) -> io::Result<()> {
        write!(out, "{{\"displayTimeUnit\":\"ns\",\"traceEvents\":[")?;
        process(out, REQUESTS, "requests")?;
        for request in &self.requests {
            self.request(out, request)?;
        }
        for (pid, device) in (REQUESTS + 1..).zip(devices) {
            lanes(out, pid, device)?;
        }
        writeln!(out, "\n{{}}]}}")
    }

    fn request(&self, out: &mut dyn Write, r: &Ended) -> io::Result<()> {
        let op = r.op.name();
        let head = format!("\"cat\":\"request\",\"id\":{},\"pid\":{REQUESTS},\"tid\":0", r.number);
        write!(
            out,
            "\n{{\"name\":\"{op}\",\"ph\":\"b\",\"ts\":{},{head},\"args\":{{\"request\":{},\"offset\":{},\"bytes\":{},\"failed\":{}",
            us(r.arrival.0),
            r.number,
            r.offset.0,
            r.len.0,
            r.failed
        )?;
        for phase in Phase::ALL {
            match r.path.get(phase).0 {
                0 => {}
                ns => write!(out, ",\"{} us\":{}", phase.name(), us(ns))?,
            }
        }
        writeln!(out, "}}}},")?;
        write!(out, "{{\"name\":\"{op}\",\"ph\":\"e\",\"ts\":{},{head}}},", us(r.end.0))
    }
}

/// Nanoseconds as microseconds with three decimals.
fn us(ns: u64) -> String {
    format!("{}.{:03}", ns / 1000, ns % 1000)
}

/// A string of JSON.
fn text(s: &str) -> String {
    serde_json::Value::from(s).to_string()
}

fn process(out: &mut dyn Write, pid: u32, name: &str) -> io::Result<()> {
    let name = text(name);
    write!(
        out,
        "\n{{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":{pid},\"args\":{{\"name\":{name}}}}},\n{{\"name\":\"process_sort_index\",\"ph\":\"M\",\"pid\":{pid},\"args\":{{\"sort_index\":{pid}}}}},"
    )
}

/// The thread of a lane: lanes in the order of kind, number and part.
fn lane(span: &LaneSpan) -> (u8, u32, u32) {
    (span.resource as u8, span.lane, span.part.map_or(0, |p| p + 1))
}

fn lanes(out: &mut dyn Write, pid: u32, device: &DeviceLanes) -> io::Result<()> {
    process(out, pid, &device.device)?;
    let mut threads: BTreeMap<(u8, u32, u32), (u32, String)> = BTreeMap::new();
    for span in &device.spans {
        let part = span.part.map_or(String::new(), |p| format!(" plane {p}"));
        let name = || (0, format!("{} {}{part}", span.resource.name(), span.lane));
        threads.entry(lane(span)).or_insert_with(name);
    }
    for (tid, (number, name)) in (1..).zip(threads.values_mut()) {
        *number = tid;
        let name = text(name);
        write!(
            out,
            "\n{{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":{pid},\"tid\":{tid},\"args\":{{\"name\":{name}}}}},\n{{\"name\":\"thread_sort_index\",\"ph\":\"M\",\"pid\":{pid},\"tid\":{tid},\"args\":{{\"sort_index\":{tid}}}}},"
        )?;
    }
    for span in &device.spans {
        let tid = threads[&lane(span)].0;
        let work = span.work.name();
        write!(
            out,
            "\n{{\"name\":\"{}\",\"cat\":\"{work}\",\"ph\":\"X\",\"ts\":{},\"dur\":{},\"pid\":{pid},\"tid\":{tid},\"args\":{{\"for\":\"{work}\"}}}},",
            span.what,
            us(span.start.since(device.start).0),
            us(span.end.since(span.start).0)
        )?;
    }
    Ok(())
}
