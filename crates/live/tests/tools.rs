//! A mirror over two files, served by a process of its own: the tools of others work on it, a leg dies and comes back,
//! and `kill -9` loses nothing that was flushed.
//!
//! A tool that is not installed skips its test; `NANDU_REQUIRE_TOOLS=1` makes that a failure.

mod common;

use common::client::Client;
use common::process::{Process, be_a_server, have, run};
use common::versions::{BLOCK, Knowledge, block_of, stored, version_of, write_randomly};
use common::wait_for;
use nandu_base::Rng;
use nandu_live::nbd::wire::cmd;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Not a test of its own: what [`Process`] runs.
#[test]
fn the_server_process() {
    be_a_server();
}

const SIZE: u64 = 32 << 20;

fn mirror() -> String {
    let legs = ["a", "b"];
    let legs = legs.map(|i| format!("[device.{i}]\nkind = \"file\"\npath = \"{i}.img\"\nsize = {SIZE}\n"));
    let head = "[export.data]\ndevice = \"m\"\n[device.m]\nkind = \"mirror\"\nlegs = [\"a\", \"b\"]\n\
        region_size = \"64 KiB\"\nbitmap_delay = \"10 ms\"\n";
    format!("{head}{}", legs.concat())
}

fn dir() -> tempfile::TempDir {
    tempfile::tempdir().expect("a directory")
}

/// Both legs are members, nothing is to be copied, and no region may differ.
fn wait_until_clean(process: &Process) {
    for leg in ["leg_a_is_member", "leg_b_is_member"] {
        process.wait_for_counter("m", leg, 1);
    }
    for marks in ["stale_regions", "dirty_regions"] {
        process.wait_for_counter("m", marks, 0);
    }
}

fn counter(process: &Process, name: &str) -> u64 {
    process.status()["devices"]["m"]["counters"][name].as_u64().expect("the mirror counts it")
}

/// The legs are equal where user data lies, which begins at their start.
fn assert_legs_equal(dir: &Path, bytes: u64) {
    let read = |leg: &str| std::fs::read(dir.join(leg)).expect("a leg is a file");
    let (a, b) = (read("a.img"), read("b.img"));
    let differs = (0..bytes as usize).find(|&at| a[at] != b[at]);
    assert_eq!(differs, None, "the legs differ");
}

#[test]
fn qemu_io_writes_reads_back_and_compares() {
    if !have("qemu-io") {
        return;
    }
    let dir = dir();
    let process = Process::start(&mirror(), dir.path());
    let commands = [
        "write -P 0x5a 0 1M",
        "read -P 0x5a 0 1M",
        "write -f -P 0x21 2M 64k",
        "read -P 0x21 2M 64k",
        "aio_write -P 1 4M 256k",
        "aio_write -P 2 5M 256k",
        "aio_flush",
        "read -P 1 4M 256k",
        "read -P 2 5M 256k",
        "discard 256k 256k",
        "read -P 0 256k 256k",
        "read -P 0x5a 512k 512k",
        "write -z 512k 128k",
        "write -z -u 640k 128k",
        "read -P 0 512k 256k",
        "flush",
    ];
    let uri = process.uri();
    let mut args = vec!["-f", "raw"];
    commands.iter().for_each(|command| args.extend(["-c", *command]));
    args.push(&uri);
    let output = run("qemu-io", &args);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(!said.contains("verification failed") && !said.contains("error"), "{said}");
    let bytes = process.status()["exports"][0]["bytes"].as_u64().expect("a size");
    process.stop();
    assert_legs_equal(dir.path(), bytes);
}

#[test]
fn nbdcopy_brings_back_what_it_took() {
    if !have("nbdcopy") || !have("nbdinfo") {
        return;
    }
    let dir = dir();
    let process = Process::start(&mirror(), dir.path());
    let uri = process.uri();
    let info = run("nbdinfo", &[&uri]);
    let info = String::from_utf8_lossy(&info.stdout);
    for line in
        ["can_flush: true", "can_fua: true", "can_trim: true", "can_zero: true", "can_multi_conn: true"]
    {
        assert!(info.contains(line), "{line} in {info}");
    }
    let bytes = process.status()["exports"][0]["bytes"].as_u64().expect("a size");
    let (before, after) = (dir.path().join("before"), dir.path().join("after"));
    std::fs::write(&before, patchy(bytes)).expect("a file");
    run("nbdcopy", &["--connections=4", "--flush", &before.to_string_lossy(), &uri]);
    run("nbdcopy", &["--connections=4", &uri, &after.to_string_lossy()]);
    let same = std::fs::read(&before).expect("it is there") == std::fs::read(&after).expect("it is there");
    assert!(same, "the copy differs");
    process.stop();
    assert_legs_equal(dir.path(), bytes);
}

