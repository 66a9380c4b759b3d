//! A running digest of what a run did, to compare two runs of one seed (I-14). FNV-1a over 64-bit words, mixed.

/// The digest so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Digest(u64);

impl Default for Digest {
    fn default() -> Digest {
        Digest(0xCBF2_9CE4_8422_2325)
    }
}

impl Digest {
    /// Adds one word.
    #[inline]
    pub fn add(&mut self, word: u64) {
        let mixed = (self.0 ^ word).wrapping_mul(0x0000_0100_0000_01B3);
        self.0 = mixed ^ mixed >> 29;
    }

    /// The digest as a number.
    pub fn value(self) -> u64 {
        self.0
    }
}
