//! How long operations take, and when one page's ran.

use nandu_base::{CriticalPath, Instant, Phase, Span};

/// Time of each operation on one page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timing {
    /// tR: array to register.
    pub read: Span,
    /// tPROG: register to array.
    pub program: Span,
    /// tBERS: one block.
    pub erase: Span,
    /// tX: one page over the channel.
    pub transfer: Span,
    /// Whether moves stay inside the die.
    pub copyback: bool,
}

/// When one page's operation runs. What it waited for follows from it: see [`PageTime::read_path`] and
/// [`PageTime::program_path`].
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct PageTime {
    /// The die begins: to sense, or to take the data in.
    pub start: Instant,
    /// The page begins to cross the channel.
    pub bus: Instant,
    /// The page is complete.
    pub end: Instant,
    /// Garbage collection in the die's busy period when the operation was issued.
    pub(crate) gc: Span,
}

impl PageTime {
    /// A page that was complete at `now`.
    #[inline]
    pub fn done(now: Instant) -> PageTime {
        PageTime { start: now, bus: now, end: now, gc: Span::ZERO }
    }

    /// Adds the phases of a read that was issued at `now`. They add up to `end - now`.
    pub fn read_path(&self, now: Instant, timing: &Timing, path: &mut CriticalPath) {
        self.wait(now, path);
        path.add(Phase::FlashRead, timing.read);
        path.add(Phase::Queue, self.bus.since(self.start) - timing.read);
        path.add(Phase::Bus, timing.transfer);
    }

    /// Adds the phases of a program whose data was there at `now`. They add up to `end - now`.
    pub fn program_path(&self, now: Instant, timing: &Timing, path: &mut CriticalPath) {
        self.wait(now, path);
        path.add(Phase::Bus, timing.transfer);
        path.add(Phase::Program, timing.program);
    }

    fn wait(&self, now: Instant, path: &mut CriticalPath) {
        let wait = self.start.since(now);
        let gc = Span(wait.0.min(self.gc.0));
        path.add(Phase::Gc, gc);
        path.add(Phase::Queue, wait - gc);
    }
}
