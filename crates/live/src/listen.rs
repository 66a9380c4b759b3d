//! Where clients come in: sockets, their addresses and their URIs.

use crate::reactor::Listener;
use rustix::fs::{Mode, fchmod};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// A Unix socket in the file system, removed when it is dropped.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: PathBuf,
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path); // gone already is what was wanted
    }
}

/// Listens at `path`. A socket that a dead server left there is replaced; one that answers is not.
///
/// # Errors
/// The path is in use, or the operating system refuses.
pub(crate) fn unix(path: &Path, mode: Mode) -> io::Result<(UnixListener, SocketFile)> {
    let left_over = std::fs::symlink_metadata(path).is_ok_and(|meta| meta.file_type().is_socket());
    if left_over {
        if UnixStream::connect(path).is_ok() {
            return Err(io::Error::new(io::ErrorKind::AddrInUse, "another server answers at this socket"));
        }
        std::fs::remove_file(path)?;
    }
    let socket =
        rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    // Before the name exists: nobody with other rights can slip in.
    fchmod(&socket, mode)?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    let file = SocketFile { path: path.into() };
    rustix::net::listen(&socket, 128)?;
    Ok((UnixListener::from(socket), file))
}

/// Listens at a TCP address.
///
/// # Errors
/// The address is in use, or the operating system refuses.
pub(crate) fn tcp(address: SocketAddr) -> io::Result<(Listener, SocketAddr)> {
    let listener = TcpListener::bind(address)?;
    let address = listener.local_addr()?;
    Ok((Listener::Tcp(listener), address))
}

/// The URI of an export at a Unix socket.
pub fn unix_uri(scheme: &str, export: &str, socket: &Path) -> String {
    format!("{scheme}+unix:///{}?socket={}", escape(export, ""), escape(&socket.display().to_string(), "/"))
}

/// The URI of an export at a TCP address.
pub fn tcp_uri(scheme: &str, export: &str, address: SocketAddr) -> String {
    format!("{scheme}://{address}/{}", escape(export, ""))
}

/// Percent-encodes what RFC 3986 does not leave as it is, except for `allowed`.
fn escape(text: &str, allowed: &str) -> String {
    text.bytes()
        .map(|byte| match byte {
            b if b.is_ascii_alphanumeric() || b"-._~".contains(&b) || allowed.as_bytes().contains(&b) => {
                char::from(b).to_string()
            }
            b => format!("%{b:02X}"),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uris_escape_what_they_must() {
        assert_eq!(
            unix_uri("nbd", "data", Path::new("/tmp/a b.sock")),
            "nbd+unix:///data?socket=/tmp/a%20b.sock"
        );
        let address = "127.0.0.1:10809".parse().expect("an address");
        assert_eq!(tcp_uri("nbds", "a/ü", address), "nbds://127.0.0.1:10809/a%2F%C3%BC");
    }

    #[test]
    fn a_left_over_socket_is_replaced_and_a_living_one_is_not() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("s");
        drop(UnixListener::bind(&path).expect("a listener"));
        assert!(path.exists(), "a dead server leaves its socket");
        let (_living, file) = unix(&path, Mode::RUSR | Mode::WUSR).expect("it is replaced");
        let refused = unix(&path, Mode::RUSR | Mode::WUSR).expect_err("it is in use");
        assert_eq!(refused.kind(), io::ErrorKind::AddrInUse);
        drop(file);
        assert!(!path.exists());
    }
}
