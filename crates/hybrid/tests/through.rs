//! `cache_mode = "writethrough"`: the SSD is lost at every step, blinks, fails, is replaced and comes back old; nothing that was answered is lost, and no request fails for it.

use nandu_base::{
    Admin, DeviceEvent, ErrorKind, Flags, Health, Instant, Op, OpenOptions, Rng, SECTOR, Stamp,
};
use nandu_stack::testbed::Testbed;
use nandu_stack::{BuildOptions, builtin};

const PAGE: u64 = 4096;
const PLAIN: OpenOptions = OpenOptions { create: false, alone: false, assume_clean: false, salvage: false };

/// Rings so small that everything wraps, behind `fault` where `losses` says how they are lost, before a disk that keeps what it has answered.
fn stack(rings: &[&str], options: &str, losses: &str) -> String {
    stack_in("writethrough", rings, options, losses)
}

/// The same in a mode of the cache.
fn stack_in(mode: &str, rings: &[&str], options: &str, losses: &str) -> String {
    let ring = |name: &&str| {
        let below =
            format!("[device.{name}-flash]\nkind = \"memory\"\nsize = \"352 KiB\"\nlatency = \"50 us\"\n");
        format!("[device.{name}]\nkind = \"fault\"\nbelow = \"{name}-flash\"\n{losses}\n{below}")
    };
    let named: String = rings.iter().map(|name| format!("{name} = \"{name}\"\n")).collect();
    format!(
        "[export.data]\ndevice = \"hybrid\"\n[device.hybrid]\nkind = \"hybrid\"\ncache_mode = {mode:?}\ndisk = \"disk\"\n\
         erase_unit = \"32 KiB\"\ndram_size = \"64 KiB\"\npromote = \"always\"\nread_bypass = 0\n{named}{options}\n\
         [device.disk]\nkind = \"memory\"\nsize = \"2 MiB\"\nlatency = \"500 us\"\n{}",
        rings.iter().map(ring).collect::<String>()
    )
}

fn bed(rings: &[&str], options: &str, losses: &str) -> Testbed {
    let built = Testbed::new(&stack(rings, options, losses), &builtin(), BuildOptions::default());
    built.unwrap_or_else(|error| panic!("{error}"))
}

fn figure(bed: &mut Testbed, name: &str) -> u64 {
    bed.counter("hybrid", name)
}

fn rest(bed: &mut Testbed, ms: u64) {
    let later = Instant(bed.now().0 + ms * 1_000_000);
    bed.run_until(later);
}

/// Reads pages until the ring has them.
fn warm(bed: &mut Testbed, pages: u64) {
    for page in 0..pages {
        bed.go(Op::Read, page * PAGE, PAGE);
        rest(bed, 40);
    }
}

/// What each sector holds, by an obvious model: one array of the newest write of each sector.
struct Model(Vec<Stamp>);

impl Model {
    fn of(bed: &Testbed) -> Model {
        Model(vec![Stamp::ZERO; (bed.capacity(0) / SECTOR) as usize])
    }

    fn check(&self, bed: &mut Testbed, what: &str) {
        let capacity = self.0.len() as u64;
        for at in (0..capacity).step_by(64) {
            let len = 64.min(capacity - at);
            let done = bed.go(Op::Read, at * SECTOR, len * SECTOR);
            assert_eq!(done.error, None, "{what}: sectors {at}+{len}");
            assert_eq!(done.data, self.0[at as usize..(at + len) as usize], "{what}: sectors {at}+{len}");
        }
    }
}

