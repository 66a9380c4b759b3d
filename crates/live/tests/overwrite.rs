//! What is not overwritten: files with something in them are refused as legs, and stay what they were.

mod common;

use common::client::Client;
use common::{Served, options, wait_for};
use nandu_live::{ServeError, ServeOptions, ctl};
use serde_json::Value;
use std::path::Path;

const SIZE: u64 = 4 << 20;

fn leg(name: &str) -> String {
    format!("[device.{name}]\nkind = \"file\"\npath = \"{name}.img\"\nsize = {SIZE}\n")
}

/// An array of a kind over legs a, b and more.
fn stack(kind: &str, legs: &[&str]) -> String {
    let files: String = legs.iter().map(|name| leg(name)).collect();
    let more = match kind {
        "mirror" => "region_size = \"64 KiB\"\nbitmap_delay = \"10 ms\"\n",
        _ => "chunk = \"16 KiB\"\njournal_size = \"320 KiB\"\n",
    };
    format!("[export.data]\ndevice = \"m\"\n[device.m]\nkind = \"{kind}\"\nlegs = {legs:?}\n{more}{files}")
}

fn mirror() -> String {
    stack("mirror", &["a", "b"])
}

fn ask(server: &Served, command: &str) -> Result<Value, String> {
    let command: ctl::Command = command.parse().expect("a command");
    ctl::send(&server.control, &command).map_err(|error| error.to_string())
}

fn whole(server: &Served) {
    wait_for("the mirror to be whole", || {
        (server.status()["devices"]["m"]["health"] == "healthy").then_some(())
    });
}

/// A file of `len` bytes, sparse but for a few bytes at each of `data`.
fn put(path: &Path, len: u64, data: &[u64]) -> Vec<u8> {
    use std::os::unix::fs::FileExt;
    let file = std::fs::File::create(path).expect("a file");
    file.set_len(len).expect("it is sparse");
    data.iter().for_each(|&at| file.write_all_at(b"hello", at).expect("room"));
    std::fs::read(path).expect("it is there")
}

/// The message of a start that is refused as wrong input.
fn refused(options: ServeOptions) -> String {
    let error: ServeError = Served::try_start(options).err().expect("it is refused");
    assert_eq!(error.exit_code(), 2, "{error}");
    error.to_string()
}

#[test]
fn a_replacement_that_holds_something_is_refused_and_stays_as_it_is() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = Served::start(options(&mirror(), dir.path()));
    whole(&server);
    let cases = [
        ("fs.img", SIZE, &[1080][..], "its first byte that is not zero is at 1080;"),
        ("last.img", SIZE, &[SIZE - 70_000][..], "is at 4124304;"),
        ("notes.txt", 18, &[0][..], "is at 0;"),
        ("small.bin", 3000, &[2990][..], "is at 2990;"),
    ];
    for (name, len, data, said) in cases {
        let path = dir.path().join(name);
        let before = put(&path, len, data);
        let no = ask(&server, &format!("replace b with {name}")).expect_err("it holds data");
        assert!(no.contains(said) && no.contains(name), "{no}");
        assert_eq!(std::fs::read(&path).expect("it is there"), before, "{name} is changed");
        assert_eq!(server.status()["devices"]["m"]["health"], "healthy", "the old leg serves on");
    }
    // In its own place, too.
    let no = ask(&server, "replace b").expect_err("b is in use");
    assert!(no.contains("b.img: it holds data"), "{no}");
    assert_eq!(server.status()["devices"]["b"]["state"], "active");
    for (name, what) in [("a.img", "leg `a` of this server"), ("b.img", "leg `b` of this server")] {
        let no = ask(&server, &format!("replace b with {name}")).expect_err("it is in use");
        assert!(no.contains(what), "{no}");
    }
    let no = ask(&server, "replace b with /dev/null").expect_err("it is not a place for data");
    assert!(no.contains("neither a regular file nor a block device"), "{no}");
    // What is blank is taken: one that is not there, and a short one that is empty or holds zeros.
    put(&dir.path().join("zeros"), 512, &[]);
    for name in ["new ü.img", "zeros"] {
        ask(&server, &format!("replace b with {name}")).expect("nothing is in it");
        whole(&server);
        assert_eq!(std::fs::metadata(dir.path().join(name)).expect("it is there").len(), SIZE);
    }
}

