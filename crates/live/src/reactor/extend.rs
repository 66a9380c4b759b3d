//! One more leg for a mirror that serves: `add LEG to DEVICE with FILE`.
//!
//! 1. *Look.* FILE is looked at on a thread of its own, as for `replace`: it is blank, or it is made, as long as the smallest leg of the mirror.
//! 2. *Take.* The graph gets a leaf more, and the mirror takes it for one more leg that is out ([`nandu_array::mirror`]). What it refuses has changed nothing.
//! 3. *Name.* The stack file gets the table of the leaf and its name among the legs, and is kept as it was beside it.
//! 4. *Fill.* The leg is opened; the mirror fills it as any blank one. The answer comes when it is a member.
//!
//! A server that ends before the fourth step has begun leaves a stack file that names a leg which the mirror does not know: a start goes on without
//! it and says so, and `replace LEG` takes it.

use super::control::refusal;
use super::legs::{Leg, LegState};
use super::maintenance::Told;
use super::slab::Key;
use super::{News, Reactor};
use crate::backend::file::FileBackend;
use crate::backend::{BlockBackend, Completions, LegError, Look};
use nandu_base::{BlockSpec, BuildContext, ByteLen, Kind, Machine, MediumSpec, Precondition};
use nandu_stack::Part;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What leaves with a file are made of.
pub struct Leaves {
    /// The kind `file`; none where the stack has no leaf of it.
    pub kind: Option<Kind>,
    /// Where relative paths start.
    pub base: PathBuf,
    /// Of each machine whether it is a leaf that bypasses the page cache.
    pub direct: Vec<bool>,
}

/// A leg on its way into a mirror.
pub(super) struct Extension {
    client: Key,
    device: u32,
    /// The number that its leaf gets, or has.
    node: u32,
    name: String,
    file: PathBuf,
    /// What the stack file says of it.
    table: toml::Table,
    /// Both are `None` as soon as the graph has them.
    machine: Option<Box<dyn Machine>>,
    backend: Option<Box<dyn BlockBackend>>,
    /// Where the stack file is kept as it was.
    copy: Option<PathBuf>,
}

impl Leaves {
    /// The table of a leaf like `like` for `file`.
    fn table(&self, like: u32, file: &str, size: ByteLen, align: u32) -> toml::Table {
        let mut table = toml::Table::new();
        table.insert("path".into(), file.into());
        table.insert("size".into(), size.exact().into());
        if self.direct.get(like as usize) == Some(&true) {
            table.insert("direct".into(), true.into());
        }
        if align > 512 {
            table.insert("sector".into(), ByteLen(u64::from(align)).exact().into());
        }
        table
    }

    fn machine(&self, name: &str, table: &toml::Table) -> Result<(Box<dyn Machine>, BlockSpec), String> {
        let kind = self.kind.as_ref().ok_or("the stack has no leaf with a file")?;
        let config = (kind.parse)(table.clone()).map_err(|error| error.to_string())?;
        let cx = BuildContext {
            name,
            children: &[],
            seed: 0, // a leaf draws nothing
            tenants: 1,
            shares: &[],
            planted: &BTreeSet::new(),
            precondition: Precondition::Empty,
        };
        let machine = config.machine(&cx).map_err(|error| error.to_string())?;
        match machine.needs().medium {
            MediumSpec::Block(spec) => Ok((machine, spec)),
            _ => Err("it has no file".into()),
        }
    }
}

impl Reactor {
    /// Begins to add a leg to a mirror. The answer comes when it is a member.
    pub(super) fn extend(&mut self, leg: &str, device: &str, file: &Path, client: Key) -> Option<Value> {
        match self.begin_extension(leg, device, file, client) {
            Ok(()) => None,
            Err(why) => Some(refusal(&why)),
        }
    }

