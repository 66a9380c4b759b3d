//! Clearing blocks: a few moves after each write of the host, or a whole block when there is no other way.
//!
//! *Whole stripes.* Where planes of a die are to work together, moves are owed until they end a stripe of the unit that pages go to, a page in each of
//! its blocks ([`super::Host::stripe`]). All of a stripe is read before any of it is programmed: reads at one height of a die share an operation, and so do
//! programs. With a unit of the planes of a die this is collection of single blocks by multi-plane commands: its blocks have one number in their planes, and
//! one erase takes them all.

use super::flash::{After, Copying, Erasing, Job, Pieces, Programming, Reading};
use super::{Flash, Planner};
use crate::blocks::Content;
use crate::gc::{GcPolicy, Greedy, PlaneView};
use crate::mapping::Mapping;
use crate::{BlockId, Cursor, Lpn, Ppn};
use nandu_base::{Cx, Oob, TenantId, Violation, Work};

const NOBODY: BlockId = BlockId(u32::MAX);

/// A plane's block that is being cleared, while [`crate::Plane::clearing`] says so.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clearing {
    pub victim: BlockId,
    /// The next page of it to look at.
    pub next: u32,
    /// Moves that each page of the host is followed by, in parts of [`RATE_UNIT`].
    rate: u32,
    /// Moves owed, in parts of [`RATE_UNIT`]; carries over to the next block.
    debt: u32,
    /// No page of it was valid when it was chosen.
    empty: bool,
    /// The block that its pages go to when it is cleared for its wear: none but them.
    pub to: Cursor,
}

/// A page of a stripe that was read and is not programmed yet: until it is, its newest version is where it was.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moving<G> {
    lpn: Lpn,
    from: Ppn,
    to: Ppn,
    read: G,
}

/// One move.
const RATE_UNIT: u32 = 1 << 10;
/// The most moves that follow a page of the host while a block is cleared for its wear.
const RATE_LEVELLING: u32 = 4 * RATE_UNIT;

impl Clearing {
    pub const IDLE: Clearing =
        Clearing { victim: NOBODY, next: 0, rate: 0, debt: 0, empty: false, to: Cursor::CLOSED };
}

impl<M: Mapping + ?Sized, F: Flash> Planner<M, F> {
    /// After a page of the host on `plane`: moves as many pages as are needed to be done before the plane runs out.
    pub(super) fn clear_after_write(&mut self, plane: u32, cause: TenantId, cx: &mut Cx<'_>) {
        let p = &self.blocks.planes[plane as usize];
        if p.free <= self.start_of(plane) || p.clearing {
            if self.tenants.is_some() {
                self.ask_back_before_clearing(plane, cx);
            }
            self.clear_some(plane, cause, cx);
        }
    }

    /// Pays off a part of the block being cleared. Each page that the host writes must be made good by one page gained: a
    /// block with v valid of P pages gains P - v pages for v moves, so a write is followed by v / (P - v) moves, more when
    /// the plane has fallen behind: twice as many for each block that is missing.
    #[inline(never)]
    pub(super) fn clear_some(&mut self, plane: u32, cause: TenantId, cx: &mut Cx<'_>) {
        if !self.choose_victim(plane, cause, cx) {
            return;
        }
        let p = &self.blocks.planes[plane as usize];
        let pages = self.blocks.layout().pages;
        let room = p.host.left() + p.moved.left() + p.free * pages;
        let behind = ((self.start_of(plane) + 1) * pages).saturating_sub(room);
        let clearing = &mut self.clearing[plane as usize];
        clearing.debt += clearing.rate;
        if behind > 0 {
            clearing.debt += (u64::from(clearing.rate) * u64::from(behind) / u64::from(pages)) as u32;
        }
        if self.host.stripe > 1 {
            return self.clear_stripes(plane, cause, cx);
        }
        let moves = clearing.debt / RATE_UNIT;
        clearing.debt %= RATE_UNIT;
        if moves > 0 || clearing.empty {
            self.clear_pages(plane, moves, cause, cx);
        }
    }

