//! The queue of ready work: what events have made possible, and nothing has looked at yet.
//!
//! An event says which jobs it may have made ready. They are done in the order of their numbers, pass by pass, and may make others ready:
//! one with a higher number still in this pass, any other in the next. A job that finds nothing to do is done. So the order in which an array
//! acts does not depend on the order in which its events say so.
//!
//! Cost: a bit for each job.

use nandu_base::{Cx, Instant};

/// Something that is done when an event has made it possible.
pub(crate) trait Job: Copy + 'static {
    /// All of them, in the order in which they are done; the place of each is its number.
    const ALL: &'static [Self];
    /// Its place in the order.
    fn number(self) -> u32;
}

/// The jobs that may be ready.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Work<J>(u32, std::marker::PhantomData<J>);

impl<J: Job> Work<J> {
    /// None.
    pub(crate) const NONE: Work<J> = Work(0, std::marker::PhantomData);

    /// The job may be ready.
    #[inline]
    pub(crate) fn add(&mut self, job: J) {
        self.0 |= 1 << job.number();
    }

    /// These jobs may be ready.
    pub(crate) fn add_each(&mut self, jobs: &[J]) {
        jobs.iter().for_each(|&job| self.add(job));
    }

    /// Every job may be ready: who is a member has changed, or what all of them look at.
    pub(crate) fn add_all(&mut self) {
        self.0 = (1 << J::ALL.len()) - 1;
    }

    /// Whether no job is.
    #[inline]
    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The first job from number `from` on that is ready, which is ready no more.
    #[inline]
    pub(crate) fn take(&mut self, from: u32) -> Option<J> {
        let left = self.0 >> from << from;
        let number = left.trailing_zeros();
        self.0 &= !(left & left.wrapping_neg());
        (left != 0).then(|| J::ALL[number as usize])
    }
}

/// An array that works off what events have made possible.
pub(crate) trait Worker {
    /// What it does.
    type Job: Job + std::fmt::Debug;

    /// What may be ready.
    fn work(&mut self) -> &mut Work<Self::Job>;
    /// Whether some operation has its extent and was not begun.
    fn has_granted(&self) -> bool;
    /// Begins the operations that have their extent.
    fn begin_granted(&mut self, cx: &mut Cx<'_>);
    /// Does the job as far as it goes.
    fn work_off(&mut self, job: Self::Job, cx: &mut Cx<'_>);

    /// What is looked at behind all else that was done, whether or not it was said to be ready.
    fn looks_always_at(&self) -> &'static [Self::Job] {
        &[]
    }

    /// Whether a timer comes at this very instant: what it makes ready it says then.
    fn awaits_timer(&self, _now: Instant) -> bool {
        false
    }

    /// Does what events have made possible, until nothing more is.
    fn advance(&mut self, cx: &mut Cx<'_>) {
        let always = self.looks_always_at();
        self.work().add_each(always);
        while !self.work().is_empty() || self.has_granted() {
            self.begin_granted(cx);
            let (mut from, mut again) = (0, false);
            while let Some(job) = self.work().take(from) {
                self.work_off(job, cx);
                from = job.number() + 1;
                again |= !always.iter().any(|other| other.number() == job.number());
            }
            if again {
                self.work().add_each(always);
            }
        }
        #[cfg(debug_assertions)]
        self.has_forgotten_nothing(cx);
    }

    /// No event has left work behind that it did not announce: every job finds nothing to do. Looked at after each event where assertions
    /// are on.
    #[cfg(debug_assertions)]
    fn has_forgotten_nothing(&mut self, cx: &mut Cx<'_>) {
        if self.awaits_timer(cx.now) {
            return;
        }
        let effects = cx.effects.len();
        for &job in Self::Job::ALL {
            self.work_off(job, cx);
            assert!(
                cx.effects.len() == effects && self.work().is_empty() && !self.has_granted(),
                "work_is_announced: {job:?} was ready, and no event had said so"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    struct Numbered(u32);

    impl Job for Numbered {
        const ALL: &'static [Numbered] =
            &[Numbered(0), Numbered(1), Numbered(2), Numbered(3), Numbered(4), Numbered(5)];
        fn number(self) -> u32 {
            self.0
        }
    }

    proptest! {
        /// The obvious model: a sorted set, walked from the front, that grows while it is walked.
        #[test]
        fn a_pass_is_a_walk_over_a_sorted_set(first in prop::collection::vec(0u32..6, 0..8), more in prop::collection::vec(0u32..6, 6)) {
            let mut work = Work::NONE;
            let mut model: std::collections::BTreeSet<u32> = first.iter().copied().collect();
            first.iter().for_each(|&job| work.add(Numbered(job)));
            let mut from = 0;
            while let Some(job) = work.take(from) {
                let next = *model.range(from..).next().expect("the model has one too");
                prop_assert_eq!(job.0, next);
                model.remove(&next);
                from = next + 1;
                // Each job makes one other ready.
                work.add(Numbered(more[next as usize]));
                model.insert(more[next as usize]);
            }
            prop_assert_eq!(model.range(from..).next(), None);
            prop_assert_eq!(work.is_empty(), model.is_empty());
        }
    }

    #[test]
    fn all_of_them_are_all_of_them() {
        let mut work: Work<Numbered> = Work::NONE;
        work.add_all();
        let mut from = 0;
        for expected in Numbered::ALL {
            assert_eq!(work.take(from), Some(*expected));
            from = expected.0 + 1;
        }
        assert!(work.is_empty() && work.take(0).is_none());
    }
}
