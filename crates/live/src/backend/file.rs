//! A medium in a file or block device.
//!
//! The file is locked for exclusive use (`flock`) as long as it is open. With `direct` it bypasses the page cache. Reads
//! that the page cache can serve are served at once, without a thread; everything else goes to [`super::ring`] or to
//! [`super::workers`], as [`super::FileIo`] says. Changes of a leg that moves always go to threads, for they wait for each other.
//!
//! *The only leg* of a stack has its plain writes done by the reactor itself ([`FileBackend::alone`]), which saves two
//! changes of thread: while it sleeps there is nothing else to serve but what other clients find in the cache. A write
//! that took long sends the next ones to the threads. With several legs a leg that stands still may not hold the others.
//!
//! *Durability.* A flush is `fdatasync`; a write with FUA is `RWF_DSYNC`, a trim or write-zeroes with FUA is followed by
//! `fdatasync`. *Zeros.* A trim punches a hole, write-zeroes zeroes the range and keeps its space; where the file system
//! can do neither, zeros are written: what was trimmed always reads as zeros.
//!
//! *Failures.* A failed flush is the end of the device: the kernel may have dropped the dirty pages, and a second flush
//! that succeeds proves nothing. So is a file that was deleted under us (seen at the next flush), and an error that says
//! that the device is gone. Such a device fails everything until it is opened again.

use super::candidate::{Candidate, FileId, Undo, look, look_at_return};
use super::file_io::OpenFile;
use super::ring::{Ring, Task};
use super::twin::Twin;
use super::workers::{Job, Workers};
use super::{BlockBackend, BlockIo, Completions, Done, Failure, LegError, Look, LookJob, Tell};
use nandu_base::{BlockSpec, ByteLen, ByteOffset, Op, ReqId};
use rustix::fs::{FlockOperation, OFlags, fcntl_getfl, fcntl_setfl, flock};
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind as Kind, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Threads for one leaf that uses the page cache: its operations are short and seldom sleep.
const BUFFERED_THREADS: usize = 8;
/// Threads for one leaf that bypasses it: each holds one operation of the device.
const DIRECT_THREADS: usize = 32;

/// A write by the reactor that takes longer than this was no mere copy.
const SLOW: Duration = Duration::from_millis(2);
/// Writes that go to the threads after a slow one.
const DETOUR: u32 = 1024;

/// The medium.
#[derive(Debug)]
pub struct FileBackend {
    node: u32,
    /// Where relative paths start.
    base: PathBuf,
    path: PathBuf,
    /// Which file was open last.
    id: Option<FileId>,
    /// What was looked at and found fit to take its place.
    looked: Arc<Mutex<Option<(PathBuf, Candidate)>>>,
    /// What takes its place when it is opened again.
    next: Option<Next>,
    capacity: ByteLen,
    direct: bool,
    /// `None` after a reopening that failed.
    file: Option<Arc<OpenFile>>,
    workers: Workers,
    completions: Arc<Completions>,
    /// The file to which it moves.
    twin: Option<Arc<Twin>>,
    /// What is under way since it began to move, or since it was opened, holds this.
    token: Arc<()>,
    alone: bool,
    /// Writes that still go to the threads because one was slow.
    detour: u32,
}

/// What takes the place of a file.
#[derive(Debug)]
struct Next {
    path: PathBuf,
    file: Arc<OpenFile>,
    id: FileId,
    undo: Option<Undo>,
}

impl FileBackend {
    /// Opens and locks the file of `spec` for leaf `node`. A relative path starts at `base`.
    ///
    /// # Errors
    /// Why the file cannot be used. [`LegError::missing`] is set when it is not there.
    pub fn open(
        node: u32,
        spec: &BlockSpec,
        base: &Path,
        completions: Arc<Completions>,
    ) -> Result<FileBackend, LegError> {
        let path = base.join(spec.path.as_deref().unwrap_or_default());
        let (file, id) = open(&path, spec.capacity, spec.direct)?;
        let mut backend = FileBackend::absent(node, spec, base, completions);
        (backend.file, backend.id) = (Some(Arc::new(file)), Some(id));
        Ok(backend)
    }

    /// Says that no other leg depends on the reactor being awake.
    pub fn alone(&mut self) {
        self.alone = true;
    }

