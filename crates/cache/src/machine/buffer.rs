//! Write-back: which blocks are dirty, and when they go below.
//!
//! A write of whole blocks is acknowledged when the buffer has them. Reads look here first, so that what the device holds of a dirty
//! block does not matter. The data are in the one store of the cache ([`super::store`]), where a block has its newest; the buffer says
//! which of them are dirty. Blocks that are *destaged* go in a child write, from the buffer with which they came when one has them all,
//! else copied together. When it ends well and a block was not written again meanwhile, that block is clean, and stays as long as it is in
//! the lists of the cache.
//! One write of a block is under way at a time. A destage that fails leaves its blocks dirty; what waited for it fails,
//! and it is tried again when something waits for it next, or in time. A device that refuses is asked again only when
//! somebody waits for a block or something comes from outside: a request, the timer, the end, a destage that ends well. So
//! one moment never holds more tries than dirty blocks.
//!
//! A flush remembers how many blocks are dirty when it comes; each is counted off when the version of then, or a newer
//! one, is below. Then the flush goes below. A write with FUA goes through, behind what is dirty of its blocks; so does a
//! write for which the buffer has no room, one of parts of blocks that are not dirty, one of blocks that a change under
//! way concerns, and a long one (`bypass`) of blocks none of which is dirty.
//!
//! With padding (BPLRU), blocks of a unit that are not dirty join it before it is destaged: what the cache has of them, after
//! a read of what it lacks. They are dirty blocks like others from then on, so that a write meanwhile finds them. One unit
//! is padded at a time; a unit that somebody waits for, and one for which there is no room, goes as it is.
//!
//! A destage is a row of blocks. A policy that goes by units has rows within a unit; with one of single blocks (`lru`) dirty blocks on both
//! sides of the one whose turn it is go with it.
//!
//! Destaging begins when the buffer is half full, when data is older than `dirty_expire`, and when something waits.
//!
//! Cost: about 120 bytes for each dirty block; a destage looks at each block of its unit.

mod padding;
mod write_back;

use crate::destage::{Destage, Wrote};
use crate::list::{Chain, List};
use crate::map::{LineMap, Rows};
use crate::prefetch::Range;
use nandu_base::{ByteLen, Report, ReqId, Span, TenantId, TimerKey, Violation};

/// Failed destages after which a close gives up. Between them it waits, from 1 ms, each time twice as long: 4 s in all.
const CLOSE_TRIES: u32 = 12;
const DESTAGE: TimerKey = TimerKey(0);

/// A dirty block.
#[derive(Clone, Copy, Debug)]
struct Dirty {
    block: u64,
    unit: u32,
    /// The newest write.
    version: u64,
    /// The oldest acknowledged write that is not below.
    since: u64,
    /// The first write that came while an older one was on its way.
    after: Option<u64>,
    flying: bool,
    cause: TenantId,
}

/// Blocks that are destaged together.
#[derive(Clone, Copy, Default, Debug)]
struct Unit {
    number: u64,
    dirty: u32,
    /// The block that would go on with writing it in order.
    next: u64,
}

/// A child write under way.
#[derive(Clone, Copy, Debug)]
struct Destaging {
    blocks: Range,
    version: u64,
}

/// What goes next.
struct Next {
    unit: u32,
    /// Somebody waits for it.
    hurried: bool,
}

/// A flush that waits.
#[derive(Clone, Copy, Debug)]
struct Flush {
    id: ReqId,
    upto: u64,
    left: u64,
}

#[derive(Clone, Copy, Default, Debug)]
struct Tally {
    buffered: u64,
    rewritten: u64,
    through: u64,
    destages: u64,
    destaged: u64,
    failed: u64,
    most: u64,
    padded: u64,
}

/// The unit that is padded.
#[derive(Clone, Copy, Debug)]
struct Padding {
    number: u64,
    /// The fill that brings what is missing; [`None`] once it has come.
    fill: Option<u32>,
    cause: TenantId,
}

/// What a buffer is made of.
pub(crate) struct Plan {
    /// Blocks that fit.
    pub room: usize,
    /// Blocks of a unit, a power of two.
    pub unit: u64,
    /// How old a dirty block becomes at most.
    pub after: Span,
    /// Destages under way at once.
    pub depth: u32,
    pub policy: Box<dyn Destage>,
    /// Whether units are padded.
    pub pads: bool,
    /// Most blocks of one destage.
    pub longest: u64,
    /// Whether blocks beside a unit go with it.
    pub merges: bool,
    /// Writes of more bytes go through when none of their blocks is dirty; 0: there are none.
    pub bypass: ByteLen,
}

