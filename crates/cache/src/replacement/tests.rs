//! Every policy against an obvious one: vectors, searched from end to end.

use super::*;
use crate::directory::{Directory, Found};
use crate::map::Hashed;
use nandu_base::Rng;

mod segments;

/// Every policy of this crate, as every test draws it, under blocks that come, are met, are lost and come again: the directory
/// and the policy agree after each, and a cache that is full names a victim.
#[test]
fn every_declared_policy_keeps_the_invariants() {
    for declared in POLICIES {
        for draw in declared.draws {
            let table = toml::from_str(&draw.replace(", ", "\n")).expect("a drawn policy is TOML");
            let config =
                ReplacementConfig::new(declared.name, table).expect("a drawn policy has good options");
            let config = config.options().expect("it is of this crate");
            for seed in 0..30 {
                conformance::run(config, seed)
                    .unwrap_or_else(|v| panic!("{} {draw}, seed {seed}: {v}", declared.name));
            }
        }
    }
}

/// What an obvious policy does with an access to a page: whether it was there.
trait Obvious {
    fn meet(&mut self, page: u64) -> bool;
}

struct SlowLru(Vec<u64>, usize);

impl Obvious for SlowLru {
    fn meet(&mut self, page: u64) -> bool {
        let at = self.0.iter().position(|&p| p == page);
        match at {
            Some(at) => drop(self.0.remove(at)),
            None if self.0.len() == self.1 => drop(self.0.remove(0)),
            None => {}
        }
        self.0.push(page);
        at.is_some()
    }
}

/// From the oldest to the newest, with marks; the hand is the page where it starts.
struct SlowSieve {
    queue: Vec<(u64, bool)>,
    hand: Option<u64>,
    room: usize,
}

impl Obvious for SlowSieve {
    fn meet(&mut self, page: u64) -> bool {
        if let Some(entry) = self.queue.iter_mut().find(|e| e.0 == page) {
            entry.1 = true;
            return true;
        }
        if self.queue.len() == self.room {
            let mut at = self.hand.and_then(|h| self.queue.iter().position(|e| e.0 == h)).unwrap_or(0);
            while self.queue[at].1 {
                self.queue[at].1 = false;
                at = (at + 1) % self.queue.len();
            }
            self.hand = self.queue.get(at + 1).map(|e| e.0);
            self.queue.remove(at);
        }
        self.queue.push((page, false));
        false
    }
}

/// S3-FIFO with vectors: (page, meetings), the oldest first.
struct SlowS3 {
    small: Vec<(u64, u32)>,
    main: Vec<(u64, u32)>,
    ghosts: Vec<u64>,
    room: usize,
    /// Nothing had to go yet, and the small queue takes no more than its share.
    fills_main: bool,
}

impl SlowS3 {
    fn shed(&mut self) {
        while self.small.len() + self.main.len() >= self.room {
            if self.main.len() > self.room - self.room / 10 || self.small.is_empty() {
                let (page, met) = self.main.remove(0);
                if met > 0 {
                    self.main.push((page, met.min(3) - 1));
                }
                continue;
            }
            while !self.small.is_empty() {
                let (page, met) = self.small.remove(0);
                if met >= 2 {
                    self.main.push((page, 0));
                    continue;
                }
                if self.ghosts.len() == self.room * 9 / 10 {
                    self.ghosts.remove(0);
                }
                self.ghosts.push(page);
                break;
            }
        }
    }
}

impl Obvious for SlowS3 {
    fn meet(&mut self, page: u64) -> bool {
        if let Some(e) = self.small.iter_mut().chain(&mut self.main).find(|e| e.0 == page) {
            e.1 += 1;
            return true;
        }
        let ghost = self.ghosts.iter().position(|&g| g == page);
        if let Some(at) = ghost {
            self.ghosts.remove(at);
        }
        self.fills_main &= self.small.len() + self.main.len() < self.room;
        self.shed();
        let small_is_full = self.fills_main && self.small.len() >= self.room / 10;
        if ghost.is_some() || small_is_full { &mut self.main } else { &mut self.small }.push((page, 0));
        false
    }
}

