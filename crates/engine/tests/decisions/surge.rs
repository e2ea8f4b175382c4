//! The surge rule against a port of its plain reference, on random streams: equal spans, all of them.

use crate::fixture::{Rng, Run, rule};
use barrage_engine::room::live::Shape;
use barrage_engine::rules::{Config, Surge, Trigger};

/// The reference, one room, integers only: (slot end of the start, slot end of the last hot slot), from slot 0.
fn reference(counts: &[u32], c: u64) -> Vec<(u64, u64)> {
    let Some(first) = counts.iter().position(|c| *c > 0) else { return Vec::new() };
    let sum = |end: usize, slots: usize| -> u64 {
        counts[end.saturating_sub(slots)..end].iter().map(|c| u64::from(*c)).sum()
    };
    let mut blocks: Vec<u64> = Vec::new();
    let mut median = 0;
    let (mut on, mut cool, mut start, mut seen) = (false, 0, 0, 0);
    let mut spans = Vec::new();
    for end in first + 1..=counts.len() {
        if end.is_multiple_of(100) && !(on && end - start < 100) {
            blocks.push(sum(end, 100));
            let mut last: Vec<u64> = blocks.iter().rev().take(18).copied().collect();
            last.sort_unstable();
            median = (last[(last.len() - 1) / 2] + last[last.len() / 2]) * 500;
        }
        let l = median.max(1_000);
        let (n3, n5) = (sum(end, 30), sum(end, 50));
        let mut hot = end - first > 300
            && (50_000 * n3 >= 33 * l + 50_000 * c || 10_000 * n5 >= 11 * l + 10_000 * c);
        hot = hot && (0..5).filter(|k| end > 10 * k && sum(end - 10 * k, 10) > 0).count() >= 3;
        if hot {
            if !on {
                (on, start) = (true, end);
            }
            (seen, cool) = (end, 0);
        } else if on {
            cool += 1;
            if cool >= 100 {
                spans.push((start as u64, seen as u64));
                on = false;
            }
        }
    }
    if on {
        spans.push((start as u64, seen as u64));
    }
    spans
}

/// A chat-like stream: quiet stretches, rushes, silences and batches of a poller.
fn stream(rng: &mut Rng) -> Vec<u32> {
    let mut counts = vec![0; rng.below(250) as usize];
    while counts.len() < 6_000 {
        let slots = 20 + rng.below(500);
        let per_second = rng.pick(&[0, 0, 1, 2, 3, 5, 8, 15, 30, 80]);
        let batch = rng.below(6) == 0;
        for i in 0..slots {
            let mut c = 0;
            for _ in 0..per_second {
                c += u32::from(rng.below(10) == 0);
            }
            if batch {
                c = if i % 50 == 0 { per_second as u32 * 5 } else { 0 };
            }
            counts.push(c);
        }
    }
    counts
}

#[test]
fn spans_equal_the_reference_on_random_streams() {
    let mut spans = 0;
    for seed in 0..200 {
        let mut rng = Rng(seed);
        let counts = stream(&mut rng);
        let c = rng.pick(&[4, 8, 8, 20]);
        let config = Config {
            rules: vec![rule("surge", Trigger::Surge(Surge { c, min_life: 300, exit_ticks: 100 }))],
            ..crate::fixture::shipped()
        };
        // The reference counts its blocks from slot 0, so the room begins on a block's edge.
        let base = 17_000_000_000;
        let mut run = Run::new(config, base);
        for count in &counts {
            run.close(*count);
        }
        let open: Vec<_> = run.state.open().collect();
        let ours: Vec<(u64, u64)> = run
            .spans
            .iter()
            .chain(&open)
            .filter(|s| s.shape == Shape::Surge)
            .map(|s| (s.from.0 + 1 - base, s.to.0 + 1 - base))
            .collect();
        let theirs = reference(&counts, u64::from(c));
        assert_eq!(ours, theirs, "seed {seed}");
        spans += ours.len();
    }
    println!("surge: {spans} spans on 200 streams, seeds 0 to 199");
    assert!(spans > 300, "too few spans to have tested anything: {spans}");
}
