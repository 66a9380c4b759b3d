//! `cargo xtask bench`: the speed goals, measured on the released program.
//!
//! Instructions are counted by cachegrind, which gives the same count whatever else the machine does. A count is marginal:
//! the same command with more and with fewer passes over the same requests, the difference divided by the requests
//! between, so that starting, reading the trace and filling the drive cancel. Nothing but the program's own command line
//! is used.

mod first;
pub mod peers;
mod tenants;

use crate::steps::{End, release_build, released, root, run, target_dir, traces};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// One marginal count.
struct Count {
    name: &'static str,
    stack: &'static str,
    precondition: &'static str,
    /// Requests of one pass.
    requests: u64,
    passes: (u64, u64),
    /// Requests outstanding, whatever their arrival times; 0 is when they arrive.
    outstanding: u32,
}

/// One of a drive that was never written, with 50,000 requests.
const EMPTY: Count =
    Count { name: "", stack: "", precondition: "empty", requests: 50_000, passes: (1, 3), outstanding: 0 };
/// One of a drive that was filled, until collection is at work.
const FILLED: Count = Count { precondition: "filled", requests: 400_000, passes: (1, 2), ..EMPTY };

/// The drive of docs/experiments/benchmark.md below as many machines as a case needs.
const DRIVE: &str = "kind = \"ssd\"\nprofile = \"bench-2026\"\nchannels = 8\nchips = 4\nplanes = 2\nblocks = 160\n\
                     spare_factor = 0.2\n";

const COUNTS: &[Count] = &[
    Count { name: "empty", stack: "one", ..EMPTY },
    Count { name: "filled", stack: "one", ..FILLED },
    Count { name: "controller-empty", stack: "all-on", ..EMPTY },
    Count { name: "controller-filled", stack: "all-on", ..FILLED },
    Count { name: "child-layer", stack: "children", ..EMPTY },
    Count { name: "forward-layer", stack: "forwards", ..EMPTY },
    Count { name: "map-fits-tpc", stack: "tpc-fits", ..EMPTY },
    Count { name: "map-fits-dftl", stack: "dftl-fits", ..EMPTY },
    Count { name: "dftl-half-misses", stack: "dftl-half", ..EMPTY },
    Count { name: "dftl-at-once", stack: "dftl-at-once", ..EMPTY },
    Count { name: "qd64", stack: "one", outstanding: 64, ..EMPTY },
    Count { name: "qd64-half-misses", stack: "dftl-half", outstanding: 64, ..EMPTY },
    Count { name: "hdd-fcfs", stack: "hdd-fcfs", ..EMPTY },
    Count { name: "hdd-queue-of-8", stack: "hdd-8", ..EMPTY },
    Count { name: "hdd-sptf-candidate", stack: "hdd-32", ..EMPTY },
];

/// Disks without a write cache: first come, first served, and two that choose among as many requests as the name says,
/// which are there all the time, for the trace comes faster than a disk can follow.
const DISKS: &[(&str, &str)] = &[
    ("hdd-fcfs", "queue = \"fcfs\"\n"),
    ("hdd-8", "queue = \"sptf\"\ndepth = 8\npatience = \"1 h\"\n"),
    ("hdd-32", "queue = \"sptf\"\ndepth = 32\npatience = \"1 h\"\n"),
];

/// Candidates more in `hdd-32` than in `hdd-8`.
const CANDIDATES: u64 = 32 - 8;

/// The drive with maps that are partly on the flash: caches with room for the whole map, and one of 65,536 entries, of
/// which about half of all lookups find nothing.
const MAPS: &[(&str, &str)] = &[
    ("tpc-fits", "{ kind = \"tpc\", ram = \"16 MiB\" }"),
    ("dftl-fits", "{ kind = \"dftl\", ram = \"32 MiB\" }"),
    ("dftl-half", "{ kind = \"dftl\", ram = \"512 KiB\" }"),
    ("dftl-at-once", "{ kind = \"dftl\", cmt_size = \"512 KiB\", data_program = \"at-once\" }"),
];

/// What a controller does beside translating: collection step by step, also while idle, levelled wear, and a write buffer.
const ALL_ON: &str = "gc = { kind = \"greedy\", pace = \"incremental\", background = 6 }\n\
                      wear = { order = \"least-worn\", spread = 4, every = 64 }\n\
                      write_buffer = { size = \"16 MiB\", link_bandwidth = 3_000_000_000 }\n";
