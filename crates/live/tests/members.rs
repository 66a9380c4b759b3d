//! Members put back from older copies, exchanged, emptied: what a start says, and what is read afterwards. The
//! table of docs/reference/guarantees.md, cell by cell, with real files.

mod common;

use common::client::Client;
use common::{Served, options, wait_for};
use nandu_live::examine::{examine, sets};
use nandu_live::{ServeError, ServeOptions, ctl};
use std::path::{Path, PathBuf};

const SIZE: u64 = 4 << 20;
const BLOCK: usize = 4096;
/// Blocks that are written, each in a region and a stripe of its own.
const BLOCKS: u64 = 12;
const STRIDE: u64 = 128 << 10;

struct Kind {
    name: &'static str,
    options: &'static str,
    files: &'static [&'static str],
}

const KINDS: [Kind; 5] = [
    Kind {
        name: "mirror",
        options: "region_size = \"64 KiB\"\ninitial_sync = \"assume-clean\"\n",
        files: &["a", "b"],
    },
    Kind {
        name: "hetero-mirror",
        options: "region_size = \"64 KiB\"\ninitial_sync = \"assume-clean\"\nflush_scope = \"all-legs\"\n",
        files: &["a", "b"],
    },
    Kind {
        name: "hetero-mirror",
        options: "region_size = \"64 KiB\"\ninitial_sync = \"assume-clean\"\nflush_scope = \"leader\"\n",
        files: &["a", "b"],
    },
    Kind {
        name: "parity",
        options: "chunk = \"16 KiB\"\njournal_size = \"320 KiB\"\ninitial_sync = \"assume-clean\"\n",
        files: &["a", "b", "c"],
    },
    Kind {
        name: "parity",
        options: "chunk = \"16 KiB\"\ninitial_sync = \"assume-clean\"\nwrite_hole = \"resync\"\n",
        files: &["a", "b", "c"],
    },
];

impl Kind {
    fn stack(&self) -> String {
        let leg = |f: &&str| format!("[device.{f}]\nkind = \"file\"\npath = \"{f}.img\"\nsize = {SIZE}\n");
        let legs: String = self.files.iter().map(leg).collect();
        format!(
            "[export.data]\ndevice = \"m\"\n[device.m]\nkind = \"{}\"\nlegs = {:?}\n{}{legs}",
            self.name, self.files, self.options
        )
    }

    fn is_mirror(&self) -> bool {
        self.files.len() == 2
    }
}

struct Set<'a> {
    kind: &'a Kind,
    dir: tempfile::TempDir,
}

