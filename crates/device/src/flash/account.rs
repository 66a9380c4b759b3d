//! What the flash draws and how it wears, from what it counts.

use super::Flash;
use nandu_base::{EnergyPart, Instant, MicroWatts, Span, Violation, WearRegion, Work};

impl Flash {
    /// Operations by kind with their length and power, and of what their time is: of the dies or of the channel.
    fn operations(&self) -> [(&'static str, Work, u64, Span, u64, bool); 5] {
        let (c, chip, p) = (&self.count, &self.chip, &self.chip.power);
        let blocks = c.erases * u64::from(chip.dies);
        [
            ("read", Work::Read, c.reads, chip.read, p.read_uw, true),
            ("program", Work::Write, c.programs, chip.program, p.program_uw, true),
            ("erase", Work::Gc, blocks, chip.erase, p.erase_uw, true),
            ("transfer", Work::Read, c.reads, chip.transfer, p.transfer_uw, false),
            ("transfer", Work::Write, c.programs, chip.transfer, p.transfer_uw, false),
        ]
    }

    /// The account from `from` to `to`. What is under way at the end counts whole.
    pub(super) fn account(&self, from: Instant, to: Instant, out: &mut Vec<EnergyPart>) {
        for (state, work, operations, each, uw, _) in self.operations() {
            if operations > 0 {
                out.push(EnergyPart::operations(state, work, operations, each, MicroWatts(uw)));
            }
        }
        let all = u128::from(to.0.saturating_sub(from.0)) * u128::from(self.chip.dies);
        let standby = all.saturating_sub(u128::from(self.die_busy.0));
        out.push(EnergyPart::state("standby", standby, MicroWatts(self.chip.power.standby_uw)));
    }

    /// Energy of operations so far, without standby, in uJ.
    pub(super) fn operations_energy_uj(&self) -> u64 {
        let each =
            |o: &(_, _, u64, Span, u64, _)| MicroWatts(o.4).over(u128::from(o.2) * u128::from(o.3 .0)).0;
        self.operations().iter().map(each).sum::<u64>() / 1000
    }

    /// I-13: the operations that draw energy take the time for which dies and channel were busy.
    pub(super) fn check_account(&self) -> Result<(), Violation> {
        let operations = self.operations();
        for (of_dies, busy, what) in [(true, self.die_busy, "dies"), (false, self.channel_busy, "channel")] {
            let taken = operations.iter().filter(|o| o.5 == of_dies);
            let taken: u128 = taken.map(|o| u128::from(o.2) * u128::from(o.3 .0)).sum();
            if taken != u128::from(busy.0) {
                let what =
                    format!("operations take {taken} ns of the {what}, which were busy for {} ns", busy.0);
                return Err(Violation { invariant: "I-13", what });
            }
        }
        Ok(())
    }

    /// All units wear as one region.
    pub(super) fn wear_region(&self) -> WearRegion {
        let (chip, dies) = (&self.chip, u64::from(self.chip.dies));
        let bits = u64::from(chip.units) * u64::from(chip.unit_pages) * chip.page * 8;
        WearRegion {
            region: "flash",
            bits_per_cell: chip.bits,
            cells: bits / u64::from(chip.bits),
            blocks: u64::from(chip.units) * dies,
            endurance: chip.endurance,
            erases: self.count.erases * dies,
            erases_ever: self.wear.iter().map(|&n| u64::from(n)).sum::<u64>() * dies,
            erases_most: self.wear.iter().copied().max().unwrap_or(0),
        }
    }
}
