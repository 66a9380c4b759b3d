//! A served device that gets more: longer files, or more legs. It grows on command and not before, and keeps what it has through restarts and kills.

mod common;

use common::client::Client;
use common::process::{PLAIN, Process, STACK_FILE, be_a_server};
use common::{Served, options, wait_for};
use nandu_base::ByteLen;
use nandu_live::{ServeOptions, ctl, examine};
use nandu_stack::Stack;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

/// A server process, when the environment says so.
#[test]
fn the_server_process() {
    be_a_server();
}

const SIZE: u64 = 4 << 20;
const MORE: u64 = 8 << 20;

/// Writes every other block of the first half MiB, each with its own number.
fn write_numbered(client: &mut Client) {
    for block in 0..64 {
        client.write(block * 8192, &[block as u8 + 1; 4096]);
    }
}

fn check_numbered(client: &mut Client, when: &str) {
    for block in 0..64 {
        let is = client.read(block * 8192, 4096);
        assert_eq!(is, [block as u8 + 1; 4096], "{when}, block {block}");
    }
}

/// Asks for something and kills the server so long after, while a client writes; whether the answer came and was yes.
fn killed_during(command: &'static str, process: Process, client: &mut Client, after: Duration) -> bool {
    let control = process.control.clone();
    let asked = std::thread::spawn(move || {
        let command: ctl::Command = command.parse().expect("a command");
        ctl::send(&control, &command).is_ok()
    });
    let began = std::time::Instant::now();
    while began.elapsed() < after {
        client.write(1 << 20, &[5; 4096]);
    }
    process.kill();
    asked.join().expect("it asks")
}

fn leg(name: &str, size: u64) -> String {
    format!("[device.{name}]\nkind = \"file\"\npath = \"{name}.img\"\nsize = {size}\n")
}

fn parity(size: u64) -> String {
    let legs = ["a", "b", "c"].map(|name| leg(name, size)).concat();
    format!(
        "[export.data]\ndevice = \"p\"\n[device.p]\nkind = \"parity\"\nlegs = [\"a\", \"b\", \"c\"]\n\
         journal_size = \"1 MiB\"\ninitial_sync = \"assume-clean\"\n{legs}"
    )
}

fn mirror(kind: &str, size: u64) -> String {
    format!(
        "[export.data]\ndevice = \"m\"\n[device.m]\nkind = \"{kind}\"\nlegs = [\"a\", \"b\"]\n\
         region_size = \"64 KiB\"\nbitmap_delay = \"10 ms\"\ninitial_sync = \"assume-clean\"\n{}{}",
        leg("a", size),
        leg("b", size)
    )
}

fn ask(server: &Served, command: &str) -> Result<Value, String> {
    let command: ctl::Command = command.parse().expect("a command");
    ctl::send(&server.control, &command).map_err(|error| error.to_string())
}

fn lengthen(dir: &Path, files: &[&str], bytes: u64) {
    for file in files {
        let file = OpenOptions::new().write(true).open(dir.join(file)).expect("it is ours");
        file.set_len(bytes).expect("room");
    }
}

fn served_bytes(server: &Served) -> u64 {
    ask(server, "status").expect("a status")["exports"][0]["bytes"].as_u64().expect("a size")
}

fn is_whole(server: &Served) {
    wait_for("the mirror to be whole", || {
        let status = ask(server, "status").expect("a status");
        let m = &status["devices"]["m"];
        (m["health"] == "healthy" && m["counters"]["dirty_regions"] == 0).then_some(())
    });
}

/// The stack as a start finds it: sizes where the records are.
fn found(text: &str, dir: &Path) -> String {
    let built = Stack::parse(text).expect("a stack").build(&Default::default()).expect("it can be built");
    examine::moved_sizes(&built, dir).iter().fold(text.to_string(), |text, (leg, size)| {
        let [key, value] = [format!("path = \"{leg}.img\"\n"), format!("size = {}\n", size.0)];
        let at = text.find(&key).expect("the leg stands in it") + key.len();
        let end = at + text[at..].find('\n').expect("a line") + 1;
        [&text[..at], &value, &text[end..]].concat()
    })
}

