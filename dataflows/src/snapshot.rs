//! The slow state of everything at a closed slot: what a restart cannot rebuild from 70 s of counts.

use crate::report::Ended;
use barrage_engine::blast::Arbiter;
use barrage_engine::room::State;
use barrage_engine::rules::RuleSet;
use barrage_engine::windows::Slow;
use barrage_protocol::ids::{Level, RoomKey, Slot};
use serde::{Deserialize, Serialize};

/// Slow state at the end of a closed slot, the same for any number of workers. Opaque but for its slot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    pub(crate) slot: Slot,
    pub(crate) rules: RuleSet,
    pub(crate) absent: u32,
    pub(crate) hold_until: Slot,
    pub(crate) arbiter: Arbiter,
    pub(crate) rooms: Vec<Room>,
}

/// Slow state of one room.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Room {
    pub(crate) key: RoomKey,
    pub(crate) name: String,
    pub(crate) windows: Slow,
    pub(crate) state: Option<State>,
}

/// What the host knows of the slot, because it said so itself.
#[derive(Clone, Debug)]
pub struct Frame {
    /// The slot.
    pub slot: Slot,
    /// Rules in force in it.
    pub rules: RuleSet,
    /// Partitions absent in it.
    pub absent: u32,
    /// First slot in which a level may fall.
    pub hold_until: Slot,
}

impl Snapshot {
    /// Joins what the workers handed out.
    #[must_use]
    pub fn join(frame: Frame, arbiter: Arbiter, shares: impl Iterator<Item = Vec<Room>>) -> Self {
        let mut rooms: Vec<Room> = shares.flatten().collect();
        rooms.sort_by_key(|r| r.key);
        let Frame { slot, rules, absent, hold_until } = frame;
        Self { slot, rules, absent, hold_until, arbiter, rooms }
    }

    /// The slot it was taken at: decisions go on with the next one.
    #[must_use]
    pub fn slot(&self) -> Slot {
        self.slot
    }

    /// The rule set in force.
    #[must_use]
    pub fn rules(&self) -> &RuleSet {
        &self.rules
    }

    /// Partitions absent, as bits `partition % 32`.
    #[must_use]
    pub fn absent(&self) -> u32 {
        self.absent
    }

    /// First slot in which a level may fall.
    #[must_use]
    pub fn hold_until(&self) -> Slot {
        self.hold_until
    }

    /// Rules that are in, by room id.
    pub fn open(&self) -> impl Iterator<Item = Ended> + '_ {
        self.rooms.iter().flat_map(|room| {
            let spans = room.state.iter().flat_map(State::open);
            spans.map(|span| Ended { room: room.name.clone(), span })
        })
    }

    /// Rooms above level 0, by id.
    pub fn levels(&self) -> impl Iterator<Item = (&str, Level)> + '_ {
        self.rooms.iter().filter_map(|room| {
            let level = room.state.as_ref()?.level();
            (level > Level::NORMAL).then_some((room.name.as_str(), level))
        })
    }

    /// Rooms in it.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rooms.len()
    }

    /// Whether there is no room in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rooms.is_empty()
    }

    /// First slot whose counts are needed to rebuild the windows: S − 699.
    #[must_use]
    pub fn first(&self) -> Slot {
        self.slot.minus(699)
    }
}
