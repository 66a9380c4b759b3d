//! Checks a part of the file against the schema of what should stand there.
//!
//! The schema is the one that is generated from the option types, so there is one description of what is allowed. The
//! walk finds every unknown key, missing key, unknown word, wrong type and bad unit, however deeply nested, with its
//! place in the file. What a schema cannot say is left to the types themselves, which read the value afterwards.

use super::error::{Problem, Reason};
use super::tree::{Data, Entry, Node, Source};
use nandu_base::registry::nearest;
use nandu_base::{ByteLen, Ratio, Span};
use serde::Deserialize;
use serde_json::{Map, Value as Json};
use toml::Value;

/// Collects what is wrong in one table.
pub(crate) struct Checker<'a> {
    pub source: &'a Source,
    pub problems: &'a mut Vec<Problem>,
    /// The definitions that `$ref` refers to.
    pub defs: Option<&'a Map<String, Json>>,
    /// How the table is called in messages: "device `cache` (kind `cache`)".
    pub place: String,
}

/// The keys of a table and what each may hold.
struct Shape<'s> {
    properties: Option<&'s Map<String, Json>>,
    required: Vec<&'s str>,
    /// What keys without a name of their own may hold.
    others: Option<&'s Json>,
    /// Keys are anything, and so are their values: whoever takes them checks them.
    is_open: bool,
}

impl<'a> Checker<'a> {
    /// Checks `node` under `key` against `schema`. `except` are keys of the outermost table that are checked elsewhere.
    pub fn check(&mut self, key: &str, node: &Node, schema: &'a Json, except: &[&str]) {
        let Some(schema) = schema.as_object() else { return };
        if let Some(name) = schema.get("$ref").and_then(Json::as_str).and_then(|r| r.strip_prefix("#/$defs/"))
        {
            if !self.quantity(key, node, name)
                && let Some(target) = self.defs.and_then(|defs| defs.get(name))
            {
                self.check(key, node, target, except);
            }
            return;
        }
        if let Some(choices) = schema.get("oneOf").or(schema.get("anyOf")).and_then(Json::as_array) {
            self.choose(key, node, choices);
            return;
        }
        match &node.data {
            Data::Table(_) if has_type(schema, "object") => self.table(key, node, schema, except),
            Data::Array(items) if has_type(schema, "array") => {
                if let Some(schema) = schema.get("items") {
                    items.iter().for_each(|item| self.check(key, item, schema, &[]));
                }
            }
            Data::Scalar(value) => self.scalar(key, node, value, schema),
            _ => self.wrong_type(key, node, schema),
        }
    }

    fn push(&mut self, node: &Node, reason: Reason) {
        self.problems.push(Problem { at: self.source.at(node.origin), reason });
    }

    fn bad(&mut self, key: &str, node: &Node, message: String) {
        let reason = Reason::BadValue { key: key.into(), place: self.place.clone(), message };
        self.push(node, reason);
    }

    /// Sizes, times and shares have a reader of their own. False when `name` is none of them.
    fn quantity(&mut self, key: &str, node: &Node, name: &str) -> bool {
        let value = node.to_value();
        let error = match name {
            "Size" => ByteLen::deserialize(value).err(),
            "Time" => Span::deserialize(value).err(),
            "Share" => Ratio::deserialize(value).err(),
            _ => return false,
        };
        if let Some(error) = error {
            self.bad(key, node, error.message().trim_end().to_string());
        }
        true
    }

    fn table(&mut self, key: &str, node: &Node, schema: &'a Map<String, Json>, except: &[&str]) {
        let properties = schema.get("properties").and_then(Json::as_object);
        let required = schema.get("required").and_then(Json::as_array);
        let shape = Shape {
            properties,
            required: required.into_iter().flatten().filter_map(Json::as_str).collect(),
            others: schema.get("additionalProperties").filter(|s| s.is_object()),
            is_open: schema.get("additionalProperties") == Some(&Json::Bool(true)),
        };
        for entry in node.entries() {
            if !except.contains(&entry.key.as_str()) {
                self.entry(key, entry, &shape, except);
            }
        }
        for name in shape.required {
            if node.entry(name).is_none() && !except.contains(&name) {
                let place = self.inside(key);
                self.push(node, Reason::MissingKey { key: name.into(), place });
            }
        }
    }

    fn entry(&mut self, key: &str, entry: &Entry, shape: &Shape<'a>, except: &[&str]) {
        let path = if key.is_empty() { entry.key.clone() } else { format!("{key}.{}", entry.key) };
        if shape.is_open {
            return;
        }
        if let Some(schema) = shape.properties.and_then(|p| p.get(&entry.key)).or(shape.others) {
            self.check(&path, &entry.node, schema, &[]);
            return;
        }
        let mut known: Vec<String> = shape.properties.into_iter().flat_map(Map::keys).cloned().collect();
        if key.is_empty() {
            known.extend(except.iter().map(|k| (*k).into()));
        }
        let nearest = nearest(&entry.key, known.iter().map(String::as_str)).map(str::to_string);
        let reason = Reason::UnknownKey { key: entry.key.clone(), place: self.inside(key), nearest, known };
        self.problems.push(Problem { at: self.source.at(entry.origin), reason });
    }

