//! Where requests come from: a trace file, or a generator with its parameters.

use crate::console::Console;
use crate::failure::Failure;
use crate::numbers::count;
use nandu_base::registry::nearest;
use nandu_base::units::parse_ratio;
use nandu_base::{BadLines, ByteLen, Ratio, Registry};
use nandu_sim::replay::Go;
use nandu_trace::cache::Cache;
use nandu_trace::fio_job::{self, FioJob};
use nandu_trace::load::load_requests;
use nandu_trace::requests::{Again, HELD_MOST, Remade, Streamed};
use nandu_trace::synth::{self, Synth};
use nandu_trace::{Columns, LoadOptions, Meta, Record, Requests, Trace, formats, spool};
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

/// `--gen KEY=VALUE`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GenSetting {
    /// The parameter.
    pub key: String,
    /// Its value: a number, or text with a unit.
    pub value: Value,
}

impl FromStr for GenSetting {
    type Err = String;

    fn from_str(text: &str) -> Result<GenSetting, String> {
        match text.split_once('=') {
            Some((key, value)) if !key.trim().is_empty() && !value.trim().is_empty() => {
                let value = value.trim();
                let value = match value {
                    "true" | "false" => Value::from(value == "true"),
                    _ => count(value).map_or_else(|_| Value::from(value), Value::from),
                };
                Ok(GenSetting { key: key.trim().into(), value })
            }
            _ => Err("write KEY=VALUE, for example requests=100000 or space=2GiB".into()),
        }
    }
}

/// `--warmup N|%`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WarmUp {
    /// So many requests.
    Requests(u64),
    /// This share of all requests.
    Share(Ratio),
}

impl FromStr for WarmUp {
    type Err = String;

    fn from_str(text: &str) -> Result<WarmUp, String> {
        if let Ok(n) = count(text) {
            return Ok(WarmUp::Requests(n));
        }
        match parse_ratio(text) {
            Ok(share) if text.contains('%') && share.num < share.den => Ok(WarmUp::Share(share)),
            Ok(share) if share.num >= share.den => Err("nothing would be left to measure".into()),
            _ => Err("write a number of requests, or a share such as 10%".into()),
        }
    }
}

impl WarmUp {
    /// Requests of `total`.
    pub fn requests(self, total: u64) -> u64 {
        match self {
            WarmUp::Requests(n) => n,
            WarmUp::Share(share) => share.of(total),
        }
    }
}

/// What to read.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// A file, or the name of a generator.
    pub name: String,
    /// Parameters of the generator.
    pub settings: Vec<GenSetting>,
    /// Read only so many requests.
    pub limit: Option<u64>,
    /// Format of the file.
    pub format: Option<String>,
    /// What its columns are.
    pub columns: Option<Columns>,
    /// What to do with wrong lines.
    pub bad_lines: BadLines,
    /// Seed of the generator.
    pub seed: u64,
    /// A generator whose space was not set keeps within this.
    pub room: Option<ByteLen>,
}

/// The generator of this name. A file of the same name is meant by `./name`.
pub fn generator(name: &str, registry: &Registry) -> Option<&'static Synth> {
    synth::among(synth::of(registry), name).ok()
}

/// Reads a file or makes the requests of a generator; a long load is streamed.
pub fn requests(wanted: &Wanted, registry: &Registry, console: Console) -> Result<Requests, Failure> {
    if let Some(synth) = generator(&wanted.name, registry) {
        return generated(synth, wanted, console);
    }
    let name = if wanted.name == STDIN { "standard input" } else { &wanted.name };
    let waiting = console.waiting(format!("reading {name}"));
    let requests = read_file(wanted, registry, console)?;
    drop(waiting);
    remarks(requests.meta(), console);
    Ok(requests)
}

/// The requests of the generator `synth` for a replay.
pub fn generated(synth: &'static Synth, wanted: &Wanted, console: Console) -> Result<Requests, Failure> {
    let requests = generate(synth, wanted, console)?;
    remarks(requests.meta(), console);
    Ok(requests)
}

/// The name of standard input.
const STDIN: &str = "-";

