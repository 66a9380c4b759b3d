//! The file of an emulated drive: made, locked, recognised, synced.
//!
//! A file of flash begins with a page that says what it is (the *label*); a disk has it behind its last sector, so that the rest is the image
//! of the disk and can be used without Nandu.
//!
//! *Marks.* After each sync the number of the last batch of the log that is durable now is written to one of two slots, in turn, each a sector with a
//! checksum. A mark is durable after the next sync. What counts as proven is what both slots say, so that one of them may be damaged.

use crate::backend::LegError;
use crate::backend::file::{lock, sync_name};
use rustix::fs::{FallocateFlags, SeekFrom, fallocate, fdatasync, fstat, seek};
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bytes of a label.
pub const LABEL: u64 = 4096;
const MAGIC: &[u8; 8] = b"NANDUDRV";
/// Bytes of the two slots of marks, each in a page of its own.
pub const MARKS: u64 = 2 * MARK_STEP;
const MARK_STEP: u64 = 4096;
const MARK_LEN: usize = 512;
const MARK_MAGIC: &[u8; 8] = b"NANDUMRK";

/// What a file holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shape {
    /// A flash array.
    Flash {
        /// Pages.
        units: u64,
        /// Sectors of a page.
        unit_sectors: u32,
        /// Page numbers from one block to the next.
        units_per_block: u32,
    },
    /// A disk.
    Disk {
        /// Its sectors.
        sectors: u64,
    },
}

impl Shape {
    fn words(self) -> [u64; 4] {
        match self {
            Shape::Flash { units, unit_sectors, units_per_block } => {
                [1, units, u64::from(unit_sectors), u64::from(units_per_block)]
            }
            Shape::Disk { sectors } => [2, sectors, 0, 0],
        }
    }

    fn from_words(words: [u64; 4]) -> Option<Shape> {
        match words[0] {
            1 => Some(Shape::Flash {
                units: words[1],
                unit_sectors: u32::try_from(words[2]).ok()?,
                units_per_block: u32::try_from(words[3]).ok()?,
            }),
            2 => Some(Shape::Disk { sectors: words[1] }),
            _ => None,
        }
    }

    /// The version of what such a file holds. Flash of version 1 had a log that could not tell what was damaged from what was torn.
    fn version(self) -> u32 {
        match self {
            Shape::Flash { .. } => 2,
            Shape::Disk { .. } => 1,
        }
    }

    /// Where the label of such a file lies.
    pub fn label_at(self) -> u64 {
        match self {
            Shape::Flash { .. } => 0,
            Shape::Disk { sectors } => (sectors * nandu_base::SECTOR).next_multiple_of(LABEL),
        }
    }
}

impl std::fmt::Display for Shape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Shape::Flash { units, unit_sectors, units_per_block } => {
                let page = u64::from(*unit_sectors) * nandu_base::SECTOR;
                write!(f, "flash of {units} pages of {page} bytes, {units_per_block} to a block")
            }
            Shape::Disk { sectors } => write!(f, "a disk of {sectors} sectors"),
        }
    }
}

/// What a store holds: its shape, and what the options say of how data lie in it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Drive {
    /// Its medium.
    pub shape: Shape,
    /// The rest in words; what is longer than fits a label is not compared.
    pub said: String,
    /// The same without what stores that were made before do not bear: they are taken as they are.
    pub before: String,
}

impl Drive {
    /// Whether a store that bears this label holds such a drive.
    fn is(&self, found: &Drive) -> bool {
        found.shape == self.shape && (found.said() == self.said() || found.said == self.before)
    }

    fn said(&self) -> &[u8] {
        &self.said.as_bytes()[..self.said.len().min(SUM - SAID)]
    }
}

impl std::fmt::Display for Drive {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.shape, self.said)
    }
}

/// A file that is open and locked, and how far its log is written and durable. Shared with the thread that syncs it.
#[derive(Debug)]
pub struct Shared {
    /// The file.
    pub file: File,
    /// The last batch of the log that was written.
    pub written: AtomicU64,
    /// The last batch that is durable, with all data before it.
    pub synced: AtomicU64,
    /// Somebody wants a sync, though no flush waits for it.
    pub wants_sync: AtomicBool,
    /// The last batch that both marks cover, durably.
    proven: AtomicU64,
    marks: Mutex<Marks>,
    /// The errno of the first failure; nothing is believed after it.
    failed: AtomicI32,
}

