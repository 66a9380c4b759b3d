//! Longer legs: a mirror grows on command and not before, whatever is cut or lost meanwhile.

use crate::harness::grow::{
    self, Grows, Growth, Layouts, Then, cut_everywhere, grown, layouts, lengthen, longer, lose_everywhere,
    records, settle, take,
};
use crate::harness::{ALONE, CREATE, PLAIN};
use crate::maintenance::rested;
use crate::random::seeds;
use crate::world::{A, B, Setup, World};
use nandu_array::mirror::layout::{Layout, Superblock, read_superblock};
use nandu_base::{Admin, ByteLen, Span};

const GROW: Admin = Admin::Grow { is_equal: false };

impl Grows for Setup {
    const ZEROES: bool = false;
    const STRIDE: u64 = 1;

    fn layout_of(&self, leg: ByteLen) -> Layout {
        Layout::of(leg, self.config.common.region_size.0.trailing_zeros() as u8).expect("large enough")
    }
    fn sizes(layout: &Layout) -> (ByteLen, ByteLen) {
        (layout.leg, layout.data)
    }
    fn records_at(layout: &Layout) -> [u64; 2] {
        layout.slots
    }
    fn read_record(bytes: &[u8]) -> Option<Superblock> {
        Some(read_superblock(bytes)?.0)
    }
    fn set_data(&mut self, data: ByteLen) {
        self.data = data;
    }
    fn served_of(&self, data: ByteLen) -> ByteLen {
        data
    }
    fn is_whole(world: &mut World) -> bool {
        world.is_whole()
    }
    fn check_legs(world: &mut World) {
        world.check_equal();
    }
    fn can_miss(&self) -> Option<usize> {
        None
    }
}

fn setups(seed: u64) -> Vec<(&'static str, Growth<Setup>)> {
    let mut soiled = Setup::small(seed);
    soiled.soiled = true;
    soiled.config.common.initial_sync = nandu_array::member::InitialSync::Resync;
    let mut slow = Setup::small(seed);
    slow.slow = 30;
    let slow = slow.hetero(|h| h.max_exposed_time = Span::from_ms(1));
    let setups = [
        ("mirror", Setup::small(seed)),
        ("three legs", Setup::small(seed).three()),
        ("soiled", soiled),
        ("hetero-mirror", slow),
    ];
    setups.map(|(name, setup)| (name, of(setup))).into()
}

fn of(setup: Setup) -> Growth<Setup> {
    Growth { is_soiled: setup.soiled, setup }
}

#[test]
fn nothing_changes_before_the_command_and_all_of_it_is_served_after_it() {
    grow::grows_on_command(rested(Setup::small(70)), |_| {});
}

#[test]
fn a_mirror_that_is_not_whole_does_not_grow() {
    let why = grow::refusal_without_a_leg(rested(Setup::small(71)));
    assert!(why.contains("wait until it is healthy"), "{why}");
}

#[test]
fn a_leg_that_does_not_take_its_new_records_ends_the_growth() {
    for leg in [A, B] {
        grow::new_record_is_refused(rested(Setup::small(72)), leg);
    }
}

#[test]
fn only_the_shorter_leg_need_become_longer() {
    let mut w = rested(Setup::small(73));
    let Layouts { before, after } = layouts(&w);
    lengthen(&mut w, &after, false);
    w.admin(GROW).expect("both are longer");
    w.run(20_000);
    take(&mut w, &after);
    // One of them grows on alone, in vain, then the other one.
    let further = longer(&w, &after);
    w.lengthen(A, further[A].leg);
    assert!(w.admin(GROW).is_err());
    w.lengthen(B, further[B].leg);
    w.notices.clear();
    w.admin(GROW).expect("both are longer");
    w.run(20_000);
    assert_eq!(grown(&w), Some(further[A].data));
    assert!(records(&w, A, &before[A]).is_empty() && records(&w, A, &after[A]).is_empty());
    assert_eq!(w.wrong, None);
}

