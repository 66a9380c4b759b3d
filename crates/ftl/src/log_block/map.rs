//! A drive's log-block map: one [`LogBlocks`] for each plane, and which page belongs to which of them.
//!
//! To the controller it is a [`Mapping`] that tells where a page lies and chooses the page for its next version itself. Merges
//! stay inside a plane, so a copy needs no other die and no two merges meet.
//!
//! Cost: one division a page, and what the map of the plane takes.

use super::homes::Homes;
use super::region::Region;
use super::{Counts, LogBlocks};
use crate::address::{BlockId, Layout, Lpn, Ppn};
use crate::mapping::Mapping;

/// See the module's page.
pub struct LogMap {
    homes: Homes,
    layout: Layout,
    planes: Vec<Box<dyn LogBlocks>>,
}

impl LogMap {
    /// One map for each plane of `layout`.
    pub fn new(homes: Homes, layout: Layout, planes: Vec<Box<dyn LogBlocks>>) -> LogMap {
        LogMap { homes, layout, planes }
    }

    /// Which page belongs to which plane.
    pub fn homes(&self) -> &Homes {
        &self.homes
    }

    /// The map of a plane.
    pub fn plane(&self, plane: u32) -> &dyn LogBlocks {
        &*self.planes[plane as usize]
    }

    /// The same, to change.
    pub fn plane_mut(&mut self, plane: u32) -> &mut dyn LogBlocks {
        &mut *self.planes[plane as usize]
    }

    /// The physical page that a plane numbers so.
    #[inline]
    pub fn ppn(&self, plane: u32, spot: u32) -> Ppn {
        Ppn(self.layout.first_page(self.layout.first_block(plane)).0 + spot)
    }

    /// The block that a plane numbers so.
    #[inline]
    pub fn block(&self, plane: u32, block: u32) -> BlockId {
        self.layout.first_block(plane).behind(block)
    }

    /// The record of a page that is mapped.
    pub fn record(&self, lpn: Lpn) -> Option<u64> {
        let (plane, local) = self.homes.home(lpn.0);
        let region = self.plane(plane).region();
        region.at(local).map(|spot| region.tag(local, spot).word())
    }

    /// The blocks of each plane.
    pub fn regions(&self) -> impl Iterator<Item = &Region> {
        self.planes.iter().map(|map| map.region())
    }

    /// What happened in all planes since the counters were reset.
    pub fn merged(&self) -> Counts {
        let mut sum = Counts::default();
        self.regions().for_each(|region| sum.add(&region.count));
        sum
    }

    /// Log blocks in use.
    pub fn logs(&self) -> u64 {
        self.planes.iter().map(|map| u64::from(map.logs())).sum()
    }
}

impl Mapping for LogMap {
    const PAGED: bool = false;

    #[inline]
    fn get(&self, lpn: Lpn) -> Option<Ppn> {
        let (plane, local) = self.homes.home(lpn.0);
        self.plane(plane).region().at(local).map(|spot| self.ppn(plane, spot))
    }

    fn set(&mut self, _lpn: Lpn, _ppn: Ppn) -> Option<Ppn> {
        unreachable!("a log-block map chooses the pages itself")
    }

    fn clear(&mut self, _lpn: Lpn) -> Option<Ppn> {
        unreachable!("a log-block map unmaps pages of a logical block at a time")
    }

    fn reset(&mut self) {
        self.planes.iter_mut().for_each(|map| map.region_mut().reset());
    }

    fn prefetch(&self, _lpn: Lpn) {}

    fn log_blocks(&self) -> Option<&LogMap> {
        Some(self)
    }

    fn log_blocks_mut(&mut self) -> Option<&mut LogMap> {
        Some(self)
    }

    fn reset_counts(&mut self) {
        self.planes.iter_mut().for_each(|map| map.region_mut().count = Counts::default());
    }

    fn ram(&self) -> u64 {
        self.planes.iter().map(|map| map.map_ram()).sum()
    }

    fn check(&self) -> Result<(), String> {
        (0..).zip(self.regions()).try_for_each(|(plane, region): (u32, _)| {
            region.check().map_err(|what| format!("plane {plane}: {what}"))
        })
    }
}