/// The slots of marks.
#[derive(Debug, Default)]
struct Marks {
    /// Where they are; a disk has none.
    at: Option<u64>,
    /// What was written to each.
    written: [u64; 2],
}

impl Shared {
    fn new(file: File) -> Shared {
        Shared {
            file,
            written: AtomicU64::new(0),
            synced: AtomicU64::new(0),
            wants_sync: AtomicBool::new(false),
            proven: AtomicU64::new(0),
            marks: Mutex::new(Marks::default()),
            failed: AtomicI32::new(0),
        }
    }

    /// The errno of the first failure.
    pub fn failure(&self) -> Option<i32> {
        match self.failed.load(Ordering::Acquire) {
            0 => None,
            errno => Some(errno),
        }
    }

    /// Notes a failure, unless there was one before.
    pub fn fail(&self, error: &io::Error) {
        let errno = error.raw_os_error().unwrap_or(rustix::io::Errno::IO.raw_os_error());
        let _ = self.failed.compare_exchange(0, errno, Ordering::AcqRel, Ordering::Acquire);
        // the first one counts
    }

    /// Makes everything durable that was written before. A sync that failed once has failed for good: the kernel may have dropped
    /// what was dirty.
    ///
    /// # Errors
    /// The errno.
    pub fn sync(&self) -> Result<(), i32> {
        // Whoever syncs holds the marks: a failure of the sync before this one is noted by the time they are free.
        let mut marks = self.marks();
        if let Some(errno) = self.failure() {
            return Err(errno);
        }
        let written = self.written.load(Ordering::Acquire);
        let deleted = fstat(&self.file).map_or(true, |stat| stat.st_nlink == 0);
        let synced = match deleted {
            true => Err(io::Error::from(rustix::io::Errno::NODEV)),
            false => fdatasync(&self.file).map_err(io::Error::from),
        };
        match synced {
            Ok(()) => {
                self.synced.fetch_max(written, Ordering::AcqRel);
                self.proven.fetch_max(marks.written[0].min(marks.written[1]), Ordering::AcqRel);
                let older = usize::from(marks.written[1] < marks.written[0]);
                if marks.written[older] < written {
                    self.write_mark(&mut marks, older, written).map_err(|error| self.failed_with(&error))?;
                }
                Ok(())
            }
            Err(error) => Err(self.failed_with(&error)),
        }
    }

    /// Notes a failure; returns the errno of the first.
    fn failed_with(&self, error: &io::Error) -> i32 {
        self.fail(error);
        self.failure().expect("a failure was noted")
    }

    fn marks(&self) -> MutexGuard<'_, Marks> {
        self.marks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_mark(&self, marks: &mut Marks, slot: usize, batch: u64) -> io::Result<()> {
        let Some(at) = marks.at else { return Ok(()) };
        let mut bytes = [0; MARK_LEN];
        bytes[..8].copy_from_slice(MARK_MAGIC);
        bytes[16..24].copy_from_slice(&batch.to_le_bytes());
        let sum = crc32c::crc32c(&bytes[16..]);
        bytes[8..12].copy_from_slice(&sum.to_le_bytes());
        self.file.write_all_at(&bytes, at + slot as u64 * MARK_STEP)?;
        marks.written[slot] = batch;
        Ok(())
    }

    /// Marks are kept from this byte of the file on.
    pub fn keep_marks(&self, at: u64) {
        self.marks().at = Some(at);
    }

