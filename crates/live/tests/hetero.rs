//! A hetero-mirror over two files, served by a process of its own: each leg lies behind a `fault`, which is its volatile
//! write cache, its delay, or what freezes it.
//!
//! Nothing here is timed. What must not wait for a frozen leg meets one that thaws in an hour, so that it would never end;
//! what must cost nothing is counted.

mod common;

use common::client::Client;
use common::process::{Process, be_a_server};
use common::stacks::CACHE;
use common::versions::{BLOCK, Knowledge, block_of, stored, write_randomly};
use nandu_base::Rng;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

/// Not a test of its own: what [`Process`] runs.
#[test]
fn the_server_process() {
    be_a_server();
}

const SIZE: u64 = 16 << 20;
const REGION: u64 = 64 << 10;
/// Regions stay marked, and nothing is late, as long as a test takes.
const PATIENT: &str = "bitmap_delay = \"1 h\"\nmax_exposed_time = \"1 h\"\n";

/// A stack with these options of the mirror and of the `fault` above each leg.
fn stack(kind: &str, mirror: &str, fast: &str, slow: &str) -> String {
    let leg = |name: &str, file: &str, fault: &str| {
        format!(
            "[device.{name}]\nkind = \"fault\"\nbelow = \"{file}\"\n{fault}\n\
             [device.{file}]\nkind = \"file\"\npath = \"{file}.img\"\nsize = {SIZE}\nsector = \"4 KiB\"\n"
        )
    };
    format!(
        "[export.data]\ndevice = \"m\"\n[device.m]\nkind = \"{kind}\"\nlegs = [\"fast\", \"slow\"]\n\
         region_size = {REGION}\ninitial_sync = \"assume-clean\"\n{mirror}{}{}",
        leg("fast", "a", fast),
        leg("slow", "b", slow)
    )
}

fn counter(process: &Process, device: &str, name: &str) -> u64 {
    process.status()["devices"][device]["counters"][name].as_u64().expect("it is counted")
}

fn wait_until_clean(process: &Process) {
    for leg in ["leg_a_is_member", "leg_b_is_member"] {
        process.wait_for_counter("m", leg, 1);
    }
    for marks in ["stale_regions", "dirty_regions"] {
        process.wait_for_counter("m", marks, 0);
    }
}

/// The legs are equal where user data lies, which begins at their start.
fn assert_legs_equal(dir: &Path, bytes: u64) {
    let read = |leg: &str| std::fs::read(dir.join(leg)).expect("a leg is a file");
    let (a, b) = (read("a.img"), read("b.img"));
    let differs = (0..bytes as usize).find(|&at| a[at] != b[at]);
    assert_eq!(differs, None, "the legs differ");
}

/// Random writes and flushes, then `kill -9` and with it the loss of both caches; three times on the same legs.
fn live(stack: &str, plant: &str, seed: u64) -> Result<(), String> {
    let dir = tempfile::tempdir().expect("a directory");
    let mut rng = Rng::new(seed);
    let blocks = 1000;
    let mut known = Knowledge::new(blocks);
    for round in 0..4 {
        let process = Process::start_with(stack, dir.path(), plant);
        let mut client = Client::connect(&process.socket, "data");
        let versions = known.check_all(&mut client)?;
        if round == 3 {
            // What was read once stays, whichever leg is read after the resync.
            wait_until_clean(&process);
            for block in 0..blocks {
                let again = stored(&mut client, block);
                assert_eq!(again, versions[block as usize], "block {block} flipped back");
            }
            let bytes = client.size;
            client.disconnect();
            process.stop();
            assert_legs_equal(dir.path(), bytes);
            return Ok(());
        }
        write_randomly(&mut client, &mut known, &mut rng, blocks, 600 + round * 300);
        process.kill();
    }
    unreachable!("the last round returns")
}

/// The slower leg is far enough behind for a kill to find much in its queue.
fn caches(kind: &str, mirror: &str) -> String {
    stack(kind, &format!("bitmap_delay = \"10 ms\"\n{mirror}"), CACHE, &format!("delay = \"2 ms\"\n{CACHE}"))
}

#[test]
fn kill_9_with_volatile_caches_loses_nothing_that_was_flushed() {
    live(&caches("mirror", ""), "", 23).expect("a mirror keeps what it promises");
    for flush in ["all-legs", "leader"] {
        let stack = caches("hetero-mirror", &format!("flush_scope = \"{flush}\"\nhedge_after = \"20 ms\"\n"));
        live(&stack, "", 23).unwrap_or_else(|wrong| panic!("{flush}: {wrong}"));
    }
}

#[test]
fn a_leg_that_lies_about_flushes_is_found() {
    let stack = caches("hetero-mirror", "flush_scope = \"leader\"\n");
    // A mirror whose records are gone may not even start. How much a kill finds in the caches depends on how busy the machine is: once in so many must do.
    let is_found = |seed| {
        let ended = catch_unwind(AssertUnwindSafe(|| live(&stack, "fault.lying-flush", seed)));
        !matches!(ended, Ok(Ok(())))
    };
    assert!((23..33).any(is_found), "a planted lie about flushes was not found");
}

