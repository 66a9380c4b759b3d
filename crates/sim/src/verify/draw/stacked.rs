//! Stacks of machines that were made for each other: what one tells the other, and who keeps what for whom.

use super::{Caching, Draft, LEG};

impl Draft<'_> {
    /// A quick leaf and a hard disk that stops after a short rest, whose delay queue is kept.
    pub(super) fn resting(mut self) -> String {
        let quick = self.begin("memory");
        let size = LEG + 4096 * self.rng.below(16);
        self.put("size", size);
        let latency = self.rng.between(1, 200);
        self.put_text("latency", format!("{latency} us"));
        // No `fault` with a cache: its timer fires more often in the start of a disk than a stack is given here.
        let quick = self.may_fail(quick);
        let disk = self.begin("hdd");
        let profile = *self.rng.pick(&["samsung-hm080hi", "desktop-2010"]);
        self.put_text("profile", profile);
        let size = LEG + 4096 * self.rng.below(64);
        self.put("capacity", size);
        let caches = self.one_in(2);
        self.put("write_cache", caches);
        let stop = *self.rng.pick(&[1, 5, 30]);
        self.put_text("spin_down", format!("{stop} ms"));
        let disk = self.may_fail(disk);
        self.hetero = true;
        let root = self.held_mirror([quick, disk]);
        format!("[export.data]\ndevice = \"{root}\"\n{}", self.text)
    }

    /// A hetero-mirror with `write_batching`, which goes with `write_ack = "first"` only, and with bounds on the scale of the
    /// start of a disk, some of them shorter.
    fn held_mirror(&mut self, legs: [String; 2]) -> String {
        let name = self.begin("hetero-mirror");
        self.put("legs", format!("{legs:?}"));
        for (key, values) in [
            ("write_batching", &["standby", "always"][..]),
            ("flush_scope", &["all-legs", "leader"]),
            ("delay_order", &["fifo", "elevator"]),
            ("on_limit", &["block", "degrade"]),
            ("dispatch", &["pipelined", "pipelined", "serial"]),
            ("read_policy", &["leader", "leader", "balanced"]),
            ("initial_sync", &["resync", "assume-clean"]),
        ] {
            let value = *self.rng.pick(values);
            self.put_text(key, value);
        }
        let hedges = self.one_in(2);
        self.put("write_hedge", hedges);
        let bytes = 65_536u64 << self.rng.below(4);
        self.put("max_exposed_bytes", bytes);
        let time = *self.rng.pick(&[100, 1000, 10_000, 60_000]);
        self.put_text("max_exposed_time", format!("{time} ms"));
        self.put_text("region_size", "64 KiB");
        let clear = *self.rng.pick(&[1, 20, 2000]);
        self.put_text("bitmap_delay", format!("{clear} ms"));
        self.put("max_dirty_regions", 32);
        name
    }

    /// A quick leg, and a hybrid disk whose ring is the durable delay queue of its disk.
    pub(super) fn mirror_of_hybrid(mut self) -> String {
        let quick = self.begin("memory");
        self.put("size", LEG);
        let latency = self.rng.between(1, 200);
        self.put_text("latency", format!("{latency} us"));
        let quick = if self.one_in(2) { self.fault(quick) } else { quick };
        let page = 4096;
        let unit = page * self.rng.between(4, 8);
        let slc = self.bare_flash(page, unit, 16);
        let disk = self.begin("memory");
        let size = LEG + 4096 * self.rng.between(1, 32);
        self.put("size", size);
        self.put_text("latency", "300 us");
        let disk = if self.one_in(3) { self.fault(disk) } else { disk };
        let slow = self.hybrid_of(Some(slc), None, disk, page, unit);
        self.hetero = true;
        let root = self.mirror(&[quick, slow]);
        format!("[export.data]\ndevice = \"{root}\"\n{}", self.text)
    }

    /// A cache that culls what it prefetched, above a hybrid disk that is told what was used.
    pub(super) fn culling_over_hybrid(&mut self) -> String {
        let below = if self.one_in(2) { self.hybrid(false) } else { self.hybrid_on_one_chip() };
        let name = self.block_cache(below, Caching::CullingThrough);
        self.put("use_hints", true);
        name
    }
}
