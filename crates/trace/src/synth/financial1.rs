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

use super::cycle::{self, CycleParams};
use super::mix::MixParams;
use super::{Params, Synth, defaults, make, schema};
use nandu_base::{ByteLen, Ratio, Span};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Stand-in for Financial1.
pub static SYNTH: Synth = Synth {
    name: Financial1::NAME,
    summary: "stand-in for SPC Financial1: OLTP, write-dominated, small requests, bursts",
    published: "76.8 % writes (+-0.5 points), 3.4 KB (+-3 %), 8.2 ms (+-3 %), 1.44 pages (+-0.03), 0.5-1 GB touched",
    defaults: defaults::<Financial1>,
    schema: schema::<Financial1>,
    make: make::<Financial1>,
};

/// Parameters of `financial1`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Financial1 {
    /// Requests to make.
    pub requests: u64,
    /// Mean time between arrivals.
    pub interarrival: Span,
    /// Share of writes.
    pub write: Ratio,
    /// Address space, a multiple of 64 KiB.
    pub space: ByteLen,
    /// Part of it that is ever started at, a multiple of 64 KiB.
    pub hot: ByteLen,
    /// Zipf exponent over the 4 KiB pages of the hot set.
    pub zipf: Ratio,
    /// How far ranks move over the hot set in 1,000 requests; 0 for a hot set that stays.
    pub drift: ByteLen,
    /// Length of a cycle of a busy and a quiet phase; 0 for a load that does not change over time.
    pub period: Span,
    /// Part of a cycle that is busy.
    pub busy: Ratio,
    /// Share of the requests that arrive in it.
    pub busy_share: Ratio,
    /// Part of a cycle that is over when the load begins.
    pub offset: Ratio,
}

impl Default for Financial1 {
    fn default() -> Financial1 {
        Financial1 {
            requests: 5_334_987,
            interarrival: Span::from_us(8_200),
            write: Ratio::new(768, 1000),
            space: ByteLen::gib(5),
            hot: ByteLen::mib(640),
            zipf: Ratio::new(1, 1),
            drift: ByteLen::ZERO,
            period: Span::ZERO,
            busy: cycle::BUSY,
            busy_share: cycle::BUSY_SHARE,
            offset: Ratio::ZERO,
        }
    }
}

impl Params for Financial1 {
    const NAME: &'static str = "financial1";

    fn mix(self) -> MixParams {
        MixParams {
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
            cycle: CycleParams {
                period: self.period,
                busy: self.busy,
                share: self.busy_share,
                offset: self.offset,
            },
            sequential: Ratio::new(2, 100),
            aligned: Ratio::new(47, 100),
            ..MixParams::plain(self.requests, self.interarrival, self.write, self.space)
        }
    }
}