/// One random request, several at a time, and what the model says of it.
fn turn(bed: &mut Testbed, model: &mut Model, rng: &mut Rng, what: &str) {
    let capacity = model.0.len() as u64;
    let mut asked = Vec::new();
    // Several at a time, of which no two meet.
    let lanes = rng.between(1, 6);
    for lane in 0..lanes {
        let room = capacity / 8;
        let longest = if rng.below(8) == 0 { 200 } else { 24 };
        let len = rng.between(1, longest.min(room));
        let hot = if rng.below(3) == 0 { room } else { room / 3 };
        let first = lane * room + rng.below(hot.max(len + 1)).min(room - len);
        let (offset, bytes) = (first * SECTOR, len * SECTOR);
        let (op, flags) = match rng.below(20) {
            0 => (Op::Trim, Flags::NONE),
            1 => (Op::WriteZeroes, Flags::FUA),
            2..=9 => (Op::Write, Flags::NONE),
            _ => (Op::Read, Flags::NONE),
        };
        asked.push((bed.submit(0, op, flags, offset, bytes), op, first, len));
    }
    bed.settle();
    let done = bed.take_done();
    for (serial, op, first, len) in asked {
        let end = done.iter().find(|d| d.serial == serial).expect("it is done");
        assert_eq!(end.error, None, "{what}: {op:?} of sectors {first}+{len}");
        let range = first as usize..(first + len) as usize;
        match op {
            Op::Read => assert_eq!(end.data, model.0[range], "{what}: sectors {first}+{len}"),
            Op::Write => {
                (first..first + len).for_each(|at| model.0[at as usize] = Stamp::new(serial, at));
            }
            _ => model.0[range].fill(Stamp::ZERO),
        }
    }
    if rng.below(8) == 0 {
        rest(bed, 50);
    }
}

/// Random loads beside rings that are lost at any moment, with cuts of the power that nobody has flushed before, and clean ends.
fn random(rings: &[&str], options: &str, losses: &str, seed: u64) -> (u64, u64, u64) {
    let mut bed = bed(rings, options, losses);
    let (mut rng, mut model) = (Rng::new(seed), Model::of(&bed));
    let (mut departures, mut returns, mut hits) = (0, 0, 0);
    let mut count = |bed: &mut Testbed| {
        departures += figure(bed, "ring_departures");
        returns += figure(bed, "ring_returns");
        hits += figure(bed, "slc_hits") + figure(bed, "mlc_hits");
    };
    for at in 0..400u64 {
        let what = format!("{options:?}, seed {seed}, turn {at}");
        turn(&mut bed, &mut model, &mut rng, &what);
        match rng.below(60) {
            0 => {
                count(&mut bed);
                bed.crash(at);
            }
            1 => {
                count(&mut bed);
                bed.close();
                assert_eq!(bed.graph().pool.living(), 0, "{what}: buffers are held after the end");
                bed.crash(at);
                model.check(&mut bed, &what);
            }
            _ => {}
        }
    }
    count(&mut bed);
    model.check(&mut bed, &format!("seed {seed}, at the end"));
    (departures, returns, hits)
}

const LOSSES: &str = "loss = { kind = \"random\", mean_interval = \"200 ms\", outage = \"30 ms\" }";
const ERRORS: &str = "read_error_rate = \"1/20\"\nwrite_error_rate = \"1/200\"\n\
                      cache = { size = 16384, destage_interval = \"5 ms\" }\n\
                      loss = { kind = \"random\", mean_interval = \"400 ms\", outage = \"200 us\" }";

#[test]
fn random_loads_agree_with_the_model_whatever_becomes_of_the_rings() {
    for (at, losses) in ["", LOSSES, ERRORS].into_iter().enumerate() {
        let mut sums = [0; 3];
        for seed in 1..=4 {
            for (rings, options) in [
                (&["slc"][..], ""),
                (&["mlc"], "rewrite = \"never\"\nwrite_bypass = \"16 KiB\""),
                (&["slc", "mlc"], "group_pages = 3"),
                (
                    &["slc", "mlc"],
                    "tiers = \"inclusive\"\nappend_order = \"lru\"\nsequential_cutoff = \"32 KiB\"",
                ),
            ] {
                let (departures, returns, hits) = random(rings, options, losses, seed + 100 * at as u64);
                sums = [sums[0] + departures, sums[1] + returns, sums[2] + hits];
            }
        }
        println!(
            "{losses:?}: {} departures, {} returns, {} pages read from rings",
            sums[0], sums[1], sums[2]
        );
        assert_eq!(sums[0] > 20, !losses.is_empty(), "{sums:?}");
        assert!(sums[2] > 1000, "{sums:?}");
    }
}

/// What becomes of the ring in a story.
#[derive(Clone, Copy, Debug)]
enum Fate {
    /// It is gone for good, and requests go on.
    Gone,
    /// It is gone and back at once, without what it had in volatile memory.
    Blinks,
    /// All its reads and writes fail from now on.
    Fails,
    /// The power is cut.
    Cut,
    /// The power is cut, and the ring is not there at the next start; later it is, as it was.
    CutAndGone,
}

