//! A map against an array: random writes, reads, trims and moves of collection over a simple flash.
//!
//! The flash here is a list of data pages with the logical page each holds and whether it counts as valid. Collection
//! asks the map about every page that it moves, as a drive does. After each turn the map must say what the array says,
//! what counts as valid must be what is mapped and what the map knows to be unsettled, and the cache must keep its bounds.
//! The short ways for cached entries must leave the map exactly as the long ones do, or as it was. For the tests of maps, of this project and of others.
//!
//! # Panics
//! All of it panics where the map is wrong.

use super::{Gather, Given, MapOp, MapOps, MapOptions, MapShape, Mapping, Tp};
use crate::address::{Lpn, Ppn};
use nandu_base::Rng;
use std::fmt::Debug;

/// Logical pages.
pub const PAGES: u32 = 60;

/// A map of eight entries in a translation page; its pages are one owner's, or of four that begin where no translation page does.
pub fn shape(is_owned: bool) -> MapShape {
    let one = MapShape::new(PAGES, 3, 3);
    match is_owned {
        true => one.owned([Some(0), Some(13), None, Some(37), Some(39)].into_iter()),
        false => one,
    }
}

/// A map with what it should say, and the flash that it lies on.
#[derive(Debug)]
pub struct World<M> {
    map: M,
    ops: MapOps,
    truth: Vec<Option<Ppn>>,
    /// Data pages: the logical page that each holds, while it counts as valid.
    flash: Vec<Option<Lpn>>,
    /// What each translation page on the flash holds, by place.
    written: Vec<Option<(Tp, Vec<u32>)>>,
    reads: u64,
    /// The flash pages kept for the logical block that is being gathered, and the next of them.
    open: Option<(std::ops::Range<usize>, usize)>,
    /// Logical blocks that were gathered.
    pub gathered: u64,
    /// Superseded pages that may count as valid at one time.
    unsettled_max: u64,
}

/// Superseded pages that may count as valid at one time.
const UNSETTLED: u32 = 30;

/// Pages of a block.
pub const BLOCK: u32 = 4;

impl<M: Mapping + Clone + Debug> World<M> {
    /// A map in which nothing is mapped yet.
    pub fn new(map: M) -> World<M> {
        let truth = vec![None; PAGES as usize];
        World {
            map,
            ops: MapOps::default(),
            truth,
            flash: Vec::new(),
            written: Vec::new(),
            reads: 0,
            open: None,
            gathered: 0,
            unsettled_max: u64::MAX,
        }
    }

    /// Carries out what the map asked for.
    fn settle(&mut self) {
        let list = self.ops.list().to_vec();
        self.ops.clear();
        for op in list {
            match op {
                MapOp::Read(tp) => {
                    let ppn = self.map.translation_page(tp).expect("only what was written is read");
                    let at = self.written[ppn.0 as usize].as_ref().expect("a place in use holds a page");
                    assert_eq!(at.0, tp);
                    self.reads += 1;
                }
                MapOp::Write(tp) => {
                    self.written.push(Some((tp, self.map.stored(tp).to_vec())));
                    let old = self.map.place(tp, Ppn(self.written.len() as u32 - 1));
                    assert!(
                        old.is_none_or(|old| self.written[old.0 as usize].take().is_some_and(|o| o.0 == tp))
                    );
                }
                MapOp::Stale(ppn) => self.invalidate(ppn),
            }
        }
    }

    fn invalidate(&mut self, ppn: Ppn) {
        let was = self.flash[ppn.0 as usize].take();
        assert!(was.is_some(), "{ppn:?} is told to be superseded twice");
    }

    /// Goes the short way where there is one, and compares it with the long one.
    fn by_either_way(
        &mut self,
        short: impl FnOnce(&mut M) -> Option<Option<Ppn>>,
        long: impl FnOnce(&mut M, &mut MapOps) -> Option<Ppn>,
    ) -> Option<Ppn> {
        let mut other = self.map.clone();
        let found = short(&mut self.map);
        if found.is_none() {
            assert_eq!(
                format!("{:?}", self.map),
                format!("{other:?}"),
                "not cached, and yet something changed"
            );
            return long(&mut self.map, &mut self.ops);
        }
        assert_eq!(found, Some(long(&mut other, &mut self.ops)));
        assert_eq!(format!("{:?}", self.map), format!("{other:?}"), "the two ways differ");
        assert!(self.ops.list().is_empty(), "a cached entry needs no step");
        found.flatten()
    }