#[test]
fn a_mirror_serves_more_after_the_command_and_keeps_its_size() {
    for kind in ["mirror", "hetero-mirror"] {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("m.toml");
        let text = mirror(kind, SIZE);
        std::fs::write(&path, &text).expect("it is ours");
        let of_file = |create: bool| {
            let read = std::fs::read_to_string(&path).expect("it is there");
            let read = found(&read, dir.path());
            ServeOptions { create, stack_file: Some(path.clone()), ..options(&read, dir.path()) }
        };
        let server = Served::start(of_file(true));
        let before = served_bytes(&server);
        let mut old = Client::connect(&server.socket, "data");
        old.write(8192, &[7; 4096]);
        old.flush();
        let no = ask(&server, "grow").expect_err("nothing is longer");
        assert!(no.contains("so much is served; make all legs longer first"), "{no}");
        lengthen(dir.path(), &["a.img"], MORE);
        let no = ask(&server, "grow m").expect_err("one leg is not");
        assert!(no.contains("so much is served"), "{no}");
        lengthen(dir.path(), &["b.img"], MORE);
        assert_eq!(served_bytes(&server), before, "nothing changes by itself");
        server.stop();
        // Nor does it at a start.
        let server = Served::start(of_file(false));
        assert_eq!(served_bytes(&server), before);
        let mut old = Client::connect(&server.socket, "data");
        let answer = ask(&server, "grow").expect("both legs are longer");
        let after = answer["bytes"].as_u64().expect("a size");
        assert_eq!(after, before + MORE - SIZE);
        assert_eq!(answer["stack_file"], "says the new sizes");
        let copy = answer["stack_file_before"].as_str().expect("a path");
        assert_eq!(std::fs::read_to_string(copy).expect("it is there"), text);
        assert_eq!(served_bytes(&server), after);
        old.write(16_384, &[8; 4096]);
        old.flush();
        let mut new = Client::connect(&server.socket, "data");
        new.write(after - 4096, &[9; 4096]);
        new.flush();
        assert_eq!(new.read(8192, 4096), [7; 4096]);
        let is_zero = new.read(before, (MORE - SIZE - 4096) as u32).iter().all(|&byte| byte == 0);
        assert!(is_zero, "what is new reads as zeros here");
        is_whole(&server);
        server.stop();
        let server = Served::start(of_file(false));
        assert_eq!(served_bytes(&server), after);
        let mut client = Client::connect(&server.socket, "data");
        for (at, byte) in [(8192, 7), (16_384, 8), (after - 4096, 9)] {
            assert_eq!(client.read(at, 4096), [byte; 4096]);
        }
        is_whole(&server);
        server.stop();
        let [a, b] =
            ["a.img", "b.img"].map(|file| std::fs::read(dir.path().join(file)).expect("it is there"));
        assert!(a[..after as usize] == b[..after as usize], "the legs read the same");
    }
}

#[test]
fn a_stack_file_that_says_the_old_sizes_is_set_right_by_what_lies_on_the_legs() {
    let dir = tempfile::tempdir().expect("a directory");
    let text = mirror("mirror", SIZE);
    let server = Served::start(options(&text, dir.path()));
    let mut client = Client::connect(&server.socket, "data");
    client.write(0, &[5; 4096]);
    client.flush();
    lengthen(dir.path(), &["a.img", "b.img"], MORE);
    let answer = ask(&server, "grow m").expect("both legs are longer");
    assert!(answer["stack_file"].is_null(), "there is none");
    let after = served_bytes(&server);
    server.stop();
    let sizes = |text: &str| {
        let built = Stack::parse(text).expect("a stack").build(&Default::default()).expect("it can be built");
        examine::moved_sizes(&built, dir.path())
    };
    let both = |bytes| ["a", "b"].map(|leg| (leg.to_string(), ByteLen(bytes))).to_vec();
    assert_eq!(sizes(&text), both(MORE));
    // The files become longer once more, and nobody says so.
    lengthen(dir.path(), &["a.img", "b.img"], MORE + SIZE);
    assert_eq!(sizes(&text), both(MORE));
    assert_eq!(sizes(&mirror("mirror", MORE + SIZE)), both(MORE));
    assert_eq!(sizes(&mirror("mirror", MORE)), []);
    let server =
        Served::start(ServeOptions { create: false, ..options(&found(&text, dir.path()), dir.path()) });
    assert_eq!(served_bytes(&server), after);
    assert_eq!(Client::connect(&server.socket, "data").read(0, 4096), [5; 4096]);
    // One leg is away when the set grows: it is lost, so the set does not.
    ask(&server, "fail b").expect("a has everything");
    let no = ask(&server, "grow").expect_err("one leg is out");
    assert!(no.contains("is not a file or block device that is open"), "{no}");
    ask(&server, "add b").expect("it is in order");
    is_whole(&server);
    ask(&server, "grow").expect("both are there");
    assert_eq!(served_bytes(&server), after + SIZE);
    server.stop();
}

