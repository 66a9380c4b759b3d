//! A build without TLS: no acceptor can be made, so there is no stream either.

use super::{Received, TlsError, TlsOptions};
use std::convert::Infallible;
use std::io::IoSlice;
use std::os::fd::OwnedFd;

/// Makes streams; there is none.
#[derive(Clone, Debug)]
pub(crate) struct Acceptor(Infallible);

impl Acceptor {
    pub fn new(options: &TlsOptions) -> Result<Acceptor, TlsError> {
        Err(TlsError {
            what: options.certificates.display().to_string(),
            why: "this program was built without TLS".into(),
            remedy: "use the Debian package, or build with `--features tls`",
        })
    }

    pub fn accept(&self) -> Result<Stream, String> {
        match self.0 {}
    }
}

/// A connection with TLS; there is none.
#[derive(Debug)]
pub(crate) struct Stream(Infallible);

impl Stream {
    pub fn feed(&mut self, _: &[u8]) -> Result<(), String> {
        match self.0 {}
    }

    pub fn receive(&mut self, _: &OwnedFd, _: &mut [u8]) -> Received {
        match self.0 {}
    }

    pub fn holds_input(&mut self) -> bool {
        match self.0 {}
    }

    pub fn take(&mut self, _: &[IoSlice<'_>]) -> usize {
        match self.0 {}
    }

    pub fn wants_to_send(&self) -> bool {
        match self.0 {}
    }

    pub fn send(&mut self, _: &OwnedFd) -> std::io::Result<usize> {
        match self.0 {}
    }

    pub fn say_goodbye(&mut self, _: &OwnedFd) {
        match self.0 {}
    }
}
