//! The pages in the buffer: which there are, which is the oldest, and which are on their way to the flash.
//!
//! A page takes a slot. It *waits* there until the drive programs it, *leaves* while it is programmed, and its slot is free when
//! that is complete. A page that waits takes newer writes in; to one that leaves nothing can be added, so a newer write takes a
//! slot of its own. The index knows the newest slot of each logical page.
//!
//! Waiting slots form a list in the order in which they came, one for each lane. Leaving ones stand in the order of their ends: nearly all of them
//! take equally long, so a new one belongs at the tail. Nothing is allocated after the start. RAM: 4 bytes for each logical page,
//! 112 for each slot.

use crate::write_buffer::Held;
use nandu_base::{Instant, Payload, ReqId, TenantId, Violation};
use std::collections::VecDeque;

/// No slot.
pub(super) const NONE: u32 = u32::MAX;

/// Where the page of a slot is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    Free,
    Waiting,
    /// Given to the dies; when it is complete is not known yet.
    Issued,
    /// Complete then.
    Leaving(Instant),
}

/// One page.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    pub lpn: u32,
    pub lane: u32,
    pub state: State,
    pub held: Held,
    /// Its place in the order in which pages came. What replaces it does not change that.
    pub ticket: u64,
    pub came: Instant,
    pub cause: TenantId,
    /// A write with FUA that ends when this page is programmed.
    pub waiter: ReqId,
    /// The slot that held the page before and was leaving when this one was taken, or [`NONE`].
    older: u32,
    /// Neighbours in the list of those that wait; the next free one.
    before: u32,
    after: u32,
}

/// What was in a slot that is free again.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gone {
    pub lpn: u32,
    pub payload: Payload,
    pub ticket: u64,
    pub waiter: ReqId,
}

/// The slots of a lane.
#[derive(Clone, Copy)]
struct Lane {
    oldest: u32,
    newest: u32,
    /// Those that are being programmed; of an only lane it is not counted, for all are.
    in_flight: u32,
}

const NOBODY: Lane = Lane { oldest: NONE, newest: NONE, in_flight: 0 };

const EMPTY: Slot = Slot {
    lpn: 0,
    lane: 0,
    state: State::Free,
    held: Held::NOTHING,
    ticket: 0,
    came: Instant::ZERO,
    cause: TenantId::SYSTEM,
    waiter: ReqId::NONE,
    older: NONE,
    before: NONE,
    after: NONE,
};

/// The slots of a buffer.
pub(super) struct Slots {
    slots: Vec<Slot>,
    /// The newest slot of each logical page, plus one.
    index: Vec<u32>,
    free: u32,
    /// Lane 0, which most drives have alone, and the others.
    first: Lane,
    others: Vec<Lane>,
    waiting: u32,
    issued: u32,
    leaving: VecDeque<(Instant, u32)>,
    /// The last ticket that was given.
    pub ticket: u64,
    /// A fault to plant: now and then a slot is not given back.
    pub loses_some: bool,
}

impl Slots {
    pub fn new(capacity: u32, logical: u32, lanes: u32) -> Slots {
        let slot = |at| Slot { after: if at + 1 == capacity { NONE } else { at + 1 }, ..EMPTY };
        Slots {
            slots: (0..capacity).map(slot).collect(),
            index: vec![0; logical as usize],
            free: 0,
            first: NOBODY,
            others: vec![NOBODY; lanes as usize - 1],
            waiting: 0,
            issued: 0,
            leaving: VecDeque::with_capacity(capacity as usize),
            ticket: 0,
            loses_some: false,
        }
    }

    pub fn capacity(&self) -> u32 {
        self.slots.len() as u32
    }

    /// Pages that wait.
    pub fn waiting(&self) -> u32 {
        self.waiting
    }

    /// How many lanes there are.
    pub fn lanes(&self) -> u32 {
        1 + self.others.len() as u32
    }

    #[inline(always)]
    fn lane(&self, lane: u32) -> &Lane {
        if lane == 0 { &self.first } else { &self.others[lane as usize - 1] }
    }

