//! One channel: which transfers it has promised.
//!
//! It is booked by intervals: a transfer takes the first gap that is long enough, so that a die with a long queue does not hold
//! the channel for the time in between. At most [`BOOKINGS_MAX`] future intervals are kept apart; beyond, the two nearest are
//! joined and the gap between them counts as taken. RAM: 1 KiB at most.

use nandu_base::{Instant, Span};

/// Future intervals that a channel keeps apart.
const BOOKINGS_MAX: usize = 64;

/// A channel's future: taken intervals, in order, apart from each other. Most transfers go behind the last one, which is
/// therefore kept by itself.
#[derive(Clone, Debug, Default)]
pub(super) struct Channel {
    last: (Instant, Instant),
    /// Those before the last.
    booked: Vec<(Instant, Instant)>,
    pub busy: Span,
}

impl Channel {
    /// One with nothing booked and room for all it may have.
    pub fn new() -> Channel {
        Channel { booked: Vec::with_capacity(BOOKINGS_MAX + 2), ..Channel::default() }
    }

    /// Takes `len` from the first gap at or after `earliest`; returns its start.
    #[inline(always)]
    pub fn book(&mut self, now: Instant, earliest: Instant, len: Span) -> Instant {
        self.busy += len;
        if earliest < self.last.1 {
            return self.book_between(now, earliest, len);
        }
        if earliest == self.last.1 {
            self.last.1 += len;
        } else {
            self.append(now, (earliest, earliest + len));
        }
        earliest
    }

    #[inline(always)]
    fn append(&mut self, now: Instant, interval: (Instant, Instant)) {
        if self.last.1 <= now {
            self.booked.clear();
        } else if self.booked.len() + 2 > BOOKINGS_MAX {
            return self.append_to_many(now, interval);
        } else {
            self.booked.push(self.last);
        }
        self.last = interval;
    }

    #[cold]
    fn append_to_many(&mut self, now: Instant, interval: (Instant, Instant)) {
        self.booked.extend([self.last, interval]);
        self.keep_few(now);
    }

    /// The earliest gap lies before the last interval.
    #[inline(never)]
    fn book_between(&mut self, now: Instant, earliest: Instant, len: Span) -> Instant {
        self.booked.push(self.last);
        // From the tail: most transfers belong near the end.
        let mut at = self.booked.len();
        while at > 0 && self.booked[at - 1].1 > earliest {
            at -= 1;
        }
        let mut start = earliest;
        while at < self.booked.len() && self.booked[at].0 < start + len {
            start = self.booked[at].1;
            at += 1;
        }
        self.insert(at, (start, start + len));
        self.keep_few(now);
        start
    }

    /// Takes the last interval back out of the list, which is shortened when it is too long.
    #[inline]
    fn keep_few(&mut self, now: Instant) {
        if self.booked.len() > BOOKINGS_MAX {
            self.shorten(now);
        }
        self.last = self.booked.pop().expect("the last interval is still to come");
    }

    /// Inserts an interval before position `at`, joined with the neighbours it touches.
    fn insert(&mut self, at: usize, interval: (Instant, Instant)) {
        let joins_left = at > 0 && self.booked[at - 1].1 == interval.0;
        let joins_right = at < self.booked.len() && self.booked[at].0 == interval.1;
        match (joins_left, joins_right) {
            (true, true) => {
                self.booked[at - 1].1 = self.booked[at].1;
                self.booked.remove(at);
            }
            (true, false) => self.booked[at - 1].1 = interval.1,
            (false, true) => self.booked[at].0 = interval.0,
            (false, false) => self.booked.insert(at, interval),
        }
    }

    /// Forgets what is past; when that is not enough, joins the two intervals with the smallest gap.
    #[cold]
    fn shorten(&mut self, now: Instant) {
        let past = self.booked.iter().take_while(|b| b.1 <= now).count();
        self.booked.drain(..past);
        if self.booked.len() > BOOKINGS_MAX {
            let gap = |i: usize| self.booked[i + 1].0.since(self.booked[i].1);
            let nearest = (0..self.booked.len() - 1).min_by_key(|&i| gap(i)).expect("more than one interval");
            self.booked[nearest].1 = self.booked[nearest + 1].1;
            self.booked.remove(nearest + 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The obvious channel: one flag per microsecond.
    #[test]
    fn booking_agrees_with_a_calendar() {
        let seed = 11;
        let mut rng = nandu_base::Rng::new(seed);
        let mut calendar = [false; 4000];
        let mut channel = Channel::default();
        for turn in 0..60 {
            let (earliest, len) = (rng.below(2000) as usize, 1 + rng.below(20) as usize);
            let want = (earliest..).find(|&t| !calendar[t..t + len].contains(&true)).unwrap();
            calendar[want..want + len].fill(true);
            let got = channel.book(Instant::ZERO, Instant(earliest as u64), Span(len as u64));
            assert_eq!(got, Instant(want as u64), "seed {seed}, turn {turn}");
        }
    }
}
