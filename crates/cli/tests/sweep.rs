//! `nandu sweep`: the best of many, resumed after a kill, joined from shards, and refusals that say why.

mod support;

use nandu_base::Rng;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use support::{good, nandu, nandu_in, root};

/// A small sweep of three parameters: 15 points.
const SWEEP: &str = r#"
stack = "small-ssd"
goal = ["minimise p99", "minimise waf"]
bound = ["mean <= 1 s"]
metric = ["iops", "ssd.erase_count"]

[load]
trace = "mixed-zipf"
gen = { requests = 6000, space = "256 MiB" }
closed = 4

[[axis]]
name = "spare"
parameter = "device.ssd.spare_factor"
values = [0.1, 0.2, 0.3]

[[axis]]
name = "planes"
parameter = "device.ssd.planes_per_die"
from = 1
to = 4
times = 2

[[axis]]
name = "chips"
parameter = "device.ssd.chips_per_channel"
values = [1, 2]

[[skip]]
planes = "4"
chips = "2"
spare = ["0.1", "0.2", "0.3"]
"#;

/// Results in `folder`: all files but the journal, whose lines stand in the order in which points were done.
fn results(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let names = support::files(folder);
    let kept = names.into_iter().filter(|name| name != "journal");
    kept.map(|name| (name.clone(), fs::read(folder.join(&name)).expect("a result"))).collect()
}

fn sweep_in(folder: &Path, args: &[&str]) -> support::Ran {
    fs::write(folder.join("s.toml"), SWEEP).expect("a sweep file");
    nandu_in(folder, &[&["sweep", "s.toml"], args].concat())
}

#[test]
fn a_sweep_finds_what_running_each_point_finds() {
    let folder = tempfile::tempdir().expect("a folder");
    let ran = sweep_in(
        folder.path(),
        &["--json", "--best", "best.toml", "--report", "r.html", "--parquet", "p.parquet"],
    );
    assert_eq!(ran.code, 0, "{}", ran.err);
    let result: Value = serde_json::from_str(&ran.out).expect("JSON");
    let rows = result["rows"].as_array().expect("rows");
    assert_eq!((rows.len(), &result["points"], &result["invalid"]), (15, &15.into(), &0.into()));
    let columns: Vec<&str> =
        result["columns"].as_array().unwrap().iter().map(|c| c["name"].as_str().unwrap()).collect();
    assert_eq!(columns, ["p99", "waf", "mean", "iops", "ssd.erase_count"]);
    let best = result["best"].as_u64().expect("a best point");
    let p99 = |row: &Value| row["figures"][0].as_u64().expect("p99");
    let least = rows.iter().map(p99).min().unwrap();
    assert_eq!(p99(&rows[best as usize]), least);
    assert!(rows.iter().all(|r| r["front"] == false || r["meets"] == true));
    // The winning stack runs at once and measures the same.
    let text = fs::read_to_string(folder.path().join("best.toml")).expect("best.toml");
    let command = text.lines().find_map(|l| l.strip_prefix("#   nandu run THIS ")).expect("a command");
    let words: Vec<&str> = ["run", "best.toml", "--json"].into_iter().chain(command.split(' ')).collect();
    let words: Vec<String> = words
        .join(" ")
        .replace("--gen 'space=256 MiB'", "--gen space=256MiB")
        .split(' ')
        .map(Into::into)
        .collect();
    let ran = nandu_in(folder.path(), &words.iter().map(String::as_str).collect::<Vec<_>>());
    let alone: Value = serde_json::from_str(&ran.out).unwrap_or_else(|_| panic!("{words:?}: {}", ran.err));
    assert_eq!(alone["total"]["lat_ns"]["percentile"]["99.000000"].as_u64(), Some(least));
    assert_eq!(alone["total"]["iops"], rows[best as usize]["figures"][3]);
    let page = fs::read_to_string(folder.path().join("r.html")).expect("a page");
    assert!(page.contains("<svg") && page.contains("on the front") && !page.contains("http://"));
    assert!(fs::read(folder.path().join("p.parquet")).expect("Parquet").starts_with(b"PAR1"));
}

