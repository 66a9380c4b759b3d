//! Dies that serve tenants by share: what the drive asks of all of them together. The rule of one die is in [`fair`](super::fair).

use super::Queued;
use super::fair::{Coming, Costs, Fair};
use nandu_base::{Counter, Instant, TenantId, Violation};
use nandu_queue::schedulers::Scheduler;
use nandu_queue::tally::Tally;

/// Of what comes to dies a planted fault loses each of this many.
const STRIKE: u64 = 500;

impl Queued {
    /// Every die serves `tenants` tenants, SYSTEM included, by a scheduler of its own from now on.
    pub fn share_by(
        &mut self,
        costs: Costs,
        tenants: usize,
        mut scheduler: impl FnMut() -> Box<dyn Scheduler>,
    ) {
        (self.costs, self.tally) = (Some(costs), Tally::new(tenants));
        for die in &mut self.dies {
            die.fair = Some(Box::new(Fair::new(scheduler(), tenants)));
        }
    }

    /// An operation comes to a die.
    pub(super) fn share_out(&mut self, die: u32, coming: Coming) {
        if self.forgets && coming.number.is_multiple_of(STRIKE) {
            return;
        }
        if let Some(fair) = &mut self.dies[die as usize].fair {
            fair.push(coming);
        }
    }

    /// Takes the operation that a free die begins now.
    pub(super) fn next_by_share(&mut self, die: u32, now: Instant) -> Option<u32> {
        let (at, is_contended) = self.dies[die as usize].fair.as_mut()?.next(now)?;
        let node = &self.nodes[at];
        let cost = self.costs.as_ref()?.of(node.job, node.slc);
        self.tally.sent(node.cause, cost, is_contended);
        Some(at)
    }

    /// The weight of a tenant is another from here on.
    pub fn set_weight(&mut self, tenant: TenantId, weight: u16) {
        for fair in self.dies.iter_mut().filter_map(|die| die.fair.as_mut()) {
            fair.scheduler().set_weight(tenant, weight);
        }
    }

    /// Figures of the schedulers of all dies together, and what tenants were given; an operation counts as a request.
    pub fn share_counters(&self, out: &mut Vec<Counter>) {
        let from = out.len();
        let mut own = Vec::new();
        for fair in self.dies.iter().filter_map(|die| die.fair.as_ref()) {
            fair.asked().counters(&mut own);
            for Counter { name, value } in own.drain(..) {
                match out[from..].iter_mut().find(|counter| counter.name == name) {
                    Some(counter) => counter.value += value,
                    None => out.push(Counter { name, value }),
                }
            }
        }
        self.tally.counters(out);
    }

    /// Counts anew.
    pub fn reset_share_counters(&mut self) {
        self.tally.reset();
        for fair in self.dies.iter_mut().filter_map(|die| die.fair.as_mut()) {
            fair.scheduler().reset_counters();
        }
    }

    /// What waits at dies that serve by share is counted.
    pub fn check_shares(&self) -> Result<(), Violation> {
        let mut fair = self.dies.iter().filter_map(|die| die.fair.as_ref());
        match fair.all(|fair| fair.is_sound()) {
            true => Ok(()),
            false => Err(Violation {
                invariant: "conservation",
                what: "operations on the board of a die and their counts differ".into(),
            }),
        }
    }
}
