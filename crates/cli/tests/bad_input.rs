//! What is wrong is refused with exit code 2, its place, and what would be right.

mod support;

use std::path::Path;
use support::{files, nandu_in, recorded};

/// A stack file with one fault: its text, and what the message must say.
const STACKS: [(&str, &[&str]); 12] = [
    // An unknown key, with its line and the nearest.
    (
        "[export.d]\ndevice = \"m\"\n[device.m]\nkind = \"memory\"\nsise = \"1 MiB\"\n",
        &["bad.toml:5:1", "`sise`", "did you mean `size`?"],
    ),
    // A bad unit.
    (
        "[export.d]\ndevice = \"m\"\n[device.m]\nkind = \"memory\"\nsize = \"1 MeB\"\n",
        &["bad.toml:5:8", "unknown unit `MeB`", "MiB"],
    ),
    // A time without a unit.
    (
        "[export.d]\ndevice = \"m\"\n[device.m]\nkind = \"memory\"\nsize = \"1 MiB\"\nlatency = \"80\"\n",
        &["bad.toml:6:11", "ns, us, ms"],
    ),
    // A device that is not there.
    (
        "[export.d]\ndevice = \"mm\"\n[device.m]\nkind = \"memory\"\nsize = \"1 MiB\"\n",
        &["bad.toml:2:10", "unknown device `mm`", "did you mean `m`?"],
    ),
    // Devices that stand on each other.
    (
        "[export.d]\ndevice = \"a\"\n[device.a]\nkind = \"stripe\"\nlegs = [\"b\", \"c\"]\n[device.b]\nkind = \"slice\"\n\
         below = \"a\"\nsize = \"1 MiB\"\n[device.c]\nkind = \"memory\"\nsize = \"1 MiB\"\n",
        &["device cycle", "`a` -> `b` -> `a`"],
    ),
    // An unknown kind.
    (
        "[export.d]\ndevice = \"m\"\n[device.m]\nkind = \"memmory\"\nsize = \"1 MiB\"\n",
        &["bad.toml:4:8", "did you mean `memory`?"],
    ),
    // No way in.
    ("[device.m]\nkind = \"memory\"\nsize = \"1 MiB\"\n", &["at least one `[export.NAME]`"]),
    // Not TOML.
    ("[export.d\ndevice = \"m\"\n", &["bad.toml:1:"]),
    // A key that is missing.
    ("[export.d]\ndevice = \"m\"\n[device.m]\nkind = \"memory\"\n", &["needs `size`"]),
    // An unknown profile.
    (
        "[export.d]\ndevice = \"s\"\n[device.s]\nkind = \"ssd\"\nprofile = \"mlc-2091\"\ncapacity = \"1 GiB\"\n",
        &["bad.toml:5:11", "did you mean `mlc-2019`?"],
    ),
    // Impossible geometry.
    (
        "[export.d]\ndevice = \"s\"\n[device.s]\nkind = \"ssd\"\nprofile = \"mlc-2019\"\ncapacity = \"1 GiB\"\nplanes_per_die = 3\n",
        &["bad.toml:7:18", "a power of two from 1 to 8"],
    ),
    // A device that nothing uses.
    (
        "[export.d]\ndevice = \"m\"\n[device.m]\nkind = \"memory\"\nsize = \"1 MiB\"\n[device.n]\nkind = \"memory\"\nsize = \"1 MiB\"\n",
        &["unused device `n`"],
    ),
];

#[test]
fn a_wrong_stack_file_is_refused_with_its_place() {
    let folder = tempfile::tempdir().expect("a folder");
    for (text, expected) in STACKS {
        std::fs::write(folder.path().join("bad.toml"), text).expect("the file can be written");
        for command in
            [&["check", "bad.toml"][..], &["run", "bad.toml", "--trace", "uniform", "--limit", "9"]]
        {
            let ran = nandu_in(folder.path(), command);
            assert_eq!(ran.code, 2, "{text}\n{}", ran.err);
            assert!(ran.err.starts_with("error: ") && ran.out.is_empty(), "{}{}", ran.out, ran.err);
            for part in expected {
                assert!(ran.err.contains(part), "{text}\n{}\nlacks {part}", ran.err);
            }
        }
    }
}

