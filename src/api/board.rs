//! The read model: hottest rooms with their recent past, decisions told, what the edge does. Everything in it is bounded.

use super::words;
use barrage_dataflows::view::{Room, View};
use barrage_protocol::decision::{Decision, Kind};
use barrage_protocol::ids::{CLASSES, Class, Level, Slot};
use barrage_protocol::policy::Policy;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::broadcast;

/// Decisions kept.
pub const DECISIONS_MAX: usize = 2_000;
/// Rooms whose recent past is kept.
pub const TRACKS_MAX: usize = 512;
/// Points of a room's past: three minutes of event time, one a second.
pub const POINTS_MAX: usize = 180;
/// Points of the small curve beside a room's name.
const SPARK: usize = 48;
/// Frames that a reader of the stream may lag behind before it is let go.
const FRAMES: usize = 256;

/// One second of a room.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Point {
    /// End of the second, event time in milliseconds.
    pub t: i64,
    /// Events of the second.
    pub rate_1s: u32,
    /// Events per second over the last ten.
    pub rate_10s: f64,
    /// Baseline in events per second.
    pub baseline: Option<f64>,
    /// 10 s rate beyond which the level would rise.
    pub threshold: Option<f64>,
    /// Level.
    pub level: u8,
    /// Events of the second that the edge let pass, at once or later.
    pub passed: Option<u32>,
}

/// A room of the list.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Id.
    pub room: String,
    /// Group.
    pub group: String,
    /// Level.
    pub level: u8,
    /// Whether a surge is on.
    pub surge: bool,
    /// Whether a micro-burst is on.
    pub micro: bool,
    /// Whether it cannot be seen at present.
    pub unknown: bool,
    /// Events of the last second.
    pub rate_1s: u32,
    /// Events per second over the last ten.
    pub rate_10s: f64,
    /// Events of the last minute.
    pub count_60s: u32,
    /// Baseline in events per second.
    pub baseline: Option<f64>,
    /// Burst ratio.
    pub ratio: Option<f64>,
    /// 10 s rate beyond which the level would rise.
    pub threshold: Option<f64>,
    /// How near it is to the next level, 0 to 1.
    pub heat: f64,
    /// Events per second of the recent past.
    pub spark: Vec<u32>,
}

/// A decision as it is shown.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Told {
    /// End of its slot, event time in milliseconds.
    pub t: i64,
    /// The headline.
    pub title: String,
    /// The calculation.
    pub arithmetic: String,
    /// The decision itself.
    #[serde(flatten)]
    pub decision: Decision,
}

/// What became of messages at the edge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Tally {
    /// Passed at once.
    pub admitted: u64,
    /// Passed later.
    pub delayed: u64,
    /// Did not pass.
    pub refused: u64,
}

/// What the edge does to one class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Lane {
    /// The class.
    pub class: Class,
    /// In the last ten seconds.
    pub recent: Tally,
    /// Since the start.
    pub total: Tally,
}

/// The edge at present.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Edge {
    /// State of its table.
    pub state: String,
    /// (epoch, seq) of the last heartbeat.
    pub applied: (u64, u64),
    /// Rooms off their default.
    pub rooms: usize,
    /// By class, highest priority first.
    pub classes: Vec<Lane>,
}

/// Where the stream stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Baselines are being learned, at full speed.
    #[default]
    Warming,
    /// Events flow.
    Live,
    /// The stream has ended.
    Ended,
}

/// The scene on stage.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Scene {
    /// Name.
    pub name: String,
    /// One sentence.
    pub tale: String,
}

/// What the page is told several times a second.
#[derive(Clone, Debug, Serialize)]
pub struct Tick {
    /// End of the last slot shown, event time in milliseconds.
    pub now: i64,
    /// Where the stream stands.
    pub phase: Phase,
    /// Where the events come from.
    pub source: String,
    /// Seconds of event time per second.
    pub speed: f64,
    /// The scene, where there are scenes.
    pub scene: Option<Scene>,
    /// Events of the last second, and per second over the last ten.
    pub site: (u64, f64),
    /// Rooms alive.
    pub alive: u64,
    /// Rooms at level 1, 2, 3.
    pub held: [usize; 3],
    /// Decisions since the start.
    pub decided: u64,
    /// The edge.
    pub edge: Edge,
    /// Readers of the stream that were too slow, and let go.
    pub slow_readers: u64,
    /// The hottest rooms.
    pub rooms: Vec<Row>,
}

/// A frame of the stream.
#[derive(Clone, Debug)]
pub struct Frame {
    /// Name of the event.
    pub event: &'static str,
    /// JSON.
    pub data: Arc<str>,
}

