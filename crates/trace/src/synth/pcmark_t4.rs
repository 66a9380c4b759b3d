//! `pcmark-t4`: a stand-in for PCMark05 trace T4, a virus scan.
//!
//! The trace is not public. What is known is what the paper on segment prefetching
//! says of it (2011, section 5). A long scan of small files: runs of four requests of 4 to 32 KiB
//! on average, nothing written, 4 GiB.

use super::mix::{Mix, MixParams};
use super::{ALL, Generate, MOST_SPACE, Made};
use nandu_base::{ByteLen, Declared, Ratio, Span, options};
use serde::Serialize;

/// Parameters of `pcmark-t4`.
#[options]
#[derive(Clone, Debug, Serialize)]
pub struct PcmarkT4 {
    /// Requests to make.
    #[option(default = 200_000, also = "all arrivals within 26 days")]
    pub requests: u64,
    /// Mean time between arrivals.
    #[option(default = Span::from_ms(2), also = "all arrivals within 26 days")]
    pub interarrival: Span,
    /// Share of writes.
    #[option(default = Ratio::ZERO, range = ..=ALL)]
    pub write: Ratio,
    /// Address space.
    #[option(default = ByteLen::gib(4), range = ByteLen::kib(64)..=MOST_SPACE, multiple_of = ByteLen::kib(64))]
    pub space: ByteLen,
    /// Share of requests that start where the one before ended.
    #[option(default = Ratio::new(3, 4), range = ..=ALL)]
    pub sequential: Ratio,
}

impl Declared for PcmarkT4 {
    const NAME: &'static str = "pcmark-t4";
    const SUMMARY: &'static str = "stand-in for PCMark05 T4, virus scan: many small files, read once";
    const SOURCE: &'static str = "none: proprietary; shaped after what a paper says of it";
}

impl Generate for PcmarkT4 {
    fn records(&self, seed: u64) -> Made {
        let mix = MixParams {
            sizes: [(4, 40), (8, 25), (16, 20), (32, 15)].map(|(kib, w)| (ByteLen::kib(kib), w)).into(),
            piece: ByteLen::kib(64),
            sequential: self.sequential,
            ..MixParams::plain(self.requests, self.interarrival, self.write, self.space)
        };
        Mix::records(mix, seed)
    }
}
