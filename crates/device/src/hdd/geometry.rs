//! Where a block lies: zones, tracks and skew.
//!
//! A disk is a list of zones, from the outer edge inwards; all tracks of a zone have the same number of sectors. Blocks are
//! laid onto the tracks of a zone in order. Where a manufacturer has left spare sectors or slipped past bad ones, the order
//! breaks off and goes on further along: a *run* is a stretch of consecutive blocks on consecutive sectors. A drive without
//! such places has one run in each zone.
//!
//! Tracks follow each other in one of three orders ([`Layout`]). From one track to the next the first sector lies further
//! round by the skew, so that the head arrives before it: `track_skew` where only the head changes, `cylinder_skew` where
//! the arm moves.
//!
//! An angle is a `u32`, 2^32 to the revolution, so that it wraps by itself.
//!
//! Sources: Ruemmler and Wilkes, *An introduction to disk drive modeling* (IEEE Computer, 1994), for zones, skew and
//! sparing; the layout `surface` as Gim and Won measure it in *Extract and infer quickly: obtaining sector geometry of
//! modern hard disk drives* (ACM TOS, 2010).
//!
//! Cost: a table look-up and two divisions for each block that is looked for. RAM: 24 bytes for each run and 4 bytes for
//! each of up to 2^16 buckets.

use nandu_base::BuildError;
use schemars::JsonSchema;
use serde::Deserialize;

/// In which order the tracks of a zone are filled.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Layout {
    /// All tracks of a cylinder from the first head to the last, then the next cylinder.
    #[default]
    Cylinder,
    /// The same, with the heads in opposite order in every other cylinder.
    CylinderSerpentine,
    /// `band` cylinders on one surface, then the same on the next surface in the opposite direction, as drives since about
    /// 2000 do.
    Surface {
        /// Cylinders of a band, at least 1.
        band: u32,
    },
}

/// One zone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Zone {
    /// Its first cylinder, counted from the outer edge.
    pub first_cylinder: u32,
    /// How many cylinders it has.
    pub cylinders: u32,
    /// Sectors of 512 B on each of its tracks.
    pub sectors_per_track: u32,
    /// Angle of the first sector of its first track.
    pub first_angle: u32,
    /// From a track to the next one of the same cylinder.
    pub track_skew: u32,
    /// From a track to the next one of another cylinder.
    pub cylinder_skew: u32,
    /// Sectors that hold blocks: the first, counted from the zone's first, and how many, in the order of the blocks.
    pub runs: Vec<(u64, u64)>,
}

impl Zone {
    /// The angle of `sectors` sectors of a track of `per_track`.
    pub fn skew(sectors: u64, per_track: u32) -> u32 {
        ((sectors << 32) / u64::from(per_track)) as u32
    }
}

/// A stretch of blocks on consecutive sectors.
#[derive(Clone, Copy, Debug)]
struct Run {
    first: u64,
    /// Sector of the zone that holds `first`.
    sector: u64,
    zone: u32,
}

/// Where a block lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Spot {
    /// The cylinder.
    pub cylinder: u32,
    /// The head.
    pub head: u32,
    /// Where its sector begins.
    pub angle: u32,
    /// Sectors of its track.
    pub sectors_per_track: u32,
    /// Blocks from here on that lie on the same track without a gap, this one included.
    pub left: u32,
    /// Sectors of its track before this one.
    pub sector: u32,
    /// Where the first sector of its track begins.
    pub track_angle: u32,
}

impl Spot {
    /// Where the block `blocks` further on lies, when that is on the same track without a gap.
    #[inline]
    pub fn ahead(&self, blocks: u32) -> Option<Spot> {
        let sector = self.sector + blocks;
        let angle = self.track_angle.wrapping_add(Zone::skew(u64::from(sector), self.sectors_per_track));
        (blocks < self.left).then_some(Spot { angle, left: self.left - blocks, sector, ..*self })
    }
}

