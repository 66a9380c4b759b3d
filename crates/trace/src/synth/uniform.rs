//! `uniform`: requests of one size at even random places.
//!
//! The plain load of drive data sheets (4 KiB random), with shares of flush, trim and FUA for tests. Not a stand-in for
//! any published trace.

use super::mix::MixParams;
use super::{Params, Synth, defaults, make, schema};
use nandu_base::{ByteLen, Ratio, Span};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Even random places.
pub static SYNTH: Synth = Synth {
    name: Uniform::NAME,
    summary: "requests of one size at even random places, with optional runs, flush, trim and FUA",
    published: "none: its parameters are exact shares and means",
    defaults: defaults::<Uniform>,
    schema: schema::<Uniform>,
    make: make::<Uniform>,
};

/// Parameters of `uniform`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Uniform {
    /// Requests to make.
    pub requests: u64,
    /// Mean time between arrivals, exponentially distributed.
    pub interarrival: Span,
    /// Share of writes in the requests that are neither flush nor trim.
    pub write: Ratio,
    /// Share of flushes in all requests.
    pub flush: Ratio,
    /// Share of trims in the requests that are no flush.
    pub trim: Ratio,
    /// Share of writes with FUA.
    pub fua: Ratio,
    /// Length of each request and unit of its place, a multiple of 512 B.
    pub size: ByteLen,
    /// Address space, a multiple of the size.
    pub space: ByteLen,
    /// Writes and trims go to this much space behind it, a multiple of the size; 0 sends them to the same places as reads.
    pub write_space: ByteLen,
    /// Share of requests that start where the one before ended: 15/16 makes runs of 16 on average.
    pub sequential: Ratio,
}

impl Default for Uniform {
    fn default() -> Uniform {
        Uniform {
            requests: 1_000_000,
            interarrival: Span::from_ms(1),
            write: Ratio::new(1, 2),
            flush: Ratio::ZERO,
            trim: Ratio::ZERO,
            fua: Ratio::ZERO,
            size: ByteLen::kib(4),
            space: ByteLen::gib(8),
            write_space: ByteLen(0),
            sequential: Ratio::ZERO,
        }
    }
}

impl Params for Uniform {
    const NAME: &'static str = "uniform";

    fn mix(self) -> MixParams {
        MixParams {
            flush: self.flush,
            trim: self.trim,
            fua: self.fua,
            sizes: vec![(self.size, 1)],
            write_space: self.write_space,
            grain: self.size,
            piece: self.size,
            sequential: self.sequential,
            ..MixParams::plain(self.requests, self.interarrival, self.write, self.space)
        }
    }
}
