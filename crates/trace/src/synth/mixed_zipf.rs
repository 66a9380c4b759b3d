//! `mixed-zipf`: the distribution of the common trace that peers are measured on.
//!
//! 1,000,000 requests, exponential arrivals with mean 1 ms, 70 % writes, 4, 8, 16, 32 and 64 KiB in shares of 50, 20,
//! 15, 10 and 5 %, 4 KiB-aligned, Zipf 0.99 over the pages of 8 GiB with ranks scattered by a permutation. Same
//! distribution, other random numbers than the Python script that wrote `common.mqsim`.

use super::mix::MixParams;
use super::{Params, Synth, defaults, make, schema};
use nandu_base::{ByteLen, Ratio, Span};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The distribution of the common trace.
pub static SYNTH: Synth = Synth {
    name: MixedZipf::NAME,
    summary: "70 % writes of 4 to 64 KiB, Zipf 0.99 over 8 GiB, 1 ms: the distribution of the common trace",
    published: "70 % writes (+-0.5 points), 12.7 KB (+-1 %), 1 ms (+-1 %), 3.10 pages (+-1 %)",
    defaults: defaults::<MixedZipf>,
    schema: schema::<MixedZipf>,
    make: make::<MixedZipf>,
};

/// Parameters of `mixed-zipf`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct MixedZipf {
    /// Requests to make.
    pub requests: u64,
    /// Mean time between arrivals.
    pub interarrival: Span,
    /// Share of writes.
    pub write: Ratio,
    /// Address space, a multiple of 4 KiB, at most 64 GiB.
    pub space: ByteLen,
    /// Zipf exponent over the 4 KiB pages of the space.
    pub zipf: Ratio,
}

impl Default for MixedZipf {
    fn default() -> MixedZipf {
        MixedZipf {
            requests: 1_000_000,
            interarrival: Span::from_ms(1),
            write: Ratio::new(7, 10),
            space: ByteLen::gib(8),
            zipf: Ratio::new(99, 100),
        }
    }
}

impl Params for MixedZipf {
    const NAME: &'static str = "mixed-zipf";

    fn mix(self) -> MixParams {
        MixParams {
            sizes: [(4, 50), (8, 20), (16, 15), (32, 10), (64, 5)]
                .map(|(kib, w)| (ByteLen::kib(kib), w))
                .into(),
            zipf: Some(self.zipf),
            ..MixParams::plain(self.requests, self.interarrival, self.write, self.space)
        }
    }
}
