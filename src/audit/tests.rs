//! The spool's parts by themselves: frames cut and changed at every byte, records, values at the edges of their range.

use super::frame::{self, Scan};
use super::item::{self, Envelope, Gap, Item};
use super::ledger::Ledger;
use super::reader::Reader;
use super::rows::{self, Rows};
use super::spool::{Spool, segment_path};
use barrage_protocol::ids::Slot;
use std::path::PathBuf;
use std::sync::Arc;

fn envelope() -> Envelope {
    Envelope { epoch: 3, instance: "a".into(), revision: 9, recorded_ms: 1_700_000_000_000 }
}

fn segment(payloads: &[&[u8]]) -> Vec<u8> {
    let mut bytes = frame::MAGIC.to_vec();
    payloads.iter().for_each(|p| frame::push(&mut bytes, p));
    bytes
}

struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        let name = format!("barrage-spool-{:016x}", rand::random::<u64>());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _gone = std::fs::remove_dir_all(&self.0);
    }
}

/// What a fresh start reads from a folder whose one segment holds these bytes.
fn reopened(bytes: &[u8]) -> (Vec<Vec<u8>>, super::Stats) {
    let folder = Folder::new();
    std::fs::write(segment_path(&folder.0, 1), bytes).unwrap();
    let ledger = Arc::new(Ledger::default());
    let mut spool = Spool::open(&folder.0, 1 << 20, Arc::clone(&ledger)).unwrap();
    spool.append(b"after");
    spool.sync().unwrap();
    let mut reader = Reader::new(&folder.0, Arc::clone(&ledger));
    let mut found = Vec::new();
    while let Some(payload) = reader.next().unwrap() {
        found.push(payload);
    }
    assert_eq!(found.pop().as_deref(), Some(&b"after"[..]));
    let stats = ledger.lock().stats.clone();
    (found, stats)
}

#[test]
fn a_segment_cut_anywhere_keeps_its_whole_frames() {
    let payloads: [&[u8]; 3] = [b"first", b"second one", b"x"];
    let whole = segment(&payloads);
    let ends = [8, 8 + 13, 8 + 13 + 18, whole.len()];
    for cut in 0..=whole.len() {
        let kept = ends.iter().filter(|e| **e <= cut).count().saturating_sub(1);
        let scan = frame::scan(&whole[..cut]);
        assert_eq!(scan.frames as usize, kept, "cut at {cut}");
        assert_eq!(scan.damaged, 0);
        let (found, stats) = reopened(&whole[..cut]);
        assert_eq!(found, payloads[..kept], "cut at {cut}");
        let clean = ends.contains(&cut) || cut < 8;
        assert_eq!(stats.torn, u64::from(!clean), "cut at {cut}");
    }
}

/// One changed byte costs at most the frames from there on, never adds or alters one, and is counted.
#[test]
fn a_changed_byte_never_passes_for_a_record() {
    let payloads: [&[u8]; 3] = [b"first", b"second one", b"third"];
    let whole = segment(&payloads);
    for at in 0..whole.len() {
        for bit in 0..8 {
            let mut bytes = whole.clone();
            bytes[at] ^= 1 << bit;
            let (found, stats) = reopened(&bytes);
            assert!(found.len() < 3, "byte {at}, bit {bit}");
            assert!(stats.torn + stats.damaged >= 1, "byte {at}, bit {bit}: {stats:?}");
            let mut rest = payloads.iter();
            assert!(found.iter().all(|f| rest.any(|p| p == f)), "byte {at}, bit {bit}: {found:?}");
        }
    }
    // A payload in the middle: the one behind it is still read.
    let mut bytes = whole;
    bytes[8 + 13 + 8] ^= 1;
    let (found, stats) = reopened(&bytes);
    assert_eq!((found.len(), stats.damaged, stats.torn), (2, 1, 0));
    assert_eq!(frame::scan(&bytes), Scan { len: bytes.len() as u64, frames: 2, damaged: 1 });
}

#[test]
fn zeros_and_noise_are_no_frames() {
    for tail in [vec![0; 4_096], vec![0xff; 100], b"plain text, longer than a head".to_vec()] {
        let mut bytes = segment(&[b"one"]);
        bytes.extend_from_slice(&tail);
        let (found, stats) = reopened(&bytes);
        assert_eq!((found, stats.torn), (vec![b"one".to_vec()], 1));
    }
    assert_eq!(frame::scan(b"not a segment"), Scan::default());
}

