//! Files that a start with `create` makes, and what it may make members of.
//!
//! A mirror, a parity array and a hybrid disk take a leg that has none of their records for blank, and begin to fill it. They look only
//! where records would lie. So all of it is looked at here, before anything is opened or made: what such a device stands on is blank as
//! a whole, or it has records, about which the device itself decides. A file that is too short is lengthened only when nothing is in it.
//!
//! *Records* of a mirror or a parity array lie in two slots at the end of a leg. Where the way from the device to its files is not a
//! plain one (through a `stripe`, say), and for a hybrid disk, they are known by their mark, which begins all records of ours, in the
//! first 4 KiB or the last MiB of what is used of a file.
//!
//! A stack keeps nothing else in its files but data, so a file that is served as it is, with no such device above it, is not looked
//! through.

use super::error::ServeError;
use super::options::ServeOptions;
use crate::backend::LegError;
use crate::backend::candidate::{Candidate, FileId, Undo};
use crate::backend::file::unlock;
use nandu_base::{BlockSpec, ByteLen, MediumSpec};
use nandu_stack::Built;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

/// A superblock slot of a mirror or a parity array, and how far the two lie apart.
const SLOT: u64 = 4096;
const SLOT_DISTANCE: u64 = 64 << 10;

/// Files that were made or lengthened. Unless they are kept, those that are still blank are put back to what they were.
#[derive(Default)]
pub(super) struct Made(Vec<Undo>);

impl Made {
    /// Stores that were made as well.
    pub fn also(&mut self, stores: Vec<Undo>) {
        self.0.extend(stores);
    }

    pub fn keep(self) {
        self.0.into_iter().for_each(Undo::keep);
    }
}

/// The part of a file that a device stands on.
#[derive(Clone)]
struct Span {
    leaf: u32,
    bytes: Range<u64>,
    /// It is all of what the device stands on, in order.
    is_plain: bool,
}

struct Start<'a> {
    options: &'a ServeOptions,
    built: &'a Built,
    /// By the number of their leaf.
    files: Vec<Option<Candidate>>,
}

/// Looks at every file, and then makes those that are missing or too short, if the start may.
///
/// # Errors
/// A file may not be used for what it is named for. Nothing has changed then.
pub(super) fn make(options: &ServeOptions, built: &Built) -> Result<Made, ServeError> {
    let mut made = Made::default();
    if !options.create {
        return Ok(made);
    }
    let mut start = Start { options, built, files: Vec::new() };
    start.open_files()?;
    for (node, part) in built.parts.iter().enumerate() {
        if part.machine.needs().keeps_records {
            start.check_members(node as u32)?;
        }
    }
    for (leaf, candidate) in start.files.into_iter().enumerate() {
        let (Some(candidate), Some(spec)) = (candidate, block(built, leaf as u32)) else { continue };
        let (file, undo) =
            candidate.make(spec.capacity).map_err(|error| refused(built, leaf as u32, error))?;
        unlock(&file);
        made.0.extend(undo);
    }
    Ok(made)
}

fn block(built: &Built, node: u32) -> Option<&BlockSpec> {
    match &built.parts[node as usize].medium {
        MediumSpec::Block(spec) => Some(spec),
        _ => None,
    }
}

fn refused(built: &Built, leaf: u32, error: LegError) -> ServeError {
    ServeError::Leg { device: built.parts[leaf as usize].name.clone(), error }
}