    /// Serves a plain write here and now, if that is likely to be quick.
    fn write_now(&mut self, io: &BlockIo) -> Option<Result<(), Failure>> {
        if !self.alone || self.detour > 0 {
            self.detour = self.detour.saturating_sub(1);
            return None;
        }
        let start = Instant::now();
        let result = self.file.as_ref()?.write_at_once(io);
        if start.elapsed() > SLOW {
            self.detour = DETOUR;
        }
        result
    }

    /// A leaf whose file is missing; [`BlockBackend::reopen`] may find it later.
    pub fn absent(node: u32, spec: &BlockSpec, base: &Path, completions: Arc<Completions>) -> FileBackend {
        let path = base.join(spec.path.as_deref().unwrap_or_default());
        let threads = if spec.direct { DIRECT_THREADS } else { BUFFERED_THREADS };
        let workers = Workers::new(node, threads, Arc::clone(&completions));
        FileBackend {
            node,
            base: base.into(),
            path,
            id: None,
            looked: Arc::default(),
            next: None,
            capacity: spec.capacity,
            direct: spec.direct,
            file: None,
            workers,
            completions,
            twin: None,
            token: Arc::default(),
            alone: false,
            detour: 0,
        }
    }
}

impl BlockBackend for FileBackend {
    fn submit(&mut self, io: BlockIo, done: &mut Vec<Done>) {
        // Changes of a leg that moves go to two files.
        let is_for_two = self.twin.is_some() && io.op != Op::Read;
        let now = match &self.file {
            None => Some(Err(Failure::gone(io.len))),
            Some(_) if is_for_two => None,
            Some(file) => file.try_at_once(&io),
        };
        let now = now.or_else(|| if is_for_two { None } else { self.write_now(&io) });
        match (now, &self.file) {
            (Some(result), _) => done.push(Done { node: self.node, id: io.id, result }),
            (None, Some(file)) => {
                let (file, token) = (Arc::clone(file), Arc::clone(&self.token));
                match self.completions.ring_for(&io) {
                    Some(ring) if !is_for_two => ring.stage(Task::new(self.node, io, file, token)),
                    _ => self.workers.stage(Job { io, file, twin: self.twin.clone(), _token: token }),
                }
            }
            (None, None) => unreachable!("a leaf without a file answers at once"),
        }
    }

    fn kick(&mut self) {
        self.workers.kick();
        if self.completions.ring().is_some_and(Ring::submit) {
            self.completions.wake();
        }
    }

    fn sync_now(&mut self) -> Result<(), i32> {
        let Some(file) = &self.file else { return Ok(()) };
        let (id, offset, len) = (ReqId::NONE, ByteOffset::ZERO, ByteLen::ZERO);
        let flush = BlockIo { id, op: Op::Flush, fua: false, offset, len, data: None };
        file.perform(&flush).map_err(|failure| failure.errno)
    }

    fn give_up(&mut self) {
        if let Some(file) = &self.file {
            file.give_up();
        }
    }

    fn holes(&self, offset: ByteOffset, len: ByteLen, push: &mut dyn FnMut(ByteLen, bool) -> bool) {
        match &self.file {
            Some(file) => file.holes(offset, len, push),
            None => drop(push(len, false)),
        }
    }

    fn length(&self) -> Option<ByteLen> {
        self.file.as_ref()?.length()
    }

    fn lengthen(&mut self, capacity: ByteLen) {
        self.capacity = capacity;
    }

    fn path(&self) -> Option<PathBuf> {
        Some(self.path.clone())
    }

    fn file_id(&self) -> Option<FileId> {
        self.file.as_ref().and(self.id)
    }

    fn id_of(&self, path: &Path) -> Option<FileId> {
        FileId::of(&self.base.join(path))
    }

    fn look_at(&self, why: &Look) -> Option<LookJob> {
        let (capacity, looked) = (self.capacity, Arc::clone(&self.looked));
        match why {
            Look::Replacement(with) => {
                let path = self.path_of(with.as_deref());
                let is_open = self.is_open_here(&path);
                Some(Box::new(move |stop| {
                    let candidate = look(&path, capacity, is_open, stop)?;
                    *looked.lock().unwrap_or_else(PoisonError::into_inner) = Some((path, candidate));
                    Ok(())
                }))
            }
            Look::Return => {
                let path = self.path.clone();
                let found = FileId::of(&path).filter(|found| self.id != Some(*found))?;
                let same = move |path: &Path| FileId::of(path) == Some(found);
                Some(Box::new(move |stop| match same(&path) {
                    true => look_at_return(&path, capacity, stop),
                    false => Ok(()), // gone again: opening it says so
                }))
            }
        }
    }

