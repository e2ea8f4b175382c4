//! What leaves a controller, in order: decisions to the spool, from the disk to etcd, and then the word that they are out.

use crate::api::Board;
use crate::app::Observer;
use crate::audit::{self, Envelope};
use crate::ops::{Meters, meters};
use barrage_dataflows::view::View;
use barrage_protocol::control::Entry;
use barrage_protocol::decision::{Decision, Kind};
use barrage_protocol::ids::Slot;
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Slots of decisions handed to the publisher whose publishing is not known; beyond it nothing more is handed over.
const UNPUBLISHED_MAX: usize = 10_000;

/// The way out.
pub(super) struct Effects {
    /// Whether this controller's decisions count.
    pub(super) leads: bool,
    /// The term.
    pub(super) epoch: u64,
    pub(super) revision: u64,
    instance: Arc<str>,
    audit: audit::Handle,
    board: Arc<Board>,
    meters: Arc<Meters>,
    /// Whether anything is published at all.
    publishes: bool,
    /// Spooled, and not known to be on the disk.
    spooled: VecDeque<(Slot, Vec<Decision>)>,
    /// Slots with decisions that do not stand in etcd, as far as is known.
    unpublished: BTreeSet<Slot>,
    /// Last slot handed out as final.
    handed: Slot,
    view: Arc<View>,
}

impl Effects {
    pub(super) fn new(
        instance: &str,
        audit: audit::Handle,
        board: Arc<Board>,
        meters: Arc<Meters>,
        publishes: bool,
    ) -> Self {
        Self {
            leads: false,
            epoch: 0,
            revision: 0,
            instance: instance.into(),
            audit,
            board,
            meters,
            publishes,
            spooled: VecDeque::new(),
            unpublished: BTreeSet::new(),
            handed: Slot(0),
            view: Arc::default(),
        }
    }

    pub(super) fn envelope(&self) -> Envelope {
        Envelope {
            epoch: self.epoch,
            instance: Arc::clone(&self.instance),
            revision: self.revision,
            recorded_ms: wall_ms(),
        }
    }

    /// Decisions that are on the disk and may be published now, oldest first.
    pub(super) fn durable(&mut self) -> Option<(Slot, Vec<Decision>)> {
        if self.unpublished.len() >= UNPUBLISHED_MAX {
            return None;
        }
        let (slot, _) = self.spooled.front()?;
        if *slot > self.audit.durable() {
            return None;
        }
        let (slot, decisions) = self.spooled.pop_front()?;
        if self.publishes {
            self.unpublished.insert(slot);
        }
        Some((slot, decisions))
    }

    /// Everything up to `slot` stands in etcd.
    pub(super) fn published(&mut self, slot: Slot) {
        let later = self.unpublished.split_off(&slot.next());
        let now = wall_ms();
        for slot in std::mem::replace(&mut self.unpublished, later) {
            self.meters.slot_published((now - slot.end_ms()) as f64 / 1e3);
        }
    }

    /// The last slot up to which nothing can be lost any more, of those up to `last_final`.
    pub(super) fn spooled_until(&self, last_final: Slot) -> Slot {
        self.audit.durable().min(last_final)
    }

    /// A checkpoint for who comes later.
    pub(super) fn remember(&self, slot: Slot, bytes: Arc<[u8]>, envelope: &Envelope) {
        self.audit.checkpoint(slot, bytes, envelope);
    }

    pub(super) fn diverged(&self, slot: Slot, what: &str, envelope: &Envelope) {
        self.audit.diverged(slot, "", "", what, envelope);
    }

    /// The newest view.
    pub(super) fn view(&self) -> Arc<View> {
        Arc::clone(&self.view)
    }

    /// How the leader stands, for `/v1/leader`.
    pub(super) fn leader(&self, told: serde_json::Value) {
        self.board.leader(told);
    }

    /// The edges that have reported, for `/v1/edges`.
    pub(super) fn edges(&self, edges: Vec<serde_json::Value>) {
        self.board.edges(edges);
    }

    /// Tells the metrics how the audit stands.
    pub(super) fn measure(&self) {
        let s = self.audit.stats();
        for (result, n) in [
            ("written", s.written),
            ("repeated", s.repeated),
            ("aside", s.aside),
            ("missing", s.missing),
        ] {
            self.meters.audit(result, n);
        }
        self.meters.divergence("audit", s.divergent);
        let oldest = self.spooled.front().map_or(0, |(slot, _)| wall_ms() - slot.end_ms());
        self.meters.spool(s.spool_bytes, oldest as f64 / 1e3);
    }

    /// Ends the audit; what Postgres does not take in time is sent by the next run.
    pub(super) fn stop(&self) {
        if !self.audit.stop(Duration::from_secs(5)) {
            tracing::info!("decisions wait in the spool for the next run");
        }
    }
}

impl Observer for Effects {
    fn closed(&mut self, _upto: Slot, view: &Arc<View>) -> anyhow::Result<()> {
        self.board.view(view, |_| None);
        self.view = Arc::clone(view);
        Ok(())
    }

    fn decided(
        &mut self,
        slot: Slot,
        decisions: &[Decision],
        lines: &[String],
    ) -> anyhow::Result<()> {
        self.handed = self.handed.max(slot);
        if decisions.is_empty() {
            return Ok(());
        }
        self.board.decided(decisions);
        if self.leads {
            decisions.iter().for_each(|d| self.meters.decision(kind(d.kind)));
            self.audit.append(slot, lines.to_vec(), &self.envelope());
            self.spooled.push_back((slot, decisions.to_vec()));
            self.meters.slot_final((wall_ms() - slot.end_ms()) as f64 / 1e3);
        }
        Ok(())
    }

    fn done(&mut self, handed: Slot) -> Slot {
        if self.leads && handed > self.handed {
            self.audit.passed(handed);
            self.handed = handed;
        }
        let spooled = self.spooled.front().map(|(slot, _)| *slot);
        let first = spooled.into_iter().chain(self.unpublished.first().copied()).min();
        first.map_or(handed, |first| handed.min(first.minus(1)))
    }

    fn written(&mut self, entry: &Entry) -> anyhow::Result<()> {
        let slot = match entry {
            Entry::Step(step) => step.slot,
            Entry::Lead { epoch, .. } => {
                self.epoch = *epoch;
                self.handed
            }
        };
        self.audit.written(slot, entry, &self.envelope());
        Ok(())
    }
}

/// Name of a kind of decision in metrics.
fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Level => "level",
        Kind::Surge => "surge",
        Kind::Micro => "micro",
        Kind::BlastCap => "blast_cap",
        Kind::FlapHold => "flap_hold",
        Kind::FrozenLong => "frozen_long",
    }
}

/// The hottest rooms, as metrics show them.
pub(super) fn hottest(view: &View) -> Vec<meters::Room> {
    let room = |r: &barrage_dataflows::view::Room| meters::Room {
        id: r.room.clone(),
        rate: f64::from(r.count_10s) / 10.0,
        ratio: r.ratio_milli.map_or(0.0, |m| m as f64 / 1e3),
        level: r.level.0,
    };
    view.rooms.iter().take(meters::ROOMS).map(room).collect()
}

/// Milliseconds since 1970 by the wall clock: for records and metrics, never for decisions.
pub(super) fn wall_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |d| i64::try_from(d.as_millis()).unwrap_or(i64::MAX))
}
