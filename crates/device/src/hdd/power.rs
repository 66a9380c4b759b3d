//! Power states and energy.
//!
//! A drive seeks, transfers (waiting for a sector is part of it), or rests. A drive that rests long enough goes down a list
//! of *levels*, for example heads unloaded, then spindle stopped: each is entered so long after the last command, takes
//! time to enter and to leave, and has powers of its own. Energy is the time in each state times its power, so the times
//! add up to the time that has passed.
//!
//! The time after which a level that stops the spindle is entered is fixed, or *adaptive*: it doubles when the disk had to
//! start again before the stop paid off, and halves when it did (Douglis, Krishnan and Bershad, *Adaptive disk spin-down
//! policies for mobile computers*, 1995, of whose rules this is the simplest).
//!
//! Cost: a few additions for each movement; a step for each level that a pause reaches. File: `account` what is reported.

mod account;

use nandu_base::{BuildError, Instant, Span};
use schemars::JsonSchema;
use serde::Deserialize;

/// Most levels of rest.
pub const LEVELS: usize = 4;

/// A level of rest.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RestLevel {
    /// After so long without a command.
    pub after: Span,
    /// How long it takes to get there.
    pub enter: Span,
    /// How long it takes back.
    pub leave: Span,
    /// Power there, in mW.
    pub power_mw: u64,
    /// Mean power on the way there, in mW.
    pub enter_mw: u64,
    /// Mean power on the way back, in mW.
    pub leave_mw: u64,
    /// Whether the spindle stops.
    #[serde(default)]
    pub stops: bool,
}

/// What a drive draws.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PowerSpec {
    /// While the arm moves, in mW.
    pub seek_mw: u64,
    /// While sectors pass or are waited for, in mW.
    pub transfer_mw: u64,
    /// While it rests at full speed with the heads on a track, in mW.
    pub idle_mw: u64,
    /// Levels of rest, in the order in which they are reached.
    #[serde(default)]
    pub rest: Vec<RestLevel>,
}

/// Bounds of an adaptive time to the stop of the spindle.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Adaptive {
    /// Shortest.
    pub min: Span,
    /// Longest.
    pub max: Span,
}

impl PowerSpec {
    /// Whether the levels follow each other.
    pub fn check(&self, adaptive: Option<Adaptive>) -> Result<(), BuildError> {
        let bad = |why: String| Err(BuildError::at("power", why));
        if self.rest.len() > LEVELS {
            return bad(format!("{} levels of rest, at most {LEVELS}", self.rest.len()));
        }
        let mut reached = Span::ZERO;
        for (at, level) in self.rest.iter().enumerate() {
            if level.after < reached || level.after.0 == 0 {
                return bad(format!(
                    "rest level {at} begins after {}, before the last was reached",
                    level.after
                ));
            }
            let longest = Span::from_secs(3600);
            if level.enter > longest || level.leave > longest {
                return bad(format!("rest level {at} takes longer than 1 h to enter or leave"));
            }
            reached = level.after + level.enter;
        }
        if let Some(Adaptive { min: least, max: most }) = adaptive {
            let before = self.rest.iter().rev().skip(1).map(|l| l.after + l.enter).max().unwrap_or(Span(1));
            if !self.rest.last().is_some_and(|l| l.stops) || least < before || most < least {
                let why = format!(
                    "{least} to {most} is not a range for the last level, which must stop the spindle and follow the others"
                );
                return Err(BuildError::at("spin_down_adaptive", why));
            }
        }
        Ok(())
    }

    /// How long level `number` must last until it has saved energy, against resting in the level above it, or at full speed where there
    /// is none (the break-even time, spec D4-3).
    pub fn break_even(&self, number: usize) -> Span {
        let level = &self.rest[number];
        let above = number.checked_sub(1).map_or(self.idle_mw, |above| self.rest[above].power_mw);
        let ways = u128::from(level.enter.0) * u128::from(level.enter_mw)
            + u128::from(level.leave.0) * u128::from(level.leave_mw);
        let there = u128::from(level.enter.0 + level.leave.0) * u128::from(level.power_mw);
        let saved = u128::from(above.saturating_sub(level.power_mw)).max(1);
        Span((ways.saturating_sub(there) / saved).min(u128::from(u64::MAX)) as u64)
    }
}