/// The geometry of a drive.
#[derive(Clone, Debug)]
pub struct Geometry {
    layout: Layout,
    heads: u32,
    cylinders: u32,
    zones: Vec<Zone>,
    runs: Vec<Run>,
    /// The run that holds the first block of each bucket of `1 << shift` blocks.
    buckets: Vec<u32>,
    shift: u32,
    blocks: u64,
}

/// Most entries of the table of buckets.
const BUCKETS: u64 = 1 << 16;

impl Geometry {
    /// The geometry of these zones, with the first `blocks` blocks in use, or all when there is no number.
    pub fn new(
        heads: u32,
        layout: Layout,
        zones: Vec<Zone>,
        blocks: Option<u64>,
    ) -> Result<Geometry, BuildError> {
        check(heads, layout, &zones)?;
        let mut runs = Vec::new();
        let mut all = 0;
        for (number, zone) in (0..).zip(&zones) {
            for &(sector, count) in zone.runs.iter().filter(|run| run.1 > 0) {
                runs.push(Run { first: all, sector, zone: number });
                all += count;
            }
        }
        let used = blocks.unwrap_or(all);
        if used == 0 || used > all {
            let why = format!("{used} blocks do not fit the tracks, which hold {all}");
            return Err(BuildError::at("capacity", why));
        }
        let shift = (all / BUCKETS).max(1).next_power_of_two().trailing_zeros();
        let mut at = 0;
        let buckets = (0..=all >> shift)
            .map(|bucket| {
                while runs.get(at + 1).is_some_and(|run| run.first <= bucket << shift) {
                    at += 1;
                }
                at as u32
            })
            .collect();
        let cylinders = zones.iter().map(|z| z.first_cylinder + z.cylinders).max().unwrap_or(0);
        // A last run that nothing lies in ends the one before.
        runs.push(Run { first: all, sector: 0, zone: 0 });
        Ok(Geometry { layout, heads, cylinders, zones, runs, buckets, shift, blocks: used })
    }

    /// The same drive with its first `blocks` blocks in use, at most as many as it has.
    pub fn shortened(self, blocks: u64) -> Geometry {
        Geometry { blocks: blocks.clamp(1, self.blocks), ..self }
    }

    /// Blocks of 512 B.
    pub fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Cylinders, those without blocks included.
    pub fn cylinders(&self) -> u32 {
        self.cylinders
    }

    /// Cylinders from the first to the last that the blocks in use lie on.
    pub fn cylinders_in_use(&self) -> u32 {
        let last = self.locate(self.blocks - 1);
        let Layout::Surface { band } = self.layout else { return last.cylinder + 1 };
        let zone = self.zones.iter().rev().find(|z| z.first_cylinder <= last.cylinder);
        let (first, end) =
            zone.map_or((0, self.cylinders), |z| (z.first_cylinder, z.first_cylinder + z.cylinders));
        end.min(first + ((last.cylinder - first) / band + 1) * band)
    }

    /// Heads, one for each surface that holds data.
    pub fn heads(&self) -> u32 {
        self.heads
    }

    /// The zones.
    pub fn zones(&self) -> &[Zone] {
        &self.zones
    }

    /// Where block `lbn` lies; the last block for anything beyond.
    #[inline]
    pub fn locate(&self, lbn: u64) -> Spot {
        let lbn = lbn.min(self.blocks - 1);
        let mut at = self.buckets[(lbn >> self.shift) as usize] as usize;
        while self.runs[at + 1].first <= lbn {
            at += 1;
        }
        let run = self.runs[at];
        let zone = &self.zones[run.zone as usize];
        let sector = run.sector + (lbn - run.first);
        let per_track = u64::from(zone.sectors_per_track);
        let (track, sector) = ((sector / per_track) as u32, (sector % per_track) as u32);
        let (cylinder, head, angle) = self.track(zone, track);
        let left = u64::from(zone.sectors_per_track - sector).min(self.runs[at + 1].first - lbn);
        Spot {
            cylinder,
            head,
            angle: angle.wrapping_add(Zone::skew(u64::from(sector), zone.sectors_per_track)),
            sectors_per_track: zone.sectors_per_track,
            left: left as u32,
            sector,
            track_angle: angle,
        }
    }

