//! Fills: child requests that bring blocks into memory.
//!
//! A fill spans at most 64 blocks and no more than the device takes at once. Of those it *wants* the blocks that were
//! neither here nor on their way; others in between are read again and thrown away (O0-10). Memory for what it wants is
//! reserved before it starts.

use super::{Cache, Tag};
use crate::map::{Hashed, LineMap};
use crate::prefetch::Range;
use crate::replacement::{Arrival, Cause, Recall};
use nandu_base::{ByteLen, ByteOffset, Cx, Draft, Flags, Op, ReqId, Step, TenantId};

/// A read that waits for blocks of a fill.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiter {
    read: u32,
    /// The blocks, as bits from the first of the fill.
    blocks: u64,
}

/// Blocks on their way.
#[derive(Clone, Debug)]
pub(super) struct Fill {
    first: u64,
    count: u32,
    /// What memory is reserved for.
    wanted: u64,
    /// Of these, what a request has asked for.
    asked: u64,
    /// Of these, what was written meanwhile and must not be kept.
    spoiled: u64,
    /// Nobody waited when it started.
    ahead: bool,
    sequential: bool,
    /// What the policy remembers of lines, by the bit of the first wanted block of each.
    once: u64,
    often: u64,
    waiters: Vec<Waiter>,
}

impl Fill {
    /// Blocks that memory is reserved for.
    pub fn reserved(&self) -> u32 {
        self.wanted.count_ones()
    }

    /// A request asks for `block`. True when it is the first.
    pub fn meet(&mut self, block: u64) -> bool {
        let bit = 1 << (block - self.first);
        let first = self.asked & bit == 0;
        self.asked |= bit;
        first
    }

    /// Read number `read` waits for `block`. True when it did not wait for this fill before.
    pub fn wait(&mut self, read: u32, block: u64) -> bool {
        let bit = 1 << (block - self.first);
        match self.waiters.iter_mut().rev().find(|w| w.read == read) {
            Some(waiter) => {
                waiter.blocks |= bit;
                false
            }
            None => {
                self.waiters.push(Waiter { read, blocks: bit });
                true
            }
        }
    }

    /// `block` is written: what comes for it must not be kept, and nobody may wait for it any more.
    pub fn spoil(&mut self, block: u64) {
        self.spoiled |= 1 << (block - self.first);
    }

    /// Nothing of it must be kept.
    pub fn spoil_all(&mut self, flying: &mut Hashed) {
        let mut left = self.wanted & !self.spoiled;
        self.spoiled |= left;
        while left != 0 {
            flying.remove(self.first + u64::from(left.trailing_zeros()));
            left &= left - 1;
        }
    }

    /// Whether it overlaps `range`.
    pub fn meets(&self, range: Range) -> bool {
        self.first < range.end && range.first < self.first + u64::from(self.count)
    }
}

/// Bits `from..to` of 64.
fn bits(from: u64, to: u64) -> u64 {
    if from >= to {
        return 0;
    }
    (u64::MAX >> (64 - (to - from))) << from
}

impl Cache {
    /// Starts fills for what is missing and what is planned. The read `id` waits for what it asked for.
    pub(super) fn bring(&mut self, id: ReqId, wait: &mut Option<u32>, cx: &mut Cx<'_>) {
        let missing = std::mem::take(&mut self.missing);
        let planned = std::mem::take(&mut self.planned);
        if self.config.demand_first {
            missing.iter().for_each(|&range| self.fill_range(range, id, wait, &missing, cx));
            planned.iter().for_each(|&range| self.fill_range(range, id, wait, &[], cx));
        } else {
            self.bring_together(&missing, &planned, id, wait, cx);
        }
        (self.missing, self.planned) = (missing, planned);
    }

    /// Both lists are in order: ranges that touch are brought together.
    fn bring_together(
        &mut self,
        missing: &[Range],
        planned: &[Range],
        id: ReqId,
        wait: &mut Option<u32>,
        cx: &mut Cx<'_>,
    ) {
        let (mut m, mut p) = (0, 0);
        let mut next = |upto: u64| {
            let (a, b) =
                (missing.get(m).filter(|r| r.first <= upto), planned.get(p).filter(|r| r.first <= upto));
            let of_missing = match (a, b) {
                (None, None) => return None,
                (Some(a), Some(b)) => a.first < b.first,
                (a, _) => a.is_some(),
            };
            let taken = if of_missing { &mut m } else { &mut p };
            *taken += 1;
            if of_missing { a } else { b }.copied()
        };
        while let Some(mut range) = next(u64::MAX) {
            while let Some(more) = next(range.end) {
                range.end = range.end.max(more.end);
            }
            self.fill_range(range, id, wait, missing, cx);
        }
    }

