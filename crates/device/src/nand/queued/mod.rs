//! Operations that wait. With the die scheduler `fcfs` one waits until nothing stands before it, and takes its die then; with `out-of-order`
//! each waits in the line of its die, and the die chooses.
//!
//! A request decides at once what it does (which pages it takes, what is moved, which block is erased). With lines, when each
//! operation runs is decided when its die is free. The die wakes once per operation and takes the next one: reads of the
//! host and of the map first, at most `max_read_bypass` of them before an older operation of another kind, and everything else in the
//! order of issue (see `choose`). An operation that runs takes its time from [`Lanes`](super::Lanes), as with `fcfs`.
//!
//! *What waits for what.* Each operation counts what must be done before it may begin, and each that runs tells those
//! that wait for it when it ends. They wait
//!
//! - a program: for the program of the page below it in its block, or the erase of the block; for the read that brings
//!   its data (pages that move, pages of which a part is written); the first of a block also for all erases in its plane so
//!   far (in its group of planes, where blocks are erased together), or a power cut could find the erased blocks used up and none to
//!   move pages to; so does every program where the host's pages and moved ones share blocks, for those could fill the last block;
//! - a read: for the program of its page;
//! - an erase: for the one before in its plane and the last program of its block; for all reads of the block; for the newer versions of its pages; for the
//!   records of all trims so far, and where a record itself was given up, for everything issued before;
//! - an answer: for all operations of its request.
//!
//! Where pools keep their order (`keep_order`), as a log-block map needs, all that changes a pool is done in the order of issue; a pool is a plane, or the part
//! of one that a tenant has.
//!
//! Whatever waits is younger than what it waits for, so nothing waits in a circle.
//!
//! *Erases.* An operation that an erase of a block would have to wait for *holds* the block: how many do is counted. An erase that is
//! issued waits for the count of its block; when nothing is left to wait for before that, the time when the last was complete is kept.
//!
//! *Tenants*: a die may serve by share instead; see `fair`.
//!
//! *Suspension*: an operation that runs may stand still while its die reads; see `suspend`.
//!
//! *Multi-plane rule*: as with `fcfs`, pages of one request at the same position in different planes of a die share an
//! operation, here as long as nothing that was issued since stands before the page.
//!
//! Own design; a read queue before a write queue is what drives have (MQSim's out-of-order scheduler, for one). RAM: 4 bytes
//! per physical page and 20 per block, where touched; 170 bytes per operation that waits.

mod choose;
mod fair;
mod node;
mod shares;
mod suspend;

pub(crate) use fair::{Costs, Fair};
pub(crate) use node::{After, Detail, Job, NONE, Node, Order, Page};
pub(crate) use suspend::{Running, Suspending};

use super::PageTime;
use super::lanes::SLC_POSITION;
use choose::Line;
use fair::Coming;
use nandu_base::{Instant, ReqId, Span, TenantId};
use nandu_ftl::{BlockId, Layout, Ppn};
use nandu_queue::tally::Tally;
use node::{Hold, Nodes};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The operation of a die that more pages may join.
#[derive(Clone, Copy, Debug, Default)]
struct Open {
    node: u32,
    serial: u32,
    position: u32,
    planes: u32,
}

/// Garbage collection on a die so far.
#[derive(Clone, Copy, Debug, Default)]
struct GcTime {
    total: Span,
    end: Instant,
}

/// What changes a plane that keeps its order.
#[derive(Clone, Copy, Debug)]
struct Changes {
    /// The last that waits, and how many do.
    last: u32,
    count: u32,
    /// When those that do not are complete.
    until: Instant,
}

/// Where a page is read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source {
    pub ppn: Ppn,
    /// What it waits for: the program of the page.
    pub after: u32,
    /// The move that waits for it.
    mover: u32,
}

/// One die.
#[derive(Debug, Default)]
struct Die {
    line: Line,
    /// In place of the line where tenants have shares.
    fair: Option<Box<Fair>>,
    open: Open,
    gc: GcTime,
    /// The operation that runs and may be suspended.
    running: Option<Running>,
    /// When the die is woken next.
    armed: Option<Instant>,
}

