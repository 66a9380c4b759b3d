//! The figures of a mirror (spec 6.4): members, marks, records, errors; for a `hetero-mirror` also how the legs keep step, the
//! delay queues, reads past a late leg, exposure and what is lost.

use super::leg::Place as Standing;
use super::ratio::Ratios;
use super::{MAX_LEGS, Mirror};
use crate::scrub::Scrubbed;
use nandu_base::Counter;

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

impl Mirror {
    /// Every figure, in a stated order.
    pub(super) fn put_figures(&self, out: &mut Vec<Counter>) {
        let c = &self.count;
        let member = |leg: usize| u64::from(self.legs[leg].place == Standing::Member);
        let legs = self.legs.len();
        let of_legs =
            |names: [&'static str; MAX_LEGS], value: &dyn Fn(usize) -> u64, out: &mut Vec<Counter>| {
                let each = names.into_iter().take(legs).enumerate();
                out.extend(each.map(|(leg, name)| Counter { name, value: value(leg) }));
            };
        of_legs(of_each!("is_member"), &member, out);
        for (name, value) in [
            ("leader_leg", self.leader as u64),
            ("active_regions", u64::from(self.regions.in_use())),
            ("stale_regions", self.stale.iter().map(|stale| stale.count()).max().unwrap_or(0)),
            ("dirty_regions", self.legs[self.leader].map.count_d()),
            ("intent_waits", c.intent_waits),
            ("held_writes", c.held_writes),
            ("map_page_writes", c.map_writes),
            ("superblock_writes", c.superblock_writes),
            ("records_repaired", c.records_mended),
            ("regions_cleared", c.clears),
        ] {
            out.push(Counter { name, value });
        }
        of_legs(of_each!("flushes"), &|leg| c.leg_flushes[leg], out);
        of_legs(of_each!("reads"), &|leg| c.reads[leg], out);
        of_legs(of_each!("read_errors"), &|leg| c.read_errors[leg], out);
        of_legs(of_each!("write_errors"), &|leg| c.write_errors[leg], out);
        for (name, value) in [
            ("repairs", c.repairs),
            ("resync_bytes", c.resync_bytes),
            ("resync_regions", c.resync_regions),
            ("resync_unreadable_chunks", c.resync_unreadable),
            ("degraded_transitions", c.solos),
            ("rejoins", c.rejoins),
            ("rejoins_refused", c.refused),
        ] {
            out.push(Counter { name, value });
        }
        c.scrub.put(&self.scrub.course, out);
        for (name, value) in
            [("regions_predeclared", c.predeclared), ("leader_changes", c.swaps), ("growths", c.growths)]
        {
            out.push(Counter { name, value });
        }
        of_legs(of_each!("depth_waits"), &|leg| c.depth_waits[leg], out);
        of_legs(of_each!("timeouts"), &|leg| c.timeouts[leg], out);
        if self.policy.lists_lost {
            self.hetero_counters(out);
        }
    }

    /// Figures of a `hetero-mirror` beside those of a mirror.
    fn hetero_counters(&self, out: &mut Vec<Counter>) {
        let (c, e) = (&self.count, &self.exposure);
        for (name, value) in [
            ("early_acks", c.early_acks),
            ("writes_over_wait_limit", c.over_limit),
            ("leg_a_is_delayed", u64::from(self.paces[0].delayed)),
            ("leg_b_is_delayed", u64::from(self.paces[1].delayed)),
            ("leg_a_delays", self.paces[0].delays),
            ("leg_b_delays", self.paces[1].delays),
            ("leg_a_delayed_ns", self.paces[0].delayed_for.0),
            ("leg_b_delayed_ns", self.paces[1].delayed_for.0),
            ("leg_a_queue_pieces_max", c.queue_max[0]),
            ("leg_b_queue_pieces_max", c.queue_max[1]),
            ("leg_a_queue_bytes_max", c.queue_bytes_max[0]),
            ("leg_b_queue_bytes_max", c.queue_bytes_max[1]),
            ("leg_a_queue_bytes", self.lag[0].bytes()),
            ("leg_b_queue_bytes", self.lag[1].bytes()),
            ("delayed_bytes", c.queued_bytes),
            ("drained_writes", c.drained),
            ("drained_pieces", c.drained_pieces),
            ("drained_bytes", c.drained_bytes),
            ("reads_from_queue", c.queue_reads),
            ("reads_split", c.split_reads),
            ("reads_hedged", c.hedges),
            ("writes_hedged", c.write_hedges),
            ("backlog_reliefs", c.relieved),
            ("reads_of_lost_data", c.lost_reads),
            ("exposed_bytes", e.bytes),
            ("exposed_bytes_max", e.bytes_max),
            ("exposed_ns_max", e.age_max.0),
            ("exposure_waits", c.exposure_waits),
            ("degrades", c.degrades),
            ("held_batches", self.hold.batches),
            ("lost_bytes", self.lost.bytes()),
            ("lost_bytes_total", c.lost_bytes),
        ] {
            out.push(Counter { name, value });
        }
        c.ratios.put(out);
    }
}