/// ARC as in the paper's figure 4, with vectors, the oldest first.
#[derive(Default)]
struct SlowArc {
    t1: Vec<u64>,
    t2: Vec<u64>,
    b1: Vec<u64>,
    b2: Vec<u64>,
    p: f64,
    c: usize,
}

fn take(list: &mut Vec<u64>, page: u64) -> bool {
    let at = list.iter().position(|&p| p == page);
    at.map(|at| list.remove(at)).is_some()
}

impl SlowArc {
    fn replace(&mut self, in_b2: bool) {
        let t1 = self.t1.len() as f64;
        if !self.t1.is_empty() && (t1 > self.p || (in_b2 && t1 == self.p)) || self.t2.is_empty() {
            self.b1.push(self.t1.remove(0));
        } else {
            self.b2.push(self.t2.remove(0));
        }
    }
}

impl Obvious for SlowArc {
    fn meet(&mut self, page: u64) -> bool {
        if take(&mut self.t1, page) || take(&mut self.t2, page) {
            self.t2.push(page);
            return true;
        }
        let (b1, b2) = (self.b1.len() as f64, self.b2.len() as f64);
        if take(&mut self.b1, page) {
            self.p = (self.p + (b2 / b1).max(1.0)).min(self.c as f64);
            self.replace(false);
            self.t2.push(page);
            return false;
        }
        if take(&mut self.b2, page) {
            self.p = (self.p - (b1 / b2).max(1.0)).max(0.0);
            self.replace(true);
            self.t2.push(page);
            return false;
        }
        if self.t1.len() + self.b1.len() == self.c {
            if self.t1.len() < self.c {
                self.b1.remove(0);
                self.replace(false);
            } else {
                self.t1.remove(0);
            }
        } else if self.t1.len() + self.t2.len() + self.b1.len() + self.b2.len() >= self.c {
            if self.t1.len() + self.t2.len() + self.b1.len() + self.b2.len() == 2 * self.c {
                self.b2.remove(0);
            }
            if self.t1.len() + self.t2.len() == self.c {
                self.replace(false);
            }
        }
        self.t1.push(page);
        false
    }
}

fn meet<P: Replacement>(directory: &mut Directory<P, Hashed>, page: u64) -> bool {
    if directory.access(page, false) != Found::Absent {
        return true;
    }
    let recall = directory.announce(page, Cause::Read);
    assert!(directory.reserve(1, recall));
    directory.admit(page, 1, 0, Arrival { recall, ..Arrival::by(Cause::Read) });
    false
}

fn agree<P: Replacement>(make: impl Fn(usize) -> P, slow: impl Fn(usize) -> Box<dyn Obvious>) {
    for seed in 0..60 {
        let mut rng = Rng::new(seed);
        let room = rng.between(10, 40);
        let pages = room * rng.between(1, 6) + 1;
        let mut directory = Directory::new(0, room, make(room as usize), Hashed::new(0));
        let mut model = slow(room as usize);
        for step in 0..1500 {
            // Some pages more often than others.
            let page = rng.below(pages).min(rng.below(pages));
            let (fast, obvious) = (meet(&mut directory, page), model.meet(page));
            assert_eq!(fast, obvious, "seed {seed}, access {step} of page {page}");
        }
        directory.check().unwrap_or_else(|v| panic!("seed {seed}: {v}"));
    }
}

#[test]
fn lru_agrees_with_a_vector() {
    agree(Lru::new, |room| Box::new(SlowLru(Vec::new(), room)));
}

#[test]
fn sieve_agrees_with_a_vector() {
    agree(Sieve::new, |room| Box::new(SlowSieve { queue: Vec::new(), hand: None, room }));
}

