//! The rules of schedulers once more, plainly: a list of what waits that is searched every time. Both must send the same.

use super::rig::{Load, Rig};
use super::turns::By;
use super::*;
use crate::order::OrderConfig;
use crate::pending::Class;
use nandu_base::{Rng, Span};

/// What waits, in the order of arrival.
#[derive(Default)]
struct List(Vec<(u32, Entry)>);

impl List {
    fn add(&mut self, slot: u32, pending: &PendingRequests) {
        self.0.push((slot, *pending.get(slot)));
    }

    fn take(&mut self, slot: u32) -> Next {
        self.0.retain(|w| w.0 != slot);
        Next::Send(slot)
    }

    fn any(&self, wanted: impl Fn(&Entry) -> bool) -> bool {
        self.0.iter().any(|w| wanted(&w.1))
    }

    /// The first for which `wanted` holds.
    fn first(&self, wanted: impl Fn(&Entry) -> bool) -> Option<(u32, Entry)> {
        self.0.iter().find(|w| wanted(&w.1)).copied()
    }
}

/// `deadline`: 16 of a class up the addresses; two batches of reads, then writes; the oldest when its time is up.
struct SlowDeadline {
    list: List,
    class: Class,
    left: u32,
    passed: u32,
    head: [u64; 2],
    expire: [Span; 2],
}

impl Scheduler for SlowDeadline {
    fn arrived(&mut self, slot: u32, pending: &PendingRequests, _now: Instant) {
        self.list.add(slot, pending);
    }

    fn next(&mut self, _pending: &PendingRequests, now: Instant) -> Next {
        let of = |class: Class| move |e: &Entry| e.class == class;
        let ahead = |list: &List, class: Class, head: u64| {
            let ahead = list.0.iter().filter(|w| w.1.class == class && w.1.start >= head);
            ahead.min_by_key(|w| (w.1.start, w.0)).copied()
        };
        let goes_on = ahead(&self.list, self.class, self.head[self.class as usize]).filter(|_| self.left > 0);
        let (slot, entry) = goes_on.unwrap_or_else(|| {
            let [reads, writes] = [Class::Read, Class::Write].map(|class| self.list.any(of(class)));
            self.class = if reads && !(writes && self.passed == 2) { Class::Read } else { Class::Write };
            self.passed = match self.class {
                Class::Read => self.passed + u32::from(writes),
                Class::Write => 0,
            };
            self.left = 16;
            let oldest = self.list.first(of(self.class)).unwrap();
            let is_late = oldest.1.arrived + self.expire[self.class as usize] <= now;
            let next = ahead(&self.list, self.class, self.head[self.class as usize]);
            next.filter(|_| !is_late).unwrap_or(oldest)
        });
        self.left -= 1;
        self.head[self.class as usize] = entry.end;
        self.list.take(slot)
    }
}

/// `cffq` and `cfq` without idling and quantum: players in a ring, each with its slice of time.
struct SlowTurns {
    list: List,
    /// Which player a request belongs to, and the slice of each.
    player: fn(&Entry) -> usize,
    slices: Vec<u64>,
    turn: Option<usize>,
    last: usize,
    by: By,
    /// By the clock: its end, once it has begun.
    end: Option<u64>,
    /// What is left, by cost or while the clock has not begun.
    left: i64,
    given: u64,
    over: Vec<u64>,
}

impl Scheduler for SlowTurns {
    fn arrived(&mut self, slot: u32, pending: &PendingRequests, _now: Instant) {
        self.list.add(slot, pending);
    }

    fn next(&mut self, _pending: &PendingRequests, now: Instant) -> Next {
        let player = self.player;
        let beyond = match self.end {
            Some(end) => now.0.checked_sub(end),
            None if self.left <= 0 => Some(self.left.unsigned_abs()),
            None => None,
        };
        if let (Some(turn), Some(beyond)) = (self.turn, beyond) {
            self.over[turn] = if self.by == By::Cost { beyond } else { beyond.min(self.given * 3 / 4) };
            self.turn = None;
        }
        if !self.turn.is_some_and(|turn| self.list.any(|e| player(e) == turn)) {
            let mut next = self.last;
            loop {
                next = (next + 1) % self.slices.len();
                if !self.list.any(|e| player(e) == next) {
                    continue;
                }
                if self.by == By::Clock || self.over[next] < self.slices[next] {
                    break;
                }
                self.over[next] -= self.slices[next];
            }
            (self.turn, self.last, self.given) = (Some(next), next, self.slices[next]);
            let most = if self.by == By::Cost { self.given } else { self.given * 3 / 4 };
            self.left = (self.given - self.over[next].min(most)) as i64;
            (self.over[next], self.end) = (0, None);
        }
        let turn = self.turn.unwrap();
        let (slot, entry) = self.list.first(|e| player(e) == turn).unwrap();
        if self.by == By::Cost {
            self.left -= entry.cost.0 as i64;
        }
        self.list.take(slot)
    }

    fn done(&mut self, entry: &Entry, _pending: &PendingRequests, now: Instant) {
        if self.by == By::Clock && self.turn == Some((self.player)(entry)) && self.end.is_none() {
            self.end = Some(now.0 + self.left as u64);
        }
    }
}

/// `vssd`: at each channel a tenant sends while it has credits; when none that waits has any, all are given new ones.
struct SlowVssd {
    list: List,
    tenants: usize,
    credits: Vec<Vec<i64>>,
    share: Vec<i64>,
    turn: Vec<usize>,
    out: Vec<u32>,
    first: usize,
    most: u32,
}

impl Scheduler for SlowVssd {
    fn arrived(&mut self, slot: u32, pending: &PendingRequests, _now: Instant) {
        self.list.add(slot, pending);
    }

