//! Commands on traces take no more memory for more requests. A process of its own, whose peak is told by the system.

use std::ffi::OsString;

/// Requests of a load that is streamed: held it would take 70 MB.
const MANY: &str = "requests=4_400_000";
/// What a command may take beside what a short load takes, in KiB: less than a third of that.
const MORE: u64 = 20 << 10;

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

#[test]
fn statistics_curves_and_conversions_take_the_memory_of_a_short_trace() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("t.parquet").display().to_string();
    let commands: [&[&str]; 4] = [
        &["trace", "info", "uniform", "--gen", "space=16MiB"],
        &["trace", "mrc", "uniform", "--gen", "space=16MiB", "--policy", "lru"],
        &["trace", "mrc", "uniform", "--gen", "space=16MiB", "--policy", "sieve", "--sizes", "2000"],
        &["trace", "generate", "uniform", &file, "--force", "--gen", "space=16MiB"],
    ];
    // Row groups of Parquet have up to 262,144 requests.
    let all = |requests: &str| {
        for command in commands {
            nandu(&[command, &["--gen", requests]].concat());
            println!("{command:?} {requests}: {:?} KiB at most", peak());
        }
    };
    all("requests=600_000");
    let few = peak();
    all(MANY);
    if let (Some(few), Some(many)) = (few, peak()) {
        assert!(many <= few + MORE, "{few} KiB for a short trace, {many} KiB for a long one");
    }
}
