//! A medium in a file or block device.
//!
//! The file is locked for exclusive use (`flock`) as long as it is open. With `direct` it bypasses the page cache. Reads
//! that the page cache can serve are served at once, without a thread; everything else goes to [`super::workers`].
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

use super::file_io::OpenFile;
use super::workers::{Job, Workers};
use super::{BlockBackend, BlockIo, Completions, Done, Failure, LegError};
use nandu_base::{BlockSpec, ByteLen};
use rustix::fs::{flock, FlockOperation, OFlags};
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind as Kind, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::Arc;
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
    /// What takes its place when it is opened again.
    next: Option<(PathBuf, Arc<OpenFile>)>,
    capacity: ByteLen,
    direct: bool,
    /// `None` after a reopening that failed.
    file: Option<Arc<OpenFile>>,
    workers: Workers,
    alone: bool,
    /// Writes that still go to the threads because one was slow.
    detour: u32,
}

impl FileBackend {
    /// Opens and locks the file of `spec` for leaf `node`. A relative path starts at `base`. With `create` a file that is
    /// missing or too short is made, sparse, of the size of the leaf.
    ///
    /// # Errors
    /// Why the file cannot be used. [`LegError::missing`] is set when it is not there.
    pub fn open(
        node: u32,
        spec: &BlockSpec,
        base: &Path,
        create: bool,
        completions: Arc<Completions>,
    ) -> Result<FileBackend, LegError> {
        let path = base.join(spec.path.as_deref().unwrap_or_default());
        let file = open(&path, spec.capacity, spec.direct, create)?;
        let threads = if spec.direct { DIRECT_THREADS } else { BUFFERED_THREADS };
        Ok(FileBackend {
            node,
            base: base.into(),
            path,
            next: None,
            capacity: spec.capacity,
            direct: spec.direct,
            file: Some(Arc::new(file)),
            workers: Workers::new(node, threads, completions),
            alone: false,
            detour: 0,
        })
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
        let workers = Workers::new(node, threads, completions);
        FileBackend {
            node,
            base: base.into(),
            path,
            next: None,
            capacity: spec.capacity,
            direct: spec.direct,
            file: None,
            workers,
            alone: false,
            detour: 0,
        }
    }
}

impl BlockBackend for FileBackend {
    fn submit(&mut self, io: BlockIo, done: &mut Vec<Done>) {
        let now = match &self.file {
            None => Some(Err(Failure::gone(io.len))),
            Some(file) => file.try_at_once(&io),
        };
        let now = now.or_else(|| self.write_now(&io));
        match (now, &self.file) {
            (Some(result), _) => done.push(Done { node: self.node, id: io.id, result }),
            (None, Some(file)) => self.workers.stage(Job { io, file: Arc::clone(file) }),
            (None, None) => unreachable!("a leaf without a file answers at once"),
        }
    }

    fn kick(&mut self) {
        self.workers.kick();
    }

    fn give_up(&mut self) {
        if let Some(file) = &self.file {
            file.given_up.store(true, Ordering::Release);
        }
    }

    fn prepare(&mut self, with: Option<&Path>) -> Result<(), LegError> {
        if let Some(path) = with {
            let path = self.base.join(path);
            let file = open(&path, self.capacity, self.direct, true)?;
            self.next = Some((path, Arc::new(file)));
        }
        Ok(())
    }

    fn forget_prepared(&mut self) {
        self.next = None;
    }

    fn reopen(&mut self) -> Result<(), LegError> {
        if let Some((path, file)) = self.next.take() {
            (self.path, self.file) = (path, Some(file));
            return Ok(());
        }
        self.file = None; // its lock must go before the next one is taken
        self.file = Some(Arc::new(open(&self.path, self.capacity, self.direct, false)?));
        Ok(())
    }
}

fn open(path: &Path, capacity: ByteLen, direct: bool, create: bool) -> Result<OpenFile, LegError> {
    let flags = if direct { OFlags::DIRECT } else { OFlags::empty() };
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(create).custom_flags(flags.bits() as i32);
    let mut file = options.open(path).map_err(|error| cannot_open(path, &error, direct))?;
    let fail =
        |why: String, remedy| LegError { path: path.display().to_string(), why, remedy, missing: false };
    lock(&file, path)?;
    let unusable = |error: std::io::Error| fail(error.to_string(), "use a regular file or a block device");
    let size = file.seek(SeekFrom::End(0)).map_err(unusable)?;
    if size < capacity.0 && create {
        grow(&file, capacity).map_err(|error| fail(error.to_string(), "make room on its file system"))?;
    } else if size < capacity.0 {
        let why = format!("it has {size} bytes, but the leaf has {}", capacity.0);
        return Err(fail(why, "correct `size`, or start with --create to make the file longer"));
    }
    Ok(OpenFile::new(file.into(), direct))
}

/// Locks a file for exclusive use, as long as it is open.
///
/// # Errors
/// Another process has it, or its file system has no locks.
pub(crate) fn lock(file: &File, path: &Path) -> Result<(), LegError> {
    let (why, remedy) = match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => return Ok(()),
        Err(rustix::io::Errno::WOULDBLOCK) => (
            "another process has locked it".into(),
            "stop that process, or give each server files of its own",
        ),
        Err(error) => (format!("it cannot be locked: {error}"), "use a file system with file locks"),
    };
    Err(LegError { path: path.display().to_string(), why, remedy, missing: false })
}

/// The new length is made durable, so that a power cut does not shorten a file that holds data.
fn grow(file: &File, capacity: ByteLen) -> std::io::Result<()> {
    file.set_len(capacity.0)?;
    file.sync_all()
}

fn cannot_open(path: &Path, error: &std::io::Error, direct: bool) -> LegError {
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
