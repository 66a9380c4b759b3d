//! Random stacks, as the text of a stack file.
//!
//! Everything is tiny, so that a few hundred requests fill a drive, wrap a log and meet each other. A path from the export
//! to a leaf has at most one `fault`: a volatile cache above another device that loses acknowledged writes would break
//! its own promise.

use nandu_base::{ByteLen, Precondition, Rng};
use nandu_stack::{BuildOptions, Stack};
use std::fmt::Write;

/// What stacks a seed may draw.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Shape {
    /// Any tree.
    Random,
    /// A named family of stacks.
    Named(Family),
    /// This stack file.
    File(String),
}

/// Families of stacks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Family {
    /// One drive.
    Ssd(Drive),
    /// One machine of this kind over leaves.
    Over(&'static str),
    /// A mirror of two drives.
    MirrorOfSsds,
    /// A mirror of two drives, each behind `fault`.
    MirrorOfFaultySsds,
    /// A mirror of two leaves with slow volatile caches, and no other fault.
    MirrorOfCaches,
    /// A parity array of leaves that never fail.
    ParityOfLeaves,
    /// A parity array of leaves with slow volatile caches, and no other fault.
    ParityOfCaches,
    /// A parity array of drives, each behind `fault`.
    ParityOfFaultySsds,
    /// A mirror of two files in the page cache; here the process may also die without a power cut.
    MirrorOfFiles,
}

/// What is settled of a drawn drive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Drive {
    /// Nothing.
    Any,
    /// Page map, arbiter `fcfs`.
    AtOnce,
    /// Page map, arbiter `queued`.
    Queued,
    /// A map on the flash.
    Paged,
    /// TPC-FTL with delayed reads.
    DelayedReads,
}

impl Family {
    /// Every family that has a name on the command line.
    pub const ALL: &'static [(&'static str, Family)] = &[
        ("ssd", Family::Ssd(Drive::Any)),
        ("ssd-at-once", Family::Ssd(Drive::AtOnce)),
        ("ssd-queued", Family::Ssd(Drive::Queued)),
        ("ssd-paged", Family::Ssd(Drive::Paged)),
        ("ssd-delayed-reads", Family::Ssd(Drive::DelayedReads)),
        ("slice", Family::Over("slice")),
        ("concat", Family::Over("concat")),
        ("stripe", Family::Over("stripe")),
        ("fault", Family::Over("fault")),
        ("mirror", Family::Over("mirror")),
        ("mirror-of-ssds", Family::MirrorOfSsds),
        ("mirror-of-faulty-ssds", Family::MirrorOfFaultySsds),
        ("mirror-of-caches", Family::MirrorOfCaches),
        ("mirror-of-files", Family::MirrorOfFiles),
        ("parity", Family::Over("parity")),
        ("parity-of-leaves", Family::ParityOfLeaves),
        ("parity-of-caches", Family::ParityOfCaches),
        ("parity-of-faulty-ssds", Family::ParityOfFaultySsds),
    ];
}

impl Shape {
    /// The family of this name.
    pub fn named(name: &str) -> Option<Shape> {
        Family::ALL.iter().find(|(n, _)| *n == name).map(|&(_, family)| Shape::Named(family))
    }

    /// Stacks that have a machine of this kind where much happens to it: where a fault that is planted in it can show.
    pub fn around(kind: &str) -> Shape {
        Shape::named(kind).unwrap_or(Shape::Random)
    }
}

/// Smallest capacity of a leg of a mirror: records and a few regions.
const LEG: u64 = 256 << 10;

/// Draws a stack that can be built.
pub(super) fn stack(shape: &Shape, rng: &mut Rng) -> String {
    if let Shape::File(text) = shape {
        return text.clone();
    }
    for _ in 0..200 {
        let text = Draft::new(rng).whole(shape);
        let options = BuildOptions { precondition: Precondition::Empty, ..BuildOptions::default() };
        if Stack::parse(&text).is_ok_and(|stack| stack.build(&options).is_ok()) {
            return text;
        }
    }
    unreachable!("nearly every stack that is drawn can be built");
}

