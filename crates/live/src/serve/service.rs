//! A service manager such as systemd: sockets that it listens at, and what it is told (sd_listen_fds(3), sd_notify(3)).
//!
//! *Sockets.* The manager binds them, so clients may connect before the server runs, and hands them over as descriptors from 3
//! on: `LISTEN_FDS` of them, for the process `LISTEN_PID`. One that is called "control" in `LISTEN_FDNAMES` takes control
//! commands, all others take NBD clients.
//!
//! *Word.* `READY=1` when clients are served, `STOPPING=1` when the end begins, and `WATCHDOG=1` twice in each
//! `WATCHDOG_USEC` as long as the reactor lives, as datagrams to the socket `NOTIFY_SOCKET`.

use super::error::ServeError;
use crate::reactor::Listener;
use rustix::fd::OwnedFd;
use rustix::net::{AddressFamily, getsockname};
use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};
use std::io;
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
use std::time::Duration;

/// The first descriptor that is handed over.
const FIRST: i32 = 3;
/// More than anybody hands over.
const MOST: i32 = 64;

/// Sockets that were handed over.
#[derive(Debug, Default)]
pub(super) struct Handed {
    pub nbd: Vec<Listener>,
    pub control: Option<UnixListener>,
}

fn number(name: &str) -> Option<i32> {
    std::env::var(name).ok()?.trim().parse().ok()
}

fn is_for_us(name: &str) -> bool {
    number(name) == Some(getpid().as_raw_nonzero().get())
}

/// The sockets that a manager has handed over; none without one.
///
/// # Errors
/// What was handed over is no socket that listens.
pub(super) fn handed() -> Result<Handed, ServeError> {
    let mut handed = Handed::default();
    let count = number("LISTEN_FDS").filter(|_| is_for_us("LISTEN_PID")).unwrap_or(0);
    let names = std::env::var("LISTEN_FDNAMES").unwrap_or_default();
    let names: Vec<&str> = names.split(':').collect();
    for (at, name) in (0..count.clamp(0, MOST)).map(|at| (at, names.get(at as usize).copied())) {
        let refused = |error| ServeError::Address { at: format!("descriptor {}", FIRST + at), error };
        let socket = take(FIRST + at).map_err(refused)?;
        match (socket, name) {
            (Listener::Unix(listener), Some("control")) => handed.control = Some(listener),
            (socket, _) => handed.nbd.push(socket),
        }
    }
    Ok(handed)
}

/// A copy of a descriptor of this process, which no child inherits.
fn take(fd: i32) -> io::Result<Listener> {
    let own = pidfd_open(getpid(), PidfdFlags::empty())?;
    let socket: OwnedFd = pidfd_getfd(&own, fd, PidfdGetfdFlags::empty())?;
    if !rustix::net::sockopt::socket_acceptconn(&socket)? {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it does not listen"));
    }
    match getsockname(&socket)?.address_family() {
        AddressFamily::UNIX => Ok(Listener::Unix(UnixListener::from(socket))),
        AddressFamily::INET | AddressFamily::INET6 => Ok(Listener::Tcp(TcpListener::from(socket))),
        _ => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is neither a Unix nor a TCP socket")),
    }
}

/// Where a manager hears what is said.
#[derive(Debug)]
pub(super) struct Manager {
    socket: UnixDatagram,
    address: SocketAddr,
    /// How often it wants to hear that the server lives.
    pub lives: Option<Duration>,
}

impl Manager {
    /// The manager of this process, if there is one.
    pub fn of_process() -> Option<Manager> {
        let path = std::env::var_os("NOTIFY_SOCKET")?;
        let bytes = path.as_encoded_bytes();
        let address = match bytes.strip_prefix(b"@") {
            Some(name) => SocketAddr::from_abstract_name(name),
            None => SocketAddr::from_pathname(&path),
        };
        let wanted = std::env::var_os("WATCHDOG_PID").is_none() || is_for_us("WATCHDOG_PID");
        let micros = std::env::var("WATCHDOG_USEC").ok().and_then(|text| text.trim().parse::<u64>().ok());
        let lives = micros.filter(|&n| wanted && n > 1).map(|n| Duration::from_micros(n / 2));
        Some(Manager { socket: UnixDatagram::unbound().ok()?, address: address.ok()?, lives })
    }

    /// Says something. A manager that does not hear it is none of our business.
    pub fn say(&self, what: &str) {
        let _ = self.socket.send_to_addr(what.as_bytes(), &self.address);
    }

    /// Another way to the same manager, for another thread.
    pub fn again(&self) -> Option<Manager> {
        let socket = UnixDatagram::unbound().ok()?;
        Some(Manager { socket, address: self.address.clone(), lives: self.lives })
    }
}

/// Variables of a manager that are meant for this process and not for its children.
pub(super) const VARIABLES: [&str; 6] =
    ["LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES", "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"];
