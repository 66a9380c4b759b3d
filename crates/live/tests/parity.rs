//! A parity array over three files, served by a process of its own: `kill -9`, with volatile write caches that die with it too,
//! and legs that are lost, one after the other.

mod common;

use common::client::Client;
use common::process::{Process, be_a_server};
use common::stacks::CACHE;
use common::versions::{BLOCK, Knowledge, block_of, stored, write_randomly};
use common::{Served, options};
use nandu_base::Rng;
use nandu_live::{ServeError, ServeOptions};
use std::path::Path;

/// Not a test of its own: what [`Process`] runs.
#[test]
fn the_server_process() {
    be_a_server();
}

const SIZE: u64 = 4 << 20;
const LEGS: usize = 3;
/// Blocks that are written: several rows of chunks, so that pieces of a row meet.
const BLOCKS: u64 = 300;

/// A stack with these options of the array and of the `fault` above each leg.
fn stack(array: &str, fault: &str) -> String {
    let leg = |k: usize| {
        format!(
            "[device.leg{k}]\nkind = \"fault\"\nbelow = \"file{k}\"\n{fault}\n\
             [device.file{k}]\nkind = \"file\"\npath = \"{k}.img\"\nsize = {SIZE}\nsector = \"4 KiB\"\n"
        )
    };
    let legs: Vec<String> = (0..LEGS).map(|k| format!("leg{k}")).collect();
    let files: String = (0..LEGS).map(leg).collect();
    format!(
        "[export.data]\ndevice = \"m\"\n[device.m]\nkind = \"parity\"\nlegs = {legs:?}\nchunk = \"16 KiB\"\n\
         journal_size = \"320 KiB\"\ninitial_sync = \"assume-clean\"\n{array}{files}"
    )
}

fn wait_until_full(process: &Process) {
    process.wait_for_counter("m", "full_legs", LEGS as u64);
    process.wait_for_counter("m", "bytes_to_rebuild", 0);
}

/// The xor of all legs is zero where user data lies, which begins at their start.
fn assert_parity(dir: &Path, bytes: u64) {
    let legs: Vec<Vec<u8>> =
        (0..LEGS).map(|k| std::fs::read(dir.join(format!("{k}.img"))).expect("a leg is a file")).collect();
    let xor = |at: usize| legs.iter().fold(0, |xor, leg| xor ^ leg[at]);
    let odd = (0..bytes as usize / (LEGS - 1)).find(|&at| xor(at) != 0);
    assert_eq!(odd, None, "the legs do not xor to zero");
}

/// Reads everything and holds it against what is known. With a journal what was acknowledged is durable.
fn look(client: &mut Client, known: &mut Knowledge, journal: bool) -> Vec<u64> {
    if journal {
        known.durable.clone_from(&known.acked);
    }
    known.check_all(client).unwrap_or_else(|wrong| panic!("{wrong}"))
}

/// Random writes and flushes, then `kill -9`; three times on the same legs.
fn live(stack: &str, journal: bool) {
    let dir = tempfile::tempdir().expect("a directory");
    let mut rng = Rng::new(29);
    let mut known = Knowledge::new(BLOCKS);
    for round in 0..3 {
        let process = Process::start(stack, dir.path());
        let mut client = Client::connect(&process.socket, "data");
        look(&mut client, &mut known, journal);
        write_randomly(&mut client, &mut known, &mut rng, BLOCKS, 500 + round * 300);
        process.kill();
    }
    let process = Process::start(stack, dir.path());
    let mut client = Client::connect(&process.socket, "data");
    let versions = look(&mut client, &mut known, journal);
    wait_until_full(&process);
    for block in 0..BLOCKS {
        assert_eq!(stored(&mut client, block), versions[block as usize], "block {block} flipped back");
    }
    let bytes = client.size;
    client.disconnect();
    process.stop();
    assert_parity(dir.path(), bytes);
}

#[test]
fn kill_9_loses_nothing_that_was_acknowledged() {
    live(&stack("", ""), true);
    live(&stack("level = 3\nchunk = \"4 KiB\"\n", "").replacen("chunk = \"16 KiB\"\n", "", 1), true);
}

#[test]
fn kill_9_with_volatile_caches_loses_nothing_that_was_promised() {
    live(&stack("", CACHE), true);
    live(&stack("write_hole = \"resync\"\n", CACHE), false);
}

