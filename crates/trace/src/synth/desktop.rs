//! `desktop`: a stand-in for a trace of ordinary applications on a personal computer, with the pauses of its user.
//!
//! The trace is not public. What is known is what the hybrid-disk paper says of it (Yoo, Hong, Shin): recorded with
//! Diskmon while ordinary applications ran. Its length, rate and share of writes are not given. Assumed here: small requests in popular
//! neighbourhoods as in [`super::pcmark_t1`], 40 % writes as in published block traces of personal computers, runs of half of the requests, 1.5 GiB;
//! activity in bursts of 200 requests, 6 ms apart on average, and pauses of 13 s on average between them, so that a disk which may rest
//! does so now and then. Pauses are exponentially distributed; those of people have a heavier tail.

use super::mix::MixParams;
use super::{Params, Synth, defaults, make, schema};
use nandu_base::{ByteLen, Ratio, Span};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Stand-in for a desktop.
pub static SYNTH: Synth = Synth {
    name: Desktop::NAME,
    summary: "stand-in for ordinary applications on a personal computer: bursts, and pauses of seconds between them",
    published: "none: not public; shaped after what is known of such traces",
    defaults: defaults::<Desktop>,
    schema: schema::<Desktop>,
    make: make::<Desktop>,
};

/// Parameters of `desktop`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Desktop {
    /// Requests to make.
    pub requests: u64,
    /// Mean time between arrivals, pauses included.
    pub interarrival: Span,
    /// Mean time between arrivals of a burst.
    pub within: Span,
    /// Share of gaps that lie within a burst.
    pub burst: Ratio,
    /// Share of writes.
    pub write: Ratio,
    /// Address space, a multiple of 128 KiB.
    pub space: ByteLen,
    /// Share of requests that start where the one before ended.
    pub sequential: Ratio,
    /// Zipf exponent over the 4 KiB pages.
    pub zipf: Ratio,
}

impl Default for Desktop {
    fn default() -> Desktop {
        Desktop {
            requests: 200_000,
            interarrival: Span::from_ms(70),
            within: Span::from_ms(6),
            burst: Ratio::new(199, 200),
            write: Ratio::new(2, 5),
            space: ByteLen::mib(1536),
            sequential: Ratio::new(1, 2),
            zipf: Ratio::new(9, 10),
        }
    }
}

impl Params for Desktop {
    const NAME: &'static str = "desktop";

    fn mix(self) -> MixParams {
        MixParams {
            burst: self.burst,
            burst_interarrival: self.within,
            sizes: [(4, 55), (8, 15), (16, 12), (32, 10), (64, 8)]
                .map(|(kib, w)| (ByteLen::kib(kib), w))
                .into(),
            piece: ByteLen::kib(128),
            zipf: Some(self.zipf),
            sequential: self.sequential,
            ..MixParams::plain(self.requests, self.interarrival, self.write, self.space)
        }
    }
}
