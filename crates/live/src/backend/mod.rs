//! What does the real input and output of a leaf.
//!
//! A leaf of the stack hands a request to its medium; the reactor makes a [`BlockIo`] of it and gives it to the leaf's
//! [`BlockBackend`]. The backend ends it exactly once, with a [`Done`]: at once, or later from another thread. The
//! data is a [`ByteRegion`], the request's own buffer, so nothing is copied on the way.
//!
//! Two backends exist: [`mod@memory`] and [`mod@file`]. Operations of files that may sleep are done by io_uring, in one ring for all of them, or by
//! threads of each ([`workers`]): see [`FileIo`].

pub mod candidate;
pub mod file;
mod file_io;
pub mod memory;
mod ring;
mod syncs;
mod twin;
pub mod workers;

use candidate::FileId;
use nandu_base::bytebuf::ByteRegion;
use nandu_base::{ByteLen, ByteOffset, ErrorKind, IoError, Op, ReqId};
use ring::Ring;
use rustix::event::{EventfdFlags, eventfd};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, MutexGuard};

/// One request to a medium.
#[derive(Debug)]
pub struct BlockIo {
    /// The request of the graph, for the answer.
    pub id: ReqId,
    /// What to do.
    pub op: Op,
    /// The effect must be durable before the end.
    pub fua: bool,
    /// First byte.
    pub offset: ByteOffset,
    /// Bytes; zero for a flush.
    pub len: ByteLen,
    /// The data of a read or write. A write without data stores zeros.
    pub data: Option<ByteRegion>,
}

/// The end of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Done {
    /// The leaf.
    pub node: u32,
    /// Which request.
    pub id: ReqId,
    /// How it ended.
    pub result: Result<(), Failure>,
}

/// Why a request failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Failure {
    /// What the layers above hear.
    pub error: IoError,
    /// The device as a whole has failed: it is gone, or a flush failed and nobody can say what it holds.
    pub device: bool,
    /// The `errno` of the operating system; 0 when it was not asked.
    pub errno: i32,
}

impl Failure {
    /// The whole request failed because its device is not there.
    pub fn gone(len: ByteLen) -> Failure {
        Failure { error: IoError { kind: ErrorKind::Gone, at: ByteLen::ZERO, len }, device: false, errno: 0 }
    }
}

/// Why a file is looked at before it is opened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Look {
    /// It is to take the place of a leg: the file named, or what lies in the leg's own place.
    Replacement(Option<PathBuf>),
    /// It lies where the leg was, and is to be taken back by a device that fills what is blank.
    Return,
}

/// Looks at a file, however long that takes, unless the flag is set meanwhile.
pub type LookJob = Box<dyn FnOnce(&AtomicBool) -> Result<(), LegError> + Send>;

/// Hears how something on another thread went.
pub type Tell = Box<dyn FnOnce(Result<(), String>) + Send>;

/// The medium of one leaf. Used by the reactor alone.
pub trait BlockBackend: Send {
    /// Begins `io`. It ends by an entry in `done`, or later by one in [`Completions`].
    fn submit(&mut self, io: BlockIo, done: &mut Vec<Done>);

    /// The reactor has nothing more to submit for now.
    fn kick(&mut self) {}

    /// The errno of a failure after which nothing is believed, where requests do not pass through here: an emulated drive's.
    fn failure(&self) -> Option<i32> {
        None
    }

    /// Whether a flush of an emulated drive has nothing to wait for.
    fn is_durable_at_once(&self) -> bool {
        false
    }

    /// Makes durable what was written, and waits for that: nothing is under way.
    ///
    /// # Errors
    /// The errno.
    fn sync_now(&mut self) -> Result<(), i32> {
        Ok(())
    }

    /// Gives the device up: what has not begun fails with [`ErrorKind::Gone`], and so does all that comes later. What
    /// has begun cannot be stopped; it ends by itself.
    fn give_up(&mut self);

    /// Tells `push` the lengths of the parts of an extent, from its start on, and whether each is a hole that reads as zeros. It
    /// ends early when `push` says false. What is not known is no hole.
    fn holes(&self, _offset: ByteOffset, len: ByteLen, push: &mut dyn FnMut(ByteLen, bool) -> bool) {
        push(len, false);
    }

    /// How long the file or device is that it has open; it may be longer than what is used of it.
    fn length(&self) -> Option<ByteLen> {
        None
    }

    /// So much of it is used from now on.
    fn lengthen(&mut self, _capacity: ByteLen) {}

    /// Where the file lies that it has open.
    fn path(&self) -> Option<PathBuf> {
        None
    }

    /// Which file it has open.
    fn file_id(&self) -> Option<FileId> {
        None
    }

    /// Which file `path` names, as this leg understands it. `None`: there is none.
    fn id_of(&self, _path: &Path) -> Option<FileId> {
        None
    }

