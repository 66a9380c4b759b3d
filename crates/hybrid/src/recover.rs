//! What the headers of a ring say after a start.
//!
//! Let `D` be the highest number that any header calls durable. Groups up to `D` count, and empty ones that follow: of others behind it
//! nobody knows whether their pages are there. A session begins a new unit at the number behind `D`, so groups of an
//! earlier session that were dropped may stand in older units with numbers that were given out again: of a unit only
//! groups below the first of every later unit count. What counts must be without gaps up to `D`; a gap is a page that was
//! lost, and the start is refused.
//!
//! Of all mentions of a page in all rings the one with the highest version is true. After a start every page in a ring
//! counts as dirty: what the disk holds of it is known only within a session.

use crate::machine::Hybrid;
use crate::map::Where;
use crate::record::Header;
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
    };
    let mut expected = None;
    for (at, chain) in chains.iter().enumerate() {
        let limit = chains[at + 1..].iter().map(|later| later.first).min().unwrap_or(u64::MAX);
        if expected.is_none() && chain.first <= durable && chain.first < limit {
            expected = Some(chain.first);
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
            if expected.is_some_and(|want| want != group) {
                return Err(format!("group {} is missing before group {group}", expected.unwrap_or(0)));
            }
            expected = Some(group + 1);
            accepted.headers.push(at);
        }
    }
    // Where nothing counts, what did has been erased, or nothing was ever proven.
    match expected {
        Some(next) if next != durable + 1 => Err(format!("groups {next} to {durable} are missing")),
        _ => Ok(Accepted { durable, ..accepted }),
    }
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
            self.map.fill(slot, entry.page, entry.version, true);
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

    fn groups(found: &[Header]) -> Result<Vec<u64>, String> {
        accept(8, found).map(|a| a.headers.iter().map(|&at| found[at].group).collect())
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
        assert!(groups(&found).unwrap_err().contains("group 2 is missing"));
        let end = [header(0, 1, 1, 1, 0), header(1, 2, 4, 4, 3)];
        assert!(groups(&end).unwrap_err().contains("groups 2 to 3 are missing"));
        let order = [header(2, 1, 1, 1, 0), header(1, 2, 2, 2, 1), header(3, 3, 3, 3, 2)];
        assert!(groups(&order).is_err());
    }

    #[test]
    fn a_header_that_is_missing_is_missed_by_those_of_its_own_unit() {
        // The last one says that what is missing is durable; the first of its unit is missing, in a ring that has another and in one that has not.
        let inside = [header(0, 1, 1, 1, 0), header(0, 1, 1, 3, 2)];
        assert!(groups(&inside).unwrap_err().contains("groups 2 to 2 are missing"));
        let first = [header(0, 1, 1, 1, 0), header(1, 2, 2, 3, 2)];
        assert!(groups(&first).unwrap_err().contains("groups 2 to 2 are missing"));
        assert!(groups(&[header(0, 1, 1, 2, 1)]).unwrap_err().contains("groups 1 to 1 are missing"));
        // Of what nobody has proven a cut may have left any part.
        assert_eq!(
            groups(&[header(0, 1, 1, 1, 0), header(0, 1, 1, 2, 1), header(0, 1, 1, 4, 1)]),
            Ok(vec![1])
        );
        assert_eq!(groups(&[header(0, 1, 1, 2, 0)]), Ok(vec![]));
    }

    #[test]
    fn a_ring_that_went_round_begins_anywhere() {
        let found = [header(0, 9, 7, 7, 6), header(6, 7, 5, 5, 4), header(7, 8, 6, 6, 5)];
        let accepted = accept(8, &found).unwrap();
        assert_eq!((accepted.headers, accepted.start, accepted.used), (vec![1, 2], 6, 3));
    }
}
