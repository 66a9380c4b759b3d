//! The options of an SSD, and what follows from them.

mod die_scheduler;
mod label;
mod log_drive;
mod plants;
mod shape;
mod slc;
mod streams;
mod tenants;
mod unit;
mod unused;

pub use die_scheduler::DieScheduler;

use super::Ssd;
use super::background::Idle;
use super::buffer::{self, Buffer};
use super::executor::{Executor, Fetched, Stripes};
use super::gc::{GcConfig, WearConfig};
use super::mapping::{Map, MapConfig, Maps};
use super::rests::Rests;
use crate::nand::queued::Queued;
use crate::nand::{FlashPower, Geometry, Lanes, Profile};
use crate::write_buffer::{Link, WriteBufferConfig};
use nandu_base::{
    BuildContext, BuildError, ByteLen, Chosen, DeviceConfig, Kind, Limits, Machine, Precondition, Ratio,
    Registry, Rng, SECTOR, Span, TimerKey, options,
};
use nandu_ftl::isolation::{Isolations, TENANTS_MAX};
use nandu_ftl::log_block::LogMap;
use nandu_ftl::mapping::{Given, MapShape, Mapping};
use nandu_ftl::placement::{Axis, Order};
use nandu_ftl::plan::checkpoint::Keeper;
use nandu_ftl::plan::level::Leveller;
use nandu_ftl::plan::pages::PageShape;
use nandu_ftl::plan::translate::Paging;
use nandu_ftl::plan::{Host, Parts};
use nandu_ftl::trim_journal::RECORDS_MAX;
use nandu_ftl::{BlockTable, Layout, MapArea, SlcRules, Units};
use shape::{Size, check_order, timing_of};
pub use slc::SlcCacheConfig;
use streams::StreamsConfig;
use tenants::{IsolationConfig, Tenancy, TenantConfig};
use unit::Unit;

/// A flash drive: a controller with its translation layer over channels of NAND chips.
#[options]
#[derive(Clone, Debug)]
pub struct SsdConfig {
    /// The chip: a profile of `nandu list profiles`.
    pub profile: String,
    /// Channels.
    #[option(default = 1, range = 1..=64)]
    pub channels: u32,
    /// Chips on each channel.
    #[option(default = 1, range = 1..=64)]
    pub chips_per_channel: u32,
    /// Dies in each chip.
    #[option(default = 1, range = 1..=16)]
    pub dies_per_chip: u32,
    /// Planes in each die.
    #[option(default = 1, range = 1..=8, power_of_two)]
    pub planes_per_die: u32,
    /// Blocks in each plane. Give this or `capacity`.
    pub blocks_per_plane: Option<u32>,
    /// Bytes for the host; as many blocks as that needs. Give this or `blocks_per_plane`.
    pub capacity: Option<ByteLen>,
    /// Spare factor, (raw - user) / raw: 10 GiB of flash with 8 GiB for the host is 0.2. What vendors call over-provisioning, (raw - user) / user,
    /// is 25 % here.
    #[option(default = Ratio::new(7, 100), below = Ratio::new(1, 1))]
    pub spare_factor: Ratio,
    /// Page size.
    #[option(unset = "the profile's", range = ByteLen(512)..=ByteLen::kib(64), power_of_two)]
    pub page_size: Option<ByteLen>,
    /// Pages of a block.
    #[option(unset = "the profile's", range = 2..=4096)]
    pub pages_per_block: Option<u32>,
    /// tR.
    #[option(unset = "the profile's", range = ..=Span::from_secs(10))]
    pub read_latency: Option<Span>,
    /// tPROG.
    #[option(unset = "the profile's", range = ..=Span::from_secs(10))]
    pub program_latency: Option<Span>,
    /// tBERS.
    #[option(unset = "the profile's", range = ..=Span::from_secs(10))]
    pub erase_latency: Option<Span>,
    /// Bytes that a channel transfers in a second.
    #[option(unset = "the profile's", range = ByteLen(1)..)]
    pub channel_bandwidth: Option<ByteLen>,
    /// What the chip draws, instead of the profile's.
    pub power: Option<FlashPower>,
    /// How logical pages are found.
    #[option(default, unset = "`page`")]
    #[schemars(with = "Chosen<Maps>")]
    pub mapping: MapConfig,
    /// Blocks programmed between two checkpoints of a map on the flash, which bound the scan after a power cut; without any, as in the papers,
    /// a start reads the record of every page.
    #[option(unset = "no checkpoints", range = 1..)]
    pub checkpoint_interval: Option<u32>,
    /// Records of trims on the flash when what is still trimmed is written anew; with tenants in units of their own, for each.
    #[option(default = RECORDS_MAX as u32, range = 1..=RECORDS_MAX as u32)]
    pub trim_records: u32,
    /// What a write of part of a page takes beside its program.
    #[option(default)]
    pub partial_write: PartialWrite,
    /// What is opened, collected and erased as one.
    #[option(default)]
    pub reclaim_unit: Unit,
    /// Garbage collection.
    #[option(default, table)]
    pub gc: GcConfig,
    /// How blocks wear, and how that is levelled.
    #[option(default, table)]
    pub wear: WearConfig,
    /// Which operation a die does next.
    #[option(default, table)]
    pub die_scheduler: DieScheduler,
    /// RAM that acknowledges writes before they are programmed; volatile unless it says otherwise.
    #[option(unset = "none", table)]
    pub write_buffer: Option<WriteBufferConfig>,
    /// Who shares the drive: each has the next range of its logical space. Needs `isolation`.
    #[option(default, table)]
    pub tenants: Vec<TenantConfig>,
    /// How tenants are kept apart.
    #[option(default, unset = "`none`")]
    #[schemars(with = "Chosen<Isolations>")]
    pub isolation: IsolationConfig,
    /// Places for tenants. With it tenants come and go, grow and shrink while the drive runs, and it shows all of its logical space, given to
    /// tenants or not. By default those of the list are there and stay as they are. For `vssd` and `shared-space`.
    #[option(range = 1..=TENANTS_MAX as u32, also = "at least as many as are listed")]
    pub max_tenants: Option<u32>,
    /// Share of its units that are erased when a tenant begins to clear, where that is more than `gc.threshold`.
    #[option(below = Ratio::new(1, 1))]
    pub tenant_gc_threshold: Option<Ratio>,
    /// Which of the host's pages share blocks.
    #[option(default, table)]
    pub streams: StreamsConfig,
    /// Blocks in SLC mode in front of the chip's own mode.
    #[option(unset = "none", table)]
    pub slc_cache: Option<SlcCacheConfig>,
    /// Axes over which consecutive pages are spread, the fastest first.
    #[option(default = [Axis::Channel, Axis::Chip, Axis::Die, Axis::Plane])]
    pub allocation_order: Order,
    /// Whether a logical page goes where the turn is, or always to its own plane.
    #[option(default)]
    pub allocation: Allocation,
    /// The file in which `nandu serve` keeps what the drive holds; made with `--create`. Default: memory, lost at its end. A
    /// simulation does without.
    pub store: Option<String>,
}

