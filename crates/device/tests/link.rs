//! `link`: what crosses it, when, and in which order.

use nandu_base::{Flags, Op, Precondition, Span, Stamp};
use nandu_device::fixture::ssd;
use nandu_stack::testbed::{Done, Testbed};
use nandu_stack::{BuildOptions, builtin};

/// A megabyte a second, so that a sector takes 512 us; 10 us for each command; a device that takes 100 us.
fn bed(options: &str) -> Testbed {
    let text = format!(
        "[export.data]\ndevice = \"way\"\n[device.way]\nkind = \"link\"\nbelow = \"disk\"\nbandwidth = 1000000\n\
         overhead = \"10 us\"\n{options}\n[device.disk]\nkind = \"memory\"\nsize = \"64 KiB\"\nlatency = \"100 us\"\n"
    );
    Testbed::new(&text, &builtin(), BuildOptions::default()).expect("it is a stack")
}

fn together(bed: &mut Testbed, requests: &[(Op, u64)]) -> Vec<u64> {
    for &(op, at) in requests {
        let len = if op == Op::Flush { 0 } else { 512 };
        bed.submit(0, op, Flags::NONE, at * len, len);
    }
    bed.settle();
    let mut done: Vec<Done> = bed.take_done();
    done.sort_by_key(|done| done.serial);
    assert!(done.iter().all(|done| done.error.is_none()));
    done.iter().map(|done| done.latency.0 / 1000).collect()
}

#[test]
fn data_and_commands_cross_one_after_another() {
    let mut bed = bed("");
    assert_eq!(together(&mut bed, &[(Op::Write, 0)]), [10 + 512 + 100]);
    assert_eq!(together(&mut bed, &[(Op::Read, 0)]), [10 + 100 + 512]);
    assert_eq!(together(&mut bed, &[(Op::Flush, 0)]), [10 + 100]);
    let reads = together(&mut bed, &[(Op::Read, 0), (Op::Read, 1), (Op::Read, 2)]);
    assert_eq!(reads, [622, 622 + 512, 622 + 1024], "the device has them at once, the way up has not");
    let writes = together(&mut bed, &[(Op::Write, 0), (Op::Write, 1)]);
    assert_eq!(writes, [622, 2 * 522 + 100]);
}

#[test]
fn what_comes_up_waits_for_what_goes_down_only_where_they_share_a_lane() {
    let mixed = [(Op::Read, 0), (Op::Write, 1)];
    assert_eq!(together(&mut bed(""), &mixed), [622, 10 + 522 + 100]);
    // The read's data is ready at 110 us, when the write's crosses until 532 us.
    assert_eq!(together(&mut bed("duplex = false"), &mixed), [532 + 512, 632]);
}

#[test]
fn what_is_read_is_what_was_written() {
    let mut bed = bed("duplex = false");
    let written = bed.go(Op::Write, 4096, 8192);
    assert!(written.latency >= Span::from_us(10 + 8192 + 100), "{}", written.latency);
    let read = bed.go(Op::Read, 4096, 8192);
    let stored: Vec<_> = (0..16).map(|sector| bed.stored("disk", 4096 + 512 * sector)).collect();
    assert_eq!(read.data, stored);
    assert!(stored[0] != Stamp::ZERO);
}

#[test]
fn a_link_without_speed_is_refused() {
    let refused = |options: &str| {
        let text = format!(
            "[export.data]\ndevice = \"way\"\n[device.way]\nkind = \"link\"\nbelow = \"disk\"\n{options}\n\
             [device.disk]\nkind = \"memory\"\nsize = \"64 KiB\"\n"
        );
        Testbed::new(&text, &builtin(), BuildOptions::default()).err().expect("it is refused").to_string()
    };
    assert!(refused("bandwidth = 0").contains("0 B is out of bounds: above 0 B"));
    assert!(refused("bandwidth = 1\noverhead = \"2 s\"").contains("2 s is out of bounds: at most 1 s"));
}

/// A filled drive of so many chips, 60 us and 4 KiB a page, behind a link of 600 MB/s.
fn chips(chips: u32) -> Testbed {
    let drive = ssd("slc-2015").channels(chips).blocks(40).pages(16).page_size(4096).spare(0.5);
    let drive = drive.with("read_latency = \"60 us\"\nchannel_bandwidth = 1_000_000_000_000");
    let text = format!(
        "[export.data]\ndevice = \"way\"\n[device.way]\nkind = \"link\"\nbelow = \"ssd\"\nbandwidth = 600_000_000\n{}",
        drive.device("ssd")
    );
    let options = BuildOptions { precondition: Precondition::Filled, ..BuildOptions::default() };
    Testbed::new(&text, &builtin(), options).expect("it is a stack")
}

/// S0-5: 4 KiB in 60 us are 68.3 MB/s from a chip, so that it takes nine of them, "about ten", to keep a link of 600 MB/s busy. A read of a
/// page or less that somebody waits for keeps one.
#[test]
fn about_ten_chips_keep_a_link_busy() {
    let rate = |count: u64| {
        let mut bed = chips(count as u32);
        let pages = 200 * count;
        (0..pages).for_each(|page| {
            bed.submit(0, Op::Read, Flags::NONE, page * 4096, 4096);
        });
        bed.settle();
        let last = bed.take_done().iter().map(|done| done.at.0).max().expect("they are done");
        (pages * 4096 * 10_000 / last) as f64 / 10.0
    };
    let rates = [1, 2, 8, 9, 10, 20].map(rate);
    let near = |mb: f64, rate: f64| (mb * 0.98..=mb).contains(&rate);
    assert!(
        near(68.3, rates[0]) && near(2.0 * 68.3, rates[1]) && near(8.0 * 68.3, rates[2]),
        "{rates:?} MB/s"
    );
    assert!(rates[3..].iter().all(|&rate| near(600.0, rate)), "{rates:?} MB/s");
    for count in [1, 20] {
        let waited = chips(count).go(Op::Read, 0, 4096).latency;
        assert_eq!(waited, Span(60_000 + 5 + 6_827), "{count} chips: the die, its channel, the link");
    }
}
