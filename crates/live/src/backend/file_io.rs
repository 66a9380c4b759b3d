//! The operations on an open file, from whatever thread.

use super::syncs::Syncs;
use super::{BlockIo, Failure};
use nandu_base::bytebuf::ByteBuf;
use nandu_base::{ByteLen, ByteOffset, ErrorKind, IoError, Op};
use rustix::fs::{
    FallocateFlags, FileType, FlockOperation, SeekFrom, fallocate, fdatasync, flock, fstat, ftruncate, seek,
};
use rustix::io::{Errno, ReadWriteFlags, preadv2, pwrite, pwritev2};
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// Longest operation that is tried without a thread: copying it takes a few tens of microseconds.
const AT_ONCE_MAX: u64 = 256 << 10;
/// Zeros written by one call where the file system cannot make them itself.
const ZEROS: usize = 1 << 20;

/// A file that is open, and whether it is still trusted.
#[derive(Debug)]
pub(super) struct OpenFile {
    fd: OwnedFd,
    direct: bool,
    /// Everything that has not begun fails.
    given_up: AtomicBool,
    /// The file system writes to its cache without sleeping, as far as is known.
    nowait_writes: AtomicBool,
    pub syncs: Syncs,
}

/// What an errno means depends on what was tried.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Tried {
    Read,
    Write,
    Sync,
}

impl OpenFile {
    pub fn new(fd: OwnedFd, direct: bool) -> OpenFile {
        OpenFile {
            fd,
            direct,
            given_up: AtomicBool::new(false),
            nowait_writes: AtomicBool::new(!direct),
            syncs: Syncs::default(),
        }
    }

