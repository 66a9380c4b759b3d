//! The options of tenants and of their isolation; see [`nandu_ftl::isolation`].

use super::{Size, SsdConfig, Unit};
use crate::nand::Geometry;
use nandu_base::{BuildContext, BuildError, ByteLen, Chosen, options};
use nandu_ftl::blocks::Share;
use nandu_ftl::isolation::{
    AnyIsolation, Books, Given, Gives, Isolation, Isolations, Space, TENANTS_MAX, Table,
};
use nandu_ftl::plan::tenants::{Dealing, Planted, Returns, Tenants};
use nandu_ftl::trim_journal::TrimJournal;
use nandu_ftl::{BlockId, Layout};
use serde::Deserialize;

/// A tenant of a drive: a range of its logical space, in the order of the list.
#[options]
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TenantConfig {
    /// Its name, for people.
    pub name: String,
    /// Its logical space.
    #[option(range = ByteLen(1)..)]
    pub size: ByteLen,
    /// Its weight in the spare units, with `ops`.
    #[option(default = 1, range = 1..=1000)]
    pub weight: u32,
}

/// How tenants are kept apart: the policy and its options.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(transparent)]
pub struct IsolationConfig(pub(super) Chosen<Isolations>);

impl Default for IsolationConfig {
    fn default() -> IsolationConfig {
        IsolationConfig(Chosen::named("none"))
    }
}

impl IsolationConfig {
    /// The options, once they are settled.
    pub(super) fn made(&self) -> &dyn AnyIsolation {
        self.0.options().expect("the options of a drive are settled before they are asked for")
    }

    /// What each tenant has for itself.
    pub(super) fn gives(&self) -> Gives {
        self.made().gives()
    }

    /// Whether tenants are kept apart at all.
    pub(super) fn is_on(&self) -> bool {
        self.gives() != Gives::Nothing
    }

    /// The word of the policy.
    pub(super) fn name(&self) -> &str {
        self.0.name()
    }
}

/// What was settled of the tenants of a drive.
pub(super) struct Tenancy {
    pub tenants: Tenants,
    /// Empty where tenants have groups of their own.
    pub shares: Vec<Share>,
    /// Valid pages that each may come to.
    pub needed: Vec<u64>,
    /// Blocks of each pool for the translation pages of its tenant.
    pub map_blocks: Vec<u32>,
    /// Blocks of each pool that a cache in SLC mode always has.
    pub slc_blocks: Vec<u32>,
}

impl Tenancy {
    /// The pools of each tenant.
    pub fn pools_of_tenants(&self, layout: &Layout) -> Vec<Vec<u32>> {
        let own = |tenant: usize| {
            let groups = (0..layout.planes).filter(move |&group| self.tenants.has_group(group, tenant));
            groups.map(move |group| self.tenants.pool(group, tenant)).collect()
        };
        (0..self.tenants.len()).map(own).collect()
    }
}

fn refuse<T>(why: impl Into<String>) -> Result<T, BuildError> {
    Err(BuildError::at("isolation", why.into()))
}

