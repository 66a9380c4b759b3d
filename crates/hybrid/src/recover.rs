//! What the headers of a ring say after a start.
//!
//! Let `D` be the highest number that any header calls durable. Groups up to `D` count, and empty ones that follow: of others behind it
//! nobody knows whether their pages are there. A session begins a new unit at the number behind `D`, so groups of an
//! earlier session that were dropped may stand in older units with numbers that were given out again: of a unit only
//! groups below the first of every later unit count. What counts must be without gaps up to `D`; a gap is a page that was
//! lost, and the start is refused. A salvage goes on without these groups, and puts them on record in the superblock of the ring: later
//! starts know of them.
//!
//! Of all mentions of a page in all rings the one with the highest version is true. After a start every page in a ring
//! counts as dirty: what the disk holds of it is known only within a session. Where the disk has a map of dirty regions, only pages of these do.

use crate::machine::Hybrid;
use crate::map::Where;
use crate::record::{Header, Sealed};
use crate::ring::Unit;
use std::collections::BTreeMap;

/// What counts.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Accepted {
    /// Places of the headers that count, in the order of their groups.
    pub headers: Vec<usize>,
    pub durable: u64,
    pub start: u32,
    pub used: u32,
    pub next_use: u64,
    /// The first group that is there or missing; none where there is no group.
    pub first: Option<u64>,
    /// Groups that are missing, from the first to the last.
    pub gaps: Vec<(u64, u64)>,
    /// Uses of units of which the first header is missing and others count.
    pub headless: Vec<u64>,
}

impl Accepted {
    /// Adds what a clean end says that the ring holds, and that is not there.
    pub fn miss(&mut self, sealed: Sealed) {
        if sealed.first == 0 || sealed.last < sealed.first {
            return;
        }
        match self.first {
            None => self.gaps.push((sealed.first, sealed.last)),
            Some(first) => {
                if first > sealed.first {
                    self.gaps.insert(0, (sealed.first, (first - 1).min(sealed.last)));
                }
                if self.durable < sealed.last {
                    self.gaps.push(((self.durable + 1).max(sealed.first), sealed.last));
                }
            }
        }
        // Numbers are not given out twice.
        self.durable = self.durable.max(sealed.last);
    }
}

/// One unit that has a first header, and its groups.
#[derive(Clone, Copy, Debug)]
struct Chain {
    use_number: u64,
    unit: u32,
    first: u64,
    /// Headers from this place on, and one past the last.
    from: usize,
    to: usize,
}

fn chains(found: &[Header]) -> Vec<Chain> {
    let mut chains: Vec<Chain> = Vec::new();
    for (at, h) in found.iter().enumerate() {
        match chains.last_mut() {
            Some(chain) if h.at > 0 && chain.unit == h.unit => chain.to = at + 1,
            _ => chains.push(Chain {
                use_number: h.use_number,
                unit: h.unit,
                first: h.first,
                from: at,
                to: at + 1,
            }),
        }
    }
    chains.sort_unstable_by_key(|c| c.use_number);
    chains
}

/// Decides which of the headers of a ring of `units` units count. Those of a unit stand together, in order.
pub(crate) fn accept(units: u32, found: &[Header]) -> Result<Accepted, String> {
    let chains = chains(found);
    let (Some(oldest), Some(newest)) = (chains.first(), chains.last()) else {
        return Ok(Accepted::default());
    };
    let mut durable = found.iter().map(|h| h.durable).max().unwrap_or(0);
    let place = |c: &Chain| (c.unit + units - oldest.unit) % units;
    if let Some(pair) = chains.windows(2).find(|pair| place(&pair[0]) >= place(&pair[1])) {
        return Err(format!("units {} and {} are out of order", pair[0].unit, pair[1].unit));
    }
    let mut accepted = Accepted {
        headers: Vec::new(),
        durable: 0,
        start: oldest.unit,
        used: place(newest) + 1,
        next_use: newest.use_number + 1,
        first: None,
        gaps: Vec::new(),
        headless: Vec::new(),
    };
    let mut expected = None;
    for (at, chain) in chains.iter().enumerate() {
        let limit = chains[at + 1..].iter().map(|later| later.first).min().unwrap_or(u64::MAX);
        if expected.is_none() && chain.first <= durable && chain.first < limit {
            expected = Some(chain.first);
            accepted.first = expected;
        }
        for (at, header) in (chain.from..).zip(&found[chain.from..chain.to]) {
            let group = header.group;
            // Nothing that an empty group describes could be missing.
            if header.entries.is_empty() && expected == Some(group) && group < limit {
                durable = durable.max(group);
            }
            if group >= limit || group > durable {
                break;
            }
            match expected {
                Some(want) if want > group => return Err(format!("group {group} comes after group {want}")),
                Some(want) if want < group => accepted.gaps.push((want, group - 1)),
                _ => {}
            }
            expected = Some(group + 1);
            if header.at > 0 && at == chain.from {
                accepted.headless.push(chain.use_number);
            }
            accepted.headers.push(at);
        }
    }
    // Where nothing counts, what did has been erased, or nothing was ever proven.
    match expected {
        Some(next) if next > durable + 1 => return Err(format!("group {next} comes after group {durable}")),
        Some(next) if next <= durable => accepted.gaps.push((next, durable)),
        _ => {}
    }
    Ok(Accepted { durable, ..accepted })
}

