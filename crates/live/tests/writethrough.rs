//! A hybrid disk whose ring holds copies only (`cache_mode = "writethrough"`), on files: the SSD goes under load, while the ring is cleared, between two starts and with the
//! process; clients see nothing of it, and the status, the log and the hook say it.

mod common;

use common::client::Client;
use common::process::{PLAIN, Process, be_a_server};
use common::stacks::{CACHE, member};
use common::versions::{BLOCK, Knowledge, write_randomly};
use common::{Served, options, wait_for};
use nandu_base::Rng;
use nandu_live::examine::{examine, sets};
use nandu_live::{ServeError, ServeOptions, ctl};
use serde_json::Value;
use std::collections::BTreeMap;

/// Not a test of its own: what [`Process`] runs.
#[test]
fn the_server_process() {
    be_a_server();
}

const SSD: u64 = 4 << 20;
const DISK: u64 = 32 << 20;
/// Blocks that are used: more than the ring holds.
const BLOCKS: u64 = 2048;

fn stack() -> String {
    behind("")
}

/// The same, each member behind `fault` with these options, or bare without any. The disk, to which clients' blocks go as they come, writes each as a
/// whole: a cut would else tear those that are not flushed.
fn behind(fault: &str) -> String {
    format!(
        "[export.data]\ndevice = \"m\"\n[device.m]\nkind = \"hybrid\"\ncache_mode = \"writethrough\"\nslc = \"ssd\"\ndisk = \"big\"\n\
         promote = \"always\"\nappend_idle = \"1 ms\"\n{}{}sector = \"4 KiB\"\n",
        member("ssd", SSD, fault),
        member("big", DISK, fault)
    )
}

fn ask(server: &Served, command: &str) -> Result<Value, String> {
    let command: ctl::Command = command.parse().expect("a command");
    ctl::send(&server.control, &command).map_err(|error| error.to_string())
}

fn status(server: &Served) -> Value {
    ask(server, "status").expect("a status")["devices"]["m"].clone()
}

fn health(server: &Served, want: &str) {
    wait_for(want, || (status(server)["health"] == want).then_some(()));
}

fn figure(server: &Served, name: &str) -> u64 {
    let status = status(server);
    status["counters"][name].as_u64().unwrap_or_else(|| panic!("{name} in {status}"))
}

/// What each block holds, and who wrote it.
struct Blocks {
    rng: Rng,
    written: BTreeMap<u64, u8>,
}

impl Blocks {
    /// Writes and reads; every answer is judged.
    fn use_some(&mut self, client: &mut Client, count: u64) {
        for _ in 0..count {
            let block = self.rng.below(BLOCKS);
            if self.rng.below(3) == 0 {
                let byte = self.rng.below(255) as u8 + 1;
                client.write(block * BLOCK, &[byte; BLOCK as usize]);
                self.written.insert(block, byte);
            } else {
                self.look_at(client, block);
            }
        }
    }

    fn look_at(&self, client: &mut Client, block: u64) {
        let byte = self.written.get(&block).copied().unwrap_or(0);
        assert!(client.read(block * BLOCK, BLOCK as u32).iter().all(|&b| b == byte), "block {block}");
    }

    fn check(&self, client: &mut Client) {
        (0..BLOCKS).for_each(|block| self.look_at(client, block));
    }
}

