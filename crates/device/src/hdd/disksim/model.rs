//! What DiskSim's parameters mean.

use super::super::buffer::{BufferSpec, ReadAhead};
use super::super::drive::{ByLast, Controller, Drive, ExtraDisconnect};
use super::super::geometry::{Geometry, Layout, Zone};
use super::super::mechanics::Mechanics;
use super::super::power::PowerSpec;
use super::super::seek::{SeekCurve, SeekTable};
use super::super::write_cache::WriteCacheSpec;
use super::ParamError;
use super::params::{Block, Value, beside, millionths, text};
use nandu_base::registry::ReadText;
use nandu_base::{BuildError, Span};
use std::path::Path;

/// The only disk of the blocks of a system file.
pub fn drive(path: &Path, blocks: &[Block], read: ReadText) -> Result<Drive, ParamError> {
    let disks: Vec<&Block> = blocks.iter().filter(|b| b.kind == "disksim_disk").collect();
    let [disk] = disks[..] else {
        return Err(ParamError { file: path.into(), what: format!("{} disks, one is needed", disks.len()) });
    };
    let model = disk.block("Model")?;
    let mechanics = mechanics(model, read)?;
    let segment = disk.whole("Segment size (in blks)")?;
    let fast = disk.whole("Fast write level")?;
    let writes = disk.whole("Maximum number of write segments")?;
    let write_cache =
        (fast > 0).then_some(WriteCacheSpec { blocks: segment, commands: writes.clamp(1, 4096) as u32 });
    Ok(Drive {
        mechanics,
        controller: controller(disk, blocks)?,
        buffer: buffer(disk, segment)?,
        write_cache,
        // DiskSim knows no power.
        power: PowerSpec { seek_mw: 0, transfer_mw: 0, idle_mw: 0, rest: Vec::new() },
    })
}

/// A time in ms.
fn time(block: &Block, key: &str) -> Result<Span, ParamError> {
    match block.millionths(key)? {
        ns if ns >= 0 => Ok(Span(ns as u64)),
        _ => block.error(format!("`{key}` is a time from 0")),
    }
}

fn is_set(block: &Block, key: &str) -> Result<bool, ParamError> {
    Ok(block.whole(key)? != 0)
}

/// Refuses what this model does not have.
fn refuse(block: &Block, keys: &[&str]) -> Result<(), ParamError> {
    match keys.iter().find(|key| block.whole(key).is_ok_and(|n| n != 0)) {
        Some(key) => block.error(format!("`{key}` is not offered, only 0 is")),
        None => Ok(()),
    }
}

pub(super) fn controller(disk: &Block, blocks: &[Block]) -> Result<Controller, ParamError> {
    let by_last = |read: &str, write: &str| {
        Ok::<_, ParamError>(ByLast { read: time(disk, read)?, write: time(disk, write)? })
    };
    let own = time(disk, "Bulk sector transfer time")?.0;
    let slowest = |key: &str| {
        let buses = blocks.iter().filter(|b| b.kind == "disksim_bus" || b.kind == "disksim_ctlr");
        let times = buses.filter(|b| b.get(key).is_some()).map(|b| time(b, key).map(|t| t.0));
        times.chain([Ok(own)]).try_fold(0, |most, t| t.map(|t: u64| most.max(t)))
    };
    let share = disk.millionths("High (read) water mark")?.max(0) as u64;
    if disk.whole("Set watermark by reqsize")? == 0 && share > 0 {
        return disk.error("`Set watermark by reqsize = 0` is not offered");
    }
    refuse(disk, &["Allow write prebuffering", "Preseeking level"])?;
    // A drive that never leaves the bus neither leaves nor comes back, and sends a block as soon as it has one.
    let stays = is_set(disk, "Never disconnect")?;
    let on_bus = |key: &str| if stays { Ok(Span::ZERO) } else { time(disk, key) };
    let extra = !stays && is_set(disk, "Extra write disconnect")?;
    Ok(Controller {
        read_hit: by_last("Read hit over. after read", "Read hit over. after write")?,
        read_miss: by_last("Read miss over. after read", "Read miss over. after write")?,
        write: by_last("Write miss over. after read", "Write miss over. after write")?,
        write_cached: by_last("Write hit over. after read", "Write hit over. after write")?,
        read_disconnect: ByLast {
            read: on_bus("Read disconnect afterread")?,
            write: on_bus("Read disconnect afterwrite")?,
        },
        reselect: on_bus("First reselect overhead")?,
        prepare_data: time(disk, "Data preparation overhead")?,
        read_done: time(disk, "Read completion overhead")?,
        write_done: time(disk, "Write completion overhead")?,
        block_to_host_ps: slowest("Read block transfer time")? * 1000,
        block_from_host_ps: slowest("Write block transfer time")? * 1000,
        read_watermark_ppm: if stays { 0 } else { share },
        // As DiskSim has it: drives that disconnect once more also wait for some of the data.
        blocks_before_write: if extra { (10, 15) } else { (1, 1) },
        least_write_seek: time(disk, "Minimum seek delay")?,
        extra_disconnect: if extra { Some(extra_disconnect(disk)?) } else { None },
    })
}

