//! The help of each command is pinned, ends with an example, and the examples work.
//!
//! After a change: `NANDU_UPDATE=1 cargo test -p nandu-cli --test help`, and read the difference.

mod support;

use std::path::{Path, PathBuf};
use support::{good, nandu_in, root};

const COMMANDS: [&[&str]; 28] = [
    &[],
    &["demo"],
    &["run"],
    &["compare"],
    &["diff"],
    &["sweep"],
    &["advise"],
    &["verify"],
    &["reproduce"],
    &["examine"],
    &["create"],
    &["assemble"],
    &["probe"],
    &["serve"],
    &["ctl"],
    &["stop"],
    &["list"],
    &["explain"],
    &["check"],
    &["schema"],
    &["trace"],
    &["trace", "info"],
    &["trace", "convert"],
    &["trace", "generate"],
    &["trace", "mrc"],
    &["completions"],
    &["man"],
    &["help"],
];

fn golden(command: &[&str]) -> PathBuf {
    let name = if command.is_empty() { "nandu".into() } else { command.join("-") };
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/help").join(format!("{name}.txt"))
}

fn help(command: &[&str]) -> String {
    if command == ["help"] {
        return good(&["help"]);
    }
    good(&[command, &["--help"]].concat())
}

#[test]
fn every_help_is_as_pinned() {
    let update = std::env::var_os("NANDU_UPDATE").is_some();
    for command in COMMANDS {
        let (text, path) = (help(command), golden(command));
        if update {
            std::fs::write(&path, &text).expect("the golden file can be written");
        }
        let pinned = std::fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(text, pinned, "{} differs; NANDU_UPDATE=1 writes it anew", path.display());
    }
}

/// The examples of a help: the lines behind `Example:` or `Examples:` that begin with `nandu`.
fn examples(text: &str) -> Vec<String> {
    let Some((_, behind)) = text.split_once("Example") else { return Vec::new() };
    let lines = behind.lines().map(str::trim);
    lines.filter(|l| l.starts_with("nandu ")).map(str::to_string).collect()
}

#[test]
fn every_help_has_an_example() {
    for command in COMMANDS {
        let text = help(command);
        assert!(!examples(&text).is_empty(), "nandu {} --help has no example", command.join(" "));
        let words: String = command.iter().map(|w| format!("{w} ")).collect();
        if command != ["help"] {
            let own = format!("nandu {words}");
            assert!(examples(&text).iter().all(|e| e.starts_with(own.trim_end())), "{text}");
        }
    }
}

/// Examples with files of the reader's own, that serve until they are told to stop, whose end says something of the
/// machines and not of the command line, or that `cargo xtask test` runs with the released program, in a tenth of the time.
const NOT_RUN: [&str; 19] = [
    "reproduce segment-prefetch",
    "nandu verify",
    "my.toml",
    "a.toml",
    "a.json",
    "Financial1",
    "WebSearch1",
    "hm_0.csv",
    "nandu serve",
    "nandu ctl",
    "nandu examine",
    "nandu create",
    "nandu assemble",
    "nandu stop",
    "completions bash >",
    "nandu man",
    "schema >",
    "nandu demo",
    "/dev/",
];

#[test]
fn the_examples_work() {
    let folder = tempfile::tempdir().expect("a folder");
    let stacks = root().join("stacks").canonicalize().expect("the stacks folder");
    std::os::unix::fs::symlink(stacks, folder.path().join("stacks")).expect("a link");
    let mut ran = 0;
    for command in COMMANDS {
        for example in examples(&help(command)) {
            if NOT_RUN.iter().any(|n| example.contains(n)) || command == ["help"] {
                continue;
            }
            let words: Vec<&str> = example.split_whitespace().skip(1).collect();
            let result = nandu_in(folder.path(), &words);
            assert_eq!(result.code, 0, "{example}: {}", result.err);
            assert!(!result.out.is_empty() || words.contains(&"generate"), "{example} prints nothing");
            ran += 1;
        }
    }
    assert!(ran >= 12, "only {ran} examples were run");
}

/// Where groff is installed it takes every page without a word.
#[test]
fn pages_of_the_manual_can_be_set() {
    let folder = tempfile::tempdir().expect("a folder");
    let ran = nandu_in(folder.path(), &["man", "--into", "pages"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    let pages = support::files(&folder.path().join("pages"));
    assert!(pages.contains(&"nandu.1".into()) && pages.contains(&"nandu-serve.1".into()), "{pages:?}");
    let one = nandu_in(folder.path(), &["man", "serve"]);
    let file = std::fs::read_to_string(folder.path().join("pages/nandu-serve.1")).expect("it is there");
    assert_eq!((one.code, one.out), (0, file));
    let unknown = nandu_in(folder.path(), &["man", "serv"]);
    assert!(unknown.code == 2 && unknown.err.contains("unknown command `serv`"), "{}", unknown.err);
    for page in pages {
        let path = folder.path().join("pages").join(&page);
        let set = std::process::Command::new("groff")
            .args(["-man", "-Tutf8", "-ww", "-P", "-cbou"])
            .arg(&path)
            .output();
        let Ok(set) = set else {
            eprintln!("skip: groff is not installed");
            return;
        };
        let said = String::from_utf8_lossy(&set.stderr);
        assert!(set.status.success() && said.is_empty(), "{page}: {said}");
        let text = String::from_utf8_lossy(&set.stdout);
        assert!(text.contains("SYNOPSIS") && text.contains("EXIT STATUS"), "{page}: {text}");
    }
}
