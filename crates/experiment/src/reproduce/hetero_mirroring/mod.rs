//! Hetero-mirroring (2010): a flash drive and a disk as one mirror, against one drive and against two.
//!
//! Writes of small files arrive at 40 to 320 a second; at most 64 are in the system (O1-15). The drive freezes by its own
//! merges. What the paper leaves open is run in each reading (O1-1, O1-5, O1-7), each held against the same bounds.
//!
//! [`sweep`] is Fig 7 and 8, [`ratios`] Fig 4, 9 and 10, [`devices`] what the drives are like and what the delay queue
//! saves. Four set-ups go through them: [`SLC`], [`MLC`], [`PAIR`] and [`CACHES_OFF`].

mod devices;
mod ratios;
mod sweep;

use super::runner::{Load, Runner, Setup};
use super::{Findings, Measured, Paper};
use crate::failure::Failure;
use nandu_sim::RunResult;

/// The paper.
pub const PAPER: Paper = Paper {
    name: "hetero-mirroring",
    requests: 10_000,
    quick: 3_000,
    expected: include_str!("../../../experiments/01-hetero-mirroring/expected.json"),
    full_only: include_str!("../../../experiments/01-hetero-mirroring/full-only.json"),
    measure,
};

const RAID_0: &str = include_str!("../../../experiments/01-hetero-mirroring/raid-0.toml");
const SSD_1: &str = include_str!("../../../experiments/01-hetero-mirroring/ssd-1.toml");
const SSD_MR: &str = include_str!("../../../experiments/01-hetero-mirroring/ssd-mr.toml");
const HDD_1: &str = include_str!("../../../experiments/01-hetero-mirroring/hdd-1.toml");
const HDD_MR: &str = include_str!("../../../experiments/01-hetero-mirroring/hdd-mr.toml");
const HETE_MR: &str = include_str!("../../../experiments/01-hetero-mirroring/hete-mr.toml");
const STRIPED: &str = include_str!("../../../experiments/01-hetero-mirroring/striped.toml");

/// The part of the drives that the load lies on.
const SPACE: &str = "900 MiB";
/// Loads of Fig 7, in writes a second, that the drive of the pair keeps up with.
const CALM: [u64; 2] = [40, 80];
/// Most writes in the system.
const CAP: u32 = 64;

fn measure(runner: &Runner) -> Result<Findings, Failure> {
    let mut found = Findings::default();
    for drive in [SLC, MLC, PAIR, CACHES_OFF] {
        sweep::measure(runner, drive, &mut found)?;
    }
    for drive in [SLC, MLC, PAIR] {
        if drive.is_wanted(runner, &["C1-7", "C1-8", "C1-9", "C1-10"]) {
            ratios::measure(runner, drive, &mut found)?;
        }
        if drive.is_wanted(runner, &["C1-14"]) {
            ratios::streams(runner, drive, &mut found)?;
        }
        if drive.is_wanted(runner, &["C1-16"]) {
            devices::erases(runner, drive, &mut found)?;
        }
    }
    for (drive, loads) in [(CACHES_OFF, [100, 200]), (PAIR, CALM)] {
        if loads.iter().any(|load| runner.wants_case("C1-10", &drive.case(&format!("{load}/s")))) {
            ratios::wait_limit(runner, drive, &loads, &mut found)?;
        }
    }
    for drive in [SLC, PAIR] {
        if drive.is_wanted(runner, &["C1-11"]) {
            devices::sheet(runner, drive, &mut found)?;
        }
        if drive.is_wanted(runner, &["C1-15"]) {
            devices::reads(runner, drive, &mut found)?;
        }
    }
    if runner.wants_some("C1-16", |case| case.starts_with(&PAIR.case(devices::SMALLEST))) {
        devices::erases_with_smallest(runner, PAIR, &mut found)?;
    }
    let of_files = |case: &str| case.starts_with(devices::OF_FILES);
    if runner.wants_some("C1-13", |case| !of_files(case)) {
        devices::fill(runner, &mut found)?;
    }
    if runner.wants_some("C1-13", of_files) {
        devices::fill_with_files(runner, &mut found)?;
    }
    Ok(found)
}

