//! Conversations with the machine: what it reads below, what it answers itself, and when.

use nandu_base::{Ask, ErrorKind, Flags, Instant, Op, Rng, Span};
use nandu_stack::testbed::Testbed;
use nandu_stack::{BuildOptions, Stack, builtin};
use std::collections::BTreeMap;

const BLOCK: u64 = 4096;

fn text(options: &str) -> String {
    text_on(options, "4 MiB")
}

/// On a disk of this size.
fn text_on(options: &str, size: &str) -> String {
    format!(
        "[export.data]\ndevice = \"cache\"\n\n[device.cache]\nkind = \"cache\"\nbelow = \"disk\"\nsize = \"256 KiB\"\n\
         {options}\n\n[device.disk]\nkind = \"memory\"\nsize = {size:?}\nlatency = \"100 us\"\n"
    )
}

fn bed(options: &str) -> Testbed {
    Testbed::new(&text(options), &builtin(), BuildOptions::default()).expect("the stack can be built")
}

const SEGMENTS: &str = "prefetch = { kind = \"segment\", segment_size = \"32 KiB\" }";

fn figures(bed: &mut Testbed) -> BTreeMap<&'static str, u64> {
    bed.report("cache", Ask::Counters).counters.into_iter().map(|c| (c.name, c.value)).collect()
}

/// Reads below and their bytes.
fn below(bed: &Testbed) -> (u64, u64) {
    let stats = bed.graph().stats(bed.node("disk"));
    (stats.requests[Op::Read as usize], stats.bytes[Op::Read as usize])
}

#[test]
fn a_miss_brings_its_segment_in_one_read_and_the_rest_are_hits() {
    let mut bed = bed(SEGMENTS);
    let miss = bed.go(Op::Read, 3 * BLOCK, BLOCK);
    assert!(miss.latency >= Span::from_us(100));
    for block in [0, 3, 7] {
        assert_eq!(bed.go(Op::Read, block * BLOCK, BLOCK).latency, Span::from_us(2), "block {block}");
    }
    assert_eq!(below(&bed), (1, 8 * BLOCK));
    let f = figures(&mut bed);
    assert_eq!((f["cache_hits"], f["prefetch_hits"], f["misses"]), (1, 2, 1));
    assert_eq!((f["prefetched_blocks"], f["prefetch_unused_blocks"]), (7, 5));
}

#[test]
fn a_read_of_what_is_on_its_way_waits_for_it_and_is_a_late_hit() {
    let mut bed = bed(SEGMENTS);
    let first = bed.submit(0, Op::Read, Flags::NONE, 0, BLOCK);
    bed.run_until(Instant(30_000));
    let late = bed.submit(0, Op::Read, Flags::NONE, 5 * BLOCK, BLOCK);
    bed.settle();
    let done = bed.take_done();
    assert_eq!(done.iter().map(|d| d.serial).collect::<Vec<_>>(), [first, late]);
    assert_eq!(done[0].at, done[1].at, "both come with the same read below");
    assert_eq!((below(&bed).0, figures(&mut bed)["prefetch_hits_late"]), (1, 1));
}

#[test]
fn what_is_asked_for_comes_first_when_it_is_read_alone() {
    let options = format!("{SEGMENTS}\ndemand_first = true");
    let mut bed = bed(&options);
    bed.go(Op::Read, 3 * BLOCK, BLOCK);
    bed.pass(Span::from_ms(1));
    // The block, and what is before and behind it in one read that takes the block again.
    assert_eq!(below(&bed), (2, 9 * BLOCK));
    assert_eq!(bed.go(Op::Read, 4 * BLOCK, BLOCK).latency, Span::from_us(2));
    assert_eq!(figures(&mut bed)["device_read_again_bytes"], BLOCK);
}

#[test]
fn reads_ahead_are_refused_beyond_their_depth() {
    let options = format!("{SEGMENTS}\ndemand_first = true\nprefetch_depth = 0");
    let mut bed = bed(&options);
    bed.go(Op::Read, 3 * BLOCK, BLOCK);
    assert_eq!(below(&bed), (1, BLOCK));
    let f = figures(&mut bed);
    assert_eq!((f["prefetch_reads_refused"], f["prefetch_blocks_refused"]), (1, 7));
}

