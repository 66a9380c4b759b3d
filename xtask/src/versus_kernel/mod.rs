//! `cargo xtask versus-kernel`: Linux's own machines beside ours, in one table.
//!
//! Every machine runs in a guest of user-mode Linux of its own, above the same devices: three that are as fast as a file of the host, and one
//! behind dm-delay. Loads are measured, then a process writes and flushes until the guest is killed, and other guests look what is left: with all
//! devices, and without the fast one. Machines take turns, and a rate is divided by that of the control in the same round. The tables go into
//! docs/experiments/versus-kernel.md.

mod cut;
mod guest;
mod rows;

use crate::figures::{fio_job, load_average, median};
use crate::files::{self, read};
use crate::json::parse;
use crate::steps::{release_build, run};
use guest::{Place, Tools};
use rows::{CONTROL, PAIRS, ROWS, Row};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

/// A load: its name, its column, and what fio is told. They run in this order, the ones that leave something to write back last.
const LOADS: [(&str, &str, &str); 6] = [
    ("fsync", "write + fsync", "--rw=randwrite --fsync=1 --runtime=2"),
    ("write-1", "write, depth 1", "--rw=randwrite --runtime=2"),
    ("read-1", "read, depth 1", "--rw=randread --runtime=2"),
    ("read-16", "read, depth 16", "--rw=randread --iodepth=16 --runtime=2"),
    ("write-16", "write, depth 16", "--rw=randwrite --iodepth=16 --runtime=2"),
    ("sequential", "1 MiB in sequence", "--rw=write --bs=1m --iodepth=4 --runtime=2"),
];
/// Not measured: all blocks have data, regions are marked, caches have met them.
const BEFORE: &str = "load fill --rw=write --bs=1m --iodepth=4 --runtime=1\nload warm --rw=randwrite --iodepth=4 --runtime=1\n";
/// A guest is cut after so many durable writes.
const WRITES: u64 = 200;
const PAGE: &str = "docs/experiments/versus-kernel.md";

/// Rate and p99 of each load, by name.
type Figures = BTreeMap<&'static str, [f64; 2]>;

/// What one round of a machine shows.
struct Round {
    figures: Figures,
    note: String,
    /// What is left with all devices, and without the fast one.
    left: [Left; 2],
}

/// What a start after a cut found.
enum Left {
    /// Durable writes that are there, that are not, and that cannot be read.
    Found([u64; 3]),
    /// It does not start; why.
    Refused(String),
    /// There is nothing to start.
    Nothing,
}

/// Does what the command line asks.
pub fn measure(words: &[&str]) -> Result<ExitCode, String> {
    if let ["inside", what, disk, folder] = words {
        return Ok(inside(what, Path::new(disk), Path::new(folder)));
    }
    let (mut builds, mut rounds, mut only) = (true, 3, None);
    let mut rest = words;
    while let [word, tail @ ..] = rest {
        rest = match (*word, tail) {
            ("--no-build", tail) => {
                builds = false;
                tail
            }
            ("--rounds", [number, tail @ ..]) => {
                rounds = number.parse().ok().filter(|&number| number > 0).ok_or((*number).to_string())?;
                tail
            }
            ("--only", [name, tail @ ..]) if ROWS.iter().any(|row| row.name == *name) => {
                only = Some(*name);
                tail
            }
            _ => return Err((*word).to_string()),
        };
    }
    let built = if builds { run(release_build()).ok() } else { Ok(()) };
    match built.and_then(|()| all(rounds, only)) {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(why) => {
            eprintln!("cargo xtask versus-kernel: {why}");
            Ok(ExitCode::FAILURE)
        }
    }
}

/// The part of the work that a guest runs.
fn inside(what: &str, disk: &Path, folder: &Path) -> ExitCode {
    let done = match what {
        "write" => cut::write(disk, folder, u64::MAX),
        _ => cut::check(disk, folder).map(|found| println!("{found:?}")),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{}: {error}", disk.display());
            ExitCode::FAILURE
        }
    }
}

/// Measures all machines in turn and writes the page after each round, or shows one machine.
fn all(rounds: usize, only: Option<&str>) -> Result<(), String> {
    let tools = Tools::fetch()?;
    let rows: Vec<&Row> = ROWS.iter().filter(|row| only.is_none_or(|name| name == row.name)).collect();
    let mut measured = Measured::new();
    let mut loads = Vec::new();
    for number in 1..=rounds {
        for row in &rows {
            loads.push(load_average()?);
            let round = Place::new(&tools, row).and_then(|place| one(&place));
            println!("round {number}, {}: {}", row.name, told(&round));
            measured.entry(row.name).or_default().push(round);
        }
        // A run that is ended has the rounds before.
        if only.is_none() {
            files::put_between(PAGE, "cargo xtask versus-kernel", &tables(&measured, &loads, &tools)?)?;
        }
    }
    Ok(())
}

