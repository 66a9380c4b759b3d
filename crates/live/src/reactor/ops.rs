//! Requests of clients: cut into pieces that the stack takes, and answered once.
//!
//! A read or write longer than the stack's longest, and a trim or write-zeroes longer than [`PIECE_MAX`], goes down in
//! pieces, of which at most [`WINDOW`] are under way. The first failure ends it: pieces that have not begun stay out.
//! Pieces take slices of the one payload of the request.

use super::slab::Key;
use crate::nbd::Cookie;
use nandu_base::{ByteLen, ByteOffset, Flags, Instant, IoError, Op, Payload, TenantId};

/// Pieces of one request that are under way at once.
const WINDOW: u32 = 4;
/// Longest piece of an operation without data.
const PIECE_MAX: u64 = 32 << 20;

/// Where an export's requests go.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    /// Place among the exports.
    pub export: u32,
    pub node: u32,
    pub tenant: TenantId,
    /// Longest read or write that the machine takes.
    pub max_io: u64,
    pub align: u64,
}

/// A client's request.
#[derive(Clone, Debug)]
pub(crate) struct HostOp {
    pub client: Key,
    pub cookie: Cookie,
    pub target: Target,
    pub op: Op,
    pub flags: Flags,
    pub offset: ByteOffset,
    pub len: ByteLen,
    /// The request holds it until the reply is sent.
    pub payload: Payload,
    pub arrival: Instant,
    /// A read whose data nobody gets: it only brings them nearer.
    pub is_hint: bool,
    /// Of a flush: what was sent before it.
    pub covers: u64,
    piece: u64,
    issued: u64,
    flying: u32,
    started: bool,
    /// The first failure, counted from the start of the request.
    pub error: Option<IoError>,
    touched: bool,
}

/// What to send down next.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    pub offset: ByteOffset,
    pub len: ByteLen,
    pub payload: Payload,
    /// For the request's cookie: whose piece, and which.
    pub cookie: u64,
}

#[allow(clippy::too_many_arguments)] // the fields of a request
impl HostOp {
    pub fn new(
        client: Key,
        cookie: Cookie,
        target: Target,
        op: Op,
        flags: Flags,
        extent: (ByteOffset, ByteLen),
        payload: Payload,
        arrival: Instant,
    ) -> HostOp {
        let most = if payload.is_none() { PIECE_MAX } else { target.max_io };
        HostOp {
            client,
            cookie,
            target,
            op,
            flags,
            offset: extent.0,
            len: extent.1,
            payload,
            arrival,
            is_hint: false,
            covers: 0,
            piece: (most / target.align * target.align).max(target.align),
            issued: 0,
            flying: 0,
            started: false,
            error: None,
            touched: false,
        }
    }

    fn all_issued(&self) -> bool {
        self.started && (self.issued == self.len.0 || self.error.is_some())
    }

    fn next_piece(&mut self, slot: u32) -> Option<Piece> {
        if self.all_issued() || self.flying == WINDOW {
            return None;
        }
        let at = self.issued;
        let len = ByteLen(self.piece.min(self.len.0 - at));
        self.started = true;
        self.issued += len.0;
        self.flying += 1;
        Some(Piece {
            offset: self.offset + ByteLen(at),
            len,
            payload: self.payload.slice(ByteLen(at)),
            cookie: (at / self.piece) << 32 | u64::from(slot),
        })
    }
}

/// Every request that is not answered yet.
#[derive(Debug, Default)]
pub(crate) struct Ops {
    slots: Vec<Option<HostOp>>,
    free: Vec<u32>,
    /// Requests of which a piece ended since the reactor last looked.
    pub touched: Vec<u32>,
}

