//! From the options of an SSD to one with a log-block map.

use super::streams::StreamsConfig;
use super::tenants::{Tenancy, planted};
use super::unit::Unit;
use super::{Drive, GcConfig, SsdConfig, check_order};
use crate::nand::{Geometry, Profile};
use crate::ssd::config::shape::Size;
use nandu_base::{BuildContext, BuildError, Machine, Precondition};
use nandu_ftl::blocks::Share;
use nandu_ftl::checkpoint::Anchors;
use nandu_ftl::isolation::{Books, Gives, Space, Table};
use nandu_ftl::log_block::{Homes, LogBlockOptions, LogMap, Part, Region, Shape};
use nandu_ftl::plan::tenants::{Dealing, LogDealing, Tenants};
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
        self.check_unused()?;
        if self.isolation.made().lends()
            && let Err(why) = options.lends()
        {
            return refuse("isolation", why);
        }
        if self.isolation.made().reserves().is_some() {
            let why = "a log-block map lends log blocks, and those that nobody writes to are few: nothing can be set aside, take `claim`";
            return refuse("isolation.pool", why);
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
        let tables = self.tables(&layout, profile.page.0);
        let apart = tables.as_ref().map_or(0, Anchors::per_plane);
        let wear = self.wear.rules(profile.endurance, apart.max(1), cx.name);
        let made = Made { layout, geometry, logical: logical as u32, page: profile.page.0, apart, wear };
        let mut parts = self.log_parts(&made, options)?;
        let moves = self.isolation.made().lends() || tables.is_some();
        let maps: Result<Vec<_>, BuildError> = parts
            .pools(&made, moves)?
            .into_iter()
            .map(|Pool { first, shape, part, share }| {
                let own = part.blocks.clone();
                let mut region = Region::part(shape, part);
                let is_bad = |&block: &u32| wear.is_factory_bad(&layout, first.behind(block));
                own.filter(is_bad).for_each(|block| region.retire(block));
                region.planted.stale_page_wins = cx.planted("ssd.log-stale-page");
                region.planted.wrong_switch = cx.planted("ssd.log-wrong-switch");
                let logs = match share {
                    Some(_) if shape.logical == 0 => 0,
                    share => options.quota().logs(share.unwrap_or(region.good()), shape.logical)?,
                };
                Ok((first, options.of_pool(region, logs)))
            })
            .collect();
        let mut map = LogMap::new(parts.homes, layout, maps?, moves);
        if let Some(tenancy) = parts.tenancy.as_mut().filter(|_| moves) {
            let tenants = &mut tenancy.tenants;
            (tenants.planted, tenants.returns) = (planted(cx), self.returns());
            match tables {
                Some(_) => made.give_shares(&tenancy.shares, &mut map),
                None => tenants.take_what_is_good(&map),
            }
            tenants.tables = tables;
        }
        let logical = parts.logical;
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
            anchors: apart,
            wear: WearRules { keeps_worn: cx.planted("ssd.worn-block-used"), ..wear },
        };
        let shape = self.mapping.shape(size.logical, profile.page.0, layout.pages)?;
        let tenancy = parts.tenancy;
        self.assemble(Drive { profile, geometry, units, shape, size, tenancy, queue }, map, cx)
    }

    /// Where a drive with a log-block map keeps the table of its tenants, where these come and go.
    pub(super) fn tables(&self, layout: &Layout, page: u64) -> Option<Anchors> {
        self.max_tenants.map(|_| Anchors::new(*layout, Table::WORDS, (page / 4) as u32))
    }

    /// Who has which pages and blocks: all of them the host, or each tenant its planes or its part of every plane.
    fn log_parts(&self, made: &Made, options: &dyn LogBlockOptions) -> Result<Parts, BuildError> {
        let (layout, logical, interleave) = (&made.layout, made.logical, options.dealt().interleave);
        let turns = Unit::Plane.turns(self.allocation_order, made.geometry);
        let planes = || (0..u64::from(layout.planes)).map(|turn| turns.nth(turn));
        let homes = |first, logical, order| Homes { first, logical, unit: interleave, order };
        if !self.isolation.is_on() {
            let homes = vec![homes(0, logical, planes().collect())];
            return Ok(Parts { homes, logical, blocks: vec![layout.blocks], tenancy: None });
        }
        let mut sizes = self.ranges(logical, made.page)?;
        sizes.resize(self.places(), 0);
        let count = sizes.len();
        let table = Table::new(&sizes, count);
        let needed = sizes.iter().map(|&pages| u64::from(pages)).collect();
        let dealing = self.max_tenants.map(|_| Dealing {
            page: made.page,
            logical,
            units: made.good_in_each(),
            pages: layout.pages,
            groups: layout.planes,
            start: self.gc.paced_from(),
            trigger: None,
            reserves: None,
            gc_start: 0,
            streams: 0,
            slc: 0,
            map: None,
            logs: Some(LogDealing { quota: options.quota(), interleave }),
        });
        let (owners, blocks) = match self.isolation.gives() {
            Gives::Channels | Gives::Dies => {
                (self.owners(&sizes, logical, made.geometry)?, vec![layout.blocks])
            }
            _ => {
                let weights = self.tenants.iter().map(|tenant| tenant.weight).collect();
                let units = dealing.as_ref().map_or(layout.blocks, |dealing| dealing.units);
                let (pages, groups) = (layout.pages, layout.planes);
                let space = Space { units, pages, groups, logical, weights, sizes: sizes.clone() };
                (Vec::new(), self.policy(pages, 0).shares(&space))
            }
        };
        let policy = self.policy(layout.pages, 0);
        let contribution = |blocks: u32| if dealing.is_some() { policy.contribution(blocks) } else { 0 };
        let books = match owners.is_empty() {
            true => vec![Books::new(blocks.clone(), contribution); layout.planes as usize],
            false => Vec::new(),
        };
        let share = |&blocks: &u32| Share { blocks, reserved: 0 };
        let shares = if books.is_empty() { Vec::new() } else { blocks.iter().map(share).collect() };
        let starts = vec![self.gc.paced_from(); count];
        let mut tenants = Tenants::new(table, vec![turns.clone(); count], starts, policy, books, owners);
        let floor = |dealing: &Dealing| sizes.iter().map(|&pages| dealing.floor_of(pages, count)).collect();
        tenants.floors = dealing.as_ref().map_or_else(Vec::new, floor);
        let own = |tenant: usize| {
            let own = planes().filter(|&plane| tenants.has_group(plane, tenant));
            own.map(|plane| tenants.pool(plane, tenant)).collect()
        };
        let ranges = tenants.table.parts().iter().enumerate();
        let homes: Vec<Homes> =
            ranges.map(|(tenant, part)| homes(part.first, part.live, own(tenant))).collect();
        let logical = match &dealing {
            Some(dealing) => dealing.logical,
            None => homes.last().map_or(0, Homes::end),
        };
        tenants.dealing = dealing;
        let pools = layout.planes as usize * blocks.len();
        let (map_blocks, slc_blocks) = (vec![0; pools], vec![0; pools]);
        let tenancy = Some(Tenancy { tenants, shares, needed, map_blocks, slc_blocks });
        Ok(Parts { homes, logical, blocks, tenancy })
    }
}

