//! The text of a stack file as a tree in which every key and value knows where it comes from.

use super::error::{At, Problem, Reason, StackError};
use std::sync::Arc;
use toml::de::{DeTable, DeValue};
use toml::{Spanned, Value};

/// Longest stack file in bytes. A longer text is no stack file, and reading it would only cost memory.
const LONGEST: usize = 1 << 20;
/// Most dots in one line outside any quotes that a key may have: deeper tables are no stack file.
const DEEPEST: usize = 64;

/// Where a key or value comes from.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Origin {
    /// The byte of the file at which it begins.
    File(usize),
    /// The override of this number.
    Set(usize),
}

/// The file and its overrides: what an [`Origin`] refers to.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub name: String,
    pub text: String,
    pub sets: Vec<(String, String)>,
}

impl Source {
    /// The place as it is shown. Lines and columns count from 1, columns in characters.
    pub fn at(&self, origin: Origin) -> At {
        match origin {
            Origin::File(byte) => {
                let mut byte = byte.min(self.text.len());
                while !self.text.is_char_boundary(byte) {
                    byte -= 1;
                }
                let before = &self.text[..byte];
                let line = before.matches('\n').count() + 1;
                let column = before.rsplit('\n').next().map_or(0, |l| l.chars().count()) + 1;
                At::File { name: self.name.clone(), line, column }
            }
            Origin::Set(index) => {
                let (path, value) = self.sets[index].clone();
                At::Set { path, value }
            }
        }
    }
}

/// One value.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub origin: Origin,
    pub data: Data,
}

/// What a value is.
#[derive(Clone, Debug)]
pub(crate) enum Data {
    Table(Vec<Entry>),
    Array(Vec<Node>),
    Scalar(Value),
}

/// One key with its value, in the order of the file.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub key: String,
    pub origin: Origin,
    pub node: Node,
}

/// Reads `source.text`.
pub(crate) fn parse(source: &Arc<Source>) -> Result<Node, StackError> {
    let refuse = |byte, message: &str| {
        let reason = Reason::Syntax { message: message.into() };
        StackError::from(Problem { at: source.at(Origin::File(byte)), reason })
    };
    let text = &source.text;
    if text.len() > LONGEST {
        return Err(refuse(0, "a stack file is at most 1 MiB long"));
    }
    let mut byte = 0;
    for line in text.split_inclusive('\n') {
        if line.matches('.').count() > DEEPEST {
            return Err(refuse(byte, "more than 64 dots in one line"));
        }
        byte += line.len();
    }
    let table = DeTable::parse(text)
        .map_err(|error| refuse(error.span().map_or(0, |span| span.start), error.message().trim_end()))?;
    let mut bad = Vec::new();
    let origin = Origin::File(table.span().start);
    let node = Node { origin, data: Data::Table(table_of(table.into_inner(), &mut bad)) };
    match bad.first() {
        None => Ok(node),
        Some(&(byte, message)) => Err(refuse(byte, message)),
    }
}

fn table_of(table: DeTable<'_>, bad: &mut Vec<(usize, &'static str)>) -> Vec<Entry> {
    let mut entries: Vec<Entry> = table
        .into_iter()
        .map(|(key, value)| Entry {
            origin: Origin::File(key.span().start),
            key: key.into_inner().into_owned(),
            node: node_of(value, bad),
        })
        .collect();
    entries.sort_by_key(|e| e.origin);
    entries
}

fn node_of(value: Spanned<DeValue<'_>>, bad: &mut Vec<(usize, &'static str)>) -> Node {
    let start = value.span().start;
    let data = match value.into_inner() {
        DeValue::String(text) => Data::Scalar(Value::String(text.into_owned())),
        DeValue::Boolean(yes) => Data::Scalar(Value::Boolean(yes)),
        DeValue::Integer(n) => match i64::from_str_radix(n.as_str(), n.radix()) {
            Ok(n) => Data::Scalar(Value::Integer(n)),
            Err(_) => {
                bad.push((start, "this number does not fit 64 bits"));
                Data::Scalar(Value::Integer(0))
            }
        },
        DeValue::Float(n) => match n.as_str().parse() {
            Ok(n) => Data::Scalar(Value::Float(n)),
            Err(_) => {
                bad.push((start, "this is not a number"));
                Data::Scalar(Value::Integer(0))
            }
        },
        DeValue::Datetime(_) => {
            bad.push((start, "no option of a stack is a date"));
            Data::Scalar(Value::Integer(0))
        }
        DeValue::Array(items) => Data::Array(items.into_iter().map(|item| node_of(item, bad)).collect()),
        DeValue::Table(table) => Data::Table(table_of(table, bad)),
    };
    Node { origin: Origin::File(start), data }
}

