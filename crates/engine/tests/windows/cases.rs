//! Reported faults of windows (W01, W02, W04), as the slots of this specification see them, and edges by hand.

use barrage_engine::features::Features;
use barrage_engine::precount::{Record, Table};
use barrage_engine::rules::Floors;
use barrage_engine::windows::Windows;
use barrage_protocol::ids::{Class, Outcome, RoomKey, Slot};

const T0: i64 = 1_700_000_000_000;

/// Windows over one room, fed with instants.
struct Watch {
    windows: Windows,
    events: Vec<i64>,
    key: RoomKey,
}

impl Watch {
    fn new(events: Vec<i64>) -> Self {
        let start = Slot::of_ms(events.first().copied().unwrap_or(T0));
        Self { windows: Windows::new(start), events, key: RoomKey::of("r1") }
    }

    /// Closes every slot up to the one that holds `ms` after T0, and tells what is known then.
    fn at(&mut self, ms: i64) -> Features {
        let mut due = Vec::new();
        while self.windows.next() <= Slot::of_ms(T0 + ms) {
            let slot = self.windows.next();
            let mut table = Table::default();
            for _ in self.events.iter().filter(|e| Slot::of_ms(**e) == slot) {
                table.add(self.key, Class::Chat, Outcome::Ok);
            }
            let mut records = Vec::new();
            table.drain(0, &mut records);
            self.windows.close(&records, &mut due);
        }
        let idx = self.windows.find(self.key).expect("the room has spoken");
        self.windows.features(idx)
    }
}

/// W01: two buckets let the double pass around their edge; ten events within 330 ms are ten in the last second.
#[test]
fn w01_a_second_slides_over_every_slot_edge() {
    let mut events: Vec<i64> = (0..5).map(|i| T0 + 800 + 20 * i).collect();
    events.extend((0..5).map(|i| T0 + 1_050 + 20 * i));
    let mut watch = Watch::new(events);
    let f = watch.at(1_130);
    assert_eq!((f.count_1s, f.before_1s, f.count), (10, 8, 2));
    // The slot of 800 ms leaves the second with slot 1,800, not before.
    assert_eq!(watch.at(1_799).count_1s, 10);
    assert_eq!(watch.at(1_800).count_1s, 5);
}

/// W02: what lies behind a silence longer than the window is not counted again. The case asks at instants; here the
/// slot that holds the instant has closed, so the window is the 600 slots that end with it.
#[test]
fn w02_a_silence_longer_than_the_window_leaves_nothing() {
    // 50 events in the first five seconds, one at 61 s, one at 65 s, one at 125 s, one at 600 s.
    let mut events: Vec<i64> = (0..50).map(|i| T0 + 100 * i).collect();
    events.extend([61_000, 65_000, 125_000, 600_000].map(|ms| T0 + ms));
    let mut watch = Watch::new(events);
    // At 61 s the slots 1.1 s … 61.0 s count: 39 of the first five seconds, and the one that has just come.
    assert_eq!(watch.at(61_000).count_60s, 40);
    assert_eq!(watch.at(65_000).count_60s, 2);
    assert_eq!(watch.at(125_000).count_60s, 1);
    let f = watch.at(600_000);
    assert_eq!((f.count_60s, f.count_10s, f.count_1s), (1, 1, 1));
    // What is kept over a hole is a baseline, never a count.
    assert!(f.hole);
}

/// W04: one event on either side of an instant: every window is taken at one and the same slot.
#[test]
fn w04_all_windows_have_one_now() {
    let mut watch = Watch::new(vec![T0 + 39_999, T0 + 40_000, T0 + 40_001]);
    let f = watch.at(39_999);
    assert_eq!((f.count, f.count_1s, f.count_60s), (1, 1, 1));
    let f = watch.at(40_001);
    assert_eq!((f.count, f.before_1s, f.count_1s, f.count_60s), (2, 1, 3, 3));
    let f = watch.at(40_899);
    assert_eq!((f.count_1s, f.count_60s), (3, 3));
    let f = watch.at(40_900);
    assert_eq!((f.count_1s, f.count_60s), (2, 3));
}

