//! Options of `flash`.

use super::area::{Counts, FlashArea};
use super::{Chip, Flash};
use crate::nand::Profile;
use nandu_base::{
    BuildContext, BuildError, ByteLen, DeviceConfig, Kind, Limits, Machine, Plant, Ratio, Span, options,
};

/// SLC as the hybrid-disk study takes it (O4-7, S4-18): 25 us, 200 us, 50,000 cycles.
const SLC_READ: Span = Span::from_us(25);
const SLC_PROGRAM: Span = Span::from_us(200);
const SLC_ENDURANCE: u32 = 50_000;

/// Bare NAND: erase units are erased by `reset` and programmed in order.
#[options]
#[derive(Clone, Debug)]
pub struct FlashConfig {
    /// The chip: a profile of `nandu list profiles`.
    pub profile: String,
    /// The file in which `nandu serve` keeps what the drive holds; made with `--create`. Default: memory, lost at its end. A
    /// simulation does without.
    pub store: Option<String>,
    /// Blocks of each die. Give this or `capacity`.
    #[option(range = 1..=1_000_000)]
    pub blocks_per_die: Option<u32>,
    /// Bytes in all; rounded down to whole erase units. Give this or `blocks_per_die`.
    pub capacity: Option<ByteLen>,
    /// Dies that serve it together. An erase unit is one block of each.
    #[option(default = 1, range = 1..=64)]
    pub dies: u32,
    /// Bits that a cell holds. With fewer than the chip's a block has that share of its pages.
    #[option(unset = "those of the chip", range = 1.., also = "at most those")]
    pub bits_per_cell: Option<u32>,
    /// Page size.
    #[option(unset = "the profile's", range = ByteLen(512)..=ByteLen::kib(64), power_of_two)]
    pub page_size: Option<ByteLen>,
    /// Pages of a block with all bits in use.
    #[option(unset = "the profile's", range = 2..=4096)]
    pub pages_per_block: Option<u32>,
    /// tR.
    #[option(unset = "the profile's, 25 us where a chip of more bits holds one", range = Span(1)..=Span::from_secs(3600))]
    pub read_latency: Option<Span>,
    /// tPROG.
    #[option(unset = "the profile's, 200 us where a chip of more bits holds one", range = Span(1)..=Span::from_secs(3600))]
    pub program_latency: Option<Span>,
    /// tBERS.
    #[option(unset = "the profile's", range = Span(1)..=Span::from_secs(3600))]
    pub erase_latency: Option<Span>,
    /// Speed of the channel in bytes per second.
    #[option(unset = "the profile's", range = ByteLen::kib(1)..=ByteLen::gib(1 << 20))]
    pub channel_bandwidth: Option<ByteLen>,
    /// Cycles a block is made for.
    #[option(unset = "the profile's, 50,000 where a chip of more bits holds one", range = 1..)]
    pub endurance: Option<u32>,
    /// Whether a block that has had its cycles is not erased any more.
    #[option(default)]
    pub wears_out: bool,
    /// Rows of blocks in modes of their own, at most 16, which follow each other on the chip. Each is used by a `flash-area`. Instead
    /// of `blocks_per_die`, `capacity`, `bits_per_cell`, `read_latency`, `program_latency` and `endurance`. Default: the chip is all alike.
    #[option(default, table)]
    pub areas: Vec<AreaConfig>,
}

/// Blocks of a chip in one mode.
#[options]
#[derive(Clone, Debug)]
pub struct AreaConfig {
    /// What its `flash-area` calls it.
    pub name: String,
    /// Blocks of each die. Give this or `capacity`.
    #[option(range = 1..=1_000_000)]
    pub blocks_per_die: Option<u32>,
    /// Bytes that it holds in its mode; rounded down to whole erase units. Give this or `blocks_per_die`.
    pub capacity: Option<ByteLen>,
    /// Bits that a cell holds.
    #[option(unset = "those of the chip", range = 1.., also = "at most those")]
    pub bits_per_cell: Option<u32>,
    /// tR.
    #[option(unset = "as for the chip", range = Span(1)..=Span::from_secs(3600))]
    pub read_latency: Option<Span>,
    /// tPROG.
    #[option(unset = "as for the chip", range = Span(1)..=Span::from_secs(3600))]
    pub program_latency: Option<Span>,
    /// Cycles a block is made for.
    #[option(unset = "as for the chip", range = 1..)]
    pub endurance: Option<u32>,
}

/// Most areas of a chip.
const AREAS: usize = 16;

const AREAS_APART: Plant = Plant::new(
    "flash.areas-apart",
    "I-13",
    "a read in an area behind the first one does not wait for what other areas do on its die",
)
.within("hybrid-on-one-chip");
const FORGETS_ERASES: Plant =
    Plant::new("flash.forgets-erases", "I-13", "erases take time of the dies and are not counted")
        .within("hybrid-on-one-chip");

/// Which faults are planted.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Planted {
    pub areas_apart: bool,
    pub forgets_erases: bool,
}

