//! Emulated drives, served by a process of its own that is killed: what each kind must find again after that, and after a clean end.
//!
//! Nothing here is timed: the pace is read from the figures of `status`, and only that it is there.

mod common;

use common::client::Client;
use common::process::{Process, be_a_server};
use common::stacks::{hdd, ssd};
use common::versions::{BLOCK, Knowledge, block_of, version_of, write_randomly};
use common::{Served, options, wait_for};
use nandu_base::Rng;
use nandu_live::examine::{What, examine};
use std::path::Path;

/// Not a test of its own: what [`Process`] runs.
#[test]
fn the_server_process() {
    be_a_server();
}

/// A map in RAM, one of log blocks, and one on the flash.
const MAPS: [&str; 3] = [
    "",
    "mapping = { kind = \"fast\", log_blocks = 6 }",
    "mapping = { kind = \"dftl\", cmt_size = \"8 KiB\" }",
];
const EXPORT: &str = "[export.data]\ndevice = \"top\"\n";

/// Random writes and flushes, then `kill -9`, three times on the same stores; then a clean end. `keeps` says that what was
/// acknowledged survives, flushed or not.
fn live(stack: &str, blocks: u64, requests: u64, keeps: bool) {
    let dir = tempfile::tempdir().expect("a directory");
    let mut rng = Rng::new(29);
    let mut known = Knowledge::new(blocks);
    for round in 0..5 {
        let process = Process::start(stack, dir.path());
        let mut client = Client::connect(&process.socket, "data");
        known.check_all(&mut client).unwrap_or_else(|wrong| panic!("round {round}: {wrong}\n{stack}"));
        let pace = &process.status()["lateness"];
        assert!(pace["ends"].as_u64() >= Some(blocks.min(1)), "{pace}");
        if round == 4 {
            client.disconnect();
            return process.stop();
        }
        write_randomly(&mut client, &mut known, &mut rng, blocks, requests);
        if keeps {
            known.durable.clone_from(&known.acked);
        }
        if round == 2 {
            // A clean end keeps all that was acknowledged.
            known.closed();
            drop(client);
            process.stop();
            continue;
        }
        process.kill();
    }
}

#[test]
fn flash_drives_of_all_maps_survive_kill_9() {
    for map in [
        "",
        "die_scheduler = { kind = \"out-of-order\" }",
        "mapping = { kind = \"dftl\", cmt_size = \"8 KiB\" }",
        "mapping = { kind = \"tpc-ftl\", cmt_size = \"8 KiB\", delayed_read = true }\ncheckpoint_interval = 8",
        "mapping = { kind = \"cftl\", cmt_size = \"8 KiB\" }",
        "mapping = { kind = \"fast\", log_blocks = 6 }",
        "slc_cache = { dynamic = 1, when_full = \"bypass\" }",
    ] {
        // One bit in a cell has no other mode.
        let drive = ssd("top", map)
            .replace("slc-2015", if map.contains("slc_cache") { "mlc-2019" } else { "slc-2015" });
        live(&format!("{EXPORT}{drive}"), 600, 1500, true);
    }
}

#[test]
fn a_drive_with_a_write_buffer_keeps_what_was_flushed_or_all_with_capacitors() {
    let buffer = "write_buffer = { size = \"256 KiB\" }";
    live(&format!("{EXPORT}{}", ssd("top", buffer)), 600, 1500, false);
    let safe = "write_buffer = { size = \"256 KiB\", power_loss_protection = true }";
    live(&format!("{EXPORT}{}", ssd("top", safe)), 600, 1500, true);
}

#[test]
fn a_disk_survives_kill_9() {
    live(&format!("{EXPORT}{}", hdd("top", "")), 400, 150, false);
    live(&format!("{EXPORT}{}", hdd("top", "write_cache = false")), 400, 80, true);
}

#[test]
fn a_mirror_of_a_flash_drive_and_a_disk_survives_kill_9() {
    let mirror = "[device.top]\nkind = \"hetero-mirror\"\nlegs = [\"fast\", \"slow\"]\nregion_size = \"64 KiB\"\ninitial_sync = \"assume-clean\"\n";
    let stack = format!("{EXPORT}{mirror}{}{}", ssd("fast", ""), hdd("slow", ""));
    live(&stack, 400, 200, false);
}

