//! The words of a command line that had another name in the version before get their present one, and a note. The names are those of
//! [`nandu_experiment::renamed`], and for `ctl` those of its socket.
//!
//! It is done before the words are parsed, so that help, completions and errors know the present names alone.

use nandu_experiment::renamed::{list, note, option};
use nandu_live::ctl;
use std::ffi::OsString;

/// The arguments under their present names, and a note for each that had another.
pub fn now(args: impl IntoIterator<Item = OsString>) -> (Vec<OsString>, Vec<String>) {
    let mut args: Vec<OsString> = args.into_iter().collect();
    let mut notes = Vec::new();
    // The command and the words behind it that are no options, by their places.
    let mut words = Vec::new();
    for at in 1..args.len() {
        let Some(text) = args[at].to_str().map(String::from) else {
            words.push(at);
            continue;
        };
        if text == "--" {
            break;
        }
        if !text.starts_with('-') {
            words.push(at);
            continue;
        }
        let command = words.first().and_then(|&at: &usize| args[at].to_str()).unwrap_or_default();
        let (name, value) = text.split_once('=').map_or((&*text, None), |(name, value)| (name, Some(value)));
        if let Some(new) = option(command, name) {
            notes.push(note(name, new));
            args[at] = value.map_or_else(|| new.into(), |value| format!("{new}={value}").into());
        }
    }
    let texts: Vec<String> = words.iter().map(|&at| args[at].to_string_lossy().into_owned()).collect();
    let mut texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let renamed = match &mut texts[..] {
        ["list", what, ..] => list(what).map(|new| (words[1], std::mem::replace(what, new), new)),
        ["ctl", _, said @ ..] => ctl::renamed(said).map(|(at, old, new)| (words[2 + at], old, new)),
        _ => None,
    };
    if let Some((at, old, new)) = renamed {
        notes.push(note(old, new));
        args[at] = new.into();
    }
    (args, notes)
}

#[cfg(test)]
mod tests {
    use super::super::{Cli, Listed};
    use super::*;
    use clap::{CommandFactory, Parser, ValueEnum};
    use nandu_experiment::renamed::{LISTS, OPTIONS};

    fn renamed(line: &str) -> (String, Vec<String>) {
        let (args, notes) = now(line.split(' ').map(OsString::from));
        let args: Vec<String> = args.into_iter().map(|arg| arg.into_string().expect("text")).collect();
        (args.join(" "), notes)
    }

    #[test]
    fn old_words_are_the_new_ones_with_a_note() {
        for (old, new) in [
            ("nandu run s --closed 4 --alone", "nandu run s --iodepth 4 --slowdown"),
            ("nandu -q run --closed=4 s", "nandu -q run --iodepth=4 s"),
            ("nandu verify --log --plant all", "nandu verify --print-requests --inject-bug all"),
            ("nandu serve s --alone --log f", "nandu serve s --force-degraded --log f"),
            ("nandu list plants --json", "nandu list bugs --json"),
            ("nandu ctl sock lead a", "nandu ctl sock set-leader a"),
            ("nandu ctl --json sock fail a anyway", "nandu ctl --json sock fail a --force"),
            ("nandu ctl sock scrub m mend", "nandu ctl sock scrub m repair"),
        ] {
            let (words, notes) = renamed(old);
            assert_eq!(words, new);
            assert!(
                notes.iter().all(|note| note.contains(" is now called ")) && !notes.is_empty(),
                "{notes:?}"
            );
            assert_eq!(renamed(new), (new.into(), Vec::new()));
            Cli::try_parse_from(words.split(' ')).unwrap_or_else(|error| panic!("{new}: {error}"));
        }
    }

    #[test]
    fn words_of_other_places_stay() {
        for line in [
            "nandu run s -- --closed",
            "nandu list ssd plants",
            "nandu run plants --trace machines",
            "nandu ctl lead status",
            "nandu ctl sock add anyway",
            "nandu trace info --alone",
        ] {
            assert_eq!(renamed(line), (line.into(), Vec::new()));
        }
    }

    /// A name that is mistyped in the list would be an unknown option.
    #[test]
    fn every_new_name_is_one_of_its_commands_and_no_old_one_is() {
        let program = Cli::command();
        for (commands, old, new) in OPTIONS {
            for command in *commands {
                let command =
                    program.find_subcommand(command).unwrap_or_else(|| panic!("there is no {command}"));
                let has =
                    |name: &str| command.get_arguments().any(|arg| arg.get_long() == name.strip_prefix("--"));
                assert!(has(new) && !has(old), "{}: {old} is called {new}", command.get_name());
            }
        }
        let is_list = |word: &str| Listed::from_str(word, false).is_ok();
        for (old, new) in LISTS {
            assert!(is_list(new) && !is_list(old), "{old} is called {new}");
        }
    }
}
