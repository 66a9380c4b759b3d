//! Which records of a member count when it has become longer: those where it ended before, or those at its end now.
//!
//! A set that grows writes new records at the new end of each member before the old ones go. Until all of them are durable they say nothing
//! that the old ones do not know: those of a mirror say Opening, with the generation in force as their base ([`crate::mirror`]), those of a parity
//! array the generation in force itself ([`crate::parity`]). So after a cut the old place counts as long as every new record still says
//! that; then no leg has lost an old one that mattered, and nothing was served at the new size. As soon as one member has gone on
//! at its new end, or has no old record any more, all new records are durable, and the new place counts for all members.
//!
//! Unless the others have not seen that member since, and have gone on at the old place: then they know a generation there that their
//! own new records do not. Nothing was served at the new size, for that takes what they have not written.

use super::record::{self, BLOCK, State, Superblock};
use crate::{mirror, parity};
use nandu_base::ByteLen;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// What is found on a member of a set.
#[derive(Clone, Debug)]
pub struct Found {
    /// How long the set takes it to be.
    pub size: u64,
    /// Its records, by where it would end that has them there.
    pub places: BTreeMap<u64, Vec<Superblock>>,
}

impl Found {
    /// Looks for records of a mirror or a parity array where a member of `size` bytes may end. `read` gives the
    /// 4 KiB at an offset, if they are there.
    pub fn look(
        size: u64,
        ends: impl IntoIterator<Item = u64>,
        read: impl Fn(u64) -> Option<Vec<u8>>,
    ) -> Found {
        let places = ends.into_iter().map(|end| (end, records(end, &read)));
        Found { size, places: places.filter(|(_, records)| !records.is_empty()).collect() }
    }
}

/// The records of a member that ends there, by their own word too.
fn records(end: u64, read: &impl Fn(u64) -> Option<Vec<u8>>) -> Vec<Superblock> {
    let pages = record::slots(end).into_iter().flatten().filter_map(read);
    let of_mirror = |page: &[u8]| Some(mirror::layout::read_superblock(page)?.0);
    let of_parity = |page: &[u8]| Some(parity::layout::Superblock::read(page)?.0.head);
    let records = pages.filter_map(|page| of_mirror(&page).or_else(|| of_parity(&page)));
    records.filter(|sb| sb.leg_bytes / BLOCK == end / BLOCK).collect()
}

/// The records of a member that count.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Counting {
    /// Where it ends that has them there.
    pub end: u64,
    /// Where it has others, which count for nobody any more: old ones, where a growth was cut off before they had gone, so that they lie in what is
    /// served from now on, or new ones of a growth that has not come about. They are to be zeroed before the set is started.
    pub void: Option<Range<u64>>,
}

/// Of each member the records that count; `None` for one on which there are none.
pub fn that_count(members: &[Found]) -> Vec<Option<Counting>> {
    let said = members.iter().filter_map(|Found { size, places }| {
        let ((&from, before), (&to, now)) = (places.first_key_value()?, places.last_key_value()?);
        let nothing = &[][..];
        Some(match from == to {
            true if from > *size => (nothing, &now[..]),
            true => (&before[..], nothing),
            false => (&before[..], &now[..]),
        })
    });
    let have_moved = have_moved(said);
    let have_stayed = !have_moved && are_together(members);
    let counting = |Found { places, .. }: &Found| {
        let ((&from, before), (&to, now)) = (places.first_key_value()?, places.last_key_value()?);
        let stayed = have_stayed && from < to && says(before, now) == Says::Stayed;
        Some(match have_moved {
            true => Counting { end: to, void: place(from, before, now).filter(|_| from < to) },
            false => Counting { end: from, void: place(to, now, before).filter(|_| stayed) },
        })
    };
    members.iter().map(counting).collect()
}

