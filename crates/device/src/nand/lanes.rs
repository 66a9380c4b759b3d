//! When flash operations run: a timeline for each die and each channel.
//!
//! A die does the operations that are given to it first come, first served, and an operation is given to it when nothing stands before it any
//! more: its begin and end are known from then on. Where no page waits, that is when a request comes, which then costs one event however
//! many pages it spans. What waits, and what a die chooses with the die scheduler `out-of-order`, is in `queued`.
//!
//! - *Read*: the die senses the page (tR), then the page crosses the channel; the die is occupied until it has.
//! - *Program*: the page crosses the channel into the die's register, then the die programs (tPROG).
//! - *Move* (garbage collection): sense, over the channel to the controller and back for error correction, program.
//!   With copyback the page stays inside the die.
//! - *Erase*: the die is occupied for tBERS.
//! - *Multi-plane rule* (S0-3): pages of one request in different planes of a die, at the same position in their blocks,
//!   share one array operation; their transfers take turns on the channel (S0-4: T(k) = tR + k tX).
//!
//! Channels are booked by gaps: see `channel`.
//!
//! Cost per page: some twenty instructions. RAM: 64 bytes per die, 1 KiB per channel at most.

mod idle;
mod modes;
mod times;

pub use modes::SLC_POSITION;
pub use times::{PageTime, Timing};

use super::channel::Channel;
use super::energy::{DieTime, FlashPower, Kind, Operations};
use nandu_base::{EnergyPart, Instant, LaneSpan, Report, Resource, Span, Timeline, Violation, Work};

/// The array operation that pages of one request may still join.
#[derive(Clone, Copy, Debug)]
struct Group {
    /// See [`Group::key`]; 0 for none.
    key: u64,
    planes: u32,
    start: Instant,
    /// Read: the registers are full. Program: the last transfer ends.
    ready: Instant,
}

/// One die: a line of the processor's cache.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Die {
    free_at: Instant,
    busy: Span,
    /// Garbage collection in the present busy period.
    gc: Span,
    channel: u32,
    group: Group,
}

/// Where a plane is: planes of a die have consecutive numbers.
#[derive(Clone, Copy, Debug)]
struct Site {
    die: u32,
    /// The plane's bit in [`Group::planes`].
    bit: u32,
}

/// The dies and channels of a drive.
#[derive(Clone, Debug)]
pub struct Lanes {
    planes: Vec<Site>,
    dies: Vec<Die>,
    channels: Vec<Channel>,
    timing: Timing,
    /// Where what they do is noted, while somebody watches.
    tape: Option<Timeline>,
    /// Whether dies idle while something waits, where that is watched.
    idle: Option<Box<idle::Idle>>,
    /// Whether either is watched.
    is_noted: bool,
    /// What they do it for.
    work: Work,
    /// The time of the drive: what channels did before may be forgotten. Operations may begin later than that.
    clock: Instant,
    /// What they did, for the account of energy.
    operations: Operations,
    /// The times of SLC mode and what was done in it; while an operation of that mode is issued, those of the chip's own.
    other: Option<Box<modes::Mode>>,
    /// An operation of SLC mode is issued.
    is_slc: bool,
    power: FlashPower,
    /// When each die was free of what it had when the counters were reset.
    counted_from: Vec<Instant>,
}

impl Lanes {
    /// `dies` dies of `planes` planes, die `i` on channel `i mod channels`.
    pub fn new(dies: u32, planes: u32, channels: u32, timing: Timing) -> Lanes {
        let group = Group { key: 0, planes: 0, start: Instant::ZERO, ready: Instant::ZERO };
        let die = |i: u32| Die {
            free_at: Instant::ZERO,
            busy: Span::ZERO,
            gc: Span::ZERO,
            channel: i % channels,
            group,
        };
        let site = |i: u32| Site { die: i / planes, bit: 1 << (i % planes) };
        Lanes {
            planes: (0..dies * planes).map(site).collect(),
            dies: (0..dies).map(die).collect(),
            channels: (0..channels).map(|_| Channel::new()).collect(),
            timing,
            tape: None,
            idle: None,
            is_noted: false,
            clock: Instant::ZERO,
            work: Work::Recovery,
            operations: Operations::default(),
            other: None,
            is_slc: false,
            power: FlashPower::default(),
            counted_from: vec![Instant::ZERO; dies as usize],
        }
    }