/// What a drive is made of.
struct Made {
    layout: Layout,
    geometry: Geometry,
    /// Logical pages.
    logical: u32,
    /// Bytes of a page.
    page: u64,
    /// Blocks at the start of each plane that are nobody's.
    apart: u32,
    wear: WearRules,
}

impl Made {
    /// Blocks of a plane that somebody may have.
    fn good(&self, plane: u32) -> impl Iterator<Item = BlockId> + '_ {
        let blocks = self.layout.plane_blocks(plane).skip(self.apart as usize);
        blocks.filter(|&block| !self.wear.is_factory_bad(&self.layout, block))
    }

    /// As many as every plane has.
    fn good_in_each(&self) -> u32 {
        (0..self.layout.planes).map(|plane| self.good(plane).count() as u32).min().unwrap_or(0)
    }

    /// Gives each tenant its blocks of every plane; the others are nobody's.
    fn give_shares(&self, shares: &[Share], map: &mut LogMap) {
        for plane in 0..self.layout.planes {
            let mut good = self.good(plane);
            for (tenant, share) in (0..).zip(shares) {
                let pool = plane * shares.len() as u32 + tenant;
                good.by_ref().take(share.blocks as usize).for_each(|block| map.find_free(block, pool));
            }
        }
    }
}

/// A pool of a plane.
struct Pool {
    /// The block that it numbers first.
    first: BlockId,
    shape: Shape,
    /// What it begins with.
    part: Part,
    /// Blocks that it gets, where tenants come and go.
    share: Option<u32>,
}

/// Who has which pages and blocks of a drive.
struct Parts {
    /// The ranges of logical pages.
    homes: Vec<Homes>,
    /// Logical pages of the drive.
    logical: u32,
    /// Blocks of each pool of a plane.
    blocks: Vec<u32>,
    tenancy: Option<Tenancy>,
}

impl Parts {
    /// The pools, plane after plane.
    fn pools(&self, made: &Made, moves: bool) -> Result<Vec<Pool>, BuildError> {
        let layout = &made.layout;
        let dealing = self.tenancy.as_ref().and_then(|tenancy| tenancy.tenants.dealing.as_ref());
        let stride = dealing.map_or(Ok(0), |dealing| stride(dealing, self.blocks.len()))?;
        let mut pools: Vec<Pool> = Vec::new();
        for plane in 0..layout.planes {
            let (mut first, mut begins, mut base) = (layout.first_block(plane), 0, 0);
            for &blocks in &self.blocks {
                let pool = pools.len() as u32;
                let homes = self.homes.iter().find(|homes| homes.order.contains(&pool));
                let logical = homes.map_or(0, |homes| homes.most_in_a_pool().div_ceil(layout.pages));
                let shape = |blocks| Shape { pages: layout.pages, blocks, logical };
                if dealing.is_some() {
                    let part = Part { blocks: 0..0, base };
                    pools.push(Pool { first, shape: shape(layout.blocks), part, share: Some(blocks) });
                    base += stride;
                } else if moves {
                    let part = Part { blocks: begins..begins + blocks, base };
                    pools.push(Pool { first, shape: shape(layout.blocks), part, share: None });
                    begins += blocks;
                    base += logical * layout.pages;
                } else {
                    let part = Part { blocks: 0..blocks, base: 0 };
                    pools.push(Pool { first, shape: shape(blocks), part, share: None });
                    first = first.behind(blocks);
                }
            }
        }
        Ok(pools)
    }
}

/// How far the numbers are apart from which on the pages of two places for tenants are numbered on record: any of them may come to have the whole drive.
fn stride(dealing: &Dealing, places: usize) -> Result<u32, BuildError> {
    let logical =
        dealing.logs.map_or(0, |logs| logs.logical_blocks(dealing.logical, dealing.groups, dealing.pages));
    let stride = (u64::from(logical) + 1) * u64::from(dealing.pages);
    match u32::try_from(stride * places as u64) {
        Ok(_) => Ok(stride as u32),
        Err(_) => {
            let most = u64::from(u32::MAX) / stride;
            let why = format!(
                "the pages of {places} places need {} numbers in each plane, and a record has 32 bits: at most {most} with this map",
                stride * places as u64
            );
            Err(BuildError::at("max_tenants", why))
        }
    }
}
