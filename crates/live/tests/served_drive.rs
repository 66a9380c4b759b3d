//! Two tenants on one emulated drive that tells them apart: one export each, behind a fair queue; and tenants that come and go.
//!
//! What is compared is what the queue itself has counted while both waited. No clock is looked at.

mod common;

use common::client::Client;
use common::process::{Process, be_a_server, fio, have};
use common::{Served, options, wait_for};
use nandu_base::Rng;
use nandu_live::ctl::{self, Command};
use nandu_live::nbd::wire::cmd;
use serde_json::Value;
use std::path::Path;

/// Not a test of its own: what [`Process`] runs.
#[test]
fn the_server_process() {
    be_a_server();
}

const PAGE: u64 = 4096;

/// The stack file that is also simulated, with another scheduler.
fn documented(scheduler: &str) -> String {
    let stack = include_str!("../../../stacks/served-drive.toml");
    let line = "scheduler = { kind = \"drr\" }";
    assert!(stack.contains(line));
    stack.replace(line, &format!("scheduler = {{ {scheduler} }}"))
}

/// Keeps 96 requests outstanding until `replies` have come, then takes the rest.
fn keep_busy(socket: &Path, export: &str, command: u16, replies: usize) {
    let mut client = Client::connect(socket, export);
    let mut rng = Rng::new(u64::from(command) + 1);
    let data = vec![7; if command == cmd::WRITE { PAGE as usize } else { 0 }];
    let pages = client.size / PAGE;
    let mut outstanding = 0;
    for _ in 0..replies {
        while outstanding < 96 {
            client.send(command, 0, rng.below(pages) * PAGE, PAGE as u32, &data);
            outstanding += 1;
        }
        assert!(client.receive().1.is_ok());
        outstanding -= 1;
    }
    (0..outstanding).for_each(|_| drop(client.receive()));
    client.disconnect();
}

/// Writes all of an export: a page that was never written costs a drive no read.
fn fill(socket: &Path, export: &str) {
    let mut client = Client::connect(socket, export);
    let data = vec![5; 1 << 20];
    (0..client.size >> 20).for_each(|part| client.write(part << 20, &data));
    client.disconnect();
}

/// Thousandths that the reader has of the cost that was sent while both waited.
fn share(status: &Value) -> u64 {
    let counters = &status["devices"]["queue"]["counters"];
    let [reader, writer] = ["tenant_1_contended_cost_ns", "tenant_2_contended_cost_ns"]
        .map(|name| counters[name].as_u64().expect(name));
    assert!(reader + writer > 0, "nobody ever waited");
    reader * 1000 / (reader + writer)
}

#[test]
fn tenants_of_a_served_drive_have_shares_by_weight() {
    let dir = tempfile::tempdir().expect("a directory");
    let served = Served::start(options(&documented("kind = \"drr\""), dir.path()));
    fill(&served.socket, "reader");
    std::thread::scope(|scope| {
        scope.spawn(|| keep_busy(&served.socket, "reader", cmd::READ, 1500));
        scope.spawn(|| keep_busy(&served.socket, "writer", cmd::WRITE, 500));
    });
    let status = served.status();
    let share = share(&status);
    assert!((712..=788).contains(&share), "the reader has {share} thousandths, not 750");
    let drive = &status["devices"]["ssd"];
    assert_eq!(drive["spaces"].as_array().map(Vec::len), Some(2), "{drive}");
    assert_eq!(drive["counters"]["tenant_1_host_bytes_written"], 8 << 20);
    assert!(drive["counters"]["tenant_2_host_bytes_written"].as_u64() >= Some(500 * PAGE));
    assert!(status["lateness"]["ends"].as_u64() > Some(2000), "{}", status["lateness"]);
    served.stop();
}

/// A drive with room for a guest behind its two tenants, each with an export over a part of it.
fn with_slots() -> String {
    let export = |name: &str, offset: u32| {
        format!(
            "[export.{name}]\ndevice = \"{name}s\"\n[device.{name}s]\nkind = \"slice\"\nbelow = \"ssd\"\n\
             offset = \"{offset} MiB\"\nsize = \"4 MiB\"\n"
        )
    };
    format!(
        "{}{}{}[device.ssd]\nkind = \"ssd\"\nprofile = \"slc-2015\"\nstore = \"ssd.store\"\nchannels = 2\nplanes_per_die = 2\nblocks_per_plane = 128\n\
         page_size = \"4 KiB\"\npages_per_block = 16\nspare_factor = 0.4\n\
         tenants = [{{ name = \"a\", size = \"4 MiB\" }}, {{ name = \"b\", size = \"4 MiB\" }}]\nmax_tenants = 4\n\
         isolation = {{ kind = \"shared-space\", contribution = \"1/10\" }}\n",
        export("a", 0),
        export("b", 4),
        export("guest", 8)
    )
}

