//! Flash translation: which physical page holds a logical page, where the next one goes, and which block to clear.
//!
//! Everything here is bookkeeping without time: the controller in `nandu-device` decides when an operation runs.
//!
//! **What is stable.** What the crate `nandu` names of it, from the first release on. The rest is for the other crates of Nandu and may
//! change in any version.

pub mod address;
pub mod age;
pub mod aged;
pub mod blocks;
pub mod checkpoint;
pub mod filled;
pub mod gc;
pub mod isolation;
pub mod log_block;
pub mod map_area;
pub mod mapping;
pub mod placement;
pub mod plan;
pub mod shuffle;
pub mod trim_journal;
pub mod units;
pub mod wear;

pub use address::{BlockId, Layout, Lpn, Ppn};
pub use blocks::{BlockTable, Cursor, FreeOrder, Plane, SlcRules, WearRules};
pub use map_area::MapArea;
pub use units::Units;

/// Asks the processor to fetch element `index` into its cache. A hint: it changes nothing and cannot fail.
#[inline]
pub fn prefetch<T>(slice: &[T], index: usize) {
    #[cfg(target_arch = "x86_64")]
    if index < slice.len() {
        // SAFETY: the pointer lies inside the slice; a prefetch neither reads nor writes as far as the program sees.
        unsafe {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            _mm_prefetch::<_MM_HINT_T0>(slice.as_ptr().add(index).cast());
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (slice, index);
}