/// Time in each state.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Times {
    seek: Span,
    transfer: Span,
    idle: Span,
    enter: [Span; LEVELS],
    there: [Span; LEVELS],
    leave: [Span; LEVELS],
}

impl Times {
    /// All of them.
    pub fn total(&self) -> Span {
        let levels = self.enter.iter().chain(&self.there).chain(&self.leave);
        levels.fold(self.seek + self.transfer + self.idle, |sum, &t| sum + t)
    }
}

/// Where a rest is at an instant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Depth {
    /// Levels entered; 0 is idle at full speed.
    levels: usize,
    /// When the last of them is reached.
    reached: Instant,
}

/// The state of a drive.
#[derive(Clone, Debug)]
pub struct Power {
    spec: PowerSpec,
    adaptive: Option<Adaptive>,
    times: Times,
    /// Accounted up to here.
    mark: Instant,
    /// Accounted from here.
    since: Instant,
    /// The last command or the last movement, whichever ended later.
    idle_since: Instant,
    /// The parents were told that the spindle stopped.
    pub announced: bool,
    starts: u64,
    unloads: u64,
    /// As it was when the counting began, with nothing counted.
    at_reset: Option<Box<Power>>,
}

impl Power {
    /// A drive at full speed.
    pub fn new(spec: PowerSpec, adaptive: Option<Adaptive>) -> Power {
        Power {
            spec,
            adaptive,
            times: Times::default(),
            mark: Instant::ZERO,
            since: Instant::ZERO,
            idle_since: Instant::ZERO,
            announced: false,
            starts: 0,
            unloads: 0,
            at_reset: None,
        }
    }

    /// The power comes on at `now`, the disk at full speed.
    pub fn begin(&mut self, now: Instant) {
        (self.mark, self.since, self.idle_since) = (now, now, now);
    }

    /// Whether there is a level to reach.
    #[inline]
    pub fn rests(&self) -> bool {
        !self.spec.rest.is_empty()
    }

    fn depth(&self, at: Instant) -> Depth {
        let mut depth = Depth { levels: 0, reached: self.idle_since };
        for level in &self.spec.rest {
            let begins = self.idle_since + level.after;
            if begins >= at {
                break;
            }
            depth = Depth { levels: depth.levels + 1, reached: begins + level.enter };
        }
        depth
    }

    /// Accounts the rest up to `at`.
    #[inline]
    pub fn rest_until(&mut self, at: Instant) {
        if at <= self.mark {
            return;
        }
        let first = self.spec.rest.first().map_or(at, |level| self.idle_since + level.after);
        if at <= first {
            self.times.idle += at.since(self.mark);
            self.mark = at;
            return;
        }
        self.rest_deeper(at);
    }

    fn rest_deeper(&mut self, at: Instant) {
        let account = |times: &mut Span, until: Instant, mark: &mut Instant| {
            let until = until.min(at);
            if until > *mark {
                *times += until.since(*mark);
                *mark = until;
            }
        };
        let mark = &mut self.mark;
        for (number, level) in self.spec.rest.iter().enumerate() {
            let begins = self.idle_since + level.after;
            match number {
                0 => account(&mut self.times.idle, begins, mark),
                _ => account(&mut self.times.there[number - 1], begins, mark),
            }
            account(&mut self.times.enter[number], begins + level.enter, mark);
        }
        if let Some(deepest) = self.spec.rest.len().checked_sub(1) {
            account(&mut self.times.there[deepest], at, mark);
        }
    }

    /// A command that needs no arm comes at `at`: a disk at full speed rests anew, one that stands still stays so.
    #[inline]
    pub fn command(&mut self, at: Instant) {
        self.rest_until(at);
        if at > self.idle_since && self.rests() && self.depth(at).levels == 0 {
            self.idle_since = at;
        }
    }

