//! The maps against an obvious slow one: a list of which version each page has, and flash that keeps versions in order.

use super::recover::{Block, Mark, Page, rebuild};
use super::*;
use nandu_base::Rng;
use std::collections::BTreeMap;

/// Flash: what each page was programmed with, in the order that flash demands.
struct Flash {
    shape: Shape,
    pages: BTreeMap<u32, (Tag, u64, u64)>,
    marks: BTreeMap<u32, Vec<u32>>,
    seq: u64,
}

impl Flash {
    fn program(&mut self, taken: Taken, value: u64) {
        let position = taken.spot & ((1 << self.shape.page_bits()) - 1);
        assert!(position == 0 || self.pages.contains_key(&(taken.spot - 1)), "pages are programmed in order");
        self.seq += 1;
        let before = self.pages.insert(taken.spot, (taken.tag, self.seq, value));
        assert!(before.is_none(), "page {} is programmed twice", taken.spot);
    }

    fn erase(&mut self, block: u32) {
        let (first, end) = (block << self.shape.page_bits(), (block + 1) << self.shape.page_bits());
        self.pages.retain(|spot, _| !(first..end).contains(spot));
        self.marks.retain(|spot, _| !(first..end).contains(spot));
    }

    fn blocks(&self) -> Vec<Block> {
        let bits = self.shape.page_bits();
        let pages = |block: u32| {
            let range = block << bits..(block + 1) << bits;
            self.pages.range(range).map(|(_, &(tag, seq, _))| Page::Tagged(tag, seq)).collect()
        };
        let blocks = 0..self.shape.blocks;
        blocks.map(|block| Block { block, pages: pages(block) }).collect()
    }

    fn found_marks(&self) -> Vec<Mark> {
        let bits = self.shape.page_bits();
        let mark = |(&spot, pages): (&u32, &Vec<u32>)| Mark {
            block: spot >> bits,
            seq: self.pages[&spot].1,
            pages: pages.clone(),
        };
        self.marks.iter().map(mark).collect()
    }
}

struct World {
    map: Box<dyn LogBlocks>,
    flash: Flash,
    /// What each logical page must hold; 0 for unmapped.
    model: Vec<u64>,
    /// What it may hold beside that, while a trim is under way.
    value: u64,
}

const SHAPE: Shape = Shape { pages: 8, blocks: 13, logical: 7 };

fn maps() -> Vec<(&'static str, Box<dyn LogBlocks>)> {
    let region = || Region::new(SHAPE);
    vec![
        ("block map", Box::new(BlockMap::new(region(), 1))),
        ("block map, 3 open", Box::new(BlockMap::new(region(), 3))),
        ("bast", Box::new(Bast::new(region(), 4, false))),
        ("bast, one log", Box::new(Bast::new(region(), 1, false))),
        ("bast, borrowing", Box::new(Bast::new(region(), 2, true))),
        ("fast", Box::new(Fast::new(region(), 4, true, false))),
        ("fast, random only", Box::new(Fast::new(region(), 2, false, false))),
        ("fast, borrowing", Box::new(Fast::new(region(), 2, true, true))),
    ]
}

impl World {
    fn new(map: Box<dyn LogBlocks>) -> World {
        let shape = map.region().shape();
        let flash = Flash { shape, pages: BTreeMap::new(), marks: BTreeMap::new(), seq: 0 };
        World { map, flash, model: vec![0; (shape.pages * shape.logical) as usize], value: 0 }
    }

    /// Does the next step of the merge; false when there is none.
    fn step(&mut self) -> bool {
        match self.map.step() {
            None => return false,
            Some(Step::Copy { from, to }) => {
                let value = self.flash.pages[&from].2;
                self.flash.program(to, value);
            }
            Some(Step::Filler(to)) => self.flash.program(to, 0),
            Some(Step::Erase(block)) => self.flash.erase(block),
        }
        true
    }