impl SsdConfig {
    /// Refuses what cannot be with tenants.
    pub(super) fn check_tenants(&self) -> Result<(), BuildError> {
        let isolation = self.isolation.0.options().map_err(|error| error.within("isolation"))?;
        if !self.isolation.is_on() {
            let share = self.tenant_gc_threshold.is_some_and(|share| share.num > 0);
            let keys = [("max_tenants", self.max_tenants.is_some()), ("tenant_gc_threshold", share)];
            if let Some((key, _)) = keys.into_iter().find(|(_, is_given)| *is_given) {
                let out = if key == "max_tenants" { "leave it out" } else { "leave it out, or 0" };
                let why = format!(
                    "it is for tenants that are kept apart: give `tenants` and `isolation`, for example `{{ kind = \"vssd\" }}`, or {out}"
                );
                return Err(BuildError::at(key, why));
            }
            let has_use =
                self.tenants.is_empty() || matches!(self.streams, super::StreamsConfig::Tenant { .. });
            return match has_use {
                true => Ok(()),
                false => {
                    refuse("tenants are listed, but not kept apart: take for example `{ kind = \"vssd\" }`")
                }
            };
        }
        if !(1..=TENANTS_MAX).contains(&self.tenants.len()) {
            return Err(BuildError::at(
                "tenants",
                format!("1 to {TENANTS_MAX} tenants are needed for `isolation`"),
            ));
        }
        self.check_slots()?;
        let names = |name: &str| self.tenants.iter().filter(|tenant| tenant.name == name).count();
        if let Some(twice) = self.tenants.iter().find(|tenant| names(&tenant.name) > 1) {
            return Err(BuildError::at("tenants", format!("`{}` is there twice", twice.name)));
        }
        if self.tenant_gc_threshold.is_some() && self.gc.paced_from() == 0 {
            let why = "with `gc.mode = \"foreground\"` nothing is cleared before a write finds no room, so that no share begins it: leave it out, or take \
                       `gc.mode = \"incremental\"`";
            return Err(BuildError::at("tenant_gc_threshold", why));
        }
        isolation.check()?;
        if isolation.lends() && !self.gc.separate_frontier {
            return refuse(
                "what is lent comes back for one collection only where moved pages have units of their own: `gc.separate_frontier` must be true",
            );
        }
        match isolation.gives() {
            Gives::Channels | Gives::Dies if self.reclaim_unit == Unit::Superblock => refuse(
                "a superblock lies in every die: take `reclaim_unit = \"die\"` or \"plane\" for dies or channels of one's own",
            ),
            _ => Ok(()),
        }
    }

    /// Refuses places for tenants where they cannot come and go.
    fn check_slots(&self) -> Result<(), BuildError> {
        let refuse = |why: String| Err(BuildError::at("max_tenants", why));
        let Some(slots) = self.max_tenants else { return Ok(()) };
        let listed = self.tenants.len();
        if listed > slots as usize {
            return refuse(format!("{slots} places are too few for {listed} tenants, which are listed"));
        }
        if !self.isolation.made().may_be_dealt() {
            return refuse(format!(
                "tenants cannot come and go with `{}`: they do with `vssd` and `shared-space`, where units go by space; with `ops` each deal \
                 would change what all others have, and channels and dies cannot be cut",
                self.isolation.name()
            ));
        }
        Ok(())
    }

    /// Logical pages of each tenant.
    pub(super) fn ranges(&self, logical: u32, page: u64) -> Result<Vec<u32>, BuildError> {
        let pages: Vec<u64> = self.tenants.iter().map(|tenant| tenant.size.0.div_ceil(page)).collect();
        let sum: u64 = pages.iter().sum();
        if sum > u64::from(logical) {
            let why = format!("they need {sum} pages of {logical} that the drive has for its hosts");
            return Err(BuildError::at("tenants", why));
        }
        Ok(pages.into_iter().map(|pages| pages as u32).collect())
    }