#[test]
fn the_stack_file_is_never_a_leg() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("m.toml");
    let text = mirror();
    std::fs::write(&file, &text).expect("a file");
    let with_file = |text: &str| ServeOptions { stack_file: Some(file.clone()), ..options(text, dir.path()) };
    let server = Served::start(with_file(&text));
    whole(&server);
    let no = ask(&server, "replace b with m.toml").expect_err("it is the stack file");
    assert!(no.contains("it is the stack file"), "{no}");
    server.stop();
    let no = refused(with_file(&text.replace("b.img", "m.toml")));
    assert!(no.contains("device `b`") && no.contains("it is the stack file itself"), "{no}");
    assert_eq!(std::fs::read_to_string(&file).expect("it is there"), text);
}

#[test]
fn what_a_refused_replacement_made_is_taken_away() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = Served::start(options(&mirror(), dir.path()));
    whole(&server);
    ask(&server, "fail b").expect("a has everything");
    ask(&server, "fail a --force").expect("it is told");
    put(&dir.path().join("short"), 100, &[]);
    for name in ["z.img", "short"] {
        let no = ask(&server, &format!("replace a with {name}")).expect_err("only a holds the data");
        assert!(no.contains("`a` is not replaced: no leg may serve now"), "{no}");
    }
    assert!(!dir.path().join("z.img").exists());
    assert_eq!(std::fs::metadata(dir.path().join("short")).expect("it is there").len(), 100);
    server.stop();
    let plain = format!("[export.data]\ndevice = \"c\"\n{}", leg("c"));
    let server = Served::start(options(&plain, dir.path()));
    ask(&server, "fail c --force").expect("it is told");
    let no = ask(&server, "replace c with z.img").expect_err("nothing can fill it");
    assert!(no.contains("no device above it can fill another leg"), "{no}");
    assert!(!dir.path().join("z.img").exists());
    assert_eq!(server.status()["devices"]["c"]["state"], "faulty");
}

#[test]
fn a_first_start_takes_nothing_that_holds_data() {
    for kind in ["mirror", "parity"] {
        let text = stack(kind, &["a", "b", "c"][..if kind == "mirror" { 2 } else { 3 }]);
        for (len, at) in [(8900, 3), (1000, 999), (SIZE, 0), (SIZE, 2_000_000)] {
            let dir = tempfile::tempdir().expect("a directory");
            let path = dir.path().join("b.img");
            let before = put(&path, len, &[at]);
            let no = refused(options(&text, dir.path()));
            assert!(no.contains("device `b`") && no.contains(&format!("is at {at}")), "{kind}: {no}");
            assert_eq!(std::fs::read(&path).expect("it is there"), before, "{kind}: it is changed");
            assert!(!dir.path().join("a.img").exists(), "{kind}: nothing is made by a start that is refused");
            // Nothing in the way of those who empty it.
            put(&path, 0, &[]);
            Served::start(options(&text, dir.path())).stop();
            Served::start(options(&text, dir.path())).stop();
        }
    }
}

#[test]
fn a_start_that_fails_later_leaves_no_files_behind() {
    let dir = tempfile::tempdir().expect("a directory");
    Served::start(options(&mirror(), dir.path())).stop();
    // Its records are a mirror's: the device finds that out when it opens its legs.
    let text = stack("parity", &["a", "c", "d"]);
    put(&dir.path().join("d.img"), 4096, &[]);
    refused(options(&text, dir.path()));
    assert!(!dir.path().join("c.img").exists());
    assert_eq!(std::fs::metadata(dir.path().join("d.img")).expect("it is there").len(), 4096);
    Served::start(options(&mirror(), dir.path())).stop();
}

