//! A server under a service manager: sockets that it is handed, what it says to the manager; several addresses; its end by command.

mod common;

use common::client::Client;
use common::process::{HANDED, Process, be_a_server};
use common::{DEADLINE, Served, options, prometheus};
use nandu_live::{Report, ServeOptions, Stopper, ctl, serve};
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener, UnixStream};
use std::process::{Command, Stdio};
use std::sync::mpsc;

const MEMORY: &str = "[export.data]\ndevice = \"leg\"\n[export.view]\ndevice = \"leg\"\nread_only = true\n[device.leg]\nkind = \"memory\"\nsize = \"8 MiB\"\n";

#[test]
fn the_server_process() {
    be_a_server();
}

fn heard(socket: &UnixDatagram) -> String {
    let mut bytes = [0; 256];
    loop {
        // A socket with a time limit is not restarted after a signal (signal(7)), and the test's other children send some.
        match socket.recv(&mut bytes) {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            count => {
                break String::from_utf8_lossy(&bytes[..count.expect("the server says something")])
                    .into_owned();
            }
        }
    }
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

/// What a GET of the figures is answered with.
fn figures(address: &str) -> String {
    use std::io::{Read, Write};
    let mut stream = std::net::TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(DEADLINE)).expect("a socket");
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").expect("it listens");
    let mut said = String::new();
    stream.read_to_string(&mut said).expect("it answers and hangs up");
    said
}

/// The value of a sample.
fn value(figures: &str, sample: &str) -> u64 {
    let line = figures.lines().find_map(|line| line.strip_prefix(sample)?.strip_prefix(' '));
    line.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("no {sample} in\n{figures}"))
}

#[test]
fn figures_are_told_over_http_whatever_a_client_there_does() {
    let dir = tempfile::tempdir().expect("a directory");
    let (sender, reports) = mpsc::channel();
    let stopper = Stopper::new().expect("a descriptor");
    let asked = ServeOptions {
        metrics: Some("127.0.0.1:0".parse().expect("an address")),
        stopper: Some(stopper.clone()),
        ..options(MEMORY, dir.path())
    };
    let thread =
        std::thread::spawn(move || serve(asked, &mut |report| drop(sender.send(report.to_string()))));
    let mut address = String::new();
    loop {
        let said = reports.recv_timeout(DEADLINE).expect("it becomes ready");
        if let Some(at) = said.strip_prefix("metrics for Prometheus: http://") {
            address = at.trim_end_matches("/metrics").to_string();
        } else if said.starts_with("nbd+unix") {
            break;
        }
    }
    let mut client = Client::connect(&dir.path().join("nbd.sock"), "data");
    client.write(0, &[1; 4096]);
    client.write(4096, &[1; 8192]);
    client.flush();
    client.read(0, 4096);
    // One that says nothing holds up nobody but the next one here.
    let silent = std::net::TcpStream::connect(&address).expect("it listens");
    client.read(0, 4096);
    drop(silent);
    let said = figures(&address);
    assert!(said.starts_with("HTTP/1.1 200 OK\r\n"), "{said}");
    assert_eq!(value(&said, "nandu_export_bytes_total{export=\"data\",op=\"write\"}"), 12_288);
    assert_eq!(
        value(&said, "nandu_export_latency_seconds_count{export=\"data\",tenant=\"data\",op=\"read\"}"),
        2
    );
    assert_eq!(value(&said, "nandu_leg_latency_seconds_bucket{leg=\"leg\",op=\"write\",le=\"+Inf\"}"), 2);
    assert_eq!(value(&said, "nandu_leg_state{leg=\"leg\",state=\"active\"}"), 1);
    assert_eq!(value(&said, "nandu_connections"), 1);
    assert_eq!(value(&said, "nandu_export_errors_total{export=\"data\",op=\"write\"}"), 0);
    let (_, page) = said.split_once("\r\n\r\n").expect("a head and a page");
    assert_eq!(prometheus::flaws(page), Vec::<String>::new());
    stopper.stop();
    thread.join().expect("no panic").expect("a clean end");
    // A child of another test holds every descriptor of this process until it runs its program.
    common::wait_for("the port to be free", || std::net::TcpStream::connect(&address).is_err().then_some(()));
}

#[test]
fn a_command_hears_what_changes() {
    let dir = tempfile::tempdir().expect("a directory");
    let leg =
        |name: &str| format!("[device.{name}]\nkind = \"file\"\npath = \"{name}.img\"\nsize = \"4 MiB\"\n");
    let stack = format!(
        "[export.data]\ndevice = \"m\"\n[device.m]\nkind = \"mirror\"\nlegs = [\"a\", \"b\"]\ninitial_sync = \"assume-clean\"\n{}{}",
        leg("a"),
        leg("b")
    );
    let heard = dir.path().join("heard");
    let command = format!("echo \"$NANDU_EVENT $NANDU_DEVICE $NANDU_LEG\" >> '{}'", heard.display());
    let server = Served::start(ServeOptions { on_change: Some(command), ..options(&stack, dir.path()) });
    let say =
        |command: &str| ctl::send(&server.control, &command.parse().expect("a command")).expect("it is done");
    let so_far = || std::fs::read_to_string(&heard).unwrap_or_default();
    say("fail b");
    common::wait_for("word of the failure", || so_far().contains("left-out m b").then_some(()));
    say("add b");
    common::wait_for("word of the return", || so_far().ends_with("healthy m \n").then_some(()));
    let all = so_far();
    for line in ["leg-faulty b ", "degraded m ", "leg-back b ", "used-again m b"] {
        assert!(all.lines().any(|heard| heard == line), "{line:?} in\n{all}");
    }
    server.stop();
}

