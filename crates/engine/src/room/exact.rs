//! Exact comparisons on rates, ratios and z: cross-multiplied integers, never a division, a root or a float.
//!
//! Notation: n, Σc, Σc² of the baseline; A = count_10s·n − 100·Σc, so that rate_10s − baseline = A / (10·n) per second;
//! M = max(10^7·Σc, floor·n) with the floor in millionths, so that max(baseline, floor) = M / (n·10^6);
//! S = max(10^7·(n·Σc² − (Σc)²), M·n), so that sigma² = S / (n²·10^6).

use crate::features::Baseline;
use crate::fixed::{Fixed, ONE};
use std::cmp::Ordering;

/// The last ten seconds against a baseline, ready to be compared. Formulas: semantics §2.
///
/// Factors are kept in 64 bits, because a product of two such is exact in 128 without a check, and this runs for every
/// hot room in every slot. More than 9·10^11 events in a baseline count as so many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Excess {
    baseline: Baseline,
    excess: i64,
    base: i64,
}

/// A sum of events as a factor.
fn events(sum: u64) -> i64 {
    i64::try_from(sum).unwrap_or(i64::MAX).min(900_000_000_000)
}

/// M: the baseline, at least the floor, × n·10^6.
fn floored(baseline: &Baseline, floor: Fixed) -> i64 {
    let least = floor.0.saturating_mul(i64::from(baseline.n));
    (events(baseline.sum) * 10_000_000).max(least)
}

/// Exact product of two 64-bit factors.
pub(super) fn wide(a: i64, b: i64) -> i128 {
    i128::from(a) * i128::from(b)
}

/// 256-bit product as (high, low), by schoolbook multiplication of 64-bit halves.
fn product(a: u128, b: u128) -> (u128, u128) {
    const LOW: u128 = u64::MAX as u128;
    let (a1, a0, b1, b0) = (a >> 64, a & LOW, b >> 64, b & LOW);
    let low = a0 * b0;
    let mid = a1 * b0 + (low >> 64);
    let mid2 = a0 * b1 + (mid & LOW);
    (a1 * b1 + (mid >> 64) + (mid2 >> 64), (mid2 << 64) | (low & LOW))
}

impl Excess {
    /// `floor`: the baseline counts as at least this, per second.
    #[must_use]
    pub fn new(count_10s: u32, baseline: &Baseline, floor: Fixed) -> Self {
        let excess = i64::from(count_10s) * i64::from(baseline.n) - 100 * events(baseline.sum);
        Self { baseline: *baseline, excess, base: floored(baseline, floor) }
    }

    /// S: sigma², at least max(baseline, floor), × n²·10^6.
    fn spread(&self) -> u128 {
        let (n, sum) = (i128::from(self.baseline.n), i128::from(self.baseline.sum));
        let squares = n.saturating_mul(i128::from(self.baseline.sumsq));
        let variance = squares.saturating_sub(sum.saturating_mul(sum));
        let least = i128::from(self.base).saturating_mul(n);
        variance.saturating_mul(10_000_000).max(least).max(0).unsigned_abs()
    }

    /// burst_ratio against a threshold: A·10^5 / M against r, as A·10^11 against r_millionths·M.
    #[must_use]
    pub fn ratio_cmp(&self, ratio: Fixed) -> Ordering {
        wide(self.excess, 100_000 * ONE).cmp(&wide(ratio.0, self.base))
    }

    /// `z > threshold`: (A / 10n)² > k²·sigma²·d·(1/10 + 1/60), as A²·6·10^5·10^18 > 7·k²·d·S with k and d in
    /// millionths, both sides as 256-bit products. Without any spread a rise is infinite and no rise is none.
    #[must_use]
    pub fn z_above(&self, z: Fixed, dispersion: Fixed) -> bool {
        let k = u128::from(z.0.unsigned_abs());
        let d = u128::try_from(dispersion.0).unwrap_or(0);
        let a = u128::from(self.excess.unsigned_abs());
        let left = product(a.saturating_mul(a), 600_000 * 1_000_000_000_000_000_000);
        let right = product(k.saturating_mul(k).saturating_mul(d), self.spread().saturating_mul(7));
        match (self.excess > 0, z.0 >= 0) {
            (true, true) => left > right,
            (true, false) => true,
            (false, true) => false,
            (false, false) => left < right,
        }
    }

