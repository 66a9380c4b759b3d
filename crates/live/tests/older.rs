//! Sets that version 0.1 made, as its server left them: `sets/version-0.1.txt` holds what is in their files. All members together are brought up
//! at their next opening; what is left of the old ones is refused from then on.

mod common;

use common::{Served, options, wait_for};
use nandu_live::ServeOptions;
use std::path::Path;

const SIZE: u64 = 1 << 20;
/// Bytes from one block that was written to the next; block n is full of n + 1.
const STRIDE: u64 = 128 << 10;
const BLOCK: usize = 4096;
/// Where the superblock lies that is found first from the end of a leg.
const SUPERBLOCK: usize = SIZE as usize - BLOCK;

struct Kind {
    kind: &'static str,
    options: &'static str,
    legs: &'static [&'static str],
}

const MIRROR: &str = "region_size = \"64 KiB\"\n";
const KINDS: [Kind; 3] = [
    Kind { kind: "mirror", options: MIRROR, legs: &["a", "b"] },
    Kind { kind: "hetero-mirror", options: MIRROR, legs: &["a", "b"] },
    Kind {
        kind: "parity",
        options: "chunk = \"16 KiB\"\njournal_size = \"320 KiB\"\n",
        legs: &["a", "b", "c"],
    },
];

impl Kind {
    fn start(&self, dir: &Path) -> Result<Served, nandu_live::ServeError> {
        let leg = |f: &&str| format!("[device.{f}]\nkind = \"file\"\npath = \"{f}.img\"\nsize = {SIZE}\n");
        let files: String = self.legs.iter().map(leg).collect();
        let stack = format!(
            "[export.data]\ndevice = \"m\"\n[device.m]\nkind = \"{}\"\nlegs = {:?}\n{}{files}",
            self.kind, self.legs, self.options
        );
        Served::try_start(ServeOptions { create: false, ..options(&stack, dir) })
    }

    /// What version 0.1 left in the files of its legs.
    fn made(&self) -> Vec<Vec<u8>> {
        let mut legs = vec![vec![0; SIZE as usize]; self.legs.len()];
        for line in include_str!("sets/version-0.1.txt").lines() {
            let fields: Vec<&str> = line.split(' ').collect();
            let [kind, leg, at, bytes] = fields[..] else { panic!("kind, leg, byte and content: {line}") };
            let Some(leg) = self.legs.iter().position(|name| kind == self.kind && *name == leg) else {
                continue;
            };
            let at: usize = at.parse().expect("a byte");
            let byte = |hex: &str| u8::from_str_radix(hex, 16).expect("two digits");
            match bytes.split_once('*') {
                Some((one, count)) => {
                    let count: usize = count.parse().expect("a count");
                    legs[leg][at..at + count].fill(byte(one));
                }
                None => {
                    for (to, digits) in legs[leg][at..].iter_mut().zip(bytes.as_bytes().chunks(2)) {
                        *to = byte(std::str::from_utf8(digits).expect("digits"));
                    }
                }
            }
        }
        legs
    }

    fn put(&self, dir: &Path, leg: &str, bytes: &[u8]) {
        std::fs::write(dir.join(format!("{leg}.img")), bytes).expect("it is ours");
    }

    fn get(&self, dir: &Path, leg: &str) -> Vec<u8> {
        std::fs::read(dir.join(format!("{leg}.img"))).expect("a leg is a file")
    }
}

/// Block n holds n and this.
fn shows(server: &Served, more: u8) {
    let mut client = server.connect("data");
    for n in 0..6 {
        let read = client.read(u64::from(n) * STRIDE, BLOCK as u32);
        assert!(read.iter().all(|&byte| byte == n + more), "block {n} is {}", read[0]);
    }
    client.disconnect();
}

#[test]
fn sets_of_version_0_1_are_brought_up_with_all_members() {
    for kind in &KINDS {
        let dir = tempfile::tempdir().expect("a directory");
        let made = kind.made();
        kind.legs.iter().zip(&made).for_each(|(leg, bytes)| kind.put(dir.path(), leg, bytes));
        let is_of = |leg: &str, version: u8| {
            let bytes = kind.get(dir.path(), leg);
            let of_mirror = bytes[SUPERBLOCK + 7] == 1 && bytes[SUPERBLOCK + 8] == version;
            let of_parity = bytes[SUPERBLOCK + 7] == version;
            if kind.kind == "parity" { of_parity } else { of_mirror }
        };
        assert!(kind.legs.iter().all(|leg| is_of(leg, 1)));
        let server = kind.start(dir.path()).unwrap_or_else(|error| panic!("{}: {error}", kind.kind));
        shows(&server, 1);
        assert_eq!(server.status()["devices"]["m"]["health"], "healthy");
        let mut client = server.connect("data");
        (0..6).for_each(|n| client.write(u64::from(n) * STRIDE, &[n + 2; BLOCK]));
        client.flush();
        client.disconnect();
        server.stop();
        assert!(kind.legs.iter().all(|leg| is_of(leg, 2)), "{} is of this version now", kind.kind);
        // A leg as version 0.1 left it is an older copy like any other.
        for (leg, bytes) in kind.legs.iter().zip(&made) {
            let now = kind.get(dir.path(), leg);
            kind.put(dir.path(), leg, bytes);
            let why =
                kind.start(dir.path()).err().unwrap_or_else(|| panic!("{}: {leg} is believed", kind.kind));
            assert!(why.to_string().contains(&format!("leg `{leg}` is old")), "{why}");
            assert!(kind.get(dir.path(), leg) == *bytes, "what is refused is left as it is");
            kind.put(dir.path(), leg, &now);
        }
        let server = kind.start(dir.path()).unwrap_or_else(|error| panic!("{}: {error}", kind.kind));
        shows(&server, 2);
        server.stop();
    }
}

/// A mirror does not start without a leg; a parity array does, and the leg is rebuilt when it comes.
#[test]
fn a_set_of_version_0_1_without_a_member() {
    for kind in &KINDS {
        for (at, away) in kind.legs.iter().enumerate() {
            let dir = tempfile::tempdir().expect("a directory");
            let made = kind.made();
            let others = || kind.legs.iter().zip(&made).filter(|(leg, _)| *leg != away);
            others().for_each(|(leg, bytes)| kind.put(dir.path(), leg, bytes));
            match kind.start(dir.path()) {
                Ok(server) => {
                    assert_eq!(kind.kind, "parity");
                    shows(&server, 1);
                    server.stop();
                    kind.put(dir.path(), away, &made[at]);
                    let server = kind.start(dir.path()).expect("all are there");
                    wait_for("it to be whole", || {
                        (server.status()["devices"]["m"]["health"] == "healthy").then_some(())
                    });
                    shows(&server, 1);
                    server.stop();
                }
                Err(error) => {
                    assert!(
                        kind.kind != "parity" && error.to_string().contains("was one of a pair"),
                        "{error}"
                    );
                    assert!(
                        others().all(|(leg, bytes)| kind.get(dir.path(), leg) == *bytes),
                        "it is left as it is"
                    );
                }
            }
        }
    }
}
