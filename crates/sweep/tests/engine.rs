//! The engine as a library: what it measures is what each run alone measures, once for each stack, in any sitting.

use nandu_base::Precondition;
use nandu_sim::{Pace, RunOptions, RunWorkload};
use nandu_stack::{StackFile, builtin};
use nandu_sweep::measure::Bench;
use nandu_sweep::metric::{Devices, figures};
use nandu_sweep::survey::{Survey, stack, survey};
use nandu_sweep::{Figure, Metric, Outcome, Shard, Sweep, SweepFile, search};
use nandu_trace::{Trace, synth};
use std::sync::atomic::{AtomicU64, Ordering};

const STACK: &str = r#"
[export.d]
device = "s"
[device.s]
kind = "ssd"
profile = "mlc-2019"
capacity = "64 MiB"
planes_per_die = 1
spare_factor = 0.2
"#;

/// Two steps of the first axis make the same stack.
const SWEEP: &str = r#"
stack = "s"
goal = ["minimise p99"]
bound = ["failed <= 0"]
[[axis]]
name = "planes"
[[axis.step]]
name = "as it is"
[[axis.step]]
name = "1"
set = { "device.s.planes_per_die" = 1 }
[[axis.step]]
name = "2"
set = { "device.s.planes_per_die" = 2 }
[[axis]]
parameter = "device.s.spare_factor"
values = [0.2, 0.3]
"#;

const REQUESTS: u64 = 300;

fn options() -> RunOptions {
    let params = serde_json::json!({ "requests": REQUESTS, "space": 32 << 20 });
    let generator = synth::by_name("uniform").unwrap().generator(&params, 1).unwrap();
    let meta = generator.meta();
    let trace = Trace::from_records(generator.collect(), vec!["uniform".into()], meta).unwrap();
    let workload = RunWorkload {
        export: 0,
        trace: trace.into(),
        trace_hash: String::new(),
        fit: "error".into(),
        pace: Some(Pace::Closed { outstanding: 2 }),
        passes: 1,
        warm_up: 0,
    };
    RunOptions {
        workloads: vec![workload],
        seed: 1,
        precondition: Precondition::Filled,
        warm_up: 0,
        extension: nandu_sim::Extension::NONE,
        stack_name: "s".into(),
    }
}

struct World {
    file: StackFile,
    sweep: Sweep,
    survey: Survey,
    options: RunOptions,
}

fn world() -> World {
    let file = StackFile::parse(STACK, "s.toml").unwrap();
    let asked = SweepFile::parse(SWEEP, "sweep.toml").unwrap();
    let space = asked.space(&[]).unwrap();
    let survey = survey(&file, &space, &builtin(), None, (1, 2, false)).unwrap_or_else(|e| panic!("{e}"));
    let sweep = asked.sweep(space, &survey.devices).unwrap();
    World { file, sweep, survey, options: options() }
}

/// Measures `shards` one after the other; returns what came out and how many requests were sent in.
fn measured(world: &World, shards: &[&str], threads: usize) -> (Outcome, u64) {
    let registry = builtin();
    let mut bench = Bench::new(&world.sweep, &world.file, &registry, &world.options, &world.survey);
    let sent = AtomicU64::new(0);
    let moved = |n: u64| {
        sent.fetch_add(n, Ordering::Relaxed);
        nandu_sim::replay::Go::On
    };
    for shard in shards {
        let shard = Shard::parse(shard).unwrap();
        let kind = search::by_name(None).unwrap();
        bench.measure(kind, shard, threads, None, &moved).unwrap_or_else(|e| panic!("{e}"));
        let (all, known) = bench.progress(shard);
        assert_eq!(all, known);
    }
    (Outcome::of(&world.sweep, bench.ids(), bench.known()), sent.into_inner())
}

#[test]
fn each_point_is_what_its_run_alone_is_and_the_same_stack_runs_once() {
    let world = world();
    let (outcome, sent) = measured(&world, &["0/1"], 2);
    assert_eq!((outcome.rows.len(), sent), (6, 4 * REQUESTS), "six points are four stacks");
    for row in &outcome.rows {
        let stack = stack(&world.file, &world.sweep.space, row.point, &builtin()).unwrap();
        let alone = figures(&nandu_sim::run(&stack, &world.options, |_| ()).unwrap());
        let shown: Vec<Option<Figure>> =
            outcome.columns.iter().map(|c| alone.get(&c.name).copied()).collect();
        assert_eq!(row.figures, shown, "point {}", row.point);
    }
    let id = |point: usize| outcome.rows[point].id;
    assert!(id(0) == id(2) && id(1) == id(3) && id(0) != id(4));
}

#[test]
fn shards_in_any_order_and_any_number_of_threads_make_the_whole() {
    let world = world();
    let (whole, _) = measured(&world, &["0/1"], 1);
    let (parts, sent) = measured(&world, &["2/3", "0/3", "1/3", "0/3"], 3);
    assert_eq!((whole, 4 * REQUESTS), (parts, sent));
}

#[test]
fn counters_of_the_devices_of_all_points_are_figures() {
    let world = world();
    assert!(Metric::resolve("s.erase_count", &world.survey.devices, "x").is_ok());
    assert!(Metric::resolve("s.erase_count", &Devices::default(), "x").is_err());
}
