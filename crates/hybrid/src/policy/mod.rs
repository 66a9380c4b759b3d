//! Choices of the machine: who is copied up ([`promotion`]) and who stays in a ring ([`demotion`]), which other crates may add to; what
//! passes by because it is sequential ([`sequential`]), and whether a copy stays below ([`below`]). The defaults are what we ship; the paper's
//! readings and those of other flash caches are options.

pub(crate) mod below;
pub mod demotion;
pub mod promotion;
pub(crate) mod sequential;
