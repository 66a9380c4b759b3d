//! Names of points: a hash of everything that their figures depend on.

use nandu_sim::run::precondition_name;
use nandu_sim::{Extension, RunOptions, RunWorkload};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fmt;
use std::io::Read;

/// Raised when the figures of a run, or what is recorded of it, mean something else than before.
pub const RESULT_VERSION: u32 = 4;

/// The name of a point: SHA-256.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id([u8; 32]);

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Id {
    /// Reads what [`fmt::Display`] writes.
    pub fn parse(text: &str) -> Option<Id> {
        let mut bytes = [0; 32];
        if text.len() != 64 || !text.is_ascii() {
            return None;
        }
        for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks(2)) {
            *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
        }
        Some(Id(bytes))
    }

    /// The first digits: enough to tell points apart in a table.
    pub fn short(&self) -> String {
        self.to_string()[..12].into()
    }

    /// In which of `of` shards the point is.
    fn shard(&self, of: u32) -> u32 {
        let head = self.0[..8].iter().fold(0u64, |n, &byte| n << 8 | u64::from(byte));
        (head % u64::from(of)) as u32
    }
}

impl Serialize for Id {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Id {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Id, D::Error> {
        let text = String::deserialize(deserializer)?;
        Id::parse(&text).ok_or_else(|| serde::de::Error::custom("a point's name has 64 hexadecimal digits"))
    }
}

/// The name of this build of the program: its version, and a hash of the `executable`. Two builds of one version may not
/// measure the same.
pub fn program(executable: &std::path::Path) -> std::io::Result<String> {
    let mut hash = Sha256::new();
    let mut file = std::fs::File::open(executable)?;
    let mut part = vec![0; 1 << 16];
    loop {
        match file.read(&mut part)? {
            0 => break,
            n => hash.update(&part[..n]),
        }
    }
    let digits: String = hash.finalize().iter().take(6).map(|byte| format!("{byte:02x}")).collect();
    Ok(format!("{} {digits}", env!("CARGO_PKG_VERSION")))
}

/// What all points of a sweep share: requests, pace, state of the drives, seed.
pub struct Shared(Sha256);

impl Shared {
    /// What `options` say, apart from the stack.
    pub fn of(options: &RunOptions) -> Shared {
        let mut hash = Sha256::new();
        let mut put = |text: String| {
            hash.update((text.len() as u64).to_le_bytes());
            hash.update(text);
        };
        put(format!("nandu point {RESULT_VERSION} {}", env!("CARGO_PKG_VERSION")));
        put(format!("{} {} {}", options.seed, options.warm_up, precondition_name(options.precondition)));
        let Extension { least, most, renew } = &options.extension;
        put(format!("{least} {most} {}", renew.iter().filter(|r| r.is_some()).count()));
        options.workloads.iter().for_each(|w| put(workload(w)));
        if options.workloads.len() > 1 {
            put(format!("exports {:?}", options.workloads.iter().map(|w| w.export).collect::<Vec<_>>()));
        }
        Shared(hash)
    }

    /// The name of the point whose stack has this hash. `export` takes the requests of a single workload; several say theirs themselves.
    pub fn id(&self, stack_hash: &str, export: usize) -> Id {
        let mut hash = self.0.clone();
        hash.update(format!("{export} {stack_hash}"));
        Id(hash.finalize().into())
    }
}

/// The requests as they are laid onto the export, and their pace.
fn workload(w: &RunWorkload) -> String {
    format!("{} {:?} {}", w.trace.content_hash(), w.pace(), w.passes)
}

/// A part of a sweep: shard `index` of `of`, from 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shard {
    index: u32,
    of: u32,
}

impl Shard {
    /// The whole.
    pub const WHOLE: Shard = Shard { index: 0, of: 1 };

    /// Reads `0/4` to `3/4`.
    pub fn parse(text: &str) -> Result<Shard, String> {
        let wrong = || "write I/N with I from 0 to N-1, for example 0/4".to_string();
        let (index, of) = text.split_once('/').ok_or_else(wrong)?;
        match (index.trim().parse(), of.trim().parse()) {
            (Ok(index), Ok(of)) if index < of => Ok(Shard { index, of }),
            _ => Err(wrong()),
        }
    }

    /// Whether the point belongs to it.
    pub fn has(self, id: &Id) -> bool {
        id.shard(self.of) == self.index
    }

    /// Whether it is all there is.
    pub fn is_whole(self) -> bool {
        self.of == 1
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_comes_back_from_its_text() {
        let id = Id(Sha256::digest("x").into());
        assert_eq!(Id::parse(&id.to_string()), Some(id));
        for wrong in ["", "12", &"g".repeat(64), &"ä".repeat(32)] {
            assert_eq!(Id::parse(wrong), None);
        }
    }

    #[test]
    fn every_point_is_in_one_shard() {
        let ids: Vec<Id> = (0..500u32).map(|n| Id(Sha256::digest(n.to_le_bytes()).into())).collect();
        for of in [1, 2, 3, 7] {
            let shards: Vec<Shard> = (0..of).map(|i| Shard::parse(&format!("{i}/{of}")).unwrap()).collect();
            for id in &ids {
                assert_eq!(shards.iter().filter(|s| s.has(id)).count(), 1);
            }
            let mean = ids.len() as u32 / of;
            assert!(shards.iter().all(|s| ids.iter().filter(|id| s.has(id)).count() as u32 > mean / 2));
        }
        for wrong in ["", "1", "4/4", "-1/2", "1/0", "a/b"] {
            assert!(Shard::parse(wrong).is_err(), "{wrong}");
        }
    }
}
