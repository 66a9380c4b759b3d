//! Options of `hybrid`, and the faults that can be planted in it.

use crate::bypass::marks_max;
use crate::dram::Order;
use crate::machine::{Hybrid, Policy};
use crate::policy::demotion::DemotionConfig;
use crate::policy::promotion::PromotionConfig;
use crate::region_map::Layout;
use crate::ring::{Shape, cold_units, reserve_units};
use nandu_base::{
    BuildContext, BuildError, ByteLen, DeviceConfig, Kind, Limits, Machine, Plant, Ratio, Registry, SECTOR,
    Span, options,
};

/// What becomes of a page in the lower ring that is copied to the top one.
#[options]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tiers {
    /// It is void at once.
    Exclusive,
    /// It stays, and is the page again when the copy goes down unchanged.
    Inclusive,
}

/// When a change is acknowledged.
#[options]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Acknowledge {
    /// When it is in DRAM, as the paper has it: a power cut takes what was not flushed.
    Dram,
    /// When it is in a ring and proven there: as if each change said FUA.
    Ring,
}

/// What the rings hold.
#[options]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CacheMode {
    /// The newest data, which the disk gets later.
    Writeback,
    /// Copies: the disk has every change before it is acknowledged, and the rings may be lost.
    Writethrough,
}

/// Options of `hybrid`.
#[options]
#[derive(Clone, Debug)]
pub struct HybridConfig {
    /// The upper ring. Without it the lower one takes everything.
    pub slc: Option<String>,
    /// The lower ring. Without it the upper one stands directly above the disk.
    pub mlc: Option<String>,
    /// The disk: everything else.
    pub disk: String,
    /// Bytes of DRAM.
    #[option(default = ByteLen::kib(512), note = "as in the paper", range = ..=ByteLen::gib(1024), also = "at least 16 pages")]
    pub dram_size: ByteLen,
    /// What the rings hold.
    #[option(default = CacheMode::Writeback, note = "as in the paper", also = "with \"writethrough\" they may be lost at any time, and nothing is lost with them")]
    pub cache_mode: CacheMode,
    /// Most bytes of the rings that may be newer than the disk: beyond, they are destaged, and requests wait.
    #[option(
        default,
        off = "all of the rings",
        note = "as in the paper",
        also = "at least two erase units of each ring"
    )]
    pub dirty_max: ByteLen,
    /// Bytes of a region of the map of dirty regions, which lies on the disk: with it the disk can go on without rings that were lost, and names
    /// what was lost.
    #[option(
        default,
        off = "no map",
        note = "as in the paper",
        also = "a power of two from one page to 1 GiB; fixed when the disk is made"
    )]
    pub dirty_region_size: ByteLen,
    /// When a change is acknowledged.
    #[option(default = Acknowledge::Dram, note = "as in the paper", also = "with `cache_mode = \"writethrough\"` when the disk has it, whatever stands here")]
    pub write_ack: Acknowledge,
    /// Bytes that are mapped as one.
    #[option(default = ByteLen::kib(4), range = ByteLen::kib(2)..=ByteLen::kib(32), power_of_two)]
    pub page_size: ByteLen,
    /// Bytes of a unit of a ring whose child has no erase unit of its own.
    #[option(default = ByteLen::kib(256), also = "a multiple of the page, at least 4 pages")]
    pub erase_unit: ByteLen,
    /// Share of a ring that stays free for collection.
    #[option(default = Ratio::new(1, 10), note = "as in the paper", range = ..=Ratio::new(1, 2), also = "at least three units are kept")]
    pub gc_reserve: Ratio,
    /// Share of the upper ring, from start to end, that is its cold zone.
    #[option(default = Ratio::new(3, 10), note = "as in the paper", range = ..=Ratio::new(9, 10))]
    pub slc_cold_share: Ratio,
    /// The same of the lower ring.
    #[option(default = Ratio::new(4, 10), note = "as in the paper", range = ..=Ratio::new(9, 10))]
    pub mlc_cold_share: Ratio,
    /// Which valid pages of a cold zone stay in their ring.
    #[option(default = DemotionConfig::named("referenced"))]
    pub rewrite: DemotionConfig,
    /// Which pages that are read go to the top ring.
    #[option(default = PromotionConfig::named("second-touch"), also = "the paper has \"always\"")]
    pub promote: PromotionConfig,
    /// Reads longer than this pass DRAM and rings by.
    #[option(default = ByteLen::kib(64), off = "none, as in the paper")]
    pub read_bypass: ByteLen,
    /// Whole pages of writes longer than this go to the disk at once.
    #[option(default, off = "none", note = "as in the paper")]
    pub write_bypass: ByteLen,
    /// Requests that carry on a stream of at least so many bytes pass DRAM and rings by, as far as they are whole pages.
    #[option(default, off = "none", note = "as in the paper")]
    pub sequential_cutoff: ByteLen,
    /// What becomes of a page in the lower ring that is copied to the top one.
    #[option(default = Tiers::Exclusive)]
    pub tiers: Tiers,
    /// Which of the frames that wait is appended first.
    #[option(default = Order::Oldest)]
    pub append_order: Order,
    /// Share of DRAM that waits before it is appended at once.
    #[option(default = Ratio::new(1, 4), range = ..=Ratio::new(3, 4))]
    pub append_threshold: Ratio,
    /// Time without requests after which what waits is appended.
    #[option(default = Span::from_ms(30), range = ..=Span::from_secs(3600))]
    pub append_idle: Span,
    /// Most pages behind one header.
    #[option(default = 63, range = 1..=125)]
    pub group_pages: u32,
    /// Whether the ring above the disk waits with its collection while the disk stands still, and begins early while it runs.
    #[option(default, note = "as in the paper")]
    pub spin_aware: bool,
}

