//! Exact decimals for thresholds: millionths in an integer, so that no comparison depends on a machine.

use serde::{Deserialize, Serialize};

/// A decimal as millionths.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Fixed(pub i64);

/// Millionths in one.
pub const ONE: i64 = 1_000_000;

impl Fixed {
    /// A whole number.
    #[must_use]
    pub const fn int(n: i64) -> Self {
        Self(n * ONE)
    }

    /// `n / 1000`.
    #[must_use]
    pub const fn milli(n: i64) -> Self {
        Self(n * 1_000)
    }

    /// The nearest millionth of a finite number of magnitude below 10^12.
    #[must_use]
    pub fn from_f64(x: f64) -> Option<Self> {
        (x.is_finite() && x.abs() < 1e12).then(|| Self((x * ONE as f64).round() as i64))
    }

    /// Thousandths, rounded half up, for the evidence.
    #[must_use]
    pub fn to_milli(self) -> i64 {
        (self.0 + 500).div_euclid(1_000)
    }
}
