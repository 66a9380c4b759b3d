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
