//! From the options of an SSD to one with a log-block map.

use super::streams::StreamsConfig;
use super::tenants::{Tenancy, planted};
use super::unit::Unit;
use super::{Drive, GcConfig, SsdConfig, check_order};
use crate::nand::{Geometry, Profile};
use crate::ssd::config::shape::Size;
use nandu_base::{BuildContext, BuildError, Machine, Precondition};
use nandu_ftl::blocks::Share;
use nandu_ftl::isolation::{Books, Gives, Space, Table};
use nandu_ftl::log_block::{Homes, LogBlockOptions, LogMap, Part, Region, Shape};
use nandu_ftl::plan::tenants::Tenants;
use nandu_ftl::{BlockId, Layout, WearRules};

impl SsdConfig {
    /// Refuses what has no meaning with a log-block map.
    fn check_log_drive(
        &self,
        options: &dyn LogBlockOptions,
        precondition: Precondition,
    ) -> Result<(), BuildError> {
        let refuse = |key, why: &str| Err(BuildError::at(key, why));
        if self.streams != StreamsConfig::None {
            let why = "a log-block map says itself which pages share blocks: streams are for the other maps";
            return refuse("streams", why);
        }
        self.check_tenants()?;
        if self.isolation.made().lends()
            && let Err(why) = options.lends()
        {
            return refuse("isolation", why);
        }
        if self.max_tenants.is_some() {
            return refuse(
                "max_tenants",
                "a log-block map deals pages out to planes when it is made: tenants stay as they are",
            );
        }
        self.check_slc()?;
        if self.reclaim_unit != Unit::Plane {
            let why = "a log-block map finds a page by its place in a block, and in a unit of several blocks a power cut may change the places: take `plane`";
            return refuse("reclaim_unit", why);
        }
        if !self.gc.separate_frontier {
            let why = "a merge fills a block of its own: a log-block map has no open block for the host's pages and moved ones";
            return refuse("gc", why);
        }
        let GcConfig { copyback, idle_free_target: background, idle_after, .. } = self.gc;
        if self.gc != (GcConfig { copyback, idle_free_target: background, idle_after, ..GcConfig::default() })
        {
            let why = "a log-block map chooses what it merges, and when it must: `copyback`, `idle_free_target` and `idle_after` have a meaning";
            return refuse("gc", why);
        }
        self.wear.check()?;
        self.check_checkpoint()?;
        if matches!(precondition, Precondition::Aged | Precondition::Fragmented(_)) {
            let why = "the state of a log-block map is not computed: start `filled` and let a warm-up age or fragment it";
            return refuse("mapping", why);
        }
        Ok(())
    }

    /// A drive with a log-block map.
    pub(super) fn log_drive(
        &self,
        profile: Profile,
        geometry: Geometry,
        options: &dyn LogBlockOptions,
        cx: &BuildContext<'_>,
    ) -> Result<Box<dyn Machine>, BuildError> {
        self.check_log_drive(options, cx.precondition)?;
        check_order(&self.allocation_order)?;
        let interleave = options.dealt().interleave;
        if !(1..=1 << 20).contains(&interleave) {
            let why = format!("interleave = {interleave} is not within 1 to {} pages", 1 << 20);
            return Err(BuildError::at("mapping", why));
        }
        let chips = self.layout(&profile, geometry, 2)?;
        let units = self.units(chips, geometry, cx)?;
        let layout = *units.layout();
        let raw = layout.real_pages();
        let logical = match self.capacity {
            Some(capacity) => capacity.0 / profile.page.0,
            None => raw.saturating_sub(self.spare_factor.of(raw)),
        };
        let most = raw.min(1 << 31);
        if logical == 0 || logical > most {
            let why = format!("{logical} logical pages are not within 1 to {most}");
            return Err(BuildError::at("spare_factor", why));
        }
        let lends = self.isolation.made().lends();
        let mut parts = self.log_parts(&layout, geometry, logical as u32, interleave, profile.page.0)?;
        let logical = parts.homes.last().map_or(0, Homes::end);
        let wear = self.wear.rules(profile.endurance, 1, cx.name);
        let maps: Result<Vec<_>, BuildError> = parts
            .pools(&layout, lends)
            .into_iter()
            .map(|(first, shape, part)| {
                let own = part.blocks.clone();
                let mut region = Region::part(shape, part);
                let is_bad = |&block: &u32| wear.is_factory_bad(&layout, first.behind(block));
                own.filter(is_bad).for_each(|block| region.retire(block));
                region.planted.stale_page_wins = cx.planted("ssd.log-stale-page");
                region.planted.wrong_switch = cx.planted("ssd.log-wrong-switch");
                Ok((first, options.of_pool(region)?))
            })
            .collect();
        let maps = maps?;
        if let Some(tenancy) = parts.tenancy.as_mut().filter(|_| lends) {
            // What is bad from the factory is nobody's.
            let tenants = &mut tenancy.tenants;
            (tenants.planted, tenants.returns) = (planted(cx), self.returns());
            tenants.floors = vec![0; tenants.len()];
            for (pool, (_, map)) in maps.iter().enumerate() {
                let (group, tenant, good) = (pool / tenants.len(), pool % tenants.len(), map.region().good());
                let contribution = tenants.policy.contribution(good);
                tenants.books[group].set_allocated(tenant, good, contribution);
                tenants.floors[tenant] = map.blocks_needed().max(tenants.floors[tenant]);
            }
        }
        let mut map = LogMap::new(parts.homes, layout, maps, lends);
        map.swaps = cx.planted("ssd.log-tenant-page-misplaced");
        let mut queue = self.queue(&units, geometry, &profile, cx)?;
        queue.keep_order(map.pools(), map.pools_of_blocks());
        let size = Size {
            logical,
            needed: 0,
            room: 0,
            reserved: 0,
            slc: 0,
            map: 0,
            anchors: 0,
            wear: WearRules { keeps_worn: cx.planted("ssd.worn-block-used"), ..wear },
        };
        let shape = self.mapping.shape(size.logical, profile.page.0, layout.pages)?;
        let tenancy = parts.tenancy;
        self.assemble(Drive { profile, geometry, units, shape, size, tenancy, queue }, map, cx)
    }

