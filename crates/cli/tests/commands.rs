//! What commands print: fields of JSON, tables, reports, and the same bytes for the same command.

mod support;

use serde_json::Value;
use support::{good, nandu, nandu_in, recorded, root};

fn json(args: &[&str]) -> Value {
    serde_json::from_str(&good(args)).unwrap_or_else(|e| panic!("nandu {}: {e}", args.join(" ")))
}

const RUN: [&str; 6] = ["run", "small-ssd", "--trace", "mixed-zipf", "--limit", "3000"];

#[test]
fn a_result_has_its_fields_and_its_origin() {
    let result =
        json(&[&RUN[..], &["--json", "--seed", "7", "--precondition", "filled", "--warmup", "10%"]].concat());
    for field in ["duration_ns", "waf", "saturated", "steady_state", "intervals", "histogram", "layers"] {
        assert!(result.get(field).is_some(), "{field}");
    }
    assert_eq!((&result["schema"], &result["total"]["total_ios"]), (&2.into(), &2700.into()));
    for direction in ["read", "write", "trim", "flush"] {
        assert!(result[direction]["total_ios"].is_u64(), "{direction}");
    }
    for field in ["total_ios", "failed_ios", "io_bytes", "iops", "bw_bytes", "latency_breakdown_ns"] {
        assert!(result["total"].get(field).is_some(), "{field}");
    }
    let latency = &result["total"]["lat_ns"];
    for field in ["min", "max", "mean", "stddev", "N"] {
        assert!(latency[field].is_u64(), "{field}");
    }
    for key in ["50.000000", "90.000000", "95.000000", "99.000000", "99.900000", "99.990000"] {
        assert!(latency["percentile"][key].is_u64(), "{key}");
    }
    // No old name is left anywhere in it.
    let text = result.to_string();
    for (old, _) in nandu_sim::renamed::FIELDS.iter().filter(|(old, _)| old.contains('_')) {
        assert!(!text.contains(&format!("\"{old}\":")), "{old}");
    }
    let origin = &result["provenance"];
    assert_eq!((&origin["seed"], &origin["warmup_requests"]), (&7.into(), &300.into()));
    assert_eq!(
        (&origin["precondition"], &origin["workloads"][0]["origin"]),
        (&"filled".into(), &"synthetic".into())
    );
    assert_eq!(origin["stack_hash"].as_str().map(str::len), Some(64));
}

#[test]
fn the_same_command_prints_the_same_bytes() {
    let folder = tempfile::tempdir().expect("a folder");
    for args in [
        &[&RUN[..], &["--report", "r.html"]].concat()[..],
        &[&RUN[..], &["--json"]].concat(),
        &[
            "compare",
            "small-ssd",
            "ssd-mirror",
            "ssd-stripe",
            "--trace",
            "uniform",
            "--limit",
            "2000",
            "--json",
        ],
        &["verify", "ssd", "--seeds", "4", "--crash", "-j", "2"],
    ] {
        let once = |()| {
            let ran = nandu_in(folder.path(), args);
            assert_eq!(ran.code, 0, "{}", ran.err);
            (ran.out, std::fs::read_to_string(folder.path().join("r.html")).unwrap_or_default())
        };
        assert!(once(()) == once(()), "nandu {} is not deterministic", args.join(" "));
    }
}

#[test]
fn shares_of_time_add_up_to_a_hundred() {
    let text = good(&RUN);
    let mut lines = text.lines().skip_while(|l| !l.starts_with("where the time went")).skip(1);
    let mut seen = 0;
    for line in lines.by_ref().take_while(|l| !l.is_empty()) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let tenths = |w: &&str| w.replace('.', "").parse::<u64>().expect("a percentage");
        let shares = words.windows(2).filter(|w| w[1] == "%").map(|w| tenths(&w[0]));
        assert_eq!(shares.sum::<u64>(), 1000, "{line}");
        seen += 1;
    }
    assert!(seen >= 3, "{text}");
}

#[test]
fn a_comparison_gives_all_the_same_requests_and_a_verdict() {
    let args =
        ["compare", "new=small-ssd", "ssd-stripe", "memory", "--trace", "mixed-zipf", "--limit", "3000"];
    let race = json(&[&args[..], &["--json"]].concat());
    assert_eq!((&race["schema"], &race["baseline"]), (&2.into(), &"new".into()));
    let rows = race["stacks"].as_array().expect("rows");
    let hash = |row: &Value| row["result"]["provenance"]["workloads"][0]["trace_hash"].clone();
    assert!(rows.iter().all(|row| hash(row) == hash(&rows[0])));
    assert_eq!(rows[0]["verdict"], "baseline");
    assert!(rows[2]["verdict"].as_str().is_some_and(|v| v.contains("faster mean than new")));
    assert_eq!(rows.iter().filter(|r| r["best"] == true).count(), 1);
    let text = good(&args);
    let head = text.lines().next().expect("a head");
    for column in ["read p99", "write p99", "state"] {
        assert!(head.contains(column), "{text}");
    }
    assert!(text.lines().take(9).all(|line| line.chars().count() <= 100), "{text}");
    let also = json(&[&args[..], &["--also", "uniform", "--json"]].concat());
    let races = also["races"].as_array().expect("races");
    assert_eq!((races.len(), &races[0]["stacks"]), (2, &race["stacks"]));
    let source = &races[1]["stacks"][2]["result"]["provenance"]["workloads"][0]["format"];
    assert_eq!(source, "uniform");
    let shown = nandu(&[&args[..], &["--also", "uniform"]].concat());
    for title in ["on mixed-zipf:", "on uniform:"] {
        assert!(shown.out.lines().any(|line| line == title), "{}", shown.out);
    }
    // What is true of both loads is said once, and one that is not there is found before anything runs.
    let said: Vec<&str> = shown.err.lines().filter(|line| line.starts_with("note: ")).collect();
    let once: std::collections::BTreeSet<&&str> = said.iter().collect();
    assert_eq!(once.len(), said.len(), "{}", shown.err);
    let gone = nandu(&[&args[..], &["--also", "nosuch"]].concat());
    assert!(
        gone.code == 2 && gone.out.is_empty() && gone.err.contains("`nosuch`"),
        "{}{}",
        gone.out,
        gone.err
    );
}

