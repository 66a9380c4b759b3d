//! A drive's log-block map: one [`LogBlocks`] for each pool, and which page belongs to which of them.
//!
//! A pool is a plane, or the part of a plane that a tenant has where tenants are kept apart: then its blocks follow each other in the plane, and
//! the range of each tenant is dealt out to its own pools. So a tenant's log blocks are its own, and so are the merges that they cost.
//!
//! *Blocks that change hands*: where tenants lend, or come and go ([`crate::isolation`]), each pool of a plane numbers all blocks of the plane and has those that it was
//! given, and an erased one goes from one to another ([`LogMap::hand_over`]), to nobody or from nobody. The range of a tenant may be another one from a deal on, and of no
//! pages.
//!
//! To the controller it is a [`Mapping`] that tells where a page lies and chooses the page for its next version itself. Merges
//! stay inside a pool, so a copy needs no other die and no two merges meet.
//!
//! Cost: one division a page, with tenants a search among their ranges, and what the map of the pool takes.

use super::homes::Homes;
use super::region::Region;
use super::{Counts, LogBlocks};
use crate::address::{BlockId, Layout, Lpn, Ppn};
use crate::mapping::Mapping;

/// The pool of a block that no pool has.
pub const NOBODY: u32 = u32::MAX;

/// The blocks of one pool.
struct Pool {
    plane: u32,
    /// Its first block.
    first: BlockId,
    /// Log blocks that it may have open beside what it has borrowed and lent.
    logs: u32,
    map: Box<dyn LogBlocks>,
}

/// See the module's page.
pub struct LogMap {
    /// The ranges of all tenants, in their order; one without tenants.
    homes: Vec<Homes>,
    /// Those with pages, in the order of their first.
    by_place: Vec<u32>,
    layout: Layout,
    pools: Vec<Pool>,
    /// The pool of each block, or [`NOBODY`].
    owners: Vec<u32>,
    /// Blocks change hands.
    moves: bool,
    /// A planted fault: two pages of different ranges change their homes.
    pub swaps: bool,
}

impl LogMap {
    /// Ranges of pages, and the map of each pool with the block that it numbers first, as many for each plane of `layout`, plane after plane.
    pub fn new(
        homes: Vec<Homes>,
        layout: Layout,
        maps: Vec<(BlockId, Box<dyn LogBlocks>)>,
        moves: bool,
    ) -> LogMap {
        let mut owners = vec![NOBODY; layout.block_end() as usize];
        let mut pools = Vec::with_capacity(maps.len());
        for (number, (first, map)) in (0..).zip(maps) {
            for block in map.region().begins_with() {
                owners[first.behind(block).0 as usize] = number;
            }
            pools.push(Pool { plane: layout.plane_of_block(first), first, logs: map.room(), map });
        }
        let mut map = LogMap { homes, by_place: Vec::new(), layout, pools, owners, moves, swaps: false };
        map.order_places();
        map
    }

    fn order_places(&mut self) {
        let homes = &self.homes;
        self.by_place.clear();
        self.by_place.extend((0..homes.len() as u32).filter(|&at| homes[at as usize].logical > 0));
        self.by_place.sort_unstable_by_key(|&at| homes[at as usize].first);
    }

    /// Whether blocks change hands.
    pub fn moves_blocks(&self) -> bool {
        self.moves
    }

    /// A tenant has these pages from here on.
    pub fn set_range(&mut self, tenant: usize, first: u32, logical: u32) {
        (self.homes[tenant].first, self.homes[tenant].logical) = (first, logical);
        self.order_places();
    }

    /// A pool has so many logical blocks, and log blocks beside what it has borrowed and lent, which is `more` together.
    pub fn resize(&mut self, pool: u32, logical: u32, logs: u32, more: i32) {
        let at = &mut self.pools[pool as usize];
        at.logs = logs;
        at.map.resize(logical, logs.saturating_add_signed(more));
    }

    /// The block that a pool erased last is nobody's from here on.
    pub fn give_away(&mut self, pool: u32) -> BlockId {
        let number = self.pools[pool as usize].map.region_mut().give_out();
        let block = self.block(pool, number);
        self.owners[block.0 as usize] = NOBODY;
        block
    }

