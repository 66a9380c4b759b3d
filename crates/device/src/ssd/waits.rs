//! What a request waited for when its map is partly on the flash: entries first, then the page that is complete last.

use crate::nand::PageTime;
use crate::nand::lanes::Timing;
use nandu_base::{CriticalPath, Instant, Phase};

/// The page of a request that is complete last, when its entry of the map had to be waited for.
pub(super) struct Waits {
    /// When the entry was there.
    ready: Instant,
    premerge: Option<PageTime>,
    time: PageTime,
}

/// The same for requests of whole pages: none is read before it is written.
#[derive(Clone, Copy)]
pub(super) struct Slowest {
    ready: Instant,
    time: PageTime,
}

impl Slowest {
    #[inline(always)]
    pub fn none(now: Instant) -> Slowest {
        Slowest { ready: now, time: PageTime::done(now) }
    }

    pub fn end(&self) -> Instant {
        self.time.end
    }

    /// An entry came at `ready`, and nothing more was to do.
    #[inline(always)]
    pub fn map_only(&mut self, ready: Instant) {
        if ready > self.time.end {
            *self = Slowest::none(ready);
        }
    }

    /// An entry came at `ready`, and the page was complete at `time`.
    #[inline(always)]
    pub fn note(&mut self, ready: Instant, time: PageTime) {
        if time.end > self.time.end {
            *self = Slowest { ready, time };
        }
    }

    #[inline(always)]
    pub fn explain_read(&self, now: Instant, timing: &Timing, path: &mut CriticalPath) {
        path.add(Phase::Map, self.ready.since(now));
        if self.time.end > self.ready {
            self.time.read_path(self.ready, timing, path);
        }
    }

    #[inline(always)]
    pub fn explain_write(&self, now: Instant, timing: &Timing, path: &mut CriticalPath) {
        path.add(Phase::Map, self.ready.since(now));
        self.time.program_path(self.ready, timing, path);
    }
}

impl Waits {
    pub fn none(now: Instant) -> Waits {
        Waits { ready: now, premerge: None, time: PageTime::done(now) }
    }

    pub fn end(&self) -> Instant {
        self.time.end
    }

    /// An entry came at `ready`, and nothing more was to do.
    pub fn map_only(&mut self, ready: Instant) {
        if ready > self.time.end {
            *self = Waits::none(ready);
        }
    }

    /// An entry came at `ready`, the page was perhaps read, and was complete at `time`.
    pub fn note(&mut self, ready: Instant, premerge: Option<PageTime>, time: PageTime) {
        if time.end > self.time.end {
            *self = Waits { ready, premerge, time };
        }
    }

    pub fn explain_write(&self, now: Instant, timing: &Timing, path: &mut CriticalPath) {
        path.add(Phase::Map, self.ready.since(now));
        if self.time.end > self.ready {
            if let Some(read) = &self.premerge {
                read.read_path(self.ready, timing, path);
            }
            self.time.program_path(self.premerge.map_or(self.ready, |read| read.end), timing, path);
        }
    }
}
