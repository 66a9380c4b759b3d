//! Units that tenants give back while they are idle: when that is. What may go back, and why, stands in [`nandu_ftl::plan::tenants`].
//!
//! A tenant is idle when no request has come for its range for `after`, and none of its pages was written. The timer of [`Idle`](super::background::Idle) serves it.
//!
//! RAM: 8 bytes for a tenant.

use super::Ssd;
use nandu_base::{ByteLen, ByteOffset, Cx, Instant, Span, Violation};
use nandu_ftl::Lpn;
use nandu_ftl::mapping::Mapping;
use nandu_ftl::plan::tenants::Return;

/// When tenants were last busy.
#[derive(Clone, Debug)]
pub(super) struct Rests {
    after: Span,
    /// When a request for each tenant's range came last.
    last: Vec<Instant>,
}

impl Rests {
    /// Of so many tenants, each idle after `after` without a request.
    pub fn new(after: Span, tenants: usize) -> Rests {
        Rests { after, last: vec![Instant::ZERO; tenants] }
    }

    fn note(&mut self, tenant: usize, now: Instant) {
        if let Some(last) = self.last.get_mut(tenant) {
            *last = now;
        }
    }
}

impl<M: Mapping> Ssd<M> {
    /// A request for this place comes: every tenant that it reaches into is busy.
    pub(super) fn note_tenants(&mut self, at: ByteOffset, len: ByteLen, now: Instant) {
        let (Some(rests), Some(tenants)) = (&mut self.rests, &self.plan.tenants) else { return };
        if len == ByteLen::ZERO {
            return;
        }
        let pages = self.plan.host.page.pages(at, len);
        let mut first = pages.first;
        while first < pages.end {
            rests.note(tenants.of(Lpn(first)), now);
            first = tenants.table.run_end(Lpn(first));
        }
    }

    /// Pages of tenants were written, whoever's request it was.
    pub(super) fn note_writers(&mut self, cx: &mut Cx<'_>) {
        let Some(tenants) = self.plan.tenants.as_deref_mut().filter(|_| self.idle.is_some()) else { return };
        let mut any = false;
        for (tenant, wrote) in tenants.wrote.iter_mut().enumerate().filter(|(_, wrote)| **wrote) {
            (*wrote, any) = (false, true);
            self.rests.iter_mut().for_each(|rests| rests.note(tenant, cx.now));
        }
        if any {
            self.watch_idleness(cx);
        }
    }

    /// A step of every idle tenant that owes units; returns when the next one may come, if any.
    pub(super) fn return_while_idle(&mut self, cx: &mut Cx<'_>) -> Option<Instant> {
        let after = self.rests.as_ref()?.after;
        if self.plan.blocks.is_worn_out() || self.closing {
            return None;
        }
        let (groups, tenants) =
            self.plan.tenants.as_deref().map(|tenants| (tenants.books.len(), tenants.len()))?;
        if let Some(medium) = cx.medium.as_deref_mut() {
            medium.settle(cx.now);
        }
        let mut next: Option<Instant> = None;
        for group in 0..groups {
            for tenant in 0..tenants {
                let Some(pool) = self.plan.of_any_map().next_owing(group, tenant) else { continue };
                let idle_at = self.rests.as_ref().map_or(Instant::ZERO, |rests| rests.last[tenant] + after);
                let at = if cx.now < idle_at { Some(idle_at) } else { self.return_step(pool, cx) };
                next = at.map(|at| next.map_or(at, |next| next.min(at))).or(next);
            }
        }
        next
    }

    /// Gives a unit back that a pool can spare, or clears a little; returns when the next step may come, `None` when there is nothing to do.
    fn return_step(&mut self, pool: u32, cx: &mut Cx<'_>) -> Option<Instant> {
        let least = self.idle.as_ref().map_or(1, |idle| idle.least_gain);
        match self.plan.of_any_map_mut().return_unit(pool, least) {
            Return::Nothing => None,
            Return::Done => Some(cx.now + Span(1)),
            Return::Clear(cause) => Some(self.idle_step(pool, cause, cx)),
        }
    }

    /// The part of I-8 about a drive at rest.
    pub(super) fn check_rest(&self) -> Result<(), Violation> {
        match self.idle.as_ref().is_some_and(|idle| idle.is_at_rest) {
            true => self.plan.of_any_map().check_returns(),
            false => Ok(()),
        }
    }
}