    /// The pools of a tenant in their turns, with the pages that each has of its range.
    pub fn pages_in_pools(&self, tenant: usize) -> impl Iterator<Item = (u32, u32)> + '_ {
        let homes = &self.homes[tenant];
        (0..).zip(&homes.order).map(move |(turn, &pool)| (pool, homes.below(turn, homes.end())))
    }

    /// Erased blocks of a pool that its owner may lend. Its last log block stays its own.
    pub fn lendable(&self, pool: u32) -> u32 {
        let map = self.pool(pool);
        if map.is_merging() { 0 } else { map.spare().min(map.room().saturating_sub(1)) }
    }

    /// Log blocks of a pool beside what it has borrowed and lent.
    pub fn own_logs(&self, pool: u32) -> u32 {
        self.pools[pool as usize].logs
    }

    /// Log blocks that a pool may have open, and those that it may have by what it was made with, has `borrowed` and has `lent`.
    pub fn rights(&self, pool: u32, borrowed: u32, lent: u32) -> (u32, u32) {
        let Pool { logs, map, .. } = &self.pools[pool as usize];
        (map.logs_max(), logs + borrowed - lent)
    }

    /// Whether a pool can do with an erased block less.
    pub fn can_spare(&self, pool: u32) -> bool {
        let map = self.pool(pool);
        !map.is_merging() && map.spare() > 0
    }

    /// The block that one pool of a plane erased last goes to another one.
    pub fn hand_over(&mut self, from: u32, to: u32) -> BlockId {
        let number = self.pools[from as usize].map.region_mut().give_out();
        self.pools[to as usize].map.region_mut().take_in(number);
        let block = self.block(to, number);
        self.owners[block.0 as usize] = to;
        block
    }

    /// The pool of a block.
    pub fn pool_of(&self, block: BlockId) -> u32 {
        self.owners[block.0 as usize]
    }

    /// The pools of a plane.
    pub fn pools_of_plane(&self, plane: u32) -> std::ops::Range<u32> {
        let per_plane = self.pools.len() as u32 / self.layout.planes;
        plane * per_plane..(plane + 1) * per_plane
    }

    /// The pool of a plane whose pages have this number on record among them.
    pub fn pool_of_record(&self, plane: u32, page: u32) -> u32 {
        let begins = |&pool: &u32| self.pool(pool).region().base() <= page;
        self.pools_of_plane(plane).rfind(begins).expect("the first pool of a plane begins at 0")
    }

    /// An erased block that nobody has is a pool's from here on.
    pub fn find_free(&mut self, block: BlockId, pool: u32) {
        self.owners[block.0 as usize] = pool;
        let at = &mut self.pools[pool as usize];
        at.map.region_mut().take_in(block.0 - at.first.0);
    }

    /// After a start: a block is a pool's.
    pub fn owned_by(&mut self, block: BlockId, pool: u32) {
        self.owners[block.0 as usize] = pool;
    }

    /// The pool of a page that is somebody's, and its number there.
    #[inline]
    pub fn home(&self, lpn: u32) -> (u32, u32) {
        self.find(lpn).expect("only pages of a tenant are asked for")
    }

    /// The same of any page; none where it is nobody's.
    #[inline]
    pub fn find(&self, lpn: u32) -> Option<(u32, u32)> {
        match &self.homes[..] {
            [all] if lpn < all.end() => Some(all.home(lpn)),
            _ => self.find_among(if self.swaps { self.swapped(lpn) } else { lpn }),
        }
    }

    fn find_among(&self, lpn: u32) -> Option<(u32, u32)> {
        let homes = |at: u32| &self.homes[at as usize];
        let at = self.by_place.partition_point(|&at| homes(at).end() <= lpn);
        let homes = homes(*self.by_place.get(at)?);
        (homes.first <= lpn).then(|| homes.home(lpn))
    }

    /// The last page of the first range for the first one of the second, and the other way round.
    fn swapped(&self, lpn: u32) -> u32 {
        let [one, other, ..] = self.by_place[..] else { return lpn };
        let (last, first) = (self.homes[one as usize].end() - 1, self.homes[other as usize].first);
        if lpn == last {
            first
        } else if lpn == first {
            last
        } else {
            lpn
        }
    }

    /// Turns of all ranges together.
    pub fn turns(&self) -> u32 {
        self.homes.iter().map(|homes| homes.order.len() as u32).sum()
    }

    /// The pool of a turn, and what pages `first..end` are there: one range of its own numbers.
    pub fn in_pool(&self, mut turn: u32, first: u32, end: u32) -> (u32, std::ops::Range<u32>) {
        for homes in &self.homes {
            if (turn as usize) < homes.order.len() {
                return homes.in_pool(turn, first, end);
            }
            turn -= homes.order.len() as u32;
        }
        unreachable!("there are so many turns")
    }

    /// Pools of the drive.
    pub fn pools(&self) -> u32 {
        self.pools.len() as u32
    }

    /// The map of a pool.
    pub fn pool(&self, pool: u32) -> &dyn LogBlocks {
        &*self.pools[pool as usize].map
    }

    /// The same, to change.
    pub fn pool_mut(&mut self, pool: u32) -> &mut dyn LogBlocks {
        &mut *self.pools[pool as usize].map
    }

    /// The plane of a pool.
    pub fn plane_of(&self, pool: u32) -> u32 {
        self.pools[pool as usize].plane
    }

    /// The pool of each block, by number, or [`NOBODY`].
    pub fn pools_of_blocks(&self) -> &[u32] {
        &self.owners
    }

    /// Valid pages of each block.
    pub fn valid_pages(&self) -> Vec<u32> {
        let valid = |block: BlockId| {
            if self.owners[block.0 as usize] == NOBODY {
                return 0;
            }
            let pool = &self.pools[self.owners[block.0 as usize] as usize];
            pool.map.region().valid(block.0 - pool.first.0)
        };
        self.layout.all_blocks().map(valid).collect()
    }

    /// The physical page that a pool numbers so.
    #[inline]
    pub fn ppn(&self, pool: u32, spot: u32) -> Ppn {
        Ppn(self.layout.first_page(self.pools[pool as usize].first).0 + spot)
    }

    /// The block that a pool numbers so.
    #[inline]
    pub fn block(&self, pool: u32, block: u32) -> BlockId {
        self.pools[pool as usize].first.behind(block)
    }

    /// The record of a page that is mapped.
    pub fn record(&self, lpn: Lpn) -> Option<u64> {
        let (pool, local) = self.find(lpn.0)?;
        let region = self.pool(pool).region();
        region.at(local).map(|spot| region.tag(local, spot).word())
    }

    /// The blocks of each pool.
    pub fn regions(&self) -> impl Iterator<Item = &Region> {
        self.pools.iter().map(|pool| pool.map.region())
    }

    /// What happened in all pools since the counters were reset.
    pub fn merged(&self) -> Counts {
        let mut sum = Counts::default();
        self.regions().for_each(|region| sum.add(&region.count));
        sum
    }

    /// Log blocks in use.
    pub fn logs(&self) -> u64 {
        self.pools.iter().map(|pool| u64::from(pool.map.logs())).sum()
    }
}