impl Hybrid {
    /// Takes over what counts of ring `r`. `marked` has the versions of marks that count so far.
    pub(crate) fn adopt(
        &mut self,
        r: usize,
        found: &[Header],
        accepted: &Accepted,
        marked: &mut BTreeMap<u32, u64>,
    ) {
        let ring = &mut self.rings[r];
        let shape = ring.shape;
        (ring.start, ring.used) = (accepted.start, accepted.used);
        ring.next_use = accepted.next_use.max(1);
        ring.next_group = accepted.durable + 1;
        // A start begins with a flush of the child: what proves these groups is durable as well.
        (ring.durable, ring.proven) = (accepted.durable, accepted.durable);
        let content = accepted.headers.iter().rev().map(|&at| &found[at]).find(|h| !h.entries.is_empty());
        ring.last_content = content.map_or(0, |h| h.group);
        let says_so = |h: &&Header| h.durable >= ring.last_content;
        ring.witnesses = found.iter().filter(says_so).count() as u32;
        for unit in 0..shape.units {
            ring.units[unit as usize].erased = !shape.resets && !ring.is_used(unit);
        }
        for h in found {
            self.version = self.version.max(h.next_version);
            ring.units[h.unit as usize] =
                Unit { use_number: h.use_number, first: h.first, ..Unit::default() };
        }
        for &at in &accepted.headers {
            let h = &found[at];
            let mut slot = shape.slot(h.unit, h.at + 1);
            for entry in &h.entries {
                self.take_entry(r, h.unit, slot, *entry, marked);
                slot += u32::from(!entry.gone);
            }
        }
    }

