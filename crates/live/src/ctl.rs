//! The control socket: administer a running server in mdadm's words.
//!
//! One command a line, one JSON object a line back. `ok` says whether it was done, `error` why not.
//!
//! | command | effect | answer |
//! |---|---|---|
//! | `status` | none | stack, devices, legs, figures |
//! | `metrics` | none | the figures in the text format of Prometheus |
//! | `fail LEG` | the leg is given up, as if it had been unplugged; refused where a device could not serve without it | at once |
//! | `fail LEG --force` | the same without that question | at once |
//! | `add LEG` | the leg is opened again and goes back to work | when it is used, refused, or waits for others |
//! | `add LEG to DEVICE with FILE` | the mirror gets one more leg of that name, in a file that is blank or made; it is filled from the others | when it is a member, or why it is none |
//! | `replace LEG` | what is in place of the leg is blank, and is filled from the others | as `add` |
//! | `replace LEG with FILE` | the same with another file, which is made when it is missing; of a leg that works it is filled from the old file, which serves meanwhile | as `add`; of a leg that works when the old file may go |
//! | `grow` | the device whose files have become longer serves more; new connections see the new size | when it does, or why not |
//! | `grow DEVICE` | the same of this one | as `grow` |
//! | `set-leader LEG` | the leg leads its mirror from now on | at once; it is done when `leader_leg` says so |
//! | `scrub DEVICE` | the legs of a mirror or a parity array are compared, and repaired if its options say so | at once |
//! | `scrub DEVICE repair`, `check`, `stop` | the same, repaired or not; the running one ends | at once |
//! | `accept-loss DEVICE` | what a hybrid disk lost with its rings counts as the disk has it, old as it may be | at once; it is done when `lost` is gone from its status |
//! | `set TENANT KEY=VALUE ...` | a tenant's weight and limits from here on: `weight`, `rbps`, `wbps`, `riops`, `wiops`, `target_latency`; `max` for no limit | at once |
//! | `tenant add DEVICE size=SIZE` | a tenant comes into a drive with `max_tenants` | when it holds, power cuts included: its number |
//! | `tenant resize DEVICE NUMBER size=SIZE` | it has so much space from here on; what lay behind is gone | as `tenant add` |
//! | `tenant remove DEVICE NUMBER` | it goes with all it had | as `tenant add` |
//! | `stop` | the server ends, as on SIGTERM | at once, and once more, with `closed`, when everything is durable |
//!
//! A leg that is replaced may be pulled out when the `health` of its device is `healthy` again. The stack file names the new file from then on; the
//! answer says where it is kept as it was, or why it still names the old one.
//!
//! Whoever can connect may give every command: the socket has the rights of its directory and mode 0600.

use nandu_base::units::{parse_size, parse_span};
use nandu_base::{ByteLen, Deal, Span, TenantShare};
use serde_json::Value;
use std::fmt;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Longest command line in bytes.
pub const LINE_MAX: usize = 4096;

/// A command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Command {
    /// Tell how everything stands.
    Status,
    /// Tell all figures in the text format of Prometheus.
    Metrics,
    /// End, as on SIGTERM.
    Stop,
    /// Give a leg up; `true`: also one that is needed.
    Fail(String, bool),
    /// Take a leg back.
    Add(String),
    /// Give a mirror one more leg.
    Extend {
        /// The name of the new leg.
        leg: String,
        /// The mirror.
        device: String,
        /// The file or block device of the leg.
        file: PathBuf,
    },
    /// Fill a blank leg, in the file of the old one or in another.
    Replace(String, Option<PathBuf>),
    /// Serve more of files that have become longer: of this device, or of the only one that can.
    Grow(Option<String>),
    /// Let a leg lead.
    Lead(String),
    /// Compare the copies of a device.
    Scrub(String, Scrub),
    /// What a device has of data that were lost counts.
    AcceptLoss(String),
    /// Change what a tenant may ask for.
    Set(String, Vec<Setting>),
    /// Change the space that tenants have inside a drive.
    Tenant(String, Deal),
}

/// What a scrub is to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scrub {
    /// Begin, and do with what differs as the options of the device say.
    Begin,
    /// Begin, and rewrite what differs.
    Mend,
    /// Begin, and only report what differs.
    Report,
    /// End.
    Stop,
}

