//! Who used what: everything a resource does is charged, background work included.
//!
//! A charge names the tenant that caused the work, the resource that was busy, and the kind of work. The charges of a
//! resource add up to its busy time; the verified simulation checks that.

use crate::request::TenantId;
use crate::units::Span;

/// Something that can be busy.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum Resource {
    /// A flash die (its arrays and registers).
    Die = 0,
    /// The bus of a flash channel.
    Channel,
    /// The head assembly of a disk.
    Head,
    /// The link or service of a device without further detail.
    Device,
}

/// Why a resource was busy.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum Work {
    /// A read from above.
    Read = 0,
    /// A write from above.
    Write,
    /// Address translation.
    Map,
    /// Garbage collection: moving and erasing.
    Gc,
    /// Durability records: trim journals, checkpoints.
    Journal,
    /// Reading one's own records after a start.
    Recovery,
}

impl Resource {
    /// Number of resources.
    pub const COUNT: usize = 4;
    /// Every resource in order.
    pub const ALL: [Resource; Resource::COUNT] =
        [Resource::Die, Resource::Channel, Resource::Head, Resource::Device];

    /// The name used in tables and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Resource::Die => "die",
            Resource::Channel => "channel",
            Resource::Head => "head",
            Resource::Device => "device",
        }
    }
}

impl Work {
    /// Number of kinds of work.
    pub const COUNT: usize = 6;
    /// Every kind in order.
    pub const ALL: [Work; Work::COUNT] =
        [Work::Read, Work::Write, Work::Map, Work::Gc, Work::Journal, Work::Recovery];

    /// The name used in tables and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Work::Read => "read",
            Work::Write => "write",
            Work::Map => "map",
            Work::Gc => "gc",
            Work::Journal => "journal",
            Work::Recovery => "recovery",
        }
    }
}

const PER_TENANT: usize = Resource::COUNT * Work::COUNT;

/// Nanoseconds by tenant, resource and work, for one machine. A row for each tenant: a charge is one addition.
#[derive(Clone, Debug, Default)]
pub struct ChargeTable(Vec<[u64; PER_TENANT]>);

impl ChargeTable {
    /// A table for `tenants` tenants, SYSTEM included.
    pub fn new(tenants: usize) -> ChargeTable {
        ChargeTable(vec![[0; PER_TENANT]; tenants])
    }

    #[inline]
    fn index(resource: Resource, work: Work) -> usize {
        resource as usize * Work::COUNT + work as usize
    }

    /// Charges `span` of `resource` to `tenant`.
    #[inline]
    pub fn charge(&mut self, tenant: TenantId, resource: Resource, work: Work, span: Span) {
        self.0[usize::from(tenant.0)][Self::index(resource, work)] += span.0;
    }

    /// Charges two resources for the same work.
    #[inline]
    pub fn charge_both(&mut self, tenant: TenantId, work: Work, a: (Resource, Span), b: (Resource, Span)) {
        let row = &mut self.0[usize::from(tenant.0)];
        row[Self::index(a.0, work)] += a.1.0;
        row[Self::index(b.0, work)] += b.1.0;
    }

    /// What `tenant` was charged for this resource and work.
    pub fn get(&self, tenant: TenantId, resource: Resource, work: Work) -> Span {
        Span(self.0[usize::from(tenant.0)][Self::index(resource, work)])
    }

    /// Tenants in the table.
    pub fn tenants(&self) -> impl Iterator<Item = TenantId> + use<> {
        (0..self.0.len() as u16).map(TenantId)
    }

    /// All charges for one resource: its busy time.
    pub fn busy(&self, resource: Resource) -> Span {
        self.tenants()
            .flat_map(|t| Work::ALL.map(|w| self.get(t, resource, w)))
            .fold(Span::ZERO, |sum, s| sum + s)
    }

    /// Forgets all charges, as at the end of a warm-up.
    pub fn clear(&mut self) {
        self.0.fill([0; PER_TENANT]);
    }
}