/// Refuses `args` in a folder with good and bad files, and leaves no file behind.
fn refused(args: &[&str], expected: &[&str]) {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).expect("a file");
    write("m.toml", "[export.d]\ndevice = \"m\"\n[device.m]\nkind = \"memory\"\nsize = \"1 MiB\"\n");
    write(
        "w.toml",
        "[export.d]\ndevice = \"m\"\n[device.m]\nkind = \"memory\"\nsize = \"1 MiB\"\n[workload.w]\ngenerator = \"uniform\"\nnumber_ios = 10\n",
    );
    write(
        "two.toml",
        "[export.d]\ndevice = \"m\"\n[export.e]\ndevice = \"n\"\n[device.m]\nkind = \"memory\"\nsize = \"1 MiB\"\n\
         [device.n]\nkind = \"memory\"\nsize = \"1 MiB\"\n",
    );
    write("good.spc", "0,0,4096,w,0.0\n0,8,4096,r,0.001\n");
    write("far.spc", "0,0,4096,w,0.0\n0,99999,4096,r,0.001\n");
    write("asus.spc", "0,0,4096,w,0.0\n1,8,4096,r,0.001\n");
    write("bad.spc", "0,0,4096,w,0.0\n0,8,4096,r,0.001\n0,eight,4096,r,0.002\n");
    write("words.txt", "these are words\nand no trace\n");
    write("order.csv", "seq,op,fua,offset,length\n0,W,0,0,4096\n1,R,0,0,4096\n");
    let before = files(folder.path());
    let ran = nandu_in(folder.path(), args);
    assert_eq!(ran.code, 2, "nandu {}: {}", args.join(" "), ran.err);
    assert!(ran.out.is_empty(), "{}", ran.out);
    for part in expected {
        assert!(ran.err.contains(part), "nandu {}: {}\nlacks {part}", args.join(" "), ran.err);
    }
    assert_eq!(files(folder.path()), before, "something was written");
}

#[test]
fn a_missing_name_is_answered_with_the_nearest() {
    refused(
        &["run", "m.toml", "--trace", "unifrom"],
        &[
            "`unifrom` is neither a trace file nor a generator",
            "did you mean the generator `uniform`?",
            "nandu list generators",
        ],
    );
    refused(
        &["run", "m.toml", "--trace", "god.spc"],
        &["neither a trace file nor a generator", "did you mean `good.spc`?"],
    );
    refused(
        &["run", "n.toml", "--trace", "uniform"],
        &["`n.toml` is neither a stack file nor a built-in stack", "did you mean `m.toml`?"],
    );
    refused(&["check", "page-mpa"], &["did you mean `page-map`?", "nandu list stacks"]);
    refused(
        &["trace", "generate", "zipf", "x.parquet"],
        &["unknown generator `zipf`", "nandu list generators"],
    );
    refused(
        &["run", "m.toml", "--trace", "uniform", "--gen", "reqests=9"],
        &["no parameter `reqests`", "did you mean `requests`?"],
    );
    refused(&["reproduce", "tpc-flt"], &["did you mean `tpc-ftl`?"]);
    refused(&["verify", "--inject-bug", "ssd.stale-mpa"], &["did you mean `ssd.stale-map`?"]);
    refused(
        &["run", "m.toml", "--trace", "uniform", "--set", "device.n.size=1MiB"],
        &["--set device.n.size=1MiB", "did you mean `m`?"],
    );
    refused(&["run", "m.toml", "--trace", "good.spc", "--trace-format", "spd"], &["'spd'", "spc"]);
}

#[test]
fn a_wrong_trace_is_refused_with_its_line_and_a_remedy() {
    refused(&["run", "m.toml", "--trace", "bad.spc"], &["bad.spc:3:3", "LBA", "eight", "--bad-lines skip"]);
    refused(&["trace", "info", "words.txt"], &["words.txt", "no trace format fits", "--trace-format"]);
    refused(
        &["run", "m.toml", "--trace", "far.spc"],
        &["far.spc", "ends beyond the capacity", "--fit compact"],
    );
    refused(&["run", "m.toml", "--trace", "asus.spc"], &["2 streams", "--fit concat"]);
    refused(
        &["compare", "m.toml", "two.toml", "--export", "d", "--trace", "far.spc"],
        &["the smallest export is that of `m`"],
    );
    refused(
        &["run", "m.toml", "--trace", "order.csv", "--time-scale", "2"],
        &["no arrival times", "--iodepth"],
    );
}