    /// burst_ratio in millionths, rounded down; 0 where there is nothing to divide by.
    #[must_use]
    pub fn ratio_millionths(&self) -> i64 {
        if self.base <= 0 {
            return 0;
        }
        let r = wide(self.excess, 100_000 * ONE).div_euclid(self.base.into());
        i64::try_from(r).unwrap_or(if r < 0 { i64::MIN } else { i64::MAX })
    }

    /// burst_ratio in thousandths, rounded half up.
    #[must_use]
    pub fn ratio_milli(&self) -> i64 {
        if self.base <= 0 {
            return 0;
        }
        let base = i128::from(self.base);
        let twice = wide(self.excess, 200_000_000) + base;
        i64::try_from(twice.div_euclid(2 * base)).unwrap_or(i64::MAX)
    }

    /// sigma² in thousandths, rounded half up.
    #[must_use]
    pub fn sigma_squared_milli(&self) -> i64 {
        let den = u128::from(self.baseline.n) * u128::from(self.baseline.n) * 1_000;
        if den == 0 {
            return 0;
        }
        let twice = self.spread().saturating_mul(2).saturating_add(den);
        i64::try_from(twice / (2 * den)).unwrap_or(i64::MAX)
    }

    /// z in thousandths, rounded half up in magnitude; none where sigma is 0. The largest m with
    /// (2m − 1)²·7·d·S ≤ 4·A²·6·10^17 is searched for, so that no root is taken.
    #[must_use]
    pub fn z_milli(&self, dispersion: Fixed) -> Option<i64> {
        let d = u128::try_from(dispersion.0).unwrap_or(0);
        let scale = d.saturating_mul(7).saturating_mul(self.spread());
        if scale == 0 {
            return None;
        }
        let a = u128::from(self.excess.unsigned_abs());
        let target = product(a.saturating_mul(a), 2_400_000_000_000_000_000);
        let (mut low, mut high) = (0_u64, 1 << 62);
        while low < high {
            let m = low + (high - low).div_ceil(2);
            let odd = u128::from(2 * m - 1);
            if product(odd * odd, scale) <= target {
                low = m;
            } else {
                high = m - 1;
            }
        }
        let m = i64::try_from(low).unwrap_or(i64::MAX);
        Some(if self.excess < 0 { -m } else { m })
    }
}

/// A rate `count` over `slots` slots against a threshold per second: count·10·10^6 against t_millionths·slots.
#[must_use]
pub fn rate_cmp(count: u64, slots: u64, threshold: Fixed) -> Ordering {
    let (count, slots) = (i64::try_from(count), i64::try_from(slots));
    let left = wide(count.unwrap_or(i64::MAX), 10 * ONE);
    left.cmp(&wide(threshold.0, slots.unwrap_or(i64::MAX)))
}

/// `count_1s > ratio × max(baseline, floor)`, as count·n·10^12 > ratio_millionths·M.
#[must_use]
pub fn second_above(count_1s: u32, baseline: &Baseline, floor: Fixed, ratio: Fixed) -> bool {
    let left = wide(i64::from(count_1s) * i64::from(baseline.n), ONE * ONE);
    left > wide(ratio.0, floored(baseline, floor))
}

