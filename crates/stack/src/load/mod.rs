//! From the text of a stack file to a [`Stack`]: typed, checked, every fault with its place.
//!
//! [`StackFile::parse`] reads the text, [`StackFile::with_set`] puts overrides over it, and [`StackFile::load`] checks it
//! against a registry. Nothing is opened or built yet: that is [`Stack::build`](crate::Stack::build).

mod changes;
mod check;
mod edit;
mod error;
mod order;
mod policies;
mod renamed;
mod schema;
mod tables;
mod tree;
mod write;

pub use changes::ChangeTable;
pub use edit::{with_leg_added, with_text_at};
pub use error::{At, Problem, Reason, StackError};
pub use nandu_base::Fit;
pub use schema::schema;
pub use tables::{ExportTable, Max, TenantTable, WorkloadTable};

use crate::stack::{Change, Device, Export, Stack, Tenant, Workload, shares};
use check::Checker;
use nandu_base::registry::{Kind, nearest};
use nandu_base::units::parse_size;
use nandu_base::{Registry, SECTOR, TenantId};
use serde::de::DeserializeOwned;
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::sync::Arc;
use tree::{Data, Entry};
pub(crate) use tree::{Node, Origin, Source};

/// The tables at the top of a stack file, and the text beside them.
const SECTIONS: [&str; 6] = ["description", "device", "export", "tenant", "workload", "change"];
/// Keys of a device that are not options of its kind.
const COMMON: [&str; 2] = ["kind", "description"];
/// Most devices of a stack.
const DEVICES: usize = 4096;
/// Most children of a device: a child is numbered by a byte.
const CHILDREN: usize = 256;
/// Most tenants of a stack.
const TENANTS: usize = 4096;

/// The text of a stack file, read but not yet checked.
#[derive(Clone, Debug)]
pub struct StackFile {
    source: Arc<Source>,
    root: Node,
    /// What a reader should know of its keys.
    notes: Vec<String>,
}

impl StackFile {
    /// Reads `text`. `name` is how the file is called in messages.
    pub fn parse(text: &str, name: &str) -> Result<StackFile, StackError> {
        let source = Arc::new(Source { name: name.into(), text: text.into(), sets: Vec::new() });
        let mut root = tree::parse(&source)?;
        let notes = renamed::in_file(&mut root);
        Ok(StackFile { source, root, notes })
    }

    /// Keeps what was not said before.
    fn note(&mut self, notes: Vec<String>) {
        for note in notes {
            if !self.notes.contains(&note) {
                self.notes.push(note);
            }
        }
    }

