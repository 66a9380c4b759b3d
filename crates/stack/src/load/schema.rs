//! The JSON schema of a whole stack file, made from the registry, so that editors complete and check it.

use super::changes::ChangeTable;
use super::policies;
use super::tables::{ExportTable, TenantTable, WorkloadTable};
use nandu_base::Registry;
use serde_json::{Map, Value as Json, json};

/// The schema (draft 2020-12) of stack files that may use the kinds of `registry`. Each kind is one branch of the
/// device table, told apart by `kind`.
pub fn schema(registry: &Registry) -> Json {
    let mut defs = Map::new();
    let kinds: Vec<Json> = registry
        .kinds()
        .iter()
        .map(|kind| {
            let mut branch = part(policies::schema_of(kind, registry), &format!("{}.", kind.name), &mut defs);
            let text = branch.get("description").and_then(Json::as_str).unwrap_or_default();
            branch["description"] = json!(format!("{}. {text}", kind.summary).trim_end());
            branch["title"] = json!(kind.name);
            branch["type"] = json!("object");
            if !branch["properties"].is_object() {
                branch["properties"] = json!({});
            }
            branch["properties"]["kind"] = json!({ "const": kind.name });
            branch["properties"]["description"] =
                json!({ "type": "string", "description": "What it is for." });
            let mut required = vec![json!("kind")];
            required.extend(branch.get("required").and_then(Json::as_array).into_iter().flatten().cloned());
            branch["required"] = Json::Array(required);
            branch["additionalProperties"] = json!(false);
            branch
        })
        .collect();
    let mut table = |schema: schemars::Schema, summary: &str| {
        let schema = part(schema.to_value(), "", &mut defs);
        json!({ "type": "object", "description": summary, "additionalProperties": schema })
    };
    let export = table(schemars::schema_for!(ExportTable), "Ways into the stack, by name.");
    let tenant = table(schemars::schema_for!(TenantTable), "Tenants, by name.");
    let workload = table(schemars::schema_for!(WorkloadTable), "Workloads, by name.");
    let change =
        table(schemars::schema_for!(ChangeTable), "What changes about tenants while workloads run, by name.");
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Nandu stack file",
        "type": "object",
        "properties": {
            "description": { "type": "string", "description": "What the stack is for." },
            "device": {
                "type": "object",
                "description": "Devices, by name.",
                "additionalProperties": { "oneOf": kinds }
            },
            "export": export,
            "tenant": tenant,
            "workload": workload,
            "change": change
        },
        "required": ["device", "export"],
        "additionalProperties": false,
        "$defs": defs
    })
}

/// Takes the definitions out of a schema into the common ones, under `prefix` unless every kind means the same by them.
fn part(mut schema: Json, prefix: &str, defs: &mut Map<String, Json>) -> Json {
    let own = schema.as_object_mut().and_then(|s| s.remove("$defs")).unwrap_or_default();
    if let Some(s) = schema.as_object_mut() {
        s.remove("$schema");
    }
    rename(&mut schema, prefix);
    for (name, mut target) in own.as_object().cloned().unwrap_or_default() {
        rename(&mut target, prefix);
        defs.insert(renamed(&name, prefix), target);
    }
    schema
}

fn renamed(name: &str, prefix: &str) -> String {
    match name {
        "Size" | "Time" | "Share" => name.into(),
        other => format!("{prefix}{other}"),
    }
}

fn rename(schema: &mut Json, prefix: &str) {
    match schema {
        Json::Object(object) => {
            for (key, value) in object {
                match value {
                    Json::String(target) if key == "$ref" => {
                        if let Some(name) = target.strip_prefix("#/$defs/") {
                            *target = format!("#/$defs/{}", renamed(name, prefix));
                        }
                    }
                    other => rename(other, prefix),
                }
            }
        }
        Json::Array(items) => items.iter_mut().for_each(|item| rename(item, prefix)),
        _ => {}
    }
}
