//! The transmission phase, client to server: requests ("Request message", "Request types").
//!
//! Each request is read, judged, and handed out as a [`Request`] that the export can serve, or as a [`Refusal`]. The
//! machine remembers no request: any number may be in flight, and each is answered by its cookie when it is done.

use nandu_base::{ByteLen, ByteOffset};

use super::error::{Errno, NbdError};
use super::export::{BlockSizes, Export};
use super::options::Start;
use super::reply::Form;
use super::wire::{self, RequestHead, cmd, cmd_flag, transmission_flag as flag};

/// The client's number for a request, repeated in every reply to it. Opaque: a client may even use one twice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Cookie(pub u64);

/// What a request asks for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Command {
    /// Send the data of the extent.
    Read {
        /// All data in one chunk, holes filled with zeroes. Only with structured replies.
        unfragmented: bool,
    },
    /// Store the payload that follows.
    Write,
    /// Make every acknowledged write durable. Has no extent.
    Flush,
    /// The extent is not needed any more. A hint.
    Trim,
    /// The extent reads as zeroes afterwards.
    WriteZeroes {
        /// The space must stay allocated.
        no_hole: bool,
        /// Be faster than a write or answer [`Errno::NotSup`] at once, and change nothing. Only where the export says
        /// that it can be fast; elsewhere the codec refuses.
        fast: bool,
    },
    /// The extent is needed soon. A hint.
    Cache,
    /// Say which parts of the extent are allocated; see [`StatusReply`](super::StatusReply).
    BlockStatus {
        /// One extent is enough.
        one: bool,
    },
}

/// A request that may be served. It is checked against export and negotiation: inside the export, aligned to its
/// minimum block, no payload above its maximum, never a change to a read-only export.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Request {
    /// To be repeated in the reply.
    pub cookie: Cookie,
    /// What to do.
    pub command: Command,
    /// Force unit access: the effect is durable before the reply. May be set on any command; those that change
    /// nothing ignore it.
    pub fua: bool,
    /// Start of the extent, in bytes. 0 for a flush.
    pub offset: ByteOffset,
    /// Length of the extent, from 1 to 2^32 - 1 bytes, or to 2^63 - 1 with extended headers. 0 for a flush.
    pub length: ByteLen,
}

/// A request that the codec turns down. The driver must send [`Replies::refuse`](super::Replies::refuse) for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// To be repeated in the reply.
    pub cookie: Cookie,
    /// Where the request begins, to be repeated too.
    pub offset: ByteOffset,
    /// The error to report.
    pub errno: Errno,
    /// The reason, for people.
    pub reason: &'static str,
}

/// What one call brought about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Received {
    NeedMore,
    NeedPayload,
    Request(Request),
    Refused(Refusal),
    Disconnect,
}

/// What is to be done with a request.
enum Verdict {
    Serve(Request),
    Refuse(Refusal),
    Disconnect,
}

/// The machine that reads requests. Fixed size, no allocation.
#[derive(Debug)]
pub(super) struct Transmission {
    gate: Gate,
    /// The head being read.
    head: [u8; wire::EXTENDED_REQUEST_BYTES],
    filled: usize,
    /// Payload bytes the driver has still to take.
    payload: u32,
    /// A refused write and how many of its payload bytes are still to be dropped.
    draining: Option<(Refusal, u64)>,
    /// A block status whose payload is being read.
    choosing: Option<Choosing>,
}

/// A block status that names the contexts it asks about.
#[derive(Debug)]
struct Choosing {
    head: RequestHead,
    payload: [u8; wire::STATUS_PAYLOAD_BYTES],
    filled: usize,
}

impl Transmission {
    pub(super) fn new(export: &Export, start: Start) -> Transmission {
        let gate = Gate::new(export, start);
        Transmission {
            gate,
            head: [0; wire::EXTENDED_REQUEST_BYTES],
            filled: 0,
            payload: 0,
            draining: None,
            choosing: None,
        }
    }

