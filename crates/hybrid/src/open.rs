//! Starts and ends.
//!
//! A start flushes volatile children first: after a process died their caches hold what a cut could still remove. Then it
//! reads the superblocks, and makes a new set where no member has one and that is allowed. Then it walks each unit of each
//! ring, header by header, and page by page from where a header is missing: one that was damaged later has others behind it.
//! What follows from the headers is decided in `recover`. At last all members hear twice of the opening
//! ([`crate::generation`]).
//!
//! A clean end tells each ring once more, with the groups that it holds: so the next start misses those that are damaged before the first that
//! it finds, as well.
//!
//! A page that cannot be read is tried again. On flash that stays so where a program or erase was cut off, and it holds
//! nothing. On a child that is written over no cut leaves such a page: it was damaged later. One of two superblocks can be done without, and after a
//! clean end each header that matters is missed by its number; after a crash the start is refused, and names the page.

use crate::config::CacheMode;
use crate::generation::{Claim, Generation, Stale, decide, salvage};
use crate::machine::{Hybrid, Phase, Tag, whole};
use crate::record::{Gaps, Header, Headless, Sealed, Standing, Super};
use crate::recover::{Accepted, accept};
use crate::region_map::RegionMap;
use nandu_base::{
    ByteLen, ByteOffset, Content, Cx, DeviceEvent, ErrorKind, Gone, Notice, Op, OpenError, OpenOptions,
    Payload, PayloadPool, ReqId, Rng,
};

/// Attempts at each request of a start.
const TRIES: u8 = 10;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Step {
    #[default]
    None,
    Flush(u8),
    /// Pages of the map of dirty regions are read.
    ReadMap(u32),
    /// They are written, and flushed.
    WriteMap(u32, Why),
    MapFlush(Why),
    /// The place of a member at which a superblock may stand.
    Super(u8, u32),
    /// The units for superblocks of a new member are erased.
    Clear(u8, u32),
    /// The page of a unit of a ring at which a header may stand.
    Scan(usize, u32, u32),
    /// A page behind one that holds no header where one may stand: what is damaged there is told from what was never written by what follows
    /// it. Whether the unit is the one behind the newest.
    Look(usize, u32, u32, bool),
    /// The unit that takes the next superblock of a member is erased.
    Erase(u8, Telling),
    /// A member hears of the opening.
    Tell(u8, Telling),
    /// That is made durable.
    TellFlush(u8, Telling),
}

/// Why the map of dirty regions is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Why {
    /// All of it, with a new set.
    Make,
    /// What is lost, because rings are given up.
    Lose,
    /// No region is dirty, because rings are taken.
    Join,
}

/// Most pages of the map in a request of a start.
const STRETCH: u32 = 64;

/// What all members are told, one after the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Telling {
    Opening,
    Open,
    /// A clean end, which only rings hear of.
    End,
}

/// What stands where a ring has its superblocks.
#[derive(Clone, Debug)]
pub(crate) enum Placed {
    Record(Box<Super>),
    Nothing,
    /// What is no record.
    Something,
}

/// The superblocks of a member.
#[derive(Clone, Copy, Default, Debug)]
struct Known {
    /// The newest, and where it stands.
    newest: Option<(Super, u32)>,
    /// There is one of the version before.
    is_before: bool,
    /// Of a member whose units are erased: which of the two cannot take another page.
    hurt: [bool; 2],
}

/// A start or an end under way.
#[derive(Debug, Default)]
pub(crate) struct Opening {
    /// The driver waits for the result.
    pub is_first: bool,
    /// Nothing more can be saved: the end comes when the last answer has.
    pub close_is_due: bool,
    how: OpenOptions,
    step: Step,
    tries: u8,
    pub page: Option<Payload>,
    /// Members that are there.
    there: Vec<bool>,
    supers: Vec<Known>,
    /// The opening that members are told of, and the one before.
    fresh: Generation,
    base: Generation,
    found: Vec<Vec<Header>>,
    /// Groups that are missing of each ring.
    gaps: Vec<Gaps>,
    /// Units of each ring that lack their first header.
    headless: Vec<Headless>,
    close_mark: u64,
    close_ticket: Option<u64>,
    /// The last commit of an end.
    is_sealing: bool,
    is_parked: bool,
    /// The rings hear of the end, or have.
    is_told_of_end: bool,
    /// The list of lost pages is damaged, at this byte.
    damaged_list: Option<u64>,
}

impl Opening {
    /// How it was started.
    pub fn how(&self) -> OpenOptions {
        self.how
    }

    /// The number of the opening.
    pub fn number(&self) -> u64 {
        self.fresh.number
    }

    /// Whether a start asks this member for something.
    pub fn asks(&self, child: u8) -> bool {
        self.there[usize::from(child)]
    }

    /// All rings are asked what they are, as if for the first time.
    pub fn begin_join(&mut self, rings: usize) {
        self.supers[..rings].fill(Known::default());
        self.there.fill(true);
        self.gaps.fill(Gaps::default());
        self.headless.fill(Headless::default());
    }

    /// Forgets a start that is under way.
    pub fn abandon(&mut self, pool: &mut PayloadPool) {
        if let Some(page) = self.page.take() {
            pool.release(page);
        }
        self.step = Step::None;
        self.found.clear();
    }
}

fn placed(known: &Known) -> Placed {
    match known.newest {
        Some((record, _)) => Placed::Record(Box::new(record)),
        None if known.hurt.contains(&true) => Placed::Something,
        None => Placed::Nothing,
    }
}

