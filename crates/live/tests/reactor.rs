//! The server in this process, with a client of our own.

mod common;

use common::client::{Client, go, hello, option, request};
use common::script::{self, pattern};
use common::{Served, options, wait_for};
use nandu_base::{BuildError, ByteLen, Declared, Rng, Span, options as declared};
use nandu_cache::prefetch::{self, Look, Prefetch, PrefetchOptions, Range, Units};
use nandu_live::nbd::wire::{
    EXTENDED_CHUNK_HEAD_BYTES, EXTENDED_CHUNK_MAGIC, EXTENDED_REQUEST_MAGIC, Fields, GREETING_BYTES,
    OPTION_REPLY_HEAD_BYTES, chunk, cmd, cmd_flag, opt, rep,
};
use nandu_live::reactor::Caps;
use nandu_live::{Report, ServeOptions};
use nandu_stack::{Stack, builtin};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::{Condvar, Mutex, mpsc};

const MEMORY: &str = "[export.data]\ndevice = \"leg\"\n[device.leg]\nkind = \"memory\"\nsize = \"8 MiB\"\n";
const FILE: &str =
    "[export.data]\ndevice = \"leg\"\n[device.leg]\nkind = \"file\"\npath = \"leg.img\"\nsize = \"8 MiB\"\n";

fn direct() -> String {
    format!("{FILE}direct = true\n")
}

fn stripe() -> String {
    let legs =
        (0..3).map(|i| format!("[device.leg{i}]\nkind = \"file\"\npath = \"{i}.img\"\nsize = \"3 MiB\"\n"));
    let head = "[export.data]\ndevice = \"s\"\n[device.s]\nkind = \"stripe\"\nchunk = \"16 KiB\"\n";
    format!("{head}legs = [\"leg0\", \"leg1\", \"leg2\"]\n{}", legs.collect::<String>())
}

fn mirror() -> String {
    let legs = ["a", "b"];
    let legs = legs.map(|i| format!("[device.{i}]\nkind = \"file\"\npath = \"{i}.img\"\nsize = \"9 MiB\"\n"));
    let head = "[export.data]\ndevice = \"m\"\n[device.m]\nkind = \"mirror\"\nlegs = [\"a\", \"b\"]\n";
    format!("{head}{}", legs.concat())
}

fn dir() -> tempfile::TempDir {
    tempfile::tempdir().expect("a directory")
}

#[test]
fn every_stack_answers_as_a_plain_copy_would() {
    for (seed, stack) in [MEMORY.to_string(), FILE.into(), direct(), stripe(), mirror()].iter().enumerate() {
        let dir = dir();
        let served = Served::start(options(stack, dir.path()));
        let mut client = served.connect("data");
        let size = client.size;
        script::play(&script::random(seed as u64 + 1, 400, size), &mut client, size);
        client.disconnect();
        served.stop();
    }
}

#[test]
fn what_was_written_is_found_after_a_clean_end() {
    let dir = dir();
    for round in 0..3_u64 {
        let served = Served::start(options(&mirror(), dir.path()));
        let mut client = served.connect("data");
        for earlier in 0..round {
            assert_eq!(client.read(earlier << 16, 65536), pattern(earlier << 16, 65536, earlier + 1));
        }
        client.write(round << 16, &pattern(round << 16, 65536, round + 1));
        drop(client);
        served.stop();
    }
}

#[test]
fn many_requests_of_several_connections_are_all_answered_once() {
    let dir = dir();
    let served = Served::start(options(&stripe(), dir.path()));
    std::thread::scope(|scope| {
        for part in 0..4_u64 {
            let served = &served;
            scope.spawn(move || {
                let mut client = Client::connect(&served.socket, "data");
                let slot = |n: u64| (4 * n + part) * 4096;
                let mut wanted = BTreeMap::new();
                for round in 0..3 {
                    for n in 0..128 {
                        let data = pattern(slot(n), 4096, n + round * 1000);
                        client.send(cmd::WRITE, 0, slot(n), 4096, &data);
                    }
                    (0..128).for_each(|_| assert_eq!(client.receive().1, Ok(Vec::new())));
                    for n in 0..128 {
                        let cookie = client.send(cmd::READ, 0, slot(n), 4096, &[]);
                        wanted.insert(cookie, pattern(slot(n), 4096, n + round * 1000));
                    }
                    for _ in 0..128 {
                        let (cookie, outcome) = client.receive();
                        assert_eq!(outcome, Ok(wanted.remove(&cookie).expect("asked once")));
                    }
                }
                client.flush();
                client.disconnect();
            });
        }
    });
    let status = served.status();
    assert_eq!((status["connections"].as_u64(), status["requests_in_flight"].as_u64()), (Some(0), Some(0)));
}