/// Data, zeros and holes in between.
fn patchy(bytes: u64) -> Vec<u8> {
    let mut rng = Rng::new(7);
    let mut data = vec![0; bytes as usize];
    for block in data.chunks_mut(64 << 10) {
        if rng.below(3) > 0 {
            block.chunks_mut(8).for_each(|word| {
                let bits = rng.bits().to_le_bytes();
                word.copy_from_slice(&bits[..word.len()]);
            });
        }
    }
    data
}

#[test]
fn fio_verifies_what_it_wrote() {
    if !have("fio") {
        return;
    }
    let dir = dir();
    let process = Process::start(&mirror(), dir.path());
    let uri = format!("--uri={}", process.uri());
    let output = format!("--output={}", dir.path().join("fio.txt").display());
    let args =
        ["--name=verify", "--ioengine=nbd", "--rw=randwrite", "--bssplit=4k/60:16k/20:256k/20", "--size=24m"];
    let more = [
        "--iodepth=32",
        "--verify=crc32c",
        "--verify_fatal=1",
        "--do_verify=1",
        "--verify_state_save=0",
        "--fsync=64",
        "--randseed=7",
    ];
    run("fio", &[&args[..], &more[..], &[&uri, &output]].concat());
    process.stop();
}

#[test]
fn kill_9_loses_nothing_that_was_flushed_and_the_legs_become_equal() {
    let dir = dir();
    let mut rng = Rng::new(11);
    let blocks = 2000;
    let mut known = Knowledge::new(blocks);
    for round in 0..4 {
        let process = Process::start(&mirror(), dir.path());
        let mut client = Client::connect(&process.socket, "data");
        let versions: Vec<u64> = (0..blocks).map(|b| stored(&mut client, b)).collect();
        (0..)
            .zip(&versions)
            .for_each(|(block, &found)| known.check(block, found).expect("what was promised"));
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
            break;
        }
        write_randomly(&mut client, &mut known, &mut rng, blocks, 1500 + round * 700);
        process.kill();
    }
}

/// Reads at the same time go to both legs, where both may serve them.
fn read_several(client: &mut Client, rng: &mut Rng, known: &Knowledge, blocks: u64) {
    let mut asked = std::collections::BTreeMap::new();
    let mut said = Vec::new();
    for _ in 0..8 {
        let block = rng.below(blocks);
        asked.insert(client.ask(&mut said, block * BLOCK, BLOCK as u32), block);
    }
    client.stream.write_all(&said).expect("the server listens");
    for _ in 0..8 {
        let (cookie, outcome) = client.receive();
        let block = asked[&cookie];
        let found = version_of(block, &outcome.expect("a read works")).expect("a whole block");
        assert_eq!(found, known.sent[block as usize], "block {block} is stale");
    }
}

