//! Random lives of a mirror: everything at once, from a seed.

use crate::harness::Subject;
use crate::world::{Setup, World};
use nandu_array::mirror::Failback;
use nandu_array::mirror::hetero::{AckMode, DelayOrder, FlushMode, Manager, OnLimit, WaitBasis, WaitLimit};
use nandu_base::{Admin, ByteLen, Op, OpenOptions, Rng, Span};
use std::collections::BTreeMap;

/// What may happen.
#[derive(Clone, Copy)]
pub struct Mix {
    pub cuts: bool,
    pub deaths: bool,
    pub losses: bool,
    pub bad_sectors: bool,
    pub bad_writes: bool,
    pub freezes: bool,
    /// A cut after which one leg stays away and the other is started alone.
    pub alone: bool,
    /// Scrubs, planned swaps, replaced legs.
    pub admin: bool,
    /// A leg does not take some place until the next start.
    pub bad_places: bool,
}

pub const ALL: Mix = Mix {
    cuts: true,
    deaths: true,
    losses: true,
    bad_sectors: true,
    bad_writes: true,
    freezes: true,
    alone: true,
    admin: true,
    bad_places: false,
};
const BAD_PLACES: Mix = Mix { bad_places: true, ..ALL };

/// Legs of a mirror that takes no more in its life.
const MOST_LEGS: usize = 4;

struct Life {
    world: World,
    rng: Rng,
    mix: Mix,
    /// Legs that are away.
    lost: Vec<usize>,
    /// A leg was replaced, and may still be blank.
    create: bool,
    /// A sector is unreadable on some leg, or a leg failed: errors may reach the client.
    hurt: bool,
}

/// One life; the first thing that went wrong.
pub fn live(setup: Setup, mix: Mix, steps: u32) -> Result<(), String> {
    live_and_count(setup, mix, steps, &mut BTreeMap::new())
}

/// As [`live`]; adds up the figures of the mirror.
fn live_and_count(
    setup: Setup,
    mix: Mix,
    steps: u32,
    figures: &mut BTreeMap<&'static str, u64>,
) -> Result<(), String> {
    let rng = Rng::new(setup.seed ^ 0x5EED);
    let mut life = Life { world: World::new(setup), rng, mix, lost: Vec::new(), create: false, hurt: false };
    let create = OpenOptions { create: true, ..OpenOptions::default() };
    if let Err(e) = life.world.open(create) {
        return Err(format!("the first start fails: {e}"));
    }
    for _ in 0..steps {
        life.act();
        if let Some(wrong) = life.world.wrong.take() {
            return Err(wrong);
        }
    }
    life.finish();
    life.world.keep_figures();
    for (name, value) in &life.world.figures {
        *figures.entry(name).or_default() += value;
    }
    life.world.wrong.take().map_or(Ok(()), Err)
}

impl Life {
    fn extent(&mut self) -> (u64, u64) {
        // Few hot places, so that things meet.
        let spots = self.world.sectors() / 128;
        let spot = self.rng.below(spots) * 128;
        let first = spot + self.rng.below(12);
        let count = self.rng.between(1, 16);
        if self.rng.below(12) == 0 {
            return (spot.saturating_sub(self.rng.below(spot + 1)), self.rng.between(64, 128));
        }
        (first, count)
    }

