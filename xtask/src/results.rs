//! `cargo xtask results`: what `nandu reproduce` measures, as a page for each paper; and the index of all claims.
//!
//! Each folder of `experiments` whose `expected.json` names a paper has a `RESULTS.md`. It is made of two runs, the full form and the
//! quick one; a claim on which the quick form by itself would say otherwise goes into `full-only.json`, and the program gives
//! no verdict on it in the quick form. `docs/experiments/claims.md` lists every claim with a sentence by hand; its verdicts and counts are
//! taken from the pages. Steps of the test hold the index against the pages, and the pages against the quick form.
//!
//! With `--only CLAIM` or `--only "CLAIM CASE"` these alone are measured, and take the place of what the page of the paper has of them: for a case that is added, or
//! after a change that others cannot notice.

use crate::json::{self, Json};
use crate::steps::{End, release_build, released, root, run};
use crate::{broken, causes};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::SystemTime;

/// The index of all claims.
const INDEX: &str = "docs/experiments/claims.md";

/// Most lines of the index.
const LINES: usize = 120;

/// What the line of the index begins with that counts the claims of all papers.
const COUNTED: &str = "Reproduced in at least one case: ";

/// Verdicts in the order in which they are counted.
const VERDICTS: [&str; 4] = ["reproduced", "direction only", "not reproduced", "not measured"];

/// The heads of a table of cases.
const HEADS: &str = "| case | claimed | reproduced within | measured | quick | unit | verdict | load |\n|---|---|---|---|---|---|---|---|\n";

/// Headings of the two kinds of claims in a page.
const KINDS: [&str; 2] = ["Claims of the paper", "Own bets"];

/// A folder of `experiments`, and the name of its paper.
pub struct Paper {
    folder: String,
    pub name: String,
}

impl Paper {
    pub fn path(&self, file: &str) -> PathBuf {
        root().join("experiments").join(&self.folder).join(file)
    }
}

/// `cargo xtask results [--no-build] [--index] [--only CLAIM]... [PAPER...]`.
pub fn results(words: &[&str]) -> Result<ExitCode, String> {
    let (only, words) = asked(words)?;
    let (options, names): (Vec<&str>, Vec<&str>) = words.iter().partition(|w| w.starts_with('-'));
    if !only.is_empty() && names.len() != 1 {
        return Err("--only, which needs one paper".into());
    }
    if let Some(other) = options.iter().find(|o| !["--index", "--no-build"].contains(*o)) {
        return Err((*other).into());
    }
    let known = papers();
    if let Some(other) = names.iter().find(|name| known.iter().all(|p| p.name != **name)) {
        return Err((*other).into());
    }
    let made = (|| {
        if !options.contains(&"--index") {
            if options.contains(&"--no-build") {
                let program = released().join("nandu");
                fresh(&program, &sources()?)?;
            } else if let End::Failed(why) = run(release_build()) {
                return Err(why);
            }
            for paper in known.iter().filter(|p| names.is_empty() || names.contains(&p.name.as_str())) {
                if only.is_empty() { make(paper)? } else { renew(paper, &only)? }
            }
        }
        let path = root().join(INDEX);
        let old = fs::read_to_string(&path).map_err(|e| format!("{INDEX}: {e}"))?;
        let new = renewed(&old, &pages(&known)?)?;
        if new != old {
            fs::write(&path, new).map_err(|e| format!("{INDEX}: {e}"))?;
            println!("{INDEX}: rewritten");
        }
        Ok(())
    })();
    match made {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(why) => {
            eprintln!("cargo xtask results: {why}");
            Ok(ExitCode::FAILURE)
        }
    }
}

/// Files that figures rest on: crates and what is built into them. What only the quick form's verdicts rest on is left out, since a measurement writes it.
fn sources() -> Result<Vec<PathBuf>, String> {
    let root = root();
    let mut out = vec![root.join("Cargo.toml"), root.join("Cargo.lock")];
    let crates = root.join("crates");
    let entries = fs::read_dir(&crates).map_err(|e| format!("{}: {e}", crates.display()))?;
    for folder in entries.filter_map(Result::ok).map(|entry| entry.path()) {
        out.push(folder.join("Cargo.toml"));
        files(&folder.join("src"), &mut out)?;
    }
    let mut built_in = Vec::new();
    files(&root.join("experiments"), &mut built_in)?;
    files(&root.join("stacks"), &mut built_in)?;
    let is_source = |path: &PathBuf| {
        path.extension().is_some_and(|e| e == "toml")
            || path.file_name().is_some_and(|n| n == "expected.json")
    };
    out.extend(built_in.into_iter().filter(is_source));
    Ok(out)
}

/// All files below a folder.
fn files(folder: &Path, out: &mut Vec<PathBuf>) -> Result<(), String> {
    let why = |e: std::io::Error| format!("{}: {e}", folder.display());
    for entry in fs::read_dir(folder).map_err(why)? {
        let entry = entry.map_err(why)?;
        if entry.file_type().map_err(why)?.is_dir() {
            files(&entry.path(), out)?;
        } else {
            out.push(entry.path());
        }
    }
    Ok(())
}

