//! One leg: its place in the set, its flushes, and the reading and writing of its records.
//!
//! **Flushes (R-SNAP).** One flush is under way at a time on each leg. Flush number n covers what was complete when it
//! was issued; `dirty` is the number of the flush that covers everything complete so far. Who needs cover asks for that
//! number and shares it with everybody else.
//!
//! **Records (R-SLOT).** A superblock or a batch of map pages is written into the older slots, then the leg is flushed,
//! and only then may the next update of that record start.

mod load;

use super::decide::Found;
use super::layout::{Gen, Layout, PAGE, Superblock, encode_lost, encode_superblock};
use super::region_map::LegMap;
use super::work::Ready;
use super::{MAX_LEGS, Mirror, Tag};
use crate::member::set::Set;
use crate::member::slots::{Content, Slots};
use nandu_base::{ByteLen, ByteOffset, Cx, Draft, ErrorKind, Flags, Op, Payload, ReqId, TenantId};

/// Page writes or reads under way at once on a leg.
const WINDOW: usize = 16;

/// Stands for the lost list among the numbers of pages.
const LOST: u32 = u32::MAX;

/// A leg's place in the set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// Not used: absent, lost, failed, or refused.
    Out,
    /// Being looked at while the mirror opens.
    Opening,
    /// Rejoining: not read, may not lead.
    Joining,
    /// A full member.
    Member,
}

/// An update of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Update {
    /// None.
    Idle,
    /// This many writes are not back.
    Writing(u32),
    /// Waits for this leg flush.
    Flushing(u64),
}

/// One leg.
#[derive(Debug)]
pub struct Leg {
    /// Its place in the set.
    pub place: Place,
    /// Whether client writes go to it.
    pub writes: bool,
    /// A read of it is late, and it has answered nothing since.
    pub silent: bool,
    /// Reads that are not back.
    pub reads: u32,
    /// Data writes that are not back.
    pub data_writes: u32,
    /// Number of the last flush issued.
    pub issued: u64,
    /// Number of the last flush that is done.
    pub done: u64,
    /// Whether a flush is under way.
    flushing: bool,
    wanted: u64,
    /// The flush that covers everything complete so far.
    pub dirty: u64,
    /// The flush after which it says L no longer, while another leg is out.
    pub unlist: Option<u64>,
    /// The flush that the procedure under way waits for.
    pub awaited: u64,
    /// Its region map.
    pub map: LegMap,
    /// The update of the map under way.
    pub map_io: Update,
    /// Whether the lost list must be written with the next batch of the map.
    pub lost_to_write: bool,
    /// Whether it is part of the batch under way.
    lost_in_batch: bool,
    /// Drained writes among the data writes.
    pub drains: u32,
    /// Its newest superblock.
    pub sb: Superblock,
    sb_slots: Slots<Superblock>,
    sb_io: Update,
    /// Reads of records that are not back.
    pub loading: u32,
    load_next: u32,
    load_end: u32,
    /// Number and slot of the newest lost list.
    lost_newest: Option<(u64, u8)>,
    /// What it was found to name.
    pub lost_found: Vec<(u64, u64)>,
    lost_unreadable: bool,
    /// Slots of the list to write before it counts as durable: both, when one could not be read.
    lost_writes: u8,
    /// How often a write of a record may still fail before the leg is given up.
    record_retries: u8,
}

impl Leg {
    /// A leg with `layout`, of which `regions` regions are used, that was never looked at.
    pub fn new(layout: &Layout, regions: u32, sb: Superblock) -> Leg {
        Leg {
            place: Place::Out,
            writes: false,
            silent: false,
            reads: 0,
            data_writes: 0,
            issued: 0,
            done: 0,
            flushing: false,
            wanted: 0,
            dirty: 0,
            unlist: None,
            awaited: 0,
            map: LegMap::new(layout.pages, regions),
            map_io: Update::Idle,
            lost_to_write: false,
            lost_in_batch: false,
            drains: 0,
            sb,
            sb_slots: Slots::new(),
            sb_io: Update::Idle,
            loading: 0,
            load_next: 0,
            load_end: 0,
            lost_newest: None,
            lost_found: Vec::new(),
            lost_unreadable: false,
            lost_writes: 0,
            record_retries: 0,
        }
    }

    /// Whether the mirror uses the leg in any way.
    #[inline]
    pub fn is_in(&self) -> bool {
        self.place != Place::Out
    }

