//! The steps of a case, one after the other.

use super::{Broken, Session};
use crate::verify::case::{Step, When};

impl Session<'_> {
    /// Takes the steps, each when it comes; then all passes that is under way.
    pub(super) fn take_all(&mut self, steps: &[Step]) -> Result<(), Broken> {
        for step in steps {
            self.come_to(step.when)?;
            self.take(step.when, step.what.clone())?;
            if self.tally.not_created > 0 {
                return Ok(());
            }
        }
        self.pass_the_deal()?;
        self.wait()
    }

    fn come_to(&mut self, when: When) -> Result<(), Broken> {
        if let When::Within(span) = when {
            return self.pass_until((self.base + span).later(self.engine.now()));
        }
        self.pass_the_deal()?;
        match when {
            When::After(span) => {
                let next = self.base + span;
                while !self.may_arrive(next) {
                    self.step()?;
                }
                self.engine.advance(next.later(self.engine.now()));
                Ok(())
            }
            When::Events(count) => {
                for _ in 0..count {
                    if self.engine.next_at().is_none() && self.engine.sink().under_way() == 0 {
                        break;
                    }
                    self.step()?;
                }
                Ok(())
            }
            When::Idle => self.wait(),
            When::Now | When::Within(_) => Ok(()),
        }
    }
}
