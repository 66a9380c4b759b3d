//! What a flush may say after its device was lost.
//!
//! A device that was lost and came back may have forgotten what it had answered and nobody had flushed: a mirror whose one full leg went, a disk
//! with a cache whose cable did. A flush after that would succeed and the data not be there, and a client that had nothing under way
//! would never hear of it. So the first flush of each connection after a loss fails, if anything was written since the last flush that
//! succeeded. What the client does then is what it does after any flush that fails.
//!
//! A change counts from when it is sent. A flush covers those that had ended when it was sent, and no other: devices flush what they have
//! answered, so one that was under way beside the flush may be forgotten though both succeeded.

/// One export.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Unsure {
    /// Changes that were sent, how many of them have ended, and how many had when the last flush that succeeded was sent.
    sent: u64,
    ended: u64,
    flushed: u64,
    /// Losses with something unflushed, and how many of them somebody has heard of.
    losses: u32,
    told: u32,
}

impl Unsure {
    /// A change is sent.
    pub fn changes(&mut self) {
        self.sent += 1;
    }

    /// A change has ended, well or not.
    pub fn change_ended(&mut self) {
        self.ended += 1;
        debug_assert!(self.ended <= self.sent, "what ends was sent");
    }

    /// What a flush that is sent now covers.
    pub fn covered_now(&self) -> u64 {
        self.ended
    }

    /// Losses so far of which a flush has to tell.
    pub fn losses(&self) -> u32 {
        self.losses
    }

    /// The device was lost.
    pub fn lost(&mut self) {
        if self.sent > self.flushed {
            self.losses += 1;
        }
    }

    /// A flush that covers `covers` has succeeded below. Whether it may say so to a client that has heard of `heard` losses, which has heard
    /// of all then.
    pub fn flushed(&mut self, covers: u64, heard: &mut u32) -> bool {
        self.flushed = self.flushed.max(covers);
        let is_known = std::mem::replace(heard, self.losses) == self.losses;
        if !is_known {
            self.told = self.losses;
        }
        is_known
    }

    /// A flush of such a client has failed by itself: that tells it as well.
    pub fn flush_failed(&mut self, heard: &mut u32) {
        (*heard, self.told) = (self.losses, self.losses);
    }

    /// Whether there was a loss that no flush has told anybody of.
    pub fn is_untold(&self) -> bool {
        self.losses > self.told
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandu_base::Rng;

    fn change(export: &mut Unsure) {
        export.changes();
        export.change_ended();
    }

    #[test]
    fn the_first_flush_of_each_client_after_a_loss_fails() {
        let mut export = Unsure::default();
        let (mut one, mut other) = (0, 0);
        change(&mut export);
        export.lost();
        assert!(export.is_untold());
        assert!(!export.flushed(export.covered_now(), &mut one));
        assert!(!export.is_untold());
        assert!(export.flushed(export.covered_now(), &mut one));
        assert!(!export.flushed(export.covered_now(), &mut other));
        let mut later = export.losses();
        assert!(export.flushed(export.covered_now(), &mut later));
    }

    #[test]
    fn a_flush_that_fails_by_itself_tells_its_client() {
        let mut export = Unsure::default();
        let (mut one, mut other) = (0, 0);
        change(&mut export);
        export.lost();
        export.flush_failed(&mut one);
        assert!(!export.is_untold());
        assert!(export.flushed(export.covered_now(), &mut one));
        assert!(!export.flushed(export.covered_now(), &mut other));
    }

    #[test]
    fn nothing_unflushed_is_nothing_lost() {
        let (mut export, mut heard) = (Unsure::default(), 0);
        export.lost();
        change(&mut export);
        let covers = export.covered_now();
        assert!(export.flushed(covers, &mut heard));
        export.lost();
        assert!(export.flushed(covers, &mut heard));
        // A change behind the flush is not covered by it.
        let covers = export.covered_now();
        change(&mut export);
        assert!(export.flushed(covers, &mut heard));
        export.lost();
        assert!(!export.flushed(export.covered_now(), &mut heard));
    }

    #[test]
    fn a_flush_does_not_cover_what_is_under_way_beside_it() {
        let (mut export, mut heard) = (Unsure::default(), 0);
        export.changes();
        let covers = export.covered_now();
        assert!(export.flushed(covers, &mut heard), "nothing is lost yet");
        export.change_ended();
        export.lost();
        assert!(
            !export.flushed(export.covered_now(), &mut heard),
            "the change was answered, and may be forgotten"
        );
    }

    /// Against a model that remembers each change.
    #[test]
    fn a_flush_tells_of_a_loss_exactly_when_a_change_is_not_covered() {
        for seed in 0..200 {
            let mut rng = Rng::new(seed);
            let (mut export, mut heard) = (Unsure::default(), 0);
            // Those under way, those that ended since a flush that succeeded was sent; flushes under way with what they cover.
            let (mut flying, mut open): (Vec<u32>, Vec<u32>) = (vec![], vec![]);
            let mut flushes: Vec<(u64, Vec<u32>)> = vec![];
            let (mut next, mut doubt) = (0, false);
            for _ in 0..200 {
                match rng.below(5) {
                    0 => {
                        export.changes();
                        flying.push(next);
                        next += 1;
                    }
                    1 if !flying.is_empty() => {
                        export.change_ended();
                        open.push(flying.swap_remove(rng.below(flying.len() as u64) as usize));
                    }
                    2 => flushes.push((export.covered_now(), open.clone())),
                    3 if !flushes.is_empty() => {
                        let (covers, covered) = flushes.swap_remove(rng.below(flushes.len() as u64) as usize);
                        open.retain(|change| !covered.contains(change));
                        let says_so = export.flushed(covers, &mut heard);
                        assert_eq!(says_so, !std::mem::take(&mut doubt), "seed {seed}");
                    }
                    4 if rng.below(4) == 0 => {
                        export.lost();
                        doubt |= !open.is_empty() || !flying.is_empty();
                    }
                    _ => {}
                }
            }
        }
    }
}