const FATES: [Fate; 5] = [Fate::Gone, Fate::Blinks, Fate::Fails, Fate::Cut, Fate::CutAndGone];

/// A story that is told with something happening to the ring at one of its steps.
struct Story {
    bed: Testbed,
    model: Model,
    steps: u64,
    at: u64,
    fate: Fate,
}

impl Story {
    fn new(at: u64, fate: Fate) -> Story {
        let bed = bed(&["slc"], "append_idle = \"100 us\"", "");
        Story { model: Model::of(&bed), bed, steps: 0, at, fate }
    }

    fn tell(&mut self) {
        for turn in 0..3 {
            for page in 0..20 {
                self.go(Op::Read, page, 1);
            }
            for page in (turn..20).step_by(5) {
                self.go(Op::Write, page, 1 + page % 2);
            }
            self.go(Op::Flush, 0, 0);
        }
    }

    /// One request, and what the model says of it.
    fn go(&mut self, op: Op, page: u64, pages: u64) {
        let what = format!("{:?} at step {}", self.fate, self.at);
        let serial = self.bed.submit(0, op, Flags::NONE, page * PAGE, pages * PAGE);
        let range = (page * 8) as usize..((page + pages) * 8) as usize;
        let done = loop {
            if self.steps == self.at && self.happens() {
                // Each sector of a write that was under way is old or new.
                let found = self.bed.go(Op::Read, page * PAGE, PAGE * pages.max(1)).data;
                for (at, found) in range.zip(found) {
                    let may = op == Op::Write && found == Stamp::new(serial, at as u64);
                    assert!(may || found == self.model.0[at], "{what}: sector {at}");
                    self.model.0[at] = found;
                }
                self.steps += 1;
                return;
            }
            if let Some(done) = self.bed.take_done().into_iter().find(|done| done.serial == serial) {
                break done;
            }
            self.steps += 1;
            assert!(self.bed.step(), "{what}: a request is never finished");
        };
        assert_eq!(done.error, None, "{what}: {op:?} of page {page}");
        match op {
            Op::Read => assert_eq!(done.data, self.model.0[range], "{what}: page {page}"),
            _ => range.for_each(|at| self.model.0[at] = Stamp::new(serial, at as u64)),
        }
    }

    /// It happens. Whether the power was cut.
    fn happens(&mut self) -> bool {
        match self.fate {
            Fate::Gone => self.bed.device_event("slc", DeviceEvent::Lost),
            Fate::Blinks => {
                self.bed.device_event("slc", DeviceEvent::Lost);
                self.bed.device_event("slc", DeviceEvent::Back);
            }
            Fate::Fails => {
                self.bed.spoil("slc-flash", 0, 352 << 10, ErrorKind::WriteFailed);
            }
            Fate::Cut => self.bed.crash(self.at + 1),
            Fate::CutAndGone => {
                self.bed.miss(&["slc", "slc-flash"]);
                self.bed.reopen(PLAIN, self.at + 1).expect("it starts without the ring");
                assert_eq!(figure(&mut self.bed, "rings_in_use"), 0);
            }
        }
        matches!(self.fate, Fate::Cut | Fate::CutAndGone)
    }

    /// The end of all, and what the next starts find: with the ring as it is now.
    fn end(mut self) {
        let what = format!("{:?} at step {}", self.fate, self.at);
        self.model.check(&mut self.bed, &what);
        if self.at.is_multiple_of(2) {
            self.bed.close();
            assert_eq!(self.bed.graph().pool.living(), 0, "{what}: buffers are held after the end");
        }
        self.bed.heal("slc-flash");
        self.bed.miss(&[]);
        for start in 0..2 {
            self.bed.crash(self.at + 10 + start);
            assert_eq!(figure(&mut self.bed, "rings_in_use"), 1, "{what}: it is taken again");
            self.model.check(&mut self.bed, &what);
            warm(&mut self.bed, 3);
            self.bed.close();
        }
    }
}

