//! Files of the crate `nandu-cache`, compiled here. Around them is what they find there: they name it by `super` and `crate`.

pub use nandu_cache::replacement::*;

#[path = "../../../../crates/cache/src/replacement/arc.rs"]
pub mod arc;
#[path = "../../../../crates/cache/src/replacement/sieve.rs"]
pub mod sieve;
