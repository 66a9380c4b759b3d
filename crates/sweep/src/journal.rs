//! A results folder's memory: every measured point, appended as soon as it is known.
//!
//! The file `journal` is text. The first line names the program; each other line is the CRC-32C of its record in hexadecimal, a
//! space, and the record as JSON. A record is appended with one write and is on the disk before the next is taken. A kill or a power
//! cut leaves at most the start of a line at the end: it is cut off. A line that does not match its sum does not count, and its
//! point is measured again.
//!
//! Records are found by the name of the point, which covers stack, requests and seed: the records of another sweep do no harm, and
//! those that both have in common are used. Figures of another *build* of the program are refused, since nothing says
//! that they would be the same.

use crate::error::SweepError;
use crate::id::Id;
use crate::metric::Figures;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// Its name in the folder.
pub const NAME: &str = "journal";
/// The start of its first line.
const HEAD: &str = "nandu sweep journal 2 ";
/// What the first line began with when figures had other names.
const OLD_HEAD: &str = "nandu sweep journal 1 ";
/// Longer lines are damage.
const LINE: u64 = 1 << 20;

/// One measured point.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Record {
    /// Its name.
    pub id: Id,
    /// What was measured.
    pub figures: Figures,
}

/// A journal open for appending, which nobody else appends to.
pub struct Journal {
    path: PathBuf,
    file: File,
}

/// What is wrong with a folder or a file in it.
fn io(path: &Path) -> impl Fn(std::io::Error) -> SweepError + '_ {
    move |error| SweepError::Io { path: path.into(), error }
}

fn refused(folder: &Path, why: impl Into<String>, right: &str) -> SweepError {
    SweepError::Folder { folder: folder.into(), why: why.into(), right: right.into() }
}

impl Journal {
    /// Opens the journal in `folder`, makes both where there are none, and gives `found` each record. `program` names the
    /// build; lines that do not count are in the second result.
    pub fn open(
        folder: &Path,
        program: &str,
        found: impl FnMut(Record),
    ) -> Result<(Journal, u64), SweepError> {
        std::fs::create_dir_all(folder).map_err(io(folder))?;
        let path = folder.join(NAME);
        let mut options = OpenOptions::new();
        let file =
            options.read(true).write(true).create(true).truncate(false).open(&path).map_err(io(&path))?;
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Err(refused(
                folder,
                "another sweep is at work here",
                "wait for it, or give another folder",
            ));
        }
        let (end, damaged) = read(&file, folder, program, Build::Same, found)?;
        let mut journal = Journal { path, file };
        journal
            .file
            .set_len(end)
            .and_then(|()| journal.file.seek(SeekFrom::End(0)).map(drop))
            .map_err(io(&journal.path))?;
        if end == 0 {
            journal.put(&format!("{HEAD}{program}\n"))?;
            let synced = File::open(folder).and_then(|folder| folder.sync_all());
            synced.map_err(io(folder))?;
        }
        Ok((journal, damaged))
    }

    /// Gives `found` each record of the journal in `folder`, which stays as it is. Another build of the same version is
    /// taken: shards may come from other machines.
    pub fn read(folder: &Path, program: &str, found: impl FnMut(Record)) -> Result<u64, SweepError> {
        let path = folder.join(NAME);
        let file = File::open(&path).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory => {
                let why =
                    if folder.is_dir() { "there is no `journal` of a sweep in it" } else { "no such folder" };
                refused(folder, why, "name a folder that a sweep was given with --out")
            }
            _ => io(&path)(error),
        })?;
        read(&file, folder, program, Build::Version, found).map(|(_, damaged)| damaged)
    }

    /// Appends a record. When this returns it is on the disk.
    pub fn append(&mut self, record: &Record) -> Result<(), SweepError> {
        let text = serde_json::to_string(record).map_err(std::io::Error::other).map_err(io(&self.path))?;
        self.put(&format!("{:08x} {text}\n", crc32c::crc32c(text.as_bytes())))
    }

    fn put(&mut self, line: &str) -> Result<(), SweepError> {
        let done = self.file.write_all(line.as_bytes()).and_then(|()| self.file.sync_data());
        done.map_err(io(&self.path))
    }
}

/// Whose records are taken.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Build {
    /// Those of this build.
    Same,
    /// Those of this version.
    Version,
}

/// The version in the name of a program: all up to the last space.
fn version(program: &str) -> &str {
    program.rsplit_once(' ').map_or(program, |(version, _)| version)
}

/// Reads all lines. Returns where the last whole one ends, and how many do not count.
fn read(
    file: &File,
    folder: &Path,
    program: &str,
    build: Build,
    mut found: impl FnMut(Record),
) -> Result<(u64, u64), SweepError> {
    let path = folder.join(NAME);
    let mut lines = BufReader::new(file);
    let (mut end, mut damaged) = (0, 0);
    let mut seen = BTreeSet::new();
    let mut line = Vec::new();
    loop {
        line.clear();
        let bytes = lines.by_ref().take(LINE).read_until(b'\n', &mut line).map_err(io(&path))?;
        let foreign =
            || refused(folder, "its `journal` is not that of a sweep", "give an empty folder or a new one");
        if !line.ends_with(b"\n") && (bytes as u64) < LINE {
            // A sweep that was killed with its first line leaves the beginning of that.
            let is_ours = end > 0 || format!("{HEAD}{program}").as_bytes().starts_with(&line);
            return if is_ours { Ok((end, damaged)) } else { Err(foreign()) };
        }
        if end == 0 {
            let text = String::from_utf8_lossy(&line);
            if text.starts_with(OLD_HEAD) {
                let why = "its `journal` has figures under the names of an older version";
                return Err(refused(
                    folder,
                    why,
                    "give another folder, or remove this one: it is measured again",
                ));
            }
            let Some(other) = text.trim_end().strip_prefix(HEAD) else {
                return Err(foreign());
            };
            if (build == Build::Same && other != program) || version(other) != version(program) {
                let why = format!("it was measured by another program ({other}; this is {program})");
                return Err(refused(folder, why, "give another folder, or remove this one"));
            }
        } else {
            match record(&line) {
                Some(record) if seen.insert(record.id) => found(record),
                Some(_) => {}
                None => damaged += 1,
            }
        }
        end += bytes as u64;
    }
}

