//! A leg that moves to another file while it serves.
//!
//! The old file serves every read. A thread copies it, chunk by chunk; what changes data that are copied is done to the old file, and then to the
//! new one. A chunk and a change that overlap wait for each other, and so do two changes, so both files see them in one order. What the file system
//! calls a hole is not copied, for the new file is blank. When all of it is there flushes cover both files, and one flush of the new one makes it a copy of
//! the old one that may take its place at any time.
//!
//! *A move that is cut short.* The records by which a start knows a leg lie at one of the ends of a file. The ends are copied last, when all
//! between them is durable, and nothing is written to them before. So a new file that was not filled has no records, and no start takes it for a leg.
//!
//! *Pace.* The thread copies at most so many bytes a second, if it is told to ([`Pace`]).
//!
//! *Failures.* A change that one of the two files does not take ends the move: nobody knows any more where they differ. The old file is what
//! it was, and whoever stands on it hears of its failures as ever. The new file is emptied then, if it is a regular one, so that it may be
//! named again.
//!
//! *Changes that began before* the move know nothing of the new file: nothing is copied before they have ended.

use super::BlockIo;
use super::Failure;
use super::candidate::{FileId, MARK};
use super::file_io::OpenFile;
use crate::clock::Clock;
use nandu_base::bytebuf::ByteBuf;
use nandu_base::{ByteLen, ByteOffset, Instant, Op, ReqId, Span};
use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Bytes that are copied at once.
const CHUNK: u64 = 1 << 20;
/// How often a thread looks whether what it waits for has ended.
const LOOK: Duration = Duration::from_millis(1);

/// The longest hole that is looked for at once.
const WINDOW_MAX: u64 = 64 << 20;
/// The longest wait of one that is ahead of its pace, before it looks at the pace again.
const PACE_LOOK: Span = Span::from_ms(50);

/// How fast a copy goes. It is told the time.
#[derive(Debug, Default)]
struct Pace {
    /// Bytes that were copied and are not due yet.
    ahead: u64,
    /// Up to when time was counted.
    counted: Instant,
}

impl Pace {
    /// How long to wait before more is copied, at `rate` bytes a second; 0 is no limit.
    fn wait(&mut self, now: Instant, rate: u64) -> Span {
        if rate == 0 {
            self.ahead = 0;
        }
        if self.ahead == 0 {
            self.counted = now;
            return Span::ZERO;
        }
        const SECOND: u128 = 1_000_000_000;
        let time =
            |bytes: u64| u64::try_from(u128::from(bytes) * SECOND / u128::from(rate)).unwrap_or(u64::MAX);
        let passed = u128::from(now.since(self.counted).0);
        let due = u64::try_from(passed * u128::from(rate) / SECOND).unwrap_or(u64::MAX).min(self.ahead);
        self.ahead -= due;
        self.counted += Span(time(due));
        match self.ahead {
            0 => Span::ZERO,
            // Rounded up, so that what is waited for is due.
            ahead => PACE_LOOK.min(Span(time(ahead).saturating_add(1))),
        }
    }
}

/// How far a move is.
#[derive(Debug, Default)]
struct State {
    /// What is being copied.
    copying: Option<Range<u64>>,
    /// What is being changed.
    changing: Vec<Range<u64>>,
    /// What is copied.
    copied: Vec<Range<u64>>,
    /// All are: flushes cover the new file too.
    is_filled: bool,
    /// Why the move has ended without having got there.
    failed: Option<String>,
    /// The new file has taken the place of the old one.
    is_kept: bool,
}

/// The new file of a leg that moves.
#[derive(Debug)]
pub(super) struct Twin {
    pub file: Arc<OpenFile>,
    pub path: PathBuf,
    pub id: FileId,
    capacity: u64,
    state: Mutex<State>,
    moved: Condvar,
}

fn meet(a: &Range<u64>, b: &Range<u64>) -> bool {
    a.start < b.end && b.start < a.end
}

