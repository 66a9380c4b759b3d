//! `nandu ctl` and `nandu stop`: a running server, over its control socket.
//!
//! The words are those of the socket ([`nandu_live::ctl`]); here they become a line for it, and its answer a table for people.

use crate::args::{CtlArgs, CtlVerb, ScrubWord, StopArgs};
use crate::failure::Failure;
use crate::format::{bandwidth, count, size, time};
use crate::output;
use crate::table::Table;
use nandu_live::ctl::{Command, CtlError, Session};
use serde_json::Value;
use std::fmt::Write;
use std::io::IsTerminal;
use std::path::Path;
use std::time::Duration;

/// Longest name that is shown in full.
const NAME: usize = 16;

/// Sends one command, and prints the answer.
pub fn ctl(args: &CtlArgs) -> Result<(), Failure> {
    match &args.verb {
        CtlVerb::Status => print(&send(&args.socket, &Command::Status)?, args.json, status),
        CtlVerb::Metrics => {
            let answer = send(&args.socket, &Command::Metrics)?;
            match args.json {
                true => output::print_json(&answer),
                false => output::print_as_it_is(answer["metrics"].as_str().unwrap_or_default()),
            }
        }
        CtlVerb::Watch { every, times } => watch(args, Duration::from_nanos(every.0), *times),
        CtlVerb::Stop => end(&args.socket),
        verb => {
            let line = line(verb)?;
            let command: Command = line.parse().map_err(|error| Failure::input(format!("{error}")))?;
            print(&send(&args.socket, &command)?, args.json, said)
        }
    }
}

/// Ends a server and waits for that.
pub fn stop(args: &StopArgs) -> Result<(), Failure> {
    end(&args.socket)
}

fn failed(error: CtlError) -> Failure {
    match error {
        error @ CtlError::Connect { .. } => Failure::input(error.to_string()),
        error => Failure::failed(error.to_string()),
    }
}

fn send(socket: &Path, command: &Command) -> Result<Value, Failure> {
    nandu_live::ctl::send(socket, command).map_err(failed)
}

fn end(socket: &Path) -> Result<(), Failure> {
    nandu_live::ctl::stop(socket).map_err(failed)
}

/// A file as the server finds it, which may run in another directory.
fn from_here(file: &str) -> Result<String, Failure> {
    let file = std::path::absolute(file).map_err(|error| Failure::unreadable(Path::new(file), &error))?;
    Ok(file.display().to_string())
}

/// The command as the socket takes it.
fn line(verb: &CtlVerb) -> Result<String, Failure> {
    Ok(match verb {
        CtlVerb::Status | CtlVerb::Watch { .. } => "status".into(),
        CtlVerb::Metrics => "metrics".into(),
        CtlVerb::Stop => "stop".into(),
        CtlVerb::Fail { leg, force: false } => format!("fail {leg}"),
        CtlVerb::Fail { leg, force: true } => format!("fail {leg} --force"),
        CtlVerb::Add { leg, to } => match &to[..] {
            [] => format!("add {leg}"),
            [word, device, with, file] if word == "to" && with == "with" => {
                format!("add {leg} to {device} with {}", from_here(file)?)
            }
            _ => return Err(Failure::input("write `add LEG`, or `add LEG to DEVICE with FILE`")),
        },
        CtlVerb::Replace { leg, with } => match &with[..] {
            [] => format!("replace {leg}"),
            [word, file] if word == "with" => format!("replace {leg} with {}", from_here(file)?),
            _ => return Err(Failure::input("write `replace LEG`, or `replace LEG with FILE`")),
        },
        CtlVerb::Grow { device: None } => "grow".into(),
        CtlVerb::Grow { device: Some(device) } => format!("grow {device}"),
        CtlVerb::SetLeader { leg } => format!("set-leader {leg}"),
        CtlVerb::Scrub { device, what } => match what {
            None => format!("scrub {device}"),
            Some(ScrubWord::Repair) => format!("scrub {device} repair"),
            Some(ScrubWord::Check) => format!("scrub {device} check"),
            Some(ScrubWord::Stop) => format!("scrub {device} stop"),
        },
        CtlVerb::AcceptLoss { device } => format!("accept-loss {device}"),
        CtlVerb::Set { tenant, settings } => format!("set {tenant} {}", settings.join(" ")),
        CtlVerb::Tenant { words } => format!("tenant {}", words.join(" ")),
    })
}

fn print(answer: &Value, json: bool, text: fn(&Value) -> String) -> Result<(), Failure> {
    if json { output::print_json(answer) } else { output::print(&text(answer)) }
}

