//! The audit against Postgres: every decision is one row, with its evidence, and cannot be changed.

use crate::audit_fixture::{
    Folder, LONG, START, ask, block, count, envelope, execute, lines, migrated, rise, rows,
    send_all, settings, storm, try_execute, until,
};
use barrage::audit::{self, Cursor};
use barrage_protocol::control::{Control, Entry, Record, Step};
use barrage_protocol::decision::Decision;
use barrage_protocol::ids::Slot;
use std::collections::BTreeMap;

#[test]
fn a_row_holds_all_of_a_decision() {
    let (url, folder) = (migrated(), Folder::new());
    let line = lines(START, vec![rise(START, "r_789a", 2, 4_200)]);
    let decision: Decision = serde_json::from_str(&line[0]).unwrap();
    send_all(&folder, &url, &[(START, line.clone())]);
    let got = ask(
        &url,
        "SELECT jsonb_build_array(slot_ts, slot, scope, room, class, kind, rule, rule_version, mode, level_from, level_to,
            actor, evidence, offsets, epoch, instance, revision, extract(epoch FROM recorded_at), trace_id,
            decision_id, encode(content_hash, 'hex'), canonical)::text FROM decision",
    );
    let got: serde_json::Value = serde_json::from_str(&got[0][0]).unwrap();
    let want = serde_json::json!([
        "2023-11-14T22:13:20+00:00", START, "room", "r_789a", null, "level", "burst", 17, "enforce", 0, 2, "auto",
        {"burst_ratio": 4.2, "count_60s": 10_800}, {"0": 4_711, "3": START}, 7, "a-1", 812, 1_700_000_000.5,
        decision.id.to_string().replace('-', ""), decision.id.to_string(),
        blake3::hash(line[0].as_bytes()).to_hex().to_string(), line[0],
    ]);
    let (got, want) = (got.as_array().unwrap(), want.as_array().unwrap());
    for (i, (got, want)) in got.iter().zip(want).enumerate() {
        // Numbers come back as numeric: 1700000000.500000.
        match (got.as_f64(), want.as_f64()) {
            (Some(got), Some(want)) => assert_eq!(got, want, "column {i}"),
            _ => assert_eq!(got, want, "column {i}"),
        }
    }
    let row = block(audit::get(&url, decision.id)).unwrap().unwrap().unwrap();
    assert_eq!((row.decision, row.canonical.as_str()), (decision, line[0].as_str()));
    assert_eq!((row.epoch, row.revision, row.recorded_ms), (7, 812, 1_700_000_000_500));
    assert!(row.written_ms > row.recorded_ms);
    assert_eq!(block(audit::get(&url, rise(START, "another", 1, 0).id)).unwrap(), None);
}

#[test]
fn sending_twice_is_one_row() {
    let (url, folder) = (migrated(), Folder::new());
    let slots: Vec<_> = (START..START + 50).map(|s| (s, storm(s, 7))).collect();
    let first = send_all(&folder, &url, &slots);
    assert_eq!((first.written, first.repeated, first.divergent), (350, 0, 0));
    // Another controller, the same decisions, and each slot twice.
    let twice: Vec<_> = slots.iter().flat_map(|s| [s.clone(), s.clone()]).collect();
    let second = send_all(&Folder::new(), &url, &twice);
    assert_eq!((second.written, second.repeated, second.divergent), (0, 700, 0));
    assert_eq!(rows(&url), (350, 350));
}

#[test]
fn two_controllers_at_once_write_each_decision_once() {
    let url = migrated();
    let slots: Vec<_> = (START..START + 200).map(|s| (s, storm(s, 10))).collect();
    let all: Vec<_> = std::thread::scope(|scope| {
        let run = || send_all(&Folder::new(), &url, &slots);
        let both = [scope.spawn(run), scope.spawn(run)];
        both.into_iter().map(|t| t.join().unwrap()).collect()
    });
    assert_eq!(rows(&url), (2_000, 2_000));
    assert_eq!(all[0].written + all[1].written, 2_000);
    assert_eq!(all[0].repeated + all[1].repeated, 2_000);
    assert_eq!(count(&url, "SELECT count(*) FROM divergence"), 0);
}

