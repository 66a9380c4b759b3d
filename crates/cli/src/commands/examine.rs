//! `nandu examine`: what lies on files and devices, and what a start of their sets would do.

use crate::args::ExamineArgs;
use crate::failure::Failure;
use crate::format::size;
use crate::output;
use crate::table::Table;
use nandu_live::examine::{Examined, Set, What, examine as look, sets};
use serde_json::{Value, json};
use std::fmt::Write;

/// Looks at each, and prints.
pub fn examine(args: &ExamineArgs) -> Result<(), Failure> {
    let found = args.files.iter().map(|path| look(path));
    let found: Vec<Examined> =
        found.collect::<Result<_, _>>().map_err(|error| Failure::input(error.to_string()))?;
    let sets = sets(&found);
    if args.json { output::print_json(&to_json(&found, &sets)) } else { output::print(&text(&found, &sets)) }
}

/// What it is, in a few words.
fn said(one: &Examined) -> String {
    let what = match &one.what {
        Some(What::Drive(said)) => format!("emulated drive: {said}"),
        Some(what) => what.kind().into(),
        None if one.is_blank => "blank".into(),
        None => match one.was {
            Some((was, kind)) => format!("{kind}, when it was {} long", size(was.0)),
            None => "nothing of Nandu".into(),
        },
    };
    if one.checksums.is_some() { format!("integrity, {what}") } else { what }
}

fn text(found: &[Examined], sets: &[Set]) -> String {
    let mut table = Table::new(["<file", "size", "<what", "<set", "<member", "generation", "<state"]);
    for one in found {
        let what = one.what.as_ref();
        let state = what.map_or("", What::state);
        let in_use = if one.in_use { if state.is_empty() { "in use" } else { ", in use" } } else { "" };
        let member = what.and_then(What::member).map(|(place, of)| format!("{place} of {of}"));
        table.row([
            one.path.clone(),
            size(one.bytes.0),
            said(one),
            what.and_then(What::set).map_or_else(String::new, |set| set[..8].into()),
            member.unwrap_or_default(),
            what.and_then(What::generation).map_or_else(String::new, |n| n.to_string()),
            format!("{state}{in_use}"),
        ]);
    }
    let mut out = table.to_string();
    for one in found {
        if let Some((was, kind)) = one.was {
            let (path, bytes) = (&one.path, one.bytes.0);
            let how = match kind {
                "mirror" | "parity" => {
                    "It is used as it was until `nandu ctl SOCKET grow` has more of it served, and at its old length too"
                }
                _ => "It is found again at its old length",
            };
            let _ = writeln!(
                out,
                "\n{path}: the records of a {kind} end at byte {}, and the file has {bytes}. {how}: `truncate -s {} {path}`, if nothing was \
                 written behind it",
                was.0, was.0
            );
        }
    }
    for one in found {
        let Some(regions) = &one.regions else { continue };
        for (ranges, what) in [
            (&regions.lost, "lost with its rings, and fails until it is written whole"),
            (&regions.dirty, "dirty: a ring may have something newer"),
        ] {
            for (from, to) in ranges {
                let _ = writeln!(out, "\n{}: bytes {from} to {to} ({}): {what}", one.path, size(to - from));
            }
        }
    }
    for set in sets {
        let of = format!("{} of {} members", set.found.len(), set.members);
        let start = match &set.start {
            Ok(start) => start.clone(),
            Err(why) => format!("does not start: {why}"),
        };
        let _ = writeln!(out, "\n{} {}, {of}: {start}", set.kind, &set.id[..8]);
    }
    out
}

/// Bytes from the first to one past the last.
fn ranges(all: &[(u64, u64)]) -> Value {
    all.iter().map(|(from, to)| json!({ "from_bytes": from, "to_bytes": to })).collect()
}

fn to_json(found: &[Examined], sets: &[Set]) -> Value {
    let files: Vec<Value> = found
        .iter()
        .map(|one| {
            let what = one.what.as_ref();
            let member = what.and_then(What::member);
            let drive = what.and_then(|what| match what {
                What::Drive(said) => Some(said),
                _ => None,
            });
            json!({
                "path": one.path,
                "bytes": one.bytes.0,
                "in_use": one.in_use,
                "blank": one.is_blank,
                "was_bytes": one.was.map(|(was, _)| was.0),
                "was_kind": one.was.map(|(_, kind)| kind),
                "kind": what.map(What::kind),
                "drive": drive,
                "set": what.and_then(What::set),
                "member": member.map(|(place, _)| place),
                "members": member.map(|(_, of)| of),
                "generation": what.and_then(What::generation),
                "state": what.map(What::state).filter(|state| !state.is_empty()),
                "checksum_block": one.checksums.map(|(block, _)| block.0),
                "dirty": one.regions.as_ref().map(|regions| ranges(&regions.dirty)),
                "lost": one.regions.as_ref().map(|regions| ranges(&regions.lost)),
            })
        })
        .collect();
    let sets: Vec<Value> = sets
        .iter()
        .map(|set| {
            json!({
                "kind": set.kind,
                "set": set.id,
                "members": set.members,
                "found": set.found.iter().map(|&at| &found[at].path).collect::<Vec<_>>(),
                "starts": set.start.is_ok(),
                "start": set.start.as_ref().unwrap_or_else(|why| why),
            })
        })
        .collect();
    json!({ "schema": nandu_sim::result::SCHEMA, "files": files, "sets": sets })
}
