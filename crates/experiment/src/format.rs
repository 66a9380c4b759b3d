//! Figures as people read them: three significant digits and a unit that fits.

use nandu_sweep::metric::{Figure, Kind};
use std::borrow::Cow;

/// `n` of 1, with thousands separated: `1,234,567`.
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Three significant digits: `0.123`, `1.23`, `12.3`, `123`, `1,234`.
pub fn three(value: f64) -> String {
    // The bounds are where rounding to the digits shown reaches the next power of ten.
    match value {
        0.0 => "0".into(),
        v if v < 0.9995 => format!("{v:.3}"),
        v if v < 9.995 => format!("{v:.2}"),
        v if v < 99.95 => format!("{v:.1}"),
        v => count(v.round() as u64),
    }
}

/// How many of something in a second, over a span of time: `171,691`; below a hundred with three significant digits, `0.083`.
pub fn per_second(n: u64, duration_ns: u64) -> String {
    match (u128::from(n) * 1_000_000_000).checked_div(u128::from(duration_ns)) {
        None => "0".into(),
        Some(whole) if whole >= 100 => count(u64::try_from(whole).unwrap_or(u64::MAX)),
        Some(_) => match three(n as f64 * 1e9 / duration_ns as f64) {
            less if n > 0 && less == "0.000" => "<0.001".into(),
            text => text,
        },
    }
}

/// A time: `950 ns`, `84.2 us`, `1.25 ms`, `12.5 s`, `2.1 h`.
pub fn time(ns: u64) -> String {
    const UNITS: [(f64, &str); 5] = [(1.0, "ns"), (1e3, "us"), (1e6, "ms"), (1e9, "s"), (3.6e12, "h")];
    let value = ns as f64;
    let unit = UNITS.iter().rev().find(|(scale, _)| value >= scale * 0.9995).unwrap_or(&UNITS[0]);
    if unit.0 == 1.0 {
        return format!("{ns} ns");
    }
    format!("{} {}", three(value / unit.0), unit.1)
}

/// A size in binary units, as stack files write it: `512 B`, `4 KiB`, `1.5 GiB`.
pub fn size(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut power = 0;
    // 1023.9 of a unit would be shown as 1,024 of it.
    while power + 1 < UNITS.len() && bytes as f64 >= 1023.5 * (1u64 << (10 * power)) as f64 {
        power += 1;
    }
    let scale = 1u64 << (10 * power);
    if bytes.is_multiple_of(scale) {
        return format!("{} {}", count(bytes / scale), UNITS[power]);
    }
    format!("{} {}", three(bytes as f64 / scale as f64), UNITS[power])
}

/// Bytes per second in decimal units, as drives are sold: `12.7 MB/s`.
pub fn bandwidth(bytes_per_second: u64) -> String {
    let value = bytes_per_second as f64;
    match bytes_per_second {
        n if n >= 1_000_000_000 => format!("{} GB/s", three(value / 1e9)),
        n if n >= 1_000_000 => format!("{} MB/s", three(value / 1e6)),
        n if n >= 1_000 => format!("{} kB/s", three(value / 1e3)),
        n => format!("{n} B/s"),
    }
}

/// An energy: `950 nJ`, `84.2 uJ`, `1.25 J`, `12.5 kJ`.
pub fn energy(nj: u64) -> String {
    const UNITS: [(f64, &str); 5] = [(1.0, "nJ"), (1e3, "uJ"), (1e6, "mJ"), (1e9, "J"), (1e12, "kJ")];
    let unit = UNITS.iter().rev().find(|(scale, _)| nj as f64 >= scale * 0.9995).unwrap_or(&UNITS[0]);
    format!("{} {}", three(nj as f64 / unit.0), unit.1)
}

/// A power: `33 uW`, `1.25 mW`, `6.3 W`.
pub fn power(uw: u64) -> String {
    const UNITS: [(f64, &str); 3] = [(1.0, "uW"), (1e3, "mW"), (1e6, "W")];
    let unit = UNITS.iter().rev().find(|(scale, _)| uw as f64 >= scale * 0.9995).unwrap_or(&UNITS[0]);
    format!("{} {}", three(uw as f64 / unit.0), unit.1)
}

/// A factor in thousandths: `1.043`.
pub fn thousandths(n: u64) -> String {
    format!("{}.{:03}", n / 1000, n % 1000)
}

/// `0.123 years`, `12.5 years`; `<0.001 years` for what rounds to nothing.
pub fn years(thousandths: u64) -> String {
    match thousandths {
        0 => "<0.001 years".into(),
        _ => format!("{} years", three(thousandths as f64 / 1000.0)),
    }
}

/// A figure in its unit.
pub fn figure(kind: Kind, figure: Option<Figure>) -> String {
    match (figure, kind) {
        (None, _) => "-".into(),
        (Some(Figure::Unworn), _) => "unworn".into(),
        (Some(Figure::Value(v)), Kind::Time) => time(v),
        (Some(Figure::Value(v)), Kind::Energy) => energy(v),
        (Some(Figure::Value(v)), Kind::Power) => power(v),
        (Some(Figure::Value(v)), Kind::Years) => years(v),
        (Some(Figure::Value(v)), Kind::Factor) => thousandths(v),
        (Some(Figure::Value(v)), Kind::Count) => count(v),
        (Some(Figure::Value(v)), Kind::Bytes) => size(v),
        (Some(Figure::Value(v)), Kind::Rate) => bandwidth(v),
    }
}