fn watch(args: &CtlArgs, every: Duration, times: Option<u64>) -> Result<(), Failure> {
    let mut session = Session::open(&args.socket).map_err(failed)?;
    let clears = std::io::stdout().is_terminal() && !args.json;
    let mut shown = 0;
    loop {
        let answer = session.send(&Command::Status).map_err(failed)?;
        if clears {
            output::print_as_it_is("\x1b[H\x1b[2J")?;
        } else if shown > 0 && !args.json {
            output::print("\n")?;
        }
        match args.json {
            true => output::print_as_it_is(&format!("{answer}\n"))?,
            false => output::print(&status(&answer))?,
        }
        shown += 1;
        if times.is_some_and(|times| shown >= times) {
            return Ok(());
        }
        std::thread::sleep(every);
    }
}

/// What became of a command: each field of the answer.
fn said(answer: &Value) -> String {
    let fields =
        answer.as_object().into_iter().flatten().filter(|(key, value)| *key != "ok" && !value.is_null());
    let parts: Vec<String> = fields.map(|(key, value)| format!("{key} {}", word(value))).collect();
    format!("{}\n", if parts.is_empty() { "done".into() } else { parts.join(", ") })
}

fn word(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), String::from)
}

/// A name that fits its column.
fn name(text: &str) -> String {
    match text.chars().count() > NAME {
        true => text.chars().take(NAME - 1).chain(['~']).collect(),
        false => text.into(),
    }
}

/// A count in at most eight characters.
fn short(n: u64) -> String {
    const UNITS: [(u64, &str); 4] =
        [(1_000_000, "M"), (1_000_000_000, "G"), (1_000_000_000_000, "T"), (1_000_000_000_000_000, "P")];
    if n < 1_000_000 {
        return count(n);
    }
    let fits = |(scale, _): &&(u64, &str)| n / scale < 10_000;
    let (scale, unit) = UNITS.iter().find(fits).unwrap_or(&UNITS[3]);
    format!("{} {unit}", count(n / scale))
}

/// The whole status, within [`WIDTH`](output::WIDTH) columns unless the name of an export is longer.
fn status(answer: &Value) -> String {
    let number = |value: &Value| value.as_u64().unwrap_or(0);
    let mut out = String::new();
    let draining = if answer["draining"] == true { "; it ends" } else { "" };
    let _ = writeln!(
        out,
        "{} of {} connections, {} requests in flight, {} of {} held for them{draining}",
        number(&answer["connections"]),
        number(&answer["connections_max"]),
        number(&answer["requests_in_flight"]),
        size(number(&answer["memory_used"])),
        size(number(&answer["memory_max"])),
    );
    let mut exports = Table::new(["<export", "size", "<access"]);
    for export in answer["exports"].as_array().into_iter().flatten() {
        let access = if export["read_only"] == true { "read only" } else { "read and write" };
        exports.row([word(&export["name"]), size(number(&export["bytes"])), access.into()]);
    }
    let mut devices =
        Table::new(["<device", "<kind", "<state", "reads", "writes", "read", "written", "failed", "mean"]);
    let mut left = String::new();
    for (device, of) in answer["devices"].as_object().into_iter().flatten() {
        let open = if of["open"] == true { "open" } else { "closed" };
        let state = of["health"].as_str().or(of["state"].as_str()).unwrap_or(open);
        let mean = of["latency_mean_ns"].as_u64().map_or_else(|| "-".into(), time);
        devices.row([
            name(device),
            word(&of["kind"]),
            state.into(),
            short(number(&of["requests"]["read"])),
            short(number(&of["requests"]["write"])),
            size(number(&of["bytes"]["read"])),
            size(number(&of["bytes"]["write"])),
            short(number(&of["failed"])),
            mean,
        ]);
        for work in of["maintenance"].as_array().into_iter().flatten() {
            left += &under_way(device, work);
        }
        for member in of["members"].as_array().into_iter().flatten().filter(|member| member["use"] != "used")
        {
            left += &absent(device, member, &answer["devices"]);
        }
    }
    let _ = write!(out, "\n{exports}\n{devices}");
    let spares: Vec<String> = answer["spares"].as_array().into_iter().flatten().map(word).collect();
    if !spares.is_empty() {
        let _ = write!(out, "\nspare: {}\n", spares.join(", "));
    }
    if !left.is_empty() {
        let _ = write!(out, "\n{left}");
    }
    out
}

/// What a device does beside serving: how far it is, how fast it goes, and when it ends.
fn under_way(device: &str, work: &Value) -> String {
    let number = |key: &str| work[key].as_u64();
    let (left, of) = (number("left_bytes").unwrap_or(0), number("of_bytes").unwrap_or(0).max(1));
    let percent = (of - left.min(of)) as f64 * 100.0 / of as f64;
    let speed =
        number("bytes_per_second").map_or_else(String::new, |speed| format!(", {}", bandwidth(speed)));
    let end = number("left_ns").map_or_else(String::new, |ns| format!(", {} to go", time(ns)));
    format!("{device}: {} {percent:.1} % done, {} left{speed}{end}\n", word(&work["work"]), size(left))
}