/// A growth that was cut off while the old records were zeroed has left those of one leg, in what is served from then on.
#[test]
fn old_records_that_a_cut_has_left_are_zeroed_before_a_start() {
    let dir = tempfile::tempdir().expect("a directory");
    let text = mirror("mirror", SIZE);
    let server = Served::start(options(&text, dir.path()));
    Client::connect(&server.socket, "data").write(0, &[5; 4096]);
    is_whole(&server);
    let before = served_bytes(&server);
    server.stop();
    let file = |name| dir.path().join(name);
    let records = std::fs::read(file("a.img")).expect("it is there").split_off(before as usize);
    lengthen(dir.path(), &["a.img", "b.img"], MORE);
    let server = Served::start(ServeOptions { create: false, ..options(&text, dir.path()) });
    ask(&server, "grow m").expect("both legs are longer");
    is_whole(&server);
    server.stop();
    let built = Stack::parse(&text).expect("a stack").build(&Default::default()).expect("it can be built");
    let zero = || examine::zero_void_records(&built, dir.path()).expect("nobody uses the files");
    assert_eq!(zero(), [""; 0], "the growth has come to its end");
    let a = OpenOptions::new().write(true).open(file("a.img")).expect("it is ours");
    a.write_all_at(&records, before).expect("room");
    let moved = examine::moved_sizes(&built, dir.path());
    assert_eq!(moved, ["a", "b"].map(|leg| (leg.to_string(), ByteLen(MORE))));
    assert_eq!((zero(), zero()), (vec!["a".to_string()], vec![]));
    assert_eq!(examine::moved_sizes(&built, dir.path()), moved);
    let read = found(&text, dir.path());
    let server = Served::start(ServeOptions { create: false, ..options(&read, dir.path()) });
    let mut client = Client::connect(&server.socket, "data");
    assert_eq!(client.read(0, 4096), [5; 4096]);
    let new = client.read(before, records.len() as u32);
    assert!(new.iter().all(|&byte| byte == 0), "nothing was written there");
    server.stop();
}

/// A growth was cut off when one leg had its new records, and the mirror has gone on as it was. From the leg alone nobody could tell: they are at its end.
#[test]
fn new_records_of_a_growth_that_has_not_come_about_are_zeroed_before_a_start() {
    let dir = tempfile::tempdir().expect("a directory");
    let text = mirror("mirror", SIZE);
    let again = || ServeOptions { create: false, ..options(&text, dir.path()) };
    let server = Served::start(options(&text, dir.path()));
    is_whole(&server);
    server.stop();
    let files = ["a.img", "b.img"].map(|name| dir.path().join(name));
    let before = files.clone().map(|file| std::fs::read(file).expect("it is there"));
    lengthen(dir.path(), &["a.img", "b.img"], MORE);
    let server = Served::start(again());
    ask(&server, "grow m").expect("both legs are longer");
    let after = served_bytes(&server);
    server.stop();
    let records = std::fs::read(&files[0]).expect("it is there").split_off(after as usize);
    for (file, bytes) in files.iter().zip(&before) {
        std::fs::write(file, bytes).expect("it is ours");
    }
    let built = Stack::parse(&text).expect("a stack").build(&Default::default()).expect("it can be built");
    let zero = || examine::zero_void_records(&built, dir.path()).expect("nobody uses the files");
    for _ in 0..4 {
        Served::start(again()).stop();
    }
    lengthen(dir.path(), &["a.img", "b.img"], MORE);
    let a = OpenOptions::new().write(true).open(&files[0]).expect("it is ours");
    a.write_all_at(&records, after).expect("room");
    let alone = || examine::examine(&files[0]).expect("it can be read").what;
    assert!(alone().is_some(), "so it looks as if it had grown");
    // Who is away may have gone on there.
    std::fs::rename(&files[1], dir.path().join("away")).expect("it is there");
    assert_eq!((zero(), alone().is_some()), (vec![], true));
    std::fs::rename(dir.path().join("away"), &files[1]).expect("it is there");
    assert_eq!((zero(), alone().is_none()), (vec!["a".to_string()], true));
    assert_eq!(examine::moved_sizes(&built, dir.path()), []);
    let server = Served::start(again());
    is_whole(&server);
    server.stop();
}

#[test]
fn what_new_space_holds_is_made_the_same_on_both_legs() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = Served::start(options(&mirror("mirror", SIZE), dir.path()));
    lengthen(dir.path(), &["a.img", "b.img"], MORE);
    let soil = |file: &str, byte: u8| {
        let file = OpenOptions::new().write(true).open(dir.path().join(file)).expect("it is ours");
        file.write_all_at(&[byte; 4096], SIZE + (1 << 20)).expect("room");
    };
    soil("a.img", 3);
    soil("b.img", 4);
    ask(&server, "grow").expect("both legs are longer");
    is_whole(&server);
    let mut client = Client::connect(&server.socket, "data");
    let is = client.read(SIZE + (1 << 20), 4096);
    assert_eq!(is, [3; 4096], "the leader's");
    server.stop();
    let [a, b] = ["a.img", "b.img"].map(|file| std::fs::read(dir.path().join(file)).expect("it is there"));
    let data = (MORE - (1 << 20)) as usize;
    assert!(a[..data] == b[..data]);
}