    /// Moves what is owed and ends with a stripe.
    #[inline(never)]
    fn clear_stripes(&mut self, plane: u32, cause: TenantId, cx: &mut Cx<'_>) {
        let Clearing { debt, empty, .. } = self.clearing[plane as usize];
        let moves = self.moves_of_stripes(plane, debt / RATE_UNIT);
        self.clearing[plane as usize].debt -= moves * RATE_UNIT;
        if moves > 0 || empty {
            let outer = self.exec.work_for(Work::Gc);
            self.move_many(plane, moves, cause, cx);
            self.exec.work_for(outer);
            self.check_stripe(plane);
        }
    }

    /// How many of so many moves end with a stripe of the unit that pages move to.
    fn moves_of_stripes(&self, plane: u32, owed: u32) -> u32 {
        if self.planted.stripe_left_open {
            return owed;
        }
        let rest = self.left_in_stripe(plane);
        match owed.checked_sub(rest) {
            Some(beyond) => rest + beyond - beyond % self.host.stripe,
            None => 0,
        }
    }

    /// Pages of the last stripe of the unit that pages move to which are still to be programmed; 0 where the next page begins one.
    fn left_in_stripe(&self, plane: u32) -> u32 {
        let to = self.clearing[plane as usize].to;
        let to = if to.is_full() { self.blocks.planes[plane as usize].moved } else { to };
        to.left() % self.host.stripe
    }

    /// A unit that stays half cleared has been left at the end of a stripe.
    fn check_stripe(&self, plane: u32) {
        let rest = self.left_in_stripe(plane);
        assert!(
            rest == 0 || !self.blocks.planes[plane as usize].clearing,
            "whole_stripes: {rest} pages of a stripe in group {plane} are left open while a unit is half cleared"
        );
    }

    /// Clears one block of the plane to the end.
    pub(super) fn clear_whole_block(&mut self, plane: u32, cause: TenantId, cx: &mut Cx<'_>) {
        assert!(self.choose_victim(plane, cause, cx), "plane {plane} has no free block and none to clear");
        self.clear_pages(plane, u32::MAX, cause, cx);
    }

    /// One move for each block of a unit, where stripes are filled those that the last one lacks, or the erase of a unit that has been chosen.
    pub fn clear_step(&mut self, plane: u32, cause: TenantId, cx: &mut Cx<'_>) {
        let moves = match self.host.stripe {
            1 => 0,
            _ => self.left_in_stripe(plane),
        };
        let moves = if moves == 0 { self.exec.units().width() } else { moves };
        self.clear_pages(plane, moves, cause, cx);
    }

    /// Whether the plane has a block to clear.
    #[inline(always)]
    fn choose_victim(&mut self, plane: u32, cause: TenantId, cx: &mut Cx<'_>) -> bool {
        self.blocks.planes[plane as usize].clearing || self.choose_new_victim(plane, cause, cx)
    }

    #[inline(never)]
    fn choose_new_victim(&mut self, plane: u32, cause: TenantId, cx: &mut Cx<'_>) -> bool {
        if let Some(victim) = self.cold_victim(plane, cause, cx) {
            self.begin_clearing(plane, victim);
            if self.clearing[plane as usize].empty {
                return true;
            }
            // What is left of the block that it moves to is given up: nothing is gained.
            self.leveller.gains_nothing(plane);
            let to = self.blocks.open_free_most_worn(plane, self.seq + 1);
            let to = to.expect("a block is cleared for its wear while two are free");
            self.exec.opened(to);
            self.clearing[plane as usize].to = to;
            return true;
        }
        self.choose_victim_that_gains(plane, 1) || self.begin_fold(plane, None)
    }