#[test]
fn a_cut_at_any_step_of_a_growth_leaves_it_as_it_was_or_grown() {
    for seed in seeds(1) {
        for (name, growth) in setups(seed) {
            for then in [Then::Start, Then::Twice] {
                let outcomes =
                    cut_everywhere(&growth, then).unwrap_or_else(|wrong| panic!("{name}: {wrong}"));
                assert!(outcomes.iter().all(|&n| n > 5), "seed {seed}: {outcomes:?}");
            }
        }
    }
}

/// The power is cut at each step, and a leg is lost with it. The other one goes on by the operator's word; then the leg is back.
fn go_on_alone_everywhere(setup: &Setup, leg: usize) -> Result<u64, String> {
    let mut went_on = 0;
    for n in 1.. {
        let told =
            |e: String| format!("seed {}, leg {leg} is lost with a cut after {n} events: {e}", setup.seed);
        let mut w = World::new(setup.clone());
        let sizes = layouts(&w);
        w.open(CREATE).map_err(|e| told(e.to_string()))?;
        w.run(20_000);
        w.fuse = Some(n);
        grow::story(&mut w, &sizes.after, setup.soiled);
        let ended = !w.is_over();
        w.cut();
        w.disk(leg).lost = true;
        settle(&mut w, &sizes);
        w.may_lose = true; // what only the lost leg had
        if w.open(ALONE).is_ok() {
            w.read_all();
            let a = w.write(40, 20);
            w.wait(&[a]);
            let f = w.flush();
            w.wait(&[f]);
            w.cut();
            w.disk(leg).lost = false;
            settle(&mut w, &sizes);
            // Its records at the place that counts may be gone: it is filled as a blank one.
            if w.open(PLAIN).is_err() {
                w.cut();
                w.open(CREATE).map_err(|e| told(e.to_string()))?;
            }
            let r = w.read(40, 20);
            w.wait(&[r]);
            went_on += u64::from(w.is_ok(r));
        }
        w.wrong.take().map_or(Ok(()), Err).map_err(told)?;
        if ended {
            break;
        }
    }
    Ok(went_on)
}

#[test]
fn what_a_leg_has_done_alone_since_a_growth_was_cut_off_counts() {
    for seed in seeds(2) {
        for leg in [A, B] {
            let went_on =
                go_on_alone_everywhere(&Setup::small(seed), leg).unwrap_or_else(|wrong| panic!("{wrong}"));
            assert!(went_on > 20, "seed {seed}, leg {leg}: {went_on}");
        }
    }
}

/// It goes on without the leg: it has taken Solo if it has served anything alone.
fn go_on_without(w: &mut World, sizes: &Layouts<Layout>) {
    w.cut();
    settle(w, sizes);
    if w.open(PLAIN).is_ok() {
        w.read_all();
        w.run(20_000);
    }
}

/// The leg comes back with the next start, or after a cut that the other one has not survived.
#[test]
fn a_leg_may_be_lost_at_any_step_of_a_growth() {
    for seed in seeds(1) {
        for (name, growth) in setups(seed) {
            let legs = growth.setup.config.legs.len();
            for (leg, dies) in (0..legs).flat_map(|leg| [(leg, false), (leg, true)]) {
                let then = |w: &mut World, _, sizes: &Layouts<Layout>| {
                    if dies {
                        go_on_without(w, sizes);
                    }
                };
                if let Err(wrong) = lose_everywhere(&growth, leg, then) {
                    panic!("{name}, dies {dies}: {wrong}");
                }
            }
        }
    }
}

/// Faults of a growth, which cuts at each of its steps find.
pub fn finds(plant: &str) -> Option<(u64, String)> {
    let is_its_own = plant == "mirror.old-records-first";
    (0..8).filter(|_| is_its_own).find_map(|seed| {
        let growth = of(Setup::small(seed).plant(plant));
        Some((seed, cut_everywhere(&growth, Then::Start).err()?))
    })
}