/// All operations that wait.
#[derive(Debug)]
pub(crate) struct Queued {
    nodes: Nodes,
    dies: Vec<Die>,
    layout: Layout,
    plane_bits: u32,
    /// Planes of a group whose blocks are erased and opened together.
    together: u32,
    max_read_bypass: u32,
    /// Whether every operation waits in the line of its die. Otherwise only what depends on another waits, and takes the die
    /// as soon as it does not.
    has_lines: bool,
    /// Without lines: what nothing stands before but its time.
    soon: BinaryHeap<Reverse<(Instant, u64, u32)>>,
    /// When the executor is woken next.
    soon_armed: Option<Instant>,
    /// Nothing else comes in between: operations have their times as soon as they are issued.
    is_alone: bool,
    /// Planted: they always have, and keep their die meanwhile.
    pub prices_at_issue: bool,
    /// Erases that wait.
    erases: u32,
    /// Pages that move and blocks that are erased, of pools that keep their order, while their operations wait.
    moves: u32,
    /// What operations cost, where tenants have shares.
    costs: Option<Costs>,
    /// How long a scheduler leaves a die idle at most.
    patience: Span,
    /// What each tenant was given.
    tally: Tally,
    suspending: Option<Suspending>,
    pub suspensions: suspend::Counts,
    /// The program of a page that waits.
    writer: Vec<u32>,
    /// The last operation of a block that waits and changes it.
    tail: Vec<u32>,
    /// The last erase of a plane that waits, or of a pool where pools keep their order.
    last_erase: Vec<u32>,
    /// Of each pool, where all that changes it is done in the order of issue; empty where it is not.
    changes: Vec<Changes>,
    /// The pool of each block, likewise.
    pools: Vec<u32>,
    /// What holds a block, for the erase that is to come.
    held: Vec<u32>,
    /// When the last operation ends that held a block, in ns.
    safe_at: Vec<u64>,
    /// Records of the trim journal that wait.
    records: Vec<u32>,
    /// When those that do not wait are complete.
    recorded_at: Instant,
    /// Made since the last commit.
    fresh: Vec<u32>,
    /// Dies that may have something to do.
    pub touched: Vec<u32>,
    /// Answers that have their time.
    pub done: Vec<u32>,
    number: u64,
    /// Operations that wait.
    outstanding: u32,
    /// The same, and one more where all of them do, or where pages are not all alike.
    is_watchful: u32,
    /// The host's pages and moved ones share blocks: every program waits for the erases of its plane, as the first of a block does.
    pub follows_erases: bool,
    /// Fault to plant: an erase does not wait for reads of its block and goes ahead of everything.
    pub erase_before_reads: bool,
    /// Fault to plant: an erase does not wait for records.
    pub erase_before_record: bool,
    /// Fault to plant: an erase does not wait for newer versions and records.
    pub erase_too_early: bool,
    /// Fault to plant: now and then what comes to a die that serves by share is lost.
    pub forgets: bool,
    /// Fault to plant: now and then a die with lines is woken late.
    pub wakes_late: bool,
}

impl Queued {
    /// Of a drive of this shape whose dies take operations as they come; see [`Queued::new`]. Tables are made when the first of
    /// them waits.
    pub fn without_lines(layout: &Layout, plane_bits: u32, together: u32) -> Queued {
        Queued { plane_bits, together, ..Queued::unused(*layout) }
    }

    #[inline]
    fn need_tables(&mut self) {
        if self.tail.is_empty() {
            self.make_tables();
        }
    }

    #[cold]
    fn make_tables(&mut self) {
        let layout = *self.layout();
        let blocks = layout.block_end() as usize;
        self.dies = (0..layout.planes >> self.plane_bits).map(|_| Die::default()).collect();
        self.writer = vec![NONE; layout.ppn_end() as usize];
        self.tail = vec![NONE; blocks];
        self.last_erase = vec![NONE; self.changes.len().max(layout.planes as usize)];
        self.held = vec![NONE; blocks];
        self.safe_at = vec![0; blocks];
    }

    /// One without anything.
    fn unused(layout: Layout) -> Queued {
        Queued {
            nodes: Nodes::new(),
            dies: Vec::new(),
            layout,
            plane_bits: 0,
            together: 1,
            max_read_bypass: 0,
            has_lines: false,
            soon: BinaryHeap::new(),
            soon_armed: None,
            is_alone: false,
            prices_at_issue: false,
            erases: 0,
            moves: 0,
            costs: None,
            patience: Span::ZERO,
            tally: Tally::new(0),
            suspending: None,
            suspensions: suspend::Counts::default(),
            writer: Vec::new(),
            tail: Vec::new(),
            last_erase: Vec::new(),
            changes: Vec::new(),
            pools: Vec::new(),
            held: Vec::new(),
            safe_at: Vec::new(),
            records: Vec::new(),
            recorded_at: Instant::ZERO,
            fresh: Vec::new(),
            touched: Vec::new(),
            done: Vec::new(),
            number: 0,
            outstanding: 0,
            is_watchful: 0,
            follows_erases: false,
            erase_before_reads: false,
            erase_before_record: false,
            erase_too_early: false,
            forgets: false,
            wakes_late: false,
        }
    }

    /// Empty queues for a drive of this shape, with `1 << plane_bits` planes in a die, where the blocks of `together` planes
    /// that follow each other are erased and opened as one.
    pub fn new(layout: &Layout, plane_bits: u32, together: u32, max_read_bypass: u32) -> Queued {
        let mut queued = Queued {
            max_read_bypass,
            has_lines: true,
            is_watchful: 1,
            ..Queued::without_lines(layout, plane_bits, together)
        };
        queued.make_tables();
        queued
    }

    /// All that changes a pool is done in the order of issue from here on; `pools` has the pool of each block, which lies in one plane.
    pub fn keep_order(&mut self, pools: Vec<u32>) {
        let none = Changes { last: NONE, count: 0, until: Instant::ZERO };
        let count = pools.iter().max().map_or(0, |&last| last as usize + 1);
        self.changes = vec![none; count];
        self.pools = pools;
        if !self.last_erase.is_empty() {
            self.last_erase = vec![NONE; count];
        }
    }

    /// The pool of a block where pools keep their order; its plane elsewhere. Asked for erases and for first pages.
    #[inline(never)]
    fn pool_of(&self, block: u32) -> usize {
        match self.pools.is_empty() {
            true => self.layout().plane_of_block(BlockId(block)) as usize,
            false => self.pools[block as usize] as usize,
        }
    }

