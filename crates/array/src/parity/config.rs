//! The options of `parity`, the faults that can be planted in it, and its building.

use super::Parity;
use super::layout::{Geometry, LegLayout, PAGE, Rotation};
use crate::legs::narrowest;
use crate::member::InitialSync;
use crate::scrub::{OnMismatch, ScrubConfig};
use nandu_base::{BuildContext, BuildError, ByteLen, DeviceConfig, Kind, Machine, Plant, Span, options};

/// Fewest and most legs.
pub const LEGS: std::ops::RangeInclusive<usize> = 3..=16;
/// Longest piece of a leg that one write of a stripe covers.
const PIECE_MOST: u64 = 128 << 10;

/// How the write hole is dealt with.
#[options]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WriteHole {
    /// Closed: every leg keeps what it is about to store in its own journal, durably, before any leg stores it. After a
    /// cut all of a stripe is there or nothing of it, whichever leg is lost with the cut. Every write goes out twice.
    Journal,
    /// Open while a leg is lost together with a cut: nothing is written twice, and after an unclean end the parity of
    /// the whole array is computed anew. Until that is done no leg can be done without: while one is missing requests
    /// fail, and an array that is both unclean and short of a leg starts only when `alone` is said.
    Resync,
}

/// What the machine needs of the options of scrubs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Maintenance {
    /// From the beginning of a scrub to that of the next; zero for never.
    pub(super) every: Span,
    /// Bytes of each leg a second; zero for no limit.
    pub(super) rate: u64,
    /// Whether a scrub that begins by itself mends what differs.
    pub(super) mends: bool,
}

/// Options of `parity`.
#[options]
#[derive(Clone, Debug)]
pub struct ParityConfig {
    /// The devices it is made of, in order. From 3 to 16.
    pub legs: Vec<String>,
    /// 5: the parity rotates over the legs. 3: the last leg holds all parity, and one request is served at a time.
    #[option(default = 5)]
    pub level: u8,
    /// Where the parity of each row lies at level 5.
    #[option(default)]
    pub layout: Rotation,
    /// Bytes on one leg before the next one follows.
    #[option(unset = "64 KiB at level 5 and 4 KiB at level 3", range = ByteLen::kib(4)..=ByteLen::mib(1), power_of_two)]
    pub chunk: Option<ByteLen>,
    /// How the write hole is dealt with.
    #[option(default = WriteHole::Journal)]
    pub write_hole: WriteHole,
    /// Bytes of each leg that are kept for its journal.
    #[option(default = ByteLen::mib(4), also = "room for 8 to 1024 entries of one chunk, at most 128 KiB, and 4 KiB")]
    pub journal_size: ByteLen,
    /// Bytes that one request of a rebuild covers.
    #[option(default = ByteLen::kib(256), range = ByteLen::kib(4)..=ByteLen::mib(16), multiple_of = ByteLen::kib(4))]
    pub rebuild_chunk: ByteLen,
    /// Bytes a second that a rebuild writes at most.
    #[option(default, off = "no limit", range = ByteLen::kib(4)..)]
    pub rebuild_rate: ByteLen,
    /// How often a failed write is tried again on its leg before the leg is given up.
    #[option(default = 1, range = 0..=1)]
    pub write_retries: u8,
    /// What is known of blank legs.
    #[option(default)]
    pub initial_sync: InitialSync,
    /// The comparison of all legs.
    #[option(default, table)]
    pub scrub: ScrubConfig,
    /// A leg that has not answered a request for this long is left out, if the others can do without it, and taken back and rebuilt when all its
    /// old requests have ended. Costs a copy of each read.
    #[option(default, off = "never", range = Span::from_ms(1)..=Span::from_secs(3600))]
    pub request_timeout: Span,
}