#[test]
fn a_leg_has_one_name() {
    let dir = tempfile::tempdir().expect("a directory");
    put(&dir.path().join("a.img"), SIZE, &[]);
    std::os::unix::fs::symlink("a.img", dir.path().join("b.img")).expect("a link");
    let no = refused(options(&mirror(), dir.path()));
    assert!(no.contains("device `b`") && no.contains("it is leg `a` already"), "{no}");
}

#[test]
fn a_file_that_is_served_as_it_is_may_hold_what_it_likes_and_a_part_of_one_that_is_a_leg_may_not() {
    let dir = tempfile::tempdir().expect("a directory");
    let before = put(&dir.path().join("c.img"), SIZE, &[12_345]);
    let plain = format!("[export.data]\ndevice = \"c\"\n{}", leg("c"));
    Served::start(options(&plain, dir.path())).stop();
    assert_eq!(std::fs::read(dir.path().join("c.img")).expect("it is there"), before);
    let part = |name: &str, offset: u64| {
        format!("[device.{name}]\nkind = \"slice\"\nbelow = \"c\"\noffset = {offset}\nsize = \"2 MiB\"\n")
    };
    let halves = format!(
        "[export.data]\ndevice = \"m\"\n[device.m]\nkind = \"mirror\"\nlegs = [\"x\", \"y\"]\nregion_size = \"64 KiB\"\n{}{}{}",
        part("x", 0),
        part("y", 2 << 20),
        leg("c")
    );
    assert!(refused(options(&halves, dir.path())).contains("is at 12345"));
    put(&dir.path().join("c.img"), SIZE, &[]);
    for _ in 0..2 {
        Served::start(options(&halves, dir.path())).stop();
    }
}

/// A start with `create` lets the mirror fill what is blank: also what was put where a leg was.
#[test]
fn a_file_that_was_put_where_a_leg_was_is_not_filled() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = Served::start(options(&mirror(), dir.path()));
    whole(&server);
    ask(&server, "fail b").expect("a has everything");
    let (b, aside) = (dir.path().join("b.img"), dir.path().join("aside"));
    std::fs::rename(&b, &aside).expect("it is there");
    let before = put(&b, SIZE, &[777]);
    let no = ask(&server, "add b").expect_err("it holds data");
    assert!(no.contains("is at 777") && no.contains("it is not the file that was here"), "{no}");
    assert_eq!(std::fs::read(&b).expect("it is there"), before);
    std::fs::rename(&aside, &b).expect("it is there");
    assert_eq!(ask(&server, "add b").expect("it is the old one")["state"], "active");
    whole(&server);
}

#[test]
fn the_answer_says_what_the_mirror_did_with_the_leg() {
    let dir = tempfile::tempdir().expect("a directory");
    let dirs = [dir.path(), &dir.path().join("other")];
    std::fs::create_dir(dirs[1]).expect("a directory");
    Served::start(options(&mirror(), dirs[1])).stop();
    let server = Served::start(options(&mirror(), dirs[0]));
    whole(&server);
    ask(&server, "fail a").expect("b has everything");
    std::fs::copy(dirs[1].join("a.img"), dirs[0].join("a.img")).expect("both are there");
    let no = ask(&server, "add a").expect_err("it is of another mirror");
    assert!(no.contains("`m` does not take `a`"), "{no}");
    let counters = server.status()["devices"]["m"]["counters"].clone();
    assert_eq!((&counters["leg_a_is_member"], &counters["rejoins_refused"]), (&0.into(), &1.into()));
    let no = ask(&server, "replace a with other/b.img").expect_err("it is a leg of another mirror");
    assert!(no.contains("it holds data"), "{no}");
    ask(&server, "replace a with fresh.img").expect("b has everything");
    assert_eq!(server.status()["devices"]["m"]["counters"]["leg_a_is_member"], 1);
    assert!(dirs[0].join("fresh.img").exists());
    whole(&server);
}

