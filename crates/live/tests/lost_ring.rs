//! A hybrid disk that writes back, on files, whose SSD is lost with dirty data: the disk goes on alone by an operator's word, at a start and while it serves; status, log and `examine` name what is lost.

mod common;

use common::client::Client;
use common::{Served, options, wait_for};
use nandu_live::examine::{examine, sets};
use nandu_live::{ServeOptions, ctl};
use serde_json::{Value, json};

const SSD: u64 = 4 << 20;
const DISK: u64 = 32 << 20;
const BLOCK: u64 = 4096;
const REGION: u64 = 1 << 20;

fn stack() -> String {
    format!(
        "[export.data]\ndevice = \"m\"\n[device.m]\nkind = \"hybrid\"\ndirty_region_size = {REGION}\nslc = \"ssd\"\ndisk = \"big\"\n\
         append_idle = \"1 ms\"\n\
         [device.ssd]\nkind = \"file\"\npath = \"ssd.img\"\nsize = {SSD}\n[device.big]\nkind = \"file\"\npath = \"big.img\"\nsize = {DISK}\n"
    )
}

fn ask(server: &Served, command: &str) -> Result<Value, String> {
    let command: ctl::Command = command.parse().expect("a command");
    ctl::send(&server.control, &command).map_err(|error| error.to_string())
}

fn status(server: &Served) -> Value {
    ask(server, "status").expect("a status")["devices"]["m"].clone()
}

fn health(server: &Served, want: &str) {
    wait_for(want, || (status(server)["health"] == want).then_some(()));
}

/// Whether a read of a block fails.
fn fails(client: &mut Client, block: u64) -> bool {
    client.call(0, 0, block * BLOCK, BLOCK as u32, &[]).is_err()
}

#[test]
fn the_disk_goes_on_without_its_ssd_and_says_what_is_lost() {
    let dir = tempfile::tempdir().expect("a directory");
    let (ssd, big) = (dir.path().join("ssd.img"), dir.path().join("big.img"));
    let server = Served::start(options(&stack(), dir.path()));
    let mut client = Client::connect(&server.socket, "data");
    for block in [0, 256, 257, 3000] {
        client.write(block * BLOCK, &[7; BLOCK as usize]);
    }
    client.flush();
    client.disconnect();
    server.stop();
    std::fs::remove_file(&ssd).expect("it is there");

    let named = |found: &str| {
        let regions = examine(&big).expect("it can be read").regions.expect("it has a map");
        if found == "dirty" { regions.dirty } else { regions.lost }
    };
    let regions = vec![(0, 2 * REGION), (11 * REGION, 12 * REGION)];
    assert_eq!((named("dirty"), named("lost")), (regions.clone(), vec![]));
    let start = || sets(&[examine(&big).expect("it can be read")]).remove(0).start;
    assert!(start().is_err_and(|why| why.contains("--force-degraded")));
    let again = |force_degraded| ServeOptions {
        create: false,
        alone: force_degraded,
        ..options(&stack(), dir.path())
    };
    let why = Served::try_start(again(false)).err().expect("it may have data").to_string();
    assert!(why.contains("ring 0 is not there") && why.contains("3 regions of 1 MiB"), "{why}");
    assert_eq!(named("dirty"), regions, "nothing was changed");

    let server = Served::start(again(true));
    assert!(
        server.said.iter().any(|line| line.contains("GONE") && line.contains("3145728 bytes")),
        "{:?}",
        server.said
    );
    assert!(
        server.said.iter().any(|line| line.contains("m: degraded: it serves from its disk alone")),
        "{:?}",
        server.said
    );
    let mut client = Client::connect(&server.socket, "data");
    assert!(fails(&mut client, 0) && fails(&mut client, 257) && fails(&mut client, 3000));
    assert_eq!(client.read(1000 * BLOCK, 4096), [0; 4096], "what the ring did not have is served");
    client.write(257 * BLOCK, &[9; BLOCK as usize]);
    client.flush();
    let lost = |server: &Served| status(server)["lost"].clone();
    let range = |from: u64, to: u64| json!({ "from_bytes": from, "to_bytes": to });
    let left =
        json!([range(0, 257 * BLOCK), range(258 * BLOCK, 2 * REGION), range(11 * REGION, 12 * REGION),]);
    assert_eq!(lost(&server), left);
    client.disconnect();
    server.stop();
    assert_eq!(named("lost").len(), 3);
    assert!(start().is_ok_and(|how| how.contains("alone")));

    // The word was given once. Another SSD is taken while clients go on.
    let server = Served::start(again(false));
    assert_eq!(lost(&server), left);
    let mut client = Client::connect(&server.socket, "data");
    assert_eq!(client.read(257 * BLOCK, 4096), [9; 4096]);
    ask(&server, "replace ssd with new.img").expect("it takes a blank one");
    health(&server, "healthy");
    client.write(1000 * BLOCK, &[5; BLOCK as usize]);
    client.flush();
    assert!(fails(&mut client, 0), "still lost");
    assert!(ask(&server, "fail ssd").is_err_and(|why| why.contains("--force")), "it may have data");

    // That one is lost while it serves.
    ask(&server, "fail ssd --force").expect("an operator says so");
    assert!(fails(&mut client, 1000), "no word was given");
    ask(&server, "replace ssd with newer.img").expect("the old one is given up");
    health(&server, "healthy");
    assert!(fails(&mut client, 1000), "the second SSD had it");
    assert_eq!(client.read(257 * BLOCK, 4096), [9; 4096], "the disk had it");
    ask(&server, "accept-loss m").expect("old is better than none");
    wait_for("the list is empty", || status(&server)["lost"].is_null().then_some(()));
    assert_eq!(client.read(1000 * BLOCK, 4096), [0; 4096], "as the disk has it");
    client.flush();
    client.disconnect();
    server.stop();
    assert_eq!(named("lost"), vec![]);
}