    /// Whether it is.
    pub fn keeps_order(&self) -> bool {
        !self.changes.is_empty()
    }

    /// Whether garbage collection waits for its turn anywhere.
    pub fn any_move_waits(&self) -> bool {
        self.moves > 0
    }

    /// A node also waits for all that changes a pool so far.
    pub fn after_changes(&mut self, pool: u32, later: u32) {
        let Changes { last, until, .. } = self.changes[pool as usize];
        self.not_before(later, until);
        if last != NONE {
            // What it waits for is not its own: that must not explain it.
            let barrier = self.make(Job::Barrier, 0, until, TenantId::SYSTEM);
            self.nodes.link(last, barrier);
            self.nodes.link(barrier, later);
        }
    }

    /// Whether anything that changes a pool is not complete.
    pub fn is_changing(&self, pool: u32, now: Instant) -> bool {
        let Changes { last, until, .. } = self.changes[pool as usize];
        last != NONE || until > now
    }

    /// Operations that wait and change a pool.
    pub fn changes_of(&self, pool: u32) -> u32 {
        self.changes[pool as usize].count
    }

    /// Whether operations may have to wait that nothing is known of yet but their page.
    #[inline(always)]
    pub fn holds_back(&self) -> bool {
        self.is_watchful != 0
    }

    /// Pages are not all alike, so that each is looked at before it goes to its die.
    pub fn watch_each(&mut self) {
        self.is_watchful += 1;
    }

    /// Whether operations wait in lines: not while the drive stands still.
    #[inline]
    pub fn has_lines(&self) -> bool {
        self.has_lines && !self.is_alone
    }

    /// Whether nothing else comes in between, so that operations have their times as soon as they are issued.
    #[inline]
    pub fn is_alone(&self) -> bool {
        self.is_alone
    }

    /// Nothing else comes in between from here on, or may again. What stood in lines has its time by then.
    pub fn set_alone(&mut self, is_alone: bool) {
        self.touched.clear();
        self.is_alone = is_alone;
    }

    /// The die that begins its next operation first, free from these moments, and when it does.
    pub fn first_die(&self, free_at: impl Fn(u32) -> Instant) -> Option<(Instant, u32)> {
        let begins = |(at, die): (u32, &Die)| {
            let earliest = die.fair.as_ref().map_or_else(|| die.line.earliest(), |fair| fair.earliest());
            Some((earliest?.later(free_at(at)), at))
        };
        (0..).zip(&self.dies).filter_map(begins).min()
    }

    /// Whether the program of the page waits.
    pub fn writer_waits(&self, ppn: Ppn) -> bool {
        self.outstanding > 0 && self.writer[ppn.0 as usize] != NONE
    }

    /// Where a page can be read that lies at `ppn` or will lie there: where it is to move from, while its move waits for another. The
    /// page that is named there may be one that will be erased and programmed again.
    pub fn source_of(&self, ppn: Ppn) -> Source {
        let after = self.writer.get(ppn.0 as usize).copied().unwrap_or(NONE);
        let mut source = Source { ppn, after, mover: NONE };
        while self.keeps_order() {
            let Node { job: Job::MoveWithin, waits: 1.., first_page, block: before, number, .. } =
                self.nodes[source.after]
            else {
                break;
            };
            let is_waiting = (1..number).contains(&self.nodes[before].number);
            let ppn = self.nodes.page(first_page).base.expect("a page moves from somewhere");
            source = Source { ppn, after: if is_waiting { before } else { NONE }, mover: source.after };
        }
        source
    }

    /// A program follows a read that has its time already.
    pub fn was_read_before(&mut self, node: u32, time: PageTime, slc: bool) {
        let detail = self.nodes.detail_mut(node);
        (detail.pre_read, detail.pre_read_slc) = (Some(time), slc);
        self.nodes[node].pre_read_slc = slc;
    }

    /// Whether a read of the page waits for its die's turn, or for the program of the page.
    pub fn read_waits(&self, ppn: Ppn) -> bool {
        self.has_lines() || self.writer_waits(ppn)
    }

    /// Whether a program of the page waits for its die's turn, the program of the page below it or an erase.
    pub fn program_waits(&self, ppn: Ppn) -> bool {
        let waits = || {
            let is_first = self.layout().page(ppn) == 0 || self.follows_erases;
            let block = self.block(ppn);
            self.tail[block as usize] != NONE || is_first && self.youngest_erase(self.pool_of(block)) != NONE
        };
        self.has_lines() || self.outstanding > 0 && waits()
    }

    /// Whether the erase of a block waits for its die's turn or for what waits.
    pub fn erase_waits(&self, block: BlockId) -> bool {
        let waits = || {
            let index = block.0 as usize;
            self.held[index] != NONE
                || self.tail[index] != NONE
                || self.youngest_erase(self.pool_of(block.0)) != NONE
                || !self.records.is_empty()
        };
        self.has_lines() || self.outstanding > 0 && waits()
    }

    /// When the operations that waited and that the erase of a block has to wait for were complete.
    pub fn safe_at(&self, block: BlockId) -> Instant {
        self.safe_at.get(block.0 as usize).map_or(Instant::ZERO, |&at| Instant(at))
    }

