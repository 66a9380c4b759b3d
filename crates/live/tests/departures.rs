//! A leg that leaves says so: who, why, since when, in the log and in the status; and who hangs is left out.

mod common;

use common::client::{Client, request};
use common::process::{Process, be_a_server, have};
use common::small::{self, Small};
use common::{Served, options, wait_for};
use nandu_live::ctl;
use nandu_live::nbd::wire::{self, cmd};
use serde_json::Value;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

const SIZE: u64 = 4 << 20;

#[test]
fn the_server_process() {
    be_a_server();
}

fn file(name: &str, path: &str) -> String {
    format!("[device.{name}]\nkind = \"file\"\npath = \"{path}\"\nsize = {SIZE}\n")
}

/// A mirror of two files.
fn mirror() -> String {
    format!(
        "[export.data]\ndevice = \"m\"\n[device.m]\nkind = \"mirror\"\nlegs = [\"a\", \"b\"]\ninitial_sync = \"assume-clean\"\n{}{}",
        file("a", "a.img"),
        file("b", "b.img")
    )
}

fn member<'a>(device: &'a Value, name: &str) -> &'a Value {
    let members = device["members"].as_array().expect("it says whom it uses");
    members.iter().find(|member| member["name"] == name).expect("it is a member")
}

/// A disk that fails writes as long as a file `trigger` is there: a file of a server of others, without root.
struct Faulty {
    child: Child,
    mount: std::path::PathBuf,
}

impl Faulty {
    fn mount(dir: &Path) -> Faulty {
        let (mount, trigger) = (dir.join("mnt"), dir.join("trigger"));
        std::fs::create_dir(&mount).expect("a directory");
        let child = Command::new("nbdfuse")
            .arg(mount.join("b.img"))
            .args(["[", "nbdkit", "--exit-with-parent", "--filter=error", "memory"])
            .args([format!("size={SIZE}"), "error=EIO".into(), "error-pwrite-rate=100%".into()])
            .args([format!("error-file={}", trigger.display()), "]".into()])
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("it starts");
        let faulty = Faulty { child, mount };
        wait_for("the disk", || faulty.mount.join("b.img").exists().then_some(()));
        faulty
    }
}

impl Drop for Faulty {
    fn drop(&mut self) {
        let _ = Command::new("fusermount3").arg("-u").arg(&self.mount).status();
        let _ = self.child.kill(); // it may have ended
        let _ = self.child.wait();
    }
}

#[test]
fn a_leg_that_fails_a_write_is_named_with_errno_and_time_and_taken_back() {
    if !["nbdfuse", "nbdkit", "fusermount3"].into_iter().all(have) {
        return;
    }
    for (kind, legs, more) in [
        ("mirror", "[\"a\", \"b\"]", "region_size = \"64 KiB\"\ninitial_sync = \"assume-clean\"\n"),
        (
            "parity",
            "[\"a\", \"b\", \"c\"]",
            "chunk = \"16 KiB\"\njournal_size = \"320 KiB\"\ninitial_sync = \"assume-clean\"\n",
        ),
    ] {
        let dir = tempfile::tempdir().expect("a directory");
        let disk = Faulty::mount(dir.path());
        let stack = format!(
            "[export.data]\ndevice = \"m\"\n[device.m]\nkind = \"{kind}\"\nlegs = {legs}\n{more}{}{}{}",
            file("a", "a.img"),
            file("b", "mnt/b.img"),
            if kind == "parity" { file("c", "c.img") } else { String::new() },
        );
        let server = Process::start(&stack, dir.path());
        let m = || server.status()["devices"]["m"].clone();
        let mut client = Client::connect(&server.socket, "data");
        client.write(0, &[1; 4096]);
        client.flush();
        wait_for("the set to be whole", || (m()["health"] == "healthy").then_some(()));
        assert_eq!(*member(&m(), "b"), serde_json::json!({ "name": "b", "use": "used" }));
        std::fs::write(dir.path().join("trigger"), []).expect("a file");
        for n in 0..8 {
            client.write(n * 65_536, &[2; 16_384]);
        }
        client.flush();
        wait_for("the leg to be out", || (member(&m(), "b")["use"] == "out").then_some(()));
        let (m_now, b) = (m(), member(&m(), "b").clone());
        assert_eq!(b["errno"], 5, "{b}");
        assert!(b["why"].as_str().is_some_and(|why| why.contains("write failed: Input/output error")), "{b}");
        assert!(
            b["since"].as_str().is_some_and(|since| since.starts_with("20") && since.ends_with('Z')),
            "{b}"
        );
        assert_eq!((&m_now["health"], &member(&m_now, "a")["use"]), (&"degraded".into(), &"used".into()));
        let line = wait_for("the log to name it", || {
            server.log().lines().find(|line| line.contains("m: `b` is left out")).map(String::from)
        });
        assert!(line.contains("Input/output error") && line.contains("`nandu ctl SOCKET add b`"), "{line}");
        assert!(line.contains("Z warn "), "{line}");
        std::fs::remove_file(dir.path().join("trigger")).expect("it is there");
        assert_eq!(server.ctl("add b")["state"], "active");
        wait_for("the set to be whole", || (m()["health"] == "healthy").then_some(()));
        assert_eq!(*member(&m(), "b"), serde_json::json!({ "name": "b", "use": "used" }));
        wait_for("the log to say so", || server.log().contains("m: `b` is used again").then_some(()));
        client.disconnect();
        server.stop();
        drop(disk);
    }
}