    fn program(&mut self, lpn: Lpn) -> Ppn {
        self.flash.push(Some(lpn));
        Ppn(self.flash.len() as u32 - 1)
    }

    /// Writes the page, or trims it, without looking at the map as a whole.
    pub fn update(&mut self, lpn: Lpn, writes: bool) {
        let to = writes.then(|| self.program(lpn));
        let short = |map: &mut M| to.and_then(|to| map.update_cached(lpn, to));
        let old = self.by_either_way(short, |map, ops| map.update(lpn, to, ops));
        self.settle();
        if let Some(old) = old {
            self.invalidate(old);
        }
        self.truth[lpn.0 as usize] = to;
    }

    /// Collects one page that counts as valid.
    fn collect(&mut self, from: u32) {
        let count = self.flash.len();
        let may_be = |&p: &usize| {
            self.flash[p].is_some() && !self.open.as_ref().is_some_and(|(pages, _)| pages.contains(&p))
        };
        let Some(ppn) = (0..count).map(|i| (from as usize + i) % count).find(may_be) else {
            return;
        };
        let (lpn, ppn) = (self.flash[ppn].expect("found as valid"), Ppn(ppn as u32));
        let live = self.map.is_live(lpn, ppn, &mut self.ops);
        self.settle();
        assert_eq!(live, self.truth[lpn.0 as usize] == Some(ppn), "{lpn:?} at {ppn:?}");
        assert_eq!(live, self.flash[ppn.0 as usize].is_some(), "what is not live is told to be stale");
        if live {
            let to = self.program(lpn);
            self.invalidate(ppn);
            self.map.relocate(lpn, to, &mut self.ops);
            self.settle();
            self.truth[lpn.0 as usize] = Some(to);
        }
    }

    /// Copies one page of a logical block that the map wants in one block.
    fn gather(&mut self) {
        if self.open.is_none() {
            if self.map.wants_gathered().is_none() || !self.map.start_gathering(&mut self.ops) {
                return self.settle();
            }
            self.settle();
            let first = self.flash.len().next_multiple_of(BLOCK as usize);
            self.flash.resize(first + BLOCK as usize, None);
            self.open = Some((first..first + BLOCK as usize, first));
        }
        let Some((pages, next)) = self.open.take() else { return };
        match self.map.gather() {
            Gather::Page(lpn) => {
                let from = self.truth[lpn.0 as usize].expect("only mapped pages are gathered");
                let to = Ppn(next as u32);
                self.flash[next] = Some(lpn);
                self.invalidate(from);
                self.map.relocate(lpn, to, &mut self.ops);
                self.truth[lpn.0 as usize] = Some(to);
                self.open = Some((pages, next + 1));
            }
            Gather::Done => {
                self.map.end_gathering(Some(Ppn(pages.start as u32)), &mut self.ops);
                self.gathered += 1;
            }
            Gather::Broken => self.map.end_gathering(None, &mut self.ops),
        }
        self.settle();
    }

    fn check(&self) {
        self.map.check().unwrap();
        for (lpn, &want) in (0..).map(Lpn).zip(&self.truth) {
            assert_eq!(self.map.get(lpn), want, "{lpn:?}");
        }
        let valid = self.flash.iter().flatten().count() as u64;
        let mapped = self.truth.iter().flatten().count() as u64;
        assert_eq!(valid, mapped + self.map.unsettled());
        assert!(self.map.unsettled() <= self.unsettled_max, "{} pages are unsettled", self.map.unsettled());
        for tp in (0..self.map.translation_pages()).map(Tp) {
            let held = self
                .map
                .translation_page(tp)
                .map(|p| self.written[p.0 as usize].as_ref().unwrap().1.as_slice());
            assert!(
                held.is_none_or(|held| *held == *self.map.stored(tp)),
                "{tp:?} on the flash is not what the map thinks"
            );
        }
    }

    /// A loss of power: what is in RAM is gone, and recovery says where each page lies.
    fn restart(&mut self) {
        self.map.reset();
        self.found();
    }

    /// Other owners of the logical pages, as many as before; it begins as after a start.
    fn change_owners(&mut self, first: u32) {
        let firsts = [Some(0), None, Some(first.max(1)), Some(first + 2), None];
        if self.map.store().is_some_and(|store| store.shape.owners() == 5) {
            self.map.set_owners(&firsts);
            self.found();
        }
    }

