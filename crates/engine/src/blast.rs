//! The arbiter of the blast radius: how many rooms automation may raise to level 2 and above (semantics §4).

use crate::decision::{self, Identity, int, text};
use crate::features::{Baseline, W10, W70};
use crate::fixed::{Fixed, ONE};
use crate::rules::Ladder;
use barrage_protocol::decision::{Decision, Evidence, Id, Kind, Scope, Value};
use barrage_protocol::ids::{Level, RoomKey, Slot};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// The lowest level whose transitions are counted and capped.
pub const CAPPED: Level = Level(2);

/// One room that asks for level 2 or above in one slot, with what will be said in either case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// Key of the room.
    pub room: RoomKey,
    /// Its id.
    pub name: String,
    /// The slot in which it asks.
    pub slot: Slot,
    /// Burst ratio in millionths, rounded down; 0 while the room's baseline is unknown.
    pub ratio: i64,
    /// Level before.
    pub from: Level,
    /// Level asked for.
    pub to: Level,
    /// All decisions of the room in this slot if granted, in canonical order and chained.
    pub granted: Vec<Decision>,
    /// The same if refused: a room at level 0 rises to 1, another stays.
    pub refused: Vec<Decision>,
}

/// The answer to a request that was granted. A refused one has no answer: the room has already done what it may.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// The room.
    pub room: RoomKey,
    /// Its level from now on.
    pub level: Level,
    /// The room's last decision in this slot.
    pub last: Option<Id>,
    /// The slot of the request.
    pub slot: Slot,
}

/// What the whole site saw in one slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SiteTotals {
    /// Events of the slot.
    pub count: u64,
    /// Rooms with `count_60s > 0`.
    pub rooms_60s: u64,
}

/// Grants and the site's own sums; one in a system, stepped once a slot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arbiter {
    /// Granted transitions per slot, oldest first; slots out of the window are dropped, so at most one entry a slot.
    granted: VecDeque<(Slot, u64)>,
    /// Counts of the last slots, at most 700, oldest first; begins with the site's first event.
    counts: VecDeque<u64>,
    last: Option<Slot>,
    /// Whether the cap is said to hold.
    capped: bool,
    prev: Option<Id>,
}

/// What the arbiter compared in one slot.
struct Scales {
    used: u64,
    cap: u64,
    lifted: bool,
    sum_10s: u64,
    base: Baseline,
    rooms_60s: u64,
}

impl Arbiter {
    /// Decides the requests of one slot. Slots must be given in order; one left out counts as empty.
    ///
    /// Returns the decisions of every room that asked, and of the site, in canonical order, and the grants.
    pub fn close(
        &mut self,
        slot: Slot,
        ladder: &Ladder,
        rules_hash: &str,
        totals: SiteTotals,
        mut requests: Vec<Request>,
    ) -> (Vec<Decision>, Vec<Grant>) {
        self.count(slot, totals.count);
        let scales = self.scales(slot, ladder, totals);
        requests.sort_by(|a, b| b.ratio.cmp(&a.ratio).then_with(|| a.name.cmp(&b.name)));
        let room_left = scales.cap.saturating_sub(scales.used);
        let asked = requests.len() as u64;
        let may = if scales.lifted { asked } else { asked.min(room_left) };
        let first_refused = requests.get(may as usize).map(|r| r.name.clone());
        let mut decisions = Vec::new();
        let mut grants = Vec::new();
        for (i, request) in requests.into_iter().enumerate() {
            if (i as u64) < may {
                grants.push(Grant {
                    room: request.room,
                    level: request.to,
                    last: request.granted.last().map(|d| d.id),
                    slot,
                });
                decisions.extend(request.granted);
            } else {
                decisions.extend(request.refused);
            }
        }
        if may > 0 {
            self.granted.push_back((slot, may));
        }
        let refused = asked - may;
        // At the cap the alarm stands, also in a slot in which nobody happens to ask.
        let on = refused > 0 || (self.capped && !scales.lifted && scales.used + may >= scales.cap);
        if on != self.capped {
            self.capped = on;
            let evidence = scales.evidence(slot, ladder, asked, may, first_refused.as_deref());
            let mut said = decision::draft(&identity(slot, rules_hash, on), evidence);
            said.prev = self.prev.replace(said.id);
            decisions.push(said);
        }
        decision::sort(&mut decisions);
        (decisions, grants)
    }

    /// Whether the cap is said to hold.
    #[must_use]
    pub fn capped(&self) -> bool {
        self.capped
    }

