//! Random drives: flash with every map, and disks.

use super::{Draft, Drive, keys};
use nandu_base::Rng;
use std::fmt::Write;

/// A cache in SLC mode, and what it needs.
pub(super) struct SlcDraft {
    pub profile: &'static str,
    /// Blocks of each plane.
    pub blocks: u64,
    pub options: String,
}

/// Schedulers of a die, in turns of a few operations.
const OF_A_DIE: [&str; 7] = [
    "kind = \"noop\"",
    "kind = \"drr\", quantum = \"200 us\"",
    "kind = \"flashfq\", throttle = \"500 us\", anticipation = \"100 us\"",
    "kind = \"fios\", slice = \"1 ms\", anticipation = \"100 us\"",
    "kind = \"vssd\", credits = \"300 us\"",
    "kind = \"cffq\", slice = \"1 ms\"",
    "kind = \"cfq\", slice_sync = \"2 ms\", slice_async = \"1 ms\", slice_idle = \"200 us\"",
];

impl Draft<'_> {
    /// A few tracks of a hard disk, with little memory, so that segments and cached writes get into each other's way. One that
    /// stops takes seconds to start, which is long beside what else happens in a stack.
    pub(super) fn hdd(&mut self, least: u64, may_stop: bool) -> String {
        let name = self.begin("hdd");
        let profile = *self.rng.pick(&["samsung-hm080hi", "desktop-2010"]);
        self.put_text("profile", profile);
        let size = least.max(8192).next_multiple_of(4096) + 4096 * self.rng.below(64);
        self.put("capacity", size);
        let queue = *self.rng.pick(&["fcfs", "sstf", "sptf"]);
        self.put_text("scheduler", queue);
        let (depth, patience) = (self.rng.between(1, 8), *self.rng.pick(&[0, 5, 1000]));
        self.put("queue_depth", depth);
        self.put_text("max_wait", format!("{patience} ms"));
        let (segments, segment) = (self.rng.between(1, 4), 512u64 << self.rng.below(7));
        self.put("cache_segments", segments);
        self.put("cache_segment_size", segment);
        let (max_read_bypass, caches) = (!self.one_in(4), !self.one_in(4));
        self.put("read_ahead", max_read_bypass);
        self.put("write_cache", caches);
        if caches {
            let (cache, commands) = (4096u64 << self.rng.below(6), self.rng.between(1, 12));
            self.put("write_cache_size", cache);
            self.put("write_cache_commands", commands);
        }
        if may_stop && self.one_in(3) {
            let stop = *self.rng.pick(&["1 ms", "30 ms", "3000 ms", "break-even"]);
            self.put_text("spin_down", stop);
            if self.one_in(2) {
                self.put("spin_down_adaptive", "{ min = \"1 ms\", max = \"10 s\" }");
            }
        }
        name
    }

    /// A drive so small and so full that clearing blocks is hard work.
    pub(super) fn ssd(&mut self, least: u64) -> String {
        // A generator of its own: what else a seed draws stays as it was.
        let may_log = matches!(self.drive, Drive::Any | Drive::Combined | Drive::Shared);
        let is_log = may_log && self.rng.fork(9).below(8) == 0;
        if self.drive == Drive::LogBlock || is_log {
            let rng = Rng::new(self.rng.bits());
            return self.log_ssd(least, rng);
        }
        let has_tenants = self.drive == Drive::Any && least == 0 && self.rng.fork(13).below(8) == 0;
        let has_tenants = has_tenants || self.drive == Drive::Combined && self.rng.fork(32).below(3) == 0;
        let has_tenants = has_tenants || self.shares_dies && self.rng.fork(50).below(2) == 0;
        let is_of_tenants =
            matches!(self.drive, Drive::Tenants | Drive::Lending | Drive::Dealing | Drive::PagedTenants);
        if is_of_tenants || has_tenants {
            let rng = Rng::new(self.rng.bits());
            return self.tenants_ssd(rng);
        }
        let page = 512u64 << self.rng.below(4);
        let pages = 1u64 << self.rng.between(1, 4);
        let (channels, chips, dies) =
            (self.rng.between(1, 2), self.rng.between(1, 2), self.rng.between(1, 2));
        let planes = 1u64 << self.rng.below(2);
        let start = self.rng.between(2, 4);
        let all_planes = channels * chips * dies * planes;
        let extents = (page - 8) / 16;
        let mut blocks = start + 5 + self.rng.below(12);
        let mut logical;
        loop {
            let most = (blocks - start - 3) * pages * all_planes;
            logical = most.saturating_sub(20) * extents / (extents + 1);
            if logical * page >= least.max(8192) {
                break;
            }
            blocks += 1 + blocks / 8;
        }
        logical -= self.rng.below(logical / 2 + 1) * u64::from(least == 0);
        let mapping = self.mapping(page);
        if mapping.is_some() {
            let entries = 2 * logical.div_ceil(page / 4);
            // One more than most maps need: CFTL gathers blocks.
            blocks += 3 + entries.div_ceil(pages * all_planes);
        }
        // A generator of its own: what else a seed draws stays as it was.
        let mut checkpoint = self.rng.fork(6);
        let checkpoint = (mapping.is_some() && checkpoint.below(2) == 0).then(|| checkpoint.between(1, 12));
        let unit = self.unit();
        let mut streams = self.rng.fork(14);
        let combines = self.drive == Drive::Combined;
        let may_stream =
            matches!(self.drive, Drive::Units | Drive::Any | Drive::Slc) && mapping.is_none() || combines;
        let streams =
            (may_stream && streams.below(4) < 1 + u64::from(combines)).then(|| streams.between(1, 4));
        blocks += u64::from(streams.is_some());
        let by_tenant = self.shares_dies && streams.is_none() && self.rng.fork(51).below(3) == 0;
        blocks += u64::from(by_tenant);
        let checkpoint = checkpoint.filter(|_| unit == "plane");
        let slc = self.slc_cache(
            mapping.is_none() && unit == "plane" || combines,
            page * pages * all_planes,
            pages,
        );
        blocks += slc.as_ref().map_or(0, |slc| slc.blocks);
        if checkpoint.is_some() {
            blocks += checkpoint_blocks(logical, page, pages, all_planes);
        }
        let raw = blocks * pages * all_planes;
        let name = self.begin("ssd");
        let profile =
            *self.rng.pick(&["slc-2015", "slc-2019", "mlc-2019", "tlc-2015", "tlc-2019", "bench-2026"]);
        self.put_text("profile", slc.as_ref().map_or(profile, |slc| slc.profile));
        for (key, value) in [
            ("channels", channels),
            ("chips_per_channel", chips),
            ("dies_per_chip", dies),
            ("planes_per_die", planes),
            ("blocks_per_plane", blocks),
            ("page_size", page),
            ("pages_per_block", pages),
        ] {
            self.put(key, value);
        }
        self.put_text("spare_factor", format!("{}/{raw}", raw - logical));
        if let Some(mapping) = mapping {
            self.put("mapping", mapping);
        }
        if let Some(checkpoint) = checkpoint {
            self.put("checkpoint_interval", checkpoint);
        }
        self.trim_records();
        self.partial_write();
        let copyback = self.one_in(2) && (unit == "plane" && slc.is_none() || combines);
        if unit != "plane" {
            self.put_text("reclaim_unit", unit);
        }
        self.collection(start, copyback, blocks);
        let slc = slc.filter(|_| !self.text.contains("separate_frontier = false"));
        if let Some(slc) = &slc {
            self.put("slc_cache", &slc.options);
        }
        if let Some(threshold) =
            streams.filter(|_| !self.text.contains("separate_frontier = false") || combines)
        {
            let (counters, decay) = (64, 40 * threshold);
            let what = format!("counters = {counters}, decay_interval = {decay}, threshold = {threshold}");
            self.put("streams", format!("{{ kind = \"hot-cold\", {what} }}"));
        }
        if by_tenant {
            let half = logical / 2 * page;
            let list = [0, 1].map(|tenant| format!("{{ name = \"t{tenant}\", size = {half} }}"));
            self.put("tenants", format!("[{}]", list.join(", ")));
            self.put("streams", "{ kind = \"tenant\" }");
        }
        self.wear();
        // A generator of its own: what else a seed draws stays as it was.
        let mut chosen = self.rng.fork(5);
        let queued = chosen.below(2) == 0;
        let is_buffered = matches!(self.drive, Drive::Buffered | Drive::Protected);
        let is_open =
            matches!(self.drive, Drive::Any | Drive::Units | Drive::Slc | Drive::Combined) || is_buffered;
        let defers = matches!(self.drive, Drive::Queued | Drive::Shared);
        if (defers || (is_open && queued)) && !self.fills_stripes() {
            let max_read_bypass = *chosen.pick(&[0, 1, 3, 16, 1000]);
            let more = match self.drive {
                Drive::Shared => {
                    let passes = self.passes();
                    format!(", tenant_scheduler = {{ {} }}{passes}", chosen.pick(&OF_A_DIE))
                }
                _ => self.suspension(),
            };
            self.put(
                "die_scheduler",
                format!("{{ kind = \"out-of-order\", max_read_bypass = {max_read_bypass}{more} }}"),
            );
        }
        self.write_buffer(page);
        let mut axes = ["channel", "chip", "die", "plane"];
        for at in (1..axes.len()).rev() {
            axes.swap(at, self.rng.below(at as u64 + 1) as usize);
        }
        self.put("allocation_order", format!("{axes:?}"));
        let may_aim = matches!(self.drive, Drive::AtOnce | Drive::Queued | Drive::Shared | Drive::Buffered)
            || unit == "die"
            || combines && unit == "plane";
        if may_aim && self.rng.fork(13).below(4) == 0 {
            self.put_text("allocation", "static");
        }
        name
    }

    /// What is opened, collected and erased as one. A generator of its own: what else a seed draws stays as it was.
    fn unit(&mut self) -> &'static str {
        let mut rng = self.rng.fork(12);
        let is_wide = match self.drive {
            Drive::Units => true,
            Drive::Any => rng.below(4) == 0,
            Drive::Combined => rng.below(3) == 0,
            _ => false,
        };
        match is_wide {
            true if rng.below(2) == 0 => "die",
            true => "superblock",
            false => "plane",
        }
    }

    /// How a drive with `blocks` blocks in a plane collects. A generator of its own: what else a seed draws stays as it was.
    pub(super) fn collection(&mut self, start: u64, copyback: bool, blocks: u64) {
        let mut rng = self.rng.fork(7);
        // By name: greedy, which nearly all have, is drawn twice as often, and options at random below.
        let kinds = ["greedy", "greedy", "cost-benefit", "d-choices", "windowed", "fifo"];
        let mut kind = *rng.pick(&kinds);
        let added = self.added("victim");
        kind = added.map_or(kind, |(name, _)| name);
        let mut gc = format!("kind = \"{kind}\", threshold = {start}, copyback = {copyback}");
        match kind {
            "d-choices" => drop(write!(gc, ", choices = {}", rng.between(1, 4))),
            "windowed" => drop(write!(gc, ", window_blocks = {}", rng.between(1, 6))),
            _ => {}
        }
        if let Some((_, options)) = added.filter(|(_, options)| !options.is_empty()) {
            let _ = write!(gc, ", {options}");
        }
        let may_mix = !matches!(
            self.drive,
            Drive::Queued | Drive::Shared | Drive::Tenants | Drive::Lending | Drive::Slc
        );
        // What is lent comes back for one collection only where moved pages have units of their own.
        let lends = self.text.contains("shared-space") || self.added("isolation").is_some();
        let may_mix = may_mix || self.drive == Drive::Tenants && !lends && rng.fork(9).below(2) == 0;
        if rng.below(3) == 0 && may_mix {
            gc += ", separate_frontier = false";
        }
        // In the foreground no share of erased units begins anything.
        let has_share = self.text.contains("tenant_gc_threshold");
        match rng.below(4) {
            0 if has_share => {}
            0 => gc += ", mode = \"foreground\"",
            1 => drop(write!(gc, ", hard_threshold = {}", rng.between(1, start - 1))),
            _ => {}
        }
        if rng.below(3) == 0 {
            let (target, after) = (rng.between(start + 1, blocks - 1), *rng.pick(&[20, 500, 20_000]));
            let gain = *rng.pick(&["0", "1/4"]);
            let _ = write!(
                gc,
                ", idle_free_target = {target}, idle_after = \"{after} us\", idle_min_invalid = \"{gain}\""
            );
        }
        if self.may_fill_stripes(copyback, &gc) {
            gc += ", whole_stripes = true";
        }
        self.put("gc", format!("{{ {gc} }}"));
    }

    /// Whether collection fills stripes, for half of the drives where it may. A generator of its own: what else a seed draws stays as it was.
    fn may_fill_stripes(&self, copyback: bool, gc: &str) -> bool {
        let table = self.table();
        let is_one = table.contains("\nplanes_per_die = 1\n");
        let is_wide =
            ["die", "superblock"].iter().any(|u| table.contains(&format!("reclaim_unit = \"{u}\"")));
        // What these are for is another scheduler of dies.
        let defers = matches!(self.drive, Drive::Queued | Drive::Shared);
        let may = !defers && !copyback && !gc.contains("separate_frontier = false");
        is_wide && !is_one && may && self.rng.fork(56).below(2) == 0
    }

    /// Whether the drive that is being drawn fills stripes, for which its dies serve first come, first served.
    pub(super) fn fills_stripes(&self) -> bool {
        self.table().contains("whole_stripes = true")
    }

    /// What is drawn so far of the last device.
    fn table(&self) -> &str {
        self.text.rsplit("\n[").next().expect("there is a part at least")
    }

    /// Whether reads pass what runs on a die that serves by share.
    fn passes(&mut self) -> String {
        if self.rng.fork(55).below(2) == 0 { self.stands_still() } else { String::new() }
    }

    /// Whether programs and erases stand still for reads, or what a die does next is a scheduler's choice. A generator of its own: what else a seed draws stays as it was.
    pub(super) fn suspension(&mut self) -> String {
        let mut shares = self.rng.fork(52);
        if self.shares_dies && shares.below(2) == 0 {
            return format!(", tenant_scheduler = {{ {} }}{}", shares.pick(&OF_A_DIE), self.passes());
        }
        self.stands_still()
    }

    /// Whether programs and erases stand still for reads.
    fn stands_still(&mut self) -> String {
        let mut rng = self.rng.fork(13);
        if rng.below(2) == 0 {
            return String::new();
        }
        let (programs, erases) = (rng.below(4), rng.below(6));
        if programs == 0 && erases == 0 {
            return String::new();
        }
        let [suspend, resume] = [0; 2].map(|_| *rng.pick(&[0, 5, 100]));
        format!(
            ", suspend = {{ max_per_program = {programs}, max_per_erase = {erases}, suspend_latency = \"{suspend} us\", resume_latency = \"{resume} us\" }}"
        )
    }

    /// A write buffer of a few pages. A generator of its own: what else a seed draws stays as it was.
    pub(super) fn write_buffer(&mut self, page: u64) {
        let mut rng = self.rng.fork(12);
        let is_drawn = match self.drive {
            Drive::Buffered | Drive::Protected => true,
            Drive::Any | Drive::Slc | Drive::Units | Drive::Tenants | Drive::Combined => rng.below(3) == 0,
            Drive::LogBlock | Drive::Dealing => rng.below(2) == 0,
            _ => false,
        };
        if !is_drawn {
            return;
        }
        let (size, link) = (page * rng.between(1, 40), 1u64 << rng.between(20, 32));
        let keep = *rng.pick(&["0", "1/4", "1/2", "1"]);
        let dirty_expire = *rng.pick(&[1, 500, 100_000]);
        let mut buffer = format!(
            "size = {size}, link_bandwidth = {link}, dirty_share = \"{keep}\", dirty_expire = \"{dirty_expire} us\""
        );
        if rng.below(2) == 0 {
            let _ = write!(buffer, ", max_programs = {}", rng.between(1, 8));
        }
        if self.drive == Drive::Protected || rng.below(4) == 0 {
            buffer += ", power_loss_protection = true";
        }
        self.put("write_buffer", format!("{{ {buffer} }}"));
    }

    /// A cache in SLC mode on a drive that may have one, whose blocks of all planes take `row` bytes, with `pages` pages each. A generator of its own: what else
    /// a seed draws stays as it was.
    pub(super) fn slc_cache(&mut self, may_be: bool, row: u64, pages: u64) -> Option<SlcDraft> {
        let mut rng = self.rng.fork(15);
        let is_drawn = match self.drive {
            Drive::Slc => true,
            Drive::Any | Drive::Dealing => rng.below(4) == 0,
            Drive::Combined => rng.below(2) == 0,
            _ => false,
        };
        if !is_drawn || !may_be {
            return None;
        }
        let chips = [("mlc-2019", 2), ("tlc-2019", 3), ("qlc-2020", 4)];
        let (profile, bits) = *rng.pick(&chips[..if pages < 4 { 1 } else { 3 }]);
        let blocks = rng.below(4);
        let dynamic = *rng.pick(if blocks == 0 { &["1", "1/2", "1/3"] } else { &["0", "1/2", "1"] });
        let fixed = blocks * (row / pages) * (pages / bits);
        let full = *rng.pick(&["bypass", "fold"]);
        let (from, to) = *rng.pick(&[("0", "0"), ("1/2", "1/4"), ("1", "1"), ("1/3", "0")]);
        let mut options = format!("static = {fixed}, dynamic = \"{dynamic}\", when_full = \"{full}\"");
        match rng.below(3) {
            0 => options += ", fold_idle = false",
            _ => drop(write!(options, ", fold_start = \"{from}\", fold_stop = \"{to}\"")),
        }
        if rng.below(2) == 0 {
            // Beside an endurance of a few cycles.
            let _ = write!(options, ", endurance = {}", rng.between(2, 20));
        }
        Some(SlcDraft { profile, blocks, options: format!("{{ {options} }}") })
    }

    /// The policy of wear levelling: by threshold with these options, or another one. A generator of its own: what else a seed draws stays
    /// as it was.
    pub(super) fn levelling(&self, threshold: String) -> String {
        if let Some(named) = self.added("levelling") {
            return keys(named);
        }
        let mut own = self.rng.fork(62);
        let mut others = self.shipped("levelling");
        others.retain(|&(name, _)| name != "threshold");
        match own.below(4) {
            0 => keys(*own.pick(&others)),
            _ => threshold,
        }
    }

    /// How its blocks wear.
    pub(super) fn wear(&mut self) {
        let mut rng = self.rng.fork(8);
        let order = *rng.pick(&["fifo", "least-worn"]);
        let (spread, every) = (rng.below(4), rng.between(1, 4));
        let levelling = self.levelling(by_threshold(spread, every));
        let mut wear = format!("free_block_order = \"{order}\", {levelling}");
        if rng.below(4) == 0 {
            wear += ", factory_bad = \"1/20\"";
        }
        let wears_out = match self.drive {
            Drive::Worn => true,
            Drive::Slc | Drive::Combined => rng.below(3) == 0,
            Drive::LogBlock | Drive::Dealing => rng.below(4) == 0,
            _ => false,
        };
        if wears_out {
            let variation = *rng.pick(&["0", "1/2"]);
            let _ =
                write!(wear, ", endurance = {}, endurance_variation = \"{variation}\"", rng.between(2, 8));
        }
        if rng.below(2) == 0 || wears_out {
            self.put("wear", format!("{{ {wear} }}"));
        }
    }

    /// A drive with a log-block map whose log blocks are few and small.
    pub(super) fn log_ssd(&mut self, least: u64, mut rng: Rng) -> String {
        let page = 512u64 << rng.below(4);
        let pages = 1u64 << rng.between(1, 4);
        let (channels, dies, planes) = (rng.between(1, 2), rng.between(1, 2), 1 << rng.below(2));
        let all_planes = channels * dies * planes;
        let least_blocks = least.max(8192).div_ceil(page * pages * all_planes);
        let mut logical = least_blocks + rng.below(8) + 1;
        let mut logs = rng.between(1, 4);
        // Pieces that are dealt out unevenly may take one or two blocks more on the first plane.
        let mut blocks = (logical + logs + 5 + rng.below(5)).max(7);
        // A generator of its own: what else a seed draws stays as it was.
        let mut own = rng.fork(40);
        let may_share = least == 0
            && matches!(self.drive, Drive::Any | Drive::Combined | Drive::LogBlock | Drive::Shared);
        let mut isolation = (may_share && own.below(3) == 0).then(|| match own.below(4) {
            0 if channels == 2 => "channel",
            1 if channels * dies > 1 => "die",
            2 => "ops",
            _ => "vssd",
        });
        if isolation.is_some_and(|kind| ["ops", "vssd"].contains(&kind)) {
            // A part of every plane for each of two.
            blocks = 2 * (logical.div_ceil(2) + logs + 6 + own.below(3));
        }
        let mut lends = rng.fork(71);
        let is_lent = match self.drive {
            Drive::LogBlock => may_share && lends.below(3) == 0,
            _ => isolation == Some("vssd") && lends.below(2) == 0,
        };
        if is_lent {
            // One has few logical blocks, and so log blocks to spare; the other has many.
            logs = lends.between(3, 5);
            logical = lends.between(logical.max(8), logical.max(8) + 8).next_multiple_of(4);
            blocks = 4 * (logical / 4 + logs + 6 + own.below(3));
            isolation = Some("shared-space");
        }
        let mut deals = (self.drive == Drive::Dealing).then(|| rng.fork(73));
        if let Some(rng) = &mut deals {
            // Half of the pages, a quarter, and the rest for who comes. The smallest one has no log block to spare, or a few.
            logs = rng.between(1, 3);
            logical = rng.between(logical.max(4), logical.max(4) + 10).next_multiple_of(4);
            blocks = 4 * (logical / 4 + logs + 5 + rng.below(4)) + 2;
            isolation = Some(if rng.below(2) == 0 { "vssd" } else { "shared-space" });
        }
        let name = self.begin("ssd");
        self.put_text("profile", *rng.pick(&["slc-2015", "slc-2019", "mlc-2019", "tlc-2019", "bench-2026"]));
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
        self.put("spare_factor", format!("\"{}/{blocks}\"", blocks - logical));
        if isolation.is_some() {
            let all = logical * pages * all_planes * page;
            let few = if is_lent || deals.is_some() { all / 4 } else { all / 2 };
            let many = if deals.is_some() { all / 2 } else { all - few };
            self.tenant_bytes = vec![many, few];
            self.put(
                "tenants",
                format!("[{{ name = \"t0\", size = {many} }}, {{ name = \"t1\", size = {few} }}]"),
            );
        }
        if let Some(rng) = &mut deals {
            self.put("max_tenants", 2 + rng.below(4));
        }
        let interleave = rng.between(1, 2 * pages);
        let borrow = rng.below(3) == 0;
        let mapping = match rng.below(3) {
            0 => format!("kind = \"block\", replacement_blocks = {}", rng.between(1, logs)),
            _ if is_lent || isolation == Some("shared-space") => {
                format!("kind = \"bast\", log_blocks = {logs}")
            }
            1 => format!("kind = \"bast\", log_blocks = {logs}, use_free_blocks = {borrow}"),
            _ => {
                let sequential = rng.below(4) > 0;
                format!(
                    "kind = \"fast\", log_blocks = {logs}, use_free_blocks = {borrow}, sequential_log_block = {sequential}"
                )
            }
        };
        if let Some(kind) = isolation {
            let options = match kind {
                "shared-space" => lending_logs(&mut lends),
                _ => format!("kind = \"{kind}\""),
            };
            self.put("isolation", format!("{{ {options} }}"));
        }
        self.put("mapping", format!("{{ {mapping}, interleave = {interleave} }}"));
        self.partial_write();
        let mut gc = format!("copyback = {}", rng.below(2) == 0);
        if rng.below(3) == 0 {
            let (target, after) = (rng.between(1, 4), *rng.pick(&[20, 500, 20_000]));
            let _ = write!(gc, ", idle_free_target = {target}, idle_after = \"{after} us\"");
        }
        self.put("gc", format!("{{ kind = \"greedy\", {gc} }}"));
        self.wear();
        if rng.below(2) == 0 || self.drive == Drive::Shared {
            let max_read_bypass = *rng.pick(&[0, 1, 3, 16, 1000]);
            let more = match self.drive {
                Drive::Shared => {
                    let passes = self.passes();
                    format!(", tenant_scheduler = {{ {} }}{passes}", rng.pick(&OF_A_DIE))
                }
                _ => self.suspension(),
            };
            self.put(
                "die_scheduler",
                format!("{{ kind = \"out-of-order\", max_read_bypass = {max_read_bypass}{more} }}"),
            );
        }
        self.write_buffer(page);
        name
    }

    /// A map that the registry adds, with what its file says of how it is drawn, and what all maps on the flash have.
    fn added_mapping(&mut self, common: &str) -> Option<String> {
        // Two families are about what one map does.
        if matches!(self.drive, Drive::Gathers | Drive::DelayedReads) {
            return None;
        }
        // A generator of its own: what else a seed draws stays as it was.
        let (name, options) = self.added_by("mapping", self.rng.fork(44))?;
        let common = if self.policies.has_option("mapping", name, "gc_batch") { common } else { "" };
        // What its file says goes before what all have.
        let key = |part: &str| part.split('=').next().unwrap_or_default().trim().to_string();
        let said: Vec<String> = options.split(',').map(key).collect();
        let common = common.split(", ").filter(|part| !said.contains(&key(part)));
        let all = std::iter::once(options).chain(common).filter(|text| !text.is_empty());
        let all: String = all.map(|text| format!(", {text}")).collect();
        Some(format!("{{ kind = \"{name}\"{all} }}"))
    }

    /// A map on the flash, its cache far too small; [`None`] for the page map.
    pub(super) fn mapping(&mut self, page: u64) -> Option<String> {
        if matches!(self.drive, Drive::AtOnce | Drive::Trimmed | Drive::Queued | Drive::Worn | Drive::Slc) {
            return None;
        }
        // A generator of its own: what else a seed draws stays as it was.
        if self.drive == Drive::Shared && self.rng.fork(31).below(2) == 0 {
            return None;
        }
        let batch = self.rng.between(1, 20);
        let write_back = *self.rng.pick(&["sync", "async"]);
        // A generator of its own: what else a seed draws stays as it was.
        let program = *self.rng.fork(41).pick(&["after-lookup", "after-lookup", "at-once"]);
        let common =
            format!("gc_batch = {batch}, eviction_write = \"{write_back}\", data_program = \"{program}\"");
        if let Some(added) = self.added_mapping(&common) {
            return Some(added);
        }
        // A generator of its own: what else a seed draws stays as it was.
        let mut other = self.rng.fork(52);
        if !matches!(self.drive, Drive::Gathers | Drive::DelayedReads) && other.below(3) == 0 {
            if other.below(2) == 0 {
                // Room for one to three translation pages as single segments.
                let ram = (16 + 2 * page + page / 8) * other.between(1, 3) + other.below(100);
                return Some(format!("{{ kind = \"leaftl\", cmt_size = {ram}, {common} }}"));
            }
            // Room for one to four plain translation pages, and for some changes.
            let ram = (page + 8) * other.between(1, 4) + other.below(100);
            let share = *other.pick(&["0", "1/8", "1/2", "1/2"]);
            return Some(format!(
                "{{ kind = \"sftl\", cmt_size = {ram}, dirty_buffer_share = \"{share}\", {common} }}"
            ));
        }
        let kind = match self.drive {
            Drive::DelayedReads => 2,
            Drive::Gathers => 1,
            Drive::Paged | Drive::PagedTenants => self.rng.below(4),
            Drive::Combined => self.rng.below(5),
            _ => self.rng.below(8),
        };
        match kind {
            3 => Some(format!("{{ kind = \"tpftl\", cmt_size = {}, {common} }}", self.rng.between(14, 200))),
            0 => {
                let ram = self.rng.between(16, 200);
                // A generator of its own: what else a seed draws stays as it was.
                let protected = *self.rng.fork(11).pick(&["0", "0", "1/4", "1/2", "9/10"]);
                Some(format!(
                    "{{ kind = \"dftl\", cmt_size = {ram}, protected_share = \"{protected}\", {common} }}"
                ))
            }
            1 => {
                let ram = self.rng.between(24, 200);
                // A generator of its own: what else a seed draws stays as it was.
                let mut rng = self.rng.fork(7);
                let gathers = self.drive == Drive::Gathers || rng.below(4) > 0;
                let (reads, writes, pages) = (rng.between(1, 6), rng.below(8), rng.between(1, 9));
                let switching = match gathers {
                    true => format!(
                        "{{ kind = \"by-access\", reads = {reads}, writes = {writes}, pages = {pages} }}"
                    ),
                    false => "{ kind = \"never\" }".into(),
                };
                Some(format!("{{ kind = \"cftl\", cmt_size = {ram}, switching = {switching}, {common} }}"))
            }
            2 => {
                let ram = (page + 12) * self.rng.between(1, 3);
                let delayed = self.drive == Drive::DelayedReads || self.one_in(2);
                let invalidation = *self.rng.pick(&["at-collection", "at-read"]);
                // It is about delayed reads.
                let invalidation = match delayed {
                    true => format!(", invalidation = \"{invalidation}\""),
                    false => String::new(),
                };
                let clean_first_window = *self.rng.pick(&["1", "1/2"]);
                Some(format!(
                    "{{ kind = \"tpc-ftl\", cmt_size = {ram}, delayed_read = {delayed}{invalidation}, \
                     clean_first_window = \"{clean_first_window}\", {common} }}"
                ))
            }
            _ => None,
        }
    }
}

