//! What is put aside in files without a name: standard input, and the requests of a trace too long to be held.
//!
//! *Standard input* can be read once only, but a command may want a trace several times: for several workloads, for the points of a sweep. So its
//! bytes are written to a file in the folder for temporary files, as they come in, and read from there.
//!
//! *The requests of a long trace* are written as they are decoded, 16 B each, and replayed from there. What is put aside is in order of time: a request
//! that stands far behind its place is an error ([`TraceError::Disorder`]).
//!
//! The files go away with the process.

use crate::error::TraceError;
use crate::load::{LoadOptions, parse_requests};
use crate::record::Record;
use crate::requests::{Again, Feed, Requests};
use nandu_base::Span;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;

/// What results and errors call it.
pub const NAME: &str = "standard input";

/// Reads the trace on standard input; one of more than `held` requests is put aside.
///
/// # Errors
/// As [`crate::load()`].
pub fn load_stdin(options: &LoadOptions, held: u64) -> Result<Requests, TraceError> {
    static SPOOLED: OnceLock<Result<File, (io::ErrorKind, String)>> = OnceLock::new();
    let file =
        SPOOLED.get_or_init(|| spooled(&mut io::stdin().lock()).map_err(|e| (e.kind(), e.to_string())));
    let failed = |error| TraceError::Io { source_name: NAME.into(), error };
    let file = file.as_ref().map_err(|(kind, text)| failed(io::Error::new(*kind, text.clone())))?;
    parse_requests(Box::new(FromStart { file, at: 0 }), NAME, options, held)
}

/// All of `source` in a file without a name.
pub(crate) fn spooled(source: &mut dyn Read) -> io::Result<File> {
    spooled_in(&std::env::temp_dir(), source)
}

fn spooled_in(folder: &std::path::Path, source: &mut dyn Read) -> io::Result<File> {
    let mut file = unnamed(folder).map_err(|e| {
        let why =
            format!("it is put aside in a file of {}: {e}; TMPDIR names another folder", folder.display());
        io::Error::new(e.kind(), why)
    })?;
    io::copy(source, &mut file)?;
    Ok(file)
}

/// A new file in `folder` that only this process can open.
fn unnamed(folder: &std::path::Path) -> io::Result<File> {
    for turn in 0u32.. {
        let path = folder.join(format!("nandu-spool-{}-{turn}", std::process::id()));
        match OpenOptions::new().read(true).write(true).create_new(true).open(&path) {
            Ok(file) => {
                std::fs::remove_file(&path)?;
                return Ok(file);
            }
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists && turn < 1000 => {}
            Err(e) => return Err(e),
        }
    }
    unreachable!("the loop returns")
}

/// Reads a file from its start, wherever others have read it.
struct FromStart<'f> {
    file: &'f File,
    at: u64,
}

impl Read for FromStart<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(buffer, self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}

/// Requests that were put aside, in order of time.
#[derive(Debug)]
pub struct Spool {
    file: File,
    len: u64,
    /// Arrival of the last of them.
    last: Span,
    /// The number that each stream has from now on, when it is another.
    streams: Option<Vec<u16>>,
    bytes: Vec<u8>,
}

/// Bytes of a record.
const RECORD: usize = size_of::<Record>();

impl Spool {
    /// A new one in the folder for temporary files.
    ///
    /// # Errors
    /// No file can be made there.
    pub fn new() -> io::Result<Spool> {
        let file = unnamed(&std::env::temp_dir())?;
        Ok(Spool { file, len: 0, last: Span::ZERO, streams: None, bytes: Vec::new() })
    }

    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Arrival of the last request.
    pub(crate) fn last(&self) -> Span {
        self.last
    }

    /// From now on the stream `n` of all requests is `streams[n]`.
    pub(crate) fn renumber(&mut self, streams: Vec<u16>) {
        self.streams = Some(streams);
    }

    /// Puts `records`, which are in order, behind those that are there.
    ///
    /// # Errors
    /// They cannot be written.
    pub fn put(&mut self, records: &[Record]) -> io::Result<()> {
        let Some(last) = records.last() else { return Ok(()) };
        self.last = Span(last.time().0);
        for block in records.chunks(1 << 14) {
            self.bytes.clear();
            block.iter().for_each(|record| self.bytes.extend_from_slice(&record.to_bytes()));
            self.file.write_all(&self.bytes)?;
        }
        self.len += records.len() as u64;
        Ok(())
    }
}

impl Again for Spool {
    fn feed(&self) -> Box<dyn Feed + '_> {
        Box::new(FromSpool { spool: self, at: 0, bytes: Vec::new() })
    }
}

/// Reads what was put aside.
struct FromSpool<'s> {
    spool: &'s Spool,
    at: u64,
    bytes: Vec<u8>,
}