/// Whether all members of a set are there, and say the same generation where they were: then nobody who is away has gone on elsewhere.
fn are_together(members: &[Found]) -> bool {
    let newest =
        |Found { places, .. }: &Found| places.first_key_value()?.1.iter().max_by_key(|sb| sb.seq).copied();
    let Some(all) = members.iter().map(newest).collect::<Option<Vec<Superblock>>>() else { return false };
    let legs: BTreeSet<u8> = all.iter().map(|sb| sb.leg).collect();
    let is_one = |sb: &Superblock| (sb.set, sb.generation) == (all[0].set, all[0].generation);
    all.iter().all(is_one)
        && legs.len() == members.len()
        && all.iter().all(|sb| usize::from(sb.members) == all.len())
}

/// Where `records` lie on a member that ends at `end` for them, if they are of the same member as its `others`.
fn place(end: u64, records: &[Superblock], others: &[Superblock]) -> Option<Range<u64>> {
    let is_its_own = |sb: &&Superblock| others.iter().any(|other| (other.set, other.leg) == (sb.set, sb.leg));
    let sb = records.iter().find(is_its_own)?;
    let [lower, upper] = record::slots(end)?;
    // The map of a mirror lies before them, where its record and its length say so both.
    let layout = mirror::layout::Layout::of(ByteLen(end), sb.region_shift.min(63));
    let map = layout.map(|layout| layout.map).filter(|&map| map == sb.map);
    Some(map.unwrap_or(lower)..upper + BLOCK)
}

/// What the records of one member say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Says {
    /// It has gone on at its new end.
    Moved,
    /// It has gone on where it was.
    Stayed,
    /// Neither.
    Nothing,
}

/// Whether a set has moved, by the word of its members: of each the records in the slots where it ended before, and in those at its end now.
///
/// What a growth wrote that was cut off stays at the end, while the set goes on where it was: it is no later than what the old
/// place says by then.
pub fn have_moved<'a>(members: impl IntoIterator<Item = (&'a [Superblock], &'a [Superblock])>) -> bool {
    let said: Vec<Says> = members.into_iter().map(|(before, now)| says(before, now)).collect();
    said.contains(&Says::Moved) && !said.contains(&Says::Stayed)
}

