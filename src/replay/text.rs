//! Numbers, times and curves for a reader.

/// A whole number with a comma between thousands.
pub(super) fn thousands(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    out
}

/// So many of something.
pub(super) fn count(n: u64, one: &str) -> String {
    format!("{} {one}{}", thousands(n), if n == 1 { "" } else { "s" })
}

/// A share as per cent, never 0 where there is something.
pub(super) fn percent(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "0 %".to_owned();
    }
    let share = part as f64 / whole as f64 * 100.0;
    if part > 0 && share < 0.01 { "< 0.01 %".to_owned() } else { format!("{share:.2} %") }
}

/// A length of time: `1 h 26 min 41 s`, `12.3 s`.
pub(super) fn length(ms: u64) -> String {
    let s = ms / 1000;
    match s {
        0..60 => format!("{}.{} s", s, ms % 1000 / 100),
        60..3600 => format!("{} min {} s", s / 60, s % 60),
        _ => format!("{} h {} min {} s", s / 3600, s / 60 % 60, s % 60),
    }
}

/// `2023-11-14 22:13:20 UTC`; the date is by the civil calendar, counted from 1 March of year 0.
pub(super) fn instant(ms: i64) -> String {
    let s = ms.div_euclid(1000);
    let (days, s) = (s.div_euclid(86_400) + 719_468, s.rem_euclid(86_400));
    let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02} UTC", s / 3600, s / 60 % 60, s % 60)
}

/// A curve in one line: eight heights, a blank for nothing.
pub(super) fn sparkline(points: &[u32]) -> String {
    let max = u64::from(points.iter().copied().max().unwrap_or(0)).max(1);
    let height = |n: u32| match n {
        0 => ' ',
        n => {
            ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'][((u64::from(n) * 8 - 1) / max).min(7) as usize]
        }
    };
    points.iter().map(|n| height(*n)).collect()
}

/// Cut to a width in characters, with an ellipsis.
pub(super) fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_times_read_well() {
        assert_eq!(thousands(0), "0");
        assert_eq!(thousands(999), "999");
        assert_eq!(thousands(1_234_567), "1,234,567");
        assert_eq!(percent(1, 100_000), "< 0.01 %");
        assert_eq!(percent(1, 3), "33.33 %");
        assert_eq!(length(12_345), "12.3 s");
        assert_eq!(length(5_201_000), "1 h 26 min 41 s");
        assert_eq!(instant(1_700_000_000_123), "2023-11-14 22:13:20 UTC");
        assert_eq!(instant(951_782_400_000), "2000-02-29 00:00:00 UTC");
        assert_eq!(instant(-1), "1969-12-31 23:59:59 UTC");
        assert_eq!(sparkline(&[0, 1, 4, 8]), " ▁▄█");
        assert_eq!(sparkline(&[]), "");
        assert_eq!(cut("abcdef", 4), "abc…");
    }
}
