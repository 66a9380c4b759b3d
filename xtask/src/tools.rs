//! What the tests need beside cargo: installed on Debian as root, else Python parts only.

use crate::steps::{End, command, has, run, target_dir};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A program that some test uses, and the Debian package that brings it.
const PROGRAMS: &[(&str, &str)] = &[
    ("qemu-io", "qemu-utils"),
    ("nbdcopy", "libnbd-bin"),
    ("nbdinfo", "libnbd-bin"),
    ("nbdfuse", "libnbd-bin"),
    ("nbdkit", "nbdkit"),
    ("fusermount3", "fuse3"),
    ("fio", "fio"),
    ("valgrind", "valgrind"),
];

/// Installs what is missing. Skips when this is not Debian or not root.
pub fn install() -> End {
    let mut packages: Vec<&str> =
        PROGRAMS.iter().filter(|(program, _)| !has(program)).map(|&(_, p)| p).collect();
    packages.sort_unstable();
    packages.dedup();
    if packages.is_empty() {
        return End::Passed;
    }
    let root = Command::new("id").arg("-u").output().is_ok_and(|o| o.stdout.starts_with(b"0\n"));
    if !has("apt-get") || !root {
        return End::Skipped(format!("{} missing, and this is not Debian as root", packages.join(", ")));
    }
    let mut update = command("apt-get update -qq");
    update.env("DEBIAN_FRONTEND", "noninteractive");
    if let End::Failed(why) = run(update) {
        return End::Skipped(format!("apt-get update: {why}"));
    }
    let mut install = command("apt-get install -y -qq --no-install-recommends");
    install.args(packages).env("DEBIAN_FRONTEND", "noninteractive").stdout(std::process::Stdio::null());
    match run(install) {
        End::Failed(why) => End::Skipped(format!("apt-get install: {why}")),
        end => end,
    }
}

/// What builds a wheel.
pub const MATURIN: &str = "maturin==1.16.0";

/// A virtual environment for Python in `folder`, made unless it is there, with these packages.
pub fn environment<'p>(folder: &Path, packages: impl IntoIterator<Item = &'p str>) -> Result<(), String> {
    if !has("python3") {
        return Err("python3 is not installed".into());
    }
    if !folder.join("bin/pip").is_file() {
        let mut make = Command::new("python3");
        make.args(["-m", "venv"]).arg(folder);
        run(make).ok().map_err(|why| format!("a virtual environment cannot be made: {why}"))?;
    }
    let mut pip = Command::new(folder.join("bin/pip"));
    pip.args(["install", "--quiet", "--disable-pip-version-check"]).args(packages);
    run(pip).ok()
}

/// A Python that has `jsonschema`: in a virtual environment under the target folder, or with packages beside it where the
/// system cannot make one.
pub fn python() -> Result<Command, String> {
    if !has("python3") {
        return Err("python3 is not installed".into());
    }
    let home = target_dir().join("python");
    let venv = home.join("venv");
    let inside = venv.join("bin/python");
    let packages = home.join("packages");
    let usable = |python: &PathBuf, path: Option<&PathBuf>| {
        let mut command = Command::new(python);
        path.map(|p| command.env("PYTHONPATH", p));
        command.args(["-c", "import jsonschema"]);
        command.stderr(std::process::Stdio::null());
        command.status().is_ok_and(|s| s.success())
    };
    let system = PathBuf::from("python3");
    if !usable(&inside, None) && !usable(&system, Some(&packages)) {
        let made =
            Command::new("python3").args(["-m", "venv"]).arg(&venv).status().is_ok_and(|s| s.success());
        let quiet = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "jsonschema==4.25.1"];
        if made {
            let _ = Command::new(&inside).args(quiet).status();
        } else {
            let _ = Command::new("python3").args(quiet).arg("--target").arg(&packages).status();
        }
    }
    if usable(&inside, None) {
        return Ok(Command::new(inside));
    }
    if usable(&system, Some(&packages)) {
        let mut command = Command::new(system);
        command.env("PYTHONPATH", packages);
        return Ok(command);
    }
    Err("Python's jsonschema cannot be installed".into())
}
