//! Logarithm and power by integer arithmetic: the same bits on every machine.
//!
//! The system's `ln` and `exp` may differ in the last bit, and one bit reorders a simulation. Here log2 comes from
//! repeated squaring and 2^-y from a product of square roots, both in fixed point.

/// Fraction bits of a logarithm.
pub const LOG_BITS: u32 = 32;
/// ln 2 in units of 2^-64, cut.
const LN2_64: u128 = 0xB172_17F7_D1CF_79AB;

/// 2^(-2^-i) for i = 1, 2, ..., in units of 2^-63: each the square root of the one before.
const ROOTS: [u64; LOG_BITS as usize] = {
    let mut roots = [0u64; LOG_BITS as usize];
    let mut above: u128 = 1 << 62;
    let mut i = 0;
    while i < roots.len() {
        above = (above << 63).isqrt();
        roots[i] = above as u64;
        i += 1;
    }
    roots
};

/// log2 of `x`, which is at least 1, in units of 2^-32, cut. The error is below 2^-31.
pub fn log2(x: u64) -> u64 {
    assert!(x != 0, "zero has no logarithm");
    let whole = x.ilog2();
    let mut mantissa = x << (63 - whole);
    let mut log = u64::from(whole);
    for _ in 0..LOG_BITS {
        // The mantissa lies in [1, 2) in units of 2^-63; its square in [1, 4).
        let square = (u128::from(mantissa) * u128::from(mantissa)) >> 63;
        let two = (square >> 64) as u64 & 1;
        mantissa = (square >> two) as u64;
        log = log << 1 | two;
    }
    log
}

/// 2^-y for `y` in units of 2^-32; the result in units of 2^-63, with a relative error below 2^-30.
pub fn exp2_negative(y: u64) -> u64 {
    let whole = y >> LOG_BITS;
    if whole > 63 {
        return 0;
    }
    let mut product: u64 = 1 << 63;
    for (i, &root) in ROOTS.iter().enumerate() {
        if y >> (LOG_BITS as usize - 1 - i) & 1 == 1 {
            product = ((u128::from(product) * u128::from(root)) >> 63) as u64;
        }
    }
    product >> whole
}

/// A time with mean `mean_ns` and exponential distribution, from 64 random bits. At most 44.4 times the mean.
pub fn exponential(mean_ns: u64, bits: u64) -> u64 {
    // -ln(u) = (64 - log2(bits)) * ln 2 for u = bits / 2^64.
    let minus_log2 = (64u64 << LOG_BITS) - log2(bits.max(1));
    let minus_ln = (u128::from(minus_log2) * LN2_64) >> 64;
    let ns = (u128::from(mean_ns) * minus_ln) >> LOG_BITS;
    u64::try_from(ns).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandu_base::Rng;

    #[test]
    fn logarithms_and_powers_agree_with_floating_point() {
        let mut rng = Rng::new(11);
        for _ in 0..20_000 {
            let x = rng.bits() >> rng.below(64);
            let log = log2(x.max(1)) as f64 / 2f64.powi(32);
            assert!((log - (x.max(1) as f64).log2()).abs() < 1e-9, "seed 11: log2({x}) = {log}");
            let y = rng.below(30 << 32);
            let (power, expected) =
                (exp2_negative(y) as f64 / 2f64.powi(63), (-(y as f64) / 2f64.powi(32)).exp2());
            assert!((power / expected - 1.0).abs() < 1e-8, "seed 11: 2^-{y} = {power}");
        }
        assert_eq!((log2(1), log2(8), exp2_negative(0)), (0, 3 << 32, 1 << 63));
    }

    #[test]
    fn exponential_times_have_their_mean_and_spread() {
        let mut rng = Rng::new(12);
        let (n, mean) = (200_000u64, 1_000_000u64);
        let times: Vec<u64> = (0..n).map(|_| exponential(mean, rng.bits())).collect();
        let sum: u64 = times.iter().sum();
        assert!((sum / n).abs_diff(mean) < mean / 100, "seed 12: mean {}", sum / n);
        // e^-1 of the times exceed the mean, e^-3 three means.
        let beyond = |k: u64| times.iter().filter(|&&t| t > k * mean).count() as f64 / n as f64;
        assert!((beyond(1) - 0.3679).abs() < 0.005 && (beyond(3) - 0.0498).abs() < 0.003, "seed 12");
        assert_eq!(exponential(u64::MAX, 0), u64::MAX);
    }
}
