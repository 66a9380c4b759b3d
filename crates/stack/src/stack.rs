//! A checked stack, and the machines that are built from it.

use crate::load::{At, ExportTable, Problem, Reason, StackError, StackFile, TenantTable, WorkloadTable};
use crate::load::{Node, Source};
use nandu_base::registry::{Kind, nearest};
use nandu_base::{
    BuildContext, BuildError, ByteLen, ByteOffset, Deal, DeviceConfig, Limits, Machine, Medium, MediumSpec,
    Precondition, Registry, Rng, Span, TenantId, TenantShare,
};
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A stack whose file was checked against a registry. Building it needs no more names or text.
pub struct Stack {
    /// What it is for.
    pub description: Option<String>,
    /// Devices, children first: exports in the order of the file, each device behind its children.
    pub devices: Vec<Device>,
    /// Ways in, in the order of the file.
    pub exports: Vec<Export>,
    /// Tenants; the tenant at place `i` is [`TenantId`]`(i + 1)`. Those of the file first, then those of exports that
    /// name none.
    pub tenants: Vec<Tenant>,
    /// Workloads, in the order of the file.
    pub workloads: Vec<Workload>,
    /// What changes about tenants while workloads run, in the order of their times.
    pub changes: Vec<Change>,
    /// What a reader should know of the keys that the file and its overrides use: names that go away.
    pub notes: Vec<String>,
    pub(crate) hash: String,
    pub(crate) source: Arc<Source>,
}

/// A device of a stack.
pub struct Device {
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: Kind,
    /// Places of its children in [`Stack::devices`]; all smaller than its own.
    pub children: Vec<u32>,
    /// Its options.
    pub config: Box<dyn DeviceConfig>,
    pub(crate) node: Node,
}

impl Device {
    /// Whether its table has this key.
    pub fn has_option(&self, key: &str) -> bool {
        self.node.entry(key).is_some()
    }
}

/// A way into a stack.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Export {
    /// Its name.
    pub name: String,
    /// The machine that takes its requests.
    pub node: u32,
    /// The tenant whose requests they are.
    pub tenant: TenantId,
    /// Its table in the file.
    pub table: ExportTable,
}

/// Someone whose requests are weighed, limited and accounted for apart.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tenant {
    /// The name.
    pub name: String,
    /// The table in the file, or the defaults.
    pub table: TenantTable,
}

/// Requests for an export.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Workload {
    /// The name.
    pub name: String,
    /// The table in the file.
    pub table: WorkloadTable,
}

/// Something about tenants that changes while workloads run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Change {
    /// The name.
    pub name: String,
    /// When, counted from the first request.
    pub at: Span,
    /// What.
    pub what: Changed,
}

/// What changes about tenants.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Changed {
    /// What a tenant may ask for, all of it.
    Share(TenantId, TenantShare),
    /// The space of tenants in the device with this number.
    Space(u32, Deal),
}

/// What each tenant may ask for, SYSTEM first.
pub(crate) fn shares(tenants: &[Tenant]) -> Vec<TenantShare> {
    let tenants = tenants.iter().map(|Tenant { name, table }| TenantShare {
        weight: table.weight,
        rbps: table.max.rbps.map(|b| b.0),
        wbps: table.max.wbps.map(|b| b.0),
        riops: table.max.riops,
        wiops: table.max.wiops,
        target_latency: table.target_latency,
        ..TenantShare::named(name)
    });
    std::iter::once(TenantShare::named("system")).chain(tenants).collect()
}

/// What the machines are built for.
#[derive(Clone, Default, Debug)]
pub struct BuildOptions {
    /// The seed of the run. Each device draws from a seed of its own, made of this one and its name.
    pub seed: u64,
    /// The state of every drive when the run begins.
    pub precondition: Precondition,
    /// Faults to plant. Each must belong to a kind of the stack.
    pub planted: BTreeSet<String>,
}

/// The machines of a stack.
pub struct Built {
    /// In the order of [`Stack::devices`].
    pub parts: Vec<BuiltPart>,
    /// Ways in.
    pub exports: Vec<Export>,
    /// Tenants without SYSTEM; the graph counts one more.
    pub tenants: Vec<Tenant>,
}

/// One machine of a stack.
pub struct BuiltPart {
    /// Its name in the stack file.
    pub name: String,
    /// The word after `kind =`.
    pub kind: &'static str,
    /// The machine.
    pub machine: Box<dyn Machine>,
    /// Numbers of its children; all smaller than its own.
    pub children: Vec<u32>,
    /// The medium it needs.
    pub medium: MediumSpec,
}

impl Built {
    /// The parts of a [`Graph`](crate::Graph). `medium` gives a part its computed medium, when the run stores content.
    pub fn into_parts(
        self,
        mut medium: impl FnMut(u32, &MediumSpec) -> Option<Box<dyn Medium>>,
    ) -> Vec<crate::Part> {
        let parts = self.parts.into_iter().enumerate();
        parts
            .map(|(i, part)| crate::Part {
                medium: medium(i as u32, &part.medium),
                name: part.name,
                machine: part.machine,
                children: part.children,
            })
            .collect()
    }
}

impl Stack {
    /// Reads and checks a stack file with every kind and policy that Nandu ships.
    pub fn parse(text: &str) -> Result<Stack, StackError> {
        Stack::parse_with(text, &crate::builtin())
    }

