//! Seeded generators: stand-ins for traces that are not public, and plain loads.
//!
//! One file each, declared by the type of its parameters, and one line in the list of [`policies`]; those of other crates are entries of a registry as these are. The same name, parameters and seed give the same records on every machine:
//! only integer arithmetic decides. Generated traces are marked [`Origin::StandIn`] and results say so.

pub mod bonnie;
pub mod cycle;
pub mod desktop;
pub mod financial1;
pub mod financial2;
pub mod fixed;
pub mod mix;
pub mod mixed_zipf;
pub mod pcmark_t1;
pub mod pcmark_t2;
pub mod pcmark_t3;
pub mod pcmark_t4;
pub mod server;
pub mod small_files;
pub mod two_phases;
pub mod uniform;
pub mod websearch1;
pub mod zipf;

use crate::error::TraceError;
use crate::record::{MAX_END_SECTORS, MAX_LEN_SECTORS, MAX_TIME_NS, Record};
use crate::trace::{Arrival, ContentHash, ContentHasher, Meta, Origin, Trace};
use nandu_base::registry::Entry;
use nandu_base::{BuildError, ByteLen, Declared, Policy, Ratio, Registry, SECTOR, Span};
use schemars::Schema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use std::fmt;

/// The parameters of a generator, which declare it in its file; [`policy`] makes an entry of a registry of them.
pub trait Generate: Declared + Default + Serialize {
    /// The records of these parameters and a seed. Each parameter is within its own range.
    ///
    /// # Errors
    /// Parameters that do not go together: which one to change, and what would be right.
    fn records(&self, seed: u64) -> Made;
}

/// The records of a generator, or which parameter does not go with the others.
pub type Made = Result<Box<dyn Records>, BuildError>;

/// One generator, whatever the type of its parameters.
#[derive(Debug)]
pub struct Synth {
    /// Name on the command line and in stack files.
    pub name: &'static str,
    /// One line for lists.
    pub summary: &'static str,
    /// Published figures it aims at, with their tolerance.
    pub published: &'static str,
    schema: fn() -> Schema,
    defaults: fn() -> Map<String, Value>,
    make: Make,
}

/// What a generator makes of a table of parameters and a seed.
type Make = fn(&Value, u64) -> Result<Box<dyn Records>, TraceError>;

/// The whole of something that shares are parts of.
const ALL: Ratio = Ratio::new(1, 1);
/// The largest exponent of Zipf's law.
const MOST_ZIPF: Ratio = Ratio::new(8, 1);
/// The longest request.
const MOST_LEN: ByteLen = ByteLen(MAX_LEN_SECTORS * SECTOR);
/// The largest address space.
const MOST_SPACE: ByteLen = ByteLen(MAX_END_SECTORS * SECTOR);

/// Whether so many arrivals with this mean gap end while there are times for them. Half of all times are left for those that come later than the
/// mean.
fn check_gaps(requests: u64, mean: Span) -> Result<(), BuildError> {
    let total = u128::from(requests.max(100)) * u128::from(mean.0);
    if total <= u128::from(MAX_TIME_NS / 2) {
        return Ok(());
    }
    let why = "requests times the mean time between arrivals is at most 26 days; lower one of them";
    Err(BuildError::at("requests", why))
}

/// Makes the records of a generator one by one, in order of time. Copies of it make the same.
pub trait Records: Iterator<Item = Record> + fmt::Debug + Send + Sync {
    /// Records still to come.
    fn left(&self) -> u64;
    /// One that goes on from here.
    fn boxed_clone(&self) -> Box<dyn Records>;
}

impl Clone for Box<dyn Records> {
    fn clone(&self) -> Box<dyn Records> {
        self.boxed_clone()
    }
}

/// Every generator.
static POLICIES: &[Policy] = &[
    policy::<financial1::Financial1>(),
    policy::<financial2::Financial2>(),
    policy::<websearch1::WebSearch1>(),
    policy::<uniform::Uniform>(),
    policy::<mixed_zipf::MixedZipf>(),
    policy::<small_files::SmallFiles>(),
    policy::<pcmark_t1::PcmarkT1>(),
    policy::<pcmark_t2::PcmarkT2>(),
    policy::<pcmark_t3::PcmarkT3>(),
    policy::<pcmark_t4::PcmarkT4>(),
    policy::<two_phases::TwoPhases>(),
    policy::<bonnie::Bonnie>(),
    policy::<desktop::Desktop>(),
    policy::<server::Webmail>(),
    policy::<server::WebVm>(),
    policy::<server::Webusers>(),
    policy::<server::Online>(),
];

/// What registries call generators.
pub const FAMILY: &str = "generator";

/// The generator whose parameters are `P`, for a registry.
pub const fn policy<P: Generate>() -> Policy {
    Policy::of::<P>(FAMILY, &const { Synth::of::<P>() })
}

/// The generators of this crate as entries of a registry.
pub fn policies() -> Entry {
    Entry::Policies(POLICIES.to_vec())
}

/// The generators of this crate.
pub fn all() -> impl Iterator<Item = &'static Synth> + Clone {
    POLICIES.iter().filter_map(|policy| policy.item.downcast_ref::<Synth>())
}

/// The generators of a registry.
pub fn of(registry: &Registry) -> impl Iterator<Item = &'static Synth> + Clone {
    registry.policies(FAMILY).filter_map(|policy| policy.item.downcast_ref::<Synth>())
}

fn defaults_of<P: Generate>() -> Map<String, Value> {
    match serde_json::to_value(P::default()) {
        Ok(Value::Object(table)) => table,
        _ => unreachable!("parameters are a table of plain values"),
    }
}

