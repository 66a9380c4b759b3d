//! Seeds that failed once, with the stack they drew then; and faults that only some stacks can show.

use crate::verify::{Drive, Family, Shape, VerifyOptions, verify};

/// Programs passed erases that waited for another die and used up the blocks that were erased already. A power cut then
/// found a plane without a block to move pages to.
#[test]
fn blocks_are_not_used_up_while_erases_wait() {
    let drive = |options: &str| {
        format!(
            "[export.data]\ndevice = \"ssd1\"\n\n[device.ssd1]\nkind = \"ssd\"\narbiter = {{ kind = \"queued\" }}\n{options}"
        )
    };
    let drawn = drive(
        "profile = \"slc-2015\"\nchannels = 2\nchips = 2\nblocks = 19\npage = 512\npages_per_block = 2\n\
         spare_factor = \"87/152\"\ngc = { kind = \"greedy\", start = 4, copyback = true }\n\
         placement = [\"chip\", \"plane\", \"die\", \"channel\"]\n",
    );
    hold_file(&drawn, 10_538);
}

/// Both arbiters are drawn; this fault shows only with the one that lets operations wait.
#[test]
fn an_erase_before_waiting_reads_is_found() {
    let options = VerifyOptions {
        shape: Shape::Named(Family::Ssd(Drive::Any)),
        seeds: 2000,
        crash: true,
        plant: Some("ssd.erase-before-reads".into()),
        failures_max: 1,
        ..VerifyOptions::default()
    };
    let report = verify(&options, |_| {}).expect("the seeds can be run");
    assert!(!report.failures.is_empty());
}

/// Neither slot of a page of the map could be read; it was written anew into one of them, under a low number. At the next
/// start the other one could be read again and looked newer, without the mark of a region that only the leader held.
#[test]
fn a_map_that_could_not_be_read_once_is_not_believed_later() {
    hold_shape(Shape::named("hetero-mirror-of-unlike").expect("a family"), 1671);
}

/// Trims that were about to go on record were nowhere when the page for the record had to be cleared first: what was
/// erased then let an older version come back after a cut.
#[test]
fn trims_are_waiting_until_their_record_has_a_page() {
    let stack = "[export.data]\ndevice = \"ssd1\"\n\n[device.ssd1]\nkind = \"ssd\"\nprofile = \"bench-2026\"\nchannels = 1\n\
                 dies = 1\nplanes = 1\nblocks = 169\npage = 512\npages_per_block = 2\nspare_factor = \"116/338\"\n\
                 unit = \"plane\"\ntenants = [{ name = \"t0\", size = 61952 }, { name = \"t1\", size = 51712 }]\n\
                 isolation = { kind = \"shared-space\", beta = \"9/10\", give_back = \"at-erase\" }\n\
                 gc = { kind = \"d-choices\", start = 2, copyback = false, choices = 3, pace = \"foreground\" }\n\
                 wear = { order = \"longest-erased\", spread = 1, every = 2 }\n";
    hold_file(stack, 430);
}

/// A cut found a plane whose last erased block had just been opened for moved pages. The start gave that block to the host and left
/// collection the one page of the other: the first victim did not fit. (One drive below a mirror, one alone, one below a parity array.)
#[test]
fn after_a_cut_moved_pages_have_room() {
    for (stack, seed) in [(FORE_QUEUED, 1692), (FORE_BUFFERED, 701), (FORE_LEVELLED, 1580)] {
        hold_file(stack, seed);
    }
}

/// The same where moved pages share the host's block: if the host alone may fill what the start left open, the record of trims that comes
/// before an erase has no page.
#[test]
fn after_a_cut_a_record_of_trims_has_room() {
    hold_file(FORE_SHARED, 13_101);
}

