//! The options of an SSD, and what follows from them.

mod arbiter;
mod log_drive;
mod plants;
mod slc;
mod streams;
mod tenants;
mod unit;

pub use arbiter::Arbiter;

use super::background::Idle;
use super::buffer::{self, Buffer};
use super::checkpoint::Keeper;
use super::gc::{GcConfig, WearConfig};
use super::level::Leveller;
use super::mapping::{self, MapConfig};
use super::stripes::Stripes;
use super::translate::Paging;
use super::{host::Host, Ssd};
use crate::nand::queued::Queued;
use crate::nand::{lanes::Timing, FlashPower, Geometry, Lanes, Profile};
use crate::write_buffer::{Link, WriteBufferConfig};
use nandu_base::{
    BuildContext, BuildError, ByteLen, DeviceConfig, Kind, Limits, Machine, Precondition, Ratio, Rng, Span,
    TimerKey, SECTOR,
};
use nandu_ftl::mapping::{MapShape, Mapping, PageMap};
use nandu_ftl::placement::{Axis, Order};
use nandu_ftl::{BlockTable, Layout, MapArea, Units, WearRules};
use schemars::JsonSchema;
use serde::Deserialize;
pub use slc::SlcCacheConfig;
use streams::StreamsConfig;
use tenants::{IsolationConfig, Tenancy, TenantConfig};
use unit::Unit;

/// A flash drive: a controller with its translation layer over channels of NAND chips.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SsdConfig {
    /// The chip: a profile of `nandu list profiles`.
    pub profile: String,
    /// Channels, 1 to 64.
    #[serde(default = "one")]
    pub channels: u32,
    /// Chips on each channel, 1 to 64.
    #[serde(default = "one")]
    pub chips: u32,
    /// Dies in each chip, 1 to 16.
    #[serde(default = "one")]
    pub dies: u32,
    /// Planes in each die: 1, 2, 4 or 8.
    #[serde(default = "one")]
    pub planes: u32,
    /// Blocks in each plane. Give this or `capacity`.
    pub blocks: Option<u32>,
    /// Bytes for the host; as many blocks as that needs. Give this or `blocks`.
    pub capacity: Option<ByteLen>,
    /// Spare / raw: 10 GiB raw with 8 GiB for the host is 0.2.
    #[serde(default = "default_over_provisioning")]
    pub over_provisioning: Ratio,
    /// Page size, instead of the profile's: 512 B to 64 KiB, a power of two.
    pub page: Option<ByteLen>,
    /// Pages of a block, instead of the profile's: 2 to 4096.
    pub pages_per_block: Option<u32>,
    /// tR, instead of the profile's.
    pub read: Option<Span>,
    /// tPROG, instead of the profile's.
    pub program: Option<Span>,
    /// tBERS, instead of the profile's.
    pub erase: Option<Span>,
    /// Speed of a channel in bytes per second, instead of the profile's.
    pub channel_bytes_per_second: Option<u64>,
    /// What the chip draws, instead of the profile's.
    pub power: Option<FlashPower>,
    /// How logical pages are found.
    #[serde(default)]
    pub mapping: MapConfig,
    /// Blocks programmed between two checkpoints of a map on the flash, which bound the scan after a power cut; by default
    /// there are none, as in the papers, and a start reads the record of every page.
    pub checkpoint: Option<u32>,
    /// What a write of part of a page takes beside its program.
    #[serde(default)]
    pub partial_write: PartialWrite,
    /// What is opened, collected and erased as one.
    #[serde(default)]
    pub unit: Unit,
    /// Garbage collection.
    #[serde(default)]
    pub gc: GcConfig,
    /// How blocks wear, and how that is levelled.
    #[serde(default)]
    pub wear: WearConfig,
    /// Which operation a die does next.
    #[serde(default)]
    pub arbiter: Arbiter,
    /// RAM that acknowledges writes before they are programmed; volatile unless it says otherwise. None by default.
    pub write_buffer: Option<WriteBufferConfig>,
    /// Who shares the drive: each has the next range of its logical space. Needs `isolation`.
    #[serde(default)]
    pub tenants: Vec<TenantConfig>,
    /// How tenants are kept apart.
    #[serde(default)]
    pub isolation: IsolationConfig,
    /// Places for tenants, 1 to 16. With it tenants come and go, grow and shrink while the drive runs, and it shows all of its logical space, given to
    /// tenants or not. By default those of the list are there and stay as they are. For `vssd` and `shared-space` with the arbiter `fcfs`.
    pub tenant_slots: Option<u32>,
    /// Share of its units that are erased when a tenant begins to clear, where that is more than `gc.start`.
    pub tenant_trigger: Option<Ratio>,
    /// Which of the host's pages share blocks.
    #[serde(default)]
    pub streams: StreamsConfig,
    /// Blocks in SLC mode in front of the chip's own mode. None by default.
    pub slc_cache: Option<SlcCacheConfig>,
    /// Axes over which consecutive pages are spread, the fastest first.
    #[serde(default = "default_placement")]
    pub placement: Order,
    /// Whether a logical page goes where the turn is, or always to its own plane.
    #[serde(default)]
    pub allocation: Allocation,
}

