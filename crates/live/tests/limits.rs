//! What clients may take: too many are told so, who does not read is bounded, who says nothing may be hung up on; and
//! what signals do to a server.

mod common;

use common::client::{Client, hello, option, request};
use common::process::{Process, be_a_server};
use common::script::pattern;
use common::{Served, options, wait_for};
use nandu_base::{ByteLen, Span};
use nandu_live::nbd::wire::{self, GREETING_BYTES, cmd, opt, rep};
use nandu_live::{Caps, ServeError, ServeOptions, ctl};
use rustix::process::Signal;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

const MEMORY: &str = "[export.data]\ndevice = \"leg\"\n[device.leg]\nkind = \"memory\"\nsize = \"8 MiB\"\n";

#[test]
fn the_server_process() {
    be_a_server();
}

fn dir() -> tempfile::TempDir {
    tempfile::tempdir().expect("a directory")
}

fn served(dir: &Path, caps: Caps) -> Served {
    Served::start(ServeOptions { caps, ..options(MEMORY, dir) })
}

/// What the server answers to one option of a new connection, and that it hangs up then.
fn told(socket: &Path, said: &[u8]) -> (u32, String) {
    let mut stream = UnixStream::connect(socket).expect("it listens");
    stream.set_read_timeout(Some(common::DEADLINE)).expect("a socket");
    stream.read_exact(&mut [0; GREETING_BYTES]).expect("it greets");
    stream.write_all(&[&hello()[..], said].concat()).expect("it listens");
    let mut heard = Vec::new();
    stream.read_to_end(&mut heard).expect("it hangs up");
    let mut fields = wire::Fields(&heard);
    let (_, _, kind, length) = (fields.u64(), fields.u32(), fields.u32(), fields.u32());
    let text = fields.bytes(length.unwrap_or(0) as usize).unwrap_or_default();
    (kind.unwrap_or(0), String::from_utf8_lossy(text).into_owned())
}

#[test]
fn a_client_too_many_is_told_so_and_the_next_one_gets_the_free_place() {
    let dir = dir();
    let served = served(dir.path(), Caps { connections: 2, ..Caps::default() });
    let (a, mut b) = (served.connect("data"), served.connect("data"));
    let go = common::client::go("data");
    for said in [go.clone(), option(opt::LIST, &[])] {
        let (kind, text) = told(&served.socket, &said);
        assert_eq!(kind, rep::ERR_POLICY);
        assert!(text.contains("has 2 connections") && text.contains("--max-connections"), "{text}");
    }
    assert_eq!(told(&served.socket, &option(opt::EXPORT_NAME, b"data")), (0, String::new()), "a clean end");
    // Those who are told so and stay take no place that others need to hear it.
    let silent: Vec<UnixStream> =
        (0..40).map(|_| UnixStream::connect(&served.socket).expect("it listens")).collect();
    for mut silent in silent.into_iter().rev().take(20) {
        silent.set_read_timeout(Some(common::DEADLINE)).expect("a socket");
        let mut heard = Vec::new();
        silent.read_to_end(&mut heard).expect("it is hung up on at once");
    }
    b.write(0, &pattern(0, 512, 1));
    a.disconnect();
    let mut third = wait_for("the place to be free", || Client::try_connect(&served.socket, "data").ok());
    assert_eq!(third.read(0, 512), pattern(0, 512, 1));
}

#[test]
fn a_control_client_too_many_is_told_so() {
    let dir = dir();
    let served = served(dir.path(), Caps { controls: 2, ..Caps::default() });
    let idle: Vec<UnixStream> =
        (0..2).map(|_| UnixStream::connect(&served.control).expect("it listens")).collect();
    let refused =
        ctl::send(&served.control, &ctl::Command::Status).expect_err("there is no place").to_string();
    assert!(refused.contains("has 2 control connections") && refused.contains("--max-control"), "{refused}");
    drop(idle);
    wait_for("a place", || ctl::send(&served.control, &ctl::Command::Status).ok());
}

#[test]
fn who_says_nothing_is_hung_up_on_if_the_server_is_told_so() {
    let dir = dir();
    let served = served(dir.path(), Caps { idle: Span::from_ms(20), ..Caps::default() });
    let (mut silent, mut control) =
        (served.connect("data"), UnixStream::connect(&served.control).expect("it listens"));
    assert!(silent.is_hung_up());
    control.set_read_timeout(Some(common::DEADLINE)).expect("a socket");
    assert_eq!(control.read_to_end(&mut Vec::new()).expect("a clean end"), 0);
}

#[test]
fn too_little_memory_is_refused_with_what_is_needed() {
    let dir = dir();
    let caps = Caps { memory: ByteLen::mib(100), ..Caps::default() };
    let refused = Served::try_start(ServeOptions { caps, ..options(MEMORY, dir.path()) });
    let error = refused.err().expect("it is refused");
    assert!(matches!(error, ServeError::Memory { .. }) && error.exit_code() == 2, "{error}");
    let ServeError::Memory { least, .. } = error else { return };
    let caps = Caps { memory: least, ..Caps::default() };
    Served::start(ServeOptions { caps, ..options(MEMORY, dir.path()) }).stop();
}

