//! The parts of the demo that are nobody else's: a simulated edge, the pace of event time, what is told at the end.
//!
//! * [`gate`]: every message put through an edge's table, and counted.
//! * [`pace`]: event time against the clock: the beginning at full speed, then so many times real time.
//! * [`span`]: durations as people type them.

pub mod gate;
pub mod pace;
pub mod span;

pub use gate::Gate;
pub use pace::Pace;
