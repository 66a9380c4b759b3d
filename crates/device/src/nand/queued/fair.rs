//! A die that serves tenants by share: what [`choose`](super::choose) does where there is one queue for all.
//!
//! The same schedulers as in front of a device (`nandu_queue`), one for each die, with what they cannot have there: the die is the
//! real one, the cost of an operation is the time that it takes, and collection waits in the queue of the tenant that caused it.
//! A scheduler says whose turn it is. Within a tenant the rule is that without tenants: reads of the host before the
//! rest, at most `max_read_bypass` of them before an older operation, everything else in the order of issue, so that no tenant's
//! writes overtake the collection that they caused.
//!
//! Operations are pending at their die from when they may begin, by their numbers. The one that runs counts as on its
//! way until its end. A scheduler may leave the die idle for a while, as one that awaits a reader does.
//!
//! *Suspension.* While an operation runs that may be suspended and a read waits, the scheduler is asked as one is whose device has room for
//! one more ([`pass`](Fair::pass)). If it sends a read, that read passes the operation. If it sends anything else, that is *in hand*: the die begins it
//! when the operation is complete, and nothing passes before. So whose turn it is stays the scheduler's business, and each operation is sent, and
//! weighed, once. At most `max_read_bypass` reads pass an operation that runs, for its own tenant may have nothing else to send. The scheduler's cost of a read does
//! not have the suspension in it; what it takes of the die is charged to the reader.
//!
//! Where tenants share blocks of a plane they still meet: the first program of a block waits for the erases of its plane, whoever
//! caused them.
//!
//! Cost: that of the scheduler, one virtual call, and a step in a heap for each operation. RAM: 100 bytes for an operation that
//! waits, and the scheduler's own for each die.

use super::node::Job;
use super::suspend::NEVER;
use crate::nand::lanes::Timing;
use nandu_base::{Instant, ReqId, Span, TenantId};
use nandu_queue::pending::{Class, Entry, PendingRequests};
use nandu_queue::schedulers::{Next, Scheduler};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What operations cost a die, outside and inside SLC mode.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Costs {
    plain: Timing,
    slc: Timing,
}

impl Costs {
    /// Costs of a die of this timing; `slc` is that of blocks in SLC mode, if there are any.
    pub fn new(plain: Timing, slc: Option<Timing>) -> Costs {
        Costs { plain, slc: slc.unwrap_or(plain) }
    }

    /// What an operation costs; never 0.
    pub fn of(&self, job: Job, slc: bool) -> Span {
        let timing = if slc { &self.slc } else { &self.plain };
        let cost = match job {
            Job::Read | Job::PreRead | Job::MoveRead | Job::MapRead => timing.read + timing.transfer,
            Job::MoveWithin => timing.read + timing.program,
            Job::Erase => timing.erase,
            _ => timing.transfer + timing.program,
        };
        Span(cost.0.max(1))
    }
}

/// An operation that comes to a die.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Coming {
    /// Not before.
    pub ready: Instant,
    /// Place in the order of issue.
    pub number: u64,
    pub node: u32,
    pub tenant: TenantId,
    pub is_read: bool,
    pub cost: Span,
}

/// The queue of one die.
pub(crate) struct Fair {
    scheduler: Box<dyn Scheduler>,
    pending: PendingRequests,
    /// What may not begin yet, or has not been looked at.
    coming: BinaryHeap<Reverse<Coming>>,
    /// What runs, and what passes it meanwhile, each with its end once that is known.
    running: [Option<(Entry, Instant)>; 2],
    /// What the scheduler sent while another one ran, and whether operations of several tenants waited then.
    in_hand: Option<(Entry, bool)>,
    /// Until when the scheduler leaves the die idle, and whom it awaits.
    idle_until: Option<(Instant, TenantId)>,
    /// Since when the die stands idle because it said so, and for whose next operation.
    stands: Option<(Instant, TenantId)>,
    /// How long it has stood so in all.
    idle_time: Span,
    /// Until when it has said that it would, since the last operation began.
    said_until: Instant,
    /// The same when the operation that runs began.
    excused: Instant,
    /// The longest that it said it would, from the time when it said so.
    longest_idle: Span,
}