#[test]
fn a_saturated_stack_says_so() {
    let args = ["run", "small-ssd", "--trace", "uniform", "--rate-iops", "200000/s", "--limit", "20000"];
    let ran = nandu(&args);
    assert_eq!(ran.code, 0);
    assert!(
        ran.out.contains("SATURATED") && ran.err.contains("warning: saturated"),
        "{}{}",
        ran.out,
        ran.err
    );
    let quiet = nandu(&[&args[..], &["-q"]].concat());
    assert!(quiet.err.is_empty() && quiet.out == ran.out);
    let closed = nandu(&["run", "small-ssd", "--trace", "uniform", "--iodepth", "4", "--limit", "2000"]);
    assert!(!closed.out.contains("SATURATED") && closed.out.contains("closed loop, 4 outstanding"));
}

#[test]
fn workloads_of_the_stack_file_run_without_a_trace() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("t.spc"), "0,0,4096,w,0.0\n0,8,4096,r,0.5\n0,8,4096,r,9.0\n")
        .expect("a file");
    let text = "[export.d]\ndevice = \"m\"\n[device.m]\nkind = \"memory\"\nsize = \"1 MiB\"\n\
                [workload.file]\ntrace = \"t.spc\"\nruntime = \"1 s\"\n\
                [workload.made]\ngenerator = \"uniform\"\nnumber_ios = 10\nread_share = 1.0\nbs = \"8 KiB\"\nwarmup_ios = 2\n";
    std::fs::write(folder.path().join("w.toml"), text).expect("a file");
    let other = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("w.toml").display().to_string();
    let ran = nandu_in(other.path(), &["run", &path, "--json"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let result: Value = serde_json::from_str(&ran.out).expect("JSON");
    assert_eq!(result["provenance"]["warmup_requests"], 2);
    assert_eq!(result["total"]["total_ios"], 10);
    assert_eq!(result["provenance"]["workloads"].as_array().map(Vec::len), Some(2));
}

#[test]
fn a_workload_says_how_its_trace_is_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).expect("a file");
    write("mine.csv", "0;w;8;8\n5;r;8;8\nno line\n7;r;16;8\n");
    write("mine.toml", "columns = \"time:ms,op,offset:sectors,size:sectors\"\n");
    let stack = "[export.d]\ndevice = \"m\"\n[device.m]\nkind = \"memory\"\nsize = \"1 MiB\"\n";
    let sweep = "stack = \"w.toml\"\n[[axis]]\nparameter = \"device.m.size\"\nvalues = [\"1 MiB\", \"2 MiB\"]\n[load]\ntrace = \"mine.csv\"\n";
    let other = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    for columns in ["time:ms,op,offset:sectors,size:sectors", "mine.toml"] {
        let read = format!("columns = \"{columns}\"\nbad_lines = \"skip\"\n");
        write("w.toml", &format!("{stack}[workload.w]\ntrace = \"mine.csv\"\n{read}"));
        let ran = nandu_in(other.path(), &["run", &path("w.toml"), "--json"]);
        assert_eq!(ran.code, 0, "{}", ran.err);
        let result: Value = serde_json::from_str(&ran.out).expect("JSON");
        assert_eq!(result["total"]["total_ios"], 3);
        write("s.toml", &format!("{sweep}{read}"));
        let ran = nandu_in(other.path(), &["sweep", &path("s.toml"), "--json"]);
        assert_eq!(ran.code, 0, "{}", ran.err);
        // What describes the columns is read, so it is not written over.
        if columns.ends_with(".toml") {
            let ran = nandu_in(folder.path(), &["run", "w.toml", "--request-log", "mine.toml"]);
            assert!(ran.code == 2 && ran.err.contains("this command reads the file"), "{}", ran.err);
        }
    }
}

#[test]
fn a_report_is_one_small_file_without_anything_from_elsewhere() {
    let folder = tempfile::tempdir().expect("a folder");
    let args = [
        "compare",
        "<b>&\"=small-ssd",
        "memory",
        "--trace",
        "mixed-zipf",
        "--limit",
        "5000",
        "--report",
        "r.html",
    ];
    let ran = nandu_in(folder.path(), &args);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let page = std::fs::read_to_string(folder.path().join("r.html")).expect("a page");
    assert!(page.len() < 1_000_000, "{} bytes", page.len());
    for foreign in ["http:", "https:", "<script", "url(", "@import", "<b>", "NaN", "inf"] {
        assert!(!page.contains(foreign), "the page has {foreign}");
    }
    for section in
        ["Summary", "Distribution of latency", "Where the time went", "Over time", "Layers", "Provenance"]
    {
        assert!(page.contains(&format!("<h2>{section}</h2>")), "{section}");
    }
    assert!(page.contains("&lt;b&gt;&amp;&quot;") && page.contains("prefers-color-scheme"));
    let count = |what: &str| page.matches(what).count();
    for element in ["svg", "table", "tr", "td", "text", "section", "details", "div"] {
        let open = count(&format!("<{element}>")) + count(&format!("<{element} "));
        assert_eq!(open, count(&format!("</{element}>")), "{element} is not balanced");
    }
}

