//! Values of options: words that mean one of several things, numbers with a unit.

use clap::ValueEnum;
use clap::builder::RangedU64ValueParser;
pub(super) use nandu_base::units::parse_span;
use nandu_base::units::{parse_ratio, parse_size};
use nandu_base::{ByteLen, Precondition, Ratio, Span};
use nandu_trace::Columns;
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

/// `--precondition`.
pub(crate) fn precondition(text: &str) -> Result<Precondition, String> {
    match text {
        "empty" => Ok(Precondition::Empty),
        "filled" => Ok(Precondition::Filled),
        "aged" => Ok(Precondition::Aged),
        _ => {
            let share = text.strip_prefix("fragmented:").and_then(|share| parse_ratio(share).ok());
            share.filter(|share| share.num <= share.den).map(Precondition::Fragmented).ok_or_else(|| {
                "a drive starts empty, filled, aged, or fragmented:SHARE with a share from 0 to 1, such as fragmented:30%"
                    .into()
            })
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

/// A number of things: `24000`, `24_000`, `2.4e4`, as long as it is whole.
pub(crate) fn count(text: &str) -> Result<u64, String> {
    let wrong = || format!("`{text}` is no whole number; write for example 24000, 24_000 or 2.4e4");
    let digits = text.trim().replace('_', "");
    let (mantissa, exponent) = digits.split_once(['e', 'E']).unwrap_or((&digits, "0"));
    let (whole, part) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all_digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let exponent: usize = exponent.strip_prefix('+').unwrap_or(exponent).parse().map_err(|_| wrong())?;
    let part_is_digits = all_digits(part) || part.is_empty() && !mantissa.contains('.');
    if !all_digits(whole) || !part_is_digits || exponent > 30 {
        return Err(wrong());
    }
    let (inside, behind) = part.split_at(part.len().min(exponent));
    if behind.bytes().any(|b| b != b'0') {
        return Err(wrong());
    }
    let number = format!("{whole}{inside}{}", "0".repeat(exponent - inside.len()));
    number.parse().map_err(|_| format!("`{text}` is more than {}", u64::MAX))
}

/// [`count`] of at least one.
pub(super) fn some(text: &str) -> Result<u64, String> {
    match count(text)? {
        0 => Err("at least 1 is needed".into()),
        n => Ok(n),
    }
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

/// `--idle-timeout`: a time, or 0.
pub(super) fn patience(text: &str) -> Result<Span, String> {
    match text.trim() {
        "0" => Ok(Span::ZERO),
        text => parse_span(text).map_err(|error| error.to_string()),
    }
}

/// The name of a trace format.
pub(super) fn format_parser() -> clap::builder::PossibleValuesParser {
    clap::builder::PossibleValuesParser::new(
        nandu_trace::formats::of(crate::registry()).iter().map(|f| f.name),
    )
}

/// `--columns`: a list, or a file in TOML that has one.
pub(super) fn columns(text: &str) -> Result<Columns, String> {
    if !text.ends_with(".toml") {
        return text.parse();
    }
    let file = std::fs::read_to_string(text).map_err(|e| format!("{text}: {e}"))?;
    let table = toml::from_str(&file).map_err(|e| format!("{text}: {e}"))?;
    Columns::of(table).map_err(|e| format!("{text}: {e}")).map(|columns| columns.called(text))
}

/// `--sample`: a share above 0.
pub(super) fn sample(text: &str) -> Result<Ratio, String> {
    match parse_ratio(text) {
        Ok(ratio) if ratio.num > 0 && ratio.num <= ratio.den => Ok(ratio),
        Ok(_) => Err("a share between 0 and 1 is needed".into()),
        Err(_) => Err("write a share, for example 1/100 or 1%".into()),
    }
}

/// `--time-scale`: a factor above 0.
pub(super) fn time_scale(text: &str) -> Result<Ratio, String> {
    match parse_ratio(text).map_err(|e| e.to_string())? {
        ratio if ratio.num == 0 => Err("all requests would arrive at once: use --closed N".into()),
        ratio => Ok(ratio),
    }
}

/// `--rate`: requests per second, as the time between two.
pub(super) fn rate(text: &str) -> Result<Span, String> {
    let number = text.strip_suffix("/s").unwrap_or(text).trim();
    match number.parse::<u64>() {
        Ok(n @ 1..=1_000_000_000) => Ok(Span((1_000_000_000 + n / 2) / n)),
        _ => {
            Err("a rate is a whole number of requests per second from 1 to 1000000000, such as 20000/s"
                .into())
        }
    }
}

/// `--window FROM..TO`.
pub(super) fn window(text: &str) -> Result<(Span, Span), String> {
    let form = "write FROM..TO, for example 10ms..12ms";
    let (from, to) = text.split_once("..").ok_or(form)?;
    let moment = |text: &str| match text.trim() {
        "0" | "" => Ok(Span::ZERO),
        text => parse_span(text).map_err(|e| e.to_string()),
    };
    match (moment(from)?, moment(to)?) {
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
    fn a_drive_is_fragmented_by_a_share() {
        let share = |num, den| Ok(Precondition::Fragmented(Ratio::new(num, den)));
        assert_eq!(precondition("fragmented:30%"), share(30, 100));
        assert_eq!(precondition("fragmented:1/3"), share(1, 3));
        assert_eq!(precondition("aged"), Ok(Precondition::Aged));
        for wrong in ["fragmented", "fragmented:", "fragmented:110%", "fragmented:x", "old"] {
            assert!(precondition(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_window_has_a_length() {
        assert_eq!(window("10ms..12ms"), Ok((Span::from_ms(10), Span::from_ms(12))));
        assert_eq!(window("0..1s"), Ok((Span::ZERO, Span::from_secs(1))));
        for wrong in ["10ms", "12ms..10ms", "5us..5us", "a..b", "1..2"] {
            assert!(window(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_count_is_whole_and_exact() {
        for (text, n) in
            [("0", 0), ("24_000", 24_000), ("1e9", 1_000_000_000), ("2.40e1", 24), ("1E+3", 1000)]
        {
            assert_eq!(count(text), Ok(n), "{text}");
        }
        assert_eq!(count("18446744073709551615"), Ok(u64::MAX));
        for wrong in
            ["", "-1", "1.5", "2.45e1", "1e-3", "e9", "1e", ".5e1", "1.e1", "1e31", "1e20", "x", "1 000"]
        {
            assert!(count(wrong).is_err(), "{wrong}");
        }
        assert!(some("0").is_err() && some("1").is_ok());
    }

    #[test]
    fn a_rate_is_an_interval() {
        assert_eq!(rate("20000/s"), Ok(Span(50_000)));
        assert_eq!(rate("3"), Ok(Span(333_333_333)));
        assert!(rate("0/s").is_err() && rate("fast").is_err());
    }
}
