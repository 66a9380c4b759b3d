//! Pending requests: every request that waits, and how many of each tenant are in flight.
//!
//! Requests stand in groups, as the scheduler wants them: by tenant, by channel and tenant, or all in one. In a group,
//! reads and the rest have a list each in the order of arrival and, where the scheduler walks by address, a
//! [tree](crate::sorted) too.
//!
//! Cost: O(1) for a call, O(log n) with trees. About 100 bytes for a waiting request; nothing is allocated once as many
//! waited as ever will.

use crate::sorted::{Forest, NONE, Tree};
use nandu_base::{Instant, Op, ReqId, Span, TenantId};

/// Reads, and all the rest: a flush or a trim is weighed as a write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Class {
    /// A read.
    Read = 0,
    /// A write, trim, write-zeroes, reset or flush.
    Write = 1,
}

impl Class {
    /// The class of an operation.
    pub fn of(op: Op) -> Class {
        if op == Op::Read { Class::Read } else { Class::Write }
    }

    /// The other one.
    pub fn other(self) -> Class {
        match self {
            Class::Read => Class::Write,
            Class::Write => Class::Read,
        }
    }
}

/// A request that waits, or is on its way.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// The request from above, or what else the owner knows it by.
    pub id: ReqId,
    /// Whose it is.
    pub tenant: TenantId,
    /// What it is.
    pub class: Class,
    /// First byte.
    pub start: u64,
    /// One past the last byte.
    pub end: u64,
    /// When it came to the scheduler.
    pub arrived: Instant,
    /// What it is taken to cost the device.
    pub cost: Span,
    /// Where below it will be served, as far as that is known: a channel.
    pub lane: u32,
    /// Place in the order of arrival.
    pub number: u64,
    /// Its group.
    pub group: u32,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    entry: Entry,
    older: u32,
    newer: u32,
}

#[derive(Clone, Copy, Debug)]
struct List {
    oldest: u32,
    newest: u32,
    len: u32,
}

const EMPTY: List = List { oldest: NONE, newest: NONE, len: 0 };

/// The waiting requests.
#[derive(Clone, Debug)]
pub struct PendingRequests {
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// By group and class.
    lists: Vec<[List; 2]>,
    forest: Forest,
    /// By group and class, where the scheduler asks for them; else empty.
    trees: Vec<[Tree; 2]>,
    waiting: u32,
    /// Tenants of which a request waits.
    contenders: u32,
    waiting_of: Vec<[u32; 2]>,
    out: u32,
    out_of: Vec<[u32; 2]>,
    next_number: u64,
}

impl PendingRequests {
    /// Nothing waits; `groups` groups of requests of `tenants` tenants, SYSTEM included.
    pub fn new(groups: usize, tenants: usize, by_address: bool) -> PendingRequests {
        PendingRequests {
            slots: Vec::new(),
            free: Vec::new(),
            lists: vec![[EMPTY; 2]; groups],
            forest: Forest::default(),
            trees: if by_address { vec![[Tree::default(); 2]; groups] } else { Vec::new() },
            waiting: 0,
            contenders: 0,
            waiting_of: vec![[0; 2]; tenants],
            out: 0,
            out_of: vec![[0; 2]; tenants],
            next_number: 0,
        }
    }

    /// Puts a request up; its number is given here.
    pub fn add(&mut self, entry: Entry) -> u32 {
        let number = self.next_number;
        self.add_numbered(Entry { number, ..entry })
    }

