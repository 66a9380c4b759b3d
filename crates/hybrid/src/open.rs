//! Starts and ends.
//!
//! A start flushes volatile children first: after a process died their caches hold what a cut could still remove. Then it
//! reads the superblocks, and makes a new set where the disk has none and that is allowed. Then it walks each unit of each
//! ring, header by header. What follows from the headers is decided in `recover`.
//!
//! A page that cannot be read is tried again. On flash that stays so where a program or erase was cut off, and it holds
//! nothing; on a child that is written over it is an error, and the start fails.

use crate::machine::{whole, Hybrid, Tag};
use crate::record::{Header, Super};
use crate::recover::accept;
use crate::ring::Ring;
use nandu_base::{
    ByteLen, ByteOffset, Cx, ErrorKind, Op, OpenError, OpenHow, Payload, PayloadPool, ReqId, Rng,
};

/// Attempts at each request of a start.
const TRIES: u8 = 10;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Step {
    #[default]
    None,
    Flush(u8),
    Super(u8),
    /// The first unit of a new member is erased.
    Clear(u8),
    Make(u8),
    MakeFlush(u8),
    /// The page of a unit of a ring at which a header may stand.
    Scan(usize, u32, u32),
}

/// A start or an end under way.
#[derive(Debug, Default)]
pub(crate) struct Opening {
    /// The driver waits for the result.
    pub is_first: bool,
    /// Nothing more can be saved: the end comes when the last answer has.
    pub close_is_due: bool,
    how: OpenHow,
    step: Step,
    tries: u8,
    page: Option<Payload>,
    supers: Vec<Option<Super>>,
    found: Vec<Vec<Header>>,
    close_mark: u64,
    close_ticket: Option<u64>,
    is_parked: bool,
}

impl Opening {
    /// Forgets a start that is under way.
    pub fn abandon(&mut self, pool: &mut PayloadPool) {
        if let Some(page) = self.page.take() {
            pool.release(page);
        }
        self.step = Step::None;
        self.found.clear();
    }
}

fn refused(why: String, remedy: &str) -> OpenError {
    OpenError::Refused { why, remedy: remedy.into() }
}

impl Hybrid {
    pub(crate) fn start_open(&mut self, how: OpenHow, cx: &mut Cx<'_>) {
        self.begin_epoch();
        self.map.clear();
        self.rings.iter_mut().for_each(|ring| *ring = Ring::new(ring.shape));
        self.disk_stands = false;
        self.opening.how = how;
        self.opening.supers = vec![None; self.sizes.len()];
        self.opening.found = vec![Vec::new(); self.rings.len()];
        self.opening.page = Some(cx.pool.allocate_metadata(ByteLen(self.page)));
        self.go_to(Step::Flush(0), cx);
    }

    fn go_to(&mut self, step: Step, cx: &mut Cx<'_>) {
        self.opening.tries = 0;
        self.opening.step = self.skip(step);
        match self.opening.step {
            Step::None => self.finish_open(cx),
            Step::Make(child) => self.write_super(child, cx),
            _ => self.ask(cx),
        }
    }

    /// Steps that need no request lead to the next one.
    fn skip(&self, step: Step) -> Step {
        let members = self.sizes.len() as u8;
        match step {
            Step::Flush(k) if k == members => Step::Super(0),
            Step::Flush(k) if !self.is_volatile(k) => self.skip(Step::Flush(k + 1)),
            Step::Clear(k) if k == members => Step::Scan(0, 0, 0),
            Step::Clear(k) if !self.rings.get(usize::from(k)).is_some_and(|r| r.shape.resets) => {
                Step::Make(k)
            }
            Step::MakeFlush(k) if !self.is_volatile(k) => self.skip(Step::Clear(k + 1)),
            Step::Scan(r, _, _) if r == self.rings.len() => Step::None,
            Step::Scan(r, unit, _) if unit == self.rings[r].shape.units => self.skip(Step::Scan(r + 1, 0, 0)),
            Step::Scan(r, unit, page) if page >= self.rings[r].shape.unit_pages => {
                self.skip(Step::Scan(r, unit + 1, 0))
            }
            other => other,
        }
    }

