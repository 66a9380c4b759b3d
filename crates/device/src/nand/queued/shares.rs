//! Dies that serve tenants by share: what the drive asks of all of them together. The rule of one die is in [`fair`](super::fair).

use super::Queued;
use super::fair::{Coming, Costs, Fair};
use nandu_base::{Counter, Instant, Report, Span, TenantId, Violation};
use nandu_queue::schedulers::Scheduler;
use nandu_queue::tally::Tally;

/// Of what comes to dies a planted fault loses each of this many.
const STRIKE: u64 = 500;

impl Queued {
    /// Every die serves `tenants` tenants, SYSTEM included, by a scheduler of its own from now on, which leaves it idle for no longer
    /// than `patience` after anything happened there.
    pub fn share_by(
        &mut self,
        costs: Costs,
        patience: Span,
        tenants: usize,
        mut scheduler: impl FnMut() -> Box<dyn Scheduler>,
    ) {
        (self.costs, self.tally) = (Some(costs), Tally::new(tenants));
        self.patience = patience;
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
        let fair = self.dies[die as usize].fair.as_mut()?;
        if let Some((tenant, time)) = fair.stood(now)
            && !(self.idles_free && now.0.is_multiple_of(4))
        {
            self.tally.idled(tenant, time);
        }
        let (at, is_contended) = fair.next(now)?;
        self.was_sent(at, is_contended);
        Some(at)
    }

    /// An operation was sent to its die.
    pub(super) fn was_sent(&mut self, at: u32, is_contended: bool) {
        let node = &self.nodes[at];
        let cost = self.costs.as_ref().map_or(Span::ZERO, |costs| costs.of(node.job, node.slc));
        self.tally.sent(node.cause, cost, is_contended);
    }

    /// The weight of a tenant is another from here on.
    pub fn set_weight(&mut self, tenant: TenantId, weight: u16) {
        for fair in self.dies.iter_mut().filter_map(|die| die.fair.as_mut()) {
            fair.scheduler().set_weight(tenant, weight);
        }
    }

    /// Reads that went before an older operation, where a die has one line; figures of the schedulers of all dies together, and what
    /// tenants were given: an operation counts as a request.
    pub fn report_shares(&mut self, report: &mut Report) {
        if self.has_lines && self.costs.is_none() {
            report.put("read_bypasses", self.dies.iter().map(|die| die.line.bypasses).sum());
        }
        self.dies.iter_mut().for_each(|die| report.restart(&mut die.line.bypasses));
        let from = report.counters.len();
        for fair in self.dies.iter_mut().filter_map(|die| die.fair.as_mut()) {
            let mut own = Report::new(report.ask());
            fair.scheduler().report(&mut own);
            for Counter { name, value } in own.counters {
                match report.counters[from..].iter_mut().find(|counter| counter.name == name) {
                    Some(counter) => counter.value += value,
                    None => report.put(name, value),
                }
            }
            if report.begins_anew() {
                fair.reset_idle_time();
            }
        }
        self.tally.report(report);
    }

    /// Until when the scheduler of a die had said, before the operation that begins now, that it would idle.
    pub fn excused(&self, die: u32) -> Instant {
        self.dies[die as usize].fair.as_ref().map_or(Instant::ZERO, |fair| fair.excused())
    }

    /// What waits at dies that serve by share is counted, what they stand idle for a tenant is charged to it, and none of them idles for longer than its scheduler may leave it so.
    pub fn check_shares(&self) -> Result<(), Violation> {
        let mut fair = self.dies.iter().filter_map(|die| die.fair.as_ref());
        if !fair.clone().all(|fair| fair.is_sound()) {
            let what = "operations on the pending of a die and their counts differ".into();
            return Err(Violation { invariant: "conservation", what });
        }
        let (stood, charged) =
            (fair.clone().map(|fair| fair.idle_time().0).sum::<u64>(), self.tally.idle_time());
        if Span(stood) != charged {
            let stood = Span(stood);
            let what = format!(
                "dies stood idle for {stood} for tenants that their schedulers await, who were charged {charged}"
            );
            return Err(Violation { invariant: "I-13", what });
        }
        match fair.find(|fair| fair.longest_idle() > self.patience) {
            None => Ok(()),
            Some(fair) => {
                let (idle, most) = (fair.longest_idle(), self.patience);
                let what =
                    format!("a die is left idle for {idle}, and its scheduler waits for at most {most}");
                Err(Violation { invariant: "I-17", what })
            }
        }
    }
}
