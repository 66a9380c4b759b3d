//! The figures of a mirror (spec 6.4): members, marks, records, errors; for a `hetero-mirror` also how the legs keep step, the
//! delay queues, reads past a late leg, exposure and what is lost.

use super::leg::Place as Standing;
use super::ratio::Ratios;
use super::{MAX_LEGS, Mirror};
use crate::scrub::Scrubbed;
use nandu_base::{Figure, Report};

/// The names of a figure that each leg has.
macro_rules! of_each {
    ($what:literal) => {
        [
            concat!("leg_a_", $what),
            concat!("leg_b_", $what),
            concat!("leg_c_", $what),
            concat!("leg_d_", $what),
            concat!("leg_e_", $what),
            concat!("leg_f_", $what),
            concat!("leg_g_", $what),
            concat!("leg_h_", $what),
        ]
    };
}

/// What is counted since the counters were reset.
#[derive(Clone, Debug, Default)]
pub(super) struct Counts {
    pub(super) leg_flushes: [u64; MAX_LEGS],
    pub(super) map_writes: u64,
    pub(super) superblock_writes: u64,
    pub(super) records_mended: u64,
    pub(super) intent_waits: u64,
    pub(super) clears: u64,
    pub(super) resync_bytes: u64,
    pub(super) resync_regions: u64,
    pub(super) resync_unreadable: u64,
    pub(super) read_errors: [u64; MAX_LEGS],
    pub(super) write_errors: [u64; MAX_LEGS],
    pub(super) repairs: u64,
    pub(super) solos: u64,
    pub(super) rejoins: u64,
    pub(super) refused: u64,
    pub(super) reads: [u64; MAX_LEGS],
    pub(super) held_writes: u64,
    pub(super) early_acks: u64,
    pub(super) over_limit: u64,
    pub(super) queued_bytes: u64,
    pub(super) queue_max: [u64; MAX_LEGS],
    pub(super) queue_bytes_max: [u64; MAX_LEGS],
    pub(super) drained: u64,
    pub(super) drained_pieces: u64,
    pub(super) drained_bytes: u64,
    pub(super) queue_reads: u64,
    pub(super) split_reads: u64,
    pub(super) lost_reads: u64,
    pub(super) lost_bytes: u64,
    pub(super) exposure_waits: u64,
    pub(super) degrades: u64,
    pub(super) hedges: u64,
    pub(super) write_hedges: u64,
    pub(super) relieved: u64,
    pub(super) ratios: Ratios,
    pub(super) scrub: Scrubbed,
    pub(super) predeclared: u64,
    pub(super) swaps: u64,
    pub(super) growths: u64,
    pub(super) depth_waits: [u64; MAX_LEGS],
    pub(super) timeouts: [u64; MAX_LEGS],
}