    /// Lets the policy choose a block; false when it gains less than `least` pages.
    pub fn choose_victim_that_gains(&mut self, plane: u32, least: u32) -> bool {
        let own = match (&self.tenants, &self.streams) {
            (None, None) if self.slc.is_none() => None,
            (Some(_), _) => {
                let mut invalid = self.invalid_of_tenant(plane);
                if self.blocks.planes[plane as usize].free > 1 {
                    self.hide_slc(plane, &mut invalid);
                }
                Some(invalid)
            }
            (None, _) => Some(self.invalid_of_full(plane)),
        };
        let is_debtor = self.is_debtor(plane);
        let layout = self.blocks.layout();
        let p = &self.blocks.planes[plane as usize];
        let gathering = self.paging.gatherer.open_in(plane, layout).unwrap_or(NOBODY);
        let view = PlaneView {
            invalid: own.as_deref().unwrap_or_else(|| self.blocks.plane_invalid(plane)),
            opened: self.blocks.plane_opened(plane),
            erases: self.blocks.plane_erases(plane),
            now: self.seq,
            pages: layout.pages as u16,
            first: layout.first_block(self.blocks.plane_of_pool(plane)),
            busy: [p.host.block(layout), p.moved.block(layout), gathering],
        };
        // The last free block takes what moves: no time for a block that gains little. Nor has who owes blocks to others.
        let is_urgent = p.free <= 1 || is_debtor;
        let victim =
            view.held(if is_urgent { Greedy::default().victim(view) } else { self.policy.victim(view) });
        if let Some(own) = own.filter(|_| self.tenants.is_some()) {
            self.keep_invalid(own);
        }
        match victim {
            Some(victim) if u32::from(self.blocks.invalid(victim)) >= least => {
                self.begin_clearing(plane, victim);
                true
            }
            _ => false,
        }
    }

    /// The invalid pages of a plane's blocks, none for those that streams have open, nor of an SLC-mode cache those that it keeps.
    fn invalid_of_full(&self, plane: u32) -> Vec<u16> {
        let mut invalid = self.blocks.plane_invalid(plane).to_vec();
        let first = self.blocks.layout().first_block(plane).0;
        self.blocks.open_streams(plane).for_each(|block| invalid[(block.0 - first) as usize] = 0);
        if self.blocks.planes[plane as usize].free > 1 {
            self.hide_slc(plane, &mut invalid);
        }
        invalid
    }

    /// Lets so many pages move after each page of the host's that a block is folded when `pages` of them are written.
    pub(super) fn pace_fold(&mut self, plane: u32, pages: u32) {
        let clearing = &mut self.clearing[plane as usize];
        let valid = self.blocks.layout().pages - u32::from(self.blocks.invalid(clearing.victim));
        clearing.rate = (valid * RATE_UNIT).div_ceil(pages);
    }

    /// The block of a pool that is being cleared.
    pub(super) fn victim_of(&self, pool: u32) -> Option<BlockId> {
        self.blocks.planes[pool as usize].clearing.then(|| self.clearing[pool as usize].victim)
    }

    /// Whether the pool has a block to clear; it is chosen then.
    pub(super) fn has_victim(&mut self, pool: u32) -> bool {
        self.blocks.planes[pool as usize].clearing || self.choose_victim_that_gains(pool, 1)
    }

    /// Blocks of a pool that are written, open, or the map's.
    pub(super) fn held_by(&self, pool: u32) -> u32 {
        let to = self.clearing[pool as usize].to.block(self.blocks.layout());
        let is_unwritten = || self.blocks.content(self.blocks.layout().first_page(to)) == Content::Free;
        let map = self.paging.area.erased_of(pool);
        self.blocks.held(pool) + map + u32::from(to != NOBODY && is_unwritten())
    }