fn refused(why: String, remedy: &str) -> OpenError {
    OpenError::Refused { why, remedy: remedy.into() }
}

impl Hybrid {
    pub(crate) fn start_open(&mut self, how: OpenOptions, cx: &mut Cx<'_>) {
        self.begin_epoch();
        self.opening.abandon(cx.pool);
        self.forget_rings();
        if let Some(through) = &mut self.through {
            (through.joins, through.waits_to_join) = (false, false);
        }
        if let Some(regions) = &mut self.regions {
            regions.abandon();
        }
        self.opening.damaged_list = None;
        let is_out = |child: usize| self.through.as_ref().is_some_and(|t| t.out.get(child) == Some(&true));
        self.opening.there = (0..self.sizes.len()).map(|child| !self.gone[child] && !is_out(child)).collect();
        self.disk_stands = false;
        self.opening.how = how;
        self.opening.supers = vec![Known::default(); self.sizes.len()];
        self.opening.found = vec![Vec::new(); self.rings.len()];
        self.opening.gaps = vec![Gaps::default(); self.rings.len()];
        self.opening.headless = vec![Headless::default(); self.rings.len()];
        self.opening.page = Some(self.record_buffer(cx));
        self.go_to(Step::Flush(0), cx);
    }

    /// What records are read to and written from.
    pub(crate) fn record_buffer(&self, cx: &mut Cx<'_>) -> Payload {
        cx.pool.allocate_metadata(ByteLen(self.page * u64::from(self.stretch())))
    }

    /// Pages of the map in a request.
    fn stretch(&self) -> u32 {
        let Some(regions) = &self.regions else { return 1 };
        STRETCH.min(regions.layout.map_pages()).min((self.policy.disk_max / self.page).max(1) as u32)
    }

    /// The pages of the map of a step, from the first to one past the last.
    fn map_pages(&self, step: Step) -> (u32, u32) {
        let Some(regions) = &self.regions else { return (0, 0) };
        let (at, end) = match step {
            Step::ReadMap(at) | Step::WriteMap(at, Why::Make | Why::Lose) => (at, regions.layout.map_pages()),
            Step::WriteMap(at, Why::Join) => (at, regions.layout.dirty),
            _ => (0, 0),
        };
        (at, end.min(at.saturating_add(self.stretch())))
    }

    /// Asks the rings what they are.
    pub(crate) fn read_supers(&mut self, cx: &mut Cx<'_>) {
        self.go_to(Step::Super(0, 0), cx);
    }

    fn go_to(&mut self, step: Step, cx: &mut Cx<'_>) {
        self.opening.tries = 0;
        self.opening.step = self.skip(step);
        match self.opening.step {
            Step::None => self.all_told(cx),
            Step::Scan(r, _, _) if r == self.rings.len() => self.finish_scan(cx),
            Step::Tell(child, telling) => self.write_super(child, telling, cx),
            Step::WriteMap(..) => self.write_map(cx),
            Step::ReadMap(at) if self.map_pages(Step::ReadMap(at)).1 <= at => match self.decide(cx) {
                Ok(step) => self.go_to(step, cx),
                Err(error) => self.open_failed(error, cx),
            },
            _ => self.ask(cx),
        }
    }

    /// Steps that need no request lead to the next one.
    fn skip(&self, step: Step) -> Step {
        let members = self.sizes.len() as u8;
        match step {
            Step::Scan(r, _, _) if r == self.rings.len() => step,
            Step::Flush(k) if k == members => self.skip(Step::Super(0, 0)),
            Step::Flush(k) if !self.is_volatile(k) || !self.opening.asks(k) => self.skip(Step::Flush(k + 1)),
            Step::Super(k, _) if !self.opening.asks(k) => self.skip(Step::Super(k + 1, 0)),
            Step::WriteMap(at, why) if self.map_pages(step).1 <= at => self.skip(Step::MapFlush(why)),
            Step::MapFlush(why) if !self.policy.disk_volatile => self.skip(self.behind_map(why)),
            Step::Clear(k, _) if k == members => self.skip(Step::Scan(0, 0, 0)),
            Step::Clear(k, unit) if unit == 2 || !self.resets(k) => self.skip(Step::Clear(k + 1, 0)),
            Step::Erase(k, Telling::Opening) if k == members => match &self.regions {
                Some(regions) if regions.standing == Standing::Leaving => {
                    self.skip(Step::WriteMap(regions.layout.dirty, Why::Lose))
                }
                _ => self.skip(Step::Erase(0, Telling::Open)),
            },
            Step::Erase(k, Telling::Open) if k == members => Step::None,
            Step::Erase(k, Telling::End) if k == self.disk || !self.has_rings() => Step::None,
            Step::Erase(k, Telling::Open) if k == self.disk && self.joins() && self.is_through() => {
                Step::None
            }
            Step::Erase(k, telling) if k < self.disk && !self.has_rings() && !self.joins() => {
                self.skip(Step::Erase(k + 1, telling))
            }
            Step::Erase(k, telling) if !self.next_super(k).1 => Step::Tell(k, telling),
            Step::TellFlush(k, telling) if !self.is_volatile(k) => self.skip(Step::Erase(k + 1, telling)),
            Step::Scan(r, unit, _) if unit == self.rings[r].shape.units => self.skip(self.behind_newest(r)),
            Step::Look(r, unit, page, is_last) if page >= self.rings[r].shape.unit_pages => {
                self.skip(if is_last { Step::Scan(r + 1, 0, 0) } else { Step::Scan(r, unit + 1, 0) })
            }
            Step::Scan(r, unit, page) if page >= self.rings[r].shape.unit_pages => {
                self.skip(Step::Scan(r, unit + 1, 0))
            }
            other => other,
        }
    }