#[test]
fn the_demo_is_quick_and_writes_its_page() {
    let folder = tempfile::tempdir().expect("a folder");
    let ran = nandu_in(folder.path(), &["demo"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.out.contains("nandu-demo.html") && ran.out.contains("faster mean than ssd"), "{}", ran.out);
    assert!(ran.out.contains("saturated: latencies measure the queue"), "{}", ran.out);
    assert!(ran.err.contains("warning: ssd, 7 % spare: saturated: requests came faster"), "{}", ran.err);
    assert!(ran.err.contains("`mixed-zipf` is a generated load"), "{}", ran.err);
    narrow(&ran.out, &["demo"]);
    assert_eq!(support::files(folder.path()), ["nandu-demo.html"]);
}

#[test]
fn lists_and_schema_name_every_kind() {
    let devices = json(&["list", "devices", "--json"]);
    let schema = json(&["schema"]);
    let kinds = devices["devices"].as_array().expect("devices");
    let branches = &schema["properties"]["device"]["additionalProperties"]["oneOf"];
    assert_eq!(branches.as_array().map(Vec::len), Some(kinds.len()));
    let all = good(&["list"]);
    for kind in kinds {
        assert!(all.contains(kind["name"].as_str().expect("a name")));
    }
    let options = good(&["list", "ssd"]);
    assert!(options.contains("spare_factor") && options.contains("mapping."), "{options}");
    assert!(json(&["list", "dftl", "--json"])[0]["options"].as_array().is_some_and(|o| !o.is_empty()));
    assert!(nandu(&["list", "sdd"]).err.contains("did you mean `ssd`?"));
    for heading in ["DEVICES", "PROFILES", "GENERATORS", "FORMATS", "STACKS"] {
        assert!(all.contains(heading), "{heading}");
    }
    // Hundreds of lines about the checks would bury what stacks are made of.
    assert!(all.contains("bugs to inject: nandu list bugs") && !all.contains("ssd.trim-record-dropped"));
    assert!(good(&["list", "bugs"]).contains("ssd.trim-record-dropped"));
    assert_eq!(json(&["list", "--json"])["bugs"], json(&["list", "bugs", "--json"])["bugs"]);
    for what in ["profiles", "generators", "formats", "bugs", "stacks"] {
        assert!(json(&["list", what, "--json"])[what].as_array().is_some_and(|l| !l.is_empty()), "{what}");
    }
}

#[test]
fn check_shows_the_tree() {
    let text = good(&["check", "ssd-mirror"]);
    assert!(text.contains("ok,") && text.contains("  mirror") && text.contains("    left"), "{text}");
    let checked = json(&["check", "ssd-mirror", "memory", "--json"]);
    assert_eq!(checked["stacks"][0]["devices"][2]["children"], serde_json::json!(["left", "right"]));
    assert_eq!(checked["stacks"][1]["exports"][0]["capacity_bytes"], 1u64 << 30);
    assert!(good(&["check", "memory", "--print"]).starts_with("#:schema"));
}

#[test]
fn a_trace_survives_its_conversions() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = |args: &[&str]| {
        let ran = nandu_in(folder.path(), args);
        assert_eq!(ran.code, 0, "nandu {}: {}", args.join(" "), ran.err);
        ran.out
    };
    run(&["trace", "generate", "mixed-zipf", "a.parquet", "--limit", "500", "--seed", "3"]);
    run(&["trace", "convert", "a.parquet", "b.spc.zst"]);
    run(&["trace", "convert", "b.spc.zst", "c.txt", "--to", "msr", "-q"]);
    let info: Value =
        serde_json::from_str(&run(&["trace", "info", "a.parquet", "b.spc.zst", "--json"])).expect("JSON");
    assert_eq!(info["traces"][0]["content_hash"], info["traces"][1]["content_hash"]);
    assert_eq!(info["traces"][0]["stats"]["requests"], 500);
    assert_eq!(info["traces"][0]["meta"]["origin"], "synthetic");
    let table = run(&["trace", "info", "a.parquet", "c.txt", "--streams"]);
    assert!(table.contains("footprint") && table.contains("stream"), "{table}");
}

#[test]
fn the_committed_schema_is_current() {
    let committed = std::fs::read_to_string(root().join("stacks/nandu.schema.json")).unwrap_or_default();
    let renew = "cargo run --release -- schema > stacks/nandu.schema.json";
    assert!(good(&["schema"]) == committed, "stacks/nandu.schema.json is old; renew it: {renew}");
}

#[test]
fn a_verified_run_says_how_many_reads_it_has_checked() {
    let words = ["run", "small-ssd", "--trace", "mixed-zipf", "--gen", "requests=3000", "--fit", "wrap"];
    let text = good(&[&words[..], &["--verify"]].concat());
    assert!(text.contains("reads checked, each found what was written"), "{text}");
    let of = |more: &[&str]| -> Value {
        serde_json::from_str(&good(&[&words[..], &["--json"], more].concat())).expect("JSON")
    };
    let (plain, verified) = (of(&[]), of(&["--verify"]));
    assert_eq!(verified["provenance"]["reads_checked"], plain["read"]["total_ios"]);
    assert_eq!(
        (&plain["provenance"]["verified"], &plain["provenance"]["reads_checked"]),
        (&false.into(), &0.into())
    );
    // Checking changes nothing that is measured.
    assert_eq!(verified["total"], plain["total"]);
}

#[test]
fn a_verified_run_on_a_device_that_forgets_fails() {
    let stack = "[export.data]\ndevice = \"f\"\n\n[device.m]\nkind = \"memory\"\nsize = \"64 MiB\"\n\n\
                 [device.f]\nkind = \"fault\"\nbelow = \"m\"\n\
                 cache = { size = \"8 MiB\", destage_interval = \"1 s\" }\n\
                 loss = { kind = \"random\", mean_interval = \"5 ms\", outage = \"1 us\" }\n";
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("f.toml"), stack).expect("a file");
    let words =
        ["run", "f.toml", "--trace", "mixed-zipf", "--gen", "requests=20000", "--fit", "wrap", "--verify"];
    let ran = nandu_in(folder.path(), &words);
    assert_eq!(ran.code, 1, "{}{}", ran.out, ran.err);
    assert!(ran.err.contains("I-1 is broken"), "{}", ran.err);
}