#[test]
fn the_last_good_leg_is_failed_by_an_explicit_word_only() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = Served::start(options(&mirror(), dir.path()));
    let mut client = Client::connect(&server.socket, "data");
    client.write(0, &[7; 4096]);
    whole(&server);
    ask(&server, "fail a").expect("b has everything");
    let no = ask(&server, "fail b").expect_err("nobody else has everything");
    assert!(no.contains("`m` cannot serve without `b`") && no.contains("`fail b --force`"), "{no}");
    assert_eq!(client.read(0, 512), [7; 512]);
    ask(&server, "fail b --force").expect("that is what was said");
    assert_eq!(server.status()["devices"]["m"]["health"], "failed");
    let answer = ask(&server, "add a").expect("it can be opened");
    assert_eq!(answer["state"], "waiting", "a was left behind by b: {answer}");
    assert_eq!(ask(&server, "add b").expect("it can be opened")["state"], "active");
    ask(&server, "scrub m report").expect("the mirror serves when its leg is said to be active");
    whole(&server);
    assert_eq!(client.read(0, 512), [7; 512]);
    let unsaved =
        server.try_stop().expect_err("what was answered was never flushed, and nobody has heard of the loss");
    assert!(matches!(unsaved, ServeError::Unsaved { .. }), "{unsaved}");
}

#[test]
fn a_share_that_nothing_looks_at_is_not_set() {
    let dir = tempfile::tempdir().expect("a directory");
    let text = format!("{}[tenant.data]\nweight = 3\n", mirror())
        .replace("device = \"m\"", "device = \"m\"\ntenant = \"data\"");
    let server = Served::start(options(&text, dir.path()));
    let no = ask(&server, "set data weight=5").expect_err("nothing weighs it");
    assert!(no.contains("no `queue` serves the exports of `data`"), "{no}");
    assert_eq!(server.status()["tenants"][0]["weight"], 3);
}

#[test]
fn a_device_that_hands_requests_on_tells_no_latency() {
    let dir = tempfile::tempdir().expect("a directory");
    let text = "[export.data]\ndevice = \"f\"\n[device.f]\nkind = \"fault\"\nbelow = \"leaf\"\ndelay = \"1 ms\"\n\
        [device.leaf]\nkind = \"memory\"\nsize = \"1 MiB\"\n";
    let server = Served::start(options(text, dir.path()));
    Client::connect(&server.socket, "data").read(0, 4096);
    let devices = server.status()["devices"].clone();
    assert_eq!(devices["f"]["kind"], "fault");
    assert!(devices["f"]["latency_mean_ns"].is_null(), "no request ends there: {devices}");
    assert!(devices["leaf"]["latency_mean_ns"].is_u64(), "{devices}");
}

#[test]
fn a_pid_file_replaces_a_pid_file_only() {
    let dir = tempfile::tempdir().expect("a directory");
    let plain = format!("[export.data]\ndevice = \"c\"\n{}", leg("c"));
    let path = dir.path().join("pid");
    let start = || ServeOptions { pidfile: Some(path.clone()), ..options(&plain, dir.path()) };
    for text in [&b"dear diary"[..], &[0; 1 << 16][..], &b"12 34\n"[..], &b"99999999999999999999999\n"[..]] {
        std::fs::write(&path, text).expect("a file");
        let no = refused(start());
        assert!(no.contains("not a pid file") && no.contains("--pidfile"), "{no}");
        assert_eq!(std::fs::read(&path).expect("it stays"), text);
        assert!(!dir.path().join("c.img").exists(), "nothing is made before");
    }
    std::fs::write(&path, "12345\n").expect("a file");
    let server = Served::start(start());
    let pid = std::fs::read_to_string(&path).expect("it is there");
    assert_eq!(pid, format!("{}\n", std::process::id()));
    std::fs::write(&path, "1\n").expect("somebody else's");
    server.stop();
    assert_eq!(std::fs::read_to_string(&path).expect("it stays"), "1\n");
}
