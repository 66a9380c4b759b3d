//! Rings that hold copies only: `cache_mode = "writethrough"`.
//!
//! In the manner of the mode of this name of bcache and dm-cache (their documentation in the kernel): a change is answered when the disk has it, a read that
//! a ring does not answer is read from the disk, and rings that fail are left out while requests go on.
//!
//! *Changes* go to the disk whole, as long ones do in the other mode (`bypass`). What DRAM and rings had of a page is void then, and the page gets a mark; where
//! a ring had it and all of it is new, the new data is on its way up at once. A flush is a flush of the disk.
//!
//! *A start* believes the rings only after a clean end: the disk and all rings name the same opening, and each ring says what it holds. So marks need not be in a ring
//! before a change is answered. Otherwise the map is empty and the rings are taken anew.
//!
//! *A ring that is lost, or that fails,* takes all rings out: another one may hold an older version of a page. The map is empty from then on, and reads that a ring has not
//! answered begin again at the disk. Nothing is told to the disk, for a ring without a clean end is not believed.
//!
//! *Rings are taken* all at once while requests go on: at a start, when one is back, when one was replaced. Each gets a superblock with the opening of this session and a
//! name that is drawn. Headers carry that name, so what the ring held before is void, and nothing of it is erased for that. A ring of this set is taken; one without records only where it
//! may be made (`create`, or after [`Admin::Replace`]); one of another set is refused.
//!
//! *Deviations.* dm-cache believes its map after any end and takes blocks for dirty where it is not sure; bcache writes a journal. Here the cache is cold after a crash. Both go on
//! with a cache device that fails now and then; here one failed write takes it out.
//!
//! Cost: of a change, a look at the map for each page; of a departure, the whole map; of a return, one superblock and one flush on each ring.

use crate::config::CacheMode;
use crate::dram::NO_FRAME;
use crate::machine::{Hybrid, Phase};
use crate::map::Where;
use crate::open::Placed;
use crate::record::Super;
use crate::recover::Accepted;
use crate::ring::Ring;
use nandu_base::{
    Admin, AdminError, ByteLen, ChildUse, Cx, DeviceEvent, Health, Notice, Op, Payload, Rng, SECTOR,
};
use std::collections::BTreeMap;

/// What the mode knows of the rings.
#[derive(Debug)]
pub(crate) struct Through {
    /// They are in use.
    pub is_used: bool,
    /// They are being taken.
    pub joins: bool,
    /// Of each ring what its headers say beside the set.
    pub names: Vec<u64>,
    /// Has failed or was refused: it is left alone until it comes back.
    pub out: Vec<bool>,
    /// An operator has replaced it: it may be blank.
    pub replaced: Vec<bool>,
    /// Rings without records may be made.
    pub create: bool,
    /// How often they were taken since the start.
    taken: u64,
    /// They were told, and are taken when nothing is on its way to the disk for want of them.
    pub waits_to_join: bool,
}

impl Through {
    pub fn new(rings: usize) -> Through {
        Through {
            is_used: false,
            joins: false,
            names: vec![0; rings],
            out: vec![false; rings],
            replaced: vec![false; rings],
            create: false,
            taken: 0,
            waits_to_join: false,
        }
    }
}

impl Hybrid {
    /// Whether rings hold copies only.
    pub(crate) fn is_through(&self) -> bool {
        self.policy.cache_mode == CacheMode::Writethrough
    }

    /// Whether the rings are in use: always, where they hold the only copy of something.
    pub(crate) fn has_rings(&self) -> bool {
        self.through.as_ref().is_none_or(|through| through.is_used)
    }

    /// Whether the rings are being taken.
    pub(crate) fn joins(&self) -> bool {
        self.through.as_ref().is_some_and(|through| through.joins)
    }

    /// Whether it can do without this child.
    pub(crate) fn is_spare(&self, child: u8) -> bool {
        child != self.disk && (self.is_through() || self.does_without())
    }

    /// What the headers of a ring call the set.
    pub(crate) fn set_of(&self, r: usize) -> u64 {
        self.set ^ self.through.as_ref().map_or(0, |through| through.names[r])
    }

    /// Whether the rings are as a clean end has left them, together with the disk.
    pub(crate) fn may_believe(&self, found: &[Option<Super>]) -> bool {
        let (Some(disk), rings) = (&found[usize::from(self.disk)], &found[..self.rings.len()]) else {
            return false;
        };
        (0u8..).zip(rings).all(|(child, ring)| {
            ring.as_ref().is_some_and(|ring| {
                let is_clean = ring.is_as_left_with(disk) || self.planted.believes_unclean;
                ring.is_shaped(&self.super_of(child)) && is_clean
            })
        })
    }

    /// Nothing of the rings is believed.
    pub(crate) fn forget_rings(&mut self) {
        if let Some(through) = &mut self.through {
            through.is_used = false;
        }
        self.map.clear();
        self.rings.iter_mut().for_each(|ring| *ring = Ring::new(ring.shape));
    }

