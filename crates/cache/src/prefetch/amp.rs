//! `amp`: read-ahead whose length and whose lead are learned, apart for each stream (AMP).
//!
//! A stream has a *degree* p, the blocks that are brought at once (a set), and a *distance* g, how many blocks before the end of the newest set
//! the next one is asked for.
//!
//! - A read that misses where its stream goes on brings a set behind it. The first set is as long as the read.
//! - Where p is more than `async_above`, the block g before the last one of a set is its trigger: a read that meets it brings the next set.
//! - A read that meets the last block of a set lengthens p by the blocks of the read: the cache had room for all of the set.
//! - A block of the stream that goes and was never met takes one from p, and one from g: it was brought too early.
//! - A read that waits for the first block of a set adds one to g: it was brought too late. g is less than p always.
//!
//! So p settles where a set just stays until it is read, and g where it just comes in time. After Gill and Bathen, "AMP: Adaptive multi-stream
//! prefetching in a shared cache", FAST 2007, section IV.
//!
//! Where we differ: p and g are kept for the streams used last (`streams`), and not with each block. A block that is about to go has no second
//! chance at the other end of the list, for here the replacement policy alone says what goes. A wait is seen by the read that waits, and not
//! when the set arrives.
//!
//! Cost: 80 bytes a stream; a read, and each block that went unmet, look at all streams.

use super::{Look, Prefetch, PrefetchOptions, Range, Units};
use nandu_base::{BuildError, ByteLen, Declared, Report, options};

/// No block.
const NEVER: u64 = u64::MAX;

/// Options of `amp`.
#[options]
#[derive(Clone, Debug)]
pub struct AmpConfig {
    /// Longest set.
    #[option(default = ByteLen::mib(1), range = ..=Units::MOST, also = "a multiple of the block")]
    pub window_max: ByteLen,
    /// Blocks of a set above which the next one is brought before it is missed.
    #[option(default = 4, range = ..=4096)]
    pub async_above: u32,
    /// Streams that are told apart, 80 bytes each; of more the one goes that was used longest ago.
    #[option(default = 128, range = 1..=4096)]
    pub streams: u32,
}

impl Declared for AmpConfig {
    const NAME: &'static str = "amp";
    const SUMMARY: &'static str =
        "Behind sequential reads, by a length and a lead that each stream learns (AMP).";
    const SOURCE: &'static str = "Gill and Bathen, FAST 2007";
    const DRAWS: &'static [&'static str] =
        &["", "async_above = 0, streams = 2", "window_max = \"32 KiB\", async_above = 1"];
}

impl PrefetchOptions for AmpConfig {
    type Policy = Amp;

    fn build(&self, units: &Units) -> Result<Amp, BuildError> {
        let most = units.blocks("prefetch.window_max", self.window_max)?;
        Ok(Amp::new(most, u64::from(self.async_above), self.streams as usize))
    }
}

/// A sequence of reads.
#[derive(Clone, Copy, Debug)]
struct Stream {
    /// Where the next read is expected.
    next: u64,
    /// What was brought: `from..end`.
    from: u64,
    end: u64,
    /// The newest set begins here.
    set: u64,
    /// The last blocks of the newest set and of the one before it, until they are met.
    lasts: [u64; 2],
    /// The block whose meeting brings the next set.
    trigger: u64,
    degree: u64,
    distance: u64,
    /// When it was used last.
    used: u64,
}

impl Stream {
    /// One that a read begins.
    fn begin(end: u64, used: u64) -> Stream {
        let (lasts, trigger) = ([NEVER; 2], NEVER);
        Stream { next: end, from: end, end, set: NEVER, lasts, trigger, degree: 0, distance: 0, used }
    }

    /// Whether a read at `first` belongs to it: behind the last one, or among what was brought.
    fn goes_on(&self, first: u64) -> bool {
        self.next == first || (self.next..self.end).contains(&first)
    }

    /// One less than what was learned: what was brought went before it was met.
    fn shorten(&mut self) {
        self.degree = self.degree.saturating_sub(1).max(1);
        self.distance = self.distance.saturating_sub(1).min(self.degree - 1);
    }
}

/// The prefetcher.
#[derive(Clone, Debug)]
pub struct Amp {
    most: u64,
    async_above: u64,
    streams: Vec<Stream>,
    now: u64,
    sets: u64,
    triggered: u64,
    shortened: u64,
    waited: u64,
}

