//! What is done to a leg while its stack is served, and to its file while it is not.

use crate::common::versions::BLOCK;
use nandu_base::Rng;
use rustix::fs::{SeekFrom, seek};
use std::fs::File;
use std::hash::{DefaultHasher, Hasher};
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

/// A fault of one leg while the stack is served.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// It stops for a while, again and again.
    Freeze,
    /// Some of its requests fail (EIO).
    Errors,
    /// It is gone for a while, again and again, and its volatile cache with it.
    Loss,
    /// The file system below it is full (ENOSPC).
    Full,
}

impl Fault {
    /// Options of the `fault` above the leg.
    pub fn options(self) -> &'static str {
        match self {
            Fault::Full => "",
            Fault::Freeze => {
                "freeze = { kind = \"random\", mean_interval = \"60 ms\", duration = \"40 ms\" }"
            }
            Fault::Errors => "read_error_rate = 0.002\nwrite_error_rate = 0.002\nflush_error_rate = 0.01",
            Fault::Loss => "loss = { kind = \"random\", mean_interval = \"150 ms\", outage = \"20 ms\" }",
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Fault::Freeze => "freezing leg",
            Fault::Errors => "leg with errors",
            Fault::Loss => "leg that goes",
            Fault::Full => "leg on a full file system",
        }
    }
}

/// Whether a folder is a small file system of its own, by what it says of itself.
pub fn is_small(dir: &Path) -> bool {
    rustix::fs::statvfs(dir).is_ok_and(|fs| fs.f_blocks * fs.f_frsize <= 2 * super::kinds::LEG)
}

/// Flips one bit of a file, from `start` to `end`.
pub fn flip(file: &Path, rng: &mut Rng, (start, end): (u64, u64)) {
    let mut bytes = std::fs::read(file).expect("a leg is a file");
    bytes[(start + rng.below(end - start)) as usize] ^= 1 << rng.below(8);
    std::fs::write(file, bytes).expect("it is ours");
}

/// Flips one bit of every fourth block below `end` that holds something: one that was never written has no checksum.
pub fn flip_data(file: &Path, rng: &mut Rng, end: u64) {
    let mut bytes = std::fs::read(file).expect("a leg is a file");
    let written =
        bytes[..end as usize].chunks_exact_mut(BLOCK as usize).filter(|block| block.iter().any(|&b| b != 0));
    for block in written.skip(rng.below(4) as usize).step_by(4) {
        block[rng.below(BLOCK) as usize] ^= 1 << rng.below(8);
    }
    std::fs::write(file, bytes).expect("it is ours");
}

/// Copies a store, and leaves its holes holes.
pub fn copy_store(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("--sparse=always").args([from, to]).status();
    assert!(copied.is_ok_and(|status| status.success()), "a store is copied");
}

/// Flips one bit of a sector of a store that holds something.
pub fn flip_store(file: &Path, rng: &mut Rng) {
    const SECTOR: usize = 512;
    let store = File::options().read(true).write(true).open(file).expect("a store");
    let (mut sectors, mut at) = (Vec::new(), 0);
    while let Ok(start) = seek(&store, SeekFrom::Data(at)) {
        at = seek(&store, SeekFrom::Hole(start)).expect("every file ends with a hole");
        let mut bytes = vec![0; (at - start) as usize];
        store.read_exact_at(&mut bytes, start).expect("it is readable");
        let holds = |(_, sector): &(usize, &[u8])| sector.iter().any(|&byte| byte != 0);
        let some = bytes.chunks(SECTOR).enumerate().filter(holds);
        sectors.extend(some.map(|(n, _)| start + (n * SECTOR) as u64));
    }
    let place = *rng.pick(&sectors) + rng.below(SECTOR as u64);
    let mut byte = [0];
    store.read_exact_at(&mut byte, place).expect("it is readable");
    store.write_all_at(&[byte[0] ^ 1 << rng.below(8)], place).expect("it is ours");
}

/// A sum of a file that is larger than the memory of a guest.
pub fn sum(file: &Path) -> u64 {
    let mut sum = DefaultHasher::new();
    let mut bytes = vec![0; 1 << 20];
    let mut file = File::open(file).expect("a store");
    while let read @ 1.. = file.read(&mut bytes).expect("it is readable") {
        sum.write(&bytes[..read]);
    }
    sum.finish()
}
