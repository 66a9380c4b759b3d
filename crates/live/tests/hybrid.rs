//! A hybrid disk over two files as flash and one as disk, served: a restart keeps what is warm, and a killed process loses
//! nothing that was flushed.
//!
//! A tool that is not installed skips its test; `NANDU_REQUIRE_TOOLS=1` makes that a failure.

mod common;

use common::client::Client;
use common::process::{be_a_server, have, run, Process};
use common::script::{pattern, play, random};
use common::versions::{block_of, version_of, write_randomly, Knowledge, BLOCK};
use common::{options, Served};
use nandu_base::Rng;
use serde_json::Value;
use std::panic::{catch_unwind, AssertUnwindSafe};

/// Not a test of its own: what [`Process`] runs.
#[test]
fn the_server_process() {
    be_a_server();
}

const MIB: u64 = 1 << 20;
/// The paper's reading: everything that is read goes to the top ring.
const ALWAYS: &str = "promote = \"always\"\nread_bypass = 0";
/// A cache that keeps what it was given until a flush.
const CACHE: &str = "cache = { size = \"16 MiB\", destage_every = \"1 h\" }";

/// A hybrid disk over files of these sizes in MiB, each behind `fault` with these options, or bare without any.
fn stack(options: &str, [slc, mlc, disk]: [u64; 3], fault: &str) -> String {
    let member = |name: &str, size: u64| {
        let file = |name: &str, path: &str| {
            format!("[device.{name}]\nkind = \"file\"\npath = \"{path}.img\"\nsize = {}\n", size * MIB)
        };
        if fault.is_empty() {
            file(name, name)
        } else {
            let below = format!("{name}-file");
            format!("[device.{name}]\nkind = \"fault\"\nbelow = \"{below}\"\n{fault}\n{}", file(&below, name))
        }
    };
    format!(
        "[export.data]\ndevice = \"hybrid\"\n[device.hybrid]\nkind = \"hybrid\"\nslc = \"slc\"\nmlc = \"mlc\"\ndisk = \"disk\"\n\
         unit = \"64 KiB\"\n{options}\n{}{}{}",
        member("slc", slc),
        member("mlc", mlc),
        member("disk", disk)
    )
}

fn counter(status: &Value, name: &str) -> u64 {
    status["devices"]["hybrid"]["counters"][name].as_u64().unwrap_or_else(|| panic!("it counts {name}"))
}

/// Pages that were read from flash, and from the disk.
fn sources(status: &Value) -> (u64, u64) {
    (counter(status, "slc_hits") + counter(status, "mlc_hits"), counter(status, "disk_reads"))
}

/// What is in flash is found there after a clean end and after a kill: every page is read from flash, none from the disk.
#[test]
fn a_restart_keeps_what_is_warm() {
    let dir = tempfile::tempdir().expect("a directory");
    let text = stack(ALWAYS, [2, 8, 32], "");
    let process = Process::start(&text, dir.path());
    let mut client = Client::connect(&process.socket, "data");
    let (data, len) = (pattern(0, 4 * MIB as u32, 7), 4 * MIB as u32);
    client.write(0, &data);
    client.flush();
    client.disconnect();
    process.stop();
    for end in ["stop", "kill", "stop"] {
        let process = Process::start(&text, dir.path());
        let mut client = Client::connect(&process.socket, "data");
        assert_eq!(sources(&process.status()), (0, 0));
        assert!(client.read(0, len) == data, "before a {end}");
        let (flash, disk) = sources(&process.status());
        assert_eq!(disk, 0, "before a {end}: the disk was read");
        assert!(flash >= 1024 - 128, "before a {end}: {flash} of 1024 pages came from flash");
        client.flush();
        client.disconnect();
        if end == "kill" {
            process.kill();
        } else {
            process.stop();
        }
    }
}

/// Pages that were only read come up, and are there after a restart as well: the second server reads them from flash.
#[test]
fn what_was_read_from_the_disk_is_in_flash_after_a_restart() {
    let dir = tempfile::tempdir().expect("a directory");
    let process = Process::start(&stack("write_bypass = \"64 KiB\"", [2, 8, 32], ""), dir.path());
    let mut client = Client::connect(&process.socket, "data");
    let data = pattern(0, MIB as u32, 3);
    client.write(0, &data);
    client.flush();
    client.disconnect();
    process.stop();
    let mut seen = Vec::new();
    for _ in 0..2 {
        let process = Process::start(&stack(ALWAYS, [2, 8, 32], ""), dir.path());
        let mut client = Client::connect(&process.socket, "data");
        // What is to be copied up waits in DRAM, which a flush empties.
        for (at, piece) in (0..).step_by(64 << 10).zip(data.chunks(64 << 10)) {
            assert!(client.read(at, 64 << 10) == piece);
            client.flush();
        }
        seen.push(sources(&process.status()));
        client.disconnect();
        process.stop();
    }
    assert_eq!(seen[0], (0, 256), "the long write went past the rings");
    assert_eq!(seen[1], (256, 0));
}