/// The legs of a growth that is refused are longer already when the next one asks what is new.
#[test]
fn what_new_space_holds_is_made_the_same_after_a_growth_that_was_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = Served::start(options(&mirror("mirror", SIZE), dir.path()));
    for (file, byte) in [("a.img", 3), ("b.img", 4)] {
        let file = OpenOptions::new().write(true).open(dir.path().join(file)).expect("it is ours");
        file.write_all_at(&[byte; 4096], SIZE).expect("room");
    }
    let no = ask(&server, "grow").expect_err("new records would lie in the old ones");
    assert!(no.contains("make all legs longer first"), "{no}");
    lengthen(dir.path(), &["a.img", "b.img"], MORE);
    ask(&server, "grow").expect("both legs are longer");
    is_whole(&server);
    let mut client = Client::connect(&server.socket, "data");
    assert_eq!(client.read(SIZE, 4096), [3; 4096], "the leader's");
    server.stop();
    let [a, b] = ["a.img", "b.img"].map(|file| std::fs::read(dir.path().join(file)).expect("it is there"));
    let data = (MORE - (1 << 20)) as usize;
    assert!(a[..data] == b[..data]);
}

#[test]
fn a_file_grows_and_others_say_why_not() {
    let dir = tempfile::tempdir().expect("a directory");
    let leaf =
        |name: &str| format!("[device.{name}]\nkind = \"file\"\npath = \"{name}.img\"\nsize = {MORE}\n");
    let of = |text: &str| format!("[export.data]\ndevice = \"top\"\n{text}");
    let one = of(&format!("[device.top]\nkind = \"file\"\npath = \"one.img\"\nsize = {SIZE}\n"));
    let server = Served::start(options(&one, dir.path()));
    let no = ask(&server, "grow").expect_err("it is not longer");
    assert!(no.contains("all of it is served"), "{no}");
    lengthen(dir.path(), &["one.img"], MORE);
    let mut old = Client::connect(&server.socket, "data");
    assert_eq!(ask(&server, "grow").expect("it is longer")["bytes"], MORE);
    let mut new = Client::connect(&server.socket, "data");
    new.write(MORE - 4096, &[6; 4096]);
    old.write(0, &[5; 4096]);
    new.flush();
    assert_eq!(new.read(0, 4096), [5; 4096]);
    server.stop();
    let three = format!("{}{}{}", leaf("a"), leaf("b"), leaf("c"));
    let text =
        of("[device.top]\nkind = \"stripe\"\nlegs = [\"a\", \"b\", \"c\"]\nchunk = \"64 KiB\"\n") + &three;
    let dir = tempfile::tempdir().expect("a directory");
    let server = Served::start(options(&text, dir.path()));
    let no = ask(&server, "grow top").expect_err("it keeps its size");
    assert!(no.contains("a `stripe` does not grow"), "{no}");
    let no = ask(&server, "grow").expect_err("nothing can");
    assert!(no.contains("no device of this stack can grow"), "{no}");
    let no = ask(&server, "grow a").expect_err("it is a leg");
    assert!(no.contains("devices of kind `stripe` keep the size"), "{no}");
    server.stop();
    let below = of("[device.top]\nkind = \"integrity\"\nbelow = \"m\"\n")
        + &mirror("mirror", SIZE)["[export.data]\ndevice = \"m\"\n".len()..];
    let dir = tempfile::tempdir().expect("a directory");
    let server = Served::start(options(&below, dir.path()));
    let no = ask(&server, "grow m").expect_err("checksums lie at its end");
    assert!(no.contains("does not grow below `top`: devices of kind `integrity` keep the size"), "{no}");
    server.stop();
}

/// The xor of all legs is zero over their data.
fn rows_are_even(dir: &Path, data: u64) {
    let legs = ["a.img", "b.img", "c.img"].map(|file| std::fs::read(dir.join(file)).expect("it is there"));
    let odd = (0..data as usize).find(|&at| legs.iter().fold(0, |xor, leg| xor ^ leg[at]) != 0);
    assert_eq!(odd, None, "where the legs do not xor to zero");
}

fn is_healthy(server: &Served) {
    wait_for("the array to be healthy", || {
        let status = ask(server, "status").expect("a status");
        (status["devices"]["p"]["health"] == "healthy").then_some(())
    });
}

