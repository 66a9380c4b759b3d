//! A test rig: tenants that keep a number of requests outstanding, a scheduler, and a device that serves up to `depth` at a
//! time, each in its cost.

use super::{Next, Scheduler};
use crate::cost::CostConfig;
use crate::pending::{Class, Entry, PendingRequests};
use nandu_base::{Ask, Instant, Report, ReqId, Rng, Span, TenantId};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// What one tenant asks for.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Requests kept outstanding.
    pub outstanding: u32,
    /// What they are.
    pub class: Class,
    /// Length of each.
    pub len: u64,
    /// Time from the end of one to the next.
    pub think: Span,
}

impl Load {
    /// Random reads of 4 KiB, at once again.
    pub fn reads(outstanding: u32) -> Load {
        Load { outstanding, class: Class::Read, len: 4096, think: Span::ZERO }
    }

    /// Random writes of 4 KiB, at once again.
    pub fn writes(outstanding: u32) -> Load {
        Load { class: Class::Write, ..Load::reads(outstanding) }
    }

    /// The same with another length.
    pub fn of(self, len: u64) -> Load {
        Load { len, ..self }
    }

    /// The same with time to think.
    pub fn thinking(self, think: Span) -> Load {
        Load { think, ..self }
    }
}

/// The rig.
pub struct Rig<S> {
    scheduler: S,
    pending: PendingRequests,
    depth: u32,
    tenants: usize,
    /// Other weights, and after how many requests.
    change: Option<(u64, Vec<u16>)>,
    /// Longest wait of each tenant.
    pub longest: Vec<Span>,
    /// Writes that were sent while a read was on its way.
    pub mixed: u64,
    /// Requests sent, in order: tenant, class, first byte.
    pub sent: Vec<(u16, Class, u64)>,
}

/// Something that happens: a request ends (true) or comes.
type Event = (Instant, u64, bool, Entry2);

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Entry2 {
    tenant: u16,
    read: bool,
    start: u64,
    len: u64,
    cost: u64,
    lane: u32,
}

impl<S: Scheduler> Rig<S> {
    /// A rig for tenants of these weights, beside SYSTEM, which asks for nothing.
    pub fn new(scheduler: S, weights: &[u16]) -> Rig<S> {
        let tenants = weights.len() + 1;
        let pending = PendingRequests::new(scheduler.groups(tenants), tenants, scheduler.by_address());
        Rig {
            scheduler,
            pending,
            depth: 4,
            tenants,
            change: None,
            longest: vec![Span::ZERO; weights.len()],
            mixed: 0,
            sent: Vec::new(),
        }
    }

    /// The same with this many requests at a time.
    pub fn depth(mut self, depth: u32) -> Rig<S> {
        self.depth = depth;
        self
    }

    /// The same, with other weights once so many requests are served; what is served is counted from there on.
    pub fn then(mut self, weights: &[u16], after: u64) -> Rig<S> {
        self.change = Some((after, weights.to_vec()));
        self
    }

    /// What is tested.
    pub fn scheduler(&self) -> &S {
        &self.scheduler
    }