    /// The newest mark in the file. A slot that is damaged counts for nothing: the other one is there, and the next mark is written over it.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn marked(&self, at: u64) -> io::Result<u64> {
        let mut marks = self.marks();
        marks.at = Some(at);
        for slot in 0..2 {
            let mut bytes = [0; MARK_LEN];
            match self.file.read_exact_at(&mut bytes, at + slot as u64 * MARK_STEP) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => continue,
                Err(error) => return Err(error),
            }
            let is_whole = &bytes[..8] == MARK_MAGIC
                && bytes[8..16] == u64::from(crc32c::crc32c(&bytes[16..])).to_le_bytes();
            marks.written[slot] = match is_whole {
                true => u64::from_le_bytes(bytes[16..24].try_into().expect("eight bytes")),
                false => 0,
            };
        }
        Ok(marks.written[0].max(marks.written[1]))
    }

    /// Both marks say this batch from now on, durably, whatever they said before.
    ///
    /// # Errors
    /// The file cannot be written or synced.
    pub fn mark_anew(&self, batch: u64) -> io::Result<()> {
        let mut marks = self.marks();
        fdatasync(&self.file)?;
        for slot in 0..2 {
            self.write_mark(&mut marks, slot, batch)?;
            fdatasync(&self.file)?;
        }
        Ok(())
    }

    /// The last batch that a start is sure to find, even with one mark damaged.
    pub fn proven(&self) -> u64 {
        self.proven.load(Ordering::Acquire)
    }

    /// Whether something is durable that the marks do not prove yet.
    pub fn owes_proof(&self) -> bool {
        self.marks().at.is_some() && self.proven() < self.synced.load(Ordering::Acquire)
    }

    /// Makes everything durable that was written before, and both marks that say so.
    ///
    /// # Errors
    /// The errno.
    pub fn prove(&self) -> Result<(), i32> {
        let written = self.written.load(Ordering::Acquire);
        self.sync()?;
        while self.marks().at.is_some() && self.proven() < written {
            self.sync()?;
        }
        Ok(())
    }

    /// The first byte from `at` on that may be other than zero; none where the file ends before. Every byte, where the file system cannot tell.
    ///
    /// # Errors
    /// The file cannot be looked through.
    pub fn next_data(&self, at: u64) -> io::Result<Option<u64>> {
        match seek(&self.file, SeekFrom::Data(at)) {
            Ok(next) => Ok(Some(next)),
            Err(rustix::io::Errno::NXIO) => Ok(None),
            Err(_) if at < self.file.metadata()?.len() => Ok(Some(at)),
            Err(_) => Ok(None),
        }
    }

    /// Makes a range read as zeros, without room where the file system can do that.
    ///
    /// # Errors
    /// As writing.
    pub fn clear(&self, at: u64, len: u64) -> io::Result<()> {
        if len == 0 {
            return Ok(());
        }
        let way = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        if fallocate(&self.file, way, at, len).is_ok() {
            return Ok(());
        }
        let zeros = [0; 64 << 10];
        let mut done = 0;
        while done < len {
            let count = (len - done).min(zeros.len() as u64);
            self.file.write_all_at(&zeros[..count as usize], at + done)?;
            done += count;
        }
        Ok(())
    }
}

/// Where in a label the words of the drive begin, and the checksum behind them.
const SAID: usize = 64;
const SUM: usize = LABEL as usize - 4;

fn label(drive: &Drive) -> Vec<u8> {
    let mut page = vec![0; LABEL as usize];
    page[..8].copy_from_slice(MAGIC);
    page[8..12].copy_from_slice(&drive.shape.version().to_le_bytes());
    for (place, word) in page[16..].chunks_exact_mut(8).zip(drive.shape.words()) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    let said = drive.said();
    page[48..56].copy_from_slice(&(said.len() as u64).to_le_bytes());
    page[SAID..SAID + said.len()].copy_from_slice(said);
    let sum = crc32c::crc32c(&page[..SUM]);
    page[SUM..].copy_from_slice(&sum.to_le_bytes());
    page
}

/// What the label says that begins at this page, in words. `None`: it is none.
pub fn said_by_label(page: &[u8]) -> Option<String> {
    read_label(page).map(|(version, drive)| format!("{drive} (version {version})"))
}

/// What a label says. `None`: it is none.
fn read_label(page: &[u8]) -> Option<(u32, Drive)> {
    let word = |at: usize| u64::from_le_bytes(page[at..at + 8].try_into().expect("eight bytes"));
    if &page[..8] != MAGIC || crc32c::crc32c(&page[..SUM]).to_le_bytes() != page[SUM..] {
        return None;
    }
    let shape = Shape::from_words([word(16), word(24), word(32), word(40)])?;
    let said = page[SAID..SUM].get(..usize::try_from(word(48)).ok()?)?;
    let said = String::from_utf8_lossy(said).into_owned();
    Some((word(8) as u32, Drive { shape, before: said.clone(), said }))
}