/// A machine that asks a device which refuses again and again within one moment stops the clock: no count of events sees it.
#[test]
fn a_loop_within_one_event_is_found() {
    let options = VerifyOptions {
        shape: Shape::named("cache-write-back").expect("a family"),
        seeds: 5000,
        crash: true,
        plant: Some("cache.asks-on".into()),
        failures_max: 1,
        ..VerifyOptions::default()
    };
    let report = verify(&options, |_| {}).expect("the seeds can be run");
    assert_eq!(report.failures.first().map(|f| f.violation.invariant), Some("I-18"));
}

/// A trim waited for the write buffer, or a page left SLC mode while the drive was idle: it joined the sensing of a page of an earlier
/// moment, in a gap on the channel that was over, and no die was occupied for its transfer.
#[test]
fn what_goes_on_later_is_not_read_in_the_past() {
    [69, 168].iter().for_each(|&seed| hold_file(SLC_IN_STRIPE, seed));
}

const SLC_IN_STRIPE: &str = r#"[export.data]
device = "fault6"

[device.ssd1]
kind = "ssd"
profile = "tlc-2019"
channels = 2
chips = 1
dies = 2
planes = 2
blocks = 22
page = 2048
pages_per_block = 4
over_provisioning = "312/704"
gc = { kind = "d-choices", start = 4, copyback = false, choices = 2, pace = "foreground", background = 9, idle_after = "20000 us", idle_gain = "1/4" }
slc_cache = { static = 32768, dynamic = "1/2", when_full = "through", fold_from = "0", fold_to = "0" }
wear = { order = "longest-erased", spread = 1, every = 4 }
write_buffer = { size = 18432, link_bytes_per_second = 2097152, keep = "0", keep_for = "1 us", at_once = 7 }
placement = ["channel", "plane", "chip", "die"]

[device.hdd2]
kind = "hdd"
profile = "desktop-2010"
capacity = 258048
queue = "fcfs"
depth = 5
patience = "1000 ms"
segments = 3
segment = 2048
read_ahead = false
write_cache = false

[device.memory3]
kind = "memory"
size = 176128
latency = "1 us"
bandwidth = 268435456

[device.stripe4]
kind = "stripe"
legs = ["ssd1", "hdd2", "memory3"]
chunk = 16384

[device.slice5]
kind = "slice"
below = "stripe4"
offset = 0

[device.fault6]
kind = "fault"
below = "slice5"
flush_error = "1/20"
"#;

/// A mirror lost the leader while a slow drive beside it was still starting, and its follower lacked something since the cut. The checker
/// looked at who was a member before the cut, and took the failing read for a fault of the mirror.
#[test]
fn a_leader_that_is_lost_during_a_start_explains_failures() {
    hold_file(SLOW_BESIDE_MIRROR, 7_200_280);
}

const SLOW_BESIDE_MIRROR: &str = r#"[export.data]
device = "concat18"

[device.file1]
kind = "file"
size = 512000
latency = "0 us"
bandwidth = 268435456
path = "file1.img"
sector = 1024

[device.fault2]
kind = "fault"
below = "file1"
write_error = "1/100"
cache = { size = 65536, destage_every = "5000 us" }
freeze = { kind = "random", mean = "30 ms", span = "3137 us" }
loss = { kind = "random", mean = "64 ms", back_after = "9924 us" }

[device.ssd3]
kind = "ssd"
profile = "tlc-2019"
channels = 1
chips = 1
dies = 1
planes = 2
blocks = 25
page = 1024
pages_per_block = 8
over_provisioning = "105/400"
unit = "superblock"
gc = { kind = "windowed", start = 2, copyback = false, window = 6, separate = false, pace = "foreground" }
write_buffer = { size = 7168, link_bytes_per_second = 16777216, keep = "1", keep_for = "1 us" }
placement = ["chip", "die", "channel", "plane"]

[device.memory4]
kind = "memory"
size = 335872
latency = "1 us"
bandwidth = 33554432

[device.concat5]
kind = "concat"
parts = ["ssd3", "memory4"]

[device.mirror6]
kind = "mirror"
legs = ["fault2", "concat5"]
region = "64 KiB"
clear_after = "3 ms"
active_regions = 32
resync_chunk = 32768
resync_depth = 3
read = "round-robin"
write_retries = 0
fresh = "equal"
lead = "last"
predeclare = 0
leg_depth = [8, 2]

