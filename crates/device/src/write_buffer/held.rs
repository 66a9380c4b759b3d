//! The sectors of one page that a buffer holds.
//!
//! As long as they come from one write, they lie in the buffer of that write's request. The second write to the same page
//! gives them a page of their own.

use nandu_base::{ByteLen, Overlay, Payload, PayloadPool, SECTOR};

/// The lowest `n` bits.
#[inline]
pub(crate) fn ones(n: u32) -> u128 {
    if n >= u128::BITS { u128::MAX } else { (1 << n) - 1 }
}

/// Bytes of so many sectors.
fn sectors(count: u32) -> ByteLen {
    ByteLen(u64::from(count) * SECTOR)
}

/// Sectors of one page, which whoever has this holds in the pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Held {
    /// Their data.
    pub payload: Payload,
    /// The sector of the page at which the payload begins.
    pub from: u32,
    /// One bit for each sector that is held.
    pub mask: u128,
}

impl Held {
    /// None.
    pub const NOTHING: Held = Held { payload: Payload::NONE, from: 0, mask: 0 };

    /// `count` sectors from `first` on, which are in `payload`; the pool is told.
    #[inline]
    pub fn keep(pool: &mut PayloadPool, payload: Payload, first: u32, count: u32) -> Held {
        pool.keep(payload);
        Held { payload, from: first, mask: ones(count) << first }
    }

    /// All sectors of a page, `all` of them; the pool is told.
    #[inline]
    pub fn keep_page(pool: &mut PayloadPool, payload: Payload, all: u128) -> Held {
        pool.keep(payload);
        Held { payload, from: 0, mask: all }
    }

    /// The data of the page, when it holds all of its sectors.
    #[inline]
    pub fn page(&self, all: u128) -> Option<Payload> {
        (self.mask == all).then_some(self.payload)
    }

    /// The data of a sector that is held.
    fn at(&self, sector: u32) -> Payload {
        self.payload.slice(sectors(sector - self.from))
    }

    /// Whether it holds one stretch of sectors, and still would with those.
    pub fn stays_whole_with(&self, first: u32, count: u32) -> bool {
        let mask = self.mask | ones(count) << first;
        mask == ones(mask.count_ones()) << mask.trailing_zeros()
    }

    /// The first sector and the number of them, when it holds one stretch.
    #[inline]
    pub fn stretch(&self) -> Option<(u32, u32)> {
        let (first, count) = (self.mask.trailing_zeros(), self.mask.count_ones());
        (self.mask != 0 && self.mask == ones(count) << first).then_some((first, count))
    }

    /// What it puts over a page, when it holds one stretch.
    pub fn overlay(&self) -> Option<Overlay> {
        self.stretch().map(|(first, count)| Overlay { first, count, payload: self.at(first) })
    }

    /// A newer write lays `count` sectors from `first` on over these; a page has `page` sectors.
    pub fn lay_over(&mut self, pool: &mut PayloadPool, page: u32, first: u32, count: u32, data: Payload) {
        if count == page {
            pool.keep(data);
            pool.release(self.payload);
            (self.payload, self.from) = (data, 0);
        } else {
            self.spread_out(pool, page);
            pool.copy(data, self.payload.slice(sectors(first)), sectors(count));
        }
        self.mask |= ones(count) << first;
    }

    /// Gives the sectors a page of their own, of `page` sectors; the others of it are zeros.
    pub fn spread_out(&mut self, pool: &mut PayloadPool, page: u32) {
        let whole = pool.allocate(sectors(page));
        self.copy_out(pool, 0, page, whole);
        pool.release(self.payload);
        (self.payload, self.from) = (whole, 0);
    }

    /// Copies what it holds of `count` sectors from `first` on to `to`, which begins with `first`; the others stay.
    pub fn copy_out(&self, pool: &mut PayloadPool, first: u32, count: u32, to: Payload) {
        let mut left = self.mask & ones(count) << first;
        while left != 0 {
            let start = left.trailing_zeros();
            let run = (!(left >> start)).trailing_zeros().min(count);
            pool.copy(self.at(start), to.slice(sectors(start - first)), sectors(run));
            left &= !(ones(run) << start);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandu_base::{Content, Rng, Sector, Stamp};

    /// The same, sector by sector.
    #[test]
    fn it_holds_what_was_laid_over_last() {
        let page = 16u32;
        for seed in 0..200 {
            let mut rng = Rng::new(seed);
            let mut pool = PayloadPool::new(Content::Stamps);
            let mut plain = [None; 16];
            let mut held: Option<Held> = None;
            for serial in 1..20u32 {
                let first = rng.below(u64::from(page)) as u32;
                let count =
                    if rng.below(4) == 0 { page } else { 1 + rng.below(u64::from(page - first)) as u32 };
                let first = if count == page { 0 } else { first };
                let data = Payload::run(Stamp::new(serial, u64::from(first)));
                match &mut held {
                    Some(held) => held.lay_over(&mut pool, page, first, count, data),
                    None => held = Some(Held::keep(&mut pool, data, first, count)),
                }
                for sector in first..first + count {
                    plain[sector as usize] = Some(Stamp::new(serial, u64::from(sector)));
                }
                let held = held.expect("something was written");
                let read = pool.allocate(sectors(page));
                held.copy_out(&mut pool, 0, page, read);
                for (sector, want) in (0u32..).zip(plain) {
                    assert_eq!(held.mask >> sector & 1 == 1, want.is_some(), "seed {seed}, write {serial}");
                    let found = match pool.sector(read, u64::from(sector)) {
                        Some(Sector::Stamp(stamp)) => stamp,
                        other => panic!("{other:?}"),
                    };
                    assert_eq!(
                        found,
                        want.unwrap_or(Stamp::ZERO),
                        "seed {seed}, write {serial}, sector {sector}"
                    );
                }
                pool.release(read);
            }
            pool.release(held.expect("something was written").payload);
            assert_eq!(pool.living(), 0, "seed {seed}");
        }
    }

    #[test]
    fn a_gap_is_seen() {
        let mut pool = PayloadPool::new(Content::Nothing);
        let held = Held::keep(&mut pool, Payload::NONE, 2, 3);
        assert!(held.stays_whole_with(5, 1) && held.stays_whole_with(0, 2) && held.stays_whole_with(3, 9));
        assert!(!held.stays_whole_with(6, 1) && !held.stays_whole_with(0, 1));
        assert_eq!(held.stretch(), Some((2, 3)));
        assert_eq!(Held { mask: 0b1001, ..held }.stretch(), None);
    }
}