#[test]
fn a_hybrid_of_flash_and_a_disk_survives_kill_9() {
    let flash = |name: &str, bits: u32| {
        format!(
            "[device.{name}]\nkind = \"flash\"\nprofile = \"mlc-2019\"\nstore = \"{name}.store\"\nbits_per_cell = {bits}\ncapacity = \"16 MiB\"\n"
        )
    };
    let hybrid = "[device.top]\nkind = \"hybrid\"\nslc = \"slc\"\nmlc = \"mlc\"\ndisk = \"disk\"\ndram_size = \"512 KiB\"\n";
    let stack = format!("{EXPORT}{hybrid}{}{}{}", flash("slc", 1), flash("mlc", 2), hdd("disk", ""));
    live(&stack, 400, 200, false);
}

fn refusal(stack: &str, dir: &Path, create: bool) -> String {
    let mut options = options(stack, dir);
    options.create = create;
    match Served::try_start(options) {
        Ok(served) => {
            served.stop();
            panic!("it is served with create = {create}: {stack}");
        }
        Err(error) => {
            assert_eq!(error.exit_code(), 2, "{error}");
            error.to_string()
        }
    }
}

#[test]
fn a_store_that_does_not_fit_is_refused_and_left_alone() {
    let dir = tempfile::tempdir().expect("a directory");
    let stack = format!("{EXPORT}{}", ssd("top", ""));
    let store = dir.path().join("top.store");
    let mut missing = options(&stack, dir.path());
    missing.create = false;
    let error = Served::try_start(missing).err().expect("there is no store").to_string();
    assert!(error.contains("--create"), "{error}");
    Served::start(options(&stack, dir.path())).stop();
    let made = std::fs::read(&store).expect("a store");
    for (other, words) in [
        (stack.replace("blocks_per_plane = 40", "blocks_per_plane = 48"), "correct the options"),
        (format!("{stack}mapping = {{ kind = \"dftl\", cmt_size = \"8 KiB\" }}"), "map dftl"),
        (format!("{EXPORT}{}", hdd("top", "")), "it holds flash of"),
    ] {
        for create in [false, true] {
            let refused = refusal(&other, dir.path(), create);
            assert!(refused.contains("device `top`") && refused.contains(words), "{refused}");
        }
    }
    let held = Served::start(options(&stack, dir.path()));
    let mut second = options(&stack, dir.path());
    (second.unix, second.control) = (vec![dir.path().join("second.sock")], None);
    let error = Served::try_start(second).err().expect("it is locked").to_string();
    assert!(error.contains("another process has locked it"), "{error}");
    let looked_at = || examine(&store).expect("it can be read");
    assert!(looked_at().in_use);
    held.stop();
    // A process that another test begins has the lock for a moment too.
    let looked_at = wait_for("the lock to go", || Some(looked_at()).filter(|one| !one.in_use));
    match looked_at.what {
        Some(What::Drive(said)) => assert!(said.starts_with("flash of"), "{said}"),
        other => panic!("{other:?}"),
    }
    std::fs::write(&store, b"somebody's letters").expect("a file");
    for create in [false, true] {
        assert!(refusal(&stack, dir.path(), create).contains("holds no drive of Nandu"));
    }
    assert_eq!(std::fs::read(&store).expect("a file"), b"somebody's letters");
    // With its log cut short it is a drive no more.
    std::fs::write(&store, [&made[..4096], &[0; 4096][..]].concat()).expect("a file");
    assert!(refusal(&stack, dir.path(), true).contains("its log"));
}

/// Also what says where data lie without changing shape or capacity.
#[test]
fn options_that_say_how_data_lie_are_part_of_a_store() {
    let fast = "mapping = { kind = \"fast\", log_blocks = 6";
    let dftl = "mapping = { kind = \"dftl\", cmt_size = \"8 KiB\" }";
    let wear = "reclaim_unit = \"superblock\"\nwear = { factory_bad = \"1/20\", serial = ";
    let base = |options: &str| format!("{EXPORT}{}{options}\n", ssd("top", ""));
    let sized = |spare: &str| {
        let text = base("").replace("blocks_per_plane = 40\n", "capacity = \"6 MiB\"\n");
        text.replace("spare_factor = 0.4", &format!("spare_factor = {spare}"))
    };
    for (made, other) in [
        (sized("0.4"), sized("0.3")),
        (base(&format!("{fast} }}")), base(&format!("{fast}, interleave = 4 }}"))),
        (
            base(&format!("{fast} }}")),
            base(&format!("{fast} }}\nallocation_order = [\"plane\", \"die\", \"chip\", \"channel\"]")),
        ),
        (base(dftl), base(&format!("{dftl}\ncheckpoint_interval = 8"))),
        (base(&format!("{wear}0 }}")), base(&format!("{wear}1 }}"))),
    ] {
        let dir = tempfile::tempdir().expect("a directory");
        Served::start(options(&made, dir.path())).stop();
        let said = refusal(&other, dir.path(), false);
        assert!(said.contains("correct the options"), "{other}: {said}");
        Served::start(options(&made, dir.path())).stop();
    }
}

