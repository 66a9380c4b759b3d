//! Values of options: words that mean one of several things, numbers with a unit.

use clap::ValueEnum;
use clap::builder::RangedU64ValueParser;
use nandu_base::units::parse_size;
pub(super) use nandu_base::units::parse_span;
use nandu_base::{ByteLen, Span};
use nandu_experiment::mrc::Policy;
pub(super) use nandu_experiment::mrc::sample;
use nandu_experiment::numbers::count;
pub(super) use nandu_experiment::numbers::some;
pub(super) use nandu_experiment::replay::{columns, precondition, rate, repeats, time_scale};
use nandu_trace::BadLines;
use nandu_trace::fit::Fit;

/// `--bad-lines`.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum BadLinesArg {
    /// The first one ends the command.
    #[default]
    Stop,
    /// They are left out and counted.
    Skip,
}

impl From<BadLinesArg> for BadLines {
    fn from(arg: BadLinesArg) -> BadLines {
        match arg {
            BadLinesArg::Stop => BadLines::Stop,
            BadLinesArg::Skip => BadLines::Skip,
        }
    }
}

/// `--fit`: one of the methods.
pub(super) fn fit_parser() -> impl clap::builder::TypedValueParser<Value = Fit> {
    use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
    let help = |fit| match fit {
        Fit::Error => "offsets stay; what does not fit is an error (the default)",
        Fit::Concat => "streams in a row",
        Fit::Compact => "only touched 4 KiB pages, densely",
        Fit::Wrap => "modulo the capacity",
    };
    PossibleValuesParser::new(Fit::ALL.map(|f| PossibleValue::new(f.name()).help(help(f))))
        .map(|name| Fit::ALL.into_iter().find(|f| f.name() == name).unwrap_or_default())
}

/// `--max-connections`, `--max-control`.
pub(super) fn connections(text: &str) -> Result<u64, String> {
    match count(text)? {
        n @ 1..=4096 => Ok(n),
        n => Err(format!("{n} is out of bounds: 1 to 4096")),
    }
}

/// `--memory`.
pub(super) fn size(text: &str) -> Result<ByteLen, String> {
    parse_size(text).map_err(|error| error.to_string())
}

/// A time, or 0.
pub(super) fn time_or_zero(text: &str) -> Result<Span, String> {
    match text.trim() {
        "0" => Ok(Span::ZERO),
        text => parse_span(text).map_err(|error| error.to_string()),
    }
}

/// `--poll-max`: a time, or 0.
pub(super) fn poll_time(text: &str) -> Result<Span, String> {
    const MOST: Span = Span::from_ms(1);
    match time_or_zero(text)? {
        span if span <= MOST => Ok(span),
        span => Err(format!("{span} is longer than {MOST}: a server would do nothing but poll")),
    }
}

/// The name of a trace format.
pub(super) fn format_parser() -> clap::builder::PossibleValuesParser {
    clap::builder::PossibleValuesParser::new(
        nandu_trace::formats::of(crate::registry()).iter().map(|f| f.name),
    )
}

/// The name of a replacement policy.
pub(super) fn policy(name: &str) -> Result<Policy, String> {
    Policy::of(name, crate::registry())
}

/// `--window FROM..TO`.
pub(super) fn window(text: &str) -> Result<(Span, Span), String> {
    let form = "write FROM..TO, for example 10ms..12ms";
    let (from, to) = text.split_once("..").ok_or(form)?;
    let end = |text: &str| if text.trim().is_empty() { Ok(Span::ZERO) } else { time_or_zero(text) };
    match (end(from)?, end(to)?) {
        (from, to) if from < to => Ok((from, to)),
        (from, to) => Err(format!("{to} is not after {from}: {form}")),
    }
}

/// `--set PATH=VALUE`.
pub(super) fn set(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((path, value)) if !path.trim().is_empty() => Ok((path.trim().into(), value.trim().into())),
        _ => Err("write PATH=VALUE, for example device.ssd.gc.kind=greedy, or PATH= to leave the option out"
            .into()),
    }
}

/// A number of threads.
pub(super) fn jobs() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_has_a_length() {
        assert_eq!(window("10ms..12ms"), Ok((Span::from_ms(10), Span::from_ms(12))));
        assert_eq!(window("0..1s"), Ok((Span::ZERO, Span::from_secs(1))));
        for wrong in ["10ms", "12ms..10ms", "5us..5us", "a..b", "1..2"] {
            assert!(window(wrong).is_err(), "{wrong}");
        }
    }
}
