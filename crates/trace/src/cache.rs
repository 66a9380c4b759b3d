//! Decoded traces kept in files, so that a trace that is used again is not decompressed and parsed again.
//!
//! A file of the cache belongs to one trace file and one way to read it: its name is a hash of the path and the options,
//! and it says which size and modification time the trace file had. Where either differs, or the file is damaged, the
//! trace is read as if there were no cache, and the file written anew. Nothing about the cache is ever an error of the
//! command: where it cannot be read or written there is none.
//!
//! *Form.* The magic `NANDUTRC`; version, size and modification time of the trace file (seconds, nanoseconds), length of
//! the description, records, measured times (0 or as many), CRC-32C of everything behind the head: 64-bit words, little
//! endian. Then the description (JSON of meta and streams), 16 bytes for each record, 8 for each measured time.
//!
//! *Bounds.* Traces below [`LEAST`] requests are not kept. The folder keeps below a given size: what was used least
//! recently goes first.

use crate::error::TraceError;
use crate::load::{LoadOptions, load_requests};
use crate::record::Record;
use crate::requests::Requests;
use crate::trace::{Meta, Stream, Trace};
use nandu_base::BadLines;
use nandu_base::Span;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fs::{self, File, Metadata};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Requests from which on a trace is kept: below, reading it again takes no time.
pub const LEAST: usize = 50_000;

const MAGIC: &[u8; 8] = b"NANDUTRC";
/// Of the form below and of the parsers: raised when either gives other records.
const VERSION: u64 = 3;
const HEAD: usize = 8 * 9;
const EXTENSION: &str = "decoded";

/// A folder of decoded traces.
#[derive(Clone, Debug)]
pub struct Cache {
    folder: PathBuf,
    /// Most bytes in it.
    most: u64,
}

/// The part of a trace that is not numbers.
#[derive(Serialize, Deserialize)]
struct Description {
    meta: Meta,
    streams: Vec<Stream>,
}

/// What the head of a cache file says.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Source {
    len: u64,
    seconds: u64,
    nanos: u64,
}

impl Source {
    fn of(file: &Metadata) -> Option<Source> {
        let since = file.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
        Some(Source { len: file.len(), seconds: since.as_secs(), nanos: u64::from(since.subsec_nanos()) })
    }
}

impl Cache {
    /// The cache in `folder`, which need not exist, of at most `most` bytes.
    pub fn new(folder: PathBuf, most: u64) -> Cache {
        Cache { folder, most }
    }

    /// Reads the trace in file `path`, from the cache where it holds it.
    ///
    /// # Errors
    /// As [`crate::load()`].
    pub fn load(&self, path: &Path, options: &LoadOptions) -> Result<Trace, TraceError> {
        self.load_requests(path, options, u64::MAX).map(Requests::into_trace)
    }

    /// Reads the requests in file `path`, from the cache where it holds them; more than `held` are put aside and not kept.
    ///
    /// # Errors
    /// As [`load_requests`].
    pub fn load_requests(
        &self,
        path: &Path,
        options: &LoadOptions,
        held: u64,
    ) -> Result<Requests, TraceError> {
        let Some(source) = fs::metadata(path).ok().and_then(|file| Source::of(&file)) else {
            return load_requests(path, options, held);
        };
        let place = self.place(path, options);
        let is_short = fs::metadata(&place).is_ok_and(|kept| kept.len() / size_of::<Record>() as u64 <= held);
        if let Some(mut trace) = is_short.then(|| read(&place, source)).flatten() {
            trace.meta.source = path.display().to_string();
            // Used now: what is not used goes first.
            let _ = File::open(&place).and_then(|file| file.set_modified(SystemTime::now()));
            return Ok(trace.into());
        }
        let requests = load_requests(path, options, held)?;
        let unchanged = fs::metadata(path).ok().and_then(|file| Source::of(&file)) == Some(source);
        if let Requests::Held(trace) = &requests
            && trace.records.len() >= LEAST
            && unchanged
        {
            let _ = self.write(&place, source, trace);
        }
        Ok(requests)
    }

