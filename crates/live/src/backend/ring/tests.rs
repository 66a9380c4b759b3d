//! What a file of the disk seldom shows: calls that stay under way, that do a part, that fail. A pipe does all that.

use super::*;
use crate::backend::{Completions, FileIo};
use nandu_base::{ByteLen, ByteOffset, Content, ErrorKind, PayloadPool, ReqId};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::pipe::pipe;
use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};

/// A ring, and what the tests know of its requests.
struct Bench {
    ring: Ring,
    wake: OwnedFd,
    pool: PayloadPool,
    ended: BTreeMap<ReqId, Result<(), Failure>>,
    next: u32,
}

impl Bench {
    /// None where the kernel has no io_uring for us.
    fn new() -> Option<Bench> {
        let wake = eventfd(0, EventfdFlags::NONBLOCK).expect("a descriptor");
        let ring =
            Ring::new(wake.as_fd()).inspect_err(|error| eprintln!("skipped: io_uring: {error}")).ok()?;
        Some(Bench { ring, wake, pool: PayloadPool::new(Content::Bytes), ended: BTreeMap::new(), next: 0 })
    }

    fn request(&mut self, op: Op, fua: bool, offset: u64, data: &[u8]) -> BlockIo {
        self.next += 1;
        let (id, len) = (ReqId(self.next), ByteLen(data.len() as u64));
        let has_data = matches!(op, Op::Read | Op::Write);
        let data = has_data.then(|| {
            let payload = self.pool.allocate(len);
            self.pool.bytes_mut(payload, len).copy_from_slice(data);
            self.pool.region(payload, len)
        });
        BlockIo { id, op, fua, offset: ByteOffset(offset), len, data }
    }

    fn begin(&mut self, node: u32, file: &Arc<OpenFile>, io: BlockIo) -> ReqId {
        let id = io.id;
        self.ring.stage(Task::new(node, io, Arc::clone(file), Arc::default()));
        id
    }

    /// Takes what has ended, and hands over what was staged. True: it must be called again, whether or not a call ends.
    fn turn(&mut self) -> bool {
        let mut done = Vec::new();
        self.ring.take(&mut done);
        for end in done {
            assert_eq!(self.ended.insert(end.id, end.result), None, "a request ends once");
        }
        self.ring.submit()
    }

    /// Waits for the end of a request.
    fn end_of(&mut self, id: ReqId) -> Result<(), Failure> {
        loop {
            let again = self.turn();
            if let Some(&result) = self.ended.get(&id) {
                return result;
            }
            if again {
                continue;
            }
            let timeout = Timespec { tv_sec: 60, tv_nsec: 0 };
            let woken = poll(&mut [PollFd::new(&self.wake, PollFlags::IN)], Some(&timeout));
            assert_eq!(woken, Ok(1), "waited in vain for {id:?}");
            rustix::io::read(&self.wake, &mut [0; 8]).expect("it was readable");
        }
    }

    fn serve(&mut self, file: &Arc<OpenFile>, io: BlockIo) -> Result<(), Failure> {
        let id = self.begin(0, file, io);
        self.end_of(id)
    }
}

fn file(fd: OwnedFd) -> Arc<OpenFile> {
    Arc::new(OpenFile::new(fd, false))
}

/// A file in memory, whose file system punches holes but zeroes no ranges.
fn in_memory() -> Arc<OpenFile> {
    let fd = memfd_create("nandu-test", MemfdFlags::CLOEXEC).expect("memory");
    rustix::fs::ftruncate(&fd, 1 << 20).expect("memory");
    file(fd)
}

fn bytes(io: &nandu_base::bytebuf::ByteRegion) -> Vec<u8> {
    // SAFETY: the request that used the region has ended.
    unsafe { io.as_slice() }.to_vec()
}

