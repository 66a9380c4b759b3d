//! The profiles against what data sheets and reviews state. The bounds are those of a reader who compares two drives: a
//! tenth for rates and seeks, a fifth for random requests, whose queue rules differ from drive to drive.

use super::disk::disk;
use nandu_base::{Flags, Op, Rng, SECTOR, Span};
use nandu_device::hdd::HddProfile;
use nandu_graph::testkit::Bed;

/// What is known of a drive.
struct Sheet {
    profile: &'static str,
    /// MB/s at the outermost and the innermost track.
    rates: [u64; 2],
    /// Average seek.
    seek: Span,
    /// 4 KiB reads per second, spread over the whole drive, one and 32 at a time; bounds.
    iops: [(u64, u64); 2],
}

const SHEETS: &[Sheet] = &[
    // One request: 12 ms and half a turn, 5.6 ms. 32 at a time: no source, what sorting gives such drives.
    Sheet {
        profile: "samsung-hm080hi",
        rates: [45, 25],
        seek: Span::from_ms(12),
        iops: [(51, 61), (95, 160)],
    },
    // 8.5 ms and 4.2 ms.
    Sheet {
        profile: "desktop-2010",
        rates: [125, 60],
        seek: Span::from_us(8500),
        iops: [(71, 84), (130, 220)],
    },
    // The data sheet states 168 random 4 KiB reads per second with 16 outstanding: more with 32.
    Sheet {
        profile: "nearline-2024",
        rates: [285, 135],
        seek: Span::from_ms(8),
        iops: [(74, 90), (160, 240)],
    },
];

const MIB: u64 = 1 << 20;

fn within_a_tenth(got: u64, want: u64, what: &str) {
    assert!(got.abs_diff(want) * 10 <= want, "{what}: {got}, the sheet says {want}");
}

/// MB/s of reads of 1 MiB from `first` on.
fn rate(bed: &mut Bed, first: u64) -> u64 {
    let read = |bed: &mut Bed, number: u64| bed.go(Op::Read, first * SECTOR + number * MIB, MIB);
    read(bed, 0);
    let start = bed.now();
    for number in 1..=64 {
        read(bed, number);
    }
    64 * MIB * 1000 / bed.now().since(start).0
}

/// 4 KiB reads per second with `outstanding` at a time.
fn iops(bed: &mut Bed, outstanding: u64) -> u64 {
    let mut rng = Rng::new(3);
    let pages = bed.capacity(0) / 4096;
    let mut submit = |bed: &mut Bed| bed.submit(0, Op::Read, Flags::NONE, rng.below(pages) * 4096, 4096);
    for _ in 0..outstanding {
        submit(bed);
    }
    for _ in 0..2000 {
        bed.next_done();
        submit(bed);
    }
    2000 * 1_000_000_000 / bed.now().0
}

#[test]
fn every_profile_does_what_is_known_of_its_drive() {
    for sheet in SHEETS {
        let name = sheet.profile;
        let fresh = |queue: &str| disk(&format!("profile = {name:?}\nscheduler = {queue:?}")).unwrap();
        let mut disk = fresh("fcfs");
        let inner = disk.capacity(0) / SECTOR - 65 * 2048;
        let rates = [rate(&mut disk, 0), rate(&mut disk, inner)];
        let profile = HddProfile::named(name).unwrap();
        let seek = profile.drive(profile.capacity).unwrap().mechanics.seek.mean();
        let [one, many] = [iops(&mut fresh("fcfs"), 1), iops(&mut fresh("sptf"), 32)];
        let fcfs = iops(&mut fresh("fcfs"), 32);
        let sstf = iops(&mut fresh("sstf"), 32);
        println!(
            "{name}: {rates:?} MB/s, mean seek {seek}, 4 KiB reads/s: {one} alone; 32 at a time {fcfs} fcfs, {sstf} sstf, {many} sptf"
        );
        within_a_tenth(rates[0], sheet.rates[0], "MB/s at the outer edge");
        within_a_tenth(rates[1], sheet.rates[1], "MB/s at the inner edge");
        within_a_tenth(seek.0 / 1000, sheet.seek.0 / 1000, "average seek in us");
        for (got, (least, most)) in [one, many].into_iter().zip(sheet.iops) {
            assert!((least..=most).contains(&got), "{name}: {got} reads per second, not {least} to {most}");
        }
        assert!(fcfs < sstf && sstf < many, "{name}: {fcfs}, {sstf}, {many}");
    }
}
