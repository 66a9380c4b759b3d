//! Performance isolation of tenants inside the translation layer: who may use how many units, and who lends to whom.
//!
//! Kim and Kwak, "Performance Isolation of Shared Space for Virtualized SSD based Storage Systems" (2019), section IV, adds three
//! managers to the translation layer. The *parallelism manager* is the width of a unit ([`crate::units`]). The *space manager* keeps what
//! each tenant has: [`Space`] deals the units out, [`Books`] are its ledger. The *isolation manager* lets a tenant that runs out of
//! erased units borrow from others before it collects: it is one of the policies here, one file each.
//!
//! | kind | what a tenant has | lends |
//! |---|---|---|
//! | [`Ops`] | units for its data, and a weight's share of the spare ones | no |
//! | [`Vssd`] | units in proportion to its space | no |
//! | [`SharedSpace`] | the same | up to a share of them |
//! | [`Adaptive`] | the same | up to a share that follows what lending is worth |
//!
//! In all of them a unit holds pages of one tenant (O3-6), a tenant collects only its own units (S3-15), its trigger counts its own
//! erased units (O3-9), and units that no tenant was given are used by nobody (S3-13). Tenants that have channels or dies of
//! their own need no policy: see the controller.
//!
//! *Who a unit belongs to* is not stored. A page names its logical page in its out-of-band record, a logical page belongs to the tenant
//! whose range it lies in, and a unit holds pages of one tenant; so a scan after a power cut finds each unit's owner. Loans are erased
//! units, which have no owner: what was lent and not used yet is back after a cut, and who has more units than it was given
//! has borrowed the rest.
//!
//! *How much can be lent* is a promise to those who lend: see [`room`] for why a lender has a lent unit back for at most one forced
//! collection.
//!
//! RAM: 16 bytes per tenant and 4 per pair of tenants, for each group of planes.

mod adaptive;
mod apart;
mod books;
pub mod conformance;
mod ops;
mod options;
pub mod room;
mod shared_space;
mod table;
mod vssd;

pub use adaptive::Adaptive;
pub use apart::{ChannelConfig, DieConfig, NoneConfig};
pub use books::{Account, Books};
pub use ops::{Ops, OpsConfig};
pub use options::{AnyIsolation, Given, Gives, IsolationOptions, Isolations, POLICIES, policy};
pub use shared_space::{Pool, ReturnPolicy, SharedSpace, SharedSpaceConfig, shared};
pub use table::{Part, Table};
pub use vssd::{Vssd, VssdConfig};

/// The most tenants of a drive.
pub const TENANTS_MAX: usize = 16;

/// What the space manager deals out: the units of one group of planes.
#[derive(Clone, Debug)]
pub struct Space {
    /// Units of the group.
    pub units: u32,
    /// Pages of a unit.
    pub pages: u32,
    /// Groups over which each tenant's pages go.
    pub groups: u32,
    /// Logical pages of the drive, given to tenants or not.
    pub logical: u32,
    /// Logical pages of each tenant.
    pub sizes: Vec<u32>,
    /// The weight of each tenant in the spare units.
    pub weights: Vec<u32>,
}

/// A way to isolate tenants.
pub trait Isolation: Send {
    /// Units of each tenant in every group. Their sum is at most the units of the group.
    fn shares(&self, space: &Space) -> Vec<u32>;

    /// Units of `allocated` that may be lent to others.
    fn contribution(&self, allocated: u32) -> u32 {
        let _ = allocated;
        0
    }

    /// The tenant that lends a unit to `borrower`, when one may; `free` has the erased units of each.
    fn lender(&self, books: &Books, free: &[u32], borrower: usize) -> Option<usize> {
        let _ = (books, free, borrower);
        None
    }

    /// Whether a tenant whose emptiest unit has so many of `pages` pages valid may borrow.
    fn admits(&self, valid: u32, pages: u32) -> bool {
        let _ = (valid, pages);
        true
    }

    /// A unit that `lender` had lent has come back. When it was lent the borrower put off clearing a unit with `put_off` valid pages; of the one
    /// that it has cleared since it has `moved` so many. Returns the contribution of `lender` from here on, when it may change.
    fn came_back(&mut self, lender: usize, account: &Account, put_off: u32, moved: u32) -> Option<u32> {
        let _ = (lender, account, put_off, moved);
        None
    }

    /// A tenant that has lent units has moved a page, with `spare` units more than its valid pages fill. Returns as
    /// [`came_back`](Isolation::came_back).
    fn lender_moved(&mut self, lender: usize, account: &Account, spare: u32) -> Option<u32> {
        let _ = (lender, account, spare);
        None
    }

    /// Whether a tenant that runs low demands what it has lent before it borrows or collects.
    fn demands_when_low(&self) -> bool {
        true
    }

    /// Whether a tenant that erases a unit gives one back at once.
    fn gives_back_at_erase(&self) -> bool {
        false
    }
}

/// Units in proportion to a tenant's space: its part of all logical pages is its part of all units.
fn in_proportion(space: &Space) -> Vec<u32> {
    space.sizes.iter().map(|&size| part_of(space.units, size, space.logical)).collect()
}

/// The part of `units` that belongs to `size` of `logical` pages.
pub fn part_of(units: u32, size: u32, logical: u32) -> u32 {
    (u64::from(units) * u64::from(size) / u64::from(logical.max(1))) as u32
}

#[cfg(test)]
mod tests;