/// Reads, writes, promotions, collections and flushes, and at each of their steps each thing that may happen to the ring.
#[test]
fn a_loss_at_every_step_loses_nothing() {
    let mut whole = Story::new(1 << 40, Fate::Gone);
    whole.tell();
    let steps = whole.steps;
    let did = ["slc_collections", "slc_hits", "marks"].map(|name| figure(&mut whole.bed, name));
    assert!(did.iter().all(|&n| n > 0), "the story does what it is about: {did:?}");
    whole.end();
    println!("{steps} steps, {did:?}");
    for fate in FATES {
        for at in 0..steps {
            let mut story = Story::new(at, fate);
            story.tell();
            story.end();
        }
    }
}

fn superblock(bed: &mut Testbed, member: &str) -> Option<u64> {
    let sectors = bed.records(member);
    sectors.into_iter().find(|&sector| bed.record_mut(member, sector).starts_with(b"NanduHS"))
}

#[test]
fn a_cache_is_warm_after_a_clean_end_and_cold_after_any_other() {
    let mut bed = bed(&["slc"], "", "");
    warm(&mut bed, 20);
    let hits = |bed: &mut Testbed| {
        let before = figure(bed, "slc_hits");
        for page in 0..20 {
            bed.go(Op::Read, page * PAGE, PAGE);
        }
        figure(bed, "slc_hits") - before
    };
    bed.close();
    bed.crash(2);
    assert!(hits(&mut bed) >= 19, "of a clean end");
    bed.crash(3);
    assert_eq!(hits(&mut bed), 0, "of a crash");
}

#[test]
fn a_write_renews_what_the_ring_had_and_brings_nothing_else_up() {
    let mut bed = bed(&["slc"], "", "");
    warm(&mut bed, 20);
    let appended = figure(&mut bed, "slc_bytes_written");
    let serials: Vec<u32> = [3, 30].map(|page| bed.go(Op::Write, page * PAGE, PAGE).serial).into();
    for page in 40..60 {
        bed.go(Op::Read, page * PAGE, PAGE); // others push it out of DRAM
    }
    rest(&mut bed, 100);
    assert!(figure(&mut bed, "slc_bytes_written") > appended);
    let hits = figure(&mut bed, "slc_hits");
    assert_eq!(bed.go(Op::Read, 3 * PAGE, PAGE).data[0], Stamp::new(serials[0], 24));
    assert_eq!(figure(&mut bed, "slc_hits"), hits + 1);
    assert_eq!(bed.go(Op::Read, 30 * PAGE, PAGE).data[0], Stamp::new(serials[1], 240));
    assert_eq!(figure(&mut bed, "slc_hits"), hits + 1);
    assert_eq!(
        bed.stored("disk", 30 * PAGE),
        Stamp::new(serials[1], 240),
        "data lie on the disk at their own addresses"
    );
}

/// A ring that missed changes is taken again, and nothing that it held then counts: not the copy of an earlier clean end either.
#[test]
fn an_older_copy_of_the_ring_is_never_believed() {
    let mut bed = bed(&["slc"], "", "");
    warm(&mut bed, 20);
    bed.close();
    let old = bed.media();
    let mut serials = Vec::new();
    for start in 0..3 {
        if start < 2 {
            bed.miss(&["slc", "slc-flash"]);
        } else {
            bed.miss(&[]);
            bed.restore_one(&old, "slc-flash");
        }
        bed.reopen(PLAIN, start + 2).expect("it starts with and without");
        if start < 2 {
            serials.push(bed.go(Op::Write, start * PAGE, PAGE).serial);
        }
        for (page, &serial) in (0..).zip(&serials) {
            assert_eq!(
                bed.go(Op::Read, page * PAGE, PAGE).data[0],
                Stamp::new(serial, page * 8),
                "start {start}"
            );
        }
        bed.close();
    }
}

