//! `cargo xtask advise-check`: what `nandu advise` finds, held against measuring every variant.
//!
//! On each of six recordings and four generators, and on two pairs of tenants that run at the same time, a grid of 432 variants is measured whole. From what it shows come bounds that a tenth, a third and most
//! of the variants meet, and one of lifetime; with each of them the search runs as a user would run it, with the budget that it has by itself, from
//! several seeds. The journals lie in `target/advise-check`: what was measured is not measured again, so a run that was ended goes on. The table goes
//! into docs/how-to/choose-a-drive.md.

use crate::files;
use crate::json::{Json, parse};
use crate::steps::{End, release_build, released, run, target_dir, traces};
use std::path::Path;
use std::process::{Command, ExitCode};

/// Name, file of a recording or generator.
const LOADS: [(&str, &str); 10] = [
    ("Financial1", "Financial1-first10000.spc.zst"),
    ("WebSearch1", "WebSearch1-first60s.spc.zst"),
    ("DTRS", "msps-dtrs-300s.ascii.zst"),
    ("CloudPhysics", "cloudphysics-vm-2h.csv.zst"),
    ("blkreplay mysql", "blkreplay-linux-mysql.load.zst"),
    ("MSR hm_0", "msr-hm_0-148s.csv.zst"),
    ("mixed-zipf", ""),
    ("desktop", ""),
    ("small-files", ""),
    ("uniform", ""),
];
/// The first requests of each.
const REQUESTS: &str = "4000";
/// Pairs of tenants: the name, and what each of them replays.
const TENANTS: [(&str, [&str; 2]); 2] = [
    ("tenants: WebSearch1, Financial1", ["WebSearch1-first60s.spc.zst", "Financial1-first10000.spc.zst"]),
    ("tenants: mixed-zipf, uniform", ["mixed-zipf", "uniform"]),
];
/// Where generators keep their requests.
const SPACE: &str = "space=200MiB";
/// The same for each of two tenants.
const HALF_SPACE: &str = "space=100MiB";

const EXPORT: &str = "[export.data]\ndevice = \"cache\"\n\n";
const EXPORTS: &str = "[export.a]\ndevice = \"part-a\"\n\n[export.b]\ndevice = \"part-b\"\n\n[device.part-a]\nkind = \"slice\"\n\
                       below = \"cache\"\noffset = \"0 B\"\nsize = \"120 MiB\"\n\n[device.part-b]\nkind = \"slice\"\n\
                       below = \"cache\"\noffset = \"120 MiB\"\nsize = \"120 MiB\"\n\n";
/// What stands below the exports.
const STACK: &str = "[device.cache]\nkind = \"cache\"\nbelow = \"ssd\"\nsize = \"1 MiB\"\n\
                     replacement = { kind = \"lru\" }\n\n[device.ssd]\nkind = \"ssd\"\nprofile = \"tlc-2019\"\nchannels = 4\nchips_per_channel = 2\n\
                     capacity = \"256 MiB\"\nspare_factor = 0.15\n";
/// The built-in prices times a thousand, without a sum for a drive: what varies is all of the cost.
const PRICES: &str = "slc_gib = 640.0\nmlc_gib = 240.0\ntlc_gib = 80.0\nram_gib = 4000.0\nssd = 0.0\n";
const AXES: [&str; 6] = [
    "device.ssd.profile=tlc-2019,mlc-2019,slc-2019",
    "device.ssd.channels=2,4,8",
    "device.ssd.spare_factor=0.07,0.15,0.28,0.4",
    "device.cache.size=1 MiB,4 MiB,16 MiB",
    "device.ssd.mapping={ kind = \"page\" },{ kind = \"dftl\", cmt_size = \"64 KiB\" }",
    "device.ssd.die_scheduler={ kind = \"fcfs\" },{ kind = \"out-of-order\" }",
];

/// Shares of the variants that meet a bound on p99, in percent, and whether one on lifetime comes with it.
const BOUNDS: [(usize, bool); 4] = [(10, false), (30, false), (60, false), (60, true)];
/// Seeds of the search; a generator has one, for its requests come from it too.
const SEEDS: [&str; 3] = ["1", "2", "3"];
/// What the choice may cost more, or miss more where nothing meets the bounds.
const WITHIN: f64 = 1.02;

/// Does what the command line asks.
pub fn check(words: &[&str]) -> Result<ExitCode, String> {
    let (build, words) = match words {
        ["--no-build", words @ ..] => (false, words),
        words => (true, words),
    };
    let only = match words {
        [] => None,
        ["--only", load] if names().any(|name| name == *load) => Some(*load),
        [.., word] => return Err((*word).into()),
    };
    if build && !matches!(run(release_build()), End::Passed) {
        return Ok(ExitCode::FAILURE);
    }
    match all(only) {
        Ok(0) => Ok(ExitCode::SUCCESS),
        Ok(missed) => {
            println!("{missed} searches found something more than 2 % dearer");
            Ok(ExitCode::FAILURE)
        }
        Err(why) => {
            println!("FAILED: {why}");
            Ok(ExitCode::FAILURE)
        }
    }
}

/// The names of all loads.
fn names() -> impl Iterator<Item = &'static str> {
    LOADS.iter().map(|load| load.0).chain(TENANTS.iter().map(|load| load.0))
}

