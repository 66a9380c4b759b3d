//! From the options of an SSD to a drive with a log-block map.

use super::{DieScheduler, GcConfig, SsdConfig, WearConfig, check_order, timing_of};
use crate::log_ssd::{LogMap, Parts};
use crate::nand::{Geometry, Lanes, Profile};
use nandu_base::{BuildContext, BuildError, Machine};
use nandu_ftl::placement::RoundRobin;

impl SsdConfig {
    /// A drive with a log-block map, which is a machine of its own.
    pub(super) fn log_drive(
        &self,
        profile: Profile,
        geometry: Geometry,
        map: LogMap,
        interleave: u32,
        cx: &BuildContext<'_>,
    ) -> Result<Box<dyn Machine>, BuildError> {
        if self.die_scheduler != DieScheduler::Fcfs {
            let why = "a drive with a log-block map merges in the order of its writes: take `fcfs`";
            return Err(BuildError::at("die_scheduler", why));
        }
        let merges = GcConfig { copyback: self.gc.copyback, ..GcConfig::default() };
        if self.gc != merges {
            let why =
                "a drive with a log-block map merges blocks when it must: only `copyback` has a meaning";
            return Err(BuildError::at("gc", why));
        }
        if self.wear != WearConfig::default() {
            let why = "wear is not levelled on drives with a log-block map: leave it out";
            return Err(BuildError::at("wear", why));
        }
        self.check_checkpoint()?;
        check_order(&self.placement)?;
        let layout = self.layout(&profile, geometry, 2)?;
        let raw = layout.real_pages();
        let logical = match self.capacity {
            Some(capacity) => capacity.0 / profile.page.0,
            None => raw.saturating_sub(self.spare_factor.of(raw)),
        };
        let timing = timing_of(&profile, self.gc.copyback);
        let sizes = [geometry.channels, geometry.chips, geometry.dies, geometry.planes];
        let turns = RoundRobin::new(self.placement, sizes, |at| geometry.plane_number(at));
        let parts = Parts {
            geometry,
            layout,
            lanes: Lanes::new(geometry.all_dies(), geometry.planes, geometry.channels, timing)
                .drawing(profile.power),
            bits_per_cell: profile.bits_per_cell().unwrap_or(1),
            endurance: profile.endurance,
            order: (0..u64::from(geometry.all_planes())).map(|turn| turns.nth(turn)).collect(),
            page: profile.page,
            logical,
            interleave,
            map,
            write_buffer: self.buffer_config(),
        };
        crate::log_ssd::assemble(parts, cx)
    }
}