#[test]
fn s3_fifo_agrees_with_vectors() {
    for fill in [Fill::Small, Fill::Main] {
        let slow = |room| SlowS3 {
            small: Vec::new(),
            main: Vec::new(),
            ghosts: Vec::new(),
            room,
            fills_main: fill == Fill::Main,
        };
        agree(|room| S3Fifo::new(room, fill), |room| Box::new(slow(room)));
    }
}

#[test]
fn arc_agrees_with_vectors() {
    agree(Arc::new, |room| Box::new(SlowArc { c: room, ..SlowArc::default() }));
}

/// What a page of the stack of LIRS is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Status {
    Lir,
    Hir,
    Gone,
}

/// LIRS as in section 3 of the paper, with vectors, the lowest first.
struct SlowLirs {
    stack: Vec<(u64, Status)>,
    queue: Vec<u64>,
    /// In the order in which they went.
    gone: Vec<u64>,
    room: usize,
}

impl SlowLirs {
    fn lirs(&self) -> usize {
        self.stack.iter().filter(|e| e.1 == Status::Lir).count()
    }

    fn most(&self) -> usize {
        self.room - (self.room / 100).max(1)
    }

    fn prune(&mut self) {
        while self.stack.first().is_some_and(|e| e.1 != Status::Lir) {
            let (page, _) = self.stack.remove(0);
            take(&mut self.gone, page);
        }
    }

    /// The page is LIR and on top; the lowest LIR page makes room for it.
    fn promote(&mut self, page: u64) {
        self.stack.push((page, Status::Lir));
        if self.lirs() > self.most() {
            let (lowest, _) = self.stack.remove(0);
            self.queue.push(lowest);
        }
        self.prune();
    }
}

impl Obvious for SlowLirs {
    fn meet(&mut self, page: u64) -> bool {
        let at = self.stack.iter().position(|e| e.0 == page);
        let in_queue = self.queue.contains(&page);
        let was = at.map(|at| self.stack.remove(at).1);
        match was {
            Some(Status::Lir) => {
                self.stack.push((page, Status::Lir));
                self.prune();
                return true;
            }
            Some(Status::Hir) => {
                take(&mut self.queue, page);
                self.promote(page);
                return true;
            }
            None if in_queue => {
                take(&mut self.queue, page);
                self.queue.push(page);
                self.stack.push((page, Status::Hir));
            }
            Some(Status::Gone) | None => {
                take(&mut self.gone, page);
                if self.lirs() + self.queue.len() == self.room {
                    let going = self.queue.remove(0);
                    if let Some(entry) = self.stack.iter_mut().find(|e| e.0 == going) {
                        entry.1 = Status::Gone;
                        self.gone.push(going);
                    }
                }
                if was.is_some() || self.lirs() < self.most() {
                    self.promote(page);
                } else {
                    self.queue.push(page);
                    self.stack.push((page, Status::Hir));
                }
            }
        }
        while self.stack.len() > 2 * self.room && !self.gone.is_empty() {
            let first = self.gone.remove(0);
            self.stack.retain(|e| e.0 != first);
        }
        in_queue
    }
}

#[test]
fn lirs_agrees_with_vectors() {
    let slow = |room| SlowLirs { stack: Vec::new(), queue: Vec::new(), gone: Vec::new(), room };
    agree(Lirs::new, |room| Box::new(slow(room)));
}

/// LeCaR as its authors' code has it, with vectors and powers of the system. What an expert let go: page, time, count.
struct SlowLecar {
    /// From the longest unused on: page, count, time of the count.
    pages: Vec<(u64, u32, u64)>,
    gone: [Vec<(u64, u64, u32)>; 2],
    weights: [f64; 2],
    rng: Rng,
    now: u64,
    room: usize,
}

