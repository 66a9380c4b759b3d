//! Requests of clients: fitted to the blocks of a device, cut into pieces that the stack takes, and answered once.
//!
//! A read or write longer than the stack's longest, and a trim or write-zeroes longer than [`PIECE_MAX`], goes down in
//! pieces, of which at most [`WINDOW`] are under way. The first failure ends it: pieces that have not begun stay out.
//! Pieces take slices of the one payload of the request.
//!
//! *Bytes on blocks.* Clients ask for bytes, machines take whole blocks ([`Fit`]). A read is widened, and its reply is a part of what was
//! read. A trim is narrowed to the blocks that it covers. A write or write-zeroes that covers a block in part is a *patch*: the blocks at
//! its ends are read, changed and written. What a patch reads may not become old before it is written, so a patch and another change of
//! one of its blocks do not go together: whichever came later waits. Reads wait for nobody, and neither do changes that cover their blocks,
//! unless there is a patch of one of them.

use super::slab::Key;
use crate::nbd::{Command, Cookie, Request};
use nandu_base::{ByteLen, ByteOffset, Flags, Instant, IoError, Op, Payload, PayloadPool, TenantId};

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
    /// Bytes of a block: a power of two.
    pub align: u64,
}

/// How an extent lies on blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Fit {
    /// Start of the first block and end of the last one.
    pub start: u64,
    pub end: u64,
    /// Blocks that it covers in part: the first or the last one, or both.
    pub edges: u64,
}

impl Fit {
    pub fn new(offset: ByteOffset, len: ByteLen, align: u64) -> Fit {
        let inside = align - 1;
        let end = offset.0 + len.0;
        let (first, last) = (offset.0 & inside != 0, end & inside != 0);
        let (start, after) = (offset.0 & !inside, (end + inside) & !inside);
        let is_one = after - start <= align;
        let edges = if is_one { u64::from(first || last) } else { u64::from(first) + u64::from(last) };
        Fit { start, end: after, edges }
    }

    /// Bytes of its blocks.
    pub fn span(&self) -> u64 {
        self.end - self.start
    }

    /// Bytes of the buffer that a request needs: its blocks if it has data, and for a patch the blocks at its ends as they were.
    pub fn buffer(request: &Request, align: u64) -> u64 {
        let fit = Fit::new(request.offset, request.length, align);
        match request.command {
            Command::Read { .. } | Command::Cache => fit.span(),
            Command::Write => fit.span() + fit.edges * align,
            Command::WriteZeroes { .. } => fit.edges * align,
            Command::Flush | Command::Trim | Command::BlockStatus { .. } => 0,
        }
    }
}

/// What a patch does with the blocks at its ends. The middle of it, or all of a write, follows as any other change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    /// They are read.
    Read,
    /// Those of a write-zeroes are written. Those of a write go with its data.
    Write,
    /// They are done with.
    Rest,
}

/// The state of a patch.
#[derive(Debug)]
struct Patch {
    stage: Stage,
    /// Where the blocks are, and how many.
    edges: [u64; 2],
    count: u32,
    /// How many of them this stage has sent.
    sent: u32,
}

/// Who waits for a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Asker {
    /// An NBD connection.
    Client(Key),
    /// A block device of the kernel.
    Block(u32),
}

/// A client's request.
#[derive(Debug)]
pub(crate) struct HostOp {
    pub asker: Asker,
    pub cookie: Cookie,
    pub target: Target,
    pub op: Op,
    pub flags: Flags,
    /// What the client asked for.
    pub offset: ByteOffset,
    pub len: ByteLen,
    /// The request holds it until the reply is sent.
    pub payload: Payload,
    pub arrival: Instant,
    /// A read whose data nobody gets: it only brings them nearer.
    pub is_hint: bool,
    /// Of a flush: what was sent before it.
    pub covers: u64,
    /// What is sent down in pieces.
    start: u64,
    span: u64,
    piece: u64,
    issued: u64,
    flying: u32,
    started: bool,
    patch: Option<Box<Patch>>,
    /// Numbers requests as they come.
    order: u64,
    /// Earlier ones that must end before this one begins.
    waits: u32,
    /// The first failure, counted from the start of the request.
    pub error: Option<IoError>,
    touched: bool,
}

/// What to send down next.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    pub target: Target,
    pub op: Op,
    pub flags: Flags,
    pub offset: ByteOffset,
    pub len: ByteLen,
    pub payload: Payload,
    pub arrival: Instant,
    /// For the request's cookie: whose piece, and which.
    pub cookie: u64,
}

