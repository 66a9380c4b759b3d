//! Reads fields of a text line: whole numbers and fixed-point times, by integer arithmetic only.
//!
//! Eight digits are read at once: a 64-bit load, a mask that finds the first byte that is no digit, and three
//! multiplications. A time never passes through a floating-point number.

use crate::error::{Fault, Why};
use crate::record::RecordError;

const ZEROS: u64 = 0x3030_3030_3030_3030;
/// 10^0 to 10^19.
pub const TEN_POWERS: [u64; 20] = {
    let mut powers = [1u64; 20];
    let mut i = 1;
    while i < 20 {
        powers[i] = powers[i - 1] * 10;
        i += 1;
    }
    powers
};

/// A position in a block of text that ends with a newline.
pub struct Cursor<'a> {
    text: &'a [u8],
    pos: usize,
}

/// A time in ns and whether digits below a nanosecond were rounded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Nanos {
    /// Nanoseconds.
    pub ns: u64,
    /// True when the text had digits below a nanosecond that were not zero.
    pub rounded: bool,
}

impl<'a> Cursor<'a> {
    /// A cursor at the start of `text`.
    pub fn new(text: &'a [u8]) -> Cursor<'a> {
        Cursor { text, pos: 0 }
    }

    /// Bytes from the start of the block.
    #[inline(always)]
    pub fn pos(&self) -> usize {
        self.pos
    }

    /// True at the end of the block.
    #[inline(always)]
    pub fn at_end(&self) -> bool {
        self.pos >= self.text.len()
    }

    /// The byte here, a newline at the end of the block.
    #[inline(always)]
    pub fn peek(&self) -> u8 {
        self.text.get(self.pos).copied().unwrap_or(b'\n')
    }

    /// Moves behind the byte here.
    #[inline(always)]
    pub fn seek_by_one(&mut self) {
        self.pos += 1;
    }

    /// Moves to `pos`.
    pub fn seek(&mut self, pos: usize) {
        self.pos = pos.min(self.text.len());
    }

    /// The rest of this line without its newline.
    pub fn rest_of_line(&self) -> &'a [u8] {
        let rest = self.text.get(self.pos..).unwrap_or_default();
        &rest[..memchr::memchr(b'\n', rest).unwrap_or(rest.len())]
    }

