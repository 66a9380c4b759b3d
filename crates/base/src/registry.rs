//! What a stack can be made of: a value, not a global.
//!
//! Each machine kind is one [`Kind`]: its name, a line of summary, its options as a type, and the faults that can be
//! planted in it. What a machine chooses among is a [`Policy`]. The stack file parser, `nandu list`, `nandu schema`, curves
//! of miss ratios, the drawn stacks of `nandu verify` and the conformance tests all read this one list. A kind is made
//! from a configuration type by [`Kind::of`].

use crate::machine::{Limits, Machine};
use crate::options::{Described, Options};
use crate::policy::Policy;
use crate::units::{ByteLen, ByteOffset, Ratio, Span};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::path::Path;

/// The options of a machine kind, as a stack file gives them.
pub trait DeviceConfig: Options + Send + Sync + 'static {
    /// The devices this one stands on, in the order of its children.
    fn children(&self) -> Vec<String>;

    /// Makes the machine; [`machine`](DeviceConfig::machine) is what calls it. `cx` tells what its children can take.
    fn build(&self, cx: &BuildContext<'_>) -> Result<Box<dyn Machine>, BuildError>;

    /// Makes the machine if its options are within their ranges.
    ///
    /// # Errors
    /// An option is out of bounds, or what is below does not suit.
    fn machine(&self, cx: &BuildContext<'_>) -> Result<Box<dyn Machine>, BuildError> {
        self.check_ranges()?;
        self.build(cx)
    }

    /// Looks up in `registry` the policies of its options that no crate of this project has, and reads with it the files that they name.
    ///
    /// # Errors
    /// There is none of this name in `registry` either, or its options are wrong.
    fn settle(&mut self, _registry: &Registry) -> Result<(), BuildError> {
        Ok(())
    }

    /// The only part of its child that this device touches; `None` when it uses all of it. A device may stand under
    /// several others when each of them names such a part and no two parts overlap.
    fn region(&self, _below: &Limits) -> Option<(ByteOffset, ByteLen)> {
        None
    }

    /// The file in which a server keeps what a leaf with a computed medium holds; `None` for memory.
    fn store(&self) -> Option<&str> {
        None
    }

    /// Those of its options that decide how data lie on its computed medium, beside its capacity: a store that was made with others is not
    /// opened. Times, schedulers and rules that only choose are not among them.
    fn layout_of_store(&self) -> String {
        String::new()
    }

    /// More of them, for a device of this name and capacity: stores that were made before they were compared do not bear them, and are taken
    /// as they are.
    fn details_of_store(&self, _name: &str, _capacity: ByteLen) -> String {
        String::new()
    }
}

/// What a machine may know while it is made.
pub struct BuildContext<'a> {
    /// The device's name in the stack file.
    pub name: &'a str,
    /// Limits of each child, in order.
    pub children: &'a [Limits],
    /// Seed of this machine's own random numbers.
    pub seed: u64,
    /// Tenants of the stack, SYSTEM included.
    pub tenants: usize,
    /// What each tenant may ask for, SYSTEM first; as many as `tenants` where a whole stack is built.
    pub shares: &'a [TenantShare],
    /// Faults to plant; empty outside `verify --inject-bug`.
    pub planted: &'a BTreeSet<String>,
    /// How much of a drive is filled before the run begins.
    pub precondition: Precondition,
}

impl BuildContext<'_> {
    /// Whether this fault is planted.
    pub fn planted(&self, fault: &str) -> bool {
        !self.planted.is_empty() && self.planted.contains(fault)
    }

    /// The limits of the only child.
    pub fn only_child(&self) -> &Limits {
        &self.children[0]
    }
}

/// What a tenant may ask for of what is shared.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TenantShare {
    /// Its name.
    pub name: String,
    /// Its share relative to other tenants, 1 to 10000; 100 for SYSTEM.
    pub weight: u16,
    /// Most bytes read per second.
    pub rbps: Option<u64>,
    /// Most bytes written per second.
    pub wbps: Option<u64>,
    /// Most reads per second.
    pub riops: Option<u64>,
    /// Most writes per second.
    pub wiops: Option<u64>,
    /// The mean latency it wants to stay below.
    pub target_latency: Option<Span>,
}

