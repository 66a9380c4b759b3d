//! What travels through a stack.

/// What a request asks for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Op {
    /// Fill the payload with the data of the extent.
    Read = 0,
    /// Store the payload at the extent.
    Write = 1,
    /// Make all that was acknowledged before this request arrived survive a power cut. Has no extent.
    Flush = 2,
    /// The data of the extent is no longer needed; it reads as zeros afterwards.
    Trim = 3,
    /// The extent reads as zeros afterwards.
    WriteZeroes = 4,
    /// Erase the extent, a whole number of erase units. Only bare flash and zoned devices take it.
    Reset = 5,
}

impl Op {
    /// Every operation, in the order of its number.
    pub const ALL: [Op; 6] = [Op::Read, Op::Write, Op::Flush, Op::Trim, Op::WriteZeroes, Op::Reset];

    /// The name people and files use.
    pub const fn name(self) -> &'static str {
        match self {
            Op::Read => "read",
            Op::Write => "write",
            Op::Flush => "flush",
            Op::Trim => "trim",
            Op::WriteZeroes => "write-zeroes",
            Op::Reset => "reset",
        }
    }
}