/// Who has left a device: when, why, and what takes it back.
fn absent(device: &str, member: &Value, devices: &Value) -> String {
    let leg = word(&member["name"]);
    let since = member["since"].as_str().map_or(String::new(), |since| format!(" since {since}"));
    let why = member["why"].as_str().map_or(String::new(), |why| format!(": {why}"));
    let errno = member["errno"].as_u64().map_or(String::new(), |errno| format!(" (errno {errno})"));
    let is_leg = devices[leg.as_str()]["state"].is_string();
    let remedy = match (member["use"] == "coming", is_leg) {
        (false, true) => format!("; when it is in order: `nandu ctl SOCKET add {leg}`"),
        _ => String::new(),
    };
    format!("{device}: {leg} is {}{since}{why}{errno}{remedy}\n", word(&member["use"]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::{WIDTH, wrapped};
    use serde_json::json;

    fn leg(state: &str) -> Value {
        json!({
            "kind": "file", "open": true, "state": state, "failed": 123_456_789_012_u64,
            "requests": { "read": 9_999_999_999_u64, "write": u64::MAX },
            "bytes": { "read": u64::MAX, "write": 1_234_567_890_123_u64 }, "latency_mean_ns": 123_456_789,
        })
    }

    #[test]
    fn a_status_fits_a_terminal_and_names_who_left() {
        let mut mirror = leg("");
        mirror["kind"] = json!("hetero-mirror");
        mirror["health"] = json!("degraded");
        mirror["members"] = json!([
            { "name": "a", "use": "used" },
            { "name": "b", "use": "out", "errno": 5, "since": "2026-11-23T01:05:02.250Z",
              "why": "a write failed: Input/output error (os error 5)" },
        ]);
        let answer = json!({
            "ok": true, "connections": 64, "connections_max": 64, "requests_in_flight": 16384,
            "memory_used": 1_023_456_789, "memory_max": 1 << 30, "draining": true,
            "exports": [{ "name": "data", "bytes": 10_u64 << 40, "read_only": true }],
            "devices": { "a": leg("active"), "b": leg("returning"), "the-mirror-of-the-house": mirror },
        });
        let text = status(&answer);
        let text = wrapped(&text);
        for line in text.lines() {
            assert!(line.chars().count() <= WIDTH, "{} columns: {line}", line.chars().count());
        }
        let joined = text.replace("\n    ", " ");
        assert!(
            joined
                .contains("the-mirror-of-the-house: b is out since 2026-11-23T01:05:02.250Z: a write failed")
        );
        assert!(joined.contains("(errno 5); when it is in order: `nandu ctl SOCKET add b`"), "{joined}");
        assert!(text.contains("the-mirror-of-t~") && !text.contains(": a is"), "{text}");
    }

    #[test]
    fn work_is_told_with_its_end_when_that_is_known() {
        let work = json!({ "work": "resync", "left_bytes": 3_u64 << 30, "of_bytes": 4_u64 << 30, "bytes_per_second": null, "left_ns": null });
        assert_eq!(under_way("m", &work), "m: resync 25.0 % done, 3 GiB left\n");
        let work = json!({ "work": "scrub", "left_bytes": 0, "of_bytes": 0, "bytes_per_second": 100_000_000, "left_ns": 90_000_000_000_u64 });
        assert_eq!(under_way("m", &work), "m: scrub 100.0 % done, 0 B left, 100 MB/s, 90.0 s to go\n");
    }

    #[test]
    fn verbs_are_the_words_of_the_socket() {
        let verbs = [
            CtlVerb::Stop,
            CtlVerb::Fail { leg: "a".into(), force: true },
            CtlVerb::Add { leg: "a".into(), to: Vec::new() },
            CtlVerb::Add { leg: "c".into(), to: ["to", "m", "with", "/c d.img"].map(String::from).to_vec() },
            CtlVerb::Replace { leg: "a".into(), with: vec!["with".into(), "/a b".into()] },
            CtlVerb::Grow { device: None },
            CtlVerb::Grow { device: Some("m".into()) },
            CtlVerb::SetLeader { leg: "a".into() },
            CtlVerb::Scrub { device: "m".into(), what: Some(ScrubWord::Repair) },
            CtlVerb::Set { tenant: "t".into(), settings: vec!["weight=3".into(), "rbps=max".into()] },
            CtlVerb::Tenant { words: ["add", "d", "size=4096"].map(String::from).to_vec() },
        ];
        for verb in verbs {
            let line = line(&verb).expect("a line");
            let command: Command = line.parse().unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(command.to_string(), line);
        }
        let wrong = CtlVerb::Replace { leg: "a".into(), with: vec!["by".into(), "f".into()] };
        assert!(line(&wrong).is_err());
    }

    #[test]
    fn answers_are_told_in_words() {
        assert_eq!(said(&json!({ "ok": true })), "done\n");
        assert_eq!(said(&json!({ "ok": true, "leg": "b", "state": "active" })), "leg b, state active\n");
    }
}