/// Measures all loads and writes the table, or shows what one of them gives; how many searches missed.
fn all(only: Option<&str>) -> Result<usize, String> {
    let folder = target_dir().join("advise-check");
    std::fs::create_dir_all(&folder).map_err(|e| e.to_string())?;
    let files = [
        ("stack.toml", format!("{EXPORT}{STACK}")),
        ("tenants.toml", format!("{EXPORTS}{STACK}")),
        ("prices.toml", PRICES.into()),
    ];
    for (name, text) in files {
        std::fs::write(folder.join(name), text).map_err(|e| e.to_string())?;
    }
    let mut table = "| load | variants | searches | the same choice | within 2 % | dearest | runs, of all |\n|---|---|---|---|---|---|---|\n"
        .to_string();
    let (mut missed, mut whole) = (0, only.is_none());
    let ones = LOADS.into_iter().map(|(name, file)| (name, vec![if file.is_empty() { name } else { file }]));
    let loads = ones.chain(TENANTS.into_iter().map(|(name, sources)| (name, sources.to_vec())));
    for (name, sources) in loads.filter(|(name, _)| only.is_none_or(|only| only == *name)) {
        // A recording has a file, a generator only its name.
        let is_file = |source: &str| source.contains('.');
        let missing = sources.iter().map(|source| traces().join(source));
        if let Some(path) = missing.zip(&sources).find(|(path, source)| is_file(source) && !path.is_file()) {
            println!("{name}: {} is not there", path.0.display());
            whole = false;
            continue;
        }
        let is_generated = !sources.iter().any(|source| is_file(source));
        let placed = sources.iter().map(|source| match is_file(source) {
            true => traces().join(source).display().to_string(),
            false => (*source).to_string(),
        });
        let load = Load { name, sources: placed.collect(), is_generated, folder: &folder };
        let (row, wrong) = load.row()?;
        print!("{row}");
        table += &row;
        missed += wrong;
    }
    if whole {
        files::put_between("docs/how-to/choose-a-drive.md", "cargo xtask advise-check", &table)?;
    }
    Ok(missed)
}

struct Load<'a> {
    name: &'static str,
    /// Files or generators, one for each tenant.
    sources: Vec<String>,
    is_generated: bool,
    folder: &'a Path,
}

impl Load<'_> {
    /// The row of the table, and how many searches missed.
    fn row(&self) -> Result<(String, usize), String> {
        let measured = self.advise(&["--p99", "1ms", "--exhaustive"])?;
        let rows = measured.get("rows").list();
        let sorted = |key: &str| {
            let mut values: Vec<f64> = rows.iter().filter_map(|row| row.get(key).number()).collect();
            values.sort_unstable_by(f64::total_cmp);
            values
        };
        let (p99, life) = (sorted("p99_ns"), sorted("lifetime_years"));
        let seeds = if self.is_generated { &SEEDS[..1] } else { &SEEDS[..] };
        let (mut searches, mut same, mut close, mut dearest, mut runs) = (0, 0, 0, 1.0f64, 0.0);
        for (share, lives) in BOUNDS {
            let mut bounds = vec!["--p99".to_string(), format!("{}ns", p99[(p99.len() - 1) * share / 100])];
            if lives && !life.is_empty() {
                let years = life[(life.len() - 1) * (100 - share) / 100];
                bounds.extend(["--life".to_string(), format!("{years:.3}")]);
            }
            let bounds: Vec<&str> = bounds.iter().map(String::as_str).collect();
            let want = self.advise(&[&bounds[..], &["--exhaustive"]].concat())?;
            for seed in seeds {
                let got = self.advise(&[&bounds[..], &["--seed", seed]].concat())?;
                let of =
                    |value: &Json, key: &str| value.get("best").get(key).number().unwrap_or(f64::INFINITY);
                let key = if want.get("meets") == &Json::Bool(true) { "cost" } else { "missed_by" };
                let is_met = got.get("meets") == want.get("meets");
                let ratio = if is_met { of(&got, key) / of(&want, key).max(0.001) } else { f64::INFINITY };
                let is_same = of(&got, "point") == of(&want, "point");
                searches += 1;
                same += usize::from(is_same);
                close += usize::from(is_same || ratio <= WITHIN);
                if ratio > WITHIN && !is_same {
                    println!("{}: {} seed {seed}: {ratio:.3} times the best", self.name, bounds.join(" "));
                }
                dearest = dearest.max(if is_same { 1.0 } else { ratio });
                runs += got.get("runs").number().unwrap_or(0.0);
            }
        }
        let (all, each) = (rows.len(), runs / f64::from(searches));
        let row = format!(
            "| {} | {all} | {searches} | {same} | {close} | {:.1} % | {each:.0}, {:.0} % |\n",
            self.name,
            (dearest - 1.0) * 100.0,
            each * 100.0 / all as f64,
        );
        Ok((row, searches as usize - close))
    }

    /// Runs `nandu advise` with these words; 0 and 3 are answers.
    fn advise(&self, words: &[&str]) -> Result<Json, String> {
        let mut command = Command::new(released().join("nandu"));
        command.current_dir(self.folder);
        command.args(["--quiet", "advise", "--limit", REQUESTS]);
        let stack = match &self.sources[..] {
            [source] => {
                command.arg(source);
                "stack.toml"
            }
            sources => {
                let named = ["a", "b"].into_iter().zip(sources);
                command
                    .args(named.flat_map(|(name, source)| ["--tenant".into(), format!("{name}={source}")]));
                "tenants.toml"
            }
        };
        if self.is_generated {
            command.args(["--gen", if self.sources.len() > 1 { HALF_SPACE } else { SPACE }]);
        }
        let folder = self.name.replace([' ', ':', ','], "-");
        command.args(["--stack", stack, "--extend", "0", "--json", "--out", &folder]);
        command.args(AXES.iter().flat_map(|axis| ["--axis", axis])).args(words);
        let output = command.output().map_err(|e| e.to_string())?;
        match output.status.code() {
            Some(0 | 3) => parse(&String::from_utf8_lossy(&output.stdout)),
            _ => Err(format!("{}: {}", self.name, String::from_utf8_lossy(&output.stderr))),
        }
    }
}
