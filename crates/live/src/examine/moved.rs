//! Where the records of mirrors and parity arrays are whose legs have become longer than the stack file says, or than they were.
//!
//! A file that was made longer is used as it was until a command says otherwise; a growth that was cut off counts or not, for all legs
//! ([`nandu_array::member::moved`]). So records are looked for where each leg ends by the stack file, where it ends now, and where the last data
//! of any leg of the array end.

use super::{Image, RECORD};
use nandu_array::member::moved::{Found, that_count};
use nandu_base::{ByteLen, MediumSpec};
use nandu_stack::Built;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::path::Path;

/// A leg that is there: its name, the size that the stack gives it, its file, and where records may end.
struct Leg<'a> {
    name: &'a str,
    size: u64,
    image: Image,
    ends: BTreeSet<u64>,
}

/// The legs of mirrors and parity arrays whose records are elsewhere than the stack file says, and the sizes with which they are found. Nothing is changed.
pub fn moved_sizes(built: &Built, base: &Path) -> Vec<(String, ByteLen)> {
    let mut sizes = Vec::new();
    for part in built.parts.iter().filter(|part| grows(part.kind)) {
        let legs: Vec<Leg<'_>> = part.children.iter().filter_map(|&child| leg(built, child, base)).collect();
        let found = of_one(&legs);
        sizes.extend(of_the_missing(built, &part.children, &legs, &found));
        sizes.extend(found);
    }
    sizes
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
    let mut file = File::open(base.join(spec.path.as_deref()?)).ok()?;
    let bytes = file.seek(SeekFrom::End(0)).ok()?;
    let align = u64::from(part.machine.limits().align);
    let image = Image { file, bytes };
    let mut ends = BTreeSet::from([spec.capacity.0, bytes / align * align]);
    let last = image.last_data().ok().flatten();
    let was = last.and_then(|end| image.records_before(end).ok().flatten());
    ends.extend(was.map(|(was, _)| was.0));
    Some(Leg { name: &part.name, size: spec.capacity.0, image, ends })
}

fn of_one(legs: &[Leg<'_>]) -> Vec<(String, ByteLen)> {
    let ends: BTreeSet<u64> = legs.iter().flat_map(|leg| leg.ends.iter().copied()).collect();
    let look = |leg: &Leg<'_>| {
        Found::look(leg.size, ends.iter().copied(), |at| leg.image.read(at, RECORD).ok().flatten())
    };
    let found: Vec<Found> = legs.iter().map(look).collect();
    let counts = that_count(&found).into_iter().zip(legs);
    let counts = counts.filter_map(|(counting, leg)| Some((leg, counting?.end)));
    counts
        .filter(|(leg, end)| *end != leg.size)
        .map(|(leg, end)| (leg.name.to_string(), ByteLen(end)))
        .collect()
}
