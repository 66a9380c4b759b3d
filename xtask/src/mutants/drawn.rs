//! Bugs that are drawn by seed over the sources of all machines, and the share of them that is found.
//!
//! As many are drawn for each machine, whatever its length. A bug is found when the verified simulation fails with it, within some hundred
//! seeds of the families that have such a machine, or a test of one of the crates that have a machine, or that run all machines, simulated
//! and served; what runs much longer than without it is found too. The table of [`journal`] has a line for each; [`asked`] is how tests
//! are asked.

use super::Options;
use super::asked::{self, Said};
use super::journal::{self, Entry, PASSES_SEEDS, SURVIVES};
use super::scan::{self, Site};
use super::tree::{self, Edit, Ended};
use crate::steps::root;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// Seconds for the seeds of a family; what takes longer hangs.
const PATIENCE: u64 = 300;
/// Crates whose tests run all machines: in the simulator, and served.
const ALL_MACHINES: &[&str] = &["nandu-sim", "nandu-live"];

/// A machine: its sources, its crate, and the families of stacks that show what it does.
struct Machine {
    name: &'static str,
    crate_name: &'static str,
    sources: &'static [&'static str],
    families: &'static [&'static str],
}

const MACHINES: &[Machine] = &[
    Machine {
        name: "ssd",
        crate_name: "nandu-device",
        sources: &["crates/device/src/ssd", "crates/ftl/src/plan"],
        families: &["ssd", "ssd-trimmed", "ssd-paged", "ssd-units", "ssd-combined"],
    },
    Machine {
        name: "write buffer",
        crate_name: "nandu-device",
        sources: &["crates/device/src/ssd/buffer"],
        families: &["ssd-buffered", "ssd-protected"],
    },
    Machine {
        name: "tenants",
        crate_name: "nandu-device",
        sources: &["crates/ftl/src/plan/tenants", "crates/ftl/src/isolation"],
        families: &["ssd-lending", "ssd-dealing", "ssd-paged-tenants", "ssd-combined"],
    },
    Machine {
        name: "maps",
        crate_name: "nandu-ftl",
        sources: &["crates/ftl/src/mapping"],
        families: &["ssd-paged", "ssd-delayed-reads", "ssd-gathers"],
    },
    Machine {
        name: "blocks",
        crate_name: "nandu-ftl",
        sources: &["crates/ftl/src/blocks", "crates/ftl/src/gc", "crates/ftl/src/trim_journal.rs"],
        families: &["ssd-at-once", "ssd-trimmed", "ssd-worn"],
    },
    Machine {
        name: "log-block maps",
        crate_name: "nandu-ftl",
        sources: &[
            "crates/ftl/src/log_block",
            "crates/ftl/src/plan/log_blocks",
            "crates/ftl/src/plan/log_blocks.rs",
        ],
        families: &["ssd-log", "ssd-combined"],
    },
    Machine {
        name: "dies",
        crate_name: "nandu-device",
        sources: &["crates/device/src/nand"],
        families: &["ssd-queued", "ssd-at-once", "fair-dies"],
    },
    Machine {
        name: "hdd",
        crate_name: "nandu-device",
        sources: &["crates/device/src/hdd"],
        families: &["hdd"],
    },
    Machine {
        name: "flash",
        crate_name: "nandu-device",
        sources: &["crates/device/src/flash"],
        families: &["hybrid-on-one-chip"],
    },
    Machine {
        name: "fault",
        crate_name: "nandu-device",
        sources: &["crates/device/src/fault"],
        families: &["fault", "mirror-of-caches"],
    },
    Machine {
        name: "cache",
        crate_name: "nandu-cache",
        sources: &["crates/cache/src"],
        families: &["cache", "cache-write-back", "cache-culling", "cache-over-stripe"],
    },
    Machine {
        name: "mirror",
        crate_name: "nandu-array",
        sources: &["crates/array/src/mirror"],
        families: &["mirror", "hetero-mirror"],
    },
    Machine {
        name: "parity",
        crate_name: "nandu-array",
        sources: &["crates/array/src/parity"],
        families: &["parity", "parity-that-rots"],
    },
    Machine {
        name: "stripe, concat",
        crate_name: "nandu-array",
        sources: &[
            "crates/array/src/stripe.rs",
            "crates/array/src/concat.rs",
            "crates/array/src/legs.rs",
            "crates/array/src/locks.rs",
        ],
        families: &["stripe", "concat", "arrays"],
    },
    Machine {
        name: "hybrid",
        crate_name: "nandu-hybrid",
        sources: &["crates/hybrid/src"],
        families: &[
            "hybrid",
            "hybrid-on-one-chip",
            "hybrid-past-ring",
            "hybrid-writethrough",
            "hybrid-loses-rings",
        ],
    },
    Machine {
        name: "queue",
        crate_name: "nandu-queue",
        sources: &["crates/queue/src"],
        families: &["queue", "queue-over-tenants"],
    },
];