    fn is_volatile(&self, child: u8) -> bool {
        let ring = self.rings.get(usize::from(child));
        ring.map_or(self.policy.disk_volatile, |ring| ring.shape.volatile)
    }

    /// Where a member's superblock lies.
    fn super_at(&self, child: u8) -> ByteOffset {
        match self.rings.get(usize::from(child)) {
            Some(_) => ByteOffset::ZERO,
            None => ByteOffset(self.limits.capacity.0),
        }
    }

    /// Sends the request of the current step.
    fn ask(&mut self, cx: &mut Cx<'_>) {
        let Some(page) = self.opening.page else { return };
        let (child, op, offset, len) = match self.opening.step {
            Step::Flush(k) | Step::MakeFlush(k) => (k, Op::Flush, ByteOffset::ZERO, 0),
            Step::Super(k) => (k, Op::Read, self.super_at(k), self.page),
            Step::Clear(k) => (k, Op::Reset, ByteOffset::ZERO, self.rings[usize::from(k)].shape.unit_bytes()),
            Step::Make(k) => (k, Op::Write, self.super_at(k), self.page),
            Step::Scan(r, unit, at) => {
                let shape = &self.rings[r].shape;
                (shape.child, Op::Read, shape.offset(unit, at), self.page)
            }
            Step::None => return,
        };
        let payload = if len == self.page && op != Op::Reset { page } else { Payload::NONE };
        self.send_own(child, op, offset, len, payload, Tag::Record, 0, cx);
    }

    fn write_super(&mut self, child: u8, cx: &mut Cx<'_>) {
        let record = self.super_of(child);
        if let Some(page) = self.opening.page {
            let bytes = cx.pool.bytes_mut(page, ByteLen(self.page));
            bytes.fill(0);
            record.encode(bytes);
        }
        self.ask(cx);
    }

    fn super_of(&self, child: u8) -> Super {
        Super {
            set: self.set,
            member: u32::from(child),
            members: self.sizes.len() as u32,
            page: self.page,
            unit: self.rings.get(usize::from(child)).map_or(0, |ring| ring.shape.unit_bytes()),
            size: self.sizes[usize::from(child)],
        }
    }

    /// A request of a start is answered.
    pub(crate) fn record_done(&mut self, id: ReqId, cx: &mut Cx<'_>) {
        let error = cx.requests[id].error.map(|e| e.kind);
        let is_torn = match (self.opening.step, error) {
            (_, None) => false,
            (_, Some(ErrorKind::Gone)) => {
                let child = cx.requests[id].child;
                return self.open_failed(OpenError::Child(child), cx);
            }
            _ if self.opening.tries < TRIES => {
                self.opening.tries += 1;
                return self.ask(cx);
            }
            (Step::Scan(r, _, _), Some(_)) if self.rings[r].shape.resets => true,
            (Step::Super(_), Some(_)) if self.opening.how.create => true,
            (_, Some(kind)) => return self.open_failed(OpenError::Records(whole(kind)), cx),
        };
        let page = self.opening.page.expect("a start has its page");
        let bytes = cx.pool.bytes(page, ByteLen(self.page));
        match self.opening.step {
            Step::Flush(k) => self.go_to(Step::Flush(k + 1), cx),
            Step::Super(k) => {
                self.opening.supers[usize::from(k)] = if is_torn { None } else { Super::decode(bytes) };
                if usize::from(k) + 1 < self.sizes.len() {
                    return self.go_to(Step::Super(k + 1), cx);
                }
                match self.decide(cx) {
                    Ok(step) => self.go_to(step, cx),
                    Err(error) => self.open_failed(error, cx),
                }
            }
            Step::Clear(k) => self.go_to(Step::Make(k), cx),
            Step::Make(k) => self.go_to(Step::MakeFlush(k), cx),
            Step::MakeFlush(k) => self.go_to(Step::Clear(k + 1), cx),
            Step::Scan(r, unit, at) => {
                let header = if is_torn { None } else { Header::decode(bytes) };
                let next = self.follow(r, unit, at, header);
                self.go_to(next, cx);
            }
            Step::None => {}
        }
    }

