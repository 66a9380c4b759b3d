//! A large drive is ready in the memory of what is touched: one process, one test, so that the peak is its own.

use nandu_base::Precondition;
use nandu_device::fixture::ssd;
use nandu_device::ssd::mapping::POLICIES;
use nandu_sim::{Pace, RunOptions, RunWorkload, run};
use nandu_stack::Stack;
use nandu_trace::synth;

const TERABYTE: &str = "profile = \"tlc-2019\"\nchannels = 8\nchips_per_channel = 2\ndies_per_chip = 4\nplanes_per_die = 4\n\
                        capacity = \"1 TB\"\n";

/// As much as page numbers of 32 bits can name: all but the last block of each of 1,024 planes, 63.98 TiB in pages of 16 KiB.
const LARGEST: &str = "profile = \"tlc-2019\"\nchannels = 16\nchips_per_channel = 8\ndies_per_chip = 2\nplanes_per_die = 4\n\
                       page_size = \"16 KiB\"\npages_per_block = 1024\nblocks_per_plane = 4095\n";

/// The most memory that this process has had, where the system says so.
fn peak() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    Some(line.split_whitespace().nth(1)?.parse::<u64>().ok()? << 10)
}

/// Reads and writes `requests` times 32 KiB in `space` bytes of a drive.
fn used(drive: &str, precondition: Precondition, requests: u64, space: u64) {
    let stack = format!("[export.data]\ndevice = \"ssd\"\n\n[device.ssd]\nkind = \"ssd\"\n{drive}");
    let stack = Stack::parse(&stack).expect("the stack is right");
    let params = serde_json::json!({ "requests": requests, "space": space, "size": 32 << 10 });
    let trace = synth::by_name("uniform").and_then(|s| s.trace(&params, 1)).expect("a trace");
    let workload = RunWorkload {
        export: 0,
        trace: trace.into(),
        trace_hash: String::new(),
        fit: String::new(),
        pace: Some(Pace::Closed { outstanding: 16 }),
        passes: 1,
        warm_up: 0,
    };
    let options = RunOptions {
        workloads: vec![workload],
        seed: 1,
        precondition,
        warm_up: 0,
        extension: nandu_sim::Extension::NONE,
        stack_name: "test".into(),
    };
    let result = run(&stack, &options, |_| {}).expect("the stack runs");
    let read = result.layers[0].counters["host_pages_read"];
    assert_eq!(result.total.requests, requests, "{drive}");
    assert!(precondition == Precondition::Empty || read > 0, "{drive}: a filled drive reads pages");
}

#[test]
fn a_large_drive_takes_the_memory_of_what_is_touched() {
    let holds = |what: &str, most: u64| match peak() {
        Some(peak) => assert!(peak < most << 20, "{what}: {} MiB", peak >> 20),
        None => println!("skipped: this system does not say how much memory a process takes"),
    };
    // Its tables are the planes', small enough for the C library to clear them itself where others lay before: so it comes first. A random
    // write is a merge of a whole block, and each of its copies waits in memory for the one before.
    used(&format!("{TERABYTE}mapping = {{ kind = \"fast\" }}\n"), Precondition::Filled, 2_000, 1 << 30);
    holds("fast", 200);
    for precondition in [Precondition::Empty, Precondition::Filled] {
        // 5 GiB of footprint, written about once and read as much.
        used(TERABYTE, precondition, 200_000, 5 << 30);
        holds("1 TB", 200);
    }
    for map in POLICIES.iter().filter(|map| ssd("tlc-2019").map(map.name, "").has_map_on_flash()) {
        let mapping = format!("mapping = {{ kind = {:?}, cmt_size = \"4 MiB\" }}\n", map.name);
        used(&format!("{TERABYTE}{mapping}"), Precondition::Filled, 20_000, 1 << 30);
        holds(map.name, 200);
    }
    // 4.2 million blocks take some 30 bytes each.
    used(LARGEST, Precondition::Filled, 20_000, 1 << 40);
    holds("64 TiB", 400);
}
