//! A link: one transfer after another.

use nandu_base::{ByteLen, Instant, Span};

/// The link.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    bytes_per_second: u64,
    free_at: Instant,
    /// Time that it was occupied.
    pub busy: Span,
}

impl Link {
    /// A link of this speed, above zero.
    pub fn new(bytes_per_second: u64) -> Link {
        Link { bytes_per_second, free_at: Instant::ZERO, busy: Span::ZERO }
    }

    /// Time that `len` bytes take, rounded up.
    #[inline]
    pub fn transfer(&self, len: ByteLen) -> Span {
        match len.0.checked_mul(1_000_000_000) {
            Some(ns) => Span(ns.div_ceil(self.bytes_per_second)),
            None => {
                let ns = u128::from(len.0) * 1_000_000_000;
                Span(ns.div_ceil(u128::from(self.bytes_per_second)) as u64)
            }
        }
    }

    /// Takes the link for `len` bytes as soon as it is free; returns when they begin to cross and how long that takes.
    #[inline]
    pub fn take(&mut self, now: Instant, len: ByteLen) -> (Instant, Span) {
        let time = self.transfer(len);
        (self.hold(now, time), time)
    }

    /// Takes the link for some time as soon as it is free; returns when that begins.
    #[inline]
    pub fn hold(&mut self, now: Instant, time: Span) -> Instant {
        let start = self.free_at.later(now);
        self.free_at = start + time;
        self.busy += time;
        start
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transfers_take_turns() {
        let mut link = Link::new(1_000_000_000);
        assert_eq!(link.take(Instant(0), ByteLen(4096)), (Instant(0), Span(4096)));
        assert_eq!(link.take(Instant(96), ByteLen(1)), (Instant(4096), Span(1)));
        assert_eq!(link.take(Instant(9000), ByteLen(2)), (Instant(9000), Span(2)));
        assert_eq!(link.busy, Span(4099));
    }

    #[test]
    fn the_longest_transfers_do_not_overflow() {
        assert_eq!(Link::new(1).transfer(ByteLen::gib(16)), Span(17_179_869_184_000_000_000));
        assert_eq!(Link::new(3).transfer(ByteLen(1)), Span(333_333_334));
    }
}
