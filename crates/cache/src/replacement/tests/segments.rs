//! Policies that go by segments: segment prefetching alone, fixed and adaptive culling.

use super::*;
use nandu_base::Ratio;

/// One list of segments, (segment, blocks), the oldest first; the oldest goes as a whole.
struct SlowSegments(Vec<(u64, u64)>, u32);

impl Obvious for SlowSegments {
    fn meet(&mut self, page: u64) -> bool {
        let (segment, bit) = (page / SEGMENT, 1 << (page % SEGMENT));
        let at = self.0.iter().position(|s| s.0 == segment);
        if let Some(at) = at.filter(|&at| self.0[at].1 & bit != 0) {
            let met = self.0.remove(at);
            self.0.push(met);
            return true;
        }
        let here = at.map_or(0, |at| self.0[at].1);
        let missing: u64 = 15 & !here;
        while self.0.iter().map(|s| s.1.count_ones()).sum::<u32>() + missing.count_ones() > self.1 {
            self.0.remove(0);
        }
        let here = self.0.iter().position(|s| s.0 == segment).map_or(0, |at| self.0.remove(at).1);
        self.0.push((segment, here | missing));
        false
    }
}

/// A block goes now and then, as it does when it is trimmed, so that segments have holes.
#[test]
fn segment_prefetch_only_agrees_with_a_vector() {
    for seed in 0..80 {
        let mut rng = Rng::new(seed);
        let room = SEGMENT * rng.between(4, 30);
        let mut directory = Directory::new(2, room, SegmentPrefetchOnly::new(room as usize), Hashed::new(0));
        let mut model = SlowSegments(Vec::new(), room as u32);
        let pages = room * rng.between(1, 4);
        for step in 0..2000 {
            let page = rng.below(pages).min(rng.below(pages));
            if rng.below(10) == 0 {
                let (segment, bit) = (page / SEGMENT, 1 << (page % SEGMENT));
                directory.forget(segment, bit);
                model.0.iter_mut().filter(|s| s.0 == segment).for_each(|s| s.1 &= !bit);
                model.0.retain(|s| s.1 != 0);
            }
            let (fast, obvious) = (meet_segment(&mut directory, page), model.meet(page));
            assert_eq!(fast, obvious, "seed {seed}, access {step} of page {page}");
            directory.check().unwrap_or_else(|v| panic!("seed {seed}, access {step}: {v}"));
        }
        assert!(directory.tally.holes > 0, "seed {seed}");
    }
}

/// The paper's lists, with vectors: (segment, cached, prefetched), the oldest first.
struct SlowCulling {
    l1: Vec<(u64, u64, u64)>,
    l2: Vec<(u64, u64, u64)>,
    room: u32,
    n1: f64,
    region: usize,
    bounds: (f64, f64),
    /// Hits in B1, prefetch hits there, cache hits in B2; [`None`] with a fixed length.
    counts: Option<(u32, u32, u32)>,
    paper: bool,
}

const SEGMENT: u64 = 4;

impl SlowCulling {
    fn used(&self) -> u32 {
        self.l1.iter().chain(&self.l2).map(|s| (s.1 | s.2).count_ones()).sum()
    }

    fn cull(&mut self) {
        let (segment, cached, _) = self.l1.remove(0);
        if cached != 0 {
            self.l2.push((segment, cached, 0));
        }
    }

    fn fits(&mut self) {
        while self.l1.len() > self.n1 as usize {
            self.cull();
        }
    }

    fn adapt(&mut self) {
        let Some((hits, gain_l1, gain_l2)) = self.counts else { return };
        if if self.paper { hits } else { hits + gain_l2 } >= 3 {
            let blocks = |s: &(u64, u64, u64)| f64::from((s.1 | s.2).count_ones());
            let b1: f64 = self.l1.iter().take(self.region).map(blocks).sum();
            let b2: f64 = self.l2.iter().take(self.region).map(blocks).sum();
            let loss = if b2 == 0.0 { 0.0 } else { b1 / b2 * f64::from(gain_l2) };
            self.n1 = (self.n1 + f64::from(gain_l1) - loss).clamp(self.bounds.0, self.bounds.1);
            self.counts = Some((0, 0, 0));
        }
    }
}

