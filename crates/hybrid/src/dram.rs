//! The DRAM in front of the rings: page frames, found by page, evicted in LRU order.
//!
//! A frame knows which of its 512 B sectors it holds (`valid`) and which of them no ring has (`dirty`). Frames that wait to
//! be appended to the top ring stand in the order in which they began to wait. Only frames that nothing waits for stand
//! in the LRU list; one that was appended enters it again as recently used.
//!
//! O4-5 leaves open in which order frames are appended. *Oldest* takes them as they began to wait. *LRU* takes first the one that was
//! not used for longest, so that a page that is written again and again is appended seldom; frames that wait then stand in a
//! second LRU list. A flush takes them by age in either case, since it waits for those that are older than itself.
//!
//! RAM: the pages, 80 bytes for each, and 4 bytes for each page of the disk.

use nandu_base::{ByteLen, Payload, PayloadPool, SECTOR, options};
use std::collections::VecDeque;

pub(crate) const NO_FRAME: u32 = u32::MAX;

/// One page of memory.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    pub page: u32,
    pub data: Payload,
    pub valid: u64,
    pub dirty: u64,
    /// What was dirty when the append that is under way began.
    pub writing: u64,
    /// What was dirty when a change of the whole page began its way past DRAM, and was not written since.
    pub passed: u64,
    /// When it began to wait, by count.
    pub since: u64,
    /// Stands in the row of those that wait.
    pub waits: bool,
    /// To be copied to the top ring, though the rings or the disk have it.
    pub promote: bool,
    /// What is promoted is not durable on the disk.
    pub promote_dirty: bool,
    /// Read ahead, and not known to be used.
    pub speculative: bool,
    /// An append is under way.
    pub is_written: bool,
    /// A read is under way.
    pub loading: bool,
    /// What that read finds is out of date.
    pub stale_load: bool,
    /// Failed reads in a row.
    pub failures: u8,
    /// Requests that wait for sectors of this page.
    pub waiters: Vec<u32>,
    newer: u32,
    older: u32,
    listed: bool,
    /// The list in which it stands is that of frames that wait.
    is_late: bool,
}

/// Which of the frames that wait to be appended goes first.
#[options]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// The one that waits for longest.
    Oldest,
    /// The one that was not used for longest; all the same for a flush.
    Lru,
}

/// Frames in the order of their last use.
#[derive(Clone, Copy, Debug)]
struct Ends {
    newest: u32,
    oldest: u32,
}

impl Ends {
    const EMPTY: Ends = Ends { newest: NO_FRAME, oldest: NO_FRAME };
}

/// The frames.
#[derive(Debug)]
pub(crate) struct Dram {
    pub frames: Vec<Frame>,
    frame_of: Vec<u32>,
    free: Vec<u32>,
    /// Frames that nothing waits for, and with [`Order::Lru`] those that wait.
    idle: Ends,
    late: Ends,
    /// In which order frames are appended.
    pub order: Order,
    forgets_age: bool,
    /// Frames that wait to be appended, the longest waiting first. Entries of other times are skipped.
    row: VecDeque<(u32, u64)>,
    pub waiting: u32,
    pub next_since: u64,
    page: ByteLen,
    pub full: u64,
}

impl Dram {
    /// `frames` frames of `page` bytes for a disk of `pages` pages.
    pub fn new(frames: usize, page: ByteLen, pages: usize, order: Order, forgets_age: bool) -> Dram {
        let frame = Frame {
            page: 0,
            data: Payload::NONE,
            valid: 0,
            dirty: 0,
            writing: 0,
            passed: 0,
            since: 0,
            waits: false,
            promote: false,
            promote_dirty: false,
            speculative: false,
            is_written: false,
            loading: false,
            stale_load: false,
            failures: 0,
            waiters: Vec::new(),
            newer: NO_FRAME,
            older: NO_FRAME,
            listed: false,
            is_late: false,
        };
        Dram {
            frames: vec![frame; frames],
            frame_of: vec![0; pages],
            free: (0..frames as u32).rev().collect(),
            idle: Ends::EMPTY,
            late: Ends::EMPTY,
            order,
            forgets_age,
            row: VecDeque::with_capacity(frames * 2),
            waiting: 0,
            next_since: 1,
            page,
            full: mask(0, page.sectors()),
        }
    }