    /// What the tenants have on a drive of this layout; none without isolation.
    pub(super) fn tenancy(
        &self,
        layout: &Layout,
        geometry: Geometry,
        size: &mut Size,
        page: u64,
        cx: &BuildContext<'_>,
    ) -> Result<Option<Tenancy>, BuildError> {
        if !self.isolation.is_on() {
            return Ok(None);
        }
        let mut sizes = self.ranges(size.logical, page)?;
        sizes.resize(sizes.len().max(self.max_tenants.unwrap_or(0) as usize), 0);
        let table = Table::new(&sizes, sizes.len());
        let bad = |plane| {
            let is_bad = |&block: &BlockId| size.wear.is_factory_bad(layout, block);
            layout.plane_blocks(plane).filter(is_bad).count() as u32
        };
        let bad: Vec<u32> = (0..layout.planes).map(bad).collect();
        // As many in every group, so that all have their part in each. Checkpoints are nobody's.
        let units = layout.blocks - size.anchors - bad.iter().copied().max().unwrap_or(0);
        let dealing = Dealing {
            page,
            logical: size.logical,
            units,
            pages: layout.pages,
            groups: layout.planes,
            start: self.gc.paced_from(),
            trigger: self.tenant_gc_threshold,
            reserves: self.isolation.made().reserves(),
            gc_start: self.gc.threshold,
            streams: self.more_streams(),
            slc: size.slc,
            map: self.mapping.needs(page),
            logs: None,
        };
        let tables = u64::from(self.max_tenants.is_some()) * 2;
        let journal =
            |pages: u32| TrimJournal::pages_max(u64::from(pages), page as usize, sizes.len()) + tables;
        let needed: Vec<u64> = sizes.iter().map(|&pages| u64::from(pages) + journal(pages)).collect();
        let turns = self.reclaim_unit.turns(self.allocation_order, geometry);
        let turns = if self.allocation == super::Allocation::Static { turns.fixed() } else { turns };
        let mut tenancy = match self.isolation.gives() {
            Gives::Channels | Gives::Dies => {
                let owners = self.owners(&sizes, size.logical, geometry)?;
                let row = |tenant: usize| {
                    let own = owners.iter().filter(|owner| usize::from(**owner) == tenant);
                    own.count() as u64 * u64::from(layout.pages)
                };
                let area = |tenant: usize| dealing.map.map_or(0, |map| map.area(row(tenant), sizes[tenant]));
                // In every plane as many as in those of the tenant that needs most.
                let most = (0..sizes.len()).map(area).max().unwrap_or(0);
                size.reserved = size.reserved - size.map + most;
                size.map = most;
                let rooms = |tenant: usize| {
                    let own = owners.iter().zip(&bad).filter(|(owner, _)| usize::from(**owner) == tenant);
                    let blocks =
                        own.map(|(_, &bad)| u64::from(layout.blocks.saturating_sub(size.reserved + bad)));
                    blocks.sum::<u64>() * u64::from(layout.pages)
                };
                size.room = self.check_rooms(&needed, rooms, area)?;
                let map_blocks = owners
                    .iter()
                    .map(|&owner| if usize::from(owner) < sizes.len() { area(owner.into()) } else { 0 });
                let map_blocks = map_blocks.collect();
                let owners_count = owners.len();
                let mine = |tenant: usize| turns.only(|group| usize::from(owners[group as usize]) == tenant);
                let turns = (0..sizes.len()).map(mine).collect();
                let starts = vec![self.gc.paced_from(); sizes.len()];
                let tenants =
                    Tenants::new(table, turns, starts, self.policy(layout.pages, 0), Vec::new(), owners);
                let slc_blocks = vec![size.slc; owners_count];
                Tenancy { tenants, shares: Vec::new(), needed, map_blocks, slc_blocks }
            }
            _ => {
                let space = Space {
                    units,
                    pages: layout.pages,
                    groups: layout.planes,
                    logical: size.logical,
                    weights: self.tenants.iter().map(|tenant| tenant.weight).collect(),
                    sizes,
                };
                let units = self.policy(layout.pages, 0).shares(&space);
                let starts: Vec<u32> = units.iter().map(|&units| dealing.start_of(units)).collect();
                let policy = self.policy(layout.pages, starts.iter().copied().max().unwrap_or(0));
                let map_blocks: Vec<u32> = space.sizes.iter().map(|&pages| dealing.map_of(pages)).collect();
                let share = |(&units, &pages): (&u32, &u32)| dealing.share_of(units, pages);
                let shares: Vec<Share> = units.iter().zip(&space.sizes).map(share).collect();
                size.room = self.check_rooms(
                    &needed,
                    |tenant| dealing.room(shares[tenant]),
                    |tenant| map_blocks[tenant],
                )?;
                let slc_blocks: Vec<u32> = units.iter().map(|&units| dealing.slc_of(units)).collect();
                let slc_blocks = (0..layout.planes).flat_map(|_| slc_blocks.clone()).collect();
                let books = Books::new(units, |units| policy.contribution(units));
                let books = vec![books; layout.planes as usize];
                let turns = vec![turns; shares.len()];
                let mut tenants = Tenants::new(table, turns, starts, policy, books, Vec::new());
                let floor = |(share, needed): (&Share, &u64)| dealing.floor(*share, *needed);
                tenants.reserves = dealing.reserves.is_some();
                tenants.floors = shares.iter().zip(&needed).map(floor).collect();
                tenants.dealing = self.max_tenants.map(|_| dealing);
                let map_blocks = (0..layout.planes).flat_map(|_| map_blocks.clone()).collect();
                Tenancy { tenants, shares, needed, map_blocks, slc_blocks }
            }
        };
        tenancy.tenants.returns = self.returns();
        tenancy.tenants.planted = planted(cx);
        Ok(Some(tenancy))
    }