impl Obvious for SlowCulling {
    fn meet(&mut self, page: u64) -> bool {
        let (segment, bit) = (page / SEGMENT, 1 << (page % SEGMENT));
        let find = |list: &[(u64, u64, u64)]| list.iter().position(|s| s.0 == segment);
        let (first, second) = (find(&self.l1), find(&self.l2));
        let found = first.map(|at| self.l1[at]).or(second.map(|at| self.l2[at]));
        if let Some((_, cached, prefetched)) = found.filter(|s| (s.1 | s.2) & bit != 0) {
            if let Some(counts) = &mut self.counts {
                counts.0 += u32::from(first.is_some_and(|at| at < self.region));
                counts.1 += u32::from(first.is_some_and(|at| at < self.region) && prefetched & bit != 0);
                counts.2 += u32::from(second.is_some_and(|at| at < self.region));
            }
            let moved = (segment, cached | bit, prefetched & !bit);
            if let Some(at) = first {
                self.l1.remove(at);
                self.l1.push(moved);
            } else {
                self.l2.remove(second.unwrap());
                self.l2.push(moved);
            }
            self.adapt();
            self.fits();
            return true;
        }
        self.adapt();
        self.fits();
        let present = self.l1.iter().chain(&self.l2).find(|s| s.0 == segment).map_or(0, |s| s.1 | s.2);
        let wanted = 15 & !present;
        while self.used() + wanted.count_ones() > self.room {
            if self.l2.is_empty() {
                self.cull();
            } else {
                self.l2.remove(0);
            }
        }
        let find = |list: &[(u64, u64, u64)]| list.iter().position(|s| s.0 == segment);
        let old = find(&self.l1).map(|at| self.l1.remove(at));
        let old = old.or_else(|| find(&self.l2).map(|at| self.l2.remove(at)));
        let (_, cached, prefetched) = old.unwrap_or_default();
        let new = wanted & !(cached | prefetched);
        self.l1.push((segment, cached | bit & new, prefetched | new & !bit));
        self.fits();
        false
    }
}

fn meet_segment<P: Replacement>(directory: &mut Directory<P, Hashed>, page: u64) -> bool {
    if directory.access(page, false) != Found::Absent {
        return true;
    }
    let (line, bit) = (page / SEGMENT, 1u64 << (page % SEGMENT));
    let wanted = 15 & !directory.present(line);
    if directory.is_new(line) {
        directory.announce(line, Cause::Read);
    }
    assert!(directory.reserve(u64::from(wanted.count_ones()), Recall::Nothing));
    directory.admit(line, bit, wanted & !bit, Arrival::by(Cause::Read));
    false
}

fn culling_agrees(adaptive: Option<Trigger>) {
    for seed in 0..80 {
        let mut rng = Rng::new(seed);
        let room = SEGMENT * rng.between(4, 30);
        let segments = (room / SEGMENT) as u32;
        let region = (segments / 6).max(1);
        let limit = rng.between(u64::from(region), u64::from(segments)) as u32;
        let lists = SegmentLists::new(room as usize, limit, region);
        let feedback = Feedback {
            trigger: adaptive.unwrap_or(Trigger::FirstRegion(3)),
            speed: Ratio::new(1, 1),
            bounds: (region, segments),
            culls: 1000,
            ghost: false,
        };
        let policy: Box<dyn Replacement> = match adaptive {
            None => Box::new(FixedCulling::new(lists)),
            Some(_) => Box::new(AdaptiveCulling::new(lists, room as usize, feedback)),
        };
        let mut directory = Directory::new(2, room, policy, Hashed::new(0));
        let mut model = SlowCulling {
            l1: Vec::new(),
            l2: Vec::new(),
            room: room as u32,
            n1: f64::from(limit),
            region: region as usize,
            bounds: (f64::from(region), f64::from(segments)),
            counts: adaptive.map(|_| (0, 0, 0)),
            paper: adaptive == Some(Trigger::FirstRegion(3)),
        };
        let pages = room * rng.between(1, 4);
        let mut page = 0;
        for step in 0..2000 {
            page = match rng.below(3) {
                0 => (page + 1) % pages,
                1 => rng.below(pages).min(rng.below(pages)),
                _ => page / SEGMENT * SEGMENT + rng.below(SEGMENT),
            };
            let (fast, obvious) = (meet_segment(&mut directory, page), model.meet(page));
            assert_eq!(fast, obvious, "seed {seed}, access {step} of page {page}");
            directory.check().unwrap_or_else(|v| panic!("seed {seed}, access {step}: {v}"));
        }
    }
}

