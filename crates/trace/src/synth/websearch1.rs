//! `websearch1`: a stand-in for WebSearch1, a search engine (SPC, UMass Trace Repository).
//!
//! Published for the whole trace: 1,055,448 requests in about 3,150 s (3.0 ms), 0.02 % writes; reads of 8 to 32 KiB at
//! random aligned places, mean 15 KB, over 16 GB with very little reuse. Met here: write share within 0.02 points, mean
//! size and inter-arrival within 2 %, all requests aligned to 8 KiB.

use super::mix::MixParams;
use super::{Params, Synth, defaults, make, schema};
use nandu_base::{ByteLen, Ratio, Span};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Stand-in for WebSearch1.
pub static SYNTH: Synth = Synth {
    name: WebSearch1::NAME,
    summary: "stand-in for SPC WebSearch1: random aligned reads of 8 to 32 KiB",
    published: "0.02 % writes (+-0.02 points), 15 KiB (+-2 %), 3.0 ms (+-2 %), aligned, over 16 GiB",
    defaults: defaults::<WebSearch1>,
    schema: schema::<WebSearch1>,
    make: make::<WebSearch1>,
};

/// Parameters of `websearch1`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct WebSearch1 {
    /// Requests to make.
    pub requests: u64,
    /// Mean time between arrivals.
    pub interarrival: Span,
    /// Share of writes.
    pub write: Ratio,
    /// Address space, a multiple of 8 KiB.
    pub space: ByteLen,
}

impl Default for WebSearch1 {
    fn default() -> WebSearch1 {
        WebSearch1 {
            requests: 1_055_448,
            interarrival: Span::from_ms(3),
            write: Ratio::new(2, 10_000),
            space: ByteLen::gib(16),
        }
    }
}

impl Params for WebSearch1 {
    const NAME: &'static str = "websearch1";

    fn mix(self) -> MixParams {
        MixParams {
            // Mean 15.04 KiB.
            sizes: [(8, 58), (16, 14), (24, 10), (32, 18)].map(|(kib, w)| (ByteLen::kib(kib), w)).into(),
            grain: ByteLen::kib(8),
            piece: ByteLen::kib(8),
            ..MixParams::plain(self.requests, self.interarrival, self.write, self.space)
        }
    }
}
