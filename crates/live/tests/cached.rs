//! A hybrid disk whose ring lies on a mirror of two SSDs, before a big disk: either SSD may go at any time, and nothing is lost.

mod common;

use common::client::Client;
use common::{Served, options, wait_for};
use nandu_base::Rng;
use nandu_live::{ServeError, ServeOptions, ctl};
use serde_json::Value;
use std::collections::BTreeMap;

const SSD: u64 = 16 << 20;
const DISK: u64 = 64 << 20;
const BLOCK: u64 = 4096;

fn stack() -> String {
    let leaf = |name: &str, size: u64| {
        format!("[device.{name}]\nkind = \"file\"\npath = \"{name}.img\"\nsize = {size}\n")
    };
    format!(
        "[export.data]\ndevice = \"m\"\n[device.m]\nkind = \"hybrid\"\nslc = \"fast\"\ndisk = \"big\"\n\
         [device.fast]\nkind = \"mirror\"\nlegs = [\"a\", \"b\"]\ninitial_sync = \"assume-clean\"\n{}{}{}",
        leaf("a", SSD),
        leaf("b", SSD),
        leaf("big", DISK)
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
