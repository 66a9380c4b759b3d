//! Units that tenants have for themselves.
//!
//! A plane (or group of planes) then has one pool for each tenant: open blocks, erased blocks and valid pages of its own. Erased blocks
//! are all alike and lie in one list, which spreads the wear of all tenants over all blocks; a pool has a number of them, and a
//! loan is a change of two numbers. A block belongs to the pool that opened it until it is erased.
//!
//! RAM: 4 bytes per block, as much for each pool as for a plane, and a bit for each of its blocks.

use super::{BlockTable, Cursor, Plane};
use crate::address::{BlockId, Ppn};

/// What one tenant has in each plane.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Share {
    /// Blocks.
    pub blocks: u32,
    /// Of these, the ones that never hold valid data, so that clearing a block always gains.
    pub reserved: u32,
}

impl BlockTable {
    /// Gives each tenant its blocks of every plane of an erased drive. What is left belongs to nobody.
    pub fn set_shares(&mut self, shares: Vec<Share>) {
        let pages = self.layout.pages;
        let pool = |share: &Share| Plane {
            host: Cursor::CLOSED,
            moved: Cursor::CLOSED,
            free: share.blocks,
            valid: 0,
            valid_max: share.blocks.saturating_sub(share.reserved) * pages,
            clearing: false,
        };
        self.planes = (0..self.layout.planes).flat_map(|_| shares.iter().map(pool)).collect();
        self.pools_per_plane = shares.len() as u32;
        let words = self.words();
        self.owned = vec![0; self.planes.len() * words];
        for block in self.layout.all_blocks() {
            let plane = self.layout.plane_of_block(block);
            let (pool, at) = (plane * self.pools_per_plane, block.0 - self.layout.first_block(plane).0);
            self.pool_of[block.0 as usize] = pool;
            self.owned[pool as usize * words + at as usize / 64] |= 1 << (at % 64);
        }
        self.shares = shares;
    }

    /// What each tenant has in each plane.
    pub fn shares(&self) -> &[Share] {
        &self.shares
    }

    /// Says what a tenant has from here on: what its pools may hold follows. Its erased blocks are the caller's to count.
    pub fn change_share(&mut self, tenant: u32, share: Share) {
        self.shares[tenant as usize] = share;
        let valid_max = share.blocks.saturating_sub(share.reserved) * self.layout.pages;
        let pools = self.pools_per_plane as usize;
        self.planes.iter_mut().skip(tenant as usize).step_by(pools).for_each(|p| p.valid_max = valid_max);
    }

    /// Blocks of the plane of a pool that can be used and that somebody may have.
    pub fn good_blocks(&self, pool: u32) -> u32 {
        let blocks = self.layout.plane_blocks(self.plane_of_pool(pool));
        blocks.skip(self.apart as usize).filter(|&block| !self.is_bad(block)).count() as u32
    }

    /// A pool has so many erased blocks more, which nobody had, or fewer, which nobody has from here on.
    pub fn give_erased(&mut self, pool: u32, blocks: i64) {
        let free = &mut self.planes[pool as usize].free;
        let now = i64::from(*free) + blocks;
        *free = u32::try_from(now).expect("I-7: only erased blocks are given away");
    }

    /// Gives up what is left of the open block for moved pages of a pool.
    pub fn close_moved(&mut self, pool: u32) {
        let rest = std::mem::replace(&mut self.planes[pool as usize].moved, Cursor::CLOSED);
        self.waste(rest);
    }

    /// Pools of each plane: one, or one for each tenant.
    #[inline]
    pub fn pools_per_plane(&self) -> u32 {
        self.pools_per_plane
    }

    /// The plane of a pool.
    #[inline]
    pub fn plane_of_pool(&self, pool: u32) -> u32 {
        pool / self.pools_per_plane
    }

    /// The pool that a page's block belongs to.
    #[inline]
    pub fn pool_of_page(&self, ppn: Ppn) -> u32 {
        self.pool_of[self.layout.block(ppn).0 as usize]
    }

    /// The pool that a block belongs to; of an erased one, the one that it belonged to last.
    #[inline]
    pub fn pool_of_block(&self, block: BlockId) -> u32 {
        self.pool_of[block.0 as usize]
    }