#[test]
fn wrong_options_are_refused() {
    refused(&["run", "m.toml"], &["no --trace", "[workload.NAME]", "mixed-zipf"]);
    refused(&["run", "w.toml", "--iodepth", "4"], &["--iodepth goes with --trace"]);
    refused(&["run", "two.toml", "--trace", "good.spc"], &["2 exports (d, e)", "--export NAME"]);
    refused(&["run", "two.toml", "--trace", "good.spc", "--export", "f"], &["--export f", "d, e"]);
    refused(&["run", "m.toml", "--trace", "good.spc", "--warmup", "2"], &["leaves nothing to measure"]);
    refused(&["run", "m.toml", "--trace", "good.spc", "--warmup", "100%"], &["nothing would be left"]);
    refused(&["run", "m.toml", "--trace", "good.spc", "--rate-iops", "fast"], &["20000/s"]);
    refused(
        &["run", "m.toml", "--trace", "good.spc", "--rate-iops", "5/s", "--iodepth", "5"],
        &["cannot be used with"],
    );
    refused(
        &["run", "m.toml", "--trace", "good.spc", "--report", "no/such/x.html"],
        &["there is no directory no/such"],
    );
    refused(
        &["run", "m.toml", "--trace", "good.spc", "--gen", "space=1MiB"],
        &["is a file and not a generator"],
    );
    refused(&["trace", "convert", "good.spc", "out.xyz"], &["`.xyz` names no trace format", "--to FORMAT"]);
    refused(&["trace", "convert", "good.spc", "out"], &["out: a name without an extension names no", "--to"]);
    refused(&["trace", "convert", "good.spc", "out.disksim-valid", "--fit", "wrap"], &["concat", "compact"]);
    refused(&["verify", "--print-requests"], &["--first-seed N --seeds 1"]);
    refused(&["verify", "--inject-bug", "all", "--shrink", "case.toml"], &["name one bug"]);
    refused(&["verify", "--case", "m.toml"], &["m.toml", "not a case"]);
    refused(&["verify", "ssd", "--case", "case.toml"], &["cannot be used with"]);
    refused(&["frobnicate"], &["frobnicate"]);
    refused(&["serve", "m.toml"], &["-U SOCK"]);
    refused(&["serve", "m.toml", "--poll-max", "2 ms"], &["--poll-max", "2 ms is longer than 1 ms", "poll"]);
}

#[test]
fn a_run_that_fails_leaves_the_old_report() {
    let folder = tempfile::tempdir().expect("a folder");
    let report = folder.path().join("r.html");
    let old = "<!DOCTYPE html>\n<meta name=\"generator\" content=\"nandu\">old";
    std::fs::write(&report, old).expect("a file");
    let ran = nandu_in(folder.path(), &["run", "memory", "--trace", "nothing", "--report", "r.html"]);
    assert_eq!(ran.code, 2);
    assert_eq!(std::fs::read_to_string(&report).expect("it is still there"), old);
    let ran = nandu_in(
        folder.path(),
        &["run", "memory", "--trace", "uniform", "--limit", "99", "--report", "r.html"],
    );
    assert_eq!(ran.code, 0, "{}", ran.err);
    let new = std::fs::read_to_string(&report).expect("it is there");
    assert!(new.starts_with("<!DOCTYPE html>") && !new.ends_with("old"));
    assert_eq!(files(folder.path()), ["r.html"]);
}