fn read_file(wanted: &Wanted, registry: &Registry, console: Console) -> Result<Requests, Failure> {
    let path = Path::new(&wanted.name);
    let stdin = wanted.name == STDIN;
    if !stdin && !path.exists() {
        return Err(missing(&wanted.name, registry));
    }
    if path.is_dir() {
        return Err(Failure::input(format!("{}: is a directory; name a trace file in it", wanted.name)));
    }
    if let Some(job) = fio_job(path, wanted)? {
        return requests_of(&job, wanted, console);
    }
    if let Some(setting) = wanted.settings.first() {
        let message = format!("--gen {}: `{}` is a file and not a generator", setting.key, wanted.name);
        return Err(Failure::input(message).with_help("`nandu list generators` shows the generators"));
    }
    let formats = formats::of(registry);
    let format = wanted.format.as_deref().map(|name| formats::among(&formats, name)).transpose()?;
    let columns = wanted.columns.clone();
    let Wanted { limit, bad_lines, .. } = *wanted;
    let options = LoadOptions { formats, format, columns, bad_lines, limit, ..LoadOptions::default() };
    let loaded = match cache() {
        _ if stdin => spool::load_stdin(&options, HELD_MOST),
        Some(cache) => cache.load_requests(path, &options, HELD_MOST),
        None => load_requests(path, &options, HELD_MOST),
    };
    loaded.map_err(|error| {
        let help = match &error {
            nandu_trace::TraceError::Line(_) => "`--bad-lines skip` leaves such lines out and counts them",
            nandu_trace::TraceError::UnknownFormat { .. } => {
                "`--trace-format` names the format, `nandu list formats` shows them; --columns describes any other, for \
                 example --columns time:us,op,offset:sectors,size"
            }
            _ => return error.into(),
        };
        Failure::from(error).with_help(help)
    })
}

/// The fio job in file `path`, when it is one and no format is asked for.
fn fio_job(path: &Path, wanted: &Wanted) -> Result<Option<FioJob>, Failure> {
    let unreadable =
        |error| Failure::from(nandu_trace::TraceError::Io { source_name: path.display().to_string(), error });
    let plain = path.is_file() && wanted.format.is_none() && wanted.columns.is_none();
    if !plain || std::fs::metadata(path).is_ok_and(|file| file.len() > fio_job::FILE_MOST) {
        return Ok(None);
    }
    let bytes = std::fs::read(path).map_err(unreadable)?;
    match std::str::from_utf8(&bytes) {
        Ok(text) if fio_job::is_job(&bytes) => Ok(Some(FioJob::parse(text, &path.display().to_string())?)),
        _ => Ok(None),
    }
}

/// The requests of a job, on the device where there is one.
fn requests_of(job: &FioJob, wanted: &Wanted, console: Console) -> Result<Requests, Failure> {
    if let Some(setting) = wanted.settings.first() {
        let message =
            format!("--gen {}: `{}` is a fio job, whose keys stand in it", setting.key, wanted.name);
        return Err(Failure::input(message));
    }
    let limit = wanted.limit.unwrap_or(u64::MAX);
    let mut requests = job.requests(wanted.room.map(|room| room.0), wanted.seed)?;
    let all = requests.clone();
    let records: Vec<Record> = requests.by_ref().take(limit.min(HELD_MOST) as usize).collect();
    let is_more = limit > HELD_MOST && requests.next().is_some();
    let (names, meta) = (vec![job.name().into()], job.meta(wanted.seed));
    if is_more {
        return Ok(streamed(Remade(all), limit, names, meta, console));
    }
    if records.is_empty() {
        return Err(Failure::input(format!("{}: the job asks for nothing", wanted.name)));
    }
    let trace = Trace::from_records(records, names, meta);
    trace.map(Requests::from).map_err(|e| Failure::failed(format!("{}: {e}", wanted.name)))
}

/// The first `most` requests of `source`, read again whenever they are wanted.
fn streamed<S: Again + 'static>(
    source: S,
    most: u64,
    names: Vec<String>,
    meta: Meta,
    console: Console,
) -> Requests {
    let bar = console.bar(most, "requests looked at");
    let mut shown = 0;
    let seen = |n| {
        if n - shown >= STRETCH {
            bar.add(n - shown);
            shown = n;
        }
    };
    let streamed = Streamed::survey(Arc::new(source), most, names, meta, seen);
    bar.clear();
    Requests::Streamed(Arc::new(streamed))
}