fn extra_disconnect(disk: &Block) -> Result<ExtraDisconnect, ParamError> {
    Ok(ExtraDisconnect {
        command: time(disk, "Extradisc command overhead")?,
        seek_delay: time(disk, "Extradisc seek delta")?,
        away: time(disk, "Extradisc disconnect overhead")? + time(disk, "Extradisc inter-disconnect delay")?,
        reselect: time(disk, "Other reselect overhead")?,
    })
}

pub(super) fn buffer(disk: &Block, segment: u64) -> Result<BufferSpec, ParamError> {
    let most = disk.whole("Maximum read-ahead (blks)")?;
    let read_ahead = match disk.whole("Buffer continuous read")? {
        0 => ReadAhead::None,
        1 => ReadAhead::Track,
        2 => ReadAhead::Cylinder,
        3 => ReadAhead::Blocks { count: (if most > 0 { most } else { segment }) as u32 },
        4 => ReadAhead::TrackThenNext,
        other => return disk.error(format!("`Buffer continuous read = {other}` is not from 0 to 4")),
    };
    if !is_set(disk, "Enable caching in buffer")? {
        return disk.error("`Enable caching in buffer = 0` is not offered");
    }
    if segment == 0 {
        return disk.error("`Segment size (in blks) = 0`");
    }
    Ok(BufferSpec {
        segments: disk.whole("Number of buffer segments")?.clamp(1, 256) as u32,
        blocks: segment,
        read_ahead,
        // With 1 the blocks may be overwritten by those that are read ahead, with -1 they are gone when the request is done.
        keeps_what_was_read: disk.millionths("Read-ahead over requested")? == 0,
        hits_on_writes: is_set(disk, "Allow read hits on write data")?,
        separate_writes: is_set(disk, "Use separate write segment")?,
        resumes_on_hit: is_set(disk, "Read-ahead on idle hit")?,
        joins_stream: is_set(disk, "Allow almost read hits")?,
        keeps_what_passes: is_set(disk, "Read any free blocks")?,
        reads_any_order: is_set(disk, "Immediate buffer read")?,
        writes_any_order: is_set(disk, "Immediate buffer write")?,
        stops_in_sector: is_set(disk, "Stop prefetch in sector")?,
    })
}

fn mechanics(model: &Block, read: ReadText) -> Result<Mechanics, ParamError> {
    let mech = model.block("Mechanical Model")?;
    if mech.kind != "dm_mech_g1" || mech.word("Access time type")? != "trackSwitchPlusRotation" {
        return mech.error("only `dm_mech_g1` with `trackSwitchPlusRotation` is offered");
    }
    let heads = model.whole("Number of data surfaces")?.min(u64::from(u32::MAX)) as u32;
    let layout = model.block("Layout Model")?;
    if layout.kind != "dm_layout_g1" {
        return layout.error(format!("layout `{}` is not offered, only `dm_layout_g1` is", layout.kind));
    }
    let order = match layout.whole("LBN-to-PBN mapping scheme")? {
        0 => Layout::Cylinder,
        1 => Layout::CylinderSerpentine,
        other => {
            return layout
                .error(format!("`LBN-to-PBN mapping scheme = {other}` is not offered, 0 and 1 are"));
        }
    };
    let built = |error: BuildError| ParamError { file: model.file.clone(), what: error.to_string() };
    let geometry = Geometry::new(heads, order, zones(layout, heads)?, None).map_err(built)?;
    let cylinders = geometry.cylinders().max(model.whole("Number of cylinders")?.min(1 << 23) as u32);
    let rpm = mech.whole("Rotation speed (in rpms)")?;
    if rpm == 0 {
        return mech.error("`Rotation speed (in rpms) = 0`");
    }
    Ok(Mechanics {
        geometry,
        seek: SeekTable::new(&seek(mech, read)?, cylinders).map_err(built)?,
        head_switch: time(mech, "Head switch time")?,
        write_settle: mech.millionths("Add. write settling delay")?,
        revolution: Span(60_000_000_000 / rpm),
    })
}

