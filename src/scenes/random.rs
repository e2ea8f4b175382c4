//! A tiny seeded generator of numbers, so that the same seed gives the same bytes whatever library is updated.

/// SplitMix64 (Steele, Lea, Flood 2014): every seed is a good seed, one addition and two multiplications a number.
#[derive(Clone, Debug)]
pub(super) struct Random(u64);

impl Random {
    /// A stream of numbers for one slot of one seed.
    pub(super) fn of(seed: u64, slot: u64) -> Self {
        let mut mixed = Self(seed);
        let seed = mixed.next();
        Self(seed ^ slot.wrapping_mul(0xD6E8_FEB8_6659_FD93))
    }

    /// The next 64 bits.
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `n` (0 for `n` = 0); the bias is below n / 2^64.
    pub(super) fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(n)) >> 64) as u64
    }
}
