//! What is wrong with a stack file is said with its place, its reason and the nearest valid name.

use nandu_stack::{BuildOptions, StackFile, builtin};

/// Everything that is wrong with `text`, as a user sees it.
fn wrong(text: &str) -> String {
    wrong_with(text, &[])
}

fn wrong_with(text: &str, sets: &[(&str, &str)]) -> String {
    let load = || {
        let file = StackFile::parse(text, "s.toml")?;
        let file = sets.iter().try_fold(file, |file, (path, value)| file.with_set(path, value))?;
        file.load(&builtin())?.build(&BuildOptions::default()).map(|_| ())
    };
    load().err().map_or("nothing".into(), |error| error.to_string())
}

/// A good stack of a slice on memory, to spoil.
const GOOD: &str = r#"[export.data]
device = "part"

[device.part]
kind = "slice"
below = "memory"
size = "1 MiB"

[device.memory]
kind = "memory"
size = "2 MiB"
"#;

#[test]
fn a_good_file_is_taken() {
    assert_eq!(wrong(GOOD), "nothing");
}

#[test]
fn text_that_is_no_toml() {
    assert_eq!(wrong("[export.data\n"), "s.toml:1:13: unclosed table, expected `]`");
    assert!(wrong(&format!("{GOOD}\n[device.memory]\n")).starts_with("s.toml:13:"));
}

#[test]
fn unknown_keys_and_words_name_the_nearest() {
    assert_eq!(
        wrong(&GOOD.replace("below", "bellow")),
        "s.toml:4:1: device `part` (kind `slice`) needs `below`\n\
         s.toml:6:1: unknown key `bellow` in device `part` (kind `slice`); did you mean `below`?"
    );
    assert_eq!(
        wrong(&GOOD.replace("\"slice\"", "\"slise\"")),
        "s.toml:5:8: unknown machine kind `slise`; did you mean `slice`?"
    );
    assert_eq!(
        wrong(&GOOD.replace("[export.data]", "[exprot.data]")),
        "s.toml:1:2: unknown key `exprot` in the stack file; did you mean `export`?"
    );
}

#[test]
fn values_have_units_types_and_bounds() {
    assert_eq!(
        wrong(&GOOD.replace("2 MiB", "2 parsecs")),
        "s.toml:11:8: `size` in device `memory` (kind `memory`): unknown unit `parsecs` in `2 parsecs`; \
         known units: B, KiB, MiB, GiB, TiB, kB, MB, GB, TB, k, m, g, t"
    );
    assert_eq!(
        wrong(&GOOD.replace("below = \"memory\"", "below = 7")),
        "s.toml:6:9: `below` in device `part` (kind `slice`): expected text, not a whole number"
    );
    assert_eq!(
        wrong(&format!("{GOOD}\n[tenant.data]\nweight = 20000\nmax = {{ rbps = \"1 MiB\", wios = 3 }}\n")),
        "s.toml:14:10: `weight` in tenant `data`: 20000 is more than 10000\n\
         s.toml:15:25: unknown key `wios` in `max` of tenant `data`; did you mean `wiops`?"
    );
}

#[test]
fn a_workload_has_every_key_that_was_promised() {
    const FULL: &str = "export = \"data\"\ntrace = \"a.csv\"\nfit = \"compact\"\nnumber_ios = 5\nruntime = \"10 s\"\nwarmup_ios = 7\n\
        description = \"x\"";
    let with = |workload: &str| wrong(&format!("{GOOD}\n[workload.w]\n{workload}\n"));
    // One pace for each: the three do not go together.
    for pace in ["time_scale = 0.5", "iodepth = 32", "rate_iops = 1000"] {
        let full = format!("{FULL}\n{pace}");
        assert_eq!(with(&full), "nothing", "{pace}");
    }
    assert!(with(&format!("{FULL}\niodepth = 32\nrate_iops = 1000")).contains("either `iodepth`"));
    assert_eq!(
        with("generator = \"uniform\"\nread_share = \"70 %\"\nbs = \"4k\"\nsize = \"1m\"\nzipf = 1.2"),
        "nothing"
    );
    assert_eq!(
        with("generator = \"uniform\"\nseed = 3\nparameters = { space = \"1m\", requests = 5 }"),
        "nothing"
    );
    let twice = with("generator = \"uniform\"\nsize = \"1m\"\nparameters = { space = \"1m\" }");
    assert!(twice.contains("`parameters` in workload `w`: `write`, `size`, `space`"), "{twice}");
    assert!(with("trace = \"a\"\nseed = 3").contains("`seed` in workload `w`: says how a generator"));
    assert_eq!(
        with("trace = \"a\"\nfit = \"warp\""),
        "s.toml:15:7: unknown value of `fit` in workload `w`: `warp`; did you mean `wrap`?"
    );
    assert_eq!(
        with("trace = \"a\"\niodepth = 99999999999"),
        "s.toml:15:11: `iodepth` in workload `w`: 99999999999 is more than 65536"
    );
}

