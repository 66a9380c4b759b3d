//! The program runs a drive of 1 TB in the memory of what is touched. A process of its own, whose peak is told by the system.

use std::ffi::OsString;

const DRIVE: &str = "[export.data]\ndevice = \"ssd\"\n\n[device.ssd]\nkind = \"ssd\"\nprofile = \"tlc-2019\"\n\
                     channels = 8\nchips_per_channel = 2\ndies_per_chip = 4\nplanes_per_die = 4\ncapacity = \"1 TB\"\n";

/// Most memory this process has had, in KiB; `None` where the system does not say.
fn peak() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

#[test]
fn the_program_runs_a_filled_terabyte_in_200_mib() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("large.toml").display().to_string();
    std::fs::write(&file, DRIVE).expect("it can be written");
    let words = ["nandu", "--quiet", "run", &file, "--trace", "uniform", "--precondition", "filled"];
    let more = ["--gen", "requests=20000", "--gen", "space=1GiB"];
    let args = words.iter().chain(&more).map(OsString::from);
    assert_eq!(nandu_cli::run(args), 0);
    match peak() {
        Some(peak) => assert!(peak < 200 << 10, "{peak} KiB"),
        None => println!("skipped: this system does not say how much memory a process takes"),
    }
}