/// One thing that a tenant may ask for, in the words of a stack file. `None` for no limit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Setting {
    /// Its weight.
    Weight(u16),
    /// Most bytes read per second.
    Rbps(Option<ByteLen>),
    /// Most bytes written per second.
    Wbps(Option<ByteLen>),
    /// Most reads per second.
    Riops(Option<u64>),
    /// Most writes per second.
    Wiops(Option<u64>),
    /// The mean latency it wants to stay below.
    TargetLatency(Option<Span>),
    /// Of a leg, not of a tenant: most bytes per second that `replace` copies while the leg works.
    ReplaceRate(Option<ByteLen>),
}

impl Setting {
    /// Puts it into a share.
    pub fn apply(&self, share: &mut TenantShare) {
        match *self {
            Setting::Weight(weight) => share.weight = weight,
            Setting::Rbps(rate) => share.rbps = rate.map(|bytes| bytes.0),
            Setting::Wbps(rate) => share.wbps = rate.map(|bytes| bytes.0),
            Setting::Riops(rate) => share.riops = rate,
            Setting::Wiops(rate) => share.wiops = rate,
            Setting::TargetLatency(target) => share.target_latency = target,
            Setting::ReplaceRate(_) => {} // a leg's
        }
    }
}

/// What is wrong with `KEY=VALUE`.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("`{text}`: {why}")]
pub struct NoSetting {
    text: String,
    why: String,
}

/// A value, or `max` for none.
fn limit<T, E>(text: &str, parse: fn(&str) -> Result<T, E>, wanted: &str) -> Result<Option<T>, String> {
    match text {
        "max" => Ok(None),
        text => parse(text).map(Some).map_err(|_| format!("{wanted} is wanted, or `max` for no limit")),
    }
}

/// What is a number is judged by whoever sets it.
fn weight(text: &str) -> Result<u16, String> {
    text.parse().map_err(|_| "a weight is a whole number within 1 to 10000".into())
}

impl FromStr for Setting {
    type Err = NoSetting;

    fn from_str(text: &str) -> Result<Setting, NoSetting> {
        let (rate, count) = ("a size in a second, such as 2MiB,", "a whole number");
        let parsed = match text.split_once('=') {
            None => Err("a setting is KEY=VALUE".into()),
            Some(("weight", value)) => weight(value).map(Setting::Weight),
            Some(("rbps", value)) => limit(value, parse_size, rate).map(Setting::Rbps),
            Some(("wbps", value)) => limit(value, parse_size, rate).map(Setting::Wbps),
            Some(("replace_rate", value)) => limit(value, parse_size, rate).map(Setting::ReplaceRate),
            Some(("riops", value)) => limit(value, str::parse, count).map(Setting::Riops),
            Some(("wiops", value)) => limit(value, str::parse, count).map(Setting::Wiops),
            Some(("target_latency", value)) => match limit(value, parse_span, "a time such as 5ms") {
                Ok(Some(Span::ZERO)) => {
                    Err("no request is answered in no time; `max` takes the target away".into())
                }
                target => target.map(Setting::TargetLatency),
            },
            Some((key, _)) => Err(format!(
                "unknown setting `{key}`; there are: weight, rbps, wbps, riops, wiops, target_latency, and replace_rate of a leg"
            )),
        };
        parsed.map_err(|why| NoSetting { text: text.chars().take(80).collect(), why })
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (key, value, unit) = match *self {
            Setting::Weight(weight) => ("weight", Some(u64::from(weight)), ""),
            Setting::Rbps(rate) => ("rbps", rate.map(|bytes| bytes.0), ""),
            Setting::Wbps(rate) => ("wbps", rate.map(|bytes| bytes.0), ""),
            Setting::Riops(rate) => ("riops", rate, ""),
            Setting::Wiops(rate) => ("wiops", rate, ""),
            Setting::TargetLatency(target) => ("target_latency", target.map(|span| span.0), "ns"),
            Setting::ReplaceRate(rate) => ("replace_rate", rate.map(|bytes| bytes.0), ""),
        };
        match value {
            Some(value) => write!(f, "{key}={value}{unit}"),
            None => write!(f, "{key}=max"),
        }
    }
}

