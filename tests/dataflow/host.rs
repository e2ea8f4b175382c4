//! The host itself: bounds, order, silence, faults.

use crate::stream::{Rng, START, Stream, bytes, decide, feed, run};
use barrage::worker::{AHEAD, Fault, Host};
use barrage_dataflows::command::Options;
use barrage_engine::precount::Record;
use barrage_engine::rules::RuleSet;
use barrage_protocol::ids::{RoomKey, Slot};
use std::sync::Arc;

fn start(workers: usize, options: Options) -> Host {
    Host::start(workers, Slot(START), Arc::new(RuleSet::shipped()), options).unwrap()
}

#[test]
fn a_panic_is_told_and_nobody_hangs() {
    for workers in 1..=3 {
        for at in 0..workers {
            let fail = Some((at, Slot(START + 5)));
            let mut host = start(workers, Options { fail, ..Options::default() });
            assert_eq!(host.close(Slot(START + 4)), Ok(Vec::new()));
            assert_eq!(host.close(Slot(START + 5)), Err(Fault::Panicked));
            assert_eq!(host.close(Slot(START + 6)), Err(Fault::Panicked));
            assert_eq!(host.snapshot().unwrap_err(), Fault::Panicked);
            assert_eq!(host.stop(), Err(Fault::Panicked));
        }
    }
}

#[test]
fn closed_and_far_slots_are_refused() {
    let mut host = start(2, Options::default());
    host.close(Slot(START + 9)).unwrap();
    let record = Record { room: RoomKey::of("r"), ..Record::default() };
    let mut counts = |slot| host.counts(0, Slot(slot), vec![record], Vec::new());
    assert_eq!(counts(START + 9), Err(Fault::Closed { slot: START + 9, next: START + 10 }));
    let far = START + 10 + AHEAD + 1;
    assert_eq!(counts(far), Err(Fault::Ahead { slot: far, next: START + 10 }));
    assert_eq!(counts(far - 1), Ok(()));
    let rules = Arc::new(RuleSet::shipped());
    let closed = Fault::Closed { slot: START, next: START + 10 };
    assert_eq!(host.rules(Slot(START), rules), Err(closed.clone()));
    assert_eq!(host.absent(Slot(START), 1), Err(closed.clone()));
    assert_eq!(host.rebase(Slot(START), "r"), Err(closed));
    host.stop().unwrap();
}

#[test]
fn more_commands_than_the_channel_holds_do_not_lock() {
    let mut host = start(2, Options::default());
    for slot in START..START + AHEAD {
        for partition in 0..4 {
            let record = Record {
                room: RoomKey::of("r"),
                classes: [0, 0, 0, 0, 1, 0],
                partitions: 1,
                ..Record::default()
            };
            let names = vec![(record.room, "r".into())];
            host.counts(partition, Slot(slot), vec![record], names).unwrap();
        }
    }
    host.close(Slot(START + AHEAD)).unwrap();
    assert_eq!(host.settle(Slot(START + 999)).unwrap().rooms.len(), 1);
    host.stop().unwrap();
}

/// Silence moves time: slots close, and a level comes down, without any input.
#[test]
fn slots_close_without_input() {
    let rules = Arc::new(RuleSet::shipped());
    let mut stream = Stream::default();
    stream.steady("r", 0, &[(3_000, 10_000)]);
    for workers in [1, 2] {
        let log = decide(&stream, &rules, workers, 1, 600);
        let levels: Vec<_> = log.iter().map(|d| d.to.as_str()).filter(|to| to.len() == 1).collect();
        assert_eq!(levels, ["2", "1", "0"]);
    }
}

/// Slots may be let go without waiting for each; what was decided meanwhile is handed out with the next close.
#[test]
fn several_slots_in_flight_decide_the_same() {
    let rules = Arc::new(RuleSet::shipped());
    let mut stream = Stream::default();
    stream.steady("r", 0, &[(120, 70_000), (1_440, 20_000)]);
    let expected = decide(&stream, &rules, 1, 1, 0);
    for workers in [1, 3] {
        let mut host = start(workers, Options::default());
        for slot in START..=stream.end {
            feed(&mut host, &stream, slot, &mut Rng(slot));
            host.advance(Slot(slot)).unwrap();
        }
        let log = host.close(Slot(stream.end)).unwrap();
        let log: Vec<_> = log.into_iter().flat_map(|(_, ds)| ds).collect();
        assert_eq!(bytes(&log), bytes(&expected), "{workers} workers");
        host.stop().unwrap();
    }
}

/// The way of a decision alone gives the same decisions as the whole graph.
#[test]
fn the_view_changes_no_decision() {
    let rules = Arc::new(RuleSet::shipped());
    let mut stream = Stream::default();
    stream.steady("r", 0, &[(120, 70_000), (1_440, 20_000)]);
    let whole = decide(&stream, &rules, 2, 0, 0);
    let options = Options { view: false, ..Options::default() };
    let mut host = start(2, options);
    let mut rng = Rng(7);
    let alone = run(&mut host, &stream, (START, stream.end), 0, &mut rng);
    assert_eq!(bytes(&alone), bytes(&whole));
    assert!(!alone.is_empty());
}
