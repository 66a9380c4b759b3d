//! How the record of one member stands to that of another.

use super::record::{Gen, State, Superblock};

/// How a member stands to another one whose record is believed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Standing {
    /// Both are of one generation.
    Current,
    /// It missed the last change of the set: a cut explains that, or that it is the one that left.
    Before,
    /// It is so many generations behind.
    Behind(u32),
    /// Neither is an earlier state of the other, as far as the history goes.
    Unrelated,
}

/// How `of` stands to `to`, and the generation for which it counts.
///
/// Nothing was served under an opening. So a record that says Opening counts for the generation that all had
/// before, unless `to` knows of the one that was begun.
pub fn standing(of: &Superblock, to: &Superblock) -> (Standing, Gen) {
    let own = place(of.generation, to);
    if of.state == State::Opening && own > Standing::Before {
        let before = place(of.base, to);
        if before < own {
            return (before, of.base);
        }
    }
    (own, of.generation)
}

/// Whether `of` has seen changes of the set that `to` has not, from a state that `to` has never been in: as far back as the history goes it
/// is no earlier state. A change that was cut off has the state before as its base, which `to` knows.
pub fn is_fork(of: &Superblock, to: &Superblock) -> bool {
    let known = to.history.iter().filter(|&&g| g != Gen::NONE).map(|g| g.epoch).min();
    let is_within = known.is_some_and(|oldest| of.generation.epoch >= oldest);
    is_within && [of.generation, of.base].iter().all(|&g| place(g, to) == Standing::Unrelated)
}

fn place(generation: Gen, to: &Superblock) -> Standing {
    if generation == Gen::NONE {
        return Standing::Unrelated;
    }
    if generation == to.generation {
        return Standing::Current;
    }
    if generation == to.base {
        return Standing::Before;
    }
    let behind = to.history.iter().position(|&g| g == generation);
    behind.map_or(Standing::Unrelated, |n| Standing::Behind(n as u32 + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn generation(epoch: u64) -> Gen {
        Gen { epoch, tag: 100 + epoch }
    }

    fn at(epoch: u64) -> Superblock {
        let mut sb = Superblock { generation: generation(1), ..Superblock::BLANK };
        for epoch in 2..=epoch {
            let before = sb;
            sb.begin_opening(generation(epoch), before.generation, before.history);
            sb.end_opening();
        }
        sb
    }

    #[test]
    fn an_old_copy_is_so_many_openings_behind() {
        for behind in 1..=8 {
            assert_eq!(standing(&at(12 - behind), &at(12)).0, Standing::Behind(behind as u32));
        }
        assert_eq!(standing(&at(3), &at(12)).0, Standing::Unrelated, "older than the history");
        assert_eq!(standing(&at(12), &at(11)).0, Standing::Unrelated, "the newer one is no older copy");
        assert_eq!(standing(&at(5), &at(5)).0, Standing::Current);
    }

    #[test]
    fn a_cut_opening_counts_for_what_was_before_until_the_other_knows_of_it() {
        let mut opening = at(5);
        opening.begin_opening(generation(6), generation(5), at(5).history);
        assert_eq!(standing(&opening, &at(5)), (Standing::Current, generation(5)));
        assert_eq!(standing(&at(5), &opening), (Standing::Before, generation(5)));
        assert_eq!(standing(&opening, &at(6)), (Standing::Current, generation(6)));
        assert_eq!(standing(&opening, &at(7)), (Standing::Behind(1), generation(6)));
        // The opening was cut and the next one began from the same.
        let mut other = at(5);
        other.begin_opening(Gen { epoch: 6, tag: 1 }, generation(5), at(5).history);
        other.end_opening();
        assert_eq!(standing(&opening, &other), (Standing::Behind(1), generation(5)));
        assert!(!is_fork(&opening, &other), "nothing was served under what was cut off");
    }

    #[test]
    fn who_went_on_from_an_older_copy_is_a_fork_and_who_stayed_behind_is_not() {
        // Two members were put back to an older stop and went on; the third one has gone on from a later one.
        let mut other = at(5);
        for epoch in 6..=12 {
            let before = other;
            other.begin_opening(Gen { epoch, tag: epoch }, before.generation, before.history);
            other.end_opening();
        }
        for epoch in 6..=14 {
            assert!(is_fork(&at(epoch), &other), "{epoch}");
        }
        for epoch in 1..=5 {
            assert!(!is_fork(&at(epoch), &other), "{epoch}");
        }
        assert!(!is_fork(&at(2), &at(12)) && !is_fork(&at(12), &at(12)) && !is_fork(&at(12), &at(1)));
    }
}
