//! Bugs that are drawn by seed over the sources of all machines, and the share of them that is found.
//!
//! As many are drawn for each machine, whatever its length. A bug is found when the verified simulation fails with it, within some hundred
//! seeds of the families that have such a machine, or a test of its crate, or one of the crates that run all machines, simulated and served;
//! what runs much longer than without it is found too. [`JOURNAL`] has a line for each that was run.

use super::scan::{self, Kind, Site};
use super::tree::{self, Edit, Ended};
use super::{Options, lines_of};
use crate::programs::{self, Program};
use crate::steps::root;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// What is known, in the repository: the draw is the same for the same sources, so a run goes on with what another one found.
const JOURNAL: &str = "mutants/drawn.tsv";
/// Its first line.
const COLUMNS: &str = "number\tverdict\tpart\tchange\tplace";
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
        sources: &["crates/device/src/ssd"],
        families: &["ssd", "ssd-trimmed", "ssd-paged"],
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
        sources: &["crates/device/src/ssd/tenants", "crates/ftl/src/isolation"],
        families: &["ssd-lending", "ssd-dealing"],
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
            "crates/device/src/ssd/log_blocks",
            "crates/device/src/ssd/log_blocks.rs",
        ],
        families: &["ssd-log"],
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
        families: &["cache", "cache-write-back", "cache-culling"],
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
        families: &["parity"],
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
        families: &["hybrid", "hybrid-on-one-chip"],
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

/// A bug that was drawn.
struct Mutant {
    number: u32,
    machine: usize,
    kind: Kind,
    line: usize,
    edit: Edit,
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

/// Draws `count` bugs, as many for each machine; places do not overlap.
fn draw(options: &Options) -> Vec<Mutant> {
    let mut rng = Rng(options.seed);
    let mut taken: BTreeMap<String, Vec<(usize, usize)>> = BTreeMap::new();
    let mut drawn = Vec::new();
    let mut all: Vec<Vec<(String, Site, usize)>> = MACHINES.iter().map(sites_of).collect();
    while drawn.len() < options.count && all.iter().any(|sites| !sites.is_empty()) {
        for (machine, sites) in all.iter_mut().enumerate() {
            while !sites.is_empty() && drawn.len() < options.count {
                let (file, site, line) = sites.swap_remove(rng.below(sites.len()));
                let places = taken.entry(file.clone()).or_default();
                if places.iter().any(|&(start, end)| site.start < end && start < site.end) {
                    continue;
                }
                places.push((site.start, site.end));
                let number = drawn.len() as u32 + 1;
                let base = if file.starts_with("crates/base/") { "crate" } else { "nandu_base" };
                let text = site
                    .text
                    .replace("ONE(", &format!("{base}::mutant::one("))
                    .replace("NUMBER", &number.to_string());
                let edit = Edit { number, file, start: site.start, end: site.end, text };
                drawn.push(Mutant { number, machine, kind: site.kind, line, edit });
                break;
            }
        }
    }
    drawn
}

fn sites_of(machine: &Machine) -> Vec<(String, Site, usize)> {
    let mut files = Vec::new();
    machine.sources.iter().for_each(|source| files_in(&root().join(source), &mut files));
    let mut sites = Vec::new();
    for path in files {
        let name = path.strip_prefix(root()).unwrap_or(&path).to_string_lossy().into_owned();
        if !name.ends_with(".rs") || LEFT_OUT.iter().any(|word| name.contains(word)) {
            continue;
        }
        let Ok(text) = fs::read_to_string(&path) else { continue };
        for site in scan::sites(&text) {
            let line = text[..site.start].matches('\n').count() + 1;
            sites.push((name.clone(), site, line));
        }
    }
    sites
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
        let text = "use nandu_base::mutant::{Late as _, Pick as _};\n".into();
        all.push(Edit { number: 0, file: file.into(), start: at, end: at, text });
    }
    Ok(all)
}