    /// Puts a request up that has its number already, as one that could not be put up when its turn came. Its place is that of its
    /// number; finding it costs a step for each younger one of its group and class. [`add`](PendingRequests::add) counts on from the
    /// highest number.
    pub fn add_numbered(&mut self, entry: Entry) -> u32 {
        self.next_number = self.next_number.max(entry.number + 1);
        let (group, class) = (entry.group as usize, entry.class as usize);
        let (mut older, mut newer) = (self.lists[group][class].newest, NONE);
        while older != NONE && self.get(older).number > entry.number {
            (older, newer) = (self.slots[older as usize].older, older);
        }
        let new = Slot { entry, older, newer };
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = new;
                slot
            }
            None => {
                self.slots.push(new);
                (self.slots.len() - 1) as u32
            }
        };
        let list = &mut self.lists[group][class];
        match older {
            NONE => list.oldest = slot,
            older => self.slots[older as usize].newer = slot,
        }
        match newer {
            NONE => list.newest = slot,
            newer => self.slots[newer as usize].older = slot,
        }
        list.len += 1;
        if let Some(trees) = self.trees.get_mut(group) {
            self.forest.insert(&mut trees[class], slot, entry.start);
        }
        self.waiting += 1;
        let own = &mut self.waiting_of[usize::from(entry.tenant.0)];
        self.contenders += u32::from(*own == [0; 2]);
        own[class] += 1;
        slot
    }

    /// Takes a request down: it is on its way from now on.
    pub fn take(&mut self, slot: u32) -> Entry {
        let Slot { entry, older, newer } = self.slots[slot as usize];
        let (group, class) = (entry.group as usize, entry.class as usize);
        let list = &mut self.lists[group][class];
        match older {
            NONE => list.oldest = newer,
            older => self.slots[older as usize].newer = newer,
        }
        match newer {
            NONE => list.newest = older,
            newer => self.slots[newer as usize].older = older,
        }
        list.len -= 1;
        if let Some(trees) = self.trees.get_mut(group) {
            self.forest.remove(&mut trees[class], slot);
        }
        self.free.push(slot);
        let tenant = usize::from(entry.tenant.0);
        self.waiting -= 1;
        self.waiting_of[tenant][class] -= 1;
        self.contenders -= u32::from(self.waiting_of[tenant] == [0; 2]);
        self.out += 1;
        self.out_of[tenant][class] += 1;
        entry
    }

    /// A request that was taken down is done.
    pub fn came_back(&mut self, entry: &Entry) {
        self.out -= 1;
        self.out_of[usize::from(entry.tenant.0)][entry.class as usize] -= 1;
    }

    /// The request in this slot.
    #[inline]
    pub fn get(&self, slot: u32) -> &Entry {
        &self.slots[slot as usize].entry
    }

    /// The oldest request of a group and class.
    #[inline]
    pub fn oldest(&self, group: usize, class: Class) -> Option<u32> {
        let slot = self.lists[group][class as usize].oldest;
        (slot != NONE).then_some(slot)
    }

    /// The oldest request of a group.
    pub fn first(&self, group: usize) -> Option<u32> {
        match (self.oldest(group, Class::Read), self.oldest(group, Class::Write)) {
            (Some(r), Some(w)) => Some(if self.get(r).number < self.get(w).number { r } else { w }),
            (read, write) => read.or(write),
        }
    }

    /// The request of a group and class that begins at or behind `start`. Only where requests stand by address.
    pub fn at_or_after(&self, group: usize, class: Class, start: u64) -> Option<u32> {
        self.forest.at_or_after(self.trees[group][class as usize], start)
    }

    /// Requests that wait in a group.
    pub fn waiting_in(&self, group: usize) -> u32 {
        self.lists[group][0].len + self.lists[group][1].len
    }

    /// Groups there are.
    pub fn groups(&self) -> usize {
        self.lists.len()
    }

    /// Tenants there are, SYSTEM included.
    pub fn tenants(&self) -> usize {
        self.out_of.len()
    }

    /// Requests that wait.
    #[inline]
    pub fn waiting(&self) -> u32 {
        self.waiting
    }

    /// Whether a read waits, of any tenant.
    pub fn reads_wait(&self) -> bool {
        self.waiting_of.iter().any(|waiting| waiting[Class::Read as usize] > 0)
    }

    /// Whether requests of several tenants wait.
    #[inline]
    pub fn is_contended(&self) -> bool {
        self.contenders > 1
    }

    /// Requests of a tenant and class that wait.
    pub fn waiting_of(&self, tenant: TenantId, class: Class) -> u32 {
        self.waiting_of[usize::from(tenant.0)][class as usize]
    }

    /// Requests on their way.
    #[inline]
    pub fn out(&self) -> u32 {
        self.out
    }

    /// Requests of a tenant on their way.
    pub fn out_of(&self, tenant: TenantId) -> u32 {
        let [reads, writes] = self.out_of[usize::from(tenant.0)];
        reads + writes
    }

    /// Requests of a tenant and class on their way.
    pub fn out_of_class(&self, tenant: TenantId, class: Class) -> u32 {
        self.out_of[usize::from(tenant.0)][class as usize]
    }

    /// Requests of a tenant that wait or are on their way.
    pub fn held_of(&self, tenant: TenantId) -> u32 {
        let [reads, writes] = self.waiting_of[usize::from(tenant.0)];
        reads + writes + self.out_of(tenant)
    }

    /// Whether the counts agree with the lists; however long it takes.
    pub fn is_sound(&self) -> bool {
        let listed: u32 = self.lists.iter().flatten().map(|l| l.len).sum();
        let counted: u32 = self.waiting_of.iter().flatten().sum();
        let walked = self.lists.iter().flatten().all(|list| {
            let (mut at, mut seen) = (list.oldest, 0);
            while at != NONE {
                (at, seen) = (self.slots[at as usize].newer, seen + 1);
            }
            seen == list.len
        });
        let out: u32 = self.out_of.iter().flatten().sum();
        let contenders = self.waiting_of.iter().filter(|own| **own != [0; 2]).count() as u32;
        walked
            && contenders == self.contenders
            && listed == self.waiting
            && counted == self.waiting
            && out == self.out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Against the obvious: a list of what waits, searched from the front.
        #[test]
        fn it_is_a_list_searched_from_the_front(
            steps in prop::collection::vec((0u16..3, any::<bool>(), 0u64..20, 0u8..4), 1..200),
        ) {
            let mut pending = PendingRequests::new(3, 3, true);
            let mut plain: Vec<(u32, Entry)> = Vec::new();
            for (tenant, read, start, what) in steps {
                let class = if read { Class::Read } else { Class::Write };
                if what < 2 {
                    let entry = entry(tenant, class, start);
                    let slot = pending.add(entry);
                    plain.push((slot, *pending.get(slot)));
                } else {
                    let group = usize::from(tenant);
                    let of_class = |e: &Entry| e.group as usize == group && e.class == class;
                    let oldest = plain.iter().find(|(_, e)| of_class(e)).map(|p| p.0);
                    prop_assert_eq!(pending.oldest(group, class), oldest);
                    let first = plain.iter().find(|(_, e)| e.group as usize == group).map(|p| p.0);
                    prop_assert_eq!(pending.first(group), first);
                    let next = plain
                        .iter()
                        .filter(|(_, e)| of_class(e) && e.start >= start)
                        .min_by_key(|(slot, e)| (e.start, *slot))
                        .map(|p| p.0);
                    prop_assert_eq!(pending.at_or_after(group, class, start), next);
                    if let Some(slot) = if what == 2 { next } else { first } {
                        let entry = pending.take(slot);
                        let place = plain.iter().position(|p| p.0 == slot).unwrap();
                        prop_assert_eq!(entry.number, plain.remove(place).1.number);
                        pending.came_back(&entry);
                    }
                }
                prop_assert_eq!(pending.waiting() as usize, plain.len());
                prop_assert!(pending.is_sound());
            }
        }
    }

    #[test]
    fn one_that_comes_late_stands_where_its_number_says() {
        for seed in 0..200 {
            let mut rng = nandu_base::Rng::new(seed);
            let (mut pending, mut plain) = (PendingRequests::new(2, 2, false), Vec::new());
            for number in 0..30 {
                // Each number once, in an order that is a little out of order.
                let number = number ^ (rng.below(2) * 3);
                if plain.iter().any(|&(n, _)| n == number) {
                    continue;
                }
                let class = if rng.below(2) == 0 { Class::Read } else { Class::Write };
                pending.add_numbered(Entry { number, ..entry(1, class, 0) });
                plain.push((number, class));
                if rng.below(3) == 0 {
                    let oldest = plain.iter().filter(|p| p.1 == class).min_by_key(|p| p.0).unwrap().0;
                    let slot = pending.oldest(1, class).unwrap();
                    assert_eq!(pending.take(slot).number, oldest, "seed {seed}");
                    plain.retain(|p| p.0 != oldest);
                }
                assert!(plain.iter().map(|p| p.0).min() == pending.first(1).map(|s| pending.get(s).number));
            }
            let (next, highest) = (pending.add(entry(1, Class::Read, 0)), plain.iter().map(|p| p.0).max());
            assert!(highest.is_none_or(|highest| pending.get(next).number > highest), "seed {seed}");
        }
    }

    fn entry(tenant: u16, class: Class, start: u64) -> Entry {
        Entry {
            id: ReqId(0),
            tenant: TenantId(tenant),
            class,
            start,
            end: start + 1,
            arrived: Instant::ZERO,
            cost: Span(1),
            lane: 0,
            number: 0,
            group: u32::from(tenant),
        }
    }
}