/// A figure that each leg has.
fn count_each(names: [&'static str; MAX_LEGS], counts: &mut [impl Figure], legs: usize, report: &mut Report) {
    names.into_iter().zip(counts).take(legs).for_each(|(name, count)| report.count(name, count));
}

impl Mirror {
    /// Every figure, in a stated order.
    pub(super) fn put_figures(&mut self, report: &mut Report) {
        let legs = self.legs.len();
        for (leg, name) in self.legs.iter().zip(of_each!("is_member")) {
            report.put(name, u64::from(leg.place == Standing::Member));
        }
        report.put("leader_leg", self.leader as u64);
        report.put("active_regions", u64::from(self.regions.in_use()));
        if report.wants_counters() {
            let stale = self.stale.iter().map(|stale| stale.count()).max();
            report.put("stale_regions", stale.unwrap_or(0));
            report.put("dirty_regions", self.legs[self.leader].map.count_d());
        }
        let c = &mut self.count;
        report.count("intent_waits", &mut c.intent_waits);
        report.count("held_writes", &mut c.held_writes);
        report.count("map_page_writes", &mut c.map_writes);
        report.count("superblock_writes", &mut c.superblock_writes);
        report.count("records_repaired", &mut c.records_mended);
        report.count("regions_cleared", &mut c.clears);
        count_each(of_each!("flushes"), &mut c.leg_flushes, legs, report);
        count_each(of_each!("reads"), &mut c.reads, legs, report);
        count_each(of_each!("read_errors"), &mut c.read_errors, legs, report);
        count_each(of_each!("write_errors"), &mut c.write_errors, legs, report);
        report.count("repairs", &mut c.repairs);
        report.count("resync_bytes", &mut c.resync_bytes);
        report.count("resync_regions", &mut c.resync_regions);
        report.count("resync_unreadable_chunks", &mut c.resync_unreadable);
        report.count("degraded_transitions", &mut c.solos);
        report.count("rejoins", &mut c.rejoins);
        report.count("rejoins_refused", &mut c.refused);
        c.scrub.report(&self.scrub.course, report);
        report.count("regions_predeclared", &mut c.predeclared);
        report.count("leader_changes", &mut c.swaps);
        report.count("growths", &mut c.growths);
        count_each(of_each!("depth_waits"), &mut c.depth_waits, legs, report);
        count_each(of_each!("timeouts"), &mut c.timeouts, legs, report);
        if self.policy.lists_lost {
            self.put_hetero_figures(report);
        }
        report.restart(&mut self.count);
    }

    /// Figures of a `hetero-mirror` beside those of a mirror.
    fn put_hetero_figures(&mut self, report: &mut Report) {
        let (c, e) = (&mut self.count, &mut self.exposure);
        report.count("early_acks", &mut c.early_acks);
        report.count("writes_over_wait_limit", &mut c.over_limit);
        let [a, b, ..] = &mut self.paces[..] else { unreachable!("it has two legs") };
        report.put("leg_a_is_delayed", u64::from(a.delayed));
        report.put("leg_b_is_delayed", u64::from(b.delayed));
        report.count("leg_a_delays", &mut a.delays);
        report.count("leg_b_delays", &mut b.delays);
        report.count("leg_a_delayed_ns", &mut a.delayed_for);
        report.count("leg_b_delayed_ns", &mut b.delayed_for);
        report.count("leg_a_queue_pieces_max", &mut c.queue_max[0]);
        report.count("leg_b_queue_pieces_max", &mut c.queue_max[1]);
        report.count("leg_a_queue_bytes_max", &mut c.queue_bytes_max[0]);
        report.count("leg_b_queue_bytes_max", &mut c.queue_bytes_max[1]);
        report.put("leg_a_queue_bytes", self.lag[0].bytes());
        report.put("leg_b_queue_bytes", self.lag[1].bytes());
        report.count("delayed_bytes", &mut c.queued_bytes);
        report.count("drained_writes", &mut c.drained);
        report.count("drained_pieces", &mut c.drained_pieces);
        report.count("drained_bytes", &mut c.drained_bytes);
        report.count("reads_from_queue", &mut c.queue_reads);
        report.count("reads_split", &mut c.split_reads);
        report.count("reads_hedged", &mut c.hedges);
        report.count("writes_hedged", &mut c.write_hedges);
        report.count("backlog_reliefs", &mut c.relieved);
        report.count("reads_of_lost_data", &mut c.lost_reads);
        report.put("exposed_bytes", e.bytes);
        report.put("exposed_bytes_max", e.bytes_max);
        report.count("exposed_ns_max", &mut e.age_max);
        if report.begins_anew() {
            e.bytes_max = e.bytes;
        }
        report.count("exposure_waits", &mut c.exposure_waits);
        report.count("degrades", &mut c.degrades);
        report.count("held_batches", &mut self.hold.batches);
        report.put("lost_bytes", self.lost.bytes());
        report.count("lost_bytes_total", &mut c.lost_bytes);
        c.ratios.report(report);
    }
}