#[test]
fn another_content_under_one_id_is_never_silent() {
    let (url, folder) = (migrated(), Folder::new());
    let slots: Vec<_> = (START..START + 20).map(|s| (s, storm(s, 3))).collect();
    send_all(&folder, &url, &slots);
    let other = lines(START + 5, vec![rise(START + 5, "r_1", 2, 4_201)]);
    // Against a row of an earlier batch; and against a row of the same batch.
    let fresh = lines(START + 90, vec![rise(START + 90, "r_9", 1, 1)]);
    let fresh_other = lines(START + 90, vec![rise(START + 90, "r_9", 1, 2)]);
    let more = [(START + 5, other.clone()), (START + 90, fresh.clone()), (START + 90, fresh_other)];
    for round in 0..2 {
        let stats = send_all(&Folder::new(), &url, &more);
        // Noted once, however often it is found.
        assert_eq!(stats.divergent, if round == 0 { 2 } else { 0 });
    }
    assert_eq!(rows(&url), (61, 61));
    let found =
        ask(&url, "SELECT ours, theirs FROM divergence WHERE kind = 'content' ORDER BY slot");
    let (ours, theirs) = (&found[0][0], &found[0][1]);
    assert_eq!(found.len(), 2);
    assert_eq!(*ours, other[0]);
    assert_eq!(*theirs, storm(START + 5, 3)[1]);
    assert_eq!(found[1][1], fresh[0]);
}

#[test]
fn the_writer_can_only_append() {
    let (url, folder) = (migrated(), Folder::new());
    send_all(&folder, &url, &[(START, storm(START, 2))]);
    let denied = |sql: &str| {
        let as_writer = format!("SET ROLE barrage_writer; {sql}");
        let error = try_execute(&url, &as_writer).unwrap_err();
        let code = error.as_database_error().and_then(|e| e.code().map(|c| c.into_owned()));
        assert_eq!(code.as_deref(), Some("42501"), "{sql}: {error}");
    };
    for table in ["decision", "control_record", "rule_version", "divergence", "override_log"] {
        denied(&format!("DELETE FROM {table}"));
        denied(&format!("TRUNCATE {table}"));
        denied(&format!("DROP TABLE {table}"));
        denied(&format!("UPDATE {table} SET instance = 'x'"));
    }
    denied("DELETE FROM decision_20231114");
    denied("SELECT decision_retain(date '2030-01-01')");
    denied("INSERT INTO api_token (id, secret_hash, role) VALUES ('x', '', 'admin')");
    let reader = "SET ROLE barrage_reader; SELECT * FROM v_annotation; SELECT * FROM v_room_now";
    try_execute(&url, reader).unwrap();
    let wrote = try_execute(&url, "SET ROLE barrage_reader; DELETE FROM checkpoint");
    assert!(wrote.is_err());
    assert_eq!(rows(&url), (2, 2));
}

#[test]
fn a_tail_is_read_in_pages_and_from_the_end() {
    let (url, folder) = (migrated(), Folder::new());
    let slots: Vec<_> = (START..START + 30).map(|s| (s, storm(s, 5))).collect();
    send_all(&folder, &url, &slots);
    let page = |since, limit| -> Vec<audit::Row> {
        let rows = block(audit::tail(&url, since, limit)).unwrap();
        rows.into_iter().map(Result::unwrap).collect()
    };
    let mut all = Vec::new();
    let mut at = Cursor::before(Slot(START + 10));
    loop {
        let rows = page(Some(at), 7);
        let Some(last) = rows.last() else { break };
        at = Cursor { slot: last.decision.slot, id: last.decision.id };
        all.extend(rows);
    }
    assert_eq!(all.len(), 100);
    assert!(all.is_sorted_by_key(|r| (r.decision.slot, r.decision.id)));
    assert_eq!(all[0].decision.slot, Slot(START + 10));
    let newest = page(None, 8);
    assert_eq!(newest[..], all[92..]);
}

fn step(seq: u64, records: Vec<Control>) -> Entry {
    let from = Slot(START + seq);
    Entry::Step(Step {
        schema: 1,
        epoch: 9,
        seq,
        slot: from,
        offsets: BTreeMap::from([(0, 5)]),
        records: records.into_iter().map(|control| Record { from, control }).collect(),
        hash: "ab".into(),
        late: BTreeMap::new(),
        done: Slot(START),
    })
}

