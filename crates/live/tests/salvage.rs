//! Sets whose records are damaged as a whole: a start names the place, is refused and changes nothing; with `salvage` it goes on with what is
//! there, says what is gone, and the start after it is an ordinary one.

mod common;

use common::client::Client;
use common::{Served, options, wait_for};
use nandu_live::{ServeOptions, ctl};
use std::path::Path;

const LEG: u64 = 4 << 20;
const BLOCK: u64 = 4096;
const BLOCKS: u64 = 64;

/// A kind of set, its members, and what its records begin with.
struct Kind {
    kind: &'static str,
    own: &'static str,
    legs: &'static [&'static str],
    magic: &'static [u8],
}

const MIRROR: Kind = Kind {
    kind: "mirror",
    own: "initial_sync = \"assume-clean\"\nregion_size = \"64 KiB\"\n",
    legs: &["a", "b"],
    magic: b"NanduHM",
};
const HETERO: Kind = Kind { kind: "hetero-mirror", ..MIRROR };
const PARITY: Kind = Kind {
    kind: "parity",
    own: "initial_sync = \"assume-clean\"\nchunk = \"16 KiB\"\njournal_size = \"320 KiB\"\n",
    legs: &["a", "b", "c"],
    magic: b"NanduPA",
};
const BARE: Kind =
    Kind { own: "initial_sync = \"assume-clean\"\nchunk = \"16 KiB\"\nwrite_hole = \"resync\"\n", ..PARITY };
const INTEGRITY: Kind = Kind { kind: "integrity", own: "", legs: &["a"], magic: b"NANDUtag" };
const HYBRID: Kind = Kind {
    kind: "hybrid",
    own: "erase_unit = \"64 KiB\"\npromote = \"always\"\nread_bypass = 0\n",
    legs: &["slc", "mlc", "disk"],
    magic: b"NanduHS",
};

impl Kind {
    fn stack(&self) -> String {
        let leg =
            |name: &&str| format!("[device.{name}]\nkind = \"file\"\npath = \"{name}.img\"\nsize = {LEG}\n");
        let files: String = self.legs.iter().map(leg).collect();
        let names = match self.kind {
            "hybrid" => "slc = \"slc\"\nmlc = \"mlc\"\ndisk = \"disk\"".to_string(),
            "integrity" => "below = \"a\"".to_string(),
            _ => format!("legs = {:?}", self.legs),
        };
        format!(
            "[export.data]\ndevice = \"m\"\n[device.m]\nkind = \"{}\"\n{names}\n{}{files}",
            self.kind, self.own
        )
    }

    fn start(&self, dir: &Path, create: bool, salvage: bool) -> Result<Served, nandu_live::ServeError> {
        Served::try_start(ServeOptions { create, salvage, ..options(&self.stack(), dir) })
    }

    /// A set that was written and closed.
    fn made(&self, dir: &Path) {
        let server = self.start(dir, true, false).expect("it is made");
        let mut client = Client::connect(&server.socket, "data");
        for block in 0..BLOCKS {
            client.write(block * BLOCK, &content(block));
        }
        client.flush();
        client.disconnect();
        server.stop();
    }

    /// The superblocks of these members are written over: nothing of them can be read.
    fn damage(&self, dir: &Path, members: &[&str]) {
        for member in members {
            let path = dir.join(format!("{member}.img"));
            let mut bytes = std::fs::read(&path).expect("a member");
            let places = (0..bytes.len()).step_by(4096).filter(|&at| bytes[at..].starts_with(self.magic));
            let places: Vec<usize> = places.collect();
            assert_eq!(places.len(), 2, "{member}: two superblocks");
            places.into_iter().for_each(|at| bytes[at..at + 512].fill(0xA5));
            std::fs::write(&path, bytes).expect("it is ours");
        }
    }

    fn files(&self, dir: &Path) -> Vec<Vec<u8>> {
        self.legs.iter().map(|leg| std::fs::read(dir.join(format!("{leg}.img"))).expect("a member")).collect()
    }

    /// A start is refused, names a place, tells of salvage and leaves everything as it was.
    fn is_refused(&self, dir: &Path, words: &str) {
        let before = self.files(dir);
        let error = self.start(dir, false, false).err().unwrap_or_else(|| panic!("{} starts", self.kind));
        let said = error.to_string();
        assert_eq!(error.exit_code(), 2, "{said}");
        assert!(
            said.contains(words) && said.contains("byte") && said.contains("salvage"),
            "{}: {said}",
            self.kind
        );
        assert!(self.files(dir) == before, "{}: something was changed", self.kind);
    }

    /// A salvage goes on, says what is gone, and serves all that was written.
    fn is_salvaged(&self, dir: &Path, gone: &[&str]) -> Served {
        let server = self.start(dir, false, true).unwrap_or_else(|error| panic!("{}: {error}", self.kind));
        let said: Vec<&String> = server.said.iter().filter(|line| line.contains("GONE")).collect();
        assert_eq!(said.len(), gone.len(), "{said:?}");
        for (line, words) in said.iter().zip(gone) {
            assert!(line.contains(words), "{line}");
        }
        check(&server, self.kind);
        server
    }
}

fn content(block: u64) -> Vec<u8> {
    (0..BLOCK).map(|i| (block * 7 + i % 251) as u8).collect()
}

fn check(server: &Served, why: &str) {
    let mut client = Client::connect(&server.socket, "data");
    for block in 0..BLOCKS {
        assert!(client.read(block * BLOCK, BLOCK as u32) == content(block), "{why}: block {block}");
    }
    client.disconnect();
}

