//! What a physical page holds, and the word that says so.

use crate::address::Lpn;
use crate::mapping::Tp;

/// What a physical page holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Content {
    /// Nothing since the last erase.
    Free,
    /// A logical page, perhaps an old version of it.
    Data(Lpn),
    /// A translation page, perhaps an old version of it.
    Map(Tp),
    /// A record of the trim journal, by its slot.
    Journal(u32),
    /// A page that cannot be used before the next erase: torn by a power cut.
    Waste,
}

/// Owner words from here on name translation pages.
pub(super) const MAP: u32 = 0xFD00_0000;
/// Owner words from here on name journal slots.
pub(super) const JOURNAL: u32 = 0xFF00_0000;
/// The owner word of a wasted page.
pub(super) const WASTE: u32 = u32::MAX;

impl Content {
    pub(super) fn word(self) -> u32 {
        match self {
            Content::Free => 0,
            Content::Data(lpn) => lpn.0 + 1,
            Content::Map(tp) => MAP + tp.0,
            Content::Journal(slot) => JOURNAL + slot,
            Content::Waste => WASTE,
        }
    }

    pub(super) fn from_word(word: u32) -> Content {
        match word {
            0 => Content::Free,
            WASTE => Content::Waste,
            slot if slot >= JOURNAL => Content::Journal(slot - JOURNAL),
            tp if tp >= MAP => Content::Map(Tp(tp - MAP)),
            lpn => Content::Data(Lpn(lpn - 1)),
        }
    }
}

/// Largest number of logical pages: beyond, owner words name translation pages.
pub const LOGICAL_PAGES_MAX: u32 = MAP - 1;
/// Largest number of journal slots.
pub const JOURNAL_SLOTS_MAX: u32 = WASTE - JOURNAL;
