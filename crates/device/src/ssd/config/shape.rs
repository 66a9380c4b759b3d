//! What is settled from the options: the chip, the geometry, the blocks, and how much the drive holds.

use super::{Axis, Order, SsdConfig};
use crate::nand::{Geometry, Profile, lanes::Timing};
use nandu_base::{BuildContext, BuildError, ByteLen, Ratio, Span};
use nandu_ftl::mapping::MapShape;
use nandu_ftl::plan::checkpoint::Keeper;
use nandu_ftl::{Layout, MapArea, WearRules};

/// How much a drive holds.
#[derive(Clone, Copy)]
pub(super) struct Size {
    pub logical: u32,
    /// Valid pages in all: logical ones, and records of trims.
    pub needed: u64,
    /// Pages more that may count as valid.
    pub room: u32,
    /// Blocks of each plane that hold no data of the host's.
    pub reserved: u32,
    /// Of these, the ones for translation pages.
    pub map: u32,
    /// Of these, the ones for checkpoints: the first of each plane.
    pub anchors: u32,
    /// Of these, the ones of a cache in SLC mode.
    pub slc: u32,
    pub wear: WearRules,
}

impl SsdConfig {
    /// Blocks of each plane that a map of all pages needs for its translation pages.
    pub(super) fn map_area_blocks(&self, layout: &Layout, shape: &MapShape) -> u32 {
        let row = u64::from(layout.planes) * u64::from(layout.pages);
        if self.mapping.is_paged() { MapArea::quota(row, shape.translation_pages()) } else { 0 }
    }

    /// Tenants that the drive may have, each with a map of its own.
    pub(super) fn places(&self) -> usize {
        if !self.isolation.is_on() {
            return 0;
        }
        self.tenants.len().max(self.max_tenants.unwrap_or(0) as usize)
    }

    /// Blocks of each plane that checkpoints need.
    pub(super) fn anchors(&self, layout: &Layout, shape: &MapShape) -> u32 {
        let keeper =
            self.checkpoint_interval.map(|blocks| Keeper::new(layout, shape, self.mapping.ram(), blocks));
        keeper.map_or(0, |keeper| keeper.anchors.per_plane())
    }

    pub(super) fn check_checkpoint(&self) -> Result<(), BuildError> {
        let why = match self.checkpoint_interval {
            None => return Ok(()),
            Some(_) if !self.mapping.is_paged() => {
                "only a map on the flash has checkpoints: see `mapping.kind`"
            }
            Some(_) => return Ok(()),
        };
        Err(BuildError::at("checkpoint_interval", why))
    }

    /// The profile with this drive's own figures over it.
    pub(super) fn chip(&self) -> Result<Profile, BuildError> {
        let mut chip = Profile::named(&self.profile)?;
        chip.page = self.page_size.unwrap_or(chip.page);
        chip.pages_per_block = self.pages_per_block.unwrap_or(chip.pages_per_block);
        chip.read = self.read_latency.unwrap_or(chip.read);
        chip.program = self.program_latency.unwrap_or(chip.program);
        chip.erase = self.erase_latency.unwrap_or(chip.erase);
        chip.channel_bytes_per_second =
            self.channel_bandwidth.map_or(chip.channel_bytes_per_second, |bytes| bytes.0);
        chip.power = self.power.unwrap_or(chip.power);
        if chip.transfer() > Span::from_secs(10) {
            let why = format!("a page takes {} on the channel: at most 10 s", chip.transfer());
            return Err(BuildError::at("channel_bandwidth", why));
        }
        Ok(chip)
    }

    pub(super) fn geometry(&self) -> Geometry {
        Geometry {
            channels: self.channels,
            chips: self.chips_per_channel,
            dies: self.dies_per_chip,
            planes: self.planes_per_die,
        }
    }