    /// Whether a fill should bring `block`.
    fn is_wanted(&self, block: u64) -> bool {
        !self.directory.holds(block)
            && self.flying.get(block).is_none()
            && !self.is_changing(block)
            && self.buffer.as_ref().is_none_or(|b| !b.holds(block))
    }

    /// Cuts a range into fills: in each segment from the first to the last wanted block, side by side ones together.
    fn fill_range(
        &mut self,
        range: Range,
        id: ReqId,
        wait: &mut Option<u32>,
        missing: &[Range],
        cx: &mut Cx<'_>,
    ) {
        let longest = self.longest;
        let mut pending: Option<Range> = None;
        let mut at = range.first;
        while at < range.end {
            let end = (at / self.span * self.span + self.span).min(range.end);
            let first = (at..end).find(|&block| self.is_wanted(block));
            let last = (at..end).rev().find(|&block| self.is_wanted(block));
            at = end;
            let (Some(first), Some(last)) = (first, last) else { continue };
            let mut piece = Range { first, end: last + 1 };
            if let Some(before) = pending {
                if before.end == piece.first && piece.end - before.first <= longest {
                    piece.first = before.first;
                } else {
                    self.start_fill(before, id, wait, missing, cx);
                }
            }
            while piece.end - piece.first > longest {
                let head = Range { first: piece.first, end: piece.first + longest };
                self.start_fill(head, id, wait, missing, cx);
                piece.first = head.end;
            }
            pending = Some(piece);
        }
        if let Some(piece) = pending {
            self.start_fill(piece, id, wait, missing, cx);
        }
    }

    fn start_fill(
        &mut self,
        span: Range,
        id: ReqId,
        wait: &mut Option<u32>,
        missing: &[Range],
        cx: &mut Cx<'_>,
    ) {
        let bit = |block: u64| 1u64 << (block - span.first);
        let wanted = (span.first..span.end).filter(|&b| self.is_wanted(b)).map(bit).fold(0, |a, b| a | b);
        let asked = missing.iter().map(|run| {
            let (from, to) = (run.first.max(span.first), run.end.min(span.end));
            bits(from.saturating_sub(span.first), to.saturating_sub(span.first))
        });
        let asked = asked.fold(0, |a, b| a | b) & wanted;
        if !self.config.colocated {
            return self.begin_fill(span.first, wanted, asked, id, wait, cx);
        }
        // Each row for itself: what lies between would be read with them, and cost what is to be saved.
        let mut left = asked | self.colocated(span.first, asked, wanted, cx);
        while left != 0 {
            let from = left.trailing_zeros();
            let row = bits(u64::from(from), u64::from(from + (left >> from).trailing_ones()));
            left &= !row;
            self.begin_fill(span.first, row, asked & row, id, wait, cx);
        }
    }

    /// A fill for `wanted` of the blocks from `first` on, of which `asked` were asked for.
    fn begin_fill(
        &mut self,
        first: u64,
        wanted: u64,
        asked: u64,
        id: ReqId,
        wait: &mut Option<u32>,
        cx: &mut Cx<'_>,
    ) {
        let ahead = asked == 0;
        if ahead && self.refuses(wanted, cx) {
            return;
        }
        let count = (64 - wanted.leading_zeros()) as u64;
        let skip = u64::from(wanted.trailing_zeros());
        let span = Range { first: first + skip, end: first + count };
        let (wanted, asked) = (wanted >> skip, asked >> skip);
        let fill = Fill {
            first: span.first,
            count: (span.end - span.first) as u32,
            wanted,
            asked,
            spoiled: 0,
            ahead,
            sequential: self.sequential,
            once: 0,
            often: 0,
            waiters: self.spare_waiters.pop().unwrap_or_default(),
        };
        match self.reserve(fill) {
            Some(fill) => self.send_fill(fill, id, wait, cx),
            None if ahead => self.refuse(wanted),
            None => self.pass(span, asked, id, wait, cx),
        }
        self.sweep(cx);
    }

    /// No memory is left: what was asked for is read past the cache.
    fn pass(&mut self, span: Range, asked: u64, id: ReqId, wait: &mut Option<u32>, cx: &mut Cx<'_>) {
        self.tally.uncached += 1;
        let wait = self.waiting(wait, id);
        let mut left = asked;
        while left != 0 {
            let from = left.trailing_zeros();
            let run = (left >> from).trailing_ones();
            let first = span.first + u64::from(from);
            self.direct(wait, Range { first, end: first + u64::from(run) }, cx);
            left &= !bits(u64::from(from), u64::from(from + run));
        }
    }