impl std::fmt::Debug for Fair {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fair").field("pending", &self.pending).field("running", &self.running).finish()
    }
}

impl Fair {
    /// A queue for `tenants` tenants, SYSTEM included.
    pub fn new(scheduler: Box<dyn Scheduler>, tenants: usize) -> Fair {
        let pending = PendingRequests::new(scheduler.groups(tenants), tenants, scheduler.by_address());
        Fair {
            scheduler,
            pending,
            coming: BinaryHeap::new(),
            running: [None; 2],
            in_hand: None,
            idle_until: None,
            stands: None,
            idle_time: Span::ZERO,
            said_until: Instant::ZERO,
            excused: Instant::ZERO,
            longest_idle: Span::ZERO,
        }
    }

    /// Adds an operation.
    pub fn push(&mut self, coming: Coming) {
        self.coming.push(Reverse(coming));
    }

    /// The operation `node` ends at `end`.
    pub fn ends(&mut self, node: u32, end: Instant) {
        let of_node = |(entry, _): &&mut (Entry, Instant)| entry.id.0 == node;
        if let Some((_, known)) = self.running.iter_mut().flatten().find(of_node) {
            *known = end;
        }
    }

    /// Tells the scheduler what has happened up to `now`, in the order in which it did.
    fn settle(&mut self, now: Instant) {
        loop {
            let comes = self.coming.peek().map(|Reverse(coming)| coming.ready).filter(|&at| at <= now);
            let ends = |running: Option<(Entry, Instant)>| running.filter(|&(_, end)| end <= now);
            let ends = self.running.map(ends);
            let first = usize::from(ends[1].is_some_and(|(_, end)| ends[0].is_none_or(|(_, of)| end < of)));
            match (ends[first], comes) {
                (Some((entry, end)), comes) if comes.is_none_or(|at| end <= at) => {
                    self.running[first] = None;
                    self.pending.came_back(&entry);
                    self.scheduler.done(&entry, &self.pending, end);
                }
                (_, Some(_)) => self.put_up(),
                _ => return,
            }
        }
    }

    fn put_up(&mut self) {
        let Some(Reverse(coming)) = self.coming.pop() else { return };
        let Coming { ready, number, node, tenant, is_read, cost } = coming;
        let slot = self.pending.add_numbered(Entry {
            id: ReqId(node),
            tenant,
            class: if is_read { Class::Read } else { Class::Write },
            start: 0,
            end: 0,
            arrived: ready,
            cost,
            lane: 0,
            number,
            group: self.scheduler.group(tenant, 0),
        });
        self.scheduler.arrived(slot, &self.pending, ready);
    }

    /// The die is free, and looked at: how long it has stood idle until now since the scheduler was asked last, and for whose next operation.
    pub fn stood(&mut self, now: Instant) -> Option<(TenantId, Span)> {
        let (since, tenant) = self.stands.take()?;
        let time = now.since(since);
        self.idle_time += time;
        Some((tenant, time))
    }

    /// How long the die has stood idle in all because its scheduler said so.
    pub fn idle_time(&self) -> Span {
        self.idle_time
    }

    /// Counts anew.
    pub fn reset_idle_time(&mut self) {
        self.idle_time = Span::ZERO;
    }

    /// Takes the operation that the die, free now, begins; with it whether operations of several tenants wait.
    pub fn next(&mut self, now: Instant) -> Option<(u32, bool)> {
        self.settle(now);
        self.idle_until = None;
        debug_assert!(self.running.iter().all(Option::is_none), "a die that is free runs nothing");
        if self.in_hand.is_none() {
            self.in_hand = self.sent(now);
            self.stands = self.idle_until.map(|(_, tenant)| (now, tenant));
            if let Some((until, _)) = self.idle_until {
                self.said_until = self.said_until.later(until);
                self.longest_idle = self.longest_idle.longer(until.since(now));
            }
        }
        let (entry, is_contended) = self.in_hand.take()?;
        self.running[0] = Some((entry, NEVER));
        self.excused = std::mem::replace(&mut self.said_until, Instant::ZERO);
        Some((entry.id.0, is_contended))
    }

