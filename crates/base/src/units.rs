//! Time and space in newtypes: the type carries the unit.
//!
//! [`Instant`] and [`Span`] are nanoseconds, [`ByteOffset`] and [`ByteLen`] are bytes. Text forms ("512 MiB",
//! "1.5 ms") are parsed by integer arithmetic only, so that the same text gives the same value on every machine.

use std::fmt;
use std::ops::{Add, AddAssign, Mul, Sub, SubAssign};

/// Bytes in one sector: the finest grain at which data is addressed, torn and verified.
pub const SECTOR: u64 = 512;

macro_rules! newtype {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
        pub struct $name(pub u64);

        impl $name {
            /// The zero of this unit.
            pub const ZERO: Self = Self(0);
            /// The largest value; used as "never" or "unbounded".
            pub const MAX: Self = Self(u64::MAX);
        }
    };
}

newtype! {
    /// A point in time: nanoseconds since the driver's start. Bounds: 0 to 2^64-1 (584 years).
    Instant
}
newtype! {
    /// A length of time in nanoseconds.
    Span
}
newtype! {
    /// A position on a device, in bytes from its start.
    ByteOffset
}
newtype! {
    /// A length on a device, in bytes.
    ByteLen
}

impl Instant {
    /// Time passed since `earlier`; panics in debug builds when `earlier` lies ahead.
    #[inline]
    pub fn since(self, earlier: Instant) -> Span {
        debug_assert!(self.0 >= earlier.0, "time runs backwards: {self} before {earlier}");
        Span(self.0.wrapping_sub(earlier.0))
    }

    /// The later of two instants.
    #[inline]
    pub fn later(self, other: Instant) -> Instant {
        Instant(self.0.max(other.0))
    }
}

impl Span {
    /// `n` nanoseconds.
    pub const fn from_ns(n: u64) -> Span {
        Span(n)
    }
    /// `n` microseconds.
    pub const fn from_us(n: u64) -> Span {
        Span(n * 1_000)
    }
    /// `n` milliseconds.
    pub const fn from_ms(n: u64) -> Span {
        Span(n * 1_000_000)
    }
    /// `n` seconds.
    pub const fn from_secs(n: u64) -> Span {
        Span(n * 1_000_000_000)
    }
    /// The span in the largest unit that says it exactly, as one types it: `5 s`, `1500 us`, `1 h`.
    pub fn exact(self) -> String {
        let fits = |scale: &u64| self.0 > 0 && self.0.is_multiple_of(*scale);
        let units = [(3_600_000_000_000, "h"), (1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us")];
        match units.iter().find(|(scale, _)| fits(scale)) {
            Some((scale, unit)) => format!("{} {unit}", self.0 / scale),
            None => format!("{} ns", self.0),
        }
    }

    /// The longer of two spans.
    #[inline]
    pub fn longer(self, other: Span) -> Span {
        Span(self.0.max(other.0))
    }
}

impl Add<Span> for Instant {
    type Output = Instant;
    #[inline]
    fn add(self, s: Span) -> Instant {
        Instant(self.0 + s.0)
    }
}

impl AddAssign<Span> for Instant {
    #[inline]
    fn add_assign(&mut self, s: Span) {
        self.0 += s.0;
    }
}

impl Add for Span {
    type Output = Span;
    #[inline]
    fn add(self, s: Span) -> Span {
        Span(self.0 + s.0)
    }
}

impl AddAssign for Span {
    #[inline]
    fn add_assign(&mut self, s: Span) {
        self.0 += s.0;
    }
}

impl Sub for Span {
    type Output = Span;
    #[inline]
    fn sub(self, s: Span) -> Span {
        Span(self.0 - s.0)
    }
}

impl SubAssign for Span {
    #[inline]
    fn sub_assign(&mut self, s: Span) {
        self.0 -= s.0;
    }
}

impl Mul<u64> for Span {
    type Output = Span;
    #[inline]
    fn mul(self, n: u64) -> Span {
        Span(self.0 * n)
    }
}

impl Add<ByteLen> for ByteOffset {
    type Output = ByteOffset;
    #[inline]
    fn add(self, l: ByteLen) -> ByteOffset {
        ByteOffset(self.0 + l.0)
    }
}

impl Sub for ByteOffset {
    type Output = ByteLen;
    #[inline]
    fn sub(self, o: ByteOffset) -> ByteLen {
        ByteLen(self.0 - o.0)
    }
}

impl Add for ByteLen {
    type Output = ByteLen;
    #[inline]
    fn add(self, l: ByteLen) -> ByteLen {
        ByteLen(self.0 + l.0)
    }
}

impl AddAssign for ByteLen {
    #[inline]
    fn add_assign(&mut self, l: ByteLen) {
        self.0 += l.0;
    }
}

impl Sub for ByteLen {
    type Output = ByteLen;
    #[inline]
    fn sub(self, l: ByteLen) -> ByteLen {
        ByteLen(self.0 - l.0)
    }
}

impl ByteLen {
    /// The length in the unit that says it exactly with the smallest number, as one types it: `16 GiB`, `500 MB`, `1025 B`.
    pub fn exact(self) -> String {
        let units = [
            (1 << 40, "TiB"),
            (1_000_000_000_000, "TB"),
            (1 << 30, "GiB"),
            (1_000_000_000, "GB"),
            (1 << 20, "MiB"),
            (1_000_000, "MB"),
            (1 << 10, "KiB"),
            (1_000, "kB"),
        ];
        match units.iter().find(|(scale, _)| self.0 > 0 && self.0.is_multiple_of(*scale)) {
            Some((scale, unit)) => format!("{} {unit}", self.0 / scale),
            None => format!("{} B", self.0),
        }
    }

    /// `n` KiB.
    pub const fn kib(n: u64) -> ByteLen {
        ByteLen(n << 10)
    }
    /// `n` MiB.
    pub const fn mib(n: u64) -> ByteLen {
        ByteLen(n << 20)
    }
    /// `n` GiB.
    pub const fn gib(n: u64) -> ByteLen {
        ByteLen(n << 30)
    }
    /// Whole sectors in this length; the length must be a multiple of [`SECTOR`].
    #[inline]
    pub fn sectors(self) -> u64 {
        debug_assert!(self.0.is_multiple_of(SECTOR), "{self} is not a whole number of sectors");
        self.0 / SECTOR
    }
}

impl ByteOffset {
    /// The sector this offset starts; the offset must be a multiple of [`SECTOR`].
    #[inline]
    pub fn sector(self) -> u64 {
        debug_assert!(self.0.is_multiple_of(SECTOR), "{self} is not sector-aligned");
        self.0 / SECTOR
    }
}

/// A chance or share as an exact fraction: no floating point decides anything.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ratio {
    /// Numerator.
    pub num: u64,
    /// Denominator, never zero.
    pub den: u64,
}

impl Ratio {
    /// `num` in `den`. Panics when `den` is zero: a ratio from outside goes through [`parse_ratio`].
    pub const fn new(num: u64, den: u64) -> Ratio {
        assert!(den != 0, "a ratio needs a denominator");
        Ratio { num, den }
    }
    /// Never.
    pub const ZERO: Ratio = Ratio::new(0, 1);

