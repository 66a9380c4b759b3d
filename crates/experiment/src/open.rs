//! Stacks by name: a file, or one of those that come with Nandu.

use crate::failure::Failure;
use crate::format::percent;
use crate::replay::{Replay, is_file_of_columns};
use crate::{room, tenancy};
use nandu_base::registry::nearest;
use nandu_base::{Ask, ByteLen, Registry, Report};
use nandu_stack::{BuildOptions, Built, BuiltPart, Stack, StackFile, Workload};
use serde::Serialize;
use std::path::{Path, PathBuf};

/// The stacks that come with Nandu: name and text.
pub const BUILTIN: &[(&str, &str)] = &[
    ("memory", include_str!("../stacks/memory.toml")),
    ("page-map", include_str!("../stacks/page-map.toml")),
    ("cache", include_str!("../stacks/cache.toml")),
    ("dftl", include_str!("../stacks/dftl.toml")),
    ("cftl", include_str!("../stacks/cftl.toml")),
    ("tpftl", include_str!("../stacks/tpftl.toml")),
    ("sftl", include_str!("../stacks/sftl.toml")),
    ("leaftl", include_str!("../stacks/leaftl.toml")),
    ("tpc-ftl", include_str!("../stacks/tpc-ftl.toml")),
    ("block-map", include_str!("../stacks/block-map.toml")),
    ("bast", include_str!("../stacks/bast.toml")),
    ("fast", include_str!("../stacks/fast.toml")),
    ("small-ssd", include_str!("../stacks/small-ssd.toml")),
    ("small-ssd-spare", include_str!("../stacks/small-ssd-spare.toml")),
    ("read-priority", include_str!("../stacks/read-priority.toml")),
    ("write-buffer", include_str!("../stacks/write-buffer.toml")),
    ("suspension", include_str!("../stacks/suspension.toml")),
    ("slc-cache", include_str!("../stacks/slc-cache.toml")),
    ("shared-space", include_str!("../stacks/shared-space.toml")),
    ("hdd", include_str!("../stacks/hdd.toml")),
    ("ssd-stripe", include_str!("../stacks/ssd-stripe.toml")),
    ("ssd-mirror", include_str!("../stacks/ssd-mirror.toml")),
    ("stripe", include_str!("../stacks/stripe.toml")),
    ("mirror-of-files", include_str!("../stacks/mirror-of-files.toml")),
    ("mirror-of-three", include_str!("../stacks/mirror-of-three.toml")),
    ("checked-mirror", include_str!("../stacks/checked-mirror.toml")),
    ("raid5-of-files", include_str!("../stacks/raid5-of-files.toml")),
    ("hetero-mirror", include_str!("../stacks/hetero-mirror.toml")),
    ("hetero-mirror-of-files", include_str!("../stacks/hetero-mirror-of-files.toml")),
    ("raid5", include_str!("../stacks/raid5.toml")),
    ("fair-queue", include_str!("../stacks/fair-queue.toml")),
    ("fair-dies", include_str!("../stacks/fair-dies.toml")),
    ("served-drive", include_str!("../stacks/served-drive.toml")),
    ("served-tenants", include_str!("../stacks/served-tenants.toml")),
    ("cached-mirror", include_str!("../stacks/cached-mirror.toml")),
    ("segments-over-tpc", include_str!("../stacks/segments-over-tpc.toml")),
    ("hybrid", include_str!("../stacks/hybrid.toml")),
    ("faulty", include_str!("../stacks/faulty.toml")),
    ("shared-chip", include_str!("../stacks/shared-chip.toml")),
    ("durable-queue", include_str!("../stacks/durable-queue.toml")),
    ("resting-mirror", include_str!("../stacks/resting-mirror.toml")),
    ("culling-tier", include_str!("../stacks/culling-tier.toml")),
];

/// A stack that was read and checked.
pub struct Opened {
    /// What tables call it.
    pub label: String,
    /// The file, or the name of a built-in stack.
    pub source: String,
    /// The folder of the file; traces that it names are relative to it.
    pub folder: PathBuf,
    /// The stack.
    pub stack: Stack,
}

/// The text of stack `name` and what messages call it.
pub fn text(name: &str) -> Result<(String, String), Failure> {
    let path = Path::new(name);
    if path.is_file() {
        let text = std::fs::read_to_string(path).map_err(|e| Failure::unreadable(path, &e))?;
        return Ok((text, name.into()));
    }
    match BUILTIN.iter().find(|(builtin, _)| *builtin == name) {
        Some((builtin, text)) => Ok(((*text).into(), format!("{builtin}.toml (built in)"))),
        None => Err(missing(name)),
    }
}

fn missing(name: &str) -> Failure {
    if Path::new(name).is_dir() {
        return Failure::input(format!("{name}: is a directory; name a stack file in it"));
    }
    let near = nearest(name, BUILTIN.iter().map(|b| b.0));
    let near = near.map(str::to_string).or_else(|| crate::source::nearest_file(Path::new(name), &["toml"]));
    let hint = near.map_or_else(String::new, |n| format!("; did you mean `{n}`?"));
    Failure::input(format!("`{name}` is neither a stack file nor a built-in stack{hint}"))
        .with_help("`nandu list stacks` shows the built-in stacks")
}

/// `file` with `sets` put over it, each a dotted path and its value; what has no value is left out. Leaves without a size are as large as their
/// files.
pub fn with_sets(file: StackFile, sets: &[(String, String)]) -> Result<StackFile, Failure> {
    let over = |file: StackFile, (path, value): &(String, String)| match value.as_str() {
        "" => file.without(path),
        value => file.with_set(path, value),
    };
    room::with_lengths(sets.iter().try_fold(file, over)?)
}

