//! Hot and cold writes by counters behind several hash functions.
//!
//! Hsieh, Kuo and Chang, "Efficient Identification of Hot Data for Flash Memory Storage Systems", ACM Transactions on Storage 2(1),
//! 2006, section 3: each write of a logical page raises one counter for each of two hash functions; every so many writes all counters
//! are halved; a page is hot while all of its counters have reached a threshold. Pages that share a counter with a hot one are
//! taken for hot now and then, which the second function makes rare.
//!
//! As in the paper counters end at 15, the threshold is 4 by default (the two upper of four bits), and a page is judged after its
//! own write is counted. Ours: the hash functions are two multiplications with odd constants; halving goes a few counters a write instead
//! of all at once, so that no write pays for all.
//!
//! RAM: 1 byte per counter, where the paper has 4 bits. Cost: two counters a write, and a part of the halving.

/// The most that a counter counts to.
const TOP: u8 = 15;
/// Fractions of the golden ratio and of the square root of 3: far from any pattern of addresses.
const HASHES: [u64; 2] = [0x9E37_79B9_7F4A_7C15, 0xBB67_AE85_84CA_A73B];

/// The counters.
#[derive(Clone, Debug)]
pub struct MultiHash {
    counters: Vec<u8>,
    shift: u32,
    threshold: u8,
    decay: u32,
    /// Halvings that are due, in parts of `decay`.
    due: u64,
    next: usize,
}

impl MultiHash {
    /// `counters`, a power of two of at least 16, which are halved every `decay` writes; a page is hot from `threshold` on.
    pub fn new(counters: u32, decay: u32, threshold: u8) -> MultiHash {
        assert!(counters.is_power_of_two() && counters >= 16 && decay > 0, "options were checked");
        assert!((1..=TOP).contains(&threshold), "options were checked");
        MultiHash {
            counters: vec![0; counters as usize],
            shift: 64 - counters.trailing_zeros(),
            threshold,
            decay,
            due: 0,
            next: 0,
        }
    }

    fn places(&self, page: u32) -> [usize; 2] {
        HASHES.map(|hash| ((u64::from(page) + 1).wrapping_mul(hash) >> self.shift) as usize)
    }

    /// Counts a write of a page; whether it is hot.
    pub fn write(&mut self, page: u32) -> bool {
        for place in self.places(page) {
            let counter = &mut self.counters[place];
            *counter = (*counter + 1).min(TOP);
        }
        let is_hot = self.places(page).into_iter().all(|place| self.counters[place] >= self.threshold);
        self.due += self.counters.len() as u64;
        while self.due >= u64::from(self.decay) {
            self.due -= u64::from(self.decay);
            self.counters[self.next] /= 2;
            self.next = if self.next + 1 == self.counters.len() { 0 } else { self.next + 1 };
        }
        is_hot
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandu_base::Rng;

    #[test]
    fn pages_that_are_written_often_are_hot_and_others_are_not() {
        let mut counters = MultiHash::new(4096, 5117, 4);
        let mut rng = Rng::new(1);
        let (mut right, mut wrong) = ([0u32; 2], [0u32; 2]);
        for at in 0..100_000 {
            let is_hot = rng.below(10) < 8;
            let page = if is_hot { rng.below(500) } else { 500 + rng.below(100_000) } as u32;
            let said = counters.write(page);
            if at > 20_000 {
                let count = if said == is_hot { &mut right } else { &mut wrong };
                count[usize::from(is_hot)] += 1;
            }
        }
        assert!(right[1] > 9 * wrong[1], "hot pages: {} right, {} wrong", right[1], wrong[1]);
        assert!(right[0] > 9 * wrong[0], "cold pages: {} right, {} wrong", right[0], wrong[0]);
    }

    /// The obvious model: a table of counters by page, all halved at once; equal while no counters are shared and none is halved.
    #[test]
    fn agrees_with_a_counter_for_each_page() {
        let mut counters = MultiHash::new(1 << 16, u32::MAX, 3);
        let mut table = [0u32; 8];
        let mut rng = Rng::new(7);
        for _ in 0..200 {
            let page = rng.below(8) as usize;
            table[page] += 1;
            assert_eq!(counters.write(page as u32 * 1001), table[page] >= 3, "seed 7");
        }
    }

    #[test]
    fn what_was_hot_becomes_cold() {
        let mut counters = MultiHash::new(4096, 100, 4);
        assert!((0..10).any(|_| counters.write(1)));
        for page in 1000..1400 {
            counters.write(page);
        }
        assert!(!counters.write(1), "four halvings leave nothing of ten writes");
    }
}
