//! `cargo xtask test`: everything that must hold before a push.

use crate::json::{self, Json};
use crate::results;
use crate::steps::{End, Steps, command, has, release_build, released, root, run, target_dir};
use crate::tools;
use crate::{broken, circles, decisions, docs, outside, packages, programs, purity, python, words};
use std::process::{Command, ExitCode};

/// How to test.
pub struct Options {
    require_tools: bool,
    quick: bool,
    only: Option<String>,
}

impl Options {
    /// Reads the words after `test`; an unknown one is the error.
    pub fn parse(words: &[&str]) -> Result<Options, String> {
        let mut options = Options { require_tools: false, quick: false, only: None };
        let mut words = words.iter();
        while let Some(&word) = words.next() {
            match word {
                "--require" if words.next() == Some(&"tools") => options.require_tools = true,
                "--require" => return Err("--require takes the word `tools`".into()),
                "--quick" => options.quick = true,
                "--only" => {
                    options.only =
                        Some(words.next().ok_or("--only takes a word of a step's name")?.to_string())
                }
                other => return Err(other.into()),
            }
        }
        Ok(options)
    }
}

/// Seeds of the verified simulation that every push passes; longer runs have their own command.
const SEEDS: u32 = 300;

/// Seeds within which every injected bug must be found.
const SEEDS_PLANTED: u32 = 5_000;

/// Where the seeds of bugs that are found late are noted.
const LATE_BUGS: &str = "xtask/late-bugs.txt";

/// Invariants of the whole simulation; see `nandu_sim::verify`.
const INVARIANTS: &[&str] = &["I-1", "I-5", "I-6", "I-13", "I-14", "I-16", "I-17", "I-18", "I-19", "I-20"];

/// The step that builds the program as it is released.
const RELEASED: &str = "the program as it is released";

/// Takes every step, also after a failure.
pub fn all(options: &Options) -> ExitCode {
    let mut steps = Steps::new(options.require_tools, options.only.clone());
    steps.step("tools", tools::install);
    steps.step("format", || run(command("cargo fmt --all --check")));
    steps.step("index of claims", results::check_index);
    steps.step("links of the documents", || docs::links().and(docs::own_policy));
    steps.step("records of decisions", decisions::check);
    steps.step("words", words::check);
    steps.step("purity of machines and policies", purity::check);
    steps.step("circles of modules", circles::check);
    steps.step("licences and manifests of packages", packages::check);
    if options.quick {
        steps.step("unit tests", || {
            run(command(
                "cargo test --workspace --lib --bins --quiet -- --skip verify::tests --skip many_seeds",
            ))
        });
        steps.step("a few seeds of the verified simulation", || {
            run(command("cargo run --quiet --package nandu-cli -- --quiet verify --crash --seeds 40"))
        });
        return steps.close();
    }
    steps.step("lints", || {
        let lint =
            |what: &str| run(command(&format!("cargo clippy {what} --all-targets --quiet -- -D warnings")));
        match lint("--workspace") {
            // What is only there with encrypted sessions.
            End::Passed => lint("--package nandu-live --features tls"),
            end => end,
        }
    });
    // Its last part is one thread's work: it goes on beside the tests.
    let mut dist = steps.takes(RELEASED).then(|| release_build().spawn());
    steps.step("tests", || programs::check(options.require_tools));
    steps.step(RELEASED, || {
        let build = dist.take().expect("it was begun for this step");
        match build.and_then(|mut build| build.wait()) {
            Ok(status) if status.success() => End::Passed,
            Ok(status) => End::Failed(format!("its build ended with {status}")),
            Err(error) => End::Failed(error.to_string()),
        }
    });
    steps.side_by_side(&[
        ("policies from outside", outside::check),
        ("instruction counts", gates),
        ("injected bugs", plants),
        ("package for python", python::check),
        ("quick forms of the papers", || results::check_quick().and(broken::check_quick)),
        ("documented commands", docs::check),
        ("public docs", public_docs),
        ("seeds of the verified simulation", seeds),
        ("stack files against the schema", schema),
    ]);
    steps.close()
}

fn nandu() -> Command {
    let mut command = Command::new(released().join("nandu"));
    command.current_dir(root());
    command
}

fn public_docs() -> End {
    let mut doc = command("cargo doc --workspace --no-deps --quiet");
    doc.env("RUSTDOCFLAGS", "-D warnings -A rustdoc::private-intra-doc-links");
    run(doc)
}

/// An independent validator holds every stack file against the schema that editors use.
fn schema() -> End {
    let mut python = match tools::python() {
        Ok(python) => python,
        Err(why) => return End::Skipped(why),
    };
    let schema = match nandu().arg("schema").output() {
        Ok(output) if output.status.success() => output.stdout,
        _ => return End::Failed("`nandu schema` failed".into()),
    };
    let file = target_dir().join("nandu.schema.json");
    if let Err(error) = std::fs::write(&file, schema) {
        return End::Failed(error.to_string());
    }
    python.arg("xtask/check_schema.py").arg(file).current_dir(root());
    run(python)
}