macro_rules! plants {
    ($([$list:ident, $about:literal] $($field:ident, $name:literal, $breaks:literal, $summary:literal $(, $family:literal)?;)*)*) => {
        $(#[doc = $about]
        pub const $list: &[Plant] = &[$(Plant::new($name, $breaks, $summary)$(.within($family))?),*];)*

        /// Which faults are planted, read once.
        #[derive(Clone, Copy, Debug, Default)]
        pub struct Planted {
            $($(#[doc = $summary] pub $field: bool,)*)*
        }

        impl Planted {
            fn of(cx: &BuildContext<'_>) -> Planted {
                Planted { $($($field: cx.planted($name)),*),* }
            }
        }
    };
}

plants! {
    [PLANTS, "Faults that can be planted, one for each rule."]
    parity_kept, "parity.parity-not-updated", "parity_is_xor",
        "a small write leaves the parity as it was";
    no_lock, "parity.no-stripe-lock", "one_write_per_stripe",
        "writes of one stripe do not wait for each other";
    lock_left_early, "parity.lock-left-early", "one_write_per_stripe",
        "the lock of a stripe is given up when the write is sent, so that a later one reads parity of before";
    read_before_rebuild, "parity.read-before-rebuild", "I-1",
        "a leg is read where it is not rebuilt yet";
    journal_skipped, "parity.journal-skipped", "I-1",
        "data goes to its place without having been in the journal";
    stale_leg_believed, "parity.stale-leg-believed", "I-1",
        "a leg that was out is taken for a current one at the start";
    grown_unzeroed, "parity.grown-not-zeroed", "parity_is_xor",
        "an array grows over its old records without zeroing them", "parity-of-leaves";
    grown_unflushed, "parity.grown-before-zeroed", "parity_is_xor",
        "an array says its new size before what is new is durably zeros", "parity-of-leaves";
    journal_reused_early, "parity.journal-reused-early", "I-1",
        "room in the journal is used again before the legs were flushed";
    read_unlocked, "parity.degraded-read-unlocked", "I-1",
        "a reconstruction does not wait for writes of its stripe";
    no_flush_at_open, "parity.no-flush-at-open", "I-1",
        "a start believes what lies in caches, which a cut can still remove";
    answered_before_out, "parity.answered-before-out", "I-1",
        "a write that a lost leg lacks is acknowledged before the others durably say that the leg is out";
    journaled_before_out, "parity.journaled-before-out", "parity_is_xor",
        "an entry of the journal leaves out a lost leg before the others durably say that the leg is out";
    replayed_before_out, "parity.replayed-before-out", "parity_is_xor",
        "a start replays the journal without a leg before it says durably that the leg is out";
    made_not_kept, "parity.made-part-not-kept", "parity_is_xor",
        "a part of a journal entry that a start made is not written into the journal before parts go to their places";
    lost_forgotten, "parity.lost-sectors-forgotten", "I-1",
        "a rebuild goes on past a sector that another leg cannot read and puts nothing on record";
    rebuild_goes_on, "parity.rebuild-goes-on", "parity_is_xor",
        "a rebuild goes on from its mark although its leg has gone and come back in between";
    scrub_unlocked, "parity.scrub-without-lock", "scrub_compares_current",
        "a scrub does not wait for writes of what it compares";

    [STORY_PLANTS, "Faults that need a certain story, which only the tests of this crate tell: what an operator does, or data that change by themselves."]
    scrub_mends_data, "parity.scrub-mends-data", "scrub_mends_parity",
        "a scrub makes data from the parity where the legs differ";
    opening_keeps_gen, "parity.opening-keeps-generation", "fresh_gen_on_both_before_serve",
        "an array is opened under the generation that it had";
    opening_in_one_phase, "parity.opening-in-one-phase", "restored_leg_never_believed",
        "an array is opened in one phase, and a leg that is one opening behind is taken for one that a cut kept from it";
    served_while_opening, "parity.served-while-opening", "restored_leg_never_believed",
        "an array is served after the first phase of its opening";
    opening_forgets_journal, "parity.opening-forgets-journal", "restored_leg_never_believed",
        "the first phase of an opening says that the journal is empty";
    lost_compared, "parity.scrub-compares-lost", "scrub_compares_current",
        "a scrub compares sectors that are lost";
    needed_leg_replaced, "parity.needed-leg-replaced", "no_replacement_of_what_is_needed",
        "a leg is replaced while another one is not rebuilt";
    replaced_believed, "parity.replaced-leg-taken", "replaced_leg_is_blank",
        "what comes in place of a replaced leg is taken although it holds records";
}

/// The first so many of [`PLANTS`] are looked for by the verified simulation too. The others have windows so narrow that only
/// the array's own tests, which cut everywhere, find them soon.
const SHOWN: usize = 8;

/// The machine kind `parity`.
pub fn kind() -> Kind {
    Kind::of::<ParityConfig>("parity", "RAID-3 and RAID-5: survives the loss of one of three or more devices")
        .with_plants(&PLANTS[..SHOWN])
}

impl ParityConfig {
    /// An array of `legs` with every option at its default.
    pub fn of(legs: &[&str]) -> ParityConfig {
        ParityConfig::with_defaults(legs.iter().map(|l| l.to_string()).collect())
    }

    pub(super) fn maintenance(&self) -> Maintenance {
        let ScrubConfig { interval, rate, on_mismatch } = self.scrub;
        Maintenance { every: interval, rate: rate.0, mends: on_mismatch == OnMismatch::Repair }
    }

    /// Bytes on one leg before the next one follows.
    pub fn chunk(&self) -> ByteLen {
        self.chunk.unwrap_or(if self.level == 3 { ByteLen::kib(4) } else { ByteLen::kib(64) })
    }

    fn check(&self) -> Result<(), BuildError> {
        if !LEGS.contains(&self.legs.len()) {
            let (have, low, high) = (self.legs.len(), LEGS.start(), LEGS.end());
            let why = format!("{have} devices is out of bounds: {low} to {high} devices");
            return Err(BuildError::at("legs", why));
        }
        if let Some(twice) = (1..self.legs.len()).find(|&i| self.legs[..i].contains(&self.legs[i])) {
            return Err(BuildError::at("legs", format!("`{}` is given twice", self.legs[twice])));
        }
        if !matches!(self.level, 3 | 5) {
            return Err(BuildError::at("level", format!("{} is neither 3 nor 5", self.level)));
        }
        if self.level == 3 && self.layout != Rotation::default() {
            return Err(BuildError::at(
                "layout",
                "at level 3 the parity does not rotate; leave the option out",
            ));
        }
        Ok(())
    }
}

impl DeviceConfig for ParityConfig {
    fn children(&self) -> Vec<String> {
        self.legs.clone()
    }

    fn build(&self, cx: &BuildContext<'_>) -> Result<Box<dyn Machine>, BuildError> {
        self.check()?;
        let mut limits = narrowest("legs", cx.children)?;
        for (leg, name) in cx.children.iter().zip(&self.legs) {
            if leg.erase_unit.is_some() || leg.program_order {
                return Err(BuildError::at("legs", format!("`{name}` cannot be overwritten in place")));
            }
            if u64::from(leg.align) > PAGE || leg.max_io.0 < 2 * PAGE {
                return Err(BuildError::at(
                    "legs",
                    format!("`{name}` does not take requests of 4 and 8 KiB"),
                ));
            }
        }
        let chunk = self.chunk().0;
        let longest = (limits.max_io.0 - PAGE).min(PIECE_MOST).min(chunk);
        let piece = 1u64 << longest.ilog2();
        let slots = match self.write_hole {
            WriteHole::Journal => self.journal_size.0 / (PAGE + piece),
            WriteHole::Resync => 0,
        };
        if self.write_hole == WriteHole::Journal && !(8..=1024).contains(&slots) {
            let (low, high) = (ByteLen(8 * (PAGE + piece)), ByteLen(1024 * (PAGE + piece)));
            let why =
                format!("{} is out of bounds: {low} to {high} for chunks of {chunk} B", self.journal_size);
            return Err(BuildError::at("journal_size", why));
        }
        let mut layouts = Vec::with_capacity(cx.children.len());
        for leg in cx.children {
            let need = LegLayout::smallest(slots, piece, chunk);
            let layout = LegLayout::of(leg.capacity, slots, piece, chunk)
                .ok_or_else(|| BuildError::too_small("legs", leg.capacity, need))?;
            layouts.push(layout);
        }
        let data = layouts.iter().map(|l| l.data).min().expect("there are legs");
        let geometry = Geometry {
            legs: cx.children.len() as u8,
            fixed: self.level == 3,
            rotation: self.layout,
            chunk_bits: chunk.trailing_zeros(),
            data,
        };
        let capacity = data.checked_mul(u64::from(geometry.data_legs())).filter(|&bytes| bytes < 1 << 63);
        limits.capacity =
            capacity.map(ByteLen).ok_or_else(|| BuildError::at("legs", "more than 8 EiB together"))?;
        limits.volatile_cache &= self.write_hole == WriteHole::Resync;
        limits.preferred = limits.preferred.max(PAGE as u32);
        Ok(Box::new(Parity::new(self, cx, limits, geometry, layouts, piece, slots as u32, Planted::of(cx))))
    }
}