/// Where a page of the host goes.
#[options]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Allocation {
    /// Wherever the turn is.
    #[default]
    Dynamic,
    /// To the plane of its number, in the order of `allocation_order`; to the die, with units of a die.
    Static,
}

/// What a write of part of a page takes beside its program.
#[options]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum PartialWrite {
    /// The page is read first, and its map entry looked up for that.
    #[default]
    ReadModifyWrite,
    /// Nothing: an account that some papers seem to keep. No drive can.
    Uncharged,
}

/// The kind for the registry.
pub fn kind() -> Kind {
    Kind::of::<SsdConfig>("ssd", "flash drive with its translation layer, garbage collection and NAND timing")
        .with_plants(plants::PLANTS)
}

impl DeviceConfig for SsdConfig {
    fn children(&self) -> Vec<String> {
        Vec::new()
    }

    fn settle(&mut self, registry: &Registry) -> Result<(), BuildError> {
        self.mapping.0.settle("mapping", registry)?;
        self.isolation.0.settle("isolation", registry)?;
        self.gc.victim.settle(registry)?;
        self.wear.levelling.settle(registry)?;
        self.settle_die_scheduler(registry)
    }

    fn store(&self) -> Option<&str> {
        self.store.as_deref()
    }

    fn layout_of_store(&self) -> String {
        self.label()
    }

    fn details_of_store(&self, name: &str, capacity: ByteLen) -> String {
        self.details(name, capacity).unwrap_or_default()
    }

    fn build(&self, cx: &BuildContext<'_>) -> Result<Box<dyn Machine>, BuildError> {
        let profile = self.chip()?;
        let geometry = self.geometry();
        let map = match self.mapping.options()? {
            Map::Pages(map) => map,
            Map::LogBlocks(map) => return self.log_drive(profile, geometry, &**map, cx),
        };
        let chips = self.layout(&profile, geometry, self.gc.threshold)?;
        self.check_unit()?;
        self.check_tenants()?;
        self.check_unused()?;
        self.check_streams()?;
        self.check_slc()?;
        let units = self.units(chips, geometry, cx)?;
        let layout = *units.layout();
        self.gc.check(layout.blocks)?;
        self.check_checkpoint()?;
        let mut size = self.size(&layout, units.width(), &profile, cx)?;
        let tenancy = self.tenancy(&layout, geometry, &mut size, profile.page.0, cx)?;
        let room = size.room;
        let given = tenancy.as_ref().filter(|tenancy| tenancy.tenants.dealing.is_none());
        let given = given.and_then(|tenancy| tenancy.tenants.table.parts().last());
        let logical = given.map_or(size.logical, |last| last.end());
        let mut shape = self.mapping.shape(logical, profile.page.0, layout.pages)?;
        if let Some(tenancy) = &tenancy {
            let parts = tenancy.tenants.table.parts();
            shape = shape.owned(parts.iter().map(|part| (part.held() > 0).then_some(part.first)));
        }
        let queue = self.queue(&units, geometry, &profile, cx)?;
        let drive = Drive { profile, geometry, units, shape: shape.clone(), size, tenancy, queue };
        let given = Given {
            shape,
            block_pages: layout.pages,
            unsettled_max: room,
            seed: Rng::new(cx.seed).fork(5).bits(),
            planted: &|fault| cx.planted(fault),
        };
        map.drive(self, drive, given, cx)
    }
}

