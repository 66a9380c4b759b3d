//! A case as a file: TOML, version 1, a step on a line.
//!
//! Times are nanoseconds, offsets and lengths bytes. docs/reference/cases.md describes the keys.

use super::case::{Case, Chore, Close, Ground, PowerCut, Share, Step, Tear, What, When};
use super::oracle::Asked;
use super::run::EXPORTED;
use nandu_base::{ByteLen, ByteOffset, Deal, Flags, Op, Precondition, Ratio, Registry, Span};
use nandu_stack::{BuildOptions, Stack, StackError, StackFile};
use serde::Deserialize;
use std::fmt::Write;

/// The version that is written, and the only one that is read.
pub const VERSION: u32 = 1;

/// Why a text is no case that can be run.
#[derive(Debug, thiserror::Error)]
pub enum CaseError {
    /// It is not TOML, or has a key that no case has.
    #[error("not a case: {0}")]
    Text(#[from] toml::de::Error),
    /// More text than a case needs.
    #[error("the case has {0} bytes, and at most {TEXT} are read")]
    TooMuchText(usize),
    /// Another version.
    #[error("the case is of version {0}, and this program reads version {VERSION}")]
    Version(u32),
    /// A key has a value that it may not have.
    #[error("`{key}`: {why}")]
    Value {
        /// Which key.
        key: &'static str,
        /// What is wrong, and what would be right.
        why: String,
    },
    /// A step cannot be taken.
    #[error("step {number}: {why}")]
    Step {
        /// Its number in the list, from 1.
        number: usize,
        /// What is wrong, and what would be right.
        why: String,
    },
    /// The stack cannot be built.
    #[error("{0}")]
    Stack(#[from] StackError),
    /// The exports hold more than can be remembered.
    #[error("`stack`: the exports hold {}, and each of their sectors is remembered: at most {} can be verified", .0, EXPORTED)]
    TooLarge(ByteLen),
    /// It does not come to its end.
    #[error(
        "the case takes more than {0} events of the simulation: leave out steps, or let less time pass between them"
    )]
    TooLong(u64),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CaseFile {
    case: u32,
    breaks: Option<String>,
    inject_bug: Option<String>,
    seed: String,
    precondition: String,
    depth: u32,
    rest: u64,
    #[serde(default)]
    check_harm: bool,
    #[serde(default)]
    durable_acks: bool,
    stack: String,
    #[serde(default)]
    steps: Vec<StepFile>,
    close: Option<CloseFile>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CloseFile {
    within: Option<u64>,
    drawn: u64,
    number: u64,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct StepFile {
    after: Option<u64>,
    events: Option<u64>,
    within: Option<u64>,
    #[serde(default)]
    idle: bool,
    ask: Option<AskFile>,
    chore: Option<ChoreFile>,
    share: Option<ShareFile>,
    deal: Option<DealFile>,
    cut: Option<CutFile>,
    peek: Option<PeekFile>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AskFile {
    op: String,
    #[serde(default)]
    export: usize,
    #[serde(default)]
    offset: u64,
    #[serde(default)]
    len: u64,
    #[serde(default)]
    fua: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ChoreFile {
    device: String,
    #[serde(rename = "do")]
    what: String,
    leg: Option<u8>,
    bytes: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ShareFile {
    tenant: u16,
    weight: u16,
    wbps: Option<u64>,
    riops: Option<u64>,
    target_latency: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DealFile {
    tenant: Option<u32>,
    size: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CutFile {
    delay: u64,
    missing: Option<String>,
    #[serde(default)]
    process: bool,
    #[serde(default)]
    again: Vec<u32>,
    #[serde(default)]
    look: bool,
    drawn: u64,
    number: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PeekFile {
    at: i64,
    drawn: u64,
}

/// Most bytes of a case: a step takes less than a hundred, and a seed takes some thousands of steps.
pub const TEXT: usize = 16 << 20;

/// Most events that a case may take: a seed takes some hundred thousand.
pub(super) const EVENTS: u64 = 100_000_000;

/// Most numbers that generators may have drawn before, in all steps: they are drawn as far again.
const DRAWN: u64 = 100_000_000;

/// Longest time in nanoseconds that a key may say: thirty days.
const LONGEST: u64 = 30 * 24 * 3600 * 1_000_000_000;

/// Where a reader learns more; a comment.
const KEYS: &str =
    "# Times are nanoseconds, offsets and lengths bytes; docs/reference/cases.md says what the keys mean.";

const OPS: [Op; 5] = [Op::Read, Op::Write, Op::Flush, Op::Trim, Op::WriteZeroes];

impl Case {
    /// The case that a file says.
    ///
    /// # Errors
    /// It is no TOML, or a key or a step is wrong.
    pub fn parse(text: &str) -> Result<Case, CaseError> {
        if text.len() > TEXT {
            return Err(CaseError::TooMuchText(text.len()));
        }
        let file: CaseFile = toml::from_str(text)?;
        if file.case != VERSION {
            return Err(CaseError::Version(file.case));
        }
        let seed = file.seed.parse().map_err(|_| CaseError::Value {
            key: "seed",
            why: format!("`{}` is not a whole number below 2^64", file.seed),
        })?;
        if file.depth == 0 {
            let why = "with a depth of 0 no request could come; it is at least 1".into();
            return Err(CaseError::Value { key: "depth", why });
        }
        let ground = Ground {
            stack: file.stack,
            precondition: precondition(&file.precondition)?,
            seed,
            depth: file.depth,
            rest: time(file.rest).map_err(|why| CaseError::Value { key: "rest", why })?,
            harm: file.check_harm,
            acknowledged: file.durable_acks,
        };
        let mut asked = Asks::default();
        let mut steps = Vec::with_capacity(file.steps.len());
        for (number, step) in (1..).zip(file.steps) {
            let step = step.step().and_then(|step| asked.add_step(&step).map(|()| step));
            steps.push(step.map_err(|why| CaseError::Step { number, why })?);
        }
        let close = file.close.map(|CloseFile { within, drawn, number }| {
            let tear = Tear { drawn, number };
            asked.add(0, tear).map_err(|why| CaseError::Value { key: "close", why })?;
            Ok::<_, CaseError>(Close { within, tear })
        });
        Ok(Case { ground, steps, close: close.transpose()?, plant: file.inject_bug, breaks: file.breaks })
    }

    /// The stack, when it can be built and all steps fit it, and what all its devices hold together.
    ///
    /// # Errors
    /// It cannot be built, holds too much, or a step does not fit it.
    pub fn stack(&self, registry: &Registry) -> Result<(Stack, ByteLen), CaseError> {
        let stack = StackFile::parse(&self.ground.stack, "`stack`")?.load(registry)?;
        let options = BuildOptions {
            precondition: self.ground.precondition,
            planted: self.plant.iter().cloned().collect(),
            ..BuildOptions::default()
        };
        let built = stack.build(&options)?;
        let capacity = |node: u32| built.parts[node as usize].machine.limits().capacity.0;
        let sum = |all: &mut dyn Iterator<Item = u64>| ByteLen(all.fold(0, u64::saturating_add));
        // As much as a device may serve at any time: one that grows at most what its legs have then.
        let most = |node: u32| {
            let part = &built.parts[node as usize];
            let grows = |step: &Step| match &step.what {
                What::Chore { device, chore: Chore::Grow(bytes) } if *device == part.name => Some(*bytes),
                _ => None,
            };
            let of_legs =
                |more: u64| part.children.iter().map(move |&leg| capacity(leg).saturating_add(more));
            let grown = self.steps.iter().filter_map(grows).max().map(|more| sum(&mut of_legs(more)).0);
            grown.map_or(capacity(node), |grown| grown.max(capacity(node)))
        };
        let exported = sum(&mut built.exports.iter().map(|export| most(export.node)));
        if exported > EXPORTED {
            return Err(CaseError::TooLarge(exported));
        }
        let size = sum(&mut (0..built.parts.len() as u32).map(capacity));
        for (number, step) in (1..).zip(&self.steps) {
            let bad = |why| Err(CaseError::Step { number, why });
            match &step.what {
                What::Ask { export, asked } => {
                    let Some(to) = built.exports.get(*export) else {
                        return bad(format!(
                            "the stack has no export {export}, it has {}",
                            built.exports.len()
                        ));
                    };
                    let limits = built.parts[to.node as usize].machine.limits();
                    let (first, len) = (asked.offset.0, asked.len.0);
                    let most = most(to.node);
                    let end = first.checked_add(len).filter(|&end| end <= most);
                    if asked.op != Op::Flush && (len == 0 || end.is_none() || len > limits.max_io.0) {
                        return bad(format!(
                            "{len} bytes at {first} do not fit: the export has {most} bytes, and a request at most {}",
                            limits.max_io.0
                        ));
                    }
                    let align = u64::from(limits.align);
                    if first % align > 0 || len % align > 0 {
                        return bad(format!("{len} bytes at {first} are not multiples of {align}"));
                    }
                }
                What::Share(share) => {
                    if share.tenant == 0 || usize::from(share.tenant) > stack.tenants.len() {
                        let count = stack.tenants.len();
                        return bad(format!("the stack has no tenant {}, it has {count}", share.tenant));
                    }
                    if let Some(flaw) = share.whole().flaw() {
                        return bad(flaw);
                    }
                }
                _ => {}
            }
        }
        Ok((stack, size))
    }

    /// The case as a file says it.
    pub fn to_text(&self) -> String {
        let Ground { stack, precondition, seed, depth, rest, harm, acknowledged } = &self.ground;
        let mut out = format!("case = {VERSION}\n{KEYS}\n");
        let text = |word: &str| toml::Value::String(word.into()).to_string();
        let mut put = |line: String| out += &format!("{line}\n");
        if let Some(breaks) = &self.breaks {
            put(format!("breaks = {}", text(breaks)));
        }
        if let Some(plant) = &self.plant {
            put(format!("inject_bug = {}", text(plant)));
        }
        put(format!("seed = \"{seed}\""));
        let state = match precondition {
            Precondition::Empty => "empty".into(),
            Precondition::Filled => "filled".into(),
            Precondition::Aged => "aged".into(),
            Precondition::Fragmented(share) => format!("fragmented {}/{}", share.num, share.den),
        };
        put(format!("precondition = \"{state}\"\ndepth = {depth}\nrest = {}", rest.0));
        for (key, is_set) in [("check_harm", harm), ("durable_acks", acknowledged)] {
            if *is_set {
                put(format!("{key} = true"));
            }
        }
        let is_plain = |c: char| matches!(c, '\n' | '\t') || !c.is_control();
        put(match stack.contains("'''") || !stack.chars().all(is_plain) {
            true => format!("stack = {}", text(stack)),
            false => format!("stack = '''\n{stack}'''"),
        });
        put("steps = [".into());
        for step in &self.steps {
            put(format!("  {{ {} }},", one_step(step, text)));
        }
        put("]".into());
        if let Some(Close { within, tear }) = self.close {
            let within = within.map_or_else(String::new, |n| format!("within = {n}, "));
            put(format!("close = {{ {within}drawn = {}, number = {} }}", tear.drawn, tear.number));
        }
        out
    }
}

fn precondition(word: &str) -> Result<Precondition, CaseError> {
    let share = word.strip_prefix("fragmented ").and_then(|share| share.split_once('/'));
    let share = share.and_then(|(num, den)| Some((num.parse::<u64>().ok()?, den.parse::<u64>().ok()?)));
    match (word, share) {
        ("empty", _) => Ok(Precondition::Empty),
        ("filled", _) => Ok(Precondition::Filled),
        ("aged", _) => Ok(Precondition::Aged),
        (_, Some((num, den))) if den > 0 && num <= den => Ok(Precondition::Fragmented(Ratio::new(num, den))),
        _ => Err(CaseError::Value {
            key: "precondition",
            why: format!("`{word}` is none of `empty`, `filled`, `aged` and `fragmented N/M`, N at most M"),
        }),
    }
}

fn time(ns: u64) -> Result<Span, String> {
    match ns <= LONGEST {
        true => Ok(Span(ns)),
        false => Err(format!("{ns} nanoseconds are more than thirty days, {LONGEST}")),
    }
}

/// What the steps so far ask for, so that no case goes on without end.
#[derive(Default)]
struct Asks {
    events: u64,
    drawn: u64,
}

impl Asks {
    fn add_step(&mut self, step: &Step) -> Result<(), String> {
        let events = if let When::Events(count) = step.when { count } else { 0 };
        let tear = match &step.what {
            What::Cut(PowerCut { tear, .. }) | What::Peek { tear, .. } => *tear,
            _ => Tear::default(),
        };
        self.add(events, tear)
    }

    fn add(&mut self, events: u64, tear: Tear) -> Result<(), String> {
        self.events = self.events.saturating_add(events);
        self.drawn = self.drawn.saturating_add(tear.drawn);
        for (key, sum, most) in [("events", self.events, EVENTS), ("drawn", self.drawn, DRAWN)] {
            if sum > most {
                return Err(format!("`{key}` of all steps up to here is {sum} together, and at most {most}"));
            }
        }
        Ok(())
    }
}

impl StepFile {
    fn step(self) -> Result<Step, String> {
        let whens = [
            self.after.map(time).transpose()?.map(When::After),
            self.events.map(When::Events),
            self.within.map(time).transpose()?.map(When::Within),
            self.idle.then_some(When::Idle),
        ];
        let mut whens = whens.into_iter().flatten();
        let when = whens.next().unwrap_or(When::Now);
        if whens.next().is_some() {
            return Err("it has more than one of `after`, `events`, `within` and `idle`".into());
        }
        let whats = [
            self.ask.map(AskFile::what),
            self.chore.map(ChoreFile::what),
            self.share.map(|share| Ok(share.what())),
            self.deal.map(DealFile::what),
            self.cut.map(CutFile::what),
            self.peek.map(|peek| Ok(What::Peek { at: peek.at, tear: Tear { drawn: peek.drawn, number: 0 } })),
        ];
        let mut whats = whats.into_iter().flatten();
        let what = whats.next().unwrap_or(Ok(What::Wait))?;
        if whats.next().is_some() {
            return Err("it has more than one of `ask`, `chore`, `share`, `deal`, `cut` and `peek`".into());
        }
        Ok(Step { when, what })
    }
}

impl AskFile {
    fn what(self) -> Result<What, String> {
        let op = OPS.into_iter().find(|op| op.name() == self.op).ok_or_else(|| {
            let names: Vec<&str> = OPS.iter().map(|op| op.name()).collect();
            format!("op `{}` is none of {}", self.op, names.join(", "))
        })?;
        let flags = if self.fua { Flags::FUA } else { Flags::NONE };
        let asked = Asked { op, flags, offset: ByteOffset(self.offset), len: ByteLen(self.len) };
        Ok(What::Ask { export: self.export, asked })
    }
}

impl ChoreFile {
    fn what(self) -> Result<What, String> {
        let chore = match (self.what.as_str(), self.leg, self.bytes) {
            ("scrub", None, None) => Chore::Scrub,
            ("stop-scrub", None, None) => Chore::StopScrub,
            ("lead", Some(leg), None) => Chore::Lead(leg),
            ("replace", Some(leg), None) => Chore::Replace(leg),
            ("grow", None, Some(bytes)) if bytes > 0 && bytes.is_multiple_of(4096) => Chore::Grow(bytes),
            (other, _, _) => {
                return Err(format!(
                    "`{other}` is none of `scrub` and `stop-scrub` without a `leg`, `lead` and `replace` with one, and `grow` with \
                     `bytes`, a multiple of 4096"
                ));
            }
        };
        Ok(What::Chore { device: self.device, chore })
    }
}

impl ShareFile {
    fn what(self) -> What {
        let ShareFile { tenant, weight, wbps, riops, target_latency } = self;
        What::Share(Share { tenant, weight, wbps, riops, target_latency: target_latency.map(Span) })
    }
}

impl DealFile {
    fn what(self) -> Result<What, String> {
        Ok(What::Deal(match (self.tenant, self.size.map(ByteLen)) {
            (None, Some(size)) => Deal::Add { size },
            (Some(number), Some(size)) => Deal::Resize { number, size },
            (Some(number), None) => Deal::Remove { number },
            (None, None) => return Err("a deal has a `tenant`, a `size` or both".into()),
        }))
    }
}

impl CutFile {
    fn what(self) -> Result<What, String> {
        Ok(What::Cut(PowerCut {
            delay: time(self.delay)?,
            missing: self.missing,
            process: self.process,
            again: self.again,
            look: self.look,
            tear: Tear { drawn: self.drawn, number: self.number },
        }))
    }
}

fn one_step(step: &Step, text: impl Fn(&str) -> String) -> String {
    let mut out = match step.when {
        When::Now => String::new(),
        When::After(span) => format!("after = {}, ", span.0),
        When::Events(count) => format!("events = {count}, "),
        When::Idle => "idle = true, ".into(),
        When::Within(span) => format!("within = {}, ", span.0),
    };
    let mut optional = String::new();
    let mut put = |key: &str, value: Option<u64>| {
        let _ = value.map(|value| write!(optional, ", {key} = {value}"));
    };
    out += &match &step.what {
        What::Ask { export, asked } => {
            put("export", Some(*export as u64).filter(|export| *export > 0));
            if asked.op != Op::Flush {
                put("offset", Some(asked.offset.0));
                put("len", Some(asked.len.0));
            }
            let fua = if asked.flags.has(Flags::FUA) { ", fua = true" } else { "" };
            format!("ask = {{ op = \"{}\"{optional}{fua} }}", asked.op.name())
        }
        What::Chore { device, chore } => {
            let (what, leg, bytes) = match *chore {
                Chore::Scrub => ("scrub", None, None),
                Chore::StopScrub => ("stop-scrub", None, None),
                Chore::Lead(leg) => ("lead", Some(leg), None),
                Chore::Replace(leg) => ("replace", Some(leg), None),
                Chore::Grow(bytes) => ("grow", None, Some(bytes)),
            };
            put("leg", leg.map(u64::from));
            put("bytes", bytes);
            format!("chore = {{ device = {}, do = \"{what}\"{optional} }}", text(device))
        }
        What::Share(share) => {
            put("wbps", share.wbps);
            put("riops", share.riops);
            put("target_latency", share.target_latency.map(|span| span.0));
            format!("share = {{ tenant = {}, weight = {}{optional} }}", share.tenant, share.weight)
        }
        What::Deal(Deal::Add { size }) => format!("deal = {{ size = {} }}", size.0),
        What::Deal(Deal::Resize { number, size }) => {
            format!("deal = {{ tenant = {number}, size = {} }}", size.0)
        }
        What::Deal(Deal::Remove { number }) => format!("deal = {{ tenant = {number} }}"),
        What::Cut(cut) => {
            let PowerCut { delay, missing, process, again, look, tear } = cut;
            let missing = missing.as_ref().map_or_else(String::new, |m| format!(", missing = {}", text(m)));
            let process = if *process { ", process = true" } else { "" };
            let again = if again.is_empty() { String::new() } else { format!(", again = {again:?}") };
            let look = if *look { ", look = true" } else { "" };
            let Tear { drawn, number } = tear;
            format!(
                "cut = {{ delay = {}{missing}{process}{again}{look}, drawn = {drawn}, number = {number} }}",
                delay.0
            )
        }
        What::Peek { at, tear } => format!("peek = {{ at = {at}, drawn = {} }}", tear.drawn),
        What::Wait => return out.trim_end_matches([',', ' ']).to_string(),
    };
    out
}