    fn act(&mut self) {
        let (first, count) = self.extent();
        match self.rng.below(44) {
            0..=11 => drop(self.world.write(first, count)),
            12 => drop(self.world.change(Op::Write, first, count, true)),
            13 => drop(self.world.change(Op::Trim, first, count, false)),
            14 => drop(self.world.change(Op::WriteZeroes, first, count, false)),
            15..=20 => drop(self.world.read(first, count)),
            21..=23 => drop(self.world.flush()),
            24..=31 => {
                let n = self.rng.between(1, 12) as usize;
                self.world.run(n);
            }
            32 => self.world.run(2000),
            33 | 34 if self.mix.losses => self.lose_or_return(),
            35 if self.mix.cuts => self.cut(),
            36 if self.mix.deaths && self.rng.below(2) == 0 => self.death(),
            37 if self.mix.bad_sectors && self.lost.is_empty() => {
                let leg = self.rng.below(self.world.legs() as u64) as usize;
                self.world.disk(leg).bad.insert(first);
                self.hurt = true;
            }
            38 if self.mix.bad_writes && self.lost.is_empty() && self.may_go_bad() => self.bad_write(),
            39 if self.mix.freezes => {
                let (leg, ms) = (self.rng.below(self.world.legs() as u64) as usize, self.rng.between(1, 20));
                self.world.freeze(leg, Span::from_us(ms * ms * 50));
            }
            40..=43 if self.mix.admin => self.admin(),
            _ => self.world.run(30),
        }
    }

    fn may_go_bad(&mut self) -> bool {
        self.mix.bad_places || self.rng.below(4) == 0
    }

    fn bad_write(&mut self) {
        let leg = self.rng.below(self.world.legs() as u64) as usize;
        let place = self.mix.bad_places.then(|| self.extent());
        let mut disk = self.world.disk(leg);
        match self.rng.below(3) {
            0 | 1 if place.is_some() => {
                disk.rejects.extend(place.into_iter().flat_map(|(at, count)| at..at + count))
            }
            0 => disk.fail_writes = 1,
            1 => disk.fail_writes = 4,
            _ => disk.fail_flush = true,
        }
        drop(disk);
        self.world.may_lose = true;
        self.hurt = true;
    }

    fn admin(&mut self) {
        let leg = self.rng.below(self.world.legs() as u64) as u8;
        if self.world.opened() != Some(Ok(())) {
            return;
        }
        // What is refused changes nothing.
        match self.rng.below(9) {
            8 if self.world.setup.hetero.is_none()
                && self.world.legs() < MOST_LEGS
                && self.lost.is_empty() =>
            {
                if let Ok(leg) = self.world.extend() {
                    self.create = true;
                    match self.rng.below(3) {
                        0 => self.lost.push(leg), // it comes later
                        _ => self.world.back(leg),
                    }
                }
            }
            0..=3 => drop(self.world.admin(Admin::Scrub { mends: None })),
            4 => drop(self.world.admin(Admin::StopScrub)),
            5 | 6 => drop(self.world.admin(Admin::Lead(leg))),
            _ if self.lost.is_empty() && self.world.is_whole() => {
                self.create |= self.world.replace(usize::from(leg), "in a life").is_ok();
            }
            _ => {}
        }
    }

    fn lose_or_return(&mut self) {
        let legs = self.world.legs();
        let may_lose = self.lost.len() + 1 < legs && (self.lost.is_empty() || self.rng.below(2) == 0);
        if may_lose {
            let leg = self.rng.below(legs as u64) as usize;
            if !self.lost.contains(&leg) {
                self.world.lose(leg);
                self.lost.push(leg);
            }
        } else if self.rng.below(3) > 0 {
            let leg = self.lost.remove(0);
            self.world.back(leg);
        }
    }

    fn cut(&mut self) {
        // Only a pair that both legs know of may be parted by force; anything else is a fork made by the operator.
        let pair = self.world.opened() == Some(Ok(())) && self.world.is_whole();
        self.world.cut();
        let mut alone = false;
        // The legs that are away are away still, or are back: both must work when the others say that they go on without them; a
        // mirror of which one in force is missing must not start.
        if !self.lost.is_empty() {
            if self.rng.below(2) == 0 {
                for leg in std::mem::take(&mut self.lost) {
                    self.world.disk(leg).lost = false;
                }
            }
        } else if self.mix.alone && pair && self.rng.below(3) == 0 {
            let legs = self.world.legs();
            let leg = self.rng.below(legs as u64) as usize;
            self.lost.push(leg);
            if legs > 2 && self.rng.below(2) == 0 {
                self.lost.push((leg + 1) % legs);
            }
            for &leg in &self.lost {
                self.world.disk(leg).lost = true;
            }
            self.world.may_lose = true;
            alone = true;
        }
        self.start(OpenOptions { alone, create: self.create, ..OpenOptions::default() });
    }

