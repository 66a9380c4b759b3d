//! What flash draws: operations by kind and by what they were for, and the power of each.
//!
//! The lanes add one to a counter for each operation; at the end a count times the operation's time times its power is its
//! energy. Pages of one multi-plane operation each draw what an operation of one plane draws, since each plane senses or
//! programs its own page. A die that is occupied and neither works nor transfers waits for its channel; one that is not
//! occupied stands by.
//!
//! The states account for the time of every die: array operations (those that share one counted once), transfers, waits and
//! standby add up to the time that has passed, and transfers times their length are the busy time of the channels.
//!
//! Blocks in SLC mode have operations of their own length: the lanes count them apart, and they are rows of their own. That they draw
//! the same power while they last is an assumption: the pumps are the same, the pulses fewer.
//!
//! What is not in it: the controller, the link to the host and losses of the supply. Cost: one addition to an operation.

use super::lanes::Timing;
use nandu_base::{EnergyPart, MicroWatts, Span, Work};
use schemars::JsonSchema;
use serde::Deserialize;

/// What a chip draws, for one plane that works, one transfer, or one die that does neither.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FlashPower {
    /// While a plane senses a page, in uW.
    pub read_uw: u64,
    /// While a plane programs a page, in uW.
    pub program_uw: u64,
    /// While a plane erases a block, in uW.
    pub erase_uw: u64,
    /// While a page crosses the channel, in uW, both ends.
    pub transfer_uw: u64,
    /// While a die is selected and waits for the channel, in uW.
    pub wait_uw: u64,
    /// While a die has nothing to do, in uW.
    pub standby_uw: u64,
}

/// A kind of operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(usize)]
pub(super) enum Kind {
    /// A page sensed and sent to the controller.
    Read,
    /// A page sent to the die and programmed.
    Program,
    /// A page sensed and programmed elsewhere in the die.
    Move,
    Erase,
    /// A page sensed for its record.
    Scan,
}

const KINDS: usize = 5;

/// Operations since the counters were reset.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Operations {
    by_kind: [[u64; Work::COUNT]; KINDS],
    /// Pages, or blocks, that shared the array operation of another.
    joined: [[u64; Work::COUNT]; KINDS],
    /// Planted: moves are forgotten.
    forgets_moves: bool,
}

/// What all dies did in the time of an account.
#[derive(Clone, Copy, Debug)]
pub(super) struct DieTime {
    /// Time of all dies together.
    pub all: u128,
    /// Of it, time in which they were occupied.
    pub busy: u128,
}

impl Operations {
    #[inline(always)]
    pub fn count(&mut self, kind: Kind, work: Work, pages: u64) {
        self.by_kind[kind as usize][work as usize] += pages;
    }

    /// A page shares the operation of another.
    #[inline(always)]
    pub fn join(&mut self, kind: Kind, work: Work) {
        self.joined[kind as usize][work as usize] += 1;
    }

    /// Of what was done for one work, how much shared the array operation of another.
    pub fn joined(&self, kind: Kind, work: Work) -> u64 {
        self.joined[kind as usize][work as usize]
    }

    fn all_joined(&self, kind: Kind) -> u64 {
        self.joined[kind as usize].iter().sum()
    }

    /// Pages that were moved in one operation each.
    pub fn moves(&self) -> u64 {
        self.by_kind[Kind::Move as usize].iter().sum()
    }

    /// For `verify --inject-bug`.
    pub fn forget_moves(&mut self) {
        self.forgets_moves = true;
    }

    /// Starts counting anew.
    pub fn reset(&mut self) {
        *self = Operations { forgets_moves: self.forgets_moves, ..Operations::default() };
    }

    fn of(&self, kind: Kind, work: Work) -> u64 {
        if self.forgets_moves && kind == Kind::Move {
            return 0;
        }
        self.by_kind[kind as usize][work as usize]
    }

    fn all(&self, kind: Kind) -> u64 {
        Work::ALL.iter().map(|&work| self.of(kind, work)).sum()
    }

    fn transfers(&self, work: Work, timing: &Timing) -> u64 {
        let moves = if timing.copyback { 0 } else { 2 * self.of(Kind::Move, work) };
        self.of(Kind::Read, work) + self.of(Kind::Program, work) + moves
    }