    /// The step behind a map that is written, durably.
    fn behind_map(&self, why: Why) -> Step {
        match why {
            Why::Make => Step::Clear(0, 0),
            Why::Lose | Why::Join => Step::Erase(0, Telling::Open),
        }
    }

    fn is_volatile(&self, child: u8) -> bool {
        let ring = self.rings.get(usize::from(child));
        ring.map_or(self.policy.disk_volatile, |ring| ring.shape.volatile)
    }

    /// Whether pages of a member are erased before they are programmed again.
    fn resets(&self, child: u8) -> bool {
        self.rings.get(usize::from(child)).is_some_and(|ring| ring.shape.resets)
    }

    /// Pages of a unit of a member that are for superblocks, and all of them.
    fn super_places(&self, child: u8) -> (u32, u32) {
        match self.rings.get(usize::from(child)) {
            Some(ring) if ring.shape.resets => (ring.shape.unit_pages, 2 * ring.shape.unit_pages),
            _ => (1, 2),
        }
    }

    /// Where a superblock of a member lies.
    fn super_at(&self, child: u8, place: u32) -> ByteOffset {
        let on_disk = self.sizes[usize::from(self.disk)] / self.page * self.page - 2 * self.page;
        let start = if child == self.disk { on_disk } else { 0 };
        ByteOffset(start + u64::from(place) * self.page)
    }

    /// The place of the next superblock of a member, and whether its unit must be erased first. The newest one stays.
    fn next_super(&self, child: u8) -> (u32, bool) {
        let known = &self.opening.supers[usize::from(child)];
        let (pages, _) = self.super_places(child);
        let Some((_, at)) = known.newest else {
            let is_hurt = self.resets(child) && known.hurt[0];
            return (0, is_hurt);
        };
        let unit = at / pages;
        if self.resets(child) && (at + 1) % pages != 0 && !known.hurt[unit as usize] {
            return (at + 1, false);
        }
        ((1 - unit) * pages, self.resets(child))
    }

    /// Sends the request of the current step.
    fn ask(&mut self, cx: &mut Cx<'_>) {
        let Some(page) = self.opening.page else { return };
        let (child, op, offset, len) = match self.opening.step {
            Step::Flush(k) | Step::TellFlush(k, _) => (k, Op::Flush, ByteOffset::ZERO, 0),
            Step::MapFlush(_) => (self.disk, Op::Flush, ByteOffset::ZERO, 0),
            step @ (Step::ReadMap(_) | Step::WriteMap(..)) => {
                let (from, to) = self.map_pages(step);
                let op = if matches!(step, Step::ReadMap(_)) { Op::Read } else { Op::Write };
                let start = self.regions.as_ref().map_or(0, |regions| regions.layout.at());
                let at = ByteOffset(start + u64::from(from) * self.page);
                (self.disk, op, at, u64::from(to - from) * self.page)
            }
            Step::Super(k, place) => (k, Op::Read, self.super_at(k, place), self.page),
            Step::Clear(k, unit) => {
                let bytes = self.rings[usize::from(k)].shape.unit_bytes();
                (k, Op::Reset, ByteOffset(u64::from(unit) * bytes), bytes)
            }
            Step::Erase(k, _) => {
                let bytes = self.rings[usize::from(k)].shape.unit_bytes();
                (k, Op::Reset, self.super_at(k, self.next_super(k).0), bytes)
            }
            Step::Tell(k, _) => (k, Op::Write, self.super_at(k, self.next_super(k).0), self.page),
            Step::Scan(r, unit, at) | Step::Look(r, unit, at, _) => {
                let shape = &self.rings[r].shape;
                (shape.child, Op::Read, shape.offset(unit, at), self.page)
            }
            Step::None => return,
        };
        let payload = if len > 0 && op != Op::Reset { page } else { Payload::NONE };
        self.send_own(child, op, offset, len, payload, Tag::Record, 0, cx);
    }

    fn write_super(&mut self, child: u8, telling: Telling, cx: &mut Cx<'_>) {
        let record = self.told(child, telling);
        if let Some(page) = self.opening.page {
            let bytes = cx.pool.bytes_mut(page, ByteLen(self.page));
            bytes.fill(0);
            record.encode(bytes);
        }
        self.ask(cx);
    }

    /// Writes a stretch of the map.
    fn write_map(&mut self, cx: &mut Cx<'_>) {
        let (from, to) = self.map_pages(self.opening.step);
        let (Some(page), Some(regions)) = (self.opening.page, &self.regions) else { return };
        let bytes = cx.pool.bytes_mut(page, ByteLen(u64::from(to - from) * self.page));
        for (at, out) in (from..to).zip(bytes.chunks_exact_mut(self.page as usize)) {
            regions.layout.encode(at, &regions.stored, out);
        }
        self.ask(cx);
    }

    /// The superblock with which a member is told.
    fn told(&self, child: u8, telling: Telling) -> Super {
        let seq = self.opening.supers[usize::from(child)].newest.map_or(1, |(newest, _)| newest.seq + 1);
        let is_open = telling != Telling::Opening;
        let base = if is_open { Generation::NONE } else { self.opening.base };
        let gaps = self.opening.gaps.get(usize::from(child)).copied().unwrap_or_default();
        let headless = self.opening.headless.get(usize::from(child)).copied().unwrap_or_default();
        let claim = Claim { generation: self.opening.fresh, base, is_open };
        let sealed = match telling {
            Telling::End => self.rings[usize::from(child)].sealed(),
            Telling::Opening | Telling::Open => Sealed::default(),
        };
        let known = self.super_of(child);
        let rings = match known.rings {
            // What is lost is on record by now.
            Standing::Leaving if is_open => Standing::GivenUp,
            rings => rings,
        };
        Super { seq, claim, gaps, sealed, headless, rings, ..known }
    }

