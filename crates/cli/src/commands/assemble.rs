//! `nandu assemble`: the stack file of a set, by what lies on its members.

use crate::args::AssembleArgs;
use crate::console::Console;
use crate::failure::Failure;
use crate::files;
use crate::output;
use nandu_live::examine::{Examined, Set, examine, placed, sets, stack_of};
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;

/// Looks at the files, and writes the stack file of the set that they belong to.
pub fn assemble(args: &AssembleArgs, console: Console<'_>) -> Result<(), Failure> {
    let found = args.files.iter().map(|path| examine(path));
    let found: Vec<Examined> =
        found.collect::<Result<_, _>>().map_err(|error| Failure::input(error.to_string()))?;
    let sets = sets(&found);
    let set = chosen(&sets, args.set.as_deref())?;
    let text = match &args.stack {
        Some(path) => {
            let shown = path.display().to_string();
            let text = std::fs::read_to_string(path).map_err(|error| Failure::unreadable(path, &error))?;
            let (text, said) = placed(&text, &shown, &found, set).map_err(Failure::input)?;
            said.iter().for_each(|line| console.note(line));
            text
        }
        None => stack_of(&found, set, args.hetero).map_err(Failure::input)?.to_text(),
    };
    let start = match &set.start {
        Ok(start) => start.clone(),
        Err(why) => format!("does not start: {why}"),
    };
    console.note(format!("{} {}: {start}", set.kind, &set.id[..8]));
    match &args.output {
        None => output::print_as_it_is(&text),
        Some(path) => {
            put(path, &text)?;
            let shown = path.display();
            console.note(format!("{shown} is written; serve it: `nandu serve {shown} -U SOCKET`"));
            Ok(())
        }
    }
}

/// The set that is meant.
fn chosen<'a>(sets: &'a [Set], wanted: Option<&str>) -> Result<&'a Set, Failure> {
    let fits: Vec<&Set> = sets.iter().filter(|set| wanted.is_none_or(|w| set.id.starts_with(w))).collect();
    let known =
        || sets.iter().map(|set| format!("{} {}", set.kind, &set.id[..8])).collect::<Vec<_>>().join(", ");
    match (&fits[..], wanted) {
        ([set], _) => Ok(set),
        ([], _) if sets.is_empty() => Err(Failure::input(
            "no member of a set lies on these; name the files or devices of a mirror, a parity array or a hybrid disk",
        )),
        ([], Some(wanted)) => {
            Err(Failure::input(format!("no set begins with `{wanted}`; there are: {}", known())))
        }
        _ => Err(Failure::input(format!("members of several sets: {}; choose one with --set", known()))),
    }
}

/// Writes a stack file where nothing is yet.
pub(super) fn put(path: &Path, text: &str) -> Result<(), Failure> {
    files::check_writable(path)?;
    let opened = OpenOptions::new().write(true).create_new(true).open(path);
    let mut file = opened.map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => Failure::input(format!(
            "{}: it is there already; name another file for the stack",
            path.display()
        )),
        _ => Failure::unwritable(path, &error),
    })?;
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(|error| {
        let _ = std::fs::remove_file(path); // half of a stack file is none
        Failure::unwritable(path, &error)
    })
}
