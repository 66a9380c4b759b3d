//! How the time of a read depends on its size, and the rate of small reads on how many are outstanding: of a simulated
//! stack or of a real file or device, by the same reads.
//!
//! **The sizes** (Baek 2011, section 3.4): one read at a time, aligned to its size, each a MiB further than the one before,
//! which defeats the device's read-ahead; the sizes take turns, so that what disturbs a device disturbs all of them. **The
//! depths**: reads of 4 KiB at drawn offsets, so many at a time.
//!
//! **The profile** is the line `latency + size / bandwidth` through the medians, by least squares, which is what a `file`
//! leaf of a stack takes; and the largest size whose median is within a quarter of that of the smallest read: up to
//! there a read costs the same, so it is the operation unit that prefetching wants to know.

pub mod device;
pub mod simulated;

use crate::format::{bandwidth, count, size, three, time};
use crate::table::Table;
use nandu_base::{ByteLen, Rng};
use serde::Serialize;
use std::fmt::Write;

/// Distance between the reads of the sizes.
pub const STRIDE: u64 = 1 << 20;
/// The sizes: 4 KiB to 1 MiB.
pub const SIZES: [u64; 9] =
    [4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10, 128 << 10, 256 << 10, 512 << 10, 1 << 20];
/// Reads of each size.
pub const READS: u64 = 100;
/// How many reads of 4 KiB are outstanding.
pub const DEPTHS: [u32; 6] = [1, 2, 4, 8, 16, 32];
/// Reads at each depth.
pub const DEPTH_READS: u64 = 2000;
/// The least that can be probed.
pub const LEAST: ByteLen = ByteLen(8 << 20);

/// What was measured.
#[derive(Clone, Debug, Serialize)]
pub struct Figures {
    /// Version of this record's fields.
    pub schema: u32,
    /// What was read.
    pub target: String,
    /// `device` or `simulated`.
    pub kind: &'static str,
    /// By size.
    pub sizes: Vec<BySize>,
    /// By depth.
    pub depths: Vec<ByDepth>,
    /// What follows from them; nothing when larger reads do not take longer.
    pub profile: Option<Profile>,
}

/// Reads of one size.
#[derive(Clone, Debug, Serialize)]
pub struct BySize {
    /// The size.
    pub bytes: u64,
    /// How many.
    pub reads: u64,
    /// The fastest.
    pub min_ns: u64,
    /// The median.
    pub p50_ns: u64,
    /// 95 % are not slower.
    pub p95_ns: u64,
}

/// Small reads, so many at a time.
#[derive(Clone, Debug, Serialize)]
pub struct ByDepth {
    /// Reads outstanding.
    pub outstanding: u32,
    /// Reads a second.
    pub iops: u64,
    /// Median latency.
    pub p50_ns: u64,
}

/// What a stack file needs to know.
#[derive(Clone, Debug, Serialize)]
pub struct Profile {
    /// Time of a read before its data moves.
    pub latency_ns: u64,
    /// Rate at which its data moves.
    pub bytes_per_second: u64,
    /// Largest size that takes about as long as the smallest.
    pub flat_bytes: u64,
}

/// The `n`th read of size number `size`: its offset. `room` is at least [`LEAST`].
pub fn offset_of(size: usize, n: u64, room: ByteLen) -> u64 {
    (n * SIZES.len() as u64 + size as u64) % (room.0 / STRIDE) * STRIDE
}

/// The offsets of the reads at one depth.
pub fn drawn_offsets(depth: u32, room: ByteLen, seed: u64) -> Vec<u64> {
    let mut rng = Rng::new(seed).fork(u64::from(depth));
    (0..DEPTH_READS).map(|_| rng.below(room.0 / SIZES[0]) * SIZES[0]).collect()
}

/// The figures of reads that took `ns`, in any order.
pub fn by_size(bytes: u64, ns: &mut [u64]) -> BySize {
    ns.sort_unstable();
    let at = |percent: usize| ns[(ns.len() * percent / 100).min(ns.len() - 1)];
    BySize { bytes, reads: ns.len() as u64, min_ns: ns[0], p50_ns: at(50), p95_ns: at(95) }
}

