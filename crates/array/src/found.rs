//! What whoever starts a mirror or a parity array finds on its members: where records are, which of them count
//! ([`crate::member::moved`]), and what a growth has left of others.

use crate::member::moved::{Says, have_moved, says};
use crate::member::record::{self, BLOCK, Superblock};
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::member::Gen;

    fn of(epoch: u64, seq: u64) -> Superblock {
        Superblock { set: [1, 2], seq, generation: Gen { epoch, tag: 7 }, ..Superblock::BLANK }
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
