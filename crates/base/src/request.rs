//! What travels through a stack: requests, and the table in which the driver keeps them.

use crate::path::{CriticalPath, Phase};
use crate::payload::Payload;
use crate::units::{ByteLen, ByteOffset, Instant, Span};

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

    /// Whether the data of the extent differs afterwards.
    #[inline]
    pub const fn changes_data(self) -> bool {
        matches!(self, Op::Write | Op::Trim | Op::WriteZeroes | Op::Reset)
    }
}

/// Properties of a request beside its operation, one bit each.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Flags(u8);

impl Flags {
    /// None.
    pub const NONE: Flags = Flags(0);
    /// Force unit access: durable before it completes.
    pub const FUA: Flags = Flags(1);
    /// A read nobody waits for yet.
    pub const PREFETCH: Flags = Flags(2);
    /// Work that yields to foreground requests.
    pub const BACKGROUND: Flags = Flags(4);
    /// A read of more than was asked for. What of it is used is told later ([`Hints::used`](crate::Hints::used)).
    pub const SPECULATIVE: Flags = Flags(8);

    /// Whether all bits of `other` are set.
    #[inline]
    pub const fn has(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }
    /// Both sets of flags.
    #[inline]
    pub const fn with(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }
}

/// A tenant by its place in the stack file, from 1; 0 is SYSTEM.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct TenantId(pub u16);

impl TenantId {
    /// The stack itself: work that no tenant caused.
    pub const SYSTEM: TenantId = TenantId(0);
}

/// Names a request while it is alive: an index into the [`RequestTable`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ReqId(pub u32);

impl ReqId {
    /// No request.
    pub const NONE: ReqId = ReqId(u32::MAX);
}

/// Why a request failed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, thiserror::Error)]
pub enum ErrorKind {
    /// The medium cannot return what it stored.
    #[error("unreadable data")]
    Unreadable,
    /// The device failed to store or flush.
    #[error("write failure")]
    WriteFailed,
    /// The device is not there.
    #[error("device is gone")]
    Gone,
    /// The only copy of the data died with its device.
    #[error("data is lost")]
    Lost,
    /// The device is worn out and takes no more changes.
    #[error("device is worn out and read-only")]
    ReadOnly,
    /// No room.
    #[error("no space")]
    NoSpace,
    /// The device does not offer this operation.
    #[error("operation is not supported")]
    Unsupported,
    /// A flash page is to be programmed that holds data.
    #[error("flash page is not erased")]
    NotErased,
    /// A flash page is to be programmed before those below it in its erase unit.
    #[error("flash page is programmed out of order")]
    OutOfOrder,
    /// The extent is outside the device or misaligned.
    #[error("bad extent")]
    BadExtent,
}

/// A failure with the part of the request it concerns.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{kind} at +{at} for {len}")]
pub struct IoError {
    /// What went wrong.
    pub kind: ErrorKind,
    /// First byte concerned, counted from the start of the request.
    pub at: ByteLen,
    /// Bytes concerned.
    pub len: ByteLen,
}

/// Who hears that a request is done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Owner(pub u32);

impl Owner {
    /// The driver: the request came in through an export.
    pub const HOST: Owner = Owner(u32::MAX);
}

/// Life of a request, for the checks of the driver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum State {
    /// The slot is empty.
    Free,
    /// Allocated, not yet sent.
    Made,
    /// On its way down or being served.
    Sent,
    /// Complete; the owner is being told.
    Done,
}

/// One request. The owner (the machine above, or the driver) made it; whoever holds it may forward it. After a forward
/// `offset` belongs to the layers below: an owner that needs it later keeps it in its own state.
#[derive(Clone, Debug)]
pub struct Request {
    /// First byte of the extent.
    pub offset: ByteOffset,
    /// Length of the extent; zero for a flush.
    pub len: ByteLen,
    /// The data, or where it goes.
    pub payload: Payload,
    /// When the host's request reached the export; for a machine's own work, when it was made.
    pub arrival: Instant,
    /// When the owner sent it: the path counts from here.
    pub submitted: Instant,
    /// When it reached the machine that serves it now.
    pub entered: Instant,
    /// Where the time went; complete and exact once the request is done.
    pub path: CriticalPath,
    /// The owner's own note.
    pub cookie: u64,
    /// The request on whose behalf this one was made, or [`ReqId::NONE`].
    pub parent: ReqId,
    /// Who hears of the completion.
    pub owner: Owner,
    /// The machine that serves it.
    pub node: u32,
    /// Whose data it is.
    pub tenant: TenantId,
    /// Who made the work necessary; is charged.
    pub cause: TenantId,
    /// What is asked.
    pub op: Op,
    /// How.
    pub flags: Flags,
    /// Where it is in its life.
    pub state: State,
    /// Which child of the owner serves it.
    pub child: u8,
    /// Set when it failed.
    pub error: Option<IoError>,
}

