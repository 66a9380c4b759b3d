//! `nandu advise`: the search against measuring everything, resumption, several traces, and refusals. `nandu diff` on its results.

mod support;

use serde_json::Value;
use std::fs;
use support::{nandu, nandu_in};

/// 64 variants of a small drive.
const AXES: [&str; 8] = [
    "--axis",
    "device.ssd.spare_factor=0.08,0.12,0.2,0.3",
    "--axis",
    "device.ssd.channels=1,2,4,8",
    "--axis",
    "device.ssd.chips_per_channel=1,2",
    "--axis",
    "device.ssd.planes_per_die=1,2",
];

const SMALL: &str = "[export.data]\ndevice = \"ssd\"\n[device.ssd]\nkind = \"ssd\"\nprofile = \"mlc-2019\"\n\
                     channels = 2\nchips_per_channel = 2\nplanes_per_die = 2\ncapacity = \"128 MiB\"\nspare_factor = 0.15\n";

fn json(folder: &std::path::Path, args: &[&str]) -> (Value, i32) {
    let ran = nandu_in(folder, &[args, &["--json"]].concat());
    let value = serde_json::from_str(&ran.out).unwrap_or_else(|e| panic!("{args:?}: {e}: {}", ran.err));
    (value, ran.code)
}

#[test]
fn the_search_finds_what_measuring_everything_finds() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("small.toml"), SMALL).expect("a stack");
    fs::write(folder.path().join("prices.toml"), "mlc_gib = 100\nssd = 1\n").expect("prices");
    for (trace, p99) in [("uniform", "40ms"), ("mixed-zipf", "12ms")] {
        let base = [
            "advise",
            trace,
            "--limit",
            "1600",
            "--gen",
            "space=64MiB",
            "--iodepth",
            "4",
            "--stack",
            "small.toml",
            "--cost",
            "prices.toml",
            "--extend",
            "0",
            "--p99",
            p99,
        ];
        let base = [&base[..], &AXES].concat();
        let (all, code) = json(folder.path(), &[&base[..], &["--exhaustive"]].concat());
        let (some, other) = json(folder.path(), &[&base[..], &["--budget", "12"]].concat());
        assert_eq!(
            (code, &all["variants"]),
            (other, &64.into()),
            "{trace}: {} {}",
            all["best"],
            some["best"]
        );
        let of = |value: &Value, key: &str| value["best"][key].as_f64().expect("a number");
        assert!(some["runs"].as_f64() <= Some(12.0), "{}", some["runs"]);
        let (want, got) = (of(&all, "cost"), of(&some, "cost"));
        let (worst, missed) = (of(&all, "missed_by"), of(&some, "missed_by"));
        assert!(
            got <= want * 1.02 && missed <= worst * 1.02,
            "{trace}: {} and {}",
            all["best"],
            some["best"]
        );
    }
}

#[test]
fn advice_is_for_all_traces_and_goes_on_where_it_was() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("small.toml"), SMALL).expect("a stack");
    let args = [
        "advise",
        "uniform",
        "mixed-zipf",
        "--limit",
        "1200",
        "--gen",
        "space=64MiB",
        "--iodepth",
        "2",
        "--stack",
        "small.toml",
        "--axis",
        "device.ssd.spare_factor=0.2,0.3,0.4",
        "--p99",
        "500ms",
        "--out",
        "advice",
        "--best",
        "best.toml",
        "--report",
        "r.html",
    ];
    let ran = nandu_in(folder.path(), &args);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    for words in
        ["wanted: p99<=500 ms", "best: spare_factor 0.2", "what binds: ", "next parameter: ", "how sure: "]
    {
        assert!(ran.out.contains(words), "{words}: {}", ran.out);
    }
    let again = nandu_in(folder.path(), &args);
    assert!(again.out == ran.out && again.err.contains("runs known already"), "{}", again.err);
    let page = fs::read_to_string(folder.path().join("r.html")).expect("a page");
    assert!(page.contains("what binds") && !page.contains("<script"));
    let best = fs::read_to_string(folder.path().join("best.toml")).expect("best.toml");
    let line = best
        .lines()
        .find_map(|l| l.strip_prefix("#   nandu run THIS "))
        .expect("a command")
        .replace('\'', "");
    let words: Vec<&str> = ["run", "best.toml"].into_iter().chain(line.split(' ')).collect();
    assert_eq!(nandu_in(folder.path(), &words).code, 0, "{words:?}");
    // What one trace asks of it is less than what both ask.
    let (both, _) = json(folder.path(), &[&args[..15], &["--out", "advice"]].concat());
    let (one, _) = json(folder.path(), &[&args[..2], &args[3..15], &["--out", "advice"]].concat());
    assert!(one["best"]["p99_ns"].as_u64() <= both["best"]["p99_ns"].as_u64());
    assert_eq!(both["traces"].as_array().map(Vec::len), Some(2));
}