#[test]
fn create_on_a_drive_that_holds_data_keeps_them() {
    let dir = tempfile::tempdir().expect("a directory");
    let stack = format!("{EXPORT}{}", ssd("top", ""));
    for create in [true, true, false] {
        let mut options = options(&stack, dir.path());
        options.create = create;
        let served = Served::start(options);
        let mut client = served.connect("data");
        if dir.path().join("written").exists() {
            assert_eq!(client.read(8 * BLOCK, BLOCK as u32), block_of(8, 7));
        }
        client.write(8 * BLOCK, &block_of(8, 7));
        client.disconnect();
        served.stop();
        std::fs::write(dir.path().join("written"), b"").expect("a file");
    }
}

#[test]
fn a_drive_in_memory_says_so_and_is_pulled_out_and_put_back() {
    let dir = tempfile::tempdir().expect("a directory");
    let mirror = "[device.top]\nkind = \"mirror\"\nlegs = [\"a\", \"b\"]\nregion_size = \"64 KiB\"\ninitial_sync = \"assume-clean\"\n";
    let in_memory = |name: &str| ssd(name, "").replace(&format!("store = \"{name}.store\"\n"), "");
    let stack = format!("{EXPORT}{mirror}{}{}", in_memory("a"), in_memory("b"));
    let served = Served::start(options(&stack, dir.path()));
    let tell = |line: &str| {
        let command = line.parse().expect("a command");
        nandu_live::ctl::send(&served.control, &command).unwrap_or_else(|error| panic!("{line}: {error}"))
    };
    let mut client = served.connect("data");
    (0..200).for_each(|block| client.write(block * BLOCK, &block_of(block, 1)));
    tell("fail a");
    (0..200).for_each(|block| client.write(block * BLOCK, &block_of(block, 2)));
    tell("add a");
    wait_for("the leg to be filled", || {
        (served.status()["devices"]["top"]["health"] == "healthy").then_some(())
    });
    tell("fail b");
    for block in 0..200 {
        assert_eq!(version_of(block, &client.read(block * BLOCK, BLOCK as u32)), Ok(2));
    }
    client.disconnect();
    served.stop();
}

/// Everything in `stacks/` is served as it is: a block is written, flushed and read at each export.
#[test]
fn every_stack_of_the_folder_is_served() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../stacks");
    let mut served = 0;
    let mut files: Vec<_> =
        std::fs::read_dir(folder).expect("a folder").map(|file| file.expect("a file").path()).collect();
    files.sort();
    for file in files.into_iter().filter(|file| file.extension().is_some_and(|e| e == "toml")) {
        let text = std::fs::read_to_string(&file).expect("a stack file");
        let dir = tempfile::tempdir().expect("a directory");
        let stack =
            nandu_stack::Stack::parse(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let exports: Vec<String> = stack.exports.iter().map(|export| export.name.clone()).collect();
        let server = Served::try_start(options(&text, dir.path()));
        let server = server.unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        for export in &exports {
            let mut client = server.connect(export);
            let block = vec![0x5A; 64 << 10];
            let command = nandu_live::nbd::wire::cmd::WRITE;
            client.send(command, 0, 0, block.len() as u32, &block);
            let wrote = client.receive().1;
            // A stack with planted errors may refuse.
            let is_faulty = text.contains("errors") || text.contains("fault");
            assert!(wrote.is_ok() || is_faulty, "{}: {wrote:?}", file.display());
            if wrote.is_ok() {
                client.flush();
                assert!(client.read(0, block.len() as u32) == block, "{}", file.display());
            }
            client.disconnect();
        }
        server.stop();
        served += 1;
    }
    assert!(served > 30, "only {served} stacks");
}