    pub(crate) fn super_of(&self, child: u8) -> Super {
        Super {
            set: self.set,
            member: u32::from(child),
            members: self.sizes.len() as u32,
            page: self.page,
            unit: match self.rings.get(usize::from(child)) {
                Some(ring) => ring.shape.unit_bytes(),
                None => self.region_bytes(),
            },
            rings: if child == self.disk { self.standing() } else { Standing::Needed },
            size: self.sizes[usize::from(child)],
            through: match &self.through {
                Some(_) | None if !self.is_through() => 0,
                None => 0,
                Some(through) => through.names.get(usize::from(child)).copied().unwrap_or(1),
            },
            ..Super::default()
        }
    }

    /// A request of a start is answered.
    pub(crate) fn record_done(&mut self, id: ReqId, cx: &mut Cx<'_>) {
        let error = cx.requests[id].error.map(|e| e.kind);
        let is_torn = match (self.opening.step, error) {
            (_, None) => false,
            // An end that cannot be told: the next start takes what it finds.
            (_, Some(kind))
                if self.phase == Phase::Closing
                    && (kind == ErrorKind::Gone || self.opening.tries == TRIES) =>
            {
                return self.opening.abandon(cx.pool);
            }
            (_, Some(ErrorKind::Gone)) => {
                let child = cx.requests[id].child;
                if self.is_spare(child) {
                    return self.ring_is_silent(child, cx);
                }
                if self.joins() && self.phase == Phase::Running {
                    return self.fail(ErrorKind::Gone, cx);
                }
                return self.open_failed(OpenError::Child(child), cx);
            }
            (Step::Tell(k, telling), Some(_)) if self.opening.tries < TRIES && self.resets(k) => {
                // A page that was not programmed takes nothing before its unit is erased.
                let unit = self.next_super(k).0 / self.super_places(k).0;
                self.opening.supers[usize::from(k)].hurt[unit as usize] = true;
                let tries = self.opening.tries + 1;
                self.go_to(Step::Erase(k, telling), cx);
                self.opening.tries = tries;
                return;
            }
            _ if self.opening.tries < TRIES => {
                self.opening.tries += 1;
                return self.ask(cx);
            }
            (Step::Scan(r, unit, at), Some(kind)) => {
                if let Err(error) = self.header_unread(r, unit, at, kind, cx) {
                    return self.not_scanned(error, cx);
                }
                true
            }
            // Most likely a page of data.
            (Step::Look(..), Some(_)) => true,
            (Step::Super(..), Some(_)) => true,
            (Step::ReadMap(_), Some(_)) => true,
            (_, Some(_)) if self.is_spare(cx.requests[id].child) => {
                return self.ring_is_silent(cx.requests[id].child, cx);
            }
            (_, Some(kind)) if self.joins() && self.phase == Phase::Running => {
                return self.fail(kind, cx);
            }
            (_, Some(kind)) => return self.open_failed(OpenError::Records(whole(kind)), cx),
        };
        let page = self.opening.page.expect("a start has its page");
        if let Step::ReadMap(at) = self.opening.step {
            return self.map_read(at, page, is_torn, cx);
        }
        let bytes = cx.pool.bytes(page, ByteLen(self.page));
        match self.opening.step {
            Step::ReadMap(_) => {}
            step @ Step::WriteMap(_, why) => {
                let next = self.map_pages(step).1;
                self.go_to(Step::WriteMap(next, why), cx);
            }
            Step::MapFlush(why) => self.go_to(self.behind_map(why), cx),
            Step::Flush(k) => self.go_to(Step::Flush(k + 1), cx),
            Step::Super(k, place) => {
                let found = if is_torn { None } else { Super::decode(bytes) };
                let is_blank = !is_torn && bytes.iter().all(|&byte| byte == 0);
                let is_before = !is_torn && Super::is_before(bytes);
                if let Some(next) = self.super_read(k, place, found, is_blank, is_before) {
                    return self.go_to(Step::Super(k, next), cx);
                }
                if self.joins() && k + 1 == self.disk {
                    let found: Vec<Placed> =
                        self.opening.supers[..self.rings.len()].iter().map(placed).collect();
                    if self.decide_join(&found, cx) {
                        self.begin_telling_of_join(cx);
                    }
                    return;
                }
                if usize::from(k) + 1 < self.sizes.len() {
                    return self.go_to(Step::Super(k + 1, 0), cx);
                }
                self.go_to(Step::ReadMap(0), cx);
            }
            Step::Clear(k, unit) => self.go_to(Step::Clear(k, unit + 1), cx),
            Step::Erase(k, telling) => {
                let unit = self.next_super(k).0 / self.super_places(k).0;
                self.opening.supers[usize::from(k)].hurt[unit as usize] = false;
                self.opening.step = Step::Tell(k, telling);
                self.write_super(k, telling, cx);
            }
            Step::Tell(k, telling) => {
                let (place, told) = (self.next_super(k).0, self.told(k, telling));
                self.opening.supers[usize::from(k)].newest = Some((told, place));
                self.go_to(Step::TellFlush(k, telling), cx);
            }
            Step::TellFlush(k, telling) => self.go_to(Step::Erase(k + 1, telling), cx),
            step @ (Step::Scan(r, unit, at) | Step::Look(r, unit, at, _)) => {
                let read = if is_torn { None } else { Header::read(bytes) };
                // Where pages are programmed in order nothing stands behind one that is erased.
                let is_end = !is_torn && self.resets(r as u8) && bytes.iter().all(|&byte| byte == 0);
                let header = read.map(|(header, is_mended)| {
                    self.count.headers_mended += u64::from(is_mended);
                    header
                });
                let next = match (self.keep(r, unit, at, header), step) {
                    (Some(pages), Step::Look(.., is_last)) => Step::Look(r, unit, at + 1 + pages, is_last),
                    (Some(pages), _) => Step::Scan(r, unit, at + 1 + pages),
                    (None, Step::Look(.., is_last)) if !is_end => Step::Look(r, unit, at + 1, is_last),
                    (None, Step::Look(.., true)) => Step::Scan(r + 1, 0, 0),
                    (None, Step::Scan(..)) if (at > 0 || self.is_headless(r)) && !is_end => {
                        Step::Look(r, unit, at + 1, false)
                    }
                    (None, _) => Step::Scan(r, unit + 1, 0),
                };
                self.go_to(next, cx);
            }
            Step::None => {}
        }
    }

