//! Going on without rings that held what the disk does not have, and what is lost with them.
//!
//! Only where the disk has a map of dirty regions ([`crate::region_map`]), and only by an operator's word: a start that may do without members, or [`Admin::Replace`] while a ring is gone.
//!
//! *Leaving.* The disk says durably that its rings are being given up, and takes the name of a new set: an old ring that comes back is of another set from then on. Then all pages of dirty regions are
//! put on record as lost, and flushed; then the disk says that the rings were given up, and serves. A cut on the way leaves it to the next start, which goes on by itself.
//! What DRAM has whole of a page outlives the ring and goes to the disk; a part of a page is lost with the rest of it, unless the disk has that rest.
//!
//! *Lost pages.* A read that meets one fails, and so does a change of a part of one. A change of all of it is served, and takes it from the list: durably before the flush, or the change with FUA,
//! that covers it is acknowledged, and after the disk has been flushed. A trim takes nothing from the list. [`Admin::AcceptLost`] takes everything from it: what the disk has counts, old as it may be.
//!
//! *Without rings* changes go to the disk whole, as in `through`, and a flush is a commit that finds no ring. New rings are taken as there, while requests go on; what is called dirty in the map
//! is cleared first, and the disk says that it needs its rings again last.
//!
//! *Deviations.* dm-clone and md keep no record of what was lost; a mirror of Nandu has a list of extents for it, which may become full: here one bit stands for each page.
//!
//! Cost: of leaving, the part of the map that says what is lost, written once; of each request while something is lost, a look at the bits of its pages.

use crate::dram::NO_FRAME;
use crate::host::Stage;
use crate::load::NO_OP;
use crate::machine::{Hybrid, Phase, Tag};
use crate::record::{Standing, Super};
use nandu_base::{
    Admin, AdminError, ByteLen, ByteOffset, Cx, DeviceEvent, ErrorKind, Gone, Notice, Op, OpenError,
};

/// Most frames that are on their way to the disk at once.
const DRAINS: u32 = 32;

impl Hybrid {
    /// Whether rings can be given up although they may hold the only copy of something.
    pub(crate) fn may_lose_rings(&self) -> bool {
        self.regions.is_some()
    }

    /// Whether the disk needs no rings, or will not once it is open.
    pub(crate) fn does_without(&self) -> bool {
        self.regions.as_ref().is_some_and(|r| r.leaves || r.standing != Standing::Needed)
    }

    /// What the disk says of its rings, from now on.
    pub(crate) fn standing(&self) -> Standing {
        match &self.regions {
            Some(regions) if !self.joins() => regions.standing,
            _ => Standing::Needed,
        }
    }

    /// What superblocks and the map say where rings may be given up. True: the disk goes on without them.
    pub(crate) fn decide_without(
        &mut self,
        found: &[Option<Super>],
        cx: &mut Cx<'_>,
    ) -> Result<bool, OpenError> {
        let (how, rings) = (self.opening.how(), self.rings.len());
        let is_there: Vec<bool> = (0..rings).map(|r| self.opening.asks(r as u8)).collect();
        let Some(regions) = &mut self.regions else { return Ok(false) };
        let absent = is_there.iter().position(|&is_there| !is_there);
        let Some(disk) = found[rings] else {
            return absent.map_or(Ok(false), |r| Err(OpenError::Child(r as u8)));
        };
        if disk.unit != regions.layout.page * u64::from(regions.layout.region_pages) {
            return Ok(false); // refused for its shape
        }
        let leaves = regions.leaves;
        regions.standing = disk.rings;
        match disk.rings {
            Standing::Needed => {}
            Standing::Leaving => {
                self.lose(absent.unwrap_or(0), cx);
                return Ok(true);
            }
            Standing::GivenUp => {
                self.keep_whole_frames();
                return Ok(true);
            }
        }
        let lacking = absent.or_else(|| (0..rings).find(|&r| found[r].is_none()));
        if !leaves && (lacking.is_none() || !how.alone && !how.salvage) {
            let Some(r) = absent else { return Ok(false) };
            let regions = u64::from(regions.stored.dirty.count());
            let why = format!(
                "ring {r} is not there, and may hold something newer of {regions} regions of {}",
                ByteLen(disk.unit)
            );
            let remedy = "bring it back; or give it up with --force-degraded: the disk goes on alone, and these regions fail until \
                          they are written anew";
            return Err(OpenError::Refused { why, remedy: remedy.into() });
        }
        regions.standing = Standing::Leaving;
        self.lose(lacking.unwrap_or(0), cx);
        Ok(true)
    }