/// S0-29: with segments of one block nothing is prefetched and nothing culled. What a change of a list costs (O0-19) is all that is left of the scheme.
#[test]
fn with_segments_of_one_block_only_the_lists_cost_something() {
    let run = |kind: &str, list_latency: &str| {
        let mut bed = bed(&format!(
            "prefetch = {{ kind = \"segment\", segment_size = \"4 KiB\" }}\nreplacement = {{ kind = \"{kind}\" }}\n\
             list_latency = \"{list_latency}\""
        ));
        let mut rng = Rng::new(1);
        let spent: u64 = (0..2000).map(|_| bed.go(Op::Read, rng.below(100) * BLOCK, BLOCK).latency.0).sum();
        let mut f = figures(&mut bed);
        (spent, f.remove("list_operations").expect("it is counted"), below(&bed), f)
    };
    let f = run("adaptive-culling", "0 us").3;
    assert_eq!((f["prefetched_blocks"], f["culled_blocks"]), (0, 0));
    assert!(f["cache_hits"] > 100 && f["misses"] > 100, "{f:?}");
    for kind in ["adaptive-culling", "fixed-culling", "segment-prefetch-only"] {
        let (free, priced) = (run(kind, "0 us"), run(kind, "3 us"));
        assert_eq!((&free.1, &free.2, &free.3), (&priced.1, &priced.2, &priced.3), "{kind}");
        assert_eq!(priced.0 - free.0, 3000 * priced.1, "{kind}: 3 us for each change");
    }
}

#[test]
fn a_write_goes_through_and_is_read_from_memory() {
    let mut bed = bed(SEGMENTS);
    let write = bed.go(Op::Write, 3 * BLOCK + 512, 2 * BLOCK);
    assert!(write.latency >= Span::from_us(100));
    assert_eq!(bed.stored("disk", 3 * BLOCK + 512).serial(), write.serial);
    // Of the three blocks it touches only the one it covers is kept.
    assert_eq!(bed.go(Op::Read, 4 * BLOCK, BLOCK).latency, Span::from_us(2));
    assert!(bed.go(Op::Read, 3 * BLOCK, BLOCK).latency > Span::from_us(2));
    let read = bed.go(Op::Read, 3 * BLOCK, 3 * BLOCK);
    let serials: Vec<u32> = read.data.iter().map(|s| s.serial()).collect();
    assert_eq!(serials[..2], [0, write.serial]);
    assert_eq!(serials[16..18], [write.serial, 0]);
}

#[test]
fn a_part_written_into_a_cached_block_is_merged() {
    let mut bed = bed(SEGMENTS);
    bed.go(Op::Read, 0, BLOCK);
    let write = bed.go(Op::Write, 1024, 512);
    let read = bed.go(Op::Read, 0, BLOCK);
    assert_eq!(read.latency, Span::from_us(2));
    let serials: Vec<u32> = read.data.iter().map(|s| s.serial()).collect();
    assert_eq!(serials, [0, 0, write.serial, 0, 0, 0, 0, 0]);
}

#[test]
fn a_failure_of_what_nobody_asked_for_is_not_passed_on() {
    let mut bed = bed(SEGMENTS);
    bed.spoil("disk", 6 * BLOCK, 512, ErrorKind::Unreadable);
    assert_eq!(bed.go(Op::Read, 3 * BLOCK, BLOCK).error, None);
    let bad = bed.go(Op::Read, 5 * BLOCK, 2 * BLOCK).error.expect("the block cannot be read");
    assert_eq!((bad.kind, bad.at.0, bad.len.0), (ErrorKind::Unreadable, BLOCK, 512));
}

#[test]
fn a_trim_empties_the_cache_there() {
    let mut bed = bed(SEGMENTS);
    bed.go(Op::Write, 0, 2 * BLOCK);
    bed.go(Op::Trim, BLOCK, BLOCK);
    let read = bed.go(Op::Read, BLOCK, BLOCK);
    assert!(read.latency > Span::from_us(2) && read.data.iter().all(|s| s.serial() == 0));
}

