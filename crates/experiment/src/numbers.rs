//! Numbers of things as people type them.

/// A number of things: `24000`, `24_000`, `2.4e4`, as long as it is whole.
///
/// # Errors
/// It is not.
pub fn count(text: &str) -> Result<u64, String> {
    let wrong = || format!("`{text}` is not a whole number; write for example 24000, 24_000 or 2.4e4");
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
///
/// # Errors
/// It is not.
pub fn some(text: &str) -> Result<u64, String> {
    match count(text)? {
        0 => Err("at least 1 is needed".into()),
        n => Ok(n),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
