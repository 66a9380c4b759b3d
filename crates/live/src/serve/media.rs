//! The media of a stack in the server.

use super::error::ServeError;
use super::options::ServeOptions;
use crate::backend::candidate::Undo;
use crate::backend::file::FileBackend;
use crate::backend::memory::Memory;
use crate::backend::{BlockBackend, Completions, LegError};
use crate::drive::disk::Disk;
use crate::drive::file::{self, Drive, Shape, Shared};
use crate::drive::link::Link;
use crate::drive::log::{Areas, Damage, Unfit};
use crate::drive::pages::{Form, Pages};
use nandu_base::{BlockSpec, ByteLen, Medium, MediumSpec, SECTOR};
use nandu_stack::Built;
use std::path::Path;
use std::sync::Arc;

/// Room in the log of a store for what happens, beside three times its state.
const LOG_NEWS: u64 = 64 << 20;

/// The media of a stack.
pub(super) struct Media {
    /// For each machine its backend, and whether the medium is there.
    pub legs: Vec<Option<(Box<dyn BlockBackend>, bool)>>,
    /// The media of emulated drives, for the graph.
    pub computed: Vec<Option<Box<dyn Medium>>>,
    /// Leaves whose file or store is missing, with reasons.
    pub missing: Vec<(String, String)>,
    /// Where emulated drives keep what they hold, and how much that may become.
    pub drives: Vec<(String, String)>,
    /// What a salvage has given up of which drive.
    pub gone: Vec<(String, String)>,
    /// Stores that were made.
    pub made: Vec<Undo>,
}

/// Opens the medium of every leaf. A file that is missing is reported in the list and left out.
pub(super) fn open(
    options: &ServeOptions,
    built: &Built,
    completions: &Arc<Completions>,
) -> Result<Media, ServeError> {
    let mut media = Media {
        legs: Vec::new(),
        computed: Vec::new(),
        missing: Vec::new(),
        drives: Vec::new(),
        gone: Vec::new(),
        made: Vec::new(),
    };
    let alone = built.parts.iter().filter(|part| part.medium != MediumSpec::None).count() == 1;
    for (node, part) in built.parts.iter().enumerate() {
        let fail = |error| ServeError::Leg { device: part.name.clone(), error };
        let (leg, computed) = match &part.medium {
            MediumSpec::None => (None, None),
            MediumSpec::Block(spec) => {
                let (backend, why_not) =
                    block(options, node as u32, spec, completions, alone).map_err(fail)?;
                let there = why_not.is_none();
                media.missing.extend(why_not.map(|why| (part.name.clone(), why.to_string())));
                (Some((backend, there)), None)
            }
            spec => {
                let config = &options.stack.devices[node].config;
                let capacity = part.machine.limits().capacity.0;
                let mut said = format!("{} of {capacity} bytes", part.kind);
                match config.layout_of_store() {
                    layout if layout.is_empty() => {}
                    layout => said += &format!(", {layout}"),
                }
                let before = said.clone();
                match config.details_of_store(&part.name, ByteLen(capacity)) {
                    details if details.is_empty() => {}
                    details => said += &format!(", {details}"),
                }
                let said = [said, before];
                let drive =
                    emulated(options, node as u32, config.store(), spec, said, completions).map_err(fail)?;
                media.made.extend(drive.made);
                media.gone.extend(drive.gone.into_iter().map(|what| (part.name.clone(), what)));
                let there = drive.computed.is_some();
                match there {
                    true => media.drives.push((part.name.clone(), drive.says)),
                    false => media.missing.push((part.name.clone(), drive.says)),
                }
                (Some((Box::new(drive.link) as Box<dyn BlockBackend>, there)), drive.computed)
            }
        };
        media.legs.push(leg);
        media.computed.push(computed);
    }
    Ok(media)
}

#[allow(clippy::type_complexity)] // a medium, and why it is not there
fn block(
    options: &ServeOptions,
    node: u32,
    spec: &BlockSpec,
    completions: &Arc<Completions>,
    alone: bool,
) -> Result<(Box<dyn BlockBackend>, Option<LegError>), LegError> {
    if spec.path.is_none() {
        return Ok((Box::new(Memory::new(node)), None));
    }
    let base = &options.base;
    match FileBackend::open(node, spec, base, Arc::clone(completions)) {
        Ok(mut backend) => {
            if alone {
                backend.alone();
            }
            Ok((Box::new(backend), None))
        }
        Err(error) if error.missing => {
            let absent = FileBackend::absent(node, spec, base, Arc::clone(completions));
            Ok((Box::new(absent), Some(error)))
        }
        Err(error) => Err(error),
    }
}

/// An emulated drive.
struct Emulated {
    link: Link,
    /// `None` when its store is missing.
    computed: Option<Box<dyn Medium>>,
    /// Where it keeps its data, or why it is missing.
    says: String,
    /// What a salvage has given up.
    gone: Vec<String>,
    /// Its store, if that was made.
    made: Option<Undo>,
}