    /// Gives every frame its memory.
    pub fn open(&mut self, pool: &mut PayloadPool) {
        for frame in &mut self.frames {
            if frame.data.is_none() {
                frame.data = pool.allocate(self.page);
            }
        }
    }

    /// Gives the memory back and forgets everything.
    pub fn close(&mut self, pool: &mut PayloadPool) {
        for frame in &mut self.frames {
            pool.release(std::mem::replace(&mut frame.data, Payload::NONE));
        }
    }

    #[inline]
    pub fn find(&self, page: u32) -> Option<u32> {
        self.frame_of[page as usize].checked_sub(1)
    }

    /// A frame for a page that has none; evicts the least recently used one that nothing waits for.
    pub fn take(&mut self, page: u32) -> Option<u32> {
        let at = match self.free.pop() {
            Some(at) => at,
            None => {
                let at = self.idle.oldest;
                if at == NO_FRAME {
                    return None;
                }
                self.unlist(at);
                self.frame_of[self.frames[at as usize].page as usize] = 0;
                at
            }
        };
        self.frame_of[page as usize] = at + 1;
        let frame = &mut self.frames[at as usize];
        frame.page = page;
        (frame.valid, frame.dirty, frame.writing, frame.passed, frame.failures) = (0, 0, 0, 0, 0);
        (frame.promote, frame.promote_dirty, frame.stale_load) = (false, false, false);
        frame.speculative = false;
        Some(at)
    }

    /// Whether [`Dram::take`] would find one.
    pub fn has_room(&self) -> bool {
        !self.free.is_empty() || self.idle.oldest != NO_FRAME
    }

    /// Whether nothing waits for or works on the frame.
    fn is_idle(&self, at: u32) -> bool {
        let f = &self.frames[at as usize];
        f.dirty == 0 && !f.promote && !f.is_written && !f.loading && f.waiters.is_empty()
    }

    /// The frame was used, or its state changed: puts it where it belongs.
    pub fn settle(&mut self, at: u32) {
        if self.frames[at as usize].listed {
            self.unlist(at);
        }
        let is_idle = self.is_idle(at);
        let f = &mut self.frames[at as usize];
        let wants = f.dirty != 0 || f.promote;
        if wants && (!f.waits || self.forgets_age) {
            self.waiting += u32::from(!f.waits);
            f.waits = true;
            f.since = self.next_since;
            self.next_since += 1;
            self.row.push_back((at, f.since));
            self.trim_row();
        } else if f.waits && !wants {
            f.waits = false;
            self.waiting -= 1;
        }
        let f = &self.frames[at as usize];
        if is_idle && f.valid == 0 {
            self.frame_of[f.page as usize] = 0;
            self.free.push(at);
        } else if is_idle || (f.waits && self.order == Order::Lru) {
            self.list(at);
        }
    }

    /// Frames that left the row out of turn leave their entries behind: these go when they are many.
    fn trim_row(&mut self) {
        if self.row.len() > 4 * self.frames.len() {
            let frames = &self.frames;
            self.row.retain(|&(at, since)| frames[at as usize].waits && frames[at as usize].since == since);
        }
    }

    /// The list to which a frame belongs: what waits is not idle.
    fn ends(&mut self, at: u32) -> &mut Ends {
        if self.frames[at as usize].waits { &mut self.late } else { &mut self.idle }
    }

    fn list(&mut self, at: u32) {
        let ends = self.ends(at);
        let newest = std::mem::replace(&mut ends.newest, at);
        if newest == NO_FRAME {
            ends.oldest = at;
        } else {
            self.frames[newest as usize].newer = at;
        }
        let f = &mut self.frames[at as usize];
        (f.older, f.newer, f.listed, f.is_late) = (newest, NO_FRAME, true, f.waits);
    }

    fn unlist(&mut self, at: u32) {
        let f = &mut self.frames[at as usize];
        let (older, newer, is_late) = (f.older, f.newer, f.is_late);
        f.listed = false;
        let ends = if is_late { &mut self.late } else { &mut self.idle };
        match older {
            NO_FRAME => ends.oldest = newer,
            other => self.frames[other as usize].newer = newer,
        }
        match newer {
            NO_FRAME => ends.newest = older,
            other => self.frames[other as usize].older = older,
        }
    }

