//! Changes that go to the disk past DRAM and rings: long writes, and long trims and write-zeroes.
//!
//! Only whole pages go this way. Nothing else of the extent is on its way to the disk meanwhile. When they are there, what
//! DRAM and rings have of these pages is void: frames lose what they had read, and pages in a ring get a *mark*. A mark
//! says that the disk holds the truth, so it goes to the top ring only after the disk was flushed (`commit`); until then a
//! cut brings the ring's version back, which the host may still see.
//!
//! Marks take room in the top ring that must be there when a collection waits for them. So no change begins while that ring
//! is nearly full, or while more marks are outstanding than half a unit of groups holds.

use crate::host::Stage;
use crate::machine::{Hybrid, Tag};
use crate::map::Where;
use crate::record::capacity;
use crate::ring::Shape;
use nandu_base::{ByteLen, ByteOffset, Cx, Op, Payload, ReqId, SECTOR};
use std::collections::{BTreeMap, VecDeque};

/// Marks that no ring has yet.
#[derive(Default, Debug)]
pub(crate) struct Marks {
    pub row: VecDeque<u32>,
    /// Of each page in the row its newest place there, by count; earlier ones are void.
    pub newest: BTreeMap<u32, u64>,
    /// Marks wanted so far, and marks taken from the row.
    pub wanted: u64,
    pub taken: u64,
    /// Of those wanted, so many may be written: the disk was flushed since.
    pub ready: u64,
}

/// Most marks that may be outstanding: half a unit of groups.
pub(crate) fn marks_max(top: &Shape) -> u64 {
    u64::from(top.unit_pages / 2) * capacity(top.page as usize) as u64
}

impl Marks {
    pub fn want(&mut self, page: u32) {
        self.newest.insert(page, self.wanted);
        self.row.push_back(page);
        self.wanted += 1;
    }

    /// The next page whose mark may be written.
    pub fn take(&mut self) -> Option<u32> {
        while self.taken < self.ready {
            let page = self.row.pop_front()?;
            let place = self.taken;
            self.taken += 1;
            if self.newest.get(&page) == Some(&place) {
                self.newest.remove(&page);
                return Some(page);
            }
        }
        None
    }
}

impl Hybrid {
    /// Sends the middle of a change to the disk, unless others of its extent are on their way.
    pub(crate) fn begin_bypass(&mut self, i: u32, cx: &mut Cx<'_>) {
        let (first, end) = self.ops[i as usize].middle;
        let meets = |other: (u64, u64)| other.0 < end && first < other.1;
        let joins = self.through.as_ref().is_some_and(|through| through.waits_to_join);
        let held = !self.has_room_for_marks(end - first)
            || joins
            || self.drains(first, end)
            || !self.may_differ(first, end)
            || self.ops.iter().any(|o| o.stage == Stage::Bypassing && meets(o.middle))
            || self.collectors.iter().any(|c| meets(c.on_disk()))
            || self.destages(first, end);
        if held {
            self.ops[i as usize].stage = Stage::BypassWait;
            self.wait_bypass.push(i);
            return;
        }
        let op = self.ops[i as usize];
        self.ops[i as usize].stage = Stage::Bypassing;
        for page in first as u32..end as u32 {
            if let Some(at) = self.dram.find(page) {
                let f = &mut self.dram.frames[at as usize];
                f.passed = f.dirty;
            }
        }
        let (start, bytes) = match op.is_direct {
            true => (op.first * SECTOR, (op.end - op.first) * SECTOR),
            false => (first * self.page, (end - first) * self.page),
        };
        let most = self.policy.disk_max;
        self.ops[i as usize].left = bytes.div_ceil(most) as u32;
        let mut at = 0;
        while at < bytes {
            let len = most.min(bytes - at);
            let payload = match op.op {
                Op::Write => op.payload.slice(ByteLen(start + at - op.first * SECTOR)),
                _ => Payload::NONE,
            };
            let offset = ByteOffset(start + at);
            self.send_for(op.id, self.disk, op.op, offset, len, payload, Tag::Bypass, i, cx);
            at += len;
        }
    }