impl Amp {
    /// Sets of at most `most` blocks; above `async_above` blocks the next one comes before it is missed. At least one stream.
    pub fn new(most: u64, async_above: u64, streams: usize) -> Amp {
        let streams = vec![Stream::begin(NEVER, 0); streams.max(1)];
        Amp { most, async_above, streams, now: 0, sets: 0, triggered: 0, shortened: 0, waited: 0 }
    }
}

impl Prefetch for Amp {
    fn plan(&mut self, look: &Look<'_>, ahead: &mut Vec<Range>) {
        self.now += 1;
        let (most, async_above, now) = (self.most, self.async_above, self.now);
        let asked = look.asked.first..look.asked.end;
        let Some(stream) = self.streams.iter_mut().find(|s| s.goes_on(asked.start)) else {
            let oldest = self.streams.iter_mut().min_by_key(|s| s.used);
            *oldest.expect("there are streams") = Stream::begin(asked.end, now);
            return;
        };
        (stream.next, stream.used) = (asked.end, now);
        let reads = asked.end - asked.start;
        let is_missing = |block: u64| look.missing.iter().any(|run| (run.first..run.end).contains(&block));
        for last in &mut stream.lasts {
            if asked.contains(last) {
                if !is_missing(*last) {
                    stream.degree = (stream.degree + reads).min(most);
                }
                *last = NEVER;
            }
        }
        if look.late && asked.contains(&stream.set) {
            stream.distance = (stream.distance + 1).min(stream.degree - 1);
            self.waited += 1;
        }
        let triggers = asked.contains(&stream.trigger);
        if !triggers && look.missing.is_empty() {
            return;
        }
        self.triggered += u64::from(triggers);
        self.sets += 1;
        if stream.degree == 0 {
            stream.degree = reads.min(most);
        }
        // What went before it was read is behind us.
        let set = if triggers { stream.end.max(asked.end) } else { asked.end };
        if set != stream.end {
            (stream.from, stream.lasts) = (set, [NEVER; 2]);
        }
        stream.set = set;
        stream.end = set + stream.degree;
        stream.lasts = [stream.end - 1, stream.lasts[0]];
        stream.trigger = if stream.degree > async_above { stream.end - 1 - stream.distance } else { NEVER };
        ahead.push(Range { first: set, end: stream.end });
    }

    fn hears_of_waste(&self) -> bool {
        true
    }

    fn wasted(&mut self, block: u64) {
        if let Some(stream) = self.streams.iter_mut().find(|s| (s.from..s.end).contains(&block)) {
            stream.shorten();
            self.shortened += 1;
        }
    }

    fn bytes(&self) -> usize {
        size_of_val(&self.streams[..])
    }