    /// Reads all of `into`, which is a part of the file.
    pub fn read_at(&self, at: u64, into: &mut [u8]) -> std::io::Result<()> {
        let mut done = 0;
        while done < into.len() {
            match rustix::io::pread(&self.fd, &mut into[done..], at + done as u64) {
                Ok(0) => return Err(std::io::ErrorKind::UnexpectedEof.into()),
                Ok(n) => done += n,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }

    /// Writes all of `from`.
    pub fn write_at(&self, at: u64, from: &[u8]) -> std::io::Result<()> {
        let mut done = 0;
        while done < from.len() {
            match pwrite(&self.fd, &from[done..], at + done as u64) {
                Ok(0) => return Err(std::io::ErrorKind::WriteZero.into()),
                Ok(n) => done += n,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }

    /// A regular file holds nothing but zeros from here on, and is as long as it was.
    pub fn empty(&self) -> std::io::Result<()> {
        let stat = fstat(&self.fd)?;
        if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile {
            ftruncate(&self.fd, 0)?;
            ftruncate(&self.fd, stat.st_size as u64)?;
        }
        Ok(())
    }

    pub fn is_given_up(&self) -> bool {
        self.given_up.load(Ordering::Acquire)
    }

    /// Fails what has not begun, and all that comes later.
    pub fn give_up(&self) {
        self.given_up.store(true, Ordering::Release);
    }

    /// Serves a plain write to the page cache, which may sleep after all.
    pub fn write_at_once(&self, io: &BlockIo) -> Option<Result<(), Failure>> {
        self.is_short(io).then(|| self.perform(io))
    }

    /// Whether the request only copies into the page cache, as far as one can know.
    pub fn is_short(&self, io: &BlockIo) -> bool {
        io.op == Op::Write && !io.fua && !self.direct && io.len.0 <= AT_ONCE_MAX
    }

    /// Serves a short request that needs no sleep. `None`: a thread has to do it.
    pub fn try_at_once(&self, io: &BlockIo) -> Option<Result<(), Failure>> {
        if self.is_given_up() {
            return Some(Err(Failure::gone(io.len)));
        }
        let region = io.data.as_ref().filter(|region| region.len() as u64 <= AT_ONCE_MAX)?;
        let served = match io.op {
            Op::Read if !self.direct => {
                // SAFETY: the leaf that serves a read is the one writer of its payload until the request ends.
                let into = unsafe { region.as_mut_slice() };
                preadv2(&self.fd, &mut [IoSliceMut::new(into)], io.offset.0, ReadWriteFlags::NOWAIT)
            }
            Op::Write if !io.fua && self.nowait_writes.load(Ordering::Relaxed) => {
                // SAFETY: the payload of a write is complete before it is sent, and does not change on its way.
                let from = unsafe { region.as_slice() };
                let wrote = pwritev2(&self.fd, &[IoSlice::new(from)], io.offset.0, ReadWriteFlags::NOWAIT);
                if matches!(wrote, Err(Errno::OPNOTSUPP | Errno::INVAL)) {
                    self.nowait_writes.store(false, Ordering::Relaxed);
                }
                wrote
            }
            _ => return None,
        };
        // A part, or an error, is left to the thread: it does all of it again and finds out why.
        (served == Ok(region.len())).then_some(Ok(()))
    }

    /// How long it is now. `None`: it has failed, or cannot be asked.
    pub fn length(&self) -> Option<ByteLen> {
        let end = (!self.is_given_up()).then(|| seek(&self.fd, SeekFrom::End(0)));
        end?.ok().map(ByteLen)
    }

    /// The holes of an extent, by the file system's own account (`SEEK_DATA`, `SEEK_HOLE`). A file system that has none, and a
    /// block device, say that everything is data.
    pub fn holes(&self, offset: ByteOffset, len: ByteLen, push: &mut dyn FnMut(ByteLen, bool) -> bool) {
        let end = offset.0 + len.0;
        let mut at = offset.0;
        while at < end {
            let data = match seek(&self.fd, SeekFrom::Data(at)) {
                Ok(data) => data.clamp(at, end),
                Err(Errno::NXIO) => end, // nothing but a hole up to the end of the file
                Err(_) => at,
            };
            if data > at && !push(ByteLen(data - at), true) {
                return;
            }
            if data == end {
                return;
            }
            let hole = match seek(&self.fd, SeekFrom::Hole(data)) {
                Ok(hole) if hole > data => hole.min(end),
                _ => end,
            };
            if !push(ByteLen(hole - data), false) {
                return;
            }
            at = hole;
        }
    }

    /// Serves a request, however long that takes.
    ///
    /// # Errors
    /// What the layers above should hear. A device that has failed as a whole is given up here, before anybody hears.
    pub fn perform(&self, io: &BlockIo) -> Result<(), Failure> {
        if self.is_given_up() {
            return Err(Failure::gone(io.len));
        }
        let result = match (io.op, &io.data) {
            (Op::Read, Some(region)) => {
                // SAFETY: the leaf that serves a read is the one writer of its payload until the request ends.
                self.read(io, unsafe { region.as_mut_slice() })
            }
            (Op::Write, Some(region)) => {
                // SAFETY: the payload of a write is complete before it is sent, and does not change on its way.
                let from = unsafe { region.as_slice() };
                match io.fua {
                    true => self.in_sync(io, || self.write(io, from)),
                    false => self.write(io, from),
                }
            }
            (Op::Read, None) => Ok(()),
            (Op::Write | Op::WriteZeroes, _) => self.clear(io, FallocateFlags::ZERO_RANGE),
            (Op::Trim, _) => self.clear(io, FallocateFlags::PUNCH_HOLE),
            (Op::Flush, _) => self.sync(io),
            (Op::Reset, _) => Err(unsupported(io)),
        };
        if matches!(result, Err(failure) if failure.device) {
            self.give_up();
        }
        result
    }

    fn read(&self, io: &BlockIo, into: &mut [u8]) -> Result<(), Failure> {
        let mut at = 0;
        while at < into.len() {
            let flags = ReadWriteFlags::empty();
            match preadv2(&self.fd, &mut [IoSliceMut::new(&mut into[at..])], io.offset.0 + at as u64, flags) {
                Ok(0) => return Err(failure(io, at, Errno::IO, Tried::Read)), // the file became shorter
                Ok(n) => at += n,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(failure(io, at, errno, Tried::Read)),
            }
        }
        Ok(())
    }

    fn write(&self, io: &BlockIo, from: &[u8]) -> Result<(), Failure> {
        let flags = if io.fua { ReadWriteFlags::DSYNC } else { ReadWriteFlags::empty() };
        let mut at = 0;
        while at < from.len() {
            match pwritev2(&self.fd, &[IoSlice::new(&from[at..])], io.offset.0 + at as u64, flags) {
                Ok(0) => return Err(failure(io, at, Errno::NOSPC, Tried::Write)),
                Ok(n) => at += n,
                Err(Errno::INTR) => {}
                // Whether writing or syncing failed is not told: with FUA the worse is assumed.
                Err(errno) if io.fua => return Err(failure(io, at, errno, Tried::Sync)),
                Err(errno) => return Err(failure(io, at, errno, Tried::Write)),
            }
        }
        Ok(())
    }

    fn sync(&self, io: &BlockIo) -> Result<(), Failure> {
        let deleted = fstat(&self.fd).map_or(true, |stat| stat.st_nlink == 0);
        if deleted {
            return Err(failure(io, 0, Errno::NODEV, Tried::Sync));
        }
        self.in_sync(io, || {
            loop {
                match fdatasync(&self.fd) {
                    Ok(()) => return Ok(()),
                    Err(Errno::INTR) => {}
                    Err(errno) => return Err(failure(io, 0, errno, Tried::Sync)),
                }
            }
        })
    }

    /// Runs what makes something durable; it fails when another one beside it does.
    fn in_sync(&self, io: &BlockIo, sync: impl FnOnce() -> Result<(), Failure>) -> Result<(), Failure> {
        match self.syncs.run(sync)? {
            true => Ok(()),
            false => Err(failure(io, 0, Errno::IO, Tried::Sync)),
        }
    }

    /// Makes the extent read as zeros: as asked for, or by a hole, or by writing them.
    fn clear(&self, io: &BlockIo, first: FallocateFlags) -> Result<(), Failure> {
        let ways: &[FallocateFlags] = match first {
            FallocateFlags::PUNCH_HOLE => &[FallocateFlags::PUNCH_HOLE],
            _ => &[FallocateFlags::ZERO_RANGE, FallocateFlags::PUNCH_HOLE],
        };
        let mut errno = Errno::OPNOTSUPP;
        for &way in ways {
            errno = loop {
                match fallocate(&self.fd, way | FallocateFlags::KEEP_SIZE, io.offset.0, io.len.0) {
                    Ok(()) => return if io.fua { self.sync(io) } else { Ok(()) },
                    Err(Errno::INTR) => {}
                    Err(errno) => break errno,
                }
            };
            if !matches!(errno, Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) {
                break;
            }
        }
        match errno {
            Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL => self.write_zeros(io),
            errno => Err(failure(io, 0, errno, Tried::Write)),
        }
    }

    fn write_zeros(&self, io: &BlockIo) -> Result<(), Failure> {
        static BUFFER: OnceLock<ByteBuf> = OnceLock::new();
        let buffer = BUFFER.get_or_init(|| ByteBuf::zeroed(ZEROS));
        // SAFETY: nobody ever writes to this buffer.
        let zeros = unsafe { buffer.slice(0, ZEROS) };
        let mut at = 0;
        while at < io.len.0 {
            let count = (io.len.0 - at).min(ZEROS as u64) as usize;
            match pwrite(&self.fd, &zeros[..count], io.offset.0 + at) {
                Ok(0) => return Err(failure(io, at as usize, Errno::NOSPC, Tried::Write)),
                Ok(n) => at += n as u64,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(failure(io, at as usize, errno, Tried::Write)),
            }
        }
        if io.fua { self.sync(io) } else { Ok(()) }
    }
}

impl AsFd for OpenFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        // A child process that has just begun has the file too, and with it the lock, until it is what it was started to be.
        let _ = flock(&self.fd, FlockOperation::Unlock); // closing it does that too
    }
}

/// A file knows no such request.
pub(super) fn unsupported(io: &BlockIo) -> Failure {
    let error = IoError { kind: ErrorKind::Unsupported, at: ByteLen::ZERO, len: io.len };
    Failure { error, device: false, errno: 0 }
}

/// What `errno` after `at` bytes means to the layers above.
pub(super) fn failure(io: &BlockIo, at: usize, errno: Errno, tried: Tried) -> Failure {
    let gone = matches!(errno, Errno::NXIO | Errno::NODEV | Errno::BADF | Errno::SHUTDOWN | Errno::STALE);
    let kind = match (errno, tried) {
        _ if gone => ErrorKind::Gone,
        (Errno::NOSPC | Errno::DQUOT | Errno::FBIG, Tried::Write | Tried::Sync) => ErrorKind::NoSpace,
        (_, Tried::Read) => ErrorKind::Unreadable,
        (_, Tried::Write | Tried::Sync) => ErrorKind::WriteFailed,
    };
    let at = ByteLen(at as u64);
    let len = ByteLen(io.len.0 - at.0);
    let device = gone || tried == Tried::Sync;
    Failure { error: IoError { kind, at, len }, device, errno: errno.raw_os_error() }
}
