//! What waits for what: each rule by itself, and all of them against a list that is searched every time.

mod ordered;

use super::*;
use nandu_base::{Rng, Work};

/// Two dies; every operation takes a time of its own.
struct Bed {
    queue: Queued,
    now: Instant,
    free_at: [Instant; 2],
    serial: u32,
    /// Number, begin and end of each operation that ran.
    ran: Vec<(u64, u64, u64)>,
}

const PAGES: u32 = 4;

fn span(job: Job) -> u64 {
    match job {
        Job::Read | Job::PreRead | Job::MoveRead => 3,
        Job::Erase => 30,
        _ => 10,
    }
}

impl Bed {
    /// `planes` planes in each of two dies.
    fn new(planes: u32, max_read_bypass: u32) -> Bed {
        let layout = Layout::new(2 * planes, 8, PAGES).unwrap();
        let queue = Queued::new(&layout, planes.trailing_zeros(), 1, max_read_bypass);
        Bed { queue, now: Instant::ZERO, free_at: [Instant::ZERO; 2], serial: 0, ran: Vec::new() }
    }

    /// Dies without lines: they take what nothing stands before, as it comes.
    fn without_lines() -> Bed {
        let bed = Bed::new(1, 0);
        let queue = Queued::without_lines(bed.queue.layout(), 0, 1);
        Bed { queue, ..bed }
    }

    /// The page at this position of a block of a plane.
    fn ppn(&self, plane: u32, block: u32, page: u32) -> Ppn {
        let layout = self.queue.layout();
        let first = layout.first_block(plane).0 + block;
        Ppn(layout.first_page(BlockId(first)).0 + page)
    }

    fn order(&mut self) -> Order {
        self.serial += 1;
        self.order_after(After::at(self.now))
    }

    fn order_after(&self, after: After) -> Order {
        let (now, cause, serial) = (self.now, TenantId::SYSTEM, self.serial);
        Order { now, after, map_at: now, work: Work::Read, cause, answer: NONE, serial }
    }

    fn read(&mut self, ppn: Ppn) -> u64 {
        let order = self.order();
        let at = self.queue.read(Job::Read, &order, Page::read(ppn, 0));
        self.queue.node(at).number
    }

    fn program(&mut self, ppn: Ppn, older: Option<Ppn>) -> u64 {
        let order = self.order();
        let at = self.queue.program(Job::Program, &order, Page::read(ppn, 0), NONE, older);
        self.queue.node(at).number
    }

    /// Writes part of a page: the old version is read first.
    fn program_part(&mut self, ppn: Ppn, older: Ppn) -> u64 {
        let order = self.order();
        let read = self.queue.read(Job::PreRead, &order, Page::read(older, 0));
        let at = self.queue.program(Job::Program, &order, Page::read(ppn, 0), read, Some(older));
        self.queue.node(at).number
    }

    fn erase(&mut self, ppn: Ppn) -> u64 {
        let block = self.queue.layout().block(ppn);
        let order = self.order_after(After::at(self.now));
        self.queue.erase_all(std::iter::once(block), false, &order);
        self.queue.number
    }

    /// Lets every die that is free begin.
    fn serve(&mut self) {
        self.queue.commit();
        while let Some((at, ready)) = self.queue.next_soon(self.now) {
            assert_eq!(ready, self.now, "it has its time when it is ready");
            let Node { job, number, die, .. } = *self.queue.node(at);
            let start = self.free_at[die as usize].later(ready);
            let end = start + Span(span(job));
            self.free_at[die as usize] = end;
            self.ran.push((number, start.0, end.0));
            self.queue.served(at, &PageTime { start, end, ..PageTime::done(start) });
        }
        for die in 0..2 {
            while self.queue.has_lines() && self.free_at[die] <= self.now {
                let Some(at) = self.queue.next(die as u32, self.now) else { break };
                let Node { job, number, .. } = *self.queue.node(at);
                let end = self.now + Span(span(job));
                self.free_at[die] = end;
                self.ran.push((number, self.now.0, end.0));
                let time = PageTime { start: self.now, end, ..PageTime::done(self.now) };
                self.queue.served(at, &time);
            }
        }
        self.queue.touched.clear();
    }

    /// Lets `ns` pass.
    fn pass(&mut self, ns: u64) {
        for _ in 0..ns {
            self.serve();
            self.now.0 += 1;
        }
    }

    fn finish(&mut self) {
        while self.queue.outstanding() > 0 {
            self.pass(1);
            assert!(self.now.0 < 1_000_000, "something waits for ever");
        }
        assert!(self.queue.is_clean());
    }

