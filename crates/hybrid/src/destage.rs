//! Destage: what is dirty in the rings goes to the disk before it is collected, so that it is never more than `dirty_max`.
//!
//! In the manner of bcache's `writeback_percent` (Linux documentation of bcache), which begins to write at a share of the cache that is dirty. Here it is a bound: what DRAM holds is appended only as far as
//! the rings may have that much more, and requests wait where DRAM is full. Destaging begins at three quarters of the bound and goes on to half of it.
//!
//! One batch is under way at a time: dirty pages in the order of the rings, from where the last batch ended. They are read, written in the order of the disk, rows of them as one request, and the
//! disk is flushed. Then those that are still the newest of their pages are clean, and a collection drops them. The newest unit of each ring is left alone, for a group may be under way there.
//!
//! A page is not written while anything else writes it on the disk, nor the other way round ([`Hybrid::destages`]).
//!
//! *Deviations.* bcache paces its writes by a controller; here a batch follows the other. After a start all pages in the rings count as dirty (`recover`), more than the bound, and are destaged first.
//!
//! Cost: at the start of a batch a look at slots until 64 dirty ones are found, all of them at worst; the memory of 64 pages.

use crate::machine::{Hybrid, Phase, Tag};
use nandu_base::{ByteLen, ByteOffset, Cx, ErrorKind, Op, Payload, PayloadPool};

/// Most pages of a batch.
const BATCH: usize = 64;
/// Attempts before the machine gives up.
const TRIES: u8 = 8;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Stage {
    #[default]
    Idle,
    Read,
    /// They wait until nothing else of their extent is on its way to the disk.
    Wait,
    Disk,
    Flush,
}

/// A page of a batch.
#[derive(Clone, Copy, Debug)]
struct Item {
    page: u32,
    slot: u32,
    /// What was read: the slot may be erased and hold something newer of the page later.
    version: u64,
    /// The disk has it, or is getting it.
    is_sent: bool,
}

/// The batch under way.
#[derive(Debug, Default)]
pub(crate) struct Destage {
    stage: Stage,
    items: Vec<Item>,
    data: Option<Payload>,
    left: u32,
    failed: bool,
    tries: u8,
    /// The next slot to look at.
    cursor: u32,
    /// Goes on to half of the bound.
    goes_on: bool,
    /// Most dirty pages that there may be: the bound, or what was there at the start.
    pub ceiling: u32,
}

impl Destage {
    /// Forgets what is under way.
    pub fn abandon(&mut self, pool: &mut PayloadPool) {
        if let Some(data) = self.data.take() {
            pool.release(data);
        }
        *self = Destage { cursor: self.cursor, ..Destage::default() };
    }
}

impl Hybrid {
    /// Pages that may become dirty in the rings now.
    pub(crate) fn room_for_dirty(&self) -> u32 {
        match self.policy.dirty_max {
            0 => u32::MAX,
            _ if self.planted.forgets_bound => u32::MAX,
            most => most.saturating_sub(self.map.dirty()),
        }
    }

    /// Whether pages `first..end` are on their way to the disk from here.
    pub(crate) fn destages(&self, first: u64, end: u64) -> bool {
        let meets = |item: &Item| (first..end).contains(&u64::from(item.page)) && item.is_sent;
        self.destage.stage == Stage::Disk && self.destage.items.iter().any(meets)
    }

    /// The disk may hold something else of these pages now.
    pub(crate) fn destaged_in_vain(&mut self, first: u64, end: u64) {
        for item in &mut self.destage.items {
            item.is_sent &= !(first..end).contains(&u64::from(item.page));
        }
        self.destage.ceiling = self.destage.ceiling.max(self.map.dirty());
    }

    /// Begins a batch where too much is dirty; goes on where one waits.
    pub(crate) fn pump_destage(&mut self, cx: &mut Cx<'_>) {
        let most = self.policy.dirty_max;
        if most == 0 {
            return;
        }
        let (dirty, is_parked) = (self.map.dirty(), self.is_parked());
        let d = &mut self.destage;
        d.ceiling = d.ceiling.min(dirty).max(most);
        d.goes_on = dirty > if d.goes_on { most / 2 } else { most / 4 * 3 };
        match d.stage {
            Stage::Idle if d.goes_on && !is_parked => {
                self.find_dirty();
                self.read_dirty(cx);
            }
            Stage::Wait => self.write_dirty(cx),
            _ => {}
        }
    }

    /// The next dirty pages of the rings, in the order of the disk.
    fn find_dirty(&mut self) {
        let slots: u32 = self.rings.iter().map(|ring| ring.shape.slots()).sum();
        let newest: Vec<Option<u32>> =
            self.rings.iter().map(|ring| (ring.used > 0).then(|| ring.newest())).collect();
        let d = &mut self.destage;
        d.items.clear();
        for _ in 0..slots {
            let slot = d.cursor;
            d.cursor = (slot + 1) % slots;
            if !self.map.is_live(slot) || !self.map.is_dirty(slot) {
                continue;
            }
            let r = usize::from(self.rings.len() > 1 && slot >= self.rings[1].shape.slot_base);
            if newest[r] == Some(self.rings[r].shape.unit_of(slot)) {
                continue;
            }
            d.items.push(Item {
                page: self.map.page(slot),
                slot,
                version: self.map.version(slot),
                is_sent: false,
            });
            if d.items.len() == BATCH {
                break;
            }
        }
        d.items.sort_unstable_by_key(|item| item.page);
    }

