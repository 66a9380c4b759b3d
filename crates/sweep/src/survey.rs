//! Before the first run: every point's stack is made and built once, so that a sweep of hours does not end in the middle with an
//! error that could have been known.

use crate::error::SweepError;
use crate::metric::Devices;
use crate::space::Space;
use nandu_base::{ByteLen, Registry};
use nandu_sim::threads::on_each;
use nandu_stack::{BuildOptions, Stack, StackError, StackFile};
use serde::{Deserialize, Serialize};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The stack of a point.
pub fn stack(
    file: &StackFile,
    space: &Space,
    point: usize,
    registry: &Registry,
) -> Result<Stack, StackError> {
    with_settings(file, space, point)?.load(registry)
}

/// The stack file of a point.
pub fn with_settings(file: &StackFile, space: &Space, point: usize) -> Result<StackFile, StackError> {
    space.settings(point).into_iter().try_fold(file.clone(), |file, setting| match &setting.value {
        Some(value) => file.with_set(&setting.path, value),
        None => file.without(&setting.path),
    })
}

/// What is known of a point that can be built.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Seen {
    /// SHA-256 of its stack.
    pub stack_hash: String,
    /// Place of the export that takes the requests.
    pub export: usize,
    /// Its capacity.
    pub room: ByteLen,
}

/// What is known of all points. It can be told to another process, which then need not build them.
#[derive(Default, Serialize, Deserialize)]
pub struct Survey {
    /// Each point; `None` for one that cannot be built and was allowed not to be.
    pub seen: Vec<Option<Seen>>,
    /// Why the first of those cannot be built.
    #[serde(skip)]
    pub impossible: Option<SweepError>,
    /// The devices of all points, each name once.
    pub devices: Devices,
}

impl Survey {
    /// The smallest export, and a point that has it.
    pub fn smallest(&self) -> Option<(ByteLen, usize)> {
        let rooms =
            self.seen.iter().enumerate().filter_map(|(point, seen)| Some((seen.as_ref()?.room, point)));
        rooms.min()
    }
}

/// Builds every point on `threads` threads. `export` names the export that takes the requests. With `skip` points that cannot be built
/// are left out; else the first of them is the error.
pub fn survey(
    file: &StackFile,
    space: &Space,
    registry: &Registry,
    export: Option<&str>,
    (seed, threads, skip): (u64, usize, bool),
) -> Result<Survey, SweepError> {
    let look = |point: usize| -> Result<(Seen, Devices), SweepError> {
        let wrong = |error| SweepError::Stack { point: space.label(point), error };
        let stack = stack(file, space, point, registry).map_err(wrong)?;
        let mut built = stack.build(&BuildOptions { seed, ..BuildOptions::default() }).map_err(wrong)?;
        let export = place(&stack, export)?;
        let room = built.parts[stack.exports[export].node as usize].machine.limits().capacity;
        Ok((Seen { stack_hash: stack.hash_long().into(), export, room }, Devices::of(&stack, &mut built)))
    };
    let next = AtomicUsize::new(0);
    let found: Mutex<Vec<Option<Result<Seen, SweepError>>>> =
        Mutex::new((0..space.len()).map(|_| None).collect());
    let devices = Mutex::new(Devices::default());
    let stop = AtomicBool::new(false);
    on_each(threads.clamp(1, space.len()), &stop, || {
        while !stop.load(Ordering::Relaxed) {
            let point = next.fetch_add(1, Ordering::Relaxed);
            if point >= space.len() {
                return;
            }
            let seen = look(point).map(|(seen, found)| {
                devices.lock().expect("no thread panics with the lock").join(found);
                seen
            });
            found.lock().expect("no thread panics with the lock")[point] = Some(seen);
        }
    });
    let mut survey = Survey {
        seen: Vec::with_capacity(space.len()),
        impossible: None,
        devices: devices.into_inner().expect("no thread panicked"),
    };
    for seen in found.into_inner().expect("no thread panicked").into_iter().flatten() {
        match seen {
            Ok(seen) => survey.seen.push(Some(seen)),
            Err(error) if skip => {
                survey.seen.push(None);
                survey.impossible.get_or_insert(error);
            }
            Err(error) => return Err(error),
        }
    }
    match (survey.smallest(), survey.impossible.take()) {
        (None, Some(error)) => Err(error),
        (_, impossible) => Ok(Survey { impossible, ..survey }),
    }
}

/// The place of the export called `name`; the only one without a name.
fn place(stack: &Stack, name: Option<&str>) -> Result<usize, SweepError> {
    let names: Vec<&str> = stack.exports.iter().map(|e| e.name.as_str()).collect();
    let wrong = |what: String| SweepError::bad("export", what, format!("the stack has {}", names.join(", ")));
    match name {
        None if names.len() == 1 => Ok(0),
        None => Err(wrong("the stack has several: choose one".into())),
        Some(name) => names
            .iter()
            .position(|n| *n == name)
            .ok_or_else(|| wrong(format!("there is none called `{name}`"))),
    }
}