/// What a source file is about when no bug in it is one of the machine.
const LEFT_OUT: &[&str] =
    &["config", "test", "plants", "profile", "label", "figures", "disksim", "energy", "report", "seek.rs"];

/// A bug that was drawn, and its place in the sources as they are.
struct Mutant {
    number: u32,
    entry: Entry,
    edit: Edit,
}

/// The places of all machines' sources.
struct Sources {
    text: BTreeMap<String, String>,
    sites: BTreeMap<String, Vec<Site>>,
}

/// The generator of the draw: the same bugs for the same sources and seed.
struct Rng(u64);

impl Rng {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ z >> 31) % n as u64) as usize
    }
}

fn files_in(path: &Path, out: &mut Vec<PathBuf>) {
    if path.is_file() {
        out.push(path.into());
    }
    let mut inside: Vec<PathBuf> =
        fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    inside.sort();
    inside.iter().for_each(|path| files_in(path, out));
}

impl Sources {
    fn read() -> Sources {
        let (mut text, mut sites) = (BTreeMap::new(), BTreeMap::new());
        for file in MACHINES.iter().flat_map(files_of) {
            let Ok(source) = fs::read_to_string(root().join(&file)) else { continue };
            sites.insert(file.clone(), scan::sites(&source));
            text.insert(file, source);
        }
        Sources { text, sites }
    }
}

/// The sources of a machine that bugs are drawn in.
fn files_of(machine: &Machine) -> Vec<String> {
    let mut files = Vec::new();
    machine.sources.iter().for_each(|source| files_in(&root().join(source), &mut files));
    let name = |path: &PathBuf| path.strip_prefix(root()).unwrap_or(path).to_string_lossy().into_owned();
    let names = files.iter().map(name);
    names.filter(|name| name.ends_with(".rs") && !LEFT_OUT.iter().any(|word| name.contains(word))).collect()
}

impl Mutant {
    fn new(number: u32, mut entry: Entry, source: &str, site: &Site) -> Mutant {
        let now = Entry::new(&entry.part, &entry.file, source, site);
        entry.line = now.line;
        let base = if entry.file.starts_with("crates/base/") { "crate" } else { "nandu_base" };
        let text = site.text.replace("ONE(", &format!("{base}::mutant::one("));
        let text = text.replace("NUMBER", &number.to_string());
        let edit = Edit { number, file: entry.file.clone(), start: site.start, end: site.end, text };
        Mutant { number, entry, edit }
    }

    fn machine(&self) -> &'static Machine {
        MACHINES.iter().find(|machine| machine.name == self.entry.part).expect("the table names machines")
    }
}