impl Node {
    /// An empty table, for what the file leaves out.
    pub fn empty(origin: Origin) -> Node {
        Node { origin, data: Data::Table(Vec::new()) }
    }

    /// A value of an override: a TOML value when it is one, text otherwise.
    pub fn from_set(text: &str, index: usize) -> Node {
        let value = text.parse::<Value>().unwrap_or_else(|_| Value::String(text.into()));
        Node::from_value(value, Origin::Set(index))
    }

    fn from_value(value: Value, origin: Origin) -> Node {
        let data = match value {
            Value::Array(items) => {
                Data::Array(items.into_iter().map(|v| Node::from_value(v, origin)).collect())
            }
            Value::Table(table) => Data::Table(
                table
                    .into_iter()
                    .map(|(key, value)| Entry { key, origin, node: Node::from_value(value, origin) })
                    .collect(),
            ),
            scalar => Data::Scalar(scalar),
        };
        Node { origin, data }
    }

    /// Its entries when it is a table.
    pub fn entries(&self) -> &[Entry] {
        match &self.data {
            Data::Table(entries) => entries,
            _ => &[],
        }
    }

    /// The entry of a key.
    pub fn entry(&self, key: &str) -> Option<&Entry> {
        self.entries().iter().find(|e| e.key == key)
    }

    /// The text of a key, when there is one and it is text.
    pub fn text(&self, key: &str) -> Option<&str> {
        match &self.entry(key)?.node.data {
            Data::Scalar(Value::String(text)) => Some(text),
            _ => None,
        }
    }

    /// Whether it is this word, or a list or table with it: so devices are named that others stand on.
    pub fn names(&self, word: &str) -> bool {
        match &self.data {
            Data::Scalar(value) => value.as_str() == Some(word),
            Data::Array(items) => items.iter().any(|item| item.names(word)),
            Data::Table(entries) => entries.iter().any(|e| e.node.names(word)),
        }
    }

    /// The entry at a dotted path, or the deepest one that exists.
    pub fn deepest<'a>(&self, path: impl IntoIterator<Item = &'a str>) -> Option<&Entry> {
        let mut found = None;
        let mut node = self;
        for key in path {
            match node.entry(key) {
                Some(entry) => {
                    node = &entry.node;
                    found = Some(entry);
                }
                None => break,
            }
        }
        found
    }

    /// This value without its origins.
    pub fn to_value(&self) -> Value {
        match &self.data {
            Data::Scalar(value) => value.clone(),
            Data::Array(items) => Value::Array(items.iter().map(Node::to_value).collect()),
            Data::Table(_) => Value::Table(self.to_table(&[])),
        }
    }

    /// This table without its origins and without the keys of `except`.
    pub fn to_table(&self, except: &[&str]) -> toml::Table {
        let kept = self.entries().iter().filter(|e| !except.contains(&e.key.as_str()));
        kept.map(|e| (e.key.clone(), e.node.to_value())).collect()
    }

    /// Puts `value` at `path`, making tables where there are none. Err: the part of the path that is no table.
    pub fn set(&mut self, path: &[&str], value: Node) -> Result<(), String> {
        let origin = value.origin;
        let mut node = self;
        for (depth, key) in path.iter().enumerate() {
            let Data::Table(entries) = &mut node.data else {
                return Err(path[..depth].join("."));
            };
            let at = entries.iter().position(|e| e.key == *key).unwrap_or_else(|| {
                entries.push(Entry { key: (*key).into(), origin, node: Node::empty(origin) });
                entries.len() - 1
            });
            node = &mut entries[at].node;
        }
        *node = value;
        Ok(())
    }

    /// Takes the entry at `path` away. Err: the depth at which there is no such key, and the keys that are there.
    pub fn remove(&mut self, path: &[&str]) -> Result<(), (usize, Vec<String>)> {
        let mut node = self;
        for (depth, key) in path.iter().enumerate() {
            let known = || node.entries().iter().map(|e| e.key.clone()).collect();
            let Some(at) = node.entries().iter().position(|e| e.key == *key) else {
                return Err((depth, known()));
            };
            let Data::Table(entries) = &mut node.data else { return Err((depth, Vec::new())) };
            if depth + 1 == path.len() {
                entries.remove(at);
                return Ok(());
            }
            node = &mut entries[at].node;
        }
        Ok(())
    }
}
