//! Options of a mirror: which are refused, and that each read policy does what it says.

use crate::scenarios::{made, written};
use crate::world::Setup;
use nandu_array::mirror::layout::Layout;
use nandu_array::mirror::{MirrorConfig, ReadPolicy, kind};
use nandu_base::{BuildContext, ByteLen, DeviceConfig, Limits, Precondition, Span};
use std::collections::BTreeSet;

fn build(config: &MirrorConfig, children: &[Limits]) -> Result<Limits, String> {
    let planted = BTreeSet::new();
    let cx = BuildContext {
        name: "m",
        children,
        seed: 1,
        tenants: 1,
        shares: &[],
        planted: &planted,
        precondition: Precondition::Empty,
    };
    config
        .machine(&cx)
        .map(|m| m.limits().clone())
        .map_err(|e| format!("{}: {e}", e.key.as_deref().unwrap_or_default()))
}

/// Why these options are refused.
pub fn refused_options(config: &MirrorConfig) -> String {
    let legs = [Limits::plain(ByteLen::mib(64)), Limits::plain(ByteLen::mib(80))];
    build(config, &legs).expect_err("wrong")
}

#[test]
fn wrong_options_are_named() {
    let legs = [Limits::plain(ByteLen::mib(64)), Limits { align: 4096, ..Limits::plain(ByteLen::mib(80)) }];
    let good = MirrorConfig::of("a", "b");
    let limits = build(&good, &legs).expect("right");
    assert_eq!(limits.capacity, Layout::of(ByteLen::mib(64), 20).expect("large enough").data);
    assert_eq!(limits.align, 4096);
    let wrong = |change: &dyn Fn(&mut MirrorConfig)| {
        let mut config = good.clone();
        change(&mut config);
        build(&config, &legs).expect_err("wrong")
    };
    assert!(wrong(&|c| c.legs.truncate(1)).starts_with("legs: a mirror has 2 to 8 legs, not 1"));
    assert!(
        wrong(&|c| c.legs = (0..9).map(|leg| leg.to_string()).collect())
            .starts_with("legs: a mirror has 2 to 8")
    );
    assert!(wrong(&|c| c.common.leg_queue_depth = vec![1]).starts_with("leg_queue_depth"));
    assert!(wrong(&|c| c.legs[1] = "a".into()).starts_with("legs"));
    assert!(wrong(&|c| c.common.region_size = ByteLen::kib(65)).starts_with("region_size"));
    assert!(wrong(&|c| c.common.region_size = ByteLen::kib(32)).starts_with("region_size"));
    assert!(wrong(&|c| c.common.bitmap_delay = Span::ZERO).starts_with("bitmap_delay"));
    assert!(wrong(&|c| c.common.max_dirty_regions = 3).starts_with("max_dirty_regions"));
    assert!(wrong(&|c| c.common.resync_chunk = ByteLen(5000)).starts_with("resync_chunk"));
    assert!(wrong(&|c| c.common.resync_depth = 0).starts_with("resync_depth"));
    assert!(wrong(&|c| c.common.resync_rate = ByteLen(1)).starts_with("resync_rate"));
    let tiny = [Limits::plain(ByteLen::kib(64)), legs[1].clone()];
    assert!(build(&good, &tiny).expect_err("tiny").contains("too small"));
    let flash = [Limits { erase_unit: Some(ByteLen::mib(1)), ..legs[0].clone() }, legs[1].clone()];
    assert!(build(&good, &flash).expect_err("flash").contains("overwritten"));
}

#[test]
fn the_kind_knows_its_options_and_its_faults() {
    let k = kind();
    let parse = |text: &str| (k.parse)(toml::from_str(text).expect("toml"));
    let config = parse(
        "legs = [\"a\", \"b\"]\nread_policy = \"leader\"\nregion_size = \"4 MiB\"\nbitmap_delay = \"2 s\"",
    )
    .expect("right");
    assert_eq!(config.children(), ["a", "b"]);
    assert!(parse("legs = [\"a\", \"b\"]\nread_policy = \"worst\"").is_err());
    let schema = serde_json::to_string(&(k.schema)()).expect("json");
    assert!(schema.contains("max_dirty_regions") && schema.contains("additionalProperties\":false"));
    assert!(k.plants.iter().all(|p| p.name.starts_with("mirror.")));
}

/// Reads of each leg when `count` reads are sent at once, or one after the other; leg b is 50 times slower.
fn reads_of(read: ReadPolicy, count: u64, at_once: bool) -> [u64; 2] {
    let mut setup = Setup::small(41);
    setup.slow = 50;
    setup.config.read_policy = read;
    let mut w = made(setup);
    written(&mut w, 0, 100);
    w.run(20_000);
    let before = [w.counter("leg_a_reads"), w.counter("leg_b_reads")];
    let mut all = Vec::new();
    for k in 0..count {
        all.push(w.read(k, 1));
        if !at_once {
            w.wait(&all);
        }
    }
    w.wait(&all);
    assert_eq!(w.wrong, None);
    [w.counter("leg_a_reads") - before[0], w.counter("leg_b_reads") - before[1]]
}

#[test]
fn each_read_policy_chooses_its_leg() {
    assert_eq!(reads_of(ReadPolicy::Leader, 20, true), [20, 0]);
    assert_eq!(reads_of(ReadPolicy::RoundRobin, 20, true), [10, 10]);
    assert_eq!(reads_of(ReadPolicy::RoundRobin, 20, false), [10, 10]);
    // Equal queues are filled evenly; a queue that is always empty leaves the choice to the leader.
    assert_eq!(reads_of(ReadPolicy::ShortestQueue, 20, true), [10, 10]);
    assert_eq!(reads_of(ReadPolicy::ShortestQueue, 20, false), [20, 0]);
    // The test legs do not know how long they take: all that is left is the queue.
    assert_eq!(reads_of(ReadPolicy::LatencyAware, 20, true), [10, 10]);
}

#[test]
fn a_latency_aware_mirror_reads_from_the_faster_leg() {
    use nandu_base::{Flags, Op};
    use nandu_stack::{BuildOptions, builtin, testbed::Testbed};
    let reads = |policy: &str| {
        let mut stack = format!(
            "[export.data]\ndevice = \"m\"\n[device.m]\nkind = \"mirror\"\nlegs = [\"a\", \"b\"]\n\
             initial_sync = \"assume-clean\"\nread_policy = \"{policy}\"\n"
        );
        for (name, latency) in [("a", 90), ("b", 10)] {
            stack += &format!(
                "[device.{name}]\nkind = \"memory\"\nsize = \"1 MiB\"\nlatency = \"{latency} us\"\n"
            );
        }
        let mut bed =
            Testbed::new(&stack, &builtin(), BuildOptions::default()).expect("a mirror of two leaves");
        for k in 0..12 {
            bed.submit(0, Op::Read, Flags::NONE, k * 4096, 4096);
            bed.settle();
        }
        ["leg_a_reads", "leg_b_reads"].map(|name| bed.counter("m", name))
    };
    assert_eq!(reads("latency-aware"), [0, 12], "leg b answers nine times as fast");
    assert_eq!(reads("shortest-queue"), [12, 0], "nothing is under way: the leader");
    assert_eq!(reads("round-robin"), [6, 6]);
}
