//! Durations as people type them: `90`, `30s`, `2m`, `1h`, `500ms`.

use std::time::Duration;

/// Longest duration that is taken, in seconds: a year.
const MAX_SECS: u64 = 366 * 86_400;

/// Reads a duration; a bare number is seconds.
///
/// # Errors
/// What is wrong with it, and how one is written.
pub fn parse(text: &str) -> Result<Duration, String> {
    let at = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(at);
    let number: u64 = number.parse().map_err(|_| wrong(text))?;
    let ms = match unit {
        "ms" => Some(number),
        "" | "s" => number.checked_mul(1_000),
        "m" | "min" => number.checked_mul(60_000),
        "h" => number.checked_mul(3_600_000),
        _ => return Err(wrong(text)),
    };
    match ms {
        Some(ms) if ms > 0 && ms <= MAX_SECS * 1_000 => Ok(Duration::from_millis(ms)),
        _ => Err(format!("`{text}` is not between 1ms and a year")),
    }
}

fn wrong(text: &str) -> String {
    format!("`{text}` is not a duration; write it as 30s, 2m, 1h or 500ms")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_and_nonsense_is_not() {
        for (text, ms) in
            [("90", 90_000), ("30s", 30_000), ("2m", 120_000), ("1h", 3_600_000), ("500ms", 500)]
        {
            assert_eq!(parse(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for text in ["", "s", "-1s", "1.5h", "3 s", "0", "99999999999999999999", "1d", "9999999h"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
