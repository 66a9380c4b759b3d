//! The options of `cache`.

use super::{Cache, Setup};
use crate::destage::WriteConfig;
use crate::directory::LINE_MAX;
use crate::map::{AnyMap, Flat, Hashed};
use crate::prefetch::{Brings, Holes, PrefetchConfig, Units};
use crate::replacement::{Fault, LineOf, Needs, ReplacementConfig, Room};
use nandu_base::{BuildContext, BuildError, ByteLen, DeviceConfig, Limits, Machine, Registry, Span, options};

/// Options of `cache`: memory above a device.
#[options]
#[derive(Clone, Debug)]
pub struct CacheConfig {
    /// The device that is cached.
    pub below: String,
    /// Memory for blocks.
    #[option(also = "from 8 blocks to 1 TiB")]
    pub size: ByteLen,
    /// Unit in which memory is taken. Bytes behind the last whole block of the device are not offered.
    #[option(default = ByteLen::kib(4), range = ByteLen(512)..=ByteLen::kib(64), power_of_two)]
    #[option(also = "a multiple of the alignment below")]
    pub block_size: ByteLen,
    /// Bytes of a segment, for the prefetchers and policies that go by segments.
    #[option(
        unset = "that of `prefetch`, else 32 KiB",
        also = "a power of two of blocks, at most 64 blocks"
    )]
    pub segment_size: Option<ByteLen>,
    /// What is read ahead.
    #[option(default = PrefetchConfig::named("segment"))]
    pub prefetch: PrefetchConfig,
    /// Who goes when memory is short.
    #[option(default = ReplacementConfig::named("adaptive-culling"))]
    pub replacement: ReplacementConfig,
    /// When writes go below.
    #[option(default, unset = "at once (`writethrough`)", table)]
    pub write: WriteConfig,
    /// What is missing of a read goes below first and alone; what is brought with it follows as a read that nobody waits for.
    #[option(default)]
    pub demand_first: bool,
    /// Tell the device below which of the blocks that were read together are used: those that were asked for, and those that were brought with them
    /// when they are met. A `hybrid` then keeps the others out of its upper ring.
    #[option(default)]
    pub use_hints: bool,
    /// Longest read below.
    #[option(unset = "64 blocks, or what the device below takes", also = "from a block to that")]
    pub max_fill_size: Option<ByteLen>,
    /// Reads ahead that may be in flight. More are refused.
    #[option(default = 16, range = 0..=4096)]
    pub prefetch_depth: u32,
    /// Refuse reads ahead while the device below is busy.
    #[option(default)]
    pub drop_when_busy: bool,
    /// Bring ahead only blocks of a physical unit (flash page, track) that is read anyway, or from a lane that is not used yet, where the device
    /// below knows; each row of such blocks by a command of its own.
    #[option(default)]
    pub colocated: bool,
    /// Time of a request that is answered from memory.
    #[option(default = Span::from_us(2), range = ..=Span::from_ms(1))]
    pub hit_latency: Span,
    /// Further time of an answer from memory for each list that the policy changes.
    #[option(default = Span::ZERO, range = ..=Span::from_ms(1))]
    pub list_latency: Span,
    /// How a block is found.
    #[option(
        default,
        note = "a table of 4 bytes for each line of the device where it is touched",
        also = "`hash` takes 32 bytes for each line that fits into memory, however large the device"
    )]
    pub index: IndexConfig,
}

/// How a block is found.
#[options]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IndexConfig {
    /// By number.
    #[default]
    Array,
    /// By hash.
    Hash,
}

const SEGMENT: ByteLen = ByteLen::kib(32);
const MEMORY_MAX: ByteLen = ByteLen::gib(1024);
const LEAST_BLOCKS: u64 = 8;

impl DeviceConfig for CacheConfig {
    fn children(&self) -> Vec<String> {
        vec![self.below.clone()]
    }

    fn settle(&mut self, registry: &Registry) -> Result<(), BuildError> {
        self.replacement.settle("replacement", registry)?;
        self.prefetch.settle("prefetch", registry)?;
        self.write.settle(registry)
    }