    /// The file for this trace, read like this.
    fn place(&self, path: &Path, options: &LoadOptions) -> PathBuf {
        let path = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
        let LoadOptions { formats, format, columns, bad_lines, limit, keep_service, origin } = options;
        let mut sha = Sha256::new();
        let format = format.map_or("", |f| f.name);
        let skips = *bad_lines == BadLines::Skip;
        sha.update(format!("{format}\n{skips}\n{limit:?}\n{keep_service}\n{}\n", origin.name()));
        // A format from outside may recognise what no other does.
        for format in formats.iter().filter(|f| crate::formats::by_name(f.name).is_err()) {
            sha.update(format!("also {}\n", format.name));
        }
        if let Some(columns) = columns {
            sha.update(format!("columns {}\n", columns.whole()));
        }
        sha.update(path.as_os_str().as_encoded_bytes());
        let name: String = sha.finalize().iter().take(16).map(|b| format!("{b:02x}")).collect();
        self.folder.join(format!("{name}.{EXTENSION}"))
    }

    fn write(&self, place: &Path, source: Source, trace: &Trace) -> io::Result<()> {
        fs::create_dir_all(&self.folder)?;
        let description = Description { meta: trace.meta.clone(), streams: trace.streams.clone() };
        let description = serde_json::to_vec(&description)?;
        let service = trace.service.as_deref().unwrap_or_default();
        let len = HEAD + description.len() + trace.records.len() * 16 + service.len() * 8;
        self.make_room(len as u64)?;
        let mut bytes = Vec::with_capacity(len);
        bytes.resize(HEAD, 0);
        bytes.extend_from_slice(&description);
        trace.records.iter().for_each(|record| bytes.extend_from_slice(&record.to_bytes()));
        service.iter().for_each(|span| bytes.extend_from_slice(&span.0.to_le_bytes()));
        let words = [
            VERSION,
            source.len,
            source.seconds,
            source.nanos,
            description.len() as u64,
            trace.records.len() as u64,
            service.len() as u64,
            u64::from(crc32c::crc32c(&bytes[HEAD..])),
        ];
        bytes[..8].copy_from_slice(MAGIC);
        for (slot, word) in bytes[8..HEAD].chunks_exact_mut(8).zip(words) {
            slot.copy_from_slice(&word.to_le_bytes());
        }
        // Complete or absent, also when two processes read the same trace.
        let part = place.with_extension(format!("{}.part", std::process::id()));
        let written = File::create(&part).and_then(|mut file| file.write_all(&bytes));
        written.and_then(|()| fs::rename(&part, place)).inspect_err(|_| {
            let _ = fs::remove_file(&part);
        })
    }

    /// Removes what was used least recently until `len` bytes fit.
    fn make_room(&self, len: u64) -> io::Result<()> {
        if len > self.most {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let mut files: Vec<(SystemTime, PathBuf, u64)> = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let path = entry?.path();
            if path.extension().is_some_and(|e| e == EXTENSION) {
                let file = fs::metadata(&path)?;
                files.push((file.modified()?, path, file.len()));
            }
        }
        files.sort();
        let mut used: u64 = files.iter().map(|(_, _, len)| len).sum();
        for (_, path, size) in files {
            if used + len <= self.most {
                break;
            }
            fs::remove_file(path)?;
            used -= size;
        }
        Ok(())
    }
}

/// The trace in cache file `place`, if it is whole and was made of `source`.
fn read(place: &Path, source: Source) -> Option<Trace> {
    let mut bytes = Vec::new();
    File::open(place).ok()?.read_to_end(&mut bytes).ok()?;
    decode(&bytes, source)
}

