//! Before a device is stopped, what the page cache and file systems on it hold is written.
//!
//! Another process asks the kernel for that. A thread of this one would hold `/dev/ublkcN` until its requests are answered, and if the server dies
//! meanwhile, the next server could not take the device over to answer them.

use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::{Child, Command, Stdio};

/// Where the program may lie if `PATH` does not say so.
const ALSO: &str = "/usr/sbin:/sbin";

fn places() -> String {
    std::env::var("PATH").map_or_else(|_| ALSO.into(), |own| format!("{own}:{ALSO}"))
}

/// The process that has it written.
pub(super) struct WriteBack {
    child: Child,
    end: OwnedFd,
}

impl WriteBack {
    /// Has it written for the device at `path`.
    ///
    /// # Errors
    /// The program cannot be started.
    pub fn start(path: &str) -> io::Result<WriteBack> {
        let mut flush = Command::new("blockdev");
        flush.args(["--flushbufs", path]).env("PATH", places());
        let child = flush.stdin(Stdio::null()).stdout(Stdio::null()).spawn()?;
        let end = pidfd_open(Pid::from_child(&child), PidfdFlags::empty())?;
        Ok(WriteBack { child, end })
    }

    /// Readable when it has ended.
    pub fn end(&self) -> BorrowedFd<'_> {
        self.end.as_fd()
    }

    /// What went wrong, once it has ended.
    pub fn failure(mut self) -> Option<String> {
        match self.child.try_wait() {
            Ok(Some(status)) if status.success() => None,
            Ok(Some(status)) => Some(status.to_string()),
            Ok(None) => Some("it has not ended".into()),
            Err(error) => Some(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, poll};

    #[test]
    fn what_is_no_block_device_is_a_failure() {
        let writing = match WriteBack::start("/dev/null") {
            Ok(writing) => writing,
            Err(error) => {
                assert_eq!(error.kind(), io::ErrorKind::NotFound, "{error}");
                return; // this system has no such program
            }
        };
        poll(&mut [PollFd::new(&writing.end(), PollFlags::IN)], None).expect("it can wait");
        assert_eq!(writing.failure().as_deref(), Some("exit status: 1"));
    }
}