    /// What the scheduler sends now, if it sends anything; otherwise `idle_until` is when it is to be asked again, if it said so.
    fn sent(&mut self, now: Instant) -> Option<(Entry, bool)> {
        if self.pending.waiting() == 0 {
            return None;
        }
        match self.scheduler.next(&self.pending, now) {
            Next::Send(slot) => {
                let is_contended = self.pending.is_contended();
                Some((self.pending.take(slot), is_contended))
            }
            Next::Until(at, tenant) => {
                self.idle_until = Some((at, tenant));
                None
            }
            Next::Nothing => {
                assert!(
                    self.pending.out() > 0,
                    "a scheduler waits for an end only while something is on its way"
                );
                None
            }
        }
    }

    /// Whether a read might pass the operation that runs: one waits, and nothing else is in hand.
    pub fn might_pass(&mut self, now: Instant) -> bool {
        self.settle(now);
        match &self.in_hand {
            Some((entry, _)) => entry.class == Class::Read,
            None => self.pending.reads_wait(),
        }
    }

    /// The tenant of the read that passes the operation that runs, if the scheduler sends one.
    pub fn pass(&mut self, now: Instant) -> Option<TenantId> {
        if !self.might_pass(now) {
            return None;
        }
        if self.in_hand.is_none() {
            self.idle_until = None;
            self.in_hand = self.sent(now);
        }
        let (entry, _) = self.in_hand.as_ref()?;
        (entry.class == Class::Read).then_some(entry.tenant)
    }

    /// Takes that read, with whether operations of several tenants waited.
    pub fn take_read(&mut self, now: Instant) -> Option<(u32, bool)> {
        self.pass(now)?;
        let (entry, is_contended) = self.in_hand.take()?;
        debug_assert!(self.running[1].is_none(), "one read at a time passes");
        self.running[1] = Some((entry, NEVER));
        Some((entry.id.0, is_contended))
    }

    /// When what waits is to be looked at again while an operation runs.
    pub fn looks_again(&mut self, now: Instant) -> Option<Instant> {
        self.settle(now);
        let comes = self.coming.peek().map(|Reverse(coming)| coming.ready);
        let until = self.idle_until.map(|(at, _)| at).filter(|&at| at > now && self.in_hand.is_none());
        comes.into_iter().chain(until).min()
    }

    /// Until when the scheduler had said, before the operation that begins now, that the die would idle.
    pub fn excused(&self) -> Instant {
        self.excused
    }

    /// The longest that it said so for.
    pub fn longest_idle(&self) -> Span {
        self.longest_idle
    }

    /// When the next of them may begin.
    pub fn earliest(&self) -> Option<Instant> {
        let comes = self.coming.peek().map(|Reverse(coming)| coming.ready);
        match (self.pending.waiting(), self.idle_until) {
            _ if self.in_hand.is_some() => Some(Instant::ZERO),
            (0, _) => comes,
            (_, None) => Some(Instant::ZERO),
            (_, Some((until, _))) => Some(comes.map_or(until, |at| at.min(until))),
        }
    }

    /// Reads and other operations that wait.
    pub fn waiting(&self) -> (usize, usize) {
        let of = |class| {
            let tenants = (0..self.pending.tenants()).map(|tenant| TenantId(tenant as u16));
            tenants.map(|tenant| self.pending.waiting_of(tenant, class) as usize).sum::<usize>()
        };
        let in_hand = usize::from(self.in_hand.is_some());
        (of(Class::Read), of(Class::Write) + self.coming.len() + in_hand)
    }

    /// The scheduler of the die.
    pub fn scheduler(&mut self) -> &mut dyn Scheduler {
        &mut *self.scheduler
    }

    /// Whether the counts of what is pending agree.
    pub fn is_sound(&self) -> bool {
        self.pending.is_sound()
    }
}

#[cfg(test)]
mod tests {
    use super::super::choose::Line;
    use super::*;
    use nandu_base::Rng;
    use nandu_queue::order::OrderConfig;
    use nandu_queue::schedulers::{Given, POLICIES, SchedulerConfig, Weights};

    /// A die of this scheduler; none where it is not for dies.
    fn of_die(scheduler: &str, weights: &[u16], ahead: u32) -> Option<Fair> {
        let given = Given {
            weights: Weights(weights.to_vec()),
            order: OrderConfig::ReadsFirst { max_read_bypass: ahead },
        };
        let scheduler = SchedulerConfig::named(scheduler);
        let scheduler = scheduler.options().expect("it is of the project").of_die(given).ok()?;
        Some(Fair::new(scheduler, weights.len()))
    }