#[test]
fn a_planted_fault_is_found() {
    let found = nandu(&["verify", "ssd", "--seeds", "30", "--crash", "--inject-bug", "ssd.oldest-wins"]);
    assert_eq!(found.code, 0, "{}{}", found.out, found.err);
    assert!(
        found.out.contains("was found") && found.out.contains("again: nandu verify ssd --first-seed"),
        "{}",
        found.out
    );
    let none = nandu(&["verify", "memory", "--seeds", "1", "--inject-bug", "ssd.oldest-wins"]);
    assert_eq!(none.code, 2, "{}", none.err);
}

#[test]
fn a_planted_fault_becomes_a_small_case() {
    let folder = tempfile::tempdir().expect("a folder");
    let bug = ["verify", "ssd", "--seeds", "30", "--crash", "--inject-bug", "ssd.erase-too-early"];
    let shrunk = nandu_in(folder.path(), &[&bug[..], &["--shrink", "case.toml"]].concat());
    assert_eq!(shrunk.code, 0, "{}{}", shrunk.out, shrunk.err);
    assert!(shrunk.out.contains("again: nandu verify --case case.toml"), "{}", shrunk.out);
    let path = folder.path().join("case.toml");
    let text = std::fs::read_to_string(&path).expect("a case");
    let as_json = nandu_in(folder.path(), &[&bug[..], &["--shrink", "case.toml", "--json"]].concat());
    let record: Value = serde_json::from_str(&as_json.out).expect("JSON");
    assert_eq!(record["case"]["file"], "case.toml", "{record}");
    assert_eq!(record["case"]["requests"], text.matches("ask = ").count(), "{record}");
    assert_eq!(std::fs::read_to_string(&path).expect("a case"), text, "it is the same again");
    let fails = nandu_in(folder.path(), &["verify", "--case", "case.toml"]);
    assert_eq!(fails.code, 1, "{}{}", fails.out, fails.err);
    let breaks = text.lines().find_map(|line| line.strip_prefix("breaks = \"")).expect("what it breaks");
    let breaks = breaks.trim_end_matches('"');
    assert!(fails.err.contains(&format!("{breaks} is broken")), "{breaks}: {}", fails.err);
    let as_json = nandu_in(folder.path(), &["verify", "--case", "case.toml", "--json"]);
    assert_eq!(as_json.code, 1, "{}{}", as_json.out, as_json.err);
    let record: Value = serde_json::from_str(&as_json.out).expect("JSON");
    assert_eq!(record["failure"]["invariant"], breaks, "{record}");
    let sound = text.replace("inject_bug = \"ssd.erase-too-early\"\n", "");
    assert_ne!(sound, text);
    std::fs::write(&path, sound).expect("a file");
    let passes = nandu_in(folder.path(), &["verify", "--case", "case.toml"]);
    assert_eq!(passes.code, 0, "{}{}", passes.out, passes.err);
    // A file of somebody's own stays.
    std::fs::write(&path, "mine = 1\n").expect("a file");
    let refused = nandu_in(folder.path(), &[&bug[..], &["--shrink", "case.toml"]].concat());
    assert_eq!(refused.code, 2, "{}{}", refused.out, refused.err);
    assert_eq!(std::fs::read_to_string(&path).expect("a file"), "mine = 1\n");
}

/// A small part of the whole: what needs no long load comes out as in the experiment's `RESULTS.md`.
#[test]
fn claims_of_a_paper_get_their_verdicts() {
    let papers = json(&["reproduce", "tpc-ftl", "--requests", "2000", "--json"]);
    let claims = papers[0]["claims"].as_array().expect("claims");
    let verdict = |id: &str, case: &str| {
        let claim = claims.iter().find(|c| c["id"] == id && c["case"] == case);
        claim.map(|c| c["verdict"].as_str().expect("a word").to_string()).expect("the claim is there")
    };
    for (id, case) in [
        ("C2-1", "websearch1"),
        ("C2-3", "websearch1"),
        ("C2-4", "better"),
        ("C2-9", "directory"),
        ("O2-4", "against a quarter"),
        ("O2-4", "against plain LRU"),
    ] {
        assert_eq!(verdict(id, case), "reproduced", "{id} {case}");
    }
    // No trace is at hand, the load has no locality, the figure is a quotient of sizes, the load is made so, and it is too short to age a drive for.
    for (id, case) in [
        ("C2-12", "websearch2"),
        ("C2-4", "flat"),
        ("C2-10", "TPC-FTL slots"),
        ("C2-11", "financial1"),
        ("C2-1", "websearch1, aged"),
    ] {
        assert_eq!(verdict(id, case), "not-measured", "{id} {case}");
    }
    let counts = &papers[0]["counts"];
    let sum = |kind: usize| {
        let verdicts = ["reproduced", "direction_only", "not_reproduced", "not_measured"];
        verdicts.iter().map(|v| counts[kind][v].as_u64().expect("a count")).sum::<u64>()
    };
    let of = |kind: &str| claims.iter().filter(|c| c["kind"] == kind).count() as u64;
    assert_eq!((sum(0), sum(1)), (of("paper"), of("bet")));
    assert_eq!((of("paper"), of("bet"), &papers[0]["form"]), (48, 14, &"other".into()));
    assert_eq!(papers[0]["figures"].as_array().map(Vec::len), Some(5));
}

/// A file takes the place of a generator in all cases, also in those that set parameters of it.
#[test]
fn a_trace_takes_the_place_of_a_generated_load() {
    let folder = tempfile::tempdir().expect("a folder");
    let trace = folder.path().join("own.spc").display().to_string();
    good(&["trace", "generate", "financial1", &trace, "--gen", "requests=2000"]);
    let words = ["reproduce", "tpc-ftl", "--requests", "2000", "--json", "--only", "C2-2"];
    let papers = json(&[&words[..], &["--trace", &format!("financial1={trace}")]].concat());
    let claims = papers[0]["claims"].as_array().expect("claims");
    let of = |case: &str| claims.iter().find(|c| c["case"] == case).expect("a case")["measured"].as_f64();
    assert!(of("financial1").is_some_and(|ratio| ratio > 0.0));
    assert_eq!(of("financial1, moving"), of("financial1"), "what is recorded has no drift");
}

