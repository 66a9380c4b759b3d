//! Areas of a chip: rows of erase units whose cells hold the same number of bits.
//!
//! A chip without `areas` is one area. Addresses of areas follow each other without a gap, though a unit of fewer bits is
//! shorter; cells are numbered by their place on the chip, where every unit is as long as one with all bits in use. So the
//! medium knows nothing of modes, and a unit keeps its cells whatever its mode.

use super::Chip;
use nandu_base::{ByteLen, ByteOffset, EnergyPart, MicroWatts, Span, WearRegion, Work};

/// Names by the bits that a cell holds: of the mode, and of its operations in an account.
const MODES: [&str; 4] = ["slc", "mlc", "tlc", "qlc"];
const READS: [&str; 4] = ["slc read", "mlc read", "tlc read", "qlc read"];
const PROGRAMS: [&str; 4] = ["slc program", "mlc program", "tlc program", "qlc program"];
const ERASES: [&str; 4] = ["slc erase", "mlc erase", "tlc erase", "qlc erase"];

/// What happened in an area since the counters were reset.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Counts {
    pub reads: u64,
    pub programs: u64,
    pub erases: u64,
}

/// Erase units in one mode.
#[derive(Clone, Debug)]
pub(super) struct FlashArea {
    pub name: String,
    pub bits: u32,
    /// Its first page, by address.
    pub first: u64,
    pub first_unit: u32,
    pub units: u32,
    pub unit_pages: u32,
    pub read: Span,
    pub program: Span,
    pub endurance: u32,
    pub count: Counts,
}

/// Where a page lies.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spot {
    pub area: usize,
    pub unit: usize,
    /// Page of the unit.
    pub at: u32,
    pub die: usize,
    /// Page of the medium.
    pub cell: u64,
}

impl FlashArea {
    /// One past its last page, by address.
    pub fn end(&self) -> u64 {
        self.first + u64::from(self.units) * u64::from(self.unit_pages)
    }

    /// What its parents see of it.
    pub fn shown(&self, page: u64) -> nandu_base::Area {
        nandu_base::Area {
            name: self.name.clone(),
            offset: ByteOffset(self.first * page),
            len: ByteLen((self.end() - self.first) * page),
            erase_unit: ByteLen(u64::from(self.unit_pages) * page),
        }
    }

    /// The time that its operations took of the dies, and the pages that crossed the channel.
    pub fn work(&self, chip: &Chip) -> (u128, u64) {
        let c = &self.count;
        let time = |n: u64, each: Span| u128::from(n) * u128::from(each.0);
        let array = time(c.reads, self.read)
            + time(c.programs, self.program)
            + time(c.erases * u64::from(chip.dies), chip.erase);
        (array, c.reads + c.programs)
    }

    /// Its operations in the account of the chip. `alone` when the chip has no other area.
    pub fn account(&self, chip: &Chip, alone: bool, out: &mut Vec<EnergyPart>) {
        let (c, p, mode) = (&self.count, &chip.power, self.bits as usize - 1);
        let name = |names: [&'static str; 4], plain| if alone { plain } else { names[mode] };
        let erases = c.erases * u64::from(chip.dies);
        for (state, work, count, each, uw) in [
            (name(READS, "read"), Work::Read, c.reads, self.read, p.read_uw),
            (name(PROGRAMS, "program"), Work::Write, c.programs, self.program, p.program_uw),
            (name(ERASES, "erase"), Work::Gc, erases, chip.erase, p.erase_uw),
            ("transfer", Work::Read, c.reads, chip.transfer, p.transfer_uw),
            ("transfer", Work::Write, c.programs, chip.transfer, p.transfer_uw),
        ] {
            if count > 0 {
                out.push(EnergyPart::operations(state, work, count, each, MicroWatts(uw)));
            }
        }
    }

    /// How it wears; `wear` has the erases of each unit of the chip.
    pub fn wear(&self, chip: &Chip, wear: &[u32]) -> WearRegion {
        let own = &wear[self.first_unit as usize..(self.first_unit + self.units) as usize];
        let dies = u64::from(chip.dies);
        let ever: u64 = own.iter().map(|&n| u64::from(n)).sum();
        let bytes = u64::from(self.units) * u64::from(chip.stride) * chip.page;
        WearRegion {
            region: MODES[self.bits as usize - 1],
            bits_per_cell: self.bits,
            cells: bytes * 8 / u64::from(chip.bits),
            blocks: u64::from(self.units) * dies,
            endurance: self.endurance,
            erases: self.count.erases * dies,
            erases_ever: ever * dies,
            erases_most: own.iter().copied().max().unwrap_or(0),
        }
    }
}

/// Where page `page` of a chip lies.
#[inline]
pub(super) fn place(areas: &[FlashArea], chip: &Chip, page: u64) -> Spot {
    let area = match areas {
        [_] => 0,
        many => many.partition_point(|a| a.end() <= page),
    };
    let a = &areas[area];
    let (from, unit_pages) = (page - a.first, u64::from(a.unit_pages));
    let (unit, at) = (u64::from(a.first_unit) + from / unit_pages, (from % unit_pages) as u32);
    let cell = unit * u64::from(chip.stride) + u64::from(at);
    Spot { area, unit: unit as usize, at, die: (at % chip.dies) as usize, cell }
}
