//! The figures of a parity array: legs, ways of writing, journal, rebuild, lost sectors, scrubs.

use super::{Parity, Run};
use crate::scrub::Scrubbed;
use nandu_base::Report;

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
    pub(super) growths: u64,
    pub(super) scrub: Scrubbed,
}

impl Parity {
    /// Legs that are rebuilt, and durably called so.
    pub(super) fn full_legs(&self) -> usize {
        let data = self.geometry.data;
        self.legs.iter().filter(|l| l.durable == data && l.recorded == data).count()
    }

    /// Every figure, in a stated order.
    pub(super) fn put_figures(&mut self, report: &mut Report) {
        if report.wants_counters() {
            // Not while it starts, the first time or anew: the journal may not be replayed yet.
            report.put("is_serving", u64::from(self.run == Run::Running));
            report.put("full_legs", self.full_legs() as u64);
            report.put("legs_on_record", u64::from(self.members.settled == self.members.version));
            report.put("legs_missing", self.legs.iter().filter(|l| !l.is_in()).count() as u64);
            report.put("bytes_to_rebuild", self.bytes_to_rebuild());
            report.put("journal_slots", u64::from(self.journal.len()));
            report.put("pieces_under_way", (self.pieces.len() - self.free_pieces.len()) as u64);
        }
        let c = &mut self.count;
        report.count("full_stripe_writes", &mut c.full_stripe_writes);
        report.count("read_modify_writes", &mut c.read_modify_writes);
        report.count("reconstruct_writes", &mut c.reconstruct_writes);
        report.count("parityless_writes", &mut c.parityless_writes);
        report.count("degraded_reads", &mut c.degraded_reads);
        report.count("journal_writes", &mut c.journal_writes);
        report.count("journal_bytes", &mut c.journal_bytes);
        report.count("journal_waits", &mut c.journal_waits);
        report.count("journal_replays", &mut c.replays);
        report.count("checkpoints", &mut c.checkpoints);
        report.count("superblock_writes", &mut c.superblock_writes);
        report.count("records_repaired", &mut c.records_mended);
        report.count("rebuilt_bytes", &mut c.rebuilt_bytes);
        report.count("rebuild_stops", &mut c.rebuild_stops);
        report.put("lost_sectors", self.lost.count() as u64);
        report.count("sectors_lost", &mut c.sectors_lost);
        report.count("sectors_repaired", &mut c.sectors_mended);
        report.count("repairs", &mut c.repairs);
        report.count("leg_read_errors", &mut c.read_errors);
        report.count("leg_write_errors", &mut c.write_errors);
        report.count("legs_lost", &mut c.legs_lost);
        report.count("legs_joined", &mut c.legs_taken_in);
        report.count("legs_refused", &mut c.legs_refused);
        report.count("legs_timed_out", &mut c.timeouts);
        report.count("growths", &mut c.growths);
        c.scrub.report(&self.scrub.course, report);
    }
}