/// Decoded traces take at most this on disk.
const CACHE_MOST: u64 = 2 << 30;

/// Where decoded traces are kept: `$NANDU_CACHE` (`off` for nowhere), else `nandu/traces` in the user's folder for caches.
fn cache() -> Option<Cache> {
    let folder = match std::env::var_os("NANDU_CACHE") {
        Some(off) if off == "off" || off.is_empty() => return None,
        Some(folder) => PathBuf::from(folder),
        None => {
            let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|p| p.is_absolute());
            absolute("XDG_CACHE_HOME")
                .or_else(|| Some(absolute("HOME")?.join(".cache")))?
                .join("nandu/traces")
        }
    };
    Some(Cache::new(folder, CACHE_MOST))
}

/// There is nothing of this name: says what is near.
fn missing(name: &str, registry: &Registry) -> Failure {
    let generator =
        nearest(name, synth::of(registry).map(|s| s.name)).map(|g| format!("the generator `{g}`"));
    let near = generator.or_else(|| nearest_file(Path::new(name), &[]).map(|file| format!("`{file}`")));
    let hint = near.map_or_else(String::new, |n| format!("; did you mean {n}?"));
    Failure::input(format!("`{name}` is neither a trace file nor a generator{hint}"))
        .with_help("`nandu list generators` shows the generators, `nandu list formats` the formats of files")
}

/// The file beside `path` whose name is nearest, of these extensions if any are given.
pub fn nearest_file(path: &Path, extensions: &[&str]) -> Option<String> {
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty());
    let entries = std::fs::read_dir(folder.unwrap_or(Path::new("."))).ok()?;
    let mut names: Vec<String> = entries
        .filter_map(|e| e.ok().filter(|e| e.path().is_file())?.file_name().into_string().ok())
        .filter(|name| extensions.is_empty() || extensions.iter().any(|e| name.ends_with(&format!(".{e}"))))
        .collect();
    names.sort();
    let near = nearest(path.file_name()?.to_str()?, names.iter().map(String::as_str))?;
    Some(folder.map_or_else(|| near.to_string(), |f| f.join(near).display().to_string()))
}

fn generate(synth: &'static Synth, wanted: &Wanted, console: Console) -> Result<Requests, Failure> {
    if let Some(format) = &wanted.format {
        let message = format!("--trace-format {format}: `{}` is a generator and not a file", synth.name);
        return Err(Failure::input(message).with_help(format!("a file of that name is `./{}`", synth.name)));
    }
    if let Some(columns) = &wanted.columns {
        return Err(Failure::input(format!(
            "--columns {columns}: `{}` is a generator and not a file",
            synth.name
        )));
    }
    let defaults = synth.defaults();
    let mut params = Map::new();
    for GenSetting { key, value } in &wanted.settings {
        check_key(synth, &defaults, key)?;
        params.insert(key.clone(), value.clone());
    }
    keep_within(&defaults, &mut params, wanted.room, synth, console);
    let generator = synth.generator(&Value::Object(params.clone()), wanted.seed)?;
    let mut meta = generator.meta();
    if !params.is_empty() {
        let settings: Vec<String> = params.iter().map(|(k, v)| format!("{k}={}", plain(v))).collect();
        meta.source = format!("{} ({}), seed {}", synth.name, settings.join(", "), wanted.seed);
    }
    let asked = params.get("requests").or(defaults.get("requests")).and_then(Value::as_u64);
    let makes = generator.size_hint().1.map_or(u64::MAX, |n| n as u64);
    let requests = asked.unwrap_or(u64::MAX).min(makes).min(wanted.limit.unwrap_or(u64::MAX));
    let names = vec![synth.name.into()];
    if requests > HELD_MOST {
        return Ok(streamed(Remade(generator), requests, names, meta, console));
    }
    let bar = console.bar(requests, "requests made");
    let limit = usize::try_from(requests).unwrap_or(usize::MAX);
    let goes_on = |i: usize| i as u64 % STRETCH != STRETCH - 1 || bar.add(STRETCH) == Go::On;
    let records: Vec<Record> =
        generator.take(limit).enumerate().take_while(|(i, _)| goes_on(*i)).map(|(_, r)| r).collect();
    bar.clear();
    if bar.is_over() {
        return Err(nandu_sim::RunError::Stopped.into());
    }
    if records.is_empty() {
        return Err(Failure::input(format!("generator {}: requests must be at least 1", synth.name)));
    }
    let trace = Trace::from_records(records, names, meta);
    trace.map(Requests::from).map_err(|e| Failure::failed(format!("generator {}: {e}", synth.name)))
}

