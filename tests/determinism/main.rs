//! Determinism through the whole line: one leader records a control log; whoever follows it, in whatever order and
//! batches, on however many workers, from the start or from a checkpoint, comes to the same bytes.
//!
//! * `case`: the seeded input: eight partitions with late events, silence, an outage, new rules.
//! * `run`: leading and following a case.
//! * `suite`: one hash; and a global watermark, for contrast, does not have it.
//! * `restart`: checkpoints, late joiners, a restarted leader.
//!
//! `BARRAGE_SEED=n` runs one seed alone.

#[path = "case.rs"]
mod case;
#[path = "restart.rs"]
mod restart;
#[path = "run.rs"]
mod run;
#[path = "suite.rs"]
mod suite;

/// The seeds of a test: `n` of them, or the one that is asked for.
fn seeds(n: u64) -> Vec<u64> {
    match std::env::var("BARRAGE_SEED").ok().and_then(|s| s.parse().ok()) {
        Some(seed) => vec![seed],
        None => (1..=n).collect(),
    }
}