impl HostOp {
    /// What `request` asks of `target`. Its payload has [`Fit::buffer`] bytes; the data of a write are there, from [`HostOp::front`] on.
    pub fn new(
        asker: Asker,
        target: Target,
        op: Op,
        request: &Request,
        payload: Payload,
        arrival: Instant,
    ) -> HostOp {
        let (offset, len) = (request.offset, request.length);
        let fit = Fit::new(offset, len, target.align);
        let has_data = matches!(op, Op::Read | Op::Write);
        let is_zeroes = matches!(request.command, Command::WriteZeroes { .. });
        let is_patch = fit.edges > 0 && (op == Op::Write || is_zeroes);
        let (mut start, mut end) = (fit.start, fit.end);
        if !has_data && op != Op::Flush {
            start = offset.0.next_multiple_of(target.align);
            end = ((offset.0 + len.0) & !(target.align - 1)).max(start);
        }
        let patch = is_patch.then(|| {
            let first = if offset.0 == fit.start { fit.end - target.align } else { fit.start };
            let edges = [first, fit.end - target.align];
            Box::new(Patch { stage: Stage::Read, edges, count: fit.edges as u32, sent: 0 })
        });
        let most = if has_data { target.max_io } else { PIECE_MAX };
        HostOp {
            asker,
            cookie: request.cookie,
            target,
            op,
            flags: if request.fua { Flags::FUA } else { Flags::NONE },
            offset,
            len,
            payload,
            arrival,
            is_hint: request.command == Command::Cache,
            covers: 0,
            start,
            span: end - start,
            piece: (most / target.align * target.align).max(target.align),
            issued: 0,
            flying: 0,
            // A trim that covers no block has nothing to do.
            started: op == Op::Trim && !is_patch && start == end,
            patch,
            order: 0,
            waits: 0,
            error: None,
            touched: false,
        }
    }

    /// Bytes before the client's in the payload of a read or write.
    pub fn front(&self) -> ByteLen {
        ByteLen(self.offset.0 & (self.target.align - 1))
    }

    /// Whether it must not go together with another request. No two exports have a block in common.
    fn meets(&self, other: &HostOp) -> bool {
        let [a, b] = [self, other].map(|op| Fit::new(op.offset, op.len, op.target.align));
        (self.patch.is_some() || other.patch.is_some())
            && self.op.changes_data()
            && other.op.changes_data()
            && self.target.node == other.target.node
            && (a.start < b.end && b.start < a.end)
    }

    fn all_issued(&self) -> bool {
        let is_patching = self.patch.as_ref().is_some_and(|patch| patch.stage != Stage::Rest);
        self.error.is_some() && (self.started || is_patching)
            || !is_patching && self.started && self.issued == self.span
    }

    fn next_piece(&mut self, slot: u32) -> Option<Piece> {
        if self.waits > 0 || self.all_issued() || self.flying == WINDOW {
            return None;
        }
        if self.patch.as_ref().is_some_and(|patch| patch.stage != Stage::Rest) {
            return self.next_edge(slot);
        }
        let at = self.issued;
        let len = ByteLen(self.piece.min(self.span - at));
        self.started = true;
        self.issued += len.0;
        self.flying += 1;
        let has_data = matches!(self.op, Op::Read | Op::Write);
        let payload = if has_data { self.payload.slice(ByteLen(at)) } else { Payload::NONE };
        let offset = ByteOffset(self.start + at);
        let cookie = (at / self.piece) << 32 | u64::from(slot);
        Some(self.piece_of(self.op, self.flags, offset, len, payload, cookie))
    }

    fn piece_of(
        &self,
        op: Op,
        flags: Flags,
        offset: ByteOffset,
        len: ByteLen,
        payload: Payload,
        cookie: u64,
    ) -> Piece {
        Piece { target: self.target, op, flags, offset, len, payload, arrival: self.arrival, cookie }
    }

    /// The part of the payload that holds a block at an end of a patch.
    fn edge(&self, number: u32) -> Payload {
        let base = if self.op == Op::Write { self.span } else { 0 };
        self.payload.slice(ByteLen(base + u64::from(number) * self.target.align))
    }

