//! Reported faults of systems like ours as inputs to the parser: the cases J01, J02, J04, T01 and T09.
//!
//! The files are read where they stand (`BARRAGE_SHARED`, else `../shared` beside the workspace). Their headers use
//! neutral names: `type` is our `class`, `num` our `weight`, `price` our `latency_ms`.

use barrage_protocol::event::{self, Reason};
use serde_json::Value;
use std::path::PathBuf;

/// The records of a case, without its header; nothing where there are no recorded inputs (never so in CI).
fn case(name: &str) -> Option<Vec<Value>> {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared");
    let shared = std::env::var_os("BARRAGE_SHARED").map_or(here, PathBuf::from);
    let Ok(text) = std::fs::read_to_string(shared.join("cases").join(name)) else {
        assert!(
            std::env::var_os("CI").is_none_or(|ci| ci != "true"),
            "{name}: no recorded streams at {shared:?}"
        );
        println!("not run: no recorded streams");
        return None;
    };
    Some(text.lines().skip(1).map(|l| serde_json::from_str(l).expect("JSON")).collect())
}

/// Base64 with padding, as the files hold it.
fn base64(text: &str) -> Vec<u8> {
    let alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = Vec::new();
    let (mut bits, mut held) = (0_u32, 0);
    for c in text.chars().filter(|c| *c != '=') {
        bits = bits << 6 | alphabet.find(c).expect("base64") as u32;
        held += 6;
        if held >= 8 {
            held -= 8;
            out.push((bits >> held) as u8);
            bits &= (1 << held) - 1;
        }
    }
    out
}

/// The record in the project's field names.
fn renamed(record: &[u8]) -> Vec<u8> {
    let mut out = record.to_vec();
    for (theirs, ours) in
        [("\"type\"", "\"class\""), ("\"num\"", "\"weight\""), ("\"price\"", "\"latency_ms\"")]
    {
        while let Some(at) = out.windows(theirs.len()).position(|w| w == theirs.as_bytes()) {
            out.splice(at..at + theirs.len(), ours.bytes());
        }
    }
    out
}

/// Room and text of the event, or the reason.
fn answer(record: &[u8]) -> Result<(String, Option<String>), Reason> {
    event::parse(record)
        .map(|e| (e.room.into_owned(), e.text.map(|t| t.get().into_owned())))
        .map_err(|r| r.reason)
}

/// What a record must come to: its room and text, or the reason.
type Expected = Result<(&'static str, Option<&'static str>), Reason>;

/// Checks a case of raw records: one expectation a record, in order.
fn check(name: &str, expected: &[(&str, Expected)]) {
    let Some(records) = case(name) else { return };
    assert_eq!(records.len(), expected.len(), "{name}");
    for (record, (why, expected)) in records.iter().zip(expected) {
        assert_eq!(record["why"], *why, "{name}");
        let bytes = base64(record["raw_b64"].as_str().expect("raw bytes"));
        let got = answer(&renamed(&bytes));
        let expected = expected.map(|(room, text)| (room.to_owned(), text.map(str::to_owned)));
        assert_eq!(got, expected, "{name}: {why}");
    }
}

#[test]
fn j01_room_ids_of_all_types() {
    check(
        "J01-types.jsonl",
        &[
            ("number", Ok(("1746", None))),
            ("text", Ok(("1746", None))),
            // The header allows either; the contract has no rule on spaces and no aliases: the id is as it stands.
            ("spaces", Ok((" 1746 ", None))),
            ("float", Err(Reason::RoomType)),
            ("null", Err(Reason::RoomType)),
            ("empty", Err(Reason::RoomText)),
            ("missing", Err(Reason::RoomMissing)),
            ("list", Err(Reason::RoomType)),
            // The header maps 528 to 5441; the contract: no aliases, the producer's id is the id.
            ("short id", Ok(("528", None))),
            ("type with suffix, null list, unknown field", Ok(("1746", None))),
            ("no type at all", Err(Reason::RoomMissing)),
            // The header accepts a time as text; the contract: integer milliseconds, not text.
            ("numbers as text", Err(Reason::TsType)),
        ],
    );
}

