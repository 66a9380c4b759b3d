//! A hybrid disk: DRAM, an SLC ring and an MLC ring of flash in front of a disk that rests.
//!
//! After Yoo, Hong, Shin, "Designing Hybrid HDD using SLC/MLC combined flash memory" (requirements S4-1 to S4-21, open points
//! O4-1 to O4-17). Reads look in DRAM, then flash, then the disk (S4-3); what is found below the top ring is copied to DRAM
//! and, if it is admitted, to the top ring (S4-4, S4-5). Writes end in DRAM (S4-7) and are appended to the top ring in the
//! background, in groups. Each ring is a circular log of erase units (S4-8 to S4-12). When it is full, its cold zone is
//! collected: valid pages are written again in the same ring or go to the next lower device (S4-13 to S4-15), and then its
//! units are erased.
//!
//! # What it adds to the paper
//!
//! *It survives.* The paper keeps the map in memory. Here groups have headers ([`record`]), and a start reads them.
//! Four rules keep a cut from showing old data:
//!
//! 1. A page's versions are numbered, and the highest counts. A copy (demotion, rewriting) keeps its number.
//! 2. A group counts only when a later header proves that it was durable first. So a flush of the host ends when DRAM has
//!    been appended, the ring is flushed, and a proof is written and flushed (`commit`).
//! 3. A unit is erased only after a commit of everything: the newer homes of its data, in whichever ring or on the disk,
//!    are durable. Units are erased in the order of the ring, each durably before the next.
//! 4. Data that goes to the disk past the rings (`bypass`) leaves a mark in the top ring once it is durable there. Marks go
//!    down with the data and vanish in the lowest ring, when everything older has been erased.
//!
//! From 1, 3 and 4 follows: a page that no header mentions is on the disk, and the newest mention of any other page is
//! true.
//!
//! *Its members belong together.* Each opening has a generation of its own, on all members before anything is served ([`generation`]).
//!
//! *Children are known by their limits.* A child with an erase unit is erased by `reset`, and programmed in order if it
//! says so; any other is written over, and a unit counts as erased when its first page is zeros. A volatile child is
//! flushed where the rules need it.
//!
//! *Rings may hold copies only* (`through`): then the disk has every change first, and the rings may be lost. Where they do not, what they have
//! that the disk does not have may be bounded (`destage`), and put on record on the disk by regions (`region_map`, `regions`): then the disk goes on without rings that are lost, and
//! what was lost with them fails until it is written anew (`lost`).
//!
//! # States
//!
//! The machine is *closed*, *opening* (reads its records; also after a child came back), *running*, *failed* (a child is
//! gone, or a flush failed, or own writes failed again and again: every request fails; dirty DRAM is kept) or *closing*.
//! While it runs there are, beside the requests of the host (`host`) and page reads (`load`), one group under way on each
//! ring (`append`, `gather`), one collection on each ring (`gc`, `zone`), one batch that is destaged and one commit. What may be chosen is in `policy`.
//!
//! # Where it differs from the paper
//!
//! Zones are whole units. GC moves and erases a cold zone in batches that the lower ring can take (O4-13). A write of part
//! of a page completes in DRAM; the rest of the page is read before it is appended. As it ships, dirty frames are appended in
//! the order in which they became dirty (O4-5), and tiers are exclusive (O4-2); `append_order` and `tiers` choose the other readings.
//!
//! Cost: 17 bytes for each page of flash, 8 bytes for each page of the disk, 24 bytes for each unit. The work of one event
//! is in the pages of its request or group; at the start of a collection it is in the pages of a cold zone.
//!
//! **What is stable.** What the crate `nandu` names of it, from the first release on. The rest is for the other crates of Nandu and may
//! change in any version.

mod append;
mod bypass;
mod commit;
mod config;
mod demote;
mod destage;
mod dram;
mod events;
mod figures;
mod gc;
pub mod generation;
mod group_builder;
mod host;
mod lifecycle;
mod load;
mod lost;
mod machine;
mod map;
mod open;
pub mod policy;
pub mod record;
mod recover;
pub mod region_map;
mod regions;
mod ring;
mod through;
mod used;
mod zone;

pub use config::{CacheMode, HybridConfig, Tiers, kind};
pub use dram::Order;
