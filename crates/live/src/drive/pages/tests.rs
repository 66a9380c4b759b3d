//! The medium of flash against an obvious one: a list of what every page holds.

use super::*;
use crate::drive::file::{self, Drive, Shape, LABEL};
use crate::drive::log::Areas;
use nandu_base::Content;
use std::os::unix::fs::FileExt;
use std::path::Path;

const FORM: Form = Form { units: 64, sectors: 1, block_units: 8 };
const SHAPE: Shape = Shape::Flash { units: 64, unit_sectors: 1, units_per_block: 8 };
/// So little that areas turn all the time.
const NEWS: u64 = 2000;

/// What a page holds: its record and the byte that fills it.
type State = Vec<Option<(Oob, u8)>>;

fn open(path: &Path) -> (Pages, Arc<Shared>) {
    let drive = Drive { shape: SHAPE, said: "flash for a test".into() };
    let opened = file::open(path, &drive, true).unwrap_or_else(|error| panic!("{error}"));
    let (shared, is_new) = (Arc::new(opened.shared), opened.is_new);
    let areas = Areas::new(LABEL, FORM.records(), NEWS);
    let pages = Pages::in_file(FORM, Arc::clone(&shared), areas, is_new).expect("a store is opened");
    if is_new {
        file::finish_making(&shared, &drive).expect("a label is written");
    }
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
