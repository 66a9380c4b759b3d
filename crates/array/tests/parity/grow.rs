//! Longer legs: a parity array grows on command and not before, whatever is cut or lost meanwhile.

use crate::harness::grow::{
    self, BEYOND, Grows, Growth, Layouts, NEW, Then, cut_everywhere, grown, layouts, lengthen, longer,
    lose_everywhere, records, take,
};
use crate::harness::{CREATE, PLAIN};
use crate::random::seeds;
use crate::world::{Setup, World};
use nandu_array::member;
use nandu_array::parity::WriteHole;
use nandu_array::parity::layout::{LegLayout, Superblock};
use nandu_base::{Admin, ByteLen};

const GROW: Admin = Admin::Grow { is_equal: false };

impl Grows for Setup {
    const ZEROES: bool = true;
    const STRIDE: u64 = 8;

    fn layout_of(&self, leg: ByteLen) -> LegLayout {
        let chunk = self.config.chunk().0;
        LegLayout::of(leg, self.slots(), chunk, chunk).expect("large enough")
    }
    fn sizes(layout: &LegLayout) -> (ByteLen, ByteLen) {
        (layout.leg, ByteLen(layout.data))
    }
    fn records_at(layout: &LegLayout) -> [u64; 2] {
        layout.superblocks
    }
    fn read_record(bytes: &[u8]) -> Option<member::Superblock> {
        Some(Superblock::read(bytes)?.0.head)
    }
    fn set_data(&mut self, data: ByteLen) {
        self.data = data;
    }
    fn served_of(&self, data: ByteLen) -> ByteLen {
        ByteLen(data.0 * (self.config.legs.len() as u64 - 1))
    }
    fn is_whole(world: &mut World) -> bool {
        world.is_full()
    }
    fn check_legs(world: &mut World) {
        world.check_parity();
    }
    fn can_miss(&self) -> Option<usize> {
        let legs = self.config.legs.len() as u64;
        (self.config.write_hole == WriteHole::Journal).then(|| (self.seed % legs) as usize)
    }
}

fn setups(seed: u64) -> Vec<(&'static str, Growth<Setup>)> {
    let mut resync = Setup::small(seed);
    resync.config.write_hole = WriteHole::Resync;
    let slow = Setup { slow: 20, ..Setup::small(seed) };
    let setups = [("holes", Setup::small(seed), false), ("soiled", slow, true), ("no journal", resync, true)];
    setups.map(|(name, setup, is_soiled)| (name, Growth { setup, is_soiled })).into()
}

fn rested(setup: Setup) -> World {
    let mut w = World::new(setup);
    w.open(CREATE).expect("a new array");
    w.run(20_000);
    w
}

#[test]
fn nothing_changes_before_the_command_and_all_of_it_is_served_after_it() {
    grow::grows_on_command(rested(Setup::small(70)), |w| {
        // A leg that is longer than it says goes and comes back.
        w.lose(0);
        w.back(0);
        w.run(50_000);
        assert!(w.is_full());
    });
}

#[test]
fn an_array_that_is_not_healthy_does_not_grow() {
    let why = grow::refusal_without_a_leg(rested(Setup::small(71)));
    assert!(why.contains("it is not healthy"), "{why}");
}

#[test]
fn a_leg_that_does_not_take_its_new_record_ends_the_growth() {
    for leg in 0..3 {
        grow::new_record_is_refused(rested(Setup::small(72)), leg);
    }
}

#[test]
fn only_the_shorter_legs_need_become_longer() {
    let mut w = rested(Setup::small(73));
    let Layouts { before, after } = layouts(&w);
    let further = longer(&w, &after);
    // One leg is longer than the others; then it has room already.
    let uneven = [further[0], after[1], after[2]];
    lengthen(&mut w, &uneven, true);
    w.admin(GROW).expect("all are longer");
    w.run(20_000);
    assert_eq!(grown(&w), Some(grow::served(&w, &after)));
    take(&mut w, &uneven);
    let a = w.write(BEYOND, 20);
    w.wait(&[a]);
    lengthen(&mut w, &[further[0], further[1], after[2]], true);
    assert!(w.admin(GROW).is_err());
    lengthen(&mut w, &further, true);
    w.notices.clear();
    w.admin(GROW).expect("all are longer");
    w.run(20_000);
    assert_eq!(grown(&w), Some(grow::served(&w, &further)));
    assert!(records(&w, 1, &before[1]).is_empty() && records(&w, 1, &after[1]).is_empty());
    take(&mut w, &further);
    let whole = w.read(NEW, w.sectors() - NEW);
    w.wait(&[whole]);
    w.run(20_000);
    w.check_parity();
    w.cut();
    w.open(PLAIN).expect("it keeps its size");
    w.read_all();
    assert_eq!(w.wrong, None);
}

#[test]
fn a_cut_at_many_steps_of_a_growth_leaves_it_as_it_was_or_grown() {
    for seed in seeds(2) {
        for (name, growth) in setups(seed) {
            for then in [Then::Start, Then::Twice, Then::Without] {
                if then == Then::Without && growth.setup.config.write_hole == WriteHole::Resync {
                    continue;
                }
                let outcomes =
                    cut_everywhere(&growth, then).unwrap_or_else(|wrong| panic!("{name}: {wrong}"));
                assert!(outcomes.iter().all(|&n| n > 5), "seed {seed}: {outcomes:?}");
            }
        }
    }
}

/// The leg is back before a cut or with the start after it. Without a journal the array does not promise to bear a loss together with a cut.
#[test]
fn a_leg_may_be_lost_at_many_steps_of_a_growth() {
    for seed in seeds(2) {
        for (name, growth) in setups(seed) {
            let needs_all = growth.setup.config.write_hole == WriteHole::Resync;
            for leg in 0..growth.setup.config.legs.len() {
                let then = |w: &mut World, n, _: &Layouts<LegLayout>| {
                    if n % 2 == 0 || needs_all {
                        w.back(leg);
                        w.run(50_000);
                        w.check_parity();
                    }
                };
                if let Err(wrong) = lose_everywhere(&growth, leg, then) {
                    panic!("{name}: {wrong}");
                }
            }
        }
    }
}

/// Faults of a growth, which cuts at each of its steps find.
pub fn finds(plant: &str) -> Option<String> {
    let is_its_own = plant.starts_with("parity.grown-");
    (0..8).filter(|_| is_its_own).find_map(|seed| {
        let growth = Growth { setup: Setup::small(seed).plant(plant), is_soiled: true };
        cut_everywhere(&growth, Then::Start).err()
    })
}
