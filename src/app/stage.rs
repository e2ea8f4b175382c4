//! The demo's sources: the generated night and recorded events, each at its pace and through the edge.

use crate::demo::{Gate, Pace};
use crate::ingest::{Item, Poll, Source};
use crate::scenes::night::{Event, Night};
use crate::scenes::{Programme, START_MS, Scene};
use barrage_protocol::event::{Hit, Reject};
use barrage_protocol::ids::{RoomKey, Tier};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// The edge, shared by the source that sends messages through it and the loop that feeds it policies.
pub(super) type SharedGate = Arc<Mutex<Gate>>;

/// Records of a file taken in before their time has come.
const HELD: usize = 4_096;

/// The generated night as a topic whose broker's clock is event time.
pub(super) struct Paced {
    night: Night,
    next: Option<Event>,
    rooms: Vec<(RoomKey, String)>,
    pace: Pace,
    gate: SharedGate,
    offset: u64,
}

impl Paced {
    pub(super) fn new(night: Night, pace: Pace, gate: SharedGate) -> Self {
        let room = |r: &crate::scenes::cast::Room| (RoomKey::of(&r.name), r.name.clone());
        let rooms = night.cast().rooms().iter().map(room).collect();
        Self { night, next: None, rooms, pace, gate, offset: 0 }
    }
}

impl Source for Paced {
    fn poll(&mut self, max: usize, sink: &mut dyn FnMut(Item<'_>)) -> Poll {
        let now = Instant::now();
        for _ in 0..max {
            let Some(event) = self.next.take().or_else(|| self.night.next()) else {
                return Poll::Ended;
            };
            if !self.pace.passes(event.t_ms, now) {
                self.next = Some(event);
                return Poll::AtEnd;
            }
            let Some((key, room)) = self.rooms.get(event.room as usize) else { continue };
            let mut gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
            gate.set_live(self.pace.live());
            let user = format!("u_{}", event.user);
            gate.message(event.t_ms, room, event.class, event.tier, &user);
            let hit = Hit { room: *key, class: event.class, outcome: event.outcome };
            sink(Item::event(self.offset, Some(event.t_ms), event.t_ms, hit, room));
            self.offset += 1;
        }
        Poll::More
    }

    fn name(&self) -> &str {
        "the generated night"
    }
}

/// A record that waits for its time.
struct Held {
    offset: u64,
    append_ms: Option<i64>,
    t: Option<i64>,
    event: Result<Hit, Reject>,
    room: String,
}

/// Recorded or piped events at their pace.
pub(super) struct Recorded {
    inner: Box<dyn Source>,
    held: VecDeque<Held>,
    end: Option<Poll>,
    pace: Pace,
    gate: SharedGate,
}

impl Recorded {
    pub(super) fn new(inner: Box<dyn Source>, pace: Pace, gate: SharedGate) -> Self {
        Self { inner, held: VecDeque::new(), end: None, pace, gate }
    }

    fn fill(&mut self) {
        let held = &mut self.held;
        let poll = self.inner.poll(HELD, &mut |item| {
            let Item { offset, append_ms, t, event, room } = item;
            held.push_back(Held { offset, append_ms, t, event, room: room.to_owned() });
        });
        self.end = Some(poll);
    }
}

impl Source for Recorded {
    fn poll(&mut self, max: usize, sink: &mut dyn FnMut(Item<'_>)) -> Poll {
        let now = Instant::now();
        if self.held.is_empty() && !matches!(self.end, Some(Poll::Ended)) {
            self.fill();
        }
        for _ in 0..max {
            let Some(first) = self.held.front() else { break };
            if first.t.is_some_and(|t| !self.pace.passes(t, now)) {
                return Poll::AtEnd;
            }
            let Some(record) = self.held.pop_front() else { break };
            if let (Ok(hit), Some(t)) = (&record.event, record.t) {
                let mut gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
                gate.set_live(self.pace.live());
                // A recording does not say who paid: everybody is ordinary.
                gate.message(t, &record.room, hit.class, Tier::Ordinary, "");
            }
            let Held { offset, append_ms, t, event, room } = record;
            sink(Item { offset, append_ms, t, event, room: &room });
        }
        if !self.held.is_empty() {
            return Poll::More;
        }
        match self.end.take() {
            Some(Poll::Ended) => {
                self.end = Some(Poll::Ended);
                Poll::Ended
            }
            Some(poll) => poll,
            None => Poll::More,
        }
    }

    fn name(&self) -> &str {
        self.inner.name()
    }
}

/// Which scene is on stage.
pub(super) struct Show {
    programme: Programme,
}

impl Show {
    pub(super) fn new(programme: Programme) -> Self {
        Self { programme }
    }

    /// The scene at an event time; none in the prelude and between matches.
    pub(super) fn scene(&self, t_ms: i64) -> Option<Scene> {
        let moment = self.programme.at(u64::try_from(t_ms - START_MS).ok()?);
        moment.into_ms.map(|_| moment.scene)
    }
}