    /// What a start finds is entered: all pages, and a translation page for all of them.
    fn found(&mut self) {
        self.open = None;
        for (place, held) in (0..).map(Ppn).zip(&mut self.flash) {
            let is_newest = held.is_some_and(|lpn| self.truth[lpn.0 as usize] == Some(place));
            *held = held.filter(|_| is_newest);
        }
        for (lpn, place) in (0..).map(Lpn).zip(&self.truth) {
            let was = match *place {
                Some(place) => self.map.set(lpn, place),
                None => self.map.clear(lpn),
            };
            assert_eq!(was, None, "{lpn:?} is known after a loss of power");
        }
        self.written.iter_mut().for_each(|written| *written = None);
        for tp in (0..self.map.translation_pages()).map(Tp) {
            if !self.map.span(tp).is_empty() {
                self.written.push(Some((tp, self.map.stored(tp).to_vec())));
                let old = self.map.place(tp, Ppn(self.written.len() as u32 - 1));
                assert_eq!(old, None, "{tp:?} has a place after a loss of power");
            }
        }
    }

    fn run_of_updates(&mut self, pages: std::ops::Range<u32>) {
        self.map.begin(Lpn(pages.end));
        pages.for_each(|lpn| self.update(Lpn(lpn), true));
        self.map.begin(Lpn(0));
    }

    /// One turn: what is done (0 to 17), with which page, from where on collection looks.
    pub fn turn(&mut self, (what, lpn, place): (u8, u32, u32)) {
        let lpn = lpn % PAGES;
        match what {
            0..=3 => self.update(Lpn(lpn), true),
            4 => self.update(Lpn(lpn), false),
            // All entries of a translation page, in order.
            5 => self.run_of_updates(lpn & !7..((lpn & !7) + 8).min(PAGES)),
            6 | 10..=12 => {
                let lpn = Lpn(lpn);
                self.map.begin(Lpn(lpn.0 + 1));
                let at = self.by_either_way(|map| map.lookup_cached(lpn), |map, ops| map.lookup(lpn, ops));
                self.settle();
                assert_eq!(at, self.truth[lpn.0 as usize], "lookup of {}", lpn.0);
            }
            7..=9 if !self.flash.is_empty() => self.collect(place),
            13..=15 => self.gather(),
            16 => self.restart(),
            17 => self.change_owners(lpn),
            _ => {}
        }
        self.check();
    }

    /// All is written back, and on the flash.
    pub fn finish(mut self) {
        if self.map.store().is_none() {
            return;
        }
        self.map.write_back_all(&mut self.ops);
        self.settle();
        self.check();
        for (lpn, want) in (0..).map(Lpn).zip(&self.truth) {
            let tp = self.map.tp(lpn);
            let word = self.map.stored(tp)[(lpn.0 - self.map.span(tp).start) as usize];
            assert_eq!(word.checked_sub(1).map(Ppn), *want, "{lpn:?} on the flash");
        }
        let c = self.map.counts();
        assert!(c.loads + c.fills <= self.reads, "every load is a read: {c:?}");
        assert!(c.misses >= c.loads);
    }
}

/// So many turns.
pub fn turns<M: Mapping + Clone + Debug>(map: M, turns: &[(u8, u32, u32)]) {
    let mut world = World::new(map);
    turns.iter().for_each(|&turn| world.turn(turn));
    world.finish();
}

/// The map of `options` in 200 turns that `seed` draws, with pages of one owner and of several. What is wrong says the seed.
pub fn run<C: MapOptions>(options: &C, seed: u64)
where
    C::Map: Clone + Debug,
{
    for is_owned in [false, true] {
        let mut rng = Rng::new(seed).fork(u64::from(is_owned));
        let drawn = (0..200).map(|_| (rng.below(18) as u8, rng.below(60) as u32, rng.below(4000) as u32));
        let drawn: Vec<_> = drawn.collect();
        let shape = shape(is_owned);
        let given = Given { shape, block_pages: BLOCK, unsettled_max: UNSETTLED, seed, planted: &|_| false };
        let map = options.build(given).unwrap_or_else(|error| panic!("{options:?}: {error}"));
        assert!(map.gathers() || !options.gathers(), "a map that gathers says so");
        assert_eq!(
            options.paged().is_some(),
            map.store().is_some(),
            "a map on the flash, and no other, says how it is paged"
        );
        let mut world = World::new(map);
        world.unsettled_max = UNSETTLED.into();
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            drawn.iter().for_each(|&turn| world.turn(turn));
            world.finish();
        }));
        assert!(
            done.is_ok(),
            "{options:?} is wrong, seed {seed}, pages of {} owner",
            if is_owned { "more than one" } else { "one" }
        );
    }
}
