//! Tenants that change while a workload runs: weights, and the space inside a drive, at the times that the stack file says.

use nandu_base::{Precondition, Span};
use nandu_device::fixture::{SsdTable, ssd};
use nandu_sim::tap::{Look, run_tapped};
use nandu_sim::{Pace, RunOptions, RunResult, RunWorkload};
use nandu_stack::Stack;
use nandu_trace::synth;

/// Runs a stack, each export under 4 KiB reads or writes at random, 32 outstanding, for half a second.
fn run(toml: &str, reads: &[f64]) -> RunResult {
    let stack = Stack::parse(toml).unwrap_or_else(|error| panic!("{error}"));
    let workload = |(export, read_share): (usize, &f64)| {
        let params = serde_json::json!({
            "requests": 6_000, "space": 1 << 20, "write": 1.0 - read_share,
        });
        let trace = synth::by_name("uniform").and_then(|s| s.trace(&params, export as u64)).expect("a trace");
        RunWorkload {
            export,
            trace: trace.into(),
            trace_hash: String::new(),
            fit: String::new(),
            pace: Some(Pace::ClosedFor { outstanding: 32, runtime: Span::from_ms(500) }),
            passes: 1,
            warm_up: 0,
        }
    };
    let options = RunOptions {
        workloads: reads.iter().enumerate().map(workload).collect(),
        seed: 1,
        precondition: Precondition::Empty,
        warm_up: 0,
        extension: nandu_sim::Extension::NONE,
        stack_name: "test".into(),
    };
    let look = Look { samples: true, ..Look::default() };
    run_tapped(&stack, &options, (), look, |_| {}).expect("the stack runs").result
}

/// Two slices with a tenant each: the drive or what stands on it, and where the second begins.
fn slices(below: &str, second: &str) -> String {
    format!(
        "[export.a]\ndevice = \"as\"\n[export.b]\ndevice = \"bs\"\n[tenant.a]\nweight = 300\n[tenant.b]\nweight = 100\n\
         [device.as]\nkind = \"slice\"\nbelow = {below:?}\nsize = \"1 MiB\"\n\
         [device.bs]\nkind = \"slice\"\nbelow = {below:?}\noffset = {second:?}\nsize = \"1 MiB\"\n"
    )
}

fn drive() -> SsdTable {
    ssd("bench-2026").channels(2).blocks(40).pages(64).spare(0.25)
}

fn queue() -> String {
    let queue = "[device.queue]\nkind = \"queue\"\nbelow = \"ssd\"\ndepth = 8\n";
    format!("{}{queue}{}", slices("queue", "1 MiB"), drive().device("ssd"))
}

/// Thousandths of the cost that the first tenant was sent while the second waited.
fn share(result: &RunResult) -> u64 {
    let queue = result.layers.iter().find(|layer| layer.name == "queue").expect("there is a queue");
    let [a, b] =
        ["tenant_1_contended_cost_ns", "tenant_2_contended_cost_ns"].map(|name| queue.counters[name]);
    a * 1000 / (a + b)
}

/// The same tenants on a drive whose dies serve by share; thousandths of the dies' time that the first has. Both write, which
/// only a drive that gives each blocks of its own can share out: pages of a block are programmed in order.
fn share_of_dies(isolation: &str, change: &str) -> u64 {
    let drive = drive().blocks(160).pages(16).with(isolation);
    let drive = drive.policy("die_scheduler", "out-of-order", &["tenant_scheduler = { kind = \"flashfq\" }"]);
    let stack = format!("{}{}{change}", slices("ssd", "5 MiB"), drive.device("ssd"));
    run(&stack, &[0.0, 0.0]).tenants[0].device.share_thousandths
}

#[test]
fn dies_hear_of_a_weight_that_changes() {
    let apart = "isolation = { kind = \"vssd\" }\n\
        tenants = [{ name = \"a\", size = \"5 MiB\" }, { name = \"b\", size = \"5 MiB\" }]\n";
    let before = share_of_dies(apart, "");
    assert!((730..=770).contains(&before), "{before}");
    let mixed = share_of_dies("", "");
    assert!(
        (470..=530).contains(&mixed),
        "whose page comes next in the open block was settled when it came: {mixed}"
    );
    // Half of the time 3 to 1, half of it 1 to 3.
    let both = share_of_dies(apart, "[change.half]\nat = \"250 ms\"\ntenant = \"a\"\nweight = 33\n");
    assert!((470..=530).contains(&both), "{both}");
}

