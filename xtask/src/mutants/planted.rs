//! The bugs of the folder `mutants`: each must be found by the verified simulation within a number of seeds.

use super::tree::{self, Edit, Ended};
use super::{Options, folder, lines_of};
use crate::steps::root;
use std::fs;
use std::process::Command;
use std::time::Instant;

/// Seeds that are run at once: the first failing one ends the search.
const STEP: u64 = 250;
/// Seconds for so many seeds; what takes longer hangs.
const PATIENCE: u64 = 600;
const JOURNAL: &str = "planted.tsv";

/// A bug with a story.
struct Mutant {
    number: u32,
    name: String,
    bug: String,
    family: String,
    half: String,
    edit: Edit,
}

fn read(path: &std::path::Path) -> Result<Mutant, String> {
    let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let bad = |what: &str| format!("{}: {what}", path.display());
    let text = fs::read_to_string(path).map_err(|error| bad(&error.to_string()))?;
    let (head, rest) = text.split_once("--- this\n").ok_or_else(|| bad("no line `--- this`"))?;
    let (this, becomes) = rest.split_once("\n--- becomes\n").ok_or_else(|| bad("no line `--- becomes`"))?;
    let field = |key: &str| {
        let line = head.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(": "));
        line.map(str::to_string).ok_or_else(|| bad(&format!("no `{key}`")))
    };
    let number = name
        .split('-')
        .next()
        .and_then(|n| n.parse().ok())
        .ok_or_else(|| bad("the name begins with no number"))?;
    let file = field("file")?;
    let source = fs::read_to_string(root().join(&file)).map_err(|error| bad(&format!("{file}: {error}")))?;
    if source.matches(this).count() != 1 {
        return Err(bad(&format!("its text stands {} times in {file}", source.matches(this).count())));
    }
    let start = source.find(this).unwrap_or(0);
    let text = becomes.trim_end_matches('\n').to_string();
    let edit = Edit { number, file, start, end: start + this.len(), text };
    Ok(Mutant { number, name, bug: field("bug")?, family: field("family")?, half: field("half")?, edit })
}

/// All of them, in order.
fn all() -> Result<Vec<Mutant>, String> {
    let folder = root().join("mutants");
    let files = fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut paths: Vec<_> =
        files.flatten().map(|f| f.path()).filter(|p| p.extension().is_some_and(|e| e == "mutant")).collect();
    paths.sort();
    paths.iter().map(|path| read(path)).collect()
}

/// Runs those that are wanted and have no result yet; fails when one is not found.
pub fn run(options: &Options) -> Result<(), String> {
    let begun = Instant::now();
    let mutants = all()?;
    let edits: Vec<Edit> = mutants.iter().map(|m| m.edit.clone()).collect();
    println!("building {} mutants into one program", mutants.len());
    tree::write(&edits)?;
    let program = tree::build()?;
    let known = lines_of(&folder().join(JOURNAL));
    for m in mutants.iter().filter(|m| options.wants(m.number)) {
        let is_known =
            known.get(&m.number).is_some_and(|line| line.starts_with("found")) && options.only.is_empty();
        if is_known || begun.elapsed().as_secs() / 60 >= options.minutes {
            continue;
        }
        let found = search(&program, m, options.seeds)?;
        println!("{:>3}  {:<44} {:<34} {found}", m.number, m.name, m.family);
        note(m.number, &found)?;
    }
    report(&mutants)
}

/// Runs seeds until one fails.
fn search(program: &std::path::Path, m: &Mutant, seeds: u64) -> Result<String, String> {
    let mut first = 1;
    while first <= seeds {
        let mut verify = Command::new(program);
        let (from, count) = (first.to_string(), STEP.min(seeds - first + 1).to_string());
        verify.args(["--quiet", "verify", &m.family, "--crash", "--first-seed", &from, "--seeds", &count]);
        match tree::watch(verify, m.number, PATIENCE)? {
            Ended::Well(_) => first += STEP,
            Ended::Never => return Ok(format!("found\tbefore seed {}\tno end", first + STEP)),
            Ended::Badly(said) => {
                // `seed 17: I-1: what happened, at event 4711`
                let line = said.lines().find(|line| line.starts_with("seed "));
                let line = line.ok_or_else(|| format!("{}: {said}", m.name))?;
                let mut parts = line.splitn(3, ": ");
                let seed = parts.next().unwrap_or_default().trim_start_matches("seed ").to_string();
                return Ok(format!("found\tseed {seed}\t{}", parts.next().unwrap_or_default()));
            }
        }
    }
    Ok(format!("not found\twithin {seeds} seeds"))
}

fn report(mutants: &[Mutant]) -> Result<(), String> {
    let known = lines_of(&folder().join(JOURNAL));
    let mut missed = Vec::new();
    for half in ["first", "held back"] {
        let mine = mutants.iter().filter(|m| m.half == half);
        let (mut found, mut ran, mut all) = (0, 0, 0);
        for m in mine {
            let line = known.get(&m.number);
            let is_found = line.is_some_and(|line| line.starts_with("found"));
            (found, ran, all) = (found + u32::from(is_found), ran + u32::from(line.is_some()), all + 1);
            if line.is_some() && !is_found {
                missed.push(format!("{} ({})", m.name, m.bug));
            }
        }
        println!("{half}: {found} of {ran} that ran were found, {all} are listed");
    }
    match missed.is_empty() {
        true => Ok(()),
        false => Err(format!("not found:\n  {}", missed.join("\n  "))),
    }
}

/// Adds a line to the journal.
fn note(number: u32, text: &str) -> Result<(), String> {
    use std::io::Write;
    let path = folder().join(JOURNAL);
    let file = fs::File::options().create(true).append(true).open(&path);
    let written = file.and_then(|mut file| writeln!(file, "{number}\t{text}"));
    written.map_err(|error| format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_bug_still_has_its_place_in_the_sources() {
        let mutants = all().expect("the text of each stands once in its file");
        assert!(mutants.len() >= 45, "{}", mutants.len());
        for (before, m) in mutants.iter().zip(&mutants[1..]) {
            assert!(before.number < m.number, "{} has the number of another one", m.name);
        }
        assert!(mutants.iter().all(|m| m.edit.text.contains("BUG")), "each has a switch");
    }
}