impl Ops {
    pub fn insert(&mut self, op: HostOp) -> u32 {
        match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = Some(op);
                slot
            }
            None => {
                self.slots.push(Some(op));
                (self.slots.len() - 1) as u32
            }
        }
    }

    fn get(&mut self, slot: u32) -> &mut HostOp {
        self.slots[slot as usize].as_mut().expect("a request lives until it is answered")
    }

    pub fn alive(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Whether there is such a request.
    pub fn any(&self, is_such: impl Fn(&HostOp) -> bool) -> bool {
        self.slots.iter().flatten().any(is_such)
    }

    /// The next piece to send, and what belongs to it.
    pub fn next_piece(&mut self, slot: u32) -> Option<(Piece, HostOp)> {
        let op = self.get(slot);
        op.next_piece(slot).map(|piece| (piece, op.clone()))
    }

    /// A piece is done.
    pub fn piece_done(&mut self, cookie: u64, error: Option<IoError>) {
        let (slot, index) = (cookie as u32, cookie >> 32);
        let op = self.get(slot);
        op.flying -= 1;
        if let Some(error) = error {
            let at = error.at + ByteLen(index * op.piece);
            op.error.get_or_insert(IoError { at, ..error });
        }
        if !std::mem::replace(&mut op.touched, true) {
            self.touched.push(slot);
        }
    }

    /// The request, when nothing of it is under way or left to send. Otherwise it is to be sent on.
    pub fn take_finished(&mut self, slot: u32) -> Option<HostOp> {
        let op = self.get(slot);
        op.touched = false;
        if op.flying > 0 || !op.all_issued() {
            return None;
        }
        self.free.push(slot);
        self.slots[slot as usize].take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandu_base::ErrorKind;

    fn trim(len: u64) -> HostOp {
        let target = Target { export: 0, node: 0, tenant: TenantId(1), max_io: 1 << 20, align: 512 };
        let client = Key { slot: 0, generation: 0 };
        let extent = (ByteOffset(4096), ByteLen(len));
        HostOp::new(client, Cookie(9), target, Op::Trim, Flags::NONE, extent, Payload::NONE, Instant::ZERO)
    }

    #[test]
    fn a_long_trim_goes_in_bounded_pieces_and_ends_once() {
        let mut ops = Ops::default();
        let slot = ops.insert(trim(10 * PIECE_MAX + 512));
        let (mut sent, mut flying, mut covered) = (0, Vec::new(), 4096);
        let finished = loop {
            while let Some((piece, _)) = ops.next_piece(slot) {
                assert_eq!(piece.offset.0, covered);
                covered += piece.len.0;
                flying.push(piece.cookie);
                sent += 1;
            }
            assert!(flying.len() <= WINDOW as usize);
            ops.piece_done(flying.remove(0), None);
            if let Some(op) = ops.take_finished(slot) {
                break op;
            }
        };
        assert_eq!((sent, covered, finished.error), (11, 4096 + 10 * PIECE_MAX + 512, None));
        assert_eq!(ops.alive(), 0);
    }

    #[test]
    fn a_failure_is_counted_from_the_start_of_the_request_and_stops_the_rest() {
        let mut ops = Ops::default();
        let slot = ops.insert(trim(10 * PIECE_MAX));
        let pieces: Vec<Piece> =
            std::iter::from_fn(|| ops.next_piece(slot)).map(|(piece, _)| piece).collect();
        let error = IoError { kind: ErrorKind::WriteFailed, at: ByteLen(512), len: ByteLen(512) };
        ops.piece_done(pieces[1].cookie, Some(error));
        assert!(ops.next_piece(slot).is_none());
        for piece in [pieces[0], pieces[2], pieces[3]] {
            assert!(ops.take_finished(slot).is_none());
            ops.piece_done(piece.cookie, None);
        }
        let op = ops.take_finished(slot).expect("all pieces have ended");
        assert_eq!(op.error.map(|e| e.at), Some(ByteLen(PIECE_MAX + 512)));
    }

    #[test]
    fn a_flush_is_one_piece() {
        let mut ops = Ops::default();
        let slot = ops.insert(HostOp { op: Op::Flush, ..trim(0) });
        let (piece, _) = ops.next_piece(slot).expect("a flush is sent");
        assert!(ops.next_piece(slot).is_none());
        ops.piece_done(piece.cookie, None);
        assert!(ops.take_finished(slot).is_some());
    }
}