#[test]
fn recorded_traces_race() {
    let Some(path) = recorded("Financial1-first10000.spc.zst") else { return };
    let path = path.display().to_string();
    let out = good(&["compare", "small-ssd", "ssd-stripe", "--trace", &path, "--fit", "compact"]);
    // Lines are broken by the length of the path.
    let words: Vec<&str> = out.split_whitespace().collect();
    let has = |text: &str| words.join(" ").contains(text);
    assert!(has("(real, ") && has("fit compact"), "{out}");
    let streams = good(&["trace", "info", &path, "--streams"]);
    assert!(streams.contains("9,000") || streams.contains("10,000"), "{streams}");
}

#[test]
fn a_stack_is_served_while_a_command_runs() {
    let ran = nandu(&["serve", "memory", "--run", "test -S \"$unixsocket\" && exit 7"]);
    assert_eq!(ran.code, 7, "{}", ran.err);
    assert!(ran.out.starts_with("nbd+unix://"), "{}", ran.out);
    let drive = nandu(&["serve", "page-map", "--create", "--run", "exit 5"]);
    assert_eq!(drive.code, 5, "{}", drive.err);
    assert!(drive.err.contains("ssd: holds its data in memory"), "{}", drive.err);
}

/// A person reads the text, a program the file: it has what --json prints, and no other file is replaced by it.
#[test]
fn the_json_goes_to_a_file_beside_the_text() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("r.json");
    let wrong = folder.path().join("notes.json");
    std::fs::write(&wrong, "{\n  \"mine\": 1\n}\n").expect("written");
    for args in [
        &["run", "memory", "--trace", "uniform", "--limit", "300"][..],
        &["compare", "memory", "memory", "--trace", "uniform", "--limit", "300"],
        &["compare", "memory", "--trace", "uniform", "--also", "mixed-zipf", "--limit", "300"],
    ] {
        let with = |more: &[&str]| nandu_in(folder.path(), &[args, more].concat());
        let (text, json) = (with(&[]), with(&["--json"]));
        // The second run replaces what the first one wrote.
        for both in [with(&["--export-json", "r.json"]), with(&["--export-json", "r.json"])] {
            assert_eq!((both.code, &both.out), (0, &text.out), "{}", both.err);
            assert!(both.err.contains("note: JSON written to r.json"), "{}", both.err);
            assert_eq!(std::fs::read_to_string(&file).expect("a file"), json.out);
        }
        let both = with(&["--json", "--export-json", "r.json"]);
        assert_eq!((both.code, &both.out), (0, &json.out), "{}", both.err);
        let refused = with(&["--export-json", "notes.json"]);
        assert_eq!(refused.code, 2);
        assert!(refused.err.contains("is not a result as JSON that Nandu wrote"), "{}", refused.err);
    }
    assert_eq!(std::fs::read_to_string(&wrong).expect("a file"), "{\n  \"mine\": 1\n}\n");
}

#[test]
fn a_report_that_cannot_be_written_is_a_failed_run() {
    let ran = nandu(&["run", "memory", "--trace", "uniform", "--limit", "9", "--report", "/proc/x.html"]);
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert!(ran.err.contains("error: /proc/x.html: cannot be written"), "{}", ran.err);
}

#[test]
fn tenants_have_their_words() {
    let folder = tempfile::tempdir().expect("a folder");
    let stack = "[export.x]\ndevice = \"sx\"\n[export.y]\ndevice = \"sy\"\n[tenant.x]\nmax = { wiops = 10 }\n\
        [device.sx]\nkind = \"slice\"\nbelow = \"ssd\"\nsize = \"16 MiB\"\n\
        [device.sy]\nkind = \"slice\"\nbelow = \"ssd\"\noffset = \"16 MiB\"\nsize = \"8 MiB\"\n\
        [workload.x]\nexport = \"x\"\ngenerator = \"uniform\"\nread_share = 0\nbs = 512\nrate_iops = 1000\nnumber_ios = 200\n\
        [workload.y]\nexport = \"y\"\ngenerator = \"uniform\"\nread_share = 0\niodepth = 4\nnumber_ios = 200\nwarmup_ios = 50\n\
        [change.go]\nat = \"20 ms\"\ndevice = \"ssd\"\nremove = 2\n\
        [device.ssd]\nkind = \"ssd\"\nprofile = \"bench-2026\"\nchannels = 2\nblocks_per_plane = 320\npages_per_block = 32\n\
        spare_factor = 0.5\nreclaim_unit = \"superblock\"\nisolation = { kind = \"shared-space\" }\nmax_tenants = 4\n\
        tenants = [{ name = \"x\", size = \"16 MiB\" }, { name = \"y\", size = \"8 MiB\" }]\n";
    std::fs::write(folder.path().join("two.toml"), stack).expect("the file can be written");
    let good = |args: &[&str]| {
        let ran = nandu_in(folder.path(), args);
        assert_eq!(ran.code, 0, "{}", ran.err);
        ran
    };
    let unheeded = "note: [tenant.x]: max has no effect: there is no `queue` under its export";
    assert!(good(&["check", "two.toml"]).out.contains(unheeded));
    let ran = good(&["run", "two.toml", "--request-log", "log.csv", "--report", "r.html"]);
    assert!(ran.err.contains(unheeded), "{}", ran.err);
    assert!(ran.out.contains("no Jain's index") && ran.out.contains("change go at"), "{}", ran.out);
    assert!(ran.out.contains("WAF ") && ran.out.contains("drive WAF 1."), "{}", ran.out);
    assert!(ran.out.contains("warm-up 50 requests"), "{}", ran.out);
    let page = std::fs::read_to_string(folder.path().join("r.html")).expect("a report");
    assert!(
        page.contains("tenants always had requests waiting") || page.contains("tenant always had"),
        "evenness"
    );
    // Offsets are those of the export, whatever lies between it and the drive.
    let log = std::fs::read_to_string(folder.path().join("log.csv")).expect("a log");
    let offsets: Vec<u64> = log
        .lines()
        .map(|line| line.split(',').collect::<Vec<_>>())
        .filter(|cells| cells[1] == "y")
        .map(|cells| cells[3].parse().expect("a number"))
        .collect();
    assert!(offsets.len() == 150 && offsets.iter().all(|&at| at < 8 << 20), "{offsets:?}");
    let table = good(&["compare", "two.toml", "b=two.toml"]).out;
    let rows =
        table.lines().filter(|line| line.split_whitespace().nth(1).is_some_and(|w| w == "x" || w == "y"));
    assert_eq!(rows.count(), 4, "{table}");
}

