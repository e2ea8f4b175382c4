//! Files with a recorded control log: a follower, and one that starts from a checkpoint, come to the same.

use crate::stream::{Rng, random};
use barrage_engine::control::{Checkpoint, Config, Follower, Leader, Memory, Reading, lead};
use barrage_protocol::control::Entry;
use barrage_protocol::ids::Slot;
use std::collections::BTreeMap;

type Counts = BTreeMap<Slot, Vec<(u32, u64)>>;

/// A hash of everything that was counted up to a slot, and where.
#[derive(Clone, Default)]
struct Core {
    counts: Counts,
    hash: u64,
}

impl Core {
    fn close(
        &mut self,
        from: Slot,
        upto: Slot,
        decide: bool,
        offsets: impl Fn(Slot) -> BTreeMap<u32, u64>,
    ) {
        for slot in (from.0..=upto.0).map(Slot) {
            let mut events = self.counts.remove(&slot).unwrap_or_default();
            events.sort_unstable();
            // Silence of hours is looked at now and then only.
            if decide && (!events.is_empty() || slot.0 % 64 == 0) {
                let text = format!("{slot:?} {events:?} {:?}", offsets(slot));
                for byte in text.bytes() {
                    self.hash = (self.hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3);
                }
            }
        }
    }

    fn text(&self) -> String {
        format!("{:x}", self.hash)
    }
}

fn files(rng: &mut Rng) -> Vec<Vec<Reading<u64>>> {
    (0..3).map(|p| random(rng, 400, p == 0)).collect()
}

/// Leads over the files; the log, the last hash, and a checkpoint with its hash taken on the way, through JSON.
fn record(files: &[Vec<Reading<u64>>], rng: &mut Rng) -> (Memory, Core, Vec<(String, u64)>) {
    let config = Config { window_slots: 30, ..Config::default() };
    let mut log = Memory::new(1_000_000);
    log.append(lead(1));
    let mut leader = Leader::new(config, 1, 0);
    (0..files.len()).for_each(|p| leader.add_partition(p as u32, 0, 0));
    let (mut core, mut at, mut kept) = (Core::default(), vec![0; files.len()], Vec::new());
    let mut now = 0;
    while !leader.is_finished() {
        now += rng.range(0, 300);
        let counts = &mut core.counts;
        let mut sink = |p, slot, id| counts.entry(slot).or_default().push((p, id));
        assert!(!leader.turn(now, &mut sink));
        let p = (rng.next() % files.len() as u64) as usize;
        if leader.can_read(p as u32) {
            let to = files[p].len().min(at[p] + rng.range(1, 9) as usize);
            files[p][at[p]..to].iter().for_each(|r| leader.read(p as u32, *r, &mut sink));
            at[p] = to;
            leader.answered(p as u32, now, false);
            if to == files[p].len() {
                leader.ended(p as u32, &mut sink);
            }
        }
        leader.records_due();
        if let Some(upto) = leader.closable(now) {
            let from = leader.last_closed().unwrap().next();
            core.close(from, upto, true, |slot| leader.offsets_at(slot));
            leader.closed(upto, &core.text(), rng.percent(20));
            if let Some(checkpoint) = leader.checkpoint().filter(|_| rng.percent(10)) {
                kept.push((serde_json::to_string(&checkpoint).unwrap(), core.hash));
            }
        }
        while let Some(step) = leader.step(now) {
            let text = serde_json::to_string(&Entry::Step(step)).unwrap();
            log.append(serde_json::from_str(&text).unwrap());
        }
        while let Some(entry) = log.get(leader.position()) {
            leader.entry(entry);
        }
    }
    (log, core, kept)
}

/// Follows to the end of the log. `hash`: that of the checkpoint, to be taken where windows are rebuilt.
fn follow(
    mut follower: Follower<u64>,
    hash: u64,
    files: &[Vec<Reading<u64>>],
    log: &Memory,
    rng: &mut Rng,
) -> Core {
    let mut core = Core { hash, ..Core::default() };
    let mut now = 0;
    while !(follower.is_up_to_date() && follower.position() == log.end()) {
        now += 10;
        assert!(now < 1_000_000, "it comes to an end: {:?}", follower.last_closed());
        while follower.wants_entries()
            && let Some(entry) = log.get(follower.position())
        {
            follower.entry(entry.clone());
        }
        let mut counts = std::mem::take(&mut core.counts);
        if follower.turn(now, &mut |p, slot, id| counts.entry(slot).or_default().push((p, id))) {
            counts.clear();
        }
        let mut sink = |p, slot, id| counts.entry(slot).or_default().push((p, id));
        for (p, file) in (0..).zip(files) {
            if let Some(wanted) = follower.wanted(p) {
                let below = |r: &&Reading<u64>| wanted.contains(&r.offset);
                let n = rng.range(1, 50) as usize;
                let mut last = wanted.start;
                for reading in file.iter().filter(below).take(n) {
                    follower.read(p, *reading, &mut sink);
                    last = reading.offset;
                }
                if file.last().is_some_and(|r| r.offset <= last) && follower.wanted(p).is_some() {
                    follower.ended(p);
                }
            }
        }
        core.counts = counts;
        follower.records_due();
        if let Some(upto) = follower.closable() {
            let decide = follower.rebuilds_to().is_none();
            core.close(follower.last_closed().unwrap().next(), upto, decide, |slot| {
                follower.offsets_at(slot)
            });
            follower.closed(upto, &core.text());
        }
        assert_eq!(follower.divergence(), None);
    }
    assert_eq!((follower.misplaced(), follower.alarms().missing), (0, 0));
    core
}

#[test]
fn replays_and_restarts_come_to_the_same() {
    let mut restarts = 0;
    for seed in 0..100 {
        let mut rng = Rng(seed);
        let files = files(&mut rng);
        let (log, core, kept) = record(&files, &mut rng);
        let config = Config { window_slots: 30, ..Config::default() };
        let again = follow(Follower::new(config.clone(), 0), 0, &files, &log, &mut rng);
        assert_eq!(again.hash, core.hash, "seed {seed}: replay");
        for (text, hash) in kept.into_iter().rev().take(5) {
            let checkpoint: Checkpoint<u64> = serde_json::from_str(&text).unwrap();
            let follower = Follower::restore(config.clone(), &checkpoint);
            let again = follow(follower, hash, &files, &log, &mut rng);
            assert_eq!(again.hash, core.hash, "seed {seed}: from slot {}", checkpoint.slot.0);
            restarts += 1;
        }
    }
    assert!(restarts > 100, "{restarts} restarts");
}
