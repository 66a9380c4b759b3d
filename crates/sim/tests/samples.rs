//! What is read off while a run goes on agrees with itself and with the run's result.

use nandu_base::Precondition;
use nandu_sim::tap::{Look, run_tapped};
use nandu_sim::{Pace, RunOptions, RunWorkload};
use nandu_stack::Stack;
use nandu_trace::synth;

const DRIVE: &str = "[export.data]\ndevice = \"a\"\n\n[device.a]\nkind = \"ssd\"\nprofile = \"bench-2026\"\nchannels = 2\n\
                     planes_per_die = 2\nblocks_per_plane = 40\npages_per_block = 64\nspare_factor = 0.25\n";

#[test]
fn samples_agree_with_the_result() {
    for mapping in ["", "mapping = { kind = \"fast\" }\n"] {
        let stack = Stack::parse(&format!("{DRIVE}{mapping}")).expect("the stack is right");
        let params = serde_json::json!({ "requests": 6_000, "space": 16 << 20 });
        let trace = synth::by_name("mixed-zipf").and_then(|s| s.trace(&params, 1)).expect("a trace");
        let workload = RunWorkload {
            export: 0,
            trace: trace.into(),
            trace_hash: String::new(),
            fit: String::new(),
            warm_up: 0,
            pace: Some(Pace::Closed { outstanding: 4 }),
            passes: 1,
        };
        let options = RunOptions {
            workloads: vec![workload],
            seed: 1,
            precondition: Precondition::Filled,
            warm_up: 1_000,
            extension: nandu_sim::Extension::NONE,
            stack_name: "test".into(),
        };
        let look = Look { samples: true, ..Look::default() };
        let seen = run_tapped(&stack, &options, (), look, |_| {}).expect("the stack runs");
        let samples = seen.samples;
        // Every 30 requests behind the warm-up, and at the end.
        assert_eq!(samples.times.len(), 168);
        assert!(samples.times.is_sorted());
        let device = &samples.devices[0];
        let counters = &seen.result.layers[0].counters;
        for name in ["host_pages_written", "erase_count"] {
            let values = device.counter(name).expect("it is counted");
            assert_eq!(values.len(), samples.times.len(), "{name}");
            assert!(
                values.is_sorted() && values.last() <= Some(&counters[name]),
                "{mapping} {name}: {values:?}"
            );
        }
        assert!(device.counter("erase_count").and_then(<[u64]>::last) > Some(&0), "collection is at work");
        let blocks = 2 * 2 * 40;
        assert_eq!(device.maps.len(), 34);
        for (_, map) in &device.maps {
            assert_eq!((map.valid.len(), map.erases.len()), (blocks, blocks));
            assert!(map.valid.iter().all(|&pages| pages <= map.pages_per_block));
        }
        let erases = |at: usize| device.maps[at].1.erases.iter().map(|&n| u64::from(n)).sum::<u64>();
        assert!(erases(33) > erases(0), "{mapping}");
        if let Some(valid) = device.counter("valid_pages") {
            for (number, map) in &device.maps {
                let shown: u64 = map.valid.iter().map(|&pages| u64::from(pages)).sum();
                assert_eq!(shown, valid[*number], "{mapping} sample {number}");
            }
        }
    }
}

/// A run that ends by its runtime is sampled as often as one whose requests are known, whatever the length of its trace.
#[test]
fn a_runtime_is_sampled_all_along() {
    for (runtime, least) in [(3, 10), (100, 190)] {
        let stack = Stack::parse(DRIVE).expect("the stack is right");
        let params = serde_json::json!({ "requests": 200_000, "space": 16 << 20 });
        let trace = synth::by_name("mixed-zipf").and_then(|s| s.trace(&params, 1)).expect("a trace");
        let runtime = nandu_base::Span::from_ms(runtime);
        let workload = RunWorkload {
            export: 0,
            trace: trace.into(),
            trace_hash: String::new(),
            fit: String::new(),
            warm_up: 0,
            pace: Some(Pace::ClosedFor { outstanding: 4, runtime }),
            passes: 1,
        };
        let options = RunOptions {
            workloads: vec![workload],
            seed: 1,
            precondition: Precondition::Filled,
            warm_up: 0,
            extension: nandu_sim::Extension::NONE,
            stack_name: "test".into(),
        };
        let look = Look { samples: true, ..Look::default() };
        let seen = run_tapped(&stack, &options, (), look, |_| {}).expect("the stack runs");
        let times = &seen.samples.times;
        assert!(seen.result.total.requests < 100_000, "the trace is longer");
        assert!((least..400).contains(&times.len()), "{} samples in {runtime}", times.len());
        assert!(times.is_sorted() && times.last().is_some_and(|&last| last * 10 > runtime * 9));
        let values = seen.samples.devices[0].counter("host_pages_written").expect("it is counted");
        assert!(values.len() == times.len() && values.is_sorted());
        let maps = &seen.samples.devices[0].maps;
        assert!(
            maps.iter().all(|(number, _)| number % 5 == 0 && *number < times.len()),
            "a picture every fifth"
        );
    }
}
