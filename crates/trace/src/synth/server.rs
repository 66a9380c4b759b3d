//! `webmail`, `web-vm`, `webusers`, `online`: stand-ins for traces of a university's servers (IOTTA repository).
//!
//! What is known here is Table 3 of Kim and Kwak, "Performance Isolation of Shared Space for Virtualized SSD based Storage
//! Systems" (2019): share of writes, mean pages of a request, size. Met: writes within 0.5 points, pages within 1 %, size within
//! 10 %. The rest is ours, one shape for all four: whole pages, half of the gaps short, and as in [`super::financial1`] an eighth of the
//! space is hot, Zipf 1, in pieces of 64 KiB. Not modelled: files. Change over the day is a setting
//! (`period`), off by default.

use super::cycle::{self, CycleParams};
use super::mix::MixParams;
use super::{Params, Synth, defaults, make, schema};
use nandu_base::{ByteLen, Ratio, Span};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A stand-in: its types and names, writes in percent, pages in words, size in GiB, and weights of 1, 2, 4, 8 and 16 pages.
macro_rules! server {
    ($synth:ident, $params:ident, $name:literal, $write:literal, $pages:literal, $gib:literal, $weights:expr) => {
        #[doc = concat!("Stand-in for ", $name, ".")]
        pub static $synth: Synth = Synth {
            name: $params::NAME,
            summary: concat!(
                "stand-in for ",
                $name,
                " of the IOTTA repository: a university's server, ",
                $write,
                " % writes"
            ),
            published: concat!(
                $write,
                " % writes (+-0.5 points), ",
                $pages,
                " pages (+-1 %), ",
                $gib,
                " GiB (+-10 %)"
            ),
            defaults: defaults::<$params>,
            schema: schema::<$params>,
            make: make::<$params>,
        };

        #[doc = concat!("Parameters of `", $name, "`.")]
        #[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
        #[serde(default, deny_unknown_fields)]
        pub struct $params {
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
            /// Length of a cycle of a busy and a quiet phase; 0 for a load that does not change over time.
            pub period: Span,
            /// Part of a cycle that is busy.
            pub busy: Ratio,
            /// Share of the requests that arrive in it.
            pub busy_share: Ratio,
            /// Part of a cycle that is over when the load begins.
            pub offset: Ratio,
        }

        impl Default for $params {
            fn default() -> $params {
                $params {
                    requests: 1_000_000,
                    interarrival: Span::from_ms(4),
                    write: Ratio::new($write, 100),
                    space: ByteLen::gib($gib),
                    hot: ByteLen::mib($gib * 128),
                    zipf: Ratio::new(1, 1),
                    period: Span::ZERO,
                    busy: cycle::BUSY,
                    busy_share: cycle::BUSY_SHARE,
                    offset: Ratio::ZERO,
                }
            }
        }

        impl Params for $params {
            const NAME: &'static str = $name;

            fn mix(self) -> MixParams {
                let pages = [1, 2, 4, 8, 16].map(|pages| ByteLen::kib(4 * pages));
                MixParams {
                    burst: Ratio::new(1, 2),
                    burst_interarrival: Span(self.interarrival.0 / 16),
                    sizes: pages.into_iter().zip($weights).collect(),
                    hot: self.hot,
                    piece: ByteLen::kib(64),
                    zipf: Some(self.zipf),
                    cycle: CycleParams {
                        period: self.period,
                        busy: self.busy,
                        share: self.busy_share,
                        offset: self.offset,
                    },
                    ..MixParams::plain(self.requests, self.interarrival, self.write, self.space)
                }
            }
        }
    };
}

server!(WEBMAIL, Webmail, "webmail", 73, "4.35", 40, [387, 130, 160, 263, 60]);
server!(WEB_VM, WebVm, "web-vm", 72, "4.19", 40, [410, 130, 160, 240, 60]);
server!(WEBUSERS, Webusers, "webusers", 70, "3.51", 10, [482, 140, 150, 188, 40]);
server!(ONLINE, Online, "online", 64, "3.80", 10, [440, 140, 150, 230, 40]);
