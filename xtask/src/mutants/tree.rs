//! The sources with bugs in them: a copy of the checkout under `target/mutants/tree`, and the programs that are built from it.
//!
//! A bug is a place in a file and what stands there instead. `BUG` in it becomes a call that is true when this mutant is turned on.
//! Files are written only where they change, so that a second build is quick.

use super::folder;
use crate::steps::root;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// One change of a source file.
#[derive(Clone, Debug)]
pub struct Edit {
    /// Number of its mutant.
    pub number: u32,
    /// The file, from the root of the checkout.
    pub file: String,
    /// The bytes that are replaced.
    pub start: usize,
    /// One past the last of them.
    pub end: usize,
    /// What stands there instead.
    pub text: String,
}

/// The switch, in the crate that all machines use.
const SWITCH: &str = r#"//! Which mutant is on.
#![allow(missing_docs, clippy::all)]

use crate::{Instant, Span};
use std::sync::atomic::{AtomicU32, Ordering};

/// The mutant that is on, or one of these.
static ON: AtomicU32 = AtomicU32::new(NOT_READ);
const NOT_READ: u32 = u32::MAX;
/// None is on, and each that would change something is written down once.
const NOTES: u32 = u32::MAX - 1;
static NOTED: [AtomicU32; 1024] = [const { AtomicU32::new(0) }; 1024];

#[inline]
pub fn on(number: u32) -> bool {
    let now = ON.load(Ordering::Relaxed);
    now == number || now >= NOTES && slow(number, now)
}

#[cold]
fn slow(number: u32, now: u32) -> bool {
    if now == NOT_READ {
        let switch = std::env::var("NANDU_MUTANT").ok().and_then(|text| text.parse().ok()).unwrap_or(0);
        let notes = switch == 0 && std::env::var_os("NANDU_MUTANT_REACHED").is_some();
        ON.store(if notes { NOTES } else { switch }, Ordering::Relaxed);
        return on(number);
    }
    let noted = &NOTED[number as usize % 1024];
    if noted.swap(1, Ordering::Relaxed) == 0 {
        use std::io::Write;
        let path = std::env::var_os("NANDU_MUTANT_REACHED").unwrap();
        let file = std::fs::File::options().create(true).append(true).open(path);
        let _ = file.and_then(|mut file| file.write_all(format!("{number}\n").as_bytes()));
    }
    false
}

/// One, or nothing.
#[inline]
pub fn one<T: From<bool>>(number: u32) -> T {
    T::from(!on(number))
}

// What makes no difference is not asked for.
pub trait Pick: Ord + Sized {
    #[inline]
    fn mutant_min(self, number: u32, other: Self) -> Self {
        if self != other && on(number) { self.max(other) } else { self.min(other) }
    }
    #[inline]
    fn mutant_max(self, number: u32, other: Self) -> Self {
        if self != other && on(number) { self.min(other) } else { self.max(other) }
    }
}
impl<T: Ord> Pick for T {}

pub trait Late: Sized {
    fn mutant_later(self, number: u32, other: Self) -> Self;
}
impl Late for Instant {
    #[inline]
    fn mutant_later(self, number: u32, other: Self) -> Self {
        let later = self.later(other);
        if later != self && on(number) { self } else { later }
    }
}
impl Late for Span {
    #[inline]
    fn mutant_later(self, number: u32, other: Self) -> Self {
        let longer = self.longer(other);
        if longer != self && on(number) { self } else { longer }
    }
}
"#;

/// By file, each mutant with its first and its last line in the copy.
pub type Places = BTreeMap<String, Vec<(u32, usize, usize)>>;

/// Where the copy lies.
pub fn place() -> PathBuf {
    folder().join("tree")
}

/// What the switch of mutant `number` reads like in a file.
fn switch(file: &str, number: u32) -> String {
    let base = if file.starts_with("crates/base/") { "crate" } else { "nandu_base" };
    format!("{base}::mutant::on({number})")
}

/// Makes `at` a link as the checkout has it.
fn link(at: &Path, to: &Path) -> Result<(), String> {
    if fs::read_link(at).is_ok_and(|old| old == to) {
        return Ok(());
    }
    let fail = |error: std::io::Error| format!("{}: {error}", at.display());
    fs::create_dir_all(at.parent().expect("a file has a folder")).map_err(fail)?;
    std::os::unix::fs::symlink(to, at).map_err(fail)
}