    /// One of several shapes: words, tables that a word of their own tells apart, or types that differ.
    fn choose(&mut self, key: &str, node: &Node, choices: &'a [Json]) {
        let mut open = Vec::new();
        for choice in choices {
            let target = self.resolve(choice);
            match target.get("oneOf").or(target.get("anyOf")).and_then(Json::as_array) {
                Some(inner) => open.extend(inner.iter()),
                None if has_exactly(target, "null") => {}
                None => open.push(choice),
            }
        }
        if let [only] = open.as_slice() {
            self.check(key, node, only, &[]);
            return;
        }
        let fitting: Vec<&'a Json> = open.iter().copied().filter(|c| fits(self.resolve(c), node)).collect();
        match (fitting.as_slice(), &node.data) {
            ([], _) => {
                let all: Vec<&str> = open.iter().map(|c| type_name(self.resolve(c))).collect();
                let mut names: Vec<&str> = Vec::new();
                all.into_iter().for_each(|n| {
                    if !names.contains(&n) {
                        names.push(n)
                    }
                });
                let instead = self.as_table(&open, node).unwrap_or_default();
                self.bad(
                    key,
                    node,
                    format!("expected {}, not {}{instead}", names.join(" or "), describe(node)),
                );
            }
            ([only], _) => self.check(key, node, only, &[]),
            (several, Data::Table(_)) => self.by_tag(key, node, several),
            (several, Data::Scalar(Value::String(word))) => {
                let mut words: Vec<String> = Vec::new();
                for choice in several {
                    match words_of(self.resolve(choice)) {
                        Some(more) => words.extend(more),
                        None => return,
                    }
                }
                self.word(key, node, word, words);
            }
            _ => {}
        }
    }

