//! `nandu check`: whether a stack file is right, and what it describes.

use crate::args::CheckArgs;
use crate::failure::Failure;
use crate::format::{short_hash, size};
use crate::open::{self, Opened, Spare};
use crate::output;
use crate::plan;
use crate::room::{LeftOver, left_over};
use crate::table::Table;
use nandu_stack::Built;
use serde::Serialize;
use std::fmt::Write;

/// Checks every stack; shows them when all are right.
pub fn check(args: &CheckArgs) -> Result<(), Failure> {
    if args.print {
        let texts: Result<Vec<String>, Failure> =
            args.stacks.iter().map(|name| open::text(name).map(|(text, _)| text)).collect();
        return output::print_as_it_is(&texts?.concat());
    }
    let mut checked = Vec::new();
    let mut problems: Vec<String> = Vec::new();
    for name in &args.stacks {
        let built = |opened: Opened| {
            let mut built = opened.built(0)?;
            plan::check_own(&opened, &built, crate::registry())?;
            let spares: Vec<Option<Spare>> = built.parts.iter_mut().map(Spare::of).collect();
            Ok((opened, built, spares))
        };
        let opened = super::serve::open_where_records_are(name, &args.set, false);
        match opened.and_then(|(opened, _)| built(opened)) {
            Ok(good) => checked.push(good),
            Err(failure) => problems.push(failure.message),
        }
    }
    if !problems.is_empty() {
        return Err(Failure::input(problems.join("\n")));
    }
    if args.json {
        let stacks =
            checked.iter().map(|(opened, built, spares)| Checked::of(opened, built, spares)).collect();
        return output::print_json(&AllChecked { schema: nandu_sim::result::SCHEMA, stacks });
    }
    let texts = checked.iter().map(|(opened, built, spares)| show(opened, built, spares));
    output::print(&texts.collect::<Vec<_>>().join("\n"))
}

/// The tree of devices under each export.
fn show(opened: &Opened, built: &Built, spares: &[Option<Spare>]) -> String {
    let mut out = format!("{}: ok, {}\n", opened.source, short_hash(opened.stack.hash()));
    if let Some(description) = &opened.stack.description {
        let _ = writeln!(out, "{description}");
    }
    let mut table =
        Table::new(["<device", "<kind", "capacity", "align", "preferred", "max I/O", "depth", "<notes"]);
    let left = left_over(&opened.stack, built);
    let notes = |node: u32| {
        let spare = spares[node as usize].map(Spare::words);
        spare.into_iter().chain(left[node as usize].words(size)).collect::<Vec<String>>()
    };
    for export in &built.exports {
        table.row([
            format!("[{}]", export.name),
            "export".into(),
            open::capacity(built, place(built, &export.name)).to_string(),
            String::new(),
            String::new(),
            String::new(),
            String::new(),
            if export.table.read_only { "read only".into() } else { String::new() },
        ]);
        branch(&mut table, built, &notes, export.node, 1);
    }
    let _ = write!(out, "\n{table}");
    for workload in &opened.stack.workloads {
        let what = workload.table.trace.as_ref().or(workload.table.generator.as_ref());
        let _ = writeln!(out, "workload {}: {}", workload.name, what.map_or("", String::as_str));
    }
    for line in opened.remarks() {
        let _ = writeln!(out, "note: {line}");
    }
    for device in longer(built, &left) {
        let _ = writeln!(
            out,
            "note: `{device}` stands on longer files: `nandu ctl SOCKET grow {device}` serves more"
        );
    }
    out
}

/// Arrays that can grow, of which every leg has a file that is longer than what is used of it.
fn longer<'a>(built: &'a Built, left: &[LeftOver]) -> Vec<&'a str> {
    let is_longer = |&&child: &&u32| left[child as usize].behind.0 > 0;
    let arrays = built.parts.iter().filter(|part| nandu_live::examine::grows(part.kind));
    let all = arrays.filter(|part| part.children.iter().filter(is_longer).count() == part.children.len());
    all.map(|part| part.name.as_str()).collect()
}