struct Draft<'a> {
    rng: &'a mut Rng,
    drive: Drive,
    text: String,
    devices: u32,
}

impl<'a> Draft<'a> {
    fn new(rng: &'a mut Rng) -> Draft<'a> {
        Draft { rng, drive: Drive::Any, text: String::new(), devices: 0 }
    }

    fn whole(mut self, shape: &Shape) -> String {
        let root = match shape {
            Shape::Named(Family::Ssd(drive)) => {
                self.drive = *drive;
                self.ssd(0)
            }
            Shape::Named(Family::Over("mirror")) => {
                let families = [
                    Family::MirrorOfSsds,
                    Family::MirrorOfFaultySsds,
                    Family::MirrorOfCaches,
                    Family::MirrorOfFiles,
                ];
                let family = *self.rng.pick(&families);
                return self.whole(&Shape::Named(family));
            }
            Shape::Named(Family::Over("parity")) => {
                let families = [Family::ParityOfLeaves, Family::ParityOfCaches, Family::ParityOfFaultySsds];
                let family = *self.rng.pick(&families);
                return self.whole(&Shape::Named(family));
            }
            Shape::Named(Family::ParityOfLeaves) => {
                self.page_maps();
                let legs: Vec<String> = (0..self.rng.between(3, 5)).map(|_| self.leaf(LEG)).collect();
                self.parity(legs, false)
            }
            Shape::Named(Family::ParityOfCaches) => {
                let count = self.rng.between(3, 5);
                let legs: Vec<String> = (0..count)
                    .map(|_| {
                        let leaf = self.block("memory", LEG);
                        self.cache(leaf)
                    })
                    .collect();
                self.parity(legs, false)
            }
            Shape::Named(Family::ParityOfFaultySsds) => {
                self.page_maps();
                let count = self.rng.between(3, 5);
                let legs: Vec<String> = (0..count)
                    .map(|_| {
                        let drive = self.ssd(LEG);
                        self.fault(drive)
                    })
                    .collect();
                self.parity(legs, true)
            }
            Shape::Named(Family::MirrorOfFiles) => {
                let legs = [0; 2].map(|_| self.block("file", LEG));
                self.mirror(legs)
            }
            Shape::Named(Family::MirrorOfCaches) => {
                let legs = [0; 2].map(|_| {
                    let leaf = self.leaf(LEG);
                    self.cache(leaf)
                });
                self.mirror(legs)
            }
            Shape::Named(Family::Over(kind)) => self.over(kind, 1, true, 0),
            Shape::Named(Family::MirrorOfSsds) => {
                let legs = [self.ssd(LEG), self.ssd(LEG)];
                self.mirror(legs)
            }
            Shape::Named(Family::MirrorOfFaultySsds) => {
                let legs = [0; 2].map(|_| {
                    let drive = self.ssd(LEG);
                    self.fault(drive)
                });
                self.mirror(legs)
            }
            Shape::Random | Shape::File(_) => {
                let depth = self.rng.below(4) as u32;
                self.device(depth, true, 0)
            }
        };
        format!("[export.data]\ndevice = \"{root}\"\n{}", self.text)
    }

    /// Opens the table of a new device.
    fn begin(&mut self, kind: &str) -> String {
        self.devices += 1;
        let name = format!("{kind}{}", self.devices);
        let _ = writeln!(self.text, "\n[device.{name}]\nkind = \"{kind}\"");
        name
    }

    fn put(&mut self, key: &str, value: impl std::fmt::Display) {
        let _ = writeln!(self.text, "{key} = {value}");
    }

    fn put_text(&mut self, key: &str, value: impl std::fmt::Display) {
        let _ = writeln!(self.text, "{key} = \"{value}\"");
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.rng.below(n) == 0
    }

    /// A device of any kind with at least `least` bytes, of up to `depth` layers above the leaves.
    fn device(&mut self, depth: u32, may_fail: bool, least: u64) -> String {
        if depth == 0 {
            return self.leaf(least);
        }
        let kinds: &[&str] = match may_fail {
            true => &["slice", "concat", "stripe", "mirror", "mirror", "fault", "fault"],
            false => &["slice", "concat", "stripe", "mirror"],
        };
        let kind = *self.rng.pick(kinds);
        self.over(kind, depth, may_fail, least)
    }

    fn over(&mut self, kind: &str, depth: u32, may_fail: bool, least: u64) -> String {
        let below = depth - 1;
        match kind {
            "mirror" => {
                let legs = [0; 2].map(|_| self.device(below, may_fail, least.max(LEG)));
                self.mirror(legs)
            }
            "fault" => {
                let child = self.device(below, false, least);
                self.fault(child)
            }
            "slice" => {
                let child = self.device(below, may_fail, least + (16 << 10));
                let offset = self.rng.between(0, 4) * 4096;
                let name = self.begin("slice");
                self.put_text("below", child);
                self.put("offset", offset);
                name
            }
            "concat" | "stripe" => {
                let count = self.rng.between(1, 3);
                let children: Vec<String> =
                    (0..count).map(|_| self.device(below, may_fail, least.max(16 << 10))).collect();
                let chunk = 4096u64 << self.rng.below(3);
                let name = self.begin(kind);
                self.put(if kind == "stripe" { "legs" } else { "parts" }, format!("{children:?}"));
                if kind == "stripe" {
                    self.put("chunk", chunk);
                }
                name
            }
            other => unreachable!("`{other}` is no kind that stands over others"),
        }
    }

    fn leaf(&mut self, least: u64) -> String {
        match self.rng.below(6) {
            0 => self.block("memory", least),
            1 => self.block("file", least),
            _ => self.ssd(least),
        }
    }

    fn block(&mut self, kind: &str, least: u64) -> String {
        let name = self.begin(kind);
        let size = least.max(8192).next_multiple_of(4096) + 4096 * self.rng.below(64);
        self.put("size", size);
        let latency = *self.rng.pick(&[0, 1, 50, 2000]);
        self.put_text("latency", format!("{latency} us"));
        let bandwidth = 1u64 << self.rng.between(20, 32);
        self.put("bandwidth", bandwidth);
        if kind == "file" {
            self.put_text("path", format!("{name}.img"));
            let sector = 512u64 << self.rng.below(4);
            self.put("sector", sector);
        }
        name
    }

    /// A drive so small and so full that clearing blocks is hard work.
    fn ssd(&mut self, least: u64) -> String {
        let page = 512u64 << self.rng.below(4);
        let pages = 1u64 << self.rng.between(1, 4);
        let (channels, chips, dies) =
            (self.rng.between(1, 2), self.rng.between(1, 2), self.rng.between(1, 2));
        let planes = 1u64 << self.rng.below(2);
        let start = self.rng.between(2, 4);
        let all_planes = channels * chips * dies * planes;
        let extents = (page - 8) / 16;
        let mut blocks = start + 5 + self.rng.below(12);
        let mut logical;
        loop {
            let most = (blocks - start - 3) * pages * all_planes;
            logical = most.saturating_sub(20) * extents / (extents + 1);
            if logical * page >= least.max(8192) {
                break;
            }
            blocks += 1 + blocks / 8;
        }
        logical -= self.rng.below(logical / 2 + 1) * u64::from(least == 0);
        let mapping = self.mapping(page);
        if mapping.is_some() {
            let entries = 2 * logical.div_ceil(page / 4);
            blocks += 2 + entries.div_ceil(pages * all_planes);
        }
        // A generator of its own: what else a seed draws stays as it was.
        let mut checkpoint = self.rng.fork(6);
        let checkpoint = (mapping.is_some() && checkpoint.below(2) == 0).then(|| checkpoint.between(1, 12));
        if checkpoint.is_some() {
            blocks += checkpoint_blocks(logical, page, pages, all_planes);
        }
        let raw = blocks * pages * all_planes;
        let name = self.begin("ssd");
        let profile =
            *self.rng.pick(&["slc-2015", "slc-2019", "mlc-2019", "tlc-2015", "tlc-2019", "bench-2026"]);
        self.put_text("profile", profile);
        for (key, value) in [
            ("channels", channels),
            ("chips", chips),
            ("dies", dies),
            ("planes", planes),
            ("blocks", blocks),
            ("page", page),
            ("pages_per_block", pages),
        ] {
            self.put(key, value);
        }
        self.put_text("over_provisioning", format!("{}/{raw}", raw - logical));
        let paged = mapping.is_some();
        if let Some(mapping) = mapping {
            self.put("mapping", mapping);
        }
        if let Some(checkpoint) = checkpoint {
            self.put("checkpoint", checkpoint);
        }
        let copyback = self.one_in(2);
        self.put("gc", format!("{{ kind = \"greedy\", start = {start}, copyback = {copyback} }}"));
        // A generator of its own: what else a seed draws stays as it was.
        let mut arbiter = self.rng.fork(5);
        let queued = arbiter.below(2) == 0;
        if self.drive == Drive::Queued || (self.drive == Drive::Any && !paged && queued) {
            let reads_ahead = *arbiter.pick(&[0, 1, 3, 16, 1000]);
            self.put("arbiter", format!("{{ kind = \"queued\", reads_ahead = {reads_ahead} }}"));
        }
        let mut axes = ["channel", "chip", "die", "plane"];
        for at in (1..axes.len()).rev() {
            axes.swap(at, self.rng.below(at as u64 + 1) as usize);
        }
        self.put("placement", format!("{axes:?}"));
        name
    }

    /// A map on the flash, its cache far too small; [`None`] for the page map.
    fn mapping(&mut self, page: u64) -> Option<String> {
        if matches!(self.drive, Drive::AtOnce | Drive::Queued) {
            return None;
        }
        let batch = self.rng.between(1, 20);
        let write_back = *self.rng.pick(&["wait", "behind"]);
        let common = format!("gc_batch = {batch}, write_back = \"{write_back}\"");
        let kind = match self.drive {
            Drive::DelayedReads => 2,
            Drive::Paged => self.rng.below(4),
            _ => self.rng.below(8),
        };
        match kind {
            3 => Some(format!("{{ kind = \"tpftl\", ram = {}, {common} }}", self.rng.between(14, 200))),
            0 => Some(format!("{{ kind = \"dftl\", ram = {}, {common} }}", self.rng.between(16, 200))),
            1 => Some(format!("{{ kind = \"cftl\", ram = {}, {common} }}", self.rng.between(24, 200))),
            2 => {
                let ram = (page + 12) * self.rng.between(1, 3);
                let delayed = self.drive == Drive::DelayedReads || self.one_in(2);
                let invalidation = *self.rng.pick(&["at-collection", "at-read"]);
                let clean_first = *self.rng.pick(&["1", "1/2"]);
                Some(format!(
                    "{{ kind = \"tpc\", ram = {ram}, delayed_read = {delayed}, invalidation = \"{invalidation}\", \
                     clean_first = \"{clean_first}\", {common} }}"
                ))
            }
            _ => None,
        }
    }

    fn fault(&mut self, below: String) -> String {
        let name = self.begin("fault");
        self.put_text("below", below);
        for key in ["read_error", "write_error", "flush_error"] {
            if self.one_in(4) {
                let one_in = *self.rng.pick(&[20, 100, 500]);
                self.put_text(key, format!("1/{one_in}"));
            }
        }
        if !self.one_in(4) {
            let size = ByteLen(4096 << self.rng.below(6)).0;
            let every = *self.rng.pick(&[20, 200, 5000]);
            self.put("cache", format!("{{ size = {size}, destage_every = \"{every} us\" }}"));
        }
        if self.one_in(3) {
            let (mean, span) = (self.rng.between(1, 40), self.rng.between(50, 4000));
            self.put(
                "freeze",
                format!("{{ kind = \"random\", mean = \"{mean} ms\", span = \"{span} us\" }}"),
            );
        }
        if self.one_in(3) {
            let (mean, back) = (self.rng.between(30, 300), self.rng.between(100, 10_000));
            self.put(
                "loss",
                format!("{{ kind = \"random\", mean = \"{mean} ms\", back_after = \"{back} us\" }}"),
            );
        }
        name
    }

    /// A `fault` that is nothing but a volatile cache, and slow to destage.
    fn cache(&mut self, below: String) -> String {
        let name = self.begin("fault");
        self.put_text("below", below);
        let every = *self.rng.pick(&[2, 20, 200]);
        self.put("cache", format!("{{ size = \"256 KiB\", destage_every = \"{every} ms\" }}"));
        name
    }

    fn mirror(&mut self, legs: [String; 2]) -> String {
        let name = self.begin("mirror");
        self.put("legs", format!("{legs:?}"));
        self.put_text("region", "64 KiB");
        let clear = *self.rng.pick(&[1, 3, 20, 200]);
        self.put_text("clear_after", format!("{clear} ms"));
        self.put("active_regions", 32);
        let chunk = 4096u64 << self.rng.below(5);
        self.put("resync_chunk", chunk);
        let depth = self.rng.between(1, 4);
        self.put("resync_depth", depth);
        if self.one_in(4) {
            self.put_text("resync_rate", "4 MiB");
        }
        let read = *self.rng.pick(&["leader", "balanced", "round-robin", "shortest-queue", "latency-aware"]);
        self.put_text("read", read);
        let retries = self.rng.below(3);
        self.put("write_retries", retries);
        let fresh = *self.rng.pick(&["copy", "equal"]);
        self.put_text("fresh", fresh);
        name
    }
}

impl Draft<'_> {
    /// Drives with a page map: maps on the flash have families of their own, and start slowly.
    fn page_maps(&mut self) {
        self.drive = *self.rng.pick(&[Drive::AtOnce, Drive::Queued]);
    }