impl Request {
    const EMPTY: Request = Request {
        offset: ByteOffset::ZERO,
        len: ByteLen::ZERO,
        payload: Payload::NONE,
        arrival: Instant::ZERO,
        submitted: Instant::ZERO,
        entered: Instant::ZERO,
        path: CriticalPath::EMPTY,
        cookie: 0,
        parent: ReqId::NONE,
        owner: Owner::HOST,
        node: 0,
        tenant: TenantId::SYSTEM,
        cause: TenantId::SYSTEM,
        op: Op::Read,
        flags: Flags::NONE,
        state: State::Free,
        child: 0,
        error: None,
    };

    /// One past the last byte.
    #[inline]
    pub fn end(&self) -> ByteOffset {
        self.offset + self.len
    }

    /// Marks the whole request as failed.
    pub fn fail(&mut self, kind: ErrorKind) {
        self.error = Some(IoError { kind, at: ByteLen::ZERO, len: self.len });
    }

    /// Marks part of the request as failed; the first failure stands.
    pub fn fail_part(&mut self, kind: ErrorKind, at: ByteLen, len: ByteLen) {
        self.error.get_or_insert(IoError { kind, at, len });
    }

    /// Brings the path up to `now`: what no child explained was `phase`.
    #[inline]
    pub fn explain_until(&mut self, now: Instant, phase: Phase) {
        let explained = self.submitted + self.path.total();
        if explained < now {
            self.path.add(phase, now.since(explained));
        }
    }

    /// Takes over the path of `child`, which has just completed at `now` and which this request waited for. A gap
    /// between what was explained so far and the child's start was `gap`.
    pub fn absorb(&mut self, child: &Request, gap: Phase) {
        let explained = self.submitted + self.path.total();
        if child.submitted >= explained {
            self.path.add(gap, child.submitted.since(explained));
            self.path.extend_by(&child.path, Span::ZERO);
        } else {
            self.path.extend_by(&child.path, explained.since(child.submitted));
        }
    }
}

/// Every living request of a driver, in slots that are used again.
#[derive(Debug, Default)]
pub struct RequestTable {
    slots: Vec<Request>,
    free: Vec<u32>,
    /// Most requests alive at once.
    peak: usize,
}

impl RequestTable {
    /// An empty table.
    pub fn new() -> RequestTable {
        RequestTable::default()
    }

    /// A fresh slot in state [`State::Made`] with an empty path, no error and no parent. The caller sets the rest.
    #[inline]
    pub fn allocate(&mut self) -> ReqId {
        let index = match self.free.pop() {
            Some(index) => index,
            None => self.grow(),
        };
        let slot = &mut self.slots[index as usize];
        slot.path = CriticalPath::EMPTY;
        slot.error = None;
        slot.parent = ReqId::NONE;
        slot.child = 0;
        slot.state = State::Made;
        ReqId(index)
    }

    #[cold]
    fn grow(&mut self) -> u32 {
        self.slots.push(Request::EMPTY);
        self.peak = self.slots.len();
        (self.slots.len() - 1) as u32
    }

    /// Empties the slot of `id`. The caller has released its payload.
    #[inline]
    pub fn free(&mut self, id: ReqId) {
        let slot = &mut self.slots[id.0 as usize];
        debug_assert!(slot.state != State::Free, "request {id:?} is freed twice");
        slot.state = State::Free;
        self.free.push(id.0);
    }

    /// Requests alive now.
    pub fn alive(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Most requests alive at once so far.
    pub fn peak(&self) -> usize {
        self.peak
    }

    /// Two requests at once, the first to change; panics when they are the same.
    #[inline]
    pub fn pair(&mut self, a: ReqId, b: ReqId) -> (&mut Request, &Request) {
        let (x, y) = (a.0 as usize, b.0 as usize);
        assert!(x != y, "a request cannot be paired with itself");
        if x < y {
            let (low, high) = self.slots.split_at_mut(y);
            (&mut low[x], &high[0])
        } else {
            let (low, high) = self.slots.split_at_mut(x);
            (&mut high[0], &low[y])
        }
    }

    /// Every living request with its name, in slot order.
    pub fn iter(&self) -> impl Iterator<Item = (ReqId, &Request)> {
        self.slots
            .iter()
            .enumerate()
            .filter(|(_, r)| r.state != State::Free)
            .map(|(i, r)| (ReqId(i as u32), r))
    }
}

impl std::ops::Index<ReqId> for RequestTable {
    type Output = Request;
    #[inline]
    fn index(&self, id: ReqId) -> &Request {
        &self.slots[id.0 as usize]
    }
}

impl std::ops::IndexMut<ReqId> for RequestTable {
    #[inline]
    fn index_mut(&mut self, id: ReqId) -> &mut Request {
        &mut self.slots[id.0 as usize]
    }
}
