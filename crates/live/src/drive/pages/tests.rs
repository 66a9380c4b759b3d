//! The medium of flash against an obvious one: a list of what every page holds.

use super::*;
use crate::drive::file::{self, Drive, LABEL, Shape};
use crate::drive::log::Areas;
use nandu_base::{Content, OwnKeys};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

const FORM: Form = Form { units: 64, sectors: 1, block_units: 8, own: OwnKeys::From(1 << 32) };
const SHAPE: Shape = Shape::Flash { units: 64, unit_sectors: 1, units_per_block: 8 };
/// So little that areas turn all the time.
const NEWS: u64 = 20_000;

/// What a page holds: its record and the byte that fills it.
type State = Vec<Option<(Oob, u8)>>;

fn open(path: &Path) -> (Pages, Arc<Shared>) {
    let drive = Drive { shape: SHAPE, said: "flash for a test".into(), before: "flash for a test".into() };
    let opened = file::open(path, &drive, true, false).unwrap_or_else(|error| panic!("{error}"));
    let (shared, is_new) = (Arc::new(opened.shared), opened.is_new);
    let areas = Areas::new(LABEL, FORM.records(), NEWS);
    if is_new {
        let pages = Pages::make(FORM, Arc::clone(&shared), areas).expect("a store is made");
        file::finish_making(&shared, &drive).expect("a label is written");
        return (pages, shared);
    }
    let (pages, gone) = Pages::open(FORM, Arc::clone(&shared), areas, false).expect("a store is opened");
    assert_eq!(gone, Vec::<String>::new());
    (pages, shared)
}

fn state_of(pages: &mut Pages, pool: &mut PayloadPool) -> (State, Vec<u32>) {
    let into = pool.allocate(ByteLen(SECTOR));
    let state = (0..FORM.units).map(|unit| match pages.state(unit) {
        UnitState::Programmed(oob) => {
            assert!(pages.read(pool, unit, 0, 1, into), "a page that is programmed is readable");
            let bytes = pool.bytes(into, ByteLen(SECTOR));
            assert!(bytes.iter().all(|&byte| byte == bytes[0]), "page {unit} holds parts of two");
            Some((oob, bytes[0]))
        }
        _ => None,
    });
    let state = state.collect();
    pool.release(into);
    (state, (0..8).map(|block| pages.erases(block * 8)).collect())
}

/// Random programs, copies and erases, some of which are under way for long.
struct Play {
    rng: Rng,
    now: u64,
    seq: u64,
    /// What every page holds when all that was issued has ended.
    issued: State,
    wear: Vec<u32>,
    /// Operations that have not ended: when they do, and what they do.
    under_way: Vec<(u64, u64, Op)>,
    /// What the medium must hold after a death now.
    settled: (State, Vec<u32>),
    /// All that it has held, by the number of the step.
    history: Vec<(State, Vec<u32>)>,
}

#[derive(Clone)]
enum Op {
    Program(u64, (Oob, u8)),
    Erase(u64),
}

impl Play {
    fn new(seed: u64) -> Play {
        let blank = (vec![None; FORM.units as usize], vec![0; 8]);
        Play {
            rng: Rng::new(seed),
            now: 0,
            seq: 0,
            issued: blank.0.clone(),
            wear: blank.1.clone(),
            under_way: Vec::new(),
            settled: blank.clone(),
            history: vec![blank],
        }
    }

    /// One operation, at a block whose operations go one after the other.
    fn step(&mut self, pages: &mut Pages, pool: &mut PayloadPool) {
        let block = self.rng.below(8);
        let busy = |op: &Op| match *op {
            Op::Program(unit, _) => unit / 8 == block,
            Op::Erase(at) => at == block,
        };
        let free = self.under_way.iter().filter(|(.., op)| busy(op)).map(|(end, ..)| *end).max();
        let start = self.now.max(free.unwrap_or(0));
        let end = start + self.rng.below(40);
        let window = Window { start: Instant(start), end: Instant(end) };
        self.seq += 1;
        let first = block * 8;
        match (first..first + 8).find(|&unit| self.issued[unit as usize].is_none()) {
            None => {
                pages.erase(first, 8, window);
                (first..first + 8).for_each(|unit| self.issued[unit as usize] = None);
                self.wear[block as usize] += 1;
                self.under_way.push((end, self.seq, Op::Erase(block)));
            }
            Some(unit) => {
                let oob = Oob { key: self.rng.below(32), seq: self.seq };
                let from = self.rng.below(FORM.units);
                let (base, overlay, fill) = match self.issued[from as usize] {
                    Some((_, fill)) if self.rng.below(3) == 0 => (Some(from), None, fill),
                    _ => {
                        // Zeros now and then.
                        let fill = self.rng.below(8) as u8;
                        let payload = pool.allocate(ByteLen(SECTOR));
                        pool.bytes_mut(payload, ByteLen(SECTOR)).fill(fill);
                        (None, Some(Overlay { first: 0, count: 1, payload }), fill)
                    }
                };
                pages.program(pool, &Program { unit, base, overlay, oob, window });
                if let Some(overlay) = overlay {
                    pool.release(overlay.payload);
                }
                self.issued[unit as usize] = Some((oob, fill));
                self.under_way.push((end, self.seq, Op::Program(unit, (oob, fill))));
            }
        }
    }

