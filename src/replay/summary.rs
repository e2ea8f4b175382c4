//! The end of a run for a person, or as JSON.

use super::alarms::seconds;
use super::report::{FileTotals, Report};
use super::text::{count, cut, instant, length, percent, sparkline, thousands};
use barrage_engine::decision::kind_name;
use barrage_protocol::ids::Level;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Rooms shown.
const HOTTEST: usize = 10;
/// More than one in so many late: the file is not in order of time.
const LATE_ONE_IN: u64 = 100;

/// The summary for a person.
#[must_use]
pub fn table(report: &Report, zero_ms: i64) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = heading(report, &mut out)
        .and_then(|()| rooms(report, &mut out))
        .and_then(|()| decided(report, zero_ms, &mut out))
        .and_then(|()| records(report, &mut out));
    out
}

fn heading(report: &Report, out: &mut String) -> std::fmt::Result {
    let rooms = report.activity.rooms() as u64;
    let events = report.activity.events();
    write!(out, "{} in {}", count(events, "event"), count(rooms, "room"))?;
    if report.activity.beyond > 0 {
        write!(out, " and more ({} events in those)", thousands(report.activity.beyond))?;
    }
    if let Some((first, last)) = report.activity.span() {
        let ms = (last.end_ms() - first.start_ms()).unsigned_abs();
        write!(out, ", {} of event time from {}", length(ms), instant(first.start_ms()))?;
    }
    let seconds = report.wall_ms as f64 / 1000.0;
    let rate = (events as f64 / seconds.max(0.001)) as u64;
    writeln!(
        out,
        "\nreplayed in {seconds:.2} s ({} events/s) on {}",
        thousands(rate),
        count(report.workers.into(), "worker")
    )
}

fn rooms(report: &Report, out: &mut String) -> std::fmt::Result {
    let hottest = report.activity.hottest(HOTTEST);
    if hottest.is_empty() {
        return Ok(());
    }
    let width = hottest.iter().map(|h| h.room.chars().count()).max().unwrap_or(0).clamp(13, 32);
    writeln!(
        out,
        "\n{:width$} {:>11} {:>11} {:>6}  rate over time",
        "hottest rooms", "events", "peak 10 s", "spans"
    )?;
    for hot in hottest {
        let spans = report.alarms.iter().filter(|a| a.room == hot.room).count();
        let peak = format!("{}/s", thousands_tenth(hot.peak_10s));
        writeln!(
            out,
            "{:width$} {:>11} {peak:>11} {spans:>6}  {}",
            cut(&hot.room, width),
            thousands(hot.events),
            sparkline(&hot.curve)
        )?;
    }
    Ok(())
}

/// A tenth, with one decimal.
fn thousands_tenth(n: u64) -> String {
    format!("{}.{}", thousands(n / 10), n % 10)
}

fn decided(report: &Report, zero_ms: i64, out: &mut String) -> std::fmt::Result {
    let all: u64 = report.decisions.values().sum();
    writeln!(out, "\n{}", count(all, "decision"))?;
    let mut by_kind: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for ((kind, from, to), n) in &report.decisions {
        let n = thousands(*n);
        by_kind.entry(kind_name(*kind)).or_default().push(format!("{from} → {to}: {n}"));
    }
    for (kind, changes) in by_kind {
        writeln!(out, "  {kind:<12} {}", changes.join(", "))?;
    }
    let mut by_rule: BTreeMap<&str, Vec<&super::Alarm>> = BTreeMap::new();
    for alarm in &report.alarms {
        by_rule.entry(&alarm.rule).or_default().push(alarm);
    }
    if !by_rule.is_empty() {
        writeln!(out, "{}", count(report.alarms.len() as u64, "span"))?;
    }
    for (rule, spans) in by_rule {
        let mut rooms: Vec<&str> = spans.iter().map(|a| a.room.as_str()).collect();
        rooms.sort_unstable();
        rooms.dedup();
        let longest = spans.iter().max_by_key(|a| (a.slots(), std::cmp::Reverse(*a)));
        let longest = longest.map_or_else(String::new, |a| {
            let at = seconds(a.from, zero_ms);
            format!("; the longest {} in {} from second {at}", length(a.slots() * 100), a.room)
        });
        let (n, rooms) = (thousands(spans.len() as u64), count(rooms.len() as u64, "room"));
        writeln!(out, "  {rule:<12} {n} in {rooms}{longest}")?;
    }
    Ok(())
}

fn records(report: &Report, out: &mut String) -> std::fmt::Result {
    let all = report.totals();
    writeln!(out, "\n{} read: {}", count(all.read, "record"), parts(&all))?;
    for (reason, n) in &all.rejected {
        writeln!(out, "  {:<14} {:>11}  {}", reason.name(), thousands(*n), reason.explain())?;
    }
    if report.files.len() > 1 {
        for file in &report.files {
            writeln!(out, "  {}: {} read: {}", file.name, thousands(file.read), parts(file))?;
        }
    }
    for file in unordered(report) {
        writeln!(
            out,
            "{}: {} of the records are late: the file is not in order of time; replay it with --sort",
            file.name,
            percent(file.late, file.read)
        )?;
    }
    Ok(())
}