    /// This share of `n`, rounded down.
    pub fn of(self, n: u64) -> u64 {
        (u128::from(n) * u128::from(self.num) / u128::from(self.den)) as u64
    }
}

/// Why a text is not a quantity.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum UnitError {
    /// The text does not begin with a number.
    #[error("`{text}` is not a number with a unit; write for example {example}")]
    NotANumber {
        /// What was given.
        text: String,
        /// What would be right.
        example: &'static str,
    },
    /// The unit after the number is not known.
    #[error("unknown unit `{unit}` in `{text}`; known units: {known}")]
    UnknownUnit {
        /// What was given.
        text: String,
        /// The part that is not known.
        unit: String,
        /// The units that are.
        known: &'static str,
    },
    /// A number that needs a unit has none.
    #[error("`{text}` has no unit; write for example {example}; known units: {known}")]
    NoUnit {
        /// What was given.
        text: String,
        /// What would be right.
        example: &'static str,
        /// The units that are known.
        known: &'static str,
    },
    /// The value is no whole number of the base unit.
    #[error("`{text}` is not a whole number of {base}")]
    NotWhole {
        /// What was given.
        text: String,
        /// The base unit.
        base: &'static str,
    },
    /// The value does not fit 64 bits.
    #[error("`{text}` is too large")]
    TooLarge {
        /// What was given.
        text: String,
    },
    /// A share or factor below what can be told.
    #[error("`{text}` is too small or has too many digits behind the point; the least is 1e-19")]
    TooSmall {
        /// What was given.
        text: String,
    },
}

const SIZE_UNITS: &[(&str, u64)] = &[
    ("", 1),
    ("B", 1),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
    ("k", 1 << 10),
    ("K", 1 << 10),
    ("m", 1 << 20),
    ("M", 1 << 20),
    ("g", 1 << 30),
    ("G", 1 << 30),
    ("t", 1 << 40),
    ("T", 1 << 40),
    ("kB", 1_000),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
];