#[test]
fn a_leg_that_dies_and_comes_back_is_brought_up_to_date_by_the_difference() {
    let dir = dir();
    // The resync is slow enough for reads to meet it.
    let stack = mirror()
        .replace("[device.a]", "resync_rate = \"8 MiB\"\ninitial_sync = \"assume-clean\"\n[device.a]");
    let process = Process::start(&stack, dir.path());
    wait_until_clean(&process);
    let before = counter(&process, "resync_regions");
    let (stop, written) = (AtomicBool::new(false), AtomicU64::new(0));
    let bytes = std::thread::scope(|scope| {
        let client = scope.spawn(|| {
            let mut client = Client::connect(&process.socket, "data");
            let mut rng = Rng::new(3);
            // The first sixteenth of the device: the difference stays small.
            let blocks = client.size / BLOCK / 16;
            let mut known = Knowledge::new(blocks);
            while !stop.load(Ordering::Relaxed) {
                let block = rng.below(blocks);
                let version = known.next(block);
                client.write(block * BLOCK, &block_of(block, version));
                read_several(&mut client, &mut rng, &known, blocks);
                if rng.below(20) == 0 {
                    client.flush();
                }
                written.fetch_add(1, Ordering::Relaxed);
            }
            for block in 0..blocks {
                let found = stored(&mut client, block);
                assert_eq!(found, known.sent[block as usize], "block {block}");
            }
            client.flush();
            client.size
        });
        let more = |count: u64| {
            let goal = written.load(Ordering::Relaxed) + count;
            wait_for("more writes", || {
                (written.load(Ordering::Relaxed) >= goal || client.is_finished()).then_some(())
            });
        };
        more(200);
        process.ctl("fail b");
        process.wait_for_counter("m", "leg_b_is_member", 0);
        more(200);
        assert_eq!(process.status()["devices"]["b"]["state"], "faulty");
        process.ctl("add b");
        process.wait_for_counter("m", "leg_b_is_member", 1);
        more(200);
        // The other leg, which leads, in its turn.
        process.wait_for_counter("m", "stale_regions", 0);
        process.ctl("fail a");
        process.wait_for_counter("m", "leg_a_is_member", 0);
        more(200);
        process.ctl("add a");
        process.wait_for_counter("m", "leg_a_is_member", 1);
        more(50);
        stop.store(true, Ordering::Relaxed);
        client.join().expect("the client found all it wrote")
    });
    wait_until_clean(&process);
    let copied = counter(&process, "resync_regions") - before;
    let all = bytes.div_ceil(64 << 10);
    assert!(copied > 0 && copied < all, "{copied} regions were copied, the device has {all}");
    process.stop();
    assert_legs_equal(dir.path(), bytes);
}

#[test]
fn a_mirror_starts_without_a_leg_only_when_told_and_takes_it_back() {
    let dir = dir();
    let process = Process::start(&mirror(), dir.path());
    let mut client = Client::connect(&process.socket, "data");
    client.write(0, &block_of(0, 1));
    client.disconnect();
    wait_until_clean(&process);
    process.stop();
    std::fs::rename(dir.path().join("b.img"), dir.path().join("away")).expect("it can be moved");
    let start = |alone: bool| {
        let options = common::options(&mirror(), dir.path());
        common::Served::try_start(nandu_live::ServeOptions { alone, create: false, ..options })
    };
    let refused = start(false).err().expect("the other leg may hold newer data");
    assert!(refused.to_string().contains("b.img"), "{refused}");
    let served = start(true).unwrap_or_else(|error| panic!("{error}"));
    let mut client = served.connect("data");
    assert_eq!(stored(&mut client, 0), 1);
    client.write(0, &block_of(0, 2));
    client.flush();
    assert_eq!(served.status()["devices"]["b"]["state"], "missing");
    std::fs::rename(dir.path().join("away"), dir.path().join("b.img")).expect("it can be moved");
    let add = "add b".parse().expect("a command");
    nandu_live::ctl::send(&served.control, &add).expect("it is there again");
    wait_for("the leg to be equal", || {
        let counters = &served.status()["devices"]["m"]["counters"];
        (counters["leg_b_is_member"] == 1 && counters["dirty_regions"] == 0).then_some(())
    });
    let bytes = client.size;
    drop(client);
    served.stop();
    assert_legs_equal(dir.path(), bytes);
}

