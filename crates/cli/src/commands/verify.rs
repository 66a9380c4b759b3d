//! `nandu verify`: the verified simulation, many seeds.

use crate::args::VerifyArgs;
use crate::failure::Failure;
use crate::format::{count, plural, time};
use crate::open;
use crate::output;
use crate::table::Table;
use crate::talk::Talk;
use nandu_base::registry::nearest;
use nandu_sim::verify::{self, Family, Shape, VerifyError, VerifyOptions, VerifyReport};
use serde_json::json;

/// With a planted fault one seed in this many is run twice and compared.
const REPEAT_PLANTED: u64 = 4;

/// Runs the seeds. Without a planted fault a failing seed fails the command; with one, finding nothing does.
pub fn verify(args: &VerifyArgs, talk: Talk) -> Result<(), Failure> {
    if args.log && args.seeds != 1 {
        return Err(Failure::input("--log goes with one seed: --first-seed N --seeds 1"));
    }
    let around = match args.plant.as_deref() {
        Some("all") => return every_plant(args, talk),
        Some(plant) => Some(where_shown(plant)?),
        None => None,
    };
    let shape = shape(args.stack.as_deref(), around)?;
    let (shape, divided_by) = if args.full_size { (shape, None) } else { shape.shrunk(crate::registry()) };
    if let Some(by) = divided_by {
        talk.note(format!("sizes and blocks of the stack are divided by {by}; --full-size leaves them"));
    }
    let options = VerifyOptions {
        shape,
        stack_name: args
            .stack
            .clone()
            .map(|name| if args.full_size { format!("{name} --full-size") } else { name }),
        first_seed: args.first_seed,
        seeds: args.seeds,
        crash: args.crash,
        acknowledged: args.acknowledged,
        plant: args.plant.clone(),
        failures_max: match (&args.plant, args.acknowledged) {
            (Some(_), _) => 1,
            (None, true) => 0,
            (None, false) => 10,
        },
        log: args.log,
        threads: args.jobs.unwrap_or(0),
        registry: crate::registry().clone(),
        ..VerifyOptions::default()
    };
    let options = match args.plant {
        Some(_) => VerifyOptions { repeat_one_in: REPEAT_PLANTED, ..options },
        None => options,
    };
    let bar = talk.bar(args.seeds, "seeds");
    let report = verify::verify(&options, |_| {
        bar.add(1);
    });
    bar.clear();
    let report = report.map_err(|VerifyError::Stack(error)| Failure::from(error))?;
    if args.json {
        output::print_json(&as_json(args, &report, divided_by))?;
    } else {
        output::print(&as_text(args, &report))?;
    }
    match (&args.plant, report.failures.len()) {
        (None, 0) => Ok(()),
        (None, n) => Err(Failure::failed(format!("{} of {} failed", n, plural(report.seeds, "seed")))),
        (Some(plant), 0) => Err(Failure::failed(format!("the planted fault {plant} was not found"))
            .with_help("give more seeds, --crash, or a stack that has such a machine")),
        (Some(_), _) => Ok(()),
    }
}

/// Plants each fault in turn and says what found it; one that is not found fails the command.
fn every_plant(args: &VerifyArgs, talk: Talk) -> Result<(), Failure> {
    let registry = crate::registry();
    let mut table = Table::new(["<planted fault", "<breaks", "<found by", "at seed"]);
    let (mut rows, mut missed) = (Vec::new(), Vec::new());
    let bar = talk.bar(registry.plants().count() as u64, "planted faults");
    for kind in registry.kinds() {
        for plant in kind.plants {
            let options = VerifyOptions {
                shape: shape(args.stack.as_deref(), Some(plant.family.unwrap_or(kind.name)))?
                    .shrunk(crate::registry())
                    .0,
                plant: Some(plant.name.into()),
                first_seed: args.first_seed,
                seeds: args.seeds,
                crash: args.crash,
                failures_max: 1,
                repeat_one_in: REPEAT_PLANTED,
                threads: args.jobs.unwrap_or(0),
                registry: crate::registry().clone(),
                ..VerifyOptions::default()
            };
            let report =
                verify::verify(&options, |_| ()).map_err(|VerifyError::Stack(error)| Failure::from(error))?;
            bar.add(1);
            let found = report.failures.first();
            let by = found.map_or("nothing", |f| f.violation.invariant);
            let seed = found.map_or_else(String::new, |f| count(f.seed));
            table.row([plant.name.to_string(), plant.breaks.into(), by.into(), seed]);
            rows.push(json!({
                "fault": plant.name, "breaks": plant.breaks, "seed": found.map(|f| f.seed),
                "invariant": found.map(|f| f.violation.invariant), "what": found.map(|f| &f.violation.what),
            }));
            if found.is_none() {
                missed.push(plant.name);
            }
        }
    }
    bar.clear();
    if args.json {
        output::print_json(
            &json!({ "schema": 1, "seeds": args.seeds, "crash": args.crash, "plants": rows }),
        )?;
    } else {
        output::print(&table.to_string())?;
    }
    match missed.len() {
        0 => Ok(()),
        n => Err(Failure::failed(format!(
            "{} not found within {}: {}",
            plural(n as u64, "planted fault"),
            plural(args.seeds, "seed"),
            missed.join(", ")
        ))
        .with_help("give more seeds, or --crash")),
    }
}

