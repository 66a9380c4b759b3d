//! Profiles of hard disks: what a data sheet says, and the drive that follows from it.
//!
//! A data sheet gives capacity, speed, heads and the sustained transfer rates at both edges, not the zones. They are made
//! from that: as many zones of equal width as the profile says, the sectors of a track falling evenly from the outermost
//! to the innermost, as many cylinders as the capacity needs. Skew hides a head switch and a step to the next cylinder; a
//! sustained rate is that of whole tracks with their skew, so a track has the sectors that pass in both.
//!
//! A profile is a TOML file in `profiles/` with one source for each figure; a new drive is a new file and one line in
//! [`PROFILES`].

use super::buffer::{BufferSpec, ReadAhead};
use super::drive::{ByLast, Controller, Drive};
use super::geometry::{Geometry, Layout, Zone};
use super::mechanics::{Mechanics, skew_for};
use super::power::PowerSpec;
use super::seek::{SeekCurve, SeekTable};
use super::write_cache::WriteCacheSpec;
use crate::profiles;
use nandu_base::{BuildError, ByteLen, SECTOR, Span};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// Every profile that ships, by file.
const PROFILES: &[&str] = &[
    include_str!("../../profiles/samsung-hm080hi.toml"),
    include_str!("../../profiles/desktop-2010.toml"),
    include_str!("../../profiles/nearline-2024.toml"),
];

/// A kind of drive.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HddProfile {
    /// The word after `profile =`.
    pub name: String,
    /// Bytes for the host.
    pub capacity: ByteLen,
    /// Revolutions per minute.
    pub rpm: u64,
    /// Surfaces with data.
    pub heads: u32,
    /// Zones.
    pub zones: u32,
    /// Sustained rate at the outer edge, in bytes per second.
    pub outer_bytes_per_second: u64,
    /// Sustained rate at the inner edge, in bytes per second.
    pub inner_bytes_per_second: u64,
    /// Order of the tracks.
    pub layout: Layout,
    /// Arm movement.
    pub seek: SeekCurve,
    /// From one head to another.
    pub head_switch: Span,
    /// What a write settles longer.
    pub write_settle: Span,
    /// Before a command has any effect.
    pub command_overhead: Span,
    /// Speed of the link.
    pub link_bandwidth: u64,
    /// Segments of the track buffer.
    pub segments: u32,
    /// Size of a segment.
    pub segment: ByteLen,
    /// How far the drive reads on.
    pub read_ahead: ReadAhead,
    /// Bytes of the write cache.
    pub write_cache: ByteLen,
    /// Writes in the write cache.
    pub write_cache_commands: u32,
    /// Commands that the drive takes at once.
    pub queue_depth: u32,
    /// Power states.
    pub power: PowerSpec,
    /// Where each figure comes from.
    pub source: BTreeMap<String, String>,
}