#[test]
fn a_sweep_killed_again_and_again_ends_as_if_it_never_was() {
    let folder = tempfile::tempdir().expect("a folder");
    let whole = sweep_in(folder.path(), &["--out", "whole", "-j", "2"]);
    assert_eq!(whole.code, 0, "{}", whole.err);
    let expected = results(&folder.path().join("whole"));
    assert_eq!(expected.len(), 4, "best.toml, points.json, points.parquet, report.html");
    for seed in 1..=4u64 {
        let mut rng = Rng::new(seed);
        let out = format!("killed-{seed}");
        let journal = folder.path().join(&out).join("journal");
        let mut kills = 0;
        loop {
            let mut child = Command::new(env!("CARGO_BIN_EXE_nandu"))
                .args(["sweep", "s.toml", "-q", "--out", &out, "-j", "2"])
                .current_dir(folder.path())
                .env("NANDU_CACHE", "off")
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .expect("the program starts");
            // Killed when the journal has grown by so many bytes, which is anywhere in a point.
            let grown = || fs::metadata(&journal).map_or(0, |m| m.len());
            let until = grown() + rng.below(6000);
            while grown() < until && child.try_wait().expect("its state").is_none() {
                std::thread::yield_now();
            }
            (0..rng.below(3000)).for_each(|_| std::thread::yield_now());
            let done = child.try_wait().expect("its state");
            if let Some(status) = done {
                assert!(status.success(), "seed {seed}: {status}");
                break;
            }
            child.kill().expect("SIGKILL");
            child.wait().expect("its end");
            kills += 1;
        }
        println!("seed {seed}: killed {kills} times");
        assert!(
            results(&folder.path().join(&out)) == expected,
            "seed {seed}: killed {kills} times, other results"
        );
    }
}

#[test]
fn shards_joined_are_the_whole() {
    let folder = tempfile::tempdir().expect("a folder");
    assert_eq!(sweep_in(folder.path(), &["--out", "whole"]).code, 0);
    for shard in ["0/3", "1/3", "2/3"] {
        let ran = sweep_in(folder.path(), &["--shard", shard, "--out", &shard[..1]]);
        assert_eq!(ran.code, 0, "{}", ran.err);
        assert!(!folder.path().join(&shard[..1]).join("best.toml").exists(), "a part has no winner");
    }
    let ran = sweep_in(folder.path(), &["--from", "0", "--from", "1", "--from", "2", "--out", "joined"]);
    assert!(ran.code == 0 && ran.err.contains("15 of 15 points known already"), "{}", ran.err);
    assert!(results(&folder.path().join("joined")) == results(&folder.path().join("whole")));
    // A further step of an axis runs its own points only.
    let more = fs::read_to_string(folder.path().join("s.toml"))
        .unwrap()
        .replace("[0.1, 0.2, 0.3]", "[0.1, 0.2, 0.3, 0.4]");
    fs::write(folder.path().join("more.toml"), more).unwrap();
    let ran = nandu_in(folder.path(), &["sweep", "more.toml", "--out", "joined", "--dry-run"]);
    assert!(ran.out.contains("6 points to run"), "{}{}", ran.out, ran.err);
}

#[test]
fn where_nothing_meets_the_bounds_the_nearest_is_named() {
    let args =
        ["sweep", "small-ssd", "--trace", "uniform", "--limit", "500", "--iodepth", "2", "--minimise", "p99"];
    let ran =
        nandu(&[&args[..], &["--axis", "device.ssd.planes_per_die=1,2", "--bound", "mean<=1 us"]].concat());
    assert_eq!(ran.code, 3, "{}", ran.err);
    assert!(
        ran.out.contains("nearest: misses mean<=1 us by ")
            && ran.out.contains("mean<=1 us is met by 0 points, the best"),
        "{}",
        ran.out
    );
}