    /// The arm is wanted at `at`: when it can set off.
    #[inline]
    pub fn wake(&mut self, at: Instant) -> Instant {
        if at <= self.mark {
            // It has worked until then.
            return at;
        }
        self.rest_until(at);
        if !self.rests() {
            return at;
        }
        let depth = self.depth(at);
        if depth.levels == 0 {
            self.idle_since = at.later(self.idle_since);
            return at;
        }
        self.leave(at, depth)
    }

    fn leave(&mut self, at: Instant, depth: Depth) -> Instant {
        let number = depth.levels - 1;
        let reached = depth.reached.later(at);
        self.times.enter[number] += reached.since(self.mark);
        let level = &self.spec.rest[number];
        let ready = reached + level.leave;
        self.times.leave[number] += level.leave;
        let stops = level.stops;
        if let Some(Adaptive { min: least, max: most }) = self.adaptive.filter(|_| stops) {
            let lasted = reached.since(self.idle_since + level.after);
            let paid = lasted >= self.spec.break_even(number);
            let after = &mut self.spec.rest[number].after;
            *after = Span(if paid { after.0 / 2 } else { after.0 * 2 }.clamp(least.0, most.0));
        }
        self.starts += u64::from(stops);
        self.unloads += u64::from(!stops);
        (self.mark, self.idle_since) = (ready, ready);
        ready
    }

    /// The arm moves, then sectors pass, from where the accounts are.
    #[inline]
    pub fn works(&mut self, from: Instant, seek: Span, transfer: Span) {
        self.rest_until(from);
        self.times.seek += seek;
        self.times.transfer += transfer;
        self.mark += seek + transfer;
        self.idle_since = self.mark.later(self.idle_since);
    }

    /// When the next level begins, seen from `now`; `None` when there is none.
    pub fn next_level(&self, now: Instant) -> Option<Instant> {
        self.spec.rest.iter().map(|level| self.idle_since + level.after).find(|&at| at >= now)
    }

    /// Whether the spindle stands still at `at`, or is about to.
    pub fn stands(&self, at: Instant) -> bool {
        self.depth(at).levels.checked_sub(1).is_some_and(|number| self.spec.rest[number].stops)
    }

    /// Time to leave the level reached at `at`.
    pub fn time_to_wake(&self, at: Instant) -> Span {
        match self.depth(at) {
            Depth { levels: 0, .. } => Span::ZERO,
            Depth { levels, reached } => {
                Span(reached.0.saturating_sub(at.0)) + self.spec.rest[levels - 1].leave
            }
        }
    }

    /// Starts counting anew.
    pub fn reset(&mut self) {
        (self.times, self.since) = (Times::default(), self.mark);
        (self.starts, self.unloads) = (0, 0);
        self.at_reset = None;
        self.at_reset = Some(Box::new(self.clone()));
    }

    /// Whether the times add up to what has passed.
    pub fn is_sound(&self) -> bool {
        self.times.total() == self.mark.since(self.since)
    }