#[test]
fn one_connection_flushes_for_all_and_sees_their_writes() {
    let dir = dir();
    let served = Served::start(options(FILE, dir.path()));
    let (mut a, mut b) = (served.connect("data"), served.connect(""));
    a.write(0, &pattern(0, 8192, 1));
    b.flush();
    assert_eq!(b.read(4096, 4096), pattern(4096, 4096, 1));
}

#[test]
fn requests_that_cannot_be_served_are_refused_and_the_session_goes_on() {
    let dir = dir();
    let served = Served::start(options(FILE, dir.path()));
    let mut client = served.connect("data");
    let (size, over) = (client.size, 33 << 20);
    let cases = [
        (cmd::READ, 0, 0, over, 22, "beyond the end"),
        (cmd::WRITE, 0, size - 512, 1024, 28, "a write beyond the end"),
        (cmd::READ, 0, size - 1, 2, 22, "bytes beyond the end"),
        (cmd::WRITE, 0, size - 1, 2, 28, "a write of bytes beyond the end"),
        (cmd::FLUSH, 0, 512, 0, 22, "a flush with an offset"),
        (cmd::TRIM, 0, size, 512, 22, "a trim beyond the end"),
        (cmd::WRITE_ZEROES, cmd_flag::FAST_ZERO, 0, 512, 22, "fast zeroes, which are not offered"),
        (cmd::CACHE, 0, size, 512, 22, "a hint beyond the end"),
        (99, 0, 0, 512, 22, "no such command"),
    ];
    for (command, flags, offset, length, errno, what) in cases {
        let data = if command == cmd::WRITE { vec![7; length as usize] } else { Vec::new() };
        assert_eq!(client.call(command, flags, offset, length, &data), Err(errno), "{what}");
    }
    client.write(0, &pattern(0, 512, 3));
    assert_eq!(client.read(0, 512), pattern(0, 512, 3));
}