#[test]
fn a_weight_changes_at_its_time() {
    let before = share(&run(&queue(), &[0.0, 0.0]));
    assert!((740..=760).contains(&before), "{before}");
    let change = "[change.half]\nat = \"250 ms\"\ntenant = \"a\"\nweight = 33\n";
    let result = run(&format!("{}{change}", queue()), &[0.0, 0.0]);
    // Half of the time 3 to 1, half of it 1 to 3.
    let both = share(&result);
    assert!((485..=515).contains(&both), "{both}");
    assert_eq!((result.changes[0].holds_at_ns, &result.changes[0].refused), (Some(250_000_000), &None));
    let over = result.over_time.expect("there are two tenants");
    let at = |ns: u64| over.at_ns.iter().position(|&at| at >= ns).expect("it was sampled");
    let used = |from: u64, to: u64| -> Vec<u64> {
        over.tenants.iter().map(|used| used.device_ns[at(to)] - used.device_ns[at(from)]).collect()
    };
    let (early, late) = (used(50_000_000, 200_000_000), used(300_000_000, 450_000_000));
    assert!(early[0] > early[1] * 2 && late[1] > late[0] * 2, "{early:?} {late:?}");
}

#[test]
fn a_tenant_that_comes_too_late_or_does_not_fit_is_told_so() {
    let late = "[change.late]\nat = \"1 h\"\ntenant = \"a\"\nweight = 5\n";
    let result = run(&format!("{}{late}", queue()), &[0.0, 0.0]);
    let why = |at: usize| result.changes[at].refused.as_deref().unwrap_or("nothing");
    assert!(why(0).contains("over before"), "{}", why(0));
    // Space of what deals none out is refused before anything runs.
    for device in ["ssd", "as", "queue"] {
        let none = queue() + &format!("[change.none]\nat = \"0 s\"\ndevice = {device:?}\nremove = 1\n");
        let error = Stack::parse(&none).err().expect("it is refused").to_string();
        assert!(error.contains("max_tenants") && error.contains(device), "{error}");
    }
}

#[test]
fn space_is_dealt_anew_while_tenants_write() {
    let drive = "[export.data]\ndevice = \"ssd\"\n\
        [change.one]\nat = \"100 ms\"\ndevice = \"ssd\"\nadd = \"8 MiB\"\n\
        [change.two]\nat = \"200 ms\"\ndevice = \"ssd\"\nresize = 2\nsize = \"4 MiB\"\n\
        [change.three]\nat = \"300 ms\"\ndevice = \"ssd\"\nremove = 2\n\
        [change.four]\nat = \"400 ms\"\ndevice = \"ssd\"\nadd = \"64 MiB\"\n\
        [device.ssd]\nkind = \"ssd\"\nprofile = \"bench-2026\"\nchannels = 2\nblocks_per_plane = 320\npages_per_block = 32\n\
        spare_factor = 0.5\nreclaim_unit = \"superblock\"\nisolation = { kind = \"shared-space\" }\nmax_tenants = 4\n\
        tenants = [{ name = \"a\", size = \"16 MiB\" }, { name = \"b\", size = \"8 MiB\" }]\n";
    let result = run(drive, &[0.0]);
    for (change, is_made) in result.changes.iter().zip([true, true, true, false]) {
        assert_eq!(change.refused.is_none(), is_made, "{change:?}");
        // It holds once a few programs are complete, and never before its time.
        let after = change.holds_at_ns.map(|at| at - change.at_ns);
        assert!(after.is_none_or(|ns| ns > 0 && ns < 50_000_000), "{change:?}");
    }
    assert_eq!(result.total.failed, 0);
    let drives = result.over_time.expect("the drive tells tenants apart").drives;
    assert_eq!(drives.len(), 4);
}
