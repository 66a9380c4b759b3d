//! Seeded generators: stand-ins for traces that are not public, and plain loads.
//!
//! One file each, one line in [`SYNTHS`]; those of other crates are entries of a registry as these are. The same name, parameters and seed give the same records on every machine:
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
use crate::record::Record;
use crate::trace::{Arrival, ContentHash, ContentHasher, Meta, Origin, Trace};
use mix::{Mix, MixParams};
use nandu_base::registry::Entry;
use nandu_base::{Policy, Registry};
use schemars::{JsonSchema, Schema};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::fmt;

/// One generator.
#[derive(Debug)]
pub struct Synth {
    /// Name on the command line and in stack files.
    pub name: &'static str,
    /// One line for lists.
    pub summary: &'static str,
    /// Published figures it aims at, with their tolerance.
    pub published: &'static str,
    /// Its parameters with their defaults.
    pub defaults: fn() -> Value,
    /// JSON schema of its parameters.
    pub schema: fn() -> Schema,
    /// The records of these parameters, null for the defaults, and a seed.
    pub make: Make,
}

/// What a generator makes of parameters and a seed.
pub type Make = fn(&Value, u64) -> Result<Box<dyn Records>, TraceError>;

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
pub static SYNTHS: [&Synth; 17] = [
    &financial1::SYNTH,
    &financial2::SYNTH,
    &websearch1::SYNTH,
    &uniform::SYNTH,
    &mixed_zipf::SYNTH,
    &small_files::SYNTH,
    &pcmark_t1::SYNTH,
    &pcmark_t2::SYNTH,
    &pcmark_t3::SYNTH,
    &pcmark_t4::SYNTH,
    &two_phases::SYNTH,
    &bonnie::SYNTH,
    &desktop::SYNTH,
    &server::WEBMAIL,
    &server::WEB_VM,
    &server::WEBUSERS,
    &server::ONLINE,
];

/// What registries call generators.
pub const FAMILY: &str = "generator";

impl From<&'static Synth> for Entry {
    fn from(synth: &'static Synth) -> Entry {
        Entry::Policy(Policy {
            family: FAMILY,
            name: synth.name,
            summary: synth.summary,
            source: synth.published,
            draws: &[],
            schema: &synth.schema,
            declared: Vec::new,
            item: synth,
        })
    }
}

/// The generators of this crate as entries of a registry.
pub fn policies() -> Entry {
    let policies = SYNTHS.iter().filter_map(|&synth| match Entry::from(synth) {
        Entry::Policy(policy) => Some(policy),
        _ => None,
    });
    Entry::Policies(policies.collect())
}

/// The generators of a registry.
pub fn of(registry: &Registry) -> Vec<&'static Synth> {
    registry.policies(FAMILY).filter_map(|policy| policy.item.downcast_ref::<Synth>()).collect()
}

/// Parameters of a generator: a struct whose every field has a default and whose unknown fields are refused.
trait Params: DeserializeOwned + Serialize + JsonSchema + Default {
    const NAME: &'static str;

    fn mix(self) -> MixParams;
}

/// The defaults of parameters, for [`Synth::defaults`].
pub fn defaults<P: Serialize + Default>() -> Value {
    serde_json::to_value(P::default()).expect("parameters are plain values")
}

/// The schema of parameters, for [`Synth::schema`].
pub fn schema<P: JsonSchema>() -> Schema {
    schemars::schema_for!(P)
}

fn make<P: Params>(params: &Value, seed: u64) -> Result<Box<dyn Records>, TraceError> {
    let params = read::<P>(P::NAME, params)?;
    Ok(Box::new(Mix::new(P::NAME, params.mix(), seed)?))
}

/// Parameters of `generator` from a table of the fields to change, or null for the defaults.
///
/// # Errors
/// [`TraceError::Parameter`]: an unknown field, a value that is none of its kind.
pub fn read<P: DeserializeOwned + Default>(generator: &'static str, params: &Value) -> Result<P, TraceError> {
    if params.is_null() {
        return Ok(P::default());
    }
    P::deserialize(params).map_err(|e| {
        let (parameter, why) =
            wrong_parameter::<P>(params).unwrap_or_else(|| ("parameters".into(), e.to_string()));
        TraceError::Parameter { generator, parameter, why }
    })
}

/// The first parameter that is wrong by itself, and why: an error of the whole table does not name it.
fn wrong_parameter<P: DeserializeOwned>(params: &Value) -> Option<(String, String)> {
    params.as_object()?.iter().find_map(|(key, value)| {
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
    among(&SYNTHS, name)
}

/// The one of `synths` of this name.
///
/// # Errors
/// As [`by_name`].
pub fn among(synths: &[&'static Synth], name: &str) -> Result<&'static Synth, TraceError> {
    synths.iter().copied().find(|s| s.name == name).ok_or_else(|| TraceError::UnknownName {
        what: FAMILY,
        name: name.into(),
        known: synths.iter().map(|s| s.name).collect::<Vec<_>>().join(", "),
    })
}

impl Synth {
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
