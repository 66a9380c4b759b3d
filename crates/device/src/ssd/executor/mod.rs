//! The executor: whatever dies and channels do has its time here, and whatever waits for it.
//!
//! The drive says page by page what is to be done ([`Reading`], [`Programming`], [`Copying`], [`Erasing`]) and behind what ([`After`]). An
//! operation that nothing stands before takes its place on the timelines of its die and channel at once ([`Lanes`]), behind what they have.
//! Another one waits in the [`Queued`] list, and takes its place when what stands before it ends. The drive is told which it was
//! ([`Given`]), and goes on in the same way: it keeps no times of its own.
//!
//! What stands before an operation is found out here and nowhere else: the program of a page that is read, the page below in its block,
//! an erase that a power cut could still undo, the reads of a block that is erased, the map's entry that it needs. So does what an operation
//! does to the medium: its bytes are fetched or stored when it has its time, with the window in which a power cut would find it half done.
//! What it takes is charged to the tenant that caused it.
//!
//! Where pools keep their order (a log-block map) whatever changes one waits its turn, and so does what is read for that.
//!
//! *When an operation need not wait* for something that is over by the time when its die has done what it has: the die does not stand still for it
//! (`comes_in_time`).
//!
//! Files: `order` what an operation waits for, `pieces` the pages of one request, `run` those that nothing stands before, `records` what ends when trims are on record, `serve` operations that waited, `suspend` those that stand still for reads, `stripes`
//! units of several blocks, `fetched` the reads of translation pages, `modes` what is counted of SLC mode.
//!
//! Nothing here knows of maps, of tenants' rules or of which page is taken, so all of it is compiled once for all maps.

mod doors;
mod fetched;
mod modes;
mod order;
mod pieces;
mod records;
mod run;
mod serve;
mod stripes;
mod suspend;

pub(super) use fetched::Fetched;
pub(super) use modes::Modes;
pub(super) use pieces::{Pieces, Usage};
pub(super) use run::Run;
pub(super) use stripes::Stripes;

use crate::nand::lanes::{SLC_POSITION, Timing};
use crate::nand::queued::{After, Job, NONE, Order, Page, Queued};
use crate::nand::{Lanes, PageTime};
use nandu_base::{
    BuildContext, ByteLen, Cx, ErrorKind, Instant, Overlay, Program, ReqId, SECTOR, Span, Window, Work,
};
use nandu_ftl::Ppn;
use nandu_ftl::mapping::Tp;
use nandu_ftl::plan::flash::{Copying, Erasing, Programming, Reading};
use nandu_ftl::plan::pages::{PageShape, Pages, Part};
use pieces::{Slowest, Tally, order_of};

/// Faults that are planted here.
#[derive(Clone, Copy, Default)]
pub(super) struct Planted {
    pub erase_too_early: bool,
    pub fold_erased_early: bool,
    pub uncharged_gc: bool,
    pub path_without_queue: bool,
    pub suspended_is_told: bool,
    pub suspended_too_often: bool,
}

/// A page of which a part is replaced, as it was read.
#[derive(Clone, Copy)]
struct Premerge {
    time: PageTime,
    is_slc: bool,
}

/// What is known of an operation when it is given to the executor.
#[derive(Clone, Copy)]
pub(crate) enum Given {
    /// It has its time.
    Time(PageTime),
    /// It waits, under this number.
    Waits(u32),
    /// It has waited, and has its time since: the drive stands still.
    Settled,
}

impl Given {
    /// Of a page that was read: what a program behind it is explained by, if that is known.
    fn as_read(self, is_slc: bool) -> Option<Premerge> {
        match self {
            Given::Time(time) => Some(Premerge { time, is_slc }),
            Given::Waits(_) | Given::Settled => None,
        }
    }
}

/// See the module's page.
pub(crate) struct Executor {
    pub lanes: Lanes,
    /// Operations that wait.
    pub queue: Queued,
    pub stripes: Stripes,
    pub page: PageShape,
    /// Number of the last group of operations that may share array operations.
    serial: u32,
    /// When every program and erase issued so far is complete.
    pub last_change: Instant,
    /// When every trim record issued so far is complete.
    pub recorded_at: Instant,
    /// When every page of a checkpoint issued so far is complete.
    pub anchored_at: Instant,
    pub fetched: Fetched,
    /// What is counted of SLC mode, where there is one.
    pub modes: Option<Modes>,
    /// Slots of the write buffer whose pages have their time since the drive looked, and when those are complete.
    pub destaged: Vec<(u32, Instant)>,
    pub planted: Planted,
}

