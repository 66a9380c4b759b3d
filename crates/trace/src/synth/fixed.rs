//! Logarithm and power by integer arithmetic: the same bits on every machine.
//!
//! The system's `ln` and `exp` may differ in the last bit, and one bit reorders a simulation. Here log2 comes from
//! repeated squaring and 2^-y from a product of square roots, both in fixed point.
//!
//! Both are loops of 32 steps, so each has a short way by tables that gives the same bits. It is closer to the true value than
//! the bits it is asked for, and so is the loop; where the true value lies so near to a step of the result that they might
//! fall on either side of it, the loop decides. `log2`: two factors from tables bring the mantissa to 1 + z with z below 2^-16,
//! three terms of the series do the rest, all within 2^-53; the loop cuts below 2^-60. 2^-y: one factor for each
//! byte of the fraction.

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

/// The first `bits` fraction bits of log2 of a `mantissa` in [1, 2), in units of 2^-63.
const fn fraction_by_squaring(mut mantissa: u64, bits: u32) -> u64 {
    let (mut log, mut i) = (0, 0);
    while i < bits {
        // The square lies in [1, 4).
        let square = (mantissa as u128 * mantissa as u128) >> 63;
        let two = (square >> 64) as u64 & 1;
        mantissa = (square >> two) as u64;
        log = log << 1 | two;
        i += 1;
    }
    log
}

/// Fraction bits of the logarithms in the tables.
const FINE_BITS: u32 = 56;
/// The logarithm by tables and that by squaring differ by less than this, in units of 2^-56.
const UNSURE: u64 = 1 << 6;
/// 1.0 in units of 2^-63.
const ONE: u64 = 1 << 63;
/// Least product of a mantissa with its first factor: 1 - 2^-9.
const FIRST_LEAST: u64 = ONE - (1 << 54);

/// A factor, in units of 2^-63, and minus its log2, in units of 2^-56.
type Factor = (u64, i64);

/// One over `c`, which is near 1 or above.
const fn one_over(c: u64) -> Factor {
    let factor = ((1u128 << 126) / c as u128) as u64;
    let log = match factor >= ONE {
        true => fraction_by_squaring(factor, FINE_BITS) as i64,
        false => fraction_by_squaring(factor << 1, FINE_BITS) as i64 - (1 << FINE_BITS),
    };
    (factor, -log)
}

/// For each first 8 bits of a mantissa one over their middle.
const FIRST: [Factor; 256] = {
    let mut table = [(0, 0); 256];
    let mut i = 0;
    while i < table.len() {
        table[i] = one_over(ONE + ((2 * i as u64 + 1) << 54));
        i += 1;
    }
    table
};

/// For each step of 2^-17 above [`FIRST_LEAST`] one over its middle.
const SECOND: [Factor; 516] = {
    let mut table = [(0, 0); 516];
    let mut i = 0;
    while i < table.len() {
        table[i] = one_over(FIRST_LEAST + ((i as u64) << 46) + (1 << 45));
        i += 1;
    }
    table
};

/// 1 / ln 2 in units of 2^-62.
const ONE_OVER_LN2: i128 = 6_653_256_548_922_161_245;

/// log2 of `x`, which is at least 1, in units of 2^-32, cut. The error is below 2^-31.
#[inline]
pub fn log2(x: u64) -> u64 {
    assert!(x != 0, "zero has no logarithm");
    let whole = x.ilog2();
    let mantissa = x << (63 - whole);
    let fine = fine_log2(mantissa);
    let below = fine & ((1 << (FINE_BITS - LOG_BITS)) - 1);
    let sure = (UNSURE..(1 << (FINE_BITS - LOG_BITS)) - UNSURE).contains(&below);
    let fraction = match sure {
        true => fine >> (FINE_BITS - LOG_BITS),
        false => fraction_by_squaring(mantissa, LOG_BITS),
    };
    u64::from(whole) << LOG_BITS | fraction
}

