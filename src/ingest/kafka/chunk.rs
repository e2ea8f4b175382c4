//! Records of one partition between the thread that polls and the reader that takes them: two chunks, used in turns.

use crate::ingest::Item;
use barrage_protocol::event::{Hit, Reject};

/// Records in a chunk beyond which its partition is paused.
pub(super) const RECORDS_MAX: usize = 8_192;

/// A record parsed: its room's id lies in the chunk's text.
#[derive(Clone, Copy, Debug)]
struct Parsed {
    offset: u64,
    append_ms: Option<i64>,
    t: Option<i64>,
    event: Result<Hit, Reject>,
    room: (u32, u8),
}

/// Records in order of their offsets. Kept and used again, so that a record costs no allocation.
#[derive(Debug, Default)]
pub struct Chunk {
    records: Vec<Parsed>,
    rooms: String,
    taken: usize,
}

impl Chunk {
    /// Adds a record.
    pub(super) fn push(&mut self, item: &Item<'_>) {
        let start = u32::try_from(self.rooms.len()).unwrap_or(u32::MAX);
        // Rooms have at most 128 bytes; a chunk of them is far below 4 GiB.
        let length = u8::try_from(item.room.len()).unwrap_or(0);
        self.rooms.push_str(item.room);
        let Item { offset, append_ms, t, event, .. } = *item;
        self.records.push(Parsed { offset, append_ms, t, event, room: (start, length) });
    }

    /// Records not taken.
    pub(super) fn len(&self) -> usize {
        self.records.len() - self.taken
    }

    /// Hands out at most `max` records.
    pub(super) fn take(&mut self, max: usize, sink: &mut dyn FnMut(Item<'_>)) -> usize {
        let until = self.records.len().min(self.taken.saturating_add(max));
        for parsed in &self.records[self.taken..until] {
            let start = parsed.room.0 as usize;
            let room = self.rooms.get(start..start + usize::from(parsed.room.1)).unwrap_or("");
            let Parsed { offset, append_ms, t, event, .. } = *parsed;
            sink(Item { offset, append_ms, t, event, room });
        }
        std::mem::replace(&mut self.taken, until).abs_diff(until)
    }

    /// Forgets everything, and keeps the memory.
    pub(super) fn clear(&mut self) {
        self.records.clear();
        self.rooms.clear();
        self.taken = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use barrage_protocol::event::Reason;
    use barrage_protocol::ids::{Class, Outcome, RoomKey};

    #[test]
    fn records_come_out_as_they_went_in() {
        let mut chunk = Chunk::default();
        for round in 0..3 {
            let hit = |room: &str| Hit {
                room: RoomKey::of(room),
                class: Class::Chat,
                outcome: Outcome::Ok,
            };
            for i in 0..10_u64 {
                let room = format!("room-{i}");
                if i % 4 == 3 {
                    chunk.push(&Item::rejected(i, Some(5), Reject::of(Reason::Json)));
                } else {
                    chunk.push(&Item::event(i, None, 7, hit(&room), &room));
                }
            }
            let mut seen = Vec::new();
            assert_eq!(
                chunk.take(4, &mut |item| seen.push((
                    item.offset,
                    item.room.to_owned(),
                    item.event.is_ok()
                ))),
                4
            );
            assert_eq!(chunk.len(), 6);
            assert_eq!(
                chunk.take(100, &mut |item| seen.push((
                    item.offset,
                    item.room.to_owned(),
                    item.event.is_ok()
                ))),
                6
            );
            assert_eq!(chunk.take(1, &mut |_| unreachable!("round {round}")), 0);
            assert_eq!(seen.len(), 10);
            assert!(
                seen.iter()
                    .all(|(i, room, ok)| *ok == (i % 4 != 3)
                        && (!ok || *room == format!("room-{i}")))
            );
            chunk.clear();
        }
    }
}
