//! What must not run while nothing happens, and must not grow while time moves. In a binary of its own, and one test
//! at a time: both look at the whole process.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use barrage::worker::Host;
use barrage_dataflows::command::Options;
use barrage_engine::precount::Record;
use barrage_engine::rules::RuleSet;
use barrage_protocol::ids::{RoomKey, Slot};
use std::sync::{Arc, Mutex, PoisonError};

const START: u64 = 17_000_000_000;

static ALONE: Mutex<()> = Mutex::new(());

fn start(workers: usize) -> Host {
    let rules = Arc::new(RuleSet::shipped());
    Host::start(workers, Slot(START), rules, Options::default()).unwrap()
}

fn put(host: &mut Host, slot: u64, room: &str, n: u16) {
    let room_key = RoomKey::of(room);
    let classes = [0, 0, 0, 0, n, 0];
    let record = Record { room: room_key, classes, partitions: 1, ..Record::default() };
    host.counts(0, Slot(slot), vec![record], vec![(room_key, room.into())]).unwrap();
}

/// An idle host's threads are parked.
#[test]
fn idle_workers_use_no_cpu() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut host = start(3);
    put(&mut host, START, "r", 3);
    host.close(Slot(START + 20)).unwrap();
    host.settle(Slot(START + 20)).unwrap();
    // The one place that lets time pass: what an idle thread uses can be seen in no other way.
    let (_keep, never) = std::sync::mpsc::sync_channel::<()>(1);
    let pass = |ms| never.recv_timeout(std::time::Duration::from_millis(ms)).unwrap_err();
    pass(50);
    let before = worker_ticks();
    assert_eq!(before.len(), 3);
    pass(500);
    let used = worker_ticks().iter().sum::<u64>() - before.iter().sum::<u64>();
    // In ticks of 10 ms: one spinning worker would have used 50.
    assert!(used <= 2, "{used} ticks");
    host.stop().unwrap();
}

/// CPU of every worker thread of this process, in clock ticks.
fn worker_ticks() -> Vec<u64> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let stats = tasks.filter_map(|t| std::fs::read_to_string(t.ok()?.path().join("stat")).ok());
    let ticks = |s: String| {
        let rest = s.rsplit(") ").next()?.to_owned();
        let fields = rest.split(' ').skip(11).take(2);
        Some(fields.flat_map(str::parse::<u64>).sum())
    };
    stats.filter(|s| s.contains("(timely:work")).filter_map(ticks).collect()
}

/// Case D01: one row, then a million epochs of nothing, then a thousand pairs that cancel, then one row more. Counts
/// cannot be taken back here, so the cancelling pairs are rooms that come and are forgotten.
#[test]
fn d01_time_moves_without_data() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut host = start(2);
    let batch = 2_000;
    put(&mut host, START, "r1", 10);
    let close_to = |host: &mut Host, from: u64, to: u64| {
        for upto in (from..=to).step_by(batch) {
            host.close(Slot(upto)).unwrap();
        }
    };
    close_to(&mut host, START, START + 100_000);
    let early = resident();
    close_to(&mut host, START + 100_001, START + 1_000_000);
    let late = resident();
    // 10 % as the case says, and a megabyte for the allocator's own comings and goings.
    assert!(late <= early + early / 10 + (1 << 20), "{early} to {late} bytes");
    let mut slot = host.next().0;
    for i in 0..1_000 {
        put(&mut host, slot, &format!("r2-{i}"), 1);
    }
    host.close(Slot(slot)).unwrap();
    close_to(&mut host, slot + batch as u64, slot + 10_000);
    let view = host.settle(Slot(host.next().0 - 1)).unwrap();
    assert_eq!((view.stats.rooms, view.stats.log_entries, view.stats.controllers), (0, 0, 0));
    slot = host.next().0;
    put(&mut host, slot, "r1", 1);
    host.close(Slot(slot + 10)).unwrap();
    let view = host.settle(Slot(slot + 10)).unwrap();
    assert_eq!((view.rooms.len(), view.rooms[0].count_60s), (1, 1));
    assert_eq!(view.site.last_10s.iter().sum::<i64>(), 1);
    host.stop().unwrap();
}

/// Resident bytes of this process.
fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = statm.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4_096
}
