//! The plain rule of the rows benchmark against counting by hand.

use crate::random::stream;
use crate::stream::{Rng, START, Stream, feed};
use barrage::worker::Host;
use barrage_dataflows::command::{Mode, Options};
use barrage_dataflows::report::Row;
use barrage_engine::rules::RuleSet;
use barrage_protocol::ids::Slot;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Events per room and slot.
fn counts(stream: &Stream) -> BTreeMap<String, BTreeMap<u64, u32>> {
    let mut out: BTreeMap<String, BTreeMap<u64, u32>> = BTreeMap::new();
    for slot in START..=stream.end {
        for (room, record) in stream.all(slot) {
            let n: u32 = record.classes.iter().map(|c| u32::from(*c)).sum();
            *out.entry(room).or_default().entry(slot).or_default() += n;
        }
    }
    out
}

#[test]
fn rows_are_those_counted_by_hand() {
    let min_count_60s = 60;
    for (seed, slide) in [(300, 10), (301, 1), (302, 7)] {
        let stream = stream(&mut Rng(seed), 1_500);
        let mut expected = Vec::new();
        for (room, slots) in counts(&stream) {
            for slot in START..=stream.end {
                let sum =
                    |n: u64| -> u32 { slots.range(slot + 1 - n..=slot).map(|(_, c)| *c).sum() };
                let (c60, c10) = (sum(600), sum(100));
                if (slot + 1) % slide == 0 && c60 > min_count_60s && 2 * c10 > c60 {
                    let room = room.as_str().into();
                    expected.push(Row { slot: Slot(slot), room, count_60s: c60, count_10s: c10 });
                }
            }
        }
        expected.sort();
        assert!(expected.len() > 20, "{} rows", expected.len());
        for workers in 1..=3 {
            let mode = Mode::Rows { min_count_60s, slide };
            let options = Options { mode, view: false, ..Options::default() };
            let rules = Arc::new(RuleSet::shipped());
            let mut host = Host::start(workers, Slot(START), rules, options).unwrap();
            let mut rng = Rng(seed);
            for slot in START..=stream.end {
                feed(&mut host, &stream, slot, &mut rng);
                if slot % 50 == 0 {
                    host.close(Slot(slot)).unwrap();
                }
            }
            host.close(Slot(stream.end)).unwrap();
            let mut rows = host.rows();
            host.stop().unwrap();
            rows.sort();
            assert_eq!(rows, expected, "seed {seed}, {workers} workers");
        }
    }
}