#[test]
fn a_parity_array_serves_more_after_the_command_and_keeps_its_size() {
    for is_soiled in [false, true] {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("p.toml");
        let text = parity(SIZE);
        std::fs::write(&path, &text).expect("it is ours");
        let of_file = |create: bool| {
            let read = std::fs::read_to_string(&path).expect("it is there");
            let read = found(&read, dir.path());
            ServeOptions { create, stack_file: Some(path.clone()), ..options(&read, dir.path()) }
        };
        let server = Served::start(of_file(true));
        let before = served_bytes(&server);
        let mut old = Client::connect(&server.socket, "data");
        old.write(8192, &[7; 4096]);
        let no = ask(&server, "grow").expect_err("nothing is longer");
        assert!(no.contains("so much is served; make all legs longer first"), "{no}");
        lengthen(dir.path(), &["a.img", "b.img", "c.img"], MORE);
        if is_soiled {
            for (file, byte) in [("a.img", 3), ("b.img", 5), ("c.img", 9)] {
                let file = OpenOptions::new().write(true).open(dir.path().join(file)).expect("it is ours");
                file.write_all_at(&[byte; 65_536], SIZE + (1 << 20)).expect("room");
            }
        }
        server.stop();
        // Nothing changes by a start.
        let server = Served::start(of_file(false));
        assert_eq!(served_bytes(&server), before);
        let mut old = Client::connect(&server.socket, "data");
        let answer = ask(&server, "grow").expect("all legs are longer");
        let after = answer["bytes"].as_u64().expect("a size");
        assert_eq!((after, &answer["device"]), (before + 2 * (MORE - SIZE), &"p".into()));
        assert_eq!(answer["stack_file"], "says the new sizes");
        assert_eq!(served_bytes(&server), after);
        old.write(16_384, &[8; 4096]);
        let mut new = Client::connect(&server.socket, "data");
        new.write(after - 4096, &[9; 4096]);
        new.flush();
        let is_zero = new.read(before, (after - before - 4096) as u32).iter().all(|&byte| byte == 0);
        assert!(is_zero, "what is new reads as zeros");
        // Each leg can be done without, in what is new too.
        ask(&server, "fail a").expect("the others have everything");
        assert_eq!(new.read(after - 4096, 4096), [9; 4096]);
        new.write(before, &[6; 4096]);
        ask(&server, "add a").expect("it is in order");
        is_healthy(&server);
        server.stop();
        let server = Served::start(of_file(false));
        assert_eq!(served_bytes(&server), after);
        let mut client = Client::connect(&server.socket, "data");
        for (at, byte) in [(8192, 7), (16_384, 8), (before, 6), (after - 4096, 9)] {
            assert_eq!(client.read(at, 4096), [byte; 4096]);
        }
        server.stop();
        rows_are_even(dir.path(), after / 2);
    }
}

#[test]
fn a_parity_array_is_found_where_its_records_are() {
    let dir = tempfile::tempdir().expect("a directory");
    let text = parity(SIZE);
    let server = Served::start(options(&text, dir.path()));
    let mut client = Client::connect(&server.socket, "data");
    client.write(0, &[5; 4096]);
    lengthen(dir.path(), &["a.img", "b.img", "c.img"], MORE);
    ask(&server, "grow p").expect("all legs are longer");
    let after = served_bytes(&server);
    server.stop();
    let sizes = |text: &str| {
        let built = Stack::parse(text).expect("a stack").build(&Default::default()).expect("it can be built");
        examine::moved_sizes(&built, dir.path())
    };
    let all = ["a", "b", "c"].map(|leg| (leg.to_string(), ByteLen(MORE))).to_vec();
    assert_eq!(sizes(&text), all);
    assert_eq!(sizes(&parity(MORE)), []);
    lengthen(dir.path(), &["a.img", "b.img", "c.img"], MORE + SIZE);
    assert_eq!(sizes(&text), all);
    let read = found(&text, dir.path());
    let server = Served::start(ServeOptions { create: false, ..options(&read, dir.path()) });
    assert_eq!(served_bytes(&server), after);
    assert_eq!(Client::connect(&server.socket, "data").read(0, 4096), [5; 4096]);
    server.stop();
    // A leg that is away, of which the stack file says the old size, does not make it smaller.
    std::fs::rename(dir.path().join("c.img"), dir.path().join("away")).expect("it is there");
    assert_eq!(sizes(&text).into_iter().collect::<BTreeMap<_, _>>(), all.into_iter().collect());
    let server = Served::start(ServeOptions { create: false, ..options(&read, dir.path()) });
    assert_eq!(served_bytes(&server), after);
    assert_eq!(Client::connect(&server.socket, "data").read(0, 4096), [5; 4096]);
    server.stop();
    std::fs::rename(dir.path().join("away"), dir.path().join("c.img")).expect("it is ours");
    let server = Served::start(ServeOptions { create: false, ..options(&read, dir.path()) });
    is_healthy(&server);
    // One leg is out: the array does not grow.
    ask(&server, "fail b").expect("the others have everything");
    let no = ask(&server, "grow").expect_err("one leg is out");
    assert!(no.contains("is not a file or block device that is open"), "{no}");
    ask(&server, "add b").expect("it is in order");
    is_healthy(&server);
    ask(&server, "grow").expect("all are there");
    assert_eq!(served_bytes(&server), after + 2 * SIZE);
    server.stop();
}

