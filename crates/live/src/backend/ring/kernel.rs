//! What the kernel has been asked through io_uring and has not answered. The unsafe code of the ring is here.
//!
//! *Buffers.* The kernel reads and writes memory between a call and its end, whatever becomes of us meanwhile. So what a call uses is moved in
//! here with its [`Task`], and comes back only when the kernel says that the call has ended. A [`Kernel`] that is dropped before that leaks what is
//! lent: closing the ring does not stop a call. [`Kernel::drain`] is the way to end one that has calls under way.

use super::{Step, Task};
use io_uring::squeue::{Entry, Flags};
use io_uring::{IoUring, opcode, types};
use nandu_base::Op;
use nandu_base::bytebuf::ByteBuf;
use rustix::fs::{AtFlags, FallocateFlags, StatxFlags};
use rustix::io::{Errno, ReadWriteFlags};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::{Arc, OnceLock};

/// Zeros that one call writes.
const ZEROS: usize = 1 << 20;
/// The longest transfer of one call: Linux moves less than 2 GiB at once.
const TRANSFER_MAX: usize = 1 << 30;
/// Room for what is asked about a file, and where in it the number of its names stands (`struct statx`).
const STATX: usize = 256;
const STATX_NLINK: usize = 16;

/// A ring, and what is lent to it.
pub(super) struct Kernel {
    ring: IoUring,
    /// What each call uses, by the number that comes back with its end.
    lent: Vec<Option<Task>>,
    free: Vec<usize>,
}

impl Kernel {
    /// A ring that makes `wake` readable when a call has ended.
    ///
    /// # Errors
    /// What the kernel says: it has no io_uring, or not to this process.
    pub fn new(entries: u32, wake: BorrowedFd<'_>) -> io::Result<Kernel> {
        let ring = IoUring::builder().setup_clamp().setup_submit_all().setup_coop_taskrun().build(entries)?;
        ring.submitter().register_eventfd(wake.as_raw_fd())?;
        Ok(Kernel { ring, lent: Vec::new(), free: Vec::new() })
    }

    /// How many threads of the kernel may stand still for its calls at a time.
    ///
    /// # Errors
    /// The kernel has no such bound.
    pub fn bound_threads(&self, most: u32) -> io::Result<()> {
        self.ring.submitter().register_iowq_max_workers(&mut [most, 0])
    }

    /// Calls that have not ended.
    pub fn under_way(&self) -> usize {
        self.lent.len() - self.free.len()
    }

    /// Whether calls wait for [`Kernel::submit`].
    pub fn is_staged(&mut self) -> bool {
        !self.ring.submission().is_empty()
    }

    /// Adds the next call of a task to those that the next [`Kernel::submit`] hands over.
    ///
    /// # Errors
    /// There is no room now: the task, which must come again.
    pub fn stage(&mut self, mut task: Task) -> Result<(), Task> {
        let slot = self.free.last().copied().unwrap_or(self.lent.len());
        let entry = entry(&mut task).user_data(slot as u64);
        // SAFETY: all memory that the entry names belongs to the task or is static, and the task stays in `lent`, or leaks, until the end of the
        // call. Its data are behind an `Arc`, so they stay where they are when the task is moved. The file is open as long as the task is.
        let staged = unsafe { self.ring.submission().push(&entry) };
        if staged.is_err() {
            return Err(task);
        }
        match self.free.pop() {
            Some(slot) => self.lent[slot] = Some(task),
            None => self.lent.push(Some(task)),
        }
        Ok(())
    }

    /// Hands over what is staged. False: not all of it was taken, and it must be called again.
    pub fn submit(&mut self) -> bool {
        // A signal, or memory or room for ends that is short for now: what is left stays staged.
        let _ = self.ring.submit();
        !self.is_staged()
    }

    /// Takes a call that has ended, and what it returned.
    pub fn take(&mut self) -> Option<(Task, Result<usize, Errno>)> {
        let end = self.ring.completion().next()?;
        let slot = end.user_data() as usize;
        let task = self.lent.get_mut(slot)?.take()?;
        self.free.push(slot);
        let result = match end.result() {
            count @ 0.. => Ok(count as usize),
            errno => Err(Errno::from_raw_os_error(-errno)),
        };
        Some((task, result))
    }

