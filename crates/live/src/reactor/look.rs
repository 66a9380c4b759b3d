//! Looking before sleeping: whether a wait polls for a moment before its thread sleeps.
//!
//! To fall asleep and to be woken takes some microseconds of a processor, in a virtual machine tens of them, and a client waits that long for its
//! reply. A client that has one request under way sends the next soon after the reply, so the server polls for that time first, in the manner of
//! KVM's halt polling (Linux, `virt/kvm/halt-polling`) and of QEMU's `poll-max-ns`. These learn the length of the next polling from the last wait.
//! Here its length is fixed, and a wait that polled in vain makes the next 1, 3, 7, ... [`SKIPPED_MAX`] waits sleep at once: a wait that sleeps cannot
//! tell how soon its event would have come.
//!
//! Cost: a server that has nothing to do polls before one of 128 waits. One whose events come just within the bound keeps a processor busy. With one processor
//! the client could not run meanwhile, so nothing polls there.

use nandu_base::Span;

/// Most waits in a row that sleep at once.
const SKIPPED_MAX: u32 = 127;

/// What is known of the last waits.
#[derive(Debug)]
pub(crate) struct Look {
    most: Span,
    /// Waits that sleep at once from here on.
    skip: u32,
    /// As many as there were the last time.
    skipped: u32,
}

impl Look {
    /// Waits poll for at most `most`; zero: they never do.
    pub fn new(most: Span) -> Look {
        Look { most, skip: 0, skipped: 0 }
    }

    /// How long the next wait polls.
    #[inline]
    pub fn next(&mut self) -> Span {
        if self.skip > 0 {
            self.skip -= 1;
            return Span::ZERO;
        }
        self.most
    }

    /// A wait has polled, and something came meanwhile or did not.
    #[inline]
    pub fn polled(&mut self, came: bool) {
        self.skipped = if came { 0 } else { (2 * self.skipped + 1).min(SKIPPED_MAX) };
        self.skip = self.skipped;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of 1000 waits in which something comes within the bound as `comes` says, those that polled.
    fn polled(comes: impl Fn(u32) -> bool) -> u32 {
        let mut look = Look::new(Span::from_us(50));
        (0..1000)
            .filter(|&wait| {
                let polls = look.next() > Span::ZERO;
                if polls {
                    look.polled(comes(wait));
                }
                polls
            })
            .count() as u32
    }

    #[test]
    fn waits_poll_where_that_pays() {
        assert_eq!(polled(|_| true), 1000);
        assert_eq!(polled(|_| false), 13, "after 1, 3, 7, 15, 31, 63, 127, 127, ... waits");
        let begins = polled(|wait| wait >= 500);
        assert!(begins > 370, "it is found out within 128 waits that it pays: {begins}");
        assert_eq!(Look::new(Span::ZERO).next(), Span::ZERO);
    }
}