[device.ssd7]
kind = "ssd"
profile = "tlc-2015"
channels = 2
chips = 1
dies = 1
planes = 2
blocks = 30
page = 1024
pages_per_block = 4
over_provisioning = "201/480"
mapping = { kind = "dftl", ram = 116, protected = "0", gc_batch = 8, write_back = "behind" }
gc = { kind = "cost-benefit", start = 4, copyback = true }
wear = { order = "longest-erased", spread = 3, every = 4 }
write_buffer = { size = 32768, link_bytes_per_second = 4294967296, keep = "1/2", keep_for = "100000 us", at_once = 7 }
placement = ["die", "channel", "plane", "chip"]

[device.file8]
kind = "file"
size = 290816
latency = "0 us"
bandwidth = 67108864
path = "file8.img"
sector = 2048

[device.mirror9]
kind = "mirror"
legs = ["ssd7", "file8"]
region = "64 KiB"
clear_after = "20 ms"
active_regions = 32
resync_chunk = 8192
resync_depth = 3
read = "round-robin"
write_retries = 0
fresh = "equal"
lead = "last"
predeclare = 0
leg_depth = [1, 1]

[device.ssd10]
kind = "ssd"
profile = "tlc-2015"
channels = 1
chips = 1
dies = 2
planes = 2
blocks = 18
page = 4096
pages_per_block = 8
over_provisioning = "214/576"
unit = "die"
gc = { kind = "windowed", start = 3, copyback = false, window = 2, background = 13, idle_after = "20000 us", idle_gain = "0" }
placement = ["plane", "chip", "die", "channel"]
allocation = "static"

[device.fault11]
kind = "fault"
below = "ssd10"
write_error = "1/500"
freeze = { kind = "random", mean = "17 ms", span = "1243 us" }

[device.mirror12]
kind = "mirror"
legs = ["mirror9", "fault11"]
region = "64 KiB"
clear_after = "1 ms"
active_regions = 32
resync_chunk = 8192
resync_depth = 4
read = "latency-aware"
write_retries = 0
fresh = "copy"
lead = "last"
predeclare = 1
leg_depth = [8, 2]

[device.memory13]
kind = "memory"
size = 40960
latency = "50 us"
bandwidth = 8388608

[device.ssd14]
kind = "ssd"
profile = "tlc-2019"
channels = 2
chips = 1
dies = 1
planes = 1
blocks = 23
page = 512
pages_per_block = 4
over_provisioning = "103/184"
mapping = { kind = "dftl", ram = 99, protected = "0", gc_batch = 6, write_back = "wait" }
unit = "superblock"
gc = { kind = "fifo", start = 3, copyback = false, separate = false }
write_buffer = { size = 8192, link_bytes_per_second = 16777216, keep = "0", keep_for = "1 us" }
placement = ["die", "plane", "channel", "chip"]

[device.ssd15]
kind = "ssd"
profile = "slc-2015"
channels = 2
chips = 1
dies = 2
planes = 2
blocks = 17
page = 2048
pages_per_block = 8
over_provisioning = "791/1088"
mapping = { kind = "dftl", ram = 137, protected = "9/10", gc_batch = 15, write_back = "behind" }
checkpoint = 12
gc = { kind = "greedy", start = 4, copyback = true }
wear = { order = "least-worn", spread = 1, every = 4 }
placement = ["channel", "chip", "plane", "die"]

[device.stripe16]
kind = "stripe"
legs = ["memory13", "ssd14", "ssd15"]
chunk = 16384

[device.fault17]
kind = "fault"
below = "stripe16"
read_error = "1/500"
cache = { size = 65536, destage_every = "20 us" }

[device.concat18]
kind = "concat"
parts = ["mirror6", "mirror12", "fault17"]
"#;