    /// The block is erased: what came before matters no more.
    pub fn forget_safe_at(&mut self, block: BlockId) {
        if let Some(at) = self.safe_at.get_mut(block.0 as usize) {
            *at = 0;
        }
    }

    /// Whether erases wait.
    pub fn any_erase_waits(&self) -> bool {
        self.erases > 0
    }

    /// When the records of trims that waited, and do no more, are complete.
    pub fn recorded_at(&self) -> Instant {
        self.recorded_at
    }

    /// Whether records of trims wait.
    pub fn any_record_waits(&self) -> bool {
        !self.records.is_empty()
    }

    #[inline]
    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn block(&self, ppn: Ppn) -> u32 {
        self.layout().block(ppn).0
    }

    fn die_of(&self, ppn: Ppn) -> u32 {
        self.layout().plane(ppn) >> self.plane_bits
    }

    /// The plane of a page within its die, and its position in its block.
    pub fn place(&self, ppn: Ppn) -> (u32, u32) {
        let layout = self.layout();
        (layout.plane(ppn) & ((1 << self.plane_bits) - 1), layout.page(ppn))
    }

    pub fn node(&self, at: u32) -> &Node {
        &self.nodes[at]
    }

    pub fn page(&self, at: u32) -> &Page {
        self.nodes.page(at)
    }

    /// Operations that wait.
    pub fn outstanding(&self) -> u32 {
        self.outstanding
    }

    /// Reads and other operations that wait for a die.
    pub fn waiting(&self, die: u32) -> (usize, usize) {
        let die = &self.dies[die as usize];
        die.fair.as_ref().map_or_else(|| die.line.waiting(), |fair| fair.waiting())
    }

    /// Nothing is left over where nothing waits.
    pub fn is_clean(&self) -> bool {
        self.outstanding > 0 || (self.nodes.living() == 0 && self.records.is_empty())
    }

    fn make(&mut self, job: Job, die: u32, now: Instant, cause: TenantId) -> u32 {
        self.number += 1;
        self.outstanding += u32::from(job.is_operation());
        self.is_watchful += u32::from(job.is_operation());
        self.erases += u32::from(job == Job::Erase);
        // Asked for in lines, and where pools keep their order.
        let is_asked = job.is_operation() && (self.has_lines || self.keeps_order());
        let gc_before = if is_asked { self.gc_until(die, now) } else { Span::ZERO };
        let node = Node {
            job,
            number: self.number,
            waits: 1,
            ready: now,
            map_at: now,
            die,
            cause,
            gc_before,
            ..Node::EMPTY
        };
        let at = self.nodes.add(node);
        self.fresh.push(at);
        at
    }

    /// Garbage collection on a die up to `now`.
    fn gc_until(&self, die: u32, now: Instant) -> Span {
        let gc = &self.dies[die as usize].gc;
        // The last of it may have been waiting for the channel: all of it is still to come.
        Span(gc.total.0.saturating_sub(gc.end.0.saturating_sub(now.0)))
    }

    /// Opens the answer to a request: once it is closed, it has its time when all its operations have theirs.
    pub fn answer(&mut self, request: ReqId, now: Instant, cause: TenantId) -> u32 {
        self.need_tables();
        let at = self.make(Job::Answer, 0, now, cause);
        self.fresh.pop();
        self.nodes[at].request = request;
        let detail = self.nodes.detail_mut(at);
        (detail.issued, detail.slowest) = (now, PageTime::done(now));
        at
    }

    /// Opens, in the same way, what tells when the page in a slot of the write buffer is programmed.
    pub fn destaged(&mut self, slot: u32, now: Instant, cause: TenantId) -> u32 {
        self.need_tables();
        let at = self.make(Job::Destaged, 0, now, cause);
        self.fresh.pop();
        self.nodes[at].block = slot;
        at
    }

    /// An answer waits for nothing more than it does now.
    pub fn close(&mut self, answer: u32) {
        self.fresh.push(answer);
    }

    /// A node also waits for the program of a page, if that still waits.
    pub fn after_program_of(&mut self, page: Option<Ppn>, later: u32) {
        let writer = page.map_or(NONE, |ppn| self.writer[ppn.0 as usize]);
        if writer != NONE {
            self.nodes.link(writer, later);
        }
    }

    /// A node is not done before `at`.
    pub fn not_before(&mut self, node: u32, at: Instant) {
        let node = &mut self.nodes[node];
        node.ready = node.ready.later(at);
    }

    /// A node also waits for every trim record issued so far.
    pub fn after_records(&mut self, later: u32) {
        let node = &mut self.nodes[later];
        node.ready = node.ready.later(self.recorded_at);
        for at in 0..self.records.len() {
            self.nodes.link(self.records[at], later);
        }
    }

    /// A moment at which both are over.
    pub fn both(&mut self, one: After, other: After) -> After {
        let at = one.at.later(other.at);
        if one.node == NONE || other.node == NONE || one.node == other.node {
            return After { at, node: one.node.max(other.node) };
        }
        let barrier = self.make(Job::Barrier, 0, at, TenantId::SYSTEM);
        self.nodes.link(one.node, barrier);
        self.nodes.link(other.node, barrier);
        After { at, node: barrier }
    }

