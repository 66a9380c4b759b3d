//! The stacks that are lived through, and what may be done to each.

use super::faults::{self, Fault};
use crate::common::stacks::{CACHE, hdd, ssd};
use nandu_base::Rng;
use std::path::{Path, PathBuf};

/// Bytes of a file leg.
pub const LEG: u64 = 4 << 20;

/// What lies below the device at the top.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Below {
    /// Files, each behind a `fault`; `checked`: with `integrity` between them and the top.
    Files { checked: bool },
    /// Nothing: it is an emulated flash drive, and these are options of it.
    Ssd,
    /// Nothing: it is an emulated disk.
    Hdd,
    /// One of each.
    SsdAndHdd,
}

/// One kind of stack. `top` is the device `m`, with what lies between it and the legs; `tolerant`: one of its legs may fail and nothing is lost.
pub struct Kind {
    pub name: &'static str,
    top: &'static str,
    /// Names of its legs that are files.
    pub legs: &'static [&'static str],
    pub below: Below,
    pub tolerant: bool,
    /// So many of its first legs hold copies only: where it is not tolerant one of these may fail.
    copies: usize,
    /// Says in `health` when its legs are equal.
    pub has_health: bool,
    /// An older copy of a leg is refused.
    pub knows_old: bool,
    /// Legs from this one on end in records; before it lie rings, whose data have no checksum of their own.
    pub first_with_records: usize,
    /// Blocks of 4 KiB that are written.
    pub blocks: u64,
}

const SET: Kind = Kind {
    name: "",
    top: "",
    legs: &["a", "b"],
    below: Below::Files { checked: false },
    tolerant: true,
    copies: 0,
    has_health: true,
    knows_old: true,
    first_with_records: 0,
    blocks: 500,
};

const MIRROR: &str = "kind = \"mirror\"\nlegs = [\"a\", \"b\"]\nregion_size = \"64 KiB\"\ninitial_sync = \"assume-clean\"\nbitmap_delay = \"10 ms\"";
const STRICT: &str = "kind = \"hetero-mirror\"\nlegs = [\"a\", \"b\"]\nregion_size = \"64 KiB\"\ninitial_sync = \"assume-clean\"\nbitmap_delay = \"10 ms\"\n\
                      flush_scope = \"all-legs\"\nhedge_after = \"20 ms\"";
const FAST: &str = "kind = \"hetero-mirror\"\nlegs = [\"a\", \"b\"]\nregion_size = \"64 KiB\"\ninitial_sync = \"assume-clean\"\nbitmap_delay = \"10 ms\"\n\
                    flush_scope = \"leader\"\nhedge_after = \"20 ms\"";
const DEGRADING: &str = "kind = \"hetero-mirror\"\nlegs = [\"a\", \"b\"]\nregion_size = \"64 KiB\"\ninitial_sync = \"assume-clean\"\nbitmap_delay = \"10 ms\"\n\
                         flush_scope = \"leader\"\nhedge_after = \"5 ms\"\nmax_exposed_time = \"60 ms\"\non_limit = \"degrade\"";
const JOURNAL: &str = "kind = \"parity\"\nlegs = [\"a\", \"b\", \"c\"]\nchunk = \"16 KiB\"\njournal_size = \"320 KiB\"\ninitial_sync = \"assume-clean\"";
const RESYNC: &str = "kind = \"parity\"\nlegs = [\"a\", \"b\", \"c\"]\nchunk = \"16 KiB\"\ninitial_sync = \"assume-clean\"\nwrite_hole = \"resync\"";
const HYBRID: &str =
    "kind = \"hybrid\"\nslc = \"slc\"\nmlc = \"mlc\"\ndisk = \"disk\"\nerase_unit = \"64 KiB\"";
