//! Which records of a member count when it has become longer: those where it ended before, or those at its end now.
//!
//! A mirror that grows writes new records at the new end of each leg before it zeroes the old ones ([`crate::mirror`]). The new ones say
//! Opening, with the generation in force as their base, until all of them are durable and the set is opened at its new size. So after a cut
//! the old place counts as long as every new record still says that; then no leg has lost an old one that mattered, and nothing was served
//! at the new size. As soon as one member has gone on at its new end, or has no old record any more, all new records are durable, and the
//! new place counts for all members.

use super::record::{State, Superblock};

/// Whether a set has moved, by the word of one member: the records in the slots where it ended before, and in those at its end now.
///
/// What a growth wrote that was cut off stays at the end, while the set goes on where it was: its base is no later than what the old place
/// says by then.
pub fn has_moved(before: &[Superblock], now: &[Superblock]) -> bool {
    let Some(before) = before.iter().max_by_key(|sb| sb.seq) else { return !now.is_empty() };
    let is_later = |sb: &Superblock| {
        let counts = if sb.state == State::Opening { sb.base } else { sb.generation };
        sb.set == before.set && sb.leg == before.leg && counts.epoch > before.generation.epoch
    };
    now.iter().any(is_later)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::member::Gen;

    #[test]
    fn what_was_only_written_has_not_moved_and_what_was_opened_has() {
        let generation = |epoch| Gen { epoch, tag: 7 };
        let before = Superblock { set: [1, 2], seq: 9, generation: generation(5), ..Superblock::BLANK };
        let older = Superblock { seq: 8, generation: generation(4), ..before };
        let mut written = Superblock { seq: 10, ..before };
        written.begin_opening(generation(6), before.generation, before.history);
        assert!(!has_moved(&[older, before], &[]) && !has_moved(&[], &[]));
        assert!(!has_moved(&[older, before], &[written]), "the other member may have no new record yet");
        assert!(has_moved(&[], &[written]), "the old ones went when all new ones were durable");
        let mut opening = Superblock { seq: 11, ..written };
        opening.begin_opening(generation(7), written.generation, written.history);
        assert!(has_moved(&[older, before], &[written, opening]));
        let mut served = opening;
        served.end_opening();
        assert!(has_moved(&[before], &[written, served]));
        assert!(!has_moved(&[before], &[Superblock { set: [3, 3], ..served }]));
        // A growth was cut off, and the set went on where it was, for long.
        for epoch in [6, 7, 40] {
            let later = Superblock { seq: 12, generation: generation(epoch), ..before };
            assert!(!has_moved(&[later], &[written]));
        }
    }
}