    /// Reserves memory for each line of a fill.
    fn reserve(&mut self, mut fill: Fill) -> Option<Fill> {
        let shift = self.directory.shift();
        let mut got = 0;
        for (line, from, to) in lines_of(fill.first, fill.count, shift) {
            let mask = bits(from, to);
            let wanted = fill.wanted & mask;
            if wanted == 0 {
                continue;
            }
            let cause = if fill.asked & mask == 0 { Cause::Prefetch } else { Cause::Read };
            let recall = match self.directory.is_new(line) {
                true => self.directory.announce(line, cause),
                false => Recall::Nothing,
            };
            let mark = 1 << wanted.trailing_zeros();
            match recall {
                Recall::Nothing => {}
                Recall::Once => fill.once |= mark,
                Recall::Often => fill.often |= mark,
            }
            let blocks = u64::from(wanted.count_ones());
            if !self.directory.reserve(blocks, recall) {
                self.directory.release(got);
                return None;
            }
            got += blocks;
        }
        Some(fill)
    }

    fn send_fill(&mut self, mut fill: Fill, id: ReqId, wait: &mut Option<u32>, cx: &mut Cx<'_>) {
        if fill.asked != 0 {
            let wait = self.waiting(wait, id);
            fill.waiters.push(Waiter { read: wait, blocks: fill.asked });
            self.reads[wait].left += 1;
        }
        let cause = cx.requests[id].cause;
        self.launch(fill, cause, Some(id), cx);
    }

    /// Sends a fill below: for the request `parent`, or one that nobody waits for. Its number.
    fn launch(&mut self, fill: Fill, cause: TenantId, parent: Option<ReqId>, cx: &mut Cx<'_>) -> u32 {
        let len = ByteLen(u64::from(fill.count) << self.block_bits);
        self.tally.fills += 1;
        self.tally.fill_bytes += len.0;
        self.tally.fetched_again += u64::from(fill.count - fill.wanted.count_ones()) << self.block_bits;
        let (ahead, first, wanted, asked) = (fill.ahead, fill.first, fill.wanted, fill.asked);
        let number = self.fills.add(fill);
        let mut left = wanted;
        while left != 0 {
            self.flying.insert(first + u64::from(left.trailing_zeros()), number);
            left &= left - 1;
        }
        let payload = cx.pool.allocate_unfilled(len);
        let draft = Draft {
            op: Op::Read,
            flags: self.fill_flags(ahead),
            offset: ByteOffset(first << self.block_bits),
            len,
            payload,
            cookie: Tag::Fill.cookie(number),
        };
        let child = match parent.filter(|_| !ahead) {
            None => {
                self.ahead_under_way += 1;
                self.tally.ahead += 1;
                cx.own(cause, draft)
            }
            Some(id) => cx.child(id, draft),
        };
        cx.pool.release(payload);
        cx.send(0, child);
        self.tell_asked(first, asked, cx);
        number
    }

    fn fill_flags(&self, ahead: bool) -> Flags {
        let flags = if ahead { Cache::AHEAD } else { Flags::NONE };
        if self.config.use_hints { flags.with(Flags::SPECULATIVE) } else { flags }
    }

    /// Tells which blocks of a fill were asked for, by rows.
    fn tell_asked(&self, first: u64, mut asked: u64, cx: &mut Cx<'_>) {
        while asked != 0 && self.config.use_hints {
            let from = asked.trailing_zeros();
            let row = (asked >> from).trailing_ones();
            self.tell_use(first + u64::from(from), u64::from(row), cx);
            asked &= !bits(u64::from(from), u64::from(from + row));
        }
    }

    /// Brings what is missing of at most 64 blocks, that nobody waits for, whatever the depth of prefetching. The number of
    /// the fill; [`None`] when nothing is missing or no memory is left.
    pub(super) fn fetch(&mut self, blocks: Range, cause: TenantId, cx: &mut Cx<'_>) -> Option<u32> {
        let first = (blocks.first..blocks.end).find(|&block| self.is_wanted(block))?;
        let last = (first..blocks.end).rev().find(|&block| self.is_wanted(block))?;
        let end = (last + 1).min(first + self.longest);
        let wanted =
            (first..end).filter(|&b| self.is_wanted(b)).map(|b| 1 << (b - first)).fold(0, |a, b| a | b);
        let fill = Fill {
            first,
            count: (end - first) as u32,
            wanted,
            asked: 0,
            spoiled: 0,
            ahead: true,
            sequential: false,
            once: 0,
            often: 0,
            waiters: self.spare_waiters.pop().unwrap_or_default(),
        };
        let fill = self.reserve(fill);
        self.sweep(cx);
        Some(self.launch(fill?, cause, None, cx))
    }

