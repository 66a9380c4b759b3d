//! What a start would do with the members that were found of a set.

use super::{Examined, What};
use nandu_array::member::{Standing, standing};
use nandu_array::{mirror, parity};
use nandu_base::OpenOptions;
use nandu_hybrid::generation::decide;
use nandu_hybrid::record::{Standing as Rings, Super};
use std::collections::BTreeMap;

/// A set of which members were found.
#[derive(Debug)]
pub struct Set {
    /// The kind of its machine.
    pub kind: &'static str,
    /// Its name, in hexadecimal.
    pub id: String,
    /// Its members.
    pub members: u32,
    /// Those that were found, by their place in what was examined.
    pub found: Vec<usize>,
    /// What a start without `--create` and `--force-degraded` would do with them alone, or why it would not begin and what would help.
    pub start: Result<String, String>,
}

/// The sets that `all` belong to, each once.
pub fn sets(all: &[Examined]) -> Vec<Set> {
    let mut by_set: BTreeMap<(&'static str, String), Vec<usize>> = BTreeMap::new();
    for (at, one) in all.iter().enumerate() {
        if let Some((what, id)) = one.what.as_ref().and_then(|what| Some((what, what.set()?))) {
            by_set.entry((what.kind(), id)).or_default().push(at);
        }
    }
    let set = |((kind, id), found): ((&'static str, String), Vec<usize>)| {
        let members = found.iter().filter_map(|&at| all[at].what.as_ref()?.member());
        let members = members.map(|(_, of)| of).max().unwrap_or(0);
        let start = start(all, &found, members as usize);
        Set { kind, id, members, found, start }
    };
    by_set.into_iter().map(set).collect()
}

fn start(all: &[Examined], found: &[usize], members: usize) -> Result<String, String> {
    let place =
        |at: &usize| all[*at].what.as_ref().and_then(What::member).map(|(place, _)| place as usize - 1);
    let mut at_place: Vec<Option<usize>> = vec![None; members];
    for at in found {
        let slot = place(at).and_then(|place| at_place.get_mut(place));
        let slot = slot.ok_or_else(|| format!("`{}` is not a member of the set", all[*at].path))?;
        if let Some(other) = slot.replace(*at) {
            let (one, other) = (&all[other].path, &all[*at].path);
            let why = format!("`{one}` and `{other}` are the same member: one is a copy of the other");
            return Err(format!("{why}; name the one that was used last"));
        }
    }
    let name = |leg: usize| {
        at_place
            .get(leg)
            .copied()
            .flatten()
            .map_or_else(|| format!("member {}", leg + 1), |at| all[at].path.clone())
    };
    let what = |leg: usize| at_place[leg].and_then(|at| all[at].what.as_ref());
    match found.first().and_then(|&at| all[at].what.as_ref()) {
        Some(What::Mirror(_)) => {
            let leg = |leg: usize| match what(leg) {
                Some(What::Mirror(sb)) => mirror::decide::Found::Valid(**sb),
                _ => mirror::decide::Found::Absent,
            };
            let all = 0..members;
            mirror_start(&all.clone().map(leg).collect::<Vec<_>>(), &all.map(name).collect::<Vec<_>>())
        }
        Some(What::Parity(_)) => {
            let leg = |leg: usize| match what(leg) {
                Some(What::Parity(sb)) => Some(**sb),
                _ => None,
            };
            parity_start(&(0..members).map(leg).collect::<Vec<_>>(), &name)
        }
        _ => {
            let member = |member: usize| match what(member) {
                Some(What::Hybrid(sb)) => Some(**sb),
                _ => None,
            };
            hybrid_start(&(0..members).map(member).collect::<Vec<_>>(), &name)
        }
    }
}

fn mirror_start(found: &[mirror::decide::Found], names: &[String]) -> Result<String, String> {
    use mirror::decide::{Found, Lacks, Start, decide, returns};
    let (leader, legs) =
        match decide(found, names, OpenOptions::default()).map_err(|error| error.to_string())? {
            Start::Pair(members) => (members.leader, members.legs),
            Start::Solo(y) => (y, 1 << y),
            Start::Alone(_) | Start::Fresh | Start::Salvaged => unreachable!("only where it was asked for"),
        };
    let Found::Valid(leads) = &found[leader] else { unreachable!("it has a record that says so") };
    let other = |leg: usize| {
        let what = match returns(&found[leg], leads, false, false) {
            _ if found[leg] == Found::Absent => "is not there".into(),
            Ok(Lacks::Dirty) => "gets what it has missed".into(),
            Ok(Lacks::All) => "is copied over in full".into(),
            Err(why) => format!("is left out: {why}"),
        };
        format!("`{}` {what}", names[leg])
    };
    let others: Vec<String> = (0..found.len()).filter(|leg| legs >> leg & 1 == 0).map(other).collect();
    let all = if names.len() == 2 { "both".into() } else { format!("all {}", names.len()) };
    Ok(match (others.is_empty(), legs.count_ones()) {
        (true, _) => format!("starts with {all}; `{}` leads", names[leader]),
        (false, 1) => format!("starts with `{}` alone; {}", names[leader], others.join(", ")),
        (false, n) => {
            format!("starts with {n} of {}; `{}` leads; {}", names.len(), names[leader], others.join(", "))
        }
    })
}

fn parity_start(
    found: &[Option<parity::layout::Superblock>],
    name: &dyn Fn(usize) -> String,
) -> Result<String, String> {
    let legs = found.len();
    let present = found.iter().flatten().count();
    let epoch = found.iter().flatten().map(|sb| sb.head.generation.epoch).max().unwrap_or(0);
    if let Some((why, remedy)) = parity::decide::counts_no_more(epoch) {
        return Err(format!("{why}; {remedy}"));
    }
    if let Some(old) = parity::decide::old_legs(found) {
        let why = parity::decide::say_old(found, name, old);
        let can_go = old.count_ones() == 1 && present == legs;
        let remedy = match can_go {
            true => {
                "put the leg that was used last in its place; or start with --force-degraded, and the others go on without it"
            }
            false => "put the legs that were used last in their places",
        };
        return Err(format!("{why}; {remedy}"));
    }
    let Some(sb) = parity::decide::believe(found) else {
        let why = format!("too few current legs: {present} of {legs} are there, one may be missing");
        return Err(format!("{why}; add the legs that were used last"));
    };
    let is_full = |l: usize| {
        sb.upto[l] == sb.data
            && found[l].is_some_and(|own| standing(&own.head, &sb.head).0 <= Standing::Before)
    };
    let apart: Vec<usize> = (0..legs).filter(|&l| !is_full(l)).collect();
    let has_journal = sb.shape[4] != 0;
    if !apart.is_empty() && !has_journal && !sb.head.clean {
        let why = "the array has not ended in order, it has no journal, and a leg is missing or not rebuilt";
        return Err(format!("{why}; add the leg, or start with --force-degraded and check the data"));
    }
    let each = |&l: &usize| match found[l] {
        Some(_) => format!("`{}` is rebuilt", name(l)),
        None => format!("`{}` is not there", name(l)),
    };
    Ok(match apart.is_empty() {
        true => format!("starts with all {legs}"),
        false => format!(
            "starts with {} of {legs}; {}",
            legs - apart.len(),
            apart.iter().map(each).collect::<Vec<_>>().join(", ")
        ),
    })
}

fn hybrid_start(found: &[Option<Super>], name: &dyn Fn(usize) -> String) -> Result<String, String> {
    if let Some(Some(disk)) = found.last()
        && disk.through != 0
    {
        return Ok(cache_start(found, disk, name));
    }
    let missing: Vec<String> = (0..found.len()).filter(|&m| found[m].is_none()).map(name).collect();
    if let Some(Some(disk)) = found.last()
        && disk.rings != Rings::Needed
    {
        let disk = name(found.len() - 1);
        return Ok(format!(
            "starts with `{disk}` alone: its rings were given up, and a new one is taken blank"
        ));
    }
    if !missing.is_empty() {
        let them = missing.join(" and ");
        let has_map = found.last().copied().flatten().is_some_and(|disk| disk.unit > 0);
        let remedy =
            if has_map { "; or give it up with --force-degraded: what is dirty is lost then" } else { "" };
        return Err(format!("{them} is not there; a hybrid disk needs all its members{remedy}"));
    }
    let claims: Vec<_> = found.iter().flatten().map(|sb| sb.claim).collect();
    match decide(&claims) {
        Ok(_) => Ok(format!("starts with all {}", found.len())),
        Err(stale) => {
            let behind = match stale.behind {
                0 | 1 => "one opening".to_string(),
                n => format!("{n} openings"),
            };
            let why = format!("`{}` is old: it has missed {behind} of the set", name(stale.member));
            Err(format!("{why}; put the member that was used last in its place"))
        }
    }
}

/// A hybrid disk whose rings hold copies only needs its disk, and takes what it finds beside.
fn cache_start(found: &[Option<Super>], disk: &Super, name: &dyn Fn(usize) -> String) -> String {
    let rings = 0..found.len() - 1;
    let missing: Vec<String> = rings.clone().filter(|&ring| found[ring].is_none()).map(name).collect();
    if !missing.is_empty() {
        let them = missing.join(" and ");
        return format!(
            "starts with `{}`, which has all data; {them} is not there, and is no loss",
            name(rings.end)
        );
    }
    match found[rings].iter().flatten().all(|ring| ring.is_as_left_with(disk)) {
        true => format!("starts with all {}", found.len()),
        false => format!("starts with all {}; the cache begins empty", found.len()),
    }
}