impl Start<'_> {
    /// Opens and locks what is there, and looks through what would be lengthened.
    fn open_files(&mut self) -> Result<(), ServeError> {
        let never = AtomicBool::new(false);
        let mut known: Vec<(FileId, String)> = Vec::new();
        let stack_file = self.options.stack_file.as_deref().and_then(FileId::of);
        known.extend(stack_file.map(|id| (id, "the stack file itself".into())));
        for leaf in 0..self.built.parts.len() as u32 {
            let spec = block(self.built, leaf);
            let Some((spec, path)) = spec.and_then(|spec| Some((spec, spec.path.as_deref()?))) else {
                self.files.push(None);
                continue;
            };
            let path: PathBuf = self.options.base.join(path);
            let fail = |error| refused(self.built, leaf, error);
            let id = FileId::of(&path);
            if let Some((_, what)) = known.iter().find(|(other, _)| Some(*other) == id) {
                let (why, remedy) = (format!("it is {what}"), "name another file");
                return Err(fail(LegError { path: path.display().to_string(), why, remedy, missing: false }));
            }
            known
                .extend(id.map(|id| (id, format!("leg `{}` already", self.built.parts[leaf as usize].name))));
            let candidate = match Candidate::open(&path) {
                Ok(candidate) => candidate,
                Err(error) if error.missing => {
                    self.files.push(None); // its device is gone: the stack may do without it
                    continue;
                }
                Err(error) => return Err(fail(error)),
            };
            if candidate.len() < spec.capacity.0 {
                let and =
                    format!(", and it has {} bytes where the leaf has {}", candidate.len(), spec.capacity.0);
                if let Some(at) = candidate.first_data(0..spec.capacity.0, &never).map_err(fail)? {
                    return Err(fail(candidate.holds_data(at, &and)));
                }
            }
            self.files.push(Some(candidate));
        }
        Ok(())
    }

    /// What a device stands on.
    fn spans(&self, node: u32) -> Vec<Span> {
        if let Some(spec) = block(self.built, node) {
            return vec![Span { leaf: node, bytes: 0..spec.capacity.0, is_plain: true }];
        }
        let part = &self.built.parts[node as usize];
        let mut spans: Vec<Span> = part.children.iter().flat_map(|&child| self.spans(child)).collect();
        let (&[child], [span]) = (&part.children[..], &mut spans[..]) else {
            spans.iter_mut().for_each(|span| span.is_plain = false);
            return spans;
        };
        let below = self.built.parts[child as usize].machine.limits();
        match self.options.stack.devices[node as usize].config.region(below) {
            Some((offset, len)) if span.is_plain => {
                let from = span.bytes.start + offset.0;
                span.bytes = from..from + len.0;
            }
            Some(_) => {}
            None => span.is_plain &= below.capacity == part.machine.limits().capacity,
        }
        spans
    }

    /// Checks what a device that keeps records stands on.
    fn check_members(&self, node: u32) -> Result<(), ServeError> {
        let part = &self.built.parts[node as usize];
        let members: Vec<Vec<Span>> = part.children.iter().map(|&child| self.spans(child)).collect();
        let recorded = members.iter().map(|spans| self.is_recorded(spans, part.kind));
        let recorded: Vec<bool> = recorded.collect::<Result<_, _>>()?;
        for (spans, _) in members.iter().zip(&recorded).filter(|(_, recorded)| !**recorded) {
            self.check_blank(spans, part.kind, &part.name)?;
        }
        // A hybrid disk goes by what its disk says: without that it would begin anew and empty its rings.
        let (Some(disk), Some(disk_recorded)) = (members.last(), recorded.last()) else { return Ok(()) };
        let ring = recorded.iter().position(|&recorded| recorded);
        if let (Some(ring), "hybrid", false) = (ring, part.kind, *disk_recorded) {
            let name = |child: usize| &self.built.parts[part.children[child] as usize].name;
            let Some(span) = disk.first() else { return Ok(()) };
            let why = format!(
                "it has no records of hybrid disk `{}`, but `{}` has, and may hold newer data than any disk",
                part.name,
                name(ring)
            );
            let path = block(self.built, span.leaf).and_then(|spec| spec.path.clone()).unwrap_or_default();
            let remedy = "bring back the right disk, or empty the other members first";
            return Err(refused(self.built, span.leaf, LegError { path, why, remedy, missing: false }));
        }
        Ok(())
    }

    /// Whether a member has something where its device keeps records: the device decides about it then.
    fn is_recorded(&self, spans: &[Span], kind: &str) -> Result<bool, ServeError> {
        for span in spans {
            let Some(candidate) = &self.files[span.leaf as usize] else { continue };
            let fail = |error| refused(self.built, span.leaf, error);
            let last =
                span.bytes.start + ((span.bytes.end - span.bytes.start) / SLOT).saturating_sub(1) * SLOT;
            let first = last.saturating_sub(SLOT_DISTANCE).max(span.bytes.start);
            let found = match span.is_plain && kind != "hybrid" {
                true => {
                    candidate.is_written(first..first + SLOT).map_err(fail)?
                        || candidate.is_written(last..last + SLOT).map_err(fail)?
                }
                false => candidate.is_marked(span.bytes.clone()).map_err(fail)?,
            };
            if found {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn check_blank(&self, spans: &[Span], kind: &str, device: &str) -> Result<(), ServeError> {
        let never = AtomicBool::new(false);
        for span in spans {
            let Some(candidate) = &self.files[span.leaf as usize] else { continue };
            let fail = |error| refused(self.built, span.leaf, error);
            if let Some(at) = candidate.first_data(span.bytes.clone(), &never).map_err(fail)? {
                let size = block(self.built, span.leaf).map_or(ByteLen::ZERO, |spec| spec.capacity);
                let longer = crate::examine::made_longer(candidate.path(), size);
                let and = longer.map_or_else(
                    || format!(", and no records of {kind} `{device}` are on it"),
                    |longer| format!("; {longer}"),
                );
                return Err(fail(candidate.holds_data(at, &and)));
            }
        }
        Ok(())
    }
}