    /// An answer also waits for this, and then its time is that of the map.
    pub fn answer_after(&mut self, answer: u32, after: After) {
        let detail = self.nodes.detail_mut(answer);
        if after.at > detail.slowest.end {
            (detail.slowest, detail.slowest_job) = (PageTime::done(after.at), Job::MapRead);
            self.not_before(answer, after.at);
        }
        if after.node != NONE {
            self.nodes.link(after.node, answer);
        }
    }

    /// What explains an answer.
    pub fn detail(&self, answer: u32) -> &Detail {
        self.nodes.detail(answer)
    }

    /// The same, to change.
    pub fn detail_mut(&mut self, answer: u32) -> &mut Detail {
        self.nodes.detail_mut(answer)
    }

    /// Everything that waits and changes the flash, as one to wait for.
    pub fn all_changes(&mut self, now: Instant) -> After {
        if self.outstanding == 0 {
            return After::at(now);
        }
        let changes: Vec<u32> = self.nodes.changes().collect();
        let barrier = self.make(Job::Barrier, 0, now, TenantId::SYSTEM);
        for sooner in changes {
            self.nodes.link(sooner, barrier);
        }
        After { at: now, node: barrier }
    }

    /// An operation also waits for every erase that waits.
    pub fn after_erases(&mut self, later: u32) {
        if self.erases == 0 {
            return;
        }
        for plane in 0..self.last_erase.len() {
            let erase = self.last_erase[plane];
            if erase != NONE && erase != later {
                self.nodes.link(erase, later);
            }
        }
    }

    /// The block of `older` is not erased before this barrier is over.
    pub fn keep_until(&mut self, older: Ppn, barrier: u32) {
        let hold = self.hold(self.block(older));
        self.nodes.add_page(barrier, Page { hold, ..Page::read(older, 0) });
    }

    /// Reads a page.
    pub fn read(&mut self, job: Job, order: &Order, page: Page) -> u32 {
        self.need_tables();
        let mut source = Source { ppn: page.ppn, after: self.writer[page.ppn.0 as usize], mover: NONE };
        if self.keeps_order() {
            source = self.source_of(page.ppn);
        }
        let Source { ppn, after, mover } = source;
        let mut page = Page { ppn, ..page };
        let (die, block) = (self.die_of(ppn), self.block(ppn));
        if mover != NONE {
            // It shares no operation: what another page waits for may wait for the move.
            self.dies[die as usize].open.node = NONE;
        }
        let at = self.operation(job, die, order, &page, [after, NONE, NONE]);
        if mover != NONE {
            self.dies[die as usize].open.node = NONE;
            // The erase of the block waits for the move.
            self.nodes.link(at, mover);
        } else if !self.erase_before_reads {
            page.hold = self.hold(block);
        }
        self.nodes.add_page(at, page);
        at
    }

    /// Programs a page. It follows operation `after`, and makes the page at `older` invalid.
    pub fn program(
        &mut self,
        job: Job,
        order: &Order,
        mut page: Page,
        after: u32,
        older: Option<Ppn>,
    ) -> u32 {
        self.need_tables();
        let (die, block) = (self.die_of(page.ppn), self.block(page.ppn));
        let is_first = self.layout().page(page.ppn) == 0 || self.follows_erases;
        // Nobody asks for it elsewhere.
        let pool = if is_first || self.keeps_order() { self.pool_of(block) } else { NONE as usize };
        let erase = if is_first { self.youngest_erase(pool) } else { NONE };
        // What a part is laid over must be there, and what a page moves from; a read of it that comes before has waited for that. A read of
        // a map page has not.
        let is_read = job != Job::MoveWithin && after != NONE;
        let base = page.base.filter(|_| !is_read);
        let base = base.map_or(NONE, |base| self.writer[base.0 as usize]);
        let before = match self.changes.get(pool) {
            None => [self.tail[block as usize], after.max(base), erase],
            Some(changes) => [changes.last, after.max(base), NONE],
        };
        let at = self.operation(job, die, order, &page, before);
        if let Some(changes) = self.changes.get_mut(pool) {
            (changes.last, changes.count) = (at, changes.count + 1);
            self.moves += u32::from(job.is_gc());
        }
        if is_first && self.together > 1 {
            self.follow_erases(pool, erase, at);
        }
        if let Some(older) = older {
            page.hold = self.hold(self.block(older));
        }
        self.tail[block as usize] = at;
        self.writer[page.ppn.0 as usize] = at;
        if job == Job::Record {
            self.records.push(at);
        }
        self.nodes.add_page(at, page);
        at
    }

    /// The last erase that waits in the group of a plane.
    fn youngest_erase(&self, plane: usize) -> u32 {
        let group = plane - plane % self.together as usize;
        let waiting = self.last_erase[group..group + self.together as usize].iter().filter(|&&at| at != NONE);
        waiting.copied().max_by_key(|&at| self.nodes[at].number).unwrap_or(NONE)
    }

    /// An operation also waits for the erases of its group beside the one that it waits for already.
    fn follow_erases(&mut self, plane: usize, known: u32, at: u32) {
        let group = plane - plane % self.together as usize;
        for other in group..group + self.together as usize {
            let erase = self.last_erase[other];
            if erase != NONE && erase != known {
                self.nodes.link(erase, at);
            }
        }
    }

