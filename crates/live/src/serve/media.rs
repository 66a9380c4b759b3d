//! The media of a stack in the server.

use super::error::ServeError;
use super::options::ServeOptions;
use crate::backend::file::FileBackend;
use crate::backend::memory::Memory;
use crate::backend::{BlockBackend, Completions};
use nandu_base::{BlockSpec, MediumSpec};
use nandu_stack::Built;
use std::sync::Arc;

/// For each machine its medium, and whether the medium is there.
type Media = Vec<Option<(Box<dyn BlockBackend>, bool)>>;

/// Opens the medium of every leaf. A file that is missing is reported in the list and left out.
pub(super) fn open(
    options: &ServeOptions,
    built: &Built,
    completions: &Arc<Completions>,
) -> Result<(Media, Vec<String>), ServeError> {
    let mut media = Media::new();
    let mut missing = Vec::new();
    let alone = built.parts.iter().filter(|part| matches!(part.medium, MediumSpec::Block(_))).count() == 1;
    for (node, part) in built.parts.iter().enumerate() {
        media.push(match &part.medium {
            MediumSpec::None => None,
            MediumSpec::Flash { .. } | MediumSpec::Platter { .. } => {
                return Err(ServeError::Unserved { device: part.name.clone(), kind: part.kind });
            }
            MediumSpec::Block(spec) => {
                let (backend, why_not) = block(options, node as u32, &part.name, spec, completions, alone)?;
                let there = why_not.is_none();
                missing.extend(why_not);
                Some((backend, there))
            }
        });
    }
    Ok((media, missing))
}

#[allow(clippy::type_complexity)] // a medium, and why it is not there
fn block(
    options: &ServeOptions,
    node: u32,
    device: &str,
    spec: &BlockSpec,
    completions: &Arc<Completions>,
    alone: bool,
) -> Result<(Box<dyn BlockBackend>, Option<String>), ServeError> {
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
            Ok((Box::new(absent), Some(format!("device `{device}`: {error}"))))
        }
        Err(error) => Err(ServeError::Leg { device: device.into(), error }),
    }
}