#[test]
fn no_command_replaces_an_input_or_what_is_not_its_own_kind() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    let stack = "[export.d]\ndevice = \"m\"\n[device.m]\nkind = \"memory\"\nsize = \"1 MiB\"\n";
    let sweep = "stack = \"m.toml\"\ngoal = [\"minimise p99\"]\n[load]\ntrace = \"t.spc\"\n";
    let texts = [
        ("m.toml", stack),
        ("s.toml", sweep),
        ("t.spc", "0,0,4096,w,0.0\n0,8,4096,r,0.5\n0,8,4096,r,1.0\n"),
        ("mine.txt", "my only copy\n"),
    ];
    let untouched = || texts.iter().all(|(name, text)| std::fs::read_to_string(at(name)).unwrap() == *text);
    texts.iter().for_each(|(name, text)| std::fs::write(at(name), text).expect("a file"));
    let trace = ["--trace", "t.spc"];
    let run = [&["run", "m.toml"][..], &trace].concat();
    for (args, why) in [
        ([&run[..], &["--request-log", "t.spc"]].concat(), "t.spc: this command reads the file"),
        ([&run[..], &["--report", "m.toml"]].concat(), "m.toml: this command reads the file"),
        (
            [&run[..], &["--timeline", "mine.txt"]].concat(),
            "mine.txt: the file is there and is not a timeline",
        ),
        (
            [&run[..], &["--request-log", "x", "--report", "x"]].concat(),
            "x: two outputs would go to this file",
        ),
        (
            [&["compare", "m.toml"][..], &trace, &["--report", "mine.txt"]].concat(),
            "not a page that Nandu wrote",
        ),
        (vec!["sweep", "s.toml", "--best", "m.toml"], "m.toml: this command reads the file"),
        (vec!["sweep", "s.toml", "--parquet", "mine.txt"], "not a table of points"),
        (vec!["sweep", "s.toml", "--best", "mine.txt"], "not the winner of a search"),
        (vec!["trace", "convert", "t.spc", "mine.txt", "--to", "spc"], "no trace says that Nandu wrote it"),
        (vec!["trace", "convert", "t.spc", "./t.spc"], "this command reads the file"),
        (vec!["trace", "generate", "uniform", "t.spc", "--limit", "9"], "no trace says that Nandu wrote it"),
        (vec!["demo", "--report", "mine.txt"], "not a page that Nandu wrote"),
    ] {
        let ran = nandu_in(folder.path(), &args);
        assert!(ran.code == 2 && ran.err.contains(why), "nandu {}: {} {}", args.join(" "), ran.code, ran.err);
        assert!(untouched(), "nandu {}", args.join(" "));
    }
    let forced = nandu_in(folder.path(), &[&run[..], &["--request-log", "mine.txt", "--force"]].concat());
    assert_eq!(forced.code, 0, "{}", forced.err);
    // What Nandu wrote as the same kind is replaced without asking.
    let again = nandu_in(folder.path(), &[&run[..], &["--request-log", "mine.txt"]].concat());
    assert_eq!((again.code, files(folder.path()).len()), (0, 4), "{}", again.err);
}

#[test]
fn a_window_past_the_end_and_names_that_stand_twice_are_errors() {
    let folder = tempfile::tempdir().expect("a folder");
    let load = ["--trace", "uniform", "--limit", "50"];
    let late = ["run", "memory", "--timeline", "l.json", "--window", "10s..11s"];
    let ran = nandu_in(folder.path(), &[&late[..], &load].concat());
    assert!(ran.code == 2 && ran.err.contains("the last request ends at"), "{}", ran.err);
    assert!(files(folder.path()).is_empty(), "nothing is written");
    let ran = nandu_in(folder.path(), &[&["compare", "a=memory", "a=small-ssd"], &load[..]].concat());
    assert!(ran.code == 2 && ran.err.contains("two stacks have this name"), "{}", ran.err);
}

#[test]
fn numbers_that_are_too_large_name_the_largest() {
    let run =
        |more: &[&str]| nandu_in(Path::new("."), &[&["run", "memory", "--trace", "uniform"], more].concat());
    for (args, why) in [
        (&["--limit", "10", "--time-scale", "100000000000000"][..], "the largest factor is --time-scale"),
        (&["--gen", "requests=1e16", "--gen", "interarrival=1ns"], "generator uniform: "),
        (&["--gen", "requests=1.5"], "generator uniform: requests: `1.5` is not a whole number"),
        (&["--limit", "1e3", "--repeat", "4294967295", "--time-scale", "100"], "at most --repeat 32307251"),
        (&["--limit", "10", "--time-scale", "1e-300"], "`1e-300` is too small"),
        (&["--limit", "10", "--repeat", "1e12"], "`1e12` is more than 4294967295"),
        (&["--limit", "10", "--repeat", "1.5"], "`1.5` is not a whole number"),
    ] {
        let ran = run(args);
        assert!(ran.code == 2 && ran.err.contains(why), "{args:?}: {} {}", ran.code, ran.err);
    }
    // What is said to be right is.
    let scale = ["--time-scale", "1e9"];
    let far = run(&[&["--limit", "1e3", "--repeat", "4294967295"][..], &scale].concat());
    let words: Vec<&str> = far.err.split_whitespace().collect();
    let most = words
        .windows(2)
        .find(|w| w[0] == "--repeat")
        .expect("a number")
        .get(1)
        .expect("it")
        .trim_matches('.');
    let near =
        run(&[&["--limit", "1e3", "--warmup", "1e12", "--repeat", &most.replace(',', "_")][..], &scale]
            .concat());
    assert!(near.err.contains("nothing to measure"), "{}{}", far.err, near.err);
    assert_eq!(run(&["--gen", "requests=1e3", "--limit", "5e2"]).code, 0);
}