#[derive(Debug, Default)]
struct Inner {
    phase: Phase,
    source: String,
    speed: f64,
    scene: Option<Scene>,
    now: i64,
    view: Arc<View>,
    tracks: HashMap<String, (Slot, VecDeque<Point>)>,
    decisions: VecDeque<Told>,
    decided: u64,
    policies: BTreeMap<String, Policy>,
    edge: Edge,
    leader: serde_json::Value,
    edges: Vec<serde_json::Value>,
}

/// The read model; shared by its feeder and the server.
#[derive(Debug)]
pub struct Board {
    inner: Mutex<Inner>,
    frames: broadcast::Sender<Frame>,
    /// Readers of the stream at present.
    pub(super) readers: AtomicUsize,
    /// Readers let go because they were too slow.
    pub(super) slow: AtomicU64,
}

impl Board {
    /// An empty board. `source` says where the events come from.
    #[must_use]
    pub fn new(source: &str, speed: f64) -> Self {
        let inner = Inner { source: source.to_owned(), speed, ..Inner::default() };
        Self {
            inner: Mutex::new(inner),
            frames: broadcast::channel(FRAMES).0,
            readers: AtomicUsize::new(0),
            slow: AtomicU64::new(0),
        }
    }

    /// Where the stream stands from now on.
    pub fn phase(&self, phase: Phase) {
        self.lock().phase = phase;
    }

    /// The scene from now on; true if it is another one.
    pub fn scene(&self, name: &str, tale: &str) -> bool {
        let scene = Scene { name: name.to_owned(), tale: tale.to_owned() };
        let mut inner = self.lock();
        let other = inner.scene.as_ref() != Some(&scene);
        inner.scene = Some(scene);
        other
    }

    /// A newer view, and what the edge let pass of a room in the second it ends with.
    pub fn view(&self, view: &Arc<View>, passed: impl Fn(&str) -> Option<u32>) {
        let mut inner = self.lock();
        if view.slot <= inner.view.slot && inner.now > 0 {
            return;
        }
        inner.now = view.slot.end_ms();
        inner.view = Arc::clone(view);
        let t = inner.now;
        for room in &view.rooms {
            let point = Point {
                t,
                rate_1s: room.count_1s,
                rate_10s: f64::from(room.count_10s) / 10.0,
                baseline: room.baseline_milli.map(milli),
                threshold: room.threshold_milli.map(milli),
                level: room.level.0,
                passed: passed(&room.room),
            };
            let track = inner.tracks.entry(room.room.clone()).or_default();
            track.0 = view.slot;
            track.1.push_back(point);
            if track.1.len() > POINTS_MAX {
                track.1.pop_front();
            }
        }
        if inner.tracks.len() > TRACKS_MAX {
            // Keep the rooms seen last; ties do not matter, the past of both is old.
            let mut seen: Vec<Slot> = inner.tracks.values().map(|t| t.0).collect();
            seen.sort_unstable();
            let oldest = seen[seen.len() - TRACKS_MAX / 2];
            inner.tracks.retain(|_, track| track.0 >= oldest);
        }
    }

    /// Decisions, in order, as they became final.
    pub fn decided(&self, decisions: &[Decision]) {
        let mut inner = self.lock();
        for decision in decisions {
            let told = Told {
                t: decision.slot.end_ms(),
                title: words::title(decision),
                arithmetic: words::arithmetic(decision),
                decision: decision.clone(),
            };
            self.send("decision", &told);
            inner.decided += 1;
            inner.decisions.push_back(told);
            if inner.decisions.len() > DECISIONS_MAX {
                inner.decisions.pop_front();
            }
        }
    }

    /// What is published at present.
    pub fn policies(&self, policies: BTreeMap<String, Policy>) {
        self.lock().policies = policies;
    }

    /// How this controller stands among those of its shard.
    pub fn leader(&self, told: serde_json::Value) {
        self.lock().leader = told;
    }

    /// How this controller stands.
    #[must_use]
    pub fn who_leads(&self) -> serde_json::Value {
        self.lock().leader.clone()
    }

    /// The edges that have reported, each with what it has applied.
    pub fn edges(&self, edges: Vec<serde_json::Value>) {
        self.lock().edges = edges;
    }

    /// The edges that have reported.
    #[must_use]
    pub fn all_edges(&self) -> Vec<serde_json::Value> {
        self.lock().edges.clone()
    }

    /// What the edge does at present.
    pub fn edge(&self, edge: Edge) {
        self.lock().edge = edge;
    }

    /// Tells all readers how things stand. To be called several times a second.
    pub fn tick(&self) {
        if self.frames.receiver_count() > 0 {
            let tick = self.now();
            self.send("tick", &tick);
        }
    }

