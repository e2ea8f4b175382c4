//! What a room's owner must know beside counts: names, levels to begin with, absences, requests for its state.

use crate::route;
use barrage_protocol::ids::{Level, RoomKey, Slot};
use serde::{Deserialize, Serialize};

/// A note to one worker, taken in before the slot it is stamped with closes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Note {
    /// The id behind a key.
    Name(RoomKey, Box<str>),
    /// A level in force before the first slot.
    Seed(Box<str>, Level),
    /// The frozen baseline of a room is let go.
    Rebase(RoomKey),
    /// Partitions absent from now on.
    Absent(usize, u32),
    /// No level falls before the slot.
    HoldUntil(usize, Slot),
    /// The rule set changes at this slot: its rows come by way of differential, and must be waited for.
    Rules(usize),
    /// Hand out the slow state as of the slot before.
    Snapshot(usize),
}

impl Note {
    /// Where it goes: to the room's owner, or to the worker named.
    pub(crate) fn route(&self) -> u64 {
        match self {
            Self::Name(key, _) | Self::Rebase(key) => route(*key),
            Self::Seed(room, _) => route(RoomKey::of(room)),
            Self::Absent(to, _) | Self::HoldUntil(to, _) | Self::Rules(to) | Self::Snapshot(to) => {
                *to as u64
            }
        }
    }
}