/// The buffer.
pub struct Buffer {
    room: usize,
    unit_bits: u32,
    after: Span,
    depth: u32,
    policy: Box<dyn Destage>,
    pads: bool,
    padding: Option<Padding>,
    /// Most blocks of one destage, and whether blocks beside a unit go with it.
    longest: u64,
    merges: bool,
    /// Writes of more bytes go through when none of their blocks is dirty; 0: there are none.
    bypass: ByteLen,
    map: Rows,
    dirty: Vec<Dirty>,
    free: Vec<u32>,
    /// Dirty blocks by age, the oldest first.
    ages: Chain,
    by_age: List,
    units_by_number: Rows,
    units: Vec<Unit>,
    free_units: Vec<u32>,
    /// Of each unit, dirty blocks that are not on their way.
    waiting: Vec<u32>,
    seq: u64,
    flights: super::Slots<Destaging>,
    flushes: Vec<Flush>,
    /// Writes up to this are to go below because they are old.
    due: u64,
    /// No block with a write up to this one that is not below is ready: those that are written later have later ones.
    none_upto: u64,
    /// The newest write when the timer was set.
    timed: Option<u64>,
    closing: Option<u32>,
    /// The device has refused a destage, or a read for padding, since something came from outside: only what somebody waits
    /// for is tried.
    refused: bool,
    tally: Tally,
}

impl Buffer {
    /// A buffer as `plan` says.
    pub(crate) fn new(plan: Plan) -> Buffer {
        let Plan { room, unit, after, depth, policy, pads, longest, merges, bypass } = plan;
        Buffer {
            padding: None,
            room,
            unit_bits: unit.trailing_zeros(),
            after,
            depth,
            policy,
            pads,
            longest,
            merges,
            bypass,
            map: Rows::new(64),
            dirty: Vec::new(),
            free: Vec::new(),
            ages: Chain::new(room),
            by_age: List::default(),
            units_by_number: Rows::new(64),
            units: vec![Unit::default(); room],
            free_units: (0..room as u32).rev().collect(),
            waiting: vec![0; room],
            seq: 0,
            flights: Default::default(),
            flushes: Vec::new(),
            due: 0,
            none_upto: 0,
            timed: None,
            closing: None,
            refused: false,
            tally: Tally::default(),
        }
    }

    /// Whether fill number `fill` brings what pads a unit.
    pub(super) fn is_padded_by(&self, fill: u32) -> bool {
        self.padding.is_some_and(|p| p.fill == Some(fill))
    }

    /// Dirty blocks.
    pub(super) fn len(&self) -> usize {
        self.map.len()
    }

    /// Whether `block` is dirty.
    #[inline]
    pub(super) fn holds(&self, block: u64) -> bool {
        !self.map.is_empty() && self.map.get(block).is_some()
    }

    /// Dirty blocks among `blocks`.
    pub(super) fn dirty_in(&self, blocks: Range) -> u64 {
        if self.map.is_empty() {
            return 0;
        }
        if blocks.end - blocks.first > self.len() as u64 {
            let inside = |at: &u32| {
                let block = self.dirty[*at as usize].block;
                blocks.first <= block && block < blocks.end
            };
            return self.by_age.iter(&self.ages).filter(inside).count() as u64;
        }
        (blocks.first..blocks.end).filter(|&block| self.map.get(block).is_some()).count() as u64
    }

    /// The unit of a block that is not dirty, and whether it has no other.
    fn unit_of(&mut self, block: u64) -> (u32, bool) {
        let number = block >> self.unit_bits;
        if self.has_numbers()
            && let Some(unit) = self.units_by_number.get(number)
        {
            return (unit, false);
        }
        let unit = self.free_units.pop().expect("as many units as dirty blocks");
        self.units[unit as usize] = Unit { number, dirty: 0, next: number << self.unit_bits };
        if self.has_numbers() {
            self.units_by_number.insert(number, unit);
        }
        (unit, true)
    }

    /// Whether units are looked up by number. One of a single block is found by its block.
    fn has_numbers(&self) -> bool {
        self.unit_bits > 0
    }

