//! The stacks, the loads, and their results.

use super::Group;
use crate::failure::Failure;
use crate::reproduce::runner::{Load, Results, Runner, Setup};
use nandu_base::Precondition;
use nandu_sim::RunResult;

const BOTH: &str = include_str!("../../../experiments/04-hybrid-disk/both.toml");
const SLC: &str = include_str!("../../../experiments/04-hybrid-disk/slc.toml");
const MLC: &str = include_str!("../../../experiments/04-hybrid-disk/mlc.toml");
const DISK: &str = include_str!("../../../experiments/04-hybrid-disk/disk.toml");

/// Options that differ from those of a stack file.
type Differs = &'static [(&'static str, &'static str)];

/// The loads.
pub const LOADS: [&str; 3] = ["financial1", "bonnie", "desktop"];
/// Shares of SLC, in tenths.
pub const TENTHS: std::ops::RangeInclusive<u64> = 0..=10;
/// Shares of the money that go into SLC, in percent, where a byte of it costs [`DEARER`] times as much.
pub const MONEY: [u64; 5] = [0, 25, 50, 75, 100];
/// What a byte of SLC costs, in bytes of MLC. Drives of one maker and year: README has the prices.
const DEARER: u64 = 3;
/// The setup of half SLC, which others are compared with.
pub const HALF: &str = "r 5";
/// Other flash caches: label, case and what differs from the ring of MLC.
pub const OTHERS: [(&str, &str, Differs); 4] = [
    ("B4-4", "one ring", &[("mlc_cold_share", "\"10 %\"")]),
    (
        "B4-5",
        "pinned",
        &[
            ("mlc_cold_share", "\"10 %\""),
            ("gc_reserve", "\"20 %\""),
            ("rewrite", "{ kind = \"pinned\", hits = 3, share = \"50 %\" }"),
        ],
    ),
    (
        "B4-7",
        "bcache-like",
        &[("mlc_cold_share", "\"10 %\""), ("rewrite", "\"never\""), ("sequential_cutoff", "\"4 MiB\"")],
    ),
    (
        "B4-7",
        "dm-cache-like",
        &[
            ("mlc_cold_share", "\"10 %\""),
            ("promote", "{ kind = \"hot\", hits = 3 }"),
            ("rewrite", "\"levels\""),
        ],
    ),
];
/// Other readings, at half SLC: label, and what differs from the paper's.
const READINGS: [(&str, Differs); 12] = [
    ("cold 30", &[("hybrid.mlc_cold_share", "\"30 %\"")]),
    ("none stays", &[("hybrid.rewrite", "\"never\"")]),
    ("inclusive", &[("hybrid.tiers", "\"inclusive\"")]),
    ("lru", &[("hybrid.append_order", "\"lru\"")]),
    ("after 2 s", &[("disk.spin_down", "\"2 s\"")]),
    ("after 60 s", &[("disk.spin_down", "\"60 s\"")]),
    ("break-even", &[("disk.spin_down", "\"break-even\"")]),
    ("long pass", &[("hybrid.read_bypass", "\"64 KiB\"")]),
    ("second touch", &[("hybrid.promote", "\"second-touch\"")]),
    ("shipped", SHIPPED),
    (
        "spin-aware",
        &[
            ("hybrid.promote", "\"second-touch\""),
            ("hybrid.read_bypass", "\"64 KiB\""),
            ("hybrid.spin_aware", "true"),
        ],
    ),
    ("never stops", &[("disk.spin_down", "\"10 h\"")]),
];
const SHIPPED: Differs = &[("hybrid.promote", "\"second-touch\""), ("hybrid.read_bypass", "\"64 KiB\"")];

/// Requests of a load below which everything is a 32nd in size.
const FEW: u64 = 100_000;
/// Most requests in the system.
const CAP: u32 = 256;

/// What ran on one load.
pub struct Runs {
    /// The load.
    pub load: &'static str,
    results: Results,
}