#[test]
fn the_built_in_choice_is_searched_and_the_nearest_is_named() {
    let args =
        ["advise", "mixed-zipf", "--limit", "1500", "--gen", "space=32MiB", "--extend", "0", "--budget", "6"];
    let good = nandu(&[&args[..], &["--p99", "10s"]].concat());
    assert!(good.code == 0 && good.out.contains("best: drive "), "{}{}", good.out, good.err);
    let none = nandu(&[&args[..], &["--p99", "1ns"]].concat());
    assert!(none.code == 3 && none.out.contains("nothing meets the bounds; nearest: drive "), "{}", none.out);
}

/// A lifetime of which no run has seen anything meets every bound, and that is said wherever the advice is.
#[test]
fn a_lifetime_that_was_never_seen_is_no_knowledge() {
    let folder = tempfile::tempdir().expect("a folder");
    let load =
        ["advise", "uniform", "--limit", "300", "--gen", "space=32MiB", "--gen", "write=0", "--extend", "0"];
    let args =
        [&load[..], &["--budget", "4", "--p99", "10s", "--life", "50y", "--report", "r.html"]].concat();
    let ran = nandu_in(folder.path(), &args);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let caution = "erased nothing in some flash: such a lifetime meets any bound";
    let said = ran.err.split_whitespace().collect::<Vec<_>>().join(" ");
    let shown = ran.out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        said.contains("the best among them, erased nothing in some flash") && said.contains(caution),
        "{said}"
    );
    assert!(
        shown.contains("lifetime>=50.000 years: nothing was erased") && shown.contains("how sure: unsure"),
        "{shown}"
    );
    assert!(fs::read_to_string(folder.path().join("r.html")).is_ok_and(|page| page.contains(caution)));
    let (advice, _) = json(folder.path(), &[&args[..], &["--force"]].concat());
    let check = &advice["checks"][1];
    assert_eq!(
        (&advice["best"]["unworn"], &check["unworn"], &check["min"]),
        (&true.into(), &3.into(), &Value::Null)
    );
    // Without a bound on it a lifetime is not asked for.
    let free = nandu_in(folder.path(), &[&load[..], &["--budget", "4", "--p99", "10s"]].concat());
    assert!(!free.err.contains("erased nothing"), "{}", free.err);
}