#[test]
fn write_back_acknowledges_at_once_and_a_flush_brings_it_below() {
    let registry = builtin();
    assert!(registry.policies("destage").count() >= 3);
    for destage in registry.policies("destage").map(|policy| policy.name) {
        let options = format!(
            "{SEGMENTS}\nwrite = {{ kind = \"writeback\", destage = \"{destage}\", dirty_expire = \"1 h\" }}"
        );
        let mut bed = bed(&options);
        let first = bed.go(Op::Write, 0, 2 * BLOCK);
        let second = bed.go(Op::Write, BLOCK, BLOCK);
        assert_eq!((first.latency, second.latency), (Span::from_us(2), Span::from_us(2)));
        assert_eq!(bed.stored("disk", 0).serial(), 0, "{destage}");
        assert_eq!(bed.go(Op::Read, BLOCK, BLOCK).data[0].serial(), second.serial);
        bed.go(Op::Flush, 0, 0);
        assert_eq!(bed.stored("disk", 0).serial(), first.serial);
        assert_eq!(bed.stored("disk", BLOCK).serial(), second.serial);
        assert_eq!((figures(&mut bed)["dirty_blocks"], figures(&mut bed)["rewritten_blocks"]), (0, 1));
        assert_eq!(bed.go(Op::Read, 0, BLOCK).latency, Span::from_us(2), "it is clean and stays");
    }
}

/// BPLRU as published: a NAND block goes below in full, with the pages that nobody wrote, which are read before.
/// A block is written again while it goes below, and a flush asks for the newer data.
#[test]
fn a_flush_waits_for_what_was_written_while_it_went_below() {
    let mut bed = bed("write = { kind = \"writeback\" }");
    bed.go(Op::Write, 0, BLOCK);
    let first = bed.submit(0, Op::Flush, Flags::NONE, 0, 0);
    bed.pass(Span::from_us(30));
    let newer = bed.submit(0, Op::Write, Flags::NONE, 0, BLOCK);
    let second = bed.submit(0, Op::Flush, Flags::NONE, 0, 0);
    bed.pass(Span::from_ms(1));
    let done: Vec<u32> = bed.take_done().iter().map(|d| d.serial).collect();
    assert_eq!(done, [newer, first, second]);
    assert_eq!(figures(&mut bed)["rewritten_blocks"], 1);
}

#[test]
fn a_padded_unit_goes_below_in_one_write() {
    let write = |pad: bool| {
        format!(
            "prefetch = {{ kind = \"none\" }}\nreplacement = {{ kind = \"lru\" }}\n\
             write = {{ kind = \"writeback\", destage = \"bplru\", dirty_max = \"64 KiB\", erase_unit = \"16 KiB\", pad = {pad}, destage_depth = 1, dirty_expire = \"1 h\" }}"
        )
    };
    for (pad, lengths) in [(true, 4), (false, 1)] {
        let mut bed = bed(&write(pad));
        let old = bed.go(Op::Write, 2 * BLOCK, 2 * BLOCK);
        bed.go(Op::Flush, 0, 0);
        let before = bed.graph().stats(bed.node("disk"));
        let (writes, bytes) = (before.requests[Op::Write as usize], before.bytes[Op::Write as usize]);
        // Two blocks of the first unit with a hole between, then other units until the oldest has to go.
        let new = bed.go(Op::Write, 0, BLOCK);
        for unit in 1..9 {
            bed.go(Op::Write, unit * 4 * BLOCK, BLOCK);
        }
        bed.pass(Span::from_ms(5));
        let after = bed.graph().stats(bed.node("disk"));
        assert_eq!(after.requests[Op::Write as usize] - writes, 1, "pad {pad}");
        assert_eq!(after.bytes[Op::Write as usize] - bytes, lengths * BLOCK, "pad {pad}");
        assert_eq!(figures(&mut bed)["padded_blocks"], lengths - 1);
        assert_eq!(bed.stored("disk", 0).serial(), new.serial);
        assert_eq!(bed.stored("disk", BLOCK).serial(), 0);
        assert_eq!(bed.stored("disk", 3 * BLOCK).serial(), old.serial, "what was there stays");
    }
}