/// A drive that was written, flushed and closed, and the bytes of its store.
fn closed_store(stack: &str, dir: &Path) -> Vec<u8> {
    let served = Served::start(options(stack, dir));
    let mut client = served.connect("data");
    (0..200).for_each(|block| client.write(block * BLOCK, &block_of(block, 3)));
    client.flush();
    client.disconnect();
    served.stop();
    std::fs::read(dir.join("top.store")).expect("a store")
}

/// The log of a store that was closed, with one bit flipped: the start names the place and changes nothing, a salvage goes on and says what is gone.
#[test]
fn a_damaged_store_is_refused_until_it_is_salvaged() {
    use std::os::unix::fs::PermissionsExt;
    for map in MAPS {
        let dir = tempfile::tempdir().expect("a directory");
        let stack = format!("{EXPORT}{}", ssd("top", map));
        let store = dir.path().join("top.store");
        let bytes = closed_store(&stack, dir.path());
        let mode = std::fs::metadata(&store).expect("a store").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        // The last sector of the log, before the pages.
        let log: Vec<usize> =
            (0..bytes.len()).step_by(512).filter(|&at| bytes[at..].starts_with(b"NLOG")).collect();
        let at = log[log.len() / 2];
        let mut damaged = bytes.clone();
        damaged[at + 60] ^= 1;
        std::fs::write(&store, &damaged).expect("a store");
        let refused = refusal(&stack, dir.path(), false);
        assert!(refused.contains("top.store") && refused.contains(&format!("byte {at}")), "{refused}");
        assert!(refused.contains("--salvage"), "{refused}");
        assert!(std::fs::read(&store).expect("a store") == damaged, "it is changed");
        let mut salvage = options(&stack, dir.path());
        (salvage.create, salvage.salvage) = (false, true);
        let served = Served::start(salvage);
        let mut client = served.connect("data");
        for block in 0..200 {
            client.send(nandu_live::nbd::wire::cmd::READ, 0, block * BLOCK, BLOCK as u32, &[]);
            if let Ok(data) = client.receive().1 {
                let version = version_of(block, &data);
                assert!(version == Ok(3) || version == Ok(0), "{map}: block {block}: {version:?}");
            }
        }
        client.disconnect();
        served.stop();
        let mut plain = options(&stack, dir.path());
        plain.create = false;
        Served::start(plain).stop();
    }
}

/// A page of the host with a flipped bit is an error for who reads it; the rest of the drive serves on, and the page too once it is written.
#[test]
fn a_flipped_page_reads_as_an_error_until_it_is_written() {
    // A map of log blocks tells its own pages from the host's by other keys.
    for map in ["", "mapping = { kind = \"bast\" }"] {
        flip_a_page(map);
    }
}

fn flip_a_page(map: &str) {
    let dir = tempfile::tempdir().expect("a directory");
    let stack = format!("{EXPORT}{}", ssd("top", map));
    let store = dir.path().join("top.store");
    let mut bytes = closed_store(&stack, dir.path());
    let page = block_of(77, 3);
    let at = (0..bytes.len() - page.len())
        .step_by(4096)
        .find(|&at| bytes[at..].starts_with(&page))
        .expect("it is stored");
    bytes[at + 1000] ^= 8;
    std::fs::write(&store, &bytes).expect("a store");
    let served = Served::start(options(&stack, dir.path()));
    let mut client = served.connect("data");
    for block in 0..200 {
        client.send(nandu_live::nbd::wire::cmd::READ, 0, block * BLOCK, BLOCK as u32, &[]);
        match client.receive().1 {
            Ok(data) => assert_eq!((block != 77, version_of(block, &data)), (true, Ok(3))),
            Err(_) => assert_eq!(block, 77),
        }
    }
    client.write(77 * BLOCK, &block_of(77, 4));
    assert_eq!(version_of(77, &client.read(77 * BLOCK, BLOCK as u32)), Ok(4));
    client.disconnect();
    served.stop();
}