    /// Takes `count` blocks from `first` apart by zone and run: `each` sees the zone and how many of its sectors.
    pub fn stretches(&self, first: u64, count: u64, mut each: impl FnMut(&Zone, u64)) {
        let end = (first + count).min(self.blocks);
        let mut at = self.runs.partition_point(|run| run.first <= first).saturating_sub(1);
        let mut next = first;
        while next < end {
            let until = self.runs[at + 1].first.min(end);
            each(&self.zones[self.runs[at].zone as usize], until - next);
            (next, at) = (until, at + 1);
        }
    }

    /// Cylinder, head and angle of the first sector of a track of a zone.
    #[inline]
    fn track(&self, zone: &Zone, track: u32) -> (u32, u32, u32) {
        let heads = self.heads;
        let (cylinder, head, moves) = match self.layout {
            Layout::Cylinder => (track / heads, track % heads, track / heads),
            Layout::CylinderSerpentine => {
                let (cylinder, turn) = (track / heads, track % heads);
                let back = cylinder % 2 == 1;
                (cylinder, if back { heads - 1 - turn } else { turn }, cylinder)
            }
            Layout::Surface { band } => {
                let first = track / (band * heads) * band;
                // The last band of a zone may be narrower.
                let band_here = band.min(zone.cylinders - first);
                let (head, turn) = ((track - first * heads) / band_here, (track - first * heads) % band_here);
                let turn = if head % 2 == 1 { band_here - 1 - turn } else { turn };
                (first + turn, head, track - (first / band * heads + head))
            }
        };
        let switches = track - moves;
        let angle = zone
            .first_angle
            .wrapping_add(switches.wrapping_mul(zone.track_skew))
            .wrapping_add(moves.wrapping_mul(zone.cylinder_skew));
        (zone.first_cylinder + cylinder, head, angle)
    }
}