    /// The parts of a dotted path, each key under its present name.
    fn keys<'p>(&mut self, path: &'p str) -> Vec<&'p str> {
        let (keys, notes) = renamed::in_path(&self.root, path);
        self.note(notes);
        keys
    }

    /// The same file with `value` at the dotted `path`, for example `device.mirror.region_size` and `4 MiB`. The table
    /// (`device.mirror`) must exist. The value is read as TOML when it is TOML, as text otherwise.
    pub fn with_set(mut self, path: &str, value: &str) -> Result<StackFile, StackError> {
        let index = self.source.sets.len();
        Arc::make_mut(&mut self.source).sets.push((path.into(), value.into()));
        let keys = self.keys(path);
        let refuse = |reason| StackError::from(Problem { at: self.source.at(Origin::Set(index)), reason });
        if keys.iter().any(|key| key.is_empty()) || keys.len() > 64 {
            return Err(refuse(Reason::BadName { name: path.into() }));
        }
        let unknown = |what: &str, word: &str, known: Vec<String>| {
            let nearest = nearest(word, known.iter().map(String::as_str)).map(str::to_string);
            refuse(Reason::UnknownWord { what: what.into(), word: word.into(), nearest, known })
        };
        if !SECTIONS.contains(&keys[0]) {
            return Err(unknown("table", keys[0], SECTIONS.map(str::to_string).to_vec()));
        }
        if keys[0] != "description" {
            let section = self.root.entry(keys[0]).map_or(&[][..], |e| e.node.entries());
            let name = keys.get(1).copied().unwrap_or_default();
            if !section.iter().any(|e| e.key == name) {
                return Err(unknown(keys[0], name, section.iter().map(|e| e.key.clone()).collect()));
            }
        }
        let mut value = Node::from_set(value, index);
        let notes = renamed::in_value(&self.root, &keys, &mut value);
        self.root.set(&keys, value).map_err(|key| {
            let message = "is not a table, so nothing in it can be set".to_string();
            refuse(Reason::BadValue { key, place: "the stack".into(), message })
        })?;
        self.note(notes);
        Ok(self)
    }

    /// The same file without the key or table at the dotted `path`, for example `device.mirror.region_size`. It must be there.
    pub fn without(mut self, path: &str) -> Result<StackFile, StackError> {
        let origin = Origin::Set(self.source.sets.len());
        Arc::make_mut(&mut self.source).sets.push((path.into(), String::new()));
        let keys = self.keys(path);
        let reason = if keys.iter().any(|key| key.is_empty()) || keys.len() > 64 {
            Reason::BadName { name: path.into() }
        } else if let Err((depth, set)) = self.root.remove(&keys) {
            let place =
                if depth == 0 { "the stack file".into() } else { format!("`{}`", keys[..depth].join(".")) };
            let nearest = nearest(keys[depth], set.iter().map(String::as_str)).map(str::to_string);
            Reason::NotSet { key: keys[depth].into(), place, nearest, set }
        } else {
            return Ok(self);
        };
        Err(Problem { at: self.source.at(origin), reason }.into())
    }

    /// The leaves whose file says how large they are. Nothing here looks at files: whoever opens the stack does, and sets their `size`.
    pub fn leaves_without_size(&self) -> Vec<LeafWithoutSize> {
        let devices = section(&self.root, "device");
        let is_one = |e: &&Entry| e.node.text("kind") == Some("file") && e.node.entry("size").is_none();
        let leaf = |e: &Entry| {
            Some(LeafWithoutSize {
                name: e.key.clone(),
                path: e.node.text("path").filter(|path| !path.is_empty())?.into(),
                sector: sector(&e.node),
                shifts: before_others(devices, &e.key),
            })
        };
        devices.iter().filter(is_one).filter_map(leaf).collect()
    }

    /// Checks the file against the kinds of `registry`.
    pub fn load(&self, registry: &Registry) -> Result<Stack, StackError> {
        let mut loader = Loader { source: &self.source, problems: Vec::new() };
        let devices = loader.devices(&self.root, registry);
        let exports = loader.tables::<ExportTable>(&self.root, "export");
        let tenants = loader.tables::<TenantTable>(&self.root, "tenant");
        let workloads = loader.tables::<WorkloadTable>(&self.root, "workload");
        let changes = loader.tables::<ChangeTable>(&self.root, "change");
        loader.top(&self.root);
        StackError::unless_empty(std::mem::take(&mut loader.problems))?;

        let (tenants, exports) = loader.exports(&self.root, exports, tenants, &devices);
        loader.workloads(&self.root, &workloads, &exports);
        StackError::unless_empty(std::mem::take(&mut loader.problems))?;

        let devices = loader.order(devices, &exports).unwrap_or_default();
        let tenants: Vec<Tenant> = tenants.into_iter().map(|(name, table)| Tenant { name, table }).collect();
        let changes = loader.changes(&self.root, &changes, shares(&tenants), &devices);
        StackError::unless_empty(std::mem::take(&mut loader.problems))?;
        Ok(self.finish(devices, exports, tenants, workloads, changes))
    }

    fn finish(
        &self,
        devices: Vec<Found<'_>>,
        exports: Vec<(String, ExportTable, TenantId)>,
        tenants: Vec<Tenant>,
        workloads: Vec<(String, WorkloadTable)>,
        changes: Vec<Change>,
    ) -> Stack {
        let hash = order::hash(&self.root, &devices);
        let number: BTreeMap<&str, u32> =
            devices.iter().enumerate().map(|(i, d)| (d.name, i as u32)).collect();
        let exports = exports
            .into_iter()
            .map(|(name, table, tenant)| Export { name, node: number[table.device.as_str()], tenant, table })
            .collect();
        let children: Vec<Vec<u32>> =
            devices.iter().map(|d| d.children.iter().map(|c| number[c.as_str()]).collect()).collect();
        let devices = devices
            .into_iter()
            .zip(children)
            .map(|(d, children)| Device {
                name: d.name.into(),
                kind: d.kind.clone(),
                children,
                config: d.config,
                node: d.entry.node.clone(),
            })
            .collect();
        Stack {
            description: self.root.text("description").map(str::to_string),
            devices,
            exports,
            tenants,
            changes,
            workloads: workloads.into_iter().map(|(name, table)| Workload { name, table }).collect(),
            hash,
            notes: self.notes.clone(),
            source: Arc::clone(&self.source),
        }
    }
}