/// How many times larger: `1.8x`, `12x`.
pub fn times(factor: f64) -> String {
    match factor {
        f if f < 1.095 => format!("{f:.2}x"),
        f if f < 9.95 => format!("{f:.1}x"),
        f => format!("{}x", count(f.round() as u64)),
    }
}

/// The shares of a whole in tenths of a percent. They add up to 1000 exactly: what rounding leaves goes to the largest
/// remainders.
pub fn shares(parts: &[u64]) -> Vec<u64> {
    let total: u128 = parts.iter().map(|&p| u128::from(p)).sum();
    if total == 0 {
        return vec![0; parts.len()];
    }
    let exact = |p: u64| u128::from(p) * 1000;
    let mut out: Vec<u64> = parts.iter().map(|&p| (exact(p) / total) as u64).collect();
    let mut order: Vec<usize> = (0..parts.len()).collect();
    order.sort_by_key(|&i| std::cmp::Reverse(exact(parts[i]) % total));
    let left = 1000 - out.iter().sum::<u64>() as usize;
    order.iter().take(left).for_each(|&i| out[i] += 1);
    out
}

/// Tenths of a percent: `12.3 %`.
pub fn percent(tenths: u64) -> String {
    format!("{}.{} %", tenths / 10, tenths % 10)
}

/// Thousandths that may be too many or too few: `+5.0 %`.
pub fn signed_percent(thousandths: i64) -> String {
    let sign = if thousandths < 0 { '-' } else { '+' };
    format!("{sign}{}", percent(thousandths.unsigned_abs()))
}

/// `text` with control characters other than line breaks shown and not obeyed: a terminal takes orders from them, and what is shown may
/// come from a file.
pub fn visible(text: &str) -> Cow<'_, str> {
    let obeyed = |c: char| c.is_control() && c != '\n';
    match text.contains(obeyed) {
        false => Cow::Borrowed(text),
        true => text
            .chars()
            .flat_map(|c| if obeyed(c) { c.escape_default().collect::<Vec<_>>() } else { vec![c] })
            .collect::<String>()
            .into(),
    }
}

/// A field's name as words: `nand_read` becomes `nand read`.
pub fn words(name: &str) -> String {
    name.replace('_', " ")
}

/// The first digits of a hash: enough to tell two apart.
pub fn short_hash(hash: &str) -> &str {
    &hash[..hash.len().min(12)]
}

/// `1 request`, `2 requests`.
pub fn plural(n: u64, one: &str) -> String {
    let s = if n == 1 { "" } else { "s" };
    format!("{} {one}{s}", count(n))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn energy_and_power_have_units_that_fit() {
        assert_eq!([0, 950, 84_200, 1_250_000_000].map(energy), ["0 nJ", "950 nJ", "84.2 uJ", "1.25 J"]);
        assert_eq!([33, 16_500, 6_300_000].map(power), ["33.0 uW", "16.5 mW", "6.30 W"]);
    }

    #[test]
    fn figures_have_three_digits_and_a_unit_that_fits() {
        let rates = [
            (0, 5),
            (0, 0),
            (171_691, 1_000_000_000),
            (83, 1_000_000_000_000),
            (5, 2_000_000_000),
            (1, u64::MAX),
        ];
        assert_eq!(rates.map(|(n, ns)| per_second(n, ns)), ["0", "0", "171,691", "0.083", "2.50", "<0.001"]);
        assert_eq!(time(950), "950 ns");
        assert_eq!(time(84_240), "84.2 us");
        assert_eq!(time(999_600), "1.00 ms");
        assert_eq!(time(9_996_000), "10.0 ms");
        assert_eq!(time(12_345_678_901), "12.3 s");
        assert_eq!(size(4096), "4 KiB");
        assert_eq!(size((1 << 30) - 1), "1.00 GiB");
        assert_eq!(size(1_610_612_736), "1.50 GiB");
        assert_eq!(bandwidth(12_712_000), "12.7 MB/s");
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(
            (times(1.04).as_str(), times(1.8).as_str(), times(12.2).as_str()),
            ("1.04x", "1.8x", "12x")
        );
    }

    #[test]
    fn control_characters_are_shown() {
        assert_eq!(visible("a \u{1b}[31mred\r\n\u{9b}b\tß"), "a \\u{1b}[31mred\\r\n\\u{9b}b\\tß");
        assert!(matches!(visible("plain\nß"), Cow::Borrowed(_)));
    }

    #[test]
    fn shares_add_up() {
        assert_eq!(shares(&[1, 1, 1]), [334, 333, 333]);
        assert_eq!(shares(&[0, 0]), [0, 0]);
        for parts in [&[7u64, 11, 13, 17][..], &[u64::MAX, 1, u64::MAX], &[1, 999_999]] {
            assert_eq!(shares(parts).iter().sum::<u64>(), 1000);
        }
    }
}