    pub(super) fn begin_clearing(&mut self, plane: u32, victim: BlockId) {
        let layout = self.blocks.layout();
        let valid = layout.pages - u32::from(self.blocks.invalid(victim));
        let debt = self.clearing[plane as usize].debt;
        self.leveller.gains(plane, layout.pages - valid);
        let rate = match layout.pages - valid {
            0 => RATE_LEVELLING,
            gain => valid * RATE_UNIT / gain,
        };
        let (next, to) = (layout.first_page(victim).0, Cursor::CLOSED);
        self.clearing[plane as usize] = Clearing { victim, next, rate, debt, empty: valid == 0, to };
        self.blocks.planes[plane as usize].clearing = true;
    }

    /// Moves up to `budget` pages, more where it must, and erases the block when none is left.
    #[inline(always)]
    pub(super) fn clear_pages(&mut self, plane: u32, budget: u32, cause: TenantId, cx: &mut Cx<'_>) {
        let outer = self.exec.work_for(Work::Gc);
        if self.moves_plainly && !self.exec.holds_back() && self.clearing[plane as usize].to.is_full() {
            self.move_pages::<true>(plane, budget, cause, cx);
        } else {
            self.move_many(plane, budget, cause, cx);
        }
        self.exec.work_for(outer);
    }

    #[inline(never)]
    fn move_many(&mut self, plane: u32, budget: u32, cause: TenantId, cx: &mut Cx<'_>) {
        // Pages that move at once may share an operation, and none with the request that they follow.
        // So does what leaves SLC mode, which is read and programmed as pages of requests are.
        if self.exec.is_wide() || self.slc.is_some() {
            self.exec.begin_group();
        }
        self.move_pages::<false>(plane, budget, cause, cx);
    }

    /// `PLAIN` says that pages move within their plane and nothing stands before them. What a move changes in the block that is
    /// cleared is added up and entered once then, and the plane's number of valid pages, which a move leaves as it is, is left alone.
    #[inline(always)]
    fn move_pages<const PLAIN: bool>(&mut self, plane: u32, budget: u32, cause: TenantId, cx: &mut Cx<'_>) {
        let Clearing { victim, mut next, .. } = self.clearing[plane as usize];
        let mut valid = self.blocks.layout().pages - u32::from(self.blocks.invalid(victim));
        let mut run = F::run(cx);
        let mut pieces = (!PLAIN).then(|| Pieces::of_nobody(cx, cause, Work::Gc));
        let (mut moved, mut left) = (0, budget);
        while valid > 0 {
            if left == 0 && self.may_pause(plane) {
                break;
            }
            let from = Ppn(next);
            next += 1;
            if let Some(ahead) = self.blocks.data_entered_at(Ppn(next + 7)) {
                self.map.prefetch(ahead);
            }
            match self.blocks.data_at(from) {
                Some(lpn) if PLAIN && self.map.is_at(lpn, from) => {
                    let to = self.next_page_for_moved(plane);
                    let placed = self.exec.move_at_once(from, to, plane, &mut run);
                    self.seq += 1;
                    moved += 1;
                    self.blocks.programmed(to, Content::Data(lpn));
                    self.map.set(lpn, to);
                    if cx.medium.is_some() {
                        let oob = self.oob_of_moved(to, Content::Data(lpn));
                        self.exec.store(to, Some(from), None, oob, placed, cx);
                    }
                }
                Some(lpn) if !PLAIN && self.is_live(lpn, from, cause, cx) => {
                    let pieces = pieces.as_mut().expect("only a plain step has none");
                    self.move_data(from, lpn, plane, pieces, cx);
                }
                Some(_) => {
                    if !PLAIN {
                        // Of a map that is partly on the flash it may be heard that more of them are superseded.
                        valid = valid.min(self.valid_to_move(victim));
                    }
                    continue;
                }
                None if self.move_record(from, plane, cause, cx) => {}
                None => continue,
            }
            valid -= 1;
            if !PLAIN {
                valid = valid.min(self.valid_to_move(victim));
            }
            left = left.saturating_sub(1);
        }
        if PLAIN {
            self.count.pages_moved += u64::from(moved);
            self.blocks.moved_away(victim, moved);
            self.exec.moved_away(victim, &run, cause, cx);
        }
        if let Some(pieces) = &mut pieces {
            self.program_stripe(plane, cause, cx);
            self.charge_gc(pieces, cx);
        }
        if valid > 0 {
            self.clearing[plane as usize].next = next;
        } else {
            self.erase(victim, plane, cause, cx);
        }
    }