impl Executor {
    pub fn new(
        page: PageShape,
        lanes: Lanes,
        queue: Queued,
        stripes: Stripes,
        fetched: Fetched,
        has_slc: bool,
    ) -> Executor {
        Executor {
            lanes,
            queue,
            page,
            stripes,
            serial: 0,
            last_change: Instant::ZERO,
            recorded_at: Instant::ZERO,
            anchored_at: Instant::ZERO,
            fetched,
            modes: has_slc.then(Modes::default),
            destaged: Vec::new(),
            planted: Planted::default(),
        }
    }

    /// Takes the faults over that are planted in executors.
    pub fn plant(&mut self, cx: &BuildContext<'_>) {
        let early = cx.planted("ssd.erase-too-early");
        self.planted = Planted {
            erase_too_early: early,
            fold_erased_early: cx.planted("ssd.fold-erased-early"),
            uncharged_gc: cx.planted("ssd.uncharged-gc") || cx.planted("ssd.log-uncharged-merge"),
            path_without_queue: cx.planted("ssd.path-without-queue"),
            suspended_is_told: cx.planted("ssd.suspended-is-told"),
            suspended_too_often: cx.planted("ssd.suspended-too-often"),
        };
        self.queue.erase_too_early = early || cx.planted("ssd.log-erase-too-early");
        self.queue.lent_too_early = cx.planted("ssd.log-lent-too-early");
        self.queue.erase_before_record = cx.planted("ssd.erase-before-record");
        self.queue.prices_at_issue = cx.planted("ssd.prices-at-issue");
        self.queue.erase_before_reads = cx.planted("ssd.erase-before-reads");
        self.queue.forgets = cx.planted("ssd.die-forgets");
        self.queue.idles_free = cx.planted("ssd.idling-uncharged");
        self.queue.wakes_late = cx.planted("ssd.die-woken-late");
    }

    /// What is given from here on shares no array operation with what was given before.
    #[inline(always)]
    pub fn begin_group(&mut self) {
        self.serial = self.serial.wrapping_add(1);
    }

    /// The number of the group.
    #[inline(always)]
    pub fn group(&self) -> u32 {
        self.serial
    }

    /// The die of a page.
    #[inline]
    pub fn die_of(&self, ppn: Ppn) -> u32 {
        let units = &self.stripes.units;
        units.chips().plane(units.place(ppn)) >> self.stripes.plane_bits
    }

    /// The times of a mode.
    pub fn timing_in(&self, is_slc: bool) -> &Timing {
        match self.lanes.slc_timing() {
            Some(timing) if is_slc => timing,
            _ => self.lanes.timing(),
        }
    }

    /// The shortest program there is: of a wait that is not known better, what is longer was waiting.
    pub fn shortest_program(&self) -> Span {
        self.lanes.slc_timing().map_or(self.lanes.timing().program, |timing| timing.program)
    }

    /// Whether an operation on the die of `ppn` need not wait for this: it is over by now, or by the time when the die has done what
    /// it has, so that the die does not stand still for it.
    #[inline]
    fn comes_in_time(&self, after: After, ppn: Ppn, now: Instant) -> bool {
        after.node == NONE && (after.at <= now || after.at <= self.lanes.free_at(self.die_of(ppn)))
    }

    /// What an operation that was given stands for, for those that wait for it.
    #[inline(always)]
    pub fn behind(&self, given: Given, pieces: &Pieces) -> After {
        match given {
            Given::Time(time) => After::at(time.end),
            Given::Waits(node) => After::node(node, pieces.tally.now),
            Given::Settled => After::at(self.last_change),
        }
    }

