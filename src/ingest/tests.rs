//! Tests of reading files: formats, mappings, units, what is left out and what is named.

use super::{File, Options, Poll, Problems, Source};
use barrage_protocol::event::{Reason, Unit};
use barrage_protocol::ids::{Class, Outcome};
use std::io::{Cursor, Write};

#[derive(Debug, PartialEq)]
struct Seen {
    offset: u64,
    t: Result<i64, Reason>,
    room: String,
    what: Option<(Class, Outcome)>,
}

fn read(bytes: impl Into<Vec<u8>>, options: &Options) -> (Vec<Seen>, Vec<String>) {
    let problems = Problems::default();
    let mut file = File::from_reader("f.csv", Cursor::new(bytes.into()), options, &problems);
    let mut seen = Vec::new();
    loop {
        let poll = file.poll(3, &mut |i| {
            seen.push(Seen {
                offset: i.offset,
                t: i.event.map(|_| i.t.expect("a time")).map_err(|r| r.reason),
                room: i.room.to_owned(),
                what: i.event.ok().map(|h| (h.class, h.outcome)),
            });
        });
        match poll {
            Poll::More => {}
            Poll::Ended => break,
            other => panic!("{other:?}"),
        }
    }
    let notes = problems.notes().iter().map(ToString::to_string).collect();
    (seen, notes)
}

fn good(offset: u64, t: i64, room: &str) -> Seen {
    Seen { offset, t: Ok(t), room: room.into(), what: Some((Class::Chat, Outcome::Ok)) }
}

fn bad(offset: u64, reason: Reason) -> Seen {
    Seen { offset, t: Err(reason), room: String::new(), what: None }
}

fn options(map: &str) -> Options {
    let map = map.split(',').filter(|m| !m.is_empty());
    Options { map: map.map(|m| m.parse().expect("a mapping")).collect(), ..Options::default() }
}

const T: i64 = 1_700_000_000_000;

#[test]
fn a_table_with_a_start_of_its_own_is_read() {
    let text =
        "rel_ms,room,user,kind\n5,lol-44,c6,chat\n7.9,lol-37,39,gift\n-1,\"a,\"\"b\",x,command\n";
    let mut options = options("ts=rel_ms,room=room,user=user");
    options.ts_base = Some(T);
    let (seen, notes) = read(text, &options);
    assert_eq!(seen, [good(0, T + 5, "lol-44"), good(1, T + 7, "lol-37"), good(2, T - 1, "a,\"b")]);
    assert!(notes.is_empty(), "{notes:?}");
    options.map.push("class=kind".parse().expect("a mapping"));
    let (seen, _) = read(text, &options);
    let classes: Vec<_> = seen.iter().filter_map(|s| s.what).map(|w| w.0).collect();
    assert_eq!(classes, [Class::Chat, Class::Gift, Class::Command]);
}

#[test]
fn compressed_lines_are_found_out_by_their_bytes() {
    let text = format!(
        "{{\"room\":\"a\",\"ts\":{T}}}\n\n{{\"ts\":{},\"room\":7,\"class\":\"gift\"}}",
        T + 1
    );
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gz.write_all(text.as_bytes()).expect("compressed");
    let gz = gz.finish().expect("compressed");
    let (seen, notes) = read(gz.clone(), &Options::default());
    assert_eq!(seen[0], good(0, T, "a"));
    assert_eq!((seen[1].offset, seen[1].what), (1, Some((Class::Gift, Outcome::Ok))));
    assert_eq!((seen.len(), notes.len()), (2, 0));
    // Cut off: what was whole counts, the rest is told.
    let (_, notes) = read(&gz[..gz.len() - 9], &Options::default());
    assert!(notes.iter().any(|n| n.contains("cannot be read on")), "{notes:?}");
}

#[test]
fn broken_lines_are_named_and_do_not_stop_the_run() {
    let text = format!(
        "\u{feff}ts;room\r\n{T};a\r\nlate;a\r\n{};b\r\n17;c\r\n1700000000;c\r\n{T}\r\n;d\r\n{T};\r\n\"{T};e\r\n",
        T + 1
    );
    let (seen, notes) = read(text, &Options::default());
    let expected = [
        good(0, T, "a"),
        bad(1, Reason::TsType),
        good(2, T + 1, "b"),
        bad(3, Reason::TsUnit),
        bad(4, Reason::TsUnit),
        bad(5, Reason::Columns),
        bad(6, Reason::TsMissing),
        bad(7, Reason::RoomMissing),
        bad(8, Reason::Columns),
    ];
    assert_eq!(seen, expected);
    let expected = [
        "f.csv:3: time is not an integer (ts_type, field `ts`); `late`",
        "f.csv:5: time is not in milliseconds (ts_unit, field `ts`); `17` with --ts-base, if it counts from a start",
        "f.csv:6: time is not in milliseconds (ts_unit, field `ts`); `1700000000` looks like --ts-unit s",
        "f.csv:7: lacks columns, or a quote is not closed (columns)",
        "f.csv:8: has no time (ts_missing, field `ts`)",
        "f.csv:9: has no room (room_missing, field `room`)",
        "f.csv:10: lacks columns, or a quote is not closed (columns)",
    ];
    assert_eq!(notes, expected);
}

