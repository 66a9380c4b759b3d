//! `mixed-zipf`: the distribution of the common trace that peers are measured on.
//!
//! 1,000,000 requests, exponential arrivals with mean 1 ms, 70 % writes, 4, 8, 16, 32 and 64 KiB in shares of 50, 20,
//! 15, 10 and 5 %, 4 KiB-aligned, Zipf 0.99 over the pages of 8 GiB with ranks scattered by a permutation. Same
//! distribution, other random numbers than the Python script that wrote `common.mqsim`.

use super::mix::{Mix, MixParams};
use super::{ALL, Generate, MOST_ZIPF, Made};
use nandu_base::{ByteLen, Declared, Ratio, Span, options};
use serde::Serialize;

/// Parameters of `mixed-zipf`.
#[options]
#[derive(Clone, Debug, Serialize)]
pub struct MixedZipf {
    /// Requests to make.
    #[option(default = 1_000_000, also = "all arrivals within 26 days")]
    pub requests: u64,
    /// Mean time between arrivals.
    #[option(default = Span::from_ms(1), also = "all arrivals within 26 days")]
    pub interarrival: Span,
    /// Share of writes.
    #[option(default = Ratio::new(7, 10), range = ..=ALL)]
    pub write: Ratio,
    /// Address space.
    #[option(default = ByteLen::gib(8), range = ByteLen::kib(4)..=ByteLen::gib(64), multiple_of = ByteLen::kib(4))]
    pub space: ByteLen,
    /// Zipf exponent over the 4 KiB pages of the space.
    #[option(default = Ratio::new(99, 100), range = ..=MOST_ZIPF)]
    pub zipf: Ratio,
}

impl Declared for MixedZipf {
    const NAME: &'static str = "mixed-zipf";
    const SUMMARY: &'static str =
        "70 % writes of 4 to 64 KiB, Zipf 0.99 over 8 GiB, 1 ms: the distribution of the common trace";
    const SOURCE: &'static str =
        "70 % writes (+-0.5 points), 12.7 KB (+-1 %), 1 ms (+-1 %), 3.10 pages (+-1 %)";
}

impl Generate for MixedZipf {
    fn records(&self, seed: u64) -> Made {
        let mix = MixParams {
            sizes: [(4, 50), (8, 20), (16, 15), (32, 10), (64, 5)]
                .map(|(kib, w)| (ByteLen::kib(kib), w))
                .into(),
            zipf: Some(self.zipf),
            ..MixParams::plain(self.requests, self.interarrival, self.write, self.space)
        };
        Mix::records(mix, seed)
    }
}
