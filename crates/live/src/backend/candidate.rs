//! A file that is to become a leg, looked at before it is touched.
//!
//! Whoever names a file for a leg may have named the wrong one, so nothing in it is overwritten that somebody may need: it must read as
//! zeros as far as the leg goes. What has holes is looked at quickly, for only what the file system calls data is read (`SEEK_DATA`); a
//! regular file is looked at in full. A block device cannot be: its first MiB, its last MiB and 64 KiB at each of 254 places between them
//! are read. Only then is a file made, or lengthened, and that is undone ([`Undo`]) when what it was for is refused. So is a new store of an
//! emulated drive.

use super::LegError;
use super::file::{lock, unlock};
use nandu_base::ByteLen;
use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

const MIB: u64 = 1 << 20;
/// Places of a block device that are read between its first and its last MiB, and how much at each.
const SAMPLES: u64 = 254;
const SAMPLE: u64 = 64 << 10;
/// What all records of ours begin with.
pub(super) const MARK: &[u8] = b"Nandu";
/// Marks stand at multiples of this.
const MARK_STEP: usize = 512;

/// Which file it is, whatever it is called.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    /// The file that `path` names now.
    pub fn of(path: &Path) -> Option<FileId> {
        std::fs::metadata(path).ok().map(|meta| FileId::from_metadata(&meta))
    }

    pub(crate) fn from_metadata(meta: &Metadata) -> FileId {
        FileId { device: meta.dev(), inode: meta.ino() }
    }
}

fn refused(path: &Path, why: impl Into<String>, remedy: &'static str) -> LegError {
    LegError { path: path.display().to_string(), why: why.into(), remedy, missing: false }
}

/// A file that may become a leg. While it is there it is locked.
#[derive(Debug)]
pub(crate) struct Candidate {
    path: PathBuf,
    /// `None`: it does not exist yet.
    file: Option<File>,
    len: u64,
    is_block_device: bool,
}

impl Candidate {
    /// Opens and locks what is at `path`, if anything is.
    ///
    /// # Errors
    /// It is no file for data, it may not be used, or somebody else has it. [`LegError::missing`]: its device is gone.
    pub fn open(path: &Path) -> Result<Candidate, LegError> {
        Candidate::with_lock(path, true)
    }

