//! `bursts`: many writes at one moment, then silence, then the next.
//!
//! A burst is `length` writes of `size` at places drawn evenly, all of one arrival time; `pause` lies between two. What a drive does with a write
//! buffer that fills, and while nobody asks for anything, shows here.
//!
//! Not a stand-in for any published trace. Cost: 40 bytes.

use nandu::generator::{Generate, MAX_TIME_NS, Made, Record, Records};
use nandu::units::{BuildError, ByteLen, Op, Rng, Span};
use nandu::{Declared, options};
use serde::Serialize;

const SECTOR: u64 = 512;

/// Parameters of `bursts`.
#[options(crate = nandu)]
#[derive(Clone, Debug, Serialize)]
pub struct Parameters {
    /// Requests to make.
    #[option(default = 20_000, range = 1..)]
    pub requests: u64,
    /// Requests of a burst.
    #[option(default = 200, range = 1..)]
    pub length: u64,
    /// Time from one burst to the next.
    #[option(default = Span::from_ms(50), also = "all bursts come within 52 days")]
    pub pause: Span,
    /// Bytes of a request.
    #[option(default = ByteLen::kib(16), range = ByteLen(SECTOR)..=ByteLen::mib(16), multiple_of = ByteLen(SECTOR))]
    pub size: ByteLen,
    /// Address space.
    #[option(default = ByteLen::mib(256), range = ByteLen(SECTOR)..=ByteLen::gib(1024), also = "a multiple of `size`")]
    pub space: ByteLen,
}

impl Declared for Parameters {
    const NAME: &'static str = "bursts";
    const SUMMARY: &'static str = "writes that come many at one moment, with silence between";
    const SOURCE: &'static str = "none: its parameters are exact";
}

impl Generate for Parameters {
    fn records(&self, seed: u64) -> Made {
        if !self.space.0.is_multiple_of(self.size.0) {
            return Err(BuildError::at("space", "a multiple of the size, at most 1 TiB"));
        }
        if u128::from(self.requests / self.length) * u128::from(self.pause.0) > u128::from(MAX_TIME_NS) {
            return Err(BuildError::at("pause", "all bursts come within 52 days"));
        }
        Ok(Box::new(Bursts { of: self.clone(), places: Rng::new(seed), made: 0 }))
    }
}

/// Yields the records of [`Parameters`] and a seed.
#[derive(Clone, Debug)]
pub struct Bursts {
    of: Parameters,
    places: Rng,
    made: u64,
}

impl Iterator for Bursts {
    type Item = Record;

    fn next(&mut self) -> Option<Record> {
        if self.made == self.of.requests {
            return None;
        }
        let at = self.made / self.of.length * self.of.pause.0;
        let sectors = self.of.size.0 / SECTOR;
        let place = self.places.below(self.of.space.0 / self.of.size.0) * sectors;
        self.made += 1;
        Some(Record::new(at, Op::Write, false, place, sectors, 0).expect("the parameters were looked at"))
    }
}

impl Records for Bursts {
    fn left(&self) -> u64 {
        self.of.requests - self.made
    }
    fn boxed_clone(&self) -> Box<dyn Records> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandu::generator::Synth;
    use serde_json::json;

    static SYNTH: Synth = Synth::of::<Parameters>();

    #[test]
    fn a_burst_has_one_arrival_and_the_next_comes_later() {
        let trace =
            SYNTH.trace(&json!({ "requests": 25, "length": 10, "pause": "3 ms" }), 1).expect("it is right");
        let times: Vec<u64> = trace.records.iter().map(|record| record.time().0 / 1_000_000).collect();
        assert_eq!(times, [vec![0; 10], vec![3; 10], vec![6; 5]].concat());
        assert!(trace.records.iter().all(|record| record.end().0 <= ByteLen::mib(256).0));
        let other = SYNTH.trace(&json!({ "requests": 25 }), 2).expect("it is right");
        assert_ne!(other.records[0], trace.records[0], "the seed draws the places");
    }

    #[test]
    fn what_cannot_be_is_named() {
        for (parameters, word) in [
            (json!({ "length": 0 }), "length"),
            (json!({ "size": "700 B" }), "size"),
            (json!({ "space": "1 KiB" }), "space"),
            (json!({ "pause": "60 h", "length": 1 }), "pause"),
            (json!({ "lenght": 1 }), "lenght"),
        ] {
            let why = SYNTH.trace(&parameters, 1).map(drop).expect_err("it is wrong").to_string();
            assert!(why.contains(word), "{why}");
        }
    }
}