    fn settle(&mut self, pages: &mut Pages) {
        self.now += self.rng.below(30);
        pages.settle(Instant(self.now));
        let now = self.now;
        let mut ended: Vec<_> = self.under_way.extract_if(.., |(end, ..)| *end <= now).collect();
        ended.sort_by_key(|(end, serial, _)| (*end, *serial));
        for (.., op) in ended {
            match op {
                Op::Program(unit, page) => self.settled.0[unit as usize] = Some(page),
                Op::Erase(block) => {
                    (block * 8..block * 8 + 8).for_each(|unit| self.settled.0[unit as usize] = None);
                    self.settled.1[block as usize] += 1;
                }
            }
        }
        self.history.push(self.settled.clone());
    }

    /// A start found this.
    fn goes_on_from(&mut self, found: (State, Vec<u32>)) {
        self.under_way.clear();
        (self.issued, self.wear) = found.clone();
        self.settled = found.clone();
        self.history = vec![found];
    }
}

#[test]
fn the_death_of_the_process_undoes_what_had_not_ended_and_nothing_else() {
    for seed in 0..12 {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("drive");
        let mut pool = PayloadPool::new(Content::Bytes);
        let mut play = Play::new(seed);
        for life in 0..6 {
            let (mut pages, shared) = open(&path);
            assert_eq!(pages.is_blank(), life == 0);
            let found = state_of(&mut pages, &mut pool);
            assert_eq!(found, play.settled, "seed {seed}, life {life}");
            play.goes_on_from(found);
            for _ in 0..play.rng.below(900) {
                play.step(&mut pages, &mut pool);
                if play.rng.below(2) == 0 {
                    play.settle(&mut pages);
                }
                if shared.wants_sync.swap(false, Ordering::AcqRel) || play.rng.below(40) == 0 {
                    shared.sync().expect("a file is synced");
                }
            }
            let issued: Vec<_> = play.issued.iter().map(|page| page.map(|(oob, _)| oob)).collect();
            let seen = (0..FORM.units).map(|unit| match pages.state(unit) {
                UnitState::Programmed(oob) => Some(oob),
                _ => None,
            });
            assert_eq!(seen.collect::<Vec<_>>(), issued, "seed {seed}: what is issued counts at once");
        }
    }
}

/// The host loses power: of what was written since the last sync each part of the file is old or new.
#[test]
fn a_power_cut_of_the_host_leaves_a_moment_not_before_the_last_sync() {
    let mut lost = 0;
    for seed in 100..130 {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("drive");
        let mut pool = PayloadPool::new(Content::Bytes);
        let mut play = Play::new(seed);
        for life in 0..5 {
            let (mut pages, shared) = open(&path);
            let found = state_of(&mut pages, &mut pool);
            let at = play.history.iter().rposition(|state| *state == found);
            assert!(
                at.is_some(),
                "seed {seed}, life {life}: found is a state that never was, or was before the last sync"
            );
            lost += usize::from(at < Some(play.history.len() - 1));
            play.goes_on_from(found);
            let mut durable = std::fs::read(&path).expect("a file");
            let mut synced = shared.synced.load(Ordering::Acquire);
            for _ in 0..play.rng.below(700) {
                play.step(&mut pages, &mut pool);
                if play.rng.below(2) == 0 {
                    play.settle(&mut pages);
                }
                if shared.wants_sync.swap(false, Ordering::AcqRel) || play.rng.below(60) == 0 {
                    shared.sync().expect("a file is synced");
                    durable = std::fs::read(&path).expect("a file");
                    play.history = vec![play.settled.clone()];
                    synced = shared.synced.load(Ordering::Acquire);
                } else if shared.synced.load(Ordering::Acquire) > synced {
                    // A turn of the log has waited for the disk.
                    durable = std::fs::read(&path).expect("a file");
                    synced = shared.synced.load(Ordering::Acquire);
                }
            }
            drop(pages);
            let now = std::fs::read(&path).expect("a file");
            durable.resize(now.len(), 0);
            for (at, (old, new)) in
                (0..).zip(durable.chunks(SECTOR as usize).zip(now.chunks(SECTOR as usize)))
            {
                if old != new && play.rng.below(2) == 0 {
                    shared.file.write_all_at(old, at * SECTOR).expect("a file is written");
                }
            }
        }
    }
    assert!(lost > 10, "only {lost} cuts lost anything: the test shows little");
}