    /// What must be done, on another thread, before [`BlockBackend::prepare`] or [`BlockBackend::reopen`]. `None`: nothing.
    fn look_at(&self, _why: &Look) -> Option<LookJob> {
        None
    }

    /// The next [`BlockBackend::reopen`] takes what is in place of the device: another file, or a blank one where the old
    /// one was. Nothing changes before, but that a file which is missing or short is made.
    ///
    /// # Errors
    /// Why it cannot be used.
    fn prepare(&mut self, with: Option<&Path>) -> Result<(), LegError>;

    /// What was prepared becomes a copy of the device while that serves, on another thread, which copies at most `rate` bytes a second (0: as
    /// many as it can); `told` hears when it is one, or why not.
    ///
    /// # Errors
    /// It does not begin.
    fn begin_move(&mut self, _rate: Arc<AtomicU64>, _told: Tell) -> Result<(), String> {
        Err("it is not a file".into())
    }

    /// The copy takes the place of the device from now on. On another thread the records of the old one are taken off it; `told` hears of that.
    ///
    /// # Errors
    /// It is no copy any more: the device stays.
    fn end_move(&mut self, _told: Tell) -> Result<(), String> {
        Err("it does not move".into())
    }

    /// The device stays.
    fn stop_move(&mut self) {}

    /// Bytes that are not copied yet, while the device moves.
    fn moving(&self) -> Option<ByteLen> {
        None
    }

    /// Forgets what was prepared, and undoes it.
    fn forget_prepared(&mut self);

    /// Opens the device again after [`BlockBackend::give_up`]. Called when nothing is in flight any more.
    ///
    /// # Errors
    /// Why it cannot be opened. The device stays given up.
    fn reopen(&mut self) -> Result<(), LegError>;
}

/// Why the file behind a leaf cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{path}: {why}; {remedy}")]
pub struct LegError {
    /// The file.
    pub path: String,
    /// What was found.
    pub why: String,
    /// What would help.
    pub remedy: &'static str,
    /// The device is simply not there, or too short: a mirror may do without it.
    pub missing: bool,
}

/// Who does the operations of files that may sleep.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum FileIo {
    /// What was measured to be quicker: the kernel through io_uring, where it lets us, but for writes where there are several processors: those are done
    /// by threads of this process.
    #[default]
    Auto,
    /// The kernel, through io_uring.
    Uring,
    /// Threads of this process.
    Threads,
}

/// Where the ends of requests come from, whoever did them. The reactor waits for its [`Completions::fd`].
#[derive(Debug)]
pub struct Completions {
    done: Mutex<Vec<Done>>,
    /// Declared before `wake`, which it writes to.
    ring: Option<Ring>,
    /// What is written goes there too.
    ring_writes: bool,
    wake: OwnedFd,
}

impl Completions {
    /// An empty list.
    ///
    /// # Errors
    /// The process has no file descriptor left.
    pub fn new() -> std::io::Result<Completions> {
        let wake = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        Ok(Completions { done: Mutex::new(Vec::new()), ring: None, ring_writes: false, wake })
    }

    /// Files use io_uring from here on, as far as `file_io` says on a machine with several processors or with one.
    ///
    /// # Errors
    /// The kernel has none that will do, or not for this process: nothing has changed.
    pub fn use_ring(&mut self, file_io: FileIo, has_one_processor: bool) -> std::io::Result<()> {
        if file_io != FileIo::Threads {
            self.ring = Some(Ring::new(self.wake.as_fd())?);
            // With one processor a thread that writes takes turns with the reactor.
            self.ring_writes = file_io == FileIo::Uring || has_one_processor;
        }
        Ok(())
    }

    fn ring(&self) -> Option<&Ring> {
        self.ring.as_ref()
    }

    /// The ring, if it does such a request.
    fn ring_for(&self, io: &BlockIo) -> Option<&Ring> {
        let is_write = io.op == Op::Write && io.data.is_some();
        self.ring.as_ref().filter(|_| self.ring_writes || !is_write)
    }

    /// Becomes readable when there is something to take.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    fn list(&self) -> MutexGuard<'_, Vec<Done>> {
        self.done.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Moves ends here and wakes the reactor unless it was woken already.
    pub fn push(&self, ends: &mut Vec<Done>) {
        if ends.is_empty() {
            return;
        }
        let mut list = self.list();
        let first = list.is_empty();
        list.append(ends);
        drop(list);
        if first {
            self.wake();
        }
    }

    /// Wakes the reactor.
    pub fn wake(&self) {
        // The counter of an eventfd overflows after 2^64 - 2 wakes that nobody read: it cannot fail otherwise.
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }

    /// Moves everything to the end of `into`, in the order in which it ended.
    pub fn take(&self, into: &mut Vec<Done>) {
        let mut counter = [0; 8];
        let _ = rustix::io::read(&self.wake, &mut counter); // nothing to read means nobody woke us
        into.append(&mut self.list());
        if let Some(ring) = &self.ring {
            ring.take(into);
        }
    }
}
