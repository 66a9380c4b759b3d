//! A stack file for members that were found: anew from their records, or an existing one whose files have other names now.

use super::{Examined, Set, What};
use crate::over_files::{Member, OverFiles};
use nandu_array::member::record::slots;
use nandu_base::ByteLen;
use nandu_stack::load::with_text_at;
use nandu_stack::{BuildOptions, Stack, StackFile};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// The layouts of parity arrays, by their number in records.
const LAYOUTS: [&str; 4] = ["left-symmetric", "left-asymmetric", "right-symmetric", "right-asymmetric"];
/// Longest part of a journal entry, as a power of two: where chunks are longer, journals of several sizes leave as much for data.
const PIECE_BITS: u8 = 17;
const NO_JOURNAL_SIZE: &str =
    "the size of its journal does not follow from its records: give the stack file of the set with --stack";

/// Whether a path names a block device.
pub fn is_device(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_block_device())
}

/// The path as it stands in a stack file: whoever serves it may be in another folder.
pub fn absolute(path: &str) -> String {
    std::path::absolute(path).map_or_else(|_| path.into(), |path| path.display().to_string())
}

/// The stack of `set`, of which the members of `all` were found. `hetero`: its mirror is a `hetero-mirror`, which its records do not say. Options
/// that only say how it works (rates, policies) have their defaults.
///
/// # Errors
/// A member is missing, or its records do not say enough; what would help.
pub fn stack_of(all: &[Examined], set: &Set, hetero: bool) -> Result<OverFiles, String> {
    let mut at: Vec<Option<&Examined>> = vec![None; set.members as usize];
    for &found in &set.found {
        let (place, _) = all[found].what.as_ref().and_then(What::member).expect("a set has members");
        let slot = at.get_mut(place as usize - 1);
        let slot = slot.ok_or_else(|| format!("`{}` is not a member of the set", all[found].path))?;
        if let Some(other) = slot.replace(&all[found]) {
            return Err(format!(
                "`{}` and `{}` are the same member: one is a copy of the other; name the one that was used last",
                other.path, all[found].path
            ));
        }
    }
    let missing: Vec<String> =
        (1..).zip(&at).filter(|(_, found)| found.is_none()).map(|(n, _)| n.to_string()).collect();
    if !missing.is_empty() {
        return Err(format!(
            "member {} of {} was not found: name its file too, or give the stack file of the set with --stack, and the others are placed in it",
            missing.join(", "),
            set.members
        ));
    }
    let at: Vec<&Examined> = at.into_iter().flatten().collect();
    // Only a flush that one leg answers makes a mirror say that it is not strict.
    let is_lax = matches!(&at[0].what, Some(What::Mirror(sb)) if !sb.strict);
    let kind = if (hetero || is_lax) && set.kind == "mirror" { "hetero-mirror" } else { set.kind };
    let mut options = Vec::new();
    let mut option = |key: &str, value: String| options.push((key.to_string(), value));
    match at[0].what.as_ref().expect("a member") {
        What::Mirror(sb) => {
            option("region_size", format!("\"{}\"", ByteLen(1 << sb.region_shift).exact()));
            if is_lax {
                option("flush_scope", "\"leader\"".into());
            }
        }
        What::Parity(sb) => {
            let [_, level, layout, chunk_bits, has_journal] = sb.shape;
            option("level", level.to_string());
            option("chunk", format!("\"{}\"", ByteLen(1 << chunk_bits.min(63)).exact()));
            // Level 3 has none.
            if let Some(layout) = LAYOUTS.get(usize::from(layout)) {
                option("layout", format!("\"{layout}\""));
            }
            let journal = slots(sb.head.leg_bytes).and_then(|[lower, _]| lower.checked_sub(sb.head.map));
            match (has_journal, journal) {
                (0, _) => option("write_hole", "\"resync\"".into()),
                (_, Some(bytes)) if sb.head.map != 0 => {
                    option("journal_size", format!("\"{}\"", ByteLen(bytes).exact()));
                }
                _ if chunk_bits > PIECE_BITS => return Err(NO_JOURNAL_SIZE.into()),
                _ => {} // as by default, if that leaves as much for data
            }
        }
        What::Hybrid(_) | What::Drive(_) => {
            return Err(
                "the options of a hybrid disk do not lie on its members: give its stack file with --stack"
                    .into(),
            );
        }
    }
    let names = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p"];
    let names: &[&str] = if kind == "hetero-mirror" { &["fast", "slow"] } else { &names };
    let members = names.iter().zip(&at).map(|(name, found)| Member {
        name: (*name).into(),
        path: absolute(&found.path),
        size: found.bytes,
        is_device: is_device(Path::new(&found.path)),
        checksums: found.checksums.map(|(block, _)| block),
    });
    let over = OverFiles {
        comment: vec![format!("{kind} {}, found on its members", &set.id[..8])],
        export: "data".into(),
        kind: kind.into(),
        options,
        members: members.collect(),
    };
    // What a parity array holds depends on its journal, whose size older records do not say.
    if let What::Parity(sb) = at[0].what.as_ref().expect("a member") {
        let holds = sb.data.checked_mul(u64::from(set.members) - 1).map(ByteLen);
        let stack = Stack::parse(&over.to_text()).map_err(|error| error.to_string())?;
        let built = stack.build(&BuildOptions::default()).map_err(|error| error.to_string())?;
        let top = built.parts.last().expect("a device");
        if Some(top.machine.limits().capacity) != holds {
            return Err(NO_JOURNAL_SIZE.into());
        }
    }
    Ok(over)
}

