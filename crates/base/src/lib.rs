//! The ground every part of Nandu stands on: units, seeded random numbers, requests, payload and the machine contract.
//!
//! Begin with [`machine`]: it says what a layer of a stack is; [`context`] is what it works with, [`node`] what its driver
//! keeps beside it. [`request`] and [`payload`] are what travels between layers, [`path`] and [`charge`] say where time
//! went, [`medium`] is what leaves store data on, and [`registry`] is how a kind of machine becomes known to
//! stack files; [`policy`] is the same for what a machine chooses among. [`seal`] is the checksum of what machines write for themselves.
//!
//! **What is stable.** What the crate `nandu` names of it, from the first release on. The rest is for the other crates of Nandu and may
//! change in any version.

// So that what `#[options]` makes has the same path in here.
extern crate self as nandu_base;

pub mod admin;
pub mod advise;
pub mod bad_lines;
pub mod bytebuf;
pub mod charge;
pub mod config;
pub mod context;
pub mod energy;
pub mod fit;
pub mod flash_map;
pub mod histogram;
pub mod join;
pub mod machine;
pub mod medium;
pub mod members;
pub mod node;
pub mod options;
pub mod part;
pub mod path;
pub mod payload;
pub mod policy;
pub mod redundancy;
pub mod registry;
pub mod report;
pub mod request;
pub mod rng;
pub mod seal;
pub mod tenancy;
pub mod timeline;
pub mod units;

/// Version of the fields of what is printed or answered as JSON: results, records, the status of a server.
pub const JSON_SCHEMA: u32 = 2;

pub use admin::{
    Admin, AdminError, Administer, ChildUse, Gone, Health, Maintenance, MaintenanceKind, Notice,
};
pub use advise::{Advise, Hints};
pub use bad_lines::BadLines;
pub use charge::{ChargeTable, Resource, Work};
pub use context::{Cx, Draft};
pub use energy::{EnergyPart, MicroWatts, NanoJoules, RamPower, WearRegion};
pub use fit::Fit;
pub use flash_map::FlashMap;
pub use histogram::Histogram;
pub use join::Joins;
pub use machine::{
    Area, Counter, DeviceEvent, Effect, Limits, Machine, Needs, OpenError, OpenOptions, Place, Step,
    TimerKey, Violation,
};
pub use medium::{BlockSpec, Medium, MediumSpec, Oob, Overlay, OwnKeys, Program, UnitState, Window};
pub use members::Members;
pub use nandu_options::options;
pub use node::{LayerStats, Node, Peek, TenantStats};
pub use part::Part;
pub use path::{CriticalPath, Phase};
pub use payload::{Content, Payload, PayloadPool, Sector, Stamp};
pub use policy::{Chosen, Declaration, Declared, Family, Policy, ReadOptions};
pub use redundancy::{Absence, Children, Redundancy};
pub use registry::{
    BuildContext, BuildError, DeviceConfig, Kind, Plant, Precondition, Registry, TenantShare,
};
pub use report::{Ask, Figure, Report};
pub use request::{ErrorKind, Flags, IoError, Op, Owner, ReqId, Request, RequestTable, State, TenantId};
pub use rng::Rng;
pub use seal::Seal;
pub use tenancy::{Deal, DealError, Dealt, TenantSpace};
pub use timeline::{LaneSpan, Timeline};
pub use units::{ByteLen, ByteOffset, Instant, Ratio, SECTOR, Span};