/// Threads write beside the reactor; with one processor they could only write in its stead.
#[test]
fn threads_write_where_there_are_several_processors() {
    let Some(mut bench) = Bench::new() else { return };
    let (write, read) =
        (bench.request(Op::Write, false, 0, b"here"), bench.request(Op::Read, false, 0, b"...."));
    let by_ring = |file_io, has_one_processor| {
        let mut completions = Completions::new().expect("a descriptor");
        completions.use_ring(file_io, has_one_processor).expect("there is one already");
        [&write, &read].map(|io| completions.ring_for(io).is_some())
    };
    assert_eq!(by_ring(FileIo::Auto, false), [false, true]);
    assert_eq!(by_ring(FileIo::Auto, true), [true, true]);
    assert_eq!(by_ring(FileIo::Uring, false), [true, true]);
    assert_eq!(by_ring(FileIo::Threads, true), [false, false]);
}

#[test]
fn a_part_that_was_read_is_followed_by_the_rest() {
    let Some(mut bench) = Bench::new() else { return };
    let (from, to) = pipe().expect("descriptors");
    let io = bench.request(Op::Read, false, 0, &[0; 8]);
    let region = io.data.clone().expect("a read has data");
    let id = bench.begin(0, &file(from), io);
    bench.turn();
    rustix::io::write(&to, b"abc").expect("room");
    bench.turn();
    rustix::io::write(&to, b"defgh").expect("room");
    assert_eq!(bench.end_of(id), Ok(()));
    assert_eq!(bytes(&region), b"abcdefgh");
    // Its other end is closed: there is no more.
    drop(to);
    let (from, _) = pipe().expect("descriptors");
    let io = bench.request(Op::Read, false, 0, &[0; 8]);
    let failure = bench.serve(&file(from), io).expect_err("nothing is there");
    assert_eq!((failure.error.kind, failure.device), (ErrorKind::Unreadable, false));
}

#[test]
fn a_leg_that_stands_still_holds_nobody_else() {
    let Some(mut bench) = Bench::new() else { return };
    let (from, to) = pipe().expect("descriptors");
    let (stuck, other) = (file(from), in_memory());
    let count = DEPTH + 20;
    let ids: Vec<ReqId> = (0..count)
        .map(|_| {
            let io = bench.request(Op::Read, false, 0, &[0; 4]);
            bench.begin(0, &stuck, io)
        })
        .collect();
    bench.turn();
    let io = bench.request(Op::Write, true, 4096, &[7; 4096]);
    let id = bench.begin(1, &other, io);
    assert_eq!(bench.end_of(id), Ok(()));
    assert!(ids.iter().all(|id| !bench.ended.contains_key(id)), "they are under way");
    // What is in the kernel ends by itself; what has not begun does not begin any more.
    stuck.give_up();
    rustix::io::write(&to, &[1; 4 * DEPTH as usize]).expect("room");
    let results: Vec<bool> = ids.into_iter().map(|id| bench.end_of(id).is_ok()).collect();
    assert_eq!(results.iter().filter(|&&is_ok| is_ok).count(), DEPTH as usize);
}

#[test]
fn buffers_and_files_outlive_a_ring_that_is_dropped() {
    let Some(mut bench) = Bench::new() else { return };
    let (from, to) = pipe().expect("descriptors");
    let io = bench.request(Op::Read, false, 0, &[0; 8]);
    let (region, open) = (io.data.clone().expect("a read has data"), file(from));
    let token = Arc::new(());
    bench.ring.stage(Task::new(0, io, Arc::clone(&open), Arc::clone(&token)));
    bench.turn();
    drop(bench);
    assert_eq!(Arc::strong_count(&open), 2, "the kernel still has it");
    rustix::io::write(&to, b"finished").expect("room");
    let began = std::time::Instant::now();
    while Arc::strong_count(&token) > 1 {
        assert!(began.elapsed().as_secs() < 60, "nobody waits for the call");
        std::thread::park_timeout(std::time::Duration::from_millis(1));
    }
    assert_eq!(bytes(&region), b"finished");
    assert_eq!(Arc::strong_count(&open), 1);
}