    /// Valid pages of the block that is being cleared, without those that are read and not programmed yet.
    #[inline(always)]
    fn valid_to_move(&self, victim: BlockId) -> u32 {
        self.blocks.layout().pages - u32::from(self.blocks.invalid(victim)) - self.stripe.len() as u32
    }

    /// Whether a block may stay half cleared. Where the host's pages follow moved ones into the last free block, they could
    /// leave no room for the rest: then it is cleared to the end at once.
    #[inline]
    pub(super) fn may_pause(&self, plane: u32) -> bool {
        self.host.separate || self.blocks.planes[plane as usize].free > 0
    }

    fn charge_gc(&self, pieces: &mut Pieces<F>, cx: &mut Cx<'_>) {
        if !self.planted.uncharged_gc {
            pieces.charge(cx);
        }
    }

    /// Moves a page of the host.
    #[inline(always)]
    fn move_data(&mut self, from: Ppn, lpn: Lpn, plane: u32, pieces: &mut Pieces<F>, cx: &mut Cx<'_>) {
        if self.host.stripe > 1 {
            return self.read_for_stripe(from, lpn, plane, pieces, cx);
        }
        let to = self.move_page(from, Content::Data(lpn), plane, pieces, cx);
        self.data_moved(lpn, from, to, pieces.cause, cx);
    }

    #[inline(always)]
    fn data_moved(&mut self, lpn: Lpn, from: Ppn, to: Ppn, cause: TenantId, cx: &mut Cx<'_>) {
        if !(self.planted.stale_map && self.seq.is_multiple_of(32)) {
            self.relocate(lpn, from, to, cause, cx);
        }
    }

    /// Reads a page that moves, and programs the stripe of which it is the last one.
    #[inline(never)]
    fn read_for_stripe(&mut self, from: Ppn, lpn: Lpn, plane: u32, pieces: &mut Pieces<F>, cx: &mut Cx<'_>) {
        let to = self.next_page_for_cleared(plane);
        let reading = Reading::of_moved(Job::MoveRead, from, self.is_slc(from), After::now(cx));
        let read = self.exec.read(reading, pieces, cx);
        self.stripe.push(Moving { lpn, from, to, read });
        if self.left_in_stripe(plane) == 0 {
            self.program_stripe(plane, pieces.cause, cx);
        }
    }

    /// Programs what was read of a stripe, in the order of its places, once all of it has come. The map hears of each page when it is given: what it
    /// writes has all that was programmed before.
    #[inline(always)]
    fn program_stripe(&mut self, plane: u32, cause: TenantId, cx: &mut Cx<'_>) {
        if !self.stripe.is_empty() {
            self.program_what_was_read(plane, cause, cx);
        }
    }

    #[inline(never)]
    fn program_what_was_read(&mut self, plane: u32, cause: TenantId, cx: &mut Cx<'_>) {
        let mut pieces = Pieces::of_nobody(cx, cause, Work::Gc);
        let mut stripe = std::mem::take(&mut self.stripe);
        let now = After::now(cx);
        let come =
            |come: After, page: &Moving<F::Given>| come.not_before(self.exec.behind(page.read, &pieces));
        let all_come = stripe.iter().fold(now, come);
        for Moving { lpn, from, to, read } in stripe.drain(..) {
            let copying = self.copying(from, to, Content::Data(lpn), now);
            let after = self.exec.behind(read, &pieces).not_before(all_come);
            let programming = Programming::of_moved(Job::MoveProgram, &copying, read, after, now);
            self.exec.program(programming, &mut pieces, cx);
            self.left(from, plane);
            self.data_moved(lpn, from, to, cause, cx);
        }
        self.stripe = stripe;
        self.charge_gc(&mut pieces, cx);
    }

