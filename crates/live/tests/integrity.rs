//! Legs with checksums under a server: what a file returns wrong is never handed out, and mended from the other legs.

mod common;

use common::client::Client;
use common::{Served, options, wait_for};
use nandu_live::examine::{examine, sets};
use nandu_live::{ServeOptions, ctl};
use std::path::Path;

const BLOCK: usize = 4096;
const BLOCKS: u64 = 64;
const LEG: u64 = 4 << 20;

fn stack(kind: &str, own: &str, legs: &[&str]) -> String {
    let leg = |name: &&str| {
        format!(
            "[device.{name}]\nkind = \"integrity\"\nbelow = \"file-{name}\"\n\
             [device.file-{name}]\nkind = \"file\"\npath = \"{name}.img\"\nsize = {LEG}\n"
        )
    };
    let below: String = legs.iter().map(leg).collect();
    format!("[export.data]\ndevice = \"m\"\n[device.m]\nkind = \"{kind}\"\nlegs = {legs:?}\n{own}{below}")
}

fn content(block: u64) -> Vec<u8> {
    (0..BLOCK).map(|i| (block * 7 + i as u64 % 251) as u8).collect()
}

fn check(server: &Served, why: &str) {
    let mut client = Client::connect(&server.socket, "data");
    for block in 0..BLOCKS {
        assert!(client.read(block * BLOCK as u64, BLOCK as u32) == content(block), "{why}: block {block}");
    }
    client.disconnect();
}

fn mismatches(server: &Served, leg: &str) -> u64 {
    server.status()["devices"][leg]["counters"]["mismatched_blocks"].as_u64().expect("a count")
}

fn start(stack: &str, dir: &Path, create: bool) -> Served {
    Served::start(ServeOptions { create, ..options(stack, dir) })
}

/// Turns one bit of every third block of a file that holds something, below `end`; how many.
fn rot(file: &Path, end: u64) -> u64 {
    let mut bytes = std::fs::read(file).expect("a leg is a file");
    let mut turned = 0;
    for block in (0..end as usize / BLOCK).step_by(3) {
        let at = block * BLOCK;
        if bytes[at..at + BLOCK].iter().any(|&b| b != 0) {
            bytes[at + block * 97 % BLOCK] ^= 1 << (block % 8);
            turned += 1;
        }
    }
    std::fs::write(file, bytes).expect("it is ours");
    turned
}

#[test]
fn flipped_bits_of_any_one_leg_are_read_right_and_mended() {
    let kinds: [(&str, &str, &[&str]); 3] = [
        ("mirror", "initial_sync = \"assume-clean\"\nregion_size = \"64 KiB\"\n", &["a", "b"]),
        ("hetero-mirror", "initial_sync = \"assume-clean\"\nregion_size = \"64 KiB\"\n", &["a", "b"]),
        (
            "parity",
            "initial_sync = \"assume-clean\"\nchunk = \"16 KiB\"\njournal_size = \"320 KiB\"\n",
            &["a", "b", "c"],
        ),
    ];
    for (kind, own, legs) in kinds {
        let stack = stack(kind, own, legs);
        let dir = tempfile::tempdir().expect("a directory");
        let server = start(&stack, dir.path(), true);
        let mut client = Client::connect(&server.socket, "data");
        for block in 0..BLOCKS {
            client.write(block * BLOCK as u64, &content(block));
        }
        client.flush();
        client.disconnect();
        server.stop();
        // Below checksums a leg ends earlier, and its records are found there.
        let paths = legs.iter().map(|leg| dir.path().join(format!("{leg}.img")));
        let looked_at: Vec<_> = paths.map(|path| examine(&path).expect("it can be read")).collect();
        assert!(looked_at.iter().all(|one| one.checksums.is_some_and(|(_, data)| data.0 < LEG)));
        let set = &sets(&looked_at)[0];
        assert!((set.found.len(), set.start.is_ok()) == (legs.len(), true), "{set:?}");
        for leg in legs {
            let file = dir.path().join(format!("{leg}.img"));
            let turned = rot(&file, BLOCKS * BLOCK as u64);
            assert!(turned > 8, "{kind}: {leg} holds only {turned} blocks");
            let server = start(&stack, dir.path(), false);
            check(&server, &format!("{kind} with {leg} damaged"));
            // A scrub finds what no read has met, and mends it: it knows which side is right.
            ctl::send(&server.control, &"scrub m repair".parse().expect("a command")).expect("it is idle");
            wait_for("the scrub to end", || {
                (server.status()["devices"]["m"]["counters"]["scrub_is_active"] == 0).then_some(())
            });
            assert!(mismatches(&server, leg) >= turned, "{kind}: {leg} has noticed all");
            assert_eq!(server.status()["devices"]["m"]["counters"]["scrub_differing_blocks"], 0, "{kind}");
            server.stop();
            let server = start(&stack, dir.path(), false);
            check(&server, &format!("{kind} after {leg} was mended"));
            assert_eq!(mismatches(&server, leg), 0, "{kind}: {leg} is whole again");
            server.stop();
        }
    }
}

#[test]
fn a_single_device_fails_a_damaged_block_and_serves_the_others() {
    let stack = "[export.data]\ndevice = \"i\"\n[device.i]\nkind = \"integrity\"\nbelow = \"f\"\n\
                 [device.f]\nkind = \"file\"\npath = \"a.img\"\nsize = \"4 MiB\"\n";
    let dir = tempfile::tempdir().expect("a directory");
    let server = start(stack, dir.path(), true);
    let mut client = Client::connect(&server.socket, "data");
    for block in 0..BLOCKS {
        client.write(block * BLOCK as u64, &content(block));
    }
    client.disconnect();
    server.stop();
    rot(&dir.path().join("a.img"), BLOCK as u64);
    let server = start(stack, dir.path(), false);
    let mut client = Client::connect(&server.socket, "data");
    const READ: u16 = 0;
    let damaged = client.call(READ, 0, 0, BLOCK as u32, &[]);
    assert!(format!("{damaged:?}").contains('5'), "EIO: {damaged:?}");
    assert!(client.read(BLOCK as u64, BLOCK as u32) == content(1));
    client.write(0, &content(0));
    assert!(client.read(0, BLOCK as u32) == content(0));
    client.disconnect();
    server.stop();
}
