//! A server under a service manager: sockets that it is handed, what it says to the manager; several addresses; its end by command.

mod common;

use common::client::Client;
use common::process::{HANDED, Process, be_a_server};
use common::{DEADLINE, Served, options};
use nandu_live::{Report, ServeOptions, Stopper, ctl, serve};
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener, UnixStream};
use std::sync::mpsc;

const MEMORY: &str = "[export.data]\ndevice = \"leg\"\n[export.view]\ndevice = \"leg\"\nread_only = true\n[device.leg]\nkind = \"memory\"\nsize = \"8 MiB\"\n";

#[test]
fn the_server_process() {
    be_a_server();
}

fn heard(socket: &UnixDatagram) -> String {
    let mut bytes = [0; 256];
    let count = socket.recv(&mut bytes).expect("the server says something");
    String::from_utf8_lossy(&bytes[..count]).into_owned()
}

#[test]
fn a_manager_hears_that_it_is_ready_that_it_lives_and_that_it_ends() {
    for is_abstract in [false, true] {
        let dir = tempfile::tempdir().expect("a directory");
        let name = format!("nandu-test-{}", std::process::id());
        let path = dir.path().join("notify");
        let (socket, address) = match is_abstract {
            true => {
                let address = SocketAddr::from_abstract_name(&name).expect("an address");
                (UnixDatagram::bind_addr(&address).expect("a socket"), format!("@{name}"))
            }
            false => (UnixDatagram::bind(&path).expect("a socket"), path.display().to_string()),
        };
        socket.set_read_timeout(Some(DEADLINE)).expect("a socket");
        let env = [("NOTIFY_SOCKET", &address[..]), ("WATCHDOG_USEC", "200000")];
        let server = Process::start_env(MEMORY, dir.path(), &env);
        let mut said = heard(&socket);
        while said == "WATCHDOG=1" {
            said = heard(&socket); // it lives while it starts
        }
        assert!(said.starts_with("READY=1\n"), "{said}");
        for _ in 0..3 {
            assert_eq!(heard(&socket), "WATCHDOG=1");
        }
        server.stop();
        let mut last = heard(&socket);
        while last == "WATCHDOG=1" {
            last = heard(&socket);
        }
        assert!(last.starts_with("STOPPING=1\n"), "{last}");
    }
}

/// The sockets are bound here, before the server runs; a client that connects before is served when it does.
#[test]
fn sockets_that_are_handed_over_are_served() {
    let dir = tempfile::tempdir().expect("a directory");
    let bind = |name: &str| UnixListener::bind(dir.path().join(name)).expect("a socket");
    let (nbd, control) = (bind("nbd.sock"), bind("ctl.sock"));
    let mut early = UnixStream::connect(dir.path().join("nbd.sock")).expect("it listens");
    let line = "export LISTEN_PID=$$; exec \"$@\" 3<&0 4<&1 </dev/null >/dev/null";
    let env = [("LISTEN_FDS", "2"), ("LISTEN_FDNAMES", "nbd:control"), (HANDED, "1")];
    let log = std::fs::File::create(dir.path().join("server.log")).expect("a log");
    let mut command = Process::command(Some(line), MEMORY, dir.path(), &env, log);
    let child = command.stdin(OwnedFd::from(nbd)).stdout(OwnedFd::from(control)).spawn().expect("a shell");
    let server = Process::when_it_answers(child, dir.path());
    let mut greeting = [0; 18];
    std::io::Read::read_exact(&mut early, &mut greeting).expect("it is greeted");
    let mut client = Client::connect(&dir.path().join("nbd.sock"), "data");
    client.write(0, &[3; 512]);
    assert_eq!(client.read(0, 512), [3; 512]);
    client.disconnect();
    drop(early);
    server.stop();
    assert!(dir.path().join("nbd.sock").exists(), "it belongs to whoever made it");
}

#[test]
fn every_address_is_told_and_served() {
    let dir = tempfile::tempdir().expect("a directory");
    let unix = vec![dir.path().join("one"), dir.path().join("two")];
    let tcp = Some("127.0.0.1:0".parse().expect("an address"));
    let stopper = Stopper::new().expect("a descriptor");
    let all = ServeOptions {
        unix: unix.clone(),
        tcp,
        stopper: Some(stopper.clone()),
        ..options(MEMORY, dir.path())
    };
    let (sender, reports) = mpsc::channel();
    let thread = std::thread::spawn(move || serve(all, &mut |report| drop(sender.send(report.clone()))));
    let uris = loop {
        if let Report::Ready { uris } = reports.recv_timeout(DEADLINE).expect("it starts") {
            break uris;
        }
    };
    assert_eq!(uris.len(), 6, "{uris:?}");
    for (export, at) in [("data", 0), ("view", 3)] {
        assert_eq!(uris[at], format!("nbd+unix:///{export}?socket={}", unix[0].display()));
        assert_eq!(uris[at + 1], format!("nbd+unix:///{export}?socket={}", unix[1].display()));
        assert!(uris[at + 2].starts_with("nbd://127.0.0.1:") && uris[at + 2].ends_with(export), "{uris:?}");
    }
    Client::connect(&unix[0], "data").write(0, &[9; 512]);
    assert_eq!(Client::connect(&unix[1], "view").read(0, 512), [9; 512]);
    stopper.stop();
    thread.join().expect("no panic").expect("a clean end");
}

#[test]
fn a_server_ends_by_command_and_says_when_everything_is_durable() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut served = Served::start(options(MEMORY, dir.path()));
    let mut client = served.connect("data");
    client.write(0, &[1; 512]);
    ctl::stop(&served.control).expect("a clean end");
    served.wait();
    assert!(client.is_hung_up());
    let gone = ctl::stop(&served.control).expect_err("nobody is there").to_string();
    assert!(gone.contains("is the server running"), "{gone}");
}