    /// The same, of chips that draw this.
    pub fn drawing(self, power: FlashPower) -> Lanes {
        Lanes { power, ..self }
    }

    /// Planted: the account of energy forgets moves.
    pub(crate) fn forget_moves(&mut self) {
        self.operations.forget_moves();
    }

    /// What they drew from `from`, when the counters were reset, to `to`.
    pub fn energy(&self, from: Instant, to: Instant, out: &mut Vec<EnergyPart>) {
        let span = |(die, &since): (&Die, &Instant)| {
            u128::from(die.free_at.later(to).0.saturating_sub(since.later(from).0))
        };
        let all = self.dies.iter().zip(&self.counted_from).map(span).sum();
        let dies = DieTime { all, busy: u128::from(self.dies_busy().0) };
        self.operations.account(&self.timing, self.slc(), &self.power, dies, out);
    }

    /// I-13: operations times their lengths are the busy times, and there are as many as the drive counts: pages programmed
    /// and blocks erased. `None` while operations that it counts have not begun.
    pub fn check(&self, counted: Option<(u64, u64)>) -> Result<(), Violation> {
        let times = self.operations.broken(&self.timing, self.slc(), self.dies_busy(), self.channels_busy());
        let differs =
            || counted.and_then(|(pages, erased)| self.operations.miscounted(self.slc(), pages, erased));
        match times.or_else(differs) {
            Some(what) => Err(Violation { invariant: "I-13", what }),
            None => Ok(()),
        }
    }

    /// Puts in busy times and what is watched, or begins anew.
    pub fn report(&mut self, report: &mut Report) {
        report.put_busy(Resource::Die, self.dies_busy(), self.dies());
        report.put_busy(Resource::Channel, self.channels_busy(), self.channels());
        report.lanes(&mut self.tape);
        self.is_noted |= self.tape.is_some();
        if report.begins_anew() {
            self.reset_busy();
        }
    }

    /// What the operations issued from here on are for, for those who watch; returns what they were for until now.
    #[inline(always)]
    pub fn work_for(&mut self, work: Work) -> Work {
        std::mem::replace(&mut self.work, work)
    }

    /// Notes an operation on a page, of which `bus` crossed the channel.
    #[cold]
    fn note_page(&mut self, what: &'static str, plane: u32, at: (Instant, Instant), bus: (Instant, Instant)) {
        let Site { die, bit } = self.planes[plane as usize];
        let channel = self.dies[die as usize].channel;
        let (work, what) = (self.work, self.named(what));
        let span = |resource, lane, part, what, (start, end): (Instant, Instant)| LaneSpan {
            resource,
            lane,
            part,
            what,
            work,
            start,
            end,
        };
        if let Some(tape) = &mut self.tape {
            tape.note(span(Resource::Die, die, Some(bit.trailing_zeros()), what, at));
            tape.note(span(Resource::Channel, channel, None, "transfer", bus));
        }
    }

    /// Notes an operation of a whole die.
    #[cold]
    fn note_die(&mut self, what: &'static str, die: u32, start: Instant, end: Instant) {
        let what = self.named(what);
        if let Some(tape) = &mut self.tape {
            let (resource, work) = (Resource::Die, self.work);
            tape.note(LaneSpan { resource, lane: die, part: None, what, work, start, end });
        }
    }

    /// It is `now`: no operation will begin before.
    #[inline(always)]
    pub fn tick(&mut self, now: Instant) {
        self.clock = now;
    }

    /// The operation times.
    pub fn timing(&self) -> &Timing {
        &self.timing
    }