/// A line that is no command.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NoCommand {
    /// None begins so, or it has other words behind it.
    #[error(
        "`{line}` is not a command; use `status`, `metrics`, `stop`, `fail LEG [--force]`, `add LEG`, `add LEG to DEVICE with FILE`, `replace LEG [with FILE]`, `grow [DEVICE]`, `set-leader LEG`, \
         `scrub DEVICE [repair|check|stop]`, `accept-loss DEVICE`, `set TENANT weight=300 rbps=max`, `set LEG replace_rate=SIZE`, `tenant add DEVICE size=SIZE`, \
         `tenant resize DEVICE NUMBER size=SIZE` or `tenant remove DEVICE NUMBER`"
    )]
    Unknown {
        /// The line.
        line: String,
    },
    /// A setting of `set` is wrong.
    #[error(transparent)]
    Setting(#[from] NoSetting),
}

/// Words that had another name in the version before: the first word of their command, where they stand, what they were called and what they are called.
const RENAMED: [(&str, usize, &str, &str); 4] = [
    ("lead", 0, "lead", "set-leader"),
    ("fail", 2, "anyway", "--force"),
    ("scrub", 2, "mend", "repair"),
    ("scrub", 2, "report", "check"),
];

/// Gives the words of a command their present names, for one version. Returns the place, the old and the new name of one that had another.
pub fn renamed<'w>(words: &mut [&'w str]) -> Option<(usize, &'w str, &'static str)> {
    let verb = *words.first()?;
    let (_, at, _, new) =
        *RENAMED.iter().find(|(of, at, old, _)| *of == verb && words.get(*at) == Some(old))?;
    Some((at, std::mem::replace(&mut words[at], new), new))
}

impl FromStr for Command {
    type Err = NoCommand;

    fn from_str(line: &str) -> Result<Command, NoCommand> {
        let mut words: Vec<&str> = line.split_whitespace().collect();
        renamed(&mut words);
        match words[..] {
            ["status"] => Ok(Command::Status),
            ["metrics"] => Ok(Command::Metrics),
            ["stop"] => Ok(Command::Stop),
            ["fail", leg] => Ok(Command::Fail(leg.into(), false)),
            ["fail", leg, "--force"] => Ok(Command::Fail(leg.into(), true)),
            ["add", leg] => Ok(Command::Add(leg.into())),
            ["add", leg, "to", device, "with", _, ..] => Ok(Command::Extend {
                leg: leg.into(),
                device: device.into(),
                file: behind(line, &["add", leg, "to", device, "with"]).into(),
            }),
            ["replace", leg] => Ok(Command::Replace(leg.into(), None)),
            // The name of the file is the rest of the line, blanks and all.
            ["replace", leg, "with", _, ..] => {
                Ok(Command::Replace(leg.into(), Some(behind(line, &["replace", leg, "with"]).into())))
            }
            ["grow"] => Ok(Command::Grow(None)),
            ["grow", device] => Ok(Command::Grow(Some(device.into()))),
            ["set-leader", leg] => Ok(Command::Lead(leg.into())),
            ["scrub", device] => Ok(Command::Scrub(device.into(), Scrub::Begin)),
            ["scrub", device, "repair"] => Ok(Command::Scrub(device.into(), Scrub::Mend)),
            ["scrub", device, "check"] => Ok(Command::Scrub(device.into(), Scrub::Report)),
            ["scrub", device, "stop"] => Ok(Command::Scrub(device.into(), Scrub::Stop)),
            ["accept-loss", device] => Ok(Command::AcceptLoss(device.into())),
            ["set", tenant, ref settings @ ..] if !settings.is_empty() => {
                let settings: Result<Vec<Setting>, NoSetting> =
                    settings.iter().map(|word| word.parse()).collect();
                Ok(Command::Set(tenant.into(), settings?))
            }
            ["tenant", ref words @ ..] => tenant(words)
                .ok_or_else(|| NoCommand::Unknown { line: line.trim().chars().take(80).collect() }),
            _ => Err(NoCommand::Unknown { line: line.trim().chars().take(80).collect() }),
        }
    }
}

/// What stands in a line behind the words that it begins with.
fn behind<'a>(line: &'a str, words: &[&str]) -> &'a str {
    words.iter().fold(line.trim(), |rest, word| rest[word.len()..].trim_start())
}

