//! Reported faults of systems like this one (S02, S04), rows that no database can hold, and checkpoints on the disk.

use crate::audit_fixture::{
    Folder, LONG, START, ask, block, count, envelope, execute, lines, migrated, rise, rows,
    send_all, settings, storm, until,
};
use barrage::audit::{self, Store};
use barrage_protocol::decision::Value;
use barrage_protocol::ids::Slot;

/// Case S02: NUL characters in a room, a reason, a detail; one batch of five rows, and all five are stored.
#[test]
fn s02_nul_in_text() {
    let (url, folder) = (migrated(), Folder::new());
    let with = |n: u64, room: &str, key: &str, reason: &str| {
        let mut decision = rise(START, room, 1, 3_000);
        decision.actor = format!("person {n}");
        decision.id = rise(START + n, "for an id", 1, 0).id;
        decision.evidence.insert(key.to_owned(), Value::Text(reason.to_owned()));
        decision
    };
    let five = lines(
        START,
        vec![
            with(1, "r1", "reason", "ok"),
            with(2, "r\u{0}1", "reason", "nul in room"),
            with(3, "r1", "reason", "a\0b"),
            with(4, "r1", "te\0xt", "x\0y"),
            with(5, "r1", "reason", "ok2"),
        ],
    );
    let stats = send_all(&folder, &url, &[(START, five.clone())]);
    assert_eq!((stats.written, stats.aside, stats.repaired), (5, 0, 4));
    assert_eq!((stats.batches, stats.outages), (1, 0));
    let rooms = ask(&url, "SELECT room FROM decision WHERE room <> 'r1'");
    assert_eq!(rooms, [["r\u{fffd}1"]]);
    let reasons = ask(&url, "SELECT evidence ->> 'reason' FROM decision WHERE actor = 'person 3'");
    assert_eq!(reasons, [["a\u{fffd}b"]]);
    // What was hashed is kept byte for byte, NUL and all: JSON writes it as an escape.
    let mut canonical = ask(&url, "SELECT canonical FROM decision").concat();
    canonical.sort();
    let mut want = five;
    want.sort();
    assert_eq!(canonical, want);
    // Sent again, the repaired rows are the same rows.
    let again = send_all(&Folder::new(), &url, &[(START, want)]);
    assert_eq!((again.repeated, again.divergent), (5, 0));
}

/// Case S04: instants that a clock or a column cannot hold are refused with a reason before SQL, and nothing panics.
#[test]
fn s04_timestamp_range() {
    let (url, folder) = (migrated(), Folder::new());
    let handle = audit::spawn(settings(&folder, &url)).unwrap();
    let times = [
        i64::MAX,
        i64::MIN,
        9_223_372_036_854_775,
        253_402_300_800_000,
        8_640_000_000_000_000,
        1_700_000_000_000,
    ];
    for (n, recorded_ms) in times.into_iter().enumerate() {
        let slot = START + n as u64;
        let by = audit::Envelope { recorded_ms, ..envelope(7) };
        handle.append(Slot(slot), storm(slot, 1), &by);
    }
    // The slot itself beyond all time.
    for slot in [u64::MAX, u64::MAX / 100, i64::MAX as u64 / 100, 1_000_000_000_000, 5] {
        handle.append(Slot(slot), storm(slot, 1), &envelope(7));
    }
    assert!(handle.stop(LONG));
    let stats = handle.stats();
    assert_eq!((stats.written, stats.aside, stats.outages), (1, 10, 0));
    let aside = std::fs::read_to_string(folder.path().join("aside.jsonl")).unwrap();
    assert_eq!(aside.matches("is no believable time").count(), 8, "{aside}");
    assert_eq!(aside.matches("too large").count() + aside.matches("beyond all time").count(), 2);
    assert_eq!(ask(&url, "SELECT slot_ts::text FROM decision"), [["2023-11-14 22:13:20.5+00"]]);

    // A row that holds `infinity`, which our own constraint would not let in.
    execute(
        &url,
        "ALTER TABLE decision DROP CONSTRAINT decision_recorded_at_check;
         INSERT INTO decision SELECT slot_ts + interval '1 s', gen_random_uuid(), shard, slot + 10, scope, subject, room,
            class, kind, rule, rule_version, mode, from_state, to_state, level_from, level_to, actor, rules_hash,
            prev_id, evidence, offsets, canonical, content_hash, trace_id, epoch, instance, revision, 'infinity'
         FROM decision",
    );
    let found = block(audit::tail(&url, None, 10)).unwrap();
    assert!(found[0].is_ok());
    assert_eq!(found[1].as_ref().unwrap_err().why, "recorded_at is no finite time");
}