/// What is chosen as spare / raw is told as vendors count it too: in the front, of the best, in its file and in JSON, as `nandu check` tells it.
#[test]
fn over_provisioning_stands_beside_spare_flash() {
    let folder = tempfile::tempdir().expect("a folder");
    let load = ["advise", "mixed-zipf", "--limit", "1500", "--gen", "space=32MiB", "--extend", "0"];
    let base = [&load[..], &["--budget", "6", "--p99", "10s"]].concat();
    let (advice, code) = json(folder.path(), &[&base[..], &["--best", "best.toml"]].concat());
    assert_eq!(code, 0, "{advice}");
    let (checked, _) = json(folder.path(), &["check", "best.toml"]);
    let named = |of: &Value| of.as_array().cloned().unwrap_or_default();
    let mut drives = 0;
    for drive in named(&advice["best"]["drives"]) {
        let devices = named(&checked["stacks"][0]["devices"]);
        let same = devices.iter().find(|device| device["name"] == drive["name"]).expect("it is in the file");
        for key in ["spare_factor", "over_provisioning"] {
            assert!(drive[key].is_f64() && drive[key] == same[key], "{key}: {drive} {same}");
        }
        drives += 1;
    }
    assert!(drives > 0, "{advice}");
    let share = advice["best"]["drives"][0]["over_provisioning"].as_f64().expect("a number");
    let tenths = (share * 1000.0).round() as u64;
    let words = format!("(over-provisioning {}.{} %)", tenths / 10, tenths % 10);
    let ran = nandu_in(folder.path(), &base);
    let text = ran.out.split_whitespace().collect::<Vec<_>>().join(" ");
    let best = text.split("best: ").nth(1).expect("a best");
    assert!(best.split(": p99").next().is_some_and(|best| best.contains(&words)), "{words}: {}", ran.out);
    // The front has it in its column of settings, broken between words.
    assert!(
        ran.out.split("wanted: ").next().is_some_and(|front| front.contains("(over-provisioning")),
        "{}",
        ran.out
    );
    let file = fs::read_to_string(folder.path().join("best.toml")).expect("best.toml");
    let head: String = file.lines().map_while(|line| line.strip_prefix("# ")).collect::<Vec<_>>().join(" ");
    assert!(head.contains(&words), "{words}: {head}");
    // Of a stack of one's own, where its spare flash varies; where it does not, JSON alone has it.
    fs::write(folder.path().join("small.toml"), SMALL).expect("a stack");
    let own = ["--stack", "small.toml", "--iodepth", "2", "--p99", "10s", "--axis"];
    let spare = [&load[..], &own, &["device.ssd.spare_factor=0.2"]].concat();
    let varies = nandu_in(folder.path(), &spare);
    assert!(
        varies.out.contains("best: spare_factor 0.2 (over-provisioning 25."),
        "{}{}",
        varies.out,
        varies.err
    );
    let planes = [&load[..], &own, &["device.ssd.planes_per_die=1"]].concat();
    let (still, _) = json(folder.path(), &planes);
    assert!(still["best"]["drives"][0]["over_provisioning"].is_f64(), "{still}");
    let still = nandu_in(folder.path(), &planes);
    assert!(still.code == 0 && !still.out.contains("over-provisioning"), "{}{}", still.out, still.err);
}

#[test]
fn tenants_that_run_at_the_same_time_are_one_decision() {
    let folder = tempfile::tempdir().expect("a folder");
    let tenants = ["--tenant", "reader=websearch1", "--tenant", "writer=financial1", "--gen", "requests=700"];
    let more = ["--limit", "600", "--extend", "0", "--budget", "5", "--capacity", "256MiB", "--fit", "wrap"];
    let base = [&["advise", "--seed", "7"], &tenants[..], &more].concat();
    let args = [&base[..], &["--p99", "10s", "--best", "best.toml", "--out", "kept"]].concat();
    let ran = nandu_in(folder.path(), &args);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    for words in ["tenant.reader.p99<=10 s and tenant.writer.p99<=10 s", "its tenants: reader mean", "queue "]
    {
        assert!(ran.out.contains(words), "{words}: {}", ran.out);
    }
    let again = nandu_in(folder.path(), &args);
    assert!(again.out == ran.out && again.err.contains("runs known already"), "{}", again.err);
    // The file of the winner runs as its first lines say: the same requests for the same tenants, and the same figures.
    let written = fs::read_to_string(folder.path().join("best.toml")).expect("best.toml");
    let line = written.lines().find_map(|l| l.strip_prefix("#   nandu run THIS ")).expect("a command");
    let words: Vec<&str> = ["run", "best.toml", "--json"].into_iter().chain(line.split(' ')).collect();
    let best = nandu_in(folder.path(), &words);
    let run: Value = serde_json::from_str(&best.out).unwrap_or_else(|e| panic!("{e}: {}", best.err));
    let (advice, _) = json(folder.path(), &[&base[..], &["--p99", "10s", "--out", "kept"]].concat());
    assert_eq!(advice["tenants"].as_array().map(Vec::len), Some(2), "{advice}");
    let of = |who: usize, figure: &str| run["tenants"][who]["total"].pointer(figure).and_then(Value::as_u64);
    let p99 = |who: usize| of(who, "/lat_ns/percentile/99.000000");
    assert_eq!(p99(0).max(p99(1)), advice["best"]["p99_ns"].as_u64(), "{written}");
    let requests = |who: usize| of(who, "/total_ios");
    // Both begin together and end with the first to end.
    assert!(requests(0) == Some(600) || requests(1) == Some(600), "{:?} {:?}", requests(0), requests(1));
    // A bound on one tenant holds for that one alone.
    let only = nandu_in(
        folder.path(),
        &[&base[..], &["--bound", "tenant.reader.p99<=1 ns", "--out", "kept"]].concat(),
    );
    assert!(only.code == 3 && !only.out.contains("tenant.writer.p99<="), "{}", only.out);
}