/// The bugs of the table whose text still stands, and as many more as are missing of `count`: of the machine that has fewest, so that
/// all have as many. Places do not overlap.
fn draw(options: &Options, known: &BTreeMap<u32, Entry>) -> Result<Vec<Mutant>, String> {
    let sources = Sources::read();
    let mut taken: BTreeMap<&str, Vec<(usize, usize)>> = BTreeMap::new();
    let mut drawn = Vec::new();
    let mut by_machine = [0; MACHINES.len()];
    for (&number, entry) in known {
        let Some(machine) = MACHINES.iter().position(|machine| machine.name == entry.part) else {
            return Err(format!("{}: {number}: there is no part {}", journal::PATH, entry.part));
        };
        let place = sources.text.get_key_value(&entry.file).and_then(|(file, source)| {
            let sites = &sources.sites[file];
            Some((file, source, &sites[entry.find(source, sites)?]))
        });
        match place {
            Some((file, source, site)) => {
                taken.entry(file).or_default().push((site.start, site.end));
                by_machine[machine] += 1;
                drawn.push(Mutant::new(number, entry.clone(), source, site));
            }
            None => println!("{number:>3}  its text is gone: {} {}", entry.place(), entry.text),
        }
    }
    let mut rng = Rng(options.seed);
    let of = |machine: &Machine| -> Vec<(String, usize)> {
        let of_file = |file: String| {
            (0..sources.sites.get(&file).map_or(0, Vec::len)).map(move |at| (file.clone(), at))
        };
        files_of(machine).into_iter().flat_map(of_file).collect()
    };
    let mut left: Vec<Vec<(String, usize)>> = MACHINES.iter().map(of).collect();
    let mut number = known.keys().last().copied().unwrap_or(0);
    while drawn.len() < options.count {
        let may = (0..MACHINES.len()).filter(|&machine| !left[machine].is_empty());
        let Some(machine) = may.min_by_key(|&machine| by_machine[machine]) else { break };
        let (file, at) = {
            let sites = &mut left[machine];
            sites.swap_remove(rng.below(sites.len()))
        };
        let (Some((file, source)), site) = (sources.text.get_key_value(&file), &sources.sites[&file][at])
        else {
            continue;
        };
        let places = taken.entry(file).or_default();
        if places.iter().any(|&(start, end)| site.start < end && start < site.end) {
            continue;
        }
        places.push((site.start, site.end));
        by_machine[machine] += 1;
        number += 1;
        let entry = Entry::new(MACHINES[machine].name, file, source, site);
        drawn.push(Mutant::new(number, entry, source, site));
    }
    Ok(drawn)
}

/// The traits that bugs use, at the top of each file that has some.
fn with_traits(edits: &[Edit]) -> Result<Vec<Edit>, String> {
    let mut all = edits.to_vec();
    let mut files: Vec<&str> = edits.iter().map(|edit| edit.file.as_str()).collect();
    files.sort_unstable();
    files.dedup();
    for file in files {
        let text = fs::read_to_string(root().join(file)).map_err(|error| format!("{file}: {error}"))?;
        // Behind what is said of the file itself, which must come first.
        let is_of_the_file =
            |line: &&str| line.starts_with("//!") || line.starts_with("#![") || line.trim().is_empty();
        let at = text.split_inclusive('\n').take_while(is_of_the_file).map(str::len).sum();
        let text =
            "#![allow(unused_imports, unused_parens)]\nuse nandu_base::mutant::{Late as _, Pick as _};\n"
                .into();
        all.push(Edit { number: 0, file: file.into(), start: at, end: at, text });
    }
    Ok(all)
}