fn emulated(
    options: &ServeOptions,
    node: u32,
    store: Option<&str>,
    spec: &MediumSpec,
    said: [String; 2],
    completions: &Arc<Completions>,
) -> Result<Emulated, LegError> {
    let (shape, form) = match *spec {
        MediumSpec::Flash { units, unit_sectors, units_per_block, own } => (
            Shape::Flash { units, unit_sectors, units_per_block },
            Some(Form { units, sectors: unit_sectors, block_units: units_per_block, own }),
        ),
        MediumSpec::Platter { sectors } => (Shape::Disk { sectors }, None),
        MediumSpec::None | MediumSpec::Block(_) => unreachable!("a drive has a computed medium"),
    };
    let Some(store) = store else {
        let computed: Box<dyn Medium> = match (form, shape) {
            (Some(form), _) => Box::new(Pages::in_memory(form)),
            (None, Shape::Disk { sectors }) => Box::new(Disk::in_memory(sectors)),
            (None, Shape::Flash { .. }) => unreachable!("flash has a form"),
        };
        let says = format!(
            "holds its data in memory: {} when all of it is written, lost at the end; `store = \"FILE\"` keeps them",
            most(form, shape)
        );
        let link = Link::new(node, None, Arc::clone(completions));
        return Ok(Emulated { link, computed: Some(computed), says, gone: Vec::new(), made: None });
    };
    let path = options.base.join(store);
    let [said, before] = said;
    let drive = Drive { shape, said, before };
    let opened = match file::open(&path, &drive, options.create, options.salvage) {
        Ok(opened) => opened,
        Err(error) if error.missing => {
            let link = Link::absent(node, path);
            return Ok(Emulated {
                link,
                computed: None,
                says: error.to_string(),
                gone: Vec::new(),
                made: None,
            });
        }
        Err(error) => return Err(error),
    };
    let unusable = |error: std::io::Error| unfit(&path, Unfit::Io(error));
    let file = &opened.shared.file;
    let made = opened.is_new.then(|| Undo::of_store(&path, file, opened.was_there)).transpose();
    let mut made = made.map_err(unusable)?;
    let how = How { is_new: opened.is_new, lacks_label: opened.lacks_label, salvage: options.salvage };
    let shared = Arc::new(opened.shared);
    let (computed, gone) = in_file(&shared, &drive, form, how).map_err(|error| unfit(&path, error))?;
    made.iter_mut().try_for_each(|made| made.is_made(&shared.file)).map_err(unusable)?;
    let says =
        format!("holds its data in {}: {} when all of it is written", path.display(), most(form, shape));
    let link = Link::new(node, Some((path, shared)), Arc::clone(completions));
    Ok(Emulated { link, computed: Some(computed), says, gone, made })
}

/// How a store is to be opened.
#[derive(Clone, Copy)]
struct How {
    is_new: bool,
    lacks_label: bool,
    salvage: bool,
}

/// The medium of a drive, and what a salvage has given up.
type Opened = (Box<dyn Medium>, Vec<String>);

fn in_file(shared: &Arc<Shared>, drive: &Drive, form: Option<Form>, how: How) -> Result<Opened, Unfit> {
    let label_at = drive.shape.label_at();
    let (computed, mut gone): Opened = match form {
        Some(form) => {
            let areas = Areas::new(file::LABEL, form.records(), LOG_NEWS);
            if how.is_new {
                (Box::new(Pages::make(form, Arc::clone(shared), areas)?), Vec::new())
            } else {
                let (pages, gone) = Pages::open(form, Arc::clone(shared), areas, how.salvage)?;
                (Box::new(pages), gone)
            }
        }
        None => {
            let len = label_at + file::LABEL;
            if how.is_new {
                shared.file.set_len(len)?;
            }
            let found = shared.file.metadata()?.len();
            if found != len {
                let what =
                    format!("it has {found} bytes, and the image of this disk with its label has {len}");
                return Err(Unfit::Damaged(Damage { at: found, what }));
            }
            (Box::new(Disk::in_file(Arc::clone(shared), how.is_new)), Vec::new())
        }
    };
    if how.lacks_label {
        gone.push(format!(
            "from byte {label_at} on: the label, which is written again as the stack file says"
        ));
    }
    if how.is_new || how.lacks_label {
        file::finish_making(shared, drive)?;
    }
    Ok((computed, gone))
}

fn unfit(path: &Path, error: Unfit) -> LegError {
    let (why, remedy) = match error {
        Unfit::Damaged(Damage { at, what }) => (
            format!("it is damaged at byte {at}: {what}"),
            "nothing was changed; restore it from a copy, or go on without what is gone with --salvage",
        ),
        Unfit::Io(error) => (error.to_string(), "make room, or see to the file system it lies on"),
    };
    LegError { path: path.display().to_string(), why, remedy, missing: false }
}

/// What a drive comes to when all of it is written.
fn most(form: Option<Form>, shape: Shape) -> String {
    match (form, shape) {
        (Some(form), _) => {
            let data = ByteLen(form.units * form.page() as u64);
            // A page of the table and the use of a slot.
            let tables = ByteLen(form.units * (24 + 8));
            format!("{data} of pages, and {tables} of memory for where they are")
        }
        (None, Shape::Disk { sectors }) => ByteLen(sectors * SECTOR).to_string(),
        (None, Shape::Flash { .. }) => unreachable!("flash has a form"),
    }
}