/// An error where the program is older than one of its sources: its figures would be those of another state.
fn fresh(program: &Path, sources: &[PathBuf]) -> Result<(), String> {
    let changed = |path: &Path| -> Result<SystemTime, String> {
        let modified = fs::metadata(path).and_then(|m| m.modified());
        modified.map_err(|e| format!("{}: {e}", path.display()))
    };
    let built = changed(program)?;
    for source in sources {
        if source.exists() && changed(source)? > built {
            return Err(format!(
                "{} is older than {}, so that it would measure another state; without --no-build it is built first",
                program.display(),
                source.display()
            ));
        }
    }
    Ok(())
}

/// The index says what the pages say. Needs no program.
pub fn check_index() -> End {
    let checked = (|| {
        forms()?;
        broken::check_lists()?;
        causes::check()?;
        let old = fs::read_to_string(root().join(INDEX)).map_err(|e| format!("{INDEX}: {e}"))?;
        let new = renewed(&old, &pages(&papers())?)?;
        let differs = old.lines().zip(new.lines()).find(|(old, new)| old != new);
        match differs {
            _ if old == new => Ok(()),
            Some((old, new)) => Err(format!(
                "{INDEX} says\n{old}\nand the pages say\n{new}\n`cargo xtask results --index` mends it"
            )),
            None => Err(format!("{INDEX} has other lines than it would have")),
        }
    })();
    checked.map_or_else(End::Failed, |()| End::Passed)
}

/// The quick form measures what the pages say that it measures, and gives no verdict but theirs.
pub fn check_quick() -> End {
    let mut wrong = Vec::new();
    for paper in papers() {
        let checked = (|| {
            let page = Page::of(&paper)?;
            let quick = reproduce(&paper, true, &[])?;
            differences(&page, &quick)
        })();
        match checked {
            Ok(differences) => wrong.extend(differences.into_iter().map(|d| format!("{}: {d}", paper.name))),
            Err(why) => wrong.push(format!("{}: {why}", paper.name)),
        }
    }
    if wrong.is_empty() {
        return End::Passed;
    }
    End::Failed(format!("{}\n`cargo xtask results` measures anew", wrong.join("\n")))
}

/// The experiments, in the order of their folders.
pub fn papers() -> Vec<Paper> {
    let folder = root().join("experiments");
    let entries = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    let mut folders: Vec<String> = entries.map(|e| e.file_name().to_string_lossy().into_owned()).collect();
    folders.sort();
    let paper = |folder: String| {
        let text = fs::read_to_string(root().join("experiments").join(&folder).join("expected.json")).ok()?;
        let name = json::parse(&text).ok()?.get("paper").text().to_string();
        Some(Paper { folder, name })
    };
    folders.into_iter().filter_map(paper).collect()
}

/// Runs one form of a paper, with more `options`.
pub fn reproduce(paper: &Paper, quick: bool, options: &[&str]) -> Result<Json, String> {
    let mut nandu = Command::new(released().join("nandu"));
    nandu.current_dir(root()).args(["--quiet", "reproduce", &paper.name, "--json"]);
    if quick {
        nandu.arg("--quick");
    }
    nandu.args(options);
    let words: String = options.iter().map(|word| format!(" {word}")).collect();
    println!("   nandu reproduce {}{}{words}", paper.name, if quick { " --quick" } else { "" });
    let output = nandu.output().map_err(|e| format!("nandu: {e}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).trim().to_string());
    }
    let record = json::parse(&String::from_utf8_lossy(&output.stdout))?;
    record.list().first().cloned().ok_or_else(|| "nothing was printed".into())
}

/// Measures a paper and writes its files.
fn make(paper: &Paper) -> Result<(), String> {
    let (quick, full) = (reproduce(paper, true, &[])?, reproduce(paper, false, &[])?);
    let write = |file: &str, text: String| {
        let path = paper.path(file);
        let old = fs::read_to_string(&path).unwrap_or_default();
        if old == text {
            return Ok(());
        }
        println!("experiments/{}/{file}: rewritten", paper.folder);
        fs::write(&path, text).map_err(|e| format!("{}: {e}", path.display()))
    };
    write("full-only.json", full_only(&full, &quick))?;
    write("RESULTS.md", page(&full, &quick))
}

/// The values of `--only`, and the other words.
fn asked<'a>(words: &[&'a str]) -> Result<(Vec<&'a str>, Vec<&'a str>), String> {
    let (mut only, mut others) = (Vec::new(), Vec::new());
    let mut words = words.iter().copied();
    while let Some(word) = words.next() {
        match word {
            "--only" => only.push(words.next().ok_or("--only, which needs a claim")?),
            other => others.push(other),
        }
    }
    Ok((only, others))
}

