//! What every replacement policy keeps to, for the tests of this crate and of those that bring a policy.

use super::{AnyReplacement, Arrival, Cause, LineOf, Recall, Room};
use crate::directory::Directory;
use crate::map::Hashed;
use nandu_base::{Rng, Violation};

/// Drives a cache of a few lines with requests that `seed` draws: reads, writes, blocks ahead, and losses. After each the
/// policy and the directory must agree, and memory that is full of lines must yield one.
///
/// # Errors
/// The invariant that is broken, and how.
///
/// # Panics
/// The policy cannot be built for a small cache.
pub fn run(options: &dyn AnyReplacement, seed: u64) -> Result<(), Violation> {
    let mut rng = Rng::new(seed);
    let shift = if options.line() == LineOf::Segment { 3 } else { 0 };
    let blocks = rng.between(4, 24) << shift;
    let room = Room { blocks, line: 1 << shift, fault: None };
    let policy = options.boxed(room).unwrap_or_else(|e| panic!("cannot be built for {blocks} blocks: {e}"));
    let mut cache = Directory::new(shift, blocks, policy, Hashed::new(0));
    for step in 0..800 {
        let block = rng.below(3 * blocks).min(rng.below(3 * blocks));
        let line = block >> shift;
        let sequential = rng.below(3) == 0;
        match rng.below(16) {
            0 => cache.forget(line, rng.bits()),
            1 => cache.forget_lines(line, line + rng.below(4)),
            2 => {
                let here = cache.present(line);
                let wanted = rng.bits() & mask(shift) & !here;
                let recall = if cache.is_new(line) && wanted != 0 {
                    cache.announce(line, Cause::Prefetch)
                } else {
                    Recall::Nothing
                };
                let is_room = wanted != 0 && cache.reserve(u64::from(wanted.count_ones()), recall);
                if is_room {
                    cache.admit(
                        line,
                        0,
                        wanted,
                        Arrival { recall, sequential, ..Arrival::by(Cause::Prefetch) },
                    );
                }
            }
            op => {
                let cause = if op < 6 { Cause::Write } else { Cause::Read };
                let arrival = Arrival { sequential, ..Arrival::by(cause) };
                if shift == 0 {
                    cache.demand_block(block, arrival)
                } else {
                    cache.demand(block, arrival)
                };
                if !cache.holds(block) {
                    let what = format!(
                        "step {step}: a block that was asked for is not here, and memory is not reserved"
                    );
                    return Err(Violation { invariant: "I-2", what });
                }
            }
        }
        cache.check()?;
    }
    Ok(())
}

fn mask(shift: u32) -> u64 {
    u64::MAX >> (64 - (1u32 << shift))
}