    fn begin(&self, number: u64) -> u64 {
        self.ran.iter().find(|r| r.0 == number).expect("it ran").1
    }

    fn end(&self, number: u64) -> u64 {
        self.ran.iter().find(|r| r.0 == number).expect("it ran").2
    }
}

/// A read of two planes waits for a program in one of them that waits for another die; meanwhile the block in the other
/// plane has become free.
#[test]
fn an_erase_waits_for_reads_of_its_block() {
    let mut bed = Bed::new(2, 16);
    let (mine, other) = (bed.ppn(0, 0, 0), bed.ppn(1, 0, 0));
    // Die 1 is busy for long, and the program of `other` waits for a read there.
    let far = bed.ppn(2, 5, 0);
    bed.erase(bed.ppn(2, 1, 0));
    bed.serve();
    bed.program_part(other, far);
    let order = bed.order();
    let read = bed.queue.read(Job::Read, &order, Page::read(mine, 0));
    assert_eq!(bed.queue.read(Job::Read, &order, Page::read(other, 0)), read, "the pages share a read");
    let read = bed.queue.node(read).number;
    let erase = bed.erase(mine);
    bed.finish();
    assert!(bed.begin(erase) >= bed.end(read));
}

#[test]
fn an_erase_waits_for_the_newer_versions_of_its_pages() {
    let mut bed = Bed::new(1, 16);
    bed.erase(bed.ppn(1, 1, 0));
    bed.serve();
    // Die 1 is busy, die 0 is not.
    let newer = bed.program(bed.ppn(1, 0, 0), Some(bed.ppn(0, 0, 0)));
    let erase = bed.erase(bed.ppn(0, 0, 0));
    bed.finish();
    assert!(bed.begin(erase) >= bed.end(newer));
    // Nothing waits any more when the erase comes, but the program has not ended.
    let newer = bed.program(bed.ppn(1, 0, 1), Some(bed.ppn(0, 2, 0)));
    bed.serve();
    let erase = bed.erase(bed.ppn(0, 2, 0));
    bed.finish();
    assert!(bed.begin(erase) >= bed.end(newer));
}

#[test]
fn an_erase_waits_for_trim_records_under_way() {
    for serve_between in [false, true] {
        let mut bed = Bed::new(1, 16);
        if !serve_between {
            bed.erase(bed.ppn(1, 1, 0));
        }
        bed.serve();
        let order = bed.order();
        let page = Page::read(bed.ppn(1, 0, 0), 0);
        let record = bed.queue.program(Job::Record, &order, page, NONE, None);
        let record = bed.queue.node(record).number;
        if serve_between {
            bed.serve();
        }
        let erase = bed.erase(bed.ppn(0, 0, 0));
        bed.finish();
        assert!(bed.begin(erase) >= bed.end(record));
    }
}

#[test]
fn an_erase_waits_for_all_before_it_where_a_record_was_given_up() {
    let mut bed = Bed::new(1, 16);
    bed.erase(bed.ppn(1, 1, 0));
    let last = bed.program(bed.ppn(1, 0, 0), None);
    bed.queue.keep_until_all_is_done(bed.ppn(0, 0, 0), bed.now);
    let erase = bed.erase(bed.ppn(0, 0, 0));
    bed.finish();
    assert!(bed.begin(erase) >= bed.end(last));
}

#[test]
fn pages_of_a_block_are_programmed_in_order() {
    let mut bed = Bed::new(1, 16);
    bed.erase(bed.ppn(1, 1, 0));
    bed.serve();
    // The first page waits for a read on die 1, which is busy; the second has its data.
    let first = bed.program_part(bed.ppn(0, 0, 0), bed.ppn(1, 5, 0));
    let second = bed.program(bed.ppn(0, 0, 1), None);
    let elsewhere = bed.program(bed.ppn(0, 1, 0), None);
    bed.finish();
    assert!(bed.begin(second) >= bed.end(first));
    assert!(bed.begin(elsewhere) < bed.begin(first), "another block does not wait");
}

#[test]
fn a_block_is_opened_when_the_erases_before_are_done() {
    let mut bed = Bed::new(1, 16);
    bed.erase(bed.ppn(1, 1, 0));
    bed.serve();
    bed.program(bed.ppn(1, 0, 0), Some(bed.ppn(0, 0, 0)));
    let erase = bed.erase(bed.ppn(0, 0, 0));
    let opens = bed.program(bed.ppn(0, 3, 0), None);
    bed.finish();
    assert!(bed.begin(opens) >= bed.end(erase));
}

