//! What the verified simulation is asked, by name, and the record of what it found.

use crate::{Failure, open};
use nandu_base::Registry;
use nandu_base::registry::nearest;
use nandu_sim::verify::{Family, Shape, VerifyOptions, VerifyReport};
use nandu_stack::StackFile;
use serde_json::{Value, json};

/// The family of stacks, or the machine kind, in which the planted fault `plant` shows.
///
/// # Errors
/// There is no such fault.
pub fn where_shown(plant: &str, registry: &Registry) -> Result<&'static str, Failure> {
    for kind in registry.kinds() {
        if let Some(plant) = kind.plants.iter().find(|p| p.name == plant) {
            return Ok(plant.family.unwrap_or(kind.name));
        }
    }
    let near = nearest(plant, registry.plants().map(|p| p.name));
    let hint = near.map_or_else(String::new, |n| format!("; did you mean `{n}`?"));
    Err(Failure::input(format!("--inject-bug {plant}: unknown bug{hint}"))
        .with_help("`nandu list bugs` shows them"))
}

/// A family of random stacks, or one stack; without a name any stack, or one around a machine of the kind `around`.
///
/// # Errors
/// There is no family and no stack of this name, or the stack is wrong.
pub fn shape(name: Option<&str>, around: Option<&str>, registry: &Registry) -> Result<Shape, Failure> {
    let Some(name) = name else { return Ok(around.map_or(Shape::Random, Shape::around)) };
    if let Some(shape) = Shape::named(name) {
        return Ok(shape);
    }
    match open::text(name) {
        Ok((text, shown)) => {
            // Checked under its own name, so that a mistake is found with its place.
            let file = StackFile::parse(&text, &shown)?;
            let lacks_sizes = !file.leaves_without_size().is_empty();
            let file = open::with_sets(file, &[])?;
            file.load(registry)?;
            Ok(Shape::File(if lacks_sizes { file.to_text() } else { text }))
        }
        Err(failure) => {
            let families: Vec<&str> = Family::ALL.iter().map(|f| f.0).collect();
            Err(failure.with_help(format!("families of random stacks: {}", families.join(", "))))
        }
    }
}

/// What was found, as data. Sizes of the stack were divided by `divided_by`.
pub fn record(options: &VerifyOptions, report: &VerifyReport, divided_by: Option<u64>) -> Value {
    let failures: Vec<Value> = report
        .failures
        .iter()
        .map(|f| {
            json!({
                "seed": f.seed, "invariant": f.violation.invariant, "what": f.violation.what, "event": f.event,
                "stack": f.stack, "command": f.command,
            })
        })
        .collect();
    json!({
        "schema": nandu_sim::result::SCHEMA,
        "seeds": report.seeds,
        "first_seed": options.first_seed,
        "crash": options.crash,
        "injected_bug": options.plant,
        "sizes_divided_by": divided_by.unwrap_or(1),
        "requests": report.requests,
        "events": report.events,
        "power_cuts": report.crashes,
        "power_cuts_beside": report.peeks,
        "starts": report.recoveries,
        "start_longest_ns": report.start_longest.0,
        "starts_from_checkpoint": report.from_checkpoint,
        "starts_fallen_back": report.fell_back,
        "mirrors_compared": report.mirrors_compared,
        "digest": format!("{:016x}", report.digest),
        "failures": failures,
    })
}