/// Requests between two looks at the clock.
pub const STRETCH: u64 = 1 << 16;

/// A value as it is typed.
pub fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_string)
}

fn check_key(synth: &Synth, defaults: &Map<String, Value>, key: &str) -> Result<(), Failure> {
    let known: Vec<&str> = defaults.keys().map(String::as_str).collect();
    if known.contains(&key) {
        return Ok(());
    }
    let hint =
        nearest(key, known.iter().copied()).map_or_else(String::new, |n| format!("; did you mean `{n}`?"));
    Err(Failure::input(format!(
        "generator {} has no parameter `{key}`{hint}\n  its parameters are {}",
        synth.name,
        known.join(", ")
    )))
}

/// A generator has no device of its own: unless told otherwise it keeps within the device it is replayed on.
fn keep_within(
    defaults: &Map<String, Value>,
    params: &mut Map<String, Value>,
    room: Option<ByteLen>,
    synth: &Synth,
    console: Console,
) {
    /// Every generator takes a space that is a multiple of this.
    const STEP: u64 = 64 << 10;
    let bytes = |key: &str| defaults.get(key).and_then(Value::as_u64);
    let (Some(room), Some(space)) = (room, bytes("space")) else { return };
    let room = room.0 - room.0 % STEP;
    if params.contains_key("space") || space <= room || room == 0 {
        return;
    }
    params.insert("space".into(), typed(room).into());
    if bytes("hot").is_some_and(|hot| hot > room) && !params.contains_key("hot") {
        params.insert("hot".into(), typed(room).into());
    }
    console.note(format!(
        "{} keeps within the {} of the device (its own space is {}); --gen space=SIZE sets it",
        synth.name,
        crate::format::size(room),
        crate::format::size(space)
    ));
}

/// The parameters of the generator `name` that `settings` leave to the `room` of the device: on a larger one they give the same requests.
pub fn kept_within(
    name: &str,
    settings: &[GenSetting],
    room: ByteLen,
    registry: &Registry,
) -> Vec<GenSetting> {
    let Some(synth) = generator(name, registry) else { return Vec::new() };
    let mut params: Map<String, Value> = settings.iter().map(|s| (s.key.clone(), s.value.clone())).collect();
    let given = params.clone();
    keep_within(&synth.defaults(), &mut params, Some(room), synth, Console::SILENT);
    let new = params.into_iter().filter(|(key, _)| !given.contains_key(key));
    new.map(|(key, value)| GenSetting { key, value }).collect()
}

/// A size as one word of a command line: `1GiB`.
fn typed(bytes: u64) -> String {
    ByteLen(bytes).exact().replace(' ', "")
}

/// Says what reading changed or guessed.
pub fn remarks(meta: &Meta, console: Console) {
    for (text, serious) in meta.remarks() {
        let text = format!("{}: {text}", meta.source);
        if serious {
            console.warning(text);
        } else {
            console.note(text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_is_a_number_a_switch_or_a_word() {
        let value = |text: &str| text.parse::<GenSetting>().map(|setting| setting.value);
        assert_eq!(value("steps=50"), Ok(Value::from(50)));
        assert_eq!(value("size_by_stream=true"), Ok(Value::from(true)));
        assert_eq!(value("size_by_stream = false"), Ok(Value::from(false)));
        assert_eq!(value("space=8 GiB"), Ok(Value::from("8 GiB")));
        assert!(value("space=").is_err() && value("=1").is_err());
    }
}