    fn report(&mut self, report: &mut Report) {
        report.count("amp_sets", &mut self.sets);
        report.count("amp_sets_before_a_miss", &mut self.triggered);
        report.count("amp_blocks_too_early", &mut self.shortened);
        report.count("amp_reads_that_waited", &mut self.waited);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandu_base::Rng;
    use std::collections::{BTreeMap, BTreeSet};

    /// A read of `blocks` of which all or nothing is missing, and which waits for what is on its way or not.
    fn read(amp: &mut Amp, blocks: (u64, u64), missing: bool, late: bool) -> Vec<(u64, u64)> {
        let asked = Range { first: blocks.0, end: blocks.1 };
        let runs = if missing { vec![asked] } else { Vec::new() };
        let mut out = Vec::new();
        amp.plan(&Look { asked, missing: &runs, used: 0, retired: 0, late }, &mut out);
        out.iter().map(|r| (r.first, r.end)).collect()
    }

    #[test]
    fn a_set_is_longer_by_a_read_whenever_its_last_block_is_met() {
        let mut amp = Amp::new(256, 100, 8);
        assert_eq!(read(&mut amp, (10, 12), true, false), []);
        assert_eq!(read(&mut amp, (12, 14), true, false), [(14, 16)]);
        assert_eq!(read(&mut amp, (14, 16), false, false), [], "the last block is met: four next time");
        assert_eq!(read(&mut amp, (16, 18), true, false), [(18, 22)]);
        assert_eq!(read(&mut amp, (18, 20), false, false), []);
        assert_eq!(read(&mut amp, (20, 22), true, false), [(22, 26)], "the last block had gone: as before");
    }

    #[test]
    fn long_sets_are_followed_before_they_are_missed() {
        let mut amp = Amp::new(6, 4, 8);
        read(&mut amp, (0, 3), true, false);
        assert_eq!(read(&mut amp, (3, 6), true, false), [(6, 9)], "three blocks: no trigger");
        assert_eq!(read(&mut amp, (6, 9), false, false), []);
        assert_eq!(
            read(&mut amp, (9, 12), true, false),
            [(12, 18)],
            "six, the most: block 17 is the trigger"
        );
        assert_eq!(read(&mut amp, (12, 15), false, false), []);
        assert_eq!(read(&mut amp, (15, 18), false, false), [(18, 24)]);
    }

    #[test]
    fn a_wait_brings_the_next_set_earlier_and_waste_later() {
        let mut amp = Amp::new(8, 2, 8);
        read(&mut amp, (0, 4), true, false);
        assert_eq!(read(&mut amp, (4, 8), true, false), [(8, 12)]);
        assert_eq!(read(&mut amp, (8, 12), false, true), [(12, 20)], "it waited: the trigger is block 18");
        assert_eq!(read(&mut amp, (12, 18), false, true), [], "it waited again, but this trigger stays");
        assert_eq!(read(&mut amp, (18, 19), false, false), [(20, 28)], "two before the last: block 25");
        amp.wasted(21);
        amp.wasted(400);
        assert_eq!(
            read(&mut amp, (19, 26), false, false),
            [(28, 36)],
            "the last block of a set is met meanwhile"
        );
        (0..9).for_each(|_| amp.wasted(30));
        let stream = amp.streams.iter().find(|s| s.end == 36).expect("the stream");
        assert_eq!((stream.degree, stream.distance), (1, 0), "never less");
    }

    /// The obvious slow version: what is known is kept with the blocks, as the paper has it, and nothing is ever forgotten.
    #[derive(Default)]
    struct Slow {
        /// The number of the stream of each block that was brought or is expected next.
        owners: BTreeMap<u64, usize>,
        /// Degree, distance, end and begin of the newest set, last blocks that were not met.
        streams: Vec<(u64, u64, u64, u64, BTreeSet<u64>)>,
        triggers: BTreeMap<u64, usize>,
    }

    impl Slow {
        fn read(
            &mut self,
            first: u64,
            end: u64,
            missing: bool,
            late: bool,
            most: u64,
            above: u64,
        ) -> Vec<(u64, u64)> {
            let Some(&at) = self.owners.get(&first) else {
                self.owners.insert(end, self.streams.len());
                self.streams.push((0, 0, end, NEVER, BTreeSet::new()));
                return Vec::new();
            };
            // What lies before a read is never looked for again.
            self.owners.retain(|&block, owner| *owner != at || block >= end);
            let (degree, distance, to, set, lasts) = &mut self.streams[at];
            for block in first..end {
                if lasts.remove(&block) && !missing {
                    *degree = (*degree + end - first).min(most);
                }
            }
            if late && (first..end).contains(set) {
                *distance = (*distance + 1).min(*degree - 1);
            }
            let triggers = (first..end).any(|block| self.triggers.get(&block) == Some(&at));
            if !triggers && !missing {
                self.owners.insert(end, at);
                return Vec::new();
            }
            self.triggers.retain(|_, owner| *owner != at);
            if *degree == 0 {
                *degree = (end - first).min(most);
            }
            let from = if triggers { end.max(*to) } else { end };
            if from != *to {
                self.owners.retain(|_, owner| *owner != at);
                lasts.clear();
            }
            (*set, *to) = (from, from + *degree);
            // Only the two newest sets count.
            lasts.insert(*to - 1);
            while lasts.len() > 2 {
                lasts.pop_first();
            }
            (end..*to).for_each(|block| {
                self.owners.insert(block, at);
            });
            self.owners.insert(end, at);
            if *degree > above {
                self.triggers.insert(*to - 1 - *distance, at);
            }
            vec![(from, *to)]
        }
    }

    #[test]
    fn streams_beside_each_other_learn_as_if_alone_and_as_the_slow_version() {
        for seed in 0..200 {
            let mut rng = Rng::new(seed);
            let (most, above) = (rng.between(1, 40), rng.below(8));
            let (mut amp, mut slow) = (Amp::new(most, above, 8), Slow::default());
            // Far from each other, so that none comes upon what another has brought.
            let mut places: Vec<u64> = (0..8).map(|n| n * 1_000_000).collect();
            for step in 0..400 {
                let place = &mut places[rng.below(8) as usize];
                let (first, end) = (*place, *place + rng.between(1, 12));
                *place = end;
                let (missing, late) = (rng.below(3) == 0, rng.below(4) == 0);
                let planned = read(&mut amp, (first, end), missing, late);
                let expected = slow.read(first, end, missing, late, most, above);
                assert_eq!(planned, expected, "seed {seed}, step {step}: {first}..{end}");
            }
        }
    }
}