/// With extended headers one request reaches over more than 4 GiB. No client here speaks them, so the bytes are made by hand.
#[test]
fn extended_requests_reach_as_far_as_the_export() {
    let dir = dir();
    let stack = MEMORY.replace("8 MiB", "6 GiB");
    let served = Served::start(options(&stack, dir.path()));
    let mut stream = UnixStream::connect(&served.socket).expect("a server");
    stream.set_read_timeout(Some(common::DEADLINE)).expect("a limit");
    let mut said = hello();
    said.extend(option(opt::EXTENDED_HEADERS, &[]));
    let query =
        [&4_u32.to_be_bytes()[..], b"data", &1_u32.to_be_bytes(), &15_u32.to_be_bytes(), b"base:allocation"];
    said.extend(option(opt::SET_META_CONTEXT, &query.concat()));
    said.extend(go("data"));
    stream.write_all(&said).expect("it listens");
    let take = |stream: &mut UnixStream, count: usize| {
        let mut bytes = vec![0; count];
        stream.read_exact(&mut bytes).expect("it answers");
        bytes
    };
    take(&mut stream, GREETING_BYTES);
    loop {
        let head = take(&mut stream, OPTION_REPLY_HEAD_BYTES);
        let mut fields = Fields(&head[8..]);
        let (of, kind, length) = (fields.u32(), fields.u32(), fields.u32().expect("a length"));
        take(&mut stream, length as usize);
        assert!(kind.is_some_and(|kind| kind & rep::ERROR_BIT == 0), "{of:?}: {kind:?}");
        if (of, kind) == (Some(opt::GO), Some(rep::ACK)) {
            break;
        }
    }
    // The type, the offset and the payload of a reply that ends.
    let mut ask = |flags: u16, command: u16, offset: u64, length: u64, data: &[u8]| {
        let mut bytes = EXTENDED_REQUEST_MAGIC.to_be_bytes().to_vec();
        bytes.extend([flags.to_be_bytes(), command.to_be_bytes()].concat());
        bytes.extend([7, offset, length].map(u64::to_be_bytes).concat());
        bytes.extend(data);
        stream.write_all(&bytes).expect("it listens");
        let head = take(&mut stream, EXTENDED_CHUNK_HEAD_BYTES);
        let mut fields = Fields(&head);
        assert_eq!((fields.u32(), fields.u16()), (Some(EXTENDED_CHUNK_MAGIC), Some(chunk::FLAG_DONE)));
        let (kind, cookie, at) = (fields.u16().expect("a type"), fields.u64(), fields.u64());
        assert_eq!((cookie, at), (Some(7), Some(offset)));
        (kind, take(&mut stream, fields.u64().expect("a length") as usize))
    };
    let far = (5 << 30) + 77;
    let write = cmd_flag::PAYLOAD_LEN | cmd_flag::FUA;
    assert_eq!(ask(write, cmd::WRITE, far, 5, b"nandu"), (chunk::NONE, Vec::new()));
    assert_eq!(ask(0, cmd::READ, far, 5, &[]).1[8..], *b"nandu");
    assert_eq!(ask(0, cmd::FLUSH, 0, 0, &[]), (chunk::NONE, Vec::new()));
    let (kind, status) = ask(0, cmd::BLOCK_STATUS, 1, 5 << 30, &[]);
    assert_eq!((kind, &status[8..16]), (chunk::BLOCK_STATUS_EXT, &(5_u64 << 30).to_be_bytes()[..]));
    assert_eq!(ask(0, cmd::WRITE_ZEROES, 1, (5 << 30) + 77, &[]), (chunk::NONE, Vec::new()));
    assert_eq!(ask(0, cmd::READ, far, 5, &[]).1[8..], *b"\0andu");
    assert_eq!(ask(0, cmd::TRIM, 0, 6 << 30, &[]), (chunk::NONE, Vec::new()));
    assert_eq!(ask(0, cmd::READ, far, 5, &[]).1[8..], [0; 5]);
    assert_eq!(ask(0, cmd::TRIM, 0, (6 << 30) + 1, &[]).0, chunk::ERROR);
}

#[test]
fn long_requests_are_cut_and_too_long_ones_refused() {
    let dir = dir();
    let stack = MEMORY.replace("8 MiB", "5 GiB");
    let served = Served::start(options(&stack, dir.path()));
    let mut client = served.connect("data");
    let long = 32 << 20;
    let data = pattern(512, long, 9);
    client.write(512, &data);
    assert!(client.read(512, long) == data, "32 MiB come back");
    assert_eq!(client.call(cmd::READ, 0, 0, long + 512, &[]), Err(75));
    assert_eq!(client.call(cmd::WRITE, 0, 0, long + 512, &vec![1; long as usize + 512]), Err(22));
    assert!(client.read(512, long) == data, "a refused write changes nothing");
    assert_eq!(client.call(cmd::TRIM, 0, 0, u32::MAX, &[]), Ok(Vec::new()));
    assert!(client.read(512, long).iter().all(|&byte| byte == 0));
    let requests = served.status()["devices"]["leg"]["requests"]["trim"].as_u64();
    assert_eq!(requests, Some(128), "4 GiB of trim in pieces of 32 MiB");
}

#[test]
fn whatever_a_client_says_the_next_one_is_served() {
    let dir = dir();
    let served = Served::start(options(MEMORY, dir.path()));
    for seed in 0..150 {
        let mut rng = Rng::new(seed);
        let mut said = garbage(&mut rng);
        if rng.below(3) > 0 {
            let at = rng.below(said.len() as u64) as usize;
            said[at] = rng.bits() as u8;
        }
        let mut stream = UnixStream::connect(&served.socket).expect("it listens");
        let _ = stream.write_all(&said); // it may hang up before it has heard everything
        if rng.below(2) == 0 {
            let _ = stream.shutdown(std::net::Shutdown::Write);
            let _ = stream.read_to_end(&mut Vec::new());
        }
    }
    let mut client = served.connect("data");
    client.write(0, &pattern(0, 4096, 5));
    assert_eq!(client.read(0, 4096), pattern(0, 4096, 5));
    wait_for("everybody else to be gone", || {
        let status = served.status();
        (status["connections"] == 1 && status["requests_in_flight"] == 0).then_some(())
    });
}