    /// Reads and checks a stack file with the kinds and policies of `registry`.
    pub fn parse_with(text: &str, registry: &Registry) -> Result<Stack, StackError> {
        StackFile::parse(text, "stack.toml")?.load(registry)
    }

    /// The first 12 hex digits of the SHA-256 of the canonical text, overrides included.
    pub fn hash(&self) -> &str {
        &self.hash[..12]
    }

    /// The whole SHA-256 of the canonical text as hex.
    pub fn hash_long(&self) -> &str {
        &self.hash
    }

    /// The place of a device.
    pub fn device(&self, name: &str) -> Option<u32> {
        self.devices.iter().position(|d| d.name == name).map(|i| i as u32)
    }

    /// Makes the machines, children first.
    pub fn build(&self, options: &BuildOptions) -> Result<Built, StackError> {
        self.check_planted(&options.planted)?;
        let shares = self.shares();
        let mut parts: Vec<BuiltPart> = Vec::with_capacity(self.devices.len());
        let mut regions: Vec<Vec<Use>> = self.devices.iter().map(|_| Vec::new()).collect();
        for (number, device) in self.devices.iter().enumerate() {
            let children: Vec<Limits> =
                device.children.iter().map(|&c| parts[c as usize].machine.limits().clone()).collect();
            let context = BuildContext {
                name: &device.name,
                children: &children,
                seed: seed_of(options.seed, &device.name),
                tenants: shares.len(),
                shares: &shares,
                planted: &options.planted,
                precondition: options.precondition,
            };
            self.check_areas(device, &children)?;
            let machine = device.config.machine(&context).map_err(|error| self.impossible(device, error))?;
            self.check_sharing(number, &children, &mut regions)?;
            parts.push(BuiltPart {
                name: device.name.clone(),
                kind: device.kind.name,
                medium: machine.needs().medium,
                machine,
                children: device.children.clone(),
            });
        }
        Ok(Built { parts, exports: self.exports.clone(), tenants: self.tenants.clone() })
    }

    /// What each tenant may ask for, SYSTEM first.
    pub fn shares(&self) -> Vec<TenantShare> {
        shares(&self.tenants)
    }

    /// A planted fault that no machine of this stack knows would prove nothing.
    fn check_planted(&self, planted: &BTreeSet<String>) -> Result<(), StackError> {
        let known: Vec<&str> = self.devices.iter().flat_map(|d| d.kind.plants).map(|p| p.name).collect();
        let Some(word) = planted.iter().find(|p| !known.contains(&p.as_str())) else { return Ok(()) };
        let mut names: Vec<String> = known.iter().map(|k| (*k).into()).collect();
        names.dedup();
        let reason = Reason::UnknownWord {
            what: "bug".into(),
            word: word.clone(),
            nearest: nearest(word, known).map(str::to_string),
            known: names,
        };
        Err(Problem { at: At::Option("--inject-bug"), reason }.into())
    }

    /// What has areas is used by devices that name one of them: its limits hold for none of them.
    fn check_areas(&self, device: &Device, children: &[Limits]) -> Result<(), StackError> {
        let whole = |below: &&Limits| !below.areas.is_empty() && device.config.region(below).is_none();
        if device.kind.name == "flash-area" || !children.iter().any(|below| whole(&below)) {
            return Ok(());
        }
        let reason =
            "stands on a chip that has areas with erase units of their own: put a `flash-area` on each";
        Err(self.impossible(device, BuildError { key: None, reason: reason.into() }))
    }

    /// Several devices on one child must each name a part of it, and no two parts may overlap.
    fn check_sharing(
        &self,
        number: usize,
        limits: &[Limits],
        regions: &mut [Vec<Use>],
    ) -> Result<(), StackError> {
        let device = &self.devices[number];
        for (&child, below) in device.children.iter().zip(limits) {
            let region = device.config.region(below);
            let mine = Use { by: number, region };
            if let Some(other) = regions[child as usize].iter().find(|other| other.clashes(&mine)) {
                let quote = |n: usize| format!("device `{}`", self.devices[n].name);
                let reason = Reason::Shared {
                    device: self.devices[child as usize].name.clone(),
                    first: quote(other.by),
                    second: quote(number),
                };
                return Err(Problem { at: self.source.at(device.node.origin), reason }.into());
            }
            regions[child as usize].push(mine);
        }
        Ok(())
    }

    fn impossible(&self, device: &Device, error: BuildError) -> StackError {
        let origin =
            error.key.as_deref().and_then(|key| device.node.deepest(key.split('.'))).map(|e| e.node.origin);
        let reason = Reason::Impossible {
            device: device.name.clone(),
            key: error.key.map(Into::into),
            why: error.reason,
        };
        Problem { at: self.source.at(origin.unwrap_or(device.node.origin)), reason }.into()
    }
}

/// Who uses which part of a device; `None` for all of it.
#[derive(Clone, Copy)]
struct Use {
    by: usize,
    region: Option<(ByteOffset, ByteLen)>,
}

impl Use {
    fn clashes(&self, other: &Use) -> bool {
        match (self.region, other.region) {
            (Some((a, a_len)), Some((b, b_len))) => a < b + b_len && b < a + a_len,
            _ => true,
        }
    }
}

/// The seed of a device: adding another device does not change it.
fn seed_of(seed: u64, name: &str) -> u64 {
    let digest = Sha256::digest(name.as_bytes());
    let stream = digest.iter().take(8).fold(0, |n, &byte| n << 8 | u64::from(byte));
    Rng::new(seed).fork(stream).bits()
}