impl TenantShare {
    /// A tenant of weight 100 without limits.
    pub fn named(name: &str) -> TenantShare {
        TenantShare {
            name: name.into(),
            weight: 100,
            rbps: None,
            wbps: None,
            riops: None,
            wiops: None,
            target_latency: None,
        }
    }
}

/// The state of every drive when the run begins. Computed, not simulated.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Precondition {
    /// Nothing was ever written.
    #[default]
    Empty,
    /// Every logical page was written once, in order.
    Filled,
    /// Every logical page was written once, in an order in which this share of the logical neighbours are apart.
    Fragmented(Ratio),
    /// Every logical page was written, then pages at random until write amplification no longer changed.
    Aged,
}

/// Why options that parse cannot be built.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{reason}")]
pub struct BuildError {
    /// The option at fault, if there is one; dots lead into tables.
    pub key: Option<Cow<'static, str>>,
    /// What is wrong and what would be right.
    pub reason: String,
}

impl BuildError {
    /// Option `key` is at fault.
    pub fn at(key: impl Into<Cow<'static, str>>, reason: impl Into<String>) -> BuildError {
        BuildError { key: Some(key.into()), reason: reason.into() }
    }

    /// The same error of an option of the table `table`.
    pub fn within(self, table: &str) -> BuildError {
        let key = self.key.map_or_else(|| table.to_string(), |key| format!("{table}.{key}"));
        BuildError { key: Some(key.into()), reason: self.reason }
    }

    /// A child is smaller than what this machine needs for itself.
    pub fn too_small(key: &'static str, have: ByteLen, need: ByteLen) -> BuildError {
        BuildError::at(key, format!("{have} is too small: at least {need} are needed"))
    }
}

/// A fault that `verify --inject-bug` can put into a machine, to show that a check bites.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Plant {
    /// Its name, `kind.what-goes-wrong`.
    pub name: &'static str,
    /// The invariant whose check must fail.
    pub breaks: &'static str,
    /// What the machine then does wrong.
    pub summary: &'static str,
    /// The family of drawn stacks in which it shows soonest; by default any around the machine.
    pub family: Option<&'static str>,
}

impl Plant {
    /// A fault called `name` which breaks the invariant `breaks`.
    pub const fn new(name: &'static str, breaks: &'static str, summary: &'static str) -> Plant {
        Plant { name, breaks, summary, family: None }
    }

    /// The same, looked for in `family`.
    pub const fn within(self, family: &'static str) -> Plant {
        Plant { family: Some(family), ..self }
    }
}

/// Parses the options of one device.
pub type ParseConfig = fn(toml::Table) -> Result<Box<dyn DeviceConfig>, toml::de::Error>;

/// One machine kind.
#[derive(Clone, Debug)]
pub struct Kind {
    /// The word after `kind =`.
    pub name: &'static str,
    /// One line for `nandu list`.
    pub summary: &'static str,
    /// Faults that can be planted.
    pub plants: &'static [Plant],
    /// JSON schema of the options.
    pub schema: fn() -> schemars::Schema,
    /// Reads the options.
    pub parse: ParseConfig,
    /// What is declared of each option.
    pub declared: fn() -> Vec<Described>,
}

impl Kind {
    /// The kind whose options are `C`.
    pub fn of<C: DeviceConfig + DeserializeOwned + JsonSchema>(
        name: &'static str,
        summary: &'static str,
    ) -> Kind {
        Kind {
            name,
            summary,
            plants: &[],
            schema: || schemars::schema_for!(C),
            parse: |table| Ok(Box::new(C::deserialize(table)?)),
            declared: C::declared,
        }
    }

    /// The same kind with faults to plant.
    pub fn with_plants(self, plants: &'static [Plant]) -> Kind {
        Kind { plants, ..self }
    }
}

/// What can be put into a registry.
pub enum Entry {
    /// A machine kind.
    Kind(Kind),
    /// A policy.
    Policy(Policy),
    /// Policies.
    Policies(Vec<Policy>),
}

impl From<Kind> for Entry {
    fn from(kind: Kind) -> Entry {
        Entry::Kind(kind)
    }
}

impl From<Policy> for Entry {
    fn from(policy: Policy) -> Entry {
        Entry::Policy(policy)
    }
}