#[test]
fn a_blank_ring_is_taken_where_an_operator_says_so_and_a_strange_one_is_not() {
    let options = BuildOptions { seed: 77, ..BuildOptions::default() };
    let mut other = Testbed::new(&stack(&["slc"], "", ""), &builtin(), options).expect("it is well formed");
    other.close();
    let mut bed = bed(&["slc"], "append_idle = \"1 ms\"", "");
    let serial = bed.go(Op::Write, 0, PAGE).serial;
    bed.close();
    // Of another set: left out, and not written to.
    bed.restore_one(&other.media(), "slc-flash");
    let was = superblock(&mut bed, "slc-flash").map(|at| bed.record_mut("slc-flash", at).to_vec());
    bed.reopen(PLAIN, 2).expect("it starts without");
    assert_eq!(figure(&mut bed, "rings_in_use"), 0);
    assert_eq!(bed.graph().members(bed.node("hybrid")).and_then(|of| of.health()), Some(Health::Degraded));
    let is = superblock(&mut bed, "slc-flash").map(|at| bed.record_mut("slc-flash", at).to_vec());
    assert_eq!(was, is);
    bed.close();
    // Blank: not without a word.
    bed.wipe("slc-flash");
    bed.reopen(PLAIN, 3).expect("it starts without");
    assert_eq!(figure(&mut bed, "rings_in_use"), 0);
    bed.admin("hybrid", Admin::Replace(0)).expect("a ring may be replaced");
    assert!(bed.admin("hybrid", Admin::Replace(1)).is_err(), "the disk may not");
    bed.device_event("slc", DeviceEvent::Lost);
    bed.device_event("slc", DeviceEvent::Back);
    rest(&mut bed, 50);
    assert_eq!(figure(&mut bed, "rings_in_use"), 1);
    warm(&mut bed, 10);
    assert!(figure(&mut bed, "slc_bytes_written") > 0);
    bed.close();
    bed.wipe("slc-flash");
    bed.reopen(OpenOptions { create: true, ..PLAIN }, 4).expect("it is made");
    assert_eq!(figure(&mut bed, "rings_in_use"), 1);
    assert_eq!(bed.go(Op::Read, 0, PAGE).data[0], Stamp::new(serial, 0));
}

/// A set that writes back has data in its rings that nothing else has: the other mode is refused, either way.
#[test]
fn the_mode_of_a_set_does_not_change() {
    let through = stack(&["slc"], "", "");
    let back = stack_in("writeback", &["slc"], "", "");
    for (made, other) in [(&through, &back), (&back, &through)] {
        let new =
            |text: &str| Testbed::new(text, &builtin(), BuildOptions::default()).expect("it is well formed");
        let mut bed = new(made);
        bed.go(Op::Write, 0, PAGE);
        bed.close();
        let media = bed.media();
        let mut wrong = new(other);
        wrong.restore(&media);
        let why = wrong.reopen(PLAIN, 2).expect_err("it is of the other mode").to_string();
        assert!(why.contains("was made with `cache_mode = \"write"), "{why}");
        wrong.restore(&media);
        let why = wrong
            .reopen(OpenOptions { salvage: true, create: true, ..PLAIN }, 3)
            .expect_err("whatever is said");
        assert!(why.to_string().contains("was made with"), "{why}");
    }
}

/// The disk is what all rests on: while it is gone every request fails, and when it is back everything is served again.
#[test]
fn the_disk_is_needed() {
    let mut bed = bed(&["slc"], "", "");
    warm(&mut bed, 10);
    let serial = bed.go(Op::Write, 0, PAGE).serial;
    bed.device_event("disk", DeviceEvent::Lost);
    assert!(bed.go(Op::Read, 0, PAGE).error.is_some());
    bed.device_event("disk", DeviceEvent::Back);
    rest(&mut bed, 100);
    assert_eq!(bed.go(Op::Read, 0, PAGE).data[0], Stamp::new(serial, 0));
    assert_eq!(figure(&mut bed, "rings_in_use"), 1);
    bed.miss(&["disk"]);
    assert!(bed.reopen(PLAIN, 2).expect_err("it needs its disk").to_string().contains("not there"));
}

/// What a ring cannot read is read from the disk.
#[test]
fn what_a_ring_does_not_read_the_disk_has() {
    let mut bed = bed(&["slc"], "", "");
    let serial = bed.go(Op::Write, 0, 20 * PAGE).serial;
    warm(&mut bed, 20);
    for page in 40..60 {
        bed.go(Op::Read, page * PAGE, PAGE);
    }
    rest(&mut bed, 100);
    let hits = figure(&mut bed, "slc_hits");
    bed.spoil("slc-flash", 0, 352 << 10, ErrorKind::Unreadable);
    let done = bed.go(Op::Read, 0, 20 * PAGE);
    assert_eq!((done.error, done.data[159]), (None, Stamp::new(serial, 159)));
    assert!(figure(&mut bed, "slc_hits") > hits, "the ring was asked");
}