/// A drive and a disk: what is put over the stack files for them.
#[derive(Clone, Copy)]
struct Drive {
    /// What its cases begin with.
    prefix: &'static str,
    /// What titles say of it.
    words: &'static str,
    /// Options of every drive.
    options: &'static [(&'static str, &'static str)],
    /// Log blocks of the second drive of a pair, where not those of the stack file.
    log_blocks: Option<&'static str>,
    /// Options of the disk, and of the parts of it that are used.
    disk: &'static [(&'static str, &'static str)],
    /// Whether the disk has a write cache.
    disk_cache: bool,
    /// Whether the loads of Fig 4, 9 and 10 are those of README's third set-up.
    open: bool,
}

/// The drive and the disk of the stack files.
const SLC: Drive = Drive {
    prefix: "",
    words: "",
    options: &[],
    log_blocks: None,
    disk: &[],
    disk_cache: false,
    open: false,
};
/// A drive of slower cells with larger blocks, which stands still for longer.
const MLC: Drive = Drive {
    prefix: "MLC, ",
    words: "with a drive of MLC",
    options: &[("profile", "\"mlc-2019\""), ("chips", "8"), ("spare_factor", "\"30 %\"")],
    log_blocks: Some("23"),
    ..SLC
};
/// The paper's pair: a drive and a disk that are alike in writes. README says which sentence of the paper allows each option.
const PAIR: Drive = Drive {
    prefix: "pair, ",
    words: "with the paper's pair",
    options: &[("spare_factor", "\"17 %\""), ("write_buffer.link_bandwidth", "300_000_000")],
    log_blocks: Some("98"),
    disk: &[
        ("part0.offset", "\"850 GiB\""),
        ("part1.offset", "\"860 GiB\""),
        ("part2.offset", "\"870 GiB\""),
        ("part3.offset", "\"880 GiB\""),
        ("part4.offset", "\"890 GiB\""),
        ("part5.offset", "\"900 GiB\""),
        ("part6.offset", "\"910 GiB\""),
        ("part7.offset", "\"920 GiB\""),
    ],
    disk_cache: true,
    open: true,
};
/// The same pair with "Disk-Cache: Disable" read as a word on both legs: none answers from memory.
const CACHES_OFF: Drive = Drive {
    prefix: "caches off, ",
    words: "with the paper's pair, caches off",
    options: &[("spare_factor", "\"17 %\""), ("write_buffer.size", "0")],
    disk_cache: false,
    ..PAIR
};