/// A small store that was closed, or whose process died behind a flush, and what it holds.
fn small_store(path: &Path, clean: bool, turns: bool) -> State {
    let mut pool = PayloadPool::new(Content::Bytes);
    let mut play = Play::new(7);
    let (mut pages, shared) = open(path);
    for _ in 0..if turns { 300 } else { 40 } {
        play.step(&mut pages, &mut pool);
        play.settle(&mut pages);
        if shared.wants_sync.swap(false, Ordering::AcqRel) {
            shared.sync().expect("a file is synced");
        }
    }
    pages.settle(Instant(u64::MAX));
    match clean {
        true => shared.prove(),
        false => shared.sync(),
    }
    .expect("a file is synced");
    let state = state_of(&mut pages, &mut pool).0;
    assert!(state.iter().flatten().count() > 8);
    state
}

/// For each page what it holds, if it is readable.
type Found = Vec<Option<Option<(Oob, u8)>>>;

/// What a start makes of the file: why it is refused, or each page, none where it is unreadable.
fn start(path: &Path, salvage: bool) -> Result<(Found, Vec<String>), String> {
    let drive = Drive { shape: SHAPE, said: "flash for a test".into(), before: "flash for a test".into() };
    let opened = file::open(path, &drive, false, salvage).map_err(|error| error.to_string())?;
    let areas = Areas::new(LABEL, FORM.records(), NEWS);
    let (mut pages, gone) =
        Pages::open(FORM, Arc::new(opened.shared), areas, salvage).map_err(|why| match why {
            Unfit::Damaged(damage) => format!("damaged at byte {}: {}", damage.at, damage.what),
            Unfit::Io(error) => panic!("{error}"),
        })?;
    let mut pool = PayloadPool::new(Content::Bytes);
    let into = pool.allocate(ByteLen(SECTOR));
    let read = |unit| match pages.state(unit) {
        UnitState::Programmed(oob) => match pages.read(&mut pool, unit, 0, 1, into) {
            true => Some(Some((oob, pool.bytes(into, ByteLen(SECTOR))[0]))),
            false => None,
        },
        UnitState::Erased => Some(None),
        UnitState::Torn => None,
    };
    Ok(((0..FORM.units).map(read).collect(), gone))
}

/// Flips these bits of the file in turn: refused with its place, or all right, or a page that is unreadable. Never another state.
fn flip(made: &Path, state: &State, bits: impl Iterator<Item = usize>, name: &str) -> [usize; 3] {
    let path = made.with_extension("flipped");
    let bytes = std::fs::read(made).expect("a file");
    let [mut refused, mut unreadable, mut right] = [0; 3];
    let mut is_as_made = false;
    for bit in bits {
        let (at, sector) = (bit / 8, bit / 8 / SECTOR as usize * SECTOR as usize);
        if !std::mem::replace(&mut is_as_made, true) {
            std::fs::write(&path, &bytes).expect("a file");
        }
        let file = File::options().write(true).open(&path).expect("a file");
        file.write_all_at(&[bytes[at] ^ 1 << (bit % 8)], at as u64).expect("a file");
        let what = format!("{name}: byte {at}, bit {}", bit % 8);
        match start(&path, false) {
            Err(why) => {
                refused += 1;
                file.write_all_at(&[bytes[at]], at as u64).expect("a file");
                if refused % 64 == 1 {
                    assert!(std::fs::read(&path).expect("a file") == bytes, "{what}: it is changed");
                }
                let named = (sector..sector + SECTOR as usize).any(|at| why.contains(&format!("byte {at}")));
                assert!(named || at < LABEL as usize, "{what}: {why}");
            }
            Ok((found, _)) => {
                let lost = found.iter().any(|page| page.is_none());
                is_as_made = false;
                *if lost { &mut unreadable } else { &mut right } += 1;
                for (unit, (found, held)) in found.iter().zip(state).enumerate() {
                    assert!(found.is_none() || *found == Some(*held), "{what}: page {unit}");
                }
            }
        }
    }
    println!("{name}: {refused} refused, {unreadable} unreadable, {right} right");
    [refused, unreadable, right]
}