macro_rules! plants {
    ($($field:ident, $name:literal, $breaks:literal, $family:literal, $summary:literal;)*) => {
        const PLANTS: &[Plant] = &[$(Plant::new($name, $breaks, $summary).within($family)),*];

        /// Which faults are planted, read once.
        #[derive(Clone, Copy, Debug, Default)]
        pub(crate) struct Planted {
            $(#[doc = $summary] pub $field: bool,)*
        }

        impl Planted {
            fn of(cx: &BuildContext<'_>) -> Planted {
                Planted { $($field: cx.planted($name)),* }
            }
        }
    };
}

plants! {
    flush_from_dram, "hybrid.flush-from-dram", "I-1", "hybrid",
        "a flush is acknowledged although DRAM holds what no ring has";
    no_mark, "hybrid.no-mark", "I-1", "hybrid",
        "data that went past the rings leaves no mark: after a cut older data of a ring is back";
    proof_before_flush, "hybrid.proof-before-flush", "open", "hybrid",
        "a header calls groups durable that were not flushed";
    erase_before_proof, "hybrid.erase-before-proof", "I-1", "hybrid",
        "a unit is erased before the newer home of its data is durable";
    drops_dirty, "hybrid.drops-dirty", "I-1", "hybrid",
        "the lowest ring drops dirty pages as if they were clean";
    oldest_wins, "hybrid.oldest-wins", "I-1", "hybrid",
        "after a start the oldest version of a page counts";
    forgets_to_unmap, "hybrid.forgets-to-unmap", "I-12", "hybrid",
        "pages stay mapped to a unit that is erased";
    stale_below, "hybrid.stale-below", "I-1", "hybrid",
        "a page that was changed goes down, and its older copy there counts again";
    forgets_age, "hybrid.forgets-age", "I-1", "hybrid",
        "a frame that waits is used, and a flush that came before does not wait for it";
    stale_load, "hybrid.stale-load", "I-1", "hybrid",
        "a page that was being read while newer data went past it enters DRAM as it was";
    demotes_unflushed, "hybrid.demotes-unflushed", "I-1", "hybrid",
        "a unit is erased before the disk has made durable what went there";
    acks_from_dram, "hybrid.acks-from-dram", "I-1", "hybrid-on-one-chip",
        "a change is acknowledged from DRAM although `write_ack` says ring";
    forgets_bound, "hybrid.forgets-bound", "dirty_bounded", "hybrid",
        "pages are appended although the rings have as many dirty ones as they may";
    cleans_unflushed, "hybrid.cleans-unflushed", "I-1", "hybrid",
        "destaged pages count as clean before the disk has made them durable";
    destages_reused, "hybrid.destages-reused", "I-1", "hybrid",
        "what a slot held before it was erased and filled anew is destaged as the newest of its page";
    believes_unclean, "hybrid.believes-unclean", "I-1", "hybrid-writethrough",
        "rings that hold copies are believed although their last session did not end cleanly";
    keeps_names, "hybrid.keeps-names", "I-1", "hybrid-writethrough",
        "a ring that is taken anew keeps its name: what it held before counts at the next start";
    keeps_old_copy, "hybrid.keeps-old-copy", "I-1", "hybrid-writethrough",
        "the disk has new data of a page, and the copy in a ring still counts";
    fails_with_ring, "hybrid.fails-with-ring", "failures", "hybrid-writethrough",
        "a read fails because a ring does not give the copy that the disk has too";
    soils_copies, "hybrid.soils-copies", "copies_only", "hybrid-writethrough",
        "after a start copies count as newer than the disk";
    marks_late, "hybrid.marks-late", "I-1", "hybrid-loses-rings",
        "pages of a region are appended, and acknowledged, before the map on the disk says that it is dirty";
    clears_early, "hybrid.clears-early", "I-1", "hybrid-loses-rings",
        "a region is called clean while a ring has something newer of it";
    clears_whole_region, "hybrid.clears-whole-region", "I-1", "hybrid-loses-rings",
        "a page of a lost region is written, and the whole region is served again";
    promotes_unused, "hybrid.promotes-unused", "unused_not_promoted", "culling-over-hybrid",
        "pages that were only read ahead are copied to the top ring";
}

/// The machine kind `hybrid`.
pub fn kind() -> Kind {
    Kind::of::<HybridConfig>(
        "hybrid",
        "a disk behind DRAM, an SLC ring and an MLC ring, which survives power cuts",
    )
    .with_plants(PLANTS)
}

impl HybridConfig {
    fn check(&self) -> Result<(), BuildError> {
        if self.slc.is_none() && self.mlc.is_none() {
            return Err(BuildError::at(
                "slc",
                "neither `slc` nor `mlc` is given: at least one ring is needed",
            ));
        }
        let page = self.page_size.0;
        if self.dram_size.0 < 16 * page {
            return Err(BuildError::too_small("dram_size", self.dram_size, ByteLen(16 * page)));
        }
        if !self.erase_unit.0.is_multiple_of(page)
            || self.erase_unit.0 < 4 * page
            || self.erase_unit.0 > 1 << 30
        {
            let why = format!("{} is not a multiple of the page from 4 pages to 1 GiB", self.erase_unit);
            return Err(BuildError::at("erase_unit", why));
        }
        if self.write_ack == Acknowledge::Ring && self.cache_mode == CacheMode::Writethrough {
            let why = "with `cache_mode = \"writethrough\"` the disk acknowledges changes, not a ring: leave it out";
            return Err(BuildError::at("write_ack", why));
        }
        if self.dirty_max.0 > 0 && self.cache_mode == CacheMode::Writethrough {
            return Err(BuildError::at(
                "dirty_max",
                "with `cache_mode = \"writethrough\"` nothing is newer than the disk: leave it out",
            ));
        }
        let region = self.dirty_region_size.0;
        if region > 0 && self.cache_mode == CacheMode::Writethrough {
            return Err(BuildError::at(
                "dirty_region_size",
                "with `cache_mode = \"writethrough\"` no region is dirty: leave it out",
            ));
        }
        if region > 0 && !(region.is_power_of_two() && (page..=1 << 30).contains(&region)) {
            let why = format!("{} is not a power of two from the page to 1 GiB", self.dirty_region_size);
            return Err(BuildError::at("dirty_region_size", why));
        }
        Ok(())
    }

    /// The ring on child `child`, whose slots and units are numbered from these.
    fn ring(
        &self,
        child: u8,
        key: &'static str,
        below: &Limits,
        (slot_base, unit_base): (u32, u32),
    ) -> Result<Shape, BuildError> {
        let page = self.page_size.0;
        let unit = below.erase_unit.unwrap_or(self.erase_unit).0;
        if !page.is_multiple_of(u64::from(below.align)) {
            let align = ByteLen(u64::from(below.align));
            return Err(BuildError::at(
                "page_size",
                format!("{} is not a multiple of the {align} of `{key}`", self.page_size),
            ));
        }
        if !unit.is_multiple_of(page) || unit < 4 * page {
            let unit = ByteLen(unit);
            let why = format!("its erase unit of {unit} is not a multiple of the page from 4 pages");
            return Err(BuildError::at(key, why));
        }
        if below.max_io.0 < page {
            return Err(BuildError::at(
                "page_size",
                format!("`{key}` takes at most {} at a time", below.max_io),
            ));
        }
        let units = below.capacity.0 / unit;
        let room = u64::from(u32::MAX >> 2) / (unit / page);
        let lead = if below.erase_unit.is_some() { 2 } else { 1 };
        if units < 8 + lead {
            return Err(BuildError::too_small(key, below.capacity, ByteLen((8 + lead) * unit)));
        }
        if units > room {
            let why = format!("{} is more than its map can number with this page", below.capacity);
            return Err(BuildError::at(key, why));
        }
        let lead = lead as u32;
        let units = units as u32 - lead;
        let unit_pages = (unit / page) as u32;
        let reserve = reserve_units(units, self.gc_reserve);
        let share = if key == "slc" { self.slc_cold_share } else { self.mlc_cold_share };
        let most = (below.max_io.0 / page).min(crate::record::capacity(page as usize) as u64) as u32;
        Ok(Shape {
            child,
            page,
            unit_pages,
            units,
            lead,
            slot_base,
            unit_base,
            resets: below.erase_unit.is_some(),
            ordered: below.program_order,
            volatile: below.volatile_cache,
            reserve,
            cold: cold_units(units - reserve, share),
            group_max: self.group_pages.min(most).min(unit_pages - 1),
        })
    }

    fn rings(&self, cx: &BuildContext<'_>) -> Result<Vec<Shape>, BuildError> {
        let names = [("slc", &self.slc), ("mlc", &self.mlc)];
        let mut rings: Vec<Shape> = Vec::new();
        for (child, (key, _)) in names.into_iter().filter(|(_, name)| name.is_some()).enumerate() {
            let base = rings.last().map_or((0, 0), |r| (r.slot_base + r.slots(), r.unit_base + r.units));
            rings.push(self.ring(child as u8, key, &cx.children[child], base)?);
        }
        let least = ByteLen(rings.iter().map(|ring| 2 * ring.unit_bytes()).sum());
        if self.dirty_max.0 > 0 && self.dirty_max < least {
            let why = format!("{} is less than two erase units of each ring: {least}", self.dirty_max);
            return Err(BuildError::at("dirty_max", why));
        }
        if let [upper, lower] = &rings[..]
            && lower.slots() / 4 < upper.unit_pages
        {
            let need = ByteLen(u64::from(upper.unit_pages) * 4 * self.page_size.0 + lower.unit_bytes());
            let why = format!("a unit of `slc` does not fit four times: at least {need} are needed");
            return Err(BuildError::at("mlc", why));
        }
        Ok(rings)
    }
}

impl DeviceConfig for HybridConfig {
    fn children(&self) -> Vec<String> {
        [self.slc.clone(), self.mlc.clone(), Some(self.disk.clone())].into_iter().flatten().collect()
    }

    fn settle(&mut self, registry: &Registry) -> Result<(), BuildError> {
        self.promote.settle("promote", registry)?;
        self.rewrite.settle("rewrite", registry)
    }

    fn build(&self, cx: &BuildContext<'_>) -> Result<Box<dyn Machine>, BuildError> {
        self.check()?;
        let rings = self.rings(cx)?;
        let slots: u32 = rings.iter().map(Shape::slots).sum();
        let promotion = self.promote.options()?.boxed(slots as usize)?;
        let demotion = self.rewrite.options()?.boxed()?;
        let page = self.page_size.0;
        let disk = &cx.children[rings.len()];
        if disk.erase_unit.is_some() {
            return Err(BuildError::at("disk", "it must be erased before it is written over: not a disk"));
        }
        if !page.is_multiple_of(u64::from(disk.align)) || disk.max_io.0 < page {
            return Err(BuildError::at(
                "page_size",
                format!("`disk` does not take {} at a time", self.page_size),
            ));
        }
        let pages = disk.capacity.0 / page;
        if pages < 3 {
            return Err(BuildError::too_small("disk", disk.capacity, ByteLen(3 * page)));
        }
        if pages > u64::from(u32::MAX >> 1) {
            return Err(BuildError::at("disk", format!("{} is more than 2^31 pages", disk.capacity)));
        }
        let layout = match self.dirty_region_size.0 {
            0 => None,
            region => Some(Layout::of(disk.capacity.0, page, region).ok_or_else(|| {
                BuildError::at("disk", format!("{} has no room for a map of dirty regions", disk.capacity))
            })?),
        };
        let data = layout.map_or(pages - 2, |layout| u64::from(layout.pages));
        let frames = self.dram_size.0 / page;
        let is_through = self.cache_mode == CacheMode::Writethrough;
        let limits = Limits {
            capacity: ByteLen(data * page),
            // What goes to the disk past the rings goes as it is.
            align: if is_through || layout.is_some() { disk.align } else { SECTOR as u32 },
            preferred: page as u32,
            max_io: ByteLen((32 << 20).min(marks_max(&rings[0]) * page)),
            dma_align: cx.children.iter().map(|c| c.dma_align).max().unwrap_or(512),
            depth: 64,
            erase_unit: None,
            program_order: false,
            volatile_cache: match self.cache_mode {
                CacheMode::Writeback => self.write_ack == Acknowledge::Dram,
                CacheMode::Writethrough => disk.volatile_cache,
            },
            areas: Vec::new(),
        };
        let planted = Planted::of(cx);
        let policy = Policy {
            ack_durable: self.write_ack == Acknowledge::Ring && !planted.acks_from_dram,
            read_bypass: self.read_bypass.0,
            write_bypass: self.write_bypass.0,
            sequential_cutoff: self.sequential_cutoff.0,
            tiers: self.tiers,
            cache_mode: self.cache_mode,
            dirty_max: (self.dirty_max.0 / page).min(u64::from(u32::MAX)) as u32,
            write_back: self.append_order,
            flush_pages: self.append_threshold.of(frames).max(1) as u32,
            append_idle: self.append_idle,
            spin_aware: self.spin_aware,
            disk_volatile: disk.volatile_cache,
            is_mapped: layout.is_some(),
            disk_max: disk.max_io.0 / page * page,
        };
        let sizes = cx.children.iter().map(|c| c.capacity.0).collect();
        Ok(Box::new(Hybrid::new(
            limits,
            page,
            frames as usize,
            &rings,
            sizes,
            layout,
            policy,
            promotion,
            demotion,
            planted,
            cx,
        )))
    }
}
