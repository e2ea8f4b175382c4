//! Every metric of a controller. Rooms appear only as the hottest few; nothing else has a label without a bound.

use prometheus::{
    Gauge, GaugeVec, Histogram, HistogramOpts, IntCounter, IntCounterVec, IntGauge, IntGaugeVec,
    Opts, Registry, TextEncoder,
};
use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// Rooms shown by name.
pub const ROOMS: usize = 20;
/// Seconds; 250 ms and 1 s are the promises.
const SECONDS: [f64; 14] =
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0];

/// A room among the hottest.
#[derive(Clone, Debug, PartialEq)]
pub struct Room {
    /// Its id.
    pub id: String,
    /// Events per second over 10 s.
    pub rate: f64,
    /// Burst ratio.
    pub ratio: f64,
    /// Level.
    pub level: u8,
}

/// The metrics.
pub struct Meters {
    registry: Registry,
    flow: Flow,
    term: Term,
    out: Out,
    hot: Hot,
}

/// From records to decisions.
struct Flow {
    outcomes: IntCounterVec,
    lag: Gauge,
    close: Histogram,
    end_to_end: Histogram,
    partitions: IntGaugeVec,
    tracked: IntGauge,
    levels: IntGaugeVec,
    decisions: IntCounterVec,
}

/// Who leads, and the control log.
struct Term {
    control: IntCounterVec,
    divergence: IntCounterVec,
    leader: IntGauge,
    epoch: IntGauge,
    transitions: IntCounter,
    frozen: IntGauge,
}

/// What leaves the process.
struct Out {
    pending: IntGauge,
    transactions: IntCounterVec,
    keys: IntGauge,
    audit: IntCounterVec,
    spool_bytes: IntGauge,
    spool_oldest: Gauge,
    checkpoint_slot: IntGauge,
    checkpoint_bytes: IntGauge,
    dead_letters: IntCounterVec,
}

/// The hottest rooms.
struct Hot {
    room_rate: GaugeVec,
    room_ratio: GaugeVec,
    room_level: IntGaugeVec,
    shown: Mutex<BTreeSet<String>>,
}

impl Meters {
    /// All metrics at 0.
    ///
    /// # Errors
    /// Two metrics of one name: a fault of this program.
    pub fn new(version: &str, rules: &str) -> Result<Self, prometheus::Error> {
        let make = Make { registry: Registry::new() };
        let info = make.gauges("build_info", "1; the version says what runs", &["version"])?;
        info.with_label_values(&[version]).set(1);
        let info =
            make.gauges("ruleset_info", "1; the hash of the rule set configured", &["hash"])?;
        info.with_label_values(&[rules]).set(1);
        Ok(Self {
            flow: Flow::new(&make)?,
            term: Term::new(&make)?,
            out: Out::new(&make)?,
            hot: Hot::new(&make)?,
            registry: make.registry,
        })
    }

    /// What became of records, in all.
    pub fn outcome(&self, outcome: &'static str, total: u64) {
        raise(&self.flow.outcomes.with_label_values(&[outcome]), total);
    }

    /// Slots up to one that ended `lag` seconds ago are closed.
    pub fn lag(&self, seconds: f64) {
        self.flow.lag.set(seconds);
    }

    /// A slot's decisions became final so many seconds after its end.
    pub fn slot_final(&self, seconds: f64) {
        self.flow.close.observe(seconds);
    }

    /// A slot's policies stand in etcd so many seconds after its end.
    pub fn slot_published(&self, seconds: f64) {
        self.flow.end_to_end.observe(seconds);
    }

    /// Partitions in a status.
    pub fn partitions(&self, status: &'static str, n: usize) {
        set(&self.flow.partitions.with_label_values(&[status]), n);
    }

    /// Rooms with any state, and those at levels 1, 2 and 3.
    pub fn rooms(&self, tracked: u64, by_level: [usize; 3]) {
        self.flow.tracked.set(i64::try_from(tracked).unwrap_or(i64::MAX));
        for (level, n) in ["1", "2", "3"].into_iter().zip(by_level) {
            set(&self.flow.levels.with_label_values(&[level]), n);
        }
    }

    /// One more decision.
    pub fn decision(&self, kind: &'static str) {
        self.flow.decisions.with_label_values(&[kind]).inc();
    }

    /// Entries of the control log, in all.
    pub fn control(&self, result: &'static str, total: u64) {
        raise(&self.term.control.with_label_values(&[result]), total);
    }