/// A stack in which every figure has samples: two exports of two tenants with limits over a queue, a mirror with a leg that was given up, a resync.
#[test]
fn what_is_told_to_prometheus_is_what_it_reads() {
    let dir = tempfile::tempdir().expect("a directory");
    let stack = "[export.data]\ndevice = \"x\"\ntenant = \"a\"\n[export.more]\ndevice = \"y\"\ntenant = \"b\"\n\
        [tenant.a]\nweight = 3\nmax = { rbps = \"1 GiB\", wbps = \"1 GiB\", riops = 100000, wiops = 100000 }\n[tenant.b]\n\
        [device.x]\nkind = \"slice\"\nbelow = \"q\"\nsize = \"4 MiB\"\n[device.y]\nkind = \"slice\"\nbelow = \"q\"\noffset = \"4 MiB\"\n\
        [device.q]\nkind = \"queue\"\nbelow = \"m\"\n\
        [device.m]\nkind = \"mirror\"\nlegs = [\"l\", \"r\"]\nregion_size = \"64 KiB\"\nresync_rate = \"1 MiB\"\n\
        [device.l]\nkind = \"file\"\npath = \"l.img\"\nsize = \"16 MiB\"\n[device.r]\nkind = \"memory\"\nsize = \"16 MiB\"\n";
    let served = Served::start(options(stack, dir.path()));
    let say = |line: &str| ctl::send(&served.control, &line.parse().expect("a command")).expect("it is done");
    let page = || say("metrics")["metrics"].as_str().expect("a page").to_string();
    for export in ["data", "more"] {
        let mut client = served.connect(export);
        client.write(0, &[1; 4096]);
        client.flush();
        assert_eq!(client.read(0, 4096), [1; 4096]);
        client.disconnect();
    }
    let mut pages = vec![page()];
    say("fail r --force");
    pages.push(page());
    for page in &pages {
        assert_eq!(prometheus::flaws(page), Vec::<String>::new(), "{page}");
    }
    let samples = |name: &str| pages.iter().any(|page| page.lines().any(|line| line.starts_with(name)));
    for name in [
        "nandu_device_maintenance_left_bytes{",
        "nandu_leg_errno{",
        "nandu_tenant_read_bytes_limit{",
        "nandu_device_health{",
    ] {
        assert!(samples(name), "{name}: the test is to show it: {}", pages.concat());
    }
    served.stop();
    for page in &pages {
        let piped = Stdio::piped;
        let promtool = Command::new("promtool")
            .args(["check", "metrics"])
            .stdin(piped())
            .stdout(piped())
            .stderr(piped())
            .spawn();
        let Ok(mut promtool) = promtool else {
            eprintln!("skip: promtool is not installed");
            return;
        };
        std::io::Write::write_all(&mut promtool.stdin.take().expect("a pipe"), page.as_bytes())
            .expect("it reads");
        let ended = promtool.wait_with_output().expect("it ends");
        let said =
            String::from_utf8_lossy(&ended.stdout).into_owned() + &String::from_utf8_lossy(&ended.stderr);
        assert!(ended.status.success() && said.is_empty(), "{said}");
    }
}

#[test]
fn a_page_that_is_wrong_is_seen() {
    let good = "# HELP a_total A.\n# TYPE a_total counter\na_total{x=\"1\"} 1\na_total{x=\"2\"} 1\n\
        # HELP h H.\n# TYPE h histogram\nh_bucket{le=\"1\"} 1\nh_bucket{le=\"+Inf\"} 2\nh_sum 3\nh_count 2\n";
    assert_eq!(prometheus::flaws(good), Vec::<String>::new());
    for (what, by) in [
        ("# HELP h H.\n", ""),
        ("# TYPE a_total counter\n", ""),
        ("# TYPE h histogram\n", "# TYPE h histogram\n# TYPE h histogram\n"),
        ("x=\"2\"", "x=\"1\""),
        ("a_total{x=\"2\"} 1\n", "b 1\n"),
        ("h_bucket{le=\"1\"} 1", "h_bucket{le=\"1\"} 3"),
        ("h_bucket{le=\"+Inf\"} 2\n", ""),
        ("h_count 2", "h_count 1"),
        ("{x=\"2\"}", "{x=2}"),
        ("{x=\"2\"}", "{9=\"2\"}"),
        ("h_sum 3", "h_sum x"),
        ("h_sum 3", "a_total{x=\"3\"} 3\nh_sum 3"),
    ] {
        assert!(good.contains(what));
        assert!(!prometheus::flaws(&good.replacen(what, by, 1)).is_empty(), "{what} as {by}");
    }
}