    /// Moves a record of the trim journal; false when the page holds none that is needed.
    #[inline(never)]
    pub(super) fn move_record(&mut self, from: Ppn, plane: u32, cause: TenantId, cx: &mut Cx<'_>) -> bool {
        let content = self.blocks.content(from);
        let Content::Journal(slot) = content else { return false };
        if self.journal.record(slot).is_none_or(|record| record.ppn != from) {
            return false;
        }
        // Its place is behind those that were taken.
        self.program_stripe(plane, cause, cx);
        let mut pieces = Pieces::of_nobody(cx, cause, Work::Gc);
        let to = self.move_page(from, content, plane, &mut pieces, cx);
        self.charge_gc(&mut pieces, cx);
        self.journal.moved(slot, to);
        true
    }

    #[inline(always)]
    fn move_page(
        &mut self,
        from: Ppn,
        content: Content,
        plane: u32,
        pieces: &mut Pieces<F>,
        cx: &mut Cx<'_>,
    ) -> Ppn {
        let to = self.next_page_for_cleared(plane);
        self.copy(from, to, content, pieces, cx);
        self.left(from, plane);
        to
    }

    /// A page has left the block that is being cleared.
    #[inline(always)]
    fn left(&mut self, from: Ppn, plane: u32) {
        self.count.pages_moved += 1;
        self.tenant_moved(plane);
        self.blocks.invalidate(from);
    }

    /// Copies a page within its pool.
    #[inline(always)]
    pub(super) fn copy(
        &mut self,
        from: Ppn,
        to: Ppn,
        content: Content,
        pieces: &mut Pieces<F>,
        cx: &mut Cx<'_>,
    ) {
        let copying = self.copying(from, to, content, After::now(cx));
        match self.moves_within && !self.exec.holds_back() {
            true => self.exec.move_now(copying, pieces, cx),
            false => self.exec.copy(copying, pieces, cx),
        };
    }

    /// What a copy is made of; it has the next number.
    #[inline(always)]
    pub(super) fn copying(&mut self, from: Ppn, to: Ppn, content: Content, after: After) -> Copying {
        self.seq += 1;
        self.blocks.programmed(to, content);
        let oob = self.oob_of_moved(to, content);
        let (from_slc, to_slc) = (self.is_slc(from), self.is_slc(to));
        let is_map = matches!(content, Content::Map(_));
        Copying { from, to, oob, from_slc, to_slc, after, is_map }
    }

    /// What is on record with a page that was moved.
    #[inline(always)]
    fn oob_of_moved(&self, to: Ppn, content: Content) -> Oob {
        Oob { key: super::recover::key(content) | self.mode_mark(to), seq: self.seq }
    }

    /// Erases a block without valid pages, once the newer versions of its pages are safe.
    pub(super) fn erase(&mut self, block: BlockId, plane: u32, cause: TenantId, cx: &mut Cx<'_>) {
        if self.journal.pending() > 0 {
            self.record_trims_in(plane, cx, cause);
            self.renew_is_due = self.journal.is_long();
        }
        self.erase_alone(block, plane, cause, cx);
    }

    /// The same where no trim has emptied it.
    pub(super) fn erase_alone(&mut self, block: BlockId, plane: u32, cause: TenantId, cx: &mut Cx<'_>) {
        let (after, is_slc) = (After::now(cx), self.blocks.is_slc(block));
        self.exec.erase(Erasing { unit: block, after, is_slc, cause, work: Work::Gc }, cx);
        let rest = std::mem::replace(&mut self.clearing[plane as usize].to, Cursor::CLOSED);
        self.blocks.waste(rest);
        self.blocks.erased(block);
        if self.tenants.is_some() {
            self.retire_tenants_unit(block);
        }
        self.erases_ever += 1;
        if self.planted.wear_falls && self.erases_ever.is_multiple_of(4) {
            self.blocks.forget_wear(block);
        }
        self.count.erases += 1;
        self.count.blocks_cleared += 1;
        self.blocks.planes[plane as usize].clearing = false;
        self.attention |= self.renew_is_due || self.blocks.has_ended();
        self.tenant_erased(plane);
    }

