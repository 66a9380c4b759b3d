//! What can go wrong on a connection, and whose fault it is.

use thiserror::Error;

/// Who has to change something for the session to work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// The peer broke a rule of the protocol, or hung up without a word.
    Peer,
    /// The peer asked for something legal that this server does not have.
    Unsupported,
    /// This server is going away.
    Server,
}

/// Why a session ends without an orderly good-bye.
///
/// Everything that can be answered is answered and is not an error here: a wrong option gets an error reply, a wrong
/// request a [`Refusal`](super::Refusal). After one of these errors the connection is closed; nothing more is sent.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum NbdError {
    /// The client set flags that do not exist. The server must hang up ("Client flags").
    #[error("client flags {flags:#010x} contain bits that are not defined (allowed: 0x00000003)")]
    ClientFlags {
        /// What the client sent.
        flags: u32,
    },
    /// An option does not start with `IHAVEOPT`: the stream is out of step, or the peer speaks something else.
    #[error("option starts with {found:#018x}, not with IHAVEOPT")]
    OptionMagic {
        /// The eight bytes in its place.
        found: u64,
    },
    /// A request does not start with the request magic number: the stream is out of step.
    #[error("request starts with {found:#010x}, not with {wanted:#010x}")]
    RequestMagic {
        /// The four bytes in its place.
        found: u32,
        /// The magic number.
        wanted: u32,
    },
    /// An extended request announces a payload longer than any that is taken. The server hangs up ("Request message").
    #[error("request with a payload of {length} bytes (at most {most})")]
    PayloadTooLong {
        /// Bytes of the payload.
        length: u64,
        /// Bytes that are taken.
        most: u64,
    },
    /// `NBD_OPT_EXPORT_NAME` after extended headers, with which it may not be used. This option has no error reply.
    #[error("NBD_OPT_EXPORT_NAME after NBD_OPT_EXTENDED_HEADERS")]
    ExportNameExtended,
    /// `NBD_OPT_EXPORT_NAME` names an export longer than a string may be. This option has no error reply.
    #[error("NBD_OPT_EXPORT_NAME with a name of {length} bytes (at most 4096)")]
    ExportNameTooLong {
        /// Bytes of the name.
        length: u32,
    },
    /// `NBD_OPT_EXPORT_NAME` names an export that does not exist. This option has no error reply.
    #[error("no export is called {name:?}")]
    UnknownExport {
        /// What the client asked for, invalid UTF-8 replaced.
        name: String,
    },
    /// `NBD_OPT_EXPORT_NAME` came while the server shuts down. This option has no error reply.
    #[error("the server is shutting down")]
    ShuttingDown,
    /// `NBD_OPT_EXPORT_NAME` came from a client that is turned away. This option has no error reply.
    #[error("turned away: {why}")]
    TurnedAway {
        /// Why.
        why: String,
    },
    /// `NBD_OPT_EXPORT_NAME` came before TLS, which this server requires. This option has no error reply.
    #[error("it does not use TLS, which this server requires")]
    TlsRequired,
    /// TLS with the peer failed. The codec itself has none.
    #[error("TLS fails: {why}")]
    Tls {
        /// Why.
        why: String,
    },
    /// The stream ended without `NBD_CMD_DISC` or `NBD_OPT_ABORT`.
    #[error("the peer hung up {}", if *.mid_message { "in the middle of a message" } else { "without saying good-bye" })]
    HungUp {
        /// Whether part of a message is missing.
        mid_message: bool,
    },
}

impl NbdError {
    /// Whose fault it is.
    pub fn fault(&self) -> Fault {
        match self {
            NbdError::ClientFlags { .. }
            | NbdError::OptionMagic { .. }
            | NbdError::RequestMagic { .. }
            | NbdError::PayloadTooLong { .. }
            | NbdError::ExportNameExtended
            | NbdError::ExportNameTooLong { .. }
            | NbdError::TlsRequired
            | NbdError::Tls { .. }
            | NbdError::HungUp { .. } => Fault::Peer,
            NbdError::UnknownExport { .. } => Fault::Unsupported,
            NbdError::ShuttingDown | NbdError::TurnedAway { .. } => Fault::Server,
        }
    }
}

/// Error numbers of replies ("Error values"). No others may be sent.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u32)]
pub enum Errno {
    /// Operation not permitted; a write on a read-only export.
    Perm = 1,
    /// Input/output error.
    Io = 5,
    /// Out of memory. The protocol asks servers to avoid it.
    NoMem = 12,
    /// Invalid argument.
    Inval = 22,
    /// No space left; also a write beyond the end of the export.
    NoSpc = 28,
    /// Too large. Only for reads with structured replies and for long requests without payload.
    Overflow = 75,
    /// Not supported. Only for fast zeroes that would not be fast.
    NotSup = 95,
    /// The server is going away.
    Shutdown = 108,
}

impl Errno {
    /// The number on the wire.
    pub const fn number(self) -> u32 {
        self as u32
    }

    /// The closest protocol error for a Linux `errno`; what has no counterpart is an I/O error.
    ///
    /// `EDQUOT` and `EFBIG` become [`Errno::NoSpc`], as "Error values" asks; `EACCES` and `EROFS` become
    /// [`Errno::Perm`]. `EOVERFLOW` and `EOPNOTSUPP` are not passed on: they have a special meaning here.
    pub const fn from_linux(errno: i32) -> Errno {
        match errno {
            1 | 13 | 30 => Errno::Perm,
            12 => Errno::NoMem,
            22 => Errno::Inval,
            27 | 28 | 122 => Errno::NoSpc,
            108 => Errno::Shutdown,
            _ => Errno::Io,
        }
    }
}
