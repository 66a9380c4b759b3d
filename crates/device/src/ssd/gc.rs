//! The options of garbage collection and of wear.

use nandu_base::options::{Described, Options};
use nandu_base::policy::{POLICIES_BESIDE, POLICY_NAMES};
use nandu_base::{BuildError, Chosen, Family, Ratio, Registry, Span, options};
use nandu_ftl::gc::{GcPolicy, Victims};
use nandu_ftl::wear::{Levellings, WearPolicy};
use nandu_ftl::{FreeOrder, WearRules};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer};
use std::borrow::Cow;
use std::marker::PhantomData;

/// Garbage collection.
#[options]
#[derive(Clone, PartialEq, Debug)]
pub struct GcConfig {
    #[option(flatten, default)]
    #[allow(missing_docs)] // they are those of the policy
    pub victim: Victim,
    /// Free blocks of a plane at which clearing begins.
    #[option(default = 3, range = 2..)]
    pub threshold: u32,
    /// Free blocks of a plane at which a write waits until whole blocks are cleared.
    #[option(default = 1, range = 1.., also = "below `threshold`; with `mode = \"incremental\"`")]
    pub hard_threshold: u32,
    /// When pages move.
    #[option(default)]
    pub mode: Pace,
    /// Free blocks of each plane that an idle drive makes.
    #[option(unset = "an idle drive does nothing", also = "above `threshold`, below the blocks of a plane")]
    pub idle_free_target: Option<u32>,
    /// How long no request must have come before the drive counts as idle.
    #[option(default = Span::from_ms(5), above = Span::ZERO)]
    pub idle_after: Span,
    /// Share of a block's pages that an idle drive must gain to clear it.
    #[option(default = Ratio::new(1, 8), range = ..=Ratio::new(1, 1))]
    pub idle_min_invalid: Ratio,
    /// Whether moved pages go to blocks of their own, apart from the host's.
    #[option(default = true)]
    pub separate_frontier: bool,
    /// Whether pages move inside the die, without crossing the channel.
    #[option(default)]
    pub copyback: bool,
    /// Whether a step of collection moves as many pages as end a stripe, a page in each block of a unit, and reads all of them before it programs them, so that planes of a die work together.
    #[option(default, also = "with a `reclaim_unit` of several planes of a die")]
    pub whole_stripes: bool,
}

/// A policy whose options stand in one table with those of what it serves.
pub trait Beside: Family {
    /// The table.
    const TABLE: &'static str;
    /// What is said of `kind`.
    const HELP: &'static str;
    /// The policy where none is named.
    const USUAL: &'static str;
}

impl Beside for Victims {
    const TABLE: &'static str = "gc";
    const HELP: &'static str = "Which block is cleared next. A plane on its last free block takes the one with the most invalid pages in any case.";
    const USUAL: &'static str = "greedy";
}

impl Beside for Levellings {
    const TABLE: &'static str = "wear";
    const HELP: &'static str = "Which block is cleared for its wear.";
    const USUAL: &'static str = "threshold";
}

/// Such a policy: the keys of the table that are not of what it serves.
pub struct Keys<F: Family>(Chosen<F>);

/// Which block is cleared next.
pub type Victim = Keys<Victims>;
/// Which block is cleared for its wear.
pub type Levelling = Keys<Levellings>;

impl<F: Beside> Keys<F> {
    /// Looks the policy up, unless it is one of this project.
    pub(super) fn settle(&mut self, registry: &Registry) -> Result<(), BuildError> {
        self.0.settle(F::TABLE, registry)
    }
}

impl<F: Family> Clone for Keys<F> {
    fn clone(&self) -> Keys<F> {
        Keys(self.0.clone())
    }
}

impl<F: Family> PartialEq for Keys<F> {
    fn eq(&self, other: &Keys<F>) -> bool {
        self.0 == other.0
    }
}

impl<F: Family> std::fmt::Debug for Keys<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl<F: Beside> Default for Keys<F> {
    fn default() -> Keys<F> {
        Keys(Chosen::named(F::USUAL))
    }
}

impl<F: Beside> Options for Keys<F> {
    fn declared() -> Vec<Described> {
        Vec::new()
    }

    fn check_ranges(&self) -> Result<(), BuildError> {
        self.0.options().map(|_| ())
    }
}

impl<'de, F: Beside> Deserialize<'de> for Keys<F> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Keys<F>, D::Error> {
        let mut table = toml::Table::deserialize(deserializer)?;
        let named = table.remove("kind");
        let name = named.as_ref().map_or(Some(F::USUAL), toml::Value::as_str);
        let name = name.ok_or_else(|| serde::de::Error::custom("expected the name of a policy"))?;
        let chosen = Chosen::new(name, table);
        chosen.map(Keys).map_err(|error| serde::de::Error::custom(error.message().trim_end()))
    }
}

impl<F: Beside> JsonSchema for Keys<F> {
    fn schema_name() -> Cow<'static, str> {
        format!("{}Keys", F::SCHEMA).into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut kind = generator.subschema_for::<Names<F>>();
        kind.insert("description".into(), F::HELP.into());
        json_schema!({ "type": "object", "properties": { "kind": kind }, POLICIES_BESIDE: F::NAME })
    }
}

/// The names of policies, for the schema.
struct Names<F>(PhantomData<F>);

impl<F: Family> JsonSchema for Names<F> {
    fn schema_name() -> Cow<'static, str> {
        F::SCHEMA.into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "description": F::SUMMARY, POLICY_NAMES: F::NAME })
    }
}

