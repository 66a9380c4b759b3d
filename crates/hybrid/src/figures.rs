//! What the machine counts, and how it reports it.

use crate::machine::Hybrid;
use nandu_base::Report;

/// What happened since the counters were reset. Pages, unless said otherwise.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Counts {
    pub host_read: u64,
    pub host_written: u64,
    pub dram_hits: u64,
    pub ring_hits: [u64; 2],
    pub disk_reads: u64,
    pub fills: u64,
    pub appended: [u64; 2],
    pub headers: [u64; 2],
    pub promoted: u64,
    pub ahead_pages: u64,
    pub told_pages: u64,
    pub told_late_pages: u64,
    pub rewritten: [u64; 2],
    pub demoted: u64,
    pub kept_below: u64,
    pub frames_appended: u64,
    pub demoted_to_disk: u64,
    pub dropped_clean: u64,
    pub erases: [u64; 2],
    pub collections: [u64; 2],
    pub bypassed_writes: u64,
    pub marks: u64,
    pub commits: u64,
    pub failures: u64,
    pub recoveries: u64,
    pub headers_mended: u64,
    pub destaged: u64,
    /// How often the rings were left out, and taken.
    pub ring_departures: u64,
    pub ring_returns: u64,
    /// Regions that became dirty on the disk, and clean; pages of the map that were written for it.
    pub regions_marked: u64,
    pub regions_cleared: u64,
    pub region_map_writes: u64,
    /// Requests that failed because what they are about was lost with the rings.
    pub lost_requests: u64,
}

impl Hybrid {
    /// Bytes that went into DRAM or out of it.
    pub(crate) fn moved_in_dram(&self) -> u64 {
        let c = &self.count;
        let from_below = c.ring_hits[0] + c.ring_hits[1] + c.disk_reads;
        (c.host_written + from_below + c.host_read + c.frames_appended) * self.page
    }

    /// Reports every figure, in a stated order.
    pub(crate) fn put_figures(&self, report: &mut Report) {
        let c = &self.count;
        let mut put = |name, value| report.put(name, value);
        let bytes = |pages: u64| pages * self.page;
        put("host_pages_read", c.host_read);
        put("host_pages_written", c.host_written);
        put("dram_hits", c.dram_hits);
        put("slc_hits", c.ring_hits[0]);
        put("mlc_hits", c.ring_hits[1]);
        put("disk_reads", c.disk_reads);
        put("fills", c.fills);
        put("slc_bytes_written", bytes(c.appended[0] + c.headers[0]));
        put("mlc_bytes_written", bytes(c.appended[1] + c.headers[1]));
        put("slc_headers", c.headers[0]);
        put("mlc_headers", c.headers[1]);
        put("promoted_pages", c.promoted);
        put("read_ahead_pages", c.ahead_pages);
        put("used_pages_told", c.told_pages);
        put("used_pages_told_late", c.told_late_pages);
        put("slc_rewritten_pages", c.rewritten[0]);
        put("mlc_rewritten_pages", c.rewritten[1]);
        put("demoted_pages", c.demoted);
        put("kept_below_pages", c.kept_below);
        put("demoted_to_disk_pages", c.demoted_to_disk);
        put("dropped_clean_pages", c.dropped_clean);
        put("slc_erases", c.erases[0]);
        put("mlc_erases", c.erases[1]);
        put("slc_collections", c.collections[0]);
        put("mlc_collections", c.collections[1]);
        put("bypassed_bytes_written", bytes(c.bypassed_writes));
        put("marks", c.marks);
        put("commits", c.commits);
        put("failures", c.failures);
        put("recoveries", c.recoveries);
        put("headers_repaired", c.headers_mended);
        if self.policy.dirty_max > 0 {
            put("destaged_pages", c.destaged);
        }
        if self.is_through() {
            put("ring_departures", c.ring_departures);
            put("ring_returns", c.ring_returns);
            put("rings_in_use", u64::from(self.has_rings()));
        }
        if let Some(regions) = &self.regions {
            let region = regions.layout.page * u64::from(regions.layout.region_pages);
            put("dirty_regions", u64::from(regions.stored.dirty.count()));
            put("dirty_region_bytes", u64::from(regions.stored.dirty.count()) * region);
            put("regions_marked_dirty", c.regions_marked);
            put("regions_cleared", c.regions_cleared);
            put("region_map_pages_written", c.region_map_writes);
            put("lost_bytes", bytes(u64::from(regions.lost.count())));
            put("requests_of_lost_data", c.lost_requests);
            put("rings_given_up", u64::from(!self.has_rings()));
        }
        put("dirty_frames", self.dram.dirty_frames());
        for (ring, [used, dirty]) in self
            .rings
            .iter()
            .zip([["slc_units_used", "slc_dirty_pages"], ["mlc_units_used", "mlc_dirty_pages"]])
        {
            put(used, u64::from(ring.used));
            let slots = ring.shape.slot_base..ring.shape.slot_base + ring.shape.slots();
            put(dirty, slots.filter(|&s| self.map.is_live(s) && self.map.is_dirty(s)).count() as u64);
        }
    }
}
