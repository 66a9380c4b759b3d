//! Where the records of mirrors and parity arrays are whose legs have become longer than the stack file says, or than they were.
//!
//! A file that was made longer is used as it was until a command says otherwise; a growth that was cut off counts or not, for all legs
//! ([`nandu_array::found`]). So records are looked for where each leg ends by the stack file, where it ends now, and where the last data
//! of any leg of the array end.

use super::{Image, RECORD};
use crate::backend::LegError;
use crate::backend::file::lock;
use nandu_array::found::{Counting, Found, that_count};
use nandu_base::{ByteLen, MediumSpec};
use nandu_stack::{Built, BuiltPart};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Zeros that are written by one call.
const ZEROS: &[u8] = &[0; 64 << 10];

/// A leg that is there: its name, the size that the stack gives it, its file, and where records may end.
struct Leg<'a> {
    name: &'a str,
    path: PathBuf,
    size: u64,
    image: Image,
    ends: BTreeSet<u64>,
}

/// The legs of mirrors and parity arrays whose records are elsewhere than the stack file says, and the sizes with which they are found. Nothing is changed.
pub fn moved_sizes(built: &Built, base: &Path) -> Vec<(String, ByteLen)> {
    let mut sizes = Vec::new();
    for (part, legs) in arrays(built, base) {
        let found = of_one(&legs);
        sizes.extend(of_the_missing(built, &part.children, &legs, &found));
        sizes.extend(found);
    }
    sizes
}

/// Zeroes what a growth that was cut off has left of records that count for nobody any more; says on which legs. To be called before a start: old
/// ones lie in what is served from then on, and a leg with new ones of a growth that has not come about would be taken for one that has grown.
///
/// # Errors
/// Somebody else uses the file of a leg, or it cannot be written.
pub fn zero_void_records(built: &Built, base: &Path) -> Result<Vec<String>, LegError> {
    let mut zeroed = Vec::new();
    for (_, legs) in arrays(built, base) {
        for (leg, counting) in legs.iter().zip(counting(&legs)) {
            let Some(void) = counting.and_then(|counting| counting.void) else { continue };
            zero(&leg.path, void)?;
            zeroed.push(leg.name.to_string());
        }
    }
    Ok(zeroed)
}

/// Zeroes a part of a file durably.
fn zero(path: &Path, part: Range<u64>) -> Result<(), LegError> {
    let fail = |error: std::io::Error| LegError {
        path: path.display().to_string(),
        why: format!("records that a growth has left cannot be zeroed: {error}"),
        remedy: "let this user write to it",
        missing: false,
    };
    let file = File::options().read(true).write(true).open(path).map_err(fail)?;
    lock(&file, path)?;
    for at in part.clone().step_by(ZEROS.len()) {
        let len = (part.end - at).min(ZEROS.len() as u64);
        file.write_all_at(&ZEROS[..len as usize], at).map_err(fail)?;
    }
    file.sync_data().map_err(fail)
}

/// The mirrors and parity arrays of a stack, with those of their legs that are there.
fn arrays<'a>(built: &'a Built, base: &Path) -> impl Iterator<Item = (&'a BuiltPart, Vec<Leg<'a>>)> {
    let arrays = built.parts.iter().filter(|part| grows(part.kind));
    arrays
        .map(move |part| (part, part.children.iter().filter_map(|&child| leg(built, child, base)).collect()))
}

/// What a set has grown to counts for its legs that are not there too: otherwise it would be as large as these were.
fn of_the_missing(
    built: &Built,
    children: &[u32],
    legs: &[Leg<'_>],
    found: &[(String, ByteLen)],
) -> Vec<(String, ByteLen)> {
    let now = |leg: &Leg<'_>| {
        let found = found.iter().find(|(name, _)| name == leg.name);
        found.map_or(leg.size, |(_, size)| size.0)
    };
    let has_grown = legs.iter().any(|leg| now(leg) > leg.size);
    let Some(least) = legs.iter().map(now).min().filter(|_| has_grown) else { return Vec::new() };
    let missing = children.iter().filter_map(|&child| {
        let part = &built.parts[child as usize];
        let MediumSpec::Block(spec) = &part.medium else { return None };
        let is_there = legs.iter().any(|leg| leg.name == part.name);
        (!is_there && spec.capacity.0 < least).then(|| (part.name.clone(), ByteLen(least)))
    });
    missing.collect()
}

/// Whether arrays of this kind take the new length of their legs.
pub fn grows(kind: &str) -> bool {
    matches!(kind, "mirror" | "hetero-mirror" | "parity")
}

fn leg<'a>(built: &'a Built, node: u32, base: &Path) -> Option<Leg<'a>> {
    let part = &built.parts[node as usize];
    let MediumSpec::Block(spec) = &part.medium else { return None };
    let path = base.join(spec.path.as_deref()?);
    let mut file = File::open(&path).ok()?;
    let bytes = file.seek(SeekFrom::End(0)).ok()?;
    let align = u64::from(part.machine.limits().align);
    let image = Image { file, bytes };
    let mut ends = BTreeSet::from([spec.capacity.0, bytes / align * align]);
    let last = image.last_data().ok().flatten();
    let was = last.and_then(|end| image.records_before(end).ok().flatten());
    ends.extend(was.map(|(was, _)| was.0));
    Some(Leg { name: &part.name, path, size: spec.capacity.0, image, ends })
}

/// The records of each leg of an array that count.
fn counting(legs: &[Leg<'_>]) -> Vec<Option<Counting>> {
    let ends: BTreeSet<u64> = legs.iter().flat_map(|leg| leg.ends.iter().copied()).collect();
    let look = |leg: &Leg<'_>| {
        Found::look(leg.size, ends.iter().copied(), |at| leg.image.read(at, RECORD).ok().flatten())
    };
    let found: Vec<Found> = legs.iter().map(look).collect();
    that_count(&found)
}

fn of_one(legs: &[Leg<'_>]) -> Vec<(String, ByteLen)> {
    let counts = counting(legs).into_iter().zip(legs);
    let counts = counts.filter_map(|(counting, leg)| Some((leg, counting?.end)));
    counts
        .filter(|(leg, end)| *end != leg.size)
        .map(|(leg, end)| (leg.name.to_string(), ByteLen(end)))
        .collect()
}