/// Writes the sources with as many of the bugs as can be built; the others are taken out of `drawn`.
fn plant(drawn: &mut Vec<Mutant>) -> Result<(), String> {
    // What is in the table was built before.
    let mut is_sure = drawn.iter().all(|m| !m.entry.verdict.is_empty());
    for round in 1..40 {
        let edits: Vec<Edit> = drawn.iter().map(|m| m.edit.clone()).collect();
        let places = tree::write(&with_traits(&edits)?)?;
        println!("{} mutants in one program, attempt {round}", drawn.len());
        if std::mem::take(&mut is_sure) {
            return Ok(());
        }
        let Err(said) = tree::check() else { return Ok(()) };
        let before = drawn.len();
        for line in said.lines().filter(|line| line.contains(": error")) {
            let mut parts = line.splitn(3, ':');
            let (Some(file), Some(Ok(at))) = (parts.next(), parts.next().map(str::parse::<usize>)) else {
                continue;
            };
            let near = places.get(file).into_iter().flatten();
            let hit: Vec<u32> = near
                .filter(|&&(n, first, last)| n > 0 && first <= at && at <= last)
                .map(|place| place.0)
                .collect();
            drawn.retain(|m| !hit.contains(&m.number));
        }
        if drawn.len() == before {
            return Err(format!("the sources with bugs in them cannot be built:\n{said}"));
        }
    }
    Err("the sources with bugs in them cannot be built".into())
}

/// Runs the bugs that are wanted and have no result yet, and says how many of all are found.
pub fn run(options: &Options) -> Result<(), String> {
    let begun = Instant::now();
    let until = || begun.elapsed().as_secs() / 60 >= options.minutes;
    let mut drawn = draw(options, &journal::read()?)?;
    let asked = drawn.len();
    plant(&mut drawn)?;
    println!("{} of {asked} can be built", drawn.len());
    if !options.only.is_empty() {
        for m in drawn.iter_mut().filter(|m| options.wants(m.number)) {
            m.entry.verdict.clear();
        }
    }
    // In an order of its own, so that a part of them is a sample of all.
    let mut order: Vec<usize> = (0..drawn.len()).collect();
    let mut rng = Rng(options.seed ^ 0x5EED);
    for at in (1..order.len()).rev() {
        order.swap(at, rng.below(at + 1));
    }
    order.retain(|&at| options.wants(drawn[at].number));
    let wanted = |drawn: &[Mutant], verdict: &str| -> Vec<usize> {
        order.iter().copied().filter(|&at| drawn[at].entry.verdict == verdict).collect()
    };
    let by_seeds = wanted(&drawn, "");
    if !by_seeds.is_empty() {
        let program = tree::build()?;
        for at in by_seeds {
            if until() {
                break;
            }
            let found = seeds(&program, &drawn[at], options.seeds)?;
            settle(&mut drawn, at, found, String::new())?;
        }
    }
    let by_tests = wanted(&drawn, PASSES_SEEDS);
    if !by_tests.is_empty() {
        ask(&mut drawn, &by_tests, &until)?;
    }
    save(&drawn)?;
    report(&drawn);
    Ok(())
}

/// Asks the tests of the machines' crates, and then of those that run all machines.
fn ask(drawn: &mut [Mutant], which: &[usize], until: &dyn Fn() -> bool) -> Result<(), String> {
    let mut packages: Vec<&str> = MACHINES.iter().map(|machine| machine.crate_name).collect();
    packages.sort_unstable();
    packages.dedup();
    packages.extend(ALL_MACHINES);
    let numbers: BTreeMap<u32, usize> = which.iter().map(|&at| (drawn[at].number, at)).collect();
    let waiting = numbers.keys().copied().collect();
    asked::ask(&packages, waiting, until, &mut |number, said| match said {
        Said::Found(by) => settle(drawn, numbers[&number], by, String::new()),
        Said::Nothing(passed) => settle(drawn, numbers[&number], SURVIVES.into(), passed.to_string()),
    })
    .map(drop)
}

/// Puts a verdict into the table.
fn settle(drawn: &mut [Mutant], at: usize, verdict: String, tests: String) -> Result<(), String> {
    let entry = &mut drawn[at].entry;
    (entry.verdict, entry.tests) = (verdict, tests);
    if entry.is_found() {
        entry.reason.clear();
    }
    println!(
        "{:>3}  {:<28}  {} {}",
        drawn[at].number,
        drawn[at].entry.verdict,
        drawn[at].entry.place(),
        drawn[at].entry.change
    );
    save(drawn)
}

