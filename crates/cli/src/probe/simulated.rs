//! The reads on a simulated stack, whose drives are filled.

use super::{ByDepth, DEPTHS, Figures, LEAST, READS, SIZES, by_size, drawn_offsets, offset_of, profile};
use crate::failure::Failure;
use crate::format::size;
use crate::open::{Opened, capacity};
use nandu_base::{Op, Precondition, SECTOR};
use nandu_sim::tap::{Ended, Look, Tap, run_tapped};
use nandu_sim::{Pace, RunOptions, RunResult, RunWorkload};
use nandu_trace::{Arrival, Meta, Origin, Record, Trace};

/// Latencies in the order in which reads end.
#[derive(Default)]
struct Latencies(Vec<u64>);

impl Tap for Latencies {
    fn ended(&mut self, request: &Ended) {
        self.0.push(request.latency().0);
    }
}

/// Measures export `export` of `opened`.
pub fn probe(opened: &Opened, export: Option<&str>, seed: u64) -> Result<Figures, Failure> {
    let export = opened.export(export)?;
    let room = capacity(&opened.built(seed)?, export);
    if room < LEAST {
        let message =
            format!("{}: its export has {}, a probe reads at least 8 MiB", opened.source, size(room.0));
        return Err(Failure::input(message));
    }
    let mut sizes = Vec::new();
    for (number, &bytes) in SIZES.iter().enumerate() {
        let offsets: Vec<u64> = (0..READS).map(|n| offset_of(number, n, room)).collect();
        let (_, mut ns) = reads(opened, export, &offsets, bytes, 1, seed)?;
        sizes.push(by_size(bytes, &mut ns));
    }
    let mut depths = Vec::new();
    for outstanding in DEPTHS {
        let offsets = drawn_offsets(outstanding, room, seed);
        let (result, _) = reads(opened, export, &offsets, SIZES[0], outstanding, seed)?;
        depths.push(ByDepth { outstanding, iops: result.total.iops, p50_ns: result.total.p50_ns });
    }
    let profile = profile(&sizes);
    Ok(Figures {
        schema: nandu_sim::result::SCHEMA,
        target: opened.label.clone(),
        kind: "simulated",
        sizes,
        depths,
        profile,
    })
}

fn reads(
    opened: &Opened,
    export: usize,
    offsets: &[u64],
    bytes: u64,
    outstanding: u32,
    seed: u64,
) -> Result<(RunResult, Vec<u64>), Failure> {
    let record = |&offset: &u64| {
        Record::new(0, Op::Read, false, offset / SECTOR, bytes / SECTOR, 0).expect("a read within a device")
    };
    let meta = Meta {
        source: "probe".into(),
        origin: Origin::StandIn,
        arrival: Arrival::OrderOnly,
        ..Meta::default()
    };
    let records: Vec<Record> = offsets.iter().map(record).collect();
    let trace = Trace { records, streams: Vec::new(), service: None, meta };
    let workload = RunWorkload {
        export,
        trace_hash: trace.content_hash().to_string(),
        trace: trace.into(),
        fit: "error".into(),
        pace: Some(Pace::Closed { outstanding }),
        passes: 1,
        warm_up: 0,
    };
    let options = RunOptions {
        workloads: vec![workload],
        seed,
        precondition: Precondition::Filled,
        warm_up: 0,
        extension: nandu_sim::Extension::NONE,
        stack_name: opened.source.clone(),
    };
    let taken = Latencies::default();
    let seen = run_tapped(&opened.stack, &options, taken, Look::default(), |_| {})?;
    Ok((seen.result, seen.tap.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::open::open_text;

    /// One die of four planes with pages of 4 KiB: tR 60 us, one page over the channel takes 4096 B / 400 MB/s.
    const DIE: &str = r#"
        [export.data]
        device = "ssd"
        [device.ssd]
        kind = "ssd"
        profile = "mlc-2019"
        channels = 1
        chips_per_channel = 1
        dies_per_chip = 1
        planes_per_die = 4
        blocks_per_plane = 64
        spare_factor = 0.3
    "#;

    #[test]
    fn up_to_the_operation_unit_a_read_costs_one_sense() {
        // S0-4: T(k) = tR + k tX for pages of one operation; more pages than planes sense again.
        let opened = open_text("die", DIE, &[], crate::registry()).expect("a stack");
        let figures = probe(&opened, None, 1).expect("figures");
        let page_time = figures.sizes[0].p50_ns - 60_000;
        for s in &figures.sizes[..3] {
            assert_eq!(s.p50_ns, 60_000 + s.bytes / 4096 * page_time, "{} B", s.bytes);
        }
        assert!(figures.sizes[3].p50_ns > 2 * 60_000, "eight pages sense twice");
        assert_eq!(figures.depths.len(), DEPTHS.len());
    }
}
