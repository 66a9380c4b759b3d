//! Block-I/O traces: readers, writers, statistics, fitting onto a device, and seeded generators.
//!
//! A trace is a list of 16-byte [`Record`]s with times counted from the first arrival. [`load()`] reads a file in any of
//! the [`formats::FORMATS`], compressed or not, and recognises both by content. [`fit::fit`] lays a trace onto a device,
//! [`stats::stats`] measures it as papers do, [`synth`] makes stand-ins for traces that are not public.
//! Nothing here touches a floating-point number except to print a mean.
//!
//! ```
//! use nandu_base::ByteLen;
//! use nandu_trace::{fit, parse_bytes, stats, synth, LoadOptions};
//!
//! // From a file it is `load(path, &LoadOptions::default())`.
//! let text = b"0,303567,3584,w,0.000000\n1,55590,3072,r,0.026214\n";
//! let trace = parse_bytes(None, text, LoadOptions::default())?;
//! assert_eq!(trace.meta.format, "spc");
//! assert_eq!(trace.records[1].time().0, 26_214_000);
//!
//! let (fitted, report) = fit::fit(trace, ByteLen::mib(1), fit::Fit::Compact)?;
//! assert_eq!(report.clipped_requests, 0);
//! assert_eq!(stats::stats(&fitted.into(), stats::StatsOptions::default()).write_percent, 50.0);
//!
//! let params = serde_json::json!({ "requests": 1000, "space": "64 MiB" });
//! let stand_in = synth::by_name("uniform")?.trace(&params, 7)?;
//! assert_eq!(stand_in.meta.origin.name(), "synthetic");
//! # Ok::<(), nandu_trace::TraceError>(())
//! ```
//!
//! **What is stable.** What the crate `nandu` names of it, from the first release on. The rest is for the other crates of Nandu and may
//! change in any version.

pub mod builder;
pub mod cache;
pub mod columns;
pub mod cursor;
pub mod error;
pub mod fio_job;
pub mod fit;
pub mod formats;
pub mod input;
pub mod known;
pub mod load;
pub mod pages;
pub mod record;
pub mod requests;
pub mod reuse;
pub mod spool;
pub mod stats;
pub mod synth;
pub mod trace;
pub mod write;

pub use columns::Columns;
pub use error::{Fault, LineError, TraceError, Why};
pub use formats::{FORMATS, Format};
pub use load::{LoadOptions, load, parse_bytes, parse_reader};
pub use nandu_base::BadLines;
pub use record::{Record, RecordError};
pub use requests::Requests;
pub use trace::{Arrival, ContentHash, Meta, Origin, Stream, Trace};
