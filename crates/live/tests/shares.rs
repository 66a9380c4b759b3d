//! Tenants that share a device behind a fair queue, served: one export each, both always with something waiting.
//!
//! What is compared is what the queue itself has counted: the cost that it sent for each tenant while the other waited too. No clock is
//! looked at.

mod common;

use common::client::Client;
use common::process::{Process, be_a_server, fio, have};
use common::{Served, options};
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
/// Requests that each client keeps outstanding.
const OUTSTANDING: usize = 96;

/// Two exports over one queue, over memory that takes a millisecond for a request; four are on their way at a time.
fn stack(scheduler: &str) -> String {
    let export = |name: &str, weight: u16, offset: u64| {
        format!(
            "[export.{name}]\ndevice = \"{name}s\"\ntenant = \"{name}\"\n[tenant.{name}]\nweight = {weight}\n\
             [device.{name}s]\nkind = \"slice\"\nbelow = \"queue\"\noffset = {offset}\nsize = \"4 MiB\"\n"
        )
    };
    format!(
        "{}{}[device.queue]\nkind = \"queue\"\nbelow = \"slow\"\ndepth = 4\nscheduler = {{ {scheduler} }}\n\
         [device.slow]\nkind = \"fault\"\nbelow = \"leaf\"\ndelay = \"1 ms\"\n\
         [device.leaf]\nkind = \"memory\"\nsize = \"8 MiB\"\n",
        export("read", 300, 0),
        export("write", 100, 4 << 20)
    )
}

/// Keeps requests outstanding until `replies` have come, then takes the rest.
fn keep_busy(socket: &Path, export: &str, command: u16, replies: usize) {
    let mut client = Client::connect(socket, export);
    let mut rng = Rng::new(u64::from(command) + 1);
    let data = vec![7; if command == cmd::WRITE { PAGE as usize } else { 0 }];
    let pages = client.size / PAGE;
    let mut outstanding = 0;
    for _ in 0..replies {
        while outstanding < OUTSTANDING {
            client.send(command, 0, rng.below(pages) * PAGE, PAGE as u32, &data);
            outstanding += 1;
        }
        assert!(client.receive().1.is_ok());
        outstanding -= 1;
    }
    (0..outstanding).for_each(|_| drop(client.receive()));
    client.disconnect();
}

/// Cost that was sent for the reader and the writer while both waited.
fn contended(status: &Value) -> [u64; 2] {
    let counters = &status["devices"]["queue"]["counters"];
    ["tenant_1_contended_cost_ns", "tenant_2_contended_cost_ns"]
        .map(|name| counters[name].as_u64().expect(name))
}

/// Thousandths that the reader has of what both were sent.
fn share([reader, writer]: [u64; 2]) -> u64 {
    assert!(reader + writer > 0, "nobody ever waited");
    reader * 1000 / (reader + writer)
}

/// A reader of weight 300 and a writer of weight 100, both as fast as they may: thousandths of the contended cost that the reader
/// gets.
fn served_share(scheduler: &str) -> u64 {
    let dir = tempfile::tempdir().expect("a directory");
    let served = Served::start(options(&stack(scheduler), dir.path()));
    std::thread::scope(|scope| {
        // By cost a read is an eighth of a write, so that the reader is served 24 times as often.
        scope.spawn(|| keep_busy(&served.socket, "read", cmd::READ, 4800));
        scope.spawn(|| keep_busy(&served.socket, "write", cmd::WRITE, 200));
    });
    let share = share(contended(&served.status()));
    served.stop();
    share
}

#[test]
fn those_who_share_cost_serve_by_weight() {
    for scheduler in ["kind = \"drr\"", "kind = \"flashfq\"", "kind = \"fios\", anticipation = \"0 ms\""] {
        let share = served_share(scheduler);
        assert!((712..=788).contains(&share), "{scheduler}: the reader has {share} thousandths, not 750");
    }
}

#[test]
fn without_a_scheduler_the_writer_has_what_it_takes() {
    let share = served_share("kind = \"noop\"");
    assert!(share < 300, "the reader has {share} thousandths: the test shows nothing");
}

