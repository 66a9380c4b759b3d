//! The parity array as a subject of the harness: its options, and what is checked at it. With a journal whatever is
//! acknowledged is durable, and no loss of legs may take it.

use crate::harness::disk::Cell;
use crate::harness::{self, Subject, oracle};
use nandu_array::parity::layout::LegLayout;
use nandu_array::parity::{ParityConfig, WriteHole};
use nandu_base::{ByteLen, DeviceConfig};
use std::collections::BTreeSet;

/// A parity array under test.
pub type World = harness::World<Setup>;

/// The options of a world.
#[derive(Clone)]
pub struct Setup {
    pub config: ParityConfig,
    /// Bytes of data on each leg.
    pub data: ByteLen,
    pub seed: u64,
    pub plants: BTreeSet<String>,
    /// Data sectors hold rubbish before the array is made.
    pub soiled: bool,
    /// The last leg is that many times slower.
    pub slow: u64,
}

impl Setup {
    pub fn small(seed: u64) -> Setup {
        let mut config = ParityConfig::of(&["a", "b", "c"]);
        config.chunk = Some(ByteLen::kib(4));
        config.journal_size = ByteLen::kib(64);
        config.rebuild_chunk = ByteLen::kib(16);
        config.initial_sync = nandu_array::member::InitialSync::AssumeClean;
        Setup { config, data: ByteLen::kib(128), seed, plants: BTreeSet::new(), soiled: false, slow: 1 }
    }

    pub fn plant(mut self, name: &str) -> Setup {
        self.plants.insert(name.into());
        self
    }

    pub fn slots(&self) -> u64 {
        match self.config.write_hole {
            WriteHole::Journal => self.config.journal_size.0 / (4096 + self.config.chunk().0),
            WriteHole::Resync => 0,
        }
    }
}

impl Subject for Setup {
    type Layout = LegLayout;
    const SOILED: &'static [u32] = &[oracle::ANYTHING];
    const READS_WAIT_FOR_WRITES: bool = false;

    fn layout(&self) -> (LegLayout, ByteLen) {
        let (slots, chunk) = (self.slots(), self.config.chunk().0);
        let size = ByteLen(self.data.0 + slots * (4096 + chunk) + (64 << 10) + 4096);
        let layout = LegLayout::of(size, slots, chunk, chunk).expect("large enough");
        assert_eq!(layout.data, self.data.0);
        (layout, size)
    }
    fn data(&self) -> ByteLen {
        self.data
    }
    fn legs(&self) -> Vec<String> {
        self.config.legs.clone()
    }
    fn seed(&self) -> u64 {
        self.seed
    }
    fn disk_seed(&self, k: u64) -> u64 {
        self.seed * 16 + k
    }
    fn plants(&self) -> &BTreeSet<String> {
        &self.plants
    }
    fn is_soiled(&self) -> bool {
        self.soiled
    }
    fn slowness(&self, leg: usize) -> u64 {
        if leg + 1 == self.config.legs.len() { self.slow } else { 1 }
    }
    fn acknowledges_durably(&self) -> bool {
        self.config.write_hole == WriteHole::Journal
    }
    fn config(&self) -> Box<dyn DeviceConfig> {
        Box::new(self.config.clone())
    }
    /// Without a journal a leg that goes while another one, or the parity, is not rebuilt takes with it what was not flushed.
    fn holds_the_newest(world: &mut World, _leg: usize) -> bool {
        world.setup.config.write_hole == WriteHole::Resync && !world.is_full()
    }
    fn is_member(world: &mut World, leg: usize) -> bool {
        world.counter("legs_missing") == 0 && leg < world.legs()
    }
    fn departures(world: &mut World) -> u64 {
        world.counter("legs_lost") * world.counter("legs_on_record")
    }
}

impl World {
    pub fn sectors(&self) -> u64 {
        self.setup.data.sectors() * (self.legs() as u64 - 1)
    }

    /// The first sector at which the xor of all legs is not zero, and what it is there.
    pub fn odd(&self) -> Option<(u64, u64)> {
        let disks: Vec<_> = self.disks.iter().map(|d| d.lock().expect("no panic inside")).collect();
        let xor = |s| {
            disks.iter().fold(0, |xor, d| match d.now(s) {
                Cell::Stamp(stamp) => xor ^ stamp.0,
                Cell::Bytes(_) => u64::MAX,
            })
        };
        (0..self.setup.data.sectors()).map(|s| (s, xor(s))).find(|&(_, xor)| xor != 0)
    }

    /// `parity_is_xor`: when everything is quiet and nothing is lost the xor of all legs is zero everywhere.
    pub fn check_parity(&mut self) {
        let mut wrong = None;
        if self.is_full() {
            if let Some((s, xor)) = self.odd().filter(|_| self.counter("lost_sectors") == 0) {
                wrong = Some(format!("parity_is_xor: the legs differ by {xor:#x} at sector {s}"));
            }
        } else {
            wrong = Some("parity_is_xor: not all legs are rebuilt".into());
        }
        if let Some(wrong) = wrong {
            self.complain(wrong);
        }
        self.check_buffers();
    }

    /// All legs present and everything rebuilt.
    pub fn is_full(&mut self) -> bool {
        self.counter("full_legs") == self.legs() as u64 && self.counter("bytes_to_rebuild") == 0
    }
}
