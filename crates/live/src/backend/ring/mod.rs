//! File operations by io_uring, for all file legs of a server.
//!
//! Requests become calls of the kernel: a read or write one, more if it does only a part; a flush one that looks whether the file still has a name
//! and one that syncs; a trim or write-zeroes one for each way in which the file system may do it. Those of one turn of the reactor are handed over
//! by one system call, and their ends make the descriptor of the [`Completions`](super::Completions) readable. What is done, and what an error means, is the same as in
//! [`super::file_io`], call by call.
//!
//! *Legs.* The kernel has threads for calls that sleep. A leg has at most [`DEPTH`] calls in the kernel, and the kernel may have that many threads
//! for each leg: a device that stands still holds its own requests and nobody else's. What is more waits here.
//!
//! *Flushes* of one file go on beside each other. One that has succeeded waits for those that were under way when it ended ([`super::syncs`]).
//!
//! *The end.* A ring that is dropped leaves its calls to a thread that waits for them: buffers live, and files stay locked, until the kernel is
//! done with them.

mod kernel;
#[cfg(test)]
mod tests;

use super::file_io::{OpenFile, Tried, failure, unsupported};
use super::syncs::Turn;
use super::{BlockIo, Done, Failure};
use kernel::Kernel;
use nandu_base::Op;
use nandu_base::bytebuf::ByteBuf;
use rustix::fs::FallocateFlags;
use rustix::io::Errno;
use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Calls of one leg in the kernel at a time.
const DEPTH: u32 = 64;
/// Calls that one system call hands over at most.
const ENTRIES: u32 = 256;

/// What the kernel is asked next for a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    /// Read or write its data.
    Transfer,
    /// Make its extent zeros in this way.
    Clear(FallocateFlags),
    /// Write zeros.
    Zeros,
    /// Look whether the file still has a name.
    Look,
    /// Make the file durable.
    Sync,
}

/// A request on its way.
#[derive(Debug)]
pub(super) struct Task {
    node: u32,
    io: BlockIo,
    file: Arc<OpenFile>,
    /// Held as long as the request is under way.
    _token: Arc<()>,
    step: Step,
    /// Bytes that are done.
    at: u64,
    /// The call said that it would sleep, and was told that it may.
    sleeps: bool,
    /// What was seen of the file.
    seen: Option<Arc<ByteBuf>>,
    /// It is a sync, or will be.
    turn: Option<Turn>,
}

impl Task {
    /// A request of leaf `node` to a file. `token` is held as long as it is under way.
    pub fn new(node: u32, io: BlockIo, file: Arc<OpenFile>, token: Arc<()>) -> Task {
        let step = match (io.op, &io.data) {
            (Op::Read, _) | (Op::Write, Some(_)) => Step::Transfer,
            (Op::Trim, _) => Step::Clear(FallocateFlags::PUNCH_HOLE),
            (Op::Flush | Op::Reset, _) => Step::Look,
            (Op::Write | Op::WriteZeroes, _) => Step::Clear(FallocateFlags::ZERO_RANGE),
        };
        Task { node, io, file, _token: token, step, at: 0, sleeps: false, seen: None, turn: None }
    }

    /// The end of what needs no call.
    fn end_without_call(&self) -> Option<Result<(), Failure>> {
        if self.file.is_given_up() {
            return Some(Err(Failure::gone(self.io.len)));
        }
        let is_empty =
            self.step == Step::Transfer && self.io.data.as_ref().is_none_or(|data| data.is_empty());
        match self.io.op {
            Op::Reset => Some(Err(unsupported(&self.io))),
            _ => is_empty.then_some(Ok(())),
        }
    }

    /// A sync begins with this call.
    fn take_turn(&mut self) {
        let syncs =
            self.step == Step::Sync || self.step == Step::Transfer && self.io.op == Op::Write && self.io.fua;
        if syncs && self.turn.is_none() {
            self.turn = Some(self.file.syncs.begin());
        }
    }