/// Traces that have to be described, beside a generator, on drives of two sizes: the winner's file says what describes them.
#[test]
fn a_winner_says_how_its_traces_are_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let lines: String = (0..900u64)
        .map(|i| format!("{};{};{};4\n", i * 20_000, "rw".as_bytes()[i as usize % 2] as char, i * 37 % 500))
        .collect();
    fs::write(folder.path().join("mine.csv"), lines).expect("a trace");
    let columns = "columns = \"time:us,op,offset:4k,size:sectors\"\n";
    fs::write(folder.path().join("mine.toml"), columns).expect("a description");
    let base =
        ["--p99", "10s", "--budget", "4", "--capacity", "320MiB,256MiB", "--best", "best.toml", "--force"];
    let two = ["--tenant", "file=mine.csv", "--tenant", "made=uniform", "--limit", "400", "--extend", "0"];
    for (traces, described) in [(&["mine.csv"][..], "--columns=mine.toml"), (&two, "--columns=mine.toml")] {
        let args = [&["advise"], traces, &[described], &base].concat();
        let (advice, code) = json(folder.path(), &args);
        assert_eq!(code, 0, "{args:?}");
        let sizes: Vec<&str> = advice["rows"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|row| row["settings"].as_str()?.split("capacity ").nth(1))
            .collect();
        assert!(!sizes.is_empty() && sizes.iter().all(|s| ["256 MiB", "320 MiB"].contains(s)), "{advice}");
        let best = fs::read_to_string(folder.path().join("best.toml")).expect("best.toml");
        let line = best.lines().find_map(|l| l.strip_prefix("#   nandu run THIS ")).expect("a command");
        let words: Vec<&str> = ["run", "best.toml", "--json"].into_iter().chain(line.split(' ')).collect();
        let ran = nandu_in(folder.path(), &words);
        let run: Value =
            serde_json::from_str(&ran.out).unwrap_or_else(|e| panic!("{e}: {}\n{best}", ran.err));
        let of_one = |of: &Value| of["total"]["lat_ns"]["percentile"]["99.000000"].as_u64();
        let p99 = match run["tenants"].as_array().filter(|tenants| tenants.len() > 1) {
            Some(tenants) => tenants.iter().filter_map(of_one).max(),
            None => of_one(&run),
        };
        assert_eq!(p99, advice["best"]["p99_ns"].as_u64(), "{best}");
    }
}