    /// A page where a header may stand cannot be read. On a ring that is written over a cut leaves no such page.
    fn header_unread(
        &mut self,
        r: usize,
        unit: u32,
        at: u32,
        kind: ErrorKind,
        cx: &mut Cx<'_>,
    ) -> Result<(), OpenError> {
        let shape = &self.rings[r].shape;
        if shape.resets || self.known(r).sealed != Sealed::default() {
            return Ok(());
        }
        let byte = shape.offset(unit, at).0;
        if self.opening.how.salvage {
            cx.event(DeviceEvent::Notice(Notice::Gone(r as u8, Gone::Page(byte))));
            return Ok(());
        }
        let why = format!("ring {r} cannot be read at byte {byte} ({kind}): a header may stand there");
        Err(refused(
            why,
            "nothing was changed; if the ring is damaged there, start with salvage to go on without that page",
        ))
    }

    /// Pages of the map are read, or cannot be.
    fn map_read(&mut self, at: u32, page: Payload, is_torn: bool, cx: &mut Cx<'_>) {
        let (from, to) = self.map_pages(Step::ReadMap(at));
        let Some(regions) = &mut self.regions else { return };
        let layout = regions.layout;
        let bytes = cx.pool.bytes(page, ByteLen(u64::from(to - from) * self.page));
        for (at, bytes) in (from..to).zip(bytes.chunks_exact(self.page as usize)) {
            let is_damaged = layout.decode(at, &mut regions.stored, (!is_torn).then_some(bytes));
            if is_damaged && at >= layout.dirty {
                let byte = layout.at() + u64::from(at) * self.page;
                self.opening.damaged_list = self.opening.damaged_list.or(Some(byte));
            }
        }
        regions.lost = regions.stored.lost.clone();
        self.go_to(Step::ReadMap(to), cx);
    }

    /// Rings will be taken: no region is dirty then, and they hear of this session.
    fn begin_telling_of_join(&mut self, cx: &mut Cx<'_>) {
        let next = match &mut self.regions {
            Some(regions) => {
                regions.stored.dirty.clear();
                Step::WriteMap(0, Why::Join)
            }
            None => Step::Erase(0, Telling::Open),
        };
        self.go_to(next, cx);
    }

    /// Bytes of a region of the map; 0 where there is none.
    fn region_bytes(&self) -> u64 {
        self.regions.as_ref().map_or(0, |r| r.layout.page * u64::from(r.layout.region_pages))
    }

    /// A list of lost pages that cannot be read is a reason to refuse, or is done without.
    fn check_list(&mut self, cx: &mut Cx<'_>) -> Result<(), OpenError> {
        let Some(byte) = self.opening.damaged_list else { return Ok(()) };
        if !self.opening.how.salvage {
            return Err(refused(
                format!("the disk's list of lost pages cannot be read at byte {byte}"),
                "nothing was changed; if the disk is damaged there, start with salvage: what was lost before may read as something older then",
            ));
        }
        if let Some(regions) = &mut self.regions {
            regions.lost.clear();
            regions.stored.lost.clear();
        }
        cx.event(DeviceEvent::Notice(Notice::Gone(self.disk, Gone::List)));
        Ok(())
    }

    /// Notes what stands at a place for superblocks; returns the next place that is to be read.
    fn super_read(
        &mut self,
        child: u8,
        place: u32,
        found: Option<Super>,
        is_blank: bool,
        is_before: bool,
    ) -> Option<u32> {
        let (pages, all) = self.super_places(child);
        let known = &mut self.opening.supers[usize::from(child)];
        known.is_before |= is_before;
        if let Some(found) = found
            && known.newest.is_none_or(|(newest, _)| newest.seq < found.seq)
        {
            known.newest = Some((found, place));
        }
        known.hurt[(place / pages) as usize] |= found.is_none() && !is_blank;
        // Pages of an erase unit are programmed in order.
        let next = if is_blank { (place / pages + 1) * pages } else { place + 1 };
        (next < all).then_some(next)
    }

    /// What a member is called.
    fn member(&self, child: usize) -> String {
        match child {
            _ if child == usize::from(self.disk) => "the disk".into(),
            _ => format!("ring {child}"),
        }
    }

