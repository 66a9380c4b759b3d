//! A hybrid disk whose ring lies on a mirror of two SSDs, before a big disk: either SSD may go at any time, and nothing is lost.

mod common;

use common::client::Client;
use common::process::{Process, be_a_server};
use common::stacks::{CACHE, member};
use common::versions::{BLOCK, Knowledge, block_of, stored, version_of, write_randomly};
use common::{Served, options, wait_for};
use nandu_base::Rng;
use nandu_live::{ServeError, ServeOptions, ctl};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// Not a test of its own: what [`Process`] runs.
#[test]
fn the_server_process() {
    be_a_server();
}

const SSD: u64 = 16 << 20;
const DISK: u64 = 64 << 20;
/// Bytes for which the disk has a mark of what the ring may have that it has not.
const REGION: u64 = 1 << 20;

fn stack() -> String {
    stack_with("", "")
}

/// The same with more options of the hybrid disk, each member behind `fault` with these options, or bare without any.
fn stack_with(more: &str, fault: &str) -> String {
    format!(
        "[export.data]\ndevice = \"m\"\n[device.m]\nkind = \"hybrid\"\n{more}slc = \"fast\"\ndisk = \"big\"\n\
         [device.fast]\nkind = \"mirror\"\nlegs = [\"a\", \"b\"]\ninitial_sync = \"assume-clean\"\n{}{}{}",
        member("a", SSD, fault),
        member("b", SSD, fault),
        member("big", DISK, fault)
    )
}

fn ask(server: &Served, command: &str) -> Result<Value, String> {
    let command: ctl::Command = command.parse().expect("a command");
    ctl::send(&server.control, &command).map_err(|error| error.to_string())
}

fn whole(server: &Served) {
    wait_for("the mirror to be whole", || {
        let status = ask(server, "status").expect("a status");
        (status["devices"]["fast"]["health"] == "healthy").then_some(())
    });
}

/// What each block holds.
type Written = BTreeMap<u64, u8>;

fn write_some(client: &mut Client, rng: &mut Rng, written: &mut Written, count: u64) {
    for _ in 0..count {
        let (block, byte) = (rng.below(DISK / BLOCK - 16), rng.below(255) as u8 + 1);
        client.write(block * BLOCK, &[byte; BLOCK as usize]);
        written.insert(block, byte);
    }
    client.flush();
}

fn check(client: &mut Client, written: &Written) {
    for (&block, &byte) in written {
        assert!(client.read(block * BLOCK, BLOCK as u32).iter().all(|&b| b == byte), "block {block}");
    }
}

#[test]
fn either_ssd_may_go_under_load_while_the_ring_is_cleared_and_at_a_start() {
    for seed in 0..2 {
        eprintln!("seed {seed}");
        let mut rng = Rng::new(seed);
        let dir = tempfile::tempdir().expect("a directory");
        let server = Served::start(options(&stack(), dir.path()));
        whole(&server);
        let mut client = Client::connect(&server.socket, "data");
        assert!(client.size > DISK - (1 << 20), "the capacity is that of the disk");
        let mut written = Written::new();
        // More than the ring holds: it is cleared to the disk meanwhile.
        for _ in 0..4 {
            let counts = [rng.below(800) + 800, rng.below(800)];
            write_some(&mut client, &mut rng, &mut written, counts[0]);
            let leg = ["a", "b"][rng.below(2) as usize];
            ask(&server, &format!("fail {leg}")).expect("the other one has everything");
            write_some(&mut client, &mut rng, &mut written, counts[1]);
            check(&mut client, &written);
            ask(&server, &format!("add {leg}")).expect("it is in order");
            write_some(&mut client, &mut rng, &mut written, 200);
            whole(&server);
        }
        let leg = ["a", "b"][rng.below(2) as usize];
        ask(&server, &format!("fail {leg}")).expect("the other one has everything");
        write_some(&mut client, &mut rng, &mut written, 300);
        client.disconnect();
        server.stop();
        // It has died for good: the other one has gone on alone, and starts so.
        std::fs::remove_file(dir.path().join(format!("{leg}.img"))).expect("it is there");
        let again = || ServeOptions { create: false, ..options(&stack(), dir.path()) };
        let server = Served::start(again());
        let mut client = Client::connect(&server.socket, "data");
        check(&mut client, &written);
        ask(&server, &format!("replace {leg} with new.img")).expect("the other one has everything");
        write_some(&mut client, &mut rng, &mut written, 300);
        whole(&server);
        client.disconnect();
        server.stop();
        // Without both nothing is served: what the ring held is newer than the disk.
        for name in ["a.img", "b.img", "new.img"] {
            let _ = std::fs::remove_file(dir.path().join(name));
        }
        match Served::try_start(again()) {
            Err(error @ ServeError::Open { .. }) => {
                assert!(error.to_string().contains("fast is not there"), "{error}");
            }
            Err(error) => panic!("{error}"),
            Ok(_) => panic!("old data are served"),
        }
    }
}

