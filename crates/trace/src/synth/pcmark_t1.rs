//! `pcmark-t1`: a stand-in for PCMark05 trace T1, general application use.
//!
//! The trace is not public. What is known is what the paper on segment prefetching
//! says of it (2011, section 5). Small reads with spatial locality: 4 to 16 KiB, in
//! neighbourhoods that are popular as a whole, met again and again, a fifth writes, 600 MiB.
//!
//! Not modelled: neighbourhoods that come and go over time.

use super::mix::MixParams;
use super::{Params, Synth, defaults, make, schema};
use nandu_base::{ByteLen, Ratio, Span};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Stand-in for PCMark05 trace T1.
pub static SYNTH: Synth = Synth {
    name: PcmarkT1::NAME,
    summary: "stand-in for PCMark05 T1, general use: small requests in popular neighbourhoods",
    published: "none: proprietary; shaped after what a paper says of it",
    defaults: defaults::<PcmarkT1>,
    schema: schema::<PcmarkT1>,
    make: make::<PcmarkT1>,
};

/// Parameters of `pcmark-t1`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PcmarkT1 {
    /// Requests to make.
    pub requests: u64,
    /// Mean time between arrivals.
    pub interarrival: Span,
    /// Share of writes.
    pub write: Ratio,
    /// Address space, a multiple of the neighbourhood.
    pub space: ByteLen,
    /// Share of requests that start where the one before ended.
    pub sequential: Ratio,
    /// Bytes that are popular together, a multiple of 4 KiB.
    pub neighbourhood: ByteLen,
    /// Zipf exponent over the 4 KiB pages.
    pub zipf: Ratio,
}

impl Default for PcmarkT1 {
    fn default() -> PcmarkT1 {
        PcmarkT1 {
            requests: 200_000,
            interarrival: Span::from_ms(2),
            write: Ratio::new(1, 5),
            space: ByteLen::mib(600),
            sequential: Ratio::new(1, 4),
            neighbourhood: ByteLen::kib(128),
            zipf: Ratio::new(4, 5),
        }
    }
}

impl Params for PcmarkT1 {
    const NAME: &'static str = "pcmark-t1";

    fn mix(self) -> MixParams {
        MixParams {
            sizes: [(4, 60), (8, 25), (16, 15)].map(|(kib, w)| (ByteLen::kib(kib), w)).into(),
            piece: self.neighbourhood,
            zipf: Some(self.zipf),
            sequential: self.sequential,
            ..MixParams::plain(self.requests, self.interarrival, self.write, self.space)
        }
    }
}