/// A growth that is refused leaves the limits of the legs at their new size. The next one looks at all that is new nevertheless.
#[test]
fn what_new_space_holds_counts_after_a_growth_that_a_scrub_refused() {
    let slowly = "scrub = { rate = \"4 KiB\" }\n";
    for (device, kind, text, files) in [
        ("m", "mirror", mirror("mirror", SIZE), &["a.img", "b.img"][..]),
        ("m", "hetero-mirror", mirror("hetero-mirror", SIZE), &["a.img", "b.img"]),
        ("p", "parity", parity(SIZE), &["a.img", "b.img", "c.img"]),
    ] {
        let text = text.replace("initial_sync", &format!("{slowly}initial_sync"));
        let dir = tempfile::tempdir().expect("a directory");
        let server = Served::start(options(&text, dir.path()));
        let before = served_bytes(&server);
        lengthen(dir.path(), files, MORE);
        let new = SIZE..SIZE + (1 << 20);
        for (file, byte) in files.iter().zip([3, 5, 9]) {
            let file = OpenOptions::new().write(true).open(dir.path().join(file)).expect("it is ours");
            file.write_all_at(&vec![byte; (new.end - new.start) as usize], new.start).expect("room");
        }
        ask(&server, &format!("scrub {device}")).expect("it is healthy");
        let no = ask(&server, "grow").expect_err("it is scrubbed");
        assert!(no.contains("a scrub is under way"), "{no}");
        ask(&server, &format!("scrub {device} stop")).expect("it has far to go");
        ask(&server, "grow").expect("all legs are longer");
        let after = served_bytes(&server);
        if device == "m" {
            is_whole(&server);
        } else {
            let mut client = Client::connect(&server.socket, "data");
            let is_zero = client.read(before, (after - before) as u32).iter().all(|&byte| byte == 0);
            assert!(is_zero, "what is new reads as zeros");
        }
        server.stop();
        if device == "p" {
            rows_are_even(dir.path(), after / 2);
            continue;
        }
        let [a, b] =
            ["a.img", "b.img"].map(|file| std::fs::read(dir.path().join(file)).expect("it is there"));
        let differs = (0..after as usize).find(|&at| a[at] != b[at]);
        assert_eq!(differs, None, "where the legs of the {kind} differ");
        assert_eq!(a[new.start as usize], 3, "the leader's");
    }
}

/// A growth that is refused has looked at legs of 8 MiB, and 4 MiB of each are used: a file may be shortened to that, and not further.
#[test]
fn a_file_may_be_shortened_after_a_growth_that_was_refused() {
    let text = mirror("mirror", SIZE).replace("initial_sync", "scrub = { rate = \"4 KiB\" }\ninitial_sync");
    let dir = tempfile::tempdir().expect("a directory");
    let server = Served::start(options(&text, dir.path()));
    let before = served_bytes(&server);
    lengthen(dir.path(), &["a.img", "b.img"], MORE);
    ask(&server, "scrub m").expect("it is healthy");
    let no = ask(&server, "grow").expect_err("it is scrubbed");
    assert!(no.contains("a scrub is under way"), "{no}");
    ask(&server, "scrub m stop").expect("it has far to go");
    lengthen(dir.path(), &["a.img", "b.img"], SIZE);
    let no = ask(&server, "grow").expect_err("they are as they were");
    assert!(no.contains("make all legs longer first"), "{no}");
    let less = MORE - (2 << 20);
    lengthen(dir.path(), &["a.img", "b.img"], less);
    let after = ask(&server, "grow").expect("both legs are longer")["bytes"].as_u64();
    assert_eq!(after, Some(before + less - SIZE));
    is_whole(&server);
    // Once more, and then a file is too short for what is used of it.
    lengthen(dir.path(), &["a.img", "b.img"], MORE);
    ask(&server, "scrub m").expect("it is healthy");
    ask(&server, "grow").expect_err("it is scrubbed");
    ask(&server, "scrub m stop").expect("it has far to go");
    lengthen(dir.path(), &["b.img"], less - 4096);
    let no = ask(&server, "grow").expect_err("what is used has its end");
    assert!(no.contains("`b` has 5.996 MiB now, and 6 MiB are used; make it as long again"), "{no}");
    lengthen(dir.path(), &["b.img"], less);
    server.stop();
}