/// Everything at the paper's size, or at a part of it.
#[derive(Clone, Copy)]
struct Size {
    /// Bytes of all cells with one bit.
    slc: u64,
    is_small: bool,
}

impl Size {
    fn new(is_small: bool) -> Size {
        Size { slc: if is_small { 16 << 20 } else { 512 << 20 }, is_small }
    }

    /// A stack with `tenths` of its cells in SLC mode.
    fn share(self, label: String, tenths: u64, more: &[(&str, &str)]) -> Setup {
        self.rings(label, (self.slc * tenths / 10, 2 * self.slc * (10 - tenths) / 10), more)
    }

    /// A stack for which `percent` of the money of all cells in MLC mode went into SLC.
    fn bought(self, percent: u64) -> Setup {
        let all = 2 * self.slc;
        self.rings(bought(percent), (all * percent / 100 / DEARER, all * (100 - percent) / 100), &[])
    }

    /// A stack with rings of so many bytes; none where there are none.
    fn rings(self, label: String, (slc, mlc): (u64, u64), more: &[(&str, &str)]) -> Setup {
        let (text, rings): (_, &[(&str, u64)]) = match (slc, mlc) {
            (0, _) => (MLC, &[("mlc", mlc)]),
            (_, 0) => (SLC, &[("slc", slc)]),
            _ => (BOTH, &[("slc", slc), ("mlc", mlc)]),
        };
        let mut set = Vec::new();
        for (ring, bytes) in rings {
            set.push((format!("device.{ring}.capacity"), bytes.to_string()));
            if self.is_small {
                set.push((format!("device.{ring}.pages_per_block"), "16".into()));
            }
        }
        if self.is_small {
            set.push(("device.hybrid.dram_size".into(), "\"64 KiB\"".into()));
        }
        set.extend(more.iter().map(|(key, value)| (format!("device.{key}"), (*value).into())));
        Setup { label, text, set }
    }

    fn disk(self) -> Setup {
        let memory = if self.is_small { "\"64 KiB\"" } else { "\"512 KiB\"" };
        let set = vec![("device.cache.size".into(), memory.into())];
        Setup { label: "disk".into(), text: DISK, set }
    }

    /// A load that fits; a recorded one is what it is.
    fn load(self, name: &'static str, requests: u64, is_recorded: bool) -> Load {
        let load = Load { start: Some(Precondition::Empty), ..Load::plain(name) };
        let load = if name == "bonnie" && !is_recorded {
            Load { requests: Some(requests / 4), ..load }
        } else {
            load
        };
        match name {
            _ if !self.is_small || is_recorded => load,
            "financial1" => load.with("space", "160 MiB").with("hot", "20 MiB"),
            "bonnie" => load.with("file", "32 MiB").with("seeks", 256),
            _ => load.with("space", "48 MiB"),
        }
    }
}

/// The label of a stack for which `percent` of the money went into SLC.
fn bought(percent: u64) -> String {
    format!("money {percent}")
}

impl Runs {
    /// Runs what these groups rest on, on one load.
    pub(super) fn of(runner: &Runner, load: &'static str, groups: &[Group]) -> Result<Runs, Failure> {
        let is_recorded = runner.recorded.contains_key(load);
        let requests =
            if is_recorded { runner.describe(&Load::plain(load))?.requests } else { runner.requests };
        let size = Size::new(requests < FEW);
        let has = |group| groups.contains(&group);
        let shares =
            TENTHS.filter(|&tenths| tenths == 5 || has(Group::Ratios) || tenths == 0 && has(Group::Price));
        let mut setups: Vec<Setup> =
            shares.map(|tenths| size.share(format!("r {tenths}"), tenths, &[])).collect();
        let money = MONEY.into_iter().filter(|&percent| percent > 0 && has(Group::Price));
        setups.extend(money.map(|percent| size.bought(percent)));
        let readings = READINGS.iter().filter(|(label, _)| match label.starts_with("cold") {
            true => has(Group::Zones),
            false => has(Group::Readings),
        });
        setups.extend(readings.map(|(label, more)| size.share((*label).into(), 5, more)));
        for (_, case, more) in OTHERS.into_iter().filter(|_| has(Group::Others)) {
            let more: Vec<(String, &str)> =
                more.iter().map(|(key, value)| (format!("hybrid.{key}"), *value)).collect();
            let more: Vec<(&str, &str)> = more.iter().map(|(key, value)| (key.as_str(), *value)).collect();
            setups.push(size.share(case.into(), 0, &more));
        }
        if has(Group::Others) {
            setups.push(size.disk());
        }
        // A benchmark sends the next request when one has ended.
        let cap = (load != "bonnie").then_some(CAP);
        let results = runner.warmed(&setups, &size.load(load, requests, is_recorded), cap)?;
        Ok(Runs { load, results })
    }