fn seek(mech: &Block, read: ReadText) -> Result<SeekCurve, ParamError> {
    match mech.word("Seek type")? {
        "extracted" => points(mech, read),
        "hplplus10" => {
            let spans = |key: &str| {
                let list = mech.millionths_list(key)?;
                Ok::<_, ParamError>(list.into_iter().map(|ns| Span(ns.max(0) as u64)).collect::<Vec<_>>())
            };
            let values = spans("HPL seek equation values")?;
            let [line_from, root, root_factor, line, line_factor, ..] = values[..] else {
                return mech.error("`HPL seek equation values` are six");
            };
            let first = spans("First ten seek times")?;
            let line_from = (line_from.0 / 1_000_000) as u32;
            Ok(SeekCurve::Hpl { line_from, root, root_factor, line, line_factor, first })
        }
        other => mech.error(format!("`Seek type = {other}` is not offered, `extracted` and `hplplus10` are")),
    }
}

/// A seek file: a line of text, then `distance, milliseconds`.
fn points(mech: &Block, read: ReadText) -> Result<SeekCurve, ParamError> {
    let file = beside(&mech.file, mech.word("Full seek curve")?);
    let mut points = Vec::new();
    for (number, line) in (1..).zip(text(&file, read)?.lines()) {
        if number == 1 || line.trim().is_empty() {
            continue;
        }
        let point = line.split_once(',').and_then(|(distance, time)| {
            let ns = millionths(time.trim()).filter(|&ns| ns >= 0)?;
            Some((distance.trim().parse().ok()?, Span(ns as u64)))
        });
        match point {
            Some(point) => points.push(point),
            None => {
                let what = format!("line {number}: `{line}` is not `distance, milliseconds`");
                return Err(ParamError { file, what });
            }
        }
    }
    Ok(SeekCurve::Points { points })
}

fn zones(layout: &Block, heads: u32) -> Result<Vec<Zone>, ParamError> {
    let scheme = layout.whole("Sparing scheme used")?;
    let range = layout.whole("Rangesize for sparing")?.max(1);
    let one = |value: &Value| match value {
        Value::Block(zone) => make_zone(zone, heads, scheme, range),
        _ => layout.error("a zone is not a block"),
    };
    layout.list("Zones")?.iter().map(one).collect()
}

fn make_zone(zone: &Block, heads: u32, scheme: u64, range: u64) -> Result<Zone, ParamError> {
    let (first, last) = (zone.whole("First cylinder number")?, zone.whole("Last cylinder number")?);
    let per_track = zone.whole("Blocks per track")?;
    if last < first || last >= 1 << 23 || !(1..=1 << 20).contains(&per_track) {
        return zone.error(format!("cylinders {first} to {last} with {per_track} blocks on a track"));
    }
    let cylinders = last - first + 1;
    let skew = |key: &str| {
        let sectors = zone.millionths(key)?.max(0) as u64;
        let angle = (u128::from(sectors) << 32) / (u128::from(per_track) * 1_000_000);
        Ok::<_, ParamError>(angle as u32)
    };
    Ok(Zone {
        first_cylinder: first as u32,
        cylinders: cylinders as u32,
        sectors_per_track: per_track as u32,
        first_angle: skew("Offset of first block")?,
        track_skew: skew("Skew for track switch")?,
        cylinder_skew: skew("Skew for cylinder switch")?,
        runs: runs(zone, &Shape { tracks: cylinders * u64::from(heads), per_track, heads, scheme, range })?,
    })
}