/// The words behind `tenant`.
fn tenant(words: &[&str]) -> Option<Command> {
    let size = |word: &str| parse_size(word.strip_prefix("size=")?).ok();
    let (device, deal) = match *words {
        ["add", device, word] => (device, Deal::Add { size: size(word)? }),
        ["resize", device, number, word] => {
            (device, Deal::Resize { number: number.parse().ok()?, size: size(word)? })
        }
        ["remove", device, number] => (device, Deal::Remove { number: number.parse().ok()? }),
        _ => return None,
    };
    Some(Command::Tenant(device.into(), deal))
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Command::Status => f.write_str("status"),
            Command::Metrics => f.write_str("metrics"),
            Command::Stop => f.write_str("stop"),
            Command::Fail(leg, false) => write!(f, "fail {leg}"),
            Command::Fail(leg, true) => write!(f, "fail {leg} --force"),
            Command::Add(leg) => write!(f, "add {leg}"),
            Command::Extend { leg, device, file } => {
                write!(f, "add {leg} to {device} with {}", file.display())
            }
            Command::Replace(leg, None) => write!(f, "replace {leg}"),
            Command::Replace(leg, Some(file)) => write!(f, "replace {leg} with {}", file.display()),
            Command::Grow(None) => f.write_str("grow"),
            Command::Grow(Some(device)) => write!(f, "grow {device}"),
            Command::Lead(leg) => write!(f, "set-leader {leg}"),
            Command::Scrub(device, Scrub::Begin) => write!(f, "scrub {device}"),
            Command::Scrub(device, Scrub::Mend) => write!(f, "scrub {device} repair"),
            Command::Scrub(device, Scrub::Report) => write!(f, "scrub {device} check"),
            Command::Scrub(device, Scrub::Stop) => write!(f, "scrub {device} stop"),
            Command::AcceptLoss(device) => write!(f, "accept-loss {device}"),
            Command::Tenant(device, Deal::Add { size }) => write!(f, "tenant add {device} size={}", size.0),
            Command::Tenant(device, Deal::Resize { number, size }) => {
                write!(f, "tenant resize {device} {number} size={}", size.0)
            }
            Command::Tenant(device, Deal::Remove { number }) => write!(f, "tenant remove {device} {number}"),
            Command::Set(tenant, settings) => {
                write!(f, "set {tenant}")?;
                settings.iter().try_for_each(|setting| write!(f, " {setting}"))
            }
        }
    }
}

/// Why a command was not done.
#[derive(Debug, thiserror::Error)]
pub enum CtlError {
    /// Nobody listens.
    #[error("{socket}: {error}; is the server running, and was it started with a control socket?")]
    Connect {
        /// The socket.
        socket: PathBuf,
        /// What the operating system says.
        error: std::io::Error,
    },
    /// The server went away, or something else listens there.
    #[error("the server did not answer: {0}")]
    Answer(String),
    /// The server refused.
    #[error("{0}")]
    Refused(String),
}

/// Sends one command to the control socket of a server and waits for the answer.
///
/// # Errors
/// Nobody listens, or the command was refused.
pub fn send(socket: &Path, command: &Command) -> Result<Value, CtlError> {
    Session::open(socket)?.send(command)
}

/// Has a server end, and waits until that is done.
///
/// # Errors
/// Nobody listens, or the server went away without a clean end.
pub fn stop(socket: &Path) -> Result<(), CtlError> {
    let mut session = Session::open(socket)?;
    session.send(&Command::Stop)?;
    match session.answer() {
        Ok(answer) if answer["closed"] == Value::Bool(true) => {
            // It hangs up when it has given its files back: whoever starts the next server at once finds them free.
            let _ = session.stream.read_to_end(&mut Vec::new());
            Ok(())
        }
        Ok(answer) => Err(CtlError::Answer(answer.to_string())),
        Err(_) => Err(CtlError::Answer("it went away without a clean end".into())),
    }
}

/// A connection to the control socket of a server.
#[derive(Debug)]
pub struct Session {
    stream: BufReader<UnixStream>,
}

impl Session {
    /// Connects.
    ///
    /// # Errors
    /// Nobody listens.
    pub fn open(socket: &Path) -> Result<Session, CtlError> {
        let connect = |error| CtlError::Connect { socket: socket.into(), error };
        Ok(Session { stream: BufReader::new(UnixStream::connect(socket).map_err(connect)?) })
    }