/// A leg whose file system is full is left out and says why, and is taken back when there is room. The client of a file alone gets the error, and one of
/// a file whose space was allocated never does. Needs root, for the file system.
#[test]
fn a_full_disk_costs_a_mirror_a_leg_and_an_allocated_file_nothing() {
    const NO_SPACE: u32 = 28;
    let dir = tempfile::tempdir().expect("a directory");
    let full = dir.path().join("full");
    std::fs::create_dir(&full).expect("a directory");
    let Some(_small) = Small::mount(&full, 3 * SIZE) else { return };
    let stack = format!(
        "[export.data]\ndevice = \"m\"\n[export.alone]\ndevice = \"alone\"\n[export.whole]\ndevice = \"whole\"\n\
         [device.m]\nkind = \"mirror\"\nlegs = [\"a\", \"b\"]\nregion_size = \"64 KiB\"\ninitial_sync = \"assume-clean\"\n{}{}{}{}",
        file("a", "a.img"),
        file("b", "full/b.img"),
        file("alone", "full/alone.img"),
        file("whole", "full/whole.img"),
    );
    std::fs::write(full.join("whole.img"), vec![0; SIZE as usize]).expect("there is room");
    let server = Process::start(&stack, dir.path());
    let m = || server.status()["devices"]["m"].clone();
    let [mut mirror, mut alone, mut whole] =
        ["data", "alone", "whole"].map(|export| Client::connect(&server.socket, export));
    mirror.write(0, &[1; 4096]);
    mirror.flush();
    wait_for("the set to be whole", || (m()["health"] == "healthy").then_some(()));
    small::fill(&full);
    for n in 0..32 {
        mirror.write(n * 65_536, &[2; 16_384]);
    }
    mirror.flush();
    wait_for("the leg to be out", || (member(&m(), "b")["use"] == "out").then_some(()));
    let b = member(&m(), "b").clone();
    assert_eq!(b["errno"], NO_SPACE, "{b}");
    assert!(b["why"].as_str().is_some_and(|why| why.contains("No space left on device")), "{b}");
    let failed = (0..32).find_map(|n| alone.call(cmd::WRITE, 0, n * 65_536, 16_384, &[3; 16_384]).err());
    assert_eq!(failed, Some(NO_SPACE), "nothing else has what it holds");
    whole.write(SIZE - 65_536, &[4; 65_536]);
    whole.flush();
    small::make_room(&full);
    assert_eq!(server.ctl("add b")["state"], "active");
    wait_for("the set to be whole", || (m()["health"] == "healthy").then_some(()));
    assert_eq!(mirror.read(31 * 65_536, 16_384), [2; 16_384]);
    alone.write(SIZE - 65_536, &[5; 65_536]);
    [mirror, alone, whole].into_iter().for_each(Client::disconnect);
    server.stop();
    let [a, b] = ["a.img", "full/b.img"].map(|leg| std::fs::read(dir.path().join(leg)).expect("it is there"));
    assert!(a[..32 * 65_536] == b[..32 * 65_536], "the legs read the same");
}

