//! What a page-mapped drive does beside translating, by hand: what a write buffer acknowledges, and what stands still for reads.
//! What they store is the verified simulation's business.

use nandu_base::{Flags, Op, Precondition, Span};
use nandu_device::fixture::{SsdTable, ssd};
use nandu_stack::testbed::Testbed;
use nandu_stack::{BuildOptions, builtin};

const PAGE: u64 = 2048;
/// slc-2015: tR, tPROG, tBERS; a page crosses the channel in 51.2 us, and the link in 10.
const READ: Span = Span::from_us(25);
const PROGRAM: Span = Span::from_us(200);
const TRANSFER: Span = Span(51_200);
const LINK: Span = Span::from_us(10);

/// More than half of the drive is spare.
fn roomy() -> SsdTable {
    ssd("slc-2015").blocks(40).spare(0.6)
}

/// A filled drive of one plane.
fn bed(options: &str) -> Testbed {
    try_bed(options).unwrap_or_else(|error| panic!("{options}: {error}"))
}

/// The same, or why it cannot be had.
fn try_bed(options: &str) -> Result<Testbed, String> {
    let text = roomy().pages(16).with(options).stack();
    let options = BuildOptions { precondition: Precondition::Filled, ..BuildOptions::default() };
    Testbed::new(&text, &builtin(), options).map_err(|error| error.to_string())
}

/// A write buffer of so many pages, and these options of it.
fn buffer(pages: u64, options: &str) -> String {
    format!("write_buffer = {{ size = {}, link_bandwidth = 204_800_000, {options} }}\n", pages * PAGE)
}

fn refused(options: &str) -> String {
    let text = roomy().with(options).stack();
    Testbed::new(&text, &builtin(), BuildOptions::default())
        .err()
        .expect("the options are refused")
        .to_string()
}

/// The schedulers of the registry that share a die; the others are refused there and say what they are for.
fn die_schedulers() -> Vec<&'static str> {
    let shares = |name: &&str| {
        let scheduler = format!("tenant_scheduler = {{ kind = {name:?} }}");
        let drive = roomy().policy("die_scheduler", "out-of-order", &[&scheduler]);
        match Testbed::new(&drive.stack(), &builtin(), BuildOptions::default()) {
            Ok(_) => true,
            Err(error) => {
                let said = error.to_string();
                assert!(said.contains("are for a `queue`"), "{name}: {said}");
                false
            }
        }
    };
    let schedulers: Vec<&str> =
        builtin().policies("scheduler").map(|policy| policy.name).filter(shares).collect();
    assert!(schedulers.len() >= 7, "{schedulers:?}");
    schedulers
}

fn counter(bed: &mut Testbed, name: &str) -> u64 {
    bed.counter("ssd", name)
}

fn write(bed: &mut Testbed, page: u64) -> Span {
    bed.go(Op::Write, page * PAGE, PAGE).latency
}

fn read(bed: &mut Testbed, page: u64) -> Span {
    bed.go(Op::Read, page * PAGE, PAGE).latency
}

/// A die that serves in order, and one that does not.
const DISCIPLINES: [&str; 2] = ["", "die_scheduler = { kind = \"out-of-order\" }"];

/// Both, and every map of the registry but those that choose the pages themselves, which have [tests of their own](log_blocks.rs): with little RAM where
/// a map takes a size of it.
fn page_maps() -> Vec<String> {
    let map = |name: &str| {
        let with = |more: &str| format!("mapping = {{ kind = \"{name}\"{more} }}");
        if roomy().map(name, "").has_map_on_flash() { with(", cmt_size = 4400") } else { with("") }
    };
    let registry = builtin();
    let names = registry.policies("mapping").map(|policy| policy.name);
    let maps: Vec<String> = names.filter(|name| !roomy().map(name, "").has_log_blocks()).map(map).collect();
    assert!(maps.len() >= 5, "{maps:?}");
    DISCIPLINES.into_iter().map(String::from).chain(maps).collect()
}

