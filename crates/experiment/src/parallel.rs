//! Independent runs on all cores, results in the order of the work.

use nandu_sim::threads::on_each;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Runs `work` on every item, on at most `threads` threads. The results are in the order of the items.
pub fn map<I: Sync, O: Send>(items: &[I], threads: usize, work: impl Fn(&I) -> O + Sync) -> Vec<O> {
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<Option<O>>> = Mutex::new(items.iter().map(|_| None).collect());
    let stop = AtomicBool::new(false);
    on_each(threads.clamp(1, items.len().max(1)), &stop, || {
        while !stop.load(Ordering::Relaxed) {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(index) else { return };
            let output = work(item);
            done.lock().expect("no worker panics with the lock")[index] = Some(output);
        }
    });
    let done = done.into_inner().expect("no worker panics with the lock");
    done.into_iter().map(|o| o.expect("every item was worked on")).collect()
}

/// Cores that may be used.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

#[cfg(test)]
mod tests {
    #[test]
    fn results_keep_the_order_of_the_work() {
        let items: Vec<u64> = (0..100).collect();
        assert_eq!(super::map(&items, 4, |n| n * n), items.iter().map(|n| n * n).collect::<Vec<_>>());
        assert!(super::map(&[] as &[u64], 4, |n| *n).is_empty());
    }
}
