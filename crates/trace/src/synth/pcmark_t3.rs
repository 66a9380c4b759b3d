//! `pcmark-t3`: a stand-in for PCMark05 trace T3, the start of Windows XP.
//!
//! The trace is not public. What is known is what the paper on segment prefetching
//! says of it (2011, section 5). As T2 with shorter runs, smaller requests and more writes.

use super::mix::MixParams;
use super::{Params, Synth, defaults, make, schema};
use nandu_base::{ByteLen, Ratio, Span};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Stand-in for PCMark05 trace T3.
pub static SYNTH: Synth = Synth {
    name: PcmarkT3::NAME,
    summary: "stand-in for PCMark05 T3, XP start: shorter runs, smaller requests, some writes",
    published: "none: proprietary; shaped after what a paper says of it",
    defaults: defaults::<PcmarkT3>,
    schema: schema::<PcmarkT3>,
    make: make::<PcmarkT3>,
};

/// Parameters of `pcmark-t3`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PcmarkT3 {
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

impl Default for PcmarkT3 {
    fn default() -> PcmarkT3 {
        PcmarkT3 {
            requests: 200_000,
            interarrival: Span::from_ms(2),
            write: Ratio::new(1, 10),
            space: ByteLen::gib(2),
            sequential: Ratio::new(3, 4),
        }
    }
}

impl Params for PcmarkT3 {
    const NAME: &'static str = "pcmark-t3";

    fn mix(self) -> MixParams {
        MixParams {
            sizes: [(4, 15), (16, 25), (32, 30), (64, 30)].map(|(kib, w)| (ByteLen::kib(kib), w)).into(),
            piece: ByteLen::kib(64),
            sequential: self.sequential,
            ..MixParams::plain(self.requests, self.interarrival, self.write, self.space)
        }
    }
}