    fn death(&mut self) {
        self.world.die();
        self.start(OpenOptions { create: self.create, ..OpenOptions::default() });
        // What was read from a cache must survive the next cut.
        if self.rng.below(2) == 0 && self.lost.is_empty() {
            self.world.read_all();
            self.cut();
        }
    }

    fn start(&mut self, how: OpenOptions) {
        self.heal_flush();
        if self.mix.cuts && self.rng.below(3) == 0 {
            // Cut again inside the start, or soon after.
            self.world.boot(how);
            let n = self.rng.between(1, 120) as usize;
            self.world.run(n);
            self.world.cut();
        }
        if let Err(error) = self.world.open(how) {
            self.refused(&error.to_string());
        }
        if self.rng.below(2) == 0 {
            self.world.read_all();
        }
    }

    fn heal_flush(&mut self) {
        for leg in 0..self.world.legs() {
            let mut disk = self.world.disk(leg);
            (disk.fail_writes, disk.fail_flush) = (0, false);
            disk.rejects.clear();
        }
    }

    /// With a leg away a start may be refused: the other was a pair, or lacks data. Both legs together must start.
    fn refused(&mut self, why: &str) {
        let lost = std::mem::take(&mut self.lost);
        if lost.is_empty() {
            self.world.wrong.get_or_insert(format!("all legs are there: {why}"));
            return;
        }
        self.world.cut();
        lost.iter().for_each(|&leg| self.world.disk(leg).lost = false);
        if let Err(error) = self.world.open(OpenOptions { create: self.create, ..OpenOptions::default() }) {
            self.world.wrong.get_or_insert(format!("all legs, after `{why}`: {error}"));
        }
    }

    fn finish(&mut self) {
        // A scrub that comes by itself never ends; it takes fewer events to see that all else has.
        let long = if self.world.setup.config.common.scrub.interval == Span::ZERO { 200_000 } else { 20_000 };
        for leg in 0..self.world.legs() {
            self.world.disk(leg).bad.clear();
        }
        self.heal_flush();
        for leg in std::mem::take(&mut self.lost) {
            self.world.back(leg);
        }
        self.world.run(long);
        if !self.world.is_whole() {
            // A leg that failed says nothing more: only a new start takes it in again.
            self.world.die();
            if let Err(error) = self.world.open(OpenOptions { create: self.create, ..OpenOptions::default() })
            {
                self.world.wrong.get_or_insert(format!("the last start: {error}"));
                return;
            }
        }
        self.world.run(long);
        if self.world.legs() > 2 && !self.world.is_whole() {
            self.empty_what_is_too_old();
        }
        if self.world.wrong.is_some() {
            return;
        }
        self.world.check_equal();
        self.world.read_all();
        self.world.run(long);
        self.world.close();
        if self.world.wrong.is_none() {
            self.world.check_equal();
        }
    }
}

impl Life {
    /// A leg that was away while the others changed more often than their history goes is refused until it is emptied.
    fn empty_what_is_too_old(&mut self) {
        let out: Vec<usize> =
            (0..self.world.legs()).filter(|&leg| !Setup::is_member(&mut self.world, leg)).collect();
        self.world.die();
        out.iter().for_each(|&leg| self.world.disk(leg).wipe());
        if let Err(error) = self.world.open(OpenOptions { create: true, ..OpenOptions::default() }) {
            self.world.wrong.get_or_insert(format!("a start with emptied legs: {error}"));
            return;
        }
        self.world.run(200_000);
        if !self.world.is_whole() {
            self.world.wrong.get_or_insert("a leg that was emptied does not rejoin".into());
        }
    }
}