/// One round of one machine.
fn one(place: &Place) -> Result<Round, String> {
    let loads = if place.row.is_only_cut() { &[][..] } else { &LOADS };
    let mut work = format!("{}\n", place.row.make);
    if !loads.is_empty() {
        work.push_str(BEFORE);
    }
    for (name, _, options) in loads {
        let _ = writeln!(work, "load {name} {options}");
    }
    let _ = writeln!(work, "{{\n:\n{}\n}} > $folder/note", place.row.note);
    work.push_str("$xtask versus-kernel inside write $disk $folder\n");
    let mut guest = place.boot(&work, true)?;
    guest.wait(|folder| cut::durable(folder) >= WRITES)?;
    drop(guest);
    let figures =
        loads.iter().map(|(name, ..)| Ok((*name, figures(place, name)?))).collect::<Result<_, String>>()?;
    place.copy("", ".cut")?;
    let whole = left(place, place.row.start, true)?;
    place.copy(".cut", "")?;
    let alone = left(place, place.row.alone, false)?;
    let note = read(&place.folder.join("note"))?.trim().to_string();
    Ok(Round { figures, note, left: [whole, alone] })
}

/// Starts what a cut has left, and looks.
fn left(place: &Place, start: &str, is_whole: bool) -> Result<Left, String> {
    if start.is_empty() {
        return Ok(Left::Nothing);
    }
    let work = format!("{start}\n$xtask versus-kernel inside check $disk $folder > $folder/found");
    let mut guest = place.boot(&work, is_whole)?;
    if let Err(why) = guest.wait(|_| false) {
        return Ok(Left::Refused(why));
    }
    let found = parse(read(&place.folder.join("found"))?.trim())?;
    let numbers: Vec<u64> = found.list().iter().filter_map(|number| Some(number.number()? as u64)).collect();
    let numbers = numbers.try_into().map_err(|_| "the guest does not say what it found".to_string())?;
    Ok(Left::Found(numbers))
}

/// Rate a second and p99 in milliseconds, from what fio wrote.
fn figures(place: &Place, name: &str) -> Result<[f64; 2], String> {
    let text = read(&place.folder.join(format!("{name}.json")))?;
    let job = fio_job(&text).map_err(|why| format!("{name}.json: {why}"))?;
    let kind = job.get(if name.starts_with("read") { "read" } else { "write" });
    let times = if name == "fsync" { job.get("sync").get("lat_ns") } else { kind.get("clat_ns") };
    let p99 = times.get("percentile").get("99.000000").number();
    let found = kind.get("iops").number().zip(p99).filter(|&(rate, p99)| rate > 0.0 && p99 > 0.0);
    found.map(|(rate, p99)| [rate, p99 / 1e6]).ok_or_else(|| format!("{name}.json has no rate"))
}

/// A line on one round.
fn told(round: &Result<Round, String>) -> String {
    let round = match round {
        Ok(round) => round,
        Err(why) => return format!("not to be had: {why}"),
    };
    let figures: Vec<String> = round
        .figures
        .iter()
        .map(|(name, [rate, p99])| format!("{name} {rate:.0}/s p99 {p99:.2} ms"))
        .collect();
    let [whole, alone] = &round.left;
    format!(
        "{}; cut: {}; without the fast device: {}; {}",
        figures.join(", "),
        whole.said(),
        alone.said(),
        round.note
    )
}

impl Left {
    fn said(&self) -> String {
        match self {
            Left::Found([_, 0, 0]) => "0".into(),
            Left::Found([_, old, 0]) => format!("{old}"),
            Left::Found([_, 0, unreadable]) => format!("{unreadable} unreadable"),
            Left::Found([_, old, unreadable]) => format!("{old}, and {unreadable} unreadable"),
            Left::Refused(why) => format!("does not start: {why}"),
            Left::Nothing => "-".into(),
        }
    }
}

type Measured<'a> = BTreeMap<&'a str, Vec<Result<Round, String>>>;

/// One machine's figure divided by another's, for each round that has both.
fn ratios(measured: &Measured, of: &str, to: &str, load: &str, figure: usize) -> Vec<f64> {
    let value = |round: &Result<Round, String>| Some(round.as_ref().ok()?.figures.get(load)?[figure]);
    let rounds = |name: &str| measured.get(name).into_iter().flatten().map(value);
    rounds(of).zip(rounds(to)).filter_map(|(of, to)| Some(of? / to?)).collect()
}

/// A ratio with the digits that mean something.
fn shown(ratio: f64) -> String {
    match ratio {
        ratio if ratio >= 9.95 => format!("{ratio:.0}"),
        ratio if ratio >= 0.995 => format!("{ratio:.1}"),
        ratio if ratio >= 0.0995 => format!("{ratio:.2}"),
        ratio => format!("{ratio:.3}"),
    }
}

fn shown_median(ratios: Vec<f64>) -> String {
    median(ratios).map_or_else(|| "-".into(), shown)
}