    pub(super) fn mid_message(&self) -> bool {
        self.filled > 0 || self.payload > 0 || self.draining.is_some() || self.choosing.is_some()
    }

    pub(super) fn payload(&self) -> u32 {
        self.payload
    }

    pub(super) fn payload_taken(&mut self, n: usize) {
        assert!(n <= self.payload as usize, "{n} payload bytes taken, {} owed", self.payload);
        self.payload -= n as u32;
    }

    /// Reads `input` up to the end of the next request head, with the payload of a block status, or of a refused payload. Returns the bytes consumed:
    /// all of them when more are needed, none while payload is owed.
    pub(super) fn step(&mut self, shutting_down: bool, input: &[u8]) -> Result<(usize, Received), NbdError> {
        if self.payload > 0 {
            return Ok((0, Received::NeedPayload));
        }
        if self.draining.is_some() {
            return Ok(self.drain(input));
        }
        if self.choosing.is_some() {
            return Ok(self.choose(shutting_down, input));
        }
        let size = self.gate.head_bytes();
        let n = input.len().min(size - self.filled);
        self.head[self.filled..self.filled + n].copy_from_slice(&input[..n]);
        self.filled += n;
        if self.filled < size {
            return Ok((n, Received::NeedMore));
        }
        self.filled = 0;
        let head = self.gate.parse(&self.head)?;
        let payload = self.gate.payload(&head)?;
        if self.gate.may_choose(&head) && payload == wire::STATUS_PAYLOAD_BYTES as u64 {
            self.choosing = Some(Choosing { head, payload: [0; wire::STATUS_PAYLOAD_BYTES], filled: 0 });
            let (used, received) = self.choose(shutting_down, &input[n..]);
            return Ok((n + used, received));
        }
        match self.gate.judge(&head, shutting_down) {
            Verdict::Serve(request) => {
                if request.command == Command::Write {
                    self.payload = request.length.0 as u32;
                }
                Ok((n, Received::Request(request)))
            }
            Verdict::Refuse(refusal) if payload > 0 => {
                self.draining = Some((refusal, payload));
                let (dropped, received) = self.drain(&input[n..]);
                Ok((n + dropped, received))
            }
            Verdict::Refuse(refusal) => Ok((n, Received::Refused(refusal))),
            Verdict::Disconnect => Ok((n, Received::Disconnect)),
        }
    }

    /// Reads the payload of a block status, and judges the request when it is complete.
    fn choose(&mut self, shutting_down: bool, input: &[u8]) -> (usize, Received) {
        let Some(choosing) = &mut self.choosing else {
            return (0, Received::NeedMore);
        };
        let n = input.len().min(choosing.payload.len() - choosing.filled);
        choosing.payload[choosing.filled..choosing.filled + n].copy_from_slice(&input[..n]);
        choosing.filled += n;
        if choosing.filled < choosing.payload.len() {
            return (n, Received::NeedMore);
        }
        let (mut head, mut fields) = (choosing.head, wire::Fields(&choosing.payload));
        let (length, context) = (fields.u64().unwrap_or_default(), fields.u32());
        self.choosing = None;
        head.length = length;
        if context == Some(wire::BASE_ALLOCATION_ID) {
            // It asks about all contexts that there are, as it would without a payload.
            head.flags &= !cmd_flag::PAYLOAD_LEN;
        }
        let received = match self.gate.judge(&head, shutting_down) {
            Verdict::Serve(request) => Received::Request(request),
            Verdict::Refuse(refusal) => Received::Refused(refusal),
            Verdict::Disconnect => Received::Disconnect,
        };
        (n, received)
    }

    /// Drops payload of a refused write. The refusal comes after the last byte, so that a client that sends
    /// everything before it reads is served too.
    fn drain(&mut self, input: &[u8]) -> (usize, Received) {
        let Some((refusal, left)) = self.draining else {
            return (0, Received::NeedMore);
        };
        let n = input.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let left = left - n as u64;
        if left == 0 {
            self.draining = None;
            (n, Received::Refused(refusal))
        } else {
            self.draining = Some((refusal, left));
            (n, Received::NeedMore)
        }
    }
}

