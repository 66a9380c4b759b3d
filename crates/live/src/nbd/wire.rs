//! Numbers and byte layouts of the NBD protocol, for both sides of a connection.
//!
//! Every field on the wire is big-endian ("network byte order"). Names follow the protocol text, `doc/proto.md` of
//! `NetworkBlockDevice/nbd`, without the `NBD_` prefix; its sections are named beside each group.

/// First eight bytes a server sends: `NBDMAGIC` in ASCII ("Newstyle negotiation").
pub const NBD_MAGIC: u64 = 0x4e42_444d_4147_4943;
/// Starts the negotiation and every option: `IHAVEOPT` in ASCII ("Newstyle negotiation").
pub const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
/// Starts every reply to an option ("Fixed newstyle negotiation").
pub const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
/// Starts every request ("Request message").
pub const REQUEST_MAGIC: u32 = 0x2560_9513;
/// Starts a simple reply ("Simple reply message").
pub const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
/// Starts a chunk of a structured reply ("Structured reply chunk message").
pub const CHUNK_MAGIC: u32 = 0x668e_33ef;
/// Starts every request of a session with extended headers ("Request message").
pub const EXTENDED_REQUEST_MAGIC: u32 = 0x21e4_1c71;
/// Starts every chunk of a session with extended headers ("Extended reply chunk message").
pub const EXTENDED_CHUNK_MAGIC: u32 = 0x6e8a_278c;

/// Bytes of what the server sends first: two magic numbers and its handshake flags.
pub const GREETING_BYTES: usize = 18;
/// Bytes of the client's flags, its first message.
pub const CLIENT_FLAGS_BYTES: usize = 4;
/// Bytes of an option before its data: magic, option, length.
pub const OPTION_HEAD_BYTES: usize = 16;
/// Bytes of an option reply before its data: magic, option, type, length.
pub const OPTION_REPLY_HEAD_BYTES: usize = 20;
/// Bytes of a request before the data of a write.
pub const REQUEST_BYTES: usize = 28;
/// Bytes of an extended request before its payload.
pub const EXTENDED_REQUEST_BYTES: usize = 32;
/// Bytes of a simple reply before the data of a read.
pub const SIMPLE_REPLY_BYTES: usize = 16;
/// Bytes of a chunk before its payload.
pub const CHUNK_HEAD_BYTES: usize = 20;
/// Bytes of an extended chunk before its payload.
pub const EXTENDED_CHUNK_HEAD_BYTES: usize = 32;
/// Zeroes that end the answer to `OPT_EXPORT_NAME` unless the client waived them.
pub const RESERVED_ZEROES: usize = 124;
/// Longest string of the protocol, in bytes ("Conventions").
pub const STRING_MAX: usize = 4096;

/// Handshake flags, server to client, 16 bits ("Handshake flags").
pub mod handshake_flag {
    /// The server speaks fixed newstyle.
    pub const FIXED_NEWSTYLE: u16 = 1 << 0;
    /// The server can leave out the reserved zeroes.
    pub const NO_ZEROES: u16 = 1 << 1;
}

/// Client flags, client to server, 32 bits ("Client flags").
pub mod client_flag {
    /// The client speaks fixed newstyle.
    pub const FIXED_NEWSTYLE: u32 = 1 << 0;
    /// The client does not want the reserved zeroes.
    pub const NO_ZEROES: u32 = 1 << 1;
    /// Every flag a client may set. Others end the session.
    pub const KNOWN: u32 = FIXED_NEWSTYLE | NO_ZEROES;
}

/// Options a client sends before the transmission phase ("Option types").
pub mod opt {
    /// Choose an export and start; cannot be refused but by hanging up.
    pub const EXPORT_NAME: u32 = 1;
    /// End the session.
    pub const ABORT: u32 = 2;
    /// Name all exports.
    pub const LIST: u32 = 3;
    /// Upgrade to TLS.
    pub const STARTTLS: u32 = 5;
    /// Describe an export.
    pub const INFO: u32 = 6;
    /// Describe an export and start.
    pub const GO: u32 = 7;
    /// Use structured replies.
    pub const STRUCTURED_REPLY: u32 = 8;
    /// List metadata contexts.
    pub const LIST_META_CONTEXT: u32 = 9;
    /// Select metadata contexts.
    pub const SET_META_CONTEXT: u32 = 10;
    /// Use extended headers.
    pub const EXTENDED_HEADERS: u32 = 11;
}