#[test]
fn a_buffered_write_ends_at_the_speed_of_the_link_with_every_map() {
    for map in page_maps() {
        let mut bed = bed(&format!("{}{map}", buffer(8, "dirty_expire = \"1 s\"")));
        for page in [3, 40, 3, 3] {
            assert_eq!(write(&mut bed, page), LINK, "{map}");
        }
        assert_eq!(counter(&mut bed, "buffer_pages"), 2, "{map}");
        assert_eq!(counter(&mut bed, "buffer_pages_replaced"), 2, "{map}");
        assert_eq!(counter(&mut bed, "host_pages_written"), 0, "{map}");
        assert_eq!(read(&mut bed, 3), LINK, "{map}");
        assert_eq!(counter(&mut bed, "buffer_pages_read"), 1, "{map}");
        let flush = bed.go(Op::Flush, 0, 0).latency;
        assert!(flush >= (PROGRAM + TRANSFER) * 2, "{map}: {flush}");
        assert_eq!(counter(&mut bed, "host_pages_written"), 2, "{map}");
        assert_eq!(counter(&mut bed, "buffer_pages"), 0, "{map}");
        assert_eq!(bed.go(Op::Flush, 0, 0).latency, Span::ZERO, "{map}");
    }
}

#[test]
fn pages_are_programmed_above_what_is_kept_and_when_they_have_waited() {
    let mut bed = bed(&buffer(8, "dirty_share = \"1/4\", dirty_expire = \"5 ms\""));
    write(&mut bed, 1);
    write(&mut bed, 2);
    assert_eq!(counter(&mut bed, "buffer_pages_programmed"), 0);
    write(&mut bed, 3);
    assert_eq!(counter(&mut bed, "buffer_pages_programmed"), 1, "the oldest of three, two may stay");
    let later = bed.now() + Span::from_ms(20);
    bed.run_until(later);
    assert_eq!(counter(&mut bed, "buffer_pages_programmed"), 3);
    assert_eq!(counter(&mut bed, "host_pages_written"), 3);
}

/// A page leaves in time although another plane, which merges, holds an older one up.
#[test]
fn a_page_that_has_waited_does_not_wait_for_another_plane() {
    let map = "channels = 2\nmapping = { kind = \"bast\", log_blocks = 1, interleave = 1 }\n";
    let options = "dirty_share = 1, dirty_expire = \"1 ms\", max_programs = 1";
    let mut bed = bed(&format!("{map}{}", buffer(16, options)));
    let after = |bed: &mut Testbed, us: u64| {
        let later = bed.now() + Span::from_us(us);
        bed.run_until(later);
    };
    // A log block of the first plane, and a page of another block of it: that merges.
    write(&mut bed, 0);
    after(&mut bed, 2000);
    write(&mut bed, 64);
    after(&mut bed, 500);
    write(&mut bed, 128);
    after(&mut bed, 100);
    write(&mut bed, 1);
    after(&mut bed, 1100);
    assert_eq!(
        counter(&mut bed, "buffer_pages_programmed"),
        3,
        "the first two of one plane, and the page of the other"
    );
    after(&mut bed, 50_000);
    assert_eq!(counter(&mut bed, "buffer_pages_programmed"), 4);
}

#[test]
fn a_full_buffer_lets_writes_wait_for_programs() {
    let mut bed = bed(&buffer(2, "dirty_share = 1"));
    for page in 0..6 {
        bed.submit(0, Op::Write, Flags::NONE, page * PAGE, PAGE);
    }
    bed.settle();
    let latencies: Vec<Span> = bed.take_done().iter().map(|done| done.latency).collect();
    assert_eq!(latencies[..2], [LINK, LINK * 2]);
    for (n, latency) in (1..).zip(&latencies[2..]) {
        assert_eq!(*latency, (PROGRAM + TRANSFER) * n + LINK, "one program for each that waits");
    }
    assert_eq!(counter(&mut bed, "write_stalls"), 4);
    assert_eq!(counter(&mut bed, "write_stall_max_ns"), (PROGRAM + TRANSFER).0 * 4);
    bed.close();
    assert_eq!(counter(&mut bed, "buffer_pages"), 0);
}