    /// Granted transitions that lie in the last `within` slots up to `slot`.
    #[must_use]
    pub fn used(&self, slot: Slot, within: u64) -> u64 {
        self.granted.iter().filter(|(s, _)| slot.0.saturating_sub(s.0) < within).map(|g| g.1).sum()
    }

    fn count(&mut self, slot: Slot, count: u64) {
        let missed = match self.last {
            Some(last) => slot.0.saturating_sub(last.0).saturating_sub(1).min(W70),
            None => 0,
        };
        self.last = Some(slot);
        for _ in 0..missed {
            self.push(0);
        }
        self.push(count);
    }

    fn push(&mut self, count: u64) {
        // The site's life begins with its first event, as a room's does.
        if self.counts.is_empty() && count == 0 {
            return;
        }
        if self.counts.len() as u64 == W70 {
            self.counts.pop_front();
        }
        self.counts.push_back(count);
    }

    fn scales(&mut self, slot: Slot, ladder: &Ladder, totals: SiteTotals) -> Scales {
        let within = ladder.blast_within;
        while self.granted.front().is_some_and(|(s, _)| slot.0.saturating_sub(s.0) >= within) {
            self.granted.pop_front();
        }
        let older = self.counts.len().saturating_sub(W10 as usize);
        let mut base = Baseline { n: older as u16, sum: 0, sumsq: 0 };
        for c in self.counts.iter().take(older) {
            base.sum = base.sum.saturating_add(*c);
        }
        let sum_10s = self.counts.iter().skip(older).sum();
        Scales {
            used: self.used(slot, within),
            cap: cap(ladder, totals.rooms_60s),
            lifted: base.known() && lifts(sum_10s, &base, ladder.blast_lift_ratio),
            sum_10s,
            base,
            rooms_60s: totals.rooms_60s,
        }
    }
}

/// `max(min, floor(share × rooms))`.
#[must_use]
pub fn cap(ladder: &Ladder, rooms_60s: u64) -> u64 {
    let share = u128::try_from(ladder.blast_max_share.0).unwrap_or(0);
    let part = u128::from(rooms_60s).saturating_mul(share) / ONE as u128;
    u64::from(ladder.blast_min).max(u64::try_from(part).unwrap_or(u64::MAX))
}

/// `sum_10s / 10 ≥ ratio × 10 · sum / n`, as `sum_10s · n · 10^6 ≥ ratio_millionths · 100 · sum`.
fn lifts(sum_10s: u64, base: &Baseline, ratio: Fixed) -> bool {
    let rate = i128::from(sum_10s).saturating_mul(i128::from(base.n)).saturating_mul(ONE.into());
    rate >= i128::from(ratio.0).saturating_mul(100).saturating_mul(i128::from(base.sum))
}

fn identity(slot: Slot, rules_hash: &str, on: bool) -> Identity<'_> {
    Identity {
        rules_hash,
        rule: "blast",
        rule_version: 1,
        mode: "enforce",
        scope: Scope::Site,
        subject: "_site",
        class: None,
        slot,
        kind: Kind::BlastCap,
        from: if on { "off" } else { "on" },
        to: if on { "on" } else { "off" },
    }
}

impl Scales {
    fn evidence(
        &self,
        slot: Slot,
        ladder: &Ladder,
        asked: u64,
        granted: u64,
        first_refused: Option<&str>,
    ) -> Evidence {
        let mut e = Evidence::new();
        let mut put = |name: &str, value: Value| e.insert(name.to_owned(), value);
        put("asked", int(asked));
        put("granted", int(granted));
        put("refused", int(asked - granted));
        put("used_before", int(self.used));
        put("cap", int(self.cap));
        put("cap_min", int(ladder.blast_min));
        put("cap_share", Value::milli(ladder.blast_max_share.to_milli()));
        put("rooms_60s", int(self.rooms_60s));
        put("cap_window_from", int(slot.minus(ladder.blast_within.saturating_sub(1)).0));
        put("window_to", int(slot.0));
        put("lifted", int(u8::from(self.lifted)));
        put("lift_ratio", Value::milli(ladder.blast_lift_ratio.to_milli()));
        put("site_count_10s", int(self.sum_10s));
        put(
            "site_rate_10s",
            Value::milli(i64::try_from(self.sum_10s).map_or(i64::MAX, |s| s * 100)),
        );
        put("site_baseline_n", int(self.base.n));
        put("site_baseline_sum", int(self.base.sum));
        put("site_baseline", Value::milli(self.base.per_second_milli()));
        if let Some(room) = first_refused {
            put("first_refused", text(room));
        }
        e
    }
}
