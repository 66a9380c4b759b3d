//! `financial1`: a stand-in for Financial1, OLTP at a financial institution (SPC, UMass Trace Repository).
//!
//! Published for the whole trace: 5,334,987 requests in about 43,700 s (8.2 ms), 76.8 % writes, mean size 3.4 KB, mean
//! 1.44 pages of 4 KiB; a hot set of 0.5 to 1 GB in a 5 GB space. Met here: write share within 0.5 points, mean size
//! and inter-arrival within 3 %, pages within 0.03, footprint 0.5 to 1 GB over the whole trace.
//!
//! Half of the gaps are short (bursts). Not modelled: the 24 ASUs and their shares. Change over the day is a setting (`period`), off by
//! default, and so is a hot set that moves (`drift`). 120 KiB fit the first 10,000 requests of the trace: of the accesses of 1,000 requests 14 %
//! go to pages that were asked for twice or more in the 1,000 before, and 5 % to those of 4,000 before; here 18 and 6 %, and 38 % at any distance where nothing moves.
//! Over the whole trace that goes once over the 640 MiB which are touched.

use super::cycle::CycleParams;
use super::mix::{Mix, MixParams};
use super::{ALL, Generate, MOST_SPACE, MOST_ZIPF, Made};
use nandu_base::{ByteLen, Declared, Ratio, Span, options};
use serde::Serialize;

/// Parameters of `financial1`.
#[options]
#[derive(Clone, Debug, Serialize)]
pub struct Financial1 {
    /// Requests to make.
    #[option(default = 5_334_987, also = "all arrivals within 26 days")]
    pub requests: u64,
    /// Mean time between arrivals.
    #[option(default = Span::from_us(8_200), also = "all arrivals within 26 days")]
    pub interarrival: Span,
    /// Share of writes.
    #[option(default = Ratio::new(768, 1000), range = ..=ALL)]
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
    /// How far ranks move over the hot set in 1,000 requests.
    #[option(default = ByteLen::ZERO, off = "a hot set that stays", range = ByteLen(1)..)]
    pub drift: ByteLen,
    /// How it changes over time.
    #[option(flatten, default)]
    pub cycle: CycleParams,
}

impl Declared for Financial1 {
    const NAME: &'static str = "financial1";
    const SUMMARY: &'static str =
        "stand-in for SPC Financial1: OLTP, write-dominated, small requests, bursts";
    const SOURCE: &'static str =
        "76.8 % writes (+-0.5 points), 3.4 KB (+-3 %), 8.2 ms (+-3 %), 1.44 pages (+-0.03), 0.5-1 GB touched";
}

impl Generate for Financial1 {
    fn records(&self, seed: u64) -> Made {
        let mix = MixParams {
            burst: Ratio::new(1, 2),
            burst_interarrival: Span(self.interarrival.0 / 16),
            // Mean 3,435 B; with 47 % of the starts at a page, 1.44 pages.
            sizes: [(512, 15), (1024, 12), (2048, 14), (4096, 46), (8192, 13)]
                .map(|(b, w)| (ByteLen(b), w))
                .into(),
            hot: self.hot,
            piece: ByteLen::kib(64),
            zipf: Some(self.zipf),
            drift: self.drift,
            cycle: self.cycle,
            sequential: Ratio::new(2, 100),
            aligned: Ratio::new(47, 100),
            ..MixParams::plain(self.requests, self.interarrival, self.write, self.space)
        };
        Mix::records(mix, seed)
    }
}