/// Seeds of one test run.
pub fn seeds(default: u64) -> std::ops::Range<u64> {
    let read = |name: &str| std::env::var(name).ok().and_then(|v| v.parse::<u64>().ok());
    let first = read("NANDU_MIRROR_SEED").unwrap_or(0);
    first..first + read("NANDU_MIRROR_SEEDS").unwrap_or(default)
}

/// As [`setup`], a `hetero-mirror` in any of its modes. Either leg may be the slow one.
pub fn hetero_setup(seed: u64) -> Setup {
    let mut rng = Rng::new(seed ^ 0x4E7);
    let mut setup = setup(seed);
    setup.slow = *rng.pick(&[1, 5, 20, 100]);
    setup.slow_leg = rng.below(2);
    setup.hetero(|h| {
        h.write_ack = *rng.pick(&[AckMode::First, AckMode::First, AckMode::WaitLimit, AckMode::Both]);
        h.flush_scope = *rng.pick(&[FlushMode::AllLegs, FlushMode::Leader]);
        h.wait_limit = *rng.pick(&[WaitLimit::Ratio, WaitLimit::Quantile, WaitLimit::GcHint]);
        h.wait_ratio_basis = *rng.pick(&[WaitBasis::Additional, WaitBasis::Total]);
        h.delay_order = *rng.pick(&[DelayOrder::Fifo, DelayOrder::Elevator]);
        h.delay_batch = ByteLen::kib(4 << rng.below(5));
        h.delay_depth = Some(rng.between(1, 4) as u32);
        h.resume_below = Some(ByteLen::kib(rng.below(64)));
        h.max_exposed_bytes = ByteLen::kib(*rng.pick(&[64, 64, 256, 4096]));
        h.max_exposed_time = Span::from_ms(*rng.pick(&[1, 1, 5, 1000]));
        h.hedge_after = *rng.pick(&[Span::ZERO, Span::from_us(1), Span::from_us(20)]);
        h.dispatch = *rng.pick(&[Manager::Serial, Manager::Pipelined, Manager::Pipelined]);
        h.on_limit = *rng.pick(&[OnLimit::Block, OnLimit::Degrade]);
        if rng.below(6) == 0 {
            h.write_ack = AckMode::Leader;
            h.write_behind = *rng.pick(&[1, 4, 256]);
        }
        h.write_hedge = rng.below(2) == 0;
        h.critical_backlog = *rng.pick(&[0, 1, 4]);
    })
}

/// A setup that differs in its options from seed to seed.
pub fn setup(seed: u64) -> Setup {
    let mut setup = Setup::small(seed);
    if seed % 4 == 1 {
        setup.soiled = true;
        setup.config.common.initial_sync = nandu_array::member::InitialSync::Resync;
    }
    if seed % 4 == 2 {
        setup.config.read_policy = nandu_array::mirror::ReadPolicy::Leader;
    }
    if seed % 3 == 1 {
        setup.slow = 20;
    }
    if seed % 8 == 3 {
        setup.data = ByteLen::mib(3); // 48 regions for 32 places
        setup.config.common.resync_depth = 3;
    }
    if seed % 8 == 5 {
        setup.config.common.resync_rate = ByteLen::mib(512);
        setup.config.common.write_retries = 0;
    }
    if seed % 8 == 7 {
        setup.config.common.bitmap_delay = Span::from_ms(5);
    }
    let mut rng = Rng::new(seed ^ 0x0B5E);
    setup.config.common.failback = *rng.pick(&[Failback::Manual, Failback::Immediate]);
    setup.config.common.mark_ahead = *rng.pick(&[0, 1, 8]);
    setup.config.common.leg_queue_depth = rng.pick(&[[0, 0], [1, 1], [8, 2]]).to_vec();
    if seed.is_multiple_of(6) {
        setup.config.common.scrub.interval = *rng.pick(&[Span::from_ms(1), Span::from_ms(20)]);
    }
    setup.config.common.scrub.rate = *rng.pick(&[ByteLen::ZERO, ByteLen::mib(64)]);
    setup
}

