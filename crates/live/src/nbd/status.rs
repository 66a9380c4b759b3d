//! Replies to block status requests ("`base:allocation` metadata context", `NBD_REPLY_TYPE_BLOCK_STATUS`).

use nandu_base::{ByteLen, ByteOffset};

use super::reply::{Form, Head, Place, Replies};
use super::transmission::{Command, Cookie, Request};
use super::wire::{BASE_ALLOCATION_ID, chunk};

/// Most extents in one reply: with them a reply stays within 64 KiB, which is within every largest payload. The rest
/// of the request is left out, and the client asks again from there, as the protocol allows.
pub const EXTENTS_MAX: usize = 8191;
/// The same where extents take 64 bits.
pub const EXTENDED_EXTENTS_MAX: usize = 4095;

/// State of an extent. [`Allocation::Data`] is always a safe answer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u32)]
pub enum Allocation {
    /// Allocated, or not known.
    Data = 0,
    /// Not allocated, and what it reads as is undefined.
    Hole = 1,
    /// Allocated, and it reads as zeroes.
    Zero = 2,
    /// Not allocated, and it reads as zeroes.
    ZeroHole = 3,
}

/// Builds the reply to one [`Command::BlockStatus`].
///
/// Extents are pushed in order, from the start of the request; neighbours of equal state become one. The result obeys
/// the request: one extent where the client wants one, never more than it asked for. Send the head, then the bytes
/// that were appended to the buffer.
#[derive(Debug)]
pub struct StatusReply<'a> {
    out: &'a mut Vec<u8>,
    form: Form,
    cookie: Cookie,
    at: ByteOffset,
    /// Bytes of the request no finished or open extent covers yet.
    left: u64,
    most: usize,
    finished: usize,
    open: Option<(u64, Allocation)>,
}

impl<'a> StatusReply<'a> {
    /// Starts the reply to `request`; extents go to the end of `out`, 8 bytes each, 16 with extended headers.
    pub fn new(replies: Replies, request: &Request, out: &'a mut Vec<u8>) -> StatusReply<'a> {
        let form = replies.form();
        let most = match (request.command, form) {
            (Command::BlockStatus { one: true }, _) => 1,
            (_, Form::Extended) => EXTENDED_EXTENTS_MAX,
            _ => EXTENTS_MAX,
        };
        let (cookie, at, left) = (request.cookie, request.offset, request.length.0);
        StatusReply { out, form, cookie, at, left, most, finished: 0, open: None }
    }

    /// Adds the next extent. What lies beyond the request is cut off; an empty extent is ignored.
    ///
    /// Returns whether another one can have an effect.
    pub fn push(&mut self, length: ByteLen, state: Allocation) -> bool {
        let length = length.0.min(self.left);
        if length == 0 {
            return self.left > 0;
        }
        match self.open {
            Some((open, same)) if same == state => self.open = Some((open + length, state)),
            Some(_) if self.finished + 1 == self.most => {
                self.left = 0;
                return false;
            }
            _ => {
                self.finish_open();
                self.open = Some((length, state));
            }
        }
        self.left -= length;
        self.left > 0
    }

    /// Ends the reply. If nothing was pushed, all of the request is reported as data.
    pub fn finish(mut self) -> Head {
        if self.open.is_none() {
            self.push(ByteLen(self.left), Allocation::Data);
        }
        self.finish_open();
        let count = self.finished as u32;
        let (kind, length) = match self.form {
            Form::Extended => (chunk::BLOCK_STATUS_EXT, 8 + 16 * count),
            Form::Simple | Form::Structured => (chunk::BLOCK_STATUS, 4 + 8 * count),
        };
        let head = Head::chunk(self.form, self.cookie, self.at, kind, Place::Last, length);
        let head = head.u32(BASE_ALLOCATION_ID);
        if self.form == Form::Extended { head.u32(count) } else { head }
    }

    fn finish_open(&mut self) {
        if let Some((length, state)) = self.open.take() {
            if self.form == Form::Extended {
                self.out.extend_from_slice(&length.to_be_bytes());
                self.out.extend_from_slice(&u64::from(state as u32).to_be_bytes());
            } else {
                // A compact request is that short.
                self.out.extend_from_slice(&(length as u32).to_be_bytes());
                self.out.extend_from_slice(&(state as u32).to_be_bytes());
            }
            self.finished += 1;
        }
    }
}
