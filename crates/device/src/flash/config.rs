//! Options of `flash`.

use super::{Chip, Flash};
use crate::nand::Profile;
use nandu_base::{
    BuildContext, BuildError, ByteLen, DeviceConfig, Kind, Limits, Machine, Plant, Ratio, Span, SECTOR,
};
use schemars::JsonSchema;
use serde::Deserialize;

/// SLC as the hybrid-disk study takes it (O4-7, S4-18): 25 us, 200 us, 50,000 cycles.
const SLC_READ: Span = Span::from_us(25);
const SLC_PROGRAM: Span = Span::from_us(200);
const SLC_ENDURANCE: u32 = 50_000;

/// Bare NAND: erase units are erased by `reset` and programmed in order.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FlashConfig {
    /// The chip: a profile of `nandu list profiles`.
    pub profile: String,
    /// Blocks of each die, 1 to 1,000,000. Give this or `capacity`.
    pub blocks: Option<u32>,
    /// Bytes in all; rounded down to whole erase units. Give this or `blocks`.
    pub capacity: Option<ByteLen>,
    /// Dies that serve it together, 1 to 64. Default 1. An erase unit is one block of each.
    #[serde(default = "one")]
    pub dies: u32,
    /// Bits that a cell holds, at most those of the chip, which is the default. With fewer a block has that share of its
    /// pages.
    pub bits: Option<u32>,
    /// Page size, instead of the profile's: 512 B to 64 KiB, a power of two.
    pub page: Option<ByteLen>,
    /// Pages of a block with all bits in use, instead of the profile's: 2 to 4096.
    pub pages_per_block: Option<u32>,
    /// tR. Default: the profile's; 25 us where a chip of more bits holds one.
    pub read: Option<Span>,
    /// tPROG. Default: the profile's; 200 us where a chip of more bits holds one.
    pub program: Option<Span>,
    /// tBERS, instead of the profile's.
    pub erase: Option<Span>,
    /// Speed of the channel in bytes per second, instead of the profile's.
    pub channel_bandwidth: Option<ByteLen>,
    /// Cycles a block is made for. Default: the profile's; 50,000 where a chip of more bits holds one.
    pub endurance: Option<u32>,
    /// Whether a block that has had its cycles is not erased any more. Default false: they are only counted.
    #[serde(default)]
    pub wears_out: bool,
}

fn one() -> u32 {
    1
}

const PLANTS: &[Plant] =
    &[Plant::new("flash.uncounted-erase", "I-13", "an erase takes the time of its dies and draws nothing")
        .within("hybrid")];

/// The machine kind `flash`.
pub fn kind() -> Kind {
    Kind::of::<FlashConfig>("flash", "bare NAND: programmed in order, erased by reset, no translation layer")
        .with_plants(PLANTS)
}

fn range<T: PartialOrd + std::fmt::Display>(
    key: &'static str,
    value: T,
    low: T,
    high: T,
) -> Result<T, BuildError> {
    if value < low || value > high {
        return Err(BuildError::at(key, format!("{value} lies outside {low} to {high}")));
    }
    Ok(value)
}

impl FlashConfig {
    fn chip(&self) -> Result<Chip, BuildError> {
        let profile = Profile::named(&self.profile)?;
        let native = match profile.cell.as_str() {
            "SLC" => 1,
            "MLC" => 2,
            "TLC" => 3,
            _ => 4,
        };
        let bits = range("bits", self.bits.unwrap_or(native), 1, native)?;
        let as_slc = bits == 1 && native > 1;
        let page = self.page.unwrap_or(profile.page).0;
        if !page.is_power_of_two() || !(SECTOR..=64 << 10).contains(&page) {
            let page = ByteLen(page);
            return Err(BuildError::at("page", format!("{page} is not a power of two from 512 B to 64 KiB")));
        }
        let all = range("pages_per_block", self.pages_per_block.unwrap_or(profile.pages_per_block), 2, 4096)?;
        let block_pages = Ratio::new(u64::from(bits), u64::from(native)).of(u64::from(all)) as u32;
        let dies = range("dies", self.dies, 1, 64)?;
        let unit_pages = block_pages.max(1) * dies;
        let unit = u64::from(unit_pages) * page;
        let units = match (self.blocks, self.capacity) {
            (Some(blocks), None) => u64::from(blocks),
            (None, Some(capacity)) => capacity.0 / unit,
            _ => return Err(BuildError::at("blocks", "give either `blocks` or `capacity`")),
        };
        let key = if self.blocks.is_some() { "blocks" } else { "capacity" };
        let units = range(key, units, 1, 1_000_000)? as u32;
        let hour = Span::from_secs(3600);
        let time = |key, given: Option<Span>, slc: Span, own: Span| {
            let usual = if as_slc { slc } else { own };
            range(key, given.unwrap_or(usual), Span(1), hour)
        };
        let bandwidth = self.channel_bandwidth.map_or(profile.channel_bytes_per_second, |b| b.0);
        let bandwidth = u128::from(range("channel_bandwidth", bandwidth, 1 << 10, 1 << 50)?);
        let endurance = if as_slc { SLC_ENDURANCE } else { profile.endurance };
        Ok(Chip {
            page,
            unit_pages,
            units,
            dies,
            read: time("read", self.read, SLC_READ, profile.read)?,
            program: time("program", self.program, SLC_PROGRAM, profile.program)?,
            erase: time("erase", self.erase, profile.erase, profile.erase)?,
            transfer: Span((u128::from(page) * 1_000_000_000).div_ceil(bandwidth) as u64),
            endurance: range("endurance", self.endurance.unwrap_or(endurance), 1, u32::MAX)?,
            wears_out: self.wears_out,
            bits,
            power: profile.power,
        })
    }
}

impl DeviceConfig for FlashConfig {
    fn children(&self) -> Vec<String> {
        Vec::new()
    }

    fn build(&self, cx: &BuildContext<'_>) -> Result<Box<dyn Machine>, BuildError> {
        let chip = self.chip()?;
        let unit = u64::from(chip.unit_pages) * chip.page;
        let limits = Limits {
            align: chip.page as u32,
            preferred: chip.page as u32,
            max_io: ByteLen(unit.min(1 << 20).max(chip.page)),
            erase_unit: Some(ByteLen(unit)),
            program_order: true,
            ..Limits::plain(ByteLen(u64::from(chip.units) * unit))
        };
        Ok(Box::new(Flash::new(chip, limits, cx.planted("flash.uncounted-erase"))))
    }
}