fn tables(measured: &Measured, loads: &[f64], tools: &Tools) -> Result<String, String> {
    let rounds = measured.values().map(Vec::len).max().unwrap_or(0);
    let least = loads.iter().copied().fold(f64::MAX, f64::min);
    let most = loads.iter().copied().fold(0.0, f64::max);
    let mut text = format!(
        "Linux {} in the guests; {}; rounds: {rounds}; load of the host {least:.1} to {most:.1}.\n",
        tools.kernel(),
        tools.program()?
    );
    let control = |load: &str, figure: usize| {
        let rounds = measured.get(CONTROL).into_iter().flatten().filter_map(|round| round.as_ref().ok());
        median(rounds.filter_map(|round| Some(round.figures.get(load)?[figure])).collect()).unwrap_or(0.0)
    };
    let _ = writeln!(
        text,
        "The control does {:.0} writes a second at depth 1, with a p99 of {:.0} ms, and {:.0} writes with a flush.",
        control("write-1", 0),
        control("write-1", 1),
        control("fsync", 0)
    );
    let titles = [
        "Rates, as multiples of the control's: medians of the rounds.",
        "p99 (of the fsync in the first column), as multiples of the control's.",
    ];
    for (figure, title) in titles.into_iter().enumerate() {
        let columns: Vec<&str> = LOADS.iter().map(|(_, column, _)| *column).collect();
        let _ = write!(
            text,
            "\n{title}\n\n| machine | {} |\n|---|{}\n",
            columns.join(" | "),
            "---|".repeat(columns.len())
        );
        for row in ROWS.iter().filter(|row| !row.is_only_cut()) {
            let cells: Vec<String> = LOADS
                .iter()
                .map(|(load, ..)| shown_median(ratios(measured, row.name, CONTROL, load, figure)))
                .collect();
            let _ = writeln!(text, "| {} | {} |", row.title, cells.join(" | "));
        }
    }
    let _ = write!(
        text,
        "\nDurable writes that a cut has lost, in the rounds, of some {WRITES} that were written and flushed after the loads.\n\n\
         | machine | with all devices | without the fast one | what it says after the loads |\n|---|---|---|---|\n"
    );
    for row in ROWS {
        let rounds = measured.get(row.name).map_or(&[][..], Vec::as_slice);
        let failed = rounds.iter().find_map(|round| round.as_ref().err());
        let good: Vec<&Round> = rounds.iter().filter_map(|round| round.as_ref().ok()).collect();
        let cell = |of: &dyn Fn(&Round) -> String| {
            let mut cells: Vec<String> = good.iter().map(|round| of(round)).collect();
            cells.dedup();
            cells.join("; ")
        };
        let note = failed.map_or_else(String::new, |why| format!("; a round failed: {why}"));
        let [whole, alone, said] = [
            cell(&|round| round.left[0].said()),
            cell(&|round| round.left[1].said()),
            cell(&|round| round.note.clone()),
        ];
        let _ = writeln!(text, "| {} | {whole} | {alone} | {said}{note} |", row.title);
    }
    text.push_str(
        "\nOne machine's rates divided by another's: the median, and the least and the most of the rounds.\n\n\
         | machine | against | load | ratio | rounds | wanted |\n|---|---|---|---|---|---|\n",
    );
    for (of, to, load, wanted) in PAIRS {
        let title = |name: &str| ROWS.iter().find(|row| row.name == name).map_or("", |row| row.title);
        let column = LOADS.iter().find(|(name, ..)| name == load).map_or("", |(_, column, _)| column);
        let all = ratios(measured, of, to, load, 0);
        let least = all.iter().copied().reduce(f64::min).map_or_else(String::new, shown);
        let most = all.iter().copied().reduce(f64::max).map_or_else(String::new, shown);
        let wanted = wanted.map_or_else(|| "-".into(), |least| format!("at least {least}"));
        let _ = writeln!(
            text,
            "| {} | {} | {column} | {} | {least} to {most} | {wanted} |",
            title(of),
            title(to),
            shown_median(all)
        );
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_name_rows_and_loads() {
        for (of, to, load, _) in PAIRS {
            for name in [of, to] {
                assert!(ROWS.iter().any(|row| row.name == *name), "{name}");
            }
            assert!(LOADS.iter().any(|(name, ..)| name == load), "{load}");
        }
    }

    #[test]
    fn a_ratio_is_taken_within_a_round() {
        let round = |rate: f64| {
            let figures = Figures::from([("fsync", [rate, 1.0])]);
            Ok(Round { figures, note: String::new(), left: [Left::Nothing, Left::Nothing] })
        };
        let measured = Measured::from([
            ("a", vec![round(10.0), Err("it was cut".into()), round(90.0), round(8.0)]),
            ("b", vec![round(5.0), round(1.0), round(10.0), round(2.0)]),
        ]);
        assert_eq!(ratios(&measured, "a", "b", "fsync", 0), [2.0, 9.0, 4.0]);
        assert_eq!(shown_median(ratios(&measured, "a", "b", "fsync", 0)), "4.0");
        assert_eq!(shown_median(ratios(&measured, "a", "b", "read-1", 0)), "-");
    }
}