#[test]
fn only_the_first_few_of_a_kind_are_named() {
    let text = format!("ts,room\n{}{T},a\n", "x,y\n".repeat(100_000));
    let (seen, notes) = read(text, &Options::default());
    assert_eq!(seen.len(), 100_001);
    assert_eq!(notes.len(), 3);
    assert!(notes[2].starts_with("f.csv:4:") && notes[2].ends_with("only counted)"), "{notes:?}");
}

#[test]
fn unknown_columns_are_named_with_the_nearest() {
    let (seen, notes) = read("time_ms,channel\n5,a\n", &options("ts=times_ms,room=channel"));
    assert!(seen.is_empty());
    let expected = "f.csv:1: no column `times_ms` for ts, without which nothing can be read; the columns are \
                    time_ms, channel; did you mean --map ts=time_ms?";
    assert_eq!(notes, [expected]);
    let text = format!("ts,room,klass\n{T},a,gift\n");
    let (seen, notes) = read(text, &options("class=class,user=usr"));
    assert_eq!(seen.len(), 1);
    assert!(notes[0].contains("no column `class` for class, read without it"), "{notes:?}");
    assert!(notes[0].contains("--map class=klass"), "{notes:?}");
    assert!(notes[1].contains("no column `usr` for user"), "{notes:?}");
    let text = format!("{{\"chan\":\"a\",\"ts\":{T}}}\n");
    let (seen, notes) = read(text, &options("room=chann,user=usr"));
    assert_eq!(seen, [bad(0, Reason::RoomMissing)]);
    assert!(
        notes[0].contains("no `chann` among its keys: chan, ts; did you mean --map room=chan?"),
        "{notes:?}"
    );
    assert_eq!(notes[1], "f.csv: no record has `usr`, which was to be read as user");
    for (text, told) in [("", "f.csv: is empty"), ("\n \n", "f.csv: is empty")] {
        assert_eq!(read(text, &Options::default()).1, [told]);
    }
}

#[test]
fn units_are_as_told() {
    let unit = |unit| Options { ts_unit: Some(unit), ..Options::default() };
    for (text, how) in [
        ("{\"room\":\"a\",\"ts\":1700000000.25}", Unit::Seconds),
        ("{\"room\":\"a\",\"ts\":1700000000250}", Unit::Millis),
        ("{\"room\":\"a\",\"ts\":1700000000250999}", Unit::Micros),
        ("{\"room\":\"a\",\"ts\":1700000000250000001}", Unit::Nanos),
        ("ts,room\n1700000000.2509,a\n", Unit::Seconds),
    ] {
        assert_eq!(read(text, &unit(how)).0, [good(0, T + 250, "a")], "{text}");
    }
    let (seen, notes) = read("{\"room\":\"a\",\"ts\":1700000000}", &Options::default());
    assert_eq!(seen, [bad(0, Reason::TsUnit)]);
    assert!(notes[0].ends_with("`1700000000` looks like --ts-unit s"), "{notes:?}");
}

#[test]
fn repeated_records_are_left_out_by_the_columns_named() {
    let by = |columns: &[&str]| Options {
        dedupe: columns.iter().map(|c| (*c).to_owned()).collect(),
        ..Options::default()
    };
    let text = format!("ts,room,id\n{T},a,1\n{T},a,1\n{T},a,2\n{T},b,1\n");
    let (seen, notes) = read(text.clone(), &by(&["room", "id"]));
    let repeated: Vec<_> = seen.iter().map(|s| s.t == Err(Reason::Repeated)).collect();
    assert_eq!(repeated, [false, true, false, false]);
    assert!(notes.is_empty(), "{notes:?}");
    let (seen, notes) = read(text, &by(&["room", "idd"]));
    assert!(seen.iter().all(|s| s.t.is_ok()));
    assert!(notes[0].contains("no column `idd` to tell records apart by; did you mean `id`?"));
    let text = format!("{{\"ts\":{T},\"room\":\"a\",\"id\":1}}\n").repeat(2)
        + &format!("{{\"ts\":{T},\"room\":\"a\"}}\n").repeat(2);
    let (seen, _) = read(text, &by(&["id", "room"]));
    let repeated: Vec<_> = seen.iter().map(|s| s.t == Err(Reason::Repeated)).collect();
    assert_eq!(repeated, [false, true, false, true]);
}

#[test]
fn any_bytes_can_be_read_as_a_file() {
    let seed = 31_u64;
    let mut x = seed;
    let mut next = || {
        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (x >> 33) as usize
    };
    for _ in 0..3_000 {
        let n = next() % 200;
        let mut text =
            [&b"ts,room\n"[..], b"{", b"\x1f\x8b", b"\xEF\xBB\xBF", b""][next() % 5].to_vec();
        let alphabet = b"\"\"\n\r,;{}:17000000000\xFF\x1f\0aroomts";
        text.extend((0..n).map(|_| alphabet[next() % alphabet.len()]));
        let (seen, _) = read(text, &Options { sort: next() % 2 == 0, ..options("") });
        assert!(seen.iter().enumerate().all(|(at, s)| s.offset == at as u64), "seed {seed}");
    }
}
