//! How times are written in a record: unit, offset, decimals; and the range in which a time can be milliseconds.

use super::Reason;
use std::str::FromStr;

/// Least `ts` that is taken for milliseconds (1973).
pub const TS_MIN: i64 = 100_000_000_000;
/// First `ts` that is no longer taken for milliseconds (5138).
pub const TS_MAX: i64 = 100_000_000_000_000;

/// Unit of the times in a record. Never guessed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unit {
    /// Seconds.
    Seconds,
    /// Milliseconds, as the contract says.
    #[default]
    Millis,
    /// Microseconds.
    Micros,
    /// Nanoseconds.
    Nanos,
}

impl FromStr for Unit {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        match s {
            "s" => Ok(Self::Seconds),
            "ms" => Ok(Self::Millis),
            "us" => Ok(Self::Micros),
            "ns" => Ok(Self::Nanos),
            _ => Err(format!("`{s}` is no unit of time: s, ms, us or ns")),
        }
    }
}

/// How times are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Time {
    /// Unit of what is written.
    pub unit: Unit,
    /// Milliseconds added to every time before any check.
    pub base_ms: i64,
    /// Whether a fraction may stand there (files of others; the contract's events have none).
    pub decimals: bool,
}

impl Time {
    /// Milliseconds since the Unix epoch of a time written as decimal text, rounded down.
    ///
    /// # Errors
    /// `ts_type` where it is no such number, `number_range` beyond 64 bits, `ts_unit` outside [`TS_MIN`]..[`TS_MAX`].
    pub fn ms(&self, text: &str) -> Result<i64, Reason> {
        let ms = self.raw_ms(text)?.checked_add(self.base_ms).ok_or(Reason::NumberRange)?;
        if (TS_MIN..TS_MAX).contains(&ms) { Ok(ms) } else { Err(Reason::TsUnit) }
    }

    fn raw_ms(&self, text: &str) -> Result<i64, Reason> {
        if self.unit == Unit::Millis && text.len() < 19 && text.bytes().all(|b| b.is_ascii_digit())
        {
            // What almost every record holds; shorter than any number that overflows.
            return text.parse().map_err(|_| Reason::TsType);
        }
        let (whole, fraction) = match text.split_once('.') {
            Some((whole, fraction)) if self.decimals => (whole, fraction),
            Some(_) => return Err(Reason::TsType),
            None => (text, ""),
        };
        let digits = whole.strip_prefix('-').unwrap_or(whole);
        if digits.is_empty() || !digits.bytes().chain(fraction.bytes()).all(|b| b.is_ascii_digit())
        {
            return Err(Reason::TsType);
        }
        let value: i64 = whole.parse().map_err(|_| Reason::NumberRange)?;
        let negative = whole.starts_with('-');
        let below = i64::from(negative && fraction.bytes().any(|b| b != b'0'));
        match self.unit {
            Unit::Seconds => {
                let mut milli = 0;
                for i in 0..3 {
                    let digit = fraction.as_bytes().get(i).map_or(0, |b| i64::from(b - b'0'));
                    milli = milli * 10 + digit;
                }
                let rest = fraction.bytes().skip(3).any(|b| b != b'0');
                let ms = value.checked_mul(1000).ok_or(Reason::NumberRange)?;
                Ok(if negative {
                    ms.saturating_sub(milli + i64::from(rest))
                } else {
                    ms.saturating_add(milli)
                })
            }
            Unit::Millis => Ok(value.saturating_sub(below)),
            Unit::Micros => Ok(value.saturating_sub(below).div_euclid(1_000)),
            Unit::Nanos => Ok(value.saturating_sub(below).div_euclid(1_000_000)),
        }
    }

    /// The unit in which the number would be a time of this century, for a hint.
    #[must_use]
    pub fn likely_unit(text: &str) -> Option<&'static str> {
        let value: f64 = text.trim().parse().ok()?;
        [("s", 1e3), ("ms", 1.0), ("us", 1e-3), ("ns", 1e-6)]
            .into_iter()
            .find(|(_, factor)| (9e11..5e12).contains(&(value * factor)))
            .map(|(unit, _)| unit)
    }
}