    /// The same without the lock, for a file that this server has open itself.
    fn with_lock(path: &Path, locked: bool) -> Result<Candidate, LegError> {
        let meta = match std::fs::metadata(path) {
            Ok(meta) => meta,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Ok(Candidate { path: path.into(), file: None, len: 0, is_block_device: false });
            }
            Err(error) => return Err(super::file::cannot_open(path, &error, false)),
        };
        let is_block_device = meta.file_type().is_block_device();
        if !meta.is_file() && !is_block_device {
            return Err(refused(
                path,
                "it is neither a regular file nor a block device",
                "name one of these",
            ));
        }
        let file = OpenOptions::new().read(true).write(true).open(path);
        let file = file.map_err(|error| super::file::cannot_open(path, &error, false))?;
        if locked {
            lock(&file, path)?;
        }
        let len =
            seek(&file, SeekFrom::End(0)).map_err(|error| refused(path, error.to_string(), "see to it"))?;
        Ok(Candidate { path: path.into(), file: Some(file), len, is_block_device })
    }

    /// Where it lies.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes it has.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether there is something at its path.
    pub fn exists(&self) -> bool {
        self.file.is_some()
    }

    /// The first byte of `range` that is not zero, as far as it was looked for. Nothing is found in what does not exist.
    ///
    /// # Errors
    /// It cannot be read, or `stop` was set.
    pub fn first_data(&self, range: Range<u64>, stop: &AtomicBool) -> Result<Option<u64>, LegError> {
        let Some(file) = &self.file else { return Ok(None) };
        let range = range.start..range.end.min(self.len);
        let found =
            if self.is_block_device { in_samples(file, range, stop) } else { in_all(file, range, stop) };
        found.map_err(|error| {
            let remedy = "nothing was changed; name a file that can be read";
            refused(&self.path, format!("it cannot be looked through: {error}"), remedy)
        })
    }

    /// Refuses a file that holds something within the first `capacity` bytes.
    ///
    /// # Errors
    /// Where the first byte lies, and what to do.
    pub fn must_be_blank(&self, capacity: ByteLen, stop: &AtomicBool) -> Result<(), LegError> {
        match self.first_data(0..capacity.0, stop)? {
            None => Ok(()),
            Some(at) => Err(self.holds_data(at, "")),
        }
    }

    /// Says that there is something at byte `at`.
    pub fn holds_data(&self, at: u64, and: &str) -> LegError {
        let why = format!("it holds data: its first byte that is not zero is at {at}{and}");
        let remedy = match self.is_block_device {
            true => {
                "nothing was changed; name another one, or wipe this one first (`blkdiscard -z`) if nothing in it is needed"
            }
            false => {
                "nothing was changed; name another one, or empty this one first (`truncate -s 0`) if nothing in it is needed"
            }
        };
        refused(&self.path, why, remedy)
    }

    /// Whether what a whole leg of ours has for records stands within `range`: a mark in the first 4 KiB or in the last MiB.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn is_marked(&self, range: Range<u64>) -> Result<bool, LegError> {
        let Some(file) = &self.file else { return Ok(false) };
        let range = range.start..range.end.min(self.len);
        let last = range.end.saturating_sub(MIB).max(range.start);
        // Marks are counted from the start of the range.
        let last = range.start + (last - range.start) / MARK_STEP as u64 * MARK_STEP as u64;
        for part in [range.start..range.end.min(range.start + 4096), last..range.end] {
            let bytes = self.read(file, part)?;
            if bytes.chunks(MARK_STEP).any(|record| record.starts_with(MARK)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether something stands at `range`.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn is_written(&self, range: Range<u64>) -> Result<bool, LegError> {
        let Some(file) = &self.file else { return Ok(false) };
        let range = range.start.min(self.len)..range.end.min(self.len);
        Ok(self.read(file, range)?.iter().any(|&byte| byte != 0))
    }

    fn read(&self, file: &File, range: Range<u64>) -> Result<Vec<u8>, LegError> {
        let mut bytes = vec![0; range.end.saturating_sub(range.start) as usize];
        let read = file.read_exact_at(&mut bytes, range.start);
        read.map_err(|error| refused(&self.path, error.to_string(), "name a file that can be read"))?;
        Ok(bytes)
    }

    /// Makes it a file of `capacity` bytes at least, durably. What was done for that is undone by the guard.
    ///
    /// # Errors
    /// There is no room, or somebody has made it meanwhile; then nothing has changed.
    pub fn make(mut self, capacity: ByteLen) -> Result<(File, Option<Undo>), LegError> {
        let fail = |error: io::Error| refused(&self.path, error.to_string(), "make room on its file system");
        let (file, back_to) = match self.file.take() {
            Some(file) if self.len >= capacity.0 => return Ok((file, None)),
            Some(_) if self.is_block_device => {
                let why = format!("it has {} bytes, but the leaf has {}", self.len, capacity.0);
                return Err(refused(&self.path, why, "correct `size`, or name a larger device"));
            }
            Some(file) => (file, Some(self.len)),
            None => {
                let made =
                    OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&self.path);
                let file = made.map_err(|error| super::file::cannot_make(&self.path, &error))?;
                (file, None)
            }
        };
        let id = FileId::from_metadata(&file.metadata().map_err(fail)?);
        let undo =
            Undo { path: self.path.clone(), id, back_to, len: capacity.0, holds: Some(0), keeps: false };
        if back_to.is_none() {
            lock(&file, &self.path)?;
        }
        // The new length is made durable, so that a power cut does not shorten a file that holds data.
        file.set_len(capacity.0).and_then(|()| file.sync_all()).map_err(fail)?;
        if back_to.is_none() {
            super::file::sync_name(&self.path).map_err(fail)?;
        }
        Ok((file, Some(undo)))
    }
}

impl Drop for Candidate {
    fn drop(&mut self) {
        self.file.iter().for_each(unlock);
    }
}

/// Looks whether what is at `path` may be overwritten as a leg of `capacity` bytes. `is_open`: this server has it open itself.
///
/// # Errors
/// Why not.
pub(crate) fn look(
    path: &Path,
    capacity: ByteLen,
    is_open: bool,
    stop: &AtomicBool,
) -> Result<Candidate, LegError> {
    let candidate = Candidate::with_lock(path, !is_open)?;
    candidate.must_be_blank(capacity, stop)?;
    Ok(candidate)
}

/// Looks whether a file that lies where a leg was, and is not the one that was there, may be taken: it is blank, or it has records.
///
/// # Errors
/// It holds something else.
pub(crate) fn look_at_return(path: &Path, capacity: ByteLen, stop: &AtomicBool) -> Result<(), LegError> {
    let candidate = Candidate::open(path)?;
    match candidate.first_data(0..capacity.0, stop)? {
        Some(at) if !candidate.is_marked(0..capacity.0)? => {
            Err(candidate.holds_data(at, ", it has no records of ours, and it is not the file that was here"))
        }
        _ => Ok(()),
    }
}

/// Puts a file back to what it was before it became a leg or a store, unless it was kept or holds something else by now than when it was made.
#[derive(Debug)]
pub(crate) struct Undo {
    path: PathBuf,
    id: FileId,
    /// The length it had; `None`: it was not there.
    back_to: Option<u64>,
    /// Its length since.
    len: u64,
    /// The [`sum`] of what it holds since; `None` while it is being made.
    holds: Option<u32>,
    keeps: bool,
}