impl Set<'_> {
    fn path(&self, file: &str) -> PathBuf {
        self.dir.path().join(format!("{file}.img"))
    }

    fn read(&self, file: &str) -> Vec<u8> {
        std::fs::read(self.path(file)).expect("a leg is a file")
    }

    fn put(&self, file: &str, bytes: &[u8]) {
        std::fs::write(self.path(file), bytes).expect("it is ours");
    }

    fn options(&self, create: bool, alone: bool) -> ServeOptions {
        ServeOptions { create, alone, ..options(&self.kind.stack(), self.dir.path()) }
    }

    /// What `nandu examine` says that a start would do with the members that are there; none where they are of several sets or none.
    fn foretold(&self) -> Option<Result<String, String>> {
        let paths = self.kind.files.iter().map(|file| self.path(file)).filter(|path| path.exists());
        let found: Vec<_> = paths.map(|path| examine(&path).expect("it can be read")).collect();
        match sets(&found).as_slice() {
            [set] => Some(set.start.clone()),
            _ => None,
        }
    }

    fn refusal(&self, alone: bool) -> String {
        let why = self.refused(alone);
        // A member that is blank or something else is of no set, so nothing is said of it.
        if let (false, Some(foretold)) = (alone, self.foretold())
            && !why.contains("is blank")
            && !why.contains("holds something")
        {
            let foretold = foretold.expect_err("a start is refused");
            // Here members are called by their paths, there by the names of the stack file.
            let named = self
                .kind
                .files
                .iter()
                .fold(foretold, |text, file| text.replace(&self.path(file).display().to_string(), file));
            assert!(why.contains(&named.replace("member 1", "a").replace("member 2", "b")), "{named}\n{why}");
        }
        why
    }

    fn refused(&self, alone: bool) -> String {
        match Served::try_start(self.options(false, alone)) {
            Err(error @ ServeError::Open { .. }) => error.to_string(),
            Err(error) => panic!("{error}"),
            Ok(_) => panic!("{} of {:?} is started", self.kind.name, self.kind.options),
        }
    }

    /// One session: every block gets this version, flushed, and the end is clean.
    fn session(&self, create: bool, version: u8) {
        if !create {
            let start = self.foretold().expect("they are of one set").expect("they start");
            assert!(start.starts_with("starts with both") || start == "starts with all 3", "{start}");
        }
        let server = Served::start(self.options(create, false));
        let mut client = Client::connect(&server.socket, "data");
        for block in 0..BLOCKS {
            client.write(block * STRIDE, &[version; BLOCK]);
        }
        client.flush();
        client.disconnect();
        at_rest(&server);
        server.stop();
    }

    /// Every block is of this version.
    fn shows(&self, server: &Served, version: u8) {
        let mut client = Client::connect(&server.socket, "data");
        for block in 0..BLOCKS {
            let read = client.read(block * STRIDE, BLOCK as u32);
            assert!(read.iter().all(|&b| b == version), "{}: block {block} is {}", self.kind.name, read[0]);
        }
        client.disconnect();
    }

    /// The others serve `version` with `--force-degraded`, and leave this member as it is, until it is added; then the set is whole with it.
    fn takes_back(&self, file: &str, copy: &[u8], version: u8) {
        let server = Served::start(self.options(false, true));
        self.shows(&server, version);
        assert!(same(&self.path(file), copy), "it is not written to before it is added");
        let add = format!("add {file}").parse().expect("a command");
        ctl::send(&server.control, &add).expect("it is copied over or rebuilt");
        at_rest(&server);
        server.stop();
        let server = Served::start(self.options(false, false));
        self.shows(&server, version);
        server.stop();
    }
}

fn at_rest(server: &Served) {
    wait_for("the set to be whole", || {
        (server.status()["devices"]["m"]["health"] == "healthy").then_some(())
    });
}

/// A set of three sessions, and what its members were after the first.
fn old_and_new(kind: &Kind) -> (Set<'_>, Vec<Vec<u8>>) {
    let set = Set { kind, dir: tempfile::tempdir().expect("a directory") };
    set.session(true, 1);
    let copies = kind.files.iter().map(|file| set.read(file)).collect();
    set.session(false, 2);
    set.session(false, 3);
    (set, copies)
}

fn same(path: &Path, bytes: &[u8]) -> bool {
    std::fs::read(path).expect("a leg is a file") == bytes
}

#[test]
fn an_older_copy_of_any_member_is_refused_and_copied_over_when_it_is_asked_for() {
    for kind in &KINDS {
        for (at, file) in kind.files.iter().enumerate() {
            let (set, copies) = old_and_new(kind);
            set.put(file, &copies[at]);
            let why = set.refusal(false);
            assert!(why.contains(&format!("leg `{file}` is old")), "{why}");
            assert!(why.contains("2 times since") || why.contains("2 changes of the set since"), "{why}");
            assert!(same(&set.path(file), &copies[at]), "what is refused is left as it is");
            set.takes_back(file, &copies[at], 3);
        }
    }
}

/// A file that lost its end, records and all, counts as a member that is not there: it is named, and left as it is.
#[test]
fn a_member_that_is_too_short_counts_as_missing() {
    for kind in [&KINDS[0], &KINDS[3]] {
        for file in kind.files {
            let (set, _) = old_and_new(kind);
            let short = set.read(file)[..SIZE as usize / 2].to_vec();
            set.put(file, &short);
            if kind.is_mirror() {
                let why = set.refused(false);
                assert!(why.contains(&format!("device `{file}`: ")), "{why}");
                assert!(why.contains("it has 2097152 bytes, but the leaf has 4194304"), "{why}");
            }
            let server = Served::start(set.options(false, kind.is_mirror()));
            set.shows(&server, 3);
            server.stop();
            assert!(same(&set.path(file), &short), "it is left as it is");
        }
    }
}

