//! Threads that do blocking file operations for one leaf.
//!
//! Each leaf has threads of its own: a device that stands still holds its own requests and nobody else's. They are
//! started when there is work for them, up to a limit, and take one job at a time. A thread that finds more jobs
//! behind its own wakes the next one, so that short jobs keep few threads busy and long ones spread.

use super::file_io::OpenFile;
use super::{BlockIo, Completions, Done};
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

/// A request and the file it goes to.
#[derive(Debug)]
pub(super) struct Job {
    pub io: BlockIo,
    pub file: Arc<OpenFile>,
}

#[derive(Debug, Default)]
struct State {
    queue: VecDeque<Job>,
    idle: usize,
    threads: usize,
    stop: bool,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    work: Condvar,
    completions: Arc<Completions>,
    node: u32,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn run(&self) {
        let mut state = self.state();
        loop {
            let Some(job) = state.queue.pop_front() else {
                if state.stop {
                    return;
                }
                state.idle += 1;
                state = self.work.wait(state).unwrap_or_else(std::sync::PoisonError::into_inner);
                state.idle -= 1;
                continue;
            };
            let more = !state.queue.is_empty() && state.idle > 0;
            drop(state);
            if more {
                self.work.notify_one();
            }
            let (id, result) = (job.io.id, job.file.perform(&job.io));
            drop(job); // the buffer is the request's alone again before anybody hears of the end
            self.completions.push(Done { node: self.node, id, result });
            state = self.state();
        }
    }
}

/// The threads of one leaf. Dropping it ends them once their queue is empty; it does not wait for them.
#[derive(Debug)]
pub(super) struct Workers {
    shared: Arc<Shared>,
    staged: Vec<Job>,
    most: usize,
}

impl Workers {
    /// At most `most` threads that report to `completions` as leaf `node`. None is started yet.
    pub fn new(node: u32, most: usize, completions: Arc<Completions>) -> Workers {
        let state = Mutex::new(State::default());
        let shared = Arc::new(Shared { state, work: Condvar::new(), completions, node });
        Workers { shared, staged: Vec::new(), most }
    }

    /// Adds a job to the batch that the next [`Workers::kick`] hands over.
    pub fn stage(&mut self, job: Job) {
        self.staged.push(job);
    }

    /// Hands the batch to the threads.
    pub fn kick(&mut self) {
        if self.staged.is_empty() {
            return;
        }
        let mut state = self.shared.state();
        state.queue.extend(self.staged.drain(..));
        let wanted = state.queue.len().saturating_sub(state.idle).min(self.most - state.threads);
        state.threads += wanted;
        let wake = state.idle > 0;
        drop(state);
        if wake {
            self.shared.work.notify_one();
        }
        (0..wanted).for_each(|_| self.start_thread());
    }

    /// A thread that cannot be started is done without, unless it is the first: then this one does the work.
    fn start_thread(&self) {
        let shared = Arc::clone(&self.shared);
        let name = format!("leg-{}", shared.node);
        if std::thread::Builder::new().name(name).spawn(move || shared.run()).is_ok() {
            return;
        }
        let mut state = self.shared.state();
        state.threads -= 1;
        if state.threads > 0 {
            return;
        }
        for Job { io, file } in std::mem::take(&mut state.queue) {
            let done = Done { node: self.shared.node, id: io.id, result: file.perform(&io) };
            drop(io);
            self.shared.completions.push(done);
        }
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.shared.state().stop = true;
        self.shared.work.notify_all();
    }
}
