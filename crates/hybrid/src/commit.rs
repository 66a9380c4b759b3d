//! Making everything durable: one commit at a time, which answers all who asked before it began.
//!
//! The order is what matters. Erasures that are under way end first: a page that is "on the disk" has nothing on flash then.
//! The disk is flushed if data of the host went there, so that marks may be written; the marks go to the top ring. Then each ring in turn comes to rest, is
//! flushed if it is volatile, gets a proof (an empty group), and is flushed again. A ring that has had nothing new since
//! its last proof is left alone.

use crate::machine::{Hybrid, Tag};
use nandu_base::{ByteOffset, Cx, ErrorKind, Op, Payload};

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Step {
    #[default]
    Idle,
    /// Waits for erasures.
    Erasures,
    DiskFlush,
    /// Pages that were lost and are written are served again from the next start on as well.
    Lost,
    /// Marks up to this count go to the top ring.
    Marks(u64),
    /// The ring comes to rest.
    Rest(usize),
    Flush(usize),
    Proof(usize),
    /// The proof of this group is flushed.
    FlushProof(usize, u64),
}

/// The commit under way.
#[derive(Debug, Default)]
pub(crate) struct Commit {
    step: Step,
    /// Commits that are done.
    pub done: u64,
    /// The number of the last one that somebody waits for.
    wanted: u64,
    /// Marks that were wanted when the disk was flushed.
    marks: u64,
}

impl Commit {
    /// Whether one is wanted or going on.
    pub fn is_under_way(&self) -> bool {
        self.wanted > self.done
    }

    /// The rings are not in use any more: nothing is left to do there.
    pub fn goes_on_without_rings(&mut self, rings: usize) {
        self.marks = 0;
        self.step = match self.step {
            step @ (Step::Idle | Step::Erasures | Step::DiskFlush | Step::Lost) => step,
            _ => Step::Rest(rings),
        };
    }

    /// Whether the disk was flushed, and the map is to say which lost pages were written.
    pub fn is_at_lost(&self) -> bool {
        self.step == Step::Lost
    }

    /// Whether the next group of a ring is a proof.
    pub fn wants_proof(&self, ring: usize) -> bool {
        self.step == Step::Proof(ring)
    }
}

impl Hybrid {
    /// The number of a commit that begins after now.
    pub(crate) fn ask_for_commit(&mut self) -> u64 {
        let ticket = if self.commit.step == Step::Idle { self.commit.done + 1 } else { self.commit.done + 2 };
        self.commit.wanted = self.commit.wanted.max(ticket);
        self.made_progress = true;
        ticket
    }

    /// Takes the commit as far as it goes now.
    pub(crate) fn pump_commit(&mut self, cx: &mut Cx<'_>) {
        if !self.policy.disk_volatile {
            self.marks.ready = self.marks.wanted;
        }
        loop {
            let next = match self.commit.step {
                Step::Idle if self.commit.wanted > self.commit.done => Step::Erasures,
                Step::Erasures if !self.collectors.iter().any(|c| c.is_erasing()) => {
                    self.commit.marks = self.marks.wanted;
                    if let Some(regions) = &mut self.regions {
                        let written = std::mem::take(&mut regions.written);
                        regions.ready.extend(written);
                    }
                    if self.policy.disk_volatile && self.disk_unflushed {
                        self.disk_unflushed = false;
                        self.flush_child(self.disk, cx);
                        Step::DiskFlush
                    } else {
                        self.disk_is_flushed()
                    }
                }
                Step::Lost if !self.serves_lost() => Step::Marks(self.commit.marks),
                Step::Marks(_) if !self.has_rings() => Step::Rest(self.rings.len()),
                Step::Marks(count) if self.marks.taken >= count && self.writers[0].is_idle() => {
                    self.note_resting();
                    Step::Rest(0)
                }
                Step::Rest(r) if r == self.rings.len() => {
                    self.commit.done += 1;
                    self.count.commits += 1;
                    self.settle_resting();
                    Step::Idle
                }
                Step::Rest(r) => match self.rest(r, cx) {
                    Some(next) => next,
                    None => return,
                },
                _ => return,
            };
            self.commit.step = next;
            self.made_progress = true;
        }
    }

    fn disk_is_flushed(&mut self) -> Step {
        self.marks.ready = self.marks.ready.max(self.commit.marks);
        Step::Lost
    }

    /// Lets a ring come to rest, and begins its flush.
    fn rest(&mut self, r: usize, cx: &mut Cx<'_>) -> Option<Step> {
        self.writers[r].hold = true;
        if !self.writers[r].is_idle() {
            return None;
        }
        if self.rests(r) {
            self.writers[r].hold = false;
            return Some(Step::Rest(r + 1));
        }
        if self.rings[r].shape.volatile && !self.planted.proof_before_flush {
            self.flush_child(self.rings[r].shape.child, cx);
            return Some(Step::Flush(r));
        }
        self.rings[r].durable = self.rings[r].next_group - 1;
        Some(Step::Proof(r))
    }

    fn flush_child(&mut self, child: u8, cx: &mut Cx<'_>) {
        let index = u32::from(child);
        self.send_own(child, Op::Flush, ByteOffset::ZERO, 0, Payload::NONE, Tag::Commit, index, cx);
    }

    /// A flush of a child is over. One that failed proves nothing, and neither would another: service ends, or goes on without the ring.
    pub(crate) fn commit_flushed(&mut self, child: u8, failed: bool, cx: &mut Cx<'_>) {
        if failed && child != self.disk {
            return self.ring_failed(usize::from(child), cx);
        }
        if failed {
            return self.fail(ErrorKind::WriteFailed, cx);
        }
        self.commit.step = match self.commit.step {
            Step::DiskFlush => self.disk_is_flushed(),
            Step::Flush(r) => {
                self.rings[r].durable = self.rings[r].next_group - 1;
                Step::Proof(r)
            }
            Step::FlushProof(r, proven) => {
                self.rings[r].proven = self.rings[r].proven.max(proven);
                Step::Rest(r + 1)
            }
            other => unreachable!("no flush is under way in {other:?}"),
        };
    }

    /// The proof of ring `r` is group `number`.
    pub(crate) fn proof_written(&mut self, r: usize, number: u64) {
        self.writers[r].hold = false;
        self.commit.step = Step::FlushProof(r, number - 1);
        if !self.rings[r].shape.volatile {
            self.commit.step = Step::Rest(r + 1);
        }
    }

    /// Begins the flush of a proof.
    pub(crate) fn flush_proof(&mut self, cx: &mut Cx<'_>) {
        if let Step::FlushProof(r, _) = self.commit.step {
            self.flush_child(self.rings[r].shape.child, cx);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What has not flushed the disk yet still does; what is at the rings is over.
    #[test]
    fn a_commit_whose_rings_go_still_flushes_the_disk() {
        let after = |step| {
            let mut commit = Commit { step, done: 3, wanted: 4, marks: 9 };
            commit.goes_on_without_rings(2);
            assert!(commit.is_under_way() && commit.marks == 0);
            commit.step
        };
        for step in [Step::Idle, Step::Erasures, Step::DiskFlush, Step::Lost] {
            assert_eq!(after(step), step);
        }
        for step in [Step::Marks(9), Step::Rest(0), Step::Flush(1), Step::Proof(0), Step::FlushProof(1, 5)] {
            assert_eq!(after(step), Step::Rest(2));
        }
    }
}
