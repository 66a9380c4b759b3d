//! No die stands still while something waits for it: random reads of a drive whose map is on the flash keep its dies as busy as the
//! reads outstanding can.
//!
//! *The bound.* Each of the `n` reads outstanding is at one of `d` dies at any time: for its translation page or for its page. Both
//! are drawn at random. With times at the dies that vary as much as exponential ones do, such a closed network keeps each die busy for
//! `n / (n + d - 1)` of the time (Buzen, "Computational algorithms for closed queueing networks with exponential servers", CACM 1973);
//! reads all take about the same time, which keeps them busier.

use nandu_base::Precondition;
use nandu_device::fixture::ssd;
use nandu_device::ssd::mapping::POLICIES;
use nandu_sim::run::run;
use nandu_sim::{Pace, RunOptions, RunResult, RunWorkload};
use nandu_stack::Stack;
use nandu_trace::synth;

const DIES: u64 = 8;

fn reads(mapping: &str, outstanding: u32) -> RunResult {
    let toml = format!(
        "[export.data]\ndevice = \"ssd\"\n[device.ssd]\nkind = \"ssd\"\nprofile = \"mlc-2019\"\nchannels = 4\nchips_per_channel = 2\n\
         planes_per_die = 2\ncapacity = \"1 GiB\"\nspare_factor = 0.15\n{mapping}"
    );
    let stack = Stack::parse(&toml).unwrap_or_else(|error| panic!("{error}"));
    let params = serde_json::json!({ "requests": 40_000, "space": 1u64 << 30, "write": 0.0, "size": 4096 });
    let trace = synth::by_name("uniform").and_then(|s| s.trace(&params, 1)).expect("a trace");
    let workload = RunWorkload {
        export: 0,
        trace: trace.into(),
        trace_hash: String::new(),
        fit: String::new(),
        pace: Some(Pace::Closed { outstanding }),
        passes: 1,
        warm_up: 0,
    };
    let options = RunOptions {
        workloads: vec![workload],
        seed: 1,
        precondition: Precondition::Filled,
        warm_up: 0,
        extension: nandu_sim::Extension::NONE,
        stack_name: "test".into(),
    };
    run(&stack, &options, |_| {}).expect("the stack runs")
}

#[test]
fn reads_that_wait_for_the_map_keep_dies_busy() {
    for map in POLICIES {
        let name = map.name;
        let is_on_flash = ssd("mlc-2019").map(name, "").has_map_on_flash();
        // CFTL would find most of these reads in the blocks that it gathers from them.
        let options = match (name, is_on_flash) {
            ("cftl", _) => ", cmt_size = \"64 KiB\", switching = { kind = \"never\" }",
            (_, true) => ", cmt_size = \"64 KiB\"",
            (_, false) => "",
        };
        let mapping = format!("mapping = {{ kind = {name:?}{options} }}\n");
        for outstanding in [16u32, 64] {
            let result = reads(&mapping, outstanding);
            let busy = result.layers[0].busy_ns["die"] * 1000 / (DIES * result.duration_ns);
            let least = u64::from(outstanding) * 1000 / (u64::from(outstanding) + DIES - 1);
            println!(
                "{name}, {outstanding} outstanding: {} IOPS, dies busy {busy} / 1000, at least {least}",
                result.total.iops
            );
            assert!(busy >= least, "{name}, {outstanding} outstanding: dies busy {busy} / 1000, not {least}");
        }
    }
}