    /// What the superblocks say.
    fn decide(&mut self, cx: &mut Cx<'_>) -> Result<Step, OpenError> {
        let is_before = |known: &Known| known.is_before && known.newest.is_none();
        if let Some(at) =
            (0..self.sizes.len()).find(|&at| is_before(&self.opening.supers[at]) && !self.is_spare(at as u8))
        {
            let why = format!("{} is of the format of version 0.1", self.member(at));
            return Err(refused(why, "serve it with that version, and copy its data to a new hybrid disk"));
        }
        let found: Vec<Option<Super>> =
            self.opening.supers.iter().map(|known| known.newest.map(|(found, _)| found)).collect();
        let mut rng = Rng::new(self.seed).fork(cx.now.0);
        let fresh_set = rng.bits().max(1);
        let tag = rng.bits();
        if self.is_through() {
            return self.decide_through(&found, fresh_set, tag, cx);
        }
        if let Some(at) = found.iter().position(|found| found.as_ref().is_some_and(|f| f.through != 0)) {
            let why = format!("{} was made with `cache_mode = \"writethrough\"`", self.member(at));
            return Err(refused(
                why,
                "say so in the stack file; the other mode needs a new hybrid disk, to which the data is copied",
            ));
        }
        let is_known = found[usize::from(self.disk)].is_some_and(|disk| disk.unit == self.region_bytes());
        if self.may_lose_rings() && is_known {
            self.check_list(cx)?;
        }
        if self.decide_without(&found, cx)? {
            return self.open_without(&found, fresh_set, tag);
        }
        if let Some(through) = &mut self.through {
            through.is_used = true;
        }
        // The making of a set that was cut off: nothing was served.
        let was_made = found.iter().flatten().any(|f| f.claim.is_open || f.claim.base != Generation::NONE);
        let Some(first) = found.iter().flatten().next().filter(|_| was_made || !found.contains(&None)) else {
            if !self.opening.how.create {
                return Err(refused(
                    "no member holds a hybrid disk".into(),
                    "start with --create to make one of these members",
                ));
            }
            self.set = fresh_set;
            (self.opening.fresh, self.opening.base) = (Generation { number: 1, tag }, Generation::NONE);
            self.opening.supers.fill(Known::default());
            let Some(regions) = &mut self.regions else { return Ok(Step::Clear(0, 0)) };
            regions.stored = RegionMap::new(&regions.layout);
            regions.lost.clear();
            return Ok(Step::WriteMap(0, Why::Make));
        };
        self.set = found[usize::from(self.disk)].as_ref().unwrap_or(first).set;
        let (mut claims, mut members) = (Vec::new(), Vec::new());
        for (child, found) in found.iter().enumerate() {
            let Some(have) = found else {
                if self.opening.how.salvage {
                    cx.event(DeviceEvent::Notice(Notice::Gone(child as u8, Gone::Member)));
                    continue;
                }
                let places = self.super_places(child as u8);
                return Err(refused(
                    format!(
                        "{} holds no hybrid disk, but another member does: its records would be at bytes {} and {}",
                        self.member(child),
                        self.super_at(child as u8, 0).0,
                        self.super_at(child as u8, places.0).0
                    ),
                    "its data may be needed: put the right member there; or start with salvage to take it for the member, as it is",
                ));
            };
            let want = self.super_of(child as u8);
            if have.set != want.set {
                let why = format!("{} belongs to another hybrid disk than the others", self.member(child));
                return Err(refused(why, "put the right member there"));
            }
            if !have.is_shaped(&want) {
                return Err(self.other_shape(child, have, &want));
            }
            claims.push(have.claim);
            members.push(child);
        }
        let salvaged = |stale| self.opening.how.salvage.then(|| salvage(&claims)).ok_or(stale);
        let (decided, old) = decide(&claims).map(|decided| (decided, Vec::new())).or_else(salvaged).map_err(|stale| {
            let times = if stale.behind == 1 { "opening" } else { "openings" };
            refused(
                format!(
                    "{} is an older copy: it has missed {} {times}",
                    self.member(members[stale.member]),
                    stale.behind
                ),
                "nothing was changed; put the newest copy of each member there; or start with salvage to take it as it is",
            )
        })?;
        for Stale { member, behind } in old {
            cx.event(DeviceEvent::Notice(Notice::Gone(members[member] as u8, Gone::Openings(behind))));
        }
        let number = claims.iter().map(|claim| claim.generation.number).max().unwrap_or(0) + 1;
        (self.opening.fresh, self.opening.base) = (Generation { number, tag }, decided);
        Ok(Step::Scan(0, 0, 0))
    }

    /// Where the disk goes on without its rings: it alone is told of the opening.
    fn open_without(&mut self, found: &[Option<Super>], fresh_set: u64, tag: u64) -> Result<Step, OpenError> {
        let disk = usize::from(self.disk);
        let Some(have) = &found[disk] else { return Err(OpenError::Child(self.disk)) };
        self.set = have.set;
        let want = self.super_of(self.disk);
        if !have.is_shaped(&want) {
            return Err(self.other_shape(disk, have, &want));
        }
        if have.rings == Standing::Needed {
            // From here on a ring of the old set is of another one.
            self.set = fresh_set;
        }
        let Claim { generation, base, is_open } = have.claim;
        let newest = found.iter().flatten().map(|have| have.claim.generation.number).max().unwrap_or(0);
        self.opening.fresh = Generation { number: newest.max(generation.number) + 1, tag };
        self.opening.base = if is_open { generation } else { base };
        Ok(Step::Erase(0, Telling::Opening))
    }