    /// Block `block` is written.
    fn put(&mut self, block: u64, cause: TenantId) {
        let version = self.seq;
        let (unit, new_unit) = match self.map.get(block) {
            Some(at) => {
                let dirty = &mut self.dirty[at as usize];
                if dirty.flying {
                    dirty.after.get_or_insert(version);
                }
                (dirty.version, dirty.cause) = (version, cause);
                self.tally.rewritten += 1;
                (dirty.unit, false)
            }
            None => {
                let (unit, new) = self.unit_of(block);
                self.enter(block, unit, cause);
                (unit, new)
            }
        };
        self.tally.buffered += 1;
        let unit_end = (self.units[unit as usize].number + 1) << self.unit_bits;
        let in_unit = &mut self.units[unit as usize];
        in_unit.next = if in_unit.next == block { block + 1 } else { u64::MAX };
        let in_order = self.unit_bits > 0 && in_unit.next == unit_end;
        self.policy.wrote(unit, Wrote { new: new_unit, in_order });
    }

    /// Block `block`, which was not dirty, is from now on.
    fn enter(&mut self, block: u64, unit: u32, cause: TenantId) {
        let version = self.seq;
        let (since, after, flying) = (version, None, false);
        let dirty = Dirty { block, unit, version, since, after, flying, cause };
        let at = match self.free.pop() {
            Some(at) => {
                self.dirty[at as usize] = dirty;
                at
            }
            None => {
                self.dirty.push(dirty);
                self.dirty.len() as u32 - 1
            }
        };
        self.map.insert(block, at);
        self.by_age.push(&mut self.ages, at);
        self.units[unit as usize].dirty += 1;
        self.waiting[unit as usize] += 1;
        self.tally.most = self.tally.most.max(self.map.len() as u64);
    }

    /// The unit with the oldest block that somebody waits for and that is not on its way.
    fn next_awaited_unit(&self, awaited: Option<Range>) -> Option<Next> {
        let blocks = awaited?;
        let ready = |at: u32| !self.dirty[at as usize].flying;
        let found = if blocks.end - blocks.first <= self.len() as u64 {
            (blocks.first..blocks.end).filter_map(|b| self.map.get(b)).find(|&at| ready(at))
        } else {
            let inside = |at: &u32| {
                let block = self.dirty[*at as usize].block;
                blocks.first <= block && block < blocks.end
            };
            self.by_age.iter(&self.ages).find(|at| ready(*at) && inside(at))
        };
        found.map(|at| Next { unit: self.dirty[at as usize].unit, hurried: true })
    }

    /// A unit to destage: for those who wait the one with the oldest block, else the policy's choice.
    fn next_unit(&mut self, awaited: Option<Range>) -> Option<Next> {
        let awaited = self.next_awaited_unit(awaited);
        if awaited.is_some() {
            return awaited;
        }
        let ready = |at: u32| !self.dirty[at as usize].flying;
        let upto = self.flushes.iter().map(|f| f.upto).max().unwrap_or(0).max(self.due);
        let closing = self.closing.is_some_and(|tries| tries < CLOSE_TRIES);
        if upto > self.none_upto || closing {
            // Oldest first; those on their way stand among them, at most as many as are under way.
            let wanted = |at: u32| closing || self.dirty[at as usize].since <= upto;
            let oldest = self.by_age.iter(&self.ages).find(|&at| ready(at) && wanted(at));
            if let Some(at) = oldest {
                let hurried = closing || !self.flushes.is_empty();
                return Some(Next { unit: self.dirty[at as usize].unit, hurried });
            }
            self.none_upto = upto;
        }
        if 2 * self.len() > self.room && self.closing.is_none() {
            return self.policy.victim(&self.waiting).map(|unit| Next { unit, hurried: false });
        }
        None
    }

    /// A row of blocks of the unit that are ready, and of blocks beside it of the same tenant if such go with it: they are on their way from
    /// now on.
    fn take_row(&mut self, unit: u32, awaited: Option<Range>) -> Option<Range> {
        let longest = self.longest;
        let start = self.units[unit as usize].number << self.unit_bits;
        let end = start + (1 << self.unit_bits);
        let ready = |at: u32| !self.dirty[at as usize].flying;
        let from = awaited.map_or(start, |r| r.first.clamp(start, end));
        let is_ready = |block: &u64| self.map.get(*block).is_some_and(ready);
        let mut first = (from..end).chain(start..from).find(is_ready)?;
        let mut end = (first..end.min(first + longest)).take_while(|b| is_ready(b)).last()? + 1;
        if self.merges {
            let cause = self.map.get(first).map(|at| self.dirty[at as usize].cause);
            let joins = |block: u64| {
                let at = self.map.get(block).filter(|&at| ready(at));
                at.is_some_and(|at| Some(self.dirty[at as usize].cause) == cause)
            };
            while end - first < longest && joins(end) {
                end += 1;
            }
            while end - first < longest && first > 0 && joins(first - 1) {
                first -= 1;
            }
        }
        for block in first..end {
            let at = self.map.get(block)?;
            let dirty = &mut self.dirty[at as usize];
            dirty.flying = true;
            self.waiting[dirty.unit as usize] -= 1;
        }
        Some(Range { first, end })
    }