    /// A page moves inside its die.
    pub fn move_within(&mut self, order: &Order, page: Page, from: Ppn) -> u32 {
        let at = self.program(Job::MoveWithin, order, page, NONE, Some(from));
        self.nodes[at].block = self.writer[from.0 as usize];
        at
    }

    /// An operation behind those in `before`: the one that the page may join, or a new one.
    fn operation(&mut self, job: Job, die: u32, order: &Order, page: &Page, before: [u32; 3]) -> u32 {
        let (plane, mut position) = self.place(page.ppn);
        if page.slc {
            // Pages of different modes share no operation.
            position += SLC_POSITION;
        }
        // What moves at once may share operations where units are wide; in lines, it never does.
        let moves = matches!(job, Job::MoveRead | Job::MoveProgram) && !self.has_lines();
        let joins = matches!(job, Job::Read | Job::Program) || moves;
        let after = order.after;
        let open = self.dies[die as usize].open;
        let same = open.serial == order.serial && open.position == position && open.planes & 1 << plane == 0;
        let before = [before[0], before[1], before[2], after.node];
        let is_older = |&at: &u32| at == NONE || self.nodes[at].number < self.nodes[open.node].number;
        let may_join = joins && same && open.node != NONE;
        let at = if may_join && self.nodes[open.node].job == job && before.iter().all(is_older) {
            self.dies[die as usize].open.planes |= 1 << plane;
            if order.answer != NONE && self.nodes[order.answer].job == Job::Destaged {
                // Pages of one request share its answer; each page of the buffer has one of its own.
                self.nodes.link(open.node, order.answer);
            }
            open.node
        } else {
            let at = self.make(job, die, order.now, order.cause);
            let node = &mut self.nodes[at];
            node.slc = page.slc;
            node.work = order.work;
            if order.answer != NONE {
                self.nodes.link(at, order.answer);
                self.nodes[at].request = self.nodes[order.answer].request;
            }
            let node = if joins { at } else { NONE };
            self.dies[die as usize].open = Open { node, serial: order.serial, position, planes: 1 << plane };
            at
        };
        let node = &mut self.nodes[at];
        node.ready = node.ready.later(after.at);
        node.map_at = node.map_at.later(order.map_at);
        for sooner in before {
            if sooner != NONE {
                self.nodes.link(sooner, at);
            }
        }
        at
    }

    /// One more holds a block.
    fn hold(&mut self, block: u32) -> u32 {
        let held = &mut self.held[block as usize];
        if *held == NONE {
            *held = self.nodes.add_hold(block);
        }
        self.nodes.hold_mut(*held).count += 1;
        *held
    }

    /// One of those that hold a block is complete.
    #[inline]
    fn let_go(&mut self, hold: u32, end: Instant) {
        let Some(Hold { erase, block, ready, .. }) = self.nodes.let_go(hold, end) else { return };
        if erase == NONE {
            let safe_at = &mut self.safe_at[block as usize];
            *safe_at = ready.0.max(*safe_at);
            self.held[block as usize] = NONE;
            return;
        }
        let node = &mut self.nodes[erase];
        node.ready = node.ready.later(ready);
        node.waits -= 1;
        if node.waits == 0 {
            self.may_begin(erase);
        }
    }

    /// What holds a block stands before `erase`.
    fn wait_for_holders(&mut self, block: usize, erase: u32) {
        let hold = std::mem::replace(&mut self.held[block], NONE);
        if hold != NONE {
            self.nodes.hold_mut(hold).erase = erase;
            self.nodes[erase].waits += 1;
        }
    }

    /// Erases blocks together: none before all of them may be erased. `slc` says that they are in SLC mode. Those of one die
    /// are next to each other.
    pub fn erase_all(&mut self, blocks: impl Iterator<Item = BlockId> + Clone, slc: bool, order: &Order) {
        self.need_tables();
        let mut order = *order;
        if self.together > 1 {
            let gate = self.make(Job::Barrier, 0, order.now, TenantId::SYSTEM);
            if !self.erase_too_early {
                for index in blocks.clone().map(|block| block.0 as usize) {
                    self.wait_for_holders(index, gate);
                    if self.tail[index] != NONE {
                        self.nodes.link(self.tail[index], gate);
                    }
                    let node = &mut self.nodes[gate];
                    node.ready = node.ready.later(Instant(self.safe_at[index])).later(order.after.at);
                }
            }
            if order.after.node != NONE {
                self.nodes.link(order.after.node, gate);
            }
            order.after = After { node: gate, ..order.after };
        }
        let mut last = (NONE, 0);
        for block in blocks {
            let die = self.die_of(self.layout().first_page(block));
            let at = if self.has_lines() || last.0 == NONE || last.1 != die {
                let at = self.make(Job::Erase, die, order.now, order.cause);
                let node = &mut self.nodes[at];
                (node.block, node.slc, node.work) = (block.0, slc, order.work);
                node.ready = node.ready.later(order.after.at);
                if order.after.node != NONE {
                    self.nodes.link(order.after.node, at);
                }
                at
            } else {
                // The planes of a die are erased in one operation.
                let first = self.layout().first_page(block);
                self.nodes.add_page(last.0, Page::read(first, 0));
                last.0
            };
            last = (at, die);
            self.erase(block, at);
        }
    }

