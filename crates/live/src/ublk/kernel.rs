//! Memory that is shared with the kernel's ublk driver. The unsafe code of ublk is here.
//!
//! A command names memory by a number in its bytes. Those of [`Ring::stage`] name none; the one of [`Ring::ask`] names a buffer of its own, and is
//! waited for.

use super::abi::{self, Control, Descriptor};
use io_uring::squeue::Entry128;
use io_uring::{IoUring, cqueue, opcode, types};
use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::ptr::{self, NonNull};

/// The number of the one command that [`Ring::ask`] waits for.
const ASKED: u64 = u64::MAX;

/// A ring of commands to the driver.
pub(super) struct Ring {
    ring: IoUring<Entry128, cqueue::Entry>,
}

impl Ring {
    /// A ring with room for `entries`, which makes `wake` readable when a command has ended.
    ///
    /// # Errors
    /// What the kernel says: it has no io_uring, or not for this process.
    pub fn new(entries: u32, wake: Option<BorrowedFd<'_>>) -> io::Result<Ring> {
        let ring = IoUring::builder().setup_submit_all().setup_coop_taskrun().build(entries)?;
        if let Some(wake) = wake {
            ring.submitter().register_eventfd(wake.as_raw_fd())?;
        }
        Ok(Ring { ring })
    }

    fn command(&mut self, fd: BorrowedFd<'_>, command: u32, bytes: [u8; abi::ENTRY_BYTES], number: u64) {
        let fd = types::Fd(fd.as_raw_fd());
        self.push(opcode::UringCmd80::new(fd, command).cmd(bytes).build().user_data(number));
    }

    fn push(&mut self, entry: Entry128) {
        // SAFETY: the entry names no memory, or, in `ask`, a buffer that outlives the command.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        pushed.expect("a ring has room for all commands that may be under way");
    }

    /// Adds a command for the request of a tag to what the next [`Ring::submit`] hands over. It comes back with the tag as its number.
    pub fn stage(&mut self, fd: impl AsFd, command: u32, tag: u16, result: i32) {
        self.command(fd.as_fd(), command, abi::request(tag, result), tag.into());
    }

    /// The same for a command to `/dev/ublk-control`, which comes back as `number`.
    pub fn stage_control(&mut self, fd: impl AsFd, command: u32, control: Control, number: u64) {
        self.command(fd.as_fd(), command, control.bytes(0, 0), number);
    }

    /// Adds to it that `fd` becomes readable, which comes back as `number`.
    pub fn stage_poll(&mut self, fd: impl AsFd, number: u64) {
        let fd = types::Fd(fd.as_fd().as_raw_fd());
        let readable = PollFlags::IN.bits().into();
        self.push(opcode::PollAdd::new(fd, readable).build().user_data(number).into());
    }

    /// Whether commands wait for [`Ring::submit`].
    pub fn is_staged(&mut self) -> bool {
        !self.ring.submission().is_empty()
    }

    /// Hands over what is staged. False: not all of it was taken, and it must be called again.
    pub fn submit(&mut self) -> bool {
        // A signal, or memory that is short for now: what is left stays staged.
        let _ = self.ring.submit();
        !self.is_staged()
    }

    /// Takes the number of a command that has ended, and what it returned.
    pub fn take(&mut self) -> Option<(u64, i32)> {
        let end = self.ring.completion().next()?;
        Some((end.user_data(), end.result()))
    }

    /// Has a command with `data` done, and waits for it. Nothing else is under way.
    ///
    /// # Errors
    /// The errno of the command.
    pub fn ask(
        &mut self,
        fd: impl AsFd,
        command: u32,
        control: Control,
        data: &mut [u8],
    ) -> Result<(), Errno> {
        // What the kernel uses comes back when it has said that it is done.
        let place: *mut [u8] = Box::into_raw(Box::from(&*data));
        let address = if data.is_empty() { 0 } else { place.cast::<u8>() as usize as u64 };
        self.command(fd.as_fd(), command, control.bytes(address, data.len() as u16), ASKED);
        let result = loop {
            match self.ring.submit_and_wait(1) {
                Ok(_) => {}
                Err(error) => match Errno::from_io_error(&error) {
                    Some(Errno::INTR | Errno::AGAIN | Errno::BUSY) => {}
                    errno => return Err(errno.unwrap_or(Errno::IO)), // what is lent leaks
                },
            }
            if let Some((ASKED, result)) = self.take() {
                break result;
            }
        };
        // SAFETY: it was leaked above, and the command that used it has ended.
        let lent = unsafe { Box::from_raw(place) };
        data.copy_from_slice(&lent);
        if result < 0 { Err(Errno::from_raw_os_error(-result)) } else { Ok(()) }
    }
}

/// The descriptors of a queue's requests, which the driver writes.
pub(super) struct Descriptors {
    words: NonNull<u64>,
    bytes: usize,
    depth: u16,
}

impl Descriptors {
    /// Those of the first queue of `fd`, a `/dev/ublkcN`.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn map(fd: impl AsFd, depth: u16) -> io::Result<Descriptors> {
        let page = rustix::param::page_size();
        let bytes = (usize::from(depth) * abi::DESCRIPTOR_WORDS * 8).next_multiple_of(page);
        // SAFETY: the kernel chooses a place where nothing lies.
        let place = unsafe { mmap(ptr::null_mut(), bytes, ProtFlags::READ, MapFlags::SHARED, fd, 0) }?;
        let words = NonNull::new(place.cast::<u64>()).ok_or(io::ErrorKind::AddrInUse)?;
        Ok(Descriptors { words, bytes, depth })
    }

    /// The request of a tag. It stands still from when its command has come back until it is answered.
    pub fn read(&self, tag: u16) -> Descriptor {
        assert!(tag < self.depth, "tag {tag} of a queue of {}", self.depth);
        let first = usize::from(tag) * abi::DESCRIPTOR_WORDS;
        let word = |n: usize| {
            // SAFETY: the tag is one of those that are mapped, and the mapping lasts as long as this. The driver wrote it before the end of the
            // command, which the ring has read with the order that this needs.
            unsafe { self.words.as_ptr().add(first + n).read_volatile() }
        };
        Descriptor::of([word(0), word(1), word(2)])
    }
}

impl Drop for Descriptors {
    fn drop(&mut self) {
        // SAFETY: this is what was mapped, and nobody has a reference into it.
        let _ = unsafe { munmap(self.words.as_ptr().cast(), self.bytes) }; // it cannot fail for what is mapped
    }
}