fn record(line: &[u8]) -> Option<Record> {
    let (sum, text) = std::str::from_utf8(line).ok()?.trim_end_matches('\n').split_once(' ')?;
    let sum = u32::from_str_radix(sum, 16).ok()?;
    serde_json::from_str(text).ok().filter(|_| crc32c::crc32c(text.as_bytes()) == sum)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric::Figure;
    use sha2::{Digest, Sha256};

    const PROGRAM: &str = "0.1.0 abc";

    fn a_record(n: u64) -> Record {
        let digits: String = Sha256::digest(n.to_le_bytes()).iter().map(|b| format!("{b:02x}")).collect();
        let figures = [("p99".into(), Figure::Value(n)), ("lifetime".into(), Figure::Unworn)];
        Record { id: Id::parse(&digits).unwrap(), figures: figures.into() }
    }

    fn open(folder: &Path) -> Result<(Journal, Vec<Record>, u64), SweepError> {
        let mut all = Vec::new();
        let (journal, damaged) = Journal::open(folder, PROGRAM, |r| all.push(r))?;
        Ok((journal, all, damaged))
    }

    #[test]
    fn a_journal_cut_at_any_byte_keeps_every_whole_record_and_goes_on() {
        let folder = tempfile::tempdir().unwrap();
        let (mut journal, ..) = open(folder.path()).unwrap();
        let records: Vec<Record> = (0..4).map(a_record).collect();
        records.iter().for_each(|r| journal.append(r).unwrap());
        drop(journal);
        let path = folder.path().join(NAME);
        let whole = std::fs::read(&path).unwrap();
        let ends: Vec<usize> =
            whole.iter().enumerate().filter(|(_, b)| **b == b'\n').map(|(i, _)| i + 1).collect();
        for cut in 0..=whole.len() {
            std::fs::write(&path, &whole[..cut]).unwrap();
            let kept = ends.iter().filter(|end| **end <= cut).count().saturating_sub(1);
            let (mut journal, found, damaged) = open(folder.path()).unwrap();
            assert_eq!((found.len(), damaged), (kept, 0), "cut at {cut}");
            assert!(found == records[..kept]);
            // Appending waits for the disk: at some cuts is enough.
            if cut % 41 == 0 || ends.contains(&cut) {
                records[kept..].iter().for_each(|r| journal.append(r).unwrap());
                drop(journal);
                assert!(std::fs::read(&path).unwrap() == whole, "cut at {cut}");
            }
        }
    }

    #[test]
    fn a_damaged_record_does_not_count_and_the_others_do() {
        let folder = tempfile::tempdir().unwrap();
        let (mut journal, ..) = open(folder.path()).unwrap();
        (0..3).for_each(|n| journal.append(&a_record(n)).unwrap());
        drop(journal);
        let path = folder.path().join(NAME);
        let whole = std::fs::read(&path).unwrap();
        let second = whole.iter().position(|b| *b == b'\n').unwrap() + 1;
        for at in (second..whole.len()).filter(|at| whole[*at] != b'\n') {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x15;
            std::fs::write(&path, &bytes).unwrap();
            // The newline itself may be made: then two half lines do not count.
            let (_, found, damaged) = open(folder.path()).unwrap();
            assert!(
                found.len() == 2 && (1..=2).contains(&damaged),
                "byte {at}: {} and {damaged}",
                found.len()
            );
        }
    }

    #[test]
    fn folders_of_others_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let refused = |folder: &Path| open(folder).map(|_| ()).unwrap_err().to_string();
        let first = open(folder.path()).unwrap();
        assert!(refused(folder.path()).contains("another sweep is at work here"));
        drop(first);
        let path = folder.path().join(NAME);
        std::fs::write(&path, "nandu sweep journal 2 0.1.0 def\n").unwrap();
        assert!(refused(folder.path()).contains("another program (0.1.0 def; this is 0.1.0 abc)"));
        assert!(
            Journal::read(folder.path(), PROGRAM, |_| ()).is_ok(),
            "a shard of another build of this version"
        );
        std::fs::write(&path, "nandu sweep journal 2 0.2.0 abc\n").unwrap();
        assert!(Journal::read(folder.path(), PROGRAM, |_| ()).is_err());
        std::fs::write(&path, "my diary\n").unwrap();
        assert!(refused(folder.path()).contains("not that of a sweep"));
        std::fs::write(&path, format!("nandu sweep journal 1 {PROGRAM}\n")).unwrap();
        let old = Journal::read(folder.path(), PROGRAM, |_| ()).unwrap_err().to_string();
        assert!(old.contains("under the names of an older version"), "{old}");
        for foreign in ["my diary without an end of its line", "nandu sweep journal 2 0.1.0 abcd"] {
            std::fs::write(&path, foreign).unwrap();
            assert!(refused(folder.path()).contains("not that of a sweep"));
            assert_eq!(std::fs::read_to_string(&path).unwrap(), foreign, "it stays as it is");
        }
        std::fs::write(&path, "nandu sweep jour").unwrap();
        assert!(open(folder.path()).is_ok(), "the first line of one that was killed");
        assert!(Journal::read(&folder.path().join("nowhere"), PROGRAM, |_| ()).is_err());
    }
}
