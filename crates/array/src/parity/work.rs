//! What the array does when an event has made it possible ([`crate::member::work`]), in this order.

use super::Parity;
use crate::member::set::Set;
use crate::member::work::{Work, Worker, jobs};
use nandu_base::{Cx, Instant};

jobs! {
    /// What may be ready.
    Ready {
        /// What waits ends with the array that has failed.
        Failed,
        /// The start.
        Open,
        /// Superblocks, and what waits until they name the legs as they are.
        Superblocks,
        /// Checkpoints.
        Checkpoint,
        /// A growth.
        Grow,
        /// A leg that has come back, or enough of them for another start.
        Join,
        /// Pieces that wait for room in the journal.
        Journal,
        /// The rebuild.
        Rebuild,
        /// The comparison of the legs.
        Scrub,
        /// What is told of the health.
        Health,
        /// The end.
        Close,
    }
}

impl Worker for Parity {
    type Job = Ready;

    #[inline]
    fn work(&mut self) -> &mut Work<Ready> {
        &mut self.work
    }

    fn begin_granted(&mut self, piece: u32, cx: &mut Cx<'_>) {
        self.begin(piece, cx);
    }

    fn awaits_timer(&self, now: Instant) -> bool {
        self.rebuild.next_at == now || self.scrub.course.is_awaited(now)
    }

    fn work_off(&mut self, job: Ready, cx: &mut Cx<'_>) {
        match job {
            Ready::Failed => self.pump_failed(cx),
            Ready::Open => self.pump_open(cx),
            Ready::Superblocks => self.pump_superblocks(cx),
            Ready::Checkpoint => self.pump_checkpoint(cx),
            Ready::Grow => self.pump_grow(cx),
            Ready::Join => self.pump_join(cx),
            Ready::Journal => self.pump_slots(cx),
            Ready::Rebuild => self.pump_rebuild(cx),
            Ready::Scrub => self.pump_scrub(cx),
            Ready::Health => self.tell_health(cx),
            Ready::Close => self.pump_close(cx),
        }
    }
}