/// The process is killed while its array grows. It starts again with its old size or the new one, with everything, and with legs that xor to zero.
#[test]
fn a_growth_that_is_killed_leaves_the_old_size_or_the_new_one() {
    let mut sizes = BTreeMap::new();
    for micros in [0, 300, 1000, 2000, 4000, 8000, 16_000, 64_000] {
        let dir = tempfile::tempdir().expect("a directory");
        let text = parity(SIZE);
        let process = Process::start_env(&text, dir.path(), &[]);
        let mut client = Client::connect(&process.socket, "data");
        write_numbered(&mut client);
        lengthen(dir.path(), &["a.img", "b.img", "c.img"], MORE);
        for (file, byte) in [("a.img", 3), ("b.img", 5), ("c.img", 9)] {
            let file = OpenOptions::new().write(true).open(dir.path().join(file)).expect("it is ours");
            file.write_all_at(&vec![byte; (MORE - SIZE) as usize], SIZE).expect("room");
        }
        let had_grown = killed_during("grow", process, &mut client, Duration::from_micros(micros));
        let process = Process::start_env(&found(&text, dir.path()), dir.path(), &[(PLAIN, "1")]);
        let bytes = process.status()["exports"][0]["bytes"].as_u64().expect("a size");
        *sizes.entry(bytes).or_insert(0) += 1;
        let largest = sizes.last_key_value().map(|(size, _)| *size);
        assert!(!had_grown || largest == Some(bytes), "{micros} us: it was told that it has grown");
        let mut client = Client::connect(&process.socket, "data");
        check_numbered(&mut client, &format!("{micros} us"));
        client.disconnect();
        process.stop();
        rows_are_even(dir.path(), bytes / 2);
    }
    let (least, most) = (sizes.first_key_value(), sizes.last_key_value());
    let [least, most] = [least, most].map(|found| *found.expect("eight starts").0);
    assert!(most == least || most == least + 2 * (MORE - SIZE), "{sizes:?}");
    println!("sizes after 8 kills: {sizes:?}");
}

#[test]
fn a_mirror_gets_a_leg_more_and_is_started_with_it() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("m.toml");
    let text = mirror("mirror", SIZE);
    std::fs::write(&path, &text).expect("it is ours");
    let of_file = |create: bool| {
        let read = std::fs::read_to_string(&path).expect("it is there");
        ServeOptions { create, stack_file: Some(path.clone()), ..options(&read, dir.path()) }
    };
    let server = Served::start(of_file(true));
    let mut client = Client::connect(&server.socket, "data");
    client.write(8192, &[7; 4096]);
    client.flush();
    std::fs::write(dir.path().join("soiled.img"), [3; 4096]).expect("room");
    for (command, why) in [
        ("add a to m with c.img", "there is a device `a` already"),
        ("add c to x with c.img", "unknown device `x`"),
        ("add c to a with c.img", "`a` takes no more legs: it is a `file`"),
        ("add c.d to m with c.img", "`c.d` is not a name of a device"),
        ("add c to m with a.img", "it is leg `a` of this server already"),
        ("add c to m with m.toml", "it is the stack file"),
        ("add c to m with soiled.img", "soiled.img"),
    ] {
        let no = ask(&server, command).expect_err(command);
        assert!(no.contains(why), "{command}: {no}");
    }
    assert_eq!(std::fs::read_to_string(&path).expect("it is there"), text, "nothing has changed");
    let answer = ask(&server, "add c to m with c.img").expect("the mirror is whole");
    assert_eq!((&answer["state"], &answer["stack_file"]), (&"active".into(), &"names the new leg".into()));
    let copy = answer["stack_file_before"].as_str().expect("a path");
    assert_eq!(std::fs::read_to_string(copy).expect("it is there"), text);
    client.write(16_384, &[8; 4096]);
    client.flush();
    is_whole(&server);
    let status = ask(&server, "status").expect("a status");
    assert_eq!(status["devices"]["c"]["state"], "active");
    // One of the first may go, and be taken back.
    ask(&server, "fail a").expect("the others have everything");
    client.write(24_576, &[9; 4096]);
    client.flush();
    ask(&server, "add a").expect("it is in order");
    is_whole(&server);
    server.stop();
    let read = |file: &str| std::fs::read(dir.path().join(file)).expect("it is there");
    let (a, c) = (read("a.img"), read("c.img"));
    assert_eq!(a.len(), c.len());
    let data = (SIZE - (1 << 20)) as usize;
    assert!(a[..data] == c[..data] && a[..data] == read("b.img")[..data], "the legs read the same");
    // It is a leg as the others are: alone it has everything.
    for file in ["a.img", "b.img"] {
        std::fs::rename(dir.path().join(file), dir.path().join(file).with_extension("away"))
            .expect("it is there");
    }
    let server = Served::start(ServeOptions { alone: true, ..of_file(false) });
    let mut client = Client::connect(&server.socket, "data");
    for (at, byte) in [(8192, 7), (16_384, 8), (24_576, 9)] {
        assert_eq!(client.read(at, 4096), [byte; 4096]);
    }
    server.stop();
}