/// A `file` leaf that is as large as its file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LeafWithoutSize {
    /// Its name.
    pub name: String,
    /// Where its file lies.
    pub path: String,
    /// Its size is a multiple of this.
    pub sector: u64,
    /// The row in which others stand behind it: they would move with the end of its file.
    pub shifts: Option<String>,
}

fn sector(leaf: &Node) -> u64 {
    let bytes = match leaf.entry("sector").map(|e| e.node.to_value()) {
        Some(toml::Value::String(text)) => parse_size(&text).ok().map(|size| size.0),
        Some(toml::Value::Integer(bytes)) => u64::try_from(bytes).ok(),
        _ => None,
    };
    bytes.filter(|&bytes| bytes > 0).unwrap_or(SECTOR)
}

/// The `concat` that has others behind `name`, or behind what stands on it.
fn before_others(devices: &[Entry], name: &str) -> Option<String> {
    let mut above = vec![name];
    let mut at = 0;
    while let Some(&below) = above.get(at) {
        at += 1;
        for device in devices.iter().filter(|e| e.node.names(below)) {
            let parts = device.node.entry("parts").map(|parts| &parts.node.data);
            let place = match parts {
                Some(Data::Array(parts)) => parts.iter().position(|part| part.names(below)),
                _ => None,
            };
            let count = if let Some(Data::Array(parts)) = parts { parts.len() } else { 0 };
            if device.node.text("kind") == Some("concat") && place.is_some_and(|place| place + 1 < count) {
                return Some(device.key.clone());
            }
            if !above.contains(&device.key.as_str()) {
                above.push(&device.key);
            }
        }
    }
    None
}

/// A device whose options are read, before its place in the order is known.
pub(crate) struct Found<'f> {
    pub name: &'f str,
    pub kind: &'f Kind,
    pub entry: &'f Entry,
    pub config: Box<dyn nandu_base::DeviceConfig>,
    pub children: Vec<String>,
}

/// Collects problems while the parts of a file are read.
struct Loader<'s> {
    source: &'s Source,
    problems: Vec<Problem>,
}

/// The entries of a section, which may be missing.
fn section<'n>(root: &'n Node, name: &str) -> &'n [Entry] {
    root.entry(name).map_or(&[], |e| e.node.entries())
}