/// Sizes beside that of 50,000 blocks.
const TWENTY: &str =
    "1,2,5,10,20,50,100,200,500,1000,2000,5000,10000,20000,100000,200000,500000,1000000,2000000";
/// Caches without a device: policy, what else the command line says. Pages of 4 KiB, memory for 50,000 of them.
const CACHES: &[(&str, &str, &[&str])] = &[
    ("cache-lru", "lru", &[]),
    ("cache-lru-hashed", "lru", &["--hashed"]),
    ("cache-lru-segments", "lru", &["--segment", "32KiB"]),
    ("cache-culling", "adaptive-culling", &["--segment", "32KiB"]),
    ("curve-lru", "lru", &["--sizes", TWENTY]),
];

/// Pages of a request, in tenths.
const PAGES_TENTHS: u64 = 31;

/// Further machines in the stacks `children` and `forwards`.
const LAYERS: u64 = 2;

/// A line of gates.txt.
struct Gate {
    name: String,
    gate: u64,
    goal: u64,
    what: String,
}

/// Runs the benchmark; with `gate_only` the instruction counts alone.
pub fn bench(gate_only: bool) -> ExitCode {
    let end = counts();
    let mut ends = vec![end];
    if !gate_only {
        ends.extend([flatness(), sizes(), verified(), lookups()]);
    }
    for end in ends {
        if let Err(why) = end.ok() {
            println!("FAILED: {why}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

/// Builds the program as it is released.
fn build() -> Result<PathBuf, String> {
    run(release_build()).ok().map(|()| released().join("nandu"))
}

/// Counts instructions and holds them against the gates.
pub fn counts() -> End {
    measure().unwrap_or_else(End::Failed)
}

fn measure() -> Result<End, String> {
    let program = build()?;
    let gates = gates()?;
    let folder = target_dir().join("bench");
    std::fs::create_dir_all(&folder).map_err(|e| e.to_string())?;
    write_stacks(&folder)?;
    let mut held = Held { gates, broken: Vec::new() };
    let (mut base, mut plain) = (0, [0; 2]);
    println!("{:<18} {:>12} {:>7} {:>7}   what", "instructions", "per request", "gate", "goal");
    for count in COUNTS {
        let mut value = marginal(&program, &folder, count)?;
        match count.name {
            "empty" => (base, plain[0]) = (value, value),
            "filled" => plain[1] = value,
            "controller-empty" => value = percent(value, plain[0]),
            "controller-filled" => value = percent(value, plain[1]),
            "hdd-queue-of-8" => base = value,
            "hdd-sptf-candidate" => value = value.saturating_sub(base) / CANDIDATES,
            "child-layer" | "forward-layer" => value = value.saturating_sub(base) / LAYERS,
            "map-fits-tpc" | "map-fits-dftl" => value = value.saturating_sub(base) * 10 / PAGES_TENTHS,
            _ => {}
        }
        held.hold(count.name, value)?;
    }
    tenants::counts(&program, &folder, &mut held)?;
    first::counts(&program, &folder, &mut held)?;
    for (name, policy, more) in CACHES {
        held.hold(name, per_access(&program, policy, more)?)?;
    }
    let broken = held.broken;
    Ok(if broken.is_empty() { End::Passed } else { End::Failed(broken.join("; ")) })
}

/// How far above its gate a count may come out on another machine: 1 percent, and 1 where that is less. The same source
/// counts that much apart where the checkout lies in another folder (the order of functions in the program) and where the
/// C library picks other copies for the processor; two rounded counts of one quotient add the 1.
const fn allowance(gate: u64) -> u64 {
    if gate < 100 { 1 } else { gate.div_ceil(100) }
}

/// The first count in percent of the second.
fn percent(value: u64, of: u64) -> u64 {
    (value * 100).div_ceil(of.max(1))
}

/// The gates, and those that did not hold.
struct Held {
    gates: Vec<Gate>,
    broken: Vec<String>,
}

impl Held {
    fn hold(&mut self, name: &str, value: u64) -> Result<(), String> {
        let found = self.gates.iter().find(|g| g.name == name);
        let gate = found.ok_or(format!("gates.txt lacks `{name}`"))?;
        let verdict = if value <= gate.goal { "goal met" } else { "above the goal" };
        println!("{name:<18} {value:>12} {:>7} {:>7}   {verdict}: {}", gate.gate, gate.goal, gate.what);
        if value > gate.gate + allowance(gate.gate) {
            self.broken.push(format!("{name} takes {value} instructions, the gate is {}", gate.gate));
        }
        Ok(())
    }
}

/// Requests of one pass over a cache without a device.
const CACHE_REQUESTS: u64 = 400_000;

/// Instructions for each access to a page: the marginal count of a second pass, by the accesses that the command reports.
fn per_access(program: &Path, policy: &str, more: &[&str]) -> Result<u64, String> {
    let of = |passes: u64| {
        let (trace, limit, passes) = (trace(), CACHE_REQUESTS.to_string(), passes.to_string());
        let words =
            ["--quiet", "trace", "mrc", &trace, "--policy", policy, "--sizes", "50000", "--jobs", "1"];
        let words = words.into_iter().chain(["--limit", &limit, "--repeat", &passes, "--json"]);
        let (count, output) = count_of(program, words.chain(more.iter().copied()))?;
        let accesses = output.split("\"accesses\":").nth(1).and_then(|rest| {
            let digits: String = rest.trim_start().chars().take_while(char::is_ascii_digit).collect();
            digits.parse::<u64>().ok()
        });
        Ok::<_, String>((count, accesses.ok_or(format!("no accesses in:\n{output}"))?))
    };
    let (few, many) = both(|| of(1), || of(2));
    let ((few, few_accesses), (many, many_accesses)) = (few?, many?);
    Ok(many.saturating_sub(few) / (many_accesses - few_accesses).max(1))
}

fn gates() -> Result<Vec<Gate>, String> {
    let text = std::fs::read_to_string(root().join("xtask/gates.txt")).map_err(|e| e.to_string())?;
    text.lines()
        .filter(|line| !line.starts_with('#') && !line.trim().is_empty())
        .map(|line| {
            let bad = || format!("gates.txt: `{line}` is not name, gate, goal, what");
            let mut words = line.split_whitespace();
            let name = words.next().ok_or_else(bad)?.to_string();
            let gate = words.next().and_then(|w| w.parse().ok()).ok_or_else(bad)?;
            let goal = words.next().and_then(|w| w.parse().ok()).ok_or_else(bad)?;
            Ok(Gate { name, gate, goal, what: words.collect::<Vec<_>>().join(" ") })
        })
        .collect()
}

/// The stacks: one drive, the same below two stripes of one leg, the same below two slices, the same with other maps.
fn write_stacks(folder: &Path) -> Result<(), String> {
    let mut texts = vec![("one", format!("[export.data]\ndevice = \"d0\"\n\n[device.d0]\n{DRIVE}"))];
    for (name, kind, options) in
        [("children", "stripe", "chunk = \"4 KiB\"\n"), ("forwards", "slice", "offset = \"0 B\"\n")]
    {
        let mut text = format!("[export.data]\ndevice = \"d{LAYERS}\"\n\n[device.d0]\n{DRIVE}");
        for layer in 1..=LAYERS {
            let below = if kind == "stripe" {
                format!("legs = [\"d{}\"]\n", layer - 1)
            } else {
                format!("below = \"d{}\"\n", layer - 1)
            };
            let _ = write!(text, "\n[device.d{layer}]\nkind = \"{kind}\"\n{below}{options}");
        }
        texts.push((name, text));
    }
    for (name, mapping) in MAPS {
        let text = format!("[export.data]\ndevice = \"d0\"\n\n[device.d0]\n{DRIVE}mapping = {mapping}\n");
        texts.push((name, text));
    }
    texts.push(("all-on", format!("[export.data]\ndevice = \"d0\"\n\n[device.d0]\n{DRIVE}{ALL_ON}")));
    for (name, queue) in DISKS {
        let disk = format!("kind = \"hdd\"\nprofile = \"desktop-2010\"\nwrite_cache = false\n{queue}");
        texts.push((name, format!("[export.data]\ndevice = \"d0\"\n\n[device.d0]\n{disk}")));
    }
    texts.iter().try_for_each(|(name, text)| {
        std::fs::write(folder.join(format!("{name}.toml")), text).map_err(|e| e.to_string())
    })
}

/// Two runs beside each other: instructions are the same whatever else the machine does.
fn both<T: Send>(one: impl FnOnce() -> T, other: impl FnOnce() -> T + Send) -> (T, T) {
    std::thread::scope(|scope| {
        let other = scope.spawn(other);
        (one(), other.join().expect("a run ends or says why not"))
    })
}

fn marginal(program: &Path, folder: &Path, count: &Count) -> Result<u64, String> {
    let of = |passes| instructions(program, folder, count, passes);
    let (few, many) = both(|| of(count.passes.0), || of(count.passes.1));
    let (few, many) = (few?, many?);
    Ok(many.saturating_sub(few) / (count.requests * (count.passes.1 - count.passes.0)))
}

fn instructions(program: &Path, folder: &Path, count: &Count, passes: u64) -> Result<u64, String> {
    let mut words = run_words(folder, count.stack, count.requests, passes, count.precondition);
    if count.outstanding > 0 {
        words.extend(["--iodepth".into(), count.outstanding.to_string()]);
    }
    count_of(program, words).map(|(count, _)| count)
}

/// Instructions of one run, and what it prints. cachegrind without its caches counts no calls: a long run takes half the time that it takes under
/// callgrind, and the counts differ by less than 1 percent.
pub(crate) fn count_of<S: AsRef<std::ffi::OsStr>>(
    program: &Path,
    words: impl IntoIterator<Item = S>,
) -> Result<(u64, String), String> {
    let options = ["--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"];
    let (told, output) = valgrind(&options, program, words)?;
    Ok((count_in(&told, "refs:")?, output))
}

/// Instructions of functions whose name matches `pattern`, and of what they call.
fn count_within<S: AsRef<std::ffi::OsStr>>(
    pattern: &str,
    program: &Path,
    words: impl IntoIterator<Item = S>,
) -> Result<u64, String> {
    let toggle = format!("--toggle-collect={pattern}");
    let options = ["--tool=callgrind", "--callgrind-out-file=/dev/null", &toggle];
    count_in(&valgrind(&options, program, words)?.0, "Collected :")
}

/// What valgrind says of a run of the program, and what the program prints.
fn valgrind<S: AsRef<std::ffi::OsStr>>(
    options: &[&str],
    program: &Path,
    words: impl IntoIterator<Item = S>,
) -> Result<(String, String), String> {
    let mut valgrind = Command::new("valgrind");
    // A trace that was decoded by the first run and not by the second would be a difference of its own.
    valgrind.env("NANDU_CACHE", "off").args(options).arg(program).args(words);
    let output = valgrind.output().map_err(|e| format!("valgrind: {e}"))?;
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    if !output.status.success() {
        return Err(format!("valgrind ended with {}:\n{told}", output.status));
    }
    Ok((told, String::from_utf8_lossy(&output.stdout).into_owned()))
}

/// The first count behind `word`; thousands are apart by commas.
fn count_in(told: &str, word: &str) -> Result<u64, String> {
    let behind = told.lines().find_map(|line| line.split(word).nth(1));
    let count = behind.and_then(|n| n.trim().replace(',', "").parse().ok());
    count.ok_or_else(|| format!("no count behind `{word}` in:\n{told}"))
}

/// The trace of the comparison where it is, else the generator of the same distribution.
fn trace() -> String {
    let file = traces().join("common.mqsim.zst");
    if file.is_file() { file.display().to_string() } else { "mixed-zipf".into() }
}

fn run_words(folder: &Path, stack: &str, requests: u64, passes: u64, precondition: &str) -> Vec<String> {
    let stack = folder.join(format!("{stack}.toml")).display().to_string();
    let words = ["--quiet", "run", &stack, "--trace", &trace(), "--precondition", precondition, "--json"];
    let mut words: Vec<String> = words.iter().map(|w| (*w).into()).collect();
    words.extend(["--limit".into(), requests.to_string(), "--repeat".into(), passes.to_string()]);
    // Where the trace is generated, further turns would be requests that nobody asked for.
    words.extend(["--extend".into(), "0".into()]);
    words
}

/// What a request may cost more or less after 10^6 requests than at the start, in percent.
const FLAT_PERCENT: u64 = 5;
/// Most memory of the program, in MiB.
const PEAK_MIB: u64 = 100;
/// CPU time of a run with every read checked, by that of the plain run.
const VERIFIED_GOAL: f64 = 1.6;

/// Instructions per request do not grow with the length of a run: the second pass over 10^5 requests and the one that
/// reaches 10^6 cost the same. The drive was never written, so that a request means the same work throughout.
fn flatness() -> End {
    let folder = target_dir().join("bench");
    let program = released().join("nandu");
    let of = |passes| {
        let count = Count { name: "empty", stack: "one", requests: 100_000, passes, ..EMPTY };
        marginal(&program, &folder, &count)
    };
    match (of((1, 2)), of((9, 10))) {
        (Ok(early), Ok(late)) => {
            println!("\ninstructions per request up to 200,000 requests: {early}; up to 1,000,000: {late}");
            if early.abs_diff(late) * 100 <= early * FLAT_PERCENT {
                End::Passed
            } else {
                End::Failed(format!("the cost of a request is not flat within {FLAT_PERCENT} %"))
            }
        }
        (Err(why), _) | (_, Err(why)) => End::Failed(why),
    }
}

/// What one run of the program took.
struct Measured {
    /// Seconds.
    cpu: f64,
    /// MiB.
    peak: u64,
    /// Pages that the kernel handed it.
    faults: u64,
}

/// Runs the program once.
fn measured(program: &Path, words: Vec<String>) -> Result<Measured, String> {
    let mut time = Command::new("python3");
    time.env("NANDU_CACHE", "off");
    time.arg("xtask/measure.py").arg(program).args(words).current_dir(root());
    let output = time.output().map_err(|e| e.to_string())?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let figures: Vec<f64> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    match figures[..] {
        [cpu, peak, faults] => Ok(Measured { cpu, peak: peak as u64, faults: faults as u64 }),
        _ => Err(format!("no figures in: {text}")),
    }
}

/// CPU time of a run with every read checked against the plain one: the least of several, taken in turns.
fn verified() -> End {
    let (program, folder) = (released().join("nandu"), target_dir().join("bench"));
    let words = run_words(&folder, "one", 1_000_000, 1, "filled");
    let mut least = [f64::INFINITY; 2];
    for _ in 0..7 {
        for (least, more) in least.iter_mut().zip([None, Some("--verify".to_string())]) {
            match measured(&program, words.iter().cloned().chain(more).collect()) {
                Ok(run) => *least = least.min(run.cpu),
                Err(why) => return End::Failed(why),
            }
        }
    }
    let [plain, checked] = least;
    let ratio = checked / plain;
    let verdict = if ratio <= VERIFIED_GOAL { "goal met" } else { "above the goal" };
    println!(
        "\n1,000,000 requests, filled: {plain:.3} CPU s plain, {checked:.3} with every read checked, \
         {ratio:.2} times; the goal is {VERIFIED_GOAL}: {verdict}"
    );
    End::Passed
}

/// Time that a map on the flash takes for each page beside the page map's: the least of several runs, taken in turns.
fn lookups() -> End {
    let (program, folder) = (released().join("nandu"), target_dir().join("bench"));
    let requests = 1_000_000;
    let stacks: Vec<&str> = std::iter::once("one").chain(MAPS.iter().map(|m| m.0)).collect();
    let mut least = vec![f64::INFINITY; stacks.len()];
    for _ in 0..5 {
        for (least, stack) in least.iter_mut().zip(&stacks) {
            match measured(&program, run_words(&folder, stack, requests, 1, "empty")) {
                Ok(run) => *least = least.min(run.cpu),
                Err(why) => return End::Failed(why),
            }
        }
    }
    let pages = (requests * PAGES_TENTHS / 10) as f64;
    println!("\n{:<10} {:>30}", "map", "ns for each page beside `page`");
    for (stack, cpu) in stacks.iter().zip(&least).skip(1) {
        println!("{stack:<10} {:>30.0}", (cpu - least[0]) * 1e9 / pages);
    }
    End::Passed
}

/// Time and memory from 10^5 to 10^7 requests.
fn sizes() -> End {
    let (program, folder) = match build() {
        Ok(program) => (program, target_dir().join("bench")),
        Err(why) => return End::Failed(why),
    };
    println!(
        "\n{:<8} {:>10} {:>10} {:>14} {:>10}",
        "drive", "requests", "CPU s", "requests/CPU s", "peak MiB"
    );
    for precondition in ["empty", "filled"] {
        for (requests, passes) in [(100_000, 1), (1_000_000, 1), (1_000_000, 10)] {
            let words = run_words(&folder, "one", requests, passes, precondition);
            let Measured { cpu, peak, .. } = match measured(&program, words) {
                Ok(figures) => figures,
                Err(why) => return End::Failed(why),
            };
            let total = requests * passes;
            let rate = total as f64 / cpu;
            println!("{precondition:<8} {total:>10} {cpu:>10.3} {rate:>14.0} {peak:>10}");
            if peak >= PEAK_MIB {
                return End::Failed(format!("{peak} MiB of memory, {PEAK_MIB} are allowed"));
            }
        }
    }
    End::Passed
}