    /// What a word should have been that stands in place of a table which such a word tells apart from others.
    fn as_table(&self, choices: &[&'a Json], node: &Node) -> Option<String> {
        let Data::Scalar(Value::String(word)) = &node.data else { return None };
        let tags: Vec<(&str, &str)> =
            choices.iter().map(|c| tag_of(self.resolve(c))).collect::<Option<Vec<_>>>()?;
        let (tag, word) = tags.iter().find(|tag| tag.1 == word).or(tags.first())?;
        Some(format!(": for example {{ {tag} = \"{word}\" }}"))
    }

    /// Tables of which each holds a constant under the same key (`kind`).
    fn by_tag(&mut self, key: &str, node: &Node, choices: &[&'a Json]) {
        let tags: Vec<Option<(&str, &str)>> = choices.iter().map(|c| tag_of(self.resolve(c))).collect();
        let Some(Some((tag, _))) = tags.first().copied() else { return };
        let Some(entry) = node.entry(tag) else {
            let place = self.inside(key);
            self.push(node, Reason::MissingKey { key: tag.into(), place });
            return;
        };
        let Data::Scalar(Value::String(word)) = &entry.node.data else {
            self.bad(
                &format!("{key}.{tag}"),
                &entry.node,
                format!("expected a word, not {}", describe(&entry.node)),
            );
            return;
        };
        match tags.iter().position(|t| *t == Some((tag, word.as_str()))) {
            Some(at) => self.check(key, node, choices[at], &[]),
            None => {
                let known = tags.iter().flatten().map(|t| t.1.to_string()).collect();
                self.word(&format!("{key}.{tag}"), &entry.node, word, known);
            }
        }
    }

    fn scalar(&mut self, key: &str, node: &Node, value: &Value, schema: &'a Map<String, Json>) {
        match value {
            Value::String(word) if has_type(schema, "string") => {
                if let Some(words) = words_of(schema) {
                    self.word(key, node, word, words);
                }
            }
            Value::Integer(n) if has_type(schema, "integer") || has_type(schema, "number") => {
                let bound = |name: &str| schema.get(name).and_then(Json::as_i64);
                let widest = match schema.get("format").and_then(Json::as_str) {
                    Some("uint8") => i64::from(u8::MAX),
                    Some("uint16") => i64::from(u16::MAX),
                    Some("uint32") => i64::from(u32::MAX),
                    _ => i64::MAX,
                };
                if let Some(least) = bound("minimum").filter(|least| n < least) {
                    self.bad(key, node, format!("{n} is less than {least}"));
                }
                if let Some(most) = Some(bound("maximum").unwrap_or(widest)).filter(|most| n > most) {
                    self.bad(key, node, format!("{n} is more than {most}"));
                }
            }
            Value::Float(n) if has_type(schema, "number") => {
                let bound = |name: &str| schema.get(name).and_then(Json::as_f64);
                if let Some(least) = bound("minimum").filter(|least| n < least) {
                    self.bad(key, node, format!("{n} is less than {least}"));
                }
                if let Some(most) = bound("maximum").filter(|most| n > most) {
                    self.bad(key, node, format!("{n} is more than {most}"));
                }
            }
            Value::Boolean(_) if has_type(schema, "boolean") => {}
            _ if !schema.contains_key("type") => {}
            _ => self.wrong_type(key, node, schema),
        }
    }

    fn word(&mut self, key: &str, node: &Node, word: &str, known: Vec<String>) {
        if known.iter().any(|k| k == word) {
            return;
        }
        let nearest = nearest(word, known.iter().map(String::as_str)).map(str::to_string);
        let what = format!("value of `{key}` in {}:", self.place);
        self.push(node, Reason::UnknownWord { what, word: word.into(), nearest, known });
    }

    fn wrong_type(&mut self, key: &str, node: &Node, schema: &Map<String, Json>) {
        if schema.contains_key("type") {
            self.bad(key, node, format!("expected {}, not {}", type_name(schema), describe(node)));
        }
    }

    fn inside(&self, key: &str) -> String {
        if key.is_empty() { self.place.clone() } else { format!("`{key}` of {}", self.place) }
    }

    fn resolve(&self, schema: &'a Json) -> &'a Map<String, Json> {
        static NOTHING: std::sync::LazyLock<Map<String, Json>> = std::sync::LazyLock::new(Map::new);
        let Some(object) = schema.as_object() else { return &NOTHING };
        let name = object.get("$ref").and_then(Json::as_str).and_then(|r| r.strip_prefix("#/$defs/"));
        let target = name.and_then(|name| self.defs?.get(name)?.as_object());
        target.unwrap_or(object)
    }
}

/// The key under which a table holds a constant (`kind`), and that.
fn tag_of(schema: &Map<String, Json>) -> Option<(&str, &str)> {
    let properties = schema.get("properties")?.as_object()?;
    properties.iter().find_map(|(name, p)| Some((name.as_str(), p.get("const")?.as_str()?)))
}

fn types(schema: &Map<String, Json>) -> impl Iterator<Item = &str> {
    let (one, many) = match schema.get("type") {
        Some(Json::String(one)) => (Some(one.as_str()), None),
        Some(Json::Array(many)) => (None, Some(many)),
        _ => (None, None),
    };
    one.into_iter().chain(many.into_iter().flatten().filter_map(Json::as_str))
}

fn has_type(schema: &Map<String, Json>, name: &str) -> bool {
    types(schema).any(|t| t == name)
}

fn has_exactly(schema: &Map<String, Json>, name: &str) -> bool {
    types(schema).eq([name])
}

fn fits(schema: &Map<String, Json>, node: &Node) -> bool {
    if !schema.contains_key("type") {
        return true;
    }
    match &node.data {
        Data::Table(_) => has_type(schema, "object"),
        Data::Array(_) => has_type(schema, "array"),
        Data::Scalar(Value::String(_)) => has_type(schema, "string"),
        Data::Scalar(Value::Integer(_)) => has_type(schema, "integer") || has_type(schema, "number"),
        Data::Scalar(Value::Float(_)) => has_type(schema, "number"),
        Data::Scalar(Value::Boolean(_)) => has_type(schema, "boolean"),
        Data::Scalar(_) => false,
    }
}

/// The words that a schema allows, when it allows only some.
fn words_of(schema: &Map<String, Json>) -> Option<Vec<String>> {
    if let Some(word) = schema.get("const").and_then(Json::as_str) {
        return Some(vec![word.into()]);
    }
    let words = schema.get("enum")?.as_array()?;
    Some(words.iter().filter_map(Json::as_str).map(str::to_string).collect())
}

fn type_name(schema: &Map<String, Json>) -> &'static str {
    match types(schema).find(|t| *t != "null") {
        Some("object") => "a table",
        Some("array") => "a list",
        Some("string") => "text",
        Some("integer") => "a whole number",
        Some("number") => "a number",
        Some("boolean") => "true or false",
        _ => "something else",
    }
}

fn describe(node: &Node) -> &'static str {
    match &node.data {
        Data::Table(_) => "a table",
        Data::Array(_) => "a list",
        Data::Scalar(Value::String(_)) => "text",
        Data::Scalar(Value::Integer(_)) => "a whole number",
        Data::Scalar(Value::Float(_)) => "a number with a fraction",
        Data::Scalar(Value::Boolean(_)) => "true or false",
        Data::Scalar(_) => "a date",
    }
}
