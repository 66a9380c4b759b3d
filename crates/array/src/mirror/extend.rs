//! Extend: one more leg, while the mirror serves.
//!
//! The leg is added as one that is out, and what comes in its place must hold no records. So nothing changes on the others before it is there;
//! then it joins as a blank one does ([`super::join`]): they say durably of how many legs the mirror is, together with the fresh generation that
//! a return begins with, and the new leg takes the number behind theirs. A cut before that leaves a mirror that knows nothing of it, and starts without it
//! although the stack file names it ([`super::decide`]); a cut while some say so and some do not leaves those in force that were.
//!
//! What the mirror is for those above it stays: the new leg must take every request that the others take.

use super::layout::{Layout, Superblock};
use super::leg::Leg;
use super::member::Proc;
use super::outbox::Outbox;
use super::region_map::Bits;
use super::{MAX_LEGS, Mirror, delay::Pace, lag::Lag};
use crate::member::set::{Seat, Set, refuse};
use nandu_base::{AdminError, Cx, Limits};

impl Mirror {
    pub(super) fn ask_extend(&mut self, name: String, cx: &Cx<'_>) -> Result<(), AdminError> {
        if self.policy.lists_lost {
            return refuse("a hetero-mirror has exactly two legs", "a `mirror` takes up to 8");
        }
        if self.legs.len() == MAX_LEGS {
            return refuse(format!("a mirror has at most {MAX_LEGS} legs"), "replace one of them");
        }
        if !self.is_whole() || self.lacks_some() || self.proc != Proc::None {
            return refuse("the legs are not equal", "wait until it is healthy");
        }
        if self.scrub.course.pass.is_some() {
            return refuse("a scrub is under way", "wait for its end, or say `scrub DEVICE stop`");
        }
        let child = self.legs.len() as u8;
        let layout = self.fitting(&name, cx.peek.limits(child))?;
        self.take_in(name, layout);
        Ok(())
    }

    /// Where the records of a new leg lie, if it takes what the others take.
    fn fitting(&self, name: &str, limits: &Limits) -> Result<Layout, AdminError> {
        let why_not =
            |why: String, remedy| Err(AdminError::Refused { why: format!("leg `{name}` {why}"), remedy });
        if limits.erase_unit.is_some() || limits.program_order {
            return why_not("cannot be overwritten in place".into(), "name a device that can");
        }
        let own = &self.limits;
        let is_narrower =
            limits.align > own.align || limits.dma_align > own.dma_align || limits.max_io < own.max_io;
        if is_narrower || limits.volatile_cache && !own.volatile_cache {
            return why_not(
                "does not take all requests that the others take".into(),
                "name a device like them",
            );
        }
        let least = self.layouts.iter().map(|layout| layout.leg).min().unwrap_or_default();
        match Layout::of(limits.capacity, self.shift).filter(|layout| layout.data >= own.capacity) {
            Some(layout) => Ok(layout),
            None => why_not(
                format!("has {}, and {least} are needed", limits.capacity),
                "name a device as large as the smallest of the others",
            ),
        }
    }

    /// One more leg, which is out, and blank when it comes.
    fn take_in(&mut self, name: String, layout: Layout) {
        let known = self.legs[self.leader].sb;
        let blank = Superblock {
            leg: self.legs.len() as u8,
            strict: known.strict,
            served: known.served,
            members: known.members,
            ..layout.blank_record(self.shift)
        };
        self.legs.push(Leg::new(&layout, self.region_count, blank));
        self.layouts.push(layout);
        self.roster.push(Seat::awaited(name));
        self.stale.push(Bits::new(self.region_count));
        self.lag.push(Lag::default());
        self.paces.push(Pace::new());
        self.outbox.push(Outbox::default());
        // As when a leg leaves: it lacks what is in use. What is under way goes on to the others.
        self.mark_all_stale();
        self.regions.add_leg();
        self.stop_clear();
        self.stir();
    }
}