/// Types of option replies ("Option reply types").
pub mod rep {
    /// Done.
    pub const ACK: u32 = 1;
    /// One export of a list.
    pub const SERVER: u32 = 2;
    /// One piece of information about an export.
    pub const INFO: u32 = 3;
    /// One metadata context.
    pub const META_CONTEXT: u32 = 4;
    /// Set in every error.
    pub const ERROR_BIT: u32 = 1 << 31;
    /// The option is unknown.
    pub const ERR_UNSUP: u32 = ERROR_BIT + 1;
    /// The server does not want to: it has too many clients.
    pub const ERR_POLICY: u32 = ERROR_BIT + 2;
    /// The option is malformed or comes at the wrong time.
    pub const ERR_INVALID: u32 = ERROR_BIT + 3;
    /// TLS must come first.
    pub const ERR_TLS_REQD: u32 = ERROR_BIT + 5;
    /// There is no such export.
    pub const ERR_UNKNOWN: u32 = ERROR_BIT + 6;
    /// The server is going away.
    pub const ERR_SHUTDOWN: u32 = ERROR_BIT + 7;
    /// The option is too long.
    pub const ERR_TOO_BIG: u32 = ERROR_BIT + 9;
    /// Extended headers are in use, or have to be.
    pub const ERR_EXT_HEADER_REQD: u32 = ERROR_BIT + 10;
}

/// Types of information about an export (`NBD_REP_INFO`).
pub mod info {
    /// Size and transmission flags.
    pub const EXPORT: u16 = 0;
    /// Canonical name.
    pub const NAME: u16 = 1;
    /// Text for people.
    pub const DESCRIPTION: u16 = 2;
    /// Minimum block, preferred block, largest payload.
    pub const BLOCK_SIZE: u16 = 3;
}

/// Transmission flags, server to client, 16 bits ("Transmission flags").
pub mod transmission_flag {
    /// Always set.
    pub const HAS_FLAGS: u16 = 1 << 0;
    /// Writes are refused.
    pub const READ_ONLY: u16 = 1 << 1;
    /// `CMD_FLUSH` works.
    pub const SEND_FLUSH: u16 = 1 << 2;
    /// `CMD_FLAG_FUA` works.
    pub const SEND_FUA: u16 = 1 << 3;
    /// The medium rotates.
    pub const ROTATIONAL: u16 = 1 << 4;
    /// `CMD_TRIM` works.
    pub const SEND_TRIM: u16 = 1 << 5;
    /// `CMD_WRITE_ZEROES` works.
    pub const SEND_WRITE_ZEROES: u16 = 1 << 6;
    /// `CMD_FLAG_DF` works; only with structured replies.
    pub const SEND_DF: u16 = 1 << 7;
    /// A flush covers the writes of every connection.
    pub const CAN_MULTI_CONN: u16 = 1 << 8;
    /// `CMD_CACHE` works.
    pub const SEND_CACHE: u16 = 1 << 10;
    /// `CMD_FLAG_FAST_ZERO` is understood.
    pub const SEND_FAST_ZERO: u16 = 1 << 11;
    /// `CMD_BLOCK_STATUS` takes a payload that names metadata contexts; only with extended headers and a selected context.
    pub const BLOCK_STATUS_PAYLOAD: u16 = 1 << 12;
}

/// Commands of the transmission phase ("Request types").
pub mod cmd {
    /// Read.
    pub const READ: u16 = 0;
    /// Write; its data follow the request.
    pub const WRITE: u16 = 1;
    /// End the session; has no reply.
    pub const DISC: u16 = 2;
    /// Make acknowledged writes durable.
    pub const FLUSH: u16 = 3;
    /// Forget an extent.
    pub const TRIM: u16 = 4;
    /// Announce use of an extent.
    pub const CACHE: u16 = 5;
    /// Zero an extent.
    pub const WRITE_ZEROES: u16 = 6;
    /// Ask for the state of an extent.
    pub const BLOCK_STATUS: u16 = 7;
}

/// Flags of a request, 16 bits ("Command flags").
pub mod cmd_flag {
    /// Durable before the reply.
    pub const FUA: u16 = 1 << 0;
    /// Zeroed space stays allocated.
    pub const NO_HOLE: u16 = 1 << 1;
    /// At most one content chunk.
    pub const DF: u16 = 1 << 2;
    /// At most one extent.
    pub const REQ_ONE: u16 = 1 << 3;
    /// Zero fast or not at all.
    pub const FAST_ZERO: u16 = 1 << 4;
    /// The length is that of a payload; only with extended headers, on writes and on block status.
    pub const PAYLOAD_LEN: u16 = 1 << 5;
}

