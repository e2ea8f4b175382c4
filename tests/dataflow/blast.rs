//! Blast radius through the dataflow: what is granted, and to whom, does not depend on the workers.

use crate::oracle::Oracle;
use crate::stream::{Log, START, Stream, bytes, decide};
use barrage_engine::rules::RuleSet;
use barrage_protocol::decision::Kind;
use barrage_protocol::ids::Class;
use std::sync::Arc;

/// The same log on 1 and 3 workers, and by the oracle.
fn log(stream: &Stream, quiet: u64) -> Log {
    let rules = Arc::new(RuleSet::shipped());
    let expected = Oracle::decide(&rules, stream, quiet);
    for (workers, batch) in [(1, 1), (1, 0), (3, 1), (3, 0)] {
        let log = decide(stream, &rules, workers, batch, quiet);
        assert_eq!(bytes(&log), bytes(&expected), "{workers} workers, batch {batch}");
    }
    expected
}

/// Rooms raised to level 2 in a slot.
fn raised(log: &Log, slot: u64) -> Vec<&str> {
    let at = log.iter().filter(|d| d.slot.0 == slot && d.kind == Kind::Level && d.to == "2");
    at.map(|d| d.subject.as_str()).collect()
}

/// 50 rooms flood from `at` (slots after the start) at `rate(i)` events a slot.
fn flood(stream: &mut Stream, at: u64, slots: u64, rate: impl Fn(u64) -> u32) {
    for slot in at..at + slots {
        for i in 0..50 {
            let room = format!("flood{i:02}");
            stream.add(START + slot, i as u32 % 8, &room, Class::Chat, rate(i));
        }
    }
}

#[test]
fn a_fifth_of_fifty_rooms_is_granted() {
    let mut stream = Stream::default();
    flood(&mut stream, 0, 90, |_| 300);
    let log = log(&stream, 0);
    // 20 % of the 50 rooms of the site; without a baseline the order is that of the ids.
    let expected: Vec<String> = (0..10).map(|i| format!("flood{i:02}")).collect();
    assert_eq!(raised(&log, START + 66), expected);
    let cap: Vec<_> = log.iter().filter(|d| d.kind == Kind::BlastCap).collect();
    assert_eq!((cap[0].slot.0, cap[0].to.as_str()), (START + 66, "on"));
    // The refused rise to level 1, and ask again in every slot, in vain for a minute.
    let trimmed = log.iter().filter(|d| d.slot.0 == START + 66 && d.to == "1").count();
    assert_eq!(trimmed, 40);
    assert!((67..90).all(|s| raised(&log, START + s).is_empty()));
}

#[test]
fn the_hottest_go_first() {
    // A site that is large already: the flood of these rooms does not double it.
    let mut stream = Stream::default();
    for slot in 0..900 {
        stream.add(START + slot, 0, "giant", Class::Chat, 150_000);
        if slot < 800 {
            for i in 0..50 {
                stream.add(START + slot, 1, &format!("flood{i:02}"), Class::Chat, 10);
            }
        }
    }
    // All over the threshold in the same slot, each hotter than the one before.
    flood(&mut stream, 800, 10, |i| 2_500 + 10 * i as u32);
    let log = log(&stream, 0);
    let slot = log.iter().find(|d| d.subject == "flood49" && d.to == "2").unwrap().slot.0;
    let hot = raised(&log, slot);
    // 20 % of 51 rooms is 10, and the giant's own rise is long out of the window.
    let expected: Vec<String> = (40..50).map(|i| format!("flood{i:02}")).collect();
    assert_eq!(hot, expected);
}

#[test]
fn a_flood_of_the_whole_site_lifts_the_cap() {
    let mut stream = Stream::default();
    for slot in 0..800 {
        stream.add(START + slot, 0, "calm", Class::Chat, 5);
    }
    flood(&mut stream, 800, 100, |_| 300);
    let log = log(&stream, 0);
    let slot = log.iter().find(|d| d.subject == "flood00" && d.to == "2").unwrap().slot.0;
    assert_eq!(raised(&log, slot).len(), 50);
    assert!(log.iter().all(|d| d.kind != Kind::BlastCap));
}