impl Draft<'_> {
    /// Some drives lay parts of pages over what the chip holds. A generator of its own: what else a seed draws stays as it was.
    pub(super) fn partial_write(&mut self) {
        if self.rng.fork(42).below(5) == 0 {
            self.put_text("partial_write", "uncharged");
        }
    }

    /// Half of the drives write their records of trims anew often.
    pub(super) fn trim_records(&mut self) {
        let mut rng = self.rng.fork(33);
        if rng.below(2) == 0 {
            self.put("trim_records", rng.between(1, 4));
        }
    }
}

/// The options of `threshold`: one block of so many is cleared for its wear, or none ever is.
pub(super) fn by_threshold(spread: u64, every: u64) -> String {
    match spread {
        0 => "static_wl_threshold = 0".into(),
        _ => format!("static_wl_threshold = {spread}, static_wl_interval = {every}"),
    }
}

/// Blocks of each plane for checkpoints of a map with at most the RAM that is drawn.
pub(super) fn checkpoint_blocks(logical: u64, page: u64, pages: u64, planes: u64) -> u64 {
    let (entries, extents) = (page / 4, (page - 8) / 16);
    let ram = (3 * (page + 12)).max(200);
    let words = 7 + logical.div_ceil(entries) + 2 * (logical / (2 * extents) + 2) + 16 + ram / 2;
    (2 * words.div_ceil(entries).div_ceil(pages)).div_ceil(planes)
}

/// Tenants that lend each other log blocks.
fn lending_logs(rng: &mut Rng) -> String {
    let (beta, back) = (*rng.pick(&["1/4", "1/2", "9/10"]), *rng.pick(&["at-erase", "on-demand", "never"]));
    let mut options = format!(
        "kind = \"shared-space\", contribution = \"{beta}\", return_policy = \"{back}\", reserve_min = 1"
    );
    if rng.below(3) == 0 {
        options += ", contribution_max = \"19/20\"";
    }
    if rng.below(2) == 0 {
        let after = *rng.pick(&[20, 500, 20_000]);
        let _ = write!(options, ", return_pool_below = \"1\", return_idle_after = \"{after} us\"");
    }
    options
}