/// Why a request is refused: error and text for people.
type Reason = (Errno, &'static str);

/// The rules a request has to pass ("Size constraints", "Command flags", "Error values").
#[derive(Clone, Copy, Debug)]
struct Gate {
    /// Bytes.
    size: u64,
    /// Minimum block minus one.
    misaligned: u64,
    /// Longest payload in bytes.
    maximum: u64,
    /// Transmission flags as advertised.
    advertised: u16,
    can_fast_zero: bool,
    form: Form,
    block_status: bool,
}

impl Gate {
    fn new(export: &Export, start: Start) -> Gate {
        Gate {
            size: export.size.0,
            misaligned: export.blocks.minimum.0 - 1,
            maximum: export.blocks.maximum.0,
            advertised: export.transmission_flags(start.form != Form::Simple),
            can_fast_zero: export.can_fast_zero,
            form: start.form,
            block_status: start.block_status,
        }
    }

    fn has(&self, bit: u16) -> bool {
        self.advertised & bit != 0
    }

    /// Bytes of the head of a request.
    #[inline]
    fn head_bytes(&self) -> usize {
        match self.form {
            Form::Extended => wire::EXTENDED_REQUEST_BYTES,
            Form::Simple | Form::Structured => wire::REQUEST_BYTES,
        }
    }

    #[inline]
    fn parse(&self, bytes: &[u8; wire::EXTENDED_REQUEST_BYTES]) -> Result<RequestHead, NbdError> {
        if self.form == Form::Extended {
            let wanted = wire::EXTENDED_REQUEST_MAGIC;
            return RequestHead::parse_extended(bytes)
                .map_err(|found| NbdError::RequestMagic { found, wanted });
        }
        let compact = bytes.first_chunk().expect("it is shorter");
        RequestHead::parse(compact)
            .map_err(|found| NbdError::RequestMagic { found, wanted: wire::REQUEST_MAGIC })
    }

    /// Bytes that follow the head. More than the longest payload, or than the one that every client may use, end an extended session.
    #[inline]
    fn payload(&self, head: &RequestHead) -> Result<u64, NbdError> {
        let has_payload = match self.form {
            Form::Extended => head.flags & cmd_flag::PAYLOAD_LEN != 0,
            Form::Simple | Form::Structured => head.command == cmd::WRITE,
        };
        let most = self.maximum.max(BlockSizes::default().maximum.0);
        if !has_payload {
            Ok(0)
        } else if self.form == Form::Extended && head.length > most {
            Err(NbdError::PayloadTooLong { length: head.length, most })
        } else {
            Ok(head.length)
        }
    }

    /// Whether the request names metadata contexts in a payload, and may.
    #[inline]
    fn may_choose(&self, head: &RequestHead) -> bool {
        let is_extended = self.form == Form::Extended && self.block_status;
        is_extended && head.command == cmd::BLOCK_STATUS && head.flags & cmd_flag::PAYLOAD_LEN != 0
    }

    fn judge(&self, head: &RequestHead, shutting_down: bool) -> Verdict {
        if head.command == cmd::DISC {
            return Verdict::Disconnect;
        }
        let cookie = Cookie(head.cookie);
        let judged = self.command(head).and_then(|command| {
            if shutting_down {
                return Err((Errno::Shutdown, "the server is shutting down"));
            }
            self.extent(head, command)?;
            Ok(command)
        });
        match judged {
            Ok(command) => Verdict::Serve(Request {
                cookie,
                command,
                fua: head.flags & cmd_flag::FUA != 0,
                offset: ByteOffset(head.offset),
                length: ByteLen(head.length),
            }),
            Err((errno, reason)) => {
                Verdict::Refuse(Refusal { cookie, offset: ByteOffset(head.offset), errno, reason })
            }
        }
    }

    /// Whether the command exists here, and its flags too. Writes on a read-only export end here.
    fn command(&self, head: &RequestHead) -> Result<Command, Reason> {
        let fua = if self.has(flag::SEND_FUA) { cmd_flag::FUA } else { 0 };
        let is_extended = self.form == Form::Extended;
        let payload = if is_extended { cmd_flag::PAYLOAD_LEN } else { 0 };
        let set = |bit| head.flags & bit != 0;
        let (command, allowed, offered) = match head.command {
            cmd::READ => {
                let df = if self.has(flag::SEND_DF) { cmd_flag::DF } else { 0 };
                (Command::Read { unfragmented: set(cmd_flag::DF) }, df, true)
            }
            cmd::WRITE => (Command::Write, payload, true),
            cmd::FLUSH => (Command::Flush, 0, self.has(flag::SEND_FLUSH)),
            cmd::TRIM => (Command::Trim, 0, self.has(flag::SEND_TRIM)),
            cmd::CACHE => (Command::Cache, 0, self.has(flag::SEND_CACHE)),
            cmd::WRITE_ZEROES => {
                let (no_hole, fast) = (set(cmd_flag::NO_HOLE), set(cmd_flag::FAST_ZERO));
                let known = if self.has(flag::SEND_FAST_ZERO) { cmd_flag::FAST_ZERO } else { 0 };
                let flags = cmd_flag::NO_HOLE | known;
                (Command::WriteZeroes { no_hole, fast }, flags, self.has(flag::SEND_WRITE_ZEROES))
            }
            cmd::BLOCK_STATUS => {
                let payload = if self.may_choose(head) { payload } else { 0 };
                let flags = cmd_flag::REQ_ONE | payload;
                (Command::BlockStatus { one: set(cmd_flag::REQ_ONE) }, flags, self.block_status)
            }
            _ => return Err((Errno::Inval, "unknown command")),
        };
        let changes = matches!(command, Command::Write | Command::Trim | Command::WriteZeroes { .. });
        if changes && self.has(flag::READ_ONLY) {
            Err((Errno::Perm, "the export is read-only"))
        } else if !offered {
            Err((Errno::Inval, "this command was not offered"))
        } else if head.flags & !(allowed | fua) != 0 {
            Err((Errno::Inval, "this command does not take these flags here"))
        } else if is_extended && command == Command::Write && !set(cmd_flag::PAYLOAD_LEN) {
            Err((Errno::Inval, "a write has a payload"))
        } else if self.may_choose(head) {
            Err((Errno::Inval, "the payload has to be a length and the number of one selected context"))
        } else if matches!(command, Command::WriteZeroes { fast: true, .. }) && !self.can_fast_zero {
            Err((Errno::NotSup, "zeroing is no faster than writing"))
        } else {
            Ok(command)
        }
    }

    /// Whether offset and length suit export and command.
    fn extent(&self, head: &RequestHead, command: Command) -> Result<(), Reason> {
        let length = head.length;
        if command == Command::Flush {
            return if head.offset == 0 && length == 0 {
                Ok(())
            } else {
                Err((Errno::Inval, "a flush has neither offset nor length"))
            };
        }
        let inside = head.offset.checked_add(length).is_some_and(|end| end <= self.size);
        let payload = matches!(command, Command::Read { .. } | Command::Write);
        if length == 0 {
            Err((Errno::Inval, "the length is zero"))
        } else if !inside && matches!(command, Command::Write | Command::WriteZeroes { .. }) {
            Err((Errno::NoSpc, "the extent ends beyond the export"))
        } else if !inside {
            Err((Errno::Inval, "the extent ends beyond the export"))
        } else if (head.offset | length) & self.misaligned != 0 {
            Err((Errno::Inval, "offset or length is not a multiple of the minimum block"))
        } else if payload && head.length > self.maximum {
            Err((self.too_long(command), "longer than the largest payload"))
        } else {
            Ok(())
        }
    }

    /// `EOVERFLOW` is reserved for reads where "don't fragment" exists, that is with structured replies.
    fn too_long(&self, command: Command) -> Errno {
        if self.form != Form::Simple && matches!(command, Command::Read { .. }) {
            Errno::Overflow
        } else {
            Errno::Inval
        }
    }
}
