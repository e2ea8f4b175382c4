//! Nothing grows: sizes under churn, after the end of the input, and over many changes of rules.

use crate::random::low;
use crate::stream::{Rng, START, Stream, run};
use barrage::worker::Host;
use barrage_dataflows::command::Options;
use barrage_dataflows::view::Stats;
use barrage_engine::rules::RuleSet;
use barrage_protocol::ids::{Class, Slot};
use std::sync::Arc;

/// Rooms that change every minute: `rooms` of them, each with an event now and then.
fn churn(rng: &mut Rng, minutes: u64, rooms: u64) -> Stream {
    let mut stream = Stream::default();
    for slot in 0..minutes * 600 {
        for _ in 0..rooms / 20 {
            let room = format!("m{}-{}", slot / 600, rng.below(rooms));
            stream.add(START + slot, rng.below(8) as u32, &room, Class::Chat, 1);
        }
    }
    stream.end = START + minutes * 600 - 1;
    stream
}

fn stats(host: &mut Host, slot: u64) -> Stats {
    host.settle(Slot(slot)).unwrap().stats
}

#[test]
fn churn_is_flat_and_nothing_is_left_when_it_ends() {
    for workers in [1, 3] {
        let mut rng = Rng(500);
        let stream = churn(&mut rng, 16, 200);
        let rules = Arc::new(RuleSet::shipped());
        let mut host = Host::start(workers, Slot(START), rules, Options::default()).unwrap();
        run(&mut host, &Stream::default(), (START - 1, START - 1), 1, &mut rng);
        let mut sizes = Vec::new();
        for minute in 0..16 {
            let (from, upto) = (START + minute * 600, START + minute * 600 + 599);
            run(&mut host, &stream, (from, upto), 0, &mut rng);
            sizes.push(stats(&mut host, upto));
        }
        // Rooms stay for ten minutes after their last event.
        for size in &sizes[11..] {
            let first = &sizes[11];
            let near = |a: u64, b: u64| a <= b + b / 5 + 50 && b <= a + a / 5 + 50;
            assert!(near(size.rooms, first.rooms), "{size:?} after {first:?}");
            assert!(near(size.log_entries, first.log_entries), "{size:?} after {first:?}");
            // Every second each worker's hundred rooms and the hundred of the view are replaced: at most 800 updates.
            // Compaction is lazy, and keeps up: some ten seconds' worth, not a minute's.
            assert!(size.trace_updates < 16_000, "{size:?}");
            assert!(near(size.bytes, first.bytes), "{size:?} after {first:?}");
        }
        let after = stream.end + 701;
        host.close(Slot(after + 9)).unwrap();
        let seventy = stats(&mut host, after + 9);
        assert_eq!(seventy.log_entries, 0);
        assert!(host.view().rooms.is_empty() && host.view().groups.is_empty());
        let config = idle_updates(workers);
        assert_eq!(seventy.trace_updates, config, "only the configuration is left");
        host.close(Slot(after + 6_020)).unwrap();
        let later = stats(&mut host, after + 6_009);
        assert_eq!((later.rooms, later.controllers, later.due), (0, 0, 0));
        assert_eq!(later.trace_updates, config);
        host.stop().unwrap();
    }
}

/// Updates of the traces of a host that never saw an event.
fn idle_updates(workers: usize) -> u64 {
    let rules = Arc::new(RuleSet::shipped());
    let mut host = Host::start(workers, Slot(START), rules, Options::default()).unwrap();
    run(&mut host, &Stream::default(), (START, START + 3_000), 0, &mut Rng(1));
    let held = stats(&mut host, START + 3_000).trace_updates;
    host.stop().unwrap();
    held
}

#[test]
fn controllers_are_freed() {
    let mut rng = Rng(501);
    let rules = Arc::new(low(&mut rng));
    let stream = crate::random::stream(&mut rng, 1_200);
    let mut host = Host::start(2, Slot(START), rules, Options::default()).unwrap();
    run(&mut host, &stream, (START, stream.end), 0, &mut rng);
    let busy = stats(&mut host, stream.end);
    assert!(busy.controllers > 0 && busy.due > 0, "{busy:?}");
    let end = stream.end + 9_000;
    run(&mut host, &Stream::default(), (stream.end + 1, end), 0, &mut rng);
    let quiet = stats(&mut host, end);
    assert_eq!((quiet.rooms, quiet.controllers, quiet.due), (0, 0, 0), "{quiet:?}");
    host.stop().unwrap();
}

#[test]
fn many_rule_sets_leave_one() {
    let mut rng = Rng(502);
    let rules = Arc::new(low(&mut rng));
    let mut host = Host::start(2, Slot(START), Arc::clone(&rules), Options::default()).unwrap();
    run(&mut host, &Stream::default(), (START, START + 1_999), 0, &mut rng);
    let one = stats(&mut host, START + 1_999);
    let mut next = START + 2_000;
    for _ in 0..100 {
        host.rules(Slot(next), Arc::new(low(&mut rng))).unwrap();
        run(&mut host, &Stream::default(), (next, next + 9), 10, &mut rng);
        next += 10;
    }
    run(&mut host, &Stream::default(), (next, next + 4_999), 500, &mut rng);
    let many = stats(&mut host, next + 4_999);
    // Compaction is lazy: a few sets' worth, not a hundred.
    assert!(many.trace_updates <= 4 * one.trace_updates, "{one:?} {many:?}");
    host.stop().unwrap();
}
