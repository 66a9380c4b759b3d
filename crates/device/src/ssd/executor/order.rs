//! What an operation waits for, as the drive names it: it says which kind of thing must be over, and the executor knows when that is.

use super::Executor;
use crate::nand::queued::{After, NONE};
use nandu_base::Cx;
use nandu_ftl::mapping::Tp;
use nandu_ftl::plan::flash::Awaited;
use nandu_ftl::{BlockId, Cursor, Ppn};

impl Executor {
    /// Every program and erase that was given so far, as far as their ends are known.
    pub fn all_given(&self) -> After {
        After::at(self.last_change)
    }

    /// Every program and erase that waits.
    pub fn all_changes(&mut self, cx: &Cx<'_>) -> After {
        self.queue.all_changes(cx.now)
    }

    /// Both.
    pub fn behind_all(&mut self, cx: &Cx<'_>) -> After {
        After { at: self.last_change.later(cx.now), ..self.queue.all_changes(cx.now) }
    }

    /// The same operation, behind all pages of checkpoints.
    pub fn behind_anchors(&self, after: After) -> After {
        After { at: self.anchored_at, ..after }
    }

    /// The same, behind the erases of all blocks that were opened for data.
    pub fn behind_opened(&self, after: After) -> After {
        After { at: after.at.later(self.fetched.opened_from), ..after }
    }

    /// No die begins anything before this is over, nor before everything is complete that was given. Returns when that is.
    pub fn fence(&mut self, after: After) -> After {
        After::at(self.lanes.fence(after.at))
    }

    /// A block is opened for data, whose erase may not be complete yet.
    pub fn opened(&mut self, cursor: Cursor) {
        let block = cursor.block(self.stripes.units.layout());
        self.stripes.opened(block, self.queue.any_erase_waits());
        self.fetched.opened_from = self.fetched.opened_from.later(self.stripes.was_erased_at(block));
    }

    /// Whether every entry of the map that is being fetched has come when `after` is over.
    #[inline(always)]
    pub fn entries_are_there(&self, after: After) -> bool {
        self.fetched.are_over(after.at)
    }

    /// The entries of a translation page have come, and `after` is over.
    #[inline(always)]
    pub fn entry_comes(&mut self, tp: Tp, after: After) -> After {
        let known = After { at: after.at.later(self.fetched.comes_at(tp)), ..after };
        match self.fetched.coming(tp) {
            NONE => known,
            node => self.queue.both(known, After { at: known.at, node }),
        }
    }

    /// The entries that were fetched, for operations that come later.
    pub fn await_later(&self, after: After) -> Awaited {
        Awaited { after, number: self.queue.node(after.node).number }
    }

    /// What is still to wait for: they may have come meanwhile.
    pub fn still_awaited(&self, awaited: &Awaited, cx: &Cx<'_>) -> After {
        let After { at, node } = awaited.after;
        let at = at.later(cx.now);
        if node == NONE || self.queue.node(node).number == awaited.number {
            return After { at, node };
        }
        After::at(at.later(self.fetched.last_comes()))
    }

    /// The unit is not erased before this is over.
    #[inline(always)]
    pub fn keep_until(&mut self, unit: BlockId, after: After) {
        self.stripes.keep_unit_until(unit, after.at);
    }

    /// The block of a page is not erased before everything that was given so far is over.
    pub fn keep_until_all_is_done(&mut self, ppn: Ppn, cx: &Cx<'_>) {
        self.queue.keep_until_all_is_done(self.stripes.units.place(ppn), cx.now);
    }

    /// The block of a page is not erased before everything that changes the flash and waits now is over; `changes` is what stands for that, once it was
    /// asked for.
    pub fn keep_until_changes(&mut self, ppn: Ppn, changes: &mut Option<After>, cx: &Cx<'_>) {
        if !self.queue.holds_back() {
            return;
        }
        if changes.is_none_or(|changes| changes.node == NONE) {
            *changes = Some(self.all_changes(cx));
        }
        if let Some(After { node, .. }) = changes.filter(|changes| changes.node != NONE) {
            self.queue.keep_until(self.stripes.units.place(ppn), node);
        }
    }

    /// Tells the medium until when it must keep a record of trims that is on it.
    pub fn say_given_up(&self, record: Ppn, until: After, cx: &mut Cx<'_>) {
        if let Some(medium) = cx.medium.as_deref_mut()
            && !self.queue.writer_waits(self.stripes.units.place(record))
        {
            medium.given_up(self.stripes.unit(record), until.at);
        }
    }
}
