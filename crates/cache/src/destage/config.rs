//! The options of writing.

use super::DestageConfig;
use crate::directory::LINE_MAX;
use crate::machine::{Buffer, Plan};
use nandu_base::{BuildError, ByteLen, Registry, Span, options};

/// When writes go below.
#[options]
#[derive(Clone, Debug, Default)]
pub enum WriteConfig {
    /// At once: a write is acknowledged when the device below has it.
    #[default]
    Writethrough,
    /// Later: a write of whole blocks is acknowledged when it is in memory, and lost in a power cut unless it was flushed.
    Writeback {
        /// Part of the memory that dirty data may take; writes beyond go through.
        #[option(unset = "a quarter of `size`", also = "from 1 block to half of the memory")]
        dirty_max: Option<ByteLen>,
        /// What goes below next.
        #[option(default = DestageConfig::named("lru"))]
        destage: DestageConfig,
        /// What `bplru` and `lb-clock` destage together, the NAND block of the drive.
        #[option(default = ByteLen::kib(256), power_of_two, also = "from a block to 4096 blocks")]
        erase_unit: ByteLen,
        /// With `bplru`: pages of a NAND block that are not dirty are read and written with it, so that a drive that maps by
        /// blocks can switch it in. `erase_unit` is then at most 64 blocks.
        #[option(default)]
        pad: bool,
        /// Dirty data that is older goes below.
        #[option(default = Span::from_secs(1), range = Span::from_us(1)..=Span::from_secs(3600))]
        dirty_expire: Span,
        /// Writes that destage at the same time.
        #[option(default = 4, range = 1..=256)]
        destage_depth: u32,
        /// Longest write of a destage. With `lru` dirty blocks beside the one whose turn it is go with it up to there; `block_size`: each for
        /// itself.
        #[option(
            unset = "256 blocks, or what the device below takes",
            also = "at least a block, at most what the device takes"
        )]
        max_destage_size: Option<ByteLen>,
        /// Writes longer than this go below at once, as with `writethrough`, unless some of their blocks are dirty already. They gain nothing by
        /// waiting for their neighbours, and a flush finds less to wait for.
        #[option(default, off = "none")]
        bypass: ByteLen,
    },
}

/// Blocks that are destaged together by default.
const RUN: u64 = 256;

impl WriteConfig {
    /// See [`DeviceConfig::settle`](nandu_base::DeviceConfig::settle).
    pub(crate) fn settle(&mut self, registry: &Registry) -> Result<(), BuildError> {
        match self {
            WriteConfig::Writethrough => Ok(()),
            WriteConfig::Writeback { destage, .. } => destage.settle("write.destage", registry),
        }
    }

    /// Blocks that dirty data may take of a memory of `memory` blocks of `block` bytes.
    pub(crate) fn dirty_blocks(&self, memory: u64, block: u64) -> Result<u64, BuildError> {
        let WriteConfig::Writeback { dirty_max: dirty, .. } = self else { return Ok(0) };
        let blocks = dirty.map_or((memory / 4).max(1), |dirty| dirty.0 / block);
        if blocks == 0 || blocks > memory / 2 {
            let (least, most) = (ByteLen(block), ByteLen(memory / 2 * block));
            let why =
                format!("{} lies outside {least} to {most}, half of the memory", ByteLen(blocks * block));
            return Err(BuildError::at("write.dirty_max", why));
        }
        Ok(blocks)
    }

    /// The buffer for `dirty` blocks of `block` bytes above a device that takes requests of `most`.
    pub(crate) fn build(&self, dirty: u64, block: u64, most: ByteLen) -> Result<Option<Buffer>, BuildError> {
        let WriteConfig::Writeback {
            ref destage,
            erase_unit: unit,
            pad,
            dirty_expire: after,
            destage_depth: depth,
            max_destage_size: longest,
            bypass,
            ..
        } = *self
        else {
            return Ok(None);
        };
        let destage = destage.options()?;
        let blocks = unit.0 / block;
        if !(1..=4096).contains(&blocks) {
            let (block, most) = (ByteLen(block), ByteLen(4096 * block));
            let why = format!("{unit} is not within {block} to {most} (4096 blocks)");
            return Err(BuildError::at("write.erase_unit", why));
        }
        if pad && (!destage.may_pad() || blocks > u64::from(LINE_MAX)) {
            let why = "padding goes with `destage = \"bplru\"` and a `erase_unit` of at most 64 blocks";
            return Err(BuildError::at("write.pad", why));
        }
        if let Some(longest) = longest.filter(|l| l.0 < block || l.0 > most.0) {
            let why =
                format!("{longest} lies outside {} to {most}, what the device below takes", ByteLen(block));
            return Err(BuildError::at("write.max_destage_size", why));
        }
        let longest = longest.map_or(RUN.min(most.0 / block), |longest| longest.0 / block);
        let merges = !destage.by_unit();
        let room = dirty as usize;
        Ok(Some(Buffer::new(Plan {
            room,
            unit: if merges { 1 } else { blocks },
            after,
            depth,
            policy: destage.boxed(room),
            pads: pad,
            longest,
            merges,
            bypass,
        })))
    }
}