    /// An operation erases a block.
    fn erase(&mut self, block: BlockId, at: u32) {
        let index = block.0 as usize;
        let pool = self.pool_of(block.0);
        let tail = std::mem::replace(&mut self.tail[index], at);
        if tail != NONE {
            self.nodes.link(tail, at);
        }
        let safe_at = std::mem::take(&mut self.safe_at[index]);
        if let Some(changes) = self.changes.get_mut(pool) {
            changes.count += 1;
            self.moves += 1;
        }
        if self.erase_too_early {
            return;
        }
        let erase = std::mem::replace(&mut self.last_erase[pool], at);
        let last =
            self.changes.get_mut(pool).map_or(NONE, |changes| std::mem::replace(&mut changes.last, at));
        for sooner in [erase, last].into_iter().filter(|&sooner| sooner != NONE) {
            self.nodes.link(sooner, at);
        }
        let node = &mut self.nodes[at];
        node.ready = node.ready.later(Instant(safe_at));
        if !self.erase_before_record {
            self.after_records(at);
        }
        self.wait_for_holders(index, at);
    }

    /// The block of `ppn` is not erased before everything that was issued so far is complete.
    pub fn keep_until_all_is_done(&mut self, ppn: Ppn, now: Instant) {
        let barrier = self.all_changes(now).node;
        if barrier != NONE {
            self.keep_until(ppn, barrier);
        }
    }

    /// Everything made since the last commit is issued.
    pub fn commit(&mut self) {
        for at in 0..self.fresh.len() {
            let node = self.fresh[at];
            self.nodes[node].waits -= 1;
            if self.nodes[node].waits == 0 {
                self.may_begin(node);
            }
        }
        self.fresh.clear();
    }

    /// Nothing stands before a node any more, but perhaps its time.
    fn may_begin(&mut self, at: u32) {
        let Node { job, ready, number, die, .. } = self.nodes[at];
        match job {
            Job::Answer | Job::Destaged => self.done.push(at),
            Job::Barrier => {
                let mut page = self.nodes[at].first_page;
                while page != NONE {
                    let Page { hold, next, .. } = *self.nodes.page(page);
                    self.let_go(hold, ready);
                    page = next;
                }
                self.tell(at, &PageTime::done(ready));
                self.nodes.remove(at);
            }
            _ => {
                if !self.has_lines() {
                    self.soon.push(Reverse((ready, number, at)));
                    return;
                }
                let goes_first = job == Job::Erase && self.erase_before_reads;
                let number = if goes_first { 0 } else { number };
                let is_read = matches!(job, Job::Read | Job::MapRead) || goes_first;
                if let Some(costs) = self.costs {
                    let Node { slc, cause, .. } = self.nodes[at];
                    let cost = costs.of(job, slc);
                    self.share_out(die, Coming { ready, number, node: at, tenant: cause, is_read, cost });
                } else {
                    self.dies[die as usize].line.push(ready, number, at, is_read);
                }
                self.touched.push(die);
            }
        }
    }

    /// Without lines: the next operation that nothing stands before any more, and when it came to be so.
    pub fn next_soon(&mut self, now: Instant) -> Option<(u32, Instant)> {
        let &Reverse((ready, _, at)) = self.soon.peek()?;
        if ready > now && !self.is_alone && !self.prices_at_issue {
            return None;
        }
        self.soon.pop();
        Some((at, ready))
    }

    /// Without lines: when the executor is to be woken; `None` when it will be, or nothing waits for its time.
    pub fn arm_soon(&mut self) -> Option<Instant> {
        let &Reverse((ready, ..)) = self.soon.peek()?;
        if self.soon_armed.is_some_and(|armed| armed <= ready) {
            return None;
        }
        self.soon_armed = Some(ready);
        Some(ready)
    }

    /// Whether operations have their times before they may begin.
    pub fn gives_times_ahead(&self) -> bool {
        self.is_alone || self.prices_at_issue
    }

    /// Whether other erases wait than the one that has its time now.
    pub fn more_erases_wait(&self) -> bool {
        self.erases > 1
    }

    /// The executor was woken.
    pub fn soon_woken(&mut self) {
        self.soon_armed = None;
    }

    /// Takes the operation that a free die begins now.
    pub fn next(&mut self, die: u32, now: Instant) -> Option<u32> {
        let at = match self.costs {
            None => self.dies[die as usize].line.next(now, self.max_read_bypass)?,
            Some(_) => self.next_by_share(die, now)?,
        };
        let open = &mut self.dies[die as usize].open;
        if open.node == at {
            open.node = NONE;
        }
        Some(at)
    }

    /// When the die, free from `free_at`, is to be woken; `None` when that is known already or it has nothing to do.
    pub fn arm(&mut self, die: u32, free_at: Instant) -> Option<Instant> {
        let die = &mut self.dies[die as usize];
        let earliest = die.fair.as_ref().map_or_else(|| die.line.earliest(), |fair| fair.earliest());
        let mut at = earliest?.later(free_at);
        if self.wakes_late && self.number.is_multiple_of(64) {
            at += Span::from_us(1);
        }
        if die.armed.is_some_and(|armed| armed <= at) {
            return None;
        }
        die.armed = Some(at);
        Some(at)
    }