impl Twin {
    pub fn new(file: Arc<OpenFile>, path: PathBuf, id: FileId, capacity: ByteLen) -> Twin {
        let (state, moved) = (Mutex::default(), Condvar::new());
        Twin { file, path, id, capacity: capacity.0, state, moved }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does what changes data, or makes it durable, to both files. What the old one says counts.
    pub fn change(&self, old: &OpenFile, io: &BlockIo) -> Result<(), Failure> {
        if io.op == Op::Flush {
            old.perform(io)?;
            let is_filled = self.state().is_filled;
            return if is_filled { self.both(io) } else { Ok(()) };
        }
        let range = io.offset.0..io.offset.0 + io.len.0;
        let mut state = self.state();
        while state.copying.as_ref().is_some_and(|copying| meet(copying, &range))
            || state.changing.iter().any(|changing| meet(changing, &range))
        {
            state = self.moved.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.changing.push(range.clone());
        // What is not copied yet comes with the copy.
        let goes_on = state.failed.is_none() && state.copied.iter().any(|copied| meet(copied, &range));
        drop(state);
        let mut result = old.perform(io);
        match result {
            Ok(()) if goes_on => result = self.both(io),
            Ok(()) => {}
            Err(failure) => self.fail(format!(
                "the old file failed a change: {}",
                io::Error::from_raw_os_error(failure.errno)
            )),
        }
        let mut state = self.state();
        if let Some(at) = state.changing.iter().position(|changing| *changing == range) {
            state.changing.swap_remove(at);
        }
        self.moved.notify_all();
        result
    }

    /// The old file has done it, and the new one does it too. As long as it has not taken its place, its failure is the end of the move and of
    /// nothing else.
    fn both(&self, io: &BlockIo) -> Result<(), Failure> {
        let Err(failure) = self.file.perform(io) else { return Ok(()) };
        let mut state = self.state();
        if state.is_kept {
            return Err(failure);
        }
        let why = io::Error::from_raw_os_error(failure.errno);
        state.failed.get_or_insert(format!("{}: {why}", self.path.display()));
        Ok(())
    }

    /// Ends the move.
    pub fn fail(&self, why: String) {
        self.state().failed.get_or_insert(why);
        self.moved.notify_all();
    }

    /// Why it has ended without having got there.
    fn failed(&self) -> Option<String> {
        self.state().failed.clone()
    }

    /// The new file takes the place of the old one.
    ///
    /// # Errors
    /// The move has ended: why.
    pub fn take_place(&self) -> Result<(), String> {
        let mut state = self.state();
        if let Some(why) = &state.failed {
            return Err(why.clone());
        }
        state.is_kept = true;
        Ok(())
    }

    /// Bytes that are not copied yet.
    pub fn left(&self) -> ByteLen {
        let copied: u64 = self.state().copied.iter().map(|range| range.end - range.start).sum();
        ByteLen(self.capacity - copied)
    }

    /// Copies all of `old`, when what began before has ended: until nobody else holds `before`. At most `rate` bytes a second; 0 is no
    /// limit.
    pub fn fill(&self, old: &OpenFile, before: &Arc<()>, rate: &AtomicU64) -> Result<(), String> {
        while Arc::strong_count(before) > 1 {
            std::thread::park_timeout(LOOK);
            self.goes_on(old)?;
        }
        let mut copier = Copier::new(rate);
        let front = CHUNK.min(self.capacity);
        let back = (self.capacity.saturating_sub(CHUNK) / CHUNK * CHUNK).max(front);
        self.fill_part(old, front..back, &mut copier)?;
        self.flush_new(old)?;
        self.fill_part(old, back..self.capacity, &mut copier)?;
        self.fill_part(old, 0..front, &mut copier)?;
        self.state().is_filled = true;
        self.flush_new(old)
    }

    fn flush_new(&self, old: &OpenFile) -> Result<(), String> {
        let (id, offset, len) = (ReqId::NONE, ByteOffset::ZERO, ByteLen::ZERO);
        let flush = BlockIo { id, op: Op::Flush, fua: false, offset, len, data: None };
        let _ = self.both(&flush); // a failure ends the move
        self.goes_on(old)
    }

    fn fill_part(&self, old: &OpenFile, part: Range<u64>, copier: &mut Copier<'_>) -> Result<(), String> {
        self.state().copied.push(part.start..part.start);
        let (mut at, mut size) = (part.start, CHUNK);
        while at < part.end {
            self.goes_on(old)?;
            let window = at..at.saturating_add(size).min(part.end);
            self.claim(window.clone());
            let upto = self.hole_before(old, &window);
            let mut result = Ok(());
            if upto > at {
                (at, size) = (upto, (2 * size).min(WINDOW_MAX));
            } else if size > CHUNK {
                size = CHUNK;
            } else {
                result = self.copy(old, &window, &mut copier.buffer);
                copier.pace.ahead += window.end - at;
                at = window.end;
            }
            self.release(at, result)?;
            self.keep_pace(old, copier)?;
        }
        Ok(())
    }

    /// Where the data in a part of `old` begin, in whole chunks: whole blocks, for what bypasses the page cache.
    fn hole_before(&self, old: &OpenFile, part: &Range<u64>) -> u64 {
        let mut from = part.start;
        old.holes(ByteOffset(part.start), ByteLen(part.end - part.start), &mut |len, is_hole| {
            if is_hole {
                from += len.0;
            }
            is_hole
        });
        if from >= part.end { part.end } else { (from / CHUNK * CHUNK).max(part.start) }
    }

    /// Keeps changes out of a part, and waits for those that are under way.
    fn claim(&self, part: Range<u64>) {
        let mut state = self.state();
        state.copying = Some(part.clone());
        while state.changing.iter().any(|changing| meet(changing, &part)) {
            state = self.moved.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The new file has what the old one has, up to `at`, unless the copy failed.
    fn release(&self, at: u64, result: Result<(), String>) -> Result<(), String> {
        let mut state = self.state();
        state.copying = None;
        match &result {
            Ok(()) => state.copied.last_mut().expect("a part has begun").end = at,
            Err(why) => drop(state.failed.get_or_insert(why.clone())),
        }
        drop(state);
        self.moved.notify_all();
        result
    }

    fn keep_pace(&self, old: &OpenFile, copier: &mut Copier<'_>) -> Result<(), String> {
        loop {
            let wait = copier.pace.wait(copier.clock.now(), copier.rate.load(Ordering::Relaxed));
            if wait == Span::ZERO {
                return Ok(());
            }
            let state = self.state();
            drop(self.moved.wait_timeout(state, Duration::from_nanos(wait.0)));
            self.goes_on(old)?;
        }
    }

    fn goes_on(&self, old: &OpenFile) -> Result<(), String> {
        if old.is_given_up() {
            self.fail("the old file was given up meanwhile".into());
        }
        self.failed().map_or(Ok(()), Err)
    }

    fn copy(&self, old: &OpenFile, range: &Range<u64>, buffer: &mut ByteBuf) -> Result<(), String> {
        let len = (range.end - range.start) as usize;
        let bytes = &mut buffer.as_mut()[..len];
        old.read_at(range.start, bytes).map_err(|error| format!("the old file: {error}"))?;
        let written = self.file.write_at(range.start, bytes);
        written.map_err(|error| format!("{}: {error}", self.path.display()))
    }
}

/// What the thread that copies has for itself.
struct Copier<'a> {
    buffer: ByteBuf,
    clock: Clock,
    pace: Pace,
    rate: &'a AtomicU64,
}

impl Copier<'_> {
    fn new(rate: &AtomicU64) -> Copier<'_> {
        let buffer = ByteBuf::zeroed(CHUNK as usize);
        Copier { buffer, clock: Clock::start(), pace: Pace::default(), rate }
    }
}

impl Drop for Twin {
    fn drop(&mut self) {
        if !self.state().is_kept {
            // Best effort: one that stays as it is must be emptied before it is named again.
            let _ = self.file.empty();
        }
    }
}

/// Takes the records of ours off a file that is a leg no longer, when nobody uses it any more, so that no start believes it. They begin with a
/// mark in the first 4 KiB or in the last MiB of what was used.
pub(super) fn wipe(
    old: &Arc<OpenFile>,
    path: &Path,
    id: Option<FileId>,
    capacity: ByteLen,
) -> Result<(), String> {
    while Arc::strong_count(old) > 1 {
        std::thread::park_timeout(LOOK);
    }
    let failed = |error: io::Error| format!("{}: {error}", path.display());
    if FileId::of(path) != id {
        return Err(format!("{}: another file is there now", path.display()));
    }
    let file = OpenOptions::new().read(true).write(true).open(path).map_err(failed)?;
    wipe_marks(&file, capacity.0).and_then(|()| file.sync_data()).map_err(failed)
}

fn wipe_marks(file: &File, capacity: u64) -> io::Result<()> {
    const SECTOR: u64 = 512;
    let last = capacity.saturating_sub(1 << 20) / SECTOR * SECTOR;
    let mut sector = [0; SECTOR as usize];
    for at in (0..8).chain(last / SECTOR..capacity / SECTOR).map(|sector| sector * SECTOR) {
        file.read_exact_at(&mut sector, at)?;
        if sector.starts_with(MARK) {
            file.write_all_at(&[0; SECTOR as usize], at)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandu_base::Rng;
    use nandu_base::bytebuf::ByteRegion;
    use nandu_base::{Content, PayloadPool};

    const CAPACITY: u64 = 5 << 20;

    fn open(path: &Path, holds: &[(u64, u8)]) -> (Arc<OpenFile>, FileId) {
        let file =
            OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path).expect("ours");
        file.set_len(CAPACITY).expect("room");
        holds.iter().for_each(|&(at, byte)| file.write_all_at(&[byte; 4096], at).expect("room"));
        let id = FileId::from_metadata(&file.metadata().expect("it is open"));
        (Arc::new(OpenFile::new(file.into(), false)), id)
    }

    fn write(pool: &mut PayloadPool, at: u64, byte: u8) -> BlockIo {
        let len = ByteLen(4096);
        let payload = pool.allocate(len);
        pool.bytes_mut(payload, len).fill(byte);
        let data: ByteRegion = pool.region(payload, len);
        BlockIo { id: ReqId::NONE, op: Op::Write, fua: false, offset: ByteOffset(at), len, data: Some(data) }
    }

    #[test]
    fn what_is_copied_and_what_is_changed_meanwhile_is_the_same_on_both() {
        for seed in 0..20 {
            eprintln!("seed {seed}");
            let mut rng = Rng::new(seed);
            let dir = tempfile::tempdir().expect("a directory");
            let (old, _) = open(&dir.path().join("old"), &[(0, 1), (1 << 20, 2), (CAPACITY - 4096, 3)]);
            let (new, id) = open(&dir.path().join("new"), &[]);
            let twin = Twin::new(new, dir.path().join("new"), id, ByteLen(CAPACITY));
            let mut pool = PayloadPool::new(Content::Bytes);
            let ios: Vec<BlockIo> =
                (1..200).map(|n| write(&mut pool, rng.below(CAPACITY / 512 - 8) * 512, n)).collect();
            let before = Arc::new(());
            std::thread::scope(|scope| {
                let filled = scope.spawn(|| twin.fill(&old, &before, &AtomicU64::new(0)));
                for part in ios.chunks(50) {
                    scope.spawn(|| part.iter().for_each(|io| twin.change(&old, io).expect("room")));
                }
                filled.join().expect("no panic").expect("nothing fails");
            });
            twin.take_place().expect("it is a copy");
            drop(twin);
            let read = |name: &str| std::fs::read(dir.path().join(name)).expect("it is there");
            assert!(read("old") == read("new"), "seed {seed}");
        }
    }

    #[test]
    fn what_began_before_is_waited_for_and_a_move_that_ends_leaves_a_blank_file() {
        let dir = tempfile::tempdir().expect("a directory");
        let (old, _) = open(&dir.path().join("old"), &[(0, 1)]);
        let (new, id) = open(&dir.path().join("new"), &[]);
        let twin = Twin::new(new, dir.path().join("new"), id, ByteLen(CAPACITY));
        let before = Arc::new(());
        let under_way = Arc::clone(&before);
        std::thread::scope(|scope| {
            let filled = scope.spawn(|| twin.fill(&old, &before, &AtomicU64::new(0)));
            assert_eq!(twin.left(), ByteLen(CAPACITY), "something that began before is under way");
            let mut pool = PayloadPool::new(Content::Bytes);
            twin.change(&old, &write(&mut pool, 8192, 5)).expect("room");
            twin.fail("it was called off".into());
            drop(under_way);
            assert_eq!(filled.join().expect("no panic"), Err("it was called off".into()));
        });
        assert!(twin.take_place().is_err());
        drop(twin);
        let new = std::fs::read(dir.path().join("new")).expect("it is there");
        assert!(new.len() as u64 == CAPACITY && new.iter().all(|&byte| byte == 0));
        let old = std::fs::read(dir.path().join("old")).expect("it is there");
        assert_eq!((old[0], old[8192]), (1, 5), "the old one has all of it");
    }

    #[test]
    fn the_ends_of_a_file_are_copied_when_all_between_them_is() {
        let dir = tempfile::tempdir().expect("a directory");
        let (old, _) = open(&dir.path().join("old"), &[(0, 1), (2 << 20, 2), (CAPACITY - 4096, 3)]);
        let (new, id) = open(&dir.path().join("new"), &[]);
        let twin = Twin::new(new, dir.path().join("new"), id, ByteLen(CAPACITY));
        let mut pool = PayloadPool::new(Content::Bytes);
        let rate = AtomicU64::new(0);
        let mut copier = Copier::new(&rate);
        twin.fill_part(&old, CHUNK..CAPACITY - CHUNK, &mut copier).expect("room");
        // The middle is there: a change of it goes to both files, one of an end only to the old one.
        for (at, byte) in [(0, 4), (3 << 20, 5), (CAPACITY - 4096, 6)] {
            twin.change(&old, &write(&mut pool, at, byte)).expect("room");
        }
        let new = std::fs::read(dir.path().join("new")).expect("it is there");
        assert_eq!((new[0], new[2 << 20], new[3 << 20], new[CAPACITY as usize - 4096]), (0, 2, 5, 0));
        twin.fill_part(&old, CAPACITY - CHUNK..CAPACITY, &mut copier).expect("room");
        twin.fill_part(&old, 0..CHUNK, &mut copier).expect("room");
        let read = |name: &str| std::fs::read(dir.path().join(name)).expect("it is there");
        assert!(read("old") == read("new"));
        assert_eq!(twin.left(), ByteLen::ZERO);
    }

    #[test]
    fn a_pace_is_kept_and_time_that_nobody_used_is_not_made_up_for() {
        let mut pace = Pace::default();
        let at = |ms: u64| Instant::ZERO + Span::from_ms(ms);
        assert_eq!(pace.wait(at(5000), 1000), Span::ZERO);
        pace.ahead += 100;
        // 100 bytes at 1000 a second are due after 100 ms.
        let mut now = at(5000);
        for _ in 0..10 {
            let wait = pace.wait(now, 1000);
            if wait == Span::ZERO {
                break;
            }
            now += wait;
        }
        assert!((at(5100)..=at(5101)).contains(&now), "{now:?}");
        pace.ahead += 1 << 40;
        assert_eq!(pace.wait(now, 1000), PACE_LOOK);
        assert_eq!(pace.wait(now, 0), Span::ZERO, "no limit any more");
    }

    #[test]
    fn records_go_and_data_stay() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("old");
        let (old, id) = open(&path, &[(0, 1)]);
        let file = OpenOptions::new().write(true).open(&path).expect("it is there");
        let slots = [CAPACITY - (68 << 10), CAPACITY - 4096];
        slots.iter().for_each(|&at| file.write_all_at(b"NanduHM\x01", at).expect("room"));
        wipe(&old, &path, Some(id), ByteLen(CAPACITY)).expect("it can be written");
        let bytes = std::fs::read(&path).expect("it is there");
        assert!(slots.iter().all(|&at| bytes[at as usize..][..8] == [0; 8]) && bytes[4095] == 1);
        let other = dir.path().join("other");
        open(&other, &[]);
        assert!(wipe(&old, &other, Some(id), ByteLen(CAPACITY)).is_err(), "another file has its name");
    }
}
