//! What one leg lacks of the newest data: the delay queue of a leg.
//!
//! A write that a leg has not completed when its client is answered, or that is not sent to a leg that lags, is a *piece*
//! here: an extent with the newest version that the leg must get. Pieces that wait are disjoint: a newer write takes the
//! place of what it covers, and what is left of the older piece waits on (newest version wins, W1-5). The new piece
//! inherits the age of what it replaced, so a block that is rewritten for ever does not wait for ever. Pieces under way
//! are *flights*; a piece that overlaps a flight waits for its end (R-ONE).
//!
//! **Orders** (S1-17, O1-6). `fifo`: the oldest piece first, one by one, as the paper has it. `elevator`: the next piece
//! in ascending order of address, with all that follow without a gap, up to one batch.
//!
//! The paper writes a delayed operation even when a later one has overwritten it; here it is not written in either order.
//!
//! Cost: O(log n) for a write, a look-up or a drain, with n waiting pieces, and one pass over the flights, which are as
//! many as requests may be under way at the leg. RAM: 160 B for each piece beside its payload.

use nandu_base::{ByteLen, Instant, Op, Payload, PayloadPool, TenantId};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A newest version that a leg lacks.
#[derive(Clone, Copy, Debug)]
pub struct Piece {
    /// First byte.
    pub start: u64,
    /// One past the last byte.
    pub end: u64,
    /// Version of the oldest write that this piece, or what it took the place of, stands for.
    pub oldest: u64,
    /// When that write was issued.
    pub since: Instant,
    /// How often the leg has failed it, or what it took the place of.
    pub tries: u8,
    /// Write, trim or write-zeroes.
    pub op: Op,
    /// Whether the write is durable when it completes.
    pub fua: bool,
    /// The data; held by the piece.
    pub payload: Payload,
    /// The operation that wants it written.
    pub writer: u32,
    /// Who caused it.
    pub cause: TenantId,
}

impl Piece {
    fn part(&self, start: u64, end: u64) -> Piece {
        Piece { start, end, payload: self.payload.slice(ByteLen(start - self.start)), ..*self }
    }
}

/// Pieces under way as one request.
#[derive(Debug)]
pub struct Flight {
    /// First byte.
    pub start: u64,
    /// One past the last byte.
    pub end: u64,
    /// Write, trim or write-zeroes.
    pub op: Op,
    /// Whether it is durable when it completes.
    pub fua: bool,
    /// The data of all its pieces; held by the flight when there are several, else by the piece.
    pub payload: Payload,
    /// When it was sent.
    pub sent: Instant,
    /// The pieces, in order of address.
    pub pieces: Vec<Piece>,
    /// The oldest version among them, and when it was issued.
    pub oldest: (u64, Instant),
    /// Whether it is the client's own request, sent before the client was answered.
    pub direct: bool,
    live: bool,
}

/// In which order pieces are taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// The oldest one first.
    Oldest,
    /// Ascending, in batches of at most so many bytes.
    Sweep(u64),
}

/// Places for flights that are kept, with their room, while few are used.
const PLACES: usize = 16;

/// Changes of the number of pieces of an operation.
pub type Changes = Vec<(u32, i32)>;

/// The delay queue of a leg.
#[derive(Debug, Default)]
pub struct Lag {
    waiting: BTreeMap<u64, Piece>,
    order: BTreeSet<(u64, u64)>,
    flights: Vec<Flight>,
    live: u32,
    /// Flights that are not direct.
    draining: u32,
    bytes: u64,
    head: u64,
    /// Where pieces begin that go before all others.
    hurried: VecDeque<u64>,
}

