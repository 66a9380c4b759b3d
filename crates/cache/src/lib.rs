//! The block cache: what stays in memory, what is brought ahead of requests, and what is written later.
//!
//! [`directory`] says what is in the cache, [`replacement`] who goes, [`prefetch`] what comes ahead; [`page_sim`] runs them
//! without time. None of them knows a machine. [`machine`] is the device kind `cache`, which stands over a child.
//!
//! To add a replacement policy: one file in `replacement/`, one variant and one line in `replacement/config.rs`. The same
//! for prefetching. A policy sees slots and numbers, never data or time.
//!
//! **What is stable.** What the crate `nandu` names of it, from the first release on. The rest is for the other crates of Nandu and may
//! change in any version.

pub mod destage;
pub mod directory;
pub mod ghost;
pub mod list;
pub mod machine;
pub mod map;
pub mod page_sim;
pub mod prefetch;
pub mod regioned;
pub mod replacement;