impl Undo {
    /// For a store that is about to be made in `file` at `path`, which is empty; `was_there`: it had been there before.
    ///
    /// # Errors
    /// The file cannot be asked which one it is.
    pub fn of_store(path: &Path, file: &File, was_there: bool) -> io::Result<Undo> {
        let id = FileId::from_metadata(&file.metadata()?);
        let back_to = was_there.then_some(0);
        Ok(Undo { path: path.into(), id, back_to, len: 0, holds: None, keeps: false })
    }

    /// The store is made.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn is_made(&mut self, file: &File) -> io::Result<()> {
        self.len = file.metadata()?.len();
        self.holds = Some(sum(file, self.len)?);
        Ok(())
    }

    /// The file stays as it is.
    pub fn keep(mut self) {
        self.keeps = true;
    }

    /// Whether a machine has begun to use it.
    fn is_used(&self, file: &File) -> bool {
        let Some(holds) = self.holds else { return false };
        let len = file.metadata().map_or(0, |meta| meta.len());
        len != self.len || sum(file, len).ok() != Some(holds)
    }
}

impl Drop for Undo {
    fn drop(&mut self) {
        if self.keeps || FileId::of(&self.path) != Some(self.id) {
            return;
        }
        let Ok(file) = OpenOptions::new().read(true).write(true).open(&self.path) else { return };
        if self.is_used(&file) {
            return;
        }
        // Best effort: a blank file that stays does no harm.
        let _ = match self.back_to {
            Some(len) => file.set_len(len),
            None => std::fs::remove_file(&self.path),
        };
    }
}

fn stopped() -> io::Error {
    io::Error::new(ErrorKind::Interrupted, "the server ends")
}

/// The first byte of a range that is not zero, all of which is read.
fn in_range(file: &File, range: Range<u64>, stop: &AtomicBool) -> io::Result<Option<u64>> {
    let mut bytes = vec![0; MIB.min(range.end.saturating_sub(range.start)) as usize];
    let mut at = range.start;
    while at < range.end {
        if stop.load(Ordering::Relaxed) {
            return Err(stopped());
        }
        let count = (range.end - at).min(MIB) as usize;
        file.read_exact_at(&mut bytes[..count], at)?;
        if let Some(place) = bytes[..count].iter().position(|&byte| byte != 0) {
            return Ok(Some(at + place as u64));
        }
        at += count as u64;
    }
    Ok(None)
}

/// The same for a regular file: what the file system calls a hole is not read.
fn in_all(file: &File, range: Range<u64>, stop: &AtomicBool) -> io::Result<Option<u64>> {
    let mut at = range.start;
    while at < range.end {
        let from = match seek(file, SeekFrom::Data(at)) {
            Ok(from) => from,
            Err(Errno::NXIO) => return Ok(None),
            Err(Errno::INVAL | Errno::OPNOTSUPP) => return in_range(file, at..range.end, stop),
            Err(error) => return Err(error.into()),
        };
        if from >= range.end {
            return Ok(None);
        }
        let to = seek(file, SeekFrom::Hole(from))?.min(range.end);
        if let Some(found) = in_range(file, from..to, stop)? {
            return Ok(Some(found));
        }
        at = to;
    }
    Ok(None)
}

/// A sum over what a file holds, and where: 0 for nothing but zeros. What the file system calls a hole is not read.
fn sum(file: &File, len: u64) -> io::Result<u32> {
    const BLOCK: usize = 4096;
    let (mut sum, mut at) = (0, 0);
    let mut bytes = vec![0; BLOCK];
    while at < len {
        let from = match seek(file, SeekFrom::Data(at)) {
            Ok(from) => from / BLOCK as u64 * BLOCK as u64,
            Err(Errno::NXIO) => break,
            Err(Errno::INVAL | Errno::OPNOTSUPP) => at,
            Err(error) => return Err(error.into()),
        };
        let count = (len - from).min(BLOCK as u64);
        let block = &mut bytes[..count as usize];
        file.read_exact_at(block, from)?;
        if block.iter().any(|&byte| byte != 0) {
            sum = crc32c::crc32c_append(crc32c::crc32c_append(sum, &from.to_le_bytes()), block);
        }
        at = from + count;
    }
    Ok(sum)
}

/// The first byte of a range of a block device that is not zero: at both ends, and in samples between them.
fn in_samples(file: &File, range: Range<u64>, stop: &AtomicBool) -> io::Result<Option<u64>> {
    samples(range).try_fold(None, |found, part| match found {
        Some(at) => Ok(Some(at)),
        None => in_range(file, part, stop),
    })
}