    #[inline(always)]
    fn lane_mut(&mut self, lane: u32) -> &mut Lane {
        if lane == 0 { &mut self.first } else { &mut self.others[lane as usize - 1] }
    }

    /// Pages of a lane that are being programmed.
    #[inline(always)]
    pub fn in_flight(&self, lane: u32) -> u32 {
        match self.others.is_empty() {
            true => self.issued + self.leaving.len() as u32,
            false => self.lane(lane).in_flight,
        }
    }

    pub fn used(&self) -> u32 {
        self.waiting + self.issued + self.leaving.len() as u32
    }

    pub fn has_room(&self) -> bool {
        self.free != NONE
    }

    pub fn slot(&self, at: u32) -> &Slot {
        &self.slots[at as usize]
    }

    pub fn slot_mut(&mut self, at: u32) -> &mut Slot {
        &mut self.slots[at as usize]
    }

    /// The slot with the newest version of a page.
    #[inline(always)]
    pub fn find(&self, lpn: u32) -> Option<u32> {
        self.index[lpn as usize].checked_sub(1)
    }

    /// Whether any page of `first..end` is here.
    #[inline]
    pub fn holds_any(&self, first: u32, end: u32) -> bool {
        self.index[first as usize..end as usize].iter().any(|&slot| slot != 0)
    }

    /// The slot of a lane that has waited longest.
    #[inline(always)]
    pub fn oldest(&self, lane: u32) -> Option<u32> {
        Some(self.lane(lane).oldest).filter(|&oldest| oldest != NONE)
    }

    /// Puts a page into a free slot, of which there is one.
    #[inline(always)]
    pub fn take(&mut self, lpn: u32, lane: u32, held: Held, came: Instant, cause: TenantId) -> u32 {
        let at = self.free;
        self.ticket += 1;
        self.put(at, lpn, lane, held, came, cause);
        at
    }

    #[inline(always)]
    fn put(&mut self, at: u32, lpn: u32, lane: u32, held: Held, came: Instant, cause: TenantId) {
        let older = self.find(lpn).unwrap_or(NONE);
        let newest = self.lane(lane).newest;
        let slot = &mut self.slots[at as usize];
        debug_assert!(slot.state == State::Free);
        self.free = slot.after;
        *slot = Slot {
            lpn,
            lane,
            state: State::Waiting,
            held,
            ticket: self.ticket,
            came,
            cause,
            waiter: ReqId::NONE,
            older,
            before: newest,
            after: NONE,
        };
        if newest != NONE {
            self.slots[newest as usize].after = at;
        }
        let ends = self.lane_mut(lane);
        ends.newest = at;
        if newest == NONE {
            ends.oldest = at;
        }
        self.waiting += 1;
        self.index[lpn as usize] = at + 1;
    }

    /// The page in a waiting slot is given to the dies.
    #[inline(always)]
    pub fn issue(&mut self, at: u32) {
        self.unlink(at);
        self.issued += 1;
        let slot = &mut self.slots[at as usize];
        slot.state = State::Issued;
        if !self.others.is_empty() {
            let lane = slot.lane;
            self.lane_mut(lane).in_flight += 1;
        }
    }

    #[inline(always)]
    fn unlink(&mut self, at: u32) {
        let Slot { before, after, state, lane, .. } = self.slots[at as usize];
        debug_assert!(state == State::Waiting);
        match before {
            NONE => self.lane_mut(lane).oldest = after,
            before => self.slots[before as usize].after = after,
        }
        match after {
            NONE => self.lane_mut(lane).newest = before,
            after => self.slots[after as usize].before = before,
        }
        self.waiting -= 1;
    }

    /// The program of an issued page is complete at `end`, or when the version before it is; returns which.
    #[inline]
    pub fn leaves(&mut self, at: u32, mut end: Instant) -> Instant {
        let Slot { lpn, older, .. } = self.slots[at as usize];
        if older != NONE {
            let older = &self.slots[older as usize];
            if let (State::Leaving(until), true) = (older.state, older.lpn == lpn) {
                end = end.later(until);
            }
        }
        self.issued -= 1;
        self.slots[at as usize].state = State::Leaving(end);
        let mut place = self.leaving.len();
        while place > 0 && self.leaving[place - 1].0 > end {
            place -= 1;
        }
        match place == self.leaving.len() {
            true => self.leaving.push_back((end, at)),
            false => self.leaving.insert(place, (end, at)),
        }
        end
    }

