//! What people see of a controller, once a second: metrics, and how it stands for `/v1/leader`.

use super::cycle::{Cycle, Stage};
use super::effects::{hottest, wall_ms};
use barrage_engine::control::{Counters, Status};
use barrage_protocol::ids::Slot;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

/// What became of records, summed over partitions: counted, late, rejected, skipped, overflow.
#[derive(Default)]
struct Sums([u64; 5]);

impl Sums {
    fn add(&mut self, counters: Option<&Counters>) {
        let Some(c) = counters else { return };
        for (sum, n) in
            self.0.iter_mut().zip([c.in_slot, c.late, c.rejected, c.skipped, c.overflow])
        {
            *sum += n;
        }
    }
}

impl Cycle {
    /// Tells metrics and readers how it stands.
    pub(super) fn look(&mut self) {
        let (leads, epoch) = match &self.stage {
            Stage::Leads(lead) => (true, lead.epoch()),
            Stage::Follows(follow, _) => (false, follow.epoch()),
            Stage::Over => (false, 0),
        };
        self.parts.meters.leads(leads, epoch);
        let closed = self.records();
        if let Some(closed) = closed {
            self.parts.meters.lag((wall_ms() - closed.end_ms()) as f64 / 1e3);
        }
        self.rooms();
        let stats = &self.parts.topic.stats;
        self.parts.meters.dead_letters("sent", stats.letters.load(Ordering::Relaxed));
        self.parts.meters.dead_letters("suppressed", stats.suppressed.load(Ordering::Relaxed));
        self.parts.effects.measure();
        let mut told = serde_json::json!({
            "instance": self.parts.setup.instance, "leads": leads, "epoch": epoch,
            "slot": closed.map(|s| s.0), "frozen": self.frozen,
        });
        if let Some(publish) = &self.parts.publish {
            let s = publish.status();
            let results = [
                ("ok", s.taken),
                ("fenced", s.fenced),
                ("unknown", s.unknown),
                ("error", s.failed),
            ];
            results.into_iter().for_each(|(result, n)| self.parts.meters.transactions(result, n));
            self.parts.meters.publish(s.waiting, s.keys);
            told["etcd"] = serde_json::json!({
                "leads": s.leads, "epoch": s.epoch, "revision": s.revision, "waiting": s.waiting, "keys": s.keys,
            });
            self.parts.effects.revision = s.revision;
        }
        self.parts.effects.leader(told);
        self.parts.reports.take();
        self.parts.effects.edges(self.parts.reports.edges());
    }

    /// Records, partitions and the control log. Returns the last closed slot.
    fn records(&self) -> Option<Slot> {
        let meters = &self.parts.meters;
        let mut sums = Sums::default();
        let mut statuses =
            BTreeMap::from([("active", 0), ("idle", 0), ("absent", 0), ("ended", 0)]);
        let (closed, reader, unreadable) = match &self.stage {
            Stage::Leads(lead) => {
                for p in lead.partitions() {
                    sums.add(lead.counters(p));
                    let name = match lead.status(p) {
                        Some((Status::Active, _)) => "active",
                        Some((Status::Idle, _)) => "idle",
                        Some((Status::Absent, _)) => "absent",
                        Some((Status::Ended, _)) | None => "ended",
                    };
                    *statuses.entry(name).or_default() += 1;
                }
                (lead.last_closed(), lead.reader().clone(), lead.log().stats().unreadable)
            }
            Stage::Follows(follow, log) => {
                let known = u32::try_from(self.parts.topic.partitions()).unwrap_or(u32::MAX);
                (0..known).for_each(|p| sums.add(follow.counters(p)));
                let (alarms, reader) = follow.alarms();
                meters.divergence("hash", alarms.hash);
                meters.divergence("late", alarms.late);
                (follow.last_closed(), reader, log.stats().unreadable)
            }
            Stage::Over => return None,
        };
        for (result, n) in
            [("dropped", reader.dropped), ("gap", reader.gaps), ("unreadable", unreadable)]
        {
            meters.control(result, n);
        }
        for (outcome, n) in
            ["slot", "late", "poison", "skipped", "overflow"].into_iter().zip(sums.0)
        {
            meters.outcome(outcome, n);
        }
        statuses.into_iter().for_each(|(status, n)| meters.partitions(status, n));
        closed
    }

    fn rooms(&self) {
        let view = self.parts.effects.view();
        let at = |level: u8| view.rooms.iter().filter(|r| r.level.0 == level).count();
        self.parts.meters.rooms(view.stats.rooms, [at(1), at(2), at(3)]);
        self.parts.meters.hottest(&hottest(&view));
    }
}