    /// How things stand.
    #[must_use]
    pub fn now(&self) -> Tick {
        let inner = self.lock();
        let mut held = [0; 3];
        for policy in inner.policies.values() {
            if let Some(n) = held.get_mut(usize::from(policy.level.0).wrapping_sub(1)) {
                *n += 1;
            }
        }
        let sum = |counts: &[i64; CLASSES]| counts.iter().sum::<i64>().max(0) as u64;
        let site = &inner.view.site;
        Tick {
            now: inner.now,
            phase: inner.phase,
            source: inner.source.clone(),
            speed: inner.speed,
            scene: inner.scene.clone(),
            site: (sum(&site.last_1s), sum(&site.last_10s) as f64 / 10.0),
            alive: inner.view.stats.rooms,
            held,
            decided: inner.decided,
            edge: inner.edge.clone(),
            slow_readers: self.slow.load(Ordering::Relaxed),
            rooms: inner.view.rooms.iter().map(|r| inner.row(r)).collect(),
        }
    }

    /// The rooms of the view that fit.
    #[must_use]
    pub fn rooms(&self, level: Option<u8>, prefix: &str) -> Vec<Row> {
        let inner = self.lock();
        let fits = |r: &&Room| r.room.starts_with(prefix) && level.is_none_or(|l| r.level.0 == l);
        inner.view.rooms.iter().filter(fits).map(|r| inner.row(r)).collect()
    }

    /// One room: its row, if it is among the hottest, its recent past and its policy; none if nothing is known of it.
    #[must_use]
    pub fn room(&self, room: &str) -> Option<(Option<Row>, Vec<Point>, Option<Policy>)> {
        let inner = self.lock();
        let row = inner.view.rooms.iter().find(|r| r.room == room).map(|r| inner.row(r));
        let points = inner.tracks.get(room).map(|t| t.1.iter().copied().collect::<Vec<_>>());
        let policy = inner.policies.get(room).cloned();
        let known = row.is_some() || points.is_some() || policy.is_some();
        known.then(|| (row, points.unwrap_or_default(), policy))
    }

    /// Decisions, newest first, that fit.
    #[must_use]
    pub fn decisions(&self, fits: impl Fn(&Told) -> bool, limit: usize) -> Vec<Told> {
        let inner = self.lock();
        inner.decisions.iter().rev().filter(|d| fits(d)).take(limit).cloned().collect()
    }

    /// How many decisions of each kind there were among those kept, and the highest level.
    #[must_use]
    pub fn kinds(&self) -> (BTreeMap<Kind, usize>, Level) {
        let inner = self.lock();
        let mut kinds = BTreeMap::new();
        let mut highest = Level::NORMAL;
        for told in &inner.decisions {
            *kinds.entry(told.decision.kind).or_default() += 1;
            if told.decision.kind == Kind::Level {
                highest = highest.max(Level(told.decision.to.parse().unwrap_or(0)));
            }
        }
        (kinds, highest)
    }

    /// Whether there is anything to see.
    #[must_use]
    pub fn ready(&self) -> bool {
        self.lock().phase != Phase::Warming
    }

    /// The stream from now on, beginning with how things stand.
    pub(super) fn subscribe(&self) -> (Frame, broadcast::Receiver<Frame>) {
        // Subscribed first: a frame may come twice, but none is missed; decisions have ids.
        let receiver = self.frames.subscribe();
        let hello = serde_json::json!({
            "tick": self.now(),
            "decisions": self.decisions(|_| true, 60),
        });
        (Frame { event: "hello", data: hello.to_string().into() }, receiver)
    }

    fn send<T: Serialize>(&self, event: &'static str, what: &T) {
        if let Ok(data) = serde_json::to_string(what) {
            // Nobody listens: fine.
            let _ = self.frames.send(Frame { event, data: data.into() });
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn row(&self, room: &Room) -> Row {
        let rate = f64::from(room.count_10s) / 10.0;
        let threshold = room.threshold_milli.map(milli);
        let heat = match threshold {
            Some(threshold) if threshold > 0.0 => (rate / threshold).min(1.0),
            _ => f64::from(room.level.0.min(1)),
        };
        let spark = self.tracks.get(&room.room).map_or_else(Vec::new, |(_, points)| {
            points.iter().skip(points.len().saturating_sub(SPARK)).map(|p| p.rate_1s).collect()
        });
        Row {
            room: room.room.clone(),
            group: room.group.clone(),
            level: room.level.0,
            surge: room.surge,
            micro: room.micro,
            unknown: room.unknown,
            rate_1s: room.count_1s,
            rate_10s: rate,
            count_60s: room.count_60s,
            baseline: room.baseline_milli.map(milli),
            ratio: room.ratio_milli.map(milli),
            threshold,
            heat: (heat * 1000.0).round() / 1000.0,
            spark,
        }
    }
}

fn milli(thousandths: i64) -> f64 {
    thousandths as f64 / 1000.0
}