impl Loader<'_> {
    fn push(&mut self, origin: Origin, reason: Reason) {
        self.problems.push(Problem { at: self.source.at(origin), reason });
    }

    /// Unknown tables at the top, sections that are no tables, names that cannot be names.
    fn top(&mut self, root: &Node) {
        for entry in root.entries() {
            let key = entry.key.as_str();
            if !SECTIONS.contains(&key) {
                let reason = Reason::UnknownKey {
                    key: key.into(),
                    place: "the stack file".into(),
                    nearest: nearest(key, SECTIONS).map(str::to_string),
                    known: SECTIONS.map(str::to_string).to_vec(),
                };
                self.push(entry.origin, reason);
            } else if (key == "description") != (root.text(key).is_some()) {
                let message =
                    if key == "description" { "expected text" } else { "expected tables, one for each name" };
                self.bad_value(entry.origin, key, "the stack file", message);
            } else {
                for named in entry.node.entries() {
                    self.name(named);
                }
            }
        }
    }

    fn name(&mut self, named: &Entry) {
        let good = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if named.key.is_empty() || named.key.len() > 64 || !named.key.chars().all(good) {
            self.push(named.origin, Reason::BadName { name: named.key.clone() });
        }
    }

    fn bad_value(&mut self, origin: Origin, key: &str, place: &str, message: &str) {
        let reason = Reason::BadValue { key: key.into(), place: place.into(), message: message.into() };
        self.push(origin, reason);
    }

    fn unknown(&mut self, origin: Origin, what: &str, word: &str, known: Vec<String>) {
        let nearest = nearest(word, known.iter().map(String::as_str)).map(str::to_string);
        self.push(origin, Reason::UnknownWord { what: what.into(), word: word.into(), nearest, known });
    }

    /// Checks one table against its schema. True when nothing is wrong so far.
    fn check(&mut self, node: &Node, schema: &Json, place: &str, except: &[&str]) -> bool {
        let before = self.problems.len();
        let defs = schema.get("$defs").and_then(Json::as_object);
        let mut checker =
            Checker { source: self.source, problems: &mut self.problems, defs, place: place.into() };
        checker.check("", node, schema, except);
        self.problems.len() == before
    }

    /// What the option types themselves refuse, at the deepest key that they name.
    fn refused(&mut self, entry: &Entry, place: &str, error: &toml::de::Error) {
        let shown = error.to_string();
        let path =
            shown.lines().last().and_then(|l| l.strip_prefix("in `")?.strip_suffix('`')).unwrap_or_default();
        let origin = entry.node.deepest(path.split('.')).map_or(entry.origin, |e| e.node.origin);
        let key = if path.is_empty() { entry.key.as_str() } else { path };
        self.bad_value(origin, key, place, error.message().trim_end());
    }

    fn devices<'f>(&mut self, root: &'f Node, registry: &'f Registry) -> Vec<Found<'f>> {
        let entries = section(root, "device");
        if entries.len() > DEVICES {
            self.push(entries[DEVICES].origin, Reason::TooMany { what: "devices".into(), most: DEVICES });
            return Vec::new();
        }
        entries.iter().filter_map(|entry| self.device(entry, registry)).collect()
    }

    fn device<'f>(&mut self, entry: &'f Entry, registry: &'f Registry) -> Option<Found<'f>> {
        let place = format!("device `{}`", entry.key);
        if !matches!(entry.node.data, Data::Table(_)) {
            self.bad_value(entry.node.origin, &entry.key, "`device`", "expected a table");
            return None;
        }
        let Some(word) = entry.node.text("kind") else {
            match entry.node.entry("kind") {
                Some(kind) => self.bad_value(kind.node.origin, "kind", &place, "expected text"),
                None => self.push(entry.origin, Reason::MissingKey { key: "kind".into(), place }),
            }
            return None;
        };
        let Some(kind) = registry.get(word) else {
            let origin = entry.node.entry("kind").map_or(entry.origin, |e| e.node.origin);
            self.unknown(
                origin,
                "machine kind",
                word,
                registry.kinds().iter().map(|k| k.name.into()).collect(),
            );
            return None;
        };
        let place = format!("{place} (kind `{}`)", kind.name);
        if entry.node.entry("description").is_some() && entry.node.text("description").is_none() {
            self.bad_value(entry.origin, "description", &place, "expected text");
        }
        if !self.check(&entry.node, &policies::schema_of(kind, registry), &place, &COMMON) {
            return None;
        }
        match (kind.parse)(entry.node.to_table(&COMMON)) {
            Ok(mut config) => {
                if let Err(error) = config.settle(registry) {
                    let key = error.key.unwrap_or_default();
                    let origin = entry.node.deepest(key.split('.')).map_or(entry.origin, |e| e.node.origin);
                    self.bad_value(origin, &key, &place, &error.reason);
                    return None;
                }
                let children = config.children();
                if children.len() > CHILDREN {
                    self.push(
                        entry.origin,
                        Reason::TooMany { what: format!("children of {place}"), most: CHILDREN },
                    );
                }
                Some(Found { name: &entry.key, kind, entry, config, children })
            }
            Err(error) => {
                self.refused(entry, &place, &error);
                None
            }
        }
    }

    /// Every table of a section, in the order of the file.
    fn tables<T: DeserializeOwned + schemars::JsonSchema>(
        &mut self,
        root: &Node,
        name: &str,
    ) -> Vec<(String, T)> {
        let schema = schemars::schema_for!(T);
        let mut found = Vec::new();
        for entry in section(root, name) {
            let place = format!("{name} `{}`", entry.key);
            if !matches!(entry.node.data, Data::Table(_)) {
                self.bad_value(entry.node.origin, &entry.key, &format!("`{name}`"), "expected a table");
            } else if self.check(&entry.node, schema.as_value(), &place, &[]) {
                match T::deserialize(entry.node.to_table(&[])) {
                    Ok(table) => found.push((entry.key.clone(), table)),
                    Err(error) => self.refused(entry, &place, &error),
                }
            }
        }
        found
    }

    /// Gives every export its tenant. A tenant that has no table of its own gets one with the defaults.
    #[allow(clippy::type_complexity)] // three lists of named tables
    fn exports(
        &mut self,
        root: &Node,
        exports: Vec<(String, ExportTable)>,
        mut tenants: Vec<(String, TenantTable)>,
        devices: &[Found<'_>],
    ) -> (Vec<(String, TenantTable)>, Vec<(String, ExportTable, TenantId)>) {
        if exports.is_empty() {
            self.push(root.origin, Reason::NoExport);
        }
        let declared = tenants.len();
        let mut complete = Vec::with_capacity(exports.len());
        for ((name, table), entry) in exports.into_iter().zip(section(root, "export")) {
            if !devices.iter().any(|d| d.name == table.device) {
                let origin = entry.node.entry("device").map_or(entry.origin, |e| e.node.origin);
                self.unknown(
                    origin,
                    "device",
                    &table.device,
                    devices.iter().map(|d| d.name.into()).collect(),
                );
            }
            let wanted = table.tenant.as_deref().unwrap_or(&name);
            let known = tenants.iter().position(|(t, _)| t == wanted);
            let at = match (known, &table.tenant) {
                (Some(at), _) => at,
                (None, Some(tenant)) => {
                    let origin = entry.node.entry("tenant").map_or(entry.origin, |e| e.node.origin);
                    self.unknown(
                        origin,
                        "tenant",
                        tenant,
                        tenants[..declared].iter().map(|t| t.0.clone()).collect(),
                    );
                    continue;
                }
                (None, None) => {
                    tenants.push((name.clone(), TenantTable::default()));
                    tenants.len() - 1
                }
            };
            complete.push((name, table, TenantId((at + 1).min(TENANTS) as u16)));
        }
        if tenants.len() > TENANTS {
            self.push(root.origin, Reason::TooMany { what: "tenants".into(), most: TENANTS });
        }
        (tenants, complete)
    }

    fn workloads(
        &mut self,
        root: &Node,
        workloads: &[(String, WorkloadTable)],
        exports: &[(String, ExportTable, TenantId)],
    ) {
        let names: Vec<String> = exports.iter().map(|e| e.0.clone()).collect();
        for ((name, table), entry) in workloads.iter().zip(section(root, "workload")) {
            let place = format!("workload `{name}`");
            match &table.export {
                Some(export) if !names.contains(export) => {
                    let origin = entry.node.entry("export").map_or(entry.origin, |e| e.node.origin);
                    self.unknown(origin, "export", export, names.clone());
                }
                None if names.len() > 1 => {
                    self.push(
                        entry.origin,
                        Reason::MissingKey { key: "export".into(), place: place.clone() },
                    );
                }
                _ => {}
            }
            if let Some((key, message)) = table.flaw() {
                let origin = entry.node.entry(key).map_or(entry.origin, |e| e.node.origin);
                self.bad_value(origin, key, &place, message);
            }
            match (&table.trace, &table.generator) {
                (None, None) => {
                    self.push(entry.origin, Reason::MissingKey { key: "trace` or `generator".into(), place });
                }
                (Some(_), Some(_)) => {
                    let message = "a workload has either a trace or a generator";
                    self.bad_value(entry.origin, "generator", &place, message);
                }
                _ => {}
            }
        }
    }
}
