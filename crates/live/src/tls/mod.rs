//! TLS under an NBD connection: certificates, and the bytes on their way in and out.
//!
//! A session begins in the clear; the client asks for TLS with `NBD_OPT_STARTTLS`, and haggling begins anew behind it. What a client must and may do without is
//! the codec's affair ([`crate::nbd::Tls`]). The cryptography is [rustls](https://docs.rs/rustls), in builds with the feature `tls`; in others an [`Acceptor`]
//! cannot be made.

use std::path::PathBuf;

#[cfg(not(feature = "tls"))]
mod absent;
#[cfg(feature = "tls")]
mod present;

#[cfg(not(feature = "tls"))]
use absent as inside;
#[cfg(feature = "tls")]
use present as inside;

pub(crate) use inside::{Acceptor, Stream};

/// How clients reach exports by TLS.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TlsOptions {
    /// A folder with `server-cert.pem`, the server's certificate and those between it and its authority, and `server-key.pem`, its key; and with
    /// `ca-cert.pem` where clients have to show a certificate.
    pub certificates: PathBuf,
    /// Clients may do without. Otherwise they get nothing before TLS.
    pub is_optional: bool,
    /// Clients must show a certificate that an authority in `ca-cert.pem` has signed.
    pub verify_clients: bool,
}

/// Why TLS cannot be offered.
#[derive(Debug, thiserror::Error)]
#[error("TLS: {what}: {why}; {remedy}")]
pub struct TlsError {
    /// The file, or what else it is about.
    pub what: String,
    /// What was found.
    pub why: String,
    /// What would help.
    pub remedy: &'static str,
}

/// What came of an attempt to receive.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(not(feature = "tls"), allow(dead_code))]
pub(crate) enum Received {
    /// So many bytes of the client's are there.
    Bytes(usize),
    /// Nothing now.
    Nothing,
    /// The stream has ended.
    End,
    /// The socket is broken.
    Broken,
    /// The client breaks the protocol, or is not who it has to be. What tells it so is to be sent.
    Refused(String),
}