/// The machine kind `flash`.
pub fn kind() -> Kind {
    Kind::of::<FlashConfig>("flash", "bare NAND: programmed in order, erased by reset, no translation layer")
        .with_plants(&[AREAS_APART, FORGETS_ERASES])
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
    /// The rows of blocks, one of them when the chip is all alike.
    fn rows(&self) -> Result<Vec<AreaConfig>, BuildError> {
        if self.areas.is_empty() {
            return Ok(vec![AreaConfig {
                name: String::new(),
                blocks_per_die: self.blocks_per_die,
                capacity: self.capacity,
                bits_per_cell: self.bits_per_cell,
                read_latency: self.read_latency,
                program_latency: self.program_latency,
                endurance: self.endurance,
            }]);
        }
        range("areas", self.areas.len(), 1, AREAS)?;
        let given = [
            ("blocks_per_die", self.blocks_per_die.is_some()),
            ("capacity", self.capacity.is_some()),
            ("bits_per_cell", self.bits_per_cell.is_some()),
            ("read_latency", self.read_latency.is_some()),
            ("program_latency", self.program_latency.is_some()),
            ("endurance", self.endurance.is_some()),
        ];
        if let Some((key, _)) = given.into_iter().find(|(_, is_given)| *is_given) {
            return Err(BuildError::at(key, "is said for each of the `areas`, not for the chip"));
        }
        for (at, area) in self.areas.iter().enumerate() {
            if area.name.is_empty() || self.areas[..at].iter().any(|other| other.name == area.name) {
                let why = format!("`{}` is not a name of its own", area.name);
                return Err(BuildError::at("areas", why));
            }
        }
        Ok(self.areas.clone())
    }

    /// One row of blocks; `first` and `first_unit` are left to the caller.
    fn area(&self, row: &AreaConfig, profile: &Profile, native: u32) -> Result<FlashArea, BuildError> {
        let bits = range("bits_per_cell", row.bits_per_cell.unwrap_or(native), 1, native)?;
        let as_slc = bits == 1 && native > 1;
        let page = self.page_size.unwrap_or(profile.page).0;
        let all = self.pages_per_block.unwrap_or(profile.pages_per_block);
        let block_pages = Ratio::new(u64::from(bits), u64::from(native)).of(u64::from(all)) as u32;
        let unit_pages = block_pages.max(1) * self.dies;
        let units = match (row.blocks_per_die, row.capacity) {
            (Some(blocks), None) => u64::from(blocks),
            (None, Some(capacity)) => capacity.0 / (u64::from(unit_pages) * page),
            _ => return Err(BuildError::at("blocks_per_die", "give either `blocks_per_die` or `capacity`")),
        };
        let key = if row.blocks_per_die.is_some() { "blocks_per_die" } else { "capacity" };
        let units = range(key, units, 1, 1_000_000)? as u32;
        let time =
            |given: Option<Span>, slc: Span, own: Span| given.unwrap_or(if as_slc { slc } else { own });
        let endurance = if as_slc { SLC_ENDURANCE } else { profile.endurance };
        Ok(FlashArea {
            name: row.name.clone(),
            bits,
            first: 0,
            first_unit: 0,
            units,
            unit_pages,
            read: time(row.read_latency, SLC_READ, profile.read),
            program: time(row.program_latency, SLC_PROGRAM, profile.program),
            endurance: row.endurance.unwrap_or(endurance),
            count: Counts::default(),
        })
    }

    fn chip(&self, cx: &BuildContext<'_>) -> Result<(Chip, Vec<FlashArea>), BuildError> {
        let profile = Profile::named(&self.profile)?;
        let native = profile.bits_per_cell().unwrap_or(4);
        let page = self.page_size.unwrap_or(profile.page).0;
        let (all, dies) = (self.pages_per_block.unwrap_or(profile.pages_per_block), self.dies);
        let rows = self.rows()?;
        let mut areas: Vec<FlashArea> = Vec::with_capacity(rows.len());
        for row in &rows {
            let mut area = self.area(row, &profile, native)?;
            if let Some(last) = areas.last() {
                (area.first, area.first_unit) = (last.end(), last.first_unit + last.units);
            }
            areas.push(area);
        }
        let bandwidth = self.channel_bandwidth.map_or(profile.channel_bytes_per_second, |b| b.0);
        let bandwidth = u128::from(bandwidth);
        let chip = Chip {
            page,
            bits: native,
            stride: all * dies,
            units: areas.iter().map(|a| a.units).sum(),
            dies,
            erase: self.erase_latency.unwrap_or(profile.erase),
            transfer: Span((u128::from(page) * 1_000_000_000).div_ceil(bandwidth) as u64),
            wears_out: self.wears_out,
            power: profile.power,
            planted: Planted {
                areas_apart: cx.planted(AREAS_APART.name),
                forgets_erases: cx.planted(FORGETS_ERASES.name),
            },
        };
        Ok((chip, areas))
    }
}

impl DeviceConfig for FlashConfig {
    fn children(&self) -> Vec<String> {
        Vec::new()
    }

    fn store(&self) -> Option<&str> {
        self.store.as_deref()
    }

    fn build(&self, cx: &BuildContext<'_>) -> Result<Box<dyn Machine>, BuildError> {
        let (chip, areas) = self.chip(cx)?;
        let unit = areas.iter().map(|a| u64::from(a.unit_pages) * chip.page).min().unwrap_or(chip.page);
        let pages = areas.last().map_or(0, FlashArea::end);
        let is_divided = !self.areas.is_empty();
        let limits = Limits {
            align: chip.page as u32,
            preferred: chip.page as u32,
            max_io: ByteLen(unit.min(1 << 20).max(chip.page)),
            erase_unit: Some(ByteLen(unit)),
            program_order: true,
            areas: areas.iter().filter(|_| is_divided).map(|a| a.shown(chip.page)).collect(),
            ..Limits::plain(ByteLen(pages * chip.page))
        };
        Ok(Box::new(Flash::new(chip, areas, limits)))
    }
}