    /// Says which pool a block belongs to: when it is opened, or after a scan.
    pub fn restore_owner(&mut self, block: BlockId, pool: u32) {
        let before = std::mem::replace(&mut self.pool_of[block.0 as usize], pool);
        if let Some(modes) = &mut self.modes {
            modes.goes(block, before, pool);
        }
        if !self.owned.is_empty() {
            let at = block.0 - self.layout.first_block(self.layout.plane_of_block(block)).0;
            let (words, word, bit) = (self.words(), at as usize / 64, 1 << (at % 64));
            self.owned[before as usize * words + word] &= !bit;
            self.owned[pool as usize * words + word] |= bit;
        }
    }

    /// Words that say which blocks of its plane a pool has.
    fn words(&self) -> usize {
        (self.layout.blocks as usize).div_ceil(64)
    }

    /// The blocks that belong to a pool, in order, as numbers in their plane; an erased one belongs to the pool that had it last.
    fn own_blocks(&self, pool: u32) -> impl Iterator<Item = u32> + '_ {
        // Without tenants, or with planes of their own, a pool is a plane.
        let (all, own) = match self.owned.is_empty() {
            true => (0..self.layout.blocks, &[][..]),
            false => (0..0, &self.owned[pool as usize * self.words()..][..self.words()]),
        };
        let marked = own.iter().zip((0u32..).step_by(64)).flat_map(|(&word, first)| {
            let next = |left: &u64| Some(left & (left - 1)).filter(|&left| left != 0);
            let bits = std::iter::successors(Some(word).filter(|&word| word != 0), next);
            bits.map(move |left| first + left.trailing_zeros())
        });
        all.chain(marked)
    }

    /// Says, after a scan, how many erased blocks a pool has.
    pub fn restore_free(&mut self, pool: u32, free: u32) {
        self.planes[pool as usize].free = free;
    }

    /// An erased block goes from one pool to another of the same plane.
    pub fn hand_over(&mut self, from: u32, to: u32) {
        assert!(self.planes[from as usize].free > 0, "I-7: only an erased block goes to another tenant");
        self.planes[from as usize].free -= 1;
        self.planes[to as usize].free += 1;
    }

    /// Written blocks of a pool.
    pub fn held(&self, pool: u32) -> u32 {
        let plane = self.plane_of_pool(pool);
        let written = |block: &BlockId| {
            let first = self.layout.first_page(*block).0 as usize;
            // An open block may have no page yet.
            self.owners[first] != 0
                || [self.planes[pool as usize].host, self.planes[pool as usize].moved]
                    .iter()
                    .any(|open| open.block(&self.layout) == *block)
                || self.is_of_stream(pool, *block)
        };
        let own = self.layout.plane_blocks(plane).filter(|&block| self.pool_of_block(block) == pool);
        own.filter(written).count() as u32
    }

    /// Invalid pages of the blocks of a plane as the owner of `pool` may see them: those of others, and those of open blocks
    /// beside its own two, count none.
    pub fn invalid_for(&self, pool: u32, out: &mut Vec<u16>) {
        let first = self.layout.first_block(self.plane_of_pool(pool)).0 as usize;
        let blocks = first..first + self.layout.blocks as usize;
        let own = |(&invalid, &owner): (&u16, &u32)| if owner == pool { invalid } else { 0 };
        out.clear();
        out.extend(self.invalid[blocks.clone()].iter().zip(&self.pool_of[blocks]).map(own));
        self.open_streams(pool).for_each(|open| out[open.0 as usize - first] = 0);
    }

    /// Valid pages of each full block of a pool, `but` left out.
    pub fn valid_of_full<'a>(&'a self, pool: u32, but: BlockId) -> impl Iterator<Item = u32> + 'a {
        let p = self.planes[pool as usize];
        let open = [p.host.block(&self.layout), p.moved.block(&self.layout), but];
        let (pages, plane) = (self.layout.pages, self.layout.first_block(self.plane_of_pool(pool)).0);
        let is_full = move |block: &BlockId| {
            self.owners[self.layout.first_page(*block).0 as usize] != 0
                && !open.contains(block)
                && !self.is_of_stream(pool, *block)
        };
        let blocks = self.own_blocks(pool).map(move |block| BlockId(plane + block)).filter(is_full);
        blocks.map(move |block| pages - u32::from(self.invalid(block)))
    }

    /// Pages that moved pages of a pool can take: those left in its open block for them, and all of its erased blocks.
    pub fn room_of(&self, pool: u32) -> u64 {
        let p = &self.planes[pool as usize];
        u64::from(p.moved.left()) + u64::from(p.free) * u64::from(self.layout.pages)
    }
}
