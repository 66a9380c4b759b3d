//! A mirror that is looked after while it is served: the words of the control socket, and what becomes of the files.

mod common;

use common::client::Client;
use common::{Served, options, wait_for};
use nandu_live::{ServeError, ServeOptions, ctl};
use serde_json::Value;
use std::path::Path;

const SIZE: u64 = 4 << 20;

fn stack(options: &str) -> String {
    let leg =
        |name: &str| format!("[device.{name}]\nkind = \"file\"\npath = \"{name}.img\"\nsize = {SIZE}\n");
    format!(
        "[export.data]\ndevice = \"m\"\n[device.m]\nkind = \"mirror\"\nlegs = [\"fa\", \"b\"]\n\
         region_size = \"64 KiB\"\nbitmap_delay = \"10 ms\"\ninitial_sync = \"assume-clean\"\nscrub = {{ rate = 0 }}\n{options}\
         [device.fa]\nkind = \"fault\"\nbelow = \"a\"\n{}{}",
        leg("a"),
        leg("b")
    )
}

fn ask(server: &Served, command: &str) -> Result<Value, String> {
    let command: ctl::Command = command.parse().expect("a command");
    ctl::send(&server.control, &command).map_err(|error| error.to_string())
}

fn mirror(server: &Served) -> Value {
    ask(server, "status").expect("a status")["devices"]["m"].clone()
}

/// Waits until the mirror is whole and nothing is marked.
fn at_rest(server: &Served) {
    wait_for("the mirror to be at rest", || {
        let m = mirror(server);
        (m["health"] == "healthy" && m["counters"]["dirty_regions"] == 0).then_some(())
    });
}

fn byte(dir: &Path, file: &str, at: u64) -> u8 {
    std::fs::read(dir.join(file)).expect("a leg is a file")[at as usize]
}

#[test]
fn a_leg_is_replaced_by_another_file_while_it_serves() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = Served::start(options(&stack(""), dir.path()));
    let mut client = Client::connect(&server.socket, "data");
    client.write(8192, &[7; 4096]);
    client.flush();
    let no = ask(&server, "replace a with b.img").expect_err("it is the other leg");
    assert!(no.contains("it is leg `b` of this server already"), "{no}");
    assert_eq!(mirror(&server)["health"], "healthy", "what is refused changes nothing");
    // `fa`, a fault, lies between the leg and its mirror.
    ask(&server, "fail a").expect("b has everything");
    ask(&server, "replace a with a new one.img").expect("b has everything");
    client.write(65_536, &[9; 4096]);
    client.flush();
    at_rest(&server);
    assert_eq!(mirror(&server)["counters"]["leader_leg"], 1);
    ask(&server, "set-leader a").expect("the legs are equal");
    wait_for("a to lead", || (mirror(&server)["counters"]["leader_leg"] == 0).then_some(()));
    at_rest(&server);
    server.stop();
    for file in ["a new one.img", "b.img"] {
        assert_eq!((byte(dir.path(), file, 8192), byte(dir.path(), file, 65_536)), (7, 9), "{file}");
    }
    // The stack file still names the old file: it is not believed.
    let again = || ServeOptions { create: false, ..options(&stack(""), dir.path()) };
    match Served::try_start(again()) {
        Err(error @ ServeError::Open { .. }) => assert!(error.to_string().contains("is old"), "{error}"),
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("an old leg is believed"),
    }
    std::fs::rename(dir.path().join("a new one.img"), dir.path().join("a.img")).expect("it is there");
    let server = Served::start(again());
    assert_eq!(mirror(&server)["health"], "healthy");
    server.stop();
}

