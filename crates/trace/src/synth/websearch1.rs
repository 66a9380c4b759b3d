//! `websearch1`: a stand-in for WebSearch1, a search engine (SPC, UMass Trace Repository).
//!
//! Published for the whole trace: 1,055,448 requests in about 3,150 s (3.0 ms), 0.02 % writes; reads of 8 to 32 KiB at
//! random aligned places, mean 15 KB, over 16 GB with very little reuse. Met here: write share within 0.02 points, mean
//! size and inter-arrival within 2 %, all requests aligned to 8 KiB.

use super::mix::{Mix, MixParams};
use super::{ALL, Generate, MOST_SPACE, Made};
use nandu_base::{ByteLen, Declared, Ratio, Span, options};
use serde::Serialize;

/// Parameters of `websearch1`.
#[options]
#[derive(Clone, Debug, Serialize)]
pub struct WebSearch1 {
    /// Requests to make.
    #[option(default = 1_055_448, also = "all arrivals within 26 days")]
    pub requests: u64,
    /// Mean time between arrivals.
    #[option(default = Span::from_ms(3), also = "all arrivals within 26 days")]
    pub interarrival: Span,
    /// Share of writes.
    #[option(default = Ratio::new(2, 10_000), range = ..=ALL)]
    pub write: Ratio,
    /// Address space.
    #[option(default = ByteLen::gib(16), range = ByteLen::kib(8)..=MOST_SPACE, multiple_of = ByteLen::kib(8))]
    pub space: ByteLen,
}

impl Declared for WebSearch1 {
    const NAME: &'static str = "websearch1";
    const SUMMARY: &'static str = "stand-in for SPC WebSearch1: random aligned reads of 8 to 32 KiB";
    const SOURCE: &'static str =
        "0.02 % writes (+-0.02 points), 15 KiB (+-2 %), 3.0 ms (+-2 %), aligned, over 16 GiB";
}

impl Generate for WebSearch1 {
    fn records(&self, seed: u64) -> Made {
        let mix = MixParams {
            // Mean 15.04 KiB.
            sizes: [(8, 58), (16, 14), (24, 10), (32, 18)].map(|(kib, w)| (ByteLen::kib(kib), w)).into(),
            grain: ByteLen::kib(8),
            piece: ByteLen::kib(8),
            ..MixParams::plain(self.requests, self.interarrival, self.write, self.space)
        };
        Mix::records(mix, seed)
    }
}