impl Obvious for SlowLecar {
    fn meet(&mut self, page: u64) -> bool {
        self.now += 1;
        if let Some(at) = self.pages.iter().position(|p| p.0 == page) {
            let (_, count, _) = self.pages.remove(at);
            self.pages.push((page, count + 1, self.now));
            return true;
        }
        let mut count = 1;
        for expert in 0..2 {
            let Some(at) = self.gone[expert].iter().position(|g| g.0 == page) else { continue };
            let (_, since, met) = self.gone[expert].remove(at);
            count = met + 1;
            let discount = 0.005_f64.powf(1.0 / self.room as f64);
            self.weights[expert] *= (-0.45 * discount.powf((self.now - since) as f64)).exp();
            let sum: f64 = self.weights.iter().sum();
            self.weights = self.weights.map(|w| (w / sum).clamp(0.01, 0.99));
        }
        if self.pages.len() == self.room {
            let least =
                (0..self.room).min_by_key(|&at| (self.pages[at].1, self.pages[at].2)).expect("it is full");
            let drawn = (self.rng.bits() >> 11) as f64 / (1u64 << 53) as f64;
            let expert = usize::from(drawn >= self.weights[0]);
            let (page, met, _) = self.pages.remove([0, least][expert]);
            if least != 0 && self.room >= 2 {
                if self.gone[expert].len() == self.room / 2 {
                    self.gone[expert].remove(0);
                }
                self.gone[expert].push((page, self.now, met));
            }
        }
        self.pages.push((page, count, self.now));
        false
    }
}

#[test]
fn lecar_agrees_with_vectors() {
    let slow = |room| SlowLecar {
        pages: Vec::new(),
        gone: Default::default(),
        weights: [0.5; 2],
        rng: Rng::new(0),
        now: 0,
        room,
    };
    agree(Lecar::new, |room| Box::new(slow(room)));
}

/// SARC with vectors, the oldest first.
struct SlowSarc {
    seq: Vec<u64>,
    random: Vec<u64>,
    room: usize,
    target: usize,
    misses: usize,
}

impl SlowSarc {
    fn bottom(&self) -> usize {
        (self.room / 50).max(1)
    }

    /// Like [`Obvious::meet`]; `sequential` says whether the page follows the one before.
    fn meet(&mut self, page: u64, sequential: bool) -> bool {
        if take(&mut self.seq, page) {
            self.seq.push(page);
            return true;
        }
        if let Some(at) = self.random.iter().position(|&p| p == page) {
            if at < self.bottom() {
                let grows = 2 * self.misses * self.bottom() > self.seq.len();
                self.target =
                    if grows { (self.target + 1).min(self.room) } else { self.target.saturating_sub(1) };
                self.misses = 0;
            }
            self.random.remove(at);
            self.random.push(page);
            return true;
        }
        if self.seq.len() + self.random.len() == self.room {
            let (seq, random) = (self.seq.len() > self.bottom(), self.random.len() > self.bottom());
            let from_seq = match (seq, random) {
                (true, true) => self.seq.len() > self.target,
                (false, false) => self.seq.len() >= self.random.len(),
                (only_seq, _) => only_seq,
            };
            if from_seq { &mut self.seq } else { &mut self.random }.remove(0);
        }
        self.misses += usize::from(sequential);
        if sequential { &mut self.seq } else { &mut self.random }.push(page);
        false
    }
}

#[test]
fn sarc_agrees_with_vectors() {
    for seed in 0..60 {
        let mut rng = Rng::new(seed);
        let room = rng.between(10, 160);
        let pages = room * rng.between(1, 4) + 1;
        let mut directory = Directory::new(0, room, Sarc::new(room as usize), Hashed::new(0));
        let (seq, random) = (Vec::new(), Vec::new());
        let mut model = SlowSarc { seq, random, room: room as usize, target: 0, misses: 0 };
        let mut page = 0;
        for step in 0..4000 {
            let sequential = rng.below(3) > 0;
            page = if sequential { (page + 1) % pages } else { rng.below(pages).min(rng.below(pages)) };
            let arrival = Arrival { sequential, ..Arrival::by(Cause::Read) };
            let found = directory.demand_block(page, arrival) != Found::Absent;
            assert_eq!(found, model.meet(page, sequential), "seed {seed}, access {step} of page {page}");
        }
        directory.check().unwrap_or_else(|v| panic!("seed {seed}: {v}"));
    }
}
