//! The package for Python: its wheel is built in the profile of the tests, installed where nothing else is, and tested there.
//!
//! Beside its own tests: the stubs say what the module has (stubtest), the types fit (mypy), and the form is that of ruff. The command that comes
//! with the wheel prints the bytes that the program prints as it is released, where that was built.
//!
//! It builds all crates again, so it is taken only where it is asked for: `cargo xtask test --only python`.

use crate::steps::{End, released, root, run, target_dir};
use crate::tools::{MATURIN, environment};
use std::process::Command;

/// What tests it.
const TESTERS: [&str; 5] =
    ["hypothesis==6.170.15", "mypy==2.4.1", "numpy==2.4.6", "pytest==9.2.0", "ruff==0.17.6"];

/// Builds, installs and tests the wheel.
pub fn check() -> End {
    let home = target_dir().join("wheel");
    let (builder, empty) = (home.join("tools"), home.join("empty"));
    if let Err(why) = environment(&builder, [MATURIN]) {
        return End::Skipped(why);
    }
    // Nothing of an earlier wheel may be left.
    let _ = std::fs::remove_dir_all(&empty);
    let wheels = home.join("wheels");
    let _ = std::fs::remove_dir_all(&wheels);
    let mut build = Command::new(builder.join("bin/maturin"));
    build.args(["build", "--quiet", "--locked", "--profile", "dev", "--out"]).arg(&wheels);
    build.current_dir(root()).env("CARGO_TARGET_DIR", target_dir());
    if let End::Failed(why) = run(build) {
        return End::Failed(why);
    }
    let Some(Ok(wheel)) = std::fs::read_dir(&wheels).ok().and_then(|mut files| files.next()) else {
        return End::Failed("no wheel was built".into());
    };
    if let Err(why) = environment(&empty, [&*wheel.path().to_string_lossy()]) {
        return End::Failed(why);
    }
    if let Err(why) = environment(&empty, TESTERS) {
        return End::Skipped(format!("what tests it cannot be installed: {why}"));
    }
    let inside = |line: &str| {
        let mut python = Command::new(empty.join("bin/python"));
        python.args(["-m"]).args(line.split_whitespace()).current_dir(root());
        // The package in the environment is tested, not its sources.
        python.env_remove("PYTHONPATH");
        let program = released().join("nandu");
        if program.is_file() {
            python.env("NANDU_PROGRAM", program);
        }
        run(python)
    };
    let lines = [
        "pytest --quiet -p no:cacheprovider crates/python/tests",
        "mypy.stubtest --concise nandu",
        "mypy --no-incremental crates/python/nandu crates/python/tests examples/python",
        "ruff check --no-cache crates/python examples/python",
        "ruff format --no-cache --check --quiet crates/python examples/python",
    ];
    let ends = lines.into_iter().map(inside);
    let faults: Vec<String> = ends.filter_map(|end| end.ok().err()).collect();
    if faults.is_empty() { End::Passed } else { End::Failed(faults.join("; ")) }
}
