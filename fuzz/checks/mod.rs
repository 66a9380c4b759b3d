//! What fuzz targets and ordinary tests share: the seeds of a target, and bytes near them.

use std::fs;
use std::path::Path;

/// The committed inputs of a target, in the order of their names.
pub fn seeds(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds").join(target);
    let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    paths.iter().map(|path| fs::read(path).expect("a seed")).collect()
}

/// Runs `check` on every seed, and on `rounds` inputs near each: bytes changed, cut out, doubled or cut off, from seed 1 on. A
/// panic says which.
pub fn replay(target: &str, rounds: u64, check: fn(&[u8])) {
    let seeds = seeds(target);
    assert!(seeds.len() >= 4, "{} seeds of {target}", seeds.len());
    for (number, seed) in seeds.iter().enumerate() {
        check(seed);
        for round in 0..rounds {
            let near = mutated(seed, &seeds, round + number as u64 * rounds);
            let result = std::panic::catch_unwind(|| check(&near));
            assert!(
                result.is_ok(),
                "{target}: seed {number}, round {round}: {:?}",
                String::from_utf8_lossy(&near)
            );
        }
    }
}

fn mutated(seed: &[u8], seeds: &[Vec<u8>], round: u64) -> Vec<u8> {
    let mut state = round.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut below = |n: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % n.max(1) as u64) as usize
    };
    let mut bytes = seed.to_vec();
    for _ in 0..=below(4) {
        let (at, len) = (below(bytes.len()), 1 + below(16));
        let end = (at + len).min(bytes.len());
        match below(7) {
            0 if at < bytes.len() => bytes[at] ^= 1 << below(8),
            1 if at < bytes.len() => bytes[at] = [0, 1, 0x7F, 0x80, 0xFF, b'-', b'9', b'\n'][below(8)],
            2 => drop(bytes.drain(at..end)),
            3 => bytes.splice(at..at, bytes[at..end].to_vec()).for_each(drop),
            4 => bytes.truncate(at),
            5 => {
                let other = &seeds[below(seeds.len())];
                let from = below(other.len());
                let to = (from + len).min(other.len());
                bytes.splice(at..end, other[from..to].iter().copied()).for_each(drop);
            }
            _ => bytes.splice(at..at, *b"99999999999999999999").for_each(drop),
        }
    }
    bytes
}
