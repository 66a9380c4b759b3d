//! Random hybrid disks, so small that every ring goes round.

use super::Draft;

impl Draft<'_> {
    /// A hybrid disk with one ring or two.
    pub(super) fn hybrid(&mut self, of_files: bool) -> String {
        let page = *self.rng.pick(&[2048u64, 4096, 4096, 8192]);
        let unit = page * self.rng.between(4, 8);
        let which = self.rng.below(4);
        let slc = (which != 0).then(|| self.ring(of_files, page, unit));
        let mlc = (which != 1).then(|| self.ring(of_files, page, unit));
        let disk = self.disk(of_files);
        self.hybrid_of(slc, mlc, disk, page, unit)
    }

    /// A hybrid disk with one slow ring, past which all writes go.
    pub(super) fn hybrid_past_ring(&mut self) -> String {
        let page = *self.rng.pick(&[2048u64, 4096]);
        let unit = page * self.rng.between(4, 6);
        let latency = *self.rng.pick(&[50, 200, 1000]);
        let units = self.rng.between(9, 12);
        let ring = self.sized_at("file", units * unit, page, latency);
        let pages = self.rng.between(16, 48);
        let disk = self.sized("memory", page * pages, page);
        let which = self.one_in(2);
        let (slc, mlc) = if which { (Some(ring), None) } else { (None, Some(ring)) };
        let hybrid = self.hybrid_of(slc, mlc, disk, page, unit);
        for bytes in [0, 4 * page, 16 * page] {
            self.text =
                self.text.replace(&format!("write_bypass = {bytes}\n"), &format!("write_bypass = {page}\n"));
        }
        hybrid
    }

    /// A hybrid disk whose rings hold copies only.
    pub(super) fn hybrid_writethrough(&mut self) -> String {
        let page = *self.rng.pick(&[2048u64, 4096, 4096, 8192]);
        let unit = page * self.rng.between(4, 8);
        let which = self.rng.below(4);
        let slc = (which != 0).then(|| self.ring_that_goes(page, unit));
        let mlc = (which != 1).then(|| self.ring_that_goes(page, unit));
        let disk = if self.one_in(3) {
            self.disk(false)
        } else {
            let kind = *self.rng.pick(&["memory", "memory", "file"]);
            let size = 4096 * self.rng.between(16, 160);
            self.sized(kind, size, 2048)
        };
        let hybrid = self.hybrid_of(slc, mlc, disk, page, unit);
        // As little DRAM as there may be, most of the time: else it answers nearly all reads.
        if !self.one_in(4) {
            for frames in 17..=40 {
                let drawn = format!("dram_size = {}\n", page * frames);
                self.text = self.text.replace(&drawn, &format!("dram_size = {}\n", page * 16));
            }
        }
        let clash = |line: &&str| line.starts_with("write_ack = ") || line.starts_with("dirty_max = ");
        self.text = self.text.lines().filter(|line| !clash(line)).map(|line| format!("{line}\n")).collect();
        self.put_text("cache_mode", "writethrough");
        hybrid
    }

    /// A hybrid disk with a map of dirty regions and one ring. Nothing fails but that the ring is gone for good after some of the cuts.
    pub(super) fn hybrid_loses_rings(&mut self) -> String {
        let page = *self.rng.pick(&[2048u64, 4096, 4096, 8192]);
        let unit = page * self.rng.between(4, 8);
        let units = self.rng.between(9, 16);
        let kind = *self.rng.pick(&["memory", "file"]);
        let ring = Some(self.sized(kind, units * unit, page));
        let size = 4096 * self.rng.between(24, 160);
        let disk = match self.rng.below(3) {
            0 => self.hdd(size, true),
            1 => self.sized("memory", size, 2048),
            _ => self.sized("file", size, 2048),
        };
        let (slc, mlc) = if self.one_in(2) { (ring, None) } else { (None, ring) };
        let hybrid = self.hybrid_of(slc, mlc, disk, page, unit);
        let mut rng = self.rng.fork(60);
        let region = page << *rng.pick(&[0u64, 1, 2, 4]);
        self.put("dirty_region_size", region);
        hybrid
    }

    /// A ring that is lost now and then, as often as not.
    fn ring_that_goes(&mut self, page: u64, unit: u64) -> String {
        let units = self.rng.between(9, 16);
        let below = match self.rng.below(3) {
            0 => self.sized("memory", units * unit, page),
            1 => self.sized("file", units * unit, page),
            _ => return self.bare_flash(page, unit, units.max(10)),
        };
        if self.one_in(4) {
            return below;
        }
        let before = self.text.len();
        let fault = self.fault(below);
        if self.one_in(2) && !self.text[before..].contains("read_error_rate") {
            self.put_text("read_error_rate", "1/10");
        }
        fault
    }

    /// A hybrid disk whose rings are areas of one chip: they wait for each other. One of them may be missing, and each may
    /// fail.
    pub(super) fn hybrid_on_one_chip(&mut self) -> String {
        let page = *self.rng.pick(&[2048u64, 4096, 4096, 8192]);
        let dies = self.rng.between(1, 3);
        let block = 4 * self.rng.between(2, 8);
        let units = [0, 1].map(|_| self.rng.between(9, 16).max(10));
        let unit = page * dies * block;
        let chip = self.begin("flash");
        self.put_text("profile", "mlc-2019");
        self.put("page_size", page);
        self.put("dies", dies);
        self.put("pages_per_block", block);
        // What no region uses lies between them in some chips.
        let gap = if self.one_in(3) { ", { name = \"spare\", blocks_per_die = 2 }" } else { "" };
        let (slc, mlc) = (units[0], units[1]);
        self.put(
            "areas",
            format!(
                "[{{ name = \"slc\", blocks_per_die = {slc}, bits_per_cell = 1 }}{gap}, {{ name = \"mlc\", blocks_per_die = {mlc} }}]"
            ),
        );
        let which = self.rng.below(6);
        let slc = (which != 0).then(|| self.area(&chip, "slc"));
        let mlc = (which != 1).then(|| self.area(&chip, "mlc"));
        let disk = self.disk(false);
        self.hybrid_of(slc, mlc, disk, page, unit)
    }

    fn area(&mut self, chip: &str, area: &str) -> String {
        let name = self.begin("flash-area");
        self.put_text("below", chip);
        self.put_text("area", area);
        self.may_fail(name)
    }

    /// A hybrid disk of these members.
    pub(super) fn hybrid_of(
        &mut self,
        slc: Option<String>,
        mlc: Option<String>,
        disk: String,
        page: u64,
        unit: u64,
    ) -> String {
        let name = self.begin("hybrid");
        let rings = slc.iter().chain(&mlc).count() as u64;
        for (key, ring) in [("slc", slc), ("mlc", mlc)] {
            if let Some(ring) = ring {
                self.put_text(key, ring);
            }
        }
        self.put_text("disk", disk);
        self.put("page_size", page);
        self.put("erase_unit", unit);
        let dram = page * self.rng.between(16, 40);
        self.put("dram_size", dram);
        let promotes =
            ["\"always\"", "\"always\"", "\"second-touch\"", "\"never\"", "{ kind = \"hot\", hits = 3 }"];
        let promote = *self.rng.pick(&promotes);
        let promote = self.policy("promotion", promote);
        self.put("promote", promote);
        let pinned = "{ kind = \"pinned\", hits = 2, share = \"50 %\" }";
        let rewrite =
            *self.rng.pick(&["\"referenced\"", "\"referenced\"", "\"never\"", "\"levels\"", pinned]);
        let rewrite = self.policy("demotion", rewrite);
        self.put("rewrite", rewrite);
        let tiers = *self.rng.pick(&["exclusive", "inclusive"]);
        self.put_text("tiers", tiers);
        let write_back = *self.rng.pick(&["oldest", "lru"]);
        self.put_text("append_order", write_back);
        for key in ["read_bypass", "write_bypass", "sequential_cutoff"] {
            let bytes = *self.rng.pick(&[0, page, 4 * page, 16 * page]);
            self.put(key, bytes);
        }
        for (key, least) in
            [("gc_reserve", 1), ("slc_cold_share", 10), ("mlc_cold_share", 10), ("append_threshold", 5)]
        {
            let percent = self.rng.between(least, 45);
            self.put(key, format!("\"{percent} %\""));
        }
        let idle = *self.rng.pick(&[0, 100, 3000, 30_000]);
        self.put_text("append_idle", format!("{idle} us"));
        let group = *self.rng.pick(&[1, 3, 8, 63]);
        self.put("group_pages", group);
        // A generator of its own: what else a seed draws stays as it was.
        if self.rng.fork(21).below(4) == 0 {
            self.put_text("write_ack", "ring");
        }
        let mut rng = self.rng.fork(54);
        if rng.below(3) == 0 {
            self.put("dirty_max", unit * (2 * rings + rng.below(4)));
        }
        let aware = self.one_in(3);
        self.put("spin_aware", aware);
        name
    }

    /// What a ring stands on: 9 or 10 to 16 units.
    fn ring(&mut self, of_files: bool, page: u64, unit: u64) -> String {
        let units = self.rng.between(9, 16);
        let below = match self.rng.below(3) {
            _ if of_files => self.sized("file", units * unit, page),
            0 => self.sized("memory", units * unit, page),
            1 => self.sized("file", units * unit, page),
            // Flash keeps two units for superblocks.
            _ => return self.bare_flash(page, unit, units.max(10)),
        };
        if of_files || self.one_in(2) {
            return below;
        }
        self.fault(below)
    }

    /// Bare flash, which may fail, but not lie: what it has programmed is there.
    pub(super) fn bare_flash(&mut self, page: u64, unit: u64, units: u64) -> String {
        let name = self.begin("flash");
        let profile = *self.rng.pick(&["slc-2019", "mlc-2019"]);
        self.put_text("profile", profile);
        let pages = unit / page;
        let dies = if pages.is_multiple_of(2) && pages > 4 { self.rng.between(1, 2) } else { 1 };
        self.put("page_size", page);
        self.put("dies", dies);
        self.put("pages_per_block", pages / dies);
        self.put("blocks_per_die", units);
        self.may_fail(name)
    }

    /// The same, or behind a `fault` that fails and does not lie.
    pub(super) fn may_fail(&mut self, name: String) -> String {
        if self.one_in(2) {
            return name;
        }
        let fault = self.begin("fault");
        self.put_text("below", name);
        for key in ["read_error_rate", "write_error_rate"] {
            if self.one_in(3) {
                let one_in = *self.rng.pick(&[20, 100, 500]);
                self.put_text(key, format!("1/{one_in}"));
            }
        }
        if self.one_in(3) {
            let (mean, back) = (self.rng.between(30, 300), self.rng.between(100, 10_000));
            self.put(
                "loss",
                format!("{{ kind = \"random\", mean_interval = \"{mean} ms\", outage = \"{back} us\" }}"),
            );
        }
        fault
    }

    fn disk(&mut self, of_files: bool) -> String {
        let size = 4096 * self.rng.between(16, 160);
        if of_files {
            return self.sized("file", size, 2048);
        }
        match self.rng.below(5) {
            0 => self.hdd(size, true),
            1 => self.sized("memory", size, 2048),
            2 => self.sized("file", size, 2048),
            _ => {
                let below = self.sized("memory", size, 2048);
                self.fault(below)
            }
        }
    }

    /// A block leaf of this size, whose sector is no longer than `page`.
    fn sized(&mut self, kind: &str, size: u64, page: u64) -> String {
        // A start reads every unit: one that takes longer than a device lasts never ends.
        let latency = *self.rng.pick(&[0, 1, 50, 200]);
        self.sized_at(kind, size, page, latency)
    }

    /// The same with a latency in microseconds.
    fn sized_at(&mut self, kind: &str, size: u64, page: u64, latency: u64) -> String {
        let name = self.begin(kind);
        self.put("size", size);
        self.put_text("latency", format!("{latency} us"));
        if kind == "file" {
            self.put_text("path", format!("{name}.img"));
            let sector = (512u64 << self.rng.below(4)).min(page);
            self.put("sector", sector);
        }
        name
    }
}