/// Builds as many of the bugs as can be built; the others are taken out of `drawn`. Where the program lies.
fn build(drawn: &mut Vec<Mutant>) -> Result<PathBuf, String> {
    for round in 1..40 {
        let edits: Vec<Edit> = drawn.iter().map(|m| m.edit.clone()).collect();
        let places = tree::write(&with_traits(&edits)?)?;
        println!("{} mutants in one program, attempt {round}", drawn.len());
        let Err(said) = tree::check() else { return tree::build() };
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

/// A test program, and the seconds after which it hangs.
struct Test {
    program: Program,
    patience: u64,
}

/// The test programs by package: of each crate that has a machine, and of those that run all. What fails without a bug is left out.
fn tests() -> Result<BTreeMap<&'static str, Vec<Test>>, String> {
    let mut packages: Vec<&str> = MACHINES.iter().map(|machine| machine.crate_name).collect();
    packages.extend(ALL_MACHINES);
    packages.sort_unstable();
    packages.dedup();
    let mut all = BTreeMap::new();
    for package in packages {
        let words = ["test", "--quiet", "--release", "--lib", "--tests", "--package", package];
        let mut tests = Vec::new();
        for program in programs::built_by(tree::cargo_command(&words))? {
            let begun = Instant::now();
            let ended = tree::watch(again(&program.command), 0, PATIENCE)?;
            let patience = 30 + 10 * begun.elapsed().as_secs();
            match ended {
                Ended::Well => tests.push(Test { program, patience }),
                Ended::Badly(_) | Ended::Never => println!("{} fails without a bug: left out", program.name),
            }
        }
        all.insert(package, tests);
    }
    Ok(all)
}

/// The same command once more.
fn again(command: &Command) -> Command {
    let mut copy = Command::new(command.get_program());
    copy.args(command.get_args());
    copy.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    if let Some(folder) = command.get_current_dir() {
        copy.current_dir(folder);
    }
    copy
}

/// Runs the bugs that are wanted and have no result yet, and says how many of all are found.
pub fn run(options: &Options) -> Result<(), String> {
    let begun = Instant::now();
    let mut drawn = draw(options);
    let asked = drawn.len();
    let program = build(&mut drawn)?;
    println!("{} of {asked} can be built", drawn.len());
    let tests = tests()?;
    let known = known();
    // In an order of its own, so that a part of them is a sample of all.
    let mut order: Vec<usize> = (0..drawn.len()).collect();
    let mut rng = Rng(options.seed ^ 0x5EED);
    for at in (1..order.len()).rev() {
        order.swap(at, rng.below(at + 1));
    }
    for at in order {
        let m = &drawn[at];
        let key = key(m);
        let is_known =
            known.get(&m.number).is_some_and(|line| line.ends_with(&key)) && options.only.is_empty();
        if !options.wants(m.number) || is_known {
            continue;
        }
        if begun.elapsed().as_secs() / 60 >= options.minutes {
            break;
        }
        let found = find(&program, &tests, m, options.seeds)?;
        println!("{:>3}  {found:<28}  {key}", m.number);
        note(m.number, &format!("{found}\t{key}"))?;
    }
    report(&drawn);
    Ok(())
}

/// What a bug is called.
fn key(m: &Mutant) -> String {
    format!("{}\t{}\t{}:{}", MACHINES[m.machine].name, m.kind.name(), m.edit.file, m.line)
}

fn find(program: &Path, tests: &BTreeMap<&str, Vec<Test>>, m: &Mutant, seeds: u64) -> Result<String, String> {
    let machine = &MACHINES[m.machine];
    // Seeds per family: all of them together.
    let each = (seeds / machine.families.len() as u64).max(1).to_string();
    for family in machine.families {
        let mut verify = Command::new(program);
        verify.args(["--quiet", "verify", family, "--crash", "--seeds", &each]);
        match tree::watch(verify, m.number, PATIENCE)? {
            Ended::Well => {}
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
    // Some files belong to the crate of the bookkeeping, others to that of the drive.
    let owner = m.edit.file.split('/').nth(1).map(|name| format!("nandu-{name}")).unwrap_or_default();
    let packages = std::iter::once(owner.as_str()).chain(ALL_MACHINES.iter().copied());
    for test in packages.filter_map(|package| tests.get(package)).flatten() {
        let name = format!("tests of {}", test.program.name);
        match tree::watch(again(&test.program.command), m.number, test.patience)? {
            Ended::Well => {}
            Ended::Never => return Ok(format!("{name}: no end")),
            Ended::Badly(_) => return Ok(name),
        }
    }
    Ok("survives".into())
}

/// What is known of each number.
fn known() -> BTreeMap<u32, String> {
    lines_of(&root().join(JOURNAL))
}

/// Puts what is known of a number in its place.
fn note(number: u32, text: &str) -> Result<(), String> {
    let mut all = known();
    all.insert(number, text.into());
    let lines = all.iter().map(|(number, text)| format!("{number}\t{text}\n"));
    let text: String = std::iter::once(format!("{COLUMNS}\n")).chain(lines).collect();
    fs::write(root().join(JOURNAL), text).map_err(|error| format!("{JOURNAL}: {error}"))
}

/// The score with its 95 % interval (Wilson), over all and by machine.
fn report(drawn: &[Mutant]) {
    let known = known();
    let result = |m: &Mutant| known.get(&m.number).filter(|line| line.ends_with(&key(m)));
    let score = |mine: &mut dyn Iterator<Item = &Mutant>| {
        let ran: Vec<bool> = mine.filter_map(result).map(|line| !line.starts_with("survives")).collect();
        (ran.iter().filter(|&&found| found).count(), ran.len())
    };
    for (at, machine) in MACHINES.iter().enumerate() {
        let (found, ran) = score(&mut drawn.iter().filter(|m| m.machine == at));
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
    for m in drawn {
        if result(m).is_some_and(|line| line.starts_with("survives")) {
            println!("survives: {:>3}  {}", m.number, key(m));
        }
    }
}