fn says(before: &[Superblock], now: &[Superblock]) -> Says {
    let Some(before) = before.iter().max_by_key(|sb| sb.seq) else {
        return if now.is_empty() { Says::Nothing } else { Says::Moved };
    };
    let is_its_own = |sb: &&Superblock| sb.set == before.set && sb.leg == before.leg;
    let counts = |sb: &Superblock| if sb.state == State::Opening { sb.base } else { sb.generation };
    let newest = now.iter().filter(is_its_own).map(|sb| counts(sb).epoch).max();
    match newest.map(|newest| newest.cmp(&before.generation.epoch)) {
        Some(std::cmp::Ordering::Greater) => Says::Moved,
        Some(std::cmp::Ordering::Less) => Says::Stayed,
        Some(std::cmp::Ordering::Equal) | None => Says::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::member::Gen;

    const SET: [u64; 2] = [1, 2];

    fn of(epoch: u64, seq: u64) -> Superblock {
        Superblock { set: SET, seq, generation: Gen { epoch, tag: 7 }, ..Superblock::BLANK }
    }

    fn has_moved(before: &[Superblock], now: &[Superblock]) -> bool {
        have_moved([(before, now)])
    }

    #[test]
    fn what_was_only_written_has_not_moved_and_what_was_opened_has() {
        let before = of(5, 9);
        let older = of(4, 8);
        let mut written = Superblock { seq: 10, ..before };
        written.begin_opening(of(6, 0).generation, before.generation, before.history);
        assert!(!has_moved(&[older, before], &[]) && !has_moved(&[], &[]));
        assert!(!has_moved(&[older, before], &[written]), "the other member may have no new record yet");
        assert!(has_moved(&[], &[written]), "the old ones went when all new ones were durable");
        let mut opening = Superblock { seq: 11, ..written };
        opening.begin_opening(of(7, 0).generation, written.generation, written.history);
        assert!(has_moved(&[older, before], &[written, opening]));
        let mut served = opening;
        served.end_opening();
        assert!(has_moved(&[before], &[written, served]));
        assert!(!has_moved(&[before], &[Superblock { set: [3, 3], ..served }]));
        // A growth was cut off, and the set went on where it was, for long.
        for epoch in [6, 7, 40] {
            assert!(!has_moved(&[of(epoch, 12)], &[written]));
        }
    }

    #[test]
    fn a_record_of_the_generation_in_force_has_not_moved_and_a_later_one_has() {
        let (before, written, later) = (of(5, 9), of(5, 10), of(6, 11));
        assert!(!has_moved(&[before], &[written]));
        assert!(has_moved(&[before], &[written, later]));
        let others: [(&[_], &[_]); 2] = [(&[before], &[written]), (&[before], &[written, later])];
        assert!(have_moved(others), "one speaks for all");
    }

    #[test]
    fn members_that_went_on_where_they_were_overrule_one_that_was_away() {
        let (before, written) = (of(5, 9), of(5, 10));
        let went_on = of(6, 11);
        let away: (&[_], &[_]) = (&[before], &[written, went_on]);
        let without: (&[_], &[_]) = (&[before, went_on], &[written]);
        assert!(!have_moved([away, without, without]));
        let wiped: (&[_], &[_]) = (&[], &[written]);
        assert!(have_moved([wiped, (&[before], &[written])]) && !have_moved([wiped, without]));
    }

    const BEFORE: u64 = 1 << 20;
    const AFTER: u64 = 2 << 20;

    /// A member of a set of two with these records where it ended before, and at its end now.
    fn found(leg: u8, before: &[Superblock], now: &[Superblock]) -> Found {
        let its = |all: &[Superblock]| all.iter().map(|&sb| Superblock { leg, members: 2, ..sb }).collect();
        let places: BTreeMap<u64, Vec<Superblock>> = [(BEFORE, its(before)), (AFTER, its(now))].into();
        Found { size: BEFORE, places: places.into_iter().filter(|(_, all)| !all.is_empty()).collect() }
    }

    fn counting(members: [Found; 2]) -> Vec<(u64, Option<u64>)> {
        let all = that_count(&members).into_iter().map(|counting| counting.expect("it has records"));
        all.map(|counting| (counting.end, counting.void.map(|void| void.end))).collect()
    }

    #[test]
    fn records_count_for_nobody_when_all_members_have_gone_on_without_them() {
        let (before, written, went_on) = (of(5, 9), of(5, 10), of(6, 11));
        // Whether the set has grown is open: both places stay.
        let open = [found(0, &[before], &[written]), found(1, &[before], &[])];
        assert_eq!(counting(open), [(BEFORE, None), (BEFORE, None)]);
        // It has: what is left where it was lies in what is served.
        let moved = [found(0, &[before], &[written]), found(1, &[], &[written])];
        assert_eq!(counting(moved), [(AFTER, Some(BEFORE)), (AFTER, None)]);
        // It has not, and both have gone on.
        let stayed = [found(0, &[before, went_on], &[written]), found(1, &[went_on], &[])];
        assert_eq!(counting(stayed), [(BEFORE, Some(AFTER)), (BEFORE, None)]);
        // One has, without the other, or that one is not there.
        let alone = || found(0, &[before, went_on], &[written]);
        assert_eq!(counting([alone(), found(1, &[before], &[written])]), [(BEFORE, None), (BEFORE, None)]);
        assert_eq!(that_count(&[alone()])[0].as_ref().map(|counting| counting.void.is_none()), Some(true));
        let away = [alone(), found(1, &[], &[])];
        assert_eq!(that_count(&away)[0].as_ref().map(|counting| counting.void.is_none()), Some(true));
    }
}
