//! Rooms come and go: births, names, forgetting, and the restore of what counts alone cannot rebuild.

use super::blocks::{BLOCK, Blocks};
use super::line::{Cold, GONE, HELD, HOT, Line, NONE, PINNED, WARM};
use super::log::KEPT;
use super::sleep::FORGET;
use super::{Idx, Slow, Windows};
use barrage_protocol::ids::{RoomKey, Slot};

/// A name that comes for a room silent for longer is kept beside it: the room may be forgotten before the counts that
/// the name came with.
const QUIET: u32 = 1_000;

impl Windows {
    /// The id of a room: kept (bounded) until the room's first counts.
    pub fn name(&mut self, room: RoomKey, id: &str) {
        let t = self.rel(self.next);
        if let Some(found) = self.place_of(room) {
            if self.colds[found].name.is_empty() {
                self.colds[found].name = id.into();
            }
            if t - self.lines[found].last < QUIET {
                return;
            }
        }
        self.names.keep(room, id);
    }

    /// A room's place by its whole key.
    pub(super) fn place_of(&self, key: RoomKey) -> Option<u32> {
        self.table.find(key, |room| self.lines[room].key_tail == key.1 as u32)
    }

    /// A room's life begins with slot `t`.
    #[cold]
    pub(super) fn bear(&mut self, key: RoomKey, t: u32) -> u32 {
        let name = self.names.take(key).unwrap_or_else(|| {
            self.nameless += 1;
            Box::default()
        });
        let room = self.settle(key, name, t);
        self.born.push(Idx(room));
        room
    }

    fn settle(&mut self, key: RoomKey, name: Box<str>, t: u32) -> u32 {
        let (line, blocks) = (Line::born(key, t), Blocks::young(t / BLOCK));
        let cold = Cold { key, name, blocks };
        let room = if let Some(room) = self.free.pop() {
            self.lines[room] = line;
            self.colds[room] = cold;
            room
        } else {
            self.colds.push(cold);
            self.lines.push(line)
        };
        self.rows.register(room);
        self.table.insert(key, room);
        room
    }

    /// Looks at the rooms whose last event was 6000 slots ago.
    pub(super) fn forget_silent(&mut self, t: u32) {
        for room in self.sleep.take(t) {
            let line = &self.lines[room];
            if t.checked_sub(line.last) == Some(FORGET) {
                self.forget(room);
            }
        }
    }

    /// Forgets a room unless its level is above 0. Its place is not given away before the next close.
    pub(super) fn forget(&mut self, room: u32) {
        if !self.lines[room].is(HELD | GONE) {
            self.give_up(room);
            self.forgotten.push(room);
        }
    }

    fn give_up(&mut self, room: u32) {
        let line = &mut self.lines[room];
        if line.count_60s > 0 {
            self.rooms_60s -= 1;
        }
        if line.is(WARM) {
            self.rows.cool_down(room);
        }
        if line.is(HOT) {
            self.rows.calm_down(room);
        }
        line.put(WARM | HOT | PINNED, false);
        line.put(GONE, true);
        self.table.remove(self.colds[room].key, room);
    }

    /// Whether the room must not be forgotten (its level is above 0).
    pub fn hold(&mut self, idx: Idx, on: bool) {
        let t = self.rel(self.next);
        let line = &mut self.lines[idx.0];
        line.put(HELD, on);
        if !on && t - line.last > FORGET {
            self.released.push(idx.0);
        }
    }

    /// The slow state of a room, as of the slot just closed.
    #[must_use]
    pub fn export(&self, idx: Idx) -> Slow {
        let line = &self.lines[idx.0];
        let (mut blocks, mut in_block) = (self.colds[idx.0].blocks.clone(), line.in_block);
        blocks.roll(&mut in_block, self.rel(self.next) / BLOCK);
        Slow {
            first: self.abs(line.first),
            last: self.abs(line.last),
            partitions: line.partitions,
            block: self.abs(0).0 / u64::from(BLOCK) + u64::from(blocks.number()),
            in_block,
            blocks: blocks.finished(),
            at_last: line.at_last(),
            kept_until: (line.kept_until > 0).then(|| self.abs(line.kept_until)),
            surge: (blocks.surge != NONE).then(|| self.abs(blocks.surge)),
        }
    }

    /// Takes the slow state of a room as exported at the slot just closed, after the slots of the 70 s up to it were
    /// closed again with their counts. When all are in, `retain_imported` lets go of the others.
    pub fn import(&mut self, room: RoomKey, id: &str, slow: &Slow) -> Idx {
        let now = self.rel(self.next).saturating_sub(1);
        let last = self.rel(slow.last).min(now);
        let place = self.place_of(room).unwrap_or_else(|| {
            let place = self.settle(room, id.into(), last);
            // Not in the log: what would put it to sleep has passed already.
            if now - last < FORGET {
                self.sleep.put(place, last + FORGET);
            } else {
                self.released.push(place);
            }
            place
        });
        self.colds[place].name = id.into();
        let number = slow.block.saturating_sub(self.abs(0).0 / u64::from(BLOCK));
        let number = u32::try_from(number).unwrap_or(NONE / BLOCK).min((now + 1) / BLOCK);
        let surge = slow.surge.map_or(NONE, |s| self.rel(s));
        self.colds[place].blocks = Blocks::from_finished(&slow.blocks, number, surge);
        let line = &mut self.lines[place];
        line.partitions |= slow.partitions;
        line.in_block = slow.in_block;
        line.set_at_last(slow.at_last);
        let first = self.rel(slow.first).min(last);
        let kept_until = slow.kept_until.map_or(0, |s| self.rel(s));
        let line = &mut self.lines[place];
        line.first = first;
        line.kept_until = kept_until;
        self.imported.push(place);
        self.set_enough(place, now);
        Idx(place)
    }

    /// Ends a restore: rooms that have counts but were not imported had been forgotten, and are dropped.
    pub fn retain_imported(&mut self) {
        let mut imported = std::mem::take(&mut self.imported);
        imported.sort_unstable();
        let rooms: Vec<Idx> = self.rooms().collect();
        for idx in rooms {
            if imported.binary_search(&idx.0).is_err() {
                // Its entries still lie in the log: the place is free when the last of them leaves.
                let in_log = self.lines[idx.0].head != NONE
                    && self.rel(self.next) - self.lines[idx.0].last <= KEPT;
                self.give_up(idx.0);
                if !in_log {
                    self.forgotten.push(idx.0);
                }
            }
        }
    }

    /// A slot as this state counts them.
    pub(super) fn rel(&self, slot: Slot) -> u32 {
        u32::try_from(slot.0.saturating_sub(self.origin)).unwrap_or(NONE - 2 * FORGET)
    }

    /// A slot of this state as everybody counts them.
    pub(super) fn abs(&self, t: u32) -> Slot {
        Slot(self.origin + u64::from(t))
    }
}
