//! `financial1`: a stand-in for Financial1, OLTP at a financial institution (SPC, UMass Trace Repository).
//!
//! Published for the whole trace: 5,334,987 requests in about 43,700 s (8.2 ms), 76.8 % writes, mean size 3.4 KB, mean
//! 1.44 pages of 4 KiB; a hot set of 0.5 to 1 GB in a 5 GB space. Met here: write share within 0.5 points, mean size
//! and inter-arrival within 3 %, pages within 0.03, footprint 0.5 to 1 GB over the whole trace.
//!
//! Half of the gaps are short (bursts). Not modelled: the shares of the 24 ASUs. Change over the day is a setting (`period`), off by
//! default, and so is a hot set that moves (`drift`). 120 KiB fit the first 10,000 requests of the trace: of the accesses of 1,000 requests 14 %
//! go to pages that were asked for twice or more in the 1,000 before, and 5 % to those of 4,000 before; here 18 and 6 %, and 38 % at any distance where nothing moves.
//! Over the whole trace that goes once over the 640 MiB which are touched.
//!
//! The first 10,000 requests also come in 22 streams: 45.2 % start where the one before of their ASU ended (of all ASUs mixed 3.3 %, where 2 % are published), and of the others 41 % less than
//! 1 MiB from there. So 1,000 requests touch 70 regions of 1 MiB, and all of them 174; here 398 and 1,930. `streams`, `sequential` and `near` are those shares; with
//! `piece` 1 MiB and `zipf` 6/5, which are fitted, 1,000 requests touch 68 regions, and 10,000 touch 306. `drift` is then 220 KiB: of the accesses 24, 13 and 5.5 % go to pages that were asked for twice or
//! more in the 1,000 requests that began 1,000, 2,000 and 4,000 before, and 13, 7.8 and 4.9 % in the recorded part.

use super::cycle::CycleParams;
use super::mix::{MOST_STREAMS, Mix, MixParams};
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
    /// Neighbouring ranks lie together in pieces of this size, which are scattered over the space.
    #[option(default = ByteLen::kib(64), range = ByteLen::kib(64).., multiple_of = ByteLen::kib(64), also = "divides `space` and `hot`")]
    pub piece: ByteLen,
    /// Streams that are mixed, as those of the trace's disks are.
    #[option(default = 1, range = 1..=MOST_STREAMS)]
    pub streams: u64,
    /// Share of requests that start where the one before of their stream ended.
    #[option(default = Ratio::new(2, 100), range = ..=ALL)]
    pub sequential: Ratio,
    /// Share of the others that start less than 1 MiB away from there.
    #[option(default = Ratio::ZERO, range = ..=ALL)]
    pub near: Ratio,
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
            piece: self.piece,
            zipf: Some(self.zipf),
            drift: self.drift,
            cycle: self.cycle,
            streams: self.streams,
            sequential: self.sequential,
            near: self.near,
            aligned: Ratio::new(47, 100),
            ..MixParams::plain(self.requests, self.interarrival, self.write, self.space)
        };
        Mix::records(mix, seed)
    }
}