/// Each leg in its turn is lost under load, missed over a `kill -9` and a start, and taken in again.
#[test]
fn any_leg_may_be_lost_with_a_kill_and_comes_back() {
    let dir = tempfile::tempdir().expect("a directory");
    let stack = stack("", "");
    let mut rng = Rng::new(31);
    let mut known = Knowledge::new(BLOCKS);
    let mut bytes = 0;
    for leg in 0..LEGS {
        let process = Process::start(&stack, dir.path());
        wait_until_full(&process);
        let mut client = Client::connect(&process.socket, "data");
        look(&mut client, &mut known, true);
        write_randomly(&mut client, &mut known, &mut rng, BLOCKS, 200);
        process.kill();
        // The leg is missed from the start on, and what the others hold is complete without it.
        let (here, away) = (dir.path().join(format!("{leg}.img")), dir.path().join("away"));
        std::fs::rename(&here, &away).expect("it can be moved");
        let options = ServeOptions { create: false, ..options(&stack, dir.path()) };
        let served = Served::start(options);
        let mut client = served.connect("data");
        look(&mut client, &mut known, true);
        let counters = |served: &Served| served.status()["devices"]["m"]["counters"].clone();
        assert_eq!(counters(&served)["legs_missing"], 1);
        for block in 0..BLOCKS / 4 {
            let version = known.next(block);
            client.write(block * BLOCK, &block_of(block, version));
            known.acked[block as usize] = known.sent[block as usize];
        }
        look(&mut client, &mut known, true);
        std::fs::rename(&away, &here).expect("it can be moved");
        let add = format!("add file{leg}").parse().expect("a command");
        nandu_live::ctl::send(&served.control, &add).expect("it is there again");
        common::wait_for("the leg to be rebuilt", || {
            let counters = counters(&served);
            (counters["full_legs"] == LEGS as u64 && counters["bytes_to_rebuild"] == 0).then_some(())
        });
        look(&mut client, &mut known, true);
        bytes = client.size;
        client.disconnect();
        served.stop();
        assert_parity(dir.path(), bytes);
    }
    assert!(bytes > 0);
}

#[test]
fn legs_fail_and_are_added_under_load() {
    let dir = tempfile::tempdir().expect("a directory");
    let process = Process::start(&stack("", ""), dir.path());
    let mut client = Client::connect(&process.socket, "data");
    let mut rng = Rng::new(37);
    let mut known = Knowledge::new(BLOCKS);
    for leg in 0..LEGS {
        wait_until_full(&process);
        let write = |client: &mut Client, known: &mut Knowledge, rng: &mut Rng| {
            for _ in 0..150 {
                let block = rng.below(BLOCKS);
                let version = known.next(block);
                client.write(block * BLOCK, &block_of(block, version));
            }
        };
        process.ctl(&format!("fail file{leg}"));
        write(&mut client, &mut known, &mut rng);
        process.wait_for_counter("m", "legs_missing", 1);
        write(&mut client, &mut known, &mut rng);
        process.ctl(&format!("add file{leg}"));
        write(&mut client, &mut known, &mut rng);
        for block in 0..BLOCKS {
            assert_eq!(stored(&mut client, block), known.sent[block as usize], "block {block}");
        }
    }
    wait_until_full(&process);
    let bytes = client.size;
    client.disconnect();
    process.stop();
    assert_parity(dir.path(), bytes);
}

/// A parity array without faults above its files, with these options.
fn plain(array: &str) -> String {
    let file = |k: usize| {
        format!("[device.file{k}]\nkind = \"file\"\npath = \"{k}.img\"\nsize = {SIZE}\nsector = \"4 KiB\"\n")
    };
    let files: String = (0..LEGS).map(file).collect();
    format!(
        "[export.data]\ndevice = \"m\"\n[device.m]\nkind = \"parity\"\nlegs = [\"file0\", \"file1\", \"file2\"]\n\
         chunk = \"16 KiB\"\njournal_size = \"320 KiB\"\ninitial_sync = \"assume-clean\"\nscrub = {{ rate = 0 }}\n{array}{files}"
    )
}

fn ask(server: &Served, command: &str) -> Result<serde_json::Value, String> {
    let command: nandu_live::ctl::Command = command.parse().expect("a command");
    nandu_live::ctl::send(&server.control, &command).map_err(|error| error.to_string())
}

fn array(server: &Served) -> serde_json::Value {
    ask(server, "status").expect("a status")["devices"]["m"].clone()
}

fn wait_until_whole(server: &Served) {
    common::wait_for("the array to be whole", || (array(server)["health"] == "healthy").then_some(()));
}