#[test]
fn zeros_come_in_whatever_way_the_file_system_has() {
    let Some(mut bench) = Bench::new() else { return };
    let named = tempfile::NamedTempFile::new().expect("a file");
    let on_disk = file(named.reopen().expect("it is there").into());
    let cases = [(Op::WriteZeroes, false), (Op::WriteZeroes, true), (Op::Trim, false), (Op::Trim, true)];
    for (op, fua) in cases {
        // What has no name cannot be made durable.
        let open = if fua { Arc::clone(&on_disk) } else { in_memory() };
        let io = bench.request(Op::Write, false, 0, &[7; 16384]);
        assert_eq!(bench.serve(&open, io), Ok(()));
        let io = bench.request(op, fua, 4096, &[0; 8192]);
        assert_eq!(bench.serve(&open, io), Ok(()));
        let io = bench.request(Op::Read, false, 0, &[1; 16384]);
        let region = io.data.clone().expect("a read has data");
        assert_eq!(bench.serve(&open, io), Ok(()));
        let wanted = [[7; 4096], [0; 4096], [0; 4096], [7; 4096]].concat();
        assert_eq!(bytes(&region), wanted, "{op:?}");
    }
    // A pipe has neither zeros nor holes, and takes what is written.
    let (from, to) = pipe().expect("descriptors");
    let io = bench.request(Op::WriteZeroes, false, 0, &[0; 300]);
    let mut task = Task::new(0, io, file(to), Arc::default());
    for way in [FallocateFlags::ZERO_RANGE, FallocateFlags::PUNCH_HOLE] {
        assert_eq!(task.step, Step::Clear(way));
        assert_eq!(task.returned(Err(Errno::OPNOTSUPP)), None);
    }
    let id = task.io.id;
    bench.ring.stage(task);
    assert_eq!(bench.end_of(id), Ok(()));
    let mut found = [1; 400];
    assert_eq!(rustix::io::read(&from, &mut found), Ok(300));
    assert_eq!(found[..300], [0; 300]);
}

#[test]
fn a_flush_that_fails_is_the_end_of_the_device() {
    let Some(mut bench) = Bench::new() else { return };
    let (from, _to) = pipe().expect("descriptors");
    let open = file(from); // nobody can sync a pipe
    let flushes: Vec<BlockIo> = (0..2).map(|_| bench.request(Op::Flush, false, 0, &[])).collect();
    let ids: Vec<ReqId> = flushes.into_iter().map(|io| bench.begin(0, &open, io)).collect();
    for id in ids {
        assert!(
            bench.end_of(id).is_err_and(|failure| failure.device || failure.error.kind == ErrorKind::Gone)
        );
    }
    assert!(open.is_given_up());
    let path = tempfile::NamedTempFile::new().expect("a file");
    let open = file(path.reopen().expect("it is there").into());
    let io = bench.request(Op::Flush, false, 0, &[]);
    assert_eq!(bench.serve(&open, io), Ok(()));
    path.close().expect("ours");
    let io = bench.request(Op::Flush, false, 0, &[]);
    let failure = bench.serve(&open, io).expect_err("it was deleted");
    assert_eq!((failure.error.kind, failure.device), (ErrorKind::Gone, true));
}

#[test]
fn a_flush_waits_for_one_beside_it_and_fails_with_it() {
    let Some(mut bench) = Bench::new() else { return };
    for beside_fails in [false, true] {
        let open = in_memory();
        let beside = open.syncs.begin();
        let io = bench.request(Op::Write, true, 0, &[7; 4096]);
        let fua = bench.begin(0, &open, io);
        let io = bench.request(Op::Write, false, 4096, &[7; 4096]);
        assert_eq!(bench.serve(&open, io), Ok(()), "no sync, so it waits for none");
        while bench.ring.state().beside.is_empty() {
            bench.turn();
        }
        assert!(!bench.ended.contains_key(&fua));
        open.syncs.end(beside, beside_fails);
        assert_eq!(bench.end_of(fua).is_err(), beside_fails);
        assert_eq!(open.is_given_up(), beside_fails);
    }
}

#[test]
fn a_call_that_would_sleep_is_told_that_it_may_once() {
    let mut task = Task::new(
        0,
        BlockIo {
            id: ReqId(1),
            op: Op::WriteZeroes,
            fua: false,
            offset: ByteOffset(0),
            len: ByteLen(8),
            data: None,
        },
        in_memory(),
        Arc::default(),
    );
    assert_eq!(task.returned(Err(Errno::INTR)), None);
    assert_eq!(task.returned(Err(Errno::AGAIN)), None);
    assert!(task.sleeps);
    assert!(task.returned(Err(Errno::AGAIN)).is_some_and(|result| result.is_err()));
}
