//! The time of a server: nanoseconds since it started, never backwards.

use nandu_base::Instant;

/// The monotonic clock of the operating system, counted from its making.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: std::time::Instant,
}

impl Clock {
    /// A clock that shows zero now.
    pub fn start() -> Clock {
        Clock { start: std::time::Instant::now() }
    }

    /// The time.
    #[inline]
    pub fn now(&self) -> Instant {
        Instant(self.start.elapsed().as_nanos() as u64)
    }
}