#[test]
fn random_lives_end_well() {
    for seed in seeds(30) {
        if let Err(wrong) = live(setup(seed), ALL, 150) {
            panic!("seed {seed} (NANDU_MIRROR_SEED={seed} NANDU_MIRROR_SEEDS=1): {wrong}");
        }
    }
}

/// Legs that hang for up to 20 ms, with a patience of one or three.
#[test]
fn random_lives_with_a_timeout_end_well() {
    let mut figures = BTreeMap::new();
    for seed in seeds(30) {
        let mut setup = setup(seed);
        setup.config.request_timeout = Span::from_ms(1 + 2 * (seed & 1));
        if let Err(wrong) = live_and_count(setup, ALL, 150, &mut figures) {
            panic!("with a timeout, seed {seed} (NANDU_MIRROR_SEED={seed} NANDU_MIRROR_SEEDS=1): {wrong}");
        }
    }
    let timeouts = ["leg_a_timeouts", "leg_b_timeouts"].map(|name| figures.get(name).copied().unwrap_or(0));
    assert!(timeouts.iter().all(|&n| n > 0) || seeds(30).count() < 30, "{timeouts:?}");
}

#[test]
fn random_hetero_lives_end_well() {
    let mut figures = BTreeMap::new();
    let all = seeds(100);
    for seed in all.clone() {
        let setup = hetero_setup(seed);
        let options = format!("{:?}", setup.hetero);
        if let Err(wrong) = live_and_count(setup, ALL, 150, &mut figures) {
            panic!("seed {seed} (NANDU_MIRROR_SEED={seed} NANDU_MIRROR_SEEDS=1): {wrong}\n{options}");
        }
    }
    println!("{figures:#?}");
    if all.end - all.start < 100 {
        return;
    }
    // Lives in which nothing is delayed, split, exposed or lost would prove nothing.
    for name in [
        "early_acks",
        "writes_over_wait_limit",
        "leg_a_delays",
        "leg_b_delays",
        "delayed_bytes",
        "drained_pieces",
        "reads_from_queue",
        "reads_split",
        "reads_of_lost_data",
        "exposure_waits",
        "degrades",
        "reads_hedged",
        "lost_bytes_total",
        "degraded_transitions",
        "rejoins",
        "resync_bytes",
        "repairs",
        "scrub_passes",
        "leader_changes",
        "leg_a_depth_waits",
        "leg_b_depth_waits",
    ] {
        assert!(figures.get(name).is_some_and(|&n| n > 0), "no life has `{name}`");
    }
}

/// A resync takes its time, and the leader may not be left out meanwhile.
#[test]
fn random_hetero_lives_with_places_that_a_leg_does_not_take_end_well() {
    for seed in seeds(60) {
        let mut setup = hetero_setup(seed);
        setup.config.common.resync_rate = ByteLen::kib(64 << (seed % 12));
        let options = format!("{:?}", setup.hetero);
        if let Err(wrong) = live(setup, BAD_PLACES, 150) {
            panic!(
                "bad places, seed {seed} (NANDU_MIRROR_SEED={seed} NANDU_MIRROR_SEEDS=1): {wrong}\n{options}"
            );
        }
    }
}

/// Three legs: several may be away at once, and return one after another.
#[test]
fn random_lives_of_three_legs_end_well() {
    let mut figures = BTreeMap::new();
    for seed in seeds(60) {
        if let Err(wrong) = live_and_count(setup(seed).three(), ALL, 150, &mut figures) {
            panic!("three legs, seed {seed} (NANDU_MIRROR_SEED={seed} NANDU_MIRROR_SEEDS=1): {wrong}");
        }
    }
    for name in
        ["degraded_transitions", "rejoins", "resync_bytes", "repairs", "scrub_passes", "leader_changes"]
    {
        assert!(figures.get(name).is_some_and(|&n| n > 0), "no life has `{name}`");
    }
}