impl Drive {
    fn case(self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// Whether every claim is measured with it, and not only some.
    fn is_whole(self) -> bool {
        ![MLC, CACHES_OFF].map(|drive| drive.prefix).contains(&self.prefix)
    }

    /// Whether a case of it is asked for, of one of these claims.
    fn is_wanted(self, runner: &Runner, claims: &[&str]) -> bool {
        let prefix_of =
            |case: &str| [MLC, PAIR, CACHES_OFF].map(|d| d.prefix).into_iter().find(|p| case.starts_with(p));
        claims
            .iter()
            .any(|id| runner.wants_some(id, |case| prefix_of(case).unwrap_or_default() == self.prefix))
    }

    /// A stack with this drive and this disk in it.
    fn setup(self, label: &str, text: &'static str, set: &[(&str, &str)]) -> Setup {
        let mut setup = setup(label, text, set);
        for device in ["ssd", "other"].into_iter().filter(|d| text.contains(&format!("[device.{d}]"))) {
            let option =
                |(key, value): &(&str, &str)| (format!("device.{device}.{key}"), (*value).to_string());
            setup.set.extend(self.options.iter().map(option));
            if let Some(logs) = self.log_blocks.filter(|_| device == "other") {
                setup.set.push(("device.other.mapping.log_blocks".into(), logs.into()));
            }
        }
        if text.contains("[device.disk]") {
            setup.set.push(("device.disk.write_cache".into(), self.disk_cache.to_string()));
            setup.set.extend(self.disk.iter().map(|(k, v)| (format!("device.{k}"), (*v).to_string())));
        }
        setup
    }
}

fn setup(label: &str, text: &'static str, set: &[(&str, &str)]) -> Setup {
    let set = set.iter().map(|(path, value)| ((*path).to_string(), (*value).to_string())).collect();
    Setup { label: label.into(), text, set }
}

/// Writes of small files, so many a second.
fn small_files(per_second: u64) -> Load {
    let load = Load::plain("small-files").with("space", SPACE).with("overwrite", "30 %");
    load.with("interarrival", format!("{} ns", 1_000_000_000 / per_second))
}

/// A figure that a device of the stack counts.
fn counter(r: &RunResult, device: &str, name: &str) -> u64 {
    let layer = r.layers.iter().find(|l| l.name == device);
    layer.and_then(|l| l.counters.get(name)).copied().unwrap_or(0)
}

fn measured(id: &'static str, case: &str, value: f64, from: &RunResult, reason: String) -> Measured {
    let origin = from.provenance.workloads.first().map_or_else(String::new, |w| w.origin.clone());
    Measured { id, case: case.into(), value: Some(value), origin, reason, ..Measured::default() }
}

/// How much larger `a` is than `b`, in percent.
fn more(a: f64, b: f64) -> f64 {
    (a / b - 1.0) * 100.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::expected::Verdict;

    fn runner(requests: u64) -> Runner<'static> {
        Runner::small(requests)
    }

    /// What the ratios of Fig 9 and 10 rest on.
    #[test]
    fn a_leg_alone_takes_as_long_as_in_the_mirror() {
        let pairs = ratios::Pair::run(&runner(900), SLC, &[(100, 1)]).expect("the stacks are well formed");
        let pair = &pairs[0];
        assert!(pair.agree >= 599, "{} of 600 writes take the mirror as long as its slower leg", pair.agree);
    }

    /// What is run follows from what is asked for.
    #[test]
    fn a_case_that_is_asked_for_is_all_that_is_measured() {
        let only = vec!["C1-5 MLC, SSD-Mr".to_string(), "C1-14 pair, peaks".to_string()];
        let runner = Runner { only, quick: true, ..runner(300) };
        let found = measure(&runner).expect("the stacks are well formed");
        let cases: Vec<&str> = found.measured.iter().map(|m| m.case.as_str()).collect();
        assert_eq!(cases, ["MLC, SSD-Mr", "pair, peaks", "pair, clustered", "pair, longest"]);
        let outcomes = PAPER.reproduce(&runner).expect("the stacks are well formed").outcomes;
        assert_eq!(outcomes.len(), 2);
    }

    /// A small part of the whole: what needs no long load comes out as in the experiment's `RESULTS.md`.
    #[test]
    fn claims_that_need_no_long_load_get_their_verdicts() {
        let mut found = Findings::default();
        let runner = runner(1_000);
        devices::sheet(&runner, SLC, &mut found).expect("the stacks are well formed");
        devices::reads(&runner, SLC, &mut found).expect("the stacks are well formed");
        let expected = PAPER.expected();
        for (id, case, verdict) in [
            ("C1-11", "sequential read", Verdict::Reproduced),
            ("C1-11", "random read", Verdict::DirectionOnly),
            ("C1-11", "SSD, 512 KiB writes", Verdict::Reproduced),
            ("C1-11", "HDD, 512 KiB writes", Verdict::DirectionOnly),
            ("C1-15", "leg", Verdict::Reproduced),
            ("C1-15", "routing", Verdict::Reproduced),
        ] {
            let claim = expected.claims.iter().find(|c| c.id == id && c.case == case).expect("it is claimed");
            let measured =
                found.measured.iter().find(|m| m.id == id && m.case == case).expect("it is measured");
            assert_eq!(claim.verdict(measured.value), verdict, "{id} {case}: {:?}", measured.value);
        }
    }
}
