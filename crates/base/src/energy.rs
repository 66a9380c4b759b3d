//! What a device draws, and how its flash wears.
//!
//! Nothing is added up while the simulation runs: a machine counts operations and busy time, which it does anyway, and at
//! the end each state's time is multiplied by its power, in whole numbers. A row of an account is one state, for operations
//! by what they were for. The rows add up to the device's energy, because there is nothing else.
//!
//! Units: ns and uW give fJ; a row is rounded down to a nJ.

use crate::charge::Work;
use crate::units::Span;

/// Power in microwatts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub struct MicroWatts(pub u64);

/// Energy in nanojoules.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub struct NanoJoules(pub u64);

impl MicroWatts {
    /// The energy of so much time at this power, rounded down.
    pub fn over(self, time: u128) -> NanoJoules {
        NanoJoules(u64::try_from(time * u128::from(self.0) / 1_000_000).unwrap_or(u64::MAX))
    }
}

/// One row of an energy account.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EnergyPart {
    /// The state, for example `program` or `standby`.
    pub state: &'static str,
    /// What the operations were for; `None` for a state that nobody asked for.
    pub work: Option<Work>,
    /// Operations; 0 for a state that is not made of operations.
    pub operations: u64,
    /// Time in this state in ns, added up over all parts of the device that have it: planes, channels, dies. 0 where energy
    /// is by the event.
    pub time_ns: u128,
    /// Power of one part in this state; 0 where energy is by the event.
    pub power: MicroWatts,
    /// Its energy.
    pub energy: NanoJoules,
}

impl EnergyPart {
    /// Time in a state.
    pub fn state(state: &'static str, time_ns: u128, power: MicroWatts) -> EnergyPart {
        EnergyPart { state, work: None, operations: 0, time_ns, power, energy: power.over(time_ns) }
    }

    /// Operations of one length.
    pub fn operations(
        state: &'static str,
        work: Work,
        operations: u64,
        each: Span,
        power: MicroWatts,
    ) -> EnergyPart {
        let time_ns = u128::from(operations) * u128::from(each.0);
        EnergyPart { work: Some(work), operations, ..EnergyPart::state(state, time_ns, power) }
    }

    /// Events of which each takes so much.
    pub fn events(state: &'static str, operations: u64, each_pj: u64) -> EnergyPart {
        let nj = u128::from(operations) * u128::from(each_pj) / 1000;
        let energy = NanoJoules(u64::try_from(nj).unwrap_or(u64::MAX));
        EnergyPart { operations, energy, ..EnergyPart::state(state, 0, MicroWatts(0)) }
    }

    /// Whether the energy is the time at this power; true of events.
    pub fn is_sound(&self) -> bool {
        self.time_ns == 0 || self.energy == self.power.over(self.time_ns)
    }
}

/// RAM of a device: so much for holding the data, so much for each byte that goes in or out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RamPower {
    /// Power of one MiB.
    pub per_mib: MicroWatts,
    /// Energy of one byte written or read, in pJ.
    pub byte_pj: u64,
}

impl RamPower {
    /// DDR3L of the years 2012 to 2018: 38 mA at 1.35 V in active standby for a chip of 512 MiB, about 100 uW for a MiB, and
    /// about 50 pJ for a bit that is read or written, interface included. Figures of the class from public data
    /// sheets (4 Gbit, DDR3L-1600), not of one chip; low confidence.
    pub const DDR3L: RamPower = RamPower { per_mib: MicroWatts(100), byte_pj: 400 };

    /// The account of `bytes` of RAM over `time`, through which `moved` bytes went in or out.
    pub fn account(self, bytes: u64, moved: u64, time: Span, out: &mut Vec<EnergyPart>) {
        let power = MicroWatts((u128::from(bytes) * u128::from(self.per_mib.0) / (1 << 20)) as u64);
        out.push(EnergyPart::state("ram", u128::from(time.0), power));
        out.push(EnergyPart::events("ram bytes", moved, self.byte_pj));
    }
}

/// Flash that wears together: a drive, or a part of it with an endurance of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WearRegion {
    /// The part of the device, for example `data`.
    pub region: &'static str,
    /// Bits a cell stores.
    pub bits_per_cell: u32,
    /// Cells.
    pub cells: u64,
    /// Blocks in use.
    pub blocks: u64,
    /// Program and erase cycles a block is made for; 0 when it never ends.
    pub endurance: u32,
    /// Erases since the counters were reset.
    pub erases: u64,
    /// Erases since the device was made.
    pub erases_ever: u64,
    /// Erases of the most worn block since the device was made.
    pub erases_most: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_and_power_make_energy() {
        // 25 us at 66 mW: 1.65 uJ, within the 1 to 2 uJ of an SLC read.
        let read = EnergyPart::operations("read", Work::Read, 1, Span::from_us(25), MicroWatts(66_000));
        assert_eq!(read.energy, NanoJoules(1650));
        // A year at 10 W is 315 MJ and still fits.
        assert_eq!(MicroWatts(10_000_000).over(31_536_000_000_000_000), NanoJoules(315_360_000_000_000_000));
    }

    #[test]
    fn ram_draws_for_what_it_holds_and_for_what_passes() {
        let mut out = Vec::new();
        RamPower::DDR3L.account(64 << 20, 1_000_000, Span::from_secs(1), &mut out);
        let energy: Vec<u64> = out.iter().map(|part| part.energy.0).collect();
        // 6.4 mW for a second; a million bytes of 400 pJ.
        assert_eq!(energy, [6_400_000, 400_000]);
    }
}
