//! What ends a server, and what it leaves tidy: signals, its command, files of its own.

use super::Addresses;
use super::error::ServeError;
use rustix::event::{EventfdFlags, eventfd};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::low_level;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What the reactor watches for the server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub(super) enum Watched {
    Signal = 0,
    Stopper = 1,
    Child = 2,
    HangUp = 3,
}

impl Watched {
    pub fn of(number: u32) -> Watched {
        match number {
            0 => Watched::Signal,
            1 => Watched::Stopper,
            2 => Watched::Child,
            _ => Watched::HangUp,
        }
    }
}

/// Ends a server from another thread.
#[derive(Clone, Debug)]
pub struct Stopper(Arc<OwnedFd>);

impl Stopper {
    /// One that was not used yet.
    ///
    /// # Errors
    /// The process has no file descriptor left.
    pub fn new() -> io::Result<Stopper> {
        Ok(Stopper(Arc::new(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?)))
    }

    /// Has the server end cleanly. Returns at once.
    pub fn stop(&self) {
        let _ = rustix::io::write(&*self.0, &1_u64.to_ne_bytes()); // fails only when it was told 2^64 times
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// SIGTERM and SIGINT, and apart from them SIGHUP, as bytes in sockets.
pub(super) struct Signals {
    ends: UnixStream,
    hang_ups: UnixStream,
    ids: Vec<signal_hook::SigId>,
}

impl Signals {
    pub fn new() -> io::Result<Signals> {
        let (ends, end_writer) = UnixStream::pair()?;
        let (hang_ups, hang_up_writer) = UnixStream::pair()?;
        ends.set_nonblocking(true)?;
        hang_ups.set_nonblocking(true)?;
        let mut signals = Signals { ends, hang_ups, ids: Vec::new() };
        for (signal, writer) in [(SIGTERM, &end_writer), (SIGINT, &end_writer), (SIGHUP, &hang_up_writer)] {
            signals.ids.push(low_level::pipe::register(signal, writer.try_clone()?)?);
        }
        Ok(signals)
    }

    /// Readable after a signal that ends the server.
    pub fn ends(&self) -> BorrowedFd<'_> {
        self.ends.as_fd()
    }

    /// Readable after SIGHUP.
    pub fn hang_ups(&self) -> BorrowedFd<'_> {
        self.hang_ups.as_fd()
    }

    /// Signals that end the server since the last call.
    pub fn take(&self) -> u32 {
        Signals::count(&self.ends)
    }

    /// SIGHUPs since the last call.
    pub fn take_hang_ups(&self) -> u32 {
        Signals::count(&self.hang_ups)
    }

    fn count(socket: &UnixStream) -> u32 {
        let mut bytes = [0; 64];
        rustix::io::read(socket, &mut bytes).map_or(0, |count| count as u32)
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        self.ids.iter().for_each(|&id| {
            low_level::unregister(id);
        });
    }
}

/// The command that runs while the stack is served.
pub(super) struct Child {
    child: std::process::Child,
    pidfd: OwnedFd,
    status: Option<i32>,
}

impl Child {
    pub fn start(
        command: &str,
        uris: &[String],
        blocks: &[String],
        addresses: &Addresses,
    ) -> Result<Child, ServeError> {
        let fail = |error| ServeError::Run { command: command.into(), error };
        let mut shell = std::process::Command::new("sh");
        shell.arg("-c").arg(command);
        shell.env("uri", uris.first().map_or("", String::as_str)).env("uris", uris.join(" "));
        for name in super::service::VARIABLES {
            shell.env_remove(name);
        }
        if !blocks.is_empty() {
            shell.env("ublk", blocks.join(" "));
        }
        if let Some(path) = addresses.unix.first() {
            shell.env("unixsocket", path);
        }
        if let Some(address) = addresses.tcp.first() {
            shell.env("port", address.port().to_string());
        }
        let child = shell.spawn().map_err(fail)?;
        let pidfd = pidfd_open(Pid::from_child(&child), PidfdFlags::empty()).map_err(|e| fail(e.into()))?;
        Ok(Child { child, pidfd, status: None })
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }

    /// The command has ended.
    pub fn reap(&mut self) -> io::Result<()> {
        let status = self.child.wait()?;
        self.status = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
        Ok(())
    }

    /// Tells a command that still runs that its server ends.
    pub fn terminate(&mut self) {
        if self.status.is_none() {
            let _ = kill_process(Pid::from_child(&self.child), Signal::TERM); // it may have ended by itself
        }
    }

    pub fn status(&self) -> Option<i32> {
        self.status
    }
}

/// A file with the number of this process, removed when it is dropped.
///
/// A file that lies there is replaced only if it is empty or holds the number of a process and nothing else, as one that a dead server left does.
pub(super) struct PidFile {
    path: PathBuf,
}

/// Longest file that may hold a number: ten digits, and how a line ends.
const PID_FILE_MAX: u64 = 16;

fn own_pid() -> String {
    format!("{}\n", std::process::id())
}

impl PidFile {
    /// Whether the number may be written to `path`.
    ///
    /// # Errors
    /// Something else lies there.
    pub fn check(path: &Path) -> Result<(), ServeError> {
        let refused = |why| Err(ServeError::NoPidFile { path: path.display().to_string(), why });
        match std::fs::symlink_metadata(path) {
            Err(_) => return Ok(()), // not there, or writing it says why not
            Ok(meta) if !meta.is_file() => return refused("it is not a regular file"),
            Ok(meta) if meta.len() > PID_FILE_MAX => {
                return refused("it is not a pid file");
            }
            Ok(_) => {}
        }
        let text = std::fs::read(path).unwrap_or_default();
        match text.trim_ascii().iter().all(u8::is_ascii_digit) {
            true => Ok(()),
            false => refused("it is not a pid file"),
        }
    }

    pub fn write(path: &Path) -> Result<PidFile, ServeError> {
        PidFile::check(path)?;
        let fail = |error| ServeError::PidFile { path: path.display().to_string(), error };
        std::fs::write(path, own_pid()).map_err(fail)?;
        Ok(PidFile { path: path.into() })
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        let ours = std::fs::read_to_string(&self.path).is_ok_and(|text| text == own_pid());
        if ours {
            let _ = std::fs::remove_file(&self.path); // gone already is what was wanted
        }
    }
}

/// A directory only this user can look into, removed when it is dropped.
pub(super) struct PrivateDir {
    path: PathBuf,
}

impl PrivateDir {
    pub fn new() -> io::Result<PrivateDir> {
        let stem = std::env::temp_dir().join(format!("nandu-{}", std::process::id()));
        for n in 0..1000 {
            let path = stem.with_extension(n.to_string());
            match std::fs::DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(PrivateDir { path }),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::Error::new(io::ErrorKind::AlreadyExists, "no free name for a private directory"))
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for PrivateDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path); // best effort: it lies in the directory for such things
    }
}
