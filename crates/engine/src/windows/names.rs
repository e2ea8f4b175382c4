//! Ids of rooms that wait for their room's first counts.

use barrage_protocol::ids::RoomKey;
use std::collections::BTreeMap;

/// Names kept at most in each of the two generations.
const MOST: usize = 1 << 21;
/// Slots after which a generation passes: a name still waiting then has no room to come.
const AGE: u32 = 6_000;

/// Names by key, in two generations.
#[derive(Debug, Default)]
pub(super) struct Names {
    young: BTreeMap<RoomKey, Box<str>>,
    old: BTreeMap<RoomKey, Box<str>>,
    turned: u32,
    /// Names not kept for want of room.
    pub(super) dropped: u64,
}

impl Names {
    /// Keeps a name.
    pub(super) fn keep(&mut self, room: RoomKey, id: &str) {
        if self.young.len() < MOST {
            self.young.insert(room, id.into());
        } else {
            self.dropped += 1;
        }
    }

    /// The name of a room that is born.
    pub(super) fn take(&mut self, room: RoomKey) -> Option<Box<str>> {
        self.young.remove(&room).or_else(|| self.old.remove(&room))
    }

    /// Time passes.
    pub(super) fn turn(&mut self, t: u32) {
        if t.wrapping_sub(self.turned) >= AGE {
            self.turned = t;
            self.old = std::mem::take(&mut self.young);
        }
    }

    /// Names waiting.
    pub(super) fn len(&self) -> usize {
        self.young.len() + self.old.len()
    }
}