/// Measures some claims of a paper, and puts them into its files.
fn renew(paper: &Paper, only: &[&str]) -> Result<(), String> {
    let options: Vec<&str> = only.iter().flat_map(|claim| ["--only", *claim]).collect();
    let (quick, full) = (reproduce(paper, true, &options)?, reproduce(paper, false, &options)?);
    let read = |file: &str| {
        let path = paper.path(file);
        fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))
    };
    let (expected, listed) = (json::parse(&read("expected.json")?)?, json::parse(&read("full-only.json")?)?);
    let new = spliced(&read("RESULTS.md")?, &expected, &full, &quick)?;
    // A claim that was not measured stays listed, or not.
    let is_listed = |claim: &Json| {
        let is = |one: &&Json| matches!(one.list(), [id, case] if key(claim) == (id.text(), case.text()));
        match find(&full, claim) {
            Json::Null => listed.list().iter().any(|one| is(&one)),
            full => contradicts(full, find(&quick, claim)),
        }
    };
    let open = list_of(expected.get("claims").list().iter().filter(|claim| is_listed(claim)));
    for (file, text) in [("full-only.json", open), ("RESULTS.md", new)] {
        let path = paper.path(file);
        fs::write(&path, text).map_err(|e| format!("{}: {e}", path.display()))?;
    }
    Ok(())
}

/// A page with the claims of two records in place of its own. Cases stand in the order of what is expected.
fn spliced(page: &str, expected: &Json, full: &Json, quick: &Json) -> Result<String, String> {
    let mut out = String::new();
    let mut kind = "";
    let mut sections = page.split_inclusive('\n').peekable();
    while let Some(line) = sections.next() {
        out += line;
        if let Some(heading) = line.trim_end().strip_prefix("## ") {
            kind = KINDS.iter().position(|k| *k == heading).map_or("", |n| ["paper", "bet"][n]);
        }
        let Some(heading) = line.trim_end().strip_prefix("### ").filter(|_| !kind.is_empty()) else {
            continue;
        };
        let id = heading.split(',').next().unwrap_or(heading);
        let mut old = String::new();
        while let Some(line) = sections.next_if(|line| !line.starts_with("##")) {
            old += line;
        }
        let of_it = |claim: &&Json| claim.get("id").text() == id && kind_of(claim) == kind;
        let claims: Vec<&Json> = expected.get("claims").list().iter().filter(of_it).collect();
        if claims.iter().all(|claim| matches!(find(full, claim), Json::Null)) {
            out += &old;
            continue;
        }
        let (mut rows, mut reasons) = (String::new(), String::new());
        for claim in &claims {
            let case = claim.get("case").text();
            let measured = find(full, claim);
            if !matches!(measured, Json::Null) {
                rows += &row(measured, quick);
                reasons += &reason(measured).unwrap_or_default();
                continue;
            }
            let begins = |begin: String| old.split_inclusive('\n').find(move |line| line.starts_with(&begin));
            rows += begins(format!("| {} |", cell(case)))
                .ok_or_else(|| format!("{id} {case} was never measured: name it with --only too"))?;
            reasons += begins(format!("- *{case}:*")).unwrap_or_default();
        }
        let rest = if reasons.is_empty() { String::new() } else { format!("\n{reasons}") };
        out += &format!("\n{}{HEADS}{rows}{rest}", sentences(&claims));
        if sections.peek().is_some() {
            out.push('\n');
        }
    }
    let bounds = |json: &Json| format!("Bounds: `expected.json`, {}.\n", json.get("written").text());
    let old =
        out.lines().find(|line| line.contains("Bounds: `expected.json`")).unwrap_or_default().to_string();
    let new = old.split("Bounds: ").next().unwrap_or_default().to_string() + bounds(expected).trim_end();
    Ok(out.replacen(&old, &new, 1))
}

/// Whose claim an entry of `expected.json` is.
fn kind_of(claim: &Json) -> &'static str {
    let ours = matches!(claim.get("ours"), Json::Bool(true));
    if claim.get("id").text().starts_with('C') && !ours { "paper" } else { "bet" }
}

/// Number and case of each claim.
fn key(claim: &Json) -> (&str, &str) {
    (claim.get("id").text(), claim.get("case").text())
}

fn find<'a>(record: &'a Json, key_of: &Json) -> &'a Json {
    let (id, case) = key(key_of);
    find_case(record, id, case).unwrap_or(&Json::Null)
}

/// A case of a claim, as the program or `broken.json` writes it.
pub fn find_case<'a>(record: &'a Json, id: &str, case: &str) -> Option<&'a Json> {
    record.get("claims").list().iter().find(|c| key(c) == (id, case))
}

/// Whether the quick form by itself gives another verdict than the full form.
fn contradicts(full: &Json, quick: &Json) -> bool {
    let by_itself = quick.get("by_itself").text();
    by_itself != "not-measured" && by_itself != full.get("verdict").text()
}

fn full_only(full: &Json, quick: &Json) -> String {
    list_of(full.get("claims").list().iter().filter(|c| contradicts(c, find(quick, c))))
}

/// A list of claims, each a line.
fn list_of<'a>(claims: impl Iterator<Item = &'a Json>) -> String {
    let line = |c: &Json| format!("  [{:?}, {:?}]", key(c).0, key(c).1);
    let lines: Vec<String> = claims.map(line).collect();
    if lines.is_empty() { "[]\n".into() } else { format!("[\n{}\n]\n", lines.join(",\n")) }
}

