//! The log of a run: one line for each request, in the order in which they ended, as comma-separated values.
//!
//! Columns: number of the request in the order of arrival, export, operation, offset and length in bytes, arrival since the
//! start of the replay and latency in nanoseconds, whether it failed, and the nanoseconds of each phase of its critical
//! path, which add up to the latency.

use nandu_base::Phase;
use nandu_sim::tap::Ended;
use std::io::{self, Write};

/// A log under construction. The first error ends it; [`Log::end`] reports it.
pub struct Log<'a> {
    out: &'a mut (dyn Write + Send),
    exports: Vec<String>,
    line: Vec<u8>,
    failed: Option<io::Error>,
}

impl<'a> Log<'a> {
    /// A log with its head; `exports` has the name of the export of each workload.
    pub fn new(out: &'a mut (dyn Write + Send), exports: Vec<String>) -> Log<'a> {
        let mut log = Log { out, exports, line: Vec::with_capacity(256), failed: None };
        let mut head = String::from("request,export,op,offset,bytes,arrival_ns,latency_ns,failed");
        for phase in Phase::ALL {
            head.extend([",", phase.name(), "_ns"]);
        }
        head.push('\n');
        log.put(head.as_bytes());
        log
    }

    fn put(&mut self, line: &[u8]) {
        if self.failed.is_none() {
            self.failed = self.out.write_all(line).err();
        }
    }

    /// Writes the line of one request.
    pub fn write(&mut self, r: &Ended) {
        let mut line = std::mem::take(&mut self.line);
        line.clear();
        let (export, failed) = (&self.exports[r.source], u8::from(r.failed));
        let (op, latency) = (r.op.name(), r.latency().0);
        // Writing to memory does not fail.
        let _ = write!(
            line,
            "{},{export},{op},{},{},{},{latency},{failed}",
            r.number, r.offset.0, r.len.0, r.arrival.0
        );
        for phase in Phase::ALL {
            let _ = write!(line, ",{}", r.path.get(phase).0);
        }
        line.push(b'\n');
        self.put(&line);
        self.line = line;
    }

    /// Whether everything was written.
    pub fn end(self) -> io::Result<()> {
        self.failed.map_or(Ok(()), Err)
    }
}