#[test]
fn j02_huge_numbers() {
    check(
        "J02-huge-numbers.jsonl",
        &[
            ("above 2^53", Ok(("9007199254740993", None))),
            ("u64 max", Ok(("18446744073709551615", None))),
            ("u64 max + 1", Err(Reason::NumberRange)),
            ("1e30 as integer", Err(Reason::NumberRange)),
            ("overflow", Err(Reason::NumberRange)),
            ("cpu", Err(Reason::NumberRange)),
            ("NaN is not JSON", Err(Reason::Json)),
            ("Infinity is not JSON", Err(Reason::Json)),
            // The header allows either; the contract: an integer.
            ("float ts", Err(Reason::TsType)),
            ("negative count", Err(Reason::NumberRange)),
            ("negative room", Err(Reason::NumberRange)),
        ],
    );
    // Under names that the contract does not know, numbers are passed over whatever their size (its choice, not
    // the header's), and what is no JSON is refused all the same.
    let Some(records) = case("J02-huge-numbers.jsonl") else { return };
    let raw = |n: usize| base64(records[n]["raw_b64"].as_str().expect("raw bytes"));
    for n in [4, 5, 9] {
        assert_eq!(answer(&raw(n)), Ok(("1".to_owned(), None)), "{n}");
    }
    for n in [6, 7] {
        assert_eq!(answer(&raw(n)), Err(Reason::Json), "{n}");
    }
}

#[test]
fn j04_byte_order_marks_and_broken_bytes() {
    check(
        "J04-bom-and-bytes.jsonl",
        &[
            // The header accepts it; the contract: a BOM is rejected.
            ("BOM", Err(Reason::Bom)),
            ("UTF-16", Err(Reason::Bom)),
            // "Decide": broken UTF-8 inside `text` drops the text, not the event.
            ("Latin-1 byte in text", Ok(("r1", None))),
            ("bad byte in room", Err(Reason::Utf8)),
            ("half emoji", Ok(("r1", None))),
            ("half emoji in room", Err(Reason::RoomText)),
            ("raw surrogate bytes", Ok(("r1", None))),
            ("NUL in text", Ok(("r1", Some("a\0b")))),
            ("trailing garbage", Err(Reason::Json)),
            // "Decide": a record is one event.
            ("two objects", Err(Reason::Json)),
            // 100,000 bytes of it: beyond the largest event. Shorter ones below.
            ("deep nesting", Err(Reason::TooLarge)),
        ],
    );
    let nested = |n: usize| format!(r#"{{"room":"r1","ts":1700000000000,"x":{}"#, "[".repeat(n));
    assert_eq!(answer(nested(60_000).as_bytes()), Err(Reason::Depth));
    assert_eq!(answer("[".repeat(60_000).as_bytes()), Err(Reason::Json));
}

/// Reasons of a case whose records are the events themselves.
fn reasons(name: &str) -> Option<Vec<Option<Reason>>> {
    let records = case(name)?;
    Some(records.iter().map(|r| answer(r.to_string().as_bytes()).err()).collect())
}

#[test]
fn t01_units_are_never_guessed() {
    let Some(got) = reasons("T01-unit-mix.jsonl") else { return };
    // The header asks for the same instant from all of them; semantics §1: milliseconds, units are never guessed.
    let expected = [
        None,
        Some(Reason::TsUnit),
        Some(Reason::TsUnit),
        Some(Reason::TsUnit),
        Some(Reason::TsType),
        Some(Reason::TsType),
        Some(Reason::TsType),
        Some(Reason::TsType),
        Some(Reason::TsMissing),
    ];
    assert_eq!(got, expected);
}

#[test]
fn t09_missing_zero_and_negative_times() {
    let Some(got) = reasons("T09-missing-zero-negative.jsonl") else { return };
    let expected = [
        Reason::TsMissing,
        Reason::TsType,
        Reason::TsType,
        Reason::TsUnit,
        Reason::TsUnit,
        Reason::TsUnit,
        Reason::TsUnit,
        Reason::TsType,
        Reason::TsType,
    ];
    // None counted, nine for the dead letters.
    assert_eq!(got, expected.map(Some));
}