    /// The slot with the version of a page before that in `at`, while it is not known when it leaves.
    pub fn issued_before(&self, at: u32) -> Option<u32> {
        let Slot { lpn, older, ticket, .. } = self.slots[at as usize];
        let slot = self.slots.get(older as usize)?;
        (slot.state == State::Issued && slot.lpn == lpn && slot.ticket < ticket).then_some(older)
    }

    /// When the first of those whose end is known is complete.
    #[inline]
    pub fn first_end(&self) -> Option<Instant> {
        self.leaving.front().map(|&(end, _)| end)
    }

    /// Frees a slot whose page is complete by `now`; what was in it.
    #[inline(always)]
    pub fn leave(&mut self, now: Instant) -> Option<Gone> {
        let &(end, at) = self.leaving.front()?;
        if end > now {
            return None;
        }
        self.leaving.pop_front();
        if !self.others.is_empty() {
            let lane = self.slots[at as usize].lane;
            self.lane_mut(lane).in_flight -= 1;
        }
        Some(self.give_back(at))
    }

    /// Frees a slot whose page need not be written any more; what was in it.
    pub fn drop_waiting(&mut self, at: u32) -> Gone {
        self.unlink(at);
        self.give_back(at)
    }

    #[inline]
    fn give_back(&mut self, at: u32) -> Gone {
        let slot = &mut self.slots[at as usize];
        let &mut Slot { lpn, ticket, waiter, held: Held { payload, .. }, .. } = slot;
        let was = Gone { lpn, payload, ticket, waiter };
        slot.state = State::Free;
        if !(self.loses_some && was.ticket.is_multiple_of(16)) {
            slot.after = self.free;
            self.free = at;
        }
        let newest = &mut self.index[was.lpn as usize];
        if *newest == at + 1 {
            *newest = 0;
        }
        was
    }

    /// Nothing is found under this page any more: what is in its slot is no longer the newest.
    pub fn hide(&mut self, lpn: u32) {
        self.index[lpn as usize] = 0;
    }

    /// Takes a certain slot, which is free, for a page that was in it when the power was cut.
    pub fn restore(&mut self, at: u32, ticket: u64, lpn: u32, lane: u32, held: Held, now: Instant) {
        let mut place = self.free;
        if place == at {
            self.free = self.slots[at as usize].after;
        } else {
            while self.slots[place as usize].after != at {
                place = self.slots[place as usize].after;
            }
            self.slots[place as usize].after = self.slots[at as usize].after;
        }
        self.slots[at as usize].after = self.free;
        self.free = at;
        self.ticket = ticket;
        self.put(at, lpn, lane, held, now, TenantId::SYSTEM);
    }