    fn other_shape(&self, child: usize, have: &Super, want: &Super) -> OpenError {
        if child == usize::from(self.disk) && have.unit != want.unit {
            let was = match have.unit {
                0 => "without a map of dirty regions".into(),
                unit => format!("with `dirty_region_size = {unit}`"),
            };
            let remedy = match have.unit {
                0 => "leave `dirty_region_size` out of the stack file; for a map, make a new hybrid disk and copy the data".into(),
                unit => format!("say `dirty_region_size = {unit}` in the stack file"),
            };
            return refused(format!("the disk was made {was}"), &remedy);
        }
        let why = format!(
            "{} was made as member {} of {}, of {} bytes with pages of {} and units of {}; the stack file says member {} of {}, {} bytes, {} and {}",
            self.member(child),
            have.member,
            have.members,
            have.size,
            have.page,
            have.unit,
            want.member,
            want.members,
            want.size,
            want.page,
            want.unit,
        );
        refused(why, "use the members and the sizes with which it was made")
    }

    /// What the superblocks say where rings hold copies only: the disk decides.
    fn decide_through(
        &mut self,
        found: &[Option<Super>],
        fresh_set: u64,
        tag: u64,
        cx: &mut Cx<'_>,
    ) -> Result<Step, OpenError> {
        let disk = usize::from(self.disk);
        let set = found[disk].as_ref().map(|have| have.set);
        let is_other = |f: &Super| f.through == 0 && set.is_none_or(|set| set == f.set);
        if let Some(at) = found.iter().position(|found| found.as_ref().is_some_and(is_other)) {
            let why = format!(
                "{} was made with `cache_mode = \"writeback\"`, and a ring may hold the only copy of something",
                self.member(at)
            );
            return Err(refused(
                why,
                "say so in the stack file; the other mode needs a new hybrid disk, to which the data is copied",
            ));
        }
        let told = Step::Erase(0, Telling::Opening);
        let Some(have) = &found[disk] else {
            let is_new = found.iter().all(Option::is_none);
            if self.opening.how.salvage && !is_new {
                cx.event(DeviceEvent::Notice(Notice::Gone(self.disk, Gone::Member)));
            } else if !is_new {
                let places = [0, 1].map(|place| self.super_at(self.disk, place).0);
                return Err(refused(
                    format!(
                        "the disk holds no hybrid disk, but a ring does: its records would be at bytes {} and {}",
                        places[0], places[1]
                    ),
                    "put the right disk there; or start with salvage to take it as it is",
                ));
            } else if !self.opening.how.create {
                return Err(refused(
                    "the disk holds no hybrid disk".into(),
                    "start with --create to make one of these members",
                ));
            }
            self.set = found.iter().flatten().next().map_or(fresh_set, |ring| ring.set);
            let number =
                found.iter().flatten().map(|ring| ring.claim.generation.number).max().unwrap_or(0) + 1;
            (self.opening.fresh, self.opening.base) = (Generation { number, tag }, Generation::NONE);
            return Ok(told);
        };
        self.set = have.set;
        let want = self.super_of(self.disk);
        if !have.is_shaped(&want) {
            return Err(self.other_shape(disk, have, &want));
        }
        let Claim { generation, base, is_open } = have.claim;
        self.opening.fresh = Generation { number: generation.number + 1, tag };
        self.opening.base = if is_open { generation } else { base };
        if !self.may_believe(found) {
            return Ok(told);
        }
        if let Some(through) = &mut self.through {
            through.is_used = true;
            for (name, ring) in through.names.iter_mut().zip(found.iter().flatten()) {
                *name = ring.through;
            }
        }
        Ok(Step::Scan(0, 0, 0))
    }

    /// Keeps a header that belongs where it stands; how many pages it describes.
    fn keep(&mut self, r: usize, unit: u32, at: u32, header: Option<Header>) -> Option<u32> {
        let (known, set) = (self.known(r).headless, self.set_of(r));
        let found = &mut self.opening.found[r];
        let newest = found.iter().map(|h| h.use_number).max().unwrap_or(0);
        let before = found.last().filter(|before| before.unit == unit);
        let goes_on = |h: &Header| match before {
            Some(b) => h.use_number == b.use_number && h.group > b.group,
            None => at == 0 || h.use_number == newest + 1 || known.contains(&h.use_number),
        };
        let header = header.filter(|h| h.set == set && (h.unit, h.at) == (unit, at) && goes_on(h))?;
        let pages = header.pages();
        found.push(header);
        Some(pages)
    }

    /// What the newest superblock of a ring says.
    fn known(&self, r: usize) -> Super {
        self.opening.supers[r].newest.map(|(newest, _)| newest).unwrap_or_default()
    }

    /// Whether a unit of the ring is known to lack its first header.
    fn is_headless(&self, r: usize) -> bool {
        self.known(r).headless.iter().any(|&number| number > 0)
    }

    /// The step behind the last unit of a ring: the unit that is begun after the newest is looked at where its first header is missing, for that may be
    /// the one that is damaged.
    fn behind_newest(&self, r: usize) -> Step {
        let found = &self.opening.found[r];
        let newest = found.iter().max_by_key(|h| h.use_number);
        let unit = newest.map_or(0, |h| (h.unit + 1) % self.rings[r].shape.units);
        match found.iter().any(|h| h.unit == unit) {
            true => Step::Scan(r + 1, 0, 0),
            false => Step::Look(r, unit, 1, true),
        }
    }