/// A figure with three digits, as the program prints it.
fn figure(value: Option<f64>) -> String {
    let Some(value) = value else { return "-".into() };
    let shown = match value.abs() {
        0.0 => "0".into(),
        v if v < 0.9995 => format!("{v:.3}"),
        v if v < 9.995 => format!("{v:.2}"),
        v if v < 99.95 => format!("{v:.1}"),
        v => thousands(v.round() as u64),
    };
    if value < 0.0 { format!("-{shown}") } else { shown }
}

fn thousands(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// The figure of the quick form, in brackets where it has no verdict and the full form has one.
fn quick_cell(full: &Json, quick: &Json) -> String {
    let shown = figure(quick.get("measured").number());
    let open = contradicts(full, quick)
        || (quick.get("by_itself").text() == "not-measured" && full.get("verdict").text() != "not-measured");
    if open && shown != "-" { format!("({shown})") } else { shown }
}

/// A pair of bounds in words.
fn bounds(pair: &Json) -> String {
    let shown = |n: f64| Some(n.to_string()).filter(|s| s.len() <= 6).unwrap_or_else(|| figure(Some(n)));
    match pair.list() {
        [least, most] => match (least.number(), most.number()) {
            (Some(a), Some(b)) if a == b => shown(a),
            (Some(a), Some(b)) => format!("{} to {}", shown(a), shown(b)),
            (Some(a), None) => format!("{} or more", shown(a)),
            (None, Some(b)) => format!("{} or less", shown(b)),
            (None, None) => "any".into(),
        },
        _ => "-".into(),
    }
}

/// No cell may end a cell.
fn cell(text: &str) -> String {
    text.replace('|', "/").replace('\n', " ")
}

/// A page.
fn page(full: &Json, quick: &Json) -> String {
    let name = full.get("paper").text();
    let mut out = format!(
        "# Results: {name}\n\n\
         Made by `cargo xtask results {name}`, not by hand. [README.md](README.md) says how it is set up, [DISCUSSION.md](DISCUSSION.md)\n\
         what the figures mean and why some claims do not come out.\n\n\
         *{}.* {} requests for each load, seed {}. Bounds: `expected.json`, {}.\n\
         A figure may agree in direction only; `expected.json` says from where on. `quick` is the figure of the quick form, {} requests;\n\
         in brackets where only the full form has a verdict.\n\n",
        full.get("title").text(),
        thousands(full.get("requests").number().unwrap_or(0.0) as u64),
        full.get("seed").number().unwrap_or(0.0),
        full.get("written").text(),
        thousands(quick.get("requests").number().unwrap_or(0.0) as u64),
    );
    for (heading, kind) in KINDS.iter().zip(["paper", "bet"]) {
        let claims: Vec<&Json> =
            full.get("claims").list().iter().filter(|c| c.get("kind").text() == kind).collect();
        if claims.is_empty() {
            continue;
        }
        out += &format!("## {heading}\n");
        let mut ids: Vec<&str> = Vec::new();
        for (id, _) in claims.iter().map(|c| key(c)) {
            if !ids.contains(&id) {
                ids.push(id);
            }
        }
        for id in ids {
            let cases: Vec<&Json> = claims.iter().copied().filter(|c| key(c).0 == id).collect();
            out += &section(id, kind, &cases, quick);
        }
        out.push('\n');
    }
    for table in full.get("tables").list() {
        out += &sheet(table);
    }
    format!("{}\n", out.trim_end())
}

/// All cases of a claim.
fn section(id: &str, kind: &str, cases: &[&Json], quick: &Json) -> String {
    // Some of a claim's cases may be ours; then its number comes twice.
    let own = if kind == "bet" && id.starts_with('C') { ", ours" } else { "" };
    let rows: String = cases.iter().map(|case| row(case, quick)).collect();
    let reasons: String = cases.iter().filter_map(|case| reason(case)).collect();
    let rest = if reasons.is_empty() { String::new() } else { format!("\n{reasons}") };
    format!("\n### {id}{own}\n\n{}{HEADS}{rows}{rest}", sentences(cases))
}

/// What is claimed, each sentence once.
fn sentences(cases: &[&Json]) -> String {
    let mut said: Vec<String> = Vec::new();
    for case in cases {
        let sentence = format!("{} ({})", case.get("says").text(), case.get("where").text());
        if !said.contains(&sentence) {
            said.push(sentence);
        }
    }
    match said.as_slice() {
        [one] => format!("{one}.\n\n"),
        all => format!("{}\n\n", all.iter().map(|s| format!("- {s}")).collect::<Vec<_>>().join("\n")),
    }
}

/// The row of a case.
fn row(case: &Json, quick: &Json) -> String {
    let cells = [
        cell(case.get("case").text()),
        cell(case.get("claimed").text()),
        bounds(case.get("reproduced")),
        figure(case.get("measured").number()),
        quick_cell(case, find(quick, case)),
        cell(case.get("unit").text()),
        case.get("verdict").text().replace('-', " "),
        cell(case.get("origin").text()),
    ];
    format!("| {} |\n", cells.join(" | "))
}

/// What explains a case.
fn reason(case: &Json) -> Option<String> {
    let reason = case.get("reason").text();
    (!reason.is_empty()).then(|| format!("- *{}:* {reason}\n", case.get("case").text()))
}

/// A table without verdicts, its columns aligned as the program does it.
fn sheet(table: &Json) -> String {
    let heads: Vec<&str> = table.get("heads").list().iter().map(Json::text).collect();
    let rows: Vec<Vec<&str>> =
        table.get("rows").list().iter().map(|r| r.list().iter().map(Json::text).collect()).collect();
    let plain: Vec<&str> = heads.iter().map(|h| h.trim_start_matches('<')).collect();
    let mut lines = vec![plain];
    lines.extend(rows);
    let width = |column: usize| {
        lines.iter().filter_map(|l| l.get(column)).map(|c| c.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..heads.len()).map(width).collect();
    let mut out = format!("## {}\n\n```text\n", table.get("title").text());
    for line in &lines {
        let cells = line.iter().zip(&heads).zip(&widths).map(|((cell, head), &width)| {
            if head.starts_with('<') { format!("{cell:width$}") } else { format!("{cell:>width$}") }
        });
        out += cells.collect::<Vec<_>>().join("  ").trim_end();
        out.push('\n');
    }
    format!("{out}```\n\n")
}

/// A row of a page.
#[derive(Debug)]
struct Row {
    /// 0 of the paper, 1 our own.
    kind: usize,
    id: String,
    case: String,
    quick: String,
    verdict: String,
}

/// What a page says.
pub struct Page {
    folder: String,
    rows: Vec<Row>,
}

impl Page {
    /// Number and case of what is reproduced.
    pub fn reproduced(&self) -> impl Iterator<Item = (&str, &str)> {
        let rows = self.rows.iter().filter(|r| r.verdict == VERDICTS[0]);
        rows.map(|r| (r.id.as_str(), r.case.as_str()))
    }

    /// Number and case of each claim of the paper that agrees in direction only, or not at all.
    pub fn short(&self) -> Vec<(&str, &str)> {
        let short = |row: &&Row| row.kind == 0 && VERDICTS[1..3].contains(&row.verdict.as_str());
        self.rows.iter().filter(short).map(|r| (r.id.as_str(), r.case.as_str())).collect()
    }

    pub fn of(paper: &Paper) -> Result<Page, String> {
        let path = paper.path("RESULTS.md");
        let text = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        let rows = rows(&text).map_err(|why| format!("experiments/{}/RESULTS.md: {why}", paper.folder))?;
        Ok(Page { folder: paper.folder.clone(), rows })
    }
}

fn pages(papers: &[Paper]) -> Result<Vec<Page>, String> {
    papers.iter().map(Page::of).collect()
}

/// Reads a page back.
fn rows(text: &str) -> Result<Vec<Row>, String> {
    let mut out = Vec::new();
    let (mut kind, mut id, mut inside) = (None, String::new(), false);
    for (number, line) in text.lines().enumerate() {
        let wrong = |what: &str| format!("line {}: {what}", number + 1);
        if let Some(heading) = line.strip_prefix("## ") {
            kind = KINDS.iter().position(|k| *k == heading);
        } else if let Some(heading) = line.strip_prefix("### ") {
            id = heading.split(',').next().unwrap_or(heading).into();
        }
        inside = line.starts_with("|---") || (inside && line.starts_with('|'));
        if !inside || line.starts_with("|---") {
            continue;
        }
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [case, _, _, _, quick, _, verdict, _] = cells.as_slice() else {
            return Err(wrong("a row has 8 cells"));
        };
        if !VERDICTS.contains(verdict) {
            return Err(wrong("a row has no verdict"));
        }
        out.push(Row {
            kind: kind.ok_or_else(|| wrong("a row stands under no heading"))?,
            id: id.clone(),
            case: (*case).into(),
            quick: (*quick).into(),
            verdict: (*verdict).into(),
        });
    }
    if out.is_empty() { Err("there is no row".into()) } else { Ok(out) }
}

/// How the quick form differs from what a page says of it.
fn differences(page: &Page, quick: &Json) -> Result<Vec<String>, String> {
    let claims = quick.get("claims").list();
    if claims.len() != page.rows.len() {
        return Err(format!("RESULTS.md has {} rows, the program {} claims", page.rows.len(), claims.len()));
    }
    let mut out = Vec::new();
    for row in &page.rows {
        let Some(claim) = claims.iter().find(|c| key(c).0 == row.id && cell(key(c).1) == row.case) else {
            return Err(format!("the program has no {} {}", row.id, row.case));
        };
        let shown = figure(claim.get("measured").number());
        let verdict = claim.get("verdict").text().replace('-', " ");
        if shown != row.quick.trim_matches(['(', ')']) {
            out.push(format!("{} {}: {shown} where RESULTS.md has {}", row.id, row.case, row.quick));
        }
        if verdict != row.verdict && verdict != "not measured" {
            out.push(format!("{} {}: {verdict}, and in full {}", row.id, row.case, row.verdict));
        }
    }
    Ok(out)
}

/// How many rows came out how, in words: what all have in common, or each with its number.
fn counts<'a>(rows: impl Iterator<Item = &'a Row> + Clone) -> String {
    let of = |verdict: &str| rows.clone().filter(|r| r.verdict == verdict).count();
    let parts: Vec<(usize, &str)> = VERDICTS.into_iter().map(|v| (of(v), v)).filter(|p| p.0 > 0).collect();
    match parts.as_slice() {
        [] => "none".into(),
        [(1, one)] => (*one).into(),
        [(n, one)] => format!("{one}, all {n} cases"),
        many => many.iter().map(|(n, v)| format!("{n} {v}")).collect::<Vec<_>>().join(", "),
    }
}

/// The counts of a whole page, with their numbers.
fn totals<'a>(rows: impl Iterator<Item = &'a Row> + Clone) -> String {
    if rows.clone().next().is_none() {
        return "none".into();
    }
    let of = |verdict: &str| rows.clone().filter(|r| r.verdict == verdict).count();
    VERDICTS.map(|v| of(v).to_string()).join(" / ")
}

