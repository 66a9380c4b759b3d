//! `cargo xtask test`: everything that must hold before a push.

use crate::results;
use crate::steps::{End, Steps, command, has, release_build, released, root, run, target_dir};
use crate::tools;
use crate::{broken, decisions, docs, outside, packages, programs, purity, python, words};
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
    steps.step("lints", || run(command("cargo clippy --workspace --all-targets --quiet -- -D warnings")));
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
        ("quick forms of the papers", || results::check_quick().and(broken::check)),
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
    let mut verify = nandu();
    verify.args([
        "--quiet",
        "verify",
        "--inject-bug",
        "all",
        "--crash",
        "--seeds",
        &SEEDS_PLANTED.to_string(),
    ]);
    let output = match verify.output() {
        Ok(output) => output,
        Err(error) => return End::Failed(error.to_string()),
    };
    let text = String::from_utf8_lossy(&output.stdout);
    print!("{text}");
    if !output.status.success() {
        return End::Failed(String::from_utf8_lossy(&output.stderr).trim().to_string());
    }
    let found_by: Vec<&str> = text.lines().filter_map(|line| line.split_whitespace().nth(2)).collect();
    let idle: Vec<&str> = INVARIANTS.iter().copied().filter(|i| !found_by.contains(i)).collect();
    if idle.is_empty() {
        End::Passed
    } else {
        End::Failed(format!("no injected bug is found by {}", idle.join(", ")))
    }
}

fn gates() -> End {
    if !has("valgrind") {
        return End::Skipped("valgrind is not installed".into());
    }
    crate::bench::counts()
}
