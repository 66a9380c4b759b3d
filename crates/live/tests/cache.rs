//! A block cache, served: hits come from memory, memory is bounded, and what was flushed outlives the process.
//!
//! A tool that is not installed skips its test; `NANDU_REQUIRE_TOOLS=1` makes that a failure.

mod common;

use common::client::Client;
use common::process::{Process, be_a_server, have, run};
use common::script::{Device, pattern, play, random};
use common::{Served, options};
use serde_json::Value;
use std::path::Path;

/// Not a test of its own: what [`Process`] runs.
#[test]
fn the_server_process() {
    be_a_server();
}

const MIB: u64 = 1 << 20;

/// A cache over a file of `size` bytes, or over a mirror of two of either kind.
fn stack(below: &str, size: u64, options: &str) -> String {
    let file =
        |name: &str| format!("[device.{name}]\nkind = \"file\"\npath = \"{name}.img\"\nsize = {size}\n");
    let devices = match below {
        "file" => file("disk"),
        "mirror" | "hetero-mirror" => {
            format!("[device.disk]\nkind = \"{below}\"\nlegs = [\"a\", \"b\"]\n{}{}", file("a"), file("b"))
        }
        other => panic!("no `{other}`"),
    };
    format!(
        "[export.data]\ndevice = \"cache\"\n[device.cache]\nkind = \"cache\"\nbelow = \"disk\"\n{options}\n{devices}"
    )
}

const THROUGH: &str = "size = \"8 MiB\"\nprefetch = { kind = \"segment\", segment_size = \"32 KiB\" }";
const BACK: &str = "size = \"8 MiB\"\nwrite = { kind = \"writeback\", dirty_expire = \"1 h\" }";

fn dir() -> tempfile::TempDir {
    tempfile::tempdir().expect("a directory")
}

fn counter(status: &Value, name: &str) -> u64 {
    status["devices"]["cache"]["counters"][name].as_u64().unwrap_or_else(|| panic!("the cache counts {name}"))
}

/// The file changes behind the server's back: what is read again is what was read first, so it comes from memory.
#[test]
fn a_hit_is_answered_from_memory() {
    let dir = dir();
    let served = Served::start(options(&stack("file", 64 * MIB, THROUGH), dir.path()));
    let mut client = served.connect("data");
    let data = pattern(0, 4 * MIB as u32, 7);
    client.write(0, &data);
    client.flush();
    assert!(client.read(0, 4 * MIB as u32) == data);
    let before = served.status();
    let other = vec![0x5a; 4 * MIB as usize];
    write_file(&dir.path().join("disk.img"), &other);
    assert!(client.read(0, 4 * MIB as u32) == data, "every block was in memory");
    let after = served.status();
    assert_eq!(counter(&after, "device_reads"), counter(&before, "device_reads"));
    assert_eq!(counter(&after, "cache_hits") - counter(&before, "cache_hits"), 1024);
    client.disconnect();
    served.stop();
}

fn write_file(path: &Path, data: &[u8]) {
    use std::io::{Seek, SeekFrom, Write};
    let mut file = std::fs::OpenOptions::new().write(true).open(path).expect("the file is there");
    file.seek(SeekFrom::Start(0)).expect("it has a start");
    file.write_all(data).expect("it can be written");
}

/// Blocks share the buffer of the read or write that brought them, and are moved when that takes more than twice what they take: whatever
/// comes in whatever lengths, and whatever goes of it, the server keeps at most twice the memory of the cache for them.
#[test]
fn memory_is_bounded_by_twice_the_cache() {
    let dir = dir();
    let served = Served::start(options(&stack("file", 64 * MIB, THROUGH), dir.path()));
    let mut client = served.connect("data");
    let mut rng = nandu_base::Rng::new(5);
    for round in 0..400 {
        let len = 4096 << rng.below(8);
        let at = rng.below(64 * MIB / len) * len;
        if rng.below(2) == 0 {
            client.write(at, &pattern(at, len as u32, round));
        } else {
            client.read(at, len as u32);
        }
        let status = served.status();
        let (cached, kept) = (counter(&status, "cached_bytes"), counter(&status, "data_bytes"));
        assert!(cached <= 8 * MIB, "seed 5, round {round}: {cached} bytes are cached");
        assert!(kept <= 2 * cached, "seed 5, round {round}: {kept} bytes for {cached}");
    }
    // Of each long write one block stays.
    for (round, at) in (0..64 * MIB).step_by(MIB as usize).enumerate() {
        client.write(at, &pattern(at, MIB as u32, round as u64));
        client.trim(at + 4096, MIB as u32 - 4096, false);
        let status = served.status();
        let (cached, kept) = (counter(&status, "cached_bytes"), counter(&status, "data_bytes"));
        assert!(kept <= 2 * cached, "long write {round}: {kept} bytes for {cached}");
    }
    assert!(counter(&served.status(), "data_blocks_moved") > 0);
    client.disconnect();
    served.stop();
}

