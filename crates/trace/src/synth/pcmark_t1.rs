//! `pcmark-t1`: a stand-in for PCMark05 trace T1, general application use.
//!
//! The trace is not public. What is known is what the paper on segment prefetching
//! says of it (2011, section 5). Small reads with spatial locality: 4 to 16 KiB, in
//! neighbourhoods that are popular as a whole, met again and again, a fifth writes, 600 MiB.
//!
//! Not modelled: neighbourhoods that come and go over time.

use super::mix::{Mix, MixParams};
use super::{ALL, Generate, MOST_SPACE, MOST_ZIPF, Made};
use nandu_base::{ByteLen, Declared, Ratio, Span, options};
use serde::Serialize;

/// Parameters of `pcmark-t1`.
#[options]
#[derive(Clone, Debug, Serialize)]
pub struct PcmarkT1 {
    /// Requests to make.
    #[option(default = 200_000, also = "all arrivals within 26 days")]
    pub requests: u64,
    /// Mean time between arrivals.
    #[option(default = Span::from_ms(2), also = "all arrivals within 26 days")]
    pub interarrival: Span,
    /// Share of writes.
    #[option(default = Ratio::new(1, 5), range = ..=ALL)]
    pub write: Ratio,
    /// Address space.
    #[option(default = ByteLen::mib(600), range = ByteLen::kib(4)..=MOST_SPACE, also = "a multiple of `neighbourhood`")]
    pub space: ByteLen,
    /// Share of requests that start where the one before ended.
    #[option(default = Ratio::new(1, 4), range = ..=ALL)]
    pub sequential: Ratio,
    /// Bytes that are popular together.
    #[option(default = ByteLen::kib(128), range = ByteLen::kib(4).., multiple_of = ByteLen::kib(4))]
    pub neighbourhood: ByteLen,
    /// Zipf exponent over the 4 KiB pages.
    #[option(default = Ratio::new(4, 5), range = ..=MOST_ZIPF)]
    pub zipf: Ratio,
}

impl Declared for PcmarkT1 {
    const NAME: &'static str = "pcmark-t1";
    const SUMMARY: &'static str =
        "stand-in for PCMark05 T1, general use: small requests in popular neighbourhoods";
    const SOURCE: &'static str = "none: proprietary; shaped after what a paper says of it";
}

impl Generate for PcmarkT1 {
    fn records(&self, seed: u64) -> Made {
        let mix = MixParams {
            sizes: [(4, 60), (8, 25), (16, 15)].map(|(kib, w)| (ByteLen::kib(kib), w)).into(),
            piece: self.neighbourhood,
            zipf: Some(self.zipf),
            sequential: self.sequential,
            ..MixParams::plain(self.requests, self.interarrival, self.write, self.space)
        };
        Mix::records(mix, seed)
    }
}
