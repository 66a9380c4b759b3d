//! Each bit of one record of each kind is turned over while nothing is served, and records are taken away as a whole: a start that follows is
//! refused, or reads what was flushed; one that salvages goes on, and the next one is an ordinary one.

use nandu_base::{Op, OpenOptions, Stamp};
use nandu_stack::testbed::Testbed;
use nandu_stack::{BuildOptions, builtin};

const STACK: &str = r#"
[export.data]
device = "hybrid"
[device.hybrid]
kind = "hybrid"
slc = "slc"
mlc = "mlc"
disk = "disk"
erase_unit = "32 KiB"
dram_size = "64 KiB"
promote = "always"
read_bypass = 0
[device.slc]
kind = "memory"
size = "352 KiB"
latency = "1 us"
[device.mlc]
kind = "memory"
size = "512 KiB"
latency = "1 us"
[device.disk]
kind = "memory"
size = "2 MiB"
latency = "1 us"
"#;
const PAGE: u64 = 4096;
/// Sectors of a page.
const SECTORS: u64 = PAGE / 512;
/// Pages that are written.
const PAGES: u64 = 24;
const PLAIN: OpenOptions = OpenOptions { create: false, alone: false, assume_clean: false, salvage: false };
const SALVAGE: OpenOptions = OpenOptions { salvage: true, ..PLAIN };

/// A hybrid disk that was written and closed twice, each page flushed by itself or in small groups, and what its pages hold.
fn made() -> (Testbed, Vec<Stamp>) {
    let built = Testbed::new(STACK, &builtin(), BuildOptions::default());
    let mut bed = built.unwrap_or_else(|error| panic!("{error}"));
    let mut want = vec![Stamp::ZERO; PAGES as usize];
    for turn in 0..2 {
        for page in (0..PAGES).filter(|page| turn == 0 || page % 3 == 0) {
            let serial = bed.go(Op::Write, page * PAGE, PAGE).serial;
            want[page as usize] = Stamp::new(serial, page * SECTORS);
            if page % 5 != 0 {
                bed.go(Op::Flush, 0, 0);
            }
        }
        bed.go(Op::Flush, 0, 0);
        bed.close();
        bed.crash(turn + 2);
    }
    bed.close();
    (bed, want)
}

fn read(bed: &mut Testbed) -> Vec<Stamp> {
    (0..PAGES).map(|page| bed.go(Op::Read, page * PAGE, PAGE).data[0]).collect()
}

fn mended(bed: &mut Testbed) -> u64 {
    bed.counter("hybrid", "headers_repaired")
}

/// The first sectors of the pages of a member that hold such records, in the order of the number that stands at this byte.
fn records(bed: &mut Testbed, member: &str, magic: &[u8], number: usize) -> Vec<u64> {
    let mut found = Vec::new();
    for sector in bed.records(member) {
        let bytes = bed.record_mut(member, sector);
        if bytes.starts_with(magic) {
            found.push((
                u64::from_le_bytes(bytes[number..number + 8].try_into().expect("eight bytes")),
                sector,
            ));
        }
    }
    found.sort_unstable();
    found.into_iter().map(|(_, sector)| sector).collect()
}

fn superblocks(bed: &mut Testbed, member: &str) -> Vec<u64> {
    records(bed, member, b"NanduHS", 48)
}

fn headers(bed: &mut Testbed, member: &str) -> Vec<u64> {
    records(bed, member, b"NanduHY", 24)
}

/// Starts with each bit of the page at `first` turned over. How many starts were right, and how many of these put it right.
fn turn_over(bed: &mut Testbed, want: &[Stamp], member: &str, first: u64) -> (u64, u64) {
    let (kept, mut right, mut put_right) = (bed.media(), 0, 0);
    for bit in 0..PAGE * 8 {
        bed.record_mut(member, first + bit / 4096)[(bit % 4096 / 8) as usize] ^= 1 << (bit % 8);
        if bed.reopen(PLAIN, 9).is_ok() {
            assert_eq!(read(bed), want, "{member}, sector {first}, bit {bit}");
            right += 1;
            put_right += u64::from(mended(bed) > 0);
        }
        bed.restore(&kept);
    }
    (right, put_right)
}

#[test]
fn each_flipped_bit_of_a_superblock_does_no_harm() {
    let (mut bed, want) = made();
    for member in ["slc", "disk"] {
        let places = superblocks(&mut bed, member);
        assert_eq!(places.len(), 2, "{member} was told of each opening");
        let (right, _) = turn_over(&mut bed, &want, member, places[1]);
        println!("{member}: {right} of {} starts went on from the other superblock", PAGE * 8);
        assert_eq!(right, PAGE * 8);
    }
}

#[test]
fn each_flipped_bit_of_a_header_is_put_right() {
    let (mut bed, want) = made();
    let newest = *headers(&mut bed, "slc").last().expect("a header");
    assert_eq!(turn_over(&mut bed, &want, "slc", newest), (PAGE * 8, PAGE * 8));
}