#[test]
fn a_flush_in_a_marked_region_costs_the_slow_leg_nothing_and_a_first_touch_one_record() {
    let dir = tempfile::tempdir().expect("a directory");
    let mirror = format!("flush_scope = \"leader\"\nmark_ahead = 0\n{PATIENT}");
    let process = Process::start(&stack("hetero-mirror", &mirror, "", "delay = \"20 ms\""), dir.path());
    wait_until_clean(&process);
    let mut client = Client::connect(&process.socket, "data");
    let figures = |process: &Process| {
        ["map_page_writes", "leg_b_flushes", "leg_a_flushes"].map(|name| counter(process, "m", name))
    };
    let mut write = |at: u64, version: u64| {
        client.write(at, &block_of(at / BLOCK, version));
        client.flush();
    };
    let start = figures(&process);
    (0..8).for_each(|region| write(region * REGION, 1));
    let touched = figures(&process);
    assert_eq!(touched[0] - start[0], 16, "each region is marked on both legs, once");
    assert!(touched[1] - start[1] >= 8, "and durably on the slow one before its flush is answered");
    (0..100).for_each(|n| write(n % 8 * REGION + n / 8 * BLOCK, 2));
    let marked = figures(&process);
    assert_eq!(marked[..2], touched[..2], "100 flushes in marked regions wait for the slow leg");
    assert_eq!(marked[2] - touched[2], 100);
    let bytes = client.size;
    client.disconnect();
    process.stop();
    assert_legs_equal(dir.path(), bytes);
}

/// One leg freezes for an hour once the first blocks are on both.
fn frozen(mirror: &str, fast: &str, slow: &str) -> (tempfile::TempDir, Process, Client) {
    const FREEZE: &str = "freeze = { kind = \"at\", at = \"5 s\", duration = \"1 h\" }";
    let dir = tempfile::tempdir().expect("a directory");
    let fault = |leg: &str| if leg == "frozen" { FREEZE.to_string() } else { String::new() };
    let leg = if fast == "frozen" { "fast" } else { "slow" };
    let stack =
        stack("hetero-mirror", &format!("flush_scope = \"leader\"\n{mirror}"), &fault(fast), &fault(slow));
    let process = Process::start(&stack, dir.path());
    let mut client = Client::connect(&process.socket, "data");
    for block in 0..64 {
        client.write(block * BLOCK, &block_of(block, 1));
    }
    client.flush();
    for queue in ["leg_a_queue_bytes", "leg_b_queue_bytes"] {
        process.wait_for_counter("m", queue, 0);
    }
    assert_eq!(counter(&process, leg, "freezes"), 0, "the machine is too slow for this test");
    process.wait_for_counter(leg, "freezes", 1);
    (dir, process, client)
}

#[test]
fn a_frozen_slow_leg_stops_neither_reads_nor_flushes_in_marked_regions() {
    let (dir, process, mut client) = frozen(PATIENT, "", "frozen");
    for n in 0..300 {
        let block = n % 64;
        client.write(block * BLOCK, &block_of(block, 2 + n));
        assert_eq!(stored(&mut client, block), 2 + n);
        client.flush();
    }
    let behind = counter(&process, "m", "leg_b_queue_bytes");
    assert!(behind > 0, "the slow leg lacks nothing");
    process.kill();
    // What was flushed is found, and the slow leg gets it.
    let process = Process::start(
        &stack("hetero-mirror", "bitmap_delay = \"10 ms\"\nflush_scope = \"leader\"\n", "", ""),
        dir.path(),
    );
    wait_until_clean(&process);
    let mut client = Client::connect(&process.socket, "data");
    for block in 0..64 {
        assert!(stored(&mut client, block) > 200);
    }
    let bytes = client.size;
    client.disconnect();
    process.stop();
    assert_legs_equal(dir.path(), bytes);
}

#[test]
fn a_frozen_fast_leg_costs_one_read_and_no_more() {
    // So long that a busy machine does not count as frozen.
    let mirror = format!("hedge_after = \"2 s\"\n{PATIENT}");
    let (_dir, process, mut client) = frozen(&mirror, "frozen", "");
    let before = counter(&process, "m", "leg_b_reads");
    for n in 0..300 {
        let block = n % 64;
        let version = 1 + n / 64;
        assert_eq!(stored(&mut client, block), version);
        client.write(block * BLOCK, &block_of(block, version + 1));
    }
    assert_eq!(counter(&process, "m", "reads_hedged"), 1, "reads try the frozen leg again and again");
    assert!(counter(&process, "m", "leg_b_reads") - before >= 64, "the slow leg serves the reads");
    process.kill();
}

#[test]
fn a_frozen_fast_leg_is_left_out_when_a_flush_has_waited_long_enough() {
    let mirror = "hedge_after = \"5 ms\"\nbitmap_delay = \"1 h\"\nmax_exposed_time = \"300 ms\"\non_limit = \"degrade\"\n";
    let (_dir, process, mut client) = frozen(mirror, "frozen", "");
    for n in 0..100 {
        client.write(n * REGION, &block_of(n * REGION / BLOCK, 7));
        client.flush();
        assert_eq!(stored(&mut client, n * REGION / BLOCK), 7);
    }
    let figures = ["leg_a_is_member", "leader_leg", "degrades"].map(|name| counter(&process, "m", name));
    assert_eq!(figures, [0, 1, 1]);
    process.kill();
}
