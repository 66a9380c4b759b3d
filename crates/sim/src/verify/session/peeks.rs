//! Power cuts beside the run: a copy of the media is cut and started, everything is read from it, and the run goes on as if nothing had been.
//!
//! A power cut ends what had built up: full rings, blocks that are collected, long journals. A cut beside the run does not, so there may be
//! many of them in one run, and at the moments when most is under way. Stacks whose faults are drawn are left out: a start that meets one
//! shows nothing.

use super::{Broken, Session};
use crate::engine::Engine;
use crate::verify::plan::Plan;
use nandu_base::{Content, Instant, Rng, Span, Window};

/// Cuts beside the run that are still to come.
#[derive(Debug)]
pub(super) struct Peeks {
    left: u32,
    /// One in so many moments at which something is erased is one of them.
    one_in: u64,
    rng: Rng,
}

impl Peeks {
    pub fn new(plan: &Plan) -> Peeks {
        Peeks { left: plan.peeks, one_in: plan.peek_one_in, rng: Rng::new(plan.seed).fork(11) }
    }
}

impl Session<'_> {
    /// Now and then cuts the power of a copy: more often while something is being erased.
    pub(super) fn may_peek(&mut self) -> Result<(), Broken> {
        if self.peeks.left == 0 || self.watch.has_faults() {
            return Ok(());
        }
        let (now, next) = (self.engine.now(), self.engine.next_at());
        let Some(next) = next.filter(|&next| next > now) else { return Ok(()) };
        let erasing = self.engine.erasing();
        let one_in = if erasing.is_some() { self.peeks.one_in } else { 16 * self.peeks.one_in };
        if self.peeks.rng.below(one_in) > 0 {
            return Ok(());
        }
        self.peeks.left -= 1;
        let Window { start, end } = erasing.unwrap_or(Window { start: now, end: next });
        let at = start + Span(1 + self.peeks.rng.below(end.since(start).0));
        self.peek(at.min(next))
    }

    /// What a power cut at `at` would leave starts, and has what it must have.
    fn peek(&mut self, at: Instant) -> Result<(), Broken> {
        self.check()?;
        let media = self.engine.media_after_a_cut(at, &mut self.peeks.rng);
        let judge = self.engine.sink().after_a_cut();
        let engine = Engine::new(self.rebuilt(), media, Content::Stamps, judge, at + Span::from_ms(1));
        let engine = std::mem::replace(&mut self.engine, engine);
        let (watch, spaces, rng) = (self.watch.clone(), self.spaces.clone(), self.rng.clone());
        let before = (self.tally, self.quiet_for, self.answers);
        self.watch.restart();
        (self.quiet_for, self.answers) = (0, self.engine.sink().answers);
        let found = self.start(&mut u64::MAX.clone()).and_then(|started| match started {
            true => self.read_everything(),
            false => Ok(()),
        });
        (self.engine, self.watch, self.spaces, self.rng) = (engine, watch, spaces, rng);
        (self.tally, self.quiet_for, self.answers) = before;
        self.tally.peeks += 1;
        found.map_err(|broken| Broken {
            what: format!("{}; after a power cut at {} ns beside the run", broken.what, at.0),
            ..broken
        })
    }
}
