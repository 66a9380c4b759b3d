//! The members of a set, for `mirror`, `hetero-mirror` and `parity` alike: what each says of the set on itself,
//! and which of them a start may believe.
//!
//! **Generations.** A generation names one stretch of time in which the set of members did not change. A fresh one
//! is in force after every opening, every takeover and every return of a member, on all members, before anything
//! is served or answered under it. So a member that was put back from an older copy says a generation that the
//! others have left behind, and is not believed.
//!
//! **An opening has two phases** ([decision 50](../../../../docs/decisions/0050-openings-in-two-phases.md)). First
//! all members say Opening with the fresh generation and, as its base, the one that they had; then all say Pair
//! with that generation and no base; then requests are served. Each phase is durable everywhere before the next
//! begins. After a cut between two writes some members are one generation behind, but then none of the others says
//! Pair. After a whole opening nothing that says less than Pair is right. One phase could not tell the two apart:
//! what looks like a cut opening might be an old copy.
//!
//! **While it runs** every member has a seat: it goes, comes back, is looked at, hangs or is replaced alike in all arrays
//! ([`set`]).
//!
//! **Modules.** [`record`] the superblock, [`slots`] the two places of each record, [`moved`] those of a leg that has grown;
//! [`generation`] how two superblocks stand to each other; [`set`] who is there, [`work`] what is done next.

use nandu_base::options;

pub mod generation;
pub mod moved;
pub mod record;
pub(crate) mod set;
pub(crate) mod slots;
pub(crate) mod work;

pub use generation::{Standing, is_fork, standing};
pub use record::{Gen, State, Superblock};

/// What is known of blank members that become a set.
#[options]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum InitialSync {
    /// Nothing: the first leg of a mirror is copied to the other, parity is computed, unless whoever starts the stack says `assume_clean`.
    #[default]
    Resync,
    /// They agree: the legs of a mirror read the same everywhere, those of `parity` as zeros. Nothing is copied or computed.
    AssumeClean,
}
