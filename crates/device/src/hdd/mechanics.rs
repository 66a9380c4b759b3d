//! Arm and spindle: how long it takes until blocks have passed under a head.
//!
//! The spindle turns without a break from time 0, so that the angle under the heads follows from the time alone. An access
//! moves the arm (or switches the head, or both at once: the slower counts), lets a write settle, waits until the first
//! sector comes round, and transfers at the speed of the track. Where blocks go on elsewhere, on the next track or beyond a
//! bad sector, this begins again from where the head is. With `any_order` (zero-latency access) a head that lands among
//! the wanted sectors of a track takes them from there and the rest when they come round: one revolution at most.
//!
//! Integers only: angles are 2^-32 of a revolution, times nanoseconds. Two angles closer than 2^-20 of a revolution are
//! the same: rounding must not cost a revolution.
//!
//! Source: as in Ruemmler and Wilkes (IEEE Computer 1994) and the manual of DiskSim 4.0 (Bucy et al., CMU-PDL-08-101,
//! 2008). Cost: some sixty instructions for each track of an access.

use super::geometry::{Geometry, Spot, Zone};
use super::seek::SeekTable;
use nandu_base::{Instant, Span};

/// Angles that differ by less are the same.
const SAME: u32 = 1 << 12;

/// Where the heads are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Arm {
    /// The cylinder.
    pub cylinder: u32,
    /// The head in use.
    pub head: u32,
}

impl Arm {
    /// On the track of `spot`.
    pub fn at(spot: &Spot) -> Arm {
        Arm { cylinder: spot.cylinder, head: spot.head }
    }
}

/// The moving parts of a drive.
#[derive(Clone, Debug)]
pub struct Mechanics {
    /// Where blocks lie.
    pub geometry: Geometry,
    /// Arm movement.
    pub seek: SeekTable,
    /// From one head to another of the same cylinder.
    pub head_switch: Span,
    /// What a write that follows a movement takes longer than a read, in ns; negative where reads settle longer.
    pub write_settle: i64,
    /// One revolution.
    pub revolution: Span,
}

/// The way to a sector.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Positioning {
    /// Movement of the arm, head switch, settling.
    pub seek: Span,
    /// Until the sector comes round.
    pub rotation: Span,
}

/// One track's part of an access.
#[derive(Clone, Copy, Debug)]
pub struct Piece {
    /// Blocks of the access before it.
    pub before: u64,
    /// Its blocks.
    pub count: u64,
    /// When its first block has passed.
    pub first_done: Instant,
    /// When all have.
    pub end: Instant,
    /// The block that passes last, counted from the first of the access.
    pub last: u64,
}

/// Times of an access.
#[derive(Clone, Copy, Default, Debug)]
pub struct Access {
    /// Movement and settling, all tracks.
    pub seek: Span,
    /// Waiting for sectors, all tracks.
    pub rotation: Span,
    /// Sectors passing.
    pub transfer: Span,
    /// When the first block begins to pass.
    pub begin: Instant,
    /// When the last has passed.
    pub end: Instant,
    /// Where the heads are then.
    pub arm: Arm,
    /// Where the block behind the last one lies, when that is on the same track and known.
    pub next: Option<Spot>,
    /// Sectors before the first block of the access that have passed on its track while the head waited.
    pub passed_before: u64,
}

/// Which blocks are read or written.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// The first.
    pub first: u64,
    /// How many, at least one.
    pub count: u64,
    /// Whether they are written.
    pub write: bool,
    /// Whether the sectors of a track may pass in any order.
    pub any_order: bool,
}

impl Mechanics {
    /// The angle under the heads.
    #[inline]
    pub fn angle(&self, at: Instant) -> u32 {
        (((at.0 % self.revolution.0) << 32) / self.revolution.0) as u32
    }

    /// Time for an angle.
    #[inline]
    pub fn time(&self, angle: u32) -> Span {
        Span((u64::from(angle) * self.revolution.0) >> 32)
    }

    /// Time in which `count` sectors of a track of `per_track` pass.
    #[inline]
    pub fn pass(&self, count: u64, per_track: u32) -> Span {
        Span(count * self.revolution.0 / u64::from(per_track))
    }