/// A rate in thousandths per second, rounded half up.
#[must_use]
pub fn rate_milli(count: u64, slots: u64) -> i64 {
    let (count, slots) = (u128::from(count), u128::from(slots.max(1)));
    i64::try_from((20_000 * count + slots) / (2 * slots)).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    //! The comparisons against the formulas of semantics §2 as plain fractions, at and around their edges.
    use super::*;

    /// (excess, n, max(10·Σc, n), n²·sigma²) for a floor of 1 per second; all exact.
    fn parts(count_10s: u32, b: &Baseline) -> (i128, i128, i128, i128) {
        let (n, s, q) = (i128::from(b.n), i128::from(b.sum), i128::from(b.sumsq));
        let floored = (10 * s).max(n);
        let sigma = (10 * (n * q - s * s)).max(n * floored);
        (i128::from(count_10s) * n - 100 * s, n, floored, sigma)
    }

    #[test]
    fn products_have_256_bits() {
        assert_eq!(product(u128::MAX, u128::MAX), (u128::MAX - 1, 1));
        assert_eq!(product(1 << 64, 1 << 64), (1, 0));
        assert_eq!(product(u128::MAX, 2), (1, u128::MAX - 1));
        let (a, b) = (0x1234_5678_9abc_def0_u128, 0xfedc_ba98_7654_3210_u128);
        assert_eq!(product(a, b), (0, a * b));
    }

    #[test]
    fn comparisons_equal_fractions_on_random_sums() {
        let mut seed = 1_u64;
        let mut below = |n: u64| {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % n
        };
        let d = Fixed::milli(1_600);
        for case in 0..20_000 {
            let n = 300 + below(301);
            let sum = below(20_000);
            // Σc² is at least (Σc)² / n, and up to some multiples of it.
            let sumsq = (sum * sum).div_ceil(n) + below(2 * sum + 1);
            let b = Baseline { n: n as u16, sum, sumsq };
            let count = below(8_000) as u32;
            let x = Excess::new(count, &b, Fixed::int(1));
            let (a, n, floored, sigma) = parts(count, &b);
            // ratio = (a / 10n) / (floored / n); around its own value in thousandths, and at its edge.
            for r in x.ratio_milli() - 1..=x.ratio_milli() + 1 {
                let expected = (a * 1_000).cmp(&(i128::from(r) * 10 * floored));
                assert_eq!(x.ratio_cmp(Fixed::milli(r)), expected, "case {case}, ratio {r}");
            }
            // z² = (a / 10n)² / (sigma/n² · 8/5 · 7/60) = 300·a² / (100·56·sigma), signed.
            let z = x.z_milli(d).expect("some spread");
            for k in z - 1..=z + 1 {
                let (left, right) = (a * a * 300 * 1_000_000, 5_600 * sigma * i128::from(k * k));
                let expected = match (a > 0, k >= 0) {
                    (true, true) => left > right,
                    (true, false) => true,
                    (false, true) => false,
                    (false, false) => left < right,
                };
                assert_eq!(x.z_above(Fixed::milli(k), d), expected, "case {case}, z {k}");
            }
            // Rounded half up: z lies between two halves of thousandths.
            let odd = |m: i64| i128::from(2 * m.abs() + 1) * i128::from(2 * m.abs() + 1);
            let four = a * a * 1_200 * 1_000_000;
            assert!(four < 5_600 * sigma * odd(z), "case {case}");
            assert!(z == 0 || four >= 5_600 * sigma * odd(z.abs() - 1), "case {case}");
            let sigma_milli = (2_000 * sigma + n * n) / (2 * n * n);
            assert_eq!(i128::from(x.sigma_squared_milli()), sigma_milli, "case {case}");
            // count_1s > 4 × max(baseline, 1)
            let second = (count / 10) as i128;
            let above = second * n > 4 * floored;
            assert_eq!(second_above(count / 10, &b, Fixed::int(1), Fixed::int(4)), above);
        }
    }

    #[test]
    fn edges_are_strict_and_nothing_is_divided_by_nothing() {
        // 120/s, and 360/s are a ratio of exactly 2.
        let b = Baseline { n: 600, sum: 7_200, sumsq: 86_400 };
        let at = |count| Excess::new(count, &b, Fixed::int(1)).ratio_cmp(Fixed::int(2));
        assert_eq!(
            [at(3_599), at(3_600), at(3_601)],
            [Ordering::Less, Ordering::Equal, Ordering::Greater]
        );
        let empty = Excess::new(10, &Baseline::default(), Fixed::int(1));
        assert_eq!(
            (empty.ratio_milli(), empty.ratio_millionths(), empty.z_milli(Fixed::int(1))),
            (0, 0, None)
        );
        // No floor and no spread: a rise is infinite, none is none.
        let still = Baseline { n: 600, sum: 0, sumsq: 0 };
        assert!(Excess::new(1, &still, Fixed(0)).z_above(Fixed::int(4), Fixed::int(1)));
        assert!(!Excess::new(0, &still, Fixed(0)).z_above(Fixed::int(4), Fixed::int(1)));
    }

    #[test]
    fn no_sums_and_no_thresholds_overflow() {
        let wide = [0, 1, u64::from(u32::MAX), u64::MAX];
        let thresholds = [i64::MIN, -1, 0, 1, ONE, i64::MAX].map(Fixed);
        for sum in wide {
            for sumsq in wide {
                for t in thresholds {
                    let b = Baseline { n: u16::MAX, sum, sumsq };
                    let x = Excess::new(u32::MAX, &b, t);
                    let _ = (x.ratio_cmp(t), x.z_above(t, t), x.z_milli(t));
                    let _ = (x.ratio_milli(), x.ratio_millionths(), x.sigma_squared_milli());
                    let _ = (second_above(u32::MAX, &b, t, t), rate_cmp(u64::MAX, 600, t));
                }
            }
        }
        assert_eq!(rate_milli(1, 100), 100);
        assert_eq!(rate_milli(2, 600), 33);
    }
}
