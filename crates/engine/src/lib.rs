//! Pure decisions: the same inputs give the same decisions on any machine, at any time, in any order of arrival
//! that the control log allows. Nothing here reads a clock, does input or output, or iterates in hash order.
//!
//! * [`control`]: what closes a slot: partition clocks, steps, leader, follower, checkpoints (semantics §1).
//! * [`precount`]: events of an open slot become counts.
//! * [`windows`]: sliding sums per room as a log of closed slots (semantics §2).
//! * [`features`]: the numbers about a room at a slot, and exact comparisons on them.
//! * [`rules`]: rule sets: read, validated, resolved per group.
//! * [`room`]: rules and ladder of one room, stepped slot by slot (semantics §3, §4).
//! * [`blast`]: the arbiter of the blast radius.
//! * [`decision`]: identity, canonical form, running hash (semantics §9).

pub mod blast;
pub mod control;
pub mod decision;
pub mod features;
pub mod fixed;
pub mod precount;
pub mod prefetch;
pub mod room;
pub mod rules;
pub mod windows;