/// So that what makes several entries can give them to [`Registry::with`].
impl From<Vec<Policy>> for Entry {
    fn from(policies: Vec<Policy>) -> Entry {
        Entry::Policies(policies)
    }
}

impl From<&[Policy]> for Entry {
    fn from(policies: &[Policy]) -> Entry {
        Entry::Policies(policies.to_vec())
    }
}

/// Gets the text of a file, or says why not.
pub type ReadText = fn(&Path) -> Result<String, String>;

/// The machine kinds and policies of a program, in the order in which they are listed.
#[derive(Clone, Debug, Default)]
pub struct Registry {
    kinds: Vec<Kind>,
    policies: Vec<Policy>,
    files: Option<ReadText>,
}

impl Registry {
    /// Nothing yet.
    pub fn new() -> Registry {
        Registry::default()
    }

    /// This registry and one more machine kind or policy, or several. Panics when a name is taken: two would be one word.
    pub fn with(mut self, entry: impl Into<Entry>) -> Registry {
        match entry.into() {
            Entry::Kind(kind) => {
                assert!(self.get(kind.name).is_none(), "machine kind `{}` is registered twice", kind.name);
                self.kinds.push(kind);
            }
            Entry::Policy(policy) => {
                let Policy { family, name, .. } = policy;
                assert!(self.policy(family, name).is_none(), "{family} `{name}` is registered twice");
                self.policies.push(policy);
            }
            Entry::Policies(policies) => return policies.into_iter().fold(self, Registry::with),
        }
        self
    }

    /// This registry, of a program that has files: options may name some (parameters of a disk). Without it they are refused.
    pub fn with_files(self, read: ReadText) -> Registry {
        Registry { files: Some(read), ..self }
    }

    /// How options get the text of the files that they name.
    ///
    /// # Errors
    /// The program has no files.
    pub fn files(&self) -> Result<ReadText, &'static str> {
        self.files.ok_or("this program reads no files that options name; `Registry::with_files` lets it")
    }

    /// The kind of this name.
    pub fn get(&self, name: &str) -> Option<&Kind> {
        self.kinds.iter().find(|k| k.name == name)
    }

    /// Every kind.
    pub fn kinds(&self) -> &[Kind] {
        &self.kinds
    }

    /// Every policy, those of a family in the order in which they were registered.
    pub fn all_policies(&self) -> &[Policy] {
        &self.policies
    }

    /// The policies of a family.
    pub fn policies(&self, family: &str) -> impl Iterator<Item = &Policy> + Clone {
        self.policies.iter().filter(move |policy| policy.family == family)
    }

    /// The policy of this name in a family.
    pub fn policy(&self, family: &str, name: &str) -> Option<&Policy> {
        self.policies(family).find(|policy| policy.name == name)
    }

    /// Families of policies, in the order in which their first was registered.
    pub fn families(&self) -> Vec<&'static str> {
        let mut names: Vec<&'static str> = Vec::new();
        for policy in &self.policies {
            if !names.contains(&policy.family) {
                names.push(policy.family);
            }
        }
        names
    }

    /// The policies of a family that this registry has and `other` has not.
    pub fn beyond<'a>(&'a self, other: &'a Registry, family: &'a str) -> impl Iterator<Item = &'a Policy> {
        self.policies(family).filter(move |policy| other.policy(family, policy.name).is_none())
    }

    /// Every fault that can be planted.
    pub fn plants(&self) -> impl Iterator<Item = &'static Plant> + '_ {
        self.kinds.iter().flat_map(|k| k.plants)
    }
}

/// The name in `known` that is nearest to `word`, when one is near enough to be meant.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    known
        .into_iter()
        .map(|k| (strsim::damerau_levenshtein(word, k), k))
        .filter(|&(distance, k)| distance <= 1 + k.len().max(word.len()) / 3)
        .min_by_key(|&(distance, _)| distance)
        .map(|(_, k)| k)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_finds_its_name_and_nonsense_does_not() {
        assert_eq!(nearest("miror", ["mirror", "stripe"]), Some("mirror"));
        assert_eq!(nearest("xyzzy", ["mirror", "stripe"]), None);
    }
}