/// Logical pages from which on a drive is filled by rule; below, tables are faster than arithmetic.
const BY_RULE_FROM: u32 = 1 << 22;

#[cfg(test)]
thread_local! {
    /// The same for drives of this thread, so that a test can fill a small one both ways.
    pub(in crate::ssd) static BY_RULE_HERE: std::cell::Cell<u32> = const { std::cell::Cell::new(BY_RULE_FROM) };
}

fn by_rule_from() -> u32 {
    #[cfg(test)]
    return BY_RULE_HERE.get();
    #[cfg(not(test))]
    BY_RULE_FROM
}

/// What was settled from the options.
pub(super) struct Drive {
    profile: Profile,
    geometry: Geometry,
    units: Units,
    shape: MapShape,
    size: Size,
    tenancy: Option<Tenancy>,
    queue: Queued,
}

impl SsdConfig {
    /// The write buffer, if there is one.
    fn buffer_config(&self) -> Option<WriteBufferConfig> {
        self.write_buffer.filter(|buffer| buffer.size > ByteLen::ZERO)
    }

    pub(super) fn assemble<M: Mapping + 'static>(
        &self,
        drive: Drive,
        map: M,
        cx: &BuildContext<'_>,
    ) -> Result<Box<dyn Machine>, BuildError> {
        let Drive { profile, geometry, units, shape, size, tenancy, queue } = drive;
        let layout = *units.layout();
        let page_bytes = profile.page.0;
        let timing = timing_of(&profile, self.gc.copyback);
        check_order(&self.allocation_order)?;
        let turns = self.reclaim_unit.turns(self.allocation_order, geometry);
        let turns = match self.allocation {
            Allocation::Dynamic => turns,
            Allocation::Static if self.reclaim_unit == Unit::Superblock => {
                let why = "a superblock lies in every plane: pages have none of their own";
                return Err(BuildError::at("allocation", why));
            }
            Allocation::Static => turns.fixed(),
        };
        let mut lanes = Lanes::new(geometry.all_dies(), geometry.planes, geometry.channels, timing)
            .drawing(profile.power);
        let slc_mode = self.slc_mode(&profile, &timing)?;
        if let Some((_, timing)) = slc_mode {
            lanes = lanes.with_slc(timing);
        }
        if cx.planted("ssd.moves-draw-nothing") {
            lanes.forget_moves();
        }
        let mut limits = Limits::plain(ByteLen(u64::from(shape.pages) * page_bytes));
        limits.preferred = page_bytes as u32;
        limits.depth = geometry.all_planes().max(32);
        let host = Host {
            page: PageShape { bits: page_bytes.trailing_zeros(), sectors: (page_bytes / SECTOR) as u32 },
            plane_bits: geometry.planes.trailing_zeros(),
            logical: shape.pages,
            reserved: size.reserved,
            needed: size.needed,
            gc_start: self.gc.paced_from(),
            urgent: self.gc.waits_from(),
            separate: self.gc.separate_frontier,
            stripe: if self.gc.whole_stripes { units.width() } else { 1 },
            merges: self.partial_write == PartialWrite::ReadModifyWrite,
            bits_per_cell: profile.bits_per_cell().unwrap_or(1),
            trim_records: self.trim_records,
            by_rule_from: by_rule_from(),
        };
        let keeper =
            self.checkpoint_interval.map(|blocks| Keeper::new(&layout, &shape, self.mapping.ram(), blocks));
        let area = match &tenancy {
            Some(tenancy) => MapArea::new(layout, &tenancy.map_blocks, tenancy.pools_of_tenants(&layout)),
            None => {
                let blocks = vec![self.map_area_blocks(&layout, &shape); layout.planes as usize];
                MapArea::new(layout, &blocks, vec![(0..layout.planes).collect()])
            }
        };
        let paging =
            Paging::new(area, self.mapping.waits_for_write(), self.mapping.programs_at_once(), keeper);
        let mut blocks = BlockTable::with_wear(layout, size.wear);
        blocks.set_rooms(size.reserved, size.needed);
        let plain_slc = || vec![size.slc; layout.planes as usize];
        let slc_blocks = tenancy.as_ref().map_or_else(plain_slc, |tenancy| tenancy.slc_blocks.clone());
        let slc = self.slc_cache(slc_blocks, cx);
        let tenants = tenancy.map(|Tenancy { tenants, shares, needed, .. }| {
            blocks.set_owners(tenants.owners.clone(), &needed);
            if !shares.is_empty() {
                blocks.set_shares(shares);
            }
            Box::new(tenants)
        });
        if let Some((rules, _)) = slc_mode {
            blocks.allow_slc(SlcRules { pages: rules.pages * units.width(), ..rules });
        }
        let stripes = Stripes::new(units, host.plane_bits);
        blocks.set_streams(self.more_streams());
        let streams = self.streams(page_bytes).map(Box::new);
        let policy = self.gc.policy(layout.blocks, Rng::new(cx.seed).fork(2).bits());
        let pools = blocks.planes.len() as u32;
        let leveller = Leveller::new(self.wear.policy(pools, profile.endurance), pools)
            .across(self.wear.across_tenants && blocks.pools_per_plane() > 1);
        let first_timer = if queue.has_lines() { 1 + geometry.all_dies() } else { 2 };
        let idle = self.idle(&layout, first_timer);
        let buffer = self.buffer(
            stripes.units.chips(),
            map.log_blocks().map_or(1, LogMap::pools),
            shape.pages,
            page_bytes,
            first_timer + u32::from(idle.is_some()),
            cx,
        )?;
        limits.volatile_cache = self.buffer_config().is_some_and(|buffer| !buffer.power_loss_protection);
        let fetched = Fetched::of(map.translation_pages());
        let exec = Executor::new(host.page, lanes, queue, stripes, fetched, slc.is_some());
        let returns = self.isolation.made().returns_while_idle();
        let rests = returns.and_then(|(_, after)| Some(Rests::new(after, tenants.as_ref()?.len())));
        let parts = Parts { host, map, paging, blocks, exec, turns, policy, leveller, tenants, streams, slc };
        let mut ssd = Ssd::new(limits, parts, idle, rests, buffer, cx);
        match cx.precondition {
            Precondition::Empty => {}
            Precondition::Filled => ssd.plan.of_any_map_mut().fill(),
            Precondition::Fragmented(share) => {
                ssd.plan.of_any_map_mut().fragment(share, Rng::new(cx.seed).fork(4).bits())
            }
            Precondition::Aged => {
                let (free, seed) = (self.gc.steady_free(), Rng::new(cx.seed).fork(3).bits());
                ssd.plan.of_any_map_mut().age(&mut *self.gc.policy(layout.blocks, seed), free, seed)?;
            }
        }
        Ok(Box::new(ssd))
    }

    /// What the drive does while no request comes; its timer is `timer`.
    fn idle(&self, layout: &Layout, timer: u32) -> Option<Idle> {
        let folds = self.folds_while_idle();
        let returns = self.isolation.made().returns_while_idle().is_some();
        let target = self.gc.idle_free_target.or_else(|| (folds || returns).then_some(0))?;
        let least_gain = self.gc.idle_min_invalid.of(u64::from(layout.pages)).max(1) as u32;
        Some(Idle::new(target, least_gain, self.gc.idle_after, TimerKey(timer)))
    }

    /// The write buffer of a drive of these chips with so many lanes; its timer is `timer`.
    fn buffer(
        &self,
        chips: &Layout,
        lanes: u32,
        logical: u32,
        page: u64,
        timer: u32,
        cx: &BuildContext<'_>,
    ) -> Result<Option<Box<Buffer>>, BuildError> {
        let Some(config) = self.buffer_config() else { return Ok(None) };
        let capacity = config.pages(ByteLen(page), logical)?;
        let is_log = self.mapping.log_block().is_some();
        Ok(Some(Box::new(Buffer::new(buffer::Plan {
            capacity,
            logical,
            keep: config.dirty_share.unwrap_or(Ratio::new(u64::from(!is_log), 2)).of(u64::from(capacity))
                as u32,
            dirty_expire: config.dirty_expire.unwrap_or(Span::from_ms(100)),
            max_programs: config.max_programs.unwrap_or((chips.planes / lanes).max(1)),
            lanes,
            all: crate::write_buffer::ones((page / SECTOR) as u32),
            link: Link::new(config.link_bandwidth.0),
            key: TimerKey(timer),
            dump: config.power_loss_protection.then(|| (chips.ppn_end(), chips.block_stride())),
            planted: buffer::Planted::of(cx),
        }))))
    }
}