/// The file system takes no more pages of a store, while its log could go on: what is found again is what was flushed or sent, and never zeros.
#[test]
fn a_store_that_cannot_grow_keeps_what_it_said_before() {
    for map in MAPS {
        let dir = tempfile::tempdir().expect("a directory");
        let stack = format!("{EXPORT}{}", ssd("top", map));
        let bytes = closed_store(&stack, dir.path());
        let written = bytes.iter().rposition(|&byte| byte != 0).expect("it was written") + 1;
        // A shell without its own limit of units: POSIX says 512 bytes.
        let line = format!("trap '' XFSZ; ulimit -f {}; exec \"$@\"", written.div_ceil(4096) * 8);
        let log = std::fs::File::create(dir.path().join("server.log")).expect("a log");
        let child = Process::command(Some(&line), &stack, dir.path(), &[], log).spawn().expect("a shell");
        let process = Process::until_it_answers(child, dir.path()).expect("it starts");
        let mut client = Client::connect(&process.socket, "data");
        let fails = (0..200 * 20).find(|n| {
            let (block, version) = (n % 200, 4 + n / 200);
            client
                .call(
                    nandu_live::nbd::wire::cmd::WRITE,
                    0,
                    block * BLOCK,
                    BLOCK as u32,
                    &block_of(block, version),
                )
                .and_then(|_| client.call(nandu_live::nbd::wire::cmd::FLUSH, 0, 0, 0, &[]))
                .is_err()
        });
        let fails = fails.expect("the store is full some time");
        wait_for("the log to say why", || process.log().contains("File too large").then_some(()));
        drop(client);
        process.kill();
        let process = Process::start(&stack, dir.path());
        let mut client = Client::connect(&process.socket, "data");
        for block in 0..200 {
            let found = version_of(block, &client.read(block * BLOCK, BLOCK as u32)).expect("whole");
            // All writes before the one that failed were flushed.
            let flushed = 3 + fails.saturating_sub(block).div_ceil(200);
            let is_right = found == flushed || fails % 200 == block && found == flushed + 1;
            assert!(
                is_right,
                "{map}: block {block} has version {found}, {flushed} was flushed, write {fails} failed"
            );
        }
        client.disconnect();
        process.stop();
    }
}

/// A store of the version before is refused by a sentence that says so.
#[test]
fn a_store_of_the_version_before_is_refused_by_name() {
    let dir = tempfile::tempdir().expect("a directory");
    let stack = format!("{EXPORT}{}", ssd("top", ""));
    let mut bytes = closed_store(&stack, dir.path());
    bytes[8] = 1;
    let sum = crc32c(&bytes[..4092]).to_le_bytes();
    bytes[4092..4096].copy_from_slice(&sum);
    std::fs::write(dir.path().join("top.store"), &bytes).expect("a store");
    let refused = refusal(&stack, dir.path(), true);
    assert!(refused.contains("it is of version 1, and this is version 2"), "{refused}");
}