#[test]
fn fua_waits_for_its_own_pages_only() {
    for arbiter in DISCIPLINES {
        let mut bed = bed(&format!("{}{arbiter}", buffer(8, "dirty_share = 1, dirty_expire = \"1 s\"")));
        write(&mut bed, 1);
        bed.submit(0, Op::Write, Flags::FUA, 5 * PAGE, PAGE);
        bed.settle();
        let fua = bed.take_done().remove(0);
        assert_eq!(fua.latency, PROGRAM + TRANSFER, "{arbiter}");
        assert_eq!(counter(&mut bed, "host_pages_written"), 1, "{arbiter}");
    }
}

#[test]
fn capacitors_make_an_acknowledged_write_durable() {
    for arbiter in DISCIPLINES {
        let mut bed = bed(&format!(
            "{}{arbiter}",
            buffer(8, "dirty_share = 1, dirty_expire = \"1 s\", power_loss_protection = true")
        ));
        assert!(!bed.graph().machine(bed.node("ssd")).limits().volatile_cache);
        bed.submit(0, Op::Write, Flags::FUA, 5 * PAGE, PAGE);
        bed.settle();
        assert_eq!(bed.take_done().remove(0).latency, LINK, "{arbiter}");
        assert_eq!(bed.go(Op::Flush, 0, 0).latency, Span::ZERO, "{arbiter}");
        assert_eq!(counter(&mut bed, "host_pages_written"), 0, "{arbiter}");
    }
}

#[test]
fn a_trim_drops_what_waits() {
    let mut bed = bed(&buffer(8, "dirty_share = 1, dirty_expire = \"1 s\""));
    write(&mut bed, 1);
    bed.go(Op::Trim, PAGE, PAGE);
    assert_eq!((counter(&mut bed, "buffer_pages"), counter(&mut bed, "buffer_pages_trimmed")), (0, 1));
    assert_eq!(read(&mut bed, 1), Span::ZERO);
    assert_eq!(counter(&mut bed, "host_pages_written"), 0);
}

/// With capacitors a trim waits for what came before it, and for nothing that came after.
#[test]
fn a_trim_ends_although_its_page_is_written_again_and_again() {
    let mut bed = bed(&buffer(8, "dirty_share = 1, power_loss_protection = true"));
    write(&mut bed, 3);
    let trim = bed.submit(0, Op::Trim, Flags::NONE, 3 * PAGE, PAGE);
    for _ in 0..200 {
        let later = bed.now() + Span::from_us(50);
        bed.run_until(later);
        bed.submit(0, Op::Write, Flags::NONE, 3 * PAGE, PAGE);
    }
    bed.settle();
    let done = bed.take_done();
    let latency = done.iter().find(|d| d.serial == trim).expect("it ends").latency;
    assert_eq!(latency, PROGRAM + TRANSFER);
    let last = done.iter().map(|d| d.serial).max().expect("many");
    assert_eq!(bed.go(Op::Read, 3 * PAGE, 512).data, [nandu_base::Stamp::new(last, 12)]);
}

#[test]
fn part_of_a_page_is_laid_over_the_flash() {
    for map in page_maps() {
        let mut bed = bed(&format!("{}{map}", buffer(8, "dirty_share = 1, dirty_expire = \"1 s\"")));
        bed.go(Op::Write, PAGE, 512);
        assert!(read(&mut bed, 1) >= READ + TRANSFER, "{map}: the other sectors are on the flash");
        assert_eq!(bed.go(Op::Read, PAGE, 512).latency, Span::from_ns(2500), "{map}");
        // A gap between them: the older part goes first.
        bed.go(Op::Write, PAGE + 1536, 512);
        bed.go(Op::Flush, 0, 0);
        assert_eq!(counter(&mut bed, "host_pages_written"), 2, "{map}");
        bed.go(Op::Write, PAGE, 512);
        bed.go(Op::Write, PAGE + 512, 1024);
        bed.go(Op::Flush, 0, 0);
        assert_eq!(counter(&mut bed, "host_pages_written"), 3, "{map}");
    }
}