#[test]
fn a_leg_that_is_failed_by_command_says_so() {
    let dir = tempfile::tempdir().expect("a directory");
    let stack = mirror();
    let served = Served::start(options(&stack, dir.path()));
    let send = |line: &str| ctl::send(&served.control, &line.parse().expect("a command"));
    send("fail b").expect("it can be failed");
    let status = served.status();
    let b = member(&status["devices"]["m"], "b");
    assert!(b["use"] == "out" && b["why"] == "it was given up by command" && b["errno"].is_null(), "{b}");
    let leg = &status["devices"]["b"];
    assert!(
        leg["state"] == "faulty" && leg["error"] == "given up by command" && leg["since"].is_string(),
        "{leg}"
    );
    send("add b").expect("it can be taken back");
    let status = served.status();
    assert!(
        status["devices"]["b"]["since"].is_null() && member(&status["devices"]["m"], "b")["why"].is_null()
    );
}

/// The leg stands still for three seconds, from 0.3 s after the start on.
#[test]
fn a_leg_that_hangs_is_left_out_and_comes_back_by_itself() {
    for (kind, legs, counter, more) in [
        (
            "mirror",
            "[\"a\", \"fb\"]",
            "leg_b_timeouts",
            "region_size = \"64 KiB\"\ninitial_sync = \"assume-clean\"\n",
        ),
        (
            "parity",
            "[\"a\", \"fb\", \"c\"]",
            "legs_timed_out",
            "chunk = \"16 KiB\"\njournal_size = \"320 KiB\"\ninitial_sync = \"assume-clean\"\n",
        ),
    ] {
        let dir = tempfile::tempdir().expect("a directory");
        let stack = format!(
            "[export.data]\ndevice = \"m\"\n[device.m]\nkind = \"{kind}\"\nlegs = {legs}\nrequest_timeout = \"1 s\"\n{more}\
             [device.fb]\nkind = \"fault\"\nbelow = \"b\"\n\
             freeze = {{ kind = \"at\", at = \"300 ms\", duration = \"3 s\" }}\n{}{}{}",
            file("a", "a.img"),
            file("b", "b.img"),
            if kind == "parity" { file("c", "c.img") } else { String::new() },
        );
        let served = Served::start(options(&stack, dir.path()));
        let m = || served.status()["devices"]["m"].clone();
        let mut client = served.connect("data");
        let mut writes = 0_u64;
        while m()["counters"][counter] == 0 {
            client.write(writes % 64 * 16_384, &[writes as u8; 16_384]);
            writes += 1;
            assert!(writes < 1_000_000, "it never hangs");
        }
        // What was asked while it hung was answered, and what is asked now is answered at once.
        for n in 0..64 {
            client.write(n * 16_384, &[n as u8; 16_384]);
            assert_eq!(client.read(n * 16_384, 16_384), vec![n as u8; 16_384]);
        }
        wait_for("the leg to come back", || (m()["health"] == "healthy").then_some(()));
        assert_eq!((&m()["counters"][counter], &member(&m(), "fb")["use"]), (&1.into(), &"used".into()));
        for n in 0..64 {
            assert_eq!(client.read(n * 16_384, 16_384), vec![n as u8; 16_384]);
        }
        client.disconnect();
        served.stop();
    }
}

