//! Where the segments of a buffer lie, in a form that is quick to search, and which of them goes first.
//!
//! Most requests touch no segment at all. So ends and lengths stand apart from the contents, as the low 32 bits of block
//! numbers in two flat arrays: one subtraction, one addition and one comparison for each segment, which the compiler does
//! four at a time, say that none is touched. Where one may be, the caller looks at the segments themselves.
//!
//! A segment that is empty goes first, the first of them before others; then the one that was used least recently, which
//! is at the head of a list. RAM: 16 bytes for each segment.

/// Blocks of the longest span.
pub(super) const LONGEST: u64 = 1 << 31;

/// Low words of the spans of all segments.
#[derive(Clone, Debug)]
pub(super) struct Spans {
    /// The last block.
    lasts: Vec<u32>,
    /// How many blocks.
    lens: Vec<u32>,
}

impl Spans {
    /// So many empty spans.
    pub fn new(count: usize) -> Spans {
        Spans { lasts: vec![0; count], lens: vec![0; count] }
    }

    /// Segment `at` now holds `start..end`.
    #[inline(always)]
    pub fn set(&mut self, at: usize, start: u64, end: u64) {
        self.lasts[at] = (end as u32).wrapping_sub(1);
        debug_assert!(end - start <= LONGEST);
        self.lens[at] = (end - start) as u32;
    }

    /// Whether any segment may hold one of `count` blocks from `first` on, at least one. False is certain.
    #[inline]
    pub fn may_touch(&self, first: u64, count: u64) -> bool {
        // A span and a stretch touch where the span's last block is at or behind the first block of the stretch by less than both are
        // long, less one. Low words cannot tell stretches whose lengths add up to more than they hold.
        let Some(more) = u32::try_from(count.wrapping_sub(1)).ok().filter(|&more| more < LONGEST as u32)
        else {
            return true;
        };
        let mut touched = 0;
        for (&last, &len) in self.lasts.iter().zip(&self.lens) {
            touched |= u32::from(last.wrapping_sub(first as u32) < len.wrapping_add(more));
        }
        touched != 0
    }
}

/// In which order segments are taken for new data.
#[derive(Clone, Debug)]
pub(super) struct Turns {
    /// Neighbours of each segment: the one used before it, and the one used after it. The last entry is the head and the tail.
    used: Vec<(u32, u32)>,
    /// A bit for each empty segment.
    empty: Vec<u64>,
}

impl Turns {
    /// So many empty segments.
    pub fn new(count: usize) -> Turns {
        let ring = count as u32 + 1;
        let used = (0..ring).map(|at| ((at + ring - 1) % ring, (at + 1) % ring)).collect();
        let mut turns = Turns { used, empty: vec![0; count.div_ceil(64)] };
        (0..count).for_each(|at| turns.set_empty(at, true));
        turns
    }

    /// Segment `at` is used by others and never taken.
    pub fn leave_out(&mut self, at: usize) {
        self.unlink(at);
        self.used[at] = (at as u32, at as u32);
        self.empty[at / 64] &= !(1 << (at % 64));
    }

    #[inline(always)]
    pub fn set_empty(&mut self, at: usize, is_empty: bool) {
        let (word, bit) = (&mut self.empty[at / 64], at % 64);
        *word = *word & !(1 << bit) | u64::from(is_empty) << bit;
    }

    #[inline(always)]
    fn unlink(&mut self, at: usize) {
        let (before, after) = self.used[at];
        self.used[before as usize].1 = after;
        self.used[after as usize].0 = before;
    }

    /// Segment `at` was used last.
    #[inline(always)]
    pub fn touch(&mut self, at: usize) {
        let head = self.used.len() - 1;
        self.unlink(at);
        let last = self.used[head].0;
        self.used[last as usize].1 = at as u32;
        self.used[at] = (last, head as u32);
        self.used[head].0 = at as u32;
    }

    /// The segment whose turn it is.
    #[inline(always)]
    pub fn first(&self) -> usize {
        for (word, &empty) in self.empty.iter().enumerate() {
            if empty != 0 {
                return word * 64 + empty.trailing_zeros() as usize;
            }
        }
        self.used[self.used.len() - 1].1 as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandu_base::Rng;

    #[test]
    fn a_span_that_is_touched_is_never_missed() {
        for seed in 0..2000 {
            let mut rng = Rng::new(seed);
            let far = [0, (1 << 32) - 50, 7 << 32][rng.below(3) as usize];
            let mut spans = Spans::new(5);
            let mut plain = [(0, 0); 5];
            for (at, span) in plain.iter_mut().enumerate() {
                let start = far + rng.below(100);
                *span = (start, start + rng.below(20));
                spans.set(at, span.0, span.1);
            }
            let (first, count) = (far + rng.below(100), 1 + rng.below(20));
            let touched = plain.iter().any(|&(start, end)| start < first + count && first < end);
            assert_eq!(spans.may_touch(first, count) && touched, touched, "seed {seed}");
            if plain.iter().all(|&(start, end)| end > start) {
                // Nothing is 2^32 blocks apart here, so that it is exact where no span is empty.
                assert_eq!(spans.may_touch(first, count), touched, "seed {seed}");
            }
            assert!(spans.may_touch(0, 1 << 40), "what low words cannot tell counts as touched");
        }
    }

    /// The obvious order: the time of the last use, 0 for what is empty.
    #[test]
    fn turns_agree_with_a_search_for_the_smallest_time() {
        for seed in 0..50 {
            let mut rng = Rng::new(seed);
            let count = 1 + rng.below(130) as usize;
            let (mut turns, mut times, mut empty) = (Turns::new(count), vec![0; count], vec![true; count]);
            let left_out = (count > 1 && rng.below(2) == 0).then_some(0);
            left_out.into_iter().for_each(|at| turns.leave_out(at));
            for now in 1..400 {
                let age = |&at: &usize| if empty[at] { 0 } else { times[at] };
                let want = (0..count).filter(|&at| Some(at) != left_out).min_by_key(age);
                assert_eq!(Some(turns.first()), want, "seed {seed}, turn {now}");
                let at = if rng.below(2) == 0 { turns.first() } else { rng.below(count as u64) as usize };
                if Some(at) == left_out {
                    continue;
                }
                if empty[at] || rng.below(4) > 0 {
                    turns.touch(at);
                    times[at] = now;
                }
                empty[at] = rng.below(8) == 0;
                turns.set_empty(at, empty[at]);
            }
        }
    }
}
