//! The steps of a seed: each is drawn when it comes, for what comes next depends on what has happened.
//!
//! Every aspect has a generator of its own, so that what else a seed draws stays as it was when one is added.

use super::hammer::Hammering;
use super::{Broken, Session};
use crate::verify::case::{Chore, Close, PowerCut, Share, Tear, What, When};
use crate::verify::oracle::Asked;
use crate::verify::plan::{Cut, Load, Plan};
use nandu_base::{Absence, ByteLen, ByteOffset, Deal, Flags, Op, Rng, SECTOR, Span, Window};

/// Arrivals and events that a power cut waits for an erase.
const AIM: u32 = 400;
/// Pages from one write of the tenant that means harm to the next, while it owes.
const STRIDE: u64 = 7;

/// What a seed draws while it runs.
pub(super) struct Drawn<'a> {
    pub plan: &'a Plan,
    rng: Rng,
    /// Decides what operators do.
    chores: Rng,
    /// Where a growth is cut.
    growths: Rng,
    /// What is drawn of tenants that change.
    changes: Rng,
    pub hammering: Hammering,
    /// Cuts beside the run that are still to come.
    peeks_left: u32,
    peeks: Rng,
    /// Requests that are still to come.
    left: u32,
    /// Requests that the tenant has made who means harm.
    harms: u64,
    /// When the next step comes.
    when: When,
}

