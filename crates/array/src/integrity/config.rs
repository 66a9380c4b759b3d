//! The options of `integrity`, the faults that can be planted in it, and its building.

use super::Integrity;
use super::layout::Layout;
use nandu_base::{
    BuildContext, BuildError, ByteLen, DeviceConfig, Kind, Limits, Machine, Plant, Span, options,
};

/// Options of `integrity`.
#[options]
#[derive(Clone, Debug)]
pub struct IntegrityConfig {
    /// The device whose blocks are checked.
    pub below: String,
    /// Bytes that one checksum covers; requests become a multiple of it. A larger block needs less room and fewer records. Part of what is on the
    /// device: it cannot be changed later.
    #[option(unset = "4 KiB, or the alignment of the device below where that is more", range = ..=ByteLen::kib(64), power_of_two)]
    #[option(also = "at least that alignment")]
    pub block_size: Option<ByteLen>,
    /// Memory for checksums. A read of a region whose checksums are not there reads 4 KiB more.
    #[option(default = ByteLen::mib(16), range = ByteLen::kib(64)..=ByteLen::gib(64), also = "room for twice `max_dirty_regions`")]
    pub cache_size: ByteLen,
    /// Most regions (1024 blocks each) whose checksums on the device may be out of date at a time. After a cut their data are read once, and taken
    /// as they are.
    #[option(default = 128, range = 1..=65_536)]
    pub max_dirty_regions: u32,
    /// Time without a write after which the checksums of a region are written.
    #[option(default = Span::from_secs(1), range = Span::from_ms(1)..=Span::from_secs(3600))]
    pub bitmap_delay: Span,
}

/// Faults that are planted; none outside of tests.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Planted {
    pub(super) never_compares: bool,
    pub(super) data_before_mark: bool,
    pub(super) clear_before_flush: bool,
    pub(super) retake_left_out: bool,
    pub(super) read_beside_write: bool,
}

const NEVER_COMPARES: Plant =
    Plant::new("integrity.never-compares", "I-1", "what is read is not compared with its checksum")
        .within("mirror-that-rots");
const DATA_BEFORE_MARK: Plant = Plant::new(
    "integrity.data-before-mark",
    "integrity",
    "data is written before it is durable that checksums of its region will be out of date",
)
.within("integrity");
const CLEAR_BEFORE_FLUSH: Plant = Plant::new(
    "integrity.clear-before-flush",
    "failures",
    "a region counts as up to date before its checksums are durable",
)
.within("integrity");
const RETAKE_LEFT_OUT: Plant = Plant::new(
    "integrity.retake-left-out",
    "failures",
    "after a cut the old checksums of regions that were being written are believed",
)
.within("integrity");
const READ_BESIDE_WRITE: Plant = Plant::new(
    "integrity.read-beside-write",
    "failures",
    "a read does not wait for a write of the same block that is under way",
)
.within("integrity");

/// The machine kind `integrity`.
pub fn kind() -> Kind {
    Kind::of::<IntegrityConfig>(
        "integrity",
        "a checksum for each block, so that damaged data is unreadable and not wrong",
    )
    .with_plants(&[
        NEVER_COMPARES,
        DATA_BEFORE_MARK,
        CLEAR_BEFORE_FLUSH,
        RETAKE_LEFT_OUT,
        READ_BESIDE_WRITE,
    ])
}

impl DeviceConfig for IntegrityConfig {
    fn children(&self) -> Vec<String> {
        vec![self.below.clone()]
    }

    fn build(&self, cx: &BuildContext<'_>) -> Result<Box<dyn Machine>, BuildError> {
        let below = cx.only_child();
        if below.erase_unit.is_some() || below.program_order || !below.areas.is_empty() {
            let why =
                format!("`{}` cannot be written over: put `integrity` above what translates it", self.below);
            return Err(BuildError::at("below", why));
        }
        let block = self.block_size.unwrap_or(ByteLen(u64::from(below.align).max(4096)));
        let bounds = u64::from(below.align)..=64 << 10;
        if !block.0.is_power_of_two() || !bounds.contains(&block.0) {
            let why =
                format!("{block} is not a power of two from {} to 64 KiB", ByteLen(u64::from(below.align)));
            return Err(BuildError::at("block_size", why));
        }
        let layout = Layout::new(below.capacity, below.align, block.0)?;
        let least = ByteLen((2 * u64::from(self.max_dirty_regions) * layout.page).max(64 << 10));
        if !(least..=ByteLen::gib(64)).contains(&self.cache_size) {
            let why = format!(
                "{} is out of bounds: {least} to 64 GiB with max_dirty_regions = {}",
                self.cache_size, self.max_dirty_regions
            );
            return Err(BuildError::at("cache_size", why));
        }
        let planted = Planted {
            never_compares: cx.planted(NEVER_COMPARES.name),
            data_before_mark: cx.planted(DATA_BEFORE_MARK.name),
            clear_before_flush: cx.planted(CLEAR_BEFORE_FLUSH.name),
            retake_left_out: cx.planted(RETAKE_LEFT_OUT.name),
            read_beside_write: cx.planted(READ_BESIDE_WRITE.name),
        };
        let limits = Limits {
            capacity: layout.capacity(),
            align: block.0 as u32,
            preferred: below.preferred.max(block.0 as u32),
            max_io: ByteLen((below.max_io.0 - below.max_io.0 % block.0).max(block.0)),
            ..below.clone()
        };
        let pages = (self.cache_size.0 / layout.page).min(layout.regions) as usize;
        Ok(Box::new(Integrity::new(limits, layout, pages.max(2), self, planted)))
    }
}
