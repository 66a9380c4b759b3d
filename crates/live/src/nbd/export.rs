//! What a server offers: exports and their properties.

use nandu_base::{ByteLen, ByteOffset};
use thiserror::Error;

use super::wire::{self, transmission_flag as flag};

/// Sizes a client has to respect ("Size constraints").
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockSizes {
    /// Offsets and lengths must be multiples of this. A power of two from 1 to 64 KiB. Default 1.
    pub minimum: ByteLen,
    /// Aligned requests of this size need no read-modify-write. A power of two, at least `minimum` and 512 B,
    /// at most 2 GiB. Default 4 KiB.
    pub preferred: ByteLen,
    /// Longest payload of one read or write. At least `preferred` and 64 KiB (an unfragmented read of that size must
    /// work), at most 2 GiB. Default 32 MiB, which every client may use unasked. Requests without payload (trim,
    /// write-zeroes, cache, block status) may be as long as the export and 4 GiB - 1.
    pub maximum: ByteLen,
}

impl Default for BlockSizes {
    fn default() -> Self {
        BlockSizes { minimum: ByteLen(1), preferred: ByteLen::kib(4), maximum: ByteLen::mib(32) }
    }
}

/// One thing to mount: its name, its size and what it can do.
///
/// A property that is not set is not advertised, and a client that uses it all the same gets `EINVAL`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Export {
    /// The name clients ask for: UTF-8 without NUL, at most 4096 bytes (256 or fewer work everywhere).
    pub name: String,
    /// Text for people, at most 4096 bytes. Empty: none.
    pub description: String,
    /// Bytes from 0 to 2^63 - 1, a multiple of the minimum block.
    pub size: ByteLen,
    /// Writes, trims and zeroes are refused with `EPERM`; trim and zeroes are not advertised.
    pub read_only: bool,
    /// The medium has a head that moves.
    pub rotational: bool,
    /// Flush works. Without it a client's `fsync` does nothing: leave it out only where writes are durable at once.
    pub can_flush: bool,
    /// Force unit access works on writes, trims and zeroes.
    pub can_fua: bool,
    /// Trim works.
    pub can_trim: bool,
    /// Write-zeroes works, without leaving a hole too where the client asks so.
    pub can_write_zeroes: bool,
    /// Zeroing can be faster than writing. Without it, a request for fast zeroes is refused with `ENOTSUP`.
    pub can_fast_zero: bool,
    /// Advertise that fast zeroes are understood also where they are always refused. Default true. Without it, they are an
    /// unknown flag there.
    pub knows_fast_zero: bool,
    /// Cache (a hint to prefetch) works.
    pub can_cache: bool,
    /// A flush on one connection covers the writes acknowledged on all others ("Transmission flags", bit 8).
    pub multi_conn: bool,
    /// Sizes requests have to respect.
    pub blocks: BlockSizes,
}

impl Export {
    /// An export that can be read and written, and nothing else yet.
    pub fn new(name: impl Into<String>, size: ByteLen) -> Export {
        Export {
            name: name.into(),
            description: String::new(),
            size,
            read_only: false,
            rotational: false,
            can_flush: false,
            can_fua: false,
            can_trim: false,
            can_write_zeroes: false,
            can_fast_zero: false,
            knows_fast_zero: true,
            can_cache: false,
            multi_conn: false,
            blocks: BlockSizes::default(),
        }
    }

    /// The transmission flags to advertise, with or without structured replies ("Transmission flags").
    pub fn transmission_flags(&self, structured: bool) -> u16 {
        let zeroes = self.can_write_zeroes && !self.read_only;
        let pairs = [
            (true, flag::HAS_FLAGS),
            (self.read_only, flag::READ_ONLY),
            (self.can_flush, flag::SEND_FLUSH),
            (self.can_fua, flag::SEND_FUA),
            (self.rotational, flag::ROTATIONAL),
            (self.can_trim && !self.read_only, flag::SEND_TRIM),
            (zeroes, flag::SEND_WRITE_ZEROES),
            (zeroes && (self.can_fast_zero || self.knows_fast_zero), flag::SEND_FAST_ZERO),
            (structured, flag::SEND_DF),
            (self.multi_conn, flag::CAN_MULTI_CONN),
            (self.can_cache, flag::SEND_CACHE),
        ];
        pairs.iter().fold(0, |all, &(set, bit)| if set { all | bit } else { all })
    }