/// What a fill brings is kept where it came, and moved only when most of it has gone: memory is bounded by twice what the
/// directory counts.
#[test]
fn blocks_share_the_buffer_of_their_fill_until_most_of_it_has_gone() {
    let mut bed =
        bed("prefetch = { kind = \"p-block\", lookahead = \"28 KiB\" }\nreplacement = { kind = \"lru\" }");
    bed.go(Op::Read, 0, BLOCK);
    let f = figures(&mut bed);
    assert_eq!((f["cached_bytes"], f["data_bytes"], f["data_blocks_moved"]), (8 * BLOCK, 8 * BLOCK, 0));
    for (trimmed, kept, moved) in [(4, 8, 0), (5, 3, 3), (8, 0, 3)] {
        bed.go(Op::Trim, 0, trimmed * BLOCK);
        let f = figures(&mut bed);
        assert_eq!(f["cached_bytes"], (8 - trimmed) * BLOCK);
        assert_eq!((f["data_bytes"], f["data_blocks_moved"]), (kept * BLOCK, moved), "{trimmed} trimmed");
    }
}

/// Dirty and clean blocks stay in the buffer of the write that brought them until the last of them leaves.
#[test]
fn blocks_that_leave_in_the_order_in_which_they_came_are_not_moved() {
    let kinds = [
        ("{ kind = \"writethrough\" }", 64),
        ("{ kind = \"writeback\", dirty_expire = \"1 ms\" }", 48), // and 16 dirty ones
    ];
    for (write, kept) in kinds {
        let mut bed = bed(&format!("write = {write}\nreplacement = {{ kind = \"lru\" }}"));
        for first in (0..512).step_by(16) {
            bed.go(Op::Write, first * BLOCK, 16 * BLOCK);
            bed.pass(Span::from_ms(5));
            let f = figures(&mut bed);
            assert!(f["data_bytes"] <= 2 * f["cached_bytes"], "{write}: {f:?}");
        }
        bed.go(Op::Write, 512 * BLOCK, 8 * BLOCK);
        bed.pass(Span::from_ms(5));
        let f = figures(&mut bed);
        assert_eq!((f["cached_bytes"], f["data_blocks_moved"]), (kept * BLOCK, 0), "{write}");
    }
}

/// A part that is written does not change what others hold of the same buffer.
#[test]
fn a_part_that_is_written_leaves_the_rest_of_the_buffer_alone() {
    let mut bed = bed(SEGMENTS);
    let whole = bed.go(Op::Write, 0, 4 * BLOCK);
    let part = bed.go(Op::Write, BLOCK + 512, 512);
    let read = bed.go(Op::Read, 0, 4 * BLOCK);
    assert_eq!(read.latency, Span::from_us(2));
    let serials: Vec<u32> = read.data.iter().map(|s| s.serial()).collect();
    let expected = |sector: usize| if sector == 9 { part.serial } else { whole.serial };
    assert_eq!(serials, (0..32).map(expected).collect::<Vec<_>>());
}

#[test]
fn a_fill_is_no_longer_than_it_may_be() {
    let mut bed = bed(&format!("{SEGMENTS}\nmax_fill_size = \"16 KiB\""));
    bed.go(Op::Read, 3 * BLOCK, BLOCK);
    bed.pass(Span::from_ms(1));
    assert_eq!(below(&bed), (2, 8 * BLOCK));
}

/// The last segment of a device may be short: nothing behind the end is read.
#[test]
fn the_last_segment_ends_with_the_device() {
    let text = text_on(SEGMENTS, "4116 KiB");
    let mut bed = Testbed::new(&text, &builtin(), BuildOptions::default()).expect("the stack can be built");
    bed.go(Op::Read, 1028 * BLOCK, BLOCK);
    assert_eq!(below(&bed), (1, 5 * BLOCK));
}

