//! Checkpoints: whoever starts from one, comes to what the undisturbed came to (semantics §1 "Restart").

use super::case::{Case, Random, T0};
use super::run::{Log, Topics, drive, follow, follower, lead, settings};
use super::seeds;
use barrage::app::{Checkpoint, Follow, Kept, Log as _, Round};
use barrage_protocol::ids::Slot;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

/// Seeds of each test.
const SEEDS: u64 = 100;

#[test]
fn a_late_joiner_from_a_checkpoint_comes_to_the_same() {
    let mut joined = 0;
    for seed in seeds(SEEDS) {
        let case = Case::new(seed);
        let mut random = Random(seed ^ 0xC0FFEE);
        let at = T0 + random.within(6_000, case.end - T0 - 2_000);
        let led = lead(&case, 1 + (seed % 2) as usize, &[at], case.end);
        let Some(checkpoint) = led.checkpoints.first() else { continue };
        joined += 1;
        let workers = random.within(1, 5) as usize;
        // As it would lie on a disk.
        let text = serde_json::to_string(checkpoint).expect("a checkpoint is written");
        let read: Checkpoint = serde_json::from_str(&text).expect("and read");
        let sources = Topics::new(&case).later(random.next());
        let line = Follow::restore(settings(workers, 64), &read, sources).expect("a follower");
        let slot = read.control.slot;
        let (log, hash, late) = follow(&case, line, &led.log.entries);
        let what = format!("seed {seed}, from slot {}, {workers} workers", slot.0);
        assert_eq!(hash, led.hash, "{what}");
        assert_eq!(late, led.late, "{what}");
        assert_eq!(log.lines, after(&led.log, slot), "{what}");
    }
    println!("{joined} joined late from a checkpoint");
    assert!(joined * 10 >= seeds(SEEDS).len() * 9, "only {joined} checkpoints could be kept");
}

#[test]
fn a_leader_that_starts_again_goes_on_as_if_nothing_had_been() {
    let mut again = 0;
    for seed in seeds(SEEDS) {
        let case = Case::new(seed);
        let mut random = Random(seed ^ 0xBADC0DE);
        let mut ends = T0 + random.within(20_000, case.end - T0 - 8_000);
        if (case.outage.1 - 500..case.outage.2).contains(&ends) {
            // Nobody can catch up on a partition that cannot be read: it starts again once it can.
            ends = case.outage.2;
        }
        let at = T0 + random.within(6_000, ends - T0 - 1_000);
        // The first leader dies at `ends`; its checkpoint and the control log are what is left.
        let before = lead(&case, 1, &[at], ends);
        let Some(checkpoint) = before.checkpoints.first() else { continue };
        again += 1;
        let topics = Topics::new(&case);
        topics.now.store(ends + 200, Ordering::Relaxed);
        let workers = random.within(1, 4) as usize;
        let mut line = Follow::restore(settings(workers, 64), checkpoint, topics.live(&case))
            .expect("a follower");
        let mut log = Log::default();
        let mut memory = barrage_engine::control::Memory::new(100_000);
        before.log.entries.iter().for_each(|e| {
            memory.append(e.clone());
        });
        for round in 0.. {
            assert!(round < 100_000, "seed {seed}: the follower stands still");
            while let Some(position) = line.wants()
                && let Some(entry) = memory.get(position)
            {
                line.entry(entry.clone());
            }
            let round = line.round(ends + 200, &mut log).expect("a round");
            assert!(line.divergence().is_none(), "seed {seed}");
            if round == Round::Finished && line.wants() == Some(memory.end()) {
                break;
            }
        }
        let mut log = Log { entries: before.log.entries.clone(), ..log };
        let mut kept = Kept::at(memory.clone(), memory.end());
        let mut line = line.claim(2, &mut kept, ends + 200, &mut log).expect("it claims");
        let (position, entry) = kept.read().expect("the log").expect("its own `lead`");
        line.entry_at(position, entry);
        line.round(ends + 200, &mut log).expect("a round");
        let line = line.into_lead(kept, ends + 200, BTreeMap::new()).expect("it leads");
        let (led, _) = drive(&case, line, &topics, log, ends + 200, &[], case.end);
        // The undisturbed one: a replay of everything from the first record on.
        let line = follower(&case, random.next(), 2, 1024);
        let (whole, hash, late) = follow(&case, line, &led.log.entries);
        let what = format!("seed {seed}, from slot {}", checkpoint.control.slot.0);
        assert_eq!(hash, led.hash, "{what}");
        assert_eq!(late, led.late, "{what}");
        // What the log did not say was done is sent again, with the same bytes: sending twice is harmless.
        let mut seen = std::collections::BTreeSet::new();
        let once: Vec<_> = led.log.lines.into_iter().filter(|l| seen.insert(l.clone())).collect();
        assert_eq!(once, after(&whole, checkpoint.control.slot), "{what}");
        let first: Vec<_> = whole.lines.iter().take(before.log.lines.len()).collect();
        assert_eq!(first, before.log.lines.iter().collect::<Vec<_>>(), "{what}");
    }
    println!("{again} leaders started again");
    assert!(again * 10 >= seeds(SEEDS).len() * 9, "only {again} checkpoints could be kept");
}

fn after(log: &Log, slot: Slot) -> Vec<(Slot, String)> {
    log.lines.iter().filter(|(at, _)| *at > slot).cloned().collect()
}