fn check(heads: u32, layout: Layout, zones: &[Zone]) -> Result<(), BuildError> {
    if !(1..=64).contains(&heads) {
        return Err(BuildError::at("heads", format!("{heads} is not from 1 to 64")));
    }
    if matches!(layout, Layout::Surface { band: 0 }) {
        return Err(BuildError::at("layout", "a band of no cylinder"));
    }
    let mut next = 0;
    for (at, zone) in zones.iter().enumerate() {
        let bad = |why: String| Err(BuildError::at("zones", format!("zone {at}: {why}")));
        let tracks = u64::from(zone.cylinders) * u64::from(heads);
        if zone.cylinders == 0 || zone.first_cylinder < next {
            return bad(format!("begins at cylinder {} and not after the zone before", zone.first_cylinder));
        }
        if !(1..=1 << 20).contains(&zone.sectors_per_track) || tracks > 1 << 31 {
            return bad(format!("{} sectors on each of {tracks} tracks", zone.sectors_per_track));
        }
        let sectors = tracks * u64::from(zone.sectors_per_track);
        let fits = |&(first, count): &(u64, u64)| first.checked_add(count).is_some_and(|end| end <= sectors);
        if !zone.runs.iter().all(fits) {
            return bad(format!("blocks lie beyond its {sectors} sectors"));
        }
        next = zone.first_cylinder + zone.cylinders;
    }
    if next > 1 << 23 {
        return Err(BuildError::at("zones", format!("{next} cylinders are more than 8,388,608")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandu_base::Rng;
    use std::collections::BTreeSet;

    fn zone(first_cylinder: u32, cylinders: u32, sectors_per_track: u32, runs: Vec<(u64, u64)>) -> Zone {
        let skew = |n| Zone::skew(n, sectors_per_track);
        Zone {
            first_cylinder,
            cylinders,
            sectors_per_track,
            first_angle: skew(3),
            track_skew: skew(2),
            cylinder_skew: skew(5),
            runs,
        }
    }

    /// Two zones, a gap of a cylinder between them, slipped and spare sectors.
    fn small(layout: Layout) -> Geometry {
        let zones = vec![
            zone(0, 7, 20, vec![(4, 30), (35, 200), (240, 180)]),
            zone(8, 5, 13, vec![(0, 100), (190, 5), (101, 80)]),
        ];
        Geometry::new(3, layout, zones, None).unwrap()
    }

    /// The rule plainly: walk over all runs.
    fn slow(g: &Geometry, mut lbn: u64) -> (usize, u64) {
        for (number, zone) in g.zones.iter().enumerate() {
            for &(first, count) in &zone.runs {
                if lbn < count {
                    return (number, first + lbn);
                }
                lbn -= count;
            }
        }
        unreachable!("the block is there")
    }

    #[test]
    fn a_look_up_agrees_with_a_walk_over_all_runs() {
        let g = small(Layout::Cylinder);
        assert_eq!(g.blocks(), 410 + 185);
        for lbn in 0..g.blocks() {
            let (number, sector) = slow(&g, lbn);
            let zone = &g.zones[number];
            let per_track = u64::from(zone.sectors_per_track);
            let (track, spot) = (sector / per_track, g.locate(lbn));
            assert_eq!(u64::from(spot.cylinder), u64::from(zone.first_cylinder) + track / 3, "block {lbn}");
            assert_eq!((u64::from(spot.head), u64::from(spot.sector)), (track % 3, sector % per_track));
            let (cylinders, heads) = (track / 3, track - track / 3);
            let round = 3 + 5 * cylinders + 2 * heads + sector % per_track;
            let near = Zone::skew(round % per_track, zone.sectors_per_track);
            assert!(spot.angle.wrapping_sub(near).wrapping_add(500) < 1000, "block {lbn}");
        }
    }

    #[test]
    fn every_layout_uses_every_sector_once_and_moves_one_step_at_a_time() {
        for layout in [Layout::Cylinder, Layout::CylinderSerpentine, Layout::Surface { band: 3 }] {
            let g = Geometry::new(4, layout, vec![zone(0, 8, 9, vec![(0, 8 * 4 * 9)])], None).unwrap();
            let mut seen = BTreeSet::new();
            let mut last: Option<Spot> = None;
            for lbn in 0..g.blocks() {
                let spot = g.locate(lbn);
                assert!(seen.insert((spot.cylinder, spot.head, spot.sector)), "{layout:?}, block {lbn}");
                if let Some(last) = last.filter(|_| layout != Layout::Cylinder) {
                    let step = last.cylinder.abs_diff(spot.cylinder) + last.head.abs_diff(spot.head);
                    let to_next_band = last.head == 3 && spot.head == 0;
                    assert!(step <= 1 || to_next_band, "{layout:?}, block {lbn}");
                }
                last = Some(spot);
            }
            assert_eq!(seen.len(), 8 * 4 * 9);
        }
    }

    #[test]
    fn what_is_left_on_a_track_ends_at_its_end_or_at_a_gap() {
        for seed in 0..20 {
            let g = small(Layout::Cylinder);
            let lbn = Rng::new(seed).below(g.blocks() - 1);
            let spot = g.locate(lbn);
            let next = g.locate(lbn + 1);
            let same = (next.cylinder, next.head, next.sector) == (spot.cylinder, spot.head, spot.sector + 1);
            assert_eq!(spot.left > 1, same, "seed {seed}, block {lbn}");
        }
    }

    #[test]
    fn what_cannot_be_is_refused_by_name() {
        let key = |heads, layout, zones, blocks| Geometry::new(heads, layout, zones, blocks).unwrap_err().key;
        let one = || vec![zone(0, 2, 10, vec![(0, 40)])];
        assert_eq!(key(0, Layout::Cylinder, one(), None), Some("heads".into()));
        assert_eq!(key(2, Layout::Surface { band: 0 }, one(), None), Some("layout".into()));
        assert_eq!(key(2, Layout::Cylinder, vec![zone(0, 2, 10, vec![(0, 41)])], None), Some("zones".into()));
        assert_eq!(key(2, Layout::Cylinder, one(), Some(41)), Some("capacity".into()));
    }
}
