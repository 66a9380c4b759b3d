//! Random lives: requests of every kind, cuts, deaths, losses of the device, failed writes and flushes.

use crate::harness::CREATE;
use crate::world::{Setup, World};
use nandu_base::{Op, Rng, Span};

fn live(setup: Setup, steps: u32) -> Result<World, String> {
    let mut rng = Rng::new(setup.seed ^ 0x5EED);
    let mut w = World::new(setup);
    let b = w.setup.block();
    let blocks = w.layout.data / 512 / b;
    w.open(CREATE).map_err(|e| e.to_string())?;
    let mut lost = false;
    for _ in 0..steps {
        let near = *rng.pick(&[0, 1024 / b.min(8), blocks / 2, blocks - 20]);
        let first = (near + rng.below(16)).min(blocks - 8) * b;
        let count = rng.between(1, 8) * b;
        match rng.below(40) {
            0..=11 => drop(w.write(first, count)),
            12..=13 => drop(w.change(Op::Write, first, count, true)),
            14..=15 => drop(w.change(Op::Trim, first, count, false)),
            16 => drop(w.change(Op::WriteZeroes, first, count, rng.below(2) == 0)),
            17..=22 => drop(w.read(first, count)),
            23..=24 => drop(w.flush()),
            25..=30 => w.run(rng.between(1, 60) as usize),
            31 => w.pass(Span::from_ms(rng.between(1, 4))),
            32 => w.disk(0).fail_writes = 1,
            33 => w.disk(0).fail_flush = true,
            34 => w.disk(0).fail_records = rng.between(1, 2) as u32,
            35 if !lost => {
                w.lose(0);
                lost = true;
            }
            36 if lost => {
                w.back(0);
                lost = false;
                w.run(500);
            }
            37 | 38 => {
                if rng.below(2) == 0 {
                    w.die()
                } else {
                    w.cut()
                }
                if std::mem::take(&mut lost) {
                    w.back(0);
                }
                w.disk(0).fail_flush = false;
                if rng.below(3) == 0 {
                    w.boot(CREATE);
                    w.run(rng.between(1, 60) as usize);
                    w.cut();
                }
                w.open(CREATE).map_err(|e| e.to_string())?;
            }
            39 if !lost && rng.below(4) == 0 => {
                w.run(2000); // what is under way ends first
                w.close();
                w.cut();
                w.open(CREATE).map_err(|e| e.to_string())?;
            }
            _ => {}
        }
        if let Some(wrong) = w.wrong.take() {
            return Err(wrong);
        }
    }
    if lost {
        w.back(0);
    }
    w.disk(0).fail_flush = false;
    w.run(100_000);
    w.read_all();
    w.check_quiet();
    w.keep_figures();
    w.close();
    w.wrong.take().map_or(Ok(()), Err)?;
    Ok(w)
}

#[test]
fn random_lives_end_well() {
    let (mut rounds, mut retaken, mut evicted) = (0, 0, 0);
    for seed in 0..60 {
        let w = live(Setup::small(seed), 300).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        rounds += w.figures["clean_rounds"];
        retaken += w.figures["retaken_regions"];
        evicted += w.figures["checksum_page_reads"];
    }
    assert!(
        rounds > 300 && retaken > 90 && evicted > 300,
        "{rounds} rounds, {retaken} retaken, {evicted} pages"
    );
}