#[test]
fn fixed_culling_agrees_with_vectors() {
    culling_agrees(None);
}

#[test]
fn adaptive_culling_agrees_with_vectors() {
    culling_agrees(Some(Trigger::BothRegions(3)));
}

#[test]
fn adaptive_culling_in_the_form_of_the_paper_agrees_with_vectors() {
    culling_agrees(Some(Trigger::FirstRegion(3)));
}

/// O0-6: one block of each of 99 segments is met just before it would leave L2; one block of each of 170 others is read
/// just after it has left, and would be met with a shorter L1. Nothing is ever met in B1. The paper's trigger never comes;
/// ours makes L1 shorter.
#[test]
fn the_feedback_of_the_paper_starves() {
    let n1_after = |trigger| {
        let (room, segments, region) = (400u64, 100u32, 5u32);
        let lists = SegmentLists::new(room as usize, 50, region);
        let how =
            Feedback { trigger, speed: Ratio::new(1, 1), bounds: (region, segments), culls: 4, ghost: false };
        let mut directory =
            Directory::new(2, room, AdaptiveCulling::new(lists, room as usize, how), Hashed::new(0));
        for step in 0..4000u64 {
            meet_segment(&mut directory, step % 99 * SEGMENT);
            meet_segment(&mut directory, (1000 + step % 170) * SEGMENT);
        }
        (directory.policy().n1(), directory.tally.cache_hits)
    };
    let (paper, paper_hits) = n1_after(Trigger::FirstRegion(3));
    let (ours, our_hits) = n1_after(Trigger::BothRegions(3));
    assert_eq!(paper, 50, "nothing is met in B1, so that N1 stays");
    assert!(ours < 50, "hits in B2 make L1 shorter: {ours}");
    assert!(our_hits > paper_hits, "{our_hits} hits against {paper_hits}");
}

/// O0-4: prefetch hits in B1 make L1 take all it may. Then 110 segments come in turns, of which a shorter L1 would leave one
/// block each in memory. Where L1 took all memory nothing is met any more, and N1 stays; by default L2 keeps room for B2.
#[test]
fn an_l1_that_takes_all_memory_never_shrinks() {
    let n1_after = |l1_max: Option<Ratio>| {
        let config = AdaptiveConfig { l1_max, ..AdaptiveConfig::default() };
        let policy = config.build(Room { blocks: 400, line: SEGMENT, fault: None }).expect("the options fit");
        let mut directory = Directory::new(2, 400, policy, Hashed::new(0));
        for segment in 0..1000u64 {
            meet_segment(&mut directory, segment * SEGMENT);
            // Each step puts two segments before this one, a new one and one that is met.
            let far = (u64::from(directory.policy().n1()) - 2) / 2;
            if segment >= far {
                meet_segment(&mut directory, (segment - far) * SEGMENT + 1);
            }
        }
        let grown = directory.policy().n1();
        for step in 0..4000u64 {
            meet_segment(&mut directory, (2000 + step % 110) * SEGMENT);
        }
        (grown, directory.policy().n1())
    };
    assert_eq!(n1_after(Some(Ratio::new(1, 1))), (100, 100));
    let (grown, left) = n1_after(None);
    assert!(grown > 90 && left < grown - 10, "{grown}, then {left}");
}

/// A remembered block that was culled too early counts for a longer L1 (W0-4).
#[test]
fn a_culled_block_that_is_read_grows_l1() {
    let n1_after = |ghost| {
        let lists = SegmentLists::new(400, 10, 2);
        let how = Feedback {
            trigger: Trigger::BothRegions(3),
            speed: Ratio::new(1, 1),
            bounds: (2, 100),
            culls: 4,
            ghost,
        };
        let mut directory = Directory::new(2, 400, AdaptiveCulling::new(lists, 400, how), Hashed::new(0));
        // The other blocks of a segment are read after 20 more segments: L1 of 10 culls them before.
        for segment in 0..200u64 {
            meet_segment(&mut directory, segment * SEGMENT);
            if segment >= 20 {
                meet_segment(&mut directory, (segment - 20) * SEGMENT + 1);
            }
        }
        directory.policy().n1()
    };
    let (without, with) = (n1_after(false), n1_after(true));
    assert!(with > without && with > 10, "{with} with the ghost, {without} without");
}
