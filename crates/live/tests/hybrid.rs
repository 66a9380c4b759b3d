//! A hybrid disk over two files as flash and one as disk, served: a restart keeps what is warm, and a killed process loses
//! nothing that was flushed.
//!
//! A tool that is not installed skips its test; `NANDU_REQUIRE_TOOLS=1` makes that a failure.

mod common;

use common::client::Client;
use common::process::{Process, be_a_server, have, run};
use common::script::{pattern, play, random};
use common::stacks::{CACHE, member};
use common::versions::{BLOCK, Knowledge, block_of, version_of, write_randomly};
use common::{Served, options};
use nandu_base::Rng;
use nandu_live::examine::{examine, sets};
use serde_json::Value;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

/// Not a test of its own: what [`Process`] runs.
#[test]
fn the_server_process() {
    be_a_server();
}

const MIB: u64 = 1 << 20;
/// The paper's reading: everything that is read goes to the top ring.
const ALWAYS: &str = "promote = \"always\"\nread_bypass = 0";

/// A hybrid disk over files of these sizes in MiB, each behind `fault` with these options, or bare without any.
fn stack(options: &str, [slc, mlc, disk]: [u64; 3], fault: &str) -> String {
    format!(
        "[export.data]\ndevice = \"hybrid\"\n[device.hybrid]\nkind = \"hybrid\"\nslc = \"slc\"\nmlc = \"mlc\"\ndisk = \"disk\"\n\
         erase_unit = \"64 KiB\"\n{options}\n{}{}{}",
        member("slc", slc * MIB, fault),
        member("mlc", mlc * MIB, fault),
        member("disk", disk * MIB, fault)
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
        ["", ALWAYS, "tiers = \"inclusive\"\npromote = \"always\"\nappend_order = \"lru\""]
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
        known.check_all(&mut client)?;
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
        let options = if seed == 3 { "tiers = \"inclusive\"\nappend_order = \"lru\"" } else { ALWAYS };
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

/// The files of a set, by what was written to it in order: after each of `fills` it is stopped cleanly and its files are kept.
fn kept_after(fills: &[u8], dir: &Path) -> Vec<PathBuf> {
    let served = dir.join("served");
    std::fs::create_dir_all(&served).expect("a directory");
    let keep = |fill: &u8| {
        let server = Served::start(options(&small(), &served));
        let mut client = server.connect("data");
        (0..96).for_each(|block| client.write(block * BLOCK, &vec![*fill; BLOCK as usize]));
        client.flush();
        client.disconnect();
        server.stop();
        let kept = dir.join(format!("after-{fill}"));
        std::fs::create_dir_all(&kept).expect("a directory");
        for member in MEMBERS {
            std::fs::copy(served.join(member), kept.join(member)).expect("a copy");
        }
        kept
    };
    fills.iter().map(keep).collect()
}

const MEMBERS: [&str; 3] = ["slc.img", "mlc.img", "disk.img"];

fn small() -> String {
    stack("", [1, 1, 2], "")
}

/// The rows of docs/reference/guarantees.md: a member that is an older copy, of another set, or blank is refused, nothing is changed, and with the right one put
/// back all is as it was. All members put back to one stop nobody can notice; that is consistent in itself.
#[test]
fn a_member_that_does_not_belong_there_is_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let states = kept_after(&[1, 2, 3], dir.path());
    let (old, new) = (&states[0], &states[2]);
    let other_dir = dir.path().join("other");
    let other = &kept_after(&[9], &other_dir)[0];
    let now = dir.path().join("now");
    std::fs::create_dir_all(&now).expect("a directory");
    let put = |member: &str, from: &Path| {
        std::fs::copy(from.join(member), now.join(member)).expect("a copy");
    };
    let found = || {
        let server = Served::start(options(&small(), &now));
        let mut client = server.connect("data");
        let found: Vec<u8> = (0..96).map(|block| client.read(block * BLOCK, BLOCK as u32)[0]).collect();
        client.disconnect();
        server.stop();
        found
    };
    for member in MEMBERS {
        for (what, words) in [
            ("older", "is an older copy: it has missed 2 openings"),
            ("other", "belongs to another hybrid disk"),
            ("blank", "holds no hybrid disk, but another member does"),
        ] {
            MEMBERS.iter().for_each(|member| put(member, new));
            match what {
                "older" => put(member, old),
                "other" => put(member, other),
                _ => {
                    let len = std::fs::metadata(now.join(member)).expect("a member").len();
                    std::fs::write(now.join(member), vec![0; len as usize]).expect("a file");
                }
            }
            let before = MEMBERS.map(|member| std::fs::read(now.join(member)).expect("a member"));
            let looked_at = MEMBERS.map(|member| examine(&now.join(member)).expect("it can be read"));
            let starts: Vec<_> =
                sets(&looked_at).iter().map(|set| (set.found.len(), set.start.clone())).collect();
            match (what, starts.as_slice()) {
                ("older", [(3, Err(why))]) => assert!(why.contains("missed 2 openings"), "{why}"),
                ("other", [(_, Err(_)), (_, Err(_))]) => {}
                ("blank", [(2, Err(why))]) => assert!(why.contains("is not there"), "{why}"),
                (_, other) => panic!("{member}, {what}: {other:?}"),
            }
            for create in [false, true] {
                let mut options = options(&small(), &now);
                options.create = create;
                let error =
                    Served::try_start(options).err().unwrap_or_else(|| panic!("{member}, {what}: served"));
                assert_eq!(error.exit_code(), 2, "{member}, {what}: {error}");
                let said = error.to_string();
                // A start that may make something looks at what is blank before it opens anything.
                let has_none = what == "blank" && said.contains("has no records of hybrid disk");
                assert!(said.contains(words) || has_none, "{member}, {what}: {said}");
                let is_named = member == "disk.img" || what != "older" || said.contains("ring");
                assert!(is_named, "{member}: {said}");
            }
            let after = MEMBERS.map(|member| std::fs::read(now.join(member)).expect("a member"));
            assert!(before == after, "{member}, {what}: something was changed");
            put(member, new);
            let looked_at = MEMBERS.map(|member| examine(&now.join(member)).expect("it can be read"));
            assert_eq!(sets(&looked_at)[0].start.as_deref(), Ok("starts with all 3"));
            assert_eq!(found(), vec![3; 96], "{member}, {what}: the right one was put back");
        }
    }
    MEMBERS.iter().for_each(|member| put(member, old));
    assert_eq!(found(), vec![1; 96], "all of them are of one stop");
}

/// Every bit of the superblocks of a ring and of the disk, one after the other: one of the two is enough, or the start is refused.
#[test]
fn a_flipped_bit_of_a_superblock_is_refused_or_does_no_harm() {
    let dir = tempfile::tempdir().expect("a directory");
    let kept = &kept_after(&[5, 6], dir.path())[1];
    let now = dir.path().join("now");
    std::fs::create_dir_all(&now).expect("a directory");
    let disk = std::fs::metadata(kept.join("disk.img")).expect("a disk").len();
    let (mut refused, mut right) = (0, 0);
    for (member, page) in
        [("slc.img", 0), ("slc.img", 4096), ("disk.img", disk - 8192), ("disk.img", disk - 4096)]
    {
        // All of its numbers, a bit of each byte in turn, and of the rest some.
        for byte in (0..112).step_by(5).chain([511, 4095]) {
            flipped(kept, &now, member, page as usize * 8 + byte * 8 + byte % 8);
            match Served::try_start(options(&small(), &now)) {
                Ok(server) => {
                    let mut client = server.connect("data");
                    for block in 0..96 {
                        assert_eq!(
                            client.read(block * BLOCK, BLOCK as u32)[0],
                            6,
                            "{member}, {page} + {byte}"
                        );
                    }
                    client.disconnect();
                    server.stop();
                    right += 1;
                }
                Err(error) => {
                    assert_eq!(error.exit_code(), 2, "{error}");
                    refused += 1;
                }
            }
        }
    }
    println!("{refused} refused, {right} right");
    assert!(right > 0);
}

/// The members as they are in `kept`, one bit of `member` flipped.
fn flipped(kept: &Path, now: &Path, member: &str, bit: usize) {
    for member in MEMBERS {
        std::fs::copy(kept.join(member), now.join(member)).expect("a copy");
    }
    let mut bytes = std::fs::read(now.join(member)).expect("a member");
    bytes[bit / 8] ^= 1 << (bit % 8);
    std::fs::write(now.join(member), bytes).expect("a member");
}

/// A flipped bit in any header of a ring, that of the newest group included, is put right: nothing that was flushed is lost.
#[test]
fn a_flipped_bit_of_a_group_header_is_put_right() {
    let dir = tempfile::tempdir().expect("a directory");
    let kept = &kept_after(&[5, 6], dir.path())[1];
    let now = dir.path().join("now");
    std::fs::create_dir_all(&now).expect("a directory");
    let mut mended = 0;
    let member = "slc.img";
    // The newest of the ring, and some before it: each a bit of the magic, of its numbers, of its entries and of its checksum.
    for (n, (group, at)) in headers_of(&kept.join(member)).into_iter().take(4).enumerate() {
        for bit in [3, 77 + n, 24 * 8, 40 * 8 + 1, 69 * 8 + 5, 75 * 8, 4095 * 8 + 7] {
            flipped(kept, &now, member, at * 8 + bit);
            let server = Served::start(options(&small(), &now));
            mended += counter(&server.status(), "headers_repaired");
            let mut client = server.connect("data");
            for block in 0..96 {
                let found = client.read(block * BLOCK, BLOCK as u32)[0];
                assert_eq!(found, 6, "{member}, group {group}, bit {bit}");
            }
            client.disconnect();
            server.stop();
        }
    }
    assert!(mended > 20, "only {mended} headers were mended");
}

/// The groups of a ring with the place of their headers, the newest first.
fn headers_of(member: &Path) -> Vec<(u64, usize)> {
    let bytes = std::fs::read(member).expect("a member");
    let places = (0..bytes.len()).step_by(4096).filter(|&at| bytes[at..].starts_with(b"NanduHY\x01"));
    let group = |at: usize| u64::from_le_bytes(bytes[at + 24..at + 32].try_into().expect("eight"));
    let mut headers: Vec<(u64, usize)> = places.map(|at| (group(at), at)).collect();
    headers.sort_unstable_by(|a, b| b.cmp(a));
    headers
}

/// A header that cannot be put right is missed by those behind it, also by those of its own unit: after a clean end no header of a ring can be
/// damaged so that something old is shown.
#[test]
fn a_damaged_group_header_is_missed() {
    let dir = tempfile::tempdir().expect("a directory");
    let kept = &kept_after(&[5, 6], dir.path())[1];
    let now = dir.path().join("now");
    std::fs::create_dir_all(&now).expect("a directory");
    let (mut refused, mut right) = (0, 0);
    for member in ["slc.img", "mlc.img"] {
        for (group, at) in headers_of(&kept.join(member)).into_iter().take(12) {
            MEMBERS.iter().for_each(|member| {
                std::fs::copy(kept.join(member), now.join(member)).expect("a copy");
            });
            let mut bytes = std::fs::read(now.join(member)).expect("a member");
            bytes[at..at + 40].fill(0xA5);
            std::fs::write(now.join(member), bytes).expect("a member");
            match Served::try_start(options(&small(), &now)) {
                Ok(server) => {
                    let mut client = server.connect("data");
                    for block in 0..96 {
                        let found = client.read(block * BLOCK, BLOCK as u32)[0];
                        assert_eq!(found, 6, "{member}, group {group}, block {block}");
                    }
                    client.disconnect();
                    server.stop();
                    right += 1;
                }
                Err(error) => {
                    assert_eq!(error.exit_code(), 2, "{error}");
                    assert!(error.to_string().contains("missing"), "{error}");
                    refused += 1;
                }
            }
        }
    }
    println!("{refused} refused, {right} right");
    assert!(refused > 1 && right > 0, "{refused} refused, {right} right");
}
