//! Spans in which a rule was in, as lines `room,start_s,end_s,rule`.

use barrage_protocol::ids::Slot;
use std::io::{self, Write};

/// A span of a room in a rule: from the slot whose close put it in to its last entering slot.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Alarm {
    /// The room's id.
    pub room: String,
    /// The slot whose close put the rule in.
    pub from: Slot,
    /// The last slot whose enter condition held.
    pub to: Slot,
    /// Id of the rule.
    pub rule: String,
    /// Kind of the rule: burst, fast, rate, surge.
    pub kind: &'static str,
}

impl Alarm {
    /// Slots from the first to the last, both included.
    #[must_use]
    pub fn slots(&self) -> u64 {
        self.to.0.saturating_sub(self.from.0) + 1
    }
}

/// Seconds from `zero_ms` to the end of `slot` (nothing is known before a slot closes): one decimal where zero lies on
/// a slot's edge, as the reference writes them, else three.
#[must_use]
pub fn seconds(slot: Slot, zero_ms: i64) -> String {
    let ms = i128::from(slot.end_ms()) - i128::from(zero_ms);
    let sign = if ms < 0 { "-" } else { "" };
    let ms = ms.unsigned_abs();
    if ms % 100 == 0 {
        format!("{sign}{}.{}", ms / 1000, ms % 1000 / 100)
    } else {
        format!("{sign}{}.{:03}", ms / 1000, ms % 1000)
    }
}

/// Writes the header and a line for each alarm.
///
/// # Errors
/// Where it cannot be written.
pub fn write(out: &mut dyn Write, alarms: &[Alarm], zero_ms: i64) -> io::Result<()> {
    writeln!(out, "room,start_s,end_s,rule")?;
    for alarm in alarms {
        let (start, end) = (seconds(alarm.from, zero_ms), seconds(alarm.to, zero_ms));
        writeln!(out, "{},{start},{end},{}", cell(&alarm.room), cell(&alarm.rule))?;
    }
    out.flush()
}

/// A cell of a table: quoted where it must be (RFC 4180).
fn cell(text: &str) -> std::borrow::Cow<'_, str> {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\"")).into()
    } else {
        text.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_count_from_zero_to_the_slots_end() {
        let zero = 1_700_000_000_000;
        let slot = |n: u64| Slot(17_000_000_000 + n);
        assert_eq!(seconds(slot(0), zero), "0.1");
        assert_eq!(seconds(slot(1_234), zero), "123.5");
        assert_eq!(seconds(slot(9), zero), "1.0");
        assert_eq!(seconds(slot(0), zero + 1_000), "-0.9");
        assert_eq!(seconds(slot(0), zero + 5), "0.095");
    }

    #[test]
    fn rooms_with_commas_are_quoted() {
        let alarm = Alarm {
            room: "a,\"b".into(),
            from: Slot(10),
            to: Slot(12),
            rule: "surge".into(),
            kind: "surge",
        };
        assert_eq!(alarm.slots(), 3);
        let mut out = Vec::new();
        write(&mut out, &[alarm], 0).expect("written");
        let text = String::from_utf8(out).expect("text");
        assert_eq!(text, "room,start_s,end_s,rule\n\"a,\"\"b\",1.1,1.3,surge\n");
    }
}