fn bits(bytes: std::ops::Range<usize>) -> std::ops::Range<usize> {
    8 * bytes.start..8 * bytes.end
}

/// Every bit of one record of each kind: the label, a mark, the state and a batch of the log, a page.
#[test]
fn each_flipped_bit_of_a_record_is_refused_or_mended_or_an_error() {
    let dir = tempfile::tempdir().expect("a directory");
    let made = dir.path().join("made");
    let state = small_store(&made, true, false);
    let areas = Areas::new(LABEL, FORM.records(), NEWS);
    let record = |at: u64| bits(at as usize..(at + SECTOR) as usize);
    let label = bits(0..160).chain(bits(4080..4096));
    let [refused, unreadable, right] = flip(&made, &state, label, "label");
    assert!(refused > 1000 && unreadable + right == 0);
    for (slot, step) in [(LABEL, 1), (LABEL + 4096, 16)] {
        let flipped = flip(&made, &state, record(slot).step_by(step), "mark");
        assert_eq!(flipped, [0, 0, 4096 / step], "the other mark is there");
    }
    for (sector, name) in [(0, "state"), (1, "batch"), (20, "batch")] {
        let flipped = flip(&made, &state, record(areas.start(0) + sector * SECTOR), name);
        assert_eq!(flipped, [4096, 0, 0]);
    }
    let page = data_at(FORM, &areas);
    // Each byte is under one checksum.
    let flipped = flip(&made, &state, record(page).step_by(5), "page");
    assert_eq!(flipped, [0, 820, 0]);
}

/// Bits anywhere in the file: after a clean end, and after a death behind a flush; with one area of the log, and with both.
#[test]
fn a_flipped_bit_anywhere_is_never_another_state() {
    for (clean, turns) in [(true, false), (true, true), (false, false), (false, true)] {
        let dir = tempfile::tempdir().expect("a directory");
        let made = dir.path().join("made");
        let state = small_store(&made, clean, turns);
        let bytes = std::fs::read(&made).expect("a file");
        let used = |bit: &usize| {
            let sector = bit / 8 / SECTOR as usize * SECTOR as usize;
            bytes[sector..(sector + SECTOR as usize).min(bytes.len())].iter().any(|&byte| byte != 0)
        };
        let bits = (0..8 * bytes.len()).step_by(if turns { 811 } else { 307 }).filter(used);
        let [refused, unreadable, _] = flip(&made, &state, bits, &format!("clean {clean}, turns {turns}"));
        assert!(refused > 50 && unreadable > 10, "{refused} {unreadable}");
    }
}

/// What is torn away from a log that was durable is missed; a salvage goes back behind it and says so, and the next start is an ordinary one.
#[test]
fn a_salvage_goes_back_to_the_damage_and_says_what_is_gone() {
    let areas = Areas::new(LABEL, FORM.records(), NEWS);
    for (sector, damage) in [(20, "zeros"), (20, "a bit"), (0, "a bit")] {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("drive");
        let state = small_store(&path, true, false);
        let mut bytes = std::fs::read(&path).expect("a file");
        let at = (areas.start(0) + sector * SECTOR) as usize;
        match damage {
            "zeros" => bytes[at..at + SECTOR as usize].fill(0),
            _ => bytes[at + 100] ^= 4,
        }
        std::fs::write(&path, &bytes).expect("a file");
        let why = start(&path, false).expect_err("it is refused");
        assert!(why.contains(&format!("byte {at}")), "{damage}: {why}");
        assert!(std::fs::read(&path).expect("a file") == bytes, "{damage}: it is changed");
        let (found, gone) = start(&path, true).unwrap_or_else(|why| panic!("{damage}: {why}"));
        assert!(!gone.is_empty());
        println!("{damage} in sector {sector}: {gone:#?}");
        if sector > 0 {
            let said = gone.join("; ");
            assert!(said.contains("goes back to batch 20") && said.contains("logical page"), "{said}");
            assert_ne!(found, state.iter().map(|&page| Some(page)).collect::<Vec<_>>());
        }
        let (again, gone) = start(&path, false).unwrap_or_else(|why| panic!("{damage}, again: {why}"));
        assert_eq!((again, gone.len()), (found, 0), "{damage}");
    }
}