    /// Reads a page.
    #[inline(never)]
    pub fn read(&mut self, reading: Reading, pieces: &mut Pieces, cx: &mut Cx<'_>) -> Given {
        let Reading { job, mut ppn, key, after, is_slc, overlay } = reading;
        let mut waits = self.queue.read_waits(self.stripes.units.place(ppn));
        if waits && job == Job::Read && self.queue.keeps_order() {
            let source = self.queue.source_of(ppn);
            waits = self.queue.has_lines() || source.after != NONE;
            ppn = if waits { ppn } else { source.ppn };
        }
        waits |= self.queue.keeps_order() && job == Job::PreRead;
        if !waits && self.comes_in_time(after, ppn, pieces.tally.now) {
            let (time, die) = self.sense_in(is_slc, ppn, after.at);
            self.count_mode(job, is_slc);
            pieces.tally.usage.die += die;
            pieces.tally.usage.bus += self.lanes.timing().transfer;
            match job {
                Job::Read => {
                    pieces.tally.note_as(Slowest {
                        map_at: after.at,
                        premerge: None,
                        time,
                        slc: [is_slc, false],
                    });
                    self.bring(pieces.request(), key, Some(self.stripes.unit(ppn)), overlay, cx);
                }
                Job::MapRead => self.fetched.came(Tp(key), time.end),
                Job::MoveRead => {
                    self.lanes.was_gc(self.stripes.plane_and_page(ppn).0, die);
                    self.folded(is_slc, die);
                }
                _ => {}
            }
            return Given::Time(time);
        }
        let mut answer = NONE;
        let mut overlay = overlay;
        if job == Job::Read {
            overlay = overlay.filter(|_| !cx.requests[pieces.request()].payload.is_none());
            overlay.iter().for_each(|overlay| cx.pool.keep(overlay.payload));
            answer = self.answer_of(pieces);
        }
        self.count_mode(job, is_slc);
        let map_at = match job {
            Job::MoveRead => pieces.tally.now,
            Job::MapRead => after.at,
            _ => pieces.after.at,
        };
        let order = Order { map_at, ..order_of(pieces, after, answer, self.serial_of(job)) };
        let page = Page { slc: is_slc, overlay, ..Page::read(self.stripes.units.place(ppn), key) };
        let node = self.queue.read(job, &order, page);
        if job == Job::MapRead {
            let tp = Tp(key);
            self.fetched.waits(tp, node);
            // Whatever else is given while the drive stands still is served at once, this read with it: nobody may keep its number.
            if self.settle(cx) {
                return Given::Time(PageTime::done(self.fetched.comes_at(tp)));
            }
        }
        Given::Waits(node)
    }

    /// In lines, pages that move share no operation.
    fn serial_of(&self, job: Job) -> u32 {
        let is_alone =
            self.queue.has_lines() && matches!(job, Job::MoveRead | Job::MoveProgram | Job::Gathered);
        if is_alone { 0 } else { self.serial }
    }

    /// Programs a page.
    #[inline(never)]
    pub fn program(&mut self, what: Programming<Given>, pieces: &mut Pieces, cx: &mut Cx<'_>) -> Given {
        let Programming { job, ppn, oob, base, overlay, is_slc, older, entry, read, is_map, .. } = what;
        let (map_at, premerge) = (entry.at, read.and_then(|(given, is_slc)| given.as_read(is_slc)));
        let units = &self.stripes.units;
        let (place, base) = (units.place(ppn), base.map(|base| units.place(base)));
        let after = After { at: self.stripes.may_begin(ppn, is_map, what.after.at), ..what.after };
        let waits = self.queue.keeps_order()
            || self.queue.program_waits(place)
            || base.is_some_and(|base| self.queue.read_waits(base))
            || job == Job::MapProgram && self.queue.any_erase_waits();
        self.count_mode(job, is_slc);
        if !waits && self.comes_in_time(after, ppn, pieces.tally.now) {
            let (time, die) = self.program_in(is_slc, ppn, after.at);
            pieces.tally.usage.die += die;
            pieces.tally.usage.bus += self.lanes.timing().transfer;
            self.last_change = self.last_change.later(time.end);
            match job {
                Job::Program => {
                    let slc = [is_slc, premerge.is_some_and(|read| read.is_slc)];
                    let premerge = premerge.map(|read| read.time);
                    pieces.tally.note_as(Slowest { map_at, premerge, time, slc });
                }
                Job::Record => self.recorded_at = self.recorded_at.later(time.end),
                Job::Anchor => self.anchored_at = self.anchored_at.later(time.end),
                Job::MoveProgram => {
                    self.lanes.was_gc(self.stripes.plane_and_page(ppn).0, die);
                    self.folded(premerge.is_some_and(|read| read.is_slc), die);
                }
                _ => {}
            }
            let window = Window { start: time.start, end: time.end };
            let base = base.map(|base| u64::from(base.0));
            self.put(&Program { unit: u64::from(place.0), base, overlay, oob, window }, cx);
            older.into_iter().for_each(|older| self.stripes.keep_until(older, time.end));
            self.let_own_go(job, overlay, cx);
            return Given::Time(time);
        }
        let is_asked_for = matches!(job, Job::Program | Job::Mark);
        let answer = if is_asked_for { self.answer_of(pieces) } else { NONE };
        let mut order = Order { map_at, ..order_of(pieces, after, answer, self.serial_of(job)) };
        if job == Job::Mark {
            order.work = Work::Journal;
        }
        let page = Page { key: oob.key, seq: oob.seq, base, overlay, slc: is_slc, ..Page::read(place, 0) };
        let older = older.map(|older| self.stripes.units.place(older));
        let node = self.queue.program(job, &order, page, NONE, older);
        match job {
            Job::Program => {
                if let Some(read) = premerge {
                    self.queue.was_read_before(node, read.time, read.is_slc);
                }
                return Given::Waits(node);
            }
            Job::Mark => return Given::Waits(node),
            // What it names must not be what a power cut may bring back.
            Job::MapProgram => self.queue.after_erases(node),
            // It is served with the erase behind it.
            Job::Anchor => return Given::Waits(node),
            _ => {}
        }
        if self.settle(cx) { Given::Settled } else { Given::Waits(node) }
    }