/// When pages move.
#[options]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Pace {
    /// A few after each page that the host writes, from `threshold` free blocks on.
    #[default]
    Incremental,
    /// Whole blocks while a write waits, until the plane has `threshold` free ones.
    Foreground,
}

/// How blocks wear, and how that is levelled.
#[options]
#[derive(Clone, PartialEq, Debug)]
pub struct WearConfig {
    /// Which erased block is used next.
    #[option(default)]
    pub free_block_order: OrderConfig,
    #[option(flatten, default)]
    #[allow(missing_docs)] // they are those of the policy
    pub levelling: Levelling,
    /// Whether a tenant's clearing may also move data of another tenant that writes little, so that units wear alike across tenants.
    #[option(default)]
    pub across_tenants: bool,
    /// Erases that a block stands.
    #[option(unset = "the profile's", off = "any number")]
    pub endurance: Option<u32>,
    /// How far a block's own number lies from that, at most, as a share of it.
    #[option(default = Ratio::ZERO, below = Ratio::new(1, 1))]
    pub endurance_variation: Ratio,
    /// Share of the blocks that are bad from the factory.
    #[option(default = Ratio::ZERO, range = ..=Ratio::new(1, 10))]
    pub factory_bad: Ratio,
    /// Which drive of its make it is: with its name it decides which blocks are bad, and how much each block stands. Not the
    /// seed of a run: a drive has the same blocks after every start.
    #[option(default)]
    pub serial: u64,
}

/// Which erased block is used next.
#[options]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OrderConfig {
    /// The one that was erased longest ago.
    #[default]
    Fifo,
    /// For the host's pages the least worn, for moved pages the most worn.
    LeastWorn,
}

impl GcConfig {
    /// Refuses what cannot work together on planes of `blocks` blocks.
    pub(super) fn check(&self, blocks: u32) -> Result<(), BuildError> {
        let GcConfig { threshold: start, hard_threshold: urgent, .. } = *self;
        if urgent >= start {
            let why = format!("{urgent} is not below threshold = {start}");
            return Err(BuildError::at("gc.hard_threshold", why));
        }
        if self.mode == Pace::Foreground && urgent != GcConfig::default().hard_threshold {
            let why =
                "in the foreground a write waits as soon as less than `threshold` is free: leave it out";
            return Err(BuildError::at("gc.hard_threshold", why));
        }
        if let Some(target) = self.idle_free_target.filter(|&target| target <= start || target >= blocks) {
            let why =
                format!("{target} is not above threshold = {start} and below the {blocks} blocks of a plane");
            return Err(BuildError::at("gc.idle_free_target", why));
        }
        Ok(())
    }

    /// The policy for planes of `blocks` blocks, once [`check`](GcConfig::check) has passed.
    pub(super) fn policy(&self, blocks: u32, seed: u64) -> Box<dyn GcPolicy> {
        self.victim.0.options().expect("the options were checked").boxed(blocks, seed)
    }

    /// Free blocks of a plane at which pages begin to move after a write.
    pub(super) fn paced_from(&self) -> u32 {
        match self.mode {
            Pace::Incremental => self.threshold,
            Pace::Foreground => 0,
        }
    }

    /// Free blocks of a plane at which a write waits.
    pub(super) fn waits_from(&self) -> u32 {
        match self.mode {
            Pace::Incremental => self.hard_threshold,
            Pace::Foreground => self.threshold - 1,
        }
    }

    /// Free blocks of a plane in steady state.
    pub(super) fn steady_free(&self) -> u32 {
        match self.mode {
            Pace::Incremental => self.threshold,
            Pace::Foreground => self.waits_from(),
        }
    }
}

impl WearConfig {
    /// Refuses what cannot work together.
    pub(super) fn check(&self) -> Result<(), BuildError> {
        if self.endurance_variation.num > 0 && self.endurance == Some(0) {
            let why = "with `endurance = 0` a block stands any number of erases, and nothing varies: give another number, or leave one of them out";
            return Err(BuildError::at("wear.endurance_variation", why));
        }
        if self.serial != 0 && self.factory_bad.num == 0 && self.endurance_variation.num == 0 {
            let why = "it decides which blocks are bad and how much each one stands, and here all are good and stand as much: give `factory_bad` or `endurance_variation` too, or leave it out";
            return Err(BuildError::at("wear.serial", why));
        }
        self.levelling.0.options()?.check()
    }

    /// The rules for the drive `name` of chips made for `endurance` cycles; the first `good_first` blocks of each plane are good.
    pub(super) fn rules(&self, endurance: u32, good_first: u32, name: &str) -> WearRules {
        // FNV-1a.
        let hash = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3);
        let seed = name.bytes().chain(self.serial.to_le_bytes()).fold(0xCBF2_9CE4_8422_2325, hash);
        WearRules {
            order: match self.free_block_order {
                OrderConfig::Fifo => FreeOrder::Fifo,
                OrderConfig::LeastWorn => FreeOrder::LeastWorn,
            },
            endurance: self.endurance.unwrap_or(endurance),
            variation: self.endurance_variation,
            factory_bad: self.factory_bad,
            good_first,
            seed,
            width: 1,
            keeps_worn: false,
        }
    }

    /// The policy for so many pools of a chip made for `endurance` cycles.
    pub(super) fn policy(&self, pools: u32, endurance: u32) -> Box<dyn WearPolicy> {
        let endurance = self.endurance.filter(|&own| own > 0).unwrap_or(endurance);
        self.levelling.0.options().expect("the options were checked").boxed(pools, endurance)
    }
}