#[test]
fn what_is_wrong_is_refused_before_anything_runs() {
    let base = ["sweep", "small-ssd", "--trace", "uniform", "--limit", "100"];
    let axis = ["--axis", "device.ssd.planes_per_die=1,2"];
    let cases: [(&[&str], &str); 9] = [
        (&["--axis", "device.ssd.planes_per_die"], "there is no `=`"),
        (&["--axis", "device.ssd.plains_per_die=1,2"], "did you mean `planes_per_die`?"),
        (&["--axis", "device.ssd.planes_per_die=1,3"], "point planes_per_die 3"),
        (&["--axis", "device.ssd.planes_per_die=1,2", "--bound", "p99<5"], "neither `<=` nor `>=`"),
        (&["--axis", "device.ssd.planes_per_die=1,2", "--bound", "p99<=5"], "needs a unit"),
        (
            &["--axis", "device.ssd.planes_per_die=1,2", "--minimise", "ssd.erase"],
            "unknown metric `ssd.erase`",
        ),
        (&["--axis", "device.ssd.planes_per_die=1,2", "--shard", "3/3"], "I from 0 to N-1"),
        (&["--axis", "device.ssd.planes_per_die=1,2", "--search", "lucky"], "unknown search `lucky`"),
        (&["--axis", "device.ssd.planes_per_die=1,2", "--from", "nowhere"], "nowhere"),
    ];
    for (args, why) in cases {
        let ran = nandu(&[&base[..], args].concat());
        assert!(
            (ran.code == 2 || args.contains(&"nowhere")) && ran.err.contains(why),
            "{args:?}: {} {}",
            ran.code,
            ran.err
        );
    }
    let ran = nandu(&[&["sweep", "small-ssd"], &axis[..]].concat());
    assert!(ran.code == 2 && ran.err.contains("a sweep needs requests"), "{}", ran.err);
    let skipped =
        nandu(&[&base[..], &["--axis", "device.ssd.planes_per_die=1,3", "--skip-invalid"]].concat());
    assert!(skipped.code == 0 && skipped.err.contains("1 point cannot be built"), "{}", skipped.err);
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("journal"), "my diary\n").expect("a file");
    let out = folder.path().display().to_string();
    let ran = nandu(&[&base[..], &axis, &["--out", &out]].concat());
    assert!(ran.code == 2 && ran.err.contains("not that of a sweep"), "{}", ran.err);
}

#[test]
fn shipped_sweeps_are_good_and_say_what_they_would_run() {
    for name in ["hybrid-ratio", "spare-blocks"] {
        let text = good(&["sweep", name, "--dry-run", "--limit", "2000"]);
        assert!(text.contains("to run"), "{text}");
        let path = root().join("stacks/sweeps").join(format!("{name}.toml"));
        assert!(path.is_file());
    }
}

/// The command in the head of the winner gives the figures of the sweep, and the page says how far to believe them.
#[test]
fn the_winner_runs_as_it_was_measured() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    // The winner has the larger export, a share of a percent and a rate whose interval is no whole number of nanoseconds.
    let args = [
        "sweep",
        "small-ssd",
        "--axis",
        "device.ssd.spare_factor=0.1,0.3",
        "--maximise",
        "waf",
        "--metric",
        "p99",
        "--metric",
        "mean",
        // The name of the version before: it is taken, with a note.
        "--metric",
        "span",
        "--trace",
        "mixed-zipf",
        "--gen",
        "requests=4000",
        "--rate-iops",
        "15000",
        "--warmup",
        "12.5%",
        "--extend",
        "0",
        "--allow-saturated",
        "--allow-unsteady",
        "--json",
        "--best",
        "best.toml",
        "--report",
        "r.html",
    ];
    let ran = nandu_in(folder, &args);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.err.contains("`span` is now called `duration`"), "{}", ran.err);
    let result: Value = serde_json::from_str(&ran.out).expect("JSON");
    let best = fs::read_to_string(folder.join("best.toml")).expect("a winner");
    let line = best.lines().find_map(|l| l.strip_prefix("#   nandu run THIS ")).expect("a command");
    assert!(line.contains("--rate-iops 15000") && line.contains("--warmup 12.5%"), "{line}");
    let words: Vec<String> = line.split(' ').map(|word| word.trim_matches('\'').to_string()).collect();
    let again: Vec<&str> =
        ["run", "best.toml", "--json"].into_iter().chain(words.iter().map(String::as_str)).collect();
    let ran = nandu_in(folder, &again);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let run: Value = serde_json::from_str(&ran.out).expect("JSON");
    let columns: Vec<&str> =
        result["columns"].as_array().expect("columns").iter().filter_map(|c| c["name"].as_str()).collect();
    let row = &result["rows"][result["best"].as_u64().expect("a best point") as usize];
    for (name, path) in [
        ("p99", "/total/lat_ns/percentile/99.000000"),
        ("mean", "/total/lat_ns/mean"),
        ("duration", "/duration_ns"),
        ("waf", "/waf"),
    ] {
        let at = columns.iter().position(|c| *c == name).expect("a column");
        assert_eq!(Some(&row["figures"][at]), run.pointer(path), "{name}: {line}");
    }
    let page = fs::read_to_string(folder.join("r.html")).expect("a page");
    assert!(page.contains("<th>state</th>") || page.contains(">state<"), "a column of the state");
    assert!(page.contains("too short") && page.contains("generated load, not a recorded trace"), "cautions");
}