/// A store that was opened.
pub struct Opened {
    /// It was there before, although empty where it is new.
    pub was_there: bool,
    /// The file.
    pub shared: Shared,
    /// It was made just now: the label is still to be written, when all else is durable ([`finish_making`]).
    pub is_new: bool,
    /// Its label is damaged, and a salvage takes it for this drive: the label is to be written again.
    pub lacks_label: bool,
}

/// Opens and locks `path` as the store of a drive of this shape. With `create` one that is not there, or empty, is made; one that is there
/// is never begun anew.
///
/// # Errors
/// Why it cannot be used.
pub fn open(path: &Path, drive: &Drive, create: bool, salvage: bool) -> Result<Opened, LegError> {
    let fail =
        |why: String, remedy| LegError { path: path.display().to_string(), why, remedy, missing: false };
    let was_there = path.symlink_metadata().is_ok();
    let file =
        OpenOptions::new().read(true).write(true).create(create).truncate(false).mode(0o600).open(path);
    let file = file.map_err(|error| LegError {
        missing: error.kind() == ErrorKind::NotFound,
        ..fail(
            error.to_string(),
            match error.kind() {
                ErrorKind::NotFound => "bring it back, or start with --create to make it",
                ErrorKind::PermissionDenied => "give this user the right to read and write it",
                _ => "name a regular file",
            },
        )
    })?;
    lock(&file, path)?;
    let unusable = |error: io::Error| fail(error.to_string(), "use a regular file on a local file system");
    let meta = file.metadata().map_err(unusable)?;
    if !meta.is_file() {
        return Err(fail(
            "it is not a regular file".into(),
            "name a regular file; a device is a leaf of kind `file`",
        ));
    }
    if meta.len() == 0 {
        if !create {
            return Err(fail("it is empty".into(), "start with --create to make the drive in it"));
        }
        sync_name(path).map_err(unusable)?;
        return Ok(Opened { was_there, shared: Shared::new(file), is_new: true, lacks_label: false });
    }
    let recognised = recognise(&file, drive, meta.len());
    let lacks_label = salvage && matches!(recognised, Err(Unfit::Foreign));
    if lacks_label {
        return Ok(Opened { was_there, shared: Shared::new(file), is_new: false, lacks_label });
    }
    recognised.map_err(|why| match why {
        Unfit::Foreign => fail(
            format!("it holds no drive of Nandu, or its label at byte {} is damaged or was never written", drive.shape.label_at()),
            "name another file; if it is the right one, bring back a copy or try --salvage; if nothing in it is needed, delete it and start with --create",
        ),
        Unfit::Version(version) => fail(
            format!("it is of version {version}, and this is version {}", drive.shape.version()),
            "serve it with the version of Nandu that made it and copy what it holds to a drive of this version",
        ),
        Unfit::Other(found) => fail(
            format!("it holds {found}, but the leaf is {drive}"),
            "correct the options of the drive, or name another file",
        ),
        Unfit::Error(error) => unusable(error),
    })?;
    Ok(Opened { was_there, shared: Shared::new(file), is_new: false, lacks_label })
}

enum Unfit {
    Foreign,
    Version(u32),
    Other(Drive),
    Error(io::Error),
}

/// Finds the label: where that of this shape lies, at the start, or at the end of the file.
fn recognise(file: &File, drive: &Drive, len: u64) -> Result<(), Unfit> {
    let mut page = vec![0; LABEL as usize];
    for at in [drive.shape.label_at(), 0, len.saturating_sub(LABEL)] {
        if at + LABEL > len {
            continue;
        }
        file.read_exact_at(&mut page, at).map_err(Unfit::Error)?;
        match read_label(&page) {
            Some((version, found)) if version != found.shape.version() => {
                return Err(Unfit::Version(version));
            }
            Some((_, found)) if drive.is(&found) => return Ok(()),
            Some((_, found)) => return Err(Unfit::Other(found)),
            None => {}
        }
    }
    Err(Unfit::Foreign)
}

/// Writes the label of a store that is new and complete otherwise.
///
/// # Errors
/// The file cannot be written.
pub fn finish_making(shared: &Shared, drive: &Drive) -> io::Result<()> {
    shared.file.sync_all()?;
    shared.file.write_all_at(&label(drive), drive.shape.label_at())?;
    shared.file.sync_all()
}
