//! Families of random stacks, by name.

use super::Shape;

/// Families of stacks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Family {
    /// One drive.
    Ssd(Drive),
    /// One machine of this kind over leaves.
    Over(&'static str),
    /// One hard disk.
    Hdd,
    /// A mirror of two drives.
    MirrorOfSsds,
    /// A mirror of two drives, each behind `fault`.
    MirrorOfFaultySsds,
    /// A mirror of two leaves with slow volatile caches, and no other fault.
    MirrorOfCaches,
    /// A parity array of leaves that never fail.
    ParityOfLeaves,
    /// A parity array of leaves with slow volatile caches, and no other fault.
    ParityOfCaches,
    /// A parity array of drives, each behind `fault`.
    ParityOfFaultySsds,
    /// Checksums over a leaf that never fails, or over one with a slow volatile cache.
    Integrity,
    /// A mirror of two legs with checksums, one of which stores wrong data.
    MirrorThatRots,
    /// A parity array of legs with checksums, one of which stores wrong data.
    ParityThatRots,
    /// Stripes, mirrors and parity arrays upon each other.
    Arrays,
    /// A cache over a device; what is settled of it.
    Cache(Caching),
    /// A cache over a stripe of legs with volatile caches that are lost often: one leg loses what it had of a write while the other
    /// parts of it are under way.
    CacheOverStripe,
    /// A mirror of two files in the page cache; here the process may also die without a power cut.
    MirrorOfFiles,
    /// A mirror of three files, of leaves with slow volatile caches, or of drives or leaves behind `fault`.
    MirrorOfThree,
    /// Tenants behind a fair queue.
    Queue,
    /// Tenants behind a fair queue, and below it a drive that keeps them apart.
    QueueOverTenants,
    /// Tenants on a drive whose dies serve them by share.
    FairDies,
    /// As `ssd-combined`, with an export for each tenant, dies that are shared out among them, and lending as often as not.
    Everything,
    /// A hybrid disk over any members, some of which may fail; with `true` over files only, whose process may also die.
    Hybrid(bool),
    /// A hybrid disk with one slow ring, which has what was read; all writes of the host go past it to a quick disk.
    HybridPastRing,
    /// A hybrid disk whose rings are areas of one flash chip.
    HybridOnOneChip,
    /// A hybrid disk whose rings hold copies only, and are lost, fail and are missing at starts; the disk seldom fails.
    HybridWritethrough,
    /// A hybrid disk with a map of dirty regions, whose only ring is lost for good now and then: the disk goes on alone, and a blank one is taken later.
    HybridLosesRings,
    /// A cache that culls, and tells a hybrid disk below which blocks are used.
    CullingOverHybrid,
    /// A hetero-mirror over any legs, or as one of the mirrors above.
    Hetero(Legs),
}

/// What a hetero-mirror stands on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Legs {
    /// Any of these.
    Any,
    /// As [`Family::MirrorOfSsds`].
    Ssds,
    /// As [`Family::MirrorOfFaultySsds`].
    FaultySsds,
    /// As [`Family::MirrorOfCaches`].
    Caches,
    /// As [`Family::MirrorOfFiles`].
    Files,
    /// A quick leaf and a slow one, each behind `fault`.
    Unlike,
    /// A quick leaf and a hard disk that stops soon, whose queue is kept.
    Resting,
    /// A quick leaf and a hybrid disk, whose upper ring is the durable queue of its disk.
    Hybrid,
}

/// What is settled of a drawn cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Caching {
    /// Nothing.
    Any,
    /// Fixed or adaptive culling, most writes through.
    Culling,
    /// The same, all writes through.
    CullingThrough,
    /// Write-back.
    Back,
}

/// What is settled of a drawn drive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Drive {
    /// Nothing.
    Any,
    /// Page map, die scheduler `fcfs`.
    AtOnce,
    /// The same, under a load of trims and flushes.
    Trimmed,
    /// Page map, die scheduler `out-of-order`.
    Queued,
    /// A map on the flash.
    Paged,
    /// TPC-FTL with delayed reads.
    DelayedReads,
    /// CFTL that gathers blocks as soon as they are read.
    Gathers,
    /// Page map, and blocks that wear out.
    Worn,
    /// Units of several blocks, any map on pages.
    Units,
    /// The same, its dies serve tenants by share.
    Shared,
    /// Tenants, kept apart in any way.
    Tenants,
    /// Tenants that lend as much as they can.
    Lending,
    /// Tenants that come and go, grow and shrink.
    Dealing,
    /// Tenants, kept apart in any way, over a map on the flash.
    PagedTenants,
    /// A log-block map.
    LogBlock,
    /// A page-mapped drive with a write buffer.
    Buffered,
    /// The same with power-loss protection.
    Protected,
    /// A page-mapped drive with a cache in SLC mode.
    Slc,
    /// Everything with everything that goes with it.
    Combined,
}