    /// The bytes of a page of the drive's own are needed no more.
    fn let_own_go(&self, job: Job, overlay: Option<Overlay>, cx: &mut Cx<'_>) {
        let is_own = matches!(job, Job::Record | Job::Mark | Job::MapProgram | Job::Anchor);
        if let Some(overlay) = overlay.filter(|_| is_own) {
            cx.pool.release(overlay.payload);
        }
    }

    /// Stores a page that is programmed.
    #[inline(always)]
    pub fn put(&self, program: &Program, cx: &mut Cx<'_>) {
        if let Some(medium) = cx.medium.as_deref_mut() {
            medium.program(cx.pool, program);
        }
    }

    /// Reads one page on its die, which nothing stands before; returns the time and how much longer the die is occupied.
    #[inline(always)]
    pub fn sense(&mut self, ppn: Ppn, at: Instant) -> (PageTime, Span) {
        let (plane, page) = self.stripes.plane_and_page(ppn);
        self.lanes.read(plane, at, self.serial, page)
    }

    /// The same in the mode of its block.
    fn sense_in(&mut self, is_slc: bool, ppn: Ppn, at: Instant) -> (PageTime, Span) {
        if !is_slc {
            return self.sense(ppn, at);
        }
        let (plane, page) = self.stripes.plane_and_page(ppn);
        self.lanes.switch_mode();
        let read = self.lanes.read(plane, at, self.serial, page + SLC_POSITION);
        self.lanes.switch_mode();
        read
    }

    /// Programs one page on its die, which nothing stands before, in the mode of its block.
    fn program_in(&mut self, is_slc: bool, ppn: Ppn, at: Instant) -> (PageTime, Span) {
        let (plane, page) = self.stripes.plane_and_page(ppn);
        if !is_slc {
            return self.lanes.program(plane, at, self.serial, page);
        }
        self.lanes.switch_mode();
        let done = self.lanes.program(plane, at, self.serial, page + SLC_POSITION);
        self.lanes.switch_mode();
        done
    }

    /// Puts the data of one page into a read's payload, if it has one, and what the write buffer has over it.
    pub fn bring(&self, id: ReqId, lpn: u32, at: Option<u64>, overlay: Option<Overlay>, cx: &mut Cx<'_>) {
        if cx.requests[id].payload.is_none() {
            return;
        }
        let request = &cx.requests[id];
        let pages = self.page.pages(request.offset, request.len);
        self.fetch(id, &pages, lpn, at, cx);
        overlay.iter().for_each(|overlay| self.lay_over(id, &pages, lpn, overlay, cx));
    }

    /// Puts the data of one page into a read's payload, from a page of the medium.
    pub fn fetch(&self, id: ReqId, pages: &Pages, lpn: u32, at: Option<u64>, cx: &mut Cx<'_>) {
        let Part { first, count } = self.page.sectors_of(self.page.part(pages, lpn));
        let before = self.page.before(pages, lpn);
        let data = cx.requests[id].payload.slice(before);
        let len = ByteLen(u64::from(count) * SECTOR);
        match (at, cx.medium.as_deref_mut()) {
            (Some(unit), Some(medium)) => {
                if !medium.read(cx.pool, unit, first, count, data) {
                    cx.requests[id].fail_part(ErrorKind::Unreadable, before, len);
                }
            }
            _ => cx.pool.zero(data, len),
        }
    }

    /// Puts a part of a page into a read's payload.
    fn lay_over(&self, id: ReqId, pages: &Pages, lpn: u32, overlay: &Overlay, cx: &mut Cx<'_>) {
        let wanted = self.page.sectors_of(self.page.part(pages, lpn));
        let data = cx.requests[id].payload.slice(self.page.before(pages, lpn));
        let to = data.slice(ByteLen(u64::from(overlay.first - wanted.first) * SECTOR));
        cx.pool.copy(overlay.payload, to, ByteLen(u64::from(overlay.count) * SECTOR));
    }
}