#[test]
fn the_ssd_may_go_at_any_time_and_another_one_takes_its_place() {
    for seed in 0..2 {
        eprintln!("seed {seed}");
        let mut blocks = Blocks { rng: Rng::new(seed), written: BTreeMap::new() };
        let dir = tempfile::tempdir().expect("a directory");
        let ssd = dir.path().join("ssd.img");
        let events = dir.path().join("events.txt");
        let on_change = Some(format!("echo $NANDU_EVENT $NANDU_DEVICE $NANDU_LEG >> {}", events.display()));
        let server = Served::start(ServeOptions { on_change, ..options(&stack(), dir.path()) });
        assert_eq!(status(&server)["health"], "healthy");
        let mut client = Client::connect(&server.socket, "data");
        assert!(client.size > DISK - (1 << 20), "the capacity is that of the disk");
        for turn in 0..4 {
            blocks.use_some(&mut client, 3000);
            ask(&server, "fail ssd").expect("nothing rests on it");
            health(&server, "degraded");
            blocks.use_some(&mut client, 500);
            client.flush();
            blocks.check(&mut client);
            if turn == 2 {
                std::fs::remove_file(&ssd).expect("it is there");
                assert!(ask(&server, "add ssd").is_err(), "it is not there");
                ask(&server, "replace ssd with new.img").expect("it takes a blank one");
            } else {
                ask(&server, "add ssd").expect("it is of this set");
            }
            health(&server, "healthy");
        }
        for event in ["degraded m", "left-out m ssd", "used-again m ssd", "healthy m"] {
            wait_for(event, || {
                std::fs::read_to_string(&events).ok()?.lines().any(|line| line.trim() == event).then_some(())
            });
        }
        blocks.use_some(&mut client, 2000);
        assert!(figure(&server, "slc_hits") > 100 && figure(&server, "slc_collections") > 0);
        assert!(figure(&server, "ring_departures") >= 4);
        client.disconnect();
        server.stop();
        std::fs::rename(dir.path().join("new.img"), &ssd).expect("it is there");
        let starts = |names: &[&str]| {
            let all: Vec<_> =
                names.iter().map(|name| examine(&dir.path().join(name)).expect("it can be read")).collect();
            sets(&all).remove(0).start
        };
        assert_eq!(starts(&["ssd.img", "big.img"]), Ok("starts with all 2".into()));
        assert!(starts(&["big.img"]).is_ok_and(|how| how.contains("which has all data")));
        assert!(starts(&["ssd.img"]).is_err_and(|why| why.contains("is not there")));
        // A clean end: the cache is warm. Then the SSD is away for a session, and comes back as it was.
        let again = || ServeOptions { create: false, ..options(&stack(), dir.path()) };
        let server = Served::start(again());
        let mut client = Client::connect(&server.socket, "data");
        blocks.check(&mut client);
        // Each block was read once: a ring that begins empty answers none of them.
        assert!(figure(&server, "slc_hits") > 0, "it is warm");
        client.disconnect();
        server.stop();
        let away = dir.path().join("away.img");
        std::fs::rename(&ssd, &away).expect("it is there");
        let server = Served::start(again());
        assert_eq!(status(&server)["health"], "degraded");
        assert!(server.said.iter().any(|line| line.contains("m: degraded")), "{:?}", server.said);
        let mut client = Client::connect(&server.socket, "data");
        blocks.use_some(&mut client, 1000);
        client.disconnect();
        server.stop();
        std::fs::rename(&away, &ssd).expect("it is there");
        assert!(starts(&["ssd.img", "big.img"]).is_ok_and(|how| how.contains("the cache begins empty")));
        let server = Served::start(again());
        let mut client = Client::connect(&server.socket, "data");
        blocks.check(&mut client);
        assert_eq!(status(&server)["health"], "healthy");
        client.disconnect();
        server.stop();
        // The disk alone has everything, at its own addresses.
        let disk = std::fs::read(dir.path().join("big.img")).expect("it is there");
        for (&block, &byte) in &blocks.written {
            let at = (block * BLOCK) as usize;
            assert!(disk[at..at + BLOCK as usize].iter().all(|&b| b == byte), "block {block} of the disk");
        }
        std::fs::remove_file(dir.path().join("big.img")).expect("it is there");
        match Served::try_start(again()) {
            Err(error @ ServeError::Open { .. }) => {
                assert!(error.to_string().contains("big is not there"), "{error}")
            }
            Err(error) => panic!("{error}"),
            Ok(_) => panic!("nothing is served without the disk"),
        }
    }
}

#[test]
fn a_strange_or_blank_ssd_is_left_out_and_said() {
    let dir = tempfile::tempdir().expect("a directory");
    let other = tempfile::tempdir().expect("a directory");
    for at in [dir.path(), other.path()] {
        let server = Served::start(options(&stack(), at));
        let mut client = Client::connect(&server.socket, "data");
        client.write(0, &[7; BLOCK as usize]);
        client.disconnect();
        server.stop();
    }
    let ssd = dir.path().join("ssd.img");
    let again = || ServeOptions { create: false, ..options(&stack(), dir.path()) };
    std::fs::copy(other.path().join("ssd.img"), &ssd).expect("it can be copied");
    let was = std::fs::read(&ssd).expect("it is there");
    for blank in [false, true] {
        if blank {
            std::fs::write(&ssd, vec![0; SSD as usize]).expect("it can be written");
        }
        let server = Served::start(again());
        assert_eq!(status(&server)["health"], "degraded");
        let mut client = Client::connect(&server.socket, "data");
        assert_eq!(client.read(0, BLOCK as u32), [7; BLOCK as usize]);
        client.disconnect();
        if !blank {
            let why = ask(&server, "add ssd").expect_err("it is of another set");
            assert!(why.contains("does not take `ssd`"), "{why}");
            server.stop();
            assert!(std::fs::read(&ssd).expect("it is there") == was, "it was written to");
            continue;
        }
        ask(&server, "fail ssd").ok();
        ask(&server, "replace ssd").expect("a blank one may take its place");
        health(&server, "healthy");
        server.stop();
    }
}

/// The server dies under load, or the power goes, and its SSD is gone, as it was at the last start, or in order at the next one: what was flushed is there each time.
#[test]
fn what_was_flushed_is_there_after_a_cut_whatever_becomes_of_the_ssd() {
    for fault in ["", CACHE] {
        let dir = tempfile::tempdir().expect("a directory");
        let (ssd, old) = (dir.path().join("ssd.img"), dir.path().join("old.img"));
        let mut rng = Rng::new(12);
        let mut known = Knowledge::new(BLOCKS);
        for round in 0..6 {
            let plain: &[_] = if round == 0 { &[] } else { &[(PLAIN, "1")] };
            let process = Process::start_env(&behind(fault), dir.path(), plain);
            let mut client = Client::connect(&process.socket, "data");
            known.check_all(&mut client).unwrap_or_else(|wrong| panic!("round {round}: {wrong}"));
            if ssd.exists() {
                std::fs::copy(&ssd, &old).expect("it can be copied");
            }
            write_randomly(&mut client, &mut known, &mut rng, BLOCKS, 1500);
            process.kill();
            match round % 3 {
                0 => std::fs::remove_file(&ssd).expect("it is there"),
                1 => std::fs::rename(&old, &ssd).expect("it was there before"),
                _ => {}
            }
        }
    }
}
