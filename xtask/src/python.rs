//! The package for Python: its wheel is installed where nothing else is, and tested there.
//!
//! The module is the one that cargo builds beside the tests of all crates, packed as maturin packs it; `cargo xtask release` has maturin build it. Beside
//! the package's own tests: the stubs say what the module has (stubtest), the types fit (mypy), and the form is that of ruff. The command that
//! comes with the wheel prints the bytes that the program prints as it is released, where that was built.
//!
//! `cargo xtask python` takes in addition what needs the large libraries: tables of other libraries, charts, notebooks, and the gallery.

use crate::programs;
use crate::steps::{End, released, root, run, target_dir};
use crate::tools::{MATURIN, environment};
use std::path::{Path, PathBuf};
use std::process::Command;

/// What packs it.
const PACKERS: [&str; 2] = [MATURIN, "wheel==0.48.0"];

/// What tests it.
const TESTERS: [&str; 7] = [
    "distributed==2026.8.0",
    "hypothesis==6.170.15",
    "matplotlib==3.11.2",
    "mypy==2.4.1",
    "numpy==2.4.6",
    "pytest==9.2.0",
    "ruff==0.17.6",
];

/// The large libraries.
const LARGE: [&str; 7] = [
    "altair==6.3.0",
    "marimo==0.25.2",
    "numba==0.68.1",
    "pandas==3.1.1",
    "polars==2.1.0",
    "pyarrow==26.0.1",
    "vl-convert-python==1.9.0.post1",
];

/// Packs, installs and tests the wheel.
pub fn check() -> End {
    checked(&TESTERS, "not large")
}

/// The same, and what needs the large libraries.
pub fn whole() -> End {
    checked(&[&TESTERS[..], &LARGE[..]].concat(), "")
}

fn checked(libraries: &[&str], marked: &str) -> End {
    let home = target_dir().join("wheel");
    let (packer, empty) = (home.join("tools"), home.join("empty"));
    if let Err(why) = environment(&packer, PACKERS) {
        return End::Skipped(why);
    }
    let wheel = match programs::module().and_then(|module| packed(&packer, &home, &module)) {
        Ok(wheel) => wheel,
        Err(why) => return End::Failed(why),
    };
    // Nothing of an earlier wheel may be left.
    let _ = std::fs::remove_dir_all(&empty);
    if let Err(why) = environment(&empty, [&*wheel.to_string_lossy()]) {
        return End::Failed(why);
    }
    if let Err(why) = environment(&empty, libraries.iter().copied()) {
        return End::Skipped(format!("what tests it cannot be installed: {why}"));
    }
    let inside = |words: &[&str]| {
        let mut python = Command::new(empty.join("bin/python"));
        python.arg("-m").args(words).current_dir(root());
        // The package in the environment is tested, not its sources.
        python.env_remove("PYTHONPATH");
        let program = released().join("nandu");
        if program.is_file() {
            python.env("NANDU_PROGRAM", program);
        }
        run(python)
    };
    let tests = ["pytest", "--quiet", "-p", "no:cacheprovider", "-m", marked, "crates/python/tests"];
    let lines = [
        "mypy.stubtest --concise --mypy-config-file pyproject.toml nandu",
        "mypy --no-incremental crates/python/nandu crates/python/tests examples/python",
        "ruff check --no-cache crates/python examples",
        "ruff format --no-cache --check --quiet crates/python examples",
    ];
    let others = lines.iter().map(|line| inside(&line.split_whitespace().collect::<Vec<_>>()));
    let faults: Vec<String> =
        std::iter::once(inside(&tests)).chain(others).filter_map(|end| end.ok().err()).collect();
    if faults.is_empty() { End::Passed } else { End::Failed(faults.join("; ")) }
}

/// The wheel of `module`: with the sources of the package and what maturin says of it.
fn packed(packer: &Path, home: &Path, module: &Path) -> Result<PathBuf, String> {
    let (inside, wheels) = (home.join("inside"), home.join("wheels"));
    for folder in [&inside, &wheels] {
        let _ = std::fs::remove_dir_all(folder);
    }
    let package = inside.join("nandu");
    let wrong = |error: std::io::Error| error.to_string();
    std::fs::create_dir_all(&package).and_then(|()| std::fs::create_dir_all(&wheels)).map_err(wrong)?;
    for file in std::fs::read_dir(root().join("crates/python/nandu")).map_err(wrong)?.flatten() {
        if file.path().is_file() {
            std::fs::copy(file.path(), package.join(file.file_name())).map_err(wrong)?;
        }
    }
    std::fs::copy(module, package.join("_nandu.abi3.so")).map_err(wrong)?;
    let mut said = Command::new(packer.join("bin/maturin"));
    said.args(["pep517", "write-dist-info", "--quiet", "--metadata-directory"]).arg(&inside);
    quietly(said.current_dir(root()))?;
    let mut pack = Command::new(packer.join("bin/python"));
    pack.args(["-m", "wheel", "pack"]).arg(&inside).arg("--dest-dir").arg(&wheels);
    quietly(&mut pack)?;
    let made = std::fs::read_dir(&wheels).map_err(wrong)?.flatten().next();
    made.map(|wheel| wheel.path()).ok_or_else(|| "no wheel was packed".into())
}

/// Runs a command whose words matter where it fails alone.
fn quietly(command: &mut Command) -> Result<(), String> {
    let done = command.output().map_err(|error| error.to_string())?;
    match done.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&done.stderr).trim().to_string()),
    }
}