/// The machine brings what it is told, before anybody reads it.
#[test]
fn what_is_foreseen_is_brought() {
    let mut bed = bed("prefetch = { kind = \"oracle\", lookahead = 2 }\nreplacement = { kind = \"lru\" }");
    assert_eq!(bed.graph().foresight(), 2);
    bed.foresee("cache", Op::Read, 100 * BLOCK, 2 * BLOCK);
    bed.foresee("cache", Op::Write, 200 * BLOCK, 2 * BLOCK);
    bed.go(Op::Read, 0, BLOCK);
    bed.pass(Span::from_ms(1));
    assert_eq!(below(&bed), (2, 3 * BLOCK));
    assert_eq!(bed.go(Op::Read, 101 * BLOCK, BLOCK).latency, Span::from_us(2));
    assert_eq!(figures(&mut bed)["prefetch_hits"], 1);
}

/// A prefetcher that learns hears that a read waited for what it had brought, and that what it had brought went unmet.
#[test]
fn a_prefetcher_hears_what_came_too_late_and_what_too_early() {
    let mut bed = bed("prefetch = { kind = \"amp\", async_above = 1 }\nreplacement = { kind = \"lru\" }");
    bed.go(Op::Read, 0, 4 * BLOCK);
    bed.submit(0, Op::Read, Flags::NONE, 4 * BLOCK, 4 * BLOCK);
    bed.pass(Span::from_us(30));
    // Blocks 8 to 11 are on their way.
    bed.submit(0, Op::Read, Flags::NONE, 8 * BLOCK, 4 * BLOCK);
    bed.settle();
    assert_eq!(figures(&mut bed)["amp_reads_that_waited"], 1);
    assert_eq!(figures(&mut bed)["amp_blocks_too_early"], 0);
    bed.pass(Span::from_ms(5));
    // Blocks 12 to 19 have come, and are pushed out by others that nobody brings ahead.
    for block in 0..64 {
        bed.go(Op::Read, (1000 - 4 * block) * BLOCK, BLOCK);
    }
    assert_eq!(figures(&mut bed)["amp_blocks_too_early"], 8);
}

#[test]
fn a_write_with_fua_is_below_when_it_is_acknowledged() {
    let mut bed = bed(&format!("{SEGMENTS}\nwrite = {{ kind = \"writeback\", dirty_expire = \"1 h\" }}"));
    bed.go(Op::Write, 0, BLOCK);
    let fua = bed.submit(0, Op::Write, Flags::FUA, 0, BLOCK);
    bed.settle();
    assert_eq!(bed.stored("disk", 0).serial(), fua);
    assert_eq!(bed.go(Op::Read, 0, BLOCK).data[0].serial(), fua);
}

#[test]
fn dirty_data_is_bounded_and_ages() {
    let options = "prefetch = { kind = \"none\" }\nreplacement = { kind = \"lru\" }\n\
                   write = { kind = \"writeback\", dirty_max = \"32 KiB\", dirty_expire = \"10 ms\" }";
    let mut bed = bed(options);
    for block in 0..40 {
        bed.submit(0, Op::Write, Flags::NONE, block * BLOCK, BLOCK);
    }
    bed.settle();
    let f = figures(&mut bed);
    assert_eq!(f["dirty_blocks_max"], 8);
    assert!(f["writes_through"] > 0);
    bed.pass(Span::from_ms(50));
    assert_eq!(figures(&mut bed)["dirty_blocks"], 0, "what is older than 10 ms is below");
}