/// A mirror on its last leg loses that too, and gets it back. What was answered meanwhile may be gone, and a client that had nothing under way
/// hears of it from its next flush; a client that comes later has nothing to hear.
#[test]
fn the_first_flush_after_a_loss_fails() {
    let dir = tempfile::tempdir().expect("a directory");
    let stack = mirror();
    let server = Process::start(&stack, dir.path());
    let (mut one, mut other) =
        (Client::connect(&server.socket, "data"), Client::connect(&server.socket, "data"));
    let mut silent = Client::connect(&server.socket, "data");
    let flush = |client: &mut Client| client.call(cmd::FLUSH, 0, 0, 0, &[]).err();
    let health = || server.status()["devices"]["m"]["health"].clone();
    let lose_all_and_come_back = || {
        server.ctl("fail b");
        server.ctl("fail a --force");
        wait_for("the mirror to fail", || (health() == "failed").then_some(()));
        server.ctl("add a");
        server.ctl("add b");
        wait_for("the mirror to be whole", || (health() == "healthy").then_some(()));
    };
    one.write(0, &[1; 4096]);
    assert_eq!((flush(&mut one), flush(&mut other)), (None, None));
    lose_all_and_come_back();
    assert_eq!((flush(&mut one), flush(&mut other)), (None, None), "nothing was written since");
    one.write(0, &[2; 4096]);
    lose_all_and_come_back();
    const EIO: u32 = 5;
    assert_eq!((flush(&mut one), flush(&mut other)), (Some(EIO), Some(EIO)));
    assert_eq!(flush(&mut silent), Some(EIO), "it was there, and had asked for nothing");
    assert_eq!((flush(&mut one), flush(&mut other)), (None, None), "each hears it once");
    let mut later = Client::connect(&server.socket, "data");
    assert_eq!(flush(&mut later), None);
    // A flush beside a write does not cover it: both succeed, and the write may be gone all the same.
    let beside =
        [request(cmd::WRITE, 0, 90, 0, 4096), vec![3; 4096], request(cmd::FLUSH, 0, 91, 0, 0)].concat();
    (&one.stream).write_all(&beside).expect("the server listens");
    let mut replies = [0; 32];
    one.stream.read_exact(&mut replies).expect("both are answered");
    for reply in replies.chunks(16) {
        assert_eq!(
            &reply[..8],
            &[&wire::SIMPLE_REPLY_MAGIC.to_be_bytes()[..], &[0; 4]].concat(),
            "without an error"
        );
    }
    lose_all_and_come_back();
    assert_eq!(flush(&mut one), Some(EIO));
    for client in [one, other, silent, later] {
        client.disconnect();
    }
    server.stop();
}

/// Layers that do not flush by themselves at the end: the server syncs the files, and says when it cannot.
#[test]
fn an_end_makes_plain_files_durable_or_says_that_it_cannot() {
    for (layer, legs) in [("stripe", "legs = [\"a\", \"b\"]"), ("concat", "parts = [\"a\", \"b\"]")] {
        let dir = tempfile::tempdir().expect("a directory");
        let stack = format!(
            "[export.data]\ndevice = \"top\"\n[device.top]\nkind = \"{layer}\"\n{legs}\n{}{}",
            file("a", "a.img"),
            file("b", "b.img")
        );
        let served = Served::start(options(&stack, dir.path()));
        let mut client = served.connect("data");
        client.write(0, &[1; 4096]);
        client.disconnect();
        // A file that was deleted is found out by a sync, and by nothing else.
        std::fs::remove_file(dir.path().join("b.img")).expect("it is there");
        let error = served.try_stop().expect_err("the end cannot make it durable").to_string();
        assert!(error.contains("device `b`") && error.contains("cannot be synced"), "{error}");
        let served = Served::start(options(&stack, dir.path()));
        let mut client = served.connect("data");
        client.write(0, &[1; 4096]);
        client.disconnect();
        served.stop();
    }
}

/// A cache that cannot write back what it has answered until it is closed, and a stripe that lost a leg with something unflushed on it.
#[test]
fn an_end_that_loses_what_was_answered_is_no_clean_end() {
    let dir = tempfile::tempdir().expect("a directory");
    let stack = format!(
        "[export.data]\ndevice = \"c\"\n[device.c]\nkind = \"cache\"\nbelow = \"f\"\nsize = \"1 MiB\"\nwrite = {{ kind = \"writeback\", dirty_expire = \"1 h\" }}\n\
         [device.f]\nkind = \"fault\"\nbelow = \"a\"\nwrite_error_rate = 1\n{}",
        file("a", "a.img")
    );
    let served = Served::start(options(&stack, dir.path()));
    let mut client = served.connect("data");
    client.write(0, &[1; 4096]);
    client.disconnect();
    let error = served.try_stop().expect_err("nothing could be written").to_string();
    assert!(error.contains("device `c`") && error.contains("not flushed may be gone"), "{error}");

    let stack = format!(
        "[export.data]\ndevice = \"top\"\n[device.top]\nkind = \"stripe\"\nlegs = [\"a\", \"b\"]\n{}{}",
        file("a", "a.img"),
        file("b", "b.img")
    );
    for flushed in [false, true] {
        let served = Served::start(options(&stack, dir.path()));
        let mut client = served.connect("data");
        client.write(0, &[1; 4096]);
        if flushed {
            client.flush();
        }
        client.disconnect();
        let fail = "fail b --force".parse().expect("a command");
        ctl::send(&served.control, &fail).expect("it answers");
        let ended = served.try_stop();
        assert_eq!(ended.is_ok(), flushed, "{:?}", ended.err().map(|error| error.to_string()));
    }
}

