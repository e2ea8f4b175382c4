//! Identities and small numbers that every part of the program shares.

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_128;

/// Length of a slot in milliseconds of event time.
pub const SLOT_MS: u64 = 100;

/// A slot of event time: `floor(t_ms / SLOT_MS)` since the Unix epoch. Also the dataflow's timestamp.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Slot(pub u64);

impl Slot {
    /// The slot that holds the instant `ms` (milliseconds since the Unix epoch; negative counts as 0).
    #[must_use]
    pub fn of_ms(ms: i64) -> Self {
        Self(u64::try_from(ms).unwrap_or(0) / SLOT_MS)
    }

    /// First millisecond of the slot.
    #[must_use]
    pub fn start_ms(self) -> i64 {
        i64::try_from(self.0.saturating_mul(SLOT_MS)).unwrap_or(i64::MAX)
    }

    /// First millisecond after the slot.
    #[must_use]
    pub fn end_ms(self) -> i64 {
        self.next().start_ms()
    }

    /// The slot after this one.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    /// The slot `n` before this one, or slot 0.
    #[must_use]
    pub fn minus(self, n: u64) -> Self {
        Self(self.0.saturating_sub(n))
    }
}

/// 128-bit hash of a room's id (XXH3): what counts and state are keyed by. The id itself is kept once a room.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct RoomKey(pub u64, pub u64);

impl RoomKey {
    /// The key of a room id.
    #[must_use]
    pub fn of(room: &str) -> Self {
        let h = xxh3_128(room.as_bytes());
        Self((h >> 64) as u64, h as u64)
    }

    /// 64 well-mixed bits, for tables and for the exchange between workers.
    #[must_use]
    pub fn route(self) -> u64 {
        self.0
    }
}

/// Number of priority classes.
pub const CLASSES: usize = 6;

/// Priority class of a message, from the highest to the lowest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum Class {
    /// Messages of the platform itself.
    System = 0,
    /// Announcements to a room.
    Broadcast = 1,
    /// Gifts and combos.
    Gift = 2,
    /// Commands to the room.
    Command = 3,
    /// Ordinary chat.
    Chat = 4,
    /// Heartbeats, and whatever has no known class.
    Heartbeat = 5,
}

impl Class {
    /// All classes, highest priority first; the position is the class's index.
    pub const ALL: [Self; CLASSES] =
        [Self::System, Self::Broadcast, Self::Gift, Self::Command, Self::Chat, Self::Heartbeat];

    /// Name as written in events, rules and policies.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::Broadcast => "broadcast",
            Self::Gift => "gift",
            Self::Command => "command",
            Self::Chat => "chat",
            Self::Heartbeat => "heartbeat",
        }
    }

    /// The class of that name, if it is one.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|c| c.name() == name)
    }

    /// Priority weight (semantics §10): 100, 75, 60, 45, 30, 10.
    #[must_use]
    pub fn priority(self) -> u8 {
        [100, 75, 60, 45, 30, 10][self as usize]
    }
}

/// Number of outcomes.
pub const OUTCOMES: usize = 5;

/// What became of the request an event stands for.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum Outcome {
    /// Served.
    #[default]
    Ok = 0,
    /// Failed with an error.
    Error = 1,
    /// Failed by running out of time.
    Timeout = 2,
    /// Refused by a limit; neither success nor failure.
    Rejected = 3,
    /// Not to be judged.
    Ignored = 4,
}

impl Outcome {
    /// All outcomes; the position is the outcome's index.
    pub const ALL: [Self; OUTCOMES] =
        [Self::Ok, Self::Error, Self::Timeout, Self::Rejected, Self::Ignored];

    /// Name as written in events.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Error => "error",
            Self::Timeout => "timeout",
            Self::Rejected => "rejected",
            Self::Ignored => "ignored",
        }
    }

    /// The outcome of that name, if it is one.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|o| o.name() == name)
    }
}

/// Which users a measure touches: levels 1 and 2 touch ordinary users only.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Tier {
    /// Everyone else.
    #[default]
    Ordinary,
    /// Users that pass at levels 1 and 2.
    Vip,
}

/// Degrade level of a room: 0 normal, 1 trim, 2 buffer, 3 survive.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Level(pub u8);

impl Level {
    /// Normal operation.
    pub const NORMAL: Self = Self(0);
    /// The highest level.
    pub const MAX: Self = Self(3);

    /// Name of the level: normal, trim, buffer, survive.
    #[must_use]
    pub fn name(self) -> &'static str {
        ["normal", "trim", "buffer", "survive"][usize::from(self.0.min(3))]
    }
}
