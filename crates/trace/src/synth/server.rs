//! `webmail`, `web-vm`, `webusers`, `online`: stand-ins for traces of a university's servers (IOTTA repository).
//!
//! What is known here is Table 3 of Kim and Kwak, "Performance Isolation of Shared Space for Virtualized SSD based Storage
//! Systems" (2019): share of writes, mean pages of a request, size. Met: writes within 0.5 points, pages within 1 %, size within
//! 10 %. The rest is ours, one shape for all four: whole pages, half of the gaps short, and as in [`super::financial1`] an eighth of the
//! space is hot, Zipf 1, in pieces of 64 KiB. Not modelled: files. Change over the day is a setting
//! (`period`), off by default.

use super::cycle::CycleParams;
use super::mix::{Mix, MixParams};
use super::{ALL, Generate, MOST_SPACE, MOST_ZIPF, Made};
use nandu_base::{ByteLen, Declared, Ratio, Span, options};
use serde::Serialize;

/// A stand-in: the type of its parameters, its name, writes in percent, pages in words, size in GiB, and weights of 1, 2, 4, 8 and 16 pages.
macro_rules! server {
    ($params:ident, $name:literal, $write:literal, $pages:literal, $gib:literal, $weights:expr) => {
        #[doc = concat!("Parameters of `", $name, "`.")]
        #[options]
        #[derive(Clone, Debug, Serialize)]
        pub struct $params {
            /// Requests to make.
            #[option(default = 1_000_000, also = "all arrivals within 26 days")]
            pub requests: u64,
            /// Mean time between arrivals.
            #[option(default = Span::from_ms(4), also = "all arrivals within 26 days")]
            pub interarrival: Span,
            /// Share of writes.
            #[option(default = Ratio::new($write, 100), range = ..=ALL)]
            pub write: Ratio,
            /// Address space.
            #[option(default = ByteLen::gib($gib), range = ByteLen::kib(64)..=MOST_SPACE, multiple_of = ByteLen::kib(64))]
            pub space: ByteLen,
            /// Part of it that is ever started at.
            #[option(default = ByteLen::mib($gib * 128), range = ByteLen::kib(64).., multiple_of = ByteLen::kib(64), also = "at most `space`")]
            pub hot: ByteLen,
            /// Zipf exponent over the 4 KiB pages of the hot set.
            #[option(default = Ratio::new(1, 1), range = ..=MOST_ZIPF)]
            pub zipf: Ratio,
            /// How it changes over time.
            #[option(flatten, default)]
            pub cycle: CycleParams,
        }

        impl Declared for $params {
            const NAME: &'static str = $name;
            const SUMMARY: &'static str = concat!(
                "stand-in for ",
                $name,
                " of the IOTTA repository: a university's server, ",
                $write,
                " % writes"
            );
            const SOURCE: &'static str = concat!(
                $write,
                " % writes (+-0.5 points), ",
                $pages,
                " pages (+-1 %), ",
                $gib,
                " GiB (+-10 %)"
            );
        }

        impl Generate for $params {
            fn records(&self, seed: u64) -> Made {
                let pages = [1, 2, 4, 8, 16].map(|pages| ByteLen::kib(4 * pages));
                let mix = MixParams {
                    burst: Ratio::new(1, 2),
                    burst_interarrival: Span(self.interarrival.0 / 16),
                    sizes: pages.into_iter().zip($weights).collect(),
                    hot: self.hot,
                    piece: ByteLen::kib(64),
                    zipf: Some(self.zipf),
                    cycle: self.cycle,
                    ..MixParams::plain(self.requests, self.interarrival, self.write, self.space)
                };
                Mix::records(mix, seed)
            }
        }
    };
}

server!(Webmail, "webmail", 73, "4.35", 40, [387, 130, 160, 263, 60]);
server!(WebVm, "web-vm", 72, "4.19", 40, [410, 130, 160, 240, 60]);
server!(Webusers, "webusers", 70, "3.51", 10, [482, 140, 150, 188, 40]);
server!(Online, "online", 64, "3.80", 10, [440, 140, 150, 230, 40]);