/// An array without a journal lost power while a leg was being rebuilt. It refuses to start, as it says it does; the checker took that for a
/// fault.
#[test]
fn an_array_without_a_journal_may_refuse_to_start_during_a_rebuild() {
    hold_file(NO_JOURNAL, 13_000_248);
}

const NO_JOURNAL: &str = r#"[export.data]
device = "parity4"

[device.memory1]
kind = "memory"
size = 434176
latency = "1 us"
bandwidth = 4194304

[device.memory2]
kind = "memory"
size = 466944
latency = "1 us"
bandwidth = 4194304

[device.memory3]
kind = "memory"
size = 495616
latency = "2000 us"
bandwidth = 4294967296

[device.parity4]
kind = "parity"
legs = ["memory1", "memory2", "memory3"]
layout = "right-asymmetric"
chunk = 4096
journal = 114688
write_hole = "resync"
rebuild_chunk = 65536
write_retries = 0
fresh = "zeros"
"#;

const FORE_SHARED: &str = r#"[export.data]
device = "ssd1"

[device.ssd1]
kind = "ssd"
profile = "bench-2026"
channels = 1
chips = 1
dies = 2
planes = 1
blocks = 20
page = 1024
pages_per_block = 2
spare_factor = "58/80"
mapping = { kind = "tpftl", ram = 84, gc_batch = 5, write_back = "behind" }
gc = { kind = "greedy", start = 2, copyback = true, separate = false, pace = "foreground" }
wear = { order = "least-worn", spread = 1, every = 2 }
write_buffer = { size = 22528, link_bytes_per_second = 33554432, keep = "0", keep_for = "1 us", at_once = 7 }
placement = ["plane", "chip", "channel", "die"]
"#;

const FORE_QUEUED: &str = r#"[export.data]
device = "mirror5"

[device.ssd1]
kind = "ssd"
profile = "tlc-2019"
channels = 2
chips = 2
dies = 1
planes = 1
blocks = 16
page = 2048
pages_per_block = 8
spare_factor = "183/512"
gc = { kind = "greedy", start = 2, copyback = true, pace = "foreground" }
arbiter = { kind = "queued", reads_ahead = 1000 }
placement = ["chip", "channel", "plane", "die"]

[device.fault2]
kind = "fault"
below = "ssd1"
cache = { size = "256 KiB", destage_every = "2 ms" }

[device.file3]
kind = "file"
size = 393216
latency = "2000 us"
bandwidth = 16777216
path = "file3.img"
sector = 512

[device.fault4]
kind = "fault"
below = "file3"
cache = { size = "256 KiB", destage_every = "20 ms" }

[device.mirror5]
kind = "mirror"
legs = ["fault2", "fault4"]
region = "64 KiB"
clear_after = "200 ms"
active_regions = 32
resync_chunk = 8192
resync_depth = 2
resync_rate = "4 MiB"
read = "round-robin"
write_retries = 1
fresh = "equal"
"#;

const FORE_BUFFERED: &str = r#"[export.data]
device = "ssd1"

[device.ssd1]
kind = "ssd"
profile = "tlc-2019"
channels = 2
chips = 1
dies = 1
planes = 1
blocks = 17
page = 2048
pages_per_block = 4
spare_factor = "62/136"
gc = { kind = "windowed", start = 2, copyback = false, window = 2, pace = "foreground", background = 16, idle_after = "20000 us", idle_gain = "1/4" }
arbiter = { kind = "queued", reads_ahead = 16, suspension = { programs = 3, erases = 3, suspend = "100 us", resume = "5 us" } }
write_buffer = { size = 53248, link_bytes_per_second = 67108864, keep = "0", keep_for = "1 us", power_loss_protection = true }
placement = ["channel", "chip", "plane", "die"]
"#;

const FORE_LEVELLED: &str = r#"[export.data]
device = "parity7"

[device.ssd1]
kind = "ssd"
profile = "slc-2015"
channels = 2
chips = 1
dies = 1
planes = 2
blocks = 25
page = 2048
pages_per_block = 2
spare_factor = "62/200"
gc = { kind = "windowed", start = 2, copyback = false, window = 3 }
placement = ["channel", "chip", "die", "plane"]