    /// The policy for units of `pages` pages; no tenant begins to clear with more than `most_start` erased ones.
    pub(super) fn policy(&self, pages: u32, most_start: u32) -> Box<dyn Isolation> {
        let clears_from = self.gc.threshold.max(most_start);
        self.isolation.made().build(Given { pages, places: self.places(), clears_from })
    }

    /// Refuses tenants whose pages do not fit what they have, of which the map takes so many blocks of each group. Returns the pages more that each of them may
    /// hold.
    fn check_rooms(
        &self,
        needed: &[u64],
        room: impl Fn(usize) -> u64,
        map: impl Fn(usize) -> u32,
    ) -> Result<u32, BuildError> {
        let mut least = u64::from(u32::MAX);
        for (tenant, &needed) in needed.iter().enumerate().take(self.tenants.len()) {
            if needed > room(tenant) {
                let map = match map(tenant) {
                    0 => String::new(),
                    blocks => format!(" and {blocks} blocks of each group are its part of the map"),
                };
                let why = format!(
                    "`{}` needs room for {needed} pages, records of trims included, and has {} while units are cleared{map}: raise \
                     `spare_factor`, the number of blocks, or its weight",
                    self.tenants[tenant].name,
                    room(tenant)
                );
                return Err(BuildError::at("tenants", why));
            }
            least = least.min(room(tenant) - needed);
        }
        Ok(least as u32)
    }

    /// The owner of each group of planes where tenants have channels or dies of their own. Those that are left belong to nobody.
    pub(super) fn owners(
        &self,
        sizes: &[u32],
        logical: u32,
        geometry: Geometry,
    ) -> Result<Vec<u16>, BuildError> {
        let is_channel = self.isolation.gives() == Gives::Channels;
        let all = if is_channel { geometry.channels } else { geometry.all_dies() };
        let part = |&size: &u32| (u64::from(all) * u64::from(size) / u64::from(logical.max(1))).max(1) as u32;
        let parts: Vec<u32> = sizes.iter().map(part).collect();
        if parts.iter().sum::<u32>() > all {
            let why = format!("{} tenants need more than the {all} that the drive has", sizes.len());
            return refuse(why);
        }
        let mut owner_of = Vec::new();
        for (tenant, &part) in (0u16..).zip(&parts) {
            owner_of.extend(std::iter::repeat_n(tenant, part as usize));
        }
        owner_of.resize(all as usize, u16::MAX);
        let die_of = |group: u32| match self.reclaim_unit {
            Unit::Plane => group / geometry.planes,
            Unit::Die | Unit::Superblock => group,
        };
        let groups = match self.reclaim_unit {
            Unit::Plane => geometry.all_planes(),
            Unit::Die | Unit::Superblock => geometry.all_dies(),
        };
        // Die `i` lies on channel `i mod channels`.
        let index = |die: u32| if is_channel { die % geometry.channels } else { die };
        Ok((0..groups).map(|group| owner_of[index(die_of(group)) as usize]).collect())
    }
}

impl SsdConfig {
    /// When a tenant that owes units and is idle gives some back.
    pub(super) fn returns(&self) -> Option<Returns> {
        self.isolation.made().returns_while_idle().map(|(below, _)| Returns { below })
    }
}

/// The faults of isolation that are planted.
pub(super) fn planted(cx: &BuildContext<'_>) -> Planted {
    Planted {
        mixed: cx.planted("ssd.tenant-page-misplaced"),
        crosses: cx.planted("ssd.tenant-collects-others"),
        lends_unallocated: cx.planted("ssd.tenant-unit-from-nowhere"),
        keeps_what_it_owes: cx.planted("ssd.tenant-keeps-loan"),
        room_not_kept: cx.planted("ssd.tenant-room-not-kept"),
        others_collect: cx.planted("ssd.tenant-makes-others-collect"),
        leaves_units: cx.planted("ssd.tenant-leaves-units"),
        forgets_table: cx.planted("ssd.tenant-table-not-recorded"),
        end_not_charged: cx.planted("ssd.tenant-end-not-charged"),
        clears_twice: cx.planted("ssd.tenant-collects-twice"),
        keeps_while_idle: cx.planted("ssd.tenant-keeps-while-idle"),
        map_misplaced: cx.planted("ssd.tenant-map-page-misplaced"),
    }
}
