use super::*;
use nandu_base::{Ask, BuildError, Phase, Precondition, TenantId, Work};
use nandu_graph::testkit::{Bed, Done, Machines};
use std::collections::BTreeSet;

fn build(options: &str) -> Result<Box<dyn Machine>, BuildError> {
    let config = (kind().parse)(options.parse().expect("TOML")).expect("options");
    config.machine(&BuildContext {
        name: "disk",
        children: &[],
        seed: 1,
        tenants: 1,
        shares: &[],
        planted: &BTreeSet::new(),
        precondition: Precondition::Empty,
    })
}

/// A disk that stores stamps.
fn disk(options: &str) -> Bed {
    let text = format!("profile = \"desktop-2010\"\n{options}");
    let build = move |_| {
        let machine = build(&text)?;
        let MediumSpec::Platter { sectors } = machine.needs().medium else { panic!("a disk has platters") };
        Ok::<_, BuildError>(Machines::leaf("disk", machine, Some(Box::new(Platter::new(sectors))), 1))
    };
    Bed::new(1, build).expect("a drive")
}

/// One request from start to end.
fn ask(bed: &mut Bed, op: Op, flags: Flags, first: u64, count: u64) -> Done {
    bed.submit(0, op, flags, first * SECTOR, count * SECTOR);
    bed.settle();
    let busy = bed.report("disk", Ask::Busy).busy;
    assert_eq!(busy, [(Resource::Head, head(bed), 1)]);
    bed.next_done()
}

fn read(bed: &mut Bed, first: u64, count: u64) -> Done {
    ask(bed, Op::Read, Flags::NONE, first, count)
}

fn write(bed: &mut Bed, first: u64, count: u64) -> Done {
    ask(bed, Op::Write, Flags::NONE, first, count)
}

/// What was charged for the head.
fn head(bed: &Bed) -> Span {
    bed.graph().charges(0).busy(Resource::Head)
}

/// What explains the latency.
fn phases(done: &Done) -> Vec<Phase> {
    Phase::ALL.into_iter().filter(|&phase| done.path.get(phase) > Span::ZERO).collect()
}

/// Which writes a read found.
fn serials(done: &Done) -> Vec<u32> {
    done.data.iter().map(|stamp| stamp.serial()).collect()
}

#[test]
fn a_read_after_a_read_finds_what_was_read_ahead() {
    let mut b = disk("");
    let first = read(&mut b, 1_000_000, 8);
    assert!(phases(&first).contains(&Phase::Seek), "{:?}", first.path);
    b.pass(Span::from_ms(20));
    let second = read(&mut b, 1_000_008, 64);
    assert!(second.latency < Span::from_us(400), "{}", second.latency);
    assert_eq!(phases(&second), [Phase::Bus]);
    assert_eq!((b.counter("disk", "host_reads"), b.counter("disk", "read_hits")), (2, 1));
    // Nothing was read ahead of it.
    let far = read(&mut b, 900_000_000, 8);
    assert!(far.latency > Span::from_ms(3));
}

#[test]
fn a_sequential_read_loses_no_revolution_to_the_requests_it_is_made_of() {
    let mut b = disk("");
    read(&mut b, 0, 256);
    let start = b.now();
    for at in 1..400 {
        read(&mut b, at * 256, 256);
    }
    let rate = 399 * 256 * SECTOR * 1000 / (b.now().since(start).0 / 1_000_000);
    // 125 MB/s at the outer edge, less what skew costs.
    assert!((105_000_000..125_500_000).contains(&rate), "{rate} B/s");
}

#[test]
fn a_cached_write_is_quick_and_a_flush_waits_for_it() {
    let mut b = disk("");
    let cached = write(&mut b, 500_000_000, 8);
    assert!(cached.latency < Span::from_us(400), "{}", cached.latency);
    let flush = ask(&mut b, Op::Flush, Flags::NONE, 0, 0);
    assert!(flush.latency > Span::from_ms(3), "{}", flush.latency);
    assert!(ask(&mut b, Op::Flush, Flags::NONE, 0, 0).latency < Span::from_us(400));
    let forced = ask(&mut b, Op::Write, Flags::FUA, 100_000, 8);
    assert!(forced.latency > Span::from_ms(2), "{}", forced.latency);
    assert_eq!((b.counter("disk", "writes_cached"), b.counter("disk", "destages")), (1, 1));
    let mut b = disk("write_cache = false");
    assert!(write(&mut b, 500_000_000, 8).latency > Span::from_ms(3));
}