    /// Whether marks of so many pages more would find room.
    fn has_room_for_marks(&mut self, pages: u64) -> bool {
        if !self.has_rings() {
            return true;
        }
        let bypassing = self.ops.iter().filter(|o| o.stage == Stage::Bypassing);
        let outstanding =
            self.marks.wanted - self.marks.taken + bypassing.map(|o| o.middle.1 - o.middle.0).sum::<u64>();
        let is_much = outstanding > 0 && outstanding + pages > marks_max(&self.rings[0].shape);
        if is_much && self.marks.wanted > self.marks.taken && !self.commit.is_under_way() {
            self.ask_for_commit();
        }
        !is_much && self.rings[0].free() >= crate::append::KEPT
    }

    /// Changes that waited for others begin.
    pub(crate) fn retry_bypasses(&mut self, cx: &mut Cx<'_>) {
        for i in std::mem::take(&mut self.wait_bypass) {
            self.begin_bypass(i, cx);
        }
    }

    /// Whether a change of pages `first..end` is on its way to the disk.
    pub(crate) fn is_bypassed(&self, first: u64, end: u64) -> bool {
        let meets = |o: &crate::host::HostOp| o.middle.0 < end && first < o.middle.1;
        self.ops.iter().any(|o| o.stage == Stage::Bypassing && meets(o))
    }

    /// A part of a change is on the disk.
    pub(crate) fn bypass_done(&mut self, i: u32, id: ReqId, cx: &mut Cx<'_>) {
        if let Some(error) = cx.requests[id].error {
            self.ops[i as usize].error = Some(error.kind);
        }
        self.ops[i as usize].left -= 1;
        if self.ops[i as usize].left > 0 {
            return;
        }
        let (first, end) = self.ops[i as usize].middle;
        self.disk_unflushed = true;
        let op = self.ops[i as usize];
        if op.error.is_none() && op.op != Op::Trim {
            let sectors = self.sectors();
            let (from, to) = match op.is_direct {
                true => (op.first, op.end),
                false => (first * sectors, end * sectors),
            };
            self.overwrite_lost(from, to);
        }
        if op.is_direct {
            let succeeded = op.error.is_none();
            self.void_copies(i, succeeded, cx);
            if !succeeded {
                return self.finish_op(i, Some(id), cx);
            }
            self.count.bypassed_writes += end - first;
            cx.absorb(self.ops[i as usize].id, id);
            return self.changed(i, cx);
        }
        if self.ops[i as usize].error.is_some() {
            // Any part of it may be there. Where a ring has the page its version stays, and the disk must get it again;
            // elsewhere it is as with a disk.
            for page in first as u32..end as u32 {
                self.forget_read(page, false);
                if let Where::Slot(slot) = self.map.find(page) {
                    self.map.soil(slot);
                }
            }
            self.destaged_in_vain(first, end);
            self.finish_op(i, Some(id), cx);
            return;
        }
        self.count.bypassed_writes += end - first;
        for page in first as u32..end as u32 {
            self.forget_read(page, true);
            if matches!(self.map.find(page), Where::Slot(_)) {
                if self.planted.no_mark {
                    self.map.put(page, Where::Disk);
                    continue;
                }
                self.map.put(page, Where::Wanted);
                self.marks.want(page);
            }
        }
        cx.absorb(self.ops[i as usize].id, id);
        self.changed(i, cx);
    }

    /// What DRAM has read of a page is out of date. What was written to it there since the change began stays: it came
    /// later, or at the same time; what was written before stays when the change has failed.
    pub(crate) fn forget_read(&mut self, page: u32, succeeded: bool) {
        let Some(at) = self.dram.find(page) else { return };
        let f = &mut self.dram.frames[at as usize];
        if succeeded {
            f.dirty &= !f.passed;
        }
        f.passed = 0;
        f.valid &= f.dirty;
        f.promote = false;
        f.stale_load |= f.loading;
        self.dram.settle(at);
    }
}
