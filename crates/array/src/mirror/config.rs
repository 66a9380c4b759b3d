//! Options of `mirror`, and the faults that can be planted in it.

use super::layout::{Layout, PAGE};
use super::policy::{Maintenance, Policy};
use super::{MAX_LEGS, Mirror};
use crate::member::InitialSync;
use crate::scrub::{OnMismatch, ScrubConfig};
use nandu_base::{BuildContext, BuildError, ByteLen, DeviceConfig, Kind, Machine, Plant, Span, options};

/// Which member serves a read when several can.
#[options]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReadPolicy {
    /// The leader.
    Leader,
    /// The one that is less busy, then the one expected to be faster, then the one with fewer reads in flight, then the
    /// leader.
    Balanced,
    /// All in turn.
    RoundRobin,
    /// The one with fewer reads in flight, then the leader.
    ShortestQueue,
    /// The one expected to be faster, by what the device itself says, then as `shortest-queue`.
    LatencyAware,
}

/// Which leg leads when both are healthy.
#[options]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Failback {
    /// The one that led last: roles swap when the leader leaves, and by command.
    Manual,
    /// The first one: it takes over again when it has come back and is resynced.
    Immediate,
}

/// What both kinds of mirror are told of how they keep their legs alike.
#[options]
#[derive(Clone, Debug)]
pub struct CommonConfig {
    /// Bytes for which one mark says "the legs may differ here".
    #[option(default = ByteLen::mib(1), range = ByteLen::kib(64)..=ByteLen::mib(64), power_of_two)]
    pub region_size: ByteLen,
    /// A region without writes for this long is marked clean again.
    #[option(default = Span::from_secs(5), range = Span::from_ms(1)..=Span::from_secs(3600))]
    pub bitmap_delay: Span,
    /// Most regions marked at once while all legs are members, which bounds what is copied after a crash.
    #[option(default = 1024, range = 32..=65_536)]
    pub max_dirty_regions: u32,
    /// Bytes copied by one request of a resync.
    #[option(default = ByteLen::kib(256), range = ByteLen::kib(4)..=ByteLen::mib(16), multiple_of = ByteLen::kib(4))]
    pub resync_chunk: ByteLen,
    /// Copies in flight at once.
    #[option(default = 2, range = 1..=64)]
    pub resync_depth: u32,
    /// Bytes a second that a resync copies at most.
    #[option(default, off = "no limit", range = ByteLen::kib(4)..)]
    pub resync_rate: ByteLen,
    /// How often a failed write is tried again on its leg before the leg is given up.
    #[option(default = 1, range = 0..=16)]
    pub write_retries: u8,
    /// What is known of blank legs.
    #[option(default)]
    pub initial_sync: InitialSync,
    /// The comparison of the legs.
    #[option(default, table)]
    pub scrub: ScrubConfig,
    /// Which leg leads when all are healthy.
    #[option(default = Failback::Manual)]
    pub failback: Failback,
    /// Regions that are marked ahead of a sequential writer.
    #[option(default = 8, range = 0..=64)]
    pub mark_ahead: u32,
    /// Requests for data in flight at once on each leg, one number for each.
    #[option(default, off = "no bound", note = "as 0", range = ..=65_535)]
    pub leg_queue_depth: Vec<u32>,
}

/// Options of `mirror`.
#[options]
#[derive(Clone, Debug)]
pub struct MirrorConfig {
    /// The devices that hold the same data: 2 to 8.
    pub legs: Vec<String>,
    #[option(flatten, default)]
    #[allow(missing_docs)] // they have words of their own
    pub common: CommonConfig,
    /// Which leg serves a read.
    #[option(default = ReadPolicy::Balanced)]
    pub read_policy: ReadPolicy,
    /// A leg that has not answered a request for this long is left out, if the others can do without it, and taken back when all its old requests
    /// have ended. Costs a copy of each read.
    #[option(default, off = "never", range = Span::from_ms(1)..=Span::from_secs(3600))]
    pub request_timeout: Span,
}