#[test]
fn a_read_follows_the_program_of_its_page() {
    let mut bed = Bed::new(1, 1000);
    bed.erase(bed.ppn(1, 1, 0));
    bed.serve();
    let program = bed.program_part(bed.ppn(0, 0, 0), bed.ppn(1, 5, 0));
    let read = bed.read(bed.ppn(0, 0, 0));
    bed.finish();
    assert!(bed.begin(read) >= bed.end(program));
}

/// The place of an operation that has run is free: the next page of the request does not go there.
#[test]
fn a_page_joins_no_operation_that_has_run() {
    for job in [Job::Read, Job::MoveRead] {
        let mut bed = Bed::new(2, 0);
        bed.queue = Queued::without_lines(bed.queue.layout(), 1, 1);
        let order = bed.order();
        for plane in [0, 1] {
            bed.queue.read(job, &order, Page::read(bed.ppn(plane, 0, 0), 0));
            bed.serve();
        }
        bed.finish();
        assert_eq!(bed.ran.len(), 2, "{job:?}");
    }
}

/// An operation of the model, with everything that the rules speak of.
#[derive(Clone, Copy, Debug)]
struct Plain {
    number: u64,
    job: Job,
    ppn: Ppn,
    older: Option<Ppn>,
    /// Number of the read that brings its data.
    after: u64,
    /// When it was issued.
    came: u64,
    /// When nothing stood before it any more.
    ready: u64,
    end: Option<u64>,
}

/// The obvious scheduler: a list of all operations there ever were, searched at every instant.
struct Slow {
    layout: Layout,
    all: Vec<Plain>,
    free_at: [u64; 2],
    overtaken: [u32; 2],
    max_read_bypass: u32,
    /// Whether dies take what came to be ready first.
    is_fifo: bool,
    ran: Vec<(u64, u64, u64)>,
}

impl Slow {
    /// Whether `b` must wait for `a`, which is older.
    fn waits(&self, a: &Plain, b: &Plain) -> bool {
        let block = |ppn| self.layout.block(ppn);
        let plane = |ppn| self.layout.plane(ppn);
        let same_block = block(a.ppn) == block(b.ppn);
        let opens = self.layout.page(b.ppn) == 0;
        match b.job {
            Job::Erase => {
                same_block
                    || a.older.is_some_and(|older| block(older) == block(b.ppn))
                    || a.job == Job::Record
                    || a.job == Job::Erase && plane(a.ppn) == plane(b.ppn)
            }
            Job::Read | Job::PreRead => a.ppn == b.ppn && matches!(a.job, Job::Program | Job::Record),
            _ => {
                let erases = a.job == Job::Erase && (same_block || opens && plane(a.ppn) == plane(b.ppn));
                let below = same_block && matches!(a.job, Job::Program | Job::Record);
                a.number == b.after || erases || below
            }
        }
    }

    fn serve(&mut self, now: u64) {
        for die in 0..2 {
            while self.free_at[die] <= now {
                let Some(at) = self.choose(die, now) else { break };
                let end = now + span(self.all[at].job);
                self.all[at].end = Some(end);
                self.free_at[die] = end;
                self.ran.push((self.all[at].number, now, end));
            }
        }
    }

    fn choose(&mut self, die: usize, now: u64) -> Option<usize> {
        let can = |b: &Plain| {
            let older = self.all.iter().filter(|a| a.number < b.number);
            let mut waits = older.filter(|a| a.end.is_none_or(|end| end > now) && self.waits(a, b));
            b.end.is_none() && self.layout.plane(b.ppn) as usize == die && waits.next().is_none()
        };
        if self.is_fifo {
            // What has its time on the same die already is in front of it there, and no reason to come later.
            let stays = |a: &Plain, b: &Plain| {
                let same_block = self.layout.block(a.ppn) == self.layout.block(b.ppn);
                let is_read = matches!(a.job, Job::Read | Job::PreRead) && same_block;
                let is_newer =
                    a.older.is_some_and(|older| self.layout.block(older) == self.layout.block(b.ppn));
                b.job == Job::Erase && (is_read || is_newer || a.job == Job::Record)
            };
            let ready = |b: &Plain| {
                let older = self.all.iter().filter(|a| a.number < b.number && self.waits(a, b));
                let older = older.filter(|a| a.ready >= b.came || stays(a, b));
                older.filter_map(|a| a.end).max().unwrap_or(0).max(b.came)
            };
            let of_die = (0..self.all.len()).filter(|&at| can(&self.all[at]));
            let first = of_die.map(|at| (ready(&self.all[at]), self.all[at].number, at)).min()?;
            self.all[first.2].ready = first.0;
            return Some(first.2);
        }
        let oldest = |read: bool| self.all.iter().position(|b| (b.job == Job::Read) == read && can(b));
        match (oldest(true), oldest(false)) {
            (Some(read), Some(other)) if read > other => {
                if self.overtaken[die] < self.max_read_bypass {
                    self.overtaken[die] += 1;
                    return Some(read);
                }
                self.overtaken[die] = 0;
                Some(other)
            }
            (None, Some(other)) => {
                self.overtaken[die] = 0;
                Some(other)
            }
            (read, _) => read,
        }
    }
}

