//! Tests of event parsing: tables, round trips, and an independent JSON parser as oracle on damaged records.

use super::*;
use serde_json::{Value as Json, json};

/// The generator of Steele, Lea and Flood (splitmix64): a seed names a run.
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }
}

fn reason(record: &[u8]) -> Reason {
    parse(record).expect_err("a reason").reason
}

fn with(members: &str) -> Vec<u8> {
    format!(r#"{{"room":"r1","ts":1700000000123{members}}}"#).into_bytes()
}

#[test]
fn the_contracts_example_is_read_whole() {
    let record = r#"{"room":"r_789a","ts":1700000000123,"class":"gift","user":"u_1","weight":1,"outcome":"ok","latency_ms":12,
 "tier":"vip","service":"danmaku","method":"/im/send","source":"203.0.113.7","text":"…","labels":{"fan":"12"},"traceparent":"00-ab-cd-01"}"#;
    let event = parse(record.as_bytes()).expect("an event");
    assert_eq!(event.room, "r_789a");
    assert_eq!(event.ts, 1_700_000_000_123);
    assert_eq!(event.class, Class::Gift);
    assert_eq!(event.user.expect("a user").get(), "u_1");
    assert_eq!((event.weight, event.outcome, event.latency_ms), (1, Outcome::Ok, Some(12)));
    assert_eq!(event.tier, Some(Tier::Vip));
    assert_eq!(event.service.expect("a service").get(), "danmaku");
    assert_eq!(event.method.expect("a method").get(), "/im/send");
    assert_eq!(event.source.expect("a source").get(), "203.0.113.7");
    assert_eq!(event.text.expect("a text").get(), "…");
    assert_eq!(event.labels, Some(r#"{"fan":"12"}"#));
    assert_eq!(event.traceparent.expect("a trace").get(), "00-ab-cd-01");
    assert_eq!(event.hit().room, RoomKey::of("r_789a"));
}

#[test]
fn what_is_refused_is_refused_for_its_reason() {
    let table: &[(&[u8], Reason)] = &[
        (b"", Reason::Json),
        (b"null", Reason::Json),
        (b"[]", Reason::Json),
        (b"{}", Reason::RoomMissing),
        (b"{\"room\":\"a\"}", Reason::TsMissing),
        (b"{\"room\":\"a\",\"ts\":1700000000000,}", Reason::Json),
        (b"{\"room\":\"a\" \"ts\":1700000000000}", Reason::Json),
        (b"{\"room\":\"a\",\"ts\":01700000000000}", Reason::Json),
        (b"{\"room\":\"a\",\"ts\":+1700000000000}", Reason::Json),
        (b"{\"room\":\"a\",\"ts\":1700000000000}}", Reason::Json),
        (b"{\"room\":\"a\tb\",\"ts\":1700000000000}", Reason::Json),
        (b"{\"room\":\"a\\tb\",\"ts\":1700000000000}", Reason::RoomText),
        (b"{\"room\":\"a\xC2\x85\",\"ts\":1700000000000}", Reason::RoomText),
        (b"{\"room\":\"a\\u007f\",\"ts\":1700000000000}", Reason::RoomText),
        (b"{\"room\":1.5,\"ts\":1700000000000}", Reason::RoomType),
        (b"{\"room\":1e3,\"ts\":1700000000000}", Reason::RoomType),
        (b"{\"room\":-1,\"ts\":1700000000000}", Reason::NumberRange),
        (b"{\"room\":true,\"ts\":1700000000000}", Reason::RoomType),
        (b"{\"room\":{},\"ts\":1700000000000}", Reason::RoomType),
        (b"{\"room\":\"a\",\"ts\":99999999999}", Reason::TsUnit),
        (b"{\"room\":\"a\",\"ts\":100000000000000}", Reason::TsUnit),
        (b"{\"room\":\"a\",\"ts\":99999999999999999999}", Reason::NumberRange),
        (b"{\"room\":\"a\",\"ts\":1.7e12}", Reason::TsType),
        (b"{\"room\":\"a\",\"ts\":[1700000000000]}", Reason::TsType),
        (b"{\"room\":\"a\",\"ts\":NaN}", Reason::Json),
        (b"{\"room\":\"a\",\"ts\":1700000000000,\"x\":\"\xFF\"}", Reason::Utf8),
        (b"{\"room\":\"a\",\"ts\":1700000000000,\"\xFF\":1}", Reason::Utf8),
        (b"{\"room\":\"a\",\"ts\":1700000000000,\"x\":[{\"y\":\"\xFF\"}]}", Reason::Utf8),
        (b"{\"room\":\"a\",\"ts\":1700000000000,\"user\":\"\\ud83d\"}", Reason::Utf8),
        (b"\xEF\xBB\xBF{\"room\":\"a\",\"ts\":1700000000000}", Reason::Bom),
        (b"{\"room\":\"a\",\"room\":\"a\",\"ts\":1700000000000}", Reason::DuplicateKey),
        (b"{\"room\":\"a\",\"r\\u006fom\":\"a\",\"ts\":1700000000000}", Reason::DuplicateKey),
    ];
    for (record, expected) in table {
        assert_eq!(reason(record), *expected, "{}", String::from_utf8_lossy(record));
    }
}

#[test]
fn optional_fields_have_their_rules() {
    for (members, expected) in [
        (r#","weight":0"#, Reason::NumberRange),
        (r#","weight":1001"#, Reason::NumberRange),
        (r#","weight":-1"#, Reason::NumberRange),
        (r#","weight":1.5"#, Reason::FieldType),
        (r#","weight":"5""#, Reason::FieldType),
        (r#","latency_ms":-1"#, Reason::NumberRange),
        (r#","latency_ms":1e400"#, Reason::NumberRange),
        (r#","latency_ms":86400001"#, Reason::NumberRange),
        (r#","class":5"#, Reason::FieldType),
        (r#","labels":[]"#, Reason::FieldType),
        (r#","text":"a","text":"b""#, Reason::DuplicateKey),
    ] {
        assert_eq!(reason(&with(members)), expected, "{members}");
    }
    let read = |members: &str| {
        let record = with(members);
        let event = parse(&record).expect("an event");
        (event.class, event.outcome, event.tier, event.weight, event.latency_ms)
    };
    let plain = (Class::Chat, Outcome::Ok, None, 1, None);
    assert_eq!(read(""), plain);
    assert_eq!(
        read(r#","class":null,"outcome":null,"weight":null,"tier":null,"latency_ms":null"#),
        plain
    );
    assert_eq!(read(r#","class":"confetti""#).0, Class::Heartbeat);
    assert_eq!(read(r#","outcome":"timeout""#).1, Outcome::Timeout);
    assert_eq!(read(r#","outcome":"half-done""#).1, Outcome::Ignored);
    assert_eq!(read(r#","tier":"gold""#).2, Some(Tier::Ordinary));
    assert_eq!(
        read(r#","weight":1000,"latency_ms":12.7"#),
        (Class::Chat, Outcome::Ok, None, 1000, Some(12))
    );
    assert_eq!(read(r#","user":77,"price":1e400,"x":[[],{},[{"a":[1,-2.5e-3,null]}]]"#), plain);
    // Damaged or no text: the event stays.
    for text in [r#""gg \ud83d""#, r#""\udc00\ud83d""#, "5", "null", r#"["gift"]"#] {
        let record = with(&format!(r#","text":{text}"#));
        assert_eq!(parse(&record).expect("an event").text, None, "{text}");
    }
    let record = with(r#","text":"a\u0000\ud83c\udf81\n""#);
    let event = parse(&record).expect("an event");
    assert_eq!(event.text.expect("a text").get(), "a\0🎁\n");
    assert_eq!(event.class, Class::Gift);
}

#[test]
fn sizes_and_depths_have_limits() {
    let room = |n: usize| format!(r#"{{"room":"{}","ts":1700000000000}}"#, "é".repeat(n));
    assert!(parse(room(64).as_bytes()).is_ok());
    assert_eq!(reason(room(65).as_bytes()), Reason::RoomText);
    let nested = |n: usize| with(&format!(r#","x":{}{}"#, "[".repeat(n), "]".repeat(n)));
    assert!(parse(&nested(64)).is_ok());
    assert_eq!(reason(&nested(65)), Reason::Depth);
    let sized = |n: usize| with(&format!(r#","x":"{}""#, "y".repeat(n)));
    let overhead = sized(0).len();
    assert!(parse(&sized(MAX_BYTES - overhead)).is_ok());
    assert_eq!(reason(&sized(MAX_BYTES - overhead + 1)), Reason::TooLarge);
}

#[test]
fn fields_may_stand_under_other_names() {
    let mut schema = Schema::default();
    schema.rename(Field::Room, "chan");
    schema.rename(Field::Ts, "when");
    schema.time = Time { unit: Unit::Seconds, base_ms: 0, decimals: true };
    let record = br#"{"when":1700000000.1239,"chan":"c","room":["not this"]}"#;
    let event = schema.parse(record).expect("an event");
    assert_eq!((event.room.as_ref(), event.ts), ("c", 1_700_000_000_123));
    let usual = br#"{"room":"c","ts":1700000000000}"#;
    assert_eq!(schema.parse(usual).expect_err("a reason").reason, Reason::RoomMissing);
}

#[test]
fn times_are_converted_exactly() {
    let ms = |unit, base_ms, text| Time { unit, base_ms, decimals: true }.ms(text);
    assert_eq!(ms(Unit::Seconds, 0, "1700000000"), Ok(1_700_000_000_000));
    assert_eq!(ms(Unit::Seconds, 0, "1700000000.9999"), Ok(1_700_000_000_999));
    assert_eq!(ms(Unit::Micros, 0, "1700000000000999"), Ok(1_700_000_000_000));
    assert_eq!(ms(Unit::Nanos, 0, "1700000000000000001"), Ok(1_700_000_000_000));
    assert_eq!(ms(Unit::Millis, 1_700_000_000_000, "-1.5"), Ok(1_699_999_999_998));
    assert_eq!(ms(Unit::Seconds, 1_700_000_000_000, "-0.0015"), Ok(1_699_999_999_998));
    assert_eq!(ms(Unit::Seconds, 0, "9223372036854775807"), Err(Reason::NumberRange));
    assert_eq!(ms(Unit::Millis, i64::MAX, "1"), Err(Reason::NumberRange));
    for text in ["", "-", ".", ".5", "1e12", "12a", "1.2.3", "١٢", " 5", "0x10"] {
        assert_eq!(ms(Unit::Millis, 1_700_000_000_000, text), Err(Reason::TsType), "{text}");
    }
    assert_eq!(Time::default().ms("1700000000000.5"), Err(Reason::TsType));
    assert_eq!(Time::likely_unit("1700000000"), Some("s"));
    assert_eq!(Time::likely_unit("1700000000000000000"), Some("ns"));
    assert_eq!(Time::likely_unit("5"), None);
}

#[test]
fn content_tells_the_class() {
    for (text, expected) in [
        ("送出 火箭 x1", Class::Gift),
        ("小明 送出火箭", Class::Gift),
        ("他把礼物送出去了", Class::Chat),
        ("辣条 ×3 连击", Class::Gift),
        ("辣条 x12连击！", Class::Gift),
        ("这个连击好帅", Class::Chat),
        ("thanks 🎁", Class::Gift),
        ("/mute bob", Class::Command),
        ("  /mute bob", Class::Command),
        ("点歌 晴天", Class::Command),
        ("点歌", Class::Command),
        ("!vote 2", Class::Command),
        ("!voted", Class::Chat),
        ("!!!", Class::Chat),
        ("hello/world", Class::Chat),
        ("", Class::Chat),
    ] {
        assert_eq!(classify(text), expected, "{text}");
    }
    for (labels, expected) in [
        (r#"{"class":"system"}"#, Class::System),
        (r#"{"class":"confetti"}"#, Class::Chat),
        (r#"{"gift":"rocket"}"#, Class::Gift),
        (r#"{"combo":"0"}"#, Class::Chat),
        (r#"{"fan":"12"}"#, Class::Chat),
        (r#"{"note":"\"gift\""}"#, Class::Chat),
    ] {
        let record = with(&format!(r#","labels":{labels}"#));
        assert_eq!(parse(&record).expect("an event").class, expected, "{labels}");
    }
}

/// A random event, and as JSON.
fn random_event(rng: &mut Rng) -> Json {
    let texts = ["", "r_1", "käse", "\"quoted\\\"", "a/b", "送出", "🎁\n", "\u{1}x", "🚀é\t"];
    let rooms = ["r_1", "käse", "a\"b\\", "房间", "🚀"];
    let mut event = json!({
        "room": rooms[rng.below(rooms.len())],
        "ts": TS_MIN + (rng.next() % (TS_MAX - TS_MIN) as u64) as i64,
    });
    if rng.below(4) == 0 {
        event["room"] = json!(rng.next());
    }
    for name in ["user", "service", "method", "source", "text", "traceparent", "x", "y"] {
        if rng.below(2) == 0 {
            event[name] = json!(texts[rng.below(texts.len())]);
        }
    }
    if rng.below(2) == 0 {
        event["weight"] = json!(1 + rng.below(1000));
    }
    if rng.below(2) == 0 {
        event["labels"] =
            json!({"fan": texts[rng.below(texts.len())], "n": [1, null, {"z": -0.5}]});
    }
    if rng.below(2) == 0 {
        event["class"] = json!(Class::ALL[rng.below(CLASS_COUNT)].name());
    }
    event
}

const CLASS_COUNT: usize = crate::ids::CLASSES;

#[test]
fn what_another_writer_wrote_is_read_back() {
    let seed = 20_231_114;
    let mut rng = Rng(seed);
    for n in 0..20_000 {
        let json = random_event(&mut rng);
        let pretty = rng.below(2) == 0;
        let text =
            if pretty { serde_json::to_string_pretty(&json) } else { serde_json::to_string(&json) };
        let text = text.expect("JSON");
        let event =
            parse(text.as_bytes()).unwrap_or_else(|e| panic!("seed {seed}, {n}: {e}\n{text}"));
        let room = json["room"].as_str().map_or_else(|| json["room"].to_string(), str::to_owned);
        assert_eq!(event.room, room, "seed {seed}, {n}");
        assert_eq!(Some(event.ts), json["ts"].as_i64());
        assert_eq!(u64::from(event.weight), json["weight"].as_u64().unwrap_or(1));
        for (name, read) in [
            ("user", event.user),
            ("service", event.service),
            ("method", event.method),
            ("source", event.source),
            ("text", event.text),
            ("traceparent", event.traceparent),
        ] {
            let read = read.map(|t| t.get().into_owned());
            assert_eq!(read.as_deref(), json[name].as_str(), "seed {seed}, {n}: {name}");
        }
        let labels = event.labels.map(|l| serde_json::from_str::<Json>(l).expect("JSON"));
        assert_eq!(labels.unwrap_or(Json::Null), json["labels"]);
        if let Some(class) = json["class"].as_str() {
            assert_eq!(event.class.name(), class);
        }
    }
}

/// Damages a record: bytes changed, dropped, doubled, cut off, or pieces of another one put in.
fn damage(rng: &mut Rng, record: &mut Vec<u8>, other: &[u8]) {
    for _ in 0..=rng.below(3) {
        let at = rng.below(record.len().max(1)).min(record.len());
        match rng.below(6) {
            0 if at < record.len() => record[at] = rng.next() as u8,
            1 if at < record.len() => {
                record.remove(at);
            }
            2 => record.truncate(at),
            3 => record.insert(at, b"\"\\{}[],:0-eE.tnu \n"[rng.below(18)]),
            4 => {
                let from = rng.below(other.len());
                let to = from + rng.below(other.len() - from);
                record.splice(at..at, other[from..to].iter().copied());
            }
            _ => record.extend_from_slice(b" "),
        }
    }
}

/// The other parser refuses half surrogate pairs and numbers beyond a double; ours may pass over those.
fn oracle_can_tell(record: &[u8]) -> bool {
    let surrogate = record.windows(3).any(|w| w.eq_ignore_ascii_case(b"\\ud"));
    let exponent = record.windows(2).any(|w| w[0].is_ascii_digit() && matches!(w[1], b'e' | b'E'));
    !surrogate && !exponent
}

#[test]
fn damaged_records_agree_with_another_parser_and_never_panic() {
    let seed = 4_711;
    let mut rng = Rng(seed);
    let (mut accepted, mut refused) = (0, 0);
    let mut previous = br#"{"a":[1,{"b":"c"}],"d":null}"#.to_vec();
    for n in 0..60_000 {
        let whole = serde_json::to_vec(&random_event(&mut rng)).expect("JSON");
        let mut record = whole.clone();
        damage(&mut rng, &mut record, &previous);
        previous = whole;
        let ours = parse(&record);
        let show = || format!("seed {seed}, {n}: {ours:?}\n{}", String::from_utf8_lossy(&record));
        if !oracle_can_tell(&record) {
            continue;
        }
        let theirs = serde_json::from_slice::<Json>(&record);
        match &ours {
            Ok(_) if std::str::from_utf8(&record).is_ok() => {
                assert!(theirs.as_ref().is_ok_and(Json::is_object), "{} {theirs:?}", show());
                accepted += 1;
            }
            Err(e) if e.reason == Reason::Json => {
                assert!(!theirs.is_ok_and(|j| j.is_object()), "{}", show());
                refused += 1;
            }
            _ => {}
        }
    }
    assert!(accepted > 5_000 && refused > 20_000, "{accepted} accepted, {refused} refused");
}

#[test]
fn every_byte_string_has_an_answer() {
    let seed = 99;
    let mut rng = Rng(seed);
    for _ in 0..200_000 {
        let n = rng.below(40);
        let record: Vec<u8> = (0..n)
            .map(|_| match rng.below(3) {
                0 => rng.next() as u8,
                _ => b"{}[]\",:\\u0trnfe1.-romts \xC3\xEF"[rng.below(26)],
            })
            .collect();
        let _ = parse(&record);
    }
    // Every truncation of a good one is refused.
    let whole = serde_json::to_vec(&random_event(&mut rng)).expect("JSON");
    for n in 0..whole.len() {
        let cut = reason(&whole[..n]);
        assert!(matches!(cut, Reason::Json | Reason::TsUnit), "{n}: {cut:?}");
    }
}

#[test]
fn a_rejected_record_still_tells_its_time_where_it_was_read() {
    let t = |record: &[u8]| parse(record).expect_err("a reason").t;
    assert_eq!(t(br#"{"ts":1700000000000,"room":""}"#), Some(1_700_000_000_000));
    assert_eq!(t(br#"{"ts":1700000000000}"#), Some(1_700_000_000_000));
    assert_eq!(t(br#"{"ts":1700000000000,"room":"a"} x"#), Some(1_700_000_000_000));
    assert_eq!(t(br#"{"room":"","ts":1700000000000}"#), None);
    assert_eq!(t(br#"{"ts":17,"room":"a"}"#), None);
}

#[test]
fn names_are_stable_and_serialize_as_such() {
    for reason in Reason::ALL {
        assert_eq!(serde_json::to_value(reason).expect("JSON"), json!(reason.name()));
    }
    for field in Field::ALL {
        assert_eq!(Field::from_name(field.name().as_bytes()), Some(field));
        assert_eq!(serde_json::to_value(field).expect("JSON"), json!(field.name()));
    }
    let reject = parse(br#"{"room":"a","ts":17}"#).expect_err("a reason");
    assert_eq!(reject.to_string(), "time is not in milliseconds (ts_unit, field `ts`, at byte 19)");
}