/// A start that makes nothing; `alone`: by an operator's word.
fn start(stack: &str, dir: &Path, alone: bool) -> Result<Served, ServeError> {
    Served::try_start(ServeOptions { create: false, alone, ..options(stack, dir) })
}

/// A device whose ring has one block that the disk has not, after a clean end.
fn with_one_block_in_the_ring(stack: &str, dir: &Path) {
    let server = Served::start(options(stack, dir));
    whole(&server);
    let mut client = Client::connect(&server.socket, "data");
    client.write(0, &block_of(0, 1));
    client.flush();
    client.disconnect();
    server.stop();
}

/// The server dies under load while the ring is cleared to the disk, or the power goes, and one SSD with it: the other one has all that was flushed. A new one takes its
/// place, and may be the one that is left the next time.
#[test]
fn what_was_flushed_is_there_after_a_cut_and_the_loss_of_either_ssd() {
    for fault in ["", CACHE] {
        let stack = stack_with("", fault);
        let dir = tempfile::tempdir().expect("a directory");
        let (blocks, mut rng) = (6000, Rng::new(11));
        let mut known = Knowledge::new(blocks);
        for round in 0..3 {
            let process = Process::start(&stack, dir.path());
            let mut client = Client::connect(&process.socket, "data");
            let many = 5000 + rng.below(3000);
            write_randomly(&mut client, &mut known, &mut rng, blocks, many);
            process.kill();
            let lost = ["a", "b"][rng.below(2) as usize];
            let file = dir.path().join(format!("{lost}.img"));
            std::fs::remove_file(&file).expect("it is there");
            assert!(
                start(&stack, dir.path(), false).is_err(),
                "{lost} may have been newer, for all that the other knows"
            );
            let server = start(&stack, dir.path(), true).unwrap_or_else(|error| panic!("{error}"));
            let mut client = Client::connect(&server.socket, "data");
            known.check_all(&mut client).unwrap_or_else(|wrong| panic!("{wrong}"));
            let disk = std::fs::read(dir.path().join("big.img")).expect("it is there");
            let has_come = |block: u64| {
                version_of(block, &disk[(block * BLOCK) as usize..][..BLOCK as usize])
                    .is_ok_and(|version| version > 0)
            };
            assert!(round == 0 || (0..blocks).any(has_come), "the ring is cleared meanwhile");
            let leaf = if fault.is_empty() { lost.to_string() } else { format!("{lost}-file") };
            let replace = format!("replace {leaf}");
            let why = ask(&server, &replace).expect_err("its file is not there");
            assert!(why.contains("it is not there"), "{why}");
            std::fs::write(&file, vec![0; SSD as usize]).expect("a blank one");
            ask(&server, &replace).expect("the other one has everything");
            whole(&server);
            client.disconnect();
            server.stop();
            known.closed();
        }
    }
}