#[test]
fn random_scripts_read_what_they_wrote() {
    for (seed, options_of_hybrid) in
        ["", ALWAYS, "tiers = \"inclusive\"\npromote = \"always\"\nwrite_back = \"lru\""]
            .into_iter()
            .enumerate()
    {
        let dir = tempfile::tempdir().expect("a directory");
        let served = Served::start(options(&stack(options_of_hybrid, [1, 2, 16], ""), dir.path()));
        let mut client = served.connect("data");
        let size = client.size.min(12 * MIB);
        play(&random(seed as u64, 300, size), &mut client, size);
        client.disconnect();
        served.stop();
    }
}

/// Random writes and flushes, then `kill -9` with requests under way; again and again on the same files.
fn live(stack: &str, plant: &str, seed: u64) -> Result<u64, String> {
    let dir = tempfile::tempdir().expect("a directory");
    let mut rng = Rng::new(seed);
    let blocks = 1200;
    let (mut known, mut collected) = (Knowledge::new(blocks), 0);
    for _ in 0..6 {
        let process = Process::start_with(stack, dir.path(), plant);
        let mut client = Client::connect(&process.socket, "data");
        for block in 0..blocks {
            let found = version_of(block, &client.read(block * BLOCK, BLOCK as u32))?;
            known.check(block, found)?;
        }
        let many = 300 + rng.below(900);
        write_randomly(&mut client, &mut known, &mut rng, blocks, many);
        let status = process.status();
        collected += counter(&status, "slc_erases") + counter(&status, "mlc_erases");
        process.kill();
    }
    Ok(collected)
}

#[test]
fn kill_9_at_random_moments_loses_nothing_that_was_flushed() {
    for (seed, fault) in [(1, ""), (2, CACHE), (3, CACHE)] {
        let options = if seed == 3 { "tiers = \"inclusive\"\nwrite_back = \"lru\"" } else { ALWAYS };
        let text = stack(options, [1, 2, 8], fault);
        let collected = live(&text, "", seed).unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}"));
        assert!(collected > 20, "seed {seed}: {collected} units were erased; the rings should go round");
    }
}

#[test]
fn a_flush_that_ends_in_dram_is_found() {
    let text = stack(ALWAYS, [1, 2, 8], CACHE);
    let ended = catch_unwind(AssertUnwindSafe(|| live(&text, "hybrid.flush-from-dram", 4)));
    assert!(!matches!(ended, Ok(Ok(_))), "a planted flush of nothing was not found");
}

/// A member that is not there: the start says which, and what holds its data is left alone.
#[test]
fn a_start_without_a_member_is_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let text = stack(ALWAYS, [1, 2, 8], "");
    let process = Process::start(&text, dir.path());
    let mut client = Client::connect(&process.socket, "data");
    client.write(0, &block_of(0, 1));
    client.flush();
    client.disconnect();
    process.stop();
    let (mlc, aside) = (dir.path().join("mlc.img"), dir.path().join("aside"));
    std::fs::rename(&mlc, &aside).expect("the file is there");
    let mut without = options(&text, dir.path());
    without.create = false;
    let refused = nandu_live::serve(without, &mut |_| {}).expect_err("a member is missing");
    let said = refused.to_string();
    assert!(said.contains("mlc"), "{said}");
    assert!(!mlc.exists(), "nothing was made in its place");
    std::fs::rename(&aside, &mlc).expect("it is put back");
    let process = Process::start(&text, dir.path());
    let mut client = Client::connect(&process.socket, "data");
    assert_eq!(version_of(0, &client.read(0, BLOCK as u32)), Ok(1));
    client.disconnect();
    process.stop();
}

#[test]
fn qemu_io_finds_its_data_in_flash_after_a_restart() {
    if !have("qemu-io") {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let text = stack(ALWAYS, [2, 8, 32], "");
    let go = |process: &Process, commands: &[&str]| {
        let mut args = vec!["-f", "raw"];
        commands.iter().for_each(|command| args.extend(["-c", *command]));
        let uri = process.uri();
        args.push(&uri);
        let said = String::from_utf8_lossy(&run("qemu-io", &args).stdout).into_owned();
        assert!(!said.contains("verification failed") && !said.contains("error"), "{said}");
    };
    let process = Process::start(&text, dir.path());
    go(&process, &["write -P 0x5a 0 1M", "write -P 0x33 20M 64k", "flush"]);
    process.kill();
    let process = Process::start(&text, dir.path());
    go(&process, &["read -P 0x5a 0 1M", "read -P 0x33 20M 64k"]);
    assert_eq!(sources(&process.status()), (256 + 16, 0));
    process.stop();
}

#[test]
fn fio_verifies_what_it_wrote() {
    if !have("fio") {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let process = Process::start(&stack("", [2, 8, 32], ""), dir.path());
    let uri = format!("--uri={}", process.uri());
    let output = format!("--output={}", dir.path().join("fio.txt").display());
    let args =
        ["--name=verify", "--ioengine=nbd", "--rw=randwrite", "--bssplit=4k/60:16k/20:256k/20", "--size=24m"];
    let more = ["--iodepth=32", "--verify=crc32c", "--verify_fatal=1", "--do_verify=1"];
    let rest = ["--verify_state_save=0", "--fsync=64", "--randseed=7", &uri, &output];
    run("fio", &[&args[..], &more[..], &rest[..]].concat());
    process.stop();
}
