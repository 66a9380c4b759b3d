//! Choices of the machine, a file for each: who stays in a ring ([`stay`]), who is copied up ([`admission`]), what passes by
//! because it is sequential ([`sequential`]), and whether a copy stays below ([`below`]). The defaults are what we ship; the paper's readings
//! and those of other flash caches are options.

pub(crate) mod admission;
pub(crate) mod below;
pub(crate) mod sequential;
pub(crate) mod stay;