const MIRRORED: &str = "kind = \"hybrid\"\nslc = \"ring\"\ndisk = \"disk\"\nerase_unit = \"64 KiB\"\n\
    [device.ring]\nkind = \"mirror\"\nlegs = [\"ring-a\", \"ring-b\"]\nregion_size = \"64 KiB\"\ninitial_sync = \"assume-clean\"\nbitmap_delay = \"10 ms\"\n\
    [device.disk]\nkind = \"mirror\"\nlegs = [\"disk-a\", \"disk-b\"]\nregion_size = \"64 KiB\"\ninitial_sync = \"assume-clean\"\nbitmap_delay = \"10 ms\"";
const COPIES: &str = "kind = \"hybrid\"\nslc = \"slc\"\nmlc = \"mlc\"\ndisk = \"disk\"\nerase_unit = \"64 KiB\"\ncache_mode = \"writethrough\"";
const PASSING: &str = "kind = \"cache\"\nbelow = \"a\"\nsize = \"1 MiB\"";
const BACK: &str = "kind = \"cache\"\nbelow = \"a\"\nsize = \"1 MiB\"\nwrite = { kind = \"writeback\", dirty_expire = \"50 ms\" }";

/// All of them.
pub const KINDS: &[Kind] = &[
    Kind { name: "mirror", top: MIRROR, ..SET },
    Kind { name: "hetero-mirror, strict", top: STRICT, ..SET },
    Kind { name: "hetero-mirror, fast-leg", top: FAST, ..SET },
    Kind { name: "hetero-mirror, degrading", top: DEGRADING, ..SET },
    Kind { name: "parity, journal", top: JOURNAL, legs: &["a", "b", "c"], ..SET },
    // Without a journal it does not start after a cut that found a leg missing: that leg may be wrong.
    Kind { name: "parity, resync", top: RESYNC, legs: &["a", "b", "c"], tolerant: false, ..SET },
    Kind { name: "mirror of integrity", top: MIRROR, below: Below::Files { checked: true }, ..SET },
    Kind { name: "hetero-mirror of integrity", top: FAST, below: Below::Files { checked: true }, ..SET },
    Kind {
        name: "parity of integrity",
        top: JOURNAL,
        legs: &["a", "b", "c"],
        below: Below::Files { checked: true },
        ..SET
    },
    Kind {
        name: "hybrid",
        top: HYBRID,
        legs: &["slc", "mlc", "disk"],
        tolerant: false,
        has_health: false,
        first_with_records: 2,
        ..SET
    },
    Kind {
        name: "hybrid of mirrors",
        top: MIRRORED,
        legs: &["ring-a", "ring-b", "disk-a", "disk-b"],
        first_with_records: 2,
        ..SET
    },
    // Rings of copies are believed after a clean end only, so an older copy of one is emptied, and of the disk nobody knows it.
    Kind {
        name: "hybrid, write-through",
        top: COPIES,
        legs: &["slc", "mlc", "disk"],
        tolerant: false,
        copies: 2,
        knows_old: false,
        ..SET
    },
    Kind { name: "cache", top: PASSING, legs: &["a"], ..ALONE },
    Kind { name: "cache, write-back", top: BACK, legs: &["a"], ..ALONE },
    Kind {
        name: "integrity",
        top: "kind = \"concat\"\nparts = [\"a\"]",
        below: Below::Files { checked: true },
        ..ALONE
    },
    Kind {
        name: "stripe",
        top: "kind = \"stripe\"\nlegs = [\"a\", \"b\"]\nchunk = \"16 KiB\"",
        legs: &["a", "b"],
        ..ALONE
    },
    Kind { name: "ssd, page map", top: "", ..DRIVE },
    Kind { name: "ssd, queued", top: "die_scheduler = { kind = \"out-of-order\" }", ..DRIVE },
    Kind { name: "ssd, dftl", top: "mapping = { kind = \"dftl\", cmt_size = \"8 KiB\" }", ..DRIVE },
    Kind {
        name: "ssd, tpc",
        top: "mapping = { kind = \"tpc-ftl\", cmt_size = \"8 KiB\", delayed_read = true }\ncheckpoint_interval = 8",
        ..DRIVE
    },
    Kind { name: "ssd, cftl", top: "mapping = { kind = \"cftl\", cmt_size = \"8 KiB\" }", ..DRIVE },
    Kind { name: "ssd, fast", top: "mapping = { kind = \"fast\", log_blocks = 6 }", ..DRIVE },
    Kind { name: "ssd, write buffer", top: "write_buffer = { size = \"256 KiB\" }", ..DRIVE },
    Kind { name: "hdd", below: Below::Hdd, top: "", blocks: 200, ..DRIVE },
    Kind {
        name: "hetero-mirror of ssd and hdd",
        below: Below::SsdAndHdd,
        top: FAST,
        legs: &["a", "b"],
        blocks: 200,
        has_health: true,
        ..DRIVE
    },
];

