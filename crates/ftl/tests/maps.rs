//! Every demand-paged map against an array ([`nandu_ftl::mapping::conformance`]), with settings of all kinds.

use nandu_base::options::{Described, Options};
use nandu_base::{BuildError, ByteLen, Ratio};
use nandu_ftl::mapping::conformance::{self, BLOCK, World, shape};
use nandu_ftl::mapping::{
    Cftl, CftlConfig, CleanFirst, Dftl, DftlConfig, Given, Invalidation, InvalidationConfig, Leaftl,
    LeaftlConfig, MapOps, MapOptions, Mapping, PageMap, PageMapConfig, PagedOptions, Sftl, SftlConfig,
    SwitchSettings, SwitchingConfig, Tpc, TpcConfig, TpcSettings, Tpftl, TpftlConfig, WholeSettings,
};
use nandu_ftl::{Lpn, Ppn};
use proptest::prelude::*;

/// Maps as stack files name them, with caches for a few entries.
#[test]
fn every_map_by_its_options() {
    let paged = |ram| PagedOptions { cmt_size: ByteLen(ram), ..PagedOptions::default() };
    for seed in 0..30 {
        conformance::run(&PageMapConfig {}, seed);
        for ram in [44, 90, 150] {
            let paged = paged(ram);
            conformance::run(&DftlConfig { paged, protected_share: Ratio::new(seed % 4, 4) }, seed);
            conformance::run(&TpftlConfig { paged }, seed);
            if ram > 88 {
                conformance::run(&LeaftlConfig { paged }, seed);
            }
            conformance::run(&SftlConfig { paged, dirty_buffer_share: Ratio::new(seed % 3, 4) }, seed);
            let switching = SwitchingConfig::ByAccess { reads: 2, writes: 1, pages: 1 };
            let switching = if seed % 2 == 0 { SwitchingConfig::Never } else { switching };
            conformance::run(&CftlConfig { paged, switching }, seed);
            let invalidation =
                if seed % 6 == 0 { InvalidationConfig::AtRead } else { InvalidationConfig::default() };
            let clean_first_window = Ratio::new(1 + seed % 2, 2);
            conformance::run(
                &TpcConfig { paged, delayed_read: seed % 2 == 0, invalidation, clean_first_window },
                seed,
            );
        }
    }
}

/// A map that is wrong is found, whoever wrote it.
#[test]
#[should_panic(expected = "is wrong, seed 1, pages of one owner")]
fn a_map_that_forgets_moves_is_found() {
    conformance::run(&Wrong::ForgetsMoves, 1);
}

#[test]
#[should_panic(expected = "is wrong, seed 1, pages of one owner")]
fn a_map_that_outlives_a_loss_of_power_is_found() {
    conformance::run(&Wrong::KeepsItsRam, 1);
}

/// Page maps that are wrong in one way each.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Wrong {
    ForgetsMoves,
    KeepsItsRam,
}

impl Options for Wrong {
    fn declared() -> Vec<Described> {
        Vec::new()
    }

    fn check_ranges(&self) -> Result<(), BuildError> {
        Ok(())
    }
}

impl MapOptions for Wrong {
    type Map = WrongMap;

    fn build(&self, given: Given<'_>) -> Result<WrongMap, BuildError> {
        Ok(WrongMap(PageMap::new(given.shape.pages), *self))
    }
}

#[derive(Clone, Debug)]
struct WrongMap(PageMap, Wrong);

impl Mapping for WrongMap {
    fn get(&self, lpn: Lpn) -> Option<Ppn> {
        self.0.get(lpn)
    }

    fn set(&mut self, lpn: Lpn, ppn: Ppn) -> Option<Ppn> {
        self.0.set(lpn, ppn)
    }

    fn clear(&mut self, lpn: Lpn) -> Option<Ppn> {
        self.0.clear(lpn)
    }

    fn reset(&mut self) {
        if self.1 != Wrong::KeepsItsRam {
            self.0.reset();
        }
    }

    fn prefetch(&self, _: Lpn) {}

    fn relocate(&mut self, lpn: Lpn, to: Ppn, _: &mut MapOps) {
        if self.1 != Wrong::ForgetsMoves {
            self.0.set(lpn, to);
        }
    }

    fn ram(&self) -> u64 {
        self.0.ram()
    }
}

/// All turns but those of gathering.
fn turn() -> impl Strategy<Value = u8> {
    prop_oneof![12 => 0u8..10, 1 => 16u8..18]
}

