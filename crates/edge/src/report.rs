//! What an edge tells of itself: counts since the last report, and how its table stands.

use crate::table::Status;
use crate::verdict::Verdict;
use barrage_protocol::ids::Class;
use serde::Serialize;
use std::collections::BTreeMap;

/// Rooms in one report; what comes beyond is summed up under `_other`.
const ROOMS_MAX: usize = 5_000;

/// Counts of one class of a room.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// The room.
    pub room: String,
    /// The class.
    pub class: &'static str,
    /// Messages that came.
    pub offered: u64,
    /// Messages that passed at once.
    pub admitted: u64,
    /// Messages that passed later.
    pub delayed: u64,
    /// Messages that did not pass, by reason.
    pub refused: BTreeMap<&'static str, u64>,
    /// Requests served, of those that passed.
    pub ok: u64,
    /// Requests that failed.
    pub error: u64,
}

/// One report, the contract's `edge.reports`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Name of the edge.
    pub edge: String,
    /// Which run of it.
    pub boot: String,
    /// Number of the report within the run: repeats are dropped, gaps are seen.
    pub n: u64,
    /// Wall clock of its span, milliseconds since 1970.
    pub from: i64,
    /// End of the span.
    pub to: i64,
    /// Counts of the span.
    pub rooms: Vec<Counts>,
    /// How the table stands.
    pub status: serde_json::Value,
}

/// Counts of one edge between two reports.
#[derive(Debug)]
pub struct Accumulator {
    edge: String,
    boot: String,
    n: u64,
    from: i64,
    rooms: BTreeMap<(String, Class), Counts>,
}

impl Accumulator {
    /// Nothing counted since `now_ms` (wall clock).
    #[must_use]
    pub fn new(edge: &str, boot: &str, now_ms: i64) -> Self {
        Self {
            edge: edge.to_owned(),
            boot: boot.to_owned(),
            n: 0,
            from: now_ms,
            rooms: BTreeMap::new(),
        }
    }

    /// Counts one message with its verdict.
    pub fn count(&mut self, room: &str, class: Class, verdict: Verdict) {
        let full =
            self.rooms.len() >= ROOMS_MAX && !self.rooms.contains_key(&(room.to_owned(), class));
        let room = if full { "_other" } else { room };
        let counts = self.rooms.entry((room.to_owned(), class)).or_insert_with(|| Counts {
            room: room.to_owned(),
            class: class.name(),
            ..Counts::default()
        });
        counts.offered += 1;
        match verdict {
            Verdict::Admit => (counts.admitted, counts.ok) = (counts.admitted + 1, counts.ok + 1),
            Verdict::Delay { .. } => {
                (counts.delayed, counts.ok) = (counts.delayed + 1, counts.ok + 1)
            }
            Verdict::Refuse { reason, .. } => {
                *counts.refused.entry(reason.name()).or_default() += 1
            }
        }
    }

    /// The report of the span that ends now; counting begins anew.
    pub fn take(&mut self, now_ms: i64, status: &Status) -> Report {
        self.n += 1;
        let from = std::mem::replace(&mut self.from, now_ms);
        let status = serde_json::json!({
            "applied": {"0": [status.applied.0, status.applied.1]},
            "digest": status.digest,
            "age_ms": status.age_ms,
            "state": status.state,
            "nacks": status.nacks,
        });
        Report {
            edge: self.edge.clone(),
            boot: self.boot.clone(),
            n: self.n,
            from,
            to: now_ms,
            rooms: std::mem::take(&mut self.rooms).into_values().collect(),
            status,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Reason, Table};
    use barrage_protocol::policy::Keys;

    #[test]
    fn a_report_holds_what_came_since_the_last_one() {
        let status = Table::new(Keys::new("c", 0)).status(0);
        let mut accumulator = Accumulator::new("gw-1", "b", 1_000);
        let refuse = Verdict::Refuse { reason: Reason::OverShare, retry_after_ms: 1 };
        for verdict in [Verdict::Admit, refuse, refuse, Verdict::Delay { ms: 100 }] {
            accumulator.count("r", Class::Chat, verdict);
        }
        let report = accumulator.take(2_000, &status);
        let counts = report.rooms.first().expect("a room");
        assert_eq!((counts.offered, counts.admitted, counts.delayed, counts.ok), (4, 1, 1, 2));
        assert_eq!(counts.refused["over_share"], 2);
        assert_eq!((report.n, report.from, report.to), (1, 1_000, 2_000));
        let next = accumulator.take(3_000, &status);
        assert_eq!((next.n, next.from, next.rooms.len()), (2, 2_000, 0));
    }

    #[test]
    fn very_many_rooms_are_summed_up() {
        let status = Table::new(Keys::new("c", 0)).status(0);
        let mut accumulator = Accumulator::new("gw-1", "b", 0);
        for i in 0..ROOMS_MAX + 100 {
            accumulator.count(&format!("r{i}"), Class::Chat, Verdict::Admit);
        }
        let report = accumulator.take(1, &status);
        assert_eq!(report.rooms.len(), ROOMS_MAX + 1);
        assert_eq!(report.rooms.iter().map(|r| r.offered).sum::<u64>(), ROOMS_MAX as u64 + 100);
    }
}
