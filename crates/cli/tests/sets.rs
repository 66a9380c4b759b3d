//! Sets of files: made, found again under other names, served, and refused where something is on them.

mod support;

use std::path::Path;
use support::{files, nandu_in};

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

fn ok(folder: &Path, line: &str) -> String {
    let words: Vec<&str> = line.split_whitespace().collect();
    let ran = nandu_in(folder, &words);
    assert_eq!(ran.code, 0, "nandu {line}: {}", ran.err);
    ran.out
}

fn refused(folder: &Path, line: &str) -> String {
    let words: Vec<&str> = line.split_whitespace().collect();
    let ran = nandu_in(folder, &words);
    assert_eq!(ran.code, 2, "nandu {line}: {}{}", ran.out, ran.err);
    assert!(ran.out.is_empty(), "{}", ran.out);
    ran.err
}

/// Serves a stack file of the folder for a moment, without `--create`.
fn serves(folder: &Path, stack: &str) {
    ok(folder, &format!("serve {stack} --run true"));
}

const KINDS: [(&str, &str); 8] = [
    ("mirror", "a.img b.img"),
    ("mirror --integrity", "a.img b.img"),
    ("hetero-mirror", "a.img b.img"),
    ("hetero-mirror --set flush_scope=leader", "a.img b.img"),
    ("parity", "a.img b.img c.img"),
    ("parity --set level=3 --set chunk=64KiB", "a.img b.img c.img d.img"),
    ("stripe --set chunk=128KiB", "a.img b.img"),
    ("hybrid", "slc=a.img mlc=b.img disk=c.img"),
];

#[test]
fn what_is_made_serves_and_is_found_again_under_other_names() {
    for (kind, members) in KINDS {
        let dir = folder();
        let dir = dir.path();
        let made = ok(dir, &format!("create {kind} {members} --size 32MiB -o disk.toml"));
        let word = kind.split(' ').next().expect("a kind");
        assert!(made.starts_with(word) && made.contains("nandu serve disk.toml"), "{made}");
        serves(dir, "disk.toml");
        let images: Vec<String> = files(dir).into_iter().filter(|name| name.ends_with(".img")).collect();
        // The names of devices change; the stack file knows the old ones.
        let moved: Vec<String> =
            images.iter().rev().enumerate().map(|(n, _)| format!("moved{n}.img")).collect();
        for (image, moved) in images.iter().zip(&moved) {
            std::fs::rename(dir.join(image), dir.join(moved)).expect("it is there");
        }
        let found = moved.join(" ");
        if word == "stripe" {
            let why = refused(dir, &format!("assemble {found} --stack disk.toml"));
            assert!(why.contains("no member of a set lies on these"), "{why}");
            continue;
        }
        refused(dir, "serve disk.toml --run true");
        ok(dir, &format!("assemble {found} --stack disk.toml -o now.toml"));
        serves(dir, "now.toml");
        // In any order.
        let backwards: Vec<&str> = moved.iter().rev().map(String::as_str).collect();
        let again = ok(dir, &format!("assemble {} --stack disk.toml", backwards.join(" ")));
        assert_eq!(again, std::fs::read_to_string(dir.join("now.toml")).expect("it was written"));
        // Without any stack file.
        match word {
            "hybrid" => {
                let why = refused(dir, &format!("assemble {found}"));
                assert!(why.contains("give its stack file with --stack"), "{why}");
            }
            _ => {
                let hetero = if kind == "hetero-mirror" { "--hetero" } else { "" };
                ok(dir, &format!("assemble {found} {hetero} -o new.toml"));
                let new = std::fs::read_to_string(dir.join("new.toml")).expect("it was written");
                assert!(new.contains(&format!("kind = \"{word}\"")), "{new}");
                assert_eq!(new.contains("integrity"), kind.contains("integrity"), "{new}");
                serves(dir, "new.toml");
            }
        }
    }
}