#[test]
fn a_member_of_another_set_is_refused() {
    for kind in &KINDS {
        let (set, _) = old_and_new(kind);
        let (other, _) = old_and_new(kind);
        for file in kind.files {
            let own = set.read(file);
            set.put(file, &other.read(file));
            let why = set.refusal(false);
            let words = ["belongs to another set", "belong to different arrays"];
            assert!(words.iter().any(|word| why.contains(word)), "{why}");
            set.put(file, &own);
        }
        let server = Served::start(set.options(false, false));
        set.shows(&server, 3);
        server.stop();
    }
}

#[test]
fn a_blank_member_is_refused_by_a_mirror_and_left_out_by_a_parity_array() {
    for kind in &KINDS {
        let (set, _) = old_and_new(kind);
        for file in kind.files {
            let own = set.read(file);
            let blank = vec![0; SIZE as usize];
            set.put(file, &blank);
            if kind.is_mirror() {
                let why = set.refusal(false);
                assert!(why.contains(&format!("leg `{file}` is blank")), "{why}");
            } else {
                let server = Served::start(set.options(false, false));
                set.shows(&server, 3);
                assert_eq!(server.status()["devices"]["m"]["health"], "degraded");
                server.stop();
            }
            assert!(same(&set.path(file), &blank), "nobody asked to fill it");
            set.put(file, &own);
            if !kind.is_mirror() {
                // The others have gone on without it: it is rebuilt.
                let server = Served::start(set.options(false, false));
                at_rest(&server);
                server.stop();
            }
        }
    }
}

/// Nobody can notice this; the set is then what it was at that stop, whole in itself.
#[test]
fn members_that_are_all_put_back_to_one_stop_are_the_set_of_then() {
    for kind in &KINDS {
        let (set, copies) = old_and_new(kind);
        for (file, copy) in kind.files.iter().zip(&copies) {
            set.put(file, copy);
        }
        let server = Served::start(set.options(false, false));
        set.shows(&server, 1);
        assert_eq!(server.status()["devices"]["m"]["health"], "healthy");
        server.stop();
        set.session(false, 4);
    }
}

/// The same of one member alone, when the others are not there.
#[test]
fn a_single_member_put_back_is_the_set_of_then() {
    for kind in KINDS.iter().filter(|kind| kind.is_mirror()) {
        let (set, copies) = old_and_new(kind);
        let newest = set.read("b");
        set.put("a", &copies[0]);
        std::fs::remove_file(set.path("b")).expect("it is there");
        let why = set.refusal(false);
        assert!(why.contains("was one of a pair"), "{why}");
        let server = Served::start(set.options(false, true));
        set.shows(&server, 1);
        server.stop();
        // The other one is no earlier state of that: both are refused.
        set.put("b", &newest);
        let why = set.refusal(false);
        assert!(why.contains("split brain"), "{why}");
    }
}

/// A leg that was left out is an earlier state of the one that went on, and so is an older copy of it: it is
/// copied over by itself.
#[test]
fn an_older_copy_of_a_leg_that_was_left_out_is_copied_over() {
    for kind in KINDS.iter().filter(|kind| kind.is_mirror()) {
        for (at, file) in kind.files.iter().enumerate() {
            let (set, copies) = old_and_new(kind);
            let server = Served::start(set.options(false, false));
            ctl::send(&server.control, &format!("fail {file}").parse().expect("a command"))
                .expect("it is out");
            let mut client = Client::connect(&server.socket, "data");
            for block in 0..BLOCKS {
                client.write(block * STRIDE, &[4; BLOCK]);
            }
            client.flush();
            client.disconnect();
            server.stop();
            set.put(file, &copies[at]);
            let server = Served::start(set.options(false, false));
            set.shows(&server, 4);
            at_rest(&server);
            server.stop();
            // The other one can go now.
            std::fs::remove_file(set.path(kind.files[1 - at])).expect("it is there");
            let server = Served::start(set.options(false, true));
            set.shows(&server, 4);
            server.stop();
        }
    }
}

