//! The pace of emulated drives: the time that their models go by, and how late the host is.
//!
//! *Time of the model.* An end or a timer of a model is handled as of the moment for which it was set, although the reactor comes to it a
//! little later: the next operation of a die begins when the model says, so that what is late does not add up. A request of a client
//! comes when it is read from its socket.
//!
//! *Lateness* is how long after the moment that the model computed an end was answered: everything between is the host's, the wake-up of the
//! process, the turn of the reactor, the copy into the socket. Its figures are in `status`: as long as they are small beside the latencies of the model, the
//! clients see the model; where they are not, they see the host.
//!
//! *Sleeping.* The kernel wakes a thread late by its timer slack (50 us) and the way through its scheduler. The slack is set to the least;
//! waits that are shorter than that way are not slept but looped through.

use crate::clock::Clock;
use nandu_base::histogram::Histogram;
use nandu_base::{Instant, Span};
use serde_json::{Value, json};
use std::num::NonZeroU64;

/// Longest lateness that is told apart: ten seconds.
const LATE_MAX: u64 = 10_000_000_000;
/// A sleep is ended so much before its time, for the way back takes that long.
const WAY: Span = Span(20_000);

/// See the module's page.
pub(crate) struct Pace {
    time: Instant,
    /// When what ended in this turn was due.
    due: Vec<Instant>,
    late: Histogram,
    latest: Span,
}

impl Pace {
    pub fn new() -> Pace {
        // Without the right to set it ends are later, which the figures say.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        Pace { time: Instant::ZERO, due: Vec::new(), late: Histogram::new(LATE_MAX), latest: Span::ZERO }
    }

    /// The time of the model for something that was set for `at`: never before what has happened.
    pub fn model_time(&mut self, at: Instant) -> Instant {
        self.time = self.time.later(at);
        self.time
    }

    /// An end that was due at `at` is handled in this turn.
    pub fn ends(&mut self, at: Instant) {
        self.due.push(at);
    }

    /// What ended in this turn was answered.
    pub fn told(&mut self, clock: Clock) {
        if self.due.is_empty() {
            return;
        }
        let now = clock.now();
        for at in self.due.drain(..) {
            let late = now.since(at);
            self.late.record(late.0);
            self.latest = self.latest.longer(late);
        }
    }

    /// How long to sleep when nothing is due for `wait`.
    pub fn sleep(&self, wait: Span) -> Span {
        Span(wait.0.saturating_sub(WAY.0))
    }

    pub fn status(&self) -> Value {
        json!({
            "ends": self.late.len(),
            "p50_ns": self.late.value_at_quantile(0.5),
            "p99_ns": self.late.value_at_quantile(0.99),
            "max_ns": self.latest.0,
        })
    }
}
