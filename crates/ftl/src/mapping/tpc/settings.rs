//! The options of TPC-FTL; the page of [`super`] says what they are for.

/// Which unchanged slots are replaced before changed ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CleanFirst {
    /// Any: the paper's algorithm 2.
    All,
    /// Only those among this many oldest slots.
    Window(u32),
}

/// How a delayed read learns which pages were superseded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Invalidation {
    /// When collection asks about a page.
    AtCollection,
    /// The old translation page is always read before the new one is written.
    AtRead,
    /// Never, when all entries were overwritten: the paper's text, and a fault.
    Lost,
}

/// The options.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TpcSettings {
    /// Bytes for slots.
    pub ram: u64,
    /// Whether a write that misses puts off the read.
    pub delayed_read: bool,
    /// See [`Invalidation`].
    pub invalidation: Invalidation,
    /// See [`CleanFirst`].
    pub clean_first_window: CleanFirst,
    /// Superseded pages that may count as valid at one time.
    pub unknown_max: u32,
    /// A fault for tests: completing a slot forgets the entries that were not loaded.
    pub skip_fill: bool,
}