    fn prepare(&mut self, with: Option<&Path>) -> Result<(), LegError> {
        let path = self.path_of(with);
        let looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner).take();
        let candidate = match looked {
            Some((of, candidate)) if of == path => candidate,
            _ => look(&path, self.capacity, self.is_open_here(&path), &AtomicBool::new(false))?,
        };
        if with.is_none() {
            return self.must_be_there(&candidate);
        }
        let (file, undo) = candidate.make(self.capacity)?;
        let unusable = |error| cannot_open(&path, &error, self.direct);
        let id = FileId::from_metadata(&file.metadata().map_err(unusable)?);
        if self.direct {
            let flags = fcntl_getfl(&file).and_then(|flags| fcntl_setfl(&file, flags | OFlags::DIRECT));
            flags.map_err(|error| unusable(error.into()))?;
        }
        let file = Arc::new(OpenFile::new(file.into(), self.direct));
        self.next = Some(Next { path, file, id, undo });
        Ok(())
    }

    fn begin_move(&mut self, rate: Arc<AtomicU64>, told: Tell) -> Result<(), String> {
        let (Some(next), Some(old)) = (self.next.take(), self.file.clone()) else {
            return Err("it is not open".into());
        };
        let Next { path, file, id, undo } = next;
        undo.into_iter().for_each(Undo::keep);
        let twin = Arc::new(Twin::new(file, path, id, self.capacity));
        let before = std::mem::take(&mut self.token);
        self.twin = Some(Arc::clone(&twin));
        let thread = std::thread::Builder::new().name("nandu-move".into());
        let begun = thread.spawn(move || {
            let result = twin.fill(&old, &before, &rate);
            // The old file is free before anybody hears of it.
            drop((twin, old));
            told(result);
        });
        begun.map(drop).map_err(|error| {
            self.stop_move();
            error.to_string()
        })
    }

    fn end_move(&mut self, told: Tell) -> Result<(), String> {
        let (Some(twin), Some(old)) = (self.twin.take(), self.file.clone()) else {
            return Err("it is not open".into());
        };
        twin.take_place()?;
        self.file = Some(Arc::clone(&twin.file));
        let path = std::mem::replace(&mut self.path, twin.path.clone());
        let (id, capacity) = (self.id.replace(twin.id), self.capacity);
        let thread = std::thread::Builder::new().name("nandu-wipe".into());
        let (told, old) = (Arc::new(Mutex::new(Some(told))), old);
        let of_thread = Arc::clone(&told);
        let tell = |told: &Mutex<Option<Tell>>, result| {
            if let Some(told) = told.lock().unwrap_or_else(PoisonError::into_inner).take() {
                told(result);
            }
        };
        let begun = thread.spawn(move || tell(&of_thread, super::twin::wipe(&old, &path, id, capacity)));
        if let Err(error) = begun {
            tell(&told, Err(error.to_string()));
        }
        Ok(())
    }

    fn stop_move(&mut self) {
        if let Some(twin) = self.twin.take() {
            twin.fail("it was called off".into());
        }
    }

    fn moving(&self) -> Option<ByteLen> {
        self.twin.as_ref().map(|twin| twin.left())
    }

    fn forget_prepared(&mut self) {
        self.next = None;
        self.looked.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    fn reopen(&mut self) -> Result<(), LegError> {
        if let Some(Next { path, file, id, undo }) = self.next.take() {
            undo.into_iter().for_each(Undo::keep);
            (self.path, self.file, self.id) = (path, Some(file), Some(id));
            return Ok(());
        }
        self.file = None; // its lock must go before the next one is taken
        let (file, id) = open(&self.path, self.capacity, self.direct)?;
        (self.file, self.id) = (Some(Arc::new(file)), Some(id));
        Ok(())
    }
}

impl Drop for FileBackend {
    fn drop(&mut self) {
        self.stop_move();
    }
}

impl FileBackend {
    /// Where a replacement lies.
    fn path_of(&self, with: Option<&Path>) -> PathBuf {
        with.map_or_else(|| self.path.clone(), |with| self.base.join(with))
    }

    fn is_open_here(&self, path: &Path) -> bool {
        self.file_id().is_some() && FileId::of(path) == self.file_id()
    }