    fn next_edge(&mut self, slot: u32) -> Option<Piece> {
        let patch = self.patch.as_mut().filter(|patch| patch.sent < patch.count)?;
        let (number, stage) = (patch.sent, patch.stage);
        let offset = ByteOffset(patch.edges[number as usize]);
        patch.sent += 1;
        self.flying += 1;
        let (op, flags) = match stage {
            Stage::Read => (Op::Read, Flags::NONE),
            _ => (Op::Write, self.flags),
        };
        let cookie = u64::from(number) << 32 | u64::from(slot);
        Some(self.piece_of(op, flags, offset, ByteLen(self.target.align), self.edge(number), cookie))
    }

    /// A stage of a patch ends when all blocks that it sent have come back.
    fn go_on_patching(&mut self, pool: &mut PayloadPool) {
        let Some(patch) = &mut self.patch else { return };
        if patch.stage == Stage::Rest || patch.sent < patch.count || self.flying > 0 || self.error.is_some() {
            return;
        }
        patch.sent = 0;
        let is_read = patch.stage == Stage::Read;
        let (count, edges) = (patch.count, patch.edges);
        patch.stage = if is_read && self.op != Op::Write { Stage::Write } else { Stage::Rest };
        let rests = patch.stage == Stage::Rest;
        for number in (0..count).filter(|_| is_read) {
            self.change_edge(edges[number as usize], self.edge(number), pool);
        }
        // Zeroes may have no block that they cover.
        self.started |= rests && self.span == 0;
    }

    /// Puts what the client leaves as it was around its data, or its zeroes into the block as it was.
    fn change_edge(&self, block: u64, was: Payload, pool: &mut PayloadPool) {
        let align = self.target.align;
        let from = self.offset.0.max(block) - block;
        let to = (self.offset.0 + self.len.0).min(block + align) - block;
        if self.op != Op::Write {
            pool.bytes_mut(was.slice(ByteLen(from)), ByteLen(to - from)).fill(0);
            return;
        }
        let place = self.payload.slice(ByteLen(block - self.start));
        for (from, to) in [(0, from), (to, align)] {
            pool.copy(was.slice(ByteLen(from)), place.slice(ByteLen(from)), ByteLen(to - from));
        }
    }
}

/// Every request that is not answered yet.
#[derive(Debug, Default)]
pub(crate) struct Ops {
    slots: Vec<Option<HostOp>>,
    free: Vec<u32>,
    /// Requests of which a piece ended since the reactor last looked.
    pub touched: Vec<u32>,
    /// Patches among them, and requests that wait for others.
    patches: usize,
    waiting: Vec<u32>,
    /// Requests so far.
    order: u64,
    /// A planted fault: nobody waits.
    #[cfg(test)]
    unordered: bool,
}

