//! The server side of the NBD protocol as a machine without input and output: bytes in, events out.
//!
//! Source: `doc/proto.md` of `NetworkBlockDevice/nbd` (public domain), state of May 2026; comments name its sections.
//! Spoken: fixed newstyle without reserved zeroes; `EXPORT_NAME`, `ABORT`, `LIST`, `INFO`, `GO`, `STRUCTURED_REPLY`,
//! `LIST_META_CONTEXT` and `SET_META_CONTEXT` with `base:allocation`; every command and flag of the normative text;
//! simple and structured replies; `EXTENDED_HEADERS` of the branch `extension-ext-header`, without a payload of block status. Not
//! spoken: oldstyle, TLS (`STARTTLS` is answered with `ERR_UNSUP`), and the experimental extension resize, each of which a client can
//! do without.
//!
//! # How to drive it
//!
//! ```text
//! Server::new            send the greeting
//! loop  step(input)      consumed bytes leave the input
//!   NeedMore             receive more
//!   Answered, Started    send `out`
//!   Request              start it; a write's payload is next in the stream: copy what is in the input, receive
//!                        the rest straight into the write's buffer, report both with `payload_taken`
//!   Refused              send `replies.refuse(..)`
//!   Closed or an error   finish what is in flight, hang up
//! ```
//!
//! A request is answered when it is done, in any order, by its cookie: a [`Head`] made by [`Replies`], and after it
//! the data from wherever they lie (`writev`). The codec keeps no list of requests in flight; a driver that wants
//! fewer of them stops calling [`Server::step`], and the peer waits.
//!
//! # Limits
//!
//! | what | limit | beyond it |
//! |---|---|---|
//! | option data | 32 KiB | dropped, `NBD_REP_ERR_TOO_BIG` |
//! | name, query, description | 4096 B | `NBD_REP_ERR_INVALID`; `EXPORT_NAME` hangs up |
//! | payload of a read or write | [`BlockSizes::maximum`] | `EINVAL`, or `EOVERFLOW` for a structured read; a write's payload is dropped, and with extended headers the server hangs up |
//! | extent | the export | `EINVAL`, or `ENOSPC` for writes and zeroes |
//! | alignment | [`BlockSizes::minimum`] | `EINVAL` |
//!
//! A request of length 0 is refused with `EINVAL` (the protocol leaves it open). How long a peer may take and how
//! many options it may send are the driver's to limit: the codec has no clock.

mod error;
mod export;
mod handshake;
mod options;
mod reply;
mod server;
mod status;
#[cfg(test)]
mod tests;
mod transmission;
pub mod wire;

pub use error::{Errno, Fault, NbdError};
pub use export::{BlockSizes, Export, ExportError, ExportProblem, Exports};
pub use handshake::OPTION_DATA_MAX;
pub use options::Tls;
pub use reply::{Head, MESSAGE_MAX, Place, Replies, Structured};
pub use server::{Event, Server, Session, Step};
pub use status::{Allocation, EXTENDED_EXTENTS_MAX, EXTENTS_MAX, StatusReply};
pub use transmission::{Command, Cookie, Refusal, Request};
