//! Snapshot and restore at random slots: what follows is the same byte for byte, on any number of workers.

use crate::random::{low, same, stream};
use crate::stream::{Log, Rng, START, Stream, feed, run};
use barrage::worker::Host;
use barrage_dataflows::command::Options;
use barrage_dataflows::snapshot::Snapshot;
use barrage_engine::rules::RuleSet;
use barrage_protocol::ids::{Level, Slot};
use std::sync::Arc;

/// Through its written form, as a checkpoint is.
fn written(snapshot: &Snapshot) -> Arc<Snapshot> {
    let text = serde_json::to_string(snapshot).unwrap();
    Arc::new(serde_json::from_str(&text).unwrap())
}

/// A host restored from a snapshot, fed with the slots that rebuild its windows.
fn restored(snapshot: &Snapshot, stream: &Stream, workers: usize, rng: &mut Rng) -> Host {
    let first = snapshot.first().max(Slot(START));
    let mut host = Host::restore(workers, written(snapshot), first, Options::default()).unwrap();
    let quiet = run(&mut host, stream, (first.0, snapshot.slot().0), 0, rng);
    assert!(quiet.is_empty(), "decided again while restoring");
    host
}

#[test]
fn decisions_after_a_restart_are_the_undisturbed_ones() {
    for seed in 200..225 {
        let mut rng = Rng(seed);
        let rules = Arc::new(low(&mut rng));
        let stream = stream(&mut rng, 2_400);
        let at = START + 50 + rng.below(2_200);
        let again = at + 1 + rng.below(900);
        let workers = 1 + rng.below(3) as usize;
        let mut host =
            Host::start(workers, Slot(START), Arc::clone(&rules), Options::default()).unwrap();
        run(&mut host, &stream, (START, at), 0, &mut rng);
        let snapshot = host.snapshot().unwrap();
        assert_eq!(snapshot.slot(), Slot(at));
        let what = format!("seed {seed}, slot {}", at - START);
        // The same instance goes on undisturbed.
        let first = run(&mut host, &stream, (at + 1, again), 0, &mut rng);
        let later = host.snapshot().unwrap();
        let rest = run(&mut host, &stream, (again + 1, stream.end + 900), 0, &mut rng);
        host.stop().unwrap();

        let others = 1 + rng.below(4) as usize;
        let mut host = restored(&snapshot, &stream, others, &mut rng);
        assert_eq!(host.snapshot().unwrap(), snapshot, "{what}: what was taken in");
        let log = run(&mut host, &stream, (at + 1, again), 0, &mut rng);
        same(&log, &first, &what);
        assert_eq!(host.snapshot().unwrap(), later, "{what}: a later snapshot");
        host.stop().unwrap();

        let mut host = restored(&later, &stream, workers, &mut rng);
        let log = run(&mut host, &stream, (again + 1, stream.end + 900), 0, &mut rng);
        same(&log, &rest, &format!("{what}, second restart"));
        host.stop().unwrap();
    }
}

/// What has come for later slots is not in a snapshot: counts, names, a rule set. It comes again after a restart.
#[test]
fn a_snapshot_ends_at_its_slot() {
    let mut decided = 0;
    for seed in 230..236 {
        let mut rng = Rng(seed);
        let rules = Arc::new(low(&mut rng));
        let next = Arc::new(low(&mut rng));
        let stream = stream(&mut rng, 1_500);
        let at = START + 400 + rng.below(800);
        let start = || Host::start(2, Slot(START), Arc::clone(&rules), Options::default()).unwrap();
        let mut host = start();
        run(&mut host, &stream, (START, at), 0, &mut rng);
        let plain = host.snapshot().unwrap();
        host.stop().unwrap();

        let mut host = start();
        run(&mut host, &stream, (START, at), 0, &mut rng);
        for slot in at + 1..=at + 20 {
            feed(&mut host, &stream, slot, &mut rng);
        }
        host.rules(Slot(at + 7), Arc::clone(&next)).unwrap();
        host.absent(Slot(at + 9), 2).unwrap();
        assert_eq!(host.snapshot().unwrap(), plain, "seed {seed}");
        let first = host.close(Slot(at + 20)).unwrap();
        let mut expected: Log = first.into_iter().flat_map(|(_, ds)| ds).collect();
        expected.extend(run(&mut host, &stream, (at + 21, stream.end), 0, &mut rng));
        host.stop().unwrap();

        let mut host = restored(&plain, &stream, 3, &mut rng);
        host.rules(Slot(at + 7), Arc::clone(&next)).unwrap();
        host.absent(Slot(at + 9), 2).unwrap();
        let log = run(&mut host, &stream, (at + 1, stream.end), 0, &mut rng);
        host.stop().unwrap();
        same(&log, &expected, &format!("seed {seed}"));
        decided += log.len();
    }
    assert!(decided > 10, "{decided} decisions after the restarts");
}

/// A start without a checkpoint: levels read from the policies hold, and fall only when the windows are full.
#[test]
fn seeded_levels_hold_until_the_windows_are_full() {
    for workers in [1, 3] {
        let rules = Arc::new(RuleSet::shipped());
        let mut host = Host::start(workers, Slot(START), rules, Options::default()).unwrap();
        let levels = vec![("silent".into(), Level(2)), ("busy".into(), Level(1))];
        host.seed(levels, Slot(START + 700)).unwrap();
        let mut stream = Stream::default();
        stream.steady("busy", 500, &[(3_000, 20_000), (0, 150_000)]);
        let log = run(&mut host, &stream, (START, stream.end), 0, &mut Rng(9));
        host.stop().unwrap();
        let of = |room: &str| -> Vec<(u64, String)> {
            let all = log.iter().filter(|d| d.subject == room && d.to.len() == 1);
            all.map(|d| (d.slot.0 - START, d.to.clone())).collect()
        };
        let silent = of("silent");
        assert_eq!(silent[0], (700, "1".to_owned()), "{silent:?}");
        assert_eq!(silent[1], (800, "0".to_owned()), "{silent:?}");
        let busy = of("busy");
        assert_eq!((busy[0].1.as_str(), busy[1].1.as_str()), ("2", "1"), "{busy:?}");
        assert!(busy[0].0 < 100 && busy[1].0 >= 700, "{busy:?}");
    }
}