fn place(built: &Built, export: &str) -> usize {
    built.exports.iter().position(|e| e.name == export).unwrap_or(0)
}

fn branch(table: &mut Table, built: &Built, further: &dyn Fn(u32) -> Vec<String>, node: u32, depth: usize) {
    let part = &built.parts[node as usize];
    let limits = part.machine.limits();
    let mut notes = Vec::new();
    if limits.volatile_cache {
        notes.push("volatile cache".to_string());
    }
    if let Some(unit) = limits.erase_unit {
        notes.push(format!("erases {}", size(unit.0)));
    }
    if limits.program_order {
        notes.push("writes in order".into());
    }
    notes.extend(further(node));
    let max_io = limits.max_io.0;
    table.row([
        format!("{}{}", "  ".repeat(depth), part.name),
        part.kind.into(),
        limits.capacity.to_string(),
        size(u64::from(limits.align)),
        size(u64::from(limits.preferred)),
        if max_io >= limits.capacity.0 { "any".into() } else { size(max_io) },
        if limits.depth == u32::MAX { "any".into() } else { limits.depth.to_string() },
        notes.join(", "),
    ]);
    for &child in &part.children {
        branch(table, built, further, child, depth + 1);
    }
}

#[derive(Serialize)]
struct AllChecked<'a> {
    schema: u32,
    stacks: Vec<Checked<'a>>,
}

#[derive(Serialize)]
struct Checked<'a> {
    stack: &'a str,
    ok: bool,
    stack_hash: &'a str,
    description: Option<&'a str>,
    /// What a reader should know of the file: keys whose names go away, and what has no effect.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
    exports: Vec<CheckedExport<'a>>,
    devices: Vec<CheckedDevice<'a>>,
}

#[derive(Serialize)]
struct CheckedExport<'a> {
    name: &'a str,
    device: &'a str,
    capacity_bytes: u64,
    read_only: bool,
}

#[derive(Serialize)]
struct CheckedDevice<'a> {
    name: &'a str,
    kind: &'a str,
    children: Vec<&'a str>,
    capacity_bytes: u64,
    align_bytes: u32,
    preferred_bytes: u32,
    max_io_bytes: u64,
    depth: u32,
    erase_unit_bytes: Option<u64>,
    program_order: bool,
    volatile_cache: bool,
    /// Of `capacity_bytes`: nothing will ever be stored in them.
    unused_bytes: u64,
    /// Behind `capacity_bytes`, of a file or block device that is there.
    file_unused_bytes: u64,
    /// Of an SSD.
    #[serde(flatten)]
    spare: Option<Spare>,
}

impl<'a> Checked<'a> {
    fn of(opened: &'a Opened, built: &'a Built, spares: &[Option<Spare>]) -> Checked<'a> {
        let exports = built.exports.iter().enumerate().map(|(i, e)| CheckedExport {
            name: &e.name,
            device: &built.parts[e.node as usize].name,
            capacity_bytes: open::capacity(built, i).0,
            read_only: e.table.read_only,
        });
        let left = left_over(&opened.stack, built);
        let devices = built.parts.iter().zip(left).zip(spares).map(|((part, left), &spare)| {
            let limits = part.machine.limits();
            CheckedDevice {
                name: &part.name,
                kind: part.kind,
                children: part.children.iter().map(|&c| built.parts[c as usize].name.as_str()).collect(),
                capacity_bytes: limits.capacity.0,
                align_bytes: limits.align,
                preferred_bytes: limits.preferred,
                max_io_bytes: limits.max_io.0,
                depth: limits.depth,
                erase_unit_bytes: limits.erase_unit.map(|u| u.0),
                program_order: limits.program_order,
                volatile_cache: limits.volatile_cache,
                unused_bytes: left.bytes.0,
                file_unused_bytes: left.behind.0,
                spare,
            }
        });
        Checked {
            stack: &opened.source,
            ok: true,
            stack_hash: opened.stack.hash_long(),
            description: opened.stack.description.as_deref(),
            notes: opened.remarks(),
            exports: exports.collect(),
            devices: devices.collect(),
        }
    }
}
