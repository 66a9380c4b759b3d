//! What a run costs beside replaying: making and reading requests, their digest, the start of a disk, further tenants, and drives that
//! are given back and taken again. A short run is mostly this.

use super::{DRIVE, Held, both, count_of, count_within};
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

/// Requests of the shorter run and of the longer.
const REQUESTS: (u64, u64) = (20_000, 60_000);

/// A leaf without a model of its own.
const LEAF: &str = "[export.data]\ndevice = \"d0\"\n\n[device.d0]\nkind = \"memory\"\nsize = \"8 GiB\"\n";
const DISK: &str =
    "[export.data]\ndevice = \"d0\"\n\n[device.d0]\nkind = \"hdd\"\nprofile = \"desktop-2010\"\n";

/// Tenants of the smaller stack and of the larger.
const TENANTS: (u64, u64) = (32, 64);
/// Drives of the shorter race and of the longer.
const DRIVES: (usize, usize) = (2, 8);

/// Counts all of it and holds it against the gates.
pub(super) fn counts(program: &Path, folder: &Path, held: &mut Held) -> Result<(), String> {
    let write = |name: &str, text: &str| {
        let path = folder.join(name);
        std::fs::write(&path, text).map(|()| path.display().to_string()).map_err(|e| e.to_string())
    };
    let (leaf, disk) = (write("leaf.toml", LEAF)?, write("disk.toml", DISK)?);
    let count = |words: &[&str]| count_of(program, words).map(|(count, _)| count);
    // Per request between two runs.
    let marginal = |words: &(dyn Fn(u64) -> Vec<String> + Sync)| {
        let of = |n| count_of(program, words(n)).map(|(count, _)| count);
        let (few, many) = both(|| of(REQUESTS.0), || of(REQUESTS.1));
        Ok::<_, String>(many?.saturating_sub(few?) / (REQUESTS.1 - REQUESTS.0))
    };
    let run = |stack: &str, trace: &str, more: &[&str]| {
        let words = ["--quiet", "run", stack, "--trace", trace, "--extend", "0", "--json"];
        words.iter().chain(more).map(ToString::to_string).collect::<Vec<_>>()
    };

    let file = folder.join("first.mqsim").display().to_string();
    let made = format!("requests={}", REQUESTS.1);
    count_plain(program, &["--quiet", "trace", "generate", "mixed-zipf", &file, "--gen", &made, "--force"])?;
    let first = REQUESTS.0.to_string();
    let again = |n: u64| run(&leaf, &file, &["--limit", &first, "--repeat", &(n / REQUESTS.0).to_string()]);
    let replay = marginal(&again)?;
    held.hold("memory-leaf", replay)?;
    let generate =
        |n: u64| run(&leaf, "mixed-zipf", &["--gen", &format!("requests={n}"), "--gen", "space=64MiB"]);
    held.hold("generated", marginal(&generate)?.saturating_sub(replay))?;
    let read = |n: u64| run(&leaf, &file, &["--limit", &n.to_string()]);
    held.hold("read", marginal(&read)?.saturating_sub(replay))?;

    let digest = |n: u64| {
        count_within("*ContentHasher*update*", program, run(&leaf, &file, &["--limit", &n.to_string()]))
    };
    let (few, many) = both(|| digest(REQUESTS.0), || digest(REQUESTS.1));
    held.hold("digest", many?.saturating_sub(few?) / (REQUESTS.1 - REQUESTS.0))?;

    let one = |stack: &str, trace: &str| run(stack, trace, &["--gen", "requests=1", "--gen", "space=8GiB"]);
    let start = |words: Vec<String>| count(&words.iter().map(String::as_str).collect::<Vec<_>>());
    let (plain, zipf) = both(|| start(one(&leaf, "uniform")), || start(one(&leaf, "mixed-zipf")));
    let plain = plain?;
    held.hold("zipf-table", zipf?.saturating_sub(plain) / 1000)?;
    held.hold("disk-start", start(one(&disk, "uniform"))?.saturating_sub(plain) / 1000)?;

    let of = |tenants| {
        let path = write(&format!("tenants-{tenants}.toml"), &with_tenants(tenants))?;
        count(&["--quiet", "run", &path, "--extend", "0"])
    };
    let (few, many) = both(|| of(TENANTS.0), || of(TENANTS.1));
    held.hold("tenant", many?.saturating_sub(few?) / (TENANTS.1 - TENANTS.0) / 1000)?;

    let drive = write("drive.toml", &format!("[export.data]\ndevice = \"d0\"\n\n[device.d0]\n{DRIVE}"))?;
    let race = |drives: usize| {
        let names: Vec<String> = (0..drives).map(|n| format!("d{n}={drive}")).collect();
        let mut words = vec!["--quiet", "compare", "--trace", &file, "--limit", "1000", "--jobs", "1"];
        words.extend(names.iter().map(String::as_str));
        faults(program, &words)
    };
    held.hold("drive-faults", race(DRIVES.1)?.saturating_sub(race(DRIVES.0)?) / (DRIVES.1 - DRIVES.0) as u64)
}

/// The leaf with so many tenants, each with a workload of ten requests.
fn with_tenants(tenants: u64) -> String {
    let mut text = "[device.below]\nkind = \"memory\"\nsize = \"8 GiB\"\n".to_string();
    for n in 0..tenants {
        let _ = write!(
            text,
            "\n[export.e{n}]\ndevice = \"s{n}\"\ntenant = \"t{n}\"\n\n[tenant.t{n}]\nweight = 100\n\n\
             [workload.w{n}]\nexport = \"e{n}\"\ngenerator = \"uniform\"\niodepth = 1\nnumber_ios = 10\n\n\
             [device.s{n}]\nkind = \"slice\"\nbelow = \"below\"\noffset = \"{} MiB\"\nsize = \"64 MiB\"\n",
            n * 64
        );
    }
    text
}

/// Runs the program as it is.
fn count_plain(program: &Path, words: &[&str]) -> Result<(), String> {
    let output = Command::new(program).args(words).output().map_err(|e| e.to_string())?;
    match output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

/// Pages that the kernel hands to the program while it runs: the fewest of three runs, for how large they are depends on what is free.
fn faults(program: &Path, words: &[&str]) -> Result<u64, String> {
    let words: Vec<String> = words.iter().map(ToString::to_string).collect();
    let run = || super::measured(program, words.clone()).map(|figures| figures.faults);
    Ok(run()?.min(run()?).min(run()?))
}
