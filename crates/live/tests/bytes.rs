//! Requests of any offset and length, on devices that take whole blocks.
//!
//! A tool that is not installed skips its test; `NANDU_REQUIRE_TOOLS=1` makes that a failure.

mod common;

use common::client::Client;
use common::process::{Process, be_a_server, have, run};
use common::{FILE_IO, Served, have_ring, options};
use nandu_base::Rng;
use nandu_live::nbd::wire::{cmd, cmd_flag};
use nandu_live::{FileIo, ServeOptions};
use std::collections::BTreeMap;
use std::ops::Range;

/// Not a test of its own: what [`Process`] runs.
#[test]
fn the_server_process() {
    be_a_server();
}

const FILE: &str = "[device.leg]\nkind = \"file\"\npath = \"leg.img\"\nsize = \"1 MiB\"\n";
const BACK: &str = "[device.top]\nkind = \"cache\"\nbelow = \"leg\"\nsize = \"1 MiB\"\nwrite = { kind = \"writeback\", dirty_expire = \"1 h\" }\n";

fn export(device: &str, devices: &str) -> String {
    format!("[export.data]\ndevice = \"{device}\"\n{devices}")
}

fn direct() -> String {
    export("leg", &format!("{FILE}direct = true\n"))
}

fn mirror() -> String {
    let leg = |name: &str| FILE.replace("leg", name);
    export("m", &format!("[device.m]\nkind = \"mirror\"\nlegs = [\"a\", \"b\"]\n{}{}", leg("a"), leg("b")))
}

fn integrity() -> String {
    export("top", &format!("[device.top]\nkind = \"integrity\"\nbelow = \"leg\"\n{FILE}"))
}

fn dir() -> tempfile::TempDir {
    tempfile::tempdir().expect("a directory")
}

/// One byte of an export: values that it may hold, and when the request that set it ended.
#[derive(Clone)]
struct Byte(Vec<(u8, Option<u64>)>);

/// A request under way: when it was sent, what it sets to what, and of a read what each byte may be.
struct Asked {
    sent: u64,
    at: Range<usize>,
    value: Option<u8>,
    may_be: Vec<Vec<u8>>,
}

/// Several connections, and every byte of the part of the export that they use.
struct World {
    clients: Vec<Client>,
    asked: Vec<BTreeMap<u64, Asked>>,
    bytes: Vec<Byte>,
    rng: Rng,
    now: u64,
    value: u8,
}

/// Bytes that the connections use: a few blocks, so that they meet often.
const USED: u64 = 5 * 4096;

impl World {
    fn new(served: &Served, seed: u64) -> World {
        let clients: Vec<Client> = (0..4).map(|_| served.connect("data")).collect();
        World {
            asked: clients.iter().map(|_| BTreeMap::new()).collect(),
            clients,
            bytes: vec![Byte(vec![(0, Some(0))]); USED as usize],
            rng: Rng::new(seed),
            now: 0,
            value: 0,
        }
    }

    fn send(&mut self, who: usize) {
        let offset = self.rng.below(USED);
        let longest = if self.rng.below(4) == 0 { USED } else { 700 };
        let len = 1 + self.rng.below((USED - offset).min(longest));
        let at = offset as usize..(offset + len) as usize;
        let mut asked = Asked { sent: self.now, at: at.clone(), value: None, may_be: Vec::new() };
        let fua = if self.rng.below(8) == 0 { cmd_flag::FUA } else { 0 };
        let (command, flags) = match self.rng.below(6) {
            0 | 1 => (cmd::READ, 0),
            2 | 3 => (cmd::WRITE, fua),
            4 => (cmd::WRITE_ZEROES, fua),
            _ => (cmd::WRITE_ZEROES, fua | cmd_flag::NO_HOLE),
        };
        let mut data = Vec::new();
        if command == cmd::READ {
            let values = |byte: &Byte| byte.0.iter().map(|&(value, _)| value).collect();
            asked.may_be = self.bytes[at].iter().map(values).collect();
        } else {
            asked.value = Some(0);
            if command == cmd::WRITE {
                self.value = self.value % 250 + 1;
                asked.value = Some(self.value);
                data = vec![self.value; len as usize];
            }
            self.announce(asked.value.unwrap_or(0), &asked.at);
        }
        let cookie = self.clients[who].send(command, flags, offset, len as u32, &data);
        self.asked[who].insert(cookie, asked);
    }

    /// A change may be seen from now on, also by reads that are under way.
    fn announce(&mut self, value: u8, at: &Range<usize>) {
        for place in at.clone() {
            self.bytes[place].0.push((value, None));
        }
        for read in self.asked.iter_mut().flat_map(BTreeMap::values_mut).filter(|a| a.value.is_none()) {
            for place in at.start.max(read.at.start)..at.end.min(read.at.end) {
                read.may_be[place - read.at.start].push(value);
            }
        }
    }

    fn receive(&mut self, who: usize) {
        let (cookie, outcome) = self.clients[who].receive();
        let asked = self.asked[who].remove(&cookie).expect("it was asked");
        let found = outcome.expect("it is served");
        let Some(value) = asked.value else {
            for (at, (byte, may_be)) in found.iter().zip(&asked.may_be).enumerate() {
                assert!(may_be.contains(byte), "byte {} reads {byte}, not {may_be:?}", asked.at.start + at);
            }
            return;
        };
        for place in asked.at {
            let byte = &mut self.bytes[place].0;
            byte.retain(|&(_, ended)| ended.is_none_or(|ended| ended >= asked.sent));
            let own = byte.iter_mut().find(|(other, ended)| *other == value && ended.is_none());
            own.expect("it is there").1 = Some(self.now);
        }
    }