/// Bytes that look more or less like a client.
fn garbage(rng: &mut Rng) -> Vec<u8> {
    let noise = |rng: &mut Rng| (0..rng.between(1, 600)).map(|_| rng.bits() as u8).collect::<Vec<u8>>();
    let mut said = match rng.below(4) {
        0 => return noise(rng),
        _ => hello(),
    };
    for _ in 0..rng.below(4) {
        let data = noise(rng);
        said.extend(option(rng.below(12) as u32, &data));
    }
    said.extend(option(opt::STRUCTURED_REPLY, &[]));
    said.extend(go("data"));
    for cookie in 0..rng.below(30) {
        let length = *rng.pick(&[0, 1, 512, 4096, 1 << 20, u32::MAX]);
        let offset = *rng.pick(&[0, 512, 1 << 20, 8 << 20, u64::MAX - 511]);
        let command = rng.below(9) as u16;
        said.extend(request(rng.below(32) as u16, command, cookie, offset, length));
        if command == cmd::WRITE {
            said.extend(vec![3; length.min(8192) as usize]);
        }
    }
    said.extend(noise(rng));
    said
}

#[test]
fn a_client_that_does_not_read_is_not_read_either_and_harms_nobody() {
    let dir = dir();
    let caps = Caps { bytes: ByteLen::mib(4), ..Caps::default() };
    let served = Served::start(ServeOptions { caps, ..options(MEMORY, dir.path()) });
    let mut rude = served.connect("data");
    let asked = 300;
    let writer = rude.stream.try_clone().expect("a second handle");
    std::thread::scope(|scope| {
        // 300 MiB are asked for, and no reply is read yet.
        scope.spawn(move || {
            let mut writer = writer;
            (0..asked).for_each(|cookie| {
                writer.write_all(&request(cmd::READ, 0, cookie, 0, 1 << 20)).expect("it is read in the end");
            });
        });
        let in_flight = || served.status()["devices"]["leg"]["requests"]["read"].as_u64().unwrap_or(0);
        wait_for("the server to be stopped by its limit", || (in_flight() >= 4).then_some(()));
        let mut polite = served.connect("data");
        polite.write(0, &pattern(0, 4096, 5));
        assert_eq!(polite.read(0, 4096), pattern(0, 4096, 5));
        assert!(in_flight() <= 8, "at most 4 MiB and what the socket holds were read ahead");
        let mut rest = vec![0; asked as usize * ((1 << 20) + 28)];
        rude.stream.read_exact(&mut rest).expect("everything is answered");
    });
}

#[test]
fn a_client_that_says_nothing_is_hung_up_on() {
    let dir = dir();
    let caps = Caps { handshake: Span::from_ms(20), ..Caps::default() };
    let served = Served::start(ServeOptions { caps, ..options(MEMORY, dir.path()) });
    let mut silent = UnixStream::connect(&served.socket).expect("it listens");
    let mut heard = Vec::new();
    silent.read_to_end(&mut heard).expect("the server hangs up");
    assert_eq!(heard.len(), GREETING_BYTES);
}

#[test]
fn an_end_answers_what_is_under_way() {
    let dir = dir();
    let mut served = Served::start(options(FILE, dir.path()));
    let mut client = served.connect("data");
    let count = 64_u64;
    for n in 0..count {
        client.send(cmd::WRITE, 0, n * 4096, 4096, &pattern(n * 4096, 4096, n));
    }
    // The first answer says that the server has begun to read.
    let mut answers = BTreeMap::from([client.receive()]);
    served.tell_to_stop();
    while let Ok((cookie, outcome)) = client.try_receive() {
        answers.insert(cookie, outcome);
    }
    served.wait();
    assert!(answers.values().all(|outcome| matches!(outcome, Ok(_) | Err(108))), "{answers:?}");
    drop(served);
    let served = Served::start(options(FILE, dir.path()));
    let mut client = served.connect("data");
    for (cookie, _) in answers.iter().filter(|(_, outcome)| outcome.is_ok()) {
        let n = cookie - 1;
        assert_eq!(client.read(n * 4096, 4096), pattern(n * 4096, 4096, n));
    }
}

