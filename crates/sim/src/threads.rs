//! Threads that end together: a panic in one of them comes out whole, and the others need not go on.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};

/// Does `work` on `threads` threads and waits for all of them. Where one panics this panics with what that one said; `stop`,
/// which `work` looks at, is set then.
pub fn on_each(threads: usize, stop: &AtomicBool, work: impl Fn() + Sync) {
    std::thread::scope(|scope| {
        let guarded = || {
            let _alarm = Alarm(stop);
            work();
        };
        let all: Vec<_> = (0..threads).map(|_| scope.spawn(guarded)).collect();
        for thread in all {
            if let Err(panic) = thread.join() {
                resume_unwind(panic);
            }
        }
    });
}

/// Sets its flag when the thread that has it panics.
pub struct Alarm<'a>(pub &'a AtomicBool);

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.store(true, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::catch_unwind;
    use std::sync::atomic::AtomicU32;

    #[test]
    fn a_panic_comes_out_whole_and_stops_the_others() {
        let said = catch_unwind(|| {
            let (stop, came) = (AtomicBool::new(false), AtomicU32::new(0));
            on_each(3, &stop, || {
                if came.fetch_add(1, Ordering::Relaxed) == 1 {
                    resume_unwind(Box::new(17_u8));
                }
                while !stop.load(Ordering::Relaxed) {
                    std::thread::yield_now();
                }
            });
        });
        assert_eq!(said.expect_err("it panics").downcast_ref::<u8>(), Some(&17));
    }
}
