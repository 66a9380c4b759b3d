//! Random layers above devices: arrays, caches, faults.

use super::{Caching, Draft, Drive, LEG, keys};
use nandu_base::Rng;
use std::fmt::Write;

impl Draft<'_> {
    /// A hetero-mirror of a quick and a slow leaf, each behind `fault`; either may be the first.
    pub(super) fn unlike(mut self) -> String {
        let slow = self.rng.below(2);
        let legs = [0, 1].map(|leg| {
            let name = self.begin("memory");
            let size = LEG + 4096 * self.rng.below(16);
            self.put("size", size);
            let latency =
                if leg == slow { *self.rng.pick(&[300, 1000, 3000]) } else { self.rng.between(1, 200) };
            self.put_text("latency", format!("{latency} us"));
            self.fault(name)
        });
        let root = self.mirror(&legs);
        format!("[export.data]\ndevice = \"{root}\"\n{}", self.text)
    }

    /// Two or three tenants with a part each of one device that tells them apart.
    pub(super) fn shared(mut self, below: &str) -> String {
        let mut exports = String::new();
        for tenant in 0..self.rng.between(2, 3) {
            let name = self.begin("slice");
            self.put_text("below", below);
            self.put("offset", tenant * (16 << 10));
            self.put("size", 16 << 10);
            let weight = *self.rng.pick(&[1, 50, 100, 1000]);
            let _ = write!(
                exports,
                "[export.t{tenant}]\ndevice = \"{name}\"\n[tenant.t{tenant}]\nweight = {weight}\n"
            );
            if self.one_in(3) {
                let (wbps, riops) = (self.rng.between(1, 64), self.rng.between(500, 50_000));
                let _ = writeln!(exports, "max = {{ wbps = \"{wbps} MiB\", riops = {riops} }}");
            }
            if self.one_in(3) {
                let target = *self.rng.pick(&[20, 400, 5000]);
                let _ = writeln!(exports, "target_latency = \"{target} us\"");
            }
        }
        exports + &self.text
    }

    /// Tenants with an export each, behind a fair queue over a drive that keeps them apart: each export is what one tenant of the drive has.
    pub(super) fn queue_over_tenants(mut self) -> String {
        self.drive = *self.rng.pick(&[Drive::Tenants, Drive::Lending, Drive::Lending]);
        let drive = self.ssd(0);
        let queue = self.fair_queue(drive);
        self.parts_of_tenants(&queue)
    }

    /// A drive with any options that go together, whose dies may be shared out among its tenants: each has an export.
    pub(super) fn everything(mut self) -> String {
        self.drive = Drive::Combined;
        self.shares_dies = true;
        let drive = self.ssd(64 << 10);
        if self.tenant_bytes.is_empty() { self.shared(&drive) } else { self.parts_of_tenants(&drive) }
    }

    /// An export for what each tenant of the last drive has of it.
    fn parts_of_tenants(mut self, below: &str) -> String {
        let (mut exports, mut offset) = (String::new(), 0);
        for (tenant, size) in self.tenant_bytes.clone().into_iter().enumerate() {
            let name = self.begin("slice");
            self.put_text("below", below);
            self.put("offset", offset);
            self.put("size", size);
            offset += size;
            let weight = *self.rng.pick(&[1, 50, 100, 1000]);
            let _ = writeln!(
                exports,
                "[export.t{tenant}]\ndevice = \"{name}\"\n[tenant.t{tenant}]\nweight = {weight}"
            );
        }
        exports + &self.text
    }

    /// A slow link with a cost for each command.
    pub(super) fn link(&mut self, below: String) -> String {
        let mut rng = self.rng.fork(29);
        let name = self.begin("link");
        self.put_text("below", below);
        self.put("bandwidth", *rng.pick(&[1_000_000, 40_000_000, 600_000_000]));
        self.put_text("overhead", format!("{} us", *rng.pick(&[0, 5, 200])));
        self.put("duplex", rng.below(2) == 0);
        name
    }

    /// A fair queue with little room below, so that requests wait.
    pub(super) fn fair_queue(&mut self, below: String) -> String {
        let name = self.begin("queue");
        self.put_text("below", below);
        let schedulers = self.shipped("scheduler");
        let scheduler = format!("{{ {} }}", keys(*self.rng.pick(&schedulers)));
        let scheduler = self.policy("scheduler", scheduler);
        self.put("scheduler", &scheduler);
        let takes_order =
            ["noop", "slo", "cffq", "flashfq", "drr"].iter().any(|kind| scheduler.contains(kind));
        let orders = [
            "{ kind = \"fifo\" }",
            "{ kind = \"reads-first\" }",
            "{ kind = \"irbw-fifo\", erase_unit = \"8 KiB\", bundle_max = 4 }",
            "{ kind = \"bp\", erase_unit = \"8 KiB\", bundle_max = 4 }",
        ];
        let order = *self.rng.pick(&orders);
        if takes_order {
            self.put("order", order);
        }
        let depth = *self.rng.pick(&[1, 1, 2, 4, 64]);
        self.put("depth", depth);
        if self.one_in(3) {
            self.put("cost", "{ kind = \"bytes\" }");
        }
        self.put_text("latency_window", "2 ms");
        name
    }

    pub(super) fn fault(&mut self, below: String) -> String {
        let name = self.begin("fault");
        self.put_text("below", below);
        for key in ["read_error_rate", "write_error_rate", "flush_error_rate"] {
            if self.one_in(4) {
                let one_in = *self.rng.pick(&[20, 100, 500]);
                self.put_text(key, format!("1/{one_in}"));
            }
        }
        if !self.one_in(4) {
            let size = 4096u64 << self.rng.below(6);
            let every = *self.rng.pick(&[20, 200, 5000]);
            self.put("cache", format!("{{ size = {size}, destage_interval = \"{every} us\" }}"));
            // A generator of its own: what else a seed draws stays as it was.
            if self.rng.fork(45).below(2) == 0 {
                self.put("write_error_leaves_part", true);
            }
        }
        if self.one_in(3) {
            let (mean, span) = (self.rng.between(1, 40), self.rng.between(50, 4000));
            self.put(
                "freeze",
                format!("{{ kind = \"random\", mean_interval = \"{mean} ms\", duration = \"{span} us\" }}"),
            );
        }
        if self.one_in(3) {
            let (mean, back) = (self.rng.between(30, 300), self.rng.between(100, 10_000));
            self.put(
                "loss",
                format!("{{ kind = \"random\", mean_interval = \"{mean} ms\", outage = \"{back} us\" }}"),
            );
        }
        name
    }

    /// A cache so small that lines go all the time.
    pub(super) fn block_cache(&mut self, below: String, caching: Caching) -> String {
        let culls = matches!(caching, Caching::Culling | Caching::CullingThrough);
        let name = self.begin("cache");
        self.put_text("below", below);
        let block = *self.rng.pick(&[512u64, 1024, 2048, 4096, 4096, 4096]);
        self.put("block_size", block);
        let segment = block << self.rng.below(5);
        self.put("segment_size", segment);
        let memory = block * self.rng.between(8, 48) + 2 * segment;
        self.put("size", memory);
        let prefetch = match self.rng.below(if culls { 2 } else { 6 }) {
            0 => {
                *self.rng.pick(&["{ kind = \"segment\" }", "{ kind = \"segment\", holes = \"block-only\" }"])
            }
            1 => "{ kind = \"gated-segment\", window = 16, probe_interval = 3 }",
            2 => "{ kind = \"none\" }",
            3 => "{ kind = \"sequential\" }",
            4 => "{ kind = \"p-block\" }",
            _ => "{ kind = \"markov\", entries = 64 }",
        };
        // A generator of its own, as below.
        let prefetch = match self.rng.fork(32).below(6) {
            0 if !prefetch.contains("segment") => "{ kind = \"mithril\", rows = 8, entries = 64 }",
            _ => prefetch,
        };
        let prefetch = match self.rng.fork(47).below(8) {
            0 if !prefetch.contains("segment") => "{ kind = \"amp\", streams = 2, async_above = 0 }",
            1 if !prefetch.contains("segment") => "{ kind = \"amp\", window_max = \"32 KiB\" }",
            _ => prefetch,
        };
        let prefetch = self.policy("prefetcher", prefetch);
        self.put("prefetch", &prefetch);
        let segments = prefetch.contains("segment");
        let ghost = self.one_in(2);
        let trigger = *self.rng.pick(&["b1", "b1+b2", "reads"]);
        let adaptive = format!(
            "{{ kind = \"adaptive-culling\", trigger = \"{trigger}\", ghost = {ghost}, step_down_max = 2, tail_share = \"1/4\" }}"
        );
        // By name: culling goes with prefetching of segments alone, and those that came later have a generator of their own below, so that seeds
        // draw what they drew.
        let others =
            ["arc", "sarc", "s3-fifo", "lru", "sieve"].map(|kind| format!("{{ kind = \"{kind}\" }}"));
        let by_segment =
            ["lru", "sieve"].map(|kind| format!("{{ kind = \"{kind}\", granularity = \"segment\" }}"));
        let only = "{ kind = \"segment-prefetch-only\" }".to_string();
        let fixed = "{ kind = \"fixed-culling\", l1 = \"1/3\" }".to_string();
        let replacement = match self.rng.below(8) {
            _ if culls && self.one_in(3) => fixed,
            _ if culls => adaptive,
            0 if segments => fixed,
            1 | 2 if segments => adaptive,
            3 if segments => only,
            4 => self.rng.pick(&by_segment).clone(),
            _ => self.rng.pick(&others).clone(),
        };
        // A generator of its own: what else a seed draws stays as it was.
        let replacement = match self.rng.fork(30).below(8) {
            _ if culls => replacement,
            0 => "{ kind = \"lirs\" }".into(),
            1 => "{ kind = \"lecar\" }".into(),
            2 => "{ kind = \"s3-fifo\", fill = \"main\" }".into(),
            _ => replacement,
        };
        let replacement = self.policy("replacement", replacement);
        self.put("replacement", replacement);
        let back = match caching {
            Caching::Any => self.one_in(2),
            Caching::Culling => self.one_in(4),
            Caching::CullingThrough => false,
            Caching::Back => true,
        };
        if back {
            let destages = self.shipped("destage");
            let (destage, _) = *self.rng.pick(&destages);
            let dirty = block * self.rng.between(1, memory / block / 2);
            let unit = block << self.rng.below(5);
            let (after, depth) = (*self.rng.pick(&[20, 500, 20_000]), self.rng.between(1, 4));
            // Drawn from what is drawn already: what else a seed draws stays as it was.
            let drawn = format!("\"{destage}\"");
            let chosen = self.policy("destage", drawn.clone());
            let pad =
                destage == "bplru" && chosen == drawn && (dirty / block + unit / block).is_multiple_of(2);
            let mut own = self.rng.fork(67);
            let bypass = if own.below(4) == 0 { block * own.between(1, 8) - 512 } else { 0 };
            self.put(
                "write",
                format!(
                    "{{ kind = \"writeback\", destage = {chosen}, dirty_max = {dirty}, erase_unit = {unit}, dirty_expire = \"{after} us\", \
                     destage_depth = {depth}, pad = {pad}, bypass = {bypass} }}"
                ),
            );
        }
        let (apart, colocated, busy) = (self.one_in(3), self.one_in(4), self.one_in(4));
        self.put("demand_first", apart);
        self.put("colocated", colocated);
        self.put("drop_when_busy", busy);
        let depth = *self.rng.pick(&[0, 1, 16]);
        self.put("prefetch_depth", depth);
        let lookup = *self.rng.pick(&["array", "hash"]);
        self.put_text("index", lookup);
        let hit = *self.rng.pick(&[0, 1, 100]);
        self.put_text("hit_latency", format!("{hit} us"));
        name
    }

    /// A `fault` that is nothing but a volatile cache, and slow to destage.
    pub(super) fn cache(&mut self, below: String) -> String {
        let name = self.begin("fault");
        self.put_text("below", below);
        let every = *self.rng.pick(&[2, 20, 200]);
        self.put("cache", format!("{{ size = \"256 KiB\", destage_interval = \"{every} ms\" }}"));
        name
    }

    /// Checksums over a device, with little room in memory and few regions that may be marked.
    pub(super) fn integrity(&mut self, below: String) -> String {
        let name = self.begin("integrity");
        self.put_text("below", below);
        let block = *self.rng.pick(&["512", "4096"]);
        self.put("block_size", block);
        let dirty = *self.rng.pick(&[1, 1, 2, 8]);
        self.put("max_dirty_regions", dirty);
        self.put_text("cache_size", "64 KiB");
        let clean = *self.rng.pick(&[1, 3, 20, 1000]);
        self.put_text("bitmap_delay", format!("{clean} ms"));
        name
    }

    /// Legs with checksums over leaves, one of which stores some writes wrong.
    pub(super) fn rotting_legs(&mut self, count: u64) -> Vec<String> {
        let rotten = self.rng.between(1, count - 1);
        (0..count)
            .map(|leg| {
                let mut below = self.leaf(LEG);
                if leg == rotten {
                    let name = self.begin("fault");
                    self.put_text("below", below);
                    let one_in = *self.rng.pick(&[2, 5, 30]);
                    self.put_text("flip_rate", format!("1/{one_in}"));
                    below = name;
                }
                self.integrity(below)
            })
            .collect()
    }

    /// A stripe of unlike leaves, each behind a volatile cache that is lost every few milliseconds.
    pub(super) fn stripe_that_loses(&mut self) -> String {
        let legs: Vec<String> = (0..self.rng.between(2, 3))
            .map(|_| {
                let leaf = self.block("memory", 32 << 10);
                let name = self.begin("fault");
                self.put_text("below", leaf);
                let size = 4096u64 << self.rng.below(6);
                let every = *self.rng.pick(&[20, 200, 5000]);
                self.put("cache", format!("{{ size = {size}, destage_interval = \"{every} us\" }}"));
                let (mean, back) = (self.rng.between(2, 30), self.rng.between(20, 500));
                let loss =
                    format!("{{ kind = \"random\", mean_interval = \"{mean} ms\", outage = \"{back} us\" }}");
                self.put("loss", loss);
                name
            })
            .collect();
        let name = self.begin("stripe");
        self.put("legs", format!("{legs:?}"));
        let chunk = 4096u64 << self.rng.below(2);
        self.put("chunk", chunk);
        name
    }

    /// Options of `hetero-mirror` beside those of `mirror`.
    pub(super) fn delays(&mut self) {
        for (key, values) in [
            ("write_ack", &["first", "first", "wait-limit", "both", "leader"][..]),
            ("dispatch", &["pipelined", "pipelined", "serial"]),
            ("flush_scope", &["all-legs", "leader"]),
            ("wait_limit", &["ratio", "quantile", "gc-hint"]),
            ("wait_ratio_basis", &["additional", "total"]),
            ("delay_order", &["fifo", "elevator"]),
            ("on_limit", &["block", "degrade"]),
        ] {
            let value = *self.rng.pick(values);
            self.put_text(key, value);
        }
        let floor = *self.rng.pick(&[0, 10, 1000]);
        self.put_text("wait_min", format!("{floor} us"));
        let behind = *self.rng.pick(&[1, 4, 256]);
        self.put("write_behind", behind);
        let hedges = self.rng.below(2) == 0;
        self.put("write_hedge", hedges);
        let critical = *self.rng.fork(27).pick(&[0, 0, 1, 4]);
        self.put("critical_backlog", critical);
        let batch = 4096u64 << self.rng.below(5);
        self.put("delay_batch", batch);
        let depth = self.rng.between(1, 4);
        self.put("delay_depth", depth);
        let resume = self.rng.below(32 << 10);
        self.put("resume_below", resume);
        let hedge = *self.rng.pick(&[0, 100, 2000]);
        self.put_text("hedge_after", format!("{hedge} us"));
        let bytes = 65_536u64 << self.rng.below(4);
        self.put("max_exposed_bytes", bytes);
        let time = *self.rng.pick(&[1, 10, 100, 1000]);
        self.put_text("max_exposed_time", format!("{time} ms"));
    }

    pub(super) fn mirror(&mut self, legs: &[String]) -> String {
        let name = self.begin(if self.hetero { "hetero-mirror" } else { "mirror" });
        self.put("legs", format!("{legs:?}"));
        if self.hetero {
            self.delays();
        }
        self.put_text("region_size", "64 KiB");
        let clear = *self.rng.pick(&[1, 3, 20, 200]);
        self.put_text("bitmap_delay", format!("{clear} ms"));
        self.put("max_dirty_regions", 32);
        let chunk = 4096u64 << self.rng.below(5);
        self.put("resync_chunk", chunk);
        let depth = self.rng.between(1, 4);
        self.put("resync_depth", depth);
        if self.one_in(4) {
            self.put_text("resync_rate", "4 MiB");
        }
        let read = *self.rng.pick(&["leader", "balanced", "round-robin", "shortest-queue", "latency-aware"]);
        self.put_text("read_policy", read);
        let retries = self.rng.below(3);
        self.put("write_retries", retries);
        let fresh = *self.rng.pick(&["resync", "assume-clean"]);
        self.put_text("initial_sync", fresh);
        self.maintenance(legs.len());
        name
    }

    /// How the mirror is looked after: drawn from what is drawn already, so that what else a seed draws stays as it was.
    fn maintenance(&mut self, legs: usize) {
        let mut own = self.own();
        let lead = *own.pick(&["manual", "manual", "immediate"]);
        self.put_text("failback", lead);
        let mark_ahead = *own.pick(&[0, 1, 8]);
        self.put("mark_ahead", mark_ahead);
        let [first, other] = *own.pick(&[[0, 0], [0, 0], [1, 1], [8, 2]]);
        let depths: Vec<u32> = (0..legs).map(|leg| if leg == 0 { first } else { other }).collect();
        self.put("leg_queue_depth", format!("{depths:?}"));
        self.scrub(&mut own);
        if !self.hetero {
            self.timeout(&mut own);
        }
    }

    /// Now and then an array is scrubbed from time to time, and repaired where it differs.
    fn scrub(&mut self, own: &mut Rng) {
        if own.below(6) == 0 {
            let every = *own.pick(&[20, 200]);
            let on = *own.pick(&["repair", "check"]);
            self.put("scrub", format!("{{ interval = \"{every} ms\", rate = 0, on_mismatch = \"{on}\" }}"));
        }
    }

    /// Draws from what stands there already: other choices stay what they were.
    pub(super) fn own(&self) -> Rng {
        let sum =
            self.text.bytes().fold(0u64, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(0x100_0000_01B3));
        Rng::new(sum)
    }

    /// An array of leaves, or with a `depth` above 1 of such arrays too.
    pub(super) fn array(&mut self, depth: u32) -> String {
        let kind = *self.rng.pick(&["stripe", "mirror", "parity", "parity"]);
        let count = match kind {
            "mirror" => 2,
            "stripe" => self.rng.between(2, 3),
            _ => self.rng.between(3, 4),
        };
        let legs: Vec<String> = (0..count)
            .map(|_| match depth {
                _ if depth > 1 && !self.one_in(3) => self.array(depth - 1),
                _ if self.one_in(4) => {
                    let leaf = self.leaf(LEG);
                    self.fault(leaf)
                }
                _ => self.leaf(LEG),
            })
            .collect();
        match kind {
            "mirror" => self.mirror(&legs),
            "stripe" => {
                let name = self.begin(kind);
                self.put("legs", format!("{legs:?}"));
                let chunk = 4096u64 << self.rng.below(3);
                self.put("chunk", chunk);
                name
            }
            _ => self.parity(legs, true),
        }
    }

    /// Without a journal a parity array bears a cut or the loss of a leg, not both.
    pub(super) fn parity(&mut self, legs: Vec<String>, may_fail: bool) -> String {
        let name = self.begin("parity");
        self.put("legs", format!("{legs:?}"));
        if self.one_in(4) {
            self.put("level", 3);
        } else {
            let layouts = ["left-symmetric", "left-asymmetric", "right-symmetric", "right-asymmetric"];
            let layout = *self.rng.pick(&layouts);
            self.put_text("layout", layout);
        }
        let chunk = 4096u64 << self.rng.below(3);
        self.put("chunk", chunk);
        let slots = self.rng.between(8, 16);
        self.put("journal_size", slots * (4096 + chunk));
        if !may_fail && self.one_in(4) {
            self.put_text("write_hole", "resync");
        }
        let rebuild = 4096u64 << self.rng.below(5);
        self.put("rebuild_chunk", rebuild);
        if self.one_in(4) {
            self.put_text("rebuild_rate", "4 MiB");
        }
        let retries = self.rng.below(2);
        self.put("write_retries", retries);
        let fresh = *self.rng.pick(&["resync", "assume-clean"]);
        self.put_text("initial_sync", fresh);
        let mut own = self.own();
        self.scrub(&mut own);
        if may_fail {
            self.timeout(&mut own);
        }
        name
    }

    /// Now and then a leg that hangs is given up: a frozen one often, a slow one now and then.
    fn timeout(&mut self, own: &mut Rng) {
        let timeout = *own.pick(&[0, 0, 3, 30]);
        self.put_text("request_timeout", format!("{timeout} ms"));
    }
}
