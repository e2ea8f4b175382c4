//! Rooms that have fallen silent, by the slot in which they are forgotten.

/// Slots after its last event that a room at level 0 is forgotten: 10 minutes.
pub(super) const FORGET: u32 = 6_000;

/// A wheel of slots. A room is put in once a silence, when its windows are gone; if it speaks again meanwhile, the
/// slot of its last event no longer fits when its turn comes.
#[derive(Debug)]
pub(super) struct Sleep {
    wheel: Vec<Vec<u32>>,
}

impl Default for Sleep {
    fn default() -> Self {
        Self { wheel: vec![Vec::new(); FORGET as usize + 1] }
    }
}

impl Sleep {
    /// The room is looked at in slot `due`, which is at most `FORGET` ahead.
    pub(super) fn put(&mut self, room: u32, due: u32) {
        let at = due as usize % self.wheel.len();
        self.wheel[at].push(room);
    }

    /// The rooms to look at in slot `t`.
    pub(super) fn take(&mut self, t: u32) -> Vec<u32> {
        let at = t as usize % self.wheel.len();
        std::mem::take(&mut self.wheel[at])
    }

    pub(super) fn bytes(&self) -> usize {
        self.wheel.iter().map(|w| w.capacity() * size_of::<u32>()).sum::<usize>()
            + self.wheel.capacity() * size_of::<Vec<u32>>()
    }
}
