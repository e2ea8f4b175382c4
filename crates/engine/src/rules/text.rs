//! Reading single values out of a rule set's text: places, nearest names, exact decimals, durations.

use crate::fixed::{Fixed, ONE};
use barrage_protocol::ids::SLOT_MS;
use toml::de::{DeInteger, DeValue};

/// Names longer than this are never near a known one, so that no comparison is long.
const LONGEST_NAME: usize = 64;

/// Where each line of a text begins.
pub struct Lines<'t> {
    text: &'t str,
    starts: Vec<usize>,
}

impl<'t> Lines<'t> {
    /// The lines of a text.
    #[must_use]
    pub fn of(text: &'t str) -> Self {
        let after_breaks =
            text.bytes().enumerate().filter(|(_, b)| *b == b'\n').map(|(i, _)| i + 1);
        Self { text, starts: std::iter::once(0).chain(after_breaks).collect() }
    }

    /// Line and column (in characters), both from 1, of a byte offset.
    #[must_use]
    pub fn place(&self, at: usize) -> (usize, usize) {
        let at = at.min(self.text.len());
        let line = self.starts.partition_point(|s| *s <= at);
        let start = self.starts[line - 1];
        // Bounded: a column beyond a few thousand tells nobody anything.
        let before = self.text.as_bytes().get(start..at).unwrap_or_default();
        let column = before.iter().take(10_000).filter(|b| (**b & 0xC0) != 0x80).count();
        (line, column + 1)
    }
}

/// The known name that a typed one most likely meant.
#[must_use]
pub fn nearest<'n>(name: &str, known: &[&'n str]) -> Option<&'n str> {
    if name.len() > LONGEST_NAME {
        return None;
    }
    let scored = known.iter().map(|k| (strsim::damerau_levenshtein(name, k), *k));
    let (distance, best) = scored.min()?;
    let tolerated = (best.len().max(name.len()) / 3).max(1);
    let inside = name.len() >= 3 && (best.contains(name) || name.contains(best));
    (distance <= tolerated || inside).then_some(best)
}

/// Names as a list for a hint, shortened.
#[must_use]
pub fn listed(known: &[&str]) -> String {
    let shown: Vec<String> = known.iter().take(16).map(|k| format!("`{k}`")).collect();
    let more = if known.len() > 16 { ", …" } else { "" };
    format!("{}{more}", shown.join(", "))
}

/// What a person typed, shortened for a message and without control characters.
#[must_use]
pub fn quoted(text: &str) -> String {
    let clean: String = text.chars().take(40).flat_map(char::escape_debug).collect();
    if text.chars().nth(40).is_some() { format!("`{clean}…`") } else { format!("`{clean}`") }
}

/// How a value is called in a message.
#[must_use]
pub fn type_name(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a text",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a decimal",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}

/// A whole number that fits an `i64`.
#[must_use]
pub fn integer(n: &DeInteger<'_>) -> Option<i64> {
    i64::from_str_radix(n.as_str(), n.radix()).ok()
}

/// The exact millionths of a number as written.
///
/// # Errors
/// Why it is none; completes "this value …".
pub fn decimal(value: &DeValue<'_>) -> Result<Fixed, &'static str> {
    match value {
        DeValue::Integer(n) => {
            integer(n).and_then(|n| n.checked_mul(ONE)).map(Fixed).ok_or("is too large")
        }
        DeValue::Float(f) => exact(f.as_str()),
        _ => Err("is not a number"),
    }
}

/// Exact millionths of a decimal text such as `0.20`, without going through a float.
fn exact(text: &str) -> Result<Fixed, &'static str> {
    let (negative, digits) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    let (whole, places) = digits.split_once('.').unwrap_or((digits, ""));
    if digits.contains(['e', 'E', 'n', 'i']) {
        return Err("must be written out, without exponent, `inf` or `nan`");
    }
    let places = places.trim_end_matches('0');
    if places.len() > 6 {
        return Err("has more than six decimal places");
    }
    let all_digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || !all_digits(whole) || !all_digits(places) {
        return Err("is not a number");
    }
    let micro = format!("{whole}{places:0<6}").parse::<i64>().map_err(|_| "is too large")?;
    Ok(Fixed(if negative { -micro } else { micro }))
}

/// Milliseconds of a duration such as `100ms`, `10s`, `15min`, `15m` or `2h`.
///
/// # Errors
/// Why it is none; completes "this value …".
pub fn duration_ms(text: &str) -> Result<u64, &'static str> {
    const FORM: &str = "is not a time";
    let split = text.find(|c: char| !c.is_ascii_digit()).ok_or("has no unit")?;
    let (number, unit) = text.split_at(split);
    let number: u64 = number.parse().map_err(|_| FORM)?;
    let factor = match unit.trim_start() {
        "ms" => 1,
        "s" => 1_000,
        "m" | "min" => 60_000,
        "h" => 3_600_000,
        _ => return Err(FORM),
    };
    number.checked_mul(factor).ok_or("is too long")
}

/// Whole slots of a duration.
///
/// # Errors
/// Why it is none; completes "this value …".
pub fn duration_slots(text: &str) -> Result<u64, &'static str> {
    match duration_ms(text)? {
        ms if ms.is_multiple_of(SLOT_MS) => Ok(ms / SLOT_MS),
        _ => Err("is not a whole number of slots (100 ms)"),
    }
}

/// A number of slots as a person writes it.
#[must_use]
pub fn show_slots(slots: u64) -> String {
    show_ms(slots.saturating_mul(SLOT_MS))
}

/// A number of milliseconds as a person writes it, in the largest unit that keeps it whole.
#[must_use]
pub fn show_ms(ms: u64) -> String {
    match ms {
        0 => "0s".to_owned(),
        _ if ms.is_multiple_of(3_600_000) => format!("{}h", ms / 3_600_000),
        _ if ms.is_multiple_of(60_000) => format!("{}min", ms / 60_000),
        _ if ms.is_multiple_of(1_000) => format!("{}s", ms / 1_000),
        _ => format!("{ms}ms"),
    }
}

/// A decimal without superfluous places.
#[must_use]
pub fn show_fixed(v: Fixed) -> String {
    let (sign, magnitude) = (if v.0 < 0 { "-" } else { "" }, v.0.unsigned_abs());
    let one = ONE.unsigned_abs();
    let (whole, places) = (magnitude / one, magnitude % one);
    if places == 0 {
        return format!("{sign}{whole}");
    }
    let places = format!("{places:06}");
    format!("{sign}{whole}.{}", places.trim_end_matches('0'))
}
