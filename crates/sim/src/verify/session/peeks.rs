//! Power cuts beside the run: a copy of the media is cut and started, everything is read from it, and the run goes on as if nothing had been.
//!
//! A power cut ends what had built up: full rings, blocks that are collected, long journals. A cut beside the run does not, so there may be
//! many of them in one run, and at the moments when most is under way. Stacks whose faults are drawn are left out: a start that meets one
//! shows nothing.

use super::{Broken, Session};
use crate::engine::Engine;
use nandu_base::{Content, Instant, Rng, Span};

impl Session<'_> {
    /// Cuts the power of a copy so many nanoseconds after the last event, at most at the next.
    pub(super) fn may_peek(&mut self, at: i64, rng: &mut Rng) -> Result<(), Broken> {
        let now = self.engine.now();
        let next = self.engine.next_at().filter(|&next| next > now);
        let Some(next) = next.filter(|_| !self.watch.has_faults()) else { return Ok(()) };
        self.peek(Instant(now.0.saturating_add_signed(at)).min(next), rng)
    }

    /// What a power cut at `at` would leave starts, and has what it must have.
    fn peek(&mut self, at: Instant, rng: &mut Rng) -> Result<(), Broken> {
        self.check()?;
        let mut media = self.engine.media_after_a_cut(at, rng);
        let judge = self.engine.sink().after_a_cut();
        let (lengths, served) = (self.lengths.clone(), self.entries[0].limits.capacity);
        let built = self.rebuilt(&mut media, &[]);
        let engine = Engine::new(built, media, Content::Stamps, judge, at + Span::from_ms(1));
        let engine = std::mem::replace(&mut self.engine, engine);
        let (watch, spaces, since) = (self.watch.clone(), self.spaces.clone(), self.since);
        let before = (self.tally, self.quiet_for, self.answers, self.wipe);
        self.watch.restart();
        (self.quiet_for, self.answers) = (0, self.engine.sink().answers);
        let found = self.start(&mut u64::MAX.clone()).and_then(|started| match started {
            true => self.read_everything(),
            false => Ok(()),
        });
        (self.engine, self.watch, self.spaces, self.since) = (engine, watch, spaces, since);
        (self.lengths, self.entries[0].limits.capacity) = (lengths, served);
        // What the start of the copy had to be told is no word to the next start of the original.
        (self.tally, self.quiet_for, self.answers, self.wipe) = before;
        self.tally.peeks += 1;
        found.map_err(|broken| Broken {
            what: format!("{}; after a power cut at {} ns beside the run", broken.what, at.0),
            ..broken
        })
    }
}