[device.fault2]
kind = "fault"
below = "ssd1"

[device.ssd3]
kind = "ssd"
profile = "mlc-2019"
channels = 2
chips = 1
dies = 1
planes = 2
blocks = 14
page = 1024
pages_per_block = 8
spare_factor = "185/448"
gc = { kind = "greedy", start = 2, copyback = false, pace = "foreground", background = 12, idle_after = "20 us", idle_gain = "0" }
wear = { order = "longest-erased", spread = 2, every = 3 }
placement = ["chip", "channel", "plane", "die"]

[device.fault4]
kind = "fault"
below = "ssd3"
flush_error = "1/100"
cache = { size = 131072, destage_every = "5000 us" }
loss = { kind = "random", mean = "254 ms", back_after = "4235 us" }

[device.ssd5]
kind = "ssd"
profile = "slc-2019"
channels = 1
chips = 1
dies = 1
planes = 1
blocks = 154
page = 1024
pages_per_block = 2
spare_factor = "37/308"
gc = { kind = "greedy", start = 3, copyback = true, pace = "foreground" }
placement = ["chip", "die", "plane", "channel"]

[device.fault6]
kind = "fault"
below = "ssd5"
read_error = "1/20"
cache = { size = 32768, destage_every = "200 us" }

[device.parity7]
kind = "parity"
legs = ["fault2", "fault4", "fault6"]
level = 3
chunk = 4096
journal = 106496
rebuild_chunk = 8192
write_retries = 1
fresh = "zeros"
"#;

/// A cut tore the page that collection had moved into the last erased block. Clearing then had room for the rest of the victim, and none for
/// the record of the trims that came next. (With blocks of two pages; one drive alone, one with a cache in SLC mode, one that tenants share.)
#[test]
fn after_a_cut_a_record_of_trims_has_room_too() {
    for (stack, seed) in [(TWO_PAGES, 5322), (TWO_PAGES_CACHED, 30_317), (TWO_PAGES_SHARED, 319_734)] {
        hold_file(stack, seed);
    }
}

const TWO_PAGES: &str = r#"
[export.data]
device = "ssd1"

[device.ssd1]
kind = "ssd"
profile = "mlc-2019"
channels = 2
chips = 2
dies = 2
planes = 1
blocks = 18
page = 512
pages_per_block = 2
spare_factor = "161/288"
gc = { kind = "greedy", start = 2, copyback = false }
arbiter = { kind = "queued", reads_ahead = 1000 }
placement = ["channel", "chip", "die", "plane"]
allocation = "static"
"#;

const TWO_PAGES_SHARED: &str = r#"
[export.data]
device = "ssd1"

[device.ssd1]
kind = "ssd"
profile = "slc-2015"
channels = 1
dies = 1
planes = 1
blocks = 176
page = 512
pages_per_block = 2
spare_factor = "206/352"
unit = "superblock"
tenants = [{ name = "t0", size = 29184 }, { name = "t1", size = 18432 }]
isolation = { kind = "vssd" }
gc = { kind = "fifo", start = 2, copyback = false, urgent = 1 }
wear = { order = "longest-erased", spread = 2, every = 3 }
"#;

const TWO_PAGES_CACHED: &str = r#"
[export.data]
device = "ssd1"

[device.ssd1]
kind = "ssd"
profile = "mlc-2019"
channels = 1
chips = 2
dies = 1
planes = 2
blocks = 11
page = 2048
pages_per_block = 2
spare_factor = "74/88"
gc = { kind = "cost-benefit", start = 2, copyback = false, pace = "foreground" }
slc_cache = { static = 8192, dynamic = "0", when_full = "fold", fold_from = "1/2", fold_to = "1/4", endurance = 15 }
wear = { order = "least-worn", spread = 2, every = 3, factory_bad = "1/20" }
arbiter = { kind = "queued", reads_ahead = 0 }
placement = ["chip", "channel", "die", "plane"]
"#;