    /// What was read since position `from`.
    #[inline(always)]
    pub fn since(&self, from: usize) -> &'a [u8] {
        self.text.get(from..self.pos).unwrap_or_default()
    }

    /// Moves behind the newline of this line.
    pub fn skip_line(&mut self) {
        self.pos += self.rest_of_line().len() + 1;
    }

    /// A fault here.
    #[inline(always)]
    pub fn fault(&self, field: &'static str, why: Why) -> Fault {
        fault_at(self.pos, field, why)
    }

    /// The next `N` bytes, unless the block ends before.
    #[inline(always)]
    pub fn window<const N: usize>(&self) -> Option<&'a [u8; N]> {
        self.text.get(self.pos..)?.first_chunk::<N>()
    }

    /// Moves on by `count` bytes that were seen to be there.
    #[inline(always)]
    pub fn advance(&mut self, count: usize) {
        self.pos += count;
    }

    /// A fault of the whole record, shown at `at`.
    #[cold]
    #[inline(never)]
    pub fn bounds(at: usize, why: RecordError) -> Fault {
        let field = match why {
            RecordError::Time { .. } | RecordError::Early => "time",
            RecordError::Offset => "offset",
            RecordError::Len { .. } | RecordError::Extent { .. } => "length",
            RecordError::Stream { .. } => "stream",
        };
        Fault { at, field, why: Why::Bounds(why) }
    }

    /// Skips blanks and tabs.
    #[inline(always)]
    pub fn blanks(&mut self) {
        while matches!(self.peek(), b' ' | b'\t') {
            self.pos += 1;
        }
    }

    /// Takes one `separator`; `field` is the one that should follow.
    #[inline(always)]
    pub fn separator(&mut self, separator: u8, field: &'static str) -> Result<(), Fault> {
        if self.peek() != separator {
            return Err(self.fault(
                field,
                Why::Expected(match separator {
                    b',' => "a comma before it",
                    b';' => "a semicolon before it",
                    _ => "a separator before it",
                }),
            ));
        }
        self.pos += 1;
        Ok(())
    }

    /// Takes at least one blank or tab.
    #[inline(always)]
    pub fn gap(&mut self, field: &'static str) -> Result<(), Fault> {
        if !matches!(self.peek(), b' ' | b'\t') {
            return Err(self.fault(field, Why::Expected("a blank before it")));
        }
        self.pos += 1;
        self.blanks();
        Ok(())
    }

    /// Takes the end of the line, after blanks and a carriage return.
    #[inline(always)]
    pub fn end_of_line(&mut self) -> Result<(), Fault> {
        if self.peek() != b'\n' {
            self.blanks();
            if self.peek() == b'\r' {
                self.pos += 1;
            }
            if self.peek() != b'\n' {
                return Err(self.fault("end of line", Why::TrailingText));
            }
        }
        self.pos += 1;
        Ok(())
    }

    /// A run of bytes up to `stop`, a carriage return or the end of the line; not empty.
    #[inline]
    pub fn word(&mut self, stop: u8, field: &'static str) -> Result<&'a [u8], Fault> {
        let from = self.pos;
        while !matches!(self.peek(), b'\n' | b'\r') && self.peek() != stop {
            self.pos += 1;
        }
        if from == self.pos {
            return Err(self.fault(field, Why::Expected("text")));
        }
        Ok(&self.text[from..self.pos])
    }

    /// Up to eight digits here: their value and count. Stays in place when there is none.
    #[inline(always)]
    fn eight_digits(&mut self) -> (u64, u32) {
        let (value, count) = match self.window::<8>() {
            Some(bytes) => digits(u64::from_le_bytes(*bytes)),
            None => few_digits(self.text, self.pos),
        };
        self.pos += count as usize;
        (value, count)
    }

    /// A whole number.
    ///
    /// # Errors
    /// No digit here, or beyond 64 bits.
    #[inline(always)]
    pub fn uint(&mut self, field: &'static str) -> Result<u64, Fault> {
        let (first, count) = self.eight_digits();
        match count {
            0 => Err(self.fault(field, Why::Expected("a whole number"))),
            8 => {
                let (second, count) = self.eight_digits();
                let value = first * TEN_POWERS[count as usize & 15] + second;
                if count < 8 {
                    return Ok(value);
                }
                let (value, pos) = more_digits(self.text, self.pos, value);
                self.pos = pos;
                value.ok_or_else(|| self.fault(field, Why::TooLarge))
            }
            _ => Ok(first),
        }
    }

    /// A whole number that usually has one digit.
    ///
    /// # Errors
    /// As [`Cursor::uint`].
    #[inline(always)]
    pub fn short_uint(&mut self, field: &'static str) -> Result<u64, Fault> {
        match self.text.get(self.pos..).and_then(|rest| rest.first_chunk::<2>()) {
            Some(&[digit @ b'0'..=b'9', next]) if !next.is_ascii_digit() => {
                self.pos += 1;
                Ok(u64::from(digit - b'0'))
            }
            _ => self.uint(field),
        }
    }

    /// A whole number of units of `unit_ns`, as ns.
    ///
    /// # Errors
    /// As [`Cursor::uint`], or [`Why::TimeTooLarge`].
    #[inline(always)]
    pub fn whole_time(&mut self, unit_ns: u64, field: &'static str) -> Result<u64, Fault> {
        let value = self.uint(field)?;
        value.checked_mul(unit_ns).ok_or_else(|| self.fault(field, Why::TimeTooLarge))
    }

    /// A decimal number of units of `unit_ns`, a power of ten up to 10^9, as ns. Digits below a nanosecond round to
    /// the nearest, a half rounds up.
    ///
    /// # Errors
    /// No number here, or beyond 64 bits of ns.
    #[inline(always)]
    pub fn time(&mut self, unit_ns: u64, field: &'static str) -> Result<Nanos, Fault> {
        let whole = self.whole_time(unit_ns, field)?;
        if self.peek() != b'.' {
            return Ok(Nanos { ns: whole, rounded: false });
        }
        self.pos += 1;
        let (part, rounded) = self.fraction(unit_ns);
        match whole.checked_add(part) {
            Some(ns) => Ok(Nanos { ns, rounded }),
            None => Err(self.fault(field, Why::TimeTooLarge)),
        }
    }

    /// The digits after the point, times `unit_ns`.
    #[inline(always)]
    fn fraction(&mut self, unit_ns: u64) -> (u64, bool) {
        let (mut value, mut count) = self.eight_digits();
        if count == 8 && self.peek().is_ascii_digit() {
            value = value * 10 + u64::from(self.peek() - b'0');
            count = 9;
            self.pos += 1;
        }
        // Exact when 10^count divides the unit.
        let scale = TEN_POWERS[count as usize & 15];
        if unit_ns.is_multiple_of(scale) && !self.peek().is_ascii_digit() {
            return (value * (unit_ns / scale), false);
        }
        let (part, rounded, pos) = long_fraction(self.text, self.pos, value, count, unit_ns);
        self.pos = pos;
        (part, rounded)
    }
}

