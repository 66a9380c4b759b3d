//! `bursts`: many writes at one moment, then silence, then the next.
//!
//! A burst is `length` writes of `size` at places drawn evenly, all of one arrival time; `pause` lies between two. What a drive does with a write
//! buffer that fills, and while nobody asks for anything, shows here.
//!
//! Not a stand-in for any published trace. Cost: 40 bytes.

use nandu::generator::{MAX_TIME_NS, Record, Records, Synth, TraceError, defaults, read, schema};
use nandu::units::{ByteLen, Op, Rng, Span};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Writes that come at once.
pub static SYNTH: Synth = Synth {
    name: NAME,
    summary: "writes that come many at one moment, with silence between",
    published: "none: its parameters are exact",
    defaults: defaults::<Parameters>,
    schema: schema::<Parameters>,
    make: |parameters, seed| Ok(Box::new(Bursts::new(read(NAME, parameters)?, seed)?)),
};

const NAME: &str = "bursts";
const SECTOR: u64 = 512;

/// Parameters of `bursts`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Parameters {
    /// Requests to make.
    pub requests: u64,
    /// Requests of a burst.
    pub length: u64,
    /// Time from one burst to the next.
    pub pause: Span,
    /// Bytes of a request, a multiple of 512.
    pub size: ByteLen,
    /// Address space, a multiple of `size`.
    pub space: ByteLen,
}

impl Default for Parameters {
    fn default() -> Parameters {
        Parameters {
            requests: 20_000,
            length: 200,
            pause: Span::from_ms(50),
            size: ByteLen::kib(16),
            space: ByteLen::mib(256),
        }
    }
}

/// Yields the records of [`Parameters`] and a seed.
#[derive(Clone, Debug)]
pub struct Bursts {
    of: Parameters,
    places: Rng,
    made: u64,
}

impl Bursts {
    fn new(of: Parameters, seed: u64) -> Result<Bursts, TraceError> {
        let wrong = |parameter: &str, why: &str| {
            Err(TraceError::Parameter { generator: NAME, parameter: parameter.into(), why: why.into() })
        };
        if of.length == 0 {
            return wrong("length", "a burst has at least one request");
        }
        if of.size.0 == 0 || !of.size.0.is_multiple_of(SECTOR) || of.size > ByteLen::mib(16) {
            return wrong("size", "a multiple of 512 B, at most 16 MiB");
        }
        if of.space.0 == 0 || !of.space.0.is_multiple_of(of.size.0) || of.space > ByteLen::gib(1024) {
            return wrong("space", "a multiple of the size, at most 1 TiB");
        }
        if u128::from(of.requests / of.length) * u128::from(of.pause.0) > u128::from(MAX_TIME_NS) {
            return wrong("pause", "all bursts come within 52 days");
        }
        Ok(Bursts { of, places: Rng::new(seed), made: 0 })
    }
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
    use serde_json::json;

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