/// What the medians of `sizes` say.
pub fn profile(sizes: &[BySize]) -> Option<Profile> {
    let n = sizes.len() as i128;
    let sum = |f: fn(&BySize) -> i128| sizes.iter().map(f).sum::<i128>();
    let (x, y) = (sum(|s| i128::from(s.bytes)), sum(|s| i128::from(s.p50_ns)));
    let xx = sum(|s| i128::from(s.bytes) * i128::from(s.bytes));
    let xy = sum(|s| i128::from(s.bytes) * i128::from(s.p50_ns));
    // The slope in ns a byte is `over / under`.
    let (over, under) = (n * xy - x * y, n * xx - x * x);
    if over <= 0 || under <= 0 {
        return None;
    }
    let latency = (y * under - over * x) / (n * under);
    let flat = sizes.iter().take_while(|s| s.p50_ns * 4 <= sizes[0].p50_ns * 5).last();
    Some(Profile {
        latency_ns: latency.max(0) as u64,
        bytes_per_second: (1_000_000_000 * under / over).clamp(1, i128::from(u64::MAX)) as u64,
        flat_bytes: flat.map_or(0, |s| s.bytes),
    })
}

/// The figures for people.
pub fn text(figures: &Figures) -> String {
    let mut sizes = Table::new(["size", "reads", "min", "p50", "p95", "at p50", "to 4 KiB"]);
    for s in &figures.sizes {
        let rate = s.bytes * 1_000_000_000 / s.p50_ns.max(1);
        let times = s.p50_ns as f64 / figures.sizes[0].p50_ns.max(1) as f64;
        let times_text = format!("{}x", three(times));
        let [min, p50, p95] = [s.min_ns, s.p50_ns, s.p95_ns].map(time);
        sizes.row([size(s.bytes), count(s.reads), min, p50, p95, bandwidth(rate), times_text]);
    }
    let mut depths = Table::new(["outstanding", "4 KiB reads/s", "p50"]);
    for d in &figures.depths {
        depths.row([count(u64::from(d.outstanding)), count(d.iops), time(d.p50_ns)]);
    }
    let mut out = format!(
        "{} ({}): one read at a time, aligned, each 1 MiB further\n\n{sizes}\n{depths}\n",
        figures.target, figures.kind
    );
    let Some(p) = &figures.profile else {
        out.push_str(
            "Larger reads do not take longer: no profile follows. Is the device busy with other work?\n",
        );
        return out;
    };
    let _ = writeln!(
        out,
        "A read takes about {} and then {}; up to {} it takes about as long as one of 4 KiB.",
        time(p.latency_ns),
        bandwidth(p.bytes_per_second),
        size(p.flat_bytes)
    );
    let _ = writeln!(out, "As a leaf of a stack:\n\n[device.probed]");
    let (kind, path) = match figures.kind {
        "device" => ("file", format!("path = {:?}\n", figures.target)),
        _ => ("memory", String::new()),
    };
    let _ = writeln!(
        out,
        "kind = \"{kind}\"\n{path}latency = \"{} ns\"\nbandwidth = {}",
        p.latency_ns, p.bytes_per_second
    );
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(latency: u64, bytes_per_second: u64) -> Vec<BySize> {
        let ns = |bytes| latency + bytes * 1_000_000_000 / bytes_per_second;
        SIZES.iter().map(|&bytes| by_size(bytes, &mut [ns(bytes); 5])).collect()
    }

    #[test]
    fn a_straight_line_is_found_again() {
        for (latency, rate) in [(80_000, 500_000_000), (1_000, 4 << 30), (12_000_000, 100_000_000)] {
            let p = profile(&line(latency, rate)).expect("it rises");
            assert!(p.latency_ns.abs_diff(latency) <= latency / 100 + 2, "{p:?}");
            assert!(p.bytes_per_second.abs_diff(rate) <= rate / 100, "{p:?}");
        }
    }

    #[test]
    fn the_flat_part_ends_where_a_quarter_is_passed() {
        let mut sizes = line(100_000, 4 << 30);
        for s in &mut sizes {
            s.p50_ns = if s.bytes <= 32 << 10 { 100_000 + s.bytes / 2 } else { 300_000 };
        }
        assert_eq!(profile(&sizes).map(|p| p.flat_bytes), Some(32 << 10));
    }

    #[test]
    fn reads_are_aligned_and_a_stride_apart() {
        let room = ByteLen(2 << 30);
        let mut expected = 0;
        for n in 0..READS {
            for (number, &bytes) in SIZES.iter().enumerate() {
                let offset = offset_of(number, n, room);
                assert!(offset.is_multiple_of(bytes) && offset + bytes <= room.0);
                assert_eq!(offset, expected);
                expected = (expected + STRIDE) % room.0;
            }
        }
        assert!(drawn_offsets(4, LEAST, 1).iter().all(|o| o.is_multiple_of(4096) && o + 4096 <= LEAST.0));
    }
}
