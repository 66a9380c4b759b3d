//! What a flush may say after its device was lost.
//!
//! A device that was lost and came back may have forgotten what it had answered and nobody had flushed: a mirror whose one full leg went, a disk
//! with a cache whose cable did. A flush after that would succeed and the data not be there, and a client that had nothing under way
//! would never hear of it. So the first flush of each connection after a loss fails, if anything was written since the last flush that
//! succeeded. What the client does then is what it does after any flush that fails.
//!
//! A write counts from when it is sent: one that is under way at the loss fails by itself, and the flush too.

/// One export.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Unsure {
    /// Changes that were sent, and how many of them a flush that succeeded came after.
    sent: u64,
    flushed: u64,
    /// Losses with something unflushed.
    losses: u32,
}

impl Unsure {
    /// A change is sent.
    pub fn changes(&mut self) {
        self.sent += 1;
    }

    /// What a flush that is sent now covers.
    pub fn covered_now(&self) -> u64 {
        self.sent
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
        std::mem::replace(heard, self.losses) == self.losses
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_flush_of_each_client_after_a_loss_fails() {
        let mut export = Unsure::default();
        let (mut one, mut other) = (0, 0);
        export.changes();
        export.lost();
        assert!(!export.flushed(export.covered_now(), &mut one));
        assert!(export.flushed(export.covered_now(), &mut one));
        assert!(!export.flushed(export.covered_now(), &mut other));
        let mut later = export.losses();
        assert!(export.flushed(export.covered_now(), &mut later));
    }

    #[test]
    fn nothing_unflushed_is_nothing_lost() {
        let (mut export, mut heard) = (Unsure::default(), 0);
        export.lost();
        export.changes();
        let covers = export.covered_now();
        assert!(export.flushed(covers, &mut heard));
        export.lost();
        assert!(export.flushed(covers, &mut heard));
        // A change behind the flush is not covered by it.
        let covers = export.covered_now();
        export.changes();
        assert!(export.flushed(covers, &mut heard));
        export.lost();
        assert!(!export.flushed(export.covered_now(), &mut heard));
    }
}