macro_rules! plants {
    ($([$list:ident, $about:literal] $($field:ident, $name:literal, $breaks:literal, $summary:literal
        $(, $family:literal)?;)*)*) => {
        $(#[doc = $about]
        pub const $list: &[Plant] = &[$(Plant::new($name, $breaks, $summary)$(.within($family))?),*];)*

        /// Which faults are planted, read once.
        #[derive(Clone, Copy, Debug, Default)]
        pub struct Planted {
            $($(#[doc = $summary] pub $field: bool,)*)*
        }

        impl Planted {
            pub(super) fn of(cx: &BuildContext<'_>) -> Planted {
                Planted { $($($field: cx.planted($name)),*),* }
            }
        }
    };
}

plants! {
    [PLANTS, "Faults that can be planted in any mirror, by the rows of docs/explanation/mirror-protocol.md section 7."]
    data_before_intent, "mirror.data-before-intent", "intent_before_data",
        "row 1: data goes to the legs before the region's D is durable";
    clear_after_leader_flush, "mirror.clear-after-leader-flush", "clear_needs_both_flushed",
        "row 2: D is cleared when only the leader has flushed";
    clear_after_follower_flush, "mirror.clear-after-follower-flush", "clear_needs_both_flushed",
        "row 3: D is cleared when only the follower has flushed";
    flush_one_leg, "mirror.flush-one-leg", "flush_covers_leader",
        "row 4: a flush covers the leader only";
    read_before_resync, "mirror.read-before-resync", "read_only_current",
        "row 6: a leg that lacks data is read";
    copy_without_lock, "mirror.copy-without-lock", "copy_holds_slot",
        "row 8: a copy and a write of one block do not wait for each other";
    dirty_from_one_map, "mirror.dirty-from-one-map", "quiet_means_equal_and_clean",
        "row 11: at open only the follower's map is believed";
    flush_joins_running, "mirror.flush-joins-running", "flush_snapshot_at_issue",
        "row 15: a flush counts on a leg flush that was issued before the data was written";
    read_any_leg, "mirror.read-during-write", "read_only_current",
        "row 16: reads do not wait for writes of the same block, and a write is acknowledged by one leg";
    no_flush_at_open, "mirror.no-flush-at-open", "open_durable_before_serve",
        "row 17: the legs are not flushed at open";
    two_writes_in_flight, "mirror.two-writes-in-flight", "one_in_flight_per_block_and_leg",
        "row 18: overlapping writes do not wait for each other";
    start_pair_alone, "mirror.start-pair-alone", "solo_gen_is_fresh",
        "row 19: a leg that says Pair starts alone unasked";
    marks_kept, "mirror.marks-kept", "marks_reset_on_leave",
        "row 20: what is copied to a returned leg counts as flushed";
    lone_flush_before_solo, "mirror.lone-flush-before-solo", "solo_before_lone_ack",
        "row 21: a flush is acknowledged by one leg before Solo is durable", "mirror-of-faulty-ssds";
    promote_half_joined, "mirror.promote-half-joined", "no_promotion_while_half_joined",
        "row 23: a leg that is not resynced takes over";
    single_slot, "mirror.single-slot", "slot_alternates_after_flush",
        "row 24: each record has one slot only";
    serve_before_solo, "mirror.serve-before-solo", "open_durable_before_serve",
        "row 9: a start serves before its superblock is durable";
    union_on_leader_only, "mirror.union-on-leader-only", "open_durable_before_serve",
        "row 10: a start serves without the follower saying that it may lack data", "mirror-of-files";
    old_records_first, "mirror.old-records-first", "moved_records_before_old_ones_go",
        "row 37: a mirror that grows zeroes its old superblocks before the new ones are durable", "mirror-of-files";

    [HETERO_PLANTS, "Faults that can be planted in a `hetero-mirror` only."]
    flush_without_l, "hetero-mirror.flush-without-l", "flush_alone_needs_l_or_solo",
        "row 4: a flush counts on the leader alone although the follower does not say L", "hetero-mirror-of-files";
    flush_past_queue, "hetero-mirror.flush-past-queue", "flush_covers_leader",
        "row 7: a flush does not wait for what a leg still lacks", "hetero-mirror-of-unlike";
    read_lagging, "hetero-mirror.read-lagging", "read_only_current",
        "row 16: a leg is read although it lags there", "hetero-mirror-of-unlike";
    write_past_queue, "hetero-mirror.write-past-queue", "one_in_flight_per_block_and_leg",
        "row 18: a write overtakes an older one in the leg's queue", "hetero-mirror-of-unlike";
    payload_dropped, "hetero-mirror.payload-dropped", "payload_held_until_acked",
        "row 22: the bytes of a delayed write are not kept", "hetero-mirror-of-unlike";
    fua_any_leg, "hetero-mirror.fua-any-leg", "flush_covers_leader",
        "row 7: FUA is answered by any leg", "hetero-mirror-of-unlike";
    scrub_lagging, "hetero-mirror.scrub-lagging", "scrub_compares_current",
        "a scrub compares a leg that lags there", "hetero-mirror-of-unlike";
    no_exposure_bound, "hetero-mirror.no-exposure-bound", "exposure_bounded_or_announced",
        "the bounds on exposure are not kept", "hetero-mirror-of-unlike";
    holds_too_long, "hetero-mirror.holds-too-long", "exposure_bounded_or_announced",
        "the queue of a leg that may rest is kept for the whole bound on exposure", "hetero-mirror-that-rests";

    [STORY_PLANTS, "Faults that need a certain story, which only the tests of this crate tell: what an operator does, or a cut within two steps of another."]
    solo_before_drain, "mirror.solo-before-drain", "solo_after_drain_and_flush",
        "row 5: Solo is written before the survivor has drained and flushed";
    one_survivor_records, "mirror.one-survivor-records", "solo_gen_is_fresh",
        "row 38: of several survivors only the one that leads says that the set has changed";
    solo_keeps_gen, "mirror.solo-keeps-generation", "solo_gen_is_fresh",
        "row 12: a leg goes on alone under the old generation";
    solo_overwritten, "mirror.solo-overwritten", "solo_gen_is_fresh",
        "row 13c: a leg that went on alone is overwritten when it returns";
    pair_before_l, "mirror.pair-before-l", "pair_again_l_covers_d",
        "row 14: a pair again before the returning leg says what it lacks";
    opening_keeps_gen, "mirror.opening-keeps-generation", "fresh_gen_on_both_before_serve",
        "row 25: a pair is opened under the generation that it had";
    opening_in_one_phase, "mirror.opening-in-one-phase", "fresh_gen_on_both_before_serve",
        "row 28: both legs say Pair with the fresh generation at once, and any difference is taken for an old copy";
    served_while_opening, "mirror.served-while-opening", "restored_leg_never_believed",
        "row 29: a pair is served after the first phase of its opening";
    rejoin_keeps_gen, "mirror.rejoin-keeps-generation", "rejoin_has_fresh_gen",
        "row 33: a leg rejoins under the generation that its leader had alone";
    unreadable_slot_forgotten, "mirror.unreadable-slot-forgotten", "slot_alternates_after_flush",
        "row 24: of a page whose two slots cannot be read only one is written anew";
    mend_before_intent, "mirror.mend-before-intent", "intent_before_data",
        "a scrub writes to a leg before D is durable";
    follower_wins, "mirror.follower-wins", "scrub_mends_follower",
        "a scrub writes the follower's data to the leader";
    replaced_believed, "mirror.replaced-leg-believed", "read_only_current",
        "row 35: a leg of an older generation is copied only where the leader has marks";
    lost_cleared_before_flush, "hetero-mirror.lost-cleared-before-flush", "lost_clear_after_flush",
        "row 13: lost data are off the list before what was written over them is flushed";
    answered_before_lost_cleared, "hetero-mirror.answered-before-lost-cleared", "lost_clear_after_flush",
        "row 13b: a write over lost data is answered before the list without them is durable";
}

/// The machine kind `mirror`.
pub fn kind() -> Kind {
    Kind::of::<MirrorConfig>(
        "mirror",
        "two to eight devices with the same data; survives the loss of all but one",
    )
    .with_plants(PLANTS)
}

impl MirrorConfig {
    /// A mirror of two devices with every option at its default.
    pub fn of(a: &str, b: &str) -> MirrorConfig {
        MirrorConfig::with_defaults(vec![a.into(), b.into()])
    }

    /// The same over these devices.
    pub fn over(self, legs: &[&str]) -> MirrorConfig {
        MirrorConfig { legs: legs.iter().map(|&leg| leg.into()).collect(), ..self }
    }

    pub(super) fn maintenance(&self) -> Maintenance {
        Maintenance {
            scrub_every: self.common.scrub.interval,
            scrub_rate: self.common.scrub.rate.0,
            scrub_mends: self.common.scrub.on_mismatch == OnMismatch::Repair,
            lead_first: self.common.failback == Failback::Immediate,
            mark_ahead: self.common.mark_ahead,
            leg_queue_depth: {
                let mut depths = [0; MAX_LEGS];
                depths.iter_mut().zip(&self.common.leg_queue_depth).for_each(|(depth, &most)| *depth = most);
                depths
            },
        }
    }

    pub(super) fn check(&self) -> Result<(), BuildError> {
        if !(2..=MAX_LEGS).contains(&self.legs.len()) {
            let why = format!("a mirror has 2 to {MAX_LEGS} legs, not {}", self.legs.len());
            return Err(BuildError::at("legs", why));
        }
        if (1..self.legs.len()).any(|leg| self.legs[..leg].contains(&self.legs[leg])) {
            return Err(BuildError::at("legs", "two legs are the same device"));
        }
        let depths = self.common.leg_queue_depth.len();
        if depths > 0 && depths != self.legs.len() {
            return Err(BuildError::at("leg_queue_depth", "there must be one number for each leg"));
        }
        Ok(())
    }
}

impl DeviceConfig for MirrorConfig {
    fn children(&self) -> Vec<String> {
        self.legs.clone()
    }

    fn build(&self, cx: &BuildContext<'_>) -> Result<Box<dyn Machine>, BuildError> {
        self.build_with(Policy::MIRROR, cx)
    }
}

impl MirrorConfig {
    /// The machine that these options make under `policy`.
    pub(super) fn build_with(
        &self,
        policy: Policy,
        cx: &BuildContext<'_>,
    ) -> Result<Box<dyn Machine>, BuildError> {
        self.check()?;
        let shift = self.common.region_size.0.trailing_zeros() as u8;
        let mut layouts = Vec::with_capacity(self.legs.len());
        for (limits, name) in cx.children.iter().zip(&self.legs) {
            if limits.erase_unit.is_some() || limits.program_order {
                return Err(BuildError::at("legs", format!("`{name}` cannot be overwritten in place")));
            }
            if u64::from(limits.align) > PAGE || limits.max_io.0 < PAGE {
                return Err(BuildError::at("legs", format!("`{name}` does not take single blocks of 4 KiB")));
            }
            let layout = Layout::of(limits.capacity, shift)
                .ok_or_else(|| BuildError::too_small("legs", limits.capacity, Layout::smallest()))?;
            layouts.push(layout);
        }
        Ok(Box::new(Mirror::new(self, policy, cx, layouts, Planted::of(cx))))
    }
}