/// Where a page of the host goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Allocation {
    /// Wherever the turn is.
    #[default]
    Dynamic,
    /// To the plane of its number, in the order of `placement`; to the die, with units of a die.
    Static,
}

/// What a write of part of a page takes beside its program.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PartialWrite {
    /// The page is read first, and its map entry looked up for that.
    #[default]
    ReadModifyWrite,
    /// Nothing: an account that some papers seem to keep. No drive can.
    Ignored,
}

fn one() -> u32 {
    1
}

fn default_over_provisioning() -> Ratio {
    Ratio::new(7, 100)
}

fn default_placement() -> Order {
    [Axis::Channel, Axis::Chip, Axis::Die, Axis::Plane]
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

    fn build(&self, cx: &BuildContext<'_>) -> Result<Box<dyn Machine>, BuildError> {
        let profile = self.chip()?;
        let geometry = self.geometry()?;
        if let Some((map, interleave)) = self.mapping.log_block() {
            if self.streams != StreamsConfig::None {
                return Err(BuildError::at("streams", "a drive with a log-block map has one stream"));
            }
            if self.isolation != IsolationConfig::None {
                return Err(BuildError::at("isolation", "a drive with a log-block map knows no tenants"));
            }
            self.check_slc()?;
            if self.unit != Unit::Plane {
                return Err(BuildError::at(
                    "unit",
                    "a drive with a log-block map has units of one block only",
                ));
            }
            return self.log_drive(profile, geometry, map, interleave, cx);
        }
        let chips = self.layout(&profile, geometry, self.gc.start)?;
        self.check_unit()?;
        self.check_tenants()?;
        self.check_streams()?;
        self.check_slc()?;
        let units = self.units(chips, geometry, cx)?;
        let layout = *units.layout();
        self.gc.check(layout.blocks)?;
        self.wear.check()?;
        self.check_checkpoint()?;
        let size = self.size(&layout, units.width(), &profile, cx)?;
        let tenancy = self.tenancy(&layout, geometry, &size, profile.page.0, cx)?;
        let room = size.room;
        let given = tenancy.as_ref().filter(|tenancy| tenancy.tenants.dealing.is_none());
        let given = given.and_then(|tenancy| tenancy.tenants.table.parts().last());
        let logical = given.map_or(size.logical, |last| last.end());
        let shape = self.mapping.shape(logical, profile.page.0, layout.pages)?;
        let queue = self.queue(&units, geometry, &profile, cx)?;
        let drive = Drive { profile, geometry, units, shape, size, tenancy };
        match (&self.mapping, queue) {
            (MapConfig::Page, Some(queue)) => {
                self.assemble::<_, true>(drive, PageMap::new(logical), queue, cx)
            }
            (_, Some(_)) => {
                let why =
                    "`queued` serves drives with `mapping.kind = \"page\"` only; take `fcfs` for this map";
                Err(BuildError::at("arbiter", why))
            }
            (MapConfig::Page, None) => self.at_once(drive, PageMap::new(logical), cx),
            (MapConfig::Block { .. } | MapConfig::Bast { .. } | MapConfig::Fast { .. }, None) => {
                unreachable!("drives with a log-block map are made by themselves")
            }
            (MapConfig::Dftl { ram, protected, .. }, None) => {
                self.at_once(drive, mapping::dftl(shape, *ram, *protected)?, cx)
            }
            (MapConfig::Cftl { ram, switching, .. }, None) => {
                self.at_once(drive, mapping::cftl(shape, *ram, *switching, layout.pages, cx)?, cx)
            }
            (MapConfig::Tpftl { ram, .. }, None) => self.at_once(drive, mapping::tpftl(shape, *ram)?, cx),
            (MapConfig::Tpc { .. }, None) => {
                self.at_once(drive, mapping::tpc(&self.mapping, shape, room, cx)?, cx)
            }
        }
    }
}