const TIME_UNITS: &[(&str, u64)] = &[
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("min", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// Splits "12.5 ms" into (125, 1 decimal, "ms").
fn split_number<'a>(text: &'a str, example: &'static str) -> Result<(u64, u32, &'a str), UnitError> {
    let t = text.trim();
    let end = t.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_')).unwrap_or(t.len());
    let (number, unit) = (&t[..end], t[end..].trim());
    let not_a_number = || UnitError::NotANumber { text: text.into(), example };
    let too_large = || UnitError::TooLarge { text: text.into() };
    let mut value: u64 = 0;
    let mut decimals = None;
    let mut digits = 0;
    for c in number.chars() {
        match c {
            '_' => {}
            '.' if decimals.is_none() => decimals = Some(0),
            '.' => return Err(not_a_number()),
            d => {
                digits += 1;
                if let Some(n) = decimals.as_mut() {
                    *n += 1;
                }
                let d = u64::from(d as u8 - b'0');
                value = value.checked_mul(10).and_then(|v| v.checked_add(d)).ok_or_else(too_large)?;
            }
        }
    }
    if digits == 0 {
        return Err(not_a_number());
    }
    Ok((value, decimals.unwrap_or(0), unit))
}

fn parse_quantity(
    text: &str,
    units: &[(&str, u64)],
    known: &'static str,
    base: &'static str,
    example: &'static str,
) -> Result<u64, UnitError> {
    let (value, decimals, unit) = split_number(text, example)?;
    let scale = units.iter().find(|(name, _)| *name == unit).map(|&(_, s)| s).ok_or_else(|| match unit {
        "" => UnitError::NoUnit { text: text.into(), example, known },
        unit => UnitError::UnknownUnit { text: text.into(), unit: unit.into(), known },
    })?;
    let ten = 10u128.checked_pow(decimals).ok_or_else(|| UnitError::TooLarge { text: text.into() })?;
    let product = u128::from(value) * u128::from(scale);
    if !product.is_multiple_of(ten) {
        return Err(UnitError::NotWhole { text: text.into(), base });
    }
    u64::try_from(product / ten).map_err(|_| UnitError::TooLarge { text: text.into() })
}

/// Parses a size: "4096", "512 MiB", "1.5 GiB", "128 GB", fio's "4k". Binary for KiB and k, decimal for kB.
pub fn parse_size(text: &str) -> Result<ByteLen, UnitError> {
    parse_quantity(
        text,
        SIZE_UNITS,
        "B, KiB, MiB, GiB, TiB, kB, MB, GB, TB, k, m, g, t",
        "bytes",
        "\"512 MiB\"",
    )
    .map(ByteLen)
}

/// Parses a time: "25 us", "1.5 ms", "2 s". A bare number is refused: a time has a unit.
pub fn parse_span(text: &str) -> Result<Span, UnitError> {
    parse_quantity(text, TIME_UNITS, "ns, us, ms, s, min, h", "nanoseconds", "\"25 us\"").map(Span)
}

/// Parses a share or chance: "0.07", "7 %", "1/16".
pub fn parse_ratio(text: &str) -> Result<Ratio, UnitError> {
    const EXAMPLE: &str = "\"0.07\", \"7 %\" or \"1/16\"";
    let not_a_ratio = || UnitError::NotANumber { text: text.into(), example: EXAMPLE };
    if let Some((num, den)) = text.split_once('/') {
        let num = num.trim().parse().map_err(|_| not_a_ratio())?;
        let den = den.trim().parse().map_err(|_| not_a_ratio())?;
        return if den == 0 { Err(not_a_ratio()) } else { Ok(Ratio { num, den }) };
    }
    let (num, decimals, unit) = split_number(text, EXAMPLE)?;
    let too_large = || UnitError::TooLarge { text: text.into() };
    // `1e12` is a number without a unit, too.
    let exponent = unit.strip_prefix(['e', 'E']).and_then(|power| power.parse::<i32>().ok());
    let (percent, power) = match (unit, exponent) {
        ("", _) => (1, 0),
        ("%", _) => (100, 0),
        (_, Some(power)) => (1, power),
        (other, None) => {
            return Err(UnitError::UnknownUnit { text: text.into(), unit: other.into(), known: "%" });
        }
    };
    let of_ten = |power: u32| 10u64.checked_pow(power).ok_or_else(too_large);
    let (up, down) = (power.max(0).unsigned_abs(), power.min(0).unsigned_abs());
    let num = num.checked_mul(of_ten(up)?).ok_or_else(too_large)?;
    let too_small = || UnitError::TooSmall { text: text.into() };
    let den = 10u64.checked_pow(decimals.saturating_add(down)).and_then(|den| den.checked_mul(percent));
    let den = den.ok_or_else(too_small)?;
    Ok(Ratio { num, den })
}

impl fmt::Display for ByteLen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NAMES: [(&str, u64); 4] =
            [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
        for (name, scale) in NAMES {
            if self.0 >= scale {
                return write_scaled(f, self.0, scale, name);
            }
        }
        write!(f, "{} B", self.0)
    }
}