    /// Without a journal a parity array bears a cut or the loss of a leg, not both.
    fn parity(&mut self, legs: Vec<String>, may_fail: bool) -> String {
        let name = self.begin("parity");
        self.put("legs", format!("{legs:?}"));
        if self.one_in(4) {
            self.put("level", 3);
        } else {
            let layouts = ["left-symmetric", "left-asymmetric", "right-symmetric", "right-asymmetric"];
            let layout = *self.rng.pick(&layouts);
            self.put_text("layout", layout);
        }
        let chunk = 4096u64 << self.rng.below(3);
        self.put("chunk", chunk);
        let slots = self.rng.between(8, 16);
        self.put("journal", slots * (4096 + chunk));
        if !may_fail && self.one_in(4) {
            self.put_text("write_hole", "resync");
        }
        let rebuild = 4096u64 << self.rng.below(5);
        self.put("rebuild_chunk", rebuild);
        if self.one_in(4) {
            self.put_text("rebuild_rate", "4 MiB");
        }
        let retries = self.rng.below(2);
        self.put("write_retries", retries);
        let fresh = *self.rng.pick(&["compute", "zeros"]);
        self.put_text("fresh", fresh);
        name
    }
}

/// Blocks of each plane for checkpoints of a map with at most the RAM that is drawn.
fn checkpoint_blocks(logical: u64, page: u64, pages: u64, planes: u64) -> u64 {
    let (entries, extents) = (page / 4, (page - 8) / 16);
    let ram = (3 * (page + 12)).max(200);
    let words = 7 + logical.div_ceil(entries) + 2 * (logical / (2 * extents) + 2) + 16 + ram / 2;
    (2 * words.div_ceil(entries).div_ceil(pages)).div_ceil(planes)
}