    fn build(&self, cx: &BuildContext<'_>) -> Result<Box<dyn Machine>, BuildError> {
        let below = cx.only_child();
        let replacement = self.replacement.options()?;
        let prefetch = self.prefetch.options()?;
        let block = self.block_size(below)?;
        let segment = self.segment_blocks(prefetch.segment(), block)?;
        let brings = prefetch.brings();
        self.check_combination(replacement.needs(), brings)?;
        let memory = self.size.0 / block;
        if memory < LEAST_BLOCKS || self.size > MEMORY_MAX {
            let least = ByteLen(LEAST_BLOCKS * block);
            return Err(BuildError::at("size", format!("{} lies outside {least} to 1 TiB", self.size)));
        }
        if let Some(most) = self.max_fill_size {
            let longest = ByteLen(u64::from(LINE_MAX) * block);
            if most.0 < block || most > longest {
                let why = format!("{most} lies outside {} to {longest}, 64 blocks", self.block_size);
                return Err(BuildError::at("max_fill_size", why));
            }
        }
        let dirty = self.write.dirty_blocks(memory, block)?;
        let clean = memory - dirty;
        let line = if replacement.line() == LineOf::Segment { segment } else { 1 };
        if clean < line {
            let why = format!("{} does not hold one segment beside the dirty data", self.size);
            return Err(BuildError::at("size", why));
        }
        let fault = match (cx.planted(super::NO_CULLING.name), cx.planted(super::IN_BOTH_LISTS.name)) {
            (true, _) => Some(Fault::NoCulling),
            (_, true) => Some(Fault::InBothLists),
            _ => None,
        };
        let policy = replacement.boxed(Room { blocks: clean, line, fault })?;
        let capacity = below.capacity.0 / block * block;
        let lines = capacity / block / line + 1;
        let map = match self.index {
            IndexConfig::Array => AnyMap::Flat(Flat::new(lines)),
            IndexConfig::Hash => AnyMap::Hashed(Hashed::new(clean.min(1 << 26) as usize)),
        };
        let volatile_cache = below.volatile_cache || dirty > 0;
        let limits = Limits { capacity: ByteLen(capacity), volatile_cache, ..below.clone() };
        Ok(Box::new(Cache::new(Setup {
            limits,
            block,
            span: if matches!(brings, Brings::Segments(_)) { segment } else { 1 },
            leaves_holes: brings == Brings::Segments(Holes::BlockOnly),
            line_shift: line.trailing_zeros(),
            clean,
            policy,
            map,
            prefetch: prefetch.boxed(&Units { block: ByteLen(block), segment })?,
            buffer: self.write.build(dirty, block, below.max_io)?,
            config: self.clone(),
            planted: super::Planted::of(cx),
        })))
    }
}

impl CacheConfig {
    fn block_size(&self, below: &Limits) -> Result<u64, BuildError> {
        let block = self.block_size.0;
        if !block.is_multiple_of(u64::from(below.align)) || block > below.max_io.0 {
            let why = format!(
                "{} is not a multiple of the alignment of `{}`, {}, or longer than its longest request",
                self.block_size,
                self.below,
                ByteLen(u64::from(below.align))
            );
            return Err(BuildError::at("block_size", why));
        }
        if below.erase_unit.is_some() || below.program_order {
            let why = format!("`{}` takes its writes in order, which a cache does not keep", self.below);
            return Err(BuildError::at("below", why));
        }
        if below.capacity.0 < block {
            return Err(BuildError::too_small("below", below.capacity, self.block_size));
        }
        Ok(block)
    }

    fn segment_blocks(&self, theirs: Option<ByteLen>, block: u64) -> Result<u64, BuildError> {
        let own = self.segment_size;
        if let (Some(own), Some(theirs)) = (own, theirs)
            && own != theirs
        {
            let why = format!("{own}, but the prefetcher has segments of {theirs}: name one of them");
            return Err(BuildError::at("segment_size", why));
        }
        let default = SEGMENT.0.clamp(block, block * u64::from(LINE_MAX));
        let segment = own.or(theirs).unwrap_or(ByteLen(default));
        let blocks = segment.0 / block;
        if !segment.0.is_power_of_two() || !(1..=u64::from(LINE_MAX)).contains(&blocks) {
            let (block, most) = (ByteLen(block), ByteLen(block * u64::from(LINE_MAX)));
            let why = format!("{segment} is not a power of two from {block} to {most} (64 blocks)");
            return Err(BuildError::at("segment_size", why));
        }
        Ok(blocks)
    }

    /// Combinations that make no sense.
    fn check_combination(&self, needs: Needs, brings: Brings) -> Result<(), BuildError> {
        let name = self.replacement.name();
        let why = match needs {
            Needs::Prefetch if brings == Brings::Nothing => {
                format!("`{name}` culls what was prefetched, and prefetch is `none`: take `lru`")
            }
            Needs::Segments if !matches!(brings, Brings::Segments(_)) => {
                format!("`{name}` goes with prefetch `segment_size` or `gated-segment`; `lru` with any")
            }
            _ => return Ok(()),
        };
        Err(BuildError::at("replacement", why))
    }
}
