//! The end of a batch that went to the disk: durable there before its units are erased.
//!
//! The collection flushes the disk itself, and then asks for a commit. A commit of the host does not wait for that: what was
//! demoted is still in its ring, and so a ring acknowledges while its disk takes a second to empty its cache.

use crate::gc::Stage;
use crate::machine::{Hybrid, Tag};
use nandu_base::{ByteOffset, Cx, ErrorKind, Op, Payload};

impl Hybrid {
    /// Every page of the batch is where it goes: it is made durable.
    pub(crate) fn settle_batch(&mut self, r: usize, cx: &mut Cx<'_>) {
        let to_disk = self.is_lowest(r) && self.policy.disk_volatile;
        if !to_disk || !std::mem::take(&mut self.demoted_unflushed) {
            return self.commit_batch(r);
        }
        if self.planted.demotes_unflushed {
            return self.commit_batch(r);
        }
        self.collectors[r].stage = Stage::DiskFlush;
        self.send_own(
            self.disk,
            Op::Flush,
            ByteOffset::ZERO,
            0,
            Payload::NONE,
            Tag::DemoteFlush,
            r as u32,
            cx,
        );
    }

    /// The disk is flushed, or not: then another flush would prove nothing, and service ends.
    pub(crate) fn batch_flushed(&mut self, r: usize, failed: bool, cx: &mut Cx<'_>) {
        if failed {
            return self.fail(ErrorKind::WriteFailed, cx);
        }
        self.commit_batch(r);
    }

    fn commit_batch(&mut self, r: usize) {
        let ticket = self.ask_for_commit();
        let c = &mut self.collectors[r];
        (c.stage, c.ticket) = (Stage::Commit, if self.planted.erase_before_proof { 0 } else { ticket });
        self.made_progress = true;
    }
}