/// A start left tenants without a page to clear into: an erase was torn and a record of trims came first (120); erased units that a debtor
/// had borrowed counted as given back, and it had nothing else erased (1527).
#[test]
fn after_a_cut_tenants_have_room_to_clear() {
    hold(Family::Ssd(Drive::Lending), &[120, 1527]);
}

/// A tenant was removed while the write buffer held pages of it, which were then written for nobody.
#[test]
fn what_a_tenant_gives_up_leaves_the_write_buffer() {
    hold(Family::Ssd(Drive::Dealing), &[16, 275, 328]);
}

/// At a start the pages that capacitors had kept were programmed behind a read of the map that was over: the wait for it never ended.
#[test]
fn what_capacitors_kept_is_programmed_behind_reads_of_the_map() {
    hold(Family::Ssd(Drive::PagedTenants), &[9964]);
}

/// Runs this seed on a stack with power cuts.
pub(super) fn hold_file(stack: &str, seed: u64) {
    hold_shape(Shape::File(stack.into()), seed);
}

/// Runs these seeds of a family with power cuts.
pub(super) fn hold(family: Family, seeds: &[u64]) {
    for &seed in seeds {
        hold_shape(Shape::Named(family), seed);
    }
}

/// Runs this seed of a shape with power cuts.
pub(super) fn hold_shape(shape: Shape, seed: u64) {
    hold_all(shape, seed..seed + 1);
}

/// Runs these seeds of a shape with power cuts.
pub(super) fn hold_all(shape: Shape, seeds: std::ops::Range<u64>) {
    let options = VerifyOptions {
        shape,
        first_seed: seeds.start,
        seeds: seeds.end - seeds.start,
        crash: true,
        hammers: false,
        repeat_one_in: 0,
        threads: 1,
        ..VerifyOptions::default()
    };
    let report = verify(&options, |_| {}).expect("the stack can be built");
    assert!(report.failures.is_empty(), "seeds {seeds:?}: {:?}", report.failures);
}

/// A cut found the last erased block of a plane full of copies and no victim erased: what had made the rest of the victims invalid was
/// lost with the cut. The start had no page to move anything to.
#[test]
fn after_a_cut_copies_give_way_to_their_originals() {
    hold(Family::Over("parity"), &[20_005]);
}

/// A start found an open block whose pages were all torn and went on with it: the block counted as newer than every page, so a
/// record of trims was given up while an old version of a trimmed page lay there, which came back after the next cut. (The last one is
/// a drive whose map is on the flash, and that collects the block opened first while it is idle.)
#[test]
fn a_block_that_goes_on_behind_torn_pages_has_an_age() {
    hold(Family::ParityOfLeaves, &[302_089]);
    hold(Family::Ssd(Drive::Queued), &[506_769, 511_331]);
    hold_file(TORN_FIFO, 417_384);
}

const TORN_FIFO: &str = r#"[export.data]
device = "ssd1"

[device.ssd1]
kind = "ssd"
profile = "slc-2015"
channels = 2
chips = 1
dies = 2
planes = 1
blocks = 19
page = 1024
pages_per_block = 4
spare_factor = "176/304"
mapping = { kind = "dftl", ram = 38, protected = "0", gc_batch = 6, write_back = "behind" }
gc = { kind = "fifo", start = 2, copyback = false, urgent = 1, background = 16, idle_after = "20 us", idle_gain = "1/4" }
placement = ["die", "plane", "chip", "channel"]
"#;

/// A cache that closed above a device that refused its blocks gave them up, and still counted them as waiting.
#[test]
fn a_cache_that_gives_blocks_up_counts_them_no_more() {
    hold_shape(Shape::named("cache").expect("a family of this name"), 910_472);
}

/// A cache asked a device that refuses at once for the same blocks again and again, for nobody who waited for them, and never went on.
#[test]
fn a_cache_asks_a_refusing_device_again_for_those_who_wait_only() {
    hold_shape(Shape::named("cache-write-back").expect("a family of this name"), 910_030);
}
