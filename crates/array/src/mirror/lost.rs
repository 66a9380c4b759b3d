//! Data whose only holder is gone (X of hetero-mirror.md): a list of extents, on both legs, which read as errors until they
//! are written again.
//!
//! The list is durable before anything that hides the loss: before Solo, before a start that gives up a leg serves, and
//! before any flush that comes later is answered. A write that touches it goes to every leg, is flushed there, and the
//! list without it is durable, before its client is answered (R-LOST); so neither a flush nor FUA can count on data that
//! a cut would report as lost. When the list is full the two extents with the least between them become one: more is
//! reported, never less.

use super::layout::LOST_EXTENTS;
use super::work::Ready;
use super::{DELAYED, Mirror, NONE};
use nandu_base::{Cx, Flags};

/// Extents in order, none touching another.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Lost {
    extents: Vec<(u64, u64)>,
}

impl Lost {
    /// Whether nothing is lost.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.extents.is_empty()
    }

    /// The extents, as first byte and one past the last.
    pub fn extents(&self) -> &[(u64, u64)] {
        &self.extents
    }

    /// Bytes in all.
    pub fn bytes(&self) -> u64 {
        self.extents.iter().map(|(start, end)| end - start).sum()
    }

    /// The first part of `start..end` that is lost.
    pub fn first(&self, start: u64, end: u64) -> Option<(u64, u64)> {
        let at = self.extents.partition_point(|e| e.1 <= start);
        let &(from, to) = self.extents.get(at).filter(|e| e.0 < end)?;
        Some((from.max(start), to.min(end)))
    }

    /// Whether some of the extent is lost.
    #[inline]
    pub fn touches(&self, start: u64, end: u64) -> bool {
        !self.is_empty() && self.first(start, end).is_some()
    }

    /// `start..end` is lost.
    pub fn add(&mut self, start: u64, end: u64) {
        let from = self.extents.partition_point(|e| e.1 < start);
        let upto = self.extents.partition_point(|e| e.0 <= end);
        let (mut low, mut high) = (start, end);
        if from < upto {
            low = low.min(self.extents[from].0);
            high = high.max(self.extents[upto - 1].1);
        }
        self.extents.splice(from..upto, [(low, high)]);
        while self.extents.len() > LOST_EXTENTS {
            let gap = |at: &usize| self.extents[at + 1].0 - self.extents[*at].1;
            let at = (0..self.extents.len() - 1).min_by_key(gap).expect("there are many");
            let (_, end) = self.extents.remove(at + 1);
            self.extents[at].1 = end;
        }
    }

    /// `start..end` was written again. A list that is full may keep more than is lost.
    pub fn remove(&mut self, start: u64, end: u64) {
        let old = std::mem::take(&mut self.extents);
        for (from, to) in old {
            for (from, to) in [(from, to.min(start)), (from.max(end), to)] {
                if from < to {
                    self.extents.push((from, to));
                }
            }
        }
        if self.extents.len() > LOST_EXTENTS {
            let (from, to) = self.extents[0];
            self.add(from, to);
        }
    }
}

/// A write over lost data that is not answered yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Heal {
    op: u32,
    /// The leg flushes that cover it; then the list is written.
    need: Option<[u64; DELAYED]>,
}

impl Mirror {
    /// A write of lost data is complete on every leg.
    pub(super) fn start_heal(&mut self, i: u32, cx: &mut Cx<'_>) {
        let mut need = [0, 1].map(|leg: usize| self.legs[leg].dirty);
        if self.planted.lost_cleared_before_flush {
            need = [0; DELAYED];
        }
        for (leg, n) in need.into_iter().enumerate() {
            if self.legs[leg].is_in() {
                self.want_flush(leg, n, cx);
            }
        }
        self.heals.push(Heal { op: i, need: Some(need) });
        self.work.add(Ready::Heals);
    }

    /// Moves writes over lost data on.
    pub(super) fn pump_heals(&mut self, cx: &mut Cx<'_>) {
        for at in 0..self.heals.len() {
            let Heal { op, need } = self.heals[at];
            let used = |leg: &usize| self.legs[*leg].is_in() && self.legs[*leg].writes;
            match need {
                Some(need) if (0..DELAYED).filter(used).all(|leg| self.legs[leg].flushed(need[leg])) => {
                    let (start, end) = (self.ops[op as usize].start, self.ops[op as usize].end);
                    self.lost.remove(start, end);
                    self.legs.iter_mut().filter(|l| l.is_in() && l.writes).for_each(|l| l.want_lost());
                    self.heals[at].need = None;
                    self.work.add(Ready::Records);
                    self.work.add(Ready::Heals);
                }
                None if self.planted.answered_before_lost_cleared
                    || (0..DELAYED).filter(used).all(|leg| self.legs[leg].lost_is_durable()) =>
                {
                    self.heals[at].op = NONE;
                    if self.ops[op as usize].flags.has(Flags::FUA) && self.is_held() {
                        self.solo_wait.push(op);
                    } else {
                        self.end(op, cx);
                    }
                }
                _ => {}
            }
        }
        self.heals.retain(|h| h.op != NONE);
    }

    /// A flush may be answered: what was lost is on record wherever a start may look.
    pub(super) fn lost_is_durable(&self) -> bool {
        self.legs.iter().all(|l| !l.is_in() || l.lost_is_durable())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandu_base::Rng;

    #[test]
    fn the_list_agrees_with_a_plain_model_and_never_says_less() {
        let mut rng = Rng::new(5);
        let (mut lost, mut model) = (Lost::default(), vec![false; 4000]);
        for step in 0..6000 {
            let start = rng.below(3990);
            let end = start + rng.between(1, 9);
            let add = rng.below(if step < 3000 { 4 } else { 2 }) == 0;
            if add {
                lost.add(start, end)
            } else {
                lost.remove(start, end)
            }
            (start..end).for_each(|b| model[b as usize] = add);
            assert!(lost.extents.windows(2).all(|w| w[0].1 < w[1].0 || LOST_EXTENTS == 0));
            assert!(lost.extents.len() <= LOST_EXTENTS);
            let exact = step < 400;
            for (b, &is) in model.iter().enumerate() {
                let says = lost.touches(b as u64, b as u64 + 1);
                assert!(says == is || says && !exact, "byte {b} at step {step}");
            }
        }
    }
}