    /// A call has returned. `None`: there is one more to do.
    fn returned(&mut self, result: Result<usize, Errno>) -> Option<Result<(), Failure>> {
        match (self.step, result) {
            (_, Err(Errno::INTR)) => return None,
            (_, Err(Errno::AGAIN)) if !self.sleeps => {
                self.sleeps = true;
                return None;
            }
            (Step::Transfer | Step::Zeros, result) => self.moved(result)?,
            (Step::Clear(way), result) => self.cleared(way, result)?,
            (Step::Look, result) => {
                let seen = self.seen.take();
                if result.is_err() || !seen.is_some_and(|seen| kernel::has_name(&seen)) {
                    return Some(Err(self.failure(Errno::NODEV, Tried::Sync)));
                }
                self.step = Step::Sync;
                return None;
            }
            (Step::Sync, result) => {
                return Some(result.map(drop).map_err(|errno| self.failure(errno, Tried::Sync)));
            }
        }
        .map_or_else(|failure| Some(Err(failure)), |()| self.and_durable())
    }

    /// Data were read or written. `None`: a part of them.
    fn moved(&mut self, result: Result<usize, Errno>) -> Option<Result<(), Failure>> {
        let is_read = self.io.op == Op::Read;
        let (tried, at_end) = match self.step {
            _ if is_read => (Tried::Read, Errno::IO), // the file became shorter
            Step::Transfer if self.io.fua => (Tried::Sync, Errno::NOSPC), // which of the two failed is not told
            _ => (Tried::Write, Errno::NOSPC),
        };
        match result {
            Ok(0) if is_read => Some(Err(self.failure(at_end, tried))),
            Ok(0) => Some(Err(self.failure(at_end, Tried::Write))),
            Ok(count) => {
                self.at += count as u64;
                (self.at >= self.io.len.0).then_some(Ok(()))
            }
            Err(errno) => Some(Err(self.failure(errno, tried))),
        }
    }

    /// The file system has made zeros, or cannot do it in this way. `None`: it is tried in another.
    fn cleared(&mut self, way: FallocateFlags, result: Result<usize, Errno>) -> Option<Result<(), Failure>> {
        match result {
            Ok(_) => Some(Ok(())),
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => {
                self.step = match way {
                    FallocateFlags::ZERO_RANGE => Step::Clear(FallocateFlags::PUNCH_HOLE),
                    _ => Step::Zeros,
                };
                None
            }
            Err(errno) => Some(Err(self.failure(errno, Tried::Write))),
        }
    }

    /// The data are where they belong. `None`: they must be made durable.
    fn and_durable(&mut self) -> Option<Result<(), Failure>> {
        if !self.io.fua || self.step == Step::Transfer {
            return Some(Ok(()));
        }
        (self.step, self.at) = (Step::Look, 0);
        None
    }

    fn failure(&self, errno: Errno, tried: Tried) -> Failure {
        failure(&self.io, self.at as usize, errno, tried)
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        // Nobody hears how it ends: others do not wait for it, and do not believe the file.
        if let Some(turn) = self.turn.take() {
            self.file.syncs.end(turn, true);
        }
    }
}

/// The calls of a leg.
#[derive(Default)]
struct Lane {
    in_kernel: u32,
    /// What is more than it may have there.
    waiting: VecDeque<Task>,
}

struct State {
    /// `None` once it is given away.
    kernel: Option<Kernel>,
    lanes: Vec<Lane>,
    /// Syncs that have succeeded, and wait for others beside them.
    beside: Vec<(Task, Turn)>,
    done: Vec<Done>,
    /// The kernel has not taken all that it was given.
    again: bool,
}

impl State {
    /// Sends a task on to the kernel, or lets it wait.
    fn go(&mut self, task: Task) {
        let node = task.node as usize;
        if node >= self.lanes.len() {
            self.lanes.resize_with(node + 1, Lane::default);
            if let Some(kernel) = &self.kernel {
                // It had this bound for fewer legs, so it has it: threads are made as they are needed.
                let _ = kernel.bound_threads(DEPTH * self.lanes.len() as u32);
            }
        }
        self.lanes[node].waiting.push_back(task);
        self.fill(node);
    }

    /// Gives the kernel what waits, as much as the leg may have there.
    fn fill(&mut self, node: usize) {
        while self.lanes[node].in_kernel < DEPTH {
            let Some(mut task) = self.lanes[node].waiting.pop_front() else { return };
            if let Some(result) = task.end_without_call() {
                self.end(task, result);
                continue;
            }
            task.take_turn();
            if let Err(task) = self.stage(task) {
                self.lanes[node].waiting.push_front(task);
                self.again = true;
                return;
            }
            self.lanes[node].in_kernel += 1;
        }
    }