/// Of the claims of the papers how many have a case that is reproduced, and how many one that is measured.
fn by_claim<'a>(pages: impl Iterator<Item = &'a Page> + Clone) -> String {
    let of = |is: fn(&str) -> bool| {
        let rows = pages.clone().flat_map(|page| &page.rows);
        let ids = rows.filter(|row| row.kind == 0 && is(&row.verdict)).map(|row| row.id.as_str());
        ids.collect::<BTreeSet<_>>().len()
    };
    format!("{} of {}", of(|verdict| verdict == VERDICTS[0]), of(|verdict| verdict != VERDICTS[3]))
}

/// The index with verdicts and counts as the pages have them. Its sentences stay; a claim without a row, and a row without a
/// claim, are errors.
fn renewed(index: &str, pages: &[Page]) -> Result<String, String> {
    if index.lines().count() > LINES {
        return Err(format!("{INDEX} has more than {LINES} lines"));
    }
    let mut missing: Vec<(usize, &str, usize)> = Vec::new();
    for (n, page) in pages.iter().enumerate() {
        for row in &page.rows {
            if !missing.contains(&(n, &row.id, row.kind)) {
                missing.push((n, &row.id, row.kind));
            }
        }
    }
    let mut out = String::new();
    for line in index.lines() {
        let cells: Vec<&str> = line.split(" | ").collect();
        let new = match index_row(line, pages)? {
            Some(Entry::Paper(page)) => {
                let [first, .., last] = cells.as_slice() else { return Err(format!("{INDEX}: {line}")) };
                let kinds = [0, 1].map(|kind| totals(page.rows.iter().filter(|r| r.kind == kind)));
                let claims = by_claim(std::iter::once(page));
                format!("{first} | {claims} | {} | {} | {last}", kinds[0], kinds[1])
            }
            Some(Entry::Claim(n, id, kind)) => {
                let [first, sentence, _] = cells.as_slice() else { return Err(format!("{INDEX}: {line}")) };
                missing.retain(|m| *m != (n, id.as_str(), kind));
                let rows = pages[n].rows.iter().filter(|r| r.id == id && r.kind == kind);
                if rows.clone().next().is_none() {
                    return Err(format!("{INDEX}: {id} is in no RESULTS.md"));
                }
                format!("{first} | {sentence} | {} |", counts(rows))
            }
            None if line.starts_with(COUNTED) => {
                format!(
                    "{COUNTED}{} claims of the papers of which a case is measured.",
                    by_claim(pages.iter())
                )
            }
            None => line.into(),
        };
        out += &new;
        out.push('\n');
    }
    match missing.first() {
        None => Ok(out),
        Some((n, id, kind)) => Err(format!(
            "{INDEX} has no row for {id} of {} ({}); a row begins `| [{id}](../../experiments/{}/RESULTS.md#{}) |`",
            pages[*n].folder,
            KINDS[*kind],
            pages[*n].folder,
            anchor(id, *kind),
        )),
    }
}