    /// What lies in the leg's own place is not made or lengthened: without it there is nothing to replace the leg by.
    fn must_be_there(&self, candidate: &Candidate) -> Result<(), LegError> {
        let why = match candidate.exists() {
            true if candidate.len() >= self.capacity.0 => return Ok(()),
            true => format!("it has {} bytes, but the leaf has {}", candidate.len(), self.capacity.0),
            false => "it is not there".into(),
        };
        let remedy = "put a blank file of that size there, or name one: `replace LEG with FILE`";
        Err(LegError { path: self.path.display().to_string(), why, remedy, missing: false })
    }
}

/// Opens and locks a file that is there and long enough.
fn open(path: &Path, capacity: ByteLen, direct: bool) -> Result<(OpenFile, FileId), LegError> {
    let flags = if direct { OFlags::DIRECT } else { OFlags::empty() };
    let mut options = OpenOptions::new();
    options.read(true).write(true).custom_flags(flags.bits() as i32);
    let mut file = options.open(path).map_err(|error| cannot_open(path, &error, direct))?;
    let fail =
        |why: String, remedy| LegError { path: path.display().to_string(), why, remedy, missing: false };
    lock(&file, path)?;
    let unusable = |error: std::io::Error| fail(error.to_string(), "use a regular file or a block device");
    let size = file.seek(SeekFrom::End(0)).map_err(unusable)?;
    if size < capacity.0 {
        return Err(LegError {
            path: path.display().to_string(),
            why: format!("it has {size} bytes, but the leaf has {}", capacity.0),
            remedy: "correct `size`, or start with --create to make the file longer",
            missing: true,
        });
    }
    let id = FileId::from_metadata(&file.metadata().map_err(unusable)?);
    Ok((OpenFile::new(file.into(), direct), id))
}

/// How long the lock of a process that was killed is waited for. Calls of its io_uring that are under way hold the file until they have ended, and
/// nobody else may use it before that: they may still write to it.
const LEFT_OVER: Duration = Duration::from_secs(2);
/// How long is waited before the lock is tried again.
const TRY_AGAIN: Duration = Duration::from_millis(5);

/// Locks a file for exclusive use, as long as it is open. Waits a moment for who has it.
///
/// # Errors
/// Another process keeps it, or its file system has no locks.
pub(crate) fn lock(file: &File, path: &Path) -> Result<(), LegError> {
    let begun = Instant::now();
    let locked = loop {
        match flock(file, FlockOperation::NonBlockingLockExclusive) {
            Err(rustix::io::Errno::WOULDBLOCK) if begun.elapsed() < LEFT_OVER => {
                std::thread::sleep(TRY_AGAIN)
            }
            locked => break locked,
        }
    };
    let (why, remedy) = match locked {
        Ok(()) => return Ok(()),
        Err(rustix::io::Errno::WOULDBLOCK) => (
            "another process has locked it".into(),
            "stop that process, or give each server files of its own",
        ),
        Err(error) => (format!("it cannot be locked: {error}"), "use a file system with file locks"),
    };
    Err(LegError { path: path.display().to_string(), why, remedy, missing: false })
}

/// Gives the lock back, whoever else has the file from us: a child process that has just begun has all of them.
pub(crate) fn unlock(file: &File) {
    let _ = flock(file, FlockOperation::Unlock); // closing it does that too
}

/// Makes the name of a new file durable: no sync of the file itself does that.
///
/// # Errors
/// Its folder cannot be opened or synced.
pub(crate) fn sync_name(path: &Path) -> std::io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

/// Why a new file cannot be made.
pub(super) fn cannot_make(path: &Path, error: &std::io::Error) -> LegError {
    let remedy = match error.kind() {
        Kind::NotFound => "make its directory first",
        Kind::PermissionDenied => "give this user the right to make files there",
        Kind::AlreadyExists => "another process created the file; inspect it, then retry",
        _ => "make room on its file system",
    };
    LegError { path: path.display().to_string(), why: error.to_string(), remedy, missing: false }
}

pub(super) fn cannot_open(path: &Path, error: &std::io::Error, direct: bool) -> LegError {
    let no_device = [rustix::io::Errno::NXIO, rustix::io::Errno::NODEV, rustix::io::Errno::IO];
    let missing = error.kind() == Kind::NotFound
        || error.raw_os_error().is_some_and(|n| no_device.iter().any(|e| e.raw_os_error() == n));
    let remedy = match error.kind() {
        _ if missing => "bring it back, or start with --create to make it",
        Kind::PermissionDenied => "give this user the right to read and write it",
        Kind::InvalidInput if direct => "its file system has no direct I/O: set `direct = false`",
        _ => "use a regular file or a block device",
    };
    LegError { path: path.display().to_string(), why: error.to_string(), remedy, missing }
}