    /// Every header is known: the map follows. Then the members hear of the opening.
    fn finish_scan(&mut self, cx: &mut Cx<'_>) {
        let found = std::mem::take(&mut self.opening.found);
        let mut marked = std::collections::BTreeMap::new();
        for (r, headers) in found.iter().enumerate() {
            match accept(self.rings[r].shape.units, headers)
                .and_then(|accepted| self.fill_gaps(r, accepted, headers, cx))
            {
                Ok(accepted) => self.adopt(r, headers, &accepted, &mut marked),
                Err(why) => {
                    let remedy = "nothing was changed; a page of that ring was lost: if there is a copy of all members of one moment, \
                                  put it back; or start with salvage to go on without these groups";
                    return self.not_scanned(refused(format!("ring {r}: {why}"), remedy), cx);
                }
            }
        }
        self.go_to(Step::Erase(0, Telling::Opening), cx);
    }

    /// Groups that are missing are a reason to refuse, unless a salvage goes on without them, or did before.
    fn fill_gaps(
        &mut self,
        r: usize,
        mut accepted: Accepted,
        found: &[Header],
        cx: &mut Cx<'_>,
    ) -> Result<Accepted, String> {
        let Super { gaps: known, sealed, .. } = self.known(r);
        accepted.miss(sealed);
        for &(first, last) in accepted.gaps.iter().filter(|&&gap| !known.cover(gap)) {
            if !self.opening.how.salvage {
                let counted = || accepted.headers.iter().map(|&at| &found[at]);
                let byte = |h: &Header| self.rings[r].shape.offset(h.unit, h.at).0;
                let place = match (counted().rfind(|h| h.group < first), counted().next()) {
                    (Some(before), _) => format!("behind byte {} of the ring", byte(before)),
                    (None, Some(after)) => format!("before byte {} of the ring", byte(after)),
                    (None, None) => "and all others".into(),
                };
                return Err(format!("groups {first} to {last} are missing, {place}"));
            }
            cx.event(DeviceEvent::Notice(Notice::Gone(r as u8, Gone::Groups(first, last))));
        }
        let headless = &mut self.opening.headless[r];
        if accepted.headless.len() > headless.len() {
            return Err(format!("{} units lack their first header", accepted.headless.len()));
        }
        headless.iter_mut().zip(&accepted.headless).for_each(|(place, &number)| *place = number);
        self.opening.gaps[r] = Gaps::of(&accepted.gaps);
        Ok(accepted)
    }

    /// All members know of the opening.
    fn all_told(&mut self, cx: &mut Cx<'_>) {
        if let Some(page) = self.opening.page.take() {
            cx.pool.release(page);
        }
        if let Some(regions) = self.regions.as_mut().filter(|r| r.standing == Standing::Leaving) {
            regions.standing = Standing::GivenUp;
        }
        if let (true, Some(through)) = (self.joins(), &mut self.through) {
            match self.policy.cache_mode {
                CacheMode::Writethrough => self.joined(cx),
                CacheMode::Writeback => {
                    through.waits_to_join = true;
                    self.made_progress = true;
                    if self.phase == Phase::Opening {
                        self.take_rings_that_joined(cx);
                    }
                }
            }
        }
        if self.phase == Phase::Opening && !self.begin_join(cx) {
            self.opened(cx);
        }
    }

    /// What is in a ring is not to be had: the start is refused, or goes on without the rings where they hold copies only.
    fn not_scanned(&mut self, error: OpenError, cx: &mut Cx<'_>) {
        match self.is_through() {
            true => {
                self.forget_rings();
                self.opening.found.clear();
                self.go_to(Step::Erase(0, Telling::Opening), cx);
            }
            false => self.open_failed(error, cx),
        }
    }

    /// Everything is proven, and nothing is under way: tells the rings what they hold. True when they know, or cannot be told: then the next
    /// start takes what it finds, as after a crash.
    pub(crate) fn tell_of_end(&mut self, cx: &mut Cx<'_>) -> bool {
        if !std::mem::replace(&mut self.opening.is_told_of_end, true) && cx.pool.content() != Content::Nothing
        {
            self.opening.page = Some(cx.pool.allocate_metadata(ByteLen(self.page)));
            self.go_to(Step::Erase(0, Telling::End), cx);
        }
        self.opening.step == Step::None
    }

    /// The end begins. What only waits to be promoted need not be.
    pub(crate) fn begin_close(&mut self) {
        self.dram.forget_promotions();
        self.opening.close_mark = self.dram.next_since;
        (self.opening.close_ticket, self.opening.is_sealing, self.opening.is_parked) = (None, false, false);
        self.opening.is_told_of_end = false;
    }

    /// Whether collections stop where they are.
    pub(crate) fn is_parked(&self) -> bool {
        self.opening.is_parked
    }

    /// Lets DRAM be appended and proven, and each ring be sealed; then lets collections stop.
    pub(crate) fn pump_close(&mut self) {
        if self.phase != Phase::Closing || self.opening.is_parked {
            return;
        }
        match self.opening.close_ticket {
            None => {
                if self.is_drained(self.opening.close_mark) {
                    self.opening.close_ticket = Some(self.ask_for_commit());
                }
            }
            Some(ticket) if self.commit.done < ticket => {}
            Some(_) if !self.opening.is_sealing => {
                self.opening.is_sealing = true;
                self.opening.close_ticket = Some(self.ask_for_commit());
            }
            Some(_) => self.opening.is_parked = true,
        }
    }

    /// Whether a commit has nothing to do at a ring. The last one of an end leaves two headers that say of what the ring holds that it is durable: so
    /// no header of it can be damaged without a later one that misses it.
    pub(crate) fn rests(&self, r: usize) -> bool {
        let ring = &self.rings[r];
        ring.is_proven() && (!self.opening.is_sealing || ring.is_sealed())
    }
}