fn anchor(id: &str, kind: usize) -> String {
    let ours = if kind == 1 && id.starts_with('C') { "-ours" } else { "" };
    format!("{}{ours}", id.to_lowercase())
}

/// What a line of the index is about.
enum Entry<'a> {
    /// A paper's counts.
    Paper(&'a Page),
    /// A claim: which page, its number, its kind.
    Claim(usize, String, usize),
}

/// A line that begins with a link into an experiment.
fn index_row<'a>(line: &str, pages: &'a [Page]) -> Result<Option<Entry<'a>>, String> {
    let Some((name, rest)) = line.strip_prefix("| [").and_then(|l| l.split_once("](../../experiments/"))
    else {
        return Ok(None);
    };
    let target = rest.split(')').next().unwrap_or(rest);
    let (folder, file) = target.split_once('/').unwrap_or((target, ""));
    let n = pages.iter().position(|p| p.folder == folder);
    let n = n.ok_or_else(|| format!("{INDEX}: there is no experiment `{folder}`"))?;
    if file == "README.md" {
        return Ok(Some(Entry::Paper(&pages[n])));
    }
    let kind = (0..2).find(|&kind| file == format!("RESULTS.md#{}", anchor(name, kind)));
    let kind = kind.ok_or_else(|| format!("{INDEX}: the link of {name} leads to {file}"))?;
    // A number that is ours without saying so has the anchor of a paper's.
    let kind = if name.starts_with('C') { kind } else { 1 };
    Ok(Some(Entry::Claim(n, name.into(), kind)))
}