#[test]
fn the_stack_file_names_the_new_file_of_a_leg_and_is_kept_as_it_was() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("m.toml");
    let text = format!("# a mirror\n{}", stack(""));
    std::fs::write(&path, &text).expect("it is ours");
    let of_file = |create: bool| {
        let read = std::fs::read_to_string(&path).expect("it is there");
        ServeOptions { create, stack_file: Some(path.clone()), ..options(&read, dir.path()) }
    };
    let server = Served::start(of_file(true));
    let mut client = Client::connect(&server.socket, "data");
    client.write(8192, &[7; 4096]);
    let answer = ask(&server, "replace b with other.img").expect("a has everything");
    assert_eq!(answer["stack_file"], "names the new file");
    let copy = answer["stack_file_before"].as_str().expect("a path");
    assert_eq!(std::fs::read_to_string(copy).expect("it is there"), text);
    let now = std::fs::read_to_string(&path).expect("it is there");
    assert_eq!(now, text.replace("\"b.img\"", "\"other.img\""));
    at_rest(&server);
    // A leg that is filled again in its old place moves nothing; a stack file that is gone is said so.
    ask(&server, "fail b").expect("a has everything");
    std::fs::write(dir.path().join("other.img"), vec![0; SIZE as usize]).expect("it is ours");
    let answer = ask(&server, "replace b").expect("a has everything");
    assert!(answer["stack_file"].is_null(), "{answer}");
    at_rest(&server);
    std::fs::rename(&path, dir.path().join("away.toml")).expect("it is there");
    ask(&server, "fail b").expect("a has everything");
    let answer = ask(&server, "replace b with third.img").expect("a has everything");
    let why = answer["stack_file"].as_str().expect("it says why");
    assert!(why.starts_with("names the old file still: ") && why.contains("m.toml"), "{why}");
    at_rest(&server);
    server.stop();
    std::fs::write(&path, now.replace("other.img", "third.img")).expect("it is ours");
    let server = Served::start(of_file(false));
    assert_eq!(mirror(&server)["health"], "healthy");
    server.stop();
    assert_eq!(byte(dir.path(), "third.img", 8192), 7);
}

/// What was the stack file before a leg moved is a file like any other: its number may be that of a new disk.
#[test]
fn the_stack_file_is_the_one_that_bears_its_name_now() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("m.toml");
    std::fs::write(&path, stack("")).expect("it is ours");
    let server =
        Served::start(ServeOptions { stack_file: Some(path.clone()), ..options(&stack(""), dir.path()) });
    at_rest(&server);
    std::fs::hard_link(&path, dir.path().join("disk.img")).expect("it is ours");
    ask(&server, "replace b with other.img").expect("a has everything");
    at_rest(&server);
    let disk = std::fs::File::options().write(true).open(dir.path().join("disk.img")).expect("it is there");
    disk.set_len(0).and_then(|()| disk.set_len(SIZE)).expect("it is blank now");
    let no = ask(&server, "replace b with m.toml").expect_err("it is the stack file");
    assert!(no.contains("it is the stack file"), "{no}");
    ask(&server, "replace b with disk.img").expect("it is blank");
    at_rest(&server);
    server.stop();
}

/// The file of a leg is deleted, which is seen at the next flush; the first spare holds something, and the second one is taken.
#[test]
fn a_spare_takes_the_place_of_a_leg_that_fails_and_of_none_that_is_failed_by_command() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("m.toml");
    std::fs::write(&path, stack("")).expect("it is ours");
    std::fs::write(dir.path().join("full.img"), vec![1; SIZE as usize]).expect("it is ours");
    let of = |spares: &[&str], create| ServeOptions {
        create,
        spares: spares.iter().map(Into::into).collect(),
        stack_file: Some(path.clone()),
        ..options(&std::fs::read_to_string(&path).expect("it is there"), dir.path())
    };
    match Served::try_start(of(&["spare.img"], true)) {
        Err(error @ ServeError::Spare { .. }) => {
            assert!(error.exit_code() == 2 && error.to_string().contains("truncate -s"), "{error}");
        }
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("it is not there"),
    }
    let blank = std::fs::File::create(dir.path().join("spare.img")).expect("a file");
    blank.set_len(SIZE).expect("it is sparse");
    let heard = dir.path().join("heard");
    let command = format!("echo \"$NANDU_EVENT $NANDU_DEVICE\" >> '{}'", heard.display());
    let server =
        Served::start(ServeOptions { on_change: Some(command), ..of(&["full.img", "spare.img"], true) });
    let mut client = Client::connect(&server.socket, "data");
    client.write(8192, &[7; 4096]);
    client.flush();
    at_rest(&server);
    let spares = || ask(&server, "status").expect("a status")["spares"].as_array().expect("a list").len();
    ask(&server, "fail b").expect("a has everything");
    client.write(0, &[8; 4096]);
    client.flush();
    ask(&server, "add b").expect("it is in order");
    at_rest(&server);
    assert_eq!(spares(), 2, "an operator knows what he does");
    std::fs::remove_file(dir.path().join("b.img")).expect("it is there");
    client.write(65_536, &[9; 4096]);
    client.flush();
    wait_for("the second spare to be taken", || (spares() == 0).then_some(()));
    at_rest(&server);
    let events = wait_for("word of it", || {
        let events = std::fs::read_to_string(&heard).unwrap_or_default();
        events.contains("spare-taken b").then_some(events)
    });
    assert!(events.contains("spare-refused b"), "{events}");
    wait_for("the stack file to name it", || {
        std::fs::read_to_string(&path).expect("it is there").contains("spare.img").then_some(())
    });
    server.stop();
    for at in [0, 8192, 65_536] {
        assert_eq!(byte(dir.path(), "spare.img", at), byte(dir.path(), "a.img", at), "at {at}");
    }
    assert_eq!(std::fs::read(dir.path().join("full.img")).expect("it is there"), vec![1; SIZE as usize]);
    let server = Served::start(of(&[], false));
    assert_eq!(mirror(&server)["health"], "healthy");
    server.stop();
}