impl Mapping for LogMap {
    #[inline]
    fn get(&self, lpn: Lpn) -> Option<Ppn> {
        let (pool, local) = self.find(lpn.0)?;
        self.pool(pool).region().at(local).map(|spot| self.ppn(pool, spot))
    }

    #[inline(always)]
    fn lookup_cached(&mut self, lpn: Lpn) -> Option<Option<Ppn>> {
        Some(self.get(lpn))
    }

    fn set(&mut self, _lpn: Lpn, _ppn: Ppn) -> Option<Ppn> {
        unreachable!("a log-block map chooses the pages itself")
    }

    fn clear(&mut self, _lpn: Lpn) -> Option<Ppn> {
        unreachable!("a log-block map unmaps pages of a logical block at a time")
    }

    fn reset(&mut self) {
        self.pools.iter_mut().for_each(|pool| pool.map.region_mut().reset());
    }

    fn prefetch(&self, _lpn: Lpn) {}

    fn log_blocks(&self) -> Option<&LogMap> {
        Some(self)
    }

    fn log_blocks_mut(&mut self) -> Option<&mut LogMap> {
        Some(self)
    }

    fn reset_counts(&mut self) {
        self.pools.iter_mut().for_each(|pool| pool.map.region_mut().count = Counts::default());
    }

    fn ram(&self) -> u64 {
        self.pools.iter().map(|pool| pool.map.map_ram()).sum()
    }

    fn check(&self) -> Result<(), String> {
        (0..).zip(self.regions()).try_for_each(|(pool, region): (u32, _)| {
            region.check().map_err(|what| format!("pool {pool}: {what}"))
        })
    }
}