fn turns() -> impl Strategy<Value = Vec<(u8, u32, u32)>> {
    prop::collection::vec((turn(), 0u32..60, 0u32..4000), 1..150)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn dftl(turns in turns(), ram in 16u64..200, is_owned in any::<bool>()) {
        conformance::turns(Dftl::new(shape(is_owned), ram), &turns);
        conformance::turns(Dftl::new(shape(is_owned), ram).with_protected(5), &turns);
    }

    #[test]
    fn cftl(turns in turns(), ram in 24u64..200, is_owned in any::<bool>()) {
        conformance::turns(Cftl::new(shape(is_owned), ram, BLOCK, None), &turns);
    }

    #[test]
    fn cftl_that_switches(
        turns in prop::collection::vec((0u8..18, 0u32..60, 0u32..4000), 1..250),
        ram in 24u64..200,
        reads in 1u16..4,
        writes in 0u16..3,
        is_owned in any::<bool>(),
    ) {
        // Few logical blocks, so that one of them is read again and again.
        let turns: Vec<_> = turns.into_iter().map(|(what, lpn, place)| (what, lpn % 20, place)).collect();
        let settings = SwitchSettings { reads, writes, pages: 1, keeps_overwritten: false };
        conformance::turns(Cftl::new(shape(is_owned), ram, BLOCK, Some(settings)), &turns);
    }

    #[test]
    fn tpftl(turns in turns(), ram in 14u64..200, is_owned in any::<bool>()) {
        conformance::turns(Tpftl::new(shape(is_owned), ram), &turns);
    }

    #[test]
    fn sftl(turns in turns(), pages in 1u64..5, buffer in 0u64..9, is_owned in any::<bool>()) {
        let settings = WholeSettings { ram: 40 * pages + 8 * buffer, buffer, forgets_buffer: false };
        conformance::turns(Sftl::new(shape(is_owned), settings), &turns);
    }

    #[test]
    fn leaftl(turns in turns(), ram in 88u64..400, is_owned in any::<bool>()) {
        let settings = WholeSettings { ram, buffer: 0, forgets_buffer: false };
        conformance::turns(Leaftl::new(shape(is_owned), settings), &turns);
    }

    #[test]
    fn tpc(
        turns in turns(),
        slots in 1u64..6,
        delayed_read in any::<bool>(),
        at_read in any::<bool>(),
        window in 0u32..4,
        unknown_max in 0u32..40,
        is_owned in any::<bool>(),
    ) {
        let settings = TpcSettings {
            ram: slots * 44,
            delayed_read,
            invalidation: if at_read { Invalidation::AtRead } else { Invalidation::AtCollection },
            clean_first_window: if window == 0 { CleanFirst::All } else { CleanFirst::Window(window) },
            unknown_max,
            skip_fill: false,
        };
        conformance::turns(Tpc::new(shape(is_owned), settings), &turns);
    }
}

/// What the test of switching is about does happen in it.
#[test]
fn a_block_that_is_read_is_gathered() {
    let settings = SwitchSettings { reads: 2, writes: 4, pages: 1, keeps_overwritten: false };
    let mut world = World::new(Cftl::new(shape(false), 60, BLOCK, Some(settings)));
    [3, 2, 1, 0].iter().for_each(|&lpn| world.turn((0, lpn, 0)));
    (0..4).for_each(|_| world.turn((6, 1, 0)));
    (0..6).for_each(|_| world.turn((13, 0, 0)));
    assert_eq!(world.gathered, 1);
    world.finish();
}

/// And it bites: a block whose copies were overwritten must not become one entry.
#[test]
#[should_panic(expected = "Lpn(1)")]
fn an_overwritten_copy_is_found() {
    let settings = SwitchSettings { reads: 2, writes: 9, pages: 1, keeps_overwritten: true };
    let mut world = World::new(Cftl::new(shape(false), 60, BLOCK, Some(settings)));
    [3, 2, 1, 0].iter().for_each(|&lpn| world.turn((0, lpn, 0)));
    (0..4).for_each(|_| world.turn((6, 1, 0)));
    (0..3).for_each(|_| world.turn((13, 0, 0)));
    world.turn((0, 1, 0));
    (0..3).for_each(|_| world.turn((13, 0, 0)));
}

/// The test bites: a map that loses the entries which a delayed read should have loaded is found.
#[test]
#[should_panic(expected = "lookup of 1")]
fn a_skipped_fill_is_found() {
    let settings = TpcSettings {
        ram: 44,
        delayed_read: true,
        invalidation: Invalidation::AtCollection,
        clean_first_window: CleanFirst::All,
        unknown_max: 40,
        skip_fill: true,
    };
    // Write 1, let its translation page go, write 0 without reading it, look 1 up.
    let mut world = World::new(Tpc::new(shape(false), settings));
    for lpn in [1, 8, 0] {
        world.update(Lpn(lpn), true);
    }
    world.turn((6, 1, 0));
}

/// The test bites: a map that forgets the changes which wait in its buffer is found.
#[test]
#[should_panic(expected = "lookup of 1")]
fn a_forgotten_buffer_is_found() {
    let settings = WholeSettings { ram: 56, buffer: 2, forgets_buffer: true };
    // Write 1, let its translation page go, read a neighbour, look 1 up.
    let mut world = World::new(Sftl::new(shape(false), settings));
    for lpn in [1, 8, 2] {
        world.update(Lpn(lpn), true);
    }
    world.turn((6, 1, 0));
}
