//! The two slots of a record: what was read in them, which one is newer, and which one is written next (R-SLOT).

/// What a slot was found to hold.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(clippy::large_enum_variant)] // two for each leg
pub(crate) enum Slot<R> {
    /// It could not be read: it may hide a newer record.
    Unreadable,
    /// All zeros.
    Blank,
    /// Something else, or a torn record.
    Unknown,
    /// A record.
    Valid(R),
}

/// A record with a number that grows with every update.
pub(crate) trait Record: Sized {
    /// The number.
    fn number(&self) -> u64;
    /// Reads a slot, also one of which a single bit has flipped, and says whether it had; `None` when it is no record.
    fn read(bytes: &[u8]) -> Option<(Self, bool)>;
}

/// What both slots say together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Content<'a, R> {
    /// One of them could not be read.
    Unread,
    /// Both are blank.
    Blank,
    /// No record, and not blank.
    Unknown,
    /// The slot of the newer record, and the record.
    Valid(u8, &'a R),
}

/// The slots of one leg.
#[derive(Debug)]
pub(crate) struct Slots<R> {
    seen: [Slot<R>; 2],
    newest: u8,
}

impl<R: Record> Slots<R> {
    /// Of a leg without records: the first one goes to the first slot.
    pub(crate) fn new() -> Slots<R> {
        Slots { seen: [Slot::Unreadable, Slot::Unreadable], newest: 1 }
    }

    /// They are read again.
    pub(crate) fn forget(&mut self) {
        self.seen = [Slot::Unreadable, Slot::Unreadable];
    }

    /// What was read in a slot, if it could be read. Says whether a flipped bit was put right.
    pub(crate) fn saw(&mut self, slot: usize, bytes: Option<&[u8]>) -> bool {
        let (seen, is_mended) = match bytes.map(|bytes| (bytes, R::read(bytes))) {
            None => (Slot::Unreadable, false),
            Some((_, Some((record, is_mended)))) => (Slot::Valid(record), is_mended),
            Some((bytes, None)) if bytes.iter().all(|&b| b == 0) => (Slot::Blank, false),
            Some(_) => (Slot::Unknown, false),
        };
        self.seen[slot] = seen;
        is_mended
    }

    /// What was read in each.
    pub(crate) fn seen(&self) -> &[Slot<R>; 2] {
        &self.seen
    }

    /// The newer of the records that were read, and its slot; of two with one number that of the first slot.
    pub(crate) fn newer(&self) -> Option<(u8, &R)> {
        match &self.seen {
            [Slot::Valid(a), Slot::Valid(b)] if b.number() > a.number() => Some((1, b)),
            [Slot::Valid(a), _] => Some((0, a)),
            [_, Slot::Valid(b)] => Some((1, b)),
            _ => None,
        }
    }

    /// What both say.
    pub(crate) fn content(&self) -> Content<'_, R> {
        match (&self.seen, self.newer()) {
            ([Slot::Unreadable, _] | [_, Slot::Unreadable], _) => Content::Unread,
            (_, Some((slot, record))) => Content::Valid(slot, record),
            ([Slot::Blank, Slot::Blank], None) => Content::Blank,
            _ => Content::Unknown,
        }
    }

    /// The newest record is in `slot`: the next one goes to the other.
    pub(crate) fn written(&mut self, slot: u8) {
        self.newest = slot;
    }

    /// The slot of the newest record.
    #[inline]
    pub(crate) fn newest(&self) -> usize {
        usize::from(self.newest)
    }

    /// Goes to the slot that was written longer ago, which the next record takes.
    pub(crate) fn turn(&mut self) -> usize {
        self.newest = 1 - self.newest;
        self.newest()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A number from 1 on in the first byte; 255 stands for a flipped bit of 7.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    struct Numbered(u8);

    impl Record for Numbered {
        fn number(&self) -> u64 {
            u64::from(self.0)
        }
        fn read(bytes: &[u8]) -> Option<(Numbered, bool)> {
            match bytes[0] {
                0 | 200 => None,
                255 => Some((Numbered(7), true)),
                n => Some((Numbered(n), false)),
            }
        }
    }

    fn of(first: Option<u8>, second: Option<u8>) -> Slots<Numbered> {
        let mut slots = Slots::new();
        for (slot, byte) in [first, second].into_iter().enumerate() {
            slots.saw(slot, byte.map(|byte| [byte]).as_ref().map(|bytes| bytes.as_slice()));
        }
        slots
    }

    #[test]
    fn the_newer_record_counts_wherever_it_lies() {
        assert_eq!(of(Some(3), Some(4)).newer(), Some((1, &Numbered(4))));
        assert_eq!(of(Some(4), Some(3)).newer(), Some((0, &Numbered(4))));
        assert_eq!(of(Some(4), Some(4)).newer(), Some((0, &Numbered(4))));
        assert_eq!(of(Some(200), Some(3)).content(), Content::Valid(1, &Numbered(3)));
        assert_eq!(of(Some(0), Some(0)).content(), Content::Blank);
        assert_eq!(of(Some(0), Some(200)).content(), Content::Unknown);
    }

    #[test]
    fn a_slot_that_cannot_be_read_may_hide_a_newer_record() {
        assert_eq!(of(Some(9), None).content(), Content::Unread);
        assert_eq!(of(None, Some(0)).content(), Content::Unread);
        assert_eq!(of(Some(9), None).newer(), Some((0, &Numbered(9))));
    }

    #[test]
    fn an_update_takes_the_slot_that_was_written_longer_ago() {
        let mut slots: Slots<Numbered> = Slots::new();
        assert_eq!([slots.turn(), slots.turn(), slots.turn()], [0, 1, 0]);
        slots.written(1);
        assert_eq!(slots.turn(), 0);
    }

    #[test]
    fn a_mended_record_is_said() {
        let mut slots: Slots<Numbered> = Slots::new();
        assert!(slots.saw(0, Some(&[255])) && !slots.saw(1, Some(&[6])));
        assert_eq!(slots.newer(), Some((0, &Numbered(7))));
    }
}