    /// A fill has come.
    pub(super) fn filled(&mut self, child: ReqId, number: u32, cx: &mut Cx<'_>) -> Step {
        let mut fill = self.fills.take(number);
        self.ahead_under_way -= u32::from(fill.ahead);
        let failed = cx.requests[child].error.is_some();
        if failed {
            self.tally.failed_fills += 1;
        }
        if self.planted.stale_fill {
            fill.spoiled = 0;
        }
        let kept = if failed { 0 } else { fill.wanted & !fill.spoiled };
        self.tally.spoiled_blocks += u64::from((fill.wanted & !kept).count_ones());
        self.directory.release(u64::from((fill.wanted & !kept).count_ones()));
        let mut left = fill.wanted & !fill.spoiled;
        while left != 0 {
            self.flying.remove(fill.first + u64::from(left.trailing_zeros()));
            left &= left - 1;
        }
        self.keep(&fill, kept, child, cx);
        let mut first = Step::Idle;
        for &waiter in &fill.waiters {
            if failed {
                self.read_alone(&fill, waiter, cx);
            } else {
                self.hand_over(&fill, waiter, child, cx);
            }
            let step = self.arrived(waiter.read, child, cx);
            Cache::first_of(&mut first, step, cx);
        }
        fill.waiters.clear();
        self.spare_waiters.push(std::mem::take(&mut fill.waiters));
        if self.buffer.as_ref().is_some_and(|b| b.is_padded_by(number)) {
            self.padded(failed, cx);
        }
        first
    }

    /// The blocks `kept` of a fill are in the cache from now on.
    fn keep(&mut self, fill: &Fill, kept: u64, child: ReqId, cx: &mut Cx<'_>) {
        let (payload, shift) = (cx.requests[child].payload, self.directory.shift());
        let share = self.store.begin(fill.first, u64::from(fill.count), payload, cx.pool);
        for (line, from, to) in lines_of(fill.first, fill.count, shift) {
            let mask = bits(from, to);
            if kept & mask == 0 {
                continue;
            }
            let first_bit = (fill.first + from) & ((1 << shift) - 1);
            let in_line = |blocks: u64| (blocks & mask) >> from << first_bit;
            let mark = 1 << (fill.wanted & mask).trailing_zeros();
            let recall = match (fill.once & mark != 0, fill.often & mark != 0) {
                (true, _) => Recall::Once,
                (_, true) => Recall::Often,
                _ => Recall::Nothing,
            };
            let cause = if fill.asked & mask == 0 { Cause::Prefetch } else { Cause::Read };
            let arrival = Arrival { cause, recall, sequential: fill.sequential };
            let new =
                self.directory.admit(line, in_line(kept & fill.asked), in_line(kept & !fill.asked), arrival);
            let Some(share) = share else { continue };
            self.sweep(cx);
            let mut left = if self.planted.stale_fill { in_line(kept) } else { new };
            while left != 0 {
                let block = (line << shift) + u64::from(left.trailing_zeros());
                let at = ByteLen((block - fill.first) << self.block_bits);
                self.store.put(block, payload.slice(at), share, cx.pool);
                left &= left - 1;
            }
        }
        self.store.end(share, cx.pool);
    }

    /// Copies what a read waited for into its payload.
    fn hand_over(&self, fill: &Fill, waiter: Waiter, child: ReqId, cx: &mut Cx<'_>) {
        let request = &cx.requests[self.reads[waiter.read].id];
        let (to, offset, end) = (request.payload, request.offset.0, request.end().0);
        if to.is_none() {
            return;
        }
        let from = cx.requests[child].payload;
        let mut left = waiter.blocks;
        while left != 0 {
            let bit = u64::from(left.trailing_zeros());
            let (at, within, len) = self.part(fill.first + bit, offset, end);
            cx.pool.copy(from.slice(ByteLen((bit << self.block_bits) + within.0)), to.slice(at), len);
            left &= left - 1;
        }
    }

    /// The fill failed: the read reads what it waited for itself.
    fn read_alone(&mut self, fill: &Fill, waiter: Waiter, cx: &mut Cx<'_>) {
        let mut left = waiter.blocks;
        while left != 0 {
            let from = left.trailing_zeros();
            let run = (left >> from).trailing_ones();
            let first = fill.first + u64::from(from);
            self.direct(waiter.read, Range { first, end: first + u64::from(run) }, cx);
            left &= !bits(u64::from(from), u64::from(from + run));
        }
    }
}

/// The lines of blocks `first..first + count`: each with the bits of the span that lie in it.
fn lines_of(first: u64, count: u32, shift: u32) -> impl Iterator<Item = (u64, u64, u64)> {
    let end = first + u64::from(count);
    (first >> shift..=(end - 1) >> shift).map(move |line| {
        let from = (line << shift).max(first);
        let to = ((line + 1) << shift).min(end);
        (line, from - first, to - first)
    })
}
