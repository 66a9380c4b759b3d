//! Pools that keep their order, against what the flash holds: a log-block map by its simplest rules issues writes, moves, erases and reads,
//! and whatever the executor makes of them, each finds the version that it was issued for, and each pool changes in the order of issue.

use super::*;

const POOLS: usize = 4;
const BLOCKS: u32 = 4;
const LOGICAL: usize = 6;

/// An operation, and what it must find.
struct Issued {
    number: u64,
    pool: usize,
    job: Job,
    ppn: Ppn,
    /// Where a page moves from.
    from: Ppn,
    version: u32,
}

/// Blocks of a plane that follow each other, filled one after another.
#[derive(Clone, Default)]
struct Pool {
    /// Where each logical page lies, and its version.
    map: [Option<(Ppn, u32)>; LOGICAL],
    erased: Vec<u32>,
    full: Vec<u32>,
    /// The block that is written, and its pages so far.
    open: Option<(u32, u32)>,
}

struct Model {
    bed: Bed,
    pools: Vec<Pool>,
    issued: Vec<Issued>,
    versions: u32,
    /// Reads of a page at the place from which it has still to move.
    read_before_move: u32,
}

impl Model {
    fn new(mut bed: Bed) -> Model {
        let layout = *bed.queue.layout();
        let pool_of = |block| {
            let plane = layout.plane_of_block(BlockId(block));
            plane * 2 + (block - layout.first_block(plane).0) / BLOCKS
        };
        let of_blocks: Vec<u32> = (0..layout.block_end()).map(pool_of).collect();
        bed.queue.keep_order(POOLS as u32, &of_blocks);
        let blocks = |pool: usize| (0..BLOCKS).map(move |block| pool as u32 % 2 * BLOCKS + block).collect();
        let pools = (0..POOLS).map(|pool| Pool { erased: blocks(pool), ..Pool::default() }).collect();
        Model { bed, pools, issued: Vec::new(), versions: 0, read_before_move: 0 }
    }

    fn note(&mut self, at: u32, pool: usize, ppn: Ppn, from: Ppn, version: u32) {
        let Node { number, job, .. } = *self.bed.queue.node(at);
        self.issued.push(Issued { number, pool, job, ppn, from, version });
    }

    /// The next page of a pool.
    fn take(&mut self, pool: usize) -> Ppn {
        let state = &mut self.pools[pool];
        let (block, used) = state.open.take().unwrap_or_else(|| (state.erased.remove(0), 0));
        match used + 1 == PAGES {
            true => state.full.push(block),
            false => state.open = Some((block, used + 1)),
        }
        self.bed.ppn(pool as u32 / 2, block, used)
    }

    fn write(&mut self, pool: usize, lpn: usize) {
        if self.pools[pool].erased.len() < 2 && self.pools[pool].open.is_none() {
            self.collect(pool);
        }
        self.versions += 1;
        let (ppn, version) = (self.take(pool), self.versions);
        let older = self.pools[pool].map[lpn].replace((ppn, version)).map(|(older, _)| older);
        let order = self.bed.order();
        let at = self.bed.queue.program(Job::Program, &order, Page::read(ppn, 0), NONE, older);
        self.note(at, pool, ppn, ppn, version);
    }

    /// Moves what lies in the full block with the least, and erases it.
    fn collect(&mut self, pool: usize) {
        let layout = *self.bed.queue.layout();
        let block_of = |ppn: Ppn| layout.block(ppn).0 - layout.first_block(pool as u32 / 2).0;
        let lies_in = |state: &Pool, block: u32| {
            state.map.iter().flatten().filter(|at| block_of(at.0) == block).count()
        };
        let state = &self.pools[pool];
        let least = (0..state.full.len()).min_by_key(|&at| lies_in(state, state.full[at]));
        let victim =
            self.pools[pool].full.remove(least.expect("a pool with few erased blocks has full ones"));
        for lpn in 0..LOGICAL {
            let Some((from, version)) = self.pools[pool].map[lpn].filter(|at| block_of(at.0) == victim)
            else {
                continue;
            };
            let to = self.take(pool);
            self.pools[pool].map[lpn] = Some((to, version));
            let order = self.bed.order();
            let page = Page { base: Some(from), ..Page::read(to, 0) };
            let at = self.bed.queue.move_within(&order, page, from);
            self.note(at, pool, to, from, version);
        }
        let first = self.bed.ppn(pool as u32 / 2, victim, 0);
        let number = self.bed.erase(first);
        self.issued.push(Issued { number, pool, job: Job::Erase, ppn: first, from: first, version: 0 });
        self.pools[pool].erased.push(victim);
    }