    /// The die was woken.
    pub fn woken(&mut self, die: u32) {
        self.dies[die as usize].armed = None;
        self.touched.push(die);
    }

    /// Garbage collection on the die since the operation was issued.
    pub fn gc_since_issue(&self, at: u32) -> Span {
        let node = &self.nodes[at];
        self.dies[node.die as usize].gc.total - node.gc_before
    }

    /// An operation has its time: whatever waits for it is told, and the node goes.
    pub fn served(&mut self, at: u32, time: &PageTime) {
        let Node { job, die, block, first_page, .. } = self.nodes[at];
        if let Some(fair) = &mut self.dies[die as usize].fair {
            fair.ends(time.end);
        }
        if job.is_gc() {
            let gc = &mut self.dies[die as usize].gc;
            gc.total += time.end.since(time.start);
            gc.end = time.end;
        }
        if job == Job::Erase {
            self.erases -= 1;
            self.was_erased(block, at);
        }
        let mut page = first_page;
        while page != NONE {
            let Page { ppn, hold, next, .. } = *self.nodes.page(page);
            page = next;
            if hold != NONE {
                self.let_go(hold, time.end);
            }
            if job.is_read() {
                continue;
            }
            if job == Job::Erase {
                self.was_erased(self.block(ppn), at);
                continue;
            }
            self.passed(self.block(ppn), at);
            let writer = &mut self.writer[ppn.0 as usize];
            if *writer == at {
                *writer = NONE;
            }
        }
        if self.keeps_order() {
            self.served_in_order(at, time.end);
        }
        if job == Job::Record {
            self.records.retain(|&record| record != at);
            self.recorded_at = self.recorded_at.later(time.end);
        }
        self.tell(at, time);
        self.outstanding -= 1;
        self.is_watchful -= 1;
        self.nodes.remove(at);
    }

    /// What changes a pool that keeps its order no longer waits, and is complete at `end`.
    #[inline(never)]
    fn served_in_order(&mut self, at: u32, end: Instant) {
        let Node { job, block, first_page, .. } = self.nodes[at];
        if job == Job::Erase {
            self.changed(block, at, end);
            self.moves -= 1;
        }
        let mut page = first_page;
        while page != NONE && job.changes_flash() {
            let Page { ppn, next, .. } = *self.nodes.page(page);
            page = next;
            self.changed(self.block(ppn), at, end);
            self.moves -= u32::from(job.is_gc());
        }
    }

    fn changed(&mut self, block: u32, at: u32, end: Instant) {
        let pool = self.pool_of(block);
        let changes = &mut self.changes[pool];
        changes.until = changes.until.later(end);
        changes.count -= 1;
        if changes.last == at {
            changes.last = NONE;
        }
    }

    /// A block's erase no longer waits.
    fn was_erased(&mut self, block: u32, at: u32) {
        self.passed(block, at);
        let pool = self.pool_of(block);
        let erase = &mut self.last_erase[pool];
        if *erase == at {
            *erase = NONE;
        }
    }

    /// A block's operation no longer waits.
    fn passed(&mut self, block: u32, at: u32) {
        let tail = &mut self.tail[block as usize];
        if *tail == at {
            *tail = NONE;
        }
    }

    fn tell(&mut self, at: u32, time: &PageTime) {
        let Node { job, slc, mut map_at, .. } = self.nodes[at];
        if job.is_of_map() {
            map_at = time.end;
        }
        while let Some(later) = self.nodes.take_link(at) {
            let node = &mut self.nodes[later];
            node.waits -= 1;
            node.ready = node.ready.later(time.end);
            let waits = node.waits;
            match node.job {
                Job::Answer => self.note_in_answer(later, at, time, map_at),
                Job::Program if job == Job::PreRead => {
                    node.map_at = node.map_at.later(map_at);
                    self.was_read_before(later, *time, slc);
                }
                Job::MoveProgram if job == Job::MoveRead => node.pre_read_slc = slc,
                // Of two pages that are of one operation none waits longer for the map.
                _ if job.is_of_map() || job == Job::Barrier => node.map_at = node.map_at.later(map_at),
                _ => {}
            }
            if waits == 0 {
                self.may_begin(later);
            }
        }
    }

    /// An operation of a request is complete: the one that is so last explains the answer.
    #[inline]
    fn note_in_answer(&mut self, answer: u32, at: u32, time: &PageTime, map_at: Instant) {
        let Node { job, slc, detail, .. } = self.nodes[at];
        let Detail { pre_read, pre_read_slc, .. } = match detail {
            NONE => Detail::EMPTY,
            _ => *self.nodes.detail(at),
        };
        let answer = self.nodes.detail_mut(answer);
        if time.end > answer.slowest.end {
            (answer.slowest, answer.slowest_job, answer.pre_read) = (*time, job, pre_read);
            (answer.slowest_slc, answer.pre_read_slc, answer.slowest_map_at) = (slc, pre_read_slc, map_at);
        }
    }

    /// Gives an answer up that has been given.
    pub fn answered(&mut self, answer: u32) {
        self.nodes.remove(answer);
    }
}

#[cfg(test)]
mod tests;