/// The name that `NAME=STACK` gives, and the stack.
pub fn named(text: &str) -> (Option<&str>, &str) {
    match text.split_once('=') {
        Some((label, rest)) if !label.is_empty() && !Path::new(text).exists() => (Some(label), rest),
        _ => (None, text),
    }
}

/// Reads the stack `name` with `sets` put over it and checks it.
pub fn open(name: &str, sets: &[(String, String)], registry: &Registry) -> Result<Opened, Failure> {
    let (label, name) = named(name);
    let (text, shown) = text(name)?;
    let stack = with_sets(StackFile::parse(&text, &shown)?, sets)?.load(registry)?;
    let opened = Opened::of(stack, name);
    Ok(match label {
        Some(label) => Opened { label: label.into(), ..opened },
        None => opened,
    })
}

/// Checks the stack in `text`, which is called `label`, with `sets` put over it.
pub fn open_text(
    label: &str,
    text: &str,
    sets: &[(String, String)],
    registry: &Registry,
) -> Result<Opened, Failure> {
    let stack = with_sets(StackFile::parse(text, label)?, sets)?.load(registry)?;
    Ok(Opened { label: label.into(), ..Opened::of(stack, label) })
}

impl Opened {
    /// `stack`, which comes from the file or the built-in one that is called `source`.
    pub fn of(stack: Stack, source: &str) -> Opened {
        let path = Path::new(source);
        let stem = path.file_stem().map_or_else(|| source.into(), |s| s.to_string_lossy().into_owned());
        let folder = path.parent().map(Path::to_path_buf).unwrap_or_default();
        Opened { label: stem, source: source.into(), folder, stack }
    }

    /// The files that a run of it with `load` reads.
    pub fn inputs(&self, load: &Replay) -> Vec<PathBuf> {
        let columns = |w: &Workload| w.table.columns.clone().filter(|text| is_file_of_columns(text));
        let own = self.stack.workloads.iter().flat_map(|w| [w.table.trace.clone(), columns(w)]);
        let own = own.flatten().map(|file| self.folder.join(file));
        own.chain(load.files()).chain([PathBuf::from(&self.source)]).collect()
    }

    /// What a reader should know of the file: keys whose names go away, and what of it has no effect.
    pub fn remarks(&self) -> Vec<String> {
        self.stack.notes.iter().cloned().chain(tenancy::unheeded(&self.stack)).collect()
    }

    /// The machines, to ask them for their limits.
    pub fn built(&self, seed: u64) -> Result<Built, Failure> {
        Ok(self.stack.build(&BuildOptions { seed, ..BuildOptions::default() })?)
    }

    /// The place of the export called `name`; the only one without a name.
    pub fn export(&self, name: Option<&str>) -> Result<usize, Failure> {
        let exports = &self.stack.exports;
        let names: Vec<&str> = exports.iter().map(|e| e.name.as_str()).collect();
        match name {
            None if exports.len() == 1 => Ok(0),
            None => Err(Failure::input(format!(
                "{}: the stack has {} exports ({}); choose one with --export NAME",
                self.source,
                names.len(),
                names.join(", ")
            ))),
            Some(name) => names.iter().position(|n| *n == name).ok_or_else(|| {
                let near = nearest(name, names.iter().copied());
                let hint = near.map_or_else(String::new, |n| format!("; did you mean `{n}`?"));
                Failure::input(format!(
                    "--export {name}: {} has no such export, it has {}{hint}",
                    self.source,
                    names.join(", ")
                ))
            }),
        }
    }
}

/// The capacity of an export.
pub fn capacity(built: &Built, export: usize) -> ByteLen {
    built.parts[built.exports[export].node as usize].machine.limits().capacity
}

/// How much of its flash an SSD keeps from hosts, in thousandths.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Spare {
    /// Spare flash over all flash.
    #[serde(rename = "spare_factor", serialize_with = "nandu_sim::decimals::one")]
    pub factor: u64,
    /// Spare flash over what hosts can use, as vendors count.
    #[serde(rename = "over_provisioning", serialize_with = "nandu_sim::decimals::one")]
    pub over_provisioning: u64,
}

impl Spare {
    /// That of an SSD; `None` of anything else.
    pub fn of(part: &mut BuiltPart) -> Option<Spare> {
        let regions = Report::of(&mut *part.machine, Ask::Wear).wear;
        let raw: u128 = regions.iter().map(|r| u128::from(r.cells) * u128::from(r.bits_per_cell) / 8).sum();
        let user = u128::from(part.machine.limits().capacity.0);
        let left = raw.checked_sub(user).filter(|_| part.kind == "ssd" && user > 0)?;
        let thousandths = |of: u128| ((left * 1000 + of / 2) / of) as u64;
        Some(Spare { factor: thousandths(raw), over_provisioning: thousandths(user) })
    }

    /// Both in words.
    pub fn words(self) -> String {
        format!("spare {} of the flash, {}", percent(self.factor), self.as_vendors_count())
    }

    /// Over-provisioning in words.
    pub fn as_vendors_count(self) -> String {
        format!("over-provisioning {}", percent(self.over_provisioning))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shipped_stack_is_built_in() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("stacks");
        for entry in std::fs::read_dir(folder).expect("the stacks folder is there") {
            let path = entry.expect("the folder can be listed").path();
            let name = path.file_stem().expect("it has a name").to_string_lossy();
            if path.extension().is_some_and(|e| e == "toml") {
                assert!(BUILTIN.iter().any(|b| b.0 == name), "add stacks/{name}.toml to BUILTIN");
            }
        }
    }
}
