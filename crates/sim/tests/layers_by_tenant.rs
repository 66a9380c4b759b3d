//! What each tenant caused in every layer of a stack, also when a machine does it later on its behalf.

use nandu_base::{Precondition, Span};
use nandu_sim::result::{LayerResult, LayerTenant};
use nandu_sim::{Pace, RunOptions, RunResult, RunWorkload, run};
use nandu_stack::Stack;
use nandu_trace::synth;

/// A reader of runs and a writer, parts of a queue over a cache that writes back and prefetches, over a mirror of two drives.
const STACK: &str = "[export.a]\ndevice = \"as\"\ntenant = \"reader\"\n[export.b]\ndevice = \"bs\"\ntenant = \"writer\"\n\
    [tenant.reader]\nweight = 300\n[tenant.writer]\nweight = 100\n\
    [device.as]\nkind = \"slice\"\nbelow = \"queue\"\nsize = \"8 MiB\"\n\
    [device.bs]\nkind = \"slice\"\nbelow = \"queue\"\noffset = \"8 MiB\"\nsize = \"8 MiB\"\n\
    [device.queue]\nkind = \"queue\"\nbelow = \"cache\"\ndepth = 16\n\
    [device.cache]\nkind = \"cache\"\nbelow = \"mirror\"\nsize = \"1 MiB\"\n\
    prefetch = { kind = \"segment\", segment_size = \"32 KiB\" }\n\
    write = { kind = \"writeback\" }\n\
    [device.mirror]\nkind = \"mirror\"\nlegs = [\"left\", \"right\"]\n\
    [device.left]\nkind = \"ssd\"\nprofile = \"bench-2026\"\nchannels = 2\nblocks_per_plane = 48\npages_per_block = 64\nspare_factor = 0.25\n\
    [device.right]\nkind = \"ssd\"\nprofile = \"bench-2026\"\nchannels = 2\nblocks_per_plane = 48\npages_per_block = 64\nspare_factor = 0.25\n";

fn result() -> RunResult {
    let stack = Stack::parse(STACK).unwrap_or_else(|error| panic!("{error}"));
    let workload = |(export, write): (usize, f64)| {
        let params = serde_json::json!({ "requests": 20_000, "space": 8 << 20, "write": write });
        let trace = synth::by_name("uniform").and_then(|s| s.trace(&params, export as u64)).expect("a trace");
        RunWorkload {
            export,
            trace: trace.into(),
            trace_hash: String::new(),
            fit: String::new(),
            warm_up: 0,
            pace: Some(Pace::ClosedFor { outstanding: 16, runtime: Span::from_secs(2) }),
            passes: 1,
        }
    };
    let options = RunOptions {
        workloads: [0.0, 1.0].into_iter().enumerate().map(workload).collect(),
        seed: 1,
        precondition: Precondition::Filled,
        warm_up: 0,
        extension: nandu_sim::Extension::NONE,
        stack_name: "test".into(),
    };
    run(&stack, &options, |_| {}).expect("the stack runs")
}

fn layer<'a>(result: &'a RunResult, name: &str) -> &'a LayerResult {
    result.layers.iter().find(|layer| layer.name == name).expect("a layer")
}

fn of<'a>(layer: &'a LayerResult, tenant: &str) -> &'a LayerTenant {
    layer.tenants.iter().find(|row| row.tenant == tenant).expect("a tenant")
}

/// Time of the dies for this tenant and work.
fn dies(layer: &LayerResult, tenant: &str, work: &str) -> u64 {
    let charges =
        layer.charges.iter().filter(|c| c.tenant == tenant && c.resource == "die" && c.work == work);
    charges.map(|c| c.busy_ns).sum()
}

#[test]
fn every_layer_says_what_each_tenant_caused() {
    let result = result();
    for layer in &result.layers {
        let sum = |of: fn(&LayerTenant) -> u64| layer.tenants.iter().map(of).sum::<u64>();
        assert_eq!(sum(|t| t.requests), layer.requests.values().sum::<u64>(), "{}", layer.name);
        assert_eq!(sum(|t| t.bytes), layer.bytes.values().sum::<u64>(), "{}", layer.name);
        let charged = layer.charges.iter().filter(|c| ["die", "head", "device"].contains(&c.resource));
        assert_eq!(sum(|t| t.device_ns), charged.map(|c| c.busy_ns).sum::<u64>(), "{}", layer.name);
        let longest = layer.tenants.iter().map(|t| t.latency_max_ns).max();
        assert_eq!(longest, Some(layer.latency_max_ns), "{}", layer.name);
    }
    for leg in ["left", "right"] {
        let leg = layer(&result, leg);
        // What the cache writes back, and the collection that follows, is the writer's; what it fetches ahead is the reader's.
        assert!(of(leg, "writer").gc_ns > 0, "the drives collect");
        assert_eq!(of(leg, "reader").gc_ns, 0);
        assert!(dies(leg, "writer", "write") > 0);
        assert_eq!(dies(leg, "reader", "write"), 0);
        assert!(dies(leg, "reader", "read") > 0);
        // Nobody causes the mirror's own records.
        let own = leg.tenants.iter().find(|row| row.tenant == "system").map_or(0, |row| row.bytes);
        assert!(own * 100 < leg.bytes.values().sum::<u64>(), "{:?}", leg.tenants);
    }
    let reads: u64 = ["left", "right"].into_iter().map(|leg| of(layer(&result, leg), "reader").bytes).sum();
    assert!(reads > 4 * of(layer(&result, "cache"), "reader").bytes, "segments are fetched for the reader");
    // Device time of the result is that of all layers together.
    for tenant in &result.tenants {
        let rows =
            result.layers.iter().flat_map(|layer| &layer.tenants).filter(|row| row.tenant == tenant.name);
        let (device, gc) = rows.fold((0, 0), |sum, row| (sum.0 + row.device_ns, sum.1 + row.gc_ns));
        assert_eq!((device, gc), (tenant.device.busy_ns, tenant.device.gc_ns), "{}", tenant.name);
    }
}