    fn read_dirty(&mut self, cx: &mut Cx<'_>) {
        if self.destage.items.is_empty() {
            return;
        }
        let data = cx.pool.allocate(ByteLen(self.destage.items.len() as u64 * self.page));
        let d = &mut self.destage;
        (d.data, d.stage, d.failed, d.left) = (Some(data), Stage::Read, false, d.items.len() as u32);
        for at in 0..self.destage.items.len() {
            let slot = self.destage.items[at].slot;
            let r = self.ring_of_slot(slot);
            let shape = self.rings[r].shape;
            self.rings[r].units[shape.unit_of(slot) as usize].pins += 1;
            let part = data.slice(ByteLen(at as u64 * self.page));
            let offset = shape.offset_of(slot);
            self.send_own(shape.child, Op::Read, offset, self.page, part, Tag::Destage, at as u32, cx);
        }
    }

    /// A page of the batch is read, or part of it is written, or the disk is flushed.
    pub(crate) fn destage_done(&mut self, at: u32, failed: bool, cx: &mut Cx<'_>) {
        if self.destage.stage == Stage::Read {
            let slot = self.destage.items[at as usize].slot;
            let r = self.ring_of_slot(slot);
            let unit = self.rings[r].shape.unit_of(slot);
            self.rings[r].units[unit as usize].pins -= 1;
        }
        let d = &mut self.destage;
        d.left -= 1;
        d.failed |= failed;
        if d.left > 0 {
            return;
        }
        if d.failed {
            d.tries += 1;
            // A flush that failed proves nothing, and neither would another.
            if d.stage == Stage::Flush || d.tries > TRIES {
                return self.fail(ErrorKind::WriteFailed, cx);
            }
            if d.stage == Stage::Disk {
                d.stage = Stage::Wait;
                return;
            }
            if let Some(data) = d.data.take() {
                cx.pool.release(data);
            }
            d.stage = Stage::Idle;
            return;
        }
        match d.stage {
            Stage::Read => d.stage = Stage::Wait,
            Stage::Disk if self.policy.disk_volatile && !self.planted.cleans_unflushed => {
                (d.stage, d.left) = (Stage::Flush, 1);
                self.send_own(self.disk, Op::Flush, ByteOffset::ZERO, 0, Payload::NONE, Tag::Destage, 0, cx);
            }
            _ => self.settle_destage(cx),
        }
    }

    /// Writes what is still the newest of its page.
    fn write_dirty(&mut self, cx: &mut Cx<'_>) {
        let Some(data) = self.destage.data else { unreachable!("a batch that was read has its data") };
        let span = |item: &Item| (u64::from(item.page), u64::from(item.page) + 1);
        let is_held = self.destage.items.iter().map(span).any(|(first, end)| {
            let meets = |(from, to): (u64, u64)| from < end && first < to;
            self.is_bypassed(first, end) || self.collectors.iter().any(|c| meets(c.on_disk()))
        });
        if is_held {
            return;
        }
        for at in 0..self.destage.items.len() {
            self.destage.items[at].is_sent = self.is_newest(&self.destage.items[at]);
        }
        let most = (self.policy.disk_max / self.page) as usize;
        let (mut at, mut left) = (0, 0);
        while at < self.destage.items.len() {
            let items = &self.destage.items[at..];
            let first = items[0].page;
            let row = items.iter().zip(first..).take(most);
            let count = row.take_while(|(item, page)| item.page == *page && item.is_sent).count();
            if count > 0 {
                let part = data.slice(ByteLen(at as u64 * self.page));
                let (offset, len) = (ByteOffset(u64::from(first) * self.page), count as u64 * self.page);
                self.send_own(self.disk, Op::Write, offset, len, part, Tag::Destage, 0, cx);
                left += 1;
            }
            at += count.max(1);
        }
        let d = &mut self.destage;
        (d.stage, d.left, d.failed) = (Stage::Disk, left, false);
        if left == 0 {
            self.settle_destage(cx);
        }
    }

    /// The disk has the batch, durably.
    fn settle_destage(&mut self, cx: &mut Cx<'_>) {
        let d = &mut self.destage;
        if let Some(data) = d.data.take() {
            cx.pool.release(data);
        }
        (d.stage, d.tries) = (Stage::Idle, 0);
        for at in 0..self.destage.items.len() {
            let item = self.destage.items[at];
            if item.is_sent && self.is_newest(&item) {
                self.map.clean(item.slot);
                self.count.destaged += 1;
            }
        }
        self.made_progress = true;
    }

    /// Whether what was read is still the newest of its page.
    fn is_newest(&self, item: &Item) -> bool {
        let is_same = self.map.page(item.slot) == item.page && self.map.version(item.slot) == item.version;
        self.map.is_live(item.slot) && (is_same || self.planted.destages_reused)
    }

    /// Whether no more is dirty in the rings than may be.
    pub(crate) fn is_within_bound(&self) -> bool {
        self.policy.dirty_max == 0
            || self.phase != Phase::Running
            || self.map.dirty() <= self.destage.ceiling.max(self.policy.dirty_max)
    }
}
