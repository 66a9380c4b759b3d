//! The transmission phase, server to client: replies ("Simple reply message", "Structured reply chunk message").
//!
//! A reply is a [`Head`] made here, followed by data that stay in the driver's own buffer: `writev([head, data])`.
//! Nothing is allocated and no data byte is touched. Replies may be sent in any order; the parts of one head and its
//! data may not be separated.

use std::fmt;

use nandu_base::{ByteLen, ByteOffset};

use super::error::Errno;
use super::transmission::{Cookie, Refusal};
use super::wire::{self, chunk};

/// Longest text in an error chunk, in bytes. Longer texts are cut between two characters.
pub const MESSAGE_MAX: usize = HEAD_MAX - wire::EXTENDED_CHUNK_HEAD_BYTES - 4 - 2 - 8;

const HEAD_MAX: usize = 127;

/// The bytes of a reply that come before its data, or all of them where it has none. At most 127 bytes, held inline.
#[derive(Clone, Copy)]
pub struct Head {
    length: u8,
    bytes: [u8; HEAD_MAX],
}

impl Head {
    #[inline]
    fn new() -> Head {
        Head { length: 0, bytes: [0; HEAD_MAX] }
    }

    #[inline]
    fn put(mut self, bytes: &[u8]) -> Head {
        let start = usize::from(self.length);
        self.bytes[start..start + bytes.len()].copy_from_slice(bytes);
        self.length += bytes.len() as u8;
        self
    }

    #[inline]
    fn simple(cookie: Cookie, error: u32) -> Head {
        Head::new()
            .put(&wire::SIMPLE_REPLY_MAGIC.to_be_bytes())
            .put(&error.to_be_bytes())
            .put(&cookie.0.to_be_bytes())
    }

    /// The head of a chunk with `length` bytes of payload, in reply to a request at `at`.
    #[inline]
    pub(super) fn chunk(
        form: Form,
        cookie: Cookie,
        at: ByteOffset,
        kind: u16,
        place: Place,
        length: u32,
    ) -> Head {
        let flags = match place {
            Place::More => 0,
            Place::Last => chunk::FLAG_DONE,
        };
        let is_extended = form == Form::Extended;
        let magic = if is_extended { wire::EXTENDED_CHUNK_MAGIC } else { wire::CHUNK_MAGIC };
        let head = Head::new()
            .put(&magic.to_be_bytes())
            .put(&flags.to_be_bytes())
            .put(&kind.to_be_bytes())
            .put(&cookie.0.to_be_bytes());
        if is_extended {
            head.put(&at.0.to_be_bytes()).put(&u64::from(length).to_be_bytes())
        } else {
            head.put(&length.to_be_bytes())
        }
    }

    #[inline]
    pub(super) fn u32(self, value: u32) -> Head {
        self.put(&value.to_be_bytes())
    }

    /// What goes on the wire.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

impl AsRef<[u8]> for Head {
    fn as_ref(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl PartialEq for Head {
    fn eq(&self, other: &Head) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for Head {}

impl fmt::Debug for Head {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Head(")?;
        self.as_bytes().iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        f.write_str(")")
    }
}

/// Whether chunks of the same reply follow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// Others follow.
    More,
    /// This chunk ends the reply (`NBD_REPLY_FLAG_DONE`). It must not be data that can still turn out to be bad.
    Last,
}

/// Which messages a session uses.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) enum Form {
    /// Compact requests, simple replies.
    #[default]
    Simple,
    /// Compact requests, structured replies where there is something to say.
    Structured,
    /// Extended requests and replies.
    Extended,
}

/// How this session wants its replies. A small value to copy wherever requests are completed. Every reply needs the `offset` of its
/// request, which extended ones repeat.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Replies {
    form: Form,
}

impl Replies {
    pub(super) fn new(form: Form) -> Replies {
        Replies { form }
    }

    /// Success of a request whose reply has no data: everything but read and block status. 16 bytes, which sessions with
    /// structured replies accept too; 32 bytes with extended headers.
    #[inline]
    pub fn ok(self, cookie: Cookie, offset: ByteOffset) -> Head {
        match self.form {
            Form::Extended => Head::chunk(self.form, cookie, offset, chunk::NONE, Place::Last, 0),
            Form::Simple | Form::Structured => Head::simple(cookie, 0),
        }
    }

