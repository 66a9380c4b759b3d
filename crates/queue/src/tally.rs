//! What each tenant was sent: the figures by which a share can be checked while a stack runs, in the simulator and in the server.
//!
//! A share says something only while several tenants have something waiting; a tenant that asks for less than its share leaves the rest
//! to the others. So *contended* cost is counted apart: that of requests which were chosen while another tenant's waited too. Its shares are
//! the scheduler's doing and nothing else.
//!
//! A scheduler may leave its device idle for a tenant whose next request it awaits. That time is the tenant's as well: *idle time*, counted while something else
//! waits and nothing is on its way.
//!
//! Cost: three additions for a request. RAM: 32 bytes for a tenant.

use nandu_base::{Report, Span, TenantId};

/// Tenants beside SYSTEM whose figures have names.
const NAMED: usize = 16;

#[derive(Clone, Copy, Default, Debug)]
struct Sent {
    requests: u64,
    cost: u64,
    contended: u64,
    idle: u64,
}

/// What each tenant was sent, SYSTEM first.
#[derive(Clone, Debug)]
pub struct Tally(Vec<Sent>);

impl Tally {
    /// Nothing was sent yet.
    pub fn new(tenants: usize) -> Tally {
        Tally(vec![Sent::default(); tenants])
    }

    /// A request of `tenant` goes; `is_contended` says that others wait.
    #[inline]
    pub fn sent(&mut self, tenant: TenantId, cost: Span, is_contended: bool) {
        let sent = &mut self.0[usize::from(tenant.0)];
        sent.requests += 1;
        sent.cost += cost.0;
        sent.contended += if is_contended { cost.0 } else { 0 };
    }

    /// The device stood idle for a request of `tenant` while others waited.
    #[inline]
    pub fn idled(&mut self, tenant: TenantId, time: Span) {
        self.0[usize::from(tenant.0)].idle += time.0;
    }

    /// How long it stood so in all.
    pub fn idle_time(&self) -> Span {
        Span(self.0.iter().map(|sent| sent.idle).sum())
    }

    /// The figures of the first 16 tenants of the stack file, where there are several.
    pub fn report(&mut self, report: &mut Report) {
        if self.0.len() < 3 {
            return;
        }
        for (names, sent) in NAMES.iter().zip(&mut self.0[1..]) {
            report.count(names[0], &mut sent.requests);
            report.count(names[1], &mut sent.cost);
            report.count(names[2], &mut sent.contended);
            report.count(names[3], &mut sent.idle);
        }
    }
}

macro_rules! names {
    ($($n:literal)*) => {
        [$([
            concat!("tenant_", $n, "_requests_sent"),
            concat!("tenant_", $n, "_cost_sent_ns"),
            concat!("tenant_", $n, "_contended_cost_ns"),
            concat!("tenant_", $n, "_idle_time_ns"),
        ]),*]
    };
}

/// Names of each tenant's counters.
const NAMES: [[&str; 4]; NAMED] = names!(1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16);

#[cfg(test)]
mod tests {
    use super::*;
    use nandu_base::Ask;

    #[test]
    fn only_what_was_chosen_among_several_is_contended() {
        let mut tally = Tally::new(3);
        tally.sent(TenantId(1), Span(5), false);
        tally.sent(TenantId(1), Span(7), true);
        tally.sent(TenantId(2), Span(9), true);
        tally.idled(TenantId(2), Span(4));
        let counters = |tally: &mut Tally| {
            let mut report = Report::new(Ask::Counters);
            tally.report(&mut report);
            report.counters
        };
        let out = counters(&mut tally);
        assert_eq!(out.iter().map(|c| c.value).collect::<Vec<_>>(), [2, 12, 7, 0, 1, 9, 9, 4]);
        assert_eq!(tally.idle_time(), Span(4));
        assert_eq!(out[6].name, "tenant_2_contended_cost_ns");
        tally.report(&mut Report::new(Ask::Anew));
        let none = counters(&mut tally);
        assert!(none.iter().all(|c| c.value == 0));
    }
}
