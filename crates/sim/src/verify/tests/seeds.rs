//! Seeds that failed once, with the stack they drew then; and faults that only some stacks can show.

use crate::verify::{verify, Drive, Family, Shape, VerifyOptions};

/// Programs passed erases that waited for another die and used up the blocks that were erased already. A power cut then
/// found a plane without a block to move pages to.
#[test]
fn blocks_are_not_used_up_while_erases_wait() {
    let drive = |options: &str| {
        format!("[export.data]\ndevice = \"ssd1\"\n\n[device.ssd1]\nkind = \"ssd\"\narbiter = {{ kind = \"queued\" }}\n{options}")
    };
    let drawn = drive(
        "profile = \"slc-2015\"\nchannels = 2\nchips = 2\nblocks = 19\npage = 512\npages_per_block = 2\n\
         over_provisioning = \"87/152\"\ngc = { kind = \"greedy\", start = 4, copyback = true }\n\
         placement = [\"chip\", \"plane\", \"die\", \"channel\"]\n",
    );
    let options = VerifyOptions {
        shape: Shape::File(drawn),
        first_seed: 10_538,
        seeds: 1,
        crash: true,
        repeat_one_in: 0,
        threads: 1,
        ..VerifyOptions::default()
    };
    let report = verify(&options, |_| {}).expect("the stack can be built");
    assert!(report.failures.is_empty(), "{:?}", report.failures);
}

/// Both arbiters are drawn; this fault shows only with the one that lets operations wait.
#[test]
fn an_erase_before_waiting_reads_is_found() {
    let options = VerifyOptions {
        shape: Shape::Named(Family::Ssd(Drive::Any)),
        seeds: 2000,
        crash: true,
        plant: Some("ssd.erase-before-reads".into()),
        failures_max: 1,
        ..VerifyOptions::default()
    };
    let report = verify(&options, |_| {}).expect("the seeds can be run");
    assert!(!report.failures.is_empty());
}

/// Neither slot of a page of the map could be read; it was written anew into one of them, under a low number. At the next
/// start the other one could be read again and looked newer, without the mark of a region that only the leader held.
#[test]
fn a_map_that_could_not_be_read_once_is_not_believed_later() {
    let options = VerifyOptions {
        shape: Shape::named("hetero-mirror-of-unlike").expect("a family"),
        first_seed: 1671,
        seeds: 1,
        crash: true,
        repeat_one_in: 0,
        threads: 1,
        ..VerifyOptions::default()
    };
    let report = verify(&options, |_| {}).expect("the seed can be run");
    assert!(report.failures.is_empty(), "{:?}", report.failures);
}

/// Trims that were about to go on record were nowhere when the page for the record had to be cleared first: what was
/// erased then let an older version come back after a cut.
#[test]
fn trims_are_waiting_until_their_record_has_a_page() {
    let stack = "[export.data]\ndevice = \"ssd1\"\n\n[device.ssd1]\nkind = \"ssd\"\nprofile = \"bench-2026\"\nchannels = 1\n\
                 dies = 1\nplanes = 1\nblocks = 169\npage = 512\npages_per_block = 2\nover_provisioning = \"116/338\"\n\
                 unit = \"plane\"\ntenants = [{ name = \"t0\", size = 61952 }, { name = \"t1\", size = 51712 }]\n\
                 isolation = { kind = \"shared-space\", beta = \"9/10\", give_back = \"at-erase\" }\n\
                 gc = { kind = \"d-choices\", start = 2, copyback = false, choices = 3, pace = \"foreground\" }\n\
                 wear = { order = \"longest-erased\", spread = 1, every = 2 }\n";
    let options = VerifyOptions {
        shape: Shape::File(stack.into()),
        first_seed: 430,
        seeds: 1,
        crash: true,
        repeat_one_in: 0,
        threads: 1,
        ..VerifyOptions::default()
    };
    let report = verify(&options, |_| {}).expect("the stack can be built");
    assert!(report.failures.is_empty(), "{:?}", report.failures);
}

/// Runs these seeds of a family with power cuts.
fn hold(family: Family, seeds: &[u64]) {
    for &seed in seeds {
        let options = VerifyOptions {
            shape: Shape::Named(family),
            first_seed: seed,
            seeds: 1,
            crash: true,
            repeat_one_in: 0,
            threads: 1,
            ..VerifyOptions::default()
        };
        let report = verify(&options, |_| {}).expect("the stack can be built");
        assert!(report.failures.is_empty(), "{:?}", report.failures);
    }
}

/// A leg came and went faster than the journals of the others were written: each time all writes began anew (22, 489, 814). A
/// rebuild went on from an old mark (553). Legs came and went during a start, which began anew each time (2250).
#[test]
fn parity_arrays_bear_legs_that_come_and_go() {
    hold(Family::ParityOfFaultySsds, &[22, 489, 553, 814, 2250]);
}

/// A start replayed the journal without a leg, did not end, and the next one took that leg for current.
#[test]
fn a_leg_that_missed_a_replay_is_out() {
    hold(Family::ParityOfFaultySsds, &[2077]);
}

/// The checksum of a journal entry was a CRC, which is the same for all records that end with their own CRC: old data behind a
/// new header was replayed.
#[test]
fn arrays_keep_the_records_of_arrays_above_them() {
    hold(Family::Arrays, &[1009]);
}
