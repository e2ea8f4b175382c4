//! Case T06: what is pending when the process falls is in its checkpoint, and falls due as if nothing had happened.

use crate::audit_fixture::{Folder, START};
use barrage::audit::Store;
use barrage::worker::Host;
use barrage_dataflows::command::Options;
use barrage_dataflows::snapshot::Snapshot;
use barrage_engine::precount::Record;
use barrage_engine::rules::RuleSet;
use barrage_protocol::decision::{Decision, Kind};
use barrage_protocol::ids::{RoomKey, Slot};
use std::sync::Arc;

/// Slots of the storm: ten seconds at 3,000 a second, which the shipped `rate` rule answers with level 2.
const STORM: u64 = 100;

fn feed(host: &mut Host, slots: std::ops::Range<u64>) {
    let room = RoomKey::of("r1");
    for slot in slots.start..slots.end.min(START + STORM) {
        let record =
            Record { room, classes: [0, 0, 0, 0, 300, 0], partitions: 1, ..Record::default() };
        host.counts(0, Slot(slot), vec![record], vec![(room, "r1".into())]).unwrap();
    }
}

/// (slot after the start, level before, level after) of each move.
fn moves(decided: Vec<(Slot, Vec<Decision>)>) -> Vec<(u64, String, String)> {
    let all = decided.into_iter().flat_map(|(_, decisions)| decisions);
    let levels = all.filter(|d| d.kind == Kind::Level);
    levels.map(|d| (d.slot.0 - START, d.from, d.to)).collect()
}

/// The case's breaker with its wait is here a level with its dwell: up in the storm, then no event at all. Whenever the
/// process falls, and however late it is back, the level comes down in the slots in which it would have.
#[test]
fn t06_timers_lost_on_restart() {
    let rules = Arc::new(RuleSet::shipped());
    let start = || Host::start(1, Slot(START), Arc::clone(&rules), Options::default()).unwrap();
    let mut host = start();
    feed(&mut host, START..START + STORM);
    let undisturbed = moves(host.close(Slot(START + 600)).unwrap());
    host.stop().unwrap();
    let levels: Vec<_> = undisturbed.iter().map(|(_, from, to)| format!("{from}{to}")).collect();
    assert_eq!(levels, ["02", "21", "10"]);

    let risen = undisturbed[0].0;
    let fallen = undisturbed[2].0;
    for falls in [risen, risen + 20, undisturbed[1].0 - 1, undisturbed[1].0, fallen - 1] {
        let folder = Folder::new();
        let mut host = start();
        feed(&mut host, START..START + STORM.min(falls + 1));
        let before = moves(host.close(Slot(START + falls)).unwrap());
        let snapshot = serde_json::to_vec(&host.snapshot().unwrap()).unwrap();
        let mut store = Store::open(folder.path()).unwrap();
        store.save(7, Slot(START + falls), &snapshot).unwrap();
        // The next one was being written when the process fell.
        std::fs::write(folder.path().join("checkpoint.tmp"), &snapshot[..snapshot.len() / 2])
            .unwrap();
        host.stop().unwrap();
        drop(store);

        let kept = Store::open(folder.path()).unwrap().newest().unwrap().unwrap();
        assert_eq!(kept.slot, Slot(START + falls));
        let snapshot: Arc<Snapshot> = Arc::new(serde_json::from_slice(&kept.bytes).unwrap());
        let mut host = Host::restore(1, snapshot, Slot(START), Options::default()).unwrap();
        feed(&mut host, START..START + STORM);
        let after = moves(host.close(Slot(START + 600)).unwrap());
        host.stop().unwrap();
        assert_eq!([before, after].concat(), undisturbed, "fell after slot {falls}");
    }
}