    fn read(&mut self, pool: usize, lpn: usize) {
        let Some((ppn, version)) = self.pools[pool].map[lpn] else { return };
        let order = self.bed.order();
        let at = self.bed.queue.read(Job::Read, &order, Page::read(ppn, 0));
        let place = self.bed.queue.page(self.bed.queue.node(at).first_page).ppn;
        self.read_before_move += u32::from(place != ppn);
        self.note(at, pool, place, place, version);
    }

    /// What waits and changes a pool is counted.
    fn check_counts(&self, seed: u64) {
        for pool in 0..POOLS {
            let waits = |i: &&Issued| {
                i.pool == pool && i.job != Job::Read && !self.bed.ran.iter().any(|ran| ran.0 == i.number)
            };
            let waiting = self.issued.iter().filter(waits).count();
            assert_eq!(self.bed.queue.changes_of(pool as u32) as usize, waiting, "seed {seed}, pool {pool}");
        }
    }

    /// Goes through all that ran by time: first what ends at a moment, then what begins.
    fn check(&self, seed: u64) {
        let times = |number: u64| (self.bed.begin(number), self.bed.end(number));
        for pool in 0..POOLS {
            let changes: Vec<u64> = self
                .issued
                .iter()
                .filter(|i| i.pool == pool && i.job != Job::Read)
                .map(|i| i.number)
                .collect();
            for pair in changes.windows(2) {
                assert!(times(pair[0]).1 <= times(pair[1]).0, "seed {seed}: {pair:?} of pool {pool} overlap");
            }
        }
        let mut events: Vec<(u64, bool, usize)> = Vec::new();
        for (at, i) in self.issued.iter().enumerate() {
            let (begin, end) = times(i.number);
            events.extend([(end, false, at), (begin, true, at)]);
        }
        events.sort_unstable();
        let layout = self.bed.queue.layout();
        let mut holds = vec![0; layout.ppn_end() as usize];
        for (time, begins, at) in events {
            let Issued { number, job, ppn, from, version, .. } = self.issued[at];
            match (job, begins) {
                (Job::Erase, true) => holds[ppn.0 as usize..][..PAGES as usize].fill(0),
                (Job::Read | Job::MoveWithin, true) => {
                    let found = holds[from.0 as usize];
                    assert_eq!(
                        found, version,
                        "seed {seed}: {job:?} {number} at {time} finds another version"
                    );
                }
                (Job::Program | Job::MoveWithin, false) => {
                    assert_eq!(
                        holds[ppn.0 as usize], 0,
                        "seed {seed}: {job:?} {number} finds no erased page"
                    );
                    holds[ppn.0 as usize] = version;
                }
                _ => {}
            }
        }
    }
}

#[test]
fn pools_change_in_the_order_of_issue_and_every_page_is_found() {
    let mut read_before_move = 0;
    for seed in 0..400 {
        let mut rng = Rng::new(seed);
        let bed = if seed % 2 == 0 { Bed::without_lines() } else { Bed::new(1, rng.below(4) as u32) };
        let mut model = Model::new(bed);
        for _ in 0..150 {
            let (pool, lpn) = (rng.below(POOLS as u64) as usize, rng.below(LOGICAL as u64) as usize);
            match rng.below(5) {
                0 | 1 => model.read(pool, lpn),
                _ => model.write(pool, lpn),
            }
            if rng.below(3) == 0 {
                model.bed.pass(rng.below(25));
                model.check_counts(seed);
            }
        }
        model.bed.finish();
        model.check(seed);
        read_before_move += model.read_before_move;
    }
    assert!(read_before_move > 100, "pages are also read where they have still to move from");
}
