//! `uniform`: requests of one size at even random places.
//!
//! The plain load of drive data sheets (4 KiB random), with shares of flush, trim and FUA for tests. Not a stand-in for
//! any published trace.

use super::mix::{Mix, MixParams};
use super::{ALL, Generate, MOST_LEN, MOST_SPACE, Made};
use nandu_base::{ByteLen, Declared, Ratio, SECTOR, Span, options};
use serde::Serialize;

/// Parameters of `uniform`.
#[options]
#[derive(Clone, Debug, Serialize)]
pub struct Uniform {
    /// Requests to make.
    #[option(default = 1_000_000, also = "all arrivals within 26 days")]
    pub requests: u64,
    /// Mean time between arrivals, exponentially distributed.
    #[option(default = Span::from_ms(1), also = "all arrivals within 26 days")]
    pub interarrival: Span,
    /// Share of writes in the requests that are neither flush nor trim.
    #[option(default = Ratio::new(1, 2), range = ..=ALL)]
    pub write: Ratio,
    /// Share of flushes in all requests.
    #[option(default = Ratio::ZERO, range = ..=ALL)]
    pub flush: Ratio,
    /// Share of trims in the requests that are no flush.
    #[option(default = Ratio::ZERO, range = ..=ALL)]
    pub trim: Ratio,
    /// Share of writes with FUA.
    #[option(default = Ratio::ZERO, range = ..=ALL)]
    pub fua: Ratio,
    /// Length of each request and unit of its place.
    #[option(default = ByteLen::kib(4), range = ByteLen(SECTOR)..=MOST_LEN, multiple_of = ByteLen(SECTOR))]
    pub size: ByteLen,
    /// Address space.
    #[option(default = ByteLen::gib(8), range = ByteLen(SECTOR)..=MOST_SPACE, also = "a multiple of `size`")]
    pub space: ByteLen,
    /// Writes and trims go to this much space behind it.
    #[option(default = ByteLen(0), off = "to the same places as reads", range = ByteLen(SECTOR).., also = "a multiple of `size`")]
    pub write_space: ByteLen,
    /// Share of requests that start where the one before ended: 15/16 makes runs of 16 on average.
    #[option(default = Ratio::ZERO, range = ..=ALL)]
    pub sequential: Ratio,
}

impl Declared for Uniform {
    const NAME: &'static str = "uniform";
    const SUMMARY: &'static str =
        "requests of one size at even random places, with optional runs, flush, trim and FUA";
    const SOURCE: &'static str = "none: its parameters are exact shares and means";
}

impl Generate for Uniform {
    fn records(&self, seed: u64) -> Made {
        let mix = MixParams {
            flush: self.flush,
            trim: self.trim,
            fua: self.fua,
            sizes: vec![(self.size, 1)],
            write_space: self.write_space,
            grain: self.size,
            piece: self.size,
            sequential: self.sequential,
            ..MixParams::plain(self.requests, self.interarrival, self.write, self.space)
        };
        Mix::records(mix, seed)
    }
}