/// Writes the table: what was run, where it stands now. Reasons are written by hand, perhaps meanwhile.
fn save(drawn: &[Mutant]) -> Result<(), String> {
    let known = journal::read()?;
    let run = drawn.iter().filter(|m| !m.entry.verdict.is_empty());
    let with_reason = |m: &Mutant| {
        let mut entry = m.entry.clone();
        if let Some(old) = known.get(&m.number).filter(|_| !entry.is_found()) {
            entry.reason.clone_from(&old.reason);
        }
        (m.number, entry)
    };
    journal::write(&run.map(with_reason).collect())
}

/// Runs seeds of the families that have the bug's machine: which failed and how, or that all pass.
fn seeds(program: &Path, m: &Mutant, seeds: u64) -> Result<String, String> {
    let machine = m.machine();
    // Seeds per family: all of them together.
    let each = (seeds / machine.families.len() as u64).max(1).to_string();
    for family in machine.families {
        let mut verify = Command::new(program);
        verify.args(["--quiet", "verify", family, "--crash", "--seeds", &each]);
        match tree::watch(verify, m.number, PATIENCE)? {
            Ended::Well(_) => {}
            Ended::Never => return Ok(format!("{family}: no end")),
            Ended::Badly(said) => {
                let line = said.lines().find(|line| line.starts_with("seed ")).unwrap_or("it fails");
                let what = line
                    .split(": ")
                    .nth(1)
                    .unwrap_or("it fails")
                    .split(" is broken")
                    .next()
                    .unwrap_or_default();
                return Ok(format!("{family}: {what}"));
            }
        }
    }
    Ok(PASSES_SEEDS.into())
}

/// The score with its 95 % interval (Wilson), over all and by machine. What tests have not been asked for counts as not found.
fn report(drawn: &[Mutant]) {
    let score = |mine: &mut dyn Iterator<Item = &Mutant>| {
        let ran: Vec<bool> =
            mine.filter(|m| !m.entry.verdict.is_empty()).map(|m| m.entry.is_found()).collect();
        (ran.iter().filter(|&&found| found).count(), ran.len())
    };
    for machine in MACHINES {
        let (found, ran) = score(&mut drawn.iter().filter(|m| m.entry.part == machine.name));
        println!("{:<16} {found:>3} of {ran:>3} found", machine.name);
    }
    let (found, ran) = score(&mut drawn.iter());
    if ran == 0 {
        return;
    }
    let (p, n, z) = (found as f64 / ran as f64, ran as f64, 1.96f64);
    let middle = (p + z * z / (2.0 * n)) / (1.0 + z * z / n);
    let half = z / (1.0 + z * z / n) * (p * (1.0 - p) / n + z * z / (4.0 * n * n)).sqrt();
    println!(
        "{found} of {ran} found: {:.1} %, from {:.1} to {:.1} % (95 %); {} can be built",
        100.0 * p,
        100.0 * (middle - half),
        100.0 * (middle + half),
        drawn.len()
    );
    for verdict in [PASSES_SEEDS, SURVIVES] {
        for m in drawn.iter().filter(|m| m.entry.verdict == verdict) {
            let Entry { change, tests, reason, .. } = &m.entry;
            println!("{verdict}: {:>3}  {change}  {}  {tests} {reason}", m.number, m.entry.place());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The score is of these sources as long as nearly all of its bugs can still be planted in them.
    #[test]
    fn the_bugs_of_the_table_still_have_their_places() {
        let known = journal::read().expect("a table");
        let options = Options::parse(&["--count", "0"]).expect("options");
        let drawn = draw(&options, &known).expect("parts are known");
        assert!(
            drawn.len() * 10 >= known.len() * 9,
            "{} of {}: run `cargo xtask mutants`",
            drawn.len(),
            known.len()
        );
    }
}