/// The family of stacks, or the machine kind, in which this fault shows.
fn where_shown(plant: &str) -> Result<&'static str, Failure> {
    let registry = crate::registry();
    for kind in registry.kinds() {
        if let Some(plant) = kind.plants.iter().find(|p| p.name == plant) {
            return Ok(plant.family.unwrap_or(kind.name));
        }
    }
    let near = nearest(plant, registry.plants().map(|p| p.name));
    let hint = near.map_or_else(String::new, |n| format!("; did you mean `{n}`?"));
    Err(Failure::input(format!("--plant {plant}: there is no such fault{hint}"))
        .with_help("`nandu list plants` shows them"))
}

/// A family of random stacks, or one stack; without a name any stack, or one around a machine of this kind.
fn shape(name: Option<&str>, around: Option<&str>) -> Result<Shape, Failure> {
    let Some(name) = name else { return Ok(around.map_or(Shape::Random, Shape::around)) };
    if let Some(shape) = Shape::named(name) {
        return Ok(shape);
    }
    match open::text(name) {
        Ok((text, shown)) => {
            // Checked under its own name, so that a mistake is found with its place.
            nandu_stack::StackFile::parse(&text, &shown)?.load(crate::registry())?;
            Ok(Shape::File(text))
        }
        Err(failure) => {
            let families: Vec<&str> = Family::ALL.iter().map(|f| f.0).collect();
            Err(failure.with_help(format!("families of random stacks: {}", families.join(", "))))
        }
    }
}

fn as_text(args: &VerifyArgs, report: &VerifyReport) -> String {
    let mut out = String::new();
    for failure in &report.failures {
        out.push_str(&format!(
            "seed {}: {}, at event {}\n  again: {}\n",
            failure.seed,
            failure.violation,
            count(failure.event),
            failure.command
        ));
    }
    let found = match (&args.plant, report.failures.len()) {
        (Some(plant), n) if n > 0 => format!("the planted fault {plant} was found"),
        (_, 0) => "nothing wrong was found".into(),
        (_, n) => plural(n as u64, "failure"),
    };
    let from_checkpoint = match report.from_checkpoint + report.fell_back {
        0 => String::new(),
        _ => format!(
            "; {} from a checkpoint, {} where it was not enough",
            count(report.from_checkpoint),
            count(report.fell_back)
        ),
    };
    out.push_str(&format!(
        "{}: {}, {}, {}, {} (the longest {}{from_checkpoint}), digest {:016x}; {found}\n",
        plural(report.seeds, "seed"),
        plural(report.requests, "request"),
        plural(report.events, "event"),
        plural(report.crashes, "power cut"),
        plural(report.recoveries, "start"),
        time(report.start_longest.0),
        report.digest
    ));
    out
}

fn as_json(args: &VerifyArgs, report: &VerifyReport, divided_by: Option<u64>) -> serde_json::Value {
    let failures: Vec<serde_json::Value> = report
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
        "schema": 1,
        "seeds": report.seeds,
        "first_seed": args.first_seed,
        "crash": args.crash,
        "plant": args.plant,
        "sizes_divided_by": divided_by.unwrap_or(1),
        "requests": report.requests,
        "events": report.events,
        "power_cuts": report.crashes,
        "starts": report.recoveries,
        "start_longest_ns": report.start_longest.0,
        "starts_from_checkpoint": report.from_checkpoint,
        "starts_fallen_back": report.fell_back,
        "mirrors_compared": report.mirrors_compared,
        "digest": format!("{:016x}", report.digest),
        "failures": failures,
    })
}