/// What a refusal names as its remedy, done.
fn empty(set: &Set<'_>, file: &str, why: &str) {
    assert!(why.contains("`truncate -s 0 FILE`") && why.contains("start once with create"), "{why}");
    set.put(file, &[]);
}

#[test]
fn legs_that_both_went_on_alone_are_one_set_again_after_what_the_refusal_says() {
    for kind in KINDS.iter().filter(|kind| kind.is_mirror()) {
        for kept in [0, 1] {
            let set = Set { kind, dir: tempfile::tempdir().expect("a directory") };
            set.session(true, 1);
            let both = ["a", "b"].map(|file| set.read(file));
            for (leg, version) in [(0, 2), (1, 3)] {
                set.put(["a", "b"][leg], &both[leg]);
                let away = set.dir.path().join(format!("away-{leg}"));
                let other = set.path(["a", "b"][1 - leg]);
                std::fs::rename(&other, &away).expect("it can be moved");
                let server = Served::start(set.options(false, true));
                let mut client = Client::connect(&server.socket, "data");
                for block in 0..BLOCKS {
                    client.write(block * STRIDE, &[version; BLOCK]);
                }
                client.flush();
                client.disconnect();
                server.stop();
                std::fs::rename(&away, &other).expect("it can be moved back");
            }
            let why = set.refusal(true);
            assert!(why.contains("split brain"), "{why}");
            empty(&set, ["b", "a"][kept], &why);
            let server = Served::start(set.options(true, true));
            set.shows(&server, [2, 3][kept]);
            at_rest(&server);
            server.stop();
            Served::start(set.options(false, false)).stop();
        }
    }
}

#[test]
fn a_leg_that_holds_something_else_is_filled_after_what_the_refusal_says() {
    for kind in &KINDS {
        let set = Set { kind, dir: tempfile::tempdir().expect("a directory") };
        set.session(true, 1);
        let mut bytes = set.read("a");
        let end = bytes.len() - (68 << 10);
        bytes[end..].fill(7);
        set.put("a", &bytes);
        let why = set.refusal(false);
        empty(&set, "a", &why);
        let server = Served::start(set.options(true, true));
        set.shows(&server, 1);
        at_rest(&server);
        server.stop();
        Served::start(set.options(false, false)).stop();
    }
}

/// The leg `out` is left out, and the other one goes on alone with version 4.
fn one_goes_on(set: &Set<'_>, out: &str) {
    let server = Served::start(set.options(false, false));
    ctl::send(&server.control, &format!("fail {out}").parse().expect("a command")).expect("it is out");
    write(&server, 4);
    server.stop();
}

/// Every block gets this version, flushed.
fn write(server: &Served, version: u8) {
    let mut client = Client::connect(&server.socket, "data");
    for block in 0..BLOCKS {
        client.write(block * STRIDE, &[version; BLOCK]);
    }
    client.flush();
    client.disconnect();
}

/// The leg that went on alone is put back before the other one has joined again: nobody can notice, and the set is whole in itself.
#[test]
fn the_only_member_in_force_put_back_is_the_set_of_then() {
    for kind in KINDS.iter().filter(|kind| kind.is_mirror()) {
        for (at, out) in kind.files.iter().enumerate() {
            let (set, _) = old_and_new(kind);
            let alone = kind.files[1 - at];
            one_goes_on(&set, out);
            let copy = set.read(alone);
            // It starts without the other one and without a word, and goes on.
            let left = set.read(out);
            std::fs::remove_file(set.path(out)).expect("it is there");
            let server = Served::start(set.options(false, false));
            set.shows(&server, 4);
            write(&server, 5);
            server.stop();
            set.put(alone, &copy);
            set.put(out, &left);
            let server = Served::start(set.options(false, false));
            set.shows(&server, 4);
            at_rest(&server);
            set.shows(&server, 4);
            server.stop();
            let data = |file: &str| set.read(file)[..(BLOCKS * STRIDE) as usize].to_vec();
            assert!(data(out) == data(alone), "both hold the state of then");
            // From the return of the other one on it is noticed.
            set.put(alone, &copy);
            let before = [out, &alone].map(|file| set.read(file));
            let why = set.refusal(false);
            assert!(why.contains("split brain") || why.contains("is old"), "{why}");
            assert!(before == [out, &alone].map(|file| set.read(file)), "what is refused is left as it is");
        }
    }
}