    /// The times, and the end of what they cover.
    pub fn times(&self) -> (Times, Instant) {
        (self.times, self.mark)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandu_base::{EnergyPart, Rng};

    fn spec() -> PowerSpec {
        let level = |after, enter, leave, power_mw, stops| RestLevel {
            after: Span::from_secs(after),
            enter: Span::from_ms(enter),
            leave: Span::from_ms(leave),
            power_mw,
            enter_mw: 1000,
            leave_mw: 4000,
            stops,
        };
        PowerSpec {
            seek_mw: 2300,
            transfer_mw: 2000,
            idle_mw: 1000,
            rest: vec![level(2, 500, 400, 800, false), level(10, 1500, 3500, 200, true)],
        }
    }

    #[test]
    fn a_pause_goes_down_the_levels_and_the_energy_is_their_sum() {
        let mut p = Power::new(spec(), None);
        p.works(Instant::ZERO, Span::from_ms(10), Span::from_ms(90));
        // Rests from 0.1 s: heads unloaded from 2.1 to 2.6 s, stopped from 10.1 to 11.6 s, wanted at 20.1 s.
        let at = Instant(20_100_000_000);
        assert!(p.stands(at));
        let ready = p.wake(at);
        assert_eq!(ready, Instant(23_600_000_000));
        assert!(p.is_sound());
        let mj =
            [10 * 2300, 90 * 2000, 2000 * 1000, 500 * 1000, 7500 * 800, 1500 * 1000, 8500 * 200, 3500 * 4000];
        assert_eq!(p.energy_nj(), mj.iter().sum::<u64>() * 1000);
        assert_eq!(p.starts, 1);
    }

    #[test]
    fn an_account_covers_what_was_counted_and_no_more() {
        let mut p = Power::new(spec(), None);
        p.works(Instant::ZERO, Span::from_ms(10), Span::from_ms(90));
        // The counting begins at 1 s, in the middle of a rest; the drive stops from 10.1 s on.
        p.reset();
        let mut out = Vec::new();
        p.account(Instant(1_000_000_000), Instant(12_600_000_000), &mut out);
        let used: Vec<_> =
            out.iter().filter(|e| e.time_ns > 0).map(|e| (e.state, e.time_ns / 1_000_000)).collect();
        let want = [
            ("idle", 1100),
            ("unload", 500),
            ("low power idle", 7500),
            ("spin down", 1500),
            ("standby", 1000),
        ];
        assert_eq!(used, want);
        assert!(out.iter().all(EnergyPart::is_sound));
        // An account changes nothing.
        assert_eq!(p.wake(Instant(20_100_000_000)), Instant(23_600_000_000));
    }

    #[test]
    fn a_drive_that_is_wanted_while_it_slows_down_stops_first() {
        let mut p = Power::new(spec(), None);
        p.works(Instant::ZERO, Span::ZERO, Span::from_ms(100));
        assert_eq!(p.wake(Instant(10_200_000_000)), Instant(11_600_000_000 + 3_500_000_000));
        assert!(p.is_sound());
    }

    #[test]
    fn the_accounts_do_not_depend_on_how_often_they_are_made_up() {
        for seed in 0..100 {
            let mut rng = Rng::new(seed);
            let (mut once, mut often) = (Power::new(spec(), None), Power::new(spec(), None));
            let mut now = Instant::ZERO;
            for _ in 0..20 {
                let next = now + Span(rng.below(25_000_000_000));
                for _ in 0..rng.below(4) {
                    let between = Instant(rng.between(now.0, next.0));
                    often.rest_until(between);
                }
                let (a, b) = (once.wake(next), often.wake(next));
                assert_eq!(a, b, "seed {seed}");
                let work = Span(rng.below(20_000_000));
                once.works(a, Span(1000), work);
                often.works(a, Span(1000), work);
                assert_eq!((once.times, once.mark), (often.times, often.mark), "seed {seed}");
                assert!(once.is_sound(), "seed {seed}");
                now = once.mark;
            }
        }
    }

    #[test]
    fn the_break_even_time_is_that_of_the_formula() {
        // (1.5 s x 1 W + 3.5 s x 4 W - 5 s x 0.2 W) / (0.8 W - 0.2 W), and against 1 W where the heads stay on the disk.
        let mut spec = spec();
        assert_eq!(spec.break_even(1), Span(24_166_666_666));
        spec.rest.remove(0);
        assert_eq!(spec.break_even(0), Span(18_125_000_000));
    }

    #[test]
    fn an_adaptive_time_doubles_when_the_stop_did_not_pay_and_halves_when_it_did() {
        let bounds = Adaptive { min: Span::from_secs(5), max: Span::from_secs(30) };
        let mut p = Power::new(spec(), Some(bounds));
        p.wake(Instant(12_000_000_000));
        assert_eq!(p.spec.rest[1].after, Span::from_secs(20));
        let start = p.mark;
        p.wake(start + Span::from_secs(60));
        assert_eq!(p.spec.rest[1].after, Span::from_secs(10));
        let no_stop = PowerSpec { rest: vec![spec().rest[0].clone()], ..spec() };
        assert_eq!(no_stop.check(Some(bounds)).unwrap_err().key, Some("spin_down_adaptive".into()));
    }
}