    /// Pages that were moved in one operation each.
    pub fn moves(&self) -> u64 {
        self.operations.moves()
    }

    /// Reads and programs of pages that move which shared the array operation of another page.
    pub fn moves_joined(&self) -> [u64; 2] {
        [Kind::Read, Kind::Program].map(|kind| {
            let in_slc = self.slc().map_or(0, |(operations, _)| operations.joined(kind, Work::Gc));
            self.operations.joined(kind, Work::Gc) + in_slc
        })
    }

    /// When the die has finished what it has.
    #[inline]
    pub fn free_at(&self, die: u32) -> Instant {
        self.dies[die as usize].free_at
    }

    /// When everything is complete that dies have begun.
    pub fn complete_at(&self) -> Instant {
        self.dies.iter().map(|die| die.free_at).fold(Instant::ZERO, Instant::later)
    }

    /// How many dies there are.
    pub fn dies(&self) -> u32 {
        self.dies.len() as u32
    }

    /// How many channels there are.
    pub fn channels(&self) -> u32 {
        self.channels.len() as u32
    }

    /// Time that all dies were occupied.
    pub fn dies_busy(&self) -> Span {
        self.dies.iter().fold(Span::ZERO, |sum, d| sum + d.busy)
    }

    /// Time that all channels were occupied.
    pub fn channels_busy(&self) -> Span {
        self.channels.iter().fold(Span::ZERO, |sum, c| sum + c.busy)
    }

    /// Starts counting busy time anew.
    pub fn reset_busy(&mut self) {
        self.dies.iter_mut().for_each(|d| d.busy = Span::ZERO);
        self.channels.iter_mut().for_each(|c| c.busy = Span::ZERO);
        self.operations.reset();
        self.other.iter_mut().for_each(|mode| mode.operations.reset());
        self.counted_from.clear();
        self.counted_from.extend(self.dies.iter().map(|d| d.free_at));
    }

    /// The parts that an operation on `plane` needs.
    #[inline(always)]
    fn parts(&mut self, plane: u32) -> (&mut Die, u32, &mut [Channel], &Timing, Instant) {
        let Lanes { planes, dies, channels, timing, clock, .. } = self;
        let Site { die, bit } = planes[plane as usize];
        debug_assert!((die as usize) < dies.len());
        // SAFETY: `Lanes::new` makes as many dies as it numbers, and nothing changes either afterwards: both fields are
        // private to this module.
        (unsafe { dies.get_unchecked_mut(die as usize) }, bit, channels, timing, *clock)
    }

    /// Reads a page for a request that is at the die at `now`; `request` is a number of its own for each request,
    /// `page` the position in the block and `plane` the plane in the drive. Returns the times and how much longer the
    /// die is occupied.
    #[inline(always)]
    pub fn read(&mut self, plane: u32, now: Instant, request: u32, page: u32) -> (PageTime, Span) {
        self.operations.count(Kind::Read, self.work, 1);
        let (die, bit, channels, timing, clock) = self.parts(plane);
        let before = die.begin(now);
        let key = Group::key(READ, request, page);
        let group = &mut die.group;
        let joins = group.admits(key, bit);
        if !joins {
            let start = before.later(now);
            *group = Group { key, planes: 0, start, ready: start + timing.read };
        }
        group.planes |= bit;
        let (start, ready) = (group.start, group.ready);
        let bus = die.channel_of(channels).book(clock, ready, timing.transfer);
        let end = bus + timing.transfer;
        // A page that joins may find a gap on the channel before those it joins.
        let until = before.later(start);
        let occupied = Span(end.0.saturating_sub(until.0));
        die.free_at = end.later(before);
        die.busy += occupied;
        let time = PageTime { start, bus, end, gc: die.gc };
        if joins {
            self.operations.join(Kind::Read, self.work);
        }
        if self.is_noted {
            self.note_came(plane, now, before);
            self.note_page("read", plane, (start, end), (bus, end));
        }
        (time, occupied)
    }

