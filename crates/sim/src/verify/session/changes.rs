//! Tenants that change while the stack runs: weights and limits of any stack with several tenants, and the space inside a drive that deals it out.
//!
//! *What is checked.* After a deal, and after a power cut at any moment of it, the drive's tenants have the space that they had before or
//! the space that was asked for, and those that it does not concern have what they had. Space that is taken away holds nothing: to the oracle a deal
//! is a trim of that space which is durable once the deal holds. The next tenant there must find zeros.

use super::super::oracle::Asked;
use super::super::plan::Cut;
use super::{Broken, Session, broken};
use nandu_base::{
    ByteLen, ByteOffset, Deal, DealError, Flags, Instant, Op, Rng, Span, TenantId, TenantShare, TenantSpace,
};

/// Spaces that the tenants of a drive may have.
#[derive(Clone, Default, Debug)]
pub(super) struct Spaces {
    /// Once nothing is under way.
    now: Vec<TenantSpace>,
    /// Before the deal that is under way, if one is.
    before: Option<Vec<TenantSpace>>,
}

impl Session<'_> {
    /// What the tenants of the drive have, of a stack that is a drive which deals its space out.
    pub(super) fn spaces_of_drive(&self) -> Vec<TenantSpace> {
        let mut spaces = Vec::new();
        self.engine.graph.machine(self.entries[0].node).spaces(&mut spaces);
        spaces
    }

    /// Learns what tenants have at the start.
    pub(super) fn learn_spaces(&mut self) {
        self.spaces = Spaces { now: self.spaces_of_drive(), before: None };
        let map = self.engine.graph.machine(self.entries[0].node).flash_map();
        self.unit_pages = map.map_or(1, |map| u64::from(map.pages_per_block));
    }

    /// After a start: the deal that was under way was made or not.
    pub(super) fn check_spaces(&mut self) -> Result<(), Broken> {
        let found = self.spaces_of_drive();
        if found != self.spaces.now && Some(&found) != self.spaces.before.as_ref() {
            let what = format!("the tenants have {found:?}, not {:?}", self.spaces);
            return Err(broken("I-7", what));
        }
        self.spaces = Spaces { now: found, before: None };
        Ok(())
    }

    /// A range of a tenant's own, where a drive deals its space out.
    pub(super) fn own_range(&mut self) -> Option<(u64, u64)> {
        let given: u64 = self.spaces.now.iter().map(|space| space.size.0).sum();
        // Where all of the drive is given, requests may reach over boundaries.
        if given == 0 || given == self.entries[0].limits.capacity.0 {
            return None;
        }
        let space = *self.changes.pick(&self.spaces.now);
        Some((space.first.0, space.size.0))
    }

    /// A range in which everything is somebody's for the whole run: of an export of this capacity, or of a tenant of a drive. None where
    /// space comes and goes.
    pub(super) fn steady_range(&self, capacity: u64, rng: &mut Rng) -> Option<(u64, u64)> {
        if self.spaces.now.is_empty() {
            return Some((0, capacity));
        }
        if self.plan.change_one_in > 0 {
            return None;
        }
        let space = *rng.pick(&self.spaces.now);
        Some((space.first.0, space.size.0))
    }

    /// Now and then something changes.
    pub(super) fn change(&mut self) -> Result<(), Broken> {
        if self.plan.change_one_in == 0 || self.changes.below(self.plan.change_one_in) > 0 {
            return Ok(());
        }
        self.tally.changes += 1;
        match self.spaces.now.is_empty() {
            true => self.change_share(),
            false => self.make_deal(),
        }
    }

    /// Another weight and other limits for some tenant.
    fn change_share(&mut self) -> Result<(), Broken> {
        let tenant = 1 + self.changes.below(self.stack.tenants.len() as u64) as u16;
        let rng = &mut self.changes;
        let mut limited = |least: u64, most: u64| (rng.below(3) == 0).then(|| rng.between(least, most));
        let limits = [limited(1 << 20, 64 << 20), limited(500, 50_000), limited(20, 5000)];
        let share = TenantShare {
            weight: *self.changes.pick(&[1, 50, 100, 1000, 10_000]),
            wbps: limits[0],
            riops: limits[1],
            target_latency: limits[2].map(Span::from_us),
            ..TenantShare::named("changed")
        };
        self.engine.change_share(TenantId(tenant), &share);
        self.look()
    }

    /// A deal that may or may not be possible.
    fn draw_deal(&mut self) -> Deal {
        let rng = &mut self.changes;
        let spaces = &self.spaces.now;
        let of = *rng.pick(spaces);
        let size = ByteLen(rng.between(of.size.0 / 3, of.size.0 * 3 / 2).max(512));
        match rng.below(5) {
            0 | 1 => Deal::Add { size },
            2 => Deal::Remove { number: of.number },
            _ => Deal::Resize { number: of.number, size },
        }
    }

    fn make_deal(&mut self) -> Result<(), Broken> {
        self.wait()?;
        let deal = self.draw_deal();
        let of = |number: u32| self.spaces.now.iter().find(|space| space.number == number).copied();
        let lost = match deal {
            Deal::Add { .. } => None,
            Deal::Remove { number } => of(number).map(|space| (space.first.0, space.size.0)),
            Deal::Resize { number, size } => {
                let align = u64::from(self.entries[0].limits.preferred);
                let kept = size.0.next_multiple_of(align);
                of(number).filter(|space| space.size.0 > kept).map(|s| (s.first.0 + kept, s.size.0 - kept))
            }
        };
        let now = self.engine.now();
        let asked = lost.map(|(offset, len)| Asked {
            op: Op::Trim,
            flags: Flags::FUA,
            offset: ByteOffset(offset),
            len: ByteLen(len),
        });
        self.engine.sink().note(now, || format!("{deal:?}"));
        let cookie = asked.map(|asked| self.engine.sink().comes(0, asked, now).1);
        let before = self.spaces.now.clone();
        let dealt = self.engine.deal(self.entries[0].node, deal);
        let after = self.spaces_of_drive();
        self.spaces = Spaces { now: after.clone(), before: Some(before.clone()) };
        self.look()?;
        match dealt {
            Ok(dealt) => {
                check_deal(&deal, dealt.number, &before, &after)?;
                self.tally.deals += 1;
                if self.pass_until(dealt.holds_at)? {
                    return Ok(());
                }
            }
            Err(DealError::Refused { .. }) => {}
            Err(error) => return Err(broken("I-7", format!("{deal:?}: {error}"))),
        }
        self.spaces.before = None;
        if let Some(cookie) = cookie {
            self.engine.sink().settled(cookie, dealt.is_ok());
        }
        self.check()
    }

    /// Lets time pass until a deal holds. The power may be cut before: true then, and the stack has started again.
    fn pass_until(&mut self, end: Instant) -> Result<bool, Broken> {
        let now = self.engine.now();
        let is_cut = !self.plan.cuts.is_empty() && self.changes.below(3) == 0;
        let until = match is_cut {
            true => now + Span(self.changes.below(end.since(now).0 + 1)),
            false => end,
        };
        while self.engine.next_at().is_some_and(|at| at <= until) {
            self.step()?;
        }
        self.engine.advance(until.later(self.engine.now()));
        if !is_cut {
            return Ok(false);
        }
        self.cut(&Cut { look: true, leg_dies: false, process: false, ..self.plan.cuts[0].clone() })?;
        Ok(true)
    }
}

/// What a deal has changed is what was asked for, and nothing else.
fn check_deal(deal: &Deal, number: u32, before: &[TenantSpace], after: &[TenantSpace]) -> Result<(), Broken> {
    let others = |spaces: &[TenantSpace]| -> Vec<TenantSpace> {
        spaces.iter().filter(|space| space.number != number).copied().collect()
    };
    let own = after.iter().find(|space| space.number == number);
    let is_right = match deal {
        Deal::Add { size } => own.is_some_and(|own| own.size >= *size) && after.len() == before.len() + 1,
        Deal::Resize { size, .. } => own.is_some_and(|own| own.size >= *size),
        Deal::Remove { .. } => own.is_none(),
    };
    if others(before) != others(after) || !is_right {
        return Err(broken("I-7", format!("{deal:?} made {after:?} of {before:?}")));
    }
    Ok(())
}
