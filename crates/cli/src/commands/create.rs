//! `nandu create`: blank files or devices become a set, and a stack file serves it.
//!
//! The stack file is written first, then the server makes the set and closes it: what it refuses to take for blank is refused here, and the
//! stack file goes again.

use super::assemble::put;
use crate::args::{CreateArgs, SetKind};
use crate::failure::Failure;
use crate::format::size;
use crate::output;
use crate::room::left_over;
use crate::table::Table;
use nandu_base::ByteLen;
use nandu_live::examine::{What, absolute, examine, is_device};
use nandu_live::over_files::{Member, OverFiles};
use nandu_live::{Report, ServeError, ServeOptions};
use nandu_stack::{BuildOptions, Stack, StackFile};
use serde_json::json;
use std::path::{Path, PathBuf};

/// Members are used in whole blocks of this.
const BLOCK: u64 = 4096;

/// Makes the set, and prints what it is.
pub fn create(args: &CreateArgs) -> Result<(), Failure> {
    let kind = args.kind.word();
    let members = members(args)?;
    let over = OverFiles {
        comment: vec![format!("a {kind} over {} files", members.len())],
        export: args.export.clone(),
        kind: kind.into(),
        options: Vec::new(),
        members,
    };
    let text = with_options(&over, args)?;
    let shown = args.output.display().to_string();
    let stack = StackFile::parse(&text, &shown)?.load(crate::registry())?;
    let unused = unused(&stack, &over)?;
    put(&args.output, &text)?;
    let mut options = ServeOptions {
        create: true,
        assume_clean: args.assume_clean,
        run: Some("true".into()),
        stack_file: Some(args.output.clone()),
        watchdog: nandu_base::Span::ZERO,
        ..ServeOptions::new(stack)
    };
    options.exports = vec![args.export.clone()];
    let made = nandu_live::serve(options, &mut |report| {
        if let Report::Opened { result: Err(_), .. } | Report::Missing { .. } = report {
            output::say(format_args!("{}", report.line()));
        }
    });
    if let Err(error) = made {
        let _ = std::fs::remove_file(&args.output); // it says what does not exist
        return Err(match error {
            ServeError::Stack(error) => error.into(),
            error if error.exit_code() == crate::INPUT => Failure::input(error.to_string()),
            error => Failure::failed(error.to_string()),
        });
    }
    print(args, &over, &unused)
}

/// What of each member the set does not use.
fn unused(stack: &Stack, over: &OverFiles) -> Result<Vec<u64>, Failure> {
    let built = stack.build(&BuildOptions::default())?;
    let left = left_over(stack, &built);
    let of = |name: &str| {
        let at = built.parts.iter().position(|part| part.name == name);
        at.map_or(0, |at| left[at].bytes.0)
    };
    // What checksums over a member leave out is little, and is told by `check`.
    Ok(over.members.iter().map(|member| of(&member.name)).collect())
}

/// The files as members, with their sizes.
fn members(args: &CreateArgs) -> Result<Vec<Member>, Failure> {
    let few = |least: usize, most: usize, what: &str| match args.files.len() {
        n if (least..=most).contains(&n) => Ok(()),
        n => Err(Failure::input(format!("{what}; {n} are named"))),
    };
    match args.kind {
        SetKind::Mirror => few(2, 8, "a mirror has two to eight members"),
        SetKind::HeteroMirror => few(2, 2, "a hetero-mirror has two members, the faster one first"),
        SetKind::Parity => few(3, 16, "a parity array has three to sixteen members"),
        SetKind::Stripe | SetKind::Concat => few(1, 64, "one to sixty-four members are wanted"),
        SetKind::Hybrid => few(2, 3, "a hybrid disk has `slc=FILE`, `mlc=FILE` or both, and `disk=FILE`"),
    }?;
    let mut members: Vec<Member> = Vec::new();
    for (place, word) in args.files.iter().enumerate() {
        let (name, path) = match word.split_once('=') {
            Some((name, path)) if !Path::new(word).exists() => (Some(name), path),
            _ => (None, word.as_str()),
        };
        let name = match (name, args.kind) {
            (Some(name), SetKind::Hybrid) if ["slc", "mlc", "disk"].contains(&name) => name.to_string(),
            (_, SetKind::Hybrid) => {
                return Err(Failure::input(format!(
                    "`{word}`: say what it is: `slc=FILE`, `mlc=FILE` or `disk=FILE`"
                )));
            }
            (Some(name), _) => name.into(),
            (None, SetKind::HeteroMirror) => ["fast", "slow"][place].into(),
            (None, _) if place < 26 => char::from(b'a' + place as u8).to_string(),
            (None, _) => format!("m{}", place + 1),
        };
        if members.iter().any(|other| other.name == name) {
            return Err(Failure::input(format!("two members are called `{name}`")));
        }
        members.push(Member {
            name,
            path: absolute(path),
            size: size_of(Path::new(path), args.size)?,
            is_device: is_device(Path::new(path)),
            checksums: args.integrity.then_some(ByteLen(BLOCK)),
        });
    }
    if args.kind == SetKind::Hybrid {
        members.sort_by_key(|member| ["slc", "mlc", "disk"].iter().position(|role| *role == member.name));
        if members.last().is_none_or(|member| member.name != "disk") {
            return Err(Failure::input("a hybrid disk needs its disk: `disk=FILE`"));
        }
    }
    Ok(members)
}

