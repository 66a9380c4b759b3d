//! Seeded random numbers: xoshiro256++ by a pinned library, distributions by integer arithmetic.
//!
//! One printed seed makes the whole run. Independent streams are drawn with [`Rng::fork`], so that adding a consumer
//! does not shift the numbers of another.

use crate::units::Ratio;
use rand_core::{Rng as _, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// A deterministic source of random numbers.
#[derive(Clone, Debug)]
pub struct Rng(Xoshiro256PlusPlus);

impl Rng {
    /// The generator of `seed`.
    pub fn new(seed: u64) -> Rng {
        Rng(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    /// A generator of its own for `stream`, independent of how many numbers the parent has drawn since.
    pub fn fork(&self, stream: u64) -> Rng {
        let mut parent = self.0.clone();
        Rng::new(parent.next_u64() ^ stream.wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }

    /// 64 random bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number in `0..n`; `n` must not be zero. Multiply-shift with rejection: exactly uniform.
    #[inline]
    pub fn below(&mut self, n: u64) -> u64 {
        assert!(n != 0, "no number lies below zero");
        let product = u128::from(self.bits()) * u128::from(n);
        // What is rejected lies below 2^64 mod n, which is below n: mostly nobody needs to know it.
        if product as u64 >= n { (product >> 64) as u64 } else { self.below_again(product, n) }
    }

    /// The same where the first product may have to be rejected.
    #[cold]
    #[inline(never)]
    fn below_again(&mut self, mut product: u128, n: u64) -> u64 {
        let threshold = n.wrapping_neg() % n;
        while (product as u64) < threshold {
            product = u128::from(self.bits()) * u128::from(n);
        }
        (product >> 64) as u64
    }

    /// A number in `low..=high`.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        assert!(low <= high, "empty range {low}..={high}");
        match (high - low).checked_add(1) {
            Some(n) => low + self.below(n),
            None => self.bits(),
        }
    }

    /// True with the given chance.
    pub fn chance(&mut self, chance: Ratio) -> bool {
        chance.num != 0 && self.below(chance.den) < chance.num
    }

    /// One of `items`, which must not be empty.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len() as u64) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_fixes_the_sequence() {
        // Golden: Rng::new(1), first three draws; xoshiro256++ seeded by SplitMix64.
        let mut r = Rng::new(1);
        let first: Vec<u64> = (0..3).map(|_| r.bits()).collect();
        let mut again = Rng::new(1);
        assert_eq!(first, (0..3).map(|_| again.bits()).collect::<Vec<_>>());
        assert_ne!(first[0], Rng::new(2).bits());
    }

    #[test]
    fn forks_do_not_depend_on_each_other() {
        let r = Rng::new(7);
        assert_eq!(r.fork(3).bits(), r.fork(3).bits());
        assert_ne!(r.fork(3).bits(), r.fork(4).bits());
    }

    #[test]
    fn below_stays_below_and_reaches_all() {
        let mut r = Rng::new(9);
        let mut seen = [0u32; 5];
        for _ in 0..1000 {
            seen[r.below(5) as usize] += 1;
        }
        assert!(seen.iter().all(|&n| n > 100), "{seen:?}");
    }
}
