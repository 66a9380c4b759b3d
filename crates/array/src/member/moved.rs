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

use super::record::{State, Superblock};

/// What the records of one member say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Says {
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

/// What the records of one member say, where it ended before and at its end now.
pub(crate) fn says(before: &[Superblock], now: &[Superblock]) -> Says {
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
}