#[test]
fn a_poisonous_row_is_set_aside_and_the_others_are_stored() {
    let (url, folder) = (migrated(), Folder::new());
    execute(&url, "ALTER TABLE decision ADD CHECK (subject <> 'poison')");
    let mut slots: Vec<_> = (START..START + 60).map(|s| (s, storm(s, 5))).collect();
    slots[17].1.extend(lines(START + 17, vec![rise(START + 17, "poison", 1, 3_000)]));
    slots[40].1.push("no decision at all".to_owned());
    slots[44].1.push(r#"{"id":"half of one","slot":17000000044}"#.to_owned());
    let stats = send_all(&folder, &url, &slots);
    assert_eq!((stats.written, stats.aside, rows(&url)), (300, 3, (300, 300)));
    let aside = std::fs::read_to_string(folder.path().join("aside.jsonl")).unwrap();
    let reasons: Vec<serde_json::Value> =
        aside.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert!(reasons.iter().any(|r| r["why"].as_str().unwrap().contains("23514")
        && r["what"].as_str().unwrap().contains(r#""subject":"poison""#)));
    assert!(reasons.iter().any(|r| r["what"] == "no decision at all"));
}

/// If every row is refused it is not the rows: nothing is set aside, all of it comes once the table is mended.
#[test]
fn a_table_that_refuses_everything_is_an_outage() {
    let (url, folder) = (migrated(), Folder::new());
    execute(&url, "ALTER TABLE decision ADD CONSTRAINT broken CHECK (false) NOT VALID");
    let handle = audit::spawn(settings(&folder, &url)).unwrap();
    handle.append(Slot(START), storm(START, 30), &envelope(7));
    let stats = until(&handle, "an outage", |s| s.outages >= 2);
    assert!(stats.trouble.unwrap().contains("every row is refused"));
    execute(&url, "ALTER TABLE decision DROP CONSTRAINT broken");
    until(&handle, "the rows", |s| s.written == 30);
    assert!(handle.stop(LONG));
    assert_eq!((handle.stats().aside, rows(&url)), (0, (30, 30)));
}

#[test]
fn a_database_without_tables_is_waited_for() {
    let url = crate::audit_fixture::database_on(crate::services::postgres());
    let folder = Folder::new();
    let handle = audit::spawn(settings(&folder, &url)).unwrap();
    handle.append(Slot(START), storm(START, 3), &envelope(7));
    assert!(handle.wait_durable(Slot(START), LONG));
    until(&handle, "trouble", |s| s.outages >= 2 && s.trouble.is_some());
    block(audit::migrate(&url)).unwrap();
    until(&handle, "the rows", |s| s.written == 3 && s.trouble.is_none());
    assert!(handle.stop(LONG));
    assert_eq!(count(&url, "SELECT count(*) FROM decision"), 3);
}

#[test]
fn the_newest_whole_checkpoint_is_taken_and_three_are_kept() {
    let folder = Folder::new();
    let path = folder.path().join("state");
    let mut store = Store::open(&path).unwrap();
    assert_eq!(store.newest().unwrap(), None);
    for slot in 1..=5 {
        store.save(7, Slot(slot), format!("state of {slot}").as_bytes()).unwrap();
    }
    assert_eq!(store.list(), [3, 4, 5].map(|s| (7, Slot(s))));
    assert_eq!(std::fs::read_dir(&path).unwrap().count(), 3);
    let mut store = Store::open(&path).unwrap();
    assert_eq!(store.newest().unwrap().unwrap().bytes, b"state of 5");
    assert_eq!(store.torn(), 0);
}

/// The newest checkpoint is cut at every length, and every one of its bytes is changed: it is refused, the one before
/// is taken, and the next save works.
#[test]
fn a_torn_checkpoint_is_refused() {
    let folder = Folder::new();
    let path = folder.path().to_owned();
    let newest = path.join(format!("checkpoint-{:020}", 2));
    let build = || {
        for entry in std::fs::read_dir(&path).unwrap() {
            std::fs::remove_file(entry.unwrap().path()).unwrap();
        }
        let mut store = Store::open(&path).unwrap();
        store.save(7, Slot(1), b"one").unwrap();
        store.save(8, Slot(2), b"two").unwrap();
        std::fs::read(&newest).unwrap()
    };
    let whole = build();
    let cut = (0..whole.len()).map(|n| whole[..n].to_vec());
    let changed = (0..whole.len()).map(|n| {
        let mut bytes = whole.clone();
        bytes[n] ^= 0x10;
        bytes
    });
    for damaged in cut.chain(changed).chain([[&whole[..], b"x"].concat()]) {
        build();
        // Before the store is opened.
        std::fs::write(&newest, &damaged).unwrap();
        let mut store = Store::open(&path).unwrap();
        let kept = store.newest().unwrap().unwrap();
        assert_eq!((kept.epoch, kept.slot, &kept.bytes[..]), (7, Slot(1), &b"one"[..]));
        assert_eq!(store.torn(), 1);
        store.save(9, Slot(3), b"three").unwrap();
        assert_eq!(Store::open(&path).unwrap().newest().unwrap().unwrap().bytes, b"three");
        // While it is open; and gone altogether.
        build();
        let mut store = Store::open(&path).unwrap();
        std::fs::write(&newest, &damaged).unwrap();
        assert_eq!(store.newest().unwrap().unwrap().bytes, b"one");
    }
    std::fs::write(path.join("checkpoint.tmp"), b"half written").unwrap();
    Store::open(&path).unwrap();
    assert!(!path.join("checkpoint.tmp").exists());
}
