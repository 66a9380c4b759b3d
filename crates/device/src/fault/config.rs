//! The options of `fault`.

use nandu_base::{
    BuildContext, BuildError, ByteLen, DeviceConfig, Instant, Limits, Machine, Ratio, Rng, Span, options,
};

/// Options of `fault`. Without any of them it passes everything on.
#[options]
#[derive(Clone, Debug)]
pub struct FaultConfig {
    /// The device that is to fail.
    pub below: String,
    /// Chance that a read fails in part or as a whole. The data stays: a later read may succeed.
    #[option(default = Ratio::ZERO, range = ..=Ratio::new(1, 1))]
    pub read_error_rate: Ratio,
    /// Chance that a write, trim or write-zeroes fails.
    #[option(default = Ratio::ZERO, range = ..=Ratio::new(1, 1))]
    pub write_error_rate: Ratio,
    /// Whether a write that fails leaves a part of itself in the cache, where reads find it and the next flush makes it durable, as drives do. Needs `cache`.
    /// Otherwise it changes nothing.
    #[option(default)]
    pub write_error_leaves_part: bool,
    /// Chance that a flush fails.
    #[option(default = Ratio::ZERO, range = ..=Ratio::new(1, 1))]
    pub flush_error_rate: Ratio,
    /// Chance that a write is stored with one wrong bit and succeeds. Needs a run that stores data.
    #[option(default = Ratio::ZERO, range = ..=Ratio::new(1, 1))]
    pub flip_rate: Ratio,
    /// A volatile write cache.
    #[option(unset = "none", table)]
    pub cache: Option<CacheConfig>,
    /// Time for which every request waits before the device takes it, side by side with others: a slow path, not a slow arm.
    #[option(default, off = "none", range = Span::from_us(1)..=Span::from_secs(3600))]
    pub delay: Span,
    /// Spans in which the device holds every request that comes.
    #[option(unset = "none", table)]
    pub freeze: Option<FreezeConfig>,
    /// Losses of the device; one that ends is a power cut of the device.
    #[option(unset = "none", table)]
    pub loss: Option<LossConfig>,
}

/// A volatile write cache: a write is acknowledged when it is in the cache, and destaged later, in random pieces and in
/// random order.
#[options]
#[derive(Clone, Debug)]
pub struct CacheConfig {
    /// Bytes that may wait to be destaged; one longer write fits into an empty cache.
    #[option(default = ByteLen::mib(1), range = ByteLen::kib(4)..=ByteLen::mib(64))]
    pub size: ByteLen,
    /// Mean time between two destages of a cache that is not full.
    #[option(default = Span::from_ms(5), range = Span::from_us(1)..=Span::from_secs(3600))]
    pub destage_interval: Span,
}

/// When a device freezes.
#[options]
#[derive(Clone, Debug)]
pub enum FreezeConfig {
    /// Once.
    At {
        /// Time after the start of the run.
        at: Span,
        /// How long.
        #[option(range = Span::from_us(1)..=Span::from_secs(3600))]
        duration: Span,
    },
    /// Again and again, from the seed.
    Random {
        /// Mean time from the end of one to the next; each is drawn from half to one and a half times the mean.
        #[option(range = Span::from_us(1)..=Span::from_secs(3_600_000))]
        mean_interval: Span,
        /// How long.
        #[option(range = Span::from_us(1)..=Span::from_secs(3600))]
        duration: Span,
    },
}

/// When a device is lost.
#[options]
#[derive(Clone, Debug)]
pub enum LossConfig {
    /// Once.
    At {
        /// Time after the start of the run.
        at: Span,
        /// Time until the device is back.
        #[option(unset = "never", range = Span::from_us(1)..=Span::from_secs(3_600_000))]
        outage: Option<Span>,
    },
    /// Again and again, from the seed.
    Random {
        /// Mean time from the end of one to the next; each is drawn from half to one and a half times the mean.
        #[option(range = Span::from_us(1)..=Span::from_secs(3_600_000))]
        mean_interval: Span,
        /// Mean time until the device is back, drawn alike.
        #[option(range = Span::from_us(1)..=Span::from_secs(3_600_000))]
        outage: Span,
    },
}

/// A time drawn from half to one and a half times `mean_interval`.
pub(super) fn around(mean: Span, rng: &mut Rng) -> Span {
    Span(rng.between(mean.0 / 2, mean.0 + mean.0 / 2).max(1))
}

impl FreezeConfig {
    /// When the next freeze begins after `now`, if there is one.
    pub(super) fn next(&self, now: Instant, rng: &mut Rng) -> Option<Instant> {
        match *self {
            FreezeConfig::At { at, .. } => Some(Instant::ZERO + at).filter(|&at| at > now),
            FreezeConfig::Random { mean_interval: mean, .. } => Some(now + around(mean, rng)),
        }
    }

    pub(super) fn span(&self) -> Span {
        match *self {
            FreezeConfig::At { duration: span, .. } | FreezeConfig::Random { duration: span, .. } => span,
        }
    }
}

impl LossConfig {
    /// When the next loss comes after `now`, if there is one.
    pub(super) fn next(&self, now: Instant, rng: &mut Rng) -> Option<Instant> {
        match *self {
            LossConfig::At { at, .. } => Some(Instant::ZERO + at).filter(|&at| at > now),
            LossConfig::Random { mean_interval: mean, .. } => Some(now + around(mean, rng)),
        }
    }

    /// How long a loss lasts; `None` for ever.
    pub(super) fn length(&self, rng: &mut Rng) -> Option<Span> {
        match *self {
            LossConfig::At { outage, .. } => outage,
            LossConfig::Random { outage, .. } => Some(around(outage, rng)),
        }
    }
}

impl DeviceConfig for FaultConfig {
    fn children(&self) -> Vec<String> {
        vec![self.below.clone()]
    }

    fn build(&self, cx: &BuildContext<'_>) -> Result<Box<dyn Machine>, BuildError> {
        if self.write_error_leaves_part && self.cache.is_none() {
            let why = "a part of a failed write stays in the cache: give the device a `cache`";
            return Err(BuildError::at("write_error_leaves_part", why));
        }
        let below = cx.only_child();
        if self.cache.is_some() && (below.program_order || below.erase_unit.is_some()) {
            let why = format!("`{}` takes its writes in order; a cache would reorder them", self.below);
            return Err(BuildError::at("cache", why));
        }
        let limits = Limits { volatile_cache: below.volatile_cache || self.cache.is_some(), ..below.clone() };
        Ok(Box::new(super::Fault::new(self.clone(), limits, cx)))
    }
}