    /// Who has which pages and blocks: all of them the host, or each tenant its planes or its part of every plane.
    fn log_parts(
        &self,
        layout: &Layout,
        geometry: Geometry,
        logical: u32,
        interleave: u32,
        page: u64,
    ) -> Result<Parts, BuildError> {
        let turns = Unit::Plane.turns(self.allocation_order, geometry);
        let planes = || (0..u64::from(layout.planes)).map(|turn| turns.nth(turn));
        let homes = |first, logical, order| Homes { first, logical, unit: interleave, order };
        if !self.isolation.is_on() {
            let homes = vec![homes(0, logical, planes().collect())];
            return Ok(Parts { homes, blocks: vec![layout.blocks], tenancy: None });
        }
        let sizes = self.ranges(logical, page)?;
        let table = Table::new(&sizes, sizes.len());
        let needed = sizes.iter().map(|&pages| u64::from(pages)).collect();
        let (owners, blocks, books) = match self.isolation.gives() {
            Gives::Channels | Gives::Dies => {
                (self.owners(&sizes, logical, geometry)?, vec![layout.blocks], Vec::new())
            }
            _ => {
                let weights = self.tenants.iter().map(|tenant| tenant.weight).collect();
                let (units, pages, groups) = (layout.blocks, layout.pages, layout.planes);
                let space = Space { units, pages, groups, logical, weights, sizes: sizes.clone() };
                let blocks = self.policy(pages, 0).shares(&space);
                let books = vec![Books::new(blocks.clone(), |_| 0); layout.planes as usize];
                (Vec::new(), blocks, books)
            }
        };
        let count = sizes.len();
        let starts = vec![self.gc.paced_from(); count];
        let tenants = Tenants::new(
            table,
            vec![turns.clone(); count],
            starts,
            self.policy(layout.pages, 0),
            books,
            owners,
        );
        let own = |tenant: usize| {
            let own = planes().filter(|&plane| tenants.has_group(plane, tenant));
            own.map(|plane| tenants.pool(plane, tenant)).collect()
        };
        let ranges = tenants.table.parts().iter().enumerate();
        let homes = ranges.map(|(tenant, part)| homes(part.first, part.live, own(tenant))).collect();
        let share = |&blocks: &u32| Share { blocks, reserved: 0 };
        let shares = if tenants.books.is_empty() { Vec::new() } else { blocks.iter().map(share).collect() };
        let pools = layout.planes as usize * blocks.len();
        let (map_blocks, slc_blocks) = (vec![0; pools], vec![0; pools]);
        let tenancy = Some(Tenancy { tenants, shares, needed, map_blocks, slc_blocks });
        Ok(Parts { homes, blocks, tenancy })
    }
}

/// Who has which pages and blocks of a drive.
struct Parts {
    /// The ranges of logical pages.
    homes: Vec<Homes>,
    /// Blocks of each pool of a plane.
    blocks: Vec<u32>,
    tenancy: Option<Tenancy>,
}

impl Parts {
    /// The block that each pool numbers first, its size, and what it has of it.
    fn pools(&self, layout: &Layout, lends: bool) -> Vec<(BlockId, Shape, Part)> {
        let mut pools = Vec::new();
        for plane in 0..layout.planes {
            let (mut first, mut begins, mut base) = (layout.first_block(plane), 0, 0);
            for &blocks in &self.blocks {
                let pool = pools.len() as u32;
                let homes = self.homes.iter().find(|homes| homes.order.contains(&pool));
                let logical = homes.map_or(0, |homes| homes.most_in_a_pool().div_ceil(layout.pages));
                let shape = |blocks| Shape { pages: layout.pages, blocks, logical };
                if lends {
                    pools.push((first, shape(layout.blocks), Part { blocks: begins..begins + blocks, base }));
                    begins += blocks;
                    base += logical * layout.pages;
                } else {
                    pools.push((first, shape(blocks), Part { blocks: 0..blocks, base: 0 }));
                    first = first.behind(blocks);
                }
            }
        }
        pools
    }
}