#[test]
fn what_is_wrong_is_refused() {
    let cases: [(&[&str], &str); 10] = [
        (&["advise", "--tenant", "a=uniform", "--p99", "1ms"], "the only tenant"),
        (&["advise", "--tenant", "a", "--p99", "1ms"], "write NAME=TRACE"),
        (&["advise", "--tenant", "a b=uniform", "--p99", "1ms"], "write NAME=TRACE"),
        (&["advise", "uniform", "--tenant", "a=uniform", "--p99", "1ms"], "cannot be used with"),
        (
            &[
                "advise",
                "--tenant",
                "a=uniform",
                "--tenant",
                "a=uniform",
                "--tenant",
                "b=uniform",
                "--p99",
                "1ms",
            ],
            "`a` has 2 traces, `b` has 1 trace",
        ),
        (&["advise", "uniform"], "nothing is asked for"),
        (&["advise", "uniform", "--p99", "soon"], "--p99"),
        (&["advise", "uniform", "--p99", "1ms", "--cost", "nowhere.toml"], "nowhere.toml"),
        (&["advise", "uniform", "--p99", "1ms", "--axis", "a=1"], "--stack"),
        (&["advise", "unifrom", "--p99", "1ms"], "did you mean the generator `uniform`"),
    ];
    for (args, why) in cases {
        let ran = nandu(args);
        assert!(ran.code == 2 && ran.err.contains(why), "{args:?}: {} {}", ran.code, ran.err);
    }
    let many = nandu(&["advise", "uniform", "--limit", "100", "--p99", "1ms", "--exhaustive"]);
    assert!(many.code == 2 && many.err.contains("at most 512"), "{}", many.err);
}

#[test]
fn two_results_are_held_against_each_other() {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, spare) in [("a.json", "0.1"), ("b.json", "0.3")] {
        let set = format!("device.ssd.spare_factor={spare}");
        let words = [
            "run",
            "small-ssd",
            "--trace",
            "uniform",
            "--limit",
            "2000",
            "--iodepth",
            "4",
            "--json",
            "--set",
            &set,
        ];
        fs::write(folder.path().join(name), support::good(&words)).expect("a file");
    }
    let ran = nandu_in(folder.path(), &["diff", "a.json", "b.json", "--report", "d.html"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.out.contains("stack hash") && ran.out.contains("figure"), "{}", ran.out);
    assert!(fs::read_to_string(folder.path().join("d.html")).is_ok_and(|page| page.contains("<table>")));
    let (all, _) = json(folder.path(), &["diff", "a.json", "b.json"]);
    assert!(all["figures"].as_array().is_some_and(|f| !f.is_empty()), "{all}");
    let same = nandu_in(folder.path(), &["diff", "a.json", "a.json"]);
    assert!(same.out.starts_with("no figure differs"), "{}", same.out);
    fs::write(folder.path().join("c.json"), "not JSON").expect("a file");
    let bad = nandu_in(folder.path(), &["diff", "a.json", "c.json"]);
    assert!(bad.code == 2 && bad.err.contains("c.json: not JSON"), "{}", bad.err);
    assert!(same.out.contains(" figures the same") && !same.out.contains("leaf"), "{}", same.out);
    let sweep = [
        "sweep",
        "small-ssd",
        "--axis",
        "device.ssd.spare_factor=0.1",
        "--minimise",
        "p99",
        "--allow-unsteady",
        "--json",
    ];
    let sweep = support::good(&[&sweep[..], &["--trace", "uniform", "--limit", "2000"]].concat());
    for (name, text, why) in [
        ("d.json", "{\"a\": 1}", "d.json: JSON, but no result of `nandu run`"),
        ("d.json", "[1]", "d.json: JSON, but no result"),
        ("e.json", &sweep, "a.json is a result of `nandu run`, e.json one of `nandu sweep`"),
    ] {
        fs::write(folder.path().join(name), text).expect("a file");
        let bad = nandu_in(folder.path(), &["diff", "a.json", name]);
        assert!(bad.code == 2 && bad.err.contains(why), "{}", bad.err);
    }
    let gone = nandu_in(folder.path(), &["diff", "a.json", "a.json", "--report", "b.json"]);
    assert!(gone.code == 2, "a result is not a page: {}", gone.err);
}
