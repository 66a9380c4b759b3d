//! Threads that do blocking file operations for one leaf.
//!
//! Each leaf has threads of its own: a device that stands still holds its own requests and nobody else's. They are
//! started when there is work for them, up to a limit. A thread that finds more work than its own wakes the next one.
//!
//! *Plain writes to the page cache* are short and take turns in the kernel anyway (one lock for each file): one thread
//! does a batch of them, and the reactor is woken once. A batch that takes longer than expected reports what it has.

use super::file_io::OpenFile;
use super::twin::Twin;
use super::{BlockIo, Completions, Done, Failure};
use nandu_base::Op;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// A request and the file it goes to.
#[derive(Debug)]
pub(super) struct Job {
    pub io: BlockIo,
    pub file: Arc<OpenFile>,
    /// The file to which the leg moves; changes are done to both.
    pub twin: Option<Arc<Twin>>,
    /// Held as long as the job is under way.
    pub _token: Arc<()>,
}

impl Job {
    fn perform(&self) -> Result<(), Failure> {
        match &self.twin {
            Some(twin) if self.io.op != Op::Read => twin.change(&self.file, &self.io),
            _ => self.file.perform(&self.io),
        }
    }
}

/// Plain writes in one batch.
const BATCH: usize = 32;
/// A batch reports what it has when this much time has passed.
const REPORT_AFTER: Duration = Duration::from_micros(200);

#[derive(Debug, Default)]
struct State {
    /// Jobs of which each may take long.
    long: VecDeque<Job>,
    /// Plain writes to the page cache.
    short: VecDeque<Job>,
    /// A thread is busy with plain writes.
    writing: bool,
    idle: usize,
    threads: usize,
    stop: bool,
}

impl State {
    /// Threads that would find work now.
    fn openings(&self) -> usize {
        self.long.len() + usize::from(!self.writing && !self.short.is_empty())
    }
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
        let (mut batch, mut done) = (Vec::with_capacity(BATCH), Vec::with_capacity(BATCH));
        let mut state = self.state();
        loop {
            let writes = !state.writing && !state.short.is_empty();
            if writes {
                state.writing = true;
                let count = state.short.len().min(BATCH);
                batch.extend(state.short.drain(..count));
            } else if let Some(job) = state.long.pop_front() {
                batch.push(job);
            } else if state.stop {
                return;
            } else {
                state.idle += 1;
                state = self.work.wait(state).unwrap_or_else(std::sync::PoisonError::into_inner);
                state.idle -= 1;
                continue;
            }
            let more = state.idle > 0 && state.openings() > 0;
            drop(state);
            if more {
                self.work.notify_one();
            }
            self.perform(&mut batch, &mut done);
            state = self.state();
            state.writing &= !writes;
        }
    }

    fn perform(&self, batch: &mut Vec<Job>, done: &mut Vec<Done>) {
        let mut start = Instant::now();
        for job in batch.drain(..) {
            let (id, result) = (job.io.id, job.perform());
            // The buffer is the request's alone again, and the file may be free, before anybody hears of the end.
            drop(job);
            done.push(Done { node: self.node, id, result });
            if start.elapsed() > REPORT_AFTER {
                self.completions.push(done);
                start = Instant::now();
            }
        }
        self.completions.push(done);
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
        for job in self.staged.drain(..) {
            let queue = if job.file.is_short(&job.io) { &mut state.short } else { &mut state.long };
            queue.push_back(job);
        }
        let wanted = state.openings().saturating_sub(state.idle).min(self.most - state.threads);
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
        let mut left: Vec<Job> = state.short.drain(..).collect();
        left.extend(state.long.drain(..));
        drop(state);
        self.shared.perform(&mut left, &mut Vec::new());
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.shared.state().stop = true;
        self.shared.work.notify_all();
    }
}