#[test]
fn a_number_of_requests_beyond_the_generators_own_is_made() {
    let folder = tempfile::tempdir().expect("a folder");
    let stack = "[export.d]\ndevice = \"m\"\n[device.m]\nkind = \"memory\"\nsize = \"1 MiB\"\n\
        [workload.w]\ngenerator = \"uniform\"\nnumber_ios = 1000001\niodepth = 1\n";
    std::fs::write(folder.path().join("many.toml"), stack).expect("the file can be written");
    let ran = nandu_in(folder.path(), &["run", "many.toml"]);
    assert!(ran.out.contains("1,000,001 requests"), "{}{}", ran.out, ran.err);
}

/// Nobody listens on stdout or stderr any more (`nandu ... 2>&1 | head -1`): the exit code is still the one that the work deserves.
#[test]
fn a_reader_that_has_gone_away_changes_no_exit_code() {
    for (args, code) in [
        (&["check", "no-such-stack.toml"][..], 2),
        (&["list", "bugs"], 0),
        (&["verify", "slice", "--seeds", "2"], 0),
    ] {
        for _ in 0..5 {
            let ends = || {
                let (reader, writer) = std::io::pipe().expect("a pipe");
                drop(reader);
                writer
            };
            let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_nandu"));
            let status = command.args(args).current_dir(root()).stdout(ends()).stderr(ends()).status();
            assert_eq!(status.expect("the program starts").code(), Some(code), "{args:?}");
        }
    }
}

/// Runs `nandu` with `args` and `input` on standard input.
fn with_input(args: &[&str], input: &str) -> std::process::Output {
    use std::io::Write;
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_nandu"))
        .args(args)
        .env("NANDU_CACHE", "off")
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("the program starts");
    // A program that refuses its arguments may have ended before all is written: its exit code says so.
    let written = child.stdin.take().expect("a pipe").write_all(input.as_bytes());
    if let Err(error) = written {
        assert_eq!(error.kind(), std::io::ErrorKind::BrokenPipe, "{error}");
    }
    child.wait_with_output().expect("it ends")
}

#[test]
fn a_trace_comes_from_standard_input_and_columns_are_described() {
    let text: String = (0..40u32).map(|n| format!("{},W,{},8\n", n * 100, n * 8)).collect();
    let columns = ["--columns", "time:us,op,offset:sectors,size:sectors"];
    let run = ["run", "memory", "--trace", "-", "--json", "--quiet"];
    let ran = with_input(&[&run[..], &columns].concat(), &text);
    let said = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert!(ran.status.success(), "{said}");
    let result: Value = serde_json::from_slice(&ran.stdout).expect("JSON");
    let workload = &result["provenance"]["workloads"][0];
    assert_eq!(
        (&workload["source"], &workload["origin"]),
        (&"standard input".into(), &"unknown".into()),
        "{result}"
    );
    // Twice in one command: it is spooled.
    let ran = with_input(&[&["trace", "info", "-", "-"][..], &columns].concat(), &text);
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    // The same lines are of no format, and a wrong column is named.
    let ran = with_input(&["trace", "info", "-"], &text);
    let said = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert!(ran.status.code() == Some(2) && said.contains("--columns"), "{said}");
    let ran = with_input(&["trace", "info", "-", "--columns", "time:us,op,offset:pints,size"], &text);
    let said = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert!(ran.status.code() == Some(2) && said.contains("`offset:pints`"), "{said}");
}

/// What `args` print for people is within 100 columns; a word that is longer, as a path, stays whole.
fn narrow(text: &str, args: &[&str]) {
    for line in text.lines() {
        let longest = line.split(' ').map(|word| word.chars().count()).max().unwrap_or(0);
        assert!(line.chars().count() <= 100 || longest > 80, "{}: {line}", args.join(" "));
    }
}

#[test]
fn nothing_is_wider_than_a_hundred_columns() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name).display().to_string();
    let sweep = at("s.toml");
    let text = r#"
stack = "small-ssd"
goal = ["minimise p99"]
metric = ["mean", "read_p99", "write_p99", "p99.9", "max", "waf", "lifetime", "energy", "iops", "erases", "ssd.erases_per_block"]
load = { trace = "mixed-zipf", gen = { requests = 2000 }, extend = 0 }