#[test]
fn few_requests_a_second_have_decimals() {
    let folder = tempfile::tempdir().expect("a folder");
    let args =
        ["sweep", "small-ssd", "--axis", "device.ssd.channels=2", "--metric", "iops", "--trace", "uniform"];
    let load = [
        "--gen",
        "requests=21",
        "--gen",
        "space=1MiB",
        "--rate-iops",
        "2",
        "--extend",
        "0",
        "--report",
        "r.html",
    ];
    let ran = nandu_in(folder.path(), &[&args[..], &load].concat());
    assert_eq!(ran.code, 0, "{}", ran.err);
    let page = fs::read_to_string(folder.path().join("r.html")).expect("a page");
    // 21 requests in 10 s; the figure, which bounds and JSON have, is 2.
    assert!(ran.out.contains("2.10") && page.contains("2.10"), "{}", ran.out);
    let ran = nandu_in(folder.path(), &[&args[..], &load[..8], &["--json"]].concat());
    let result: Value = serde_json::from_str(&ran.out).expect("JSON");
    assert_eq!(result["rows"][0]["figures"][0], 2);
}

#[test]
fn a_job_that_a_runtime_ends_is_told_by_its_time() {
    let folder = tempfile::tempdir().expect("a folder");
    let job = "[j]\nioengine=libaio\nrw=randwrite\nbs=4k\nsize=64m\niodepth=4\nruntime=300ms\ntime_based\n";
    fs::write(folder.path().join("tb.fio"), job).expect("a job");
    let args = [
        "sweep",
        "small-ssd",
        "-t",
        "tb.fio",
        "--axis",
        "device.ssd.spare_factor=0.1,0.2",
        "--minimise",
        "lifetime",
    ];
    let run = |more: &[&str]| nandu_in(folder.path(), &[&args[..], more].concat());
    let flat = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let dry = run(&["--dry-run"]);
    assert!(
        dry.out.contains("2 points to run, for 300 ms each, 600 ms of simulated time in all"),
        "{}",
        dry.out
    );
    assert!(dry.err.contains("about ") && !dry.err.contains(" h on"), "{}", dry.err);
    let ran = run(&["--allow-unsteady", "--report", "r.html"]);
    assert!(flat(&ran.out).contains("for 300 ms each") && !ran.out.contains(" requests each"), "{}", ran.out);
    assert!(
        fs::read_to_string(folder.path().join("r.html")).is_ok_and(|page| page.contains("for 300 ms each"))
    );
    // So many of its requests and no more; what makes them more is not the runtime.
    let some = run(&["--limit", "1000", "--metric", "requests"]);
    assert!(flat(&some.out).contains("at most 1,000 requests and 300 ms each"), "{}", some.out);
    let result = run(&["--limit", "1000", "--metric", "requests", "--extend", "0", "--json"]);
    let result: Value = serde_json::from_str(&result.out).expect("JSON");
    assert!(
        result["rows"].as_array().is_some_and(|rows| rows.iter().all(|row| row["figures"][1] == 1000)),
        "{result}"
    );
    let whole = nandu_in(folder.path(), &["run", "small-ssd", "-t", "tb.fio", "--extend", "0"]);
    assert!(flat(&whole.err).contains("a longer `runtime` shows more"), "{}", whole.err);
}

#[test]
fn a_lifetime_of_few_erases_is_told_to_be_that_of_even_wear() {
    let args = ["sweep", "small-ssd", "--trace", "mixed-zipf", "--limit", "20000", "--precondition", "aged"];
    let args =
        [&args[..], &["--axis", "device.ssd.spare_factor=0.1,0.2", "--allow-unsteady", "--extend", "0"]]
            .concat();
    let flat = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let said =
        flat(&nandu(&[&args[..], &["--maximise", "lifetime", "--metric", "wear_is_chance"]].concat()).err);
    assert!(
        said.contains("erased a block fewer than twice on the mean") && said.contains("`lifetime_region`"),
        "{said}"
    );
    let said = flat(&nandu(&[&args[..], &["--minimise", "p99"]].concat()).err);
    assert!(!said.contains("fewer than twice"), "a lifetime is not asked for: {said}");
}