    /// Everything that a ring may have had alone is lost.
    pub(crate) fn lose(&mut self, ring: usize, cx: &mut Cx<'_>) {
        let Some(regions) = &mut self.regions else { return };
        let layout = regions.layout;
        let before = regions.lost.count();
        for (from, to) in regions.stored.dirty.runs() {
            for page in layout.pages_of(from).0..layout.pages_of(to - 1).1 {
                regions.lost.set(page, true);
            }
        }
        regions.stored.lost = regions.lost.clone();
        self.keep_whole_frames();
        let lost = self.regions.as_ref().map_or(0, |regions| regions.lost.count());
        let bytes = u64::from(lost.saturating_sub(before)) * self.page;
        cx.event(DeviceEvent::Notice(Notice::Gone(ring as u8, Gone::Dirty(bytes))));
    }

    /// What DRAM has whole of a lost page counts; a part of one goes with the rest.
    fn keep_whole_frames(&mut self) {
        let Some(regions) = &mut self.regions else { return };
        let full = self.dram.full;
        for at in 0..self.dram.frames.len() as u32 {
            let f = &mut self.dram.frames[at as usize];
            let page = f.page;
            if f.dirty == 0 || !regions.lost.has(page) || self.dram.find(page) != Some(at) {
                continue;
            }
            if self.dram.frames[at as usize].dirty == full {
                regions.lost.set(page, false);
                continue;
            }
            let f = &mut self.dram.frames[at as usize];
            (f.dirty, f.valid) = (0, 0);
            self.dram.settle(at);
        }
    }

    /// Whether a request meets data that are lost, so that it fails: a read of any of a lost page, a change of a part of one.
    pub(crate) fn meets_lost(&mut self, op: Op, first: u64, end: u64) -> bool {
        let sectors = self.sectors();
        let Some(regions) = self.regions.as_ref().filter(|r| r.lost.count() > 0 && end > first) else {
            return false;
        };
        let (from, to) = ((first / sectors) as u32, end.div_ceil(sectors) as u32);
        let meets = match op {
            Op::Read => regions.lost.any(from, to),
            Op::Flush => false,
            _ => {
                let is_cut = |page: u32| {
                    let start = u64::from(page) * sectors;
                    first > start || end < start + sectors
                };
                [from, to - 1].into_iter().any(|page| is_cut(page) && regions.lost.has(page))
            }
        };
        self.count.lost_requests += u64::from(meets);
        meets
    }

    /// Whether any of these pages is lost.
    pub(crate) fn has_lost(&self, first: u64, end: u64) -> bool {
        self.regions.as_ref().is_some_and(|r| r.lost.any(first as u32, end as u32))
    }

    /// The disk has new data of these sectors: pages that are all new are not lost any more.
    pub(crate) fn overwrite_lost(&mut self, first: u64, end: u64) {
        let sectors = self.sectors();
        let Some(regions) = self.regions.as_mut().filter(|r| r.lost.count() > 0) else { return };
        let (from, to) = (first.div_ceil(sectors) as u32, (end / sectors) as u32);
        for page in from..to {
            if !regions.lost.has(page) {
                continue;
            }
            let region = regions.layout.region_of(page);
            let (a, b) = match self.planted.clears_whole_region {
                true => regions.layout.pages_of(region),
                false => (page, page + 1),
            };
            (a..b).for_each(|page| regions.serve(page));
        }
        self.made_progress = true;
    }

    /// What DRAM had for the rings goes to the disk, where there are none.
    pub(crate) fn pump_drain(&mut self, cx: &mut Cx<'_>) {
        if !self.may_lose_rings() || self.has_rings() || self.dram.waiting == 0 {
            return;
        }
        let full = self.dram.full;
        let mut room = DRAINS.saturating_sub(self.dram.frames.iter().filter(|f| f.is_written).count() as u32);
        for at in 0..self.dram.frames.len() as u32 {
            let f = &self.dram.frames[at as usize];
            let page = u64::from(f.page);
            if room == 0 {
                break;
            }
            if f.dirty == 0 || f.is_written || f.loading || self.is_bypassed(page, page + 1) {
                continue;
            }
            if f.valid != full {
                self.complete_frame(at, NO_OP, cx);
                continue;
            }
            room -= 1;
            let f = &mut self.dram.frames[at as usize];
            (f.is_written, f.writing) = (true, f.dirty);
            let data = f.data;
            self.send_own(
                self.disk,
                Op::Write,
                ByteOffset(page * self.page),
                self.page,
                data,
                Tag::Drain,
                at,
                cx,
            );
        }
    }

