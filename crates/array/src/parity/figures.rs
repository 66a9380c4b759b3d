//! The figures of a parity array: legs, ways of writing, journal, rebuild, lost sectors, scrubs.

use super::{Parity, Run};
use crate::scrub::Scrubbed;
use nandu_base::Counter;

/// What is counted since the counters were reset.
#[derive(Clone, Debug, Default)]
pub(super) struct Counts {
    pub(super) full_stripe_writes: u64,
    pub(super) read_modify_writes: u64,
    pub(super) reconstruct_writes: u64,
    pub(super) parityless_writes: u64,
    pub(super) degraded_reads: u64,
    pub(super) rebuilt_bytes: u64,
    pub(super) rebuild_stops: u64,
    pub(super) sectors_lost: u64,
    pub(super) sectors_mended: u64,
    pub(super) journal_writes: u64,
    pub(super) journal_bytes: u64,
    pub(super) journal_waits: u64,
    pub(super) replays: u64,
    pub(super) checkpoints: u64,
    pub(super) superblock_writes: u64,
    pub(super) records_mended: u64,
    pub(super) repairs: u64,
    pub(super) read_errors: u64,
    pub(super) write_errors: u64,
    pub(super) legs_lost: u64,
    pub(super) legs_taken_in: u64,
    pub(super) legs_refused: u64,
    pub(super) timeouts: u64,
    pub(super) scrub: Scrubbed,
}

impl Parity {
    /// Legs that are rebuilt, and durably called so.
    pub(super) fn full_legs(&self) -> usize {
        let data = self.geometry.data;
        self.legs.iter().filter(|l| l.durable == data && l.recorded == data).count()
    }

    /// Every figure, in a stated order.
    pub(super) fn put_figures(&self, out: &mut Vec<Counter>) {
        let c = &self.count;
        for (name, value) in [
            // Not while it starts, the first time or anew: the journal may not be replayed yet.
            ("is_serving", u64::from(self.run == Run::Running)),
            ("full_legs", self.full_legs() as u64),
            ("legs_on_record", u64::from(self.members.settled == self.members.version)),
            ("legs_missing", self.legs.iter().filter(|l| !l.is_in()).count() as u64),
            ("bytes_to_rebuild", self.bytes_to_rebuild()),
            ("journal_slots", u64::from(self.journal.len())),
            ("pieces_under_way", (self.pieces.len() - self.free_pieces.len()) as u64),
            ("full_stripe_writes", c.full_stripe_writes),
            ("read_modify_writes", c.read_modify_writes),
            ("reconstruct_writes", c.reconstruct_writes),
            ("parityless_writes", c.parityless_writes),
            ("degraded_reads", c.degraded_reads),
            ("journal_writes", c.journal_writes),
            ("journal_bytes", c.journal_bytes),
            ("journal_waits", c.journal_waits),
            ("journal_replays", c.replays),
            ("checkpoints", c.checkpoints),
            ("superblock_writes", c.superblock_writes),
            ("records_repaired", c.records_mended),
            ("rebuilt_bytes", c.rebuilt_bytes),
            ("rebuild_stops", c.rebuild_stops),
            ("lost_sectors", self.lost.len() as u64),
            ("sectors_lost", c.sectors_lost),
            ("sectors_repaired", c.sectors_mended),
            ("repairs", c.repairs),
            ("leg_read_errors", c.read_errors),
            ("leg_write_errors", c.write_errors),
            ("legs_lost", c.legs_lost),
            ("legs_joined", c.legs_taken_in),
            ("legs_refused", c.legs_refused),
            ("legs_timed_out", c.timeouts),
        ] {
            out.push(Counter { name, value });
        }
        c.scrub.put(&self.scrub.course, out);
    }
}
