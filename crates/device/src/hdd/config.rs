//! The options of a hard disk.

use super::drive::Drive;
use super::power::{Adaptive, Power, PowerSpec};
use super::profile::HddProfile;
use super::queue::{Queue, Rule};
use super::{Hdd, disksim, limits};
use nandu_base::{
    BuildContext, BuildError, ByteLen, DeviceConfig, Kind, Machine, Plant, Registry, SECTOR, Span, options,
};
use schemars::JsonSchema;
use serde::Deserialize;

/// A hard disk.
#[options]
#[derive(Clone, Debug)]
pub struct HddConfig {
    /// The drive: a profile of `nandu list profiles`. Give this or `disksim`.
    pub profile: Option<String>,
    /// The drive, from a parameter file of DiskSim (`.parv`) and the files that it names. Give this or `profile`.
    pub disksim: Option<String>,
    /// What stands there, once it was read.
    #[serde(skip)]
    #[schemars(skip)]
    parameters: Option<Drive>,
    /// The file in which `nandu serve` keeps what the drive holds; made with `--create`. Default: memory, lost at its end. A
    /// simulation does without.
    pub store: Option<String>,
    /// Bytes in use, from the outermost track on: a drive of which only a part is used.
    #[option(unset = "the whole drive", also = "a number of sectors from 4 KiB on")]
    pub capacity: Option<ByteLen>,
    /// Who is next of the requests that wait for the arm. Default: first come, first served.
    #[serde(default)]
    pub scheduler: Rule,
    /// Requests that the rule sees at once.
    #[option(unset = "the drive's", range = 1..=256)]
    pub queue_depth: Option<u32>,
    /// A request that has waited so long goes first.
    #[option(default = Span::from_secs(1))]
    pub max_wait: Span,
    /// Whether writes are acknowledged from a volatile cache.
    #[option(unset = "as the drive comes, on where it has one")]
    pub write_cache: Option<bool>,
    /// Bytes of that cache.
    #[option(unset = "the drive's", range = ByteLen(SECTOR)..=ByteLen::gib(1024))]
    pub write_cache_size: Option<ByteLen>,
    /// Writes in that cache.
    #[option(unset = "the drive's", range = 1..=4096)]
    pub write_cache_commands: Option<u32>,
    /// Segments of the track buffer.
    #[option(unset = "the drive's", range = 1..=256)]
    pub cache_segments: Option<u32>,
    /// Size of a segment.
    #[option(unset = "the drive's", range = ByteLen(SECTOR)..=ByteLen::mib(64))]
    pub cache_segment_size: Option<ByteLen>,
    /// Whether the drive reads on after a read.
    #[option(default = true)]
    pub read_ahead: bool,
    /// The spindle stops so long after the last command; with "break-even" after as long as a stop must last to save energy, which
    /// is never more than twice what is best in hindsight.
    #[option(unset = "never")]
    pub spin_down: Option<SpinDown>,
    /// Bounds within which the drive adapts `spin_down` to how long its pauses last.
    #[option(unset = "it stays as it is")]
    pub spin_down_adaptive: Option<Adaptive>,
}

/// When the spindle stops.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "expected a time with its unit such as \"10 s\", or \"break-even\"")]
pub enum SpinDown {
    /// By a rule.
    Rule(SpinDownRule),
    /// So long after the last command.
    After(Span),
}

/// By which rule the spindle stops.
#[options]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SpinDownRule {
    /// After the time for which a stop must last to save energy.
    BreakEven,
}

const PLANTS: &[Plant] = &[
    Plant::new("hdd.flush-lies", "I-1", "a flush is acknowledged although the write cache is not empty")
        .within("hdd"),
    Plant::new("hdd.fua-is-cached", "I-1", "a write with FUA is acknowledged from the write cache")
        .within("hdd"),
    Plant::new("hdd.stale-track-buffer", "I-1", "a write leaves what the track buffer holds of its blocks")
        .within("hdd"),
    Plant::new("hdd.uncharged-destage", "I-13", "the arm's way for a cached write is charged to nobody")
        .within("hdd"),
];

/// The machine kind `hdd`.
pub fn kind() -> Kind {
    Kind::of::<HddConfig>("hdd", "a hard disk: arm, spindle, track buffer, write cache, queue, power states")
        .with_plants(PLANTS)
}

impl DeviceConfig for HddConfig {
    fn children(&self) -> Vec<String> {
        Vec::new()
    }