    /// The disk has a frame, or does not take it: then it is tried again, as the rest of what waits.
    pub(crate) fn drained(&mut self, at: u32, failed: bool, cx: &mut Cx<'_>) {
        let f = &mut self.dram.frames[at as usize];
        (f.is_written, f.writing) = (false, 0);
        if failed {
            f.failures += 1;
            if f.failures > DRAINS as u8 {
                f.failures = 0;
                return self.fail(ErrorKind::WriteFailed, cx);
            }
            return;
        }
        (f.dirty, f.failures) = (0, 0);
        let page = f.page;
        self.disk_unflushed = true;
        self.dram.settle(at);
        if let Some(regions) = &mut self.regions {
            regions.serve(page);
        }
    }

    /// Whether DRAM has something of these pages that is on its way to the disk because there are no rings.
    pub(crate) fn drains(&self, first: u64, end: u64) -> bool {
        let waits = |page: u64| {
            let at = self.dram.find(page as u32).unwrap_or(NO_FRAME);
            self.dram.frames.get(at as usize).is_some_and(|f| f.dirty != 0)
        };
        !self.has_rings() && self.may_lose_rings() && self.dram.waiting > 0 && (first..end).any(waits)
    }

    /// Rings that were told are in use once nothing is on its way to the disk because there were none.
    pub(crate) fn take_rings_that_joined(&mut self, cx: &mut Cx<'_>) {
        let waits = self.through.as_ref().is_some_and(|through| through.waits_to_join);
        let is_direct = |o: &crate::host::HostOp| o.stage == Stage::Bypassing && o.is_direct;
        if !waits || self.dram.waiting > 0 || self.ops.iter().any(is_direct) {
            return;
        }
        if let Some(regions) = &mut self.regions {
            regions.standing = Standing::Needed;
        }
        self.joined(cx);
        for i in std::mem::take(&mut self.wait_bypass) {
            self.ops[i as usize].stage = Stage::Absorbing;
            self.change(i, cx);
        }
    }

    /// An operator gives a ring up, where it may hold the only copy of something.
    pub(crate) fn give_up_ring(&mut self, child: u8, cx: &mut Cx<'_>) -> Result<(), AdminError> {
        let refused = |why: &str, remedy| Err(AdminError::Refused { why: why.into(), remedy });
        if self.gone[usize::from(self.disk)] {
            return refused("its disk is not there", "bring the disk back first");
        }
        match self.phase {
            Phase::Running if self.has_rings() => {
                return refused(
                    "the ring may hold what the disk does not have, and works",
                    "give it up first (`fail`): what is lost with it is put on record then",
                );
            }
            Phase::Running | Phase::Failed => {}
            Phase::Opening if !self.opening.is_first => {}
            _ => return refused("it is not served", "try again when it has started"),
        }
        if let Some(through) = &mut self.through {
            (through.replaced[usize::from(child)], through.out[usize::from(child)]) = (true, true);
        }
        let Some(regions) = &mut self.regions else { return Err(AdminError::Unknown) };
        if regions.standing == Standing::Needed {
            regions.leaves = true;
            match self.phase {
                Phase::Opening => self.start_open(self.opening.how(), cx),
                _ => self.try_reopen(cx),
            }
        }
        Ok(())
    }

    /// An operator takes what the disk has for what counts.
    pub(crate) fn accept_lost(&mut self) -> Result<(), AdminError> {
        let is_running = self.phase == Phase::Running;
        let Some(regions) = &mut self.regions else { return Err(AdminError::Unknown) };
        if !is_running {
            let why = "it does not serve now".into();
            return Err(AdminError::Refused { why, remedy: "bring its members back first" });
        }
        for page in regions.lost.runs().into_iter().flat_map(|(from, to)| from..to) {
            regions.serve(page);
        }
        self.ask_for_commit();
        Ok(())
    }

    /// Runs the commands of operators that concern rings and what is lost with them.
    pub(crate) fn obey(&mut self, admin: Admin, cx: &mut Cx<'_>) -> Result<(), AdminError> {
        match admin {
            Admin::Replace(child) if child < self.disk && self.may_lose_rings() => {
                self.give_up_ring(child, cx)
            }
            Admin::AcceptLost => self.accept_lost(),
            _ => self.replace_ring(admin, cx),
        }
    }
}