#[test]
fn nothing_is_made_of_what_holds_something() {
    let dir = folder();
    let dir = dir.path();
    for first in [0, 300_000] {
        let bytes: Vec<u8> = (0..1 << 20).map(|at| if at < first { 0 } else { 7 }).collect();
        std::fs::write(dir.join("full.img"), bytes).expect("a file");
        let why = refused(dir, "create mirror full.img b.img --size 1MiB -o disk.toml");
        assert!(why.contains("`a` holds something") || why.contains("full.img"), "{why}");
        assert_eq!(files(dir), ["full.img"], "neither a stack file nor a member is left");
    }
    let why = refused(dir, "create mirror a.img b.img -o disk.toml");
    assert!(why.contains("a.img: it is missing or empty") && why.contains("--size"), "{why}");
    let why = refused(dir, "create parity a.img b.img --size 1MiB -o disk.toml");
    assert!(why.contains("three to sixteen members; 2 are named"), "{why}");
    let why = refused(dir, "create hybrid a.img disk=b.img --size 32MiB -o disk.toml");
    assert!(why.contains("`slc=FILE`"), "{why}");
    let why = refused(dir, "create mirror full.img b.img --size 2MiB -o disk.toml");
    assert!(why.contains("full.img: it has 1 MiB and --size asks for 2 MiB"), "{why}");
    let why = refused(dir, "create mirror a.img b.img --size 1MiB --set region_siz=64KiB -o disk.toml");
    assert!(why.contains("region_siz") && why.contains("region_size"), "{why}");
    assert_eq!(files(dir), ["full.img"]);
    ok(dir, "create mirror a.img b.img --size 4MiB --json -o disk.toml");
    let why = refused(dir, "create mirror c.img d.img --size 4MiB -o disk.toml");
    assert!(why.contains("disk.toml: it is there already"), "{why}");
    let why = refused(dir, "create mirror a.img c.img --size 4MiB -o other.toml");
    assert!(why.contains("a.img: it is part of a mirror"), "{why}");
    assert_eq!(files(dir), ["a.img", "b.img", "disk.toml", "full.img"]);
}

