//! A set of small numbers, one bit each: which tenants wait, say. Whoever chooses among them asks no others.

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

    /// Its members in order.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.0.iter().zip((0..).step_by(BITS)).flat_map(|(&word, first)| {
            let mut left = word;
            std::iter::from_fn(move || {
                let member = (left != 0).then(|| first + left.trailing_zeros() as usize);
                left &= left.wrapping_sub(1);
                member
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_come_in_order() {
        let seed = 5;
        let mut rng = nandu_base::Rng::new(seed);
        for end in [1, 17, 64, 65, 200] {
            let (mut set, mut model) = (Set::new(end), vec![false; end]);
            for turn in 0..500 {
                let (member, is_in) = (rng.below(end as u64) as usize, rng.below(4) == 0);
                set.put(member, is_in);
                model[member] = is_in;
                let want = (0..end).filter(|&n| model[n]);
                assert!(set.iter().eq(want), "seed {seed}, turn {turn} below {end}");
                assert_eq!(set.is_empty(), !model.contains(&true), "seed {seed}, turn {turn} below {end}");
            }
        }
    }
}