impl Ops {
    pub fn insert(&mut self, mut op: HostOp) -> u32 {
        self.order += 1;
        op.order = self.order;
        if op.patch.is_some() || self.patches > 0 && op.op.changes_data() {
            op.waits = self.slots.iter().flatten().filter(|other| op.meets(other)).count() as u32;
            #[cfg(test)]
            if self.unordered {
                op.waits = 0;
            }
            self.patches += usize::from(op.patch.is_some());
        }
        let (waits, is_done) = (op.waits > 0, op.started);
        op.touched = is_done;
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = Some(op);
                slot
            }
            None => {
                self.slots.push(Some(op));
                (self.slots.len() - 1) as u32
            }
        };
        if waits {
            self.waiting.push(slot);
        }
        if is_done {
            self.touched.push(slot);
        }
        slot
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

    /// The next piece to send.
    pub fn next_piece(&mut self, slot: u32) -> Option<Piece> {
        self.get(slot).next_piece(slot)
    }

    /// A piece is done.
    pub fn piece_done(&mut self, cookie: u64, error: Option<IoError>) {
        let (slot, index) = (cookie as u32, cookie >> 32);
        let op = self.get(slot);
        op.flying -= 1;
        if let Some(error) = error {
            let start = match &op.patch {
                Some(patch) if patch.stage != Stage::Rest => patch.edges[index as usize],
                _ => op.start + index * op.piece,
            };
            let at = ByteLen((start + error.at.0).saturating_sub(op.offset.0));
            op.error.get_or_insert(IoError { at, ..error });
        }
        if !std::mem::replace(&mut op.touched, true) {
            self.touched.push(slot);
        }
    }

    /// The request, when nothing of it is under way or left to send. Otherwise it is to be sent on.
    pub fn take_finished(&mut self, slot: u32, pool: &mut PayloadPool) -> Option<HostOp> {
        let op = self.get(slot);
        op.touched = false;
        op.go_on_patching(pool);
        if op.flying > 0 || !op.all_issued() {
            return None;
        }
        self.free.push(slot);
        let op = self.slots[slot as usize].take()?;
        self.patches -= usize::from(op.patch.is_some());
        self.let_go(&op);
        Some(op)
    }

    /// Those that waited for `ended` alone may begin.
    fn let_go(&mut self, ended: &HostOp) {
        let (slots, touched) = (&mut self.slots, &mut self.touched);
        self.waiting.retain(|&slot| {
            let Some(op) = &mut slots[slot as usize] else { return false };
            if ended.order < op.order && ended.meets(op) {
                op.waits -= 1;
                if op.waits == 0 && !std::mem::replace(&mut op.touched, true) {
                    touched.push(slot);
                }
            }
            op.waits > 0
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandu_base::{Content, ErrorKind, Rng};
    use std::collections::BTreeMap;

    const CLIENT: Asker = Asker::Client(Key { slot: 0, generation: 0 });

    fn request(command: Command, offset: u64, len: u64) -> Request {
        let (offset, length) = (ByteOffset(offset), ByteLen(len));
        Request { cookie: Cookie(9), command, fua: false, offset, length }
    }

    fn target(align: u64) -> Target {
        let max_io = 1 << 20;
        Target { export: 0, node: 0, tenant: TenantId(1), max_io, align }
    }

    fn trim(len: u64) -> HostOp {
        let request = request(Command::Trim, 4096, len);
        HostOp::new(CLIENT, target(512), Op::Trim, &request, Payload::NONE, Instant::ZERO)
    }

    fn pool() -> PayloadPool {
        PayloadPool::new(Content::Bytes)
    }

    #[test]
    fn a_long_trim_goes_in_bounded_pieces_and_ends_once() {
        let (mut ops, mut pool) = (Ops::default(), pool());
        let slot = ops.insert(trim(10 * PIECE_MAX + 512));
        let (mut sent, mut flying, mut covered) = (0, Vec::new(), 4096);
        let finished = loop {
            while let Some(piece) = ops.next_piece(slot) {
                assert_eq!(piece.offset.0, covered);
                covered += piece.len.0;
                flying.push(piece.cookie);
                sent += 1;
            }
            assert!(flying.len() <= WINDOW as usize);
            ops.piece_done(flying.remove(0), None);
            if let Some(op) = ops.take_finished(slot, &mut pool) {
                break op;
            }
        };
        assert_eq!((sent, covered, finished.error), (11, 4096 + 10 * PIECE_MAX + 512, None));
        assert_eq!(ops.alive(), 0);
    }

    #[test]
    fn a_failure_is_counted_from_the_start_of_the_request_and_stops_the_rest() {
        let (mut ops, mut pool) = (Ops::default(), pool());
        let slot = ops.insert(trim(10 * PIECE_MAX));
        let pieces: Vec<Piece> = std::iter::from_fn(|| ops.next_piece(slot)).collect();
        let error = IoError { kind: ErrorKind::WriteFailed, at: ByteLen(512), len: ByteLen(512) };
        ops.piece_done(pieces[1].cookie, Some(error));
        assert!(ops.next_piece(slot).is_none());
        for piece in [pieces[0], pieces[2], pieces[3]] {
            assert!(ops.take_finished(slot, &mut pool).is_none());
            ops.piece_done(piece.cookie, None);
        }
        let op = ops.take_finished(slot, &mut pool).expect("all pieces have ended");
        assert_eq!(op.error.map(|e| e.at), Some(ByteLen(PIECE_MAX + 512)));
    }

    #[test]
    fn a_flush_is_one_piece() {
        let (mut ops, mut pool) = (Ops::default(), pool());
        let request = request(Command::Flush, 0, 0);
        let flush = HostOp::new(CLIENT, target(512), Op::Flush, &request, Payload::NONE, Instant::ZERO);
        let slot = ops.insert(flush);
        let piece = ops.next_piece(slot).expect("a flush is sent");
        assert!(ops.next_piece(slot).is_none());
        ops.piece_done(piece.cookie, None);
        assert!(ops.take_finished(slot, &mut pool).is_some());
    }

    #[test]
    fn an_extent_is_fitted_to_blocks() {
        let fit = |offset, len| {
            let fit = Fit::new(ByteOffset(offset), ByteLen(len), 512);
            (fit.start, fit.end, fit.edges)
        };
        assert_eq!(fit(0, 0), (0, 0, 0), "a flush");
        assert_eq!(fit(512, 1024), (512, 1536, 0));
        assert_eq!(fit(513, 1), (512, 1024, 1));
        assert_eq!(fit(512, 511), (512, 1024, 1));
        assert_eq!(fit(511, 1), (0, 512, 1));
        assert_eq!(fit(511, 2), (0, 1024, 2));
        assert_eq!(fit(100, 924), (0, 1024, 1));
        assert_eq!(fit(512, 1025), (512, 2048, 1));
    }

    #[test]
    fn requests_that_cover_their_blocks_wait_for_nobody() {
        let mut ops = Ops::default();
        for _ in 0..3 {
            let slot = ops.insert(trim(4096));
            assert!(ops.next_piece(slot).is_some());
        }
        assert!(ops.waiting.is_empty());
    }

    const BLOCK: u64 = 8;
    const DISK: usize = 64;
    /// What no client writes.
    const GARBAGE: u8 = 0xee;

    /// What a byte may hold: values, and when their requests ended.
    #[derive(Clone, Default)]
    struct Byte(Vec<(u8, Option<u64>)>);

    /// What a request does, for the model: when it came, which bytes it sets to what, and of a read what each byte may be.
    struct Asked {
        came: u64,
        set: std::ops::Range<u64>,
        value: u8,
        may_be: Vec<Vec<u8>>,
    }

    /// Requests on a disk whose operations take effect when they are sent or when they end.
    struct World {
        ops: Ops,
        pool: PayloadPool,
        rng: Rng,
        now: u64,
        disk: Vec<u8>,
        model: Vec<Byte>,
        asked: BTreeMap<u32, Asked>,
        flying: Vec<(Piece, bool)>,
        next_value: u8,
    }

    impl World {
        fn new(seed: u64, unordered: bool) -> World {
            World {
                ops: Ops { unordered, ..Ops::default() },
                pool: pool(),
                rng: Rng::new(seed),
                now: 0,
                disk: vec![0; DISK],
                model: vec![Byte(vec![(0, Some(0))]); DISK],
                asked: BTreeMap::new(),
                flying: Vec::new(),
                next_value: 0,
            }
        }

        fn ask(&mut self) {
            let offset = self.rng.below(DISK as u64);
            let len = 1 + self.rng.below((DISK as u64 - offset).min(20));
            let (command, op) = match self.rng.below(6) {
                0 | 1 => (Command::Read { unfragmented: false }, Op::Read),
                2 | 3 => (Command::Write, Op::Write),
                4 => (Command::WriteZeroes { no_hole: true, fast: false }, Op::WriteZeroes),
                _ if self.rng.below(2) == 0 => {
                    (Command::WriteZeroes { no_hole: false, fast: false }, Op::Trim)
                }
                _ => (Command::Trim, Op::Trim),
            };
            let request = request(command, offset, len);
            let bytes = ByteLen(Fit::buffer(&request, BLOCK));
            let payload =
                if bytes == ByteLen::ZERO { Payload::NONE } else { self.pool.allocate_unfilled(bytes) };
            if bytes > ByteLen::ZERO {
                self.pool.bytes_mut(payload, bytes).fill(GARBAGE);
            }
            let target = Target { max_io: 2 * BLOCK, ..target(BLOCK) };
            let host = HostOp::new(CLIENT, target, op, &request, payload, Instant::ZERO);
            let mut asked = Asked { came: self.now, set: offset..offset, value: 0, may_be: Vec::new() };
            match op {
                Op::Read => {
                    let bytes = &self.model[offset as usize..(offset + len) as usize];
                    asked.set = offset..offset + len;
                    asked.may_be =
                        bytes.iter().map(|byte| byte.0.iter().map(|&(value, _)| value).collect()).collect();
                }
                _ => {
                    if op == Op::Write {
                        self.next_value = self.next_value % (GARBAGE - 1) + 1;
                        asked.value = self.next_value;
                        self.pool.bytes_mut(payload.slice(host.front()), ByteLen(len)).fill(asked.value);
                    }
                    asked.set = match command {
                        Command::Trim => host.start..host.start + host.span,
                        _ => offset..offset + len,
                    };
                    self.announce(&asked);
                }
            }
            let slot = self.ops.insert(host);
            self.asked.insert(slot, asked);
            self.send(slot);
        }

        /// A change may be seen from now on.
        fn announce(&mut self, change: &Asked) {
            for at in change.set.clone() {
                self.model[at as usize].0.push((change.value, None));
                for read in self.asked.values_mut().filter(|asked| !asked.may_be.is_empty()) {
                    if read.set.contains(&at) {
                        read.may_be[(at - read.set.start) as usize].push(change.value);
                    }
                }
            }
        }

        fn send(&mut self, slot: u32) {
            while let Some(piece) = self.ops.next_piece(slot) {
                assert_eq!((piece.offset.0 % BLOCK, piece.len.0 % BLOCK), (0, 0), "whole blocks");
                assert!(piece.len.0 > 0);
                let at_once = self.rng.below(2) == 0;
                if at_once {
                    self.take_effect(&piece);
                }
                self.flying.push((piece, at_once));
            }
        }

        fn take_effect(&mut self, piece: &Piece) {
            let at = piece.offset.0 as usize;
            let disk = &mut self.disk[at..at + piece.len.0 as usize];
            match piece.op {
                Op::Read => self.pool.bytes_mut(piece.payload, piece.len).copy_from_slice(disk),
                Op::Write => disk.copy_from_slice(self.pool.bytes(piece.payload, piece.len)),
                _ => disk.fill(0),
            }
        }

        fn end_one(&mut self) -> Result<(), String> {
            if !self.flying.is_empty() {
                let which = self.rng.below(self.flying.len() as u64) as usize;
                let (piece, has_effect) = self.flying.swap_remove(which);
                let fails = self.rng.below(20) == 0;
                if !has_effect && !fails {
                    self.take_effect(&piece);
                }
                let error = IoError { kind: ErrorKind::WriteFailed, at: ByteLen::ZERO, len: piece.len };
                self.ops.piece_done(piece.cookie, fails.then_some(error));
            }
            while let Some(slot) = self.ops.touched.pop() {
                match self.ops.take_finished(slot, &mut self.pool) {
                    Some(op) => self.ended(slot, &op)?,
                    None => self.send(slot),
                }
            }
            Ok(())
        }

        fn ended(&mut self, slot: u32, op: &HostOp) -> Result<(), String> {
            let asked = self.asked.remove(&slot).expect("it was asked");
            if op.op == Op::Read && op.error.is_none() {
                let read = self.pool.bytes(op.payload.slice(op.front()), op.len);
                for (at, (value, may_be)) in read.iter().zip(&asked.may_be).enumerate() {
                    if !may_be.contains(value) {
                        return Err(format!(
                            "byte {} reads {value}, not {may_be:?}",
                            op.offset.0 + at as u64
                        ));
                    }
                }
            } else if op.op != Op::Read {
                for at in asked.set {
                    let byte = &mut self.model[at as usize].0;
                    if op.error.is_none() {
                        byte.retain(|(_, ended)| ended.is_none_or(|ended| ended >= asked.came));
                    }
                    let own =
                        byte.iter_mut().find(|&&mut (value, ended)| value == asked.value && ended.is_none());
                    own.expect("it is there").1 = Some(self.now);
                }
            }
            self.pool.release(op.payload);
            Ok(())
        }

        fn run(mut self) -> Result<(), String> {
            for _ in 0..300 {
                self.now += 1;
                if self.asked.len() < 8 && self.rng.below(3) > 0 {
                    self.ask();
                } else {
                    self.end_one()?;
                }
            }
            while !self.asked.is_empty() {
                self.now += 1;
                assert!(!self.flying.is_empty() || !self.ops.touched.is_empty(), "somebody waits for nobody");
                self.end_one()?;
            }
            for (at, (value, byte)) in self.disk.iter().zip(&self.model).enumerate() {
                if byte.0.iter().all(|(may, _)| may != value) {
                    return Err(format!("byte {at} holds {value}, not one of {:?}", byte.0));
                }
            }
            assert_eq!((self.pool.living(), self.ops.patches, self.ops.waiting.len()), (0, 0, 0));
            Ok(())
        }
    }

    #[test]
    fn bytes_of_many_requests_are_as_in_an_array_of_bytes() {
        for seed in 0..2000 {
            if let Err(found) = World::new(seed, false).run() {
                panic!("seed {seed}: {found}");
            }
        }
    }

    /// Patches that do not wait write back what is old: the model sees it.
    #[test]
    fn the_model_finds_patches_that_do_not_wait() {
        let found = (0..100).filter(|&seed| World::new(seed, true).run().is_err()).count();
        assert!(found > 50, "{found} of 100 seeds");
    }
}
