//! `cargo xtask interop`: the tests of libnbd, and tools of others, against our server.
//!
//! The tests come as Debian's source package of libnbd, below `target/interop`. They start nbdkit, qemu-nbd or nbd-server
//! themselves; a script named nbdkit stands in for these, and starts ours with a file of what was asked for ([`stand_in`]). A test that asks for what
//! ours cannot be, such as a plugin that is a script, is skipped with what it asked for. So is one that asks for no server at all, and one of [`rows::SKIPPED`].

mod rows;
mod stand_in;

use crate::debian::{BOOKWORM, Debian};
use crate::files;
use crate::steps::{End, Steps, build_and_only, command, has, root, run, target_dir};
use rows::{COMMANDS, PROGRAMS, Program, SCRIPTS, SKIPPED};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

/// What must be installed, and the package that brings it.
const NEEDED: [(&str, &str); 6] = [
    ("cc", "gcc"),
    ("dpkg-source", "dpkg-dev"),
    ("nbdinfo", "libnbd-bin"),
    ("nbdkit", "nbdkit"),
    ("qemu-io", "qemu-utils"),
    ("jq", "jq"),
];
/// How long a test may take, in seconds.
const PATIENCE: &str = "120";
/// What a test ends with that skips itself.
const SKIPS: i32 = 77;
/// What the tests look at of what configuring libnbd would find.
const CONFIG: &str = "#define HAVE_GNUTLS_NO_SIGNAL 1\n";

/// Does what the command line asks.
pub fn check(words: &[&str]) -> Result<ExitCode, String> {
    // What stands in for nbdkit runs these.
    match words {
        ["as-nbdkit", words @ ..] => return Ok(stand_in::serve(words)),
        ["relay"] => return Ok(stand_in::relay()),
        _ => {}
    }
    let (builds, only) = build_and_only(words)?;
    let tests = match Tests::fetch(builds) {
        Ok(tests) => tests,
        Err(why) => {
            eprintln!("cargo xtask interop: {why}");
            return Ok(ExitCode::FAILURE);
        }
    };
    let mut steps = Steps::new(false, only.map(String::from));
    tests.all(&mut steps);
    Ok(steps.close())
}

/// The tests, and what they run with.
struct Tests {
    /// The unpacked sources of libnbd.
    sources: PathBuf,
    /// Headers that are not the system's.
    headers: PathBuf,
    /// Where what stands in for nbdkit lies, and nothing else.
    programs: PathBuf,
    /// Where a test leaves what it asked for; emptied before each.
    folder: PathBuf,
}

impl Tests {
    fn fetch(builds: bool) -> Result<Tests, String> {
        if let Some((program, package)) = NEEDED.into_iter().find(|(program, _)| !has(program)) {
            return Err(format!("{program} is not installed (Debian's package {package})"));
        }
        let home = target_dir().join("interop");
        let debian = Debian::with_sources(&home.join("debian"))?;
        debian.unpack(BOOKWORM, &["libnbd-dev"])?;
        let sources = debian.source("libnbd", &home.join("src"))?;
        if builds {
            run(command("cargo build --quiet --package nandu-cli --features tls")).ok()?;
        }
        let tests = Tests {
            sources,
            headers: debian.root().join("usr/include"),
            programs: home.join("bin"),
            folder: home.join("run"),
        };
        tests.prepare()?;
        Ok(tests)
    }

    /// What configuring libnbd would make, as far as its tests use it.
    fn prepare(&self) -> Result<(), String> {
        files::write(&self.sources.join("config.h"), CONFIG)?;
        let functions = self.sources.join("tests/functions.sh");
        let template = files::read(&functions.with_extension("sh.in"))?;
        files::write(&functions, &template.replace("@abs_top_srcdir@", &self.sources.display().to_string()))?;
        let certificates = root().join("crates/live/tests/certificates");
        for certificate in files::list(&certificates) {
            let name = certificate.file_name().unwrap_or_default();
            files::copy(&certificate, &self.sources.join("tests/pki").join(name))?;
        }
        files::write(&self.sources.join("tests/pki/stamp-pki"), "")?;
        let xtask = std::env::current_exe().map_err(|error| error.to_string())?;
        let stand_in = self.programs.join("nbdkit");
        let script = format!(
            "#!/bin/sh\nexec {}>&1\nexec '{}' interop as-nbdkit \"$@\"\n",
            stand_in::OUTPUT,
            xtask.display()
        );
        files::write(&stand_in, &script)?;
        fs::set_permissions(&stand_in, fs::Permissions::from_mode(0o755))
            .map_err(|error| format!("{}: {error}", stand_in.display()))
    }

