//! Why a stack is not served.

use crate::backend::LegError;
use crate::reactor::OfferError;
use crate::tls::TlsError;
use crate::ublk::UblkError;
use nandu_base::{ByteLen, OpenError};
use nandu_stack::StackError;
use std::io;

/// Why a stack is not, or no longer, served: what, where, why, and what would help.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The stack cannot be built.
    #[error(transparent)]
    Stack(#[from] StackError),
    /// Too little memory for the connections that may come.
    #[error(
        "{asked} of memory are too little: so many connections need at least {least}; give more (--memory SIZE), or let in fewer (--max-connections N)"
    )]
    Memory {
        /// What was given.
        asked: ByteLen,
        /// What is needed.
        least: ByteLen,
    },
    /// An export was asked for that does not exist.
    #[error("no export is called `{name}`; the stack has: {}", known.join(", "))]
    NoExport {
        /// What was asked for.
        name: String,
        /// What there is.
        known: Vec<String>,
    },
    /// A spare cannot be one.
    #[error("spare {path}: {why}; name a blank file (`truncate -s SIZE FILE` makes one) or a block device")]
    Spare {
        /// The file.
        path: String,
        /// Why not.
        why: String,
    },
    /// Nobody could connect.
    #[error(
        "no address to listen at; give a Unix socket (-U SOCK), a port (-p PORT), a block device (--ublk) or a command (--run CMD)"
    )]
    NoAddress,
    /// A socket or port cannot be had.
    #[error("{at}: {error}; choose another address, or stop who uses it")]
    Address {
        /// The address.
        at: String,
        /// What the operating system says.
        error: io::Error,
    },
    /// TLS cannot be offered.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// An export cannot be a block device.
    #[error(transparent)]
    Ublk(#[from] UblkError),
    /// io_uring was asked for, and is not to be had.
    #[error(
        "io_uring: {why}; start with --io auto or threads, or see that the kernel is 5.19 or newer, that `kernel.io_uring_disabled` is 0 and \
         that no seccomp filter forbids it"
    )]
    NoRing {
        /// What the kernel says.
        why: String,
    },
    /// A file is there but cannot be used.
    #[error("device `{device}`: {error}")]
    Leg {
        /// The device.
        device: String,
        /// Why.
        error: LegError,
    },
    /// An export's machine did not start.
    #[error("device `{device}` does not start: {error}{}", list(.missing))]
    Open {
        /// The device.
        device: String,
        /// Why.
        error: OpenError,
        /// Devices below that did not start, and leaves whose file or store is missing, or is not what it was, with reasons.
        missing: Vec<(String, String)>,
    },
    /// An export cannot be offered.
    #[error(transparent)]
    Offer(#[from] OfferError),
    /// The command could not be started.
    #[error("`{command}`: {error}")]
    Run {
        /// The command.
        command: String,
        /// What the operating system says.
        error: io::Error,
    },
    /// The file for the process number cannot be written.
    #[error("{path}: {error}")]
    PidFile {
        /// The file.
        path: String,
        /// What the operating system says.
        error: io::Error,
    },
    /// What a device holds could not be made durable at the end.
    #[error(
        "device `{device}`: its file cannot be synced: {error}; the next start finds what was durable before"
    )]
    Store {
        /// The device.
        device: String,
        /// What the operating system says.
        error: io::Error,
    },
    /// A device was lost, or could not write what it had answered, and nobody has heard of it from a flush.
    #[error(
        "device `{device}`: what was answered and not flushed may be gone: a device was lost, or refused it until the end; the next start \
         finds what was flushed"
    )]
    Unsaved {
        /// The device.
        device: String,
    },
    /// What lies there is no file for the process number.
    #[error("{path}: {why}; name another file with --pidfile, or move this one away")]
    NoPidFile {
        /// The file.
        path: String,
        /// What was found.
        why: &'static str,
    },
    /// A second signal, or a signal before the start was complete: the end was not clean.
    #[error("interrupted before a clean end; the next start recovers as after a crash")]
    Interrupted,
    /// The operating system refused something that nothing can go on without.
    #[error("the operating system refuses: {0}")]
    System(#[from] io::Error),
}

fn list(missing: &[(String, String)]) -> String {
    missing.iter().map(|(device, why)| format!("; device `{device}`: {why}")).collect()
}

impl ServeError {
    /// 2 when the input was wrong, 1 when the run failed.
    pub fn exit_code(&self) -> u8 {
        match self {
            ServeError::Stack(_)
            | ServeError::Memory { .. }
            | ServeError::NoExport { .. }
            | ServeError::NoAddress
            | ServeError::Spare { .. }
            | ServeError::Address { .. }
            | ServeError::NoRing { .. }
            | ServeError::Tls(_)
            | ServeError::Ublk(
                UblkError::NoDriver { .. }
                | UblkError::OldDriver { .. }
                | UblkError::NoRing { .. }
                | UblkError::InUse { .. }
                | UblkError::NotOurs { .. }
                | UblkError::Differs { .. }
                | UblkError::StillUsed { .. }
                | UblkError::Blocks { .. },
            )
            | ServeError::Leg { .. }
            | ServeError::Offer(OfferError::Export(_))
            | ServeError::NoPidFile { .. }
            | ServeError::PidFile { .. } => 2,
            // What is found on the legs, or that they are not there, is input; that they cannot be read is not.
            ServeError::Open { error: OpenError::Records(_), missing, .. } if missing.is_empty() => 1,
            ServeError::Open { .. } => 2,
            ServeError::Offer(OfferError::System(_))
            | ServeError::Ublk(UblkError::Refused { .. } | UblkError::NotWritten { .. })
            | ServeError::Run { .. }
            | ServeError::Store { .. }
            | ServeError::Unsaved { .. }
            | ServeError::Interrupted
            | ServeError::System(_) => 1,
        }
    }
}
