//! A leg that works is replaced: the new file is filled while the old one serves, and neither a loss nor a restart meanwhile loses anything.

mod common;

use common::client::Client;
use common::process::{Process, be_a_server};
use common::{Served, options, wait_for};
use nandu_live::{ServeOptions, ctl};
use serde_json::Value;
use std::path::Path;

/// Not a test of its own: what [`Process`] runs.
#[test]
fn the_server_process() {
    be_a_server();
}

const SIZE: u64 = 16 << 20;

fn leg(name: &str) -> String {
    format!("[device.{name}]\nkind = \"file\"\npath = \"{name}.img\"\nsize = {SIZE}\n")
}

fn stack(kind: &str, legs: &[&str]) -> String {
    let names: Vec<String> = legs.iter().map(|name| format!("\"{name}\"")).collect();
    let devices: String = legs.iter().map(|name| leg(name)).collect();
    format!(
        "[export.data]\ndevice = \"m\"\n[device.m]\nkind = \"{kind}\"\nlegs = [{}]\n\
         initial_sync = \"assume-clean\"\n{devices}",
        names.join(", ")
    )
}

fn ask(server: &Served, command: &str) -> Result<Value, String> {
    let command: ctl::Command = command.parse().expect("a command");
    ctl::send(&server.control, &command).map_err(|error| error.to_string())
}

fn health(server: &Served) -> Value {
    ask(server, "status").expect("a status")["devices"]["m"]["health"].clone()
}

fn whole(server: &Served) {
    wait_for("the array to be whole", || (health(server) == "healthy").then_some(()));
}

fn again(text: &str, dir: &Path) -> ServeOptions {
    ServeOptions { create: false, ..options(text, dir) }
}

fn content(block: u64, round: u8) -> Vec<u8> {
    vec![round.wrapping_mul(31) ^ block as u8 ^ 0x5A; 4096]
}

/// Blocks that are written, all over the device.
fn blocks() -> impl Iterator<Item = u64> {
    (0..200).map(|n| n * 19 % 3800)
}

#[test]
fn a_leg_of_each_array_moves_while_clients_write_and_the_old_file_is_not_believed() {
    for (kind, legs) in
        [("mirror", &["a", "b"][..]), ("hetero-mirror", &["a", "b"]), ("parity", &["a", "b", "c"])]
    {
        let dir = tempfile::tempdir().expect("a directory");
        let text = stack(kind, legs);
        let server = Served::start(options(&text, dir.path()));
        whole(&server);
        let mut client = Client::connect(&server.socket, "data");
        blocks().for_each(|block| client.write(block * 4096, &content(block, 1)));
        client.flush();
        std::thread::scope(|scope| {
            let moved = scope.spawn(|| ask(&server, "replace a with new.img"));
            for round in 2..5 {
                blocks().step_by(3).for_each(|block| client.write(block * 4096, &content(block, round)));
                client.flush();
                assert_eq!(health(&server), "healthy", "no leg is ever out");
            }
            let answer = moved.join().expect("no panic").expect("a works");
            assert_eq!(
                (&answer["state"], &answer["old_file"]),
                (&Value::from("active"), &Value::Null),
                "{kind}"
            );
        });
        blocks().step_by(5).for_each(|block| client.write(block * 4096, &content(block, 9)));
        client.flush();
        let no = ask(&server, "replace b with a.img").expect_err("it holds data");
        assert!(no.contains("it holds data"), "{no}");
        client.disconnect();
        server.stop();
        // The stack file still names the old file, whose records are gone.
        match Served::try_start(again(&text, dir.path())) {
            // A parity array goes on without what is blank.
            Ok(server) => {
                assert_eq!((kind, health(&server)), ("parity", Value::from("degraded")));
                server.stop();
            }
            Err(error) => assert!(error.to_string().contains("`a` is blank"), "{error}"),
        }
        let named = text.replace("a.img", "new.img");
        if kind == "parity" {
            let server = Served::start(ServeOptions { alone: true, ..again(&named, dir.path()) });
            server.stop();
            continue;
        }
        let server = Served::start(again(&named, dir.path()));
        whole(&server);
        // Each leg alone has everything.
        for other in ["b", "a"] {
            ask(&server, &format!("fail {other}")).expect("the other one has everything");
            let mut client = Client::connect(&server.socket, "data");
            for (n, block) in blocks().enumerate() {
                let round = match n {
                    n if n % 5 == 0 => 9,
                    n if n % 3 == 0 => 4,
                    _ => 1,
                };
                assert_eq!(
                    client.read(block * 4096, 4096),
                    content(block, round),
                    "{kind}, block {block} without {other}"
                );
            }
            client.disconnect();
            ask(&server, &format!("add {other}")).expect("it is in order");
            whole(&server);
        }
        server.stop();
    }
}