    fn take_entry(
        &mut self,
        r: usize,
        unit: u32,
        slot: u32,
        entry: crate::record::Entry,
        marked: &mut BTreeMap<u32, u64>,
    ) {
        let known = match self.map.find(entry.page) {
            Where::Slot(slot) => self.map.version(slot),
            Where::Marked(_) => marked.get(&entry.page).copied().unwrap_or(0),
            Where::Disk | Where::Wanted => 0,
        };
        let is_newer = if self.planted.oldest_wins {
            known == 0 || entry.version < known
        } else {
            entry.version >= known
        };
        if !entry.gone {
            let dirty = match self.is_through() {
                true => self.planted.soils_copies,
                false => self.is_in_dirty_region(entry.page),
            };
            self.map.fill(slot, entry.page, entry.version, dirty);
        }
        if !is_newer {
            return;
        }
        if entry.gone {
            let whole = self.rings[r].shape.unit_base + unit;
            self.map.put(entry.page, Where::Marked(whole));
            marked.insert(entry.page, entry.version);
            self.rings[r].units[unit as usize].marks.push(entry.page);
        } else {
            self.map.put(entry.page, Where::Slot(slot));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A header of `group` in `unit`, begun as use `use_number` at group `first`, that calls `durable` durable.
    fn header(unit: u32, use_number: u64, first: u64, group: u64, durable: u64) -> Header {
        let at = (group - first) as u32 * 2;
        let entries = vec![crate::record::Entry { page: 0, version: group, gone: false }];
        Header { use_number, first, group, durable, unit, at, entries, ..Header::default() }
    }

    /// The groups that count, or those that are missing.
    fn groups(found: &[Header]) -> Result<Vec<u64>, Vec<(u64, u64)>> {
        let accepted = accept(8, found).expect("units in order");
        match accepted.gaps.is_empty() {
            true => Ok(accepted.headers.iter().map(|&at| found[at].group).collect()),
            false => Err(accepted.gaps),
        }
    }

    #[test]
    fn only_what_is_proven_counts() {
        let found = [header(3, 1, 1, 1, 0), header(3, 1, 1, 2, 0), header(3, 1, 1, 3, 2)];
        assert_eq!(groups(&found), Ok(vec![1, 2]));
        assert_eq!(groups(&found[..2]), Ok(vec![]));
        assert_eq!(groups(&[]), Ok(vec![]));
    }

    #[test]
    fn empty_groups_count_without_a_proof_up_to_the_next_that_is_not() {
        let empty = |group, durable| Header { entries: vec![], ..header(0, 1, 1, group, durable) };
        let found = [header(0, 1, 1, 1, 0), empty(2, 1), empty(3, 2)];
        assert_eq!(groups(&found), Ok(vec![1, 2, 3]));
        assert_eq!(accept(8, &found).unwrap().durable, 3);
        let found = [header(0, 1, 1, 1, 0), empty(2, 1), header(0, 1, 1, 3, 1), empty(4, 1)];
        assert_eq!(groups(&found), Ok(vec![1, 2]));
    }

    #[test]
    fn what_a_session_dropped_does_not_come_back() {
        // Groups 3 and 4 of unit 0 were never proven; the next session gave their numbers out again in unit 1.
        let old = [1, 2, 3, 4].map(|g| header(0, 1, 1, g, if g > 2 { 2 } else { 0 }));
        let new = [3, 4, 5].map(|g| header(1, 2, 3, g, g - 1));
        let found: Vec<Header> = old.into_iter().chain(new).collect();
        let accepted = accept(8, &found).unwrap();
        assert_eq!(accepted.headers, [0, 1, 4, 5]);
        assert_eq!((accepted.start, accepted.used, accepted.next_use), (0, 2, 3));
    }

    #[test]
    fn a_unit_whose_groups_were_all_dropped_is_void() {
        // Unit 1 began at group 5 and was never proven; unit 2 began at 3 later, and is.
        let found = [
            header(0, 1, 1, 1, 0),
            header(0, 1, 1, 2, 1),
            header(0, 1, 1, 3, 2),
            header(1, 2, 5, 5, 2),
            header(2, 3, 3, 3, 2),
            header(2, 3, 3, 4, 3),
            header(2, 3, 3, 5, 4),
            header(2, 3, 3, 6, 5),
        ];
        assert_eq!(groups(&found), Ok(vec![1, 2, 3, 4, 5]));
    }

    #[test]
    fn a_gap_is_refused() {
        let found = [header(0, 1, 1, 1, 0), header(1, 2, 3, 3, 2), header(1, 2, 3, 4, 3)];
        assert_eq!(groups(&found), Err(vec![(2, 2)]));
        let end = [header(0, 1, 1, 1, 0), header(1, 2, 4, 4, 3)];
        assert_eq!(groups(&end), Err(vec![(2, 3)]));
        // All that is there counts for a salvage.
        let several =
            [header(0, 1, 1, 1, 0), header(1, 2, 4, 4, 3), header(2, 3, 6, 6, 5), header(2, 3, 6, 9, 8)];
        let accepted = accept(8, &several).unwrap();
        assert_eq!((accepted.headers, accepted.durable), (vec![0, 1, 2], 8));
        assert_eq!(accepted.gaps, [(2, 3), (5, 5), (7, 8)]);
        let order = [header(2, 1, 1, 1, 0), header(1, 2, 2, 2, 1), header(3, 3, 3, 3, 2)];
        assert!(accept(8, &order).is_err());
    }

    #[test]
    fn a_header_that_is_missing_is_missed_by_those_of_its_own_unit() {
        // The last one says that what is missing is durable; the first of its unit is missing, in a ring that has another and in one that has not.
        let inside = [header(0, 1, 1, 1, 0), header(0, 1, 1, 3, 2)];
        assert_eq!(groups(&inside), Err(vec![(2, 2)]));
        let first = [header(0, 1, 1, 1, 0), header(1, 2, 2, 3, 2)];
        assert_eq!(groups(&first), Err(vec![(2, 2)]));
        assert_eq!(groups(&[header(0, 1, 1, 2, 1)]), Err(vec![(1, 1)]));
        // Of what nobody has proven a cut may have left any part.
        assert_eq!(
            groups(&[header(0, 1, 1, 1, 0), header(0, 1, 1, 2, 1), header(0, 1, 1, 4, 1)]),
            Ok(vec![1])
        );
        assert_eq!(groups(&[header(0, 1, 1, 2, 0)]), Ok(vec![]));
    }

    #[test]
    fn what_a_clean_end_says_is_missed_at_either_end() {
        let found = [header(1, 2, 4, 4, 3), header(1, 2, 4, 5, 4), header(1, 2, 4, 6, 5)];
        let gaps = |found: &[Header], first, last| {
            let mut accepted = accept(8, found).expect("units in order");
            accepted.miss(Sealed { first, last });
            (accepted.gaps, accepted.durable)
        };
        assert_eq!(gaps(&found, 4, 5), (vec![], 5), "all that counts is there");
        assert_eq!(gaps(&found, 0, 0), (vec![], 5), "no clean end");
        assert_eq!(gaps(&found, 6, 5), (vec![], 5), "nothing was there");
        assert_eq!(gaps(&found, 2, 5), (vec![(2, 3)], 5));
        assert_eq!(gaps(&found, 2, 7), (vec![(2, 3), (6, 7)], 7));
        assert_eq!(gaps(&[], 2, 7), (vec![(2, 7)], 7));
    }

    #[test]
    fn a_ring_that_went_round_begins_anywhere() {
        let found = [header(0, 9, 7, 7, 6), header(6, 7, 5, 5, 4), header(7, 8, 6, 6, 5)];
        let accepted = accept(8, &found).unwrap();
        assert_eq!((accepted.headers, accepted.start, accepted.used), (vec![1, 2], 6, 3));
    }
}
