//! What the drives are like (Fig 3), what a full drive costs, where reads go, and what the delay queue saves the drive.

use super::{
    CAP, Drive, HDD_1, HETE_MR, MLC, PAIR, SPACE, SSD_1, counter, measured, more, setup, small_files,
};
use crate::failure::Failure;
use crate::reproduce::runner::{Load, Results, Runner};
use crate::reproduce::watch::{Runs, Watched};
use crate::reproduce::{Figure, Findings, Measured, Shape};
use nandu_base::Precondition;
use nandu_sim::RunResult;

/// Fill levels in percent.
const FILLS: [u64; 5] = [10, 30, 60, 75, 90];
/// Writes of a fill level: several times what the small drive holds.
const FILL_WRITES: u64 = 120_000;

/// Writes of files of a fill level: several times what the drive holds.
const FILL_FILES: u64 = 4_000;
/// What the cases begin with whose load is files.
pub(super) const OF_FILES: &str = "pair, small files, ";
/// What a case adds whose files are as small as the paper has them.
pub(super) const SMALLEST: &str = "smallest files, ";
/// A small drive.
const SMALL: (&str, &str) = ("device.ssd.capacity", "\"128 MiB\"");
/// One without memory for writes.
const BARE: (&str, &str) = ("device.ssd.write_buffer.size", "0");

/// Bytes a second over the time that the requests took, in MB.
fn rate(r: &RunResult) -> f64 {
    r.total.bytes_per_second as f64 / 1e6
}

/// C1-11: what CrystalDiskMark measures, one request outstanding.
pub(super) fn sheet(runner: &Runner, drive: Drive, found: &mut Findings) -> Result<(), Failure> {
    let run = |size: &str, write: &str, sequential: &str| -> Result<Results, Failure> {
        let load = Load::plain("uniform").with("space", SPACE).with("size", size).with("write", write);
        let load = Load { requests: Some(6_000), ..load.with("sequential", sequential) };
        runner.run(&[drive.setup("SSD", SSD_1, &[]), drive.setup("HDD", HDD_1, &[])], &load)
    };
    let (in_row, random) = (run("1 MiB", "0", "9999/10000")?, run("512 KiB", "0", "0")?);
    for (case, results) in [("sequential read", &in_row), ("random read", &random)] {
        let (ssd, disk) = (rate(&results["SSD"]), rate(&results["HDD"]));
        let reason = format!("{ssd:.0} against {disk:.0} MB/s");
        found.measured.push(measured("C1-11", &drive.case(case), ssd / disk, &results["SSD"], reason));
    }
    let writes = run("512 KiB", "1", "0")?;
    for (case, device) in [("SSD, 512 KiB writes", "SSD"), ("HDD, 512 KiB writes", "HDD")] {
        let r = &writes[device];
        let reason = format!(
            "mean {:.1} ms, longest {:.1} ms",
            r.total.mean_ns as f64 / 1e6,
            r.total.max_ns as f64 / 1e6
        );
        found.measured.push(measured("C1-11", &drive.case(case), rate(r), r, reason));
        match device {
            "SSD" => {
                let why = "the spare blocks of the drive are chosen so that it writes so fast";
                found.moot_unless(false, why);
            }
            // The place of the pair's disk is chosen by this figure.
            _ => found.moot_unless(!drive.open, "the disk is used where it writes so fast"),
        }
    }
    Ok(())
}

/// C1-13: random writes of 4 KiB on a small drive of the same chips that is more or less full.
pub(super) fn fill(runner: &Runner, found: &mut Findings) -> Result<(), Failure> {
    let setups = [
        setup(
            "log blocks",
            SSD_1,
            &[SMALL, BARE, ("device.ssd.mapping", "{ kind = \"fast\", use_free_blocks = true }")],
        ),
        setup("page map", SSD_1, &[SMALL, BARE, ("device.ssd.mapping", "{ kind = \"page\" }")]),
    ];
    let mut lines: Vec<(String, Vec<(f64, f64)>)> =
        setups.iter().map(|s| (s.label.clone(), Vec::new())).collect();
    let mut base = Vec::new();
    for percent in FILLS {
        let space = part_of_small(percent);
        let load = Load::plain("uniform").with("space", space).with("size", "4 KiB").with("write", "1");
        let load = Load { requests: Some(FILL_WRITES), start: Some(Precondition::Empty), ..load };
        let results = runner.run(&setups, &load)?;
        let means: Vec<f64> = setups.iter().map(|s| results[&s.label].total.mean_ns as f64).collect();
        if base.is_empty() {
            base.clone_from(&means);
        }
        for (n, line) in lines.iter_mut().enumerate() {
            line.1.push((percent as f64, more(means[n], base[n])));
        }
        if percent == 60 || percent == 90 {
            let reason = format!("with a page map {:.0} %", more(means[1], base[1]));
            let from = &results["log blocks"];
            let case = format!("{percent} % full");
            found.measured.push(measured("C1-13", &case, more(means[0], base[0]), from, reason));
        }
    }
    found.figures.push(Figure {
        shape: Shape::Lines,
        title: "Mean time of a random write of 4 KiB over the fill of the drive".into(),
        x: "full, %",
        y: "% more than 10 % full",
        lines,
    });
    Ok(())
}

/// So many percent of the small drive, in whole pages.
fn part_of_small(percent: u64) -> u64 {
    (128 << 20) / 100 * percent / 4096 * 4096
}

