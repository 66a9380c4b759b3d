//! Scenarios, and random loads against an obvious model: one array of the newest write of each sector.

use nandu_base::{ErrorKind, Flags, Instant, Op, Rng, SECTOR, Span, Stamp};
use nandu_stack::testbed::Testbed;
use nandu_stack::{BuildOptions, builtin};

/// A hybrid disk over leaves in memory, so small that everything wraps.
fn stack(options: &str) -> String {
    let ring = |name: &str, size: u32| {
        let table =
            format!("[device.{name}]\nkind = \"memory\"\nsize = \"{size} KiB\"\nlatency = \"50 us\"\n");
        if options.contains(&format!("\"{name}\"")) { table } else { String::new() }
    };
    let rings = ring("slc", 352) + &ring("mlc", 512);
    format!(
        "[export.data]\ndevice = \"hybrid\"\n[device.hybrid]\nkind = \"hybrid\"\ndisk = \"disk\"\nerase_unit = \"32 KiB\"\n{options}\n\
         [device.disk]\nkind = \"memory\"\nsize = \"2 MiB\"\nlatency = \"5 ms\"\n{rings}"
    )
}

const BOTH: &str = "slc = \"slc\"\nmlc = \"mlc\"\ndram_size = \"64 KiB\"";

fn bed(options: &str) -> Testbed {
    let built = Testbed::new(&stack(options), &builtin(), BuildOptions::default());
    built.unwrap_or_else(|error| panic!("{error}"))
}

fn figure(bed: &mut Testbed, name: &str) -> u64 {
    bed.counter("hybrid", name)
}

#[test]
fn what_is_written_is_read_and_survives_an_end() {
    let mut bed = bed(BOTH);
    let page = bed.go(Op::Write, 4096, 4096).serial;
    let part = bed.go(Op::Write, 4096 + 512, 1024).serial;
    let want: Vec<Stamp> = (8..16)
        .map(|sector| Stamp::new(if (9..11).contains(&sector) { part } else { page }, sector))
        .collect();
    assert_eq!(bed.go(Op::Read, 4096, 4096).data, want);
    bed.go(Op::Flush, 0, 0);
    bed.crash(2);
    assert_eq!(bed.go(Op::Read, 4096, 4096).data, want);
    bed.close();
    bed.crash(3);
    assert_eq!(bed.go(Op::Read, 4096, 4096).data, want);
}

#[test]
fn a_flush_waits_for_the_ring_and_the_disk_rests() {
    let mut bed = bed(BOTH);
    let quick = bed.go(Op::Write, 0, 4096);
    assert_eq!(quick.latency.0, 0, "a write ends in DRAM");
    bed.go(Op::Flush, 0, 0);
    assert_eq!(figure(&mut bed, "dirty_frames"), 0);
    assert_eq!((figure(&mut bed, "slc_bytes_written"), figure(&mut bed, "disk_reads")), (3 * 4096, 0));
}

#[test]
fn a_page_of_the_disk_comes_up_at_its_second_touch() {
    let mut bed = bed(&format!("{BOTH}\npromote = \"second-touch\""));
    for turn in 0..3 {
        bed.go(Op::Read, 0, 4096);
        bed.run_until(Instant(1_000_000_000 * (turn + 1)));
        // Others push it out of DRAM.
        for page in 1..=16 {
            bed.go(Op::Read, (turn * 16 + page) * 4096, 4096);
        }
    }
    assert_eq!(figure(&mut bed, "slc_hits"), 1, "the third read finds it in the ring");
}

#[test]
fn a_long_write_past_the_rings_outlives_older_data_in_them() {
    let mut bed = bed(&format!("{BOTH}\nwrite_bypass = \"16 KiB\""));
    bed.go(Op::Write, 0, 8192);
    bed.go(Op::Flush, 0, 0);
    let long = bed.go(Op::Write, 0, 64 << 10).serial;
    bed.go(Op::Flush, 0, 0);
    assert_eq!(figure(&mut bed, "marks"), 2);
    bed.crash(2);
    let found = bed.go(Op::Read, 0, 64 << 10).data;
    assert!((0..).zip(found).all(|(sector, stamp)| stamp == Stamp::new(long, sector)));
}