#[test]
fn a_read_suspends_a_program_and_an_erase() {
    let suspension = "suspend = { max_per_program = 1, max_per_erase = 2, suspend_latency = \"10 us\", resume_latency = \"5 us\" }";
    let plain = ("".into(), PROGRAM + TRANSFER + READ + TRANSFER - Span::from_us(100), PROGRAM + TRANSFER);
    let with = |scheduler: &str| {
        let first = Span::from_us(10) + READ + TRANSFER;
        (format!("{suspension}{scheduler}"), first, PROGRAM + TRANSFER + first + Span::from_us(5))
    };
    let of_tenants = |name: &&str| with(&format!(", tenant_scheduler = {{ kind = \"{name}\" }}"));
    let schedulers = die_schedulers();
    for (suspension, first, write) in [plain, with("")].into_iter().chain(schedulers.iter().map(of_tenants)) {
        let mut bed = bed(&format!("die_scheduler = {{ kind = \"out-of-order\", {suspension} }}"));
        bed.submit(0, Op::Write, Flags::NONE, 0, PAGE);
        let then = bed.now() + Span::from_us(100);
        bed.run_until(then);
        bed.submit(0, Op::Read, Flags::NONE, 9 * PAGE, PAGE);
        bed.settle();
        let done = bed.take_done();
        let of = |serial: u32| done.iter().find(|d| d.serial == serial).unwrap();
        assert_eq!((of(2).latency, of(1).latency), (first, write), "{suspension}");
    }
}

#[test]
fn an_operation_is_suspended_as_often_as_it_may() {
    let suspension =
        "suspend = { max_per_program = 2, suspend_latency = \"1 us\", resume_latency = \"1 us\" }";
    let mut bed = bed(&format!("die_scheduler = {{ kind = \"out-of-order\", {suspension} }}"));
    bed.submit(0, Op::Write, Flags::NONE, 0, PAGE);
    for n in 1..5 {
        let then = bed.now() + Span::from_us(if n == 1 { 60 } else { 90 });
        bed.run_until(then);
        bed.submit(0, Op::Read, Flags::NONE, n * 9 * PAGE, PAGE);
    }
    bed.settle();
    assert_eq!(counter(&mut bed, "programs_suspended"), 2);
    assert_eq!(counter(&mut bed, "reads_in_suspensions"), 2);
}

#[test]
fn no_more_reads_pass_an_operation_than_may() {
    for scheduler in [""].into_iter().chain(die_schedulers()) {
        let of_tenants = match scheduler {
            "" => String::new(),
            name => format!(", tenant_scheduler = {{ kind = \"{name}\" }}"),
        };
        let mut bed = bed(&format!(
            "die_scheduler = {{ kind = \"out-of-order\", max_read_bypass = 1, \
             suspend = {{ max_per_program = 9, suspend_latency = \"1 us\", resume_latency = \"1 us\" }}{of_tenants} }}"
        ));
        bed.submit(0, Op::Write, Flags::NONE, 0, PAGE);
        for n in 1..5 {
            let then = bed.now() + Span::from_us(60);
            bed.run_until(then);
            bed.submit(0, Op::Read, Flags::NONE, n * 9 * PAGE, PAGE);
        }
        bed.settle();
        assert_eq!(counter(&mut bed, "reads_in_suspensions"), 1, "{scheduler}");
    }
}