impl Lag {
    /// Whether the leg has everything.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.live == 0
    }

    /// Pieces that the leg lacks, waiting or under way.
    pub fn len(&self) -> usize {
        self.waiting.len() + self.live as usize
    }

    /// Pieces that wait.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Bytes that wait.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Requests under way that carry waited-for pieces.
    pub fn draining(&self) -> u32 {
        self.draining
    }

    fn flights(&self) -> impl Iterator<Item = &Flight> {
        self.flights.iter().filter(|f| f.live)
    }

    /// Whether a flight touches the extent.
    pub fn flies(&self, start: u64, end: u64) -> bool {
        self.live > 0 && self.flights().any(|f| f.start < end && start < f.end)
    }

    fn waits(&self, start: u64, end: u64) -> bool {
        self.waiting.range(..end).next_back().is_some_and(|(_, p)| p.end > start)
    }

    /// Whether the leg lacks some of the extent.
    #[inline]
    pub fn lacks(&self, start: u64, end: u64) -> bool {
        !self.is_empty() && (self.waits(start, end) || self.flies(start, end))
    }

    /// The oldest version that the leg lacks; the highest number when it lacks nothing.
    pub fn floor(&self) -> u64 {
        let waiting = self.order.first().map_or(u64::MAX, |&(oldest, _)| oldest);
        let flying = self.flights().map(|f| f.oldest.0).min();
        waiting.min(flying.unwrap_or(u64::MAX))
    }

    /// When the oldest version that the leg lacks was issued.
    pub fn since(&self) -> Option<Instant> {
        let waiting = self.order.first().map(|(_, start)| self.waiting[start].since);
        let flying = self.flights().map(|f| f.oldest.1).min();
        waiting.into_iter().chain(flying).min()
    }

    /// The first border of a piece or flight behind `at`.
    pub fn border(&self, at: u64) -> u64 {
        let over = self.waiting.range(..=at).next_back().map(|(_, p)| p.end).filter(|&end| end > at);
        let next = self.waiting.range(at + 1..).next().map(|(&start, _)| start);
        let flying = self.flights().flat_map(|f| [f.start, f.end]).filter(|&b| b > at).min();
        over.into_iter().chain(next).chain(flying).min().unwrap_or(u64::MAX)
    }

    /// The data of the extent, when one piece or flight has all of it; `None` as payload for zeros.
    pub fn holder(&self, start: u64, end: u64) -> Option<Option<Payload>> {
        let data =
            |op, payload: Payload, from| (op == Op::Write).then(|| payload.slice(ByteLen(start - from)));
        if let Some((_, p)) = self.waiting.range(..end).next_back().filter(|(_, p)| p.end > start) {
            return (p.start <= start && end <= p.end).then(|| data(p.op, p.payload, p.start));
        }
        let f = self.flights().find(|f| f.start <= start && end <= f.end)?;
        Some(data(f.op, f.payload, f.start))
    }

    /// Lets `piece` wait in place of what it covers. The piece becomes a holder of its payload.
    pub fn push(&mut self, mut piece: Piece, changes: &mut Changes, pool: &mut PayloadPool) {
        while let Some((_, &old)) =
            self.waiting.range(..piece.end).next_back().filter(|(_, p)| p.end > piece.start)
        {
            self.remove(&old);
            piece.oldest = piece.oldest.min(old.oldest);
            piece.since = piece.since.min(old.since);
            piece.tries = piece.tries.max(old.tries);
            let mut parts = -1;
            for (from, to) in [(old.start, piece.start), (piece.end, old.end)] {
                if from < to {
                    parts += 1;
                    pool.keep(old.payload);
                    self.insert(old.part(from, to));
                }
            }
            pool.release(old.payload);
            changes.push((old.writer, parts));
        }
        pool.keep(piece.payload);
        self.insert(piece);
        changes.push((piece.writer, 1));
    }

    fn insert(&mut self, piece: Piece) {
        self.bytes += piece.end - piece.start;
        self.order.insert((piece.oldest, piece.start));
        self.waiting.insert(piece.start, piece);
    }

    fn remove(&mut self, piece: &Piece) {
        self.bytes -= piece.end - piece.start;
        self.order.remove(&(piece.oldest, piece.start));
        self.waiting.remove(&piece.start);
    }

    /// The piece that begins at `start` goes before the others, behind those that were hurried before.
    pub fn hurry(&mut self, start: u64) {
        self.hurried.push_back(start);
    }

    fn next_hurried(&mut self, tries: u8) -> Option<Piece> {
        while let Some(start) = self.hurried.pop_front() {
            let piece = self.waiting.get(&start).copied();
            if let Some(piece) = piece.filter(|p| p.tries <= tries && !self.flies(p.start, p.end)) {
                return Some(piece);
            }
        }
        None
    }

    fn choose(&self, order: Order, tries: u8) -> Option<Piece> {
        let free = |p: &&Piece| p.tries <= tries && !self.flies(p.start, p.end);
        match order {
            Order::Oldest => self.order.iter().map(|(_, start)| &self.waiting[start]).find(free).copied(),
            Order::Sweep(_) => {
                let (behind, ahead) = (self.waiting.range(..self.head), self.waiting.range(self.head..));
                ahead.chain(behind).map(|(_, p)| p).find(free).copied()
            }
        }
    }

    /// Takes the next piece or batch of those that have failed at most `tries` times; the number of its flight. A piece of more than
    /// `most` bytes goes in parts, and one that has failed goes alone.
    pub fn take(
        &mut self,
        order: Order,
        tries: u8,
        most: u64,
        now: Instant,
        changes: &mut Changes,
        pool: &mut PayloadPool,
    ) -> Option<u32> {
        let whole = self.next_hurried(tries).or_else(|| self.choose(order, tries))?;
        self.remove(&whole);
        let first = whole.part(whole.start, whole.end.min(whole.start + most));
        if first.end < whole.end {
            pool.keep(whole.payload);
            self.insert(whole.part(first.end, whole.end));
            changes.push((whole.writer, 1));
        }
        let slot = self.slot();
        let mut pieces = std::mem::take(&mut self.flights[slot as usize].pieces);
        pieces.push(first);
        let mut end = first.end;
        if let Order::Sweep(batch) = order {
            while let Some(&next) = self.waiting.get(&end) {
                let joins =
                    next.op == first.op && next.fua == first.fua && next.end - first.start <= batch.min(most);
                let records = first.payload.is_metadata() || next.payload.is_metadata();
                let failed = first.tries > 0 || next.tries > 0;
                if !joins || records || failed || self.flies(next.start, next.end) {
                    break;
                }
                self.remove(&next);
                end = next.end;
                pieces.push(next);
            }
        }
        let payload = match &pieces[..] {
            [one] => one.payload,
            many => {
                let whole = pool.allocate_unfilled(ByteLen(end - first.start));
                for p in many.iter().filter(|p| p.op == Op::Write) {
                    pool.copy(
                        p.payload,
                        whole.slice(ByteLen(p.start - first.start)),
                        ByteLen(p.end - p.start),
                    );
                }
                whole
            }
        };
        self.head = end;
        self.fly(
            slot,
            Flight {
                start: first.start,
                end,
                op: first.op,
                fua: first.fua,
                payload,
                sent: now,
                oldest: oldest(&pieces),
                pieces,
                direct: false,
                live: true,
            },
        );
        Some(slot)
    }

    /// The first place that no flight has.
    fn slot(&mut self) -> u32 {
        let free = self.flights.iter().position(|f| !f.live).unwrap_or_else(|| {
            let (op, payload) = (Op::Write, Payload::NONE);
            let (start, end, fua, direct, live) = (0, 0, false, false, false);
            let (sent, oldest, pieces) = (Instant::ZERO, (0, Instant::ZERO), Vec::new());
            self.flights.push(Flight { start, end, op, fua, payload, sent, oldest, pieces, direct, live });
            self.flights.len() - 1
        });
        free as u32
    }

    fn fly(&mut self, slot: u32, flight: Flight) {
        self.live += 1;
        self.draining += u32::from(!flight.direct);
        self.flights[slot as usize] = flight;
    }

    /// The client's own request is under way and its client is answered now. The flight becomes a holder of the payload.
    pub fn fly_direct(&mut self, piece: Piece, pool: &mut PayloadPool) {
        pool.keep(piece.payload);
        let slot = self.slot();
        let mut pieces = std::mem::take(&mut self.flights[slot as usize].pieces);
        pieces.push(piece);
        let Piece { start, end, op, fua, payload, since, .. } = piece;
        let (sent, oldest) = (since, (piece.oldest, since));
        self.fly(
            slot,
            Flight { start, end, op, fua, payload, sent, oldest, pieces, direct: true, live: true },
        );
    }

    /// The flight of the client's own request of operation `writer`.
    pub fn direct(&self, writer: u32) -> Option<u32> {
        let is = |f: &Flight| f.live && f.direct && f.pieces[0].writer == writer;
        self.flights.iter().position(is).map(|at| at as u32)
    }

    /// A flight under way.
    pub fn flight(&self, slot: u32) -> Option<&Flight> {
        self.flights.get(slot as usize).filter(|f| f.live)
    }

    /// The flight is over and has written its pieces; each is one less of its operation.
    pub fn land(&mut self, slot: u32, changes: &mut Changes, pool: &mut PayloadPool) {
        self.end_flight(slot, pool, |_, piece, pool| {
            pool.release(piece.payload);
            changes.push((piece.writer, -1));
        });
    }

    /// The flight has failed, which counts as so many tries: what no newer piece covers waits again. How often its pieces have failed.
    pub fn put_back(&mut self, slot: u32, tries: u8, changes: &mut Changes, pool: &mut PayloadPool) -> u8 {
        let mut most = 0;
        self.end_flight(slot, pool, |lag, mut piece, pool| {
            piece.tries = piece.tries.saturating_add(tries);
            most = most.max(piece.tries);
            let mut parts = -1;
            let mut at = piece.start;
            while at < piece.end {
                let over = lag.waiting.range(..=at).next_back().map(|(_, p)| p.end).filter(|&end| end > at);
                if let Some(end) = over {
                    at = end;
                    continue;
                }
                let next = lag.waiting.range(at..).next().map_or(u64::MAX, |(&start, _)| start);
                let upto = piece.end.min(next);
                pool.keep(piece.payload);
                lag.insert(piece.part(at, upto));
                parts += 1;
                at = upto;
            }
            // What is newer has taken the place of the rest, and its age.
            lag.inherit(&piece);
            pool.release(piece.payload);
            changes.push((piece.writer, parts));
        });
        most
    }

    /// Pieces over `gone` become as old as it, and have failed as often.
    fn inherit(&mut self, gone: &Piece) {
        let touched: Vec<u64> = self
            .waiting
            .range(..gone.end)
            .rev()
            .take_while(|(_, p)| p.end > gone.start)
            .filter(|(_, p)| p.oldest > gone.oldest || p.tries < gone.tries)
            .map(|(&start, _)| start)
            .collect();
        for start in touched {
            let mut piece = self.waiting[&start];
            self.remove(&piece);
            piece.oldest = piece.oldest.min(gone.oldest);
            piece.since = piece.since.min(gone.since);
            piece.tries = piece.tries.max(gone.tries);
            self.insert(piece);
        }
    }

    fn end_flight(
        &mut self,
        slot: u32,
        pool: &mut PayloadPool,
        mut each: impl FnMut(&mut Lag, Piece, &mut PayloadPool),
    ) {
        let flight = &mut self.flights[slot as usize];
        assert!(flight.live, "a flight ends once");
        flight.live = false;
        let (payload, direct) = (flight.payload, flight.direct);
        let mut pieces = std::mem::take(&mut flight.pieces);
        self.live -= 1;
        self.draining -= u32::from(!direct);
        if pieces.len() > 1 {
            pool.release(payload);
        }
        for piece in pieces.drain(..) {
            each(self, piece, pool);
        }
        self.flights[slot as usize].pieces = pieces;
        // Every look at the flights passes the places that are free.
        while self.flights.len() > PLACES && self.flights.last().is_some_and(|f| !f.live) {
            self.flights.pop();
        }
    }

    /// The leg has left: every piece goes, waiting or under way. What is under way comes back as a
    /// straggler that no flight knows.
    pub fn clear(&mut self, gone: &mut Vec<Piece>, pool: &mut PayloadPool) {
        for slot in 0..self.flights.len() as u32 {
            if self.flight(slot).is_some() {
                self.end_flight(slot, pool, |_, piece, pool| {
                    pool.release(piece.payload);
                    gone.push(piece);
                });
            }
        }
        for (_, piece) in std::mem::take(&mut self.waiting) {
            pool.release(piece.payload);
            gone.push(piece);
        }
        self.order.clear();
        self.hurried.clear();
        (self.bytes, self.head) = (0, 0);
    }

    /// What has failed more than `tries` times, waiting or under way.
    pub fn failed(&self, tries: u8) -> impl Iterator<Item = &Piece> {
        let flying = self.flights().flat_map(|f| &f.pieces);
        self.waiting.values().chain(flying).filter(move |p| p.tries > tries)
    }

    /// Pieces that wait and have failed more than `tries` times go; what is under way stays.
    pub fn drop_failed(&mut self, tries: u8, gone: &mut Vec<Piece>, pool: &mut PayloadPool) {
        let from = gone.len();
        gone.extend(self.waiting.values().filter(|p| p.tries > tries));
        for piece in &gone[from..] {
            self.remove(piece);
            pool.release(piece.payload);
        }
    }
}

/// The oldest version of some pieces, and when the first of them was issued.
fn oldest(pieces: &[Piece]) -> (u64, Instant) {
    let first = (u64::MAX, Instant(u64::MAX));
    pieces.iter().fold(first, |(oldest, since), p| (oldest.min(p.oldest), since.min(p.since)))
}

#[cfg(test)]
mod tests;