    /// From one place to another: movement, head switch and settling.
    #[inline]
    pub fn movement(&self, from: Arm, cylinder: u32, head: u32, write: bool) -> Span {
        let mut time = self.seek.time(from.cylinder.abs_diff(cylinder));
        if from.head != head {
            time = time.max(self.head_switch.0);
        }
        if write && time > 0 {
            time = time.saturating_add_signed(self.write_settle);
        }
        Span(time)
    }

    /// The angle from one to another, going forward.
    #[inline]
    fn ahead(from: u32, to: u32) -> u32 {
        let angle = to.wrapping_sub(from);
        if angle > u32::MAX - SAME { 0 } else { angle }
    }

    /// The way from `arm` at `start` to the sector at `spot`.
    #[inline]
    pub fn position(&self, arm: Arm, spot: &Spot, start: Instant, write: bool) -> Positioning {
        let seek = self.movement(arm, spot.cylinder, spot.head, write);
        Positioning { seek, rotation: self.wait(spot.angle, start + seek) }
    }

    /// From `at` until `angle` comes round.
    #[inline]
    pub fn wait(&self, angle: u32, at: Instant) -> Span {
        self.time(Self::ahead(self.angle(at), angle))
    }

    /// Lets blocks pass, of which the first lies at `spot`, beginning with `arm` at `start`; `each` sees every track's part in
    /// order.
    #[inline]
    pub fn access(
        &self,
        arm: Arm,
        start: Instant,
        mut spot: Spot,
        wanted: &Wanted,
        mut each: impl FnMut(&Piece),
    ) -> Access {
        let mut access = Access { end: start, arm, ..Access::default() };
        let mut done = 0;
        loop {
            let count = u64::from(spot.left).min(wanted.count - done);
            let way = self.position(access.arm, &spot, access.end, wanted.write);
            let there = access.end + way.seek;
            let transfer = self.pass(count, spot.sectors_per_track);
            let sector = self.pass(1, spot.sectors_per_track);
            let mut piece = Piece {
                before: done,
                count,
                first_done: there + way.rotation + sector,
                end: there + way.rotation + transfer,
                last: done + count - 1,
            };
            let mut begin = there + way.rotation;
            // Behind the first sector by less than the piece is long: the head has landed in it.
            let behind = self.revolution.0 - way.rotation.0;
            if wanted.any_order && behind < transfer.0 {
                let landed = behind.div_ceil(sector.0).min(count);
                let rest = self.pass(landed, spot.sectors_per_track);
                (piece.end, piece.last, begin) = (there + way.rotation + rest, done + landed - 1, there);
            }
            if done == 0 {
                access.begin = begin;
                access.passed_before = self.passed(&spot, way.rotation);
            }
            let until = piece.end.since(there);
            let passing = if until < transfer { until } else { transfer };
            access.seek += way.seek;
            access.transfer += passing;
            access.rotation += until - passing;
            access.end = piece.end;
            access.arm = Arm::at(&spot);
            each(&piece);
            done += count;
            if done >= wanted.count {
                access.next = spot.ahead(count as u32);
                return access;
            }
            spot = self.geometry.locate(wanted.first + done);
        }
    }

    /// An access to very many blocks: every sector passes once, and every step to the next track costs its skew. Bounded by
    /// the runs of the drive, not by its tracks.
    pub fn sweep(&self, arm: Arm, start: Instant, spot: &Spot, wanted: &Wanted) -> Access {
        let way = self.position(arm, spot, start, wanted.write);
        let (mut transfer, mut skipped) = (Span::ZERO, Span::ZERO);
        self.geometry.stretches(wanted.first, wanted.count, |zone, sectors| {
            transfer += self.pass(sectors, zone.sectors_per_track);
            let tracks = sectors / u64::from(zone.sectors_per_track);
            skipped += self.time(zone.track_skew.max(zone.cylinder_skew)) * tracks;
        });
        let last = self.geometry.locate(wanted.first + wanted.count - 1);
        let begin = start + way.seek + way.rotation;
        Access {
            seek: way.seek,
            rotation: way.rotation + skipped,
            transfer,
            begin,
            end: begin + skipped + transfer,
            arm: Arm::at(&last),
            next: None,
            passed_before: 0,
        }
    }