/// Pages in SLC mode have its times with the die scheduler `out-of-order` too, and a program of three bits stands still for a read of one.
#[test]
fn operations_of_both_modes_wait_and_stand_still() {
    const PAGE: u64 = 4096;
    let text = "[export.data]\ndevice = \"ssd\"\n[device.ssd]\nkind = \"ssd\"\nprofile = \"tlc-2019\"\nblocks_per_plane = 64\n\
                pages_per_block = 12\nspare_factor = 0.3\nslc_cache = { fold_idle = false }\n\
                die_scheduler = { kind = \"out-of-order\", suspend = { suspend_latency = \"5 us\", resume_latency = \"5 us\" } }\n";
    let mut bed = Testbed::new(text, &builtin(), BuildOptions::default()).unwrap();
    let transfer = Span(12_301);
    for page in 0..172 {
        let quick = bed.go(Op::Write, page * PAGE, PAGE).latency;
        assert_eq!(quick, transfer + Span::from_us(200), "page {page}");
    }
    assert_eq!(bed.go(Op::Read, 0, PAGE).latency, Span::from_us(25) + transfer);
    let slow = bed.go(Op::Write, 172 * PAGE, PAGE).latency;
    assert_eq!(slow, transfer + Span::from_us(2400), "the cache is full");
    assert_eq!(bed.go(Op::Read, 172 * PAGE, PAGE).latency, Span::from_us(100) + transfer);
    bed.submit(0, Op::Write, Flags::NONE, 173 * PAGE, PAGE);
    let during = bed.now() + Span::from_us(1000);
    bed.run_until(during);
    bed.submit(0, Op::Read, Flags::NONE, 0, PAGE);
    bed.settle();
    let read = Span::from_us(5 + 25) + transfer;
    let latencies: Vec<Span> = bed.take_done().iter().map(|done| done.latency).collect();
    assert_eq!(latencies, [read, slow + read + Span::from_us(5)]);
    assert_eq!((counter(&mut bed, "programs_suspended"), counter(&mut bed, "slc_pages_written")), (1, 172));
}

/// Units of several blocks, pages with dies of their own, and tenants: what leaves the buffer goes where it would go without one.
#[test]
fn a_buffer_stands_before_wide_units_and_tenants_too() {
    let tenants = "tenants = [{ name = \"a\", size = \"1 MiB\" }, { name = \"b\", size = \"1 MiB\" }]\n\
                   isolation = { kind = \"ops\" }\n";
    for (options, planes) in [
        ("reclaim_unit = \"superblock\"\n".to_string(), 4),
        ("reclaim_unit = \"die\"\nallocation = \"static\"\n".into(), 2),
        (format!("reclaim_unit = \"superblock\"\n{tenants}"), 4),
        ("allocation = \"static\"\n".into(), 4),
    ] {
        for arbiter in DISCIPLINES {
            let wide = format!(
                "channels = 2\nplanes_per_die = 2\n{options}{}{arbiter}",
                buffer(16, "dirty_share = 1")
            );
            let mut bed = bed(&wide);
            for page in 0..8 {
                assert_eq!(write(&mut bed, page), LINK, "{wide}");
            }
            let flush = bed.go(Op::Flush, 0, 0).latency;
            assert_eq!(counter(&mut bed, "host_pages_written"), 8, "{wide}");
            // Eight pages over so many planes, two to a die; the drive's fill may have ended within a row.
            let most = (PROGRAM + TRANSFER * 2) * (8 / planes + 1);
            assert!(
                flush >= PROGRAM + TRANSFER && flush <= most,
                "{wide}: a flush takes {flush}, at most {most}"
            );
            assert!(read(&mut bed, 5) >= READ + TRANSFER, "{wide}");
        }
    }
}

#[test]
fn options_that_cannot_be_are_refused_with_what_would_be_right() {
    for (options, why) in [
        ("write_buffer = { size = \"1 KiB\" }", "too small"),
        ("write_buffer = { size = \"1 MiB\", link_bandwidth = 0 }", "at least 1 B"),
        ("write_buffer = { size = \"1 MiB\", max_programs = 0 }", "at least 1"),
        ("write_buffer = { size = \"1 MiB\", dirty_share = \"3/2\" }", "at most 1"),
        ("reclaim_unit = \"superblock\"\nallocation = \"static\"", "none of their own"),
        ("die_scheduler = { kind = \"out-of-order\", suspend = { max_per_erase = 70000 } }", "65535"),
        (
            "die_scheduler = { kind = \"out-of-order\", suspend = { suspend_latency = \"2 s\" } }",
            "at most 1 s",
        ),
    ] {
        let found = refused(options);
        assert!(found.contains(why), "{options}: {found}");
    }
}