/// Copies the checkout with these bugs. Returns by file the lines of each edit, for what the compiler says of it.
pub fn write(edits: &[Edit]) -> Result<Places, String> {
    let list = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output();
    let list = list.map_err(|error| format!("git: {error}"))?;
    let mut lines = BTreeMap::new();
    for file in String::from_utf8_lossy(&list.stdout).split('\0').filter(|f| !f.is_empty()) {
        if let Ok(to) = fs::read_link(root().join(file)) {
            link(&place().join(file), &to)?;
            continue;
        }
        let Ok(bytes) = fs::read(root().join(file)) else { continue };
        let mut mine: Vec<&Edit> = edits.iter().filter(|edit| edit.file == file).collect();
        mine.sort_by_key(|edit| edit.start);
        let bytes = match (file, mine.is_empty()) {
            ("crates/base/src/lib.rs", _) => {
                let text = String::from_utf8_lossy(&bytes);
                format!("{text}\n#[doc(hidden)]\npub mod mutant;\n").into_bytes()
            }
            (_, true) => bytes,
            (_, false) => {
                let text = String::from_utf8(bytes).map_err(|_| format!("{file} is not text"))?;
                let (changed, places) = changed(file, &text, &mine);
                lines.insert(file.to_string(), places);
                changed.into_bytes()
            }
        };
        put(&place().join(file), &bytes)?;
    }
    put(&place().join("crates/base/src/mutant.rs"), SWITCH.as_bytes())?;
    Ok(lines)
}

fn changed(file: &str, text: &str, edits: &[&Edit]) -> (String, Vec<(u32, usize, usize)>) {
    let (mut out, mut at, mut places) = (String::new(), 0, Vec::new());
    for edit in edits {
        out += &text[at..edit.start];
        let first = out.matches('\n').count() + 1;
        out += &edit.text.replace("BUG", &switch(file, edit.number));
        places.push((edit.number, first, out.matches('\n').count() + 1));
        at = edit.end;
    }
    out += &text[at..];
    (out, places)
}

/// Writes a file unless it holds just this.
fn put(path: &Path, bytes: &[u8]) -> Result<(), String> {
    if fs::read(path).is_ok_and(|old| old == bytes) {
        return Ok(());
    }
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(failed)?;
    }
    fs::write(path, bytes).map_err(failed)
}

/// What cargo builds from the copy. In a folder with what is built from the checkout cargo would take the one for the other: it knows a
/// package by its place in its workspace.
fn built() -> PathBuf {
    folder().join("built")
}

/// cargo in the copy, not yet begun.
pub fn cargo_command(words: &[&str]) -> Command {
    let mut cargo = Command::new("cargo");
    cargo.args(words).current_dir(place()).env("CARGO_TARGET_DIR", built());
    cargo.env("CARGO_PROFILE_DEV_DEBUG", "0").env("CARGO_INCREMENTAL", "0");
    cargo
}

/// Runs cargo in the copy. The errors, as the compiler says them in one line each.
pub fn cargo(words: &[&str]) -> Result<String, String> {
    let mut cargo = cargo_command(words);
    let output = cargo.stdout(Stdio::piped()).stderr(Stdio::piped()).output();
    let output = output.map_err(|error| format!("cargo: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(said),
    }
}

/// What the compiler says of the program with these bugs, without building it: a tenth of the time.
pub fn check() -> Result<(), String> {
    let words = ["check", "--keep-going", "--package", "nandu-cli", "--message-format", "short"];
    cargo(&words).map(drop)
}

/// Builds the program with these bugs; where it lies.
pub fn build() -> Result<PathBuf, String> {
    cargo(&["build", "--release", "--package", "nandu-cli", "--message-format", "short"])?;
    let program = folder().join("nandu");
    let built = built().join("release/nandu");
    fs::copy(&built, &program).map_err(|error| format!("{}: {error}", built.display()))?;
    Ok(program)
}

/// How a run ended.
pub enum Ended {
    /// With success, and what it said.
    Well(String),
    /// With a failure, and what it said on both channels.
    Badly(String),
    /// Not within its time.
    Never,
}

/// Runs `command` with mutant `number` on, for at most `seconds`.
pub fn watch(mut command: Command, number: u32, seconds: u64) -> Result<Ended, String> {
    let said = folder().join(format!("said.{}", std::process::id()));
    let failed = |error: std::io::Error| format!("{}: {error}", said.display());
    let out = fs::File::create(&said).map_err(failed)?;
    let err = out.try_clone().map_err(failed)?;
    command.env(super::SWITCH, number.to_string()).stdin(Stdio::null()).stdout(out).stderr(err);
    command.process_group(0);
    let mut child =
        command.spawn().map_err(|error| format!("{}: {error}", command.get_program().to_string_lossy()))?;
    let begun = Instant::now();
    let ended = loop {
        match child.try_wait().map_err(failed)? {
            Some(status) if status.success() => {
                break Ended::Well(fs::read_to_string(&said).unwrap_or_default());
            }
            Some(_) => break Ended::Badly(fs::read_to_string(&said).unwrap_or_default()),
            None if begun.elapsed() > Duration::from_secs(seconds) => {
                // And all that it began.
                let group = format!("-{}", child.id());
                let _ = Command::new("kill").args(["-KILL", "--", &group]).status();
                let _ = child.wait();
                break Ended::Never;
            }
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    let _ = fs::remove_file(&said);
    Ok(ended)
}