    /// Waits for the end of every call.
    pub fn drain(mut self) {
        while self.under_way() > 0 {
            let waited = self.ring.submit_and_wait(1);
            let transient = [Errno::INTR, Errno::AGAIN, Errno::BUSY];
            match waited {
                Ok(_) => {}
                Err(error) if transient.iter().any(|e| Some(e.raw_os_error()) == error.raw_os_error()) => {}
                Err(_) => return, // what is lent leaks
            }
            while self.take().is_some() {}
        }
    }
}

impl Drop for Kernel {
    fn drop(&mut self) {
        // The kernel may still use these, and nobody will hear when it does no more.
        self.lent.drain(..).for_each(std::mem::forget);
    }
}

/// Zeros that nobody ever changes.
fn zeros() -> *const u8 {
    static BUFFER: OnceLock<ByteBuf> = OnceLock::new();
    let buffer = BUFFER.get_or_init(|| ByteBuf::zeroed(ZEROS));
    // SAFETY: nobody ever writes to this buffer.
    unsafe { buffer.slice(0, ZEROS) }.as_ptr()
}

/// The call that a task needs next.
fn entry(task: &mut Task) -> Entry {
    let fd = types::Fd(task.file.as_fd().as_raw_fd());
    let at = task.io.offset.0 + task.at;
    let start = task.at as usize;
    let entry = match (task.step, &task.io.data) {
        (Step::Transfer, Some(region)) if task.io.op == Op::Read => {
            // SAFETY: the leaf that serves a read is the one writer of its payload until the request ends. The slice ends here; the kernel
            // takes its place.
            let into = unsafe { &mut region.as_mut_slice()[start..] };
            let len = into.len().min(TRANSFER_MAX);
            opcode::Read::new(fd, into.as_mut_ptr(), len as u32).offset(at).build()
        }
        (Step::Transfer, Some(region)) => {
            // SAFETY: the payload of a write is complete before it is sent, and does not change on its way.
            let from = unsafe { &region.as_slice()[start..] };
            let len = from.len().min(TRANSFER_MAX);
            let flags = if task.io.fua { ReadWriteFlags::DSYNC } else { ReadWriteFlags::empty() };
            opcode::Write::new(fd, from.as_ptr(), len as u32).offset(at).rw_flags(flags.bits() as i32).build()
        }
        (Step::Transfer, None) => unreachable!("what has no data is not transferred"),
        (Step::Zeros, _) => {
            let len = (task.io.len.0 - task.at).min(ZEROS as u64);
            opcode::Write::new(fd, zeros(), len as u32).offset(at).build()
        }
        (Step::Clear(way), _) => {
            let mode = way | FallocateFlags::KEEP_SIZE;
            opcode::Fallocate::new(fd, task.io.len.0)
                .offset(task.io.offset.0)
                .mode(mode.bits() as i32)
                .build()
        }
        (Step::Look, _) => {
            let seen = task.seen.insert(Arc::new(ByteBuf::zeroed(STATX)));
            // SAFETY: this buffer is new, and nobody reads it before the call has ended.
            let into = unsafe { seen.slice_mut(0, STATX) };
            opcode::Statx::new(fd, c"".as_ptr(), into.as_mut_ptr().cast())
                .flags(AtFlags::EMPTY_PATH.bits() as i32)
                .mask(StatxFlags::NLINK.bits())
                .build()
        }
        (Step::Sync, _) => opcode::Fsync::new(fd).flags(types::FsyncFlags::DATASYNC).build(),
    };
    if task.sleeps { entry.flags(Flags::ASYNC) } else { entry }
}

/// Whether a file that was looked at has a name left.
pub(super) fn has_name(seen: &ByteBuf) -> bool {
    // SAFETY: the call that wrote to this buffer has ended.
    let seen = unsafe { seen.slice(STATX_NLINK, 4) };
    seen.iter().any(|&byte| byte != 0)
}