    /// Sectors between the track's first and `spot` that pass during `wait` before it.
    #[inline]
    fn passed(&self, spot: &Spot, wait: Span) -> u64 {
        let sectors = wait.0 * u64::from(spot.sectors_per_track) / self.revolution.0;
        sectors.min(u64::from(spot.sector))
    }
}

/// Reading on without a request.
#[derive(Clone, Copy, Debug)]
pub struct Stream {
    /// Where the heads are.
    pub arm: Arm,
    /// The next block.
    pub next: u64,
    /// When the block before has passed.
    pub at: Instant,
    /// Where the next block lies, when that is known.
    pub spot: Option<Spot>,
}

impl Stream {
    /// Reads on until `until`, at most up to block `limit`. A sector that has begun is not counted. Returns the time spent
    /// moving and the time spent reading.
    pub fn advance(&mut self, mechanics: &Mechanics, until: Instant, limit: u64) -> (Span, Span) {
        let (mut seek, mut busy) = (Span::ZERO, Span::ZERO);
        while self.next < limit && self.at < until {
            let spot = self.locate(mechanics);
            self.spot = Some(spot);
            let way = mechanics.position(self.arm, &spot, self.at, false);
            let begin = self.at + way.seek + way.rotation;
            if begin >= until {
                break;
            }
            let per_track = u64::from(spot.sectors_per_track);
            let whole = until.since(begin).0 * per_track / mechanics.revolution.0;
            let count = u64::from(spot.left).min(limit - self.next).min(whole);
            if count == 0 {
                break;
            }
            let reading = mechanics.pass(count, spot.sectors_per_track);
            self.next += count;
            self.at = begin + reading;
            self.arm = Arm::at(&spot);
            self.spot = spot.ahead(count as u32);
            seek += way.seek;
            busy += way.rotation + reading;
        }
        (seek, busy)
    }

    #[inline]
    fn locate(&self, mechanics: &Mechanics) -> Spot {
        match self.spot {
            Some(spot) => spot,
            None => mechanics.geometry.locate(self.next),
        }
    }

    /// When the sector or the movement that is under way at `now` ends.
    pub fn boundary(&self, mechanics: &Mechanics, now: Instant) -> (Arm, Instant) {
        let spot = self.locate(mechanics);
        let way = mechanics.position(self.arm, &spot, self.at, false);
        let there = self.at + way.seek;
        if way.seek > Span::ZERO && now <= there {
            return (Arm::at(&spot), there);
        }
        let begin = there + way.rotation;
        let end = begin + mechanics.pass(1, spot.sectors_per_track);
        (Arm::at(&spot), if now <= begin || now > end { now } else { end })
    }
}

/// The skew of `zone` in time that hides `movement`: whole sectors, one more for what is rounded.
pub fn skew_for(movement: Span, revolution: Span, sectors_per_track: u32) -> u32 {
    let sectors = (movement.0 * u64::from(sectors_per_track)).div_ceil(revolution.0) + 1;
    Zone::skew(sectors % u64::from(sectors_per_track), sectors_per_track)
}

#[cfg(test)]
mod tests {
    use super::super::geometry::Layout;
    use super::super::seek::SeekCurve;
    use super::*;
    use nandu_base::Rng;

    /// 6,000 rpm, 100 sectors of 100 us each on a track, 2 heads, 10 cylinders.
    fn drive(track_skew: u64, cylinder_skew: u64) -> Mechanics {
        let zone = Zone {
            first_cylinder: 0,
            cylinders: 10,
            sectors_per_track: 100,
            first_angle: 0,
            track_skew: Zone::skew(track_skew, 100),
            cylinder_skew: Zone::skew(cylinder_skew, 100),
            runs: vec![(0, 2000)],
        };
        let points = vec![(1, Span::from_ms(1)), (9, Span::from_ms(5))];
        Mechanics {
            geometry: Geometry::new(2, Layout::Cylinder, vec![zone], None).unwrap(),
            seek: SeekTable::new(&SeekCurve::Points { points }, 10).unwrap(),
            head_switch: Span::from_us(500),
            write_settle: 200_000,
            revolution: Span::from_ms(10),
        }
    }

