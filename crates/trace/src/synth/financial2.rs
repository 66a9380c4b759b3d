//! `financial2`: a stand-in for Financial2, OLTP at a financial institution (SPC, UMass Trace Repository).
//!
//! Published for the whole trace: 3,699,195 requests at 11.1 ms, 17.7 % writes, mean size 2.4 KB. Met here: write share
//! within 0.5 points, mean size and inter-arrival within 3 %. Space and hot set are not published; those of
//! [`super::financial1`] are taken.
//!
//! *Pages.* Where requests start within a page is not published for the trace. By default half of them start on any sector, as was
//! chosen at first, and a request touches 1.25 pages of 4 KiB. Kim and Kwak's Table 3 (2019) has 1.09: with `aligned = 22/25`, which
//! leaves sizes, gaps and operations as they are, both that and the 2.4 KB are met. It is no default, as other experiments are
//! measured with the half.

use super::cycle::CycleParams;
use super::mix::{Mix, MixParams};
use super::{ALL, Generate, MOST_SPACE, MOST_ZIPF, Made};
use nandu_base::{ByteLen, Declared, Ratio, Span, options};
use serde::Serialize;

/// Parameters of `financial2`.
#[options]
#[derive(Clone, Debug, Serialize)]
pub struct Financial2 {
    /// Requests to make.
    #[option(default = 3_699_195, also = "all arrivals within 26 days")]
    pub requests: u64,
    /// Mean time between arrivals.
    #[option(default = Span::from_us(11_100), also = "all arrivals within 26 days")]
    pub interarrival: Span,
    /// Share of writes.
    #[option(default = Ratio::new(177, 1000), range = ..=ALL)]
    pub write: Ratio,
    /// Address space.
    #[option(default = ByteLen::gib(5), range = ByteLen::kib(64)..=MOST_SPACE, multiple_of = ByteLen::kib(64))]
    pub space: ByteLen,
    /// Part of it that is ever started at.
    #[option(default = ByteLen::mib(640), range = ByteLen::kib(64).., multiple_of = ByteLen::kib(64), also = "at most `space`")]
    pub hot: ByteLen,
    /// Zipf exponent over the 4 KiB pages of the hot set.
    #[option(default = Ratio::new(1, 1), range = ..=MOST_ZIPF)]
    pub zipf: Ratio,
    /// Share of requests that start at a page; the others start at any sector.
    #[option(default = Ratio::new(1, 2), range = ..=ALL)]
    pub aligned: Ratio,
    /// How it changes over time.
    #[option(flatten, default)]
    pub cycle: CycleParams,
}

impl Declared for Financial2 {
    const NAME: &'static str = "financial2";
    const SUMMARY: &'static str = "stand-in for SPC Financial2: OLTP, read-dominated, small requests";
    const SOURCE: &'static str = "17.7 % writes (+-0.5 points), 2.4 KB (+-3 %), 11.1 ms (+-3 %)";
}

impl Generate for Financial2 {
    fn records(&self, seed: u64) -> Made {
        let mix = MixParams {
            burst: Ratio::new(1, 2),
            burst_interarrival: Span(self.interarrival.0 / 16),
            // Mean 2,412 B.
            sizes: [(512, 23), (1024, 14), (2048, 29), (4096, 30), (8192, 4)]
                .map(|(b, w)| (ByteLen(b), w))
                .into(),
            hot: self.hot,
            piece: ByteLen::kib(64),
            zipf: Some(self.zipf),
            cycle: self.cycle,
            sequential: Ratio::new(2, 100),
            aligned: self.aligned,
            ..MixParams::plain(self.requests, self.interarrival, self.write, self.space)
        };
        Mix::records(mix, seed)
    }
}
