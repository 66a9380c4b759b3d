//! `examples/own-policies`: a package outside the workspace, with policies of its own, has the whole program.
//!
//! Its tests run, and the program that it builds lists, runs, compares, sweeps, verifies and refuses. It shares the folder of built files,
//! so that crates from the registry are built once.
//!
//! A policy from outside costs what it costs inside: `examples/own-policies/cost` compiles files of `nandu-cache` a second time and registers what is in them. Instructions of
//! both are counted over the same accesses, and those of the same policy behind a pointer, so that the count is known to tell the difference.

use crate::bench::count_of;
use crate::steps::{End, command, has, root, run, target_dir};
use std::process::Command;

const MANIFEST: &str = "examples/own-policies/Cargo.toml";

/// What is typed, and a word of what is printed.
const COMMANDS: [(&str, &str); 17] = [
    ("list 2q", "Johnson and Shasha"),
    ("list newest-first", "(default 1; 1 to 1000)"),
    ("list policies", "lottery"),
    ("list clock", "gc_batch"),
    ("list even", "isolation"),
    ("list rotate", "levelling"),
    ("run STACK --json", "\"queue\""),
    ("compare a=STACK b=STACK", "read p99"),
    (
        "sweep cache --trace mixed-zipf --limit 2000 --set device.cache.replacement={kind=\"2q\"} --axis device.cache.replacement.new=1/4,1/2 \
         --minimise mean",
        "new 1/4",
    ),
    ("serve STACK --run true", ""),
    ("trace mrc mixed-zipf --gen requests=20000 --policy lru,2q --sizes 1000", "2q"),
    ("trace info examples/own-policies/sample.lab", "lab-log"),
    ("list generators", "bursts"),
    ("run STACK --export one --trace bursts --gen requests=2000 --json", "bursts"),
    ("--quiet verify cache --crash --seeds 40", "nothing wrong was found"),
    ("--quiet verify ssd-paged --crash --seeds 40", "nothing wrong was found"),
    ("--quiet verify ssd-tenants --crash --seeds 40", "nothing wrong was found"),
];
/// The crate whose policies are counted, and which of them.
const COUNTED: &str = "nandu-cache";
const COSTED: [&str; 2] = ["arc", "sieve"];
/// The most instructions that a policy may take outside, in per cent of those that it takes inside.
const MOST: u64 = 105;

const STACK: &str = "examples/own-policies/stacks/own.toml";

/// Tests and runs the package.
pub fn check() -> End {
    let ours = match ours() {
        Ok(names) => names,
        Err(error) => return End::Failed(format!("crates: {error}")),
    };
    // With the package that is counted: so crates from the registry have the features that they have here.
    let cargo = |words: &str| {
        let mut cargo = command("cargo");
        cargo.args(words.split_whitespace()).args(["--workspace", "--quiet", "--locked"]);
        cargo.args(["--manifest-path", MANIFEST, "--target-dir"]).arg(target_dir());
        // Outside their workspace our crates are built like any other, which takes twice as long as this.
        let unoptimised = ours.iter().filter(|name| *name != COUNTED);
        cargo.args(
            unoptimised
                .flat_map(|name| ["--config".into(), format!("profile.dev.package.{name}.opt-level=0")]),
        );
        cargo
    };
    for words in ["test", "build"] {
        if let End::Failed(why) = run(cargo(words)) {
            return End::Failed(why);
        }
    }
    let program = target_dir().join("debug/own-policies");
    for (line, want) in COMMANDS {
        let line = line.replace("STACK", STACK);
        let words = line.split_whitespace();
        let output = match Command::new(&program).args(words).current_dir(root()).output() {
            Ok(output) => output,
            Err(error) => return End::Failed(format!("{}: {error}", program.display())),
        };
        let text = String::from_utf8_lossy(&output.stdout);
        if !output.status.success() || !text.contains(want) {
            let said = String::from_utf8_lossy(&output.stderr);
            return End::Failed(format!("own-policies {line}: `{want}` is not in its answer\n{text}{said}"));
        }
    }
    if !has("valgrind") {
        return End::Skipped(
            "valgrind is not installed, so what a policy from outside costs was not counted".into(),
        );
    }
    cost().into()
}

/// Counts the instructions of each policy inside, outside, and outside behind a pointer.
fn cost() -> Result<(), String> {
    let program = target_dir().join("debug/own-policies-cost");
    let count = |words: &[&str]| count_of(&program, words);
    let (made, _) = count(&["none"])?;
    for policy in COSTED {
        let (inside, misses) = count(&["inside", policy])?;
        let share = |who| {
            let (instructions, same) = count(&[who, policy])?;
            if same != misses {
                return Err(format!("{policy} misses {} {who} and {} inside", same.trim(), misses.trim()));
            }
            Ok(instructions.saturating_sub(made) * 1000 / (inside.saturating_sub(made)).max(1))
        };
        let (outside, boxed) = (share("outside")?, share("boxed")?);
        let told = |share: u64| format!("{}.{} %", share / 10, share % 10);
        println!(
            "{policy} takes outside {} of its instructions inside, behind a pointer {}",
            told(outside),
            told(boxed)
        );
        if outside > MOST * 10 {
            return Err(format!(
                "{policy} takes {} of its instructions where it comes from outside; at most {MOST} %",
                told(outside)
            ));
        }
        if boxed <= MOST * 10 {
            return Err(format!(
                "{policy} takes {} behind a pointer: the count does not tell the difference",
                told(boxed)
            ));
        }
    }
    Ok(())
}

/// The names of our packages: folders of `crates`.
fn ours() -> std::io::Result<Vec<String>> {
    let folders = std::fs::read_dir(root().join("crates"))?;
    let name = |folder: String| if folder == "nandu" { folder } else { format!("nandu-{folder}") };
    folders.map(|folder| Ok(name(folder?.file_name().to_string_lossy().into_owned()))).collect()
}
