//! What every prefetcher keeps to, for the tests of this crate and of those that bring one.

use super::{AnyPrefetch, Brings, Look, Range, Units};
use nandu_base::{ByteLen, Rng, Violation};

/// Blocks of the device that is read.
const DEVICE: u64 = 4096;

/// Tells two prefetchers of `options` the same reads, which `seed` draws: some follow the one before, some come again, of some nothing is
/// missing. Both must bring the same ranges, none of them empty, in order and without overlap.
///
/// # Errors
/// What is broken, and how.
///
/// # Panics
/// The prefetcher cannot be built for blocks of 4 KiB and segments of eight blocks.
pub fn run(options: &dyn AnyPrefetch, seed: u64) -> Result<(), Violation> {
    let units = Units { block: ByteLen::kib(4), segment: 8 };
    let build = || options.boxed(&units).unwrap_or_else(|e| panic!("cannot be built for {units:?}: {e}"));
    let (mut one, mut other) = (build(), build());
    let mut rng = Rng::new(seed);
    let broken = |step: u32, what: &str| {
        Err(Violation { invariant: "I-2", what: format!("step {step}: a prefetcher {what}") })
    };
    let (mut asked, mut used, mut retired) = (Range { first: 0, end: 1 }, 0, 0);
    let (mut known, mut brought) = (vec![asked], Vec::new());
    for step in 0..800 {
        asked = match rng.below(4) {
            0 => Range { first: asked.end, end: asked.end + rng.between(1, 16) },
            1 => *rng.pick(&known),
            _ => {
                let first = rng.below(DEVICE);
                Range { first, end: first + rng.between(1, 16) }
            }
        };
        known.push(asked);
        let middle = Range { first: asked.first, end: asked.first.midpoint(asked.end) };
        let missing: &[Range] = match rng.below(3) {
            0 => &[],
            1 if middle.first < middle.end => &[middle],
            _ => &[asked],
        };
        used += rng.below(2);
        retired += rng.between(1, 2);
        let look = Look { asked, missing, used, retired, late: rng.below(4) == 0 };
        // Some of what it brought last is gone.
        let wasted: Vec<u64> = brought.iter().copied().filter(|_| rng.below(8) == 0).collect();
        let plan = |prefetch: &mut dyn super::Prefetch| {
            let mut ahead = Vec::new();
            if prefetch.hears_of_waste() {
                wasted.iter().for_each(|&block| prefetch.wasted(block));
            }
            if prefetch.foresight() > 0 {
                prefetch.foresee(asked);
            }
            prefetch.plan(&look, &mut ahead);
            ahead
        };
        let ahead = plan(&mut *one);
        brought = ahead.iter().flat_map(|range| range.first..range.end.min(range.first + 64)).collect();
        if ahead != plan(&mut *other) {
            return broken(step, "brings something else the second time");
        }
        if ahead.iter().any(|range| range.first >= range.end) {
            return broken(step, "brings an empty range");
        }
        if ahead.windows(2).any(|pair| pair[0].end > pair[1].first) {
            return broken(step, "brings ranges that overlap or are out of order");
        }
        if options.brings() == Brings::Nothing && !ahead.is_empty() {
            return broken(step, "brings something and says that it brings nothing");
        }
    }
    Ok(())
}