    /// Writes a page. `steps_left` operations are done before the power goes; false when it has gone.
    fn write(&mut self, page: u32, steps_left: &mut u32) -> bool {
        loop {
            if *steps_left == 0 {
                return false;
            }
            *steps_left -= 1;
            if let Some(taken) = self.map.take(page) {
                self.value += 1;
                self.flash.program(taken, self.value);
                self.model[page as usize] = self.value;
                return true;
            }
            if !self.merge(steps_left) {
                return false;
            }
        }
    }

    fn merge(&mut self, steps_left: &mut u32) -> bool {
        while self.map.is_merging() {
            if *steps_left == 0 {
                return false;
            }
            *steps_left -= 1;
            self.step();
        }
        true
    }

    /// Trims pages of one logical block; false when the power has gone, and then the trim may have happened or not.
    fn trim(&mut self, first: u32, end: u32, steps_left: &mut u32) -> bool {
        loop {
            if *steps_left == 0 {
                return false;
            }
            *steps_left -= 1;
            let hidden: Vec<u32> = (first..end).filter(|&p| self.map.region().at(p).is_some()).collect();
            match self.map.unmap(first, end) {
                Some(Unmapped::Mark(taken)) => {
                    self.flash.program(taken, 0);
                    self.flash.marks.insert(taken.spot, hidden);
                }
                Some(Unmapped::Merge) => {
                    if !self.merge(steps_left) {
                        return false;
                    }
                }
                Some(Unmapped::Nothing) => {}
                None => {
                    if !self.merge(steps_left) {
                        return false;
                    }
                    continue;
                }
            }
            self.model[first as usize..end as usize].fill(0);
            return true;
        }
    }

    fn read(&self, page: u32) -> u64 {
        self.map.region().at(page).map_or(0, |spot| self.flash.pages[&spot].2)
    }

    fn check(&self, what: &str, may_be_zero: std::ops::Range<u32>) {
        self.map.region().check().unwrap_or_else(|why| panic!("{what}: {why}"));
        for (page, &value) in (0..).zip(&self.model) {
            let found = self.read(page);
            let allowed = found == value || may_be_zero.contains(&page) && found == 0;
            assert!(allowed, "{what}: page {page} holds {found}, not {value}");
        }
    }

    /// The power goes, and what was found is taken over.
    fn restart(&mut self) {
        let (blocks, marks) = (self.flash.blocks(), self.flash.found_marks());
        let dedicated = self.map.logs_are_dedicated();
        let region = self.map.region_mut();
        region.reset();
        let found = rebuild(region, &blocks, &marks, dedicated, false);
        assert_eq!(found.seq, blocks.iter().flat_map(|b| &b.pages).map(seq).max().unwrap_or(0));
        for &block in &found.doomed {
            self.flash.erase(block);
            self.map.region_mut().erase(block);
        }
        self.map.adopt(&found);
    }
}

fn seq(page: &Page) -> u64 {
    match *page {
        Page::Tagged(_, seq) => seq,
        Page::Torn => 0,
    }
}

#[test]
fn each_map_agrees_with_a_list_over_writes_trims_and_power_cuts() {
    for seed in 0..150 {
        for (name, map) in maps() {
            let mut rng = Rng::new(seed);
            let mut world = World::new(map);
            let pages = SHAPE.pages * SHAPE.logical;
            let what = format!("{name}, seed {seed}");
            for _ in 0..rng.between(1, 6) {
                let mut steps_left = rng.between(1, 600) as u32;
                let mut page = 0;
                let torn = loop {
                    page = if rng.below(3) > 0 {
                        (page + 1) % pages
                    } else {
                        rng.below(u64::from(pages)) as u32
                    };
                    if rng.below(8) == 0 {
                        let first = page - page % SHAPE.pages + rng.below(8) as u32;
                        let end = (first / SHAPE.pages + 1) * SHAPE.pages;
                        let end = rng.between(u64::from(first) + 1, u64::from(end)) as u32;
                        if !world.trim(first, end, &mut steps_left) {
                            break first..end;
                        }
                    } else if !world.write(page, &mut steps_left) {
                        break 0..0;
                    }
                    world.check(&what, 0..0);
                };
                // A trim that was cut off has happened or not, page by page.
                world.restart();
                world.check(&what, torn.clone());
                for page in torn {
                    world.model[page as usize] = world.read(page);
                }
            }
        }
    }
}