impl HddProfile {
    /// All profiles, in the order of the list. They are read once: every start of a disk asks for one.
    pub fn all() -> &'static [HddProfile] {
        static ALL: LazyLock<Vec<HddProfile>> = LazyLock::new(|| profiles::read(PROFILES));
        &ALL
    }

    /// The profile of this name.
    pub fn named(name: &str) -> Result<HddProfile, BuildError> {
        profiles::named(HddProfile::all(), name, |profile| &profile.name)
    }

    /// One revolution.
    pub fn revolution(&self) -> Span {
        Span(60_000_000_000 / self.rpm)
    }

    /// Sectors on a track of a zone, when the step to the next track takes `step`.
    fn sectors_per_track(&self, zone: u32, step: Span) -> u32 {
        let track = u128::from((self.revolution() + step).0);
        let sectors = |rate: u64| (u128::from(rate) * track / (1_000_000_000 * u128::from(SECTOR))) as u64;
        let (outer, inner) = (sectors(self.outer_bytes_per_second), sectors(self.inner_bytes_per_second));
        let steps = u64::from(self.zones - 1).max(1);
        (outer - (outer - inner) * u64::from(zone) / steps) as u32
    }

    /// Zones of equal width that hold the capacity.
    fn make_zones(&self, single: Span) -> Vec<Zone> {
        let blocks = self.capacity.0 / SECTOR;
        let step = single + self.write_settle;
        let track: u64 = (0..self.zones).map(|z| u64::from(self.sectors_per_track(z, step))).sum();
        let cylinders = blocks.div_ceil(track * u64::from(self.heads)) as u32;
        let (revolution, switch) = (self.revolution(), self.head_switch + self.write_settle);
        let zone = |number: u32| {
            let sectors = self.sectors_per_track(number, step);
            Zone {
                first_cylinder: number * cylinders,
                cylinders,
                sectors_per_track: sectors,
                first_angle: 0,
                track_skew: skew_for(switch, revolution, sectors),
                cylinder_skew: skew_for(step, revolution, sectors),
                runs: vec![(0, u64::from(sectors) * u64::from(cylinders) * u64::from(self.heads))],
            }
        };
        (0..self.zones).map(zone).collect()
    }

    /// The drive, with the first `capacity` bytes in use.
    pub fn drive(&self, capacity: ByteLen) -> Result<Drive, BuildError> {
        // The step to the next cylinder is in the curve, whatever the number of cylinders is.
        let single = Span(SeekTable::new(&self.seek, 2)?.time(1));
        let blocks = capacity.0 / SECTOR;
        let geometry = Geometry::new(self.heads, self.layout, self.make_zones(single), Some(blocks))?;
        let seek = SeekTable::of_part(&self.seek, geometry.cylinders(), geometry.cylinders_in_use())?;
        let overhead = ByLast::both(self.command_overhead);
        let block_ps = SECTOR * 1_000_000_000_000 / self.link_bandwidth;
        Ok(Drive {
            mechanics: Mechanics {
                geometry,
                seek,
                head_switch: self.head_switch,
                write_settle: self.write_settle.0 as i64,
                revolution: self.revolution(),
            },
            controller: Controller {
                read_hit: overhead,
                read_miss: overhead,
                write: overhead,
                write_cached: overhead,
                block_to_host_ps: block_ps,
                block_from_host_ps: block_ps,
                ..Controller::default()
            },
            buffer: BufferSpec {
                segments: self.segments,
                blocks: self.segment.0 / SECTOR,
                read_ahead: self.read_ahead,
                keeps_what_was_read: true,
                hits_on_writes: true,
                separate_writes: false,
                resumes_on_hit: true,
                joins_stream: true,
                keeps_what_passes: false,
                reads_any_order: true,
                writes_any_order: true,
                stops_in_sector: true,
            },
            write_cache: Some(WriteCacheSpec {
                blocks: self.write_cache.0 / SECTOR,
                commands: self.write_cache_commands,
            }),
            power: self.power.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_of_every_profile_has_a_source() {
        for profile in HddProfile::all() {
            for figure in [
                "capacity",
                "rpm",
                "heads",
                "zones",
                "outer_bytes_per_second",
                "inner_bytes_per_second",
                "layout",
                "seek",
                "head_switch",
                "write_settle",
                "command_overhead",
                "link_bandwidth",
                "segments",
                "segment",
                "read_ahead",
                "write_cache",
                "write_cache_commands",
                "queue_depth",
                "power",
            ] {
                assert!(profile.source.contains_key(figure), "{}: {figure} has no source", profile.name);
            }
        }
    }

    #[test]
    fn every_profile_is_a_drive_of_its_capacity() {
        for profile in HddProfile::all() {
            let drive = profile.drive(profile.capacity).unwrap();
            assert_eq!(drive.mechanics.geometry.blocks() * SECTOR, profile.capacity.0, "{}", profile.name);
            profile.power.check(None).unwrap();
            assert!((1..=256).contains(&profile.queue_depth), "{}", profile.name);
        }
    }

    #[test]
    fn a_slip_in_the_name_is_answered_with_the_nearest() {
        let error = HddProfile::named("desktop-2001").unwrap_err();
        assert!(error.reason.contains("did you mean `desktop-2010`?"), "{error}");
    }
}
