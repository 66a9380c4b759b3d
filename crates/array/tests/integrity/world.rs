//! The machine as a subject of the harness.

use crate::harness::{self, Subject};
use nandu_array::integrity::IntegrityConfig;
use nandu_base::{ByteLen, DeviceConfig, Span};
use std::collections::BTreeSet;

pub type World = harness::World<Setup>;
/// Bytes of the disk: three regions of blocks of 512 B.
pub const SIZE: u64 = 1_300 << 10;
pub const PAGE: u64 = 4096;

/// The options of a world.
#[derive(Clone)]
pub struct Setup {
    pub config: IntegrityConfig,
    pub seed: u64,
    pub plants: BTreeSet<String>,
    /// The disk held something else before.
    pub soiled: bool,
    /// Damage is done to it: reads may fail.
    pub is_damaged: bool,
}

impl Setup {
    pub fn small(seed: u64) -> Setup {
        let config = IntegrityConfig {
            below: "a".into(),
            block_size: Some(ByteLen(if seed.is_multiple_of(2) { 512 } else { 4096 })),
            cache_size: ByteLen::kib(64),
            max_dirty_regions: 1 + (seed / 2 % 2) as u32,
            bitmap_delay: Span::from_ms(1),
        };
        Setup { config, seed, plants: BTreeSet::new(), soiled: false, is_damaged: false }
    }

    pub fn plant(mut self, name: &str) -> Setup {
        self.plants.insert(name.into());
        self
    }

    /// Sectors of a block.
    pub fn block(&self) -> u64 {
        self.config.block_size.map_or(1, |block| block.0 / 512)
    }
}

/// Where the records lie: the superblocks at the end, the marks before them, the tags before those.
pub struct Rooms {
    pub superblock: u64,
    pub marks: u64,
    pub tags: u64,
    pub data: u64,
}

impl Subject for Setup {
    type Layout = Rooms;
    /// What the disk held.
    const SOILED: &'static [u32] = &[900];
    const READS_WAIT_FOR_WRITES: bool = true;

    fn layout(&self) -> (Rooms, ByteLen) {
        let superblock = SIZE - 2 * PAGE;
        let marks = superblock - 512;
        let block = self.block() * 512;
        let regions = |data: u64| (data / block).div_ceil(1024);
        let mut data = SIZE - SIZE % block;
        while data + regions(data) * PAGE > marks {
            data -= block;
        }
        let tags = marks - regions(data) * PAGE;
        (Rooms { superblock, marks, tags, data }, ByteLen(SIZE))
    }
    fn data(&self) -> ByteLen {
        ByteLen(self.layout().0.data)
    }
    fn legs(&self) -> Vec<String> {
        vec!["a".into()]
    }
    fn seed(&self) -> u64 {
        self.seed
    }
    fn disk_seed(&self, _k: u64) -> u64 {
        self.seed
    }
    fn plants(&self) -> &BTreeSet<String> {
        &self.plants
    }
    fn is_soiled(&self) -> bool {
        self.soiled
    }
    fn unit(&self) -> u64 {
        self.block()
    }
    fn slowness(&self, _leg: usize) -> u64 {
        1
    }
    fn config(&self) -> Box<dyn DeviceConfig> {
        Box::new(self.config.clone())
    }

    /// What nobody has damaged is readable, whatever was in flight at a cut.
    fn look(world: &mut World) {
        let mismatches = world.counter("mismatched_blocks");
        if mismatches > 0 && !world.setup.is_damaged {
            world.complain(format!("{mismatches} blocks are unreadable, and nobody has damaged them"));
        }
    }
    /// The only device has gone: what was not flushed may be lost.
    fn holds_the_newest(_world: &mut World, _leg: usize) -> bool {
        true
    }
    fn is_member(_world: &mut World, _leg: usize) -> bool {
        true
    }
    fn departures(_world: &mut World) -> u64 {
        0
    }
}