#[test]
fn sets_are_told_apart_and_what_is_missing_is_named() {
    let dir = folder();
    let dir = dir.path();
    ok(dir, "create mirror a.img b.img --size 4MiB -o one.toml");
    ok(dir, "create parity p.img q.img r.img --size 16MiB -o two.toml");
    let why = refused(dir, "assemble a.img b.img p.img q.img r.img");
    assert!(why.contains("members of several sets: mirror ") && why.contains("--set"), "{why}");
    let examined = ok(dir, "examine a.img b.img p.img q.img r.img --json");
    let value: serde_json::Value = serde_json::from_str(&examined).expect("it is JSON");
    let sets = value["sets"].as_array().expect("sets");
    let parity = sets.iter().find(|set| set["kind"] == "parity").expect("a parity array");
    let id = &parity["set"].as_str().expect("a name")[..8];
    let text = ok(dir, &format!("assemble a.img b.img r.img q.img p.img --set {id}"));
    let place = |name: &str| text.find(name).unwrap_or_else(|| panic!("no {name} in {text}"));
    assert!(place("p.img") < place("q.img") && place("q.img") < place("r.img"), "{text}");
    let why = refused(dir, "assemble a.img --set f");
    assert!(why.contains("begins with") || why.contains("was not found"), "{why}");
    let why = refused(dir, "assemble a.img");
    assert!(why.contains("member 2 of 2 was not found"), "{why}");
    let ran = nandu_in(dir, &["assemble", "a.img", "--stack", "one.toml"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.err.contains("b: not found; its path stays"), "{}", ran.err);
    std::fs::copy(dir.join("a.img"), dir.join("copy.img")).expect("it is there");
    let why = refused(dir, "assemble a.img copy.img b.img");
    assert!(why.contains("are the same member: one is a copy of the other"), "{why}");
}

/// A server of the program, which is ended when this is dropped.
struct Server(std::process::Child);

impl Server {
    fn start(folder: &Path, args: &[&str]) -> Server {
        use std::io::BufRead;
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_nandu"));
        command.arg("serve").args(args).current_dir(folder).stdout(std::process::Stdio::piped());
        let mut child = command.spawn().expect("the program starts");
        let mut first = String::new();
        let out = child.stdout.take().expect("it is piped");
        std::io::BufReader::new(out).read_line(&mut first).expect("it says where it is");
        assert!(first.starts_with("nbd+unix"), "{first}");
        Server(child)
    }

    fn hang_up(&self) {
        let pid = self.0.id().to_string();
        let done = std::process::Command::new("kill").args(["-HUP", &pid]).status().expect("kill is there");
        assert!(done.success());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Looks until the file has the text.
fn wait_for(file: &Path, text: &str) -> String {
    let begun = std::time::Instant::now();
    loop {
        let found = std::fs::read_to_string(file).unwrap_or_default();
        if found.contains(text) {
            return found;
        }
        assert!(begun.elapsed().as_secs() < 60, "waited in vain for {text:?} in\n{found}");
        std::thread::park_timeout(std::time::Duration::from_millis(5));
    }
}

#[test]
fn a_hang_up_signal_opens_the_log_anew_and_reads_limits_again() {
    let dir = folder();
    let dir = dir.path();
    let stack = |weight: u32| {
        format!(
            "[export.data]\ndevice = \"queue\"\ntenant = \"t\"\n[tenant.t]\nweight = {weight}\n\
             [device.queue]\nkind = \"queue\"\nbelow = \"leaf\"\nscheduler = \"drr\"\n\
             [device.leaf]\nkind = \"memory\"\nsize = \"4 MiB\"\n"
        )
    };
    let (file, log) = (dir.join("s.toml"), dir.join("log"));
    std::fs::write(&file, stack(100)).expect("a file");
    let server = Server::start(dir, &["s.toml", "-U", "n.sock", "--control", "c.sock", "--log", "log"]);
    wait_for(&log, "leaf: open");
    std::fs::rename(&log, dir.join("log.1")).expect("it is there");
    std::fs::write(&file, stack(300)).expect("a file");
    server.hang_up();
    let said = wait_for(&log, "new limits hold for: t");
    assert!(said.contains("SIGHUP: ") && !said.contains("leaf: open"), "{said}");
    let status = ok(dir, "ctl c.sock --json status");
    let status: serde_json::Value = serde_json::from_str(&status).expect("it is JSON");
    assert_eq!(status["tenants"][0]["weight"], 300);
    server.hang_up();
    wait_for(&log, "no limit of a tenant has changed");
    std::fs::write(&file, "nonsense").expect("a file");
    server.hang_up();
    wait_for(&log, "the limits stay as they were: ");
    ok(dir, "stop c.sock");
}

/// Members that were made longer have their records before their end: they are not blank, and what they are is said.
#[test]
fn a_member_that_was_made_longer_is_found() {
    let dir = folder();
    let dir = dir.path();
    for (kind, members) in [("mirror", "a.img b.img"), ("parity", "a.img b.img c.img")] {
        ok(dir, &format!("create {kind} {members} --size 8MiB -o {kind}.toml"));
        serves(dir, &format!("{kind}.toml"));
        for member in members.split(' ') {
            let file = std::fs::OpenOptions::new().write(true).open(dir.join(member)).expect("it is there");
            file.set_len(17 << 20).expect("it grows");
        }
        let said = ok(dir, &format!("examine {members}"));
        let flat = said.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(flat.contains(&format!("{kind}, when it was 8 MiB long")), "{said}");
        assert!(flat.contains("truncate -s 8388608 a.img"), "{said}");
        for member in members.split(' ') {
            let file = std::fs::OpenOptions::new().write(true).open(dir.join(member)).expect("it is there");
            file.set_len(8 << 20).expect("it shrinks");
        }
        serves(dir, &format!("{kind}.toml"));
        members.split(' ').for_each(|member| std::fs::remove_file(dir.join(member)).expect("it is there"));
    }
}

#[test]
fn what_of_a_device_stays_unused_is_said() {
    let dir = folder();
    let dir = dir.path();
    let stack = "[export.data]\ndevice = \"m\"\n[device.m]\nkind = \"mirror\"\nlegs = [\"small\", \"big\"]\n\
        [device.small]\nkind = \"file\"\npath = \"small.img\"\nsize = \"500 GiB\"\n\
        [device.big]\nkind = \"file\"\npath = \"big.img\"\nsize = \"1 TiB\"\n\
        [export.row]\ndevice = \"s\"\n[device.s]\nkind = \"stripe\"\nlegs = [\"x\"]\nchunk = \"1 MiB\"\n\
        [device.x]\nkind = \"file\"\npath = \"x.img\"\nsize = \"5632 KiB\"\n";
    std::fs::write(dir.join("two.toml"), stack).expect("the folder is ours");
    std::fs::File::create(dir.join("x.img")).and_then(|file| file.set_len(8 << 20)).expect("it is sparse");
    let text = ok(dir, "check two.toml");
    let row = |name: &str| {
        text.lines().find(|line| line.trim_start().starts_with(&format!("{name} "))).expect("its row")
    };
    assert!(row("big").contains("524 GiB unused"), "{text}");
    assert!(!row("small").contains("unused"), "{text}");
    let joined = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(joined.contains("512 KiB unused, 2.50 MiB of its file unused"), "{text}");
    let json: serde_json::Value =
        serde_json::from_str(&ok(dir, "check two.toml --json")).expect("it prints JSON");
    let devices = json["stacks"][0]["devices"].as_array().expect("devices");
    let of = |name: &str| {
        let device = devices.iter().find(|device| device["name"] == name).expect("it is there");
        (device["unused_bytes"].as_u64().expect("a number"), device["file_unused_bytes"].as_u64())
    };
    // The map of regions of the larger one is larger.
    assert!((523..=524).contains(&(of("big").0 >> 30)), "{:?}", of("big"));
    assert_eq!((of("small"), of("m")), ((0, Some(0)), (0, Some(0))));
    assert_eq!(of("x"), (512 << 10, Some(5 << 19)));
}

#[test]
fn a_set_of_unlike_members_says_what_it_does_not_use() {
    let dir = folder();
    let dir = dir.path();
    for (name, size) in [("small.img", 16 << 20), ("big.img", 48 << 20)] {
        std::fs::File::create(dir.join(name)).and_then(|file| file.set_len(size)).expect("it is sparse");
    }
    let made = ok(dir, "create mirror a=small.img b=big.img --assume-clean -o disk.toml");
    assert!(made.contains("32 MiB of b stay unused") && !made.contains("of a stay"), "{made}");
    let made = ok(dir, "create stripe x.img y.img --size 16MiB -o even.toml");
    assert!(!made.contains("unused"), "{made}");
}

#[test]
fn a_leg_is_as_large_as_its_file_unless_the_stack_file_says() {
    let dir = folder();
    let dir = dir.path();
    let stack = "[export.data]\ndevice = \"a\"\n[device.a]\nkind = \"file\"\npath = \"a.img\"\n";
    std::fs::write(dir.join("disk.toml"), stack).expect("the folder is ours");
    for command in ["serve disk.toml --create --run true", "check disk.toml"] {
        let why = refused(dir, command);
        assert!(why.contains("a.img is not there") && why.contains("truncate -s 10G a.img"), "{why}");
    }
    assert_eq!(files(dir), ["disk.toml"]);
    let file = std::fs::File::create(dir.join("a.img")).expect("a file");
    file.set_len(7 << 20).expect("it is sparse");
    assert!(ok(dir, "check disk.toml").contains("7 MiB"), "{}", ok(dir, "check disk.toml"));
    serves(dir, "disk.toml");
    // A file that is longer at the next start is a larger export.
    file.set_len(9 << 20).expect("it is sparse");
    assert!(ok(dir, "check disk.toml").contains("9 MiB"));
    serves(dir, "disk.toml");
}

#[test]
fn members_that_were_made_longer_are_used_as_they_were() {
    let dir = folder();
    let dir = dir.path();
    ok(dir, "create mirror a.img b.img --size 32MiB --assume-clean -o disk.toml");
    let text = std::fs::read_to_string(dir.join("disk.toml")).expect("it was written");
    for name in ["a.img", "b.img"] {
        let file = std::fs::File::options().write(true).open(dir.join(name)).expect("it is there");
        file.set_len(48 << 20).expect("it is sparse");
    }
    std::fs::write(dir.join("longer.toml"), text.replace("32 MiB", "48 MiB")).expect("the folder is ours");
    // Only `grow` changes a size: the records say what is used, and the stack file is set right.
    let ran = nandu_in(dir, &["serve", "longer.toml", "--run", "true"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.err.contains("a: its records say that 32 MiB of it are used"), "{}", ran.err);
    assert_eq!(std::fs::read_to_string(dir.join("longer.toml")).expect("it is there"), text);
    // A stack file that says the size serves them as they are, and what is behind is said.
    serves(dir, "disk.toml");
    let text = ok(dir, "check disk.toml").split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("16 MiB of its file unused"), "{text}");
}
