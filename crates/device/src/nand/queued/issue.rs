//! What an operation waits for: each is linked behind what stands before it when it is given; see the page of the module for the rules.

use super::node::{After, Hold, Job, NONE, Order, Page};
use super::{Open, Queued, Source};
use crate::nand::lanes::SLC_POSITION;
use nandu_base::{Instant, TenantId};
use nandu_ftl::{BlockId, Ppn};

impl Queued {
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
        if is_first && self.was_handed(block) {
            self.after_hand_over(block, at);
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
    pub(super) fn youngest_erase(&self, plane: usize) -> u32 {
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
    pub(super) fn let_go(&mut self, hold: u32, end: Instant) {
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
}