/// `text`, a stack file called `name`, in which each file below `device` is the one of `all` that has the member's records; and a line for each
/// member about where it was found. The device is the one with `kind` and as many members as the set, unless there are several.
///
/// # Errors
/// No device of the stack is such a set, or its members do not stand on one file each.
pub fn placed(text: &str, name: &str, all: &[Examined], set: &Set) -> Result<(String, Vec<String>), String> {
    let file = StackFile::parse(text, name).map_err(|error| error.to_string())?;
    let stack = file.load(&nandu_stack::builtin()).map_err(|error| error.to_string())?;
    let is_set = |kind: &str| kind == set.kind || kind == "hetero-mirror" && set.kind == "mirror";
    let fits: Vec<usize> = (0..stack.devices.len())
        .filter(|&at| {
            let device = &stack.devices[at];
            is_set(device.kind.name) && device.children.len() == set.members as usize
        })
        .collect();
    let device = match fits[..] {
        [device] => device,
        [] => return Err(format!("{name}: no {} of {} members stands in it", set.kind, set.members)),
        _ => {
            return Err(format!(
                "{name}: several devices are a {} of {} members; name the files by hand",
                set.kind, set.members
            ));
        }
    };
    let mut text = text.to_string();
    let mut said = Vec::new();
    for (place, &child) in (1..).zip(&stack.devices[device].children) {
        let leaf = leaf_below(&stack, child).ok_or_else(|| {
            format!("{name}: `{}` does not stand on one file", stack.devices[child as usize].name)
        })?;
        let is_it =
            |at: &&usize| all[**at].what.as_ref().and_then(What::member).is_some_and(|(n, _)| n == place);
        let found: Vec<&usize> = set.found.iter().filter(is_it).collect();
        match found[..] {
            [] => said.push(format!("{leaf}: not found; its path stays")),
            [&at] => {
                let path = absolute(&all[at].path);
                text = with_text_at(&text, &["device", leaf, "path"], &path).ok_or_else(|| {
                    format!("{name}: `device.{leaf}.path` is not written as a text of its own")
                })?;
                said.push(format!("{leaf}: {path}"));
            }
            [&one, &other, ..] => {
                let (one, other) = (&all[one].path, &all[other].path);
                return Err(format!(
                    "`{one}` and `{other}` are the same member: one is a copy of the other; name the one that was used last"
                ));
            }
        }
    }
    Ok((text, said))
}

/// The file that a row of layers ends in, each with one below it.
fn leaf_below(stack: &Stack, mut node: u32) -> Option<&str> {
    loop {
        let device = &stack.devices[node as usize];
        match device.children[..] {
            [] => return (device.kind.name == "file").then_some(&device.name),
            [below] => node = below,
            _ => return None,
        }
    }
}
