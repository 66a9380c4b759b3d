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
//! Files: `node` operations and what is linked to them, `issue` what an operation waits for, `serve` what happens when it no longer does, `choose` what a die takes next,
//! `fair` and `shares` the same with shares of tenants, `suspend` operations that stand still.
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
mod issue;
mod node;
mod serve;
mod shares;
mod suspend;

pub(crate) use fair::{Costs, Fair};
pub(crate) use node::{After, Detail, Job, NONE, Node, Order, Page};
pub(crate) use suspend::{NEVER, Running, Suspending};

use super::PageTime;
use choose::Line;
use nandu_base::{Instant, ReqId, Span, TenantId};
use nandu_ftl::{BlockId, Layout, Ppn};
use nandu_queue::tally::Tally;
use node::Nodes;
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

/// A block that went to another pool while its erase waits. It may go on, and be erased there, before: the oldest of a block says whose what waits is.
#[derive(Clone, Copy, Debug)]
struct Leaving {
    block: u32,
    /// The pool that it came from.
    from: u32,
    /// Its erase.
    last: u32,
}

/// A block that went from one pool to another.
#[derive(Clone, Copy, Debug)]
struct Handed {
    block: u32,
    /// The pool that it came from.
    from: u32,
    /// What stands for all that changed that pool then and waited, and its number.
    gate: u32,
    number: u64,
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
    /// Blocks that went from one pool to another and are not programmed there yet.
    handed: Vec<Handed>,
    /// Blocks that went to another pool while their erase waits.
    leaving: Vec<Leaving>,
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
    /// Fault to plant: a block that came from another pool is programmed before what changed that one is done.
    pub lent_too_early: bool,
    /// Fault to plant: now and then what comes to a die that serves by share is lost.
    pub forgets: bool,
    /// Fault to plant: now and then nobody is charged what a die stands idle.
    pub idles_free: bool,
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
            handed: Vec::new(),
            leaving: Vec::new(),
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
            lent_too_early: false,
            forgets: false,
            idles_free: false,
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

    /// All that changes one of so many pools is done in the order of issue from here on; `of_blocks` has the pool of each block, which lies in one plane.
    pub fn keep_order(&mut self, pools: u32, of_blocks: &[u32]) {
        let none = Changes { last: NONE, count: 0, until: Instant::ZERO };
        self.changes = vec![none; pools as usize];
        self.pools_are(of_blocks);
        if !self.last_erase.is_empty() {
            self.last_erase = vec![NONE; pools as usize];
        }
    }

    /// The pool of each block is this from here on; nothing waits. Those of nobody are never issued for.
    pub fn pools_are(&mut self, pools: &[u32]) {
        let last = self.changes.len() as u32 - 1;
        self.leaving.clear();
        self.handed.clear();
        self.pools.clear();
        self.pools.extend(pools.iter().map(|&pool| pool.min(last)));
    }

    /// The pool of a block where pools keep their order; its plane elsewhere. Asked for erases and for first pages.
    #[inline(never)]
    fn pool_of(&self, block: u32) -> usize {
        match self.pools.is_empty() {
            true => self.layout().plane_of_block(BlockId(block)) as usize,
            false => self.pools[block as usize] as usize,
        }
    }

    /// The pool that an operation of a block belongs to which waits: the one it came from, while its erase waits.
    fn pool_of_waiting(&self, block: u32) -> usize {
        match self.leaving.iter().find(|leaving| leaving.block == block) {
            Some(leaving) => leaving.from as usize,
            None => self.pool_of(block),
        }
    }

    /// A block goes from one pool to another, erased, or to be by what was issued. What is programmed in it there comes behind everything that changes the pool
    /// it comes from.
    pub fn hand_over(&mut self, block: u32, from: u32, to: u32) {
        self.pools[block as usize] = to;
        // One that goes on before its erase is done has left the pool that it came from first.
        let last = self.tail.get(block as usize).copied().unwrap_or(NONE);
        if last != NONE && self.leaving.iter().all(|leaving| leaving.last != last) {
            self.leaving.push(Leaving { block, from, last });
        }
        let (mut gate, mut number) = (NONE, 0);
        let Changes { last: waits, until, .. } = self.changes[from as usize];
        if waits != NONE {
            gate = self.make(Job::Barrier, 0, until, TenantId::SYSTEM);
            self.nodes.link(waits, gate);
            number = self.nodes[gate].number;
        }
        self.handed.push(Handed { block, from, gate, number });
    }

    /// Whether a block came from another pool and was not programmed since.
    #[inline]
    fn was_handed(&self, block: u32) -> bool {
        !self.handed.is_empty() && self.handed.iter().any(|handed| handed.block == block)
    }

    /// The first program of a block that came from other pools also waits for what changed them.
    #[cold]
    fn after_hand_over(&mut self, block: u32, later: u32) {
        for handed in self.handed.extract_if(.., |handed| handed.block == block).collect::<Vec<_>>() {
            if self.lent_too_early {
                continue;
            }
            self.not_before(later, self.changes[handed.from as usize].until);
            if handed.gate != NONE && self.nodes[handed.gate].number == handed.number {
                self.nodes.link(handed.gate, later);
            }
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
}

#[cfg(test)]
mod tests;