    fn store(&self) -> Option<&str> {
        self.store.as_deref()
    }

    fn settle(&mut self, registry: &Registry) -> Result<(), BuildError> {
        let (None, Some(path)) = (&self.profile, &self.disksim) else { return Ok(()) };
        let refuse = |why: String| BuildError::at("disksim", why);
        let read = registry.files().map_err(|why| refuse(why.into()))?;
        self.parameters =
            Some(disksim::read(path.as_ref(), read).map_err(|error| refuse(error.to_string()))?);
        Ok(())
    }

    fn build(&self, cx: &BuildContext<'_>) -> Result<Box<dyn Machine>, BuildError> {
        let (mut drive, depth) = self.drive()?;
        self.change(&mut drive)?;
        drive.power = self.power(&drive.power)?;
        let depth = self.queue_depth.unwrap_or(depth);
        let blocks = drive.mechanics.geometry.blocks();
        let limits = limits(blocks, SECTOR as u32, depth, drive.write_cache.is_some());
        let power = Power::new(drive.power.clone(), self.spin_down_adaptive);
        let queue = Queue::new(self.scheduler, depth, self.max_wait);
        Ok(Box::new(Hdd::new(drive, queue, power, limits, cx)))
    }
}

impl HddConfig {
    /// The drive as it comes, and the depth of its queue.
    fn drive(&self) -> Result<(Drive, u32), BuildError> {
        let capacity = |whole: ByteLen| {
            let capacity = self.capacity.unwrap_or(whole);
            if capacity.0 < 4096 || capacity > whole || !capacity.0.is_multiple_of(SECTOR) {
                let why = format!("{capacity} is not a number of sectors from 4 KiB to {whole}");
                return Err(BuildError::at("capacity", why));
            }
            Ok(capacity)
        };
        match (&self.profile, &self.disksim) {
            (Some(name), None) => {
                let profile = HddProfile::named(name)?;
                Ok((profile.drive(capacity(profile.capacity)?)?, profile.queue_depth))
            }
            (None, Some(path)) => {
                let unread = || {
                    BuildError::at("disksim", format!("{path} was not read: load the stack with a registry"))
                };
                let mut drive = self.parameters.clone().ok_or_else(unread)?;
                let geometry = &drive.mechanics.geometry;
                let blocks = capacity(ByteLen(geometry.blocks() * SECTOR))?.0 / SECTOR;
                drive.mechanics.geometry = geometry.clone().shortened(blocks);
                Ok((drive, 32))
            }
            _ => Err(BuildError::at("profile", "give `profile` or `disksim`, and not both")),
        }
    }

    fn change(&self, drive: &mut Drive) -> Result<(), BuildError> {
        if let Some(segments) = self.cache_segments {
            drive.buffer.segments = segments;
        }
        if let Some(segment) = self.cache_segment_size {
            drive.buffer.blocks = segment.0 / SECTOR;
        }
        if !self.read_ahead {
            drive.buffer.read_ahead = super::buffer::ReadAhead::None;
        }
        if self.write_cache == Some(false) {
            drive.write_cache = None;
        }
        let Some(cache) = &mut drive.write_cache else {
            if self.write_cache == Some(true) {
                return Err(BuildError::at("write_cache", "this drive acknowledges no write from its cache"));
            }
            return Ok(());
        };
        if let Some(size) = self.write_cache_size {
            cache.blocks = size.0 / SECTOR;
        }
        if let Some(commands) = self.write_cache_commands {
            cache.commands = commands;
        }
        Ok(())
    }

    /// The power states that are in use: the spindle stops only where that is asked for.
    fn power(&self, of_drive: &PowerSpec) -> Result<PowerSpec, BuildError> {
        let mut power = of_drive.clone();
        match self.spin_down {
            None => power.rest.retain(|level| !level.stops),
            Some(spin_down) => {
                let Some(number) = power.rest.iter().position(|level| level.stops) else {
                    return Err(BuildError::at("spin_down", "nothing is known of how this drive stops"));
                };
                let after = match spin_down {
                    SpinDown::After(after) => after,
                    SpinDown::Rule(SpinDownRule::BreakEven) => power.break_even(number),
                };
                power.rest[number].after = after;
                // Levels that would come after the stop are never reached.
                power.rest.retain(|level| level.stops || level.after + level.enter <= after);
            }
        }
        power.check(self.spin_down_adaptive)?;
        Ok(power)
    }
}