[[axis]]
name = "spare"
parameter = "device.ssd.spare_factor"
values = [0.10, 0.20]
"#;
    std::fs::write(&sweep, text).expect("a sweep file");
    let load = ["--trace", "mixed-zipf", "--gen", "requests=2000", "--extend", "0"];
    let lists = ["list", "list ssd", "list hybrid", "list cache", "list dftl"]
        .map(|words| words.split(' ').collect());
    let runs = [
        [&["run", "culling-tier", "--slowest", "3"][..], &load].concat(),
        [&["run", "fair-queue", "--export", "reader"][..], &load].concat(),
        [&["compare", "culling-tier", "raid5", "hybrid", "page-map"][..], &load].concat(),
        vec!["check", "raid5", "hybrid", "shared-space", "culling-tier"],
        vec!["sweep", &sweep],
        vec!["sweep", &sweep, "--dry-run"],
        vec![
            "trace",
            "info",
            "mixed-zipf",
            "uniform",
            "financial1",
            "websearch1",
            "--gen",
            "requests=500",
            "--streams",
        ],
        vec![
            "trace",
            "mrc",
            "uniform",
            "--gen",
            "requests=500",
            "--sizes",
            "100",
            "--sample",
            "1/2",
            "--policy",
            "lru,arc,s3-fifo,sieve,lirs,lecar,adaptive-culling",
        ],
        vec!["verify", "ssd", "--seeds", "3"],
    ];
    for args in Vec::from(lists).into_iter().chain(runs) {
        narrow(&good(&args), &args);
    }
}

/// What is said on stderr is within 100 columns, but for a line of one word that is longer: a path, a value in quotes, a command in backticks.
#[test]
fn nothing_that_is_said_is_wider_than_a_hundred_columns() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name).display().to_string();
    let files = [
        (
            "bad.toml",
            "[export.d]\ndevice = \"m\"\n[device.m]\nkind = \"ssd\"\nprofile = \"mlc-2019\"\nsise = 1\n",
        ),
        (
            "sweep.toml",
            "stack = \"small-ssd\"\ngaol = [\"minimise p99\"]\n[[axis]]\nname = \"spare\"\nvalues = [0.1]\n",
        ),
        (
            "a file with a name of several words as people have them on their desks and even longer than that.toml",
            "x",
        ),
    ];
    for (name, text) in files {
        std::fs::write(at(name), text).expect("a file");
    }
    let (bad, sweep, long) = (at("bad.toml"), at("sweep.toml"), at(files[2].0));
    let load = ["--trace", "mixed-zipf", "--gen", "requests=2000", "--extend", "0"];
    let axis = |text: &'static str| [&["sweep", "small-ssd", "--axis", text][..], &load].concat();
    let cases = [
        (0, [&["compare", "small-ssd", "page-map"][..], &load].concat()),
        (0, [&["run", "small-ssd", "--precondition", "empty"][..], &load].concat()),
        (2, vec!["check", &bad]),
        (2, vec!["run", &long, "--trace", "uniform"]),
        (2, vec!["sweep", &sweep]),
        (2, axis("device.ssd.gc.kind=greedy,fifo,cost-benefit,windowed,the-one-that-is-not-there")),
        (2, axis("device.ssd.spare_factor=much")),
        (2, vec!["run", "small-ssd", "--trace", "uniform", "--gen", "requests=1000", "--gen", "space=64GiB"]),
        (2, vec!["trace", "info", "uniform", "--fit", "the-way-that-is-described-nowhere", "--or-so"]),
        (2, vec!["advise", "uniform", "--p99", "1ms", "--limit", "99", "--exhaustive"]),
    ];
    let mut widest = 0;
    for (code, args) in cases {
        let ran = nandu(&args);
        assert_eq!(ran.code, code, "{}: {}", args.join(" "), ran.said);
        assert!(!ran.said.is_empty(), "{}: nothing is said", args.join(" "));
        for line in ran.said.lines() {
            let has_one =
                line.trim_start().strip_prefix("error: ").is_some_and(|word| word.starts_with(&long));
            assert!(line.chars().count() <= 100 || has_one, "{}: {line}", args.join(" "));
        }
        assert!(!args.contains(&&*long) || ran.said.contains(&long), "the path is broken: {}", ran.said);
        widest = widest.max(ran.err.lines().map(|line| line.chars().count()).max().unwrap_or(0));
    }
    assert!(widest > 200, "the longest sentence has {widest} columns: nothing is shown");
}

/// A run of which nothing can be said is called so in words and in JSON, by whatever command measures it.
#[test]
fn what_is_too_short_says_so() {
    let load = ["--gen", "requests=2000", "--extend", "0"];
    let few = [&["--trace", "uniform"][..], &load].concat();
    let axis = ["sweep", "small-ssd", "--axis", "device.ssd.channels=2,4", "--json"];
    let spare =
        ["--stack", "small-ssd", "--axis", "device.ssd.spare_factor=0.2,0.3", "--p99", "10s", "--json"];
    let cases: [(Vec<&str>, &[&str], &str); 4] = [
        ([&["run", "small-ssd", "--json"][..], &few].concat(), &["/state"], "note: too short"),
        (
            [&["compare", "small-ssd", "page-map", "--json"][..], &few].concat(),
            &["/stacks/0/state", "/stacks/1/state", "/stacks/1/result/state"],
            "note: too short",
        ),
        ([&axis[..], &few].concat(), &["/rows/0/state", "/rows/1/state"], "note: 2 points too short"),
        (
            [&["advise", "uniform"][..], &spare, &load].concat(),
            &["/best/state", "/rows/0/state"],
            "that ran all requests, the best among them, too short",
        ),
    ];
    for (args, states, says) in cases {
        let ran = nandu(&args);
        assert_eq!(ran.code, 0, "{}: {}", args.join(" "), ran.err);
        let said = format!("{says} to show a steady state: each fifth of a run has to have 1,000 requests");
        assert!(ran.err.contains(&said), "{}: {}", args.join(" "), ran.err);
        let json: Value = serde_json::from_str(&ran.out).expect("JSON");
        for state in states {
            assert_eq!(json.pointer(state), Some(&"too short".into()), "{}: {state}", args.join(" "));
        }
    }
    // A run that is long enough says nothing of the kind.
    let ran = nandu(&[
        "run",
        "memory",
        "--trace",
        "uniform",
        "--gen",
        "requests=6000",
        "--gen",
        "space=1MiB",
        "--iodepth",
        "1",
    ]);
    assert!(ran.code == 0 && !ran.err.contains("too short"), "{}{}", ran.out, ran.err);
}