#[test]
fn a_salvage_takes_a_member_without_superblocks_as_it_is() {
    for member in ["slc", "mlc", "disk"] {
        let (mut bed, want) = made();
        for sector in superblocks(&mut bed, member) {
            bed.record_mut(member, sector)[..64].fill(0xA5);
        }
        let why = bed.reopen(PLAIN, 9).expect_err("it has no records").to_string();
        assert!(why.contains("holds no hybrid disk") && why.contains("salvage"), "{why}");
        bed.reopen(SALVAGE, 10).expect("a salvage goes on");
        assert_eq!(read(&mut bed), want, "{member}: nothing was gone but the superblocks");
        bed.close();
        bed.reopen(PLAIN, 11).expect("it has superblocks again");
        assert_eq!(read(&mut bed), want, "{member}");
    }
}

#[test]
fn a_salvage_goes_on_without_a_group_and_puts_it_on_record() {
    let (mut bed, want) = made();
    let all = headers(&mut bed, "slc");
    let kept = bed.media();
    let (mut refused, mut older) = (0, 0);
    for &sector in &all {
        bed.restore(&kept);
        bed.record_mut("slc", sector)[..256].fill(0xA5);
        let Err(error) = bed.reopen(PLAIN, 9) else {
            assert_eq!(read(&mut bed), want, "sector {sector}: no header that counts was damaged");
            continue;
        };
        let why = error.to_string();
        assert!(why.contains("are missing, "), "{why}");
        refused += 1;
        bed.reopen(SALVAGE, 10).unwrap_or_else(|error| panic!("sector {sector}: {error}"));
        let found = read(&mut bed);
        let differs = (0..want.len()).filter(|&page| found[page] != want[page]).count();
        assert!(differs <= 8, "sector {sector}: {differs} pages are not what they were");
        older += differs;
        bed.go(Op::Write, 0, PAGE);
        bed.go(Op::Flush, 0, 0);
        bed.close();
        // The gap is still there, and known.
        bed.reopen(PLAIN, 11).unwrap_or_else(|error| panic!("sector {sector}: {error}"));
        assert_eq!(read(&mut bed)[1..], found[1..], "sector {sector}");
        // The ring goes round many times, and is a ring like any other.
        for turn in 0..200 {
            bed.go(Op::Write, turn * 7 % PAGES * PAGE, PAGE);
            bed.go(Op::Flush, 0, 0);
        }
        bed.close();
        bed.reopen(PLAIN, 12).unwrap_or_else(|error| panic!("sector {sector}: {error}"));
    }
    println!("{refused} of {} headers were missed, {older} pages were older", all.len());
    assert!(refused > 5 && older > 5, "{refused} refused, {older} older");
}

/// A ring that is gone for good: something blank is put in its place, and the disk goes on with what it has. What only the ring had reads as something older.
#[test]
fn a_salvage_takes_a_blank_ring_in_place_of_one_that_is_gone() {
    for member in ["slc", "mlc"] {
        let (mut bed, want) = made();
        bed.wipe(member);
        let why = bed.reopen(PLAIN, 9).expect_err("it is blank").to_string();
        assert!(why.contains("holds no hybrid disk") && why.contains("salvage"), "{why}");
        bed.reopen(SALVAGE, 10).expect("a salvage goes on");
        let found = read(&mut bed);
        let differs = (0..want.len()).filter(|&page| found[page] != want[page]).count();
        assert!(differs > 0, "{member} held something");
        for turn in 0..100 {
            let page = turn * 7 % PAGES;
            let serial = bed.go(Op::Write, page * PAGE, PAGE).serial;
            bed.go(Op::Flush, 0, 0);
            assert_eq!(bed.go(Op::Read, page * PAGE, PAGE).data[0], Stamp::new(serial, page * SECTORS));
        }
        let now = read(&mut bed);
        bed.close();
        bed.reopen(PLAIN, 11).unwrap_or_else(|error| panic!("{member}: {error}"));
        assert_eq!(read(&mut bed), now, "{member}");
    }
}

#[test]
fn a_salvage_takes_an_older_copy() {
    let (mut bed, _) = made();
    let old = bed.media();
    for turn in 0..2 {
        bed.reopen(PLAIN, 20 + turn).expect("all is in order");
        for page in 0..PAGES / 2 {
            bed.go(Op::Write, page * PAGE, PAGE);
        }
        bed.go(Op::Flush, 0, 0);
        bed.close();
    }
    bed.restore_one(&old, "slc");
    let why = bed.reopen(PLAIN, 30).expect_err("it is old").to_string();
    assert!(why.contains("ring 0 is an older copy: it has missed 2 openings"), "{why}");
    bed.reopen(SALVAGE, 31).expect("a salvage goes on");
    let found = read(&mut bed);
    bed.close();
    bed.reopen(PLAIN, 32).expect("all members know the same opening");
    assert_eq!(read(&mut bed), found);
}
