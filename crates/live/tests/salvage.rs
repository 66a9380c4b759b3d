//! Sets whose records are damaged as a whole: a start names the place, is refused and changes nothing; with `salvage` it goes on with what is
//! there, says what is gone, and the start after it is an ordinary one.

mod common;

use common::client::Client;
use common::process::{Process, be_a_server};
use common::{Served, options, wait_for};
use nandu_live::{ServeOptions, ctl};
use std::path::Path;

/// Not a test of its own: what a `Process` runs.
#[test]
fn the_server_process() {
    be_a_server();
}

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

const MIRROR: Kind =
    Kind { kind: "mirror", own: "initial_sync = \"assume-clean\"\n", legs: &["a", "b"], magic: b"NanduHM" };
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
        fill(self.start(dir, true, false).expect("it is made"));
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

/// Writes all blocks, and ends the server.
fn fill(server: Served) {
    let mut client = Client::connect(&server.socket, "data");
    for block in 0..BLOCKS {
        client.write(block * BLOCK, &content(block));
    }
    client.flush();
    client.disconnect();
    server.stop();
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
                (status["devices"]["m"]["health"] == "healthy").then_some(())
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

/// The stack with checksums below each member: what is damaged there cannot be read.
fn checked(kind: &Kind) -> String {
    let raw = |text: String, leg: &&str| {
        let below =
            format!("[device.{leg}]\nkind = \"integrity\"\nbelow = \"{leg}-raw\"\n[device.{leg}-raw]\nkind");
        text.replace(&format!("[device.{leg}]\nkind"), &below)
    };
    kind.legs.iter().fold(kind.stack(), raw)
}

/// Where pages of a member begin with this.
fn pages(dir: &Path, member: &str, magic: &[u8]) -> Vec<usize> {
    let bytes = std::fs::read(dir.join(format!("{member}.img"))).expect("a member");
    (0..bytes.len()).step_by(4096).filter(|&at| bytes[at..].starts_with(magic)).collect()
}

/// One bit of this page is turned over.
fn turn(dir: &Path, member: &str, page: usize) {
    let path = dir.join(format!("{member}.img"));
    let mut bytes = std::fs::read(&path).expect("a member");
    bytes[page + 100] ^= 1;
    std::fs::write(path, bytes).expect("it is ours");
}

/// Blocks that are written twice: more than the first region of checksums of the upper ring, 4 MiB, holds.
const MANY: u64 = 800;

fn read_many(socket: &Path) -> Vec<Vec<u8>> {
    let mut client = Client::connect(socket, "data");
    let found = (0..MANY).map(|block| client.read(block * BLOCK, BLOCK as u32)).collect();
    client.disconnect();
    found
}

/// Of a record that cannot be read no bit is put right: one of two superblocks can be done without, and a header is missed where it counts. A start
/// says which page, and changes nothing; a salvage goes on, and the start after it is an ordinary one.
#[test]
fn records_of_a_hybrid_disk_that_cannot_be_read_are_named() {
    let slc = "path = \"slc.img\"\nsize = ";
    let stack = checked(&HYBRID).replace(&format!("{slc}{LEG}"), &format!("{slc}{}", 3 * LEG));
    for is_killed in [false, true] {
        let dir = tempfile::tempdir().expect("a directory");
        let start = |create, salvage| {
            Served::try_start(ServeOptions { create, salvage, ..options(&stack, dir.path()) })
        };
        let server = start(true, false).expect("it is made");
        let mut client = Client::connect(&server.socket, "data");
        for block in (0..MANY).chain(0..MANY) {
            client.write(block * BLOCK, &content(block));
            if block % 16 == 15 {
                client.flush();
            }
        }
        client.disconnect();
        server.stop();
        if is_killed {
            Process::start(&stack, dir.path()).kill();
        }
        let want: Vec<Vec<u8>> = (0..MANY).map(content).collect();
        let made = HYBRID.files(dir.path());
        let restore = || {
            for (leg, bytes) in HYBRID.legs.iter().zip(&made) {
                std::fs::write(dir.path().join(format!("{leg}.img")), bytes).expect("it is ours");
            }
        };
        for member in HYBRID.legs {
            for page in pages(dir.path(), member, b"NanduHS") {
                turn(dir.path(), member, page);
                let server = start(false, false).unwrap_or_else(|error| panic!("{member}: {error}"));
                assert!(read_many(&server.socket) == want, "{member}");
                server.stop();
                start(false, false).expect("it is written again").stop();
                restore();
            }
        }
        let (mut missing, mut named) = (0, 0);
        for page in pages(dir.path(), "slc", b"NanduHY").into_iter().step_by(12) {
            turn(dir.path(), "slc", page);
            let damaged = HYBRID.files(dir.path());
            match start(false, false) {
                Ok(server) => {
                    assert!(
                        read_many(&server.socket) == want,
                        "byte {page}: no header that counts was damaged"
                    );
                    server.stop();
                }
                Err(error) => {
                    let why = error.to_string();
                    assert!(error.exit_code() == 2 && why.contains("salvage"), "{why}");
                    // After a crash the checksums below have been made anew; the data have not changed.
                    let data = |files: &[Vec<u8>]| -> Vec<Vec<u8>> {
                        let end =
                            |file: &Vec<u8>| if is_killed { file.len() - (128 << 10) } else { file.len() };
                        files.iter().map(|file| file[..end(file)].to_vec()).collect()
                    };
                    assert!(
                        data(&HYBRID.files(dir.path())) == data(&damaged),
                        "byte {page}: something was changed"
                    );
                    let is_missing = why.contains("are missing, ") && why.contains(" byte ");
                    assert!(
                        is_missing || why.contains(&format!("ring 0 cannot be read at byte {page} ")),
                        "{why}"
                    );
                    *if is_missing { &mut missing } else { &mut named } += 1;
                    let server = start(false, true).unwrap_or_else(|error| panic!("byte {page}: {error}"));
                    assert!(server.said.iter().any(|line| line.contains("GONE")), "{:?}", server.said);
                    let found = read_many(&server.socket);
                    server.stop();
                    let server = start(false, false).unwrap_or_else(|error| panic!("byte {page}: {error}"));
                    assert!(read_many(&server.socket) == found, "byte {page}");
                    server.stop();
                }
            }
            restore();
        }
        println!("killed: {is_killed}: {missing} headers missing, {named} named");
        assert!(if is_killed { named > 3 } else { missing > 3 && named == 0 }, "{missing} {named}");
    }
}

/// One record of a leg cannot be read: it may be newer than the other slot. The start names leg and bytes; without the leg it goes on when it is
/// told to, and the leg is taken back blank.
#[test]
fn records_of_a_mirror_that_cannot_be_read_are_named() {
    for kind in [MIRROR, HETERO] {
        let (stack, dir) = (checked(&kind), tempfile::tempdir().expect("a directory"));
        let start = |create, salvage, alone| {
            Served::try_start(ServeOptions { create, salvage, alone, ..options(&stack, dir.path()) })
        };
        fill(start(true, false, false).expect("it is made"));
        let made = kind.files(dir.path());
        for (leg, other) in [("a", "b"), ("b", "a")] {
            let list = pages(dir.path(), leg, b"HMML")[0];
            for page in pages(dir.path(), leg, kind.magic).into_iter().chain([list]) {
                turn(dir.path(), leg, page);
                let damaged = kind.files(dir.path());
                let Err(error) = start(false, false, false) else { panic!("{leg}: byte {page}: it starts") };
                let why = error.to_string();
                let what = if page == list {
                    format!("the list of lost data on leg `{leg}`, at bytes {page} and ")
                } else {
                    format!(
                        "the records of leg `{leg}` cannot be read, and may be newer than those of leg `{other}`"
                    )
                };
                assert!(
                    why.contains(&what) && why.contains(&page.to_string()) && why.contains("salvage"),
                    "{why}"
                );
                assert!(error.exit_code() == 2 && kind.files(dir.path()) == damaged, "{why}");
                let server =
                    start(false, true, false).unwrap_or_else(|error| panic!("{leg}: byte {page}: {error}"));
                assert!(
                    server.said.iter().any(|line| line.contains("GONE") && line.contains(leg)),
                    "{:?}",
                    server.said
                );
                check(&server, kind.kind);
                let health = if page == list { "healthy" } else { "degraded" };
                assert_eq!(server.status()["devices"]["m"]["health"], health);
                server.stop();
                for (leg, bytes) in kind.legs.iter().zip(&made) {
                    std::fs::write(dir.path().join(format!("{leg}.img")), bytes).expect("it is ours");
                }
                if page != list {
                    turn(dir.path(), leg, page);
                    let server = start(false, false, true)
                        .unwrap_or_else(|error| panic!("{leg}: byte {page}: {error}"));
                    check(&server, kind.kind);
                    server.stop();
                    std::fs::write(dir.path().join(format!("{leg}.img")), vec![0; LEG as usize])
                        .expect("it is ours");
                    let server = start(true, false, false).expect("a blank leg is filled");
                    wait_for("both legs", || {
                        (server.status()["devices"]["m"]["health"] == "healthy").then_some(())
                    });
                    check(&server, kind.kind);
                    server.stop();
                }
                for (leg, bytes) in kind.legs.iter().zip(&made) {
                    std::fs::write(dir.path().join(format!("{leg}.img")), bytes).expect("it is ours");
                }
            }
        }
    }
}

/// A page of a ring that cannot be read and has to be moved ends service, and the server says so.
#[test]
fn a_hybrid_disk_that_fails_says_so() {
    let (stack, dir) = (checked(&HYBRID), tempfile::tempdir().expect("a directory"));
    let process = Process::start(&stack, dir.path());
    let mut client = Client::connect(&process.socket, "data");
    for block in 0..MANY / 2 {
        client.write(block * BLOCK, &content(block));
    }
    client.flush();
    client.disconnect();
    process.stop();
    for block in 1..MANY / 2 {
        pages(dir.path(), "slc", &content(block)[..256])
            .into_iter()
            .for_each(|page| turn(dir.path(), "slc", page));
    }
    let process = Process::start(&stack, dir.path());
    assert_eq!(process.status()["devices"]["m"]["health"], "healthy");
    let mut client = Client::connect(&process.socket, "data");
    let mut block = 0;
    let failed = |process: &Process| process.status()["devices"]["m"]["health"] == "failed";
    while !failed(&process) {
        // Requests may fail by now.
        let _ = client.call(
            nandu_live::nbd::wire::cmd::WRITE,
            0,
            (MANY / 2 + block % 300) * BLOCK,
            BLOCK as u32,
            &content(block),
        );
        block += 1;
        assert!(block < 20_000, "no page of the ring had to be moved");
    }
    assert!(process.log().lines().any(|line| line.contains("error m: failed")), "{}", process.log());
    process.kill();
}