impl Family {
    /// Every family that has a name on the command line.
    pub const ALL: &'static [(&'static str, Family)] = &[
        ("ssd", Family::Ssd(Drive::Any)),
        ("ssd-at-once", Family::Ssd(Drive::AtOnce)),
        ("ssd-trimmed", Family::Ssd(Drive::Trimmed)),
        ("ssd-queued", Family::Ssd(Drive::Queued)),
        ("ssd-paged", Family::Ssd(Drive::Paged)),
        ("ssd-delayed-reads", Family::Ssd(Drive::DelayedReads)),
        ("ssd-gathers", Family::Ssd(Drive::Gathers)),
        ("ssd-worn", Family::Ssd(Drive::Worn)),
        ("ssd-units", Family::Ssd(Drive::Units)),
        ("ssd-tenants", Family::Ssd(Drive::Tenants)),
        ("ssd-lending", Family::Ssd(Drive::Lending)),
        ("ssd-dealing", Family::Ssd(Drive::Dealing)),
        ("ssd-paged-tenants", Family::Ssd(Drive::PagedTenants)),
        ("hdd", Family::Hdd),
        ("ssd-log", Family::Ssd(Drive::LogBlock)),
        ("ssd-buffered", Family::Ssd(Drive::Buffered)),
        ("ssd-protected", Family::Ssd(Drive::Protected)),
        ("ssd-slc", Family::Ssd(Drive::Slc)),
        ("ssd-combined", Family::Ssd(Drive::Combined)),
        ("slice", Family::Over("slice")),
        ("concat", Family::Over("concat")),
        ("stripe", Family::Over("stripe")),
        ("fault", Family::Over("fault")),
        ("link", Family::Over("link")),
        ("cache", Family::Cache(Caching::Any)),
        ("cache-culling", Family::Cache(Caching::Culling)),
        ("cache-write-back", Family::Cache(Caching::Back)),
        ("cache-over-stripe", Family::CacheOverStripe),
        ("queue", Family::Queue),
        ("queue-over-tenants", Family::QueueOverTenants),
        ("fair-dies", Family::FairDies),
        ("ssd-everything", Family::Everything),
        ("mirror", Family::Over("mirror")),
        ("mirror-of-ssds", Family::MirrorOfSsds),
        ("mirror-of-faulty-ssds", Family::MirrorOfFaultySsds),
        ("mirror-of-caches", Family::MirrorOfCaches),
        ("mirror-of-files", Family::MirrorOfFiles),
        ("mirror-of-three", Family::MirrorOfThree),
        ("hybrid", Family::Hybrid(false)),
        ("hybrid-of-files", Family::Hybrid(true)),
        ("hybrid-past-ring", Family::HybridPastRing),
        ("hybrid-on-one-chip", Family::HybridOnOneChip),
        ("hybrid-writethrough", Family::HybridWritethrough),
        ("hybrid-loses-rings", Family::HybridLosesRings),
        ("culling-over-hybrid", Family::CullingOverHybrid),
        ("hetero-mirror", Family::Hetero(Legs::Any)),
        ("hetero-mirror-of-ssds", Family::Hetero(Legs::Ssds)),
        ("hetero-mirror-of-faulty-ssds", Family::Hetero(Legs::FaultySsds)),
        ("hetero-mirror-of-caches", Family::Hetero(Legs::Caches)),
        ("hetero-mirror-of-files", Family::Hetero(Legs::Files)),
        ("hetero-mirror-of-unlike", Family::Hetero(Legs::Unlike)),
        ("hetero-mirror-that-rests", Family::Hetero(Legs::Resting)),
        ("hetero-mirror-of-hybrid", Family::Hetero(Legs::Hybrid)),
        ("parity", Family::Over("parity")),
        ("parity-of-leaves", Family::ParityOfLeaves),
        ("parity-of-caches", Family::ParityOfCaches),
        ("parity-of-faulty-ssds", Family::ParityOfFaultySsds),
        ("integrity", Family::Integrity),
        ("mirror-that-rots", Family::MirrorThatRots),
        ("parity-that-rots", Family::ParityThatRots),
        ("arrays", Family::Arrays),
    ];
}

impl Shape {
    /// The family of this name.
    pub fn named(name: &str) -> Option<Shape> {
        Family::ALL.iter().find(|(n, _)| *n == name).map(|&(_, family)| Shape::Named(family))
    }

    /// Stacks that have a machine of this kind where much happens to it: where a fault that is planted in it can show.
    pub fn around(kind: &str) -> Shape {
        Shape::named(kind).unwrap_or(Shape::Random)
    }
}
