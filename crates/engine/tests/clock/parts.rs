//! The small parts beside the clocks: what readers of the log drop, what may leave and be kept, settings.

use barrage_engine::control::{Config, Memory, Outbox, Reader, Waiting, lead};
use barrage_protocol::control::{Entry, Step};
use barrage_protocol::ids::Slot;

fn step(epoch: u64, seq: u64) -> Entry {
    Entry::Step(Step {
        schema: 1,
        epoch,
        seq,
        slot: Slot(seq),
        offsets: [].into(),
        records: Vec::new(),
        hash: String::new(),
        late: [].into(),
        done: Slot(0),
    })
}

#[test]
fn readers_drop_lower_epochs_and_repeats_and_count_gaps() {
    let mut reader = Reader::at(0);
    let entries = [
        (lead(1), true),
        (step(1, 1), true),
        (step(1, 1), false), // written twice
        (step(1, 2), true),
        (lead(2), true),
        (step(1, 3), false), // an old leader that does not know yet
        (step(2, 1), true),
        (lead(1), false),
        (step(2, 4), true), // two are lost
        (step(4, 2), true), // its `lead` is lost
        (step(3, 1), false),
    ];
    for (i, (entry, holds)) in entries.iter().enumerate() {
        assert_eq!(reader.take(&Config::default(), entry), *holds, "entry {i}");
    }
    assert_eq!((reader.dropped, reader.repeated, reader.gaps), (3, 1, 2));
    assert_eq!((reader.position(), reader.epoch()), (entries.len() as u64, 4));
}

#[test]
fn a_log_in_memory_keeps_its_last_entries() {
    let mut log = Memory::new(3);
    for seq in 0..5 {
        assert_eq!(log.append(step(1, seq)), seq);
    }
    assert_eq!((log.first(), log.end()), (2, 5));
    let seqs: Vec<_> = (0..6).map(|i| log.get(i).is_some()).collect();
    assert_eq!(seqs, [false, false, true, true, true, false]);
}

#[test]
fn effects_leave_in_order_once_final_and_again_after_a_take_over() {
    let mut outbox = Outbox::default();
    for slot in [3, 5, 9] {
        outbox.push(Slot(slot), slot);
    }
    assert_eq!(outbox.send(Slot(2)), None);
    assert_eq!(outbox.send(Slot(8)), Some((Slot(3), &3)));
    assert_eq!(outbox.send(Slot(8)), Some((Slot(5), &5)));
    assert_eq!(outbox.send(Slot(8)), None);
    outbox.again(Slot(3));
    assert_eq!(outbox.send(Slot(9)), Some((Slot(5), &5)));
    outbox.done(Slot(5));
    assert_eq!(outbox.len(), 1);
    assert_eq!(outbox.send(Slot(9)), Some((Slot(9), &9)));
    outbox.done(Slot(9));
    assert!(outbox.is_empty());
}

#[test]
fn checkpoints_wait_for_final_and_done() {
    let mut waiting = Waiting::new(&Config::default());
    for (slot, name) in [(5, "a"), (7, "b"), (8, "c"), (9, "d"), (10, "too many")] {
        waiting.push(Slot(slot), name);
    }
    assert_eq!(waiting.ready(Slot(9), Slot(4)), None);
    assert_eq!(waiting.ready(Slot(4), Slot(9)), None);
    assert_eq!(waiting.ready(Slot(6), Slot(6)), Some("a"));
    assert_eq!(waiting.ready(Slot(6), Slot(6)), None);
    assert_eq!(waiting.ready(Slot(9), Slot(9)), Some("b"));
    assert_eq!(waiting.ready(Slot(9), Slot(9)), Some("c"));
    assert_eq!(waiting.ready(Slot(9), Slot(9)), Some("d"));
    assert_eq!(waiting.ready(Slot(10), Slot(10)), None);
}

#[test]
fn settings_that_make_no_sense_are_named() {
    Config::default().check().unwrap();
    for (text, name) in [
        (r#"{"idle_after_ms":-1}"#, "idle_after_ms"),
        (r#"{"jump_max_ms":86400001}"#, "jump_max_ms"),
        (r#"{"start_need":41}"#, "start_need"),
        (r#"{"start_of":0}"#, "start_need"),
        (r#"{"parked":0}"#, "parked"),
        (r#"{"in_flight":0}"#, "in_flight"),
    ] {
        let problem = serde_json::from_str::<Config>(text).unwrap().check().unwrap_err();
        assert!(problem.contains(name), "{text}: {problem}");
    }
    assert!(serde_json::from_str::<Config>(r#"{"idle_after":1}"#).is_err(), "unknown settings");
}