    /// Since when the longest waiting frame waits.
    pub fn oldest_since(&mut self) -> Option<u64> {
        loop {
            let &(at, since) = self.row.front()?;
            let f = &self.frames[at as usize];
            if f.waits && f.since == since {
                return Some(since);
            }
            self.row.pop_front();
        }
    }

    /// Walks the frames that wait: `take` says whether a frame leaves them. Ends early when that says enough.
    pub fn walk(&mut self, order: Order, take: impl FnMut(&mut Frame, u32) -> Walk) {
        match order {
            Order::Oldest => self.walk_row(take),
            Order::Lru => self.walk_late(take),
        }
    }

    /// The one that was not used for longest first.
    fn walk_late(&mut self, mut take: impl FnMut(&mut Frame, u32) -> Walk) {
        let mut at = self.late.oldest;
        while at != NO_FRAME {
            let f = &mut self.frames[at as usize];
            let next = f.newer;
            match take(f, at) {
                Walk::Taken => self.leave_row(at),
                Walk::Kept => {}
                Walk::Enough => return,
            }
            at = next;
        }
    }

    fn leave_row(&mut self, at: u32) {
        if self.frames[at as usize].listed {
            self.unlist(at);
        }
        self.frames[at as usize].waits = false;
        self.waiting -= 1;
    }

    /// The one that waits for longest first.
    fn walk_row(&mut self, mut take: impl FnMut(&mut Frame, u32) -> Walk) {
        let mut left = self.row.len();
        let mut kept = 0;
        while left > 0 {
            left -= 1;
            let Some((at, since)) = self.row.pop_front() else { break };
            let f = &mut self.frames[at as usize];
            if !f.waits || f.since != since {
                continue;
            }
            match take(f, at) {
                Walk::Taken => self.leave_row(at),
                Walk::Kept => {
                    self.row.push_back((at, since));
                    kept += 1;
                }
                Walk::Enough => {
                    self.row.push_front((at, since));
                    break;
                }
            }
        }
        // What was kept goes back to the front, in order.
        self.row.rotate_right(kept);
    }

    /// After a loss: keeps what is dirty, forgets the rest.
    pub fn keep_dirty(&mut self) {
        for at in 0..self.frames.len() as u32 {
            let f = &mut self.frames[at as usize];
            if self.frame_of[f.page as usize] != at + 1 {
                continue;
            }
            f.dirty |= f.writing;
            (f.valid, f.writing, f.passed) = (f.dirty, 0, 0);
            (f.promote, f.is_written, f.loading, f.stale_load) = (false, false, false, false);
            f.waiters.clear();
            self.settle(at);
        }
    }

    /// The rings are gone: nothing is on its way there any more.
    pub fn forget_rings(&mut self) {
        for at in 0..self.frames.len() as u32 {
            let f = &mut self.frames[at as usize];
            if self.frame_of[f.page as usize] == at + 1 {
                (f.promote, f.is_written, f.writing) = (false, false, 0);
                self.settle(at);
            }
        }
    }

    /// Nothing is copied to the top ring that need not be there.
    pub fn forget_promotions(&mut self) {
        for at in 0..self.frames.len() as u32 {
            if std::mem::take(&mut self.frames[at as usize].promote) {
                self.settle(at);
            }
        }
    }

    /// Frames with data that no ring has.
    pub fn dirty_frames(&self) -> u64 {
        self.frames.iter().filter(|f| f.dirty | f.writing != 0).count() as u64
    }

    /// Every frame that must wait does.
    pub fn is_sound(&self) -> bool {
        let held = |at: u32, f: &Frame| self.frame_of[f.page as usize] == at + 1;
        (0..).zip(&self.frames).filter(|(at, f)| held(*at, f)).all(|(at, f)| {
            let wants = f.dirty != 0 || f.promote;
            let listed = self.is_idle(at) || (f.waits && self.order == Order::Lru);
            wants == f.waits && f.listed == listed && (!f.listed || f.is_late == f.waits)
        })
    }
}

/// What becomes of a frame in the row.
pub(crate) enum Walk {
    /// It leaves the row.
    Taken,
    /// It stays in its place.
    Kept,
    /// It stays, and the walk ends.
    Enough,
}

/// The bits of sectors `first..end`.
pub(crate) fn mask(first: u64, end: u64) -> u64 {
    let below = |n: u64| if n >= 64 { u64::MAX } else { (1 << n) - 1 };
    below(end) & !below(first)
}