    /// Programs a page; see [`Lanes::read`]. The data is at the controller at `now`.
    #[inline(always)]
    pub fn program(&mut self, plane: u32, now: Instant, request: u32, page: u32) -> (PageTime, Span) {
        self.operations.count(Kind::Program, self.work, 1);
        let (die, bit, channels, timing, clock) = self.parts(plane);
        let before = die.begin(now);
        let key = Group::key(PROGRAM, request, page);
        // Two words from either way: more of them would go through memory, which every page would pay for.
        let (bus, end, occupied);
        let joins = die.group.admits(key, bit) && die.group.ready.later(now) < before;
        if joins {
            (bus, end) = die.join_program(channels, timing, (clock, now), bit);
            occupied = Span(end.0.saturating_sub(before.0));
        } else {
            bus = die.channel_of(channels).book(clock, before.later(now), timing.transfer);
            let ready = bus + timing.transfer;
            end = ready + timing.program;
            occupied = end.since(bus);
            die.group = Group { key, planes: bit, start: bus, ready };
            die.free_at = end;
        }
        die.busy += occupied;
        let time = PageTime { start: bus, bus, end, gc: die.gc };
        if joins {
            self.operations.join(Kind::Program, self.work);
        }
        if self.is_noted {
            self.note_came(plane, now, before);
            self.note_program(plane, &time);
        }
        (time, occupied)
    }

    #[cold]
    fn note_came(&mut self, plane: u32, now: Instant, before: Instant) {
        self.note_idleness(self.planes[plane as usize].die, now, before);
    }

    #[cold]
    fn note_program(&mut self, plane: u32, time: &PageTime) {
        self.note_page("program", plane, (time.start, time.end), (time.bus, time.bus + self.timing.transfer));
    }

    /// Moves a page within the die behind everything it has to do. Returns the window of the program, the time the die
    /// is occupied and the time the channel is.
    #[inline(always)]
    pub fn move_page(&mut self, plane: u32, now: Instant) -> (Instant, Instant, Span, Span) {
        self.operations.count(Kind::Move, self.work, 1);
        let (die, _, channels, timing, clock) = self.parts(plane);
        let before = die.begin(now);
        let start = before.later(now);
        let sensed = start + timing.read;
        let (ready, bus) = if timing.copyback {
            (sensed, Span::ZERO)
        } else {
            let both_ways = timing.transfer * 2;
            (die.channel_of(channels).book(clock, sensed, both_ways) + both_ways, both_ways)
        };
        let end = ready + timing.program;
        die.occupy(start, end);
        if self.is_noted {
            self.note_came(plane, now, before);
            self.note_page("move", plane, (start, end), (Instant(ready.0 - bus.0), ready));
        }
        (ready, end, end.since(start), bus)
    }

    /// What a page of `plane` was issued for last was garbage collection, and occupies its die for `span`.
    pub fn was_gc(&mut self, plane: u32, span: Span) {
        self.parts(plane).0.gc += span;
    }

    /// Erases a block behind everything the die has to do, and not before `earliest`. Returns the window.
    pub fn erase(&mut self, die: u32, now: Instant, earliest: Instant) -> (Instant, Instant) {
        self.operations.count(Kind::Erase, self.work, 1);
        let time = self.timing.erase;
        let lane = &mut self.dies[die as usize];
        let before = lane.begin(now);
        let start = before.later(now).later(earliest);
        let end = start + time;
        lane.occupy(start, end);
        if self.is_noted {
            self.note_idleness(die, now.later(earliest), before);
            self.note_die("erase", die, start, end);
        }
        (start, end)
    }

    /// One more block of the die is erased in the operation that was begun last.
    pub fn erase_along(&mut self) {
        self.operations.count(Kind::Erase, self.work, 1);
        self.operations.join(Kind::Erase, self.work);
    }