    /// Time of the dies in array operations, and time of the channels in transfers.
    fn times(&self, timing: &Timing) -> (u128, u128) {
        let time = |count: u64, each: Span| u128::from(count) * u128::from(each.0);
        let moved = self.all(Kind::Move);
        let senses =
            (self.all(Kind::Read) + self.all(Kind::Scan) + moved).saturating_sub(self.all_joined(Kind::Read));
        let programs = (self.all(Kind::Program) + moved).saturating_sub(self.all_joined(Kind::Program));
        let array = time(senses, timing.read)
            + time(programs, timing.program)
            + time(self.all(Kind::Erase).saturating_sub(self.all_joined(Kind::Erase)), timing.erase);
        let transfers = Work::ALL.iter().map(|&work| self.transfers(work, timing)).sum();
        (array, time(transfers, timing.transfer))
    }

    /// Time of the dies in array operations and of the channels in transfers, with those of `slc` mode.
    fn times_with(&self, timing: &Timing, slc: Option<(&Operations, &Timing)>) -> (u128, u128) {
        let (array, transfers) = self.times(timing);
        let (more, most) = slc.map_or((0, 0), |(operations, timing)| operations.times(timing));
        (array + more, transfers + most)
    }

    /// What breaks the account, if anything does.
    pub fn broken(
        &self,
        timing: &Timing,
        slc: Option<(&Operations, &Timing)>,
        dies_busy: Span,
        channels_busy: Span,
    ) -> Option<String> {
        let (array, transfers) = self.times_with(timing, slc);
        if transfers != u128::from(channels_busy.0) {
            return Some(format!(
                "transfers take {transfers} ns, the channels were busy for {} ns",
                channels_busy.0
            ));
        }
        (array + transfers > u128::from(dies_busy.0)).then(|| {
            format!("operations take {} ns, the dies were occupied for {} ns", array + transfers, dies_busy.0)
        })
    }

    /// What is wrong when so many pages were programmed and so many blocks erased, if anything is.
    pub fn miscounted(
        &self,
        slc: Option<(&Operations, &Timing)>,
        programmed: u64,
        erased: u64,
    ) -> Option<String> {
        let in_slc = |kind| slc.map_or(0, |(operations, _)| operations.all(kind));
        let programs = self.all(Kind::Program) + self.all(Kind::Move) + in_slc(Kind::Program);
        let differs = |what, drawn: u64, counted: u64| {
            (drawn != counted).then(|| format!("{drawn} {what} drew energy, {counted} are counted"))
        };
        let erases = self.all(Kind::Erase) + in_slc(Kind::Erase);
        differs("programs", programs, programmed).or_else(|| differs("erases", erases, erased))
    }

    /// The account, with what was done in `slc` mode in rows of its own.
    pub fn account(
        &self,
        timing: &Timing,
        slc: Option<(&Operations, &Timing)>,
        power: &FlashPower,
        dies: DieTime,
        out: &mut Vec<EnergyPart>,
    ) {
        self.rows(timing, ["read", "program", "erase"], power, out);
        if let Some((operations, timing)) = slc {
            operations.rows(timing, ["slc_read", "slc_program", "slc_erase"], power, out);
        }
        let (array, transfers) = self.times_with(timing, slc);
        let waits = dies.busy.saturating_sub(array + transfers);
        let standby = dies.all.saturating_sub(dies.busy);
        out.push(EnergyPart::state("wait", waits, MicroWatts(power.wait_uw)));
        out.push(EnergyPart::state("standby", standby, MicroWatts(power.standby_uw)));
    }

    /// The rows of operations, with the names of reads, programs and erases. A page takes as long over the channel in every mode.
    fn rows(&self, timing: &Timing, names: [&'static str; 3], power: &FlashPower, out: &mut Vec<EnergyPart>) {
        for work in Work::ALL {
            let moved = self.of(Kind::Move, work);
            let senses = self.of(Kind::Read, work) + self.of(Kind::Scan, work) + moved;
            let programs = self.of(Kind::Program, work) + moved;
            for (state, operations, each, uw) in [
                (names[0], senses, timing.read, power.read_uw),
                (names[1], programs, timing.program, power.program_uw),
                (names[2], self.of(Kind::Erase, work), timing.erase, power.erase_uw),
                ("transfer", self.transfers(work, timing), timing.transfer, power.transfer_uw),
            ] {
                if operations > 0 {
                    out.push(EnergyPart::operations(state, work, operations, each, MicroWatts(uw)));
                }
            }
        }
    }
}