    fn fair(scheduler: &str, weights: &[u16], ahead: u32) -> Fair {
        of_die(scheduler, weights, ahead).expect("it is for dies")
    }

    /// Every scheduler of dies.
    fn schedulers() -> impl Iterator<Item = &'static str> {
        POLICIES.iter().map(|policy| policy.name).filter(|name| of_die(name, &[100], 0).is_some())
    }

    #[test]
    fn with_one_queue_for_all_it_chooses_what_the_plain_die_chooses() {
        for seed in 0..300 {
            let mut rng = Rng::new(seed);
            let max_read_bypass = rng.below(4) as u32;
            let mut fair = fair("noop", &[100, 100, 300], max_read_bypass);
            let mut line = Line::default();
            let (mut now, mut number, mut free_at) = (Instant::ZERO, 0, Instant::ZERO);
            for turn in 0..300 {
                now.0 += rng.below(5);
                if rng.below(2) == 0 {
                    number += 1;
                    let ready = Instant(now.0 + rng.below(2) * rng.below(20));
                    let (is_read, tenant) = (rng.below(2) == 0, TenantId(rng.below(3) as u16));
                    let node = number as u32;
                    line.push(ready, number, node, is_read);
                    fair.push(Coming { ready, number, node, tenant, is_read, cost: Span(1) });
                }
                if free_at <= now {
                    let (got, want) = (fair.next(now), line.next(now, max_read_bypass));
                    assert_eq!(got.map(|(node, _)| node), want, "seed {seed}, turn {turn}");
                    free_at = Instant(now.0 + rng.below(6));
                    fair.ends(got.map_or(0, |(node, _)| node), free_at);
                }
                assert_eq!(fair.earliest().is_some(), line.earliest().is_some(), "seed {seed}, turn {turn}");
                assert!(fair.is_sound());
            }
        }
    }

    /// A reader and a writer of whom some operations always wait; thousandths of the die that the first gets, and the reads that passed one
    /// that ran, at most `pass` each.
    fn share(scheduler: &str, weights: &[u16], pass: u32) -> (u64, u64) {
        let mut fair = fair(scheduler, weights, 16);
        let (mut now, mut used, mut passed) = (Instant::ZERO, [0; 2], 0);
        let cost = [Span::from_us(60), Span::from_us(400)];
        let mut number = 0;
        let mut add = |fair: &mut Fair, tenant: usize, now| {
            number += 1;
            let (node, of) = (number as u32 * 2 + tenant as u32 - 1, TenantId(tenant as u16));
            let is_read = tenant == 1;
            fair.push(Coming { ready: now, number, node, tenant: of, is_read, cost: cost[tenant - 1] });
        };
        (0..8).for_each(|_| [1, 2].into_iter().for_each(|tenant| add(&mut fair, tenant, now)));
        for _ in 0..60_000 {
            let Some((node, _)) = fair.next(now) else {
                now = fair.earliest().expect("something waits");
                continue;
            };
            let tenant = node as usize % 2 + 1;
            let (half, mut pass) = (Span(cost[tenant - 1].0 / 2), if tenant == 2 { pass } else { 0 });
            now += half;
            while pass > 0
                && let Some((read, _)) = fair.take_read(now)
            {
                now += cost[0];
                used[0] += cost[0].0;
                fair.ends(read, now);
                add(&mut fair, 1, now);
                (passed, pass) = (passed + 1, pass - 1);
            }
            now += half;
            used[tenant - 1] += cost[tenant - 1].0;
            fair.ends(node, now);
            add(&mut fair, tenant, now);
        }
        (used[0] * 1000 / (used[0] + used[1]), passed)
    }

    /// A reader thinks for a while after each read, and a writer always waits. What the die stands idle beside the writer is the reader's, by the
    /// test's own clock.
    #[test]
    fn what_a_die_stands_idle_is_charged_to_whom_it_awaits() {
        let mut waited = 0;
        for (scheduler, seed) in schedulers().flat_map(|s| (0..20).map(move |seed| (s, seed))) {
            let mut rng = Rng::new(seed);
            let mut fair = fair(scheduler, &[100, 100, 100], 16);
            let (mut now, mut number) = (Instant::ZERO, 0);
            let (mut charged, mut measured) = ([Span::ZERO; 3], Span::ZERO);
            let mut add = |fair: &mut Fair, tenant: u16, ready| {
                number += 1;
                let (node, cost) = (number as u32 * 4 + u32::from(tenant), Span::from_us(100));
                fair.push(Coming {
                    ready,
                    number,
                    node,
                    tenant: TenantId(tenant),
                    is_read: tenant == 1,
                    cost,
                });
            };
            (0..4).for_each(|_| [1, 2].into_iter().for_each(|tenant| add(&mut fair, tenant, now)));
            for _ in 0..400 {
                charged_to(&mut charged, fair.stood(now));
                let Some((node, _)) = fair.next(now) else {
                    // Writes always wait, so all the time until it is asked again it stands idle beside them.
                    let next = fair.earliest().expect("something waits");
                    assert!(next > now, "{scheduler}, seed {seed}");
                    measured += next.since(now);
                    now = next;
                    continue;
                };
                now += Span::from_us(100);
                fair.ends(node, now);
                let think = Span::from_us(if node % 4 == 1 { rng.below(400) } else { 0 });
                add(&mut fair, (node % 4) as u16, now + think);
            }
            charged_to(&mut charged, fair.stood(now));
            assert_eq!(charged, [Span::ZERO, measured, Span::ZERO], "{scheduler}, seed {seed}");
            assert_eq!(fair.idle_time(), measured);
            waited += u64::from(measured > Span::ZERO);
            assert!(scheduler != "drr" || measured == Span::ZERO, "it waits for nobody");
        }
        assert!(waited > 10, "the die stood idle in {waited} runs");
    }

    fn charged_to(charged: &mut [Span; 3], stood: Option<(TenantId, Span)>) {
        if let Some((tenant, time)) = stood {
            let of = &mut charged[usize::from(tenant.0)];
            *of += time;
        }
    }

    #[test]
    fn what_is_in_hand_begins_next_and_nothing_passes_before() {
        let mut fair = fair("drr", &[100, 100, 10_000], 16);
        let coming = |number, tenant, is_read| Coming {
            ready: Instant::ZERO,
            number,
            node: number as u32,
            tenant: TenantId(tenant),
            is_read,
            cost: Span::from_us(100),
        };
        fair.push(coming(1, 2, false));
        assert_eq!(fair.next(Instant(1)), Some((1, false)));
        // Its tenant has credit for another one, and goes on.
        fair.push(coming(2, 2, false));
        fair.push(coming(3, 1, true));
        assert!(fair.might_pass(Instant(2)), "a read waits");
        assert_eq!(fair.pass(Instant(2)), None, "it is the writer's turn");
        assert_eq!(fair.take_read(Instant(3)), None, "and stays so");
        assert!(!fair.might_pass(Instant(3)));
        assert_eq!(fair.earliest(), Some(Instant::ZERO), "what is in hand waits");
        fair.ends(1, Instant(4));
        assert_eq!(fair.next(Instant(4)), Some((2, true)));
        fair.ends(2, Instant(5));
        assert_eq!(fair.next(Instant(5)), Some((3, false)));
    }

    #[test]
    fn a_die_is_shared_by_weight() {
        // Those that share exactly: slices of the others go to whole queues, or nobody has a share.
        for (scheduler, pass) in ["drr", "flashfq", "fios", "vssd"].into_iter().flat_map(|s| [(s, 0), (s, 4)])
        {
            let (of_three, passed) = share(scheduler, &[100, 300, 100], pass);
            assert!((735..=765).contains(&of_three), "{scheduler}, {pass}: {of_three} thousandths");
            assert_eq!(passed > 100, pass > 0, "{scheduler}: {passed} reads passed");
            let (of_one, _) = share(scheduler, &[100, 100, 300], pass);
            assert!((235..=265).contains(&of_one), "{scheduler}, {pass}: {of_one} thousandths");
        }
        assert!(share("noop", &[100, 300, 100], 0).0 > 600, "reads pass where nobody has a share");
    }
}