#[test]
fn a_leg_is_replaced_by_another_file_while_it_serves() {
    let dir = tempfile::tempdir().expect("a directory");
    // Slow enough to be asked while it rebuilds.
    let stack = plain("rebuild_rate = \"2 MiB\"\n");
    let server = Served::start(options(&stack, dir.path()));
    let mut client = server.connect("data");
    for block in 0..BLOCKS {
        client.write(block * BLOCK, &block_of(block, 1));
    }
    let no = ask(&server, "replace file1 with 2.img").expect_err("it is another leg");
    assert!(no.contains("leg `file2` of this server already"), "{no}");
    assert!(ask(&server, "set-leader file1").expect_err("no leg leads").contains("no such command"));
    assert_eq!(array(&server)["health"], "healthy", "what is refused changes nothing");
    ask(&server, "fail file1").expect("the others have everything");
    ask(&server, "replace file1 with a new one.img").expect("the others have everything");
    for block in (0..BLOCKS).step_by(3) {
        client.write(block * BLOCK, &block_of(block, 2));
    }
    let no = ask(&server, "fail file0").expect_err("the new one is not rebuilt");
    assert!(no.contains("cannot serve without `file0`"), "{no}");
    wait_until_whole(&server);
    for block in 0..BLOCKS {
        assert_eq!(stored(&mut client, block), 1 + u64::from(block % 3 == 0), "block {block}");
    }
    let bytes = client.size;
    client.disconnect();
    server.stop();
    // The stack file still names the old file: it is refused, and nothing is lost.
    let again = || ServeOptions { create: false, ..options(&stack, dir.path()) };
    match Served::try_start(again()) {
        Err(error) => assert!(error.to_string().contains("`file1` is old"), "{error}"),
        Ok(_) => panic!("an old leg is believed"),
    }
    std::fs::rename(dir.path().join("a new one.img"), dir.path().join("1.img")).expect("it is there");
    let server = Served::start(again());
    wait_until_whole(&server);
    server.stop();
    assert_parity(dir.path(), bytes);
}

#[test]
fn a_difference_that_nobody_made_is_found_and_the_parity_follows_the_data() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = Served::start(options(&plain(""), dir.path()));
    let mut client = server.connect("data");
    for block in 0..BLOCKS {
        client.write(block * BLOCK, &block_of(block, 1));
    }
    let bytes = client.size;
    client.disconnect();
    server.stop();
    // Row 0 has its parity on the last leg, row 1 on the second.
    for (leg, at) in [(2, 100), (0, 20_000)] {
        let path = dir.path().join(format!("{leg}.img"));
        let mut content = std::fs::read(&path).expect("a leg is a file");
        content[at] ^= 1;
        std::fs::write(&path, &content).expect("it is ours");
    }
    let byte =
        |leg: usize, at: usize| std::fs::read(dir.path().join(format!("{leg}.img"))).expect("a file")[at];
    let changed = byte(0, 20_000);
    let options = options(&plain(""), dir.path());
    let server = Served::start(ServeOptions { create: false, ..options });
    for (pass, word, differing) in [(1, "check", 2), (2, "repair", 4), (3, "check", 4)] {
        ask(&server, &format!("scrub m {word}")).expect("a parity array is scrubbed");
        common::wait_for("the pass", || (array(&server)["counters"]["scrub_passes"] == pass).then_some(()));
        assert_eq!(array(&server)["counters"]["scrub_differing_blocks"], differing, "pass {pass}");
    }
    assert!(ask(&server, "scrub m stop").expect_err("it is over").contains("no scrub"));
    assert_eq!(byte(0, 20_000), changed, "data are not touched");
    server.stop();
    assert_parity(dir.path(), bytes);
}

#[test]
fn a_journal_in_another_place_is_refused_although_as_much_is_left_for_data() {
    let dir = tempfile::tempdir().expect("a directory");
    let leg = |k: usize| format!("[device.leg{k}]\nkind = \"file\"\npath = \"{k}.img\"\nsize = \"16 MiB\"\n");
    let legs: String = (0..LEGS).map(leg).collect();
    let stack = |journal: &str| {
        format!(
            "[export.data]\ndevice = \"m\"\n[device.m]\nkind = \"parity\"\nlegs = [\"leg0\", \"leg1\", \"leg2\"]\n\
             chunk = \"1 MiB\"\njournal_size = \"{journal}\"\ninitial_sync = \"assume-clean\"\n{legs}"
        )
    };
    let start = |journal: &str, create: bool| {
        Served::try_start(ServeOptions { create, ..options(&stack(journal), dir.path()) })
    };
    start("4 MiB", true).unwrap_or_else(|error| panic!("{error}")).stop();
    // 32 entries in place of 31: the journal begins earlier, and the rows of chunks are as many.
    match start("4300 KiB", false) {
        Err(error @ ServeError::Open { .. }) => {
            let text = error.to_string();
            assert!(text.contains("`leg0` keeps its journal in another place"), "{text}");
            assert!(text.contains("give the `journal_size` with which the array was made"), "{text}");
        }
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("a journal is looked for where it is not"),
    }
    start("4200 KiB", false).unwrap_or_else(|error| panic!("as many entries: {error}")).stop();
}