impl Feed for FromSpool<'_> {
    /// # Panics
    /// When the file, which only this process can open, cannot be read.
    fn fill(&mut self, out: &mut Vec<Record>, most: usize) {
        let count = (self.spool.len - self.at).min(most as u64);
        self.bytes.resize(count as usize * RECORD, 0);
        let read = self.spool.file.read_exact_at(&mut self.bytes, self.at * RECORD as u64);
        read.unwrap_or_else(|error| panic!("requests that were put aside in a temporary file: {error}"));
        let had = out.len();
        let records = self.bytes.chunks_exact(RECORD);
        out.extend(records.map(|bytes| Record::from_bytes(bytes.try_into().expect("16 bytes"))));
        if let Some(streams) = &self.spool.streams {
            out[had..].iter_mut().for_each(|r| *r = r.in_stream(streams[usize::from(r.stream())]));
        }
        self.at += count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_takes_no_file_is_named() {
        let why = spooled_in("/nonexist".as_ref(), &mut &b""[..]).unwrap_err().to_string();
        assert!(why.contains("/nonexist") && why.contains("TMPDIR"), "{why}");
    }

    #[test]
    fn what_was_spooled_is_read_again_and_again() {
        let text = b"0 0 8 8 1\n5 0 16 8 1\n".repeat(40_000);
        let file = spooled(&mut &text[..]).unwrap();
        for _ in 0..2 {
            let reader = Box::new(FromStart { file: &file, at: 0 });
            let t = parse_requests(reader, NAME, &LoadOptions::default(), u64::MAX).unwrap();
            assert_eq!((t.len(), t.meta().source.as_str()), (80_000, NAME));
        }
    }

    /// Lines of a trace in format `spc`, of `count` requests of which each may stand up to `apart` lines from its place.
    fn text(count: u64, apart: u64) -> String {
        let mut order: Vec<u64> = (0..count).collect();
        order.sort_by_key(|&n| n + n * 7_919 % (apart + 1));
        order
            .iter()
            .map(|n| {
                format!(
                    "{},{},{},{},{}\n",
                    n % 3,
                    n * 16 % 9_000,
                    4096,
                    "wr".as_bytes()[(n % 2) as usize] as char,
                    *n as f64 / 1e3
                )
            })
            .collect()
    }

    fn read(text: &str, held: u64) -> Result<Requests, TraceError> {
        parse_requests(Box::new(text.as_bytes()), "t", &LoadOptions::default(), held)
    }

    #[test]
    fn a_trace_that_is_put_aside_is_the_one_that_is_held() {
        let text = text(90_000, 1_000);
        let (held, aside) = (read(&text, u64::MAX).unwrap(), read(&text, 10_000).unwrap());
        assert!(matches!(held, Requests::Held(_)) && matches!(aside, Requests::Streamed(_)));
        assert!(held.iter().eq(aside.iter()));
        assert_eq!((held.len(), held.span(), held.meta()), (aside.len(), aside.span(), aside.meta()));
        assert_eq!(held.content_hash(), aside.content_hash());
        let fitted =
            |requests: Requests| requests.fit(nandu_base::ByteLen::mib(1), nandu_base::Fit::Wrap).unwrap();
        let ((held, a), (aside, b)) = (fitted(held), fitted(aside));
        assert_eq!(a, b);
        assert!(held.iter().eq(aside.iter()));
    }

    #[test]
    fn a_parquet_file_is_put_aside_as_text_is() {
        let trace = read(&text(40_000, 0), u64::MAX).unwrap();
        let mut bytes = Vec::new();
        let parquet = crate::formats::by_name("parquet").unwrap();
        crate::write::write(&trace, parquet, &mut bytes, Default::default()).unwrap();
        let again = |held| parse_requests(Box::new(&bytes[..]), "t", &LoadOptions::default(), held).unwrap();
        let (held, aside) = (again(u64::MAX), again(10_000));
        assert!(matches!(held, Requests::Held(_)) && matches!(aside, Requests::Streamed(_)));
        assert!(trace.iter().eq(aside.iter()) && trace.iter().eq(held.iter()));
        assert_eq!((aside.meta(), aside.content_hash()), (held.meta(), trace.content_hash()));
        let joined = aside.joined();
        assert!(
            joined.iter().all(|r| r.stream() == 0)
                && joined.iter().zip(trace.iter()).all(|(a, b)| a.offset() == b.offset())
        );
    }

    #[test]
    fn a_request_far_from_its_place_is_refused_with_the_way_out() {
        let error = read(&text(90_000, 60_000), 10_000).unwrap_err();
        assert!(error.to_string().contains("sort the file by time"), "{error}");
        assert!(read(&text(90_000, 60_000), u64::MAX).is_ok());
        let early = format!("{}0,0,4096,w,0.0001\n", text(90_000, 0).split_once('\n').unwrap().1);
        let error = read(&early, 10_000).unwrap_err().to_string();
        assert!(error.contains("t:90000") && error.contains("sort the file by time"), "{error}");
    }
}