    pub(super) fn layout(
        &self,
        chip: &Profile,
        geometry: Geometry,
        gc_start: u32,
    ) -> Result<Layout, BuildError> {
        let plane_block = chip.page.0 * u64::from(chip.pages_per_block) * u64::from(geometry.all_planes());
        let blocks = match (self.blocks_per_plane, self.capacity) {
            (Some(blocks), None) => blocks,
            (None, Some(capacity)) => {
                let keep = self.spare_factor.den.saturating_sub(self.spare_factor.num).max(1);
                let raw = u128::from(capacity.0) * u128::from(self.spare_factor.den) / u128::from(keep);
                u32::try_from(raw.div_ceil(u128::from(plane_block))).map_err(|_| {
                    BuildError::at("capacity", format!("{capacity} is too large for this geometry"))
                })?
            }
            (Some(_), Some(_)) => {
                return Err(BuildError::at(
                    "blocks_per_plane",
                    "give `blocks_per_plane` or `capacity`, not both",
                ));
            }
            (None, None) => return Err(BuildError::at("capacity", "give `blocks_per_plane` or `capacity`")),
        };
        let least = gc_start.saturating_add(5);
        if blocks < least {
            let reason = format!(
                "{blocks} blocks in a plane are too few: with gc.threshold = {gc_start} at least {least} are needed"
            );
            return Err(BuildError::at("blocks_per_plane", reason));
        }
        let key = if self.capacity.is_some() { "capacity" } else { "blocks_per_plane" };
        let layout = Layout::new(geometry.all_planes(), blocks, chip.pages_per_block).map_err(|e| {
            let raw = ByteLen(e.pages * chip.page.0);
            BuildError::at(key, format!("{e}; the most with this geometry is {raw}, spare blocks included"))
        })?;
        // Memory comes as it is touched, where the system promises that much.
        match Vec::<u32>::new().try_reserve_exact(layout.ppn_end() as usize) {
            Ok(()) => Ok(layout),
            Err(_) => {
                let table = ByteLen(4 * layout.ppn_end());
                let reason = format!(
                    "this system gives no table of {table}, 4 bytes for each page: take a smaller drive"
                );
                Err(BuildError::at(key, reason))
            }
        }
    }

    /// Logical pages after over-provisioning, and what follows from them; refused when the rest would leave no room to clear
    /// blocks.
    pub(super) fn size(
        &self,
        layout: &Layout,
        width: u32,
        chip: &Profile,
        cx: &BuildContext<'_>,
    ) -> Result<Size, BuildError> {
        let (page_bytes, gc_start) = (chip.page.0, self.gc.threshold);
        let op = self.spare_factor;
        let raw = layout.real_pages();
        let logical = match self.capacity {
            Some(capacity) => capacity.0 / page_bytes,
            None => raw - op.of(raw),
        };
        // Trim records take up to one page per 2 x extents-per-record logical pages, and a few more while they are renewed.
        let journal = nandu_ftl::trim_journal::TrimJournal::pages_max(logical, page_bytes as usize, 1);
        let named = u64::from(nandu_ftl::blocks::LOGICAL_PAGES_MAX);
        if logical > named {
            let most = ByteLen(named * page_bytes);
            let reason = format!(
                "{} need {logical} page numbers, a drive has {named}: at most {most} with this `page`",
                ByteLen(logical * page_bytes)
            );
            return Err(BuildError::at("capacity", reason));
        }
        let places = self.places();
        let shape = self.mapping.shape(logical as u32, page_bytes, layout.pages)?;
        let anchors = self.anchors(layout, &shape.clone().owned((0..places).map(|_| None)));
        let slc = self.slc_fixed(layout, width, chip)?;
        let map = self.map_area_blocks(layout, &shape);
        let gathers = u32::from(self.mapping.gathers());
        let own = (map + anchors + gathers + self.more_streams()).saturating_add(slc);
        if layout.blocks < own.saturating_add(gc_start + 5) {
            let reason = format!(
                "{} blocks in a plane are too few: the map, streams and an SLC cache need {own} of them, collection {}",
                layout.blocks,
                gc_start + 5
            );
            return Err(BuildError::at("blocks_per_plane", reason));
        }
        // All blocks but the two open ones, those kept free, one, and the map's own: so clearing always gains.
        let reserved = own + gc_start + 3;
        let mut wear = self.wear.rules(chip.endurance, anchors.max(1), cx.name);
        wear.keeps_worn = cx.planted("ssd.worn-block-used");
        wear.width = width;
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
                 {journal} are kept for trim records; raise `spare_factor` or the number of blocks"
            );
            return Err(BuildError::at("spare_factor", reason));
        }
        let room = (most - needed).min(u64::from(u32::MAX)) as u32;
        Ok(Size { logical: logical as u32, needed, room, reserved, map, anchors, slc, wear })
    }
}

pub(super) fn timing_of(profile: &Profile, copyback: bool) -> Timing {
    Timing {
        read: profile.read,
        program: profile.program,
        erase: profile.erase,
        transfer: profile.transfer(),
        copyback,
    }
}

pub(super) fn check_order(order: &Order) -> Result<(), BuildError> {
    let all = [Axis::Channel, Axis::Chip, Axis::Die, Axis::Plane];
    match all.iter().find(|axis| !order.contains(axis)) {
        None => Ok(()),
        Some(missing) => {
            let reason = format!("{missing:?} is missing: name each of channel, chip, die and plane once")
                .to_lowercase();
            Err(BuildError::at("allocation_order", reason))
        }
    }
}