#[test]
fn a_leg_without_records_is_left_alone_until_it_is_given_back_blank() {
    for kind in [MIRROR, HETERO, PARITY, BARE] {
        for leg in kind.legs {
            let dir = tempfile::tempdir().expect("a directory");
            kind.made(dir.path());
            kind.damage(dir.path(), &[leg]);
            kind.is_refused(dir.path(), leg);
            let server = kind.is_salvaged(dir.path(), &[&format!("the records of `{leg}`")]);
            assert_eq!(server.status()["devices"]["m"]["health"], "degraded");
            server.stop();
            // It was left alone; the others know it.
            std::fs::write(dir.path().join(format!("{leg}.img")), vec![0; LEG as usize]).expect("it is ours");
            let server = kind.start(dir.path(), true, false).expect("a blank leg is filled");
            wait_for("all legs", || {
                let status = ctl::send(&server.control, &ctl::Command::Status).expect("it answers");
                (status["devices"]["m"]["health"] == "whole").then_some(())
            });
            check(&server, kind.kind);
            server.stop();
        }
    }
}

#[test]
fn a_set_without_any_records_goes_on_with_the_data_of_its_first_leg() {
    for kind in [MIRROR, HETERO, PARITY, BARE] {
        let dir = tempfile::tempdir().expect("a directory");
        kind.made(dir.path());
        kind.damage(dir.path(), kind.legs);
        kind.is_refused(dir.path(), "holds something");
        kind.is_salvaged(dir.path(), &["the records of all legs: `a` leads a new set"]).stop();
        // Of a mirror the other leg is known to be none.
        if kind.legs.len() == 2 {
            std::fs::write(dir.path().join("b.img"), vec![0; LEG as usize]).expect("it is ours");
        }
        let server =
            kind.start(dir.path(), true, false).unwrap_or_else(|error| panic!("{}: {error}", kind.kind));
        check(&server, kind.kind);
        server.stop();
    }
}

#[test]
fn a_parity_array_takes_legs_that_it_needs_as_they_are() {
    for kind in [PARITY, BARE] {
        let dir = tempfile::tempdir().expect("a directory");
        kind.made(dir.path());
        kind.damage(dir.path(), &["a", "c"]);
        kind.is_refused(dir.path(), "`a` holds something else");
        let gone = ["the records of `a`: it is taken as it is", "the records of `c`: it is taken as it is"];
        kind.is_salvaged(dir.path(), &gone).stop();
        let server = kind.start(dir.path(), false, false).expect("an ordinary start");
        check(&server, kind.kind);
        server.stop();
    }
}

#[test]
fn checksums_have_their_superblocks_written_anew() {
    let dir = tempfile::tempdir().expect("a directory");
    INTEGRITY.made(dir.path());
    INTEGRITY.damage(dir.path(), &["a"]);
    INTEGRITY.is_refused(dir.path(), "both copies of its superblock");
    INTEGRITY.is_salvaged(dir.path(), &["the records of `a`: it is taken as it is"]).stop();
    let server = INTEGRITY.start(dir.path(), false, false).expect("an ordinary start");
    check(&server, "integrity");
    server.stop();
}

#[test]
fn a_hybrid_disk_takes_a_member_without_superblocks_as_it_is() {
    for member in HYBRID.legs {
        let dir = tempfile::tempdir().expect("a directory");
        HYBRID.made(dir.path());
        HYBRID.damage(dir.path(), &[member]);
        HYBRID.is_refused(dir.path(), "holds no hybrid disk, but another member does");
        HYBRID.is_salvaged(dir.path(), &[&format!("the records of `{member}`: it is taken as it is")]).stop();
        let server = HYBRID.start(dir.path(), false, false).expect("an ordinary start");
        check(&server, member);
        server.stop();
    }
}

#[test]
fn a_hybrid_disk_goes_on_without_a_group_of_a_ring() {
    let dir = tempfile::tempdir().expect("a directory");
    HYBRID.made(dir.path());
    let path = dir.path().join("slc.img");
    let mut bytes = std::fs::read(&path).expect("a member");
    let first =
        (0..bytes.len()).step_by(4096).find(|&at| bytes[at..].starts_with(b"NanduHY")).expect("a header");
    bytes[first..first + 256].fill(0xA5);
    std::fs::write(&path, bytes).expect("it is ours");
    HYBRID.is_refused(dir.path(), "ring 0: groups 1 to 1 are missing");
    let server = HYBRID.start(dir.path(), false, true).expect("a salvage goes on");
    let gone = server.said.iter().find(|line| line.contains("GONE")).expect("it says what is gone").clone();
    assert!(gone.contains("groups 1 to 1 of `slc`"), "{gone}");
    let read = |server: &Served| {
        let mut client = Client::connect(&server.socket, "data");
        let found: Vec<Vec<u8>> = (0..BLOCKS).map(|block| client.read(block * BLOCK, BLOCK as u32)).collect();
        client.disconnect();
        found
    };
    let found = read(&server);
    server.stop();
    let is_gone = |block: usize| found[block] != content(block as u64);
    let lost = (0..BLOCKS as usize).filter(|&block| is_gone(block)).count();
    assert!((1..BLOCKS as usize).contains(&lost), "{lost} blocks were in that group");
    let server = HYBRID.start(dir.path(), false, false).expect("an ordinary start");
    assert!(!server.said.iter().any(|line| line.contains("GONE")), "it was said");
    assert!(read(&server) == found);
    server.stop();
}