    /// The die stops what it does, and can read after `time`.
    pub fn suspend(&mut self, die: u32, now: Instant, time: Span) {
        let lane = &mut self.dies[die as usize];
        lane.free_at = now + time;
        lane.busy += time;
        lane.group.key = 0;
        if let Some(tape) = &mut self.tape {
            tape.cut(Resource::Die, die, now);
        }
        if self.tape.is_some() {
            self.note_die("suspend", die, now, now + time);
        }
    }

    /// After `time`, the die goes on with what it stopped, of which `left` is left; returns the end.
    pub fn resume(&mut self, what: &'static str, die: u32, now: Instant, time: Span, left: Span) -> Instant {
        let lane = &mut self.dies[die as usize];
        let start = lane.free_at.later(now) + time;
        lane.free_at = start + left;
        lane.busy += time;
        lane.group.key = 0;
        if self.tape.is_some() {
            self.note_die("resume", die, Instant(start.0 - time.0), start);
            self.note_die(what, die, start, start + left);
        }
        start + left
    }

    /// No die begins anything before `at`, nor before everything is complete that was issued. Returns when that is.
    pub fn fence(&mut self, at: Instant) -> Instant {
        let end = self.complete_at().later(at);
        for die in &mut self.dies {
            die.free_at = end;
            // Nor does a page join what is complete then.
            die.group.key = 0;
        }
        end
    }

    /// Senses `pages` pages for their out-of-band records, which is what a scan after a power cut does. Returns the end
    /// and the time the die is occupied.
    pub fn scan(&mut self, die: u32, now: Instant, pages: u64) -> (Instant, Span) {
        self.operations.count(Kind::Scan, self.work, pages);
        let span = self.timing.read * pages;
        let lane = &mut self.dies[die as usize];
        let start = lane.begin(now).later(now);
        lane.occupy(start, start + span);
        if self.tape.is_some() {
            self.note_die("scan", die, start, start + span);
        }
        (start + span, span)
    }
}

impl Die {
    /// The channel that the die is on.
    #[inline(always)]
    fn channel_of<'a>(&self, channels: &'a mut [Channel]) -> &'a mut Channel {
        let channel = self.channel as usize;
        debug_assert!(channel < channels.len());
        // SAFETY: `Lanes::new` numbers the channel of each die modulo the number of channels, and nothing changes either
        // afterwards: both fields are private to this module.
        unsafe { channels.get_unchecked_mut(channel) }
    }

    /// When the die is free; a new busy period begins when it is idle.
    #[inline]
    fn begin(&mut self, now: Instant) -> Instant {
        if self.free_at <= now {
            self.gc = Span::ZERO;
        }
        self.free_at
    }

    /// Programs one more page together with those that the die is about to program; returns when it crosses the channel and
    /// when it is complete.
    #[inline(never)]
    fn join_program(
        &mut self,
        channels: &mut [Channel],
        timing: &Timing,
        (clock, now): (Instant, Instant),
        bit: u32,
    ) -> (Instant, Instant) {
        let ready = self.group.ready.later(now);
        let bus = self.channel_of(channels).book(clock, ready, timing.transfer);
        let group = &mut self.group;
        group.planes |= bit;
        group.ready = bus + timing.transfer;
        let end = group.ready + timing.program;
        self.free_at = end.later(self.free_at);
        (bus, end)
    }

    /// Takes the die for work of garbage collection.
    #[inline(always)]
    fn occupy(&mut self, start: Instant, end: Instant) {
        self.free_at = end;
        self.busy += end.since(start);
        self.gc += end.since(start);
        self.group.key = 0;
    }
}

const READ: u32 = 1;
const PROGRAM: u32 = 2;

impl Group {
    /// The request, the operation and the position in the block: what pages must share to share an array operation.
    #[inline(always)]
    fn key(array: u32, request: u32, page: u32) -> u64 {
        u64::from(request) << 32 | u64::from(page << 2 | array)
    }

    /// Whether a page may share this group's array operation.
    #[inline(always)]
    fn admits(&self, key: u64, plane_bit: u32) -> bool {
        self.key == key && self.planes & plane_bit == 0
    }
}

#[cfg(test)]
mod tests;