/// What decides where the blocks of a zone lie.
pub(super) struct Shape {
    pub(super) tracks: u64,
    pub(super) per_track: u64,
    pub(super) heads: u32,
    pub(super) scheme: u64,
    pub(super) range: u64,
}

/// The sectors of a zone that hold blocks, in the order of the blocks.
pub(super) fn runs(zone: &Block, shape: &Shape) -> Result<Vec<(u64, u64)>, ParamError> {
    let Shape { tracks, per_track, heads, scheme, range } = *shape;
    let (spares, mut slips) = (zone.whole("Number of spares")?, zone.whole_list("slips")?);
    slips.sort_unstable();
    slips.dedup();
    let sectors = tracks * per_track;
    let empty = zone.whole("Empty space at zone front")?;
    let slipped = slips.len() as u64;
    let mut runs = Vec::new();
    // A whole track is the unit of scheme 1, a sector of the others.
    let unit = if scheme == 1 { per_track } else { 1 };
    let cylinder = u64::from(heads) * per_track;
    // Parts of so many sectors have spares of their own. Behind their blocks, these take what slips; where they are kept or lie in front of
    // them, what slips goes to the next part.
    let mut parts = |size: u64, spares_in_front: u64, spares_kept: u64| {
        for start in (0..sectors).step_by(size as usize) {
            let end = sectors.min(start + size);
            let (first, last) = ((start + spares_in_front).min(end), end - spares_kept.min(end - start));
            // A last part that is shorter has its spares behind the zone.
            let count = (end - start).min(size.saturating_sub(spares));
            lay(&mut runs, first..last, count, &slips);
        }
    };
    match scheme {
        0 => runs.push((0, sectors)),
        1 => lay(&mut runs, 0..tracks, tracks.saturating_sub(spares), &slips),
        2 => parts(cylinder, 0, 0),
        3 => parts(per_track, 0, 0),
        4 => parts(cylinder, 0, spares),
        5 | 6 => parts(cylinder, spares, 0),
        7 => lay(&mut runs, 0..sectors, sectors.saturating_sub(slipped), &slips),
        8 => parts(range * cylinder, 0, 0),
        9 => lay(&mut runs, 0..sectors, sectors.saturating_sub(spares), &slips),
        10 => lay(&mut runs, 0..sectors, sectors.saturating_sub(spares + slipped), &slips),
        other => return zone.error(format!("`Sparing scheme used = {other}` is not from 0 to 10")),
    }
    let defects = zone.whole_list("defects")?;
    for pair in defects.chunks_exact(2).filter(|pair| pair[0] != pair[1]) {
        runs = moved(&runs, pair[0], pair[1]);
    }
    for run in &mut runs {
        *run = (run.0 * unit, run.1 * unit);
    }
    Ok(without_first(runs, empty))
}

/// Lays `count` units onto those of `within` that are not slipped.
fn lay(runs: &mut Vec<(u64, u64)>, within: std::ops::Range<u64>, mut count: u64, slips: &[u64]) {
    let mut next = within.start;
    let first = slips.partition_point(|&slip| slip < within.start);
    for stop in slips[first..].iter().copied().filter(|&slip| slip < within.end).chain([within.end]) {
        let here = count.min(stop.saturating_sub(next));
        if here > 0 {
            runs.push((next, here));
        }
        count -= here;
        next = stop + 1;
    }
}

/// The unit at `bad` lies at `good` instead.
fn moved(runs: &[(u64, u64)], bad: u64, good: u64) -> Vec<(u64, u64)> {
    let mut new = Vec::with_capacity(runs.len() + 2);
    for &(first, count) in runs {
        if !(first..first + count).contains(&bad) {
            new.push((first, count));
            continue;
        }
        let parts = [(first, bad - first), (good, 1), (bad + 1, first + count - bad - 1)];
        new.extend(parts.into_iter().filter(|part| part.1 > 0));
    }
    new
}

/// Without the first `gone` sectors, which hold no blocks.
fn without_first(runs: Vec<(u64, u64)>, mut gone: u64) -> Vec<(u64, u64)> {
    let mut rest = Vec::with_capacity(runs.len());
    for (first, count) in runs {
        let cut = gone.min(count);
        gone -= cut;
        if count > cut {
            rest.push((first + cut, count - cut));
        }
    }
    rest
}