#[test]
fn names_must_be_known() {
    assert_eq!(
        wrong(&GOOD.replace("below = \"memory\"", "below = \"memry\"")),
        "s.toml:6:9: unknown device `memry`; did you mean `memory`?"
    );
    assert_eq!(
        wrong(&GOOD.replace("device = \"part\"", "device = \"prat\"\ntenant = \"x\"")),
        "s.toml:2:10: unknown device `prat`; did you mean `part`?\ns.toml:3:10: unknown tenant `x`"
    );
    assert_eq!(
        wrong(&format!("{GOOD}\n[workload.w]\nexport = \"dat\"\n")),
        "s.toml:13:11: workload `w` needs `trace` or `generator`\ns.toml:14:10: unknown export `dat`; did you mean `data`?"
    );
    assert_eq!(
        wrong(&GOOD.replace("[device.memory]", "[device.\"a b\"]")),
        "s.toml:9:9: `a b` is not a valid name: use up to 64 letters, digits, `-` and `_`"
    );
}

#[test]
fn the_graph_must_be_whole() {
    assert_eq!(
        wrong(&GOOD.replace("below = \"memory\"", "below = \"part\"")),
        "s.toml:4:9: device cycle: `part` -> `part`"
    );
    assert_eq!(
        wrong(&format!("{GOOD}\n[device.spare]\nkind = \"memory\"\nsize = \"1 MiB\"\n")),
        "s.toml:13:9: unused device `spare`: no export reaches it"
    );
    assert_eq!(
        wrong("[device.m]\nkind = \"memory\"\nsize = 8192"),
        "s.toml:1:1: a stack needs at least one `[export.NAME]`"
    );
    assert_eq!(
        wrong(&format!("{GOOD}\n[export.raw]\ndevice = \"memory\"\n")),
        "s.toml:4:9: device `memory` is used by export `raw` and device `part`: \
         only slices that do not overlap may share a device"
    );
}

#[test]
fn slices_share_a_device_when_they_do_not_overlap() {
    let second = |offset: &str| {
        format!(
            "{GOOD}\n[export.b]\ndevice = \"b\"\n[device.b]\nkind = \"slice\"\nbelow = \"memory\"\noffset = \"{offset}\"\n"
        )
    };
    assert_eq!(wrong(&second("1 MiB")), "nothing");
    assert_eq!(
        wrong(&second("512 KiB")),
        "s.toml:15:1: device `memory` is used by device `part` and device `b`: \
         only slices that do not overlap may share a device"
    );
}

#[test]
fn impossible_geometry_names_its_key() {
    assert_eq!(
        wrong(&GOOD.replace("size = \"1 MiB\"", "size = \"3 MiB\"")),
        "s.toml:7:8: device `part`: `size`: 3 MiB from 0 B do not fit into `memory` (2 MiB)"
    );
}

#[test]
fn overrides_are_named_instead_of_a_line() {
    assert_eq!(
        wrong_with(GOOD, &[("device.part.size", "3 parsecs")]),
        "--set device.part.size=3 parsecs: `size` in device `part` (kind `slice`): unknown unit `parsecs` in \
         `3 parsecs`; known units: B, KiB, MiB, GiB, TiB, kB, MB, GB, TB, k, m, g, t"
    );
    assert_eq!(
        wrong_with(GOOD, &[("device.prat.size", "1 MiB")]),
        "--set device.prat.size=1 MiB: unknown device `prat`; did you mean `part`?"
    );
    assert_eq!(
        wrong_with(GOOD, &[("device.part.siz", "1 MiB")]),
        "--set device.part.siz=1 MiB: unknown key `siz` in device `part` (kind `slice`); did you mean `size`?"
    );
    assert_eq!(
        wrong_with(GOOD, &[("device.part.size.big", "1 MiB")]),
        "--set device.part.size.big=1 MiB: `device.part.size` in the stack: is not a table, so nothing in it can be set"
    );
    assert_eq!(
        wrong_with(GOOD, &[("device.part.size", "4096"), ("device.part.offset", "512 KiB")]),
        "nothing"
    );
}