fn seeds() -> End {
    let mut verify = nandu();
    verify.args(["verify", "--crash", "--seeds", &SEEDS.to_string()]);
    run(verify)
}

/// Every injected bug is found, and each invariant that is not one machine's own finds at least one.
fn plants() -> End {
    late_bugs()
        .and_then(|late| found(&late))
        .and_then(|(found_by, missed)| {
            let idle: Vec<&str> =
                INVARIANTS.iter().copied().filter(|i| !found_by.iter().any(|by| by == i)).collect();
            match (missed.as_slice(), idle.as_slice()) {
                ([], []) => Ok(()),
                ([], idle) => Err(format!("no injected bug is found by {}", idle.join(", "))),
                (missed, _) => Err(format!("not found within {SEEDS_PLANTED} seeds: {}", missed.join(", "))),
            }
        })
        .into()
}

/// The invariants that have found a bug, and the bugs that were not found.
fn found(late: &[(String, u32)]) -> Result<(Vec<String>, Vec<String>), String> {
    let list = said(&["list", "--json"])?;
    let bugs = list.get("bugs").list();
    if let Some((name, _)) =
        late.iter().find(|(name, _)| !bugs.iter().any(|bug| bug.get("name").text() == name))
    {
        return Err(format!("{LATE_BUGS}: there is no bug `{name}`"));
    }
    let (mut found_by, mut missed) = (Vec::new(), Vec::new());
    println!("{:<36} {:<18} {:<18} {:>7}", "bug", "breaks", "found by", "at seed");
    for bug in bugs {
        let name = bug.get("name").text();
        let noted = late.iter().find(|(late, _)| late == name).map(|(_, seed)| *seed);
        let at_noted = noted.map(|seed| finds(name, seed, 1)).transpose()?.flatten();
        let found = match at_noted {
            Some(found) => Some(found),
            None => finds(name, 1, SEEDS_PLANTED)?,
        };
        let (by, seed) = found.clone().unwrap_or(("nothing".into(), 0));
        println!("{name:<36} {:<18} {by:<18} {seed:>7}", bug.get("breaks").text());
        if let Some(noted) = noted.filter(|&noted| noted != seed && found.is_some()) {
            println!("{LATE_BUGS} says that seed {noted} finds {name}; it is {seed} now");
        }
        match found {
            Some((by, _)) => found_by.push(by),
            None => missed.push(name.to_string()),
        }
    }
    Ok((found_by, missed))
}

/// What finds a bug among so many seeds from `first` on, and the seed.
fn finds(bug: &str, first: u32, seeds: u32) -> Result<Option<(String, u32)>, String> {
    let (first, seeds) = (first.to_string(), seeds.to_string());
    let words = ["--quiet", "verify", "--inject-bug", bug, "--crash", "--json"];
    let report = said(&[&words[..], &["--first-seed", &first, "--seeds", &seeds]].concat())?;
    let failure = report.get("failures").list().first();
    Ok(failure
        .map(|f| (f.get("invariant").text().to_string(), f.get("seed").number().unwrap_or_default() as u32)))
}

/// What the released program says as JSON. Exit code 1 is an answer too: nothing was found.
fn said(words: &[&str]) -> Result<Json, String> {
    let output = nandu().args(words).output().map_err(|error| error.to_string())?;
    match output.status.code() {
        Some(0 | 1) => json::parse(&String::from_utf8_lossy(&output.stdout)),
        _ => Err(String::from_utf8_lossy(&output.stderr).trim().to_string()),
    }
}

/// Bugs that a search from seed 1 comes to late, and the seed that finds each.
fn late_bugs() -> Result<Vec<(String, u32)>, String> {
    let text = std::fs::read_to_string(root().join(LATE_BUGS)).map_err(|e| format!("{LATE_BUGS}: {e}"))?;
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty());
    let pair = |line: &str| {
        let (name, seed) = line.trim().split_once(char::is_whitespace)?;
        let seed = seed.trim().parse().ok().filter(|seed| (1..=SEEDS_PLANTED).contains(seed))?;
        Some((name.to_string(), seed))
    };
    let wanted = |line| format!("{LATE_BUGS}: `{line}` is not a bug and a seed up to {SEEDS_PLANTED}");
    lines.map(|line| pair(line).ok_or_else(|| wanted(line))).collect()
}

fn gates() -> End {
    if !has("valgrind") {
        return End::Skipped("valgrind is not installed".into());
    }
    crate::bench::counts()
}
