//! `pcmark-t2`: a stand-in for PCMark05 trace T2, program loading.
//!
//! The trace is not public. What is known is what the paper on segment prefetching
//! says of it (2011, section 5). Sequential runs as long as files, that begin anywhere, and
//! hardly any reuse: requests of 8 to 64 KiB in runs of eight on average, 2 GiB.

use super::mix::MixParams;
use super::{Params, Synth, defaults, make, schema};
use nandu_base::{ByteLen, Ratio, Span};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Stand-in for PCMark05 trace T2.
pub static SYNTH: Synth = Synth {
    name: PcmarkT2::NAME,
    summary: "stand-in for PCMark05 T2, program loading: sequential runs with any start",
    published: "none: proprietary; shaped after what a paper says of it",
    defaults: defaults::<PcmarkT2>,
    schema: schema::<PcmarkT2>,
    make: make::<PcmarkT2>,
};

/// Parameters of `pcmark-t2`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PcmarkT2 {
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
}

impl Default for PcmarkT2 {
    fn default() -> PcmarkT2 {
        PcmarkT2 {
            requests: 200_000,
            interarrival: Span::from_ms(2),
            write: Ratio::new(1, 20),
            space: ByteLen::gib(2),
            sequential: Ratio::new(7, 8),
        }
    }
}

impl Params for PcmarkT2 {
    const NAME: &'static str = "pcmark-t2";

    fn mix(self) -> MixParams {
        MixParams {
            sizes: [(8, 10), (16, 20), (32, 30), (64, 40)].map(|(kib, w)| (ByteLen::kib(kib), w)).into(),
            piece: ByteLen::kib(64),
            sequential: self.sequential,
            ..MixParams::plain(self.requests, self.interarrival, self.write, self.space)
        }
    }
}