/// What a file holds, or is to hold.
fn size_of(path: &Path, wanted: Option<ByteLen>) -> Result<ByteLen, Failure> {
    let shown = path.display();
    let there = match std::fs::metadata(path) {
        Ok(_) => {
            let found = examine(path).map_err(|error| Failure::input(error.to_string()))?;
            if found.in_use {
                return Err(Failure::input(format!("{shown}: a server has it in use; name another one")));
            }
            // A device would take records of its own kind for its own, and go on with them.
            if let Some(what) = found.what.as_ref().map(What::kind).or(found.checksums.map(|_| "integrity")) {
                return Err(Failure::input(format!(
                    "{shown}: it is part of a {what}; `nandu examine {shown}` says of which; name another one, or empty it first"
                )));
            }
            found.bytes.0
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => 0,
        Err(error) => return Err(Failure::unreadable(path, &error)),
    };
    let bytes = match (there, wanted) {
        (0, None) => {
            return Err(Failure::input(format!(
                "{shown}: it is missing or empty: say how large it is to be, with --size SIZE"
            )));
        }
        (0, Some(wanted)) => wanted.0,
        (there, Some(wanted)) if wanted.0 > there => {
            return Err(Failure::input(format!(
                "{shown}: it has {} and --size asks for {}; name a larger one, or ask for less",
                size(there),
                size(wanted.0)
            )));
        }
        // Records lie at the end: a device of which less is used would not be found by them.
        (there, _) => there,
    };
    match bytes / BLOCK * BLOCK {
        0 => Err(Failure::input(format!("{shown}: {bytes} bytes are too few; at least {BLOCK} are wanted"))),
        whole => Ok(ByteLen(whole)),
    }
}

/// The text with the options that were set.
fn with_options(over: &OverFiles, args: &CreateArgs) -> Result<String, Failure> {
    let text = over.to_text();
    if args.set.is_empty() {
        return Ok(text);
    }
    let shown = args.output.display().to_string();
    let mut file = StackFile::parse(&text, &shown)?;
    for (key, value) in &args.set {
        file = file.with_set(&format!("device.{}.{key}", over.kind), value)?;
    }
    let comment: String = over.comment.iter().map(|line| format!("# {line}\n")).collect();
    Ok(format!("{comment}\n{}", file.to_text()))
}

fn print(args: &CreateArgs, over: &OverFiles, unused: &[u64]) -> Result<(), Failure> {
    let set = over.members.first().and_then(|first| {
        let found = examine(&PathBuf::from(&first.path)).ok()?;
        found.what.as_ref().and_then(|what| what.set())
    });
    let shown = args.output.display();
    if args.json {
        let members: Vec<_> = over
            .members
            .iter()
            .zip(unused)
            .map(|(member, unused)| {
                json!({ "name": member.name, "path": member.path, "bytes": member.size.0, "unused_bytes": unused })
            })
            .collect();
        return output::print_json(&json!({
            "schema": nandu_sim::result::SCHEMA, "stack": shown.to_string(), "kind": over.kind, "set": set, "export": over.export, "members": members,
        }));
    }
    let mut table = Table::new(["<member", "size", "<file"]);
    for member in &over.members {
        table.row([member.name.clone(), size(member.size.0), member.path.clone()]);
    }
    let mut left = String::new();
    for (member, &unused) in over.members.iter().zip(unused) {
        // A tail below a unit is not worth a word here.
        if unused >= member.size.0 / 100 {
            left += &format!("{} of {} stay unused: it is larger than others\n", size(unused), member.name);
        }
    }
    let called = set.map_or_else(String::new, |set| format!(" {}", &set[..8]));
    output::print(&format!(
        "{}{called}, served by {shown}\n\n{table}{left}\nnandu serve {shown} -U SOCKET --control SOCKET\n",
        over.kind
    ))
}