/// log2 of a mantissa in [1, 2), in units of 2^-56, by tables.
#[inline]
fn fine_log2(mantissa: u64) -> u64 {
    let (factor, log) = FIRST[(mantissa >> 55) as usize & 255];
    let near = ((u128::from(mantissa) * u128::from(factor)) >> 63) as u64;
    let (factor, more) = SECOND[(near.wrapping_sub(FIRST_LEAST) >> 46) as usize % SECOND.len()];
    let z = (((u128::from(near) * u128::from(factor)) >> 63) as u64).wrapping_sub(ONE) as i64;
    let square = ((i128::from(z) * i128::from(z)) >> 63) as i64;
    let cube = ((i128::from(square) * i128::from(z)) >> 63) as i64;
    let series = z - (square >> 1) + cube / 3;
    let rest = ((i128::from(series) * ONE_OVER_LN2) >> (62 + 63 - FINE_BITS)) as i64;
    // Just below 1 the sum may be negative: then the loop decides, as for every value near a step.
    (log + more + rest).max(0) as u64
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

/// For each byte of the fraction of y, from the first, and each of its values 2^-y.
const POWERS: [[u64; 256]; 4] = {
    let mut table = [[ONE; 256]; 4];
    let mut byte = 0;
    while byte < 4 {
        let mut value = 0;
        while value < 256 {
            let (mut product, mut bit) = (ONE, 0);
            while bit < 8 {
                if value >> (7 - bit) & 1 == 1 {
                    product = ((product as u128 * ROOTS[8 * byte + bit] as u128) >> 63) as u64;
                }
                bit += 1;
            }
            table[byte][value] = product;
            value += 1;
        }
        byte += 1;
    }
    table
};

/// `exp2_negative(y) >> shift`, for a `shift` from 16 to 63.
#[inline]
pub fn exp2_negative_cut(y: u64, shift: u32) -> u64 {
    /// Products of up to 32 cut factors, each within one unit, differ by less.
    const UNSURE: u64 = 256;
    debug_assert!((16..64).contains(&shift));
    let whole = y >> LOG_BITS;
    let shift_all = u64::from(shift) + whole;
    if shift_all > 63 {
        return exp2_negative(y) >> shift;
    }
    let times = |a: u64, b: u64| ((u128::from(a) * u128::from(b)) >> 63) as u64;
    let [d, c, b, a] = (y as u32).to_le_bytes().map(usize::from);
    let power = times(times(POWERS[0][a], POWERS[1][b]), times(POWERS[2][c], POWERS[3][d]));
    let below = power & ((1 << shift_all) - 1);
    match (UNSURE..(1 << shift_all) - UNSURE).contains(&below) {
        true => power >> shift_all,
        false => exp2_negative(y) >> shift,
    }
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
    fn the_short_ways_give_the_bits_of_the_long_ones() {
        let mut rng = Rng::new(13);
        let slow = |x: u64| {
            let whole = x.ilog2();
            u64::from(whole) << LOG_BITS | fraction_by_squaring(x << (63 - whole), LOG_BITS)
        };
        let drawn = (0..300_000).map(|_| (rng.bits() >> rng.below(64)).max(1)).collect::<Vec<_>>();
        let edges = (0..64).flat_map(|n| [1u64 << n, (1 << n) - 1, (1 << n) + 1]).chain([u64::MAX]);
        for x in drawn.iter().copied().chain(1..20_000).chain(edges.filter(|&x| x > 0)) {
            assert_eq!(log2(x), slow(x), "seed 13: log2({x})");
        }
        for x in drawn {
            let (y, shift) = (x % (70 << 32), 16 + (x >> 50) as u32 % 48);
            assert_eq!(exp2_negative_cut(y, shift), exp2_negative(y) >> shift, "seed 13: 2^-{y} >> {shift}");
        }
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