/// Two maps have parts of one plane and hand erased blocks to each other, as lenders and borrowers do: each goes on as the list says, and no block is in both.
#[test]
fn maps_that_hand_blocks_to_each_other_agree_with_their_lists() {
    let whole = Shape { blocks: 2 * SHAPE.blocks, ..SHAPE };
    let part = |number: u32| {
        let blocks = number * SHAPE.blocks..(number + 1) * SHAPE.blocks;
        Region::part(whole, Part { blocks, base: number * SHAPE.pages * SHAPE.logical })
    };
    let block_map = |number| -> Box<dyn LogBlocks> { Box::new(BlockMap::new(part(number), 3)) };
    let bast = |number| -> Box<dyn LogBlocks> { Box::new(Bast::new(part(number), 3, false)) };
    let mut handed = 0;
    for seed in 0..100 {
        for make in [&block_map as &dyn Fn(u32) -> Box<dyn LogBlocks>, &bast] {
            let mut rng = Rng::new(seed);
            let mut worlds = [World::new(make(0)), World::new(make(1))];
            let pages = u64::from(SHAPE.pages * SHAPE.logical);
            for turn in 0..400 {
                let what = format!("seed {seed}, turn {turn}");
                let at = usize::from(rng.below(4) == 0);
                let page = rng.below(pages) as u32;
                match rng.below(8) {
                    0 => {
                        let first = page - page % SHAPE.pages;
                        assert!(worlds[at].trim(first, page + 1, &mut u32::MAX.clone()));
                    }
                    1 => {
                        let map = &worlds[at].map;
                        let least = map.least_held();
                        assert!(map.region().good() >= least, "{what}: it needs {least} blocks");
                        if map.is_merging() || map.spare() == 0 || map.room() < 2 {
                            continue;
                        }
                        let [one, other] = &mut worlds;
                        let (from, to) = if at == 0 { (one, other) } else { (other, one) };
                        let block = from.map.region_mut().give_out();
                        assert!(from.flash.blocks()[block as usize].pages.is_empty(), "{what}: it is erased");
                        from.map.change_logs(-1);
                        to.map.region_mut().take_in(block);
                        to.map.change_logs(1);
                        handed += 1;
                    }
                    2 if worlds[at].map.logs() > 0 => {
                        // One merge leaves a block to spare, and moves no more pages than a block has.
                        let cost = worlds[at].map.give_up_cost();
                        if worlds[at].map.give_up_one() {
                            assert!(cost <= SHAPE.pages, "{what}: {cost} pages move");
                            while worlds[at].step() {}
                            assert!(worlds[at].map.spare() > 0, "{what}: a merge leaves nothing to spare");
                        }
                    }
                    _ => assert!(worlds[at].write(page, &mut u32::MAX.clone())),
                }
                for world in &worlds {
                    world.check(&what, 0..0);
                }
            }
            let good: u32 = worlds.iter().map(|world| world.map.region().good()).sum();
            assert_eq!(good, whole.blocks, "seed {seed}");
            let written = |world: &World, block: u32| !world.flash.blocks()[block as usize].pages.is_empty();
            let both = (0..whole.blocks).find(|&block| worlds.iter().all(|world| written(world, block)));
            assert_eq!(both, None, "seed {seed}: a block is in both");
        }
    }
    assert!(handed > 500, "{handed} blocks changed hands");
}

