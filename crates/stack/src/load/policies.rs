//! Puts the policies of a registry into the schema of a machine's options.
//!
//! An option that is open to policies is a mark in that schema, with the name of the family. Here it becomes what the family has in the
//! registry at hand: tables that `kind` tells apart, or the names of those that have defaults; words; or further keys of the table that names the policy.

use nandu_base::policy::{POLICIES, POLICIES_BESIDE, POLICY_NAMES};
use nandu_base::registry::Kind;
use nandu_base::{Policy, Registry};
use serde_json::{Map, Value as Json, json};

/// The schema of the options of `kind`, with the policies of `registry`.
pub(super) fn schema_of(kind: &Kind, registry: &Registry) -> Json {
    let mut schema = (kind.schema)().to_value();
    let mut defs = Map::new();
    fill(&mut schema, registry, &mut defs);
    if !defs.is_empty() {
        let own = schema.as_object_mut().expect("options are a table").entry("$defs").or_insert(json!({}));
        for (name, definition) in defs {
            own.as_object_mut().expect("definitions are a table").entry(name).or_insert(definition);
        }
    }
    schema
}

fn fill(schema: &mut Json, registry: &Registry, defs: &mut Map<String, Json>) {
    match schema {
        Json::Object(object) => {
            for value in object.values_mut() {
                fill(value, registry, defs);
            }
            if let Some(family) = taken(object, POLICIES) {
                let tables = registry.policies(&family).map(|policy| branch(policy, defs));
                let mut shapes: Vec<Json> = tables.collect();
                // One with its defaults may be called by its name alone.
                let has_defaults =
                    |table: &Json| table["required"].as_array().is_some_and(|keys| keys.len() == 1);
                let words = registry.policies(&family).zip(&shapes).filter(|(_, table)| has_defaults(table));
                let words: Vec<Json> = words.map(|(policy, _)| word(policy)).collect();
                shapes.extend(words);
                object.insert("oneOf".into(), Json::Array(shapes));
            }
            if let Some(family) = taken(object, POLICY_NAMES) {
                object.insert("oneOf".into(), registry.policies(&family).map(word).collect());
            }
            if let Some(family) = taken(object, POLICIES_BESIDE) {
                for policy in registry.policies(&family) {
                    let mut options = branch(policy, defs);
                    let Some(theirs) = options["properties"].as_object_mut() else { continue };
                    theirs.remove("kind");
                    let own = object.entry("properties").or_insert(json!({}));
                    own.as_object_mut().expect("properties are a table").append(theirs);
                }
            }
        }
        Json::Array(items) => items.iter_mut().for_each(|item| fill(item, registry, defs)),
        _ => {}
    }
}

fn taken(object: &mut Map<String, Json>, mark: &str) -> Option<String> {
    object.remove(mark)?.as_str().map(str::to_string)
}

/// The name of `policy`.
fn word(policy: &Policy) -> Json {
    json!({ "const": policy.name, "description": policy.summary, "type": "string" })
}

/// The table that names `policy` and gives its options.
fn branch(policy: &Policy, defs: &mut Map<String, Json>) -> Json {
    let mut schema = (policy.schema)().to_value();
    let object = schema.as_object_mut().expect("options are a table");
    if let Some(Json::Object(own)) = object.remove("$defs") {
        defs.extend(own);
    }
    for key in ["$schema", "title"] {
        object.remove(key);
    }
    object.insert("description".into(), policy.summary.into());
    object.insert("type".into(), "object".into());
    object.insert("additionalProperties".into(), false.into());
    let properties = object.entry("properties").or_insert(json!({}));
    properties["kind"] = json!({ "const": policy.name, "type": "string" });
    let mut required = vec![json!("kind")];
    required.extend(object.get("required").and_then(Json::as_array).into_iter().flatten().cloned());
    object.insert("required".into(), Json::Array(required));
    schema
}