    fn begin_extension(&mut self, name: &str, device: &str, file: &Path, client: Key) -> Result<(), String> {
        if let Some(other) = &self.extension {
            return Err(format!("`{}` is being added; wait until that is over", other.name));
        }
        let all = 0..self.graph.len() as u32;
        let Some(node) = all.clone().find(|&node| self.graph.name(node) == device) else {
            return Err(format!("unknown device `{device}`"));
        };
        if all.clone().any(|node| self.graph.name(node) == name) {
            return Err(format!(
                "there is a device `{name}` already; take another name, or say `add {name}` to take it back"
            ));
        }
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_')) {
            return Err(format!("`{name}` is not a name of a device: use letters, digits, `-` and `_`"));
        }
        if self.kinds[node as usize] != "mirror" {
            let kind = self.kinds[node as usize];
            return Err(format!("`{device}` takes no more legs: it is a `{kind}`, and only a `mirror` does"));
        }
        if let Some(&leg) = self.children[node as usize].iter().find(|&&leg| self.moves(leg)) {
            return Err(format!("`{}` is being replaced; wait until that is over", self.graph.name(leg)));
        }
        let size_of = |leg: &u32| self.graph.limits(*leg).capacity;
        let least = self.children[node as usize].iter().map(size_of).min().unwrap_or(ByteLen::ZERO);
        let is_file = |leg: &u32| self.kinds[*leg as usize] == "file";
        let Some(like) = self.children[node as usize].iter().copied().find(is_file) else {
            return Err(format!(
                "no leg of `{device}` is a file or block device: the new one would not be like any"
            ));
        };
        let path = file.to_str().ok_or("a name that is not UTF-8 cannot stand in the stack file")?;
        let table = self.leaves.table(like, path, least, self.graph.limits(like).align);
        let (machine, spec) = self.leaves.machine(name, &table)?;
        let number = self.graph.len() as u32;
        let absent = FileBackend::absent(number, &spec, &self.leaves.base, Arc::clone(&self.completions));
        if let Some(what) = absent.id_of(file).and_then(|id| self.whose_is(id)) {
            return Err(format!("{}: it is {what}; name another file", file.display()));
        }
        let job = absent.look_at(&Look::Replacement(Some(file.into()))).ok_or("it cannot be looked at")?;
        let (sender, stop) = (self.looks_sender(), self.looks_stop());
        let completions: Arc<Completions> = Arc::clone(&self.completions);
        let thread = std::thread::Builder::new().name("nandu-look".into()).spawn(move || {
            let result = job(&stop);
            let _ = sender.send(Told::LookedAtNew(result)); // nobody listens any more: the server has ended
            completions.wake();
        });
        thread.map_err(|error| format!("the file cannot be looked at: {error}"))?;
        self.extension = Some(Extension {
            client,
            device: node,
            node: number,
            name: name.into(),
            file: file.into(),
            table,
            machine: Some(machine),
            backend: Some(Box::new(absent)),
            copy: None,
        });
        self.wait_for_leg(number, client);
        Ok(())
    }

    /// The file of a leg that is to be added was looked at: the mirror takes it, or not.
    pub(super) fn looked_at_new(&mut self, result: Result<(), LegError>) {
        let Some(mut extension) = self.extension.take() else { return };
        let (node, device) = (extension.node, extension.device);
        if let Err(error) = result {
            return self.answer_leg(node, &refusal(&error.to_string()));
        }
        let (Some(machine), Some(backend)) = (extension.machine.take(), extension.backend.take()) else {
            return;
        };
        let leaf = Part { name: extension.name.clone(), machine, children: Vec::new(), medium: None };
        if let Err(error) = self.graph.extend(device, leaf, self.clock.now(), &mut self.host) {
            let device = self.graph.name(device);
            let why = format!("`{device}` does not take `{}`: {error}", extension.name);
            return self.answer_leg(node, &refusal(&why));
        }
        let child = self.children[device as usize].len() as u8;
        self.kinds.push("file");
        self.children.push(Vec::new());
        self.children[device as usize].push(node);
        self.leaves.direct.push(extension.table.contains_key("direct"));
        self.host.legs.push(Some(Leg::new(backend, LegState::Missing, false)));
        self.add_bond(device, child, node);
        self.name_new_leg(extension);
    }

    /// Has the stack file name the leg, on a thread of its own.
    fn name_new_leg(&mut self, extension: Extension) {
        let (device, name) = (self.graph.name(extension.device).to_string(), extension.name.clone());
        let table = extension.table.clone();
        self.extension = Some(extension);
        let Some((stack_file, teller)) = self.where_to_write() else { return self.named_new(Ok(None)) };
        let completions = Arc::clone(&self.completions);
        let thread = std::thread::Builder::new().name("nandu-stack-file".into());
        let begun = thread.spawn(move || {
            teller.named_new(crate::stack_file::add_leg(&stack_file, &device, &name, table));
            completions.wake();
        });
        if let Err(error) = begun {
            self.named_new(Err(error.to_string()));
        }
    }

    /// The stack file names the new leg, or why not; with where it is kept as it was, if there is one. The leg comes.
    pub(super) fn named_new(&mut self, result: Result<Option<PathBuf>, String>) {
        let Some(extension) = &mut self.extension else { return };
        let (node, client, file) = (extension.node, extension.client, extension.file.clone());
        let prepared = match result {
            Ok(copy) => {
                extension.copy = copy;
                self.host.leg(node).backend.prepare(Some(&file)).map_err(|error| error.to_string())
            }
            Err(why) => Err(format!("the stack file would not name it: {why}")),
        };
        if let Err(why) = prepared {
            self.host.leg(node).backend.forget_prepared();
            let Some(extension) = self.extension.take() else { return };
            let (name, file) = (extension.name, extension.file.display());
            let device = self.graph.name(extension.device);
            let why = format!(
                "`{name}` is a leg of `{device}` that is missing, until the server ends, or `replace {name} with {file}` brings it: {why}"
            );
            return self.answer_leg(node, &refusal(&why));
        }
        if let Some(answer) = self.await_leg(node, client) {
            self.answer_leg(node, &answer);
        }
    }

    /// What is added to the answer about a leg, if that was added: what the stack file says of it.
    pub(super) fn end_extension(&mut self, leg: u32, answer: &mut Value) {
        let Some(extension) = self.extension.take_if(|extension| extension.node == leg) else { return };
        if let Some(copy) = &extension.copy {
            answer["stack_file"] = json!("names the new leg");
            answer["stack_file_before"] = json!(copy.display().to_string());
        }
        let (device, leg) = (self.graph.name(extension.device).to_string(), extension.name);
        let is_taken = answer["ok"] == Value::Bool(true);
        if is_taken {
            self.news.push(News::Extended { device, leg, file: extension.file, copy: extension.copy });
        }
    }
}