/// One leg went on alone: a member of another set, or a blank one, in the place of either is refused.
#[test]
fn a_stranger_beside_a_leg_that_went_on_alone_is_refused() {
    for kind in KINDS.iter().filter(|kind| kind.is_mirror()) {
        for out in kind.files {
            let (set, _) = old_and_new(kind);
            let (other, _) = old_and_new(kind);
            one_goes_on(&set, out);
            for file in kind.files {
                let own = set.read(file);
                for (what, bytes, words) in [
                    ("of another set", other.read(file), "belongs to another set"),
                    ("blank", vec![0; SIZE as usize], "is blank"),
                ] {
                    set.put(file, &bytes);
                    let before: Vec<_> = kind.files.iter().map(|file| set.read(file)).collect();
                    let why = set.refusal(false);
                    assert!(why.contains(words), "{file} {what}: {why}");
                    let after: Vec<_> = kind.files.iter().map(|file| set.read(file)).collect();
                    assert!(before == after, "{file} {what}: something was changed");
                }
                set.put(file, &own);
            }
            // Filled when that is asked for.
            set.put(out, &vec![0; SIZE as usize]);
            let server = Served::start(set.options(true, false));
            set.shows(&server, 4);
            at_rest(&server);
            server.stop();
        }
    }
}

/// Two of three legs that were put back to one stop are the array of then; the third one, which knows better, is not overwritten.
#[test]
fn two_legs_put_back_beside_no_third_are_the_array_of_then() {
    for kind in KINDS.iter().filter(|kind| !kind.is_mirror()) {
        let (set, copies) = old_and_new(kind);
        let newest = set.read("b");
        // Two old ones beside a current one are refused, with `--force-degraded` too.
        set.put("a", &copies[0]);
        set.put("c", &copies[2]);
        for alone in [false, true] {
            let why = set.refusal(alone);
            assert!(why.contains("leg `a` is old") && why.contains("leg `c` is old"), "{why}");
        }
        std::fs::remove_file(set.path("b")).expect("it is there");
        let server = Served::start(set.options(false, false));
        set.shows(&server, 1);
        assert_eq!(server.status()["devices"]["m"]["health"], "degraded");
        server.stop();
        // However often these two go on: it is no earlier state of theirs.
        for versions in [8..9, 9..13] {
            set.put("b", &newest);
            let before = ["a", "b", "c"].map(|file| set.read(file));
            let why = set.refusal(false);
            assert!(why.contains("went on apart, from an older copy") && why.contains("`b`"), "{why}");
            assert!(before == ["a", "b", "c"].map(|file| set.read(file)), "what is refused is left as it is");
            std::fs::remove_file(set.path("b")).expect("it is there");
            for version in versions {
                let server = Served::start(set.options(false, false));
                write(&server, version);
                server.stop();
            }
        }
        // With `--force-degraded` they serve without it; it is rebuilt when that is asked for.
        set.put("b", &newest);
        set.takes_back("b", &newest, 12);
    }
}

/// A copy from longer ago than a record names is told in other words, and not believed either.
#[test]
fn a_copy_from_long_ago_is_refused() {
    for kind in &KINDS {
        let (set, copies) = old_and_new(kind);
        for _ in 0..9 {
            set.session(false, 7);
        }
        set.put("a", &copies[0]);
        let words = if kind.is_mirror() { "one of them is an old copy" } else { "a copy from long ago" };
        let why = set.refusal(false);
        assert!(why.contains(words), "{why}");
        assert!(same(&set.path("a"), &copies[0]), "what is refused is left as it is");
    }
}