#[test]
fn records_are_read_as_they_were_written() {
    let lines = vec!["{\"a\":1}".to_owned(), "{\"b\":\"\\n\"}".to_owned()];
    let slot = Slot(17_000_000_000);
    let gap = Gap {
        from: slot,
        to: slot.next(),
        decisions: 5,
        others: 1,
        why: "full".into(),
        envelope: envelope(),
    };
    let entry =
        serde_json::json!({"type": "step", "epoch": 3, "seq": 4, "of a later version": [1]});
    let items = [
        Item::Decisions { slot, lines, envelope: envelope() },
        Item::Entry { slot, entry, envelope: envelope() },
        Item::Diverged {
            slot,
            ours: "a".into(),
            theirs: "b\nc".into(),
            what: "hash".into(),
            envelope: envelope(),
        },
        Item::Gap(gap),
    ];
    for item in items {
        let payloads = item::encode(&item).unwrap();
        assert_eq!(payloads.len(), 1);
        assert_eq!(item::decode(&payloads[0]).unwrap(), item);
    }
    for bad in
        [&b"\xff"[..], b"", b"{}", b"{\"schema\":1}", b"[1]", b"{\"schema\":99,\"what\":\"gap\"}"]
    {
        item::decode(bad).unwrap_err();
    }
}

/// A slot with more than fits one record is several, in order, with nothing lost.
#[test]
fn many_decisions_of_a_slot_are_several_records() {
    let slot = Slot(17_000_000_000);
    let lines: Vec<String> =
        (0..3_000).map(|n| format!("{{\"n\":{n},\"x\":\"{}\"}}", "y".repeat(990))).collect();
    let item = Item::Decisions { slot, lines: lines.clone(), envelope: envelope() };
    let payloads = item::encode(&item).unwrap();
    assert!(payloads.len() > 2 && payloads.iter().all(|p| p.len() < frame::PAYLOAD_MAX / 8));
    let back: Vec<String> = payloads
        .iter()
        .flat_map(|p| match item::decode(p).unwrap() {
            Item::Decisions { lines, .. } => lines,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(back, lines);
}

#[test]
fn instants_have_a_range() {
    for ms in [100_000_000_000, 1_700_000_000_000, 99_999_999_999_999] {
        assert_eq!(rows::instant("t", ms), Ok(ms));
    }
    let out = [i64::MIN, -1, 0, 99_999_999_999, 100_000_000_000_000, 253_402_300_800_000, i64::MAX];
    for ms in out {
        let why = rows::instant("t", ms).unwrap_err();
        assert!(why.contains("no believable time"), "{why}");
    }
}

/// Whatever a line holds, it becomes a row or a reason.
#[test]
fn broken_decisions_are_refused_with_a_reason() {
    let good = r#"{"id":"0198c2f4-0000-8000-8000-000000000001","slot":17000000000,"scope":"room","subject":"r",
        "kind":"later kind","rule":"x","rule_version":1,"mode":"enforce","from":"0","to":"1","actor":"auto",
        "rules_hash":"h","prev":null,"evidence":{"a":1e400},"offsets":{}}"#
        .replace('\n', "");
    let add = |line: &str| {
        let mut rows = Rows::default();
        let lines = vec![line.to_owned()];
        rows.add(&Item::Decisions { slot: Slot(1), lines, envelope: envelope() });
        rows
    };
    // A number that no float holds is refused by the parser, not by the database.
    assert_eq!(add(&good).refused.len(), 1);
    let good = good.replace("1e400", "1.5");
    assert_eq!(add(&good).decisions.len(), 1, "{:?}", add(&good).refused);
    for (from, to) in [
        ("17000000000", "-1"),
        ("17000000000", "18446744073709551615"),
        ("17000000000", "1.5"),
        ("\"rule_version\":1", "\"rule_version\":18446744073709551615"),
        ("0198c2f4", "0198c2fg"),
        ("\"subject\":\"r\"", "\"subject\":null"),
        ("\"from\"", "\"form\""),
        ("}}", "}"),
    ] {
        let bad = good.replace(from, to);
        let rows = add(&bad);
        assert_eq!((rows.decisions.len(), rows.refused.len()), (0, 1), "{bad}");
        assert_eq!(rows.refused[0].what, bad);
    }
}