fn samples(range: Range<u64>) -> impl Iterator<Item = Range<u64>> {
    let len = range.end.saturating_sub(range.start);
    let is_short = len <= 2 * MIB + SAMPLES * SAMPLE;
    let whole = is_short.then(|| range.clone());
    let ends = [range.start..range.start + MIB, range.end.saturating_sub(MIB)..range.end];
    let step = len.saturating_sub(2 * MIB) / SAMPLES / 512 * 512;
    let between = (0..SAMPLES).map(move |n| {
        let at = range.start + MIB + n * step;
        at..at + SAMPLE
    });
    whole.into_iter().chain(ends.into_iter().chain(between).filter(move |_| !is_short))
}

#[cfg(test)]
mod tests {
    use super::*;

    static NEVER: AtomicBool = AtomicBool::new(false);

    fn file(len: u64, data: &[u64]) -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("file");
        let file = File::create(&path).expect("a file");
        file.set_len(len).expect("it is sparse");
        data.iter().for_each(|&at| file.write_all_at(&[1], at).expect("room"));
        (dir, path)
    }

    #[test]
    fn the_first_byte_is_found_wherever_it_lies() {
        let len = 1 << 30;
        for at in [0, 1, 511, MIB - 1, MIB, 123_456_789, len - 1] {
            let (_dir, path) = file(len, &[at, len - 1]);
            let candidate = Candidate::open(&path).expect("a file");
            assert_eq!(candidate.first_data(0..len, &NEVER).expect("it is read"), Some(at));
            assert_eq!(
                in_range(candidate.file.as_ref().expect("open"), at..at + 1, &NEVER).ok(),
                Some(Some(at))
            );
            let error = candidate.must_be_blank(ByteLen(len), &NEVER).expect_err("it holds data").to_string();
            assert!(error.contains(&format!("is at {at};")), "{error}");
        }
        let (_dir, path) = file(len, &[len - 1]);
        let candidate = Candidate::open(&path).expect("a file");
        candidate.must_be_blank(ByteLen(len - 1), &NEVER).expect("what lies behind the leg is not its own");
    }

    #[test]
    fn zeros_that_are_stored_are_no_data() {
        let (_dir, path) = file(0, &[]);
        std::fs::write(&path, vec![0; 3 * MIB as usize]).expect("room");
        look(&path, ByteLen(4 * MIB), false, &NEVER).expect("zeros");
        let stop = AtomicBool::new(true);
        assert!(look(&path, ByteLen(4 * MIB), false, &stop).is_err(), "it was told to stop");
    }

    #[test]
    fn a_device_is_looked_at_from_end_to_end() {
        let len = 1 << 40;
        let parts: Vec<Range<u64>> = samples(0..len).collect();
        assert_eq!(parts.len() as u64, SAMPLES + 2);
        assert_eq!((parts[0].clone(), parts[1].clone()), (0..MIB, len - MIB..len));
        assert!(parts[2..].windows(2).all(|pair| pair[0].end <= pair[1].start && pair[1].end <= len));
        let largest = parts[2..].windows(2).map(|pair| pair[1].start - pair[0].end).max();
        assert!(largest < Some(len / 250));
        assert!(samples(0..MIB).eq(std::iter::once(0..MIB)), "a small one is read in full");
    }

    #[test]
    fn what_is_made_and_not_kept_is_gone_and_what_was_lengthened_is_as_it_was() {
        let (dir, short) = file(5, &[]);
        let new = dir.path().join("new");
        for keeps in [false, true] {
            let made = [&new, &short].map(|path| {
                let candidate = look(path, ByteLen(MIB), false, &NEVER).expect("nothing is in it");
                candidate.make(ByteLen(MIB)).expect("room").1.expect("something was done")
            });
            assert_eq!(std::fs::metadata(&short).expect("it is there").len(), MIB);
            made.into_iter().filter(|_| keeps).for_each(Undo::keep);
            assert_eq!(new.exists(), keeps);
            assert_eq!(std::fs::metadata(&short).expect("it is there").len(), if keeps { MIB } else { 5 });
        }
        let used = dir.path().join("used");
        let (file, undo) = Candidate::open(&used).and_then(|new| new.make(ByteLen(MIB))).expect("room");
        file.write_all_at(b"records", 4096).expect("room");
        drop(undo);
        assert!(used.exists(), "what a machine has begun to use stays");
    }

    #[test]
    fn our_records_are_known_by_their_mark() {
        let len = 8 * MIB;
        for (at, ours) in
            [(0, true), (4096, false), (len - 4096, true), (len - 69_632, true), (len - 2 * MIB, false)]
        {
            let (_dir, path) = file(len, &[]);
            let candidate = Candidate::open(&path).expect("a file");
            candidate.file.as_ref().expect("open").write_all_at(b"NanduHM\x01", at).expect("room");
            assert_eq!(candidate.is_marked(0..len).expect("it is read"), ours, "at {at}");
        }
    }
}
