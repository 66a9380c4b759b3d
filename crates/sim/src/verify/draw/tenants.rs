//! Random drives that tenants share.

use super::drives::{by_threshold, checkpoint_blocks};
use super::{Draft, Drive, keys};
use nandu_base::Rng;
use std::fmt::Write;

impl Draft<'_> {
    /// A drive that tenants share, each with hardly more units than it needs.
    pub(super) fn tenants_ssd(&mut self, mut rng: Rng) -> String {
        if self.drive == Drive::Dealing && rng.fork(72).below(3) == 0 {
            return self.log_ssd(0, rng);
        }
        let drive = std::mem::replace(&mut self.drive, Drive::Tenants);
        let (page, pages) = (512u64 << rng.below(3), 1u64 << rng.between(1, 3));
        let (channels, dies, planes) = (rng.between(1, 2), rng.between(1, 2), 1u64 << rng.below(2));
        let row = pages * channels * dies * planes;
        let start = rng.between(2, 4);
        let kind = match drive {
            Drive::Lending => 3,
            Drive::Dealing => rng.between(2, 3),
            _ if self.shares_dies && rng.fork(53).below(2) == 0 => 3,
            _ => rng.below(5),
        };
        // One from outside deals units out as it likes: its tenants are alike, and there is room.
        let added = self
            .added_by("isolation", rng.fork(46))
            .filter(|_| !matches!(drive, Drive::Lending | Drive::Dealing));
        let kind = if added.is_some() { 1 } else { kind };
        let own_channels = kind == 0 && channels == 2;
        let tenants = if own_channels { 2 } else { rng.between(1 + u64::from(kind == 3), 3) };
        let base = rng.between(8, 30) * 4;
        let sizes: Vec<u64> =
            (0..tenants).map(|_| if kind == 1 { base } else { base + rng.below(base) }).collect();
        let given: u64 = sizes.iter().sum();
        let is_dealt = drive == Drive::Dealing;
        let more = if is_dealt { given / 2 } else { 0 };
        let logical = given + more + rng.below(2) * rng.below(given);
        let extents = (page - 8) / 16;
        // Generators of their own, here and below: what else a seed draws stays as it was.
        let has_streams = rng.fork(26).below(4) == 0;
        let mapping = match drive {
            Drive::PagedTenants | Drive::Combined | Drive::Dealing => {
                let before = std::mem::replace(self.rng, rng.fork(27));
                self.drive = if drive == Drive::PagedTenants { drive } else { Drive::Any };
                let mapping = self.mapping(page);
                self.drive = Drive::Tenants;
                *self.rng = before;
                mapping
            }
            _ => None,
        };
        let may_cache = matches!(drive, Drive::Combined | Drive::Dealing);
        self.drive = if may_cache { drive } else { Drive::Tenants };
        let slc = self.slc_cache(may_cache, page * row, pages);
        self.drive = Drive::Tenants;
        let of_slc = slc.as_ref().map_or(0, |slc| slc.blocks);
        let mut checkpoint = rng.fork(29);
        let checkpoint = (mapping.is_some() && checkpoint.below(2) == 0).then(|| checkpoint.between(1, 12));
        let of_map = |size: u64| match mapping {
            // One block for what CFTL gathers.
            Some(_) => 3 + (2 * (size.div_ceil(page / 4) + 1)).div_ceil(row),
            None => 0,
        };
        let units = |&size: &u64| {
            let records = 2 * (size / (2 * extents) + 2) + 16 * (tenants + 2 * u64::from(is_dealt));
            let needed = of_map(size)
                + of_slc
                + start
                + 4
                + u64::from(has_streams)
                + (size + records + 2 * u64::from(is_dealt)).div_ceil(row);
            (logical * needed).div_ceil(size)
        };
        let is_set_aside = kind == 3 && rng.fork(63).below(4) == 0;
        let mut blocks = sizes.iter().map(units).max().unwrap_or(0) + rng.below(6);
        if checkpoint.is_some() {
            // Records of all tenants, and pages of the directory.
            let more = (2 * 17 * (tenants + 2 * u64::from(is_dealt))).div_ceil(page / 4).div_ceil(row);
            blocks += checkpoint_blocks(logical, page, pages, row / pages) + more;
        }
        if added.is_some() || is_set_aside {
            blocks *= 2;
        }
        let raw = blocks * row;
        let name = self.begin("ssd");
        let profile = *rng.pick(&["slc-2015", "slc-2019", "mlc-2019", "tlc-2019", "bench-2026"]);
        self.put_text("profile", slc.as_ref().map_or(profile, |slc| slc.profile));
        for (key, value) in [
            ("channels", channels),
            ("dies_per_chip", dies),
            ("planes_per_die", planes),
            ("blocks_per_plane", blocks),
            ("page_size", page),
            ("pages_per_block", pages),
        ] {
            self.put(key, value);
        }
        self.put("spare_factor", format!("\"{}/{raw}\"", raw - logical));
        let unit = if own_channels {
            *rng.pick(&["plane", "die"])
        } else {
            *rng.pick(&["plane", "die", "superblock"])
        };
        self.put_text("reclaim_unit", unit);
        if let Some(checkpoint) = checkpoint.filter(|_| unit == "plane") {
            self.put("checkpoint_interval", checkpoint);
        }
        if let Some(mapping) = &mapping {
            self.put("mapping", mapping);
        }
        self.tenant_bytes = sizes.iter().map(|size| size * page).collect();
        let tenant =
            |(number, size): (usize, &u64)| format!("{{ name = \"t{number}\", size = {} }}", size * page);
        let list: Vec<String> = sizes.iter().enumerate().map(tenant).collect();
        self.put("tenants", format!("[{}]", list.join(", ")));
        self.trim_records();
        self.partial_write();
        if is_dealt {
            self.put("max_tenants", tenants + rng.below(3));
        }
        // By name: the numbers below say who has which options, and channels and dies must be there.
        let isolation = match kind {
            _ if added.is_some() => added.map_or_else(String::new, keys),
            0 if own_channels && rng.fork(28).below(3) == 0 => "kind = \"die\"".to_string(),
            0 if own_channels => "kind = \"channel\"".to_string(),
            1 => "kind = \"ops\"".to_string(),
            2 => "kind = \"vssd\"".to_string(),
            _ => {
                let (beta, back) =
                    (*rng.pick(&["1/4", "1/2", "9/10"]), *rng.pick(&["at-erase", "on-demand"]));
                let keep = if rng.below(3) > 0 { ", reserve_min = 1" } else { "" };
                let most = if rng.below(3) == 0 { ", contribution_max = \"19/20\"" } else { "" };
                let (back, more) = lending(back, rng.fork(20));
                let (beta, most, pool) = match is_set_aside {
                    true => ("1/4", "", ", pool = \"reserved\""),
                    false => (beta, most, ""),
                };
                format!(
                    "kind = \"shared-space\", contribution = \"{beta}\", return_policy = \"{back}\"{keep}{most}{more}{pool}"
                )
            }
        };
        self.put("isolation", format!("{{ {isolation} }}"));
        let has_units = !["channel", "die"].iter().any(|kind| isolation.contains(&format!("\"{kind}\"")));
        if rng.fork(21).below(4) == 0 && has_units {
            self.put_text("tenant_gc_threshold", *rng.fork(22).pick(&["1/20", "1/8"]));
        }
        let copyback = unit == "plane" && rng.below(2) == 0;
        self.collection(start, copyback, blocks);
        if let Some(slc) = slc.filter(|_| !self.text.contains("separate_frontier = false")) {
            self.put("slc_cache", &slc.options);
        }
        let (order, spread) = (*rng.pick(&["fifo", "least-worn"]), rng.below(4));
        let every = rng.between(1, 4);
        let levelling = self.levelling(by_threshold(spread, every));
        let mut wear = format!("free_block_order = \"{order}\", {levelling}");
        wear += &wear_of_tenants(has_units, rng.fork(23));
        self.put("wear", format!("{{ {wear} }}"));
        if rng.below(2) == 0 && (!is_dealt || rng.fork(24).below(2) == 0) && !self.fills_stripes() {
            let max_read_bypass = rng.below(20);
            let suspension = self.suspension();
            self.put(
                "die_scheduler",
                format!("{{ kind = \"out-of-order\", max_read_bypass = {max_read_bypass}{suspension} }}"),
            );
        }
        self.write_buffer(page);
        if has_streams {
            self.put("streams", "{ kind = \"hot-cold\", counters = 64, decay_interval = 60, threshold = 2 }");
        }
        if unit != "superblock" && rng.fork(25).below(4) == 0 {
            self.put_text("allocation", "static");
        }
        self.drive = drive;
        name
    }
}