/// Files of which more than 1 % came late.
fn unordered(report: &Report) -> impl Iterator<Item = &FileTotals> {
    report.files.iter().filter(|f| f.late * LATE_ONE_IN > f.read)
}

fn parts(of: &FileTotals) -> String {
    let mut parts = vec![format!("{} counted", thousands(of.counted))];
    for (n, name) in [
        (of.late, "late"),
        (of.rejected(), "rejected"),
        (of.skipped, "skipped"),
        (of.overflow, "beyond a limit"),
    ] {
        if n > 0 {
            parts.push(format!("{} {name} ({})", thousands(n), percent(n, of.read)));
        }
    }
    parts.join(", ")
}

/// The summary as JSON.
#[must_use]
pub fn json(report: &Report, zero_ms: i64) -> Value {
    let file = |f: &FileTotals| {
        json!({
            "name": f.name, "read": f.read, "counted": f.counted, "late": f.late,
            "rejected": f.rejected.iter().map(|(r, n)| (r.name().to_owned(), json!(n))).collect::<serde_json::Map<_, _>>(),
            "skipped": f.skipped, "overflow": f.overflow,
            "in_order": f.late * LATE_ONE_IN <= f.read,
        })
    };
    let decisions: Vec<Value> = report
        .decisions
        .iter()
        .map(|((kind, from, to), n)| json!({"kind": kind, "from": from, "to": to, "count": n}))
        .collect();
    let levels: Vec<&str> = (0..=Level::MAX.0).map(|l| Level(l).name()).collect();
    let mut spans: BTreeMap<&str, u64> = BTreeMap::new();
    report.alarms.iter().for_each(|a| *spans.entry(&a.rule).or_insert(0) += 1);
    let hottest: Vec<Value> = report
        .activity
        .hottest(HOTTEST)
        .iter()
        .map(|h| json!({"room": h.room, "events": h.events, "peak_10s": h.peak_10s}))
        .collect();
    let span = report.activity.span();
    json!({
        "events": report.activity.events(),
        "rooms": report.activity.rooms(),
        "first_ms": span.map(|s| s.0.start_ms()),
        "last_ms": span.map(|s| s.1.end_ms()),
        "zero_ms": zero_ms,
        "last_slot": report.last,
        "decisions": decisions,
        "decisions_hash": report.hash,
        "levels": levels,
        "spans": spans,
        "hottest": hottest,
        "files": report.files.iter().map(file).collect::<Vec<_>>(),
        "notes": report.notes,
        "workers": report.workers,
        "wall_seconds": report.wall_ms as f64 / 1000.0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::Alarm;
    use barrage_engine::precount::Record;
    use barrage_protocol::decision::Kind;
    use barrage_protocol::event::Reason;
    use barrage_protocol::ids::{RoomKey, Slot};

    fn report() -> Report {
        let mut report = Report::default();
        (report.workers, report.wall_ms) = (2, 1_500);
        let first = 17_000_000_000;
        for n in 0..700_u64 {
            let classes = [0, 0, 0, 0, if n > 600 { 40 } else { 4 }, 0];
            let record = Record { room: RoomKey::of("r_1"), classes, ..Record::default() };
            let name = [(RoomKey::of("r_1"), Box::from("r_1"))];
            report.activity.counts(Slot(first + n), &[record], &name);
        }
        report.alarms = vec![Alarm {
            room: "r_1".into(),
            from: Slot(first + 606),
            to: Slot(first + 699),
            rule: "surge".into(),
            kind: "surge",
        }];
        report.decisions.insert((Kind::Surge, "off".into(), "on".into()), 1);
        report.files = vec![FileTotals {
            name: "f.csv".into(),
            read: 6_400,
            counted: 6_264,
            late: 130,
            rejected: BTreeMap::from([(Reason::TsType, 6)]),
            ..FileTotals::default()
        }];
        report
    }

    #[test]
    fn a_summary_says_what_happened() {
        let text = table(&report(), 1_700_000_000_000);
        let expected = "\
6,364 events in 1 room, 1 min 10 s of event time from 2023-11-14 22:13:20 UTC
replayed in 1.50 s (4,242 events/s) on 2 workers

hottest rooms      events   peak 10 s  spans  rate over time
r_1                 6,364     396.4/s      1  ▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▆█████

1 decision
  surge        off → on: 1
1 span
  surge        1 in 1 room; the longest 9.4 s in r_1 from second 60.7

6,400 records read: 6,264 counted, 130 late (2.03 %), 6 rejected (0.09 %)
  ts_type                  6  time is not an integer
f.csv: 2.03 % of the records are late: the file is not in order of time; replay it with --sort
";
        let squeeze = |s: &str| s.split_whitespace().collect::<Vec<_>>().join(" ");
        let lines = |s: &str| s.lines().map(squeeze).collect::<Vec<_>>();
        for (got, want) in lines(&text).iter().zip(lines(expected)) {
            if !want.starts_with("r_1") {
                assert_eq!(*got, want);
            }
        }
        assert_eq!(text.lines().count(), expected.lines().count());
        let json = json(&report(), 0);
        assert_eq!(json["spans"]["surge"], 1);
        assert_eq!(json["files"][0]["in_order"], false);
        assert_eq!(json["files"][0]["rejected"]["ts_type"], 6);
    }
}
