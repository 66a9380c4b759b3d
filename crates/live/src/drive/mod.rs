//! Emulated drives: the media of `ssd`, `flash` and `hdd` leaves that hold real bytes.
//!
//! The machine of such a leaf is the one that is simulated. It says when each operation runs and what it changes; the medium
//! here holds the bytes, in memory or in a file (`store = "FILE"`, the *store*), and the reactor answers at the moment that the machine has
//! computed. Decision 0030 says why it is built so.
//!
//! *What a store promises.* The death of the process is a power cut of the drive: an operation is found by the next start when its
//! window had ended, and as if it had never begun when not; the drive recovers from that by itself. A power cut of the host leaves the
//! drive as it was at some moment that is not before its last flush, because a flush is answered when the file is synced, and because what the store says
//! of its pages is one log that is found up to a point and not beyond it ([`log`]).
//!
//! | file | holds |
//! |---|---|
//! | [`pages`] | the medium of flash: pages by physical unit, out-of-band records, erase counts |
//! | [`slots`] | where the bytes of pages lie, in memory or in the file |
//! | [`log`] | what is written about pages in the file, and how it is found again |
//! | [`disk`] | the medium of a disk: an image, and what has not passed under the head yet |
//! | [`mod@file`] | making, locking and recognising a file; its syncs |
//! | [`link`] | the drive as a leg of the reactor: failed, added, flushed |

pub mod disk;
pub mod file;
pub mod link;
pub mod log;
pub mod pages;
pub mod slots;