#[test]
fn an_option_without_a_value_is_left_out() {
    let check = |sets: &[&str]| {
        let sets: Vec<&str> = sets.iter().flat_map(|set| ["--set", set]).collect();
        nandu_in(Path::new("."), &[&["check", "small-ssd"], &sets[..]].concat())
    };
    let both = check(&["device.ssd.blocks_per_plane=100"]);
    assert!(both.code == 2 && both.err.contains("not both"), "{}", both.err);
    let one = check(&["device.ssd.blocks_per_plane=100", "device.ssd.capacity="]);
    assert_eq!(one.code, 0, "{}", one.err);
    let none = check(&["device.ssd.block="]);
    assert!(none.code == 2 && none.err.contains("`block` is not set in"), "{}", none.err);
}

#[test]
fn orders_to_a_terminal_are_shown_and_not_given() {
    let folder = tempfile::tempdir().expect("a folder");
    let stack = "description = \"\\u001b[31mred\"\n[export.d]\ndevice = \"m\"\n[device.m]\nkind = \"memory\"\nsize = \"1 MiB\"\n";
    std::fs::write(folder.path().join("m.toml"), stack).expect("a file");
    let ran = nandu_in(folder.path(), &["check", "m.toml"]);
    assert!(
        ran.code == 0 && ran.out.contains("\\u{1b}[31mred") && !ran.out.contains('\u{1b}'),
        "{}",
        ran.out
    );
    let ran = nandu_in(folder.path(), &["check", "."]);
    assert!(ran.code == 2 && ran.err.contains(".: is a directory"), "{}", ran.err);
}

#[test]
fn a_recorded_trace_of_several_streams_asks_for_a_fit() {
    let Some(path) = recorded("WebSearch1-first60s.spc.zst") else { return };
    let path = path.display().to_string();
    let ran = nandu_in(Path::new("."), &["run", "page-map", "--trace", &path]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("6 streams") && ran.err.contains("--fit compact"), "{}", ran.err);
}

/// A stack with one workload, which has these lines.
fn with_workload(lines: &str) -> String {
    format!(
        "[export.d]\ndevice = \"queue\"\n[device.queue]\nkind = \"queue\"\nbelow = \"m\"\n\
         [device.m]\nkind = \"memory\"\nsize = \"1 MiB\"\n[workload.w]\n{lines}"
    )
}

#[test]
fn a_workload_that_cannot_be_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let uniform = "generator = \"uniform\"\n";
    for (lines, expected) in [
        ("read_share = 2", "a share is at most 1"),
        ("time_scale = 0", "more than 0"),
        ("iodepth = 4\nrate_iops = 100", "either `iodepth`"),
        ("iodepth = 4\ntime_scale = 2", "arrival times do not count"),
        ("runtime = \"0 s\"", "more than 0 s"),
        ("size = \"2 MiB\"", "size = 2 MiB is more than the export has: 1 MiB"),
        ("bs = \"2 MiB\"", "bs = 2 MiB is more than the export has: 1 MiB"),
        ("bs = 513", "size: 513 B is out of bounds: a multiple of 512 B"),
        ("number_ios = 10\nwarmup_ios = 10", "leaves nothing to measure"),
    ] {
        std::fs::write(folder.path().join("bad.toml"), with_workload(&format!("{uniform}{lines}\n")))
            .unwrap();
        for command in ["check", "run"] {
            // A warm-up is a matter of the run.
            if command == "check" && lines.contains("warmup_ios") {
                continue;
            }
            let ran = nandu_in(folder.path(), &[command, "bad.toml"]);
            assert_eq!(ran.code, 2, "{command}: {lines}\n{}{}", ran.out, ran.err);
            assert!(ran.err.contains(expected), "{command}: {lines}\n{}", ran.err);
        }
    }
    for (source, expected) in [
        ("trace = \"none.csv\"\n", "none.csv"),
        ("generator = \"unifrom\"\n", "unifrom"),
        ("trace = \"none.csv\"\nbs = 512\n", "a trace has its own"),
        ("generator = \"uniform\"\nbad_lines = \"skip\"\n", "a generator has none"),
        ("generator = \"uniform\"\ncolumns = \"op,offset,size\"\n", "a generator has none"),
        (
            "trace = \"t.csv\"\ncolumns = \"op,offset,size\"\ntrace_format = \"spc\"\n",
            "leave out `trace_format`",
        ),
        ("trace = \"t.csv\"\ncolumns = \"op,size\"\n", "columns: `op,size`: `offset` is missing"),
        ("trace = \"t.csv\"\ncolumns = \"none.toml\"\n", "columns: none.toml: "),
        ("trace = \"bad.toml\"\ntrace_format = \"cps\"\n", "unknown trace format `cps`"),
    ] {
        std::fs::write(folder.path().join("bad.toml"), with_workload(source)).unwrap();
        for command in ["check", "run"] {
            let ran = nandu_in(folder.path(), &[command, "bad.toml"]);
            assert!(
                ran.code == 2 && ran.err.contains(expected),
                "{command}: {source}\n{}{}",
                ran.out,
                ran.err
            );
        }
    }
}