    /// Differences found, in all.
    pub fn divergence(&self, what: &'static str, total: u64) {
        raise(&self.term.divergence.with_label_values(&[what]), total);
    }

    /// Whether this controller leads, and which epoch leads.
    pub fn leads(&self, leads: bool, epoch: u64) {
        if self.term.leader.get() != i64::from(leads) {
            self.term.transitions.inc();
        }
        self.term.leader.set(i64::from(leads));
        self.term.epoch.set(i64::try_from(epoch).unwrap_or(i64::MAX));
    }

    /// Whether edges are told that nothing new is decided.
    pub fn frozen(&self, frozen: bool) {
        self.term.frozen.set(i64::from(frozen));
    }

    /// Policies that wait, and policies off their default.
    pub fn publish(&self, pending: usize, keys: usize) {
        set(&self.out.pending, pending);
        set(&self.out.keys, keys);
    }

    /// Transactions with a result, in all.
    pub fn transactions(&self, result: &'static str, total: u64) {
        raise(&self.out.transactions.with_label_values(&[result]), total);
    }

    /// Rows for Postgres, in all.
    pub fn audit(&self, result: &'static str, total: u64) {
        raise(&self.out.audit.with_label_values(&[result]), total);
    }

    /// How much waits on disk for Postgres, and for how many seconds.
    pub fn spool(&self, bytes: u64, oldest_seconds: f64) {
        self.out.spool_bytes.set(i64::try_from(bytes).unwrap_or(i64::MAX));
        self.out.spool_oldest.set(oldest_seconds);
    }

    /// The newest checkpoint kept.
    pub fn checkpoint(&self, slot: u64, bytes: usize) {
        self.out.checkpoint_slot.set(i64::try_from(slot).unwrap_or(i64::MAX));
        set(&self.out.checkpoint_bytes, bytes);
    }

    /// Records that are no events, in all.
    pub fn dead_letters(&self, result: &'static str, total: u64) {
        raise(&self.out.dead_letters.with_label_values(&[result]), total);
    }

    /// The hottest rooms, hottest first: the first [`ROOMS`] are shown by name, and those shown before are gone.
    pub fn hottest(&self, rooms: &[Room]) {
        let mut shown = self.hot.shown.lock().unwrap_or_else(PoisonError::into_inner);
        let now: BTreeSet<String> = rooms.iter().take(ROOMS).map(|r| r.id.clone()).collect();
        for gone in shown.difference(&now) {
            // Whether it was there is of no interest.
            let _ = self.hot.room_rate.remove_label_values(&[gone]);
            let _ = self.hot.room_ratio.remove_label_values(&[gone]);
            let _ = self.hot.room_level.remove_label_values(&[gone]);
        }
        for room in rooms.iter().take(ROOMS) {
            self.hot.room_rate.with_label_values(&[&room.id]).set(room.rate);
            self.hot.room_ratio.with_label_values(&[&room.id]).set(room.ratio);
            self.hot.room_level.with_label_values(&[&room.id]).set(i64::from(room.level));
        }
        *shown = now;
    }

    /// All of it as Prometheus reads it.
    ///
    /// # Errors
    /// A metric that cannot be written: a fault of this program.
    pub fn text(&self) -> Result<String, prometheus::Error> {
        TextEncoder::new().encode_to_string(&self.registry.gather())
    }
}

impl Flow {
    fn new(make: &Make) -> Result<Self, prometheus::Error> {
        Ok(Self {
            outcomes: make.counters(
                "events_outcome_total",
                "Records read, by what became of them",
                &["outcome"],
            )?,
            lag: make
                .number("watermark_lag_seconds", "Time since the end of the last closed slot")?,
            close: make.histogram(
                "slot_close_latency_seconds",
                "From the end of a slot to its decisions being final",
            )?,
            end_to_end: make.histogram(
                "decision_end_to_end_seconds",
                "From the end of a slot to its policies standing in etcd",
            )?,
            partitions: make.gauges("partitions", "Partitions, by how they stand", &["status"])?,
            tracked: make.gauge("rooms_tracked", "Rooms with any state")?,
            levels: make.gauges("rooms_by_level", "Rooms above level 0, by level", &["level"])?,
            decisions: make.counters("decisions_total", "Decisions made, by kind", &["kind"])?,
        })
    }
}