/// Random requests, one after the other or several at a time, with crashes behind flushes.
fn random(options: &str, seed: u64) {
    let mut bed = bed(options);
    let capacity = bed.capacity(0) / SECTOR;
    let mut rng = Rng::new(seed);
    let mut model = vec![Stamp::ZERO; capacity as usize];
    for turn in 0..1500u64 {
        let longest = if rng.below(8) == 0 { 200 } else { 24 };
        let len = rng.between(1, longest);
        let hot = if rng.below(3) == 0 { capacity } else { capacity / 6 };
        let first = rng.below(hot.max(len + 1)).min(capacity - len);
        let (offset, bytes) = (first * SECTOR, len * SECTOR);
        let range = first as usize..(first + len) as usize;
        match rng.below(20) {
            0 => {
                bed.go(Op::Trim, offset, bytes);
                model[range].fill(Stamp::ZERO);
            }
            1..=10 => {
                let serial = bed.go(Op::Write, offset, bytes).serial;
                for sector in range {
                    model[sector] = Stamp::new(serial, sector as u64);
                }
            }
            11 if rng.below(6) == 0 => {
                bed.go(Op::Flush, 0, 0);
                bed.crash(turn);
            }
            12 => {
                let id = bed.submit(0, Op::WriteZeroes, Flags::FUA, offset, bytes);
                bed.settle();
                assert!(bed.take_done().iter().any(|d| d.serial == id && d.error.is_none()));
                model[range].fill(Stamp::ZERO);
            }
            13 => {
                let later = Instant(bed.now().0 + 50_000_000);
                bed.run_until(later);
            }
            _ => {
                let done = bed.go(Op::Read, offset, bytes);
                assert_eq!(done.error, None, "seed {seed}, turn {turn}");
                assert_eq!(done.data, model[range], "seed {seed}, turn {turn}: sectors {first}+{len}");
            }
        }
    }
    bed.close();
    assert_eq!(bed.graph().pool.living(), 0, "seed {seed}: buffers are held after the end");
    bed.crash(7);
    for at in (0..capacity).step_by(64) {
        let len = 64.min(capacity - at);
        let found = bed.go(Op::Read, at * SECTOR, len * SECTOR).data;
        assert_eq!(found, model[at as usize..(at + len) as usize], "seed {seed}: at the end");
    }
}

#[test]
fn random_loads_agree_with_the_model() {
    for seed in 1..=6 {
        random(BOTH, seed);
        random(&format!("{BOTH}\npromote = \"always\"\nread_bypass = 0"), seed + 100);
        random(
            &format!("{BOTH}\nwrite_bypass = \"16 KiB\"\nread_bypass = \"8 KiB\"\ngroup_pages = 3"),
            seed + 200,
        );
    }
}

#[test]
fn each_ring_alone_agrees_with_the_model() {
    for seed in 1..=3 {
        random("slc = \"slc\"\ndram_size = \"64 KiB\"\npromote = \"always\"", seed);
        random(
            "mlc = \"mlc\"\ndram_size = \"128 KiB\"\npromote = \"always\"\nrewrite = \"never\"",
            seed + 100,
        );
    }
}

#[test]
fn every_reading_of_what_the_paper_leaves_open_agrees_with_the_model() {
    const SMALL: &str = "promote = \"always\"\nread_bypass = 0";
    for seed in 1..=3 {
        for (at, options) in [
            "tiers = \"inclusive\"",
            "tiers = \"inclusive\"\nappend_order = \"lru\"\nrewrite = \"never\"",
            "append_order = \"lru\"\nrewrite = \"levels\"",
            "rewrite = { kind = \"pinned\", hits = 2, share = \"50 %\" }\nsequential_cutoff = \"32 KiB\"",
        ]
        .into_iter()
        .enumerate()
        {
            random(&format!("{BOTH}\n{SMALL}\n{options}"), seed + 100 * at as u64);
        }
        random(&format!("{BOTH}\npromote = {{ kind = \"hot\", hits = 3 }}\nread_bypass = 0"), seed + 500);
    }
}

/// With `dirty_max` no more is newer than the disk, at any moment, and all of the model holds.
#[test]
fn what_is_dirty_stays_within_its_bound() {
    for seed in 1..=3 {
        random(&format!("{BOTH}\ndirty_max = \"128 KiB\"\nwrite_bypass = \"16 KiB\""), seed);
        random(
            "slc = \"slc\"\ndram_size = \"64 KiB\"\ndirty_max = \"64 KiB\"\npromote = \"always\"",
            seed + 100,
        );
    }
    let mut bed = bed(&format!("{BOTH}\ndirty_max = \"128 KiB\""));
    let mut most = 0;
    for turn in 0..400u64 {
        bed.go(Op::Write, turn * 7 % 60 * 4096, 4096);
        most = most.max(figure(&mut bed, "slc_dirty_pages") + figure(&mut bed, "mlc_dirty_pages"));
        assert!(most <= 32, "turn {turn}: {most} pages");
        if turn % 10 == 0 {
            bed.go(Op::Flush, 0, 0);
        }
    }
    assert!(
        most > 20 && figure(&mut bed, "destaged_pages") > 100,
        "{most} pages, {}",
        figure(&mut bed, "destaged_pages")
    );
    let rests = Instant(bed.now().0 + 1_000_000_000);
    bed.run_until(rests);
    let dirty = figure(&mut bed, "slc_dirty_pages") + figure(&mut bed, "mlc_dirty_pages");
    assert!(dirty <= 24, "{dirty} pages at rest");
}