/// What was settled from the options.
struct Drive {
    profile: Profile,
    geometry: Geometry,
    units: Units,
    shape: MapShape,
    size: Size,
    tenancy: Option<Tenancy>,
}

/// How much a drive holds.
#[derive(Clone, Copy)]
struct Size {
    logical: u32,
    /// Valid pages in all: logical ones, and records of trims.
    needed: u64,
    /// Pages more that may count as valid.
    room: u32,
    /// Blocks of each plane that hold no data of the host's.
    reserved: u32,
    /// Of these, the ones of a cache in SLC mode.
    slc: u32,
    wear: WearRules,
}

impl SsdConfig {
    /// The write buffer, if there is one.
    fn buffer_config(&self) -> Option<WriteBufferConfig> {
        self.write_buffer.filter(|buffer| buffer.size > ByteLen::ZERO)
    }

    /// A drive with the arbiter `fcfs`.
    fn at_once<M: Mapping + 'static>(
        &self,
        drive: Drive,
        map: M,
        cx: &BuildContext<'_>,
    ) -> Result<Box<dyn Machine>, BuildError> {
        self.assemble::<M, false>(drive, map, Queued::unused(), cx)
    }

    fn assemble<M: Mapping + 'static, const DEFERS: bool>(
        &self,
        drive: Drive,
        map: M,
        queue: Queued,
        cx: &BuildContext<'_>,
    ) -> Result<Box<dyn Machine>, BuildError> {
        let Drive { profile, geometry, units, shape, size, tenancy } = drive;
        let layout = *units.layout();
        let page_bytes = profile.page.0;
        let timing = timing_of(&profile, self.gc.copyback);
        check_order(&self.placement)?;
        let turns = self.unit.turns(self.placement, geometry);
        let turns = match self.allocation {
            Allocation::Dynamic => turns,
            Allocation::Static if self.unit == Unit::Superblock => {
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
            page_bits: page_bytes.trailing_zeros(),
            plane_bits: geometry.planes.trailing_zeros(),
            page_sectors: (page_bytes / SECTOR) as u32,
            logical: shape.pages,
            reserved: size.reserved,
            needed: size.needed,
            gc_start: self.gc.paced_from(),
            urgent: self.gc.waits_from(),
            separate: self.gc.separate,
            merges: self.partial_write == PartialWrite::ReadModifyWrite,
            bits_per_cell: profile.bits_per_cell().unwrap_or(1),
        };
        let keeper = self.checkpoint.map(|blocks| Keeper::new(&layout, shape, self.mapping.ram(), blocks));
        let paging = Paging::new(layout, &map, self.mapping.waits_for_write(), keeper);
        let mut blocks = BlockTable::with_wear(layout, size.wear);
        blocks.set_rooms(size.reserved, size.needed);
        if let Some((rules, _)) = slc_mode {
            blocks.allow_slc(rules);
        }
        let slc = self.slc_cache(&layout, size.slc, cx);
        let tenants = tenancy.map(|Tenancy { tenants, shares }| {
            if !shares.is_empty() {
                blocks.set_shares(shares);
            }
            Box::new(tenants)
        });
        let stripes = Stripes::new(units, host.plane_bits);
        blocks.set_streams(self.more_streams());
        let streams = self.streams(page_bytes).map(Box::new);
        let policy = self.gc.policy(layout.blocks, Rng::new(cx.seed).fork(2).bits());
        let leveller =
            Leveller::new(self.wear.spread(profile.endurance), self.wear.every, blocks.planes.len() as u32);
        let first_timer = if DEFERS { 1 + geometry.all_dies() } else { 1 };
        let idle = self.idle(&layout, first_timer);
        let buffer = self.buffer(
            stripes.units.chips(),
            shape.pages,
            page_bytes,
            first_timer + u32::from(idle.is_some()),
            cx,
        )?;
        limits.volatile_cache = self.buffer_config().is_some_and(|buffer| !buffer.power_loss_protection);
        let mut ssd = Ssd::<_, _, DEFERS>::new(
            host, limits, map, paging, blocks, stripes, lanes, turns, policy, leveller, tenants, streams,
            slc, idle, queue, buffer, cx,
        );
        match cx.precondition {
            Precondition::Empty => {}
            Precondition::Filled => ssd.fill(),
            Precondition::Fragmented(_) if ssd.tenants.is_some() => {
                let why = "a drive with tenants is not fragmented by computation: start `filled` and let a warm-up do it";
                return Err(BuildError::at("tenants", why));
            }
            Precondition::Fragmented(share) => ssd.fragment(share, Rng::new(cx.seed).fork(4).bits()),
            Precondition::Aged => {
                let (free, seed) = (self.gc.steady_free(), Rng::new(cx.seed).fork(3).bits());
                ssd.age(&mut *self.gc.policy(layout.blocks, seed), free, seed)?;
            }
        }
        Ok(Box::new(ssd))
    }

    /// What the drive does while no request comes; its timer is `timer`.
    fn idle(&self, layout: &Layout, timer: u32) -> Option<Idle> {
        let folds = self.slc_cache.is_some_and(|cache| cache.fold_idle);
        let target = self.gc.background.or_else(|| folds.then_some(0))?;
        let least_gain = self.gc.idle_gain.of(u64::from(layout.pages)).max(1) as u32;
        Some(Idle::new(target, least_gain, self.gc.idle_after, TimerKey(timer)))
    }

    /// The write buffer of a drive of these chips; its timer is `timer`.
    fn buffer(
        &self,
        chips: &Layout,
        logical: u32,
        page: u64,
        timer: u32,
        cx: &BuildContext<'_>,
    ) -> Result<Option<Box<Buffer>>, BuildError> {
        let Some(config) = self.buffer_config() else { return Ok(None) };
        let capacity = config.pages(ByteLen(page), logical)?;
        Ok(Some(Box::new(Buffer::new(buffer::Plan {
            capacity,
            logical,
            keep: config.keep.unwrap_or(Ratio::new(1, 2)).of(u64::from(capacity)) as u32,
            keep_for: config.keep_for.unwrap_or(Span::from_ms(100)),
            at_once: config.at_once.unwrap_or(chips.planes),
            all: crate::write_buffer::ones((page / SECTOR) as u32),
            link: Link::new(config.link_bytes_per_second),
            key: TimerKey(timer),
            dump: config.power_loss_protection.then(|| (u64::from(chips.ppn_end()), chips.block_stride())),
            planted: buffer::Planted::of(cx),
        }))))
    }

    /// Blocks of each plane that the map needs for itself.
    fn map_blocks(&self, layout: &Layout, shape: MapShape) -> u32 {
        match self.mapping.is_paged() {
            true => {
                MapArea::quota(layout, shape.translation_pages())
                    + self.anchors(layout, shape)
                    + u32::from(self.mapping.gathers())
            }
            false => 0,
        }
    }

    /// Blocks of each plane that checkpoints need.
    fn anchors(&self, layout: &Layout, shape: MapShape) -> u32 {
        let keeper = self.checkpoint.map(|blocks| Keeper::new(layout, shape, self.mapping.ram(), blocks));
        keeper.map_or(0, |keeper| keeper.anchors.per_plane())
    }

    fn check_checkpoint(&self) -> Result<(), BuildError> {
        let why = match self.checkpoint {
            None => return Ok(()),
            Some(0) => "at least one block must be programmed between two checkpoints",
            Some(_) if !self.mapping.is_paged() => {
                "only a map on the flash has checkpoints: see `mapping.kind`"
            }
            Some(_) => return Ok(()),
        };
        Err(BuildError::at("checkpoint", why))
    }

    /// The profile with this drive's own figures over it.
    fn chip(&self) -> Result<Profile, BuildError> {
        let mut chip = Profile::named(&self.profile)?;
        chip.page = self.page.unwrap_or(chip.page);
        chip.pages_per_block = self.pages_per_block.unwrap_or(chip.pages_per_block);
        chip.read = self.read.unwrap_or(chip.read);
        chip.program = self.program.unwrap_or(chip.program);
        chip.erase = self.erase.unwrap_or(chip.erase);
        chip.channel_bytes_per_second =
            self.channel_bytes_per_second.unwrap_or(chip.channel_bytes_per_second);
        chip.power = self.power.unwrap_or(chip.power);
        if !chip.page.0.is_power_of_two() || !(512..=65536).contains(&chip.page.0) {
            return Err(BuildError::at(
                "page",
                format!("{} is not a power of two from 512 B to 64 KiB", chip.page),
            ));
        }
        if !(2..=4096).contains(&chip.pages_per_block) {
            let reason = format!("{} pages in a block are not within 2 to 4096", chip.pages_per_block);
            return Err(BuildError::at("pages_per_block", reason));
        }
        if chip.channel_bytes_per_second == 0 {
            return Err(BuildError::at("channel_bytes_per_second", "a channel needs a speed above zero"));
        }
        let longest = chip.read.longer(chip.program).longer(chip.erase).longer(chip.transfer());
        if longest > Span::from_secs(10) {
            return Err(BuildError::at(
                "erase",
                format!("an operation of {longest} is no flash operation: at most 10 s"),
            ));
        }
        Ok(chip)
    }

    fn geometry(&self) -> Result<Geometry, BuildError> {
        let within = |key, value: u32, max| {
            if (1..=max).contains(&value) {
                Ok(value)
            } else {
                Err(BuildError::at(key, format!("{value} is not within 1 to {max}")))
            }
        };
        let geometry = Geometry {
            channels: within("channels", self.channels, 64)?,
            chips: within("chips", self.chips, 64)?,
            dies: within("dies", self.dies, 16)?,
            planes: within("planes", self.planes, 8)?,
        };
        if !geometry.planes.is_power_of_two() {
            return Err(BuildError::at("planes", format!("{} is not 1, 2, 4 or 8", geometry.planes)));
        }
        Ok(geometry)
    }

    fn layout(&self, chip: &Profile, geometry: Geometry, gc_start: u32) -> Result<Layout, BuildError> {
        let plane_block = chip.page.0 * u64::from(chip.pages_per_block) * u64::from(geometry.all_planes());
        let blocks = match (self.blocks, self.capacity) {
            (Some(blocks), None) => blocks,
            (None, Some(capacity)) => {
                let keep = self.over_provisioning.den.saturating_sub(self.over_provisioning.num).max(1);
                let raw = u128::from(capacity.0) * u128::from(self.over_provisioning.den) / u128::from(keep);
                u32::try_from(raw.div_ceil(u128::from(plane_block))).map_err(|_| {
                    BuildError::at("capacity", format!("{capacity} is too large for this geometry"))
                })?
            }
            (Some(_), Some(_)) => {
                return Err(BuildError::at("blocks", "give `blocks` or `capacity`, not both"))
            }
            (None, None) => return Err(BuildError::at("capacity", "give `blocks` or `capacity`")),
        };
        let least = gc_start.saturating_add(5);
        if blocks < least {
            let reason = format!("{blocks} blocks in a plane are too few: with gc.start = {gc_start} at least {least} are needed");
            return Err(BuildError::at("blocks", reason));
        }
        let layout = Layout::new(geometry.all_planes(), blocks, chip.pages_per_block);
        layout.map_err(|e| BuildError::at("blocks", e.to_string()))
    }

    /// Logical pages after over-provisioning, and what follows from them; refused when the rest would leave no room to clear
    /// blocks.
    fn size(
        &self,
        layout: &Layout,
        width: u32,
        chip: &Profile,
        cx: &BuildContext<'_>,
    ) -> Result<Size, BuildError> {
        let (page_bytes, gc_start) = (chip.page.0, self.gc.start);
        let op = self.over_provisioning;
        if op.num >= op.den {
            return Err(BuildError::at(
                "over_provisioning",
                "nothing is left for the host: spare / raw must be below 1",
            ));
        }
        let raw = layout.real_pages();
        let logical = match self.capacity {
            Some(capacity) => capacity.0 / page_bytes,
            None => raw - op.of(raw),
        };
        // Trim records take up to one page per 2 x extents-per-record logical pages, and a few more while they are renewed.
        let journal = nandu_ftl::trim_journal::TrimJournal::pages_max(logical, page_bytes as usize, 1);
        if logical > u64::from(nandu_ftl::blocks::LOGICAL_PAGES_MAX) {
            return Err(BuildError::at("capacity", "more logical pages than 32-bit page numbers can name"));
        }
        let shape = self.mapping.shape(logical as u32, page_bytes, layout.pages)?;
        let slc = self.slc_fixed(layout, chip)?;
        let map = (self.map_blocks(layout, shape) + self.more_streams()).saturating_add(slc);
        if layout.blocks < map.saturating_add(gc_start + 5) {
            let reason = format!(
                "{} blocks in a plane are too few: the map, streams and an SLC cache need {map} of them, collection {}",
                layout.blocks,
                gc_start + 5
            );
            return Err(BuildError::at("blocks", reason));
        }
        // All blocks but the two open ones, those kept free, one, and the map's own: so clearing always gains.
        let reserved = map + gc_start + 3;
        let mut wear = self.wear.rules(chip.endurance, self.anchors(layout, shape).max(1), cx.name);
        wear.keeps_worn = cx.planted("ssd.worn-block-used");
        wear.width = width;
        if self.isolation != IsolationConfig::None {
            wear.endurance = 0;
        }
        if width > 1 {
            // A unit has good blocks only.
            wear.factory_bad = Ratio::ZERO;
        }
        let bad = |plane| {
            layout.plane_blocks(plane).filter(|&block| wear.is_factory_bad(layout, block)).count() as u32
        };
        let bad: Vec<u32> =
            if wear.factory_bad.num == 0 { Vec::new() } else { (0..layout.planes).map(bad).collect() };
        if bad.iter().any(|bad| layout.blocks < reserved + 2 + bad) {
            return Err(BuildError::at("wear", "with its bad blocks, a plane has too few to clear blocks"));
        }
        let good = u64::from(layout.planes) * u64::from(layout.blocks - reserved)
            - bad.iter().map(|&bad| u64::from(bad)).sum::<u64>();
        let most = good * u64::from(layout.pages);
        let needed = logical + journal;
        if logical == 0 || needed > most {
            let reason = format!(
                "{logical} logical pages do not fit: of {raw} pages, {most} can hold data while blocks are cleared, and \
                 {journal} are kept for trim records; raise `over_provisioning` or the number of blocks"
            );
            return Err(BuildError::at("over_provisioning", reason));
        }
        let room = (most - needed).min(u64::from(u32::MAX)) as u32;
        Ok(Size { logical: logical as u32, needed, room, reserved, slc, wear })
    }
}

fn timing_of(profile: &Profile, copyback: bool) -> Timing {
    Timing {
        read: profile.read,
        program: profile.program,
        erase: profile.erase,
        transfer: profile.transfer(),
        copyback,
    }
}

fn check_order(order: &Order) -> Result<(), BuildError> {
    let all = [Axis::Channel, Axis::Chip, Axis::Die, Axis::Plane];
    match all.iter().find(|axis| !order.contains(axis)) {
        None => Ok(()),
        Some(missing) => {
            let reason = format!("{missing:?} is missing: name each of channel, chip, die and plane once")
                .to_lowercase();
            Err(BuildError::at("placement", reason))
        }
    }
}
