//! An emulated drive as a leg of the reactor.
//!
//! Its requests are the machine's affair; what the leg has to do is to make the store durable when a flush, or a change with FUA, is to
//! be answered, and to be pulled out and put back by an operator. A store is synced by a thread of its own, so that the reactor goes on.
//! What is asked while a sync is under way is answered by the next one. When nothing is asked for a while, the marks that prove what was synced are
//! synced too.
//!
//! A drive that is failed keeps its power: it is the link that is gone. What it was given it has when it comes back.

use super::file::Shared;
use crate::backend::{BlockBackend, BlockIo, Completions, Done, Failure, LegError};
use nandu_base::{ByteLen, ErrorKind, IoError, Op, ReqId};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

/// How long nobody asks for a sync before the marks are synced.
const REST: Duration = Duration::from_millis(200);

#[derive(Debug, Default)]
struct Wanted {
    flushes: Vec<(ReqId, ByteLen)>,
    /// Though nobody waits.
    plain: bool,
    stop: bool,
}

#[derive(Debug)]
struct Syncer {
    wanted: Mutex<Wanted>,
    work: Condvar,
    shared: Arc<Shared>,
    completions: Arc<Completions>,
    node: u32,
}

impl Syncer {
    fn wanted(&self) -> MutexGuard<'_, Wanted> {
        self.wanted.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn run(&self) {
        let mut wanted = self.wanted();
        loop {
            if wanted.flushes.is_empty() && !wanted.plain {
                if wanted.stop {
                    return;
                }
                if !self.shared.owes_proof() || self.shared.failure().is_some() {
                    wanted = self.work.wait(wanted).unwrap_or_else(std::sync::PoisonError::into_inner);
                    continue;
                }
                let waited = self.work.wait_timeout(wanted, REST);
                let (again, rest) = waited.unwrap_or_else(std::sync::PoisonError::into_inner);
                wanted = again;
                wanted.plain |= rest.timed_out();
                continue;
            }
            let flushes = std::mem::take(&mut wanted.flushes);
            wanted.plain = false;
            drop(wanted);
            self.sync(&flushes);
            wanted = self.wanted();
        }
    }

    fn sync(&self, flushes: &[(ReqId, ByteLen)]) {
        let result = self.shared.sync();
        let done = |&(id, len): &(ReqId, ByteLen)| {
            let error = IoError { kind: ErrorKind::WriteFailed, at: ByteLen::ZERO, len };
            let result = result.map_err(|errno| Failure { error, device: true, errno });
            Done { node: self.node, id, result }
        };
        self.completions.push(&mut flushes.iter().map(done).collect());
    }
}

/// The leg of an emulated drive.
#[derive(Debug)]
pub struct Link {
    node: u32,
    path: Option<PathBuf>,
    /// `None` for memory, or where the file is missing.
    syncer: Option<Arc<Syncer>>,
    thread: bool,
    /// The store was missing at the start.
    absent: bool,
}

impl Link {
    /// The leg of a drive whose store is this, or memory.
    pub fn new(node: u32, store: Option<(PathBuf, Arc<Shared>)>, completions: Arc<Completions>) -> Link {
        let (path, shared) = store.unzip();
        let (wanted, work) = (Mutex::new(Wanted::default()), Condvar::new());
        let syncer = shared.map(|shared| Arc::new(Syncer { wanted, work, shared, completions, node }));
        Link { node, path, syncer, thread: false, absent: false }
    }

    /// The leg of a drive whose store is not there.
    pub fn absent(node: u32, path: PathBuf) -> Link {
        Link { node, path: Some(path), syncer: None, thread: false, absent: true }
    }

    fn refuse(&self, why: &str, remedy: &'static str) -> LegError {
        let path = self.path.as_deref().map_or_else(|| "memory".into(), |path| path.display().to_string());
        LegError { path, why: why.into(), remedy, missing: false }
    }
}

impl BlockBackend for Link {
    fn submit(&mut self, io: BlockIo, done: &mut Vec<Done>) {
        debug_assert!(io.op == Op::Flush, "only a sync is asked of the link of a drive");
        match &self.syncer {
            None => done.push(Done { node: self.node, id: io.id, result: Ok(()) }),
            Some(syncer) => syncer.wanted().flushes.push((io.id, io.len)),
        }
    }

    fn kick(&mut self) {
        let Some(syncer) = &self.syncer else { return };
        let plain = syncer.shared.wants_sync.swap(false, Ordering::AcqRel);
        let mut wanted = syncer.wanted();
        wanted.plain |= plain;
        if !wanted.plain && wanted.flushes.is_empty() {
            return;
        }
        drop(wanted);
        if !self.thread {
            let runner = Arc::clone(syncer);
            let name = format!("sync-{}", self.node);
            self.thread = std::thread::Builder::new().name(name).spawn(move || runner.run()).is_ok();
        }
        if self.thread {
            syncer.work.notify_one();
        } else {
            let flushes = std::mem::take(&mut syncer.wanted().flushes);
            syncer.sync(&flushes);
        }
    }

    fn failure(&self) -> Option<i32> {
        self.syncer.as_ref()?.shared.failure()
    }

    fn sync_now(&mut self) -> Result<(), i32> {
        self.syncer.as_ref().map_or(Ok(()), |syncer| syncer.shared.prove())
    }

    fn is_durable_at_once(&self) -> bool {
        self.syncer.is_none()
    }

    fn give_up(&mut self) {}

    fn prepare(&mut self, _with: Option<&Path>) -> Result<(), LegError> {
        Err(self.refuse(
            "an emulated drive is not replaced while it is served",
            "stop the server, name another `store` in the stack file, and start with --create",
        ))
    }

    fn forget_prepared(&mut self) {}

    fn reopen(&mut self) -> Result<(), LegError> {
        if self.absent {
            return Err(self.refuse(
                "the store was not there when the server started",
                "start the server again: a drive recovers when it starts",
            ));
        }
        match self.failure() {
            Some(_) => Err(self.refuse(
                "writing or syncing it has failed, and what it holds is not known",
                "start the server again: the drive recovers what was durable",
            )),
            None => Ok(()),
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        if let Some(syncer) = &self.syncer {
            syncer.wanted().stop = true;
            syncer.work.notify_all();
        }
    }
}