    /// Whether a flush is under way.
    pub fn is_flushing(&self) -> bool {
        self.flushing
    }

    /// Whether flush number `n` is done.
    #[inline]
    pub fn flushed(&self, n: u64) -> bool {
        self.done >= n
    }

    /// Whether the flush is done that the procedure under way waits for.
    #[inline]
    pub fn is_covered(&self) -> bool {
        self.flushed(self.awaited)
    }

    /// Something was written: only a flush issued from now on covers it.
    #[inline]
    pub fn wrote(&mut self) {
        self.dirty = self.issued + 1;
    }

    /// Forgets what is under way and what was durable (R-RESET). Requests that are not back count on.
    pub fn forget(&mut self) {
        (self.writes, self.silent) = (false, false);
        (self.wanted, self.unlist) = (0, None);
        self.map_io = Update::Idle;
        self.sb_io = Update::Idle;
        self.loading = 0;
        (self.lost_to_write, self.lost_in_batch) = (false, false);
        self.map.clear();
    }

    /// The slot of its newest superblock.
    pub fn newest_slot(&self) -> usize {
        self.sb_slots.newest()
    }

    /// It has become longer: its records are where `layout` says, and `sb` in the first slot.
    pub fn move_records(&mut self, layout: &Layout, regions: u32, sb: Superblock) {
        self.map = LegMap::new(layout.pages, regions);
        self.sb = sb;
        self.sb_slots.written(0);
    }

    /// Whether nothing of its records is under way or waits.
    pub fn map_is_settled(&self) -> bool {
        self.map.is_settled() && self.map_io == Update::Idle && !self.lost_to_write
    }

    /// Whether the last superblock update is durable.
    pub fn sb_is_settled(&self) -> bool {
        self.sb_io == Update::Idle
    }

    /// Becomes a leg without records, which are written with `sb` as a start.
    pub fn begin_anew(&mut self, sb: Superblock) {
        self.sb = sb;
        self.sb_slots.written(1);
    }

    /// What the superblock slots say. A simulation that stores nothing reads blanks: what was written last counts then.
    pub fn found(&mut self, stored: bool) -> Found {
        if !stored && self.sb.seq > 0 {
            return Found::Valid(self.sb);
        }
        match self.sb_slots.content() {
            Content::Unread => Found::Unread,
            Content::Blank => Found::Blank,
            Content::Unknown => Found::Foreign,
            Content::Valid(slot, &sb) => {
                self.sb_slots.written(slot);
                self.sb = sb;
                Found::Valid(sb)
            }
        }
    }

    /// The lost list has changed.
    pub fn want_lost(&mut self) {
        self.lost_to_write = true;
    }

    /// Whether the list that was wanted last is durable.
    pub fn lost_is_durable(&self) -> bool {
        !self.lost_to_write && !self.lost_in_batch
    }

    /// Whether the lost list names extents, or may do so.
    pub fn names_lost(&self) -> bool {
        self.lost_unreadable || !self.lost_found.is_empty()
    }

    /// Whether a slot of the lost list could not be read: it may name more.
    pub fn hides_lost(&self) -> bool {
        self.lost_unreadable
    }
}

impl Mirror {
    /// Sends a request of the mirror's own to a leg.
    pub(super) fn send(&mut self, leg: usize, parent: ReqId, draft: Draft, cx: &mut Cx<'_>) {
        let (tag, ..) = Tag::of(draft.cookie);
        let id = match parent {
            ReqId::NONE => cx.own(TenantId::SYSTEM, draft),
            parent => cx.child(parent, draft),
        };
        self.roster.sends(leg, cx);
        self.dispatch(leg, tag, id, cx);
    }

    /// Asks for leg flush number `n`.
    pub(super) fn want_flush(&mut self, leg: usize, n: u64, cx: &mut Cx<'_>) {
        let l = &mut self.legs[leg];
        l.wanted = l.wanted.max(n);
        if !l.flushing && l.wanted > l.done {
            self.issue_flush(leg, cx);
        }
    }

    fn issue_flush(&mut self, leg: usize, cx: &mut Cx<'_>) {
        let l = &mut self.legs[leg];
        l.issued += 1;
        l.flushing = true;
        debug_assert!(
            l.wanted <= l.issued,
            "flush_snapshot_at_issue: a flush number from the future is wanted"
        );
        self.count.leg_flushes[leg] += 1;
        let draft = Draft {
            op: Op::Flush,
            flags: Flags::NONE,
            offset: ByteOffset::ZERO,
            len: ByteLen::ZERO,
            payload: Payload::NONE,
            cookie: Tag::Flush.cookie(leg, 0),
        };
        self.send(leg, ReqId::NONE, draft, cx);
    }

