//! Tenants that change while the stack runs: weights and limits of any stack with several tenants, and the space inside a drive that deals it out.
//!
//! *What is checked.* After a deal, and after a power cut at any moment of it, the drive's tenants have the space that they had before or
//! the space that was asked for, and those that it does not concern have what they had. Space that is taken away holds nothing: to the oracle a deal
//! is a trim of that space which is durable once the deal holds. The next tenant there must find zeros.

use super::super::case::Share;
use super::super::oracle::Asked;
use super::{Broken, Session, broken};
use nandu_base::{Ask, ByteLen, ByteOffset, Deal, DealError, Flags, Instant, Op, TenantId, TenantSpace};

/// Spaces that the tenants of a drive may have.
#[derive(Clone, Default, Debug)]
pub(super) struct Spaces {
    /// Once nothing is under way.
    pub now: Vec<TenantSpace>,
    /// Before the deal that is under way, if one is.
    before: Option<Vec<TenantSpace>>,
    /// The deal that is under way.
    holds: Option<Holds>,
}

/// A deal that was made and does not hold yet.
#[derive(Clone, Copy, Debug)]
struct Holds {
    at: Instant,
    /// What the oracle knows of the space that it takes away.
    cookie: Option<u64>,
}

impl Session<'_> {
    /// What the tenants of the drive have, of a stack that is a drive which deals its space out.
    pub(super) fn spaces_of_drive(&mut self) -> Vec<TenantSpace> {
        self.engine.graph.report(self.entries[0].node, Ask::Spaces).spaces
    }

    /// Learns what tenants have at the start.
    pub(super) fn learn_spaces(&mut self) {
        self.spaces = Spaces { now: self.spaces_of_drive(), before: None, holds: None };
        let map = self.engine.graph.report(self.entries[0].node, Ask::FlashMap).flash_map;
        self.unit_pages = map.map_or(1, |map| u64::from(map.pages_per_block));
    }

    /// After a start: the deal that was under way was made or not.
    pub(super) fn check_spaces(&mut self) -> Result<(), Broken> {
        let found = self.spaces_of_drive();
        if found != self.spaces.now && Some(&found) != self.spaces.before.as_ref() {
            let what = format!("the tenants have {found:?}, not {:?}", self.spaces);
            return Err(broken("I-7", what));
        }
        self.spaces = Spaces { now: found, before: None, holds: None };
        Ok(())
    }

    /// Another weight and other limits for some tenant.
    pub(super) fn change_share(&mut self, share: Share) -> Result<(), Broken> {
        self.tally.changes += 1;
        self.engine.change_share(TenantId(share.tenant), &share.whole());
        self.look()
    }

    /// Deals the drive's space anew, when nothing is under way.
    pub(super) fn make_deal(&mut self, deal: Deal) -> Result<(), Broken> {
        self.tally.changes += 1;
        self.wait()?;
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
        self.spaces = Spaces { now: after.clone(), before: Some(before.clone()), holds: None };
        self.look()?;
        match dealt {
            Ok(dealt) => {
                check_deal(&deal, dealt.number, &before, &after)?;
                self.tally.deals += 1;
                self.spaces.holds = Some(Holds { at: dealt.holds_at, cookie });
                Ok(())
            }
            Err(DealError::Refused { .. }) => self.deal_ends(cookie, false),
            Err(DealError::Fixed) if self.is_listed => self.deal_ends(cookie, false),
            Err(DealError::Unknown { number, .. })
                if self.is_listed && before.iter().all(|space| space.number != number) =>
            {
                self.deal_ends(cookie, false)
            }
            Err(error) => Err(broken("I-7", format!("{deal:?}: {error}"))),
        }
    }

    /// When the deal that is under way holds.
    pub(super) fn deal_holds_at(&self) -> Option<Instant> {
        self.spaces.holds.map(|holds| holds.at)
    }

    /// Lets time pass until the deal that is under way holds.
    pub(super) fn pass_the_deal(&mut self) -> Result<(), Broken> {
        let Some(Holds { at, cookie }) = self.spaces.holds else { return Ok(()) };
        self.pass_until(at)?;
        self.deal_ends(cookie, true)
    }

    fn deal_ends(&mut self, cookie: Option<u64>, is_made: bool) -> Result<(), Broken> {
        (self.spaces.before, self.spaces.holds) = (None, None);
        if let Some(cookie) = cookie {
            self.engine.sink().settled(cookie, is_made);
        }
        self.check()
    }

    /// Takes the events up to `until`.
    pub(super) fn pass_until(&mut self, until: Instant) -> Result<(), Broken> {
        while self.engine.next_at().is_some_and(|at| at <= until) {
            self.step()?;
        }
        self.engine.advance(until.later(self.engine.now()));
        Ok(())
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