    fn next(&mut self, _pending: &PendingRequests, _now: Instant) -> Next {
        let channels = self.turn.len();
        let of = |e: &Entry| e.lane as usize % channels;
        let ring: Vec<usize> = (0..channels).map(|step| (self.first + step) % channels).collect();
        for channel in ring {
            if self.out[channel] >= self.most || !self.list.any(|e| of(e) == channel) {
                continue;
            }
            loop {
                let tenants: Vec<usize> =
                    (0..self.tenants).map(|step| (self.turn[channel] + step) % self.tenants).collect();
                let found = tenants
                    .into_iter()
                    .filter(|&t| self.credits[channel][t] > 0)
                    .find_map(|t| self.list.first(|e| of(e) == channel && usize::from(e.tenant.0) == t));
                if let Some((slot, entry)) = found {
                    let tenant = usize::from(entry.tenant.0);
                    self.turn[channel] = tenant;
                    self.credits[channel][tenant] -= entry.cost.0 as i64;
                    self.out[channel] += 1;
                    self.first = (channel + 1) % channels;
                    return self.list.take(slot);
                }
                let new = self.credits[channel].iter_mut().zip(&self.share);
                new.for_each(|(credits, share)| *credits = (*credits).min(0) + share);
                self.turn[channel] = (self.turn[channel] + 1) % self.tenants;
            }
        }
        Next::Nothing
    }

    fn done(&mut self, entry: &Entry, _pending: &PendingRequests, _now: Instant) {
        let channels = self.turn.len();
        self.out[entry.lane as usize % channels] -= 1;
    }
}

/// Runs both under loads drawn by `seed`, and compares what they send.
fn agree<A: Scheduler, B: Scheduler>(seed: u64, weights: &[u16], quick: A, slow: B) {
    let mut rng = Rng::new(seed);
    let depth = 1 + rng.below(12) as u32;
    let loads: Vec<Load> = weights
        .iter()
        .map(|_| {
            let outstanding = 1 + rng.below(30) as u32;
            let load = if rng.below(2) == 0 { Load::reads(outstanding) } else { Load::writes(outstanding) };
            load.of((1 + rng.below(8)) * 4096).thinking(Span::from_us(rng.below(300)))
        })
        .collect();
    let (mut quick, mut slow) = (Rig::new(quick, weights).depth(depth), Rig::new(slow, weights).depth(depth));
    quick.run(&loads, 3000);
    slow.run(&loads, 3000);
    let differs = quick.sent.iter().zip(&slow.sent).position(|(a, b)| a != b);
    assert_eq!((differs, quick.sent.len()), (None, slow.sent.len()), "seed {seed}, depth {depth}, {loads:?}");
}

const WEIGHTS: [u16; 3] = [100, 300, 50];

fn weights() -> Weights {
    Weights([&[100], &WEIGHTS[..]].concat())
}

#[test]
fn deadline_sends_what_a_searched_list_sends() {
    for seed in 0..24 {
        let expire = [Span::from_us(700), Span::from_ms(4)];
        let config = DeadlineConfig { read_expire: expire[0], write_expire: expire[1], ..Default::default() };
        let (list, class, head) = (List::default(), Class::Read, [0; 2]);
        let slow = SlowDeadline { list, class, left: 0, passed: 0, head, expire };
        agree(seed, &WEIGHTS, Deadline::new(config), slow);
    }
}

#[test]
fn turns_send_what_a_searched_list_sends() {
    let slow = |by: By, player: fn(&Entry) -> usize, slices: Vec<u64>| {
        let players = slices.len();
        let (list, over) = (List::default(), vec![0; players]);
        SlowTurns {
            list,
            player,
            slices,
            turn: None,
            last: players - 1,
            by,
            end: None,
            left: 0,
            given: 0,
            over,
        }
    };
    let of = |slice: u64| weights().0.iter().map(|&w| slice * u64::from(w) / 100).collect::<Vec<_>>();
    for seed in 0..24 {
        let slice = Span::from_us(1500);
        let cffq = Cffq::new(CffqConfig { slice: Some(slice) }, weights(), OrderConfig::Fifo);
        agree(seed, &WEIGHTS, cffq, slow(By::Cost, |e| usize::from(e.tenant.0), of(slice.0)));
        let (slice_sync, slice_async) = (Span::from_ms(2), Span::from_ms(1));
        let classic = CfqConfig {
            slice_sync: Some(slice_sync),
            slice_async: Some(slice_async),
            slice_idle: Some(Span::ZERO),
            quantum: 99,
            ..Default::default()
        };
        let both = of(slice_sync.0).into_iter().zip(of(slice_async.0)).flat_map(|(a, b)| [a, b]).collect();
        let slow = slow(By::Clock, |e| 2 * usize::from(e.tenant.0) + e.class as usize, both);
        agree(seed, &WEIGHTS, Cfq::new(classic, weights(), OrderConfig::Fifo), slow);
    }
}

#[test]
fn credits_send_what_a_searched_list_sends() {
    for seed in 0..24 {
        let config = VssdConfig { channels: 3, credits: Span::from_us(500), channel_depth: 2 };
        let tenants = WEIGHTS.len() + 1;
        let share = weights().0.iter().map(|&w| 5000 * i64::from(w)).collect();
        let (credits, turn, out) = (vec![vec![0; tenants]; 3], vec![0; 3], vec![0; 3]);
        let slow = SlowVssd { list: List::default(), tenants, credits, share, turn, out, first: 0, most: 2 };
        agree(seed, &WEIGHTS, Vssd::new(config, weights()), slow);
    }
}
