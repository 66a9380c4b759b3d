//! The mirror as a subject of the harness: its options, and what is checked at it.

use crate::harness::{self, Subject};
use nandu_array::mirror::layout::Layout;
use nandu_array::mirror::{HeteroConfig, MirrorConfig};
use nandu_base::{ByteLen, Content, Counter, DeviceConfig, Redundancy, Span};
use std::collections::BTreeSet;

pub const A: usize = 0;
pub const B: usize = 1;
const MEMBER: [&str; 4] = ["leg_a_is_member", "leg_b_is_member", "leg_c_is_member", "leg_d_is_member"];

/// A mirror under test.
pub type World = harness::World<Setup>;

/// The options of a world.
#[derive(Clone)]
pub struct Setup {
    pub config: MirrorConfig,
    /// A `hetero-mirror` with these options and those of `config`.
    pub hetero: Option<HeteroConfig>,
    pub data: ByteLen,
    pub seed: u64,
    pub plants: BTreeSet<String>,
    /// Data sectors hold rubbish before the mirror is made.
    pub soiled: bool,
    /// One leg is that many times slower: leg b, or the other one.
    pub slow: u64,
    pub slow_leg: u64,
    /// Whether payloads and drives hold anything.
    pub content: Content,
}

impl Setup {
    pub fn small(seed: u64) -> Setup {
        let mut config = MirrorConfig::of("a", "b");
        config.common.region_size = ByteLen::kib(64);
        config.common.bitmap_delay = Span::from_ms(1);
        config.common.max_dirty_regions = 32;
        config.common.resync_chunk = ByteLen::kib(16);
        config.common.initial_sync = nandu_array::member::InitialSync::AssumeClean;
        Setup {
            config,
            hetero: None,
            data: ByteLen::kib(256),
            seed,
            plants: BTreeSet::new(),
            soiled: false,
            slow: 1,
            slow_leg: 1,
            content: Content::Stamps,
        }
    }

    /// The same with three legs.
    pub fn three(mut self) -> Setup {
        self.config = self.config.over(&["a", "b", "c"]);
        self.config.common.leg_queue_depth.clear();
        self
    }

    /// The same as a `hetero-mirror`.
    pub fn hetero(mut self, change: impl FnOnce(&mut HeteroConfig)) -> Setup {
        let mut hetero = HeteroConfig::over(self.config.clone());
        hetero.wait_min = Span(0);
        change(&mut hetero);
        self.hetero = Some(hetero);
        self
    }

    pub fn plant(mut self, name: &str) -> Setup {
        self.plants.insert(name.into());
        self
    }
}

impl Subject for Setup {
    type Layout = Layout;
    /// What any leg had.
    const SOILED: &'static [u32] = &[900, 901, 902];
    const READS_WAIT_FOR_WRITES: bool = true;

    fn layout(&self) -> (Layout, ByteLen) {
        let metadata = 4096 * 4 + (64 << 10) + 4096;
        let size = ByteLen(self.data.0 + metadata);
        let layout =
            Layout::of(size, self.config.common.region_size.0.trailing_zeros() as u8).expect("large enough");
        assert_eq!(layout.data, self.data);
        (layout, size)
    }
    fn data(&self) -> ByteLen {
        self.data
    }
    fn legs(&self) -> Vec<String> {
        self.config.legs.clone()
    }
    fn add_leg(&mut self) -> String {
        let name = ["a", "b", "c", "d"][self.config.legs.len()];
        self.config.legs.push(name.into());
        if !self.config.common.leg_queue_depth.is_empty() {
            self.config.common.leg_queue_depth.push(0);
        }
        name.into()
    }
    fn seed(&self) -> u64 {
        self.seed
    }
    fn disk_seed(&self, k: u64) -> u64 {
        self.seed * 2 + k
    }
    fn plants(&self) -> &BTreeSet<String> {
        &self.plants
    }
    fn is_soiled(&self) -> bool {
        self.soiled
    }
    fn slowness(&self, leg: usize) -> u64 {
        if leg as u64 == self.slow_leg { self.slow } else { 1 }
    }
    fn content(&self) -> Content {
        self.content
    }
    fn config(&self) -> Box<dyn DeviceConfig> {
        match &self.hetero {
            None => Box::new(self.config.clone()),
            Some(hetero) => Box::new(hetero.with_mirror(self.config.clone())),
        }
    }

    /// `clear_needs_both_flushed`: as long as a cut could make the legs differ, some D is set.
    fn look(world: &mut World) {
        if !world.setup.plants.is_empty() {
            return;
        }
        if let Some(leg) = (0..world.legs()).find(|&leg| world.disk(leg).met) {
            world.complain(format!(
                "one_in_flight_per_block_and_leg: leg {leg} has two changes of one sector"
            ));
        }
        // What is cheap to ask comes first: this is asked after each event, and figures are all gathered for one.
        let unflushed = |world: &World| (0..world.legs()).find_map(|leg| world.disk(leg).unflushed());
        if world.opened() == Some(Ok(()))
            && let Some(sector) = unflushed(world)
            && world.is_whole()
            && world.counter("dirty_regions") == 0
        {
            world.complain(format!(
                "clear_needs_both_flushed: sector {sector} is not durable and no D is set"
            ));
        }
    }

    fn holds_the_newest(world: &mut World, leg: usize) -> bool {
        let complete = world.redundancy().complete;
        let members = world.members();
        let others = (0..world.legs()).filter(|&l| l != leg);
        !others.clone().any(|l| complete.has(l)) && (members[leg] || !others.clone().any(|l| members[l]))
    }

    fn is_member(world: &mut World, leg: usize) -> bool {
        world.counter(MEMBER[leg]) == 1
    }
    fn departures(world: &mut World) -> u64 {
        world.counter("degraded_transitions")
    }
}

impl World {
    pub fn sectors(&self) -> u64 {
        self.layout.data.sectors()
    }

    /// `quiet_means_equal_and_clean`: all legs hold the same data and no mark is left.
    pub fn check_equal(&mut self) {
        for leg in 1..self.legs() {
            let differs = {
                let (a, b) = (self.disk(A), self.disk(leg));
                let touched: BTreeSet<u64> = a.touched().union(&b.touched()).copied().collect();
                let end = self.layout.data.sectors();
                let data = touched.into_iter().filter(|&s| s < end);
                data.map(|s| (s, a.now(s).clone(), b.now(s).clone())).find(|(_, x, y)| x != y)
            };
            if let Some((s, x, y)) = differs {
                let stale = self.counter("stale_regions");
                self.complain(format!(
                    "quiet_means_equal_and_clean: sector {s} is {x:?} on leg 0 and {y:?} on leg {leg}, {stale} regions are stale"
                ));
            }
        }
        for name in ["dirty_regions", "stale_regions", "active_regions"] {
            let n = self.counter(name);
            if n != 0 {
                self.complain(format!("quiet_means_equal_and_clean: {name} is {n}"));
            }
        }
        self.check_buffers();
    }

    /// All legs present and everything quiet.
    pub fn is_whole(&mut self) -> bool {
        self.members().into_iter().all(|is_member| is_member)
    }

    /// Which legs are members.
    fn members(&mut self) -> Vec<bool> {
        let report = self.report();
        MEMBER[..self.legs()].iter().map(|name| Counter::of(&report, name) == 1).collect()
    }

    fn redundancy(&self) -> Redundancy {
        self.graph().members(self.top()).and_then(|of| of.redundancy()).expect("a mirror says so")
    }
}