#[test]
fn clients_that_do_not_read_hold_no_more_than_the_memory_and_others_are_served() {
    let dir = dir();
    let (memory, program) = (256 << 20, 64 << 20);
    let server = Process::start_within(MEMORY, dir.path(), "256 MiB");
    let rude: Vec<Client> = (0..30).map(|_| Client::connect(&server.socket, "data")).collect();
    for client in &rude {
        // 64 MiB each, 1.9 GiB in all: none of it is ever read.
        let said: Vec<u8> = (0..64).flat_map(|n| request(cmd::READ, 0, n, 0, 1 << 20)).collect();
        (&client.stream).write_all(&said).expect("the server listens");
    }
    let used = || server.status()["memory_used"].as_u64().expect("a number");
    wait_for("much of the memory to be in use", || (used() > 64 << 20).then_some(()));
    let mut polite = Client::connect(&server.socket, "data");
    for n in 0..64 {
        polite.write(n * 4096, &pattern(n * 4096, 4096, n));
        assert_eq!(polite.read(n * 4096, 4096), pattern(n * 4096, 4096, n));
    }
    assert_eq!(polite.read(0, 1 << 20).len(), 1 << 20);
    assert!(used() <= memory, "{} bytes are held", used());
    let peak = server.peak_memory();
    assert!(peak <= memory + program, "the server had {peak} bytes");
    drop(rude);
    wait_for("it to be given back", || (used() == 0).then_some(()));
    polite.disconnect();
    server.stop();
}

/// One says goodbye and reads none of its replies, another one sends a byte of a request now and then and reads none either.
#[test]
fn who_reads_nothing_is_hung_up_on_also_after_its_goodbye() {
    let dir = dir();
    let stall = Span::from_ms(20);
    let served = served(dir.path(), Caps { stall, handshake: stall, ..Caps::default() });
    let rude = || {
        let client = served.connect("data");
        let said: Vec<u8> = (0..64).flat_map(|n| request(cmd::READ, 0, n, 0, 1 << 20)).collect();
        (&client.stream).write_all(&said).expect("the server listens");
        client
    };
    let mut gone = rude();
    gone.stream.write_all(&request(cmd::DISC, 0, 0, 0, 0)).expect("the server listens");
    let trickles = rude();
    let mut rest = request(cmd::READ, 0, 64, 0, 4096).into_iter().cycle();
    let status = || ctl::send(&served.control, &ctl::Command::Status).expect("it answers").to_string();
    wait_for("both to be hung up on", || {
        // The second one is refused when it has been hung up on.
        let _ = (&trickles.stream).write(&[rest.next().expect("a request has no end")]);
        status().contains("\"connections\":0").then_some(())
    });
    served.stop();
}

#[test]
fn a_hang_up_signal_is_logged_and_ends_nothing() {
    let dir = dir();
    let server = Process::start(MEMORY, dir.path());
    let mut client = Client::connect(&server.socket, "data");
    server.signal(Signal::HUP);
    wait_for("the log to say so", || server.log().contains("SIGHUP: ").then_some(()));
    client.write(0, &pattern(0, 512, 1));
    assert_eq!(client.read(0, 512), pattern(0, 512, 1));
    client.disconnect();
    server.stop();
}

#[test]
fn whoever_is_in_the_middle_of_sending_hears_of_the_end() {
    for signal in [Signal::TERM, Signal::INT] {
        let dir = dir();
        let server = Process::start_within(MEMORY, dir.path(), "1 GiB");
        let mut client = Client::connect(&server.socket, "data");
        let writes = 20_000_u64;
        let mut writer = client.stream.try_clone().expect("a second handle");
        let sender = std::thread::spawn(move || {
            for n in 0..writes {
                let mut said = request(cmd::WRITE, 0, n, n % 1000 * 4096, 4096);
                said.extend([7; 4096]);
                writer.write_all(&said).expect("the server reads on");
            }
        });
        let mut answers = (0, 0);
        for n in 0..writes {
            let mut reply = [0; 16];
            client.stream.read_exact(&mut reply[..4]).expect("every write is answered");
            if reply[..4] == wire::SIMPLE_REPLY_MAGIC.to_be_bytes() {
                client.stream.read_exact(&mut reply[4..]).expect("the rest");
                answers.0 += 1;
            } else {
                let mut head = [0; 16];
                client.stream.read_exact(&mut head).expect("the rest");
                let length = u32::from_be_bytes([head[12], head[13], head[14], head[15]]);
                let mut data = vec![0; length as usize];
                client.stream.read_exact(&mut data).expect("the rest");
                assert_eq!(wire::Fields(&data).u32(), Some(108), "ESHUTDOWN");
                answers.1 += 1;
            }
            if n == 0 {
                server.signal(signal);
            }
        }
        sender.join().expect("everything is sent");
        assert_eq!(answers.0 + answers.1, writes);
        assert!(answers.1 > 0, "the server began to end before all was done");
        drop(client);
        server.wait();
    }
}