#[test]
fn mirrors_that_take_no_leg_say_why() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = Served::start(options(&mirror("hetero-mirror", SIZE), dir.path()));
    let no = ask(&server, "add c to m with c.img").expect_err("it has two");
    assert!(no.contains("it is a `hetero-mirror`, and only a `mirror` does"), "{no}");
    server.stop();
    let dir = tempfile::tempdir().expect("a directory");
    let server = Served::start(options(&mirror("mirror", SIZE), dir.path()));
    ask(&server, "fail b").expect("a has everything");
    let no = ask(&server, "add c to m with c.img").expect_err("one leg is out");
    assert!(no.contains("`m` does not take `c`: the legs are not equal; wait until it is healthy"), "{no}");
    ask(&server, "add b").expect("it is in order");
    is_whole(&server);
    // There is no stack file that would name it.
    let answer = ask(&server, "add c to m with c.img").expect("it is whole");
    assert!(answer["stack_file"].is_null(), "{answer}");
    server.stop();
}

/// The process is killed while it takes a leg more. It starts again by its stack file, with what was flushed; a leg that did not come is brought by `replace`.
#[test]
fn a_kill_while_a_leg_is_added_leaves_a_mirror_that_starts() {
    let mut named = 0;
    for millis in [0, 1, 2, 4, 8, 16, 32, 64] {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("m.toml");
        std::fs::write(&path, mirror("mirror", SIZE)).expect("it is ours");
        let start = |more: &[(&str, &str)]| {
            let text = std::fs::read_to_string(&path).expect("it is there");
            let file = [(STACK_FILE, path.to_str().expect("UTF-8"))];
            Process::start_env(&text, dir.path(), &[&file, more].concat())
        };
        let process = start(&[]);
        let mut client = Client::connect(&process.socket, "data");
        write_numbered(&mut client);
        client.flush();
        let was_added =
            killed_during("add c to m with c.img", process, &mut client, Duration::from_millis(millis));
        let process = start(&[(PLAIN, "1")]);
        let mut client = Client::connect(&process.socket, "data");
        check_numbered(&mut client, &format!("{millis} ms"));
        let is_named = std::fs::read_to_string(&path).expect("it is there").contains("c.img");
        assert!(is_named || !was_added, "{millis} ms");
        named += u32::from(is_named);
        let use_of_c = || {
            let members = process.status()["devices"]["m"]["members"].clone();
            let c = members.as_array().into_iter().flatten().find(|member| member["name"] == "c");
            c.map_or_else(String::new, |member| member["use"].as_str().unwrap_or_default().to_string())
        };
        wait_for("the leg to be taken or left out", || (use_of_c() != "coming").then_some(()));
        match (is_named, dir.path().join("c.img").exists()) {
            (false, _) => {
                // What the kill left dirty is copied first.
                wait_for("both legs to be equal", || {
                    let m = &process.status()["devices"]["m"];
                    (m["health"] == "healthy" && m["counters"]["dirty_regions"] == 0).then_some(())
                });
                drop(process.ctl("add c to m with c.img"));
            }
            (true, false) => drop(process.ctl("replace c with c.img")),
            (true, true) if use_of_c() == "out" => {
                // Its first records may be there in part: that is no blank file.
                lengthen(dir.path(), &["c.img"], 0);
                lengthen(dir.path(), &["c.img"], SIZE);
                drop(process.ctl("replace c"));
            }
            (true, true) => {}
        }
        wait_for("the mirror to be whole", || {
            (process.status()["devices"]["m"]["health"] == "healthy").then_some(())
        });
        assert_eq!(use_of_c(), "used", "{millis} ms");
        client.disconnect();
        process.stop();
    }
    println!("named after {named} of 8 kills");
}
