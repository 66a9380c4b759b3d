//! Every command that a message, a log line, an example or a page names exists, with the options that it is named with.
//!
//! Looked at are the sources of all crates (comments and text alike: `nandu WORD` between backquotes, and lines of examples), and README.md, docs and
//! experiments (backquotes, and lines of blocks). Records of decisions and the list of changes also speak of what was, so they are left out.

mod support;

use clap::CommandFactory;
use nandu_cli::args::Cli;
use std::path::{Path, PathBuf};
use support::root;

/// What is not a command of the program, although it stands where one would.
const END: [&str; 8] = ["|", "||", "&", "&&", ";", ">", "2>", "..."];

/// Files below `folder` that end so.
fn files(folder: &Path, end: &str) -> Vec<PathBuf> {
    let mut out = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder").map(|entry| entry.expect("an entry")) {
            let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
            if path.is_dir() && name != "decisions" && name != "target" {
                folders.push(path);
            } else if path.is_file() && name.ends_with(end) {
                out.push(path);
            }
        }
    }
    out.sort();
    out
}

/// The command lines that a text names, without `nandu`.
fn named(text: &str) -> Vec<(usize, &str)> {
    let mut out = Vec::new();
    for (at, line) in (1..).zip(text.lines()) {
        let spans = || line.split('`').skip(1).step_by(2);
        out.extend(spans().filter_map(|span| Some((at, span.strip_prefix("nandu ")?))));
        // Half of a command is none.
        out.extend(spans().filter(|span| span.starts_with("ctl ")).map(|span| (at, span)));
        let bare = line.trim_start().trim_start_matches("//! ").trim_start_matches("$ ");
        out.extend(bare.strip_prefix("nandu ").filter(|_| !line.contains('`')).map(|rest| (at, rest)));
    }
    out
}

/// What is wrong with a command line.
fn flaw(line: &str, root: &clap::Command) -> Option<String> {
    let mut command = root;
    let mut positionals = 0;
    for word in line.split_whitespace() {
        if word.starts_with(['\'', '"']) {
            return None; // a command of others
        }
        let word = word.trim_matches(|c: char| "[](),\\.:".contains(c));
        if END.contains(&word) || word.starts_with('#') || word.starts_with("//") {
            return None;
        }
        if let Some(option) = word.strip_prefix("--") {
            let name = option.split('=').next().unwrap_or_default();
            let known = |c: &clap::Command| c.get_arguments().any(|arg| arg.get_long() == Some(name));
            // Global options are declared above.
            let is_global = known(root) || ["help", "version", "json"].contains(&name);
            if !name.is_empty()
                && name.chars().all(|c| c.is_ascii_lowercase() || c == '-')
                && !known(command)
                && !is_global
            {
                return Some(format!("`nandu {}` has no option --{name}", command.get_name()));
            }
            continue;
        }
        let is_word = !word.is_empty()
            && word.chars().all(|c| c.is_ascii_lowercase() || c == '-')
            && !word.starts_with('-');
        let before = command.get_positionals().count();
        if !command.has_subcommands() || positionals < before {
            positionals += 1;
        } else if let Some(found) = is_word.then(|| command.find_subcommand(word)) {
            let Some(found) = found else {
                return Some(format!("`nandu` knows no `{word}` there"));
            };
            (command, positionals) = (found, 0);
        } else {
            return None; // a placeholder stands for the rest
        }
    }
    None
}

#[test]
fn every_command_that_is_named_exists() {
    let mut known = Cli::command();
    known.build();
    let mut sources: Vec<PathBuf> = vec![root().join("README.md"), root().join("CONTRIBUTING.md")];
    sources.extend(files(&root().join("docs"), ".md"));
    sources.extend(files(&root().join("experiments"), ".md"));
    for entry in std::fs::read_dir(root().join("crates")).expect("a folder") {
        let folder = entry.expect("an entry").path().join("src");
        sources.extend(folder.is_dir().then(|| files(&folder, ".rs")).into_iter().flatten());
    }
    let (mut wrong, mut count) = (Vec::new(), 0);
    for path in sources {
        let text = std::fs::read_to_string(&path).expect("it can be read");
        for (at, line) in named(&text) {
            count += 1;
            wrong.extend(
                flaw(line, &known).map(|why| format!("{}:{at}: nandu {line}: {why}", path.display())),
            );
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count > 300, "only {count} were found: the scan is broken");
}

/// What the service manager starts is a command line of this version.
#[test]
fn the_unit_starts_a_server() {
    let unit = std::fs::read_to_string(root().join("packaging/nandu@.service")).expect("it is there");
    let line =
        unit.lines().find_map(|line| line.strip_prefix("ExecStart=/usr/bin/")).expect("it starts nandu");
    let parsed = <Cli as clap::Parser>::try_parse_from(line.replace("%i", "disk").split_whitespace());
    match parsed.unwrap_or_else(|error| panic!("{error}")).command {
        nandu_cli::args::Command::Serve(args) => {
            assert_eq!(args.stack, "/etc/nandu/disk.toml");
            assert!(!args.create && args.control.is_some() && args.metrics.is_some());
        }
        other => panic!("{other:?}"),
    }
    assert!(unit.contains("Type=notify\n") && unit.contains("\nNoNewPrivileges=yes\n"));
}

#[test]
fn what_does_not_exist_is_seen() {
    let mut known = Cli::command();
    known.build();
    let flaw = |line: &str| flaw(line, &known);
    for good in [
        "ctl SOCKET add {leg}",
        "ctl disk.sock replace a with new.img",
        "serve {shown} -U SOCKET --control SOCKET",
        "trace info x.spc --json",
        "list",
        "COMMAND --help",
        "run a.toml --trace t | less",
    ] {
        assert_eq!(flaw(good), None, "{good}");
    }
    for bad in ["ctl SOCKET mend a", "serves disk.toml", "serve disk.toml --kontrol x", "trace draw", "add b"]
    {
        assert!(flaw(bad).is_some(), "{bad}");
    }
    let lines = named("say `nandu add b` and `ctl add b`\n$ nandu serve x\n  nandu list\n`x` nandu demo\n");
    assert_eq!(lines, [(1, "add b"), (1, "ctl add b"), (2, "serve x"), (3, "list")]);
    assert!(flaw("ctl add b").is_some(), "its socket is missing");
}