const ALONE: Kind = Kind { legs: &["a"], tolerant: false, has_health: false, knows_old: false, ..SET };

const DRIVE: Kind =
    Kind { legs: &[], below: Below::Ssd, tolerant: false, has_health: false, knows_old: false, ..SET };

impl Kind {
    pub fn has_files(&self) -> bool {
        matches!(self.below, Below::Files { .. })
    }

    /// Checksums lie between the top and its files.
    pub fn is_checked(&self) -> bool {
        self.below == Below::Files { checked: true }
    }

    /// The folder and the file of a leg, below the folder of a life.
    pub fn place(&self, leg: usize, dir: &Path) -> (PathBuf, PathBuf) {
        let folder = dir.join(self.legs[leg]);
        let file = folder.join("leg.img");
        (folder, file)
    }

    /// The stack; volatile caches above the files where `volatile`, and a fault of one leg.
    pub fn stack(&self, volatile: bool, fault: Option<(usize, Fault)>) -> String {
        let export = "[export.data]\ndevice = \"m\"\n";
        let legs: String = match self.below {
            Below::Ssd => return format!("{export}{}", ssd("m", self.top)),
            Below::Hdd => return format!("{export}{}", hdd("m", "")),
            Below::SsdAndHdd => ssd("a", "") + &hdd("b", ""),
            Below::Files { checked } => (0..self.legs.len())
                .map(|leg| {
                    let own =
                        fault.filter(|(faulty, _)| *faulty == leg).map_or("", |(_, fault)| fault.options());
                    file(self.legs[leg], checked, volatile, own)
                })
                .collect(),
        };
        format!("{export}[device.m]\n{}\n{legs}", self.top)
    }

    /// A fault that this kind bears, or none.
    pub fn draw(&self, rng: &mut Rng, dir: &Path) -> Option<(usize, Fault)> {
        let fault = match rng.below(5) {
            _ if !self.has_files() => return None,
            0 => return None,
            1 => Fault::Freeze,
            2 => Fault::Errors,
            3 => Fault::Loss,
            _ => Fault::Full,
        };
        let leg = rng.below(self.legs.len() as u64) as usize;
        let fits = fault != Fault::Full || faults::is_small(&self.place(leg, dir).0);
        (fits && self.bears(leg, fault)).then_some((leg, fault))
    }

    /// Whether nothing is lost when the leg has this fault.
    pub fn bears(&self, leg: usize, fault: Fault) -> bool {
        let may_go = self.tolerant || leg < self.copies;
        match fault {
            Fault::Freeze => true,
            // Alone the leg stays in; of a set it is given up.
            Fault::Errors => may_go || !self.has_health,
            Fault::Loss | Fault::Full => may_go,
        }
    }
}

/// A leg that is a file, and what lies on it.
fn file(name: &str, checked: bool, volatile: bool, fault: &str) -> String {
    let (at, integrity) = match checked {
        true => (
            format!("{name}-file"),
            format!("[device.{name}]\nkind = \"integrity\"\nbelow = \"{name}-file\"\n"),
        ),
        false => (name.to_string(), String::new()),
    };
    let cache = if volatile { CACHE } else { "" };
    format!(
        "{integrity}[device.{at}]\nkind = \"fault\"\nbelow = \"{at}-below\"\n{cache}\n{fault}\n\
         [device.{at}-below]\nkind = \"file\"\npath = \"{name}/leg.img\"\nsize = {LEG}\nsector = \"4 KiB\"\n"
    )
}