/// Layers between a file and the mirror that left it out hand its return on: `add` takes it back.
#[test]
fn a_leg_below_other_layers_is_taken_back() {
    if !["nbdfuse", "nbdkit", "fusermount3"].into_iter().all(have) {
        return;
    }
    for between in [
        "kind = \"integrity\"\nbelow = \"b\"",
        "kind = \"fault\"\nbelow = \"b\"",
        "kind = \"stripe\"\nlegs = [\"b\"]",
    ] {
        let dir = tempfile::tempdir().expect("a directory");
        let _disk = Faulty::mount(dir.path());
        let stack = format!(
            "[export.data]\ndevice = \"m\"\n[device.m]\nkind = \"mirror\"\nlegs = [\"a\", \"i\"]\ninitial_sync = \"assume-clean\"\n\
             [device.i]\n{between}\n{}{}",
            file("a", "a.img"),
            file("b", "mnt/b.img"),
        );
        let server = Process::start(&stack, dir.path());
        let m = || server.status()["devices"]["m"].clone();
        let mut client = Client::connect(&server.socket, "data");
        client.write(0, &[1; 4096]);
        client.flush();
        wait_for("the set to be whole", || (m()["health"] == "healthy").then_some(()));
        std::fs::write(dir.path().join("trigger"), []).expect("a file");
        client.write(0, &[2; 16_384]);
        client.flush();
        wait_for("the leg to be out", || (member(&m(), "i")["use"] == "out").then_some(()));
        std::fs::remove_file(dir.path().join("trigger")).expect("it is there");
        // The layers between may still be opening when it is answered.
        assert_eq!(server.ctl("add b")["ok"], true);
        wait_for("it to be used again", || (m()["health"] == "healthy").then_some(()));
        client.disconnect();
        server.stop();
    }
}

/// The status is asked for in the same breath, while the other leg is still being told that it is alone.
#[test]
fn a_leg_that_is_given_up_is_out_at_once_and_the_reason_is_told() {
    for kind in ["mirror", "parity"] {
        let dir = tempfile::tempdir().expect("a directory");
        let stack = match kind {
            "mirror" => mirror(),
            _ => format!(
                "[export.data]\ndevice = \"m\"\n[device.m]\nkind = \"parity\"\nlegs = [\"a\", \"b\", \"c\"]\nchunk = \"16 KiB\"\n\
                 journal_size = \"320 KiB\"\ninitial_sync = \"assume-clean\"\n{}{}{}",
                file("a", "a.img"),
                file("b", "b.img"),
                file("c", "c.img")
            ),
        };
        let served = Served::start(options(&stack, dir.path()));
        wait_for("the set to be whole", || {
            (served.status()["devices"]["m"]["health"] == "healthy").then_some(())
        });
        let mut client = served.connect("data");
        client.write(0, &[1; 4096]);
        let mut stream = std::os::unix::net::UnixStream::connect(&served.control).expect("it listens");
        stream.write_all(b"fail b\nstatus\n").expect("it listens");
        let mut lines = std::io::BufRead::lines(std::io::BufReader::new(stream)).map_while(Result::ok);
        let mut answer =
            || -> Value { serde_json::from_str(&lines.next().expect("an answer")).expect("JSON") };
        assert_eq!(answer()["state"], "faulty");
        let status = answer();
        let b = member(&status["devices"]["m"], "b");
        assert_eq!(
            (&b["use"], &b["why"]),
            (&"out".into(), &"it was given up by command".into()),
            "{kind}: {b}"
        );
        assert!(b["since"].is_string(), "{b}");
        client.disconnect();
        served.stop();
    }
}