    /// A ring has failed: service ends where it may hold the only copy of something.
    pub(crate) fn ring_failed(&mut self, r: usize, cx: &mut Cx<'_>) {
        match &mut self.through {
            Some(through) if self.policy.cache_mode == CacheMode::Writethrough => {
                through.out[r] = true;
                self.leave_rings(cx);
            }
            _ => self.fail(nandu_base::ErrorKind::WriteFailed, cx),
        }
    }

    /// Goes on without the rings.
    pub(crate) fn leave_rings(&mut self, cx: &mut Cx<'_>) {
        for child in 0..self.disk {
            self.begin_epoch_of(child);
        }
        self.end_join(cx);
        if !self.has_rings() {
            return;
        }
        if self.phase == Phase::Closing {
            self.opening.abandon(cx.pool);
        }
        for writer in &mut self.writers {
            writer.abandon(cx.pool);
        }
        for collector in &mut self.collectors {
            collector.abandon(cx.pool);
        }
        self.forget_rings();
        self.commit.goes_on_without_rings(self.rings.len());
        self.marks = crate::bypass::Marks::default();
        self.dram.forget_rings();
        for at in 0..self.loads.len() as u32 {
            if self.loads[at as usize].is_of_ring() && !self.free_loads.contains(&at) {
                self.load_from_disk(at, cx);
            }
        }
        self.count.ring_departures += 1;
        self.made_progress = true;
        if self.phase == Phase::Running {
            cx.event(DeviceEvent::Notice(Notice::Health(Health::Degraded)));
        }
    }

    /// Takes the rings, unless one of them is not there. False: nothing was begun.
    pub(crate) fn begin_join(&mut self, cx: &mut Cx<'_>) -> bool {
        let is_there = (0..self.rings.len()).all(|r| !self.gone[r]);
        let Some(through) = &mut self.through else { return false };
        let may = matches!(self.phase, Phase::Running | Phase::Opening) && is_there;
        if !may || through.is_used || through.joins || through.out.contains(&true) {
            return false;
        }
        through.joins = true;
        self.opening.begin_join(self.rings.len());
        self.opening.page = Some(self.record_buffer(cx));
        self.read_supers(cx);
        true
    }

    /// Every ring has said what it is: they are told that they belong to this session, or are left out.
    pub(crate) fn decide_join(&mut self, found: &[Placed], cx: &mut Cx<'_>) -> bool {
        let is_mapped = self.may_lose_rings();
        let Some(through) = &mut self.through else { return false };
        for (r, place) in found.iter().enumerate() {
            let may = match place {
                Placed::Record(record) => record.set == self.set,
                Placed::Nothing => through.create || through.replaced[r],
                Placed::Something => through.create,
            };
            if !may {
                through.out[r] = true;
                cx.event(DeviceEvent::Notice(Notice::Refused(r as u8)));
                self.end_join(cx);
                return false;
            }
        }
        through.taken += 1;
        let turn = Rng::new(self.seed).fork(cx.now.0).fork(self.opening.number());
        let mut rng = turn.fork(through.taken);
        for name in &mut through.names {
            *name = if self.planted.keeps_names { 1 } else { rng.bits().max(1) };
        }
        if is_mapped {
            // Nothing was ever appended under the name of this set.
            through.names.fill(0);
        }
        true
    }

    /// The rings know that they belong to this session: they are in use from now on.
    pub(crate) fn joined(&mut self, cx: &mut Cx<'_>) {
        for r in 0..self.rings.len() {
            self.adopt(r, &[], &Accepted::default(), &mut BTreeMap::new());
        }
        if let Some(through) = &mut self.through {
            (through.is_used, through.joins, through.waits_to_join) = (true, false, false);
            through.replaced.fill(false);
        }
        self.count.ring_returns += 1;
        if self.phase == Phase::Running {
            cx.event(DeviceEvent::Notice(Notice::Health(Health::Healthy)));
        }
    }

    /// Gives up taking the rings, if that is under way.
    pub(crate) fn end_join(&mut self, cx: &mut Cx<'_>) {
        let Some(through) = self.through.as_mut().filter(|through| through.joins) else { return };
        (through.joins, through.waits_to_join) = (false, false);
        self.opening.abandon(cx.pool);
        if self.phase == Phase::Opening {
            self.opened(cx);
        }
    }

    /// A ring does not answer a request for its records.
    pub(crate) fn ring_is_silent(&mut self, child: u8, cx: &mut Cx<'_>) {
        if let Some(through) = &mut self.through {
            through.out[usize::from(child)] = true;
        }
        match self.joins() {
            true => self.leave_rings(cx),
            false => self.start_open(self.opening.how(), cx),
        }
    }

