//! A disk without a stack around it.

use nandu_base::{BuildContext, Instant, Op, Precondition, Registry, SECTOR};
use nandu_device::hdd;
use nandu_graph::testkit::{Bed, Machines};
use std::collections::BTreeSet;

/// A disk with these options; the error in words.
pub fn disk(options: &str) -> Result<Bed, String> {
    let options = options.to_string();
    let build = move |_| {
        let table = options.parse().expect("the test writes TOML");
        let mut config = (hdd::kind().parse)(table).map_err(|e| e.to_string())?;
        let files =
            Registry::new().with_files(|path| std::fs::read_to_string(path).map_err(|e| e.to_string()));
        config.settle(&files).map_err(|e| e.to_string())?;
        let machine = config.build(&BuildContext {
            name: "disk",
            children: &[],
            seed: 1,
            tenants: 1,
            shares: &[],
            planted: &BTreeSet::new(),
            precondition: Precondition::Empty,
        });
        Ok(Machines::leaf("disk", machine.map_err(|e| e.to_string())?, None, 1))
    };
    Bed::new(1, build)
}

/// One request that comes at `at`, from start to end; the time it took in ns.
pub fn one(bed: &mut Bed, at: Instant, op: Op, first: u64, blocks: u64) -> u64 {
    bed.run_until(at);
    bed.go(op, first * SECTOR, blocks * SECTOR).latency.0
}