impl fmt::Display for ByteOffset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "byte {}", self.0)
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NAMES: [(&str, u64); 3] = [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000)];
        for (name, scale) in NAMES {
            if self.0 >= scale {
                return write_scaled(f, self.0, scale, name);
            }
        }
        write!(f, "{} ns", self.0)
    }
}

impl fmt::Display for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "t={}.{:09}s", self.0 / 1_000_000_000, self.0 % 1_000_000_000)
    }
}

/// Writes `value / scale` with up to three decimals, trailing zeros dropped.
fn write_scaled(f: &mut fmt::Formatter<'_>, value: u64, scale: u64, name: &str) -> fmt::Result {
    let thousandths = (u128::from(value) * 1000 + u128::from(scale / 2)) / u128::from(scale);
    let (whole, part) = (thousandths / 1000, thousandths % 1000);
    let decimals = match part {
        0 => return write!(f, "{whole} {name}"),
        p if p % 100 == 0 => format!("{}", p / 100),
        p if p % 10 == 0 => format!("{:02}", p / 10),
        p => format!("{p:03}"),
    };
    write!(f, "{whole}.{decimals} {name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_exact() {
        let said = [
            (0, "0 B"),
            (4096, "4 KiB"),
            (3 << 30, "3 GiB"),
            (1 << 40, "1 TiB"),
            (500_000_000, "500 MB"),
            (999_000_000_000, "999 GB"),
            (1_536_000, "1500 KiB"),
            ((1 << 40) + 512, "1099511628288 B"),
        ];
        for (size, text) in said {
            assert_eq!(ByteLen(size).exact(), text);
        }
        for (span, text) in [(0, "0 ns"), (1_500_000, "1500 us"), (7_200_000_000_000, "2 h")] {
            assert_eq!(Span(span).exact(), text);
        }
    }

    #[test]
    fn sizes_parse_with_units() {
        assert_eq!(parse_size("4096").unwrap(), ByteLen(4096));
        assert_eq!(parse_size("512 MiB").unwrap(), ByteLen::mib(512));
        assert_eq!(parse_size("1.5GiB").unwrap(), ByteLen::mib(1536));
        assert_eq!(parse_size("128 GB").unwrap(), ByteLen(128_000_000_000));
        assert_eq!(parse_size("4k").unwrap(), ByteLen(4096));
    }

    #[test]
    fn bad_sizes_name_the_fault() {
        assert!(
            matches!(parse_size("12 parsecs"), Err(UnitError::UnknownUnit { unit, .. }) if unit == "parsecs")
        );
        assert!(matches!(parse_size(""), Err(UnitError::NotANumber { .. })));
        assert!(matches!(parse_size("1.2.3 KiB"), Err(UnitError::NotANumber { .. })));
        assert!(matches!(parse_size("0.3 B"), Err(UnitError::NotWhole { .. })));
        assert!(matches!(parse_size("99999999999 TiB"), Err(UnitError::TooLarge { .. })));
        assert!(matches!(parse_span("25"), Err(UnitError::NoUnit { .. })));
    }

    #[test]
    fn spans_and_ratios_parse_exactly() {
        assert_eq!(parse_span("1.5 ms").unwrap(), Span(1_500_000));
        assert_eq!(parse_span("25us").unwrap(), Span::from_us(25));
        assert_eq!(parse_ratio("0.07").unwrap(), Ratio::new(7, 100));
        assert_eq!(parse_ratio("7 %").unwrap(), Ratio::new(7, 100));
        assert_eq!(parse_ratio("1/16").unwrap(), Ratio::new(1, 16));
        assert_eq!(parse_ratio("1.5e3").unwrap(), Ratio::new(15_000, 10));
        assert_eq!(parse_ratio("2E-2").unwrap(), Ratio::new(2, 100));
        for wrong in ["1/0", "1e400", "1e-400", "1e", "1ex", "1e2147483648", "18446744073709551615e1"] {
            assert!(parse_ratio(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn values_print_as_people_write_them() {
        assert_eq!(ByteLen::mib(1536).to_string(), "1.5 GiB");
        assert_eq!(ByteLen(100).to_string(), "100 B");
        assert_eq!(Span(1_250).to_string(), "1.25 us");
        assert_eq!(Span::from_ms(12_300).to_string(), "12.3 s");
    }

    proptest::proptest! {
        #[test]
        fn any_text_parses_or_errs(text in ".{0,24}") {
            let _ = parse_size(&text);
            let _ = parse_span(&text);
            let _ = parse_ratio(&text);
        }
    }
}