#[test]
fn random_scripts_read_what_they_wrote() {
    for (seed, (below, options_of_cache)) in [
        ("file", THROUGH),
        ("file", BACK),
        ("mirror", THROUGH),
        ("mirror", BACK),
        ("hetero-mirror", THROUGH),
        ("hetero-mirror", BACK),
    ]
    .into_iter()
    .enumerate()
    {
        let dir = dir();
        let served = Served::start(options(&stack(below, 32 * MIB, options_of_cache), dir.path()));
        let mut client = served.connect("data");
        let size = client.size.min(24 * MIB);
        play(&random(seed as u64, 300, size), &mut client, size);
        client.disconnect();
        served.stop();
    }
}

/// Write-back acknowledges from memory; a flush brings it into the file, where a killed process leaves it.
#[test]
fn what_was_flushed_outlives_a_killed_server_with_write_back() {
    for below in ["file", "mirror", "hetero-mirror"] {
        let dir = dir();
        let text = stack(below, 32 * MIB, BACK);
        let process = Process::start(&text, dir.path());
        let mut client = Client::connect(&process.socket, "data");
        let (old, new) = (pattern(0, MIB as u32, 1), pattern(0, MIB as u32, 2));
        client.write(0, &old);
        assert_eq!(counter(&process.status(), "dirty_blocks"), 256, "{below}: it is in memory only");
        client.flush();
        assert_eq!(counter(&process.status(), "dirty_blocks"), 0);
        client.write(0, &new);
        assert!(client.read(0, MIB as u32) == new);
        process.kill();
        let process = Process::start(&text, dir.path());
        let mut client = Client::connect(&process.socket, "data");
        let found = client.read(0, MIB as u32);
        let blocks = found.chunks(4096).zip(old.chunks(4096)).zip(new.chunks(4096));
        assert!(blocks.into_iter().all(|((f, o), n)| f == o || f == n), "{below}: a block was lost");
        client.disconnect();
        process.stop();
    }
}

#[test]
fn qemu_io_reads_twice_and_the_device_once() {
    if !have("qemu-io") {
        return;
    }
    let dir = dir();
    let process = Process::start(&stack("file", 64 * MIB, THROUGH), dir.path());
    let uri = process.uri();
    let go = |commands: &[&str]| {
        let mut args = vec!["-f", "raw"];
        commands.iter().for_each(|command| args.extend(["-c", *command]));
        args.push(&uri);
        let said = String::from_utf8_lossy(&run("qemu-io", &args).stdout).into_owned();
        assert!(!said.contains("verification failed") && !said.contains("error"), "{said}");
    };
    go(&["write -P 0x5a 0 1M", "flush", "read -P 0x5a 0 1M", "read -P 0 16M 1M"]);
    let before = process.status();
    go(&["read -P 0x5a 0 1M", "read -P 0 16M 1M", "read -P 0x5a 12k 4k"]);
    let after = process.status();
    assert_eq!(counter(&after, "device_reads"), counter(&before, "device_reads"));
    assert_eq!(counter(&after, "cache_hits") - counter(&before, "cache_hits"), 256 + 256 + 1);
    process.stop();
}

/// 4 MiB in random order, twice, in 8 MiB of memory: each segment is read once below, whatever fio does with it.
#[test]
fn fio_reads_each_segment_once() {
    if !have("fio") {
        return;
    }
    let dir = dir();
    let process = Process::start(&stack("file", 64 * MIB, THROUGH), dir.path());
    let uri = format!("--uri={}", process.uri());
    let output = format!("--output={}", dir.path().join("fio.txt").display());
    let args = ["--name=hits", "--ioengine=nbd", "--rw=randread", "--bs=4k", "--size=4m", "--loops=2"];
    run("fio", &[&args[..], &["--iodepth=16", "--randseed=7", &uri, &output]].concat());
    let status = process.status();
    assert_eq!(counter(&status, "device_read_bytes"), 4 * MIB);
    let hits = ["cache_hits", "prefetch_hits", "prefetch_hits_late"].map(|name| counter(&status, name));
    let missed = counter(&status, "misses") + counter(&status, "merged_misses");
    assert_eq!((hits.iter().sum::<u64>() + missed, counter(&status, "misses")), (2048, 128));
    process.stop();
}

#[test]
fn fio_verifies_through_write_back() {
    if !have("fio") {
        return;
    }
    let dir = dir();
    let process = Process::start(&stack("file", 64 * MIB, BACK), dir.path());
    let uri = format!("--uri={}", process.uri());
    let output = format!("--output={}", dir.path().join("fio.txt").display());
    let args =
        ["--name=verify", "--ioengine=nbd", "--rw=randwrite", "--bssplit=4k/60:16k/20:256k/20", "--size=24m"];
    let more = ["--iodepth=32", "--verify=crc32c", "--verify_fatal=1", "--do_verify=1"];
    let rest = ["--verify_state_save=0", "--fsync=64", "--randseed=7", &uri, &output];
    run("fio", &[&args[..], &more[..], &rest[..]].concat());
    process.stop();
}