    /// What the superblocks say.
    fn decide(&mut self, cx: &Cx<'_>) -> Result<Step, OpenError> {
        let disk = usize::from(self.disk);
        let Some(found) = self.opening.supers[disk] else {
            if !self.opening.how.create {
                return Err(refused(
                    "the disk holds no hybrid disk".into(),
                    "start with --create to make one of these members",
                ));
            }
            let mut rng = Rng::new(self.seed).fork(cx.now.0);
            self.set = rng.bits().max(1);
            return Ok(Step::Clear(0));
        };
        self.set = found.set;
        for child in 0..self.sizes.len() as u8 {
            let want = self.super_of(child);
            match self.opening.supers[usize::from(child)] {
                Some(have) if have == want => {}
                None => {
                    return Err(refused(
                        format!("member {child} holds no hybrid disk, the disk does"),
                        "its data may be needed: put the right member there",
                    ));
                }
                Some(have) => {
                    let why =
                        format!("member {child} says {have:?}, this stack file and the disk say {want:?}");
                    return Err(refused(why, "use the members and the sizes with which it was made"));
                }
            }
        }
        Ok(Step::Scan(0, 0, 0))
    }

    /// Keeps a header that belongs where it stands, and says where to look next.
    fn follow(&mut self, r: usize, unit: u32, at: u32, header: Option<Header>) -> Step {
        let found = &mut self.opening.found[r];
        let before = found.last().filter(|_| at > 0);
        let fits = |h: &Header| {
            let goes_on = before.is_none_or(|b| h.use_number == b.use_number && h.group == b.group + 1);
            h.set == self.set && (h.unit, h.at) == (unit, at) && goes_on
        };
        match header.filter(fits) {
            None => Step::Scan(r, unit + 1, 0),
            Some(header) => {
                let next = at + 1 + header.pages();
                found.push(header);
                Step::Scan(r, unit, next)
            }
        }
    }

    /// Every header is known: the map follows.
    fn finish_open(&mut self, cx: &mut Cx<'_>) {
        let found = std::mem::take(&mut self.opening.found);
        if let Some(page) = self.opening.page.take() {
            cx.pool.release(page);
        }
        let mut marked = std::collections::BTreeMap::new();
        for (r, headers) in found.iter().enumerate() {
            match accept(self.rings[r].shape.units, headers) {
                Ok(accepted) => self.adopt(r, headers, &accepted, &mut marked),
                Err(why) => {
                    let remedy = "a page of that ring was lost: restore the member from a copy";
                    return self.open_failed(refused(format!("ring {r}: {why}"), remedy), cx);
                }
            }
        }
        self.opened(cx);
    }

    /// The end begins. What only waits to be promoted need not be.
    pub(crate) fn begin_close(&mut self) {
        self.dram.forget_promotions();
        self.opening.close_mark = self.dram.next_since;
        (self.opening.close_ticket, self.opening.is_parked) = (None, false);
    }

    /// Whether collections stop where they are.
    pub(crate) fn is_parked(&self) -> bool {
        self.opening.is_parked
    }

    /// Lets DRAM be appended and proven, then lets collections stop.
    pub(crate) fn pump_close(&mut self) {
        if self.phase != crate::machine::Phase::Closing || self.opening.is_parked {
            return;
        }
        match self.opening.close_ticket {
            None => {
                if self.is_drained(self.opening.close_mark) {
                    self.opening.close_ticket = Some(self.ask_for_commit());
                }
            }
            Some(ticket) => self.opening.is_parked = self.commit.done >= ticket,
        }
    }
}