    fn stage(&mut self, task: Task) -> Result<(), Task> {
        let Some(kernel) = &mut self.kernel else { return Err(task) };
        kernel.stage(task).or_else(|task| {
            kernel.submit();
            kernel.stage(task)
        })
    }

    /// Hands over what is staged, and what had no room.
    fn submit(&mut self) {
        if std::mem::take(&mut self.again) {
            (0..self.lanes.len()).for_each(|node| self.fill(node));
        }
        if let Some(kernel) = &mut self.kernel
            && kernel.is_staged()
        {
            self.again |= !kernel.submit();
        }
    }

    /// Goes on with what the kernel has done.
    fn reap(&mut self) {
        while let Some((mut task, result)) = self.kernel.as_mut().and_then(Kernel::take) {
            let node = task.node as usize;
            self.lanes[node].in_kernel -= 1;
            match task.returned(result) {
                Some(result) => self.end(task, result),
                // What has begun goes on before what has not.
                None => self.lanes[node].waiting.push_front(task),
            }
            self.fill(node);
        }
        self.look_beside();
    }

    /// A request has ended, but for syncs beside it.
    fn end(&mut self, mut task: Task, result: Result<(), Failure>) {
        if let Some(turn) = task.turn.take() {
            let upto = task.file.syncs.end(turn, result.is_err());
            if result.is_ok() {
                return self.beside.push((task, upto));
            }
        }
        self.tell(task, result);
    }

    /// Ends the syncs that wait for no other.
    fn look_beside(&mut self) {
        let mut at = 0;
        while let Some((task, upto)) = self.beside.get(at) {
            match task.file.syncs.verdict(*upto) {
                None => at += 1,
                Some(is_durable) => {
                    let (task, _) = self.beside.swap_remove(at);
                    let failed = || task.failure(Errno::IO, Tried::Sync);
                    let result = if is_durable { Ok(()) } else { Err(failed()) };
                    self.tell(task, result);
                }
            }
        }
    }

    fn tell(&mut self, task: Task, result: Result<(), Failure>) {
        if matches!(result, Err(failure) if failure.device) {
            task.file.give_up();
        }
        let (node, id) = (task.node, task.io.id);
        // The buffer is the request's alone again, and the file may be free, before anybody hears of the end.
        drop(task);
        self.done.push(Done { node, id, result });
    }
}

/// The ring of a server.
pub(super) struct Ring {
    state: Mutex<State>,
}

impl Ring {
    /// A ring that makes `wake` readable when there is something to take.
    ///
    /// # Errors
    /// What the kernel says: it has no io_uring that will do, or not for this process.
    pub fn new(wake: BorrowedFd<'_>) -> io::Result<Ring> {
        let kernel = Kernel::new(ENTRIES, wake)?;
        kernel.bound_threads(DEPTH)?;
        let state = State {
            kernel: Some(kernel),
            lanes: Vec::new(),
            beside: Vec::new(),
            done: Vec::new(),
            again: false,
        };
        Ok(Ring { state: Mutex::new(state) })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a request with the next [`Ring::submit`].
    pub fn stage(&self, task: Task) {
        self.state().go(task);
    }

    /// Hands over what was staged. True: somebody must call [`Ring::submit`] and [`Ring::take`] again, whether or not a call ends.
    pub fn submit(&self) -> bool {
        let mut state = self.state();
        state.submit();
        state.again || !state.done.is_empty()
    }

    /// Moves the ends of requests to the end of `into`.
    pub fn take(&self, into: &mut Vec<Done>) {
        let mut state = self.state();
        state.reap();
        into.append(&mut state.done);
    }
}

impl fmt::Debug for Ring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Ring")
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        let kernel = self.state().kernel.take().filter(|kernel| kernel.under_way() > 0);
        let Some(kernel) = kernel else { return };
        // Where no thread can be had, what the kernel uses leaks.
        let _ = std::thread::Builder::new().name("nandu-ring".into()).spawn(move || kernel.drain());
    }
}