/// Types of chunks ("Structured reply types").
pub mod chunk {
    /// Flag of the last chunk of a reply ("Structured reply flags").
    pub const FLAG_DONE: u16 = 1 << 0;
    /// Nothing but the end.
    pub const NONE: u16 = 0;
    /// Data at an offset.
    pub const OFFSET_DATA: u16 = 1;
    /// Zeroes at an offset.
    pub const OFFSET_HOLE: u16 = 2;
    /// Extents of one metadata context.
    pub const BLOCK_STATUS: u16 = 5;
    /// The same with 64 bits; with extended headers only, and always then.
    pub const BLOCK_STATUS_EXT: u16 = 6;
    /// The request failed.
    pub const ERROR: u16 = (1 << 15) + 1;
    /// The request failed at an offset.
    pub const ERROR_OFFSET: u16 = (1 << 15) + 2;
}

/// The one metadata context there is ("The `base:` metadata namespace").
pub const BASE_ALLOCATION: &[u8] = b"base:allocation";
/// The query that lists every context of the namespace.
pub const BASE_WILDCARD: &[u8] = b"base:";
/// The number by which replies name `base:allocation`; any value is allowed.
pub const BASE_ALLOCATION_ID: u32 = 1;
/// The payload of a block status that names this one context: the length of the extent, and the context's number.
pub const STATUS_PAYLOAD_BYTES: usize = 8 + 4;

/// Reads big-endian fields from the front of a message. Never panics: a short message gives `None`.
#[derive(Clone, Copy, Debug)]
pub struct Fields<'a>(pub &'a [u8]);

impl<'a> Fields<'a> {
    /// The next `n` bytes.
    #[inline]
    pub fn bytes(&mut self, n: usize) -> Option<&'a [u8]> {
        let (head, tail) = self.0.split_at_checked(n)?;
        self.0 = tail;
        Some(head)
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, tail) = self.0.split_first_chunk::<N>()?;
        self.0 = tail;
        Some(*head)
    }

    /// The next 16 bits.
    #[inline]
    pub fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    /// The next 32 bits.
    #[inline]
    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    /// The next 64 bits.
    #[inline]
    pub fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    /// A string: 32 bits of length, then at most [`STRING_MAX`] bytes.
    pub fn string(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.u32()?).ok()?;
        if length > STRING_MAX {
            return None;
        }
        self.bytes(length)
    }

    /// Whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A request as it stands on the wire, magic number checked ("Request message").
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RequestHead {
    /// [`cmd_flag`] bits.
    pub flags: u16,
    /// A [`cmd`] number, perhaps an unknown one.
    pub command: u16,
    /// Chosen by the client, repeated in every reply.
    pub cookie: u64,
    /// Bytes from the start of the export.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
}

impl RequestHead {
    /// Splits the fields of a request. The error is the magic number found instead of [`REQUEST_MAGIC`].
    #[inline]
    pub fn parse(bytes: &[u8; REQUEST_BYTES]) -> Result<RequestHead, u32> {
        let b = bytes;
        let magic = u32::from_be_bytes([b[0], b[1], b[2], b[3]]);
        if magic != REQUEST_MAGIC {
            return Err(magic);
        }
        Ok(RequestHead {
            flags: u16::from_be_bytes([b[4], b[5]]),
            command: u16::from_be_bytes([b[6], b[7]]),
            cookie: u64::from_be_bytes([b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]]),
            offset: u64::from_be_bytes([b[16], b[17], b[18], b[19], b[20], b[21], b[22], b[23]]),
            length: u32::from_be_bytes([b[24], b[25], b[26], b[27]]).into(),
        })
    }

    /// The same of an extended request. The error is the magic number found instead of [`EXTENDED_REQUEST_MAGIC`].
    pub fn parse_extended(bytes: &[u8; EXTENDED_REQUEST_BYTES]) -> Result<RequestHead, u32> {
        let mut fields = Fields(bytes);
        let mut word = || fields.u64().unwrap_or_default();
        let (first, cookie, offset, length) = (word(), word(), word(), word());
        let magic = (first >> 32) as u32;
        if magic != EXTENDED_REQUEST_MAGIC {
            return Err(magic);
        }
        Ok(RequestHead { flags: (first >> 16) as u16, command: first as u16, cookie, offset, length })
    }
}