/// Where a file has holes an export of it, of a part of it, and of a mirror of it says so; what is cached reads right.
#[test]
fn holes_of_files_are_told_and_a_hint_to_cache_changes_nothing() {
    if !have("nbdinfo") {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let leaf =
        |name: &str| format!("[device.{name}]\nkind = \"file\"\npath = \"{name}.img\"\nsize = \"8 MiB\"\n");
    let stack = format!(
        "[export.data]\ndevice = \"one\"\n[export.part]\ndevice = \"part\"\n[export.both]\ndevice = \"m\"\n\
         [export.striped]\ndevice = \"s\"\n\
         [device.part]\nkind = \"slice\"\nbelow = \"e\"\noffset = \"1 MiB\"\n\
         [device.m]\nkind = \"mirror\"\nlegs = [\"a\", \"b\"]\ninitial_sync = \"assume-clean\"\n\
         [device.s]\nkind = \"stripe\"\nlegs = [\"c\", \"d\"]\n{}{}{}{}{}{}",
        leaf("one"),
        leaf("a"),
        leaf("b"),
        leaf("c"),
        leaf("d"),
        leaf("e")
    );
    let server = Process::start(&stack, dir.path());
    for export in ["data", "part", "both", "striped"] {
        let mut client = Client::connect(&server.socket, export);
        client.write(2 << 20, &[5; 64 << 10]);
        assert_ne!(client.flags & (1 << 10), 0, "a hint to cache is offered");
        assert_eq!(client.flags & (1 << 11), 0, "fast zeroes are not");
        client.call(cmd::CACHE, 0, 0, 4 << 20, &[]).expect("a hint is taken");
        assert_eq!(client.read(2 << 20, 64 << 10), vec![5; 64 << 10]);
        client.disconnect();
    }
    let map = |export: &str| -> Vec<(u64, u64, u64)> {
        let uri = format!("nbd+unix:///{export}?socket={}", server.socket.display());
        let said = run("nbdinfo", &["--json", "--map", &uri]).stdout;
        let said: serde_json::Value = serde_json::from_slice(&said).expect("JSON");
        let number = |v: &serde_json::Value| v.as_u64().expect("a number");
        let parts = said.as_array().expect("a list");
        parts.iter().map(|p| (number(&p["offset"]), number(&p["length"]), number(&p["type"]))).collect()
    };
    let (hole, data) = (3, 0);
    for export in ["data", "part", "both"] {
        let map = map(export);
        assert_eq!(map[..2], [(0, 2 << 20, hole), (2 << 20, 64 << 10, data)], "{export}");
        assert!(map.len() == 3 && map[2].2 == hole, "{export}: {map:?}");
    }
    assert_eq!(map("striped").iter().map(|part| part.2).max(), Some(data), "nothing is known of it");
    server.stop();
}

/// A server of others that is our client: what its clients write comes here, and comes back.
#[test]
fn nbdkit_serves_what_it_gets_from_us() {
    if !["nbdkit", "nbdcopy", "qemu-io"].into_iter().all(have) {
        return;
    }
    let dir = dir();
    let process = Process::start(&mirror(), dir.path());
    let ours = format!("uri={}", process.uri());
    let (before, after) = (dir.path().join("before"), dir.path().join("after"));
    let bytes = process.status()["exports"][0]["bytes"].as_u64().expect("a size");
    std::fs::write(&before, patchy(bytes)).expect("a file");
    let line = format!(
        "nbdcopy --flush '{}' \"$uri\" && nbdcopy \"$uri\" '{}' && qemu-io -f raw -c 'write -P 9 64k 64k' -c 'write -z 128k 64k' -c flush \
         -c 'read -P 9 64k 64k' -c 'read -P 0 128k 64k' \"$uri\"",
        before.display(),
        after.display()
    );
    // checkwrite compares all that is written with what is there; the others pass everything on.
    let output = run(
        "nbdkit",
        &[
            "--exit-with-parent",
            "-U",
            "-",
            "--filter=log",
            "--filter=stats",
            "nbd",
            &ours,
            "logfile=/dev/null",
            "statsfile=/dev/null",
            "--run",
            &line,
        ],
    );
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(!said.contains("verification failed") && !said.contains("error"), "{said}");
    assert!(std::fs::read(&before).expect("it is there") == std::fs::read(&after).expect("it is there"));
    let mut client = Client::connect(&process.socket, "data");
    assert_eq!(client.read(64 << 10, 64 << 10), vec![9; 64 << 10]);
    assert_eq!(client.read(128 << 10, 64 << 10), vec![0; 64 << 10]);
    client.disconnect();
    let check = ["--exit-with-parent", "-U", "-", "--filter=checkwrite", "nbd", &ours, "--run"];
    // What was copied is not what is there any more, and the filter says so; what is there passes.
    let now = format!("nbdcopy \"$uri\" '{}'", after.display());
    run("nbdkit", &[&check[..], &[&now]].concat());
    let same = format!("nbdcopy '{}' \"$uri\"", after.display());
    run("nbdkit", &[&check[..], &[&same]].concat());
    process.stop();
    assert_legs_equal(dir.path(), bytes);
}