/// Whether data of one tenant moves for the wear of another, where they have units of the same planes, and whether units end.
fn wear_of_tenants(has_units: bool, mut rng: Rng) -> String {
    let mut wear = String::new();
    if rng.below(3) == 0 && has_units {
        wear += ", across_tenants = true";
    }
    if rng.below(4) == 0 {
        wear += ", factory_bad = \"1/20\"";
    }
    if rng.below(4) == 0 {
        let variation = *rng.pick(&["0", "1/2"]);
        let _ = write!(wear, ", endurance = {}, endurance_variation = \"{variation}\"", rng.between(2, 12));
    }
    wear
}

/// When loans come back, and what else is said of them beside beta.
fn lending(back: &'static str, mut rng: Rng) -> (&'static str, String) {
    let back = if rng.below(6) == 0 { "never" } else { back };
    let mut more = String::new();
    if rng.below(3) == 0 {
        let _ = write!(more, ", borrow_limit = \"{}\"", *rng.pick(&["1/4", "1/2", "3/4"]));
    }
    if rng.below(3) > 0 {
        let (below, after) = (*rng.pick(&["0", "1/2", "1"]), *rng.pick(&[20, 500, 20_000]));
        if below != "0" {
            let _ = write!(more, ", return_pool_below = \"{below}\", return_idle_after = \"{after} us\"");
        }
    }
    (back, more)
}