/// A prefetcher from outside that does not come back until it is let go.
#[declared]
#[derive(Clone, Debug)]
struct Stuck {}

static LET_GO: (Mutex<bool>, Condvar) = (Mutex::new(false), Condvar::new());

impl Declared for Stuck {
    const NAME: &'static str = "stuck";
    const SUMMARY: &'static str = "Thinks until it is let go.";
    const SOURCE: &'static str = "none";
    const DRAWS: &'static [&'static str] = &[""];
}

impl PrefetchOptions for Stuck {
    type Policy = Stuck;

    fn build(&self, _units: &Units) -> Result<Stuck, BuildError> {
        Ok(Stuck {})
    }
}

impl Prefetch for Stuck {
    fn plan(&mut self, _look: &Look<'_>, _ahead: &mut Vec<Range>) {
        let (is_let_go, bell) = &LET_GO;
        let mut is_let_go = is_let_go.lock().expect("nobody panics with it");
        while !*is_let_go {
            is_let_go = bell.wait(is_let_go).expect("nobody panics with it");
        }
    }
}

#[test]
fn the_machine_that_holds_the_server_is_named() {
    let dir = dir();
    let text = "[export.data]\ndevice = \"slow\"\n[device.slow]\nkind = \"cache\"\nbelow = \"leg\"\nmemory = \"1 MiB\"\n\
                prefetch = { kind = \"stuck\" }\n[device.leg]\nkind = \"memory\"\nsize = \"8 MiB\"\n";
    let registry = builtin().with(prefetch::policy::<Stuck>());
    let (sender, said) = mpsc::channel();
    let served = Served::start(ServeOptions {
        stack: Stack::parse_with(text, &registry).unwrap_or_else(|error| panic!("{error}")),
        watchdog: Span::from_ms(20),
        alarm: Box::new(move |report: &Report| drop(sender.send(report.to_string()))),
        ..options(MEMORY, dir.path())
    });
    let mut client = served.connect("data");
    client.send(cmd::READ, 0, 0, 4096, &[]);
    let hear = || said.recv_timeout(common::DEADLINE).expect("the watchdog says something");
    let stands = hear();
    assert!(stands.contains("slow") && !stands.contains("leg"), "{stands}");
    *LET_GO.0.lock().expect("nobody panics with it") = true;
    LET_GO.1.notify_all();
    let goes_on = hear();
    assert!(goes_on.contains("slow") && goes_on != stands, "{goes_on}");
    client.receive().1.expect("it is answered");
    served.stop();
}

#[test]
fn a_start_and_an_end_that_take_long_say_what_they_wait_for() {
    let dir = dir();
    let stack = "[export.data]\ndevice = \"m\"\n[device.m]\nkind = \"mirror\"\nlegs = [\"a\", \"slow\"]\n\
                 [device.slow]\nkind = \"fault\"\nbelow = \"b\"\ndelay = \"60 ms\"\n\
                 [device.a]\nkind = \"memory\"\nsize = \"4 MiB\"\n[device.b]\nkind = \"memory\"\nsize = \"4 MiB\"\n";
    for (bound, says) in [(Span::from_ms(20), true), (Span::ZERO, false), (Span::from_secs(3600), false)] {
        let served = Served::start(ServeOptions { watchdog: bound, ..options(stack, dir.path()) });
        let said = served.said.iter().find(|line| line.starts_with("m: not open after"));
        assert_eq!(said.is_some(), says, "{:?}", served.said);
        served.stop();
    }
    let waits = |starts, legs: &[(&str, u32)]| {
        let legs = legs.iter().map(|&(leg, requests)| (leg.to_string(), requests)).collect();
        Report::Waits { device: "m".into(), starts, legs, span: Span::from_secs(5) }.to_string()
    };
    assert_eq!(waits(false, &[]), "m: not closed after 5 s");
    assert_eq!(
        waits(true, &[("a", 1), ("b", 12)]),
        "m: not open after 5 s; it waits for `a`, which has not answered 1 request, `b`, which has not answered 12 requests"
    );
}