    /// I-5: every mapped page has one live physical page, and the counters agree with the map. I-16: the erases of all
    /// blocks add up to those ever done.
    pub fn check_blocks(&self) -> Result<(), Violation> {
        let broken = |what: String| Err(Violation { invariant: "I-5", what });
        let layout = self.blocks.layout();
        let free: std::collections::BTreeSet<BlockId> = self.blocks.free_blocks().collect();
        let (mut live, mut unknown) = (0, 0);
        for block in layout.all_blocks() {
            if self.paging.is_anchor(block) {
                continue;
            }
            if self.blocks.is_bad(block) {
                self.check_bad_block(block, free.contains(&block))?;
                continue;
            }
            if self.paging.area.owns(block) {
                self.check_map_block(block)?;
                continue;
            }
            let first = layout.first_page(block).0;
            let contents = (first..first + layout.pages).map(|p| (Ppn(p), self.blocks.content(Ppn(p))));
            let (mut written, mut valid) = (0, 0);
            for (ppn, content) in contents {
                written += u32::from(content != Content::Free);
                valid += match content {
                    Content::Data(lpn) if self.map.get(lpn) == Some(ppn) => 1,
                    // A map that is partly on the flash forgets pages that it knows to be superseded.
                    Content::Data(_) if self.has_map_pages() => {
                        unknown += 1;
                        1
                    }
                    Content::Journal(slot) => {
                        u32::from(self.journal.record(slot).is_some_and(|r| r.ppn == ppn))
                    }
                    Content::Data(_) | Content::Map(_) | Content::Free | Content::Waste => 0,
                };
            }
            if free.contains(&block) && written > 0 {
                return broken(format!("free block {block:?} holds {written} pages"));
            }
            let counted = u32::from(self.blocks.invalid(block));
            if written - valid != counted {
                return broken(format!(
                    "{block:?} has {} invalid pages but counts {counted}",
                    written - valid
                ));
            }
            live += u64::from(valid);
        }
        let records = self.journal.records().count() as u64;
        let mapped = (0..self.host.logical).filter(|&l| self.map.get(Lpn(l)).is_some()).count() as u64;
        if mapped + records + unknown != live || unknown != self.map.unsettled() {
            return broken(format!(
                "{mapped} pages are mapped, {records} records kept and {unknown} pages superseded unknown ({} by the \
                 map), but {live} pages are live",
                self.map.unsettled()
            ));
        }
        self.check_modes()?;
        self.check_map()?;
        self.check_tenants()?;
        self.check_trims()?;
        let wear: u64 = layout.all_blocks().map(|b| u64::from(self.blocks.erases(b))).sum();
        if wear != self.erases_ever {
            let what = format!("the blocks count {wear} erases, {} were done", self.erases_ever);
            return Err(Violation { invariant: "I-16", what });
        }
        Ok(())
    }

    /// The part of I-16 about a bad block: nothing uses it.
    fn check_bad_block(&self, block: BlockId, is_free: bool) -> Result<(), Violation> {
        let first = self.blocks.layout().first_page(block).0;
        let mut pages = (first..first + self.blocks.layout().pages).map(Ppn);
        let is_used = pages.any(|ppn| self.blocks.content(ppn) != Content::Free);
        if is_used || is_free || self.paging.area.owns(block) {
            let what = format!("{block:?} is worn out after {} erases and in use", self.blocks.erases(block));
            return Err(Violation { invariant: "I-16", what });
        }
        Ok(())
    }
}