#[test]
fn a_share_of_a_run_that_ends_by_time_is_refused_as_a_warm_up() {
    refused(
        &["run", "fair-queue", "--warmup", "90%"],
        &["--warmup as a share", "[workload.reader]", "number_ios"],
    );
    refused(&["run", "fair-queue", "--warmup", "90000000"], &["nothing to measure"]);
}

#[test]
fn what_would_be_ignored_or_misread_is_refused() {
    refused(&["reproduce", "shared-space", "--quick", "--trace", "foo=x"], &["no load is called `foo`"]);
    refused(&["reproduce", "tpc-ftl", "--trace", "financial1=nowhere"], &["no such file `nowhere`"]);
    refused(&["reproduce", "tpc-ftl", "--only", "C9-9"], &["no claim is called `C9-9`", "C2-1, C2-2"]);
    refused(
        &["reproduce", "tpc-ftl", "--only", "C2-6 large"],
        &["C2-6 has no case `large`", "`small cache`"],
    );
    refused(&["run", "memory", "--trace", "uniform", "--request-log", "-"], &["/dev/stdout"]);
    refused(&["trace", "mrc", "uniform", "--jobs", "0"], &["--jobs"]);
    refused(&["trace", "mrc", "uniform", "--policy", "foo"], &["unknown replacement `foo`. Known: lru"]);
    refused(&["advise", "uniform", "--p99", "2"], &["`2` has no unit", "25 us"]);
    let sweep = [
        "sweep",
        "small-ssd",
        "--trace",
        "uniform",
        "--axis",
        "device.ssd.spare_factor=0.1",
        "--minimise",
        "p99",
    ];
    refused(&[&sweep[..], &["--from", "nosuch"]].concat(), &["nosuch: no such folder", "--out"]);
    for size in ["size=0", "size=513"] {
        refused(
            &["run", "memory", "--trace", "uniform", "--gen", size],
            &["generator uniform: size: ", " B is out of bounds: a multiple of 512 B"],
        );
    }
    for (cost, expected) in [("\"0 s\"", "above 0 ns"), ("\"1000 h\"", "at most 1 s")] {
        let set = format!("device.queue.cost={{ kind = \"linear\", read_4k = {cost} }}");
        refused(&["check", "fair-queue", "--set", &set], &["cost", expected]);
    }
}

#[test]
fn an_error_is_one_sentence_in_the_words_of_who_asks() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).expect("a file");
    file("prices.toml", "ssd = 1\n[[price]\n");
    file("lines.txt", "1,r,0,4096\n1,q,0,512\n");
    let run = |args: &[&str]| {
        let ran = nandu_in(folder.path(), args);
        assert_eq!((ran.code, ran.err.matches("error:").count()), (2, 1), "{args:?}: {}", ran.err);
        ran.err.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let cost = run(&["advise", "uniform", "--limit", "100", "--p99", "1s", "--cost", "prices.toml"]);
    assert!(cost.contains("prices.toml:2:"), "{cost}");
    let line = run(&["trace", "info", "lines.txt", "--columns", "time:us,op,offset,size"]);
    assert!(line.contains("A line has one field for each column that was described"), "{line}");
    let fit = run(&["run", "small-ssd", "--trace", "uniform", "--gen", "space=64GiB"]);
    assert!(fit.contains("the capacity of 1 GiB") && fit.matches("compact").count() == 1, "{fit}");
    let old = nandu_in(
        folder.path(),
        &["check", "small-ssd", "--set", "device.ssd.over_provisioning=0.2", "--json"],
    );
    assert!(old.out.contains("is now called `spare_factor`"), "{}", old.out);
}