    /// The version of `since` is below, or a newer one.
    fn count_off(&mut self, since: u64, now: Option<u64>) {
        for flush in &mut self.flushes {
            if since <= flush.upto && now.is_none_or(|now| now > flush.upto) {
                flush.left -= 1;
            }
        }
    }

    /// Block `block` of version `version` is below. Whether it is clean now.
    fn landed(&mut self, block: u64, version: u64) -> bool {
        let at = self.map.get(block).expect("a block that is destaged is dirty");
        let dirty = self.dirty[at as usize];
        if dirty.version > version {
            let since = dirty.after.unwrap_or(dirty.version);
            self.count_off(dirty.since, Some(since));
            let dirty = &mut self.dirty[at as usize];
            (dirty.since, dirty.after, dirty.flying) = (since, None, false);
            self.by_age.renew(&mut self.ages, at);
            self.waiting[dirty.unit as usize] += 1;
            self.none_upto = 0;
            return false;
        }
        self.count_off(dirty.since, None);
        self.leaves(at);
        true
    }

    /// What is at `at` is dirty no more.
    fn leaves(&mut self, at: u32) {
        let dirty = self.dirty[at as usize];
        self.by_age.remove(&mut self.ages, at);
        self.map.remove(dirty.block);
        self.free.push(at);
        let unit = &mut self.units[dirty.unit as usize];
        unit.dirty -= 1;
        if unit.dirty == 0 {
            let number = unit.number;
            if self.has_numbers() {
                self.units_by_number.remove(number);
            }
            self.free_units.push(dirty.unit);
            self.policy.gone(dirty.unit);
        }
    }

    /// Block `block` could not be destaged.
    fn bounced(&mut self, block: u64) {
        let at = self.map.get(block).expect("a block that is destaged is dirty");
        let dirty = &mut self.dirty[at as usize];
        (dirty.flying, dirty.after) = (false, None);
        self.waiting[dirty.unit as usize] += 1;
        self.none_upto = 0;
    }

    /// Gives up what could not be destaged.
    fn clear(&mut self) {
        loop {
            let Some(at) = self.by_age.iter(&self.ages).next() else { return };
            let dirty = self.dirty[at as usize];
            self.waiting[dirty.unit as usize] -= u32::from(!dirty.flying);
            self.leaves(at);
        }
    }

    pub(super) fn report(&mut self, report: &mut Report) {
        report.put("dirty_blocks", self.len() as u64);
        let t = &mut self.tally;
        report.count("dirty_blocks_max", &mut t.most);
        report.count("buffered_blocks", &mut t.buffered);
        report.count("rewritten_blocks", &mut t.rewritten);
        report.count("writes_through", &mut t.through);
        report.count("destage_writes", &mut t.destages);
        report.count("destaged_blocks", &mut t.destaged);
        report.count("padded_blocks", &mut t.padded);
        report.count("failed_destages", &mut t.failed);
        report.put("destage_policy_bytes", self.policy.bytes() as u64);
    }

    /// Blocks of RAM, and blocks that went in or out of it since the counters were reset.
    pub(super) fn for_energy(&self) -> (u64, u64) {
        (self.room as u64, self.tally.buffered + self.tally.destaged)
    }

    pub(super) fn check(&self) -> Result<(), Violation> {
        let fail = |what: String| Err(Violation { invariant: "I-2", what });
        if self.len() > self.room || self.by_age.len() as usize != self.len() {
            return fail(format!("{} dirty blocks, room for {}", self.len(), self.room));
        }
        for (unit, &waiting) in self.waiting.iter().enumerate() {
            let mine = |at: &u32| self.dirty[*at as usize].unit == unit as u32;
            if waiting > 0 {
                let ready = |at: &u32| mine(at) && !self.dirty[*at as usize].flying;
                let count = self.by_age.iter(&self.ages).filter(ready).count();
                if count != waiting as usize {
                    return fail(format!("unit {unit}: {count} blocks wait, {waiting} are counted"));
                }
            }
        }
        Ok(())
    }
}
