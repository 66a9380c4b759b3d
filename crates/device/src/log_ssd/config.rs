//! From options to a drive with a log-block map.

use super::buffer::Buffer;
use super::line::Line;
use super::pages::Pages;
use super::{Counts, Life, LogSsd, MergeClock, Planted};
use crate::nand::{Geometry, Lanes};
use crate::write_buffer::{Link, WriteBufferConfig};
use nandu_base::{BuildContext, BuildError, ByteLen, Instant, Limits, Machine, Plant, Precondition, SECTOR};
use nandu_ftl::Layout;
use nandu_ftl::log_block::{Bast, BlockMap, Fast, LogBlocks, Region, Shape};
use std::collections::VecDeque;

/// Faults that can be planted.
pub(crate) const PLANTS: [Plant; 8] = [
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
    Plant::new("ssd.buffer-ignored-by-flush", "I-1", "a flush does not wait for the write buffer")
        .within("ssd-log"),
];

/// Which map.
#[derive(Clone, Copy, Debug)]
pub(crate) enum LogMap {
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

/// What was settled from the options.
pub(crate) struct Parts {
    pub geometry: Geometry,
    pub layout: Layout,
    pub lanes: Lanes,
    /// Planes in their turn.
    pub order: Vec<u32>,
    pub page: ByteLen,
    /// Logical pages.
    pub logical: u64,
    /// Pages before the next plane has its turn.
    pub interleave: u32,
    pub map: LogMap,
    pub write_buffer: Option<WriteBufferConfig>,
    /// Bits that a cell stores.
    pub bits_per_cell: u32,
    /// Program and erase cycles a block is made for.
    pub endurance: u32,
}

/// Makes the drive.
pub(crate) fn assemble(parts: Parts, cx: &BuildContext<'_>) -> Result<Box<dyn Machine>, BuildError> {
    if !(1..=1 << 20).contains(&parts.interleave) {
        let why = format!("interleave = {} is not within 1 to {} pages", parts.interleave, 1 << 20);
        return Err(BuildError::at("mapping", why));
    }
    let most = parts.layout.real_pages().min(1 << 31);
    if parts.logical == 0 || parts.logical > most {
        let why = format!("{} logical pages are not within 1 to {most}", parts.logical);
        return Err(BuildError::at("spare_factor", why));
    }
    let pages = Pages {
        bits: parts.page.0.trailing_zeros(),
        sectors: (parts.page.0 / SECTOR) as u32,
        logical: parts.logical as u32,
        unit: parts.interleave,
        order: parts.order.clone(),
    };
    let shape = Shape {
        pages: parts.layout.pages,
        blocks: parts.layout.blocks,
        logical: pages.most_on_a_plane().div_ceil(parts.layout.pages),
    };
    let planes = parts.layout.planes;
    let region = || {
        let mut region = Region::new(shape);
        region.planted.stale_page_wins = cx.planted("ssd.log-stale-page");
        region.planted.wrong_switch = cx.planted("ssd.log-wrong-switch");
        region
    };
    // One block is for a merge to go to, and one for the host to go on.
    let spare = shape.blocks.saturating_sub(shape.logical + 2);
    match parts.map {
        LogMap::Block { open } => {
            let open = logs(Some(open), spare, shape, 0)?;
            drive(parts, pages, (0..planes).map(|_| BlockMap::new(region(), open)), cx)
        }
        LogMap::Bast { log_blocks, borrow } => {
            let logs = logs(log_blocks, spare, shape, 0)?;
            drive(parts, pages, (0..planes).map(|_| Bast::new(region(), logs, borrow)), cx)
        }
        LogMap::Fast { log_blocks, sequential, borrow } => {
            let logs = logs(log_blocks, spare, shape, u32::from(sequential))?;
            drive(parts, pages, (0..planes).map(|_| Fast::new(region(), logs, sequential, borrow)), cx)
        }
    }
}

/// Log blocks of a plane; `others` more are needed beside them.
fn logs(wanted: Option<u32>, spare: u32, shape: Shape, others: u32) -> Result<u32, BuildError> {
    let most = spare.saturating_sub(others);
    let logs = wanted.unwrap_or(most);
    if logs == 0 || logs > most {
        let reason = format!(
            "{} blocks in a plane hold {} logical ones, 2 for merges and {others} for sequential writes: {logs} log \
             blocks do not fit, at least 1 and at most {most}; raise `spare_factor` or the number of blocks",
            shape.blocks, shape.logical
        );
        return Err(BuildError::at("spare_factor", reason));
    }
    Ok(logs)
}

fn drive<F: LogBlocks + 'static>(
    parts: Parts,
    pages: Pages,
    maps: impl Iterator<Item = F>,
    cx: &BuildContext<'_>,
) -> Result<Box<dyn Machine>, BuildError> {
    let Parts { geometry, layout, lanes, page, write_buffer, .. } = parts;
    if matches!(cx.precondition, Precondition::Aged | Precondition::Fragmented(_)) {
        let why = "the state of a log-block map is not computed: start `filled` and let a warm-up age or fragment it";
        return Err(BuildError::at("mapping", why));
    }
    let mut limits = Limits::plain(ByteLen(u64::from(pages.logical) * page.0));
    limits.preferred = page.0 as u32;
    limits.depth = geometry.all_planes().max(32);
    limits.volatile_cache = write_buffer.is_some();
    let buffer = match write_buffer {
        None => None,
        Some(config) => {
            config.check_for_log_blocks()?;
            let link = Link::new(config.link_bytes_per_second);
            Some(Buffer::new(config.pages(page, pages.logical)?, pages.logical, link))
        }
    };
    let mut ssd = LogSsd {
        limits,
        plane_bits: geometry.planes.trailing_zeros(),
        pages,
        layout,
        lines: maps.map(Line::new).collect(),
        lanes,
        pendings: Vec::new(),
        pendings_free: Vec::new(),
        buffer,
        barriers: VecDeque::new(),
        merges: MergeClock::default(),
        seq: 0,
        serial: 0,
        ticket: 0,
        durable_at: Instant::ZERO,
        last_change: Instant::ZERO,
        life: Life::Opening,
        recovery: super::recover::Figures::default(),
        count: Counts::default(),
        planted: Planted {
            erase_too_early: cx.planted("ssd.log-erase-too-early"),
            lost_mark: cx.planted("ssd.log-lost-mark"),
            early_last: cx.planted("ssd.log-unfinished-merge"),
            flush_ignores_buffer: cx.planted("ssd.buffer-ignored-by-flush"),
            uncharged_merge: cx.planted("ssd.log-uncharged-merge"),
            oldest_wins: cx.planted("ssd.log-oldest-wins"),
            wear_falls: cx.planted("ssd.wear-falls"),
        },
        is_filled: false,
        bits_per_cell: parts.bits_per_cell,
        endurance: parts.endurance,
    };
    if cx.precondition == Precondition::Filled {
        ssd.fill();
    }
    Ok(Box::new(ssd))
}
