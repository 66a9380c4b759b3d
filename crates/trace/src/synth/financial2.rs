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

use super::cycle::{self, CycleParams};
use super::mix::MixParams;
use super::{Params, Synth, defaults, make, schema};
use nandu_base::{ByteLen, Ratio, Span};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Stand-in for Financial2.
pub static SYNTH: Synth = Synth {
    name: Financial2::NAME,
    summary: "stand-in for SPC Financial2: OLTP, read-dominated, small requests",
    published: "17.7 % writes (+-0.5 points), 2.4 KB (+-3 %), 11.1 ms (+-3 %)",
    defaults: defaults::<Financial2>,
    schema: schema::<Financial2>,
    make: make::<Financial2>,
};

/// Parameters of `financial2`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Financial2 {
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
    /// Share of requests that start at a page; the others start at any sector.
    pub aligned: Ratio,
    /// Length of a cycle of a busy and a quiet phase; 0 for a load that does not change over time.
    pub period: Span,
    /// Part of a cycle that is busy.
    pub busy: Ratio,
    /// Share of the requests that arrive in it.
    pub busy_share: Ratio,
    /// Part of a cycle that is over when the load begins.
    pub offset: Ratio,
}

impl Default for Financial2 {
    fn default() -> Financial2 {
        Financial2 {
            requests: 3_699_195,
            interarrival: Span::from_us(11_100),
            write: Ratio::new(177, 1000),
            space: ByteLen::gib(5),
            hot: ByteLen::mib(640),
            zipf: Ratio::new(1, 1),
            aligned: Ratio::new(1, 2),
            period: Span::ZERO,
            busy: cycle::BUSY,
            busy_share: cycle::BUSY_SHARE,
            offset: Ratio::ZERO,
        }
    }
}

impl Params for Financial2 {
    const NAME: &'static str = "financial2";

    fn mix(self) -> MixParams {
        MixParams {
            burst: Ratio::new(1, 2),
            burst_interarrival: Span(self.interarrival.0 / 16),
            // Mean 2,412 B.
            sizes: [(512, 23), (1024, 14), (2048, 29), (4096, 30), (8192, 4)]
                .map(|(b, w)| (ByteLen(b), w))
                .into(),
            hot: self.hot,
            piece: ByteLen::kib(64),
            zipf: Some(self.zipf),
            cycle: CycleParams {
                period: self.period,
                busy: self.busy,
                share: self.busy_share,
                offset: self.offset,
            },
            sequential: Ratio::new(2, 100),
            aligned: self.aligned,
            ..MixParams::plain(self.requests, self.interarrival, self.write, self.space)
        }
    }
}