#[test]
fn tenants_of_a_served_drive_come_grow_and_go_and_survive_kill_9() {
    let dir = tempfile::tempdir().expect("a directory");
    let process = Process::start(&with_slots(), dir.path());
    let tell = |line: &str| {
        let command: Command = line.parse().expect("a command");
        ctl::send(&dir.path().join("ctl.sock"), &command).map_err(|error| error.to_string())
    };
    let page = |fill: u8| vec![fill; PAGE as usize];
    let write = |export: &str, fill: u8| {
        let mut client = Client::connect(&process.socket, export);
        client.send(cmd::WRITE, 0, 0, PAGE as u32, &page(fill));
        client.receive().1
    };
    assert_eq!(write("a", 1), Ok(Vec::new()));
    assert!(write("guest", 2).is_err(), "nobody has this space yet");
    let added = tell("tenant add ssd size=4MiB").expect("there is room");
    assert_eq!((&added["number"], &added["first"]), (&Value::from(3), &Value::from(8 << 20)));
    assert_eq!(write("guest", 2), Ok(Vec::new()));
    for (line, words) in [
        ("tenant add ssd size=1GiB", "no run of"),
        ("tenant resize ssd 9 size=1MiB", "it has no tenant 9; there are: 1, 2, 3"),
        ("tenant resize ssd 1 size=8MiB", "of the logical pages behind it"),
        ("tenant add as size=1MiB", "tenants that come and go"),
        ("tenant add nobody size=1MiB", "unknown device `nobody`"),
    ] {
        let refused = tell(line).expect_err(line);
        assert!(refused.contains(words), "{line}: {refused}");
    }
    process.kill();
    let process = Process::start(&with_slots(), dir.path());
    let read = |export: &str| Client::connect(&process.socket, export).read(0, PAGE as u32);
    assert_eq!((read("a"), read("guest")), (page(1), page(2)), "the new tenant is there after a cut");
    tell("tenant remove ssd 3").expect("it goes");
    assert_eq!(tell("tenant add ssd size=4MiB").expect("there is room")["number"], 3);
    assert_eq!(read("guest"), page(0), "nothing of the old tenant is found");
    assert_eq!(process.status()["devices"]["ssd"]["spaces"].as_array().map(Vec::len), Some(3));
    process.stop();
}

/// A request to another export that is not answered for an hour does not keep a tenant of a drive waiting, nor clients of a third export. The
/// end of the server lifts its limit.
#[test]
fn a_tenant_comes_while_a_request_to_another_device_is_held() {
    let dir = tempfile::tempdir().expect("a directory");
    let stack = format!(
        "{}[export.slow]\ndevice = \"queue\"\ntenant = \"slow\"\n[tenant.slow]\nmax = {{ rbps = 1 }}\n\
         [device.queue]\nkind = \"queue\"\nbelow = \"memory\"\ndepth = 8\n[device.memory]\nkind = \"memory\"\nsize = \"1 MiB\"\n\
         [export.other]\ndevice = \"third\"\n[device.third]\nkind = \"memory\"\nsize = \"1 MiB\"\n",
        with_slots()
    );
    let process = Process::start(&stack, dir.path());
    let mut held = Client::connect(&process.socket, "slow");
    for _ in 0..8 {
        held.send(cmd::READ, 0, 0, 64 << 10, &[]);
    }
    wait_for("a request to be held", || {
        (process.status()["devices"]["queue"]["requests"]["read"].as_u64() >= Some(1)).then_some(())
    });
    assert_eq!(process.ctl("tenant add ssd size=4MiB")["number"], 3);
    assert_eq!(Client::connect(&process.socket, "other").read(0, PAGE as u32), vec![0; PAGE as usize]);
    process.signal(rustix::process::Signal::TERM);
    assert_eq!(held.drain().expect("all are answered"), 0);
    drop(held);
    process.wait();
}

/// `cargo test -p nandu-live --test served_drive -- --ignored --nocapture` prints the served half of the table of docs/experiments/fair-queueing.md.
#[test]
#[ignore = "takes a minute, needs fio, and is a measurement"]
fn shares_of_a_drive_under_fio() {
    if !have("fio") {
        return;
    }
    println!(
        "scheduler: reader and writer per second, reader's share by fio, by the queue while both wait, pace"
    );
    for scheduler in ["kind = \"drr\"", "kind = \"flashfq\"", "kind = \"noop\""] {
        let dir = tempfile::tempdir().expect("a directory");
        let process = Process::start(&documented(scheduler), dir.path());
        ["reader", "writer"].iter().for_each(|export| fill(&process.socket, export));
        let [reader, writer] = std::thread::scope(|scope| {
            let reader = scope.spawn(|| fio(&process.socket, "reader", "randread", "8m"));
            let writer = scope.spawn(|| fio(&process.socket, "writer", "randwrite", "8m"));
            [reader, writer].map(|client| client.join().expect("fio ends"))
        });
        let status = process.status();
        process.stop();
        let (by_fio, queue) = (reader * 100.0 / (reader + writer), share(&status));
        println!(
            "{scheduler}: {reader:.0} {writer:.0}, {by_fio:.1} %, {}.{} %, {}",
            queue / 10,
            queue % 10,
            status["lateness"]
        );
    }
}