#[test]
fn a_planted_fault_must_belong_to_the_stack() {
    let stack = StackFile::parse(GOOD, "s.toml").and_then(|f| f.load(&builtin())).unwrap();
    let build = |fault: &str| {
        stack
            .build(&BuildOptions { planted: [fault.to_string()].into(), ..BuildOptions::default() })
            .map(|_| ())
    };
    assert!(build("slice.off-by-one").is_ok());
    assert_eq!(
        build("slice.off-by-two").unwrap_err().to_string(),
        "--inject-bug: unknown bug `slice.off-by-two`; did you mean `slice.off-by-one`?"
    );
}

/// `GOOD` with a fault machine whose options are `options`, on line 17.
fn faulty(options: &str) -> String {
    let good = GOOD.replace("device = \"part\"", "device = \"bad\"");
    format!("{good}\n[device.bad]\nkind = \"fault\"\nbelow = \"part\"\n\n{options}\n")
}

#[test]
fn nested_options_are_checked_where_they_stand() {
    let place = "device `bad` (kind `fault`)";
    for (options, says) in [
        (
            "freeze = { kind = \"random\", mean_interval = \"1 s\", durtion = \"2 s\" }",
            format!(
                "s.toml:17:10: `freeze` of {place} needs `duration`\n\
                 s.toml:17:52: unknown key `durtion` in `freeze` of {place}; did you mean `duration`?"
            ),
        ),
        (
            "freeze = { kind = \"randm\", mean_interval = \"1 s\" }",
            format!(
                "s.toml:17:19: unknown value of `freeze.kind` in {place}: `randm`; did you mean `random`?"
            ),
        ),
        ("freeze = { mean_interval = \"1 s\" }", format!("s.toml:17:10: `freeze` of {place} needs `kind`")),
        (
            "loss = { kind = \"at\", at = \"5 lightyears\" }",
            format!(
                "s.toml:17:28: `loss.at` in {place}: unknown unit `lightyears` in `5 lightyears`; \
                 known units: ns, us, ms, s, min, h"
            ),
        ),
        (
            "cache = { destage_interval = 5 }",
            format!(
                "s.toml:17:30: `cache.destage_interval` in {place}: invalid type: integer `5`, \
                 expected a time with its unit, such as \"25 us\""
            ),
        ),
        (
            "loss = { kind = \"at\", at = \"1 s\", outage = 5 }",
            format!(
                "s.toml:17:44: `loss.outage` in {place}: invalid type: integer `5`, \
                 expected a time with its unit, such as \"25 us\""
            ),
        ),
        ("cache = \"1 MiB\"", format!("s.toml:17:9: `cache` in {place}: expected a table, not text")),
        (
            "freeze = \"random\"",
            format!(
                "s.toml:17:10: `freeze` in {place}: expected a table, not text: for example \
                 {{ kind = \"random\" }}"
            ),
        ),
        (
            "read_error_rate = \"3/2\"",
            "s.toml:17:19: device `bad`: `read_error_rate`: 1.5 is out of bounds: at most 1".into(),
        ),
        (
            "cache = { size = \"1 KiB\" }",
            "s.toml:17:18: device `bad`: `cache.size`: 1 KiB is out of bounds: 4 KiB to 64 MiB".into(),
        ),
        ("[device.bad.cache]\nsize = \"1 MiB\"", "nothing".into()),
    ] {
        assert_eq!(wrong(&faulty(options)), says, "{options}");
    }
    let set = [
        ("device.bad.freeze.kind", "at"),
        ("device.bad.freeze.at", "1 s"),
        ("device.bad.freeze.duration", "1 s"),
    ];
    assert_eq!(wrong_with(&faulty(""), &set), "nothing");
    assert_eq!(
        wrong_with(&faulty(""), &set[..2]),
        format!("--set device.bad.freeze.kind=at: `freeze` of {place} needs `duration`")
    );
}

/// Two regions of one chip.
const CHIP: &str = r#"[export.a]
device = "a"
[device.a]
kind = "flash-area"
below = "chip"
area = "slc"
[export.b]
device = "b"
[device.b]
kind = "flash-area"
below = "chip"
area = "mlc"
[device.chip]
kind = "flash"
profile = "mlc-2019"
areas = [{ name = "slc", blocks_per_die = 16, bits_per_cell = 1 }, { name = "mlc", blocks_per_die = 16 }]
"#;