#[test]
fn combinations_that_make_no_sense_are_refused() {
    for (options, answer) in [
        ("prefetch = { kind = \"none\" }", "culls what was prefetched"),
        (
            "prefetch = { kind = \"p-block\" }\nreplacement = { kind = \"segment-prefetch-only\" }",
            "goes with prefetch `segment_size`",
        ),
        (
            "segment_size = \"16 KiB\"\nprefetch = { kind = \"segment\", segment_size = \"8 KiB\" }",
            "name one of them",
        ),
        ("segment_size = \"1 MiB\"", "64 blocks"),
        ("block_size = \"3 KiB\"", "a power of two"),
        ("write = { kind = \"writeback\", dirty_max = \"200 KiB\" }", "half of the memory"),
        ("replacement = { kind = \"adaptive-culling\", tail_share = 0.7 }", "above 0, at most 0.5"),
        ("hit_latency = \"2 ms\"", "at most 1 ms"),
        ("max_fill_size = \"512 KiB\"", "64 blocks"),
        ("write = { kind = \"writeback\", pad = true }", "goes with `destage = \"bplru\"`"),
        ("prefetch = { kind = \"oracle\", lookahead = 0 }", "1 to 1024"),
        ("prefetch = { kind = \"amp\", streams = 0 }", "1 to 4096"),
    ] {
        let error = Stack::parse(&text(options)).and_then(|s| s.build(&BuildOptions::default()).map(|_| ()));
        let error = error.expect_err(options).to_string();
        assert!(error.contains(answer), "{options}: {error}");
    }
}

/// W0-1: where blocks of a segment lie on a lane that the read uses already, they are not brought; what is brought comes in
/// commands of its own, so that nothing in between is read.
#[test]
fn only_what_costs_nothing_more_is_brought_when_colocated() {
    let text = |colocated: bool| {
        format!(
            "[export.data]\ndevice = \"cache\"\n\n[device.cache]\nkind = \"cache\"\nbelow = \"ssd\"\nsize = \"256 KiB\"\n{SEGMENTS}\n\
             colocated = {colocated}\n\n[device.ssd]\nkind = \"ssd\"\nprofile = \"slc-2015\"\npage_size = \"4 KiB\"\nchannels = 2\n\
             blocks_per_plane = 64\nspare_factor = 0.2\n"
        )
    };
    for (colocated, pages) in [(false, 8), (true, 2)] {
        let mut bed = Testbed::new(&text(colocated), &builtin(), BuildOptions::default()).expect("a stack");
        for block in 0..8 {
            bed.go(Op::Write, block * BLOCK, BLOCK);
        }
        // The cache forgets, the drive does not.
        for block in 8..512 {
            bed.go(Op::Write, block * BLOCK, BLOCK);
        }
        let before = bed.graph().stats(bed.node("ssd")).bytes[Op::Read as usize];
        bed.go(Op::Read, 3 * BLOCK, BLOCK);
        bed.pass(Span::from_ms(5));
        let read = bed.graph().stats(bed.node("ssd")).bytes[Op::Read as usize] - before;
        assert_eq!(read, pages * BLOCK, "colocated {colocated}: two dies, one page of each");
    }
}

/// A write that is longer than memory pushes out its own first blocks while the others come.
#[test]
fn a_write_that_is_longer_than_memory_leaves_its_end() {
    let mut bed = bed(SEGMENTS);
    let write = bed.go(Op::Write, 0, 200 * BLOCK);
    let f = figures(&mut bed);
    assert!(f["cached_bytes"] <= 64 * BLOCK && f["data_bytes"] <= 2 * f["cached_bytes"], "{f:?}");
    let read = bed.go(Op::Read, 199 * BLOCK, BLOCK);
    assert_eq!((read.latency, read.data[0].serial()), (Span::from_us(2), write.serial));
}

/// A device that was gone refused to pad a NAND block, so the cache destaged the next one, which failed at once, and asked for
/// padding again, for ever within one moment. (Seed 9300045 of `cache-write-back`.)
#[test]
fn a_device_that_is_gone_is_not_asked_for_ever_within_one_moment() {
    let text = "[export.data]\ndevice = \"cache\"\n\n[device.cache]\nkind = \"cache\"\nbelow = \"fault\"\nsize = \"256 KiB\"\n\
                write = { kind = \"writeback\", destage = \"bplru\", pad = true, erase_unit = \"16 KiB\", dirty_expire = \"1 ms\" }\n\n\
                [device.fault]\nkind = \"fault\"\nbelow = \"disk\"\nloss = { kind = \"at\", at = \"1 ms\", outage = \"100 ms\" }\n\n\
                [device.disk]\nkind = \"memory\"\nsize = \"4 MiB\"\nlatency = \"100 us\"\n";
    let mut bed = Testbed::new(text, &builtin(), BuildOptions::default()).expect("the stack can be built");
    bed.run_until(Instant(2_000_000));
    // One block of each of 16 NAND blocks: the buffer is full.
    let last = (0..16).map(|unit| bed.go(Op::Write, unit * 4 * BLOCK, BLOCK).serial).last();
    assert!(figures(&mut bed)["failed_fills"] > 0, "the device is gone");
    bed.run_until(Instant(200_000_000));
    assert_eq!(bed.go(Op::Flush, 0, 0).error, None);
    assert_eq!(Some(bed.stored("disk", 60 * BLOCK).serial()), last);
}

