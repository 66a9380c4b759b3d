//! Figures with a unit, exactly: decimals are whole numbers of billionths, so no reading depends on rounding.

/// Digits behind the point.
const DIGITS: usize = 9;
/// One, in billionths.
const ONE: i128 = 1_000_000_000;
/// Larger figures are no figure of a stack.
const MOST: i128 = 1_000_000_000_000_000_000_000_000_000;

/// A decimal number of at most nine digits behind its point.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Decimal(i128);

impl Decimal {
    /// The number at the start of `text`, and what stands behind it.
    pub fn split(text: &str) -> Option<(Decimal, &str)> {
        let text = text.trim();
        let (negative, digits) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
        let end = digits.find(|c: char| !c.is_ascii_digit() && c != '.' && c != '_').unwrap_or(digits.len());
        let (number, unit) = digits.split_at(end);
        let number = number.replace('_', "");
        let (whole, part) = number.split_once('.').unwrap_or((&number, ""));
        if whole.is_empty()
            || part.len() > DIGITS
            || part.contains('.')
            || (part.is_empty() && number.contains('.'))
        {
            return None;
        }
        let whole: i128 = whole.parse::<i128>().ok().filter(|n| *n < MOST / ONE)?;
        let part: i128 = format!("{part:0<DIGITS$}").parse().ok()?;
        let value = whole * ONE + part;
        Some((Decimal(if negative { -value } else { value }), unit.trim()))
    }

    /// This many times `scale` as a whole number; `None` when it is none, is negative or does not fit.
    pub fn times(self, scale: u64) -> Option<u64> {
        let product = self.0.checked_mul(i128::from(scale))?;
        (product % ONE == 0).then(|| u64::try_from(product / ONE).ok())?
    }

    fn plus(self, other: Decimal) -> Option<Decimal> {
        Some(Decimal(self.0 + other.0)).filter(|d| d.0.abs() < MOST)
    }

    fn by(self, factor: Decimal) -> Option<Decimal> {
        let product = self.0.checked_mul(factor.0)?;
        Some(Decimal(product / ONE)).filter(|d| d.0.abs() < MOST && product % ONE == 0)
    }
}

impl std::fmt::Display for Decimal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (whole, part) = (self.0.abs() / ONE, self.0.abs() % ONE);
        let sign = if self.0 < 0 { "-" } else { "" };
        let part = format!("{part:0DIGITS$}");
        let part = part.trim_end_matches('0');
        match part.is_empty() {
            true => write!(f, "{sign}{whole}"),
            false => write!(f, "{sign}{whole}.{part}"),
        }
    }
}

/// How a range goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pace<'a> {
    /// By adding.
    By(&'a str),
    /// By multiplying.
    Times(&'a str),
}

/// From `from` to `to`, both included: texts in the unit of the ends. Err: what is wrong.
pub fn range(from: &str, to: &str, pace: Pace<'_>, most: usize) -> Result<Vec<String>, String> {
    let read = |text| -> Result<(Decimal, &str), String> {
        Decimal::split(text).ok_or_else(|| format!("`{text}` is not a number with or without a unit"))
    };
    let ((first, unit), (last, last_unit)) = (read(from)?, read(to)?);
    let (Pace::By(text) | Pace::Times(text)) = pace;
    let (step, step_unit) = read(text)?;
    if unit != last_unit {
        return Err(format!("`{from}` and `{to}` have different units"));
    }
    let next = |at: Decimal| match pace {
        Pace::By(_) => at.plus(step),
        Pace::Times(_) => at.by(step),
    };
    match pace {
        Pace::By(_) if step_unit != unit => {
            return Err(format!("`{from}` and the step `{text}` have different units"));
        }
        Pace::By(_) if step.0 == 0 || (step.0 > 0) != (last >= first) => {
            return Err(format!("steps of `{text}` do not lead from `{from}` to `{to}`"));
        }
        Pace::Times(_) if !step_unit.is_empty() || step.0 <= ONE || first.0 <= 0 || last < first => {
            return Err(format!(
                "a factor of `{text}` does not lead from `{from}` to `{to}`: it is above 1, the ends above 0"
            ));
        }
        _ => {}
    }
    let inside = |at: &Decimal| if last >= first { *at <= last } else { *at >= last };
    let mut out = Vec::new();
    let mut at = Some(first);
    while let Some(value) = at.filter(inside) {
        if out.len() == most {
            return Err(format!("more than {most} steps from `{from}` to `{to}`"));
        }
        out.push(if unit.is_empty() { value.to_string() } else { format!("{value} {unit}") });
        at = next(value);
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_exact() {
        let read = |text| Decimal::split(text).map(|(d, unit)| (d.to_string(), unit.to_string()));
        assert_eq!(read("1.50 GiB"), Some(("1.5".into(), "GiB".into())));
        assert_eq!(read("-0.001"), Some(("-0.001".into(), String::new())));
        assert_eq!(read("1_000s"), Some(("1000".into(), "s".into())));
        for wrong in
            ["", "GiB", ".5", "1.", "1.2.3", "1.1234567890", "99999999999999999999999999999999999999999"]
        {
            assert_eq!(read(wrong), None, "{wrong}");
        }
        assert_eq!(Decimal::split("1.5").unwrap().0.times(1000), Some(1500));
        assert_eq!(Decimal::split("0.0015").unwrap().0.times(1000), None);
        assert_eq!(Decimal::split("-1").unwrap().0.times(1), None);
    }

    #[test]
    fn ranges_have_both_ends_and_the_unit() {
        assert_eq!(
            range("2 s", "10 s", Pace::By("4 s"), 9),
            Ok(vec!["2 s".into(), "6 s".into(), "10 s".into()])
        );
        assert_eq!(
            range("0.1", "0.3", Pace::By("0.1"), 9),
            Ok(vec!["0.1".into(), "0.2".into(), "0.3".into()])
        );
        assert_eq!(range("3", "1", Pace::By("-1"), 9), Ok(vec!["3".into(), "2".into(), "1".into()]));
        assert_eq!(
            range("1 MiB", "9 MiB", Pace::Times("3"), 9),
            Ok(vec!["1 MiB".into(), "3 MiB".into(), "9 MiB".into()])
        );
        for (from, to, pace) in [
            ("1", "3", Pace::By("0")),
            ("1", "3", Pace::By("-1")),
            ("1 s", "3 ms", Pace::By("1 s")),
            ("1", "3", Pace::Times("1")),
            ("0", "3", Pace::Times("2")),
            ("1", "100", Pace::By("1")),
            ("a", "b", Pace::By("1")),
        ] {
            assert!(range(from, to, pace, 9).is_err(), "{from} {to} {pace:?}");
        }
    }
}