/// What a drive keeps for itself, kind by kind: maps, checkpoints, trims, tenants. (Marks of log-block maps are empty pages.) One bit of each
/// such page is flipped (its bytes are under one checksum): refused with its byte and unchanged, or right.
#[test]
fn a_damaged_record_of_a_drives_own_is_refused_with_its_byte() {
    let tenants = "tenants = [{ name = \"a\", size = \"4 MiB\" }, { name = \"b\", size = \"4 MiB\" }]\nmax_tenants = 4\n\
                   isolation = { kind = \"shared-space\", contribution = \"1/10\" }";
    for (kind, options_of) in [
        ("maps", "mapping = { kind = \"dftl\", cmt_size = \"8 KiB\" }"),
        ("checkpoints", "mapping = { kind = \"dftl\", cmt_size = \"8 KiB\" }\ncheckpoint_interval = 8"),
        ("trims", ""),
        ("tenants", tenants),
    ] {
        let dir = tempfile::tempdir().expect("a directory");
        let drive = ssd("top", options_of).replace("blocks_per_plane = 40", "blocks_per_plane = 128");
        let stack = format!("{EXPORT}{drive}");
        let process = Process::start(&stack, dir.path());
        if kind == "tenants" {
            process.ctl("tenant add top size=4MiB");
        }
        let mut client = Client::connect(&process.socket, "data");
        (0..200).for_each(|block| client.write(block * BLOCK, &block_of(block, 3)));
        client.flush();
        let gone = |block: u64| kind == "trims" && block % 2 == 1;
        for block in (0..200).filter(|&block| gone(block)) {
            client
                .call(nandu_live::nbd::wire::cmd::TRIM, 0, block * BLOCK, BLOCK as u32, &[])
                .expect("a trim");
        }
        client.flush();
        client.disconnect();
        process.stop();
        let store = dir.path().join("top.store");
        let made = std::fs::read(&store).expect("a store");
        let label = made.windows(4).position(|w| w == b"NLOG").expect("a log") / 4096 * 4096;
        let hosts: Vec<Vec<u8>> = (0..200).map(|block| block_of(block, 3)).collect();
        let is_own = |at: &usize| {
            let page = &made[*at..(*at + BLOCK as usize).min(made.len())];
            let is_log = page.chunks(512).any(|sector| sector.starts_with(b"NLOG"));
            page.iter().any(|&byte| byte != 0) && !is_log && !hosts.iter().any(|block| page == block)
        };
        let own: Vec<usize> = (label..made.len()).step_by(BLOCK as usize).filter(is_own).collect();
        let mut refused = 0;
        for &at in &own {
            let mut damaged = made.clone();
            let first = made[at..].iter().position(|&byte| byte != 0).expect("it holds something");
            damaged[at + first] ^= 4;
            std::fs::write(&store, &damaged).expect("a store");
            let mut plain = options(&stack, dir.path());
            plain.create = false;
            match Served::try_start(plain) {
                Err(error) => {
                    let why = error.to_string();
                    assert!(
                        why.contains(&format!("byte {at}: ")) && why.contains("--salvage"),
                        "{kind}: {why}"
                    );
                    assert!(std::fs::read(&store).expect("a store") == damaged, "{kind}: it is changed");
                    refused += 1;
                }
                Ok(served) => {
                    let mut client = served.connect("data");
                    for block in 0..200 {
                        let want = if gone(block) { 0 } else { 3 };
                        assert_eq!(
                            version_of(block, &client.read(block * BLOCK, BLOCK as u32)),
                            Ok(want),
                            "{kind}: {at}"
                        );
                    }
                    client.disconnect();
                    served.stop();
                }
            }
        }
        println!("{kind}: {refused} of {} pages are refused", own.len());
        assert!(refused > 0, "{kind}: none of {} pages counts", own.len());
    }
}

/// CRC-32C, bit by bit.
fn crc32c(bytes: &[u8]) -> u32 {
    let step = |crc: u32, _| if crc & 1 == 1 { crc >> 1 ^ 0x82F6_3B78 } else { crc >> 1 };
    !bytes.iter().fold(!0, |crc, &byte| (0..8).fold(crc ^ u32::from(byte), step))
}

/// A start that is refused leaves no new store behind, of a flash drive or a disk, and an empty file empty.
#[test]
fn a_refused_start_leaves_no_new_store() {
    let dir = tempfile::tempdir().expect("a directory");
    let files = "[device.a]\nkind = \"file\"\npath = \"a.img\"\nsize = \"16 MiB\"\n";
    let mirror = |with: &str| {
        format!(
            "[export.data]\ndevice = \"m\"\n[device.m]\nkind = \"mirror\"\nlegs = [\"a\", \"b\"]\n{files}{with}"
        )
    };
    let pair = mirror("[device.b]\nkind = \"file\"\npath = \"b.img\"\nsize = \"16 MiB\"\n");
    Served::start(options(&pair, dir.path())).stop();
    let store = dir.path().join("new.store");
    for drive in [
        "kind = \"ssd\"\nprofile = \"slc-2015\"\nblocks_per_plane = 40\npages_per_block = 64\npage_size = \"4 KiB\"\nplanes_per_die = 4\nspare_factor = 0.5\n",
        "kind = \"hdd\"\nprofile = \"desktop-2010\"\ncapacity = \"16 MiB\"\n",
    ] {
        let text = mirror(&format!("[device.b]\n{drive}store = \"new.store\"\n"));
        for was_there in [false, true] {
            if was_there {
                std::fs::write(&store, b"").expect("room");
            }
            let refused =
                Served::try_start(options(&text, dir.path())).map(drop).expect_err("`a` is one of a pair");
            assert!(refused.to_string().contains("was one of a pair"), "{refused}");
            assert_eq!(store.metadata().map(|meta| meta.len()).ok(), was_there.then_some(0), "{drive}");
        }
        std::fs::remove_file(&store).expect("it is there");
    }
}
