//! Block-I/O traces: readers, writers, statistics, fitting onto a device, and seeded generators.
//!
//! A trace is a list of 16-byte [`Record`]s with times counted from the first arrival. [`load()`] reads a file in any of
//! the [`formats::FORMATS`], compressed or not, and recognises both by content. `fit::fit` lays a trace onto a device,
//! `stats::stats` measures it as papers do, `synth::SYNTHS` makes stand-ins for traces that are not public.
//! Nothing here touches a floating-point number except to print a mean.

pub mod builder;
pub mod cursor;
pub mod error;
pub mod fit;
pub mod formats;
pub mod input;
pub mod load;
pub mod pages;
pub mod record;
pub mod reuse;
pub mod stats;
pub mod synth;
pub mod trace;
pub mod write;

pub use error::{Fault, LineError, TraceError, Why};
pub use formats::{Format, FORMATS};
pub use load::{load, parse_bytes, parse_reader, BadLines, LoadOptions};
pub use record::{Record, RecordError};
pub use trace::{Arrival, ContentHash, Meta, Origin, Stream, Trace};