#[test]
fn a_weight_that_is_set_while_it_is_served_holds_from_there_on() {
    let dir = tempfile::tempdir().expect("a directory");
    let served = Served::start(options(&stack("kind = \"drr\""), dir.path()));
    let tell = |line: &str| ctl::send(&served.control, &line.parse::<Command>().expect("a command"));
    let answer = tell("set read weight=100").expect("it is done");
    assert_eq!((&answer["weight"], &answer["number"]), (&Value::from(100), &Value::from(1)));
    std::thread::scope(|scope| {
        scope.spawn(|| keep_busy(&served.socket, "read", cmd::READ, 2400));
        scope.spawn(|| keep_busy(&served.socket, "write", cmd::WRITE, 300));
    });
    let equal = share(contended(&served.status()));
    assert!((475..=525).contains(&equal), "with equal weights the reader has {equal} thousandths");
    for (line, word) in [
        ("set nobody weight=5", "read, write"),
        ("set read weight=0", "1 to 10000"),
        ("set read riops=0", "riops"),
        ("set read weight=7 wbps=0", "wbps"),
    ] {
        let refused = tell(line).expect_err(line).to_string();
        assert!(refused.contains(word), "{line}: {refused}");
    }
    let tenants = &served.status()["tenants"];
    assert_eq!((&tenants[0]["weight"], &tenants[1]["weight"]), (&Value::from(100), &Value::from(100)));
    served.stop();
}

#[test]
fn limits_are_set_and_lifted_while_requests_wait() {
    let dir = tempfile::tempdir().expect("a directory");
    let served = Served::start(options(&stack("kind = \"drr\""), dir.path()));
    let tell = |line: &str| ctl::send(&served.control, &line.parse::<Command>().expect("a command"));
    // A page takes over an hour: what is asked behind the first is not answered before the limit is gone.
    tell("set read rbps=1").expect("it is done");
    let mut client = Client::connect(&served.socket, "read");
    for page in 0..8 {
        client.send(cmd::READ, 0, page * PAGE, PAGE as u32, &[]);
    }
    let held = || served.status()["devices"]["queue"]["counters"]["throttled_requests"].as_u64();
    common::wait_for("requests to be held", || (held() == Some(7)).then_some(()));
    tell("set read rbps=max").expect("it is done");
    (0..8).for_each(|_| assert!(client.receive().1.is_ok()));
    client.disconnect();
    served.stop();
}

/// The stack file of docs/experiments/fair-queueing.md, with another scheduler.
fn documented(scheduler: &str) -> String {
    let stack = include_str!("../../../stacks/served-tenants.toml");
    let line = "scheduler = { kind = \"drr\" }";
    assert!(stack.contains(line));
    stack.replace(line, &format!("scheduler = {{ {scheduler} }}"))
}

/// `cargo test -p nandu-live --test shares -- --ignored --nocapture` prints the served half of the table of docs/experiments/fair-queueing.md.
#[test]
#[ignore = "takes minutes, needs fio, and is a measurement"]
fn shares_under_fio() {
    if !have("fio") {
        return;
    }
    println!("scheduler: reader and writer per second, reader's share by fio, by the queue while both wait");
    for scheduler in [
        "kind = \"drr\"",
        "kind = \"flashfq\"",
        "kind = \"fios\"",
        "kind = \"vssd\", channels = 2, channel_depth = 2",
        "kind = \"cffq\"",
        "kind = \"cfq\", slices = \"slo\"",
        "kind = \"cfq\"",
        "kind = \"deadline\"",
        "kind = \"noop\"",
    ] {
        let dir = tempfile::tempdir().expect("a directory");
        let process = Process::start(&documented(scheduler), dir.path());
        let [reader, writer] = std::thread::scope(|scope| {
            let reader = scope.spawn(|| fio(&process.socket, "reader", "randread", "32m"));
            let writer = scope.spawn(|| fio(&process.socket, "writer", "randwrite", "32m"));
            [reader, writer].map(|client| client.join().expect("fio ends"))
        });
        let queue = share(contended(&process.status()));
        process.stop();
        let by_fio = reader * 100.0 / (reader + writer);
        println!("{scheduler}: {reader:.0} {writer:.0}, {by_fio:.1} %, {}.{} %", queue / 10, queue % 10);
    }
}