/// Value and count of the digits at the start of eight bytes, the first byte lowest.
#[inline(always)]
fn digits(word: u64) -> (u64, u32) {
    let count = no_digits(word).trailing_zeros() / 8;
    match count {
        0 => (0, 0),
        _ => (leading_value(word, count), count),
    }
}

/// The high bit of the first byte that is no digit, and of some behind it; zero when all eight are digits.
#[inline(always)]
pub fn no_digits(word: u64) -> u64 {
    // A byte is a digit when it is at most 9 here; a carry only reaches bytes behind the first that is none.
    let x = word ^ ZEROS;
    (x.wrapping_add(0x7676_7676_7676_7676) | x) & 0x8080_8080_8080_8080
}

/// Value of the first `count` bytes, 1 to 8, which are digits.
#[inline(always)]
pub fn leading_value(word: u64, count: u32) -> u64 {
    // The digits move to the end, zeros fill the front; then pairs, fours and eights are joined.
    let x = (word ^ ZEROS) << (64 - 8 * count);
    let pairs = x.wrapping_mul(10).wrapping_add(x >> 8) & 0x00FF_00FF_00FF_00FF;
    let fours = pairs.wrapping_mul(100 << 16 | 1) >> 16 & 0x0000_FFFF_0000_FFFF;
    fours.wrapping_mul(10_000 << 32 | 1) >> 32
}

#[cold]
#[inline(never)]
fn fault_at(at: usize, field: &'static str, why: Why) -> Fault {
    Fault { at, field, why }
}

/// The digit at `pos`.
fn digit(text: &[u8], pos: usize) -> Option<u64> {
    text.get(pos).filter(|b| b.is_ascii_digit()).map(|b| u64::from(b - b'0'))
}

/// As `digits`, within eight bytes of the end of the block.
#[cold]
#[inline(never)]
fn few_digits(text: &[u8], pos: usize) -> (u64, u32) {
    let (mut value, mut count) = (0, 0);
    while let Some(digit) = digit(text, pos + count as usize).filter(|_| count < 8) {
        value = value * 10 + digit;
        count += 1;
    }
    (value, count)
}

/// The digits after the sixteenth: the whole value, `None` beyond 64 bits, and where they end.
#[cold]
#[inline(never)]
fn more_digits(text: &[u8], mut pos: usize, value: u64) -> (Option<u64>, usize) {
    let mut value = Some(value);
    while let Some(digit) = digit(text, pos) {
        value = value.and_then(|v| v.checked_mul(10)?.checked_add(digit));
        pos += 1;
    }
    (value, pos)
}