    /// Sends a command and waits for the answer.
    ///
    /// # Errors
    /// The server is gone, or refuses the command.
    pub fn send(&mut self, command: &Command) -> Result<Value, CtlError> {
        // A server that takes no more control connections says so and hangs up: its line is there all the same.
        let written = self.stream.get_mut().write_all(format!("{command}\n").as_bytes());
        let answer = self.answer();
        match (written, answer) {
            (Err(error), Err(CtlError::Answer(_))) => Err(CtlError::Answer(error.to_string())),
            (_, answer) => answer,
        }
    }

    fn answer(&mut self) -> Result<Value, CtlError> {
        let mut line = String::new();
        let read = self.stream.read_line(&mut line).map_err(|error| CtlError::Answer(error.to_string()))?;
        if read == 0 {
            return Err(CtlError::Answer("it has hung up".into()));
        }
        let answer: Value =
            serde_json::from_str(&line).map_err(|error| CtlError::Answer(error.to_string()))?;
        if answer["ok"] == Value::Bool(true) {
            return Ok(answer);
        }
        Err(CtlError::Refused(answer["error"].as_str().unwrap_or("refused without a reason").into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_words_are_the_new_ones() {
        for (old, new) in [
            ("lead b", "set-leader b"),
            ("fail a anyway", "fail a --force"),
            ("scrub m mend", "scrub m repair"),
            ("scrub m report", "scrub m check"),
        ] {
            assert_eq!(old.parse::<Command>(), Ok(new.parse().expect("a command")), "{old}");
        }
        // A leg or a device may be called so.
        assert_eq!("add lead".parse(), Ok(Command::Add("lead".into())));
        assert_eq!("fail anyway".parse(), Ok(Command::Fail("anyway".into(), false)));
        assert_eq!("scrub mend".parse(), Ok(Command::Scrub("mend".into(), Scrub::Begin)));
    }

    #[test]
    fn commands_read_as_they_are_written_and_others_are_named() {
        let scrubs = ["scrub m", "scrub m repair", "scrub m check", "scrub m stop"];
        let others = [
            "status",
            "metrics",
            "fail ssd",
            "fail ssd --force",
            "add ssd",
            "replace ssd",
            "replace a with my new.img",
            "grow",
            "grow m",
            "set-leader b",
            "accept-loss m",
        ];
        let limits = "set a rbps=2097153 wbps=max riops=70 wiops=max target_latency=5000000ns";
        let tenants = ["tenant add ssd size=1048576", "tenant resize ssd 2 size=4096", "tenant remove ssd 2"];
        for text in others.iter().chain(&scrubs).chain(&["set a weight=300", limits]).chain(&tenants) {
            assert_eq!(text.parse::<Command>().unwrap().to_string(), *text);
        }
        let set = "set a rbps=2MiB target_latency=5ms".parse::<Command>().unwrap();
        assert_eq!(set.to_string(), "set a rbps=2097152 target_latency=5000000ns");
        let error = "fail".parse::<Command>().unwrap_err();
        assert!(error.to_string().starts_with("`fail` is not a command"));
        for text in [
            "tenant",
            "tenant add ssd",
            "tenant add ssd 4096",
            "tenant resize ssd x size=1",
            "tenant remove ssd",
        ] {
            assert!(text.parse::<Command>().is_err(), "{text}");
        }
        let settings = [
            ("weight=99999", "within 1 to 10000"),
            ("weight=-1", "within 1 to 10000"),
            ("rbps=NaN", "a size in a second"),
            ("rbps=-1", "a size in a second"),
            ("riops=1.5", "a whole number"),
            ("target_latency=0s", "`max` takes the target away"),
            ("foo=1", "unknown setting `foo`; there are: weight"),
        ];
        for (setting, why) in settings {
            let error = format!("set a {setting}").parse::<Command>().unwrap_err().to_string();
            assert!(error.starts_with(&format!("`{setting}`: ")) && error.contains(why), "{error}");
        }
        for text in ["set", "set a", "set a weight", "set a weight=x", "set a colour=red", "set a weight=max"]
        {
            assert!(text.parse::<Command>().is_err(), "{text}");
        }
    }
}