/// Rows of set bits of `mask`, as first sector and count.
pub(crate) fn rows(mut mask: u64) -> impl Iterator<Item = (u64, u64)> {
    std::iter::from_fn(move || {
        let first = u64::from(mask.trailing_zeros());
        if first == 64 {
            return None;
        }
        let count = u64::from((mask >> first).trailing_ones());
        mask &= !self::mask(first, first + count);
        Some((first, count))
    })
}

/// Copies the sectors of `wanted` between two buffers of a page.
pub(crate) fn copy_sectors(pool: &mut PayloadPool, from: Payload, to: Payload, wanted: u64) {
    for (first, count) in rows(wanted) {
        let (at, len) = (ByteLen(first * SECTOR), ByteLen(count * SECTOR));
        pool.copy(from.slice(at), to.slice(at), len);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_bits() {
        assert_eq!(rows(0b1110_0101).collect::<Vec<_>>(), [(0, 1), (2, 1), (5, 3)]);
        assert_eq!(rows(u64::MAX).collect::<Vec<_>>(), [(0, 64)]);
        assert_eq!(mask(2, 5), 0b11100);
    }

    #[test]
    fn the_least_recently_used_goes_and_what_waits_stays() {
        let mut d = Dram::new(3, ByteLen::kib(4), 10, Order::Oldest, false);
        for page in 0..3 {
            let at = d.take(page).unwrap();
            d.frames[at as usize].valid = d.full;
            d.frames[at as usize].dirty = if page == 0 { 1 } else { 0 };
            d.settle(at);
        }
        let one = d.find(1).unwrap();
        d.settle(one);
        assert!(d.take(7).is_some());
        assert!(d.find(2).is_none() && d.find(1).is_some() && d.find(0).is_some());
        assert_eq!((d.waiting, d.oldest_since()), (1, Some(1)));
        d.walk(Order::Oldest, |_, _| Walk::Kept);
        assert_eq!(d.oldest_since(), Some(1));
        d.walk(Order::Oldest, |f, _| {
            f.dirty = 0;
            Walk::Taken
        });
        assert_eq!((d.waiting, d.oldest_since()), (0, None));
    }

    #[test]
    fn with_lru_the_one_not_used_for_longest_is_appended_first_and_a_flush_goes_by_age() {
        for seed in 0..50 {
            let mut rng = nandu_base::Rng::new(seed);
            let mut d = Dram::new(8, ByteLen::kib(4), 20, Order::Lru, false);
            // An obvious version: dirty pages by their last use, and by their age.
            let (mut by_use, mut by_age): (Vec<u32>, Vec<u32>) = (Vec::new(), Vec::new());
            for _ in 0..200 {
                let page = rng.below(8) as u32;
                let at = d.find(page).or_else(|| d.take(page)).expect("there are as many frames");
                if rng.below(4) > 0 {
                    d.frames[at as usize].valid = d.full;
                    d.frames[at as usize].dirty = 1;
                    by_use.retain(|&p| p != page);
                    by_use.push(page);
                    if !by_age.contains(&page) {
                        by_age.push(page);
                    }
                    d.settle(at);
                } else {
                    d.settle(at);
                    let order = if rng.below(2) == 0 { Order::Lru } else { Order::Oldest };
                    // What was used but not dirtied counts as used as well.
                    if by_use.contains(&page) {
                        by_use.retain(|&p| p != page);
                        by_use.push(page);
                    }
                    let mut taken = None;
                    d.walk(order, |f, at| {
                        if taken.is_some() {
                            return Walk::Enough;
                        }
                        f.dirty = 0;
                        taken = Some((f.page, at));
                        Walk::Taken
                    });
                    let want = if order == Order::Lru { by_use.first() } else { by_age.first() };
                    assert_eq!(taken.map(|t| t.0), want.copied(), "seed {seed}");
                    if let Some((page, at)) = taken {
                        by_use.retain(|&p| p != page);
                        by_age.retain(|&p| p != page);
                        d.settle(at);
                    }
                }
                assert!(d.is_sound(), "seed {seed}");
                assert_eq!(d.waiting as usize, by_age.len(), "seed {seed}");
                let oldest = by_age.first().and_then(|&p| d.find(p)).map(|at| d.frames[at as usize].since);
                assert_eq!(d.oldest_since(), oldest, "seed {seed}");
            }
        }
    }
}