impl<'a> Drawn<'a> {
    pub fn new(plan: &'a Plan) -> Drawn<'a> {
        let root = Rng::new(plan.seed);
        Drawn {
            plan,
            rng: root.fork(Tear::CUTS),
            chores: root.fork(8),
            growths: root.fork(65),
            changes: root.fork(7),
            hammering: Hammering::new(plan.seed),
            peeks_left: plan.peeks,
            peeks: root.fork(Tear::PEEKS),
            left: plan.load.requests,
            harms: 0,
            when: When::Now,
        }
    }

    /// Draws all steps and has them taken.
    pub fn run(&mut self, session: &mut Session<'_>) -> Result<(), Broken> {
        for cut in &self.plan.cuts {
            self.drive(session, cut.after, cut.after_loss)?;
            if cut.in_an_erase {
                self.drive_until_an_erase(session, cut.look)?;
            }
            if session.tally.not_created > 0 {
                return Ok(());
            }
            let power_cut = self.power_cut(session, cut);
            session.take(When::Events(session.since), What::Cut(power_cut))?;
            if session.tally.not_created > 0 {
                return Ok(());
            }
        }
        self.drive(session, u32::MAX, None)
    }

    /// The clean end, if the plan has one: the power may be cut on its way.
    pub fn close(&mut self, session: &mut Session<'_>) -> Result<Option<Close>, Broken> {
        if !self.plan.close {
            return Ok(None);
        }
        let events = if self.rng.below(3) == 0 { Some(self.rng.below(20)) } else { None };
        let within = events.filter(|_| !self.plan.cuts.is_empty());
        Ok(Some(Close { within, tear: self.tear(session) }))
    }

    fn tear(&self, session: &Session<'_>) -> Tear {
        let first = Rng::new(self.plan.seed).fork(Tear::CUTS);
        Tear::at(&self.rng, first, session.tally.crashes + 1)
    }

    /// Has a step taken that comes with an arrival, or after one that did.
    fn take(&mut self, session: &mut Session<'_>, what: What) -> Result<(), Broken> {
        session.take(std::mem::replace(&mut self.when, When::Now), what)
    }

    /// Lets `steps` arrivals and events pass, at most `after_loss` once a device was lost, or all until nothing is left to
    /// ask and nothing under way.
    fn drive(
        &mut self,
        session: &mut Session<'_>,
        mut steps: u32,
        after_loss: Option<u32>,
    ) -> Result<(), Broken> {
        let mut next = session.engine.now();
        let losses = session.watch.losses();
        let mut soon = after_loss;
        while steps > 0 {
            steps -= 1;
            if soon.is_some() && session.watch.losses() > losses {
                steps = steps.min(soon.take().unwrap_or(steps));
            }
            let has_ended = session.tally.not_created > 0;
            if has_ended || self.left == 0 && session.engine.sink().under_way() == 0 {
                return Ok(());
            }
            if self.left > 0 && session.may_arrive(next) {
                self.when = When::After(next.later(session.base).since(session.base));
                session.engine.advance(next.later(session.engine.now()));
                self.change(session)?;
                self.ask(session)?;
                next = session.engine.now() + self.gap();
            } else {
                session.step()?;
                self.may_peek(session)?;
            }
        }
        Ok(())
    }

    /// Lets more of them pass until something is being erased, or until a flush is answered meanwhile: at most some hundred.
    fn drive_until_an_erase(&mut self, session: &mut Session<'_>, and_a_flush: bool) -> Result<(), Broken> {
        let mut flushes_before = None;
        for _ in 0..AIM {
            let flushes = session.engine.sink().flushes;
            match session.engine.erasing() {
                None => flushes_before = None,
                Some(_) if !and_a_flush || flushes_before.is_some_and(|before| flushes > before) => break,
                Some(_) => flushes_before = flushes_before.or(Some(flushes)),
            }
            self.drive(session, 1, None)?;
        }
        Ok(())
    }

    fn gap(&mut self) -> Span {
        let Load { gap, idle_one_in, .. } = self.plan.load;
        let span = Span(self.rng.below(gap.0 + 1));
        if idle_one_in > 0 && self.rng.below(idle_one_in) == 0 {
            return span * 100;
        }
        span
    }

    /// Sends a random request in.
    fn ask(&mut self, session: &mut Session<'_>) -> Result<(), Broken> {
        self.left -= 1;
        self.may_do_chore(session)?;
        self.may_grow(session)?;
        if session.tally.not_created > 0 {
            return Ok(());
        }
        if let Some(asked) = self.harm(session) {
            return self.take(session, What::Ask { export: 0, asked });
        }
        if self.plan.doubts
            && let Some((export, asked)) = session.engine.sink_and_pool().0.failed_write.take()
        {
            return self.doubt(session, export, asked);
        }
        if let Some((export, asked)) = self.hammer(session) {
            return self.take(session, What::Ask { export, asked });
        }
        let export = self.rng.below(session.entries.len() as u64) as usize;
        let load = &self.plan.load;
        let total: u64 = load.weights.iter().sum();
        let mut at = self.rng.below(total);
        let ops = [Op::Read, Op::Write, Op::Flush, Op::Trim, Op::WriteZeroes];
        let chosen = ops.iter().zip(load.weights).find(|(_, weight)| match at.checked_sub(*weight) {
            Some(rest) => {
                at = rest;
                false
            }
            None => true,
        });
        let op = chosen.map_or(Op::Read, |(&op, _)| op);
        let fua = load.fua_one_in > 0 && op.changes_data() && self.rng.below(load.fua_one_in) == 0;
        let flags = if fua { Flags::FUA } else { Flags::NONE };
        let (offset, len) = if op == Op::Flush { (0, 0) } else { self.extent(session, export) };
        let asked = Asked { op, flags, offset: ByteOffset(offset), len: ByteLen(len) };
        self.take(session, What::Ask { export, asked })
    }

    /// Reads what a write that failed was about, and flushes: what was found must stay.
    fn doubt(&mut self, session: &mut Session<'_>, export: usize, written: Asked) -> Result<(), Broken> {
        self.take(session, What::Ask { export, asked: Asked { op: Op::Read, ..written } })?;
        session.wait()?;
        let (offset, len) = (ByteOffset::ZERO, ByteLen::ZERO);
        let asked = Asked { op: Op::Flush, offset, len, ..written };
        session.take(When::Idle, What::Ask { export, asked })
    }

    fn extent(&mut self, session: &Session<'_>, export: usize) -> (u64, u64) {
        let (base, size) = self.own_range(session).unwrap_or((0, session.entries[export].limits.capacity.0));
        let (load, limits) = (&self.plan.load, &session.entries[export].limits);
        let rng = &mut self.rng;
        let whole = load.whole_one_in > 0 && rng.below(load.whole_one_in) == 0;
        let align = u64::from(limits.align);
        let unit = if whole && size >= 8192 { align.max(4096) } else { align };
        let units = size / unit;
        let most = (limits.max_io.0 / unit).min((load.longest * SECTOR).div_ceil(unit)).clamp(1, units);
        let len = rng.between(1, most);
        let hot = (units >> load.hot).max(1);
        let first = if rng.below(8) == 0 { rng.below(units) } else { rng.below(hot) };
        let first = first.min(units - len);
        (base + first * unit, len * unit)
    }

    /// A range of a tenant's own, where a drive deals its space out.
    fn own_range(&mut self, session: &Session<'_>) -> Option<(u64, u64)> {
        let spaces = &session.spaces.now;
        let given: u64 = spaces.iter().map(|space| space.size.0).sum();
        // Where all of the drive is given, requests may reach over boundaries.
        if given == 0 || given == session.entries[0].limits.capacity.0 {
            return None;
        }
        let space = *self.changes.pick(spaces);
        Some((space.first.0, space.size.0))
    }

    /// A range in which everything is somebody's for the whole run: of an export of this capacity, or of a tenant of a drive. None where
    /// space comes and goes.
    pub fn steady_range(&self, session: &Session<'_>, capacity: u64, rng: &mut Rng) -> Option<(u64, u64)> {
        if session.spaces.now.is_empty() {
            return Some((0, capacity));
        }
        if self.plan.change_one_in > 0 {
            return None;
        }
        let space = *rng.pick(&session.spaces.now);
        Some((space.first.0, space.size.0))
    }

    /// What a tenant asks for that means harm, in place of a random request, if it is its turn.
    fn harm(&mut self, session: &mut Session<'_>) -> Option<Asked> {
        let (drive, spaces) = session.shared_drive()?;
        if self.changes.below(2) == 0 {
            return None;
        }
        let space = spaces[0];
        let (_, lent, borrowed) = session.standing(drive).tenants[space.number as usize - 1];
        let page = u64::from(session.engine.graph.machine(drive).limits().preferred);
        let pages = (space.size.0 / page).max(1);
        self.harms += 1;
        let made = self.harms;
        let (op, first, count) = match (lent, borrowed) {
            _ if made.is_multiple_of(11) => (Op::Trim, self.changes.below(pages), 1),
            (1.., _) => (Op::Write, made * 8 % pages, 8),
            (_, 1..) => (Op::Write, made * STRIDE % pages, 1),
            _ => (Op::Write, made * 4 % pages, 4),
        };
        let len = (count.min(pages - first) * page).min(session.entries[0].limits.max_io.0);
        // Behind a queue it has an export of its own.
        let base = if session.is_shared_drive() { space.first.0 } else { 0 };
        let offset = ByteOffset(base + first * page);
        Some(Asked { op, flags: Flags::NONE, offset, len: ByteLen(len) })
    }

    /// Now and then an operator comes.
    fn may_do_chore(&mut self, session: &mut Session<'_>) -> Result<(), Broken> {
        let one_in = self.plan.chore_one_in;
        if one_in == 0 || self.chores.below(one_in) > 0 {
            return Ok(());
        }
        let arrays = session.watch.looked_after();
        if arrays.is_empty() {
            return Ok(());
        }
        let (array, legs) = &arrays[self.chores.below(arrays.len() as u64) as usize];
        let leg = self.chores.below(legs.len() as u64) as u8;
        let chore = match self.chores.below(8) {
            0..=3 => Chore::Scrub,
            4 => Chore::StopScrub,
            5 | 6 => Chore::Lead(leg),
            _ => Chore::Replace(leg),
        };
        let device = session.engine.graph.name(*array).to_string();
        self.take(session, What::Chore { device, chore })
    }

    /// An array is asked to grow, and the power may be cut at any moment of that.
    fn may_grow(&mut self, session: &mut Session<'_>) -> Result<(), Broken> {
        let Some(growth) = self.plan.growth else { return Ok(()) };
        let is_due = self.left <= growth.left && (growth.left - self.left).is_multiple_of(growth.every);
        let [(array, legs)] = &session.watch.looked_after()[..] else { return Ok(()) };
        if !is_due || !session.may_grow(*array, legs) || session.has_grown() {
            return Ok(());
        }
        let device = session.engine.graph.name(*array).to_string();
        let chores = session.tally.chores;
        self.take(session, What::Chore { device, chore: Chore::Grow(growth.bytes) })?;
        if session.tally.chores == chores || self.plan.cuts.is_empty() || self.growths.below(2) == 0 {
            return Ok(());
        }
        let most = 2 << self.growths.below(8);
        for _ in 0..self.growths.below(most) {
            if session.engine.next_at().is_none() {
                break;
            }
            session.step()?;
            self.may_peek(session)?;
        }
        let leg_dies = self.growths.below(3) == 0;
        let cut = Cut { look: true, leg_dies, in_an_erase: false, ..self.plan.cuts[0].clone() };
        let power_cut = self.power_cut(session, &cut);
        session.take(When::Events(session.since), What::Cut(power_cut))
    }

    /// Now and then something changes about tenants.
    fn change(&mut self, session: &mut Session<'_>) -> Result<(), Broken> {
        if self.plan.change_one_in == 0 || self.changes.below(self.plan.change_one_in) > 0 {
            return Ok(());
        }
        if session.spaces.now.is_empty() {
            let share = self.share(session);
            return self.take(session, What::Share(share));
        }
        session.wait()?;
        let deal = self.deal(session);
        self.take(session, What::Deal(deal))?;
        let Some(end) = session.deal_holds_at() else { return Ok(()) };
        if self.plan.cuts.is_empty() || self.changes.below(3) > 0 {
            return session.pass_the_deal();
        }
        let span = Span(self.changes.below(end.since(session.engine.now()).0 + 1));
        session.pass_until(session.engine.now() + span)?;
        let cut = Cut { look: true, leg_dies: false, process: false, ..self.plan.cuts[0].clone() };
        let power_cut = self.power_cut(session, &cut);
        session.take(When::Within(span), What::Cut(power_cut))
    }

    /// Another weight and other limits for some tenant.
    fn share(&mut self, session: &Session<'_>) -> Share {
        let tenant = 1 + self.changes.below(session.stack.0.tenants.len() as u64) as u16;
        let rng = &mut self.changes;
        let mut limited = |least: u64, most: u64| (rng.below(3) == 0).then(|| rng.between(least, most));
        let [wbps, riops, latency] = [limited(1 << 20, 64 << 20), limited(500, 50_000), limited(20, 5000)];
        let weight = *self.changes.pick(&[1, 50, 100, 1000, 10_000]);
        Share { tenant, weight, wbps, riops, target_latency: latency.map(Span::from_us) }
    }

    /// A deal that may or may not be possible.
    fn deal(&mut self, session: &Session<'_>) -> Deal {
        let rng = &mut self.changes;
        let of = *rng.pick(&session.spaces.now);
        let size = ByteLen(rng.between(of.size.0 / 3, of.size.0 * 3 / 2).max(512));
        match rng.below(5) {
            0 | 1 => Deal::Add { size },
            2 => Deal::Remove { number: of.number },
            _ => Deal::Resize { number: of.number, size },
        }
    }

    /// A power cut at a random instant before the next event.
    fn power_cut(&mut self, session: &Session<'_>, cut: &Cut) -> PowerCut {
        let now = session.engine.now();
        let next = session.engine.next_at().map_or(now, |at| at.later(now));
        let erasing = if cut.in_an_erase { session.engine.erasing() } else { None };
        let at = match erasing {
            Some(Window { start, end }) => start + Span(1 + self.rng.below(end.since(start).0.max(1))),
            None => now + Span(self.rng.below(next.since(now).0.min(1_000_000_000) + 1)),
        };
        let missing = if cut.leg_dies { self.leg_to_miss(session) } else { None };
        PowerCut {
            delay: at.later(now).min(next).since(now),
            missing: missing.map(|leg| session.engine.graph.name(leg).to_string()),
            process: cut.process,
            again: cut.again.clone(),
            look: cut.look,
            tear: self.tear(session),
        }
    }

    /// A device that is missing at a start, if one may be.
    fn leg_to_miss(&mut self, session: &Session<'_>) -> Option<u32> {
        match session.watch.may_be_missing()? {
            (Absence::GivenUp, rings) => Some(rings[0]),
            (_, legs) => Some(legs[self.rng.below(legs.len() as u64) as usize]),
        }
    }

    /// Now and then cuts the power of a copy: more often while something is being erased.
    fn may_peek(&mut self, session: &mut Session<'_>) -> Result<(), Broken> {
        if self.peeks_left == 0 || session.watch.has_faults() {
            return Ok(());
        }
        let (now, next) = (session.engine.now(), session.engine.next_at());
        let Some(next) = next.filter(|&next| next > now) else { return Ok(()) };
        let erasing = session.engine.erasing();
        let one_in = self.plan.peek_one_in * if erasing.is_some() || session.is_growing() { 1 } else { 16 };
        if self.peeks.below(one_in) > 0 {
            return Ok(());
        }
        self.peeks_left -= 1;
        let Window { start, end } = erasing.unwrap_or(Window { start: now, end: next });
        let at = start + Span(1 + self.peeks.below(end.since(start).0));
        let at = at.min(next).0 as i64 - now.0 as i64;
        let first = Rng::new(self.plan.seed).fork(Tear::PEEKS);
        let peek = What::Peek { at, tear: Tear::at(&self.peeks, first, 0) };
        session.note_step(When::Events(session.since), &peek);
        // Its own generator goes on where the tear ends.
        session.may_peek(at, &mut self.peeks)?;
        session.step_is_complete(&peek);
        Ok(())
    }
}
