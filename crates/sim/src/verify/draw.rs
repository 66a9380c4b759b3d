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
    /// One hard disk.
    Hdd,
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
    /// A cache over a device; what is settled of it.
    Cache(Caching),
    /// A mirror of two files in the page cache; here the process may also die without a power cut.
    MirrorOfFiles,
    /// A hetero-mirror over any legs, or as one of the mirrors above.
    Hetero(Legs),
}

/// What a hetero-mirror stands on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Legs {
    /// Any of these.
    Any,
    /// As [`Family::MirrorOfSsds`].
    Ssds,
    /// As [`Family::MirrorOfFaultySsds`].
    FaultySsds,
    /// As [`Family::MirrorOfCaches`].
    Caches,
    /// As [`Family::MirrorOfFiles`].
    Files,
    /// A quick leaf and a slow one, each behind `fault`.
    Unlike,
}

/// What is settled of a drawn cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Caching {
    /// Nothing.
    Any,
    /// Fixed or adaptive culling, most writes through.
    Culling,
    /// Write-back.
    Back,
}

/// What is settled of a drawn drive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Drive {
    /// Nothing.
    Any,
    /// Page map, arbiter `fcfs`.
    AtOnce,
    /// The same, under a load of trims and flushes.
    Trimmed,
    /// Page map, arbiter `queued`.
    Queued,
    /// A map on the flash.
    Paged,
    /// TPC-FTL with delayed reads.
    DelayedReads,
    /// CFTL that gathers blocks as soon as they are read.
    Gathers,
    /// Page map, and blocks that wear out.
    Worn,
    /// A log-block map.
    LogBlock,
}

impl Family {
    /// Every family that has a name on the command line.
    pub const ALL: &'static [(&'static str, Family)] = &[
        ("ssd", Family::Ssd(Drive::Any)),
        ("ssd-at-once", Family::Ssd(Drive::AtOnce)),
        ("ssd-trimmed", Family::Ssd(Drive::Trimmed)),
        ("ssd-queued", Family::Ssd(Drive::Queued)),
        ("ssd-paged", Family::Ssd(Drive::Paged)),
        ("ssd-delayed-reads", Family::Ssd(Drive::DelayedReads)),
        ("ssd-gathers", Family::Ssd(Drive::Gathers)),
        ("ssd-worn", Family::Ssd(Drive::Worn)),
        ("hdd", Family::Hdd),
        ("ssd-log", Family::Ssd(Drive::LogBlock)),
        ("slice", Family::Over("slice")),
        ("concat", Family::Over("concat")),
        ("stripe", Family::Over("stripe")),
        ("fault", Family::Over("fault")),
        ("cache", Family::Cache(Caching::Any)),
        ("cache-culling", Family::Cache(Caching::Culling)),
        ("cache-write-back", Family::Cache(Caching::Back)),
        ("mirror", Family::Over("mirror")),
        ("mirror-of-ssds", Family::MirrorOfSsds),
        ("mirror-of-faulty-ssds", Family::MirrorOfFaultySsds),
        ("mirror-of-caches", Family::MirrorOfCaches),
        ("mirror-of-files", Family::MirrorOfFiles),
        ("hetero-mirror", Family::Hetero(Legs::Any)),
        ("hetero-mirror-of-ssds", Family::Hetero(Legs::Ssds)),
        ("hetero-mirror-of-faulty-ssds", Family::Hetero(Legs::FaultySsds)),
        ("hetero-mirror-of-caches", Family::Hetero(Legs::Caches)),
        ("hetero-mirror-of-files", Family::Hetero(Legs::Files)),
        ("hetero-mirror-of-unlike", Family::Hetero(Legs::Unlike)),
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

/// Whether all drives of a stack have room to be aged.
pub(super) fn can_be_aged(toml: &str) -> bool {
    let options = BuildOptions { precondition: Precondition::Aged, ..BuildOptions::default() };
    Stack::parse(toml).is_ok_and(|stack| stack.build(&options).is_ok())
}

struct Draft<'a> {
    rng: &'a mut Rng,
    drive: Drive,
    /// Mirrors are hetero-mirrors.
    hetero: bool,
    text: String,
    devices: u32,
}