impl Term {
    fn new(make: &Make) -> Result<Self, prometheus::Error> {
        Ok(Self {
            control: make.counters(
                "control_entries_total",
                "Entries of the control log, by what became of them",
                &["result"],
            )?,
            divergence: make.counters(
                "divergence_total",
                "Differences from what the leader wrote; any is a fault",
                &["what"],
            )?,
            leader: make.gauge("leader", "1 while this controller leads")?,
            epoch: make
                .gauge("leader_epoch", "Epoch of the leader, as far as the control log was read")?,
            transitions: make.counter(
                "leader_transitions_total",
                "Times that this controller began or ceased to lead",
            )?,
            frozen: make.gauge("frozen", "1 while edges are told that nothing new is decided")?,
        })
    }
}

impl Out {
    fn new(make: &Make) -> Result<Self, prometheus::Error> {
        Ok(Self {
            pending: make
                .gauge("publish_pending_keys", "Policies that wait to be written to etcd")?,
            transactions: make.counters(
                "publish_txn_total",
                "Transactions to etcd, by result",
                &["result"],
            )?,
            keys: make.gauge("policy_keys", "Policies off their default in etcd")?,
            audit: make.counters(
                "audit_rows_total",
                "Rows for Postgres, by what became of them",
                &["result"],
            )?,
            spool_bytes: make.gauge("audit_spool_bytes", "Bytes on disk that wait for Postgres")?,
            spool_oldest: make.number(
                "audit_spool_oldest_seconds",
                "Age of the oldest row that waits for Postgres",
            )?,
            checkpoint_slot: make.gauge("checkpoint_slot", "Slot of the newest checkpoint kept")?,
            checkpoint_bytes: make.gauge("checkpoint_bytes", "Size of the newest checkpoint")?,
            dead_letters: make.counters(
                "dlq_total",
                "Records that are no events, by what became of them",
                &["result"],
            )?,
        })
    }
}

impl Hot {
    fn new(make: &Make) -> Result<Self, prometheus::Error> {
        Ok(Self {
            room_rate: make.numbers(
                "room_rate",
                "Events per second over 10 s of the hottest rooms",
                &["room"],
            )?,
            room_ratio: make.numbers(
                "room_burst_ratio",
                "Burst ratio of the hottest rooms",
                &["room"],
            )?,
            room_level: make.gauges("room_level", "Level of the hottest rooms", &["room"])?,
            shown: Mutex::default(),
        })
    }
}

/// A count that is kept elsewhere: it never goes down.
fn raise(counter: &IntCounter, total: u64) {
    counter.inc_by(total.saturating_sub(counter.get()));
}

fn set(gauge: &IntGauge, n: usize) {
    gauge.set(i64::try_from(n).unwrap_or(i64::MAX));
}

/// Makes metrics of one registry.
struct Make {
    registry: Registry,
}

impl Make {
    fn register<T: prometheus::core::Collector + Clone + 'static>(
        &self,
        metric: T,
    ) -> Result<T, prometheus::Error> {
        self.registry.register(Box::new(metric.clone()))?;
        Ok(metric)
    }

    fn opts(name: &str, help: &str) -> Opts {
        Opts::new(name, help).namespace("barrage")
    }

    fn counter(&self, name: &str, help: &str) -> Result<IntCounter, prometheus::Error> {
        self.register(IntCounter::with_opts(Self::opts(name, help))?)
    }

    fn counters(
        &self,
        name: &str,
        help: &str,
        labels: &[&str],
    ) -> Result<IntCounterVec, prometheus::Error> {
        self.register(IntCounterVec::new(Self::opts(name, help), labels)?)
    }

    fn gauge(&self, name: &str, help: &str) -> Result<IntGauge, prometheus::Error> {
        self.register(IntGauge::with_opts(Self::opts(name, help))?)
    }

    fn gauges(
        &self,
        name: &str,
        help: &str,
        labels: &[&str],
    ) -> Result<IntGaugeVec, prometheus::Error> {
        self.register(IntGaugeVec::new(Self::opts(name, help), labels)?)
    }

    fn number(&self, name: &str, help: &str) -> Result<Gauge, prometheus::Error> {
        self.register(Gauge::with_opts(Self::opts(name, help))?)
    }

    fn numbers(
        &self,
        name: &str,
        help: &str,
        labels: &[&str],
    ) -> Result<GaugeVec, prometheus::Error> {
        self.register(GaugeVec::new(Self::opts(name, help), labels)?)
    }

    fn histogram(&self, name: &str, help: &str) -> Result<Histogram, prometheus::Error> {
        let opts = HistogramOpts::new(name, help).namespace("barrage").buckets(SECONDS.to_vec());
        self.register(Histogram::with_opts(opts)?)
    }
}