    /// A ring is gone.
    pub(crate) fn ring_lost(&mut self, child: u8, cx: &mut Cx<'_>) {
        self.gone[usize::from(child)] = true;
        match self.phase {
            Phase::Opening if !self.joins() => {
                if self.opening.asks(child) {
                    self.start_open(self.opening.how(), cx);
                }
            }
            _ => self.leave_rings(cx),
        }
    }

    /// A ring has come, or has lost what it held in volatile memory.
    pub(crate) fn ring_back(&mut self, child: u8, cx: &mut Cx<'_>) {
        self.ring_lost(child, cx);
        self.gone[usize::from(child)] = false;
        if let Some(through) = &mut self.through {
            through.out[usize::from(child)] = false;
        }
        if self.phase == Phase::Running {
            self.begin_join(cx);
        }
    }

    /// What comes in place of a ring may be blank.
    pub(crate) fn replace_ring(&mut self, admin: Admin, cx: &mut Cx<'_>) -> Result<(), AdminError> {
        match (admin, &mut self.through) {
            (Admin::Replace(child), Some(through)) if child < self.disk => {
                (through.replaced[usize::from(child)], through.out[usize::from(child)]) = (true, true);
                if self.phase == Phase::Running {
                    self.leave_rings(cx);
                }
                Ok(())
            }
            _ => Err(AdminError::Unknown),
        }
    }

    /// What it does with a ring.
    pub(crate) fn ring_use(&self, child: u8) -> Option<ChildUse> {
        let through = self.through.as_ref().filter(|_| child != self.disk)?;
        let is_away = self.gone[usize::from(child)] || through.out[usize::from(child)];
        Some(match through {
            Through { is_used: true, .. } => ChildUse::Used,
            Through { joins: true, .. } => ChildUse::Coming,
            _ if self.phase == Phase::Opening && !is_away => ChildUse::Coming,
            _ => ChildUse::Out,
        })
    }

    /// The disk has a change, or may have some of it: what DRAM and rings had of its pages is void.
    pub(crate) fn void_copies(&mut self, i: u32, succeeded: bool, cx: &mut Cx<'_>) {
        let op = self.ops[i as usize];
        let sectors = self.sectors();
        for page in op.middle.0 as u32..op.middle.1 as u32 {
            let was_in_ring = matches!(self.map.find(page), Where::Slot(_)) && !self.planted.keeps_old_copy;
            let was_up = was_in_ring || self.dram.find(page).is_some();
            self.forget_read(page, true);
            if was_in_ring {
                self.map.put(page, Where::Wanted);
                self.marks.want(page);
            }
            let first = u64::from(page) * sectors;
            let is_whole = op.first <= first && first + sectors <= op.end;
            if was_up && succeeded && is_whole && op.op == Op::Write && !op.passes && self.is_through() {
                let data = op.payload.slice(ByteLen((first - op.first) * SECTOR));
                self.renew(page, data, was_in_ring, cx);
            }
        }
    }

    /// New data of a page that DRAM or a ring had is in DRAM, and on its way up where a ring had it.
    fn renew(&mut self, page: u32, data: Payload, goes_up: bool, cx: &mut Cx<'_>) {
        let Some(at) = self.dram.find(page).or_else(|| self.dram.take(page)) else { return };
        let full = self.dram.full;
        let f = &mut self.dram.frames[at as usize];
        if !f.loading {
            cx.pool.copy(data, f.data, ByteLen(self.page));
            (f.valid, f.promote, f.promote_dirty, f.speculative) = (full, goes_up, false, false);
        }
        self.dram.settle(at);
    }

    /// A ring does not give what it should have of some pages: they are on the disk too.
    pub(crate) fn void_unread(&mut self, page: u32, count: u32, slot: u32) {
        for k in 0..count {
            if self.map.find(page + k) == Where::Slot(slot + k) {
                self.map.put(page + k, Where::Wanted);
                self.marks.want(page + k);
            }
        }
    }

    /// A load that a ring has not answered begins again at the disk.
    pub(crate) fn load_from_disk(&mut self, at: u32, cx: &mut Cx<'_>) {
        let (op, page, data, frames) = self.take_load(at);
        cx.pool.release(data);
        let most = (self.policy.disk_max / self.page) as usize;
        for (n, frames) in (0u32..).zip(frames.chunks(most)) {
            let first = page + n * most as u32;
            let load = self.new_load(first, frames.len() as u32, op);
            self.loads[load as usize].reads_disk();
            self.loads[load as usize].frames.extend_from_slice(frames);
            debug_assert!(frames.iter().all(|&f| f == NO_FRAME || self.dram.frames[f as usize].loading));
            self.send_load(load, cx);
        }
    }

    /// Nothing above the disk is newer than the disk.
    pub(crate) fn holds_only_copies(&self) -> bool {
        let slots: u32 = self.rings.iter().map(|ring| ring.shape.slots()).sum();
        !self.is_through()
            || self.dram.dirty_frames() == 0
                && (0..slots).all(|slot| !(self.map.is_live(slot) && self.map.is_dirty(slot)))
    }
}