/// C1-13 under the load of the paper: small files on the drive of the pair, which is more or less full. It has room for 50 streams in a tenth.
pub(super) fn fill_with_files(runner: &Runner, found: &mut Findings) -> Result<(), Failure> {
    let room = ("device.ssd.capacity", "\"256 MiB\"");
    let drive = [PAIR.setup("drive", SSD_1, &[room, BARE])];
    let run = |percent: u64| -> Result<RunResult, Failure> {
        let load = small_files(1).with("space", 2 * part_of_small(percent));
        let load = Load { requests: Some(FILL_FILES), start: Some(Precondition::Empty), ..load };
        Ok(runner.run(&drive, &load)?.remove("drive").expect("it was run"))
    };
    let base = run(10)?;
    let mean = |r: &RunResult| r.total.mean_ns as f64;
    for percent in [60, 90] {
        let full = run(percent)?;
        let reason = format!("{:.2} against {:.2} ms", mean(&full) / 1e6, mean(&base) / 1e6);
        let case = format!("{OF_FILES}{percent} % full");
        found.measured.push(measured("C1-13", &case, more(mean(&full), mean(&base)), &full, reason));
    }
    Ok(())
}

/// C1-15: reads of a mixed load, by where they go.
pub(super) fn reads(runner: &Runner, drive: Drive, found: &mut Findings) -> Result<(), Failure> {
    let load = Load::plain("uniform").with("space", SPACE).with("size", "64 KiB").with("write", "1/5");
    let load = load.with("interarrival", "20 ms");
    let setups = [
        drive.setup("SSD", SSD_1, &[]),
        drive.setup("HDD", HDD_1, &[]),
        drive.setup("all to the drive", HETE_MR, &[("device.mirror.read_policy", "\"leader\"")]),
        drive.setup("by halves", HETE_MR, &[("device.mirror.read_policy", "\"round-robin\"")]),
    ];
    let runs = runner.watch(&setups, &load, CAP)?;
    let mean = |label: &str| runs[label].result.read.mean_ns as f64 / 1e6;
    for (case, slow, fast) in [("leg", "HDD", "SSD"), ("routing", "by halves", "all to the drive")] {
        let reason = format!("{:.2} against {:.2} ms, 64 KiB, a fifth writes, 50/s", mean(slow), mean(fast));
        let case = drive.case(case);
        found.measured.push(measured("C1-15", &case, mean(slow) / mean(fast), &runs[fast].result, reason));
    }
    Ok(())
}

/// C1-16: erases of the drive for each byte that it was given, against a mirror that delays nothing. Where the drive was
/// never delayed there is nothing to compare.
pub(super) fn erases(runner: &Runner, drive: Drive, found: &mut Findings) -> Result<(), Failure> {
    erases_with(runner, drive, "", &small_files(160), found)
}

/// The same with files of 10 KB alone: as many bytes a second, and four tenths of the bytes.
pub(super) fn erases_with_smallest(
    runner: &Runner,
    drive: Drive,
    found: &mut Findings,
) -> Result<(), Failure> {
    let load = Load { requests: Some(runner.requests * 10), ..small_files(160 * 51 / 2).with("steps", 1) };
    erases_with(runner, drive, SMALLEST, &load, found)
}

fn erases_with(
    runner: &Runner,
    drive: Drive,
    which: &str,
    load: &Load,
    found: &mut Findings,
) -> Result<(), Failure> {
    let setups = [
        drive.setup("both", HETE_MR, &[("device.mirror.write_ack", "\"both\"")]),
        drive.setup("FIFO", HETE_MR, &[]),
        drive.setup("elevator", HETE_MR, &[("device.mirror.delay_order", "\"elevator\"")]),
    ];
    let runs = runner.watch(&setups, load, CAP)?;
    let of = |run: &Watched| {
        let pages = counter(&run.result, "ssd", "host_pages_written").max(1) as f64;
        counter(&run.result, "ssd", "erase_count") as f64 * 1e6 / pages
    };
    for case in ["FIFO", "elevator"] {
        let run = &runs[case];
        let delays = counter(&run.result, "mirror", "leg_a_delays");
        let reason = format!(
            "{:.0} against {:.0} erases for a million pages; the drive was delayed {delays} times, at most {} MB waited for it",
            of(run),
            of(&runs["both"]),
            counter(&run.result, "mirror", "leg_a_queue_bytes_max") / 1_000_000,
        );
        let fewer = -more(of(run), of(&runs["both"]));
        let found_out = measured("C1-16", &drive.case(&format!("{which}{case}")), fewer, &run.result, reason);
        let value = found_out.value.filter(|_| delays > 0);
        found.measured.push(Measured { value, ..found_out });
    }
    if drive.prefix != MLC.prefix {
        found.measured.push(energy(&drive.case(&format!("{which}energy")), &runs));
    }
    Ok(())
}

/// C1-16: energy of the drive for each page that it was given, with the paper's queue; the other queue in the reason.
fn energy(case: &str, runs: &Runs) -> Measured {
    let of = |label: &str| {
        let result = &runs[label].result;
        let states = result.layers.iter().filter(|l| l.name == "ssd").flat_map(|l| &l.energy);
        let drawn: u64 = states.map(|row| row.energy_nj).sum();
        drawn as f64 / 1e3 / counter(result, "ssd", "host_pages_written").max(1) as f64
    };
    let run = &runs["FIFO"].result;
    let delays = counter(run, "mirror", "leg_a_delays");
    let reason = format!(
        "{:.2} against {:.2} uJ a page, ascending and joined {:.2}; the drive was delayed {delays} times",
        of("FIFO"),
        of("both"),
        of("elevator"),
    );
    let found_out = measured("C1-16", case, -more(of("FIFO"), of("both")), run, reason);
    let value = found_out.value.filter(|_| delays > 0);
    Measured { value, ..found_out }
}