    /// Its figures by name.
    pub fn scheduler_counters(&mut self) -> BTreeMap<&'static str, u64> {
        let mut report = Report::new(Ask::Counters);
        self.scheduler.report(&mut report);
        report.counters.into_iter().map(|c| (c.name, c.value)).collect()
    }

    /// Serves `requests` requests; the cost that was served for each tenant.
    pub fn run(&mut self, loads: &[Load], requests: u64) -> Vec<u64> {
        assert_eq!(loads.len() + 1, self.tenants);
        let mut rng = Rng::new(7);
        let mut events: BinaryHeap<Reverse<Event>> = BinaryHeap::new();
        let mut number = 0u64;
        let draw = |tenant: usize, rng: &mut Rng| {
            let load = loads[tenant];
            Entry2 {
                tenant: tenant as u16 + 1,
                read: load.class == Class::Read,
                start: rng.below(1 << 20) * 4096,
                len: load.len,
                cost: CostConfig::default().of(load.class, load.len).0,
                lane: rng.below(8) as u32,
            }
        };
        for (tenant, load) in loads.iter().enumerate() {
            for _ in 0..load.outstanding {
                number += 1;
                events.push(Reverse((Instant::ZERO, number, false, draw(tenant, &mut rng))));
            }
        }
        let mut served = vec![0; loads.len()];
        let mut ended = 0;
        let mut now;
        let mut wake: Option<Instant> = None;
        while ended < requests {
            if let Some((_, weights)) = self.change.take_if(|(after, _)| *after == ended) {
                let numbered = (1u16..).zip(weights);
                numbered.for_each(|(tenant, weight)| self.scheduler.set_weight(TenantId(tenant), weight));
                served.fill(0);
            }
            let due = events.peek().map(|Reverse(e)| e.0);
            match (due, wake) {
                (Some(at), at_wake) if at_wake.is_none_or(|w| at <= w) => {
                    let Reverse((at, _, is_end, what)) = events.pop().unwrap();
                    now = at;
                    let tenant = usize::from(what.tenant) - 1;
                    if is_end {
                        let entry = self.entry(what, now);
                        self.pending.came_back(&entry);
                        self.scheduler.done(&entry, &self.pending, now);
                        served[tenant] += what.cost;
                        ended += 1;
                        number += 1;
                        let next = draw(tenant, &mut rng);
                        events.push(Reverse((now + loads[tenant].think, number, false, next)));
                    } else {
                        let entry = self.entry(what, now);
                        let slot = self.pending.add(entry);
                        self.scheduler.arrived(slot, &self.pending, now);
                    }
                }
                (_, Some(at)) => (now, wake) = (at, None),
                (None, None) => panic!("requests wait but nothing will happen"),
                (Some(_), None) => unreachable!("an event comes before no alarm"),
            }
            while self.pending.out() < self.depth && self.pending.waiting() > 0 {
                match self.scheduler.next(&self.pending, now) {
                    Next::Send(slot) => {
                        let reads = |t| self.pending.out_of_class(TenantId(t), Class::Read);
                        let reads_in_flight = (0..self.tenants as u16).any(|t| reads(t) > 0);
                        let entry = self.pending.take(slot);
                        self.mixed += u64::from(reads_in_flight && entry.class == Class::Write);
                        let tenant = usize::from(entry.tenant.0) - 1;
                        let waited = now.since(entry.arrived);
                        self.longest[tenant] = self.longest[tenant].longer(waited);
                        self.sent.push((entry.tenant.0, entry.class, entry.start));
                        number += 1;
                        let what = Entry2 {
                            tenant: entry.tenant.0,
                            read: entry.class == Class::Read,
                            start: entry.start,
                            len: entry.end - entry.start,
                            cost: entry.cost.0,
                            lane: entry.lane,
                        };
                        events.push(Reverse((now + entry.cost, number, true, what)));
                    }
                    Next::Until(at, _) => {
                        assert!(at > now, "an alarm in the past would ring for ever");
                        wake = Some(at);
                        break;
                    }
                    Next::Nothing => {
                        assert!(self.pending.out() > 0, "nothing is on its way that could end");
                        wake = None;
                        break;
                    }
                }
            }
            assert!(self.pending.is_sound());
        }
        served
    }

    fn entry(&self, what: Entry2, now: Instant) -> Entry {
        let tenant = TenantId(what.tenant);
        Entry {
            id: ReqId(0),
            tenant,
            class: if what.read { Class::Read } else { Class::Write },
            start: what.start,
            end: what.start + what.len,
            arrived: now,
            cost: Span(what.cost),
            lane: what.lane,
            number: 0,
            group: self.scheduler.group(tenant, what.lane),
        }
    }
}

/// Whether `shares` stand to each other as `weights`, within `percent`.
pub fn in_proportion(shares: &[u64], weights: &[u64], percent: u64) -> bool {
    let (all, sum) = (shares.iter().sum::<u64>(), weights.iter().sum::<u64>());
    shares.iter().zip(weights).all(|(&share, &weight)| {
        let wanted = u128::from(all) * u128::from(weight) / u128::from(sum);
        u128::from(share).abs_diff(wanted) * 100 <= wanted * u128::from(percent)
    })
}