#[test]
fn terms_rules_and_orders_of_people_are_recorded() {
    let (url, folder) = (migrated(), Folder::new());
    let handle = audit::spawn(settings(&folder, &url)).unwrap();
    let rules = Control::Rules { text: "schema = 1\n".into(), hash: "c0ffee".into() };
    let rebase = Control::Rebase { room: "r_7".into(), actor: "anna".into() };
    let start = Control::Start { offsets: BTreeMap::from([(0, 1)]), levels: BTreeMap::new() };
    for _ in 0..2 {
        let by = envelope(9);
        handle.written(Slot(0), &Entry::Lead { schema: 1, epoch: 9, seq: 0 }, &by);
        handle.written(Slot(START), &step(1, vec![start.clone(), rules.clone()]), &by);
        handle.written(Slot(START), &step(2, vec![]), &by);
        handle.written(Slot(START), &step(3, vec![rebase.clone()]), &by);
        handle.diverged(Slot(START + 4), "aa", "bb", "hash of the decision log", &by);
    }
    assert!(handle.stop(LONG));
    let records = ask(&url, "SELECT kind FROM control_record ORDER BY seq, n");
    assert_eq!(records.concat(), ["start", "rules", "rebase"]);
    assert_eq!(ask(&url, "SELECT body FROM rule_version"), [["schema = 1\n"]]);
    let orders = ask(&url, "SELECT concat_ws(' ', kind, subject, actor, key) FROM override_log");
    assert_eq!(orders, [["rebase r_7 anna 0.9.3.0"]]);
    assert_eq!(
        ask(&url, "SELECT concat_ws(' ', epoch, instance) FROM controller_epoch"),
        [["9 a-1"]]
    );
    let found = ask(&url, "SELECT concat_ws(' ', kind, slot, ours, theirs) FROM divergence");
    assert_eq!(found, [[format!("step {} aa bb", START + 4)]]);
}

#[test]
fn dashboards_see_annotations_and_present_levels() {
    let (url, folder) = (migrated(), Folder::new());
    let now = barrage_protocol::ids::Slot::of_ms(now_ms()).0;
    let at = |ago: u64, room: &str, to: u8| {
        let slot = now - ago;
        (slot, lines(slot, vec![rise(slot, room, to, 3_000)]))
    };
    // r_a up to 3 and back to 0; r_b at 1; r_c was at 2 long ago.
    let slots = [at(900_0000, "r_c", 2), at(600, "r_a", 3), at(500, "r_b", 1), at(100, "r_a", 0)];
    send_all(&folder, &url, &slots);
    let levels = ask(&url, "SELECT concat_ws(' ', room, level) FROM v_room_now ORDER BY room");
    assert_eq!(levels.concat(), ["r_a 0", "r_b 1"]);
    let marks = ask(
        &url,
        "SELECT concat_ws('; ', text, tags, extract(epoch FROM timeend - time)::integer) FROM v_annotation ORDER BY time",
    );
    let up = "r_a: level 0 to 3 (burst); level,room,enforce; 50";
    assert_eq!(marks.concat(), ["r_c: level 0 to 2 (burst); level,room,enforce", up]);
    execute(&url, "SET ROLE barrage_reader; SELECT * FROM v_room_now");
}

fn now_ms() -> i64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    i64::try_from(now.as_millis()).unwrap()
}

#[test]
fn checkpoints_for_late_standbys_are_three_and_fenced() {
    let (url, folder) = (migrated(), Folder::new());
    let handle = audit::spawn(settings(&folder, &url)).unwrap();
    let save = |epoch: u64, slot: u64| {
        let bytes = format!("state of {slot}").into_bytes();
        handle.checkpoint(Slot(slot), bytes.into(), &envelope(epoch));
    };
    for slot in START..START + 5 {
        save(7, slot);
        until(&handle, "a checkpoint", |s| s.checkpoint == Some(Slot(slot)));
    }
    let kept = ask(&url, "SELECT slot FROM checkpoint ORDER BY slot");
    assert_eq!(kept.concat(), [2, 3, 4].map(|n| (START + n).to_string()));
    // The newest is damaged: the one before is taken.
    let damage = format!("UPDATE checkpoint SET body = 'torn' WHERE slot = {}", START + 4);
    execute(&url, &damage);
    let newest = block(audit::newest_checkpoint(&url, 0)).unwrap().unwrap();
    assert_eq!((newest.epoch, newest.slot), (7, Slot(START + 3)));
    assert_eq!(newest.bytes, format!("state of {}", START + 3).into_bytes());
    // A later term has begun: what the earlier one still sends is not taken.
    handle.written(Slot(START), &Entry::Lead { schema: 1, epoch: 8, seq: 0 }, &envelope(8));
    until(&handle, "the term", |_| count(&url, "SELECT count(*) FROM controller_epoch") == 1);
    save(7, START + 9);
    until(&handle, "a fenced checkpoint", |s| s.checkpoints_fenced == 1);
    save(8, START + 6);
    until(&handle, "a checkpoint", |s| s.checkpoint == Some(Slot(START + 6)));
    let newest = block(audit::newest_checkpoint(&url, 0)).unwrap().unwrap();
    assert_eq!((newest.epoch, newest.slot), (8, Slot(START + 6)));
    assert_eq!(block(audit::newest_checkpoint(&url, 1)).unwrap(), None);
    assert!(handle.stop(LONG));
}