    /// Success of a whole read; its `length` bytes of data follow the head.
    ///
    /// Make it when the data are there: after this head nothing but data can be said.
    /// `length` is that of the request, so at most 2 GiB (the largest payload an export can have).
    #[inline]
    pub fn read(self, cookie: Cookie, offset: ByteOffset, length: ByteLen) -> Head {
        match self.structured(offset) {
            Some(structured) => structured.data(cookie, offset, length, Place::Last),
            None => Head::simple(cookie, 0),
        }
    }

    /// Failure of any request, complete with this head. Sessions without structured replies get no message.
    pub fn error(self, cookie: Cookie, offset: ByteOffset, errno: Errno, message: &str) -> Head {
        if self.form == Form::Simple {
            return Head::simple(cookie, errno.number());
        }
        let message = cut(message);
        Head::chunk(self.form, cookie, offset, chunk::ERROR, Place::Last, 6 + message.len() as u32)
            .u32(errno.number())
            .put(&(message.len() as u16).to_be_bytes())
            .put(message.as_bytes())
    }

    /// The reply to a request that the codec turned down.
    pub fn refuse(self, refusal: &Refusal) -> Head {
        self.error(refusal.cookie, refusal.offset, refusal.errno, refusal.reason)
    }

    /// Replies of several chunks to a request at `offset`, where the client understands them.
    #[inline]
    pub fn structured(self, offset: ByteOffset) -> Option<Structured> {
        (self.form != Form::Simple).then_some(Structured { form: self.form, at: offset })
    }

    pub(super) fn form(self) -> Form {
        self.form
    }
}

/// Chunks, to answer a request in several parts ("Structured reply types"). Whoever uses them keeps these rules:
/// chunks lie inside the request, do not overlap, and cover it unless an error is reported; the last one sent, and
/// only that one, is [`Place::Last`]; a read with `unfragmented` set gets one content chunk, and no hole unless the
/// whole is one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Structured {
    form: Form,
    /// Where the request begins.
    at: ByteOffset,
}

impl Structured {
    /// A part of a read's data: `length` bytes at the absolute `offset` follow the head. 1 byte to 2 GiB.
    #[inline]
    pub fn data(self, cookie: Cookie, offset: ByteOffset, length: ByteLen, place: Place) -> Head {
        debug_assert!((1..=1 << 31).contains(&length.0), "a data chunk of {} bytes", length.0);
        self.chunk(cookie, chunk::OFFSET_DATA, place, 8 + length.0 as u32).put(&offset.0.to_be_bytes())
    }

    /// A part of a read that is all zeroes: no data follow. 1 byte to 4 GiB - 1.
    #[inline]
    pub fn hole(self, cookie: Cookie, offset: ByteOffset, length: ByteLen, place: Place) -> Head {
        debug_assert!((1..=u64::from(u32::MAX)).contains(&length.0), "a hole chunk of {} bytes", length.0);
        self.chunk(cookie, chunk::OFFSET_HOLE, place, 12).put(&offset.0.to_be_bytes()).u32(length.0 as u32)
    }

    /// The request failed at the absolute `offset`, inside its extent. What was sent before stays valid up to there.
    pub fn error_at(
        self,
        cookie: Cookie,
        errno: Errno,
        offset: ByteOffset,
        message: &str,
        place: Place,
    ) -> Head {
        let message = cut(message);
        self.chunk(cookie, chunk::ERROR_OFFSET, place, 14 + message.len() as u32)
            .u32(errno.number())
            .put(&(message.len() as u16).to_be_bytes())
            .put(message.as_bytes())
            .put(&offset.0.to_be_bytes())
    }

    /// The end of a reply whose last content chunk was not marked as such.
    #[inline]
    pub fn end(self, cookie: Cookie) -> Head {
        self.chunk(cookie, chunk::NONE, Place::Last, 0)
    }

    #[inline]
    fn chunk(self, cookie: Cookie, kind: u16, place: Place, length: u32) -> Head {
        Head::chunk(self.form, cookie, self.at, kind, place, length)
    }
}

/// The longest part of a message that fits in a head and ends between two characters.
fn cut(message: &str) -> &str {
    let end = (0..=MESSAGE_MAX.min(message.len())).rev().find(|&end| message.is_char_boundary(end));
    &message[..end.unwrap_or(0)]
}