    /// Whether `length` bytes at `offset` lie inside the export.
    pub fn contains(&self, offset: ByteOffset, length: ByteLen) -> bool {
        offset.0.checked_add(length.0).is_some_and(|end| end <= self.size.0)
    }

    fn problem(&self) -> Option<ExportProblem> {
        let BlockSizes { minimum, preferred, maximum } = self.blocks;
        let two_gib = 1 << 31;
        if self.name.len() > wire::STRING_MAX || self.description.len() > wire::STRING_MAX {
            Some(ExportProblem::StringTooLong)
        } else if self.name.contains('\0') || self.description.contains('\0') {
            Some(ExportProblem::Nul)
        } else if !minimum.0.is_power_of_two() || minimum.0 > 64 << 10 {
            Some(ExportProblem::Minimum(minimum))
        } else if !preferred.0.is_power_of_two() || preferred.0 < minimum.0.max(512) || preferred.0 > two_gib
        {
            Some(ExportProblem::Preferred(preferred))
        } else if maximum.0 < preferred.0.max(64 << 10) || maximum.0 > two_gib {
            Some(ExportProblem::Maximum(maximum))
        } else if !self.size.0.is_multiple_of(minimum.0) || self.size.0 > i64::MAX as u64 {
            Some(ExportProblem::Size(self.size))
        } else {
            None
        }
    }
}

/// Why an export cannot be offered. A mistake of the caller, found before the first client comes.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("export {name:?}: {problem}")]
pub struct ExportError {
    /// Name of the export.
    pub name: String,
    /// What is wrong with it.
    pub problem: ExportProblem,
}

/// What is wrong with an export.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum ExportProblem {
    /// Two exports have this name.
    #[error("the name is used twice")]
    NameTwice,
    /// Name or description over 4096 bytes.
    #[error("name and description may have 4096 bytes at most")]
    StringTooLong,
    /// A NUL in name or description.
    #[error("name and description may not contain NUL")]
    Nul,
    /// Bad minimum block.
    #[error("minimum block {} B must be a power of two from 1 to 65536", .0.0)]
    Minimum(ByteLen),
    /// Bad preferred block.
    #[error("preferred block {} B must be a power of two, at least 512 and the minimum block, at most 2 GiB", .0.0)]
    Preferred(ByteLen),
    /// Bad largest payload.
    #[error("largest payload {} B must be at least 65536 and the preferred block, at most 2 GiB", .0.0)]
    Maximum(ByteLen),
    /// Bad size.
    #[error("size {} B must be a multiple of the minimum block and below 2^63", .0.0)]
    Size(ByteLen),
}

/// The exports of one server, in the order in which it lists them.
///
/// The empty name, which clients use when they have no name to give, means the first export.
#[derive(Clone, Default, Debug)]
pub struct Exports(Vec<Export>);

impl Exports {
    /// Checks every export and that no name is used twice.
    ///
    /// # Errors
    /// [`ExportError`] names the first export that breaks a bound, and the bound.
    pub fn new(exports: Vec<Export>) -> Result<Exports, ExportError> {
        for (i, export) in exports.iter().enumerate() {
            let twice = exports[..i].iter().any(|other| other.name == export.name);
            let problem = if twice { Some(ExportProblem::NameTwice) } else { export.problem() };
            if let Some(problem) = problem {
                return Err(ExportError { name: export.name.clone(), problem });
            }
        }
        Ok(Exports(exports))
    }

    /// The export a client means by `name`, as an index into [`Exports::all`].
    pub fn find(&self, name: &[u8]) -> Option<usize> {
        let exact = self.0.iter().position(|export| export.name.as_bytes() == name);
        exact.or((name.is_empty() && !self.0.is_empty()).then_some(0))
    }

    /// All of them.
    pub fn all(&self) -> &[Export] {
        &self.0
    }
}
