//! A device that keeps its promises, as simple as can be, is never accused; one that breaks a promise now and then is.
//!
//! The device has a volatile cache: a change takes effect in the cache at a random time while it is under way, a flush
//! makes durable what was acknowledged when it came, and a cut leaves each sector at any version since the durable one.

use super::*;
use nandu_base::Rng;

const SECTORS: u64 = 24;

/// What the device does wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Lie {
    None,
    StaleRead,
    FlushDoesNothing,
    ForcedWriteIsVolatile,
    FlipsBack,
    WrongSector,
}

struct Device {
    /// Versions of each sector since the durable one, which is the first. The last is current.
    versions: Vec<Vec<Stamp>>,
    /// What lay there before a cut, for the device that flips back.
    lost: Vec<Stamp>,
    lie: Lie,
}

#[derive(Clone, Copy)]
struct Open {
    serial: u32,
    op: Op,
    flags: Flags,
    first: u64,
    count: u64,
    in_effect: bool,
}

impl Device {
    fn apply(&mut self, open: &Open) {
        for sector in open.first..open.first + open.count {
            let value = if open.op == Op::Write { Stamp::new(open.serial, sector) } else { Stamp::ZERO };
            self.versions[sector as usize].push(value);
        }
    }

    fn read(&self, open: &Open, rng: &mut Rng) -> Vec<Stamp> {
        let slip = u64::from(self.lie == Lie::WrongSector && rng.below(20) == 0);
        (open.first..open.first + open.count)
            .map(|sector| {
                let versions = &self.versions[((sector + slip) % SECTORS) as usize];
                let age = usize::from(self.lie == Lie::StaleRead && rng.below(20) == 0);
                let flips = self.lie == Lie::FlipsBack && rng.below(20) == 0;
                if flips {
                    return self.lost[sector as usize];
                }
                versions[versions.len().saturating_sub(1 + age)]
            })
            .collect()
    }

    fn make_durable(&mut self, sectors: std::ops::Range<u64>) {
        for sector in sectors {
            let versions = &mut self.versions[sector as usize];
            versions.drain(..versions.len() - 1);
        }
    }

    fn cut(&mut self, rng: &mut Rng) {
        for (versions, lost) in self.versions.iter_mut().zip(&mut self.lost) {
            *lost = *versions.last().expect("a sector has a version");
            let kept = *rng.pick(versions);
            *versions = vec![kept];
        }
    }
}

/// Runs one history; false when the oracle rejects it.
fn run(seed: u64, lie: Lie, cuts: bool) -> bool {
    let mut rng = Rng::new(seed);
    let mut bench = Bench::new(Oracle::new(ByteLen(SECTORS * SECTOR), 1));
    let mut ledger = Bench::new(Ledger::new(ByteLen(SECTORS * SECTOR)));
    let blank = vec![vec![Stamp::ZERO]; SECTORS as usize];
    let mut device = Device { versions: blank, lost: vec![Stamp::ZERO; SECTORS as usize], lie };
    let mut open: Vec<Open> = Vec::new();
    for _ in 0..400 {
        match rng.below(if cuts { 61 } else { 60 }) {
            0..=24 if open.len() < 5 => {
                let ops =
                    [Op::Read, Op::Read, Op::Read, Op::Write, Op::Write, Op::Write, Op::Trim, Op::Flush];
                let op = *rng.pick(&ops);
                let first = rng.below(SECTORS);
                let count = if op == Op::Flush { 0 } else { rng.between(1, SECTORS - first) };
                let fua = op == Op::Write && rng.below(5) == 0;
                let flags = if fua { Flags::FUA } else { Flags::NONE };
                let serial = bench.comes(op, flags, first, count);
                assert_eq!(ledger.comes(op, flags, first, count), serial);
                open.push(Open { serial, op, flags, first, count, in_effect: false });
            }
            25..=39 if !open.is_empty() => {
                let at = rng.below(open.len() as u64) as usize;
                if open[at].op.changes_data() && !open[at].in_effect {
                    open[at].in_effect = true;
                    let change = open[at];
                    device.apply(&change);
                }
            }
            60 => {
                device.cut(&mut rng);
                bench.oracle.cut();
                open.clear();
            }
            _ if open.is_empty() => {}
            _ => {
                let at = rng.below(open.len() as u64) as usize;
                let request = open.swap_remove(at);
                if request.op == Op::Read {
                    let stamps = device.read(&request, &mut rng);
                    if !bench.finds(request.serial, &stamps) {
                        return false;
                    }
                    assert!(
                        cuts || ledger.finds(request.serial, &stamps),
                        "the ledger rejects it, seed {seed}"
                    );
                    continue;
                }
                if request.op.changes_data() && !request.in_effect {
                    device.apply(&request);
                }
                if request.op == Op::Flush && lie != Lie::FlushDoesNothing {
                    // All that was acknowledged, and more: what is in effect.
                    device.make_durable(0..SECTORS);
                }
                if request.flags.has(Flags::FUA) && lie != Lie::ForcedWriteIsVolatile {
                    device.make_durable(request.first..request.first + request.count);
                }
                bench.ends(request.serial);
                ledger.ends(request.serial);
            }
        }
    }
    true
}

#[test]
fn a_device_that_keeps_its_promises_is_never_accused() {
    for seed in 0..400 {
        assert!(run(seed, Lie::None, seed % 2 == 0), "seed {seed}");
    }
}

#[test]
fn every_lie_is_found() {
    for lie in
        [Lie::StaleRead, Lie::FlushDoesNothing, Lie::ForcedWriteIsVolatile, Lie::FlipsBack, Lie::WrongSector]
    {
        let found = (0..50).filter(|&seed| !run(seed, lie, true)).count();
        assert!(found > 20, "{lie:?} is found in {found} of 50 histories");
    }
}
