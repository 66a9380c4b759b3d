//! `desktop`: a stand-in for a trace of ordinary applications on a personal computer, with the pauses of its user.
//!
//! The trace is not public. What is known is what the hybrid-disk paper says of it (Yoo, Hong, Shin): recorded with
//! Diskmon while ordinary applications ran. Its length, rate and share of writes are not given. Assumed here: small requests in popular
//! neighbourhoods as in [`super::pcmark_t1`], 40 % writes as in published block traces of personal computers, runs of half of the requests, 1.5 GiB;
//! activity in bursts of 200 requests, 6 ms apart on average, and pauses of 13 s on average between them, so that a disk which may rest
//! does so now and then. Pauses are exponentially distributed; those of people have a heavier tail.

use super::mix::{Mix, MixParams};
use super::{ALL, Generate, MOST_SPACE, MOST_ZIPF, Made};
use nandu_base::{ByteLen, Declared, Ratio, Span, options};
use serde::Serialize;

/// Parameters of `desktop`.
#[options]
#[derive(Clone, Debug, Serialize)]
pub struct Desktop {
    /// Requests to make.
    #[option(default = 200_000, also = "all arrivals within 26 days")]
    pub requests: u64,
    /// Mean time between arrivals, pauses included.
    #[option(default = Span::from_ms(70), also = "all arrivals within 26 days")]
    pub interarrival: Span,
    /// Mean time between arrivals of a burst.
    #[option(default = Span::from_ms(6), also = "all arrivals within 26 days")]
    pub within: Span,
    /// Share of gaps that lie within a burst.
    #[option(default = Ratio::new(199, 200), below = ALL)]
    pub burst: Ratio,
    /// Share of writes.
    #[option(default = Ratio::new(2, 5), range = ..=ALL)]
    pub write: Ratio,
    /// Address space.
    #[option(default = ByteLen::mib(1536), range = ByteLen::kib(128)..=MOST_SPACE, multiple_of = ByteLen::kib(128))]
    pub space: ByteLen,
    /// Share of requests that start where the one before ended.
    #[option(default = Ratio::new(1, 2), range = ..=ALL)]
    pub sequential: Ratio,
    /// Zipf exponent over the 4 KiB pages.
    #[option(default = Ratio::new(9, 10), range = ..=MOST_ZIPF)]
    pub zipf: Ratio,
}

impl Declared for Desktop {
    const NAME: &'static str = "desktop";
    const SUMMARY: &'static str = "stand-in for ordinary applications on a personal computer: bursts, and pauses of seconds between them";
    const SOURCE: &'static str = "none: not public; shaped after what is known of such traces";
}

impl Generate for Desktop {
    fn records(&self, seed: u64) -> Made {
        let mix = MixParams {
            burst: self.burst,
            burst_interarrival: self.within,
            sizes: [(4, 55), (8, 15), (16, 12), (32, 10), (64, 8)]
                .map(|(kib, w)| (ByteLen::kib(kib), w))
                .into(),
            piece: ByteLen::kib(128),
            zipf: Some(self.zipf),
            sequential: self.sequential,
            ..MixParams::plain(self.requests, self.interarrival, self.write, self.space)
        };
        Mix::records(mix, seed)
    }
}