/// Every experiment has its pages.
fn forms() -> Result<(), String> {
    for paper in papers() {
        for file in
            ["README.md", "DISCUSSION.md", "RESULTS.md", "expected.json", "full-only.json", "broken.json"]
        {
            if !paper.path(file).is_file() {
                return Err(format!("experiments/{} has no {file}", paper.folder));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
pub mod tests {
    use super::*;

    fn claim(id: &str, case: &str, measured: &str, verdict: &str, by_itself: &str) -> String {
        let kind = if id.starts_with('C') { "paper" } else { "bet" };
        format!(
            "{{\"id\": \"{id}\", \"case\": \"{case}\", \"where\": \"Fig 1\", \"says\": \"it | is so\", \"unit\": \"%\", \"claimed\": \"5\", \
             \"reproduced\": [4, 6.5], \"direction\": [0, null], \"tolerance\": \"\", \"kind\": \"{kind}\", \"measured\": {measured}, \
             \"verdict\": \"{verdict}\", \"by_itself\": \"{by_itself}\", \"origin\": \"stand-in\", \"reason\": \"1 | 2\"}}"
        )
    }

    fn record(claims: &[String]) -> Json {
        let text = format!(
            "{{\"paper\": \"p\", \"title\": \"T\", \"written\": \"before\", \"requests\": 20000, \"seed\": 1, \"claims\": [{}], \
             \"tables\": [{{\"title\": \"Side by side\", \"heads\": [\"<name\", \"mean\"], \"rows\": [[\"a\", \"1 us\"], [\"long\", \"12 us\"]]}}]}}",
            claims.join(", ")
        );
        json::parse(&text).expect("it is JSON")
    }

    fn both() -> (Json, Json) {
        let full = [
            claim("C9-1", "one", "5.04", "reproduced", "reproduced"),
            claim("C9-1", "two", "-3", "not-reproduced", "not-reproduced"),
            claim("C9-2", "all", "12345.6", "direction-only", "direction-only"),
            claim("W9-1", "own", "null", "not-measured", "not-measured"),
        ];
        let quick = [
            claim("C9-1", "one", "4.5", "reproduced", "reproduced"),
            claim("C9-1", "two", "5", "not-measured", "reproduced"),
            claim("C9-2", "all", "7", "not-measured", "not-measured"),
            claim("W9-1", "own", "5", "not-measured", "reproduced"),
        ];
        (record(&full), record(&quick))
    }

    pub fn pages() -> Vec<Page> {
        let (full, quick) = both();
        let rows = rows(&page(&full, &quick)).expect("a page is read back");
        vec![Page { folder: "09-p".into(), rows }]
    }

    #[test]
    fn what_the_quick_form_would_contradict_is_listed() {
        let (full, quick) = both();
        assert_eq!(full_only(&full, &quick), "[\n  [\"C9-1\", \"two\"],\n  [\"W9-1\", \"own\"]\n]\n");
        assert_eq!(full_only(&full, &full), "[]\n");
        assert!(json::parse(&full_only(&full, &quick)).is_ok());
    }

    #[test]
    fn a_page_has_every_row_and_is_read_back() {
        let (full, quick) = both();
        let text = page(&full, &quick);
        assert!(text.contains("| one | 5 | 4 to 6.5 | 5.04 | 4.50 | % | reproduced | stand-in |"), "{text}");
        assert!(text.contains("| two | 5 | 4 to 6.5 | -3.00 | (5.00) | % | not reproduced |"), "{text}");
        assert!(
            text.contains("| 12,346 | (7.00) |") && text.contains("name   mean\na      1 us\nlong  12 us\n")
        );
        let rows = &pages()[0].rows;
        assert_eq!(rows.iter().filter(|r| r.kind == 0).count(), 3);
        assert_eq!(
            (rows[3].kind, rows[3].id.as_str(), rows[3].verdict.as_str()),
            (1, "W9-1", "not measured")
        );
    }

    #[test]
    fn what_is_measured_again_takes_the_place_of_what_the_page_has() {
        let (full, quick) = both();
        let old = page(&full, &quick);
        // Expected as it is recorded, with one case more.
        let more = claim("C9-1", "three", "6", "reproduced", "reproduced");
        let again = [claim("C9-1", "one", "6.1", "reproduced", "reproduced"), more.clone()];
        let [one, two, all, own] = full.get("claims").list() else { panic!("there are four") };
        let three = json::parse(&more).expect("it is JSON");
        let claims = [one, two, &three, all, own].map(Clone::clone).to_vec();
        let whole = [("written", Json::Text("later".into())), ("claims", Json::List(claims))];
        let whole = Json::Object(whole.map(|(key, value)| (key.into(), value)).into());
        let again = record(&again);
        let new = spliced(&old, &whole, &again, &again).expect("every case is known");
        assert!(new.contains("| one | 5 | 4 to 6.5 | 6.10 | 6.10 |"), "{new}");
        assert!(new.contains("| two | 5 | 4 to 6.5 | -3.00 | (5.00) |"), "{new}");
        assert!(new.contains("| three | 5 | 4 to 6.5 | 6.00 | 6.00 |"), "{new}");
        assert!(new.contains("Bounds: `expected.json`, later.\n") && new.contains("long  12 us"), "{new}");
        // The same again changes nothing.
        assert_eq!(spliced(&new, &whole, &again, &again).as_ref(), Ok(&new));
        let lacks = record(&[claim("C9-1", "one", "6.1", "reproduced", "reproduced")]);
        assert!(spliced(&old, &whole, &lacks, &lacks).is_err_and(|why| why.contains("C9-1 three")));
    }

    #[test]
    fn the_quick_form_is_held_against_the_page() {
        let (_, quick) = both();
        assert_eq!(differences(&pages()[0], &quick), Ok(Vec::new()));
        let other = [
            claim("C9-1", "one", "4.6", "reproduced", "reproduced"),
            claim("C9-1", "two", "5", "reproduced", "reproduced"),
            claim("C9-2", "all", "7", "not-measured", "not-measured"),
            claim("W9-1", "own", "5", "not-measured", "not-measured"),
        ];
        let found = differences(&pages()[0], &record(&other)).expect("the claims are the same");
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].contains("4.60") && found[1].contains("in full not reproduced"), "{found:?}");
        assert!(differences(&pages()[0], &record(&other[..3])).is_err());
    }

    const OLD: &str = "# Claims\n\nReproduced in at least one case: none.\n\n\
        | [P](../../experiments/09-p/README.md) | w | x | y | why |\n\n\
        | [C9-1](../../experiments/09-p/RESULTS.md#c9-1) | By hand. | - |\n\
        | [C9-2](../../experiments/09-p/RESULTS.md#c9-2) | And this. | - |\n\
        | [W9-1](../../experiments/09-p/RESULTS.md#w9-1) | Ours. | - |\n";

    #[test]
    fn the_index_takes_verdicts_and_keeps_sentences() {
        let new = renewed(OLD, &pages()).expect("every claim has a row");
        assert!(new.contains("| 1 of 2 | 1 / 1 / 1 / 0 | 0 / 0 / 0 / 1 | why |"), "{new}");
        let counted =
            "\nReproduced in at least one case: 1 of 2 claims of the papers of which a case is measured.\n";
        assert!(new.contains(counted), "{new}");
        assert!(new.contains("| By hand. | 1 reproduced, 1 not reproduced |\n"), "{new}");
        assert!(
            new.contains("| And this. | direction only |\n") && new.contains("| Ours. | not measured |\n")
        );
        assert_eq!(renewed(&new, &pages()), Ok(new));
    }

    #[test]
    fn a_program_that_is_older_than_its_sources_is_refused() {
        let folder = std::env::temp_dir().join(format!("nandu-results-{}", std::process::id()));
        fs::create_dir_all(folder.join("src")).expect("there is room");
        let (program, source) = (folder.join("nandu"), folder.join("src").join("lib.rs"));
        let write = |path: &Path, seconds: u64| {
            let file = fs::File::create(path).expect("there is room");
            let at = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
            file.set_modified(at).expect("a file has a time");
        };
        write(&source, 1_000);
        let mut all = Vec::new();
        files(&folder.join("src"), &mut all).expect("the folder can be read");
        assert_eq!(all, std::slice::from_ref(&source));
        assert!(fresh(&program, &all).is_err_and(|why| why.contains("nandu")), "there is no program");
        write(&program, 1_000);
        assert_eq!(fresh(&program, &all), Ok(()));
        write(&source, 1_001);
        assert!(fresh(&program, &all).is_err_and(|why| why.contains("lib.rs") && why.contains("--no-build")));
        fs::remove_dir_all(folder).expect("it is ours");
        // What is listed is there: the sources of this crate's neighbours, and the stacks of the experiments.
        let listed = sources().expect("the checkout can be read");
        for name in ["crates/experiment/src/lib.rs", "experiments/02-tpc-ftl/dftl.toml", "Cargo.lock"] {
            assert!(listed.contains(&root().join(name)), "{name}");
        }
    }

    #[test]
    fn an_index_that_lacks_a_claim_or_names_none_is_refused() {
        let without = OLD.lines().filter(|l| !l.contains("C9-2")).collect::<Vec<_>>().join("\n");
        assert!(renewed(&without, &pages()).is_err_and(|why| why.contains("no row for C9-2")));
        let more = format!("{OLD}| [C9-7](../../experiments/09-p/RESULTS.md#c9-7) | No. | - |\n");
        assert!(renewed(&more, &pages()).is_err_and(|why| why.contains("C9-7 is in no RESULTS.md")));
        let astray = OLD.replace("RESULTS.md#c9-2", "RESULTS.md#c9-1");
        assert!(renewed(&astray, &pages()).is_err());
        assert!(renewed(&"\n".repeat(LINES + 1), &pages()).is_err());
    }
}
