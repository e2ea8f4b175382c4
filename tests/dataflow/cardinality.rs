//! P01: a series for every room that ever spoke. What is exposed stays bounded, however many rooms there are.

use crate::stream::START;
use barrage::worker::Host;
use barrage_dataflows::command::{Options, TOP_MAX};
use barrage_engine::precount::Record;
use barrage_engine::rules::RuleSet;
use barrage_protocol::ids::{Class, RoomKey, Slot};
use std::sync::Arc;

/// Rooms of the case, one event each.
const ROOMS: u32 = 20_000;

/// One event of every second room, as one of two partitions hands them on.
fn counts(partition: u32) -> (Vec<Record>, Vec<(RoomKey, Box<str>)>) {
    let rooms = (0..ROOMS).filter(|n| n % 2 == partition).map(|n| format!("room-{n}"));
    let record = |room: &str| {
        let mut record =
            Record { room: RoomKey::of(room), partitions: 1 << partition, ..Record::default() };
        record.classes[Class::Chat as usize] = 1;
        record
    };
    rooms.map(|room| (record(&room), (RoomKey::of(&room), room.into_boxed_str()))).unzip()
}

/// The case allows 1,000 series; the contract names at most 100 rooms, and one row for all the others.
#[test]
fn p01_twenty_thousand_rooms_are_a_bounded_number_of_rows() {
    const { assert!(TOP_MAX <= 100) };
    let rules = Arc::new(RuleSet::shipped());
    for (workers, asked) in [(1, 20), (3, 5_000), (3, 100)] {
        let options = Options { top: asked, ..Options::default() };
        let mut host = Host::start(workers, Slot(START), Arc::clone(&rules), options).unwrap();
        for partition in 0..2 {
            let (records, names) = counts(partition);
            host.counts(partition, Slot(START), records, names).unwrap();
        }
        // Three seconds: the view is renewed once a second of event time.
        let last = Slot(START + 29);
        host.close(last).unwrap();
        let view = host.settle(last).unwrap();
        let what = format!("{asked} asked for, {workers} workers");
        let named = asked.min(TOP_MAX);
        assert_eq!(view.rooms.len(), named, "{what}");
        // What no row names is still in the totals.
        assert_eq!(view.site.last_10s.iter().sum::<i64>(), i64::from(ROOMS), "{what}");
        assert_eq!(view.other_10s(), i64::from(ROOMS) - named as i64, "{what}");
        assert_eq!(view.stats.rooms, u64::from(ROOMS), "{what}");
        assert!(view.groups.len() <= rules.groups.len(), "{what}");
        host.stop().unwrap();
    }
}