#[test]
fn a_chip_with_areas_is_used_by_regions() {
    assert_eq!(wrong(CHIP), "nothing");
    assert_eq!(
        wrong(&CHIP.replace("area = \"mlc\"", "area = \"slc\"")),
        "s.toml:9:1: device `chip` is used by device `a` and device `b`: only slices that do not overlap may share a device"
    );
    assert_eq!(
        wrong(&CHIP.replace("area = \"mlc\"", "area = \"mcl\"")),
        "s.toml:12:8: device `b`: `area`: `chip` has no area `mcl`, only slc, mlc; did you mean `mlc`?"
    );
    let slice = CHIP.replacen(
        "kind = \"flash-area\"\nbelow = \"chip\"\narea = \"slc\"",
        "kind = \"slice\"\nbelow = \"chip\"",
        1,
    );
    assert!(wrong(&slice).contains("put a `flash-area` on each"), "{}", wrong(&slice));
    let plain = CHIP.replace(
        "areas = [{ name = \"slc\", blocks_per_die = 16, bits_per_cell = 1 }, { name = \"mlc\", blocks_per_die = 16 }]",
        "blocks_per_die = 16",
    );
    assert!(wrong(&plain).contains("`chip` has no areas"), "{}", wrong(&plain));
}

#[test]
fn a_leg_rests_only_where_the_other_one_answers_alone() {
    let mirror = |ack: &str| {
        format!(
            "[export.data]\ndevice = \"m\"\n[device.m]\nkind = \"hetero-mirror\"\nlegs = [\"a\", \"b\"]\nwrite_batching = \"always\"\n\
             write_ack = \"{ack}\"\n[device.a]\nkind = \"memory\"\nsize = \"1 MiB\"\n[device.b]\nkind = \"memory\"\nsize = \"1 MiB\"\n"
        )
    };
    assert_eq!(wrong(&mirror("first")), "nothing");
    for ack in ["both", "wait-limit", "leader"] {
        assert!(
            wrong(&mirror(ack)).contains("`write_batching`: with `write_ack` other than"),
            "{}",
            wrong(&mirror(ack))
        );
    }
}

/// A policy of another crate, whose options declare their range and nothing else.
mod outside {
    use nandu_base::{BuildError, Declared, options};
    use nandu_cache::replacement::{Lru, ReplacementOptions, Room};

    /// Options of `pear`.
    #[options]
    #[derive(Clone, Debug)]
    pub struct Pear {
        #[option(default = 3, range = 1..=9)]
        stones: u32,
        /// Of a type that `option` knows no ranges of. Nothing reads it.
        #[allow(dead_code)]
        #[schemars(range(min = 0.25, max = 0.75))]
        pub ripe: Option<f64>,
    }

    impl Declared for Pear {
        const NAME: &'static str = "pear";
        const SUMMARY: &'static str = "A pear.";
        const SOURCE: &'static str = "";
    }

    impl ReplacementOptions for Pear {
        type Policy = Lru;

        fn build(&self, room: Room) -> Result<Lru, BuildError> {
            Ok(Lru::new(room.slots()))
        }
    }
}

#[test]
fn the_range_that_an_outside_policy_declares_is_held() {
    let registry = builtin().with(nandu_cache::replacement::policy::<outside::Pear>());
    let with = |option: &str| {
        let text = format!(
            "[export.data]\ndevice = \"c\"\n[device.c]\nkind = \"cache\"\nbelow = \"m\"\nsize = \"1 MiB\"\n\
             replacement = {{ kind = \"pear\", {option} }}\n[device.m]\nkind = \"memory\"\nsize = \"2 MiB\"\n"
        );
        let load = || {
            StackFile::parse(&text, "s.toml")?.load(&registry)?.build(&BuildOptions::default()).map(|_| ())
        };
        load().err().map_or("nothing".into(), |error| error.to_string())
    };
    for (option, why) in [
        ("stones = 0", "`replacement.stones` in device `c` (kind `cache`): 0 is out of bounds: 1 to 9"),
        ("stones = 10", "10 is out of bounds: 1 to 9"),
        ("stones = -1", "-1 is less than 0"),
        ("ripe = 0.2", "0.2 is less than 0.25"),
        ("ripe = 0.8", "0.8 is more than 0.75"),
    ] {
        assert!(with(option).contains(why), "{option}: {}", with(option));
    }
    for option in ["stones = 1", "stones = 9", "ripe = 0.25", "ripe = 0.75"] {
        assert_eq!(with(option), "nothing", "{option}");
    }
}