/// Random operations with one plane to a die, where nothing is joined. Blocks are filled in order; a full block may be
/// erased, and from then on its pages are not read.
#[test]
fn all_rules_agree_with_a_list_that_is_searched() {
    (0..300).for_each(|seed| agrees_with_a_list(seed, false));
}

/// The executor `fcfs`: what nothing stands before takes its die in the order in which it came to be so, and no die stands still for
/// anything else.
#[test]
fn dies_without_lines_agree_with_a_list_that_is_searched() {
    (0..600).for_each(|seed| agrees_with_a_list(seed, true));
}

fn agrees_with_a_list(seed: u64, is_fifo: bool) {
    {
        let mut rng = Rng::new(seed);
        let max_read_bypass = rng.below(4) as u32;
        let mut bed = if is_fifo { Bed::without_lines() } else { Bed::new(1, max_read_bypass) };
        let layout = *bed.queue.layout();
        let mut slow = Slow {
            layout,
            all: Vec::new(),
            free_at: [0; 2],
            overtaken: [0; 2],
            max_read_bypass,
            is_fifo,
            ran: Vec::new(),
        };
        // Pages programmed in each block of each plane.
        let mut filled = [[0u32; 8]; 2];
        for _ in 0..120 {
            let (plane, block) = (rng.below(2) as usize, rng.below(8) as usize);
            let used = filled[plane][block];
            let ppn = bed.ppn(plane as u32, block as u32, used.min(PAGES - 1));
            let (other, page) = (rng.below(8) as usize, rng.below(4) as u32);
            let older =
                (page < filled[1 - plane][other]).then(|| bed.ppn(1 - plane as u32, other as u32, page));
            let came = bed.now.0;
            let plain =
                |number, job| Plain { number, job, ppn, older: None, after: 0, came, ready: 0, end: None };
            match rng.below(10) {
                0..=3 if used > 0 => {
                    let ppn = Ppn(layout.first_page(layout.block(ppn)).0 + rng.below(used.into()) as u32);
                    let number = bed.read(ppn);
                    slow.all.push(Plain { ppn, ..plain(number, Job::Read) });
                }
                4 if used == PAGES => {
                    filled[plane][block] = 0;
                    let number = bed.erase(ppn);
                    slow.all.push(plain(number, Job::Erase));
                }
                5 if used < PAGES && older.is_some() => {
                    filled[plane][block] += 1;
                    let older = older.expect("it was looked at");
                    let number = bed.program_part(ppn, older);
                    slow.all.push(Plain { ppn: older, ..plain(number - 1, Job::PreRead) });
                    let part = plain(number, Job::Program);
                    slow.all.push(Plain { older: Some(older), after: number - 1, ..part });
                }
                6 if used < PAGES && rng.below(4) == 0 => {
                    filled[plane][block] += 1;
                    let order = bed.order();
                    let at = bed.queue.program(Job::Record, &order, Page::read(ppn, 0), NONE, None);
                    slow.all.push(plain(bed.queue.node(at).number, Job::Record));
                }
                _ if used < PAGES => {
                    filled[plane][block] += 1;
                    let number = bed.program(ppn, older);
                    slow.all.push(Plain { older, ..plain(number, Job::Program) });
                }
                _ => {}
            }
            if rng.below(3) == 0 {
                bed.queue.commit();
                for _ in 0..rng.below(20) {
                    slow.serve(bed.now.0);
                    bed.pass(1);
                }
            }
        }
        while bed.queue.outstanding() > 0 {
            slow.serve(bed.now.0);
            bed.pass(1);
            assert!(bed.now.0 < 100_000, "seed {seed}: something waits for ever");
        }
        assert!(bed.queue.is_clean(), "seed {seed}");
        // Operations have their times ahead.
        while slow.all.iter().any(|plain| plain.end.is_none()) {
            slow.serve(bed.now.0);
            bed.now.0 += 1;
            assert!(bed.now.0 < 100_000, "seed {seed}: something waits for ever");
        }
        if is_fifo {
            bed.ran.sort_unstable();
            slow.ran.sort_unstable();
        }
        assert_eq!(bed.ran, slow.ran, "seed {seed}");
    }
}