/// Dirty blocks beside the one whose turn it is go below with it, up to the longest destage; a gap ends a row.
#[test]
fn neighbours_are_destaged_in_one_write() {
    let writes = |more: &str, blocks: &[u64]| {
        let options = format!(
            "prefetch = {{ kind = \"none\" }}\nreplacement = {{ kind = \"lru\" }}\n\
             write = {{ kind = \"writeback\", dirty_max = \"128 KiB\", dirty_expire = \"1 h\"{more} }}"
        );
        let mut bed = bed(&options);
        for block in blocks {
            bed.go(Op::Write, block * BLOCK, BLOCK);
        }
        bed.go(Op::Flush, 0, 0);
        assert_eq!(figures(&mut bed)["dirty_blocks"], 0);
        let stats = bed.graph().stats(bed.node("disk"));
        assert_eq!(stats.bytes[Op::Write as usize], blocks.len() as u64 * BLOCK);
        stats.requests[Op::Write as usize]
    };
    let upwards: Vec<u64> = (100..112).collect();
    let downwards: Vec<u64> = upwards.iter().rev().copied().collect();
    assert_eq!(writes("", &upwards), 1);
    assert_eq!(writes("", &downwards), 1);
    assert_eq!(writes("", &[1, 2, 4, 5, 0, 9]), 3);
    assert_eq!(writes(", max_destage_size = \"16 KiB\"", &upwards), 3);
    assert_eq!(writes(", max_destage_size = \"4 KiB\"", &upwards), 12);
    let refused = Testbed::new(
        &text("write = { kind = \"writeback\", max_destage_size = \"1 KiB\" }"),
        &builtin(),
        BuildOptions::default(),
    );
    assert!(refused.is_err_and(|error| error.to_string().contains("max_destage_size")));
}

/// A long write goes below before it is answered, and stays in memory clean; one that meets dirty blocks is written back with them.
#[test]
fn long_writes_pass_the_buffer_by() {
    let mut bed = bed("prefetch = { kind = \"none\" }\nreplacement = { kind = \"lru\" }\n\
         write = { kind = \"writeback\", dirty_max = \"128 KiB\", dirty_expire = \"1 h\", bypass = \"8 KiB\" }");
    let written = |bed: &Testbed| bed.graph().stats(bed.node("disk")).bytes[Op::Write as usize];
    bed.go(Op::Write, 0, 2 * BLOCK);
    assert_eq!((written(&bed), figures(&mut bed)["dirty_blocks"]), (0, 2), "not longer than the bound");
    let last = bed.go(Op::Write, 8 * BLOCK, 3 * BLOCK);
    assert_eq!((written(&bed), figures(&mut bed)["dirty_blocks"]), (3 * BLOCK, 2));
    assert_eq!(bed.stored("disk", 9 * BLOCK).serial(), last.serial);
    let reads = bed.graph().stats(bed.node("disk")).requests[Op::Read as usize];
    assert_eq!(bed.go(Op::Read, 8 * BLOCK, 3 * BLOCK).error, None);
    assert_eq!(bed.graph().stats(bed.node("disk")).requests[Op::Read as usize], reads, "it is in memory");
    bed.go(Op::Write, BLOCK, 4 * BLOCK);
    assert_eq!(
        (written(&bed), figures(&mut bed)["dirty_blocks"]),
        (3 * BLOCK, 5),
        "one of its blocks was dirty"
    );
    assert_eq!(figures(&mut bed)["writes_through"], 1);
}