    fn all(&self, steps: &mut Steps) {
        for program in PROGRAMS {
            steps.step(&program.step(), || self.program(program));
        }
        for (folder, head) in SCRIPTS {
            for script in files::list(&self.sources.join(folder)) {
                let name = script.file_name().unwrap_or_default().to_string_lossy().into_owned();
                if name.starts_with(head) && name.ends_with(".sh") {
                    let mut bash = Command::new("bash");
                    bash.arg("-c").arg(format!("./{name}"));
                    steps.step(&format!("{folder}/{name}"), || self.test(&name, bash, folder));
                }
            }
        }
        for (name, text) in COMMANDS {
            let mut shell = Command::new("sh");
            shell.args(["-ec", text]);
            steps.step(name, || self.test(name, shell, "tests"));
        }
    }

    /// Compiles a test and runs it.
    fn program(&self, program: &Program) -> End {
        if let Some(end) = skipped(program.name) {
            return end;
        }
        let built = self.sources.join(program.folder).join(program.name);
        let mut cc = Command::new("cc");
        cc.current_dir(self.sources.join(program.folder)).args(["-w", "-I.."]).arg("-I").arg(&self.headers);
        cc.args(["-I../tests", "-I../common/include"]);
        let server = self.programs.join("nbdkit");
        cc.arg(format!("-DSERVER=\"{}\"", server.display())).args(program.defines);
        cc.arg("-o").arg(&built).args(program.sources).args(["-l:libnbd.so.0", "-lpthread"]);
        run(cc).and(|| match program.is_run {
            true => self.test(program.name, Command::new(&built), program.folder),
            false => End::Passed,
        })
    }

    /// Runs a test with what stands in for nbdkit.
    fn test(&self, name: &str, test: Command, folder: &str) -> End {
        if let Some(end) = skipped(name) {
            return end;
        }
        let _ = fs::remove_dir_all(&self.folder); // it may not be there
        if let Err(error) = fs::create_dir_all(&self.folder) {
            return End::Failed(format!("{}: {error}", self.folder.display()));
        }
        let mut patient = Command::new("timeout");
        patient.args(["--kill-after=5", PATIENCE]).arg(test.get_program()).args(test.get_args());
        let path = std::env::var("PATH").unwrap_or_default();
        patient.env("PATH", format!("{}:{path}", self.programs.display()));
        patient.env(stand_in::PATH, &path).env(stand_in::FOLDER, &self.folder);
        patient.env("srcdir", ".").env("VG", "").env("LIBNBD_DEBUG", "1");
        patient.current_dir(self.sources.join(folder)).stdin(Stdio::null());
        let output = match patient.output() {
            Ok(output) => output,
            Err(error) => return End::Failed(format!("timeout: {error}")),
        };
        let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        if let Ok(asked) = fs::read_to_string(self.folder.join(stand_in::REFUSED)) {
            return End::Skipped(format!("asks for {}", asked.trim()));
        }
        match output.status.code() {
            Some(0) if self.folder.join(stand_in::SERVED).exists() => End::Passed,
            Some(0) => End::Skipped("asks for no server that ours could be in the place of".into()),
            Some(SKIPS) => End::Skipped(format!("skips itself: {}", reason(&said))),
            _ => {
                let lines: Vec<&str> = said.lines().collect();
                println!("{}", lines[lines.len().saturating_sub(30)..].join("\n"));
                End::Failed(format!("it ended with {}", output.status))
            }
        }
    }
}

/// How a test ends that ours is not held to.
fn skipped(name: &str) -> Option<End> {
    SKIPPED.iter().find(|(skipped, _)| *skipped == name).map(|(_, why)| End::Skipped((*why).into()))
}

/// Why a test skips itself, as it says.
fn reason(said: &str) -> String {
    let requirement = said.lines().find(|line| line.contains("failed with error code"));
    let other = || said.lines().rev().find(|line| line.starts_with("requires") || line.contains("skip"));
    requirement.or_else(other).unwrap_or("it does not say why").trim().to_string()
}