    /// The run of a setup.
    pub fn get(&self, label: &str) -> &RunResult {
        &self.results[label]
    }

    /// The run with so many tenths of SLC.
    pub fn share(&self, tenths: u64) -> &RunResult {
        self.get(&format!("r {tenths}"))
    }

    /// The run for which so much of the money went into SLC, in percent.
    pub fn money(&self, percent: u64) -> &RunResult {
        if percent == 0 { self.share(0) } else { self.get(&bought(percent)) }
    }

    /// `real` or `synthetic`.
    pub fn origin(&self) -> String {
        let workload = self.get(HALF).provenance.workloads.first();
        workload.map_or_else(String::new, |w| w.origin.clone())
    }
}

/// A counter, over all machines.
pub fn counter(r: &RunResult, name: &str) -> u64 {
    r.layers.iter().filter_map(|l| l.counters.get(name)).sum()
}

/// Mean read, in us.
pub fn read_us(r: &RunResult) -> f64 {
    r.read.mean_ns as f64 / 1e3
}

/// Energy of the disk, in J.
pub fn disk_j(r: &RunResult) -> f64 {
    let disk = r.layers.iter().filter(|l| l.name == "disk");
    disk.flat_map(|l| &l.energy).map(|state| state.energy_nj as f64).sum::<f64>() / 1e9
}

/// Energy of everything, in J.
pub fn all_j(r: &RunResult) -> f64 {
    r.energy.as_ref().map_or(0.0, |e| e.total_nj as f64 / 1e9)
}

/// Which reading of O4-10.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Until the first region has ended.
    FirstRegion,
    /// Until the cells are worn on the mean.
    MeanOverCells,
    /// Until as many erases as all cells together are made for.
    AllCycles,
}

/// Life in TiB that the host writes.
pub fn life(r: &RunResult, way: Way) -> Option<f64> {
    let lifetime = r.lifetime.as_ref()?;
    let host_bytes = match way {
        Way::FirstRegion => lifetime.first_region?.host_bytes as f64,
        Way::MeanOverCells => lifetime.mean_over_cells?.host_bytes as f64,
        Way::AllCycles => {
            let cycles: u64 = lifetime.regions.iter().map(|r| r.blocks * u64::from(r.endurance)).sum();
            let erases: u64 = lifetime.regions.iter().map(|r| r.erases).sum();
            (erases > 0).then(|| lifetime.host_bytes_written as f64 * (cycles as f64 / erases as f64))?
        }
    };
    Some(host_bytes / (1u64 << 40) as f64)
}

/// `, saturated` where requests came faster than they were served.
pub fn saturation(r: &RunResult) -> &'static str {
    if r.saturated { ", saturated" } else { "" }
}

/// Share of the pages read below DRAM that flash has, in percent.
pub fn hit_percent(r: &RunResult) -> f64 {
    let hits = counter(r, "slc_hits") + counter(r, "mlc_hits");
    hits as f64 * 100.0 / (hits + counter(r, "disk_reads")).max(1) as f64
}