impl<'a> Draft<'a> {
    fn new(rng: &'a mut Rng) -> Draft<'a> {
        Draft { rng, drive: Drive::Any, hetero: false, text: String::new(), devices: 0 }
    }

    fn whole(mut self, shape: &Shape) -> String {
        let root = match shape {
            Shape::Named(Family::Ssd(drive)) => {
                self.drive = *drive;
                self.ssd(0)
            }
            Shape::Named(Family::Hdd) => self.hdd(0, true),
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
            Shape::Named(Family::Hetero(legs)) => {
                self.hetero = true;
                let family = match legs {
                    Legs::Any => {
                        let all = [
                            Legs::Ssds,
                            Legs::FaultySsds,
                            Legs::Caches,
                            Legs::Files,
                            Legs::Unlike,
                            Legs::Unlike,
                        ];
                        Family::Hetero(*self.rng.pick(&all))
                    }
                    Legs::Ssds => Family::MirrorOfSsds,
                    Legs::FaultySsds => Family::MirrorOfFaultySsds,
                    Legs::Caches => Family::MirrorOfCaches,
                    Legs::Files => Family::MirrorOfFiles,
                    Legs::Unlike => return self.unlike(),
                };
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
            Shape::Named(Family::Cache(caching)) => {
                // Drives with a map in memory: the seeds are for the cache.
                self.drive = *self.rng.pick(&[Drive::AtOnce, Drive::Queued]);
                let depth = self.rng.below(3) as u32;
                let below = self.device(depth, true, 64 << 10);
                self.block_cache(below, *caching)
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

    /// A hetero-mirror of a quick and a slow leaf, each behind `fault`; either may be the first.
    fn unlike(mut self) -> String {
        let slow = self.rng.below(2);
        let legs = [0, 1].map(|leg| {
            let name = self.begin("memory");
            let size = LEG + 4096 * self.rng.below(16);
            self.put("size", size);
            let latency =
                if leg == slow { *self.rng.pick(&[300, 1000, 3000]) } else { self.rng.between(1, 200) };
            self.put_text("latency", format!("{latency} us"));
            self.fault(name)
        });
        let root = self.mirror(legs);
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
            true => &["slice", "concat", "stripe", "mirror", "mirror", "fault", "fault", "cache"],
            false => &["slice", "concat", "stripe", "mirror", "cache"],
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
            "cache" => {
                let child = self.device(below, may_fail, least + (4 << 10));
                self.block_cache(child, Caching::Any)
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
        // A generator of its own: what else a seed draws stays as it was. Below a mirror a disk takes longer to be made equal
        // than a mirror is given here.
        if least < LEG && self.rng.fork(7).below(8) == 0 {
            return self.hdd(least, false);
        }
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

    /// A few tracks of a hard disk, with little memory, so that segments and cached writes get into each other's way. One that
    /// stops takes seconds to start, which is long beside what else happens in a stack.
    fn hdd(&mut self, least: u64, may_stop: bool) -> String {
        let name = self.begin("hdd");
        let profile = *self.rng.pick(&["samsung-hm080hi", "desktop-2010"]);
        self.put_text("profile", profile);
        let size = least.max(8192).next_multiple_of(4096) + 4096 * self.rng.below(64);
        self.put("capacity", size);
        let queue = *self.rng.pick(&["fcfs", "sstf", "sptf"]);
        self.put_text("queue", queue);
        let (depth, patience) = (self.rng.between(1, 8), *self.rng.pick(&[0, 5, 1000]));
        self.put("depth", depth);
        self.put_text("patience", format!("{patience} ms"));
        let (segments, segment) = (self.rng.between(1, 4), 512u64 << self.rng.below(7));
        self.put("segments", segments);
        self.put("segment", segment);
        let (reads_ahead, caches) = (!self.one_in(4), !self.one_in(4));
        self.put("read_ahead", reads_ahead);
        self.put("write_cache", caches);
        if caches {
            let (cache, commands) = (4096u64 << self.rng.below(6), self.rng.between(1, 12));
            self.put("write_cache_size", cache);
            self.put("write_cache_commands", commands);
        }
        if may_stop && self.one_in(3) {
            let stop = *self.rng.pick(&[1, 30, 3000]);
            self.put_text("spin_down", format!("{stop} ms"));
            if self.one_in(2) {
                self.put("spin_down_adaptive", "{ least = \"1 ms\", most = \"10 s\" }");
            }
        }
        name
    }

    /// A drive so small and so full that clearing blocks is hard work.
    fn ssd(&mut self, least: u64) -> String {
        // A generator of its own: what else a seed draws stays as it was.
        let is_log = self.drive == Drive::Any && self.rng.fork(9).below(8) == 0;
        if self.drive == Drive::LogBlock || is_log {
            let rng = Rng::new(self.rng.bits());
            return self.log_ssd(least, rng);
        }
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
            // One more than most maps need: CFTL gathers blocks.
            blocks += 3 + entries.div_ceil(pages * all_planes);
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
        self.collection(start, copyback, blocks);
        self.wear();
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

    /// How a drive with `blocks` blocks in a plane collects. A generator of its own: what else a seed draws stays as it was.
    fn collection(&mut self, start: u64, copyback: bool, blocks: u64) {
        let mut rng = self.rng.fork(7);
        let kinds = ["greedy", "greedy", "cost-benefit", "d-choices", "windowed", "fifo"];
        let kind = *rng.pick(&kinds);
        let mut gc = format!("kind = \"{kind}\", start = {start}, copyback = {copyback}");
        match kind {
            "d-choices" => drop(write!(gc, ", choices = {}", rng.between(1, 4))),
            "windowed" => drop(write!(gc, ", window = {}", rng.between(1, 6))),
            _ => {}
        }
        if rng.below(3) == 0 && self.drive != Drive::Queued {
            gc += ", separate = false";
        }
        match rng.below(4) {
            0 => gc += ", pace = \"foreground\"",
            1 => drop(write!(gc, ", urgent = {}", rng.between(1, start - 1))),
            _ => {}
        }
        if rng.below(3) == 0 {
            let (target, after) = (rng.between(start + 1, blocks - 1), *rng.pick(&[20, 500, 20_000]));
            let gain = *rng.pick(&["0", "1/4"]);
            let _ =
                write!(gc, ", background = {target}, idle_after = \"{after} us\", idle_gain = \"{gain}\"");
        }
        self.put("gc", format!("{{ {gc} }}"));
    }

    /// How its blocks wear.
    fn wear(&mut self) {
        let mut rng = self.rng.fork(8);
        let order = *rng.pick(&["longest-erased", "least-worn"]);
        let (spread, every) = (rng.below(4), rng.between(1, 4));
        let mut wear = format!("order = \"{order}\", spread = {spread}, every = {every}");
        if rng.below(4) == 0 {
            wear += ", factory_bad = \"1/20\"";
        }
        if self.drive == Drive::Worn {
            let variation = *rng.pick(&["0", "1/2"]);
            let _ = write!(wear, ", endurance = {}, variation = \"{variation}\"", rng.between(2, 8));
        }
        if rng.below(2) == 0 || self.drive == Drive::Worn {
            self.put("wear", format!("{{ {wear} }}"));
        }
    }

    /// A drive with a log-block map whose log blocks are few and small.
    fn log_ssd(&mut self, least: u64, mut rng: Rng) -> String {
        let page = 512u64 << rng.below(4);
        let pages = 1u64 << rng.between(1, 4);
        let (channels, dies, planes) = (rng.between(1, 2), rng.between(1, 2), 1 << rng.below(2));
        let all_planes = channels * dies * planes;
        let least_blocks = least.max(8192).div_ceil(page * pages * all_planes);
        let logical = least_blocks + rng.below(8) + 1;
        let logs = rng.between(1, 4);
        // Pieces that are dealt out unevenly may take one or two blocks more on the first plane.
        let blocks = (logical + logs + 5 + rng.below(3)).max(7);
        let name = self.begin("ssd");
        self.put_text("profile", *rng.pick(&["slc-2015", "slc-2019", "mlc-2019", "tlc-2019", "bench-2026"]));
        for (key, value) in [
            ("channels", channels),
            ("dies", dies),
            ("planes", planes),
            ("blocks", blocks),
            ("page", page),
            ("pages_per_block", pages),
        ] {
            self.put(key, value);
        }
        self.put("over_provisioning", format!("\"{}/{blocks}\"", blocks - logical));
        let interleave = rng.between(1, 2 * pages);
        let borrow = rng.below(3) == 0;
        let mapping = match rng.below(3) {
            0 => format!("kind = \"block\", open = {}", rng.between(1, logs)),
            1 => format!("kind = \"bast\", log_blocks = {logs}, borrow = {borrow}"),
            _ => {
                let sequential = rng.below(4) > 0;
                format!("kind = \"fast\", log_blocks = {logs}, borrow = {borrow}, sequential = {sequential}")
            }
        };
        self.put("mapping", format!("{{ {mapping}, interleave = {interleave} }}"));
        if rng.below(2) == 0 {
            self.put("write_buffer", page * rng.between(1, 40));
            self.put("link_bytes_per_second", 1u64 << rng.between(20, 30));
        }
        let copyback = rng.below(2) == 0;
        self.put("gc", format!("{{ kind = \"greedy\", copyback = {copyback} }}"));
        name
    }

    /// A map on the flash, its cache far too small; [`None`] for the page map.
    fn mapping(&mut self, page: u64) -> Option<String> {
        if matches!(self.drive, Drive::AtOnce | Drive::Trimmed | Drive::Queued | Drive::Worn) {
            return None;
        }
        let batch = self.rng.between(1, 20);
        let write_back = *self.rng.pick(&["wait", "behind"]);
        let common = format!("gc_batch = {batch}, write_back = \"{write_back}\"");
        let kind = match self.drive {
            Drive::DelayedReads => 2,
            Drive::Gathers => 1,
            Drive::Paged => self.rng.below(4),
            _ => self.rng.below(8),
        };
        match kind {
            3 => Some(format!("{{ kind = \"tpftl\", ram = {}, {common} }}", self.rng.between(14, 200))),
            0 => Some(format!("{{ kind = \"dftl\", ram = {}, {common} }}", self.rng.between(16, 200))),
            1 => {
                let ram = self.rng.between(24, 200);
                // A generator of its own: what else a seed draws stays as it was.
                let mut rng = self.rng.fork(7);
                let gathers = self.drive == Drive::Gathers || rng.below(4) > 0;
                let (reads, writes, pages) = (rng.between(1, 6), rng.below(8), rng.between(1, 9));
                let switching = match gathers {
                    true => format!(
                        "{{ kind = \"by-access\", reads = {reads}, writes = {writes}, pages = {pages} }}"
                    ),
                    false => "{ kind = \"never\" }".into(),
                };
                Some(format!("{{ kind = \"cftl\", ram = {ram}, switching = {switching}, {common} }}"))
            }
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

    /// A cache so small that lines go all the time.
    fn block_cache(&mut self, below: String, caching: Caching) -> String {
        let name = self.begin("cache");
        self.put_text("below", below);
        let block = *self.rng.pick(&[512u64, 1024, 2048, 4096, 4096, 4096]);
        self.put("block", block);
        let segment = block << self.rng.below(5);
        self.put("segment", segment);
        let memory = block * self.rng.between(8, 48) + 2 * segment;
        self.put("memory", memory);
        let prefetch = match self.rng.below(if caching == Caching::Culling { 2 } else { 6 }) {
            0 => {
                *self.rng.pick(&["{ kind = \"segment\" }", "{ kind = \"segment\", holes = \"block-only\" }"])
            }
            1 => "{ kind = \"gated-segment\", window = 16, probe = 3 }",
            2 => "{ kind = \"none\" }",
            3 => "{ kind = \"sequential\" }",
            4 => "{ kind = \"p-block\" }",
            _ => "{ kind = \"markov\", entries = 64 }",
        };
        self.put("prefetch", prefetch);
        let segments = prefetch.contains("segment");
        let ghost = self.one_in(2);
        let trigger = *self.rng.pick(&["b1", "b1+b2", "reads"]);
        let adaptive = format!(
            "{{ kind = \"adaptive-culling\", trigger = \"{trigger}\", ghost = {ghost}, culls = 2, region = \"1/4\" }}"
        );
        let others =
            ["arc", "sarc", "s3-fifo", "lru", "sieve"].map(|kind| format!("{{ kind = \"{kind}\" }}"));
        let by_segment = ["lru", "sieve"].map(|kind| format!("{{ kind = \"{kind}\", line = \"segment\" }}"));
        let only = "{ kind = \"segment-prefetch-only\" }".to_string();
        let fixed = "{ kind = \"fixed-culling\", l1 = \"1/3\" }".to_string();
        let replacement = match self.rng.below(8) {
            _ if caching == Caching::Culling && self.one_in(3) => fixed,
            _ if caching == Caching::Culling => adaptive,
            0 if segments => fixed,
            1 | 2 if segments => adaptive,
            3 if segments => only,
            4 => self.rng.pick(&by_segment).clone(),
            _ => self.rng.pick(&others).clone(),
        };
        self.put("replacement", replacement);
        let back = match caching {
            Caching::Any => self.one_in(2),
            Caching::Culling => self.one_in(4),
            Caching::Back => true,
        };
        if back {
            let destage = *self.rng.pick(&["lru", "bplru", "lb-clock"]);
            let dirty = block * self.rng.between(1, memory / block / 2);
            let unit = block << self.rng.below(5);
            let (after, depth) = (*self.rng.pick(&[20, 500, 20_000]), self.rng.between(1, 4));
            self.put(
                "write",
                format!(
                    "{{ kind = \"back\", destage = \"{destage}\", dirty = {dirty}, unit = {unit}, after = \"{after} us\", \
                     depth = {depth} }}"
                ),
            );
        }
        let (apart, colocated, busy) = (self.one_in(3), self.one_in(4), self.one_in(4));
        self.put("demand_first", apart);
        self.put("colocated", colocated);
        self.put("refuse_when_busy", busy);
        let depth = *self.rng.pick(&[0, 1, 16]);
        self.put("prefetch_depth", depth);
        let lookup = *self.rng.pick(&["flat", "hashed"]);
        self.put_text("lookup", lookup);
        let hit = *self.rng.pick(&[0, 1, 100]);
        self.put_text("hit_time", format!("{hit} us"));
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

    /// Options of `hetero-mirror` beside those of `mirror`.
    fn delays(&mut self) {
        for (key, values) in [
            ("ack", &["first", "first", "wait-limit", "both"][..]),
            ("manager", &["pipelined", "pipelined", "serial"]),
            ("flush", &["strict", "fast-leg"]),
            ("wait_limit", &["ratio", "quantile", "gc-hint"]),
            ("wait_reading", &["additional", "total"]),
            ("delay_queue", &["fifo", "elevator"]),
            ("on_limit", &["block", "degrade"]),
        ] {
            let value = *self.rng.pick(values);
            self.put_text(key, value);
        }
        let floor = *self.rng.pick(&[0, 10, 1000]);
        self.put_text("wait_floor", format!("{floor} us"));
        let batch = 4096u64 << self.rng.below(5);
        self.put("delay_batch", batch);
        let depth = self.rng.between(1, 4);
        self.put("delay_depth", depth);
        let resume = self.rng.below(32 << 10);
        self.put("resume_below", resume);
        let hedge = *self.rng.pick(&[0, 100, 2000]);
        self.put_text("hedge_after", format!("{hedge} us"));
        let bytes = 65_536u64 << self.rng.below(4);
        self.put("max_exposed_bytes", bytes);
        let time = *self.rng.pick(&[1, 10, 100, 1000]);
        self.put_text("max_exposed_time", format!("{time} ms"));
    }

    fn mirror(&mut self, legs: [String; 2]) -> String {
        let name = self.begin(if self.hetero { "hetero-mirror" } else { "mirror" });
        self.put("legs", format!("{legs:?}"));
        if self.hetero {
            self.delays();
        }
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
