//! What the mirror does when an event has made it possible ([`crate::member::work`]), in this order.

use super::Mirror;
use crate::member::set::Set;
use crate::member::work::{Job, Work, Worker, jobs};
use nandu_base::{Cx, Instant, ReqId};

jobs! {
    /// What may be ready.
    Ready {
        /// What waits for the depth of a leg that is out ends there.
        Outboxes,
        /// Updates of maps and superblocks, and the procedure that waits for them.
        Records,
        /// Writes that wait for marks: some became durable, or writes are held no more.
        Intents,
        /// The next request of the serial manager.
        Serial,
        /// Writes of the delay queues.
        Drain,
        /// Writes over lost data.
        Heals,
        /// The bounds on what lies on one leg only, and writes that wait for them.
        Exposure,
        /// Flushes of clients.
        Flushes,
        /// The cycle that clears marks.
        Clear,
        /// Writes that wait for a place among the active regions.
        Places,
        /// Resync and repairs.
        Copies,
        /// The comparison of the legs.
        Scrub,
        /// A planned swap of the roles.
        Swap,
        /// What is told of the health.
        Health,
    }
}

impl Worker for Mirror {
    type Job = Ready;

    #[inline]
    fn work(&mut self) -> &mut Work<Ready> {
        &mut self.work
    }

    fn begin_granted(&mut self, op: u32, cx: &mut Cx<'_>) {
        self.begin(op, cx);
    }

    /// What a leg lacks, and since when, changes with every part of a write.
    #[inline]
    fn looks_always_at(&self) -> &'static [Ready] {
        if self.policy.lists_lost { &[Ready::Drain, Ready::Exposure] } else { &[] }
    }

    fn awaits_timer(&self, now: Instant) -> bool {
        let rests = self.paces.iter().any(|p| p.rests_until == now || p.stuck && p.rests_until < now);
        rests || self.exposure.is_looked_at(now) || self.scrub.course.is_awaited(now)
    }

    fn work_off(&mut self, job: Ready, cx: &mut Cx<'_>) {
        match job {
            Ready::Outboxes => self.empty_outboxes(cx),
            Ready::Records => self.pump_records(cx),
            Ready::Intents => {
                self.retry_intents(cx);
                self.retry_fua(cx);
            }
            Ready::Serial => self.next_serial(cx),
            Ready::Drain => (0..self.legs.len()).for_each(|leg| self.pump_drain(leg, cx)),
            Ready::Heals => self.pump_heals(cx),
            Ready::Exposure => self.pump_exposure(cx),
            Ready::Flushes => self.answer_flushes(ReqId::NONE, cx),
            Ready::Clear => self.pump_clear(cx),
            Ready::Places => self.feed_slots(cx),
            Ready::Copies => {
                if !self.copy_wait.is_empty() {
                    self.retry_copies(cx);
                }
                self.pump_copies(cx);
            }
            Ready::Scrub => self.pump_scrub(cx),
            Ready::Swap => self.pump_swap(cx),
            Ready::Health => self.tell_health(cx),
        }
    }
}

impl Mirror {
    /// Moves records and the procedure on as far as they go. What waits for either may be ready then.
    fn pump_records(&mut self, cx: &mut Cx<'_>) {
        let mut has_moved = false;
        loop {
            let mut moves = false;
            for leg in 0..self.legs.len() {
                moves |= self.pump_map(leg, cx);
                moves |= self.pump_sb(leg, cx);
            }
            moves |= self.run_proc(cx);
            if !moves {
                break;
            }
            has_moved = true;
        }
        if has_moved {
            self.work.add_each(&Ready::ALL[Ready::Records as usize + 1..]);
        }
    }
}