/// An SSD that was away while the other one went on is old. When that one dies it is not taken for it, unless an operator says so; the log says what is amiss.
#[test]
fn an_ssd_that_was_away_is_taken_for_the_one_that_went_on_by_word_alone() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = Served::start(options(&stack(), dir.path()));
    whole(&server);
    let mut client = Client::connect(&server.socket, "data");
    let write = |client: &mut Client, version| {
        (0..500).for_each(|block| client.write(block * BLOCK, &block_of(block, version)));
        client.flush();
    };
    write(&mut client, 1);
    ask(&server, "fail b").expect("a has everything");
    write(&mut client, 2);
    client.disconnect();
    server.stop();
    let (a, b) = (dir.path().join("a.img"), dir.path().join("b.img"));
    std::fs::rename(&a, dir.path().join("away")).expect("it is there");
    let before = std::fs::read(&b).expect("it is there");
    let refused = start(&stack(), dir.path(), false).err().expect("b is old").to_string();
    assert!(refused.contains("fast is not there") && refused.contains("a.img"), "{refused}");
    assert!(refused.contains("device `fast`: leg `b` was one of a pair"), "{refused}");
    assert!(std::fs::read(&b).expect("it is there") == before, "it was changed");
    // It comes back, and is the one that counts.
    std::fs::rename(dir.path().join("away"), &a).expect("it is there");
    let server = start(&stack(), dir.path(), false).unwrap_or_else(|error| panic!("{error}"));
    let mut client = Client::connect(&server.socket, "data");
    (0..500).for_each(|block| assert_eq!(stored(&mut client, block), 2));
    client.disconnect();
    server.stop();
}

/// Both SSDs are gone for good, with data that the disk has not: the disk goes on by an operator's word, fails what may be old and serves the rest.
#[test]
fn without_both_ssds_the_disk_goes_on_by_word_and_fails_what_may_be_old() {
    let stack = stack_with(&format!("dirty_region_size = {REGION}\n"), "");
    let dir = tempfile::tempdir().expect("a directory");
    with_one_block_in_the_ring(&stack, dir.path());
    for name in ["a.img", "b.img"] {
        std::fs::remove_file(dir.path().join(name)).expect("it is there");
    }
    let refused = start(&stack, dir.path(), false).err().expect("the disk has old data").to_string();
    assert!(refused.contains("something newer of 1 regions of 1 MiB"), "{refused}");
    let server = start(&stack, dir.path(), true).unwrap_or_else(|error| panic!("{error}"));
    assert!(server.said.iter().any(|line| line.contains("GONE")), "{:?}", server.said);
    let mut client = Client::connect(&server.socket, "data");
    assert!(client.call(0, 0, 0, BLOCK as u32, &[]).is_err(), "it may be old");
    assert_eq!(stored(&mut client, REGION / BLOCK), 0, "the ring had nothing of it");
    client.write(0, &block_of(0, 2));
    client.flush();
    assert_eq!(stored(&mut client, 0), 2);
    client.disconnect();
    server.stop();
}

/// The same without a map of regions: a blank mirror takes the place of the lost one by `--salvage`, which says that the ring is gone, and the next start is an ordinary one.
#[test]
fn a_blank_mirror_takes_the_place_of_the_lost_ssds_by_salvage() {
    let dir = tempfile::tempdir().expect("a directory");
    with_one_block_in_the_ring(&stack(), dir.path());
    for name in ["a.img", "b.img"] {
        std::fs::write(dir.path().join(name), vec![0; SSD as usize]).expect("a blank one");
    }
    let disk = std::fs::read(dir.path().join("big.img")).expect("it is there");
    let refused =
        Served::try_start(options(&stack(), dir.path())).err().expect("the ring is lost").to_string();
    assert!(refused.contains("salvage"), "{refused}");
    assert!(std::fs::read(dir.path().join("big.img")).expect("it is there") == disk, "it was changed");
    let server = Served::try_start(ServeOptions { salvage: true, ..options(&stack(), dir.path()) })
        .unwrap_or_else(|error| panic!("{error}"));
    assert!(server.said.iter().any(|line| line.contains("GONE")), "{:?}", server.said);
    let mut client = Client::connect(&server.socket, "data");
    assert_eq!(stored(&mut client, 0), 0, "as the disk has it");
    client.write(0, &block_of(0, 2));
    client.flush();
    client.disconnect();
    server.stop();
    let server = start(&stack(), dir.path(), false).unwrap_or_else(|error| panic!("{error}"));
    assert!(!server.said.iter().any(|line| line.contains("GONE")), "it was said");
    let mut client = Client::connect(&server.socket, "data");
    assert_eq!(stored(&mut client, 0), 2);
    client.disconnect();
    server.stop();
}
