//! `pcmark-t2`: a stand-in for PCMark05 trace T2, program loading.
//!
//! The trace is not public. What is known is what the paper on segment prefetching
//! says of it (2011, section 5). Sequential runs as long as files, that begin anywhere, and
//! hardly any reuse: requests of 8 to 64 KiB in runs of eight on average, 2 GiB.

use super::mix::{Mix, MixParams};
use super::{ALL, Generate, MOST_SPACE, Made};
use nandu_base::{ByteLen, Declared, Ratio, Span, options};
use serde::Serialize;

/// Parameters of `pcmark-t2`.
#[options]
#[derive(Clone, Debug, Serialize)]
pub struct PcmarkT2 {
    /// Requests to make.
    #[option(default = 200_000, also = "all arrivals within 26 days")]
    pub requests: u64,
    /// Mean time between arrivals.
    #[option(default = Span::from_ms(2), also = "all arrivals within 26 days")]
    pub interarrival: Span,
    /// Share of writes.
    #[option(default = Ratio::new(1, 20), range = ..=ALL)]
    pub write: Ratio,
    /// Address space.
    #[option(default = ByteLen::gib(2), range = ByteLen::kib(64)..=MOST_SPACE, multiple_of = ByteLen::kib(64))]
    pub space: ByteLen,
    /// Share of requests that start where the one before ended.
    #[option(default = Ratio::new(7, 8), range = ..=ALL)]
    pub sequential: Ratio,
}

impl Declared for PcmarkT2 {
    const NAME: &'static str = "pcmark-t2";
    const SUMMARY: &'static str = "stand-in for PCMark05 T2, program loading: sequential runs with any start";
    const SOURCE: &'static str = "none: proprietary; shaped after what a paper says of it";
}

impl Generate for PcmarkT2 {
    fn records(&self, seed: u64) -> Made {
        let mix = MixParams {
            sizes: [(8, 10), (16, 20), (32, 30), (64, 40)].map(|(kib, w)| (ByteLen::kib(kib), w)).into(),
            piece: ByteLen::kib(64),
            sequential: self.sequential,
            ..MixParams::plain(self.requests, self.interarrival, self.write, self.space)
        };
        Mix::records(mix, seed)
    }
}
