//! From the options of an SSD to one with a log-block map.

use super::streams::StreamsConfig;
use super::tenants::IsolationConfig;
use super::unit::Unit;
use super::{Drive, GcConfig, SsdConfig, check_order};
use crate::nand::{Geometry, Profile};
use crate::ssd::config::shape::Size;
use nandu_base::{BuildContext, BuildError, Machine, Plant, Precondition};
use nandu_ftl::log_block::{Bast, BlockMap, Fast, Homes, LogBlocks, LogMap, Region, Shape};
use nandu_ftl::placement::RoundRobin;
use nandu_ftl::{BlockId, WearRules};

/// Faults that can be planted in a log-block map and its recovery.
pub(super) const PLANTS: [Plant; 7] = [
    Plant::new(
        "ssd.log-erase-too-early",
        "I-1",
        "with a log-block map, blocks are erased before the merged block is programmed",
    )
    .within("ssd-log"),
    Plant::new(
        "ssd.log-stale-page",
        "I-1",
        "now and then a merge copies a version that the log has a newer one of",
    )
    .within("ssd-log"),
    Plant::new("ssd.log-unfinished-merge", "I-1", "a block that a merge fills counts from its first page on")
        .within("ssd-log"),
    Plant::new("ssd.log-lost-mark", "I-1", "the mark of a trim is programmed without its names")
        .within("ssd-log"),
    Plant::new(
        "ssd.log-oldest-wins",
        "I-1",
        "recovery of a log-block map takes the oldest version of a page",
    )
    .within("ssd-log"),
    Plant::new("ssd.log-wrong-switch", "I-5", "now and then a log block out of order becomes the data block")
        .within("ssd-log"),
    Plant::new("ssd.log-uncharged-merge", "I-13", "merges are not charged").within("ssd-log"),
];

/// Which log-block map.
#[derive(Clone, Copy, Debug)]
pub(in crate::ssd) enum LogKind {
    /// [`BlockMap`].
    Block {
        /// Replacement blocks that may be open in a plane.
        open: u32,
    },
    /// [`Bast`].
    Bast {
        /// Log blocks of a plane; all that are spare by default.
        log_blocks: Option<u32>,
        /// Whether blocks that no data needs are log blocks too.
        borrow: bool,
    },
    /// [`Fast`].
    Fast {
        /// Random log blocks of a plane; all that are spare by default.
        log_blocks: Option<u32>,
        /// Whether there is a sequential log block.
        sequential: bool,
        /// Whether blocks that no data needs are log blocks too.
        borrow: bool,
    },
}

impl LogKind {
    /// The map of one plane.
    fn of_plane(self, region: Region) -> Result<Box<dyn LogBlocks>, BuildError> {
        let shape = region.shape();
        // One block is for a merge to go to, and one for the host to go on.
        let good = region.good();
        let spare = good.saturating_sub(shape.logical + 2);
        let logs = |wanted: Option<u32>, others: u32| {
            let most = spare.saturating_sub(others);
            let logs = wanted.unwrap_or(most);
            if logs == 0 || logs > most {
                let reason = format!(
                    "{good} good blocks in a plane hold {} logical ones, 2 for merges and {others} for sequential writes: {logs} \
                     log blocks do not fit, at least 1 and at most {most}; raise `spare_factor` or the number of blocks",
                    shape.logical
                );
                return Err(BuildError::at("spare_factor", reason));
            }
            Ok(logs)
        };
        Ok(match self {
            LogKind::Block { open } => Box::new(BlockMap::new(region, logs(Some(open), 0)?)),
            LogKind::Bast { log_blocks, borrow } => Box::new(Bast::new(region, logs(log_blocks, 0)?, borrow)),
            LogKind::Fast { log_blocks, sequential, borrow } => {
                let logs = logs(log_blocks, u32::from(sequential))?;
                Box::new(Fast::new(region, logs, sequential, borrow))
            }
        })
    }
}

impl SsdConfig {
    /// Refuses what has no meaning with a log-block map.
    fn check_log_drive(&self, precondition: Precondition) -> Result<(), BuildError> {
        let refuse = |key, why: &str| Err(BuildError::at(key, why));
        if self.streams != StreamsConfig::None {
            let why = "a log-block map says itself which pages share blocks: streams are for the other maps";
            return refuse("streams", why);
        }
        if self.isolation != IsolationConfig::None {
            return refuse("isolation", "a drive with a log-block map cannot keep tenants apart");
        }
        self.check_slc()?;
        if self.unit != Unit::Plane {
            return refuse("unit", "a drive with a log-block map has units of one block only");
        }
        if !self.gc.separate {
            let why = "a merge fills a block of its own: a log-block map has no open block for the host's pages and moved ones";
            return refuse("gc", why);
        }
        let GcConfig { copyback, background, idle_after, .. } = self.gc;
        if self.gc != (GcConfig { copyback, background, idle_after, ..GcConfig::default() }) {
            let why = "a log-block map chooses what it merges, and when it must: `copyback`, `background` and `idle_after` have a meaning";
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
        kind: LogKind,
        interleave: u32,
        cx: &BuildContext<'_>,
    ) -> Result<Box<dyn Machine>, BuildError> {
        self.check_log_drive(cx.precondition)?;
        check_order(&self.placement)?;
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
        let sizes = [geometry.channels, geometry.chips, geometry.dies, geometry.planes];
        let turns = RoundRobin::new(self.placement, sizes, |at| geometry.plane_number(at));
        let order = (0..u64::from(layout.planes)).map(|turn| turns.nth(turn)).collect();
        let homes = Homes { logical: logical as u32, unit: interleave, order };
        let per_plane = Shape {
            pages: layout.pages,
            blocks: layout.blocks,
            logical: homes.most_on_a_plane().div_ceil(layout.pages),
        };
        let wear = self.wear.rules(profile.endurance, 1, cx.name);
        let region = |plane| {
            let mut region = Region::new(per_plane);
            let bad = |&(_, block): &(u32, BlockId)| wear.is_factory_bad(&layout, block);
            (0..).zip(layout.plane_blocks(plane)).filter(bad).for_each(|(block, _)| region.retire(block));
            region.planted.stale_page_wins = cx.planted("ssd.log-stale-page");
            region.planted.wrong_switch = cx.planted("ssd.log-wrong-switch");
            region
        };
        let maps: Result<_, _> = (0..layout.planes).map(|plane| kind.of_plane(region(plane))).collect();
        let map = LogMap::new(homes, layout, maps?);
        let mut queue = self.queue(&units, geometry, &profile, cx)?;
        queue.keep_order();
        let size = Size {
            logical: logical as u32,
            needed: 0,
            room: 0,
            reserved: 0,
            slc: 0,
            map: 0,
            wear: WearRules { keeps_worn: cx.planted("ssd.worn-block-used"), ..wear },
        };
        let shape = self.mapping.shape(size.logical, profile.page.0, layout.pages)?;
        self.assemble(Drive { profile, geometry, units, shape, size, tenancy: None }, map, queue, cx)
    }
}