    fn wanted(first: u64, count: u64) -> Wanted {
        Wanted { first, count, write: false, any_order: false }
    }

    fn access(m: &Mechanics, arm: Arm, start: Instant, wanted: &Wanted, each: impl FnMut(&Piece)) -> Access {
        let access = m.access(arm, start, m.geometry.locate(wanted.first), wanted, each);
        let next = m.geometry.locate(wanted.first + wanted.count);
        assert!(access.next.is_none_or(|spot| spot == next), "{access:?} {next:?}");
        access
    }

    fn near(a: Span, us: u64) -> bool {
        a.0.abs_diff(us * 1000) < 1000
    }

    #[test]
    fn an_access_seeks_waits_and_transfers() {
        let drive = drive(10, 20);
        // At 3 ms the head is over sector 30. Block 250 is cylinder 1, head 0, sector 50, and lies at angle 50 + 20 + 0.
        let a = access(&drive, Arm::default(), Instant(3_000_000), &wanted(250, 10), |_| {});
        assert!(near(a.seek, 1000) && near(a.transfer, 1000), "{a:?}");
        // Arrives over 40, wants 50 + 10 (one head switch before it) + 20.
        assert!(near(a.rotation, 4000), "{a:?}");
        assert_eq!(a.arm, Arm { cylinder: 1, head: 0 });
        let write = Wanted { write: true, ..wanted(250, 10) };
        assert!(near(access(&drive, Arm::default(), Instant(3_000_000), &write, |_| {}).seek, 1200));
    }

    #[test]
    fn skew_hides_the_way_to_the_next_track() {
        let mut pieces = Vec::new();
        let a = access(&drive(10, 20), Arm::default(), Instant::ZERO, &wanted(0, 250), |p| pieces.push(*p));
        // 100 sectors, 10 of skew, 100 sectors, 20 of skew, 50 sectors.
        assert!(near(a.end.since(Instant::ZERO), 28_000), "{a:?}");
        assert_eq!(
            pieces.iter().map(|p| (p.before, p.count)).collect::<Vec<_>>(),
            [(0, 100), (100, 100), (200, 50)]
        );
        // Without skew, a revolution is lost each time.
        let a = access(&drive(0, 0), Arm::default(), Instant::ZERO, &wanted(0, 250), |_| {});
        assert!(near(a.end.since(Instant::ZERO), 45_000), "{a:?}");
    }

    #[test]
    fn in_any_order_a_track_takes_one_revolution() {
        let drive = drive(10, 20);
        let (start, any) = (Instant(3_050_000), Wanted { any_order: true, ..wanted(10, 60) });
        let a = access(&drive, Arm::default(), start, &any, |_| {});
        // From sector 31 to 69, then from 10 to 30, which ends a revolution after 31 began, 3.1 ms + 10 ms.
        assert!(near(a.end.since(Instant::ZERO), 13_100), "{a:?}");
        let a = access(&drive, Arm::default(), start, &wanted(10, 60), |_| {});
        assert!(near(a.end.since(Instant::ZERO), 17_000), "{a:?}");
        assert_eq!(a.seek + a.rotation + a.transfer, a.end.since(start));
    }

    #[test]
    fn reading_on_agrees_with_an_access_of_the_same_blocks() {
        let drive = drive(10, 20);
        for seed in 0..200 {
            let mut rng = Rng::new(seed);
            let first = rng.below(1500);
            let a = access(&drive, Arm::default(), Instant(rng.below(20_000_000)), &wanted(first, 1), |_| {});
            let fresh = Stream { arm: a.arm, next: first + 1, at: a.end, spot: a.next };
            let count = rng.between(1, 400);
            let b = access(&drive, a.arm, a.end, &wanted(first + 1, count), |_| {});
            let mut stream = fresh;
            // In steps or at once.
            let mut until = a.end;
            while until < b.end {
                until = (until + Span(rng.below(3_000_000))).min(b.end);
                stream.advance(&drive, until, first + 1 + count);
            }
            stream.advance(&drive, b.end + Span(200), first + 1 + count);
            assert_eq!(stream.next, first + 1 + count, "seed {seed}");
            assert!(stream.at.0.abs_diff(b.end.0) < 1000, "seed {seed}: {stream:?} {b:?}");
        }
    }
}