    fn run(&mut self) {
        for _ in 0..1500 {
            self.now += 1;
            let who = self.rng.below(4) as usize;
            if self.asked[who].len() < 6 && self.rng.below(5) < 3 {
                self.send(who);
            } else if !self.asked[who].is_empty() {
                self.receive(who);
            }
        }
        for who in 0..4 {
            while !self.asked[who].is_empty() {
                self.now += 1;
                self.receive(who);
            }
        }
        let found = self.clients[0].read(0, USED as u32);
        for (at, (byte, known)) in found.iter().zip(&self.bytes).enumerate() {
            assert!(
                known.0.iter().any(|(value, _)| value == byte),
                "byte {at} holds {byte}, not {:?}",
                known.0
            );
        }
    }
}

#[test]
fn bytes_that_several_connections_write_are_as_in_an_array_of_bytes() {
    let cached = export("top", &format!("{BACK}{FILE}"));
    let stacks = [direct(), mirror(), integrity(), cached];
    let uring = if have_ring() { FileIo::Uring } else { FileIo::Auto };
    let ways = [FileIo::Threads, FileIo::Auto, uring];
    for (seed, (stack, file_io)) in stacks.iter().flat_map(|stack| ways.map(|way| (stack, way))).enumerate() {
        println!("seed {seed}, {file_io:?}\n{stack}");
        let dir = dir();
        let served = Served::start(ServeOptions { file_io, ..options(stack, dir.path()) });
        let mut world = World::new(&served, seed as u64);
        world.run();
        for client in world.clients {
            client.disconnect();
        }
        served.stop();
    }
}

/// Nothing but FUA or a flush brings it out of the memory of a cache.
#[test]
fn bytes_that_were_flushed_outlive_the_process() {
    let cached = export("top", &format!("{BACK}{FILE}"));
    for (stack, file_io) in
        [(&cached, "threads"), (&cached, "uring"), (&mirror(), "threads"), (&mirror(), "uring")]
    {
        if file_io == "threads" || have_ring() {
            flushed_bytes_outlive_the_process(stack, file_io);
        }
    }
}

fn flushed_bytes_outlive_the_process(stack: &str, file_io: &str) {
    let dir = dir();
    let process = Process::start_env(stack, dir.path(), &[(FILE_IO, file_io)]);
    let mut client = Client::connect(&process.socket, "data");
    client.write(0, &[1; 8192]);
    client.flush();
    client.call(cmd::WRITE, cmd_flag::FUA, 4090, 12, &[2; 12]).expect("a write works");
    client.call(cmd::WRITE_ZEROES, cmd_flag::FUA, 100, 7000, &[]).expect("zeroes work");
    client.write(8000, &[3; 1]);
    client.flush();
    client.write(0, &[4; 1]);
    process.kill();
    let process = Process::start_env(stack, dir.path(), &[(FILE_IO, file_io)]);
    let mut client = Client::connect(&process.socket, "data");
    let found = client.read(0, 8192);
    let wanted = |at| match at {
        100..7100 => 0,
        8000 => 3,
        _ => 1,
    };
    for (at, byte) in found.iter().enumerate() {
        assert!(*byte == wanted(at) || at == 0 && *byte == 4, "byte {at} is {byte}");
    }
    client.disconnect();
    process.stop();
}

/// A trim of a part of a block has nothing to discard, and leaves the bytes of others alone.
#[test]
fn a_trim_discards_the_blocks_that_it_covers() {
    let dir = dir();
    let served = Served::start(options(&direct(), dir.path()));
    let mut client = served.connect("data");
    client.write(0, &[7; 4096]);
    client.call(cmd::TRIM, 0, 100, 200, &[]).expect("a trim works");
    assert_eq!(client.read(0, 4096), [7; 4096]);
    client.call(cmd::TRIM, cmd_flag::FUA, 100, 2000, &[]).expect("a trim works");
    let found = client.read(0, 4096);
    assert!(found[..512].iter().chain(&found[2048..]).all(|&byte| byte == 7));
    assert!(found[512..2048].iter().all(|&byte| byte == 0));
    client.call(cmd::CACHE, 0, 1, 1, &[]).expect("a hint works");
    client.disconnect();
    served.stop();
}

#[test]
fn tools_copy_what_is_no_multiple_of_a_block() {
    if !["nbdcopy", "nbdinfo", "qemu-io"].into_iter().all(have) {
        return;
    }
    let dir = dir();
    let process = Process::start(&mirror(), dir.path());
    let uri = process.uri();
    let info = run("nbdinfo", &[&uri]);
    assert!(String::from_utf8_lossy(&info.stdout).contains("block_size_minimum: 1\n"));
    let odd = dir.path().join("odd");
    let data: Vec<u8> = (0..1001_u32).map(|at| (at * 7) as u8).collect();
    std::fs::write(&odd, &data).expect("a file");
    run("nbdcopy", &["--flush", &odd.display().to_string(), &uri]);
    let write =
        ["-f", "raw", "-c", "write -P 5 1501 3", "-c", "write -z 1 2", "-c", "read -P 5 1502 1", &uri];
    let said = run("qemu-io", &write);
    assert!(!String::from_utf8_lossy(&said.stdout).contains("failed"));
    let mut client = Client::connect(&process.socket, "data");
    let found = client.read(0, 2048);
    assert_eq!((&found[..1], &found[1..3], &found[3..1001]), (&data[..1], &[0, 0][..], &data[3..]));
    assert_eq!((&found[1001..1501], &found[1501..1504]), (&[0; 500][..], &[5; 3][..]));
    assert_eq!(found[1504..], [0; 544]);
    client.disconnect();
    process.stop();
}