/// Parameters from a table of the fields to change, or null for the defaults.
fn read<P: Generate>(params: &Value) -> Result<P, TraceError> {
    let wrong = |parameter: String, why: String| TraceError::Parameter { generator: P::NAME, parameter, why };
    let table = match params {
        Value::Null => return Ok(P::default()),
        Value::Object(table) => table,
        other => return Err(wrong("parameters".into(), format!("`{other}` is not a table of parameters"))),
    };
    // Where parameters are flattened, reading them refuses nothing that is unknown.
    let known = defaults_of::<P>();
    if let Some(key) = table.keys().find(|key| !known.contains_key(*key)) {
        let known: Vec<&str> = known.keys().map(String::as_str).collect();
        let why = format!("there is no such parameter; known are {}", known.join(", "));
        return Err(wrong(key.clone(), why));
    }
    let read = P::deserialize(params).map_err(|e| {
        let (parameter, why) =
            wrong_parameter::<P>(table).unwrap_or_else(|| ("parameters".into(), e.to_string()));
        wrong(parameter, why)
    })?;
    read.check_ranges().map_err(|error| refused::<P>(error))?;
    Ok(read)
}

/// The error of a generator whose parameters are `P`.
fn refused<P: Declared>(error: BuildError) -> TraceError {
    let parameter = error.key.map_or_else(|| "parameters".into(), |key| key.into_owned());
    TraceError::Parameter { generator: P::NAME, parameter, why: error.reason }
}

/// The first parameter that is wrong by itself, and why: an error of the whole table does not name it.
fn wrong_parameter<P: DeserializeOwned>(params: &Map<String, Value>) -> Option<(String, String)> {
    params.iter().find_map(|(key, value)| {
        let alone = Value::Object([(key.clone(), value.clone())].into_iter().collect());
        let error = P::deserialize(alone).err()?.to_string();
        // serde's words for a number that is none.
        let shown = value.as_str().map_or_else(|| value.to_string(), str::to_string);
        let why = match error {
            _ if error.contains("expected u64") || error.contains("expected u32") => {
                format!("`{shown}` is not a whole number")
            }
            _ => error,
        };
        Some((key.clone(), why))
    })
}

/// The generator of this name.
///
/// # Errors
/// [`TraceError::UnknownName`] with the names that exist.
pub fn by_name(name: &str) -> Result<&'static Synth, TraceError> {
    among(all(), name)
}

/// The one of `synths` of this name.
///
/// # Errors
/// As [`by_name`].
pub fn among(
    mut synths: impl Iterator<Item = &'static Synth> + Clone,
    name: &str,
) -> Result<&'static Synth, TraceError> {
    let known = synths.clone();
    synths.find(|s| s.name == name).ok_or_else(|| TraceError::UnknownName {
        what: FAMILY,
        name: name.into(),
        known: known.map(|s| s.name).collect::<Vec<_>>().join(", "),
    })
}

impl Synth {
    /// The generator whose parameters are `P`.
    pub const fn of<P: Generate>() -> Synth {
        Synth {
            name: P::NAME,
            summary: P::SUMMARY,
            published: P::SOURCE,
            schema: || schemars::schema_for!(P),
            defaults: defaults_of::<P>,
            make: |params, seed| read::<P>(params)?.records(seed).map_err(refused::<P>),
        }
    }

    /// JSON schema of its parameters.
    pub fn schema(&self) -> Schema {
        (self.schema)()
    }

    /// Its parameters with their defaults, in order of their names.
    pub fn defaults(&self) -> Map<String, Value> {
        (self.defaults)()
    }

    /// A stream of records. `params` is a table of the fields to change, or null.
    ///
    /// # Errors
    /// [`TraceError::Parameter`]: an unknown field, a bad unit, a value out of bounds.
    pub fn generator(&'static self, params: &Value, seed: u64) -> Result<Generator, TraceError> {
        Ok(Generator { synth: self, seed, source: (self.make)(params, seed)? })
    }

    /// All records in memory, 16 B each.
    ///
    /// # Errors
    /// As [`Synth::generator`].
    pub fn trace(&'static self, params: &Value, seed: u64) -> Result<Trace, TraceError> {
        Ok(self.generator(params, seed)?.into_trace())
    }
}

/// Yields the records of a generated trace one by one, in order of time, without holding them.
#[derive(Clone, Debug)]
pub struct Generator {
    synth: &'static Synth,
    seed: u64,
    source: Box<dyn Records>,
}

impl Iterator for Generator {
    type Item = Record;

    #[inline]
    fn next(&mut self) -> Option<Record> {
        self.source.next()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = usize::try_from(self.source.left()).unwrap_or(usize::MAX);
        (left, Some(left))
    }
}

impl Generator {
    /// What the trace says of itself.
    pub fn meta(&self) -> Meta {
        Meta {
            format: self.synth.name.into(),
            source: format!("{}, seed {}", self.synth.name, self.seed),
            compression: "plain".into(),
            origin: Origin::StandIn,
            arrival: Arrival::Timestamps,
            ..Meta::default()
        }
    }

    /// Collects all records.
    pub fn into_trace(self) -> Trace {
        let meta = self.meta();
        let name = self.synth.name.to_string();
        let records: Vec<Record> = self.collect();
        Trace::from_records(records, vec![name], meta).expect("a generator has one stream")
    }

    /// The hash [`Trace::content_hash`] gives, without holding the records.
    pub fn content_hash(self) -> ContentHash {
        let mut hasher = ContentHasher::new(Arrival::Timestamps);
        let mut batch = Vec::with_capacity(256);
        let mut records = self.fuse();
        loop {
            batch.clear();
            batch.extend(records.by_ref().take(256));
            if batch.is_empty() {
                return hasher.finish();
            }
            hasher.update(&batch);
        }
    }
}

#[cfg(test)]
mod tests;
