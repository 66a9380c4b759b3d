//! The queue of ready work: what events have made possible, and nothing has looked at yet.
//!
//! An event says which jobs it may have made ready. They are done in the order of their numbers, pass by pass, and may make others ready:
//! one with a higher number still in this pass, any other in the next. A job that finds nothing to do is done. So the order in which an array
//! acts does not depend on the order in which its events say so.
//!
//! Cost: a bit for each job.

use nandu_base::{Cx, Instant};
use std::collections::VecDeque;

/// Something that is done when an event has made it possible.
pub(crate) trait Job: Copy + 'static {
    /// All of them, in the order in which they are done; the place of each is its number.
    const ALL: &'static [Self];
    /// Its place in the order.
    fn number(self) -> u32;
}

/// The jobs of an array, in the order in which they are done.
macro_rules! jobs {
    ($(#[$about:meta])* $name:ident { $($(#[$doc:meta])* $job:ident,)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[repr(u8)]
        pub(crate) enum $name {
            $($(#[$doc])* $job,)*
        }

        impl $crate::member::work::Job for $name {
            const ALL: &'static [$name] = &[$($name::$job),*];

            #[inline]
            fn number(self) -> u32 {
                self as u32
            }
        }
    };
}
pub(crate) use jobs;

/// What may be ready.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Work<J> {
    /// One bit for each job.
    jobs: u32,
    /// Operations whose extent was granted, and that were not begun.
    pub(crate) granted: VecDeque<u32>,
    kind: std::marker::PhantomData<J>,
}

impl<J: Job> Work<J> {
    /// Nothing.
    pub(crate) fn none() -> Work<J> {
        Work { jobs: 0, granted: VecDeque::new(), kind: std::marker::PhantomData }
    }

    /// The job may be ready.
    #[inline]
    pub(crate) fn add(&mut self, job: J) {
        self.jobs |= 1 << job.number();
    }

    /// These jobs may be ready.
    pub(crate) fn add_each(&mut self, jobs: &[J]) {
        jobs.iter().for_each(|&job| self.add(job));
    }

    /// Every job may be ready: who is a member has changed, or what all of them look at.
    pub(crate) fn add_all(&mut self) {
        self.jobs = (1 << J::ALL.len()) - 1;
    }

    /// Whether nothing is ready.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.jobs == 0 && self.granted.is_empty()
    }

    /// The first job from number `from` on that is ready, which is ready no more.
    #[inline]
    pub(crate) fn take(&mut self, from: u32) -> Option<J> {
        let left = self.jobs >> from << from;
        let number = left.trailing_zeros();
        self.jobs &= !(left & left.wrapping_neg());
        (left != 0).then(|| J::ALL[number as usize])
    }
}

/// An array that works off what events have made possible.
pub(crate) trait Worker {
    /// What it does.
    type Job: Job + std::fmt::Debug;

    /// What may be ready.
    fn work(&mut self) -> &mut Work<Self::Job>;
    /// Begins an operation that has its extent.
    fn begin_granted(&mut self, operation: u32, cx: &mut Cx<'_>);
    /// Does the job as far as it goes.
    fn work_off(&mut self, job: Self::Job, cx: &mut Cx<'_>);

    /// What is looked at behind all else that was done, whether or not it was said to be ready.
    fn looks_always_at(&self) -> &'static [Self::Job] {
        &[]
    }

    /// Whether a timer is due that has not come: what it makes ready it says then.
    fn awaits_timer(&self, _now: Instant) -> bool {
        false
    }

    /// Does what events have made possible, until nothing more is.
    fn advance(&mut self, cx: &mut Cx<'_>) {
        let always = self.looks_always_at();
        self.work().add_each(always);
        while !self.work().is_empty() {
            while let Some(operation) = self.work().granted.pop_front() {
                self.begin_granted(operation, cx);
            }
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
        if cfg!(debug_assertions) {
            self.has_forgotten_nothing(cx);
        }
    }

    /// No event has left work behind that it did not announce: every job finds nothing to do. Looked at after each event where assertions
    /// are on.
    fn has_forgotten_nothing(&mut self, cx: &mut Cx<'_>) {
        if self.awaits_timer(cx.now) {
            return;
        }
        let effects = cx.effects.len();
        for &job in Self::Job::ALL {
            self.work_off(job, cx);
            assert!(
                cx.effects.len() == effects && self.work().is_empty(),
                "work_is_announced: {job:?} was ready, and no event had said so: {:?}",
                &cx.effects[effects..]
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    jobs! {
        Numbered { A, B, C, D, E, F, }
    }

    proptest! {
        /// The obvious model: a sorted set, walked from the front, that grows while it is walked.
        #[test]
        fn a_pass_is_a_walk_over_a_sorted_set(first in prop::collection::vec(0u32..6, 0..8), more in prop::collection::vec(0u32..6, 6)) {
            let mut work = Work::none();
            let mut model: std::collections::BTreeSet<u32> = first.iter().copied().collect();
            first.iter().for_each(|&job| work.add(Numbered::ALL[job as usize]));
            let mut from = 0;
            while let Some(job) = work.take(from) {
                let next = *model.range(from..).next().expect("the model has one too");
                prop_assert_eq!(job.number(), next);
                model.remove(&next);
                from = next + 1;
                // Each job makes one other ready.
                work.add(Numbered::ALL[more[next as usize] as usize]);
                model.insert(more[next as usize]);
            }
            prop_assert_eq!(model.range(from..).next(), None);
            prop_assert_eq!(work.is_empty(), model.is_empty());
        }
    }

    #[test]
    fn all_of_them_are_all_of_them() {
        let mut work: Work<Numbered> = Work::none();
        work.add_all();
        let mut from = 0;
        for expected in Numbered::ALL {
            assert_eq!(work.take(from), Some(*expected));
            from = expected.number() + 1;
        }
        assert!(work.is_empty() && work.take(0).is_none());
    }
}
