//! `pcmark-t4`: a stand-in for PCMark05 trace T4, a virus scan.
//!
//! The trace is not public. What is known is what the paper on segment prefetching
//! says of it (2011, section 5). A long scan of small files: runs of four requests of 4 to 32 KiB
//! on average, nothing written, 4 GiB.

use super::mix::MixParams;
use super::{Params, Synth, defaults, make, schema};
use nandu_base::{ByteLen, Ratio, Span};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Stand-in for PCMark05 trace T4.
pub static SYNTH: Synth = Synth {
    name: PcmarkT4::NAME,
    summary: "stand-in for PCMark05 T4, virus scan: many small files, read once",
    published: "none: proprietary; shaped after what a paper says of it",
    defaults: defaults::<PcmarkT4>,
    schema: schema::<PcmarkT4>,
    make: make::<PcmarkT4>,
};

/// Parameters of `pcmark-t4`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PcmarkT4 {
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

impl Default for PcmarkT4 {
    fn default() -> PcmarkT4 {
        PcmarkT4 {
            requests: 200_000,
            interarrival: Span::from_ms(2),
            write: Ratio::ZERO,
            space: ByteLen::gib(4),
            sequential: Ratio::new(3, 4),
        }
    }
}

impl Params for PcmarkT4 {
    const NAME: &'static str = "pcmark-t4";

    fn mix(self) -> MixParams {
        MixParams {
            sizes: [(4, 40), (8, 25), (16, 20), (32, 15)].map(|(kib, w)| (ByteLen::kib(kib), w)).into(),
            piece: ByteLen::kib(64),
            sequential: self.sequential,
            ..MixParams::plain(self.requests, self.interarrival, self.write, self.space)
        }
    }
}