#[test]
fn a_full_cache_makes_a_write_wait() {
    let mut b = disk("write_cache_commands = 4");
    // The first is on its way to the disk when the others come.
    for at in 0..5 {
        assert!(write(&mut b, at * 100_000_000, 8).latency < Span::from_us(400));
    }
    let sixth = write(&mut b, 500_000_000, 8);
    assert!(sixth.latency > Span::from_ms(3), "{}", sixth.latency);
    assert!(phases(&sixth).contains(&Phase::Queue));
    assert_eq!(b.counter("disk", "destages"), 2);
}

#[test]
fn what_is_read_is_what_was_written_last() {
    for seed in 0..60 {
        let mut rng = nandu_base::Rng::new(seed);
        let mut b = disk(
            "cache_segments = 3\ncache_segment_size = \"8 KiB\"\nwrite_cache_commands = 6\ncapacity = \"1 MiB\"",
        );
        let mut plain = vec![0u32; 2048];
        for turn in 0..300 {
            let (first, count) = (rng.below(90), rng.between(1, 24));
            let flags = if rng.below(4) == 0 { Flags::FUA } else { Flags::NONE };
            let range = first as usize..(first + count) as usize;
            match rng.below(6) {
                0 | 1 => {
                    plain[range].fill(ask(&mut b, Op::Write, flags, first, count).serial);
                }
                2 if turn % 3 == 0 => {
                    ask(&mut b, Op::Trim, flags, first, count);
                    plain[range].fill(0);
                }
                3 => drop(ask(&mut b, Op::Flush, Flags::NONE, 0, 0)),
                _ => {
                    assert_eq!(serials(&read(&mut b, first, count)), plain[range], "seed {seed}, turn {turn}")
                }
            }
            if rng.below(3) == 0 {
                b.pass(Span(rng.below(40_000_000)));
            }
        }
    }
}

#[test]
fn a_disk_that_stood_still_starts_first() {
    let mut b = disk("spin_down = \"5 s\"");
    read(&mut b, 1_000_000, 8);
    b.pass(Span::from_secs(60));
    let read = read(&mut b, 700_000_000, 8);
    assert_eq!(read.path.get(Phase::SpinUp), Span::from_secs(8));
    assert_eq!(b.counter("disk", "spin_ups"), 1);
    assert!(b.counter("disk", "standby_ns").abs_diff(53_000_000_000) < 20_000_000);
}

#[test]
fn a_write_is_charged_to_its_tenant_when_it_goes_to_the_disk() {
    let mut b = disk("");
    write(&mut b, 500_000_000, 8);
    assert_eq!(head(&b), Span::ZERO);
    ask(&mut b, Op::Flush, Flags::NONE, 0, 0);
    assert!(b.graph().charges(0).get(TenantId(1), Resource::Head, Work::Write) > Span::from_ms(3));
}

#[test]
fn a_trim_of_the_whole_disk_takes_as_long_as_writing_it() {
    let mut b = disk("capacity = \"1 GiB\"");
    let trim = ask(&mut b, Op::Trim, Flags::NONE, 0, (1 << 30) / SECTOR);
    let rate = (1u64 << 30) * 1000 / (trim.latency.0 / 1_000_000);
    assert!((100_000_000..125_500_000).contains(&rate), "{rate} B/s");
}

#[test]
fn options_that_cannot_be_are_refused_by_name() {
    let key = |options: &str| build(options).err().expect("it is refused").key;
    assert_eq!(key(""), Some("profile".into()));
    assert_eq!(key("profile = \"desktop-2011\""), Some("profile".into()));
    assert_eq!(key("profile = \"desktop-2010\"\ndisksim = \"x.parv\""), Some("profile".into()));
    assert_eq!(key("disksim = \"no-such.parv\""), Some("disksim".into()));
    assert_eq!(key("profile = \"desktop-2010\"\ncapacity = \"2 TB\""), Some("capacity".into()));
    assert_eq!(key("profile = \"desktop-2010\"\nqueue_depth = 0"), Some("queue_depth".into()));
    assert_eq!(key("profile = \"desktop-2010\"\ncache_segments = 0"), Some("cache_segments".into()));
    assert_eq!(
        key("profile = \"desktop-2010\"\nspin_down_adaptive = { min = \"1 s\", max = \"9 s\" }"),
        Some("spin_down_adaptive".into())
    );
}