/// Pages are read again and again, one after the other, more than the upper ring holds and fewer than the lower one does: with
/// the copy below kept they go down without being written.
#[test]
fn what_was_only_read_above_is_not_written_below_again() {
    const PAGES: u64 = 60;
    let run = |tiers: &str| {
        let options = format!(
            "{BOTH}\npromote = \"always\"\nread_bypass = 0\nrewrite = \"never\"\nappend_idle = \"1 s\"\ntiers = \"{tiers}\""
        );
        let text = stack(&options).replace("512 KiB", "2 MiB");
        let mut bed =
            Testbed::new(&text, &builtin(), BuildOptions::default()).expect("the stack is well formed");
        for page in 0..PAGES {
            bed.go(Op::Write, page * 4096, 4096);
        }
        bed.go(Op::Flush, 0, 0);
        for turn in 0..20 {
            for page in 0..PAGES {
                bed.go(Op::Read, page * 4096, 4096);
                let later = Instant(bed.now().0 + 2_000_000);
                bed.run_until(later);
            }
            assert!(bed.graph().machine(bed.node("hybrid")).check().is_ok(), "turn {turn}");
        }
        (figure(&mut bed, "kept_below_pages"), figure(&mut bed, "mlc_bytes_written"))
    };
    let (none, exclusive) = run("exclusive");
    let (kept, inclusive) = run("inclusive");
    assert_eq!(none, 0);
    assert!(kept > 0 && inclusive < exclusive, "{kept} kept, {inclusive} against {exclusive} bytes written");
}

/// One page is written again and again beside others: by age it is appended at each turn, by use it stays in DRAM.
#[test]
fn with_lru_a_page_that_is_written_often_is_appended_seldom() {
    let appended = |order: &str| {
        let mut bed = bed(&format!("{BOTH}\nappend_order = \"{order}\"\nappend_idle = \"1 s\""));
        for n in 0..200 {
            bed.go(Op::Write, 0, 4096);
            bed.go(Op::Write, (1 + n % 40) * 4096, 4096);
            let later = Instant(bed.now().0 + 2_000_000);
            bed.run_until(later);
        }
        figure(&mut bed, "slc_bytes_written") / 4096 - figure(&mut bed, "slc_headers")
    };
    let (by_age, by_use) = (appended("oldest"), appended("lru"));
    assert!(by_use + 10 < by_age, "{by_use} pages by use, {by_age} by age");
}

/// A member that takes no writes, and later blinks, does not make the hybrid disk serve again: what was acknowledged since the last proof would be gone
/// without a word. One that only blinks does.
#[test]
fn what_gave_up_serves_again_after_a_start_only() {
    for fails in [true, false] {
        let text = stack("slc = \"slc\"\ndram_size = \"64 KiB\"").replace(
            "[device.slc]",
            "[device.slc]\nkind = \"fault\"\nbelow = \"flash\"\n\
             loss = { kind = \"at\", at = \"10 s\", outage = \"1 s\" }\n[device.flash]",
        );
        let mut bed =
            Testbed::new(&text, &builtin(), BuildOptions::default()).unwrap_or_else(|e| panic!("{e}"));
        let serial = bed.go(Op::Write, 4096, 4096).serial;
        assert_eq!(bed.go(Op::Flush, 0, 0).error, None);
        if fails {
            bed.go(Op::Write, 8192, 4096);
            bed.spoil("flash", 0, 352 << 10, ErrorKind::WriteFailed);
            assert!(bed.go(Op::Flush, 0, 0).error.is_some(), "nothing could be appended");
            bed.heal("flash");
        }
        bed.run_until(Instant(20_000_000_000));
        let read = bed.go(Op::Read, 4096, 4096);
        assert_eq!(read.error.is_some(), fails, "{read:?}");
        bed.crash(2);
        assert_eq!(bed.go(Op::Read, 4096, 4096).data[0], Stamp::new(serial, 8));
    }
}

/// What a collection cannot read it reads a few times more; then service ends, and nothing is read on.
#[test]
fn a_collection_that_cannot_read_gives_up() {
    let mut bed = bed("slc = \"slc\"\ndram_size = \"64 KiB\"");
    let put = |bed: &mut Testbed, page: u64| {
        bed.go(Op::Write, page * 4096, 4096);
        bed.go(Op::Flush, 0, 0).error.map(|e| e.kind)
    };
    assert_eq!(put(&mut bed, 0), None);
    // The data of the first unit of the ring, which stands behind that of the superblocks.
    bed.spoil("slc", 36 << 10, 28 << 10, ErrorKind::Unreadable);
    let failed = (2..200).find_map(|page| put(&mut bed, page));
    assert_eq!(failed, Some(ErrorKind::WriteFailed));
    bed.pass(Span::from_secs(10));
    let requests = |bed: &Testbed| {
        let stats = bed.graph().stats(bed.node("slc"));
        (bed.now(), stats.requests.iter().sum::<u64>())
    };
    let rests = requests(&bed);
    bed.settle();
    assert_eq!(requests(&bed).1, rests.1, "a machine that has given up asks for nothing");
    assert_eq!(bed.to_come(), 0);
}