    /// A leg flush is back.
    pub(super) fn flush_done(&mut self, leg: usize, failed: bool, cx: &mut Cx<'_>) {
        self.flush_ends();
        let l = &mut self.legs[leg];
        l.flushing = false;
        if !l.is_in() {
            return;
        }
        if failed {
            // Retrying a flush proves nothing: what the cache held may be gone.
            self.leave(leg, cx);
            return;
        }
        l.done = l.issued;
        if l.wanted > l.done {
            self.issue_flush(leg, cx);
        }
    }

    /// What waits for flushes of legs may be ready.
    fn flush_ends(&mut self) {
        let waits =
            [Ready::Records, Ready::Heals, Ready::Exposure, Ready::Flushes, Ready::Clear, Ready::Copies];
        self.work.add_each(&waits);
    }

    /// Begins a flush of a leg whose cache holds nobody knows what; the procedure under way waits for it.
    pub(super) fn flush_anew(&mut self, leg: usize, cx: &mut Cx<'_>) {
        self.legs[leg].wrote();
        self.await_cover(leg, cx);
    }

    /// The procedure under way waits until everything complete so far is flushed on a leg.
    pub(super) fn await_cover(&mut self, leg: usize, cx: &mut Cx<'_>) {
        let n = self.legs[leg].dirty;
        self.legs[leg].awaited = n;
        self.want_flush(leg, n, cx);
    }

    /// Whether every leg that is used passes the test.
    pub(super) fn all_in(&self, test: impl Fn(&Leg) -> bool) -> bool {
        self.legs.iter().all(|l| !l.is_in() || test(l))
    }

    /// Whether every full member passes the test.
    pub(super) fn all_members(&self, test: impl Fn(&Leg) -> bool) -> bool {
        self.legs.iter().all(|l| l.place != Place::Member || test(l))
    }

    fn record(&mut self, leg: usize, op: Op, at: ByteOffset, payload: Payload, cookie: u64, cx: &mut Cx<'_>) {
        let draft = Draft { op, flags: Flags::NONE, offset: at, len: ByteLen(PAGE), payload, cookie };
        self.send(leg, ReqId::NONE, draft, cx);
        cx.pool.release(payload); // the request holds it
    }

    /// Moves the map of a leg on: a batch of writes, a flush, the next batch.
    pub(super) fn pump_map(&mut self, leg: usize, cx: &mut Cx<'_>) -> bool {
        let l = &mut self.legs[leg];
        if !l.is_in() {
            return false;
        }
        match l.map_io {
            Update::Writing(0) => {
                let n = l.dirty;
                l.map_io = Update::Flushing(n);
                self.want_flush(leg, n, cx);
                true
            }
            Update::Flushing(n) if l.flushed(n) => {
                l.map.finish();
                if std::mem::take(&mut l.lost_in_batch) && l.lost_unreadable {
                    l.lost_writes += 1;
                    l.lost_unreadable = l.lost_writes < 2;
                    l.lost_to_write |= l.lost_unreadable;
                }
                l.map_io = Update::Idle;
                self.work.add_each(&[Ready::Intents, Ready::Heals, Ready::Flushes]);
                true
            }
            Update::Idle if l.map.has_changes() || l.lost_to_write => {
                self.write_map(leg, cx);
                true
            }
            _ => false,
        }
    }