#[test]
fn a_leg_that_was_wiped_is_filled_when_it_is_replaced_and_not_when_it_is_added() {
    let dir = tempfile::tempdir().expect("a directory");
    Served::start(options(&stack(""), dir.path())).stop();
    let server = Served::start(ServeOptions { create: false, ..options(&stack(""), dir.path()) });
    let mut client = Client::connect(&server.socket, "data");
    client.write(0, &[3; 4096]);
    ask(&server, "fail b").expect("a has everything");
    assert_eq!(mirror(&server)["health"], "degraded");
    std::fs::remove_file(dir.path().join("b.img")).expect("it is there");
    let file = std::fs::File::create(dir.path().join("b.img")).expect("a file");
    file.set_len(SIZE).expect("a long one");
    let no = ask(&server, "add b").expect_err("its records are gone");
    assert!(no.contains("`m` does not take `b`"), "{no}");
    assert_eq!(mirror(&server)["counters"]["rejoins_refused"], 1);
    assert_eq!(mirror(&server)["health"], "degraded");
    ask(&server, "replace b").expect("a has everything");
    at_rest(&server);
    server.stop();
    assert_eq!(byte(dir.path(), "b.img", 100), 3);
}

#[test]
fn a_difference_that_nobody_made_is_found_and_mended() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = Served::start(options(&stack(""), dir.path()));
    let mut client = Client::connect(&server.socket, "data");
    client.write(131_072, &[5; 8192]);
    client.flush();
    at_rest(&server);
    server.stop();
    let path = dir.path().join("b.img");
    let mut bytes = std::fs::read(&path).expect("a leg is a file");
    bytes[135_000] ^= 1;
    std::fs::write(&path, &bytes).expect("it is ours");
    let server = Served::start(ServeOptions { create: false, ..options(&stack(""), dir.path()) });
    for (pass, word, mended) in [(1, "check", 0), (2, "repair", 4096)] {
        ask(&server, &format!("scrub m {word}")).expect("a mirror is scrubbed");
        wait_for("the pass", || (mirror(&server)["counters"]["scrub_passes"] == pass).then_some(()));
        let counters = mirror(&server)["counters"].clone();
        assert_eq!(counters["scrub_differing_blocks"], pass);
        assert!(counters["scrub_repaired_bytes"].as_u64().expect("counted") >= mended);
        assert_eq!(byte(dir.path(), "b.img", 135_000) == 5, mended > 0);
    }
    assert!(ask(&server, "scrub m stop").expect_err("it is over").contains("no scrub"));
    assert!(ask(&server, "scrub b").expect_err("a leaf").contains("no such command"));
    assert!(ask(&server, "scrub x").expect_err("nothing").contains("unknown device"));
    server.stop();
}

#[test]
fn legs_of_two_servers_with_the_same_stack_file_do_not_mix() {
    let dirs = [(); 2].map(|()| tempfile::tempdir().expect("a directory"));
    for dir in &dirs {
        Served::start(options(&stack(""), dir.path())).stop();
    }
    std::fs::copy(dirs[1].path().join("b.img"), dirs[0].path().join("b.img")).expect("both are there");
    match Served::try_start(options(&stack(""), dirs[0].path())) {
        Err(error @ ServeError::Open { .. }) => {
            assert!(error.to_string().contains("`b` belongs to another set"), "{error}");
        }
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("a foreign leg is taken for ours"),
    }
}