#[test]
fn a_file_that_is_exported_moves_and_the_stack_file_names_the_new_one() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("s.toml");
    let text = format!("[export.data]\ndevice = \"a\"\n{}", leg("a"));
    std::fs::write(&path, &text).expect("it is ours");
    let of_file = ServeOptions { stack_file: Some(path.clone()), ..options(&text, dir.path()) };
    let server = Served::start(of_file);
    let mut client = Client::connect(&server.socket, "data");
    client.write(12_288, &[7; 4096]);
    let answer = ask(&server, "replace a with new.img").expect("it works");
    assert_eq!(answer["stack_file"], "names the new file");
    client.write(SIZE - 4096, &[8; 4096]);
    client.flush();
    server.stop();
    let new = std::fs::read(dir.path().join("new.img")).expect("it is there");
    assert_eq!((new[12_288], new[SIZE as usize - 1], new.len() as u64), (7, 8, SIZE));
    assert_eq!(std::fs::read(dir.path().join("a.img")).expect("it is there")[SIZE as usize - 1], 0);
    let now = std::fs::read_to_string(&path).expect("it is there");
    assert_eq!(now, text.replace("a.img", "new.img"));
}

#[test]
fn a_stack_file_that_cannot_be_written_leaves_the_leg_where_it_is() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("s.toml");
    let text = stack("mirror", &["a", "b"]);
    std::fs::write(&path, &text).expect("it is ours");
    let server = Served::start(ServeOptions { stack_file: Some(path.clone()), ..options(&text, dir.path()) });
    whole(&server);
    let mut client = Client::connect(&server.socket, "data");
    client.write(0, &[7; 8192]);
    client.flush();
    std::fs::create_dir(dir.path().join("s.toml.new")).expect("a directory");
    let no = ask(&server, "replace a with new.img").expect_err("the place is taken");
    assert!(no.contains("`a` is not replaced: the stack file would name its old file still"), "{no}");
    assert_eq!(health(&server), "healthy");
    client.write(4096, &[9; 4096]);
    client.flush();
    // What was filled in vain is blank again, and can be named once more.
    std::fs::remove_dir(dir.path().join("s.toml.new")).expect("it is empty");
    wait_for("the new file to be free", || ask(&server, "replace a with new.img").ok());
    whole(&server);
    server.stop();
    assert_eq!(std::fs::read(dir.path().join("new.img")).expect("it is there")[4096], 9);
}

#[test]
fn a_leg_that_is_lost_meanwhile_is_lost_and_a_restart_starts_with_it() {
    let dir = tempfile::tempdir().expect("a directory");
    let text = stack("mirror", &["a", "b"]);
    let server = Served::start(options(&text, dir.path()));
    whole(&server);
    let mut client = Client::connect(&server.socket, "data");
    (0..SIZE / (1 << 20) - 1).for_each(|mib| client.write(mib << 20, &vec![mib as u8 + 1; 1 << 20]));
    client.flush();
    std::thread::scope(|scope| {
        let moved = scope.spawn(|| ask(&server, "replace a with new.img"));
        // At whatever moment it comes: the leg is out, and its move is over or was called off.
        let failed = ask(&server, "fail a");
        let answer = moved.join().expect("no panic");
        assert!(failed.is_ok() || answer.is_ok(), "{failed:?}, {answer:?}");
        if let Err(no) = answer {
            assert!(no.contains("`a` is not replaced"), "{no}");
        }
    });
    client.write(0, &[77; 4096]);
    client.flush();
    let mut other = Client::connect(&server.socket, "data");
    assert_eq!(other.read(0, 4096), [77; 4096]);
    assert_eq!(other.read(5 << 20, 4096), [6; 4096]);
    server.stop();
    let server = Served::start(ServeOptions { alone: true, ..again(&text, dir.path()) });
    let mut client = Client::connect(&server.socket, "data");
    assert_eq!(client.read(0, 4096), [77; 4096]);
    server.stop();
}