/// Keys that agree in the 96 bits of the table are still two rooms.
#[test]
fn rooms_that_nearly_share_a_key_are_kept_apart() {
    let keys = [RoomKey(5 << 60, 7 << 32 | 1), RoomKey(5 << 60, 7 << 32 | 2)];
    let mut windows = Windows::new(Slot(1_000));
    let mut due = Vec::new();
    for slot in 0..5u16 {
        let of = |i: usize| Record {
            room: keys[i],
            classes: [0, 0, 0, 0, 1 + slot + i as u16 * 100, 0],
            ..Record::default()
        };
        windows.close(&[of(1), of(0), of(1)], &mut due);
    }
    let count = |w: &Windows, i: usize| w.features(w.find(keys[i]).expect("known")).count_60s;
    assert_eq!((count(&windows, 0), count(&windows, 1)), (15, 2 * 515));
}

/// A record without events bears nobody; a name that comes before its room is the room's.
#[test]
fn empty_records_and_early_names() {
    let mut windows = Windows::new(Slot(500));
    let (key, mut due) = (RoomKey::of("a"), Vec::new());
    windows.name(key, "a");
    windows.close(&[Record { room: key, ..Record::default() }], &mut due);
    assert_eq!(windows.find(key), None);
    windows.close(&[Record { room: key, classes: [1; 6], ..Record::default() }], &mut due);
    let idx = windows.find(key).expect("born");
    assert_eq!((windows.room(idx), windows.stats().nameless), ("a", 0));
    // Silent for 6,000 slots: forgotten, and the next close no longer knows it.
    for _ in 0..5_999 {
        windows.close(&[], &mut due);
    }
    assert_eq!(windows.find(key), Some(idx));
    windows.close(&[], &mut due);
    assert_eq!(windows.forgotten().collect::<Vec<_>>(), [idx]);
    assert_eq!((windows.find(key), windows.stats().rooms, windows.stats().entries), (None, 0, 0));
}

/// The name that comes with a room's return is kept even if the room is forgotten between the two.
#[test]
fn a_name_sent_before_the_room_is_forgotten_is_not_lost() {
    let mut windows = Windows::new(Slot(500));
    let (key, mut due) = (RoomKey::of("a"), Vec::new());
    let one = [Record { room: key, classes: [1; 6], ..Record::default() }];
    windows.name(key, "a");
    windows.close(&one, &mut due);
    for _ in 0..5_990 {
        windows.close(&[], &mut due);
    }
    windows.name(key, "a");
    for _ in 0..20 {
        windows.close(&[], &mut due);
    }
    windows.close(&one, &mut due);
    let idx = windows.find(key).expect("born again");
    assert_eq!((windows.room(idx), windows.stats().nameless), ("a", 0));
}

/// Without a live rule nobody is due; lower floors find the rooms between.
#[test]
fn lower_floors_find_the_rooms_between() {
    let mut windows = Windows::new(Slot(500));
    windows.set_floors(Floors { count_60s: u32::MAX, count_100ms: u32::MAX, surge_c: None });
    let (key, mut due) = (RoomKey::of("a"), Vec::new());
    let one = [Record { room: key, classes: [7; 6], outcomes: [3, 0, 0, 1], ..Record::default() }];
    for _ in 0..30 {
        windows.close(&one, &mut due);
        assert!(due.is_empty());
    }
    windows.set_floors(Floors { count_60s: 1_000, count_100ms: u32::MAX, surge_c: None });
    windows.close(&[], &mut due);
    let idx = windows.find(key).expect("known");
    assert_eq!(due, [idx]);
    let f = windows.features(idx);
    assert_eq!(
        (f.count_60s, f.classes[2], f.outcomes[2]),
        (1_260, [210; 6], [1_140, 90, 0, 0, 30])
    );
}