    /// Whether lists, index and numbers agree.
    pub fn check(&self) -> Result<(), Violation> {
        let mut count = [0u32; 4];
        for slot in &self.slots {
            count[match slot.state {
                State::Free => 0,
                State::Waiting => 1,
                State::Issued => 2,
                State::Leaving(_) => 3,
            }] += 1;
        }
        let mut listed = 0;
        for number in 0..self.lanes() {
            let (mut at, mut last) = (self.lane(number).oldest, 0);
            while at != NONE {
                let slot = &self.slots[at as usize];
                if slot.state != State::Waiting || slot.ticket < last || slot.lane != number {
                    let what = format!("slot {at} stands among those that wait, as {:?}", slot.state);
                    return Err(Violation { invariant: "buffer", what });
                }
                (listed, last, at) = (listed + 1, slot.ticket, slot.after);
            }
        }
        let (mut free, mut at) = (0, self.free);
        while at != NONE {
            (free, at) = (free + 1, self.slots[at as usize].after);
        }
        let known = [free, listed, self.issued, self.leaving.len() as u32];
        let in_flight: u32 = (0..self.lanes()).map(|lane| self.in_flight(lane)).sum();
        if count != known || self.waiting != listed || in_flight != count[2] + count[3] {
            let what = format!(
                "of free, waiting, issued and leaving slots there are {count:?}, and {known:?} are known"
            );
            return Err(Violation { invariant: "buffer", what });
        }
        let stray = (0..).zip(&self.index).find(|&(lpn, &slot)| {
            let is_here = |slot: &Slot| slot.state != State::Free && slot.lpn == lpn;
            slot != 0 && !is_here(&self.slots[slot as usize - 1])
        });
        match stray {
            None => Ok(()),
            Some((lpn, slot)) => {
                let what = format!("page {lpn} is not in slot {}, where the index has it", slot - 1);
                Err(Violation { invariant: "buffer", what })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandu_base::Rng;
    use std::collections::BTreeMap;

    /// The obvious buffer: a list that is searched.
    #[derive(Default)]
    struct Slow {
        waiting: Vec<(u64, u32)>,
        leaving: Vec<(Instant, u64, u32)>,
    }

    #[test]
    fn slots_agree_with_a_list_that_is_searched() {
        for seed in 0..100 {
            let mut rng = Rng::new(seed);
            let (mut slots, mut slow) = (Slots::new(6, 12, 1), Slow::default());
            let mut newest: BTreeMap<u32, u64> = BTreeMap::new();
            let mut now = Instant::ZERO;
            for turn in 0..300 {
                now.0 += rng.below(30);
                while let Some(gone) = slots.leave(now) {
                    let (at, &(end, ..)) = (0..).zip(&slow.leaving).min_by_key(|(_, l)| (l.0, l.1)).unwrap();
                    assert!(end <= now, "seed {seed}, turn {turn}");
                    let first = slow.leaving.iter().map(|l| l.0).min();
                    let was = slow.leaving.iter().position(|l| l.1 == gone.ticket && Some(l.0) == first);
                    slow.leaving.remove(was.unwrap_or(at));
                    if newest.get(&gone.lpn) == Some(&gone.ticket) {
                        newest.remove(&gone.lpn);
                    }
                }
                assert!(slow.leaving.iter().all(|l| l.0 > now), "seed {seed}, turn {turn}");
                let lpn = rng.below(12) as u32;
                match rng.below(4) {
                    0 | 1 if slots.has_room() => {
                        let waits = slots.find(lpn).filter(|&at| slots.slot(at).state == State::Waiting);
                        if waits.is_none() {
                            slots.take(lpn, 0, Held::NOTHING, now, TenantId::SYSTEM);
                            slow.waiting.push((slots.ticket, lpn));
                            newest.insert(lpn, slots.ticket);
                        }
                    }
                    2 => {
                        if let Some(at) = slots.oldest(0) {
                            let (ticket, lpn) = slow.waiting.remove(0);
                            slots.issue(at);
                            let slot = *slots.slot(at);
                            assert_eq!((slot.ticket, slot.lpn), (ticket, lpn), "seed {seed}, turn {turn}");
                            let end = slots.leaves(at, now + nandu_base::Span(rng.below(100)));
                            let same = slow.leaving.iter().filter(|l| l.2 == lpn);
                            assert!(same.clone().all(|l| l.0 <= end), "seed {seed}: a version overtook");
                            slow.leaving.push((end, ticket, lpn));
                        }
                    }
                    _ => {
                        if let Some(at) = slots.find(lpn).filter(|&at| slots.slot(at).state == State::Waiting)
                        {
                            let gone = slots.drop_waiting(at);
                            slow.waiting.retain(|w| w.0 != gone.ticket);
                            newest.remove(&lpn);
                        }
                    }
                }
                slots.check().unwrap();
                assert_eq!(slots.used() as usize, slow.waiting.len() + slow.leaving.len(), "seed {seed}");
                for lpn in 0..12 {
                    let ticket = slots.find(lpn).map(|at| slots.slot(at).ticket);
                    assert_eq!(ticket, newest.get(&lpn).copied(), "seed {seed}, turn {turn}, page {lpn}");
                }
            }
        }
    }
}
