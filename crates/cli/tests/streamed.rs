//! Commands on traces take no more memory for more requests. A process of its own, whose peak is told by the system.

use std::ffi::OsString;

/// Most memory this process has had, in KiB; `None` where the system does not say.
fn peak() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

fn nandu(words: &[&str]) {
    let args = ["nandu", "--quiet"].iter().chain(words).map(OsString::from);
    assert_eq!(nandu_cli::run(args), 0, "{words:?}");
}

/// Runs the commands on loads of `few` and then of `many` requests, both streamed, and holds the peak of the second to that of the first.
fn keeps_its_memory(few: u64, many: u64) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("t.parquet").display().to_string();
    let commands: [&[&str]; 4] = [
        &["trace", "info", "uniform", "--gen", "space=16MiB"],
        &["trace", "mrc", "uniform", "--gen", "space=16MiB", "--policy", "lru"],
        &["trace", "mrc", "uniform", "--gen", "space=16MiB", "--policy", "sieve", "--sizes", "2000"],
        &["trace", "generate", "uniform", &file, "--force", "--gen", "space=16MiB"],
    ];
    let all = |requests: u64| {
        for command in commands {
            nandu(&[command, &["--gen", &format!("requests={requests}")]].concat());
            println!("{command:?} {requests}: {:?} KiB at most", peak());
        }
        peak()
    };
    if let (Some(less), Some(more)) = (all(few), all(many)) {
        assert!(more <= less + less / 20, "{less} KiB for {few} requests, {more} KiB for {many}");
    }
}

/// Both are streamed. Held, the second would take 35 MB more; five per cent are a byte of each request that it has more.
#[test]
fn statistics_curves_and_conversions_take_no_more_memory_for_more_requests() {
    keeps_its_memory(4_300_000, 6_500_000);
}

/// Two minutes: `cargo test -p nandu-cli --test streamed -- --ignored --nocapture`.
#[test]
#[ignore = "two minutes"]
fn a_hundred_million_requests_take_the_memory_of_ten_million() {
    keeps_its_memory(10_000_000, 100_000_000);
}