/// The server is killed when the new file is filled in part, after the array has written its records: the old leg is the leg, the new
/// file is nobody's.
#[test]
fn a_server_that_is_killed_meanwhile_starts_with_the_old_file() {
    for (kind, legs) in
        [("mirror", &["a", "b"][..]), ("hetero-mirror", &["a", "b"]), ("parity", &["a", "b", "c"])]
    {
        println!("{kind}");
        let dir = tempfile::tempdir().expect("a directory");
        let text = stack(kind, legs);
        let process = Process::start(&text, dir.path());
        let tell = |process: &Process, command: &str| {
            let command: ctl::Command = command.parse().expect("a command");
            ctl::send(&process.control, &command).map_err(|error| error.to_string())
        };
        let healthy = |process: &Process| {
            wait_for("the array to be whole", || {
                let status = tell(process, "status").expect("a status");
                (status["devices"]["m"]["health"] == "healthy").then_some(())
            });
        };
        healthy(&process);
        let mut client = Client::connect(&process.socket, "data");
        for mib in 0..14_u64 {
            client.write(mib << 20, &vec![mib as u8 + 1; 1 << 20]);
        }
        client.flush();
        let set = tell(&process, "set a replace_rate=1MiB").expect("a is a leg");
        assert_eq!(set["replace_rate"], 1 << 20);
        assert!(
            tell(&process, "set a replace_rate=1KiB").is_err()
                && tell(&process, "set m replace_rate=max").is_err()
        );
        assert!(tell(&process, "set a weight=3 replace_rate=max").is_err());
        std::thread::scope(|scope| {
            let control = process.control.clone();
            let moved = scope.spawn(move || {
                let command = "replace a with new.img".parse().expect("a command");
                ctl::send(&control, &command).map_err(|error| error.to_string())
            });
            wait_for("a part of the new file", || {
                let status = tell(&process, "status").expect("a status");
                let left = status["devices"]["a"]["moving"]["left_bytes"].as_u64()?;
                assert!(left > 0, "it is filled too fast");
                (left < SIZE).then_some(())
            });
            // Records of the array are written meanwhile.
            tell(&process, "fail b").expect("the others have everything");
            client.write(0, &[99; 8192]);
            client.flush();
            tell(&process, "add b").expect("it is in order");
            healthy(&process);
            client.write(3 << 20, &[98; 8192]);
            client.flush();
            process.kill();
            moved.join().expect("no panic").expect_err("nobody answers");
        });
        // What was half filled is not a leg. Tried on copies: an array that goes on without it writes that down.
        for create in [false, true] {
            let other = tempfile::tempdir().expect("a directory");
            for name in legs.iter().chain(&["new"]) {
                let name = format!("{name}.img");
                std::fs::copy(dir.path().join(&name), other.path().join(&name)).expect("room");
            }
            let named = text.replace("a.img", "new.img");
            match Served::try_start(ServeOptions { create, ..again(&named, other.path()) }) {
                Err(error) if create => assert!(error.to_string().contains("new.img"), "{kind}: {error}"),
                Err(error) => assert!(error.to_string().contains("`a` is blank"), "{kind}: {error}"),
                // A parity array goes on without what is blank.
                Ok(server) => {
                    let found = (kind, create, health(&server));
                    assert_eq!(found, ("parity", false, Value::from("degraded")));
                    let mut client = Client::connect(&server.socket, "data");
                    assert_eq!(client.read(3 << 20, 8192), [98; 8192]);
                    server.stop();
                }
            }
        }
        let server = Served::start(again(&text, dir.path()));
        whole(&server);
        let no = ask(&server, "replace a with new.img").expect_err("it holds data");
        assert!(no.contains("it holds data"), "{no}");
        // Emptied, it is taken.
        std::fs::remove_file(dir.path().join("new.img")).expect("it is there");
        ask(&server, "replace a with new.img").expect("it is blank");
        for without in ["a", "b"] {
            ask(&server, &format!("fail {without}")).expect("the others have everything");
            let mut client = Client::connect(&server.socket, "data");
            for mib in 0..14_u64 {
                let first = match mib {
                    0 => 99,
                    3 => 98,
                    _ => mib as u8 + 1,
                };
                assert_eq!(client.read(mib << 20, 8192), vec![first; 8192], "{kind} without {without}");
                assert_eq!(client.read((mib << 20) + 8192, 4096), [mib as u8 + 1; 4096]);
            }
            client.disconnect();
            ask(&server, &format!("add {without}")).expect("it is in order");
            whole(&server);
        }
        server.stop();
    }
}
