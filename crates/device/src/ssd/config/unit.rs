//! The option `reclaim_unit`: what is opened, collected and erased as one. See [`nandu_ftl::units`].

use super::{DieScheduler, SsdConfig};
use crate::nand::Geometry;
use nandu_base::{BuildContext, BuildError, options};
use nandu_ftl::placement::{Order, RoundRobin};
use nandu_ftl::{Layout, Units};

/// What is opened, collected and erased as one. Options that count blocks count these.
#[options]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Unit {
    /// A block.
    #[default]
    Plane,
    /// A block in each plane of a die.
    Die,
    /// A block in every plane of the drive.
    Superblock,
}

impl Unit {
    /// Planes over which a unit goes.
    fn width(self, geometry: Geometry) -> u32 {
        match self {
            Unit::Plane => 1,
            Unit::Die => geometry.planes,
            Unit::Superblock => geometry.all_planes(),
        }
    }

    /// The turns of the groups of planes over which units go.
    pub(super) fn turns(self, order: Order, geometry: Geometry) -> RoundRobin {
        let Geometry { channels, chips, dies, planes } = geometry;
        match self {
            Unit::Plane => {
                RoundRobin::new(order, [channels, chips, dies, planes], |at| geometry.plane_number(at))
            }
            Unit::Die => {
                RoundRobin::new(order, [channels, chips, dies, 1], |at| geometry.plane_number(at) / planes)
            }
            Unit::Superblock => RoundRobin::new(order, [1; 4], |_| 0),
        }
    }
}

impl SsdConfig {
    /// Refuses what cannot be with units of several blocks.
    pub(super) fn check_unit(&self) -> Result<(), BuildError> {
        if self.gc.whole_stripes {
            self.check_whole_stripes()?;
        }
        if self.reclaim_unit == Unit::Plane {
            return Ok(());
        }
        if self.checkpoint_interval.is_some() {
            let why = "a checkpoint names pages by their place in a unit, which a power cut may change: take `reclaim_unit = \"plane\"`";
            return Err(BuildError::at("checkpoint_interval", why));
        }
        Ok(())
    }

    /// Refuses whole stripes where they could act on nothing.
    fn check_whole_stripes(&self) -> Result<(), BuildError> {
        let why = if self.reclaim_unit.width(self.geometry()) == 1 {
            "a unit of one block has no stripes: take a `reclaim_unit` of several"
        } else if self.geometry().planes == 1 {
            "dies of one plane have no multi-plane operations: leave it out"
        } else if !self.gc.separate_frontier {
            "the host's pages would stand in stripes that moved pages begin: `separate_frontier` must be true"
        } else if self.gc.copyback {
            "a page that moves inside its die shares no operation: `copyback` must be false"
        } else if self.die_scheduler != DieScheduler::Fcfs {
            "with the die scheduler `out-of-order` pages that move share no operation: take `fcfs`"
        } else {
            return Ok(());
        };
        Err(BuildError::at("gc.whole_stripes", why))
    }

    /// The blocks of the drive, put together.
    pub(super) fn units(
        &self,
        chips: Layout,
        geometry: Geometry,
        cx: &BuildContext<'_>,
    ) -> Result<Units, BuildError> {
        let width = self.reclaim_unit.width(geometry);
        let planes = match self.reclaim_unit {
            Unit::Plane | Unit::Die => (0..chips.planes).collect(),
            Unit::Superblock => {
                super::check_order(&self.allocation_order)?;
                let turns = Unit::Plane.turns(self.allocation_order, geometry);
                (0..u64::from(chips.planes)).map(|turn| turns.nth(turn)).collect()
            }
        };
        let rules = self.wear.rules(0, 1, cx.name);
        Units::new(chips, width, planes, |block| rules.is_factory_bad(&chips, block))
            .map_err(|why| BuildError::at("reclaim_unit", why.to_string()))
    }
}