/// A fraction with digits below a nanosecond: `value` holds the first `count`. Returns ns, whether rounded, the end.
#[cold]
#[inline(never)]
fn long_fraction(
    text: &[u8],
    mut pos: usize,
    value: u64,
    mut count: u32,
    unit_ns: u64,
) -> (u64, bool, usize) {
    let (mut value, mut lost) = (u128::from(value), false);
    while let Some(digit) = digit(text, pos) {
        if count < 19 {
            value = value * 10 + u128::from(digit);
            count += 1;
        } else {
            lost |= digit != 0;
        }
        pos += 1;
    }
    let scale = u128::from(TEN_POWERS[count as usize]);
    let scaled = value * u128::from(unit_ns);
    let ns = (scaled + scale / 2) / scale;
    (ns as u64, lost || !scaled.is_multiple_of(scale), pos)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uint(text: &str) -> Result<u64, Fault> {
        Cursor::new(text.as_bytes()).uint("n")
    }

    fn ns(text: &str, unit: u64) -> Nanos {
        let text = format!("{text},\n");
        let mut c = Cursor::new(text.as_bytes());
        let got = c.time(unit, "t").unwrap();
        assert_eq!(c.peek(), b',', "{text}");
        got
    }

    #[test]
    fn numbers_of_every_length() {
        let digits = "18446744073709551615";
        for n in 1..=20 {
            for tail in ["", "\n", " 77777777777\n", ",x", "/1111111", ":1111111"] {
                assert_eq!(
                    uint(&format!("{}{tail}", &digits[..n])).unwrap(),
                    digits[..n].parse::<u64>().unwrap()
                );
            }
        }
        assert_eq!(uint("00000000000000000000000042 ").unwrap(), 42);
        assert_eq!(uint("18446744073709551616").unwrap_err().why, Why::TooLarge);
        assert!(matches!(uint("-1").unwrap_err().why, Why::Expected(_)));
        assert!(matches!(uint("").unwrap_err().why, Why::Expected(_)));
    }

    #[test]
    fn times_are_exact() {
        let exact = |ns| Nanos { ns, rounded: false };
        assert_eq!(ns("1455591804.310701000", 1_000_000_000), exact(1_455_591_804_310_701_000));
        assert_eq!(ns("0.026214", 1_000_000_000), exact(26_214_000));
        assert_eq!(ns("5265.313", 1_000_000), exact(5_265_313_000));
        assert_eq!(ns("12434.375000", 1_000), exact(12_434_375));
        assert_eq!(ns("7", 1_000_000), exact(7_000_000));
        assert_eq!(ns("7.", 1_000_000), exact(7_000_000));
        assert_eq!(ns("0.1234567890", 1_000_000_000), exact(123_456_789));
        // 0.1 + 0.2 and other values that a double does not hold.
        assert_eq!(ns("9007199254.740993001", 1_000_000_000), exact(9_007_199_254_740_993_001));
    }

    #[test]
    fn digits_below_a_nanosecond_round_and_say_so() {
        let rounded = |ns| Nanos { ns, rounded: true };
        assert_eq!(ns("5251.1860524", 1_000), rounded(5_251_186));
        assert_eq!(ns("0.0000000005", 1_000_000_000), rounded(1));
        assert_eq!(ns("0.0000000004", 1_000_000_000), rounded(0));
        assert_eq!(ns("0.9999999999999999999999999", 1_000_000_000), rounded(1_000_000_000));
        assert_eq!(ns("0.00000000000000000000000001", 1_000_000_000), rounded(0));
    }

    #[test]
    fn a_time_beyond_64_bits_is_an_error() {
        let why = |text: &str| Cursor::new(text.as_bytes()).time(1_000_000_000, "t").unwrap_err().why;
        assert_eq!(why("18446744074\n"), Why::TimeTooLarge);
        assert_eq!(why("18446744073.8\n"), Why::TimeTooLarge);
    }

    proptest::proptest! {
        #[test]
        fn numbers_agree_with_the_standard_library(n: u64, tail in "[^0-9]{0,9}") {
            assert_eq!(uint(&format!("{n}{tail}")).unwrap(), n);
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>) {
            let mut c = Cursor::new(&bytes);
            let _ = c.time(1_000_000_000, "t");
            let _ = c.uint("n");
            let _ = c.word(b',', "w");
            let _ = c.end_of_line();
        }

        #[test]
        fn fractions_agree_with_wide_arithmetic(n in 0u64..1 << 53, digits in 1usize..19, unit in 0u32..10) {
            let frac = format!("{:018}", n % 1_000_000_000_000_000_000);
            let unit = 10u64.pow(unit);
            let got = ns(&format!("3.{}", &frac[..digits]), unit);
            let (value, ten) = (frac[..digits].parse::<u128>().unwrap() * u128::from(unit), 10u128.pow(digits as u32));
            assert_eq!(u128::from(got.ns), 3 * u128::from(unit) + (value + ten / 2) / ten);
            assert_eq!(got.rounded, value % ten != 0);
        }
    }
}