/// A fio job that begins again until its time is over has no number of requests.
#[test]
fn a_load_that_runs_for_a_time_is_measured_by_its_time() {
    let folder = tempfile::tempdir().expect("a folder");
    let job = "[a]\nioengine=libaio\niodepth=4\nrw=randwrite\nbs=4k\nsize=1m\nruntime=200ms\ntime_based\n";
    std::fs::write(folder.path().join("job.fio"), job).expect("the file can be written");
    let axis = ["--axis", "device.ssd.spare_factor=0.2,0.3"];
    let ran = nandu_in(folder.path(), &["run", "small-ssd", "--trace", "job.fio", "--json"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let result: Value = serde_json::from_str(&ran.out).expect("JSON");
    let (requests, passes) = (&result["total"]["total_ios"], &result["provenance"]["workloads"][0]["passes"]);
    assert_eq!(requests.as_u64().map(|n| n.div_ceil(256)), passes.as_u64(), "{requests} {passes}");
    for command in
        [&["run", "small-ssd"][..], &["compare", "small-ssd"], &[&["sweep", "small-ssd"], &axis[..]].concat()]
    {
        let args = [command, &["--trace", "job.fio", "--warmup", "10%"]].concat();
        let ran = nandu_in(folder.path(), &args);
        assert_eq!(ran.code, 2, "{}: {}", args.join(" "), ran.err);
        assert!(ran.err.contains("so nobody knows how many requests it will send"), "{}", ran.err);
    }
    let args = [&["advise", "job.fio", "--stack", "small-ssd", "--p99", "10s", "--json"], &axis[..]].concat();
    let ran = nandu_in(folder.path(), &args);
    assert_eq!(ran.code, 0, "{}", ran.err);
    // As a workload of a stack file it begins again too.
    let stack = "[export.x]\ndevice = \"m\"\n[device.m]\nkind = \"memory\"\nsize = \"16 MiB\"\n[workload.w]\ntrace = \"job.fio\"\n";
    std::fs::write(folder.path().join("own.toml"), stack).expect("the file can be written");
    let ran = nandu_in(folder.path(), &["run", "own.toml", "--json"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let result: Value = serde_json::from_str(&ran.out).expect("JSON");
    assert!(result["provenance"]["workloads"][0]["passes"].as_u64() > Some(1), "{}", result["provenance"]);
}

#[test]
fn what_reading_a_trace_changed_is_in_its_result() {
    let folder = tempfile::tempdir().expect("a folder");
    let lines = "0,0,4096,w,0.5\n0,64,4096,w,0.1\n0,8,1000,r,0.9\n";
    std::fs::write(folder.path().join("a.spc"), lines).expect("the file can be written");
    for command in [&["run", "memory"][..], &["compare", "memory"]] {
        let args = [command, &["--trace", "a.spc", "--json"]].concat();
        let ran = nandu_in(folder.path(), &args);
        assert_eq!(ran.code, 0, "{}", ran.err);
        let result: Value = serde_json::from_str(&ran.out).expect("JSON");
        let result = result.pointer("/stacks/0/result").unwrap_or(&result);
        let notes = &result["provenance"]["workloads"][0]["notes"];
        assert_eq!(notes[0], "1 request stood after a later one in the file; the trace is sorted by arrival");
        assert_eq!(notes[1], "1 request widened to whole sectors of 512 B");
    }
    let made = json(&RUN.iter().copied().chain(["--json"]).collect::<Vec<_>>());
    assert_eq!(made["provenance"]["workloads"][0].get("notes"), None);
}

/// The slowdown of a tenant holds what it had against what it has alone: without the same warm-up it is another load.
#[test]
fn a_tenant_alone_warms_up_as_it_does_among_others() {
    let folder = tempfile::tempdir().expect("a folder");
    let side = |name: &str, warm: &str| {
        format!(
            "[export.{name}]\ndevice = \"c{name}\"\n[tenant.{name}]\n\
             [device.c{name}]\nkind = \"cache\"\nbelow = \"d{name}\"\nsize = \"8 MiB\"\n\
             [device.d{name}]\nkind = \"hdd\"\nprofile = \"desktop-2010\"\n\
             [workload.{name}]\nexport = \"{name}\"\ngenerator = \"uniform\"\nread_share = 1\nbs = 4096\n\
             size = \"1 MiB\"\niodepth = 1\nnumber_ios = 4000\n{warm}\n"
        )
    };
    for (warm, options) in [("warmup_ios = 3000", &[][..]), ("", &["--warmup", "6000"])] {
        let text = side("x", warm) + &side("y", warm);
        std::fs::write(folder.path().join("two.toml"), text).expect("the file can be written");
        let ran = nandu_in(folder.path(), &[&["run", "two.toml", "--slowdown", "--json"], options].concat());
        assert_eq!(ran.code, 0, "{}", ran.err);
        let result: Value = serde_json::from_str(&ran.out).expect("JSON");
        for tenant in result["tenants"].as_array().expect("tenants") {
            let [shared, alone] =
                [&tenant["total"]["lat_ns"]["mean"], &tenant["alone_mean_ns"]].map(|v| v.as_u64());
            let (shared, alone) = (shared.expect("a mean"), alone.expect("a mean"));
            assert!(alone <= 2 * shared && shared <= 2 * alone, "{warm}: {shared} ns and alone {alone} ns");
        }
    }
}

#[test]
fn a_lifetime_carries_the_state_of_its_run() {
    let run = |more: &[&str]| good(&[&["run", "small-ssd", "--trace", "mixed-zipf"], more].concat());
    let short = run(&["--gen", "requests=4000", "--extend", "0", "--precondition", "aged"]);
    assert!(short.contains("lasts") && short.contains("the lifetime, as the WAF, may be another"), "{short}");
    let spare = run(&["--gen", "requests=30000", "--extend", "0"]);
    assert!(spare.contains("erases are still to come, and the lifetime gets shorter"), "{spare}");
}
