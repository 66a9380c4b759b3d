//! Arrays that grow: their legs are leaves that become longer, and an operator has them serve more.
//!
//! *What is checked.* A start finds the old size or the new one, and never less than was served before. What is new was never written, so it reads
//! as zeros; what was flushed is still there, and the legs agree, as ever.
//!
//! Whoever starts such an array looks where the records are that count ([`nandu_array::found`]), and gives each leg the
//! size with which they are found there; those elsewhere that count for nobody any more it zeroes. A leg that is missing cannot be looked at.

use super::{Broken, Session, broken, build};
use crate::engine::Media;
use crate::verify::oracle::Asked;
use nandu_array::found::{Counting, Found, that_count};
use nandu_base::{Admin, ByteLen};
use nandu_stack::{Built, Stack, StackFile};

/// A record and what is on its page.
const PAGE: u64 = 4096;

/// A leg of the array that was asked to grow.
#[derive(Clone, Debug)]
struct Leg {
    node: u32,
    name: String,
    /// As long as the stack file says.
    before: u64,
    /// As long as it is.
    after: u64,
    /// As long as it was taken to be when it was started.
    now: u64,
}

/// The legs that have become longer; none before that.
#[derive(Clone, Default, Debug)]
pub(super) struct Lengths(Vec<Leg>);

impl Session<'_> {
    /// Whether an array is what is exported, and all its legs are leaves that can become longer.
    pub(super) fn may_grow(&self, array: u32, legs: &[u32]) -> bool {
        let is_exported = matches!(self.entries[..], [ref only] if only.node == array);
        is_exported && legs.iter().all(|&leg| self.engine.has_block_medium(leg))
    }

    /// Makes the legs longer, and asks the array to serve more. It may refuse; then it is asked again.
    pub(super) fn grow(&mut self, array: u32, bytes: u64, legs: &[u32]) -> Result<(), Broken> {
        if !self.may_grow(array, legs) {
            return Ok(());
        }
        let is_first = self.lengths.0.is_empty();
        if is_first {
            let leg = |&node: &u32| {
                let before = self.engine.graph.limits(node).capacity.0;
                let name = self.engine.graph.name(node).to_string();
                Leg { node, name, before, after: before + bytes, now: before }
            };
            self.lengths = Lengths(legs.iter().map(leg).collect());
        }
        for Leg { node, after, .. } in &self.lengths.0 {
            self.engine.lengthen(*node, ByteLen(*after));
        }
        // A growth that was cut off has left something in what is new.
        let is_equal = is_first && self.lengths.0.iter().all(|leg| leg.before == self.lengths.0[0].before);
        self.do_chore(array, Admin::Grow { is_equal })?;
        Ok(())
    }

    /// Whether steps are listed and this one asks for what is served after a growth only, which was left out or has not come about.
    pub(super) fn is_beyond(&self, export: usize, asked: Asked) -> bool {
        self.is_listed && asked.offset.0 + asked.len.0 > self.entries[export].limits.capacity.0
    }

    /// Whether the array serves more than at first.
    pub(super) fn has_grown(&self) -> bool {
        self.entries[0].limits.capacity > self.served_first
    }

    /// Whether legs have become longer, and the array does not serve more yet.
    pub(super) fn is_growing(&self) -> bool {
        !self.lengths.0.is_empty() && !self.has_grown()
    }

    /// After an event: the array may have grown.
    pub(super) fn look_at_size(&mut self) {
        if self.lengths.0.is_empty() {
            return;
        }
        let capacity = self.engine.graph.machine(self.entries[0].node).limits().capacity;
        if capacity > self.entries[0].limits.capacity {
            self.entries[0].limits.capacity = capacity;
            let now = self.engine.now();
            let sink = self.engine.sink();
            sink.note(now, || format!("{capacity} are served"));
            sink.oracles[0].grow(capacity);
        }
    }

    /// After a start: what was served once is served.
    pub(super) fn check_size(&mut self) -> Result<(), Broken> {
        let entry = &self.entries[0];
        let found = self.engine.graph.machine(entry.node).limits().capacity;
        if !self.lengths.0.is_empty() && found < entry.limits.capacity {
            let what = format!("{found} are served after a start, and {} were before", entry.limits.capacity);
            return Err(broken("moved_records_before_old_ones_go", what));
        }
        self.look_at_size();
        Ok(())
    }

    /// A leg that stays away while it is open whether the array has grown may come back with records at a place that does not count: it is
    /// filled then as a blank one. False where another one may be blank already.
    pub(super) fn may_miss_while_it_grows(&mut self, leg: u32) -> bool {
        if !self.is_growing() {
            return true;
        }
        *self.replaced.get_or_insert(leg) == leg
    }

    /// New machines for `media`, of which these leaves are `missing`, with the sizes of legs that count there.
    pub(super) fn rebuilt(&mut self, media: &mut Media, missing: &[u32]) -> Built {
        let session = self.tally.crashes + self.tally.recoveries;
        let (stack, registry) = self.stack;
        if self.lengths.0.is_empty() {
            return build(&self.ground, stack, self.planted, session);
        }
        let look = |leg: &Leg| {
            let read =
                |at| media.block(leg.node)?.metadata(at, PAGE).filter(|_| !missing.contains(&leg.node));
            Found::look(leg.before, [leg.before, leg.after], read)
        };
        let found: Vec<Found> = self.lengths.0.iter().map(look).collect();
        let counting = that_count(&found);
        // One that says nothing is as long as the others are taken to be.
        let is_longer = |(counting, leg): (&Option<Counting>, &Leg)| {
            counting.as_ref().is_some_and(|c| c.end == leg.after)
        };
        let has_moved = counting.iter().zip(&self.lengths.0).any(is_longer);
        for (leg, counting) in self.lengths.0.iter_mut().zip(counting) {
            let unknown = if has_moved { leg.after } else { leg.before };
            leg.now = counting.as_ref().map_or(unknown, |counting| counting.end);
            if let Some(void) = counting.and_then(|counting| counting.void) {
                media.zero(leg.node, void);
            }
        }
        let sized = |file: StackFile, leg: &Leg| {
            file.with_set(&format!("device.{}.size", leg.name), &leg.now.to_string())
        };
        let file = StackFile::parse(&self.ground.stack, "stack");
        let file = file.and_then(|file| self.lengths.0.iter().try_fold(file, sized));
        let stack: Stack = file.and_then(|file| file.load(registry)).expect("only sizes have changed");
        build(&self.ground, &stack, self.planted, session)
    }
}
