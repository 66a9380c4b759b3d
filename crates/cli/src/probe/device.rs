//! The reads on a real file or device.

use super::{ByDepth, DEPTHS, Figures, LEAST, READS, SIZES, by_size, drawn_offsets, offset_of, profile};
use crate::console::Console;
use crate::failure::Failure;
use nandu_base::ByteLen;
use nandu_live::probe::{Buffer, Target};
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

/// Longest time spent on all sizes, and on each depth.
const PATIENCE: Duration = Duration::from_secs(5);

/// Measures `path`.
pub fn probe(path: &Path, seed: u64, console: Console) -> Result<Figures, Failure> {
    let target = Target::open(path, LEAST)
        .map_err(|error| Failure::input(error.to_string()).with_help(error.remedy))?;
    if target.has_holes() {
        console.warning("parts of the file have no place on the device: reading them measures nothing");
    }
    if target.len().0 < (SIZES.len() as u64 * READS) << 20 {
        console.note(
            "the file is short: reads come back to where others were, and the device may remember them",
        );
    }
    let failed = |error: io::Error| Failure::failed(format!("{}: {error}", path.display()));
    let bar = console.bar(READS + DEPTHS.len() as u64, "measurements");
    let mut by_number = read_sizes(&target, || {
        bar.add(1);
    })
    .map_err(failed)?;
    let sizes: Vec<_> = SIZES.iter().zip(&mut by_number).map(|(&bytes, ns)| by_size(bytes, ns)).collect();
    let mut depths = Vec::new();
    for outstanding in DEPTHS {
        depths.push(one_depth(&target, outstanding, seed).map_err(failed)?);
        bar.add(1);
    }
    bar.clear();
    let profile = profile(&sizes);
    Ok(Figures {
        schema: nandu_sim::result::SCHEMA,
        target: path.display().to_string(),
        kind: "device",
        sizes,
        depths,
        profile,
    })
}

/// Nanoseconds of the reads of each size.
fn read_sizes(target: &Target, progress: impl Fn()) -> io::Result<Vec<Vec<u64>>> {
    let mut buffer = Buffer::new(ByteLen(SIZES[SIZES.len() - 1]));
    let begun = Instant::now();
    let mut ns = vec![Vec::new(); SIZES.len()];
    for n in 0..READS {
        for (number, &bytes) in SIZES.iter().enumerate() {
            let took = target.read(&mut buffer, offset_of(number, n, target.len()), ByteLen(bytes))?;
            ns[number].push(took.as_nanos() as u64);
        }
        progress();
        if begun.elapsed() > PATIENCE {
            break;
        }
    }
    Ok(ns)
}

/// So many threads, each with one read outstanding.
fn one_depth(target: &Target, outstanding: u32, seed: u64) -> io::Result<ByDepth> {
    let offsets = drawn_offsets(outstanding, target.len(), seed);
    let begun = Instant::now();
    let reader = |first: usize| -> io::Result<Vec<u64>> {
        let mut buffer = Buffer::new(ByteLen(SIZES[0]));
        let mut ns = Vec::new();
        for &offset in offsets.iter().skip(first).step_by(outstanding as usize) {
            ns.push(target.read(&mut buffer, offset, ByteLen(SIZES[0]))?.as_nanos() as u64);
            if begun.elapsed() > PATIENCE {
                break;
            }
        }
        Ok(ns)
    };
    let parts: Vec<io::Result<Vec<u64>>> = std::thread::scope(|scope| {
        let readers: Vec<_> =
            (0..outstanding as usize).map(|first| scope.spawn(move || reader(first))).collect();
        readers.into_iter().map(|r| r.join().expect("a reader does not panic")).collect()
    });
    let took = begun.elapsed();
    let mut ns = parts.into_iter().collect::<io::Result<Vec<_>>>()?.concat();
    ns.sort_unstable();
    let iops = (ns.len() as u128 * 1_000_000_000 / took.as_nanos().max(1)) as u64;
    Ok(ByDepth { outstanding, iops, p50_ns: ns[ns.len() / 2] })
}