/// A plane that is filled by rule does what one does that was filled page by page: each place, each step of each merge.
#[test]
fn a_plane_filled_by_rule_is_one_filled_page_by_page() {
    for seed in 0..100 {
        for ((name, by_rule), (_, by_pages)) in maps().into_iter().zip(maps()) {
            let mut rng = Rng::new(seed);
            let pages = SHAPE.pages * SHAPE.logical;
            let filled = rng.between(1, u64::from(pages)) as u32;
            let what = format!("{name}, seed {seed}, {filled} pages");
            let mut both = [by_rule, by_pages];
            assert!(both[0].region().opens_in_order(filled), "{what}");
            both[0].region_mut().begin(filled);
            (0..filled).for_each(|page| assert!(both[1].take(page).is_some(), "{what}"));
            for turn in 0..300 {
                let page = rng.below(u64::from(pages)) as u32;
                let end = rng.between(u64::from(page) + 1, u64::from(page - page % SHAPE.pages + SHAPE.pages))
                    as u32;
                let trims = rng.below(6) == 0;
                let did = both.each_mut().map(|map| {
                    let mut did = Vec::new();
                    loop {
                        let taken =
                            if trims { map.unmap(page, end) } else { map.take(page).map(Unmapped::Mark) };
                        while let Some(step) = map.step() {
                            did.push(step);
                        }
                        if let Some(taken) = taken {
                            return (did, taken);
                        }
                    }
                });
                assert_eq!(did[0], did[1], "{what}, turn {turn}");
                let places = both
                    .each_ref()
                    .map(|map| (0..pages).map(|page| map.region().at(page)).collect::<Vec<_>>());
                assert_eq!(places[0], places[1], "{what}, turn {turn}");
                let blocks = both.each_ref().map(|map| {
                    let region = map.region();
                    let of = |block| (region.valid(block), region.written(block), region.data_of(block));
                    (0..SHAPE.blocks).map(of).collect::<Vec<_>>()
                });
                assert_eq!(blocks[0], blocks[1], "{what}, turn {turn}");
                both[0].region().check().unwrap_or_else(|why| panic!("{what}, turn {turn}: {why}"));
            }
            assert!(both[0].region().count.copies > 0 || filled < 3, "{what}: nothing was merged");
        }
    }
}

fn write_all(world: &mut World, pages: impl Iterator<Item = u32>) {
    for page in pages {
        assert!(world.write(page, &mut u32::MAX.clone()));
    }
}

fn counts(world: &World) -> [u64; 4] {
    let c = world.map.region().count;
    [c.switches, c.partials, c.fulls, c.copies]
}

#[test]
fn bast_switches_a_block_that_was_overwritten_in_order() {
    let mut world = World::new(Box::new(Bast::new(Region::new(SHAPE), 1, false)));
    write_all(&mut world, 0..16);
    write_all(&mut world, 0..9);
    // Page 8 needs the only log block, which is full and in order.
    assert_eq!(counts(&world), [1, 0, 0, 0]);
    write_all(&mut world, 0..1);
    // Its log block holds page 0 of logical block 1: the other seven are copied behind it.
    assert_eq!(counts(&world), [1, 1, 0, 7]);
    write_all(&mut world, [3, 8].into_iter());
    // Logical block 0: pages 0 and 3 in the log are not in order.
    assert_eq!(counts(&world), [1, 1, 1, 15]);
}

#[test]
fn fast_merges_every_logical_block_of_its_victim() {
    let mut world = World::new(Box::new(Fast::new(Region::new(SHAPE), 1, true, false)));
    write_all(&mut world, 0..56);
    // One page of each logical block, none of them the first: the only random log block is full after eight.
    write_all(&mut world, (0..7).map(|lbn| lbn * 8 + 3).chain([4]));
    assert_eq!(counts(&world), [0, 0, 0, 0]);
    write_all(&mut world, [12].into_iter());
    assert_eq!(counts(&world), [0, 0, 7, 56]);
    // A sequential overwrite is switched when the next one begins.
    write_all(&mut world, (0..8).chain([16]));
    assert_eq!(counts(&world), [1, 0, 7, 56]);
}

#[test]
fn a_block_map_copies_the_block_for_one_page() {
    let mut world = World::new(Box::new(BlockMap::new(Region::new(SHAPE), 1)));
    write_all(&mut world, 0..16);
    write_all(&mut world, [3, 11].into_iter());
    // Three below page 3, four above it, and three below page 11.
    assert_eq!(counts(&world), [0, 1, 0, 10]);
    write_all(&mut world, 12..16);
    write_all(&mut world, 0..1);
    assert_eq!(counts(&world), [1, 1, 0, 10]);
}