fn decode(bytes: &[u8], source: Source) -> Option<Trace> {
    let (head, body) = bytes.split_at_checked(HEAD)?;
    let word = |i: usize| Some(u64::from_le_bytes(*head.get(8 * i..)?.first_chunk()?));
    let made_of = Source { len: word(2)?, seconds: word(3)?, nanos: word(4)? };
    if !head.starts_with(MAGIC) || word(1)? != VERSION || made_of != source {
        return None;
    }
    if u64::from(crc32c::crc32c(body)) != word(8)? {
        return None;
    }
    let (description, rest) = body.split_at_checked(usize::try_from(word(5)?).ok()?)?;
    let records_len = usize::try_from(word(6)?).ok()?.checked_mul(16)?;
    let (records, service) = rest.split_at_checked(records_len)?;
    if service.len() as u64 != word(7)?.checked_mul(8)? {
        return None;
    }
    let Description { meta, streams } = serde_json::from_slice(description).ok()?;
    let records: Vec<Record> = records.as_chunks::<16>().0.iter().map(Record::from_bytes).collect();
    let spans = service.as_chunks::<8>().0.iter().map(|b| Span(u64::from_le_bytes(*b)));
    let service = (!service.is_empty()).then(|| spans.collect());
    Some(Trace { records, streams, service, meta })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load;

    /// A text trace of `n` requests.
    fn text(n: usize) -> String {
        (0..n).map(|i| format!("{} {} {} 8 {}\n", i * 1000, i % 3, i * 8, i % 2)).collect()
    }

    fn same(a: &Trace, b: &Trace) {
        assert_eq!(
            (&a.records, &a.streams, &a.service, &a.meta),
            (&b.records, &b.streams, &b.service, &b.meta)
        );
    }

    #[test]
    fn what_is_kept_is_what_was_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("t.mqsim");
        fs::write(&path, text(LEAST)).expect("a trace");
        let cache = Cache::new(folder.path().join("cache"), 1 << 30);
        let options = LoadOptions::default();
        let direct = load(&path, &options).expect("it reads");
        same(&cache.load(&path, &options).expect("it reads"), &direct);
        let place = cache.place(&path, &options);
        let source = Source::of(&fs::metadata(&path).expect("a file")).expect("a time");
        let kept = read(&place, source).expect("it was kept");
        same(&kept, &direct);
        assert_eq!(kept.content_hash(), direct.content_hash());
        same(&cache.load(&path, &options).expect("it reads"), &direct);
        // Another way to read is another trace.
        let few = LoadOptions { limit: Some(7), ..LoadOptions::default() };
        assert_eq!(cache.load(&path, &few).expect("it reads").records.len(), 7);
    }

    #[test]
    fn a_trace_that_changed_is_read_anew() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("t.mqsim");
        let cache = Cache::new(folder.path().join("cache"), 1 << 30);
        let options = LoadOptions::default();
        for n in [LEAST, LEAST + 5] {
            fs::write(&path, text(n)).expect("a trace");
            assert_eq!(cache.load(&path, &options).expect("it reads").records.len(), n);
        }
    }

    #[test]
    fn any_damage_is_no_trace() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("t.mqsim");
        fs::write(&path, text(LEAST)).expect("a trace");
        let cache = Cache::new(folder.path().join("cache"), 1 << 30);
        let options = LoadOptions::default();
        cache.load(&path, &options).expect("it reads");
        let source = Source::of(&fs::metadata(&path).expect("a file")).expect("a time");
        let whole = fs::read(cache.place(&path, &options)).expect("it was kept");
        assert!(decode(&whole, source).is_some());
        let seed = 17;
        let mut rng = nandu_base::Rng::new(seed);
        for turn in 0..40 {
            let mut bytes = whole.clone();
            let at = if turn < 20 { rng.below(HEAD as u64) } else { rng.below(whole.len() as u64) } as usize;
            bytes[at] ^= 1 << rng.below(8);
            assert!(decode(&bytes, source).is_none(), "seed {seed}: byte {at}");
            bytes.truncate(rng.below(whole.len() as u64) as usize);
            assert!(decode(&bytes, source).is_none(), "seed {seed}: {} bytes", bytes.len());
        }
    }

    #[test]
    fn the_folder_stays_small() {
        let folder = tempfile::tempdir().expect("a folder");
        let one = LEAST as u64 * 16 + 4096;
        let cache = Cache::new(folder.path().join("cache"), one * 2);
        for n in 0..4 {
            let path = folder.path().join(format!("{n}.mqsim"));
            fs::write(&path, text(LEAST)).expect("a trace");
            cache.load(&path, &LoadOptions::default()).expect("it reads");
            let files = fs::read_dir(&cache.folder).expect("the folder").count();
            assert!(files <= 2, "{files} files");
        }
    }
}