    fn write_map(&mut self, leg: usize, cx: &mut Cx<'_>) {
        let pages = self.legs[leg].map.begin(WINDOW);
        let tag = self.legs[leg].sb.set[0];
        let one_slot = self.planted.single_slot;
        let mut writes = pages as u32;
        if std::mem::take(&mut self.legs[leg].lost_to_write) {
            writes += 1;
            let payload = cx.pool.allocate_metadata(ByteLen(PAGE));
            let l = &mut self.legs[leg];
            let (seq, slot) = l.lost_newest.map_or((1, 0), |(seq, slot)| (seq + 1, 1 - slot));
            (l.lost_newest, l.lost_in_batch) = (Some((seq, slot)), true);
            encode_lost(seq, tag, self.lost.extents(), cx.pool.bytes_mut(payload, ByteLen(PAGE)));
            let at = self.layouts[leg].lost_slot(slot);
            self.record(leg, Op::Write, at, payload, Tag::MapWrite.cookie(leg, LOST), cx);
        }
        self.legs[leg].map_io = Update::Writing(writes);
        for i in 0..pages {
            let page = self.legs[leg].map.batch()[i];
            let payload = cx.pool.allocate_metadata(ByteLen(PAGE));
            let out = cx.pool.bytes_mut(payload, ByteLen(PAGE));
            let slot = self.legs[leg].map.encode(page, tag, one_slot, out);
            self.count.map_writes += 1;
            let at = self.layouts[leg].page(page, slot);
            self.record(leg, Op::Write, at, payload, Tag::MapWrite.cookie(leg, page), cx);
        }
    }

    /// Writes a leg's superblock with some changes; durable once [`Leg::sb_is_settled`].
    pub(super) fn write_sb(&mut self, leg: usize, change: impl FnOnce(&mut Superblock), cx: &mut Cx<'_>) {
        // What legs say that are out is what the others must know longest. Of two the leg that rejoins sees to that.
        let is_out = |l: &&Leg| l.place != Place::Member && l.sb.seq > 0;
        let mut kept = [Gen::NONE; MAX_LEGS];
        if self.legs.len() > 2 && self.legs[leg].place == Place::Member {
            kept.iter_mut()
                .zip(self.legs.iter().filter(is_out))
                .for_each(|(kept, l)| *kept = l.sb.generation);
        }
        let l = &mut self.legs[leg];
        assert!(l.sb_is_settled(), "slot_alternates_after_flush: two superblock updates at once");
        change(&mut l.sb);
        kept.into_iter().for_each(|generation| l.sb.keep(generation));
        l.sb.in_force = self.in_force;
        l.sb.served = self.limits.capacity.0;
        l.sb.seq += 1;
        let slot = if self.planted.single_slot { 0 } else { 1 - l.sb_slots.newest() as u8 };
        l.sb_slots.written(slot);
        l.sb_io = Update::Writing(1);
        let payload = cx.pool.allocate_metadata(ByteLen(PAGE));
        encode_superblock(&l.sb, cx.pool.bytes_mut(payload, ByteLen(PAGE)));
        let at = ByteOffset(self.layouts[leg].slots[usize::from(slot)]);
        self.count.superblock_writes += 1;
        self.record(leg, Op::Write, at, payload, Tag::SbWrite.cookie(leg, 0), cx);
    }

    /// Moves a superblock update on.
    pub(super) fn pump_sb(&mut self, leg: usize, cx: &mut Cx<'_>) -> bool {
        let l = &mut self.legs[leg];
        match l.sb_io {
            Update::Writing(0) if l.is_in() => {
                let n = l.dirty;
                l.sb_io = Update::Flushing(n);
                self.want_flush(leg, n, cx);
                true
            }
            Update::Flushing(n) if l.flushed(n) => {
                l.sb_io = Update::Idle;
                true
            }
            _ => false,
        }
    }

    /// A record was written or not. A leg that does not take its records is out.
    pub(super) fn record_written(&mut self, id: ReqId, leg: usize, sb: bool, index: u32, cx: &mut Cx<'_>) {
        self.work.add(Ready::Records);
        let l = &mut self.legs[leg];
        if !l.is_in() {
            return;
        }
        if let Some(error) = cx.requests[id].error {
            self.count.write_errors[leg] += 1;
            if error.kind == ErrorKind::Gone || l.record_retries == 0 {
                self.leave(leg, cx);
                return;
            }
            l.record_retries -= 1;
            let at = match (sb, index) {
                (true, _) => ByteOffset(self.layouts[leg].slots[l.sb_slots.newest()]),
                (false, LOST) => self.layouts[leg].lost_slot(l.lost_newest.map_or(0, |(_, slot)| slot)),
                (false, page) => self.layouts[leg].page(page, l.map.newest(page)),
            };
            cx.renew(id);
            cx.requests[id].offset = at;
            self.roster.sends(leg, cx);
            cx.send(leg as u8, id);
            return;
        }
        l.record_retries = self.write_retries;
        l.wrote();
        match if sb { &mut l.sb_io } else { &mut l.map_io } {
            Update::Writing(n) => *n -= 1,
            other => unreachable!("a record write came back while {other:?}"),
        }
    }
}
