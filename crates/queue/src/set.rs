//! A set of small numbers, one bit each: which tenants wait, say. Whoever has turns finds the next member without asking all others.

/// The set.
#[derive(Clone, Debug)]
pub struct Set(Vec<u64>);

const BITS: usize = u64::BITS as usize;

impl Set {
    /// An empty set of numbers below `end`.
    pub fn new(end: usize) -> Set {
        Set(vec![0; end.div_ceil(BITS)])
    }

    /// Puts `member` in, or takes it out.
    #[inline]
    pub fn put(&mut self, member: usize, is_in: bool) {
        let word = &mut self.0[member / BITS];
        let bit = 1 << (member % BITS);
        *word = if is_in { *word | bit } else { *word & !bit };
    }

    /// Whether nothing is in it.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|&word| word == 0)
    }

    /// The first number from `from` on, round the end, that is in both sets.
    #[inline]
    pub fn next_in_both(&self, other: &Set, from: usize) -> Option<usize> {
        let words = self.0.len();
        let begin = from / BITS;
        let both = |word: usize| self.0[word] & other.0[word];
        let found =
            |word: usize, bits: u64| (bits != 0).then(|| word * BITS + bits.trailing_zeros() as usize);
        let at_or_after = u64::MAX << (from % BITS);
        found(begin, both(begin) & at_or_after)
            .or_else(|| {
                (1..words).find_map(|step| {
                    let word = (begin + step) % words;
                    found(word, both(word))
                })
            })
            .or_else(|| found(begin, both(begin) & !at_or_after))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_in_both_is_found_round_the_end() {
        let seed = 5;
        let mut rng = nandu_base::Rng::new(seed);
        for end in [1, 17, 64, 65, 200] {
            let (mut a, mut b) = (Set::new(end), Set::new(end));
            let (mut in_a, mut in_b) = (vec![false; end], vec![false; end]);
            for turn in 0..500 {
                for (set, model) in [(&mut a, &mut in_a), (&mut b, &mut in_b)] {
                    let (member, is_in) = (rng.below(end as u64) as usize, rng.below(4) == 0);
                    set.put(member, is_in);
                    model[member] = is_in;
                }
                let from = rng.below(end as u64) as usize;
                let want = (0..end).map(|step| (from + step) % end).find(|&n| in_a[n] && in_b[n]);
                assert_eq!(a.next_in_both(&b, from), want, "seed {seed}, turn {turn} below {end}");
                assert_eq!(a.is_empty(), !in_a.contains(&true), "seed {seed}, turn {turn} below {end}");
            }
        }
    }
}
